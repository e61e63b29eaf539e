/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How long to wait without sleep, and learning that: by looks, which find what
 * another CPU did, and by yields, which find also what a process did that
 * shares our CPU. The rules are those of uapi/l5_policy.h.
 */
#ifndef L5_ADAPT_H
#define L5_ADAPT_H

#include "base.h"
#include "clock.h"
#include "signals.h"

/**
 * struct l5_adapt - how long to wait before sleeping
 * @spin_us: spin so long, then yield; -1: as long as it pays
 * @yields: yield so often; -1: as long as it pays
 * @win: ns that waiting without sleep is worth at present
 * @polls: looks before the first yield at present
 * @turn: waits so far, to try now and then what did not pay before
 *
 * All are hints, and races between threads do no harm.
 */
struct l5_adapt {
	int spin_us;
	int yields;
	uint32_t win;
	uint32_t polls;
	uint32_t turn;
};

/* Not 0: come back soon, and make no calls for the sake of waiting. */
extern uint32_t l5_map_hush;

/* What this thread can afford. It looks no more when nothing is left. */
extern __thread struct l5_budget l5_looks
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/*
 * Looks that make up a few microseconds here, or pauses between them; none if
 * there is but one CPU.
 */
extern uint32_t l5_map_polls;

/**
 * l5_adapt_calibrate() - find out what waiting is like here
 *
 * That is, how long a look takes, and what the environment says. Once in a
 * process, before any wait.
 */
void l5_adapt_calibrate(void);

/* As the environment says, or adaptive; after l5_adapt_calibrate(). */
void l5_adapt_init(struct l5_adapt *a);

/* As told. */
void l5_adapt_set(struct l5_adapt *a, int spin_us, int yields);

/* The part of l5_adapt_wait() after the first looks: yield, or spin as told. */
bool l5_adapt_slow(struct l5_adapt *a, bool (*ready)(const void *arg),
		   const void *arg, uint32_t polls, uint64_t *start,
		   uint64_t seen);

/* The same, for @ns at most. */
bool l5_adapt_slow_for(struct l5_adapt *a, bool (*ready)(const void *arg),
		       const void *arg, uint32_t polls, uint64_t *start,
		       uint64_t ns, uint64_t seen);

/* How many looks there are before the first yield; 0: none is worth it. */
static inline __attribute__((always_inline))
uint32_t l5_adapt_polls(const struct l5_adapt *a)
{
	return l5_likely(l5_load(&a->win) && l5_looks.left > 0) ?
	       l5_load(&a->polls) : 0;
}

/* The first looks: true if @ready; *@polls is how many they are. */
static inline __attribute__((always_inline))
bool l5_adapt_look(struct l5_adapt *a, bool (*ready)(const void *arg),
		   const void *arg, uint32_t *polls)
{
	uint32_t n = l5_adapt_polls(a), i;

	*polls = n;
	for (i = n; i; i--) {
		if (ready(arg))
			return true;
		l5_pause();
	}
	return false;
}

/**
 * l5_adapt_wait() - spin and yield for as long as that pays
 * @a: what is known about that
 * @ready: whether to go on
 * @arg: for @ready
 * @start: for l5_adapt_woke()
 * @seen: l5_signals when the call began: a change of it ends the wait
 *
 * What is there comes before a signal.
 *
 * Return: true if @ready, false if it is time to sleep. Then look once more,
 * sleep, and call l5_adapt_woke(); or see to the signal first.
 */
static inline __attribute__((always_inline))
bool l5_adapt_wait(struct l5_adapt *a, bool (*ready)(const void *arg),
		   const void *arg, uint64_t *start, uint64_t seen)
{
	uint32_t polls;

	if (l5_adapt_look(a, ready, arg, &polls))
		return true;
	return l5_adapt_slow(a, ready, arg, polls, start, seen);
}

/**
 * l5_adapt_wait_for() - l5_adapt_wait() in a call that has a time-out
 * @a: what is known about that
 * @ready: whether to go on
 * @arg: for @ready
 * @start: for l5_adapt_woke(), and to tell how much of the time is left; not
 *	set if @ready was true at one of the first looks
 * @ns: the time, UINT64_MAX without end; whatever it was told, it goes on for
 *	no longer
 * @seen: as of l5_adapt_wait()
 *
 * Return: as l5_adapt_wait().
 */
static inline __attribute__((always_inline))
bool l5_adapt_wait_for(struct l5_adapt *a, bool (*ready)(const void *arg),
		       const void *arg, uint64_t *start, uint64_t ns,
		       uint64_t seen)
{
	uint32_t polls;

	if (l5_adapt_look(a, ready, arg, &polls))
		return true;
	return l5_adapt_slow_for(a, ready, arg, polls, start, ns, seen);
}

/**
 * l5_adapt_woke() - learn from a wait that ended in a sleep
 * @a: what is known
 * @start: from l5_adapt_wait()
 */
void l5_adapt_woke(struct l5_adapt *a, uint64_t start);

#endif /* L5_ADAPT_H */
