// SPDX-License-Identifier: GPL-2.0
/*
 * Sending: write(), send() and their relatives. See io.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "io.h"

/* Flags of send() that change nothing for a ring. */
#define SEND_FLAGS	(MSG_DONTWAIT | MSG_NOSIGNAL | MSG_MORE)

/* A given address: TCP overlooks it if it is one. @to is NULL for none. */
static bool unaddressed(const struct sock *s, const void *to, socklen_t len)
{
	return l5_likely(!to) ||
	       (may_be_memory(to) && (int)len >= 0 &&
		len <= sizeof(struct sockaddr_storage) &&
		!(atomic_load_explicit(&s->flags, memory_order_relaxed) &
		  SOCK_NAMES));
}

/* Not in the way of programs that did not ask for it. */
static __attribute__((noinline, cold))
void count_send(struct sock *s, int fd, ssize_t ret, bool all, bool some,
		bool dontwait, const struct pause *p)
{
	enum l5_stats_call call = L5_STATS_SAVED;

	/* what a part was sent of, and then an error, is not asked about */
	if (!all && ret < -1 && ret != L5_TRY_BROKEN &&
	    (!some || ret == L5_TRY_AGAIN || ret == L5_TRY_BUSY))
		call = call_of(s, ret, p->slept, dontwait,
			       L5_STATS_FULL);
	stats_call(s->stat, fd, L5_STATS_OUT, call);
}

/**
 * struct sending - a send through a ring
 * @wait: how it waits
 * @s: the socket, in use
 * @gen: its number
 * @fd: its descriptor
 * @iov: what to send
 * @n: how many of these
 * @len: bytes of them
 * @done: bytes that went
 * @first: what the first attempt returned, until that was seen to; then 0
 * @why: an L5_TRY_* that makes it the kernel's turn
 */
struct sending {
	struct l5_wait wait;
	struct sock *s;
	unsigned int gen;
	int fd;
	const struct iovec *iov;
	int n;
	size_t len;
	size_t done;
	ssize_t first;
	ssize_t why;
};

/* Where what is left of it begins */
static void send_at(const struct sending *t, struct at *at)
{
	at_begin(at, t->iov, t->n, t->len);
	at_move(at, t->done);
}

static ssize_t ring_send_more(struct sending *t)
{
	const struct iovec *v;
	struct iovec first;
	struct at at;
	int n;

	send_at(t, &at);
	n = at_iov(&at, &first, &v);
	return l5_map_trysend(t->s->map, t->fd, v, n);
}

static ssize_t ring_send_attempt(struct l5_wait *w)
{
	struct sending *t = l5_call_of(w, struct sending);
	ssize_t n;

	for (;;) {
		n = t->first;
		t->first = 0;
		if (!n && sandbox_careful()) {
			w->dontwait = true;
			return L5_TRY_AGAIN;
		}
		if (!n)
			n = ring_send_more(t);
		if (n < 0)
			return n;
		t->done += n;
		w->fruitless = 0;
		if (t->done == t->len)
			return t->done;
	}
}

/* A wait that looks at all is counted. */
static bool ring_send_look(struct l5_wait *w)
{
	struct sending *t = l5_call_of(w, struct sending);
	bool looks = l5_load(&t->s->map->tx_adapt.win);
	bool paid = l5_map_wait_tx(t->s->map, &w->start, w->seen);

	if (looks)
		stats_look(t->s->stat, L5_STATS_OUT, paid);
	return paid;
}

/* Nobody sleeps while a socket is in use: that is for the caller. */
static ssize_t ring_send_rest(struct l5_wait *w, ssize_t why)
{
	l5_call_of(w, struct sending)->why = why;
	return TO_KERNEL;
}

/* As sendmsg(), of a send that had begun when the library became careful. */
static ssize_t write_all(int fd, const struct iovec *iov, int n)
{
	size_t done = 0;
	ssize_t ret;
	int i;

	for (i = 0; i < n; i++) {
		/* the call that no filter refuses */
		ret = real.write(fd, iov[i].iov_base, iov[i].iov_len);
		if (ret > 0)
			done += ret;
		if (ret < 0 || (size_t)ret < iov[i].iov_len)
			break;
	}
	return done;
}

static ssize_t send_call(const struct io_rest *r, const struct iovec *v, int n)
{
	struct msghdr msg = {
		.msg_iov = (struct iovec *)v,
		.msg_iovlen = n,
	};

	if (sandbox_careful())
		return r->dontwait ? 0 : write_all(r->fd, v, n);
	return real.sendmsg(r->fd, &msg, r->flags);
}

