/* SPDX-License-Identifier: GPL-2.0 */
/* shutdown(), and the release of a socket. */
#ifndef L5_CLOSE_H
#define L5_CLOSE_H

#include "l5.h"

void l5_boot_release(struct l5_sock *l5);
int l5_shutdown(struct socket *sock, int how);
bool l5_shutdown_try(struct socket *sock, int how);

#endif /* L5_CLOSE_H */
