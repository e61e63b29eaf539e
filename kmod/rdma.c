// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: rings that RDMA keeps alike on two hosts.
 *
 * Each host has both rings. A record is written into the local copy of the
 * sender's ring, by the very code that shared memory has; what is new there,
 * from the position that the peer has to the tail, then goes to the same place
 * of the peer's copy (Fent et al., ICDE 2020, section V): all of it but the
 * first header word in one RDMA WRITE, then that word in another. The reader
 * polls that word, so it sees nothing of the rest before all of it is there.
 * Records that were published meanwhile go along: a batch costs the same two.
 * The device writes to no other memory here, and its key is good for nothing
 * but this queue pair: each has a protection domain of its own.
 *
 * Heads come back when the writer asks. Once half of its ring is in use it
 * sends ROOM_ARM, and the reader answers when that is read; a reader that is a
 * process and not the kernel sees it in the copy of the peer's wait word.
 *
 * Sleeping. Both ends' kernels take part, no word is polled from afar:
 *
 *   reader's kernel                         writer's kernel, in order
 *
 *   ARM(pos), unless one is out             ARM: if (sent > pos) WAKE
 *   look at the ring                             else armed = 1
 *   if (nothing new) sleep                  publish: WRITE the record
 *   WAKE: none is out; wake                   if (armed) armed = 0, and the
 *                                             last WRITE is also a WAKE
 *
 * pos is where the reader saw the chain of records end. The right column's
 * steps exclude each other by l5_rdma.lock. A queue pair delivers in order, so
 * what made a WAKE is there before it; and what is sent after the ARM was
 * handled finds it armed. While both sides poll there is no ARM and so no
 * interrupt but one for each L5_SIGNAL work requests.
 *
 * The end. TCP's FIN overtakes what is on its way here. So the end of a stream
 * is the message FIN, that comes after the last record, and TCP's own says
 * nothing. A socket that closes leaves its queue pair alone until the peer's
 * device has acknowledged all of it.
 */
#include <linux/sched/mm.h>
#include <linux/siphash.h>
#include <linux/slab.h>
#include <linux/tcp.h>

#include "rdma.h"

/* End of an object that may be looked at without a reference */
static void l5_rdma_free_rcu(struct rcu_head *rcu)
{
	kfree(container_of(rcu, struct l5_rdma, rcu));
}

/**
 * l5_rdma_put() - drop a reference
 * @rd: of this
 *
 * Context: any.
 */
void l5_rdma_put(struct l5_rdma *rd)
{
	if (!refcount_dec_and_test(&rd->ref))
		return;
	mem_cgroup_put(rd->memcg);
	call_rcu(&rd->rcu, l5_rdma_free_rcu);
}

static void l5_rdma_work(struct work_struct *work)
{
	struct l5_rdma *rd = container_of(work, struct l5_rdma, work);

	l5_door_work(rd, xchg(&rd->todo, 0));
	l5_rdma_put(rd);
}

static void l5_rdma_expired(struct work_struct *work)
{
	struct l5_rdma *rd = container_of(work, struct l5_rdma, expire.work);

	l5_rdma_do(rd, L5_DO_EXPIRE);
	l5_rdma_put(rd);
}

/**
 * l5_rdma_alloc() - what an end needs from the first question on
 * @ln: its namespace
 * @gfp: how to allocate
 *
 * Return: it, with one reference, or NULL.
 */
struct l5_rdma *l5_rdma_alloc(struct l5_net *ln, gfp_t gfp)
{
	struct l5_rdma *rd = kzalloc(sizeof(*rd), gfp);
	int i;

	if (!rd)
		return NULL;
	refcount_set(&rd->ref, 1);
	spin_lock_init(&rd->lock);
	INIT_HLIST_NODE(&rd->node);
	INIT_LIST_HEAD(&rd->poll_node);
	INIT_WORK(&rd->work, l5_rdma_work);
	INIT_DELAYED_WORK(&rd->expire, l5_rdma_expired);
	init_waitqueue_head(&rd->wait);
	rd->ln = ln;
	rd->since = jiffies;
	rd->slot_no = -1;
	rd->notify = READ_ONCE(ln->rdma_notify);
	for (i = 0; i < L5_SQ; i++) {
		rd->slots[i].rd = rd;
		rd->slots[i].seq = i;
	}
	set_bit(L5_RD_OPEN, &rd->flags);
	return rd;
}

/* Send queue. Everything from here to l5_rdma_say() is under l5_rdma.lock. */

static u32 l5_sq_free(const struct l5_rdma *rd)
{
	return L5_SQ - (rd->posted - rd->done);
}