/* The rest of a send, by the kernel. How many bytes went in all. */
static size_t send_rest(const struct sending *t, int flags, bool dontwait)
{
	struct io_rest rest = {
		.fd = t->fd, .s = t->s, .gen = t->gen,
		.flags = flags | MSG_NOSIGNAL | L5_MSG_BELL,
		.dontwait = dontwait, .seen = t->wait.seen, .call = send_call,
	};

	send_at(t, &rest.at);
	return t->done + io_rest(&rest);
}

/* It is the kernel's turn, or an error: returns as ring_send(). */
static ssize_t send_ends(struct sending *t, int flags, bool dontwait,
			 struct pause *p)
{
	bool came = !io_pause(p, &t->wait);
	size_t done = t->done;
	ssize_t ret = t->why;

	if (ret == L5_TRY_NESTED && !done)
		ret = io_nested(t->s, flags);
	if (l5_unlikely(t->s->stat))
		count_send(t->s, t->fd, ret, false, done, dontwait, p);
	sock_done();
	if (l5_unlikely(came))
		return done ? (ssize_t)done :
			      io_interrupted(t->fd, &t->wait, true);
	if (ret == L5_TRY_BROKEN && !done) {
		errno = EPROTO;
		return -1;
	}
	if (ret == -1)
		return -1;
	if (!done)
		return TO_KERNEL;
	/* an error now is for the next call to report */
	if (ret != L5_TRY_AGAIN && ret != L5_TRY_BUSY && ret != L5_TRY_ROOM)
		return done;
	/* for which a call that has moved something does not sleep */
	if (!dontwait && !l5_wait_quiet(&t->wait))
		return done;
	done = send_rest(t, flags, dontwait);
	io_woke(t->fd, p);
	p->slept = false;
	return done;
}

/* The first attempt did not send all of it. Returns as ring_send(). */
static __attribute__((noinline))
ssize_t send_waits(struct sending *t, int flags, struct pause *p)
{
	bool dontwait = flags & MSG_DONTWAIT || sock_nonblocking(t->s);
	ssize_t ret;

	t->wait.dontwait = dontwait;
	ret = l5_wait_loop(&t->wait, ring_send_attempt, ring_send_look,
			   ring_send_rest);
	if (ret != (ssize_t)t->len)
		return send_ends(t, flags, dontwait, p);
	stats_call(t->s->stat, t->fd, L5_STATS_OUT, L5_STATS_SAVED);
	sock_done();
	return ret;
}

/*
 * Send through the ring; @s is in use, and not any more afterwards. Returns as
 * ring_recv().
 *
 * Nearly all sends find room at once, so what a wait needs is not even written
 * down before the first attempt.
 */
static ssize_t ring_send(struct sock *s, int fd, const struct iovec *iov,
			 int n, size_t len, int flags, struct pause *p)
{
	uint64_t seen = l5_signals;
	struct sending t;
	ssize_t ret;

	p->slept = false;
	p->tx = true;
	if (sock_plain(s)) {
		stats_call(s->stat, fd, L5_STATS_OUT, L5_STATS_OPTION);
		sock_done();
		return TO_KERNEL;
	}
	ret = n == 1 ? l5_map_send1(s->map, fd, iov->iov_base, len) :
		       l5_map_trysend(s->map, fd, iov, n);
	if (l5_likely(ret == (ssize_t)len)) {
		stats_call(s->stat, fd, L5_STATS_OUT, L5_STATS_SAVED);
		sock_done();
		return ret;
	}
	t = (struct sending){
		.wait = { .seen = seen }, .s = s, .gen = sock_gen(s), .fd = fd,
		.iov = iov, .n = n, .len = len, .first = ret,
	};
	return send_waits(&t, flags, p);
}

static inline __attribute__((always_inline))
ssize_t send_one(int fd, const void *buf, size_t len, int flags,
		 const void *to, socklen_t tolen, struct pause *p)
{
	struct iovec iov = { (void *)buf, len };
	struct sock *s = sock_use(fd);

	p->slept = false;
	if (l5_likely(!s))
		return TO_KERNEL;
	if (flags & ~SEND_FLAGS || !len || len > L5_IO_MAX ||
	    !may_be_memory(buf) || !unaddressed(s, to, tolen)) {
		stats_call(s->stat, fd, L5_STATS_OUT, flags & ~SEND_FLAGS ?
			   L5_STATS_FLAGS : L5_STATS_ODD);
		sock_done();
		return TO_KERNEL;
	}
	return ring_send(s, fd, &iov, 1, len, flags, p);
}

