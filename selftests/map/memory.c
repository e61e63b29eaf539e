// SPDX-License-Identifier: GPL-2.0
/*
 * The memory behind mappings is limited, charged and given back, and the module
 * stays as long as there is one.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "map_pair.h"
#include "view.h"

MAP_PAIR_FIXTURE(map_memory, 64)

static bool nothing_left(void)
{
	return end_stat_reaches("pairs", 0) &&
	       end_stat_reaches("rings_kb", 0) &&
	       end_stat_reaches("reserved_kb", 0);
}

/*
 * A connection that both ends have closed costs its payers nothing, whatever a
 * process goes on to have mapped. What is left is one page of its own for each
 * end that it mapped.
 */
TEST_F_TIMEOUT(map_memory, given_back_while_mapped, 180)
{
	struct mapping m[2];
	int ends, c, s;

	close(self->fd[0]);
	close(self->fd[1]);
	ASSERT_TRUE(nothing_left());
	for (ends = 1; ends <= 3; ends++) {
		ASSERT_TRUE(map_pair(variant->at, &c, &s));
		ASSERT_TRUE(end_exchange(c, s, 100000, 0));
		if (ends & 1)
			ASSERT_EQ(0, mapping_open(&m[0], c));
		if (ends & 2)
			ASSERT_EQ(0, mapping_open(&m[1], s));
		close(c);
		close(s);
		EXPECT_TRUE(end_stat_reaches("pairs", 0));
		EXPECT_TRUE(end_stat_reaches("reserved_kb", 0));
		EXPECT_TRUE(end_stat_reaches("rings_kb", ends == 3 ? 8 : 4));
		if (ends & 1) {
			EXPECT_EQ(0, map_touch(m[0].rx, false));
			EXPECT_EQ(0, map_touch(m[0].tx, true));
			mapping_close(&m[0]);
		}
		if (ends & 2) {
			EXPECT_EQ(0, map_touch(m[1].tx, true));
			EXPECT_EQ(0, map_touch(m[1].rx, false));
			mapping_close(&m[1]);
		}
		EXPECT_TRUE(nothing_left());
	}
	self->fd[0] = self->fd[1] = -1;
}

/* Unmapped first, closed first, only one end, or neither but by exit. */
TEST_F_TIMEOUT(map_memory, given_back, 180)
{
	int i, c, s, status, whole;
	struct mapping m[2];
	pid_t pid;

	close(self->fd[0]);
	close(self->fd[1]);
	ASSERT_TRUE(nothing_left());
	for (i = 0; i < 24; i++) {
		int ends = i % 3 + 1;	/* bits: which ends are mapped */

		ASSERT_TRUE(map_pair(variant->at, &c, &s));
		if (i & 1)
			ASSERT_TRUE(end_exchange(c, s, 100000, 0));
		if (i / 3 % 4 == 3) {
			/* by a process that just ends */
			pid = fork();
			ASSERT_LE(0, pid);
			if (!pid) {
				if (ends & 1 && mapping_open(&m[0], c))
					_exit(1);
				if (ends & 2 && mapping_open(&m[1], s))
					_exit(1);
				_exit(0);
			}
			status = l5_reap(pid);
			EXPECT_EQ(0, status);
			close(c);
			close(s);
			EXPECT_TRUE(nothing_left());
			continue;
		}
		whole = 0;
		if (ends & 1) {
			ASSERT_EQ(0, mapping_open(&m[0], c));
			ASSERT_EQ(0, mapping_whole(&m[0]));
			whole++;
		}
		if (ends & 2) {
			ASSERT_EQ(0, mapping_open(&m[1], s));
			ASSERT_EQ(0, mapping_whole(&m[1]));
			whole++;
		}
		EXPECT_LE(whole * 64, l5_stat("rings_kb"));
		EXPECT_LE(whole * 64, l5_stat("reserved_kb"));
		switch (i / 3 % 4) {
		case 0:
			if (ends & 1)
				mapping_close(&m[0]);
			if (ends & 2)
				mapping_close(&m[1]);
			close(c);
			close(s);
			break;
		case 1:
			close(c);
			close(s);
			if (ends & 1) {
				EXPECT_EQ(0, map_touch(m[0].rx, false));
				EXPECT_EQ(0, map_touch(m[0].tx, true));
				mapping_close(&m[0]);
			}
			if (ends & 2) {
				EXPECT_EQ(0, map_touch(m[1].rx, false));
				mapping_close(&m[1]);
			}
			break;
		default:
			close(c);
			if (ends & 2)
				mapping_close(&m[1]);
			if (ends & 1)
				mapping_close(&m[0]);
			close(s);
		}
		EXPECT_TRUE(nothing_left());
	}
	self->fd[0] = self->fd[1] = -1;
}

