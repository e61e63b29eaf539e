// SPDX-License-Identifier: GPL-2.0
/*
 * How connections end: by close and shutdown, by death of a process, before
 * they are accepted, in other hands than those that made them. Whatever came
 * before the end is read exactly, and no call waits for ever.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "ends.h"

#define LONG_MS		(60000 * l5_slow())

FIXTURE(life_end)
{
	struct addr to;
	int listener;
	int c, s;
};

FIXTURE_VARIANT(life_end)
{
	const char *at;
};

FIXTURE_VARIANT_ADD(life_end, inet)
{
	.at = "127.0.0.1:0",
};

FIXTURE_VARIANT_ADD(life_end, unix)
{
	.at = "unix:/tmp/l5_life.sock",
};

/* A connected pair of rings. */
static bool pair(int l, const struct addr *to, int *c, int *s)
{
	*c = end_connect(END_L5, to);
	if (*c < 0)
		return false;
	*s = accept(l, NULL, NULL);
	return *s >= 0 && l5_transport(*c) == L5_TRANSPORT_SHM &&
	       l5_transport(*s) == L5_TRANSPORT_SHM;
}

FIXTURE_SETUP(life_end)
{
	l5_or_skip();
	signal(SIGPIPE, SIG_IGN);
	self->to = addr_parse(variant->at);
	self->listener = end_listen(END_L5, &self->to);
	ASSERT_LE(0, self->listener);
	ASSERT_TRUE(pair(self->listener, &self->to, &self->c, &self->s));
}

FIXTURE_TEARDOWN(life_end)
{
	close(self->listener);
}

TEST_F_TIMEOUT(life_end, close_with_data_queued, 120)
{
	static const size_t sizes[] = { 1, 100, 4000, 30000 };
	unsigned int i;
	int err;

	for (i = 0; i < ARRAY_SIZE(sizes) * 2; i++) {
		size_t n = sizes[i / 2];
		int from, to;

		ASSERT_TRUE(pair(self->listener, &self->to, &self->c,
				 &self->s));
		from = i & 1 ? self->c : self->s;
		to = i & 1 ? self->s : self->c;
		ASSERT_TRUE(end_put(from, n, 0));
		close(from);
		EXPECT_EQ((int64_t)n, end_drain(to, 0, &err));
		EXPECT_EQ(0, err);
		/* and it stays so */
		EXPECT_EQ(0, recv(to, &err, 1, 0));
		close(to);
	}
}

/* Records half read, many records, then the end. */
TEST_F_TIMEOUT(life_end, half_close, 120)
{
	int i, err;

	for (i = 0; i < 50; i++)
		ASSERT_TRUE(end_put(self->c, 50, i * 50));
	ASSERT_EQ(0, shutdown(self->c, SHUT_WR));
	ASSERT_EQ(-1, send(self->c, "x", 1, MSG_NOSIGNAL));
	ASSERT_EQ(EPIPE, errno);
	/* the other direction is open */
	ASSERT_TRUE(end_put(self->s, 10000, 0));
	ASSERT_TRUE(end_get(self->c, 10000, 0));
	ASSERT_TRUE(end_get(self->s, 33, 0));
	EXPECT_EQ(50 * 50 - 33, end_drain(self->s, 33, &err));
	EXPECT_EQ(0, err);
	ASSERT_TRUE(end_put(self->s, 10000, 10000));
	close(self->s);
	EXPECT_EQ(10000, end_drain(self->c, 10000, &err));
	EXPECT_EQ(0, err);
}

/* What a process sleeps in when its peer goes away; its exit code says how. */
enum sleep_in { IN_RECV, IN_SEND, IN_POLL, IN_EPOLL, IN_EPOLLET, IN_MAX };

static int sleep_in(enum sleep_in how, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLRDHUP };
	struct pollfd p = { .fd = fd, .events = POLLIN | POLLRDHUP };
	char buf[4096] = "";
	int ep;

	switch (how) {
	case IN_RECV:
		return recv(fd, buf, sizeof(buf), 0) == 0 ? 0 : 1;
	case IN_SEND:
		for (;;)
			if (send(fd, buf, sizeof(buf), MSG_NOSIGNAL) < 0)
				return errno == EPIPE || errno == ECONNRESET ?
				       0 : 2;
	case IN_POLL:
		if (poll(&p, 1, -1) != 1)
			return 3;
		return p.revents & POLLIN && p.revents & POLLRDHUP ? 0 : 4;
	case IN_EPOLLET:
		ev.events |= EPOLLET;
		break;
	default:
		break;
	}
	ep = epoll_create1(0);
	if (epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev))
		return 5;
	if (epoll_wait(ep, &ev, 1, -1) != 1)
		return 6;
	return ev.events & EPOLLIN && ev.events & EPOLLRDHUP ? 0 : 7;
}

