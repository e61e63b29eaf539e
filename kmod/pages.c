// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: the pages of a ring.
 *
 * A ring is an array of pages by position, of which only those between reader
 * and writer need to be there: the writer gets one when it comes to its
 * position, and takes the oldest that the reader is through with before it
 * allocates another. So a connection holds what is unread and little more,
 * whatever the size of its ring, and one that answers at once lives in a page
 * that stays in the cache.
 *
 * A process that maps the rings has no use for a page that moves, so once one
 * does, both rings are whole: each place has a page, and keeps it.
 */
#include <linux/list.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "ring.h"

/* The page at a position, NULL if it was never written. */
struct page *l5_ring_page(struct l5_end *e, u64 pos)
{
	/* N, pairs with O in l5_ring_fill(); the array, then the page */
	struct page **pages = smp_load_acquire(&e->pages);

	if (!pages)
		return NULL;
	/* likewise; the page, then what is in it */
	return smp_load_acquire(&pages[(pos & (e->size - 1)) >> PAGE_SHIFT]);
}

/* The header word at a position that the writer has been at. */
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
	 * T, pairs with U: who sees it sees the pages, and of @first a value as
	 * old at most.
	 */
	return smp_load_acquire(&e->next);
}

/* A page more. The page is there, and @first is what it is to be. */
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
 * that it has left; it stays a page of this ring, and such a look decides
 * nothing.
 *
 * Return: -ENOBUFS if there is none.
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
		page = l5_page_alloc(&e->payer, e->npages < L5_GRANT);
		if (!page)
			return -ENOBUFS;
		e->npages++;
	}
	/* O, pairs with N */
	smp_store_release(l5_ring_page_at(e, e->next), page);
	l5_ring_grew(e);
	return 0;
}

/* The array of pages. Return: false if there is no memory for it. */
static bool l5_ring_array(struct l5_end *e)
{
	struct mem_cgroup *old;
	struct page **pages;

	lockdep_assert_held(&e->fill_lock);
	if (e->pages)
		return true;
	old = set_active_memcg(e->payer.memcg);
	pages = kvcalloc(e->size >> PAGE_SHIFT, sizeof(*pages),
			 GFP_KERNEL_ACCOUNT);
	set_active_memcg(old);
	/* O, pairs with N */
	smp_store_release(&e->pages, pages);
	return pages;
}

/*
 * Have pages for @len bytes from the tail, or for as many as can be had.
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
	if (!l5_ring_array(e)) {
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
	/* two pages and the reader not in the last: it will move on */
	WRITE_ONCE(e->starved, (e->prod.head >> PAGE_SHIFT) + 1);
	return -EAGAIN;
}

/* Pages that a ring lacks to be whole. */
static u32 l5_ring_missing(const struct l5_end *e)
{
	return (e->size >> PAGE_SHIFT) - (u32)(e->next - e->first);
}

/* Pages that it would have then and was not granted. */
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
 * What a ring lacks to be whole, at the cost of who writes it, whoever asks.
 * Return: 0, or -ENOMEM and @pages has as many as there were.
 */
static int l5_ring_gather(struct l5_end *e, struct list_head *pages)
{
	struct page *page;
	u32 n;

	lockdep_assert_held(&e->fill_lock);
	if (!l5_ring_array(e))
		return -ENOMEM;
	for (n = l5_ring_missing(e); n; n--) {
		page = l5_page_alloc(&e->payer, false);
		if (!page)
			return -ENOMEM;
		list_add(&page->lru, pages);
	}
	return 0;
}

static void l5_ring_scatter(struct l5_end *e, struct list_head *pages)
{
	struct page *page, *tmp;

	list_for_each_entry_safe(page, tmp, pages, lru)
		l5_page_free(&e->payer, page);
}

/**
 * l5_ring_populate() - make both rings whole, so that they can be mapped
 * @conn: the connection
 *
 * Context: may sleep; the caller may hold the mmap_lock.
 * Return: 0, or -ENOMEM and nothing has changed.
 */
int l5_ring_populate(struct l5_conn *conn)
{
	struct l5_end *e0 = &conn->end[0], *e1 = &conn->end[1];
	LIST_HEAD(pages0);
	LIST_HEAD(pages1);
	u32 grant0, grant1;
	int err = -ENOMEM;

	mutex_lock(&e0->fill_lock);
	mutex_lock_nested(&e1->fill_lock, SINGLE_DEPTH_NESTING);
	grant0 = l5_ring_ungranted(e0);
	grant1 = l5_ring_ungranted(e1);
	if (!l5_reserve(&e0->payer, grant0))
		goto out;
	if (!l5_reserve(&e1->payer, grant1))
		goto err_grant0;
	err = l5_ring_gather(e0, &pages0) ?: l5_ring_gather(e1, &pages1);
	if (err)
		goto err_pages;
	l5_ring_complete(e0, &pages0);
	l5_ring_complete(e1, &pages1);
	goto out;

err_pages:
	l5_ring_scatter(e1, &pages1);
	l5_ring_scatter(e0, &pages0);
	l5_unreserve(&e1->payer, grant1);
err_grant0:
	l5_unreserve(&e0->payer, grant0);
out:
	mutex_unlock(&e1->fill_lock);
	mutex_unlock(&e0->fill_lock);
	return err;
}
