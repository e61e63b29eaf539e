// SPDX-License-Identifier: GPL-2.0
/*
 * l5run --cgroup: the sockets of a cgroup become AF_L5's, by the kernel, and no
 * other ones do. Where the kernel lets nobody choose, or the administrator has
 * not opened the door, l5run says so.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "ends.h"
#include "users.h"

#define CGROUP	"/sys/fs/cgroup/l5_upgrade"
#define BELOW	CGROUP "/below"
#define MPTCP	262

/* What l5run prints, as far as it was read. */
struct said {
	pid_t pid;
	int fd;
	char text[4096];
	size_t len;
};

FIXTURE(shim_cgroup)
{
	bool chooses;
	long long had;
	struct said said;
};

static bool inet_open(bool on)
{
	return put_text(L5_INET_PATH, on ? "1" : "0");
}

/* Does this kernel have what chooses the protocol? */
static bool kernel_chooses(void)
{
	return !sh("grep -qw update_socket_protocol /proc/kallsyms");
}

FIXTURE_SETUP(shim_cgroup)
{
	l5_or_skip();
	self->chooses = kernel_chooses();
	self->said.pid = -1;
	self->had = l5_references();
	ASSERT_TRUE(inet_open(true));
	ASSERT_TRUE(net_unshare());
	ASSERT_LE(0, l5_sysctl("match_ms", 10000));
	mkdir(CGROUP, 0755);
	ASSERT_TRUE(!mkdir(BELOW, 0755) || errno == EEXIST);
}

FIXTURE_TEARDOWN(shim_cgroup)
{
	if (self->said.pid > 0) {
		kill(self->said.pid, SIGKILL);
		waitpid(self->said.pid, NULL, 0);
	}
	cgroup_enter("/sys/fs/cgroup");
	rmdir(BELOW);
	rmdir(CGROUP);
	inet_open(false);
}

/* Run l5run with these arguments, up to NULL. */
static bool l5run(struct said *said, ...)
{
	char self[PATH_MAX], path[PATH_MAX + 64], *argv[16];
	int ends[2], n = 0;
	va_list args;
	ssize_t len;

	len = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (len < 0 || pipe2(ends, O_CLOEXEC))
		return false;
	self[len] = '\0';
	snprintf(path, sizeof(path), "%s/../../../userspace/bin/l5run",
		 dirname(self));
	argv[n++] = path;
	va_start(args, said);
	while (n < 15 && (argv[n] = va_arg(args, char *)))
		n++;
	va_end(args);
	argv[n] = NULL;
	said->len = 0;
	said->text[0] = '\0';
	said->fd = ends[0];
	said->pid = fork();
	if (!said->pid) {
		dup2(ends[1], 1);
		dup2(ends[1], 2);
		execv(path, argv);
		_exit(99);
	}
	close(ends[1]);
	return said->pid > 0;
}

/* Read until it has said @what; false if it ends without. */
static bool says(struct said *said, const char *what)
{
	ssize_t n;

	while (!strstr(said->text, what)) {
		n = read(said->fd, said->text + said->len,
			 sizeof(said->text) - 1 - said->len);
		if (n <= 0)
			return false;
		said->len += n;
		said->text[said->len] = '\0';
	}
	return true;
}

/* Its wait status, once all that it said was read. */
static int ended(struct said *said)
{
	int status = l5_reap(said->pid);

	says(said, "\1");
	close(said->fd);
	said->pid = -1;
	return status;
}

#define EXITED(n)	((n) << 8)

static bool is_l5(int fd)
{
	return l5_getopt(fd, L5_TRANSPORT) >= 0;
}

/* What socket() makes: 1 if AF_L5's, 0 if another, -errno. */
static int made(int family, int type, int protocol)
{
	int fd = socket(family, type, protocol), ret;

	if (fd < 0)
		return -errno;
	ret = is_l5(fd);
	close(fd);
	return ret;
}

