/* SPDX-License-Identifier: GPL-2.0 */
/* The lock words of both directions. */
#ifndef L5_KMOD_LOCK_H
#define L5_KMOD_LOCK_H

#include "l5.h"

int l5_ring_lock(struct l5_sock *l5, int dir, long *timeo);
int l5_ring_trylock(struct l5_sock *l5, int dir);
void l5_ring_unlock(struct l5_sock *l5, int dir);
int l5_ring_lock_wait(struct l5_sock *l5, int dir);

#endif /* L5_KMOD_LOCK_H */
