/* SPDX-License-Identifier: GPL-2.0 */
/* Rings that processes do not see any more. */
#ifndef L5_DEMOTE_H
#define L5_DEMOTE_H

#include "l5.h"

struct l5_sock *l5_end_sock(const struct l5_end *e);
int l5_ring_leave(struct l5_conn *conn, int ring, u64 head, u64 tail);
int l5_ring_demote(struct l5_conn *conn, int ring);

#endif /* L5_DEMOTE_H */
