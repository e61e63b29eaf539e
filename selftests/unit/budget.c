// SPDX-License-Identifier: GPL-2.0
/*
 * What looking at a ring may cost a thread: messages that come every so often,
 * by a clock of the test's own, so that nothing depends on the machine.
 */
#include <time.h>

#include "kselftest_harness.h"
#include "adapt.h"

enum {
	LOOK_NS = 20,		/* a look, and the pause behind it */
	CLOCK_NS = 500,		/* asking for the time, and the yield before */
	WAKE_NS = 6000,		/* from a message to the end of a sleep */
	WORK_NS = 1000,		/* of the thread, between two waits */
};

static uint64_t now = 1000000000, due;

static int clock_of_test(clockid_t clock, struct timespec *t)
{
	(void)clock;
	now += CLOCK_NS;
	t->tv_sec = now / 1000000000;
	t->tv_nsec = now % 1000000000;
	return 0;
}

static bool came(const void *arg)
{
	(void)arg;
	now += LOOK_NS;
	return now >= due;
}

/* Percent of the time that went into looking, and of the waits that slept */
struct cost {
	unsigned int looked, slept;
};

/* A message comes @ns after the answer to the one before. */
static struct cost messages(struct l5_adapt *a, uint64_t ns)
{
	uint64_t looked = 0, began = 0, t, start;
	unsigned int slept = 0, i;

	for (i = 0; i < 4000; i++) {
		/* what is learnt at first does not count */
		if (i == 2000) {
			began = now;
			looked = 0;
			slept = 0;
		}
		now += WORK_NS;
		due = now + ns;
		t = now;
		if (l5_adapt_wait(a, came, NULL, &start, l5_signals)) {
			looked += now - t;
			continue;
		}
		looked += now - t;
		slept++;
		if (now < due)
			now = due;
		now += WAKE_NS;
		l5_adapt_woke(a, start);
	}
	return (struct cost){ 100 * looked / (now - began), slept / 20 };
}

/* With a budget of @percent, or the default; in a process of its own */
static void start(struct l5_adapt *a, const char *percent)
{
	unsetenv("L5_SPIN_US");
	unsetenv("L5_YIELDS");
	if (percent)
		setenv("L5_CPU_BUDGET", percent, 1);
	else
		unsetenv("L5_CPU_BUDGET");
	l5_adapt_calibrate();
	l5_clock_gettime = clock_of_test;
	/* as on a machine with more than one CPU */
	l5_map_polls = 256;
	l5_adapt_init(a);
	a->polls = l5_map_polls;
}

PLAIN_FIXTURE(unit_budget)

/*
 * A message each time that is worth looking for, but not within the cost of a
 * sleep: some are looked for, and the thread pays no more than it may.
 */
TEST_F(unit_budget, share)
{
	static const uint64_t ns[] = { 30000, 60000, 100000, 150000, 190000 };
	struct l5_adapt a;
	struct cost c;
	unsigned int i;

	start(&a, NULL);
	for (i = 0; i < sizeof(ns) / sizeof(*ns); i++) {
		c = messages(&a, ns[i]);
		/* and a sleep's worth of each look that was not in vain */
		EXPECT_GE(L5_CPU_BUDGET + 100 * 10000 / ns[i] / 2 + 2, c.looked)
			TH_LOG("%lu", ns[i]);
		EXPECT_LE(3, c.looked) TH_LOG("%lu", ns[i]);
		EXPECT_LE(50, c.slept) TH_LOG("%lu", ns[i]);
		EXPECT_GT(99, c.slept) TH_LOG("%lu", ns[i]);
	}
}

/* What comes within the cost of a sleep is looked for each time. */
TEST_F(unit_budget, cheap)
{
	struct l5_adapt a;

	start(&a, NULL);
	EXPECT_EQ(0, messages(&a, 300).slept);
	EXPECT_EQ(0, messages(&a, 4000).slept);
	EXPECT_EQ(0, messages(&a, 9000).slept);
	start(&a, "0");
	EXPECT_EQ(0, messages(&a, 4000).slept);
}

/* What comes later than any look lasts is not looked for: nothing is won. */
TEST_F(unit_budget, vain)
{
	static const uint64_t ns[] = { 230000, 300000, 390000, 1000000 };
	struct l5_adapt a;
	struct cost c;
	unsigned int i;

	start(&a, "100");
	for (i = 0; i < sizeof(ns) / sizeof(*ns); i++) {
		/* although it was worth it until now */
		EXPECT_EQ(0, messages(&a, 50000).slept);
		c = messages(&a, ns[i]);
		EXPECT_EQ(100, c.slept) TH_LOG("%lu", ns[i]);
		EXPECT_GE(1, c.looked) TH_LOG("%lu", ns[i]);
	}
}

/* All of the time, if somebody says so */
TEST_F(unit_budget, all)
{
	struct l5_adapt a;

	start(&a, "100");
	EXPECT_EQ(0, messages(&a, 150000).slept);
	/* nor is anything owed, for which first looks would be left out */
	EXPECT_LT(0, l5_looks.left);
	start(&a, "101");
	EXPECT_EQ(0, messages(&a, 150000).slept);
	EXPECT_LT(0, l5_looks.left);
}

/* Or none that a sleep would not have cost as well */
TEST_F(unit_budget, none)
{
	struct l5_adapt a;
	struct cost c;

	start(&a, "0");
	c = messages(&a, 150000);
	EXPECT_EQ(0, c.looked);
	EXPECT_EQ(100, c.slept);
}

/* A connection that was told how long to look is not the budget's. */
TEST_F(unit_budget, told)
{
	struct l5_adapt a;

	start(&a, "0");
	l5_adapt_set(&a, 500, -1);
	EXPECT_EQ(0, messages(&a, 150000).slept);
	l5_adapt_set(&a, 0, 100000);
	EXPECT_EQ(0, messages(&a, 150000).slept);
}

/* One budget for all that the thread waits for */
TEST_F(unit_budget, shared)
{
	uint64_t looked = 0, began, t, s;
	struct l5_adapt a[8];
	unsigned int i;

	start(&a[0], NULL);
	for (i = 1; i < 8; i++)
		a[i] = a[0];
	for (i = 0; i < 8; i++)
		messages(&a[i], 100000);
	began = now;
	for (i = 0; i < 8000; i++) {
		now += WORK_NS;
		due = now + 100000;
		t = now;
		if (!l5_adapt_wait(&a[i % 8], came, NULL, &s, l5_signals)) {
			looked += now - t;
			if (now < due)
				now = due;
			now += WAKE_NS;
			l5_adapt_woke(&a[i % 8], s);
		} else {
			looked += now - t;
		}
	}
	EXPECT_GE(L5_CPU_BUDGET + 5 + 2, 100 * looked / (now - began));
	EXPECT_LE(3, 100 * looked / (now - began));
}

TEST_HARNESS_MAIN
