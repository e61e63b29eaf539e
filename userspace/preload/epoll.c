// SPDX-License-Identifier: GPL-2.0
/*
 * epoll: what is ready in user space.
 *
 * The kernel's set is complete whenever anyone waits in it, and does what it
 * always does: every epoll_ctl() goes there, and it is never told anything that
 * the program did not say. Here is only a shortcut to some of its answers. A
 * registration is remembered as "reg" if it is plain: level- or edge-triggered,
 * of a socket that is mapped by now, the first one of its descriptor. All other
 * ones are left to the kernel: EPOLLONESHOT, EPOLLEXCLUSIVE, EPOLLWAKEUP, sets
 * in sets, further sets of the same descriptor, sets that another process has
 * or that have two descriptors, sockets whose state page is not clean.
 *
 * The shortcut looks at the sockets that are hot, those that lately had events.
 * They become hot when the kernel reports them. If none is, epoll_wait() costs
 * a few loads more than without us.
 *
 * Some programs register anew with every request, some of them several times:
 * EPOLL_CTL_DEL what they wait for, EPOLL_CTL_ADD it again. Of a registration
 * that is level-triggered and was changed that often the kernel is only told
 * when somebody is about to sleep in the set, or asks it, or does: by then most
 * is as it was.
 *
 * No arming is needed before the kernel sleeps. Its ->poll arms whenever it
 * looks for data, only a doorbell clears, and every doorbell puts the item on
 * the set's list of ready ones, which is looked at before epoll_wait() sleeps.
 * So every item is armed, or on the list, whatever we deliver (E, F and G of
 * l5_ring.h; the tests of the kernel's own epoll rest on the same).
 *
 * Level-triggered: ready is ready, however often it is said. Edge-triggered: an
 * edge is a new end of the records that have come. It is said once, here or by
 * the kernel: the kernel's report of an end that was already delivered is
 * dropped, if nothing but data and room can be its reason and the ring cannot
 * have been full since.
 *
 * Nothing starves. The kernel is asked, without waiting, when it was not asked
 * for a while: from 50 us, if that brings news of descriptors that are not
 * mapped, to 500 us. It always is before epoll_wait() returns nothing. Who is
 * looked at first changes with each look.
 *
 * A lock a set, which nobody waits for but who has to tell the kernel: others
 * who find it taken go there. Signals wait until it is given back, see
 * signal.h; a handler that interrupts its own thread nevertheless, and needs
 * it, ends the shortcut for that set.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "epoll.h"
#include "fdtab.h"
#include "real.h"
#include "signal.h"
#include "stats.h"

#define NS		1000000000ull

#define IN_EVENTS	(EPOLLIN | EPOLLRDNORM)
#define OUT_EVENTS	(EPOLLOUT | EPOLLWRNORM)
/* Those that a healthy ring never has, and how to report. */
#define QUIET_EVENTS	(EPOLLPRI | EPOLLRDBAND | EPOLLRDHUP | EPOLLERR | \
			 EPOLLHUP | EPOLLET)
#define PLAIN_EVENTS	(IN_EVENTS | OUT_EVENTS | QUIET_EVENTS)

/* ns; L5_ASK_US sets both */
static uint64_t ask_min = 50 * 1000ull;
static uint64_t ask_max = 500 * 1000ull;
/* No event for so long, and it is not hot any more; as many times ask_max. */
#define COLD		(20 * ask_max)
/* No edge was delivered yet, or it is to be delivered again. */
#define NO_TAIL		(~0ull)

enum {
	HOT_MAX = 128,
	LATER_MAX = 128,	/* changes that the kernel does not know */
	CHURN = 8,		/* changes until the next ones are for later */
	HASH_MIN = 512,
	SHARED_MAX = 1024,
	POOL_BYTES = 65536,
};

/**
 * struct reg - a registration
 * @ep: the set
 * @next: of the same bucket, or among the free ones
 * @fd: what is registered
 * @events: for what
 * @data: the user's
 * @dead: the descriptor is closed
 * @hot: it is in the set's list
 * @there: it is registered, for the program
 * @known: it is, for the kernel
 * @later: the kernel is to be told what is new
 * @known_events: what it was told last
 * @known_data: likewise
 * @churn: how often it was changed
 * @tail: where the records ended when data was last delivered
 * @head: how far the peer had read then
 * @last: when it last had an event
 */
