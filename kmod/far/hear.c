// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5 between hosts: what the peer's kernel says, by messages and by
 * immediate data. It is trusted as little as a process.
 */
#include "far.h"

/*
 * A receiver that is told of the same bytes so often, and each time finds no
 * record in them, will not find one: the process that published them lied. A
 * receiver with many tasks may have looked some times before it was told.
 */
#define L5_ARMS_MAX	64

static bool l5_arm_in_vain(struct l5_far *far, u64 pos)
{
	lockdep_assert_held(&far->lock);
	if (pos != far->peer_arm || far->sent != far->peer_arm_sent) {
		far->peer_arm = pos;
		far->peer_arm_sent = far->sent;
		far->peer_arms = 0;
	}
	return ++far->peer_arms > L5_ARMS_MAX;
}

static void l5_got_arm(struct l5_far *far, u64 pos)
{
	bool vain = false;

	spin_lock(&far->lock);
	set_bit(L5_FAR_PEER_ARM, &far->flags);
	if ((s64)(far->sent - pos) > 0 && l5_far_wakes(far)) {
		vain = l5_arm_in_vain(far, pos);
		l5_far_say(far, L5_MSG_WAKE, 0, 0);
	}
	spin_unlock(&far->lock);
	if (vain)
		l5_far_dead(far, EPROTO);
}

static void l5_got_room_arm(struct l5_far *far, u64 tail, u32 low)
{
	struct l5_end *peer = &far->conn->end[!far->end];

	spin_lock(&far->lock);
	far->room_low = low;
	l5_store(&peer->ctrl->tx_tail, tail);
	/* E and F: the wait word, then the head; the reader the other way */
	l5_wait_arm(&peer->ctrl->tx_wait);
	l5_far_room(far);
	l5_spill_asked(far);
	spin_unlock(&far->lock);
}

static void l5_got_room(struct l5_far *far, u64 head)
{
	struct l5_end *peer = &far->conn->end[!far->end];

	/* D, pairs with C: it is checked where it is used */
	l5_store_release(&peer->ctrl->rx_head, head);
	clear_bit(L5_FAR_ROOM, &far->flags);
	/* as X: clear, then wake the sender, which asks again */
	smp_mb__after_atomic();
	l5_conn_bell(far->conn, far->end, true);
}

static void l5_got_fin(struct l5_far *far, u64 pos)
{
	int step;

	spin_lock(&far->lock);
	if (!l5_in_fin(&far->ph))
		WRITE_ONCE(far->fin_pos, pos);
	/* AL, pairs with AL in l5_far_all_here(): the place, then the phase */
	step = l5_in_to(&far->ph, L5_IN_FIN);
	spin_unlock(&far->lock);
	if (step < 0) {
		l5_far_dead(far, -step);
		return;
	}
	l5_map_flag(&far->conn->end[far->end], L5_MAP_RX_ASK);
	l5_mailbox_set(far);
	l5_conn_changed(far->conn, far->end);
}

static void l5_got_close(struct l5_far *far, u64 head)
{
	int step;

	/* D, pairs with C: a poller for room is to find it, and the end */
	l5_store_release(&far->conn->end[!far->end].ctrl->rx_head, head);
	spin_lock(&far->lock);
	step = l5_in_to(&far->ph, l5_in_cut(&far->ph) ? L5_IN_CLOSED :
						      L5_IN_UNUSED);
	if (step >= 0)
		set_bit(L5_END_CLOSED, &far->conn->end[!far->end].flags);
	if (l5_far_is(far, L5_FAR_FIN_WAITS))
		l5_far_do(far, L5_DO_FIN);
	spin_unlock(&far->lock);
	if (step < 0) {
		l5_far_dead(far, -step);
		return;
	}
	l5_map_flag(&far->conn->end[far->end], L5_MAP_TX_ASK);
	l5_conn_changed(far->conn, far->end);
	wake_up_all(&far->wait);
	/* bytes that it did not read TCP would have answered by a reset */
	if ((s64)(l5_load(&far->conn->end[far->end].ctrl->tx_tail) - head) > 0)
		l5_far_do(far, L5_DO_UNREAD);
}

