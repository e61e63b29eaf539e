// SPDX-License-Identifier: GPL-2.0
/*
 * libl5 over AF_L5 sockets: every public function, mixed with system calls on
 * the same socket in both orders, the end in all its forms, children, and
 * connections that have no rings. Linked with the shared library.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "ends.h"
#include "libl5.h"
#include "libl5_ends.h"
#include "mapping.h"

#define LONG_MS		(60000 * l5_slow())

FIXTURE(lib)
{
	struct place at;
	int listener;
	struct l5_conn *c, *s;
	int cfd, sfd;
};

FIXTURE_VARIANT(lib)
{
	const char *host;
};

FIXTURE_VARIANT_ADD(lib, inet)
{
	.host = "127.0.0.1",
};

FIXTURE_VARIANT_ADD(lib, unix)
{
	.host = NULL,
};

FIXTURE_SETUP(lib)
{
	if (!l5_present())
		_exit(255);
	signal(SIGPIPE, SIG_IGN);
	self->listener = place_listen(&self->at, variant->host);
	ASSERT_LE(0, self->listener);
	self->c = place_connect(&self->at, SOCK_CLOEXEC);
	ASSERT_NE(NULL, self->c);
	self->s = l5_accept(self->listener, SOCK_CLOEXEC);
	ASSERT_NE(NULL, self->s);
	self->cfd = l5_conn_fd(self->c);
	self->sfd = l5_conn_fd(self->s);
	ASSERT_EQ(L5_TRANSPORT_SHM, l5_transport(self->cfd));
	ASSERT_EQ(L5_TRANSPORT_SHM, l5_transport(self->sfd));
	ASSERT_TRUE(l5_conn_mapped(self->c));
	ASSERT_TRUE(l5_conn_mapped(self->s));
}

FIXTURE_TEARDOWN(lib)
{
	if (self->c)
		EXPECT_EQ(0, l5_close(self->c));
	if (self->s)
		EXPECT_EQ(0, l5_close(self->s));
	close(self->listener);
}

struct stream {
	struct l5_conn *c;
	uint64_t total;
	uint64_t seed;
	int way;		/* -1: all of them */
	uint64_t bad;
};

static void *stream_send(void *arg)
{
	struct stream *s = arg;
	uint8_t *buf = malloc(1 << 20);
	uint64_t at = 0;
	size_t len;
	ssize_t n;

	while (at < s->total && !s->bad) {
		len = 1 + l5_rnd(&s->seed) % 300;
		if (!(l5_rnd(&s->seed) % 16))
			len = 1 + l5_rnd(&s->seed) % (1 << 20);
		if (len > s->total - at)
			len = s->total - at;
		l5_fill(buf, len, at);
		n = send_way(s->c, s->way < 0 ? l5_rnd(&s->seed) % WAYS :
					       (unsigned int)s->way, buf, len);
		if (n > 0)
			at += n;
		else if (n < 0 && errno == EAGAIN)
			l5_wait(s->c, POLLOUT, LONG_MS);
		else
			s->bad++;
	}
	free(buf);
	return NULL;
}

static void *stream_recv(void *arg)
{
	struct stream *s = arg;
	uint8_t *buf = malloc(1 << 20);
	uint64_t at = 0;
	size_t len;
	ssize_t n;

	while (at < s->total && !s->bad) {
		len = 1 + l5_rnd(&s->seed) % 300;
		if (!(l5_rnd(&s->seed) % 16))
			len = 1 + l5_rnd(&s->seed) % (1 << 20);
		n = recv_way(s->c, s->way < 0 ? l5_rnd(&s->seed) % WAYS :
					       (unsigned int)s->way, buf, len);
		if (n > 0) {
			s->bad += l5_check(buf, n, at) >= 0;
			at += n;
		} else if (n < 0 && errno == EAGAIN) {
			l5_wait(s->c, POLLIN, LONG_MS);
		} else {
			s->bad++;
		}
	}
	free(buf);
	return NULL;
}

