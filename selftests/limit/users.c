// SPDX-License-Identifier: GPL-2.0
/*
 * Memory of users: none gets more by having more namespaces, more by mapping,
 * or at the cost of a peer; all together get what the host has for them.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "admin.h"
#include "limit_ends.h"
#include "mapping.h"

/* Send until there is no more room; -1 if it fails in another way. */
static long fill(int fd)
{
	static char zero[65536];
	long sum = 0, n;

	for (;;) {
		n = send(fd, zero, sizeof(zero), MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0)
			return errno == EAGAIN ? sum : -1;
		sum += n;
	}
}

static bool wait_byte(int fd)
{
	char b;

	return read(fd, &b, 1) == 1;
}

ADMIN_FIXTURE(limit_users)

/* What one namespace of many reported. */
struct told {
	long reserved;
	int rings;
	int limit;
	int other;
};

enum { SPACES = 4, EACH = 24 };

/* One namespace: as much memory as can be had. 0, or where it failed. */
static int hoard(int up, int down)
{
	struct addr to = addr_parse("abstract:l5_admin");
	struct told t = { 0 };
	int l, c[EACH], s[EACH], i;

	if (!nobody_unshare())
		return 1;
	l = end_listen(END_L5, &to);
	if (l < 0)
		return 2;
	for (i = 0; i < EACH; i++) {
		if (!open_pair(l, &to, &c[i], &s[i]))
			return 3;
		if (l5_transport(c[i]) == L5_TRANSPORT_SHM)
			t.rings++;
		else if (end_reason(c[i]) == L5_REASON_LIMIT)
			t.limit++;
		else
			t.other++;
		if (fill(c[i]) <= 0 || fill(s[i]) <= 0)
			return 4;
	}
	t.reserved = l5_stat("reserved_kb");
	if (write(up, &t, sizeof(t)) != sizeof(t) || !wait_byte(down))
		return 5;
	/* and all of them work */
	for (i = 0; i < EACH; i++) {
		static char buf[65536];

		while (recv(c[i], buf, sizeof(buf), MSG_DONTWAIT) > 0)
			;
		while (recv(s[i], buf, sizeof(buf), MSG_DONTWAIT) > 0)
			;
		if (!end_exchange(c[i], s[i], 100000, 0))
			return 6;
	}
	/* memory is the host's */
	if (put_text("/proc/sys/net/l5/mem_max_kb", "100000000") ||
	    !access("/proc/sys/net/l5/host_max_kb", F_OK) ||
	    !access("/proc/sys/net/l5/user_max_kb", F_OK))
		return 7;
	return 0;
}

/* The sum over namespaces of one user; the rest in *@sum. */
static long hoard_all(struct __test_metadata *_metadata, struct told *sum)
{
	int up[2], down[2], i, status;
	pid_t pid[SPACES];

	memset(sum, 0, sizeof(*sum));
	ASSERT_EQ(0, pipe(up));
	ASSERT_EQ(0, pipe(down));
	fflush(NULL);
	for (i = 0; i < SPACES; i++) {
		pid[i] = fork();
		ASSERT_LE(0, pid[i]);
		if (!pid[i]) {
			close(up[0]);
			close(down[1]);
			_exit(hoard(up[1], down[0]));
		}
	}
	close(up[1]);
	close(down[0]);
	for (i = 0; i < SPACES; i++) {
		struct told t;

		ASSERT_EQ((ssize_t)sizeof(t), read(up[0], &t, sizeof(t)));
		sum->reserved += t.reserved;
		sum->rings += t.rings;
		sum->limit += t.limit;
		sum->other += t.other;
	}
	ASSERT_EQ(SPACES, write(down[1], "....", SPACES));
	for (i = 0; i < SPACES; i++) {
		ASSERT_EQ(pid[i], waitpid(pid[i], &status, 0));
		EXPECT_EQ(0, status);
	}
	close(up[0]);
	close(down[1]);
	TH_LOG("%d namespaces: %ld KiB, %d with rings, %d at the limit, %d else",
	       SPACES, sum->reserved, sum->rings, sum->limit, sum->other);
	return sum->reserved;
}