struct reg {
	struct ep *ep;
	struct reg *next;
	int fd;
	uint32_t events;
	uint64_t data;
	atomic_bool dead;
	bool hot;
	bool there;
	bool known;
	atomic_bool later;
	uint32_t known_events;
	uint64_t known_data;
	unsigned int churn;
	uint64_t tail;
	uint64_t head;
	uint64_t last;
};

/**
 * struct ep - a set
 * @busy: the thread that has its lock
 * @wanted: threads that want it
 * @gen: counts the sets that had this memory
 * @fd: its descriptor, -1 if it is closed
 * @off: leave everything to the kernel
 * @eager: tell it everything at once
 * @sleepers: threads that wait in the kernel, or are about to
 * @laters: regs that it does not know all of
 * @later: these
 * @shared: a word that a child of fork() sets if it changes the set
 * @bucket: regs by their data
 * @mask: number of buckets - 1
 * @regs: how many there are
 * @corpses: of them are dead
 * @hot: those to look at
 * @hots: how many
 * @turn: where to begin
 * @asked: when the kernel was last asked
 * @ask: how long that is enough
 * @news: a hot one has something that the kernel is to say
 * @adapts: @adapt is initialised, which it can only be when there are maps
 * @inherited: from a parent, and not to be used again
 * @adapt: how long to look before sleeping
 * @next: among the free ones
 * @all: of all that ever were
 */
struct ep {
	atomic_int busy;
	atomic_int wanted;
	atomic_uint gen;
	atomic_int fd;
	atomic_bool off;
	atomic_bool eager;
	atomic_int sleepers;
	atomic_uint laters;
	struct reg *later[LATER_MAX];
	atomic_int *shared;
	struct reg **bucket;
	unsigned int mask;
	unsigned int regs;
	atomic_uint corpses;
	struct reg *hot[HOT_MAX];
	atomic_uint hots;
	unsigned int turn;
	uint64_t asked;
	uint64_t ask;
	bool news;
	bool adapts;
	bool inherited;
	struct l5_adapt adapt;
	struct ep *next;
	struct ep *all;
} __attribute__((aligned(64)));

/* Memory, all of one lock that is only ever tried. */
static atomic_flag pools_busy = ATOMIC_FLAG_INIT;
static struct reg *reg_pool;
static struct ep *ep_pool;
static struct ep *_Atomic all;

/* Shared with children: a word a set. */
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

static bool ep_trylock(struct ep *ep)
{
	int nobody = 0;

	return atomic_compare_exchange_strong_explicit(&ep->busy, &nobody, 1,
						       memory_order_acquire,
						       memory_order_relaxed);
}

static void ep_clear(struct ep *ep);

static void ep_unlock(struct ep *ep)
{
	atomic_store_explicit(&ep->busy, 0, memory_order_seq_cst);
	/* closed meanwhile, and whoever did it found it taken */
	if (l5_likely(atomic_load(&ep->fd) >= 0 || !ep->bucket) ||
	    !fd_own_begin())
		return;
	if (ep_trylock(ep))
		ep_clear(ep);
	fd_own_end();
}

/* For epoll_ctl(): false if it is this thread that has it. */
static bool ep_lock(struct ep *ep)
{
	int tid = tid_(), nobody, i;

	atomic_fetch_add(&ep->wanted, 1);
	for (i = 0;; i++) {
		nobody = 0;
		if (atomic_compare_exchange_strong(&ep->busy, &nobody, tid))
			break;
		/*
		 * Who looks does not say who it is, lest each look ask for
		 * its number: then wait long enough to be sure.
		 */
		if (nobody == tid || i > 100000) {
			atomic_store(&ep->off, true);
			atomic_fetch_sub(&ep->wanted, 1);
			return false;
		}
		syscall(SYS_sched_yield);
	}
	atomic_fetch_sub(&ep->wanted, 1);
	return true;
}

static bool ep_off(struct ep *ep)
{
	return atomic_load_explicit(&ep->off, memory_order_relaxed) ||
	       (ep->shared && atomic_load_explicit(ep->shared,
						   memory_order_relaxed));
}

