// SPDX-License-Identifier: GPL-2.0
/*
 * Mailboxes without AF_L5: the bytes in plain memory, the rings in a memfd.
 * Built with the library's sources, to see inside, also for sanitizers.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "conn.h"
#include "l5test.h"
#include "libl5.h"
#include "mailbox.h"
#include "native.h"

#define BYTES	4096
#define L5_MAILBOX_LINES	(BYTES / L5_MAILBOX_LINE)
#define SIZE	4096u

/* Sanitizers see the same cases, and fewer of them. */
static int slow(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return 10;
#else
	return 1;
#endif
}

static uint8_t *box_new(void)
{
	uint8_t *box = aligned_alloc(BYTES, BYTES);

	memset(box, 0, BYTES);
	return box;
}

/* Ways to scan */

/* The plainest way: the line, and what is set there. */
static unsigned int plain(const uint8_t *box, unsigned int from,
			  unsigned int end, uint64_t *mask)
{
	unsigned int i;

	for (; from < end; from++) {
		*mask = 0;
		for (i = 0; i < L5_MAILBOX_LINE; i++)
			*mask |= (uint64_t)!!box[from * L5_MAILBOX_LINE + i]
				 << i;
		if (*mask)
			break;
	}
	return from;
}

/* Does each way, from each line, say the same? Counts differences. */
static int differ(const uint8_t *box, unsigned int from, unsigned int end)
{
	uint64_t want = 0, got;
	unsigned int line = plain(box, from, end, &want), i;
	int bad = 0;

	for (i = 0; l5_scans[i].name; i++) {
		if (!l5_scans[i].usable())
			continue;
		got = 0;
		if (l5_scans[i].line(box, from, end, &got) != line ||
		    (line < end && got != want))
			bad++;
	}
	return bad;
}

/* l5_mailbox_poll(): a connection is only an address here. */
FIXTURE(unit_mailbox)
{
	uint8_t *byte;
	struct l5_mailbox *b;
};

FIXTURE_SETUP(unit_mailbox)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	self->byte = box_new();
	self->b = l5_mailbox_over(self->byte, BYTES);
	ASSERT_NE(NULL, self->b);
}

FIXTURE_TEARDOWN(unit_mailbox)
{
	l5_mailbox_close(self->b);
	free(self->byte);
}

TEST_F_TIMEOUT(unit_mailbox, scan, 200)
{
	uint8_t *box = self->byte;
	unsigned int i, v, from, end, turns = 50000 / slow();
	uint64_t seed = 99;

	for (i = 0; l5_scans[i].name; i++)
		TH_LOG("%s%s", l5_scans[i].name,
		       l5_scans[i].usable() ? "" : ": not here");
	ASSERT_TRUE(l5_scans[i - 1].usable());
	/* nothing, and each byte alone, with each value in one line */
	ASSERT_EQ(0, differ(box, 0, L5_MAILBOX_LINES));
	ASSERT_EQ(0, differ(box, 0, 0));
	for (i = 0; i < BYTES; i++) {
		for (v = 1; v < 256; v += i < 64 ? 1 : 127) {
			box[i] = v;
			ASSERT_EQ(0, differ(box, 0, L5_MAILBOX_LINES));
			ASSERT_EQ(0, differ(box, i / 64, i / 64 + 1));
			ASSERT_EQ(0, differ(box, i / 64 + 1, L5_MAILBOX_LINES));
			ASSERT_EQ(0, differ(box, 0, i / 64));
		}
		box[i] = 0;
	}
	/* all but one */
	memset(box, 0xff, BYTES);
	for (i = 0; i < BYTES; i++) {
		box[i] = 0;
		ASSERT_EQ(0, differ(box, i / 64, L5_MAILBOX_LINES));
		box[i] = 0x80;
	}
	/* from one in 4096 to all of them */
	for (i = 0; i < turns; i++) {
		if (!(i % 100)) {
			unsigned int many = 1u << l5_rnd(&seed) % 13, n;

			memset(box, 0, BYTES);
			for (n = 0; n < many; n++)
				box[l5_rnd(&seed) % BYTES] = l5_rnd(&seed);
		}
		from = l5_rnd(&seed) % (L5_MAILBOX_LINES + 1);
		end = l5_rnd(&seed) % (L5_MAILBOX_LINES + 1);
		if (from > end)
			end = L5_MAILBOX_LINES;
		ASSERT_EQ(0, differ(box, from, end));
		box[l5_rnd(&seed) % BYTES] = l5_rnd(&seed) % 2 * l5_rnd(&seed);
	}
}

