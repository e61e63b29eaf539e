// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: the pages of rings that are mapped.
 *
 * A page that a process has mapped cannot move along with reader and writer.
 * So once an end is mapped each place of both rings has a page. But few
 * connections need as many pages as there are places. So a ring is folded: it
 * has @fold pages, a power of two, and place n shows the same page as place
 * n + @fold. Its writer uses one page less of the ring at a time, so that no
 * two of the places between reader and writer are the same page.
 *
 * A writer that needs more room makes a system call, and gets it, with its lock
 * word held, if there is memory: the ring is unfolded. The places from the
 * reader's position on keep their pages, as many as there were. So what is
 * unread stays where it is, and what may be written next, too. All other places
 * show other pages from then on. Processes lose those pages from their mappings
 * before the writer uses any of these places. The reader, and the writer's own
 * state, are the same as before: a page that is looked at has never moved.
 *
 * A ring that has been empty for a while is folded again, see drop.c: then only
 * one place matters, the writer's, which is kept.
 *
 * Rings that an adapter reads or writes are whole: it knows each page.
 */
#include <linux/delay.h>
#include <linux/list.h>
#include <linux/log2.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "end.h"
#include "fold.h"
#include "link.h"
#include "mapper.h"
#include "pages.h"
#include "state.h"

/* By how many pages do places repeat once there are at least @least of them? */
static u32 l5_fold_to(const struct l5_end *e, u32 least)
{
	u32 places = l5_ring_places(e);
	u32 to = roundup_pow_of_two(max(e->npages, min(least, places)));

	return clamp(to, e->fold, places);
}

/* Pages that a ring lacks until it has @to. */
static u32 l5_fold_missing(const struct l5_end *e, u32 to)
{
	return to > e->npages ? to - e->npages : 0;
}

/* Pages that it would have then and that were not granted. */
static u32 l5_fold_ungranted(const struct l5_end *e, u32 to)
{
	return to > e->granted ? to - e->granted : 0;
}

/**
 * l5_ring_spread() - give each place of a ring its page
 * @e: the end that writes the ring
 * @first: the first of the places that keep theirs, all of which have one
 * @fold: how many places that are: a power of two
 *
 * Context: under its fill_lock.
 */
void l5_ring_spread(struct l5_end *e, u64 first, u32 fold)
{
	u32 i;

	lockdep_assert_held(&e->fill_lock);
	for (i = 0; i < l5_ring_places(e); i++) {
		u64 from = first + ((i - (u32)first) & (fold - 1));
		struct page *page = *l5_ring_page_at(e, from);

		/* O, pairs with N */
		if (*l5_ring_page_at(e, i) != page)
			smp_store_release(l5_ring_page_at(e, i), page);
	}
	/* AX, pairs with AY: a writer that sees it sees the pages */
	smp_store_release(&e->fold, fold);
}

/* A ring that has pages from @first on gets more behind them, @fold in all. */
static void l5_ring_complete(struct l5_end *e, struct list_head *pages,
			     u64 first, u32 fold)
{
	u64 number = first + e->npages;

	e->granted += l5_fold_ungranted(e, fold);
	WRITE_ONCE(e->starved, 0);
	for (; e->npages < fold; e->npages++, number++) {
		struct page *page = list_first_entry(pages, struct page, lru);

		if (WARN_ON_ONCE(list_empty(pages)))
			return;
		list_del(&page->lru);
		/* O, pairs with N */
		smp_store_release(l5_ring_page_at(e, number), page);
		if (!e->fold)
			l5_ring_grew(e);
	}
	l5_ring_spread(e, first, fold);
}

/*
 * What a ring lacks. The mapping end's payer pays for those of the pages that
 * the peer did not ask for: up to @most pages.
 */
struct l5_fill {
	struct l5_end *e;
	const struct l5_payer *payer;	/* of the end that maps */
	struct l5_payer writer;		/* of @e, when it was looked at */
	bool own;			/* @e is the end that maps */
	u32 to;				/* pages that the ring is to have */
	u32 pages;			/* that @payer pays for */
	u32 grant;			/* and of these, granted anew */
	u32 rest;			/* granted anew to writers */
	u32 want;			/* pages */
	struct l5_pages *array;		/* of the ring, if it had none */
	struct list_head list;
	u32 n;				/* in that list, the payer's first */
};

