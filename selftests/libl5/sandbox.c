// SPDX-License-Identifier: GPL-2.0
/*
 * libl5 in a thread that a filter of system calls refuses ioctl(), and more:
 * peers that sleep in the kernel are woken all the same. And with a filter that
 * raises a signal instead, whose handler uses the connection.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "libl5_pair.h"

LIBL5_FIXTURE(libl5_sandbox)

enum { ROUNDS = 500, STREAM = 2 << 20 };

/* What a filter answers for two calls; of this thread alone. */
static bool filter(int one, int two, unsigned int answer)
{
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, one, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, two, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, answer),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { sizeof(f) / sizeof(*f), f };

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
}

static bool refuse(int one, int two)
{
	return filter(one, two, SECCOMP_RET_ERRNO | EPERM);
}

struct server {
	struct l5_stream *c;
	int refused;	/* beside ioctl() */
	bool bad;
};

static void *serve(void *arg)
{
	struct server *s = arg;
	static char b[65536];
	uint64_t pos = 0;
	ssize_t n;
	int i;

	s->bad = !refuse(SYS_ioctl, s->refused);
	for (i = 0; !s->bad && i < ROUNDS; i++) {
		s->bad = l5_recv(s->c, b, 1, 0) != 1;
		/* the client that asked is asleep */
		if (!s->bad && !(i % 16))
			s->bad = !l5_wait_asleep(getpid());
		s->bad = s->bad || l5_send(s->c, b, 1, 0) != 1;
	}
	while (!s->bad && pos < STREAM) {
		usleep(500);
		n = l5_recv(s->c, b, sizeof(b), 0);
		s->bad = n <= 0 || l5_check(b, n, pos) >= 0;
		pos += n;
	}
	s->bad = s->bad || l5_send(s->c, "k", 1, 0) != 1;
	return NULL;
}

static void run(struct __test_metadata *_metadata, int fd, struct l5_stream *c,
		int refused)
{
	struct server s = { .c = c, .refused = refused };
	static char b[STREAM];
	pthread_t t;
	char ch;
	int i;

	alarm(100 * l5_slow());
	ASSERT_EQ(0, pthread_create(&t, NULL, serve, &s));
	for (i = 0; i < ROUNDS; i++) {
		ch = i;
		ASSERT_EQ(1, write(fd, &ch, 1));
		ASSERT_EQ(1, read(fd, &ch, 1));
		ASSERT_EQ((char)i, ch);
	}
	l5_fill(b, sizeof(b), 0);
	ASSERT_EQ((ssize_t)sizeof(b), write(fd, b, sizeof(b)));
	ASSERT_EQ(1, read(fd, &ch, 1));
	ASSERT_EQ(0, pthread_join(t, NULL));
	ASSERT_FALSE(s.bad);
}

TEST_F_TIMEOUT(libl5_sandbox, no_ioctl, 300)
{
	run(_metadata, self->cfd, self->s, SYS_ioctl);
}

TEST_F_TIMEOUT(libl5_sandbox, no_ioctl_nor_sendto, 300)
{
	run(_metadata, self->cfd, self->s, SYS_sendto);
}

static struct l5_stream *trapped;
static sigjmp_buf out;
static bool jumps;

/* As a sandbox that looks at each ioctl(). */
static void trap(int sig, siginfo_t *si, void *uc)
{
	void *p;

	(void)sig;
	(void)si;
	if (l5_reserve(trapped, &p, 1, MSG_DONTWAIT) != 1)
		_exit(2);
	*(char *)p = 'h';
	if (l5_commit(trapped, 1) != 1)
		_exit(7);
	if (jumps)
		siglongjmp(out, 1);
	((ucontext_t *)uc)->uc_mcontext.gregs[REG_RAX] = -EPERM;
}

/* The first calls of a child of fork() map the connection anew. */
static void child(struct l5_stream *c)
{
	struct sigaction sa = {
		.sa_sigaction = trap, .sa_flags = SA_SIGINFO,
	};
	char b = 0;

	trapped = c;
	sigaction(SIGSYS, &sa, NULL);
	if (!filter(SYS_ioctl, SYS_ioctl, SECCOMP_RET_TRAP))
		_exit(3);
	if (!sigsetjmp(out, 1) && l5_send(c, "c", 1, 0) != 1)
		_exit(4);
	if (jumps && l5_send(c, "c", 1, 0) != 1)
		_exit(5);
	_exit(l5_recv(c, &b, 1, 0) == 1 && b == 'p' ? 0 : 6);
}

/* The handler's thread was waiting for itself. */
TEST_F_TIMEOUT(libl5_sandbox, handler_in_first_call, 120)
{
	char b[2];
	int i;

	for (i = 0; i < 2; i++) {
		pid_t pid;

		jumps = i;
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid)
			child(self->s);
		ASSERT_EQ(1, l5_send(self->c, "p", 1, 0));
		ASSERT_EQ(0, l5_reap(pid));
		ASSERT_EQ(2, l5_recv(self->c, b, 2, MSG_WAITALL));
		EXPECT_EQ(0, memcmp(b, "hc", 2));
	}
}

TEST_HARNESS_MAIN
