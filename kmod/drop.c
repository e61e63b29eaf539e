// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: the pages that are of no more use, once one end of a connection is
 * closed, and while it is idle.
 *
 * Rings are charged to the processes that write and map them, and the end that
 * stays may stay for as long as it likes. The end that has closed does not pay
 * that long. Nobody will read what the other end writes, and of the closed
 * end's own ring only unread bytes matter: all other pages are given back. The
 * connection goes on as before, and never gets pages again.
 *
 * The end that stays uses the rings meanwhile, and nothing can make it stop:
 * one of its calls may be in the middle of a copy, in a page fault that takes
 * as long as its process likes. So no lock of a direction is taken here.
 * Instead
 *
 *   - each place that had a page is empty from now on, and each user of a place
 *     copes with that: a reader finds no record there, a writer writes to
 *     nobody, as it would had its peer closed a moment later;
 *   - a look at a page is one of RCU's readers, of either kind, and pages are
 *     given back after a grace period;
 *   - a copy, which may sleep, says in tx_copy or rx_copy of its end which
 *     page it has, while it is still in that section. So after the grace
 *     period it is known which pages are in use, and no other page will be.
 *     Such a page waits until the copy is over: two of an end at most, a
 *     sender's and a receiver's. A header in the same page is read before the
 *     copy, and written after it, while the page is held, too;
 *   - processes lose the pages from their mappings, and get pages of zeros at
 *     the next access, as for l5_map_revoke().
 *
 * A reader moves only forward, so the pages before its cursor are of no more
 * use, even if the cursor is read while it moves. A process that moves it back
 * harms its own stream.
 */
#include <linux/delay.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/rcupdate.h>

#include "demote.h"
#include "drop.h"
#include "end.h"
#include "fold.h"
#include "grow.h"
#include "lock.h"
#include "mapper.h"
#include "netns.h"
#include "pages.h"

/* Tries to have the mappings of both ends, if nobody asks again */
#define L5_DROP_TRIES	50
/* Between two of them, ms */
#define L5_DROP_NAP	20

/* Wait for both ends, but not for as long as others like. */
static bool l5_drop_lock(struct l5_conn *conn, int first)
{
	int i;

	for (i = 0; i < L5_DROP_TRIES; i++) {
		if (l5_rings_trylock(conn, first))
			return true;
		msleep(L5_DROP_NAP);
	}
	return false;
}

/* Take all pages out of the mappings of an end; faults bring back some. */
static void l5_drop_zap(struct l5_end *e)
{
	struct l5_mapper *m;

	lockdep_assert_held(&e->map_lock);
	list_for_each_entry(m, &e->mappers, view.node)
		l5_view_zap(&m->view, 0, 0);
}

/* Give back what was granted for @n pages of a ring that it has no more. */
static void l5_drop_account(struct l5_conn *conn, int ring, u32 n)
{
	struct l5_end *e = &conn->end[ring], *other = &conn->end[!ring];
	u32 own = min(n, e->npages - e->lent_pages);
	u32 rest = n - own, cut;

	lockdep_assert_held(&e->fill_lock);
	lockdep_assert_held(&other->fill_lock);
	atomic_long_sub(own, &e->payer.acct->pages);
	atomic_long_sub(rest, &other->payer.acct->pages);
	WRITE_ONCE(e->npages, e->npages - n);
	e->lent_pages -= rest;

	cut = e->granted - max_t(u32, e->npages, L5_GRANT);
	own = min(cut, e->granted - e->lent - L5_GRANT);
	rest = cut - own;
	l5_unreserve(&e->payer, own);
	l5_unreserve(&other->payer, rest);
	e->granted -= cut;
	e->lent -= rest;
}

/*
 * Take pages out of a ring, but for those of @keep places from the page @first
 * on.
 * Return: true if there were any.
 */
static bool l5_drop_take(struct l5_conn *conn, int ring, u64 first, u64 keep)
{
	struct l5_end *e = &conn->end[ring];
	u32 period = l5_ring_period(e), i, n = 0;

	for (i = 0; e->pages && i < l5_ring_places(e); i++) {
		struct page *page = e->pages->at[i];

		if (!page || ((i - (u32)first) & (period - 1)) < keep)
			continue;
		/* AV, pairs with N: a writer that misses it sees @dropped */
		smp_store_release(&e->pages->at[i], NULL);
		/* the other places of a page have it no more, either */
		if (i >= period)
			continue;
		list_add(&page->lru, &conn->dropped);
		n++;
	}
	if (n)
		l5_drop_account(conn, ring, n);
	return n;
}

/*
 * Where the records of a closed end end: its cursor, or one record later if its
 * last process died before it could move that.
 */
