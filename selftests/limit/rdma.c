// SPDX-License-Identifier: GPL-2.0
/*
 * What RDMA costs connections that make no use of it, and whose turn it is:
 * memory of accepted connections that nobody asks for RDMA, queue pairs of a
 * user, questions to a host that does not answer, and the process that is
 * charged.
 */
#include <errno.h>
#include <linux/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "limit_ends.h"
#include "rdma_here.h"
#include "users.h"

#define PLAIN	400

/* Objects of 4 KiB in use, whatever the caches of that size are called. */
static long objects_4k(void)
{
	FILE *f = fopen("/proc/slabinfo", "re");
	char line[256], name[64];
	long n, sum = 0;

	while (f && fgets(line, sizeof(line), f)) {
		size_t len;

		if (sscanf(line, "%63s %ld", name, &n) != 2)
			continue;
		len = strlen(name);
		if (!strncmp(name, "kmalloc-", 8) &&
		    !strcmp(name + len - 3, "-4k"))
			sum += n;
	}
	if (f)
		fclose(f);
	return f ? sum : -1;
}

static int rdma_state(int fd)
{
	struct l5_rdma_info i;
	socklen_t len = sizeof(i);

	memset(&i, 0xff, sizeof(i));
	if (getsockopt(fd, SOL_L5, L5_RDMA_INFO, &i, &len))
		return -1;
	return i.state;
}

FIXTURE(limit_rdma_unused)
{
	int c[PLAIN], s[PLAIN], l;
	struct addr to;
};

FIXTURE_SETUP(limit_rdma_unused)
{
	l5_or_skip();
	if (objects_4k() < 0)
		SKIP(return, "no /proc/slabinfo");
}

FIXTURE_TEARDOWN(limit_rdma_unused)
{
}

/* Connections that AF_L5 accepted from TCP clients. */
static bool plain_clients(int l, const struct addr *to, int *c, int *s)
{
	for (int i = 0; i < PLAIN; i++) {
		c[i] = end_connect(END_TCP, to);
		s[i] = c[i] < 0 ? -1 : accept(l, NULL, NULL);
		if (s[i] < 0 || l5_transport(s[i]) != L5_TRANSPORT_BASE)
			return false;
	}
	return true;
}

/* Where no RDMA device leads nothing is kept of them. */
TEST_F_TIMEOUT(limit_rdma_unused, no_device, 200)
{
	int a, b, i;
	long before;

	ASSERT_TRUE(net_pair(&a, &b));
	ASSERT_TRUE(net_enter(b));
	self->to = addr_parse("0.0.0.0:0");
	self->l = end_listen(END_L5, &self->to);
	ASSERT_LE(0, self->l);
	i = addr_port(&self->to);
	self->to = addr_parse("10.77.0.2:0");
	addr_set_port(&self->to, i);
	ASSERT_TRUE(net_enter(a));
	before = objects_4k();
	ASSERT_TRUE(plain_clients(self->l, &self->to, self->c, self->s));
	EXPECT_GT(PLAIN / 8, objects_4k() - before);
	TH_LOG("%ld objects of 4 KiB more", objects_4k() - before);
	ASSERT_TRUE(net_enter(b));
	EXPECT_EQ(0, l5_stat("rdma_candidates"));
	for (i = 0; i < PLAIN; i++) {
		ASSERT_EQ(L5_RDMA_NONE, rdma_state(self->s[i]));
		ASSERT_TRUE(end_exchange(self->c[i], self->s[i], 100, i));
		close(self->c[i]);
		close(self->s[i]);
	}
	close(self->l);
	net_pair_end(a, b);
}