/*
 * To be mapped takes no memory that was not granted before. More than that
 * takes some, and without it the socket does what it did.
 */
TEST_F_TIMEOUT(map_memory, too_small_a_limit, 120)
{
	struct mapping m;
	long before;
	int k;

	for (k = 0; k < 2; k++) {
		int fd = self->fd[k];
		long used = l5_stat("reserved_kb");

		before = l5_sysctl("mem_max_kb", used + 16);
		ASSERT_LT(0, before);
		ASSERT_EQ(0, mapping_open(&m, fd));
		EXPECT_EQ(used, l5_stat("reserved_kb"));
		EXPECT_EQ(m.tx_size, m.state->tx_most);
		EXPECT_EQ(-ENOMEM, mapping_whole(&m));
		/* nothing is kept of what was tried, and programs are told */
		EXPECT_EQ(used, l5_stat("reserved_kb"));
		EXPECT_GT(m.tx_size, m.state->tx_most);
		EXPECT_EQ(m.state->tx_extent, m.state->tx_most);
		EXPECT_TRUE(end_exchange(self->fd[0], self->fd[1], 200000, 0));
		l5_sysctl("mem_max_kb", before);
		/* and told again that it is worth trying */
		EXPECT_TRUE(UNTIL(m.state->tx_most == m.tx_size));
		ASSERT_EQ(0, mapping_whole(&m));
		EXPECT_EQ(m.tx_size, m.state->tx_extent);
		EXPECT_TRUE(end_exchange(self->fd[0], self->fd[1], 200000, 0));
		/* lowered below what is mapped */
		l5_sysctl("mem_max_kb", 8);
		EXPECT_TRUE(end_exchange(self->fd[0], self->fd[1], 200000, 0));
		l5_sysctl("mem_max_kb", before);
		mapping_close(&m);
		close(self->fd[0]);
		close(self->fd[1]);
		ASSERT_TRUE(nothing_left());
		ASSERT_TRUE(map_pair(variant->at, &self->fd[0], &self->fd[1]));
	}
}

/* A process that keeps the mapping and closes the rest has a page of each. */
TEST_F_TIMEOUT(map_memory, hoarders, 120)
{
	enum { TRIES = 40, LIMIT_KB = 1024 };
	struct mapping m[TRIES];
	int i, c, s, kept = 0;

	close(self->fd[0]);
	close(self->fd[1]);
	ASSERT_TRUE(nothing_left());
	ASSERT_LT(0, l5_sysctl("mem_max_kb", LIMIT_KB));
	for (i = 0; i < TRIES; i++) {
		struct addr to = addr_parse(variant->at);
		int l = end_listen(END_L5, &to);

		ASSERT_LE(0, l);
		c = end_connect(END_L5, &to);
		ASSERT_LE(0, c);
		s = accept(l, NULL, NULL);
		ASSERT_LE(0, s);
		close(l);
		if (l5_transport(c) == L5_TRANSPORT_SHM &&
		    !mapping_open(&m[kept], i & 1 ? c : s))
			kept++;
		ASSERT_TRUE(end_exchange(c, s, 1000, 0));
		close(c);
		close(s);
	}
	TH_LOG("%d mappings of 128 KiB within %d KiB", kept, LIMIT_KB);
	EXPECT_LT(0, kept);
	EXPECT_TRUE(end_stat_reaches("reserved_kb", 0));
	EXPECT_TRUE(end_stat_reaches("rings_kb", kept * 4));
	while (kept)
		mapping_close(&m[--kept]);
	EXPECT_TRUE(nothing_left());
	self->fd[0] = self->fd[1] = -1;
}

