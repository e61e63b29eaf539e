// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5 between hosts: work requests. What is published in the ring becomes
 * WRITEs or SENDs here, in one of the ways that the paper compares (Fent et
 * al., figure 8), and what the kernels have to say to each other messages.
 *
 * All of it is under l5_rdma.lock, but for what completions and failures do.
 */
#include "rdma.h"

static u32 l5_sq_free(const struct l5_rdma *rd)
{
	return L5_SQ - (rd->posted - rd->done);
}

/**
 * l5_rdma_dead() - the queue pair has failed
 * @rd: of this
 * @err: why, as a positive errno
 *
 * Context: any, its lock held or not.
 */
void l5_rdma_dead(struct l5_rdma *rd, int err)
{
	if (test_and_set_bit(L5_RD_DEAD, &rd->flags))
		return;
	WRITE_ONCE(rd->err, err);
	wake_up_all(&rd->wait);
	l5_rdma_do(rd, L5_DO_END);
}

static void l5_rdma_completed(struct l5_rdma *rd, u32 seq)
{
	spin_lock(&rd->lock);
	/* they come in order, and one tells of all before it */
	if ((s32)(seq + 1 - rd->done) > 0)
		rd->done = seq + 1;
	l5_rdma_push_locked(rd);
	spin_unlock(&rd->lock);
	if (l5_rd(rd, L5_RD_CLOSE) && l5_rdma_flushed(rd))
		l5_rdma_do(rd, L5_DO_END);
}

/**
 * l5_rdma_wc_error() - a work request failed, and so has the queue pair
 * @rd: of this
 * @wc: its completion
 */
void l5_rdma_wc_error(struct l5_rdma *rd, const struct ib_wc *wc)
{
	bool late = wc->status == IB_WC_RETRY_EXC_ERR ||
		    wc->status == IB_WC_RNR_RETRY_EXC_ERR;

	l5_rdma_dead(rd, late ? ETIMEDOUT : ECONNRESET);
}

static void l5_rdma_sent(struct ib_cq *cq, struct ib_wc *wc)
{
	struct l5_slot *slot = container_of(wc->wr_cqe, struct l5_slot, cqe);

	if (wc->status != IB_WC_SUCCESS)
		l5_rdma_wc_error(slot->rd, wc);
	else
		l5_rdma_completed(slot->rd, slot->seq);
}

/* Work requests that are posted together, or one by one. */
struct l5_batch {
	struct ib_rdma_wr wr[5];
	struct ib_sge sge[5][3];
	int n;
};

static struct ib_rdma_wr *l5_batch_add(struct l5_rdma *rd, struct l5_batch *b,
				       enum ib_wr_opcode op, u64 addr, u32 len,
				       u32 lkey)
{
	struct l5_slot *slot = &rd->slots[rd->posted % L5_SQ];
	struct ib_rdma_wr *wr = &b->wr[b->n];
	struct ib_sge *sge = b->sge[b->n];

	slot->seq = rd->posted++;
	slot->cqe.done = l5_rdma_sent;
	memset(wr, 0, sizeof(*wr));
	sge->addr = addr;
	sge->length = len;
	sge->lkey = lkey;
	wr->wr.wr_cqe = &slot->cqe;
	wr->wr.sg_list = sge;
	wr->wr.num_sge = 1;
	wr->wr.opcode = op;
	if (rd->posted - rd->signaled >= L5_SIGNAL) {
		wr->wr.send_flags = IB_SEND_SIGNALED;
		rd->signaled = rd->posted;
	}
	b->n++;
	return wr;
}

/* The memory of messages and header words that goes with the next request. */
static void *l5_rdma_scratch(struct l5_rdma *rd)
{
	return rd->msgs + (rd->posted % L5_SQ) * sizeof(struct l5_msg);
}

/* A request whose bytes are in scratch memory. */
static struct ib_rdma_wr *l5_batch_small(struct l5_rdma *rd, struct l5_batch *b,
					 enum ib_wr_opcode op, u32 len)
{
	void *p = l5_rdma_scratch(rd);
	struct ib_rdma_wr *wr;
	u64 addr = rd->msgs_dma + (p - rd->msgs);

