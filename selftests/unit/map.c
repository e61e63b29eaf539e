// SPDX-License-Identifier: GPL-2.0
/*
 * libl5 without AF_L5: the mapped rings of userspace/lib/map.h over a memfd.
 * Built with the library's sources, to see inside, also for sanitizers and
 * valgrind.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "native_ends.h"
#include "stream.h"

RINGS_FIXTURE(unit_map)

/* One writer, one reader, every way to call them, at every place. */
TEST_F_TIMEOUT(unit_map, bytes, 300)
{
	uint8_t out[2 * SIZE], in[2 * SIZE];
	uint64_t sent = 0, got = 0, seed = 42;
	const uint64_t total = (32 << 20) / slow();
	struct iovec v[9];
	int full = 0, empty = 0;
	size_t len, peeked;
	const void *p;
	ssize_t n;
	void *q;

	while (got < total) {
		len = l5_rnd(&seed) % 4 ? 1 + l5_rnd(&seed) % 200 :
					  1 + l5_rnd(&seed) % sizeof(out);
		l5_fill(out, len, sent);
		switch (l5_rnd(&seed) % 3) {
		case 0:
			n = l5_map_send1(self->a, -1, out, len);
			break;
		case 1:
			n = l5_map_trysend(self->a, -1, v,
					   cut(v, 9, out, len, &seed));
			break;
		default:
			n = l5_map_reserve(self->a, -1, &q, len);
			if (n <= 0)
				break;
			if ((size_t)n < len)
				len = n;
			n = l5_rnd(&seed) % 8 ? 1 + l5_rnd(&seed) % len : 0;
			memcpy(q, out, n);
			l5_map_commit(self->a, -1, n);
			break;
		}
		if (n < 0)
			ASSERT_EQ(L5_TRY_AGAIN, n);
		full += n < 0;
		sent += n > 0 ? n : 0;

		len = 1 + l5_rnd(&seed) %
		      (l5_rnd(&seed) % 4 ? 300 : sizeof(in));
		switch (l5_rnd(&seed) % 4) {
		case 0:
			n = l5_map_recv1(self->b, -1, in, len);
			break;
		case 1:
			n = l5_map_tryrecv(self->b, -1, v,
					   cut(v, 9, in, len, &seed), 0);
			break;
		case 2:
			n = l5_map_tryrecv(self->b, -1, v,
					   cut(v, 9, in, len, &seed),
					   L5_TRY_PEEK);
			if (n <= 0)
				break;
			ASSERT_EQ(0, wrong(in, n, got));
			/* all that is there, up to the room */
			ASSERT_EQ(sent - got < len ? sent - got : len, n);
			peeked = n;
			n = l5_map_recv1(self->b, -1, in, peeked);
			ASSERT_EQ(peeked, n);
			break;
		default:
			n = l5_map_peek(self->b, -1, &p);
			if (n <= 0)
				break;
			ASSERT_EQ(0, wrong(p, n, got));
			n = l5_rnd(&seed) % 8 ? 1 + l5_rnd(&seed) % n : 0;
			memcpy(in, p, n);
			l5_map_release(self->b, -1, n);
			break;
		}
		if (n < 0)
			ASSERT_EQ(L5_TRY_AGAIN, n);
		empty += n < 0;
		if (n > 0) {
			ASSERT_EQ(0, wrong(in, n, got));
			got += n;
		}
		ASSERT_LE(got, sent);
	}
	EXPECT_LT(0, full);
	EXPECT_LT(0, empty);
	EXPECT_EQ(sent, self->k->ctrl[0]->tx_bytes);
	EXPECT_EQ(got, self->k->ctrl[1]->rx_bytes);
	EXPECT_EQ(0, l5_held.n + l5_held.now.key);
}

/* Each of the short lengths at each place in a line, and around the seam. */
TEST_F_TIMEOUT(unit_map, short_messages, 300)
{
	uint8_t out[L5_MAP_SMALL + 1], in[2 * sizeof(out)];
	uint64_t at = 0;
	size_t len;
	int round;

	for (round = 0; round < (slow() > 10 ? 1 : 9); round++) {
		for (len = 1; len <= sizeof(out); len++) {
			l5_fill(out, len, at);
			ASSERT_EQ(len, l5_map_send1(self->a, -1, out, len));
			memset(in, 0, sizeof(in));
			ASSERT_EQ(len, l5_map_recv1(self->b, -1, in,
						    len + round));
			ASSERT_EQ(0, wrong(in, len, at));
			at += len;
		}
		/* shift against the lines */
		ASSERT_EQ(1, l5_map_send1(self->a, -1, "", 1));
		ASSERT_EQ(1, l5_map_recv1(self->b, -1, in, 1));
	}
}

