// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: the pages of a ring.
 *
 * A ring is an array of pages by position, of which only those between reader
 * and writer need to be there: the writer gets a page when it comes to its
 * position, and takes the oldest that the reader is through with before it
 * allocates another. So a connection holds what is unread and little more,
 * whatever the size of its ring, and a connection that answers at once lives in
 * a page that stays in the cache.
 *
 * A process that maps the rings has no use for a page that moves: see fold.c.
 */
#include <linux/list.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "pages.h"

/**
 * l5_ring_page() - the page at a position
 * @e: the end that writes the ring
 * @pos: the position
 *
 * Context: any; an RCU section keeps the page, see drop.c.
 * Return: the page, NULL if it was never written, or was given back.
 */
struct page *l5_ring_page(struct l5_end *e, u64 pos)
{
	/* N, pairs with O in the functions below; the array, then the page */
	struct l5_pages *pages = smp_load_acquire(&e->pages);

	if (!pages)
		return NULL;
	/* N, pairs with O, too; the page, then what is in it */
	return smp_load_acquire(&pages->at[(pos >> PAGE_SHIFT) & pages->mask]);
}

/**
 * l5_ring_slot() - the header word at a position
 * @e: the end that writes the ring
 * @pos: the position, a multiple of L5_HDR
 *
 * Context: as l5_ring_page().
 * Return: the word, NULL if the writer has not reached the position, or the
 * page was given back.
 */
u64 *l5_ring_slot(struct l5_end *e, u64 pos)
{
	struct page *page = l5_ring_page(e, pos);

	return page ? page_address(page) + offset_in_page(pos) : NULL;
}

/* The place of the page with a number. */
struct page **l5_ring_page_at(struct l5_end *e, u64 number)
{
	return &e->pages->at[number & e->pages->mask];
}

/* The number after the last page. */
static u64 l5_ring_end(const struct l5_end *e)
{
	/*
	 * T, pairs with U: a task that sees @next sees the pages before it, and
	 * a value of @first that is at least as new.
	 */
	return smp_load_acquire(&e->next);
}

/* The ring has one page more. It is in its place, and @first is up to date. */
void l5_ring_grew(struct l5_end *e)
{
	/* U, pairs with T */
	smp_store_release(&e->next, e->next + 1);
}

/* Does each place have its page, though nobody has mapped it? */
static bool l5_ring_whole(const struct l5_end *e)
{
	u64 next = l5_ring_end(e);

	return next - READ_ONCE(e->first) == l5_ring_places(e);
}

/**
 * struct l5_spare - memory for a ring, allocated without its fill_lock
 * @payer: pays for it
 * @page: a page, or NULL
 * @pages: an array of pages, or NULL
 *
 * An allocation may sleep for as long as the payer's memory cgroup is above its
 * limits, and the other end wants the lock, too. So nothing is allocated under
 * it: what is needed is found out under the lock, allocated, and put into its
 * place under the lock.
 */
struct l5_spare {
	struct l5_payer payer;
	struct page *page;
	struct l5_pages *pages;
};

/* What is left over; the payer stays. */
static void l5_spare_free(struct l5_spare *s)
{
	l5_page_free(&s->payer, s->page);
	s->page = NULL;
	kvfree(s->pages);
	s->pages = NULL;
}

static void l5_spare_put(struct l5_spare *s)
{
	l5_spare_free(s);
	l5_payer_put(&s->payer);
}

/* An end may have another payer by now: what the last one paid for goes. */
static void l5_spare_payer(struct l5_spare *s, const struct l5_end *e)
{
	lockdep_assert_held(&e->fill_lock);
	if (s->payer.acct && l5_payer_same(&s->payer, &e->payer))
		return;
	l5_spare_put(s);
	l5_payer_copy(&s->payer, &e->payer);
}

/*
 * An array of pages for a ring of a size, as hard to get as l5_page_alloc()
 * says of @how.
 * Return: NULL if there is no memory for it.
 */
struct l5_pages *l5_ring_array(u32 size, const struct l5_payer *payer,
			       gfp_t how)
{
	struct mem_cgroup *old = set_active_memcg(payer->memcg);
	u32 places = size >> PAGE_SHIFT;
	struct l5_pages *pages;

	pages = kvzalloc(struct_size(pages, at, places),
			 GFP_KERNEL_ACCOUNT | __GFP_NOWARN | how);
	set_active_memcg(old);
	if (pages)
		pages->mask = places - 1;
	return pages;
}

/* Have the array in its place, if @pages is one and there was none. */
void l5_ring_place_array(struct l5_end *e, struct l5_pages **pages)
{
	lockdep_assert_held(&e->fill_lock);
	if (e->pages || !*pages)
		return;
	/* O, pairs with N */
	smp_store_release(&e->pages, *pages);
	*pages = NULL;
}

