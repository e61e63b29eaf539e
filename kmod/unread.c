// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: how many bytes of a ring are not read yet.
 *
 * Only the headers of the records say, so they are walked, without taking any.
 * A program that asks after each read, by FIONREAD or TCP_INQ, or that waits
 * for many bytes, would walk a full ring again and again. So a ring with many
 * records remembers how far it was counted, with marks on the way: the next
 * count walks from the reader's place to the first mark, and then those records
 * that are new. Whichever process reads, and by whichever way, moves nothing
 * but the place.
 *
 * What is remembered comes from headers that a peer may change: it is used if
 * it agrees with what is found now, and says no more than how much one reader
 * is told about its own ring.
 */
#include <linux/mutex.h>
#include <linux/slab.h>

#include "bootstrap.h"
#include "ring.h"
#include "unread.h"

/* Records that are walked without a thought of the next time. */
#define L5_UNREAD_FEW	8
#define L5_UNREAD_MARKS	56

/*
 * @lock: only ever tried, and innermost; guards all below
 * @to: the position that the count has come to
 * @sum: payload of the records before it, since some count began
 * @first: the oldest mark
 * @nr: marks, in the order of their positions
 * @pos: of a record
 * @before: payload of the records before that one, as @sum
 */
struct l5_unread {
	struct mutex lock;
	u64 to;
	u64 sum;
	u32 first;
	u32 nr;
	struct {
		u64 pos;
		u64 before;
	} mark[L5_UNREAD_MARKS];
};

static void l5_unread_restart(struct l5_unread *c, u64 pos)
{
	c->to = pos;
	c->sum = 0;
	c->nr = 0;
}

/* Is there a mark at a position? The marks before it are given up. */
static bool l5_unread_marked(struct l5_unread *c, u64 pos)
{
	while (c->nr && c->mark[c->first].pos < pos) {
		c->first = (c->first + 1) % L5_UNREAD_MARKS;
		c->nr--;
	}
	return c->nr && c->mark[c->first].pos == pos;
}

static void l5_unread_mark(struct l5_unread *c, u64 pos, u32 size)
{
	u32 last = (c->first + c->nr - 1) % L5_UNREAD_MARKS;

	if (c->nr && (c->nr == L5_UNREAD_MARKS ||
		      pos - c->mark[last].pos < size / L5_UNREAD_MARKS))
		return;
	last = (c->first + c->nr++) % L5_UNREAD_MARKS;
	c->mark[last].pos = pos;
	c->mark[last].before = c->sum;
}

/*
 * Walk to where the last count ended, or to a mark, from where on the bytes are
 * known. @walk is at a record.
 * Return: 1 if @walk is at a record that is new, 0 or less if there is none.
 */
static int l5_unread_known(struct l5_unread *c, struct l5_end *ring,
			   struct l5_cons *walk, u64 start, size_t *sum)
{
	int ret = 1;

	while (ret > 0 && walk->head < c->to) {
		if (!walk->off && l5_unread_marked(c, walk->head)) {
			*sum += c->sum - c->mark[c->first].before;
			walk->head = c->to;
			walk->len = 0;
			walk->have = 0;
			return c->to - start < walk->size ?
				l5_ring_next(ring, walk, NULL) : 0;
		}
		*sum += walk->len - walk->off;
		cond_resched();
		ret = l5_ring_walk(ring, walk, start, NULL);
	}
	/* there are other records than there were */
	if (walk->head != c->to)
		l5_unread_restart(c, walk->head);
	return ret;
}

/* Count what is new. @walk is at a record, and the last count ended there. */
static int l5_unread_new(struct l5_unread *c, struct l5_end *ring,
			 struct l5_cons *walk, u64 start, size_t *sum,
			 size_t enough)
{
	int ret;

	do {
		l5_unread_mark(c, walk->head, walk->size);
		c->sum += walk->len;
		c->to = walk->head + l5_rec_size(walk->len);
		*sum += walk->len - walk->off;
		cond_resched();
		ret = l5_ring_walk(ring, walk, start, NULL);
	} while (ret > 0 && *sum < enough);
	return ret;
}

static size_t l5_unread_on(struct l5_unread *c, struct l5_end *ring,
			   const struct l5_ctrl *ctrl, struct l5_cons *walk,
			   size_t enough)
{
	u64 start = walk->head, pos = start + walk->off;
	size_t sum = 0;
	int ret;

	if (c->to < start || c->to - start > walk->size)
		l5_unread_restart(c, start);
	/* AD, pairs with C */
	smp_rmb();
	ret = l5_ring_next(ring, walk, NULL);
	if (ret > 0)
		ret = l5_unread_known(c, ring, walk, start, &sum);
	if (ret > 0 && sum < enough)
		ret = l5_unread_new(c, ring, walk, start, &sum, enough);
	/* AD, pairs with C */
	smp_rmb();
	/* nonsense, or a reader moved and these were no records any more */
	if (ret < 0 || l5_load(&ctrl->rx_head) != start ||
	    l5_load(&ctrl->rx_pos) != pos)
		l5_unread_restart(c, 0);
	return sum;
}

