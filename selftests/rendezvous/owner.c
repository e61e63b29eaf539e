// SPDX-License-Identifier: GPL-2.0
/*
 * The owner of a connection. The kernel's tables, firewalls that match the
 * owner, ss and lsof have to say of an AF_L5 socket what they say of a plain
 * one.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "ends.h"
#include "users.h"

FIXTURE(rendezvous_owner)
{
	int nothing;
};

FIXTURE_SETUP(rendezvous_owner)
{
	(void)self;
	l5_or_skip();
	ASSERT_TRUE(net_unshare());
	l5_sysctl("match_ms", 10000);
}

FIXTURE_TEARDOWN(rendezvous_owner)
{
	(void)self;
}

/* A listener, a client and what was accepted, of one process. */
struct trio {
	struct addr at;
	int l, c, s;
};

static bool trio_open(struct trio *t, enum end_kind kind, const char *at)
{
	t->at = addr_parse(at);
	t->l = end_listen(kind, &t->at);
	if (t->l < 0)
		return false;
	t->c = end_connect(kind, &t->at);
	t->s = accept(t->l, NULL, NULL);
	return t->c >= 0 && t->s >= 0 && end_exchange(t->c, t->s, 3000, 0);
}

static void trio_close(struct trio *t)
{
	close(t->c);
	close(t->s);
	close(t->l);
}

static ino_t ino(int fd)
{
	struct stat st;

	return fstat(fd, &st) ? 0 : st.st_ino;
}

/*
 * The line of a socket in /proc/net/tcp or tcp6: its owner and inode. A port
 * of 0 is any.
 */
static bool find_tcp(const char *table, int local, int remote, int *uid,
		     unsigned long *inode)
{
	unsigned int lport, rport, u;
	unsigned long i;
	bool found = false;
	char line[512];
	FILE *f = fopen(table, "r");

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line,
			   " %*d: %*[0-9A-F]:%x %*[0-9A-F]:%x %*x %*x:%*x %*x:%*x %*x %u %*d %lu",
			   &lport, &rport, &u, &i) != 4)
			continue;
		if ((int)lport != local || (remote >= 0 &&
					    (int)rport != remote))
			continue;
		*uid = u;
		*inode = i;
		found = true;
		break;
	}
	if (f)
		fclose(f);
	return found;
}

static int port_here(int fd)
{
	struct addr a = { .len = sizeof(a.ss) };

	return getsockname(fd, &a.sa, &a.len) ? -1 : ntohs(a.in.sin_port);
}

static void check_tcp(struct __test_metadata *_metadata, const char *table,
		      const struct trio *t, int uid)
{
	int l = port_here(t->l), c = port_here(t->c), u = -1;
	unsigned long i = 0;

	ASSERT_TRUE(find_tcp(table, l, 0, &u, &i));
	EXPECT_EQ(ino(t->l), i);
	EXPECT_EQ(uid, u);
	ASSERT_TRUE(find_tcp(table, c, l, &u, &i));
	EXPECT_EQ(ino(t->c), i);
	EXPECT_EQ(uid, u);
	ASSERT_TRUE(find_tcp(table, l, c, &u, &i));
	EXPECT_EQ(ino(t->s), i);
	EXPECT_EQ(uid, u);
}

/* The next call that is TCP's takes notice of it. */
static bool give_away(int fd, int uid)
{
	int on = 1;

	return !fchown(fd, uid, -1) &&
	       !setsockopt(fd, SOL_TCP, TCP_NODELAY, &on, sizeof(on));
}

/* The inode by which ss, lsof and fuser find the process, and the user. */
TEST_F_TIMEOUT(rendezvous_owner, tables, 300)
{
	static const char *const at[] = { "127.0.0.1:0", "[::1]:0" };
	static const char *const table[] = {
		"/proc/self/net/tcp", "/proc/self/net/tcp6"
	};
	struct trio t;
	int k, i;

	for (k = END_TCP; k <= END_L5; k++)
		for (i = 0; i < 2; i++) {
			ASSERT_TRUE(trio_open(&t, k, at[i]));
			check_tcp(_metadata, table[i], &t, 0);
			ASSERT_TRUE(give_away(t.l, 1234));
			ASSERT_TRUE(give_away(t.c, 1234));
			ASSERT_TRUE(give_away(t.s, 1234));
			check_tcp(_metadata, table[i], &t, 1234);
			trio_close(&t);
		}
	/* made by a user who is not root */
	ASSERT_EQ(0, nobody_become());
	for (k = END_TCP; k <= END_L5; k++)
		for (i = 0; i < 2; i++) {
			ASSERT_TRUE(trio_open(&t, k, at[i]));
			check_tcp(_metadata, table[i], &t, NOBODY);
			trio_close(&t);
		}
}

static int count_unix(unsigned long inode)
{
	FILE *f = fopen("/proc/self/net/unix", "r");
	char line[512];
	unsigned long i;
	int n = 0;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "%*s %*x %*x %*x %*x %*x %lu", &i) == 1)
			n += i == inode;
	if (f)
		fclose(f);
	return n;
}

