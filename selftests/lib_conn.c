// SPDX-License-Identifier: GPL-2.0
/*
 * The public functions of libl5 over mapped rings, without AF_L5: the rings in
 * a memfd, each end with a socket of its own, which carries nothing. The system
 * calls that the library makes on it come here (-Wl,--wrap=syscall) and are
 * done on the rings, as the kernel would: so a connection sleeps and is woken
 * in earnest, and what a call does without the kernel, and what not, can be
 * counted. Built with the library's sources, also for sanitizers and valgrind.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "conn.h"
#include "libl5.h"
#include "native_ends.h"

/* The kernel */

/**
 * struct sock - a socket that the kernel below knows
 * @fd: the descriptor
 * @kern: its rings as the kernel has them, another user beside the library
 */
struct sock {
	int fd;
	struct l5_map *kern;
};

enum { SOCKS = 200 };

static struct sock socks[SOCKS];
static int nsocks;

/* Of this thread: calls that move or wait for bytes, sleeps in them, yields */
static __thread unsigned int calls, sleeps, yields;

long __real_syscall(long nr, ...);
long __wrap_syscall(long nr, ...);

static struct sock *sock_of(int fd)
{
	int i;

	for (i = 0; i < nsocks; i++)
		if (socks[i].fd == fd)
			return &socks[i];
	return NULL;
}

static long fails(int err)
{
	errno = err;
	return -1;
}

/* Milliseconds that a call may sleep: -1 for ever, 0 not at all */
static int patience(int fd, int opt, int flags)
{
	struct timeval tv = { 0 };
	socklen_t len = sizeof(tv);

	if (flags & MSG_DONTWAIT || fcntl(fd, F_GETFL) & O_NONBLOCK)
		return 0;
	getsockopt(fd, SOL_SOCKET, opt, &tv, &len);
	return tv.tv_sec || tv.tv_usec ?
	       tv.tv_sec * 1000 + tv.tv_usec / 1000 : -1;
}

static bool nap(struct l5_map *m, bool rx, int ms)
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

static bool parts_init(struct parts *p, const struct iovec *v, size_t n)
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

static void parts_move(struct parts *p, size_t n)
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

static long kernel_move(struct sock *s, const struct iovec *v, size_t n,
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

static short kernel_look(const struct pollfd *p, const struct sock *s)
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

static long kernel_poll(struct pollfd *p, nfds_t n, const struct timespec *t)
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
		/* it would, even if its time has passed while it looked */
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
 * struct pair - both ends of one
 * @k: its memory
 * @m: as the library has it
 * @fd: the sockets
 * @c: the connections
 */
struct pair {
	struct l5_native *k;
	struct l5_map *m[2];
	int fd[2];
	struct l5_conn *c[2];
};

static bool pair_new(struct pair *p)
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
		p->c[i] = l5_conn_over(p->fd[i], p->m[i]);
		if (!p->c[i])
			return false;
	}
	return true;
}

static void pair_free(struct pair *p)
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
static void count_from_here(void)
{
	calls = 0;
	sleeps = 0;
	yields = 0;
}

static bool set_timeout(int fd, int opt, int ms)
{
	struct timeval tv = { ms / 1000, ms % 1000 * 1000 };

	return !setsockopt(fd, SOL_SOCKET, opt, &tv, sizeof(tv));
}

FIXTURE(conn)
{
	struct pair p;
	struct l5_conn *a, *b;
};

FIXTURE_SETUP(conn)
{
	/* who hangs ends with the program */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	ASSERT_TRUE(pair_new(&self->p));
	self->a = self->p.c[0];
	self->b = self->p.c[1];
	ASSERT_TRUE(l5_conn_mapped(self->a));
	ASSERT_TRUE(l5_conn_mapped(self->b));
	EXPECT_EQ(self->p.fd[0], l5_conn_fd(self->a));
	EXPECT_EQ(-1, l5_conn_mailbox(self->a));
	count_from_here();
}

FIXTURE_TEARDOWN(conn)
{
	pair_free(&self->p);
}

/* Bytes */

/* Send @len and receive them; buffers of just that size, for the sanitizers. */
static bool exact(struct l5_conn *from, struct l5_conn *to, size_t len,
		  size_t more, uint64_t at)
{
	uint8_t *out = malloc(len), *in = malloc(len + more);
	bool ok;

	fill(out, len, at);
	memset(in, 0x5a, len + more);
	ok = l5_send(from, out, len, 0) == (ssize_t)len &&
	     l5_recv(to, in, len + more, 0) == (ssize_t)len &&
	     !wrong(in, len, at);
	while (more--)
		ok &= in[len + more] == 0x5a;
	free(out);
	free(in);
	return ok;
}

/* Each size, at each place of the ring sooner or later; no system call. */
TEST_F_TIMEOUT(conn, sizes, 300)
{
	const size_t turns = 1 + 40 / slow();
	size_t len, turn;

	for (turn = 0; turn < turns; turn++) {
		for (len = 1; len <= 300; len++) {
			ASSERT_TRUE(exact(self->a, self->b, len, 0, turn));
			ASSERT_TRUE(exact(self->b, self->a, len, turn, len));
		}
		for (len = 301; len < SIZE - 16; len = len * 9 / 8)
			ASSERT_TRUE(exact(self->a, self->b, len + turn % 8, 9,
					  turn));
	}
	EXPECT_EQ(0, calls);
	/* none at all is for the kernel to judge */
	EXPECT_EQ(0, l5_send(self->a, NULL, 0, 0));
	EXPECT_EQ(0, l5_recv(self->b, NULL, 0, 0));
	EXPECT_EQ(2, calls);
}