static void close_under(struct __test_metadata *_metadata, int l,
			const struct addr *to, int signo)
{
	int i;

	for (i = 0; i < IN_MAX * 6; i++) {
		int fd[2], mine, status, up[2];
		pid_t pid, peer = 0;

		ASSERT_TRUE(pair(l, to, &fd[0], &fd[1]));
		mine = i & 1;
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			close(fd[mine]);
			_exit(sleep_in(i % IN_MAX, fd[!mine]));
		}
		close(fd[!mine]);
		if (signo) {
			/* the end is held by a process that gets killed */
			ASSERT_EQ(0, pipe(up));
			peer = fork();
			ASSERT_LE(0, peer);
			if (!peer) {
				if (write(up[1], "", 1) != 1)
					_exit(1);
				for (;;)
					pause();
			}
			close(fd[mine]);
			ASSERT_EQ(1, read(up[0], &status, 1));
			close(up[0]);
			close(up[1]);
		}
		if (i % 3)
			ASSERT_TRUE(l5_wait_asleep(pid));
		if (signo) {
			kill(peer, signo);
			ASSERT_NE(-1, l5_reap(peer));
		} else {
			close(fd[mine]);
		}
		status = l5_reap(pid);
		EXPECT_EQ(0, status) {
			TH_LOG("asleep in %d: %s", i % IN_MAX,
			       status == -1 ? "for ever" : "wrong result");
		}
	}
}

TEST_F_TIMEOUT(life_end, close_while_peer_sleeps, 300)
{
	close_under(_metadata, self->listener, &self->to, 0);
}

TEST_F_TIMEOUT(life_end, kill_while_peer_sleeps, 300)
{
	close_under(_metadata, self->listener, &self->to, SIGKILL);
}

/* How a peer ends, and how its end is come upon; see one_step(). */
enum ends_by { BY_CLOSE, BY_UNREAD, BY_SHUTDOWN, BY_MAX };

struct ending {
	enum ends_by by;
	int fd;
	atomic_int go;
};

static void *ends(void *arg)
{
	struct ending *e = arg;

	while (!atomic_load(&e->go))
		;
	if (e->by == BY_SHUTDOWN)
		shutdown(e->fd, SHUT_RDWR);
	else
		close(e->fd);
	return NULL;
}

static int wants(int got, int errno_is, const char *what)
{
	if (errno_is ? got < 0 && errno == errno_is : got == 0)
		return 0;
	fprintf(stderr, "# %s: %d, %s\n", what, got,
		got < 0 ? strerror(errno) : "no error");
	return 1;
}

/*
 * Look all the time at an end whose peer ends, after which nothing can be sent
 * any more: of that, a thread that sees any part sees the whole.
 */
static int one_step(int fd, struct ending *e, bool by_recv)
{
	struct pollfd p = { .fd = fd, .events = POLLIN | POLLRDHUP };
	int64_t end = l5_now_ms() + LONG_MS;
	int n, bad = 0;
	char b;

	atomic_store(&e->go, 1);
	do {
		if (l5_now_ms() > end) {
			fprintf(stderr, "# no end\n");
			return 1;
		}
		n = by_recv ? recv(fd, &b, 1, MSG_DONTWAIT) :
			      poll(&p, 1, 0) * !!(p.revents & POLLRDHUP) - 1;
	} while (n < 0 && (!by_recv || errno == EAGAIN));
	if (by_recv && e->by == BY_UNREAD) {
		bad += wants(n, ECONNRESET, "recv");
		n = recv(fd, &b, 1, MSG_DONTWAIT);
	}
	bad += wants(n, 0, by_recv ? "recv at the end" : "poll");
	if (by_recv)
		poll(&p, 1, 0);
	if ((p.revents & (POLLRDHUP | POLLHUP)) != (POLLRDHUP | POLLHUP)) {
		fprintf(stderr, "# poll: %#x\n", p.revents);
		bad++;
	}
	if (by_recv)
		bad += wants(send(fd, "", 1, MSG_NOSIGNAL), EPIPE, "send");
	return bad;
}

