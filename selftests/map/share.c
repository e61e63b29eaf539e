// SPDX-License-Identifier: GPL-2.0
/*
 * Threads, processes and programs that share a mapped end see one stream: by
 * dup(), fork(), exec() and as threads of one mapping.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "map_pair.h"

/* A socket that an exec handed down, see exec_maps_again. */
#define ENV_FD		"L5_MAP_SHARE_FD"

MAP_PAIR_FIXTURE(map_share, 64)

TEST_F_TIMEOUT(map_share, dup_is_the_same, 120)
{
	struct mapping m, n, o;
	uint8_t b[100];
	int d = dup(self->fd[0]), err;

	ASSERT_LE(0, d);
	ASSERT_EQ(0, mapping_open(&m, self->fd[0]));
	ASSERT_EQ(0, mapping_open(&n, d));
	ASSERT_EQ(0, mapping_open(&o, self->fd[1]));
	/* one process, one number */
	EXPECT_EQ(m.id, n.id);
	l5_fill(b, 100, 0);
	ASSERT_EQ(60, mapping_put(&m, b, 60));
	ASSERT_EQ(40, mapping_put(&n, b + 60, 40));
	close(self->fd[0]);
	memset(b, 0, 100);
	ASSERT_EQ(100, mapping_get(&o, b, 100));
	EXPECT_EQ(-1, l5_check(b, 100, 0));
	/* still open by the other name */
	EXPECT_EQ(0, l5_load(&o.state->flags) & L5_MAP_RX_ASK);
	ASSERT_EQ(100, mapping_put(&n, b, 100));
	ASSERT_TRUE(end_get(self->fd[1], 100, 0));
	close(d);
	EXPECT_TRUE(mapping_flag_comes(&o, L5_MAP_RX_ASK));
	EXPECT_EQ(0, end_drain(self->fd[1], 0, &err));
	mapping_close(&m);
	mapping_close(&n);
	mapping_close(&o);
	self->fd[0] = -1;
}

/*
 * Several processes have the same end and take turns, each with a mapping of
 * its own or none, sending and receiving pieces of one stream.
 */
struct turns {
	uint32_t turn;
	uint32_t id[4];
	uint64_t in, out;
};

static int take_turns(struct turns *t, int me, int of, int fd, bool mapped,
		      int rounds)
{
	struct mapping m;
	uint8_t b[700];
	int i;

	alarm(MAP_LONG_MS / 1000 + 5);
	if (mapped && mapping_open(&m, fd))
		return 1;
	if (mapped)
		l5_store(&t->id[me], m.id);
	for (i = 0; i < rounds; i++) {
		size_t n = 1 + (i * 37 + me * 101) % sizeof(b);
		uint64_t pos;
		ssize_t k;

		while (l5_load_acquire(&t->turn) % of != (uint32_t)me)
			usleep(50);
		l5_fill(b, n, t->in);
		k = mapped ? mapping_send(&m, b, n, MSG_NOSIGNAL) :
		    send(fd, b, n, MSG_NOSIGNAL);
		if (k != (ssize_t)n)
			return 2;
		t->in += n;
		/* the echo of some of it, perhaps of another's */
		pos = t->out;
		k = mapped ? mapping_recv(&m, b, n, 0) : recv(fd, b, n, 0);
		if (k <= 0 || l5_check(b, k, pos) >= 0)
			return 3;
		t->out += k;
		l5_store_release(&t->turn, t->turn + 1);
	}
	return 0;
}

/* Sends back what comes, until the end. */
static int echo(int fd, bool mapped)
{
	struct mapping m;
	uint8_t b[1000];
	ssize_t n;

	alarm(MAP_LONG_MS / 1000 + 5);
	if (mapped && mapping_open(&m, fd))
		return 1;
	for (;;) {
		n = mapped ? mapping_recv(&m, b, sizeof(b), 0) :
		    recv(fd, b, sizeof(b), 0);
		if (n <= 0)
			return n ? 2 : 0;
		if ((mapped ? mapping_send(&m, b, n, MSG_NOSIGNAL) :
		     send(fd, b, n, MSG_NOSIGNAL)) != n)
			return 3;
	}
}

