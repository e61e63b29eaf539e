// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: what belongs to a network namespace: limits, counters, /proc files.
 */
#include <linux/inet.h>
#include <linux/mm.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <net/inet_sock.h>
#include <net/ipv6.h>
#include <net/netns/generic.h>

#include "l5.h"

static unsigned int l5_net_id;

struct l5_net *l5_net(const struct net *net)
{
	return net_generic(net, l5_net_id);
}

void l5_acct_put(struct l5_acct *acct)
{
	if (refcount_dec_and_test(&acct->ref))
		kfree(acct);
}

/* Sysctls */

static unsigned int l5_ring_kb_min = L5_RING_LEAST >> 10;
static unsigned int l5_ring_kb_max = L5_RING_MAX >> 10;
static unsigned int l5_spin_max = L5_SPIN_US_MAX;
static unsigned int l5_match_max = 10000;
static unsigned int l5_rdma_ms_max = 60000;
/* TCP gives up after some fifteen minutes, too */
static unsigned int l5_timeout_min = 1000;
static unsigned int l5_timeout_max = 900000;
static unsigned int l5_memo_max = 86400;
static unsigned int l5_rdma_max_max = 1000000;
static unsigned int l5_notify_max = L5_NOTIFY_AUTO;
static unsigned int l5_safe_max = (1 << L5_NOTIFY_AUTO) - 1;

enum {
	L5_CTL_ENABLED,
	L5_CTL_SPIN_US,
	L5_CTL_RING_KB,
	L5_CTL_RING_MAX_KB,
	L5_CTL_MEM_MAX_KB,
	L5_CTL_MATCH_MS,
	L5_CTL_RDMA,
	L5_CTL_RDMA_MS,
	L5_CTL_RDMA_TIMEOUT_MS,
	L5_CTL_RDMA_MEMO_S,
	L5_CTL_RDMA_MAX,
	L5_CTL_RDMA_POLL,
	L5_CTL_RDMA_POLL_IDLE_MS,
	L5_CTL_RDMA_NOTIFY,
	L5_CTL_RDMA_SAFE,
	L5_CTL_RDMA_CHAIN,
	L5_CTL_HOST_MAX_KB,	/* from here on the host's alone */
	L5_CTL_USER_MAX_KB,
	L5_CTL_HOST_RDMA_MAX,
	L5_CTL_USER_RDMA_MAX,
	L5_CTL_MAX,
	L5_CTL_HOST = L5_CTL_HOST_MAX_KB
};

static int l5_sysctl_poll(L5_CTL_CONST struct ctl_table *table, int write,
			  void *buffer, size_t *lenp, loff_t *ppos)
{
	int err = proc_douintvec_minmax(table, write, buffer, lenp, ppos);

	if (!err && write)
		l5_poller_set(container_of(table->data, struct l5_net,
					   rdma_poll));
	return err;
}

