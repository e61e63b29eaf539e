// SPDX-License-Identifier: GPL-2.0
/*
 * epoll_ctl(): what is registered. See epoll.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ep.h"
#include "epoll.h"
#include "fdtab.h"
#include "real.h"
#include "signal.h"

static void change_of(struct ep *ep, unsigned int n, int fd)
{
	atomic_store(&ep->change[n % CHANGES],
		     (uint64_t)n << 32 | (uint32_t)fd);
}

/* A change is noted under the lock, and the kernel is told later. */
static void change_noted(struct ep *ep, int fd)
{
	change_of(ep, atomic_fetch_add(&ep->changes, 1), fd);
}

/* The kernel is about to be told of a change: its number. */
static unsigned int change_begin(struct ep *ep, int fd)
{
	unsigned int n = atomic_fetch_add(&ep->changes, 1);

	atomic_store(&ep->changing[n % CHANGES], fd + 1);
	change_of(ep, n, fd);
	return n;
}

/* And what it said is noted. */
static void change_end(struct ep *ep, unsigned int n, int fd)
{
	int mine = fd + 1;

	atomic_compare_exchange_strong(&ep->changing[n % CHANGES], &mine, 0);
}

/*
 * Did another thread begin to change the same since? Then the kernel may have
 * heard of the two in either order, and what is noted of it is not to be relied
 * on, until it is changed by one that began later than both were noted.
 */
static bool change_overlaps(struct ep *ep, unsigned int n, int fd)
{
	unsigned int now = atomic_load(&ep->changes);
	uint64_t one;

	if (now - n > CHANGES)
		return true;
	while (++n != now) {
		one = atomic_load(&ep->change[n % CHANGES]);
		/* not written yet, or of a later one already */
		if (one >> 32 != n || (int)one == fd)
			return true;
	}
	return false;
}

/* A change of this number is noted: is what is known to be relied on? */
static void reg_doubt(struct ep *ep, struct reg *r, unsigned int n)
{
	if (change_overlaps(ep, n, r->fd)) {
		r->doubt = true;
		r->doubt_at = atomic_load(&ep->changes);
	} else if ((int)(n - r->doubt_at) >= 0) {
		/* it began when the two were through */
		r->doubt = false;
	}
}

/* What the kernel was told, with success; the lock is ours. */
static void reg_set(struct ep *ep, struct reg *r, const struct epoll_event *ev,
		    unsigned int n)
{
	reg_doubt(ep, r, n);
	reg_later_remove(ep, r);
	if (r->data != ev->data.u64) {
		reg_unhash(ep, r);
		r->data = ev->data.u64;
		reg_hash(ep, r);
	}
	r->events = ev->events;
	r->known_events = r->events;
	r->known_data = r->data;
	r->there = true;
	r->known = true;
	/* said again, if it is still true */
	r->tail = NO_TAIL;
	if (!reg_plain(r))
		reg_cool(ep, r);
}

/*
 * A registration that the kernel has is noted, whatever it is of; the lock is
 * ours. Returns false if it cannot be.
 */
static bool note(struct ep *ep, int fd, const struct epoll_event *ev,
		 unsigned int n)
{
	struct fd_entry *e = fd_entry_make(fd);
	struct reg *r = e ? atomic_load(&e->reg) : NULL, *none = NULL;
	struct reg *stray = stray_of(ep, fd);

	/* of a file that had this number before */
	if (stray)
		reg_drop(ep, stray);
	if (r && r->ep == ep) {
		reg_set(ep, r, ev, n);
		return true;
	}
	r = reg_new();
	if (!r)
		return false;
	*r = (struct reg){
		.ep = ep, .fd = fd, .data = ev->data.u64,
		.seen_at = UINT64_MAX, .doubt_at = n,
	};
	/* hashed first: a thread that closes the descriptor may kill it */
	reg_hash(ep, r);
	reg_set(ep, r, ev, n);
	if (e && atomic_compare_exchange_strong(&e->reg, &none, r))
		return true;
	if (stray_add(ep, r))
		return true;
	reg_drop(ep, r);
	return false;
}

/* The lock is ours. */
static void ctl_add(struct ep *ep, int fd, const struct epoll_event *ev,
		    unsigned int n)
{
	ep_sweep(ep);
	if (!note(ep, fd, ev, n))
		ep_leave(ep);
}

/* With @ev: changed; without: removed. The lock is ours. */
static void ctl_change(struct ep *ep, int fd, const struct epoll_event *ev,
		       unsigned int n)
{
	struct fd_entry *e = fd_entry(fd);
	struct reg *r;

	r = e ? atomic_load(&e->reg) : NULL;
	if (!r || r->ep != ep)
		r = stray_of(ep, fd);
	if (!r)
		return;
	if (ev && r->later && change_overlaps(ep, n, fd)) {
		/* a later one was noted, which the kernel is to be told */
		r->known_events = ~r->events;
	} else if (ev) {
		if (r->known)
			reg_set(ep, r, ev, n);
	} else if (r->stray) {
		reg_drop(ep, r);
	} else if (fd_is_sock(fd_word(fd))) {
		/* it may well come again */
		reg_doubt(ep, r, n);
		reg_later_remove(ep, r);
		r->there = false;
		reg_gone(ep, r);
	} else if (atomic_compare_exchange_strong(&e->reg, &r, NULL)) {
		reg_drop(ep, r);
	}
}

