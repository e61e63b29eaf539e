// SPDX-License-Identifier: GPL-2.0
/*
 * epoll: what is ready in user space.
 *
 * The kernel's set is complete whenever a thread waits in it, and does what it
 * always does: every epoll_ctl() goes there, and the kernel is never told
 * anything that the program did not say. Here is only a shortcut to some of its
 * answers. Each registration is remembered as "reg". It is plain if it is
 * level- or edge-triggered, and the first one of its descriptor; if that is a
 * socket that is mapped, the shortcut may answer for it. All else is left to
 * the kernel: EPOLLONESHOT, EPOLLEXCLUSIVE, EPOLLWAKEUP, sets in sets, further
 * sets of the same descriptor, sets that another process has or that have two
 * descriptors, sockets whose state page is not clean.
 *
 * The kernel says which registration it reports by the program's data, and the
 * program may give two of them the same. Of such an answer nothing is learnt,
 * and nothing is kept from the program. That is why those that are left to the
 * kernel are remembered, too: a set with one that cannot be is left to the
 * kernel as a whole.
 *
 * The shortcut looks at the hot sockets, those that lately had events. A socket
 * becomes hot when the kernel reports it. If none is hot, epoll_wait() costs a
 * few loads more than without us.
 *
 * Some programs register anew with every request, some of them several times:
 * EPOLL_CTL_DEL what they wait for, EPOLL_CTL_ADD it again. Of a registration
 * that is level-triggered and was changed that often the kernel is only told
 * when a thread sleeps in the set, is about to, or asks it: by then most is as
 * it was.
 *
 * No arming is needed before the kernel sleeps. Its ->poll arms whenever it
 * looks for data, only a doorbell clears, and every doorbell puts the item on
 * the set's list of ready ones, which is looked at before epoll_wait() sleeps.
 * So every item is armed, or on the list, whatever we deliver (E, F and G of
 * l5_ring.h; the tests of the kernel's own epoll rest on the same).
 *
 * Level-triggered: a ready socket is reported, however often. Edge-triggered:
 * an edge is a new end of the records that have come. It is reported once, here
 * or by the kernel. The kernel's report of an end that was already delivered is
 * dropped, if nothing but data and room can be its reason and the ring cannot
 * have been full since.
 *
 * No descriptor starves. The kernel is asked, without waiting, when it was not
 * asked for a while: from 50 us, if that brings news of descriptors that are
 * not mapped, to 500 us. It is always asked before epoll_wait() returns
 * nothing. The descriptor that is looked at first changes with each look.
 *
 * Each set has a lock. Only a thread that has to tell the kernel waits for it:
 * others that find it taken go to the kernel. Signals wait until it is given
 * back, see signal.h; a handler that interrupts its own thread nevertheless,
 * and needs it, ends the shortcut for that set.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ep.h"
#include "epoll.h"
#include "fdtab.h"
#include "real.h"
#include "signal.h"

uint64_t ep_ask_min = 50 * 1000ull;
uint64_t ep_ask_max = 500 * 1000ull;

/* So often a thread gives way to another one that takes memory. */
#define POOLS_PATIENCE	1000

/* So often a thread yields for a set's lock; then it sleeps, for so long. */
#define LOCK_YIELDS	1000
#define LOCK_MS		10000

/* Memory. One lock guards all of it, and nobody waits for it for long. */
static atomic_flag pools_busy = ATOMIC_FLAG_INIT;
static struct reg *reg_pool;
static struct ep *ep_pool;
static struct ep *_Atomic all;

/* Shared with children: a word for each set. */
static atomic_int *shared_words;
static unsigned int shared_n;

static void *more(size_t len, int flags)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       flags | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static __thread int my_tid __attribute__((tls_model("initial-exec")));

static int tid_(void)
{
	if (l5_unlikely(!my_tid))
		my_tid = syscall(SYS_gettid);
	return my_tid;
}

