// SPDX-License-Identifier: GPL-2.0
/*
 * The preload library over RDMA: what begins on TCP is mapped later, while it
 * is in use. Both ends are here, connected by the address of a software device.
 */
#define SHIM	shim_rdma_none
#include "shim.h"

#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/uio.h>

#include "rdma_here.h"
#include "stream.h"

enum { CONNS = 8 };

/* Before shim_again(), which runs all of this again. */
__attribute__((constructor(101))) static void ask_for_rdma(void)
{
	setenv("L5_TRANSPORT", "rdma", 0);
}

static bool far_listen(int *l, struct sockaddr_in *sa)
{
	socklen_t len = sizeof(*sa);

	*sa = (struct sockaddr_in){ .sin_family = AF_INET };
	inet_pton(AF_INET, RDMA_HERE, &sa->sin_addr);
	*l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	return *l >= 0 && !bind(*l, (struct sockaddr *)sa, len) &&
	       !listen(*l, 64) && !getsockname(*l, (struct sockaddr *)sa, &len);
}

static bool far_connect(int l, const struct sockaddr_in *sa, int *a, int *b)
{
	*a = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (*a < 0 || connect(*a, (struct sockaddr *)sa, sizeof(*sa)))
		return false;
	*b = accept(l, NULL, NULL);
	return *b >= 0;
}

/* The listener stays open: it is what answers for RDMA. */
static bool far_pair(int *a, int *b)
{
	struct sockaddr_in sa;
	int l;

	return far_listen(&l, &sa) && far_connect(l, &sa, a, b);
}

#define FAR_TEST(name)	TEST_F_TIMEOUT(shim_rdma, name, 400)

FIXTURE(shim_rdma) { };

FIXTURE_SETUP(shim_rdma)
{
	(void)self;
	signal(SIGPIPE, SIG_IGN);
	if (!rdma_here())
		SKIP(return, "no RDMA device can be made here");
}

FIXTURE_TEARDOWN(shim_rdma)
{
	(void)self;
	(void)_metadata;
}

/* Both ends are mapped, and the library has noticed. */
static bool mapped_pair(int *a, int *b)
{
	int before = shim_maps(), i;
	char c;

	if (!far_pair(a, b) || !rdma_moved(*a) || !rdma_moved(*b))
		return false;
	for (i = 0; i < 200 && shim_maps() < before + 2; i++)
		if (write(*a, "w", 1) != 1 || read(*b, &c, 1) != 1 ||
		    write(*b, "v", 1) != 1 || read(*a, &c, 1) != 1)
			return false;
	return shim_maps() == before + 2;
}

/* The socket is asked about again after 1, 2, 4 and at most 64 calls. */
FAR_TEST(later)
{
	int a, b, i, last = 0, tries;
	char c;

	for (tries = 0; tries < 5; tries++) {
		int before = shim_maps();

		ASSERT_TRUE(far_pair(&a, &b));
		/* a few on TCP, perhaps, so that it is in the midst of it */
		for (i = 0; i < tries * 10; i++) {
			ASSERT_EQ(1, write(a, "w", 1));
			ASSERT_EQ(1, read(b, &c, 1));
		}
		ASSERT_TRUE(rdma_moved(a));
		ASSERT_TRUE(rdma_moved(b));
		for (i = 0; i < 80 && shim_maps() < before + 2; i++) {
			ASSERT_EQ(1, write(a, "w", 1));
			ASSERT_EQ(1, read(b, &c, 1));
		}
		ASSERT_EQ(before + 2, shim_maps());
		last = i > last ? i : last;
		close(a);
		close(b);
	}
	TH_LOG("mapped after %d calls at most", last);
}

/* A connection that will never move is not mapped, and works. */
FAR_TEST(never)
{
	int a, b, i;
	char c;

	ASSERT_TRUE(shim_pair(L5, &a, &b));
	for (i = 0; i < 300; i++) {
		ASSERT_EQ(1, write(a, "w", 1));
		ASSERT_EQ(1, read(b, &c, 1));
	}
	EXPECT_EQ(L5_TRANSPORT_BASE, l5_transport(a));
	EXPECT_EQ(0, shim_maps());
}

static bool there(struct stream *s)
{
	return l5_getopt(s->fd, L5_TRANSPORT) == L5_TRANSPORT_RDMA;
}

