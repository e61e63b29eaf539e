// SPDX-License-Identifier: GPL-2.0
/*
 * What an administrator does by "ss -K": the bootstrap is ended from outside.
 */
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "exec.h"

struct request {
	struct nlmsghdr h;
	struct inet_diag_req_v2 r;
};

static bool name(const struct sockaddr_storage *at, __be16 *port, __be32 *host)
{
	const struct sockaddr_in6 *in6 = (const void *)at;
	const struct sockaddr_in *in = (const void *)at;

	switch (at->ss_family) {
	case AF_INET:
		*port = in->sin_port;
		memcpy(host, &in->sin_addr, 4);
		return true;
	case AF_INET6:
		*port = in6->sin6_port;
		memcpy(host, &in6->sin6_addr, 16);
		return true;
	default:
		return false;
	}
}

static bool fill(struct request *q, int fd)
{
	struct sockaddr_storage at;
	socklen_t len = sizeof(at);

	memset(q, 0, sizeof(*q));
	q->h.nlmsg_len = sizeof(*q);
	q->h.nlmsg_type = SOCK_DESTROY;
	q->h.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
	q->r.sdiag_protocol = IPPROTO_TCP;
	q->r.id.idiag_cookie[0] = INET_DIAG_NOCOOKIE;
	q->r.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
	if (getsockname(fd, (void *)&at, &len) ||
	    !name(&at, &q->r.id.idiag_sport, q->r.id.idiag_src))
		return false;
	q->r.sdiag_family = at.ss_family;
	len = sizeof(at);
	/* a listener has no peer */
	if (!getpeername(fd, (void *)&at, &len))
		name(&at, &q->r.id.idiag_dport, q->r.id.idiag_dst);
	return true;
}

FZ_DO(destroy)
{
	struct {
		struct nlmsghdr h;
		struct nlmsgerr e;
		char more[512];
	} answer = { .e.error = -EIO };
	struct request q;
	int nl;

	if (!fill(&q, fz_fd(c->s)))
		return -ENOTCONN;
	nl = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	if (nl < 0)
		return -errno;
	if (send(nl, &q, sizeof(q), 0) == sizeof(q))
		recv(nl, &answer, sizeof(answer), MSG_DONTWAIT);
	close(nl);
	return answer.e.error;
}
