// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5 between hosts: how a connection moves from TCP to rings while it is in
 * use.
 *
 * Each direction has its cut: the sender's bytes go by TCP up to a sequence
 * number, and by the ring from there on. The sender chooses that number, at a
 * moment when none of its threads is inside TCP; the receiver reads TCP up to
 * there first. Messages between the two kernels, on the wire:
 *
 *   READY     write to me; from both ends, then either may cut
 *   CUT(seq)  my bytes on TCP end here
 *   CUT_ACK   I know; only now the sender's records leave its host
 *
 * A FIN can be ambiguous: is it the end of the stream, or of the part that
 * went by TCP, and the CUT is still on its way? So a FIN is sent only if there
 * was no cut, or after the CUT_ACK. Hence a receiver that reads TCP's end and
 * knows of no cut is at the end of the stream; a receiver that knows of one
 * asks the wire (L5_MSG_FIN).
 *
 * If the wire fails before a cut the connection just stays on TCP. After
 * a cut it ends with an error, at both ends: TCP is reset.
 *
 * TCP says an error once, to the call that asks first: a sender, another
 * reader, getsockopt(SO_ERROR). After that the error looks like an end. So a
 * receiver never takes TCP's word for the end: there is an end only after the
 * message FIN, or after TCP's FIN if there was no cut. Anything else is an
 * error, as often as a receiver asks, see l5_far_rx_end() in link.c and
 * l5_far_tcp_end().
 *
 * A call on a socket that may move must not sleep inside TCP: bytes would come
 * by the ring and never wake it. Receivers wait out here; senders inside TCP
 * are counted, and the last to leave cuts.
 */
#include <linux/sched/signal.h>
#include <linux/tcp.h>
#include <net/tcp.h>

#include "../bootstrap.h"
#include "../rendezvous.h"
#include "far.h"

/* How long the answer to a cut may take; a FIN waits less, see fin.c. */
#define L5_ACK_WAIT	(20 * HZ)
/* How long the last records may come behind TCP's FIN. */
#define L5_FIN_WAIT	(60 * HZ)

/* Have tasks that wait at a socket look again. Context: any. */
static void l5_handover_wake(struct l5_far *far)
{
	struct socket_wq *wq;
	struct sock *sk = NULL;

	spin_lock_bh(&far->lock);
	if (far->l5) {
		sk = &far->l5->sk;
		sock_hold(sk);
	}
	spin_unlock_bh(&far->lock);
	wake_up_all(&far->wait);
	if (!sk)
		return;
	/* the wake does not say what for, see l5_wake() */
	rcu_read_lock();
	/* once: close() takes it away meanwhile */
	wq = rcu_dereference(sk->sk_wq);
	if (skwq_has_sleeper(wq))
		wake_up_interruptible_all(&wq->wait);
	rcu_read_unlock();
	sock_put(sk);
}

/* The end of a connection that may still move, else NULL. */
static struct l5_far *l5_handover_open(struct l5_sock *l5)
{
	struct l5_far *far = l5_far_of(l5);

	return far && l5_far_is(far, L5_FAR_OPEN) ? far : NULL;
}

/**
 * l5_far_got_socket() - join a socket and its end
 * @far: the object
 * @l5: the socket, which takes a reference of the caller's
 *
 * Context: any.
 */
void l5_far_got_socket(struct l5_far *far, struct l5_sock *l5)
{
	spin_lock_bh(&far->lock);
	far->l5 = l5;
	spin_unlock_bh(&far->lock);
	/* Y, pairs with l5_far_of(): the object is whole */
	smp_store_release(&l5_far_sk(l5)->far, far);
}

/**
 * l5_far_tx_moved() - does the ring take what is sent?
 * @l5: a socket in state L5_MOVING
 *
 * Context: any.
 */
bool l5_far_tx_moved(struct l5_sock *l5)
{
	return l5_out_cut(&l5_far_sk(l5)->far->ph);
}

/**
 * l5_far_rx_moved() - were all bytes read that the peer sent on TCP?
 * @l5: a socket in state L5_MOVING
 *
 * Context: any.
 */
bool l5_far_rx_moved(struct l5_sock *l5)
{
	return l5_far_is(l5_far_sk(l5)->far, L5_FAR_RX_OVER);
}