static int bells[3];

static void count_bell(struct l5_map *m, int fd, unsigned int b)
{
	(void)m;
	(void)fd;
	bells[b]++;
}

/* The doorbell rings when it has to, and only then. */
TEST_F(unit_map, doorbell)
{
	struct l5_map_ops ops = *self->a->ops;
	uint8_t buf[SIZE] = { 0 };
	ssize_t n;
	int i;

	ops.bell = count_bell;
	self->a->ops = &ops;
	self->b->ops = &ops;
	memset(bells, 0, sizeof(bells));
	ASSERT_EQ(8, l5_map_send1(self->a, -1, buf, 8));
	EXPECT_EQ(0, bells[L5_BELL_DATA]);
	l5_wait_arm(&self->k->ctrl[1]->rx_wait);
	ASSERT_EQ(8, l5_map_send1(self->a, -1, buf, 8));
	EXPECT_EQ(1, bells[L5_BELL_DATA]);
	ASSERT_EQ(1000, l5_map_trysend(self->a, -1,
				       &(struct iovec){ buf, 1000 }, 1));
	EXPECT_EQ(2, bells[L5_BELL_DATA]);
	l5_wait_clear(&self->k->ctrl[1]->rx_wait);

	/* room: from half free on */
	while (l5_map_send1(self->a, -1, buf, 500) > 0)
		;
	EXPECT_FALSE(l5_map_writable(self->a));
	l5_wait_arm(&self->k->ctrl[0]->tx_wait);
	for (i = 0; !l5_map_writable(self->a); i++) {
		EXPECT_EQ(0, bells[L5_BELL_ROOM]);
		n = l5_map_recv1(self->b, -1, buf, 500);
		ASSERT_LT(0, n);
	}
	EXPECT_LT(5, i);
	EXPECT_EQ(1, bells[L5_BELL_ROOM]);
	l5_wait_clear(&self->k->ctrl[0]->tx_wait);
	/* a large read rings on its way */
	while (l5_map_send1(self->a, -1, buf, 500) > 0)
		;
	l5_wait_arm(&self->k->ctrl[0]->tx_wait);
	ASSERT_LT(7000, l5_map_recv1(self->b, -1, buf, SIZE));
	EXPECT_LE(2, bells[L5_BELL_ROOM]);
	l5_wait_clear(&self->k->ctrl[0]->tx_wait);

	/* a transport that always wants it */
	l5_native_flag(self->k, 0, L5_MAP_BELL);
	n = bells[L5_BELL_DATA];
	ASSERT_EQ(8, l5_map_send1(self->a, -1, buf, 8));
	EXPECT_EQ(n + 1, bells[L5_BELL_DATA]);
}

/* What the kernel says about the end comes after the bytes. */
TEST_F(unit_map, ask)
{
	uint8_t buf[100];

	ASSERT_EQ(8, l5_map_send1(self->a, -1, "12345678", 8));
	l5_native_flag(self->k, 1, L5_MAP_RX_ASK);
	EXPECT_EQ(8, l5_map_recv1(self->b, -1, buf, 100));
	EXPECT_EQ(L5_TRY_ASK, l5_map_recv1(self->b, -1, buf, 100));
	EXPECT_EQ(4, l5_map_send1(self->b, -1, "1234", 4));
	l5_native_flag(self->k, 1, L5_MAP_TX_ASK);
	EXPECT_EQ(L5_TRY_ASK, l5_map_send1(self->b, -1, "1234", 4));
	EXPECT_EQ(L5_TRY_ASK, l5_map_reserve(self->b, -1, &(void *){ 0 }, 4));
	EXPECT_EQ(4, l5_map_recv1(self->a, -1, buf, 100));
	EXPECT_EQ(L5_TRY_AGAIN, l5_map_recv1(self->a, -1, buf, 100));
	/* nothing to move: only the kernel knows what that means */
	EXPECT_EQ(L5_TRY_ASK, l5_map_recv1(self->a, -1, buf, 0));
	EXPECT_EQ(L5_TRY_ASK, l5_map_send1(self->a, -1, buf, 0));
}

