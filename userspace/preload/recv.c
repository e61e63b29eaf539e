// SPDX-License-Identifier: GPL-2.0
/*
 * Receiving: read(), recv() and their relatives. See io.c.
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

/* Flags of recv() that change nothing for a ring. */
#define RECV_FLAGS	(MSG_DONTWAIT | MSG_NOSIGNAL | MSG_WAITALL | \
			 MSG_CMSG_CLOEXEC)

/*
 * The peer's address, if it is asked for: of a connected stream TCP says that
 * it has no bytes, and writes nothing else. @len is where, NULL if none is
 * asked for.
 */
static bool unnamed(const struct sock *s, const socklen_t *len)
{
	return l5_likely(!len) ||
	       (may_be_memory(len) && (int)*len >= 0 &&
		!(atomic_load_explicit(&s->flags, memory_order_relaxed) &
		  SOCK_NAMES));
}

/* Not in the way of programs that did not ask for it. */
static __attribute__((noinline, cold))
void count_recv(struct sock *s, int fd, ssize_t ret, size_t len, int flags,
		const struct pause *p)
{
	bool dontwait = flags & MSG_DONTWAIT || sock_nonblocking(s);
	enum l5_stats_call call = L5_STATS_SAVED;

	if (ret < -1 && ret != L5_TRY_BROKEN)
		call = call_of(s, ret, p->slept, dontwait,
			       L5_STATS_SHARED);
	else if (ret > 0 && flags & MSG_WAITALL && (size_t)ret < len)
		call = L5_STATS_REST;
	stats_call(s->stat, fd, L5_STATS_IN, call);
}

/**
 * struct receive - a receive from a ring
 * @wait: how it waits
 * @s: the socket, in use
 * @fd: its descriptor
 * @iov: where to
 * @n: how many of these
 * @len: bytes of them
 * @flags: MSG_*
 * @why: an L5_TRY_* that makes it the kernel's turn
 */
struct receive {
	struct l5_wait wait;
	struct sock *s;
	int fd;
	const struct iovec *iov;
	int n;
	size_t len;
	int flags;
	ssize_t why;
};

static inline __attribute__((always_inline))
ssize_t ring_recv_attempt(struct l5_wait *w)
{
	struct receive *r = l5_call_of(w, struct receive);
	ssize_t n;

	if (r->n == 1)
		n = l5_map_recv1(r->s->map, r->fd, r->iov->iov_base, r->len);
	else
		n = l5_map_tryrecv(r->s->map, r->fd, r->iov, r->n, 0);
	if (n != L5_TRY_AGAIN)
		return n;
	w->dontwait = r->flags & MSG_DONTWAIT || sock_nonblocking(r->s);
	if (w->dontwait && (r->flags & MSG_DONTWAIT || sock_alone(r->s))) {
		errno = EAGAIN;
		return -1;
	}
	return n;
}

/* A wait that looks at all is counted. */
static inline __attribute__((always_inline))
bool ring_recv_look(struct l5_wait *w)
{
	struct receive *r = l5_call_of(w, struct receive);
	bool looks = l5_load(&r->s->map->rx_adapt.win);
	bool paid = l5_map_wait_rx(r->s->map, &w->start, w->seen);

	if (looks)
		stats_look(r->s->stat, L5_STATS_IN, paid);
	return paid;
}

/* Nobody sleeps while a socket is in use: that is for the caller. */
static inline ssize_t ring_recv_rest(struct l5_wait *w, ssize_t why)
{
	l5_call_of(w, struct receive)->why = why;
	return TO_KERNEL;
}

/*
 * The rest of MSG_WAITALL, by the kernel; by the system call that the program
 * made, since a filter may know no other.
 */
static ssize_t recv_call(const struct io_rest *r, const struct iovec *v, int n)
{
	struct msghdr msg = {
		.msg_iov = (struct iovec *)v,
		.msg_iovlen = n,
	};
	int flags = r->flags;

	/* else the program's own call: an error is the next one's to tell */
	if (!sandbox_careful())
		flags |= L5_MSG_BELL;
	if (r->one)
		return real.recv(r->fd, v->iov_base, v->iov_len, flags);
	return real.recvmsg(r->fd, &msg, flags);
}