/* The same by a task of a cgroup; 99 if it cannot be put there. */
static int made_in(const char *cgroup, int family, int type, int protocol)
{
	pid_t pid = fork();
	int status;

	if (!pid)
		_exit(cgroup_enter(cgroup) ?
		      made(family, type, protocol) & 0x7f : 99);
	status = l5_reap(pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#define FAILS(error)	(-(error) & 0x7f)

TEST_F(shim_cgroup, says_why_not)
{
	struct said *said = &self->said;

	ASSERT_TRUE(l5run(said, "--cgroup", "/tmp", "true", NULL));
	EXPECT_EQ(EXITED(125), ended(said));
	EXPECT_NE(NULL, strstr(said->text, "/tmp is no directory of cgroup2"));
	ASSERT_TRUE(l5run(said, "--cgroup", CGROUP "/none", "true", NULL));
	EXPECT_EQ(EXITED(125), ended(said));
	ASSERT_TRUE(l5run(said, "--cgroup", CGROUP, "--mode=full", "true",
			  NULL));
	EXPECT_EQ(EXITED(125), ended(said));
	EXPECT_NE(NULL, strstr(said->text, "--cgroup goes with"));
	ASSERT_TRUE(l5run(said, "--cgroup", CGROUP, "--only=unix", "true",
			  NULL));
	EXPECT_EQ(EXITED(125), ended(said));
	if (!self->chooses) {
		ASSERT_TRUE(l5run(said, "--cgroup", CGROUP, "true", NULL));
		EXPECT_EQ(EXITED(125), ended(said));
		EXPECT_NE(NULL, strstr(said->text, "6.6"))
			TH_LOG("%s", said->text);
		return;
	}
	ASSERT_TRUE(inet_open(false));
	ASSERT_TRUE(l5run(said, "--cgroup", CGROUP, "true", NULL));
	EXPECT_EQ(EXITED(125), ended(said));
	EXPECT_NE(NULL, strstr(said->text, L5_INET_PATH))
		TH_LOG("%s", said->text);
	/* and with all of it there, it runs the program */
	ASSERT_TRUE(inet_open(true));
	ASSERT_TRUE(l5run(said, "--cgroup", CGROUP, "--verbose", "sh", "-c",
			  "exit 3", NULL));
	EXPECT_EQ(EXITED(3), ended(said));
}

TEST_F_TIMEOUT(shim_cgroup, sockets, 120)
{
	struct said *said = &self->said;
	int status;

	if (!self->chooses)
		SKIP(return, "this kernel lets nobody choose the protocol");
	ASSERT_TRUE(l5run(said, "-v", "--cgroup", CGROUP, NULL));
	ASSERT_TRUE(says(said, "from now on"))
		TH_LOG("%s", said->text);
	/* the module cannot go while a cgroup depends on it */
	EXPECT_LT(self->had, l5_references());

	EXPECT_EQ(0, made(AF_INET, SOCK_STREAM, 0));
	EXPECT_EQ(0, made_in("/sys/fs/cgroup", AF_INET, SOCK_STREAM, 0));
	EXPECT_EQ(1, made_in(CGROUP, AF_INET, SOCK_STREAM, 0));
	EXPECT_EQ(1, made_in(BELOW, AF_INET, SOCK_STREAM, 0));
	EXPECT_EQ(1, made_in(CGROUP, AF_INET6, SOCK_STREAM, 0));
	EXPECT_EQ(1, made_in(CGROUP, AF_INET, SOCK_STREAM | SOCK_NONBLOCK |
			     SOCK_CLOEXEC, IPPROTO_TCP));
	EXPECT_EQ(1, made_in(CGROUP, AF_INET6, SOCK_STREAM, MPTCP));
	EXPECT_EQ(1, made_in(CGROUP, AF_INET, SOCK_STREAM, IPPROTO_L5));
	EXPECT_EQ(0, made_in(CGROUP, AF_INET, SOCK_DGRAM, 0));
	EXPECT_EQ(0, made_in(CGROUP, AF_INET, SOCK_RAW, IPPROTO_ICMP));
	EXPECT_EQ(0, made_in(CGROUP, AF_UNIX, SOCK_STREAM, 0));
	EXPECT_EQ(FAILS(EINVAL),
		  made_in(CGROUP, AF_INET, SOCK_STREAM | 0x100, 0));
	/* errors are the kernel's own */
	EXPECT_EQ(FAILS(EPROTONOSUPPORT),
		  made_in(CGROUP, AF_INET, SOCK_STREAM, IPPROTO_UDP));
	EXPECT_EQ(FAILS(EINVAL), made_in(CGROUP, AF_INET, SOCK_STREAM, 9999));
	EXPECT_EQ(FAILS(EINVAL), made_in(CGROUP, AF_INET, SOCK_STREAM, -1));
	EXPECT_EQ(FAILS(EINVAL), made_in(CGROUP, AF_INET, 15, 0));

	kill(said->pid, SIGTERM);
	status = ended(said);
	EXPECT_EQ(EXITED(0), status);
	EXPECT_NE(NULL, strstr(said->text, ": 5 sockets were to be of AF_L5"))
		TH_LOG("%s", said->text);
	EXPECT_EQ(0, made_in(CGROUP, AF_INET, SOCK_STREAM, 0));
	EXPECT_TRUE(l5_comes_back(l5_references, 0, self->had, 10000));
}

TEST_F_TIMEOUT(shim_cgroup, only, 60)
{
	struct said *said = &self->said;
	int k;

	if (!self->chooses)
		SKIP(return, "this kernel lets nobody choose the protocol");
	for (k = 0; k < 2; k++) {
		ASSERT_TRUE(l5run(said, "-v", "--cgroup", CGROUP,
				  k ? "--only=inet6" : "--only=inet", NULL));
		ASSERT_TRUE(says(said, "from now on"));
		EXPECT_EQ(!k, made_in(CGROUP, AF_INET, SOCK_STREAM, 0));
		EXPECT_EQ(k, made_in(CGROUP, AF_INET6, SOCK_STREAM, 0));
		kill(said->pid, k ? SIGINT : SIGHUP);
		EXPECT_EQ(EXITED(0), ended(said));
	}
}

/* Two tasks of the cgroup meet on rings; one of them and another do not. */
TEST_F_TIMEOUT(shim_cgroup, meets, 60)
{
	struct said *said = &self->said;
	int l, c, s, plain, err;
	struct addr to = addr_parse("127.0.0.1:0");

	if (!self->chooses)
		SKIP(return, "this kernel lets nobody choose the protocol");
	ASSERT_TRUE(l5run(said, "-v", "--cgroup", CGROUP, NULL));
	ASSERT_TRUE(says(said, "from now on"));
	plain = end_socket(END_TCP, AF_INET);
	ASSERT_TRUE(cgroup_enter(BELOW));
	l = end_listen(END_TCP, &to);
	ASSERT_LE(0, l);
	c = end_connect(END_TCP, &to);
	ASSERT_LE(0, c);
	s = accept(l, NULL, NULL);
	ASSERT_LE(0, s);
	EXPECT_EQ(L5_TRANSPORT_SHM, l5_transport(c));
	EXPECT_EQ(L5_TRANSPORT_SHM, l5_transport(s));
	EXPECT_TRUE(end_exchange(c, s, 100000, 0));
	close(s);
	err = connect(plain, &to.sa, to.len);
	EXPECT_EQ(0, err);
	s = accept(l, NULL, NULL);
	EXPECT_EQ(L5_TRANSPORT_BASE, l5_transport(s));
	EXPECT_TRUE(end_exchange(plain, s, 100000, 0));
	close(s);
	/* what is there stays when l5run ends, and so does what it accepts */
	kill(said->pid, SIGKILL);
	ended(said);
	EXPECT_EQ(0, made(AF_INET, SOCK_STREAM, 0));
	EXPECT_TRUE(is_l5(c));
	EXPECT_TRUE(is_l5(l));
	close(plain);
	close(c);
	close(l);
}

/* A program is put into the cgroup; l5run ends as it does. */
TEST_F_TIMEOUT(shim_cgroup, program, 60)
{
	struct said *said = &self->said;
	char line[40];
	int status;

	if (!self->chooses)
		SKIP(return, "this kernel lets nobody choose the protocol");
	ASSERT_TRUE(l5run(said, "--cgroup", CGROUP, "sh", "-c",
			  "cat /proc/self/cgroup; exit 7", NULL));
	EXPECT_EQ(EXITED(7), ended(said));
	EXPECT_NE(NULL, strstr(said->text, "/l5_upgrade\n"))
		TH_LOG("%s", said->text);
	ASSERT_TRUE(l5run(said, "--cgroup", CGROUP, "l5_is_not_there", NULL));
	EXPECT_EQ(EXITED(127), ended(said));
	ASSERT_TRUE(l5run(said, "--cgroup", CGROUP, "/", NULL));
	EXPECT_EQ(EXITED(126), ended(said));
	ASSERT_TRUE(l5run(said, "--cgroup", CGROUP, "sh", "-c",
			  "kill -KILL $$", NULL));
	status = ended(said);
	EXPECT_TRUE(WIFSIGNALED(status));
	EXPECT_EQ(SIGKILL, WTERMSIG(status));
	/* the program has l5run's number, and no child that it did not make */
	ASSERT_TRUE(l5run(said, "--cgroup", CGROUP, "sh", "-c",
			  "trap 'exit 9' TERM; read c </proc/$$/task/$$/children; echo up $$ $c; while :; do sleep 0.1; done",
			  NULL));
	ASSERT_TRUE(says(said, "up"));
	ASSERT_TRUE(says(said, "\n"));
	snprintf(line, sizeof(line), "up %d\n", said->pid);
	EXPECT_NE(NULL, strstr(said->text, line))
		TH_LOG("%s", said->text);
	EXPECT_EQ(1, made_in(CGROUP, AF_INET, SOCK_STREAM, 0));
	kill(said->pid, SIGTERM);
	status = ended(said);
	EXPECT_EQ(EXITED(9), status);
	/* and what holds it all open ends soon after */
	EXPECT_TRUE(l5_comes_back(l5_references, 0, self->had, 10000));
	EXPECT_EQ(0, made_in(CGROUP, AF_INET, SOCK_STREAM, 0));
}

/* Whatever is ignored when it begins, it ends, and with the right status. */
TEST_F_TIMEOUT(shim_cgroup, ignored, 60)
{
	struct said *said = &self->said;

	if (!self->chooses)
		SKIP(return, "this kernel lets nobody choose the protocol");
	signal(SIGCHLD, SIG_IGN);
	ASSERT_TRUE(l5run(said, "--cgroup", CGROUP, "sh", "-c", "exit 5",
			  NULL));
	signal(SIGCHLD, SIG_DFL);
	EXPECT_EQ(EXITED(5), ended(said));
	/* as nohup(1) would */
	signal(SIGHUP, SIG_IGN);
	ASSERT_TRUE(l5run(said, "-v", "--cgroup", CGROUP, NULL));
	signal(SIGHUP, SIG_DFL);
	ASSERT_TRUE(says(said, "from now on"));
	kill(said->pid, SIGHUP);
	EXPECT_EQ(1, made_in(CGROUP, AF_INET, SOCK_STREAM, 0));
	kill(said->pid, SIGTERM);
	EXPECT_EQ(EXITED(0), ended(said));
}

/* A cgroup that is removed takes nothing with it, and is told of. */
TEST_F_TIMEOUT(shim_cgroup, removed, 60)
{
	struct said *said = &self->said;

	if (!self->chooses)
		SKIP(return, "this kernel lets nobody choose the protocol");
	ASSERT_TRUE(l5run(said, "-v", "--cgroup", BELOW, NULL));
	ASSERT_TRUE(says(said, "from now on"));
	ASSERT_EQ(0, rmdir(BELOW));
	EXPECT_EQ(EXITED(125), ended(said));
	EXPECT_NE(NULL, strstr(said->text, "has been removed"));
}

/* Two of them, of a cgroup and one below it, do not disturb each other. */
TEST_F_TIMEOUT(shim_cgroup, two, 60)
{
	struct said other = { .pid = -1 }, *said = &self->said;

	if (!self->chooses)
		SKIP(return, "this kernel lets nobody choose the protocol");
	ASSERT_TRUE(l5run(said, "-v", "--cgroup", CGROUP, NULL));
	ASSERT_TRUE(says(said, "from now on"));
	ASSERT_TRUE(l5run(&other, "-v", "--cgroup", BELOW, NULL));
	ASSERT_TRUE(says(&other, "from now on"));
	EXPECT_EQ(1, made_in(CGROUP, AF_INET, SOCK_STREAM, 0));
	EXPECT_EQ(1, made_in(BELOW, AF_INET, SOCK_STREAM, 0));
	kill(said->pid, SIGTERM);
	EXPECT_EQ(EXITED(0), ended(said));
	EXPECT_EQ(0, made_in(CGROUP, AF_INET, SOCK_STREAM, 0));
	EXPECT_EQ(1, made_in(BELOW, AF_INET, SOCK_STREAM, 0));
	kill(other.pid, SIGTERM);
	EXPECT_EQ(EXITED(0), ended(&other));
	EXPECT_EQ(0, made_in(BELOW, AF_INET, SOCK_STREAM, 0));
}

TEST_HARNESS_MAIN
