/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The rings of a connection as this process has them mapped: what libl5 and
 * the preload library have in common. No function here blocks; none allocates
 * memory by malloc(), changes errno, or makes a system call other than those of
 * uapi/l5.h, mmap(), sched_yield() and the clock's.
 *
 * What cannot be done by rings is for the caller to do by the plain system
 * call, which is always right: mapped traffic and system calls on a socket are
 * coherent in every order.
 *
 * One sends:	n = l5_map_send1(m, fd, buf, len);
 *		n > 0: so many bytes went. Else:
 *		L5_TRY_AGAIN: full. Blocking: l5_map_wait_tx(), and if that
 *			gives up, send(2), which sleeps and sends, and then
 *			l5_map_woke_tx(). Nonblocking: send(2) with
 *			MSG_DONTWAIT, since that is what arms EPOLLOUT.
 *		L5_TRY_ASK: do the system call; it knows why.
 *		L5_TRY_BUSY: another thread or process has the lock word, or
 *			has only written that it has: do the system call, which
 *			has time-outs and hears signals; or, if it must not be
 *			made, wait by l5_map_lock_nap().
 *		L5_TRY_NESTED: errno EDEADLK.
 *		L5_TRY_BROKEN: errno EPROTO.
 * Receiving is the same, but that a nonblocking caller may have EAGAIN at once.
 */
#ifndef L5_MAP_H
#define L5_MAP_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>

/*
 * ThreadSanitizer knows addresses and not pages: for it the rings are mapped
 * once, and it has to see each byte that is copied. It does not model fences;
 * none of them orders payload.
 */
#ifdef __SANITIZE_THREAD__
#define L5_MAP_FLAT	1
#pragma GCC diagnostic ignored "-Wtsan"
#else
#define L5_MAP_FLAT	0
#endif

#include "../../uapi/l5.h"
#include "../../uapi/l5_ring.h"
#include "clock.h"
#include "copy.h"

#define l5_likely(x)	__builtin_expect(!!(x), 1)
#define l5_unlikely(x)	__builtin_expect(!!(x), 0)

/* A large send goes in records of at most this, so that the reader overlaps. */
#define L5_PIECE	(64u << 10)

/* Looks at cursors that others move meanwhile */
#define L5_LOOKS	64
/*
 * So often in a row a call believes that a ring is ready and finds that it is
 * not, before it makes the system call. Threads that share the end are faster
 * now and then; whoever writes to the cursors can be for ever.
 */
#define L5_FRUITLESS	16

/* What the try functions return when they moved nothing. */
#define L5_TRY_AGAIN	(-EAGAIN)	/* the ring is empty, or full */
#define L5_TRY_ASK	(-ENOTCONN)	/* do the plain system call */
#define L5_TRY_BUSY	(-EBUSY)	/* the lock word is taken */
#define L5_TRY_NESTED	(-EDEADLK)	/* a signal handler in its own way */
#define L5_TRY_BROKEN	(-EPROTO)	/* the peer broke the protocol */

/* Flags of l5_map_tryrecv() */
#define L5_TRY_PEEK	0x1	/* leave the bytes in the ring */

/**
 * struct l5_adapt - how long to wait before sleeping
 * @spin_us: spin so long, then yield; -1: as long as it pays
 * @yields: yield so often; -1: as long as it pays
 * @win: ns that waiting without sleep is worth at present
 * @polls: looks before the first yield at present
 * @turn: waits so far, to try now and then what did not pay before
 *
 * All are hints, and races between threads do no harm.
 */
struct l5_adapt {
	int spin_us;
	int yields;
	uint32_t win;
	uint32_t polls;
	uint32_t turn;
};

struct l5_map;

/**
 * struct l5_map_ops - what only the kernel can do
 * @bell: L5_IOC_DOORBELL
 * @lock_wait: wait for a lock word, for ever, where no system call could; NULL:
 *	L5_TRY_BUSY
 * @lock_wake: L5_IOC_UNLOCK
 * @broken: the peer broke the protocol: end the connection
 */
struct l5_map_ops {
	void (*bell)(struct l5_map *m, int fd, unsigned int bells);
	void (*lock_wait)(struct l5_map *m, int fd, unsigned int which);
	void (*lock_wake)(struct l5_map *m, int fd, unsigned int which);
	void (*broken)(struct l5_map *m, int fd);
};

