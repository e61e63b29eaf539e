// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5 between hosts: reasons to keep a connection on TCP for the wire's sake.
 *
 * An adapter sends bytes in the clear, unsigned, and by its own way. So a
 * connection does not move if its packets are to be encrypted, signed or
 * dropped: each end judges its own socket, when it would ask or be asked, and
 * once more at the last moment, before the peer is told that it may write. A
 * change after that ends no connection; an option that would end one is
 * refused.
 */
#include <linux/netdevice.h>
#include <linux/tcp.h>
#include <net/dst.h>
#include <net/ipv6.h>
#include <net/tcp.h>
#include <net/xfrm.h>

#include "rdma.h"

/* Has the socket keys to sign its packets to its peer? */
static bool l5_guard_signed(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	bool has = false;

#ifdef CONFIG_TCP_AO
	if (rcu_access_pointer(tp->ao_info))
		return true;
#endif
#ifdef CONFIG_TCP_MD5SIG
	if (rcu_access_pointer(tp->md5sig_info))
		has = tp->af_specific->md5_lookup(sk, sk);
#endif
	return has;
}

#ifdef CONFIG_XFRM
/*
 * A policy for packets that arrive is only asked about a packet: so any such
 * policy of the namespace counts.
 */
static bool l5_guard_policy(const struct sock *sk)
{
	const struct netns_xfrm *xfrm = &sock_net(sk)->xfrm;

	return READ_ONCE(xfrm->policy_count[XFRM_POLICY_IN]) ||
	       READ_ONCE(xfrm->policy_default[XFRM_POLICY_IN]) ==
			XFRM_USERPOLICY_BLOCK ||
	       rcu_access_pointer(sk->sk_policy[XFRM_POLICY_IN]) ||
	       rcu_access_pointer(sk->sk_policy[XFRM_POLICY_OUT]);
}

static bool l5_guard_xfrm(const struct dst_entry *dst)
{
	return dst->xfrm;
}
#else
static bool l5_guard_policy(const struct sock *sk)
{
	return false;
}

static bool l5_guard_xfrm(const struct dst_entry *dst)
{
	return false;
}
#endif

static int l5_guard_lower(struct net_device *dev,
			  struct netdev_nested_priv *priv)
{
	return netif_is_macsec(dev);
}

/* Does a device, or one that it sits on, encrypt its packets? */
static bool l5_guard_dev(struct net_device *dev)
{
	struct netdev_nested_priv priv = { };

	return netif_is_macsec(dev) ||
	       netdev_walk_all_lower_dev_rcu(dev, l5_guard_lower, &priv);
}

/* Has an administrator said that there is to be no RDMA by this way? */
static bool l5_guard_denied(const struct sock *sk, struct net_device *dev)
{
	struct in6_addr peer;

	if (sk->sk_family == AF_INET6)
		peer = sk->sk_v6_daddr;
	else
		ipv6_addr_set_v4mapped(inet_sk(sk)->inet_daddr, &peer);
	return l5_denied_way(sock_net(sk), dev, &peer);
}

/*
 * Policies have had their say about a route. A socket without a route may be
 * about to get one; and a route that only discards is what policies give out
 * until keys are there.
 */
static u8 l5_guard_route(const struct sock *sk)
{
	const struct dst_entry *dst = rcu_dereference(sk->sk_dst_cache);

	if (!dst || l5_guard_xfrm(dst) || dst->output == dst_discard_out ||
	    l5_guard_dev(dst->dev))
		return L5_REASON_SECURED;
	return l5_guard_denied(sk, dst->dev) ? L5_REASON_DENIED :
					       L5_REASON_NONE;
}

/**
 * l5_guard() - has a connection to stay on TCP?
 * @sk: its bootstrap, with a route that is fresh
 *
 * Context: any.
 * Return: L5_REASON_NONE if not.
 */
u8 l5_guard(const struct sock *sk)
{
	u8 why;

	rcu_read_lock();
	if (l5_guard_policy(sk) || l5_guard_signed(sk))
		why = L5_REASON_SECURED;
	else
		why = l5_guard_route(sk);
	rcu_read_unlock();
	return why;
}

/**
 * l5_guard_way() - RDMA found its own way: is that way to be left alone?
 * @id: with an address that is resolved, or a question that came
 *
 * Context: any.
 * Return: as l5_guard().
 */
u8 l5_guard_way(const struct rdma_cm_id *id)
{
	const struct rdma_dev_addr *addr = &id->route.addr.dev_addr;
	struct net_device *dev;
	u8 why = L5_REASON_NONE;

	rcu_read_lock();
	dev = dev_get_by_index_rcu(addr->net, addr->bound_dev_if);
	if (dev && l5_guard_dev(dev))
		why = L5_REASON_SECURED;
	else if (dev && l5_denied_way(addr->net, dev, NULL))
		why = L5_REASON_DENIED;
	rcu_read_unlock();
	return why;
}

/**
 * l5_guard_again() - l5_guard(), of a route that may be out of date
 * @sk: the bootstrap
 *
 * A task that uses the socket just then, and may do so for as long as a fault
 * of its own lasts, looks after the route itself.
 *
 * Context: process; does not sleep.
 * Return: as l5_guard().
 */
u8 l5_guard_again(struct sock *sk)
{
	u8 why;

	local_bh_disable();
	bh_lock_sock(sk);
	/* as TCP does before it sends something again */
	if (!sock_owned_by_user(sk) &&
	    (1 << sk->sk_state) & (TCPF_ESTABLISHED | TCPF_CLOSE_WAIT))
		inet_csk(sk)->icsk_af_ops->rebuild_header(sk);
	why = l5_guard(sk);
	bh_unlock_sock(sk);
	local_bh_enable();
	return why;
}
