// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: the lock words of the two directions, and the cursors that they guard.
 * System calls and processes that mapped the rings take these words alike.
 */
#include <linux/sched/signal.h>

#include "end.h"
#include "link.h"
#include "lock.h"
#include "mapper.h"
#include "pages.h"
#include "wait.h"

/* Looks at a mutex before the first nap, about as long as a short copy. */
#define L5_LOCK_LOOKS		200
/* The longest nap, since a process may forget to wake, or forge the bit */
#define L5_LOCK_NAP		(msecs_to_jiffies(20) ?: 1)

/**
 * struct l5_patience - how long a call waits for a lock
 * @start: jiffies when it began
 * @timeo: jiffies that it may take; MAX_SCHEDULE_TIMEOUT: without end
 * @intr: whether a signal that does not kill ends the wait
 */
struct l5_patience {
	unsigned long start;
	long timeo;
	bool intr;
};

static u32 *l5_lock_word(struct l5_end *own, int dir)
{
	return dir == L5_LOCK_TX ? &own->ctrl->tx_lock : &own->ctrl->rx_lock;
}

static struct mutex *l5_lock_mutex(struct l5_sock *l5, int dir)
{
	return dir == L5_LOCK_TX ? &l5->tx_lock : &l5->rx_lock;
}

/* The time that is left, jiffies; 0: none. */
static long l5_patience_left(const struct l5_patience *p)
{
	return l5_time_left(p->start, p->timeo);
}

/* Is the wait over? 0 if not, else -EAGAIN, or as sock_intr_errno(). */
static int l5_patience_over(const struct l5_patience *p)
{
	if (!l5_patience_left(p))
		return -EAGAIN;
	if (p->intr ? signal_pending(current) : fatal_signal_pending(current))
		return sock_intr_errno(p->timeo);
	return 0;
}

/*
 * Take a word whose holder, by its number, does not exist. A process that
 * scribbled over the word and went must not stop those that share its socket;
 * so it counts as a holder that died. The mutex is held, so the kernel is not
 * the holder, either.
 *
 * @wait: for a fault of this end
 * Return: true if the word is ours now.
 */
static bool l5_lock_seize(struct l5_sock *l5, u32 *word, bool wait)
{
	u32 old = l5_load(word), id = old & L5_LOCK_ID;
	u32 to = (old & L5_LOCK_WAITERS) | L5_LOCK_KERNEL;

	if (!id)
		return false;
	if (id == L5_LOCK_KERNEL)
		return cmpxchg(word, old, to) == old;
	return l5_map_forget(l5_own(l5), id, word, old, to, wait);
}

/* Free such a word for a process. */
static bool l5_lock_forged(struct l5_sock *l5, int dir, u32 *word)
{
	struct mutex *mutex = l5_lock_mutex(l5, dir);
	u32 old = l5_load(word), id = old & L5_LOCK_ID;
	u32 to = (old & L5_LOCK_WAITERS) | L5_LOCK_DIED;
	bool done;

	if (!id)
		return false;
	if (id != L5_LOCK_KERNEL)
		return l5_map_forget(l5_own(l5), id, word, old, to, true);
	/* a system call has the mutex, too */
	if (!mutex_trylock(mutex))
		return false;
	done = cmpxchg(word, old, to) == old;
	mutex_unlock(mutex);
	return done;
}

/*
 * Sleep while another task has the word or the mutex. The task that gives
 * either back wakes us if the word says that there are waiters. If the word
 * does not keep saying so, or it is free and the mutex is not, the sleep is a
 * tick.
 */
static void l5_lock_nap(struct l5_end *own, u32 *word, struct mutex *mutex,
			const struct l5_patience *p, long nap)
{
	DEFINE_WAIT(wait);
	u32 old;

	prepare_to_wait(&own->lock_wait, &wait,
			p->intr ? TASK_INTERRUPTIBLE : TASK_KILLABLE);
	old = l5_load(word);
	if (cmpxchg(word, old, old | L5_LOCK_WAITERS) != old ||
	    !(old & L5_LOCK_ID))
		nap = 1;
	if (old & L5_LOCK_ID || (mutex && mutex_is_locked(mutex)))
		schedule_timeout(min(nap, l5_patience_left(p)));
	finish_wait(&own->lock_wait, &wait);
}