/* Has TCP brought all that the peer sent there? */
static bool l5_handover_brought(const struct l5_far *far,
				const struct l5_sock *l5)
{
	lockdep_assert_held(&far->lock);
	return (s32)(READ_ONCE(tcp_sk(l5->boot->sk)->rcv_nxt) -
		     far->rx_cut_seq) >= 0;
}

/**
 * l5_far_rx_next() - do the bytes in the ring come next after those TCP has?
 * @l5: a socket in state L5_MOVING
 *
 * Context: any.
 */
bool l5_far_rx_next(struct l5_sock *l5)
{
	struct l5_far *far = l5_far_sk(l5)->far;
	bool next;

	spin_lock_bh(&far->lock);
	next = l5_in_cut(&far->ph) && l5_handover_brought(far, l5);
	spin_unlock_bh(&far->lock);
	return next;
}

/**
 * l5_far_tcp_end() - TCP says that the stream has ended: is that so?
 * @l5: a socket whose bytes come by TCP; l5_far_rx_look() found no more of
 *	them
 *
 * A peer that was told that it may write here may have cut, and the word of it
 * may be lost.
 *
 * Return: 0 if it is, else a negative errno, to each task that asks.
 */
int l5_far_tcp_end(struct l5_sock *l5)
{
	struct l5_far *far = l5_far_of(l5);
	const struct sock *bsk = l5->boot->sk;
	bool lost;

	/* a socket that was used again is TCP's alone */
	if (!far || !l5_far_is(far, L5_FAR_READY) || READ_ONCE(far->l5) != l5)
		return 0;
	/* a FIN before the cut that the peer told of is no true end, either */
	lost = sock_flag(bsk, SOCK_DONE) ? l5_in_cut(&far->ph) :
					   l5_tcp_broken(bsk);
	return lost ? l5_far_rx_lost(l5, far) : 0;
}

/* Both directions are the rings' now. */
static void l5_handover_done(struct l5_far *far)
{
	lockdep_assert_held(&far->lock);
	if (!far->l5 || !l5_out_acked(&far->ph) ||
	    !l5_far_is(far, L5_FAR_RX_OVER) || l5_is_dead(&far->ph))
		return;
	if (l5_set_moved(far->l5))
		l5_poller_add(far);
}

/* Have all bytes been read that the peer sent on TCP? */
static bool l5_handover_look(struct l5_far *far)
{
	const struct sock *bsk;

	lockdep_assert_held(&far->lock);
	if (!far->l5 || !l5_in_cut(&far->ph) ||
	    l5_state(far->l5) != L5_MOVING)
		return false;
	bsk = far->l5->boot->sk;
	/* TCP counts the FIN that may follow as read along with the bytes */
	if ((s32)(READ_ONCE(tcp_sk(bsk)->copied_seq) - far->rx_cut_seq) < 0) {
		if (!far->rx_late && !l5_handover_brought(far, far->l5)) {
			far->rx_late = true;
			l5_far_expire(far, L5_TICK);
		}
		return false;
	}
	if (test_and_set_bit(L5_FAR_RX_OVER, &far->flags))
		return false;
	far->rx_late = false;
	l5_handover_done(far);
	return true;
}

/**
 * l5_far_rx_look() - bytes were read from TCP: was that all?
 * @l5: a socket that moves
 */
void l5_far_rx_look(struct l5_sock *l5)
{
	struct l5_far *far = l5_far_of(l5);
	bool over;

	if (!far || !l5_in_cut(&far->ph) || l5_far_is(far, L5_FAR_RX_OVER))
		return;
	spin_lock_bh(&far->lock);
	over = l5_handover_look(far);
	spin_unlock_bh(&far->lock);
	if (over)
		l5_handover_wake(far);
}

/* TCP's sequence number before the first byte of an end, see rendezvous.c */
static u32 l5_handover_base(const struct l5_far *far, int end)
{
	return end == L5_SERVER ? far->key : far->key >> 32;
}