/* Bytes of the ring came along with a message. */
static void l5_got_data(struct l5_far *far, const struct l5_msg *msg, u32 have)
{
	const struct l5_way_ops *way = l5_way(far->peer_notify);

	if (msg->arg > have || !way->got_data)
		l5_far_dead(far, EPROTO);
	else
		way->got_data(far, msg);
}

static void l5_got_header(struct l5_far *far, u64 pos, u32 len)
{
	struct l5_end *ring = &far->conn->end[!far->end];

	if (!len || len > l5_rec_max(READ_ONCE(ring->size)) ||
	    pos & (L5_HDR - 1)) {
		l5_far_dead(far, EPROTO);
		return;
	}
	l5_store(l5_far_word(ring, pos + l5_rec_size(len)), 0);
	l5_far_got_record(far, pos, len);
}

static void l5_got(struct l5_far *far, const struct l5_msg *msg, u32 len)
{
	switch (msg->type) {
	case L5_MSG_READY:
		l5_handover_ready(far);
		break;
	case L5_MSG_CUT:
		l5_handover_cut_in(far, msg->arg);
		break;
	case L5_MSG_CUT_ACK:
		l5_handover_acked(far);
		break;
	case L5_MSG_ARM:
		l5_got_arm(far, msg->pos);
		break;
	case L5_MSG_WAKE:
		l5_far_got_wake(far);
		break;
	case L5_MSG_ROOM_ARM:
		l5_got_room_arm(far, msg->pos, msg->arg);
		break;
	case L5_MSG_ROOM:
		l5_got_room(far, msg->pos);
		break;
	case L5_MSG_FIN:
		l5_got_fin(far, msg->pos);
		break;
	case L5_MSG_CLOSE:
		l5_got_close(far, msg->pos);
		break;
	case L5_MSG_DATA:
		l5_got_data(far, msg, len);
		break;
	case L5_MSG_HEADER:
		l5_got_header(far, msg->pos, msg->arg);
		break;
	default:
		l5_far_dead(far, EPROTO);
	}
}

/**
 * l5_far_heard() - the peer sends already
 * @far: of this end
 *
 * A server waits for its wire's word that its answer has come. A message says
 * so, too, and the word may be lost. The wire could send even before the
 * answer, so nothing else is needed.
 *
 * Context: any.
 */
void l5_far_heard(struct l5_far *far)
{
	if (l5_far_asked(far) && !l5_far_is(far, L5_FAR_READY))
		l5_far_do(far, L5_DO_UP);
}

/*
 * Before this end is up, and has told the peer that it may write here, the peer
 * can say no more than the same (READY), and that it closes.
 */
static bool l5_got_early(const struct l5_msg *msg)
{
	return msg->type == L5_MSG_READY || msg->type == L5_MSG_CLOSE;
}

/**
 * l5_far_got_msg() - a message came
 * @far: of this end
 * @msg: the message, and what came along with it
 * @len: bytes of all that
 *
 * Context: softirq.
 */
void l5_far_got_msg(struct l5_far *far, const struct l5_msg *msg, u32 len)
{
	bool early = !l5_far_is(far, L5_FAR_READY);

	if (len < sizeof(*msg) || (early && !l5_got_early(msg))) {
		l5_far_dead(far, EPROTO);
		return;
	}
	l5_got(far, msg, len - sizeof(*msg));
	if (early)
		l5_far_heard(far);
}

/**
 * l5_far_got_imm() - a WRITE with immediate data came
 * @far: of this end
 * @imm: the data; it means a wake if the way of publishing has none itself
 *
 * Context: softirq.
 */
void l5_far_got_imm(struct l5_far *far, u32 imm)
{
	if (!l5_far_is(far, L5_FAR_READY))
		l5_far_dead(far, EPROTO);
	else if (l5_way(far->peer_notify)->got_imm)
		l5_way(far->peer_notify)->got_imm(far, imm);
	else
		l5_far_got_wake(far);
}