/**
 * l5_ring_lock_wait() - sleep a while, no longer than a lock word is held
 * @l5: a socket in state L5_RINGS
 * @dir: L5_LOCK_TX or L5_LOCK_RX
 *
 * For a process. If the word was forged it is free now, but this returns only
 * after a tick: else a forger and a process that believes it would keep two
 * CPUs busy.
 *
 * Return: 0 if it is worth trying, or the errno by which a call of that
 * direction says that there is a signal.
 */
int l5_ring_lock_wait(struct l5_sock *l5, int dir)
{
	struct l5_patience p = {
		.start = jiffies,
		.timeo = L5_LOCK_NAP,
		.intr = true,
	};
	u32 *word = l5_lock_word(l5_own(l5), dir);
	struct sock *sk = &l5->sk;

	if (l5_lock_forged(l5, dir, word))
		schedule_timeout_interruptible(1);
	else if (l5_load(word) & L5_LOCK_ID)
		l5_lock_nap(l5_own(l5), word, NULL, &p, p.timeo);
	if (!signal_pending(current))
		return 0;
	return sock_intr_errno(dir == L5_LOCK_TX ? sock_sndtimeo(sk, false) :
						   sock_rcvtimeo(sk, false));
}

/* Return: true if the cursors make no sense. */
static bool l5_ring_mend_tx(struct l5_end *own, struct l5_end *peer)
{
	bool bad = false;
	u64 *slot;

	/* keeps the page of the word, see drop.c */
	rcu_read_lock();
	slot = l5_ring_slot(own, own->prod.tail);
	if (slot)
		bad = l5_prod_mend(&own->prod, own->ctrl, peer->ctrl,
				   slot) < 0;
	rcu_read_unlock();
	return bad;
}

/* Return: true if there was a word to look at. */
static bool l5_ring_mend_rx(struct l5_end *own, struct l5_end *peer)
{
	u64 *slot;

	rcu_read_lock();
	slot = l5_ring_slot(peer, own->cons.head);
	if (slot)
		l5_cons_mend(&own->cons, own->ctrl, slot);
	rcu_read_unlock();
	return slot;
}

/* Load the cursors that the last holder left in the control page. */
static int l5_ring_load(struct l5_sock *l5, int dir, bool mend)
{
	struct l5_end *own = l5_own(l5), *peer = l5_peer(l5);

	if (dir == L5_LOCK_TX)
		return l5_prod_load(&own->prod, own->ctrl, peer->ctrl) < 0 ||
		       (mend && l5_ring_mend_tx(own, peer)) ? -EPROTO : 0;
	/* it may have grown, see grow.c */
	own->cons.size = READ_ONCE(peer->size);
	if (l5_cons_load(&own->cons, own->ctrl) < 0)
		return -EPROTO;
	if (mend && l5_ring_mend_rx(own, peer))
		l5_link_freed(l5);
	return 0;
}

/*
 * Take the mutex. It is fair and spins well, but has no time-out, and its
 * holder may be in a page fault for as long as a process likes. So only calls
 * without a time-out, and shutdown(), sleep for it.
 *
 * Return: 0, -EAGAIN if that takes a nap, or as l5_patience_over().
 */
static int l5_lock_mutex_get(struct mutex *mutex, const struct l5_patience *p)
{
	int i;

	if (p->timeo == MAX_SCHEDULE_TIMEOUT)
		return mutex_lock_interruptible(mutex) ?
		       sock_intr_errno(p->timeo) : 0;
	for (i = 0; i < L5_LOCK_LOOKS && !need_resched(); i++) {
		if (!mutex_is_locked(mutex) && mutex_trylock(mutex))
			return 0;
		cpu_relax();
	}
	return -EAGAIN;
}

/*
 * The lock is not to be had at once. Each round that does not get it takes some
 * of the time, whatever it is that the word says, and listens to signals.
 *
 * Return: as l5_lock_try(), or an error as l5_patience_over().
 */