static ssize_t recv_rest(const struct receive *r, unsigned int gen, size_t done)
{
	struct io_rest rest = {
		.fd = r->fd, .s = r->s, .gen = gen,
		.flags = r->flags,
		.one = r->n == 1,
		.seen = r->wait.seen, .call = recv_call,
	};

	at_begin(&rest.at, r->iov, r->n, r->len);
	at_move(&rest.at, done);
	return done + io_rest(&rest);
}

/*
 * Receive from the ring; @s is in use, and not any more afterwards. Returns
 * bytes, -1 with errno, or TO_KERNEL.
 */
static ssize_t ring_recv(struct sock *s, int fd, const struct iovec *iov,
			 int n, size_t len, int flags, struct pause *p)
{
	struct receive r;
	bool came = false;
	unsigned int gen;
	ssize_t ret;

	p->slept = false;
	p->tx = false;
	if (sock_plain(s)) {
		stats_call(s->stat, fd, L5_STATS_IN, L5_STATS_OPTION);
		sock_done();
		return TO_KERNEL;
	}
	l5_wait_begin(&r.wait);
	r.s = s;
	r.fd = fd;
	r.iov = iov;
	r.n = n;
	r.len = len;
	r.flags = flags;
	ret = l5_wait_loop(&r.wait, ring_recv_attempt, ring_recv_look,
			   ring_recv_rest);
	if (l5_unlikely(ret == TO_KERNEL)) {
		ret = r.why;
		came = !io_pause(p, &r.wait);
	}
	if (ret == L5_TRY_NESTED)
		ret = io_nested(s, flags);
	if (l5_unlikely(s->stat))
		count_recv(s, fd, ret, len, flags, p);
	gen = sock_gen(s);
	sock_done();
	if (l5_unlikely(came && ret == L5_TRY_AGAIN))
		return io_interrupted(fd, &r.wait, false);
	if (ret == L5_TRY_BROKEN) {
		errno = EPROTO;
		return -1;
	}
	if (ret < -1)
		return TO_KERNEL;
	if (l5_unlikely(flags & MSG_WAITALL && ret > 0 && (size_t)ret < len &&
			l5_wait_quiet(&r.wait)))
		return recv_rest(&r, gen, ret);
	return ret;
}

/* One buffer; TO_KERNEL also if the descriptor is not ours. */
static inline __attribute__((always_inline))
ssize_t recv_one(int fd, void *buf, size_t len, int flags,
		 const socklen_t *name, struct pause *p)
{
	struct iovec iov = { buf, len };
	struct sock *s = sock_use(fd);

	p->slept = false;
	if (l5_likely(!s))
		return TO_KERNEL;
	if (flags & ~RECV_FLAGS || !len || len > L5_IO_MAX ||
	    !may_be_memory(buf) || !unnamed(s, name)) {
		stats_call(s->stat, fd, L5_STATS_IN, flags & ~RECV_FLAGS ?
			   L5_STATS_FLAGS : L5_STATS_ODD);
		sock_done();
		return TO_KERNEL;
	}
	return ring_recv(s, fd, &iov, 1, len, flags, p);
}

static ssize_t recv_many(int fd, const struct iovec *iov, int n, int flags,
			 const socklen_t *name, struct pause *p)
{
	struct sock *s = sock_use(fd);
	size_t len;

	p->slept = false;
	if (l5_likely(!s))
		return TO_KERNEL;
	if (flags & ~RECV_FLAGS || io_odd(iov, n, &len) ||
	    !unnamed(s, name)) {
		stats_call(s->stat, fd, L5_STATS_IN, flags & ~RECV_FLAGS ?
			   L5_STATS_FLAGS : L5_STATS_ODD);
		sock_done();
		return TO_KERNEL;
	}
	return ring_recv(s, fd, iov, n, len, flags, p);
}

EXPORT ssize_t read(int fd, void *buf, size_t n)
{
	struct pause p;
	ssize_t ret = recv_one(fd, buf, n, 0, NULL, &p);

	THEN(ret, fd, &p, real.read(fd, buf, n));
	return ret;
}

EXPORT ssize_t recv(int fd, void *buf, size_t n, int flags)
{
	struct pause p;
	ssize_t ret = recv_one(fd, buf, n, flags, NULL, &p);

	THEN(ret, fd, &p, real.recv(fd, buf, n, flags));
	return ret;
}

EXPORT ssize_t recvfrom(int fd, void *buf, size_t n, int flags,
			struct sockaddr *from, socklen_t *len)
{
	struct pause p = { .slept = false };
	ssize_t ret = TO_KERNEL;

