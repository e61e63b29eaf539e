/* SPDX-License-Identifier: GPL-2.0 */
#ifndef L5_PAIR_H
#define L5_PAIR_H

struct socket;

int l5_socketpair(struct socket *one, struct socket *other);

#endif /* L5_PAIR_H */