/**
 * struct l5_map - a mapped end
 * @own: its control page
 * @peer: the other end's
 * @state: the kernel's page
 * @tx: data written, twice back to back
 * @rx: data read, twice back to back
 * @tx_size: of the ring, not of the mapping
 * @rx_size: likewise
 * @id: for the lock words
 * @mailbox: 1 and the number of its byte in the mailbox of its listener, or 0
 * @life: what *l5_map_life was when this was made, see l5_map_mine()
 * @key: of the lock words, for l5_hold()
 * @keeper: the thread that keeps each lock word from call to call, by the
 *	address of its l5_held; NULL if it is held in a call alone
 * @prod: under own->tx_lock
 * @cons: under own->rx_lock
 * @tx_adapt: waiting for room
 * @rx_adapt: waiting for data
 * @rx_walk: where received bytes went; under own->rx_lock
 * @asked: own->tx_tail when data was last waited for
 * @ops: the kernel, or what stands for it
 * @priv: for @ops
 * @ref: users
 * @len: bytes to unmap with it, from @base
 * @base: where this is, too
 */
struct l5_map {
	struct l5_ctrl *own;
	const struct l5_ctrl *peer;
	const struct l5_map_state *state;
	uint8_t *tx;
	const uint8_t *rx;
	uint32_t tx_size;
	uint32_t rx_size;
	uint32_t id;
	uint32_t mailbox;
	uint32_t life;
	uint64_t key;
	const void *keeper[2];
	const struct l5_map_ops *ops;
	void *priv;
	int ref;
	size_t len;
	void *base;
	struct l5_prod prod __attribute__((aligned(L5_LINE)));
	struct l5_adapt tx_adapt;
	struct l5_cons cons __attribute__((aligned(L5_LINE)));
	struct l5_adapt rx_adapt;
	struct l5_copy_walk rx_walk;
	uint64_t asked;
};

/*
 * Called once a filter of system calls has refused a call to the module; for
 * who wants to do without from then on. May be NULL.
 */
extern void (*l5_map_refused)(void);

/* Not 0: come back soon, and make no calls for the sake of waiting. */
extern uint32_t l5_map_hush;

/**
 * l5_map_live() - make l5_map_mine() work in this process
 *
 * Return: 0, or -1 with errno: nothing can be mapped.
 */
int l5_map_live(void);

/**
 * l5_map_ask() - what is there to map, and on what terms?
 * @fd: a socket with rings, or a listener
 * @info: the kernel's answer
 * @area: and its list
 * @n: room there; @info->nareas is at most that afterwards
 *
 * Return: 0, or -1 with errno: EPROTONOSUPPORT if the module is of a version
 * that this library is not made for, else as L5_IOC_MAP_INFO.
 */
int l5_map_ask(int fd, struct l5_map_info *info, struct l5_area *area,
	       uint32_t n);

/**
 * l5_map_watch() - have the closing of its descriptors told
 * @fd: a socket with rings
 * @watch: what l5_map_watched() then says for as long as this process closes no
 *	descriptor of it
 *
 * Return: 0, or -1 with errno: @fd is not, or not any more, such a socket, or
 * this cannot be told.
 */
int l5_map_watch(int fd, uint64_t *watch);

/**
 * l5_map_new() - map the rings of a connected socket
 * @fd: the socket
 *
 * The descriptor is used in this call alone. Threads may map one socket more
 * than once, and a process should not.
 *
 * Return: with one reference, or NULL with errno: EAGAIN if RDMA may yet take
 * the connection, or other threads took each place for it, EOPNOTSUPP if there
 * will be no rings, ENOTCONN, ENOMEM, EPROTONOSUPPORT as l5_map_ask(), or what
 * ioctl() says to a stranger.
 */
struct l5_map *l5_map_new(int fd);

/**
 * l5_map_get() - one user more
 * @m: not NULL
 *
 * Return: @m
 */
struct l5_map *l5_map_get(struct l5_map *m);

/**
 * l5_map_put() - one user less; the last one unmaps
 * @m: may be NULL, and may be one that fork() took away, see l5_map_mine()
 */