static bool streams(struct l5_conn *a, struct l5_conn *b, uint64_t total,
		    int way)
{
	struct stream s[4] = {
		{ .c = a, .total = total, .seed = 1, .way = way },
		{ .c = b, .total = total, .seed = 2, .way = way },
		{ .c = b, .total = total / 2, .seed = 3, .way = way },
		{ .c = a, .total = total / 2, .seed = 4, .way = way },
	};
	pthread_t t[4];
	bool ok = true;
	int i;

	for (i = 0; i < 4; i++)
		if (pthread_create(&t[i], NULL, i & 1 ? stream_recv :
						       stream_send, &s[i]))
			abort();
	for (i = 0; i < 4; i++) {
		pthread_join(t[i], NULL);
		if (s[i].bad)
			fprintf(stderr, "# stream %d way %d: bad\n", i, way);
		ok &= !s[i].bad;
	}
	return ok;
}

/* Each way by itself, both directions at once. */
TEST_F_TIMEOUT(lib, each_way, 600)
{
	int way;

	for (way = 0; way < WAYS; way++)
		ASSERT_TRUE(streams(self->c, self->s, 2 << 20, way));
}

/* All of them in turn on the same socket. */
TEST_F_TIMEOUT(lib, mixed, 600)
{
	ASSERT_TRUE(streams(self->c, self->s, 16 << 20, -1));
}

/* One end mapped, the other not; and the map going and coming. */
TEST_F_TIMEOUT(lib, one_end, 300)
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
			ASSERT_TRUE(l5_conn_mapped(self->c));
		}
		ASSERT_EQ(5000, l5_recv(self->c, buf, 5000, MSG_WAITALL));
		ASSERT_EQ(-1, l5_check(buf, 5000, i));
	}
	close(self->sfd);
	EXPECT_EQ(0, l5_recv(self->c, buf, 1, 0));
}

/* Who sleeps is woken: by the other end mapped or not, for data and room. */
static void *late_send(void *arg)
{
	usleep(100000);
	return (void *)l5_send(arg, "late", 4, 0);
}

static void *late_write(void *arg)
{
	usleep(100000);
	return (void *)write(l5_conn_fd(arg), "late", 4);
}

TEST_F_TIMEOUT(lib, sleep_and_wake, 300)
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

	usleep(100000);
	while ((n = l5_recv(arg, buf, sizeof(buf), 0)) > 0)
		sum += n;
	return (void *)sum;
}

TEST_F_TIMEOUT(lib, full, 300)
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

/* The end: what was sent before it is read before it is seen. */
TEST_F(lib, fin)
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

TEST_F(lib, reset)
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

	usleep(200000);
	setsockopt(l5_conn_fd(arg), SOL_SOCKET, SO_LINGER, &on, sizeof(on));
	return (void *)(long)l5_close(arg);
}

TEST_F(lib, error_after_bytes)
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
	usleep(100000);
	return (void *)(long)l5_close(arg);
}

TEST_F(lib, close_wakes)
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
TEST_F(lib, timeouts)
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

static void on_alarm(int sig)
{
	(void)sig;
}

TEST_F(lib, interrupted)
{
	struct sigaction sa = { .sa_handler = on_alarm };
	const struct itimerval in = { .it_value.tv_usec = 100000 };
	char c;

	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &in, NULL);
	EXPECT_EQ(-1, l5_recv(self->c, &c, 1, 0));
	EXPECT_EQ(EINTR, errno);
	setitimer(ITIMER_REAL, &in, NULL);
	EXPECT_EQ(-1, l5_wait(self->c, POLLIN, -1));
	EXPECT_EQ(EINTR, errno);
}

TEST_F(lib, nonblocking)
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

TEST_F(lib, arguments)
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

/* Threads send, system calls among them; whole records come out. */
struct crowd {
	struct l5_conn *c;
	int who;
	int count;
	bool mapped;
};

