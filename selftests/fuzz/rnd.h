/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Numbers that only look like chance: splitmix64. The same seed gives the same
 * ones, on every machine.
 */
#ifndef FZ_RND_H
#define FZ_RND_H

#include <stdbool.h>
#include <stdint.h>

struct fz_rnd {
	uint64_t state;
};

static inline uint64_t fz_mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

static inline uint64_t fz_next(struct fz_rnd *r)
{
	r->state += 0x9e3779b97f4a7c15ULL;
	return fz_mix(r->state);
}

/* One of 0 to @n - 1; 0 if @n is 0 */
static inline uint32_t fz_below(struct fz_rnd *r, uint32_t n)
{
	return n ? (fz_next(r) >> 16) % n : 0;
}

/* True once in @n times */
static inline bool fz_once_in(struct fz_rnd *r, uint32_t n)
{
	return fz_below(r, n) == 0;
}

/* What a program's calls come from: of the run's seed and its number. */
static inline struct fz_rnd fz_rnd_of(uint64_t seed, uint64_t number)
{
	struct fz_rnd r = { .state = fz_mix(seed) ^ fz_mix(number * 2 + 1) };

	return r;
}

#endif /* FZ_RND_H */
