// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5 between hosts: a writer that has no room, and whose reader does not
 * read: see ../spill.c for what is done about it, and ../grow.c for why. Here
 * is when.
 *
 * The writer's question for room says that more than half of its ring may be
 * unread. If the reader has not moved by a byte for net.l5.grow_ms after that,
 * its host copies what is there, and answers as if it were read: from then on
 * the end of the copies is the position that the writer is told. Once the
 * reader has passed that, the writer is told of the reader again.
 *
 * A reader that has not moved since then does not have to be watched for as
 * long again; and programs that do this will do it again, with each question
 * and answer perhaps, so the next time they wait for half as long. A process
 * that has the ring mapped is watched for longer: it makes system calls from
 * then on, and may only have been busy.
 */
#include "../netns.h"
#include "../spill.h"
#include "far.h"

/* A process that has the ring mapped may be so many times as long. */
#define L5_SPILL_MAPPED	5
/* Until a lock is tried again that a task holds */
#define L5_SPILL_PAUSE	(HZ / 50 ?: 1)
/* So often a reader is watched for half as long as the time before. */
#define L5_SPILL_HALVES	5
/* So often the pause after a try in vain is twice as long as the one before. */
#define L5_SPILL_TRIES	3

/* Where the reader is, to the byte. */
static u64 l5_spill_reader(const struct l5_far *far)
{
	return l5_load(&far->conn->end[far->end].ctrl->rx_pos);
}

/* How long may a reader stay where it is, jiffies? 0: as long as it likes */
static unsigned long l5_spill_after(const struct l5_far *far)
{
	const struct l5_conn *conn = far->conn;
	unsigned long after = l5_grow_after(far->ln);

	if (test_bit(L5_END_MAPPED, &conn->end[far->end].flags) &&
	    !READ_ONCE(conn->end[!far->end].demoted))
		after *= L5_SPILL_MAPPED;
	return after ? max(after >> far->full_times, 1UL) : 0;
}

static void l5_spill_later(struct l5_far *far, unsigned long delay)
{
	refcount_inc(&far->ref);
	/* one that was to look at another time has a reference, too */
	if (mod_delayed_work(l5_wq, &far->spill, delay))
		l5_far_put(far);
}

/* The reader is there just now, and the writer waits. */
static void l5_spill_watch(struct l5_far *far)
{
	far->full_pos = l5_spill_reader(far);
	far->full_since = jiffies;
}

/* In how many jiffies is a reader that stays where it is to be looked at? */
static unsigned long l5_spill_left(const struct l5_far *far,
				   unsigned long after)
{
	unsigned long due = far->full_since + after;

	return time_after(due, jiffies) ? due - jiffies : 0;
}

/**
 * l5_spill_asked() - the writer asks for room, and there is little
 * @far: of this end, its lock held
 *
 * Context: softirq.
 */
void l5_spill_asked(struct l5_far *far)
{
	unsigned long after = l5_spill_after(far);

	lockdep_assert_held(&far->lock);
	if (!after || far->full ||
	    !l5_load(&far->conn->end[!far->end].ctrl->tx_wait))
		return;
	far->full = true;
	if (!far->spilled || l5_spill_reader(far) != far->full_pos)
		l5_spill_watch(far);
	l5_spill_later(far, l5_spill_left(far, after));
}

/**
 * l5_spill_freed() - the reader has moved
 * @far: of this end
 * @head: to there
 *
 * Context: process, the reader's lock held.
 */
void l5_spill_freed(struct l5_far *far, u64 head)
{
	if (unlikely(READ_ONCE(far->spilled)) &&
	    (s64)(head - READ_ONCE(far->told)) >= 0)
		l5_far_do(far, L5_DO_SPILL);
}

/* Is what is unread to be copied now? If not, perhaps in @left jiffies. */
static bool l5_spill_due(struct l5_far *far, unsigned long *left)
{
	unsigned long after = l5_spill_after(far);

	lockdep_assert_held(&far->lock);
	*left = 0;
	if (!far->full)
		return false;
	/* its question was answered, or it was read enough for that */
	if (!after || !l5_load(&far->conn->end[!far->end].ctrl->tx_wait)) {
		far->full = false;
		return false;
	}
	if (l5_spill_reader(far) != far->full_pos) {
		far->full_tries = 0;
		l5_spill_watch(far);
	}
	*left = l5_spill_left(far, after);
	return !*left;
}

/* Tell the writer of the reader again. Return: as l5_ring_unspill(). */
static int l5_spill_end(struct l5_far *far, struct l5_sock *l5)
{
	int err = l5_ring_unspill(l5);

	if (err)
		return err;
	spin_lock_bh(&far->lock);
	WRITE_ONCE(far->spilled, false);
	l5_far_room(far);
	spin_unlock_bh(&far->lock);
	return 0;
}

