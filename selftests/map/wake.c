// SPDX-License-Identifier: GPL-2.0
/*
 * Sleepers and mapped peers: a thread that sleeps in the kernel is woken by a
 * peer that does not enter it, for bytes and for room.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "map_pair.h"
#include "uring.h"

MAP_PAIR_FIXTURE(map_wake, 64)

#define FLOW_MAX	(160 << 10)

/* What a sleeper sleeps in. */
enum sleep_in {
	IN_RECV, IN_POLL, IN_SELECT, IN_EPOLL, IN_EPOLLET, IN_ONESHOT,
	IN_NESTED, IN_SIGIO, IN_URING, IN_URING_POLL, IN_ARMED, IN_MAX
};

static const char *const sleep_name[] = {
	"recv", "poll", "select", "epoll", "epoll ET", "epoll oneshot",
	"nested epoll", "SIGIO", "io_uring recv", "io_uring poll", "poll, armed"
};

struct sleeper {
	enum sleep_in in;
	int fd, ep, outer;
	struct mapping *m;
	struct io_uring uring;
	sigset_t sigio;
};

static bool sleeper_init(struct sleeper *s, int events)
{
	struct epoll_event ev = { .events = events };

	s->ep = epoll_create1(0);
	s->outer = epoll_create1(0);
	switch (s->in) {
	case IN_EPOLLET:
		ev.events |= EPOLLET;
		break;
	case IN_ONESHOT:
		ev.events |= EPOLLONESHOT;
		break;
	case IN_NESTED:
		ev.events = EPOLLIN | EPOLLET;
		if (epoll_ctl(s->outer, EPOLL_CTL_ADD, s->ep, &ev))
			return false;
		ev.events = events | EPOLLET;
		break;
	case IN_SIGIO:
		sigemptyset(&s->sigio);
		sigaddset(&s->sigio, SIGIO);
		sigprocmask(SIG_BLOCK, &s->sigio, NULL);
		return !fcntl(s->fd, F_SETOWN, getpid()) &&
		       !fcntl(s->fd, F_SETFL, O_RDWR | O_ASYNC);
	case IN_URING:
	case IN_URING_POLL:
		return !io_uring_queue_init(4, &s->uring, 0);
	default:
		break;
	}
	return !epoll_ctl(s->ep, EPOLL_CTL_ADD, s->fd, &ev);
}

/* Sleep until there may be something; a byte of it may be taken: 1. */
static int sleeper_wait(struct sleeper *s, int events, uint8_t *b)
{
	struct epoll_event ev = { .events = events | EPOLLONESHOT };
	struct pollfd p = { .fd = s->fd, .events = events };
	fd_set set;

	switch (s->in) {
	case IN_RECV:
		return recv(s->fd, b, 1, 0);
	case IN_ARMED:
		l5_wait_arm(&s->m->own->rx_wait);
		if (ioctl(s->fd, L5_IOC_ARM, L5_BELL_DATA))
			return 0;
		return poll(&p, 1, -1) == 1 ? 0 : -1;
	case IN_POLL:
		return poll(&p, 1, -1) == 1 ? 0 : -1;
	case IN_SELECT:
		FD_ZERO(&set);
		FD_SET(s->fd, &set);
		return select(s->fd + 1, events & POLLIN ? &set : NULL,
			      events & POLLOUT ? &set : NULL, NULL, NULL) == 1 ?
		       0 : -1;
	case IN_ONESHOT:
		if (epoll_ctl(s->ep, EPOLL_CTL_MOD, s->fd, &ev))
			return -1;
		return epoll_wait(s->ep, &ev, 1, -1) == 1 ? 0 : -1;
	case IN_NESTED:
		if (epoll_wait(s->outer, &ev, 1, -1) != 1)
			return -1;
		return epoll_wait(s->ep, &ev, 1, 0) < 0 ? -1 : 0;
	case IN_SIGIO:
		return sigwaitinfo(&s->sigio, NULL) == SIGIO ? 0 : -1;
	case IN_URING:
		io_uring_prep_recv(io_uring_get_sqe(&s->uring), s->fd, b, 1, 0);
		return uring_result(&s->uring);
	case IN_URING_POLL:
		io_uring_prep_poll_add(io_uring_get_sqe(&s->uring), s->fd,
				       events);
		return uring_result(&s->uring) > 0 ? 0 : -1;
	default:
		return epoll_wait(s->ep, &ev, 1, -1) == 1 ? 0 : -1;
	}
}

