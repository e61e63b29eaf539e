// SPDX-License-Identifier: GPL-2.0
/*
 * libl5: one connection of many threads, of children, of processes that are
 * killed, under several descriptors.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "libl5_pair.h"
#include "mapping.h"

/* Threads send, system calls among them; whole records come out. */
struct crowd {
	struct l5_conn *c;
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
				 write(l5_conn_fd(w->c), msg, sizeof(msg))) !=
		    sizeof(msg))
			return w;
	}
	return NULL;
}

TEST_F_TIMEOUT(lib, threads, 300)
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
TEST_F_TIMEOUT(lib, fork, 120)
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
			if (!l5_conn_mapped(self->c) ||
			    l5_send(self->c, "child", 5, 0) != 5 ||
			    l5_recv(self->c, buf, 6, MSG_WAITALL) != 6 ||
			    memcmp(buf, "answer", 6))
				_exit(1);
			/* and its child, of the other end */
			pid = fork();
			if (!pid)
				_exit(l5_send(self->c, "grand", 5, 0) != 5 ||
				      !l5_conn_mapped(self->c));
			_exit(map_reap(pid));
		}
		ASSERT_EQ(5, l5_recv(self->s, buf, 5, MSG_WAITALL));
		ASSERT_EQ(0, memcmp(buf, "child", 5));
		ASSERT_EQ(6, l5_send(self->s, "answer", 6, 0));
		ASSERT_EQ(5, l5_recv(self->s, buf, 5, MSG_WAITALL));
		ASSERT_EQ(0, memcmp(buf, "grand", 5));
		ASSERT_EQ(0, map_reap(pid));
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
	ASSERT_EQ(0, map_reap(pid));
	EXPECT_EQ(0, l5_release(self->c, 4));

	/* the parent closes, the child has the last word */
	fflush(NULL);
	pid = fork();
	if (!pid) {
		usleep(100000);
		_exit(l5_send(self->c, "last", 4, 0) != 4);
	}
	EXPECT_EQ(0, l5_close(self->c));
	self->c = NULL;
	EXPECT_EQ(4, l5_recv(self->s, buf, 4, MSG_WAITALL));
	EXPECT_EQ(0, l5_recv(self->s, buf, 4, 0));
	ASSERT_EQ(0, map_reap(pid));
}

/* Killed anywhere in a send: the others go on, whole messages come out. */
TEST_F_TIMEOUT(lib, killed, 300)
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
		map_reap(pid);
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
		ASSERT_EQ(0, map_reap(pid));
	}
}

/* A descriptor that came by dup() or by a message is the same connection. */
TEST_F(lib, other_descriptors)
{
	struct l5_conn *d = l5_map(dup(self->cfd));
	char buf[10];
	int sv[2], fd;

	ASSERT_NE(NULL, d);
	EXPECT_TRUE(l5_conn_mapped(d));
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
	EXPECT_TRUE(l5_conn_mapped(d));
	EXPECT_EQ(4, l5_send(d, "late", 4, 0));
	EXPECT_EQ(4, l5_recv(self->s, buf, 4, MSG_WAITALL));
	EXPECT_EQ(0, l5_close(d));
	close(sv[0]);
	close(sv[1]);
}

TEST_HARNESS_MAIN
