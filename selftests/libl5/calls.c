// SPDX-License-Identifier: GPL-2.0
/*
 * libl5 over AF_L5 sockets: every public function, mixed with system calls on
 * the same socket in both orders, the end in all its forms, and connections
 * that have no rings. Linked with the shared library.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/time.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "ends.h"
#include "libl5_pair.h"
#include "mapping.h"
#include "signals.h"
#include "stream.h"

LIBL5_FIXTURE(libl5_calls)

static ssize_t send_any(struct stream *s, uint8_t *buf, size_t n)
{
	int way = s->way < 0 ? (int)(l5_rnd(&s->seed) % WAYS) : s->way;
	ssize_t ret = send_way(s->conn, way, buf, n);

	if (ret < 0 && errno == EAGAIN) {
		l5_wait(s->conn, POLLOUT, LONG_MS);
		errno = EAGAIN;
	}
	return ret;
}

static ssize_t recv_any(struct stream *s, uint8_t *buf, size_t n)
{
	int way = s->way < 0 ? (int)(l5_rnd(&s->seed) % WAYS) : s->way;
	ssize_t ret = recv_way(s->conn, way, buf, n);

	if (ret < 0 && errno == EAGAIN) {
		l5_wait(s->conn, POLLIN, LONG_MS);
		errno = EAGAIN;
	}
	return ret;
}

static bool streams(struct l5_stream *a, struct l5_stream *b, uint64_t total,
		    int way)
{
	struct stream s[4];
	pthread_t t[4];
	bool ok = true;
	int i;

	for (i = 0; i < 4; i++) {
		s[i] = (struct stream){
			.move = i & 1 ? recv_any : send_any,
			.conn = i == 0 || i == 3 ? a : b, .way = way,
			.most = 1 << 20, .total = i < 2 ? total : total / 2,
			.again = true, .seed = i + 1,
		};
		if (pthread_create(&t[i], NULL, i & 1 ? stream_recv :
						       stream_send, &s[i]))
			abort();
	}
	for (i = 0; i < 4; i++) {
		pthread_join(t[i], NULL);
		if (s[i].bad)
			fprintf(stderr, "# stream %d way %d: bad\n", i, way);
		ok &= !s[i].bad;
	}
	return ok;
}

/* Each way by itself, both directions at once. */
TEST_F_TIMEOUT(libl5_calls, each_way, 600)
{
	int way;

	for (way = 0; way < WAYS; way++)
		ASSERT_TRUE(streams(self->c, self->s, 2 << 20, way));
}

/* All ways in turn on the same socket. */
TEST_F_TIMEOUT(libl5_calls, mixed, 600)
{
	ASSERT_TRUE(streams(self->c, self->s, 16 << 20, -1));
}

/* One end mapped, the other not; and the map going and coming. */
TEST_F_TIMEOUT(libl5_calls, one_end, 300)
{
	uint8_t buf[5000];
	int i;

	l5_unmap(self->s);
	self->s = NULL;
	for (i = 0; i < 200; i++) {
		l5_fill(buf, sizeof(buf), i);
		ASSERT_EQ(5000, l5_send(self->c, buf, 5000, 0));
		ASSERT_EQ(5000, recv(self->sfd, buf, 5000, MSG_WAITALL));
		ASSERT_EQ(-1, l5_check(buf, 5000, i));
		ASSERT_EQ(5000, send(self->sfd, buf, 5000, 0));
		if (i % 10 == 5) {
			l5_unmap(self->c);
			self->c = l5_map(self->cfd);
			ASSERT_TRUE(l5_stream_mapped(self->c));
		}
		ASSERT_EQ(5000, l5_recv(self->c, buf, 5000, MSG_WAITALL));
		ASSERT_EQ(-1, l5_check(buf, 5000, i));
	}
	close(self->sfd);
	EXPECT_EQ(0, l5_recv(self->c, buf, 1, 0));
}

/* A program that l5_reserve() turned away hears when there is room again. */
TEST_F_TIMEOUT(libl5_calls, reserve_edge, 120)
{
	EXPECT_TRUE(reserve_edge(self->c, self->s, LONG_MS));
}

