/* SPDX-License-Identifier: GPL-2.0 */
/* Waiting until nothing is under way on loopback. */
#ifndef L5_SETTLE_H
#define L5_SETTLE_H

/*
 * Wait until all packets that were sent over loopback have arrived, and their
 * answers, and what these caused, but not what only a timer sends. This sleeps,
 * so it is not to be called where another thread waits for the caller to sleep.
 */
void l5_settle(void);

#endif /* L5_SETTLE_H */
