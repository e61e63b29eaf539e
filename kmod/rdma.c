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
 * is the message FIN, that comes after the last record and says where that
 * ends, and TCP's own says nothing. A socket that closes leaves its queue pair
 * alone until the peer's device has acknowledged all of it.
 */
#include "rdma.h"

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
	u64 tail, head;

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
	while (rd->sent != tail) {
		if (!l5_rdma_post(rd, tail))
			return;
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
	if (rd->peer_notify == L5_NOTIFY_IMM ||
	    rd->peer_notify == L5_NOTIFY_SEND)
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
	/* as X: clear, then wake who asks again */
	smp_mb__after_atomic();
	l5_conn_bell(rd->conn, rd->end, true);
}

static void l5_got_fin(struct l5_rdma *rd, u64 pos)
{
	spin_lock(&rd->lock);
	if (!l5_rd(rd, L5_RD_PEER_FIN))
		WRITE_ONCE(rd->fin_pos, pos);
	/* AL, pairs with AL in l5_rdma_all_here(): where, then that */
	smp_wmb();
	set_bit(L5_RD_PEER_FIN, &rd->flags);
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
	if (l5_rd(rd, L5_RD_FIN_WAITS))
		l5_rdma_do(rd, L5_DO_FIN);
	spin_unlock(&rd->lock);
	l5_map_flag(&rd->conn->end[rd->end], L5_MAP_TX_ASK);
	l5_conn_changed(rd->conn, rd->end);
	wake_up_all(&rd->wait);
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

	if (len > have || rd->peer_notify != L5_NOTIFY_SEND) {
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
	struct l5_end *own = &rd->conn->end[rd->end];

	/* A, pairs with B */
	l5_store_release(l5_rdma_word(ring, pos),
			 (u64)L5_REC_VALID << 32 | len);
	l5_mailbox_set(rd);
	/* F, pairs with E */
	if (l5_wait_armed(&own->ctrl->rx_wait) || l5_end_async(own))
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

	if (rd->peer_notify != L5_NOTIFY_IMM) {
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
		l5_got_fin(rd, msg->pos);
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

/**
 * l5_rdma_heard() - the peer sends already
 * @rd: of this end
 *
 * A server waits for the word that its answer has come; what comes by the queue
 * pair says so, too, and the word may be lost. The queue pair can send since
 * before the answer, so nothing else is needed. The connection manager goes on
 * repeating the answer until it hears the word itself. It is not told by
 * rdma_notify(): if the connection ends before its work for that has run, in
 * all kernels up to 6.12 at least, nothing ends the repeating any more, and
 * rdma_destroy_id() waits for a minute until it has come to its own end.
 *
 * Context: any.
 */
void l5_rdma_heard(struct l5_rdma *rd)
{
	if (rd->server && !l5_rd(rd, L5_RD_UP))
		l5_rdma_do(rd, L5_DO_UP);
}

/*
 * Before this end is up, and has told the peer that it may write here, there is
 * nothing else for the peer to say than the same, and that it closes.
 */
static void l5_got_early(struct l5_rdma *rd, const struct ib_wc *wc,
			 const struct l5_msg *msg)
{
	bool early = wc->opcode == IB_WC_RECV &&
		     wc->byte_len >= sizeof(*msg) &&
		     (msg->type == L5_MSG_READY || msg->type == L5_MSG_CLOSE);

	if (!early) {
		l5_rdma_dead(rd, EPROTO);
		return;
	}
	l5_got(rd, msg, 0);
	l5_rdma_heard(rd);
}

static void l5_rdma_received(struct ib_cq *cq, struct ib_wc *wc);

/**
 * l5_rdma_post_recv() - have a buffer for the next message
 * @rd: of this
 * @i: which one
 *
 * Return: 0 or why not.
 */
int l5_rdma_post_recv(struct l5_rdma *rd, u32 i)
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
	/* the queue pair may be gone, where the device could not be drained */
	struct l5_rdma *rd = cq->cq_context;
	u32 i = wc->wr_cqe - rd->recvs;
	struct l5_msg *msg = rd->bufs + i * rd->buf_len;

	if (wc->status != IB_WC_SUCCESS) {
		l5_rdma_wc_error(rd, wc);
		return;
	}
	if (!l5_rd(rd, L5_RD_UP))
		l5_got_early(rd, wc, msg);
	else if (wc->opcode == IB_WC_RECV_RDMA_WITH_IMM)
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
