// SPDX-License-Identifier: GPL-2.0
/*
 * libl5: bytes, as recv(2) and send(2) have them. See libl5(7).
 *
 * What the rings do not do at once is waited for as long as that pays. What is
 * left then is done by the plain system call. It sleeps, times out, is
 * interrupted and fails as the socket does, so none of that is imitated here.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <limits.h>
#include <unistd.h>
#include <sys/syscall.h>

#include "at.h"
#include "conn.h"

/* Flags that change nothing about how bytes go by rings */
#define L5_SEND_FLAGS	(MSG_DONTWAIT | MSG_NOSIGNAL | MSG_MORE)
#define L5_RECV_FLAGS	(MSG_DONTWAIT | MSG_NOSIGNAL | MSG_PEEK | MSG_WAITALL)

/* The system calls, for one buffer or an array */

static ssize_t kernel_send(const struct l5_stream *c, const struct at *at,
			   int flags)
{
	struct iovec first;
	struct msghdr msg = { 0 };
	const struct iovec *v;

	msg.msg_iovlen = at_iov(at, &first, &v);
	msg.msg_iov = (struct iovec *)v;
	return syscall(SYS_sendmsg, c->fd, &msg, flags);
}

static ssize_t kernel_recv(const struct l5_stream *c, const struct at *at,
			   int flags)
{
	struct iovec first;
	struct msghdr msg = { 0 };
	const struct iovec *v;

	msg.msg_iovlen = at_iov(at, &first, &v);
	msg.msg_iov = (struct iovec *)v;
	return syscall(SYS_recvmsg, c->fd, &msg, flags);
}

static ssize_t map_send(struct l5_stream *c, struct l5_map *m,
			const struct at *at)
{
	struct iovec first;
	const struct iovec *v;
	int n = at_iov(at, &first, &v);

	return l5_map_trysend(m, c->fd, v, n);
}

static ssize_t map_recv(struct l5_stream *c, struct l5_map *m,
			const struct at *at, int flags)
{
	struct iovec first;
	const struct iovec *v;
	int n = at_iov(at, &first, &v);

	return l5_map_tryrecv(m, c->fd, v, n, flags);
}

/* False for what only the kernel can judge. */
static bool at_init(struct at *at, const struct iovec *v, int n)
{
	size_t sum = 0;
	int i;

	if (n < 1 || n > IOV_MAX)
		return false;
	for (i = 0; i < n; i++)
		if (__builtin_add_overflow(sum, v[i].iov_len, &sum))
			return false;
	if (!sum || sum > L5_IO_MAX)
		return false;
	at_begin(at, v, n, sum);
	return true;
}

/**
 * struct transfer - a send or a receive
 * @wait: how it waits
 * @c: the connection
 * @m: its rings
 * @at: where it is in its buffers
 * @flags: MSG_*
 * @done: bytes that it has moved
 * @end: when its time-out is over, 0: that was not asked yet
 */
struct transfer {
	struct l5_wait wait;
	struct l5_stream *c;
	struct l5_map *m;
	struct at at;
	int flags;
	size_t done;
	uint64_t end;
};

/* What a call returns that does not go on: what it has moved, or else @n */
static ssize_t moved(const struct transfer *t, ssize_t n)
{
	return t->done ? (ssize_t)t->done : n;
}

/* Is this for another try or for the kernel, and not an error? */
static bool may_go_on(ssize_t why)
{
	return why == L5_TRY_AGAIN || why == L5_TRY_ASK ||
	       why == L5_TRY_ROOM || why == L5_TRY_BUSY;
}

static void transfer_move(struct transfer *t, size_t n)
{
	at_move(&t->at, n);
	t->done += n;
}

/* It slept, or the kernel did for it: was it long? */
static void transfer_woke(struct transfer *t, bool tx)
{
	if (!t->wait.vain)
		return;
	if (tx)
		l5_map_woke_tx(t->m, t->wait.start);
	else
		l5_map_woke_rx(t->m, t->wait.start);
}

/* Something was moved: sleep, and leave the rest to the next attempt. */
static ssize_t transfer_sleep(struct transfer *t, ssize_t why, bool tx)
{
	short events = tx ? POLLOUT : POLLIN;

	if (why == L5_TRY_BUSY)
		return l5_stream_lock_sleep(t->c, events, &t->end) ?
		       (ssize_t)t->done : L5_TRY_AGAIN;
	if (l5_stream_sleep(t->c, events, t->wait.start, &t->end))
		return t->done;
	transfer_woke(t, tx);
	return L5_TRY_AGAIN;
}

