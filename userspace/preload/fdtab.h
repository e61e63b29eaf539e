/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the library knows of descriptors.
 *
 * A table has a word for each, of one of these kinds:
 *
 *	a count		nothing is known yet; so often it was read or written
 *	FD_OTHER	to be left alone: no AF_L5 socket, or one not to map
 *	struct sock	a mapped socket; shared by descriptors made with dup()
 *	struct ep	an epoll set
 *
 * To put a word back to 0 is always right, in any thread and at any time: what
 * is not known goes to the kernel, which is coherent with what is mapped, and
 * is learnt again. All functions that close, or replace, a descriptor do it
 * before the kernel gives the number to another file. Should a descriptor be
 * closed behind our back (a system call of the program's own, io_uring, a
 * library that has libc's functions from elsewhere) the kernel tells in the
 * state page of its socket, see L5_IOC_WATCH. So the entry of each number has
 * what the kernel said when the number was last known to mean the socket, and
 * as soon as that differs from what is in the page, the kernel is asked once
 * more, before a byte moves.
 *
 * What is watched is a table of descriptors. A process whose threads do not all
 * have the same (unshare(), clone()) maps nothing from then on.
 *
 * Looking up needs no lock: a thread publishes the object that it is about to
 * use, and looks whether it is still in the table; the thread that took it out
 * makes every CPU pass a barrier, membarrier(2), and frees what no thread has
 * published. So the costs are with close(). Signals wait for the end of a use,
 * see signal.h. A handler that interrupts one nevertheless has its own place to
 * publish, one further.
 *
 * A child of fork() has none of its parent's mappings: it notices by a page
 * that fork() clears, and forgets everything. So fork(), clone() and all their
 * relatives need no wrapper. A child of vfork(), or of posix_spawn(), lives in
 * its parent's memory but has its own descriptors: nothing it does is entered,
 * but that there was such a child is, see spawn.c.
 * What exec() starts begins with an empty table and learns by use.
 */
#ifndef L5_FDTAB_H
#define L5_FDTAB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "../lib/map.h"
#include "pays.h"
#include "policy.h"
#include "sandbox.h"

struct reg;
struct l5_stats_sock;

enum {
	FD_CHUNK_BITS = 10,
	FD_CHUNK = 1 << FD_CHUNK_BITS,
	FD_CHUNKS = 1024,		/* 2^20 descriptors, NR_OPEN */
};

/* Kinds, in the lower bits; a pointer to a sock has none of them. */
#define FD_KIND		((uintptr_t)7)
#define FD_COUNTS	((uintptr_t)1)	/* or 0 as a whole */
#define FD_OTHER	((uintptr_t)2)
#define FD_EP		((uintptr_t)4)

/*
 * In a count: the socket was made in this process, after as many forks as the
 * upper half says. No other process can have changed its O_NONBLOCK.
 */
#define FD_MADE		((uintptr_t)8)
/* In a count: an &enum l5_side. */
#define FD_SIDES	((uintptr_t)48)
#define FD_SIDE(word)	((enum l5_side)(((word) & FD_SIDES) / 16))
#define FD_OF_SIDE(s)	((uintptr_t)(s) * 16)
#define FD_ONCE		((uintptr_t)64)
#define FD_USES(word)	((uint32_t)(word) / (uint32_t)FD_ONCE)
#define FD_FORKS(word)	((uint32_t)((word) >> 32))

/* Has a count come so far that it says something? */
static inline bool fd_far(uintptr_t word)
{
	return (word & FD_KIND) == FD_COUNTS && FD_USES(word) >= PAYS_FIRST;
}

/**
 * struct fd_entry - what is known of a descriptor
 * @word: see above
 * @reg: in which epoll set it was first registered, or NULL
 * @watch: of a mapped socket: @word holds as long as l5_map_watched() says this
 *
 * No two sockets ever say the same, so @watch need not change with @word: it
 * is right, or leads to a question.
 */
struct fd_entry {
	atomic_uintptr_t word;
	struct reg *_Atomic reg;
	_Atomic uint64_t watch;
} __attribute__((aligned(32)));

enum {
	SOCK_NONBLOCKING = 1,	/* O_NONBLOCK when last heard of */
	SOCK_PLAIN = 2,		/* has an option that only system calls keep */
	SOCK_NAMES = 4,		/* AF_UNIX: addresses mean something */
};

/* More calls than these say no more of how long connections last. */
#define SOCK_CALLS	16384

/**
 * struct sock - a mapped socket
 * @map: its rings
 * @stat: where its calls are counted, or NULL: not asked for
 * @refs: words that point here
 * @flags: SOCK_NONBLOCKING, SOCK_PLAIN, SOCK_NAMES
 * @forks: what fd_forks is as long as it is this process's alone
 * @gen: how often this memory was a socket's
 * @calls: that were made, about, up to SOCK_CALLS; from there on if nobody asks
 * @side: which end of the connection it is; set before any thread finds it
 * @next: among those to be freed
 */
struct sock {
	struct l5_map *map;
	struct l5_stats_sock *stat;
	atomic_uint refs;
	atomic_uint flags;
	atomic_uint forks;
	atomic_uint gen;
	atomic_uint calls;
	enum l5_side side;
	struct sock *next;
};

extern struct fd_entry *_Atomic fd_chunks[FD_CHUNKS];
extern atomic_uint fd_forks;
extern atomic_uint fd_mapped;

/* Is anything mapped? */
static inline bool fd_maps(void)
{
	return atomic_load_explicit(&fd_mapped, memory_order_relaxed);
}

/* The entry, or NULL: nothing was ever entered near there. */
static inline struct fd_entry *fd_entry(int fd)
{
	struct fd_entry *c;

	if (l5_unlikely((unsigned int)fd >= FD_CHUNK * FD_CHUNKS))
		return NULL;
	/* BA, pairs with AZ */
	c = atomic_load_explicit(&fd_chunks[fd >> FD_CHUNK_BITS],
				 memory_order_acquire);
	return c ? &c[fd & (FD_CHUNK - 1)] : NULL;
}

static inline uintptr_t fd_entry_word(const struct fd_entry *e)
{
	/* BA, pairs with AZ */
	return e ? atomic_load_explicit(&e->word, memory_order_acquire) : 0;
}

static inline uintptr_t fd_word(int fd)
{
	return fd_entry_word(fd_entry(fd));
}

static inline bool fd_is_sock(uintptr_t word)
{
	return word && !(word & FD_KIND);
}

/**
 * fd_own_begin() - begin to make calls that the program did not ask for
 *
 * Where no use of a socket shows that to other threads. May be nested; any
 * thread that is becoming careful waits for fd_own_end(), so no thread may
 * sleep until then.
 *
 * Return: false if none are to be made; then there is nothing to end.
 */
bool fd_own_begin(void);

/**
 * fd_own_end() - no more such calls
 */
void fd_own_end(void);

/**
 * fd_wait_for() - l5_adapt_wait_for() where no socket is in use
 */
static inline __attribute__((always_inline))
bool fd_wait_for(struct l5_adapt *a, bool (*ready)(const void *arg),
		 const void *arg, uint64_t *start, uint64_t ns, uint64_t seen)
{
	uint32_t polls;
	bool got;

	if (l5_adapt_look(a, ready, arg, &polls))
		return true;
	/* from here on it yields, and asks for the time */
	if (!fd_own_begin()) {
		*start = 0;
		return false;
	}
	got = l5_adapt_slow_for(a, ready, arg, polls, start, ns, seen);
	fd_own_end();
	return got;
}

/**
 * fd_settle() - no thread is to make such calls any more: wait until none does
 *
 * After sandbox_terms say so. Tells the kernel all that it does not know.
 */
void fd_settle(void);

/**
 * fd_left() - fd_settle() without waiting
 */
void fd_left(void);

/* As a number of calls: as many as it takes until a mapping pays, see pays.h */
#define MAP_PAYS	0x40000000

/**
 * fd_start() - make the table
 * @map_after: map a socket once it was read or written so often; negative:
 *	never map any; MAP_PAYS: when it pays
 * @maps_max: so many at once at most; negative: the default
 */
void fd_start(int map_after, int maps_max);

/**
 * fd_live() - the rest of the start, which takes calls that a filter may refuse
 */
void fd_live(void);

/* The slow half of sock_use(): @word was in the descriptor's entry, @e. */
struct sock *sock_find(int fd, struct fd_entry *e, uintptr_t word, bool count);

/**
 * sock_use() - begin to use a mapped socket, to read or write it
 * @fd: a descriptor
 *
 * Maps the socket if it was used often enough.
 *
 * Return: until sock_done(), or NULL: leave it to the kernel.
 */
static inline struct sock *sock_use(int fd)
{
	struct fd_entry *e = fd_entry(fd);
	uintptr_t word = fd_entry_word(e);

	if (l5_likely(word == FD_OTHER))
		return NULL;
	return sock_find(fd, e, word, true);
}

/**
 * sock_look() - begin to use a mapped socket, to look at it
 * @fd: a descriptor
 *
 * Return: as sock_use()
 */
static inline struct sock *sock_look(int fd)
{
	struct fd_entry *e = fd_entry(fd);
	uintptr_t word = fd_entry_word(e);

	if (!fd_is_sock(word))
		return NULL;
	return sock_find(fd, e, word, false);
}

/**
 * sock_done() - end the use that began last
 *
 * Handlers of signals that came meanwhile run here, before it returns.
 */
void sock_done(void);

/* Is it, for sure, the mapped socket that it was when it was entered? */
static inline bool sock_known(int fd)
{
	if (!sock_look(fd))
		return false;
	sock_done();
	return true;
}

/* Where the stack was when this thread began to use a socket; or 0. */
uintptr_t fd_used_at(void);

/**
 * fd_used_open() - a handler runs within the uses that there are
 *
 * Return: for fd_used_again(), when it is back
 */
int fd_used_open(void);
void fd_used_again(int open);

/* May it be answered EAGAIN without asking the kernel? */
static inline bool sock_nonblocking(const struct sock *s)
{
	return atomic_load_explicit(&s->flags, memory_order_relaxed) &
	       SOCK_NONBLOCKING;
}

static inline bool sock_alone(const struct sock *s)
{
	return atomic_load_explicit(&s->forks, memory_order_relaxed) ==
	       atomic_load_explicit(&fd_forks, memory_order_relaxed);
}

/* Has the socket an option that only system calls keep? */
static inline bool sock_plain_by(const struct sock *s, uint32_t map_flags)
{
	return atomic_load_explicit(&s->flags, memory_order_relaxed) &
	       SOCK_PLAIN || map_flags & L5_MAP_LOWAT;
}

static inline bool sock_plain(const struct sock *s)
{
	return l5_unlikely(sock_plain_by(s, l5_load(&s->map->state->flags)));
}

/**
 * sock_ready() - what could be done without waiting?
 * @s: a socket in use
 * @want: as of l5_map_ready()
 *
 * Return: as l5_map_ready(). An option that only system calls keep has the
 * kernel asked, too.
 */
static inline __attribute__((always_inline))
unsigned int sock_ready(const struct sock *s, unsigned int want)
{
	uint32_t flags = l5_map_flags(s->map);
	unsigned int got = l5_map_ready_by(s->map, flags, want);

	if (l5_unlikely(sock_plain_by(s, flags)))
		got |= L5_READY_ASK;
	return got;
}

/* Does user space know all that poll() would? */
static inline bool sock_clean(const struct sock *s)
{
	return !(sock_ready(s, 0) & L5_READY_ASK);
}

/**
 * fd_forget() - a descriptor is about to be closed
 * @fd: the descriptor
 */
void fd_forget(int fd);

/**
 * fd_new() - a descriptor was just received, or is about to be replaced
 * @fd: the descriptor
 */
void fd_new(int fd);

/**
 * fd_made() - a socket was just made by socket()
 * @fd: the descriptor
 * @other: it is none of AF_L5's
 */
void fd_made(int fd, bool other);

/**
 * fd_accepted() - a socket was just made by accept()
 * @fd: the descriptor
 */
void fd_accepted(int fd);

/**
 * fd_leave() - a socket is never to be mapped, and that was said
 * @fd: the descriptor
 */
void fd_leave(int fd);

/**
 * fd_shared() - another process has the socket now too
 * @fd: the descriptor
 */
void fd_shared(int fd);

/**
 * fd_children() - a child is about to come that may change what is shared
 *
 * Until then O_NONBLOCK of a socket that was made here was this process's.
 */
void fd_children(void);

/**
 * fd_forget_range() - many descriptors are closed
 * @first: the first of them
 * @last: the last of them
 */
void fd_forget_range(unsigned int first, unsigned int last);

/**
 * struct fd_seen - what is known of a descriptor at some time
 * @word: see above
 * @watch: see &struct fd_entry
 */
struct fd_seen {
	uintptr_t word;
	uint64_t watch;
};

static inline struct fd_seen fd_see(int fd)
{
	struct fd_entry *e = fd_entry(fd);
	struct fd_seen seen = { 0, 0 };

	if (e) {
		seen.word = atomic_load(&e->word);
		seen.watch = atomic_load(&e->watch);
	}
	return seen;
}

/**
 * fd_copy() - a descriptor was made from another by dup()
 * @from: what was there
 * @to: what is new
 * @seen: what was known of @from before the copy was made
 */
void fd_copy(int from, int to, struct fd_seen seen);

/**
 * fd_set_ep() - a descriptor is an epoll set
 * @fd: the descriptor
 * @ep: the set, aligned to 8
 */
void fd_set_ep(int fd, void *ep);

static inline void *fd_word_ep(uintptr_t word)
{
	return (void *)(word - FD_EP);
}

/* The set, or NULL: as of now, since any thread may close it. */
static inline void *fd_ep(int fd)
{
	uintptr_t word = fd_word(fd);

	return (word & FD_KIND) == FD_EP ? fd_word_ep(word) : NULL;
}

/**
 * fd_doubt() - this thread, the only one, has another table of descriptors
 *
 * Each socket is asked about when it is used next.
 */
void fd_doubt(void);

/**
 * fd_give_up() - threads have different tables of descriptors
 *
 * Or will have, in a moment. From now on all calls are the kernel's.
 */
void fd_give_up(void);

/* The entry, made if need be; NULL if there is no memory. */
struct fd_entry *fd_entry_make(int fd);

/**
 * fd_flag() - a file status flag was set or cleared
 * @fd: the descriptor
 * @flag: SOCK_NONBLOCKING or SOCK_PLAIN
 * @on: what it is now
 */
void fd_flag(int fd, unsigned int flag, bool on);

/* A word that fork() clears. */
extern const atomic_int *fd_life;

/* Is this a child of fork() that does not know it yet? */
static inline bool fd_forked(void)
{
	return !atomic_load_explicit(fd_life, memory_order_relaxed);
}

/**
 * fd_ours() - is this the process whose descriptors the table has?
 *
 * Forgets everything in a child of fork(). False in one of vfork().
 */
bool fd_ours(void);

#endif /* L5_FDTAB_H */