/* Memory */

static struct reg *reg_new(void)
{
	struct reg *r;
	size_t i;

	if (atomic_flag_test_and_set(&pools_busy))
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

static void reg_free(struct reg *r)
{
	/* a leak is better than to wait in a handler */
	if (atomic_flag_test_and_set(&pools_busy))
		return;
	r->next = reg_pool;
	reg_pool = r;
	atomic_flag_clear(&pools_busy);
}

static struct ep *ep_new(int fd)
{
	struct ep *ep;
	size_t i;

	if (atomic_flag_test_and_set(&pools_busy))
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
	if (!ep->bucket) {
		ep->bucket = more(HASH_MIN * sizeof(*ep->bucket), MAP_PRIVATE);
		ep->mask = HASH_MIN - 1;
	}
	if (!ep->bucket)
		return NULL;
	atomic_store(&ep->off, !ep->shared);
	atomic_store(&ep->eager, false);
	atomic_store(&ep->sleepers, 0);
	if (ep->shared)
		atomic_store(ep->shared, 0);
	ep->ask = ask_min;
	ep->asked = 0;
	ep->adapts = false;
	atomic_fetch_add(&ep->gen, 1);
	atomic_store(&ep->fd, fd);
	return ep;
}

/* Buckets */

static struct reg **bucket_of(struct ep *ep, uint64_t data)
{
	return &ep->bucket[(data * 0x9e3779b97f4a7c15ull >> 32) & ep->mask];
}

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

static void reg_hash(struct ep *ep, struct reg *r)
{
	struct reg **b;

	if (ep->regs++ > 2 * ep->mask)
		rehash(ep);
	b = bucket_of(ep, r->data);
	r->next = *b;
	*b = r;
}

static void reg_unhash(struct ep *ep, struct reg *r)
{
	struct reg **b = bucket_of(ep, r->data);

	while (*b && *b != r)
		b = &(*b)->next;
	if (*b) {
		*b = r->next;
		ep->regs--;
	}
}

static void hot_remove(struct ep *ep, unsigned int i)
{
	unsigned int n = atomic_load_explicit(&ep->hots,
					      memory_order_relaxed) - 1;

	ep->hot[i]->hot = false;
	/* the order stays, so that give() comes to each of them once */
	memmove(&ep->hot[i], &ep->hot[i + 1], (n - i) * sizeof(ep->hot[0]));
	atomic_store_explicit(&ep->hots, n, memory_order_relaxed);
}

static void reg_cool(struct ep *ep, struct reg *r)
{
	unsigned int i;

	for (i = 0; r->hot && i < ep->hots; i++)
		if (ep->hot[i] == r)
			hot_remove(ep, i);
}

/* Changes that the kernel is to hear of */

static void later_remove(struct ep *ep, struct reg *r)
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

/* Neither can fail but for a descriptor that is closed. */
static void reg_tell(struct ep *ep, struct reg *r)
{
	later_remove(ep, r);
	if (atomic_load(&r->dead) || !r->known)
		return;
	if (!r->there) {
		tell(ep, EPOLL_CTL_DEL, r->fd, 0, 0);
		r->known = false;
	} else if (r->events != r->known_events || r->data != r->known_data) {
		tell(ep, EPOLL_CTL_MOD, r->fd, r->events, r->data);
		r->known_events = r->events;
		r->known_data = r->data;
	}
}

/* All of them; the lock is ours. */
static void ep_tell(struct ep *ep)
{
	unsigned int n;

	while ((n = atomic_load(&ep->laters)))
		reg_tell(ep, ep->later[n - 1]);
}

/* The same for who has not the lock. */
static void ep_settle(struct ep *ep)
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

static void reg_drop(struct ep *ep, struct reg *r)
{
	later_remove(ep, r);
	reg_cool(ep, r);
	reg_unhash(ep, r);
	reg_free(r);
}

/* Bury the dead, once they are many. */
static void ep_sweep(struct ep *ep)
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
			later_remove(ep, r);
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
			/* whoever closes it has it: it dies alone, and leaks */
			if (atomic_load(&r->dead) ||
			    (e && atomic_compare_exchange_strong(&e->reg,
								 &mine, NULL)))
				reg_free(r);
		}
	}
	if (ep->bucket)
		munmap(ep->bucket, (ep->mask + 1) * sizeof(*ep->bucket));
	ep->bucket = NULL;
	ep->regs = 0;
	atomic_store(&ep->hots, 0);
	atomic_store(&ep->laters, 0);
	atomic_store(&ep->corpses, 0);
	atomic_store(&ep->busy, 0);
	if (ep->inherited || atomic_flag_test_and_set(&pools_busy))
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
	if (ep_trylock(ep))
		ep_clear(ep);
	sig_release(held);
}

