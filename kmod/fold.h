/* SPDX-License-Identifier: GPL-2.0 */
/* The pages of rings that are mapped. */
#ifndef L5_FOLD_H
#define L5_FOLD_H

#include "l5.h"

/* Pages of a ring that is mapped, until its writer needs more */
#define L5_FOLD_LEAST	2u
/* As many as the ring has places */
#define L5_FOLD_WHOLE	U32_MAX

/* After so long it is worth trying again to get pages that were refused. */
#define L5_POOR_PAUSE	(HZ / 10 ?: 1)

/**
 * l5_fold_window() - bytes that a writer may use of a ring at a time
 * @e: its end
 *
 * Context: any.
 * Return: as many as there are pages for, from any position on.
 */
static inline u32 l5_fold_window(const struct l5_end *e)
{
	/* AY, pairs with AX */
	u32 fold = smp_load_acquire(&e->fold);
	u32 size = READ_ONCE(e->size);

	return fold && fold < size >> PAGE_SHIFT ? (fold - 1) << PAGE_SHIFT :
						   size;
}

void l5_ring_spread(struct l5_end *e, u64 first, u32 fold);
int l5_ring_populate(struct l5_conn *conn, int by, u32 most, u32 least);
int l5_ring_unfold(struct l5_sock *l5, struct l5_conn *conn, int ring, u32 len);
void l5_ring_idle_later(struct l5_conn *conn, unsigned long pause, bool soon);
void l5_ring_hope(struct l5_sock *l5);
u32 l5_ring_extent(const struct l5_sock *l5);
void l5_map_extent(struct l5_sock *l5);
void l5_rings_unlock(struct l5_conn *conn);
bool l5_rings_trylock(struct l5_conn *conn, int first);

#endif /* L5_FOLD_H */
