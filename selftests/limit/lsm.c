// SPDX-License-Identifier: GPL-2.0
/*
 * What confines a program confines its AF_L5 sockets: Landlock's rules for TCP
 * ports and its scope of abstract AF_UNIX addresses, and programs of a cgroup
 * that judge setsockopt(). Each call is made on a plain socket too, inside the
 * same sandbox, and both have to get the same answer.
 */
#include <errno.h>
#include <linux/bpf.h>
#include <linux/filter.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "bpf.h"
#include "limit_ends.h"
#include "users.h"

LIMIT_FIXTURE(limit_lsm)

/* Headers of the kernel that this is built on may not know of them. */
#define LANDLOCK_CREATE		444
#define LANDLOCK_ADD		445
#define LANDLOCK_RESTRICT	446
#define LANDLOCK_VERSION	1
#define LANDLOCK_RULE_PORT	2
#define LANDLOCK_BIND		1
#define LANDLOCK_CONNECT	2
#define LANDLOCK_ABSTRACT	1

struct landlock_ruleset {
	uint64_t fs;
	uint64_t net;
	uint64_t scoped;
};

struct landlock_port {
	uint64_t allowed;
	uint64_t port;
};

static int landlock_abi(void)
{
	return syscall(LANDLOCK_CREATE, NULL, 0, LANDLOCK_VERSION);
}

/* From now on only @port may be bound and connected to, if it is not 0. */
static bool landlock(uint64_t scoped, int port)
{
	struct landlock_ruleset r = {
		.net = port ? LANDLOCK_BIND | LANDLOCK_CONNECT : 0,
		.scoped = scoped,
	};
	struct landlock_port p = { LANDLOCK_BIND | LANDLOCK_CONNECT, port };
	int fd = syscall(LANDLOCK_CREATE, &r, scoped ? sizeof(r) : 16, 0);

	if (fd < 0)
		return false;
	if (port && syscall(LANDLOCK_ADD, fd, LANDLOCK_RULE_PORT, &p, 0))
		return false;
	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !syscall(LANDLOCK_RESTRICT, fd, 0);
}

static int port_of(const struct addr *a)
{
	return ntohs(a->in.sin_port);	/* IPv6 has it there as well */
}

/* What a sandboxed child finds, for its parent to compare. */
struct answer {
	char what[80];
	int err[END_INET + 1];
};

struct answers {
	int n;
	bool confined;
	struct answer a[200];
};

enum call { BIND, CONNECT, CALLS };

static int answer(enum end_kind kind, int family, enum call call,
		  struct addr to, int alias, int len)
{
	int fd = end_socket(kind, family), ret;

	if (fd < 0)
		return -fd;
	if (alias >= 0)
		to.sa.sa_family = alias;
	if (len < 0)
		len = to.len;
	ret = call == BIND ? bind(fd, &to.sa, len) : connect(fd, &to.sa, len);
	ret = ret ? errno : 0;
	close(fd);
	return ret;
}

static struct answer *ask(struct answers *all, const char *what, int family,
			  enum call call, struct addr to, int alias, int len)
{
	struct answer *a = &all->a[all->n++];
	enum end_kind k;

	snprintf(a->what, sizeof(a->what), "%s %s, family %d as %d, length %d",
		 call == BIND ? "bind" : "connect", what, family, alias, len);
	for (k = END_TCP; k <= END_INET; k++)
		a->err[k] = answer(k, family, call, to, alias, len);
	return a;
}

static void tcp_answers(struct answers *all, struct addr good[2],
			struct addr bad[2], const struct addr spare[2])
{
	static const int families[] = { AF_INET, AF_INET6 };
	static const int aliases[] = {
		-1, AF_UNSPEC, AF_INET, AF_INET6, AF_UNIX, 18, 99
	};
	static const int lens[] = { 0, 1, 2, 8, 16, 24, 28 };
	unsigned int f, i;

	for (f = 0; f < 2; f++) {
		int family = families[f];

		ask(all, "good", family, CONNECT, good[f], -1, -1);
		ask(all, "bad", family, CONNECT, bad[f], -1, -1);
		ask(all, "spare", family, BIND, spare[f], -1, -1);
		for (i = 0; i < ARRAY_SIZE(aliases); i++) {
			ask(all, "bad", family, CONNECT, bad[f], aliases[i],
			    -1);
			ask(all, "spare", family, BIND, spare[f], aliases[i],
			    -1);
			ask(all, "good", family, BIND, good[f], aliases[i],
			    -1);
		}
		for (i = 0; i < ARRAY_SIZE(lens); i++) {
			ask(all, "bad", family, CONNECT, bad[f], -1, lens[i]);
			ask(all, "spare", family, BIND, spare[f], -1, lens[i]);
		}
	}
}

