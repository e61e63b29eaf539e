/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A connection of libl5: what the files behind libl5.h have in common.
 */
#ifndef L5_CONN_H
#define L5_CONN_H

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

#include "libl5.h"
#include "map.h"

struct l5_mailbox;

/**
 * struct l5_kept - bytes between the two calls of zero copy
 * @len: bytes the caller has, 0 if none
 * @map: the rings that they are in, NULL if they are in @buf
 * @buf: memory for them without a ring
 * @cap: the size of @buf
 * @flags: MSG_* for l5_commit()
 * @mutex: held from the first call to the second, without a ring
 */
struct l5_kept {
	size_t len;
	struct l5_map *map;
	void *buf;
	size_t cap;
	int flags;
	pthread_mutex_t mutex;
};

/**
 * struct l5_stream - a connection
 * @fd: its socket
 * @messages: it is of type SOCK_SEQPACKET
 * @nonblock: no call blocks
 * @life: of the process, see l5_map_life, that this is of; a child of fork()
 *	finds a number that is not its own
 * @map: its rings, NULL without; of this @life, if read after it
 * @later: calls until they are tried again, 0 if that is settled
 * @laters: what @later began with last time
 * @trying: a thread is trying them
 * @why: errno, the reason why there are none
 * @byte: 1 and the number of its byte in @box, 0 if it has none there
 * @box: the mailbox, NULL without
 * @lost: the map of a parent, see conn_renew()
 * @spin_us: l5_set_wait()'s, for maps to come
 * @yields: l5_set_wait()'s, for maps to come
 * @tx: reserved
 * @rx: peeked at
 */
struct l5_stream {
	int fd;
	bool messages;
	bool nonblock;
	uint32_t life;
	struct l5_map *map;
	uint32_t later;
	uint32_t laters;
	int trying;
	int why;
	uint32_t byte;
	struct l5_mailbox *box;
	struct l5_map *lost;
	int spin_us;
	int yields;
	struct l5_kept tx;
	struct l5_kept rx;
};

/**
 * l5_stream_over() - a connection of rings that are mapped already, for tests
 * @fd: for what the rings cannot say
 * @m: the rings; takes a reference of its own
 *
 * Return: for l5_unmap(), or NULL with errno.
 */
struct l5_stream *l5_stream_over(int fd, struct l5_map *m);

/* What l5_stream_map() does in a new life of the process, or for new rings */
struct l5_map *l5_stream_settle(struct l5_stream *c);
struct l5_map *l5_stream_later(struct l5_stream *c, bool now);

/**
 * l5_stream_map() - the rings of a connection
 * @c: the connection
 *
 * Return: NULL if there are none, or none yet.
 */
static inline struct l5_map *l5_stream_map(struct l5_stream *c)
{
	struct l5_map *m;

	/* BA, pairs with AZ: of this life, then its map */
	if (l5_unlikely(l5_load_acquire(&c->life) != l5_load(l5_map_life)))
		return l5_stream_settle(c);
	m = l5_load_acquire(&c->map);
	if (l5_likely(m || !l5_load(&c->later)))
		return m;
	return l5_stream_later(c, false);
}

static inline bool l5_stream_nonblock(const struct l5_stream *c, int flags)
{
	return flags & MSG_DONTWAIT ||
	       __atomic_load_n(&c->nonblock, __ATOMIC_RELAXED);
}

static inline ssize_t l5_try_failed(ssize_t n)
{
	errno = -n;
	return -1;
}

/* Sleeping, in sleep.c */

/**
 * l5_stream_interrupted() - was l5_interrupt() called since the call began?
 * @w: the call; then there is nothing to sleep for
 *
 * Return: if so, with errno EINTR.
 */
bool l5_stream_interrupted(const struct l5_wait *w);

/**
 * l5_stream_sleep() - sleep as a blocking call of this direction would
 * @c: the connection
 * @events: POLLIN or POLLOUT
 * @start: when the time of the call began, or 0: now
 * @end: when it is over, 0 if that was not asked yet
 *
 * Return: 0, or -1 with errno.
 */
int l5_stream_sleep(const struct l5_stream *c, short events, uint64_t start,
		    uint64_t *end);

/**
 * l5_stream_lock_sleep() - sleep a while for a lock word of another thread
 * @c: the connection
 * @events: POLLIN or POLLOUT
 * @end: as of l5_stream_sleep()
 *
 * Or seems to have. Where no ioctl() is allowed it is a nap.
 *
 * Return: 0, or -1 with errno.
 */
int l5_stream_lock_sleep(const struct l5_stream *c, short events,
			 uint64_t *end);

/**
 * l5_stream_low() - would poll(2) sleep on although there is something to read?
 * @c: the connection
 */
bool l5_stream_low(const struct l5_stream *c);

#endif /* L5_CONN_H */
