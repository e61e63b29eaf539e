// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: rings that grow, since nobody reads them.
 *
 * A program may send much before it reads the answers, and so may its peer: a
 * client that sends a megabyte to a server that echoes it, both by calls that
 * wait. TCP's buffers grow to some megabytes meanwhile, and all is well. A ring
 * is shorter, so that a stream stays in the cache, and the two would wait for
 * each other for ever.
 *
 * So a ring that is full, and whose reader has not moved for a while, becomes
 * as long as net.l5.ring_max_kb allows. Its pages stay where they are; what
 * changes is the number of places, and with it the array by which a position
 * finds its page. Whoever looks at the ring meanwhile finds the page by the one
 * array or by the other, each with its own mask, and the length itself is only
 * ever a bound. The writer pays for the pages, as always.
 *
 * A program that has set SO_SNDBUF gets what it asked for; and AF_UNIX has no
 * buffers that grow. A ring that is mapped is the kernel's alone first, since
 * processes know its length: see demote.c. One that a device writes for another
 * host has a length for good: see spill.c.
 */
#include <linux/jiffies.h>
#include <linux/log2.h>
#include <linux/slab.h>
#include <net/sock.h>

#include "acct.h"
#include "bootstrap.h"
#include "demote.h"
#include "fold.h"
#include "grow.h"
#include "link.h"
#include "netns.h"
#include "pages.h"

/* So often the pause after a try in vain is twice as long as the one before. */
#define L5_GROW_TRIES	5

/**
 * l5_ring_longest() - what may be unread of a ring, if no size was set
 * @ln: the namespace of the end that pays
 *
 * Return: bytes, a power of two.
 */
u32 l5_ring_longest(const struct l5_net *ln)
{
	u32 max = READ_ONCE(ln->ring_max_kb);

	return min_t(u32, rounddown_pow_of_two(max) << 10, L5_RING_MAX);
}

/* What a ring may grow to. */
static u32 l5_grow_most(const struct l5_sock *l5)
{
	if (l5->sk.sk_userlocks & SOCK_SNDBUF_LOCK)
		return 0;
	return l5_ring_longest(l5->ln);
}

/* Where the reader of a ring is, to the byte. */
static u64 l5_grow_reader(struct l5_conn *conn, int ring)
{
	return l5_load(&conn->end[!ring].ctrl->rx_pos);
}

/* The reader was at a position just now. */
static void l5_grow_watch(struct l5_end *e, u64 pos)
{
	WRITE_ONCE(e->full_pos, pos);
	WRITE_ONCE(e->full_since, jiffies);
	WRITE_ONCE(e->full_tries, 0);
}

/**
 * l5_ring_full() - a writer has no room: see whether its reader moves
 * @l5: the writer, which is about to wait
 *
 * Context: process.
 */
void l5_ring_full(struct l5_sock *l5)
{
	struct l5_conn *conn = READ_ONCE(l5->conn);
	unsigned long after = l5_grow_after(l5->ln);
	int ring = l5->end;
	struct l5_end *own = &conn->end[ring];

	if (!after || !conn->link->drops || !l5->bops->grows ||
	    READ_ONCE(own->full) || READ_ONCE(own->poor) ||
	    READ_ONCE(own->size) >= l5_grow_most(l5))
		return;
	l5_grow_watch(own, l5_grow_reader(conn, ring));
	WRITE_ONCE(own->full, true);
	l5_ring_idle_later(conn, after, true);
}

/* Does a writer wait for room, and is there little? */
static bool l5_grow_wanted(struct l5_conn *conn, int ring)
{
	struct l5_end *e = &conn->end[ring];

	return l5_load(&e->ctrl->tx_wait) &&
	       !l5_room_worth(l5_load(&e->ctrl->tx_tail),
			      l5_load(&conn->end[!ring].ctrl->rx_head),
			      READ_ONCE(e->size));
}

/*
 * Nobody waits any more. A writer that comes to wait meanwhile leaves it to us,
 * if the ring still counts as full.
 */
static void l5_grow_forget(struct l5_conn *conn, int ring)
{
	struct l5_end *e = &conn->end[ring];

	WRITE_ONCE(e->full, false);
	/* BG, pairs with E: the writer sees the store, or is seen to wait */
	smp_mb();
	if (!l5_grow_wanted(conn, ring))
		return;
	l5_grow_watch(e, l5_grow_reader(conn, ring));
	WRITE_ONCE(e->full, true);
}

/**
 * l5_grow_due() - is a ring to grow?
 * @conn: the connection
 * @ring: the end that writes the ring
 * @after: l5_grow_after() of that end
 *
 * Context: any; one call for a connection at a time.
 */
bool l5_grow_due(struct l5_conn *conn, int ring, unsigned long after)
{
	struct l5_end *e = &conn->end[ring];
	u64 pos = l5_grow_reader(conn, ring);

	if (!READ_ONCE(e->full))
		return false;
	if (!after) {
		WRITE_ONCE(e->full, false);
		return false;
	}
	/* nobody waits any more, or nobody has to */
	if (!l5_grow_wanted(conn, ring)) {
		l5_grow_forget(conn, ring);
		return false;
	}
	if (pos != READ_ONCE(e->full_pos)) {
		l5_grow_watch(e, pos);
		return false;
	}
	return time_after_eq(jiffies, READ_ONCE(e->full_since) + after);
}