/*
 * As one system call: sends all of it, or what went before an error. The next
 * call is to tell the error, so once something went no system call is made that
 * might take the error away.
 */
static ssize_t send_attempt(struct l5_wait *w)
{
	struct transfer *t = l5_call_of(w, struct transfer);
	ssize_t n;

	while (t->at.left) {
		n = map_send(t->c, t->m, &t->at);
		if (n < 0) {
			w->dontwait = l5_stream_nonblock(t->c, t->flags);
			return n;
		}
		transfer_move(t, n);
		w->fruitless = 0;
	}
	return t->done;
}

static bool send_look(struct l5_wait *w)
{
	struct transfer *t = l5_call_of(w, struct transfer);

	return l5_map_wait_tx(t->m, &w->start, w->seen);
}

static ssize_t send_rest(struct l5_wait *w, ssize_t why)
{
	struct transfer *t = l5_call_of(w, struct transfer);
	size_t span;
	ssize_t n;

	if (!may_go_on(why))
		return moved(t, 0) ?: l5_try_failed(why);
	if (t->done && (why == L5_TRY_ASK || w->dontwait))
		return t->done;
	if (why != L5_TRY_ASK && w->dontwait)
		t->flags |= MSG_DONTWAIT;
	else if (why == L5_TRY_AGAIN && l5_stream_interrupted(w))
		return moved(t, -1);
	if (t->done && why != L5_TRY_ROOM)
		return transfer_sleep(t, why, true);
	/* an error is for the next call */
	n = kernel_send(t->c, &t->at,
			t->done ? t->flags | L5_MSG_BELL : t->flags);
	if (n > 0)
		transfer_woke(t, true);
	if (n <= 0)
		return moved(t, n);
	span = at_span(&t->at);
	transfer_move(t, n);
	return (size_t)n < span || !t->at.left ? (ssize_t)t->done :
						 L5_TRY_AGAIN;
}

/* As one system call, with MSG_WAITALL until there is all of it */
static ssize_t recv_attempt(struct l5_wait *w)
{
	struct transfer *t = l5_call_of(w, struct transfer);
	ssize_t n;

	do {
		n = map_recv(t->c, t->m, &t->at,
			     t->flags & MSG_PEEK ? L5_TRY_PEEK : 0);
		if (n < 0) {
			w->dontwait = l5_stream_nonblock(t->c, t->flags);
			return n;
		}
		transfer_move(t, n);
		w->fruitless = 0;
	} while (t->flags & MSG_WAITALL && t->at.left);
	return t->done;
}

static bool recv_look(struct l5_wait *w)
{
	struct transfer *t = l5_call_of(w, struct transfer);

	return l5_map_wait_rx(t->m, &w->start, w->seen);
}

static ssize_t recv_rest(struct l5_wait *w, ssize_t why)
{
	struct transfer *t = l5_call_of(w, struct transfer);
	size_t span;
	ssize_t n;

	if (!may_go_on(why))
		return moved(t, 0) ?: l5_try_failed(why);
	if (t->done && (why == L5_TRY_ASK || w->dontwait))
		return t->done;
	if (why == L5_TRY_AGAIN && w->dontwait)
		return l5_try_failed(why);
	if (why == L5_TRY_AGAIN && l5_stream_interrupted(w))
		return moved(t, -1);
	if (why == L5_TRY_BUSY && w->dontwait)
		t->flags |= MSG_DONTWAIT;
	if (t->done && (why == L5_TRY_BUSY || !l5_stream_low(t->c)))
		return transfer_sleep(t, why, false);
	/* an error is for the next call */
	n = kernel_recv(t->c, &t->at,
			t->done ? t->flags | L5_MSG_BELL : t->flags);
	if (n > 0)
		transfer_woke(t, false);
	if (n <= 0)
		return moved(t, n);
	span = at_span(&t->at);
	transfer_move(t, n);
	if (t->flags & MSG_WAITALL && t->at.left && (size_t)n == span)
		return L5_TRY_AGAIN;
	return t->done;
}

static void transfer_begin(struct transfer *t, struct l5_stream *c,
			   struct l5_map *m, int flags)
{
	l5_wait_begin(&t->wait);
	t->c = c;
	t->m = m;
	t->flags = flags;
	t->done = 0;
	t->end = 0;
}

/* A single system call moves no more than this. */
static size_t io_max(size_t len)
{
	return len < L5_IO_MAX ? len : L5_IO_MAX;
}