static int l5_ring_lock_slow(struct l5_sock *l5, int dir, long *timeo)
{
	struct l5_patience p = {
		.start = jiffies,
		.timeo = abs(*timeo) ?: L5_PATIENCE,
		.intr = *timeo > 0,
	};
	struct mutex *mutex = l5_lock_mutex(l5, dir);
	struct l5_end *own = l5_own(l5);
	u32 *word = l5_lock_word(own, dir);
	int got = 0, err;

	for (;;) {
		if (*timeo < 0)
			err = mutex_lock_killable(mutex);
		else
			err = l5_lock_mutex_get(mutex, &p);
		if (err && err != -EAGAIN)
			return err;
		if (!err) {
			got = l5_lock_try(word, L5_LOCK_KERNEL);
			if (!got && l5_lock_seize(l5, word, true))
				got = 2;
			if (got)
				break;
			/* not held for as long as a process likes */
			mutex_unlock(mutex);
		}
		err = l5_patience_over(&p);
		if (err)
			return err;
		l5_lock_nap(own, word, mutex, &p, L5_LOCK_NAP);
		cond_resched();
	}
	/* never 0: that would make it a call that may not wait */
	if (*timeo > 0)
		*timeo = l5_patience_left(&p) ?: 1;
	return got;
}

/**
 * l5_ring_lock() - have one direction to ourselves, and its cursors
 * @l5: a socket in state L5_RINGS
 * @dir: L5_LOCK_TX or L5_LOCK_RX
 * @timeo: jiffies to wait for a process that holds the word, or a call that
 *	holds the mutex, or a signal; what is left of them on return. 0, of a
 *	call that may not wait, is still L5_PATIENCE, as for any lock; if
 *	it is negative only a signal that kills ends the wait
 *
 * Return: 0, -EAGAIN, as sock_intr_errno(), or -EPROTO if the cursors make no
 * sense. After an error the lock is not held.
 */
int l5_ring_lock(struct l5_sock *l5, int dir, long *timeo)
{
	struct mutex *mutex = l5_lock_mutex(l5, dir);
	u32 *word = l5_lock_word(l5_own(l5), dir);
	int got = 0, err;

	if (likely(mutex_trylock(mutex))) {
		got = l5_lock_try(word, L5_LOCK_KERNEL);
		if (unlikely(!got))
			mutex_unlock(mutex);
	}
	if (unlikely(!got))
		got = l5_ring_lock_slow(l5, dir, timeo);
	if (got < 0)
		return got;
	err = l5_ring_load(l5, dir, got == 2);
	if (err)
		l5_ring_unlock(l5, dir);
	return err;
}

/**
 * l5_ring_trylock() - have one direction if nobody holds it
 * @l5: a socket in state L5_RINGS
 * @dir: as for l5_ring_lock()
 *
 * Neither a task that died with the word nor a number that no task has holds
 * it.
 *
 * Context: may sleep, but waits for nobody.
 * Return: 0, -EAGAIN if it is held, or -EPROTO, as l5_ring_lock().
 */
int l5_ring_trylock(struct l5_sock *l5, int dir)
{
	struct mutex *mutex = l5_lock_mutex(l5, dir);
	u32 *word = l5_lock_word(l5_own(l5), dir);
	int got, err;

	if (!mutex_trylock(mutex))
		return -EAGAIN;
	got = l5_lock_try(word, L5_LOCK_KERNEL);
	if (!got && l5_lock_seize(l5, word, false))
		got = 2;
	if (!got) {
		mutex_unlock(mutex);
		return -EAGAIN;
	}
	err = l5_ring_load(l5, dir, got == 2);
	if (err)
		l5_ring_unlock(l5, dir);
	return err;
}

/**
 * l5_ring_unlock() - let the next task have a direction
 * @l5: the socket
 * @dir: as for l5_ring_lock()
 */
void l5_ring_unlock(struct l5_sock *l5, int dir)
{
	bool waiters = l5_unlock(l5_lock_word(l5_own(l5), dir));

	mutex_unlock(l5_lock_mutex(l5, dir));
	/* also the tasks that sleep for the mutex */
	if (waiters)
		l5_conn_unlocked(l5->conn, l5->end);
}
