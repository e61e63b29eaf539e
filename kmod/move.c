// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5 between hosts: how a connection moves from TCP to rings while it is in
 * use.
 *
 * Each direction has its cut: the sender's bytes go by TCP up to a sequence
 * number, and by the ring from there on. The sender chooses it, at a moment
 * when none of its threads is inside TCP; the receiver reads TCP up to there
 * first. Messages between the two kernels, on the queue pair:
 *
 *   READY     write to me; from both ends, then either may cut
 *   CUT(seq)  my bytes on TCP end here
 *   CUT_ACK   I know; only now the sender's records leave its host
 *
 * A FIN can be ambiguous: is it the end of the stream, or of the part that
 * went by TCP, and the CUT is still on its way? So a FIN is sent only if there
 * was no cut, or after the CUT_ACK. Hence who reads TCP's end and knows of no
 * cut is at the end; who knows of one asks the queue pair (L5_MSG_FIN).
 *
 * If the queue pair fails before a cut the connection just stays where it is.
 * After one it ends with an error, at both ends: TCP is reset.
 *
 * TCP says an error once, to whoever asks first: a sender, another reader,
 * getsockopt(SO_ERROR). After that it looks like an end. So a receiver never
 * takes TCP's word for the end: there is one only after the message FIN, or
 * after TCP's FIN if there was no cut. Anything else is an error, as often as
 * one asks, see l5_rdma_rx_end() and l5_rdma_tcp_end().
 *
 * A socket that may move must not sleep inside TCP: bytes would come by the
 * ring and never wake it. Receivers wait out here; senders inside are counted,
 * and the last to leave cuts.
 */
#include <linux/sched/signal.h>
#include <linux/tcp.h>
#include <net/tcp.h>

#include "rdma.h"

/* How long for the peer's answer to a cut; a FIN waits less, see fin.c. */
#define L5_ACK_WAIT	(20 * HZ)
/* And for so long may records be behind the FIN. */
#define L5_FIN_WAIT	(60 * HZ)

/**
 * l5_move_wake() - whoever waits at a socket is to look again
 * @rd: its
 *
 * Context: any.
 */
void l5_move_wake(struct l5_rdma *rd)
{
	struct sock *sk = NULL;

	spin_lock_bh(&rd->lock);
	if (rd->l5) {
		sk = &rd->l5->sk;
		sock_hold(sk);
	}
	spin_unlock_bh(&rd->lock);
	wake_up_all(&rd->wait);
	if (!sk)
		return;
	/* without saying what for, see l5_wake() */
	rcu_read_lock();
	if (skwq_has_sleeper(rcu_dereference(sk->sk_wq)))
		wake_up_interruptible_all(&rcu_dereference(sk->sk_wq)->wait);
	rcu_read_unlock();
	sock_put(sk);
}

/* What may come of a question that was asked, NULL if nothing can any more. */
static struct l5_rdma *l5_move_hope(struct l5_sock *l5)
{
	/* Y, pairs with l5_door_ask() */
	struct l5_rdma *rd = smp_load_acquire(&l5->rd);

	return rd && l5_rd(rd, L5_RD_OPEN) ? rd : NULL;
}

/**
 * l5_rdma_got_socket() - a socket and what may come of RDMA for it
 * @rd: this
 * @l5: the socket, which takes a reference of the caller's
 *
 * Context: any.
 */
void l5_rdma_got_socket(struct l5_rdma *rd, struct l5_sock *l5)
{
	spin_lock_bh(&rd->lock);
	rd->l5 = l5;
	spin_unlock_bh(&rd->lock);
	/* Y, pairs with l5_may_move(): it is whole */
	smp_store_release(&l5->rd, rd);
}

bool l5_tx_moved(struct l5_sock *l5)
{
	return l5_rd(l5->rd, L5_RD_CUT);
}

bool l5_rx_moved(struct l5_sock *l5)
{
	return l5_rd(l5->rd, L5_RD_RX_OVER);
}

/**
 * l5_rdma_lost() - is there no way any more to send what was published?
 * @l5: a socket with rings
 */
bool l5_rdma_lost(const struct l5_sock *l5)
{
	const struct l5_rdma *rd = l5->conn->rdma;

	return rd && l5_rd(rd, L5_RD_OVER);
}

/* Did the peer say where its stream ends, and is all up to there read? */
static bool l5_rdma_all_here(const struct l5_sock *l5,
			     const struct l5_rdma *rd)
{
	if (!l5_rd(rd, L5_RD_PEER_FIN))
		return false;
	/* AL, pairs with AL in l5_got_fin(): that it did, then where */
	smp_rmb();
	return READ_ONCE(rd->fin_pos) == l5_load(&l5_own(l5)->ctrl->rx_head);
}

