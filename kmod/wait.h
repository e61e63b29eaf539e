/* SPDX-License-Identifier: GPL-2.0 */
/* Waiting for bytes, and for room. */
#ifndef L5_WAIT_H
#define L5_WAIT_H

#include <linux/sched/signal.h>
#include <linux/wait.h>

#include "link.h"
#include "netns.h"

/* How long a call that may not wait goes on for what others change. */
#define L5_PATIENCE	(HZ / 20)

/**
 * struct l5_rounds - how often a call found nothing since it last got on
 * @start: jiffies when it first did
 * @timeo: jiffies that it might take from then on
 * @on: whether it has
 */
struct l5_rounds {
	unsigned long start;
	long timeo;
	bool on;
};

/**
 * l5_time_left() - how much of a time-out is left
 * @start: when it began, jiffies
 * @timeo: the time-out, jiffies, or MAX_SCHEDULE_TIMEOUT
 *
 * The time is that of the clock, not what was slept: a task that others wake
 * again and again, or whose look and whose question see different things, does
 * not sleep.
 *
 * Context: any.
 * Return: jiffies, 0 if nothing is left.
 */
static inline long l5_time_left(unsigned long start, long timeo)
{
	unsigned long gone = jiffies - start;

	if (timeo == MAX_SCHEDULE_TIMEOUT)
		return timeo;
	return gone < (unsigned long)timeo ? timeo - (long)gone : 0;
}

/*
 * Sleep until there is something to do. The wait word is armed before the look
 * that decides to sleep: see l5_ring.h, E and F. If the ring is ready at once
 * the word stays clear, or the peer would ring for nothing.
 *
 * Return: 0, -EAGAIN after *timeo, or as sock_intr_errno().
 */
#define l5_sleep(l5, timeo, arm, ready) ({				\
	DEFINE_WAIT_FUNC(__entry, woken_wake_function);			\
									\
	l5_sleep_by(&__entry, l5, timeo, arm, ready);			\
})

/* The same by an entry for the wait queue that the caller has */
#define l5_sleep_by(entry, l5, timeo, arm, ready) ({			\
	struct wait_queue_entry *__wait = (entry);			\
	struct l5_sock *__l5 = (l5);					\
	long *__timeo = (timeo), __all = *__timeo;			\
	unsigned long __start = jiffies;				\
	int __err = 0;							\
									\
	add_wait_queue(sk_sleep(&__l5->sk), __wait);			\
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
		wait_woken(__wait, TASK_INTERRUPTIBLE, *__timeo);	\
		*__timeo = l5_time_left(__start, __all);		\
	}								\
	remove_wait_queue(sk_sleep(&__l5->sk), __wait);			\
	__err;								\
})

/**
 * l5_awaits_no_more() - this end has received: the rings have news
 * @l5: the socket
 *
 * Context: any.
 */
static inline void l5_awaits_no_more(struct l5_sock *l5)
{
	const struct l5_ctrl *ctrl = l5_own(l5)->ctrl;

	WRITE_ONCE(l5->got_head, l5_load(&ctrl->rx_head));
	WRITE_ONCE(l5->got_tail, l5_load(&ctrl->tx_tail));
}

void l5_ring_owed(struct l5_sock *l5);
int l5_again(struct l5_rounds *r, long *timeo);
void l5_poll_spin(struct l5_sock *l5, struct file *file);
void l5_poll_done(struct l5_sock *l5);
void l5_wait_next(struct l5_sock *l5);
int l5_wait_rx(struct l5_sock *l5, long *timeo, bool may_spin, size_t seen);

#endif /* L5_WAIT_H */