TEST_F(conn, pieces)
{
	char buf[64] = "";

	EXPECT_EQ(10, l5_send(self->a, "0123456789", 10, 0));
	EXPECT_EQ(3, l5_send(self->a, "abc", 3, MSG_MORE));
	/* less than a record, the rest and more, and no more than there is */
	EXPECT_EQ(4, l5_recv(self->b, buf, 4, 0));
	EXPECT_EQ(0, memcmp(buf, "0123", 4));
	EXPECT_EQ(9, l5_recv(self->b, buf, sizeof(buf), 0));
	EXPECT_EQ(0, memcmp(buf, "456789abc", 9));

	EXPECT_EQ(5, l5_send(self->a, "peek!", 5, 0));
	EXPECT_EQ(5, l5_send(self->a, "again", 5, MSG_NOSIGNAL));
	EXPECT_EQ(2, l5_recv(self->b, buf, 2, MSG_PEEK));
	EXPECT_EQ(0, memcmp(buf, "pe", 2));
	EXPECT_EQ(10, l5_recv(self->b, buf, sizeof(buf), MSG_PEEK));
	EXPECT_EQ(0, memcmp(buf, "peek!again", 10));
	EXPECT_EQ(7, l5_recv(self->b, buf, 7, MSG_WAITALL));
	EXPECT_EQ(3, l5_recv(self->b, buf, 7, MSG_PEEK | MSG_DONTWAIT));
	EXPECT_EQ(0, memcmp(buf, "ain", 3));
	EXPECT_EQ(0, calls);
	/* which the rings cannot do, and bytes that only the kernel knows */
	EXPECT_EQ(3, l5_recv(self->b, buf, 3, MSG_PEEK | MSG_WAITALL));
	EXPECT_EQ(0, memcmp(buf, "ain", 3));
	EXPECT_EQ(-1, l5_recv(self->b, buf, 3, MSG_OOB));
	EXPECT_EQ(EOPNOTSUPP, errno);
	EXPECT_EQ(-1, l5_send(self->a, buf, 3, MSG_OOB));
	EXPECT_EQ(EOPNOTSUPP, errno);
	EXPECT_EQ(3, calls);
	EXPECT_EQ(3, l5_recv(self->b, buf, 7, MSG_WAITALL | MSG_DONTWAIT));
	EXPECT_EQ(3, calls);
}

TEST_F_TIMEOUT(conn, vectors, 200)
{
	static struct iovec many[IOV_MAX + 1];
	const int turns = 20000 / slow();
	uint64_t seed = 7, at = 0;
	uint8_t *out, *in;
	struct iovec v[9];
	size_t len;
	int i, n;

	for (i = 0; i < turns; i++) {
		len = 1 + l5_rnd(&seed) % (i % 4 ? 200 : SIZE / 2);
		out = malloc(len);
		in = malloc(len);
		fill(out, len, at);
		n = cut(v, 9, out, len, &seed);
		ASSERT_EQ((ssize_t)len, l5_sendv(self->a, v, n, 0));
		/* in two, the first of them only looked at */
		n = cut(v, 9, in, len, &seed);
		ASSERT_EQ((ssize_t)len, l5_recvv(self->b, v, n, MSG_PEEK));
		ASSERT_EQ(0, wrong(in, len, at));
		memset(in, 0, len);
		n = cut(v, 9, in, len, &seed);
		ASSERT_EQ((ssize_t)len, l5_recvv(self->b, v, n, 0));
		ASSERT_EQ(0, wrong(in, len, at));
		free(out);
		free(in);
		at += len;
	}
	/* all the buffers there may be */
	out = malloc(IOV_MAX);
	in = malloc(IOV_MAX);
	fill(out, IOV_MAX, at);
	for (i = 0; i <= IOV_MAX; i++)
		many[i] = (struct iovec){ out + i, 1 };
	ASSERT_EQ(IOV_MAX, l5_sendv(self->a, many, IOV_MAX, 0));
	for (i = 0; i <= IOV_MAX; i++)
		many[i].iov_base = in + i;
	ASSERT_EQ(IOV_MAX, l5_recvv(self->b, many, IOV_MAX, MSG_WAITALL));
	EXPECT_EQ(0, wrong(in, IOV_MAX, at));
	EXPECT_EQ(0, calls);
	/* more, none, and nothing in them: for the kernel to judge */
	EXPECT_EQ(-1, l5_sendv(self->a, many, IOV_MAX + 1, 0));
	EXPECT_EQ(EMSGSIZE, errno);
	EXPECT_EQ(-1, l5_recvv(self->b, many, IOV_MAX + 1, 0));
	EXPECT_EQ(EMSGSIZE, errno);
	EXPECT_EQ(-1, l5_sendv(self->a, many, -1, 0));
	EXPECT_EQ(EMSGSIZE, errno);
	EXPECT_EQ(0, l5_sendv(self->a, many, 0, 0));
	many[0].iov_len = 0;
	EXPECT_EQ(0, l5_recvv(self->b, many, 1, 0));
	EXPECT_EQ(5, calls);
	free(out);
	free(in);
}

/* What the calls that do not wait say of a ring that is empty, or full. */
TEST_F(conn, nonblocking)
{
	uint8_t *big = malloc(4 * SIZE), buf[100];
	struct iovec v = { buf, sizeof(buf) };
	size_t sent = 0, got = 0;
	const void *q;
	ssize_t n;
	void *p;
	int i;

	fill(big, 4 * SIZE, 0);
	for (i = 0; i < 2; i++) {
		const int flags = i ? 0 : MSG_DONTWAIT;

		EXPECT_EQ(0, l5_set_nonblock(self->a, i));
		EXPECT_EQ(0, l5_set_nonblock(self->b, i));
		EXPECT_EQ(i ? O_NONBLOCK : 0,
			  fcntl(self->p.fd[0], F_GETFL) & O_NONBLOCK);
		count_from_here();
		EXPECT_EQ(-1, l5_recv(self->b, buf, 1, flags));
		EXPECT_EQ(EAGAIN, errno);
		EXPECT_EQ(-1, l5_recv(self->b, buf, 1, flags | MSG_PEEK));
		EXPECT_EQ(EAGAIN, errno);
		EXPECT_EQ(-1, l5_recv(self->b, buf, 1, flags | MSG_WAITALL));
		EXPECT_EQ(EAGAIN, errno);
		EXPECT_EQ(-1, l5_recvv(self->b, &v, 1, flags));
		EXPECT_EQ(EAGAIN, errno);
		EXPECT_EQ(-1, l5_peek(self->b, &q, flags));
		EXPECT_EQ(EAGAIN, errno);
		EXPECT_EQ(0, calls);

		/* so much as there is room for, then nothing */
		n = l5_send(self->a, big + sent, 4 * SIZE - sent, flags);
		ASSERT_LT(SIZE / 2, n);
		ASSERT_GT(SIZE, n);
		sent += n;
		while ((n = l5_send(self->a, big + sent, 1, flags)) > 0)
			sent += n;
		EXPECT_EQ(EAGAIN, errno);
		/* who is told so has asked the kernel, which will wake it */
		count_from_here();
		EXPECT_EQ(-1, l5_sendv(self->a, &v, 1, flags));
		EXPECT_EQ(EAGAIN, errno);
		EXPECT_EQ(1, calls);
		EXPECT_EQ(-1, l5_reserve(self->a, &p, 100, flags));
		EXPECT_EQ(EAGAIN, errno);
		EXPECT_EQ(0, l5_wait(self->a, POLLOUT, 0));
		EXPECT_EQ(POLLIN, l5_wait(self->b, POLLIN, 0));
		EXPECT_EQ(0, sleeps);

		while ((n = l5_recv(self->b, buf, 77, flags)) > 0) {
			ASSERT_EQ(0, wrong(buf, n, got));
			got += n;
		}
		EXPECT_EQ(EAGAIN, errno);
		EXPECT_EQ(sent, got);
		EXPECT_EQ(POLLOUT, l5_wait(self->a, POLLIN | POLLOUT, 0));
		EXPECT_EQ(0, l5_wait(self->b, POLLIN, 0));
	}
	/* it needs the socket to be one */
	close(self->p.fd[0]);
	EXPECT_EQ(-1, l5_set_nonblock(self->a, true));
	EXPECT_EQ(EBADF, errno);
	self->p.fd[0] = sock_of(self->p.fd[0])->fd = dup(self->p.fd[1]);
	free(big);
}