/**
 * l5_rdma_rx_over() - there is no way any more for records to come: is that
 *	something to be told of?
 * @l5: a socket with rings
 *
 * Not if all have come and been read: then TCP's FIN is the end, as ever, and
 * may still be on its way.
 */
bool l5_rdma_rx_over(const struct l5_sock *l5)
{
	return l5_rdma_lost(l5) && !l5_rdma_all_here(l5, l5->conn->rdma);
}

/*
 * Did TCP end without the peer's FIN, by a reset or a time-out? That stays to
 * be seen when its error was taken. What is closed because both ends have sent
 * their FIN has SOCK_DONE.
 */
static bool l5_tcp_broken(const struct sock *bsk)
{
	return READ_ONCE(bsk->sk_state) == TCP_CLOSE &&
	       !sock_flag(bsk, SOCK_DONE);
}

/*
 * What a reader is told of bytes that will not come. The errors that the next
 * call would find are the same one.
 */
static int l5_rdma_rx_lost(struct l5_sock *l5, struct l5_rdma *rd)
{
	int tcp = sock_error(l5->boot->sk), own = sock_error(&l5->sk);
	/* the queue pair goes when TCP has: first what ended that */
	int err = tcp ?: -READ_ONCE(rd->err) ?: own;

	/* TCP's name for a reset after a FIN, made for a sender */
	return err && err != -EPIPE ? err : -ECONNRESET;
}

/**
 * l5_rdma_rx_end() - there are signs of an end: is it the stream's?
 * @l5: a socket with rings, of which one was found empty after that
 *
 * Return: 0 if it is, or there is no RDMA, so that the bootstrap may be asked;
 * -EAGAIN if not, and the ring is to be looked at again; another negative errno
 * if bytes are lost, to each that asks.
 */
int l5_rdma_rx_end(struct l5_sock *l5)
{
	struct l5_rdma *rd = l5->conn->rdma;
	const struct l5_end *own = l5_own(l5);
	struct sock *bsk = l5->boot->sk;
	bool fin, over;
	u64 fin_pos;
	int err;

	if (!rd || test_bit(L5_END_DEAF, &own->flags))
		return 0;
	spin_lock_bh(&rd->lock);
	fin = l5_rd(rd, L5_RD_PEER_FIN);
	over = l5_rd(rd, L5_RD_OVER) || rd->l5 != l5;
	fin_pos = rd->fin_pos;
	spin_unlock_bh(&rd->lock);
	/* what came before either, since the look that found nothing */
	if (l5_ring_readable(l5))
		return -EAGAIN;
	if (fin && fin_pos == l5_load(&own->ctrl->rx_head))
		return 0;
	if (fin || over || l5_tcp_broken(bsk))
		return l5_rdma_rx_lost(l5, rd);
	/* TCP goes on after some errors; another may have taken this one */
	err = sock_error(bsk);
	l5_boot_error(l5);
	return err ?: sock_error(&l5->sk) ?: -EAGAIN;
}

/**
 * l5_rdma_tcp_end() - TCP says the end of the stream: is it?
 * @l5: a socket whose bytes come by TCP, l5_rdma_rx_look() found no more of it
 *
 * A peer that was told that it may write here may have cut, and the word of it
 * may be lost.
 *
 * Return: 0 if it is, else a negative errno, to each that asks.
 */
int l5_rdma_tcp_end(struct l5_sock *l5)
{
	struct l5_rdma *rd = smp_load_acquire(&l5->rd);
	const struct sock *bsk = l5->boot->sk;
	bool lost;

	/* one that was used again is TCP's alone */
	if (!rd || !l5_rd(rd, L5_RD_READY) || READ_ONCE(rd->l5) != l5)
		return 0;
	/* a FIN before the cut that the peer told of is as false as none */
	lost = sock_flag(bsk, SOCK_DONE) ? l5_rd(rd, L5_RD_RX_CUT) :
					   l5_tcp_broken(bsk);
	return lost ? l5_rdma_rx_lost(l5, rd) : 0;
}

/**
 * l5_rdma_says_end() - do the signs of an end that TCP gives count?
 * @l5: a socket with rings
 *
 * Not as long as there may be records on their way.
 */
