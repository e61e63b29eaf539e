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
 * process maps them both rings are whole: each place has a page, and keeps it.
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
 * Context: any.
 * Return: the page, NULL if it was never written.
 */
struct page *l5_ring_page(struct l5_end *e, u64 pos)
{
	/* N, pairs with O in l5_ring_fill(); the array, then the page */
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
 * Context: any.
 * Return: the word, NULL if the writer has not reached the position.
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

/*
 * The next page of a ring: the oldest, if the reader has left it, or a new one.
 * A look at the wrong moment through a stale cursor may find a page in a place
 * that the page has left; it stays a page of this ring, and such a look decides
 * nothing.
 *
 * Return: 0, or -ENOBUFS if there is no page to be had.
 */
static int l5_ring_next_page(struct l5_sock *l5, struct l5_end *e)
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
		page = l5_page_alloc(&e->payer,
				     e->npages < L5_GRANT ? 0 : __GFP_NORETRY);
		if (!page)
			return -ENOBUFS;
		e->npages++;
	}
	/* O, pairs with N */
	smp_store_release(l5_ring_page_at(e, e->next), page);
	l5_ring_grew(e);
	return 0;
}

/*
 * Have the array of pages, as hard to get as l5_page_alloc() says of @how.
 * Return: false if there is no memory for it.
 */
static bool l5_ring_array(struct l5_end *e, gfp_t how)
{
	struct mem_cgroup *old;
	struct page **pages;

	lockdep_assert_held(&e->fill_lock);
	if (e->pages)
		return true;
	old = set_active_memcg(e->payer.memcg);
	pages = kvcalloc(e->size >> PAGE_SHIFT, sizeof(*pages),
			 GFP_KERNEL_ACCOUNT | __GFP_NOWARN | how);
	set_active_memcg(old);
	/* O, pairs with N */
	smp_store_release(&e->pages, pages);
	return pages;
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
	u64 pos = e->prod.tail;
	int have;

	if (l5_ring_end(e) << PAGE_SHIFT >= pos + len || l5_ring_whole(e)) {
		WRITE_ONCE(e->starved, 0);
		return len;
	}
	if (l5_prod_look(&e->prod, l5_peer(l5)->ctrl) < 0)
		return -EPROTO;
	mutex_lock(&e->fill_lock);
	if (!l5_ring_array(e, 0)) {
		mutex_unlock(&e->fill_lock);
		return -ENOBUFS;
	}
	while (!l5_ring_whole(e) && e->next << PAGE_SHIFT < pos + len)
		if (l5_ring_next_page(l5, e))
			break;
	if (l5_ring_whole(e))
		have = len;
	else
		have = min_t(u64, len, (e->next << PAGE_SHIFT) - pos);
	mutex_unlock(&e->fill_lock);
	if (have >= (int)min(len, 4 * L5_HDR)) {
		WRITE_ONCE(e->starved, 0);
		return have;
	}
	if (e->next < 2)
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
	u32 pages;			/* that @payer pays for */
	u32 grant;			/* and of these, granted anew */
	u32 rest;			/* granted anew to writers */
	struct list_head list;
	u32 n;				/* in that list, the payer's first */
};

static void l5_fill_plan(struct l5_fill *f, struct l5_end *e,
			 const struct l5_payer *payer, u32 most)
{
	u32 grant = l5_ring_ungranted(e);

	INIT_LIST_HEAD(&f->list);
	f->e = e;
	f->payer = payer;
	f->n = 0;
	f->pages = &e->payer == payer ? 0 : min(l5_ring_missing(e), most);
	f->grant = min(grant, f->pages);
	f->rest = grant - f->grant;
}

static bool l5_fill_reserve(struct l5_fill *f)
{
	if (!l5_reserve(f->payer, f->grant))
		return false;
	if (l5_reserve(&f->e->payer, f->rest))
		return true;
	l5_unreserve(f->payer, f->grant);
	return false;
}

static void l5_fill_cancel(struct l5_fill *f)
{
	struct page *page, *tmp;

	list_for_each_entry_safe(page, tmp, &f->list, lru) {
		const struct l5_payer *p = f->payer;

		if (f->pages)
			f->pages--;
		else
			p = &f->e->payer;
		l5_page_free(p, page);
	}
	l5_unreserve(f->payer, f->grant);
	l5_unreserve(&f->e->payer, f->rest);
}

/* Return: 0, or -ENOMEM and there are as many pages as there were. */
static int l5_fill_gather(struct l5_fill *f)
{
	u32 want = l5_ring_missing(f->e);
	struct page *page;

	lockdep_assert_held(&f->e->fill_lock);
	if (!l5_ring_array(f->e, __GFP_RETRY_MAYFAIL))
		return -ENOMEM;
	for (; f->n < want; f->n++) {
		page = l5_page_alloc(f->n < f->pages ? f->payer :
						       &f->e->payer,
				     __GFP_NORETRY);
		if (!page)
			return -ENOMEM;
		list_add_tail(&page->lru, &f->list);
	}
	return 0;
}

static void l5_fill_done(struct l5_fill *f)
{
	f->e->lent += f->grant;
	f->e->lent_pages += f->pages;
	l5_ring_complete(f->e, &f->list);
}

/**
 * l5_ring_populate() - make both rings whole, so that they can be mapped
 * @conn: the connection
 * @by: the end that is mapped, and whose payer pays
 * @most: bytes of the other end's ring that this payer pays for; a larger ring
 *	is the other end's wish
 *
 * Context: may sleep; the caller may hold the mmap_lock.
 * Return: 0, or -ENOMEM and nothing has changed.
 */
int l5_ring_populate(struct l5_conn *conn, int by, u32 most)
{
	struct l5_end *e0 = &conn->end[0], *e1 = &conn->end[1];
	const struct l5_payer *payer = &conn->end[by].payer;
	struct l5_fill f0, f1;
	int err = -ENOMEM;

	mutex_lock(&e0->fill_lock);
	mutex_lock_nested(&e1->fill_lock, SINGLE_DEPTH_NESTING);
	l5_fill_plan(&f0, e0, payer, most >> PAGE_SHIFT);
	l5_fill_plan(&f1, e1, payer, most >> PAGE_SHIFT);
	if (!l5_fill_reserve(&f0))
		goto out;
	if (!l5_fill_reserve(&f1))
		goto err_first;
	err = l5_fill_gather(&f0) ?: l5_fill_gather(&f1);
	if (err)
		goto err_both;
	l5_fill_done(&f0);
	l5_fill_done(&f1);
	goto out;

err_both:
	l5_fill_cancel(&f1);
err_first:
	l5_fill_cancel(&f0);
out:
	mutex_unlock(&e1->fill_lock);
	mutex_unlock(&e0->fill_lock);
	return err;
}