/* Sleeps for each message, then reads all there is. 0 when all is right. */
static int sleep_often(int fd, enum sleep_in in, bool mapped, long count,
		       uint64_t seed, volatile uint32_t *ack)
{
	struct sleeper s = { .in = in, .fd = fd };
	struct mapping m;
	uint64_t pos = 0;
	uint8_t b[256];

	alarm(MAP_LONG_MS / 1000 + 5);
	if (mapping_open(&m, fd))
		return 1;
	s.m = &m;
	if (!sleeper_init(&s, EPOLLIN))
		return 2;
	*ack = 1;
	while (pos < (uint64_t)count) {
		int n = sleeper_wait(&s, POLLIN, b);

		if (n < 0)
			return 3;
		for (;;) {
			if (n > 0 && l5_check(b, n, pos) >= 0)
				return 4;
			pos += n;
			if (mapped)
				n = mapping_get(&m, b, sizeof(b));
			else
				n = recv(fd, b, sizeof(b), MSG_DONTWAIT);
			if (n < 0 && !mapped && errno == EAGAIN)
				n = 0;
			if (n < 0)
				return 5;
			if (!n)
				break;
		}
		if (l5_rnd(&seed) % 4 == 0)
			usleep(l5_rnd(&seed) % 300);
		*ack = pos + 1;
	}
	return 0;
}

/* Each message is sent when the one before was read: none wakes for another. */
TEST_F_TIMEOUT(map_wake, doorbell_wakes, 600)
{
	volatile uint32_t *ack = map_shared(4096);
	uint64_t seed = l5_seed() | 1;
	unsigned long bells = 0;
	int k, i, status;

	for (k = 0; k < IN_MAX * 2; k++) {
		enum sleep_in in = k / 2;
		enum { COUNT = 60 };
		struct mapping m;
		int64_t end;
		uint8_t b;
		pid_t pid;

		ASSERT_TRUE(map_again(variant->at, self->fd));
		*ack = 0;
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid)
			_exit(sleep_often(self->fd[1], in, k & 1, COUNT, seed,
					  ack));
		ASSERT_EQ(0, mapping_open(&m, self->fd[0]));
		end = l5_now_ms() + MAP_LONG_MS;
		for (i = 0; i < COUNT; i++) {
			while (*ack != (uint32_t)i + 1 && l5_now_ms() < end)
				sched_yield();
			if (*ack != (uint32_t)i + 1)
				break;
			/* now while it falls asleep, now while it sleeps */
			if (l5_rnd(&seed) % 4 == 0)
				usleep(l5_rnd(&seed) % 3000);
			else if (l5_rnd(&seed) & 1)
				usleep(l5_rnd(&seed) % 100);
			l5_fill(&b, 1, i);
			ASSERT_EQ(1, mapping_put(&m, &b, 1));
		}
		EXPECT_EQ(COUNT, i) {
			TH_LOG("%s, reads %s: sleeps though %d are sent",
			       sleep_name[in], k & 1 ? "mapped" : "by recv", i);
			kill(pid, SIGKILL);
		}
		status = l5_reap(pid);
		EXPECT_EQ(0, status) {
			TH_LOG("%s: %x", sleep_name[in], status);
		}
		bells += m.bells;
		mapping_close(&m);
	}
	TH_LOG("%lu doorbells", bells);
	EXPECT_LT(0, bells);
}