/*
 * Each end is charged for the ring that it writes, whichever of the two maps.
 */
TEST_F_TIMEOUT(map_memory, memory_cgroup, 180)
{
	const char *dir = "/sys/fs/cgroup/l5_map";
	struct addr to = addr_parse(variant->at);
	int l, s, i, c, status, up[2], down[2];
	long long before, after = -1;
	struct mapping m;
	pid_t pid;
	char b;

	close(self->fd[0]);
	close(self->fd[1]);
	self->fd[0] = self->fd[1] = -1;
	sh("echo +memory >/sys/fs/cgroup/cgroup.subtree_control; mkdir -p %s",
	   dir);
	if (l5_number("/sys/fs/cgroup/l5_map/memory.current") < 0)
		SKIP(return, "no memory cgroups");
	ASSERT_LE(0, l5_sysctl("ring_kb", 2048));
	ASSERT_EQ(0, pipe(up));
	ASSERT_EQ(0, pipe(down));
	l = end_listen(END_L5, &to);
	ASSERT_LE(0, l);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		if (sh("echo %d >%s/cgroup.procs", getpid(), dir))
			_exit(1);
		c = end_connect(END_L5, &to);
		if (c < 0)
			_exit(2);
		if (write(up[1], "", 1) != 1 || read(down[0], &b, 1) != 1)
			_exit(3);
		_exit(0);
	}
	s = accept(l, NULL, NULL);
	ASSERT_LE(0, s);
	ASSERT_EQ(1, read(up[0], &b, 1));
	before = l5_number("/sys/fs/cgroup/l5_map/memory.current");
	/* we map, from outside: the child is not charged for what we want */
	ASSERT_EQ(0, mapping_open(&m, s));
	ASSERT_EQ(0, mapping_whole(&m));
	after = l5_number("/sys/fs/cgroup/l5_map/memory.current");
	TH_LOG("charged: %lld KiB, mapped %lld KiB", before >> 10, after >> 10);
	EXPECT_GT(before + (1 << 20), after);
	ASSERT_EQ(1, write(down[1], "", 1));
	status = l5_reap(pid);
	EXPECT_EQ(0, status);
	close(s);
	close(l);
	mapping_close(&m);
	EXPECT_TRUE(nothing_left());
	for (i = 0; i < 500; i++) {
		after = l5_number("/sys/fs/cgroup/l5_map/memory.current");
		if (after < 1 << 20)
			break;
		usleep(20000);
	}
	TH_LOG("charged afterwards: %lld KiB", after >> 10);
	EXPECT_GT(1 << 20, after);
	EXPECT_EQ(0, sh("rmdir %s", dir));

	/* in a cgroup that is too small: no larger, but bytes flow */
	ASSERT_LE(0, l5_sysctl("ring_kb", 4096));
	sh("mkdir -p %s && echo 0 >%s/memory.swap.max", dir, dir);
	l = end_listen(END_L5, &to);
	ASSERT_LE(0, l);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		int err;

		if (sh("echo %d >%s/cgroup.procs", getpid(), dir))
			_exit(1);
		c = end_connect(END_L5, &to);
		if (c < 0)
			_exit(2);
		s = accept(l, NULL, NULL);
		if (sh("echo 4M >%s/memory.max", dir))
			_exit(3);
		err = mapping_open(&m, c);
		if (!err)
			err = mapping_whole(&m);
		if (err != -ENOMEM)
			_exit(err ? 4 : 5);
		_exit(end_exchange(c, s, 20000, 0) ? 0 : 6);
	}
	close(l);
	status = l5_reap(pid);
	EXPECT_EQ(0, status);
	EXPECT_TRUE(nothing_left());
	sh("rmdir %s", dir);
}

