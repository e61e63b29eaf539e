/* SPDX-License-Identifier: GPL-2.0 */
#ifndef FZ_STATS_H
#define FZ_STATS_H

#include "exec.h"

#define FZ_SUMS	64

/**
 * struct fz_sums - lines of /proc/net/l5_stat, of several namespaces
 * @name: of a line, empty behind the last one
 * @n: the sum of what they say
 */
struct fz_sums {
	struct fz_sum {
		char name[32];
		uint64_t n;
	} sum[FZ_SUMS];
};

/* A call ended with @ret after @ns, of which it had a CPU for @busy. */
void fz_count_call(struct fz_count *of, long ret, uint64_t ns, uint64_t busy);

/* Add the lines of this thread's network namespace */
void fz_sums_here(struct fz_sums *to);

void fz_sums_add(struct fz_sums *to, const struct fz_sums *from);

void fz_stats_print(const struct fz_log *log, unsigned int workers,
		    const struct fz_sums *sums);

#endif /* FZ_STATS_H */
