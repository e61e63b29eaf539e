/* SPDX-License-Identifier: GPL-2.0 */
/*
 * AF_L5 between hosts: how far an end of a connection is. An end goes through
 * three rows of phases, each by itself:
 *
 *   link   the way to the peer beside TCP
 *
 *          NEW --> ASKING --> UP --> DEAD --> OVER		a client's
 *          NEW --> ASKED ---> UP --> DEAD --> OVER		a server's
 *
 *          and from each phase before DEAD to DEAD
 *
 *   out    where the bytes go that this end sends, and what was said of it
 *
 *          TCP --> CUT --> RINGS --> FIN --> CLOSED
 *          TCP --> UNUSED			it closes, and never cut
 *
 *   in     the same of the peer, as the peer told it
 *
 *          TCP --> CUT --> FIN --> CLOSED
 *          TCP --> UNUSED
 *
 * The steps of a row come in this order only, since the same end takes them one
 * after the other or since the way to the peer keeps the order. What may come
 * in either order is no phase, but a flag of its own (L5_FAR_*): that the peer
 * was told it may write here, and that it has told this end the same; that all
 * bytes were read that the peer sent by TCP, before or after its FIN by the
 * rings; that an end wants to be woken.
 */
#ifndef L5_FAR_PHASE_H
#define L5_FAR_PHASE_H

#include <linux/compiler.h>
#include <linux/types.h>

/**
 * enum l5_far_link - the way to the peer
 * @L5_LINK_NEW: nothing has been asked
 * @L5_LINK_ASKING: it is this client's turn to ask, or it has asked
 * @L5_LINK_ASKED: a client has asked this end
 * @L5_LINK_UP: this end can send
 * @L5_LINK_DEAD: nothing is sent any more; what has come may yet be heard
 * @L5_LINK_OVER: all that came was heard
 */
enum l5_far_link {
	L5_LINK_NEW,
	L5_LINK_ASKING,
	L5_LINK_ASKED,
	L5_LINK_UP,
	L5_LINK_DEAD,
	L5_LINK_OVER,
	L5_LINK_MAX
};

/**
 * enum l5_far_out - what this end sends
 * @L5_OUT_TCP: by TCP
 * @L5_OUT_UNUSED: nothing any more: it has closed, and the peer was told. All
 *	of it went by TCP
 * @L5_OUT_CUT: by the ring, where it waits; the peer was told of the cut
 * @L5_OUT_RINGS: by the ring; the peer knows of the cut
 * @L5_OUT_FIN: nothing any more, and the peer was told
 * @L5_OUT_CLOSED: it has closed, and the peer was told
 */
enum l5_far_out {
	L5_OUT_TCP,
	L5_OUT_UNUSED,
	L5_OUT_CUT,
	L5_OUT_RINGS,
	L5_OUT_FIN,
	L5_OUT_CLOSED,
	L5_OUT_MAX
};

/**
 * enum l5_far_in - what the peer sends
 * @L5_IN_TCP: by TCP, for all that is known here
 * @L5_IN_UNUSED: nothing any more: it has closed. All of it went by TCP
 * @L5_IN_CUT: by the ring, after its last byte on TCP
 * @L5_IN_FIN: nothing any more; its last record is here
 * @L5_IN_CLOSED: it has closed
 */
enum l5_far_in {
	L5_IN_TCP,
	L5_IN_UNUSED,
	L5_IN_CUT,
	L5_IN_FIN,
	L5_IN_CLOSED,
	L5_IN_MAX
};

/**
 * struct l5_phases - how far an end is
 * @link: &enum l5_far_link. Changes without a lock, in any context: of two
 *	tasks that want the same step one takes it. To L5_LINK_UP and to
 *	L5_LINK_OVER it changes under the end's lock
 * @out: &enum l5_far_out, changes under the end's lock
 * @goal: how far @out is to go: L5_OUT_TCP if there is no end in sight, else
 *	L5_OUT_FIN or L5_OUT_CLOSED. Only grows, under the end's lock
 * @in: &enum l5_far_in, changes under the end's lock
 *
 * All may be read without a lock. A phase only grows, so what was reached or
 * passed remains so.
 */
struct l5_phases {
	int link;
	int out;
	int goal;
	int in;
};

bool l5_link_to(struct l5_phases *p, enum l5_far_link to);
bool l5_out_to(struct l5_phases *p, enum l5_far_out to);
int l5_in_to(struct l5_phases *p, enum l5_far_in to);
void l5_goal_to(struct l5_phases *p, enum l5_far_out to);

static inline bool l5_is_up(const struct l5_phases *p)
{
	return READ_ONCE(p->link) == L5_LINK_UP;
}

static inline bool l5_is_dead(const struct l5_phases *p)
{
	return READ_ONCE(p->link) >= L5_LINK_DEAD;
}

static inline bool l5_is_over(const struct l5_phases *p)
{
	return READ_ONCE(p->link) == L5_LINK_OVER;
}

/* Has this end cut? */
static inline bool l5_out_cut(const struct l5_phases *p)
{
	return READ_ONCE(p->out) >= L5_OUT_CUT;
}

/* Has it, and does the peer know? */
static inline bool l5_out_acked(const struct l5_phases *p)
{
	return READ_ONCE(p->out) >= L5_OUT_RINGS;
}

/* Is this end to be closed? */
static inline bool l5_out_closing(const struct l5_phases *p)
{
	return READ_ONCE(p->goal) == L5_OUT_CLOSED;
}

/* Does the peer know? */
static inline bool l5_out_closed(const struct l5_phases *p)
{
	int out = READ_ONCE(p->out);

	return out == L5_OUT_CLOSED || out == L5_OUT_UNUSED;
}

static inline bool l5_in_cut(const struct l5_phases *p)
{
	return READ_ONCE(p->in) >= L5_IN_CUT;
}

static inline bool l5_in_fin(const struct l5_phases *p)
{
	return READ_ONCE(p->in) >= L5_IN_FIN;
}

static inline bool l5_in_closed(const struct l5_phases *p)
{
	int in = READ_ONCE(p->in);

	return in == L5_IN_CLOSED || in == L5_IN_UNUSED;
}

#endif /* L5_FAR_PHASE_H */