void ep_shared(struct ep *ep)
{
	if (fd_own_begin()) {
		ep_settle(ep);
		fd_own_end();
	}
	atomic_store(&ep->off, true);
}

void ep_polled(struct ep *ep)
{
	atomic_store(&ep->eager, true);
	if (fd_own_begin()) {
		ep_settle(ep);
		fd_own_end();
	}
}

void ep_before_fork(void)
{
	struct ep *ep;

	for (ep = atomic_load(&all); ep; ep = ep->all)
		if (atomic_load(&ep->fd) >= 0)
			ep_settle(ep);
}

void ep_start(int ask_us)
{
	if (ask_us >= 0)
		ask_min = ask_max = ask_us * 1000ull;
}

/*
 * The set is the parent's too. It is left to the kernel here, and if it is
 * changed here, there.
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
		atomic_store(&ep->off, true);
		ep->inherited = true;
		if (atomic_load(&ep->fd) < 0)
			continue;
		/* what was registered belongs to the parent's sockets */
		atomic_store(&ep->hots, 0);
		ep->regs = 0;
		if (ep->bucket)
			memset(ep->bucket, 0,
			       (ep->mask + 1) * sizeof(*ep->bucket));
	}
	/* new sets here are not to share words with those of the parent */
	shared_words = NULL;
	shared_n = 0;
	ep_pool = NULL;
}

/* Registrations */

/* What the kernel was told, with success; the lock is ours. */
static void reg_set(struct ep *ep, struct reg *r, const struct epoll_event *ev)
{
	later_remove(ep, r);
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
}

static void ctl_add(struct ep *ep, int fd, const struct epoll_event *ev)
{
	struct fd_entry *e = fd_entry_make(fd);
	struct reg *r, *none = NULL;
	bool again;

	if (fd_ep(fd))
		ep_shared(fd_ep(fd));
	if (!e || fd_word(fd) == FD_OTHER || fd_ep(fd) ||
	    ev->events & ~PLAIN_EVENTS)
		return;
	r = atomic_load(&e->reg);
	again = r && r->ep == ep;
	if (r && !again)
		return;
	if (!again) {
		r = reg_new();
		if (!r)
			return;
		*r = (struct reg){ .ep = ep, .fd = fd, .data = ev->data.u64 };
	}
	if (!ep_lock(ep)) {
		if (!again)
			reg_free(r);
		return;
	}
	ep_sweep(ep);
	if (again) {
		if (atomic_load(&e->reg) == r)
			reg_set(ep, r, ev);
	} else {
		/* hashed first: who closes the descriptor may kill it */
		reg_hash(ep, r);
		reg_set(ep, r, ev);
		if (!atomic_compare_exchange_strong(&e->reg, &none, r))
			reg_drop(ep, r);
	}
	ep_unlock(ep);
}

/* With @ev: changed; without: removed. */
static void ctl_change(struct ep *ep, int fd, const struct epoll_event *ev)
{
	struct fd_entry *e = fd_entry(fd);
	struct reg *r;

	if (!e || !atomic_load(&e->reg))
		return;
	if (!ep_lock(ep))
		return;
	r = atomic_load(&e->reg);
	if (!r || r->ep != ep)
		goto out;
	if (ev && !(ev->events & ~PLAIN_EVENTS)) {
		if (r->known)
			reg_set(ep, r, ev);
	} else if (!ev && fd_is_sock(fd_word(fd))) {
		/* it may well come again */
		later_remove(ep, r);
		r->there = false;
		r->known = false;
	} else if (atomic_compare_exchange_strong(&e->reg, &r, NULL)) {
		reg_drop(ep, r);
	}
out:
	ep_unlock(ep);
}

