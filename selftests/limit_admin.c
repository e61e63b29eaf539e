// SPDX-License-Identifier: GPL-2.0
/*
 * What the administrator of a host, or of a network namespace, has to say:
 * nobody gets more memory by having more namespaces, or at the cost of who it
 * talks to; who is denied rings has none; what is revoked has ended.
 */
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <stdint.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "limit_ends.h"
#include "mapping.h"
#include "rdma_here.h"

#define NOBODY		65534

static bool put_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), err = 0;

	if (fd < 0)
		return false;
	if (write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		err = errno;
	close(fd);
	errno = err;
	return !err;
}

/* As an ordinary user would: its own user namespace, and a network in it. */
static bool nobody_unshare(void)
{
	return !setresgid(NOBODY, NOBODY, NOBODY) &&
	       !setresuid(NOBODY, NOBODY, NOBODY) &&
	       !prctl(PR_SET_DUMPABLE, 1) &&	/* /proc/self is ours */
	       !unshare(CLONE_NEWUSER) &&
	       put_text("/proc/self/uid_map", "0 65534 1") && net_unshare();
}

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

FIXTURE(admin)
{
	long host_max;
	long user_max;
};

FIXTURE_SETUP(admin)
{
	l5_or_skip();
	signal(SIGPIPE, SIG_IGN);
	self->host_max = l5_number("/proc/sys/net/l5/host_max_kb");
	self->user_max = l5_number("/proc/sys/net/l5/user_max_kb");
}

FIXTURE_TEARDOWN(admin)
{
	l5_sysctl("host_max_kb", self->host_max);
	l5_sysctl("user_max_kb", self->user_max);
}

/* What one namespace of many told. */
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
TEST_F_TIMEOUT(admin, user_in_many_namespaces, 300)
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
TEST_F_TIMEOUT(admin, host, 300)
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
TEST_F_TIMEOUT(admin, unpaired, 120)
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

#define CGROUP	"/sys/fs/cgroup/l5_admin"

static bool cgroup_make(void)
{
	sh("echo +memory >/sys/fs/cgroup/cgroup.subtree_control; mkdir -p "
	   CGROUP "_a " CGROUP "_b");
	return l5_number(CGROUP "_b/memory.current") >= 0;
}

static bool cgroup_enter(const char *path)
{
	char file[128], pid[32];

	snprintf(file, sizeof(file), "%s/cgroup.procs", path);
	snprintf(pid, sizeof(pid), "%d", getpid());
	return put_text(file, pid);
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
 * Nor is a server charged for what a client makes it have: the rings that the
 * client maps are the client's, but for what the server asked for.
 */
TEST_F_TIMEOUT(admin, mapper_pays, 180)
{
	struct addr to = addr_parse("127.0.0.1:0");
	int l, i, s[PAIRS], up[2], down[2], status;
	long a0, b0, a, b;
	pid_t client;

	if (!cgroup_make())
		SKIP(return, "no memory cgroups");
	ASSERT_EQ(0, pipe(up) | pipe(down));
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
			if (s[i] < 0 || fill(s[i]) <= 0)
				_exit(2);
		}
		_exit(write(up[1], "", 1) != 1 || !wait_byte(down[0]));
	}
	ASSERT_TRUE(wait_byte(up[0]));
	b = cgroup_kb("b") - b0;
	TH_LOG("client %ld KiB, server %ld KiB", a, b);
	/* both rings of each connection are the client's */
	EXPECT_LT(PAIRS * 2 * 200, a);
	EXPECT_GT(PAIRS * 128 + 512, b);
	ASSERT_EQ(2, write(down[1], "xx", 2));
	for (i = 0; i < 2; i++) {
		ASSERT_LT(0, wait(&status));
		EXPECT_EQ(0, status);
	}
	close(l);
	EXPECT_TRUE(end_stat_reaches("rings_kb", 0));
	EXPECT_TRUE(end_stat_reaches("reserved_kb", 0));
	EXPECT_EQ(0, sh("rmdir " CGROUP "_a " CGROUP "_b"));
}

/* What a server wants is not at the cost of who connects. */
TEST_F_TIMEOUT(admin, server_wish, 180)
{
	charge(_metadata, false);
}

/* Nor once it has the whole of both rings mapped. */
TEST_F_TIMEOUT(admin, server_wish_mapped, 180)
{
	charge(_metadata, true);
}

#define DENY	"/proc/self/net/l5_deny"
#define REVOKE	"/proc/self/net/l5_revoke"