/* Where records end, of a peer whose tail is not known here */
TEST_F_TIMEOUT(unit_map, end, 100)
{
	uint64_t seed = 77, end = 0, tail;
	uint8_t buf[2 * SIZE];
	int i, n, news = 0;

	l5_store(&self->k->state[1]->transport, L5_TRANSPORT_RDMA);
	for (i = 0; i < 200000 / slow(); i++) {
		tail = l5_load(&self->k->ctrl[0]->tx_tail);
		ASSERT_EQ(tail != end, l5_map_rx_since(self->b, end));
		ASSERT_TRUE(l5_map_rx_since(self->b, ~0ull));
		if (l5_rnd(&seed) % 2) {
			news += tail != end;
			end = l5_map_rx_end(self->b, end);
			ASSERT_EQ(tail, end);
			if (l5_rnd(&seed) % 3)
				end = ~0ull;
			ASSERT_EQ(tail, l5_map_rx_end(self->b, end));
			end = tail;
			ASSERT_FALSE(l5_map_rx_since(self->b, end));
		}
		n = 1 + l5_rnd(&seed) % (l5_rnd(&seed) % 4 ? 60 : 3000);
		memset(buf, 0xff, n);
		if (l5_rnd(&seed) % 2)
			l5_map_send1(self->a, -1, buf, n);
		else
			l5_map_recv1(self->b, -1, buf, n);
	}
	EXPECT_LT(1000 / slow(), news);
}

/* And while another thread reads on: never further than it is */
static void *end_send(void *arg)
{
	struct l5_native *k = arg;
	struct l5_map *a = l5_native_map(k, 0, 2);
	uint8_t buf[300];
	uint64_t seed = 5;
	int i;

	/* what is left of it in the ring looks like no header, or like one */
	for (i = 0; i < 300000 / slow(); i++) {
		memset(buf, i % 3 ? 0xff : 0x80, sizeof(buf));
		while (l5_map_send1(a, -1, buf, 1 + l5_rnd(&seed) % 300) < 0)
			sched_yield();
	}
	l5_native_flag(k, 1, L5_MAP_RX_ASK);
	l5_native_unmap(a);
	return NULL;
}

static void *end_recv(void *arg)
{
	uint8_t buf[700];
	ssize_t n;

	do {
		n = l5_map_recv1(arg, -1, buf, sizeof(buf));
		if (n == L5_TRY_AGAIN)
			sched_yield();
	} while (n != L5_TRY_ASK);
	return NULL;
}

TEST_F_TIMEOUT(unit_map, end_moves, 200)
{
	uint64_t end = 0, next, head;
	pthread_t t[2];

	l5_store(&self->k->state[1]->transport, L5_TRANSPORT_RDMA);
	ASSERT_EQ(0, pthread_create(&t[0], NULL, end_send, self->k));
	ASSERT_EQ(0, pthread_create(&t[1], NULL, end_recv, self->b));
	do {
		head = l5_load(&self->b->own->rx_head);
		next = l5_map_rx_end(self->b, end);
		/* the tail moves after the record is there */
		ASSERT_LE(next, l5_load(&self->k->ctrl[0]->tx_tail) + 312);
		ASSERT_LE(head, next);
		end = next;
	} while (!l5_map_rx_ask(self->b) || l5_map_readable(self->b));
	pthread_join(t[0], NULL);
	pthread_join(t[1], NULL);
	ASSERT_EQ(l5_load(&self->k->ctrl[0]->tx_tail),
		  l5_map_rx_end(self->b, end));
}

/* A thread that keeps memory of the ring cannot wait for itself; others can. */
static void *sender(void *arg)
{
	return (void *)l5_map_send1(arg, -1, "other", 5);
}

TEST_F(unit_map, reserved)
{
	char buf[100];
	const void *p;
	pthread_t t;
	void *q, *ret;

	ASSERT_EQ(6, l5_map_reserve(self->a, -1, &q, 6));
	EXPECT_EQ(L5_TRY_NESTED, l5_map_send1(self->a, -1, "x", 1));
	EXPECT_EQ(L5_TRY_NESTED, l5_map_reserve(self->a, -1, &q, 1));
	ASSERT_TRUE(l5_wait_asleep(l5_thread_start(&t, NULL, sender,
						   self->a)));
	memcpy(q, "first ", 6);
	l5_map_commit(self->a, -1, 6);
	ASSERT_EQ(0, pthread_join(t, &ret));
	EXPECT_EQ(5, (ssize_t)ret);
	ASSERT_EQ(6, l5_map_peek(self->b, -1, &p));
	EXPECT_EQ(L5_TRY_NESTED, l5_map_recv1(self->b, -1, buf, 1));
	l5_map_release(self->b, -1, 2);
	EXPECT_EQ(9, l5_map_recv1(self->b, -1, buf, 100));
	EXPECT_EQ(0, memcmp(buf, "rst other", 9));
	EXPECT_EQ(0, l5_held.n + l5_held.now.key);
}

