/* SPDX-License-Identifier: GPL-2.0 */
/* The pages of a ring. */
#ifndef L5_PAGES_H
#define L5_PAGES_H

#include "l5.h"

/* Pages of a ring that a connection is sure of. */
#define L5_GRANT	2

struct page *l5_ring_page(struct l5_end *e, u64 pos);
u64 *l5_ring_slot(struct l5_end *e, u64 pos);
void l5_fill_lock(struct l5_conn *conn);
void l5_fill_unlock(struct l5_conn *conn);
int l5_ring_fill(struct l5_sock *l5, struct l5_end *e, u32 len);
int l5_ring_populate(struct l5_conn *conn, int by, u32 most);

#endif /* L5_PAGES_H */