/* Zero copy */

static ssize_t put(struct l5_conn *c, size_t want, size_t len, uint64_t at)
{
	ssize_t n;
	void *p;

	n = l5_reserve(c, &p, want, MSG_DONTWAIT);
	if (n <= 0)
		return n;
	if ((size_t)n < len)
		len = n;
	fill(p, len, at);
	return l5_commit(c, len);
}

TEST_F_TIMEOUT(conn, zero_copy, 200)
{
	const int turns = 50000 / slow();
	uint64_t sent = 0, got = 0, seed = 3;
	uint8_t buf[64];
	const void *q;
	ssize_t n;
	void *p;
	int i;

	EXPECT_EQ(-1, l5_reserve(self->a, &p, 0, 0));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, l5_reserve(self->a, &p, 1, MSG_OOB));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, l5_peek(self->b, &q, MSG_PEEK));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, l5_commit(self->a, 0));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, l5_release(self->b, 0));
	EXPECT_EQ(EINVAL, errno);

	/* never more than half; too much is refused, and all goes on */
	n = l5_reserve(self->a, &p, 10 * SIZE, MSG_NOSIGNAL);
	EXPECT_EQ(SIZE / 2, n);
	EXPECT_EQ(-1, l5_commit(self->a, n + 1));
	EXPECT_EQ(EINVAL, errno);
	/* this thread has the direction, and nobody else; not the other one */
	EXPECT_EQ(-1, l5_send(self->a, "x", 1, 0));
	EXPECT_EQ(EDEADLK, errno);
	EXPECT_EQ(-1, l5_reserve(self->a, &p, 1, 0));
	EXPECT_EQ(EDEADLK, errno);
	EXPECT_EQ(1, l5_send(self->b, "y", 1, 0));
	EXPECT_EQ(1, l5_recv(self->a, buf, 1, 0));
	memcpy(p, "partly", 6);
	EXPECT_EQ(6, l5_commit(self->a, 6));
	EXPECT_EQ(-1, l5_commit(self->a, 0));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(5, l5_reserve(self->a, &p, 5, 0));
	EXPECT_EQ(0, l5_commit(self->a, 0));

	EXPECT_EQ(6, l5_peek(self->b, &q, 0));
	EXPECT_EQ(0, memcmp(q, "partly", 6));
	EXPECT_EQ(-1, l5_release(self->b, 7));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, l5_recv(self->b, buf, 1, 0));
	EXPECT_EQ(EDEADLK, errno);
	EXPECT_EQ(-1, l5_peek(self->b, &q, MSG_DONTWAIT));
	EXPECT_EQ(EDEADLK, errno);
	EXPECT_EQ(0, l5_release(self->b, 0));
	EXPECT_EQ(6, l5_peek(self->b, &q, 0));
	EXPECT_EQ(0, l5_release(self->b, 4));
	EXPECT_EQ(2, l5_peek(self->b, &q, 0));
	EXPECT_EQ(0, memcmp(q, "ly", 2));
	EXPECT_EQ(0, l5_release(self->b, 2));
	EXPECT_EQ(-1, l5_peek(self->b, &q, MSG_DONTWAIT));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_EQ(0, calls);

	/* at every place, what is taken in other pieces than it came in */
	for (i = 0; i < turns; i++) {
		size_t want = 1 + l5_rnd(&seed) % 600;

		n = 1;
		while (n > 0 && sent - got < SIZE / 4) {
			n = put(self->a, want, 1 + l5_rnd(&seed) % want, sent);
			sent += n > 0 ? n : 0;
		}
		/* the ring may be full of small ones */
		ASSERT_TRUE(n > 0 || errno == EAGAIN);
		n = l5_peek(self->b, &q, 0);
		ASSERT_LT(0, n);
		ASSERT_EQ(0, wrong(q, n, got));
		n = l5_rnd(&seed) % (n + 1);
		ASSERT_EQ(0, l5_release(self->b, n));
		got += n;
		if (l5_rnd(&seed) % 4 || sent == got)
			continue;
		n = l5_recv(self->b, buf, sizeof(buf), 0);
		ASSERT_LT(0, n);
		ASSERT_EQ(0, wrong(buf, n, got));
		got += n;
	}
	EXPECT_EQ(0, calls);
}

static void *send_two(void *arg)
{
	return l5_send(arg, "two", 3, 0) == 3 ? NULL : arg;
}

static void *recv_two(void *arg)
{
	char buf[3];

	return l5_recv(arg, buf, 3, 0) == 3 && !memcmp(buf, "two", 3) ? NULL :
	       arg;
}