static const struct ctl_table l5_sysctls[] = {
	[L5_CTL_ENABLED] = {
		.procname	= "enabled",
		.maxlen		= sizeof(unsigned int),
		.mode		= 0644,
		.proc_handler	= proc_douintvec_minmax,
		.extra1		= SYSCTL_ZERO,
		.extra2		= SYSCTL_ONE,
	},
	[L5_CTL_SPIN_US] = {
		.procname	= "spin_us",
		.maxlen		= sizeof(unsigned int),
		.mode		= 0644,
		.proc_handler	= proc_douintvec_minmax,
		.extra1		= SYSCTL_ZERO,
		.extra2		= &l5_spin_max,
	},
	[L5_CTL_RING_KB] = {
		.procname	= "ring_kb",
		.maxlen		= sizeof(unsigned int),
		.mode		= 0644,
		.proc_handler	= proc_douintvec_minmax,
		.extra1		= &l5_ring_kb_min,
		.extra2		= &l5_ring_kb_max,
	},
	[L5_CTL_RING_MAX_KB] = {
		.procname	= "ring_max_kb",
		.maxlen		= sizeof(unsigned int),
		.mode		= 0644,
		.proc_handler	= proc_douintvec_minmax,
		.extra1		= &l5_ring_kb_min,
		.extra2		= &l5_ring_kb_max,
	},
	[L5_CTL_MEM_MAX_KB] = {
		.procname	= "mem_max_kb",
		.maxlen		= sizeof(unsigned long),
		.mode		= 0644,
		.proc_handler	= proc_doulongvec_minmax,
	},
	[L5_CTL_MATCH_MS] = {
		.procname	= "match_ms",
		.maxlen		= sizeof(unsigned int),
		.mode		= 0644,
		.proc_handler	= proc_douintvec_minmax,
		.extra1		= SYSCTL_ZERO,
		.extra2		= &l5_match_max,
	},
	[L5_CTL_RDMA] = {
		.procname	= "rdma",
		.maxlen		= sizeof(unsigned int),
		.mode		= 0644,
		.proc_handler	= proc_douintvec_minmax,
		.extra1		= SYSCTL_ZERO,
		.extra2		= SYSCTL_ONE,
	},
	[L5_CTL_RDMA_MS] = {
		.procname	= "rdma_ms",
		.maxlen		= sizeof(unsigned int),
		.mode		= 0644,
		.proc_handler	= proc_douintvec_minmax,
		.extra1		= SYSCTL_ZERO,
		.extra2		= &l5_rdma_ms_max,
	},
	[L5_CTL_RDMA_TIMEOUT_MS] = {
		.procname	= "rdma_timeout_ms",
		.maxlen		= sizeof(unsigned int),
		.mode		= 0644,
		.proc_handler	= proc_douintvec_minmax,
		.extra1		= &l5_timeout_min,
		.extra2		= &l5_timeout_max,
	},
	[L5_CTL_RDMA_MEMO_S] = {
		.procname	= "rdma_memo_s",
		.maxlen		= sizeof(unsigned int),
		.mode		= 0644,
		.proc_handler	= proc_douintvec_minmax,
		.extra1		= SYSCTL_ZERO,
		.extra2		= &l5_memo_max,
	},
	[L5_CTL_RDMA_MAX] = {
		.procname	= "rdma_max",
		.maxlen		= sizeof(unsigned int),
		.mode		= 0644,
		.proc_handler	= proc_douintvec_minmax,
		.extra1		= SYSCTL_ZERO,
		.extra2		= &l5_rdma_max_max,
	},
	[L5_CTL_RDMA_POLL] = {
		.procname	= "rdma_poll",
		.maxlen		= sizeof(unsigned int),
		.mode		= 0644,
		.proc_handler	= l5_sysctl_poll,
		.extra1		= SYSCTL_ZERO,
		.extra2		= SYSCTL_ONE,
	},
	[L5_CTL_RDMA_POLL_IDLE_MS] = {
		.procname	= "rdma_poll_idle_ms",
		.maxlen		= sizeof(unsigned int),
		.mode		= 0644,
		.proc_handler	= proc_douintvec_minmax,
		.extra1		= SYSCTL_ZERO,
		.extra2		= &l5_match_max,
	},
	[L5_CTL_RDMA_NOTIFY] = {
		.procname	= "rdma_notify",
		.maxlen		= sizeof(unsigned int),
		.mode		= 0644,
		.proc_handler	= proc_douintvec_minmax,
		.extra1		= SYSCTL_ZERO,
		.extra2		= &l5_notify_max,
	},
	[L5_CTL_RDMA_SAFE] = {
		.procname	= "rdma_safe",
		.maxlen		= sizeof(unsigned int),
		.mode		= 0644,
		.proc_handler	= proc_douintvec_minmax,
		.extra1		= SYSCTL_ZERO,
		.extra2		= &l5_safe_max,
	},
	[L5_CTL_RDMA_CHAIN] = {
		.procname	= "rdma_chain",
		.maxlen		= sizeof(unsigned int),
		.mode		= 0644,
		.proc_handler	= proc_douintvec_minmax,
		.extra1		= SYSCTL_ZERO,
		.extra2		= SYSCTL_ONE,
	},
	[L5_CTL_HOST_MAX_KB] = {
		.procname	= "host_max_kb",
		.data		= &l5_host_max_kb,
		.maxlen		= sizeof(unsigned long),
		.mode		= 0644,
		.proc_handler	= proc_doulongvec_minmax,
	},
	[L5_CTL_USER_MAX_KB] = {
		.procname	= "user_max_kb",
		.data		= &l5_user_max_kb,
		.maxlen		= sizeof(unsigned long),
		.mode		= 0644,
		.proc_handler	= proc_doulongvec_minmax,
	},
	[L5_CTL_HOST_RDMA_MAX] = {
		.procname	= "host_rdma_max",
		.data		= &l5_host_rdma_max,
		.maxlen		= sizeof(unsigned int),
		.mode		= 0644,
		.proc_handler	= proc_douintvec_minmax,
		.extra1		= SYSCTL_ZERO,
		.extra2		= &l5_rdma_max_max,
	},
	[L5_CTL_USER_RDMA_MAX] = {
		.procname	= "user_rdma_max",
		.data		= &l5_user_rdma_max,
		.maxlen		= sizeof(unsigned int),
		.mode		= 0644,
		.proc_handler	= proc_douintvec_minmax,
		.extra1		= SYSCTL_ZERO,
		.extra2		= &l5_rdma_max_max,
	},
	L5_SYSCTL_END
};

