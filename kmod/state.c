// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: what every part asks of a socket: the state that it is in, whether it
 * is to have rings, and whether it is known yet what carries its bytes.
 */
#include <linux/wait.h>
#include <net/tcp_states.h>

#include "bootstrap.h"
#include "deny.h"
#include "link.h"
#include "netns.h"
#include "state.h"

/* For work that cannot be done at once. Flushed before the module goes. */
struct workqueue_struct *l5_wq;
struct workqueue_struct *l5_drop_wq;

const char l5_tag_owner;

/*
 * The states that each state may change to. Any other change is a bug of ours:
 * a connection changes from its bootstrap to rings at most once, at byte 0 if
 * the peer is on this host and by way of L5_MOVING if it is on another.
 */
static const u8 l5_next[L5_STATE_MAX] = {
	[L5_IDLE]	= BIT(L5_LISTEN) | BIT(L5_CONNECTING) | BIT(L5_BASE) |
			  BIT(L5_RINGS),
	[L5_LISTEN]	= BIT(L5_IDLE),
	[L5_CONNECTING]	= BIT(L5_IDLE) | BIT(L5_BASE) | BIT(L5_RINGS),
	[L5_BASE]	= BIT(L5_IDLE) | BIT(L5_MOVING),
	[L5_MOVING]	= BIT(L5_IDLE) | BIT(L5_RINGS),
	[L5_RINGS]	= BIT(L5_IDLE),
};

/* Change the state, if it is one of @allowed. */
static bool l5_change_state(struct l5_sock *l5, u8 allowed, int to,
			    enum l5_reason reason)
{
	static const u8 tcp_state[L5_STATE_MAX] = {
		[L5_IDLE]	= TCP_CLOSE,
		[L5_LISTEN]	= TCP_LISTEN,
		[L5_CONNECTING]	= TCP_SYN_SENT,
		[L5_BASE]	= TCP_ESTABLISHED,
		[L5_MOVING]	= TCP_ESTABLISHED,
		[L5_RINGS]	= TCP_ESTABLISHED,
	};
	int from = READ_ONCE(l5->state);

	do {
		if (!(allowed & BIT(from)) || !(l5_next[from] & BIT(to)))
			return false;
		/* I, pairs with H */
	} while (!try_cmpxchg_release(&l5->state, &from, to));
	WRITE_ONCE(l5->reason, reason);

	WRITE_ONCE(l5->sk.sk_state, tcp_state[to]);
	if (to == L5_RINGS)
		l5_count(l5, l5->conn->link->stat, 1);
	if (to == L5_BASE) {
		l5_count(l5, L5_STAT_CONN_BASE, 1);
		l5_count(l5, L5_STAT_FALLBACK + reason, 1);
	}
	return true;
}

/**
 * l5_set_state() - a socket changes its state; l5_set_moved() is for the end of
 *	a move
 * @l5: the socket
 * @to: the new state
 * @reason: why not rings, for L5_BASE; L5_REASON_NONE otherwise
 *
 * The caller holds a lock: l5_sock.lock for what the application asks for,
 * l5_bucket.lock for the outcome of a meeting. Where the two race, the loser
 * finds the state changed.
 *
 * Context: any.
 * Return: false if the state cannot change to @to.
 */
bool l5_set_state(struct l5_sock *l5, int to, enum l5_reason reason)
{
	return l5_change_state(l5, 0xff, to, reason);
}

/**
 * l5_set_moved() - a connection has moved to rings
 * @l5: the socket
 *
 * An idle socket gets rings by accept(), but not one that was disconnected
 * while it moved.
 *
 * Context: any.
 * Return: false if it is not moving any more.
 */
bool l5_set_moved(struct l5_sock *l5)
{
	return l5_change_state(l5, BIT(L5_MOVING), L5_RINGS, L5_REASON_NONE);
}

/**
 * l5_why_not() - does this socket want rings?
 * @l5: a client or a listener
 *
 * Return: L5_REASON_NONE if it does.
 */
enum l5_reason l5_why_not(const struct l5_sock *l5)
{
	if (!READ_ONCE(l5->ln->enabled))
		return L5_REASON_DISABLED;
	if (l5_denied(l5))
		return L5_REASON_DENIED;
	if (READ_ONCE(l5->force) == L5_TRANSPORT_BASE)
		return L5_REASON_FORCED;
	if (l5->bops->why_not && l5->bops->why_not(l5))
		return l5->bops->why_not(l5);
	return READ_ONCE(l5->nopair);
}

/**
 * l5_undecided() - is the handshake over and its outcome still open, and to be
 *	waited for?
 * @l5: the socket
 *
 * Context: any.
 */
bool l5_undecided(struct l5_sock *l5)
{
	return l5_state(l5) == L5_CONNECTING && !l5_deferred(l5) &&
	       READ_ONCE(l5->boot->sk->sk_state) == TCP_ESTABLISHED;
}

/**
 * l5_decided() - is it known whether a connecting socket is connected?
 * @l5: the socket
 *
 * Context: any.
 */
bool l5_decided(struct l5_sock *l5)
{
	if (l5_state(l5) != L5_CONNECTING || l5_deferred(l5))
		return true;
	return !((1 << READ_ONCE(l5->boot->sk->sk_state)) &
		 (TCPF_SYN_SENT | TCPF_SYN_RECV | TCPF_ESTABLISHED));
}

/**
 * l5_wait_decided() - wait until a connecting socket is connected, or not
 * @l5: the socket
 * @timeo: how long, jiffies
 *
 * Return: 0, -EAGAIN after @timeo, or as sock_intr_errno().
 */
long l5_wait_decided(struct l5_sock *l5, long timeo)
{
	long left;

	if (l5_decided(l5))
		return 0;
	if (!timeo)
		return -EAGAIN;
	left = wait_event_interruptible_timeout(*sk_sleep(&l5->sk),
						l5_decided(l5), timeo);
	if (left > 0)
		return 0;
	return left ? sock_intr_errno(timeo) : -EAGAIN;
}
