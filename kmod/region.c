// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: regions: memory beside the rings that both ends of a connection can
 * map from their sockets (the paper's figure 4 shares such memory by a memfd
 * with seals).
 *
 * A region is the module's own memory and not a file: it has the length that it
 * was made with, nobody can make it shorter or punch holes into it, and all of
 * its pages are there and paid for before anybody knows of it. So no access to
 * it is SIGBUS, and no process pays because it was the first to touch it.
 *
 * An end *loses* a region: the pages are taken out of all mappings that its
 * processes have, and what those show from then on is memory that the mapping
 * has for itself. The end that made a region can take it from the other one and
 * keep it (L5_REGION_UNSHARE): what is in it then does not change any more but
 * by its maker's hand, so that a maker can look at a request in place, and need
 * not copy it first. That holds only if no page of it can be pinned, by a
 * device or a pipe, say. So page tables have bare numbers of pages (VM_PFNMAP),
 * which get_user_pages() leaves alone; and then a page needs no reference for
 * each mapping, and is free as soon as both ends have lost it.
 *
 * No end waits for a process of the other one, but for a fault that it may be
 * in the middle of, and then in a way that hears signals, or in a work.
 */
#include <linux/cred.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/user.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "netns.h"
#include "region.h"
#include "state.h"
#include "view.h"

static_assert(L5_REGION_MAX <= 1ull << L5_REGION_SHIFT);

/*
 * As AF_XDP counts its memory: by user, so that processes and descriptors do
 * not multiply what a user may lock.
 */
static int l5_region_lock_pages(struct l5_region *r)
{
	unsigned long limit = rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;
	struct user_struct *user = current_user();
	long old = atomic_long_read(&user->locked_vm);

	do {
		if (old + r->npages > limit)
			return capable(CAP_IPC_LOCK) ? 0 : -ENOMEM;
	} while (!atomic_long_try_cmpxchg(&user->locked_vm, &old,
					  old + r->npages));
	r->locked = get_uid(user);
	return 0;
}

/* Give back the first @n pages, and all that the region counts for. */
static void l5_region_empty(struct l5_region *r, unsigned long n)
{
	while (n--) {
		l5_page_free(&r->payer, r->pages[n]);
		cond_resched();
	}
	kvfree(r->pages);
	r->pages = NULL;
	if (r->locked) {
		atomic_long_sub(r->npages, &r->locked->locked_vm);
		free_uid(r->locked);
	}
	l5_unreserve(&r->payer, r->npages);
	l5_payer_put(&r->payer);
}

/**
 * l5_region_put() - drop a reference
 * @r: the region
 *
 * Context: process.
 */
void l5_region_put(struct l5_region *r)
{
	if (refcount_dec_and_test(&r->ref))
		kfree(r);
}

/* Take it from an end. Return: whether the end had it until now. */
static bool l5_region_lose(struct l5_region *r, int end)
{
	struct l5_region_side *s = &r->side[end];
	struct l5_view *view;
	bool had;

	lockdep_assert_held(&s->lock);
	had = !s->lost;
	s->lost = true;
	if (had)
		list_for_each_entry(view, &s->views, node)
			l5_view_zap(view, 0, 0);
	return had;
}

/*
 * Take the region from the ends that are to lose it. The last one that had it
 * has it emptied.
 *
 * Context: may sleep; takes the lock of each side in turn.
 * Return: 0, or -EINTR if the task is killed and @killable is set.
 */
static int l5_region_settle(struct l5_region *r, bool killable)
{
	u32 losing = READ_ONCE(r->losing);
	bool had;
	int i;

	for (i = 0; i < 2; i++) {
		struct mutex *lock = &r->side[i].lock;

		if (!(losing & BIT(i)))
			continue;
		if (!killable)
			mutex_lock(lock);
		else if (mutex_lock_killable(lock))
			return -EINTR;
		had = l5_region_lose(r, i);
		mutex_unlock(lock);
		if (had && atomic_dec_and_test(&r->keepers))
			l5_region_empty(r, r->npages);
	}
	return 0;
}

static void l5_region_work(struct work_struct *work)
{
	struct l5_region *r = container_of(work, struct l5_region, work);

	l5_region_settle(r, false);
	l5_region_put(r);
}

