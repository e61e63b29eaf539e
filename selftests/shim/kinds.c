// SPDX-License-Identifier: GPL-2.0
/*
 * Programs of every kind under l5run, each directly and as the child of a
 * shell: those that AF_L5 can carry work on it, all others work as without
 * l5run, which says why in one line.
 */
#include <kselftest_harness.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "l5test.h"
#include "ran.h"
#include "text.h"

enum { GOOD = 42 };

FIXTURE(shim_kinds) { };

FIXTURE_SETUP(shim_kinds)
{
	(void)self;
	l5_or_skip();
}

FIXTURE_TEARDOWN(shim_kinds)
{
	(void)self;
	(void)_metadata;
}

#define KINDS_TEST(name) TEST_F_TIMEOUT(shim_kinds, name, 400)

/* The program works, and there is one line on stderr with these words. */
#define EXPECT_LINE(said, words, r) do {				\
	struct ran r_ = (r);						\
	const char *end_ = strchr(r_.err, '\n');			\
									\
	EXPECT_EQ(GOOD, r_.status);					\
	EXPECT_STREQ((said), r_.out);					\
	EXPECT_NE(NULL, strstr(r_.err, (words)));			\
	EXPECT_TRUE(end_ && !end_[1]);					\
	if (GOOD != r_.status || !strstr(r_.err, (words)) ||		\
	    !end_ || end_[1])						\
		TH_LOG("it said: %s%s", r_.out, r_.err);		\
} while (0)

/* The program works, and these words say why it is not mapped, or not AF_L5. */
#define EXPECT_TOLD(said, words, r) do {				\
	struct ran r_ = (r);						\
									\
	EXPECT_EQ(GOOD, r_.status);					\
	EXPECT_STREQ((said), r_.out);					\
	EXPECT_NE(NULL, strstr(r_.err, (words)));			\
	EXPECT_EQ(NULL, strstr(r_.err, "policy"));			\
	if (!strstr(r_.err, (words)) || strstr(r_.err, "policy"))	\
		TH_LOG("it said: %s", r_.err);				\
} while (0)

KINDS_TEST(plain)
{
	EXPECT_RAN(GOOD, "l5 2\n", RUN(kind("plain")));
	EXPECT_RAN(GOOD, "l5 2\n", RUN(IN_SHELL, kind("plain")));
	EXPECT_RAN(GOOD, "l5 0\n", RUN("--mode=socket", kind("plain")));
	EXPECT_RAN(GOOD, "l5 1\n", RUN(kind("plain"), "slow"));
	EXPECT_RAN(GOOD, "l5 2\n", RUN(kind("plain"), "threads"));
}

/* Time that stands still, runs backwards or jumps, for all but the kernel */
KINDS_TEST(clock)
{
	static const char *const how[] = { "still", "back", "jump" };
	char still[PATH_MAX + 128], env[64];
	size_t i;

	snprintf(still, sizeof(still), "LD_PRELOAD=%s", kind("still.so"));
	for (i = 0; i < 3; i++) {
		snprintf(env, sizeof(env), "STILL=%s", how[i]);
		putenv(env);
		EXPECT_RAN(GOOD, "l5 1\n",
			   RUN_AFTER(with_env, still, kind("plain"), "slow"));
		EXPECT_RAN(GOOD, "l5 1\n",
			   RUN_AFTER(with_env, still, "--spin=1000",
				     kind("plain"), "slow"));
		EXPECT_RAN(GOOD, "l5 0\n",
			   RUN_AFTER(with_env, still, "--mode=socket",
				     kind("plain"), "slow"));
	}
}

/*
 * A sanitizer that comes between the library and libc has to be called, so
 * nothing is mapped; a sanitizer in the program itself comes first, and is
 * content.
 */
static const struct {
	const char *name;
	bool between;
} sanitized[] = {
	{ "asan", true }, { "tsan", true }, { "ubsan", false },
	{ "lsan", false }, { "staticasan", false }, { "clangasan", false },
	{ "clangtsan", false },
};

#define SANITIZED (sizeof(sanitized) / sizeof(*sanitized))