bool l5_rdma_says_end(const struct l5_sock *l5)
{
	const struct l5_rdma *rd = l5->conn->rdma;

	return !rd || l5_rd(rd, L5_RD_PEER_FIN) || l5_rd(rd, L5_RD_OVER) ||
	       l5_tcp_broken(l5->boot->sk);
}

/* Both directions are the rings' now. */
static void l5_move_done(struct l5_rdma *rd)
{
	lockdep_assert_held(&rd->lock);
	if (!rd->l5 || !l5_rd(rd, L5_RD_ACKED) || !l5_rd(rd, L5_RD_RX_OVER) ||
	    l5_rd(rd, L5_RD_DEAD))
		return;
	if (l5_set_state(rd->l5, L5_SHM, L5_REASON_NONE))
		l5_poller_add(rd);
}

/* Has what the peer sent on TCP been read? */
static bool l5_move_look(struct l5_rdma *rd)
{
	const struct sock *bsk;

	lockdep_assert_held(&rd->lock);
	if (!rd->l5 || !l5_rd(rd, L5_RD_RX_CUT) ||
	    l5_state(rd->l5) != L5_MOVING)
		return false;
	bsk = rd->l5->boot->sk;
	/* TCP counts the FIN that may follow as read along with the bytes */
	if ((s32)(READ_ONCE(tcp_sk(bsk)->copied_seq) - rd->rx_cut_seq) < 0)
		return false;
	if (test_and_set_bit(L5_RD_RX_OVER, &rd->flags))
		return false;
	l5_move_done(rd);
	return true;
}

/**
 * l5_rdma_rx_look() - bytes were read from TCP: was that all?
 * @l5: a socket that moves
 */
void l5_rdma_rx_look(struct l5_sock *l5)
{
	struct l5_rdma *rd = smp_load_acquire(&l5->rd);
	bool over;

	if (!rd || !l5_rd(rd, L5_RD_RX_CUT) || l5_rd(rd, L5_RD_RX_OVER))
		return;
	spin_lock_bh(&rd->lock);
	over = l5_move_look(rd);
	spin_unlock_bh(&rd->lock);
	if (over)
		l5_move_wake(rd);
}

/* Cut, if it is time and nobody is inside TCP. */
static void l5_move_cut(struct l5_rdma *rd)
{
	const struct sock *bsk;

	lockdep_assert_held(&rd->lock);
	if (rd->tx_users || !rd->l5 || l5_rd(rd, L5_RD_CUT) ||
	    l5_rd(rd, L5_RD_DEAD) || l5_state(rd->l5) != L5_MOVING)
		return;
	bsk = rd->l5->boot->sk;
	/* who has sent its FIN, or got a reset, sends no more anyway */
	if (READ_ONCE(bsk->sk_shutdown) & SEND_SHUTDOWN ||
	    !((1 << READ_ONCE(bsk->sk_state)) &
	      (TCPF_ESTABLISHED | TCPF_CLOSE_WAIT)))
		return;
	rd->cut_seq = READ_ONCE(tcp_sk(bsk)->write_seq);
	rd->info.tx_cut = rd->cut_seq - (u32)(rd->server ? rd->key :
					      rd->key >> 32);
	set_bit(L5_RD_CUT, &rd->flags);
	l5_rdma_say(rd, L5_MSG_CUT, rd->cut_seq, 0);
	rd->cut_at = jiffies;
	l5_door_expire(rd, L5_TICK);
}

/**
 * l5_rdma_tx_begin() - about to send on TCP
 * @rd: of a socket that may move
 *
 * Return: false if it is the ring that takes it; else l5_rdma_tx_end() follows.
 */
bool l5_rdma_tx_begin(struct l5_rdma *rd)
{
	bool tcp;

	spin_lock_bh(&rd->lock);
	tcp = !l5_rd(rd, L5_RD_CUT);
	if (tcp)
		rd->tx_users++;
	spin_unlock_bh(&rd->lock);
	return tcp;
}

void l5_rdma_tx_end(struct l5_rdma *rd)
{
	bool cut;

	spin_lock_bh(&rd->lock);
	rd->tx_users--;
	l5_move_cut(rd);
	cut = l5_rd(rd, L5_RD_CUT);
	spin_unlock_bh(&rd->lock);
	if (cut)
		l5_move_wake(rd);
}

/* The socket of an object, so that it stays while this sleeps. */
static struct l5_sock *l5_move_socket(struct l5_rdma *rd)
{
	struct l5_sock *l5;

	spin_lock_bh(&rd->lock);
	l5 = rd->l5;
	if (l5)
		sock_hold(&l5->sk);
	spin_unlock_bh(&rd->lock);
	return l5;
}

