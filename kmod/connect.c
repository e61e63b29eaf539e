// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: connect(), and how a client is unconnected again.
 */
#include <linux/sctp.h>
#include <linux/wait.h>
#include <net/tcp_states.h>

#include "bootstrap.h"
#include "conn.h"
#include "connect.h"
#include "listen.h"
#include "opts.h"
#include "rendezvous.h"
#include "state.h"
#include "transport.h"

/**
 * l5_early_begin() - before a call that goes to the bootstrap, unless there are
 *	rings by now
 * @l5: the socket
 * @why: reason to have none, if it is not connected yet
 *
 * A call may look at a socket that is about to be connected by another task,
 * and be in the bootstrap when it is: then the bytes of that direction have to
 * go by the bootstrap. So a socket gets no rings while such a call is under
 * way. A call that began when the bootstrap carried the bytes is not counted:
 * that socket, if it is disconnected, never gets rings.
 *
 * Context: process.
 * Return: true if l5_early_end() is to follow.
 */
bool l5_early_begin(struct l5_sock *l5, enum l5_reason why)
{
	if (likely(l5_state(l5) >= L5_BASE))
		return false;
	atomic_inc(&l5->early);
	/*
	 * AO, pairs with AE in l5_connect_begin(): this call finds a socket
	 * that connects, or the socket finds the call.
	 */
	smp_mb__after_atomic();
	if (l5_state(l5) == L5_CONNECTING) {
		mutex_lock(&l5->lock);
		l5_rdv_stay(l5, why);
		mutex_unlock(&l5->lock);
	}
	return true;
}

/* A socket that was idle may be connected, by a call that sent or connected. */
static void l5_early_connected(struct l5_sock *l5)
{
	lockdep_assert_held(&l5->lock);
	if (l5_state(l5) == L5_IDLE &&
	    !((1 << READ_ONCE(l5->boot->sk->sk_state)) &
	      (TCPF_CLOSE | TCPF_LISTEN | TCPF_SYN_SENT | TCPF_SYN_RECV)))
		l5_set_state(l5, L5_BASE, L5_REASON_CONNECT);
}

/**
 * l5_early_end() - the call is back; TCP Fast Open connects by sending
 * @l5: the socket, see l5_early_begin()
 *
 * Context: process.
 */
void l5_early_end(struct l5_sock *l5)
{
	if (l5_state(l5) == L5_IDLE &&
	    READ_ONCE(l5->boot->sk->sk_state) != TCP_CLOSE) {
		mutex_lock(&l5->lock);
		l5_early_connected(l5);
		mutex_unlock(&l5->lock);
	}
	atomic_dec(&l5->early);
}

/* There was no meeting: give the connection back, unless it had rings once. */
static void l5_conn_drop(struct l5_sock *l5)
{
	lockdep_assert_held(&l5->lock);
	l5_rdv_cancel(l5);
	if (l5->conn && !l5->conn->paired) {
		l5_conn_put(l5->conn);
		WRITE_ONCE(l5->conn, NULL);
	}
}

/**
 * l5_connect_settle() - a client stays on its bootstrap: free what was prepared
 * @l5: the client
 *
 * Context: may sleep.
 */
void l5_connect_settle(struct l5_sock *l5)
{
	mutex_lock(&l5->lock);
	if (l5_state(l5) == L5_BASE)
		l5_conn_drop(l5);
	mutex_unlock(&l5->lock);
}

/*
 * A call that sends with TCP Fast Open may have connected the bootstrap before
 * it was known here that the socket connects. Then no event is to come that
 * says so.
 */
static void l5_connect_overtaken(struct l5_sock *l5)
{
	struct sock *bsk = l5->boot->sk;

	lockdep_assert_held(&l5->lock);
	if (likely(READ_ONCE(bsk->sk_state) == TCP_CLOSE))
		return;
	lock_sock(bsk);
	if (l5_state(l5) == L5_CONNECTING &&
	    !((1 << bsk->sk_state) &
	      (TCPF_CLOSE | TCPF_SYN_SENT | TCPF_SYN_RECV)) &&
	    !(l5->conn && l5->conn->entered))
		l5_set_state(l5, L5_BASE, l5->why ?: L5_REASON_CONNECT);
	release_sock(bsk);
}

