// SPDX-License-Identifier: GPL-2.0
/*
 * How long to wait without sleep: see adapt.h.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/syscall.h>

#include "adapt.h"

/*
 * A round of looks or a yield takes longer than this, ns, on any machine: so
 * that counting ends a wait only where the clock does not.
 */
#define L5_ROUND_NS	32u
/* Try again every so often what did not pay. A power of two. */
#define L5_TURNS	16u
/*
 * The first looks, before the first yield, take about this long, ns. Emulated,
 * a round trip alone is 2000.
 */
#define L5_POLLS_NS	10000u
#define L5_POLLS_MAX	4096u
/* A sleep costs as much as about so many yields that find nothing to run. */
#define L5_SLEEP_YIELDS	16u

__thread uint64_t l5_signals
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

__thread struct l5_budget l5_looks
	__attribute__((tls_model("initial-exec"), visibility("hidden"))) = {
	.left = L5_BUDGET_MOST
};

uint32_t l5_map_polls;
uint32_t l5_map_hush;

static struct {
	int spin_us;
	int yields;
	int alone;		/* on the one CPU that we may use */
	uint32_t budget;	/* percent of each thread's time */
} l5_adapt_env = { .spin_us = -1, .yields = -1, .budget = L5_CPU_BUDGET };

/* What a yield that finds nothing to run takes here, ns; 0: not known yet */
static uint32_t l5_yield_ns;

static int l5_env_int(const char *name)
{
	const char *s = secure_getenv(name);
	char *end;
	long v;

	if (!s || !*s)
		return -1;
	v = strtol(s, &end, 10);
	return *end || v < 0 ? -1 : v > 1000000 ? 1000000 : (int)v;
}

/*
 * How many looks are L5_POLLS_NS: a pause takes from ten cycles to thousands,
 * in a virtual machine. With a single CPU no look is worth it: while we look no
 * other thread can run. If there are other CPUs that we may not use, the peer
 * may be on ours or not: then begin without looks, and find out (L5_TURNS).
 */
void l5_adapt_calibrate(void)
{
	cpu_set_t cpus;
	int percent, i;
	uint64_t t;

	l5_clock_find();
	l5_adapt_env.spin_us = l5_env_int("L5_SPIN_US");
	l5_adapt_env.yields = l5_env_int("L5_YIELDS");
	percent = l5_env_int("L5_CPU_BUDGET");
	if (percent >= 0)
		l5_adapt_env.budget = percent;
	CPU_ZERO(&cpus);
	if (!sched_getaffinity(0, sizeof(cpus), &cpus))
		l5_adapt_env.alone = CPU_COUNT(&cpus) == 1;
	if (l5_adapt_env.alone && sysconf(_SC_NPROCESSORS_ONLN) == 1)
		return;
	t = l5_map_now();
	for (i = 0; i < 128; i++)
		l5_pause();
	t = l5_since(l5_map_now(), t) / 128 + 1;
	l5_map_polls = L5_POLLS_NS / t;
	if (l5_map_polls < 4)
		l5_map_polls = 4;
	if (l5_map_polls > L5_POLLS_MAX)
		l5_map_polls = L5_POLLS_MAX;
}

void l5_adapt_init(struct l5_adapt *a)
{
	memset(a, 0, sizeof(*a));
	a->polls = l5_adapt_env.alone ? 0 : l5_map_polls;
	l5_adapt_set(a, l5_adapt_env.spin_us, l5_adapt_env.yields);
}

void l5_adapt_set(struct l5_adapt *a, int spin_us, int yields)
{
	l5_store(&a->spin_us, spin_us);
	l5_store(&a->yields, yields);
	/* told to wait, it does so from the start; else it learns that */
	l5_store(&a->win, spin_us > 0 || (!spin_us && yields > 0));
}