/* Threads of one direction take turns; a record is never torn. */
#define THREADS	4

struct crowd {
	struct l5_map *m;
	uint32_t who;
	uint32_t count;
	uint32_t *left;		/* notes to receive, all threads */
	uint32_t last[THREADS];
	uint64_t seen;
	uint64_t bad;
};

static void *crowd_send(void *arg)
{
	struct crowd *c = arg;
	struct note note = { .who = c->who };

	while (note.n++ < c->count) {
		l5_fill(note.body, sizeof(note.body), note.who * 100 + note.n);
		c->bad += !l5_native_send(c->m, &note, sizeof(note));
	}
	return NULL;
}

static void *crowd_recv(void *arg)
{
	struct crowd *c = arg;
	struct note note;

	while ((int)__atomic_fetch_sub(c->left, 1, __ATOMIC_RELAXED) > 0) {
		if (!l5_native_recv(c->m, &note, sizeof(note))) {
			c->bad++;
			break;
		}
		c->seen++;
		if (note.who >= THREADS || note.n <= c->last[note.who] ||
		    wrong(note.body, sizeof(note.body),
			  note.who * 100 + note.n)) {
			c->bad++;
			continue;
		}
		c->last[note.who] = note.n;
	}
	return NULL;
}

TEST_F_TIMEOUT(unit_map, threads, 300)
{
	const uint32_t count = 200000 / slow();
	struct crowd tx[THREADS] = { 0 }, rx[THREADS] = { 0 };
	pthread_t t[2 * THREADS];
	uint32_t left = THREADS * count;
	uint64_t seen = 0;
	int i;

	for (i = 0; i < THREADS; i++) {
		tx[i] = (struct crowd){ .m = self->a, .who = i,
					.count = count };
		rx[i] = (struct crowd){ .m = self->b, .left = &left };
		ASSERT_EQ(0, pthread_create(&t[i], NULL, crowd_send, &tx[i]));
		ASSERT_EQ(0, pthread_create(&t[THREADS + i], NULL, crowd_recv,
					    &rx[i]));
	}
	for (i = 0; i < 2 * THREADS; i++)
		ASSERT_EQ(0, pthread_join(t[i], NULL));
	for (i = 0; i < THREADS; i++) {
		EXPECT_EQ(0, tx[i].bad);
		EXPECT_EQ(0, rx[i].bad);
		seen += rx[i].seen;
	}
	EXPECT_EQ(THREADS * count, seen);
}

static ssize_t send_some(struct stream *s, uint8_t *buf, size_t n)
{
	if (!(l5_rnd(&s->seed) % 4096))
		usleep(300);
	return l5_native_send(s->conn, buf, n) ? (ssize_t)n : -1;
}

static ssize_t recv_some(struct stream *s, uint8_t *buf, size_t n)
{
	if (!(l5_rnd(&s->seed) % 4096))
		usleep(300);
	/* it waits for all of them */
	if (n > s->total - s->at)
		n = s->total - s->at;
	return l5_native_recv(s->conn, buf, n) ? (ssize_t)n : -1;
}

/* A thread each way, any sizes, sleeping and waking. */
TEST_F_TIMEOUT(unit_map, streams, 300)
{
	struct stream s[4];
	pthread_t t[4];
	int i;

	for (i = 0; i < 4; i++) {
		s[i] = (struct stream){
			.move = i & 1 ? recv_some : send_some,
			.conn = i == 0 || i == 3 ? self->a : self->b,
			.most = 3 * SIZE, .seed = i + 1,
			.total = (16 << 20) / slow() + i / 2,
		};
		ASSERT_EQ(0, pthread_create(&t[i], NULL, i & 1 ? stream_recv :
					    stream_send, &s[i]));
	}
	for (i = 0; i < 4; i++) {
		ASSERT_EQ(0, pthread_join(t[i], NULL));
		EXPECT_EQ(0, s[i].bad);
	}
}

