// SPDX-License-Identifier: GPL-2.0
/*
 * libl5: bytes in place, without a copy: l5_reserve() and l5_commit(),
 * l5_peek() and l5_release(). Without a ring both pairs have memory of the
 * connection's.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdlib.h>
#include <unistd.h>
#include <sys/syscall.h>

#include "conn.h"

/*
 * The memory for l5_reserve() and l5_peek() without a ring, each. A message
 * gets what it needs.
 */
#define L5_BOUNCE	(64u << 10)

/* Memory of the connection's own, held as a ring's would be. */
static int kept_bounce(struct l5_kept *k, size_t len)
{
	int err = pthread_mutex_lock(&k->mutex);
	void *buf = k->buf;

	if (!err && k->cap < len) {
		buf = realloc(k->buf, len);
		err = buf ? 0 : ENOMEM;
		if (err)
			pthread_mutex_unlock(&k->mutex);
	}
	if (err) {
		errno = err;
		return -1;
	}
	if (k->cap < len) {
		k->buf = buf;
		k->cap = len;
	}
	k->map = NULL;
	return 0;
}

static void kept_end(struct l5_kept *k)
{
	k->len = 0;
	if (!k->map)
		pthread_mutex_unlock(&k->mutex);
}

/**
 * struct keep - the first call of a pair
 * @wait: how it waits
 * @c: the connection
 * @m: its rings
 * @p: where the caller is told the place, one of the two
 * @want: bytes, of a reservation
 * @flags: MSG_*
 * @end: when its time-out is over, 0: that was not asked yet
 */
struct keep {
	struct l5_wait wait;
	struct l5_stream *c;
	struct l5_map *m;
	union {
		void **out;
		const void **in;
	} p;
	size_t want;
	int flags;
	uint64_t end;
};

/* Bytes at a place of the ring, or what they are waited for with */
static ssize_t keep_got(struct keep *k, struct l5_kept *kept, ssize_t n)
{
	if (n > 0) {
		kept->map = k->m;
		kept->len = n;
	} else {
		k->wait.dontwait = l5_stream_nonblock(k->c, k->flags);
	}
	return n;
}

/*
 * A call that is not to wait has found no room: there is to be an edge for it
 * once there is, as after a send(2). Is there room by now?
 */
static bool keep_arm(struct keep *k)
{
	int saved = errno;
	long ready = syscall(SYS_ioctl, k->c->fd, L5_IOC_ARM, L5_BELL_ROOM);

	errno = saved;
	return ready > 0 && ++k->wait.fruitless < L5_FRUITLESS;
}

/* Sleep; 0 if it has to be done without the ring. */
static ssize_t keep_rest(struct keep *k, short events, ssize_t why)
{
	struct l5_wait *w = &k->wait;
	int err;

	if (why == L5_TRY_ASK)
		return 0;
	if (why != L5_TRY_AGAIN && why != L5_TRY_BUSY)
		return l5_try_failed(why);
	if (w->dontwait)
		return why == L5_TRY_AGAIN && events == POLLOUT && keep_arm(k) ?
		       L5_TRY_AGAIN : l5_try_failed(L5_TRY_AGAIN);
	if (why == L5_TRY_BUSY)
		return l5_stream_lock_sleep(k->c, events, &k->end) ?
		       -1 : L5_TRY_AGAIN;
	if (l5_stream_interrupted(w))
		return -1;
	err = l5_stream_sleep(k->c, events, w->vain ? w->start : 0, &k->end);
	if (w->vain)
		l5_adapt_woke(events == POLLIN ? &k->m->rx_adapt :
						 &k->m->tx_adapt, w->start);
	return err ? -1 : L5_TRY_AGAIN;
}

static ssize_t reserve_attempt(struct l5_wait *w)
{
	struct keep *k = l5_call_of(w, struct keep);

	return keep_got(k, &k->c->tx, l5_map_reserve(k->m, k->c->fd, k->p.out,
						     k->want));
}

static bool reserve_look(struct l5_wait *w)
{
	struct keep *k = l5_call_of(w, struct keep);

	return l5_map_wait_tx(k->m, &w->start, w->seen);
}

static ssize_t reserve_rest(struct l5_wait *w, ssize_t why)
{
	/* l5_commit() will hear what is wrong with the socket */
	return keep_rest(l5_call_of(w, struct keep), POLLOUT, why);
}

static ssize_t peek_attempt(struct l5_wait *w)
{
	struct keep *k = l5_call_of(w, struct keep);

	return keep_got(k, &k->c->rx, l5_map_peek(k->m, k->c->fd, k->p.in));
}