/* What a sleep costs, ns. */
static uint64_t l5_sleep_cost(void)
{
	uint64_t ns = (uint64_t)L5_SLEEP_YIELDS * l5_load(&l5_yield_ns);

	return ns < L5_SLEEP_LEAST ? L5_SLEEP_LEAST :
	       ns > L5_SPIN_MOST ? L5_SPIN_MOST : ns;
}

/*
 * A yield and a look took so long. Often others run in it, so the shortest ones
 * count; but it becomes longer when the CPU becomes slower.
 */
static void l5_yielded(uint64_t ns)
{
	uint32_t was = l5_load(&l5_yield_ns);

	if (!was || ns < was)
		l5_store(&l5_yield_ns, ns < L5_SPIN_MOST ? ns : L5_SPIN_MOST);
	else if (ns - was >= 64 && ns < 2 * was)
		l5_store(&l5_yield_ns, was + (ns - was) / 64);
}

/*
 * Learn from a wait that took so long. A wait that is longer than the most that
 * is ever waited by what a sleep costs counts as short: without the sleep it
 * would have been.
 */
static void l5_adapt_learn(struct l5_adapt *a, uint64_t waited)
{
	uint32_t win = l5_load(&a->win), now;

	if (l5_load(&a->spin_us) >= 0)
		return;
	now = l5_spin_learn(win, waited, L5_SPIN_MOST + l5_sleep_cost(),
			    L5_SPIN_MOST);
	if (now != win)
		l5_store(&a->win, now);
}

static bool l5_spin_for(bool (*ready)(const void *arg), const void *arg,
			uint64_t start, uint64_t ns, uint64_t seen)
{
	uint64_t rounds = ns / L5_ROUND_NS;
	int i;

	do {
		for (i = 0; i < 32; i++) {
			if (ready(arg))
				return true;
			l5_pause();
		}
	} while (l5_no_signal(seen) && !l5_load(&l5_map_hush) &&
		 l5_since(l5_map_now(), start) < ns && rounds--);
	return false;
}

/* What a thread has spent in a wait that adapts */
struct l5_spent {
	uint64_t from;		/* when it began */
	uint64_t last;		/* when the last look was */
	uint64_t looked;	/* ns of looking so far */
};

/* Others may have run in a yield: then it was no longer than others are. */
static void l5_spent_yield(struct l5_spent *s, uint64_t now)
{
	uint64_t ns = l5_since(now, s->last), most;

	l5_yielded(ns);
	most = 2 * l5_load(&l5_yield_ns);
	s->looked += ns < most ? ns : most;
	s->last = now;
}

/*
 * A look sees what another CPU did; a yield also lets a process run that shares
 * this CPU. If the peer shares it, the first looks only cost time and are made
 * rarely; every L5_TURNS waits all of them are made again, to see whether that
 * has changed.
 */
static bool l5_adapt_yield(struct l5_adapt *a, bool (*ready)(const void *arg),
			   const void *arg, uint32_t polls, uint64_t rounds,
			   uint64_t ns, uint64_t seen, struct l5_spent *s)
{
	while (rounds--) {
		if (l5_load(&l5_map_hush))
			return false;
		syscall(SYS_sched_yield);
		l5_spent_yield(s, l5_map_now());
		if (ready(arg)) {
			l5_adapt_learn(a, l5_since(s->last, s->from));
			/* data that came this late was not worth looking for */
			if (l5_load(&a->spin_us) < 0)
				l5_store(&a->polls, polls / 2);
			return true;
		}
		if (l5_since(s->last, s->from) >= ns || !l5_no_signal(seen))
			break;
	}
	return false;
}

/* All looks of a rare turn: did they find anything? */
static bool l5_adapt_turn(struct l5_adapt *a, bool (*ready)(const void *arg),
			  const void *arg, uint32_t polls)
{
	for (; polls < l5_map_polls; polls++) {
		if (ready(arg)) {
			l5_store(&a->polls, l5_map_polls);
			return true;
		}
		l5_pause();
	}
	return false;
}