static ssize_t send_many(int fd, const struct iovec *iov, int n, int flags,
			 const void *to, socklen_t tolen, struct pause *p)
{
	struct sock *s = sock_use(fd);
	size_t len;

	p->slept = false;
	if (l5_likely(!s))
		return TO_KERNEL;
	if (flags & ~SEND_FLAGS || io_odd(iov, n, &len) ||
	    !unaddressed(s, to, tolen)) {
		stats_call(s->stat, fd, L5_STATS_OUT, flags & ~SEND_FLAGS ?
			   L5_STATS_FLAGS : L5_STATS_ODD);
		sock_done();
		return TO_KERNEL;
	}
	return ring_send(s, fd, iov, n, len, flags, p);
}

EXPORT ssize_t write(int fd, const void *buf, size_t n)
{
	struct pause p;
	ssize_t ret = send_one(fd, buf, n, 0, NULL, 0, &p);

	THEN(ret, fd, &p, real.write(fd, buf, n));
	return ret;
}

EXPORT ssize_t send(int fd, const void *buf, size_t n, int flags)
{
	struct pause p;
	ssize_t ret = send_one(fd, buf, n, flags, NULL, 0, &p);

	THEN(ret, fd, &p, real.send(fd, buf, n, flags));
	return ret;
}

EXPORT ssize_t sendto(int fd, const void *buf, size_t n, int flags,
		      const struct sockaddr *to, socklen_t len)
{
	struct pause p;
	ssize_t ret = send_one(fd, buf, n, flags, to, len, &p);

	THEN(ret, fd, &p, real.sendto(fd, buf, n, flags, to, len));
	return ret;
}

EXPORT ssize_t writev(int fd, const struct iovec *iov, int n)
{
	struct pause p;
	ssize_t ret = send_many(fd, iov, n, 0, NULL, 0, &p);

	THEN(ret, fd, &p, real.writev(fd, iov, n));
	return ret;
}

void send_passes(const struct msghdr *msg)
{
	struct cmsghdr *c;
	size_t i, n;
	int fd;

	if (!may_be_memory(msg) ||
	    msg->msg_controllen < sizeof(struct cmsghdr) ||
	    !may_be_memory(msg->msg_control))
		return;
	for (c = CMSG_FIRSTHDR(msg); c;
	     c = CMSG_NXTHDR((struct msghdr *)msg, c)) {
		/* the kernel refuses these */
		if (c->cmsg_len < CMSG_LEN(0) ||
		    c->cmsg_len > (size_t)((char *)msg->msg_control +
					   msg->msg_controllen - (char *)c))
			break;
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(fd);
		for (i = 0; i < n; i++) {
			memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
			fd_shared(fd);
		}
	}
}

EXPORT ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	struct pause p = { .slept = false };
	ssize_t ret = TO_KERNEL;

	if (may_be_memory(msg)) {
		send_passes(msg);
		if (!msg->msg_controllen && msg->msg_iovlen <= IOV_MAX)
			ret = send_many(fd, msg->msg_iov, msg->msg_iovlen,
					flags, msg->msg_name, msg->msg_namelen,
					&p);
		if (msg->msg_controllen)
			stats_left(fd, L5_STATS_OUT, L5_STATS_ADDRESS);
	}
	THEN(ret, fd, &p, real.sendmsg(fd, msg, flags));
	return ret;
}

EXPORT int sendmmsg(int fd, struct mmsghdr *msgs, unsigned int n, int flags)
{
	unsigned int i;

	/* the kernel takes no more messages at a time */
	for (i = 0; may_be_memory(msgs) && i < n && i < IOV_MAX; i++)
		send_passes(&msgs[i].msg_hdr);
	stats_left(fd, L5_STATS_OUT, L5_STATS_MANY);
	return real.sendmmsg(fd, msgs, n, flags);
}

EXPORT ssize_t pwritev64v2(int fd, const struct iovec *iov, int n, off64_t off,
			   int flags)
{
	struct pause p = { .slept = false };
	ssize_t ret = TO_KERNEL;

	if (off == -1 && !flags)
		ret = send_many(fd, iov, n, 0, NULL, 0, &p);
	THEN(ret, fd, &p, real.pwritev64v2(fd, iov, n, off, flags));
	return ret;
}

EXPORT ssize_t pwritev2(int fd, const struct iovec *iov, int n, off_t off,
			int flags) __attribute__((alias("pwritev64v2")));
