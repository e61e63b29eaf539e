/* SPDX-License-Identifier: GPL-2.0 */
/* Options that a socket and its bootstrap have in common. */
#ifndef L5_OPTS_H
#define L5_OPTS_H

#include "l5.h"

/* What asks for the time of packets, which rings do not have. */
#define L5_STAMP_FLAGS							\
	(BIT(SOCK_RCVTSTAMP) | BIT(SOCK_RCVTSTAMPNS) |			\
	 BIT(SOCK_TSTAMP_NEW) | BIT(SOCK_TXTIME) | L5_STAMPING_ANY)

void l5_opts_push(struct l5_sock *l5);
void l5_opts_changed(struct sock *sk);
void l5_write_space(struct sock *sk);
void l5_opts_pull(struct l5_sock *l5);
void l5_keepalive(struct sock *sk, int on);
void l5_rehash(struct sock *sk);
int l5_set_rcvlowat(struct sock *sk, int val);
void l5_opts_inherit(struct l5_sock *l5, const struct l5_sock *listener);

#endif /* L5_OPTS_H */