/* l5_region_settle() by a work, for a caller that is not to wait */
static void l5_region_settle_later(struct l5_region *r)
{
	refcount_inc(&r->ref);
	/* it may wait for a process that lacks memory */
	if (!queue_work(l5_drop_wq, &r->work))
		l5_region_put(r);
}

/* Say that an end has lost a region, before it loses it. */
static void l5_region_tell(struct l5_conn *conn, int end)
{
	struct l5_end *e = &conn->end[end];
	struct l5_map_state *state;

	lockdep_assert_held(&conn->region_lock);
	WRITE_ONCE(e->regions_lost, e->regions_lost + 1);
	/* S, pairs with R in l5_map_state_begin() */
	smp_mb();
	state = READ_ONCE(e->state);
	if (state)
		WRITE_ONCE(state->regions_lost, e->regions_lost);
	/*
	 * BL, pairs with BM in a process that has used the region: the word,
	 * then the pages are taken. A process that saw other memory sees it.
	 */
	smp_mb();
}

/**
 * l5_region_noted() - have a new state page say what was lost before
 * @conn: the connection
 * @end: the end that has the page
 *
 * Context: process.
 */
void l5_region_noted(struct l5_conn *conn, int end)
{
	struct l5_end *e = &conn->end[end];

	spin_lock(&conn->region_lock);
	WRITE_ONCE(e->state->regions_lost, e->regions_lost);
	spin_unlock(&conn->region_lock);
}

/*
 * The ends in @ends are to lose a region; if that is its maker the other one is
 * among them. Return: whether any of them had it.
 */
static bool l5_region_losing(struct l5_conn *conn, struct l5_region *r,
			     u32 ends)
{
	u32 fresh = ends & ~r->losing;
	int i;

	lockdep_assert_held(&conn->region_lock);
	WRITE_ONCE(r->losing, r->losing | ends);
	for (i = 0; i < 2; i++)
		if (fresh & BIT(i))
			l5_region_tell(conn, i);
	return fresh;
}

/* Take a region from the list, whose reference goes to the caller. */
static void l5_region_unlist(struct l5_conn *conn, struct l5_region *r)
{
	struct l5_end *e = &conn->end[r->maker];

	lockdep_assert_held(&conn->region_lock);
	list_del_init(&r->node);
	WRITE_ONCE(e->nregions, e->nregions - 1);
}

/* What an end has made with that number, as far as the bits of @mask go */
static struct l5_region *l5_region_made(struct l5_conn *conn, int end,
					u32 number, u32 mask)
{
	struct l5_region *r;

	lockdep_assert_held(&conn->region_lock);
	list_for_each_entry(r, &conn->end[end].regions, node)
		if (!((r->number ^ number) & mask))
			return r;
	return NULL;
}

/* May an end use a region? */
static bool l5_region_has(const struct l5_region *r, int end)
{
	return !(r->losing & BIT(end));
}

/* A region that an end may use, or NULL. @mask as of l5_region_made(). */
static struct l5_region *l5_region_find(struct l5_conn *conn, int end,
					u32 number, u32 mask)
{
	struct l5_region *r;

	r = l5_region_made(conn, end, number, mask) ?:
	    l5_region_made(conn, !end, number, mask);
	return r && l5_region_has(r, end) ? r : NULL;
}

static int l5_region_fill(struct l5_region *r)
{
	unsigned long n;
	int err = -ENOMEM;

	r->pages = kvcalloc(r->npages, sizeof(*r->pages), GFP_KERNEL_ACCOUNT);
	for (n = 0; r->pages && n < r->npages; n++) {
		if (fatal_signal_pending(current)) {
			err = -EINTR;
			break;
		}
		r->pages[n] = l5_page_alloc(&r->payer, __GFP_RETRY_MAYFAIL);
		if (!r->pages[n])
			break;
		cond_resched();
	}
	if (n == r->npages)
		return 0;
	l5_region_empty(r, n);
	return err;
}