/*
 * An AF_UNIX peer's end is both ways at once; a TCP peer's is if this end has
 * been shut down before. The end of the ring came before the bootstrap's, and
 * was there alone for a while: POLLRDHUP without POLLHUP. With bytes unread it
 * was the error that came alone: recv() gave ECONNRESET, then EAGAIN.
 */
TEST_F_TIMEOUT(life_end, end_is_seen_in_one_step, 300)
{
	static const char *const names[BY_MAX] = {
		"close", "close with bytes unread", "shutdown",
	};
	bool tcp = self->to.sa.sa_family != AF_UNIX;
	int i, bad[BY_MAX * 2] = { 0 };

	for (i = 0; i < 80 * BY_MAX * 2; i++) {
		struct ending e = { .by = i % BY_MAX };
		bool by_recv = i / BY_MAX & 1;
		pthread_t t;
		int fd[2];

		ASSERT_TRUE(pair(self->listener, &self->to, &fd[0], &fd[1]));
		e.fd = fd[i / BY_MAX / 2 & 1];
		fd[0] = fd[0] + fd[1] - e.fd;
		if (e.by == BY_UNREAD)
			ASSERT_EQ(1, send(fd[0], "", 1, 0));
		if (tcp)
			ASSERT_EQ(0, shutdown(fd[0], SHUT_WR));
		ASSERT_EQ(0, pthread_create(&t, NULL, ends, &e));
		bad[i % (BY_MAX * 2)] += !!one_step(fd[0], &e, by_recv);
		pthread_join(t, NULL);
		close(fd[0]);
		if (e.by == BY_SHUTDOWN)
			close(e.fd);
	}
	for (i = 0; i < BY_MAX * 2; i++) {
		EXPECT_EQ(0, bad[i]) {
			TH_LOG("%s seen by %s: %d", names[i % BY_MAX],
			       i / BY_MAX ? "recv" : "poll", bad[i]);
		}
	}
}

/*
 * A thread sleeps in accept() without a client, and the listener is shut down.
 */
TEST_F_TIMEOUT(life_end, shutdown_while_accepting, 120)
{
	int status;
	pid_t pid;

	close(self->c);
	close(self->s);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid)
		_exit(accept(self->listener, NULL, NULL) < 0 &&
		      errno == EINVAL ? 0 : 1);
	ASSERT_TRUE(l5_wait_asleep(pid));
	ASSERT_EQ(0, shutdown(self->listener, SHUT_RDWR));
	status = l5_reap(pid);
	EXPECT_EQ(0, status);
}

/* A process asleep in connect(), to where nobody answers, dies at once. */
TEST_F_TIMEOUT(life_end, kill_while_connecting, 120)
{
	struct addr a = addr_parse("10.66.0.9:1000");
	pid_t pid;
	int i;

	if (self->to.sa.sa_family == AF_UNIX)
		SKIP(return, "no TCP");
	ASSERT_TRUE(net_unshare());
	ASSERT_EQ(0, sh("ip link add d0 type dummy && ip link set d0 up && "
			"ip addr add 10.66.0.1/24 dev d0 && "
			"ip neigh add 10.66.0.9 dev d0 "
			"lladdr 02:00:00:00:00:09"));
	for (i = 0; i < 5; i++) {
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			end_connect(END_L5, &a);
			_exit(1);
		}
		ASSERT_TRUE(l5_wait_asleep(pid));
		kill(pid, SIGKILL);
		EXPECT_EQ(SIGKILL, l5_reap(pid));
	}
	EXPECT_TRUE(end_stat_reaches("pairs", 0));
}

/*
 * Traffic without end in both directions, until the other side is gone: 0 if
 * all bytes were right and it ended as TCP ends.
 */
