// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5 between hosts: which question's turn it is.
 *
 * The connections of a burst ask one after the other, so that each question has
 * its own time: a host answers only so many at once. Turns are taken by
 * destination and user. A destination that does not answer keeps its own
 * questions waiting, and no others. The number of all questions is bounded by
 * the queue pairs that the namespace, the user and the host may have.
 */
#include <linux/hashtable.h>
#include <linux/slab.h>

#include "rdma.h"

/* Questions that one destination is asked at a time. */
#define L5_TURN_MOST	32
#define L5_TURN_BITS	7

/**
 * struct l5_cm_turn - a destination that is being asked
 * @node: in the table
 * @who: l5_cm_cache_who()
 * @asking: number of questions that are under way, or were told that it is
 *	their turn
 * @waiting: the other questions, struct l5_rdma, first come first served; a
 *	reference to each
 */
struct l5_cm_turn {
	struct hlist_node node;
	u64 who;
	unsigned int asking;
	struct list_head waiting;
};

static DEFINE_SPINLOCK(l5_cm_turn_lock);
static DEFINE_HASHTABLE(l5_cm_turns, L5_TURN_BITS);

static struct l5_cm_turn *l5_cm_turn_find(u64 who)
{
	struct l5_cm_turn *t;

	lockdep_assert_held(&l5_cm_turn_lock);
	hash_for_each_possible(l5_cm_turns, t, node, who)
		if (t->who == who)
			return t;
	return NULL;
}

/* Is it the turn of a question that is for a destination? Else it waits. */
static bool l5_cm_turn_is(const struct l5_rdma *rd)
{
	lockdep_assert_held(&l5_cm_turn_lock);
	return rd->turn && list_empty(&rd->turn_node);
}

static int l5_cm_turn_queue(struct l5_rdma *rd, struct l5_cm_turn *t)
{
	rd->turn = t;
	if (t->asking < L5_TURN_MOST) {
		t->asking++;
		l5_link_to(&rd->far.ph, L5_LINK_ASKING);
		return 1;
	}
	refcount_inc(&rd->far.ref);
	list_add_tail(&rd->turn_node, &t->waiting);
	return 0;
}

/**
 * l5_cm_turn_take() - is it the turn of a question?
 * @rd: of the question; L5_DO_ASK comes again when it is its turn
 * @who: its destination
 *
 * Context: @rd's work.
 * Return: 1 if it is, 0 if the question has to wait, -ENOMEM.
 */
int l5_cm_turn_take(struct l5_rdma *rd, u64 who)
{
	struct l5_cm_turn *t, *fresh = NULL;
	int ret;

	for (;;) {
		spin_lock_bh(&l5_cm_turn_lock);
		if (rd->turn) {
			ret = l5_cm_turn_is(rd);
			break;
		}
		t = l5_cm_turn_find(who);
		if (!t && fresh) {
			t = fresh;
			fresh = NULL;
			hash_add(l5_cm_turns, &t->node, who);
		}
		if (t) {
			ret = l5_cm_turn_queue(rd, t);
			break;
		}
		spin_unlock_bh(&l5_cm_turn_lock);
		fresh = kzalloc(sizeof(*fresh), GFP_KERNEL_ACCOUNT |
				__GFP_RETRY_MAYFAIL | __GFP_NOWARN);
		if (!fresh)
			return -ENOMEM;
		fresh->who = who;
		INIT_LIST_HEAD(&fresh->waiting);
	}
	spin_unlock_bh(&l5_cm_turn_lock);
	kfree(fresh);
	return ret;
}

/* A question is under way no more: the next one is. */
static struct l5_rdma *l5_cm_turn_next(struct l5_cm_turn *t)
{
	struct l5_rdma *next;

	next = list_first_entry_or_null(&t->waiting, struct l5_rdma, turn_node);
	if (next) {
		list_del_init(&next->turn_node);
		/* it may have died while it waited; then its work leaves */
		l5_link_to(&next->far.ph, L5_LINK_ASKING);
	} else {
		t->asking--;
	}
	return next;
}

/**
 * l5_cm_turn_leave() - a question has its answer, or needs none any more
 * @rd: of the question
 *
 * Context: @rd's work.
 */
void l5_cm_turn_leave(struct l5_rdma *rd)
{
	struct l5_cm_turn *t, *done = NULL;
	struct l5_rdma *next = NULL;
	bool waited = false, its_turn;

	spin_lock_bh(&l5_cm_turn_lock);
	t = rd->turn;
	its_turn = l5_cm_turn_is(rd);
	rd->turn = NULL;
	if (t && its_turn) {
		next = l5_cm_turn_next(t);
	} else if (t) {
		list_del_init(&rd->turn_node);
		waited = true;
	}
	if (t && !t->asking) {
		hash_del(&t->node);
		done = t;
	}
	spin_unlock_bh(&l5_cm_turn_lock);
	kfree(done);
	if (next) {
		l5_far_do(&next->far, L5_DO_ASK);
		l5_far_put(&next->far);
	}
	if (waited)
		l5_far_put(&rd->far);
}