/*
 * The next page of a ring: the oldest, if the reader has left it, or a spare
 * one. A look at the wrong moment through a stale cursor may find a page in a
 * place that the page has left; it stays a page of this ring, and such a look
 * decides nothing.
 *
 * Return: 0, -ENOBUFS if no more is granted, -EAGAIN if a page is lacking.
 */
static int l5_ring_next_page(struct l5_end *e, struct l5_spare *s)
{
	struct page *page;

	lockdep_assert_held(&e->fill_lock);
	if (e->first < e->prod.head >> PAGE_SHIFT) {
		page = *l5_ring_page_at(e, e->first);
		WRITE_ONCE(*l5_ring_page_at(e, e->first), NULL);
		WRITE_ONCE(e->first, e->first + 1);
	} else {
		if (e->npages >= e->granted) {
			if (!l5_reserve(&e->payer, 1))
				return -ENOBUFS;
			e->granted++;
		}
		if (!s->page)
			return -EAGAIN;
		page = s->page;
		s->page = NULL;
		e->npages++;
	}
	/* O, pairs with N */
	smp_store_release(l5_ring_page_at(e, e->next), page);
	l5_ring_grew(e);
	return 0;
}

/*
 * Go on from @pos to @end, as far as there is memory at hand. A process that
 * had the ring mapped, see demote.c, may have written any position. That is no
 * step too many: a writer is in a page of its ring, or at the end of the last.
 *
 * Return: 0, also if the ring is not to have pages any more, -ENOBUFS if there
 * is no more to be had, -EAGAIN if @s lacks memory that is worth trying to get,
 * -EPROTO.
 */
static int l5_ring_grow(struct l5_end *e, struct l5_spare *s, u64 pos, u64 end)
{
	int err = 0;

	lockdep_assert_held(&e->fill_lock);
	if (e->dropped || e->fold)
		return 0;
	l5_ring_place_array(e, &s->pages);
	if (!e->pages)
		return -EAGAIN;
	if (!l5_ring_whole(e) &&
	    (pos >> PAGE_SHIFT) - e->first > e->next - e->first)
		return -EPROTO;
	while (!err && !l5_ring_whole(e) && e->next << PAGE_SHIFT < end)
		err = l5_ring_next_page(e, s);
	return err;
}

/* Get what l5_ring_grow() lacked. Return: false if it is not to be had. */
static bool l5_spare_get(struct l5_spare *s, const struct l5_end *e)
{
	if (!READ_ONCE(e->pages)) {
		s->pages = l5_ring_array(READ_ONCE(e->size), &s->payer, 0);
		if (!s->pages)
			return false;
	}
	if (!s->page)
		s->page = l5_page_alloc(&s->payer,
					READ_ONCE(e->npages) < L5_GRANT ?
					0 : __GFP_NORETRY);
	return s->page;
}

/**
 * l5_ring_fill() - have pages for bytes from the tail, or for as many as can be
 *	had
 * @l5: the writer, its tx_lock held
 * @e: its end
 * @len: bytes
 *
 * Context: may sleep.
 * Return: how many, a multiple of 8, 0 if the ring was mapped meanwhile,
 * -EAGAIN if the reader has to go on first, -ENOBUFS if there is no memory at
 * all, -EPROTO.
 */
int l5_ring_fill(struct l5_sock *l5, struct l5_end *e, u32 len)
{
	u64 pos = e->prod.tail, next;
	struct l5_spare spare = { };
	bool mapped;
	int have, err;

	if (l5_ring_end(e) << PAGE_SHIFT >= pos + len || l5_ring_whole(e)) {
		WRITE_ONCE(e->starved, 0);
		return len;
	}
	if (l5_prod_look(&e->prod, l5_peer(l5)->ctrl) < 0)
		return -EPROTO;
	for (;;) {
		mutex_lock(&e->fill_lock);
		if (spare.payer.acct)
			l5_spare_payer(&spare, e);
		err = l5_ring_grow(e, &spare, pos, pos + len);
		if (err == -EAGAIN && !spare.payer.acct)
			l5_spare_payer(&spare, e);
		next = e->next;
		/* a peer that has closed gets no bytes: they need no pages */
		have = e->dropped || l5_ring_whole(e) ? len :
		       min_t(u64, len, (next << PAGE_SHIFT) - pos);
		mapped = e->fold;
		mutex_unlock(&e->fill_lock);
		if (err != -EAGAIN || !l5_spare_get(&spare, e))
			break;
	}
	l5_spare_put(&spare);
	if (err == -EPROTO)
		return err;
	if (mapped && !READ_ONCE(e->dropped))
		return 0;
	if (!READ_ONCE(e->pages) && !READ_ONCE(e->dropped))
		return -ENOBUFS;
	if (have >= (int)min(len, 4 * L5_HDR)) {
		WRITE_ONCE(e->starved, 0);
		return have;
	}
	if (next < 2)
		return -ENOBUFS;
	/* two pages, and the reader is not in the last: it will move on */
	WRITE_ONCE(e->starved, (e->prod.head >> PAGE_SHIFT) + 1);
	return -EAGAIN;
}
