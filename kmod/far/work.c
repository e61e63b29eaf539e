// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5 between hosts: what the work of an end does, from the first question to
 * the end of its wire: all that sleeps.
 */
#include <linux/sched/mm.h>

#include "far.h"

/* How long the bytes of a closed socket may take to be acknowledged. */
#define L5_LINGER	(30 * HZ)

/*
 * Do the work that takes locks of the socket, see l5_far_put_off(); it is done
 * after the end's end, too.
 */
static void l5_far_try(struct l5_far *far, unsigned long todo)
{
	if (todo & BIT(L5_DO_UNREAD) && !l5_handover_unread(far))
		l5_far_put_off(far, L5_DO_UNREAD);
	if (todo & BIT(L5_DO_ABORT) && !l5_handover_abort(far))
		l5_far_put_off(far, L5_DO_ABORT);
	if (todo & BIT(L5_DO_FIN) && !l5_fin_work(far))
		l5_far_put_off(far, L5_DO_FIN);
	if (todo & BIT(L5_DO_SPILL) && !l5_spill_work(far))
		l5_far_put_off(far, L5_DO_SPILL);
	if (todo & BIT(L5_DO_UNUSED) && !l5_handover_unused(far))
		l5_far_put_off(far, L5_DO_UNUSED);
}

/**
 * l5_far_up() - the wire is up, and the peer may write here: tell it
 * @far: of this end
 *
 * Context: @far's work.
 * Return: 0, or -ECANCELED if the wire is dead by now, or an option of the
 * socket needs TCP.
 */
int l5_far_up(struct l5_far *far)
{
	int err = -ECANCELED;

	spin_lock_bh(&far->lock);
	/* see l5_handover_stop() */
	if (l5_far_is(far, L5_FAR_OPEN) && l5_link_to(&far->ph, L5_LINK_UP)) {
		set_bit(L5_FAR_READY, &far->flags);
		l5_far_say(far, L5_MSG_READY, 0, 0);
		err = 0;
	}
	spin_unlock_bh(&far->lock);
	return err;
}

/*
 * Bytes that a closed socket was told to send are sent before its end, unless
 * they have no reader any more: then it may be that they are not acknowledged,
 * either.
 */
static bool l5_far_lingers(struct l5_far *far)
{
	unsigned long patience;

	if (!l5_out_closing(&far->ph) || l5_in_closed(&far->ph) ||
	    l5_far_flushed(far))
		return false;
	/* an administrator who unloads the module waits no longer than that */
	patience = L5_LINGER;
	if (!l5_far_leaving())
		patience = max(patience, far->timeout);
	if (l5_waited(&far->close_waited, L5_TICK) > patience)
		return false;
	l5_far_expire(far, L5_TICK);
	return true;
}

static void l5_far_end(struct l5_far *far)
{
	far->ended = true;
	l5_far_in_time(far);
	l5_spill_stop(far);
	spin_lock_bh(&far->lock);
	l5_link_to(&far->ph, L5_LINK_DEAD);
	spin_unlock_bh(&far->lock);
	far->wire->quiet(far);
	l5_poller_del(far);
	/* a device that is stuck may be so for long */
	if (far->stuck)
		l5_handover_over(far);
	far->wire->drain(far);
	l5_handover_over(far);
	far->wire->destroy(far);
	/* nothing asks for another look any more */
	l5_far_in_time(far);
	l5_spill_stop(far);
	l5_mailbox_put_slot(far);
	l5_far_try(far, BIT(L5_DO_UNUSED));
}

static void l5_far_work_do(struct l5_far *far, unsigned long todo)
{
	int err;

	l5_far_try(far, todo);
	if (far->ended) {
		far->wire->late(far);
		return;
	}
	if (todo & BIT(L5_DO_EXPIRE)) {
		if (l5_far_is(far, L5_FAR_READY))
			l5_handover_tick(far);
		else
			todo |= far->wire->expired(far);
	}
	if (todo & BIT(L5_DO_END) ||
	    (todo & BIT(L5_DO_EXPIRE) && l5_out_closing(&far->ph))) {
		if (!l5_far_lingers(far))
			l5_far_end(far);
		return;
	}
	if (l5_is_dead(&far->ph))
		return;
	err = far->wire->work(far, todo);
	if (err) {
		far->wire->stay(far, err);
		return;
	}
	/* the peer may have been up first */
	if (todo & (BIT(L5_DO_MOVE) | BIT(L5_DO_UP)) &&
	    l5_far_is(far, L5_FAR_READY) && l5_far_is(far, L5_FAR_PEER) &&
	    !l5_handover_begin(far))
		l5_far_put_off(far, L5_DO_MOVE);
	if (todo & BIT(L5_DO_POLL))
		l5_poller_list(far);
}

static void l5_far_work(struct work_struct *work)
{
	struct l5_far *far = container_of(work, struct l5_far, work);
	struct mem_cgroup *old = set_active_memcg(READ_ONCE(far->payer.memcg));

	l5_far_work_do(far, xchg(&far->todo, 0));
	set_active_memcg(old);
	l5_far_put(far);
}

/**
 * l5_far_init() - make an end, from the first question on
 * @far: zeroes; has one reference then
 * @ln: its namespace
 * @wire: what is to carry its bytes
 */
void l5_far_init(struct l5_far *far, struct l5_net *ln,
		 const struct l5_wire_ops *wire)
{
	far->wire = wire;
	l5_life_init(far, l5_far_work);
	l5_spill_init(far);
	spin_lock_init(&far->lock);
	INIT_LIST_HEAD(&far->poll_node);
	init_waitqueue_head(&far->wait);
	far->ln = ln;
	far->timeout = msecs_to_jiffies(READ_ONCE(ln->rdma_timeout_ms));
	far->slot_no = -1;
	far->notify = READ_ONCE(ln->rdma_notify);
	set_bit(L5_FAR_OPEN, &far->flags);
}