static ssize_t send_some(struct stream *s, uint8_t *buf, size_t len)
{
	struct iovec v[2] = {
		{ buf, len / 3 }, { buf + len / 3, len - len / 3 },
	};
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };
	ssize_t n;

	switch (l5_rnd(&s->seed) % 5) {
	case 0:
		n = write(s->fd, buf, len);
		break;
	case 1:
		n = writev(s->fd, v, 2);
		break;
	case 2:
		n = send(s->fd, buf, len, MSG_NOSIGNAL);
		break;
	case 3:
		n = sendmsg(s->fd, &m, MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN)
			n = 0;
		break;
	default:
		n = raw_write(s->fd, buf, len);
		break;
	}
	return n;
}

static ssize_t recv_some(struct stream *s, uint8_t *buf, size_t len)
{
	struct pollfd p = { .fd = s->fd, .events = POLLIN };
	struct iovec v[2] = {
		{ buf, len / 3 }, { buf + len / 3, len - len / 3 },
	};
	ssize_t n;

	switch (l5_rnd(&s->seed) % 6) {
	case 0:
		n = read(s->fd, buf, len);
		break;
	case 1:
		n = readv(s->fd, v, 2);
		break;
	case 2:
		n = recv(s->fd, buf, len, MSG_WAITALL);
		break;
	case 3:
		n = recv(s->fd, buf, len, MSG_PEEK);
		if (n > 0)
			n = recv(s->fd, buf, n, MSG_WAITALL);
		break;
	case 4:
		poll(&p, 1, -1);
		n = recv(s->fd, buf, len, MSG_DONTWAIT);
		break;
	default:
		n = raw_read(s->fd, buf, len);
		break;
	}
	return n;
}