/* Where a device leads it is little, and not for long. */
TEST_F_TIMEOUT(limit_rdma_unused, device, 300)
{
	static const int on = TCP_REPAIR_ON, off = TCP_REPAIR_OFF_NO_WP;
	/* half a minute, in which no library has a part: once is enough */
	const bool waits = !getenv("L5_FULL");
	long before;
	int i;

	if (!rdma_here())
		SKIP(return, "no RDMA device can be made here");
	EXPECT_TRUE(end_stat_reaches("rdma_candidates", 0));
	self->to = addr_parse(RDMA_HERE ":0");
	self->l = end_listen(END_L5, &self->to);
	ASSERT_LE(0, self->l);
	before = objects_4k();
	ASSERT_TRUE(plain_clients(self->l, &self->to, self->c, self->s));
	EXPECT_GT(PLAIN / 8, objects_4k() - before);
	TH_LOG("%ld objects of 4 KiB more", objects_4k() - before);
	EXPECT_EQ(PLAIN, l5_stat("rdma_candidates"));
	for (i = 0; i < PLAIN / 2; i++) {
		ASSERT_EQ(L5_RDMA_OPEN, rdma_state(self->s[i]));
		ASSERT_TRUE(end_exchange(self->c[i], self->s[i], 100, i));
		close(self->c[i]);
		close(self->s[i]);
	}
	EXPECT_TRUE(end_stat_reaches("rdma_candidates", PLAIN - i));
	/* an option ends it, and so does time */
	ASSERT_EQ(0, setsockopt(self->s[i], IPPROTO_TCP, TCP_REPAIR, &on,
				sizeof(on)));
	ASSERT_EQ(0, setsockopt(self->s[i], IPPROTO_TCP, TCP_REPAIR, &off,
				sizeof(off)));
	EXPECT_EQ(L5_RDMA_NONE, rdma_state(self->s[i]));
	EXPECT_EQ(L5_REASON_OPTION, end_reason(self->s[i]));
	EXPECT_EQ(PLAIN - i - 1, l5_stat("rdma_candidates"));
	for (i = 0; waits && i < 60 && l5_stat("rdma_candidates") > 0; i++)
		sleep(1);
	if (waits)
		EXPECT_EQ(0, l5_stat("rdma_candidates"));
	for (i = PLAIN / 2; i < PLAIN; i++) {
		if (waits)
			ASSERT_EQ(L5_RDMA_NONE, rdma_state(self->s[i]));
		ASSERT_TRUE(end_exchange(self->c[i], self->s[i], 100, i));
	}
	close(self->l);
}

FIXTURE(limit_rdma)
{
	struct addr to;
	int l;
};

FIXTURE_SETUP(limit_rdma)
{
	/* a client that has given up by itself is not to be waited for */
	struct timeval given_up = { .tv_sec = 60 };

	l5_or_skip();
	if (!rdma_here())
		SKIP(return, "no RDMA device can be made here");
	self->to = addr_parse(RDMA_HERE ":0");
	self->l = rdma_socket();
	ASSERT_LE(0, self->l);
	ASSERT_EQ(0, bind(self->l, &self->to.sa, self->to.len));
	ASSERT_EQ(0, setsockopt(self->l, SOL_SOCKET, SO_RCVTIMEO, &given_up,
				sizeof(given_up)));
	ASSERT_EQ(0, listen(self->l, 100));
	ASSERT_EQ(0, getsockname(self->l, &self->to.sa, &self->to.len));
}

FIXTURE_TEARDOWN(limit_rdma)
{
	if (self->l > 0)
		close(self->l);
	EXPECT_TRUE(end_stat_reaches("rdma_now", 0));
}

#define HOLE	"10.8.0.2"
#define ASKED	50

/*
 * A host that TCP reaches and that answers no question keeps only questions to
 * itself waiting.
 */
TEST_F_TIMEOUT(limit_rdma, turns, 300)
{
	struct addr hole = addr_parse(HOLE ":0");
	int c[ASKED], home = net_current(), ns, l, i, one, s;
	long long silent = l5_stat("rdma_silent");

	ns = net_make("l5hole");
	ASSERT_LE(0, ns);
	ASSERT_EQ(0, sh("ip link add l5h0 type veth peer name l5h1 netns l5hole && "
			"ip addr add 10.8.0.1/24 dev l5h0 && "
			"ip link set l5h0 up && "
			"ip -n l5hole addr add " HOLE "/24 dev l5h1 && "
			"ip -n l5hole link set l5h1 up && "
			"rdma link add rxe8 type rxe netdev l5h0"));
	ASSERT_TRUE(net_enter(ns));
	l = end_listen(END_TCP, &hole);
	ASSERT_TRUE(net_enter(home));
	ASSERT_LE(0, l);
	/* none of these is given up before the test is over */
	ASSERT_LE(0, l5_sysctl("rdma_ms", 60000));
	for (i = 0; i < ASKED; i++) {
		c[i] = end_connect(END_L5, &hole);
		ASSERT_LE(0, c[i]);
		EXPECT_EQ(L5_RDMA_OPEN, rdma_state(c[i]));
	}
	one = rdma_socket();
	ASSERT_LE(0, one);
	ASSERT_EQ(0, connect(one, &self->to.sa, self->to.len));
	s = accept(self->l, NULL, NULL);
	ASSERT_LE(0, s);
	ASSERT_TRUE(end_exchange(one, s, 10000, 0));
	EXPECT_TRUE(rdma_moved(one));
	EXPECT_TRUE(rdma_moved(s));
	EXPECT_EQ(silent, l5_stat("rdma_silent"));
	for (i = 0; i < ASKED; i++) {
		EXPECT_EQ(L5_RDMA_OPEN, rdma_state(c[i]));
		close(c[i]);
	}
	close(one);
	close(s);
	close(l);
	EXPECT_TRUE(end_stat_reaches("rdma_now", 0));
	sh("rdma link delete rxe8; ip link delete l5h0");
	net_delete("l5hole");
}

