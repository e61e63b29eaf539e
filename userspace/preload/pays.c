// SPDX-License-Identifier: GPL-2.0
/*
 * Does it pay to map a socket? See pays.h.
 *
 * To map one costs as much as hundreds of system calls save, so a connection
 * that soon ends is not to be mapped, and one that will last is to be mapped at
 * once. What the future brings is guessed from how long the connections of this
 * process have lasted that ended: if those that had come as far as this one
 * went on, on average, for longer than a mapping costs, it pays. Until enough
 * of them have ended, and for those that last longer than any before, a
 * connection is mapped once it has made so many calls that a mapping would have
 * paid for itself: whatever follows, that costs at most twice as much as the
 * better choice would have.
 *
 * Costs are measured here: what mappings took, and what a system call takes
 * that hardly does anything. They are guesses, as are the sums: threads may
 * overwrite what others note.
 */
#include <stdatomic.h>

#include "pays.h"

enum {
	SIDES = L5_SIDE_ACCEPTED + 1,
	LOGS = 32,		/* calls, by their logarithm */
	KNOWN = 4,		/* lives that say something of others */
	FULL = 256,		/* of a kind: then all lose half their weight */
	GUESS = 512,		/* calls that a mapping costs, until one has */
	CLOSING = 3,		/* halves of its cost, with the way back */
	SAVING = 3,		/* halves of an empty call that one saves */
	OUTLIER = 8,		/* times the guess: more was an interruption */
	FADE = 16,		/* a part of so many: the least is forgotten */
};

/**
 * struct lives - connections that have ended
 * @n: how many
 * @calls: of all of them
 */
struct lives {
	atomic_uint n;
	atomic_ullong calls;
};

static struct lives lives[SIDES][LOGS];
/* ns; 0: not measured yet */
static atomic_ullong map_ns, call_ns;

static uint64_t get(const atomic_ullong *v)
{
	return atomic_load_explicit(v, memory_order_relaxed);
}

static void set(atomic_ullong *v, uint64_t to)
{
	atomic_store_explicit(v, to, memory_order_relaxed);
}

static unsigned int log_of(uint64_t calls)
{
	unsigned int n = calls ? 63 - __builtin_clzll(calls) : 0;

	return n < LOGS ? n : LOGS - 1;
}

/* Calls that have to be saved until a mapping has paid for itself */
static uint64_t calls_to_pay(void)
{
	uint64_t map = get(&map_ns) * CLOSING, call = get(&call_ns) * SAVING;

	return map && call ? map / call : GUESS;
}

/*
 * What those that ended and had come as far would have saved, had they been
 * mapped here, less what they have saved by being mapped at @need calls, if
 * they got there. A few that went on for very long say no more than that.
 *
 * Return: calls, on average; 0: not known.
 */
static uint64_t calls_to_save(enum l5_side side, uint32_t calls, uint64_t need)
{
	uint64_t sum = 0, n = 0, k, mean;
	unsigned int i;

	for (i = log_of(calls); i < LOGS; i++) {
		k = atomic_load_explicit(&lives[side][i].n,
					 memory_order_relaxed);
		if (!k)
			continue;
		n += k;
		mean = get(&lives[side][i].calls) / k;
		if (mean <= calls)
			continue;
		/* and the mapping itself, which comes all the same */
		sum += k * (mean - calls < need ? mean - calls : 2 * need);
	}
	return n < KNOWN ? 0 : sum / n;
}

bool pays(enum l5_side side, uint32_t calls)
{
	uint64_t need = calls_to_pay();

	return calls >= need || calls_to_save(side, calls, need) >= need;
}

/* The new ones count for more. */
static void halve(struct lives *of)
{
	unsigned int i, n;

	for (i = 0; i < LOGS; i++) {
		n = atomic_load_explicit(&of[i].n, memory_order_relaxed) / 2;
		atomic_store_explicit(&of[i].n, n, memory_order_relaxed);
		set(&of[i].calls, n ? get(&of[i].calls) / 2 : 0);
	}
}

void pays_ended(enum l5_side side, uint64_t calls)
{
	struct lives *of = lives[side], *l = &of[log_of(calls)];

	if (atomic_fetch_add_explicit(&l->n, 1, memory_order_relaxed) >= FULL)
		halve(of);
	atomic_fetch_add_explicit(&l->calls, calls, memory_order_relaxed);
}

/*
 * What it takes as a rule is about the least that it took lately. Most that is
 * beyond that are other threads, and a CPU that was not to be had.
 */
static void learn(atomic_ullong *of, uint64_t ns)
{
	uint64_t old = get(of), least = old + old / FADE;

	set(of, old && least < ns ? least : ns);
}

void pays_mapped(uint64_t ns)
{
	uint64_t most = get(&call_ns) * SAVING / CLOSING * GUESS * OUTLIER;

	learn(&map_ns, most && ns > most ? most : ns);
}

void pays_asked(uint64_t ns)
{
	learn(&call_ns, ns);
}
