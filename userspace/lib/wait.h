/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Waiting for mapped ends: the one loop of every call that may have to.
 *
 * A call tries, looks for as long as that pays, and then sleeps in the kernel.
 * What differs from call to call are three functions: what it tries, what it
 * looks at, and how it sleeps. They are compiled into the loop, so a call that
 * finds what it wants at once makes no indirect one.
 */
#ifndef L5_WAIT_H
#define L5_WAIT_H

#include <stddef.h>
#include <sys/types.h>

#include "adapt.h"
#include "mapped.h"
#include "ready.h"

/*
 * So often in a row a call believes that a ring is ready and finds that it is
 * not, before it makes the system call. Threads that share the end are faster
 * now and then; a process that forges the cursors can be faster for ever.
 */
#define L5_FRUITLESS	16

/**
 * struct l5_wait - a call that may have to wait
 * @seen: l5_signals when it began
 * @start: when the last look began; 0: it was over before it asked for the time
 * @fruitless: how often in a row a look was for nothing; what moves bytes sets
 *	it back to 0
 * @dontwait: the call is not to wait: it is the kernel's turn
 * @vain: nothing came while it looked, so there is something to learn from the
 *	sleep that follows
 */
struct l5_wait {
	uint64_t seen;
	uint64_t start;
	unsigned int fruitless;
	bool dontwait;
	bool vain;
};

/* The call that a struct l5_wait is the member "wait" of. */
#define l5_call_of(w, type)						\
	((type *)(void *)((char *)(w) - offsetof(type, wait)))

/* The start of a call; @start is only good after a look. */
static inline __attribute__((always_inline))
void l5_wait_begin(struct l5_wait *w)
{
	w->seen = l5_signals;
	w->start = 0;
	w->fruitless = 0;
	w->dontwait = false;
	w->vain = false;
}

/* Has no signal come since the call began? */
static inline bool l5_wait_quiet(const struct l5_wait *w)
{
	return l5_no_signal(w->seen);
}

/**
 * l5_wait_loop() - try, look, sleep, until there is an answer
 * @w: the call
 * @attempt: do what can be done at once: the answer, which is at least -1, or
 *	an L5_TRY_*: L5_TRY_AGAIN is worth a look, unless the call is not to
 *	wait; with any other it is the kernel's turn
 * @look: look without sleeping, by l5_adapt_wait() or what is built of it: true
 *	if it is worth trying again. It is bounded, and a signal ends it, but
 *	what is there comes before a signal.
 * @rest: sleep, or do by system call what the call is about; gets what @attempt
 *	returned. Signals and time-outs are its to see to: L5_TRY_AGAIN is to go
 *	on, all else is the answer.
 *
 * Return: the answer.
 */
static inline __attribute__((always_inline))
ssize_t l5_wait_loop(struct l5_wait *w, ssize_t (*attempt)(struct l5_wait *w),
		     bool (*look)(struct l5_wait *w),
		     ssize_t (*rest)(struct l5_wait *w, ssize_t why))
{
	ssize_t n;

	for (;;) {
		n = attempt(w);
		if (l5_likely(n >= -1))
			return n;
		w->vain = false;
		if (n == L5_TRY_AGAIN && !w->dontwait) {
			w->vain = !look(w);
			if (!w->vain && ++w->fruitless < L5_FRUITLESS)
				continue;
		}
		n = rest(w, n);
		if (n != L5_TRY_AGAIN)
			return n;
	}
}

/* A look at the header of the next record alone */
static inline __attribute__((always_inline))
bool l5_map_rx_peep(const void *slot)
{
	if (l5_map_glance(slot))
		return true;
	/* a longer message is there with its first line */
	__builtin_prefetch((const uint8_t *)slot + L5_LINE);
	return false;
}

/**
 * l5_map_wait_rx() - wait for data without sleeping
 * @m: the end
 * @start: for l5_map_woke_rx()
 * @seen: as of l5_adapt_wait()
 *
 * A peer that answers is waited for eagerly. A reader of a stream has caught up
 * with the writer, and would only pull the line that is being written from
 * under its hands for every message: it looks away for a moment first.
 *
 * Return: true if it is worth trying again, false if it is time to sleep in
 * the kernel.
 */
static inline bool l5_map_wait_rx(struct l5_map *m, uint64_t *start,
				  uint64_t seen)
{
	uint64_t tail = l5_load(&m->own->tx_tail);
	struct l5_adapt *a = &m->rx_adapt;
	uint32_t polls, i;

	if (l5_likely(l5_adapt_polls(a))) {
		if (tail != l5_load(&m->asked))
			l5_store(&m->asked, tail);
		else
			for (i = l5_map_polls / 4; i; i--)
				l5_pause();
	}
	/* other threads may read on; then this is only time lost */
	if (l5_adapt_look(a, l5_map_rx_peep,
			  l5_map_rx_slot(m, l5_load(&m->own->rx_head)),
			  &polls))
		return true;
	return l5_adapt_slow(a, l5_map_rx_ready, m, polls, start, seen);
}

/**
 * l5_map_wait_tx() - wait for room without sleeping
 * @m: the end
 * @start: for l5_map_woke_tx()
 * @seen: as of l5_adapt_wait()
 *
 * Return: as l5_map_wait_rx().
 */
static inline bool l5_map_wait_tx(struct l5_map *m, uint64_t *start,
				  uint64_t seen)
{
	return l5_adapt_wait(&m->tx_adapt, l5_map_tx_ready, m, start, seen);
}

/* After the sleep that followed a false of the above. */
static inline void l5_map_woke_rx(struct l5_map *m, uint64_t start)
{
	l5_adapt_woke(&m->rx_adapt, start);
}

static inline void l5_map_woke_tx(struct l5_map *m, uint64_t start)
{
	l5_adapt_woke(&m->tx_adapt, start);
}

#endif /* L5_WAIT_H */