/* However many namespaces a user makes, it is one user. */
TEST_F_TIMEOUT(limit_users, user_in_many_namespaces, 300)
{
	enum { BOUND = 2048 };
	struct told t;

	EXPECT_LE(0, l5_sysctl("user_max_kb", BOUND));
	EXPECT_GE(BOUND, hoard_all(_metadata, &t));
	EXPECT_LT(0, t.rings);
	EXPECT_LT(0, t.limit);
	EXPECT_EQ(0, t.other);
	EXPECT_TRUE(end_stat_reaches("host_reserved_kb", 0));
}

/* And all users together are one host. */
TEST_F_TIMEOUT(limit_users, host, 300)
{
	enum { BOUND = 1024 };
	struct addr to = addr_parse("abstract:l5_admin");
	struct told t;
	int l, c, s;

	EXPECT_LE(0, l5_sysctl("host_max_kb", BOUND));
	EXPECT_GE(BOUND, hoard_all(_metadata, &t));
	EXPECT_LT(0, t.rings);
	EXPECT_LT(0, t.limit);
	EXPECT_EQ(0, t.other);
	EXPECT_TRUE(end_stat_reaches("host_reserved_kb", 0));
	/* root is bounded as the host, and not as a user */
	EXPECT_LE(0, l5_sysctl("user_max_kb", 0));
	l = end_listen(END_L5, &to);
	ASSERT_LE(0, l);
	ASSERT_TRUE(open_pair(l, &to, &c, &s));
	EXPECT_EQ(L5_TRANSPORT_SHM, l5_transport(c));
	EXPECT_LT(0, l5_stat("host_reserved_kb"));
	close(c);
	close(s);
	EXPECT_LE(0, l5_sysctl("host_max_kb", 0));
	ASSERT_TRUE(open_pair(l, &to, &c, &s));
	EXPECT_EQ(L5_REASON_LIMIT, end_reason(c));
	EXPECT_TRUE(end_exchange(c, s, 100000, 0));
	close(c);
	close(s);
	close(l);
}

/* Connections that never come about count as well. */
TEST_F_TIMEOUT(limit_users, unpaired, 120)
{
	struct addr to = addr_parse("127.0.0.1:0");
	int l, c, i, many[64];
	long one;

	ASSERT_TRUE(net_unshare());
	/* nobody answers there */
	ASSERT_EQ(0, sh("ip link add l5d type dummy; ip link set l5d up; "
			"ip addr add 10.9.0.1/24 dev l5d"));
	to = addr_parse("10.9.0.2:7");
	for (i = 0; i < 64; i++) {
		many[i] = end_socket(END_L5, AF_INET);
		ASSERT_LE(0, many[i]);
		fcntl(many[i], F_SETFL, O_NONBLOCK);
		ASSERT_EQ(-1, connect(many[i], &to.sa, to.len));
		ASSERT_EQ(EINPROGRESS, errno);
		if (!i) {
			one = l5_stat("reserved_kb");
			EXPECT_LT(0, one);
		}
	}
	EXPECT_EQ(64 * one, l5_stat("reserved_kb"));
	EXPECT_LE(64 * 8, l5_stat("rings_kb"));
	for (i = 0; i < 64; i++)
		close(many[i]);
	EXPECT_TRUE(end_stat_reaches("reserved_kb", 0));
	/* at the limit they connect without */
	ASSERT_LE(0, l5_sysctl("mem_max_kb", 0));
	to = addr_parse("127.0.0.1:0");
	l = end_listen(END_L5, &to);
	c = end_connect(END_L5, &to);
	ASSERT_LE(0, c);
	EXPECT_EQ(L5_REASON_LIMIT, end_reason(c));
	close(c);
	close(l);
}

#define CGROUP	"/sys/fs/cgroup/l5_users"

