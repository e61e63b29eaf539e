// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: the files of a network namespace in /proc/net.
 */
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <net/inet_sock.h>

#include "acct.h"
#include "bootstrap.h"
#include "deny.h"
#include "link.h"
#include "netns.h"
#include "proc.h"
#include "revoke.h"
#include "ring.h"
#include "spill.h"

/* /proc/net/l5_stat */

#define L5_REASON_NAME(code, name, text)	[L5_REASON_##code] = name,
static const char * const l5_reason_names[] = { L5_REASONS(L5_REASON_NAME) };

static int l5_stat_show(struct seq_file *seq, void *v)
{
	static const char * const names[L5_STAT_FALLBACK] = {
		[L5_STAT_CONN_SHM]	= "conn_shm",
		[L5_STAT_CONN_BASE]	= "conn_base",
		[L5_STAT_BYTES_TX]	= "bytes_tx",
		[L5_STAT_BYTES_RX]	= "bytes_rx",
		[L5_STAT_DOORBELLS]	= "doorbells",
		[L5_STAT_SLEEPS]	= "sleeps",
		[L5_STAT_SPINS]		= "spins",
		[L5_STAT_VIOLATIONS]	= "violations",
		[L5_STAT_MAPS]		= "maps",
		[L5_STAT_REGIONS]	= "regions",
		[L5_STAT_CONN_RDMA]	= "conn_rdma",
		[L5_STAT_RDMA_ASKED]	= "rdma_asked",
		[L5_STAT_RDMA_REFUSED]	= "rdma_refused",
		[L5_STAT_RDMA_SILENT]	= "rdma_silent",
		[L5_STAT_RDMA_FAILED]	= "rdma_failed",
		[L5_STAT_RDMA_BROKEN]	= "rdma_broken",
		[L5_STAT_RDMA_FORGED]	= "rdma_forged",
		[L5_STAT_RDMA_POSTS]	= "rdma_posts",
		[L5_STAT_RDMA_MESSAGES]	= "rdma_messages",
		[L5_STAT_RDMA_WAKES]	= "rdma_wakes",
	};
	struct l5_net *ln = l5_net(seq_file_single_net(seq));
	int i, cpu;

	for (i = 0; i < L5_STAT_MAX; i++) {
		u64 sum = 0;

		if (i == L5_STAT_FALLBACK + L5_REASON_NONE)
			continue;
		for_each_possible_cpu(cpu)
			sum += READ_ONCE(per_cpu_ptr(ln->stats, cpu)->v[i]);
		if (i < L5_STAT_FALLBACK)
			seq_printf(seq, "%s %llu\n", names[i], sum);
		else
			seq_printf(seq, "fallback_%s %llu\n",
				   l5_reason_names[i - L5_STAT_FALLBACK], sum);
	}
	seq_printf(seq, "rings_kb %lu\n",
		   atomic_long_read(&ln->acct->pages) << (PAGE_SHIFT - 10));
	seq_printf(seq, "reserved_kb %lu\n",
		   atomic_long_read(&ln->acct->reserved) << (PAGE_SHIFT - 10));
	if (net_eq(seq_file_single_net(seq), &init_net))
		seq_printf(seq, "host_reserved_kb %lu\n",
			   l5_host_pages() << (PAGE_SHIFT - 10));
	seq_printf(seq, "rdma_now %d\n", atomic_read(&ln->rdma_now));
	seq_printf(seq, "rdma_candidates %d\n",
		   atomic_read(&ln->rdma_candidates));
	seq_printf(seq, "pairs %lu\n", atomic_long_read(&ln->acct->pairs));
	return 0;
}

/* /proc/net/l5 */

static void *l5_seq_start(struct seq_file *seq, loff_t *pos)
	__acquires(&l5_net(seq_file_net(seq))->lock)
{
	struct l5_net *ln = l5_net(seq_file_net(seq));

	spin_lock(&ln->lock);
	return seq_hlist_start_head(&ln->socks, *pos);
}