/* Put everything in place before the first packet leaves. */
static int l5_connect_begin(struct l5_sock *l5)
{
	struct l5_conn *conn;
	enum l5_reason why;

	if (l5_listen_settle(l5) || mutex_lock_killable(&l5->lock))
		return -EINTR;
	if (l5_state(l5) != L5_IDLE ||
	    READ_ONCE(l5->boot->sk->sk_state) != TCP_CLOSE)
		goto out;
	l5_conn_drop(l5);
	why = l5_why_not(l5);
	if (!why) {
		/* prepared for a question that came to nothing */
		if (l5->conn)
			l5_conn_put(l5->conn);
		l5->end = L5_CLIENT;
		conn = l5_rdv_prepare(l5);
		if (IS_ERR(conn)) {
			why = PTR_ERR(conn) == -EDQUOT ? L5_REASON_LIMIT :
							 L5_REASON_NOMEM;
			conn = NULL;
		}
		/* a call that is in the bootstrap looks whether there is one */
		WRITE_ONCE(l5->conn, conn);
	}
	WRITE_ONCE(l5->why, why);
	l5_set_state(l5, L5_CONNECTING, L5_REASON_NONE);
	/*
	 * AE, pairs with AF in l5_revoke_round(): a task that revokes after
	 * having denied finds a socket that connects, or the socket finds
	 * itself denied. And with AO in l5_early_begin().
	 */
	smp_mb();
	if (!why)
		why = l5_why_not(l5);
	if (!why && atomic_read(&l5->early))
		why = L5_REASON_CONNECT;
	WRITE_ONCE(l5->why, why);
	l5_connect_overtaken(l5);
	if (!why && l5->bops->connecting)
		l5->bops->connecting(l5);
out:
	mutex_unlock(&l5->lock);
	return 0;
}

/**
 * l5_connect_failed() - connecting is over without a connection
 * @l5: the socket, its lock held
 *
 * Under the bootstrap's lock, since a
 * handshake on its way holds that lock when it enters a meeting.
 *
 * Context: may sleep.
 */
void l5_connect_failed(struct l5_sock *l5)
{
	struct sock *bsk = l5->boot->sk;

	lockdep_assert_held(&l5->lock);
	lock_sock(bsk);
	if (l5_state(l5) == L5_CONNECTING && bsk->sk_state == TCP_CLOSE) {
		l5_rdv_cancel(l5);
		/* unless the peer was a moment faster */
		if (l5_state(l5) == L5_CONNECTING)
			l5_set_state(l5, L5_IDLE, L5_REASON_NONE);
	}
	release_sock(bsk);
	if (l5_state(l5) == L5_IDLE)
		l5_conn_drop(l5);
}

static int l5_connected(struct l5_sock *l5, int flags)
{
	mutex_lock(&l5->lock);
	/* an option made connect() return before there was a connection */
	if (l5_state(l5) == L5_CONNECTING && l5->why)
		l5_set_state(l5, L5_BASE, l5->why);
	else if (l5_state(l5) == L5_CONNECTING && l5->bops->connected)
		l5->bops->connected(l5);
	else
		l5_early_connected(l5);
	mutex_unlock(&l5->lock);
	/* wake waiters in l5_wait_decided(), where no event wakes pollers */
	if (!l5->bops->events)
		wake_up_interruptible_poll(sk_sleep(&l5->sk), EPOLLNVAL);
	l5_opts_pull(l5);
	if (flags & O_NONBLOCK)
		return l5_undecided(l5) ? -EINPROGRESS : 0;
	/*
	 * Bounded by net.l5.match_ms. Interruptible, since sk_state_change
	 * wakes no other sleep; a signal costs the connection its rings.
	 */
	if (wait_event_interruptible(*sk_sleep(&l5->sk), l5_decided(l5))) {
		mutex_lock(&l5->lock);
		l5_rdv_stay(l5, L5_REASON_TIMEOUT);
		mutex_unlock(&l5->lock);
	}
	if (l5_state(l5) == L5_BASE)
		l5_connect_settle(l5);
	l5_remote_wait(l5);
	return 0;
}