/* Locks */

static void ep_clear(struct ep *ep);

/*
 * A set that is closed becomes free by a thread that gets its lock; a thread
 * that has it comes here afterwards. It is asked under the lock: the memory may
 * be the next set's by then, which is made under the lock, too.
 */
static void ep_end(struct ep *ep)
{
	while (atomic_load(&ep->fd) < 0 && ep->bucket && ep_trylock(ep)) {
		if (atomic_load(&ep->fd) < 0 && ep->bucket) {
			ep_clear(ep);
			return;
		}
		atomic_store(&ep->busy, 0);
	}
}

void ep_unlock(struct ep *ep)
{
	/* BF, pairs with itself: given back, then is it closed? */
	atomic_store_explicit(&ep->busy, 0, memory_order_seq_cst);
	/* closed meanwhile, by a thread that found it taken */
	if (l5_likely(atomic_load(&ep->fd) >= 0 || !ep->bucket) ||
	    !fd_own_begin())
		return;
	ep_end(ep);
	fd_own_end();
}

/* For epoll_ctl(): false if this thread has the lock already. */
bool ep_lock(struct ep *ep)
{
	int tid = tid_(), nobody = 0, i;
	struct timespec ms;

	if (l5_likely(atomic_compare_exchange_strong(&ep->busy, &nobody, tid)))
		return true;
	atomic_fetch_add(&ep->wanted, 1);
	for (i = 0;; i++) {
		nobody = 0;
		if (atomic_compare_exchange_strong(&ep->busy, &nobody, tid))
			break;
		/*
		 * A thread that looks does not leave its number, lest each look
		 * have to ask for it. Such a thread is out in no time, but for
		 * one that has no CPU: only if it is long gone, as if it was
		 * killed in there, is it not waited for. What the kernel was
		 * not told of by then it never hears.
		 */
		if (nobody == tid || i > LOCK_YIELDS + LOCK_MS ||
		    atomic_load(&ep->lost)) {
			if (nobody != tid)
				atomic_store(&ep->lost, true);
			atomic_store(&ep->off, true);
			atomic_fetch_sub(&ep->wanted, 1);
			return false;
		}
		if (i < LOCK_YIELDS) {
			syscall(SYS_sched_yield);
			continue;
		}
		/* a filter was asked about it; it writes what is left */
		ms = (struct timespec){ .tv_nsec = 1000000 };
		syscall(SYS_ppoll, NULL, 0, &ms, NULL, 0);
	}
	atomic_fetch_sub(&ep->wanted, 1);
	return true;
}

/* Memory */

/* False: what is wanted is done without, and what is free leaks. */
static bool pools_lock(void)
{
	int i;

	for (i = 0; atomic_flag_test_and_set(&pools_busy); i++) {
		if (i == POOLS_PATIENCE)
			return false;
		syscall(SYS_sched_yield);
	}
	return true;
}

struct reg *reg_new(void)
{
	struct reg *r;
	size_t i;

	if (!pools_lock())
		return NULL;
	if (!reg_pool) {
		r = more(POOL_BYTES, MAP_PRIVATE);
		for (i = 0; r && i < POOL_BYTES / sizeof(*r); i++) {
			r[i].next = reg_pool;
			reg_pool = &r[i];
		}
	}
	r = reg_pool;
	if (r)
		reg_pool = r->next;
	atomic_flag_clear(&pools_busy);
	return r;
}

void reg_free(struct reg *r)
{
	if (!pools_lock())
		return;
	r->next = reg_pool;
	reg_pool = r;
	atomic_flag_clear(&pools_busy);
}

struct ep *ep_new(int fd)
{
	struct ep *ep;
	size_t i;