/* The errno of writing a line, 0 if it was taken. */
static int say(const char *file, const char *fmt, ...)
{
	char line[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	return put_text(file, line) ? 0 : errno;
}

static bool rules_are(const char *want)
{
	char have[512] = "";
	int fd = open(DENY, O_RDONLY | O_CLOEXEC);
	ssize_t n = read(fd, have, sizeof(have) - 1);

	close(fd);
	if (n >= 0 && !strcmp(have, want))
		return true;
	fprintf(stderr, "# rules: '%s'\n", have);
	return false;
}

static const char *const everywhere[] = {
	"127.0.0.1:0", "[::1]:0", "abstract:l5_admin_deny",
};

/*
 * A connection whose ends are @client's and @server's, and its reasons. As uid,
 * for a socket is who made it.
 */
static bool pair_as(const char *at, uid_t client, uid_t server, int *cr,
		    int *sr)
{
	struct addr to = addr_parse(at);
	int l, c, s;
	bool ok;

	ok = !seteuid(server);
	l = end_listen(END_L5, &to);
	ok = ok && !seteuid(0) && !seteuid(client);
	c = end_connect(END_L5, &to);
	ok = ok && !seteuid(0) && !seteuid(server);
	s = accept(l, NULL, NULL);
	ok = ok && !seteuid(0) && c >= 0 && s >= 0 && l5_transport(c) > 0;
	*cr = ok ? end_reason(c) : -1;
	*sr = ok ? end_reason(s) : -1;
	ok = ok && end_exchange(c, s, 50000, 0);
	close(c);
	close(s);
	close(l);
	return ok;
}

/* Whoever is denied rings, at whichever end, goes on without. */
TEST_F_TIMEOUT(admin, deny_uid, 180)
{
	unsigned int i;
	int c, s;

	ASSERT_TRUE(net_unshare());
	ASSERT_LE(0, l5_sysctl("match_ms", 10000));
	ASSERT_EQ(0, say(DENY, "uid 70000-70010\nuid %d", NOBODY));
	/* said twice is said once */
	ASSERT_EQ(0, say(DENY, "uid %d\n", NOBODY));
	EXPECT_TRUE(rules_are("uid 70000-70010\nuid 65534-65534\n"));
	for (i = 0; i < ARRAY_SIZE(everywhere); i++) {
		ASSERT_TRUE(pair_as(everywhere[i], 0, 0, &c, &s));
		EXPECT_EQ(L5_REASON_NONE, c);
		EXPECT_EQ(L5_REASON_NONE, s);
		ASSERT_TRUE(pair_as(everywhere[i], NOBODY, 0, &c, &s));
		EXPECT_EQ(L5_REASON_DENIED, c);
		EXPECT_EQ(L5_REASON_PEER, s);
		ASSERT_TRUE(pair_as(everywhere[i], 0, 70010, &c, &s));
		EXPECT_EQ(L5_REASON_PEER, c);
		EXPECT_EQ(L5_REASON_DENIED, s);
		ASSERT_TRUE(pair_as(everywhere[i], 70011, 69999, &c, &s));
		EXPECT_EQ(L5_REASON_NONE, c);
	}
	EXPECT_EQ(2 * ARRAY_SIZE(everywhere), l5_stat("fallback_denied"));
	EXPECT_TRUE(end_stat_reaches("pairs", 0));
	EXPECT_EQ(ENOENT, say(DENY, "allow uid 70000"));
	EXPECT_EQ(0, say(DENY, "allow uid %d", NOBODY));
	ASSERT_TRUE(pair_as(everywhere[0], NOBODY, 0, &c, &s));
	EXPECT_EQ(L5_REASON_NONE, c);
	EXPECT_EQ(0, say(DENY, "allow uid 70000-70010\nall"));
	EXPECT_TRUE(rules_are("all\n"));
	ASSERT_TRUE(pair_as(everywhere[0], 0, 0, &c, &s));
	EXPECT_EQ(L5_REASON_DENIED, c);
	EXPECT_EQ(L5_REASON_DENIED, s);
}

TEST_F_TIMEOUT(admin, deny_cgroup, 180)
{
	int status, c, s;
	pid_t pid;

	ASSERT_TRUE(net_unshare());
	ASSERT_LE(0, l5_sysctl("match_ms", 10000));
	ASSERT_EQ(0, sh("mkdir -p " CGROUP "_d/below " CGROUP "_e"));
	ASSERT_EQ(0, say(DENY, "cgroup /l5_admin_d"));
	EXPECT_TRUE(rules_are("cgroup /l5_admin_d\n"));
	fflush(NULL);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		struct addr to = addr_parse("127.0.0.1:0");
		int before, fd;

		/* a socket stays what it was made as */
		before = end_socket(END_L5, AF_INET);
		if (!cgroup_enter(CGROUP "_d/below"))
			_exit(1);
		if (!pair_as("127.0.0.1:0", 0, 0, &c, &s) ||
		    c != L5_REASON_DENIED || s != L5_REASON_DENIED)
			_exit(2);
		if (!cgroup_enter(CGROUP "_e"))
			_exit(3);
		if (!pair_as("127.0.0.1:0", 0, 0, &c, &s) || c || s)
			_exit(4);
		fd = end_listen(END_L5, &to);
		if (!cgroup_enter(CGROUP "_d") ||
		    connect(before, &to.sa, to.len) ||
		    l5_transport(before) != L5_TRANSPORT_SHM)
			_exit(5);
		close(fd);
		_exit(0);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	/* the rule does not keep it, and outlives it */
	EXPECT_EQ(0, sh("rmdir " CGROUP "_d/below " CGROUP "_d " CGROUP "_e"));
	ASSERT_TRUE(pair_as("127.0.0.1:0", 0, 0, &c, &s));
	EXPECT_EQ(L5_REASON_NONE, c);
}

/* The host's rules hold everywhere, a namespace's in addition, and there. */
TEST_F_TIMEOUT(admin, deny_in_namespaces, 180)
{
	int host, c, s;

	ASSERT_EQ(0, say(DENY, "uid %d", NOBODY));
	host = net_current();
	ASSERT_TRUE(net_unshare());
	ASSERT_LE(0, l5_sysctl("match_ms", 10000));
	EXPECT_TRUE(rules_are(""));
	ASSERT_TRUE(pair_as("127.0.0.1:0", NOBODY, 0, &c, &s));
	EXPECT_EQ(L5_REASON_DENIED, c);
	EXPECT_EQ(ENOENT, say(DENY, "allow uid %d", NOBODY));
	ASSERT_EQ(0, say(DENY, "uid 70000"));
	ASSERT_TRUE(pair_as("127.0.0.1:0", 70000, 0, &c, &s));
	EXPECT_EQ(L5_REASON_DENIED, c);
	ASSERT_TRUE(net_enter(host));
	EXPECT_TRUE(rules_are("uid 65534-65534\n"));
	ASSERT_TRUE(pair_as("127.0.0.1:0", 70000, 0, &c, &s));
	EXPECT_NE(L5_REASON_DENIED, c);
	ASSERT_EQ(0, say(DENY, "allow uid %d", NOBODY));
}

TEST_F_TIMEOUT(admin, bad_lines, 60)
{
	static const char *const bad[] = {
		"uid", "uid ", "uid x", "uid -1", "uid 5-", "uid 7-6",
		"uid 4294967295", "uid 1 2", "cgroup", "cgroup x", "inode",
		"inode x", "every", "all of it", "allow", "allow x",
	};
	unsigned int i;
	int fd;

	ASSERT_TRUE(net_unshare());
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		EXPECT_EQ(EINVAL, say(DENY, "%s", bad[i])) {
			TH_LOG("%s", bad[i]);
		}
		EXPECT_EQ(EINVAL, say(REVOKE, "%s", bad[i])) {
			TH_LOG("%s", bad[i]);
		}
	}
	EXPECT_EQ(ENOENT, say(DENY, "cgroup /l5_none"));
	EXPECT_EQ(ENOENT, say(REVOKE, "cgroup /l5_none"));
	EXPECT_EQ(EINVAL, say(DENY, "inode 5"));
	EXPECT_EQ(ESRCH, say(REVOKE, "inode 5"));
	EXPECT_TRUE(rules_are(""));
	for (i = 0; i < 64; i++)
		ASSERT_EQ(0, say(DENY, "uid %u", i));
	EXPECT_EQ(ENOSPC, say(DENY, "uid %u", i));
	/* root by uid alone is no administrator */
	fd = open(REVOKE, O_WRONLY | O_CLOEXEC);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, sh("true"));
	fflush(NULL);
	if (!fork()) {
		if (setresuid(NOBODY, NOBODY, NOBODY))
			_exit(1);
		/* nor who was handed the file */
		_exit(write(fd, "all", 3) != -1 || errno != EPERM ||
		      say(REVOKE, "all") != EACCES ||
		      say(DENY, "uid 5") != EACCES);
	}
	wait((int *)&i);
	EXPECT_EQ(0, i);
	close(fd);
}