static int chat(int fd, unsigned int seed)
{
	uint64_t sent = 0, got = 0;
	uint8_t buf[8192];
	bool out = true;

	for (;;) {
		struct pollfd p = {
			.fd = fd,
			.events = POLLIN | (out ? POLLOUT : 0),
		};
		ssize_t n;

		if (poll(&p, 1, LONG_MS) != 1)
			return 1;
		if (p.revents & POLLOUT) {
			n = 1 + rand_r(&seed) % sizeof(buf);
			l5_fill(buf, n, sent);
			n = send(fd, buf, n, MSG_DONTWAIT | MSG_NOSIGNAL);
			if (n > 0)
				sent += n;
			else if (errno == EPIPE || errno == ECONNRESET)
				out = false;
			else if (errno != EAGAIN)
				return 2;
		}
		if (p.revents & (POLLIN | POLLHUP | POLLERR)) {
			n = recv(fd, buf, 1 + rand_r(&seed) % sizeof(buf),
				 MSG_DONTWAIT);
			if (!n || (n < 0 && errno == ECONNRESET))
				return 0;
			if (n < 0 && errno != EAGAIN)
				return 3;
			if (n > 0 && l5_check(buf, n, got) >= 0)
				return 4;
			if (n > 0)
				got += n;
		}
	}
}

TEST_F_TIMEOUT(life_end, kill_in_traffic, 600)
{
	unsigned int seed = 1, i, j;

	for (i = 0; i < 60; i++) {
		int fd[2], status;
		pid_t pid[2];

		ASSERT_TRUE(pair(self->listener, &self->to, &fd[0], &fd[1]));
		for (j = 0; j < 2; j++) {
			pid[j] = fork();
			ASSERT_LE(0, pid[j]);
			if (!pid[j]) {
				close(fd[!j]);
				_exit(chat(fd[j], i));
			}
		}
		close(fd[0]);
		close(fd[1]);
		usleep(rand_r(&seed) % (i % 3 ? 20000 : 100000));
		kill(pid[i & 1], SIGKILL);
		EXPECT_EQ(SIGKILL, l5_reap(pid[i & 1]));
		status = l5_reap(pid[!(i & 1)]);
		EXPECT_EQ(0, status) {
			TH_LOG("survivor %u: %s (%x)", i,
			       status == -1 ? "hangs" : "wrong", status);
		}
	}
}

TEST_F_TIMEOUT(life_end, never_accepted_but_read, 120)
{
	int i, c, s, err;

	for (i = 0; i < 50; i++) {
		size_t n = 1 + i * 500;

		c = end_connect(END_L5, &self->to);
		ASSERT_LE(0, c);
		ASSERT_TRUE(end_put(c, n, i));
		close(c);
		s = accept(self->listener, NULL, NULL);
		ASSERT_LE(0, s);
		EXPECT_EQ((int64_t)n, end_drain(s, i, &err));
		EXPECT_EQ(0, err);
		close(s);
	}
}

/* The listener goes with children that nobody accepted. */
TEST_F_TIMEOUT(life_end, listener_closed_with_pending, 120)
{
	enum { COUNT = 30 };
	int c[COUNT], i, round, n;
	char b;

	for (round = 0; round < 4; round++) {
		for (i = 0; i < COUNT; i++) {
			c[i] = end_connect(END_L5, &self->to);
			ASSERT_LE(0, c[i]);
			if (i % 2)
				ASSERT_TRUE(end_put(c[i], 1000, 0));
		}
		if (round & 1)
			ASSERT_EQ(0, shutdown(self->listener, SHUT_RDWR));
		close(self->listener);
		for (i = 0; i < COUNT; i++) {
			ASSERT_TRUE(end_poll(c[i], POLLIN) &
				    (POLLIN | POLLHUP | POLLERR));
			n = recv(c[i], &b, 1, 0);
			ASSERT_EQ(-1, n);
			ASSERT_EQ(ECONNRESET, errno);
			close(c[i]);
		}
		self->listener = end_listen(END_L5, &self->to);
		ASSERT_LE(0, self->listener);
	}
	close(self->c);
	close(self->s);
	EXPECT_TRUE(end_stat_reaches("pairs", 0));
}