/* Another thread has to wait until the second call of a pair. */
TEST_F(conn, kept_from_others)
{
	const void *q;
	pthread_t t;
	char buf[6];
	void *bad;
	void *p;

	ASSERT_EQ(3, l5_reserve(self->a, &p, 3, 0));
	ASSERT_EQ(0, pthread_create(&t, NULL, send_two, self->a));
	usleep(20000);
	EXPECT_EQ(0, l5_wait(self->b, POLLIN, 0));
	memcpy(p, "one", 3);
	ASSERT_EQ(3, l5_commit(self->a, 3));
	ASSERT_EQ(0, pthread_join(t, &bad));
	EXPECT_EQ(NULL, bad);
	ASSERT_EQ(6, l5_recv(self->b, buf, 6, MSG_WAITALL));
	EXPECT_EQ(0, memcmp(buf, "onetwo", 6));

	ASSERT_EQ(3, l5_send(self->a, "one", 3, 0));
	ASSERT_EQ(3, l5_send(self->a, "two", 3, 0));
	ASSERT_EQ(3, l5_peek(self->b, &q, 0));
	ASSERT_EQ(0, pthread_create(&t, NULL, recv_two, self->b));
	usleep(20000);
	EXPECT_EQ(0, memcmp(q, "one", 3));
	ASSERT_EQ(0, l5_release(self->b, 3));
	ASSERT_EQ(0, pthread_join(t, &bad));
	EXPECT_EQ(NULL, bad);
}

/* Streams */

/* Each way to send or receive the next bytes; the last ones do not wait. */
enum { WAYS = 6 };

static ssize_t send_way(struct l5_conn *c, int way, uint8_t *buf, size_t n,
			uint64_t *seed)
{
	struct iovec v[9];
	ssize_t got;
	void *p;

	switch (way) {
	case 0:
		return l5_send(c, buf, n, 0);
	case 1:
		return l5_sendv(c, v, cut(v, 9, buf, n, seed), MSG_NOSIGNAL);
	case 2:
		got = l5_reserve(c, &p, n, 0);
		if (got <= 0)
			return got;
		memcpy(p, buf, got);
		return l5_commit(c, got);
	case 3:
		/* somebody else's turn, and nothing comes of it */
		if (l5_reserve(c, &p, n, 0) <= 0 || l5_commit(c, 0))
			return -1;
		return l5_send(c, buf, n, MSG_MORE);
	case 4:
		got = l5_reserve(c, &p, n, MSG_DONTWAIT);
		if (got <= 0)
			return got;
		got = 1 + l5_rnd(seed) % got;
		memcpy(p, buf, got);
		return l5_commit(c, got);
	default:
		return l5_sendv(c, v, cut(v, 9, buf, n, seed), MSG_DONTWAIT);
	}
}

static ssize_t recv_way(struct l5_conn *c, int way, uint8_t *buf, size_t n,
			uint64_t *seed)
{
	struct iovec v[9];
	const void *p;
	ssize_t got;

	switch (way) {
	case 0:
		return l5_recv(c, buf, n, 0);
	case 1:
		return l5_recvv(c, v, cut(v, 9, buf, n, seed), 0);
	case 2:
		got = l5_peek(c, &p, 0);
		if (got <= 0)
			return got;
		if ((size_t)got > n)
			got = n;
		memcpy(buf, p, got);
		return l5_release(c, got) ? -1 : got;
	case 3:
		got = l5_recv(c, buf, n, MSG_PEEK);
		if (got <= 0)
			return got;
		memset(buf, 0, got);
		return l5_recvv(c, v, cut(v, 9, buf, got, seed), MSG_WAITALL);
	case 4:
		got = l5_peek(c, &p, MSG_DONTWAIT);
		if (got <= 0)
			return got;
		got = 1 + l5_rnd(seed) % got;
		if ((size_t)got > n)
			got = n;
		memcpy(buf, p, got);
		return l5_release(c, got) ? -1 : got;
	default:
		return l5_recvv(c, v, cut(v, 9, buf, n, seed), MSG_DONTWAIT);
	}
}

struct stream {
	struct l5_conn *c;
	uint64_t total;
	uint64_t seed;
	bool sends;
	uint64_t bad;
};

static void *stream_run(void *arg)
{
	struct stream *s = arg;
	uint64_t at = 0;
	uint8_t *buf;
	size_t len;
	ssize_t n;
	int way;

	while (at < s->total && !s->bad) {
		len = 1 + l5_rnd(&s->seed) % (l5_rnd(&s->seed) % 8 ? 300 :
							     2 * SIZE);
		if (len > s->total - at)
			len = s->total - at;
		way = l5_rnd(&s->seed) % WAYS;
		buf = malloc(len);
		if (s->sends) {
			fill(buf, len, at);
			n = send_way(s->c, way, buf, len, &s->seed);
		} else {
			n = recv_way(s->c, way, buf, len, &s->seed);
			s->bad += n > 0 && wrong(buf, n, at);
		}
		free(buf);
		if (n > 0)
			at += n;
		else if (n < 0 && errno == EAGAIN)
			s->bad += l5_wait(s->c, s->sends ? POLLOUT : POLLIN,
					  -1) <= 0;
		else
			s->bad++;
	}
	return NULL;
}

/* All ways at once in both directions, until ring and wake-ups have met. */
TEST_F_TIMEOUT(conn, streams, 300)
{
	const uint64_t total = (32 << 20) / slow();
	struct stream s[4] = {
		{ .c = self->a, .total = total, .seed = 1, .sends = true },
		{ .c = self->b, .total = total, .seed = 2 },
		{ .c = self->b, .total = total / 2, .seed = 3, .sends = true },
		{ .c = self->a, .total = total / 2, .seed = 4 },
	};
	pthread_t t[4];
	int i;

	for (i = 0; i < 4; i++)
		ASSERT_EQ(0, pthread_create(&t[i], NULL, stream_run, &s[i]));
	for (i = 0; i < 4; i++) {
		ASSERT_EQ(0, pthread_join(t[i], NULL));
		EXPECT_EQ(0, s[i].bad);
	}
	EXPECT_EQ(0, l5_wait(self->a, POLLIN, 0));
	EXPECT_EQ(0, l5_wait(self->b, POLLIN, 0));
}

/* Two that send and two that receive, each way: whole notes come, in order. */
struct crowd {
	struct l5_conn *c;
	uint32_t who;
	uint32_t count;
	bool sends;
	uint32_t next[2];
	uint32_t bad;
};