/* Who has a network of its own is its administrator, and no other's. */
TEST_F_TIMEOUT(admin, own_network, 120)
{
	struct addr to = addr_parse("127.0.0.1:0");
	int l, c, s, status;
	pid_t pid;

	l = end_listen(END_L5, &to);
	ASSERT_LE(0, l);
	ASSERT_TRUE(open_pair(l, &to, &c, &s));
	fflush(NULL);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		int old = open("/proc/self/net/l5_revoke", O_WRONLY);
		struct addr at = addr_parse("abstract:l5_own");
		int cr, sr, n[3];

		if (old < 0 || !nobody_unshare())
			_exit(1);
		/* of the network that was */
		if (write(old, "all", 3) != -1 || errno != EPERM)
			_exit(2);
		n[0] = end_listen(END_L5, &at);
		if (n[0] < 0 || !open_pair(n[0], &at, &n[1], &n[2]) ||
		    l5_transport(n[1]) != L5_TRANSPORT_SHM)
			_exit(3);
		if (say(REVOKE, "all") || recv(n[1], &cr, 1, 0) != -1 ||
		    errno != ECONNRESET)
			_exit(4);
		close(n[0]);
		/* uid 0 there is 65534 outside */
		if (say(DENY, "uid 0"))
			_exit(5);
		if (!pair_as("abstract:l5_own2", 0, 0, &cr, &sr) ||
		    cr != L5_REASON_DENIED)
			_exit(6);
		_exit(0);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_TRUE(end_exchange(c, s, 1000, 0));
	close(c);
	close(s);
	close(l);
}