/*
 * Can the kernel be told later? Returns 0 or -1, as epoll_ctl(), if the change
 * was noted; 1 if the kernel is to be told now.
 */
static int ctl_later(struct ep *ep, int op, int fd,
		     const struct epoll_event *ev)
{
	struct fd_entry *e = fd_entry(fd);
	struct reg *r = e ? atomic_load(&e->reg) : NULL;
	bool adds;
	int ret = 1;

	/* a descriptor of another file by now has no entry any more */
	if (!r || r->ep != ep || !sock_known(fd))
		return 1;
	if (!ep_lock(ep))
		return 1;
	if (atomic_load(&e->reg) != r || r->ep != ep)
		goto out;
	if (r->churn < CHURN)
		r->churn++;
	if (r->churn < CHURN || !r->known || !reg_plain(r) ||
	    r->events & EPOLLET ||
	    op < EPOLL_CTL_ADD || op > EPOLL_CTL_MOD ||
	    (op != EPOLL_CTL_DEL &&
	     ((uintptr_t)ev < 65536 ||
	      ev->events & (~PLAIN_EVENTS | EPOLLET))) ||
	    (!r->later && atomic_load(&ep->laters) == LATER_MAX) ||
	    ep_off(ep) || atomic_load(&ep->eager) ||
	    atomic_load(&ep->sleepers)) {
		reg_tell(ep, r);
		goto out;
	}
	adds = op == EPOLL_CTL_ADD;
	if (r->there == adds) {
		errno = r->there ? EEXIST : ENOENT;
		ret = -1;
		goto out;
	}
	ret = 0;
	change_noted(ep, fd);
	r->there = op != EPOLL_CTL_DEL;
	if (r->there && r->data != ev->data.u64) {
		reg_unhash(ep, r);
		r->data = ev->data.u64;
		reg_hash(ep, r);
	}
	if (r->there)
		r->events = ev->events;
	if (!atomic_exchange(&r->later, true)) {
		ep->later[ep->laters] = r;
		atomic_fetch_add(&ep->laters, 1);
	}
	/* BE, pairs with itself: a thread that sleeps sees it, or we it */
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load(&ep->sleepers) || atomic_load(&ep->eager))
		reg_tell(ep, r);
out:
	ep_unlock(ep);
	return ret;
}

static int ctl(struct ep *ep, int epfd, int op, int fd, struct epoll_event *ev)
{
	unsigned int n = 0, gen = 0;
	int ret, saved = errno;
	struct ep *inner;
	uintptr_t held;

	if (ep && fd_forked())
		fd_ours();
	if (ep && fd_maps() && !ep_off(ep)) {
		held = sig_hold();
		ret = ctl_later(ep, op, fd, ev);
		sig_release(held);
		if (ret <= 0)
			return ret;
		errno = saved;
	}
	if (ep) {
		gen = atomic_load(&ep->gen);
		n = change_begin(ep, fd);
	}
	ret = syscall(SYS_epoll_ctl, epfd, op, fd, ev);
	saved = errno;
	/* a set of ours within another, known or not */
	inner = !ret && op == EPOLL_CTL_ADD ? fd_ep(fd) : NULL;
	if (inner)
		ep_shared(inner);
	if (!ep || (ret && op != EPOLL_CTL_DEL))
		goto out;
	held = sig_hold();
	if (ep_off(ep)) {
		/* the parent, whose memory it is not, is to know */
		if (ep->shared)
			atomic_store(ep->shared, 1);
	} else if (ep_lock(ep)) {
		/* not if it was closed meanwhile: its memory is free */
		if (ep_same(ep, epfd, gen) && op == EPOLL_CTL_ADD)
			ctl_add(ep, fd, ev, n);
		else if (ep_same(ep, epfd, gen))
			ctl_change(ep, fd, op == EPOLL_CTL_MOD ? ev : NULL, n);
		ep_unlock(ep);
	}
	sig_release(held);
out:
	if (ep)
		change_end(ep, n, fd);
	errno = saved;
	return ret;
}

EXPORT int epoll_ctl(int epfd, int op, int fd, struct epoll_event *ev)
{
	int ret;

	/* most programs have neither sets nor mapped sockets */
	if (!fd_ep(epfd) && !fd_ep(fd))
		return syscall(SYS_epoll_ctl, epfd, op, fd, ev);
	if (!fd_own_begin())
		return syscall(SYS_epoll_ctl, epfd, op, fd, ev);
	ret = ctl(fd_ep(epfd), epfd, op, fd, ev);
	fd_own_end();
	return ret;
}

static int created(int fd)
{
	int saved = errno;
	uintptr_t held;
	struct ep *ep;

	if (fd < 0 || !fd_own_begin()) {
		errno = saved;
		return fd;
	}
	fd_new(fd);
	held = sig_hold();
	ep = fd_ours() ? ep_new(fd) : NULL;
	if (ep)
		fd_set_ep(fd, ep);
	sig_release(held);
	fd_own_end();
	errno = saved;
	return fd;
}

EXPORT int epoll_create1(int flags)
{
	return created(syscall(SYS_epoll_create1, flags));
}

EXPORT int epoll_create(int size)
{
#ifdef SYS_epoll_create
	/* a filter may know one of the two alone */
	return created(syscall(SYS_epoll_create, size));
#else
	if (size <= 0) {
		errno = EINVAL;
		return -1;
	}
	return epoll_create1(0);
#endif
}
