/* SPDX-License-Identifier: GPL-2.0 */
/* connect() */
#ifndef L5_CONNECT_H
#define L5_CONNECT_H

#include "l5.h"

bool l5_early_begin(struct l5_sock *l5, enum l5_reason why);
void l5_early_end(struct l5_sock *l5);
void l5_connect_settle(struct l5_sock *l5);
void l5_connect_failed(struct l5_sock *l5);
int l5_connect(struct socket *sock, struct l5_sockaddr *addr, int len,
	       int flags);

#endif /* L5_CONNECT_H */
