// SPDX-License-Identifier: GPL-2.0
/*
 * A user whose calls never come back holds locks of its sockets, and nothing
 * else: the work of all other connections between hosts goes on.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "hole.h"
#include "limit_ends.h"
#include "rdma_here.h"
#include "users.h"

/* More than a work queue has workers for at a time, and a user may have. */
#define STUCK	400
#define PAGE	4096

struct stuck {
	char *hole;
	int fd;
};

/* Holds the lock of the bootstrap, */
static void *sends(void *p)
{
	struct stuck *s = p;

	send(s->fd, s->hole, PAGE, MSG_NOSIGNAL);
	return NULL;
}

/* waits for that with the lock of the socket. */
static void *shuts(void *p)
{
	struct stuck *s = p;

	shutdown(s->fd, SHUT_RD);
	return NULL;
}

/* User nobody's process: writes a byte for each connection, and stays. */
static void hostile(const struct addr *to, int say)
{
	struct stuck *s = calloc(STUCK, sizeof(*s));
	char *at = hole_map(STUCK * PAGE, NULL);
	pthread_attr_t attr;
	pthread_t t;
	int i;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!s || !at || nobody_become())
		_exit(1);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 65536);
	for (i = 0; i < STUCK; i++) {
		s[i].hole = at + i * PAGE;
		s[i].fd = rdma_socket();
		if (s[i].fd < 0 || connect(s[i].fd, &to->sa, to->len) ||
		    !l5_wait_asleep(l5_thread_start(&t, &attr, sends, &s[i])))
			_exit(2);
		if (pthread_create(&t, &attr, shuts, &s[i]) ||
		    write(say, "", 1) != 1)
			_exit(3);
	}
	for (;;)
		pause();
}

FIXTURE(limit_stuck)
{
	struct addr to;
	int l, said[2], s[STUCK];
	pid_t pid;
};

FIXTURE_SETUP(limit_stuck)
{
	struct rlimit files = { 4096, 4096 };

	l5_or_skip();
	if (!rdma_here())
		SKIP(return, "no RDMA device can be made here");
	if (!hole_map(PAGE, NULL))
		SKIP(return, "no userfaultfd");
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &files));
	self->to = addr_parse(RDMA_HERE ":0");
	self->l = end_listen(END_L5, &self->to);
	ASSERT_LE(0, self->l);
	ASSERT_EQ(0, pipe(self->said));
	self->pid = -1;
}

FIXTURE_TEARDOWN(limit_stuck)
{
	if (self->pid > 0) {
		kill(self->pid, SIGKILL);
		waitpid(self->pid, NULL, 0);
	}
}

/* Another user's connection moves, and ends, as before. */
static bool moves(const struct addr *to, int l)
{
	int c = rdma_socket(), s;
	bool good;

	if (c < 0 || connect(c, &to->sa, to->len))
		return false;
	s = accept(l, NULL, NULL);
	good = s >= 0 && rdma_moved(c) && rdma_moved(s) &&
	       end_exchange(c, s, 5000, 1);
	close(c);
	close(s);
	return good;
}

TEST_F_TIMEOUT(limit_stuck, others_move, 400)
{
	char byte;
	int i;

	ASSERT_TRUE(moves(&self->to, self->l));
	EXPECT_TRUE(end_stat_reaches("rdma_now", 0));
	self->pid = fork();
	if (!self->pid) {
		close(self->said[0]);
		hostile(&self->to, self->said[1]);
	}
	close(self->said[1]);
	for (i = 0; i < STUCK; i++) {
		self->s[i] = accept(self->l, NULL, NULL);
		ASSERT_LE(0, self->s[i]);
		ASSERT_EQ(1, read(self->said[0], &byte, 1));
	}
	TH_LOG("%lld queue pairs", (long long)l5_stat("rdma_now"));
	EXPECT_LT(STUCK, l5_stat("rdma_now"));
	for (i = 0; i < 3; i++)
		EXPECT_TRUE(moves(&self->to, self->l));
	ASSERT_EQ(0, kill(self->pid, SIGKILL));
	ASSERT_EQ(self->pid, waitpid(self->pid, NULL, 0));
	self->pid = -1;
	for (i = 0; i < STUCK; i++)
		close(self->s[i]);
	EXPECT_TRUE(end_stat_reaches("rdma_now", 0));
	EXPECT_TRUE(moves(&self->to, self->l));
}

TEST_HARNESS_MAIN