/* Cut, if it is time and no sender is inside TCP. */
static void l5_handover_cut(struct l5_far *far)
{
	const struct sock *bsk;

	lockdep_assert_held(&far->lock);
	if (far->tx_users || !far->l5 || l5_out_cut(&far->ph) ||
	    l5_is_dead(&far->ph) || l5_state(far->l5) != L5_MOVING)
		return;
	bsk = far->l5->boot->sk;
	/* a socket that sent its FIN, or got a reset, sends no more anyway */
	if (READ_ONCE(bsk->sk_shutdown) & SEND_SHUTDOWN ||
	    !((1 << READ_ONCE(bsk->sk_state)) &
	      (TCPF_ESTABLISHED | TCPF_CLOSE_WAIT)))
		return;
	far->cut_seq = READ_ONCE(tcp_sk(bsk)->write_seq);
	far->info.tx_cut = far->cut_seq - l5_handover_base(far, far->end);
	l5_out_to(&far->ph, L5_OUT_CUT);
	l5_far_say(far, L5_MSG_CUT, far->cut_seq, 0);
	l5_waited_begin(&far->cut_waited);
	l5_far_expire(far, L5_TICK);
}

/**
 * l5_far_tx_begin() - a task is about to send on TCP
 * @far: of a socket that may move
 *
 * Return: false if the ring takes the bytes; else l5_far_tx_end() follows.
 */
bool l5_far_tx_begin(struct l5_far *far)
{
	bool tcp;

	spin_lock_bh(&far->lock);
	tcp = !l5_out_cut(&far->ph);
	if (tcp)
		far->tx_users++;
	spin_unlock_bh(&far->lock);
	return tcp;
}

/**
 * l5_far_tx_end() - a task has sent on TCP; the last one cuts
 * @far: of the socket, see l5_far_tx_begin()
 *
 * Context: process.
 */
void l5_far_tx_end(struct l5_far *far)
{
	bool cut;

	spin_lock_bh(&far->lock);
	far->tx_users--;
	l5_handover_cut(far);
	cut = l5_out_cut(&far->ph);
	spin_unlock_bh(&far->lock);
	if (cut)
		l5_handover_wake(far);
}

/*
 * Is the question for room to be asked again? If the device has sent the last
 * one, yes: the peer may be gone. If not, yes, too: a packet that comes after a
 * lost one has the peer's device ask for the lost one, and some devices forget
 * to send that again by themselves (rxe, after it could not send). But then it
 * is asked less and less often, and other messages must find a place in the
 * queue, since the network may be away for long.
 */
static bool l5_handover_asks_again(const struct l5_far *far)
{
	if ((s32)(far->done - far->probe_no) >= 0)
		return true;
	return is_power_of_2(far->probe_waited.sum / L5_TICK) &&
	       far->posted - far->done < L5_SQ - L5_SQ_OTHERS;
}

/**
 * l5_handover_tick() - does the peer leave this end waiting for too long?
 * @far: of this end, whose wire is up
 *
 * This end may wait for the answer to a cut; for the end of the stream when TCP
 * has ended it, for then no keepalive looks after the peer any more; or for
 * room.
 *
 * Context: may sleep.
 */
void l5_handover_tick(struct l5_far *far)
{
	bool late = false, more = false, wake = false, fin;
	const struct sock *bsk;

	spin_lock_bh(&far->lock);
	if (l5_out_cut(&far->ph) && !l5_out_acked(&far->ph) &&
	    !l5_in_closed(&far->ph)) {
		late = l5_waited(&far->cut_waited, L5_TICK) >
		       l5_far_patience(far, L5_ACK_WAIT);
		more = true;
	}
	bsk = far->l5 ? far->l5->boot->sk : NULL;
	/* the peer's FIN, not a shutdown() of this end */
	fin = bsk && sock_flag(bsk, SOCK_DONE);
	/* a reader told of the message has looked, and there was no FIN yet */
	if (fin && l5_in_fin(&far->ph))
		l5_mailbox_set(far);
	if (fin && l5_in_cut(&far->ph) && !l5_in_fin(&far->ph)) {
		late |= l5_waited(&far->end_waited, L5_TICK) >
			l5_far_patience(far, L5_FIN_WAIT);
		more = true;
	}
	if ((s32)(far->done - far->probe_no) < 0 &&
	    l5_waited(&far->probe_waited, L5_TICK) >
	    far->timeout + L5_STUCK) {
		far->stuck = true;
		late = true;
	} else if (l5_far_is(far, L5_FAR_ROOM)) {
		if (l5_handover_asks_again(far))
			l5_far_probe(far);
		more = true;
	}
	if (far->rx_late) {
		wake = far->l5;
		far->rx_late = wake && !l5_handover_brought(far, far->l5);
		more |= far->rx_late;
	}
	spin_unlock_bh(&far->lock);
	if (late)
		l5_far_dead(far, ETIMEDOUT);
	else if (more)
		l5_far_expire(far, L5_TICK);
	if (wake)
		l5_handover_wake(far);
}