static bool cgroup_make(void)
{
	sh("echo +memory >/sys/fs/cgroup/cgroup.subtree_control; mkdir -p "
	   CGROUP "_a " CGROUP "_b");
	return l5_number(CGROUP "_b/memory.current") >= 0;
}

static long cgroup_kb(const char *name)
{
	char file[128];

	snprintf(file, sizeof(file), CGROUP "_%s/memory.current", name);
	return l5_number(file) >> 10;
}

enum { PAIRS = 6 };

static void set_buffers(int fd, int bytes)
{
	setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes));
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes));
}

/* The server: in a cgroup of its own, and wants all it can have. */
static int greedy(struct addr *to, int up, int down)
{
	int l, s[PAIRS], i;

	if (!cgroup_enter(CGROUP "_b"))
		return 1;
	l = end_socket(END_L5, AF_INET);
	set_buffers(l, 8 << 20);
	if (bind(l, &to->sa, to->len) || listen(l, PAIRS))
		return 2;
	to->len = sizeof(to->ss);
	if (getsockname(l, &to->sa, &to->len) ||
	    write(up, to, sizeof(*to)) != sizeof(*to))
		return 3;
	/* not before each client had its time alone */
	if (!wait_byte(down))
		return 4;
	for (i = 0; i < PAIRS; i++) {
		s[i] = accept(l, NULL, NULL);
		if (s[i] < 0)
			return 5;
		if (fill(s[i]) <= 0)
			return 6;
	}
	if (write(up, "", 1) != 1 || !wait_byte(down))
		return 7;
	return 0;
}

static int modest(const struct addr *to, bool map, int up, int down)
{
	struct mapping m[PAIRS];
	int c[PAIRS], i;

	if (!cgroup_enter(CGROUP "_a"))
		return 1;
	for (i = 0; i < PAIRS; i++) {
		c[i] = end_connect(END_L5, to);
		if (c[i] < 0 || l5_transport(c[i]) != L5_TRANSPORT_SHM)
			return 2;
		if (map && mapping_open(&m[i], c[i]))
			return 3;
		if (fill(c[i]) <= 0)
			return 4;
	}
	if (write(up, "", 1) != 1 || !wait_byte(down))
		return 5;
	return 0;
}

