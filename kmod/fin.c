// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5 between hosts: a FIN that comes after a cut.
 *
 * On TCP a FIN is the end of the stream, or of the part that went by TCP. The
 * peer knows which once it knows of the cut, see move.c; so the FIN waits for
 * its answer. That is a matter of one round trip, but the peer's kernel may
 * be slow, or hostile, and no call of TCP's waits for it: close() leaves the
 * bootstrap to the work here, and shutdown() leaves it the FIN. Only close()
 * with SO_LINGER waits itself, as it does for TCP's own answer.
 *
 * If the answer never comes no FIN may say that the stream ends where TCP does:
 * a reset is sent then.
 */
#include <net/net_namespace.h>
#include <net/tcp.h>

#include "rdma.h"

/*
 * How long for the answer. That is to be longer than a lost packet takes, and a
 * closed socket is not to stay for minutes.
 */
#define L5_FIN_ANSWER		(5 * HZ)
#define L5_FIN_ANSWER_MAX	(15 * HZ)

static unsigned long l5_fin_patience(const struct l5_rdma *rd)
{
	return clamp_t(unsigned long, rd->timeout / 2, L5_FIN_ANSWER,
		       L5_FIN_ANSWER_MAX);
}

/* May a FIN be sent? To a peer that has closed too, whatever it knows. */
static bool l5_fin_may(const struct l5_rdma *rd)
{
	return l5_rd(rd, L5_RD_ACKED) || l5_rd(rd, L5_RD_PEER_CLOSED);
}

/* Has it to wait? Not of a socket that was used again: l5_rdma_abandon(). */
static bool l5_fin_must_wait(const struct l5_rdma *rd)
{
	return l5_rd(rd, L5_RD_CUT) && l5_rd(rd, L5_RD_OPEN) &&
	       !l5_rd(rd, L5_RD_OVER) && !l5_fin_may(rd);
}

/**
 * l5_fin_wait() - before a FIN: wait for the peer's answer, or reset
 * @l5: a socket that closes, with SO_LINGER
 *
 * Context: may sleep, for L5_FIN_ANSWER_MAX.
 */
void l5_fin_wait(struct l5_sock *l5)
{
	struct l5_rdma *rd = l5->rd;

	if (!rd || !l5_rd(rd, L5_RD_CUT) || !l5_rd(rd, L5_RD_OPEN))
		return;
	wait_event_timeout(rd->wait, l5_fin_may(rd) || l5_rd(rd, L5_RD_OVER),
			   l5_fin_patience(rd));
	if (!l5_fin_may(rd))
		tcp_abort(l5->boot->sk, ECONNRESET);
}

/* From here on the work sees to it. */
static void l5_fin_begin(struct l5_rdma *rd)
{
	set_bit(L5_RD_FIN_WAITS, &rd->flags);
	l5_rdma_do(rd, L5_DO_FIN);
}

/**
 * l5_fin_later() - shutdown() ends the stream
 * @l5: the socket
 *
 * Context: l5_sock.lock held.
 * Return: true if the work sends the FIN, once that may be.
 */
bool l5_fin_later(struct l5_sock *l5)
{
	struct l5_rdma *rd = l5->rd;
	bool later;

	lockdep_assert_held(&l5->lock);
	if (!rd)
		return false;
	spin_lock_bh(&rd->lock);
	later = l5_fin_must_wait(rd);
	if (later)
		rd->fin_late = jiffies + l5_fin_patience(rd);
	spin_unlock_bh(&rd->lock);
	if (later)
		l5_fin_begin(rd);
	return later;
}

/**
 * l5_fin_prepare() - close() ends the socket: may its bootstrap have to stay?
 * @rd: of the socket
 * @boot: its bootstrap, which has no owner any more; NULL if it may not
 *
 * The file and the wait queue of a bootstrap are its socket's, and go with it;
 * its namespace stays.
 *
 * Return: @boot if it may, then l5_fin_keep() follows, or NULL.
 */
struct socket *l5_fin_prepare(struct l5_rdma *rd, struct socket *boot)
{
	struct sock *bsk;

	if (!boot || !l5_fin_must_wait(rd))
		return NULL;
	bsk = boot->sk;
	get_net(sock_net(bsk));
	write_lock_bh(&bsk->sk_callback_lock);
	WRITE_ONCE(boot->file, NULL);
	rcu_assign_pointer(bsk->sk_wq, &boot->wq);
	write_unlock_bh(&bsk->sk_callback_lock);
	return boot;
}

/**
 * l5_fin_keep() - has it to stay?
 * @rd: whose socket is gone, its lock held
 * @boot: from l5_fin_prepare(), not NULL
 *
 * Return: true if so, and the work ends it, once that may be.
 */
bool l5_fin_keep(struct l5_rdma *rd, struct socket *boot)
{
	lockdep_assert_held(&rd->lock);
	if (!l5_fin_must_wait(rd)) {
		put_net(sock_net(boot->sk));
		return false;
	}
	rd->boot = boot;
	rd->fin_late = jiffies + l5_fin_patience(rd);
	l5_fin_begin(rd);
	return true;
}

/* Of a socket that is closed. */
static void l5_fin_end(struct socket *boot, bool reset)
{
	struct net *net = sock_net(boot->sk);

	if (reset)
		tcp_abort(boot->sk, ECONNRESET);
	l5_boot_end(boot);
	put_net(net);
}

/* Of one that was shut down, and may have been closed since. */
static bool l5_fin_send(struct l5_rdma *rd, bool reset)
{
	struct l5_sock *l5;
	bool done = true;

	if (!l5_move_lock(rd, &l5))
		return false;
	if (!l5)
		return true;
	done = !l5_move_busy(l5->boot->sk);
	if (done && reset)
		tcp_abort(l5->boot->sk, ECONNRESET);
	else if (done)
		l5->boot->ops->shutdown(l5->boot, SHUT_WR);
	l5_move_unlock(l5);
	return done;
}

/**
 * l5_fin_work() - may the FIN be sent now?
 * @rd: of this end, one with L5_RD_FIN_WAITS
 *
 * Context: @rd's work.
 * Return: false if it is to be called again.
 */
bool l5_fin_work(struct l5_rdma *rd)
{
	struct socket *boot = NULL;
	bool may, now;

	spin_lock_bh(&rd->lock);
	may = l5_fin_may(rd);
	now = may || l5_rd(rd, L5_RD_OVER) ||
	      time_after_eq(jiffies, rd->fin_late);
	if (now)
		swap(boot, rd->boot);
	spin_unlock_bh(&rd->lock);
	if (!now)
		return false;
	/* one that was closed after shutdown() has it too */
	if (!boot)
		return l5_fin_send(rd, !may);
	l5_fin_end(boot, !may);
	return true;
}
