// SPDX-License-Identifier: GPL-2.0
/*
 * The one wait loop of user space, and the one answer to what is ready, over
 * rings in a memfd: what ends a wait, what bounds it, and what comes first.
 */
#include <pthread.h>
#include <string.h>

#include "kselftest_harness.h"
#include "map.h"
#include "native.h"

enum { RING = 65536 };

FIXTURE(unit_wait)
{
	struct l5_native *k;
	struct l5_map *a, *b;
};

FIXTURE_SETUP(unit_wait)
{
	self->k = l5_native_new(RING);
	ASSERT_NE(NULL, self->k);
	self->a = l5_native_map(self->k, 0, 1);
	self->b = l5_native_map(self->k, 1, 2);
	ASSERT_NE(NULL, self->a);
	ASSERT_NE(NULL, self->b);
}

FIXTURE_TEARDOWN(unit_wait)
{
	l5_native_unmap(self->a);
	l5_native_unmap(self->b);
	l5_native_free(self->k);
}

/* A call that does as it is told, and counts */
struct call {
	struct l5_wait wait;
	ssize_t answer[3];	/* of attempts; the last one again and again */
	bool pays;		/* what looks say */
	bool signal;		/* one comes in each look */
	ssize_t rest;		/* what the kernel says */
	ssize_t why;		/* what it was told */
	unsigned int attempts, looks, rests;
	bool vain;
};

static ssize_t attempt(struct l5_wait *w)
{
	struct call *c = l5_call_of(w, struct call);
	unsigned int i = c->attempts++;

	return c->answer[i < 2 ? i : 2];
}

static bool look(struct l5_wait *w)
{
	struct call *c = l5_call_of(w, struct call);

	c->looks++;
	if (c->signal)
		l5_signal_came(false);
	return c->pays;
}

static ssize_t rest(struct l5_wait *w, ssize_t why)
{
	struct call *c = l5_call_of(w, struct call);

	c->rests++;
	c->why = why;
	c->vain = w->vain;
	/* twice in the kernel are enough */
	return c->rests == 2 ? 99 : c->rest;
}

static ssize_t run(struct call *c)
{
	l5_wait_begin(&c->wait);
	return l5_wait_loop(&c->wait, attempt, look, rest);
}

PLAIN_FIXTURE(unit_wait_alone)

/* What is there at once takes neither a look nor the kernel. */
TEST_F(unit_wait_alone, at_once)
{
	const ssize_t answers[] = { 1, 4096, 0, -1 };
	unsigned int i;

	for (i = 0; i < 4; i++) {
		struct call c = { .answer = { answers[i], 7, 7 } };

		EXPECT_EQ(answers[i], run(&c));
		EXPECT_EQ(1, c.attempts);
		EXPECT_EQ(0, c.looks + c.rests);
	}
}

TEST_F(unit_wait_alone, look_pays)
{
	struct call c = {
		.answer = { L5_TRY_AGAIN, L5_TRY_AGAIN, 5 }, .pays = true,
	};

	EXPECT_EQ(5, run(&c));
	EXPECT_EQ(3, c.attempts);
	EXPECT_EQ(2, c.looks);
	EXPECT_EQ(0, c.rests);
}

/* The kernel hears why, and if there is something to learn from its sleep. */
TEST_F(unit_wait_alone, kernel_next)
{
	const ssize_t whys[] = { L5_TRY_ASK, L5_TRY_BUSY, L5_TRY_NESTED,
				 L5_TRY_BROKEN };
	struct call c = { .answer = { L5_TRY_AGAIN, 5, 5 }, .rest = 3 };
	unsigned int i;

	EXPECT_EQ(3, run(&c));
	EXPECT_EQ(1, c.looks);
	EXPECT_EQ(L5_TRY_AGAIN, c.why);
	EXPECT_TRUE(c.vain);
	/* what only it can say is not worth a look */
	for (i = 0; i < 4; i++) {
		struct call d = { .answer = { whys[i] }, .rest = -1,
				  .pays = true };

		EXPECT_EQ(-1, run(&d));
		EXPECT_EQ(0, d.looks);
		EXPECT_EQ(whys[i], d.why);
		EXPECT_FALSE(d.vain);
	}
}

/* A sleep that only was one leads to another attempt. */
TEST_F(unit_wait_alone, goes_on)
{
	struct call c = {
		.answer = { L5_TRY_AGAIN, 5, 5 }, .rest = L5_TRY_AGAIN,
	};
	struct call d = {
		.answer = { L5_TRY_AGAIN, L5_TRY_AGAIN, L5_TRY_AGAIN },
		.rest = L5_TRY_AGAIN,
	};

	EXPECT_EQ(5, run(&c));
	EXPECT_EQ(1, c.rests);
	EXPECT_EQ(99, run(&d));
	EXPECT_EQ(2, d.attempts);
}

/* Cursors that lie do not keep a call from the kernel. */
TEST_F(unit_wait_alone, bounded)
{
	struct call c = {
		.answer = { L5_TRY_AGAIN, L5_TRY_AGAIN, L5_TRY_AGAIN },
		.pays = true, .rest = 3,
	};

	EXPECT_EQ(3, run(&c));
	EXPECT_EQ(L5_FRUITLESS, c.looks);
	EXPECT_EQ(L5_FRUITLESS, c.attempts);
	EXPECT_FALSE(c.vain);
}

static ssize_t attempt_nowait(struct l5_wait *w)
{
	w->dontwait = true;
	return attempt(w);
}

TEST_F(unit_wait_alone, dontwait)
{
	struct call c = { .answer = { L5_TRY_AGAIN }, .pays = true,
			  .rest = 3 };

	l5_wait_begin(&c.wait);
	EXPECT_EQ(3, l5_wait_loop(&c.wait, attempt_nowait, look, rest));
	EXPECT_EQ(0, c.looks);
	EXPECT_EQ(1, c.rests);
	EXPECT_FALSE(c.vain);
}

