// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: the part of a network namespace: where it is found, what
 * it begins with, and the list of its sockets.
 */
#include <linux/percpu.h>
#include <linux/slab.h>
#include <net/netns/generic.h>
#include <net/sock.h>

#include "netns.h"

unsigned int l5_net_id;

/**
 * l5_net() - the module's part of a network namespace
 * @net: the namespace
 *
 * Context: any.
 */
struct l5_net *l5_net(const struct net *net)
{
	return net_generic(net, l5_net_id);
}

/* While a socket is listed it keeps its bootstrap socket and connection. */

void l5_net_add(struct l5_sock *l5)
{
	struct l5_net *ln = l5->ln;

	spin_lock(&ln->lock);
	hlist_add_head(&l5->sk.sk_node, &ln->socks);
	spin_unlock(&ln->lock);
	sock_prot_inuse_add(sock_net(&l5->sk), l5->sk.sk_prot, 1);
}

void l5_net_del(struct l5_sock *l5)
{
	struct l5_net *ln = l5->ln;

	spin_lock(&ln->lock);
	hlist_del_init(&l5->sk.sk_node);
	spin_unlock(&ln->lock);
	sock_prot_inuse_add(sock_net(&l5->sk), l5->sk.sk_prot, -1);
}

/**
 * l5_net_begin() - the settings, counters and account of a new namespace
 * @ln: the part of the namespace, zeroed
 *
 * Return: 0 or -ENOMEM.
 */
int l5_net_begin(struct l5_net *ln)
{
	mutex_init(&ln->revoke_lock);
	spin_lock_init(&ln->lock);
	ln->enabled = 1;
	ln->spin_us = L5_SPIN_MOST / NSEC_PER_USEC;
	ln->cpu_budget = L5_CPU_BUDGET;
	ln->ring_kb = 256;
	ln->ring_max_kb = 4096;
	ln->match_ms = 200;
	ln->idle_ms = 5000;
	ln->grow_ms = 200;
	ln->rdma = 1;
	ln->rdma_ms = 10000;
	ln->rdma_timeout_ms = 7000;
	ln->rdma_memo_s = 60;
	ln->rdma_max = 1024;
	ln->rdma_poll_idle_ms = 100;
	ln->rdma_notify = L5_NOTIFY_AUTO;
	ln->stats = alloc_percpu(struct l5_stats);
	if (!ln->stats)
		return -ENOMEM;
	ln->acct = kzalloc(sizeof(*ln->acct), GFP_KERNEL);
	if (!ln->acct) {
		free_percpu(ln->stats);
		return -ENOMEM;
	}
	refcount_set(&ln->acct->ref, 1);
	ln->acct->max_kb = READ_ONCE(l5_host_max_kb);
	return 0;
}

/**
 * l5_net_end() - undo l5_net_begin()
 * @ln: the part of the namespace
 */
void l5_net_end(struct l5_net *ln)
{
	l5_acct_put(ln->acct);
	free_percpu(ln->stats);
}