static void *crowd_send(void *arg)
{
	struct crowd *w = arg;
	uint32_t msg[16];
	int i, k;

	for (i = 0; i < w->count; i++) {
		for (k = 0; k < 16; k++)
			msg[k] = w->who << 24 | i;
		if ((w->mapped ? l5_send(w->c, msg, sizeof(msg), 0) :
				 write(l5_conn_fd(w->c), msg, sizeof(msg))) !=
		    sizeof(msg))
			return w;
	}
	return NULL;
}

TEST_F_TIMEOUT(lib, threads, 300)
{
	struct crowd w[4];
	int next[4] = { 0 }, i, k;
	uint32_t msg[16];
	pthread_t t[4];
	void *bad;

	for (i = 0; i < 4; i++) {
		w[i] = (struct crowd){ self->c, i, 5000, i & 1 };
		ASSERT_EQ(0, pthread_create(&t[i], NULL, crowd_send, &w[i]));
	}
	for (i = 0; i < 20000; i++) {
		ASSERT_EQ(64, i % 3 ?
			      l5_recv(self->s, msg, 64, MSG_WAITALL) :
			      recv(self->sfd, msg, 64, MSG_WAITALL));
		for (k = 1; k < 16; k++)
			ASSERT_EQ(msg[0], msg[k]);
		ASSERT_LT(msg[0] >> 24, 4);
		ASSERT_EQ(next[msg[0] >> 24]++, msg[0] & 0xffffff);
	}
	for (i = 0; i < 4; i++) {
		ASSERT_EQ(0, pthread_join(t[i], &bad));
		EXPECT_EQ(NULL, bad);
	}
}

/* A child goes on with the connection, also without its parent. */
TEST_F_TIMEOUT(lib, fork, 120)
{
	char buf[100] = "";
	const void *p;
	pid_t pid;
	int i;

	for (i = 0; i < 3; i++) {
		fflush(NULL);
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			if (!l5_conn_mapped(self->c) ||
			    l5_send(self->c, "child", 5, 0) != 5 ||
			    l5_recv(self->c, buf, 6, MSG_WAITALL) != 6 ||
			    memcmp(buf, "answer", 6))
				_exit(1);
			/* and its child, of the other end */
			pid = fork();
			if (!pid)
				_exit(l5_send(self->c, "grand", 5, 0) != 5 ||
				      !l5_conn_mapped(self->c));
			_exit(map_reap(pid));
		}
		ASSERT_EQ(5, l5_recv(self->s, buf, 5, MSG_WAITALL));
		ASSERT_EQ(0, memcmp(buf, "child", 5));
		ASSERT_EQ(6, l5_send(self->s, "answer", 6, 0));
		ASSERT_EQ(5, l5_recv(self->s, buf, 5, MSG_WAITALL));
		ASSERT_EQ(0, memcmp(buf, "grand", 5));
		ASSERT_EQ(0, map_reap(pid));
		ASSERT_EQ(6, l5_send(self->c, "parent", 6, 0));
		ASSERT_EQ(6, l5_recv(self->s, buf, 6, MSG_WAITALL));
	}

	/* what a parent reserved is not the child's to commit */
	ASSERT_EQ(4, l5_send(self->s, "look", 4, 0));
	ASSERT_EQ(4, l5_peek(self->c, &p, 0));
	fflush(NULL);
	pid = fork();
	if (!pid)
		_exit(l5_release(self->c, 1) != -1 || errno != EINVAL);
	ASSERT_EQ(0, map_reap(pid));
	EXPECT_EQ(0, l5_release(self->c, 4));

	/* the parent closes, the child has the last word */
	fflush(NULL);
	pid = fork();
	if (!pid) {
		usleep(100000);
		_exit(l5_send(self->c, "last", 4, 0) != 4);
	}
	EXPECT_EQ(0, l5_close(self->c));
	self->c = NULL;
	EXPECT_EQ(4, l5_recv(self->s, buf, 4, MSG_WAITALL));
	EXPECT_EQ(0, l5_recv(self->s, buf, 4, 0));
	ASSERT_EQ(0, map_reap(pid));
}