/* One allocation after the other fails, on a kernel that can do that. */
TEST_F_TIMEOUT(map_memory, no_memory, 300)
{
	int n, c, s, failed = 0, err;
	struct mapping m;

	if (!l5_fail_nth(0))
		SKIP(return, "no fault injection in this kernel");
	sh("echo N >/sys/kernel/debug/failslab/ignore-gfp-wait; "
	   "echo N >/sys/kernel/debug/fail_page_alloc/ignore-gfp-wait; "
	   "echo 0 >/sys/kernel/debug/fail_page_alloc/min-order; true");
	for (n = 1; n < 70; n++) {
		ASSERT_TRUE(map_pair(variant->at[0] == '1' ? variant->at :
				     "abstract:l5_map_nth", &c, &s));
		if (n & 1)
			ASSERT_TRUE(end_exchange(c, s, 20000, 0));
		l5_fail_nth(n);
		err = mapping_open(&m, n & 2 ? c : s);
		l5_fail_nth(0);
		if (err) {
			failed++;
			EXPECT_TRUE(err == -ENOMEM || err == -EAGAIN ||
				    err == -EFAULT || err == -ENFILE) {
				TH_LOG("allocation %d: %s", n, strerror(-err));
			}
			EXPECT_TRUE(end_exchange(c, s, 20000, 0));
			ASSERT_EQ(0, mapping_open(&m, n & 2 ? c : s));
		}
		EXPECT_TRUE(end_exchange(c, s, 20000, 0));
		mapping_close(&m);
		close(c);
		close(s);
	}
	TH_LOG("%d of %d failed", failed, n - 1);
	EXPECT_LT(0, failed);
	close(self->fd[0]);
	close(self->fd[1]);
	self->fd[0] = self->fd[1] = -1;
	EXPECT_TRUE(nothing_left());
}

/* While anything is mapped the module stays, closed or not. */
TEST_F_TIMEOUT(map_memory, module_stays, 120)
{
	struct mapping m[2];
	long long had;
	int e;

	ASSERT_EQ(0, mapping_open(&m[0], self->fd[0]));
	ASSERT_EQ(0, mapping_open(&m[1], self->fd[1]));
	had = l5_references();
	for (e = 0; e < 2; e++) {
		close(self->fd[e]);
		self->fd[e] = -1;
	}
	/*
	 * The sockets themselves end a little later. Each has two references,
	 * one of its struct socket and one of its struct sock.
	 */
	EXPECT_TRUE(UNTIL(l5_references() <= had - 4)) {
		TH_LOG("%lld, %lld with sockets", l5_references(), had);
	}
	EXPECT_LT(0, l5_references());
	EXPECT_EQ(-1, syscall(SYS_delete_module, "af_l5", O_NONBLOCK));
	EXPECT_EQ(EWOULDBLOCK, errno);
	EXPECT_EQ(0, map_touch(m[0].tx, true));
	EXPECT_EQ(0, map_touch(m[1].rx, false));
	EXPECT_EQ(0, madvise(m[0].tx, 2 * m[0].tx_size, MADV_DONTNEED));
	EXPECT_EQ(0, map_touch(m[0].tx, true));
	mapping_close(&m[0]);
	EXPECT_LT(0, l5_references());
	EXPECT_EQ(0, map_touch(m[1].rx, false));
	mapping_close(&m[1]);
	EXPECT_TRUE(UNTIL(l5_references() == 0));
}

TEST_HARNESS_MAIN