/* An ordinary user's end of some connections: how many of them moved? */
static int user_moved(const struct addr *to, int l, int n)
{
	int moved = 0, fd[8];

	for (int i = 0; i < n; i++) {
		fd[i] = to ? rdma_socket() : accept(l, NULL, NULL);
		if (fd[i] < 0 ||
		    (to && connect(fd[i], &to->sa, to->len)) ||
		    !end_put(fd[i], 5000, 0) || !end_get(fd[i], 5000, 0))
			return 100;
		while (rdma_state(fd[i]) == L5_RDMA_OPEN ||
		       rdma_state(fd[i]) == L5_RDMA_MOVING)
			usleep(1000);
		if (l5_transport(fd[i]) == L5_TRANSPORT_RDMA)
			moved++;
		else if (end_reason(fd[i]) != L5_REASON_LIMIT)
			return 50 + end_reason(fd[i]);
	}
	for (int i = 0; i < n; i++)
		if (!end_put(fd[i], 5000, 5000) || !end_get(fd[i], 5000, 5000))
			return 101;
	return moved;
}

/* Does a connection of root's with itself move? */
static int user_alone(int l, const struct addr *to)
{
	int c = rdma_socket(), s, moved = -1;

	if (c < 0 || connect(c, &to->sa, to->len))
		return -1;
	s = accept(l, NULL, NULL);
	if (s >= 0 && end_exchange(c, s, 5000, 0)) {
		while (rdma_state(c) == L5_RDMA_OPEN ||
		       rdma_state(c) == L5_RDMA_MOVING)
			usleep(1000);
		moved = l5_transport(c) == L5_TRANSPORT_RDMA;
	}
	close(c);
	close(s);
	return moved;
}

/* Where questions are heard, by all listeners of the host. */
static int places(void)
{
	FILE *p = popen("rdma resource show cm_id | grep -c LISTEN", "re");
	int n = -1;

	if (p && fscanf(p, "%d", &n) != 1)
		n = -1;
	if (p)
		pclose(p);
	return n;
}

/* A user's listeners take so many places, no more; other users have theirs. */
TEST_F_TIMEOUT(limit_rdma, listeners, 120)
{
	enum { N = 8, MOST = 3 };
	long user = l5_sysctl("user_rdma_max", MOST);
	int before = places(), i, status, ready[2];
	struct addr to;
	pid_t pid;
	char c;

	ASSERT_LE(1, before);
	ASSERT_EQ(0, pipe(ready));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		if (nobody_become())
			_exit(1);
		for (i = 0; i < N; i++) {
			to = addr_parse(RDMA_HERE ":0");
			if (end_listen(END_L5, &to) < 0)
				_exit(2);
		}
		if (write(ready[1], "", 1) != 1)
			_exit(3);
		for (;;)
			pause();
	}
	close(ready[1]);
	ASSERT_EQ(1, read(ready[0], &c, 1));
	EXPECT_EQ(before + MOST, places());
	EXPECT_EQ(1, user_alone(self->l, &self->to));
	i = self->l;
	self->to = addr_parse(RDMA_HERE ":0");
	self->l = end_listen(END_L5, &self->to);
	ASSERT_LE(0, self->l);
	EXPECT_EQ(before + MOST + 1, places());
	EXPECT_EQ(1, user_alone(self->l, &self->to));
	close(i);
	ASSERT_EQ(0, kill(pid, SIGKILL));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(before, places());
	l5_sysctl("user_rdma_max", user);
}