KINDS_TEST(sanitizers)
{
	const char *p, *two, *one;
	size_t i;

	for (i = 0; i < SANITIZED; i++) {
		p = kind(sanitized[i].name);
		if (access(p, X_OK))
			continue;
		TH_LOG("%s", sanitized[i].name);
		two = sanitized[i].between ? "l5 0\n" : "l5 2\n";
		one = sanitized[i].between ? "l5 0\n" : "l5 1\n";
		EXPECT_RAN(GOOD, two, RUN(p));
		EXPECT_RAN(GOOD, two, RUN(IN_SHELL, p, "threads"));
		EXPECT_RAN(GOOD, one, RUN(p, "slow"));
		EXPECT_RAN(GOOD, "l5 0\n", RUN("--mode=socket", p, "slow"));
		if (sanitized[i].between)
			EXPECT_TOLD(two, "not mapped: a sanitizer is to see",
				    RUN("-v", p));
	}
}

/* A read past the end of memory is reported, with the status that was asked. */
KINDS_TEST(overflow)
{
	static const char *const which[] = {
		"asan", "staticasan", "clangasan",
	};
	struct ran r;
	size_t i;

	for (i = 0; i < 3; i++) {
		if (access(kind(which[i]), X_OK))
			continue;
		TH_LOG("%s", which[i]);
		r = RUN_AFTER(with_env, "ASAN_OPTIONS=exitcode=77",
			      kind(which[i]), "overflow");
		EXPECT_EQ(77, r.status);
		EXPECT_NE(NULL, strstr(r.err, "heap-buffer-overflow"));
		r = RUN_AFTER(with_env, "ASAN_OPTIONS=exitcode=78", IN_SHELL,
			      kind(which[i]), "overflow");
		EXPECT_EQ(78, r.status);
		EXPECT_NE(NULL, strstr(r.err, "heap-buffer-overflow"));
	}
}

#define LOST "77 byte(s) leaked in 1 allocation(s)."

/* What the program lost is told, and nothing of ours. */
KINDS_TEST(leak)
{
	static const char *const which[] = {
		"asan", "staticasan", "lsan", "clangasan",
	};
	struct ran r;
	size_t i;

	for (i = 0; i < 4; i++) {
		if (access(kind(which[i]), X_OK))
			continue;
		TH_LOG("%s", which[i]);
		r = RUN(kind(which[i]), "leak");
		EXPECT_EQ(strcmp(which[i], "lsan") ? 1 : 23, r.status);
		EXPECT_NE(NULL, strstr(r.err, LOST));
	}
}

/*
 * Nothing can be preloaded: it runs on TCP, and l5run says so if it can. With a
 * supervisor it does not: ./alone.c.
 */
KINDS_TEST(other_libc)
{
	EXPECT_LINE("tcp 0\n", "another C library (ld-musl-x86_64.so.1): runs on plain TCP",
		    RUN("--static=never", kind("musl")));
	EXPECT_LINE("tcp 0\n", "another C library",
		    RUN("--static=never", "--mode=socket", kind("musl"),
			"slow"));
	EXPECT_RAN(GOOD, "tcp 0\n", RUN(IN_SHELL, kind("musl")));
	EXPECT_RAN(GOOD, "tcp 0\n",
		   RUN("--mode=socket", IN_SHELL, kind("musl"), "threads"));
}

KINDS_TEST(no_loader)
{
	EXPECT_LINE("tcp 0\n", "statically linked: runs on plain TCP",
		    RUN("--static=never", kind("static")));
	EXPECT_RAN(GOOD, "tcp 0\n", RUN(IN_SHELL, kind("static")));
}

KINDS_TEST(other_size)
{
	struct stat st;

	if (stat(kind("m32"), &st) || !st.st_size)
		SKIP(return, "no 32-bit C library here");
	EXPECT_LINE("runs\n", "another word size: runs on plain TCP",
		    RUN(kind("m32")));
	EXPECT_RAN(GOOD, "runs\n", RUN(IN_SHELL, kind("m32")));
}

KINDS_TEST(go)
{
	EXPECT_LINE("runs\n", "Go code makes its own system calls: runs on plain TCP",
		    RUN("--static=never", kind("golike")));
}

