// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5 between hosts: an end as the rings see it, see link.h. ring.c keeps the
 * rings of both hosts alike; this file has it do so, and tells a reader of the
 * end.
 */
#include <net/tcp.h>

#include "../bootstrap.h"
#include "../link.h"
#include "far.h"

static struct l5_far *l5_link_far(const struct l5_conn *conn)
{
	return conn->link_data;
}

/*
 * A record was published, and a process rings for it if @bell. With softirqs
 * off, so that a device that is software runs when they are on again and not
 * when its thread is next scheduled.
 */
static void l5_far_push(struct l5_conn *conn, bool bell)
{
	struct l5_far *far = l5_link_far(conn);
	u64 before;

	spin_lock_bh(&far->lock);
	before = far->info.posts;
	l5_far_push_locked(far);
	if (bell)
		far->info.bells += far->info.posts - before;
	/* a mapping may outlive the namespace; a wire keeps it */
	if (bell && !l5_is_dead(&far->ph))
		l5_poller_kick(far->ln);
	spin_unlock_bh(&far->lock);
}

static void l5_far_published(struct l5_conn *conn, int end)
{
	l5_far_push(conn, false);
}

static void l5_far_flush(struct l5_conn *conn)
{
	l5_far_push(conn, true);
}

/* The receiver is about to sleep: have the peer tell of records. */
static void l5_far_arm_rx(struct l5_sock *l5)
{
	struct l5_far *far = l5_link_far(l5->conn);
	u64 pos;

	if (l5_far_is(far, L5_FAR_ARM))
		return;
	/* each record of such a sender passes l5_far_got_record() */
	if (l5_way(far->peer_notify)->told)
		return;
	pos = l5_ring_seen(l5, READ_ONCE(far->arm_pos));
	spin_lock_bh(&far->lock);
	if (l5_far_sends(far) && !test_and_set_bit(L5_FAR_ARM, &far->flags)) {
		far->arm_pos = pos;
		l5_far_msg(far, L5_MSG_ARM, 0, pos);
	}
	spin_unlock_bh(&far->lock);
}

static void l5_far_arm_tx(struct l5_sock *l5, u32 low)
{
	struct l5_far *far = l5_link_far(l5->conn);

	spin_lock_bh(&far->lock);
	l5_far_ask_room(far, low);
	spin_unlock_bh(&far->lock);
}

/* There is room: tell the peer if it waits for room. */
static void l5_far_bell(struct l5_conn *conn)
{
	struct l5_far *far = l5_link_far(conn);

	spin_lock_bh(&far->lock);
	l5_far_room(far);
	spin_unlock_bh(&far->lock);
}

static void l5_far_freed(struct l5_sock *l5)
{
	/* F, also with BI in l5_spill_try(): the head, then any waiter */
	bool armed = l5_wait_armed(&l5_peer(l5)->ctrl->tx_wait);

	l5_spill_freed(l5_link_far(l5->conn), l5_own(l5)->cons.head);
	if (armed)
		l5_far_bell(l5->conn);
}

static void l5_far_ring(struct l5_conn *conn, int end, int bells)
{
	if (bells & L5_BELL_DATA)
		l5_far_push(conn, true);
	if (bells & L5_BELL_ROOM)
		l5_far_bell(conn);
}

/* This end writes no more. */
static void l5_far_fin(struct l5_conn *conn, int end)
{
	struct l5_far *far = l5_link_far(conn);

	spin_lock_bh(&far->lock);
	l5_goal_to(&far->ph, L5_OUT_FIN);
	l5_far_push_locked(far);
	spin_unlock_bh(&far->lock);
}

static bool l5_far_lost(const struct l5_sock *l5)
{
	return l5_is_over(&l5_link_far(l5->conn)->ph);
}

/* Did the peer say where its stream ends, and is all up to there read? */
static bool l5_far_all_here(const struct l5_sock *l5,
			    const struct l5_far *far)
{
	if (!l5_in_fin(&far->ph))
		return false;
	/* AL, pairs with AL in l5_got_fin(): the phase, then the place */
	smp_rmb();
	return READ_ONCE(far->fin_pos) == l5_load(&l5_own(l5)->ctrl->rx_head);
}

/*
 * A reader is not to be told if all records have come and been read: then TCP's
 * FIN is the end, as on TCP, and may still be on its way.
 */
static bool l5_far_rx_over(const struct l5_sock *l5)
{
	return l5_far_lost(l5) && !l5_far_all_here(l5, l5_link_far(l5->conn));
}