TEST_F_TIMEOUT(map_share, processes_share_an_end, 300)
{
	enum { OF = 4, ROUNDS = 60 };
	int k, i, status;

	for (k = 0; k < 2; k++) {
		struct turns *t = map_shared(4096);
		pid_t pid[OF], other;
		int via[2];

		ASSERT_TRUE(map_again(variant->at, self->fd));
		other = fork();
		ASSERT_LE(0, other);
		if (!other) {
			close(self->fd[0]);
			_exit(echo(self->fd[1], k));
		}
		close(self->fd[1]);
		ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, via));
		for (i = 0; i < OF; i++) {
			pid[i] = fork();
			ASSERT_LE(0, pid[i]);
			if (pid[i])
				continue;
			/* inherited by some, passed on to others */
			if (i & 1) {
				close(self->fd[0]);
				self->fd[0] = end_take(via[1]);
			}
			_exit(take_turns(t, i, OF, self->fd[0], i != 2,
					 ROUNDS));
		}
		for (i = 1; i < OF; i += 2)
			ASSERT_TRUE(end_pass(via[0], self->fd[0]));
		close(self->fd[0]);
		for (i = 0; i < OF; i++) {
			status = l5_reap(pid[i]);
			EXPECT_EQ(0, status) {
				TH_LOG("process %d: %x", i, status);
			}
		}
		EXPECT_NE(0, t->id[0]);
		EXPECT_NE(0, t->id[1]);
		EXPECT_NE(t->id[0], t->id[1]);
		EXPECT_NE(t->id[1], t->id[3]);
		EXPECT_NE(t->id[0], t->id[3]);
		status = l5_reap(other);
		/* it may be left with bytes that were not read: a reset */
		EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) != 1) {
			TH_LOG("echo: %x", status);
		}
		close(via[0]);
		close(via[1]);
		munmap(t, 4096);
	}
	self->fd[0] = self->fd[1] = -1;
	EXPECT_TRUE(end_stat_reaches("pairs", 0));
	EXPECT_TRUE(end_stat_reaches("rings_kb", 0));
	EXPECT_EQ(0, l5_stat("violations"));
}

/* A child maps for itself while its parent goes on, or does not. */
TEST_F_TIMEOUT(map_share, child_maps_anew, 120)
{
	struct mapping m, o;
	uint8_t b[2000];
	int k, status;
	pid_t pid;

	for (k = 0; k < 2; k++) {
		ASSERT_EQ(0, mapping_open(&m, self->fd[0]));
		ASSERT_EQ(0, mapping_open(&o, self->fd[1]));
		l5_fill(b, 2000, 0);
		ASSERT_EQ(500, mapping_put(&m, b, 500));
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			struct mapping n;

			if (map_touch(m.own, false) != SIGSEGV)
				_exit(1);
			if (mapping_open(&n, self->fd[0]) || n.id == m.id)
				_exit(2);
			if (k)
				close(self->fd[1]);
			l5_fill(b, 2000, 0);
			if (mapping_put(&n, b + 500, 700) != 700)
				_exit(3);
			_exit(0);
		}
		if (k)
			mapping_close(&m);
		status = l5_reap(pid);
		EXPECT_EQ(0, status);
		ASSERT_EQ(800, k ? send(self->fd[0], b + 1200, 800, 0) :
			  mapping_put(&m, b + 1200, 800));
		memset(b, 0, sizeof(b));
		ASSERT_EQ(2000, mapping_get(&o, b, 2000));
		EXPECT_EQ(-1, l5_check(b, 2000, 0));
		if (!k)
			mapping_close(&m);
		mapping_close(&o);
	}
}

/* What the program is when exec handed it a socket. */
static __attribute__((constructor)) void after_exec(void)
{
	const char *fd = getenv(ENV_FD);

	if (fd)
		_exit(echo(atoi(fd), true));
}