static void charge(struct __test_metadata *_metadata, bool map)
{
	/* what the default allows, and as much again for all the rest */
	const long fair = PAIRS * (2 * 256 + (map ? 256 : 0));
	long a0, b0, a, b;
	int server_up[2], server_down[2], up[2], down[2], status;
	struct addr to = addr_parse("127.0.0.1:0");
	pid_t server, client;

	if (!cgroup_make())
		SKIP(return, "no memory cgroups");
	ASSERT_TRUE(net_unshare());
	ASSERT_LE(0, l5_sysctl("match_ms", 10000));
	ASSERT_EQ(0, pipe(server_up) | pipe(server_down) | pipe(up) |
		     pipe(down));
	fflush(NULL);
	server = fork();
	if (!server)
		_exit(greedy(&to, server_up[1], server_down[0]));
	ASSERT_EQ((ssize_t)sizeof(to), read(server_up[0], &to, sizeof(to)));
	a0 = cgroup_kb("a");
	b0 = cgroup_kb("b");
	client = fork();
	if (!client)
		_exit(modest(&to, map, up[1], down[0]));
	ASSERT_TRUE(wait_byte(up[0]));
	a = cgroup_kb("a") - a0;
	b = cgroup_kb("b") - b0;
	TH_LOG("before accept(): client %ld KiB, server %ld KiB", a, b);
	EXPECT_GT(fair + 2048, a);
	ASSERT_EQ(1, write(server_down[1], "", 1));
	ASSERT_TRUE(wait_byte(server_up[0]));
	a = cgroup_kb("a") - a0;
	b = cgroup_kb("b") - b0;
	TH_LOG("afterwards: client %ld KiB, server %ld KiB", a, b);
	/* 4 MiB each is what the server wants and may have */
	EXPECT_GT(fair + 2048, a);
	EXPECT_LT(PAIRS * 3072, b);
	ASSERT_EQ(1, write(down[1], "", 1));
	ASSERT_EQ(1, write(server_down[1], "", 1));
	ASSERT_EQ(client, waitpid(client, &status, 0));
	EXPECT_EQ(0, status);
	ASSERT_EQ(server, waitpid(server, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_TRUE(end_stat_reaches("rings_kb", 0));
	EXPECT_TRUE(end_stat_reaches("reserved_kb", 0));
	EXPECT_EQ(0, sh("rmdir " CGROUP "_a " CGROUP "_b"));
}

/*
 * Nor is a server charged for what a client makes it have: a client that maps
 * does not make the server's ring larger. What an end writes is its own.
 */
TEST_F_TIMEOUT(limit_users, writer_pays, 180)
{
	struct addr to = addr_parse("127.0.0.1:0");
	int l, i, s[PAIRS], up[2], down[2], server_down[2], status;
	/* what the default allows, and as much for all the rest */
	const long fair = PAIRS * 2 * 256 + 2048;
	long a0, b0, a, b;
	pid_t client;

	if (!cgroup_make())
		SKIP(return, "no memory cgroups");
	ASSERT_EQ(0, pipe(up) | pipe(down) | pipe(server_down));
	l = end_listen(END_L5, &to);
	ASSERT_LE(0, l);
	a0 = cgroup_kb("a");
	fflush(NULL);
	client = fork();
	if (!client)
		_exit(modest(&to, true, up[1], down[0]));
	/* in a child, which the cgroup can be left by */
	ASSERT_TRUE(wait_byte(up[0]));
	a = cgroup_kb("a") - a0;
	b0 = cgroup_kb("b");
	fflush(NULL);
	status = fork();
	if (!status) {
		if (!cgroup_enter(CGROUP "_b"))
			_exit(1);
		for (i = 0; i < PAIRS; i++) {
			s[i] = accept(l, NULL, NULL);
			if (s[i] < 0)
				_exit(2);
		}
		if (write(up[1], "", 1) != 1 || !wait_byte(server_down[0]))
			_exit(3);
		for (i = 0; i < PAIRS; i++)
			if (fill(s[i]) <= 0)
				_exit(4);
		_exit(write(up[1], "", 1) != 1 || !wait_byte(server_down[0]));
	}
	ASSERT_TRUE(wait_byte(up[0]));
	b = cgroup_kb("b") - b0;
	/* the client's, which are mapped and full, and none of the server's */
	EXPECT_LT(PAIRS * 200, a);
	EXPECT_GT(PAIRS * 64 + 512, b);
	/* only one of the two waits for this */
	ASSERT_EQ(1, write(server_down[1], "", 1));
	ASSERT_TRUE(wait_byte(up[0]));
	TH_LOG("client %ld KiB, server %ld KiB, and full %ld KiB", a, b,
	       cgroup_kb("b") - b0);
	b = cgroup_kb("b") - b0;
	EXPECT_LT(PAIRS * 200, b);
	EXPECT_GT(fair, cgroup_kb("a") - a0);
	ASSERT_EQ(1, write(server_down[1], "", 1));
	ASSERT_EQ(1, write(down[1], "", 1));
	for (i = 0; i < 2; i++) {
		ASSERT_LT(0, wait(&status));
		EXPECT_EQ(0, status);
	}
	close(l);
	EXPECT_TRUE(end_stat_reaches("rings_kb", 0));
	EXPECT_TRUE(end_stat_reaches("reserved_kb", 0));
	EXPECT_EQ(0, sh("rmdir " CGROUP "_a " CGROUP "_b"));
}

/* What a server wants is not at the cost of its clients. */
TEST_F_TIMEOUT(limit_users, server_wish, 180)
{
	charge(_metadata, false);
}

/* Nor once it has the whole of both rings mapped. */
TEST_F_TIMEOUT(limit_users, server_wish_mapped, 180)
{
	charge(_metadata, true);
}

TEST_HARNESS_MAIN