static u64 l5_drop_tail(struct l5_end *e)
{
	u64 tail = l5_load(&e->ctrl->tx_tail) & ~(u64)(L5_HDR - 1);
	u64 *slot = l5_ring_slot(e, tail);
	u64 hdr = slot ? l5_rec_bare(READ_ONCE(*slot)) : 0;

	return l5_rec_valid(READ_ONCE(e->size), hdr) ?
	       tail + l5_rec_size((u32)hdr) : tail;
}

/*
 * Take out what is not needed of the ring that a closed end wrote. A grace
 * period has passed since it was dropped, so it has its last record.
 * Return: true if there are unread pages, so that it is worth trying again.
 */
static bool l5_drop_trim(struct l5_conn *conn, int closed, bool *took)
{
	u64 head, tail;
	bool unread;

	/* once: a call of a socket that was disconnected may move its cursor */
	if (!conn->drop_trims)
		conn->drop_tail = l5_drop_tail(&conn->end[closed]);
	conn->drop_trims = true;
	tail = conn->drop_tail;

	/* C, pairs with D, or with a reader that has left the pages before */
	head = l5_load_acquire(&conn->end[!closed].ctrl->rx_head);
	unread = head != tail &&
		 tail - head <= READ_ONCE(conn->end[closed].size);
	if (unread)
		*took = l5_drop_take(conn, closed, head >> PAGE_SHIFT,
				     (tail >> PAGE_SHIFT) -
				     (head >> PAGE_SHIFT) + 1);
	else
		*took = l5_drop_take(conn, closed, 0, 0);
	return unread;
}

/* Is a page in use by a copy that began before it was taken out? */
static bool l5_drop_busy(const struct l5_conn *conn, const struct page *page)
{
	int i;

	/* AS, pairs with AT: the copy is over before the page is given back */
	for (i = 0; i < 2; i++)
		if (smp_load_acquire(&conn->end[i].tx_copy) == page ||
		    smp_load_acquire(&conn->end[i].rx_copy) == page)
			return true;
	return false;
}

/* A grace period is over: give back what is in nobody's use. */
static void l5_drop_put(struct l5_conn *conn)
{
	struct page *page, *tmp;

	list_for_each_entry_safe(page, tmp, &conn->dropped, lru) {
		if (l5_drop_busy(conn, page))
			continue;
		list_del(&page->lru);
		put_page(page);
	}
}

/*
 * Take one step; the caller has the locks, and has them no more afterwards. The
 * first step ends both rings and takes all pages of the ring that nobody will
 * read. Each later one takes the pages of the other ring that its reader has
 * left.
 *
 * The first one has a ring's writers write to nobody from then on, all at once:
 * a process that has lost the page of a payload waits in a fault until it has
 * lost that of the header, too. A system call that sees that nothing was
 * dropped publishes before a grace period is over; and a record within the page
 * that its copy holds, it publishes into that page, wherever that is by then.
 *
 * To take pages from processes lasts as long as they have mappings, of which
 * they make as many as they like. So nothing of the other end waits for that:
 * not for the locks of the rings, nor the end that stays for the mappings of
 * the one that has closed.
 *
 * Return: true if there is to be another step.
 */
static bool l5_drop_step(struct l5_conn *conn, int closed)
{
	struct l5_end *e = &conn->end[closed], *other = &conn->end[!closed];
	bool first = !e->dropped, more = true, took = true;

	if (first) {
		WRITE_ONCE(other->dropped, true);
		WRITE_ONCE(e->dropped, true);
		l5_drop_take(conn, !closed, 0, 0);
	} else {
		more = l5_drop_trim(conn, closed, &took);
	}
	conn->drop_cookie = start_poll_synchronize_rcu();
	l5_fill_unlock(conn);
	if (!first)
		mutex_unlock(&e->map_lock);
	if (took)
		l5_drop_zap(other);
	mutex_unlock(&other->map_lock);
	if (first) {
		l5_drop_zap(e);
		mutex_unlock(&e->map_lock);
	}
	return more;
}

/**
 * l5_drop() - give back pages that are of no more use
 * @conn: a connection of two ends on one host, with a reference; one call at a
 *	time of this or of the next two
 * @closed: the end whose socket is released, or disconnected
 *
 * Context: may sleep.
 * Return: true if it is to be called again after a while, since there is
 * something that is not given back yet, or not read.
 */
bool l5_drop(struct l5_conn *conn, int closed)
{
	bool more;

	if (conn->end[closed].dropped) {
		if (!poll_state_synchronize_rcu(conn->drop_cookie))
			return true;
		l5_drop_put(conn);
	}
	/* it waits for the end that stays: that may have faults all the time */
	if (!l5_rings_trylock(conn, !closed))
		return true;
	more = l5_drop_step(conn, closed);
	return more || !list_empty(&conn->dropped);
}