/* The bootstrap is unconnected again, and so is its owner. */
static void l5_unconnected(struct l5_sock *l5)
{
	struct sock *bsk = l5->boot->sk;

	lockdep_assert_held(&l5->lock);
	/* a handshake that was under way has ended by now, or never will */
	lock_sock(bsk);
	l5_rdv_cancel(l5);
	if (l5_state(l5) == L5_RINGS || l5_state(l5) == L5_MOVING) {
		set_bit(L5_END_KEPT, &l5_own(l5)->flags);
		l5_conn_close(l5, true);
		WRITE_ONCE(l5->nopair, L5_REASON_CONNECT);
	}
	if (l5_state(l5) != L5_IDLE)
		l5_set_state(l5, L5_IDLE, L5_REASON_NONE);
	release_sock(bsk);
	l5_remote_abandon(l5);
}

/*
 * connect(AF_UNSPEC): TCP resets the connection; the socket can be reused. If
 * TCP does not, nothing has changed except that waiting children are gone.
 */
static int l5_disconnect(struct socket *sock, struct l5_sockaddr *addr,
			 int len, int flags)
{
	struct l5_sock *l5 = l5_sk(sock->sk);
	bool listened, ended = false;
	int err;

	if (mutex_lock_killable(&l5->lock))
		return -EINTR;
	listened = l5_state(l5) == L5_LISTEN;
	/* before TCP may give the children to another listener */
	if (listened)
		l5_rdv_close(l5);
	err = l5->boot->ops->connect(l5->boot, addr, len, flags);
	if (READ_ONCE(l5->boot->sk->sk_state) == TCP_CLOSE) {
		/* a call may be in the bootstrap that is not counted */
		if (l5_state(l5) == L5_BASE)
			WRITE_ONCE(l5->nopair, L5_REASON_CONNECT);
		ended = l5_listen_ended(l5);
		l5_unconnected(l5);
	} else if (listened) {
		l5_rdv_reopen(l5);
	}
	mutex_unlock(&l5->lock);
	if (ended)
		l5_transport_unlisten(l5);
	return err;
}

/*
 * Was the bootstrap connected, and did TCP give that up only now? TCP takes its
 * time to say so in the socket's state, and in newer kernels AF_UNIX says
 * nothing there at all.
 */
static bool l5_boot_gave_up(const struct l5_sock *l5)
{
	return l5_state(l5) >= L5_BASE && l5->boot->state == SS_UNCONNECTED &&
	       READ_ONCE(l5->boot->sk->sk_state) == TCP_CLOSE;
}

/**
 * l5_connect() - connect the bootstrap and meet the peer
 * @sock: the socket
 * @addr: of the bootstrap's family
 * @len: of @addr
 * @flags: O_NONBLOCK
 *
 * Return: as the bootstrap's. A socket whose outcome is open is connecting.
 * -EINTR if the task is killed while it waits for a call that another makes.
 */
int l5_connect(struct socket *sock, struct l5_sockaddr *addr, int len,
	       int flags)
{
	struct l5_sock *l5 = l5_sk(sock->sk);
	int err;

	if (len >= (int)sizeof(addr->sa_family) &&
	    addr->sa_family == AF_UNSPEC && l5->bops->reverts)
		return l5_disconnect(sock, addr, len, flags);

	err = l5_boot_judge(l5, SCTP_SOCKOPT_CONNECTX, addr, len);
	if (err)
		return err;
	l5_boot_borrow(l5);
	l5_opts_push(l5);
	l5_boot_error(l5);
	err = l5_connect_begin(l5);
	if (err)
		return err;
	if (l5_undecided(l5)) {
		if (flags & O_NONBLOCK)
			return -EALREADY;
		l5_wait_decided(l5, MAX_SCHEDULE_TIMEOUT);
	}
	err = l5->boot->ops->connect(l5->boot, addr, len, flags);
	if (!err) {
		err = l5_connected(l5, flags);
	} else if (err != -EINPROGRESS && err != -EALREADY) {
		if (mutex_lock_killable(&l5->lock)) {
			if (l5_state(l5) >= L5_BASE)
				return -EINTR;
			/* a call on a socket without rings holds it briefly */
			mutex_lock(&l5->lock);
		}
		l5_connect_failed(l5);
		if (l5_boot_gave_up(l5))
			l5_unconnected(l5);
		mutex_unlock(&l5->lock);
	}
	l5_boot_error(l5);
	return err;
}
