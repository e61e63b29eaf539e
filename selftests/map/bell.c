// SPDX-License-Identifier: GPL-2.0
/*
 * A process that mapped its end and may not make ioctl(), since a filter of
 * system calls says so: what it publishes, or takes, wakes a peer that sleeps
 * in the kernel as soon as it makes a call that every program makes: a send of
 * no bytes, or one that waits.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "mapping.h"

FIXTURE(map_bell)
{
	int fd[2];
	struct mapping m;
};

FIXTURE_VARIANT(map_bell)
{
	const char *at;
};

FIXTURE_VARIANT_ADD(map_bell, inet)
{
	.at = "127.0.0.1:0",
};

FIXTURE_VARIANT_ADD(map_bell, unix)
{
	.at = "abstract:l5_map_bell",
};

FIXTURE_SETUP(map_bell)
{
	signal(SIGPIPE, SIG_DFL);
	ASSERT_TRUE(map_begin(variant->at, 64, self->fd));
	ASSERT_EQ(0, mapping_open(&self->m, self->fd[0]));
	/* each ioctl() of it fails */
	self->m.fd = -1;
}

FIXTURE_TEARDOWN(map_bell)
{
	mapping_close(&self->m);
	close(self->fd[0]);
	close(self->fd[1]);
}

/* Calls that ring. */
enum way {
	BY_WRITE, BY_SEND, BY_FLAG, BY_READ, BY_POLL, WAYS,
};

/* What the sleeper received meanwhile, or -1. */
static int rings(int fd, enum way way)
{
	struct timeval t = { .tv_usec = 10000 };
	struct pollfd p = { .fd = fd, .events = POLLIN };
	ssize_t n;
	char c;

	switch (way) {
	case BY_WRITE:
		return write(fd, "", 0);
	case BY_SEND:
		return send(fd, "", 0, MSG_NOSIGNAL);
	case BY_FLAG:
		return send(fd, "", 0, L5_MSG_BELL | MSG_NOSIGNAL);
	case BY_READ:
		if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)))
			return -1;
		n = recv(fd, &c, 1, 0);
		return n < 0 && errno == EAGAIN ? 0 : n;
	default:
		return poll(&p, 1, 10) < 0 ? -1 : 0;
	}
}

/**
 * struct sleeper - a thread in a call that waits
 * @thread: the thread
 * @fd: on which socket
 * @sends: the call sends; else it receives
 * @tid: its number, once it runs
 * @moved: what the call returned, or 0 as long as it has not
 */
struct sleeper {
	pthread_t thread;
	int fd;
	bool sends;
	pid_t tid;
	ssize_t moved;
};

static char big[1 << 20];

static void *sleep_in_call(void *arg)
{
	struct sleeper *s = arg;
	ssize_t n;
	char c;

	__atomic_store_n(&s->tid, gettid(), __ATOMIC_RELEASE);
	if (s->sends)
		n = send(s->fd, big, sizeof(big), MSG_NOSIGNAL);
	else
		n = recv(s->fd, &c, 1, 0);
	__atomic_store_n(&s->moved, n ?: -1, __ATOMIC_RELEASE);
	return NULL;
}

static bool sleeper_begin(struct sleeper *s, int fd, bool sends)
{
	*s = (struct sleeper){ .fd = fd, .sends = sends };
	return !pthread_create(&s->thread, NULL, sleep_in_call, s) &&
	       UNTIL(__atomic_load_n(&s->tid, __ATOMIC_ACQUIRE)) &&
	       l5_wait_asleep(s->tid);
}

TEST_F_TIMEOUT(map_bell, for_data, 300)
{
	struct sleeper s;
	enum way way;

	for (way = 0; way < WAYS; way++) {
		TH_LOG("way %d", way);
		ASSERT_TRUE(sleeper_begin(&s, self->fd[1], false));
		ASSERT_EQ(1, mapping_put(&self->m, "x", 1));
		ASSERT_EQ(0, rings(self->fd[0], way));
		ASSERT_TRUE(UNTIL(__atomic_load_n(&s.moved,
						  __ATOMIC_ACQUIRE)));
		ASSERT_EQ(1, s.moved);
		pthread_join(s.thread, NULL);
	}
}

TEST_F_TIMEOUT(map_bell, for_room, 300)
{
	struct sleeper s;
	enum way way;
	int64_t left, end;
	ssize_t n;

	for (way = 0; way < WAYS; way++) {
		TH_LOG("way %d", way);
		ASSERT_TRUE(sleeper_begin(&s, self->fd[1], true));
		end = l5_now_ms() + MAP_LONG_MS;
		for (left = sizeof(big); left;) {
			n = mapping_get(&self->m, big, sizeof(big));
			ASSERT_LE(0, n);
			left -= n;
			if (n)
				continue;
			n = rings(self->fd[0], way);
			ASSERT_LE(0, n);
			left -= n;
			ASSERT_GT(end, l5_now_ms());
		}
		ASSERT_TRUE(UNTIL(__atomic_load_n(&s.moved,
						  __ATOMIC_ACQUIRE)));
		ASSERT_EQ((ssize_t)sizeof(big), s.moved);
		pthread_join(s.thread, NULL);
	}
}

