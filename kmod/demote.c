// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: a ring that processes have mapped, and that is to be the kernel's
 * alone from now on, since it has to grow: the other ring of the connection
 * stays as it is.
 *
 * The processes of both ends are told that the memory is gone, L5_MAP_GONE, and
 * make the system call from then on. So none has to know of this. To be told to
 * ask would not do: a reader looks at L5_MAP_RX_ASK after the ring, and may be
 * in the middle of a record there that it has begun to read; and a writer looks
 * at L5_MAP_TX_ASK after cursors that may be farther apart than its ring is
 * long.
 *
 * A flag alone would come too late for a process that has looked at it already:
 * so both lock words are held meanwhile. A writer looks at the flag once it has
 * the word; a reader does before it takes what it has copied. What processes
 * have mapped of the ring are zeros from then on. The other ring stays where it
 * is, for a process that is in the middle of a call.
 *
 * A process that holds a word keeps its ring as it is, for as long as it holds
 * it. A process that writes without the word writes into a page of its own.
 */
#include <linux/mm.h>
#include <net/sock.h>

#include "demote.h"
#include "end.h"
#include "fold.h"
#include "lock.h"
#include "mapper.h"
#include "pages.h"

/**
 * l5_end_sock() - the socket of an end
 * @e: the end
 *
 * Context: any.
 * Return: the socket, with a reference, or NULL.
 */
struct l5_sock *l5_end_sock(const struct l5_end *e)
{
	struct sock *sk;

	rcu_read_lock();
	sk = rcu_dereference(e->sk);
	if (sk && !refcount_inc_not_zero(&sk->sk_refcnt))
		sk = NULL;
	rcu_read_unlock();
	return sk ? l5_sk(sk) : NULL;
}

/* Keep the readers out of a ring. Nobody sleeps for them. */
static bool l5_demote_lock(struct l5_sock *l5, struct l5_end *e)
{
	if (!mutex_trylock(&l5->lock))
		return false;
	/* it stays this end's socket as long as it is locked */
	if (rcu_access_pointer(e->sk) == &l5->sk &&
	    !l5_ring_trylock(l5, L5_LOCK_RX))
		return true;
	mutex_unlock(&l5->lock);
	return false;
}

static void l5_demote_unlock(struct l5_sock *l5)
{
	l5_ring_unlock(l5, L5_LOCK_RX);
	mutex_unlock(&l5->lock);
}

/*
 * Each page in one place, as it is in a ring that was never mapped: those from
 * the reader on.
 */
static void l5_demote_places(struct l5_end *e, u64 first)
{
	u32 fold = e->fold, places = l5_ring_places(e), i;

	lockdep_assert_held(&e->fill_lock);
	for (i = 0; i < places - fold; i++)
		/* O, pairs with N: nobody looks there */
		smp_store_release(l5_ring_page_at(e, first + fold + i), NULL);
	WRITE_ONCE(e->first, first);
	/* U, pairs with T */
	smp_store_release(&e->next, first + fold);
	/* AX, pairs with AY */
	smp_store_release(&e->fold, 0);
	WRITE_ONCE(e->poor, false);
}

static int l5_demote_do(struct l5_conn *conn, int ring, u64 head, u64 tail)
{
	struct l5_end *e = &conn->end[ring], *peer = &conn->end[!ring];

	if (e->dropped || e->revoked || peer->revoked)
		return -ENOSPC;
	if (e->demoted)
		return 0;
	if (!e->fold)
		return 0;
	if (!l5_map_few(conn))
		return -EAGAIN;
	/* a lie: the next task that reads or writes finds it */
	if (tail - head > e->size ||
	    (e->fold < l5_ring_places(e) &&
	     (tail >> PAGE_SHIFT) - (head >> PAGE_SHIFT) >= e->fold))
		return -ENOSPC;
	l5_map_flag(e, L5_MAP_TX_ASK | L5_MAP_RX_ASK | L5_MAP_GONE);
	l5_map_flag(peer, L5_MAP_TX_ASK | L5_MAP_RX_ASK | L5_MAP_GONE);
	l5_demote_places(e, head >> PAGE_SHIFT);
	WRITE_ONCE(e->demoted, true);
	return 0;
}

/**
 * l5_ring_leave() - have processes leave a ring, with its locks held
 * @conn: the connection
 * @ring: the end that writes the ring
 * @head: where its reader is
 * @tail: where its writer is
 *
 * Each end that is on this host has its lock word held, and its l5_sock.lock.
 *
 * Context: may sleep.
 * Return: as l5_ring_demote().
 */
int l5_ring_leave(struct l5_conn *conn, int ring, u64 head, u64 tail)
{
	struct l5_end *e = &conn->end[ring];
	int err = -EAGAIN;

	/* no task is getting pages for it that reckons with those it has */
	if (!mutex_trylock(&e->whole_lock))
		return err;
	if (l5_rings_trylock(conn, -1)) {
		err = l5_demote_do(conn, ring, head, tail);
		l5_rings_unlock(conn);
	}
	mutex_unlock(&e->whole_lock);
	/* before the words are given back */
	if (!err)
		l5_map_zap_ring(conn, ring);
	return err;
}

/**
 * l5_ring_demote() - have processes leave a ring, if they have it mapped
 * @conn: the connection
 * @ring: the end that writes the ring, its tx_lock and its lock word held
 *
 * Context: may sleep.
 * Return: 0 if none has it mapped from now on, -EAGAIN if a task holds a lock,
 * -ENOSPC if it is not worth trying again.
 */
int l5_ring_demote(struct l5_conn *conn, int ring)
{
	struct l5_end *e = &conn->end[ring], *peer = &conn->end[!ring];
	struct l5_sock *reader = l5_end_sock(peer);
	int err = -EAGAIN;
	u64 head;

	/* one that is not accepted has no readers */
	if (reader && !l5_demote_lock(reader, peer))
		goto out;
	/* D, pairs with C */
	head = l5_load_acquire(&peer->ctrl->rx_head);
	err = l5_ring_leave(conn, ring, head, l5_load(&e->ctrl->tx_tail));
	if (reader)
		l5_demote_unlock(reader);
out:
	if (reader)
		sock_put(&reader->sk);
	return err;
}