static int look(const char *at)
{
	return __atomic_load_n(at, __ATOMIC_SEQ_CST);
}

static bool is_reset(int fd)
{
	char b;

	return recv(fd, &b, 1, 0) == -1 && errno == ECONNRESET;
}

/* Ended for good: end of file, broken pipe, and poll() says so. */
static bool is_over(int fd)
{
	int got, put, err, events;
	char b;

	got = recv(fd, &b, 1, MSG_DONTWAIT);
	err = got < 0 ? errno : 0;
	put = send(fd, "", 1, MSG_NOSIGNAL);
	if (put < 0 && errno != EPIPE)
		err = errno;
	events = end_poll(fd, POLLIN | POLLRDHUP);
	if (!got && put == -1 && !err && events & POLLHUP)
		return true;
	fprintf(stderr, "# received %d, sent %d, %s, polled %x\n", got, put,
		strerror(err), events);
	return false;
}

/* A thread asleep in a call while its connection is revoked. */
struct sleeper {
	pthread_t thread;
	int fd;
	pid_t tid;
	ssize_t ret;
	int err;
};

static void *sleep_in_recv(void *arg)
{
	struct sleeper *z = arg;
	char b;

	__atomic_store_n(&z->tid, gettid(), __ATOMIC_RELEASE);
	z->ret = recv(z->fd, &b, 1, 0);
	z->err = errno;
	return NULL;
}

/* All of a namespace, by each kind of bootstrap; also who is asleep. */
TEST_F_TIMEOUT(admin, revoke_all, 180)
{
	unsigned int i;

	ASSERT_TRUE(net_unshare());
	ASSERT_LE(0, l5_sysctl("match_ms", 10000));
	for (i = 0; i < ARRAY_SIZE(everywhere); i++) {
		struct addr to = addr_parse(everywhere[i]);
		int l = end_listen(END_L5, &to), c[4], s[4], k;
		struct sleeper z = { 0 };

		ASSERT_LE(0, l);
		for (k = 0; k < 4; k++) {
			ASSERT_TRUE(open_pair(l, &to, &c[k], &s[k]));
			ASSERT_EQ(L5_TRANSPORT_SHM, l5_transport(s[k]));
		}
		/* one with what nobody reads, one asleep */
		ASSERT_TRUE(end_put(c[1], 5000, 0));
		z.fd = c[2];
		ASSERT_EQ(0, pthread_create(&z.thread, NULL, sleep_in_recv,
					    &z));
		ASSERT_TRUE(UNTIL(__atomic_load_n(&z.tid, __ATOMIC_ACQUIRE)));
		ASSERT_TRUE(l5_wait_asleep(z.tid));
		ASSERT_EQ(0, say(REVOKE, "all\n"));
		ASSERT_EQ(0, pthread_join(z.thread, NULL));
		EXPECT_EQ(-1, z.ret);
		EXPECT_EQ(ECONNRESET, z.err);
		EXPECT_TRUE(is_reset(s[2]));
		/* what was there is there, unless it was mapped */
		if (!getenv("L5_FULL"))
			EXPECT_TRUE(end_get(s[1], 5000, 0));
		EXPECT_TRUE(is_reset(s[1]));
		EXPECT_TRUE(is_reset(c[1]));
		EXPECT_TRUE(is_reset(c[0]));
		EXPECT_TRUE(is_reset(s[0]));
		for (k = 0; k < 3; k++) {
			EXPECT_TRUE(is_over(c[k]));
			EXPECT_TRUE(is_over(s[k]));
		}
		EXPECT_TRUE(end_poll(c[3], POLLIN) & POLLERR);
		for (k = 0; k < 4; k++) {
			close(c[k]);
			close(s[k]);
		}
		/* the listener listens */
		ASSERT_TRUE(open_pair(l, &to, &c[0], &s[0]));
		EXPECT_TRUE(end_exchange(c[0], s[0], 1000, 0));
		close(c[0]);
		close(s[0]);
		close(l);
	}
	EXPECT_TRUE(end_stat_reaches("pairs", 0));
	EXPECT_TRUE(end_stat_reaches("reserved_kb", 0));
}

/*
 * The end of both ends of a connection at a time: each is told once that it was
 * reset, by its own end or by the other's, and finds it ended from then on.
 */