/* A user has so many queue pairs and no more, whichever end is that user's. */
TEST_F_TIMEOUT(limit_rdma, user_limit, 300)
{
	enum { N = 4, MOST = 2 };
	long host = l5_sysctl("host_rdma_max", 1000);
	long user = l5_sysctl("user_rdma_max", MOST);
	int fd[N], i, end, status;
	pid_t pid;

	ASSERT_LE(0, user);
	for (end = 0; end < 2; end++) {
		fflush(NULL);
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			alarm(200);
			if (nobody_become())
				_exit(102);
			_exit(user_moved(end ? NULL : &self->to, self->l, N));
		}
		for (i = 0; i < N; i++) {
			fd[i] = end ? rdma_socket() :
				      accept(self->l, NULL, NULL);
			ASSERT_LE(0, fd[i]);
			if (end)
				ASSERT_EQ(0, connect(fd[i], &self->to.sa,
						     self->to.len));
			ASSERT_TRUE(end_get(fd[i], 5000, 0));
			ASSERT_TRUE(end_put(fd[i], 5000, 0));
		}
		for (i = 0; i < N; i++) {
			ASSERT_TRUE(end_get(fd[i], 5000, 5000));
			ASSERT_TRUE(end_put(fd[i], 5000, 5000));
		}
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		EXPECT_EQ(MOST << 8, status);
		for (i = 0; i < N; i++)
			close(fd[i]);
		EXPECT_TRUE(end_stat_reaches("rdma_now", 0));
	}
	/* a task with CAP_SYS_RESOURCE is bounded by the host's limit alone */
	ASSERT_LE(0, l5_sysctl("user_rdma_max", 0));
	EXPECT_EQ(1, user_alone(self->l, &self->to));
	ASSERT_LE(0, l5_sysctl("host_rdma_max", 1));
	EXPECT_EQ(0, user_alone(self->l, &self->to));
	ASSERT_LE(0, l5_sysctl("host_rdma_max", host));
	ASSERT_LE(0, l5_sysctl("user_rdma_max", user));
}

#define CGROUP	"/sys/fs/cgroup/l5_limit_rdma"
#define CHARGED	24

/*
 * How much is a memory cgroup charged with for clients of RDMA? Records of
 * @notify go into receives that are long, if it is L5_NOTIFY_SEND.
 */
static long long charged(struct addr *to, int l, int notify)
{
	int fd[CHARGED], up[2], i, status;
	long long now = -1;
	pid_t pid;

	if (sh("mkdir -p " CGROUP) || pipe(up) ||
	    l5_sysctl("rdma_notify", notify) < 0)
		return -1;
	fflush(NULL);
	pid = fork();
	if (!pid) {
		alarm(200);
		if (sh("echo %d >" CGROUP "/cgroup.procs", getpid()))
			_exit(1);
		for (i = 0; i < CHARGED; i++) {
			fd[i] = rdma_socket();
			if (fd[i] < 0 || connect(fd[i], &to->sa, to->len) ||
			    !end_put(fd[i], 100, 0) ||
			    !end_get(fd[i], 100, 0) || !rdma_moved(fd[i]))
				_exit(2);
		}
		if (write(up[1], "", 1) == 1)
			pause();
		_exit(3);
	}
	close(up[1]);
	for (i = 0; i < CHARGED; i++) {
		fd[i] = accept(l, NULL, NULL);
		if (fd[i] < 0)
			break;
		if (!end_get(fd[i], 100, 0) || !end_put(fd[i], 100, 0)) {
			close(fd[i]);
			break;
		}
	}
	/* a child that lacks a connection says nothing */
	if (i == CHARGED && read(up[0], &status, 1) == 1)
		now = l5_number(CGROUP "/memory.current");
	close(up[0]);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	while (i)
		close(fd[--i]);
	if (!end_stat_reaches("rdma_now", 0) || sh("rmdir " CGROUP))
		return -1;
	return now;
}

/* What kernel threads allocate for a connection is charged to its process. */
TEST_F_TIMEOUT(limit_rdma, memory_cgroup, 300)
{
	long notify = l5_sysctl("rdma_notify", L5_NOTIFY_IMM);
	long long some, more;

	sh("echo +memory >/sys/fs/cgroup/cgroup.subtree_control; "
	   "mkdir -p " CGROUP);
	if (l5_number(CGROUP "/memory.current") < 0)
		SKIP(return, "no memory cgroups");
	some = charged(&self->to, self->l, L5_NOTIFY_IMM);
	more = charged(&self->to, self->l, L5_NOTIFY_SEND);
	TH_LOG("%d clients: %lld KiB, with long receives %lld KiB", CHARGED,
	       some >> 10, more >> 10);
	ASSERT_LT(0, some);
	/* 32 of 4 KiB each; what a CPU has in store may differ */
	EXPECT_LE(some + CHARGED * (64 << 10), more);
	ASSERT_LE(0, l5_sysctl("rdma_notify", notify));
}

TEST_HARNESS_MAIN