/* A sleeper is woken: by the other end mapped or not, for data and room. */
static void *late_send(void *arg)
{
	l5_wait_asleep(getpid());
	return (void *)l5_send(arg, "late", 4, 0);
}

static void *late_write(void *arg)
{
	l5_wait_asleep(getpid());
	return (void *)write(l5_stream_fd(arg), "late", 4);
}

TEST_F_TIMEOUT(libl5_calls, sleep_and_wake, 300)
{
	void *(*const how[])(void *) = { late_send, late_write };
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET };
	int ep = epoll_create1(0), i;
	const void *p;
	char buf[10];
	pthread_t t;

	ASSERT_EQ(0, epoll_ctl(ep, EPOLL_CTL_ADD, self->sfd, &ev));
	for (i = 0; i < 10; i++) {
		ASSERT_EQ(0, pthread_create(&t, NULL, how[i & 1], self->c));
		switch (i / 2) {
		case 0:
			EXPECT_EQ(4, l5_recv(self->s, buf, 10, 0));
			break;
		case 1:
			EXPECT_EQ(4, l5_peek(self->s, &p, 0));
			EXPECT_EQ(0, l5_release(self->s, 4));
			break;
		case 2:
			EXPECT_EQ(POLLIN, l5_wait(self->s, POLLIN, LONG_MS));
			EXPECT_EQ(4, l5_recv(self->s, buf, 10, 0));
			break;
		case 3:
			EXPECT_EQ(4, read(self->sfd, buf, 10));
			break;
		default:
			/* an edge that was there before is none any more */
			epoll_wait(ep, &ev, 1, 0);
			EXPECT_EQ(1, epoll_wait(ep, &ev, 1, LONG_MS));
			EXPECT_EQ(4, l5_recv(self->s, buf, 10, 0));
		}
		ASSERT_EQ(0, pthread_join(t, NULL));
	}
	close(ep);
}

static void *late_drain(void *arg)
{
	char buf[65536];
	ssize_t n, sum = 0;

	l5_wait_asleep(getpid());
	while ((n = l5_recv(arg, buf, sizeof(buf), 0)) > 0)
		sum += n;
	return (void *)sum;
}

TEST_F_TIMEOUT(libl5_calls, full, 300)
{
	static char buf[100000];
	ssize_t n, sum = 0;
	void *got, *p;
	pthread_t t;

	/* a large one leaves room that is enough for small ones */
	while ((n = l5_send(self->c, buf, sizeof(buf), MSG_DONTWAIT)) > 0)
		sum += n;
	EXPECT_EQ(EAGAIN, errno);
	while ((n = l5_send(self->c, buf, 1000, MSG_DONTWAIT)) > 0)
		sum += n;
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_EQ(-1, l5_reserve(self->c, &p, 1000, MSG_DONTWAIT));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_EQ(0, l5_wait(self->c, POLLOUT, 50));
	EXPECT_EQ(-1, send(self->cfd, buf, sizeof(buf), MSG_DONTWAIT));
	EXPECT_EQ(EAGAIN, errno);
	ASSERT_EQ(0, pthread_create(&t, NULL, late_drain, self->s));
	EXPECT_EQ((ssize_t)sizeof(buf), l5_send(self->c, buf, sizeof(buf), 0));
	EXPECT_EQ(POLLOUT, l5_wait(self->c, POLLOUT, LONG_MS));
	n = l5_reserve(self->c, &p, 1000, 0);
	EXPECT_LT(0, n);
	EXPECT_EQ(n, l5_commit(self->c, n));
	EXPECT_EQ(0, shutdown(self->cfd, SHUT_WR));
	ASSERT_EQ(0, pthread_join(t, &got));
	EXPECT_EQ(sum + (ssize_t)sizeof(buf) + n, (ssize_t)got);
}

/*
 * A ring grows that is full, and is not mapped any more: in the middle of a
 * record, by each way to read it, and with bytes that a program looks at.
 */
