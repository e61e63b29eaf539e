// SPDX-License-Identifier: GPL-2.0
/*
 * What a receive may spend on looking at the ring, net.l5.cpu_budget: nothing
 * that a sleep would not have cost, or as much as it is worth; and no more than
 * its time-out.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "limit_ends.h"

LIMIT_FIXTURE(limit_looks)

enum { ROUNDS = 60 };

/* Each answer takes its time, so that a look for it is long. */
static pid_t answer_slowly(int s, int other)
{
	pid_t pid;
	char c;

	fflush(NULL);
	pid = fork();
	if (pid)
		return pid;
	close(other);
	while (recv(s, &c, 1, 0) == 1) {
		usleep(3000);
		send(s, &c, 1, MSG_NOSIGNAL);
	}
	_exit(0);
}

/* How often the receiver looks, in so many round trips; -1: they failed */
static long long looks(struct addr *to, int listener, long budget)
{
	long long spins;
	int c, s, off = 0, i;
	pid_t pid;
	char ch;

	if (l5_sysctl("cpu_budget", budget) < 0 ||
	    l5_sysctl("spin_us", 1000000) < 0 ||
	    !open_pair(listener, to, &c, &s))
		return -1;
	/* the other end is not to be counted */
	if (setsockopt(s, SOL_L5, L5_SPIN_US, &off, sizeof(off)))
		return -1;
	pid = answer_slowly(s, c);
	close(s);
	spins = l5_stat("spins");
	for (i = 0; i < ROUNDS; i++)
		if (send(c, "x", 1, 0) != 1 || recv(c, &ch, 1, 0) != 1)
			return -1;
	spins = l5_stat("spins") - spins;
	close(c);
	return l5_reap(pid) ? -1 : spins;
}

TEST_F_TIMEOUT(limit_looks, budget, 120)
{
	const long cpus = sysconf(_SC_NPROCESSORS_CONF);
	long long none, all;

	all = looks(&self->to, self->listener, 100);
	none = looks(&self->to, self->listener, 0);
	TH_LOG("%lld of %d waits, %lld without a budget", all, ROUNDS, none);
	EXPECT_LE(ROUNDS / 2, all);
	/* what each CPU had left is not much */
	EXPECT_LE(0, none);
	EXPECT_GE(4 * cpus, none);
}

/* A socket that is told how long to look does so. */
TEST_F_TIMEOUT(limit_looks, told, 120)
{
	int c, s, us = 100000, i;
	long long spins;
	pid_t pid;
	char ch;

	ASSERT_LE(0, l5_sysctl("cpu_budget", 0));
	ASSERT_TRUE(open_pair(self->listener, &self->to, &c, &s));
	ASSERT_EQ(0, setsockopt(c, SOL_L5, L5_SPIN_US, &us, sizeof(us)));
	us = 0;
	ASSERT_EQ(0, setsockopt(s, SOL_L5, L5_SPIN_US, &us, sizeof(us)));
	pid = answer_slowly(s, c);
	close(s);
	spins = l5_stat("spins");
	for (i = 0; i < ROUNDS; i++) {
		ASSERT_EQ(1, send(c, "x", 1, 0));
		ASSERT_EQ(1, recv(c, &ch, 1, 0));
	}
	EXPECT_LE(ROUNDS / 2, l5_stat("spins") - spins);
	close(c);
	EXPECT_EQ(0, l5_reap(pid));
}

static long long cpu_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000ll + t.tv_nsec / 1000000;
}

/* A socket that is told to look for a minute looks as long as its time-out. */
TEST_F_TIMEOUT(limit_looks, within_time_outs, 300)
{
	enum { TIMES = 10, MS = 20 };
	const struct timeval tv = { .tv_usec = MS * 1000 };
	int c, s, us = 60 * 1000000, i;
	long long spins, cpu;
	char ch;

	ASSERT_TRUE(open_pair(self->listener, &self->to, &c, &s));
	ASSERT_EQ(0, setsockopt(c, SOL_SOCKET, SO_BUSY_POLL, &us, sizeof(us)));
	ASSERT_EQ(0, setsockopt(c, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
	spins = l5_stat("spins");
	cpu = cpu_ms();
	for (i = 0; i < TIMES; i++) {
		ASSERT_EQ(-1, recv(c, &ch, 1, 0));
		ASSERT_EQ(EAGAIN, errno);
	}
	cpu = cpu_ms() - cpu;
	TH_LOG("%lld ms for %d time-outs of %d ms", cpu, TIMES, MS);
	EXPECT_LE(TIMES, l5_stat("spins") - spins);
	/* the looks end when others need the CPU, so they may be shorter */
	EXPECT_GT(5 * TIMES * MS, cpu);
	ASSERT_EQ(1, send(s, "x", 1, 0));
	EXPECT_EQ(1, recv(c, &ch, 1, 0));
	close(c);
	close(s);
}

TEST_HARNESS_MAIN
