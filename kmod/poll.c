// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: poll(), for select() and epoll as well.
 */
#include <linux/poll.h>

#include "bootstrap.h"
#include "end.h"
#include "link.h"
#include "poll.h"
#include "ring.h"
#include "spill.h"
#include "state.h"
#include "transport.h"
#include "unread.h"
#include "wait.h"

/* Is there as much as SO_RCVLOWAT wants, with @before bytes before the ring? */
static bool l5_poll_readable(struct l5_sock *l5, u32 before)
{
	const struct l5_end *peer = l5_peer(l5);
	size_t low = READ_ONCE(l5->sk.sk_rcvlowat);

	low -= min_t(size_t, low, before);
	if (!l5_ring_readable(l5))
		return false;
	if (low <= 1 || !l5->bops->counts)
		return true;
	/* a ring that cannot take more has all bytes it will ever have */
	if (READ_ONCE(peer->starved) ||
	    l5_ring_used(l5->conn, !l5->end) >= l5_ring_wire(peer) / 4)
		return true;
	return l5_ring_holds(l5, low);
}

/*
 * Report what the bootstrap says while a ring is read. Bytes in it do not
 * count, since nothing reads them: a peer that can send raw packets may have
 * put them there. The end of the stream counts once all bytes before it have
 * come by the ring.
 */
static __poll_t l5_boot_poll(struct l5_sock *l5, struct file *file)
{
	const __poll_t end = EPOLLRDHUP | EPOLLHUP;
	bool says = l5_link_end_visible(l5);
	__poll_t mask = l5->boot->ops->poll(file, l5->boot, NULL);

	if (!says)
		mask &= ~end;
	if (!(mask & end))
		mask &= ~(EPOLLIN | EPOLLRDNORM);
	return mask;
}

/* One direction goes by a ring, or both for a short time: see transport.h. */
static __poll_t l5_moving_poll(struct l5_sock *l5, struct file *file,
			       poll_table *wait)
{
	const __poll_t in = EPOLLIN | EPOLLRDNORM;
	const __poll_t out = EPOLLOUT | EPOLLWRNORM | EPOLLWRBAND;
	__poll_t mask;

	if (l5_rx_rings(l5)) {
		l5_link_arm_rx(l5);
		mask = l5_boot_poll(l5, file);
		if (l5_rx_ended(l5) || l5_poll_readable(l5, 0))
			mask |= in;
	} else {
		/*
		 * A reader that takes the last bytes of TCP finds those of the
		 * ring behind them. TCP alone does not count these, and an
		 * urgent byte not at all.
		 */
		l5_link_arm_rx(l5);
		mask = l5->boot->ops->poll(file, l5->boot, NULL);
		if (l5_rx_both(l5) &&
		    l5_poll_readable(l5, l5_boot_unread(l5)))
			mask |= in;
	}
	if (l5_tx_rings(l5) && !l5_tx_ended(l5)) {
		mask &= ~out;
		if (!l5_ring_writable(l5))
			l5_link_arm_tx(l5);
		if (l5_ring_writable(l5))
			mask |= out;
	}
	return mask;
}

/**
 * l5_poll() - what could be done without waiting
 * @file: the socket's file
 * @sock: the socket
 * @wait: the caller's table, or NULL
 *
 * The wait word for data is armed on every call that asks for data, the wait
 * word for room when there is none: only then does an edge-triggered waiter
 * hear of the next byte without having drained the ring, see l5_ring.h.
 *
 * Return: as the bootstrap's.
 */
__poll_t l5_poll(struct file *file, struct socket *sock, poll_table *wait)
{
	const __poll_t out = EPOLLOUT | EPOLLWRNORM | EPOLLWRBAND;
	struct l5_sock *l5 = l5_sk(sock->sk);
	bool readable, in;
	__poll_t mask;

	sock_poll_wait(file, sock, wait);
	l5_boot_error(l5);
	if (l5_undecided(l5))
		return 0;
	if (!l5_rx_rings(l5) && !l5_tx_rings(l5)) {
		mask = l5->boot->ops->poll(file, l5->boot, NULL);
		/* the handshake may be over since */
		if (l5_undecided(l5))
			return 0;
		if (!l5_rx_rings(l5) && !l5_tx_rings(l5))
			return mask;
	}
	if (l5_state(l5) == L5_MOVING)
		return l5_moving_poll(l5, file, wait);

	/* not for a wait for room alone: the peer would ring for nothing */
	in = poll_requested_events(wait) & (EPOLLIN | EPOLLRDNORM);
	if (in)
		l5_link_arm_rx(l5);
	mask = l5_boot_poll(l5, file);
	if (READ_ONCE(l5->sk.sk_err))
		mask |= EPOLLERR;
	readable = l5_poll_readable(l5, 0);
	if (!readable && in && l5_poll_asks(wait) && !(mask & EPOLLRDHUP)) {
		l5_poll_spin(l5, file);
		readable = l5_poll_readable(l5, 0);
	}
	if (readable) {
		l5_poll_done(l5);
		mask |= EPOLLIN | EPOLLRDNORM;
	} else {
		l5_ring_owed(l5);
	}
	if (READ_ONCE(l5->boot->sk->sk_shutdown) & SEND_SHUTDOWN)
		return mask;
	if (!l5_ring_writable(l5)) {
		sk_set_bit(SOCKWQ_ASYNC_NOSPACE, &l5->sk);
		l5_link_arm_tx(l5);
		if (!l5_ring_writable(l5))
			mask &= ~out;
	}
	return mask;
}
