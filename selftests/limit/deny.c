// SPDX-License-Identifier: GPL-2.0
/*
 * What the administrator of a host, or of a network namespace, denies: a socket
 * that is denied rings has none; no program gets a new socket at all.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "admin.h"
#include "limit_ends.h"

ADMIN_FIXTURE(limit_deny)

#define CGROUP	"/sys/fs/cgroup/l5_deny"

/*
 * A connection whose ends are @client's and @server's, and its reasons. As uid,
 * since a socket belongs to the user that made it.
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

/* A socket that is denied rings, at whichever end, goes on without. */
TEST_F_TIMEOUT(limit_deny, deny_uid, 180)
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

TEST_F_TIMEOUT(limit_deny, deny_cgroup, 180)
{
	int status, c, s;
	pid_t pid;

	ASSERT_TRUE(net_unshare());
	ASSERT_LE(0, l5_sysctl("match_ms", 10000));
	ASSERT_EQ(0, sh("mkdir -p " CGROUP "_d/below " CGROUP "_e"));
	ASSERT_EQ(0, say(DENY, "cgroup /l5_deny_d"));
	EXPECT_TRUE(rules_are("cgroup /l5_deny_d\n"));
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
TEST_F_TIMEOUT(limit_deny, deny_in_namespaces, 180)
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

TEST_F_TIMEOUT(limit_deny, bad_lines, 60)
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
		/* nor is a user who was handed the file */
		_exit(write(fd, "all", 3) != -1 || errno != EPERM ||
		      say(REVOKE, "all") != EACCES ||
		      say(DENY, "uid 5") != EACCES);
	}
	wait((int *)&i);
	EXPECT_EQ(0, i);
	close(fd);
}

/* A user with a network of its own is its administrator, and no other's. */
TEST_F_TIMEOUT(limit_deny, own_network, 120)
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

/*
 * A client that was in connect() when it was denied, and what it had revoked,
 * is not to have rings afterwards.
 */
TEST_F_TIMEOUT(limit_deny, denied_while_connecting, 120)
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

/* No program gets a new socket any more, and what is there goes on. */
TEST_F_TIMEOUT(limit_deny, refuse, 60)
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