	if (!pools_lock())
		return NULL;
	if (!shared_words)
		shared_words = more(SHARED_MAX * sizeof(*shared_words),
				    MAP_SHARED);
	if (!ep_pool) {
		ep = more(POOL_BYTES, MAP_PRIVATE);
		for (i = 0; ep && i < POOL_BYTES / sizeof(*ep); i++) {
			ep[i].next = ep_pool;
			ep_pool = &ep[i];
			if (shared_words && shared_n < SHARED_MAX)
				ep[i].shared = &shared_words[shared_n++];
			atomic_init(&ep[i].fd, -1);
			ep[i].all = atomic_load(&all);
			atomic_store(&all, &ep[i]);
		}
	}
	ep = ep_pool;
	if (ep)
		ep_pool = ep->next;
	atomic_flag_clear(&pools_busy);
	if (!ep)
		return NULL;
	atomic_store(&ep->lost, false);
	/* a thread may have yet to see that the last set here has ended */
	if (!ep_lock(ep))
		return NULL;
	if (!ep->bucket) {
		ep->bucket = more(HASH_MIN * sizeof(*ep->bucket), MAP_PRIVATE);
		ep->mask = HASH_MIN - 1;
	}
	if (!ep->bucket) {
		ep_unlock(ep);
		return NULL;
	}
	atomic_store(&ep->off, !ep->shared);
	atomic_store(&ep->eager, false);
	/* sleepers: some may not have left the set that was here before */
	if (ep->shared)
		atomic_store(ep->shared, 0);
	ep->ask = ep_ask_min;
	ep->asked = 0;
	ep->adapts = false;
	atomic_fetch_add(&ep->gen, 1);
	atomic_store(&ep->fd, fd);
	ep_unlock(ep);
	return ep;
}

/* Buckets */

static void rehash(struct ep *ep)
{
	unsigned int n = ep->mask + 1, i;
	struct reg **old = ep->bucket, *r, *next, **b;
	struct reg **new = more(4ul * n * sizeof(*new), MAP_PRIVATE);

	if (!new)
		return;
	ep->bucket = new;
	ep->mask = 4 * n - 1;
	for (i = 0; i < n; i++) {
		for (r = old[i]; r; r = next) {
			next = r->next;
			b = bucket_of(ep, r->data);
			r->next = *b;
			*b = r;
		}
	}
	munmap(old, n * sizeof(*old));
}

void reg_hash(struct ep *ep, struct reg *r)
{
	struct reg **b;

	if (ep->regs++ > 2 * ep->mask)
		rehash(ep);
	b = bucket_of(ep, r->data);
	r->next = *b;
	*b = r;
}

void reg_unhash(struct ep *ep, struct reg *r)
{
	struct reg **b = bucket_of(ep, r->data);

	while (*b && *b != r)
		b = &(*b)->next;
	if (*b) {
		*b = r->next;
		ep->regs--;
	}
}

void ep_hot_remove(struct ep *ep, unsigned int i)
{
	unsigned int n = atomic_load_explicit(&ep->hots,
					      memory_order_relaxed) - 1;

	ep->hot[i]->hot = false;
	/* the order stays, so that give() comes to each of them once */
	memmove(&ep->hot[i], &ep->hot[i + 1], (n - i) * sizeof(ep->hot[0]));
	atomic_store_explicit(&ep->hots, n, memory_order_relaxed);
}

void reg_cool(struct ep *ep, struct reg *r)
{
	unsigned int i;

	for (i = 0; r->hot && i < ep->hots; i++)
		if (ep->hot[i] == r)
			ep_hot_remove(ep, i);
}

/* Changes that the kernel is to hear of */

void reg_later_remove(struct ep *ep, struct reg *r)
{
	unsigned int n = atomic_load(&ep->laters), i;

	if (!atomic_exchange(&r->later, false))
		return;
	for (i = 0; i < n && ep->later[i] != r; i++)
		;
	if (i == n)
		return;
	ep->later[i] = ep->later[n - 1];
	atomic_store(&ep->laters, n - 1);
}