static struct l5_stream *as_conn(unsigned int i)
{
	return (struct l5_stream *)(16 + 16ul * i);
}

static unsigned int as_number(const struct l5_stream *c)
{
	return ((uintptr_t)c - 16) / 16;
}

TEST_F(unit_mailbox, poll)
{
	struct l5_stream *got[BYTES];
	unsigned int i;

	ASSERT_EQ(0, l5_mailbox_poll(self->b, got, BYTES));
	ASSERT_EQ(-1, l5_mailbox_poll(self->b, got, 0));
	ASSERT_EQ(EINVAL, errno);
	ASSERT_EQ(-1, l5_mailbox_poll(self->b, got, -1));
	for (i = 0; i < BYTES; i++) {
		ASSERT_TRUE(l5_mailbox_join(self->b, as_conn(i), i));
		ASSERT_TRUE(l5_mailbox_join(self->b, as_conn(i), i));
		ASSERT_FALSE(l5_mailbox_join(self->b, as_conn(i + 1), i));
	}
	/* a connection that joins counts as news, once */
	ASSERT_EQ(BYTES, l5_mailbox_poll(self->b, got, BYTES));
	for (i = 0; i < BYTES; i++)
		ASSERT_EQ(i, as_number(got[i]));
	ASSERT_EQ(0, l5_mailbox_poll(self->b, got, BYTES));
	/* one of them, at each place, whatever was before */
	for (i = 0; i < BYTES; i++) {
		self->byte[i * 5 % BYTES] = i % 255 + 1;
		ASSERT_EQ(1, l5_mailbox_poll(self->b, got, 3));
		ASSERT_EQ(i * 5 % BYTES, as_number(got[0]));
		ASSERT_EQ(0, self->byte[i * 5 % BYTES]);
	}
	/* bytes of no connection are cleared, and not reported */
	l5_mailbox_leave(self->b, as_conn(8), 7);
	l5_mailbox_leave(self->b, as_conn(8), 8);
	self->byte[7] = 1;
	self->byte[8] = 1;
	self->byte[9] = 1;
	ASSERT_EQ(2, l5_mailbox_poll(self->b, got, 3));
	ASSERT_EQ(7, as_number(got[0]));
	ASSERT_EQ(9, as_number(got[1]));
	ASSERT_EQ(0, self->byte[8]);
}

/* With little room each connection has its turn before any comes twice. */
TEST_F(unit_mailbox, turns)
{
	static const unsigned int ns[] = { 1, 2, 63, 64, 65, 200, BYTES, 0 };
	unsigned int k, i, max, seen, last = 0;
	struct l5_stream *got[BYTES];
	static uint8_t had[BYTES];
	int n;

	for (k = 0; ns[k]; k++) {
		for (; last < ns[k]; last++)
			ASSERT_TRUE(l5_mailbox_join(self->b, as_conn(last),
						    last));
		for (max = 1; max < 70; max += 17) {
			memset(had, 0, sizeof(had));
			for (seen = 0; seen < last; seen += n) {
				/* the peers go on and on */
				memset(self->byte, 1, last);
				n = l5_mailbox_poll(self->b, got,
						    max < last - seen ?
						    max : last - seen);
				ASSERT_LT(0, n);
				for (i = 0; i < (unsigned int)n; i++)
					ASSERT_EQ(0, had[as_number(got[i])]++);
			}
		}
	}
}

/* Bytes that no connection is attached to, and no bytes at all. */
TEST_F(unit_mailbox, hostile)
{
	struct l5_stream *got[4];
	int i;

	memset(self->byte, 0xff, BYTES);
	ASSERT_EQ(0, l5_mailbox_poll(self->b, got, 4));
	ASSERT_TRUE(l5_mailbox_join(self->b, as_conn(70), 70));
	for (i = 0; i < 1000; i++) {
		memset(self->byte, i, BYTES);
		ASSERT_EQ(i % 256 ? 1 : 0,
			  l5_mailbox_poll(self->b, got, 4));
	}
}