/**
 * l5_drop_now() - give pages back in one call, where no other call follows
 * @conn: a connection of which the other end is not accepted
 * @closed: the end whose socket is released, or disconnected
 *
 * An end that is accepted meanwhile sees to it that there is a next call.
 *
 * Context: may sleep.
 */
void l5_drop_now(struct l5_conn *conn, int closed)
{
	int i;

	for (i = 0; i < 2 && l5_drop_lock(conn, closed); i++) {
		l5_drop_step(conn, closed);
		cond_synchronize_rcu(conn->drop_cookie);
		l5_drop_put(conn);
	}
}

/* Has a ring pages that are to be given back when it is idle? */
static bool l5_idle_spare(const struct l5_end *e)
{
	u32 fold = READ_ONCE(e->fold);

	return fold ? fold > L5_FOLD_LEAST :
		      READ_ONCE(e->npages) > L5_RING_KEEPS;
}

/*
 * Has a ring that has been unfolded, or has grown, been empty for long enough,
 * with its writer where it is now?
 */
static bool l5_idle_ring(struct l5_conn *conn, int ring, unsigned long pause)
{
	struct l5_end *e = &conn->end[ring];
	u64 tail = l5_load(&e->ctrl->tx_tail);

	if (!l5_idle_spare(e) || !pause)
		return false;
	if (tail != e->idle_tail ||
	    l5_load(&conn->end[!ring].ctrl->rx_head) != tail) {
		e->idle_tail = tail;
		e->idle_since = jiffies;
		return false;
	}
	return time_after_eq(jiffies + 1, e->idle_since + pause);
}

/*
 * Has a task pinned a page that a ring is to lose, or a process one in its
 * mappings again? The former would be charged to nobody, and the ring would get
 * others; the latter would see it.
 */
static bool l5_idle_in_use(struct l5_end *e, u64 first)
{
	u32 i;

	for (i = L5_FOLD_LEAST; i < e->fold; i++)
		if (page_count(*l5_ring_page_at(e, first + i)) > 1)
			return true;
	return false;
}

/*
 * Take the pages that its reader has left from a ring that is not mapped: those
 * before the one that its writer is in, or will be in next. A page that a task
 * has pinned stays, see l5_idle_in_use(); such pages are moved together. What
 * is in them was read.
 */
static void l5_idle_trim(struct l5_conn *conn, int ring, u64 first)
{
	struct l5_end *e = &conn->end[ring];
	u32 places = l5_ring_places(e), n = 0;
	struct page *page;
	u64 at;

	/*
	 * One with a page for each place does not count them on, so any number
	 * may be the last.
	 */
	if (e->next - e->first == places && first >= places) {
		WRITE_ONCE(e->first, first + 1 - places);
		/* U, pairs with T */
		smp_store_release(&e->next, first + 1);
	}
	first = min(first, e->next);
	for (at = first; at > e->first; at--) {
		page = *l5_ring_page_at(e, at - 1);
		/* AV, pairs with N: nobody reads there any more */
		smp_store_release(l5_ring_page_at(e, at - 1), NULL);
		if (page_count(page) > 1) {
			/* O, pairs with N: that place was seen to already */
			smp_store_release(l5_ring_page_at(e, --first), page);
			continue;
		}
		list_add(&page->lru, &conn->dropped);
		n++;
	}
	WRITE_ONCE(e->first, first);
	if (n)
		l5_drop_account(conn, ring, n);
}

/*
 * Fold a ring. Its writers are kept out; what a reader would read is not there,
 * so a reader that is there all the same has only the place of the next header
 * to look at, and that stays.
 */
static void l5_idle_fold(struct l5_conn *conn, int ring, u64 tail)
{
	struct l5_end *e = &conn->end[ring];
	u64 first = tail >> PAGE_SHIFT;

	/* no task is getting pages for it that reckons with those it has */
	if (!mutex_trylock(&e->whole_lock))
		return;
	if (!l5_rings_trylock(conn, -1))
		goto out;
	/* C, pairs with D: the reader has left what is before */
	if (!e->dropped && l5_idle_spare(e) &&
	    l5_load(&e->ctrl->tx_tail) == tail &&
	    l5_load_acquire(&conn->end[!ring].ctrl->rx_head) == tail &&
	    !(e->fold && l5_idle_in_use(e, first))) {
		if (e->fold) {
			l5_drop_take(conn, ring, first, L5_FOLD_LEAST);
			l5_ring_spread(e, first, L5_FOLD_LEAST);
		} else {
			l5_idle_trim(conn, ring, first);
		}
		conn->drop_cookie = start_poll_synchronize_rcu();
	}
	l5_rings_unlock(conn);
out:
	mutex_unlock(&e->whole_lock);
}

