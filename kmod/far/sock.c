// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5 between hosts: the socket of an end: how the end's work takes its lock,
 * and what is to be said to a reader whose bytes will not come.
 */
#include <net/tcp.h>

#include "far.h"

/* The socket of an object, with a reference, so that it stays. */
static struct l5_sock *l5_far_sock_get(struct l5_far *far)
{
	struct l5_sock *l5;

	spin_lock_bh(&far->lock);
	l5 = far->l5;
	if (l5)
		sock_hold(&l5->sk);
	spin_unlock_bh(&far->lock);
	return l5;
}

/**
 * l5_far_sock_lock() - lock the socket of an object, so that it stays
 * @far: the object
 * @found: the socket, until l5_far_sock_unlock(), or NULL: the object has none
 *
 * Context: @far's work.
 * Return: false if a task holds the lock, see l5_far_put_off().
 */
bool l5_far_sock_lock(struct l5_far *far, struct l5_sock **found)
{
	struct l5_sock *l5 = l5_far_sock_get(far);

	*found = NULL;
	if (!l5)
		return true;
	/* the release of the socket waits for the mutex */
	if (!mutex_trylock(&l5->lock)) {
		sock_put(&l5->sk);
		return false;
	}
	far->pause = 0;
	if (READ_ONCE(far->l5)) {
		*found = l5;
		return true;
	}
	mutex_unlock(&l5->lock);
	sock_put(&l5->sk);
	return true;
}

/**
 * l5_far_sock_unlock() - undo l5_far_sock_lock()
 * @l5: the socket that was found
 */
void l5_far_sock_unlock(struct l5_sock *l5)
{
	mutex_unlock(&l5->lock);
	sock_put(&l5->sk);
}

/**
 * l5_tcp_broken() - did TCP end without the peer's FIN?
 * @bsk: the bootstrap
 *
 * That is an end by a reset or a time-out. It can still be seen when its error
 * was taken. A bootstrap that is closed because both ends have sent their FIN
 * has SOCK_DONE.
 */
bool l5_tcp_broken(const struct sock *bsk)
{
	return READ_ONCE(bsk->sk_state) == TCP_CLOSE &&
	       !sock_flag(bsk, SOCK_DONE);
}

/**
 * l5_far_rx_lost() - find the error for a reader whose bytes will not come
 * @l5: the socket
 * @far: its end of the connection
 *
 * The errors that the next call would find are taken: they are the same error.
 *
 * Return: a negative errno.
 */
int l5_far_rx_lost(struct l5_sock *l5, struct l5_far *far)
{
	int tcp = sock_error(l5->boot->sk), own = sock_error(&l5->sk);
	/* the wire goes when TCP has: first the error that ended TCP */
	int err = tcp ?: -READ_ONCE(far->err) ?: own;

	/* EPIPE is TCP's name for a reset after a FIN, made for a sender */
	return err && err != -EPIPE ? err : -ECONNRESET;
}