TEST_F_TIMEOUT(map_share, exec_maps_again, 120)
{
	uint8_t b[3000];
	struct mapping o;
	int status;
	pid_t pid;

	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		struct mapping m;
		char text[16];
		int fd = dup(self->fd[0]);	/* without O_CLOEXEC */

		/* mapped, and holding a lock word, when it goes */
		if (mapping_open(&m, fd))
			_exit(1);
		mapping_lock(&m, L5_LOCK_TX);
		mapping_lock(&m, L5_LOCK_RX);
		snprintf(text, sizeof(text), "%d", fd);
		setenv(ENV_FD, text, 1);
		execl("/proc/self/exe", "share", NULL);
		_exit(1);
	}
	close(self->fd[0]);
	self->fd[0] = -1;
	ASSERT_EQ(0, mapping_open(&o, self->fd[1]));
	l5_fill(b, sizeof(b), 0);
	ASSERT_EQ(3000, mapping_send(&o, b, 3000, 0));
	EXPECT_TRUE(end_get(self->fd[1], 3000, 0));
	ASSERT_EQ(0, shutdown(self->fd[1], SHUT_WR));
	status = l5_reap(pid);
	EXPECT_EQ(0, status);
	EXPECT_TRUE(mapping_flag_comes(&o, L5_MAP_RX_ASK));
	mapping_close(&o);
}

/* Threads share a mapping: many producers, many consumers, whole messages. */
#define MSG		64
#define THREADS		3

struct many {
	pthread_t thread;
	struct mapping *m;
	int who, count;
	long bad, got, sum;
	uint64_t seed;
};

static void *many_send(void *arg)
{
	struct many *t = arg;
	uint32_t msg[MSG / 4];
	int i, k;

	for (i = 0; i < t->count; i++) {
		for (k = 0; k < MSG / 4; k++)
			msg[k] = t->who << 24 | i;
		/* the kernel sends now and then */
		if (l5_rnd(&t->seed) % 8)
			t->bad += mapping_send(t->m, msg, MSG, 0) != MSG;
		else
			t->bad += send(t->m->fd, msg, MSG, 0) != MSG;
	}
	return NULL;
}

static void *many_recv(void *arg)
{
	struct many *t = arg;
	uint32_t msg[MSG / 4], last[THREADS] = { 0 };
	ssize_t n;
	int k;

	for (;;) {
		if (l5_rnd(&t->seed) % 8)
			n = mapping_recv(t->m, msg, MSG, 0);
		else
			n = recv(t->m->fd, msg, MSG, 0);
		if (n != MSG) {
			t->bad += n != 0;
			return NULL;
		}
		for (k = 1; k < MSG / 4; k++)
			t->bad += msg[k] != msg[0];
		if (msg[0] >> 24 >= THREADS) {
			t->bad++;
			continue;
		}
		/* each sender's messages come in order, if not all to us */
		k = (msg[0] & 0xffffff) + 1;
		t->bad += (uint32_t)k <= last[msg[0] >> 24];
		last[msg[0] >> 24] = k;
		t->got++;
		t->sum += msg[0] & 0xffffff;
	}
}

TEST_F_TIMEOUT(map_share, threads_share_a_mapping, 300)
{
	enum { COUNT = 1500 };
	struct many t[2 * THREADS];
	struct mapping m, o;
	long got = 0, sum = 0;
	int k, i;

	for (k = 0; k < 2; k++) {
		ASSERT_LE(0, l5_sysctl("ring_kb", k ? 64 : 4));
		ASSERT_TRUE(map_again(variant->at, self->fd));
		ASSERT_EQ(0, mapping_open(&m, self->fd[0]));
		ASSERT_EQ(0, mapping_open(&o, self->fd[1]));
		memset(t, 0, sizeof(t));
		got = sum = 0;
		for (i = 0; i < 2 * THREADS; i++) {
			t[i].who = i % THREADS;
			t[i].count = COUNT;
			t[i].seed = 77 + i;
			t[i].m = i < THREADS ? &m : &o;
			ASSERT_EQ(0, pthread_create(&t[i].thread, NULL,
						    i < THREADS ? many_send :
						    many_recv, &t[i]));
		}
		for (i = 0; i < 2 * THREADS; i++) {
			pthread_join(t[i].thread, NULL);
			EXPECT_EQ(0, t[i].bad);
			got += t[i].got;
			sum += t[i].sum;
			if (i == THREADS - 1)
				shutdown(self->fd[0], SHUT_WR);
		}
		EXPECT_EQ(THREADS * COUNT, got);
		EXPECT_EQ(THREADS * (COUNT * (COUNT - 1L) / 2), sum);
		mapping_close(&m);
		mapping_close(&o);
	}
	EXPECT_EQ(0, l5_stat("violations"));
}

TEST_HARNESS_MAIN