TEST_F_TIMEOUT(admin, revoke_told_once, 180)
{
	enum { PAIRS = 8, ROUNDS = 10, KINDS = ARRAY_SIZE(everywhere) };
	int fd[2 * PAIRS], round, twice = 0, i;
	struct sleeper z[2 * PAIRS];
	char b;

	ASSERT_TRUE(net_unshare());
	ASSERT_LE(0, l5_sysctl("match_ms", 10000));
	for (round = 0; round < ROUNDS * KINDS; round++) {
		struct addr to = addr_parse(everywhere[round % KINDS]);
		int l = end_listen(END_L5, &to);

		ASSERT_LE(0, l);
		for (i = 0; i < 2 * PAIRS; i += 2)
			ASSERT_TRUE(open_pair(l, &to, &fd[i], &fd[i + 1]));
		memset(z, 0, sizeof(z));
		for (i = 0; i < 2 * PAIRS; i++) {
			z[i].fd = fd[i];
			ASSERT_EQ(0, pthread_create(&z[i].thread, NULL,
						    sleep_in_recv, &z[i]));
		}
		for (i = 0; i < 2 * PAIRS; i++) {
			ASSERT_TRUE(UNTIL(__atomic_load_n(&z[i].tid,
							  __ATOMIC_ACQUIRE)));
			ASSERT_TRUE(l5_wait_asleep(z[i].tid));
		}
		ASSERT_EQ(0, say(REVOKE, "all\n"));
		for (i = 0; i < 2 * PAIRS; i++) {
			ASSERT_EQ(0, pthread_join(z[i].thread, NULL));
			EXPECT_EQ(-1, z[i].ret);
			EXPECT_EQ(ECONNRESET, z[i].err);
			twice += recv(fd[i], &b, 1, MSG_DONTWAIT) != 0;
			close(fd[i]);
		}
		close(l);
	}
	EXPECT_EQ(0, twice);
	EXPECT_TRUE(end_stat_reaches("pairs", 0));
}

/*
 * Who has it mapped, and does not care what it is told, has it no more: what
 * one end writes the other does not see, neither gets a signal, and a call
 * says what happened.
 */
TEST_F_TIMEOUT(admin, revoke_mapped, 120)
{
	unsigned int i;

	ASSERT_TRUE(net_unshare());
	ASSERT_LE(0, l5_sysctl("match_ms", 10000));
	for (i = 0; i < ARRAY_SIZE(everywhere); i++) {
		struct addr to = addr_parse(everywhere[i]);
		int l = end_listen(END_L5, &to), c, s;
		struct mapping m[2];
		const char *seen;
		char *mine;

		ASSERT_LE(0, l);
		ASSERT_TRUE(open_pair(l, &to, &c, &s));
		ASSERT_EQ(0, mapping_open(&m[0], c));
		ASSERT_EQ(0, mapping_open(&m[1], s));
		mine = (char *)m[0].tx;
		seen = (const char *)m[1].rx;
		__atomic_store_n(&mine[100], 7, __ATOMIC_SEQ_CST);
		ASSERT_EQ(7, look(&seen[100]));
		ASSERT_EQ(0, say(REVOKE, "all"));
		__atomic_store_n(&mine[100], 9, __ATOMIC_SEQ_CST);
		EXPECT_EQ(9, look(&mine[100]));
		EXPECT_NE(9, look(&seen[100]));
		EXPECT_NE(7, look(&seen[100]));
		EXPECT_TRUE(is_reset(c));
		EXPECT_TRUE(is_reset(s));
		mapping_close(&m[0]);
		mapping_close(&m[1]);
		close(c);
		close(s);
		close(l);
	}
	EXPECT_TRUE(end_stat_reaches("rings_kb", 0));
}

/* What has met and waits for accept() is a connection as well. */
TEST_F_TIMEOUT(admin, revoke_pending, 120)
{
	unsigned int i;

	ASSERT_TRUE(net_unshare());
	ASSERT_LE(0, l5_sysctl("match_ms", 10000));
	for (i = 0; i < ARRAY_SIZE(everywhere); i++) {
		struct addr to = addr_parse(everywhere[i]);
		int l, c[3], s, k;

		ASSERT_EQ(0, seteuid(NOBODY));
		l = end_listen(END_L5, &to);
		ASSERT_EQ(0, seteuid(0));
		ASSERT_LE(0, l);
		for (k = 0; k < 3; k++) {
			c[k] = end_connect(END_L5, &to);
			ASSERT_LE(0, c[k]);
			ASSERT_EQ(L5_TRANSPORT_SHM, l5_transport(c[k]));
		}
		/* by whom they were connected to */
		ASSERT_EQ(0, say(REVOKE, "uid %d", NOBODY));
		for (k = 0; k < 3; k++) {
			EXPECT_TRUE(is_reset(c[k]));
			s = accept(l, NULL, NULL);
			ASSERT_LE(0, s);
			EXPECT_TRUE(is_reset(s));
			close(s);
			close(c[k]);
		}
		close(l);
	}
	EXPECT_TRUE(end_stat_reaches("reserved_kb", 0));
}