	if (rd->inline_max >= len)
		addr = (uintptr_t)p;
	wr = l5_batch_add(rd, b, op, addr, len, rd->pd->local_dma_lkey);
	if (rd->inline_max >= len)
		wr->wr.send_flags |= IB_SEND_INLINE;
	return wr;
}

static void l5_batch_post(struct l5_rdma *rd, struct l5_batch *b)
{
	bool chain = READ_ONCE(rd->ln->rdma_chain);
	int i, err = 0;

	for (i = 0; i + 1 < b->n && chain; i++)
		b->wr[i].wr.next = &b->wr[i + 1].wr;
	for (i = 0; i < (chain ? 1 : b->n) && !err; i++)
		err = ib_post_send(rd->id->qp, &b->wr[i].wr, NULL);
	if (err)
		l5_rdma_dead(rd, ECONNRESET);
}

/**
 * l5_rdma_msg() - l5_rdma_say(), where l5_rdma_sends() was asked already
 * @rd: to the peer of this, its lock held
 * @type: L5_MSG_*
 * @arg: of it
 * @pos: of it
 */
void l5_rdma_msg(struct l5_rdma *rd, u32 type, u32 arg, u64 pos)
{
	struct l5_batch b = { .n = 0 };
	struct l5_msg *msg = l5_rdma_scratch(rd);
	struct ib_rdma_wr *wr;

	msg->type = type;
	msg->arg = arg;
	msg->pos = pos;
	wr = l5_batch_small(rd, &b, IB_WR_SEND, sizeof(*msg));
	/* who waits for the end of it all, or for life, waits for this one */
	if (type == L5_MSG_CLOSE)
		WRITE_ONCE(rd->close_no, rd->posted ?: 1);
	if (type == L5_MSG_CLOSE || type == L5_MSG_ROOM_ARM) {
		wr->wr.send_flags |= IB_SEND_SIGNALED;
		rd->signaled = rd->posted;
	}
	rd->info.messages++;
	l5_net_count(rd->ln, L5_STAT_RDMA_MESSAGES, 1);
	l5_batch_post(rd, &b);
}

/**
 * l5_rdma_sends() - is there a queue pair that sends?
 * @rd: of this, its lock held
 *
 * Messages have room always, by count.
 */
bool l5_rdma_sends(const struct l5_rdma *rd)
{
	return l5_rd(rd, L5_RD_UP) && !l5_rd(rd, L5_RD_DEAD) && l5_sq_free(rd);
}

/**
 * l5_rdma_say() - send a message
 * @rd: to the peer of this
 * @type: L5_MSG_*
 * @arg: of it
 * @pos: of it
 *
 * Of each type there are few that were not answered, so there is room.
 *
 * Context: l5_rdma.lock held.
 */
void l5_rdma_say(struct l5_rdma *rd, u32 type, u32 arg, u64 pos)
{
	lockdep_assert_held(&rd->lock);
	if (l5_rdma_sends(rd))
		l5_rdma_msg(rd, type, arg, pos);
}

/*
 * Part of the ring as it goes to the same part of the peer's, with a word after
 * it that is not the one in the ring: there a producer may have published the
 * next record already, whose bytes are not in this batch.
 */