/* The doorbell for libraries says nothing of errors, and takes none. */
TEST_F_TIMEOUT(map_bell, flag_is_silent, 120)
{
	struct sleeper s;
	char c;

	/* this end sends no more, and reads what the peer waits to write */
	ASSERT_EQ(0, shutdown(self->fd[0], SHUT_WR));
	ASSERT_EQ(0, recv(self->fd[1], &c, 1, 0));
	ASSERT_TRUE(sleeper_begin(&s, self->fd[1], true));
	while (!__atomic_load_n(&s.moved, __ATOMIC_ACQUIRE)) {
		ASSERT_LE(0, mapping_get(&self->m, big, sizeof(big)));
		ASSERT_EQ(0, send(self->fd[0], "", 0,
				  L5_MSG_BELL | MSG_NOSIGNAL));
	}
	ASSERT_EQ((ssize_t)sizeof(big), s.moved);
	pthread_join(s.thread, NULL);
	/* as without a filter: TCP's answer to a program that asks for it */
	ASSERT_EQ(-1, send(self->fd[0], "", 0, MSG_NOSIGNAL));
	ASSERT_EQ(EPIPE, errno);
	/* a reset is for the program's own calls */
	if (!strcmp(variant->at, "127.0.0.1:0")) {
		struct linger now = { .l_onoff = 1 };

		ASSERT_EQ(0, setsockopt(self->fd[1], SOL_SOCKET, SO_LINGER,
					&now, sizeof(now)));
		close(self->fd[1]);
		self->fd[1] = -1;
		ASSERT_TRUE(end_poll(self->fd[0], POLLERR) & POLLERR);
		ASSERT_EQ(0, send(self->fd[0], "", 0,
				  L5_MSG_BELL | MSG_NOSIGNAL));
		ASSERT_NE(0, end_poll(self->fd[0], POLLIN) & POLLERR);
	}
}

/*
 * A writer rings for bytes that its peer has read already, and the peer is
 * closed: nothing was lost, so it is no reset.
 */
TEST_F_TIMEOUT(map_bell, for_what_was_read, 120)
{
	struct pollfd p = { .fd = self->fd[0], .events = POLLIN };
	int i, err = -1;
	socklen_t len = sizeof(err);
	char c;

	ASSERT_EQ(1, mapping_put(&self->m, "x", 1));
	ASSERT_EQ(1, recv(self->fd[1], &c, 1, 0));
	close(self->fd[1]);
	self->fd[1] = -1;
	ASSERT_EQ(1, poll(&p, 1, -1));
	for (i = 0; i < 3; i++)
		ASSERT_EQ(0, ioctl(self->fd[0], L5_IOC_DOORBELL, L5_BELL_DATA));
	ASSERT_EQ(0, send(self->fd[0], "", 0, L5_MSG_BELL | MSG_NOSIGNAL));
	ASSERT_EQ(1, poll(&p, 1, -1));
	EXPECT_EQ(0, p.revents & POLLERR);
	ASSERT_EQ(0, getsockopt(self->fd[0], SOL_SOCKET, SO_ERROR, &err, &len));
	EXPECT_EQ(0, err);
	EXPECT_EQ(0, recv(self->fd[0], &c, 1, 0));
}

/**
 * struct ringer - threads that ring as fast as they can, without news
 * @thread: the threads
 * @fd: on which socket
 * @stop: told by the test
 * @ended: a thread gave up by itself
 */
struct ringer {
	pthread_t thread[2];
	int fd;
	bool stop;
	bool ended;
};

static void *ring_for_nothing(void *arg)
{
	struct ringer *r = arg;
	int64_t end = l5_now_ms() + MAP_LONG_MS;

	while (!__atomic_load_n(&r->stop, __ATOMIC_RELAXED)) {
		ioctl(r->fd, L5_IOC_DOORBELL, L5_BELL_DATA | L5_BELL_ROOM);
		if (l5_now_ms() > end) {
			__atomic_store_n(&r->ended, true, __ATOMIC_RELAXED);
			break;
		}
	}
	return NULL;
}

/* A call that is woken for nothing, again and again, keeps its time-out. */
TEST_F_TIMEOUT(map_bell, for_nothing, 300)
{
	struct timeval t = { .tv_usec = 100000 };
	struct ringer r = { .fd = self->fd[0] };
	char c;
	int i;

	ASSERT_EQ(0, setsockopt(self->fd[1], SOL_SOCKET, SO_RCVTIMEO, &t,
				sizeof(t)));
	ASSERT_EQ(0, setsockopt(self->fd[1], SOL_SOCKET, SO_SNDTIMEO, &t,
				sizeof(t)));
	while (send(self->fd[1], big, sizeof(big), MSG_DONTWAIT) > 0)
		;
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, pthread_create(&r.thread[i], NULL,
					    ring_for_nothing, &r));
	for (i = 0; i < 10; i++) {
		ASSERT_EQ(-1, recv(self->fd[1], &c, 1, 0));
		ASSERT_EQ(EAGAIN, errno);
		ASSERT_EQ(-1, send(self->fd[1], big, 1, 0));
		ASSERT_EQ(EAGAIN, errno);
		ASSERT_FALSE(__atomic_load_n(&r.ended, __ATOMIC_RELAXED)) {
			TH_LOG("round %d took as long as the ringing", i);
		}
	}
	__atomic_store_n(&r.stop, true, __ATOMIC_RELAXED);
	for (i = 0; i < 2; i++)
		pthread_join(r.thread[i], NULL);
}

TEST_HARNESS_MAIN
