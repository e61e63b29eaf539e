// SPDX-License-Identifier: GPL-2.0
/*
 * l5run --static: a program that nothing can be preloaded into gets sockets of
 * AF_L5 where these are what it would have made itself, and plain ones
 * elsewhere; nothing else that it does or sees changes, whatever is done to it
 * or to the supervisor.
 */
#include <kselftest_harness.h>

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "l5test.h"
#include "ran.h"
#include "text.h"

enum { GOOD = 42, PIDS = 8, PATIENCE_MS = 30000 };

FIXTURE(shim_alone) { };

/* How many supervisors are there, and which processes? */
static int supervisors(pid_t *pids)
{
	DIR *d = opendir("/proc");
	struct dirent *e;
	char path[300], name[32];
	int n = 0;
	FILE *f;

	while (d && (e = readdir(d))) {
		if (!isdigit(e->d_name[0]))
			continue;
		snprintf(path, sizeof(path), "/proc/%s/comm", e->d_name);
		f = fopen(path, "r");
		if (!f)
			continue;
		if (fgets(name, sizeof(name), f) &&
		    !strcmp(name, "l5run-sockets\n") && n < PIDS)
			pids[n++] = atoi(e->d_name);
		fclose(f);
	}
	if (d)
		closedir(d);
	return n;
}

/* They end when the last program does, and that is heard of a little later. */
static bool all_gone(void)
{
	pid_t pids[PIDS];
	int i;

	for (i = 0; i < PATIENCE_MS * l5_slow(); i++) {
		if (!supervisors(pids))
			return true;
		usleep(1000);
	}
	return false;
}

FIXTURE_SETUP(shim_alone)
{
	(void)self;
	l5_or_skip();
	if (geteuid())
		SKIP(return, "has to be root");
	ASSERT_TRUE(all_gone());
}

FIXTURE_TEARDOWN(shim_alone)
{
	(void)self;
	EXPECT_TRUE(all_gone());
}

#define ALONE_TEST(name) TEST_F_TIMEOUT(shim_alone, name, 400)

/* So often these words are on standard error. */
#define SAYS(r, times, words)	EXPECT_EQ((times), text_times((r).err, words))

#define ALONE(...) RUN(kind("alone"), __VA_ARGS__)

ALONE_TEST(kinds)
{
	static const char want[] =
		"l5\nl5 cloexec\nl5 nonblock\nl5 cloexec nonblock\nl5\n"
		"plain\nEPROTONOSUPPORT\nEINVAL\nplain\nplain\nplain\n"
		"EAFNOSUPPORT\n";

	EXPECT_RAN(GOOD, want, ALONE("kinds"));
	EXPECT_RAN(GOOD, want,
		   RUN("--static", IN_SHELL, kind("alone"), "kinds"));
	EXPECT_RAN(GOOD, "l5\nplain\n", ALONE("one", "unix"));
	EXPECT_RAN(GOOD, "l5\nl5\n",
		   RUN("--unix", kind("alone"), "one", "unix"));
	EXPECT_RAN(GOOD, "plain\nl5\n",
		   RUN("--only=unix", kind("alone"), "one", "unix"));
	EXPECT_RAN(GOOD, "l5\n", RUN("--mode=socket", kind("alone"), "one"));
	/* a child of a program without the library is not */
	EXPECT_RAN(GOOD, "plain\n", RUN(IN_SHELL, kind("alone"), "one"));
	EXPECT_RAN(GOOD, "l5\n", ALONE("fork", "one"));
}

/* They carry what they should: with each other, and with a mapped program. */
ALONE_TEST(bytes)
{
	EXPECT_RAN(GOOD, "l5 0\n", RUN(kind("static")));
	EXPECT_RAN(GOOD, "l5 0\n", RUN(kind("static"), "slow"));
	EXPECT_RAN(GOOD, "l5 0\n", RUN(kind("musl"), "threads"));
	EXPECT_RAN(GOOD, "l5 2\n", RUN("--static", kind("plain")));
	EXPECT_RAN(GOOD, "l5 1\n", RUN("--static", kind("plain"), "slow"));
}

/* The socket is the user's that asked, or there is none. */
ALONE_TEST(user)
{
	EXPECT_RAN(GOOD, "l5 0 0\nl5 1000 1001\nl5 1000 1001\n",
		   ALONE("owner", "user", "owner", "owner"));
	EXPECT_RAN(GOOD, "l5\nplain\n", ALONE("one", "groups", "one"));
	/* nobody, as seen from a namespace that has no users */
	EXPECT_RAN(GOOD, "l5 65534 65534\n",
		   ALONE("user", "userns", "owner"));
}

