/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Part of far.c: the wire between the two hosts.
 */
#ifndef L5_TEST_WIRE_H
#define L5_TEST_WIRE_H

#include "wr.h"

static u8 wr_byte(const struct host *h, const struct l5_wr *w, u32 i)
{
	const struct l5_seg *s = w->seg;

	if (h->inl[w->seq % L5_SQ])
		return h->bytes[w->seq % L5_SQ][i];
	while (i >= s->len)
		i -= s++->len;
	return s->ring ? h->ring[h->l5.end][s->off + i] : h->msgs[s->off + i];
}

/* Bytes that go inline are taken now, others when they leave. */
static int wire_post(struct l5_far *far, const struct l5_wr *w, int n)
{
	struct host *h = host_of(far);
	u32 i, len;

	must(far->lock.held);
	for (; n--; w++) {
		u32 slot = w->seq % L5_SQ;

		must(h->last - h->first < L5_SQ && w->seq == h->last);
		len = l5_wr_len(w);
		h->inl[slot] = false;
		for (i = 0; len <= sizeof(h->bytes[0]) && i < len; i++)
			h->bytes[slot][i] = wr_byte(h, w, i);
		h->inl[slot] = len <= sizeof(h->bytes[0]) && rnd(2);
		h->sq[slot] = *w;
		h->last++;
	}
	if (wire_dead)
		h->first = h->last;
	return 0;
}

static void arrive(struct host *to, const struct host *from,
		   const struct l5_wr *w)
{
	struct arrival *a = &to->rq[to->rq_last++ % ARRIVALS];
	u32 i;

	must(to->rq_last - to->rq_first <= ARRIVALS);
	a->imm = w->op == L5_WR_WRITE_IMM;
	a->data = w->imm;
	a->len = a->imm ? 0 : l5_wr_len(w);
	for (i = 0; i < a->len; i++)
		((u8 *)a->bytes)[i] = wr_byte(from, w, i);
}

/* One word of a WRITE lands, the @n-th of those that the order has first. */
static void land_word(struct host *h, const struct l5_wr *w, u32 n, u32 words)
{
	u32 i, at = (h->back ? words - 1 - n : n) * L5_HDR;

	for (i = at; i < at + L5_HDR; i++)
		peer_of(h)->ring[h->l5.end][w->off + i] = wr_byte(h, w, i);
}

/*
 * The next words on the wire land, perhaps not all of a WRITE. They may land
 * from the last to the first; but L5_NOTIFY_ONE is only used where they do not.
 */
static void land(struct host *h)
{
	const struct l5_wr *w = &h->sq[h->first % L5_SQ];
	struct host *p = peer_of(h);
	u32 words = l5_wr_len(w) / L5_HDR, n;

	if (w->op != L5_WR_SEND) {
		must(l5_wr_len(w) % L5_HDR == 0 && words);
		if (!h->part)
			h->back = h->far.notify != L5_NOTIFY_ONE && rnd(2);
		n = min(h->part + 1 + rnd(words), words);
		while (h->part < n)
			land_word(h, w, h->part++, words);
		if (h->part < words)
			return;
	}
	if (w->op != L5_WR_WRITE)
		arrive(p, h, w);
	h->part = 0;
	if (w->signal)
		h->cq[h->cq_last++ % TOKENS] = w->seq;
	h->first++;
}

static void handle(struct host *h)
{
	struct arrival *a = &h->rq[h->rq_first++ % ARRIVALS];

	if (a->imm)
		l5_far_got_imm(&h->far, a->data);
	else
		l5_far_got_msg(&h->far, (void *)a->bytes, a->len);
}

static bool can(struct host *h, enum step step);

/* The wire dies: some of what is on it has come, and of the rest nothing. */
static void die(void)
{
	int i;

	wire_dead = true;
	for (i = 0; i < 2; i++) {
		struct host *h = &hosts[i];

		while (can(h, LAND) && rnd(4))
			land(h);
		h->first = h->last;
		h->cq_first = h->cq_last;
		h->flush = true;
	}
}

static int wire_work(struct l5_far *far, unsigned long todo)
{
	if (!(todo & BIT(L5_DO_UP)) || l5_far_is(far, L5_FAR_READY))
		return 0;
	refcount_inc(&far->ref);
	l5_far_link_set(far);
	return l5_far_up(far);
}

static unsigned long wire_expired(struct l5_far *far)
{
	return 0;
}

static void wire_stay(struct l5_far *far, int err)
{
	l5_far_dead(far, ECONNRESET);
}

static void wire_quiet(struct l5_far *far)
{
}

static void wire_drain(struct l5_far *far)
{
	struct host *h = host_of(far);

	if (!wire_dead)
		die();
	while (h->rq_first != h->rq_last)
		handle(h);
	h->flush = false;
}

static void wire_destroy(struct l5_far *far)
{
	host_of(far)->held = false;
	l5_far_let_go(far);
}

static void wire_late(struct l5_far *far)
{
}

static void wire_free(struct l5_far *far)
{
	must(!host_of(far)->freed);
	host_of(far)->freed = true;
}

static const struct l5_wire_ops wire = {
	.post		= wire_post,
	.work		= wire_work,
	.expired	= wire_expired,
	.stay		= wire_stay,
	.quiet		= wire_quiet,
	.drain		= wire_drain,
	.destroy	= wire_destroy,
	.late		= wire_late,
	.free		= wire_free,
};

static const struct l5_transport_ops transport = {
	.tx_moved	= l5_far_tx_moved,
	.rx_moved	= l5_far_rx_moved,
};

#endif /* L5_TEST_WIRE_H */