static bool note_send(struct l5_conn *c, struct note *n, int way)
{
	struct iovec v[2] = { { n, 11 }, { (uint8_t *)n + 11, 53 } };
	ssize_t got;
	void *p;

	if (way == 1)
		return l5_sendv(c, v, 2, 0) == sizeof(*n);
	if (way == 2) {
		got = l5_reserve(c, &p, sizeof(*n), 0);
		if (got == sizeof(*n))
			memcpy(p, n, sizeof(*n));
		else if (got > 0)
			/* where the ring is mapped but once, at its end */
			got = 0;
		if (got < 0 || l5_commit(c, got) != got)
			return false;
		if (got)
			return true;
	}
	return l5_send(c, n, sizeof(*n), 0) == sizeof(*n);
}

static bool note_recv(struct l5_conn *c, struct note *n, int way)
{
	struct iovec v[2] = { { n, 11 }, { (uint8_t *)n + 11, 53 } };
	const void *p;
	ssize_t got;

	if (way == 1)
		return l5_recvv(c, v, 2, 0) == sizeof(*n);
	if (way == 2) {
		got = l5_peek(c, &p, 0);
		if (got == sizeof(*n))
			memcpy(n, p, sizeof(*n));
		else if (got > 0)
			got = 0;
		if (got < 0 || l5_release(c, got))
			return false;
		if (got)
			return true;
	}
	return l5_recv(c, n, sizeof(*n), 0) == sizeof(*n);
}

static void *crowd_run(void *arg)
{
	struct crowd *w = arg;
	struct note n;
	uint32_t i;

	for (i = 0; i < w->count && !w->bad; i++) {
		if (w->sends) {
			n.who = w->who;
			n.n = i;
			memset(n.body, w->who * 100 + i, sizeof(n.body));
			w->bad += !note_send(w->c, &n, i % 3);
			continue;
		}
		if (!note_recv(w->c, &n, (i + w->who) % 3) || n.who > 1 ||
		    n.n < w->next[n.who]) {
			w->bad++;
			break;
		}
		w->next[n.who] = n.n + 1;
		w->bad += n.body[0] != (uint8_t)(n.who * 100 + n.n) ||
			  memcmp(n.body, n.body + 1, sizeof(n.body) - 1);
	}
	return NULL;
}

TEST_F_TIMEOUT(conn, crowd, 300)
{
	const uint32_t count = 100000 / slow();
	struct crowd w[8];
	pthread_t t[8];
	int i;

	for (i = 0; i < 8; i++) {
		w[i] = (struct crowd){
			.c = self->p.c[!!(i & 4) ^ !(i & 2)], .who = i & 1,
			.count = count, .sends = i & 2,
		};
		ASSERT_EQ(0, pthread_create(&t[i], NULL, crowd_run, &w[i]));
	}
	for (i = 0; i < 8; i++) {
		ASSERT_EQ(0, pthread_join(t[i], NULL));
		EXPECT_EQ(0, w[i].bad);
	}
	EXPECT_EQ(0, l5_wait(self->a, POLLIN, 0));
	EXPECT_EQ(0, l5_wait(self->b, POLLIN, 0));
}

static void *send_slowly(void *arg)
{
	int i;

	for (i = 0; i < 10; i++) {
		usleep(2000);
		if (l5_send(arg, "0123456789" + i, 1, 0) != 1)
			return arg;
	}
	return NULL;
}

/* MSG_WAITALL gets all of it, by as many sleeps as it takes. */
TEST_F(conn, waitall)
{
	char buf[11] = "";
	pthread_t t;
	void *bad;

	ASSERT_EQ(0, pthread_create(&t, NULL, send_slowly, self->a));
	EXPECT_EQ(10, l5_recv(self->b, buf, 10, MSG_WAITALL));
	EXPECT_STREQ("0123456789", buf);
	ASSERT_EQ(0, pthread_join(t, &bad));
	EXPECT_EQ(NULL, bad);

	/* what is there by the end of the time, then nothing is an error */
	ASSERT_TRUE(set_timeout(self->p.fd[1], SO_RCVTIMEO, 20));
	EXPECT_EQ(3, l5_send(self->a, "abc", 3, 0));
	EXPECT_EQ(3, l5_recv(self->b, buf, 10, MSG_WAITALL));
	EXPECT_EQ(-1, l5_recv(self->b, buf, 10, MSG_WAITALL));
	EXPECT_EQ(EAGAIN, errno);
}

/* A call that sleeps does so for the socket's time, and says so. */
TEST_F(conn, timeouts)
{
	uint8_t *big = calloc(1, 2 * SIZE);
	const void *q;
	char buf[8];
	ssize_t n;
	void *p;

	ASSERT_TRUE(set_timeout(self->p.fd[1], SO_RCVTIMEO, 20));
	ASSERT_TRUE(set_timeout(self->p.fd[0], SO_SNDTIMEO, 20));
	EXPECT_EQ(-1, l5_recv(self->b, buf, 8, 0));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_EQ(-1, l5_recv(self->b, buf, 8, MSG_PEEK));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_EQ(-1, l5_peek(self->b, &q, 0));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_EQ(3, sleeps);
	n = l5_send(self->a, big, 2 * SIZE, 0);
	EXPECT_LT(SIZE / 2, n);
	EXPECT_GT(SIZE, n);
	EXPECT_EQ(-1, l5_send(self->a, big, SIZE, 0));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_EQ(-1, l5_reserve(self->a, &p, SIZE, 0));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_EQ(0, l5_wait(self->a, POLLOUT, 500));
	EXPECT_EQ(7, sleeps);
	free(big);
}

/* The end */