/* A child has none of its parent's mappings, and maps for itself. */
TEST_F(unit_map, fork)
{
	char buf[20] = "";
	struct l5_map *m;
	int status;
	pid_t pid;

	ASSERT_TRUE(l5_map_mine(self->a));
	l5_map_get(self->a);
	l5_map_put(self->a);
	fflush(NULL);
	pid = fork();
	if (!pid) {
		if (l5_map_mine(self->a) || l5_map_mine(self->b))
			_exit(1);
		l5_native_unmap(self->a);
		m = l5_native_map(self->k, 0, 2);
		if (!m || !l5_map_mine(m) || l5_map_mine(self->b))
			_exit(2);
		if (l5_map_send1(m, -1, "child", 5) != 5)
			_exit(3);
		l5_native_unmap(m);
		_exit(0);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	ASSERT_TRUE(l5_map_mine(self->a));
	ASSERT_EQ(6, l5_map_send1(self->a, -1, "parent", 6));
	EXPECT_EQ(11, l5_map_recv1(self->b, -1, buf, sizeof(buf)));
	EXPECT_STREQ("childparent", buf);
}

PLAIN_FIXTURE(unit_map_alone)

/* How long a wait looks follows from what looking was good for. */
TEST_F(unit_map_alone, adapt)
{
	struct l5_adapt a;
	struct rusage r0, r1;
	struct l5_native *k = l5_native_new(SIZE);
	struct l5_map *m = l5_native_map(k, 0, 1);
	uint64_t start, cpu;
	int i;

	l5_adapt_init(&a);
	l5_adapt_set(&a, -1, -1);
	EXPECT_EQ(0, a.win);
	/* short sleeps make it wait, long ones make it stop; in good time */
	do {
		l5_adapt_init(&a);
		l5_adapt_set(&a, -1, -1);
		start = l5_map_now();
		l5_adapt_woke(&a, start - 20000);
	} while (l5_map_now() - start > 300000);
	EXPECT_LE(30000, a.win);
	for (i = 0; i < 10; i++) {
		do {
			start = l5_map_now();
			l5_adapt_woke(&a, start - 150000);
		} while (l5_map_now() - start > 200000);
	}
	EXPECT_EQ(200000, a.win);
	for (i = 0; i < 10; i++)
		l5_adapt_woke(&a, l5_map_now() - 10000000);
	EXPECT_EQ(0, a.win);
	/* as told, and not otherwise */
	l5_adapt_set(&a, 0, 0);
	l5_adapt_woke(&a, l5_map_now() - 20000);
	EXPECT_EQ(0, a.win);

	/* an idle one costs nothing: ten seconds of long waits in an instant */
	l5_adapt_woke(&m->rx_adapt, l5_map_now() - 150000);
	getrusage(RUSAGE_THREAD, &r0);
	for (i = 0; i < 1000; i++) {
		EXPECT_FALSE(l5_map_wait_rx(m, &start, l5_signals));
		l5_map_woke_rx(m, start - 10000000);
	}
	getrusage(RUSAGE_THREAD, &r1);
	cpu = (r1.ru_utime.tv_sec - r0.ru_utime.tv_sec) * 1000000 +
	      r1.ru_utime.tv_usec - r0.ru_utime.tv_usec +
	      (r1.ru_stime.tv_sec - r0.ru_stime.tv_sec) * 1000000 +
	      r1.ru_stime.tv_usec - r0.ru_stime.tv_usec;
	EXPECT_GT(20000 * slow(), cpu);

	/* told to spin it does */
	l5_adapt_set(&m->rx_adapt, 2000, 0);
	start = l5_map_now();
	EXPECT_FALSE(l5_map_wait_rx(m, &start, l5_signals));
	EXPECT_LE(2000000, l5_map_now() - start);
	l5_native_unmap(m);
	l5_native_free(k);
}

static bool never(const void *arg)
{
	(void)arg;
	return false;
}

static int clock_still(clockid_t clock, struct timespec *t)
{
	(void)clock;
	*t = (struct timespec){ 1000, 0 };
	return 0;
}

static int clock_back(clockid_t clock, struct timespec *t)
{
	static long looks;

	(void)clock;
	*t = (struct timespec){ 1000000000 - looks++, 0 };
	return 0;
}

static int clock_slow(clockid_t clock, struct timespec *t)
{
	static long looks;

	(void)clock;
	*t = (struct timespec){ 1000, looks++ / 1000 };
	return 0;
}

static int clock_fails(clockid_t clock, struct timespec *t)
{
	(void)clock;
	(void)t;
	return -EPERM;
}

/* Every wait ends, whatever the clock does. */
TEST_F(unit_map_alone, bad_clock)
{
	static int (*const bad[])(clockid_t clock, struct timespec *t) = {
		clock_still, clock_back, clock_slow, clock_fails,
	};
	int (*good)(clockid_t clock, struct timespec *t);
	struct l5_adapt a;
	uint64_t start;
	size_t i;

	ASSERT_EQ(0, l5_map_live());
	good = l5_clock_gettime;
	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		l5_clock_gettime = bad[i];
		l5_adapt_init(&a);
		l5_adapt_set(&a, -1, -1);
		a.win = 200000;
		EXPECT_FALSE(l5_adapt_wait(&a, never, NULL, &start,
					   l5_signals));
		l5_adapt_woke(&a, start);
		a.win = 200000;
		EXPECT_FALSE(l5_adapt_wait_for(&a, never, NULL, &start,
					       UINT64_MAX, l5_signals));
		l5_adapt_set(&a, 100, -1);
		EXPECT_FALSE(l5_adapt_wait(&a, never, NULL, &start,
					   l5_signals));
		l5_adapt_set(&a, 100, 100);
		EXPECT_FALSE(l5_adapt_wait_for(&a, never, NULL, &start,
					       1000000000, l5_signals));
	}
	l5_clock_gettime = good;
}

