// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5 between hosts: rings that are kept alike on both.
 *
 * Each host has both rings. A record is written into the local copy of the
 * sender's ring, by the same code as in shared memory. The bytes that are new
 * there, from the position that the peer has to the tail, then go to the same
 * place of the peer's copy (Fent et al., ICDE 2020, section V): all of them but
 * the first header word in one WRITE, then that word in another. The
 * reader polls that word, so it sees nothing of the rest before all of it is
 * there. Records that were published meanwhile go along: a batch costs the same
 * two WRITEs. (That is one of the ways of ways.c.)
 *
 * Heads come back when the writer asks. Once half of its ring is in use the
 * writer sends ROOM_ARM, and the reader answers when that half is read; a
 * reader that is a process and not the kernel sees the question in the copy of
 * the peer's wait word.
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
 * steps exclude each other by l5_far.lock. A wire delivers in order, so
 * the record that caused a WAKE is there before it; and a record that is sent
 * after the ARM was handled finds the end armed. While both sides poll there is
 * no ARM and so no interrupt but one for each L5_SIGNAL work requests.
 *
 * The end. TCP's FIN overtakes records that are on their way here. So the end
 * of a stream is the message FIN, which comes after the last record and says
 * where that ends; TCP's own FIN says nothing. A socket that closes leaves its
 * wire alone until the peer's device has acknowledged all bytes.
 */
#include "far.h"

/**
 * l5_far_head() - where the peer is to take the reader to be
 * @far: of this end, its lock held
 */
u64 l5_far_head(const struct l5_far *far)
{
	lockdep_assert_held(&far->lock);
	return far->spilled ? far->told :
	       l5_load(&far->conn->end[far->end].ctrl->rx_head);
}

/**
 * l5_far_head_last() - the same, for an end that reads no more
 * @far: of this end, its lock held
 */
u64 l5_far_head_last(const struct l5_far *far)
{
	u64 head = l5_load(&far->conn->end[far->end].ctrl->rx_head);

	lockdep_assert_held(&far->lock);
	return far->spilled && (s64)(far->told - head) > 0 ? far->told : head;
}

/**
 * l5_far_ask_room() - ask for room before there is none
 * @far: of this end, its lock held
 * @low: bytes unread that leave as much room as a waiter needs
 *
 * A peer whose wire is gone does not answer, and a device answers only a
 * request: so the question is asked again, as TCP probes a window that is
 * closed.
 */
void l5_far_ask_room(struct l5_far *far, u32 low)
{
	if (l5_far_is(far, L5_FAR_ROOM) || !l5_far_sends(far))
		return;
	set_bit(L5_FAR_ROOM, &far->flags);
	far->ask_low = low;
	l5_far_probe(far);
}

/**
 * l5_far_probe() - send the question for room, once more or for the first time
 * @far: of this end, its lock held
 */
void l5_far_probe(struct l5_far *far)
{
	struct l5_end *own = &far->conn->end[far->end];

	lockdep_assert_held(&far->lock);
	if (!l5_far_sends(far)) {
		/* full of incomplete requests; these are looked after */
		if (!l5_is_dead(&far->ph))
			l5_far_expire(far, L5_TICK);
		return;
	}
	l5_far_say(far, L5_MSG_ROOM_ARM, far->ask_low,
		   l5_load(&own->ctrl->tx_tail));
	/* the first incomplete question says since when none completes */
	if ((s32)(far->done - far->probe_no) >= 0) {
		far->probe_no = far->posted;
		l5_waited_begin(&far->probe_waited);
	}
	l5_far_expire(far, L5_TICK);
}

/* Send the last message, also of an end that never moved. */
static void l5_far_bye(struct l5_far *far, enum l5_far_out last)
{
	if (l5_out_closing(&far->ph) && l5_out_to(&far->ph, last))
		l5_far_say(far, L5_MSG_CLOSE, 0, l5_far_head_last(far));
}

/**
 * l5_far_push_locked() - send the records that are published, and then the end
 * @far: of this end, its lock held
 *
 * Records that find no place in the send queue go when other requests are
 * complete.
 */
void l5_far_push_locked(struct l5_far *far)
{
	struct l5_end *own, *peer;
	u64 tail, head;

	lockdep_assert_held(&far->lock);
	if (!l5_far_sends(far))
		return;
	if (!l5_out_cut(&far->ph)) {
		l5_far_bye(far, L5_OUT_UNUSED);
		return;
	}
	/* the peer reads TCP until it knows where the bytes there end */
	if (!l5_out_acked(&far->ph))
		return;
	own = &far->conn->end[far->end];
	peer = &far->conn->end[!far->end];
	/* W, pairs with V in l5_prod_publish(): the tail, then the rest */
	tail = l5_load_acquire(&own->ctrl->tx_tail);
	while (far->sent != tail) {
		if (!l5_far_post(far, tail))
			return;
		head = l5_load(&peer->ctrl->rx_head);
		if (far->sent - head > l5_room_low(own->size))
			l5_far_ask_room(far, l5_room_low(own->size));
	}
	if (far->ph.goal >= L5_OUT_FIN && l5_out_to(&far->ph, L5_OUT_FIN))
		l5_far_say(far, L5_MSG_FIN, 0, far->sent);
	l5_far_bye(far, L5_OUT_CLOSED);
}

/**
 * l5_far_flushed() - does the peer's device have all bytes that are to be
 *	sent?
 * @far: of this end
 */
bool l5_far_flushed(const struct l5_far *far)
{
	return l5_is_dead(&far->ph) ||
	       (l5_out_closed(&far->ph) && READ_ONCE(far->close_no) &&
		(s32)(READ_ONCE(far->done) - READ_ONCE(far->close_no)) >= 0);
}

/**
 * l5_far_room() - has the reader left the room that the peer asked for?
 * @far: of this end, its lock held
 */
void l5_far_room(struct l5_far *far)
{
	struct l5_end *peer = &far->conn->end[!far->end];
	u64 head = l5_far_head(far);

	lockdep_assert_held(&far->lock);
	if ((s64)(l5_load(&peer->ctrl->tx_tail) - head) > (s64)far->room_low)
		return;
	if (!l5_load(&peer->ctrl->tx_wait) || !l5_far_sends(far))
		return;
	l5_wait_clear(&peer->ctrl->tx_wait);
	l5_far_msg(far, L5_MSG_ROOM, 0, head);
}

/**
 * l5_far_completed() - a work request is complete
 * @far: of this end
 * @seq: the request's number
 *
 * Context: softirq. Completions come in order, and one tells of all before it.
 */
void l5_far_completed(struct l5_far *far, u32 seq)
{
	spin_lock(&far->lock);
	if ((s32)(seq + 1 - far->done) > 0)
		far->done = seq + 1;
	l5_far_push_locked(far);
	spin_unlock(&far->lock);
	if (l5_out_closing(&far->ph) && l5_far_flushed(far))
		l5_far_do(far, L5_DO_END);
}