/* Another context, another socket */
ALONE_TEST(context)
{
	EXPECT_RAN(GOOD, "l5\nplain\n", ALONE("one", "net", "one"));
	EXPECT_RAN(GOOD, "l5\nplain\n", ALONE("one", "filter", "one"));
	EXPECT_RAN(GOOD, "l5\nl5\n", ALONE("one", "hidden", "one"));
}

ALONE_TEST(control_group)
{
	char dir[] = "/tmp/l5-alone-XXXXXX", path[64], procs[128];

	ASSERT_NE(NULL, mkdtemp(dir));
	ASSERT_EQ(0, mount("cgroup", dir, "cgroup2", 0, NULL));
	snprintf(path, sizeof(path), "%s/alone", dir);
	ASSERT_EQ(0, mkdir(path, 0755));
	snprintf(procs, sizeof(procs), "%s/cgroup.procs", path);
	EXPECT_RAN(GOOD, "l5\nplain\nplain\n",
		   ALONE("one", "cgroup", procs, "one", "fork", "one"));
	EXPECT_TRUE(all_gone());
	EXPECT_EQ(0, rmdir(path));
	EXPECT_EQ(0, umount(dir));
	EXPECT_EQ(0, rmdir(dir));
}

ALONE_TEST(few_files)
{
	EXPECT_RAN(GOOD, "l5\nEMFILE\n", ALONE("one", "few", "one"));
}

/* Signals neither lose a socket nor make one twice. */
ALONE_TEST(signals)
{
	EXPECT_RAN(GOOD, "storm: 0 left\n", ALONE("storm"));
}

static void as_user(const void *arg)
{
	(void)arg;
	if (setgroups(0, NULL) || setresgid(1001, 1001, 1001) ||
	    setresuid(1000, 1000, 1000))
		_exit(98);
}

static void as_user_without_hope(const void *arg)
{
	as_user(arg);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		_exit(97);
}

/* Without privilege the program pays with something: not unless it is told. */
ALONE_TEST(privilege)
{
	struct ran r;

	r = RUN_AFTER(as_user, NULL, kind("alone"), "one", "nnp");
	EXPECT_EQ(GOOD, r.status);
	EXPECT_STREQ("plain\nnnp 0\n", r.out);
	SAYS(r, 1,
	     "statically linked: runs on plain TCP; see --static");
	EXPECT_RAN(GOOD, "l5 1000 1001\nnnp 1\n",
		   RUN_AFTER(as_user, NULL, "--static", kind("alone"), "owner",
			     "nnp"));
	EXPECT_RAN(GOOD, "l5 1000 1001\nnnp 1\n",
		   RUN_AFTER(as_user_without_hope, NULL, kind("alone"),
			     "owner", "nnp"));
	/* of such a process its namespace is a secret */
	EXPECT_RAN(GOOD, "l5\nplain\n",
		   RUN_AFTER(as_user, NULL, "--static", kind("alone"), "one",
			     "hidden", "one"));
	EXPECT_RAN(GOOD, "nnp 0\n", ALONE("nnp"));
	r = RUN("--static=never", kind("alone"), "one");
	EXPECT_STREQ("plain\n", r.out);
	SAYS(r, 1,
	     "statically linked: runs on plain TCP\n");
}

ALONE_TEST(rules)
{
	EXPECT_RAN(GOOD, "plain\n",
		   RUN_AFTER(with_env, "L5_POLICY=program alone off",
			     kind("alone"), "one"));
	EXPECT_RAN(GOOD, "l5\n",
		   RUN_AFTER(with_env, "L5_POLICY=program other off",
			     kind("alone"), "one"));
	EXPECT_RAN(GOOD, "plain\n",
		   RUN_AFTER(with_env, "L5_POLICY=port 1 off;on",
			     kind("alone"), "one"));
	EXPECT_RAN(GOOD, "l5\n",
		   RUN_AFTER(with_env, "L5_POLICY=port 1 on;on;off",
			     kind("alone"), "one"));
	/* a program with the library has rules of its own */
	EXPECT_RAN(GOOD, "tcp 0\n",
		   RUN("--static", "/usr/bin/env", "L5_POLICY=off",
		       kind("plain")));
	EXPECT_RAN(GOOD, "tcp 0\n",
		   RUN("--static", "--mode=socket", "/usr/bin/env",
		       "L5_SOCKETS=inet6", kind("plain")));
}