static unsigned long inode_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) ? 0 : st.st_ino;
}

/* No more than what is named. */
TEST_F_TIMEOUT(admin, revoke_some, 120)
{
	struct addr to = addr_parse("127.0.0.1:0");
	int l, c[3], s[3], t, u, k;

	ASSERT_TRUE(net_unshare());
	ASSERT_LE(0, l5_sysctl("match_ms", 10000));
	l = end_listen(END_L5, &to);
	ASSERT_LE(0, l);
	for (k = 0; k < 3; k++)
		ASSERT_TRUE(open_pair(l, &to, &c[k], &s[k]));
	/* TCP carries this one, where firewalls see it */
	t = end_connect(END_TCP, &to);
	ASSERT_LE(0, t);
	u = accept(l, NULL, NULL);
	ASSERT_LE(0, u);
	ASSERT_EQ(0, say(REVOKE, "inode %lu", inode_of(s[1])));
	EXPECT_TRUE(is_reset(c[1]));
	EXPECT_TRUE(end_exchange(c[0], s[0], 1000, 0));
	EXPECT_TRUE(end_exchange(c[2], s[2], 1000, 0));
	ASSERT_EQ(0, say(REVOKE, "uid 1-70000"));
	EXPECT_TRUE(end_exchange(c[0], s[0], 1000, 1000));
	ASSERT_EQ(0, say(REVOKE, "cgroup /"));
	EXPECT_TRUE(is_reset(c[0]));
	EXPECT_TRUE(is_reset(s[2]));
	EXPECT_TRUE(end_exchange(t, u, 1000, 0));
	/* everything, with no exception */
	ASSERT_EQ(0, say(REVOKE, "sockets"));
	EXPECT_TRUE(is_reset(t));
	EXPECT_TRUE(is_reset(u));
	EXPECT_EQ(-1, accept(l, NULL, NULL));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-ECONNREFUSED, end_connect(END_TCP, &to));
	for (k = 0; k < 3; k++) {
		close(c[k]);
		close(s[k]);
	}
	close(t);
	close(u);
	close(l);
}

/* The host reaches every namespace. */
TEST_F_TIMEOUT(admin, revoke_from_host, 120)
{
	struct addr to = addr_parse("127.0.0.1:0");
	int host = net_current(), own, l, c, s;

	ASSERT_TRUE(net_unshare());
	own = net_current();
	ASSERT_LE(0, l5_sysctl("match_ms", 10000));
	l = end_listen(END_L5, &to);
	ASSERT_TRUE(open_pair(l, &to, &c, &s));
	ASSERT_EQ(L5_TRANSPORT_SHM, l5_transport(c));
	ASSERT_TRUE(net_enter(host));
	EXPECT_EQ(0, say(REVOKE, "inode %lu", inode_of(c)));
	EXPECT_TRUE(is_reset(c));
	EXPECT_TRUE(is_reset(s));
	close(c);
	close(s);
	ASSERT_TRUE(net_enter(own));
	close(l);
}

/* Connections come, go and send while others are ended: nobody hangs. */
TEST_F_TIMEOUT(admin, revoke_busy, 240)
{
	enum { PROCS = 3, ROUNDS = 60 };
	int gate[2], i, status;
	pid_t pid[PROCS];

	ASSERT_TRUE(net_unshare());
	ASSERT_EQ(0, pipe2(gate, O_NONBLOCK));
	fflush(NULL);
	for (i = 0; i < PROCS; i++) {
		struct addr to = addr_parse(i == 2 ? "abstract:l5_busy" :
					    "127.0.0.1:0");
		int l, c, s, k;
		char stop;

		pid[i] = fork();
		ASSERT_LE(0, pid[i]);
		if (pid[i])
			continue;
		close(gate[1]);
		l = end_listen(END_L5, &to);
		while (read(gate[0], &stop, 1) < 0) {
			static char buf[100000];

			c = end_connect(END_L5, &to);
			if (c < 0)
				continue;
			s = accept(l, NULL, NULL);
			if (s < 0)
				_exit(1);
			for (k = 0; k < 20; k++) {
				send(c, buf, sizeof(buf), MSG_DONTWAIT |
				     MSG_NOSIGNAL);
				recv(s, buf, sizeof(buf), MSG_DONTWAIT);
			}
			shutdown(c, SHUT_WR);
			while (recv(s, buf, sizeof(buf), 0) > 0)
				;
			close(i ? c : s);
			close(i ? s : c);
		}
		_exit(0);
	}
	for (i = 0; i < ROUNDS; i++) {
		EXPECT_EQ(0, say(REVOKE, "all"));
		usleep(20000);
	}
	close(gate[1]);
	for (i = 0; i < PROCS; i++) {
		ASSERT_EQ(pid[i], waitpid(pid[i], &status, 0));
		EXPECT_EQ(0, status);
	}
	EXPECT_TRUE(end_stat_reaches("pairs", 0));
	EXPECT_TRUE(end_stat_reaches("reserved_kb", 0));
	EXPECT_EQ(0, l5_stat("violations"));
}