static struct answers *answers_new(void)
{
	return mmap(NULL, sizeof(struct answers), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static void drop_root(void)
{
	if (nobody_become())
		_exit(99);
}

/* How many of them were @err to the plain socket. */
static int answered(const struct answers *all, int err)
{
	int i, n = 0;

	for (i = 0; i < all->n; i++)
		n += all->a[i].err[END_TCP] == err;
	return n;
}

static void compare_with(struct __test_metadata *_metadata,
			 const struct answer *a, enum end_kind kind)
{
	EXPECT_EQ(a->err[END_TCP], a->err[kind]) {
		TH_LOG("%s: plain %s, AF_L5%s %s", a->what,
		       strerrorname_np(a->err[END_TCP]),
		       kind == END_L5 ? "" : " by protocol",
		       strerrorname_np(a->err[kind]));
	}
}

static void compare(struct __test_metadata *_metadata,
		    const struct answers *all)
{
	int i;

	for (i = 0; i < all->n; i++) {
		compare_with(_metadata, &all->a[i], END_L5);
		compare_with(_metadata, &all->a[i], END_INET);
	}
}

TEST_F_TIMEOUT(limit_lsm, landlock_tcp, 300)
{
	struct addr good[2], bad[2], spare[2];
	struct answers *all = answers_new();
	int status, i, l[4];
	pid_t pid;

	if (landlock_abi() < 4)
		SKIP(return, "this kernel's Landlock knows no ports");
	ASSERT_NE(MAP_FAILED, all);
	ASSERT_TRUE(put_text(L5_INET_PATH, "1"));
	for (i = 0; i < 2; i++) {
		good[i] = addr_parse(i ? "[::1]:0" : "127.0.0.1:0");
		l[i] = end_listen(END_TCP, &good[i]);
		ASSERT_LE(0, l[i]);
		bad[i] = addr_parse(i ? "[::1]:0" : "127.0.0.1:0");
		l[2 + i] = end_listen(END_TCP, &bad[i]);
		ASSERT_LE(0, l[2 + i]);
		spare[i] = addr_parse(i ? "[::1]:1234" : "127.0.0.1:1234");
	}
	/* one rule is for one port, and here for both families */
	close(l[1]);
	good[1] = addr_parse("[::1]:0");
	good[1].in6.sin6_port = good[0].in.sin_port;
	l[1] = end_listen(END_TCP, &good[1]);
	ASSERT_LE(0, l[1]);

	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		drop_root();
		all->confined = landlock(0, port_of(&good[0]));
		tcp_answers(all, good, bad, spare);
		_exit(0);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
	ASSERT_TRUE(all->confined);
	/* or nothing was forbidden, or everything */
	EXPECT_LE(4, answered(all, EACCES));
	EXPECT_LE(2, answered(all, 0));
	compare(_metadata, all);
	put_text(L5_INET_PATH, "0");
	for (i = 0; i < 4; i++)
		close(l[i]);
}

/* A name without a file, and one in the file system, which is not scoped. */
TEST_F_TIMEOUT(limit_lsm, landlock_scope, 300)
{
	struct addr at[2][2];
	struct answers *all = answers_new();
	int l[2][2], k, i, status;
	pid_t pid;

	if (landlock_abi() < 6)
		SKIP(return, "this kernel's Landlock knows no scopes");
	ASSERT_NE(MAP_FAILED, all);
	for (k = END_TCP; k <= END_L5; k++)
		for (i = 0; i < 2; i++) {
			char name[80];

			snprintf(name, sizeof(name), "%sl5_scope_%d_%d",
				 i ? "unix:/tmp/" : "abstract:", getpid(), k);
			at[k][i] = addr_parse(name);
			l[k][i] = end_listen(k, &at[k][i]);
			ASSERT_LE(0, l[k][i]);
			if (i)
				ASSERT_EQ(0, chmod(name + 5, 0666));
		}
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		drop_root();
		all->confined = landlock(LANDLOCK_ABSTRACT, 0);
		for (k = END_TCP; k <= END_L5; k++)
			for (i = 0; i < 2; i++)
				ask(all, k ? "AF_L5's" : "plain", AF_UNIX,
				    CONNECT, at[k][i], -1, -1);
		_exit(0);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
	ASSERT_TRUE(all->confined);
	EXPECT_EQ(2, answered(all, EPERM));
	EXPECT_EQ(2, answered(all, 0));
	compare(_metadata, all);
	for (k = END_TCP; k <= END_L5; k++) {
		unlink(at[k][1].un.sun_path);
		for (i = 0; i < 2; i++)
			close(l[k][i]);
	}
}

/*
 * The number that socket() knows AF_L5 by is none in an address: a security
 * module that judges a call by the address, before AF_L5 has it, would not know
 * what it means.
 */
TEST_F_TIMEOUT(limit_lsm, family_in_address, 300)
{
	static const int families[] = { AF_INET, AF_INET6 };
	struct addr to, at;
	unsigned int i;
	int c;

	for (i = 0; i < ARRAY_SIZE(families); i++) {
		to = self->to;
		at = addr_parse("127.0.0.1:0");
		if (families[i] == AF_INET6) {
			to = addr_parse("[::1]:1");
			at = addr_parse("[::1]:0");
		}
		EXPECT_EQ(EAFNOSUPPORT, answer(END_L5, families[i], CONNECT,
					       to, l5_family(), -1));
		EXPECT_EQ(EAFNOSUPPORT, answer(END_L5, families[i], BIND,
					       at, l5_family(), -1));
		to.sa.sa_family = l5_family();
		c = end_socket(END_L5, families[i]);
		ASSERT_LE(0, c);
		EXPECT_EQ(-1, sendto(c, "x", 1, MSG_FASTOPEN | MSG_NOSIGNAL,
				     &to.sa, to.len));
		EXPECT_EQ(EAFNOSUPPORT, errno);
		close(c);
	}
}

/* A program for a cgroup that refuses setsockopt() of @level. */
static int refuse_level(int level)
{
	const struct bpf_insn insns[] = {
		/* r2 = ctx->level; r0 = r2 != level */
		{ BPF_LDX | BPF_W | BPF_MEM, BPF_REG_2, BPF_REG_1,
		  offsetof(struct bpf_sockopt, level), 0 },
		{ BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, 1 },
		{ BPF_JMP | BPF_JNE | BPF_K, BPF_REG_2, 0, 1, level },
		{ BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, 0 },
		{ BPF_JMP | BPF_EXIT, 0, 0, 0, 0 },
	};

	return bpf_load(BPF_PROG_TYPE_CGROUP_SOCKOPT,
			BPF_CGROUP_SETSOCKOPT, insns,
			ARRAY_SIZE(insns));
}

/* The root of cgroup v2, whatever is mounted elsewhere. */
static int cgroup_root(void)
{
	mkdir("/tmp/l5_cgroup", 0700);
	if (mount("none", "/tmp/l5_cgroup", "cgroup2", 0, NULL))
		return -1;
	return open("/tmp/l5_cgroup", O_RDONLY | O_DIRECTORY);
}

/*
 * A program of a cgroup that judges SOL_SOCKET does not know that
 * SOL_L5_SOCKET means the same. So while there is any, that level is shut.
 */
TEST_F_TIMEOUT(limit_lsm, cgroup_judges_options, 300)
{
	int fd, prog, dir, one = 1, off = 0;

	fd = end_socket(END_L5, AF_INET);
	ASSERT_LE(0, fd);
	/* what needs it, and what does not */
	EXPECT_EQ(0, setsockopt(fd, SOL_L5_SOCKET, SO_LOCK_FILTER, &off,
				sizeof(off)));
	EXPECT_EQ(-1, setsockopt(fd, SOL_L5_SOCKET, SO_REUSEADDR, &one,
				 sizeof(one)));
	EXPECT_EQ(ENOPROTOOPT, errno);
	EXPECT_EQ(-1, setsockopt(fd, SOL_L5_SOCKET, SO_MARK, &one,
				 sizeof(one)));
	EXPECT_EQ(ENOPROTOOPT, errno);

	prog = refuse_level(SOL_SOCKET);
	ASSERT_LE(0, prog);
	dir = cgroup_root();
	ASSERT_LE(0, dir);
	ASSERT_TRUE(bpf_attach(dir, prog, BPF_CGROUP_SETSOCKOPT, true));
	EXPECT_EQ(-1, setsockopt(fd, SOL_SOCKET, SO_LOCK_FILTER, &off,
				 sizeof(off)));
	EXPECT_EQ(EPERM, errno);
	EXPECT_EQ(-1, setsockopt(fd, SOL_L5_SOCKET, SO_LOCK_FILTER, &off,
				 sizeof(off)));
	EXPECT_EQ(EPERM, errno);
	ASSERT_TRUE(bpf_attach(dir, prog, BPF_CGROUP_SETSOCKOPT, false));
	EXPECT_EQ(0, setsockopt(fd, SOL_L5_SOCKET, SO_LOCK_FILTER, &off,
				sizeof(off)));
	close(prog);
	close(dir);
	close(fd);
	umount("/tmp/l5_cgroup");
	rmdir("/tmp/l5_cgroup");
}

TEST_HARNESS_MAIN