static void l5_fill_plan(struct l5_fill *f, struct l5_end *e,
			 const struct l5_payer *payer, bool own, u32 most,
			 u32 least)
{
	u32 grant;

	lockdep_assert_held(&e->fill_lock);
	INIT_LIST_HEAD(&f->list);
	f->e = e;
	f->payer = payer;
	l5_payer_copy(&f->writer, &e->payer);
	f->n = 0;
	f->array = NULL;
	f->to = l5_fold_to(e, least);
	f->want = l5_fold_missing(e, f->to);
	f->own = own;
	f->pages = own ? 0 : min(f->want, most);
	grant = l5_fold_ungranted(e, f->to);
	f->grant = min(grant, f->pages);
	f->rest = grant - f->grant;
}

/* Give pages back, and what was reserved for them, until so much is left. */
static void l5_fill_shrink(struct l5_fill *f, u32 pages, u32 want, u32 grant,
			   u32 rest)
{
	struct page *page;

	while (f->n && f->pages > pages) {
		page = list_first_entry(&f->list, struct page, lru);
		list_del(&page->lru);
		l5_page_free(f->payer, page);
		f->pages--;
		f->n--;
	}
	f->pages = min(f->pages, pages);
	while (f->n > want) {
		page = list_last_entry(&f->list, struct page, lru);
		list_del(&page->lru);
		l5_page_free(&f->writer, page);
		f->n--;
	}
	f->want = want;
	l5_unreserve(f->payer, f->grant - grant);
	f->grant = grant;
	l5_unreserve(&f->writer, f->rest - rest);
	f->rest = rest;
}

static bool l5_fill_reserve(struct l5_fill *f)
{
	if (!l5_reserve(f->payer, f->grant))
		goto err;
	if (l5_reserve(&f->writer, f->rest))
		return true;
	l5_unreserve(f->payer, f->grant);
err:
	f->grant = 0;
	f->rest = 0;
	return false;
}

/* Return: 0, or -ENOMEM. */
static int l5_fill_gather(struct l5_fill *f)
{
	struct page *page;

	if (!l5_fill_reserve(f))
		return -ENOMEM;
	if (!READ_ONCE(f->e->pages)) {
		f->array = l5_ring_array(READ_ONCE(f->e->size), &f->writer,
					 __GFP_RETRY_MAYFAIL);
		if (!f->array)
			return -ENOMEM;
	}
	for (; f->n < f->want; f->n++) {
		/* as many as a connection may have, at the payer's pace */
		if (fatal_signal_pending(current))
			return -ENOMEM;
		page = l5_page_alloc(f->n < f->pages ? f->payer : &f->writer,
				     __GFP_NORETRY);
		if (!page)
			return -ENOMEM;
		list_add_tail(&page->lru, &f->list);
	}
	return 0;
}

/*
 * Does what was gathered still fit? The ring may have got pages meanwhile, and
 * another payer when it was accepted.
 */
static bool l5_fill_fits(struct l5_fill *f, u32 most)
{
	struct l5_end *e = f->e;
	u32 grant = l5_fold_ungranted(e, f->to);
	u32 want = l5_fold_missing(e, f->to);
	u32 pages = f->own ? 0 : min(want, most);

	lockdep_assert_held(&e->fill_lock);
	/* it may have got more than it was to have, or been folded again */
	if (!l5_payer_same(&f->writer, &e->payer) ||
	    l5_fold_to(e, f->to) != f->to || want > f->want ||
	    pages > f->pages || min(grant, pages) > f->grant ||
	    grant - min(grant, pages) > f->rest)
		return false;
	l5_fill_shrink(f, pages, want, min(grant, pages),
		       grant - min(grant, pages));
	return true;
}

static void l5_fill_done(struct l5_fill *f, u64 first)
{
	l5_ring_place_array(f->e, &f->array);
	f->e->lent += f->grant;
	f->e->lent_pages += f->pages;
	l5_ring_complete(f->e, &f->list, first, f->to);
	/* it is all the ring's now */
	f->pages = 0;
	f->n = 0;
	f->grant = 0;
	f->rest = 0;
}

/* What is left of it goes back. */
static void l5_fill_put(struct l5_fill *f)
{
	l5_fill_shrink(f, 0, 0, 0, 0);
	kvfree(f->array);
	l5_payer_put(&f->writer);
}

/**
 * l5_fill_lock() - have both rings' fill_lock
 * @conn: the connection
 */
void l5_fill_lock(struct l5_conn *conn)
{
	mutex_lock(&conn->end[0].fill_lock);
	mutex_lock_nested(&conn->end[1].fill_lock, SINGLE_DEPTH_NESTING);
}

/**
 * l5_fill_unlock() - undo l5_fill_lock()
 * @conn: the connection
 */