/* A region that nobody knows of, with a reference, or an error. */
static struct l5_region *l5_region_alloc(struct l5_sock *l5,
					 unsigned long npages, u32 access)
{
	struct l5_region *r;
	int err, i;

	r = kzalloc(sizeof(*r), GFP_KERNEL_ACCOUNT);
	if (!r)
		return ERR_PTR(-ENOMEM);
	refcount_set(&r->ref, 1);
	r->maker = l5->end;
	r->access = access;
	r->npages = npages;
	atomic_set(&r->keepers, 2);
	INIT_WORK(&r->work, l5_region_work);
	for (i = 0; i < 2; i++) {
		mutex_init(&r->side[i].lock);
		INIT_LIST_HEAD(&r->side[i].views);
	}
	err = l5_payer_get(&r->payer, l5->ln);
	if (err)
		goto err_free;
	err = -EDQUOT;
	if (!l5_reserve(&r->payer, npages))
		goto err_payer;
	err = l5_region_lock_pages(r);
	if (err)
		goto err_reserved;
	err = l5_region_fill(r);
	if (err)
		goto err_free;
	return r;

err_reserved:
	l5_unreserve(&r->payer, npages);
err_payer:
	l5_payer_put(&r->payer);
err_free:
	kfree(r);
	return ERR_PTR(err);
}

/*
 * A number that no region of this end had lately, at a place where none is. The
 * two ends have different ones. They come again after 2^31, and a process that
 * looks whether a region is there is not told of a younger one.
 */
static u32 l5_region_number(struct l5_conn *conn, int end)
{
	struct l5_end *e = &conn->end[end];
	u32 number;

	do {
		number = 2 * ++e->last_region + end;
	} while (number < 2 ||
		 l5_region_made(conn, end, number, L5_REGION_PLACE));
	return number;
}

/* Let both ends know of a region, to which the list gets a reference. */
static int l5_region_add(struct l5_sock *l5, struct l5_region *r)
{
	struct l5_end *own = l5_own(l5);
	struct l5_conn *conn = l5->conn;
	int err = 0;

	spin_lock(&conn->region_lock);
	if (own->regions_over) {
		err = -ENOTCONN;
	} else if (own->nregions >= L5_REGIONS_MAX) {
		err = -ENOSPC;
	} else {
		r->number = l5_region_number(conn, l5->end);
		refcount_inc(&r->ref);
		list_add_tail(&r->node, &own->regions);
		WRITE_ONCE(own->nregions, own->nregions + 1);
		/* an end that is closed never had it, so it is not told */
		if (l5_peer(l5)->regions_over)
			r->losing = BIT(!l5->end);
	}
	spin_unlock(&conn->region_lock);
	return err;
}

/**
 * l5_region_new() - make a region that both ends know of
 * @l5: its maker, in state L5_RINGS
 * @npages: how long it is
 * @access: what the other end may do, L5_AREA_*
 *
 * Another thread may guess its number and end it.
 *
 * Context: may sleep.
 * Return: with a reference, or -EDQUOT, -ENOMEM, -ENOSPC, -ENOTCONN, -EINTR if
 * the task is killed.
 */
struct l5_region *l5_region_new(struct l5_sock *l5, unsigned long npages,
				u32 access)
{
	const struct l5_end *own = l5_own(l5);
	struct l5_region *r;
	int err;

	/* before there is work to be done in vain; looked at again */
	if (READ_ONCE(own->regions_over))
		return ERR_PTR(-ENOTCONN);
	if (READ_ONCE(own->nregions) >= L5_REGIONS_MAX)
		return ERR_PTR(-ENOSPC);
	r = l5_region_alloc(l5, npages, access);
	if (IS_ERR(r))
		return r;
	err = l5_region_add(l5, r);
	if (err) {
		l5_region_empty(r, r->npages);
		l5_region_put(r);
		return ERR_PTR(err);
	}
	/* nobody at an end that is closed can be in its way */
	l5_region_settle(r, false);
	l5_count(l5, L5_STAT_REGIONS, 1);
	return r;
}

/**
 * l5_region_seek() - a region that a socket's end may use
 * @l5: the socket, in state L5_RINGS
 * @number: of the region
 * @mask: bits of @number that are to be the same
 *
 * Return: with a reference, or NULL.
 */
struct l5_region *l5_region_seek(struct l5_sock *l5, u32 number, u32 mask)
{
	struct l5_conn *conn = l5->conn;
	struct l5_region *r;