/**
 * l5_grow_next() - when is a ring to be looked at again?
 * @e: the end that writes it
 * @after: l5_grow_after() of that end
 *
 * Return: in so many jiffies; 0: not at all.
 */
unsigned long l5_grow_next(const struct l5_end *e, unsigned long after)
{
	return READ_ONCE(e->full) ? after << READ_ONCE(e->full_tries) : 0;
}

/**
 * l5_grow_done() - a ring was to grow: is it to be looked at again?
 * @e: the end that writes it
 * @err: what l5_ring_enlarge() said
 *
 * What is held for long is not looked at all the time.
 */
void l5_grow_done(struct l5_end *e, int err)
{
	if (!err || err == -ENOSPC)
		WRITE_ONCE(e->full, false);
	else if (e->full_tries < L5_GROW_TRIES)
		WRITE_ONCE(e->full_tries, e->full_tries + 1);
}

/**
 * struct l5_growth - what a ring gets
 * @payer: pays for it, as it was when it was asked
 * @pages: the array
 * @page: for the writer, if it is in the page that its reader is in; charged
 * @size: bytes
 */
struct l5_growth {
	struct l5_payer payer;
	struct l5_pages *pages;
	struct page *page;
	u32 size;
};

/*
 * Put each page of a ring into its place in a longer array. A ring with a page
 * for each place does not count its pages on: they are where the reader is. And
 * a writer that is one round ahead shares the reader's page. What it has in
 * there comes before what the reader has there, and goes into a page of its
 * own.
 */
static int l5_grow_move(struct l5_end *e, struct l5_growth *g, u64 head,
			u64 tail)
{
	u64 number, first = e->first, next = e->next;
	u32 places = l5_ring_places(e);
	struct page *shared;

	lockdep_assert_held(&e->fill_lock);
	if (next - first == places) {
		first = head >> PAGE_SHIFT;
		next = first + places;
	}
	for (number = first; number < next; number++)
		g->pages->at[number & g->pages->mask] =
			*l5_ring_page_at(e, number);
	if (tail >> PAGE_SHIFT >= next) {
		/* the writer has a page for its next header, or cursors lie */
		shared = *l5_ring_page_at(e, next);
		if (!shared || tail >> PAGE_SHIFT > next)
			return -ENOSPC;
		if (e->npages >= e->granted) {
			if (!l5_reserve(&e->payer, 1))
				return -ENOMEM;
			e->granted++;
		}
		memcpy(page_address(g->page), page_address(shared),
		       offset_in_page(tail));
		g->pages->at[next & g->pages->mask] = g->page;
		g->page = NULL;
		WRITE_ONCE(e->npages, e->npages + 1);
		next++;
	}
	WRITE_ONCE(e->first, first);
	/* U, pairs with T */
	smp_store_release(&e->next, next);
	return 0;
}

/* All is there, and nobody else changes the ring: make it longer. */
static int l5_grow_do(struct l5_conn *conn, int ring, struct l5_growth *g)
{
	struct l5_end *e = &conn->end[ring];
	u64 tail = l5_load(&e->ctrl->tx_tail);
	/* D, pairs with C: what the reader has left may be written over */
	u64 head = l5_load_acquire(&conn->end[!ring].ctrl->rx_head);
	struct l5_pages *old = e->pages;
	int err;

	if (e->dropped || e->fold || !old)
		return -ENOSPC;
	/* a lie: the next task that reads or writes finds it */
	if (tail - head > e->size)
		return -ENOSPC;
	if (!l5_payer_same(&g->payer, &e->payer))
		return -EAGAIN;
	err = l5_grow_move(e, g, head, tail);
	if (err)
		return err;
	/* O, pairs with N: the pages, then the array */
	smp_store_release(&e->pages, g->pages);
	g->pages = NULL;
	/* a bound: any task may see the one or the other */
	WRITE_ONCE(e->size, g->size);
	e->prod.size = g->size;
	kvfree_rcu(old, rcu);
	return 0;
}

/**
 * l5_ring_enlarge() - make a ring longer, the kernel's alone if it has to be
 * @l5: the writer, its tx_lock and the ring's lock word held
 * @conn: its connection
 * @ring: its end
 *
 * Context: may sleep.
 * Return: 0 if the ring is longer now, -EAGAIN if a task holds a lock, or
 * -ENOMEM: it is worth trying again; -ENOSPC if it is not.
 */
int l5_ring_enlarge(struct l5_sock *l5, struct l5_conn *conn, int ring)
{
	struct l5_growth g = { .size = l5_grow_most(l5) };
	struct l5_end *e = &conn->end[ring];
	int err = -ENOMEM;

	lockdep_assert_held(&l5->tx_lock);
	if (g.size <= e->size)
		return -ENOSPC;
	mutex_lock(&e->fill_lock);
	l5_payer_copy(&g.payer, &e->payer);
	mutex_unlock(&e->fill_lock);
	g.pages = l5_ring_array(g.size, &g.payer, __GFP_NORETRY);
	g.page = l5_page_alloc(&g.payer, __GFP_NORETRY);
	if (g.pages && g.page)
		err = l5_ring_demote(conn, ring);
	if (!err) {
		err = -EAGAIN;
		/* no end is being mapped meanwhile, which is told the length */
		if (l5_rings_trylock(conn, -1)) {
			err = l5_grow_do(conn, ring, &g);
			l5_rings_unlock(conn);
		}
	}
	kvfree(g.pages);
	l5_page_free(&g.payer, g.page);
	l5_payer_put(&g.payer);
	return err;
}
