// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5 between hosts: whose turn it is to ask.
 *
 * A burst of connections asks one after the other, so that each question has
 * its own time: a host answers only so many at once. That is the destination's
 * matter alone, and the user's. One that does not answer keeps its own
 * questions waiting, and nobody else's; how many there are in all is bounded by
 * the queue pairs that the namespace, the user and the host may have.
 */
#include <linux/hashtable.h>
#include <linux/slab.h>

#include "rdma.h"

/* Questions that one destination is asked at a time. */
#define L5_TURN_MOST	32
#define L5_TURN_BITS	7

/**
 * struct l5_turn - a destination that is being asked
 * @node: in the table
 * @who: l5_memo_who()
 * @asking: questions that are under way, or told that it is their turn
 * @waiting: the others, struct l5_rdma, first come first served; a reference
 *	to each
 */
struct l5_turn {
	struct hlist_node node;
	u64 who;
	unsigned int asking;
	struct list_head waiting;
};

static DEFINE_SPINLOCK(l5_turn_lock);
static DEFINE_HASHTABLE(l5_turns, L5_TURN_BITS);

static struct l5_turn *l5_turn_find(u64 who)
{
	struct l5_turn *t;

	lockdep_assert_held(&l5_turn_lock);
	hash_for_each_possible(l5_turns, t, node, who)
		if (t->who == who)
			return t;
	return NULL;
}

static int l5_turn_queue(struct l5_rdma *rd, struct l5_turn *t)
{
	rd->turn = t;
	if (t->asking < L5_TURN_MOST) {
		t->asking++;
		set_bit(L5_RD_ASKING, &rd->flags);
		return 1;
	}
	refcount_inc(&rd->ref);
	list_add_tail(&rd->turn_node, &t->waiting);
	return 0;
}

/**
 * l5_turn_take() - is it the turn of a question?
 * @rd: of which; L5_DO_ASK comes again when it is
 * @who: its destination
 *
 * Context: @rd's work.
 * Return: 1 if so, 0 if it has to wait, -ENOMEM.
 */
int l5_turn_take(struct l5_rdma *rd, u64 who)
{
	struct l5_turn *t, *fresh = NULL;
	int ret;

	for (;;) {
		spin_lock_bh(&l5_turn_lock);
		if (rd->turn) {
			ret = l5_rd(rd, L5_RD_ASKING);
			break;
		}
		t = l5_turn_find(who);
		if (!t && fresh) {
			t = fresh;
			fresh = NULL;
			hash_add(l5_turns, &t->node, who);
		}
		if (t) {
			ret = l5_turn_queue(rd, t);
			break;
		}
		spin_unlock_bh(&l5_turn_lock);
		fresh = kzalloc(sizeof(*fresh), GFP_KERNEL_ACCOUNT);
		if (!fresh)
			return -ENOMEM;
		fresh->who = who;
		INIT_LIST_HEAD(&fresh->waiting);
	}
	spin_unlock_bh(&l5_turn_lock);
	kfree(fresh);
	return ret;
}

/* One less is under way: the next is. */
static struct l5_rdma *l5_turn_next(struct l5_turn *t)
{
	struct l5_rdma *next;

	next = list_first_entry_or_null(&t->waiting, struct l5_rdma, turn_node);
	if (next) {
		list_del_init(&next->turn_node);
		set_bit(L5_RD_ASKING, &next->flags);
	} else {
		t->asking--;
	}
	return next;
}

/**
 * l5_turn_leave() - a question has its answer, or needs none any more
 * @rd: of which
 *
 * Context: @rd's work.
 */
void l5_turn_leave(struct l5_rdma *rd)
{
	struct l5_turn *t, *done = NULL;
	struct l5_rdma *next = NULL;
	bool waited = false;

	spin_lock_bh(&l5_turn_lock);
	t = rd->turn;
	rd->turn = NULL;
	if (t && test_and_clear_bit(L5_RD_ASKING, &rd->flags)) {
		next = l5_turn_next(t);
	} else if (t) {
		list_del_init(&rd->turn_node);
		waited = true;
	}
	if (t && !t->asking) {
		hash_del(&t->node);
		done = t;
	}
	spin_unlock_bh(&l5_turn_lock);
	kfree(done);
	if (next) {
		l5_rdma_do(next, L5_DO_ASK);
		l5_rdma_put(next);
	}
	if (waited)
		l5_rdma_put(rd);
}
