/* SPDX-License-Identifier: GPL-2.0 */
/*
 * epoll sets and their registrations, for the files that know them: epoll.c has
 * them in memory, epoll_ctl.c changes them, epoll_wait.c waits for them.
 */
#ifndef L5_EP_H
#define L5_EP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "../lib/map.h"

#define IN_EVENTS	(EPOLLIN | EPOLLRDNORM)
#define OUT_EVENTS	(EPOLLOUT | EPOLLWRNORM)
/* Events that a healthy ring never has, and flags for how to report. */
#define QUIET_EVENTS	(EPOLLPRI | EPOLLRDBAND | EPOLLRDHUP | EPOLLERR | \
			 EPOLLHUP | EPOLLET)
#define PLAIN_EVENTS	(IN_EVENTS | OUT_EVENTS | QUIET_EVENTS)

/* No edge was delivered yet, or it is to be delivered again. */
#define NO_TAIL		(~0ull)

enum {
	HOT_MAX = 128,
	LATER_MAX = 128,	/* changes that the kernel does not know */
	CHURN = 8,		/* changes until the next ones are for later */
	CHANGES = 64,		/* of epoll_ctl(), to tell what overlapped */
	STRAY_MAX = 64,		/* registrations that no descriptor leads to */
	HASH_MIN = 512,
	SHARED_MAX = 1024,
	POOL_BYTES = 65536,
};

/**
 * struct reg - a registration, plain or not
 * @ep: the set
 * @next: of the same bucket, or among the free ones
 * @fd: what is registered
 * @events: for what
 * @data: the user's
 * @dead: the descriptor is closed
 * @hot: it is in the set's list
 * @there: it is registered, for the program
 * @known: it is registered, for the kernel
 * @stray: the descriptor's entry does not lead here
 * @doubt: two threads changed it at a time, and only the kernel knows the last
 * @doubt_at: number of the next change then
 * @later: the kernel is to be told what is new
 * @gone: the last wait in the kernel that may report it although it is not
 *	@known any more
 * @known_events: what the kernel was told last
 * @known_data: what the kernel was told last
 * @churn: how often it was changed
 * @tail: where the records ended when data was last delivered
 * @room: room was delivered with it
 * @head: if so, how far the peer had read at a time before that was found
 * @extent: how much of the ring was in use at most then
 * @refused: how often memory for the ring had been refused by then
 * @seen: how far the peer had read at the last event
 * @seen_at: what @waits of the set was after that look
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
	bool stray;
	bool doubt;
	unsigned int doubt_at;
	atomic_bool later;
	uint64_t gone;
	uint32_t known_events;
	uint64_t known_data;
	unsigned int churn;
	uint64_t tail;
	bool room;
	uint64_t head;
	uint32_t extent;
	uint32_t refused;
	uint64_t seen;
	uint64_t seen_at;
	uint64_t last;
};

/**
 * struct ep - a set
 * @busy: the thread that has its lock
 * @wanted: threads that want it
 * @gen: counts the sets that had this memory
 * @fd: its descriptor, -1 if it is closed
 * @off: leave everything to the kernel
 * @lost: a thread has the lock for ever
 * @eager: tell the kernel everything at once: there may be threads that wait
 *	for it where it does not show
 * @sleepers: threads that wait in the kernel, or are about to, in this set or
 *	in one that had this memory
 * @waits: how often a thread began to wait in the kernel, to tell the waits by
 * @changes: how often a thread began to tell the kernel of a change
 * @change: the last of these: which one it was, and of which descriptor
 * @changing: likewise, 1 and the descriptor until the change is noted, then 0
 * @strays: number of regs in @stray
 * @stray: regs of which the entries of their descriptors do not know
 * @laters: number of regs that the kernel does not know all of
 * @later: these regs
 * @shared: a word that a child of fork() sets if it changes the set
 * @bucket: regs by their data
 * @mask: number of buckets - 1
 * @regs: how many there are
 * @corpses: how many of them are dead
 * @hot: those to look at
 * @hots: how many these are
 * @turn: where to begin in @hot
 * @asked: when the kernel was last asked
 * @ask: for how long that is enough
 * @news: a hot one has something that the kernel is to say
 * @adapts: @adapt is initialised, which it can only be when there are maps
 * @inherited: from a parent, and not to be used again
 * @adapt: how long to look before sleeping
 * @next: the next free set
 * @all: the next of all sets that ever were
 */