static void l5_batch_ring(struct l5_rdma *rd, struct l5_batch *b, u64 pos,
			  u32 len, u64 after)
{
	struct l5_end *own = &rd->conn->end[rd->end];
	struct ib_rdma_wr *wr = NULL;
	u64 *word;

	while (len) {
		u32 off = pos & (own->size - 1);
		u32 part = min(len, own->size - off);

		word = l5_rdma_scratch(rd);
		if (part + L5_HDR <= rd->inline_max &&
		    offset_in_page(off) + part <= PAGE_SIZE) {
			struct page *page = own->pages[off >> PAGE_SHIFT];

			wr = l5_batch_add(rd, b, IB_WR_RDMA_WRITE,
					  (uintptr_t)page_address(page) +
					  offset_in_page(off), part, 0);
			wr->wr.send_flags |= IB_SEND_INLINE;
		} else {
			wr = l5_batch_add(rd, b, IB_WR_RDMA_WRITE,
					  rd->tx.mr->iova + off, part,
					  rd->tx.mr->lkey);
		}
		wr->remote_addr = L5_IOVA_RING + off;
		wr->rkey = rd->hello.rkey;
		pos += part;
		len -= part;
	}
	if (pos & (own->size - 1)) {
		/* along with the last part */
		struct ib_sge *sge = &b->sge[b->n - 1][1];

		*word = after;
		sge->addr = rd->msgs_dma + ((void *)word - rd->msgs);
		if (wr->wr.send_flags & IB_SEND_INLINE)
			sge->addr = (uintptr_t)word;
		sge->length = L5_HDR;
		sge->lkey = rd->pd->local_dma_lkey;
		wr->wr.num_sge = 2;
	} else {
		*(u64 *)l5_rdma_scratch(rd) = after;
		wr = l5_batch_small(rd, b, IB_WR_RDMA_WRITE, L5_HDR);
		wr->remote_addr = L5_IOVA_RING;
		wr->rkey = rd->hello.rkey;
	}
}

/* The byte in the peer's mailbox; any value will do. */
static void l5_batch_mailbox(struct l5_rdma *rd, struct l5_batch *b)
{
	struct ib_rdma_wr *wr;

	if (!rd->hello.mailbox_rkey)
		return;
	*(u8 *)l5_rdma_scratch(rd) = 1;
	wr = l5_batch_small(rd, b, IB_WR_RDMA_WRITE, 1);
	wr->remote_addr = L5_IOVA_MAILBOX + rd->hello.mailbox_slot;
	wr->rkey = rd->hello.mailbox_rkey;
}

/**
 * l5_rdma_word() - a word of a ring that is whole
 * @ring: the ring
 * @pos: where
 */
u64 *l5_rdma_word(struct l5_end *ring, u64 pos)
{
	u32 off = pos & (ring->size - 1) & ~(L5_HDR - 1);

	return page_address(ring->pages[off >> PAGE_SHIFT]) +
	       offset_in_page(off);
}

static u64 l5_rdma_header(struct l5_rdma *rd, u64 pos)
{
	return l5_load(l5_rdma_word(&rd->conn->end[rd->end], pos));
}

/**
 * l5_rdma_wakes() - did the peer ask to be woken by what is being sent?
 * @rd: of this, its lock held
 *
 * Return: true once for each time that it asked.
 */
bool l5_rdma_wakes(struct l5_rdma *rd)
{
	if (!test_and_clear_bit(L5_RD_PEER_ARM, &rd->flags))
		return false;
	rd->info.wakes++;
	l5_net_count(rd->ln, L5_STAT_RDMA_WAKES, 1);
	return true;
}

/* What goes along with a word at a position, see l5_send_one(). */
static u64 l5_rdma_stamp(const struct l5_rdma *rd, u64 pos)
{
	if (rd->notify != L5_NOTIFY_ONE)
		return 0;
	return l5_late_stamp(rd->key ?: 1, pos);
}

/* The WRITE that makes a batch visible, from its first word on, goes last. */
static void l5_batch_show(struct l5_rdma *rd, struct l5_batch *b,
			  struct ib_rdma_wr *wr)
{
	u32 size = rd->conn->end[rd->end].size;

	wr->remote_addr = L5_IOVA_RING + (rd->sent & (size - 1));
	wr->rkey = rd->hello.rkey;
	if (l5_rdma_wakes(rd)) {
		wr->wr.opcode = IB_WR_RDMA_WRITE_WITH_IMM;
		wr->wr.ex.imm_data = 0;
	}
	l5_batch_mailbox(rd, b);
	l5_batch_post(rd, b);
}