TEST_F_TIMEOUT(libl5_calls, grows, 300)
{
	static uint8_t buf[50000];
	uint64_t sent = 0, got;
	const void *p;
	ssize_t n;
	int i;

	if (!variant->host)
		SKIP(return, "AF_UNIX has no buffers that grow");
	do {
		l5_fill(buf, sizeof(buf), sent);
		n = l5_send(self->c, buf, sizeof(buf), MSG_DONTWAIT);
		sent += n > 0 ? n : 0;
	} while (n > 0);
	ASSERT_EQ(10, l5_recv(self->s, buf, 10, 0));
	got = 10;
	/* its reader is at work, so to speak: the ring stays where it is */
	n = l5_peek(self->s, &p, 0);
	ASSERT_LT(0, n);
	ASSERT_LE(0, l5_sysctl("grow_ms", 10));
	EXPECT_EQ(0, l5_wait(self->c, POLLOUT, 500));
	EXPECT_EQ(-1, l5_check(p, n, got));
	ASSERT_EQ(0, l5_release(self->s, 20));
	got += 20;
	while (sent < 2 << 20 && l5_wait(self->c, POLLOUT, LONG_MS) > 0) {
		l5_fill(buf, sizeof(buf), sent);
		n = l5_send(self->c, buf, sizeof(buf), MSG_DONTWAIT);
		ASSERT_LT(0, n);
		sent += n;
	}
	EXPECT_LE(2 << 20, sent);
	for (i = 0; got < sent; i++) {
		size_t want = 1 + i * 7919 % (sizeof(buf) - 1);

		if (i & 1) {
			n = l5_peek(self->s, &p, 0);
			ASSERT_LT(0, n);
			if ((size_t)n > want)
				n = want;
			ASSERT_EQ(-1, l5_check(p, n, got));
			ASSERT_EQ(0, l5_release(self->s, n));
		} else {
			n = l5_recv(self->s, buf, want, 0);
			ASSERT_LT(0, n);
			ASSERT_EQ(-1, l5_check(buf, n, got));
		}
		got += n;
	}
	/* by system calls from now on, both ways */
	EXPECT_TRUE(streams(self->c, self->s, 300000, -1));
}

/* The end: what was sent before it is read before it is seen. */
TEST_F(libl5_calls, fin)
{
	char buf[100];
	const void *p;
	void *q;

	EXPECT_EQ(3, l5_send(self->c, "end", 3, 0));
	EXPECT_EQ(0, shutdown(self->cfd, SHUT_WR));
	EXPECT_EQ(-1, l5_send(self->c, "x", 1, MSG_NOSIGNAL));
	EXPECT_EQ(EPIPE, errno);
	EXPECT_EQ(1, l5_reserve(self->c, &q, 1, MSG_NOSIGNAL));
	EXPECT_EQ(-1, l5_commit(self->c, 1));
	EXPECT_EQ(EPIPE, errno);
	EXPECT_TRUE(l5_wait(self->s, POLLIN, LONG_MS) & POLLIN);
	EXPECT_EQ(3, l5_recv(self->s, buf, 100, MSG_WAITALL));
	EXPECT_EQ(0, l5_recv(self->s, buf, 100, 0));
	EXPECT_EQ(0, l5_recv(self->s, buf, 100, MSG_DONTWAIT));
	EXPECT_EQ(0, l5_peek(self->s, &p, 0));
	EXPECT_TRUE(l5_wait(self->s, POLLIN | POLLRDHUP, LONG_MS) & POLLRDHUP);
	/* the other direction goes on */
	EXPECT_EQ(5, l5_send(self->s, "still", 5, 0));
	EXPECT_EQ(POLLIN, l5_wait(self->c, POLLIN, LONG_MS));
	EXPECT_EQ(5, l5_recv(self->c, buf, 100, 0));
}

static volatile sig_atomic_t pipes;

static void on_pipe(int sig)
{
	(void)sig;
	pipes++;
}

