// SPDX-License-Identifier: GPL-2.0
/*
 * libl5: one connection of many threads, of children, of processes that are
 * killed, under several descriptors.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "libl5_pair.h"
#include "mapping.h"

LIBL5_FIXTURE(libl5_share)

/* Threads send, system calls among them; whole records come out. */
struct crowd {
	struct l5_stream *c;
	int who;
	int count;
	bool mapped;
};

static void *crowd_send(void *arg)
{
	struct crowd *w = arg;
	uint32_t msg[16];
	int i, k;

	for (i = 0; i < w->count; i++) {
		for (k = 0; k < 16; k++)
			msg[k] = w->who << 24 | i;
		if ((w->mapped ? l5_send(w->c, msg, sizeof(msg), 0) :
				 write(l5_stream_fd(w->c), msg, sizeof(msg))) !=
		    sizeof(msg))
			return w;
	}
	return NULL;
}

TEST_F_TIMEOUT(libl5_share, threads, 300)
{
	struct crowd w[4];
	int next[4] = { 0 }, i, k;
	uint32_t msg[16];
	pthread_t t[4];
	void *bad;

	for (i = 0; i < 4; i++) {
		w[i] = (struct crowd){ self->c, i, 5000, i & 1 };
		ASSERT_EQ(0, pthread_create(&t[i], NULL, crowd_send, &w[i]));
	}
	for (i = 0; i < 20000; i++) {
		ASSERT_EQ(64, i % 3 ?
			      l5_recv(self->s, msg, 64, MSG_WAITALL) :
			      recv(self->sfd, msg, 64, MSG_WAITALL));
		for (k = 1; k < 16; k++)
			ASSERT_EQ(msg[0], msg[k]);
		ASSERT_LT(msg[0] >> 24, 4);
		ASSERT_EQ(next[msg[0] >> 24]++, msg[0] & 0xffffff);
	}
	for (i = 0; i < 4; i++) {
		ASSERT_EQ(0, pthread_join(t[i], &bad));
		EXPECT_EQ(NULL, bad);
	}
}

/* A child goes on with the connection, also without its parent. */
TEST_F_TIMEOUT(libl5_share, fork, 120)
{
	char buf[100] = "";
	const void *p;
	pid_t pid;
	int i;

	for (i = 0; i < 3; i++) {
		fflush(NULL);
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			if (!l5_stream_mapped(self->c) ||
			    l5_send(self->c, "child", 5, 0) != 5 ||
			    l5_recv(self->c, buf, 6, MSG_WAITALL) != 6 ||
			    memcmp(buf, "answer", 6))
				_exit(1);
			/* and its child, of the other end */
			pid = fork();
			if (!pid)
				_exit(l5_send(self->c, "grand", 5, 0) != 5 ||
				      !l5_stream_mapped(self->c));
			_exit(l5_reap(pid));
		}
		ASSERT_EQ(5, l5_recv(self->s, buf, 5, MSG_WAITALL));
		ASSERT_EQ(0, memcmp(buf, "child", 5));
		ASSERT_EQ(6, l5_send(self->s, "answer", 6, 0));
		ASSERT_EQ(5, l5_recv(self->s, buf, 5, MSG_WAITALL));
		ASSERT_EQ(0, memcmp(buf, "grand", 5));
		ASSERT_EQ(0, l5_reap(pid));
		ASSERT_EQ(6, l5_send(self->c, "parent", 6, 0));
		ASSERT_EQ(6, l5_recv(self->s, buf, 6, MSG_WAITALL));
	}

	/* what a parent reserved is not the child's to commit */
	ASSERT_EQ(4, l5_send(self->s, "look", 4, 0));
	ASSERT_EQ(4, l5_peek(self->c, &p, 0));
	fflush(NULL);
	pid = fork();
	if (!pid)
		_exit(l5_release(self->c, 1) != -1 || errno != EINVAL);
	ASSERT_EQ(0, l5_reap(pid));
	EXPECT_EQ(0, l5_release(self->c, 4));

	/* the parent closes, the child has the last word */
	fflush(NULL);
	pid = fork();
	if (!pid) {
		/* in its recv(), behind its close */
		l5_wait_asleep(getppid());
		_exit(l5_send(self->c, "last", 4, 0) != 4);
	}
	EXPECT_EQ(0, l5_close(self->c));
	self->c = NULL;
	EXPECT_EQ(4, l5_recv(self->s, buf, 4, MSG_WAITALL));
	EXPECT_EQ(0, l5_recv(self->s, buf, 4, 0));
	ASSERT_EQ(0, l5_reap(pid));
}