/* As the first process of a PID namespace, and with the /proc of another one */
ALONE_TEST(pid_namespace)
{
	struct ran r;

	EXPECT_RAN(GOOD, "l5\n",
		   run(NULL, NULL, (const char *const[]){
			"/usr/bin/unshare", "-p", "--fork", "--mount-proc",
			l5run(), "--static", kind("alone"), "one", NULL }));
	r = run(NULL, NULL, (const char *const[]){
		"/usr/bin/unshare", "-p", "--fork", "--mount-proc", l5run(),
		kind("alone"), "one", NULL });
	EXPECT_EQ(GOOD, r.status);
	EXPECT_STREQ("plain\n", r.out);
	/* what has these numbers there is not what asks */
	r = run(NULL, NULL, (const char *const[]){
		"/usr/bin/unshare", "-p", "--fork", l5run(), "-v", "--static",
		kind("alone"), "one", "fork", "one", NULL });
	EXPECT_EQ(GOOD, r.status);
	EXPECT_STREQ("plain\nplain\n", r.out);
	SAYS(r, 2,
	     "cannot be looked at in /proc");
}

/* What is kept open of tasks is given up: by then /proc can be unmounted. */
ALONE_TEST(proc)
{
	EXPECT_RAN(GOOD, "l5\n",
		   run(NULL, NULL, (const char *const[]){
			"/usr/bin/unshare", "-m", l5run(), "--static",
			kind("alone"), "one", "umount", NULL }));
}

/* With few descriptors, more tasks than it can keep */
static void with_few_files(const void *arg)
{
	const struct rlimit few = { 16, 16 };

	(void)arg;
	if (setrlimit(RLIMIT_NOFILE, &few))
		_exit(98);
}

ALONE_TEST(many_tasks)
{
	static const char all[] = "l5\nl5\nl5\nl5\nl5\nl5\nl5\nl5\n";

	EXPECT_RAN(GOOD, all,
		   RUN_AFTER(with_few_files, NULL, kind("alone"), "one",
			     "fork", "one", "fork", "one", "fork", "one",
			     "fork", "one", "fork", "one", "fork", "one",
			     "fork", "one"));
}

/* Standard error is a pipe that is full, and nobody reads it. */
static void with_full_stderr(const void *arg)
{
	static const char page[4096];
	int p[2];

	(void)arg;
	if (pipe2(p, O_NONBLOCK))
		_exit(98);
	while (write(p[1], page, sizeof(page)) > 0)
		;
	fcntl(p[1], F_SETFL, 0);
	dup2(p[1], STDERR_FILENO);
}

ALONE_TEST(unread)
{
	EXPECT_RAN(GOOD, "l5\nl5\n",
		   RUN_AFTER(with_full_stderr, NULL, "-v", "--static",
			     kind("alone"), "one", "fork", "one"));
}

/* What it says of itself */
ALONE_TEST(words)
{
	struct ran r = RUN("-v", "--stats", kind("alone"), "one", "one", "net",
			   "one");

	EXPECT_EQ(GOOD, r.status);
	SAYS(r, 1,
	     "alone: sockets are of AF_L5, by the supervisor");
	SAYS(r, 1,
	     "alone: no AF_L5 socket (in another network namespace): plain sockets are used");
	SAYS(r, 1,
	     "programs without the library: sockets of AF_L5: 2\n");
	SAYS(r, 1,
	     "programs without the library: plain sockets, in another network namespace: 1\n");
	SAYS(r, 0,
	     "that the library saw");
	/* a second one has nothing to do, unless the first is not ours */
	EXPECT_RAN(GOOD, "l5\n",
		   RUN("--static", l5run(), "--static", "--require",
		       kind("alone"), "one"));
	EXPECT_RAN(GOOD, "l5\n",
		   RUN("--static", l5run(), kind("alone"), "one"));
	r = RUN("--static", "/usr/bin/env", "-u", "L5_STATIC", l5run(),
		"--static", kind("alone"), "one");
	EXPECT_EQ(GOOD, r.status);
	SAYS(r, 1,
	     "another process answers for system calls already");
	r = RUN("--static", "/usr/bin/env", "-u", "L5_STATIC", l5run(),
		"--static", "--require", kind("alone"));
	EXPECT_EQ(125, r.status);
	r = RUN("--static=sometimes", "true");
	EXPECT_EQ(125, r.status);
	r = RUN("--static", "/no/such/program");
	EXPECT_EQ(127, r.status);
}

