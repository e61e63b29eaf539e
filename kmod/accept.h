/* SPDX-License-Identifier: GPL-2.0 */
/* accept() */
#ifndef L5_ACCEPT_H
#define L5_ACCEPT_H

#include "l5.h"

int l5_accept(struct socket *sock, struct socket *newsock, L5_ACCEPT_ARGS);

#endif /* L5_ACCEPT_H */