/* Killed anywhere in a send: the others go on, whole messages come out. */
TEST_F_TIMEOUT(libl5_share, killed, 300)
{
	uint32_t msg[16], last;
	uint64_t seed = 5;
	int round, i, k;
	pid_t pid;

	for (round = 1; round < 40; round++) {
		fflush(NULL);
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			for (i = 0;; i++) {
				for (k = 0; k < 16; k++)
					msg[k] = round << 24 | i;
				l5_send(self->c, msg, 64, 0);
			}
		}
		last = round << 24;
		for (i = l5_rnd(&seed) % 2000; i; i--) {
			ASSERT_EQ(64, l5_recv(self->s, msg, 64, MSG_WAITALL));
			ASSERT_EQ(last++, msg[0]);
		}
		kill(pid, SIGKILL);
		l5_reap(pid);
		/* the ring may be full: a thread that waits in the kernel */
		fflush(NULL);
		pid = fork();
		if (!pid) {
			for (k = 0; k < 16; k++)
				msg[k] = 0;
			_exit(l5_send(self->c, msg, 64, 0) != 64);
		}
		for (;;) {
			ASSERT_EQ(64, l5_recv(self->s, msg, 64, MSG_WAITALL));
			for (k = 1; k < 16; k++)
				ASSERT_EQ(msg[0], msg[k]);
			if (!msg[0])
				break;
			ASSERT_EQ(last++, msg[0]);
		}
		ASSERT_EQ(0, l5_reap(pid));
	}
}

/* A descriptor that came by dup() or by a message is the same connection. */
TEST_F(libl5_share, other_descriptors)
{
	struct l5_stream *d = l5_map(dup(self->cfd));
	char buf[10];
	int sv[2], fd;

	ASSERT_NE(NULL, d);
	EXPECT_TRUE(l5_stream_mapped(d));
	EXPECT_EQ(3, l5_send(self->c, "one", 3, 0));
	EXPECT_EQ(3, l5_send(d, "two", 3, 0));
	EXPECT_EQ(6, l5_recv(self->s, buf, 6, MSG_WAITALL));
	EXPECT_EQ(0, memcmp(buf, "onetwo", 6));
	EXPECT_EQ(0, l5_close(d));
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sv));
	ASSERT_TRUE(end_pass(sv[0], self->cfd));
	fd = end_take(sv[1]);
	ASSERT_LE(0, fd);
	d = l5_map(fd);
	ASSERT_NE(NULL, d);
	EXPECT_TRUE(l5_stream_mapped(d));
	EXPECT_EQ(4, l5_send(d, "late", 4, 0));
	EXPECT_EQ(4, l5_recv(self->s, buf, 4, MSG_WAITALL));
	EXPECT_EQ(0, l5_close(d));
	close(sv[0]);
	close(sv[1]);
}

/* What is left of a connection after execve(): the descriptor. */
__attribute__((constructor)) static void after_exec(void)
{
	const char *fd = getenv("LIBL5_SHARE_FD");
	struct l5_stream *c;
	char buf[4];

	if (!fd)
		return;
	c = l5_map(atoi(fd));
	_exit(!c || !l5_stream_mapped(c) ||
	      l5_recv(c, buf, 4, MSG_WAITALL) != 4 || memcmp(buf, "exec", 4) ||
	      l5_send(c, "done", 4, 0) != 4 || l5_close(c));
}

TEST_F_TIMEOUT(libl5_share, exec, 120)
{
	char env[40], buf[4], *argv[] = { "share", NULL };
	char *envp[] = { env, NULL };
	pid_t pid;

	snprintf(env, sizeof(env), "LIBL5_SHARE_FD=%d", self->cfd);
	fflush(NULL);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		fcntl(self->cfd, F_SETFD, 0);
		execve("/proc/self/exe", argv, envp);
		_exit(99);
	}
	ASSERT_EQ(4, l5_send(self->s, "exec", 4, 0));
	ASSERT_EQ(4, l5_recv(self->s, buf, 4, MSG_WAITALL));
	EXPECT_EQ(0, memcmp(buf, "done", 4));
	EXPECT_EQ(0, l5_reap(pid));
	/* the one here is as it was */
	ASSERT_EQ(4, l5_send(self->c, "here", 4, 0));
	ASSERT_EQ(4, l5_recv(self->s, buf, 4, MSG_WAITALL));
	EXPECT_TRUE(l5_stream_mapped(self->c));
}

