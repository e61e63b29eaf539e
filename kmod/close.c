// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: shutdown() and the release of a socket.
 */
#include <net/tcp_states.h>

#include "acct.h"
#include "bootstrap.h"
#include "close.h"
#include "conn.h"
#include "connect.h"
#include "end.h"
#include "listen.h"
#include "lock.h"
#include "opts.h"
#include "rendezvous.h"
#include "state.h"
#include "transport.h"

/**
 * l5_boot_release() - end of a socket: its meeting, its rings, its bootstrap
 * @l5: the socket
 *
 * Context: may sleep, as close() of the bootstrap does with SO_LINGER.
 */
void l5_boot_release(struct l5_sock *l5)
{
	struct socket *boot = l5->boot;
	struct sock *bsk = boot->sk;
	bool listens, abort, kept;

	if (l5->bops->closing)
		l5->bops->closing(l5);
	listens = l5_state(l5) == L5_LISTEN;
	if (listens)
		l5_rdv_close(l5);
	l5_opts_push(l5);
	l5_transport_unlisten(l5);
	abort = l5->bops->resets && sock_flag(bsk, SOCK_LINGER) &&
		!READ_ONCE(bsk->sk_lingertime);
	if (!abort && sock_flag(bsk, SOCK_LINGER))
		l5_remote_fin_wait(l5);
	/*
	 * First take the callbacks from the bootstrap: what it hears from here
	 * on enters no meeting, and it may outlive us and the module. A
	 * listener does not, so it keeps its table: a child that is being made
	 * is to find the operations that it has to put back.
	 */
	write_lock_bh(&bsk->sk_callback_lock);
	if (l5_owner(bsk)) {
		rcu_assign_sk_user_data(bsk, NULL);
		l5_boot_hook(bsk, false);
	}
	write_unlock_bh(&bsk->sk_callback_lock);
	if (l5->bops->release)
		l5->bops->release(l5);
	/* against l5_handover_unused(), which gives the connection back */
	mutex_lock(&l5->lock);
	l5_rdv_cancel(l5);
	mutex_unlock(&l5->lock);
	/* a late match may have decided just before */
	if (l5_state(l5) == L5_RINGS || l5_state(l5) == L5_MOVING)
		abort = l5_conn_close(l5, abort);
	if (abort)
		l5->bops->reset(l5);
	if (abort || sock_flag(bsk, SOCK_LINGER))
		kept = l5_remote_detach(l5, abort, NULL);
	else
		kept = l5_remote_detach(l5, false, boot);
	l5_transport_release(l5);
	/* TCP may linger below, and the other end pays for the rings, too */
	if (l5->conn)
		l5_conn_put(l5->conn);
	if (!kept)
		l5_boot_end(boot);
	l5_payer_put(&l5->payer);
}

static void l5_shutdown_ring(struct l5_sock *l5, int how)
{
	struct l5_end *own = l5_own(l5);
	long timeo = -HZ;
	bool locked;

	/* TCP answers bytes after a FIN that have no reader by a reset */
	if (how == SHUT_RD || how == SHUT_RDWR)
		set_bit(L5_END_RCV_SHUTDOWN, &own->flags);
	if (how == SHUT_WR || how == SHUT_RDWR) {
		/*
		 * Nothing is to be published after the end: a process that
		 * takes the lock word from now on sees the flag. A process that
		 * does not give the word back is not worth waiting for.
		 */
		l5_map_flag(own, L5_MAP_TX_ASK);
		locked = !l5_ring_lock(l5, L5_LOCK_TX, &timeo);
		l5_conn_fin(l5);
		if (locked)
			l5_ring_unlock(l5, L5_LOCK_TX);
	}
}

/*
 * Shut down both ways: TCP answers bytes that come from now on by a reset. This
 * is said only once the bootstrap does so, or it would take such a byte for
 * data.
 */
