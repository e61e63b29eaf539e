// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5 between hosts: the seal and the token, all that a question and its
 * answer show of the secret.
 *
 * Any user of a host may listen with rdma_cm on a port where no other program
 * does, or ask there. The user's program sees whatever is sent to it, and may
 * send it on. So a hello carries a seal: a MAC, keyed by the secret of the TCP
 * connection, over all that the hello says, the addresses of that connection,
 * the direction and the queue pair numbers, which the connection managers tell
 * each other themselves. A hello that another program sends on comes from
 * another queue pair, and its seal is broken; a program without the secret
 * cannot make a new seal.
 *
 * The token finds the connection that is meant and proves nothing.
 *
 * The secret has no more than the 64 bits of both initial sequence numbers. A
 * host that sees the packets of the TCP connection knows these numbers; but it
 * could read the bytes there as well.
 */
#include <linux/siphash.h>
#include <net/ipv6.h>

#include "rdma.h"

/**
 * struct l5_sealed - what a seal covers
 * @hello: the hello as it is sent, without its seal
 * @from_qpn: queue pair of the end that sends it
 * @to_qpn: queue pair of the other end, 0 in a question
 * @answer: whether @hello is an answer
 * @reserved: 0
 * @ends: of the TCP connection
 */
struct l5_sealed {
	struct l5_hello hello;
	u32 from_qpn;
	u32 to_qpn;
	u32 answer;
	u32 reserved;
	struct l5_ends ends;
};

static bool l5_addr_is(const struct sockaddr_storage *a,
		       const struct in6_addr *want)
{
	struct in6_addr mapped;

	if (a->ss_family == AF_INET6)
		return ipv6_addr_equal(&((struct sockaddr_in6 *)a)->sin6_addr,
				       want);
	if (a->ss_family != AF_INET)
		return false;
	ipv6_addr_set_v4mapped(((struct sockaddr_in *)a)->sin_addr.s_addr,
			       &mapped);
	return ipv6_addr_equal(&mapped, want);
}

/* Both families have the port in the same place. */
static __be16 l5_addr_port(const struct sockaddr_storage *a)
{
	return ((struct sockaddr_in *)a)->sin_port;
}

/**
 * l5_seal_way() - did a question come the way of the TCP connection?
 * @id: the cm id of the question
 * @ends: the addresses of the connection
 *
 * It did if it came to the address and port that the connection was accepted
 * at, from its client's address: so by a cm id of the connection's own
 * listener, and not by another's.
 */
bool l5_seal_way(const struct rdma_cm_id *id, const struct l5_ends *ends)
{
	const struct rdma_addr *a = &id->route.addr;

	return l5_addr_is(&a->src_addr, &ends->addr[L5_SERVER]) &&
	       l5_addr_port(&a->src_addr) == ends->port[L5_SERVER] &&
	       l5_addr_is(&a->dst_addr, &ends->addr[L5_CLIENT]);
}

/**
 * l5_token() - make the token by which a question is found without the secret
 * @key: the secret
 */
u64 l5_token(u64 key)
{
	static const siphash_key_t fixed = {
		.key = { 0x4c35524450524f4fULL, 0x4620302031323334ULL }
	};

	return siphash_1u64(key, &fixed);
}

static u64 l5_seal(const struct l5_rdma *rd, const struct l5_hello *hello,
		   bool answer, u32 from_qpn, u32 to_qpn)
{
	struct l5_sealed s = {
		.hello = *hello,
		.from_qpn = from_qpn,
		.to_qpn = to_qpn,
		.answer = answer,
		.ends = rd->ends,
	};
	const siphash_key_t key = { .key = { rd->far.key, ~rd->far.key } };

	/* nothing between its members that was not written */
	BUILD_BUG_ON(sizeof(s) != sizeof(s.hello) + 4 * sizeof(u32) +
		     sizeof(s.ends.addr) + sizeof(s.ends.port) + sizeof(u32));
	BUILD_BUG_ON(sizeof(s.hello) != 56);
	s.hello.seal = 0;
	return siphash(&s, sizeof(s), &key);
}

/**
 * l5_seal_make() - seal a hello that is about to be sent
 * @rd: of this end, with a queue pair
 * @hello: filled in but for the seal
 */
void l5_seal_make(struct l5_rdma *rd, struct l5_hello *hello)
{
	/* an answer may come when the queue pair is gone */
	rd->qpn = rd->id->qp->qp_num;
	hello->seal = l5_seal(rd, hello, l5_far_asked(&rd->far), rd->qpn,
			      l5_far_asked(&rd->far) ? rd->peer_qpn : 0);
}

/**
 * l5_seal_good() - did the peer say a hello, to this end, of this connection?
 * @rd: of this end, which knows the secret
 * @hello: the hello that came
 * @qpn: number of the queue pair that it came from
 */
bool l5_seal_good(const struct l5_rdma *rd, const struct l5_hello *hello,
		  u32 qpn)
{
	bool answer = rd->far.end != L5_SERVER;

	return hello->seal == l5_seal(rd, hello, answer, qpn,
				      answer ? rd->qpn : 0);
}