/**
 * l5_handover_unread() - the other end closed and left something unread
 * @far: of this end
 *
 * Context: may sleep.
 * Return: false if a task holds a lock that this needs, and nothing was done.
 */
bool l5_handover_unread(struct l5_far *far)
{
	struct l5_sock *l5;
	bool done = true;

	if (!l5_far_sock_lock(far, &l5))
		return false;
	if (!l5)
		return true;
	/* a peer may say so before this end has moved: no rings then */
	if (l5_state(l5) == L5_MOVING || l5_state(l5) == L5_RINGS) {
		done = !l5_boot_busy(l5->boot->sk);
		if (done)
			l5_send_to_closed(l5);
	}
	l5_far_sock_unlock(l5);
	return done;
}

/**
 * l5_handover_begin() - both ends may be written to: the socket gets its rings
 * @far: of this end
 *
 * Context: may sleep.
 * Return: false if a task holds a lock that this needs, and nothing was done.
 */
bool l5_handover_begin(struct l5_far *far)
{
	struct l5_sock *l5;

	if (!l5_far_sock_lock(far, &l5))
		return false;
	if (!l5)
		return true;
	if (l5_state(l5) != L5_BASE || !l5_far_is(far, L5_FAR_OPEN) ||
	    l5_is_dead(&far->ph))
		goto out;
	/* the connection that connect() made for a meeting may be the same */
	if (l5->conn != far->conn) {
		if (l5->conn)
			l5_conn_put(l5->conn);
		refcount_inc(&far->conn->ref);
		WRITE_ONCE(l5->conn, far->conn);
	}
	l5->end = far->end;
	if (l5_way(far->peer_notify)->stamps)
		far->conn->end[!far->end].late_key = far->key ?: 1;
	rcu_assign_pointer(far->conn->end[far->end].sk, &l5->sk);
	spin_lock_bh(&far->lock);
	l5_set_state(l5, L5_MOVING, L5_REASON_NONE);
	/* not before: a peer that has the answer may send a FIN */
	if (l5_in_cut(&far->ph))
		l5_far_say(far, L5_MSG_CUT_ACK, 0, 0);
	l5_handover_look(far);
	l5_handover_cut(far);
	spin_unlock_bh(&far->lock);
out:
	l5_far_sock_unlock(l5);
	l5_handover_wake(far);
	return true;
}

/**
 * l5_handover_ready() - the peer may be written to
 * @far: of this end, which told the peer the same before it could hear the peer
 *
 * Context: softirq.
 */
void l5_handover_ready(struct l5_far *far)
{
	if (!test_and_set_bit(L5_FAR_PEER, &far->flags))
		l5_far_do(far, L5_DO_MOVE);
}

/**
 * l5_handover_cut_in() - the peer sends no more on TCP
 * @far: of this end
 * @seq: TCP's sequence number after the peer's last byte there
 *
 * Context: softirq.
 */
void l5_handover_cut_in(struct l5_far *far, u32 seq)
{
	int step;

	spin_lock(&far->lock);
	if (!l5_in_cut(&far->ph))
		far->rx_cut_seq = seq;
	step = l5_in_to(&far->ph, L5_IN_CUT);
	if (step > 0) {
		far->info.rx_cut = seq - l5_handover_base(far, !far->end);
		/* else l5_handover_begin() answers, or the close of this end */
		if (far->l5 && l5_state(far->l5) == L5_MOVING)
			l5_far_say(far, L5_MSG_CUT_ACK, 0, 0);
		l5_handover_look(far);
	}
	spin_unlock(&far->lock);
	if (step < 0)
		l5_far_dead(far, -step);
	l5_handover_wake(far);
}

/**
 * l5_handover_acked() - the peer knows where this end's bytes on TCP end
 * @far: of this end
 *
 * Context: softirq.
 */
void l5_handover_acked(struct l5_far *far)
{
	spin_lock(&far->lock);
	/* a peer that answers what it was not asked is not heard */
	if (l5_out_cut(&far->ph) && l5_out_to(&far->ph, L5_OUT_RINGS)) {
		l5_far_push_locked(far);
		l5_handover_done(far);
		if (l5_far_is(far, L5_FAR_FIN_WAITS))
			l5_far_do(far, L5_DO_FIN);
	}
	spin_unlock(&far->lock);
	l5_handover_wake(far);
}