static void l5_rdma_wake_all(struct l5_rdma *rd)
{
	wake_up_all(&rd->wait);
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
	l5_rdma_wake_all(rd);
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

static void l5_rdma_wc_error(struct l5_rdma *rd, const struct ib_wc *wc)
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

static void l5_rdma_msg(struct l5_rdma *rd, u32 type, u32 arg, u64 pos)
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

/* Is there a queue pair that sends? Its messages have room always, by count. */
static bool l5_rdma_sends(const struct l5_rdma *rd)
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
		wr->remote_addr = rd->hello.addr + off;
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
		wr->remote_addr = rd->hello.addr;
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
	wr->remote_addr = rd->hello.mailbox_addr;
	wr->rkey = rd->hello.mailbox_rkey;
}

/* A word of a ring that is whole. */
static u64 *l5_rdma_word(struct l5_end *ring, u64 pos)
{
	u32 off = pos & (ring->size - 1) & ~(L5_HDR - 1);

	return page_address(ring->pages[off >> PAGE_SHIFT]) +
	       offset_in_page(off);
}

static u64 l5_rdma_header(struct l5_rdma *rd, u64 pos)
{
	return l5_load(l5_rdma_word(&rd->conn->end[rd->end], pos));
}

/* Did the peer ask to be woken by what is being sent? */
static bool l5_rdma_wakes(struct l5_rdma *rd)
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