	if (!from || len)
		ret = recv_one(fd, buf, n, flags, from ? len : NULL, &p);
	if (from && ret > 0)
		*len = 0;
	THEN(ret, fd, &p, real.recvfrom(fd, buf, n, flags, from, len));
	return ret;
}

EXPORT ssize_t readv(int fd, const struct iovec *iov, int n)
{
	struct pause p;
	ssize_t ret = recv_many(fd, iov, n, 0, NULL, &p);

	THEN(ret, fd, &p, real.readv(fd, iov, n));
	return ret;
}

/* Descriptors that came along are new, whatever we thought of the numbers. */
static void received(const struct msghdr *msg)
{
	struct cmsghdr *c;
	size_t i, n;
	int fd;

	if (!msg->msg_control || msg->msg_controllen < sizeof(*c))
		return;
	for (c = CMSG_FIRSTHDR(msg); c;
	     c = CMSG_NXTHDR((struct msghdr *)msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(fd);
		for (i = 0; i < n; i++) {
			memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
			fd_new(fd);
		}
	}
}

EXPORT ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
	struct pause p = { .slept = false };
	ssize_t ret = TO_KERNEL;
	bool simple;

	if (fd_word(fd) == FD_OTHER || !may_be_memory(msg)) {
		ret = real.recvmsg(fd, msg, flags);
		if (ret >= 0)
			received(msg);
		return ret;
	}
	simple = !msg->msg_controllen;
	if (simple && msg->msg_iovlen <= IOV_MAX)
		ret = recv_many(fd, msg->msg_iov, msg->msg_iovlen, flags,
				msg->msg_name ? &msg->msg_namelen : NULL, &p);
	else
		stats_left(fd, L5_STATS_IN, L5_STATS_ADDRESS);
	if (ret >= 0)
		msg->msg_flags = flags & MSG_CMSG_CLOEXEC;
	if (ret >= 0 && msg->msg_name)
		msg->msg_namelen = 0;
	THEN(ret, fd, &p, real.recvmsg(fd, msg, flags));
	if (!simple && ret >= 0)
		received(msg);
	return ret;
}

EXPORT int recvmmsg(int fd, struct mmsghdr *msgs, unsigned int n, int flags,
		    struct timespec *t)
{
	int i, ret = real.recvmmsg(fd, msgs, n, flags, t);

	stats_left(fd, L5_STATS_IN, L5_STATS_MANY);
	for (i = 0; i < ret; i++)
		received(&msgs[i].msg_hdr);
	return ret;
}

/* On a socket the offset has to be -1, and then it is readv(). */

EXPORT ssize_t preadv64v2(int fd, const struct iovec *iov, int n, off64_t off,
			  int flags)
{
	struct pause p = { .slept = false };
	ssize_t ret = TO_KERNEL;

	if (off == -1 && !flags)
		ret = recv_many(fd, iov, n, 0, NULL, &p);
	THEN(ret, fd, &p, real.preadv64v2(fd, iov, n, off, flags));
	return ret;
}

EXPORT ssize_t preadv2(int fd, const struct iovec *iov, int n, off_t off,
		       int flags) __attribute__((alias("preadv64v2")));

/* What read() and recv() are when a program was built with _FORTIFY_SOURCE. */

void __chk_fail(void) __attribute__((noreturn));

EXPORT ssize_t __read_chk(int fd, void *buf, size_t n, size_t size);
EXPORT ssize_t __read_chk(int fd, void *buf, size_t n, size_t size)
{
	if (n > size)
		__chk_fail();
	return read(fd, buf, n);
}

EXPORT ssize_t __recv_chk(int fd, void *buf, size_t n, size_t size, int flags);
EXPORT ssize_t __recv_chk(int fd, void *buf, size_t n, size_t size, int flags)
{
	if (n > size)
		__chk_fail();
	return recv(fd, buf, n, flags);
}

EXPORT ssize_t __recvfrom_chk(int fd, void *buf, size_t n, size_t size,
			      int flags, struct sockaddr *from,
			      socklen_t *len);
EXPORT ssize_t __recvfrom_chk(int fd, void *buf, size_t n, size_t size,
			      int flags, struct sockaddr *from,
			      socklen_t *len)
{
	if (n > size)
		__chk_fail();
	return recvfrom(fd, buf, n, flags, from, len);
}