/* Note the reason why a connection stays on TCP, for programs that ask. */
static void l5_handover_stays(struct l5_far *far, struct l5_sock *l5)
{
	static const u8 stat[L5_REASON_MAX] = {
		[L5_REASON_REFUSED] = L5_STAT_RDMA_REFUSED,
		[L5_REASON_SILENT] = L5_STAT_RDMA_SILENT,
		[L5_REASON_RDMA] = L5_STAT_RDMA_FAILED,
		[L5_REASON_LIMIT] = L5_STAT_RDMA_FAILED,
		[L5_REASON_NOMEM] = L5_STAT_RDMA_FAILED,
	};
	u8 why = far->bye ?: L5_REASON_RDMA;

	if (stat[why])
		l5_count(l5, stat[why], 1);
	/* the rings stay until the close: calls may use them already */
	if (l5_state(l5) == L5_BASE || l5_state(l5) == L5_MOVING)
		WRITE_ONCE(l5->reason, why);
}

/*
 * Is it an error that the wire has ended? Not if the peer had said that
 * it closes. And not if the peer never sent by the wire, and either this end
 * did not, either, and sends no more, see l5_fin_true(), or the peer has ended
 * its stream on TCP by a FIN, and got no bytes that it did not know of.
 */
static bool l5_handover_broken(struct l5_far *far, const struct sock *bsk)
{
	lockdep_assert_held(&far->lock);
	if (l5_in_closed(&far->ph) &&
	    (l5_in_fin(&far->ph) || !l5_in_cut(&far->ph)))
		return false;
	if (l5_in_cut(&far->ph))
		return true;
	if (!l5_out_cut(&far->ph) || far->all_by_tcp)
		return false;
	return !sock_flag(bsk, SOCK_DONE) ||
	       l5_load(&far->conn->end[far->end].ctrl->tx_tail);
}

/**
 * l5_handover_over() - there is no wire, or none any more
 * @far: of this end; all its messages were heard
 *
 * Context: may sleep.
 */
void l5_handover_over(struct l5_far *far)
{
	struct sock *bsk = NULL, *sk = NULL;
	int err = READ_ONCE(far->err) ?: ECONNRESET;
	bool broken = false;

	spin_lock_bh(&far->lock);
	if (l5_is_over(&far->ph)) {
		spin_unlock_bh(&far->lock);
		return;
	}
	far->all_by_tcp = l5_out_cut(&far->ph) && l5_fin_true(far);
	if (far->l5) {
		bsk = far->l5->boot->sk;
		sk = &far->l5->sk;
		sock_hold(bsk);
		sock_hold(sk);
		if (!l5_out_cut(&far->ph) && !l5_in_cut(&far->ph))
			l5_handover_stays(far, far->l5);
		broken = l5_handover_broken(far, bsk);
		/* the reset that ended TCP took the wire along */
		if (READ_ONCE(bsk->sk_state) == TCP_CLOSE)
			err = READ_ONCE(bsk->sk_err) ?: err;
		if (broken) {
			l5_count(far->l5, L5_STAT_RDMA_BROKEN, 1);
			WRITE_ONCE(far->err, err);
			WRITE_ONCE(sk->sk_err, err);
			sock_hold(bsk);
			far->abort = bsk;
		}
	}
	/* a task that sees that it is over sees whether that is an error */
	l5_link_to(&far->ph, L5_LINK_OVER);
	if (!l5_out_cut(&far->ph) && !l5_in_cut(&far->ph))
		clear_bit(L5_FAR_OPEN, &far->flags);
	spin_unlock_bh(&far->lock);
	if (l5_far_is(far, L5_FAR_FIN_WAITS))
		l5_far_do(far, L5_DO_FIN);
	if (broken) {
		l5_map_flag(&far->conn->end[far->end],
			    L5_MAP_TX_ASK | L5_MAP_RX_ASK);
		if (!l5_handover_abort(far))
			l5_far_put_off(far, L5_DO_ABORT);
	} else if (far->conn && l5_out_cut(&far->ph)) {
		l5_map_flag(&far->conn->end[far->end],
			    L5_MAP_TX_ASK | L5_MAP_RX_ASK);
	}
	l5_handover_wake(far);
	if (bsk)
		sock_put(bsk);
	if (sk)
		sock_put(sk);
}