void l5_map_put(struct l5_map *m);

/**
 * struct l5_map_mem - an end in memory that is there already
 * @own: control page, writable
 * @peer: the other end's
 * @state: the kernel's page
 * @tx: data written
 * @rx: data read
 * @tx_size: bytes of the ring; @tx is mapped twice as long
 * @rx_size: likewise
 * @id: not 0, other than any other process's that has this end
 */
struct l5_map_mem {
	struct l5_ctrl *own;
	const struct l5_ctrl *peer;
	const struct l5_map_state *state;
	void *tx;
	const void *rx;
	uint32_t tx_size;
	uint32_t rx_size;
	uint32_t id;
};

/**
 * l5_map_over() - an end without a socket, for tests and measurements
 * @mem: where it is; copied, and not unmapped by l5_map_put()
 * @ops: what stands for the kernel
 * @priv: for @ops
 *
 * Return: with one reference, or NULL with errno.
 */
struct l5_map *l5_map_over(const struct l5_map_mem *mem,
			   const struct l5_map_ops *ops, void *priv);

/*
 * A word that a child of fork() finds 0, whatever it was, until it maps
 * something itself. Each life of the process has another number there.
 */
extern const uint32_t *l5_map_life;

/**
 * l5_map_mine() - is it mapped in this process, or was it in a parent?
 * @m: as left by fork()
 *
 * One that is not mine may only be given to l5_map_put(). A child of vfork()
 * lives in its parent, and so do all threads.
 */
static inline bool l5_map_mine(const struct l5_map *m)
{
	return l5_likely(l5_load(l5_map_life) == m->life);
}

/*
 * What lock words this thread holds, so that one that finds a word taken can
 * tell whether it waits for itself: a signal handler that interrupted its own
 * thread, or a thread that was taken out of the middle by siglongjmp(). It is
 * the latter if the frame that held the word lies where a present one is, see
 * l5_frame_over(). Only looked at when a word is taken.
 */
struct l5_held {
	uint64_t key;		/* 0: nothing */
	uintptr_t frame;	/* odd: it has the word for sure */
};

enum { L5_HELD_MORE = 7 };

/* One, and those that signal handlers came upon. */
struct l5_held_all {
	struct l5_held now;
	struct l5_held more[L5_HELD_MORE];
	int n;
};

extern __thread struct l5_held_all l5_held
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/*
 * Signals that came to this thread, as far as somebody counts them: one that
 * handlers give way to, or that they themselves do. A wait that a call began
 * when this was something else is over.
 *
 * The lower half counts all, the upper half those that end a call with EINTR.
 */
extern __thread uint64_t l5_signals
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

#define L5_SIGNAL_CAME	((uint64_t)1)
#define L5_SIGNAL_ENDS	((uint64_t)1 << 32)

/* Did none come since that was read? One load, of this thread's own line. */
static inline bool l5_no_signal(uint64_t seen)
{
	return l5_likely(l5_load(&l5_signals) == seen);
}

/* Count one; also by a handler that interrupts this. */
static inline void l5_signal_came(bool ends)
{
	uint64_t now = l5_load(&l5_signals) + L5_SIGNAL_CAME;

	l5_store(&l5_signals, ends ? now + L5_SIGNAL_ENDS : now);
}

/* Does what came between these end a call with EINTR? */
static inline bool l5_signal_ends(uint64_t seen, uint64_t now)
{
	return seen >> 32 != now >> 32;
}

/* Where the stack is in this function; even. */
static inline __attribute__((always_inline)) uintptr_t l5_frame(void)
{
#if __has_builtin(__builtin_ia32_pause) && UINTPTR_MAX > UINT32_MAX
	uintptr_t sp;

	/* a frame pointer would have to be made */
	__asm__("mov %%rsp, %0" : "=r" (sp));
	return sp & ~1ul;
#else
	return (uintptr_t)__builtin_frame_address(0) & ~1ul;
#endif
}

/*
 * Is a call over that had its stack pointer at @frame, as seen by one that has
 * its own at @now and goes on further down? It is if its frame lies within that
 * part of the stack, for no two that are alive overlap. If it does not, nothing
 * is known: a handler may run on any stack at all, and what is further up may
 * be another one. Whoever concludes from addresses that a frame is dead while
 * it lives takes its lock word away in the middle of a copy.
 */
