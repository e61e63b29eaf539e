// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5 between hosts: what goes to the peer, as work requests that name no
 * device. What the kernels have to say to each other becomes messages; ways.c
 * makes batches of the records that are published in the ring.
 *
 * All of it is done under the end's lock.
 */
#include "far.h"

/**
 * l5_batch_add() - one request more
 * @far: of this end
 * @b: the batch
 * @op: L5_WR_*
 *
 * Return: the request, without bytes so far.
 */
struct l5_wr *l5_batch_add(struct l5_far *far, struct l5_batch *b, u8 op)
{
	struct l5_wr *w = &b->wr[b->n++];

	memset(w, 0, sizeof(*w));
	w->op = op;
	w->seq = far->posted++;
	if (far->posted - far->signaled >= L5_SIGNAL) {
		w->signal = true;
		far->signaled = far->posted;
	}
	return w;
}

static void l5_wr_seg(struct l5_wr *w, bool ring, u32 off, u32 len)
{
	struct l5_seg *s = &w->seg[w->n++];

	s->ring = ring;
	s->off = off;
	s->len = len;
}

/**
 * l5_wr_ring() - bytes of the own ring go with a request
 * @w: the request
 * @off: place in the ring
 * @len: how many
 */
void l5_wr_ring(struct l5_wr *w, u32 off, u32 len)
{
	l5_wr_seg(w, true, off, len);
}

/**
 * l5_wr_small() - bytes that are made for a request go with it
 * @far: of this end
 * @w: the request
 * @off: place in its own memory, of the size of a message
 * @len: how many
 *
 * Return: where to put them.
 */
void *l5_wr_small(struct l5_far *far, struct l5_wr *w, u32 off, u32 len)
{
	u32 at = (w->seq % L5_SQ) * sizeof(struct l5_msg) + off;

	l5_wr_seg(w, false, at, len);
	return far->msgs + at;
}

/**
 * l5_batch_post() - post what is in a batch
 * @far: of this end
 * @b: the batch
 */
void l5_batch_post(struct l5_far *far, const struct l5_batch *b)
{
	if (far->wire->post(far, b->wr, b->n))
		l5_far_dead(far, ECONNRESET);
}

/**
 * l5_far_msg() - l5_far_say(), where l5_far_sends() was asked already
 * @far: of this end, its lock held
 * @type: L5_MSG_*
 * @arg: argument of the message
 * @pos: position in the message
 */
void l5_far_msg(struct l5_far *far, u32 type, u32 arg, u64 pos)
{
	struct l5_batch b = { .n = 0 };
	struct l5_wr *w = l5_batch_add(far, &b, L5_WR_SEND);
	struct l5_msg *msg = l5_wr_small(far, w, 0, sizeof(*msg));

	msg->type = type;
	msg->arg = arg;
	msg->pos = pos;
	/* waiters for the end, or for a sign of life, wait for this request */
	if (type == L5_MSG_CLOSE)
		WRITE_ONCE(far->close_no, far->posted ?: 1);
	if (type == L5_MSG_CLOSE || type == L5_MSG_ROOM_ARM) {
		w->signal = true;
		far->signaled = far->posted;
	}
	far->info.messages++;
	l5_net_count(far->ln, L5_STAT_RDMA_MESSAGES, 1);
	l5_batch_post(far, &b);
}

/**
 * l5_far_sends() - is there a wire that sends?
 * @far: of this end, its lock held
 *
 * There is always room for messages, by their count.
 */
bool l5_far_sends(const struct l5_far *far)
{
	return l5_is_up(&far->ph) && l5_sq_free(far);
}

/**
 * l5_far_say() - send a message
 * @far: of this end
 * @type: L5_MSG_*
 * @arg: argument of the message
 * @pos: position in the message
 *
 * Of each type few messages are unanswered at a time, so there is room.
 *
 * Context: l5_far.lock held.
 */
void l5_far_say(struct l5_far *far, u32 type, u32 arg, u64 pos)
{
	lockdep_assert_held(&far->lock);
	if (l5_far_sends(far))
		l5_far_msg(far, type, arg, pos);
}

/**
 * l5_batch_ring() - send a part of the ring to the same part of the peer's copy
 * @far: of this end
 * @b: the batch
 * @pos: where the part begins
 * @len: its bytes
 * @after: the word that goes with it, to be after it there. It is not the word
 *	in the ring: there a producer may have published the next record
 *	already, whose bytes are not in this batch
 */
void l5_batch_ring(struct l5_far *far, struct l5_batch *b, u64 pos, u32 len,
		   u64 after)
{
	u32 size = far->conn->end[far->end].size;
	struct l5_wr *w = NULL;

	while (len) {
		u32 off = pos & (size - 1);
		u32 part = min(len, size - off);

		w = l5_batch_add(far, b, L5_WR_WRITE);
		w->off = off;
		l5_wr_ring(w, off, part);
		pos += part;
		len -= part;
	}
	/* the word goes along with the last part, but not around the end */
	if (!(pos & (size - 1)))
		w = l5_batch_add(far, b, L5_WR_WRITE);
	*(u64 *)l5_wr_small(far, w, 0, L5_HDR) = after;
}

/* Set the byte in the peer's mailbox; any value will do. */
static void l5_batch_mailbox(struct l5_far *far, struct l5_batch *b)
{
	struct l5_wr *w;

	if (!far->peer_box)
		return;
	w = l5_batch_add(far, b, L5_WR_WRITE);
	w->mailbox = true;
	*(u8 *)l5_wr_small(far, w, 0, 1) = 1;
}

/**
 * l5_batch_show() - the WRITE that makes a batch visible goes last
 * @far: of this end
 * @b: the batch
 * @w: that WRITE, which has the batch's first word
 */
void l5_batch_show(struct l5_far *far, struct l5_batch *b, struct l5_wr *w)
{
	w->off = far->sent & (far->conn->end[far->end].size - 1);
	if (l5_far_wakes(far))
		w->op = L5_WR_WRITE_IMM;
	l5_batch_mailbox(far, b);
	l5_batch_post(far, b);
}

/**
 * l5_far_wakes() - did the peer ask to be woken by the bytes being sent?
 * @far: of this end, its lock held
 *
 * Return: true once for each time that the peer asked.
 */
bool l5_far_wakes(struct l5_far *far)
{
	if (!test_and_clear_bit(L5_FAR_PEER_ARM, &far->flags))
		return false;
	far->info.wakes++;
	l5_net_count(far->ln, L5_STAT_RDMA_WAKES, 1);
	return true;
}
