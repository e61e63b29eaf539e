// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: the lock words of the two directions, which threads of the kernel and
 * processes that mapped the rings take alike, and the cursors that they guard.
 */
#include <linux/sched/signal.h>

#include "ring.h"

/* How long who may not wait waits for who only holds a lock for a moment. */
#define L5_LOCK_PATIENCE	(HZ / 20)

static u32 *l5_lock_word(struct l5_end *own, int dir)
{
	return dir == L5_LOCK_TX ? &own->ctrl->tx_lock : &own->ctrl->rx_lock;
}

static struct mutex *l5_lock_mutex(struct l5_sock *l5, int dir)
{
	return dir == L5_LOCK_TX ? &l5->tx_lock : &l5->rx_lock;
}

/*
 * A word that says that it is held by nobody there is. A process that scribbled
 * over it and went must not stop those who share its socket; so it counts as
 * one that died with it.
 *
 * Return: true if it was so; then it is worth trying.
 */
static bool l5_lock_forged(struct l5_sock *l5, int dir, u32 old)
{
	struct mutex *mutex = l5_lock_mutex(l5, dir);
	struct l5_end *own = l5_own(l5);
	u32 free = (old & L5_LOCK_WAITERS) | L5_LOCK_DIED;
	u32 *word = l5_lock_word(own, dir);
	u32 id = old & L5_LOCK_ID;

	if (id == L5_LOCK_KERNEL) {
		/* no system call does who does not have the mutex */
		if (!mutex_trylock(mutex))
			return false;
		cmpxchg(word, old, free);
		mutex_unlock(mutex);
		return true;
	}
	return l5_map_forget(own, id, word, old, free);
}

/**
 * l5_ring_lock_wait() - sleep while a process holds a lock word
 * @l5: a socket in state L5_SHM
 * @dir: L5_LOCK_TX or L5_LOCK_RX
 * @timeo: jiffies, what is left of it on return
 * @intr: whether a signal ends it that does not kill
 *
 * Wakes now and then without being asked to, since a process may forget, or
 * scribble over the word; and by a signal, since it may be stopped.
 *
 * Return: 0 if it is worth trying, -EAGAIN after *timeo, or as
 * sock_intr_errno().
 */
int l5_ring_lock_wait(struct l5_sock *l5, int dir, long *timeo, bool intr)
{
	struct l5_end *own = l5_own(l5);
	u32 *word = l5_lock_word(own, dir);
	long nap = min_t(long, *timeo, msecs_to_jiffies(20) ?: 1);
	DEFINE_WAIT(wait);
	int err = 0;
	u32 old;

	if (!*timeo)
		return -EAGAIN;
	old = l5_load(word);
	if (old & L5_LOCK_ID && l5_lock_forged(l5, dir, old))
		return 0;
	prepare_to_wait(&own->lock_wait, &wait,
			intr ? TASK_INTERRUPTIBLE : TASK_KILLABLE);
	old = l5_load(word);
	if (!(old & L5_LOCK_ID))
		goto out;
	if (intr ? signal_pending(current) : fatal_signal_pending(current)) {
		err = sock_intr_errno(*timeo);
		goto out;
	}
	/* not set: it changed, perhaps it is free */
	if (cmpxchg(word, old, old | L5_LOCK_WAITERS) == old) {
		long left = schedule_timeout(nap);

		if (*timeo != MAX_SCHEDULE_TIMEOUT)
			*timeo -= nap - left;
	}
out:
	finish_wait(&own->lock_wait, &wait);
	return err;
}

/* What was said of it is what its last holder left in the control page. */
static int l5_ring_load(struct l5_sock *l5, int dir, bool mend)
{
	struct l5_end *own = l5_own(l5), *peer = l5_peer(l5);
	u64 *slot;

	if (dir == L5_LOCK_TX) {
		if (l5_prod_load(&own->prod, own->ctrl, peer->ctrl) < 0)
			return -EPROTO;
		slot = mend ? l5_ring_slot(own, own->prod.tail) : NULL;
		if (slot && l5_prod_mend(&own->prod, own->ctrl, peer->ctrl,
					 slot) < 0)
			return -EPROTO;
	} else {
		if (l5_cons_load(&own->cons, own->ctrl) < 0)
			return -EPROTO;
		slot = mend ? l5_ring_slot(peer, own->cons.head) : NULL;
		if (slot) {
			l5_cons_mend(&own->cons, own->ctrl, slot);
			l5_ring_freed(l5);
		}
	}
	return 0;
}

/**
 * l5_ring_lock() - have one direction to ourselves, and its cursors
 * @l5: a socket in state L5_SHM
 * @dir: L5_LOCK_TX or L5_LOCK_RX
 * @timeo: jiffies to wait for a process that holds the word, or a signal; 0, of
 *	who may not wait, is still L5_LOCK_PATIENCE, as for any lock; if it is
 *	negative no signal ends it that does not kill
 *
 * Return: 0, -EAGAIN, as sock_intr_errno(), or -EPROTO if the cursors make no
 * sense, in which case it is not held.
 */
int l5_ring_lock(struct l5_sock *l5, int dir, long timeo)
{
	struct mutex *mutex = l5_lock_mutex(l5, dir);
	u32 *word = l5_lock_word(l5_own(l5), dir);
	bool intr = timeo > 0;
	int got, err;

	timeo = abs(timeo) ?: L5_LOCK_PATIENCE;
	for (;;) {
		mutex_lock(mutex);
		got = l5_lock_try(word, L5_LOCK_KERNEL);
		if (got)
			break;
		/* the mutex is not held for as long as a process likes */
		mutex_unlock(mutex);
		err = l5_ring_lock_wait(l5, dir, &timeo, intr);
		if (err)
			return err;
	}
	err = l5_ring_load(l5, dir, got == 2);
	if (err)
		l5_ring_unlock(l5, dir);
	return err;
}

/**
 * l5_ring_unlock() - let the next one have it
 * @l5: the socket
 * @dir: as for l5_ring_lock()
 */
void l5_ring_unlock(struct l5_sock *l5, int dir)
{
	struct l5_end *own = l5_own(l5);

	if (l5_unlock(l5_lock_word(own, dir)))
		l5_conn_unlocked(l5->conn, l5->end);
	mutex_unlock(l5_lock_mutex(l5, dir));
}
