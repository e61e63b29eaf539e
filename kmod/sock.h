/* SPDX-License-Identifier: GPL-2.0 */
/* How a socket is made. */
#ifndef L5_SOCK_H
#define L5_SOCK_H

#include "l5.h"

extern int l5_family;
extern bool l5_refuse;
extern struct proto l5_proto;

void l5_sock_setup(struct sock *sk);
struct l5_sock *l5_sock_alloc(struct net *net, struct socket *sock, int kern);
int l5_sock_begin(struct l5_sock *l5, const struct l5_boot_ops *bops, int kern);
void l5_sock_end(struct l5_sock *l5);

#endif /* L5_SOCK_H */