void l5_fill_unlock(struct l5_conn *conn)
{
	mutex_unlock(&conn->end[1].fill_lock);
	mutex_unlock(&conn->end[0].fill_lock);
}

/*
 * Have rings lost pages that nobody needs, or is one the kernel's alone? Then
 * they get none for processes.
 */
static bool l5_fill_dropped(const struct l5_conn *conn)
{
	return conn->end[0].dropped || conn->end[1].dropped ||
	       conn->end[0].demoted || conn->end[1].demoted;
}

/* Has a ring a page for each place, and as many as it is to have? */
static bool l5_fold_there(const struct l5_end *e, u32 least)
{
	return e->fold && e->fold >= min(least, l5_ring_places(e));
}

/*
 * Rings that have lost pages get none, and mappings show what is left.
 * Return: 0, -ENOMEM, or -EAGAIN if an end has another payer by now, or has got
 * many pages.
 */
static int l5_ring_try_populate(struct l5_conn *conn, int by, u32 most,
				u32 least)
{
	struct l5_payer payer = { };
	struct l5_fill f[2];
	bool dropped;
	int err, i;

	l5_fill_lock(conn);
	if (l5_fill_dropped(conn)) {
		l5_fill_unlock(conn);
		return 0;
	}
	if (l5_fold_there(&conn->end[0], least) &&
	    l5_fold_there(&conn->end[1], least)) {
		l5_fill_unlock(conn);
		return 0;
	}
	l5_payer_copy(&payer, &conn->end[by].payer);
	for (i = 0; i < 2; i++)
		l5_fill_plan(&f[i], &conn->end[i], &payer, i == by, most,
			     least);
	l5_fill_unlock(conn);

	/* nothing was reserved for the second if the first fails */
	err = l5_fill_gather(&f[0]);
	if (err) {
		f[1].grant = 0;
		f[1].rest = 0;
	} else {
		err = l5_fill_gather(&f[1]);
	}
	l5_fill_lock(conn);
	dropped = l5_fill_dropped(conn);
	if (dropped)
		err = 0;
	else if (!err && (!l5_fill_fits(&f[0], most) ||
			  !l5_fill_fits(&f[1], most)))
		err = -EAGAIN;
	for (i = 0; i < 2 && !err && !dropped; i++)
		if (!l5_fold_there(f[i].e, least))
			l5_fill_done(&f[i], f[i].e->first);
	/* what two ends want at a time may be there once */
	if (err == -ENOMEM && l5_fold_there(&conn->end[0], least) &&
	    l5_fold_there(&conn->end[1], least))
		err = 0;
	l5_fill_unlock(conn);
	for (i = 0; i < 2; i++)
		l5_fill_put(&f[i]);
	l5_payer_put(&payer);
	return err;
}

/* An end gets another payer once, when it is accepted. */
#define L5_POPULATE_TRIES	4

/**
 * l5_ring_populate() - give each place of both rings a page, so that they can
 *	be mapped
 * @conn: the connection
 * @by: the end that is mapped, and whose payer pays
 * @most: bytes of the other end's ring that this payer pays for; a larger ring
 *	is the other end's wish
 * @least: pages that there are to be; L5_FOLD_WHOLE: as many as places
 *
 * One task of an end at a time: however many ask, each page that the other end
 * pays for is charged once.
 *
 * Context: may sleep; the caller may hold the mmap_lock.
 * Return: 0, also if an end is closed and pages were given back, or -ENOMEM and
 * nothing has changed.
 */
int l5_ring_populate(struct l5_conn *conn, int by, u32 most, u32 least)
{
	struct l5_end *e = &conn->end[by];
	int err = -EAGAIN, i;

	if (mutex_lock_killable(&e->whole_lock))
		return -ENOMEM;
	for (i = 0; i < L5_POPULATE_TRIES && err == -EAGAIN; i++)
		err = l5_ring_try_populate(conn, by, most >> PAGE_SHIFT,
					   least);
	mutex_unlock(&e->whole_lock);
	return err ? -ENOMEM : 0;
}

/* Pages are got for so many times as many. */
#define L5_FOLD_STEP	4u
/*
 * Tries to have the mappings of both ends, and the naps between them, us. Most
 * faults are over at once. A call that may not wait comes here, too.
 */
#define L5_RINGS_TRIES	20
#define L5_RINGS_NAP	50

/**
 * l5_rings_trylock() - lock the mappings of both ends, and the pages
 * @conn: the connection
 * @first: an end whose map_lock is waited for, negative: none
 *
 * A fault of an end's processes holds its map_lock for as long as memory is
 * short for them. So no task sleeps for one map_lock while it holds the other:
 * the processes of one end do not wait for those of the other.
 *
 * Context: may sleep.
 * Return: whether they are locked; if not a fault is at work.
 */