/* Connect and talk: whatever comes of it, no call may hang or lie. */
static int hammer(const struct addr *to, int until)
{
	int64_t end = l5_now_ms() + LONG_MS;
	unsigned int i;
	char stop;

	for (i = 0; read(until, &stop, 1) < 0; i++) {
		int c = end_connect(END_L5, to);
		uint8_t buf[100];
		ssize_t n;

		if (l5_now_ms() > end)
			return 4;
		if (c < 0) {
			if (c != -ECONNREFUSED && c != -ECONNRESET &&
			    c != -ENOENT)
				return 1;
			continue;
		}
		l5_fill(buf, sizeof(buf), 0);
		send(c, buf, sizeof(buf), MSG_NOSIGNAL);
		if (!end_poll(c, POLLIN))
			return 2;
		n = recv(c, buf, sizeof(buf), MSG_DONTWAIT);
		if (n > 0 && l5_check(buf, n, 7) >= 0)
			return 3;
		close(c);
	}
	return 0;
}

static void serve_for_ever(struct addr to)
{
	int l = end_listen(END_L5, &to);

	for (;;) {
		int s = accept(l, NULL, NULL);

		if (s < 0)
			_exit(1);
		end_put(s, 50, 7);
		end_get(s, 100, 0);
		close(s);
	}
}

/* A server that is killed and comes back, under load all the time. */
TEST_F_TIMEOUT(life_end, server_killed_under_load, 300)
{
	enum { CLIENTS = 3 };
	unsigned int seed = 3, i;
	pid_t client[CLIENTS], server;
	int gate[2];

	close(self->c);
	close(self->s);
	close(self->listener);
	ASSERT_EQ(0, pipe2(gate, O_NONBLOCK));
	for (i = 0; i < CLIENTS; i++) {
		client[i] = fork();
		ASSERT_LE(0, client[i]);
		if (!client[i]) {
			close(gate[1]);
			_exit(hammer(&self->to, gate[0]));
		}
	}
	for (i = 0; i < 15; i++) {
		server = fork();
		ASSERT_LE(0, server);
		if (!server) {
			close(gate[1]);
			serve_for_ever(self->to);
		}
		usleep(20000 + rand_r(&seed) % 200000);
		kill(server, SIGKILL);
		EXPECT_EQ(SIGKILL, l5_reap(server));
	}
	close(gate[1]);
	for (i = 0; i < CLIENTS; i++)
		EXPECT_EQ(0, l5_reap(client[i]));
	EXPECT_TRUE(end_stat_reaches("pairs", 0));
	EXPECT_TRUE(end_stat_reaches("rings_kb", 0));
	EXPECT_TRUE(end_stat_reaches("reserved_kb", 0));
}

TEST_F_TIMEOUT(life_end, listen_shutdown_listen, 120)
{
	int i, c, s;

	if (self->to.sa.sa_family == AF_UNIX)
		SKIP(return, "AF_UNIX cannot listen again");
	for (i = 0; i < 20; i++) {
		ASSERT_EQ(0, shutdown(self->listener, SHUT_RD));
		c = end_connect(END_L5, &self->to);
		ASSERT_EQ(-ECONNREFUSED, c);
		ASSERT_EQ(-1, accept(self->listener, NULL, NULL));
		ASSERT_EQ(EINVAL, errno);
		ASSERT_EQ(0, listen(self->listener, 10));
		/* a port that the kernel chose is chosen again */
		self->to.len = sizeof(self->to.ss);
		ASSERT_EQ(0, getsockname(self->listener, &self->to.sa,
					 &self->to.len));
		ASSERT_TRUE(pair(self->listener, &self->to, &c, &s));
		ASSERT_TRUE(end_exchange(c, s, 2000, i));
		close(c);
		close(s);
	}
}

/* Several accept, one shuts the listener, connections keep coming. */
TEST_F_TIMEOUT(life_end, accept_races_shutdown, 300)
{
	int round, i;

	for (round = 0; round < 15; round++) {
		struct addr to = addr_parse("127.0.0.1:0");
		unsigned int seed = round;
		pid_t pid[3], client;
		int l, gate[2];

		if (self->to.sa.sa_family == AF_UNIX)
			to = addr_parse("abstract:l5_life_race");
		l = end_listen(END_L5, &to);
		ASSERT_LE(0, l);
		ASSERT_EQ(0, pipe2(gate, O_NONBLOCK));
		for (i = 0; i < 3; i++) {
			pid[i] = fork();
			ASSERT_LE(0, pid[i]);
			if (!pid[i]) {
				int s;

				while ((s = accept(l, NULL, NULL)) >= 0) {
					end_put(s, 50, 7);
					close(s);
				}
				_exit(errno == EINVAL ? 0 : 1);
			}
		}
		client = fork();
		ASSERT_LE(0, client);
		if (!client) {
			close(gate[1]);
			_exit(hammer(&to, gate[0]));
		}
		usleep(5000 + rand_r(&seed) % 50000);
		shutdown(l, SHUT_RDWR);
		for (i = 0; i < 3; i++)
			EXPECT_EQ(0, l5_reap(pid[i]));
		close(l);
		close(gate[1]);
		EXPECT_EQ(0, l5_reap(client));
		close(gate[0]);
	}
	close(self->c);
	close(self->s);
	EXPECT_TRUE(end_stat_reaches("pairs", 0));
}