/* The same for room: a writer sleeps, a mapped reader empties the ring. */
static int write_much(int fd, enum sleep_in in, bool mapped, long total)
{
	struct sleeper s = { .in = in, .fd = fd };
	static uint8_t b[5000];
	struct mapping m;
	long done = 0;

	alarm(MAP_LONG_MS / 1000 + 5);
	if (mapping_open(&m, fd))
		return 1;
	s.m = &m;
	if (in == IN_ARMED)
		s.in = IN_POLL;
	if (!sleeper_init(&s, EPOLLOUT))
		return 2;
	while (done < total) {
		long want = total - done < (long)sizeof(b) ? total - done :
			    (long)sizeof(b), n;
		int flags = MSG_NOSIGNAL | (in == IN_RECV ? 0 : MSG_DONTWAIT);

		l5_fill(b, want, done);
		if (mapped)
			n = mapping_send(&m, b, want, flags);
		else
			n = send(fd, b, want, flags);
		if (n < 0 && errno == EAGAIN) {
			if (in == IN_ARMED &&
			    ioctl(fd, L5_IOC_ARM, L5_BELL_ROOM))
				continue;
			if (sleeper_wait(&s, POLLOUT, NULL) < 0)
				return 3;
			continue;
		}
		if (n < 0)
			return 4;
		done += n;
	}
	return 0;
}

TEST_F_TIMEOUT(map_wake, room_wakes, 600)
{
	static const enum sleep_in ways[] = {
		IN_RECV, IN_POLL, IN_SELECT, IN_EPOLL, IN_EPOLLET, IN_ONESHOT,
		IN_NESTED, IN_URING_POLL, IN_SIGIO, IN_ARMED
	};
	uint64_t seed = l5_seed() | 1;
	unsigned int k;

	ASSERT_LE(0, l5_sysctl("ring_kb", 16));
	for (k = 0; k < ARRAY_SIZE(ways) * 2; k++) {
		enum { TOTAL = 400000 };
		static uint8_t b[20000];
		struct mapping m;
		uint64_t pos = 0;
		int64_t end;
		int status;
		pid_t pid;

		ASSERT_TRUE(map_again(variant->at, self->fd));
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid)
			_exit(write_much(self->fd[1], ways[k / 2], k & 1,
					 TOTAL));
		ASSERT_EQ(0, mapping_open(&m, self->fd[0]));
		end = l5_now_ms() + MAP_LONG_MS;
		while (pos < TOTAL && l5_now_ms() < end) {
			ssize_t n = mapping_get(&m, b, sizeof(b));

			ASSERT_LE(0, n);
			if (!n) {
				sched_yield();
				continue;
			}
			ASSERT_EQ(-1, l5_check(b, n, pos));
			pos += n;
			/* let it fill up and sleep, now and then */
			if (l5_rnd(&seed) % 4 == 0)
				usleep(l5_rnd(&seed) % 2000);
		}
		EXPECT_EQ(TOTAL, pos) {
			TH_LOG("%s, writes %s", sleep_name[ways[k / 2]],
			       k & 1 ? "mapped" : "by send");
			kill(pid, SIGKILL);
		}
		status = l5_reap(pid);
		EXPECT_EQ(0, status) {
			TH_LOG("%s: %x", sleep_name[ways[k / 2]], status);
		}
		mapping_close(&m);
	}
}