/*
 * Is the question for room to be asked again? If the device has sent the last
 * one, yes: the peer may be gone. If not, too: what comes after something that
 * was lost has the peer's device ask for that, and some forget to send it again
 * by themselves (rxe, after it could not send). But less and less, and other
 * messages must find a place in the queue, since the network may be away for
 * long.
 */
static bool l5_move_asks_again(const struct l5_rdma *rd)
{
	if ((s32)(rd->done - rd->probe_no) >= 0)
		return true;
	return is_power_of_2((jiffies - rd->probe_at) / L5_TICK) &&
	       rd->posted - rd->done < L5_SQ - L5_SQ_OTHERS;
}

/**
 * l5_move_tick() - does the peer leave this end waiting for too long?
 * @rd: of this end, whose queue pair is up
 *
 * For the answer to a cut; for the end of the stream when TCP has ended it, for
 * then no keepalive looks after the peer any more; or for room.
 *
 * Context: may sleep.
 */
void l5_move_tick(struct l5_rdma *rd)
{
	bool late = false, more = false, fin;
	const struct sock *bsk;

	spin_lock_bh(&rd->lock);
	if (l5_rd(rd, L5_RD_CUT) && !l5_rd(rd, L5_RD_ACKED) &&
	    !l5_rd(rd, L5_RD_PEER_CLOSED)) {
		late = time_after(jiffies, rd->cut_at +
				  l5_rdma_patience(rd, L5_ACK_WAIT));
		more = true;
	}
	bsk = rd->l5 ? rd->l5->boot->sk : NULL;
	fin = bsk && READ_ONCE(bsk->sk_shutdown) & RCV_SHUTDOWN;
	/* who was told of the message has looked, and there was no FIN yet */
	if (fin && l5_rd(rd, L5_RD_PEER_FIN))
		l5_mailbox_set(rd);
	if (fin && l5_rd(rd, L5_RD_RX_CUT) && !l5_rd(rd, L5_RD_PEER_FIN)) {
		if (!rd->fin_at)
			rd->fin_at = jiffies ?: 1;
		late |= time_after(jiffies, rd->fin_at +
				   l5_rdma_patience(rd, L5_FIN_WAIT));
		more = true;
	}
	if ((s32)(rd->done - rd->probe_no) < 0 &&
	    time_after(jiffies, rd->probe_at + rd->timeout + L5_STUCK)) {
		rd->stuck = true;
		late = true;
	} else if (l5_rd(rd, L5_RD_ROOM)) {
		if (l5_move_asks_again(rd))
			l5_rdma_probe(rd);
		more = true;
	}
	spin_unlock_bh(&rd->lock);
	if (late)
		l5_rdma_dead(rd, ETIMEDOUT);
	else if (more)
		l5_door_expire(rd, L5_TICK);
}

/* TCP's FIN has come: records are to follow, or it was the last to come. */
static void l5_move_fin_next(struct l5_rdma *rd)
{
	if (!l5_rd(rd, L5_RD_PEER_FIN))
		l5_door_expire(rd, L5_TICK);
	else if (READ_ONCE(rd->mailbox))
		l5_rdma_do(rd, L5_DO_EXPIRE);
}

/**
 * l5_move_fin_in() - TCP's stream has ended, perhaps
 * @l5: a socket with rings
 *
 * By a FIN, and what belongs before it will come; by a reset, and nothing will,
 * even if another has taken its error by now.
 *
 * Context: any.
 */
void l5_move_fin_in(struct l5_sock *l5)
{
	const struct sock *bsk = l5->boot->sk;
	struct l5_rdma *rd = l5->conn->rdma;
	int err = READ_ONCE(bsk->sk_err);

	if (rd && (l5_tcp_broken(bsk) ||
		   (err && READ_ONCE(bsk->sk_state) == TCP_CLOSE)))
		l5_rdma_dead(rd, err ?: ECONNRESET);
	else if (rd && !l5_rd(rd, L5_RD_DEAD) &&
		 READ_ONCE(bsk->sk_shutdown) & RCV_SHUTDOWN)
		l5_move_fin_next(rd);
}

/**
 * l5_move_busy() - is a task in a call on a bootstrap?
 * @bsk: the bootstrap
 *
 * It may be there for as long as it likes. One that comes between this look and
 * what it is for holds a single worker up.
 *
 * Context: process.
 */