static inline __attribute__((always_inline))
bool l5_frame_over(uintptr_t frame, uintptr_t now)
{
	return frame <= now && frame >= l5_frame();
}

#define l5_signal_fence()	__atomic_signal_fence(__ATOMIC_SEQ_CST)

/*
 * What was promised of descriptors, see l5_map_watch(). AK, pairs with AJ in
 * the kernel: whoever has the number from a call that closed it, or has heard
 * from one who has, sees that it was closed.
 */
static inline uint64_t l5_map_watched(const struct l5_map *m)
{
	return l5_load_acquire(&m->state->watch);
}

static inline __u64 *l5_map_tx_slot(const struct l5_map *m, uint64_t pos)
{
	return (__u64 *)(m->tx + (pos & (m->tx_size - 1)));
}

static inline
const __u64 *l5_map_rx_slot(const struct l5_map *m, uint64_t pos)
{
	return (const __u64 *)(m->rx + (pos & (m->rx_size - 1)));
}

static inline __u32 *l5_map_word(const struct l5_map *m, unsigned int which)
{
	return which == L5_LOCK_TX ? &m->own->tx_lock : &m->own->rx_lock;
}

/*
 * Take a word that is free, by a thread that holds no other: false if it is not
 * so simple. A handler may come between any two lines, and leaves all as it
 * was.
 */
static inline __attribute__((always_inline))
bool l5_enter(__u32 *word, __u32 id, uint64_t key, uintptr_t frame)
{
	struct l5_held *h = &l5_held.now;

	if (l5_unlikely(h->key))
		return false;
	h->frame = frame;
	l5_signal_fence();
	h->key = key;
	l5_signal_fence();
	/* again: a handler between the two left its own */
	h->frame = frame;
	l5_signal_fence();
	/* J, pairs with K */
	if (l5_unlikely(!l5_cmpxchg(word, 0, id))) {
		h->key = 0;
		return false;
	}
	l5_signal_fence();
	h->frame = frame | 1;
	l5_signal_fence();
	return true;
}

/* Give it back; not 0 if somebody waits for it */
static inline __attribute__((always_inline))
__u32 l5_leave(__u32 *word, uintptr_t frame)
{
	__u32 waiters;

	l5_signal_fence();
	l5_held.now.frame = frame;
	l5_signal_fence();
	waiters = l5_unlock(word);
	l5_signal_fence();
	l5_held.now.key = 0;
	return waiters;
}

/*
 * A kernel of the future may have more to say. Who does not understand it makes
 * system calls from then on.
 */
#define L5_MAP_TX_STOP	(L5_MAP_TX_ASK | L5_MAP_LEAVE)
#define L5_MAP_RX_STOP	(L5_MAP_RX_ASK | L5_MAP_LEAVE)

/*
 * Has the memory been taken back? Then what was read before this, from any of
 * it, may be zeros of the kernel's that stand in its place: nothing is to be
 * made of them. Pairs with AC in the kernel, that says so first.
 */
static inline bool l5_map_gone(const struct l5_map *m)
{
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return l5_unlikely(l5_load(&m->state->flags) & L5_MAP_LEAVE);
}

/* After a publication and the full barrier that follows it (F). */
static inline void l5_map_published(struct l5_map *m, int fd)
{
	if (l5_unlikely(l5_load(&m->peer->rx_wait) ||
			l5_load(&m->state->flags) &
			(L5_MAP_BELL | L5_MAP_TX_ASK)))
		m->ops->bell(m, fd, L5_BELL_DATA);
}

/*
 * After taking and the full barrier that follows it (F). L5_MAP_BELL is not for
 * this: a peer on another host asks for room, which sets its wait word here.
 */
static inline void l5_map_freed(struct l5_map *m, int fd, uint64_t head)
{
	if (l5_unlikely(l5_load(&m->peer->tx_wait)) &&
	    (int64_t)(l5_load(&m->peer->tx_tail) - head) <=
	    (int64_t)m->rx_size / 2)
		m->ops->bell(m, fd, L5_BELL_ROOM);
}