/* L5_IOC_ARM says what needs no waiting, and arms the rest. */
TEST_F_TIMEOUT(map_wake, arm, 120)
{
	const int both = L5_BELL_DATA | L5_BELL_ROOM;
	static uint8_t b[FLOW_MAX];
	struct mapping m, o;
	struct pollfd p;
	int fd;

	ASSERT_EQ(0, mapping_open(&m, self->fd[0]));
	ASSERT_EQ(0, mapping_open(&o, self->fd[1]));
	fd = self->fd[0];
	EXPECT_EQ(0, ioctl(fd, L5_IOC_ARM, L5_BELL_DATA));
	EXPECT_NE(0, l5_load(&m.own->rx_wait));
	EXPECT_NE(0, l5_load(&o.peer->rx_wait));
	EXPECT_EQ(L5_BELL_ROOM, ioctl(fd, L5_IOC_ARM, L5_BELL_ROOM));
	EXPECT_EQ(L5_BELL_ROOM, ioctl(fd, L5_IOC_ARM, both));
	/* the doorbell of a mapped peer clears the word, with a wake */
	ASSERT_EQ(5, mapping_put(&o, "hello", 5));
	EXPECT_EQ(0, l5_load(&m.own->rx_wait));
	EXPECT_EQ(L5_BELL_DATA, ioctl(fd, L5_IOC_ARM, L5_BELL_DATA));
	EXPECT_EQ(both, ioctl(fd, L5_IOC_ARM, both));
	p.fd = fd;
	p.events = POLLIN;
	EXPECT_EQ(1, poll(&p, 1, 0));
	ASSERT_EQ(5, mapping_get(&m, b, 100));
	EXPECT_EQ(0, ioctl(fd, L5_IOC_ARM, L5_BELL_DATA));
	/* full */
	while (mapping_put(&m, b, sizeof(b)) > 0)
		;
	EXPECT_EQ(0, ioctl(fd, L5_IOC_ARM, L5_BELL_ROOM));
	EXPECT_NE(0, l5_load(&m.own->tx_wait));
	p.events = POLLOUT;
	EXPECT_EQ(0, poll(&p, 1, 0));
	while (mapping_get(&o, b, sizeof(b)) > 0)
		;
	EXPECT_LT(0, o.bells);
	EXPECT_EQ(0, l5_load(&m.own->tx_wait));
	EXPECT_EQ(1, poll(&p, 1, 0));
	EXPECT_EQ(L5_BELL_ROOM, ioctl(fd, L5_IOC_ARM, L5_BELL_ROOM));
	/* the end needs no waiting either */
	EXPECT_EQ(0, ioctl(fd, L5_IOC_ARM, L5_BELL_DATA));
	close(self->fd[1]);
	EXPECT_TRUE(UNTIL(ioctl(fd, L5_IOC_ARM, L5_BELL_DATA) ==
			  L5_BELL_DATA));
	mapping_close(&m);
	mapping_close(&o);
	self->fd[1] = -1;
}

/* A multishot poll heard of the first message and of no other. */
TEST_F_TIMEOUT(map_wake, multishot_poll, 120)
{
	struct __kernel_timespec long_ms = { .tv_sec = MAP_LONG_MS / 1000 };
	struct io_uring_cqe *cqe;
	struct io_uring_sqe *sqe;
	struct mapping m = { 0 };
	struct io_uring ring;
	char text[8];
	int i;

	ASSERT_EQ(0, mapping_open(&m, self->fd[0]));
	if (io_uring_queue_init(8, &ring, 0))
		SKIP(return, "no io_uring");
	sqe = io_uring_get_sqe(&ring);
	io_uring_prep_poll_multishot(sqe, self->fd[1], POLLIN);
	ASSERT_EQ(1, io_uring_submit(&ring));
	for (i = 0; i < 5; i++) {
		ASSERT_EQ(3, mapping_put(&m, "abc", 3));
		ASSERT_EQ(0, io_uring_wait_cqe_timeout(&ring, &cqe, &long_ms)) {
			TH_LOG("message %d", i);
		}
		EXPECT_TRUE(cqe->res & POLLIN);
		io_uring_cqe_seen(&ring, cqe);
		/* and no more, which would arm by itself */
		ASSERT_EQ(3, recv(self->fd[1], text, 3, 0));
	}
	io_uring_queue_exit(&ring);
	mapping_close(&m);
}

TEST_HARNESS_MAIN
