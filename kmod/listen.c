// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: listeners, and how they end.
 */
#include <net/tcp_states.h>

#include "bootstrap.h"
#include "listen.h"
#include "opts.h"
#include "rendezvous.h"
#include "state.h"
#include "transport.h"

/*
 * The bootstrap is no listener any more, or never was: its children that wait
 * for accept() end, and it is as it was before.
 */
static void l5_unlisten(struct l5_sock *l5)
{
	lockdep_assert_held(&l5->lock);
	l5_rdv_close(l5);
	l5->bops->unlisten(l5);
	l5_set_state(l5, L5_IDLE, L5_REASON_NONE);
}

/**
 * l5_listen_ended() - did the bootstrap stop listening, perhaps without having
 *	been told to?
 * @l5: the socket, its lock held
 *
 * Return: true, and the socket is no listener any more; the caller is to call
 * l5_transport_unlisten() without the lock.
 */
bool l5_listen_ended(struct l5_sock *l5)
{
	lockdep_assert_held(&l5->lock);
	if (l5_state(l5) != L5_LISTEN ||
	    READ_ONCE(l5->boot->sk->sk_state) == TCP_LISTEN)
		return false;
	l5_unlisten(l5);
	return true;
}

static void l5_listen_settle_unlock(struct l5_sock *l5)
{
	bool ended = l5_listen_ended(l5);

	mutex_unlock(&l5->lock);
	if (ended)
		l5_transport_unlisten(l5);
}

/**
 * l5_listen_settle() - a socket whose bootstrap does not listen is no listener
 * @l5: the socket
 *
 * Context: may sleep.
 * Return: 0, or -EINTR if the task is killed while it waits.
 */
int l5_listen_settle(struct l5_sock *l5)
{
	if (mutex_lock_killable(&l5->lock))
		return -EINTR;
	l5_listen_settle_unlock(l5);
	return 0;
}

/* Time between looks whether a call on the listener still holds its lock. */
#define L5_LISTENED_AGAIN	(HZ / 10)

/**
 * l5_boot_listened() - l5_sock.listened, queued by l5_listen_state_change()
 * @work: of a socket, with a reference to it
 *
 * A call on the socket may hold its lock for long, or the bootstrap's, and the
 * worker is there for all sockets.
 */
void l5_boot_listened(struct work_struct *work)
{
	struct l5_sock *l5 = container_of(work, struct l5_sock, listened.work);

	if (!l5_boot_busy(l5->boot->sk) && mutex_trylock(&l5->lock))
		l5_listen_settle_unlock(l5);
	else if (queue_delayed_work(l5_wq, &l5->listened, L5_LISTENED_AGAIN))
		return;
	sock_put(&l5->sk);
}

/**
 * l5_listen() - listen, and offer rings to AF_L5 peers
 * @sock: the socket
 * @backlog: the bootstrap's
 *
 * Return: as the bootstrap's.
 */
int l5_listen(struct socket *sock, int backlog)
{
	struct l5_sock *l5 = l5_sk(sock->sk);
	bool fresh;
	int err;

	l5_boot_borrow(l5);
	l5_opts_push(l5);
	if (l5_listen_settle(l5) || mutex_lock_killable(&l5->lock))
		return -EINTR;
	fresh = l5_state(l5) == L5_IDLE;
	if (!fresh && l5_state(l5) != L5_LISTEN) {
		err = -EINVAL;
		goto out;
	}
	if (!l5->payer.acct && l5_payer_get(&l5->payer, l5->ln)) {
		err = -ENOMEM;
		goto out;
	}
	/* nothing listens, even for a moment, before it is ready to */
	if (fresh) {
		l5_rdv_reopen(l5);
		l5->bops->listen(l5);
	}
	err = l5->boot->ops->listen(l5->boot, backlog);
	if (fresh && READ_ONCE(l5->boot->sk->sk_state) != TCP_LISTEN) {
		/* it may have listened, and met clients, for a moment */
		l5_rdv_close(l5);
		l5->bops->unlisten(l5);
	} else if (fresh) {
		l5_set_state(l5, L5_LISTEN, L5_REASON_NONE);
		l5_transport_listen(l5);
	}
	l5_opts_pull(l5);
out:
	mutex_unlock(&l5->lock);
	return err;
}