/*
 * Can the kernel be told later? 0 or -1 if that was noted, as epoll_ctl(); 1 if
 * it is to be told now.
 */
static int ctl_later(struct ep *ep, int op, int fd,
		     const struct epoll_event *ev)
{
	struct fd_entry *e = fd_entry(fd);
	struct reg *r = e ? atomic_load(&e->reg) : NULL;
	bool adds;
	int ret = 1;

	/* one that is another file by now has no entry any more */
	if (!r || r->ep != ep || !sock_known(fd))
		return 1;
	if (!ep_lock(ep))
		return 1;
	if (atomic_load(&e->reg) != r)
		goto out;
	if (r->churn < CHURN)
		r->churn++;
	if (r->churn < CHURN || !r->known || r->events & EPOLLET ||
	    (op != EPOLL_CTL_DEL &&
	     ((uintptr_t)ev < 65536 ||
	      ev->events & (~PLAIN_EVENTS | EPOLLET))) ||
	    (!r->later && atomic_load(&ep->laters) == LATER_MAX) ||
	    atomic_load(&ep->eager) || atomic_load(&ep->sleepers)) {
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
	/* who goes to sleep sees it, or we see who goes to sleep */
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load(&ep->sleepers))
		reg_tell(ep, r);
out:
	ep_unlock(ep);
	return ret;
}

static int ctl(struct ep *ep, int epfd, int op, int fd, struct epoll_event *ev)
{
	int ret, saved = errno;
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
	ret = syscall(SYS_epoll_ctl, epfd, op, fd, ev);
	saved = errno;
	if (!ep) {
		/* a set of ours within one that we do not know */
		if (!ret && op == EPOLL_CTL_ADD && fd_ep(fd))
			ep_shared(fd_ep(fd));
		return ret;
	}
	if (ret && op != EPOLL_CTL_DEL)
		return ret;
	held = sig_hold();
	if (ep_off(ep)) {
		/* the parent, whose memory it is not, is to know */
		if (ep->shared)
			atomic_store(ep->shared, 1);
		if (fd_ep(fd))
			ep_shared(fd_ep(fd));
	} else if (op == EPOLL_CTL_ADD) {
		ctl_add(ep, fd, ev);
	} else {
		ctl_change(ep, fd, op == EPOLL_CTL_MOD ? ev : NULL);
	}
	sig_release(held);
	errno = saved;
	return ret;
}