static void tell(struct ep *ep, int op, int fd, uint32_t events, uint64_t data)
{
	struct epoll_event ev = { .events = events, .data.u64 = data };
	int saved = errno;

	syscall(SYS_epoll_ctl, atomic_load(&ep->fd), op, fd, &ev);
	errno = saved;
}

/*
 * A thread that waits in the kernel may have been told of it before. One that
 * begins to wait from now on is not: its number is higher.
 */
void reg_gone(struct ep *ep, struct reg *r)
{
	r->known = false;
	r->gone = atomic_load(&ep->waits);
}

/*
 * Neither call can fail but for a descriptor that is closed. A thread that is
 * about to ask the kernel waits for the lock as long as there is something to
 * tell, so that ends only when the kernel was told.
 */
void reg_tell(struct ep *ep, struct reg *r)
{
	bool hears = r->known && !atomic_load(&r->dead);

	if (hears && !r->there) {
		tell(ep, EPOLL_CTL_DEL, r->fd, 0, 0);
		reg_gone(ep, r);
	} else if (hears && (r->events != r->known_events ||
			     r->data != r->known_data)) {
		tell(ep, EPOLL_CTL_MOD, r->fd, r->events, r->data);
		r->known_events = r->events;
		r->known_data = r->data;
	}
	reg_later_remove(ep, r);
}

/* All changes; the lock is ours. */
static void ep_tell(struct ep *ep)
{
	unsigned int n;

	while ((n = atomic_load(&ep->laters)))
		reg_tell(ep, ep->later[n - 1]);
}

void ep_leave(struct ep *ep)
{
	ep_tell(ep);
	atomic_store(&ep->off, true);
}

/* The same for a thread that does not have the lock. */
void ep_settle(struct ep *ep)
{
	uintptr_t held;

	if (l5_likely(!atomic_load(&ep->laters)))
		return;
	held = sig_hold();
	if (ep_lock(ep)) {
		ep_tell(ep);
		ep_unlock(ep);
	}
	sig_release(held);
}

/* Registrations that no entry leads to */

bool stray_add(struct ep *ep, struct reg *r)
{
	if (ep->strays == STRAY_MAX)
		return false;
	r->stray = true;
	ep->stray[ep->strays++] = r;
	return true;
}

struct reg *stray_of(const struct ep *ep, int fd)
{
	unsigned int i;

	for (i = 0; i < ep->strays; i++)
		if (ep->stray[i]->fd == fd)
			return ep->stray[i];
	return NULL;
}

static void stray_remove(struct ep *ep, const struct reg *r)
{
	unsigned int i;

	for (i = 0; r->stray && i < ep->strays; i++)
		if (ep->stray[i] == r)
			ep->stray[i] = ep->stray[--ep->strays];
}

void reg_drop(struct ep *ep, struct reg *r)
{
	reg_later_remove(ep, r);
	stray_remove(ep, r);
	reg_cool(ep, r);
	reg_unhash(ep, r);
	reg_free(r);
}

/* Bury the dead, once they are many. */
void ep_sweep(struct ep *ep)
{
	struct reg **b, *r;
	unsigned int i;

	if (l5_likely(atomic_load_explicit(&ep->corpses,
					   memory_order_relaxed) <=
		      64 + ep->regs / 2))
		return;
	atomic_store(&ep->corpses, 0);
	for (i = 0; i <= ep->mask; i++) {
		for (b = &ep->bucket[i]; *b;) {
			r = *b;
			if (!atomic_load(&r->dead)) {
				b = &r->next;
				continue;
			}
			reg_later_remove(ep, r);
			reg_cool(ep, r);
			*b = r->next;
			ep->regs--;
			reg_free(r);
		}
	}
}

