// SPDX-License-Identifier: GPL-2.0
/*
 * The maker of a region pays for it, by RLIMIT_MEMLOCK, by the limits of net.l5
 * and by its memory cgroup, and nobody else, whatever a peer does. A connection
 * that an administrator ends has no regions any more.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "limit_ends.h"
#include "mapping.h"
#include "regions.h"
#include "users.h"

#define CGROUP	"/sys/fs/cgroup/l5_region"
/* What RLIMIT_MEMLOCK allows here, and a page more */
#define LOCKED	(16 * MAP_PAGE)
#define MORE	(LOCKED + MAP_PAGE)

#define PROT_RW	(PROT_READ | PROT_WRITE)

FIXTURE(limit_region)
{
	struct addr to;
	int listener;
	int fd[2];
};

FIXTURE_SETUP(limit_region)
{
	l5_or_skip();
	signal(SIGPIPE, SIG_IGN);
	ASSERT_TRUE(net_unshare());
	ASSERT_LE(0, l5_sysctl("match_ms", 10000));
	self->to = addr_parse("127.0.0.1:0");
	self->listener = end_listen(END_L5, &self->to);
	ASSERT_LE(0, self->listener);
	ASSERT_TRUE(open_pair(self->listener, &self->to, &self->fd[0],
			      &self->fd[1]));
	ASSERT_EQ(L5_TRANSPORT_SHM, l5_transport(self->fd[0]));
}

FIXTURE_TEARDOWN(limit_region)
{
	close(self->listener);
	close(self->fd[0]);
	close(self->fd[1]);
}

static bool may_lock(rlim_t bytes)
{
	struct rlimit l = { bytes, bytes };

	return !setrlimit(RLIMIT_MEMLOCK, &l);
}

/* Does it come to have one of all that it may lock? */
static bool has_one(int fd, bool *has)
{
	struct l5_region_arg a;

	*has = *has || !region_make(fd, LOCKED, REGION_RW, &a);
	return *has;
}

/* In a child that is nobody: 0, or the number of the step that failed. */
static int locks_so_much(const int fd[2])
{
	struct l5_region_arg a, b;
	bool has = false;
	pid_t pid;

	if (!may_lock(LOCKED) || nobody_become())
		return 1;
	if (region_make(fd[0], MORE, REGION_RW, &a) != -ENOMEM)
		return 2;
	if (region_make(fd[0], LOCKED, REGION_RW, &a))
		return 3;
	if (region_make(fd[1], 1, REGION_RW, &b) != -ENOMEM)
		return 4;
	/* it is the user's, whichever process asks */
	pid = fork();
	if (!pid)
		_exit(region_make(fd[0], 1, REGION_RW, &b) != -ENOMEM);
	if (l5_reap(pid))
		return 5;
	/* not before it is gone for both */
	if (region_take(fd[0], a.index, L5_REGION_UNSHARE) ||
	    region_make(fd[0], 1, REGION_RW, &b) != -ENOMEM)
		return 6;
	if (region_take(fd[0], a.index, L5_REGION_END) ||
	    region_make(fd[0], LOCKED, REGION_RW, &a))
		return 7;
	/* a socket that closes gives it back, by a work */
	close(fd[0]);
	if (!UNTIL(has_one(fd[1], &has)))
		return 8;
	return 0;
}

TEST_F_TIMEOUT(limit_region, memlock, 120)
{
	pid_t pid;

	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		int fd[2];

		/* ends that close with this process */
		if (!open_pair(self->listener, &self->to, &fd[0], &fd[1]))
			_exit(100);
		close(self->fd[0]);
		close(self->fd[1]);
		_exit(locks_so_much(fd));
	}
	EXPECT_EQ(0, l5_reap(pid));
}

/* A task that may lock all there is may do it here, as by mlock(). */
TEST_F(limit_region, ipc_lock)
{
	struct l5_region_arg a;
	pid_t pid;

	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid)
		_exit(!may_lock(0) ||
		      region_make(self->fd[0], MORE, REGION_RW, &a));
	EXPECT_EQ(0, l5_reap(pid));
}

/* A peer needs no right to lock memory for what it only maps. */
TEST_F(limit_region, peer_pays_nothing)
{
	struct l5_region_arg a;
	pid_t pid;

	ASSERT_EQ(0, region_make(self->fd[0], MORE, REGION_RW, &a));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		uint8_t *p;

		if (!may_lock(0) || nobody_become())
			_exit(1);
		p = region_map(self->fd[1], &a, PROT_RW);
		if (!p)
			_exit(2);
		memset(p, 1, MORE);
		_exit(0);
	}
	EXPECT_EQ(0, l5_reap(pid));
}