static void *l5_seq_next(struct seq_file *seq, void *v, loff_t *pos)
{
	return seq_hlist_next(v, &l5_net(seq_file_net(seq))->socks, pos);
}

static void l5_seq_stop(struct seq_file *seq, void *v)
	__releases(&l5_net(seq_file_net(seq))->lock)
{
	spin_unlock(&l5_net(seq_file_net(seq))->lock);
}

static int l5_seq_show(struct seq_file *seq, void *v)
{
	static const char * const states[L5_STATE_MAX] = {
		"idle", "listen", "connecting", "open", "open", "open"
	};
	static const char * const transports[L5_STATE_MAX] = {
		"none", "none", "none", "base", "base", NULL
	};
	u32 tx = 0, rx = 0;
	u32 tx_size = 0, rx_size = 0;
	const char *transport;
	struct l5_sock *l5;
	int state;

	if (v == SEQ_START_TOKEN) {
		seq_puts(seq,
			 "inode uid proto state transport reason tx_used tx_size rx_used rx_size local remote\n");
		return 0;
	}
	l5 = hlist_entry((struct hlist_node *)v, struct l5_sock,
			 sk.sk_node);
	state = l5_state(l5);
	transport = transports[state];
	if (state == L5_RINGS) {
		struct l5_end *own = l5_own(l5), *peer = l5_peer(l5);

		transport = l5->conn->link->name;
		tx = l5_ring_used(l5->conn, l5->end);
		rx = l5_ring_used(l5->conn, !l5->end);
		tx_size = READ_ONCE(own->size);
		rx_size = l5_ring_wire(peer);
	}
	seq_printf(seq, "%llu %u %s %s %s %s %u %u %u %u",
		   (u64)sock_i_ino(&l5->sk),
		   from_kuid_munged(seq_user_ns(seq), l5_sk_uid(&l5->sk)),
		   l5->bops->name, states[state], transport,
		   l5_reason_names[READ_ONCE(l5->reason)],
		   tx, tx_size, rx, rx_size);
	if (l5->bops->names)
		l5->bops->names(seq, l5->boot->sk);
	else
		seq_puts(seq, " - -");
	seq_putc(seq, '\n');
	return 0;
}

static const struct seq_operations l5_seq_ops = {
	.start	= l5_seq_start,
	.next	= l5_seq_next,
	.stop	= l5_seq_stop,
	.show	= l5_seq_show,
};

/**
 * l5_proc_init() - make the files of a namespace
 * @net: the namespace
 *
 * Return: 0 or -ENOMEM.
 */
int l5_proc_init(struct net *net)
{
	if (!proc_create_net("l5", 0444, net->proc_net, &l5_seq_ops,
			     sizeof(struct seq_net_private)))
		return -ENOMEM;
	if (!proc_create_net_single("l5_stat", 0444, net->proc_net,
				    l5_stat_show, NULL))
		goto err_proc;
	if (!proc_create_net_single_write("l5_deny", 0644, net->proc_net,
					  l5_deny_show, l5_deny_write, NULL))
		goto err_stat;
	if (!proc_create_net_single_write("l5_revoke", 0200, net->proc_net,
					  l5_revoke_show, l5_revoke_write,
					  NULL))
		goto err_deny;
	return 0;

err_deny:
	remove_proc_entry("l5_deny", net->proc_net);
err_stat:
	remove_proc_entry("l5_stat", net->proc_net);
err_proc:
	remove_proc_entry("l5", net->proc_net);
	return -ENOMEM;
}

/**
 * l5_proc_exit() - remove them
 * @net: the namespace
 */
void l5_proc_exit(struct net *net)
{
	remove_proc_entry("l5_revoke", net->proc_net);
	remove_proc_entry("l5_deny", net->proc_net);
	remove_proc_entry("l5_stat", net->proc_net);
	remove_proc_entry("l5", net->proc_net);
}