static void l5_shutdown_closed(struct l5_sock *l5)
{
	struct l5_end *own = l5_own(l5);

	if (!l5->bops->resets ||
	    !test_bit(L5_END_RCV_SHUTDOWN, &own->flags) ||
	    !test_bit(L5_END_FIN, &own->flags) ||
	    test_and_set_bit(L5_END_CLOSED, &own->flags))
		return;
	l5_map_flag(l5_peer(l5), L5_MAP_TX_ASK);
	l5_conn_changed(l5->conn, !l5->end);
}

/* All that shutdown() of TCP does but for the FIN: the transport sends it. */
static int l5_shutdown_later(struct l5_sock *l5, int how)
{
	struct sock *bsk = l5->boot->sk;
	int err = 0;

	lock_sock(bsk);
	if (bsk->sk_state == TCP_CLOSE)
		err = -ENOTCONN;
	bsk->sk_shutdown |= how + 1;
	bsk->sk_state_change(bsk);
	release_sock(bsk);
	return err;
}

/* With l5_sock.lock held, which it gives back. */
static int l5_shutdown_unlock(struct l5_sock *l5, int how)
{
	bool listens, ended, later;
	enum l5_tx tx;
	int err;

	/* a half-open meeting is not worth waiting for, nor for its opening */
	l5_rdv_stay(l5, L5_REASON_TIMEOUT);
	/* a FIN is the last that TCP carries, or comes once a cut is known */
	tx = l5_remote_tx_begin(l5);
	later = tx == L5_TX_RINGS && (how == SHUT_WR || how == SHUT_RDWR) &&
		l5_remote_fin_later(l5);
	if (l5_tx_rings(l5) || l5_rx_rings(l5))
		l5_shutdown_ring(l5, how);
	listens = l5_state(l5) == L5_LISTEN && l5->bops->reverts;
	if (listens && (how == SHUT_RD || how == SHUT_RDWR))
		l5_rdv_close(l5);
	err = later ? l5_shutdown_later(l5, how) :
		      l5->boot->ops->shutdown(l5->boot, how);
	if (tx == L5_TX_COUNTED)
		l5_remote_tx_end(l5);
	if (l5_state(l5) == L5_RINGS)
		l5_shutdown_closed(l5);
	ended = listens && l5_listen_ended(l5);
	if (listens && !ended)
		l5_rdv_reopen(l5);
	/* what was not even connecting may be about to, by another thread */
	if (!listens && err != -ENOTCONN)
		l5_connect_failed(l5);
	mutex_unlock(&l5->lock);
	if (ended)
		l5_transport_unlisten(l5);
	l5_boot_error(l5);
	/* AF_UNIX tells only the peer */
	if (l5_state(l5) == L5_RINGS || l5_state(l5) == L5_MOVING)
		l5_map_note(l5);
	return err;
}

/**
 * l5_shutdown() - shut down the bootstrap, and the ring in the same sense
 * @sock: the socket
 * @how: SHUT_RD, SHUT_WR or SHUT_RDWR
 *
 * Return: as the bootstrap's; -EINTR if the task is killed while it waits.
 */
int l5_shutdown(struct socket *sock, int how)
{
	struct l5_sock *l5 = l5_sk(sock->sk);

	if (mutex_lock_killable(&l5->lock))
		return -EINTR;
	return l5_shutdown_unlock(l5, how);
}

/**
 * l5_shutdown_try() - l5_shutdown() by a work that is not to wait for a process
 * @sock: the socket
 * @how: SHUT_RD, SHUT_WR or SHUT_RDWR
 *
 * Context: process.
 * Return: false if a task holds a lock that this needs, and nothing was done.
 */
bool l5_shutdown_try(struct socket *sock, int how)
{
	struct l5_sock *l5 = l5_sk(sock->sk);

	if (!mutex_trylock(&l5->lock))
		return false;
	if (l5_boot_busy(l5->boot->sk)) {
		mutex_unlock(&l5->lock);
		return false;
	}
	l5_shutdown_unlock(l5, how);
	return true;
}
