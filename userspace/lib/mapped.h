/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A mapped end: making it, and what it consists of.
 */
#ifndef L5_MAPPED_H
#define L5_MAPPED_H

#include <errno.h>
#include <sys/types.h>

#include "adapt.h"
#include "base.h"
#include "copy.h"
#include "life.h"

/* What the try functions return when they moved nothing. */
#define L5_TRY_AGAIN	(-EAGAIN)	/* the ring is empty, or full */
#define L5_TRY_ASK	(-ENOTCONN)	/* do the plain system call */
#define L5_TRY_ROOM	(-ENOBUFS)	/* the plain send() gets room */
#define L5_TRY_BUSY	(-EBUSY)	/* the lock word is taken */
#define L5_TRY_NESTED	(-EDEADLK)	/* by this very thread */
#define L5_TRY_BROKEN	(-EPROTO)	/* the peer broke the protocol */

struct l5_map;

/**
 * struct l5_map_ops - what only the kernel can do
 * @bell: L5_IOC_DOORBELL
 * @lock_wait: wait for a lock word, for ever, where no system call could; NULL:
 *	L5_TRY_BUSY
 * @lock_wake: L5_IOC_UNLOCK
 * @room: L5_IOC_ROOM, with tx_lock held; NULL: there is never more
 * @broken: the peer broke the protocol: end the connection
 */
struct l5_map_ops {
	void (*bell)(struct l5_map *m, int fd, unsigned int bells);
	void (*lock_wait)(struct l5_map *m, int fd, unsigned int which);
	void (*lock_wake)(struct l5_map *m, int fd, unsigned int which);
	void (*room)(struct l5_map *m, int fd, uint32_t len);
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
 * @rx_size: of the ring, not of the mapping
 * @id: for the lock words
 * @mailbox: 1 and the number of its byte in the mailbox of its listener, or 0
 * @messages: 1: each record is a message, see message.h; 0: part of a stream
 * @rx_stop: flags with which nothing may be taken from the ring. An error comes
 *	before messages that are there, and after bytes
 * @life: what *l5_map_life was when this was made, see l5_map_mine()
 * @key: of the lock words, for l5_hold()
 * @keeper: the thread that keeps each lock word from call to call, by the
 *	address of its l5_held; NULL if it is held in a call alone
 * @prod: the writer's cursors as the last call left them, see struct l5_guard;
 *	under own->tx_lock
 * @cons: the reader's cursors, likewise; under own->rx_lock
 * @tx_adapt: waiting for room
 * @rx_adapt: waiting for data
 * @rx_walk: where received bytes went; under own->rx_lock
 * @asked: own->tx_tail when data was last waited for
 * @ops: the kernel, or what stands for it
 * @priv: for @ops
 * @ref: users
 * @len: bytes to unmap with it, from @base
 * @base: the start of that memory, in which this struct is, too
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
	uint32_t messages;
	uint32_t rx_stop;
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
 * Called once a filter of system calls has refused a call to the module, so
 * that a library can do without from then on. May be NULL.
 */
extern void (*l5_map_refused)(void);

/**
 * l5_map_ask() - what is there to map, and on what terms?
 * @fd: a socket with rings, or a listener
 * @info: the kernel's answer
 * @area: the list of areas, filled in
 * @n: room in the list; @info->nareas is at most that afterwards
 * @knows: L5_MAP_MESSAGES if the caller can use rings of messages, or 0
 *
 * Return: 0, or -1 with errno: EPROTONOSUPPORT if the module is of a version
 * that this library is not made for, else as L5_IOC_MAP_INFO.
 */
int l5_map_ask(int fd, struct l5_map_info *info, struct l5_area *area,
	       uint32_t n, uint64_t knows);

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
 * @knows: as of l5_map_ask()
 *
 * The descriptor is used in this call alone. Threads may map one socket more
 * than once, and a process should not.
 *
 * Return: with one reference, or NULL with errno: EAGAIN if RDMA may yet take
 * the connection, or other threads took each place for it, EOPNOTSUPP if there
 * will be no rings, ENOTCONN, ENOMEM, EPROTONOSUPPORT as l5_map_ask(), or what
 * ioctl() says to a stranger.
 */
struct l5_map *l5_map_new(int fd, uint64_t knows);

/**
 * l5_map_get() - one user more
 * @m: not NULL
 *
 * Return: @m
 */
struct l5_map *l5_map_get(struct l5_map *m);

/**
 * l5_map_put() - one user less; the last one unmaps
 * @m: may be NULL, or a map that fork() took away, see l5_map_mine()
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
 * @rx_size: bytes of the ring; @rx is mapped twice as long
 * @id: not 0, other than any other process's that has this end
 * @messages: is each record a message?
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
	bool messages;
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

/**
 * l5_map_far() - does another host's adapter write what this end reads?
 * @m: the end
 */
static inline bool l5_map_far(const struct l5_map *m)
{
	return l5_load(&m->state->transport) == L5_TRANSPORT_RDMA;
}

/**
 * l5_map_mine() - is it mapped in this process, or was it in a parent?
 * @m: as left by fork()
 *
 * A map of a parent may only be given to l5_map_put(). A child of vfork() lives
 * in its parent's memory, and so do all threads.
 */
static inline bool l5_map_mine(const struct l5_map *m)
{
	return l5_likely(l5_load(l5_map_life) == m->life);
}

/*
 * What was promised of descriptors, see l5_map_watch(). AK, pairs with AJ in
 * the kernel: a thread that has the number from a call that closed it, or has
 * heard from a thread that has, sees that it was closed.
 */
static inline uint64_t l5_map_watched(const struct l5_map *m)
{
	return l5_load_acquire(&m->state->watch);
}

/* A word of a process that shares the end may be no position of a header. */
static inline __u64 *l5_map_tx_slot(const struct l5_map *m, uint64_t pos)
{
	return (__u64 *)(m->tx + (pos & (m->tx_size - 1) & -(size_t)L5_HDR));
}

static inline
const __u64 *l5_map_rx_slot(const struct l5_map *m, uint64_t pos)
{
	return (const __u64 *)(m->rx +
			       (pos & (m->rx_size - 1) & -(size_t)L5_HDR));
}

static inline __u32 *l5_map_word(const struct l5_map *m, unsigned int which)
{
	return which == L5_LOCK_TX ? &m->own->tx_lock : &m->own->rx_lock;
}

/*
 * A kernel of the future may have more to say. A library that does not
 * understand it makes system calls from then on.
 */
#define L5_MAP_TX_STOP	(L5_MAP_TX_ASK | L5_MAP_LEAVE)
#define L5_MAP_RX_STOP	(L5_MAP_RX_ASK | L5_MAP_LEAVE)

/*
 * Has the memory been taken back? Then what was read from it before this may be
 * zeros, which the kernel has put in its place: they are not to be used. Pairs
 * with AC in the kernel, which says so first.
 */
static inline bool l5_map_gone(const struct l5_map *m)
{
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return l5_unlikely(l5_load(&m->state->flags) & L5_MAP_LEAVE);
}

/* After a publication and the full barrier that follows it (F; AG's, too). */
static inline void l5_map_published(struct l5_map *m, int fd)
{
	if (l5_unlikely(l5_wants_data(m->peer) ||
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
	/* a writer of messages uses half of its ring, and one message more */
	if (l5_unlikely(l5_wants_room(m->peer, head,
				      m->rx_size >> m->messages)))
		m->ops->bell(m, fd, L5_BELL_ROOM);
}

#endif /* L5_MAPPED_H */
