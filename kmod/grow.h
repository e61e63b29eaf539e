/* SPDX-License-Identifier: GPL-2.0 */
/* Rings that grow, since nobody reads them. */
#ifndef L5_GROW_H
#define L5_GROW_H

#include "l5.h"

u32 l5_ring_longest(const struct l5_net *ln);
void l5_ring_full(struct l5_sock *l5);
bool l5_grow_due(struct l5_conn *conn, int ring, unsigned long after);
void l5_grow_done(struct l5_end *e, int err);
int l5_ring_enlarge(struct l5_sock *l5, struct l5_conn *conn, int ring);
unsigned long l5_grow_next(const struct l5_end *e, unsigned long after);

#endif /* L5_GROW_H */
