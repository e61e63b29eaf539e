/* SPDX-License-Identifier: GPL-2.0 */
/* The pages of a ring. */
#ifndef L5_PAGES_H
#define L5_PAGES_H

#include "l5.h"

/* Pages of a ring that a connection is sure of. */
#define L5_GRANT	2
/* Pages that a ring keeps when it is idle, if it was never mapped. */
#define L5_RING_KEEPS	64u

/* Places of a ring, each as long as a page */
static inline u32 l5_ring_places(const struct l5_end *e)
{
	return READ_ONCE(e->size) >> PAGE_SHIFT;
}

/* After so many places, pages come again. */
static inline u32 l5_ring_period(const struct l5_end *e)
{
	return e->fold ?: l5_ring_places(e);
}

struct page *l5_ring_page(struct l5_end *e, u64 pos);
u64 *l5_ring_slot(struct l5_end *e, u64 pos);
void l5_fill_lock(struct l5_conn *conn);
void l5_fill_unlock(struct l5_conn *conn);
int l5_ring_fill(struct l5_sock *l5, struct l5_end *e, u32 len);
struct page **l5_ring_page_at(struct l5_end *e, u64 number);
void l5_ring_grew(struct l5_end *e);
struct l5_pages *l5_ring_array(u32 size, const struct l5_payer *payer,
			       gfp_t how);
void l5_ring_place_array(struct l5_end *e, struct l5_pages **pages);

#endif /* L5_PAGES_H */