TEST_F(limit_region, namespace)
{
	long long reserved = l5_stat("reserved_kb");
	struct l5_region_arg a, b;

	ASSERT_LE(0, l5_sysctl("mem_max_kb", reserved + 64));
	EXPECT_EQ(-EDQUOT, region_make(self->fd[0], 68 << 10, REGION_RW, &a));
	EXPECT_EQ(reserved, l5_stat("reserved_kb"));
	ASSERT_EQ(0, region_make(self->fd[0], 64 << 10, REGION_RW, &a));
	EXPECT_EQ(-EDQUOT, region_make(self->fd[1], 1, REGION_RW, &b));
	EXPECT_TRUE(end_exchange(self->fd[0], self->fd[1], 100000, 0));
	EXPECT_EQ(0, region_take(self->fd[0], a.index, L5_REGION_END));
	EXPECT_EQ(0, region_make(self->fd[1], 64 << 10, REGION_RW, &b));
}

/* Memory that the maker's cgroup lacks is ENOMEM, and no process is killed. */
TEST_F_TIMEOUT(limit_region, cgroup, 240)
{
	long long rings = l5_stat("rings_kb");
	struct l5_region_arg a;
	pid_t pid;

	put_text("/sys/fs/cgroup/cgroup.subtree_control", "+memory");
	mkdir(CGROUP, 0755);
	if (!put_text(CGROUP "/memory.max", "8388608"))
		SKIP(return, "no memory cgroups");
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		if (!cgroup_enter(CGROUP))
			_exit(1);
		if (region_make(self->fd[0], 32 << 20, REGION_RW,
				&a) != -ENOMEM)
			_exit(2);
		if (region_make(self->fd[0], 4 << 20, REGION_RW, &a))
			_exit(3);
		_exit(l5_number(CGROUP "/memory.current") < 4 << 20 ? 4 : 0);
	}
	EXPECT_EQ(0, l5_reap(pid));
	/* there is not even memory for the list of its pages */
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		char most[32];

		if (!cgroup_enter(CGROUP))
			_exit(1);
		snprintf(most, sizeof(most), "%lld", (200 << 10) +
			 l5_number(CGROUP "/memory.current"));
		if (!put_text(CGROUP "/memory.max", most))
			_exit(1);
		_exit(region_make(self->fd[0], 300 << 20, REGION_RW,
				  &a) != -ENOMEM);
	}
	EXPECT_EQ(0, l5_reap(pid));
	/* the region is the connection's, and charged as long as that is */
	EXPECT_EQ(rings + 4096, l5_stat("rings_kb"));
	EXPECT_LE(4 << 20, l5_number(CGROUP "/memory.current"));
	close(self->fd[0]);
	EXPECT_TRUE(UNTIL(l5_number(CGROUP "/memory.current") < 4 << 20));
	self->fd[0] = -1;
	rmdir(CGROUP);
}

/* A task that is killed while it makes one leaves nothing. */
TEST_F_TIMEOUT(limit_region, killed, 240)
{
	long long reserved = l5_stat("reserved_kb");
	struct l5_region_arg a;
	int i;

	for (i = 0; i < 40; i++) {
		pid_t pid = fork();

		ASSERT_LE(0, pid);
		if (!pid) {
			for (;;)
				if (!region_make(self->fd[0], 64 << 20,
						 REGION_RW, &a))
					region_take(self->fd[0], a.index,
						    L5_REGION_END);
		}
		usleep(i * 3000);
		kill(pid, SIGKILL);
		EXPECT_EQ(SIGKILL, l5_reap(pid));
	}
	close(self->fd[0]);
	self->fd[0] = -1;
	EXPECT_TRUE(UNTIL(l5_stat("reserved_kb") <= reserved));
}

static bool revoke_all(void)
{
	return put_text("/proc/self/net/l5_revoke", "all");
}

/* An administrator ends connections: neither end has a region any more. */
TEST_F_TIMEOUT(limit_region, revoked, 120)
{
	struct l5_region_arg a, b;
	uint8_t *p[2];
	int e;

	ASSERT_EQ(0, region_make(self->fd[0], MORE, REGION_RW, &a));
	ASSERT_EQ(0, region_make(self->fd[1], MORE, REGION_RW, &b));
	for (e = 0; e < 2; e++) {
		p[e] = region_map(self->fd[e], &a, PROT_RW);
		ASSERT_NE(NULL, p[e]);
	}
	memset(p[0], 1, MORE);
	EXPECT_EQ(1, p[1][MORE - 1]);
	ASSERT_TRUE(revoke_all());
	for (e = 0; e < 2; e++) {
		EXPECT_TRUE(UNTIL(!*(volatile uint8_t *)p[e]));
		memset(p[e], 2 + e, MORE);
	}
	EXPECT_EQ(2, p[0][MORE - 1]);
	EXPECT_EQ(3, p[1][MORE - 1]);
	EXPECT_TRUE(UNTIL(region_make(self->fd[0], 1, REGION_RW,
				      &a) == -ENOTCONN));
	EXPECT_EQ(NULL, region_map(self->fd[0], &b, PROT_RW));
	munmap(p[0], MORE);
	munmap(p[1], MORE);
}

TEST_HARNESS_MAIN