TEST_F(libl5_calls, reset)
{
	struct linger on = { .l_onoff = 1 };
	char buf[100];
	int i;

	if (!variant->host)
		SKIP(return, "AF_UNIX resets otherwise");
	signal(SIGPIPE, on_pipe);
	EXPECT_EQ(4, l5_send(self->c, "lost", 4, 0));
	ASSERT_EQ(0, setsockopt(self->sfd, SOL_SOCKET, SO_LINGER, &on,
				sizeof(on)));
	EXPECT_EQ(0, l5_close(self->s));
	self->s = NULL;
	EXPECT_TRUE(l5_wait(self->c, POLLIN, LONG_MS) & POLLERR);
	EXPECT_EQ(-1, l5_recv(self->c, buf, 100, 0));
	EXPECT_EQ(ECONNRESET, errno);
	EXPECT_EQ(0, l5_recv(self->c, buf, 100, 0));
	for (i = 0; i < 2; i++) {
		EXPECT_EQ(-1, l5_send(self->c, "x", 1, 0));
		EXPECT_EQ(EPIPE, errno);
		EXPECT_EQ(i + 1, pipes);
		EXPECT_EQ(-1, l5_send(self->c, "x", 1, MSG_NOSIGNAL));
		EXPECT_EQ(EPIPE, errno);
	}
}

/* What went before an error is said first, the error next. */
static void *late_reset(void *arg)
{
	const struct linger on = { .l_onoff = 1 };

	l5_wait_asleep(getpid());
	setsockopt(l5_stream_fd(arg), SOL_SOCKET, SO_LINGER, &on, sizeof(on));
	return (void *)(long)l5_close(arg);
}

TEST_F(libl5_calls, error_after_bytes)
{
	static char buf[8 << 20];
	pthread_t t;
	ssize_t n;
	int i;

	if (!variant->host)
		SKIP(return, "AF_UNIX resets otherwise");
	for (i = 0; i < 2; i++) {
		if (i)
			ASSERT_EQ(10, l5_send(self->s, buf, 10, 0));
		ASSERT_EQ(0, pthread_create(&t, NULL, late_reset, self->s));
		n = i ? l5_recv(self->c, buf, 20, MSG_WAITALL) :
			l5_send(self->c, buf, sizeof(buf), MSG_NOSIGNAL);
		EXPECT_LE(10, n);
		EXPECT_GT((ssize_t)sizeof(buf), n);
		EXPECT_EQ(-1, i ? l5_recv(self->c, buf, 20, MSG_WAITALL) :
				  l5_send(self->c, buf, 1, MSG_NOSIGNAL));
		EXPECT_EQ(ECONNRESET, errno);
		EXPECT_EQ(i ? 0 : -1,
			  i ? l5_recv(self->c, buf, 20, 0) :
			      l5_send(self->c, buf, 1, MSG_NOSIGNAL));
		ASSERT_EQ(0, pthread_join(t, NULL));
		EXPECT_EQ(0, l5_close(self->c));
		self->c = place_connect(&self->at, 0);
		self->s = l5_accept(self->listener, 0);
		ASSERT_NE(NULL, self->c);
		ASSERT_NE(NULL, self->s);
	}
}

/* A peer that closes while we sleep in each call. */
static void *late_close(void *arg)
{
	l5_wait_asleep(getpid());
	return (void *)(long)l5_close(arg);
}

TEST_F(libl5_calls, close_wakes)
{
	const void *p;
	pthread_t t;
	char c;
	int i;

	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, pthread_create(&t, NULL, late_close, self->s));
		switch (i) {
		case 0:
			EXPECT_EQ(0, l5_recv(self->c, &c, 1, 0));
			break;
		case 1:
			EXPECT_EQ(0, l5_peek(self->c, &p, 0));
			break;
		default:
			EXPECT_TRUE(l5_wait(self->c, POLLIN, LONG_MS) & POLLIN);
		}
		ASSERT_EQ(0, pthread_join(t, NULL));
		EXPECT_EQ(0, l5_close(self->c));
		self->c = place_connect(&self->at, 0);
		self->s = l5_accept(self->listener, 0);
		ASSERT_NE(NULL, self->c);
		ASSERT_NE(NULL, self->s);
	}
}

