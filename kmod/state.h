/* SPDX-License-Identifier: GPL-2.0 */
/* What every part asks of a socket. */
#ifndef L5_STATE_H
#define L5_STATE_H

#include "l5.h"

/*
 * For work that may sleep, of all sockets of all users. So no work in it waits
 * for a lock that a task may hold over a fault of its own, as l5_sock.lock and
 * those of bootstraps are: it tries the lock, and tries again later.
 */
extern struct workqueue_struct *l5_wq;
extern struct workqueue_struct *l5_drop_wq;

/**
 * l5_far_only() - did a program ask for rings with another host alone?
 * @l5: the socket, or a listener
 *
 * Context: any.
 */
static inline bool l5_far_only(const struct l5_sock *l5)
{
	return READ_ONCE(l5->force) == L5_TRANSPORT_RDMA;
}

bool l5_set_state(struct l5_sock *l5, int to, enum l5_reason reason);
bool l5_set_moved(struct l5_sock *l5);
enum l5_reason l5_why_not(const struct l5_sock *l5);
bool l5_undecided(struct l5_sock *l5);
bool l5_decided(struct l5_sock *l5);
long l5_wait_decided(struct l5_sock *l5, long timeo);

#endif /* L5_STATE_H */
