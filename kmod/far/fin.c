// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5 between hosts: a FIN that comes after a cut.
 *
 * On TCP a FIN is the end of the stream, or of the part that went by TCP. The
 * peer knows which of the two it is once it knows of the cut, see handover.c;
 * so the FIN waits for the peer's answer. That is a matter of one round trip,
 * but the peer's kernel may be slow, or hostile, and no call of TCP's waits for
 * it: close() leaves the bootstrap to the work here, and shutdown() leaves the
 * FIN to it. Only close() with SO_LINGER waits itself, as it does for TCP's own
 * answer.
 *
 * If the answer never comes no FIN may say that the stream ends where TCP does:
 * a reset is sent then. But if nothing was sent by the ring the stream does end
 * there. A peer that knows of no cut then reads the end, and one that does know
 * waits for the wire's word, and has an error if that never comes.
 */
#include <net/net_namespace.h>
#include <net/tcp.h>

#include "../bootstrap.h"
#include "far.h"

/*
 * How long to wait for the answer. That is to be longer than a lost packet
 * takes, and a closed socket is not to stay for minutes. A machine that stands
 * still for as long has not waited, see l5_waited().
 */
#define L5_FIN_ANSWER		(5 * HZ)
#define L5_FIN_ANSWER_MAX	(15 * HZ)

static unsigned long l5_fin_patience(const struct l5_far *far)
{
	return clamp_t(unsigned long, far->timeout / 2, L5_FIN_ANSWER,
		       L5_FIN_ANSWER_MAX);
}

/* May a FIN be sent? Yes to a peer that has closed, too, whatever it knows. */
static bool l5_fin_may(const struct l5_far *far)
{
	return l5_out_acked(&far->ph) || l5_in_closed(&far->ph);
}

/**
 * l5_fin_true() - has all been sent by TCP, although this end has cut?
 * @far: of this end, its lock held; not yet L5_LINK_OVER, its connection may be
 *	gone then
 *
 * Return: true if so, and no more is sent.
 */
bool l5_fin_true(const struct l5_far *far)
{
	lockdep_assert_held(&far->lock);
	return READ_ONCE(far->ph.goal) >= L5_OUT_FIN &&
	       !l5_load(&far->conn->end[far->end].ctrl->tx_tail);
}

/* Has a FIN to wait? Not that of a socket used again: l5_far_abandon(). */
static bool l5_fin_must_wait(const struct l5_far *far)
{
	return l5_out_cut(&far->ph) && l5_far_is(far, L5_FAR_OPEN) &&
	       !l5_is_over(&far->ph) && !l5_fin_may(far);
}

/**
 * l5_fin_wait() - before a FIN: wait for the peer's answer, or reset
 * @l5: a socket that closes, with SO_LINGER
 *
 * Context: may sleep, for L5_FIN_ANSWER_MAX.
 */
void l5_fin_wait(struct l5_sock *l5)
{
	struct l5_far *far = l5_far_sk(l5)->far;
	struct l5_waited waited = { };

	if (!far || !l5_out_cut(&far->ph) || !l5_far_is(far, L5_FAR_OPEN))
		return;
	while (!l5_fin_may(far) && !l5_is_over(&far->ph) &&
	       l5_waited(&waited, L5_PAUSE_MOST) < l5_fin_patience(far))
		wait_event_timeout(far->wait,
				   l5_fin_may(far) || l5_is_over(&far->ph),
				   L5_PAUSE_MOST);
	/* no thread sends any more, see l5_fin_true() */
	if (!l5_fin_may(far) && l5_load(&l5_own(l5)->ctrl->tx_tail))
		tcp_abort(l5->boot->sk, ECONNRESET);
}

/* From here on the work sees to the FIN. */
static void l5_fin_begin(struct l5_far *far)
{
	set_bit(L5_FAR_FIN_WAITS, &far->flags);
	l5_far_do(far, L5_DO_FIN);
}

/**
 * l5_fin_later() - shutdown() ends the stream
 * @l5: the socket
 *
 * Context: l5_sock.lock held.
 * Return: true if the work sends the FIN, as soon as it may be sent.
 */
bool l5_fin_later(struct l5_sock *l5)
{
	struct l5_far *far = l5_far_sk(l5)->far;
	bool later;

	lockdep_assert_held(&l5->lock);
	if (!far)
		return false;
	spin_lock_bh(&far->lock);
	later = l5_fin_must_wait(far);
	if (later)
		l5_waited_begin(&far->fin_waited);
	spin_unlock_bh(&far->lock);
	if (later)
		l5_fin_begin(far);
	return later;
}

/**
 * l5_fin_prepare() - close() ends the socket: may its bootstrap have to stay?
 * @far: of the socket
 * @boot: its bootstrap, which no longer has an owner; NULL if it may not stay
 *
 * The file and the wait queue of a bootstrap are its socket's, and go with it;
 * its namespace stays.
 *
 * Return: @boot if it may have to stay, then l5_fin_keep() follows, or NULL.
 */
struct socket *l5_fin_prepare(struct l5_far *far, struct socket *boot)
{
	struct sock *bsk;

	if (!boot || !l5_fin_must_wait(far))
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
 * l5_fin_keep() - has the bootstrap to stay?
 * @far: of this end, whose socket is gone; its lock held
 * @boot: from l5_fin_prepare(), not NULL
 *
 * Return: true if so, and the work ends the bootstrap, as soon as it may be
 * ended.
 */
bool l5_fin_keep(struct l5_far *far, struct socket *boot)
{
	lockdep_assert_held(&far->lock);
	if (!l5_fin_must_wait(far)) {
		put_net(sock_net(boot->sk));
		return false;
	}
	far->boot = boot;
	l5_waited_begin(&far->fin_waited);
	l5_fin_begin(far);
	return true;
}

/* End the bootstrap of a socket that is closed. */
static void l5_fin_end(struct socket *boot, bool reset)
{
	struct net *net = sock_net(boot->sk);

	if (reset)
		tcp_abort(boot->sk, ECONNRESET);
	l5_boot_end(boot);
	put_net(net);
}

/* Send the FIN of a socket that was shut down, and may be closed by now. */
static bool l5_fin_send(struct l5_far *far, bool reset)
{
	struct l5_sock *l5;
	bool done = true;

	if (!l5_far_sock_lock(far, &l5))
		return false;
	if (!l5)
		return true;
	done = !l5_boot_busy(l5->boot->sk);
	if (done && reset)
		tcp_abort(l5->boot->sk, ECONNRESET);
	else if (done)
		l5->boot->ops->shutdown(l5->boot, SHUT_WR);
	l5_far_sock_unlock(l5);
	return done;
}

/**
 * l5_fin_work() - may the FIN be sent now?
 * @far: of this end, with L5_FAR_FIN_WAITS
 *
 * Context: @far's work.
 * Return: false if this function is to be called again.
 */
bool l5_fin_work(struct l5_far *far)
{
	struct socket *boot = NULL;
	bool may, now, over;

	spin_lock_bh(&far->lock);
	may = l5_fin_may(far);
	over = l5_is_over(&far->ph);
	now = may || over ||
	      l5_waited(&far->fin_waited, L5_PAUSE_MOST) >=
		      l5_fin_patience(far);
	if (now && !may)
		may = over ? far->all_by_tcp : l5_fin_true(far);
	if (now)
		swap(boot, far->boot);
	spin_unlock_bh(&far->lock);
	if (!now)
		return false;
	/* a socket closed after shutdown() has left its bootstrap, too */
	if (!boot)
		return l5_fin_send(far, !may);
	l5_fin_end(boot, !may);
	return true;
}
