/* SPDX-License-Identifier: GPL-2.0 */
/* What the bootstrap says to a call. */
#ifndef L5_ANSWER_H
#define L5_ANSWER_H

#include "l5.h"

void l5_boot_use(struct l5_sock *l5);
int l5_boot_sendmsg(struct l5_sock *l5, struct msghdr *msg, size_t len);
int l5_boot_recvmsg(struct l5_sock *l5, struct msghdr *msg, size_t len,
		    int flags);
int l5_rx_answer(struct l5_sock *l5, struct msghdr *msg, size_t len, int flags);
int l5_tx_answer(struct l5_sock *l5, int flags);

#endif /* L5_ANSWER_H */
