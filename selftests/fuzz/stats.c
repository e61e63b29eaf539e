// SPDX-License-Identifier: GPL-2.0
/*
 * What a run was made of: how often each kind of call was made, succeeded and
 * how long it took, and what the module counted meanwhile. For people who want
 * to know whether the grammar is any good.
 */
#include <inttypes.h>
#include <string.h>

#include "stats.h"

void fz_count_call(struct fz_count *of, long ret, uint64_t ns, uint64_t busy)
{
	uint32_t err = ret < 0 ? -ret : 0;

	__atomic_add_fetch(&of->made, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&of->ns, ns, __ATOMIC_RELAXED);
	/* two lanes may both have the most: it is for people to look at */
	if (busy > of->busy_ns)
		of->busy_ns = busy;
	if (err < FZ_ERRORS)
		__atomic_add_fetch(&of->err[err], 1, __ATOMIC_RELAXED);
}

/* Names stay in the order in which they first came. */
static void add(struct fz_sums *to, const char *name, uint64_t n)
{
	struct fz_sum *s = to->sum;
	unsigned int i;

	for (i = 0; i < FZ_SUMS && s[i].name[0]; i++)
		if (!strcmp(s[i].name, name))
			break;
	if (i == FZ_SUMS)
		return;
	strncpy(s[i].name, name, sizeof(s[i].name) - 1);
	s[i].n += n;
}

void fz_sums_here(struct fz_sums *to)
{
	FILE *f = fopen("/proc/net/l5_stat", "re");
	uint64_t n;
	char name[64];

	if (!f)
		return;
	while (fscanf(f, "%63s %" SCNu64, name, &n) == 2)
		add(to, name, n);
	fclose(f);
}

void fz_sums_add(struct fz_sums *to, const struct fz_sums *from)
{
	unsigned int i;

	for (i = 0; i < FZ_SUMS && from->sum[i].name[0]; i++)
		add(to, from->sum[i].name, from->sum[i].n);
}

static void add_count(struct fz_count *to, const struct fz_count *from)
{
	unsigned int i;

	to->made += from->made;
	to->ns += from->ns;
	if (from->busy_ns > to->busy_ns)
		to->busy_ns = from->busy_ns;
	for (i = 0; i < FZ_ERRORS; i++)
		to->err[i] += from->err[i];
}

/* The errors that came most, the most frequent first */
static void print_errors(struct fz_count *c)
{
	unsigned int i, k, most;

	for (k = 0; k < 4; k++) {
		for (i = most = 1; i < FZ_ERRORS; i++)
			if (c->err[i] > c->err[most])
				most = i;
		if (!c->err[most])
			break;
		printf(" %s %u", strerrorname_np(most) ?: "?", c->err[most]);
		c->err[most] = 0;
	}
	putchar('\n');
}

void fz_stats_print(const struct fz_log *log, unsigned int workers,
		    const struct fz_sums *sums)
{
	struct fz_count c;
	unsigned int op, w;

	printf("# %-12s %9s %5s %9s %9s  errors\n", "call", "made",
	       "ok %", "us each", "busy us");
	for (op = 0; op < FZ_OP_COUNT; op++) {
		memset(&c, 0, sizeof(c));
		for (w = 0; w < workers; w++)
			add_count(&c, &log[w].count[op]);
		if (!c.made)
			continue;
		printf("# %-12s %9" PRIu64 " %5" PRIu64 " %9" PRIu64
		       " %9" PRIu64 " ", fz_op_name[op], c.made,
		       100 * c.err[0] / c.made, c.ns / c.made / 1000,
		       c.busy_ns / 1000);
		print_errors(&c);
	}
	for (w = 0; w < FZ_SUMS && sums->sum[w].name[0]; w++)
		if (sums->sum[w].n)
			printf("# %s %" PRIu64 "\n", sums->sum[w].name,
			       sums->sum[w].n);
}