static int l5_sysctl_init(struct net *net, struct l5_net *ln)
{
	size_t entries = L5_CTL_MAX;
	struct ctl_table *t;

	t = kmemdup(l5_sysctls, sizeof(l5_sysctls), GFP_KERNEL);
	if (!t)
		return -ENOMEM;
	/* memory is the host's: not for who made a user namespace */
	if (net->user_ns != &init_user_ns) {
		t[L5_CTL_RING_MAX_KB].mode = 0444;
		t[L5_CTL_MEM_MAX_KB].mode = 0444;
		t[L5_CTL_MATCH_MS].mode = 0444;
		t[L5_CTL_RDMA_TIMEOUT_MS].mode = 0444;
		t[L5_CTL_RDMA_MAX].mode = 0444;
		t[L5_CTL_RDMA_POLL].mode = 0444;
	}
	if (!net_eq(net, &init_net)) {
		entries = L5_CTL_HOST;
		t[L5_CTL_HOST].procname = NULL;
	}
	t[L5_CTL_ENABLED].data = &ln->enabled;
	t[L5_CTL_SPIN_US].data = &ln->spin_us;
	t[L5_CTL_RING_KB].data = &ln->ring_kb;
	t[L5_CTL_RING_MAX_KB].data = &ln->ring_max_kb;
	t[L5_CTL_MEM_MAX_KB].data = &ln->acct->max_kb;
	t[L5_CTL_MATCH_MS].data = &ln->match_ms;
	t[L5_CTL_RDMA].data = &ln->rdma;
	t[L5_CTL_RDMA_MS].data = &ln->rdma_ms;
	t[L5_CTL_RDMA_TIMEOUT_MS].data = &ln->rdma_timeout_ms;
	t[L5_CTL_RDMA_MEMO_S].data = &ln->rdma_memo_s;
	t[L5_CTL_RDMA_MAX].data = &ln->rdma_max;
	t[L5_CTL_RDMA_POLL].data = &ln->rdma_poll;
	t[L5_CTL_RDMA_POLL_IDLE_MS].data = &ln->rdma_poll_idle_ms;
	t[L5_CTL_RDMA_NOTIFY].data = &ln->rdma_notify;
	t[L5_CTL_RDMA_SAFE].data = &ln->rdma_safe;
	t[L5_CTL_RDMA_CHAIN].data = &ln->rdma_chain;
	ln->sysctl = l5_sysctl_register(net, "net/l5", t, entries);
	if (!ln->sysctl) {
		kfree(t);
		return -ENOMEM;
	}
	return 0;
}

static void l5_sysctl_exit(struct l5_net *ln)
{
	const struct ctl_table *t = ln->sysctl->ctl_table_arg;

	unregister_net_sysctl_table(ln->sysctl);
	kfree(t);
}

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
	seq_printf(seq, "rdma_hopes %d\n", atomic_read(&ln->rdma_hopes));
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