/* What came of a try to copy. Return: when to try again, jiffies; 0: not. */
static unsigned long l5_spill_done(struct l5_far *far, int err, u64 to)
{
	unsigned long after = l5_spill_after(far);

	lockdep_assert_held(&far->lock);
	switch (err) {
	case 0:
		far->full = false;
		far->full_tries = 0;
		/* once for each place that the reader stood still at */
		if (far->full_pos != far->full_last &&
		    far->full_times < L5_SPILL_HALVES)
			far->full_times++;
		far->full_last = far->full_pos;
		WRITE_ONCE(far->told, to);
		WRITE_ONCE(far->spilled, true);
		l5_far_room(far);
		/* not enough for that, so there is more to copy */
		l5_spill_asked(far);
		return 0;
	case -EBUSY:
	case -EAGAIN:
	case -ENOMEM:
		if (far->full_tries < L5_SPILL_TRIES)
			far->full_tries++;
		return after << far->full_tries;
	default:
		/* the writer asks again; not sooner than that */
		far->full = false;
		l5_spill_watch(far);
		return 0;
	}
}

/* Has the reader passed all that was copied? */
static bool l5_spill_past(struct l5_far *far)
{
	const struct l5_ctrl *ctrl = far->conn->end[far->end].ctrl;
	bool past;

	spin_lock_bh(&far->lock);
	past = far->spilled && (s64)(l5_load(&ctrl->rx_head) - far->told) >= 0;
	spin_unlock_bh(&far->lock);
	return past;
}

static void l5_spill_try(struct l5_far *far, struct l5_sock *l5)
{
	unsigned long left;
	u64 told, to;
	bool due;
	int err;
	u32 low;

	spin_lock_bh(&far->lock);
	due = l5_spill_due(far, &left);
	told = l5_far_head(far);
	low = far->room_low;
	spin_unlock_bh(&far->lock);
	if (due) {
		err = l5_ring_spill(l5, told, low, &to);
		spin_lock_bh(&far->lock);
		left = l5_spill_done(far, err, to);
		spin_unlock_bh(&far->lock);
		/*
		 * BI, pairs with F in l5_far_freed(): the reader sees what it
		 * is to pass, or is seen to have passed it.
		 */
		smp_mb();
		l5_spill_freed(far, l5_load(&l5_own(l5)->ctrl->rx_head));
	}
	if (left)
		l5_spill_later(far, left);
}

/**
 * l5_spill_work() - look after a reader that stays where it is, or went on
 * @far: of this end
 *
 * An end that is closed or was disconnected has no reader any more: what was
 * copied goes with the connection. One whose wire is dead has its reader still.
 *
 * Context: @far's work.
 * Return: false if the wire is dead, and a task holds a lock: to be put off.
 */
bool l5_spill_work(struct l5_far *far)
{
	bool dead = l5_is_dead(&far->ph);
	struct l5_sock *l5;
	int err = -EAGAIN;

	if (l5_far_sock_lock(far, &l5)) {
		err = 0;
		if (l5 && (l5_state(l5) < L5_MOVING ||
			   READ_ONCE(l5->conn) != far->conn)) {
			l5_far_sock_unlock(l5);
			l5 = NULL;
		}
		if (!l5) {
			spin_lock_bh(&far->lock);
			far->full = false;
			spin_unlock_bh(&far->lock);
			return true;
		}
		if (l5_spill_past(far))
			err = l5_spill_end(far, l5);
		if (err != -EAGAIN && !dead)
			l5_spill_try(far, l5);
		l5_far_sock_unlock(l5);
	}
	if (err != -EAGAIN)
		return true;
	if (!dead)
		l5_spill_later(far, L5_SPILL_PAUSE);
	return !dead;
}

static void l5_spill_timer(struct work_struct *work)
{
	struct l5_far *far = container_of(work, struct l5_far, spill.work);

	l5_far_do(far, L5_DO_SPILL);
	l5_far_put(far);
}

/**
 * l5_spill_init() - an end begins, and no reader is watched
 * @far: of this end
 */
void l5_spill_init(struct l5_far *far)
{
	INIT_DELAYED_WORK(&far->spill, l5_spill_timer);
}

/**
 * l5_spill_stop() - the wire ends: no reader is watched any more
 * @far: of this end
 *
 * Context: @far's work.
 */
void l5_spill_stop(struct l5_far *far)
{
	if (cancel_delayed_work(&far->spill))
		l5_far_put(far);
}
