/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Connections of libl5 without AF_L5: the rings in a memfd, each end with a
 * socket of its own, which carries nothing. The system calls that the library
 * makes on it come here (-Wl,--wrap=syscall) and are done on the rings, as the
 * kernel would: so a connection sleeps and is woken in earnest, and what a call
 * does without the kernel, and what not, can be counted. For one program, which
 * has the library's sources in it; after kselftest_harness.h.
 */
#ifndef UNIT_KERNEL_H
#define UNIT_KERNEL_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "conn.h"
#include "libl5.h"
#include "native_ends.h"

/* The kernel */

/**
 * struct sock - a socket that the kernel below knows
 * @fd: the descriptor
 * @kern: its rings as the kernel has them: a user beside the library
 */
struct sock {
	int fd;
	struct l5_map *kern;
};

enum { SOCKS = 200 };

static struct sock socks[SOCKS];
static int nsocks;

/*
 * Counts of this thread: calls that move or wait for bytes, sleeps in them,
 * yields
 */
static __thread unsigned int calls, sleeps, yields;

long __real_syscall(long nr, ...);
long __wrap_syscall(long nr, ...);

static inline struct sock *sock_of(int fd)
{
	int i;

	for (i = 0; i < nsocks; i++)
		if (socks[i].fd == fd)
			return &socks[i];
	return NULL;
}

static inline long fails(int err)
{
	errno = err;
	return -1;
}

/* Milliseconds that a call may sleep: -1 for ever, 0 not at all */
static inline int patience(int fd, int opt, int flags)
{
	struct timeval tv = { 0 };
	socklen_t len = sizeof(tv);

	if (flags & MSG_DONTWAIT || fcntl(fd, F_GETFL) & O_NONBLOCK)
		return 0;
	getsockopt(fd, SOL_SOCKET, opt, &tv, &len);
	return tv.tv_sec || tv.tv_usec ?
	       tv.tv_sec * 1000 + tv.tv_usec / 1000 : -1;
}

static inline bool nap(struct l5_map *m, bool rx, int ms)
{
	if (!ms)
		return false;
	sleeps++;
	return rx ? l5_native_sleep_rx(m, ms) : l5_native_sleep_tx(m, ms);
}

/* The array of a message, to be used up. */
struct parts {
	struct iovec v[IOV_MAX];
	int n;
	size_t left;
};

static inline bool parts_init(struct parts *p, const struct iovec *v, size_t n)
{
	p->n = 0;
	p->left = 0;
	if (n > IOV_MAX)
		return false;
	for (; n--; v++) {
		p->left += v->iov_len;
		if (v->iov_len)
			p->v[p->n++] = *v;
	}
	return true;
}

static inline void parts_move(struct parts *p, size_t n)
{
	struct iovec *v = p->v;

	p->left -= n;
	while (p->n && n >= v->iov_len) {
		n -= v->iov_len;
		v++;
		p->n--;
	}
	memmove(p->v, v, p->n * sizeof(*v));
	if (n) {
		p->v[0].iov_base = (uint8_t *)p->v[0].iov_base + n;
		p->v[0].iov_len -= n;
	}
}

static inline long kernel_move(struct sock *s, const struct iovec *v, size_t n,
			       int flags, bool rx)
{
	const int ms = patience(s->fd, rx ? SO_RCVTIMEO : SO_SNDTIMEO, flags);
	const bool all = !rx || (flags & (MSG_WAITALL | MSG_PEEK)) ==
				MSG_WAITALL;
	static __thread struct parts p;
	struct l5_map *m = s->kern;
	size_t done = 0;
	ssize_t got;

	calls++;
	if (!parts_init(&p, v, n))
		return fails(EMSGSIZE);
	if (flags & MSG_OOB)
		return fails(EOPNOTSUPP);
	while (p.left) {
		if (rx)
			got = l5_map_tryrecv(m, s->fd, p.v, p.n, flags &
					     MSG_PEEK ? L5_TRY_PEEK : 0);
		else
			got = l5_map_trysend(m, s->fd, p.v, p.n);
		if (got > 0) {
			parts_move(&p, got);
			done += got;
			if (!all)
				break;
			continue;
		}
		if (got == L5_TRY_AGAIN && nap(m, rx, ms))
			continue;
		if (done || (got == L5_TRY_ASK && rx))
			break;
		return fails(got == L5_TRY_ASK ? EPIPE : -got);
	}
	return done;
}

static inline short kernel_look(const struct pollfd *p, const struct sock *s)
{
	short got = 0;

	if (l5_map_rx_ready(s->kern))
		got |= POLLIN;
	if (l5_map_rx_ask(s->kern))
		got |= POLLRDHUP;
	if (l5_map_tx_ready(s->kern))
		got |= POLLOUT;
	return got & p->events;
}