TEST_F(conn, end)
{
	struct l5_event e = { self->b, POLLIN | POLLRDHUP, 0 };
	const void *q;
	char buf[8];
	void *p;

	EXPECT_EQ(3, l5_send(self->a, "end", 3, 0));
	l5_native_flag(self->p.k, 1, L5_MAP_RX_ASK);
	l5_native_flag(self->p.k, 0, L5_MAP_TX_ASK);
	/* first what came before */
	EXPECT_EQ(1, l5_wait_any(&e, 1, -1));
	EXPECT_EQ(POLLIN | POLLRDHUP, e.revents);
	EXPECT_EQ(2, l5_recv(self->b, buf, 2, 0));
	EXPECT_EQ(1, l5_peek(self->b, &q, 0));
	EXPECT_EQ(0, l5_release(self->b, 1));
	EXPECT_EQ(0, l5_recv(self->b, buf, 8, 0));
	EXPECT_EQ(0, l5_recv(self->b, buf, 8, MSG_PEEK));
	EXPECT_EQ(0, l5_recv(self->b, buf, 8, MSG_WAITALL | MSG_DONTWAIT));
	EXPECT_EQ(0, l5_peek(self->b, &q, 0));
	EXPECT_EQ(-1, l5_release(self->b, 0));
	EXPECT_EQ(EINVAL, errno);
	/* the peer's: of reserved memory the commit hears */
	EXPECT_EQ(-1, l5_send(self->a, "x", 1, MSG_NOSIGNAL));
	EXPECT_EQ(EPIPE, errno);
	EXPECT_EQ(1, l5_reserve(self->a, &p, 1, MSG_NOSIGNAL));
	EXPECT_EQ(-1, l5_commit(self->a, 1));
	EXPECT_EQ(EPIPE, errno);
	EXPECT_EQ(64 << 10, l5_reserve(self->a, &p, 1 << 20, MSG_NOSIGNAL));
	EXPECT_EQ(0, l5_commit(self->a, 0));
	EXPECT_EQ(0, sleeps);
	/* the other direction goes on */
	EXPECT_EQ(2, l5_send(self->b, "on", 2, 0));
	EXPECT_EQ(2, l5_recv(self->a, buf, 8, 0));
}

static void *recv_end(void *arg)
{
	char c;

	return l5_recv(arg, &c, 1, 0) ? arg : NULL;
}

TEST_F(conn, end_wakes)
{
	pthread_t t;
	void *bad;

	ASSERT_EQ(0, pthread_create(&t, NULL, recv_end, self->b));
	usleep(20000);
	l5_native_flag(self->p.k, 1, L5_MAP_RX_ASK);
	ASSERT_EQ(0, pthread_join(t, &bad));
	EXPECT_EQ(NULL, bad);
}

/* A peer that does not keep to the rules. */
TEST_F(conn, broken)
{
	const void *q;
	char buf[8];
	void *p;

	l5_store((__u64 *)self->p.k->data[0], ~0ull);
	EXPECT_EQ(-1, l5_recv(self->b, buf, 8, 0));
	EXPECT_EQ(EPROTO, errno);
	l5_store(&self->p.k->ctrl[0]->rx_head, 1ull << 40);
	EXPECT_EQ(-1, l5_peek(self->b, &q, 0));
	EXPECT_EQ(EPROTO, errno);
	/* it was ended for that, and nobody gets more than a system call */
	EXPECT_EQ(-1, l5_send(self->b, "x", 1, MSG_NOSIGNAL));
	EXPECT_EQ(EPIPE, errno);
	EXPECT_EQ(1, l5_reserve(self->b, &p, 1, 0));
	EXPECT_EQ(-1, l5_commit(self->b, 1));
	EXPECT_EQ(EPIPE, errno);
}

/* Waiting */

struct later {
	struct pair *p;
	bool asleep;
};

static void *send_later(void *arg)
{
	struct later *l = arg;
	uint32_t *word = &l->p->k->ctrl[1]->rx_wait;
	int i;

	usleep(20000);
	/* who is to sleep does so by then */
	for (i = 0; l->asleep && i < 20000 && !l5_load(word); i++)
		usleep(1000);
	return l5_send(l->p->c[0], "!", 1, 0) == 1 ? NULL : arg;
}

/*
 * Another thread sends a byte while end 1 waits as it was told, @asleep in the
 * end; -1 if not so.
 */
static int wait_while(struct pair *p, bool any, bool asleep)
{
	struct later l = { p, asleep };
	struct l5_conn *c = p->c[1];
	pthread_t t;
	void *bad;
	char ch;

	count_from_here();
	/* a sleep that timed out leaves it set */
	l5_store(&p->k->ctrl[1]->rx_wait, 0);
	if (pthread_create(&t, NULL, send_later, &l))
		return -1;
	if (any && l5_wait(c, POLLIN, -1) != POLLIN)
		return -1;
	if (l5_recv(c, &ch, 1, 0) != 1 || ch != '!')
		return -1;
	if (pthread_join(t, &bad) || bad)
		return -1;
	return sleeps;
}

/* One receive in vain: how often it yields before it sleeps */
static int yields_of(struct l5_conn *c)
{
	char ch;

	count_from_here();
	if (l5_recv(c, &ch, 1, 0) != -1 || errno != EAGAIN || sleeps != 1)
		return -1;
	return yields;
}

static int yields_waiting(struct l5_conn *c)
{
	count_from_here();
	return l5_wait(c, POLLIN, 2000) || sleeps != 1 ? -1 : (int)yields;
}

/* Thresholds say how often it yields, and whether it sleeps at all. */
TEST_F_TIMEOUT(conn, set_wait, 200)
{
	static const struct { int spin_us, yields, want; } told[] = {
		{ 0, 0, 0 }, { 0, 1, 1 }, { 0, 7, 7 }, { 0, -1, 0 },
		{ 10, -1, 0 }, { 10, 3, 3 }, { 1, 0, 0 }, { -1, -1, 0 },
		{ -5, -5, 0 },
	};
	unsigned int i;

	ASSERT_TRUE(set_timeout(self->p.fd[1], SO_RCVTIMEO, 10));
	for (i = 0; i < sizeof(told) / sizeof(*told); i++) {
		l5_set_wait(self->b, told[i].spin_us, told[i].yields);
		EXPECT_EQ(told[i].want, yields_of(self->b)) TH_LOG("%u", i);
	}
	/* time enough that a crowded machine does not end it */
	l5_set_wait(self->b, 0, 7);
	EXPECT_EQ(7, yields_waiting(self->b));
	ASSERT_TRUE(set_timeout(self->p.fd[1], SO_RCVTIMEO, 0));
	l5_set_wait(self->b, 0, 0);
	EXPECT_EQ(1, wait_while(&self->p, false, true));
	EXPECT_EQ(1, wait_while(&self->p, true, true));
	l5_set_wait(self->b, 100000000, 0);
	EXPECT_EQ(0, wait_while(&self->p, false, false));
	EXPECT_EQ(0, wait_while(&self->p, true, false));
	EXPECT_EQ(0, yields);
	/* nor does it send worse for it */
	EXPECT_EQ(1, l5_send(self->b, "x", 1, 0));
}