bool l5_rings_trylock(struct l5_conn *conn, int first)
{
	int one = max(first, 0);

	if (first >= 0)
		mutex_lock(&conn->end[one].map_lock);
	else if (!mutex_trylock(&conn->end[one].map_lock))
		return false;
	if (!mutex_trylock(&conn->end[!one].map_lock)) {
		mutex_unlock(&conn->end[one].map_lock);
		return false;
	}
	l5_fill_lock(conn);
	return true;
}

/**
 * l5_rings_unlock() - undo l5_rings_trylock()
 * @conn: the connection
 */
void l5_rings_unlock(struct l5_conn *conn)
{
	l5_fill_unlock(conn);
	mutex_unlock(&conn->end[1].map_lock);
	mutex_unlock(&conn->end[0].map_lock);
}

/* Have the locks, and wait for a fault that is short. */
static bool l5_fold_lock(struct l5_conn *conn)
{
	int i;

	for (i = 0; i < L5_RINGS_TRIES; i++) {
		if (l5_rings_trylock(conn, -1))
			return true;
		usleep_range(L5_RINGS_NAP, 2 * L5_RINGS_NAP);
	}
	return false;
}

/* Give a ring more pages. */
static int l5_fold_grow(struct l5_conn *conn, int ring, struct l5_fill *f)
{
	struct l5_end *e = &conn->end[ring], *peer = &conn->end[!ring];
	u64 tail = l5_load(&e->ctrl->tx_tail);
	/* D, pairs with C: what the reader has left may be written over */
	u64 head = l5_load_acquire(&peer->ctrl->rx_head);

	if (e->dropped || !l5_fill_fits(f, 0) || !l5_map_few(conn))
		return -EAGAIN;
	/* a lie: the next task that reads or writes finds it */
	if ((tail >> PAGE_SHIFT) - (head >> PAGE_SHIFT) >= e->fold)
		return -EAGAIN;
	if (f->to > e->fold)
		l5_fill_done(f, head >> PAGE_SHIFT);
	return 0;
}

static int l5_fold_try(struct l5_conn *conn, int ring, u32 least)
{
	struct l5_end *e = &conn->end[ring];
	struct l5_payer payer = { };
	struct l5_fill f;
	int err;

	mutex_lock(&e->fill_lock);
	if (e->dropped || !e->fold || e->fold == l5_ring_places(e)) {
		mutex_unlock(&e->fill_lock);
		return -ENOSPC;
	}
	l5_payer_copy(&payer, &e->payer);
	l5_fill_plan(&f, e, &payer, true, 0, least);
	mutex_unlock(&e->fill_lock);

	err = l5_fill_gather(&f);
	if (!err && !l5_fold_lock(conn))
		err = -EAGAIN;
	if (!err) {
		err = l5_fold_grow(conn, ring, &f);
		l5_rings_unlock(conn);
	}
	/* until then a process may see a page where it was before */
	if (!err)
		l5_map_zap_ring(conn, ring);
	l5_fill_put(&f);
	l5_payer_put(&payer);
	return err;
}

/* A process that keeps in mind that there was room is to know of this. */
static void l5_map_refused(struct l5_end *e)
{
	struct l5_map_state *state;

	mutex_lock(&e->map_lock);
	state = e->state;
	if (state)
		WRITE_ONCE(state->tx_refused, state->tx_refused + 1);
	mutex_unlock(&e->map_lock);
}

/**
 * l5_ring_unfold() - get more pages for a ring
 * @l5: the writer, which has the ring's lock word
 * @conn: its connection
 * @ring: its end
 * @len: bytes that are to fit into it at a time
 *
 * One task of an end at a time, as for l5_ring_populate().
 *
 * If there are none to be had, l5_ring_extent() says so to all that ask for
 * room, until l5_ring_hope() is called.
 *
 * Context: may sleep.
 * Return: 0 if there are more than before, or enough, -ENOSPC if there are
 * never more, or another error.
 */
int l5_ring_unfold(struct l5_sock *l5, struct l5_conn *conn, int ring, u32 len)
{
	struct l5_end *e = &conn->end[ring];
	int err = -EINTR;
	u32 least;

	if (mutex_lock_killable(&e->whole_lock))
		goto out;
	least = max(READ_ONCE(e->fold) * L5_FOLD_STEP, (len >> PAGE_SHIFT) + 2);
	/* a process may ask by many threads at a time */
	err = l5_fold_window(e) < len ? l5_fold_try(conn, ring, least) : 0;
	mutex_unlock(&e->whole_lock);
out:
	if (err && err != -ENOSPC)
		l5_map_refused(e);
	WRITE_ONCE(e->poor, err && err != -ENOSPC);
	l5_map_extent(l5);
	return err;
}