/* A child of vfork() lives in its parent, and has its mapping. */
static __attribute__((noinline)) pid_t vfork_send(struct l5_stream *c)
{
	pid_t pid = vfork();

	if (!pid)
		_exit(!l5_stream_mapped(c) || l5_send(c, "vfork", 5, 0) != 5);
	return pid;
}

TEST_F_TIMEOUT(libl5_share, vfork, 120)
{
	char buf[5];

	EXPECT_EQ(0, l5_reap(vfork_send(self->c)));
	ASSERT_EQ(5, l5_recv(self->s, buf, 5, MSG_WAITALL));
	EXPECT_EQ(0, memcmp(buf, "vfork", 5));
	EXPECT_TRUE(l5_stream_mapped(self->c));
	ASSERT_EQ(5, l5_send(self->c, "after", 5, 0));
	ASSERT_EQ(5, l5_recv(self->s, buf, 5, MSG_WAITALL));
	EXPECT_EQ(0, memcmp(buf, "after", 5));
}

/* SOCK_* of what is made, by a name and by an address. */
static bool flags_are(struct l5_stream *c, int flags)
{
	int fd = l5_stream_fd(c);

	return !(fcntl(fd, F_GETFL) & O_NONBLOCK) ==
	       !(flags & SOCK_NONBLOCK) &&
	       !(fcntl(fd, F_GETFD) & FD_CLOEXEC) == !(flags & SOCK_CLOEXEC);
}

TEST_F_TIMEOUT(libl5_share, flags, 300)
{
	static const int all[] = {
		0, SOCK_NONBLOCK, SOCK_CLOEXEC, SOCK_NONBLOCK | SOCK_CLOEXEC,
	};
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);
	struct l5_stream *c, *s;
	char ch;
	int i;

	ASSERT_EQ(0, getsockname(self->listener, (struct sockaddr *)&addr,
				 &len));
	for (i = 0; i < 8; i++) {
		const int flags = all[i % 4];

		c = i < 4 ? place_connect(&self->at, flags) :
			    l5_connect_addr((struct sockaddr *)&addr, len,
					    flags);
		ASSERT_NE(NULL, c);
		s = l5_accept(self->listener, all[3 - i % 4]);
		ASSERT_NE(NULL, s);
		EXPECT_TRUE(flags_are(c, flags));
		EXPECT_TRUE(flags_are(s, all[3 - i % 4]));
		EXPECT_EQ(L5_TRANSPORT_SHM, l5_transport(l5_stream_fd(c)));
		EXPECT_EQ(L5_TRANSPORT_SHM, l5_transport(l5_stream_fd(s)));
		/* connected it is, whatever the flags */
		EXPECT_TRUE(l5_stream_mapped(c));
		EXPECT_TRUE(l5_stream_mapped(s));
		if (flags & SOCK_NONBLOCK) {
			EXPECT_EQ(-1, l5_recv(c, &ch, 1, 0));
			EXPECT_EQ(EAGAIN, errno);
		} else {
			EXPECT_EQ(-1, l5_recv(s, &ch, 1, 0));
			EXPECT_EQ(EAGAIN, errno);
		}
		EXPECT_EQ(1, l5_send(c, "x", 1, 0));
		EXPECT_EQ(POLLIN, l5_wait(s, POLLIN, LONG_MS));
		EXPECT_EQ(1, l5_recv(s, &ch, 1, 0));
		EXPECT_EQ(0, l5_close(c));
		EXPECT_EQ(0, l5_close(s));
	}
	/* no listener there, and no address at all */
	close(self->listener);
	self->listener = -1;
	EXPECT_EQ(NULL, l5_connect_addr((struct sockaddr *)&addr, len, 0));
	EXPECT_EQ(ECONNREFUSED, errno);
	addr.ss_family = AF_PACKET;
	EXPECT_EQ(NULL, l5_connect_addr((struct sockaddr *)&addr, len, 0));
	EXPECT_EQ(EAFNOSUPPORT, errno);
}

TEST_HARNESS_MAIN
