// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: waiting for bytes: looking at the ring for a while, then sleeping.
 */
#include <linux/sched/clock.h>
#include <linux/sched/signal.h>
#include <linux/sched/stat.h>

#include "end.h"
#include "link.h"
#include "netns.h"
#include "ring.h"
#include "unread.h"
#include "wait.h"

/**
 * l5_ring_owed() - ring the peer's doorbell for a process that could not
 * @l5: a socket in state L5_RINGS
 *
 * A filter of system calls may refuse the call that rings to a process that
 * mapped this end. The process was about to ring since it had seen the peer's
 * wait word, and only a ring clears that word; so no barrier is needed here.
 * The words are a hint, and may be lies that two ends tell of each other. So a
 * peer on this host is asked what it would find: a task that polls both ends
 * would go on waking itself, and does not look at the time meanwhile.
 *
 * Context: process.
 */
void l5_ring_owed(struct l5_sock *l5)
{
	const struct l5_ctrl *own = l5_own(l5)->ctrl;
	struct l5_end *peer = l5_peer(l5);
	const struct l5_ctrl *ctrl = peer->ctrl;
	struct sock *sk;
	int bells = 0;

	if (l5_wants_data(ctrl) &&
	    l5_load(&own->tx_tail) != l5_load(&ctrl->rx_head))
		bells |= L5_BELL_DATA;
	if (l5_wants_room(ctrl, l5_load(&own->rx_head),
			  READ_ONCE(peer->size)))
		bells |= L5_BELL_ROOM;
	if (likely(!bells))
		return;
	rcu_read_lock();
	sk = rcu_dereference(peer->sk);
	if (sk && !l5_ring_readable(l5_sk(sk)))
		bells &= ~L5_BELL_DATA;
	if (sk && !l5_ring_writable(l5_sk(sk)))
		bells &= ~L5_BELL_ROOM;
	rcu_read_unlock();
	if (bells)
		l5_link_ring(l5->conn, !l5->end, bells);
}

/* Is there more to receive than the @seen bytes that a peek left in place? */
static bool l5_rx_ready(struct l5_sock *l5, size_t seen)
{
	if (l5_rx_ended(l5))
		return true;
	return seen ? l5_ring_holds(l5, seen + 1) : l5_ring_readable(l5);
}

/**
 * l5_again() - before a look that may not sleep
 * @r: of the call; its @on is cleared when the call gets on
 * @timeo: jiffies that the call may take, and what is left of them
 *
 * The ring was found empty, or full, maybe after it had been said that it was
 * not. Other processes that share the socket may have been faster, again and
 * again; or they write to the cursors, so that the question and the look see
 * different things. No such round sleeps, so each looks for signals and at the
 * time by itself.
 *
 * Return: 0, -EAGAIN if the time is over, or as sock_intr_errno() if there is a
 * signal.
 */
int l5_again(struct l5_rounds *r, long *timeo)
{
	long left;

	if (!r->on) {
		*r = (struct l5_rounds){ jiffies, *timeo ?: L5_PATIENCE, true };
		return 0;
	}
	cond_resched();
	if (signal_pending(current))
		return sock_intr_errno(*timeo);
	left = l5_time_left(r->start, r->timeo);
	if (*timeo)
		*timeo = min(*timeo, left);
	return left ? 0 : -EAGAIN;
}

/*
 * Has this end sent since it last received? The cursors in its control page
 * tell, since a process that mapped it does not tell the kernel. Bytes that
 * such a process has received by itself came before or after what was sent:
 * then the kernel does not wait for an answer, the process does that itself. A
 * process that shares the socket may lie, and makes the call spin for nothing,
 * or sleep.
 */
static bool l5_awaits(struct l5_sock *l5)
{
	const struct l5_ctrl *ctrl = l5_own(l5)->ctrl;
	u64 tail = l5_load(&ctrl->tx_tail), head = l5_load(&ctrl->rx_head);

	if (READ_ONCE(l5->got_head) == head)
		return READ_ONCE(l5->got_tail) != tail;
	WRITE_ONCE(l5->got_head, head);
	WRITE_ONCE(l5->got_tail, tail);
	return false;
}

/*
 * What each CPU can afford: a look takes it from other tasks. A task that is
 * moved to another CPU in its look pays there.
 */
static DEFINE_PER_CPU(struct l5_budget, l5_looks);

/* What the sleep would cost that a look is to save, ns. */
static u64 l5_sleep_cost(struct l5_sock *l5)
{
	return clamp_t(u64, READ_ONCE(l5->slept_ns), L5_SLEEP_LEAST,
		       L5_SPIN_MOST);
}

/*
 * A wait that began at @start has ended in a sleep: learn what that cost, if it
 * was the peer that ended it. That is the time from the peer's call to now.
 */