/* L5_NOTIFY_TWO: the records, then the word that makes them visible. */
static void l5_send_two(struct l5_rdma *rd, u64 end)
{
	struct l5_batch b = { .n = 0 };
	struct ib_rdma_wr *wr;

	l5_batch_ring(rd, &b, rd->sent + L5_HDR, end - rd->sent - L5_HDR,
		      l5_rdma_stamp(rd, end));
	*(u64 *)l5_rdma_scratch(rd) = l5_rdma_header(rd, rd->sent) |
				      l5_rdma_stamp(rd, rd->sent);
	wr = l5_batch_small(rd, &b, IB_WR_RDMA_WRITE, L5_HDR);
	l5_batch_show(rd, &b, wr);
}

/*
 * L5_NOTIFY_ONE: a record in one go. Its header says that the word after it
 * tells when all of it is there; both have a stamp, since what was there before
 * may look like anything.
 */
static void l5_send_one(struct l5_rdma *rd, u64 end)
{
	struct l5_end *own = &rd->conn->end[rd->end];
	u32 off = rd->sent & (own->size - 1);
	struct l5_batch b = { .n = 0 };
	struct ib_rdma_wr *wr;
	struct ib_sge *sge;
	u64 *word;

	/* where it does not fit before the ring's end it is not one go */
	if (off + (end - rd->sent) >= own->size) {
		l5_send_two(rd, end);
		return;
	}
	word = l5_rdma_scratch(rd);
	word[0] = l5_rdma_header(rd, rd->sent) | l5_rdma_stamp(rd, rd->sent);
	word[1] = l5_rdma_stamp(rd, end);
	wr = l5_batch_small(rd, &b, IB_WR_RDMA_WRITE, L5_HDR);
	wr->wr.send_flags &= ~IB_SEND_INLINE;
	sge = b.sge[0];
	sge[0].addr = rd->msgs_dma + ((void *)word - rd->msgs);
	sge[2] = sge[0];
	sge[2].addr += L5_HDR;
	sge[1].addr = rd->tx.mr->iova + off + L5_HDR;
	sge[1].length = end - rd->sent - L5_HDR;
	sge[1].lkey = rd->tx.mr->lkey;
	wr->wr.num_sge = 3;
	l5_batch_show(rd, &b, wr);
}

/*
 * L5_NOTIFY_IMM: records, and with them what the receiver's kernel has to
 * write, the length in the header of the first. That wakes who waits by itself.
 */
static void l5_send_imm(struct l5_rdma *rd, u64 end)
{
	struct l5_batch b = { .n = 0 };
	struct ib_rdma_wr *wr;

	l5_batch_ring(rd, &b, rd->sent + L5_HDR, end - rd->sent - L5_HDR, 0);
	wr = &b.wr[b.n - 1];
	wr->wr.opcode = IB_WR_RDMA_WRITE_WITH_IMM;
	wr->wr.ex.imm_data = cpu_to_be32((u32)l5_rdma_header(rd, rd->sent));
	l5_batch_post(rd, &b);
}

/* L5_NOTIFY_SEND: a record by messages, the last of which has its header. */
static void l5_send_copy(struct l5_rdma *rd, u64 end)
{
	struct l5_end *own = &rd->conn->end[rd->end];
	u64 hdr = l5_rdma_header(rd, rd->sent);
	u64 pos = rd->sent + L5_HDR;

	while (pos < end) {
		u32 off = pos & (own->size - 1);
		u32 len = min3((u32)(end - pos), own->size - off,
			       (u32)L5_MSG_BYTES);
		struct l5_batch b = { .n = 0 };
		struct l5_msg *msg = l5_rdma_scratch(rd);
		struct ib_rdma_wr *wr;
		struct ib_sge *sge;

		msg->type = L5_MSG_DATA;
		msg->arg = len;
		msg->pos = pos;
		wr = l5_batch_small(rd, &b, IB_WR_SEND, sizeof(*msg));
		wr->wr.send_flags &= ~IB_SEND_INLINE;
		sge = b.sge[0];
		sge[0].addr = rd->msgs_dma + ((void *)msg - rd->msgs);
		sge[1].addr = rd->tx.mr->iova + off;
		sge[1].length = len;
		sge[1].lkey = rd->tx.mr->lkey;
		wr->wr.num_sge = 2;
		l5_batch_post(rd, &b);
		pos += len;
	}
	l5_rdma_msg(rd, L5_MSG_HEADER, (u32)hdr, rd->sent);
}