/* A socket that takes RDMA or nothing, made as @uid. */
static int rdma_socket(uid_t uid)
{
	int fd, force = L5_TRANSPORT_RDMA;

	if (seteuid(uid))
		return -1;
	fd = end_socket(END_L5, AF_INET);
	if (seteuid(0) || setsockopt(fd, SOL_L5, L5_FORCE, &force,
				     sizeof(force)))
		return -1;
	return fd;
}

static bool rdma_pair(uid_t client, uid_t server, int *c, int *s)
{
	struct addr to = addr_parse(RDMA_HERE ":0");
	int l = rdma_socket(server);
	bool ok;

	*c = rdma_socket(client);
	*s = -1;
	ok = l >= 0 && *c >= 0 && !bind(l, &to.sa, to.len) && !listen(l, 5) &&
	     !getsockname(l, &to.sa, &to.len) &&
	     !connect(*c, &to.sa, to.len);
	if (ok)
		*s = accept(l, NULL, NULL);
	/* a question that was asked is answered by now */
	ok = ok && *s >= 0 && end_exchange(*c, *s, 50000, 0);
	if (ok && !client && !server)
		ok = rdma_moved(*c) && rdma_moved(*s);
	close(l);
	return ok;
}

/*
 * A client that was in connect() when it was denied, and what it had revoked,
 * is not to have rings afterwards.
 */
TEST_F_TIMEOUT(admin, denied_while_connecting, 120)
{
	struct addr to = addr_parse("abstract:l5_admin_full");
	int l, c, s, i, fd[2];
	pid_t pid;

	l = end_listen(END_L5, &to);
	ASSERT_LE(0, l);
	ASSERT_EQ(0, listen(l, 0));
	for (i = 0; i < 1; i++) {
		fd[i] = end_connect(END_L5, &to);
		ASSERT_LE(0, fd[i]);
	}
	fflush(NULL);
	pid = fork();
	if (!pid) {
		c = end_connect(END_L5, &to);
		_exit(c >= 0 && l5_transport(c) == L5_TRANSPORT_SHM);
	}
	EXPECT_TRUE(l5_wait_asleep(pid));
	ASSERT_EQ(0, say(DENY, "uid 0"));
	EXPECT_EQ(0, say(REVOKE, "uid 0"));
	for (i = 0; i < 2; i++) {
		s = end_poll(l, POLLIN) & POLLIN ? accept(l, NULL, NULL) : -1;
		if (i && s >= 0)
			EXPECT_NE(L5_TRANSPORT_SHM, l5_transport(s));
		close(s);
	}
	ASSERT_EQ(pid, waitpid(pid, &i, 0));
	EXPECT_EQ(0, i);
	ASSERT_EQ(0, say(DENY, "allow uid 0"));
	close(fd[0]);
	close(l);
}

/* A call that is in a page fault for ever, with what its socket has locked. */
static pid_t stuck_in_send(int fd)
{
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct uffdio_api api = { .api = UFFD_API };
	pid_t pid;
	void *p;
	int u;

	fflush(NULL);
	pid = fork();
	if (pid)
		return pid;
	u = syscall(SYS_userfaultfd, O_CLOEXEC);
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	reg.range.start = (uintptr_t)p;
	reg.range.len = 4096;
	if (u < 0 || ioctl(u, UFFDIO_API, &api) ||
	    ioctl(u, UFFDIO_REGISTER, &reg))
		_exit(77);
	syscall(SYS_sendto, fd, p, 10, 0, NULL, 0);
	_exit(1);
}

/* Nobody keeps an administrator from ending the connections of others. */
TEST_F_TIMEOUT(admin, revoke_beside_a_stuck_one, 180)
{
	struct addr to = addr_parse("127.0.0.1:0");
	pid_t stuck, shut, admin;
	int l, c[2], s[2], i;

	l = end_listen(END_L5, &to);
	ASSERT_LE(0, l);
	for (i = 0; i < 2; i++) {
		c[i] = end_connect(END_L5, &to);
		s[i] = accept(l, NULL, NULL);
		ASSERT_LE(0, s[i]);
		ASSERT_EQ(L5_TRANSPORT_SHM, l5_transport(c[i]));
	}
	stuck = stuck_in_send(c[0]);
	EXPECT_TRUE(l5_wait_asleep(stuck));
	fflush(NULL);
	shut = fork();
	if (!shut) {
		shutdown(c[0], SHUT_WR);
		_exit(0);
	}
	/* which sleeps where only a signal that kills ends it */
	usleep(500000);
	fflush(NULL);
	admin = fork();
	if (!admin) {
		i = say(REVOKE, "all");
		_exit(i && i != EINPROGRESS);
	}
	/* this one at once, and the stuck one has no rings any more */
	EXPECT_TRUE(is_reset(c[1]));
	EXPECT_TRUE(is_reset(s[1]));
	EXPECT_TRUE(UNTIL(send(s[0], "x", 1, MSG_NOSIGNAL) == -1));
	ASSERT_EQ(admin, waitpid(admin, &i, 0));
	EXPECT_EQ(0, i);
	kill(shut, SIGKILL);
	kill(stuck, SIGKILL);
	waitpid(shut, &i, 0);
	waitpid(stuck, &i, 0);
	for (i = 0; i < 2; i++) {
		close(c[i]);
		close(s[i]);
	}
	close(l);
}

