// SPDX-License-Identifier: GPL-2.0
/*
 * The shortest part of a program that is still found bad. It takes a machine
 * that goes on after what is found: after a hang, something that is left, a
 * complaint of the kernel. For a machine that goes down, take lines out by
 * hand.
 */
#include <string.h>

#include "watch.h"

static bool bad(struct fz_plan *plan, const struct fz_prog *p)
{
	plan->one = p;
	return fz_run(plan);
}

static void without(struct fz_prog *to, const struct fz_prog *from, uint32_t at,
		    uint32_t n)
{
	*to = *from;
	memmove(&to->call[at], &to->call[at + n],
		(to->n - at - n) * sizeof(to->call[0]));
	to->n -= n;
}

int fz_minimise(struct fz_plan *plan)
{
	struct fz_prog p = *plan->one, q;
	uint32_t step, at;

	plan->brief = true;
	plan->workers = 1;
	if (!bad(plan, &p)) {
		printf("# it is not bad now\n");
		return 0;
	}
	for (step = p.n / 2; step; step /= 2)
		for (at = p.n; at >= step; ) {
			at -= step;
			without(&q, &p, at, step);
			if (q.n && bad(plan, &q))
				p = q;
			if (at > p.n)
				at = p.n;
		}
	printf("# what is left of it:\n");
	fz_print(stdout, "# ", &p, NULL);
	return 1;
}