/*
 * The same by the environment, which is read once: in a process each. What it
 * ends with is how often it yielded, or 100 if something went wrong.
 */
static int with_env(const char *spin, const char *often, bool found)
{
	struct pair p;
	int status, n, i;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid < 0)
		return -1;
	if (!pid) {
		unsetenv("L5_SPIN_US");
		unsetenv("L5_YIELDS");
		if (spin)
			setenv("L5_SPIN_US", spin, 1);
		if (often)
			setenv("L5_YIELDS", often, 1);
		if (!pair_new(&p) ||
		    (!found && !set_timeout(p.fd[1], SO_RCVTIMEO, 10)))
			_exit(100);
		/* once more if a crowded machine kept the other thread away */
		for (n = 1, i = 0; found && n > 0 && i < 5; i++)
			n = wait_while(&p, false, false);
		if (n > 0)
			n = found ? -1 : yields_of(p.c[1]);
		/* who is told otherwise does otherwise */
		l5_set_wait(p.c[1], 0, 2);
		set_timeout(p.fd[1], SO_RCVTIMEO, 10);
		if (n < 0 || yields_of(p.c[1]) != 2)
			n = 100;
		pair_free(&p);
		_exit(n);
	}
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

TEST(environment)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	EXPECT_EQ(0, with_env(NULL, NULL, false));
	EXPECT_EQ(0, with_env("0", NULL, false));
	EXPECT_EQ(0, with_env("0", "0", false));
	/* not valgrind's 9 */
	EXPECT_EQ(8, with_env("0", "8", false));
	EXPECT_EQ(8, with_env("10", "8", false));
	EXPECT_EQ(0, with_env("10", "-1", false));
	/* found by looking: nobody slept */
	EXPECT_EQ(0, with_env("1000000", NULL, true));
	EXPECT_EQ(0, with_env("99999999", NULL, true));
	/* which says nothing */
	EXPECT_EQ(0, with_env("", "", false));
	EXPECT_EQ(0, with_env("1x", "9x", false));
	EXPECT_EQ(0, with_env("-1", "-1", false));
}

/* Whatever it was told, a wait ends with its time. */
TEST_F_TIMEOUT(conn, wait_ends, 200)
{
	const uint64_t second = 1000000000;
	struct l5_event e = { self->b, POLLIN, 0 };
	uint64_t start;

	l5_set_wait(self->b, 100000000, 0);
	start = l5_map_now();
	EXPECT_EQ(0, l5_wait(self->b, POLLIN, 20));
	EXPECT_EQ(0, l5_wait_any(&e, 1, 20));
	EXPECT_GT(50 * second, l5_map_now() - start);
	EXPECT_LE(second / 25, l5_map_now() - start);
	/* all of it was spent looking, and nothing is left for a sleep */
	EXPECT_EQ(0, sleeps);
	EXPECT_EQ(0, yields);
	/* not longer than told either, if that is less: then it sleeps */
	l5_set_wait(self->b, 10, 0);
	EXPECT_EQ(0, l5_wait(self->b, POLLIN, 2000));
	EXPECT_EQ(1, sleeps);

	count_from_here();
	l5_set_wait(self->b, 0, INT_MAX);
	EXPECT_EQ(0, l5_wait(self->b, POLLIN, 20));
	EXPECT_LT(0, yields);
	EXPECT_EQ(0, sleeps);
	count_from_here();
	l5_set_wait(self->b, 1000000, INT_MAX);
	EXPECT_EQ(0, l5_wait(self->b, POLLIN, 20));
	EXPECT_EQ(0, yields);
	EXPECT_EQ(0, sleeps);
	/* and no time at all is one look */
	count_from_here();
	EXPECT_EQ(0, l5_wait(self->b, POLLIN, 0));
	EXPECT_EQ(0, calls);
}

/* Many, more than set_poll() has on its stack; rings and others among them. */
enum { MANY = 70 };

struct answer {
	struct pair *p;
	int n;
	int rounds;
};

static void *answer_all(void *arg)
{
	struct answer *w = arg;
	struct l5_event e[MANY];
	int i, left = w->n * w->rounds;
	char ch;

	for (i = 0; i < w->n; i++)
		e[i] = (struct l5_event){ w->p[i].c[0], POLLIN, 0 };
	while (left) {
		if (l5_wait_any(e, w->n, -1) <= 0)
			return arg;
		for (i = 0; i < w->n; i++) {
			if (!e[i].revents)
				continue;
			if (e[i].revents != POLLIN ||
			    l5_recv(e[i].conn, &ch, 1, 0) != 1 ||
			    ch != (char)i ||
			    l5_send(e[i].conn, &ch, 1, 0) != 1)
				return arg;
			left--;
		}
	}
	return NULL;
}

