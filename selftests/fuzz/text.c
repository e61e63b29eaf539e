// SPDX-License-Identifier: GPL-2.0
/*
 * Programs as text: what a report shows is what --replay takes.
 */
#include <inttypes.h>
#include <string.h>

#include "call.h"

const char *const fz_op_name[FZ_OP_COUNT] = {
#define FZ_OP_NAME(op, name, weight)	[FZ_##op] = name,
	FZ_OPS(FZ_OP_NAME)
#undef FZ_OP_NAME
};

void fz_print(FILE *f, const char *before, const struct fz_prog *p,
	      const uint32_t at[FZ_LANES])
{
	uint32_t i;
	int lane;

	fprintf(f, "%sprogram seed %" PRIu64 " number %" PRIu64
		" parent %" PRIu64 "\n", before, p->seed, p->number,
		p->parent);
	for (i = 0; i < p->n && i < FZ_CALLS; i++) {
		const struct fz_call *c = &p->call[i];

		fprintf(f, "%s%u %s %u %u 0x%x 0x%x 0x%" PRIx64, before,
			c->lane,
			c->op < FZ_OP_COUNT ? fz_op_name[c->op] : "?", c->s,
			c->t, c->a, c->b, c->v);
		for (lane = 0; at && lane < FZ_LANES; lane++)
			if (at[lane] == i + 1)
				fprintf(f, "\t# lane %d", lane);
		fputc('\n', f);
	}
}

static int op_by_name(const char *name)
{
	int i;

	for (i = 0; i < FZ_OP_COUNT; i++)
		if (!strcmp(fz_op_name[i], name))
			return i;
	return -1;
}

static bool parse_call(const char *line, struct fz_call *c)
{
	unsigned int lane, s, t, a, b;
	unsigned long long v;
	char name[32];
	int op;

	if (sscanf(line, "%u %31s %u %u %x %x %llx", &lane, name, &s, &t, &a,
		   &b, &v) != 7)
		return false;
	op = op_by_name(name);
	if (op < 0 || lane >= FZ_LANES)
		return false;
	*c = (struct fz_call){ .op = op, .lane = lane, .s = s, .t = t, .a = a,
			       .b = b, .v = v };
	return true;
}

bool fz_parse(FILE *f, struct fz_prog *p)
{
	char line[256], *at;

	memset(p, 0, sizeof(*p));
	while (fgets(line, sizeof(line), f)) {
		/* as it stands in a report */
		at = line[0] == '#' ? line + 1 : line;
		at += strspn(at, " ");
		if (sscanf(at, "program seed %" SCNu64 " number %" SCNu64
			   " parent %" SCNu64, &p->seed, &p->number,
			   &p->parent) == 3) {
			if (p->n)
				break;
			continue;
		}
		if (p->n < FZ_CALLS && parse_call(at, &p->call[p->n]))
			p->n++;
	}
	return p->n > 0;
}

uint64_t fz_hash(uint64_t h, const struct fz_prog *p)
{
	uint32_t i;

	h = fz_mix(h ^ p->n);
	for (i = 0; i < p->n; i++) {
		const struct fz_call *c = &p->call[i];

		h = fz_mix(h ^ c->op ^ (uint64_t)c->lane << 8 ^
			   (uint64_t)c->s << 16 ^ (uint64_t)c->t << 24);
		h = fz_mix(h ^ c->a ^ (uint64_t)c->b << 32);
		h = fz_mix(h ^ c->v);
	}
	return h;
}