KINDS_TEST(set_user_id)
{
	char path[] = "/tmp/l5-kinds-XXXXXX";
	int fd = mkstemp(path);
	struct ran r;
	char copy[PATH_MAX + 256];

	ASSERT_LE(0, fd);
	close(fd);
	if (geteuid())
		SKIP(return, "has to be root");
	snprintf(copy, sizeof(copy),
		 "cp '%s' %s && chown 1:1 %s && chmod 6755 %s && exec setpriv --reuid=65534 --regid=65534 --clear-groups '%s' %s",
		 kind("plain"), path, path, path, l5run(), path);
	r = run(NULL, NULL,
		(const char *const[]){ "/bin/sh", "-c", copy, NULL });
	EXPECT_LINE("tcp 0\n", "set-user-ID or set-group-ID: runs on plain TCP",
		    r);
	unlink(path);
}

/*
 * Where nothing is preloaded sockets are TCP's, and AF_L5 sockets work there,
 * too: the kernel and the rings are coherent.
 */
KINDS_TEST(namespaces)
{
	static const char both[] = "its: tcp 0\nours: l5 2\n";

	EXPECT_RAN(GOOD, both,
		   RUN(kind("plain"), "deepbind", kind("deep.so")));
	EXPECT_RAN(GOOD, both, RUN(kind("plain"), "dlmopen", kind("deep.so")));
}

/* As a service manager does it */
static void pass_listener(const void *arg)
{
	int l = syscall(SYS_socket, AF_INET, SOCK_STREAM, 0);
	char pid[16];

	(void)arg;
	if (l < 0 || listen(l, 8))
		_exit(98);
	if (l != 3) {
		dup2(l, 3);
		close(l);
	}
	snprintf(pid, sizeof(pid), "%d", getpid());
	setenv("LISTEN_FDS", "1", 1);
	setenv("LISTEN_PID", pid, 1);
}

KINDS_TEST(passed)
{
	EXPECT_RAN(GOOD, "passed: tcp 0\nmade: l5 0\n",
		   RUN_AFTER(pass_listener, NULL, kind("plain"), "passed"));
}

/* Sockets but AF_UNIX, AF_INET and AF_INET6 are refused with this error. */
static void restrict_families(const void *arg)
{
	const int error = *(const int *)arg;
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ, SYS_socket, 0, 5),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JEQ, AF_UNIX, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ, AF_INET, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ, AF_INET6, 1, 0),
		BPF_STMT(BPF_RET, SECCOMP_RET_ERRNO | error),
		BPF_STMT(BPF_RET, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { sizeof(f) / sizeof(*f), f };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog))
		_exit(98);
}

KINDS_TEST(families)
{
	static const int errors[] = { EAFNOSUPPORT, EPERM, EACCES, ENOSYS };
	char words[128];
	size_t i;

	for (i = 0; i < 4; i++) {
		snprintf(words, sizeof(words),
			 "no AF_L5 socket (%s, by a filter of system calls): plain sockets are used",
			 strerrorname_np(errors[i]));
		EXPECT_RAN(GOOD, "tcp 0\n",
			   RUN_AFTER(restrict_families, &errors[i],
				     kind("plain")));
		/* l5run tries the filter out before there is a socket */
		EXPECT_LINE("tcp 0\n",
			    "the filter of system calls allows no AF_L5 sockets",
			    RUN_AFTER(restrict_families, &errors[i], "-v",
				      kind("plain")));
		EXPECT_LINE("tcp 0\n", words,
			    RUN_AFTER(restrict_families, &errors[i], "-v",
				      "--mode=socket", kind("plain"), "slow"));
	}
}

/* Nothing that valgrind would have to say */
KINDS_TEST(valgrind)
{
	struct ran r;
	int i;

	if (access("/usr/bin/valgrind", X_OK)) {
		if (getenv("L5_REQUIRED"))
			ASSERT_EQ(0, access("/usr/bin/valgrind", X_OK));
		SKIP(return, "no valgrind here");
	}
	for (i = 0; i < 2; i++) {
		r = RUN("/usr/bin/valgrind", "--error-exitcode=9",
			"--leak-check=full", "--fair-sched=try", kind("plain"),
			i ? "slow" : "pair");
		EXPECT_EQ(GOOD, r.status);
		EXPECT_STREQ(i ? "l5 1\n" : "l5 2\n", r.out);
		EXPECT_NE(NULL, strstr(r.err, "ERROR SUMMARY: 0 errors"));
		EXPECT_EQ(NULL, strstr(r.err, "arning"));
		if (GOOD != r.status || strstr(r.err, "arning"))
			TH_LOG("it said: %s", r.err);
	}
}

TEST_HARNESS_MAIN
