// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5 between hosts: the steps that an end may take, see phase.h.
 */
#include <linux/atomic.h>
#include <linux/bits.h>
#include <linux/errno.h>
#include <net/net_debug.h>

#include "phase.h"

static const u8 l5_link_next[L5_LINK_MAX] = {
	[L5_LINK_NEW]	= BIT(L5_LINK_ASKING) | BIT(L5_LINK_ASKED) |
			  BIT(L5_LINK_DEAD),
	[L5_LINK_ASKING]	= BIT(L5_LINK_UP) | BIT(L5_LINK_DEAD),
	[L5_LINK_ASKED]	= BIT(L5_LINK_UP) | BIT(L5_LINK_DEAD),
	[L5_LINK_UP]	= BIT(L5_LINK_DEAD),
	[L5_LINK_DEAD]	= BIT(L5_LINK_OVER),
};

static const u8 l5_out_next[L5_OUT_MAX] = {
	[L5_OUT_TCP]	= BIT(L5_OUT_CUT) | BIT(L5_OUT_UNUSED),
	[L5_OUT_CUT]	= BIT(L5_OUT_RINGS),
	[L5_OUT_RINGS]	= BIT(L5_OUT_FIN),
	[L5_OUT_FIN]	= BIT(L5_OUT_CLOSED),
};

static const u8 l5_in_next[L5_IN_MAX] = {
	[L5_IN_TCP]	= BIT(L5_IN_CUT) | BIT(L5_IN_UNUSED),
	[L5_IN_CUT]	= BIT(L5_IN_FIN),
	[L5_IN_FIN]	= BIT(L5_IN_CLOSED),
};

/*
 * Take a step: 1 if it was taken, 0 if the row is there or farther already,
 * -EPROTO if there is no such step from where the row is. A step that is taken
 * is a full barrier.
 */
static int l5_step(int *row, const u8 *next, int to)
{
	int from = READ_ONCE(*row);

	do {
		if (from >= to)
			return 0;
		if (!(next[from] & BIT(to)))
			return -EPROTO;
	} while (!try_cmpxchg(row, &from, to));
	return 1;
}

/**
 * l5_link_to() - the way to the peer has come so far
 * @p: of this end
 * @to: the phase
 *
 * The way may die at any time: then a step to a phase before that is too late.
 *
 * Context: any; for L5_LINK_UP and L5_LINK_OVER the end's lock is held.
 * Return: true if the caller took this step; a full barrier then.
 */
bool l5_link_to(struct l5_phases *p, enum l5_far_link to)
{
	int ret = l5_step(&p->link, l5_link_next, to);

	DEBUG_NET_WARN_ON_ONCE(ret < 0);
	return ret > 0;
}

/**
 * l5_out_to() - this end has come so far with what it sends
 * @p: of this end
 * @to: the phase
 *
 * Context: any, the end's lock held.
 * Return: true if this step was taken; a full barrier then.
 */
bool l5_out_to(struct l5_phases *p, enum l5_far_out to)
{
	int ret = l5_step(&p->out, l5_out_next, to);

	DEBUG_NET_WARN_ON_ONCE(ret < 0);
	return ret > 0;
}

/**
 * l5_in_to() - the peer says that it has come so far
 * @p: of this end
 * @to: the phase
 *
 * The peer is not trusted to go by the table.
 *
 * Context: any, the end's lock held.
 * Return: 1 if this step was taken, a full barrier then; 0 if the peer has said
 * so before; -EPROTO if it may not say so.
 */
int l5_in_to(struct l5_phases *p, enum l5_far_in to)
{
	return l5_step(&p->in, l5_in_next, to);
}

/**
 * l5_goal_to() - this end is to come so far
 * @p: of this end
 * @to: L5_OUT_FIN or L5_OUT_CLOSED
 *
 * Context: any, the end's lock held.
 */
void l5_goal_to(struct l5_phases *p, enum l5_far_out to)
{
	if (p->goal < to)
		WRITE_ONCE(p->goal, to);
}
