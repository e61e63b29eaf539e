/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Part of far.c: of which kinds its runs were, and whether each kind was among
 * them often enough. A harness that moves nothing, or whose wires never die,
 * finds nothing either.
 */
#ifndef L5_TEST_MIX_H
#define L5_TEST_MIX_H

#define WAYS	(L5_NOTIFY_SEND + 1)

/* What was seen, and in how many of 1,000 runs it is to be seen at least. */
enum kind {
	MOVED_WHOLE, MOVED_IN_PART, STAYED, CLOSED_EARLY, RESET, ERROR,
	DIED_ASKING, DIED_TCP, DIED_UNUSED, DIED_CUT, DIED_RINGS, DIED_FIN,
	DIED_CLOSED, WAY_TWO, WAY_ONE, WAY_IMM, WAY_SEND, AROUND, FORGED, STOOD,
	COPIED, KINDS
};

static const struct {
	const char *name;
	unsigned int least;
} kinds[KINDS] = {
	[MOVED_WHOLE]	= { "both ends moved, and all bytes came", 250 },
	[MOVED_IN_PART]	= { "an end was still moving when it ended", 20 },
	[STAYED]	= { "both ends stayed on TCP", 20 },
	[CLOSED_EARLY]	= { "an end closed before the end of a stream", 50 },
	[RESET]		= { "TCP was reset", 50 },
	[ERROR]		= { "a program was told of an error", 50 },
	[DIED_ASKING]	= { "the wire died before an end was up", 5 },
	[DIED_TCP]	= { "the wire died, an end was up and not cut", 10 },
	[DIED_UNUSED]	= { "the wire died, an end had closed uncut", 2 },
	[DIED_CUT]	= { "the wire died, an end's cut not answered", 10 },
	[DIED_RINGS]	= { "the wire died, an end moved", 10 },
	[DIED_FIN]	= { "the wire died, an end had shut down", 10 },
	[DIED_CLOSED]	= { "the wire died, an end had closed", 10 },
	[WAY_TWO]	= { "an end moved that sends two WRITEs", 100 },
	[WAY_ONE]	= { "an end moved that sends one WRITE", 100 },
	[WAY_IMM]	= { "an end moved that sends immediate data", 100 },
	[WAY_SEND]	= { "an end moved that sends SENDs", 100 },
	[AROUND]	= { "a ring was filled more than once", 100 },
	[FORGED]	= { "an end moved, and its program forged", 10 },
	[STOOD]		= { "the machine stood still, and an end moved", 50 },
	[COPIED]	= { "what a reader did not read was copied", 20 },
};

static unsigned int mix[KINDS];

/* The wire is about to die by itself. */
static void mix_death(void)
{
	static const int out[L5_OUT_MAX] = {
		[L5_OUT_TCP] = DIED_TCP, [L5_OUT_UNUSED] = DIED_UNUSED,
		[L5_OUT_CUT] = DIED_CUT, [L5_OUT_RINGS] = DIED_RINGS,
		[L5_OUT_FIN] = DIED_FIN, [L5_OUT_CLOSED] = DIED_CLOSED,
	};
	const struct l5_phases *a = &hosts[0].far.ph, *b = &hosts[1].far.ph;

	if (!l5_is_up(a) || !l5_is_up(b)) {
		mix[DIED_ASKING]++;
		return;
	}
	mix[out[a->out]]++;
	if (b->out != a->out)
		mix[out[b->out]]++;
}

static bool mix_around(const struct host *h)
{
	const struct l5_end *own = &h->conn.end[h->l5.end];

	return own->ctrl->tx_tail > own->size;
}

/* A run is over. */
static void mix_run(void)
{
	const struct host *a = &hosts[0], *b = &hosts[1];
	bool whole = a->eof && b->eof && a->sent == a->total &&
		     b->sent == b->total;
	int i;

	if (a->l5.state == L5_RINGS && b->l5.state == L5_RINGS)
		mix[MOVED_WHOLE] += whole;
	else if (a->l5.state == L5_BASE && b->l5.state == L5_BASE)
		mix[STAYED]++;
	else
		mix[MOVED_IN_PART]++;
	mix[CLOSED_EARLY] += early && !whole;
	mix[RESET] += a->rst || b->rst;
	mix[ERROR] += a->err || b->err;
	mix[FORGED] += forged;
	mix[STOOD] += stood && (a->l5.state == L5_RINGS ||
				b->l5.state == L5_RINGS);
	for (i = 0; i < 2; i++)
		if (hosts[i].l5.state == L5_RINGS && hosts[i].far.sent)
			mix[WAY_TWO + hosts[i].far.notify]++;
	mix[COPIED] += a->copied || b->copied;
	mix[AROUND] += mix_around(a) || mix_around(b);
}

/* Print it. Return: false if a kind was seen too seldom in many runs. */
static bool mix_good(unsigned long long n)
{
	bool good = true;
	int i;

	for (i = 0; i < KINDS; i++) {
		bool few = n >= 10000 && mix[i] < n * kinds[i].least / 1000;

		printf("# %6u%s %s\n", mix[i], few ? " (too few)" : "",
		       kinds[i].name);
		good &= !few;
	}
	return good;
}

#endif /* L5_TEST_MIX_H */
