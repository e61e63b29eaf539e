// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5 between hosts: the outcome of earlier questions, by destination and
 * user. The cache is lossy: an entry overwritten too early costs another
 * question. Entries are kept for each user: one user can keep a service from
 * answering, as by connections that the service does not accept, and for other
 * users it is to be asked all the same.
 *
 * One answer, or none, says little of the next hour: a packet was lost, a
 * service restarts. So the outcome is remembered for L5_CACHE_FIRST, and for
 * twice as long each time that the next question has the same outcome, up to
 * net.l5.rdma_memo_s. Questions that were asked at the same time count as one.
 * A connection that moves, or another answer, makes the time begin anew.
 */
#include <linux/hash.h>
#include <linux/siphash.h>
#include <net/ipv6.h>

#include "rdma.h"

#define L5_CACHE_BITS	8
#define L5_CACHE_FIRST	HZ

/**
 * struct l5_cm_cached - the outcome of questions to one destination
 * @who: number of the destination and the user, see l5_cm_cache_who()
 * @since: jiffies when @delay was last set
 * @until: jiffies when the destination may be asked again
 * @delay: jiffies for which it was not to be asked
 * @reason: &enum l5_reason, L5_REASON_NONE if the destination answered well
 */
struct l5_cm_cached {
	u64 who;
	unsigned long since;
	unsigned long until;
	unsigned long delay;
	u8 reason;
};

static struct l5_cm_cached l5_cm_cache[1 << L5_CACHE_BITS];
static DEFINE_SPINLOCK(l5_cm_cache_lock);

/**
 * l5_cm_cache_who() - make a number of a destination and a user
 * @net: the namespace that is asked from
 * @to: the destination
 * @uid: the user that asks
 */
u64 l5_cm_cache_who(const struct net *net, const struct sockaddr_storage *to,
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
 * l5_cm_cache_look() - find the outcome of the last question
 * @net: the namespace that is asked from
 * @to: the destination
 * @uid: the user that would ask
 *
 * Return: &enum l5_reason, L5_REASON_NONE if nothing is known against asking.
 */
u8 l5_cm_cache_look(const struct net *net, const struct sockaddr_storage *to,
		    kuid_t uid)
{
	u64 who = l5_cm_cache_who(net, to, uid);
	struct l5_cm_cached *m = &l5_cm_cache[hash_64(who, L5_CACHE_BITS)];
	u8 reason = L5_REASON_NONE;

	spin_lock_bh(&l5_cm_cache_lock);
	if (m->who == who && time_before(jiffies, m->until))
		reason = m->reason;
	spin_unlock_bh(&l5_cm_cache_lock);
	return reason;
}

/* How long not to ask again, when @m already has the same outcome. */
static void l5_cm_cache_again(struct l5_cm_cached *m, const struct l5_rdma *rd,
			      unsigned long max)
{
	/* one of several questions asked before any outcome was known */
	if (time_before(rd->since, m->since))
		return;
	m->since = jiffies;
	/* there was no question for long */
	if (time_after(jiffies, m->until + max))
		m->delay = 0;
	m->delay = clamp_t(unsigned long, 2 * m->delay, L5_CACHE_FIRST, max);
}

/**
 * l5_cm_cache_keep() - remember the outcome of a question
 * @rd: of the end that asked
 * @net: the namespace that is asked from
 * @reason: &enum l5_reason
 *
 * For at most net.l5.rdma_memo_s, see the top of this file.
 */
void l5_cm_cache_keep(struct l5_rdma *rd, const struct net *net, u8 reason)
{
	unsigned long max = READ_ONCE(rd->far.ln->rdma_memo_s) *
			    (unsigned long)HZ;
	u64 who = l5_cm_cache_who(net, &rd->dst, rd->uid);
	struct l5_cm_cached *m = &l5_cm_cache[hash_64(who, L5_CACHE_BITS)];

	if (!max)
		return;
	spin_lock_bh(&l5_cm_cache_lock);
	if (m->who != who || m->reason != reason) {
		memset(m, 0, sizeof(*m));
		m->who = who;
		m->reason = reason;
		m->since = rd->since;
		m->until = jiffies;
	}
	l5_cm_cache_again(m, rd, max);
	m->until = jiffies + m->delay;
	spin_unlock_bh(&l5_cm_cache_lock);
}

/**
 * l5_cm_cache_drop() - a destination answered a question well
 * @rd: of the end that asked
 * @net: the namespace that is asked from
 */
void l5_cm_cache_drop(const struct l5_rdma *rd, const struct net *net)
{
	u64 who = l5_cm_cache_who(net, &rd->dst, rd->uid);
	struct l5_cm_cached *m = &l5_cm_cache[hash_64(who, L5_CACHE_BITS)];

	spin_lock_bh(&l5_cm_cache_lock);
	if (m->who == who)
		memset(m, 0, sizeof(*m));
	spin_unlock_bh(&l5_cm_cache_lock);
}