/**
 * l5_map_lock_nap() - sleep a while, as long as a lock word is held
 * @fd: the socket
 * @which: L5_LOCK_TX or L5_LOCK_RX
 *
 * After L5_TRY_BUSY, by a caller that counts the time. Sets errno.
 *
 * Return: 0 if it is worth trying, or -1: EINTR if a call of that direction
 * would end by the signal that came, or what ioctl() says to a stranger.
 */
int l5_map_lock_nap(int fd, unsigned int which);

/**
 * l5_map_trysend() - send what there is room for
 * @m: the end
 * @fd: its socket
 * @iov: buffers, in all at least one byte; if some of that is no memory, see
 *	copy.h, the record that it would have been in is not sent
 * @n: how many
 *
 * Return: bytes, or L5_TRY_*.
 */
ssize_t l5_map_trysend(struct l5_map *m, int fd, const struct iovec *iov,
		       size_t n);

/**
 * l5_map_tryrecv() - receive what is there
 * @m: the end
 * @fd: its socket
 * @iov: buffers, in all at least one byte
 * @n: how many
 * @flags: L5_TRY_PEEK
 *
 * Return: bytes, or L5_TRY_*; never 0.
 */
ssize_t l5_map_tryrecv(struct l5_map *m, int fd, const struct iovec *iov,
		       size_t n, int flags);

/*
 * Zero copy: memory of the ring itself, and its lock word is kept until the
 * second call of a pair, whatever the first call's stack. The thread that keeps
 * it gets L5_TRY_NESTED from every other call of that direction.
 *
 * l5_map_reserve(): bytes that may be written at *@p, or L5_TRY_*
 * l5_map_commit(): publish @len of them, or none
 * l5_map_peek(): bytes at *@p, or L5_TRY_*
 * l5_map_release(): take @len of them, or none
 */
ssize_t l5_map_reserve(struct l5_map *m, int fd, void **p, size_t want);
void l5_map_commit(struct l5_map *m, int fd, size_t len);
ssize_t l5_map_peek(struct l5_map *m, int fd, const void **p);
void l5_map_release(struct l5_map *m, int fd, size_t len);

/*
 * The header at a position that may be out of date without the lock: then other
 * threads have read on, and it is payload, even such as is being written.
 * Acquire, so that what is read after it is later.
 */
static inline __attribute__((no_sanitize("thread")))
uint64_t l5_map_glance(const __u64 *slot)
{
	return l5_load_acquire(slot);
}

/**
 * l5_map_readable() - is there anything to read, or to complain about?
 * @m: the end
 *
 * Needs no lock. A false may be out of date once it is back, as any such
 * answer may. Says nothing about the end of the stream: l5_map_rx_ask().
 */
static inline bool l5_map_readable(const struct l5_map *m)
{
	uint64_t head, slot;
	int i;

	/* a head that moves whenever it is looked at is worth a try */
	for (i = 0; i < L5_LOOKS; i++) {
		head = l5_load(&m->own->rx_head);
		if (l5_load(&m->own->rx_pos) != head)
			return true;
		slot = l5_map_glance(l5_map_rx_slot(m, head));
		if (slot || l5_likely(l5_load(&m->own->rx_head) == head))
			return slot;
	}
	return true;
}

/**
 * l5_map_rx_end() - where the records that have come end
 * @m: the end
 * @from: where they did before, or anything
 *
 * The peer's tail says it, but not by RDMA: its copy here is hardly ever
 * written. Then the records are followed.
 */
uint64_t l5_map_rx_end(const struct l5_map *m, uint64_t from);

/**
 * l5_map_rx_since() - has anything come since then, read or not?
 * @m: the end
 * @end: from l5_map_rx_end()
 */
static inline bool l5_map_rx_since(const struct l5_map *m, uint64_t end)
{
	if (l5_likely(l5_load(&m->state->transport) != L5_TRANSPORT_RDMA))
		return l5_load(&m->peer->tx_tail) != end;
	return end - l5_load(&m->own->rx_head) > m->rx_size ||
	       l5_map_glance(l5_map_rx_slot(m, end)) ||
	       end - l5_load(&m->own->rx_head) > m->rx_size;
}

/**
 * l5_map_rx_ask() - if the ring is found empty after this, is recv(2) to say
 *	why?
 * @m: the end
 */