struct ep {
	atomic_int busy;
	atomic_int wanted;
	atomic_uint gen;
	atomic_int fd;
	atomic_bool off;
	atomic_bool lost;
	atomic_bool eager;
	atomic_int sleepers;
	atomic_ullong waits;
	atomic_uint changes;
	atomic_ullong change[CHANGES];
	atomic_int changing[CHANGES];
	unsigned int strays;
	struct reg *stray[STRAY_MAX];
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

/*
 * ns: the kernel is asked no more often than the first, and at least as often
 * as the second says; L5_ASK_US sets both.
 */
extern uint64_t ep_ask_min, ep_ask_max;

/**
 * ep_trylock() - take a set's lock if it is free
 * @ep: the set
 */
static inline bool ep_trylock(struct ep *ep)
{
	int nobody = 0;

	/* pairs with the store in ep_unlock() */
	return atomic_compare_exchange_strong_explicit(&ep->busy, &nobody, 1,
						       memory_order_acquire,
						       memory_order_relaxed);
}

/**
 * ep_lock() - take a set's lock, for epoll_ctl()
 * @ep: the set
 *
 * Return: false if this thread has the lock already, or another one for ever:
 * then the set is the kernel's from now on.
 */
bool ep_lock(struct ep *ep);
void ep_unlock(struct ep *ep);

/* Is it still the set that it was, and not closed? The lock is ours. */
static inline bool ep_same(struct ep *ep, int epfd, unsigned int gen)
{
	return atomic_load(&ep->gen) == gen && atomic_load(&ep->fd) == epfd;
}

/* Is everything about it the kernel's? */
static inline bool ep_off(struct ep *ep)
{
	return atomic_load_explicit(&ep->off, memory_order_relaxed) ||
	       (ep->shared && atomic_load_explicit(ep->shared,
						   memory_order_relaxed));
}

/* Memory; NULL if there is none. */
struct ep *ep_new(int fd);
struct reg *reg_new(void);
void reg_free(struct reg *r);

/* The rest is for the holder of the lock. */

static inline struct reg **bucket_of(struct ep *ep, uint64_t data)
{
	return &ep->bucket[(data * 0x9e3779b97f4a7c15ull >> 32) & ep->mask];
}

void reg_hash(struct ep *ep, struct reg *r);
void reg_unhash(struct ep *ep, struct reg *r);

/* May its events be given without the kernel? If it is a mapped socket's. */
static inline bool reg_plain(const struct reg *r)
{
	return !(r->events & ~PLAIN_EVENTS) && !r->stray && !r->doubt;
}

/* A registration that is not hot any more, or that is none any more */
void ep_hot_remove(struct ep *ep, unsigned int i);
void reg_cool(struct ep *ep, struct reg *r);
void reg_drop(struct ep *ep, struct reg *r);

/* The kernel has just heard that it is none. */
void reg_gone(struct ep *ep, struct reg *r);

/**
 * stray_add() - remember a registration that no entry leads to
 * @ep: the set
 * @r: the registration
 *
 * Return: false if there are too many.
 */
bool stray_add(struct ep *ep, struct reg *r);

/* The one of a descriptor, or NULL. */
struct reg *stray_of(const struct ep *ep, int fd);

/* Bury those of closed descriptors, once they are many. */
void ep_sweep(struct ep *ep);

/* There is nothing new about it that the kernel does not know. */
void reg_later_remove(struct ep *ep, struct reg *r);

/* Tell the kernel what is new about it. */
void reg_tell(struct ep *ep, struct reg *r);

/* Tell the kernel all that is new, and leave all to it from now on. */
void ep_leave(struct ep *ep);

/* Tell the kernel all that is new; without the lock, which it takes. */
void ep_settle(struct ep *ep);

#endif /* L5_EP_H */
