// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: a ring that a device writes, and that nobody reads: what it holds
 * moves to other memory, so that there is room for more. See grow.c for why a
 * program needs that.
 *
 * Such a ring cannot become longer: the other host knows its length, and the
 * device its pages. So the reader's host copies what has come, page by page,
 * into pages that no device knows, and tells the writer that those positions
 * are free. The other host knows nothing of it. What the reader has not read
 * may be as long as net.l5.ring_max_kb allows, and the reader pays for it, as
 * for TCP's receive queue.
 *
 * The reader finds its bytes by their position, as ever. The array of pages
 * becomes longer once. A position that was not copied leads to the page that
 * the device writes there, so each of those pages is in many places; a position
 * that was copied leads to the copy:
 *
 *	     copied, the writer is told	  the device writes
 *	     that they are read		  here
 *	... |--------------------------|----------------------| ...
 *	    ^ reader's page	       ^ to		      ^ to + ring
 *
 * All of that is no more than places in the array, so no two positions have the
 * same place. Once the reader has passed the last copy all is as before.
 *
 * The array is changed with the reader's lock held, in the mutex and in the
 * word, and processes do not see the ring any more, see demote.c. Tasks that
 * look without the lock, and the arrival of records, find the page from before
 * or after a change. Both have the same bytes until the writer is told of room,
 * and that waits for an RCU grace period. A copy is freed after one, too.
 */
#include <linux/list.h>
#include <linux/log2.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <net/sock.h>

#include "acct.h"
#include "demote.h"
#include "grow.h"
#include "lock.h"
#include "netns.h"
#include "pages.h"
#include "ring.h"
#include "spill.h"

/**
 * struct l5_spill - what a ring has beside the pages that a device writes
 * @payer: pays for the copies
 * @under: the ring's array, as the device knows it
 * @from: number of the first page that is a copy, counted from position 0
 * @to: number after the last one
 * @seen: where the records ended at the last look
 *
 * All but @under is changed with the reader's lock held.
 */
struct l5_spill {
	struct l5_payer payer;
	struct l5_pages *under;
	u64 from;
	u64 to;
	u64 seen;
};

/**
 * struct l5_spilling - what is got before the lock is taken, or given back
 *	after
 * @payer: pays for it
 * @spill: the object, if the ring has none
 * @pages: the array, if the ring has none that is long enough
 * @spare: pages that will be copies
 * @gone: pages that were copies
 * @size: of the ring then
 */
struct l5_spilling {
	struct l5_payer payer;
	struct l5_spill *spill;
	struct l5_pages *pages;
	struct list_head spare;
	struct list_head gone;
	u32 size;
};

/**
 * l5_ring_wire() - how long is a ring for its writer?
 * @ring: the end that writes it
 *
 * Context: any.
 * Return: bytes; less than its size if what was unread has been copied.
 */
u32 l5_ring_wire(const struct l5_end *ring)
{
	/* N, pairs with O: the object, then what is in it */
	const struct l5_spill *s = smp_load_acquire(&ring->spill);

	return s ? (s->under->mask + 1) << PAGE_SHIFT : READ_ONCE(ring->size);
}

/* The page that the device writes for a number. */
static struct page *l5_spill_under(const struct l5_spill *s, u64 number)
{
	return s->under->at[number & s->under->mask];
}

static void l5_spill_pages_free(const struct l5_payer *payer,
				struct list_head *pages)
{
	struct page *page, *next;

	list_for_each_entry_safe(page, next, pages, lru) {
		list_del(&page->lru);
		l5_page_free(payer, page);
		l5_unreserve(payer, 1);
	}
}

/* Get one page more. Return: false if there is none. */
static bool l5_spill_page(struct l5_spilling *g)
{
	struct page *page;

	if (!l5_reserve(&g->payer, 1))
		return false;
	page = l5_page_alloc(&g->payer, __GFP_NORETRY);
	if (!page) {
		l5_unreserve(&g->payer, 1);
		return false;
	}
	list_add(&page->lru, &g->spare);
	return true;
}

/* Get what @n copies take, or as many of them as there is memory for. */
static int l5_spill_get(struct l5_spilling *g, struct l5_end *ring, u32 n)
{
	struct mem_cgroup *old;

	mutex_lock(&ring->fill_lock);
	l5_payer_copy(&g->payer, ring->spill ? &ring->spill->payer :
					       &ring->payer);
	mutex_unlock(&ring->fill_lock);
	if (!ring->spill) {
		old = set_active_memcg(g->payer.memcg);
		g->spill = kzalloc(sizeof(*g->spill),
				   GFP_KERNEL_ACCOUNT | __GFP_NOWARN |
				   __GFP_NORETRY);
		set_active_memcg(old);
		g->pages = l5_ring_array(g->size, &g->payer, __GFP_NORETRY);
		if (!g->spill || !g->pages)
			return -ENOMEM;
	}
	while (n && l5_spill_page(g))
		n--;
	return list_empty(&g->spare) ? -ENOMEM : 0;
}