/* L5_NOTIFY_TWO: the records, then the word that makes them visible. */
static void l5_send_two(struct l5_rdma *rd, u64 end)
{
	struct l5_end *own = &rd->conn->end[rd->end];
	struct l5_batch b = { .n = 0 };
	struct ib_rdma_wr *wr;

	l5_batch_ring(rd, &b, rd->sent + L5_HDR, end - rd->sent - L5_HDR,
		      l5_rdma_stamp(rd, end));
	*(u64 *)l5_rdma_scratch(rd) = l5_rdma_header(rd, rd->sent) |
				      l5_rdma_stamp(rd, rd->sent);
	wr = l5_batch_small(rd, &b, IB_WR_RDMA_WRITE, L5_HDR);
	wr->remote_addr = rd->hello.addr + (rd->sent & (own->size - 1));
	wr->rkey = rd->hello.rkey;
	if (l5_rdma_wakes(rd)) {
		wr->wr.opcode = IB_WR_RDMA_WRITE_WITH_IMM;
		wr->wr.ex.imm_data = 0;
	}
	l5_batch_mailbox(rd, &b);
	l5_batch_post(rd, &b);
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
	wr->remote_addr = rd->hello.addr + off;
	wr->rkey = rd->hello.rkey;
	if (l5_rdma_wakes(rd)) {
		wr->wr.opcode = IB_WR_RDMA_WRITE_WITH_IMM;
		wr->wr.ex.imm_data = 0;
	}
	l5_batch_mailbox(rd, &b);
	l5_batch_post(rd, &b);
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

/*
 * How far records go on that are told of together, from the end of the first.
 * Both sides of L5_NOTIFY_IMM ask; the receiver finds a word that is 0 there.
 */
static u64 l5_rdma_span(struct l5_end *ring, u64 pos, u64 end, u64 tail)
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
static u64 l5_rdma_batch_end(struct l5_rdma *rd, u64 tail)
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
static u32 l5_rdma_batch_cost(const struct l5_rdma *rd, u64 end)
{
	if (rd->notify == L5_NOTIFY_SEND)
		return (end - rd->sent) / L5_MSG_BYTES + 3;
	return 5;
}

static void l5_rdma_batch(struct l5_rdma *rd, u64 end)
{
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
}

/*
 * Ask for room before there is none, and for as much as a waiter needs. A peer
 * whose queue pair is gone does not answer, and its device only to a request:
 * so the question is asked again, as TCP probes a window that is closed.
 */
static void l5_rdma_ask_room(struct l5_rdma *rd, u32 low)
{
	if (l5_rd(rd, L5_RD_ROOM) || !l5_rdma_sends(rd))
		return;
	set_bit(L5_RD_ROOM, &rd->flags);
	rd->ask_low = low;
	l5_rdma_probe(rd);
}

/**
 * l5_rdma_probe() - ask for the room that was asked for
 * @rd: of this, its lock held
 */
void l5_rdma_probe(struct l5_rdma *rd)
{
	struct l5_end *own = &rd->conn->end[rd->end];

	lockdep_assert_held(&rd->lock);
	if (!l5_rdma_sends(rd)) {
		/* full of what is not complete; that is looked after */
		if (!l5_rd(rd, L5_RD_DEAD))
			l5_door_expire(rd, L5_TICK);
		return;
	}
	l5_rdma_say(rd, L5_MSG_ROOM_ARM, rd->ask_low,
		    l5_load(&own->ctrl->tx_tail));
	/* the first that is not complete says since when nothing is */
	if ((s32)(rd->done - rd->probe_no) >= 0) {
		rd->probe_no = rd->posted;
		rd->probe_at = jiffies;
	}
	l5_door_expire(rd, L5_TICK);
}

/* The last message, also of an end that never moved. */
static void l5_rdma_bye(struct l5_rdma *rd)
{
	if (l5_rd(rd, L5_RD_CLOSE) &&
	    !test_and_set_bit(L5_RD_CLOSE_SAID, &rd->flags))
		l5_rdma_say(rd, L5_MSG_CLOSE, 0,
			    l5_load(&rd->conn->end[rd->end].ctrl->rx_head));
}

/**
 * l5_rdma_push_locked() - send what is published, and then the end
 * @rd: of this, its lock held
 *
 * What finds no place in the send queue goes when others are complete.
 */
void l5_rdma_push_locked(struct l5_rdma *rd)
{
	struct l5_end *own, *peer;
	u64 tail, head, end;
	u32 cost;

	lockdep_assert_held(&rd->lock);
	/* the peer reads TCP up to where it knows that it ends there */
	if (!l5_rdma_sends(rd) ||
	    (l5_rd(rd, L5_RD_CUT) && !l5_rd(rd, L5_RD_ACKED)))
		return;
	if (!l5_rd(rd, L5_RD_CUT)) {
		l5_rdma_bye(rd);
		return;
	}
	own = &rd->conn->end[rd->end];
	peer = &rd->conn->end[!rd->end];
	/* W, pairs with V in l5_prod_publish(): the tail, then the rest */
	tail = l5_load_acquire(&own->ctrl->tx_tail);
	while (rd->sent != tail && !l5_rd(rd, L5_RD_DEAD)) {
		end = l5_rdma_batch_end(rd, tail);
		cost = end ? l5_rdma_batch_cost(rd, end) : L5_SQ;
		if (cost + L5_SQ_KEPT > L5_SQ) {
			/* a process scribbled over its own cursors */
			l5_rdma_dead(rd, EPROTO);
			return;
		}
		if (l5_sq_free(rd) < cost + L5_SQ_KEPT)
			return;
		l5_rdma_batch(rd, end);
		head = l5_load(&peer->ctrl->rx_head);
		if (rd->sent - head > own->size / 2)
			l5_rdma_ask_room(rd, own->size / 2);
	}
	if (l5_rd(rd, L5_RD_FIN) &&
	    !test_and_set_bit(L5_RD_FIN_SAID, &rd->flags))
		l5_rdma_say(rd, L5_MSG_FIN, 0, rd->sent);
	l5_rdma_bye(rd);
}

/**
 * l5_rdma_flushed() - does the peer's device have all that is to be sent?
 * @rd: of this
 */
bool l5_rdma_flushed(const struct l5_rdma *rd)
{
	return l5_rd(rd, L5_RD_DEAD) ||
	       (l5_rd(rd, L5_RD_CLOSE_SAID) &&
		READ_ONCE(rd->close_no) &&
		(s32)(READ_ONCE(rd->done) - READ_ONCE(rd->close_no)) >= 0);
}

/* The interface of ring.c, map.c and io.c, for connections that have it */

/**
 * l5_rdma_push() - something was published
 * @conn: where
 * @bell: a process rings for it
 *
 * With softirqs off, so that a device that is software runs when they are on
 * again and not when its thread is next scheduled.
 *
 * Context: process.
 */
void l5_rdma_push(struct l5_conn *conn, bool bell)
{
	struct l5_rdma *rd = conn->rdma;
	u64 before;

	spin_lock_bh(&rd->lock);
	before = rd->info.posts;
	l5_rdma_push_locked(rd);
	if (bell)
		rd->info.bells += rd->info.posts - before;
	/* a mapping may outlive the namespace; a queue pair keeps it */
	if (bell && !l5_rd(rd, L5_RD_DEAD))
		l5_poller_kick(rd->ln);
	spin_unlock_bh(&rd->lock);
}

/**
 * l5_rdma_arm() - the receiver is about to sleep: have the peer tell
 * @l5: the socket; looks at its ring after this
 */
void l5_rdma_arm(struct l5_sock *l5)
{
	struct l5_rdma *rd = l5->conn->rdma;
	u64 pos;

	if (!rd || l5_rd(rd, L5_RD_ARM))
		return;
	/* each record of such a sender passes here, see l5_got_header() */
	if (rd->hello.notify == L5_NOTIFY_IMM ||
	    rd->hello.notify == L5_NOTIFY_SEND)
		return;
	pos = l5_ring_seen(l5, READ_ONCE(rd->arm_pos));
	spin_lock_bh(&rd->lock);
	if (l5_rdma_sends(rd) && !test_and_set_bit(L5_RD_ARM, &rd->flags)) {
		rd->arm_pos = pos;
		l5_rdma_msg(rd, L5_MSG_ARM, 0, pos);
	}
	spin_unlock_bh(&rd->lock);
}

/**
 * l5_rdma_arm_room() - the sender is about to sleep: have the peer tell
 * @l5: the socket; looks at its room after this
 * @low: bytes in use that leave enough
 */
void l5_rdma_arm_room(struct l5_sock *l5, u32 low)
{
	struct l5_rdma *rd = l5->conn->rdma;

	if (!rd)
		return;
	spin_lock_bh(&rd->lock);
	l5_rdma_ask_room(rd, low);
	spin_unlock_bh(&rd->lock);
}

/* The reader has left room that the peer asked for. */
static void l5_rdma_room(struct l5_rdma *rd)
{
	struct l5_end *own = &rd->conn->end[rd->end];
	struct l5_end *peer = &rd->conn->end[!rd->end];
	u64 head;

	lockdep_assert_held(&rd->lock);
	head = l5_load(&own->ctrl->rx_head);
	if ((s64)(l5_load(&peer->ctrl->tx_tail) - head) > (s64)rd->room_low)
		return;
	if (!l5_load(&peer->ctrl->tx_wait) || !l5_rdma_sends(rd))
		return;
	l5_wait_clear(&peer->ctrl->tx_wait);
	l5_rdma_msg(rd, L5_MSG_ROOM, 0, head);
}

/**
 * l5_rdma_bell() - there is room, if the peer wants it
 * @conn: where
 */
void l5_rdma_bell(struct l5_conn *conn)
{
	struct l5_rdma *rd = conn->rdma;

	spin_lock_bh(&rd->lock);
	l5_rdma_room(rd);
	spin_unlock_bh(&rd->lock);
}

/**
 * l5_rdma_fin() - this end writes no more
 * @conn: where
 */
void l5_rdma_fin(struct l5_conn *conn)
{
	struct l5_rdma *rd = conn->rdma;

	spin_lock_bh(&rd->lock);
	set_bit(L5_RD_FIN, &rd->flags);
	l5_rdma_push_locked(rd);
	spin_unlock_bh(&rd->lock);
}

/* Messages from the peer's kernel, which is trusted as little as a process. */

static void l5_got_arm(struct l5_rdma *rd, u64 pos)
{
	spin_lock(&rd->lock);
	set_bit(L5_RD_PEER_ARM, &rd->flags);
	if ((s64)(rd->sent - pos) > 0 && l5_rdma_wakes(rd))
		l5_rdma_say(rd, L5_MSG_WAKE, 0, 0);
	spin_unlock(&rd->lock);
}

/* Its own receiver may look again; then it arms again. */
static void l5_got_wake(struct l5_rdma *rd)
{
	clear_bit(L5_RD_ARM, &rd->flags);
	/* X, pairs with the look at it in l5_rdma_arm(): clear, then wake */
	smp_mb__after_atomic();
	l5_conn_bell(rd->conn, rd->end, false);
}

static void l5_got_room_arm(struct l5_rdma *rd, u64 tail, u32 low)
{
	struct l5_end *peer = &rd->conn->end[!rd->end];

	spin_lock(&rd->lock);
	rd->room_low = low;
	l5_store(&peer->ctrl->tx_tail, tail);
	/* E and F: the wait word, then the head; the reader the other way */
	l5_wait_arm(&peer->ctrl->tx_wait);
	l5_rdma_room(rd);
	spin_unlock(&rd->lock);
}

static void l5_got_room(struct l5_rdma *rd, u64 head)
{
	struct l5_end *peer = &rd->conn->end[!rd->end];

	/* D, pairs with C: it is checked where it is used */
	l5_store_release(&peer->ctrl->rx_head, head);
	clear_bit(L5_RD_ROOM, &rd->flags);
	smp_mb__after_atomic();
	l5_conn_bell(rd->conn, rd->end, true);
}

static void l5_got_fin(struct l5_rdma *rd)
{
	spin_lock(&rd->lock);
	set_bit(L5_RD_PEER_FIN, &rd->flags);
	set_bit(L5_END_FIN, &rd->conn->end[!rd->end].flags);
	spin_unlock(&rd->lock);
	l5_map_flag(&rd->conn->end[rd->end], L5_MAP_RX_ASK);
	l5_mailbox_set(rd);
	l5_conn_changed(rd->conn, rd->end);
}

static void l5_got_close(struct l5_rdma *rd, u64 head)
{
	/* D, pairs with C: who polls for room is to find it, and the end */
	l5_store_release(&rd->conn->end[!rd->end].ctrl->rx_head, head);
	spin_lock(&rd->lock);
	set_bit(L5_RD_PEER_CLOSED, &rd->flags);
	set_bit(L5_END_CLOSED, &rd->conn->end[!rd->end].flags);
	spin_unlock(&rd->lock);
	l5_map_flag(&rd->conn->end[rd->end], L5_MAP_TX_ASK);
	l5_conn_changed(rd->conn, rd->end);
	l5_rdma_wake_all(rd);
	/* what it did not read TCP would have answered by a reset */
	if ((s64)(l5_load(&rd->conn->end[rd->end].ctrl->tx_tail) - head) > 0)
		l5_rdma_do(rd, L5_DO_UNREAD);
}

/* Bytes for a place in the ring that the peer writes. */
static void l5_got_data(struct l5_rdma *rd, const struct l5_msg *msg, u32 have)
{
	struct l5_end *ring = &rd->conn->end[!rd->end];
	const void *from = msg + 1;
	u64 pos = msg->pos;
	u32 len = msg->arg;

	if (len > have || rd->hello.notify != L5_NOTIFY_SEND) {
		l5_rdma_dead(rd, EPROTO);
		return;
	}
	while (len) {
		u32 off = pos & (ring->size - 1);
		u32 part = min_t(u32, len, PAGE_SIZE - offset_in_page(off));

		memcpy(page_address(ring->pages[off >> PAGE_SHIFT]) +
		       offset_in_page(off), from, part);
		pos += part;
		from += part;
		len -= part;
	}
}

/* Write the header word that makes what came before it visible. */
static void l5_got_record(struct l5_rdma *rd, u64 pos, u32 len)
{
	struct l5_end *ring = &rd->conn->end[!rd->end];

	/* A, pairs with B */
	l5_store_release(l5_rdma_word(ring, pos),
			 (u64)L5_REC_VALID << 32 | len);
	l5_mailbox_set(rd);
	/* F, pairs with E */
	if (l5_wait_armed(&rd->conn->end[rd->end].ctrl->rx_wait))
		l5_got_wake(rd);
}

static void l5_got_header(struct l5_rdma *rd, u64 pos, u32 len)
{
	struct l5_end *ring = &rd->conn->end[!rd->end];

	if (!len || len > l5_rec_max(ring->size) || pos & (L5_HDR - 1)) {
		l5_rdma_dead(rd, EPROTO);
		return;
	}
	l5_store(l5_rdma_word(ring, pos + l5_rec_size(len)), 0);
	l5_got_record(rd, pos, len);
}

/*
 * Of immediate data there are 32 bits, enough for a length: so the positions
 * are counted here. The records that came along have their headers already.
 */
static void l5_got_imm(struct l5_rdma *rd, u32 len)
{
	struct l5_end *ring = &rd->conn->end[!rd->end];
	u64 pos = rd->imm_pos, end;

	if (rd->hello.notify != L5_NOTIFY_IMM) {
		l5_got_wake(rd);
		return;
	}
	if (!len || len > l5_rec_max(ring->size)) {
		l5_rdma_dead(rd, EPROTO);
		return;
	}
	end = pos + l5_rec_size(len);
	if (end - pos < L5_IMM_SPAN)
		end = l5_rdma_span(ring, pos, end, pos + L5_IMM_SPAN);
	rd->imm_pos = end;
	l5_got_record(rd, pos, len);
}

static void l5_got(struct l5_rdma *rd, const struct l5_msg *msg, u32 len)
{
	switch (msg->type) {
	case L5_MSG_READY:
		l5_move_ready(rd);
		break;
	case L5_MSG_CUT:
		l5_move_cut_in(rd, msg->arg);
		break;
	case L5_MSG_CUT_ACK:
		l5_move_acked(rd);
		break;
	case L5_MSG_ARM:
		l5_got_arm(rd, msg->pos);
		break;
	case L5_MSG_WAKE:
		l5_got_wake(rd);
		break;
	case L5_MSG_ROOM_ARM:
		l5_got_room_arm(rd, msg->pos, msg->arg);
		break;
	case L5_MSG_ROOM:
		l5_got_room(rd, msg->pos);
		break;
	case L5_MSG_FIN:
		l5_got_fin(rd);
		break;
	case L5_MSG_CLOSE:
		l5_got_close(rd, msg->pos);
		break;
	case L5_MSG_DATA:
		l5_got_data(rd, msg, len);
		break;
	case L5_MSG_HEADER:
		l5_got_header(rd, msg->pos, msg->arg);
		break;
	default:
		l5_rdma_dead(rd, EPROTO);
	}
}

static void l5_rdma_received(struct ib_cq *cq, struct ib_wc *wc);

static struct l5_rdma *l5_rdma_of(const struct ib_wc *wc)
{
	return wc->qp->qp_context;
}

static int l5_rdma_post_recv(struct l5_rdma *rd, u32 i)
{
	struct ib_sge sge = {
		.addr = rd->bufs_dma + i * rd->buf_len,
		.length = rd->buf_len,
		.lkey = rd->pd->local_dma_lkey,
	};
	struct ib_recv_wr wr = {
		.wr_cqe = &rd->recvs[i],
		.sg_list = &sge,
		.num_sge = 1,
	};

	rd->recvs[i].done = l5_rdma_received;
	return ib_post_recv(rd->id->qp, &wr, NULL);
}

static void l5_rdma_received(struct ib_cq *cq, struct ib_wc *wc)
{
	struct l5_rdma *rd = l5_rdma_of(wc);
	u32 i = wc->wr_cqe - rd->recvs;
	struct l5_msg *msg = rd->bufs + i * rd->buf_len;

	if (wc->status != IB_WC_SUCCESS) {
		l5_rdma_wc_error(rd, wc);
		return;
	}
	if (wc->opcode == IB_WC_RECV_RDMA_WITH_IMM)
		l5_got_imm(rd, be32_to_cpu(wc->ex.imm_data));
	else if (wc->byte_len >= sizeof(*msg))
		l5_got(rd, msg, wc->byte_len - sizeof(*msg));
	else
		l5_rdma_dead(rd, EPROTO);
	/* nothing is posted while the queue pair is drained */
	spin_lock(&rd->lock);
	if (!l5_rd(rd, L5_RD_DEAD) && l5_rdma_post_recv(rd, i))
		l5_rdma_dead(rd, ECONNRESET);
	spin_unlock(&rd->lock);
}

static void l5_rdma_registered(struct ib_cq *cq, struct ib_wc *wc)
{
	if (wc->status != IB_WC_SUCCESS)
		l5_rdma_wc_error(l5_rdma_of(wc), wc);
}

/* Resources */

/**
 * l5_rdma_max_size() - the longest ring that the device can register
 * @rd: whose @id has a device
 *
 * Return: bytes, a power of two.
 */
u32 l5_rdma_max_size(const struct l5_rdma *rd)
{
	u64 max = (u64)rd->id->device->attrs.max_fast_reg_page_list_len
		  << PAGE_SHIFT;
	u32 own = READ_ONCE(rd->ln->ring_max_kb) << 10;

	return rounddown_pow_of_two(clamp_t(u64, max, L5_RING_MIN, own));
}

static void *l5_rdma_buffer(struct l5_rdma *rd, size_t len, u64 *dma)
{
	struct ib_device *dev = rd->id->device;
	void *p = alloc_pages_exact(len, GFP_KERNEL_ACCOUNT | __GFP_ZERO |
				    __GFP_NOWARN);

	if (!p)
		return NULL;
	*dma = ib_dma_map_single(dev, p, len, DMA_BIDIRECTIONAL);
	if (ib_dma_mapping_error(dev, *dma)) {
		free_pages_exact(p, len);
		return NULL;
	}
	return p;
}

static void l5_rdma_unbuffer(struct l5_rdma *rd, void **p, size_t len, u64 dma)
{
	if (!*p)
		return;
	ib_dma_unmap_single(rd->id->device, dma, len, DMA_BIDIRECTIONAL);
	free_pages_exact(*p, len);
	*p = NULL;
}

static size_t l5_rdma_bufs_len(const struct l5_rdma *rd)
{
	return L5_RQ * rd->buf_len;
}

static int l5_rdma_qp(struct l5_rdma *rd)
{
	struct ib_qp_init_attr attr = {
		.qp_context = rd,
		.send_cq = rd->cq,
		.recv_cq = rd->cq,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.qp_type = IB_QPT_RC,
		/* and registrations, and what draining takes */
		.cap.max_send_wr = L5_SQ + 8,
		.cap.max_recv_wr = L5_RQ + 1,
		.cap.max_send_sge = 3,
		.cap.max_recv_sge = 1,
		.cap.max_inline_data = L5_INLINE,
	};
	int err;

	err = rdma_create_qp(rd->id, rd->pd, &attr);
	if (err) {
		attr.cap.max_inline_data = 0;
		err = rdma_create_qp(rd->id, rd->pd, &attr);
	}
	rd->inline_max = attr.cap.max_inline_data;
	return err;
}

static int l5_region_alloc(struct l5_rdma *rd, struct l5_region *r, u32 n)
{
	struct ib_mr *mr = ib_alloc_mr(rd->pd, IB_MR_TYPE_MEM_REG, n);

	if (IS_ERR(mr))
		return PTR_ERR(mr);
	r->mr = mr;
	return 0;
}

static void l5_region_free(struct l5_rdma *rd, struct l5_region *r)
{
	if (r->mr)
		ib_dereg_mr(r->mr);
	if (r->n)
		ib_dma_unmap_sg(rd->id->device, r->sg, r->n, r->dir);
	kvfree(r->sg);
	memset(r, 0, sizeof(*r));
}

/* Give the device @n pages of a region, or a part of one. */
static int l5_region_map(struct l5_rdma *rd, struct l5_region *r,
			 struct page **pages, int n, u32 off, u32 len,
			 enum dma_data_direction dir, u64 iova)
{
	int i, m;

	r->sg = kvcalloc(n, sizeof(*r->sg), GFP_KERNEL_ACCOUNT);
	if (!r->sg)
		return -ENOMEM;
	sg_init_table(r->sg, n);
	for (i = 0; i < n; i++)
		sg_set_page(&r->sg[i], pages[i], len, off);
	m = ib_dma_map_sg(rd->id->device, r->sg, n, dir);
	if (!m)
		return -EIO;
	r->n = n;
	r->dir = dir;
	m = ib_map_mr_sg(r->mr, r->sg, m, NULL, PAGE_SIZE);
	if (m <= 0 || r->mr->length != (u64)n * len)
		return m < 0 ? m : -EIO;
	r->mr->iova = iova + off;
	return 0;
}

/* Valid once the work requests before the next one are done. */
static int l5_region_post(struct l5_rdma *rd, struct l5_region *r, int access)
{
	struct ib_reg_wr wr = {
		.wr.wr_cqe = &rd->reg_cqe,
		.wr.opcode = IB_WR_REG_MR,
		.mr = r->mr,
		.key = access & IB_ACCESS_REMOTE_WRITE ? r->mr->rkey :
							 r->mr->lkey,
		.access = access,
	};

	rd->reg_cqe.done = l5_rdma_registered;
	return ib_post_send(rd->id->qp, &wr.wr, NULL);
}

/* One more, if the namespace may have one. */
static bool l5_rdma_count(struct l5_rdma *rd)
{
	struct l5_net *ln = rd->ln;

	if (atomic_inc_return(&ln->rdma_now) > (int)READ_ONCE(ln->rdma_max)) {
		atomic_dec(&ln->rdma_now);
		return false;
	}
	set_bit(L5_RD_COUNTED, &rd->flags);
	return true;
}

/* Devices whose packets are made by a CPU of this host */
static bool l5_rdma_software(const struct ib_device *dev)
{
	return dev->ops.driver_id == RDMA_DRIVER_RXE ||
	       dev->ops.driver_id == RDMA_DRIVER_SIW;
}

/**
 * l5_rdma_create() - make a queue pair, not connected yet
 * @rd: whose @id has a device
 *
 * Context: may sleep.
 * Return: 0, -EDQUOT at the namespace's limit, or why not.
 */
int l5_rdma_create(struct l5_rdma *rd)
{
	struct ib_device *dev = rd->id->device;
	u32 pages = l5_rdma_max_size(rd) >> PAGE_SHIFT;
	int err;

	if (!(dev->attrs.device_cap_flags & IB_DEVICE_MEM_MGT_EXTENSIONS))
		return -EOPNOTSUPP;
	if (!l5_rdma_count(rd))
		return -EDQUOT;
	if (rd->notify == L5_NOTIFY_AUTO)
		rd->notify = l5_rdma_software(dev) ? L5_NOTIFY_IMM :
						     L5_NOTIFY_TWO;
	rd->pd = ib_alloc_pd(dev, 0);
	if (IS_ERR(rd->pd)) {
		err = PTR_ERR(rd->pd);
		rd->pd = NULL;
		return err;
	}
	rd->cq = ib_alloc_cq_any(dev, rd, L5_SQ + L5_RQ + 16, IB_POLL_SOFTIRQ);
	if (IS_ERR(rd->cq)) {
		err = PTR_ERR(rd->cq);
		rd->cq = NULL;
		return err;
	}
	err = l5_rdma_qp(rd);
	if (err)
		return err;
	rd->msgs = l5_rdma_buffer(rd, L5_SQ * sizeof(struct l5_msg),
				  &rd->msgs_dma);
	if (!rd->msgs)
		return -ENOMEM;
	err = l5_region_alloc(rd, &rd->rx, pages);
	if (!err)
		err = l5_region_alloc(rd, &rd->tx, pages);
	if (!err && rd->mailbox)
		err = l5_region_alloc(rd, &rd->box, 1);
	return err;
}

/**
 * l5_rdma_proof() - show that an end knows the secret, without saying it
 * @key: the secret
 * @server: who shows it
 *
 * Any user of a host may answer on ports of rdma_cm where nobody else does.
 */
u64 l5_rdma_proof(u64 key, bool server)
{
	static const siphash_key_t fixed = {
		.key = { 0x4c35524450524f4fULL, 0x4620302031323334ULL }
	};

	return siphash_2u64(key, server, &fixed);
}

/**
 * l5_rdma_hello() - what the peer has to know
 * @rd: of this end
 * @hello: filled in but for the sizes
 */
void l5_rdma_hello(struct l5_rdma *rd, struct l5_hello *hello)
{
	hello->magic = cpu_to_be32(L5_MAGIC);
	hello->version = L5_VERSION;
	hello->notify = rd->notify;
	hello->endian = L5_ENDIAN;
	hello->key = l5_rdma_proof(rd->key, rd->server);
	hello->max_size = l5_rdma_max_size(rd);
	hello->rkey = rd->rx.mr->rkey;
	hello->addr = L5_IOVA_RING;
	if (rd->box.mr) {
		hello->mailbox_rkey = rd->box.mr->rkey;
		hello->mailbox_addr = L5_IOVA_MAILBOX + rd->slot_no;
	}
}

/**
 * l5_rdma_rings() - make the rings, and show them to the device
 * @rd: this end's
 * @client: size of the one that the connecting end writes
 * @server: of the other
 *
 * Context: may sleep.
 * Return: 0, -EDQUOT at the namespace's limit, -ENOMEM, -EIO.
 */
int l5_rdma_rings(struct l5_rdma *rd, u32 client, u32 server)
{
	struct l5_end *own = &rd->conn->end[rd->end];
	struct l5_end *peer = &rd->conn->end[!rd->end];
	struct page *page;
	int err;

	if (!l5_conn_fix(rd->conn, client, server))
		return -EDQUOT;
	err = l5_ring_populate(rd->conn);
	if (!err)
		err = l5_region_map(rd, &rd->tx, own->pages,
				    own->size >> PAGE_SHIFT, 0, PAGE_SIZE,
				    DMA_TO_DEVICE, L5_IOVA_RING);
	if (!err)
		err = l5_region_map(rd, &rd->rx, peer->pages,
				    peer->size >> PAGE_SHIFT, 0, PAGE_SIZE,
				    DMA_FROM_DEVICE, L5_IOVA_RING);
	if (!err && rd->box.mr) {
		page = l5_mailbox_page(rd->mailbox);
		err = l5_region_map(rd, &rd->box, &page, 1, rd->slot_no, 1,
				    DMA_FROM_DEVICE, L5_IOVA_MAILBOX);
	}
	return err;
}

/**
 * l5_rdma_up() - the queue pair is connected: let the peer write
 * @rd: of this end
 *
 * Context: may sleep.
 * Return: 0 or why not.
 */
int l5_rdma_up(struct l5_rdma *rd)
{
	const int remote = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE;
	u32 i;
	int err;

	rd->buf_len = sizeof(struct l5_msg);
	if (rd->hello.notify == L5_NOTIFY_SEND)
		rd->buf_len += L5_MSG_BYTES;
	rd->bufs = l5_rdma_buffer(rd, l5_rdma_bufs_len(rd), &rd->bufs_dma);
	if (!rd->bufs)
		return -ENOMEM;
	for (i = 0, err = 0; i < L5_RQ && !err; i++)
		err = l5_rdma_post_recv(rd, i);
	if (!err)
		err = l5_region_post(rd, &rd->tx, IB_ACCESS_LOCAL_WRITE);
	if (!err)
		err = l5_region_post(rd, &rd->rx, remote);
	if (!err && rd->box.mr)
		err = l5_region_post(rd, &rd->box, remote);
	if (err)
		return err;
	spin_lock_bh(&rd->lock);
	/* see l5_move_stop() */
	if (!l5_rd(rd, L5_RD_OPEN)) {
		spin_unlock_bh(&rd->lock);
		return -ECANCELED;
	}
	set_bit(L5_RD_UP, &rd->flags);
	l5_rdma_say(rd, L5_MSG_READY, 0, 0);
	set_bit(L5_RD_READY, &rd->flags);
	spin_unlock_bh(&rd->lock);
	return 0;
}

/**
 * l5_rdma_drain() - send no more, and hear all that has come
 * @rd: of this end
 *
 * Context: may sleep.
 */
void l5_rdma_drain(struct l5_rdma *rd)
{
	if (!rd->id || !rd->id->qp)
		return;
	rdma_disconnect(rd->id);
	ib_drain_qp(rd->id->qp);
}

/**
 * l5_rdma_destroy() - give back all that the device has of this
 * @rd: drained
 *
 * Context: may sleep. Afterwards there are no more events.
 */
void l5_rdma_destroy(struct l5_rdma *rd)
{
	if (!rd->id)
		return;
	if (rd->id->qp)
		rdma_destroy_qp(rd->id);
	if (rd->cq)
		ib_free_cq(rd->cq);
	l5_region_free(rd, &rd->tx);
	l5_region_free(rd, &rd->rx);
	l5_region_free(rd, &rd->box);
	l5_rdma_unbuffer(rd, &rd->msgs, L5_SQ * sizeof(struct l5_msg),
			 rd->msgs_dma);
	l5_rdma_unbuffer(rd, &rd->bufs, l5_rdma_bufs_len(rd), rd->bufs_dma);
	if (rd->pd)
		ib_dealloc_pd(rd->pd);
	rd->pd = NULL;
	rd->cq = NULL;
	if (test_and_clear_bit(L5_RD_COUNTED, &rd->flags))
		atomic_dec(&rd->ln->rdma_now);
	/* what keeps the namespace of a closed socket */
	rdma_destroy_id(rd->id);
	rd->id = NULL;
}
