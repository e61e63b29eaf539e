// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5 between hosts: what came of earlier questions, by destination and user.
 * Lossy: an entry overwritten too early costs another question. By user, since
 * one can have a service answer nothing, as by connections that it does not
 * accept, and that is no reason for others.
 *
 * One answer, or none, says little of the next hour: a packet was lost, a
 * service restarts. So it is remembered for L5_MEMO_FIRST, and for twice as
 * long each time that the next question has the same outcome, up to
 * net.l5.rdma_memo_s. Questions that were asked at a time say it once. What
 * moves, or answers in another way, makes it begin anew.
 */
#include <linux/hash.h>
#include <linux/siphash.h>
#include <net/ipv6.h>

#include "rdma.h"

#define L5_MEMO_BITS	8
#define L5_MEMO_FIRST	HZ

/**
 * struct l5_memo - of one destination
 * @who: which one, and for whom
 * @since: jiffies when @delay was last set
 * @until: jiffies when it may be asked again
 * @delay: jiffies that it was not to be asked for
 * @reason: &enum l5_reason, L5_REASON_NONE if it answered well
 */
struct l5_memo {
	u64 who;
	unsigned long since;
	unsigned long until;
	unsigned long delay;
	u8 reason;
};

static struct l5_memo l5_memos[1 << L5_MEMO_BITS];
static DEFINE_SPINLOCK(l5_memo_lock);

/**
 * l5_memo_who() - a destination as a number
 * @net: from there
 * @to: to there
 * @uid: of whoever asks
 */
u64 l5_memo_who(const struct net *net, const struct sockaddr_storage *to,
		kuid_t uid)
{
	static siphash_key_t key;
	struct {
		unsigned long net;
		struct in6_addr addr;
		u32 port;
		u32 family;
		u32 uid;
		u32 none;
	} who = {
		.net = net_hash_mix(net),
		.family = to->ss_family,
		.uid = __kuid_val(uid),
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
 * @uid: of whoever would ask
 *
 * Return: &enum l5_reason, L5_REASON_NONE if nothing is known against asking.
 */
u8 l5_memo_look(const struct net *net, const struct sockaddr_storage *to,
		kuid_t uid)
{
	u64 who = l5_memo_who(net, to, uid);
	struct l5_memo *m = &l5_memos[hash_64(who, L5_MEMO_BITS)];
	u8 reason = L5_REASON_NONE;

	spin_lock_bh(&l5_memo_lock);
	if (m->who == who && time_before(jiffies, m->until))
		reason = m->reason;
	spin_unlock_bh(&l5_memo_lock);
	return reason;
}

/* How long not to ask again; what is known of @m is of the same outcome. */
static void l5_memo_again(struct l5_memo *m, const struct l5_rdma *rd,
			  unsigned long max)
{
	/* one of several that were asked before anything was known */
	if (time_before(rd->since, m->since))
		return;
	m->since = jiffies;
	/* nobody wanted to know for long */
	if (time_after(jiffies, m->until + max))
		m->delay = 0;
	m->delay = clamp_t(unsigned long, 2 * m->delay, L5_MEMO_FIRST, max);
}

/**
 * l5_memo_keep() - remember what came of a question
 * @rd: who asked
 * @net: from there
 * @reason: &enum l5_reason
 *
 * For at most net.l5.rdma_memo_s, see the top of this file.
 */
void l5_memo_keep(struct l5_rdma *rd, const struct net *net, u8 reason)
{
	unsigned long max = READ_ONCE(rd->ln->rdma_memo_s) * (unsigned long)HZ;
	u64 who = l5_memo_who(net, &rd->dst, rd->uid);
	struct l5_memo *m = &l5_memos[hash_64(who, L5_MEMO_BITS)];

	if (!max)
		return;
	spin_lock_bh(&l5_memo_lock);
	if (m->who != who || m->reason != reason) {
		memset(m, 0, sizeof(*m));
		m->who = who;
		m->reason = reason;
		m->since = rd->since;
		m->until = jiffies;
	}
	l5_memo_again(m, rd, max);
	m->until = jiffies + m->delay;
	spin_unlock_bh(&l5_memo_lock);
}

/**
 * l5_memo_drop() - a destination answered a question, and well
 * @rd: who asked
 * @net: from there
 */
void l5_memo_drop(const struct l5_rdma *rd, const struct net *net)
{
	u64 who = l5_memo_who(net, &rd->dst, rd->uid);
	struct l5_memo *m = &l5_memos[hash_64(who, L5_MEMO_BITS)];

	spin_lock_bh(&l5_memo_lock);
	if (m->who == who)
		memset(m, 0, sizeof(*m));
	spin_unlock_bh(&l5_memo_lock);
}