/* Make a ring longer whose writer waits, and wake it. */
static void l5_idle_grow(struct l5_conn *conn, int ring, struct l5_sock *l5)
{
	struct l5_end *e = &conn->end[ring];
	int err = l5_ring_enlarge(l5, conn, ring);

	l5_grow_done(e, err);
	if (!err)
		l5_bell(e, &e->ctrl->tx_wait, true);
}

/*
 * See to an end's ring, with its socket's lock, so that it stays its end. If
 * @idle the ring was so, and processes have lost it.
 */
static void l5_idle_end(struct l5_conn *conn, int ring, struct l5_sock *l5,
			bool idle)
{
	struct l5_end *e = &conn->end[ring];
	bool grow = l5_grow_due(conn, ring, l5_grow_after(l5->ln));

	/* one that is held is left for another time */
	if ((idle || grow) && !l5_ring_trylock(l5, L5_LOCK_TX)) {
		if (idle) {
			l5_idle_fold(conn, ring, e->idle_tail);
			l5_ring_hope(l5);
		}
		if (grow)
			l5_idle_grow(conn, ring, l5);
		l5_ring_unlock(l5, L5_LOCK_TX);
	} else if (grow) {
		l5_grow_done(e, -EAGAIN);
	}
	if (READ_ONCE(e->poor)) {
		l5_ring_hope(l5);
		l5_bell(e, &e->ctrl->tx_wait, true);
	}
}

/* When is an end to be looked at again? In so many jiffies; 0: not at all. */
static unsigned long l5_idle_next(const struct l5_end *e,
				  const struct l5_sock *l5)
{
	unsigned long next = l5_grow_next(e, l5_grow_after(l5->ln));

	if (READ_ONCE(e->poor))
		return L5_POOR_PAUSE;
	return next ?: l5_idle_spare(e) ? l5_idle_pause(l5->ln) : 0;
}

/**
 * l5_drop_idle() - give back pages that an open connection does not need
 * @conn: the connection, with a reference; as l5_drop()
 *
 * A ring that had nothing in it for as long as net.l5.idle_ms says, and no
 * writer, has as few pages as it was mapped with again.
 *
 * Context: may sleep.
 * Return: when it is to be called again, jiffies from now; 0: not at all.
 */
unsigned long l5_drop_idle(struct l5_conn *conn)
{
	unsigned long next = 0, its;
	int i;

	if (!list_empty(&conn->dropped) &&
	    poll_state_synchronize_rcu(conn->drop_cookie))
		l5_drop_put(conn);
	for (i = 0; i < 2; i++) {
		struct l5_end *e = &conn->end[i];
		struct l5_sock *l5 = l5_end_sock(e);
		bool idle;

		if (!l5)
			continue;
		/* before any lock that others wait for is taken */
		idle = l5_idle_ring(conn, i, l5_idle_pause(l5->ln));
		if (idle)
			l5_map_zap_ring(conn, i);
		if (mutex_trylock(&l5->lock)) {
			if (rcu_access_pointer(e->sk) == &l5->sk)
				l5_idle_end(conn, i, l5, idle);
			mutex_unlock(&l5->lock);
		} else if (READ_ONCE(e->full)) {
			l5_grow_done(e, -EAGAIN);
		}
		its = l5_idle_next(e, l5);
		if (its && (!next || its < next))
			next = its;
		sock_put(&l5->sk);
	}
	if (!next && !list_empty(&conn->dropped))
		next = L5_POOR_PAUSE;
	return next;
}

/**
 * l5_drop_all() - give back all pages of both rings
 * @conn: a connection that has no ends any more, and that a socket keeps that
 *	was disconnected
 *
 * Calls of that socket may still be in the middle of a copy.
 *
 * Context: may sleep.
 */
void l5_drop_all(struct l5_conn *conn)
{
	int i;

	/* one map_lock at a time; after this no fault looks at a ring */
	l5_map_revoke(conn);
	l5_fill_lock(conn);
	for (i = 0; i < 2; i++)
		WRITE_ONCE(conn->end[i].dropped, true);
	for (i = 0; i < 2; i++)
		l5_drop_take(conn, i, 0, 0);
	l5_fill_unlock(conn);
	synchronize_rcu();
	l5_drop_put(conn);
}

/**
 * l5_drop_free() - give back all that l5_drop() has not given back
 * @conn: the connection, in nobody's use any more
 *
 * Context: any.
 */
void l5_drop_free(struct l5_conn *conn)
{
	struct page *page, *tmp;

	list_for_each_entry_safe(page, tmp, &conn->dropped, lru) {
		list_del(&page->lru);
		put_page(page);
	}
}