/* A module that gives no more sockets */
ALONE_TEST(refused)
{
	static const char refuse[] = "/sys/module/af_l5/parameters/refuse";
	int fd = open(refuse, O_WRONLY);

	ASSERT_LE(0, fd);
	ASSERT_EQ(1, write(fd, "1", 1));
	EXPECT_RAN(GOOD, "plain\n", RUN("--static", kind("alone"), "one"));
	ASSERT_EQ(1, write(fd, "0", 1));
	close(fd);
}

/* Also if it is there already, to be closed by exec() */
static void put_at(int fd, int at)
{
	if (fd == at)
		fcntl(fd, F_SETFD, 0);
	else
		dup2(fd, at);
}

/* A program that waits for a byte, and is then to go on */
struct started {
	pid_t pid;
	int in;
	int out;
};

static struct started start(const char *const *argv)
{
	int in[2], out[2];
	struct started s;

	if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
		return (struct started){ .pid = -1 };
	s.pid = fork();
	if (!s.pid) {
		alarm(100 * l5_slow());
		setenv("L5_CONF", "/dev/null", 1);
		put_at(in[0], 0);
		put_at(out[1], 1);
		execv(argv[0], (char **)argv);
		_exit(99);
	}
	close(in[0]);
	close(out[1]);
	s.in = in[1];
	s.out = out[0];
	return s;
}

#define START(...)							\
	start((const char *const[]){ l5run(), "--static",		\
				     kind("alone"), __VA_ARGS__, NULL })

static int end(struct started s)
{
	int status;

	close(s.in);
	close(s.out);
	if (waitpid(s.pid, &status, 0) != s.pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* Until it has said this, and nothing else */
static bool said(struct started s, const char *want)
{
	char text[256];
	size_t n = 0;

	while (n < strlen(want) && n < sizeof(text) - 1 &&
	       read(s.out, text + n, 1) == 1)
		n++;
	text[n] = '\0';
	if (strcmp(text, want))
		dprintf(STDOUT_FILENO, "# it said: %s\n", text);
	return !strcmp(text, want);
}

/* A worker or a keeper alone is enough; without both socket() fails. */
ALONE_TEST(killed)
{
	struct started s = START("one", "wait", "gale", "one", "wait", "one",
				 "wait", "one", "wait", "one");
	pid_t pids[PIDS];
	int i;

	ASSERT_TRUE(said(s, "l5\n"));
	ASSERT_EQ(2, supervisors(pids));
	ASSERT_EQ(1, write(s.in, "w", 1));
	/* the worker is the younger one */
	for (i = 0; i < 20; i++) {
		if (supervisors(pids) == 2)
			EXPECT_EQ(0, kill(pids[1], SIGKILL));
		usleep(20000);
	}
	EXPECT_TRUE(said(s, "storm: 0 left\nl5\n"));
	/* what all processes of a service are told */
	for (i = supervisors(pids); i--;) {
		kill(pids[i], SIGTERM);
		kill(pids[i], SIGINT);
		kill(pids[i], SIGHUP);
	}
	ASSERT_EQ(1, write(s.in, "w", 1));
	EXPECT_TRUE(said(s, "l5\n"));
	ASSERT_EQ(2, supervisors(pids));
	ASSERT_EQ(0, kill(pids[0], SIGKILL));
	ASSERT_EQ(1, write(s.in, "k", 1));
	EXPECT_TRUE(said(s, "l5\n"));
	ASSERT_EQ(0, kill(pids[1], SIGKILL));
	EXPECT_TRUE(all_gone());
	ASSERT_EQ(1, write(s.in, "b", 1));
	EXPECT_TRUE(said(s, "ENOSYS\n"));
	EXPECT_EQ(GOOD, end(s));
}

/* The supervisor has nothing open that was the program's. */
ALONE_TEST(pipes)
{
	struct started s = START("one", "hush", "wait");
	char c;

	EXPECT_TRUE(said(s, "l5\n"));
	EXPECT_EQ(0, read(s.out, &c, 1));
	ASSERT_EQ(1, write(s.in, "w", 1));
	EXPECT_EQ(GOOD, end(s));
}

TEST_HARNESS_MAIN