bool l5_move_busy(struct sock *bsk)
{
	bool busy;

	local_bh_disable();
	bh_lock_sock(bsk);
	busy = sock_owned_by_user(bsk);
	bh_unlock_sock(bsk);
	local_bh_enable();
	return busy;
}

/**
 * l5_move_lock() - the socket of an object, and that it stays one
 * @rd: the object
 * @found: the socket, until l5_move_unlock(), or NULL: it has none
 *
 * Context: @rd's work.
 * Return: false if a task holds the lock, see l5_rdma_put_off().
 */
bool l5_move_lock(struct l5_rdma *rd, struct l5_sock **found)
{
	struct l5_sock *l5 = l5_move_socket(rd);

	*found = NULL;
	if (!l5)
		return true;
	/* the release of the socket waits for the mutex */
	if (!mutex_trylock(&l5->lock)) {
		sock_put(&l5->sk);
		return false;
	}
	rd->pause = 0;
	if (READ_ONCE(rd->l5)) {
		*found = l5;
		return true;
	}
	mutex_unlock(&l5->lock);
	sock_put(&l5->sk);
	return true;
}

/**
 * l5_move_unlock() - undo l5_move_lock()
 * @l5: what was found
 */
void l5_move_unlock(struct l5_sock *l5)
{
	mutex_unlock(&l5->lock);
	sock_put(&l5->sk);
}

/**
 * l5_move_unread() - the other end closed and left something unread
 * @rd: of this end
 *
 * Context: may sleep.
 * Return: false if a task holds a lock that this needs, and nothing was done.
 */
bool l5_move_unread(struct l5_rdma *rd)
{
	struct l5_sock *l5;
	bool done = true;

	if (!l5_move_lock(rd, &l5))
		return false;
	if (!l5)
		return true;
	/* a peer may say so of one that has not moved: no rings then */
	if (l5_state(l5) == L5_MOVING || l5_state(l5) == L5_SHM) {
		done = !l5_move_busy(l5->boot->sk);
		if (done)
			l5_send_to_closed(l5);
	}
	l5_move_unlock(l5);
	return done;
}

/**
 * l5_move_begin() - both ends may be written to: the socket gets its rings
 * @rd: of this end
 *
 * Context: may sleep.
 * Return: false if a task holds a lock that this needs, and nothing was done.
 */
bool l5_move_begin(struct l5_rdma *rd)
{
	struct l5_sock *l5;

	if (!l5_move_lock(rd, &l5))
		return false;
	if (!l5)
		return true;
	if (l5_state(l5) != L5_BASE || !l5_rd(rd, L5_RD_OPEN) ||
	    l5_rd(rd, L5_RD_DEAD))
		goto out;
	/* what connect() made to meet a peer here may be the same */
	if (l5->conn != rd->conn) {
		if (l5->conn)
			l5_conn_put(l5->conn);
		refcount_inc(&rd->conn->ref);
		l5->conn = rd->conn;
	}
	l5->end = rd->end;
	if (rd->peer_notify == L5_NOTIFY_ONE)
		rd->conn->end[!rd->end].late_key = rd->key ?: 1;
	rcu_assign_pointer(rd->conn->end[rd->end].sk, &l5->sk);
	spin_lock_bh(&rd->lock);
	l5_set_state(l5, L5_MOVING, L5_REASON_NONE);
	/* not before: who has the answer may send a FIN */
	if (l5_rd(rd, L5_RD_RX_CUT))
		l5_rdma_say(rd, L5_MSG_CUT_ACK, 0, 0);
	l5_move_look(rd);
	l5_move_cut(rd);
	spin_unlock_bh(&rd->lock);
out:
	l5_move_unlock(l5);
	l5_move_wake(rd);
	return true;
}

/**
 * l5_move_ready() - the peer may be written to
 * @rd: of this end, which told the peer the same before it could hear this
 *
 * Context: softirq.
 */
void l5_move_ready(struct l5_rdma *rd)
{
	if (!test_and_set_bit(L5_RD_PEER, &rd->flags))
		l5_rdma_do(rd, L5_DO_MOVE);
}

/**
 * l5_move_cut_in() - the peer sends no more on TCP
 * @rd: of this end
 * @seq: after its last byte there
 *
 * Context: softirq.
 */
