// SPDX-License-Identifier: GPL-2.0
/*
 * Many tasks receive messages by one socket. Each message wakes one of them,
 * and whatever becomes of that task, no message waits while others sleep.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "ends.h"

#define LONG_MS		(40000 * l5_slow())

enum { READERS = 12, MESSAGES = 200, ROUNDS = 30 };

/* How a reader waits */
enum { SLEEPS, POLLS, LOOKS_UP, KINDS };

FIXTURE(limit_turn)
{
	int fd[2];
	uint32_t *taken;
	pid_t pid[READERS];
};

FIXTURE_SETUP(limit_turn)
{
	l5_or_skip();
	ASSERT_TRUE(net_unshare());
	ASSERT_EQ(0, socketpair(l5_family(), SOCK_SEQPACKET, L5PROTO_UNIX,
				self->fd));
	ASSERT_EQ(L5_TRANSPORT_SHM, l5_transport(self->fd[0]));
	self->taken = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->taken);
}

FIXTURE_TEARDOWN(limit_turn)
{
	(void)_metadata;
	close(self->fd[0]);
	close(self->fd[1]);
	munmap(self->taken, 4096);
}

/* Receive one: 1, 0 at the end, -1 with errno. */
static int take_one(int fd, int kind)
{
	const struct timespec once = { .tv_nsec = 2000000 };
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char b[8];
	int n;

	do {
		if (kind == POLLS && ppoll(&p, 1, &once, NULL) < 0)
			return -1;
		n = recv(fd, b, sizeof(b), kind == POLLS ? MSG_DONTWAIT : 0);
	} while (n < 0 && errno == EAGAIN);
	return n < 0 ? -1 : n > 0;
}

/* A process that takes @most messages, then does nothing more until the end */
static pid_t reader(const int fd[2], uint32_t *taken, int kind, int most)
{
	const struct timeval soon = { .tv_usec = 3000 };
	pid_t pid = fork();
	int n = 0;

	if (pid)
		return pid;
	close(fd[0]);
	/* it looks again and again, between sleeps */
	if (kind == LOOKS_UP &&
	    setsockopt(fd[1], SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof(soon)))
		_exit(1);
	for (; most; most--) {
		n = take_one(fd[1], kind);
		if (n <= 0)
			break;
		__atomic_fetch_add(taken, 1, __ATOMIC_SEQ_CST);
	}
	while (!most)
		pause();
	_exit(n < 0);
}

static bool send_some(int fd, int n)
{
	for (; n; n--)
		if (send(fd, "abcd", 4, 0) != 4)
			return false;
	return true;
}

static uint32_t taken_so_far(const uint32_t *taken)
{
	return __atomic_load_n(taken, __ATOMIC_SEQ_CST);
}

static void kill_all(pid_t *pid, int n)
{
	while (n--) {
		kill(pid[n], SIGKILL);
		waitpid(pid[n], NULL, 0);
	}
}

/* The others sleep on: as many sleeps as messages, and not times readers. */
TEST_F_TIMEOUT(limit_turn, one_is_woken, 240)
{
	long long before, sleeps;
	uint32_t i;

	for (i = 0; i < READERS; i++) {
		self->pid[i] = reader(self->fd, self->taken, SLEEPS, -1);
		ASSERT_LT(0, self->pid[i]);
	}
	for (i = 0; i < READERS; i++)
		ASSERT_TRUE(l5_wait_asleep(self->pid[i]));
	before = l5_stat("sleeps");
	for (i = 1; i <= MESSAGES; i++) {
		ASSERT_TRUE(send_some(self->fd[0], 1));
		ASSERT_TRUE(L5_UNTIL(taken_so_far(self->taken) == i, LONG_MS));
	}
	sleeps = l5_stat("sleeps") - before;
	EXPECT_GE(2 * MESSAGES + READERS, sleeps);
	TH_LOG("%lld sleeps for %d messages", sleeps, MESSAGES);
	kill_all(self->pid, READERS);
}

/* Messages that come at once wake as many, though the bell rings once. */
TEST_F_TIMEOUT(limit_turn, each_has_one, 240)
{
	int i, r;

	for (r = 0; r < ROUNDS; r++) {
		*self->taken = 0;
		for (i = 0; i < READERS; i++)
			self->pid[i] = reader(self->fd, self->taken, SLEEPS, 1);
		for (i = 0; i < READERS; i++)
			ASSERT_TRUE(l5_wait_asleep(self->pid[i]));
		ASSERT_TRUE(send_some(self->fd[0], READERS));
		EXPECT_TRUE(L5_UNTIL(taken_so_far(self->taken) == READERS,
				     LONG_MS)) {
			TH_LOG("round %d: %u taken", r, *self->taken);
		}
		kill_all(self->pid, READERS);
	}
}

static bool nothing_left(int fd)
{
	char b[8];

	return recv(fd, b, sizeof(b), MSG_PEEK | MSG_DONTWAIT) < 0 &&
	       errno == EAGAIN;
}

/* Readers of all kinds that are killed or stopped leave none to sleepers. */
TEST_F_TIMEOUT(limit_turn, left_by_the_killed, 300)
{
	uint64_t seed = l5_seed();
	int i, r;

	for (r = 0; r < ROUNDS; r++) {
		for (i = 0; i < READERS; i++)
			self->pid[i] = reader(self->fd, self->taken,
					      r % 2 ? SLEEPS :
					      (int)(l5_rnd(&seed) % KINDS), -1);
		if (r % 3)
			l5_wait_asleep(self->pid[READERS - 1]);
		ASSERT_TRUE(send_some(self->fd[0], 5));
		for (i = 1; i < READERS; i++)
			kill(self->pid[i], l5_rnd(&seed) % 2 ? SIGKILL :
								SIGSTOP);
		ASSERT_TRUE(send_some(self->fd[0], 5));
		EXPECT_TRUE(L5_UNTIL(nothing_left(self->fd[1]), LONG_MS)) {
			TH_LOG("round %d", r);
		}
		kill_all(self->pid, READERS);
	}
}

/* The end is told to all of them. */
TEST_F_TIMEOUT(limit_turn, all_hear_the_end, 120)
{
	int i;

	for (i = 0; i < READERS; i++) {
		self->pid[i] = reader(self->fd, self->taken, i % KINDS, -1);
		ASSERT_LT(0, self->pid[i]);
	}
	ASSERT_TRUE(send_some(self->fd[0], READERS / 2));
	close(self->fd[0]);
	self->fd[0] = -1;
	for (i = 0; i < READERS; i++)
		EXPECT_EQ(0, l5_reap(self->pid[i]));
	EXPECT_EQ(READERS / 2, taken_so_far(self->taken));
}

TEST_HARNESS_MAIN
