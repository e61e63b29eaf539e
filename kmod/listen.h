/* SPDX-License-Identifier: GPL-2.0 */
/* Listeners, and how they end. */
#ifndef L5_LISTEN_H
#define L5_LISTEN_H

#include "l5.h"

bool l5_listen_ended(struct l5_sock *l5);
int l5_listen_settle(struct l5_sock *l5);
void l5_boot_listened(struct work_struct *work);
int l5_listen(struct socket *sock, int backlog);

#endif /* L5_LISTEN_H */
