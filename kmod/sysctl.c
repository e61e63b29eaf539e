// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: the sysctls of a network namespace, and those of the host.
 */
#include <linux/slab.h>
#include <linux/sysctl.h>
#include <net/net_namespace.h>

#include "acct.h"
#include "netns.h"
#include "sysctl.h"
#include "transport.h"

static unsigned int l5_ring_kb_min = L5_RING_LEAST >> 10;
static unsigned int l5_ring_kb_max = L5_RING_MAX >> 10;
static unsigned int l5_spin_max = L5_SPIN_US_MAX;
static unsigned int l5_match_max = 10000;
static unsigned int l5_idle_max = 3600000;
static unsigned int l5_rdma_ms_max = 60000;
/* TCP gives up after some fifteen minutes, too */
static unsigned int l5_timeout_min = 1000;
static unsigned int l5_timeout_max = 900000;
static unsigned int l5_cm_cache_max = 86400;
static unsigned int l5_rdma_max_max = 1000000;
static unsigned int l5_notify_max = L5_NOTIFY_AUTO;
static unsigned int l5_safe_max = (1 << L5_NOTIFY_AUTO) - 1;

enum {
	L5_CTL_ENABLED,
	L5_CTL_SPIN_US,
	L5_CTL_CPU_BUDGET,
	L5_CTL_RING_KB,
	L5_CTL_RING_MAX_KB,
	L5_CTL_MEM_MAX_KB,
	L5_CTL_MATCH_MS,
	L5_CTL_IDLE_MS,
	L5_CTL_GROW_MS,
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
		l5_transport_net_changed(container_of(table->data,
						      struct l5_net,
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
	[L5_CTL_CPU_BUDGET] = {
		.procname	= "cpu_budget",
		.maxlen		= sizeof(unsigned int),
		.mode		= 0644,
		.proc_handler	= proc_douintvec_minmax,
		.extra1		= SYSCTL_ZERO,
		.extra2		= SYSCTL_ONE_HUNDRED,
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
	[L5_CTL_IDLE_MS] = {
		.procname	= "idle_ms",
		.maxlen		= sizeof(unsigned int),
		.mode		= 0644,
		.proc_handler	= proc_douintvec_minmax,
		.extra1		= SYSCTL_ZERO,
		.extra2		= &l5_idle_max,
	},
	[L5_CTL_GROW_MS] = {
		.procname	= "grow_ms",
		.maxlen		= sizeof(unsigned int),
		.mode		= 0644,
		.proc_handler	= proc_douintvec_minmax,
		.extra1		= SYSCTL_ZERO,
		.extra2		= &l5_idle_max,
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
		.extra2		= &l5_cm_cache_max,
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

/**
 * l5_sysctl_init() - make the sysctls of a namespace
 * @net: the namespace
 * @ln: its part of the module
 *
 * Return: 0 or -ENOMEM.
 */
int l5_sysctl_init(struct net *net, struct l5_net *ln)
{
	size_t entries = L5_CTL_MAX;
	struct ctl_table *t;

	t = kmemdup(l5_sysctls, sizeof(l5_sysctls), GFP_KERNEL);
	if (!t)
		return -ENOMEM;
	/*
	 * Memory is the host's: not for the maker of a user namespace. Nor is
	 * the size of rings, since what one end maps beyond its own size is
	 * paid for by the other.
	 */
	if (net->user_ns != &init_user_ns) {
		t[L5_CTL_RING_KB].mode = 0444;
		t[L5_CTL_RING_MAX_KB].mode = 0444;
		t[L5_CTL_MEM_MAX_KB].mode = 0444;
		t[L5_CTL_MATCH_MS].mode = 0444;
		t[L5_CTL_IDLE_MS].mode = 0444;
		t[L5_CTL_GROW_MS].mode = 0444;
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
	t[L5_CTL_CPU_BUDGET].data = &ln->cpu_budget;
	t[L5_CTL_RING_KB].data = &ln->ring_kb;
	t[L5_CTL_RING_MAX_KB].data = &ln->ring_max_kb;
	t[L5_CTL_MEM_MAX_KB].data = &ln->acct->max_kb;
	t[L5_CTL_MATCH_MS].data = &ln->match_ms;
	t[L5_CTL_IDLE_MS].data = &ln->idle_ms;
	t[L5_CTL_GROW_MS].data = &ln->grow_ms;
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

/**
 * l5_sysctl_exit() - remove them
 * @ln: the namespace's part
 */
void l5_sysctl_exit(struct l5_net *ln)
{
	const struct ctl_table *t = ln->sysctl->ctl_table_arg;

	unregister_net_sysctl_table(ln->sysctl);
	kfree(t);
}
