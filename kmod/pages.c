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
 * A process that maps the rings has no use for a page that moves. So once a
 * process maps them both rings are whole: each place has a page, and keeps it
 * until an end is closed, see drop.c.
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
	struct page **pages = smp_load_acquire(&e->pages);

	if (!pages)
		return NULL;
	/* N, pairs with O, too; the page, then what is in it */
	return smp_load_acquire(&pages[(pos & (e->size - 1)) >> PAGE_SHIFT]);
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

static struct page **l5_ring_page_at(struct l5_end *e, u64 number)
{
	return &e->pages[number & ((e->size >> PAGE_SHIFT) - 1)];
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
static void l5_ring_grew(struct l5_end *e)
{
	/* U, pairs with T */
	smp_store_release(&e->next, e->next + 1);
}

/* Does each place have its page for good? */
static bool l5_ring_whole(const struct l5_end *e)
{
	u64 next = l5_ring_end(e);

	return next - READ_ONCE(e->first) == e->size >> PAGE_SHIFT;
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
	struct page **pages;
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
 * The array of pages, as hard to get as l5_page_alloc() says of @how.
 * Return: NULL if there is no memory for it.
 */
static struct page **l5_ring_array(const struct l5_end *e,
				   const struct l5_payer *payer, gfp_t how)
{
	struct mem_cgroup *old = set_active_memcg(payer->memcg);
	struct page **pages;

	pages = kvcalloc(e->size >> PAGE_SHIFT, sizeof(*pages),
			 GFP_KERNEL_ACCOUNT | __GFP_NOWARN | how);
	set_active_memcg(old);
	return pages;
}

/* Have the array in its place, if @pages is one and there was none. */
static void l5_ring_place_array(struct l5_end *e, struct page ***pages)
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
 * Go on to @end, as far as there is memory at hand.
 * Return: 0, also if the ring is not to have pages any more, -ENOBUFS if there
 * is no more to be had, -EAGAIN if @s lacks memory that is worth trying to get.
 */
static int l5_ring_grow(struct l5_end *e, struct l5_spare *s, u64 end)
{
	int err = 0;

	lockdep_assert_held(&e->fill_lock);
	if (e->dropped)
		return 0;
	l5_ring_place_array(e, &s->pages);
	if (!e->pages)
		return -EAGAIN;
	while (!err && !l5_ring_whole(e) && e->next << PAGE_SHIFT < end)
		err = l5_ring_next_page(e, s);
	return err;
}

/* Get what l5_ring_grow() lacked. Return: false if it is not to be had. */
static bool l5_spare_get(struct l5_spare *s, const struct l5_end *e)
{
	if (!READ_ONCE(e->pages)) {
		s->pages = l5_ring_array(e, &s->payer, 0);
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
 * Return: how many, a multiple of 8, -EAGAIN if the reader has to go on first,
 * -ENOBUFS if there is no memory at all, -EPROTO.
 */
int l5_ring_fill(struct l5_sock *l5, struct l5_end *e, u32 len)
{
	u64 pos = e->prod.tail, next;
	struct l5_spare spare = { };
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
		err = l5_ring_grow(e, &spare, pos + len);
		if (err == -EAGAIN && !spare.payer.acct)
			l5_spare_payer(&spare, e);
		next = e->next;
		/* a peer that has closed gets no bytes: they need no pages */
		have = e->dropped || l5_ring_whole(e) ? len :
		       min_t(u64, len, (next << PAGE_SHIFT) - pos);
		mutex_unlock(&e->fill_lock);
		if (err != -EAGAIN || !l5_spare_get(&spare, e))
			break;
	}
	l5_spare_put(&spare);
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

/* Pages that a ring lacks until it is whole. */
static u32 l5_ring_missing(const struct l5_end *e)
{
	return (e->size >> PAGE_SHIFT) - (u32)(e->next - e->first);
}

/* Pages that a whole ring would have and that were not granted. */
static u32 l5_ring_ungranted(const struct l5_end *e)
{
	u32 n = e->npages + l5_ring_missing(e);

	return n > e->granted ? n - e->granted : 0;
}

static void l5_ring_complete(struct l5_end *e, struct list_head *pages)
{
	u32 n = l5_ring_missing(e);

	e->granted += l5_ring_ungranted(e);
	e->npages += n;
	WRITE_ONCE(e->starved, 0);
	for (; n; n--) {
		struct page *page = list_first_entry(pages, struct page, lru);

		list_del(&page->lru);
		/* O, pairs with N */
		smp_store_release(l5_ring_page_at(e, e->next), page);
		l5_ring_grew(e);
	}
}

/*
 * What a ring lacks to be whole. The mapping end's payer pays for those of the
 * pages that the peer did not ask for: up to @most pages.
 */
struct l5_fill {
	struct l5_end *e;
	const struct l5_payer *payer;	/* of the end that maps */
	struct l5_payer writer;		/* of @e, when it was looked at */
	bool own;			/* @e is the end that maps */
	u32 pages;			/* that @payer pays for */
	u32 grant;			/* and of these, granted anew */
	u32 rest;			/* granted anew to writers */
	u32 want;			/* pages */
	struct page **array;		/* of the ring, if it had none */
	struct list_head list;
	u32 n;				/* in that list, the payer's first */
};

static void l5_fill_plan(struct l5_fill *f, struct l5_end *e,
			 const struct l5_payer *payer, bool own, u32 most)
{
	u32 grant = l5_ring_ungranted(e);

	lockdep_assert_held(&e->fill_lock);
	INIT_LIST_HEAD(&f->list);
	f->e = e;
	f->payer = payer;
	l5_payer_copy(&f->writer, &e->payer);
	f->n = 0;
	f->array = NULL;
	f->want = l5_ring_missing(e);
	f->own = own;
	f->pages = own ? 0 : min(f->want, most);
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
		f->array = l5_ring_array(f->e, &f->writer,
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
	u32 grant = l5_ring_ungranted(e), want = l5_ring_missing(e);
	u32 pages;

	lockdep_assert_held(&e->fill_lock);
	if (!l5_payer_same(&f->writer, &e->payer))
		return false;
	pages = f->own ? 0 : min(want, most);
	l5_fill_shrink(f, pages, want, min(grant, pages),
		       grant - min(grant, pages));
	return true;
}

static void l5_fill_done(struct l5_fill *f)
{
	l5_ring_place_array(f->e, &f->array);
	f->e->lent += f->grant;
	f->e->lent_pages += f->pages;
	l5_ring_complete(f->e, &f->list);
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

/* Have rings lost pages that nobody needs, so that they get none? */
static bool l5_fill_dropped(const struct l5_conn *conn)
{
	return conn->end[0].dropped || conn->end[1].dropped;
}

/*
 * Rings that have lost pages get none, and mappings show what is left.
 * Return: 0, -ENOMEM, or -EAGAIN if an end has another payer by now.
 */
static int l5_ring_try_populate(struct l5_conn *conn, int by, u32 most)
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
	l5_payer_copy(&payer, &conn->end[by].payer);
	for (i = 0; i < 2; i++)
		l5_fill_plan(&f[i], &conn->end[i], &payer, i == by, most);
	l5_fill_unlock(conn);
	if (f[0].want || f[1].want) {
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
			l5_fill_done(&f[i]);
		/* what two ends want at a time may be there once */
		if (err == -ENOMEM && l5_ring_whole(&conn->end[0]) &&
		    l5_ring_whole(&conn->end[1]))
			err = 0;
		l5_fill_unlock(conn);
	} else {
		err = 0;
	}
	for (i = 0; i < 2; i++)
		l5_fill_put(&f[i]);
	l5_payer_put(&payer);
	return err;
}

/* An end gets another payer once, when it is accepted. */
#define L5_POPULATE_TRIES	4

/**
 * l5_ring_populate() - make both rings whole, so that they can be mapped
 * @conn: the connection
 * @by: the end that is mapped, and whose payer pays
 * @most: bytes of the other end's ring that this payer pays for; a larger ring
 *	is the other end's wish
 *
 * One task of an end at a time: however many ask, each page that the other end
 * pays for is charged once.
 *
 * Context: may sleep; the caller may hold the mmap_lock.
 * Return: 0, also if an end is closed and pages were given back, or -ENOMEM and
 * nothing has changed.
 */
int l5_ring_populate(struct l5_conn *conn, int by, u32 most)
{
	struct l5_end *e = &conn->end[by];
	int err = -EAGAIN, i;

	if (mutex_lock_killable(&e->whole_lock))
		return -ENOMEM;
	for (i = 0; i < L5_POPULATE_TRIES && err == -EAGAIN; i++)
		err = l5_ring_try_populate(conn, by, most >> PAGE_SHIFT);
	mutex_unlock(&e->whole_lock);
	return err ? -ENOMEM : 0;
}
