/* SPDX-License-Identifier: GPL-2.0 */
/* Waiting for bytes, and for room. */
#ifndef L5_WAIT_H
#define L5_WAIT_H

#include <linux/sched/signal.h>
#include <linux/wait.h>

#include "link.h"
#include "netns.h"

/*
 * Sleep until there is something to do. The wait word is armed before the look
 * that decides to sleep: see l5_ring.h, E and F. If the ring is ready at once
 * the word stays clear, or the peer would ring for nothing.
 *
 * Return: 0, -EAGAIN after *timeo, or as sock_intr_errno().
 */
#define l5_sleep(l5, timeo, arm, ready) ({				\
	struct l5_sock *__l5 = (l5);					\
	long *__timeo = (timeo);					\
	DEFINE_WAIT_FUNC(__wait, woken_wake_function);			\
	int __err = 0;							\
									\
	add_wait_queue(sk_sleep(&__l5->sk), &__wait);			\
	while (!(ready)) {						\
		arm(__l5);						\
		if (ready)						\
			break;						\
		if (!*__timeo)						\
			__err = -EAGAIN;				\
		else if (signal_pending(current))			\
			__err = sock_intr_errno(*__timeo);		\
		if (__err)						\
			break;						\
		l5_count(__l5, L5_STAT_SLEEPS, 1);			\
		*__timeo = wait_woken(&__wait, TASK_INTERRUPTIBLE,	\
				      *__timeo);			\
	}								\
	remove_wait_queue(sk_sleep(&__l5->sk), &__wait);		\
	__err;								\
})

/* This end has received. */
static inline void l5_awaits_no_more(struct l5_sock *l5)
{
	const struct l5_ctrl *ctrl = l5_own(l5)->ctrl;

	WRITE_ONCE(l5->got_head, l5_load(&ctrl->rx_head));
	WRITE_ONCE(l5->got_tail, l5_load(&ctrl->tx_tail));
}

int l5_again(long timeo);
void l5_poll_spin(struct l5_sock *l5, struct file *file);
void l5_poll_done(struct l5_sock *l5);
int l5_wait_rx(struct l5_sock *l5, long *timeo, bool may_spin, size_t seen);

#endif /* L5_WAIT_H */
