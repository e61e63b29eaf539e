// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5 between hosts: the object of an end: its references, its work, which
 * anything may ask to be done, and the death of its wire. What the work does is
 * not known here; it comes with l5_life_init().
 */
#include "far.h"

/* Ends that are held; the module stays until there are none. */
static atomic_t l5_far_held = ATOMIC_INIT(0);
static DECLARE_WAIT_QUEUE_HEAD(l5_far_idle);
static bool l5_far_closing;

static void l5_far_free_rcu(struct rcu_head *rcu)
{
	struct l5_far *far = container_of(rcu, struct l5_far, rcu);

	far->wire->free(far);
}

/**
 * l5_far_put() - drop a reference
 * @far: of this end
 *
 * The end may be looked at without a reference, under RCU.
 *
 * Context: any.
 */
void l5_far_put(struct l5_far *far)
{
	if (!refcount_dec_and_test(&far->ref))
		return;
	l5_payer_put(&far->payer);
	call_rcu(&far->rcu, l5_far_free_rcu);
}

/**
 * l5_far_hold() - a wire that tells of events gets a reference
 * @far: of this end
 *
 * The module waits for l5_far_let_go() before it goes.
 *
 * Context: any.
 */
void l5_far_hold(struct l5_far *far)
{
	atomic_inc(&l5_far_held);
	refcount_inc(&far->ref);
}

/**
 * l5_far_let_go() - undo l5_far_hold()
 * @far: of this end
 *
 * Context: any.
 */
void l5_far_let_go(struct l5_far *far)
{
	l5_far_put(far);
	if (atomic_dec_and_test(&l5_far_held))
		wake_up(&l5_far_idle);
}

/**
 * l5_far_exit() - the module goes: wait for what closed sockets left
 */
void l5_far_exit(void)
{
	WRITE_ONCE(l5_far_closing, true);
	wait_event(l5_far_idle, !atomic_read(&l5_far_held));
	/* the work of ends that nothing holds */
	flush_workqueue(l5_wq);
}

/**
 * l5_far_leaving() - is the module about to go?
 */
bool l5_far_leaving(void)
{
	return READ_ONCE(l5_far_closing);
}

/**
 * l5_far_do() - ask the work of an end to do something
 * @far: the end
 * @what: L5_DO_*
 *
 * Context: any.
 */
void l5_far_do(struct l5_far *far, int what)
{
	set_bit(what, &far->todo);
	refcount_inc(&far->ref);
	if (!queue_work(l5_wq, &far->work))
		l5_far_put(far);
}

/**
 * l5_far_expire() - have the work of an end look again later
 * @far: the end
 * @delay: jiffies
 *
 * Context: any.
 */
void l5_far_expire(struct l5_far *far, unsigned long delay)
{
	refcount_inc(&far->ref);
	if (!queue_delayed_work(l5_wq, &far->expire, delay))
		l5_far_put(far);
}

static void l5_far_expired(struct work_struct *work)
{
	struct l5_far *far = container_of(work, struct l5_far, expire.work);

	l5_far_do(far, L5_DO_EXPIRE);
	l5_far_put(far);
}

/**
 * l5_far_in_time() - the look that l5_far_expire() asked for is not needed
 * @far: the end
 *
 * Context: any; a look that has begun goes on.
 */
void l5_far_in_time(struct l5_far *far)
{
	if (cancel_delayed_work(&far->expire))
		l5_far_put(far);
}

/* Do the work that was put off. */
static void l5_far_resume(struct work_struct *work)
{
	struct l5_far *far = container_of(work, struct l5_far, again.work);
	unsigned long later = xchg(&far->later, 0);
	int what;

	for_each_set_bit(what, &later, BITS_PER_LONG)
		l5_far_do(far, what);
	l5_far_let_go(far);
}

/**
 * l5_far_put_off() - the work of an end cannot do something now
 * @far: the end
 * @what: L5_DO_*
 *
 * It needs a lock of the socket, and the task that holds the lock may do so for
 * as long as it likes: it may be in a page fault. All connections share the
 * workers, so no worker is to wait for the lock. The module waits for the work
 * before it goes.
 *
 * Context: @far's work.
 */
void l5_far_put_off(struct l5_far *far, int what)
{
	far->pause = clamp_t(unsigned long, 2 * far->pause, 1, L5_PAUSE_MOST);
	set_bit(what, &far->later);
	l5_far_hold(far);
	if (!queue_delayed_work(l5_wq, &far->again, far->pause))
		l5_far_let_go(far);
}

/**
 * l5_far_dead() - the wire has failed
 * @far: of this end
 * @err: why, as a positive errno
 *
 * Context: any, its lock held or not.
 */
void l5_far_dead(struct l5_far *far, int err)
{
	if (!l5_link_to(&far->ph, L5_LINK_DEAD))
		return;
	WRITE_ONCE(far->err, err);
	wake_up_all(&far->wait);
	l5_far_do(far, L5_DO_END);
}

/**
 * l5_life_init() - an end gets its first reference, and its work
 * @far: zeroes
 * @work: does what l5_far_do() asks for, and then drops the reference that
 *	comes with it
 */
void l5_life_init(struct l5_far *far, void (*work)(struct work_struct *w))
{
	refcount_set(&far->ref, 1);
	INIT_WORK(&far->work, work);
	INIT_DELAYED_WORK(&far->expire, l5_far_expired);
	INIT_DELAYED_WORK(&far->again, l5_far_resume);
}
