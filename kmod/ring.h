/* SPDX-License-Identifier: GPL-2.0 */
/* What conn.c, pages.c, ring.c and lock.c have for each other alone. */
#ifndef L5_KMOD_RING_H
#define L5_KMOD_RING_H

#include "l5.h"

/* Pages of a ring that a connection is sure of. */
#define L5_GRANT	2

/* acct.c */
bool l5_reserve(const struct l5_payer *p, long pages);
void l5_unreserve(const struct l5_payer *p, long pages);
struct page *l5_page_alloc(const struct l5_payer *p, bool hard);
void l5_page_free(const struct l5_payer *p, struct page *page);

/* conn.c */
void l5_bell(struct l5_end *e, u32 *wait, bool room);

/* pages.c */
struct page *l5_ring_page(struct l5_end *e, u64 pos);
u64 *l5_ring_slot(struct l5_end *e, u64 pos);
int l5_ring_fill(struct l5_sock *l5, struct l5_end *e, u32 len);

/* ring.c */
void l5_ring_freed(struct l5_sock *l5);

#endif /* L5_KMOD_RING_H */