FAR_TEST(streams)
{
	struct stream s[4];
	pthread_t t[4];
	int i, a, b;

	ASSERT_TRUE(far_pair(&a, &b));
	for (i = 0; i < 4; i++) {
		s[i] = (struct stream){
			.move = i % 2 ? recv_some : send_some,
			.fd = i == 0 || i == 3 ? a : b, .most = 20000,
			.seed = i + 1,
		};
		if (!(i % 2)) {
			s[i].there = there;
			s[i].total = 1 << 20;
			s[i].shuts = true;
		}
		pthread_create(&t[i], NULL, i % 2 ? stream_recv : stream_send,
			       &s[i]);
	}
	for (i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	for (i = 0; i < 4; i++)
		EXPECT_EQ(0, s[i].err);
	EXPECT_EQ(s[0].at, s[1].at);
	EXPECT_EQ(s[2].at, s[3].at);
	EXPECT_EQ(0, s[1].bad + s[3].bad);
	EXPECT_EQ(2, shim_maps());
	EXPECT_EQ(L5_TRANSPORT_RDMA, l5_transport(s[0].fd));
}

/* A server with epoll and clients of it, on connections that move meanwhile */
struct server {
	int ep;
	int l;
	uint32_t events;
	int served;
	int closed;
	int bad;
};

static void *serve(void *arg)
{
	struct epoll_event ev = { .events = EPOLLIN }, got[CONNS];
	struct server *s = arg;
	char buf[600];
	int i, n, fd;
	ssize_t len;

	s->ep = epoll_create1(EPOLL_CLOEXEC);
	ev.data.fd = s->l;
	epoll_ctl(s->ep, EPOLL_CTL_ADD, s->l, &ev);
	while (s->closed < CONNS) {
		n = epoll_wait(s->ep, got, CONNS, 60000 * l5_slow());
		s->bad += n <= 0;
		if (n <= 0)
			break;
		for (i = 0; i < n; i++) {
			fd = got[i].data.fd;
			if (fd == s->l) {
				fd = accept4(s->l, NULL, NULL, SOCK_NONBLOCK);
				ev.events = s->events;
				ev.data.fd = fd;
				epoll_ctl(s->ep, EPOLL_CTL_ADD, fd, &ev);
				continue;
			}
			while ((len = read(fd, buf, sizeof(buf))) > 0) {
				s->bad += write(fd, buf, len) != len;
				s->served++;
			}
			if (!len || errno != EAGAIN) {
				s->bad += !!len;
				s->closed++;
				close(fd);
			}
		}
	}
	close(s->ep);
	return NULL;
}

static void serve_clients(struct __test_metadata *_metadata, uint32_t events)
{
	struct server s = { .events = events };
	char out[500], in[500];
	int fd[CONNS], i, k, turn, maps = 0;
	struct sockaddr_in sa;
	pthread_t t;
	size_t len;

	ASSERT_TRUE(far_listen(&s.l, &sa));
	pthread_create(&t, NULL, serve, &s);
	for (i = 0; i < CONNS; i++) {
		fd[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		ASSERT_EQ(0, connect(fd[i], (struct sockaddr *)&sa,
				     sizeof(sa)));
	}
	for (turn = 0; turn < 4000 && (turn < 300 || maps < 2 * CONNS);
	     turn++) {
		/* from here on mapped ones count */
		for (i = 0; turn == 300 && i < CONNS; i++)
			ASSERT_TRUE(rdma_moved(fd[i]));
		for (k = 0; k <= turn % 3; k++) {
			i = (turn * 5 + k) % CONNS;
			len = 1 + turn * 7 % sizeof(out);
			l5_fill(out, len, turn + i);
			ASSERT_EQ((ssize_t)len, write(fd[i], out, len));
		}
		for (k = 0; k <= turn % 3; k++) {
			i = (turn * 5 + k) % CONNS;
			ASSERT_EQ((ssize_t)len,
				  recv(fd[i], in, len, MSG_WAITALL));
			ASSERT_EQ(-1, l5_check(in, len, turn + i));
		}
		if (!(turn % 50))
			maps = shim_maps();
	}
	TH_LOG("%d ends mapped after %d turns", maps, turn);
	EXPECT_EQ(2 * CONNS, maps);
	for (i = 0; i < CONNS; i++)
		close(fd[i]);
	pthread_join(t, NULL);
	EXPECT_EQ(0, s.bad);
	EXPECT_EQ(CONNS, s.closed);
	close(s.l);
}

FAR_TEST(epoll)
{
	serve_clients(_metadata, EPOLLIN);
}

FAR_TEST(epoll_edge)
{
	serve_clients(_metadata, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
}

/* Sleeping, room, and the end; by poll() and select(), blocking and not */
static void *late(void *arg)
{
	l5_wait_asleep(getpid());
	if (write(*(int *)arg, "late", 4) != 4)
		abort();
	return NULL;
}

FAR_TEST(waits)
{
	struct timeval tv = { .tv_usec = 20000 };
	size_t sent = 0, got = 0;
	static char buf[65536];
	struct pollfd p = { .events = POLLIN };
	pthread_t t;
	fd_set r;
	int64_t end;
	ssize_t n;
	int a, b, i;

	ASSERT_TRUE(mapped_pair(&a, &b));
	p.fd = a;
	ASSERT_EQ(0, poll(&p, 1, 20));
	FD_ZERO(&r);
	FD_SET(a, &r);
	ASSERT_EQ(0, select(a + 1, &r, NULL, NULL, &tv));
	for (i = 0; i < 6; i++) {
		pthread_create(&t, NULL, late, &b);
		if (i % 3 == 0) {
			ASSERT_EQ(1, poll(&p, 1, -1));
		} else if (i % 3 == 1) {
			FD_SET(a, &r);
			ASSERT_EQ(1, select(a + 1, &r, NULL, NULL, NULL));
		}
		ASSERT_EQ(4, read(a, buf, 8));
		pthread_join(t, NULL);
	}
	fcntl(a, F_SETFL, O_NONBLOCK);
	while ((n = write(a, buf, sizeof(buf))) > 0)
		sent += n;
	ASSERT_EQ(EAGAIN, errno);
	p.events = POLLOUT;
	ASSERT_EQ(0, poll(&p, 1, 50));
	while (got < sent) {
		n = read(b, buf, sizeof(buf));
		ASSERT_LT(0, n);
		got += n;
	}
	ASSERT_EQ(1, poll(&p, 1, 10000 * l5_slow()));
	ASSERT_EQ(4, write(a, "last", 4));
	close(a);
	ASSERT_EQ(4, read(b, buf, 8));
	ASSERT_EQ(0, read(b, buf, 8));
	end = l5_now_ms() + RDMA_MOVE_MS;
	while ((n = write(b, buf, 1)) == 1 && l5_now_ms() < end)
		usleep(10000);
	ASSERT_EQ(-1, n);
	ASSERT_TRUE(errno == EPIPE || errno == ECONNRESET);
	close(b);
	ASSERT_EQ(0, shim_maps());
}

/* A child of fork() goes on, and its parent after it. */
FAR_TEST(child)
{
	char buf[8];
	int a, b, status;
	pid_t pid;

	ASSERT_TRUE(mapped_pair(&a, &b));
	pid = fork();
	if (!pid) {
		if (read(b, buf, 8) != 2)
			_exit(1);
		_exit(write(b, "yes", 3) != 3);
	}
	ASSERT_EQ(2, write(a, "do", 2));
	ASSERT_EQ(3, read(a, buf, 8));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
	ASSERT_EQ(2, write(a, "me", 2));
	ASSERT_EQ(2, read(b, buf, 8));
}

TEST_HARNESS_MAIN