/**
 * l5_handover_abort() - the connection is broken: end TCP, too
 * @far: of this end
 *
 * This tells the peer, if it does not know, and tasks that poll.
 *
 * Context: may sleep.
 * Return: false if a task holds a lock that this needs, and nothing was done.
 */
bool l5_handover_abort(struct l5_far *far)
{
	struct l5_sock *l5;
	struct sock *bsk;
	bool done;

	/* so that it is not disconnected, and used again, meanwhile */
	if (!l5_far_sock_lock(far, &l5))
		return false;
	bsk = far->abort;
	done = !bsk || !l5_boot_busy(bsk);
	if (bsk && done) {
		tcp_abort(bsk, READ_ONCE(far->err));
		far->abort = NULL;
		sock_put(bsk);
	}
	if (l5)
		l5_far_sock_unlock(l5);
	return done;
}

/**
 * l5_handover_unused() - there was a wire, and nothing has moved to it
 * @far: of this end, after l5_handover_over()
 *
 * A client's socket has its connection from connect() on, and its rings are
 * made when the answer comes. Calls use the rings without a lock from L5_MOVING
 * on, and a socket that is this end's never comes back from there: see l5_next,
 * and l5_far_abandon() for a socket that is used again. So in L5_BASE no call
 * uses them.
 *
 * Context: may sleep; the last step of the object's end.
 * Return: false if a task holds a lock that this needs, and nothing was done.
 */
bool l5_handover_unused(struct l5_far *far)
{
	struct l5_sock *l5;

	if (!l5_far_sock_lock(far, &l5))
		return false;
	if (l5) {
		if (l5_state(l5) == L5_BASE && far->conn &&
		    l5->conn == far->conn) {
			l5_rdv_cancel(l5);
			WRITE_ONCE(l5->conn, NULL);
			l5_conn_put(far->conn);
		}
		l5_far_sock_unlock(l5);
	}
	/* the object's own reference; the object uses the rings no more */
	if (far->conn)
		l5_conn_put(far->conn);
	return true;
}

/**
 * l5_handover_stop() - an option needs TCP itself
 * @l5: the socket
 * @why: the reason to stay there
 *
 * Return: 0, or -EOPNOTSUPP if it is too late for that.
 */
int l5_handover_stop(struct l5_sock *l5, enum l5_reason why)
{
	struct l5_far *far = l5_handover_open(l5);
	int err = 0;

	if (!far)
		return 0;
	spin_lock_bh(&far->lock);
	if (l5_far_is(far, L5_FAR_READY)) {
		err = -EOPNOTSUPP;
	} else {
		clear_bit(L5_FAR_OPEN, &far->flags);
		far->bye = why;
	}
	spin_unlock_bh(&far->lock);
	/* this stops also a question that is not asked yet */
	if (!err)
		l5_far_dead(far, ECONNRESET);
	return err;
}

/* Is it known whether a wire carries the connection? */
static bool l5_handover_settled(struct l5_sock *l5)
{
	return l5_state(l5) != L5_BASE || !l5_handover_open(l5);
}

/*
 * Does this end wait for nothing but the peer's cut, while TCP still has bytes
 * to read? The task that waits here may be the one that has to read them, and a
 * peer whose TCP is full, or that has sent its FIN there, does not cut. The
 * lock is for the handler of a cut, which goes on to L5_RINGS if there are no
 * such bytes.
 */
static bool l5_handover_told(struct l5_sock *l5, struct l5_far *far)
{
	const struct tcp_sock *tp = tcp_sk(l5->boot->sk);
	bool told;

	spin_lock_bh(&far->lock);
	told = l5_out_acked(&far->ph) &&
	       (l5_in_cut(&far->ph) ||
		READ_ONCE(tp->rcv_nxt) != READ_ONCE(tp->copied_seq));
	spin_unlock_bh(&far->lock);
	return told || l5_state(l5) != L5_MOVING || !l5_handover_open(l5);
}

/**
 * l5_handover_wait() - option L5_RDMA_WAIT: wait for the outcome
 * @l5: a client that is connected
 *
 * Context: may sleep; a signal ends it.
 */