/* The set is closed, its lock ours: it becomes free. */
static void ep_clear(struct ep *ep)
{
	struct fd_entry *e;
	struct reg *r, *mine;
	unsigned int i;

	for (i = 0; ep->bucket && i <= ep->mask; i++) {
		while ((r = ep->bucket[i])) {
			ep->bucket[i] = r->next;
			e = fd_entry(r->fd);
			mine = r;
			/* its closer has it: it dies alone, and leaks */
			if (atomic_load(&r->dead) || r->stray ||
			    (e && atomic_compare_exchange_strong(&e->reg,
								 &mine, NULL)))
				reg_free(r);
		}
	}
	if (ep->bucket)
		munmap(ep->bucket, (ep->mask + 1) * sizeof(*ep->bucket));
	ep->bucket = NULL;
	ep->regs = 0;
	ep->strays = 0;
	atomic_store(&ep->hots, 0);
	atomic_store(&ep->laters, 0);
	atomic_store(&ep->corpses, 0);
	atomic_store(&ep->busy, 0);
	if (ep->inherited || !pools_lock())
		return;
	ep->next = ep_pool;
	ep_pool = ep;
	atomic_flag_clear(&pools_busy);
}

/* What the table of descriptors says */

void reg_dead(struct reg *r)
{
	struct ep *ep = r->ep;

	/* a copy of the descriptor may keep the kernel's registration */
	if (l5_unlikely(atomic_load(&r->later)) && r->known) {
		if (!r->there)
			tell(ep, EPOLL_CTL_DEL, r->fd, 0, 0);
		else
			tell(ep, EPOLL_CTL_MOD, r->fd, r->events, r->data);
	}
	atomic_fetch_add(&ep->corpses, 1);
	atomic_store(&r->dead, true);
}

void ep_put(struct ep *ep)
{
	uintptr_t held = sig_hold();

	atomic_store(&ep->fd, -1);
	ep_end(ep);
	sig_release(held);
}

void ep_shared(struct ep *ep)
{
	uintptr_t held;

	/* in a child nobody has the lock, whoever had it in the parent */
	if (fd_forked())
		fd_ours();
	if (fd_own_begin()) {
		held = sig_hold();
		if (ep_lock(ep)) {
			ep_leave(ep);
			ep_unlock(ep);
		}
		sig_release(held);
		fd_own_end();
	}
	atomic_store(&ep->off, true);
}

void ep_unseen(struct ep *ep)
{
	atomic_store(&ep->eager, true);
	if (fd_own_begin()) {
		ep_settle(ep);
		fd_own_end();
	}
}

void ep_unseen_all(void)
{
	struct ep *ep;

	for (ep = atomic_load(&all); ep; ep = ep->all)
		if (atomic_load(&ep->fd) >= 0)
			ep_unseen(ep);
}

bool ep_any(void)
{
	return atomic_load_explicit(&all, memory_order_relaxed);
}

void ep_start(int ask_us)
{
	if (ask_us >= 0)
		ep_ask_min = ep_ask_max = ask_us * 1000ull;
}

/*
 * The set is the parent's too. It is left to the kernel here; if it is changed
 * here, it is left to the kernel in the parent, too.
 */
void ep_forget_parent(void)
{
	struct ep *ep;

	my_tid = 0;
	atomic_flag_clear(&pools_busy);
	for (ep = atomic_load(&all); ep; ep = ep->all) {
		atomic_store(&ep->laters, 0);
		atomic_store(&ep->busy, 0);
		atomic_store(&ep->wanted, 0);
		atomic_store(&ep->lost, false);
		atomic_store(&ep->off, true);
		ep->inherited = true;
		if (atomic_load(&ep->fd) < 0)
			continue;
		/* what was registered belongs to the parent's sockets */
		atomic_store(&ep->hots, 0);
		ep->regs = 0;
		ep->strays = 0;
		if (ep->bucket)
			memset(ep->bucket, 0,
			       (ep->mask + 1) * sizeof(*ep->bucket));
	}
	/* new sets here are not to share words with those of the parent */
	shared_words = NULL;
	shared_n = 0;
	ep_pool = NULL;
}