static inline bool l5_map_rx_ask(const struct l5_map *m)
{
	return l5_load_acquire(&m->state->flags) & L5_MAP_RX_STOP;
}

/**
 * l5_map_writable() - is it worth while to write?
 * @m: the end
 *
 * That is, is half the ring free, or has send(2) to say why it never will.
 */
static inline bool l5_map_writable(const struct l5_map *m)
{
	/* negative if a writer died before it moved the tail */
	int64_t used = l5_load(&m->own->tx_tail) - l5_load(&m->peer->rx_head);

	if (used <= (int64_t)m->tx_size / 2)
		return true;
	return l5_load(&m->state->flags) & L5_MAP_TX_STOP;
}

static inline void l5_pause(void)
{
#if __has_builtin(__builtin_ia32_pause)
	__builtin_ia32_pause();
#else
	l5_signal_fence();
#endif
}

/*
 * Looks that make up a few microseconds here, or pauses between them; none if
 * there is but one CPU.
 */
extern uint32_t l5_map_polls;

/* As the environment says, or adaptive; once l5_map_live() was called. */
void l5_adapt_init(struct l5_adapt *a);

/* As told. */
void l5_adapt_set(struct l5_adapt *a, int spin_us, int yields);

/* The part of l5_adapt_wait() after the first looks: yield, or spin as told. */
bool l5_adapt_slow(struct l5_adapt *a, bool (*ready)(const void *arg),
		   const void *arg, uint32_t polls, uint64_t *start,
		   uint64_t seen);

/* Likewise, for @ns at most. */
bool l5_adapt_slow_for(struct l5_adapt *a, bool (*ready)(const void *arg),
		       const void *arg, uint32_t polls, uint64_t *start,
		       uint64_t ns, uint64_t seen);

/* The first looks: true if @ready; else *@polls is how many they were. */
static inline __attribute__((always_inline))
bool l5_adapt_look(struct l5_adapt *a, bool (*ready)(const void *arg),
		   const void *arg, uint32_t *polls)
{
	uint32_t n = 0, i;

	if (l5_likely(l5_load(&a->win))) {
		n = l5_load(&a->polls);
		for (i = 0; i < n; i++) {
			if (ready(arg))
				return true;
			l5_pause();
		}
	}
	*polls = n;
	return false;
}

/**
 * l5_adapt_wait() - spin and yield for as long as that pays
 * @a: what is known about that
 * @ready: whether to go on
 * @arg: for @ready
 * @start: for l5_adapt_woke()
 * @seen: l5_signals when the call began: it ends the wait that it is another
 *
 * Return: true if @ready, false if it is time to sleep. Then look once more,
 * sleep, and call l5_adapt_woke(); or see to the signal first.
 */
static inline __attribute__((always_inline))
bool l5_adapt_wait(struct l5_adapt *a, bool (*ready)(const void *arg),
		   const void *arg, uint64_t *start, uint64_t seen)
{
	uint32_t polls;

	if (l5_adapt_look(a, ready, arg, &polls))
		return true;
	return l5_adapt_slow(a, ready, arg, polls, start, seen);
}

/**
 * l5_adapt_wait_for() - likewise, in a call that has a time-out
 * @a: what is known about that
 * @ready: whether to go on
 * @arg: for @ready
 * @start: for l5_adapt_woke(), and to tell how much of the time is left; not
 *	set if @ready was true at one of the first looks
 * @ns: the time, UINT64_MAX without end; whatever it was told, it goes on for
 *	no longer
 * @seen: as of l5_adapt_wait()
 *
 * Return: as l5_adapt_wait().
 */
static inline __attribute__((always_inline))
bool l5_adapt_wait_for(struct l5_adapt *a, bool (*ready)(const void *arg),
		       const void *arg, uint64_t *start, uint64_t ns,
		       uint64_t seen)
{
	uint32_t polls;

	if (l5_adapt_look(a, ready, arg, &polls))
		return true;
	return l5_adapt_slow_for(a, ready, arg, polls, start, ns, seen);
}

/**
 * l5_adapt_woke() - learn from a wait that ended in a sleep
 * @a: what is known
 * @start: from l5_adapt_wait()
 */
void l5_adapt_woke(struct l5_adapt *a, uint64_t start);

