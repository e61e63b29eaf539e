/* SPDX-License-Identifier: GPL-2.0 */
/* How a socket is made. */
#ifndef L5_SOCK_H
#define L5_SOCK_H

#include "l5.h"

extern int l5_family;
extern struct proto l5_proto;

struct l5_sock *l5_sock_alloc(struct net *net, struct socket *sock, int kern);

#endif /* L5_SOCK_H */
