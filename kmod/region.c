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
 * No end waits for a process of the other one. A fault looks whether its end
 * has lost the region, and fills in a page, under the spinlock of the page
 * table; by that lock the table is emptied. There is no other lock that both
 * take for longer than a list needs.
 */
#include <linux/cred.h>
#include <linux/file.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/user.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "compat.h"
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

static void l5_region_unlock_pages(struct l5_region *r)
{
	if (!r->locked)
		return;
	atomic_long_sub(r->npages, &r->locked->locked_vm);
	free_uid(r->locked);
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
	l5_region_unlock_pages(r);
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

/* The next view of an end that is to be emptied, with its file, or NULL. */
static struct l5_region_view *l5_region_full(struct l5_region *r, int end)
{
	struct l5_region_view *v, *found = NULL;

	spin_lock(&r->lock);
	list_for_each_entry(v, &r->views[end], view.node) {
		if (v->emptied)
			continue;
		v->emptied = true;
		/* one whose file is on its way to its release has no vma */
		if (!l5_file_get(v->view.file))
			continue;
		found = v;
		break;
	}
	spin_unlock(&r->lock);
	return found;
}

/* Take it from an end that is to lose it. */
static void l5_region_lose(struct l5_region *r, int end)
{
	struct l5_region_view *v;

	lockdep_assert_held(&r->settle);
	/*
	 * BQ, pairs with BP in l5_region_set(): it is said to be lost, then
	 * page tables are looked for. A fault that made one finds that it is
	 * lost, or we find the table, and wait for the fault by its lock.
	 */
	smp_mb();
	while ((v = l5_region_full(r, end))) {
		l5_view_zap(&v->view, 0, 0);
		fput(v->view.file);
	}
	r->lost |= BIT(end);
}

/*
 * Take the region from the ends that are to lose it. If none has it any more
 * its memory is given back.
 *
 * Context: may sleep.
 * Return: 0, or -EINTR if the task is killed and @killable is set.
 */
static int l5_region_settle(struct l5_region *r, bool killable)
{
	int i;

	if (!killable)
		mutex_lock(&r->settle);
	else if (mutex_lock_killable(&r->settle))
		return -EINTR;
	for (i = 0; i < 2; i++)
		if (READ_ONCE(r->losing) & ~r->lost & BIT(i))
			l5_region_lose(r, i);
	if (r->lost == 3 && r->pages)
		l5_region_empty(r, r->npages);
	mutex_unlock(&r->settle);
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
	/* it may wait for a call of the maker's */
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
	 * then faults show other memory, and pages are taken. A process that
	 * saw other memory sees the word.
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
	for (i = 0; i < 2; i++)
		if (fresh & BIT(i))
			l5_region_tell(conn, i);
	/* only now: a fault that finds it so shows other memory at once */
	WRITE_ONCE(r->losing, r->losing | ends);
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

	/* no task is killed for want of it, as for pages */
	r->pages = kvcalloc(r->npages, sizeof(*r->pages), GFP_KERNEL_ACCOUNT |
			    __GFP_RETRY_MAYFAIL | __GFP_NOWARN);
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

	r = kzalloc(sizeof(*r), GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL);
	if (!r)
		return ERR_PTR(-ENOMEM);
	refcount_set(&r->ref, 1);
	r->maker = l5->end;
	r->access = access;
	r->npages = npages;
	mutex_init(&r->settle);
	spin_lock_init(&r->lock);
	INIT_WORK(&r->work, l5_region_work);
	for (i = 0; i < 2; i++)
		INIT_LIST_HEAD(&r->views[i]);
	err = l5_payer_get(&r->payer, l5->ln);
	if (err)
		goto err_free;
	/* the user's own limit first: what it refuses takes from nobody else */
	err = l5_region_lock_pages(r);
	if (err)
		goto err_payer;
	err = -EDQUOT;
	if (!l5_reserve(&r->payer, npages))
		goto err_locked;
	err = l5_region_fill(r);
	if (err)
		goto err_free;
	return r;

err_locked:
	l5_region_unlock_pages(r);
err_payer:
	l5_payer_put(&r->payer);
err_free:
	kfree(r);
	return ERR_PTR(err);
}

/*
 * A number that no region had before, at a place where none is. The two ends
 * have different ones. A process that looks whether a region is there is never
 * told of a younger one: an end has so many numbers, and no more.
 *
 * Return: 0 if all have been used.
 */
static u32 l5_region_number(struct l5_conn *conn, int end)
{
	struct l5_end *e = &conn->end[end];
	u32 number;

	do {
		if (e->last_region == U32_MAX / 2)
			return 0;
		number = 2 * ++e->last_region + end;
	} while (l5_region_made(conn, end, number, L5_REGION_PLACE));
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
		if (!r->number)
			err = -ENOSPC;
	}
	if (!err) {
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
 * -EINTR if the task is killed while it waits for another that does the same.
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