static bool peek_look(struct l5_wait *w)
{
	struct keep *k = l5_call_of(w, struct keep);

	return l5_map_wait_rx(k->m, &w->start, w->seen);
}

static ssize_t peek_rest(struct l5_wait *w, ssize_t why)
{
	return keep_rest(l5_call_of(w, struct keep), POLLIN, why);
}

ssize_t l5_reserve(struct l5_stream *c, void **p, size_t len, int flags)
{
	struct keep k = { .c = c, .p.out = p, .want = len, .flags = flags };
	ssize_t n;

	if (!len || flags & ~(MSG_DONTWAIT | MSG_NOSIGNAL)) {
		errno = EINVAL;
		return -1;
	}
	/* no message is as long as a ring */
	if (len > (c->messages ? L5_RING_MAX : L5_BOUNCE)) {
		if (c->messages)
			return l5_try_failed(-EMSGSIZE);
		len = L5_BOUNCE;
	}
	l5_wait_begin(&k.wait);
	for (;;) {
		k.m = l5_stream_map(c);
		n = k.m ? l5_wait_loop(&k.wait, reserve_attempt, reserve_look,
				       reserve_rest) : 0;
		if (n)
			return n;
		if (kept_bounce(&c->tx, len))
			return -1;
		/* from here on no other thread maps it */
		if (k.m || !l5_load(&c->map))
			break;
		kept_end(&c->tx);
	}
	c->tx.len = len;
	c->tx.flags = flags;
	*p = c->tx.buf;
	return len;
}

ssize_t l5_commit(struct l5_stream *c, size_t len)
{
	struct l5_map *m = l5_stream_map(c);
	ssize_t n = len, done = 0;

	/* nor can a child use what its parent reserved */
	if (len > c->tx.len || !c->tx.len) {
		errno = EINVAL;
		return -1;
	}
	if (c->tx.map) {
		c->tx.len = 0;
		l5_map_commit(m, c->fd, len);
		return len;
	}
	/* a message goes at once or not at all */
	while (len && n > 0) {
		n = syscall(SYS_sendto, c->fd, (char *)c->tx.buf + done, len,
			    c->tx.flags, NULL, 0);
		if (n > 0) {
			len -= n;
			done += n;
		}
	}
	kept_end(&c->tx);
	return done ? done : n;
}

/* Without a ring, and with the mutex: all of a message, however long it is */
static ssize_t peek_message(struct l5_stream *c, int flags)
{
	void *buf;
	ssize_t n;

	for (;;) {
		n = syscall(SYS_recvfrom, c->fd, c->rx.buf, c->rx.cap,
			    flags | MSG_PEEK | MSG_TRUNC, NULL, NULL);
		if (n <= (ssize_t)c->rx.cap)
			return n;
		buf = realloc(c->rx.buf, n);
		if (!buf)
			return -1;
		c->rx.buf = buf;
		c->rx.cap = n;
	}
}

ssize_t l5_peek(struct l5_stream *c, const void **p, int flags)
{
	struct keep k = { .c = c, .p.in = p, .flags = flags };
	ssize_t n;

	if (flags & ~MSG_DONTWAIT) {
		errno = EINVAL;
		return -1;
	}
	l5_wait_begin(&k.wait);
	for (;;) {
		k.m = l5_stream_map(c);
		n = k.m ? l5_wait_loop(&k.wait, peek_attempt, peek_look,
				       peek_rest) : 0;
		if (n)
			return n;
		if (kept_bounce(&c->rx, L5_BOUNCE))
			return -1;
		if (k.m || !l5_load(&c->map))
			break;
		kept_end(&c->rx);
	}
	n = c->messages ? peek_message(c, flags) :
			  syscall(SYS_recvfrom, c->fd, c->rx.buf, L5_BOUNCE,
				  flags | MSG_PEEK, NULL, NULL);
	if (n > 0) {
		c->rx.len = n;
		*p = c->rx.buf;
	} else {
		kept_end(&c->rx);
	}
	return n;
}

int l5_release(struct l5_stream *c, size_t len)
{
	struct l5_map *m = l5_stream_map(c);
	ssize_t n = 0;

	if (len > c->rx.len || !c->rx.len) {
		errno = EINVAL;
		return -1;
	}
	if (c->rx.map) {
		c->rx.len = 0;
		l5_map_release(m, c->fd, len);
		return 0;
	}
	if (len)
		n = syscall(SYS_recvfrom, c->fd, c->rx.buf, len, MSG_WAITALL,
			    NULL, NULL);
	kept_end(&c->rx);
	return n < 0 ? -1 : 0;
}
