/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The rings of a connection as this process has them mapped: what libl5 and
 * the preload library have in common. No function here blocks; none allocates
 * memory by malloc(), changes errno, or makes a system call other than those of
 * uapi/l5.h, mmap(), sched_yield() and the clock's.
 *
 * What cannot be done by rings is for the caller to do by the plain system
 * call, which is always right: mapped traffic and system calls on a socket are
 * coherent in every order.
 *
 * One sends:	n = l5_map_send1(m, fd, buf, len);
 *		n > 0: so many bytes went. Else:
 *		L5_TRY_AGAIN: full. Blocking: l5_map_wait_tx(), and if that
 *			gives up, send(2), which sleeps and sends, and then
 *			l5_map_woke_tx(). Nonblocking: send(2) with
 *			MSG_DONTWAIT, since that is what arms EPOLLOUT.
 *		L5_TRY_ASK: do the system call; it knows why.
 *		L5_TRY_ROOM: do it, also for the rest of a call that has moved
 *			something; it gets memory for the ring.
 *		L5_TRY_BUSY: another thread or process has the lock word, or
 *			has only written that it has: do the system call, which
 *			has time-outs and hears signals; or, if it must not be
 *			made, wait by l5_map_lock_nap().
 *		L5_TRY_NESTED: errno EDEADLK.
 *		L5_TRY_BROKEN: errno EPROTO.
 * Receiving is the same, but that a nonblocking caller may have EAGAIN at once.
 */
#ifndef L5_MAP_H
#define L5_MAP_H

#include "adapt.h"
#include "base.h"
#include "clock.h"
#include "copy.h"
#include "held.h"
#include "mapped.h"
#include "move.h"
#include "ready.h"
#include "signals.h"
#include "wait.h"

#endif /* L5_MAP_H */