static void l5_spill_put(struct l5_spilling *g)
{
	l5_spill_pages_free(&g->payer, &g->spare);
	l5_spill_pages_free(&g->payer, &g->gone);
	kvfree(g->pages);
	kfree(g->spill);
	l5_payer_put(&g->payer);
}

/* Each place of the longer array leads to a page that the device writes. */
static void l5_spill_begin(struct l5_end *ring, struct l5_spilling *g)
{
	struct l5_spill *s = g->spill;
	u64 i;

	s->under = ring->pages;
	l5_payer_copy(&s->payer, &g->payer);
	for (i = 0; i <= g->pages->mask; i++)
		g->pages->at[i] = l5_spill_under(s, i);
	/* O, pairs with N in l5_ring_wire(): before the size */
	smp_store_release(&ring->spill, s);
	g->spill = NULL;
	/* O, pairs with N: the pages, then the array */
	smp_store_release(&ring->pages, g->pages);
	g->pages = NULL;
	/*
	 * O, too: a task that sees this size sees the object. It is a bound:
	 * any task may see the one or the other.
	 */
	smp_store_release(&ring->size, g->size);
}

/* Copies up to a page's number are of no more use. */
static void l5_spill_back(struct l5_end *ring, u64 to, struct list_head *gone)
{
	struct l5_spill *s = ring->spill;
	struct page **at;

	for (; s->from < s->to && s->from < to; s->from++) {
		at = l5_ring_page_at(ring, s->from);
		list_add(&(*at)->lru, gone);
		/* O, pairs with N: the place is the device's again */
		smp_store_release(at, l5_spill_under(s, s->from));
	}
}

/* Copy what a page has from the reader's place on, and have it found there. */
static void l5_spill_copy(struct l5_end *ring, u64 number, u64 head,
			  struct page *page)
{
	struct l5_spill *s = ring->spill;
	u32 off = number == head >> PAGE_SHIFT ? offset_in_page(head) : 0;

	memcpy(page_address(page) + off,
	       page_address(l5_spill_under(s, number)) + off, PAGE_SIZE - off);
	/* O, pairs with N: the bytes, then the page */
	smp_store_release(l5_ring_page_at(ring, number), page);
	s->to = number + 1;
}

/*
 * The reader's lock is held. The page that the last byte is in stays where it
 * is: the writer is not told that all is read as long as it is not.
 */
static int l5_spill_do(struct l5_sock *l5, struct l5_spilling *g, u64 told,
		       u32 low, u64 *to)
{
	struct l5_end *own = l5_own(l5), *ring = l5_peer(l5);
	u64 head = own->cons.head, first = head >> PAGE_SHIFT;
	struct l5_spill *s = ring->spill;
	u64 tail, last, n;
	struct page *page;
	u32 spare;
	int err;

	tail = l5_ring_seen(l5, s ? s->seen : head);
	if ((s64)(tail - told) <= (s64)low)
		return -EBUSY;
	if (!s) {
		err = l5_ring_leave(l5->conn, !l5->end, head, head);
		if (err)
			return err;
		l5_spill_begin(ring, g);
		s = ring->spill;
	}
	s->seen = tail;
	l5_spill_back(ring, first, &g->gone);
	if (s->from == s->to) {
		s->from = first;
		s->to = first;
	}
	/* a size may have been set since the array was made */
	spare = min(ring->pages->mask - s->under->mask,
		    (g->size - l5_ring_wire(ring)) >> PAGE_SHIFT);
	last = min((tail - 1) >> PAGE_SHIFT, s->from + spare);
	for (n = s->to; (s64)(last - n) > 0; n++) {
		page = list_first_entry_or_null(&g->spare, struct page, lru);
		if (!page)
			break;
		list_del(&page->lru);
		l5_spill_copy(ring, n, head, page);
	}
	*to = s->to << PAGE_SHIFT;
	return (s64)(*to - told) > 0 ? 0 : -ENOSPC;
}

/*
 * Bytes that a socket may have unread, a power of two. A program that has set
 * SO_RCVBUF gets what TCP would have charged to it, as the kernel keeps it:
 * twice what was asked for.
 */