static void l5_slept(struct l5_sock *l5, u64 start)
{
	u64 rung = READ_ONCE(l5->rung);
	s64 cost = local_clock() - rung, was = READ_ONCE(l5->slept_ns);

	if ((s64)(rung - start) < 0 || cost < 0 || cost > L5_SPIN_MOST)
		return;
	WRITE_ONCE(l5->slept_ns, was + (cost - was) / 8);
}

/*
 * How long to look at the ring before sleeping, ns. A socket that was told a
 * time spins for that time. Else it adapts, as KVM's halt polling does, see
 * l5_spun(), and spins only while it waits for an answer: a task that has sent
 * nothing since it last received may be about to send, and a poll that spins
 * would keep it from that.
 */
static u64 l5_spin_time(struct l5_sock *l5, bool *adapt)
{
	int us = READ_ONCE(l5->spin_us);
	u64 ns;

	*adapt = false;
#ifdef CONFIG_NET_RX_BUSY_POLL
	if (us < 0)
		us = READ_ONCE(l5->sk.sk_ll_usec) ?: -1;
#endif
	if (us >= 0)
		return l5_spin_ns(us, 0, 0);
	us = l5_awaits(l5) ? READ_ONCE(l5->ln->spin_us) : 0;
	*adapt = us;
	ns = l5_spin_ns(-1, READ_ONCE(l5->spin_win), (u64)us * NSEC_PER_USEC);
	if (!ns)
		return 0;
	return l5_budget_ns(raw_cpu_ptr(&l5_looks), local_clock(),
			    READ_ONCE(l5->ln->cpu_budget), l5_sleep_cost(l5),
			    ns);
}

/* Learn from a wait. */
static void l5_spun(struct l5_sock *l5, u64 waited)
{
	u64 most = (u64)READ_ONCE(l5->ln->spin_us) * NSEC_PER_USEC;

	WRITE_ONCE(l5->spin_win, l5_spin_learn(READ_ONCE(l5->spin_win), waited,
					       most, most));
}

/*
 * Look at the ring for a while. Not when another task, perhaps the peer, could
 * use this CPU: then sleeping is the faster way.
 */
static bool l5_spin_for(struct l5_sock *l5, u64 start, u64 ns)
{
	int i;

	l5_count(l5, L5_STAT_SPINS, 1);
	while (single_task_running() && !need_resched() &&
	       !signal_pending(current) && local_clock() - start < ns) {
		for (i = 0; i < 32; i++) {
			if (l5_ring_readable(l5))
				return true;
			cpu_relax();
		}
		if (l5_rx_ended(l5))
			return true;
	}
	return false;
}

/* The same, and paid for, unless the socket was told how long. */
static bool l5_spin(struct l5_sock *l5, u64 start, u64 ns, bool adapt)
{
	bool found = l5_spin_for(l5, start, ns);

	if (adapt)
		l5_budget_spend(raw_cpu_ptr(&l5_looks), local_clock() - start,
				found ? l5_sleep_cost(l5) : 0);
	return found;
}

/*
 * The socket that was polled last on each CPU; only ever compared. A task that
 * polls one socket again and again waits for that socket.
 */
static DEFINE_PER_CPU(const void *, l5_polled);

/* The longest spin in a poll, ns, whatever the option says: see below. */
#define L5_POLL_SPIN_MAX	((u64)L5_SPIN_MOST)

/**
 * l5_poll_spin() - look at the ring for a while, for a task in epoll
 * @l5: a socket in state L5_RINGS, with nothing to read
 * @file: its file
 *
 * When a server waits in epoll, epoll asks once more about the socket that the
 * server has just read, before it sleeps: that is the place to spin for it, by
 * the same rule as in a receive. Not where several sockets take turns: they
 * would spin one after the other.
 *
 * But epoll asks the same way for a program that is not going to wait; poll(),
 * select() and io_uring ask when no task waits any more; and epoll asks with a
 * mutex held that other tasks may need. So the spin is short; it is only for
 * sockets that an epoll set watches; and it is not for a task that was told
 * that there is nothing and asks again without having slept since.
 *
 * Context: process.
 */
void l5_poll_spin(struct l5_sock *l5, struct file *file)
{
	const void *last = this_cpu_xchg(l5_polled, l5);
	unsigned long slept = READ_ONCE(current->nvcsw);
	bool adapt, waits;
	u64 ns;

	if (!l5_file_watched(file))
		return;
	waits = READ_ONCE(l5->poll_task) != current ||
		READ_ONCE(l5->poll_slept) != slept;
	WRITE_ONCE(l5->poll_task, current);
	WRITE_ONCE(l5->poll_slept, slept);
	if (last != l5 || !waits || READ_ONCE(l5->polled) || !l5_awaits(l5))
		return;
	ns = min_t(u64, l5_spin_time(l5, &adapt), L5_POLL_SPIN_MAX);
	if (!ns && !adapt)
		return;
	WRITE_ONCE(l5->polled, local_clock());
	/* the task is told that there is something: it need not sleep */
	if (ns && l5_spin(l5, l5->polled, ns, adapt))
		WRITE_ONCE(l5->poll_task, NULL);
}

