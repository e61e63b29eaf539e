// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5 between hosts: what came of earlier questions, by destination. Lossy:
 * an entry overwritten too early costs another question.
 */
#include <linux/hash.h>
#include <linux/siphash.h>
#include <net/ipv6.h>

#include "rdma.h"

#define L5_MEMO_BITS	8

struct l5_memo {
	u64 who;
	unsigned long until;
	u8 reason;
};

static struct l5_memo l5_memos[1 << L5_MEMO_BITS];
static DEFINE_SPINLOCK(l5_memo_lock);

static u64 l5_memo_who(const struct net *net, const struct sockaddr_storage *to)
{
	static siphash_key_t key;
	struct {
		unsigned long net;
		struct in6_addr addr;
		u32 port;
		u32 family;
	} who = {
		.net = net_hash_mix(net),
		.family = to->ss_family,
	};

	net_get_random_once(&key, sizeof(key));
	if (to->ss_family == AF_INET6) {
		who.addr = ((struct sockaddr_in6 *)to)->sin6_addr;
		who.port = (__force u32)((struct sockaddr_in6 *)to)->sin6_port;
	} else {
		who.addr.s6_addr32[0] =
			((struct sockaddr_in *)to)->sin_addr.s_addr;
		who.port = (__force u32)((struct sockaddr_in *)to)->sin_port;
	}
	return siphash(&who, sizeof(who), &key);
}

/**
 * l5_memo_look() - what came of the last question
 * @net: from there
 * @to: to there
 *
 * Return: &enum l5_reason, L5_REASON_NONE if nothing is known against asking.
 */
u8 l5_memo_look(const struct net *net, const struct sockaddr_storage *to)
{
	u64 who = l5_memo_who(net, to);
	struct l5_memo *m = &l5_memos[hash_64(who, L5_MEMO_BITS)];
	u8 reason = L5_REASON_NONE;

	spin_lock_bh(&l5_memo_lock);
	if (m->who == who && time_before(jiffies, m->until))
		reason = m->reason;
	spin_unlock_bh(&l5_memo_lock);
	return reason;
}

/**
 * l5_memo_keep() - remember for net.l5.rdma_memo_s what came of a question
 * @rd: who asked
 * @net: from there
 * @reason: &enum l5_reason
 */
void l5_memo_keep(struct l5_rdma *rd, const struct net *net, u8 reason)
{
	unsigned long secs = READ_ONCE(rd->ln->rdma_memo_s);
	u64 who = l5_memo_who(net, &rd->dst);
	struct l5_memo *m = &l5_memos[hash_64(who, L5_MEMO_BITS)];

	if (!secs)
		return;
	spin_lock_bh(&l5_memo_lock);
	m->who = who;
	m->until = jiffies + secs * HZ;
	m->reason = reason;
	spin_unlock_bh(&l5_memo_lock);
}