/**
 * l5_rdma_span() - how far records go on that are told of together
 * @ring: the ring
 * @pos: where they begin
 * @end: where the first ends
 * @tail: how far to look
 *
 * Both sides of L5_NOTIFY_IMM ask; the receiver finds a word that is 0 there.
 *
 * Return: where the last one ends.
 */
u64 l5_rdma_span(struct l5_end *ring, u64 pos, u64 end, u64 tail)
{
	u64 hdr, next;

	while (end != tail) {
		hdr = l5_load(l5_rdma_word(ring, end));
		if (!l5_rec_valid(ring->size, hdr))
			break;
		next = end + l5_rec_size((u32)hdr);
		if (next - pos > L5_IMM_SPAN || (s64)(next - tail) > 0)
			break;
		end = next;
	}
	return end;
}

/*
 * Where the batch ends that goes next: with two WRITEs all that there is, with
 * immediate data as much of that as the receiver goes through at once, else a
 * record. Return: 0 if the words of a process make no sense.
 */
static u64 l5_batch_end(struct l5_rdma *rd, u64 tail)
{
	struct l5_end *own = &rd->conn->end[rd->end];
	u64 hdr, end;

	/* no record is shorter than a header and as much again */
	if (tail - rd->sent > own->size - L5_HDR || tail & (L5_HDR - 1) ||
	    tail - rd->sent < 2 * L5_HDR)
		return 0;
	if (rd->notify == L5_NOTIFY_TWO)
		return tail;
	hdr = l5_rdma_header(rd, rd->sent);
	if (!l5_rec_valid(own->size, hdr) ||
	    l5_rec_size((u32)hdr) > tail - rd->sent)
		return 0;
	end = rd->sent + l5_rec_size((u32)hdr);
	if (rd->notify == L5_NOTIFY_IMM)
		end = l5_rdma_span(own, rd->sent, end, tail);
	return end;
}

/* Work requests that a batch takes at most. */
static u32 l5_batch_cost(const struct l5_rdma *rd, u64 end)
{
	if (rd->notify == L5_NOTIFY_SEND)
		return (end - rd->sent) / L5_MSG_BYTES + 3;
	return 5;
}

/**
 * l5_rdma_post() - send some of what is published
 * @rd: of this, its lock held, some time after l5_rdma_sends()
 * @tail: where that ends
 *
 * Return: false if the send queue is full, or the queue pair of no more use.
 */
bool l5_rdma_post(struct l5_rdma *rd, u64 tail)
{
	u64 end = l5_batch_end(rd, tail);
	u32 cost = end ? l5_batch_cost(rd, end) : L5_SQ;

	lockdep_assert_held(&rd->lock);
	if (cost + L5_SQ_KEPT > L5_SQ) {
		/* a process scribbled over its own cursors */
		l5_rdma_dead(rd, EPROTO);
		return false;
	}
	if (l5_sq_free(rd) < cost + L5_SQ_KEPT)
		return false;
	switch (rd->notify) {
	case L5_NOTIFY_ONE:
		l5_send_one(rd, end);
		break;
	case L5_NOTIFY_IMM:
		l5_send_imm(rd, end);
		break;
	case L5_NOTIFY_SEND:
		l5_send_copy(rd, end);
		break;
	default:
		l5_send_two(rd, end);
	}
	rd->sent = end;
	rd->info.posts++;
	l5_net_count(rd->ln, L5_STAT_RDMA_POSTS, 1);
	return !l5_rd(rd, L5_RD_DEAD);
}