/* Time-outs are the socket's. */
TEST_F(libl5_calls, timeouts)
{
	const struct timeval tv = { .tv_usec = 100000 };
	static char buf[65536];
	const void *p;
	int64_t start;
	void *q;
	int i;

	ASSERT_EQ(0, setsockopt(self->cfd, SOL_SOCKET, SO_RCVTIMEO, &tv,
				sizeof(tv)));
	ASSERT_EQ(0, setsockopt(self->cfd, SOL_SOCKET, SO_SNDTIMEO, &tv,
				sizeof(tv)));
	while (l5_send(self->c, buf, sizeof(buf), MSG_DONTWAIT) > 0)
		;
	for (i = 0; i < 4; i++) {
		start = l5_now_ms();
		switch (i) {
		case 0:
			EXPECT_EQ(-1, l5_recv(self->c, buf, 1, 0));
			break;
		case 1:
			EXPECT_EQ(-1, l5_peek(self->c, &p, 0));
			break;
		case 2:
			EXPECT_EQ(-1, l5_send(self->c, buf, sizeof(buf), 0));
			break;
		default:
			EXPECT_EQ(-1, l5_reserve(self->c, &q, 65536, 0));
		}
		EXPECT_EQ(EAGAIN, errno);
		/* an emulated clock is not exact */
		EXPECT_LE(50, l5_now_ms() - start);
	}
}

TEST_F(libl5_calls, interrupted)
{
	char c;

	alarm_every(100000);
	EXPECT_EQ(-1, l5_recv(self->c, &c, 1, 0));
	EXPECT_EQ(EINTR, errno);
	EXPECT_EQ(-1, l5_wait(self->c, POLLIN, -1));
	EXPECT_EQ(EINTR, errno);
	alarm_off();
}

static void *sends_to_a_sleeper(void *arg)
{
	struct l5_stream *c = arg;

	l5_wait_asleep(getpid());
	l5_send(c, "x", 1, 0);
	return NULL;
}

/* Time-outs that are for ever, some of which overflow as nanoseconds. */
TEST_F(libl5_calls, for_ever)
{
	static const long long secs[] = { 18446744073, 18446744074, 1ll << 50 };
	const void *p;
	pthread_t t;
	size_t i;

	for (i = 0; i < 3; i++) {
		struct timeval tv = { .tv_sec = secs[i] };

		ASSERT_EQ(0, setsockopt(self->sfd, SOL_SOCKET, SO_RCVTIMEO, &tv,
					sizeof(tv)));
		ASSERT_EQ(0, pthread_create(&t, NULL, sends_to_a_sleeper,
					    self->c));
		EXPECT_EQ(1, l5_peek(self->s, &p, 0));
		pthread_join(t, NULL);
		EXPECT_EQ(0, l5_release(self->s, 1));
	}
}

TEST_F(libl5_calls, nonblocking)
{
	const void *p;
	char buf[10];

	EXPECT_EQ(-1, l5_recv(self->s, buf, 10, MSG_DONTWAIT));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_EQ(-1, l5_peek(self->s, &p, MSG_DONTWAIT));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_EQ(0, l5_set_nonblock(self->s, true));
	EXPECT_TRUE(fcntl(self->sfd, F_GETFL) & O_NONBLOCK);
	EXPECT_EQ(-1, l5_recv(self->s, buf, 10, 0));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_EQ(-1, l5_recv(self->s, buf, 10, MSG_WAITALL));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_EQ(5, l5_send(self->c, "hello", 5, 0));
	EXPECT_EQ(5, l5_recv(self->s, buf, 10, MSG_WAITALL));
	EXPECT_EQ(0, l5_set_nonblock(self->s, false));
	EXPECT_FALSE(fcntl(self->sfd, F_GETFL) & O_NONBLOCK);
	/* what a connection finds its socket to be */
	fcntl(self->sfd, F_SETFL, O_NONBLOCK);
	l5_unmap(self->s);
	self->s = l5_map(self->sfd);
	EXPECT_EQ(-1, l5_recv(self->s, buf, 10, 0));
	EXPECT_EQ(EAGAIN, errno);
}