	spin_lock(&conn->region_lock);
	r = l5_region_find(conn, l5->end, number, mask);
	if (r)
		refcount_inc(&r->ref);
	spin_unlock(&conn->region_lock);
	return r;
}

/**
 * l5_region_take() - a maker takes a region from the other end, or from both
 * @l5: the maker, in state L5_RINGS
 * @number: of the region
 * @both: from its own end, too, and the memory is given back
 *
 * Context: may sleep.
 * Return: 0, -ENOENT if it has made none of that number, or has ended it;
 * -EINTR if the task is killed while a process of the other end is in a fault.
 */
int l5_region_take(struct l5_sock *l5, u32 number, bool both)
{
	struct l5_conn *conn = l5->conn;
	struct l5_region *r;
	int err;

	spin_lock(&conn->region_lock);
	r = l5_region_made(conn, l5->end, number, ~0);
	if (r) {
		l5_region_losing(conn, r, both ? 3 : BIT(!l5->end));
		if (both)
			l5_region_unlist(conn, r);
		else
			refcount_inc(&r->ref);
	}
	spin_unlock(&conn->region_lock);
	if (!r)
		return -ENOENT;
	err = l5_region_settle(r, true);
	/* what is begun is done, and the task that is killed does not see it */
	if (err)
		l5_region_settle_later(r);
	l5_region_put(r);
	return err;
}

/**
 * l5_region_areas() - the regions that a socket may map, as areas
 * @l5: a socket with rings
 * @areas: for L5_REGIONS_SEEN of them
 *
 * Return: how many there are.
 */
u32 l5_region_areas(struct l5_sock *l5, struct l5_area *areas)
{
	struct l5_conn *conn = l5->conn;
	struct l5_region *r;
	u32 n = 0;
	int i;

	spin_lock(&conn->region_lock);
	for (i = 0; i < 2; i++) {
		list_for_each_entry(r, &conn->end[i].regions, node) {
			if (!l5_region_has(r, l5->end))
				continue;
			areas[n++] = (struct l5_area){
				.kind = L5_AREA_REGION,
				.index = r->number,
				.offset = l5_region_offset(r),
				.length = l5_region_length(r),
				.access = l5_region_access(r, l5->end),
			};
		}
	}
	spin_unlock(&conn->region_lock);
	return n;
}

/* A region that @ends are still to lose, with a reference, or NULL. */
static struct l5_region *l5_region_next(struct l5_conn *conn, u32 ends)
{
	struct l5_region *r;
	int i;

	lockdep_assert_held(&conn->region_lock);
	for (i = 0; i < 2; i++) {
		/* both lose what the end made */
		u32 lose = ends & BIT(i) ? 3 : ends;

		list_for_each_entry(r, &conn->end[i].regions, node) {
			if (!l5_region_losing(conn, r, lose))
				continue;
			if (lose == 3)
				l5_region_unlist(conn, r);
			else
				refcount_inc(&r->ref);
			return r;
		}
	}
	return NULL;
}

/* From now on @ends have no regions. What they lose is settled by @settle. */
static void l5_region_over(struct l5_conn *conn, u32 ends,
			   void (*settle)(struct l5_region *r))
{
	struct l5_region *r;
	int i;

	do {
		spin_lock(&conn->region_lock);
		for (i = 0; i < 2; i++)
			if (ends & BIT(i))
				WRITE_ONCE(conn->end[i].regions_over, true);
		r = l5_region_next(conn, ends);
		spin_unlock(&conn->region_lock);
		if (r) {
			settle(r);
			l5_region_put(r);
		}
	} while (r);
}

/**
 * l5_region_closed() - a socket is closed: its end loses all regions, and what
 *	it has made the other end, too
 * @conn: the connection
 * @end: the end
 *
 * A work takes the pages out of processes.
 *
 * Context: process.
 */
void l5_region_closed(struct l5_conn *conn, int end)
{
	l5_region_over(conn, BIT(end), l5_region_settle_later);
}

static void l5_region_settle_now(struct l5_region *r)
{
	l5_region_settle(r, false);
}

/**
 * l5_region_revoke() - no process is to have a region of a connection any more
 * @conn: the connection
 *
 * Context: process; may sleep.
 */
void l5_region_revoke(struct l5_conn *conn)
{
	l5_region_over(conn, 3, l5_region_settle_now);
}
