/* SPDX-License-Identifier: GPL-2.0 */
/* What an end of a connection is told. */
#ifndef L5_END_H
#define L5_END_H

#include "l5.h"

void l5_bell(struct l5_end *e, u32 *wait, bool room);
void l5_end_wake(struct l5_sock *l5);
void l5_conn_bell(struct l5_conn *conn, int end, bool room);
void l5_conn_changed(struct l5_conn *conn, int end);
void l5_conn_unlocked(struct l5_conn *conn, int end);
bool l5_end_async(struct l5_end *e);
bool l5_rx_ended(struct l5_sock *l5);
bool l5_tx_ended(struct l5_sock *l5);
void l5_map_flag(struct l5_end *e, u32 flags);
void l5_map_note(struct l5_sock *l5);

/* Is the socket of an end released? One that is not accepted yet is not. */
static inline bool l5_end_gone(const struct l5_end *e)
{
	return test_bit(L5_END_CLOSED, &e->flags) &&
	       !rcu_access_pointer(e->sk);
}

#endif /* L5_END_H */
