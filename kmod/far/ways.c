// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5 between hosts: the ways to publish records that the paper compares
 * (Fent et al., figure 8), each with what its sender does and what its receiver
 * hears. A wire has to know which of them are safe.
 */
#include "far.h"

/*
 * The end of the first record; 0 if the words of a process make no sense. To
 * publish a record without payload makes none here: there would be no bytes to
 * go with it, and a length of 0 tells the receiver nothing.
 */
static u64 l5_record_end(struct l5_far *far, u64 tail)
{
	struct l5_end *own = &far->conn->end[far->end];
	u64 hdr = l5_far_header(far, far->sent);

	if (!l5_rec_valid(own->size, hdr) || !(u32)hdr ||
	    l5_rec_size((u32)hdr) > tail - far->sent)
		return 0;
	return far->sent + l5_rec_size((u32)hdr);
}

/*
 * The end of the records that are told of together, of which the first goes
 * from @pos to @end, and none ends after @tail. Both sides of L5_NOTIFY_IMM
 * call this; the receiver finds a word that is 0 at the end.
 */
static u64 l5_records_span(struct l5_end *ring, u64 pos, u64 end, u64 tail)
{
	u64 hdr, next;

	while (end != tail) {
		hdr = l5_load(l5_far_word(ring, end));
		if (!l5_rec_valid(READ_ONCE(ring->size), hdr))
			break;
		next = end + l5_rec_size((u32)hdr);
		if (next - pos > L5_IMM_SPAN || (s64)(next - tail) > 0)
			break;
		end = next;
	}
	return end;
}

/* Two parts of the ring, a word after them, the header, and a mailbox. */
static u32 l5_write_cost(const struct l5_far *far, u64 end)
{
	return L5_BATCH;
}

/* L5_NOTIFY_TWO: all that is published, then the word that shows it. */

static u64 l5_two_end(struct l5_far *far, u64 tail)
{
	return tail;
}

static void l5_two_send_stamped(struct l5_far *far, u64 end, u64 stamp,
				u64 after)
{
	struct l5_batch b = { .n = 0 };
	struct l5_wr *w;

	l5_batch_ring(far, &b, far->sent + L5_HDR, end - far->sent - L5_HDR,
		      after);
	w = l5_batch_add(far, &b, L5_WR_WRITE);
	*(u64 *)l5_wr_small(far, w, 0, L5_HDR) = l5_far_header(far, far->sent) |
						stamp;
	l5_batch_show(far, &b, w);
}

static void l5_two_send(struct l5_far *far, u64 end)
{
	l5_two_send_stamped(far, end, 0, 0);
}

static const struct l5_way_ops l5_way_two = {
	.end	= l5_two_end,
	.cost	= l5_write_cost,
	.send	= l5_two_send,
};

/*
 * L5_NOTIFY_ONE: a record in one go. Its header says that the word after the
 * record tells when all of it is there; both words have a stamp, since the
 * bytes that were there before may look like anything.
 */
static void l5_one_send(struct l5_far *far, u64 end)
{
	u32 off = far->sent & (far->conn->end[far->end].size - 1);
	u64 first = l5_late_stamp(far->key ?: 1, far->sent);
	u64 after = l5_late_stamp(far->key ?: 1, end);
	u32 len = end - far->sent - L5_HDR;
	struct l5_batch b = { .n = 0 };
	struct l5_wr *w;

	/* a record that wraps round the ring's end takes more than a request */
	if (off + L5_HDR + len >= far->conn->end[far->end].size) {
		l5_two_send_stamped(far, end, first, after);
		return;
	}
	w = l5_batch_add(far, &b, L5_WR_WRITE);
	*(u64 *)l5_wr_small(far, w, 0, L5_HDR) = l5_far_header(far, far->sent) |
						first;
	l5_wr_ring(w, off + L5_HDR, len);
	*(u64 *)l5_wr_small(far, w, L5_HDR, L5_HDR) = after;
	l5_batch_show(far, &b, w);
}

static const struct l5_way_ops l5_way_one = {
	.stamps	= true,
	.end	= l5_record_end,
	.cost	= l5_write_cost,
	.send	= l5_one_send,
};

/*
 * L5_NOTIFY_IMM: records, and with them the word that the receiver's kernel has
 * to write, the length in the header of the first. That wakes a waiting
 * receiver without a WAKE. As many records go as the receiver goes through at
 * once.
 */
static u64 l5_imm_end(struct l5_far *far, u64 tail)
{
	u64 end = l5_record_end(far, tail);

	return end ? l5_records_span(&far->conn->end[far->end], far->sent, end,
				     tail) : 0;
}

static void l5_imm_send(struct l5_far *far, u64 end)
{
	struct l5_batch b = { .n = 0 };
	struct l5_wr *w;

	l5_batch_ring(far, &b, far->sent + L5_HDR, end - far->sent - L5_HDR, 0);
	w = &b.wr[b.n - 1];
	w->op = L5_WR_WRITE_IMM;
	w->imm = (u32)l5_far_header(far, far->sent);
	l5_batch_post(far, &b);
}