static inline bool l5_map_rx_ready(const void *arg)
{
	return l5_map_readable(arg) || l5_map_rx_ask(arg);
}

static inline bool l5_map_tx_ready(const void *arg)
{
	return l5_map_writable(arg);
}

/**
 * l5_map_wait_rx() - wait for data without sleeping
 * @m: the end
 * @start: for l5_map_woke_rx()
 * @seen: as of l5_adapt_wait()
 *
 * Who answers is waited for eagerly. Who gets a stream has caught up with the
 * writer, and would only pull the line that is being written from under its
 * hands for every message: it looks away for a moment first.
 *
 * Return: true if it is worth trying again, false if it is time to sleep in
 * the kernel.
 */
static inline bool l5_map_wait_rx(struct l5_map *m, uint64_t *start,
				  uint64_t seen)
{
	uint64_t tail = l5_load(&m->own->tx_tail);
	struct l5_adapt *a = &m->rx_adapt;
	uint32_t polls = 0, i;
	const __u64 *slot;

	if (l5_likely(l5_load(&a->win)))
		polls = l5_load(&a->polls);
	if (l5_likely(polls)) {
		if (tail != l5_load(&m->asked))
			l5_store(&m->asked, tail);
		else
			for (i = l5_map_polls / 4; i; i--)
				l5_pause();
		/* other threads may read on; then this is only time lost */
		slot = l5_map_rx_slot(m, l5_load(&m->own->rx_head));
		for (i = polls; i; i--) {
			if (l5_map_glance(slot))
				return true;
			/* a longer message is there with its first line */
			__builtin_prefetch((const uint8_t *)slot + L5_LINE);
			l5_pause();
		}
	}
	return l5_adapt_slow(a, l5_map_rx_ready, m, polls, start, seen);
}

/**
 * l5_map_wait_tx() - wait for room without sleeping
 * @m: the end
 * @start: for l5_map_woke_tx()
 * @seen: as of l5_adapt_wait()
 *
 * Return: as l5_map_wait_rx().
 */
static inline bool l5_map_wait_tx(struct l5_map *m, uint64_t *start,
				  uint64_t seen)
{
	return l5_adapt_wait(&m->tx_adapt, l5_map_tx_ready, m, start, seen);
}

/* After the sleep that followed a false of the above. */
static inline void l5_map_woke_rx(struct l5_map *m, uint64_t start)
{
	l5_adapt_woke(&m->rx_adapt, start);
}

static inline void l5_map_woke_tx(struct l5_map *m, uint64_t start)
{
	l5_adapt_woke(&m->tx_adapt, start);
}

/* Messages up to this length take the inline paths below. */
#define L5_MAP_SMALL	256u

/* What the paths below do not do; @entered: after l5_enter() */
ssize_t l5_map_send1_slow(struct l5_map *m, int fd, const void *buf, size_t len,
			  uintptr_t frame, bool entered);
ssize_t l5_map_recv1_slow(struct l5_map *m, int fd, void *buf, size_t len,
			  uintptr_t frame, bool entered);
/* What has to be done after them, now and then; @n */
ssize_t l5_map_sent(struct l5_map *m, int fd, size_t n, __u32 waiters);
ssize_t l5_map_received(struct l5_map *m, int fd, size_t n, __u32 waiters);

/**
 * l5_map_send1() - l5_map_trysend() for one buffer, quick if it is small
 * @m: the end
 * @fd: its socket
 * @buf: what to send
 * @len: how much of it
 *
 * What is not as it mostly is goes the long way, which does the same.
 *
 * Return: as l5_map_trysend().
 */