void l5_move_cut_in(struct l5_rdma *rd, u32 seq)
{
	spin_lock(&rd->lock);
	if (!l5_rd(rd, L5_RD_RX_CUT)) {
		rd->rx_cut_seq = seq;
		rd->info.rx_cut = seq - (u32)(rd->server ? rd->key >> 32 :
					      rd->key);
		set_bit(L5_RD_RX_CUT, &rd->flags);
		/* else l5_move_begin() answers, or the end that closes */
		if (rd->l5 && l5_state(rd->l5) == L5_MOVING)
			l5_rdma_say(rd, L5_MSG_CUT_ACK, 0, 0);
		l5_move_look(rd);
	}
	spin_unlock(&rd->lock);
	l5_move_wake(rd);
}

/**
 * l5_move_acked() - the peer knows where this end's bytes on TCP end
 * @rd: of this end
 *
 * Context: softirq.
 */
void l5_move_acked(struct l5_rdma *rd)
{
	spin_lock(&rd->lock);
	if (l5_rd(rd, L5_RD_CUT)) {
		set_bit(L5_RD_ACKED, &rd->flags);
		l5_rdma_push_locked(rd);
		l5_move_done(rd);
		if (l5_rd(rd, L5_RD_FIN_WAITS))
			l5_rdma_do(rd, L5_DO_FIN);
	}
	spin_unlock(&rd->lock);
	l5_move_wake(rd);
}

/* What is the reason that a connection stays on TCP, for who asks? */
static void l5_move_stays(struct l5_rdma *rd, struct l5_sock *l5)
{
	static const u8 stat[L5_REASON_MAX] = {
		[L5_REASON_REFUSED] = L5_STAT_RDMA_REFUSED,
		[L5_REASON_SILENT] = L5_STAT_RDMA_SILENT,
		[L5_REASON_RDMA] = L5_STAT_RDMA_FAILED,
		[L5_REASON_LIMIT] = L5_STAT_RDMA_FAILED,
		[L5_REASON_NOMEM] = L5_STAT_RDMA_FAILED,
	};
	u8 why = rd->bye ?: L5_REASON_RDMA;

	if (stat[why])
		l5_count(l5, stat[why], 1);
	/* its rings stay until it is closed: calls may use them already */
	if (l5_state(l5) == L5_BASE || l5_state(l5) == L5_MOVING)
		WRITE_ONCE(l5->reason, why);
}

/*
 * Is it an error that the queue pair has ended? Not if the peer had said that
 * it closes; and not if it never sent by it, has ended its stream on TCP by a
 * FIN, and got nothing that it did not know of.
 */
static bool l5_move_broken(struct l5_rdma *rd, const struct sock *bsk)
{
	lockdep_assert_held(&rd->lock);
	if (l5_rd(rd, L5_RD_PEER_CLOSED) &&
	    (l5_rd(rd, L5_RD_PEER_FIN) || !l5_rd(rd, L5_RD_RX_CUT)))
		return false;
	if (l5_rd(rd, L5_RD_RX_CUT))
		return true;
	if (!l5_rd(rd, L5_RD_CUT))
		return false;
	return !sock_flag(bsk, SOCK_DONE) ||
	       l5_load(&rd->conn->end[rd->end].ctrl->tx_tail);
}

/**
 * l5_move_over() - there is no queue pair, or none any more
 * @rd: of this end; all its messages were heard
 *
 * Context: may sleep.
 */
void l5_move_over(struct l5_rdma *rd)
{
	struct sock *bsk = NULL, *sk = NULL;
	int err = rd->err ?: ECONNRESET;
	bool broken = false;

	spin_lock_bh(&rd->lock);
	if (l5_rd(rd, L5_RD_OVER)) {
		spin_unlock_bh(&rd->lock);
		return;
	}
	if (rd->l5) {
		bsk = rd->l5->boot->sk;
		sk = &rd->l5->sk;
		sock_hold(bsk);
		sock_hold(sk);
		if (!l5_rd(rd, L5_RD_CUT) && !l5_rd(rd, L5_RD_RX_CUT))
			l5_move_stays(rd, rd->l5);
		broken = l5_move_broken(rd, bsk);
		/* what ended TCP took the queue pair along: the peer's reset */
		if (READ_ONCE(bsk->sk_state) == TCP_CLOSE)
			err = READ_ONCE(bsk->sk_err) ?: err;
		if (broken) {
			l5_count(rd->l5, L5_STAT_RDMA_BROKEN, 1);
			rd->err = err;
			set_bit(L5_RD_BROKEN, &rd->flags);
			WRITE_ONCE(sk->sk_err, err);
			sock_hold(bsk);
			rd->abort = bsk;
		}
	}
	/* who sees that it is over sees whether that is an error */
	smp_mb__before_atomic();
	set_bit(L5_RD_OVER, &rd->flags);
	if (!l5_rd(rd, L5_RD_CUT) && !l5_rd(rd, L5_RD_RX_CUT))
		clear_bit(L5_RD_OPEN, &rd->flags);
	spin_unlock_bh(&rd->lock);
	if (l5_rd(rd, L5_RD_FIN_WAITS))
		l5_rdma_do(rd, L5_DO_FIN);
	if (broken) {
		l5_map_flag(&rd->conn->end[rd->end],
			    L5_MAP_TX_ASK | L5_MAP_RX_ASK);
		if (!l5_move_abort(rd))
			l5_rdma_put_off(rd, L5_DO_ABORT);
	} else if (rd->conn && l5_rd(rd, L5_RD_CUT)) {
		l5_map_flag(&rd->conn->end[rd->end],
			    L5_MAP_TX_ASK | L5_MAP_RX_ASK);
	}
	l5_move_wake(rd);
	if (bsk)
		sock_put(bsk);
	if (sk)
		sock_put(sk);
}

