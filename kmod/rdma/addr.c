// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5 between hosts: the addresses of a TCP connection, as rdma_cm wants them
 * and as both ends have them alike.
 */
#include <linux/tcp.h>
#include <net/addrconf.h>
#include <net/ipv6.h>

#include "rdma.h"

/**
 * l5_rdma_addr() - find an address of a connection
 * @sk: its bootstrap
 * @to: filled in; all zero before
 * @peer: the peer's address with its port, else the own address without one
 */
void l5_rdma_addr(const struct sock *sk, struct sockaddr_storage *to,
		  bool peer)
{
	const struct inet_sock *inet = inet_sk(sk);

	if (sk->sk_family == AF_INET6 &&
	    !ipv6_addr_v4mapped(&sk->sk_v6_daddr)) {
		struct sockaddr_in6 *sin6 = (struct sockaddr_in6 *)to;

		sin6->sin6_family = AF_INET6;
		sin6->sin6_addr = peer ? sk->sk_v6_daddr :
					 sk->sk_v6_rcv_saddr;
		sin6->sin6_port = peer ? inet->inet_dport : 0;
		sin6->sin6_scope_id = ipv6_iface_scope_id(&sin6->sin6_addr,
							  sk->sk_bound_dev_if);
	} else {
		struct sockaddr_in *sin = (struct sockaddr_in *)to;

		sin->sin_family = AF_INET;
		sin->sin_addr.s_addr = peer ? inet->inet_daddr :
					      inet->inet_rcv_saddr;
		sin->sin_port = peer ? inet->inet_dport : 0;
	}
}

/**
 * l5_rdma_loopback() - does an address never leave this host?
 * @a: the address
 */
bool l5_rdma_loopback(const struct sockaddr_storage *a)
{
	if (a->ss_family == AF_INET6)
		return ipv6_addr_loopback(&((struct sockaddr_in6 *)a)
					  ->sin6_addr);
	return ipv4_is_loopback(((struct sockaddr_in *)a)->sin_addr.s_addr);
}

/**
 * l5_ends_of() - find the addresses of a connection, alike at both ends
 * @sk: the bootstrap
 * @end: which end @sk is
 * @ends: filled in
 */
void l5_ends_of(const struct sock *sk, int end, struct l5_ends *ends)
{
	const struct inet_sock *inet = inet_sk(sk);
	int peer = !end;

	memset(ends, 0, sizeof(*ends));
	if (sk->sk_family == AF_INET6 &&
	    !ipv6_addr_v4mapped(&sk->sk_v6_daddr)) {
		ends->addr[end] = sk->sk_v6_rcv_saddr;
		ends->addr[peer] = sk->sk_v6_daddr;
	} else {
		ipv6_addr_set_v4mapped(inet->inet_rcv_saddr, &ends->addr[end]);
		ipv6_addr_set_v4mapped(inet->inet_daddr, &ends->addr[peer]);
	}
	ends->port[end] = inet->inet_sport;
	ends->port[peer] = inet->inet_dport;
}
