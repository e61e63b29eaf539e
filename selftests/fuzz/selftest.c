// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of the generator, which makes no call: the same seed makes the same
 * programs, and a program that is printed and read again is the same.
 */
#include <string.h>

#include "call.h"

int fz_selftest(void);

#define PROGRAMS	3000

static int number;
static bool failed;

static void report(const char *name, bool ok)
{
	printf("%s %d fuzz.%s\n", ok ? "ok" : "not ok", ++number, name);
	failed = failed || !ok;
}

static uint64_t hash_of(uint64_t seed, bool lanes)
{
	struct fz_prog p;
	uint64_t h = 0;
	int i;

	for (i = 0; i < PROGRAMS; i++) {
		fz_gen(&p, seed, i, lanes);
		h = fz_hash(h, &p);
	}
	return h;
}

static uint64_t hash_of_changes(uint64_t seed)
{
	struct fz_prog p, from, other;
	uint64_t h = 0;
	int i;

	for (i = 0; i < PROGRAMS; i++) {
		fz_gen(&from, seed, i, true);
		fz_gen(&other, seed, i + 1, true);
		fz_mutate(&p, &from, &other, seed, PROGRAMS + i, true);
		h = fz_hash(h, &p);
	}
	return h;
}

static bool sound(const struct fz_prog *p, bool lanes)
{
	uint32_t i;

	if (!p->n || p->n > FZ_CALLS)
		return false;
	for (i = 0; i < p->n; i++) {
		const struct fz_call *c = &p->call[i];

		if (c->op >= FZ_OP_COUNT || c->lane >= FZ_LANES ||
		    c->s >= FZ_SLOTS || c->t >= FZ_SLOTS)
			return false;
		if (!lanes && (c->lane || c->op == FZ_SPAWN ||
			       c->op == FZ_SCRIBBLE))
			return false;
	}
	return true;
}

static bool all_sound(void)
{
	struct fz_prog p, q, r;
	int i;

	for (i = 0; i < PROGRAMS; i++) {
		bool lanes = i & 1;

		fz_gen(&p, 7, i, lanes);
		fz_gen(&q, 8, i, lanes);
		fz_mutate(&r, &p, &q, 7, i, lanes);
		if (!sound(&p, lanes) || !sound(&r, lanes))
			return false;
		/* changes of changes */
		fz_mutate(&q, &r, &p, 9, i, lanes);
		if (!sound(&q, lanes))
			return false;
	}
	return true;
}

/* Each call has its turn; a call without a rule would have none. */
static bool all_there(void)
{
	unsigned int seen[FZ_OP_COUNT] = { 0 };
	struct fz_prog p;
	uint32_t i, k;
	bool ok = true;

	for (i = 0; i < PROGRAMS; i++) {
		fz_gen(&p, 1, i, true);
		for (k = 0; k < p.n; k++)
			seen[p.call[k].op]++;
	}
	for (k = 0; k < FZ_OP_COUNT; k++)
		if (seen[k] < 20) {
			printf("# %s: %u times\n", fz_op_name[k], seen[k]);
			ok = false;
		}
	return ok;
}

static bool reads_what_it_prints(const char *before)
{
	struct fz_prog p, q;
	bool ok = true;
	FILE *f;
	int i;

	for (i = 0; i < 200 && ok; i++) {
		fz_gen(&p, 5, i, true);
		f = tmpfile();
		if (!f)
			return false;
		fz_print(f, before, &p, NULL);
		rewind(f);
		ok = fz_parse(f, &q) && fz_hash(0, &p) == fz_hash(0, &q) &&
		     q.seed == p.seed && q.number == p.number;
		fclose(f);
	}
	return ok;
}

int fz_selftest(void)
{
	printf("TAP version 13\n1..7\n");
	report("same_seed_same_calls", hash_of(42, true) == hash_of(42, true));
	report("other_seed_other_calls",
	       hash_of(42, true) != hash_of(43, true));
	report("same_seed_same_changes",
	       hash_of_changes(42) == hash_of_changes(42));
	report("every_word_in_bounds", all_sound());
	report("every_call_has_its_turn", all_there());
	report("what_is_printed_is_read", reads_what_it_prints(""));
	report("what_is_reported_is_read", reads_what_it_prints("# "));
	return failed;
}