static u32 l5_spill_most(const struct l5_sock *l5)
{
	u32 most = l5_ring_longest(l5->ln);

	if (l5->sk.sk_userlocks & SOCK_RCVBUF_LOCK)
		most = min_t(u32, most, roundup_pow_of_two
			     (max(READ_ONCE(l5->sk.sk_rcvbuf), 1)));
	return most;
}

/*
 * How many pages would be copied now? It may change until the lock is held. 0
 * if there is as much room as the writer asks for.
 */
static u32 l5_spill_count(struct l5_sock *l5, u64 told, u32 low)
{
	const struct l5_end *ring = l5_peer(l5);
	u32 most = l5_ring_wire(ring) >> PAGE_SHIFT;
	const struct l5_spill *s = ring->spill;
	u64 head = l5_load(&l5_own(l5)->ctrl->rx_head);
	u64 tail = l5_ring_seen(l5, s ? s->seen : head);

	if ((s64)(tail - told) <= (s64)low)
		return 0;
	if (s)
		head = max(head, s->to << PAGE_SHIFT);
	return min_t(u64, most, (tail >> PAGE_SHIFT) - (head >> PAGE_SHIFT));
}

/**
 * l5_ring_spill() - copy what is unread in a ring that a device writes
 * @l5: the reader, its lock held, in state L5_MOVING or L5_RINGS
 * @told: the position that the writer takes for the reader's
 * @low: bytes unread at most that the writer waits for
 * @to: the position that it is to take for that from now on, if this is 0
 *
 * Context: the connection's work; sleeps for an RCU grace period.
 * Return: 0; -EBUSY if there is room; -EAGAIN if a task holds a lock, -ENOMEM
 * if there is no memory: it is worth trying again; -ENOSPC or another error if
 * it is not.
 */
int l5_ring_spill(struct l5_sock *l5, u64 told, u32 low, u64 *to)
{
	struct l5_end *ring = l5_peer(l5);
	struct l5_spilling g = { .size = l5_spill_most(l5) };
	u32 n;
	int err;

	lockdep_assert_held(&l5->lock);
	INIT_LIST_HEAD(&g.spare);
	INIT_LIST_HEAD(&g.gone);
	if (g.size <= l5_ring_wire(ring))
		return -ENOSPC;
	low = min(low, l5_room_low(l5_ring_wire(ring)));
	n = l5_spill_count(l5, told, low);
	if (!n)
		return -EBUSY;
	err = l5_spill_get(&g, ring, n);
	if (!err)
		err = l5_ring_trylock(l5, L5_LOCK_RX);
	if (!err) {
		err = l5_spill_do(l5, &g, told, low, to);
		l5_ring_unlock(l5, L5_LOCK_RX);
	}
	/* tasks that look without the lock have done so */
	if (!err || !list_empty(&g.gone))
		synchronize_rcu();
	l5_spill_put(&g);
	return err;
}

/**
 * l5_ring_unspill() - the reader may have passed all that was copied
 * @l5: the reader, its lock held
 *
 * Context: as l5_ring_spill().
 * Return: 0: there are no copies any more; -EBUSY if it has not passed them;
 * -EAGAIN if a task holds a lock; or another error.
 */
int l5_ring_unspill(struct l5_sock *l5)
{
	struct l5_end *own = l5_own(l5), *ring = l5_peer(l5);
	struct l5_spill *s = ring->spill;
	LIST_HEAD(gone);
	int err;

	lockdep_assert_held(&l5->lock);
	err = l5_ring_trylock(l5, L5_LOCK_RX);
	if (err)
		return err;
	if (own->cons.head >> PAGE_SHIFT < s->to)
		err = -EBUSY;
	else
		l5_spill_back(ring, s->to, &gone);
	l5_ring_unlock(l5, L5_LOCK_RX);
	if (!list_empty(&gone))
		synchronize_rcu();
	l5_spill_pages_free(&s->payer, &gone);
	return err;
}

/**
 * l5_spill_free() - the connection goes: the ring is what the device knows
 * @ring: the end that writes it
 *
 * Context: nothing looks at the ring any more.
 */
void l5_spill_free(struct l5_end *ring)
{
	struct l5_spill *s = ring->spill;
	LIST_HEAD(gone);

	if (!s)
		return;
	l5_spill_back(ring, s->to, &gone);
	l5_spill_pages_free(&s->payer, &gone);
	ring->size = l5_ring_wire(ring);
	kvfree(ring->pages);
	ring->pages = s->under;
	ring->spill = NULL;
	l5_payer_put(&s->payer);
	kfree(s);
}