static void l5_seq_names(struct seq_file *seq, struct l5_sock *l5)
{
	const struct sock *bsk = l5->boot->sk;
	const struct inet_sock *inet = inet_sk(bsk);

	switch (l5->proto) {
	case L5PROTO_INET:
		seq_printf(seq, " %pI4:%u %pI4:%u",
			   &inet->inet_rcv_saddr, ntohs(inet->inet_sport),
			   &inet->inet_daddr, ntohs(inet->inet_dport));
		break;
#if IS_ENABLED(CONFIG_IPV6)
	case L5PROTO_INET6:
		seq_printf(seq, " [%pI6c]:%u [%pI6c]:%u",
			   &bsk->sk_v6_rcv_saddr, ntohs(inet->inet_sport),
			   &bsk->sk_v6_daddr, ntohs(inet->inet_dport));
		break;
#endif
	default:
		/* as in ss, names of AF_UNIX sockets are /proc/net/unix's */
		seq_puts(seq, " - -");
	}
}

static int l5_seq_show(struct seq_file *seq, void *v)
{
	static const char * const protos[] = { "inet", "inet6", "unix" };
	static const char * const states[L5_STATE_MAX] = {
		"idle", "listen", "connecting", "open", "open", "open"
	};
	static const char * const transports[L5_STATE_MAX] = {
		"none", "none", "none", "base", "base", "shm"
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
	if (state == L5_SHM && l5->conn->rdma)
		transport = "rdma";
	if (state == L5_SHM) {
		struct l5_end *own = l5_own(l5), *peer = l5_peer(l5);

		tx = l5_ring_used(l5->conn, l5->end);
		rx = l5_ring_used(l5->conn, !l5->end);
		tx_size = own->size;
		rx_size = peer->size;
	}
	seq_printf(seq, "%llu %u %s %s %s %s %u %u %u %u",
		   (u64)sock_i_ino(&l5->sk),
		   from_kuid_munged(seq_user_ns(seq), l5_sk_uid(&l5->sk)),
		   protos[l5->proto], states[state], transport,
		   l5_reason_names[READ_ONCE(l5->reason)],
		   tx, tx_size, rx, rx_size);
	l5_seq_names(seq, l5);
	seq_putc(seq, '\n');
	return 0;
}

static const struct seq_operations l5_seq_ops = {
	.start	= l5_seq_start,
	.next	= l5_seq_next,
	.stop	= l5_seq_stop,
	.show	= l5_seq_show,
};

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

static int __net_init l5_net_start(struct net *net)
{
	struct l5_net *ln = l5_net(net);
	int err = -ENOMEM;

	spin_lock_init(&ln->lock);
	l5_deny_init(ln);
	ln->enabled = 1;
	ln->spin_us = 200;
	ln->ring_kb = 256;
	ln->ring_max_kb = 4096;
	ln->match_ms = 200;
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
	if (!ln->acct)
		goto err_stats;
	refcount_set(&ln->acct->ref, 1);
	ln->acct->max_kb = READ_ONCE(l5_host_max_kb);
	err = l5_poller_init(ln);
	if (err)
		goto err_acct;
	err = l5_sysctl_init(net, ln);
	if (err)
		goto err_poller;
	err = -ENOMEM;
	if (!proc_create_net("l5", 0444, net->proc_net, &l5_seq_ops,
			     sizeof(struct seq_net_private)))
		goto err_sysctl;
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
err_sysctl:
	l5_sysctl_exit(ln);
err_poller:
	l5_poller_exit(ln);
err_acct:
	l5_acct_put(ln->acct);
err_stats:
	free_percpu(ln->stats);
	return err;
}

static void __net_exit l5_net_stop(struct net *net)
{
	struct l5_net *ln = l5_net(net);

	remove_proc_entry("l5_revoke", net->proc_net);
	remove_proc_entry("l5_deny", net->proc_net);
	remove_proc_entry("l5_stat", net->proc_net);
	remove_proc_entry("l5", net->proc_net);
	l5_deny_exit(ln);
	l5_sysctl_exit(ln);
	l5_poller_exit(ln);
	l5_acct_put(ln->acct);
	free_percpu(ln->stats);
}

static struct pernet_operations l5_net_ops = {
	.init	= l5_net_start,
	.exit	= l5_net_stop,
	.id	= &l5_net_id,
	.size	= sizeof(struct l5_net),
};

int __init l5_net_init(void)
{
	l5_acct_init();
	return register_pernet_subsys(&l5_net_ops);
}

void l5_net_exit(void)
{
	unregister_pernet_subsys(&l5_net_ops);
	/* rules end by an RCU callback, too */
	rcu_barrier();
}
