/* SPDX-License-Identifier: GPL-2.0 */
/* Listeners that want bytes before there is a connection. */
#ifndef L5_DEFER_H
#define L5_DEFER_H

#include "l5.h"

int l5_defer_send(struct l5_sock *l5, struct msghdr *msg);
long l5_defer_recv(struct l5_sock *l5, long timeo);
void l5_defer_drop(struct l5_sock *l5);

#endif /* L5_DEFER_H */
