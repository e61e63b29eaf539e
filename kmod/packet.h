/* SPDX-License-Identifier: GPL-2.0 */
/* SOCK_SEQPACKET: messages by system call. */
#ifndef L5_PACKET_H
#define L5_PACKET_H

#include "l5.h"

int l5_packet_sendmsg(struct l5_sock *l5, struct msghdr *msg, size_t len);
int l5_packet_recvmsg(struct l5_sock *l5, struct msghdr *msg, size_t len,
		      int flags);

#endif /* L5_PACKET_H */