/* A signal ends a look; it is there for the rest to see. */
TEST_F(unit_wait_alone, signals)
{
	struct call c = { .answer = { L5_TRY_AGAIN }, .signal = true,
			  .rest = 3 };

	EXPECT_EQ(3, run(&c));
	EXPECT_FALSE(l5_wait_quiet(&c.wait));
	EXPECT_EQ(1, c.looks);
	/* one that came before the call is not its own */
	l5_wait_begin(&c.wait);
	EXPECT_TRUE(l5_wait_quiet(&c.wait));
}

static int looked;

/* Nothing is there until the signal has come, and then there is. */
static bool with_signal(const void *arg)
{
	const bool *there = arg;

	if (++looked == 100)
		l5_signal_came(true);
	return looked > 100 && *there;
}

static bool long_wait(const bool *there, int spin_us, int yields)
{
	struct l5_adapt a;
	uint64_t start, seen = l5_signals;

	looked = 0;
	l5_adapt_init(&a);
	l5_adapt_set(&a, spin_us, yields);
	a.win = L5_SPIN_MOST;
	a.polls = 10;
	return l5_adapt_wait(&a, with_signal, there, &start, seen);
}

/* What is there comes before a signal, a signal before the end of a wait. */
TEST_F(unit_wait_alone, what_is_there_first)
{
	const bool yes = true, no = false;
	uint64_t start;

	ASSERT_EQ(0, l5_map_live());
	start = l5_map_now();
	EXPECT_TRUE(long_wait(&yes, 1000000, -1));
	EXPECT_FALSE(long_wait(&no, 1000000, -1));
	EXPECT_TRUE(long_wait(&yes, 1000000, 1000));
	EXPECT_FALSE(long_wait(&no, 1000000, 1000));
	/* and not a second later, each */
	EXPECT_GT(1000000000, l5_map_now() - start);
}

/* One signal that came before the wait: there is one look, and no more. */
TEST_F(unit_wait_alone, signal_before_wait)
{
	const bool yes = true;
	uint64_t start, seen = l5_signals;
	struct l5_adapt a;

	ASSERT_EQ(0, l5_map_live());
	l5_signal_came(false);
	l5_adapt_init(&a);
	l5_adapt_set(&a, 1000000, -1);
	a.polls = 0;
	looked = 100;
	EXPECT_TRUE(l5_adapt_wait(&a, with_signal, &yes, &start, seen));
	EXPECT_EQ(101, looked);
}

static unsigned int both(const struct l5_map *m)
{
	return l5_map_ready(m, L5_READY_IN | L5_READY_OUT);
}

/* The rings say what there is, and only what was asked for. */
TEST_F(unit_wait, ready)
{
	static char buf[RING];
	int i;

	EXPECT_EQ(L5_READY_OUT, both(self->a));
	EXPECT_EQ(0, l5_map_ready(self->a, L5_READY_IN));
	EXPECT_EQ(0, l5_map_ready(self->a, 0));
	ASSERT_EQ(8, l5_map_send1(self->a, -1, buf, 8));
	EXPECT_EQ(L5_READY_OUT | L5_READY_IN, both(self->b));
	EXPECT_EQ(L5_READY_IN, l5_map_ready(self->b, L5_READY_IN));
	EXPECT_EQ(L5_READY_OUT, l5_map_ready(self->b, L5_READY_OUT));
	EXPECT_TRUE(l5_map_rx_ready(self->b));
	EXPECT_FALSE(l5_map_rx_ready(self->a));
	/* not by a record at a time, but by half a ring */
	for (i = 0; both(self->a) & L5_READY_OUT; i++)
		ASSERT_EQ(2040, l5_map_send1(self->a, -1, buf, 2040));
	EXPECT_EQ(RING / 2 / 2048, i);
	EXPECT_FALSE(l5_map_tx_ready(self->a));
	ASSERT_EQ(8, l5_map_recv1(self->b, -1, buf, 8));
	EXPECT_EQ(L5_READY_OUT, both(self->a));
	EXPECT_TRUE(l5_map_tx_ready(self->a));
}

/* What the kernel has to say is about a direction, or at the end about both. */
TEST_F(unit_wait, ready_ask)
{
	static char buf[RING];

	while (both(self->a) & L5_READY_OUT)
		ASSERT_EQ(2040, l5_map_send1(self->a, -1, buf, 2040));
	EXPECT_EQ(0, both(self->a));
	l5_native_flag(self->k, 0, L5_MAP_RX_ASK);
	EXPECT_EQ(L5_READY_ASK_IN, both(self->a));
	EXPECT_TRUE(l5_map_rx_ready(self->a));
	EXPECT_FALSE(l5_map_tx_ready(self->a));
	/* a send is for the kernel to refuse, so there is no wait for room */
	l5_native_flag(self->k, 0, L5_MAP_TX_ASK);
	EXPECT_EQ(L5_READY_ASK | L5_READY_OUT, both(self->a));
	EXPECT_EQ(L5_READY_ASK, l5_map_ready(self->a, 0));
	EXPECT_TRUE(l5_map_tx_ready(self->a));
	/* bytes that came before the end come before it */
	l5_native_flag(self->k, 1, L5_MAP_RX_ASK);
	EXPECT_EQ(L5_READY_IN | L5_READY_ASK_IN,
		  l5_map_ready(self->b, L5_READY_IN));
	l5_native_flag(self->k, 1, L5_MAP_GONE);
	EXPECT_EQ(L5_READY_ASK, l5_map_ready(self->b, 0));
}

TEST_HARNESS_MAIN
