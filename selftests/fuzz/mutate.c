// SPDX-License-Identifier: GPL-2.0
/* Programs made of others: calls that come, go, change and change places. */
#include <string.h>

#include "gen.h"

static void make_room(struct fz_prog *p, uint32_t at)
{
	uint32_t n = p->n < FZ_CALLS ? p->n++ : FZ_CALLS - 1;

	memmove(&p->call[at + 1], &p->call[at],
		(n - at) * sizeof(p->call[0]));
}

static void insert(struct fz_prog *p, struct fz_rnd *r, bool lanes)
{
	uint32_t at = fz_below(r, p->n < FZ_CALLS ? p->n + 1 : FZ_CALLS);
	struct model m;
	struct fz_call c;

	model_new(&m, r);
	model_follow(&m, p, at);
	gen_call(&m, &c, lanes);
	make_room(p, at);
	p->call[at] = c;
}

static void remove_one(struct fz_prog *p, struct fz_rnd *r)
{
	uint32_t at = fz_below(r, p->n);

	if (p->n < 2)
		return;
	memmove(&p->call[at], &p->call[at + 1],
		(p->n - at - 1) * sizeof(p->call[0]));
	p->n--;
}

/* Another set of words for the same call, or one word of it */
static void change(struct fz_prog *p, struct fz_rnd *r)
{
	uint32_t at = fz_below(r, p->n);
	struct fz_call *c = &p->call[at];
	struct model m;

	switch (fz_below(r, 5)) {
	case 0:
		c->s = fz_below(r, FZ_SLOTS);
		break;
	case 1:
		c->t = fz_below(r, c->op >= FZ_MAP && c->op <= FZ_LOOK ?
				FZ_MAPS : FZ_SLOTS);
		break;
	case 2:
		c->v ^= 1ULL << fz_below(r, 64);
		break;
	default:
		model_new(&m, r);
		model_follow(&m, p, at);
		gen_words(&m, c);
	}
}

static void swap(struct fz_prog *p, struct fz_rnd *r)
{
	uint32_t at = fz_below(r, p->n - 1);
	struct fz_call c = p->call[at];

	if (p->n < 2)
		return;
	p->call[at] = p->call[at + 1];
	p->call[at + 1] = c;
}

/* The end of another program in place of this one's */
static void splice_tail(struct fz_prog *p, const struct fz_prog *other,
			struct fz_rnd *r)
{
	uint32_t at = fz_below(r, p->n), from = fz_below(r, other->n);
	uint32_t n = other->n - from;

	if (n > FZ_CALLS - at)
		n = FZ_CALLS - at;
	memcpy(&p->call[at], &other->call[from], n * sizeof(p->call[0]));
	p->n = at + n;
}

static void repeat(struct fz_prog *p, struct fz_rnd *r)
{
	uint32_t at = fz_below(r, p->n);
	struct fz_call c = p->call[at];

	make_room(p, at);
	p->call[at] = c;
}

void fz_mutate(struct fz_prog *p, const struct fz_prog *from,
	       const struct fz_prog *other, uint64_t seed, uint64_t number,
	       bool lanes)
{
	struct fz_rnd r = fz_rnd_of(seed, number);
	uint32_t i, n = 1 + fz_below(&r, 6);

	*p = *from;
	p->seed = seed;
	p->parent = from->number;
	p->number = number;
	for (i = 0; i < n; i++) {
		switch (fz_below(&r, 12)) {
		case 0 ... 4:
			insert(p, &r, lanes);
			break;
		case 5 ... 7:
			change(p, &r);
			break;
		case 8:
			remove_one(p, &r);
			break;
		case 9:
			swap(p, &r);
			break;
		case 10:
			repeat(p, &r);
			break;
		default:
			splice_tail(p, other, &r);
		}
	}
}