/* What pays, and can be paid for. */
static bool l5_adapt_pays(struct l5_adapt *a, bool (*ready)(const void *arg),
			  const void *arg, uint32_t polls, uint64_t from,
			  uint64_t ns, uint64_t seen)
{
	struct l5_spent s = { .from = from, .last = from };
	uint64_t sleep;
	bool found;

	/* one yield costs less than a sleep: for that nobody pays */
	if (l5_looks.left > 0 &&
	    l5_adapt_yield(a, ready, arg, polls, 1, ns, seen, &s))
		return true;
	sleep = l5_sleep_cost();
	if (polls)
		s.looked += polls * (uint64_t)L5_POLLS_NS / l5_map_polls;
	ns = l5_budget_ns(&l5_looks, from, l5_adapt_env.budget, sleep, ns);
	found = ns && l5_since(s.last, from) < ns && l5_no_signal(seen) &&
		l5_adapt_yield(a, ready, arg, polls, ns / L5_ROUND_NS + 1, ns,
			       seen, &s);
	/* nor can the first looks be paid for, which were in vain */
	if (!ns)
		l5_store(&a->polls, polls / 2);
	/* without a limit nothing is owed, or there would be no first looks */
	if (l5_adapt_env.budget < 100)
		l5_budget_spend(&l5_looks, s.looked, found ? sleep : 0);
	return found;
}

static bool l5_adapt_try(struct l5_adapt *a, bool (*ready)(const void *arg),
			 const void *arg, uint32_t polls, uint64_t *start,
			 uint64_t ns, uint64_t seen)
{
	uint32_t win = l5_load(&a->win), turn = l5_load(&a->turn) + 1;
	int yields = l5_load(&a->yields);
	int spin_us = l5_load(&a->spin_us);
	struct l5_spent s = { };
	uint64_t spin;

	*start = 0;
	if (l5_unlikely(l5_load(&l5_map_hush)))
		return false;
	l5_store(&a->turn, turn);
	s.from = l5_map_now();
	*start = s.from;
	if (!win || !l5_no_signal(seen))
		return false;
	if (spin_us > 0) {
		spin = l5_spin_ns(spin_us, win, L5_SPIN_MOST);
		if (l5_spin_for(ready, arg, s.from, spin < ns ? spin : ns,
				seen))
			return true;
		if (spin >= ns || !l5_no_signal(seen))
			return false;
	} else if (spin_us < 0 && polls < l5_map_polls &&
		   !(turn & (L5_TURNS - 1))) {
		if (l5_adapt_turn(a, ready, arg, polls))
			return true;
		polls = l5_map_polls;
	}
	/* told to spin only */
	if (spin_us >= 0 && yields < 0)
		return false;
	if (yields < 0)
		return l5_adapt_pays(a, ready, arg, polls, s.from,
				     ns < win ? ns : win, seen);
	s.last = spin_us > 0 ? l5_map_now() : s.from;
	return l5_adapt_yield(a, ready, arg, polls, yields, ns, seen, &s);
}

bool l5_adapt_slow_for(struct l5_adapt *a, bool (*ready)(const void *arg),
		       const void *arg, uint32_t polls, uint64_t *start,
		       uint64_t ns, uint64_t seen)
{
	if (l5_adapt_try(a, ready, arg, polls, start, ns, seen))
		return true;
	/* what is there comes before the signal that ended the looks */
	return l5_unlikely(!l5_no_signal(seen)) && ready(arg);
}

bool l5_adapt_slow(struct l5_adapt *a, bool (*ready)(const void *arg),
		   const void *arg, uint32_t polls, uint64_t *start,
		   uint64_t seen)
{
	return l5_adapt_slow_for(a, ready, arg, polls, start, UINT64_MAX, seen);
}

void l5_adapt_woke(struct l5_adapt *a, uint64_t start)
{
	uint64_t waited = l5_since(l5_map_now(), start);

	l5_adapt_learn(a, waited);
	/* a wait that is worth anything begins with a look */
	if (waited > L5_SPIN_MOST)
		l5_store(&a->polls, l5_map_polls);
}