void l5_handover_wait(struct l5_sock *l5)
{
	long timeo = msecs_to_jiffies(READ_ONCE(l5->remote_wait));
	struct l5_far *far = l5_handover_open(l5);

	if (!timeo || !far)
		return;
	timeo = wait_event_interruptible_timeout(*sk_sleep(&l5->sk),
						 l5_handover_settled(l5),
						 timeo);
	/* also wait for the cut, as a rule the next event */
	if (timeo > 0 && l5_state(l5) == L5_MOVING)
		wait_event_interruptible_timeout(*sk_sleep(&l5->sk),
						 l5_handover_told(l5, far),
						 timeo);
}

/**
 * l5_far_undecided() - may the socket get rings that it does not have yet?
 * @l5: a socket that may move
 */
bool l5_far_undecided(struct l5_sock *l5)
{
	struct l5_far *far = l5_far_of(l5);
	int state = l5_state(l5);

	return (state == L5_BASE || state == L5_MOVING) &&
	       !(far && l5_is_dead(&far->ph));
}

/**
 * l5_far_abandon() - the connection ends, and its socket may have another
 * @l5: the socket
 *
 * Calls that have the object may be under way; so it stays, and the socket gets
 * no other object.
 *
 * Context: may sleep; l5_sock.lock held.
 */
void l5_far_abandon(struct l5_sock *l5)
{
	struct sock *abort;
	struct l5_far *far;

	lockdep_assert_held(&l5->lock);
	far = l5_far_sk(l5)->far;
	if (!far)
		return;
	spin_lock_bh(&far->lock);
	far->l5 = NULL;
	clear_bit(L5_FAR_OPEN, &far->flags);
	/* an end that was put off, and its error, were the old connection's */
	abort = far->abort;
	far->abort = NULL;
	if (l5_is_over(&far->ph))
		WRITE_ONCE(l5->sk.sk_err, 0);
	spin_unlock_bh(&far->lock);
	if (abort)
		sock_put(abort);
	l5_mailbox_leave(far);
	l5_far_do(far, L5_DO_END);
}

/**
 * l5_far_detach() - the socket ends
 * @l5: the socket
 * @reset: bytes sent and not delivered are of no use
 * @boot: its bootstrap, NULL if it may not stay
 *
 * Context: may sleep; no end comes to the socket any more. Afterwards nothing
 * here uses the socket.
 * Return: true if the bootstrap stays for a while, see fin.c.
 */
bool l5_far_detach(struct l5_sock *l5, bool reset, struct socket *boot)
{
	struct l5_far *far;
	bool kept;

	far = l5_far_sk(l5)->far;
	if (!far)
		return false;
	boot = l5_fin_prepare(far, boot);
	mutex_lock(&l5->lock);
	/* l5_handover_begin() may have come after the end of the rings */
	if (l5_state(l5) == L5_MOVING || l5_state(l5) == L5_RINGS)
		RCU_INIT_POINTER(l5_own(l5)->sk, NULL);
	spin_lock_bh(&far->lock);
	far->l5 = NULL;
	if (!reset && l5_is_up(&far->ph)) {
		l5_goal_to(&far->ph, L5_OUT_CLOSED);
		l5_far_push_locked(far);
	}
	kept = boot && l5_fin_keep(far, boot);
	spin_unlock_bh(&far->lock);
	WRITE_ONCE(l5_far_sk(l5)->far, NULL);
	mutex_unlock(&l5->lock);
	l5_mailbox_leave(far);
	l5_far_do(far, L5_DO_END);
	l5_far_put(far);
	return kept;
}

/**
 * l5_far_get_info() - option L5_RDMA_INFO
 * @l5: the socket
 * @info: filled in
 */
void l5_far_get_info(struct l5_sock *l5, struct l5_rdma_info *info)
{
	struct l5_far *far = l5_far_of(l5);

	if (!far)
		return;
	spin_lock_bh(&far->lock);
	*info = far->info;
	spin_unlock_bh(&far->lock);
	info->notify = far->notify;
	switch (l5_state(l5)) {
	case L5_RINGS:
		info->state = L5_RDMA_DONE;
		break;
	case L5_MOVING:
		info->state = L5_RDMA_MOVING;
		break;
	default:
		info->state = l5_far_is(far, L5_FAR_OPEN) ? L5_RDMA_OPEN :
						      L5_RDMA_NONE;
	}
	if (l5_is_over(&far->ph) && l5_out_cut(&far->ph))
		info->state = L5_RDMA_FAILED;
}