/* Killed anywhere in a send: the others go on, whole messages come out. */
TEST_F_TIMEOUT(lib, killed, 300)
{
	uint32_t msg[16], last;
	uint64_t seed = 5;
	int round, i, k;
	pid_t pid;

	for (round = 1; round < 40; round++) {
		fflush(NULL);
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			for (i = 0;; i++) {
				for (k = 0; k < 16; k++)
					msg[k] = round << 24 | i;
				l5_send(self->c, msg, 64, 0);
			}
		}
		last = round << 24;
		for (i = l5_rnd(&seed) % 2000; i; i--) {
			ASSERT_EQ(64, l5_recv(self->s, msg, 64, MSG_WAITALL));
			ASSERT_EQ(last++, msg[0]);
		}
		kill(pid, SIGKILL);
		map_reap(pid);
		/* the ring may be full: a thread that waits in the kernel */
		fflush(NULL);
		pid = fork();
		if (!pid) {
			for (k = 0; k < 16; k++)
				msg[k] = 0;
			_exit(l5_send(self->c, msg, 64, 0) != 64);
		}
		for (;;) {
			ASSERT_EQ(64, l5_recv(self->s, msg, 64, MSG_WAITALL));
			for (k = 1; k < 16; k++)
				ASSERT_EQ(msg[0], msg[k]);
			if (!msg[0])
				break;
			ASSERT_EQ(last++, msg[0]);
		}
		ASSERT_EQ(0, map_reap(pid));
	}
}

/* A descriptor that came by dup() or by a message is the same connection. */
TEST_F(lib, other_descriptors)
{
	struct l5_conn *d = l5_map(dup(self->cfd));
	char buf[10];
	int sv[2], fd;

	ASSERT_NE(NULL, d);
	EXPECT_TRUE(l5_conn_mapped(d));
	EXPECT_EQ(3, l5_send(self->c, "one", 3, 0));
	EXPECT_EQ(3, l5_send(d, "two", 3, 0));
	EXPECT_EQ(6, l5_recv(self->s, buf, 6, MSG_WAITALL));
	EXPECT_EQ(0, memcmp(buf, "onetwo", 6));
	EXPECT_EQ(0, l5_close(d));
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sv));
	ASSERT_TRUE(end_pass(sv[0], self->cfd));
	fd = end_take(sv[1]);
	ASSERT_LE(0, fd);
	d = l5_map(fd);
	ASSERT_NE(NULL, d);
	EXPECT_TRUE(l5_conn_mapped(d));
	EXPECT_EQ(4, l5_send(d, "late", 4, 0));
	EXPECT_EQ(4, l5_recv(self->s, buf, 4, MSG_WAITALL));
	EXPECT_EQ(0, l5_close(d));
	close(sv[0]);
	close(sv[1]);
}

/* A hundred connections, all of them answered, nobody much before others. */
#define MANY	100

struct clients {
	struct l5_conn *c[MANY];
	int done[MANY];
	int rounds;
	bool bad;
};

static void *clients_run(void *arg)
{
	struct clients *w = arg;
	struct l5_event e[MANY];
	int i, left = MANY;
	char ch;

	for (i = 0; i < MANY; i++) {
		e[i] = (struct l5_event){ w->c[i], POLLIN, 0 };
		w->bad |= l5_send(w->c[i], "q", 1, 0) != 1;
	}
	while (left && !w->bad) {
		if (l5_wait_any(e, MANY, LONG_MS) <= 0) {
			w->bad = true;
			break;
		}
		for (i = 0; i < MANY; i++) {
			if (!e[i].revents)
				continue;
			w->bad |= l5_recv(w->c[i], &ch, 1, 0) != 1;
			if (++w->done[i] < w->rounds) {
				w->bad |= l5_send(w->c[i], "q", 1, 0) != 1;
			} else {
				e[i].conn = NULL;
				left--;
			}
		}
	}
	return NULL;
}

