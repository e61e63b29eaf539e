/* SPDX-License-Identifier: GPL-2.0 */
/* send(), recv(), ioctl() */
#ifndef L5_KMOD_IO_H
#define L5_KMOD_IO_H

#include "l5.h"

int l5_sendmsg(struct socket *sock, struct msghdr *msg, size_t len);
int l5_recvmsg(struct socket *sock, struct msghdr *msg, size_t len, int flags);
int l5_ioctl(struct socket *sock, unsigned int cmd, unsigned long arg);
int l5_sock_ioctl(struct sock *sk, int cmd, int *answer);
#ifdef CONFIG_COMPAT
int l5_compat_ioctl(struct socket *sock, unsigned int cmd, unsigned long arg);
#endif
long l5_wait_carrier(struct l5_sock *l5, long timeo);

#endif /* L5_KMOD_IO_H */