/**
 * l5_poll_done() - data came after a poll that found none: learn how long that
 *	took
 * @l5: a socket in state L5_RINGS
 */
void l5_poll_done(struct l5_sock *l5)
{
	u64 start = READ_ONCE(l5->polled);

	if (!start)
		return;
	WRITE_ONCE(l5->polled, 0);
	l5_spun(l5, local_clock() - start);
}

/*
 * A look is a part of the time-out: an administrator may say in SO_BUSY_POLL
 * that a look lasts for minutes.
 */
static u64 l5_spin_most(u64 ns, long timeo)
{
	return timeo < INT_MAX ? min(ns, (u64)timeo * TICK_NSEC) : ns;
}

/* Take the time of a look from the time-out: whole jiffies, so not too much. */
static void l5_spin_took(u64 start, long *timeo)
{
	if (*timeo != MAX_SCHEDULE_TIMEOUT)
		*timeo -= min_t(u64, *timeo,
				nsecs_to_jiffies(local_clock() - start));
}

/**
 * struct l5_turn_wait - the entry of a task that sleeps for a message
 * @wait: in the socket's wait queue
 * @l5: the socket
 */
struct l5_turn_wait {
	struct wait_queue_entry wait;
	struct l5_sock *l5;
};

/* With the lock of the wait queue held. */
static int l5_turn_wake(struct wait_queue_entry *wait, unsigned int mode,
			int sync, void *key)
{
	struct l5_sock *l5 = container_of(wait, struct l5_turn_wait, wait)->l5;
	int ret;

	if (l5->turn == L5_TURN_TAKEN)
		return 0;
	ret = woken_wake_function(wait, mode, sync, key);
	if (ret && l5->turn == L5_TURN_ONE)
		l5->turn = L5_TURN_TAKEN;
	return ret;
}

/* Sleep for a message, as one of several that might take it. */
static int l5_turn_sleep(struct l5_sock *l5, long *timeo)
{
	struct l5_turn_wait w = { .l5 = l5 };
	int err;

	init_waitqueue_func_entry(&w.wait, l5_turn_wake);
	w.wait.private = current;
	/*
	 * BN, pairs with BO in l5_wait_next(): we are counted, then we look. A
	 * task that takes a message finds us, or we find the message after it.
	 */
	atomic_inc(&l5->turns);
	smp_mb__after_atomic();
	err = l5_sleep_by(&w.wait, l5, timeo, l5_link_arm_rx,
			  l5_rx_ready(l5, 0));
	atomic_dec(&l5->turns);
	return err;
}

static int l5_rx_sleep(struct l5_sock *l5, long *timeo, size_t seen)
{
	if (l5_packets(l5))
		return l5_turn_sleep(l5, timeo);
	return l5_sleep(l5, timeo, l5_link_arm_rx, l5_rx_ready(l5, seen));
}

/**
 * l5_wait_next() - a call has received a message, or goes without: is there one
 *	for another that sleeps?
 * @l5: a socket of messages in state L5_RINGS
 *
 * A record wakes one of those. What came after it rang no bell, for only a
 * sleeper has the word armed; and a task that was woken may leave by a signal.
 *
 * Context: process.
 */
void l5_wait_next(struct l5_sock *l5)
{
	/* BO, pairs with BN: what was taken, then the tasks that sleep */
	smp_mb();
	if (likely(!atomic_read(&l5->turns)))
		return;
	l5_link_arm_rx(l5);
	if (l5_rx_ready(l5, 0))
		l5_end_wake(l5);
}

/**
 * l5_wait_rx() - wait for more to read: spin, then sleep
 * @l5: a socket in state L5_RINGS
 * @timeo: jiffies, and what is left of them
 * @may_spin: whether to spin
 * @seen: bytes that a peek left in place, and that do not count
 *
 * Context: may sleep.
 * Return: as l5_sleep().
 */
int l5_wait_rx(struct l5_sock *l5, long *timeo, bool may_spin, size_t seen)
{
	bool adapt = false;
	u64 start, ns = 0;
	int err = 0;

	l5_ring_owed(l5);
	if (!*timeo) {
		/* a task that asked once for all to be told polls no more */
		l5_link_arm_rx(l5);
		return l5_rx_ready(l5, seen) ? 0 : -EAGAIN;
	}
	if (may_spin)
		ns = l5_spin_most(l5_spin_time(l5, &adapt), *timeo);
	if (!ns && !adapt)
		return l5_rx_sleep(l5, timeo, seen);
	start = local_clock();
	if (!ns || !l5_spin(l5, start, ns, adapt)) {
		l5_spin_took(start, timeo);
		err = l5_rx_sleep(l5, timeo, seen);
		l5_slept(l5, start);
	}
	if (adapt)
		l5_spun(l5, local_clock() - start);
	return err;
}
