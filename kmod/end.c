// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: what an end of a connection is told: that there are bytes or room,
 * that its stream has ended, and, in its state page, that the processes which
 * have it mapped have to ask the kernel.
 */
#include <linux/sched/clock.h>
#include <linux/wait.h>
#include <net/tcp_states.h>

#include "bootstrap.h"
#include "end.h"
#include "link.h"
#include "netns.h"

/*
 * Wake the tasks that wait for anything of a socket, but only one of those that
 * wait for a message: each message is one task's, and the task that takes it
 * sees to the next, see l5_wait_next(). Their entries ask @turn whether they
 * are meant. An exclusive wake-up would count others, too, that wait for
 * something else.
 */
static void l5_wake_turn(struct l5_sock *l5, struct wait_queue_head *head)
{
	unsigned long flags;

	spin_lock_irqsave(&head->lock, flags);
	l5->turn = L5_TURN_ONE;
	__wake_up_locked(head, TASK_INTERRUPTIBLE, 0);
	l5->turn = L5_TURN_ALL;
	spin_unlock_irqrestore(&head->lock, flags);
}

/*
 * Wake the tasks that wait for anything of a socket. Do not say what for: a
 * waiter that is told need not poll again, as a multishot poll of io_uring does
 * not, but it is polling that arms the wait words. And wake all of them: one of
 * several that want to be woken alone might wait for something else.
 */
static void l5_wake(struct sock *sk, bool room)
{
	struct socket_wq *wq = rcu_dereference(sk->sk_wq);
	struct l5_sock *l5 = l5_sk(sk);

	if (skwq_has_sleeper(wq)) {
		WRITE_ONCE(l5->rung, local_clock());
		if (!room && atomic_read(&l5->turns) > 1)
			l5_wake_turn(l5, &wq->wait);
		else
			wake_up_interruptible_all(&wq->wait);
	}
	sk_wake_async(sk, room ? SOCK_WAKE_SPACE : SOCK_WAKE_WAITD,
		      room ? POLL_OUT : POLL_IN);
}

/**
 * l5_bell() - ring the doorbell of an end that said that it may sleep
 * @e: the end
 * @wait: its wait word, in its control page
 * @room: for room, else for data
 *
 * Its socket is not referenced, only kept by RCU, and gone after its release.
 * An end that asked for SIGIO stays armed, since its process may never look
 * again by itself.
 *
 * Context: any.
 */
void l5_bell(struct l5_end *e, u32 *wait, bool room)
{
	struct sock *sk;

	rcu_read_lock();
	sk = rcu_dereference(e->sk);
	if (!sk || !sock_flag(sk, SOCK_FASYNC)) {
		l5_wait_clear(wait);
		/*
		 * G, pairs with AA: the word that was cleared may have been
		 * armed by a socket accepted since the look above, and then
		 * that socket is seen here.
		 */
		if (!sk)
			sk = rcu_dereference(e->sk);
		if (sk && sock_flag(sk, SOCK_FASYNC))
			l5_wait_arm(wait);
	}
	if (sk)
		l5_count(l5_sk(sk), L5_STAT_DOORBELLS, 1);
	if (sk)
		l5_wake(sk, room);
	rcu_read_unlock();
}

/**
 * l5_end_wake() - wake the tasks that wait for data of a socket
 * @l5: the socket
 *
 * Context: process.
 */
void l5_end_wake(struct l5_sock *l5)
{
	rcu_read_lock();
	l5_wake(&l5->sk, false);
	rcu_read_unlock();
}

/**
 * l5_conn_bell() - wake the tasks at an end, since its peer's host says so
 * @conn: the connection
 * @end: the end
 * @room: for room, else for data
 *
 * Context: any.
 */
void l5_conn_bell(struct l5_conn *conn, int end, bool room)
{
	struct l5_ctrl *ctrl = conn->end[end].ctrl;

	l5_bell(&conn->end[end], room ? &ctrl->tx_wait : &ctrl->rx_wait, room);
}

/**
 * l5_conn_changed() - an end's state changed: wake the tasks that wait there
 * @conn: the connection
 * @end: the end
 *
 * Context: any.
 */
void l5_conn_changed(struct l5_conn *conn, int end)
{
	struct sock *sk;

	rcu_read_lock();
	sk = rcu_dereference(conn->end[end].sk);
	if (sk)
		sk->sk_state_change(sk);
	rcu_read_unlock();
}

/**
 * l5_conn_unlocked() - a lock word that tasks wait for may have come free
 * @conn: the connection
 * @end: the end
 *
 * A task that would not wait for the word has to hear, too: it was told to try
 * again.
 *
 * Context: process.
 */