TEST_F_TIMEOUT(rendezvous_owner, unix_table, 300)
{
	struct trio t;
	char at[80];
	int k;

	for (k = END_TCP; k <= END_L5; k++) {
		snprintf(at, sizeof(at), "abstract:l5_owner_%d", getpid());
		ASSERT_TRUE(trio_open(&t, k, at));
		EXPECT_EQ(1, count_unix(ino(t.l)));
		EXPECT_EQ(1, count_unix(ino(t.c)));
		EXPECT_EQ(1, count_unix(ino(t.s)));
		trio_close(&t);
	}
}

/* Does ss name this process and its descriptor? The status of grep. */
static int shown(const char *filter, int port, int fd)
{
	return sh("ss %s = :%d | grep -q 'pid=%d,fd=%d)'", filter, port,
		  getpid(), fd);
}

TEST_F_TIMEOUT(rendezvous_owner, ss, 300)
{
	struct trio t;
	int k;

	if (system("ss -V >/dev/null 2>&1"))
		SKIP(return, "no ss");
	for (k = END_TCP; k <= END_L5; k++) {
		ASSERT_TRUE(trio_open(&t, k, "127.0.0.1:0"));
		EXPECT_EQ(0, shown("-Htlnp sport", port_here(t.l), t.l));
		EXPECT_EQ(0, shown("-Htnp dport", port_here(t.l), t.c));
		EXPECT_EQ(0, shown("-Htnp sport", port_here(t.l), t.s));
		trio_close(&t);
	}
}

/*
 * And so do those that look through /proc/PID/fd for what is in /proc/net/tcp:
 * lsof by the descriptor, fuser by the port alone.
 */
TEST_F_TIMEOUT(rendezvous_owner, lsof_and_fuser, 300)
{
	struct trio t;
	int k;

	if (system("lsof -v >/dev/null 2>&1"))
		SKIP(return, "no lsof");
	if (system("fuser -V >/dev/null 2>&1"))
		SKIP(return, "no fuser");
	for (k = END_TCP; k <= END_L5; k++) {
		int fd[3], i, port;

		ASSERT_TRUE(trio_open(&t, k, "127.0.0.1:0"));
		port = port_here(t.l);
		fd[0] = t.l;
		fd[1] = t.c;
		fd[2] = t.s;
		for (i = 0; i < 3; i++)
			EXPECT_EQ(0, sh("lsof -nP -a -p %d -d %d -i TCP:%d | grep -q 'TCP .*:%d'",
					getpid(), fd[i], port, port));
		EXPECT_EQ(0, sh("fuser -n tcp %d 2>/dev/null | grep -qw %d",
				port, getpid()));
		trio_close(&t);
		/* and of a closed socket they find nothing */
		EXPECT_NE(0, sh("fuser -n tcp %d >/dev/null 2>&1", port));
	}
}

/* Packets counted by the rule of table l5 that has @comment. */
static long counted(const char *comment)
{
	char cmd[200];
	long n = -1;
	FILE *f;

	snprintf(cmd, sizeof(cmd),
		 "nft list table inet l5 | sed -n 's/.*packets \\([0-9]*\\).*%s.*/\\1/p'",
		 comment);
	f = popen(cmd, "r");
	if (!f || fscanf(f, "%ld", &n) != 1)
		n = -1;
	if (f)
		pclose(f);
	return n;
}

/* A rule for the packets that a user's sockets send: both ends' of it. */
TEST_F_TIMEOUT(rendezvous_owner, firewall, 300)
{
	static const char *const kinds[] = { "tcp", "l5" };
	static const char *const at[2][2] = {
		{ "127.0.0.1:7001", "[::1]:7001" },
		{ "127.0.0.1:7002", "[::1]:7002" },
	};
	struct trio t;
	int k, i, status;
	pid_t pid;

	ASSERT_EQ(0, sh("nft 'table inet l5 { chain out {"
			" type filter hook output priority 0;"
			" meta skuid %d tcp dport 7001 counter comment \"tcp to\";"
			" meta skuid %d tcp sport 7001 counter comment \"tcp from\";"
			" meta skuid %d tcp dport 7002 counter comment \"l5 to\";"
			" meta skuid %d tcp sport 7002 counter comment \"l5 from\";"
			" meta skuid %d tcp dport 7003 reject with tcp reset;"
			" }\n}'", NOBODY, NOBODY, NOBODY, NOBODY, NOBODY));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		struct addr to = addr_parse("127.0.0.1:7003");

		if (nobody_become())
			_exit(1);
		for (k = END_TCP; k <= END_L5; k++)
			for (i = 0; i < 2; i++) {
				if (!trio_open(&t, k, at[k][i]))
					_exit(2);
				trio_close(&t);
			}
		i = end_listen(END_L5, &to);
		if (i < 0)
			_exit(3);
		_exit(end_connect(END_L5, &to) == -ECONNREFUSED ? 0 : 4);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	for (k = END_TCP; k <= END_L5; k++) {
		char comment[20];

		/* SYN, ACK, FIN of one end; SYN-ACK and FIN of the other */
		snprintf(comment, sizeof(comment), "%s to", kinds[k]);
		EXPECT_LE(2 * 3, counted(comment));
		snprintf(comment, sizeof(comment), "%s from", kinds[k]);
		EXPECT_LE(2 * 2, counted(comment));
	}
}

TEST_HARNESS_MAIN