EXPORT int epoll_ctl(int epfd, int op, int fd, struct epoll_event *ev)
{
	int ret;

	/* in most programs there are none of either */
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

/* Waiting */

/**
 * struct wait - a call
 * @epfd: as its caller gave it
 * @ev: likewise
 * @max: likewise
 * @set: likewise, if @masked
 * @masked: it is epoll_pwait()
 * @precise: it is epoll_pwait2(), and has a timespec
 * @forever: there is no time-out
 * @ns: else this
 * @seen: l5_signals when it began
 */
struct wait {
	int epfd;
	struct epoll_event *ev;
	int max;
	const sigset_t *set;
	bool masked;
	bool precise;
	bool forever;
	uint64_t ns;
	uint64_t seen;
};

/* The system call, with as much of the time-out as is left. */
static int kernel_wait(const struct wait *w, bool now, uint64_t start)
{
	struct timespec t;
	uint64_t ns = w->ns, gone;
	int ms;

	if (now) {
		ns = 0;
	} else if (!w->forever && ns && start) {
		gone = l5_since(l5_map_now(), start);
		ns = gone < ns ? ns - gone : 0;
	}
	if (w->precise) {
		t = (struct timespec){ ns / NS, ns % NS };
		return real.epoll_pwait2(w->epfd, w->ev, w->max,
					 w->forever && !now ? NULL : &t,
					 w->set);
	}
	ms = w->forever && !now ? -1 : (int)((ns + 999999) / 1000000);
	if (w->masked)
		return real.epoll_pwait(w->epfd, w->ev, w->max, ms, w->set);
	return real.epoll_wait(w->epfd, w->ev, w->max, ms);
}

/* What to tell of one socket now: 0 nothing. @s is in use and clean. */
static uint32_t reg_events(const struct reg *r, const struct sock *s)
{
	uint32_t got = 0;

	if (!r->there)
		return 0;
	if (r->events & IN_EVENTS && l5_map_readable(s->map))
		got = r->events & IN_EVENTS;
	if (r->events & EPOLLET && (!got || !l5_map_rx_since(s->map, r->tail)))
		return 0;
	if (r->events & OUT_EVENTS && l5_map_writable(s->map))
		got |= r->events & OUT_EVENTS;
	return got;
}

/* Is any of the hot ones worth going on for? */
static bool hot_ready(const void *arg)
{
	const struct ep *ep = arg;
	unsigned int n = atomic_load_explicit(&ep->hots, memory_order_relaxed);
	unsigned int i;
	struct sock *s;
	bool ready;

	for (i = 0; i < n; i++) {
		s = sock_look(ep->hot[i]->fd);
		if (!s)
			continue;
		ready = !sock_clean(s) || reg_events(ep->hot[i], s);
		sock_done();
		if (ready)
			return true;
	}
	return atomic_load_explicit(&ep->wanted, memory_order_relaxed);
}

/*
 * The events of hot sockets; the lock is ours. With @dry they are only counted,
 * up to one.
 */
static int give(struct ep *ep, struct epoll_event *ev, int max, uint64_t now,
		bool dry)
{
	unsigned int i, left = atomic_load(&ep->hots), at = ep->turn;
	uint32_t got;
	int n = 0;

	for (; left && n < max; left--) {
		struct reg *r;
		struct sock *s;

		if (at >= atomic_load_explicit(&ep->hots,
					       memory_order_relaxed))
			at = 0;
		i = at;
		r = ep->hot[i];
		s = atomic_load(&r->dead) ? NULL : sock_look(r->fd);
		if (!s || !sock_clean(s) || now - r->last > COLD) {
			/* the kernel's, until it says that it is hot */
			if (s && !sock_clean(s))
				ep->news = true;
			if (s && now - r->last > COLD && reg_events(r, s))
				ep->news = true;
			if (s)
				sock_done();
			hot_remove(ep, i);
			continue;
		}
		at++;
		got = reg_events(r, s);
		if (got && dry) {
			sock_done();
			return 1;
		}
		if (got) {
			if (got & IN_EVENTS) {
				r->tail = l5_map_rx_end(s->map, r->tail);
				r->head = l5_load(&s->map->peer->rx_head);
			}
			r->last = now;
			ev[n].events = got;
			ev[n++].data.u64 = r->data;
		}
		sock_done();
	}
	if (!dry)
		ep->turn = at;
	return n;
}

/* The one registration with this data, or NULL if there are none, or two. */
static struct reg *reg_by_data(struct ep *ep, uint64_t data)
{
	struct reg *r, *found = NULL;

	for (r = *bucket_of(ep, data); r; r = r->next) {
		if (r->data != data || atomic_load(&r->dead))
			continue;
		if (found)
			return NULL;
		found = r;
	}
	return found;
}

/*
 * Is an edge that the kernel reports one that was delivered already? Room is
 * news only if the ring may have been full since then: the tail does not go
 * back, and the head that we saw was not further than it is.
 */
static bool known_edge(const struct reg *r, const struct sock *s,
		       uint32_t events)
{
	if (!(r->events & EPOLLET) || r->tail == NO_TAIL ||
	    events & ~(IN_EVENTS | OUT_EVENTS) ||
	    l5_map_rx_since(s->map, r->tail))
		return false;
	return !(events & OUT_EVENTS) ||
	       l5_load(&s->map->own->tx_tail) - r->head <=
	       s->map->tx_size / 2;
}

static void heat(struct ep *ep, struct reg *r, uint64_t now)
{
	unsigned int n = atomic_load(&ep->hots), i, idlest = 0;

	r->last = now;
	if (r->hot)
		return;
	if (n == HOT_MAX) {
		for (i = 1; i < n; i++)
			if (ep->hot[i]->last < ep->hot[idlest]->last)
				idlest = i;
		if (now - ep->hot[idlest]->last < COLD / 10)
			return;
		hot_remove(ep, idlest);
		n--;
	}
	r->hot = true;
	ep->hot[n] = r;
	atomic_store(&ep->hots, n + 1);
}

/**
 * struct took - what the kernel's answer was about
 * @rings: mapped sockets
 * @others: anything else
 */
struct took {
	bool rings;
	bool others;
};

/*
 * Look through what the kernel reported: what is mapped becomes hot, edges that
 * were delivered are dropped. Returns how many events are left.
 */
static int take(struct ep *ep, struct epoll_event *ev, int n, struct took *t)
{
	uint64_t now = l5_map_now();
	int i, kept = 0;
	struct reg *r;
	struct sock *s;
	bool drop;

	for (i = 0; i < n; i++) {
		drop = false;
		r = reg_by_data(ep, ev[i].data.u64);
		s = r ? sock_look(r->fd) : NULL;
		if (s && sock_clean(s)) {
			drop = known_edge(r, s, ev[i].events);
			t->rings = true;
			if (!drop && ev[i].events & IN_EVENTS)
				r->tail = l5_map_rx_end(s->map, r->tail);
			if (!drop)
				r->head = l5_load(&s->map->peer->rx_head);
			/* deregistered by a thread that came between */
			drop |= !r->there;
			heat(ep, r, now);
		} else {
			t->others = true;
		}
		if (s)
			sock_done();
		if (!drop)
			ev[kept++] = ev[i];
	}
	return kept;
}

/* After an answer of the kernel's. */
static int took(struct ep *ep, const struct wait *w, unsigned int gen, int n,
		struct took *t)
{
	uintptr_t held = sig_hold();

	*t = (struct took){ false, false };
	if (!ep_trylock(ep))
		goto out;
	if (atomic_load(&ep->gen) == gen && atomic_load(&ep->fd) == w->epfd &&
	    !ep_off(ep)) {
		ep->news = false;
		if (!ep->adapts)
			l5_adapt_init(&ep->adapt);
		ep->adapts = true;
		if (n > 0)
			n = take(ep, w->ev, n, t);
	}
	ep_unlock(ep);
out:
	sig_release(held);
	return n;
}

/* How long until the kernel is asked again. */
static void asked(struct ep *ep, const struct took *t)
{
	ep->asked = l5_map_now();
	if (t->others)
		ep->ask = ask_min;
	else if (ep->ask < ask_max)
		ep->ask *= 2;
}

/*
 * Events from user space: > 0. Else 0, and @ask says that something is ready
 * but the kernel is to be asked first, or that it is to be asked anyway.
 */
static int try_hot(struct ep *ep, const struct wait *w, bool *ask,
		   uint64_t begun, uint64_t *start)
{
	uint64_t ns = w->forever ? UINT64_MAX : w->ns;
	uintptr_t held;
	uint64_t now;
	bool paid;
	int n = 0;

	*ask = false;
	if (!atomic_load_explicit(&ep->hots, memory_order_relaxed))
		return 0;
	held = sig_hold();
	if (!ep_trylock(ep))
		goto out;
	now = l5_map_now();
	if (now - ep->asked >= ep->ask) {
		*ask = give(ep, w->ev, w->max, now, true) || ep->news;
	} else {
		n = give(ep, w->ev, w->max, now, false);
		*ask = !n && ep->news;
	}
	if (begun && !w->forever)
		ns = l5_since(now, begun) < ns ? ns - l5_since(now, begun) : 0;
	/* which signals are to end it only the kernel knows: as in poll.c */
	if (!n && !*ask && ns && !w->set && atomic_load(&ep->hots)) {
		*start = now;
		paid = fd_wait_for(&ep->adapt, hot_ready, ep, start, ns,
				   w->seen);
		stats_poll_look(paid);
		if (paid) {
			now = l5_map_now();
			/* nor is who always has to wait to starve others */
			if (now - ep->asked >= ep->ask)
				*ask = true;
			else
				n = give(ep, w->ev, w->max, now, false);
			*ask |= !n && ep->news;
		}
	}
	if (ep_off(ep))
		n = 0;
	ep_unlock(ep);
out:
	sig_release(held);
	return n;
}

/* The kernel is told what is new before anybody waits there. */
static int settled_wait(struct ep *ep, const struct wait *w, bool now,
			uint64_t start)
{
	int n;

	sig_settle();
	atomic_fetch_add(&ep->sleepers, 1);
	if (l5_unlikely(atomic_load(&ep->laters)) && fd_own_begin()) {
		ep_settle(ep);
		fd_own_end();
	}
	n = kernel_wait(w, now, start);
	atomic_fetch_sub(&ep->sleepers, 1);
	return n;
}

static int ep_wait(struct ep *ep, const struct wait *w)
{
	unsigned int gen = atomic_load(&ep->gen);
	uint64_t begun = 0, start;
	bool ask, came;
	int fruitless = 0;
	struct took t;
	int n;

	pthread_testcancel();
	/* as long as nothing is mapped */
	if (l5_likely(!fd_maps() || !ep->regs || w->max <= 0 || ep_off(ep)))
		return settled_wait(ep, w, false, 0);
	for (;;) {
		start = 0;
		n = try_hot(ep, w, &ask, begun, &start);
		stats_poll(n ? L5_STATS_SAVED : ask || !(w->forever || w->ns) ?
			   L5_STATS_OTHERS : L5_STATS_SLEPT);
		if (n)
			return n;
		if (!begun && !w->forever && w->ns)
			begun = start ? start : l5_map_now();
		/* rings say one thing and the kernel another: it may sleep */
		if (ask && ++fruitless > L5_FRUITLESS)
			ask = false;
		if (!ask && !start)
			start = l5_map_now();
		/* what is there comes before the signal */
		came = !w->set && !l5_no_signal(w->seen);
		n = settled_wait(ep, w, ask || came, begun);
		if (n < 0)
			return n;
		n = took(ep, w, gen, n, &t);
		asked(ep, &t);
		if (!n && came && (w->forever || w->ns)) {
			errno = EINTR;
			return -1;
		}
		if (!ask && !came)
			l5_adapt_woke(&ep->adapt,
				      t.rings || !(n || t.others) ? start : 0);
		if (n)
			return n;
		/* nothing, but for edges that were known */
		if (!ask && !t.rings)
			return 0;
		if (!w->forever &&
		    (!w->ns || l5_since(l5_map_now(), begun) >= w->ns) && !ask)
			return 0;
	}
}

static struct ep *ep_of(int epfd, const struct epoll_event *ev)
{
	struct ep *ep = fd_ep(epfd);

	return ep && !fd_forked() && !sandbox_careful() &&
	       (uintptr_t)ev >= 65536 ? ep : NULL;
}

EXPORT int epoll_wait(int epfd, struct epoll_event *ev, int max, int ms)
{
	struct wait w = {
		.epfd = epfd, .ev = ev, .max = max, .forever = ms < 0,
		.ns = ms < 0 ? 0 : ms * 1000000ull, .seen = l5_signals,
	};
	struct ep *ep = ep_of(epfd, ev);

	if (l5_likely(!ep))
		return real.epoll_wait(epfd, ev, max, ms);
	return ep_wait(ep, &w);
}

EXPORT int epoll_pwait(int epfd, struct epoll_event *ev, int max, int ms,
		       const sigset_t *set)
{
	struct wait w = {
		.epfd = epfd, .ev = ev, .max = max, .forever = ms < 0,
		.ns = ms < 0 ? 0 : ms * 1000000ull, .set = set, .masked = true,
		.seen = l5_signals,
	};
	struct ep *ep = ep_of(epfd, ev);

	if (l5_likely(!ep))
		return real.epoll_pwait(epfd, ev, max, ms, set);
	return ep_wait(ep, &w);
}

EXPORT int epoll_pwait2(int epfd, struct epoll_event *ev, int max,
			const struct timespec *t, const sigset_t *set)
{
	struct wait w = {
		.epfd = epfd, .ev = ev, .max = max, .forever = !t,
		.set = set, .masked = true, .precise = true,
		.seen = l5_signals,
	};
	struct ep *ep = ep_of(epfd, ev);

	if (l5_likely(!ep) ||
	    (t && (t->tv_sec < 0 || t->tv_sec > 1000000000 ||
		   t->tv_nsec < 0 || t->tv_nsec >= (long)NS)))
		return real.epoll_pwait2(epfd, ev, max, t, set);
	if (t)
		w.ns = t->tv_sec * NS + t->tv_nsec;
	return ep_wait(ep, &w);
}