TEST_F_TIMEOUT(conn, wait_any, 300)
{
	static struct pair p[MANY];
	struct answer w = { p, MANY, 1 + 200 / slow() };
	struct l5_event e[MANY + 2] = { 0 };
	struct l5_conn *plain[2];
	int i, k, n, sv[2];
	pthread_t t;
	void *bad;
	char ch;

	for (i = 0; i < MANY; i++) {
		ASSERT_TRUE(pair_new(&p[i]));
		e[i] = (struct l5_event){ p[i].c[1], POLLIN, 1 };
	}
	e[MANY].events = POLLIN;
	EXPECT_EQ(0, l5_wait_any(e, 0, 0));
	EXPECT_EQ(-1, l5_wait_any(e, -1, 0));
	EXPECT_EQ(EINVAL, errno);
	count_from_here();
	EXPECT_EQ(0, l5_wait_any(e, MANY + 1, 0));
	EXPECT_EQ(0, calls);
	EXPECT_EQ(0, l5_wait_any(e, MANY + 1, 500));
	EXPECT_EQ(1, sleeps);
	for (i = 0; i <= MANY; i++)
		EXPECT_EQ(0, e[i].revents);
	/* room there is, everywhere but where nobody asked */
	e[3].events = POLLIN | POLLOUT;
	EXPECT_EQ(1, l5_wait_any(e, MANY + 1, -1));
	EXPECT_EQ(POLLOUT, e[3].revents);
	e[3].events = POLLIN;

	ASSERT_EQ(0, pthread_create(&t, NULL, answer_all, &w));
	for (k = 0; k < w.rounds; k++) {
		for (i = 0; i < MANY; i++) {
			ch = i;
			ASSERT_EQ(1, l5_send(p[i].c[1], &ch, 1, 0));
		}
		for (n = 0; n < MANY;) {
			ASSERT_LT(0, l5_wait_any(e, MANY + 1, -1));
			for (i = 0; i < MANY; i++) {
				if (!e[i].revents)
					continue;
				ASSERT_EQ(1, l5_recv(e[i].conn, &ch, 1, 0));
				ASSERT_EQ((char)i, ch);
				n++;
			}
		}
	}
	ASSERT_EQ(0, pthread_join(t, &bad));
	EXPECT_EQ(NULL, bad);

	/* one of another kind: no looking, but both are seen */
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sv));
	plain[0] = l5_map(sv[0]);
	plain[1] = l5_map(sv[1]);
	ASSERT_FALSE(l5_conn_mapped(plain[0]));
	EXPECT_EQ(ENOTTY, errno);
	e[MANY + 1] = (struct l5_event){ plain[0], POLLIN, 0 };
	l5_set_wait(p[0].c[1], 1000000, 5);
	count_from_here();
	EXPECT_EQ(0, l5_wait_any(e, MANY + 2, 500));
	EXPECT_EQ(0, yields);
	EXPECT_EQ(1, sleeps);
	EXPECT_EQ(1, l5_send(plain[1], "p", 1, 0));
	EXPECT_EQ(1, l5_wait_any(e, MANY + 2, -1));
	EXPECT_EQ(1, l5_send(p[69].c[0], "q", 1, 0));
	EXPECT_EQ(2, l5_wait_any(e, MANY + 2, -1));
	EXPECT_EQ(POLLIN, e[69].revents);
	EXPECT_EQ(POLLIN, e[MANY + 1].revents);
	l5_close(plain[0]);
	l5_close(plain[1]);
	for (i = 0; i < MANY; i++)
		pair_free(&p[i]);
}

/* Processes */

static int reap(pid_t pid)
{
	int status;

	return waitpid(pid, &status, 0) == pid ? status : -1;
}

/*
 * A child has the connection and not the mapping. The socket has no rings to
 * map again, so there it goes on by system calls.
 */
TEST_F(conn, fork)
{
	char buf[16] = "";
	const void *q;
	pid_t pid;
	void *p;

	ASSERT_EQ(4, l5_send(self->b, "look", 4, 0));
	ASSERT_EQ(4, l5_reserve(self->a, &p, 4, 0));
	ASSERT_EQ(4, l5_peek(self->a, &q, 0));
	fflush(NULL);
	pid = fork();
	if (!pid) {
		/* what a parent has in its hands is not the child's */
		if (l5_commit(self->a, 1) != -1 || errno != EINVAL)
			_exit(1);
		if (l5_release(self->a, 1) != -1 || errno != EINVAL)
			_exit(2);
		if (l5_conn_mapped(self->a) || errno != ENOTTY)
			_exit(3);
		_exit(0);
	}
	EXPECT_EQ(0, reap(pid));
	memcpy(p, "mine", 4);
	EXPECT_EQ(4, l5_commit(self->a, 4));
	EXPECT_EQ(0, memcmp(q, "look", 4));
	EXPECT_EQ(0, l5_release(self->a, 4));
	EXPECT_TRUE(l5_conn_mapped(self->a));

	fflush(NULL);
	pid = fork();
	if (!pid) {
		count_from_here();
		if (l5_send(self->a, "child", 5, 0) != 5 || calls != 1)
			_exit(1);
		if (l5_recv(self->a, buf, 6, 0) != 6 ||
		    memcmp(buf, "answer", 6) || calls != 2)
			_exit(2);
		if (l5_reserve(self->a, &p, 9, 0) != 9)
			_exit(3);
		memcpy(p, "too", 3);
		if (l5_commit(self->a, 3) != 3 || calls != 3)
			_exit(4);
		l5_set_wait(self->a, 1, 1);
		if (l5_wait(self->a, POLLOUT, -1) != POLLOUT)
			_exit(5);
		l5_unmap(self->a);
		_exit(0);
	}
	EXPECT_EQ(4, l5_recv(self->b, buf, 4, 0));
	EXPECT_EQ(5, l5_recv(self->b, buf, 5, MSG_WAITALL));
	EXPECT_EQ(0, memcmp(buf, "child", 5));
	EXPECT_EQ(6, l5_send(self->b, "answer", 6, 0));
	EXPECT_EQ(3, l5_recv(self->b, buf, 3, MSG_WAITALL));
	EXPECT_EQ(0, memcmp(buf, "too", 3));
	EXPECT_EQ(0, reap(pid));
	/* the parent's is as it was */
	count_from_here();
	EXPECT_EQ(6, l5_send(self->a, "parent", 6, 0));
	EXPECT_EQ(6, l5_recv(self->b, buf, 6, 0));
	EXPECT_EQ(0, calls);
}

/* The end of one is that of its descriptor only by l5_close(). */
TEST(closed)
{
	struct pair p;
	struct sock *s;
	int fd;

	ASSERT_TRUE(pair_new(&p));
	s = sock_of(p.fd[0]);
	fd = dup(p.fd[0]);
	l5_unmap(p.c[0]);
	EXPECT_LE(0, fcntl(fd, F_GETFD));
	p.c[0] = l5_conn_over(p.fd[0], p.m[0]);
	ASSERT_NE(NULL, p.c[0]);
	EXPECT_EQ(0, l5_close(p.c[0]));
	EXPECT_EQ(-1, fcntl(p.fd[0], F_GETFD));
	EXPECT_EQ(EBADF, errno);
	p.fd[0] = fd;
	s->fd = fd;
	p.c[0] = NULL;
	/* a second time it is nobody's */
	EXPECT_EQ(0, l5_close(p.c[0]));
	pair_free(&p);
}

TEST_HARNESS_MAIN