static inline long kernel_poll(struct pollfd *p, nfds_t n,
			       const struct timespec *t)
{
	uint64_t end = t ? l5_map_now() + t->tv_sec * 1000000000ull +
			   t->tv_nsec : UINT64_MAX, now;
	const bool may = !t || t->tv_sec || t->tv_nsec;
	bool slept = false;
	int ready, ms;
	struct sock *s;
	nfds_t i;

	calls++;
	for (;;) {
		for (ready = 0, i = 0; i < n; i++) {
			s = sock_of(p[i].fd);
			p[i].revents = 0;
			if (s)
				p[i].revents = kernel_look(&p[i], s);
			else if (p[i].fd >= 0)
				poll(&p[i], 1, 0);
			ready += !!p[i].revents;
		}
		if (ready)
			return ready;
		/*
		 * the kernel would sleep, even if the time has passed during
		 * the looks
		 */
		sleeps += may && !slept;
		slept = true;
		now = l5_map_now();
		if (t && now >= end)
			return 0;
		s = sock_of(p[0].fd);
		ms = t ? (int)((end - now) / 1000000) + 1 : -1;
		if (n == 1 && s && p[0].events == POLLIN)
			l5_native_sleep_rx(s->kern, ms);
		else if (n == 1 && s && p[0].events == POLLOUT)
			l5_native_sleep_tx(s->kern, ms);
		else
			usleep(300);
	}
}

/* All arguments are words here; only what has a sixth is asked for it. */
long __wrap_syscall(long nr, ...)
{
	const bool six = nr == SYS_futex || nr == SYS_sendto ||
			 nr == SYS_recvfrom;
	struct msghdr *msg;
	struct iovec v;
	struct sock *s;
	long a[6] = { 0 };
	va_list ap;
	int i;

	va_start(ap, nr);
	for (i = 0; i < 5 + six; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	s = sock_of(a[0]);
	msg = (struct msghdr *)a[1];
	v = (struct iovec){ (void *)a[1], a[2] };
	switch (nr) {
	case SYS_sched_yield:
		yields++;
		break;
	case SYS_ppoll:
		return kernel_poll((struct pollfd *)a[0], a[1],
				   (struct timespec *)a[2]);
	case SYS_sendto:
	case SYS_recvfrom:
		if (s)
			return kernel_move(s, &v, 1, a[3], nr == SYS_recvfrom);
		break;
	case SYS_sendmsg:
	case SYS_recvmsg:
		if (s)
			return kernel_move(s, msg->msg_iov, msg->msg_iovlen,
					   a[2], nr == SYS_recvmsg);
		break;
	}
	return __real_syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* Connections */

/**
 * struct pair - both ends of a connection
 * @k: its memory
 * @m: its maps, as the library has them
 * @fd: the sockets
 * @c: the connections
 */
struct pair {
	struct l5_native *k;
	struct l5_map *m[2];
	int fd[2];
	struct l5_stream *c[2];
};

static inline bool pair_new(struct pair *p)
{
	int i;

	p->k = l5_native_new(SIZE);
	if (!p->k || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p->fd))
		return false;
	for (i = 0; i < 2; i++) {
		struct sock *s = &socks[nsocks++];

		s->fd = p->fd[i];
		s->kern = l5_native_map(p->k, i, 2);
		p->m[i] = l5_native_map(p->k, i, 1);
		if (!s->kern || !p->m[i])
			return false;
		p->c[i] = l5_stream_over(p->fd[i], p->m[i]);
		if (!p->c[i])
			return false;
	}
	return true;
}

static inline void pair_free(struct pair *p)
{
	struct sock *s;
	int i;

	for (i = 0; i < 2; i++) {
		s = sock_of(p->fd[i]);
		l5_unmap(p->c[i]);
		l5_native_unmap(p->m[i]);
		l5_native_unmap(s->kern);
		s->fd = -1;
		close(p->fd[i]);
	}
	l5_native_free(p->k);
}

/* A call of this thread that sleeps at all is one that was not to. */
static inline void count_from_here(void)
{
	calls = 0;
	sleeps = 0;
	yields = 0;
}

static inline bool set_timeout(int fd, int opt, int ms)
{
	struct timeval tv = { ms / 1000, ms % 1000 * 1000 };

	return !setsockopt(fd, SOL_SOCKET, opt, &tv, sizeof(tv));
}

/* A fixture with a connection, whose calls are counted from here. */
#define CONN_FIXTURE(name)						\
	FIXTURE(name) { struct pair p; struct l5_stream *a, *b; };	\
	FIXTURE_SETUP(name)						\
	{								\
		/* a test that hangs ends with the program */		\
		prctl(PR_SET_PDEATHSIG, SIGKILL);			\
		ASSERT_TRUE(pair_new(&self->p));			\
		self->a = self->p.c[0];					\
		self->b = self->p.c[1];					\
		ASSERT_TRUE(l5_stream_mapped(self->a));			\
		ASSERT_TRUE(l5_stream_mapped(self->b));			\
		EXPECT_EQ(self->p.fd[0], l5_stream_fd(self->a));	\
		EXPECT_EQ(-1, l5_stream_mailbox(self->a));		\
		count_from_here();					\
	}								\
	FIXTURE_TEARDOWN(name)						\
	{								\
		pair_free(&self->p);					\
	}

#endif /* UNIT_KERNEL_H */