/**
 * l5_move_abort() - the connection is broken: end TCP, too
 * @rd: of this end
 *
 * This tells the peer, if it does not know, and whoever polls.
 *
 * Context: may sleep.
 * Return: false if a task holds a lock that this needs, and nothing was done.
 */
bool l5_move_abort(struct l5_rdma *rd)
{
	struct sock *bsk = rd->abort;

	if (!bsk)
		return true;
	if (l5_move_busy(bsk))
		return false;
	tcp_abort(bsk, rd->err);
	rd->abort = NULL;
	sock_put(bsk);
	return true;
}

/**
 * l5_move_unused() - there was a queue pair, and nothing has moved to it
 * @rd: of this end, after l5_move_over()
 *
 * A client's socket has its rings from connect() on, and they are made when the
 * answer comes. Calls use them without a lock from L5_MOVING on, and a socket
 * that is this end's never comes back from there: see l5_next, and
 * l5_rdma_abandon() for one that is used again. So in L5_BASE nobody does.
 *
 * Context: may sleep; the last that the object's end does.
 * Return: false if a task holds a lock that this needs, and nothing was done.
 */
bool l5_move_unused(struct l5_rdma *rd)
{
	struct l5_sock *l5;

	if (!l5_move_lock(rd, &l5))
		return false;
	if (l5) {
		if (l5_state(l5) == L5_BASE && rd->conn &&
		    l5->conn == rd->conn) {
			l5_meet_cancel(l5);
			l5->conn = NULL;
			l5_conn_put(rd->conn);
		}
		l5_move_unlock(l5);
	}
	/* the object's own, which nothing of it uses any more */
	if (rd->conn)
		l5_conn_put(rd->conn);
	return true;
}

/**
 * l5_move_stop() - an option wants TCP itself
 * @l5: the socket
 * @why: the reason to stay there
 *
 * Return: 0, or -EOPNOTSUPP if it is too late for that.
 */
int l5_move_stop(struct l5_sock *l5, enum l5_reason why)
{
	struct l5_rdma *rd;
	int err = 0;

	if (l5_hope_end(l5)) {
		WRITE_ONCE(l5->reason, why);
		return 0;
	}
	rd = l5_move_hope(l5);
	if (!rd)
		return 0;
	l5_rdma_forget(rd);
	spin_lock_bh(&rd->lock);
	if (l5_rd(rd, L5_RD_READY)) {
		err = -EOPNOTSUPP;
	} else {
		clear_bit(L5_RD_OPEN, &rd->flags);
		rd->bye = why;
	}
	spin_unlock_bh(&rd->lock);
	/* also a question that is not asked yet */
	if (!err)
		l5_rdma_dead(rd, ECONNRESET);
	return err;
}

/* Is it known whether RDMA carries the connection? */
static bool l5_move_settled(struct l5_sock *l5)
{
	return l5_state(l5) != L5_BASE || !l5_move_hope(l5);
}

/**
 * l5_move_wait() - option L5_RDMA_WAIT: wait for the outcome
 * @l5: a client that is connected
 *
 * Context: may sleep; a signal ends it.
 */
void l5_move_wait(struct l5_sock *l5)
{
	long timeo = msecs_to_jiffies(READ_ONCE(l5->rdma_wait));
	struct l5_rdma *rd = l5_move_hope(l5);

	if (!timeo || !rd)
		return;
	timeo = wait_event_interruptible_timeout(*sk_sleep(&l5->sk),
						 l5_move_settled(l5), timeo);
	/* and the cut, as a rule the next thing */
	if (timeo > 0 && l5_state(l5) == L5_MOVING)
		wait_event_interruptible_timeout(*sk_sleep(&l5->sk),
						 l5_state(l5) != L5_MOVING ||
						 !l5_move_hope(l5), timeo);
}