/* A child of fork() may end it, and not use it. */
TEST_F(unit_mailbox, child)
{
	struct l5_stream *got[1];
	int status;
	pid_t pid;

	ASSERT_TRUE(l5_mailbox_join(self->b, as_conn(0), 0));
	pid = fork();
	if (!pid) {
		if (l5_mailbox_poll(self->b, got, 1) != -1 || errno != EINVAL)
			_exit(1);
		if (l5_mailbox_attach(self->b, as_conn(1)) != -1 ||
		    errno != EINVAL)
			_exit(2);
		l5_mailbox_close(self->b);
		_exit(0);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
	ASSERT_EQ(1, l5_mailbox_poll(self->b, got, 1));
}

/*
 * Setters as the peers' hosts are: the record, then the byte. A thread that
 * polls, even two at a time, sees of each the last record in the end.
 */
enum { SETTERS = 3, POLLERS = 2 };

struct storm {
	struct l5_mailbox *b;
	unsigned int n;		/* connections */
	unsigned int turns;
	uint32_t *record;
	uint32_t *seen;
	int setters;		/* still at it */
	int bad;
};

struct storm_part {
	struct storm *s;
	unsigned int k;
};

static void *storm_set(void *arg)
{
	struct storm_part *p = arg;
	struct storm *s = p->s;
	uint64_t seed = p->k + 7;
	unsigned int i, t;

	for (t = 0; t < s->turns; t++) {
		/* each connection has one peer */
		i = l5_rnd(&seed) % (s->n / SETTERS) * SETTERS + p->k;
		l5_store(&s->record[i], l5_load(&s->record[i]) + 1);
		/* AA, pairs with BB */
		l5_store_release(&s->b->byte[i], 1 + l5_rnd(&seed) % 255);
		if (!(t % 64))
			sched_yield();
	}
	__atomic_sub_fetch(&s->setters, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

static void storm_saw(struct storm *s, unsigned int i)
{
	uint32_t now = l5_load(&s->record[i]), old = l5_load(&s->seen[i]);

	while (old < now &&
	       !__atomic_compare_exchange_n(&s->seen[i], &old, now, false,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

static void *storm_poll(void *arg)
{
	struct storm_part *p = arg;
	struct storm *s = p->s;
	struct l5_stream *got[64];
	bool last;
	int n, i;

	do {
		last = !__atomic_load_n(&s->setters, __ATOMIC_SEQ_CST);
		n = l5_mailbox_poll(s->b, got, 1 + p->k * 63);
		if (n < 0)
			__atomic_add_fetch(&s->bad, 1, __ATOMIC_RELAXED);
		for (i = 0; i < n; i++)
			storm_saw(s, as_number(got[i]));
		if (!n)
			sched_yield();
	} while (n || !last);
	return NULL;
}

static int storm(struct l5_mailbox *b, unsigned int n, unsigned int turns)
{
	struct storm s = {
		.b = b, .n = n, .turns = turns, .setters = SETTERS,
		.record = calloc(n, sizeof(uint32_t)),
		.seen = calloc(n, sizeof(uint32_t)),
	};
	struct storm_part part[SETTERS + POLLERS];
	pthread_t t[SETTERS + POLLERS];
	unsigned int i;

	for (i = 0; i < SETTERS + POLLERS; i++) {
		part[i].s = &s;
		part[i].k = i < SETTERS ? i : i - SETTERS;
		if (pthread_create(&t[i], NULL, i < SETTERS ? storm_set :
				   storm_poll, &part[i]))
			abort();
	}
	for (i = 0; i < SETTERS + POLLERS; i++)
		pthread_join(t[i], NULL);
	for (i = 0; i < n; i++)
		s.bad += s.seen[i] != s.record[i];
	free(s.record);
	free(s.seen);
	return s.bad;
}

TEST_F_TIMEOUT(unit_mailbox, storm, 300)
{
	const struct l5_scan *best = self->b->scan;
	unsigned int i, k;

	for (i = 0; i < 300; i++)
		ASSERT_TRUE(l5_mailbox_join(self->b, as_conn(i), i));
	for (k = 0; l5_scans[k].name; k++) {
		if (!l5_scans[k].usable())
			continue;
		self->b->scan = &l5_scans[k];
		for (i = 0; i < 8; i++)
			ASSERT_EQ(0, storm(self->b, i % 2 ? 6 : 300,
					   10000 / slow()));
	}
	self->b->scan = best;
}

/*
 * l5_wait_any(). A connection here is rings in memory, and a socket for what
 * only poll(2) says. Ends 0 are the peers.
 */
enum { CONNS = 70 };

FIXTURE(unit_mailbox_any)
{
	uint8_t *byte;
	struct l5_mailbox *b;
	struct l5_native *k[CONNS];
	struct l5_map *peer[CONNS];
	struct l5_map *map[CONNS];
	struct l5_stream *c[CONNS];
	struct l5_event e[CONNS];
	int fd[CONNS][2];
};

FIXTURE_SETUP(unit_mailbox_any)
{
	int i;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	self->byte = box_new();
	self->b = l5_mailbox_over(self->byte, BYTES);
	ASSERT_NE(NULL, self->b);
	for (i = 0; i < CONNS; i++) {
		self->k[i] = l5_native_new(SIZE);
		ASSERT_NE(NULL, self->k[i]);
		self->peer[i] = l5_native_map(self->k[i], 0, 1);
		self->map[i] = l5_native_map(self->k[i], 1, 1);
		ASSERT_NE(NULL, self->peer[i]);
		ASSERT_NE(NULL, self->map[i]);
		/* from the end, so that places and bytes differ */
		self->map[i]->mailbox = 3 * (CONNS - i);
		ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0,
					self->fd[i]));
		self->c[i] = l5_stream_over(self->fd[i][0], self->map[i]);
		ASSERT_NE(NULL, self->c[i]);
		ASSERT_EQ(-1, l5_stream_mailbox(self->c[i]));
		self->e[i].conn = self->c[i];
		self->e[i].events = POLLIN;
	}
}

FIXTURE_TEARDOWN(unit_mailbox_any)
{
	int i;

	for (i = 0; i < CONNS; i++) {
		l5_unmap(self->c[i]);
		l5_native_unmap(self->peer[i]);
		/* the connection's reference was one more */
		l5_native_unmap(self->map[i]);
		l5_native_free(self->k[i]);
		close(self->fd[i][0]);
		close(self->fd[i][1]);
	}
	l5_mailbox_close(self->b);
	free(self->byte);
}

/* FIXTURE(unit_mailbox_any) makes struct _test_data_unit_mailbox_any. */
static int number_of(struct _test_data_unit_mailbox_any *self, int i)
{
	return self->map[i]->mailbox - 1;
}

/* The first @n are attached, and their bytes are read off. */
static int attach(struct _test_data_unit_mailbox_any *self, int n)
{
	int i;

	for (i = 0; i < n; i++) {
		if (l5_mailbox_attach(self->b, self->c[i]) ||
		    l5_stream_mailbox(self->c[i]) != number_of(self, i))
			return -1;
	}
	return l5_wait_any(self->e, CONNS, 0);
}

/* As the peer's host: a record, then the byte. */
static void post(struct _test_data_unit_mailbox_any *self, int i, const char *s)
{
	if (l5_map_send1(self->peer[i], -1, s, strlen(s)) <= 0)
		abort();
	l5_store_release(&self->byte[number_of(self, i)], 1);
}

static int ready(struct _test_data_unit_mailbox_any *self)
{
	int i, n = 0;

	for (i = 0; i < CONNS; i++)
		n += !!self->e[i].revents;
	return n;
}

TEST_F(unit_mailbox_any, level)
{
	char buf[8];
	int i;

	ASSERT_EQ(0, attach(self, CONNS));
	for (i = 0; i < 10; i++)
		ASSERT_EQ(0, l5_wait_any(self->e, CONNS, 0));
	for (i = 0; i < CONNS; i++) {
		post(self, i, "ab");
		ASSERT_EQ(1, l5_wait_any(self->e, CONNS, 0));
		ASSERT_EQ(POLLIN, self->e[i].revents);
		ASSERT_EQ(1, ready(self));
		/* again, and after a part of it was read */
		ASSERT_EQ(1, l5_wait_any(self->e, CONNS, -1));
		ASSERT_EQ(1, l5_recv(self->c[i], buf, 1, 0));
		ASSERT_EQ(1, l5_wait_any(self->e, CONNS, 0));
		ASSERT_EQ(POLLIN, self->e[i].revents);
		ASSERT_EQ(1, l5_recv(self->c[i], buf, 1, 0));
		ASSERT_EQ(0, l5_wait_any(self->e, CONNS, 0));
		ASSERT_EQ(0, ready(self));
	}
	/* many at once */
	for (i = 0; i < CONNS; i += 2)
		post(self, i, "x");
	ASSERT_EQ(CONNS / 2, l5_wait_any(self->e, CONNS, 0));
	ASSERT_EQ(CONNS / 2, ready(self));
}

/*
 * A byte is asked first: a ring whose byte is not set is only looked at now and
 * then.
 */
TEST_F(unit_mailbox_any, saves)
{
	int i, before = 0;

	ASSERT_EQ(0, attach(self, CONNS));
	ASSERT_EQ(2, l5_map_send1(self->peer[9], -1, "xx", 2));
	while (!l5_wait_any(self->e, CONNS, 0))
		before++;
	ASSERT_EQ(POLLIN, self->e[9].revents);
	EXPECT_LT(10, before);
	EXPECT_GT(100, before);
	/* from then on it is known */
	for (i = 0; i < 5; i++)
		ASSERT_EQ(1, l5_wait_any(self->e, CONNS, 0));
}

/* Connections that have a byte, and connections without. */
TEST_F(unit_mailbox_any, mixed)
{
	const int half = CONNS / 2;
	char buf[8];
	int i;

	ASSERT_EQ(0, attach(self, half));
	for (i = 0; i < CONNS; i++) {
		int j = i * 13 % CONNS;

		if (j < half)
			post(self, j, "m");
		else
			ASSERT_EQ(1, l5_map_send1(self->peer[j], -1, "m", 1));
		ASSERT_EQ(1, l5_wait_any(self->e, CONNS, 0));
		ASSERT_EQ(POLLIN, self->e[j].revents);
		ASSERT_EQ(1, l5_recv(self->c[j], buf, sizeof(buf), 0));
	}
	ASSERT_EQ(0, l5_wait_any(self->e, CONNS, 0));
}

/* What is asked for beside data, entries left out, doubles, other places. */
TEST_F(unit_mailbox_any, entries)
{
	struct l5_event e[6] = {
		{ .conn = self->c[0], .events = POLLIN },
		{ .conn = NULL, .events = POLLIN },
		{ .conn = self->c[0], .events = POLLIN },
		{ .conn = self->c[1], .events = POLLOUT },
		{ .conn = self->c[2], .events = POLLIN | POLLRDNORM },
		{ .conn = self->c[3], .events = POLLIN | POLLOUT },
	};
	struct l5_event t;
	int i;

	ASSERT_EQ(0, attach(self, CONNS));
	ASSERT_EQ(2, l5_wait_any(e, 6, 0));
	ASSERT_EQ(POLLOUT, e[3].revents);
	ASSERT_EQ(POLLOUT, e[5].revents);
	post(self, 0, "x");
	post(self, 1, "x");
	post(self, 2, "x");
	post(self, 3, "x");
	for (i = 0; i < 20; i++) {
		ASSERT_EQ(5, l5_wait_any(e, 6, 0));
		ASSERT_EQ(POLLIN, e[0].revents);
		ASSERT_EQ(0, e[1].revents);
		ASSERT_EQ(POLLIN, e[2].revents);
		ASSERT_EQ(POLLOUT, e[3].revents);
		ASSERT_EQ(POLLIN | POLLRDNORM, e[4].revents);
		ASSERT_EQ(POLLIN | POLLOUT, e[5].revents);
	}
	/* at another place each time */
	for (i = 0; i < 20; i++) {
		t = e[i % 6];
		e[i % 6] = e[i * 5 % 6];
		e[i * 5 % 6] = t;
		ASSERT_EQ(5, l5_wait_any(e, 6, 0));
		ASSERT_EQ(5, l5_wait_any(e, 6, 0));
	}
	/* doubles, and nothing else that has to be looked at */
	e[0] = (struct l5_event){ .conn = self->c[0], .events = POLLIN };
	e[1] = (struct l5_event){ .conn = self->c[2], .events = POLLIN };
	e[2] = e[0];
	for (i = 0; i < 20; i++)
		ASSERT_EQ(3, l5_wait_any(e, 3, 0));
	/* one alone, for which no mailbox is needed */
	ASSERT_EQ(POLLIN, l5_wait(self->c[2], POLLIN, 0));
}

/* The end is no record: a thread hears of it when it sleeps at the latest. */
TEST_F(unit_mailbox_any, end)
{
	ASSERT_EQ(0, attach(self, CONNS));
	close(self->fd[5][1]);
	self->fd[5][1] = dup(0);
	l5_native_flag(self->k[5], 1, L5_MAP_RX_ASK | L5_MAP_TX_ASK);
	ASSERT_EQ(1, l5_wait_any(self->e, CONNS, -1));
	ASSERT_EQ(POLLIN | POLLHUP, self->e[5].revents);
	/* from then on at once, beside others */
	ASSERT_EQ(1, l5_wait_any(self->e, CONNS, 0));
	post(self, 60, "x");
	ASSERT_EQ(2, l5_wait_any(self->e, CONNS, 0));
	ASSERT_EQ(POLLIN | POLLHUP, self->e[5].revents);
	ASSERT_EQ(POLLIN, self->e[60].revents);
}

/* A connection that is always ready does not hide the end of another. */
TEST_F(unit_mailbox_any, starve)
{
	int i;

	ASSERT_EQ(0, attach(self, CONNS));
	post(self, 1, "x");
	close(self->fd[5][1]);
	self->fd[5][1] = dup(0);
	l5_native_flag(self->k[5], 1, L5_MAP_RX_ASK | L5_MAP_TX_ASK);
	for (i = 0; i < 100; i++) {
		ASSERT_LT(0, l5_wait_any(self->e, CONNS, -1));
		if (self->e[5].revents)
			break;
	}
	EXPECT_GT(100, i);
}

/* Together with l5_mailbox_poll(), which takes bytes away. */
TEST_F(unit_mailbox_any, both)
{
	struct l5_stream *got[4];

	ASSERT_EQ(0, attach(self, CONNS));
	post(self, 8, "x");
	ASSERT_EQ(1, l5_mailbox_poll(self->b, got, 4));
	ASSERT_EQ(self->c[8], got[0]);
	ASSERT_EQ(0, l5_mailbox_poll(self->b, got, 4));
	ASSERT_EQ(POLLIN, l5_wait(self->c[8], POLLIN, 0));
	post(self, 9, "x");
	ASSERT_EQ(1, l5_wait_any(self->e, CONNS, 0));
	/* reported there, and not read, it is news here too */
	ASSERT_EQ(1, l5_mailbox_poll(self->b, got, 4));
	ASSERT_EQ(self->c[9], got[0]);
}

TEST_F(unit_mailbox_any, attach)
{
	struct l5_mailbox *other;
	struct l5_stream *twin;
	uint8_t *byte = box_new();

	ASSERT_EQ(0, attach(self, 2));
	ASSERT_EQ(-1, l5_mailbox_attach(self->b, self->c[0]));
	ASSERT_EQ(EBUSY, errno);
	/* a second connection of the same byte does without */
	twin = l5_stream_over(self->fd[1][0], self->map[1]);
	ASSERT_NE(NULL, twin);
	ASSERT_EQ(0, l5_mailbox_attach(self->b, twin));
	ASSERT_EQ(-1, l5_stream_mailbox(twin));
	l5_unmap(twin);
	ASSERT_EQ(number_of(self, 1), l5_stream_mailbox(self->c[1]));
	/* no byte is no error */
	self->map[2]->mailbox = 0;
	ASSERT_EQ(0, l5_mailbox_attach(self->b, self->c[2]));
	ASSERT_EQ(-1, l5_stream_mailbox(self->c[2]));
	self->map[2]->mailbox = 3 * (CONNS - 2);
	/* two mailboxes in one call, one of which its owner has closed */
	other = l5_mailbox_over(byte, BYTES);
	ASSERT_NE(NULL, other);
	ASSERT_EQ(0, l5_mailbox_attach(other, self->c[3]));
	l5_mailbox_close(other);
	ASSERT_EQ(1, l5_map_send1(self->peer[3], -1, "x", 1));
	post(self, 1, "x");
	ASSERT_EQ(2, l5_wait_any(self->e, CONNS, 0));
	ASSERT_EQ(POLLIN, self->e[1].revents);
	ASSERT_EQ(POLLIN, self->e[3].revents);
	l5_unmap(self->c[3]);
	self->c[3] = NULL;
	self->e[3].conn = NULL;
	ASSERT_EQ(1, l5_wait_any(self->e, CONNS, 0));
	/* a byte goes from one to the next */
	l5_unmap(self->c[0]);
	self->c[0] = l5_stream_over(self->fd[0][0], self->map[0]);
	ASSERT_EQ(0, l5_mailbox_attach(self->b, self->c[0]));
	ASSERT_EQ(number_of(self, 0), l5_stream_mailbox(self->c[0]));
	self->e[0].conn = self->c[0];
	post(self, 0, "x");
	ASSERT_EQ(2, l5_wait_any(self->e, CONNS, 0));
	free(byte);
}

/* A hostile peer sets every byte at any time. */
static void *set_all(void *arg)
{
	uint8_t *byte = arg;
	uint64_t seed = 3;

	while (l5_load(&byte[0]) != 0xaa) {
		l5_store(&byte[1 + l5_rnd(&seed) % (BYTES - 1)], l5_rnd(&seed));
		if (!(l5_rnd(&seed) % 256))
			sched_yield();
	}
	return NULL;
}

TEST_F_TIMEOUT(unit_mailbox_any, hostile, 100)
{
	pthread_t t;
	char buf[8];
	int i;

	ASSERT_EQ(0, attach(self, CONNS));
	ASSERT_EQ(0, pthread_create(&t, NULL, set_all, self->byte));
	for (i = 0; i < 500 / slow(); i++) {
		int j = i * 7 % CONNS;

		ASSERT_EQ(0, l5_wait_any(self->e, CONNS, i % 50 ? 0 : 1));
		ASSERT_EQ(1, l5_map_send1(self->peer[j], -1, "h", 1));
		while (!l5_wait_any(self->e, CONNS, 0))
			;
		ASSERT_EQ(1, ready(self));
		ASSERT_EQ(POLLIN, self->e[j].revents);
		ASSERT_EQ(1, l5_recv(self->c[j], buf, sizeof(buf), 0));
	}
	l5_store(&self->byte[0], 0xaa);
	pthread_join(t, NULL);
}

/* Peers that send, two threads that serve half of them each: exact bytes. */
struct serve {
	struct _test_data_unit_mailbox_any *self;
	int first;
	int n;
	int rounds;
	int bad;
};

static void *serve_send(void *arg)
{
	struct serve *s = arg;
	uint32_t i, word;

	for (i = 0; i < (uint32_t)s->rounds * s->n; i++) {
		int j = s->first + i % s->n;

		word = i / s->n;
		while (l5_map_send1(s->self->peer[j], -1, &word, 4) <= 0)
			sched_yield();
		/* AA, pairs with BB */
		l5_store_release(&s->self->byte[number_of(s->self, j)], 1);
	}
	return NULL;
}

static void *serve_recv(void *arg)
{
	struct serve *s = arg;
	struct l5_event *e = &s->self->e[s->first];
	uint32_t want[CONNS] = { 0 }, word;
	int i, left = s->rounds * s->n;

	while (left) {
		/* nobody would ring for a thread that sleeps here */
		if (l5_wait_any(e, s->n, 0) <= 0) {
			sched_yield();
			continue;
		}
		for (i = 0; i < s->n; i++) {
			if (!e[i].revents)
				continue;
			if (l5_recv(e[i].conn, &word, 4, MSG_DONTWAIT) != 4 ||
			    word != want[i]++)
				s->bad++;
			left--;
		}
	}
	return NULL;
}

TEST_F_TIMEOUT(unit_mailbox_any, serve, 300)
{
	const int half = CONNS / 2, rounds = 1000 / slow();
	struct serve s[2] = {
		{ .self = self, .n = half, .rounds = rounds },
		{ .self = self, .first = half, .n = half, .rounds = rounds },
	};
	pthread_t t[4];
	int i;

	ASSERT_EQ(0, attach(self, CONNS));
	for (i = 0; i < 4; i++)
		ASSERT_EQ(0, pthread_create(&t[i], NULL, i % 2 ? serve_send :
					    serve_recv, &s[i / 2]));
	for (i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	EXPECT_EQ(0, s[0].bad);
	EXPECT_EQ(0, s[1].bad);
}

TEST_HARNESS_MAIN