void l5_conn_unlocked(struct l5_conn *conn, int end)
{
	struct l5_end *e = &conn->end[end];
	struct sock *sk;

	wake_up_all(&e->lock_wait);
	rcu_read_lock();
	sk = rcu_dereference(e->sk);
	if (sk)
		l5_wake(sk, false);
	rcu_read_unlock();
}

/**
 * l5_end_async() - does an end want SIGIO, so that it is always to be woken?
 * @e: the end
 *
 * Context: any.
 */
bool l5_end_async(struct l5_end *e)
{
	struct sock *sk;
	bool async;

	rcu_read_lock();
	sk = rcu_dereference(e->sk);
	async = sk && sock_flag(sk, SOCK_FASYNC);
	rcu_read_unlock();
	return async;
}

/**
 * l5_rx_ended() - has the peer's stream ended, for better or worse?
 * @l5: a socket in state L5_RINGS
 *
 * An orderly end is the bootstrap's to tell, and nothing of ours overtakes it:
 * a program that reacted to a sign of the ring's own could have its FIN out
 * before the FIN of the end that closed first, and TCP would have it wait in
 * TIME_WAIT. And a reader that has read AF_UNIX's end is to find POLLHUP and
 * EPIPE, too.
 *
 * Context: any.
 */
bool l5_rx_ended(struct l5_sock *l5)
{
	const struct sock *bsk = l5->boot->sk;
	bool says = l5_link_end_visible(l5), ended;

	ended = READ_ONCE(l5->sk.sk_err) == EPROTO ||
		READ_ONCE(l5_own(l5)->flags) &
		(BIT(L5_END_RCV_SHUTDOWN) | BIT(L5_END_REVOKED) |
		 BIT(L5_END_KEPT));
	/*
	 * AF_UNIX has no other end; from another host TCP's end is here before
	 * the last record, and no error after it is the reader's
	 */
	if (!ended && says)
		ended = READ_ONCE(bsk->sk_shutdown) & RCV_SHUTDOWN ||
			READ_ONCE(bsk->sk_state) == TCP_CLOSE ||
			sock_flag(bsk, SOCK_DONE) || l5_link_rx_over(l5);
	if (!ended && (says || !sock_flag(bsk, SOCK_DONE)))
		ended = READ_ONCE(bsk->sk_err) || READ_ONCE(l5->sk.sk_err);
	/* P: the end, then the ring; pairs with what orders the end after the
	 * last record: the work under tx_lock, or a packet
	 */
	smp_rmb();
	return ended;
}

/**
 * l5_tx_ended() - can no more be sent, so that the bootstrap has to say why?
 * @l5: a socket in state L5_RINGS
 *
 * Context: any.
 */
bool l5_tx_ended(struct l5_sock *l5)
{
	const struct sock *bsk = l5->boot->sk;

	return READ_ONCE(bsk->sk_err) || READ_ONCE(l5->sk.sk_err) ||
	       READ_ONCE(bsk->sk_shutdown) & SEND_SHUTDOWN ||
	       READ_ONCE(bsk->sk_state) == TCP_CLOSE ||
	       READ_ONCE(l5_own(l5)->flags) &
	       (BIT(L5_END_FIN) | BIT(L5_END_REVOKED) | BIT(L5_END_CUT) |
		BIT(L5_END_KEPT)) ||
	       test_bit(L5_END_CLOSED, &l5_peer(l5)->flags) ||
	       l5_link_lost(l5);
}

/**
 * l5_map_flag() - tell processes that have an end mapped to ask the kernel
 * @e: the end
 * @flags: L5_MAP_* to set
 *
 * Context: any.
 */
void l5_map_flag(struct l5_end *e, u32 flags)
{
	struct l5_map_state *state;

	/* S, pairs with R in l5_map_prepare() */
	smp_mb();
	state = READ_ONCE(e->state);
	if (!state || (READ_ONCE(state->flags) & flags) == flags)
		return;
	atomic_or(flags, (atomic_t *)&state->flags);
	atomic_inc((atomic_t *)&state->generation);
}

/**
 * l5_map_note() - the bootstrap's state or an error may have changed
 * @l5: a socket in state L5_RINGS
 *
 * Context: any.
 */
void l5_map_note(struct l5_sock *l5)
{
	u32 flags = 0;

	/* S, pairs with R in l5_map_prepare() */
	smp_mb();
	if (!READ_ONCE(l5_own(l5)->state))
		return;
	if (l5_rx_ended(l5))
		flags |= L5_MAP_RX_ASK;
	if (l5_tx_ended(l5) || test_bit(L5_END_ASKS, &l5_peer(l5)->flags))
		flags |= L5_MAP_TX_ASK;
	if (READ_ONCE(l5->sk.sk_rcvlowat) > 1)
		flags |= L5_MAP_LOWAT;
	if (flags)
		l5_map_flag(l5_own(l5), flags);
}