/* Of connections that RDMA carries the same is true. */
TEST_F_TIMEOUT(admin, rdma, 240)
{
	int c, s, i;

	if (!rdma_here())
		SKIP(return, "no RDMA device can be made here");
	for (i = 0; i < 2; i++) {
		ASSERT_TRUE(rdma_pair(0, 0, &c, &s));
		ASSERT_EQ(0, say(REVOKE, "inode %lu", inode_of(i ? c : s)));
		/* over RDMA each reader hears of it, every time */
		EXPECT_TRUE(is_reset(c) && is_reset(c));
		EXPECT_TRUE(is_reset(s) && is_reset(s));
		close(c);
		close(s);
	}
	ASSERT_EQ(0, say(DENY, "uid %d", NOBODY));
	for (i = 0; i < 2; i++) {
		ASSERT_TRUE(rdma_pair(i ? 0 : NOBODY, i ? NOBODY : 0, &c, &s));
		EXPECT_EQ(L5_TRANSPORT_BASE, l5_transport(c));
		EXPECT_EQ(L5_TRANSPORT_BASE, l5_transport(s));
		EXPECT_EQ(L5_REASON_DENIED, end_reason(i ? s : c));
		close(c);
		close(s);
	}
	ASSERT_EQ(0, say(DENY, "allow uid %d", NOBODY));
	EXPECT_TRUE(end_stat_reaches("rdma_now", 0));
	EXPECT_TRUE(end_stat_reaches("reserved_kb", 0));
}

/* The tool says what the files say. */
TEST_F_TIMEOUT(admin, l5ctl, 120)
{
	static const char ctl[] = "../userspace/bin/l5ctl";
	struct addr to = addr_parse("127.0.0.1:0");
	int l, c, s;

	ASSERT_TRUE(net_unshare());
	ASSERT_LE(0, l5_sysctl("match_ms", 10000));
	l = end_listen(END_L5, &to);
	ASSERT_TRUE(open_pair(l, &to, &c, &s));
	EXPECT_EQ(0, sh("%s list | grep -q '^%lu .* shm .*limit_admin(%d)'",
			ctl, inode_of(c), getpid()));
	EXPECT_EQ(0, sh("%s deny uid 7-9 && %s deny cgroup / &&"
			"[ \"$(%s rules)\" = 'uid 7-9\ncgroup /' ]", ctl, ctl,
			ctl));
	EXPECT_EQ(0, sh("%s allow uid 7-9", ctl));
	EXPECT_TRUE(rules_are("cgroup /\n"));
	EXPECT_TRUE(end_exchange(c, s, 1000, 0));
	EXPECT_EQ(0, sh("%s revoke inode %lu", ctl, inode_of(c)));
	EXPECT_TRUE(is_reset(c));
	EXPECT_TRUE(is_reset(s));
	/* each says what is wrong, and fails */
	EXPECT_EQ(0, sh("! %s && ! %s deny && ! %s rules x && ! %s revoke x &&"
			"! %s allow uid 1 && ! %s -t x unload && ! %s none",
			ctl, ctl, ctl, ctl, ctl, ctl, ctl));
	close(c);
	close(s);
	close(l);
}

/* Nobody gets a new one any more, and what is there goes on. */
TEST_F_TIMEOUT(admin, refuse, 60)
{
	static const char file[] = "/sys/module/af_l5/parameters/refuse";
	struct addr to = addr_parse("127.0.0.1:0");
	int l, c, s;

	l = end_listen(END_L5, &to);
	ASSERT_TRUE(open_pair(l, &to, &c, &s));
	ASSERT_EQ(0, say(file, "1"));
	EXPECT_EQ(-EAFNOSUPPORT, end_socket(END_L5, AF_INET));
	EXPECT_EQ(-EAFNOSUPPORT, end_socket(END_L5, AF_UNIX));
	EXPECT_TRUE(end_exchange(c, s, 1000, 0));
	ASSERT_EQ(0, say(file, "0"));
	close(c);
	close(s);
	c = end_connect(END_L5, &to);
	EXPECT_LE(0, c);
	close(c);
	close(l);
}

TEST_HARNESS_MAIN