static inline __attribute__((always_inline))
ssize_t l5_map_send1(struct l5_map *m, int fd, const void *buf, size_t len)
{
	uintptr_t frame = l5_frame();
	struct l5_ctrl *own = m->own;
	__u32 mask, size, waiters;
	uint8_t *tx = m->tx;
	uint64_t tail;
	__u64 *slot;

	if (l5_unlikely(len - 1 >= L5_MAP_SMALL || L5_MAP_FLAT ||
			!l5_enter(&own->tx_lock, m->id, m->key + L5_LOCK_TX,
				  frame)))
		return l5_map_send1_slow(m, fd, buf, len, frame, false);
	tail = l5_load(&own->tx_tail);
	size = l5_rec_size(len);
	mask = m->tx_size - 1;
	/* a head that cannot be makes the difference large, too */
	if (l5_unlikely(l5_load(&m->state->flags) & L5_MAP_TX_STOP ||
			tail - m->prod.head + size + L5_HDR > mask))
		return l5_map_send1_slow(m, fd, buf, len, frame, true);
	slot = (__u64 *)(tx + (tail & mask));
	/*
	 * What is in further lines first: the reader polls the line of the
	 * header, and would take it away between two stores that are apart.
	 */
	l5_store((__u64 *)(tx + ((tail + size) & mask)), 0);
	if (l5_unlikely(!l5_copy_small((uint8_t *)(slot + 1), buf, len)))
		return l5_map_send1_slow(m, fd, buf, len, frame, true);
	/* A, pairs with B */
	l5_store_release(slot, (__u64)L5_REC_VALID << 32 | len);
	/* V, pairs with W in the kernel, as l5_prod_publish() has it */
	l5_store_release(&own->tx_tail, tail + size);
	l5_store(&own->tx_bytes, l5_load(&own->tx_bytes) + len);
	waiters = l5_leave(&own->tx_lock, frame);
	if (l5_unlikely(waiters | l5_load(&m->peer->rx_wait) |
			(l5_load(&m->state->flags) & L5_MAP_MUST &
			 ~L5_MAP_RX_ASK)))
		return l5_map_sent(m, fd, len, waiters);
	return len;
}

/**
 * l5_map_recv1() - l5_map_tryrecv() for one buffer, quick for small records
 * @m: the end
 * @fd: its socket
 * @buf: where to
 * @len: how much at most
 *
 * As a socket it does not return less than there is: many programs take that
 * for the end of what there is.
 *
 * Return: as l5_map_tryrecv().
 */
static inline __attribute__((always_inline))
ssize_t l5_map_recv1(struct l5_map *m, int fd, void *buf, size_t len)
{
	uintptr_t frame = l5_frame();
	struct l5_ctrl *own = m->own;
	const uint8_t *rx = m->rx;
	__u32 mask, n, waiters;
	const __u64 *slot;
	uint64_t head;
	__u64 hdr;

	mask = (m->rx_size - 1) & ~(L5_HDR - 1);
	head = l5_load(&own->rx_head);
	if (l5_unlikely(L5_MAP_FLAT ||
			!l5_map_glance((__u64 *)(rx + (head & mask))) ||
			l5_load(&m->state->flags) & L5_MAP_LEAVE ||
			!l5_enter(&own->rx_lock, m->id, m->key + L5_LOCK_RX,
				  frame)))
		return l5_map_recv1_slow(m, fd, buf, len, frame, false);
	head = l5_load(&own->rx_head);
	slot = (__u64 *)(rx + (head & mask));
	/* B, pairs with A */
	hdr = l5_load_acquire(slot);
	n = (__u32)hdr;
	/* a whole record that fits, and none after it if there is more room */
	if (l5_unlikely(hdr - ((__u64)L5_REC_VALID << 32) - 1 >= L5_MAP_SMALL ||
			l5_load(&own->rx_pos) != head || n > len ||
			(n < len && l5_load((__u64 *)
				(rx + ((head + l5_rec_size(n)) & mask))))))
		return l5_map_recv1_slow(m, fd, buf, len, frame, true);
	if (l5_unlikely(!l5_copy_small(buf, (const uint8_t *)(slot + 1), n)) ||
	    l5_map_gone(m))
		return l5_map_recv1_slow(m, fd, buf, len, frame, true);
	head += l5_rec_size(n);
	l5_store(&own->rx_bytes, l5_load(&own->rx_bytes) + n);
	/* ahead of rx_head, as l5_cons_take() has it */
	l5_store(&own->rx_pos, head);
	/* C, pairs with D */
	l5_store_release(&own->rx_head, head);
	waiters = l5_leave(&own->rx_lock, frame);
	if (l5_unlikely(waiters | l5_load(&m->peer->tx_wait)))
		return l5_map_received(m, fd, n, waiters);
	return n;
}

#endif /* L5_MAP_H */