ssize_t l5_sendv(struct l5_stream *c, const struct iovec *iov, int n, int flags)
{
	struct l5_map *m = l5_stream_map(c);
	struct msghdr msg = { 0 };
	struct transfer t;

	if (m && !(flags & ~L5_SEND_FLAGS) && at_init(&t.at, iov, n)) {
		transfer_begin(&t, c, m, flags);
		return l5_wait_loop(&t.wait, send_attempt, send_look,
				    send_rest);
	}
	msg.msg_iov = (struct iovec *)iov;
	msg.msg_iovlen = n;
	return syscall(SYS_sendmsg, c->fd, &msg, flags);
}

ssize_t l5_recvv(struct l5_stream *c, const struct iovec *iov, int n, int flags)
{
	struct l5_map *m = l5_stream_map(c);
	struct msghdr msg = { 0 };
	struct transfer t;

	/* a message is never waited for to be more */
	if (c->messages)
		flags &= ~MSG_WAITALL;
	if (m && !(flags & ~L5_RECV_FLAGS) &&
	    (flags & (MSG_PEEK | MSG_WAITALL)) != (MSG_PEEK | MSG_WAITALL) &&
	    at_init(&t.at, iov, n)) {
		transfer_begin(&t, c, m, flags);
		return l5_wait_loop(&t.wait, recv_attempt, recv_look,
				    recv_rest);
	}
	msg.msg_iov = (struct iovec *)iov;
	msg.msg_iovlen = n;
	return syscall(SYS_recvmsg, c->fd, &msg, flags);
}

ssize_t l5_send(struct l5_stream *c, const void *buf, size_t len, int flags)
{
	struct iovec v = { .iov_base = (void *)buf, .iov_len = io_max(len) };
	struct l5_map *m = l5_stream_map(c);
	ssize_t n;

	/* so little goes in one piece or not at all */
	if (l5_likely(m && !(flags & ~L5_SEND_FLAGS) &&
		      len - 1 < L5_MAP_SMALL)) {
		n = l5_map_send1(m, c->fd, buf, len);
		if (l5_likely(n > 0))
			return n;
	}
	return l5_sendv(c, &v, 1, flags);
}

/**
 * struct quick - a receive into one buffer, without flags that matter
 * @wait: how it waits
 * @c: the connection
 * @m: its rings
 * @buf: where to
 * @len: how much
 * @flags: MSG_*
 */
struct quick {
	struct l5_wait wait;
	struct l5_stream *c;
	struct l5_map *m;
	void *buf;
	size_t len;
	int flags;
};

static inline __attribute__((always_inline))
ssize_t quick_attempt(struct l5_wait *w)
{
	struct quick *q = l5_call_of(w, struct quick);
	ssize_t n = l5_map_recv1(q->m, q->c->fd, q->buf, q->len);

	if (n == L5_TRY_AGAIN && l5_stream_nonblock(q->c, q->flags))
		return l5_try_failed(n);
	return n;
}

static inline __attribute__((always_inline))
bool quick_look(struct l5_wait *w)
{
	struct quick *q = l5_call_of(w, struct quick);

	return l5_map_wait_rx(q->m, &w->start, w->seen);
}

static ssize_t quick_rest(struct l5_wait *w, ssize_t why)
{
	struct quick *q = l5_call_of(w, struct quick);
	struct iovec v = { .iov_base = q->buf, .iov_len = q->len };
	ssize_t n;

	if (why != L5_TRY_AGAIN)
		return l5_recvv(q->c, &v, 1, q->flags);
	if (l5_stream_interrupted(w))
		return -1;
	n = syscall(SYS_recvfrom, q->c->fd, q->buf, q->len, q->flags, NULL,
		    NULL);
	if (w->vain && n > 0)
		l5_map_woke_rx(q->m, w->start);
	return n;
}

ssize_t l5_recv(struct l5_stream *c, void *buf, size_t len, int flags)
{
	struct iovec v = { .iov_base = buf, .iov_len = io_max(len) };
	struct l5_map *m = l5_stream_map(c);
	struct quick q;

	if (l5_unlikely(!m || !len || flags & ~(MSG_NOSIGNAL | MSG_DONTWAIT)))
		return l5_recvv(c, &v, 1, flags);
	l5_wait_begin(&q.wait);
	q.c = c;
	q.m = m;
	q.buf = buf;
	q.len = v.iov_len;
	q.flags = flags;
	return l5_wait_loop(&q.wait, quick_attempt, quick_look, quick_rest);
}