TEST_F(libl5_calls, arguments)
{
	char buf[10];
	const void *p;
	void *q;

	EXPECT_EQ(0, l5_send(self->c, buf, 0, 0));
	EXPECT_EQ(-1, l5_sendv(self->c, NULL, 2000, 0));
	EXPECT_EQ(EMSGSIZE, errno);
	EXPECT_EQ(-1, l5_send(self->c, buf, 1, MSG_OOB));
	EXPECT_EQ(EOPNOTSUPP, errno);
	EXPECT_EQ(-1, l5_recv(self->c, buf, 1, MSG_OOB));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, l5_reserve(self->c, &q, 0, 0));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, l5_peek(self->c, &p, MSG_PEEK));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, l5_commit(self->c, 0));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, l5_release(self->c, 0));
	EXPECT_EQ(EINVAL, errno);
	/* a reservation is not for two */
	EXPECT_EQ(10, l5_reserve(self->c, &q, 10, 0));
	EXPECT_EQ(-1, l5_commit(self->c, 11));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, l5_send(self->c, buf, 1, 0));
	EXPECT_EQ(EDEADLK, errno);
	EXPECT_EQ(0, l5_commit(self->c, 0));
	EXPECT_EQ(0, l5_recv(self->s, buf, 0, MSG_DONTWAIT) > 0);
}

/* Connections without rings, by each way to have none. */
static void unmapped(struct __test_metadata *_metadata, struct l5_stream *c,
		     struct l5_stream *s)
{
	char buf[10];

	ASSERT_NE(NULL, c);
	ASSERT_NE(NULL, s);
	EXPECT_FALSE(l5_stream_mapped(c));
	EXPECT_FALSE(l5_stream_mapped(s));
	EXPECT_TRUE(streams(c, s, 1 << 20, -1));
	EXPECT_EQ(1, l5_send(c, "x", 1, 0));
	EXPECT_EQ(POLLIN, l5_wait(s, POLLIN, LONG_MS));
	EXPECT_EQ(1, l5_recv(s, buf, 10, 0));
	EXPECT_EQ(0, l5_close(c));
	EXPECT_EQ(0, l5_recv(s, buf, 10, 0));
	EXPECT_EQ(0, l5_close(s));
}

TEST_F_TIMEOUT(libl5_calls, no_rings, 300)
{
	struct addr to = addr_parse("127.0.0.1:0");
	int base = L5_TRANSPORT_BASE, fd, l, enabled;
	struct l5_stream *c;

	/* asked for */
	l = end_listen(END_L5, &to);
	fd = end_socket(END_L5, AF_INET);
	ASSERT_EQ(0, setsockopt(fd, SOL_L5, L5_FORCE, &base, sizeof(base)));
	ASSERT_EQ(0, connect(fd, &to.sa, to.len));
	unmapped(_metadata, l5_map(fd), l5_accept(l, 0));
	/* switched off */
	enabled = l5_sysctl("enabled", 0);
	c = place_connect(&self->at, 0);
	unmapped(_metadata, c, l5_accept(self->listener, 0));
	l5_sysctl("enabled", enabled);
	/* the peer is a plain TCP socket */
	fd = end_connect(END_TCP, &to);
	ASSERT_LE(0, fd);
	unmapped(_metadata, l5_map(fd), l5_accept(l, 0));
	close(l);
	to = addr_parse("127.0.0.1:0");
	l = end_listen(END_TCP, &to);
	fd = end_connect(END_L5, &to);
	unmapped(_metadata, l5_map(fd), l5_accept(l, 0));
	close(l);
}

/* A socket that is still to be connected is mapped once it is. */
TEST_F(libl5_calls, mapped_later)
{
	struct addr to = addr_parse("127.0.0.1:0");
	int fd, l, afd;
	struct l5_stream *c;
	char buf[10];

	l = end_listen(END_L5, &to);
	fd = end_socket(END_L5, AF_INET);
	c = l5_map(fd);
	ASSERT_NE(NULL, c);
	EXPECT_FALSE(l5_stream_mapped(c));
	EXPECT_EQ(-1, l5_send(c, "x", 1, MSG_NOSIGNAL));
	ASSERT_EQ(0, connect(fd, &to.sa, to.len));
	afd = accept(l, NULL, NULL);
	ASSERT_LE(0, afd);
	EXPECT_EQ(5, l5_send(c, "hello", 5, 0));
	EXPECT_TRUE(l5_stream_mapped(c));
	EXPECT_EQ(5, read(afd, buf, 10));
	close(l);
	close(afd);
	EXPECT_EQ(0, l5_close(c));
}

TEST_HARNESS_MAIN