TEST_F_TIMEOUT(lib, wait_any, 300)
{
	struct clients w = { .rounds = 50 };
	struct l5_event e[MANY] = { 0 };
	int served[MANY] = { 0 }, i, n, sum = 0, least, most, worst = 0;
	pthread_t t;
	char ch;

	for (i = 0; i < MANY; i++) {
		w.c[i] = place_connect(&self->at, 0);
		ASSERT_NE(NULL, w.c[i]);
		e[i].conn = l5_accept(self->listener, 0);
		ASSERT_NE(NULL, e[i].conn);
		e[i].events = POLLIN;
		ASSERT_TRUE(l5_conn_mapped(w.c[i]));
		ASSERT_TRUE(l5_conn_mapped(e[i].conn));
	}
	EXPECT_EQ(0, l5_wait_any(e, MANY, 0));
	EXPECT_EQ(0, l5_wait_any(e, MANY, 30));
	ASSERT_EQ(0, pthread_create(&t, NULL, clients_run, &w));
	while (sum < MANY * w.rounds) {
		n = l5_wait_any(e, MANY, LONG_MS);
		ASSERT_LT(0, n);
		least = w.rounds;
		most = 0;
		for (i = 0; i < MANY; i++) {
			if (e[i].revents) {
				ASSERT_EQ(POLLIN, e[i].revents);
				ASSERT_EQ(1, l5_recv(e[i].conn, &ch, 1, 0));
				ASSERT_EQ(1, l5_send(e[i].conn, "a", 1, 0));
				served[i]++;
				sum++;
				n--;
			}
			least = served[i] < least ? served[i] : least;
			most = served[i] > most ? served[i] : most;
		}
		ASSERT_EQ(0, n);
		worst = most - least > worst ? most - least : worst;
	}
	ASSERT_EQ(0, pthread_join(t, NULL));
	EXPECT_FALSE(w.bad);
	/* who starves is served when all others are done */
	EXPECT_GT(w.rounds * 4 / 5, worst);
	TH_LOG("at most %d rounds apart", worst);
	for (i = 0; i < MANY; i++) {
		l5_close(w.c[i]);
		l5_close(e[i].conn);
	}
}

/* Rings and other sockets in one set: none keeps the other from being seen. */
TEST_F(lib, wait_mixed)
{
	struct l5_conn *plain[2];
	struct l5_event e[2];
	char buf[10];
	int sv[2];

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sv));
	plain[0] = l5_map(sv[0]);
	plain[1] = l5_map(sv[1]);
	EXPECT_FALSE(l5_conn_mapped(plain[0]));
	e[0] = (struct l5_event){ self->s, POLLIN, 0 };
	e[1] = (struct l5_event){ plain[1], POLLIN, 0 };
	EXPECT_EQ(0, l5_wait_any(e, 2, 10));
	EXPECT_EQ(1, l5_send(self->c, "r", 1, 0));
	EXPECT_EQ(1, l5_wait_any(e, 2, -1));
	EXPECT_EQ(POLLIN, e[0].revents);
	EXPECT_EQ(0, e[1].revents);
	EXPECT_EQ(1, l5_send(plain[0], "p", 1, 0));
	EXPECT_EQ(2, l5_wait_any(e, 2, -1));
	EXPECT_EQ(POLLIN, e[0].revents);
	EXPECT_EQ(POLLIN, e[1].revents);
	EXPECT_EQ(1, l5_recv(self->s, buf, 10, 0));
	EXPECT_EQ(1, l5_wait_any(e, 2, -1));
	EXPECT_EQ(0, e[0].revents);
	l5_close(plain[0]);
	l5_close(plain[1]);
}

/* An idle connection costs no CPU time, however it was used before. */
static void *pinger(void *arg)
{
	char c;
	int i;

	for (i = 0; i < 300; i++)
		if (l5_send(arg, "x", 1, 0) != 1 || l5_recv(arg, &c, 1, 0) != 1)
			return arg;
	sleep(2);
	return l5_send(arg, "y", 1, 0) == 1 ? NULL : arg;
}

