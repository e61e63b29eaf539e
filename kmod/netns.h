/* SPDX-License-Identifier: GPL-2.0 */
/* A network namespace: its settings, its counters, its sockets. */
#ifndef L5_KMOD_NETNS_H
#define L5_KMOD_NETNS_H

#include "l5.h"

enum l5_stat {
	L5_STAT_CONN_SHM,
	L5_STAT_CONN_BASE,
	L5_STAT_BYTES_TX,
	L5_STAT_BYTES_RX,
	L5_STAT_DOORBELLS,
	L5_STAT_SLEEPS,
	L5_STAT_SPINS,
	L5_STAT_VIOLATIONS,
	L5_STAT_MAPS,
	L5_STAT_REGIONS,
	L5_STAT_CONN_RDMA,
	L5_STAT_RDMA_ASKED,
	L5_STAT_RDMA_REFUSED,
	L5_STAT_RDMA_SILENT,
	L5_STAT_RDMA_FAILED,
	L5_STAT_RDMA_BROKEN,
	L5_STAT_RDMA_FORGED,
	L5_STAT_RDMA_POSTS,
	L5_STAT_RDMA_MESSAGES,
	L5_STAT_RDMA_WAKES,
	L5_STAT_FALLBACK,	/* and one for each reason after it */
	L5_STAT_MAX = L5_STAT_FALLBACK + L5_REASON_MAX
};

struct l5_stats {
	u64 v[L5_STAT_MAX];
};

/**
 * struct l5_net - a network namespace's part
 * @enabled: net.l5.enabled: 0 leaves every new connection on its bootstrap
 * @spin_us: net.l5.spin_us: see L5_SPIN_US
 * @cpu_budget: net.l5.cpu_budget: percent of a CPU's time that may go into
 *	looking at rings
 * @ring_kb: net.l5.ring_kb: size of a ring when no buffer size was asked for
 * @ring_max_kb: net.l5.ring_max_kb: most that SO_SNDBUF and SO_RCVBUF can get
 * @match_ms: net.l5.match_ms: how long to wait for a server known to be AF_L5
 * @idle_ms: net.l5.idle_ms: between two looks at a ring that holds more memory
 *	than it was mapped with; 0: none
 * @grow_ms: net.l5.grow_ms: how long a ring is full, and its reader does not
 *	move, before it grows; 0: it does not
 * @rdma: net.l5.rdma: whether to ask and to answer for RDMA
 * @rdma_ms: net.l5.rdma_ms: how long a question may take
 * @rdma_timeout_ms: net.l5.rdma_timeout_ms: how long is sent again what the
 *	peer does not acknowledge
 * @rdma_memo_s: net.l5.rdma_memo_s: how long an answer is remembered at most
 * @rdma_max: net.l5.rdma_max: connections to other hosts at a time
 * @rdma_poll: net.l5.rdma_poll: whether a thread sends the records that are
 *	published
 * @rdma_poll_idle_ms: net.l5.rdma_poll_idle_ms: how long that thread looks for
 *	more
 * @rdma_notify: net.l5.rdma_notify: how to publish, L5_NOTIFY_*
 * @rdma_safe: net.l5.rdma_safe: how other hosts may publish, see
 *	rdma/order.c
 * @rdma_chain: net.l5.rdma_chain: whether one post is for a whole batch
 * @rdma_now: connections that there are at present
 * @rdma_candidates: accepted sockets that may yet be asked
 * @rdma_early: questions for sockets not accepted yet
 * @remote_data: what the transport to other hosts keeps of the namespace
 * @acct: memory charged
 * @stats: counters
 * @lock: guards @socks
 * @socks: all sockets, for /proc/net/l5
 * @rules: the sockets that are to have no rings, see deny.c; read under RCU
 * @rules_lock: serialises changes of @rules, @nrules
 * @nrules: how many rules there are
 * @revoke_lock: serialises the rounds of revoking that begin here
 * @revoke_rounds: their number, under @revoke_lock
 * @revoked: number of the host's last round of revoking that was here, under
 *	the @revoke_lock of the first namespace
 * @sysctl: its table of sysctls
 */
struct l5_net {
	unsigned int enabled;
	unsigned int spin_us;
	unsigned int cpu_budget;
	unsigned int ring_kb;
	unsigned int ring_max_kb;
	unsigned int match_ms;
	unsigned int idle_ms;
	unsigned int grow_ms;
	unsigned int rdma;
	unsigned int rdma_ms;
	unsigned int rdma_timeout_ms;
	unsigned int rdma_memo_s;
	unsigned int rdma_max;
	unsigned int rdma_poll;
	unsigned int rdma_poll_idle_ms;
	unsigned int rdma_notify;
	unsigned int rdma_safe;
	unsigned int rdma_chain;
	atomic_t rdma_now;
	atomic_t rdma_candidates;
	atomic_t rdma_early;
	void *remote_data;
	struct l5_acct *acct;
	struct l5_stats __percpu *stats;
	spinlock_t lock;
	struct hlist_head socks;
	struct list_head rules;
	struct mutex rules_lock;
	unsigned int nrules;
	struct mutex revoke_lock;
	u32 revoke_rounds;
	u32 revoked;
	struct ctl_table_header *sysctl;
};

/* Between two looks at rings that may be idle, jiffies; 0: none */
static inline unsigned long l5_idle_pause(const struct l5_net *ln)
{
	return msecs_to_jiffies(READ_ONCE(ln->idle_ms));
}

/* So long a reader does not move before its ring grows, jiffies; 0: never */
static inline unsigned long l5_grow_after(const struct l5_net *ln)
{
	return msecs_to_jiffies(READ_ONCE(ln->grow_ms));
}

struct l5_net *l5_net(const struct net *net);
void l5_net_add(struct l5_sock *l5);
void l5_net_del(struct l5_sock *l5);
int l5_net_begin(struct l5_net *ln);
void l5_net_end(struct l5_net *ln);
/* the number of the part that each namespace has of ours */
extern unsigned int l5_net_id;

/**
 * l5_net_count() - add to a counter of a namespace
 * @ln: its part of the module
 * @stat: L5_STAT_*
 * @n: how much
 *
 * Context: any.
 */
static inline void l5_net_count(const struct l5_net *ln, int stat, u64 n)
{
	this_cpu_add(ln->stats->v[stat], n);
}

/**
 * l5_count() - add to a counter of a socket's namespace
 * @l5: the socket
 * @stat: L5_STAT_*
 * @n: how much
 *
 * Context: any.
 */
static inline void l5_count(const struct l5_sock *l5, int stat, u64 n)
{
	l5_net_count(l5->ln, stat, n);
}

#endif /* L5_KMOD_NETNS_H */