/* Remember from the next count on. The caller may be about to sleep. */
static void l5_unread_begin(struct l5_end *ring)
{
	struct l5_unread *c = kzalloc(sizeof(*c), GFP_NOWAIT | __GFP_ACCOUNT |
						  __GFP_NOWARN);

	if (!c)
		return;
	mutex_init(&c->lock);
	if (cmpxchg_release(&ring->unread, NULL, c))
		kfree(c);
}

/* Count without what is remembered, and say how many @records there were. */
static size_t l5_unread_plain(struct l5_end *ring, struct l5_cons *walk,
			      size_t enough, unsigned int *records)
{
	u64 start = walk->head;
	size_t sum = 0;

	if (l5_ring_next(ring, walk, NULL) <= 0)
		return 0;
	do {
		sum += walk->len - walk->off;
		++*records;
		/* records may be as small as the peer likes */
		cond_resched();
	} while (sum < enough && l5_ring_walk(ring, walk, start, NULL) > 0);
	return sum;
}

/**
 * l5_ring_count() - unread payload bytes in a ring
 * @l5: a socket in state L5_RINGS
 * @end: the end that writes the ring
 * @enough: stop counting there
 *
 * A snapshot: without that direction's lock the cursors may move meanwhile.
 *
 * Context: process, also one that is about to sleep.
 */
size_t l5_ring_count(struct l5_sock *l5, int end, size_t enough)
{
	struct l5_end *ring = &l5->conn->end[end];
	const struct l5_ctrl *ctrl = l5->conn->end[!end].ctrl;
	struct l5_unread *c = READ_ONCE(ring->unread);
	struct l5_cons walk = { .size = READ_ONCE(ring->size) };
	unsigned int records = 0;
	size_t sum;

	if (l5_cons_load(&walk, ctrl) < 0)
		return 0;
	/* pages that are gone are not to be counted */
	if (c && !READ_ONCE(ring->dropped) && mutex_trylock(&c->lock)) {
		sum = l5_unread_on(c, ring, ctrl, &walk, enough);
		mutex_unlock(&c->lock);
	} else {
		sum = l5_unread_plain(ring, &walk, enough, &records);
		if (!c && records > L5_UNREAD_FEW)
			l5_unread_begin(ring);
	}
	/* the last record of a peer that lies may be longer than the ring */
	return min_t(size_t, sum, walk.size);
}

/**
 * l5_ring_holds() - are there so many bytes to read, or anything to complain
 *	of?
 * @l5: a socket in state L5_RINGS
 * @n: bytes, at least 1
 *
 * Without the lock: its holder may be in a page fault for as long as a process
 * likes. A receiver that takes bytes meanwhile moves the cursors: then the
 * count may be of anything, and the bytes are counted again. If that goes on,
 * or the receiver stands between its two stores, there is something to read,
 * and the receiver that comes to take it will see how much: true means no more
 * than that it is worth trying.
 *
 * Context: process, also one that is about to sleep.
 */
bool l5_ring_holds(struct l5_sock *l5, size_t n)
{
	const struct l5_ctrl *ctrl = l5_own(l5)->ctrl;
	u64 head, pos;
	size_t sum;
	int i;

	for (i = 0; i < 4; i++) {
		if (!l5_ring_readable(l5))
			return false;
		pos = l5_load(&ctrl->rx_pos);
		/*
		 * AD, pairs with C: a receiver leaves a place by moving the
		 * cursors; what is then written to that place is seen after
		 * these cursors
		 */
		smp_rmb();
		head = l5_load(&ctrl->rx_head);
		sum = l5_ring_count(l5, !l5->end, n);
		/* AD, pairs with C */
		smp_rmb();
		if (l5_load(&ctrl->rx_pos) == pos &&
		    l5_load(&ctrl->rx_head) == head)
			return !sum || sum >= n;
	}
	return true;
}

/**
 * l5_send_unread() - has a peer that closed left something unread?
 * @l5: a socket in state L5_RINGS that has just published
 *
 * If so the peer is asked for its reset. Bytes that it read before it closed
 * are no loss.
 *
 * Context: may sleep.
 */
void l5_send_unread(struct l5_sock *l5)
{
	/* M, see l5_ring_write() */
	if (test_bit(L5_END_CLOSED, &l5_peer(l5)->flags) &&
	    l5_ring_used(l5->conn, l5->end))
		l5_send_to_closed(l5);
}