/* There are signs of an end: is it the stream's? */
static int l5_far_rx_end(struct l5_sock *l5)
{
	struct l5_far *far = l5_link_far(l5->conn);
	const struct l5_end *own = l5_own(l5);
	struct sock *bsk = l5->boot->sk;
	bool fin, over, spoilt;
	u64 fin_pos;
	int err;

	if (test_bit(L5_END_RCV_SHUTDOWN, &own->flags))
		return 0;
	/* what is in the ring is of no use then, however readable */
	spoilt = test_bit(L5_END_REVOKED, &own->flags);
	spin_lock_bh(&far->lock);
	fin = l5_in_fin(&far->ph);
	over = l5_is_over(&far->ph) || far->l5 != l5;
	fin_pos = far->fin_pos;
	spin_unlock_bh(&far->lock);
	/* a record that came before either, since the look that found none */
	if (!spoilt && l5_ring_readable(l5))
		return -EAGAIN;
	if (fin && fin_pos == l5_load(&own->ctrl->rx_head))
		return 0;
	if (fin || over || l5_tcp_broken(bsk))
		return l5_far_rx_lost(l5, far);
	/* TCP goes on after some errors; another task may have had this one */
	err = sock_error(bsk);
	l5_boot_error(l5);
	err = err ?: sock_error(&l5->sk);
	return err ?: spoilt ? -ECONNRESET : -EAGAIN;
}

/* An end is not visible as long as there may be records on their way. */
static bool l5_far_end_visible(const struct l5_sock *l5)
{
	const struct l5_far *far = l5_link_far(l5->conn);

	return l5_in_fin(&far->ph) || l5_is_over(&far->ph) ||
	       l5_tcp_broken(l5->boot->sk);
}

/* TCP's FIN has come: records are to follow, or nothing is. */
static void l5_far_fin_next(struct l5_far *far)
{
	if (!l5_in_fin(&far->ph))
		l5_far_expire(far, L5_TICK);
	else if (READ_ONCE(far->mailbox))
		l5_far_do(far, L5_DO_EXPIRE);
}

/*
 * TCP's stream has ended, perhaps. If it ended by a FIN, the records that
 * belong before it will come. If it ended by a reset, none will, even if
 * another task has taken the error by now.
 */
static void l5_far_boot_changed(struct l5_sock *l5)
{
	const struct sock *bsk = l5->boot->sk;
	struct l5_far *far = l5_link_far(l5->conn);
	int err = READ_ONCE(bsk->sk_err);

	if (l5_tcp_broken(bsk) ||
	    (err && READ_ONCE(bsk->sk_state) == TCP_CLOSE))
		l5_far_dead(far, err ?: ECONNRESET);
	else if (!l5_is_dead(&far->ph) && sock_flag(bsk, SOCK_DONE))
		l5_far_fin_next(far);
}

static u32 l5_far_mailbox(const struct l5_sock *l5)
{
	return l5_link_far(l5->conn)->slot_no + 1;
}

static void l5_far_free(struct l5_conn *conn)
{
	l5_far_put(l5_link_far(conn));
}

static const struct l5_link_ops l5_far_link = {
	.transport	= L5_TRANSPORT_RDMA,
	.name		= "rdma",
	.stat		= L5_STAT_CONN_RDMA,
	/* the poller takes the flag back, if one runs */
	.map_flags	= L5_MAP_BELL,
	.published	= l5_far_published,
	.freed		= l5_far_freed,
	.ring		= l5_far_ring,
	.flush		= l5_far_flush,
	.arm_rx		= l5_far_arm_rx,
	.arm_tx		= l5_far_arm_tx,
	.fin		= l5_far_fin,
	.lost		= l5_far_lost,
	.rx_over	= l5_far_rx_over,
	.end_visible	= l5_far_end_visible,
	.rx_end		= l5_far_rx_end,
	.boot_changed	= l5_far_boot_changed,
	.mailbox	= l5_far_mailbox,
	.free		= l5_far_free,
};

/**
 * l5_far_link_set() - a wire is to keep a connection's rings alike
 * @far: of this end, with its connection, which takes a reference of the
 *	caller's
 *
 * Context: @far's work; no socket's state says yet that there are rings.
 */
void l5_far_link_set(struct l5_far *far)
{
	far->conn->link_data = far;
	far->conn->link = &l5_far_link;
}