TEST_F(lib, idle)
{
	struct rusage r0, r1;
	pthread_t t;
	void *bad;
	long us;
	char c;
	int i;

	ASSERT_EQ(0, pthread_create(&t, NULL, pinger, self->c));
	for (i = 0; i < 300; i++) {
		ASSERT_EQ(1, l5_recv(self->s, &c, 1, 0));
		ASSERT_EQ(1, l5_send(self->s, "z", 1, 0));
	}
	getrusage(RUSAGE_THREAD, &r0);
	ASSERT_EQ(1, l5_recv(self->s, &c, 1, 0));
	getrusage(RUSAGE_THREAD, &r1);
	us = (r1.ru_utime.tv_sec - r0.ru_utime.tv_sec +
	      r1.ru_stime.tv_sec - r0.ru_stime.tv_sec) * 1000000 +
	     r1.ru_utime.tv_usec - r0.ru_utime.tv_usec +
	     r1.ru_stime.tv_usec - r0.ru_stime.tv_usec;
	/* a busy machine may take the CPU away in the few that it spins */
	EXPECT_GT(500000, us);
	ASSERT_EQ(0, pthread_join(t, &bad));
	EXPECT_EQ(NULL, bad);
}

TEST_F(lib, told_to_spin)
{
	int64_t start = l5_now_ms();
	struct timespec t0, t1;
	long us;
	char c;
	int i;

	l5_set_wait(self->s, 1000, 2);
	ASSERT_EQ(0, setsockopt(self->sfd, SOL_SOCKET, SO_RCVTIMEO,
				&(struct timeval){ .tv_usec = 1000 },
				sizeof(struct timeval)));
	/* not getrusage(), whose ticks the naps between may all meet */
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t0);
	for (i = 0; i < 100; i++)
		EXPECT_EQ(-1, l5_recv(self->s, &c, 1, 0));
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t1);
	us = (t1.tv_sec - t0.tv_sec) * 1000000 +
	     (t1.tv_nsec - t0.tv_nsec) / 1000;
	EXPECT_LE(100, l5_now_ms() - start);
	EXPECT_LE(50000, us);
}

/* Connections without rings, by each way to have none. */
static void unmapped(struct __test_metadata *_metadata, struct l5_conn *c,
		     struct l5_conn *s)
{
	char buf[10];

	ASSERT_NE(NULL, c);
	ASSERT_NE(NULL, s);
	EXPECT_FALSE(l5_conn_mapped(c));
	EXPECT_FALSE(l5_conn_mapped(s));
	EXPECT_TRUE(streams(c, s, 1 << 20, -1));
	EXPECT_EQ(1, l5_send(c, "x", 1, 0));
	EXPECT_EQ(POLLIN, l5_wait(s, POLLIN, LONG_MS));
	EXPECT_EQ(1, l5_recv(s, buf, 10, 0));
	EXPECT_EQ(0, l5_close(c));
	EXPECT_EQ(0, l5_recv(s, buf, 10, 0));
	EXPECT_EQ(0, l5_close(s));
}

TEST_F_TIMEOUT(lib, no_rings, 300)
{
	struct addr to = addr_parse("127.0.0.1:0");
	int base = L5_TRANSPORT_BASE, fd, l, enabled;
	struct l5_conn *c;

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
	/* the peer is somebody else */
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
TEST_F(lib, mapped_later)
{
	struct addr to = addr_parse("127.0.0.1:0");
	int fd, l, afd;
	struct l5_conn *c;
	char buf[10];

	l = end_listen(END_L5, &to);
	fd = end_socket(END_L5, AF_INET);
	c = l5_map(fd);
	ASSERT_NE(NULL, c);
	EXPECT_FALSE(l5_conn_mapped(c));
	EXPECT_EQ(-1, l5_send(c, "x", 1, MSG_NOSIGNAL));
	ASSERT_EQ(0, connect(fd, &to.sa, to.len));
	afd = accept(l, NULL, NULL);
	ASSERT_LE(0, afd);
	EXPECT_EQ(5, l5_send(c, "hello", 5, 0));
	EXPECT_TRUE(l5_conn_mapped(c));
	EXPECT_EQ(5, read(afd, buf, 10));
	close(l);
	close(afd);
	EXPECT_EQ(0, l5_close(c));
}

TEST_HARNESS_MAIN