TEST_F_TIMEOUT(life_end, fork_keeps_it, 120)
{
	int status, err;
	pid_t pid;

	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		close(self->c);
		_exit(end_get(self->s, 5000, 0) && end_put(self->s, 5000, 0) ?
		      0 : 1);
	}
	close(self->s);
	ASSERT_TRUE(end_put(self->c, 5000, 0));
	EXPECT_EQ(5000, end_drain(self->c, 0, &err));
	EXPECT_EQ(0, err);
	status = l5_reap(pid);
	EXPECT_EQ(0, status);
}

TEST_F_TIMEOUT(life_end, exec_keeps_it, 120)
{
	int status, err;
	pid_t pid;

	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		close(self->c);
		if (dup2(self->s, 0) == 0 && dup2(self->s, 1) == 1)
			execlp("cat", "cat", NULL);
		_exit(1);
	}
	close(self->s);
	ASSERT_TRUE(end_put(self->c, 20000, 0));
	ASSERT_TRUE(end_get(self->c, 20000, 0));
	ASSERT_EQ(0, shutdown(self->c, SHUT_WR));
	EXPECT_EQ(0, end_drain(self->c, 0, &err));
	EXPECT_EQ(0, err);
	status = l5_reap(pid);
	EXPECT_EQ(0, status);
}

TEST_F_TIMEOUT(life_end, dup_keeps_it, 120)
{
	int d = dup(self->s), err;

	ASSERT_LE(0, d);
	close(self->s);
	ASSERT_TRUE(end_exchange(self->c, d, 5000, 0));
	EXPECT_EQ(L5_TRANSPORT_SHM, l5_transport(d));
	close(d);
	EXPECT_EQ(0, end_drain(self->c, 0, &err));
}

/* In flight over AF_UNIX, the socket lives; lost in flight, it is closed. */
TEST_F_TIMEOUT(life_end, passed_in_flight, 120)
{
	int sp[2], i, c, s, err;

	for (i = 0; i < 20; i++) {
		ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sp));
		ASSERT_TRUE(pair(self->listener, &self->to, &c, &s));
		ASSERT_TRUE(end_put(c, 3000, 0));
		ASSERT_TRUE(end_pass(sp[0], s));
		close(s);
		ASSERT_TRUE(end_put(c, 3000, 3000));
		if (i & 1) {
			s = end_take(sp[1]);
			ASSERT_LE(0, s);
			ASSERT_TRUE(end_get(s, 6000, 0));
			ASSERT_TRUE(end_exchange(c, s, 3000, 0));
			close(s);
			EXPECT_EQ(0, end_drain(c, 0, &err));
		}
		close(sp[0]);
		close(sp[1]);
		/* bytes were not read: the end may be a reset */
		EXPECT_EQ(0, end_drain(c, 0, &err));
		EXPECT_TRUE(err == 0 || err == ECONNRESET);
		close(c);
	}
}

/* Both ends in flight in each other's hands, then all is dropped. */
TEST_F_TIMEOUT(life_end, both_ends_lost_in_flight, 120)
{
	int sp[2];

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sp));
	ASSERT_TRUE(end_put(self->c, 3000, 0));
	ASSERT_TRUE(end_pass(sp[0], self->s));
	ASSERT_TRUE(end_pass(sp[1], self->c));
	close(self->c);
	close(self->s);
	close(sp[0]);
	close(sp[1]);
	EXPECT_TRUE(end_stat_reaches("pairs", 0));
	EXPECT_TRUE(end_stat_reaches("rings_kb", 0));
	EXPECT_TRUE(end_stat_reaches("reserved_kb", 0));
}

TEST_HARNESS_MAIN