/*
 * Immediate data has 32 bits, enough for a length: so the positions are counted
 * here. The further records of the batch have their headers already.
 */
static void l5_imm_got(struct l5_far *far, u32 len)
{
	struct l5_end *ring = &far->conn->end[!far->end];
	u64 pos = far->imm_pos, end;

	if (!len || len > l5_rec_max(READ_ONCE(ring->size))) {
		l5_far_dead(far, EPROTO);
		return;
	}
	end = pos + l5_rec_size(len);
	if (end - pos < L5_IMM_SPAN)
		end = l5_records_span(ring, pos, end, pos + L5_IMM_SPAN);
	far->imm_pos = end;
	l5_far_got_record(far, pos, len);
}

static const struct l5_way_ops l5_way_imm = {
	.told		= true,
	.end		= l5_imm_end,
	.cost		= l5_write_cost,
	.send		= l5_imm_send,
	.got_imm	= l5_imm_got,
};

/* L5_NOTIFY_SEND: a record by messages, the last of which has its header. */

static u32 l5_send_cost(const struct l5_far *far, u64 end)
{
	return (end - far->sent) / L5_MSG_BYTES + 3;
}

static void l5_send_send(struct l5_far *far, u64 end)
{
	u32 size = far->conn->end[far->end].size;
	u64 hdr = l5_far_header(far, far->sent);
	u64 pos = far->sent + L5_HDR;

	while (pos < end) {
		u32 off = pos & (size - 1);
		u32 len = min3((u32)(end - pos), size - off, L5_MSG_BYTES);
		struct l5_batch b = { .n = 0 };
		struct l5_wr *w = l5_batch_add(far, &b, L5_WR_SEND);
		struct l5_msg *msg = l5_wr_small(far, w, 0, sizeof(*msg));

		msg->type = L5_MSG_DATA;
		msg->arg = len;
		msg->pos = pos;
		l5_wr_ring(w, off, len);
		l5_batch_post(far, &b);
		pos += len;
	}
	l5_far_msg(far, L5_MSG_HEADER, (u32)hdr, far->sent);
}

/* Put bytes to their place in the ring that the peer writes. */
static void l5_send_got(struct l5_far *far, const struct l5_msg *msg)
{
	struct l5_end *ring = &far->conn->end[!far->end];
	const void *from = msg + 1;
	u64 pos = msg->pos;
	u32 len = msg->arg;

	while (len) {
		u32 part = min_t(u32, len, PAGE_SIZE - offset_in_page(pos));

		memcpy(l5_far_at(ring, pos), from, part);
		pos += part;
		from += part;
		len -= part;
	}
}

static const struct l5_way_ops l5_way_send = {
	.told		= true,
	.end		= l5_record_end,
	.cost		= l5_send_cost,
	.send		= l5_send_send,
	.got_data	= l5_send_got,
};

static const struct l5_way_ops *const l5_ways[] = {
	[L5_NOTIFY_TWO]		= &l5_way_two,
	[L5_NOTIFY_ONE]		= &l5_way_one,
	[L5_NOTIFY_IMM]		= &l5_way_imm,
	[L5_NOTIFY_SEND]	= &l5_way_send,
};

/**
 * l5_way() - find a way to publish
 * @notify: L5_NOTIFY_*, but not L5_NOTIFY_AUTO
 */
const struct l5_way_ops *l5_way(u8 notify)
{
	return l5_ways[notify];
}

/*
 * The end of the batch that goes next. Return: 0 if the words of a process make
 * no sense.
 */
static u64 l5_batch_end(struct l5_far *far, u64 tail)
{
	struct l5_end *own = &far->conn->end[far->end];

	/* no record is shorter than two header words */
	if (tail - far->sent > own->size - L5_HDR || tail & (L5_HDR - 1) ||
	    tail - far->sent < 2 * L5_HDR)
		return 0;
	return l5_way(far->notify)->end(far, tail);
}

/**
 * l5_far_post() - send some of the records that are published
 * @far: of this end, its lock held, some time after l5_far_sends()
 * @tail: where the published records end
 *
 * Return: false if the send queue is full, or the wire of no more use.
 */
bool l5_far_post(struct l5_far *far, u64 tail)
{
	const struct l5_way_ops *way = l5_way(far->notify);
	u64 end = l5_batch_end(far, tail);
	u32 cost = end ? way->cost(far, end) : L5_SQ;

	lockdep_assert_held(&far->lock);
	if (cost + L5_SQ_KEPT > L5_SQ) {
		/* a process scribbled over its own cursors */
		l5_far_dead(far, EPROTO);
		return false;
	}
	if (l5_sq_free(far) < cost + L5_SQ_KEPT)
		return false;
	way->send(far, end);
	far->sent = end;
	far->info.posts++;
	l5_net_count(far->ln, L5_STAT_RDMA_POSTS, 1);
	return !l5_is_dead(&far->ph);
}
