// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: what the bootstrap answers to a call, and what a call is told where a
 * ring has no more to say.
 */
#include <net/sock.h>

#include "answer.h"
#include "bootstrap.h"
#include "connect.h"
#include "link.h"
#include "lock.h"
#include "opts.h"
#include "ring.h"
#include "state.h"
#include "transport.h"

/**
 * l5_boot_use() - before the bootstrap gets a call
 * @l5: the socket
 *
 * The bootstrap is to know what its owner knows.
 *
 * Context: may sleep.
 */
void l5_boot_use(struct l5_sock *l5)
{
	l5_boot_error(l5);
	l5_boot_borrow(l5);
	l5_opts_push(l5);
	if (unlikely(READ_ONCE(l5->conn)) && l5_state(l5) == L5_BASE)
		l5_connect_settle(l5);
}

/**
 * l5_boot_sendmsg() - have the bootstrap send
 * @l5: the socket
 * @msg: what, and how
 * @len: bytes in it
 *
 * An error that it gives counts as given by its owner, too.
 *
 * Context: may sleep.
 * Return: as the bootstrap's.
 */
int l5_boot_sendmsg(struct l5_sock *l5, struct msghdr *msg, size_t len)
{
	int ret;

	l5_boot_use(l5);
	ret = l5->boot->ops->sendmsg(l5->boot, msg, len);
	l5_boot_error(l5);
	return ret;
}

/**
 * l5_boot_recvmsg() - have the bootstrap receive, as l5_boot_sendmsg()
 * @l5: the socket
 * @msg: where to
 * @len: bytes of room
 * @flags: MSG_*
 *
 * Context: may sleep.
 * Return: as the bootstrap's.
 */
int l5_boot_recvmsg(struct l5_sock *l5, struct msghdr *msg, size_t len,
		    int flags)
{
	int ret;

	l5_boot_use(l5);
	ret = l5->boot->ops->recvmsg(l5->boot, msg, len, flags);
	/* a message may be empty */
	if (ret >= 0 && l5->bops->received)
		l5->bops->received(l5, msg);
	l5_boot_error(l5);
	return ret;
}

/*
 * A reset is told once, although it may be noticed in more than one place: the
 * task that takes back the rings knows of it before the bootstrap does, and if
 * both ends are revoked, each is also reset by the other.
 */
static bool l5_reset_told(struct l5_sock *l5)
{
	return test_and_set_bit(L5_END_TOLD, &l5_own(l5)->flags);
}

/*
 * The ring was found empty. Does the bootstrap carry anything whose record is
 * gone, since a process that has the ring mapped took or moved it? The lock
 * keeps others from taking both meanwhile.
 *
 * Return: 0, -EPROTO: it does, -EAGAIN: look again.
 */
static int l5_rx_stray(struct l5_sock *l5)
{
	long timeo = 0;
	int ret = 0;

	if (likely(!l5->bops->files->left(l5)) ||
	    test_bit(L5_END_REVOKED, &l5_own(l5)->flags))
		return 0;
	if (l5_ring_lock(l5, L5_LOCK_RX, &timeo))
		return -EAGAIN;
	if (l5->bops->files->left(l5)) {
		/* BK, pairs with BJ: if it is not under way it is there */
		smp_rmb();
		ret = smp_load_acquire(&l5_peer(l5)->riding) ||
		      l5_ring_readable(l5) ? -EAGAIN : -EPROTO;
	}
	l5_ring_unlock(l5, L5_LOCK_RX);
	if (ret == -EPROTO)
		l5_ring_violation(l5);
	return ret;
}

/*
 * Ask the bootstrap how the stream ends. If it carries what rides with records,
 * a receive would take that.
 */
static int l5_rx_boot_end(struct l5_sock *l5, struct msghdr *msg, size_t len,
			  int flags)
{
	int err;

	if (!l5->bops->files)
		return l5_boot_recvmsg(l5, msg, len, flags | MSG_DONTWAIT);
	err = l5_rx_stray(l5);
	if (err == -EPROTO)
		sock_error(&l5->sk);
	return err ?: l5->bops->files->end(l5);
}

/**
 * l5_rx_answer() - the ring is empty, and there were signs of an end
 * @l5: a socket in state L5_RINGS
 * @msg: of the receive
 * @len: bytes of room
 * @flags: MSG_*
 *
 * Context: may sleep.
 * Return: as recvmsg(), -EAGAIN if it was no end, and the signs are gone.
 */
int l5_rx_answer(struct l5_sock *l5, struct msghdr *msg, size_t len, int flags)
{
	int n;

	if (test_bit(L5_END_KEPT, &l5_own(l5)->flags))
		return -EPIPE;
	/* the bootstrap gives any other error: if one is missing here, even for
	 * a moment, l5_boot_error() takes it for one that a program has had
	 */
	if (READ_ONCE(l5->sk.sk_err) == EPROTO) {
		n = sock_error(&l5->sk);
		if (n)
			return n;
	}
	n = l5_link_rx_end(l5);
	if (n)
		return n;
	n = l5_rx_boot_end(l5, msg, len, flags);
	if (n == -ECONNRESET && l5_reset_told(l5))
		return 0;
	/*
	 * A revoked connection ends by an error, the bootstrap's or that of the
	 * RST that is on its way; also if TCP has the peer's FIN already, for
	 * there were records before it.
	 */
	if (test_bit(L5_END_REVOKED, &l5_own(l5)->flags)) {
		if (!n || n == -EAGAIN)
			return l5_reset_told(l5) ? 0 : -ECONNRESET;
		set_bit(L5_END_TOLD, &l5_own(l5)->flags);
		return n;
	}
	if (n != -EAGAIN)
		return n;
	if (test_bit(L5_END_RCV_SHUTDOWN, &l5_own(l5)->flags))
		return 0;
	/* disconnected meanwhile, and connected to another peer */
	if (!l5_rx_rings(l5))
		return -ECONNRESET;
	/* there was an error after which TCP goes on; another task took it */
	return sock_error(&l5->sk) ?: -EAGAIN;
}

/**
 * l5_tx_answer() - no more can be sent
 * @l5: a socket in state L5_RINGS
 * @flags: MSG_* of the send; without MSG_NOSIGNAL EPIPE comes with SIGPIPE
 *
 * Context: may sleep.
 * Return: the error.
 */
int l5_tx_answer(struct l5_sock *l5, int flags)
{
	int err;

	l5_boot_error(l5);
	if (!READ_ONCE(l5->boot->sk->sk_err) && READ_ONCE(l5->sk.sk_err))
		return sock_error(&l5->sk);
	/* cut off, and the bootstrap is about to hear of it */
	if (test_bit(L5_END_CUT, &l5_own(l5)->flags) &&
	    !READ_ONCE(l5->boot->sk->sk_err) &&
	    !(READ_ONCE(l5->boot->sk->sk_shutdown) & SEND_SHUTDOWN) &&
	    !l5_reset_told(l5))
		return -ECONNRESET;
	err = sk_stream_error(l5->boot->sk, flags, -EPIPE);
	if (err == -ECONNRESET && l5_reset_told(l5))
		err = sk_stream_error(l5->boot->sk, flags, -EPIPE);
	else if (err != -EPIPE)
		set_bit(L5_END_TOLD, &l5_own(l5)->flags);
	l5_boot_error(l5);
	return err;
}