/*
 * What is queued already is brought forward if @soon, and never put off: that
 * would be in a peer's hands.
 */
static void l5_idle_queue(struct l5_conn *conn, unsigned long pause, bool soon)
{
	bool queued;

	if (soon) {
		/*
		 * BH, pairs with the kernel's own barrier between the mark that
		 * a work is not queued any more and the work: what it is to see
		 * is stored, or it is queued again.
		 */
		smp_mb();
		if (delayed_work_pending(&conn->drop) &&
		    time_before_eq(READ_ONCE(conn->drop.timer.expires),
				   jiffies + pause))
			return;
	}
	refcount_inc(&conn->ref);
	if (soon)
		queued = !mod_delayed_work(l5_drop_wq, &conn->drop, pause);
	else
		queued = queue_delayed_work(l5_drop_wq, &conn->drop, pause);
	/* the caller has a reference, so this is not the last */
	if (!queued)
		refcount_dec(&conn->ref);
}

/**
 * l5_ring_idle_later() - a ring has got pages, or was refused some: see to it
 * @conn: the connection, with a reference
 * @pause: after so long, jiffies; 0: never
 * @soon: what is queued already is brought forward; else it comes first
 *
 * Context: any but interrupt.
 */
void l5_ring_idle_later(struct l5_conn *conn, unsigned long pause, bool soon)
{
	if (!pause || !conn->link->drops ||
	    (!soon && delayed_work_pending(&conn->drop)))
		return;
	l5_idle_queue(conn, pause, soon);
	/*
	 * AU, pairs with L: an end that closes now takes back what is queued,
	 * or we see that both are closed. Then no timer is to be left.
	 */
	smp_mb();
	if (l5_end_gone(&conn->end[0]) && l5_end_gone(&conn->end[1]))
		l5_idle_queue(conn, 0, true);
}

/**
 * l5_ring_hope() - pages may be had again
 * @l5: a writer that was refused some
 *
 * Context: process.
 */
void l5_ring_hope(struct l5_sock *l5)
{
	WRITE_ONCE(l5_own(l5)->poor, false);
	l5_map_extent(l5);
}

/**
 * l5_ring_extent() - how much of its ring a writer may come to use
 * @l5: the writer, whose SO_SNDBUF may have been set late
 *
 * Context: any.
 */
u32 l5_ring_extent(const struct l5_sock *l5)
{
	const struct l5_end *own = l5_own(l5);
	u32 size = READ_ONCE(own->size), sndbuf;

	if (unlikely(READ_ONCE(own->poor)))
		size = l5_fold_window(own);
	if (likely(!(l5->sk.sk_userlocks & SOCK_SNDBUF_LOCK)))
		return size;
	sndbuf = round_down(READ_ONCE(l5->sk.sk_sndbuf) / 2, L5_HDR);
	return min(size, max(sndbuf, L5_RING_LEAST));
}

/* How much it may use at present. */
static u32 l5_ring_backed(const struct l5_sock *l5)
{
	return min(l5_ring_extent(l5), l5_fold_window(l5_own(l5)));
}

/**
 * l5_map_extent() - SO_SNDBUF, or the pages, may have changed: tell processes
 *	that write
 * @l5: a socket in any state
 *
 * Context: any.
 */
void l5_map_extent(struct l5_sock *l5)
{
	struct l5_map_state *state;
	unsigned long flags;
	struct l5_end *own;
	u32 most, extent;

	if (l5_state(l5) < L5_MOVING)
		return;
	own = l5_own(l5);
	/* S, pairs with R in l5_map_prepare() */
	smp_mb();
	state = READ_ONCE(own->state);
	/* its processes do not write the ring any more, see demote.c */
	if (!state || READ_ONCE(own->demoted))
		return;
	/*
	 * The last one of two tasks stores what is true. A ring is folded with
	 * its lock word held, until this was called: no writer ever sees what
	 * a task has found before.
	 */
	spin_lock_irqsave(&own->extent_lock, flags);
	most = l5_ring_extent(l5);
	extent = l5_ring_backed(l5);
	if (state->tx_most != most)
		WRITE_ONCE(state->tx_most, most);
	if (state->tx_extent != extent)
		WRITE_ONCE(state->tx_extent, extent);
	spin_unlock_irqrestore(&own->extent_lock, flags);
}