/**
 * l5_rdma_undecided() - may the socket get rings that it does not have?
 * @l5: the socket
 */
bool l5_rdma_undecided(struct l5_sock *l5)
{
	struct l5_rdma *rd = smp_load_acquire(&l5->rd);
	int state = l5_state(l5);

	return l5_may_move(l5) && (state == L5_BASE || state == L5_MOVING) &&
	       !(rd && l5_rd(rd, L5_RD_DEAD));
}

/**
 * l5_rdma_abandon() - the connection ends, and its socket may have another
 * @l5: the socket
 *
 * Calls that have the object may be under way; so it stays, and the socket gets
 * no other.
 *
 * Context: may sleep; l5_sock.lock held.
 */
void l5_rdma_abandon(struct l5_sock *l5)
{
	struct l5_rdma *rd;

	lockdep_assert_held(&l5->lock);
	if (l5_hope_end(l5))
		return;
	rd = l5->rd;
	if (!rd)
		return;
	l5_rdma_forget(rd);
	spin_lock_bh(&rd->lock);
	rd->l5 = NULL;
	clear_bit(L5_RD_OPEN, &rd->flags);
	spin_unlock_bh(&rd->lock);
	l5_mailbox_leave(rd);
	l5_rdma_do(rd, L5_DO_END);
}

/**
 * l5_rdma_detach() - the socket ends
 * @l5: the socket
 * @reset: what was sent and not delivered is of no use
 * @boot: its bootstrap, NULL if that may not stay
 *
 * Context: may sleep. Afterwards nothing here uses the socket.
 * Return: true if the bootstrap stays for a while, see fin.c.
 */
bool l5_rdma_detach(struct l5_sock *l5, bool reset, struct socket *boot)
{
	struct l5_rdma *rd;
	bool kept;

	/* from here on there comes no other */
	l5_hope_free(l5);
	rd = l5->rd;
	if (!rd)
		return false;
	boot = l5_fin_prepare(rd, boot);
	mutex_lock(&l5->lock);
	l5_rdma_forget(rd);
	/* l5_move_begin() may have come after the rings were seen to */
	if (l5_state(l5) == L5_MOVING || l5_state(l5) == L5_SHM)
		RCU_INIT_POINTER(l5_own(l5)->sk, NULL);
	spin_lock_bh(&rd->lock);
	rd->l5 = NULL;
	if (!reset && l5_rd(rd, L5_RD_UP) && !l5_rd(rd, L5_RD_DEAD)) {
		set_bit(L5_RD_FIN, &rd->flags);
		set_bit(L5_RD_CLOSE, &rd->flags);
		l5_rdma_push_locked(rd);
	}
	kept = boot && l5_fin_keep(rd, boot);
	spin_unlock_bh(&rd->lock);
	WRITE_ONCE(l5->rd, NULL);
	mutex_unlock(&l5->lock);
	l5_mailbox_leave(rd);
	l5_rdma_do(rd, L5_DO_END);
	l5_rdma_put(rd);
	return kept;
}

/**
 * l5_rdma_get_info() - option L5_RDMA_INFO
 * @l5: the socket
 * @info: filled in
 */
void l5_rdma_get_info(struct l5_sock *l5, struct l5_rdma_info *info)
{
	struct l5_rdma *rd = smp_load_acquire(&l5->rd);

	if (!rd && l5->hope) {
		info->notify = READ_ONCE(l5->ln->rdma_notify);
		info->state = l5_may_move(l5) ? L5_RDMA_OPEN : L5_RDMA_NONE;
	}
	if (!rd)
		return;
	spin_lock_bh(&rd->lock);
	*info = rd->info;
	spin_unlock_bh(&rd->lock);
	info->notify = rd->notify;
	switch (l5_state(l5)) {
	case L5_SHM:
		info->state = L5_RDMA_DONE;
		break;
	case L5_MOVING:
		info->state = L5_RDMA_MOVING;
		break;
	default:
		info->state = l5_rd(rd, L5_RD_OPEN) ? L5_RDMA_OPEN :
						      L5_RDMA_NONE;
	}
	if (l5_rd(rd, L5_RD_OVER) && l5_rd(rd, L5_RD_CUT))
		info->state = L5_RDMA_FAILED;
}