/*
 * The clock is the kernel's, without a system call where the kernel offers
 * that.
 */
TEST_F(unit_map_alone, own_clock)
{
	uintptr_t vdso = getauxval(AT_SYSINFO_EHDR);
	struct timespec t[2];
	uint64_t now;

	ASSERT_EQ(0, l5_map_live());
	ASSERT_EQ(0, syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t[0]));
	now = l5_map_now();
	ASSERT_EQ(0, syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t[1]));
	EXPECT_LE(t[0].tv_sec * 1000000000ull + t[0].tv_nsec, now);
	EXPECT_GE(t[1].tv_sec * 1000000000ull + t[1].tv_nsec, now);
#if defined(__x86_64__) || defined(__aarch64__)
	/* a few pages; under valgrind there is none */
	if (vdso)
		EXPECT_GT(65536, (uintptr_t)l5_clock_gettime - vdso);
#endif
}

/* Of this process and of the children that it has waited for, ns */
static uint64_t cpu_time(void)
{
	struct rusage r[2];
	uint64_t us = 0;
	int i;

	getrusage(RUSAGE_SELF, &r[0]);
	getrusage(RUSAGE_CHILDREN, &r[1]);
	for (i = 0; i < 2; i++)
		us += 1000000ull *
		      (r[i].ru_utime.tv_sec + r[i].ru_stime.tv_sec) +
		      r[i].ru_utime.tv_usec + r[i].ru_stime.tv_usec;
	return us * 1000;
}

/*
 * Two processes on one CPU go on, and do not wait for time slices to end, which
 * would burn them. What others burn, if they are on that CPU too, makes
 * each round longer, so the time is the two processes' own, and the rounds have
 * an end.
 */
TEST_F_TIMEOUT(unit_map, one_cpu, 120)
{
	const int rounds = 20000 / slow();
	const uint64_t most = 60000000000ull;
	uint64_t cpu = cpu_time();
	cpu_set_t cpus;
	struct l5_map *m;
	char buf[64] = { 0 };
	uint64_t start;
	int i, status;
	pid_t pid;

	CPU_ZERO(&cpus);
	CPU_SET(sched_getcpu(), &cpus);
	ASSERT_EQ(0, sched_setaffinity(0, sizeof(cpus), &cpus));
	fflush(NULL);
	pid = fork();
	if (!pid) {
		m = l5_native_map(self->k, 1, 2);
		while (l5_native_recv(m, buf, sizeof(buf)))
			l5_native_send(m, buf, sizeof(buf));
		_exit(0);
	}
	start = l5_map_now();
	for (i = 0; i < rounds && l5_map_now() - start < most; i++) {
		ASSERT_TRUE(l5_native_send(self->a, buf, sizeof(buf)));
		ASSERT_TRUE(l5_native_recv(self->a, buf, sizeof(buf)));
	}
	start = l5_map_now() - start;
	TH_LOG("%.0f round trips/s", i * 1e9 / start);
	l5_native_flag(self->k, 1, L5_MAP_RX_ASK);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	/* a slice is some milliseconds */
	EXPECT_LE(100, i);
	EXPECT_GT(500000ull * slow(), (cpu_time() - cpu) / i);
}

TEST_HARNESS_MAIN
