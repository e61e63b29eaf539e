// SPDX-License-Identifier: GPL-2.0
/* Options: every number of every level, values, and what children inherit. */
#define DIFF	diff_opts
#include "diff.h"
#include <linux/errqueue.h>

#include <sys/time.h>

#ifndef IP_PROTOCOL
#define IP_PROTOCOL	52
#endif
#ifndef SO_PASSPIDFD
#define SO_PASSPIDFD	76
#endif
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD	77
#endif
#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS	83
#endif
#ifndef SO_INQ
#define SO_INQ		84
#endif

static unsigned char buf[512];

/* Options whose value is of this moment: only length and result compare. */
static bool volatile_value(int level, int opt)
{
	return (level == SOL_SOCKET &&
		(opt == SO_PEERCRED || opt == SO_MEMINFO ||
		 opt == SO_INCOMING_CPU || opt == SO_COOKIE ||
		 opt == SO_INCOMING_NAPI_ID || opt == SO_PEERGROUPS ||
		 opt == SO_NETNS_COOKIE || opt == SO_PEERSEC ||
		 opt == SO_PEERNAME)) ||
	       (level == IPPROTO_IP && opt == IP_PROTOCOL) ||
	       (level == IPPROTO_TCP &&
		(opt == TCP_INFO || opt == TCP_CC_INFO ||
		 opt == TCP_TIMESTAMP || opt == TCP_QUEUE_SEQ));
}

static void get_all(struct ctx *c, const char *who, int fd, int level,
		    int max)
{
	static const int lens[] = { 256, 4, 1, 0, -1 };
	char label[100];
	unsigned int i;
	socklen_t len;
	int opt, n;

	for (opt = 0; opt <= max; opt++) {
		/* Makes a new descriptor of the peer, any process. */
		if (level == SOL_SOCKET && opt == SO_PEERPIDFD)
			continue;
		/* It reads a buffer of the caller's. */
		if (level == IPPROTO_TCP && opt == TCP_ZEROCOPY_RECEIVE)
			continue;
		for (i = 0; i < ARRAY_SIZE(lens); i++) {
			len = lens[i];
			memset(buf, 0, sizeof(buf));
			errno = 0;
			n = getsockopt(fd, level, opt, buf, &len);
			snprintf(label, sizeof(label),
				 "getsockopt %s level %d option %d length %d",
				 who, level, opt, lens[i]);
			if (n < 0)
				log_ret(c, label, n);
			else if (volatile_value(level, opt))
				V(label, "length %u", len);
			else
				V(label, "length %u %02x%02x%02x%02x #%llx",
				  len, buf[0], buf[1], buf[2], buf[3],
				  (unsigned long long)l5_hash(0, buf, 256));
			/* What security modules keep, one end may know. */
			if (n < 0 && errno == ENOPROTOOPT &&
			    (level != SOL_SOCKET || opt != SO_PEERSEC))
				break;
		}
	}
}

SCENARIO(get_socket_level)
{
	int s = cl_socket(c, 0), l = listener(c, 4);

	get_all(c, "fresh", s, SOL_SOCKET, 85);
	get_all(c, "listener", l, SOL_SOCKET, 85);
	pair_on(c, l);
	get_all(c, "connected", c->a, SOL_SOCKET, 85);
	get_all(c, "accepted", c->b, SOL_SOCKET, 85);
}

SCENARIO(get_tcp_level)
{
	int s = cl_socket(c, 0), l = listener(c, 4);

	get_all(c, "fresh", s, IPPROTO_TCP, 45);
	get_all(c, "listener", l, IPPROTO_TCP, 45);
	pair_on(c, l);
	get_all(c, "connected", c->a, IPPROTO_TCP, 45);
	get_all(c, "accepted", c->b, IPPROTO_TCP, 45);
}

SCENARIO(get_ip_level)
{
	int s = cl_socket(c, 0), l = listener(c, 4);

	get_all(c, "fresh", s, IPPROTO_IP, 80);
	get_all(c, "listener", l, IPPROTO_IP, 80);
	pair_on(c, l);
	get_all(c, "connected", c->a, IPPROTO_IP, 80);
	get_all(c, "accepted", c->b, IPPROTO_IP, 80);
}

SCENARIO(get_ipv6_level)
{
	int s = cl_socket(c, 0), l = listener(c, 4);

	get_all(c, "fresh", s, IPPROTO_IPV6, 80);
	pair_on(c, l);
	get_all(c, "connected", c->a, IPPROTO_IPV6, 80);
	get_all(c, "accepted", c->b, IPPROTO_IPV6, 80);
}

SCENARIO(get_other_levels)
{
	static const int levels[] = {
		2, IPPROTO_UDP, IPPROTO_ICMP, 132, 255, 263, 270, 271, 276,
		281, 282, 283, 284, -1, 0x7fffffff,
	};
	unsigned int i, j;
	socklen_t len;
	int v = 1;

	pair(c);
	for (i = 0; i < ARRAY_SIZE(levels); i++)
		for (j = 0; j < 4; j++) {
			len = sizeof(v);
			R(getsockopt(c->a, levels[i], j, &v, &len));
			v = 1;
			R(setsockopt(c->a, levels[i], j, &v, sizeof(v)));
		}
}

struct setting {
	int level;
	int opt;
	int value;
};

static const struct setting settings[] = {
	{ SOL_SOCKET, SO_DEBUG, 0 }, { SOL_SOCKET, SO_REUSEADDR, 1 },
	{ SOL_SOCKET, SO_REUSEADDR, 0 }, { SOL_SOCKET, SO_REUSEADDR, 7 },
	{ SOL_SOCKET, SO_TYPE, 1 }, { SOL_SOCKET, SO_ERROR, 1 },
	{ SOL_SOCKET, SO_DONTROUTE, 1 }, { SOL_SOCKET, SO_DONTROUTE, 0 },
	{ SOL_SOCKET, SO_BROADCAST, 1 }, { SOL_SOCKET, SO_SNDBUF, 0 },
	{ SOL_SOCKET, SO_SNDBUF, 10000 }, { SOL_SOCKET, SO_SNDBUF, -1 },
	{ SOL_SOCKET, SO_SNDBUF, 1 << 30 }, { SOL_SOCKET, SO_RCVBUF, 0 },
	{ SOL_SOCKET, SO_RCVBUF, 10000 }, { SOL_SOCKET, SO_RCVBUF, -1 },
	{ SOL_SOCKET, SO_RCVBUF, 1 << 30 },
	{ SOL_SOCKET, SO_SNDBUFFORCE, 1 << 24 },
	{ SOL_SOCKET, SO_RCVBUFFORCE, 1 << 24 },
	{ SOL_SOCKET, SO_KEEPALIVE, 1 }, { SOL_SOCKET, SO_KEEPALIVE, 0 },
	{ SOL_SOCKET, SO_OOBINLINE, 1 }, { SOL_SOCKET, SO_NO_CHECK, 1 },
	{ SOL_SOCKET, SO_PRIORITY, 3 }, { SOL_SOCKET, SO_PRIORITY, 99 },
	{ SOL_SOCKET, SO_REUSEPORT, 1 }, { SOL_SOCKET, SO_PASSCRED, 1 },
	{ SOL_SOCKET, SO_PASSCRED, 0 }, { SOL_SOCKET, SO_PASSPIDFD, 1 },
	{ SOL_SOCKET, SO_PASSPIDFD, 0 }, { SOL_SOCKET, SO_PASSRIGHTS, 0 },
	{ SOL_SOCKET, SO_PASSRIGHTS, 1 }, { SOL_SOCKET, SO_INQ, 1 },
	{ SOL_SOCKET, SO_PEERCRED, 1 },
	{ SOL_SOCKET, SO_RCVLOWAT, 0 }, { SOL_SOCKET, SO_RCVLOWAT, 100 },
	{ SOL_SOCKET, SO_RCVLOWAT, -5 }, { SOL_SOCKET, SO_RCVLOWAT, 1 },
	{ SOL_SOCKET, SO_SNDLOWAT, 1 }, { SOL_SOCKET, SO_TIMESTAMP, 1 },
	{ SOL_SOCKET, SO_TIMESTAMP, 0 }, { SOL_SOCKET, SO_TIMESTAMPNS, 1 },
	{ SOL_SOCKET, SO_TIMESTAMPNS, 0 }, { SOL_SOCKET, SO_PASSSEC, 0 },
	{ SOL_SOCKET, SO_MARK, 5 }, { SOL_SOCKET, SO_RXQ_OVFL, 1 },
	{ SOL_SOCKET, SO_WIFI_STATUS, 1 }, { SOL_SOCKET, SO_PEEK_OFF, -1 },
	{ SOL_SOCKET, SO_NOFCS, 1 }, { SOL_SOCKET, SO_LOCK_FILTER, 0 },
	{ SOL_SOCKET, SO_SELECT_ERR_QUEUE, 1 },
	{ SOL_SOCKET, SO_BUSY_POLL, 50 }, { SOL_SOCKET, SO_BUSY_POLL, -1 },
	{ SOL_SOCKET, SO_BUSY_POLL, 0 },
	{ SOL_SOCKET, SO_MAX_PACING_RATE, 1000000000 },
	{ SOL_SOCKET, SO_INCOMING_CPU, 0 }, { SOL_SOCKET, SO_DETACH_FILTER, 0 },
	{ SOL_SOCKET, SO_BUF_LOCK, 3 }, { SOL_SOCKET, SO_BUF_LOCK, 99 },
	{ SOL_SOCKET, SO_PREFER_BUSY_POLL, 1 },
	{ SOL_SOCKET, SO_TXREHASH, 1 }, { SOL_SOCKET, SO_ACCEPTCONN, 1 },
	{ SOL_SOCKET, SO_PROTOCOL, 6 }, { SOL_SOCKET, SO_DOMAIN, 2 },
	{ SOL_SOCKET, 0, 1 }, { SOL_SOCKET, 1000, 1 },
	{ IPPROTO_TCP, TCP_NODELAY, 1 }, { IPPROTO_TCP, TCP_NODELAY, 0 },
	{ IPPROTO_TCP, TCP_MAXSEG, 1000 }, { IPPROTO_TCP, TCP_MAXSEG, 1 },
	{ IPPROTO_TCP, TCP_CORK, 1 }, { IPPROTO_TCP, TCP_CORK, 0 },
	{ IPPROTO_TCP, TCP_KEEPIDLE, 77 }, { IPPROTO_TCP, TCP_KEEPIDLE, 0 },
	{ IPPROTO_TCP, TCP_KEEPINTVL, 7 }, { IPPROTO_TCP, TCP_KEEPINTVL, -1 },
	{ IPPROTO_TCP, TCP_KEEPCNT, 3 }, { IPPROTO_TCP, TCP_KEEPCNT, 999 },
	{ IPPROTO_TCP, TCP_SYNCNT, 3 }, { IPPROTO_TCP, TCP_SYNCNT, 0 },
	{ IPPROTO_TCP, TCP_LINGER2, 5 }, { IPPROTO_TCP, TCP_LINGER2, -1 },
	{ IPPROTO_TCP, TCP_DEFER_ACCEPT, 3 },
	{ IPPROTO_TCP, TCP_WINDOW_CLAMP, 30000 },
	{ IPPROTO_TCP, TCP_INFO, 1 }, { IPPROTO_TCP, TCP_QUICKACK, 0 },
	{ IPPROTO_TCP, TCP_QUICKACK, 1 }, { IPPROTO_TCP, TCP_MD5SIG, 1 },
	{ IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, 1 },
	{ IPPROTO_TCP, TCP_USER_TIMEOUT, 5000 },
	{ IPPROTO_TCP, TCP_USER_TIMEOUT, -1 },
	{ IPPROTO_TCP, TCP_FASTOPEN, 5 }, { IPPROTO_TCP, TCP_TIMESTAMP, 1 },
	{ IPPROTO_TCP, TCP_NOTSENT_LOWAT, 4096 },
	{ IPPROTO_TCP, TCP_SAVE_SYN, 1 }, { IPPROTO_TCP, TCP_SAVED_SYN, 1 },
	{ IPPROTO_TCP, TCP_INQ, 1 }, { IPPROTO_TCP, TCP_INQ, 0 },
	{ IPPROTO_TCP, TCP_INQ, 2 },
	{ IPPROTO_TCP, TCP_TX_DELAY, 0 }, { IPPROTO_TCP, 0, 1 },
	{ IPPROTO_TCP, 99, 1 },
	{ IPPROTO_IP, IP_TOS, 0x10 }, { IPPROTO_IP, IP_TOS, 0x1ff },
	{ IPPROTO_IP, IP_TTL, 33 }, { IPPROTO_IP, IP_TTL, 0 },
	{ IPPROTO_IP, IP_TTL, 256 }, { IPPROTO_IP, IP_HDRINCL, 1 },
	{ IPPROTO_IP, IP_RECVERR, 1 }, { IPPROTO_IP, IP_RECVERR, 0 },
	{ IPPROTO_IP, IP_MTU_DISCOVER, 2 }, { IPPROTO_IP, IP_PKTINFO, 1 },
	{ IPPROTO_IP, IP_PKTINFO, 0 }, { IPPROTO_IP, IP_FREEBIND, 1 },
	{ IPPROTO_IP, IP_TRANSPARENT, 1 },
	{ IPPROTO_IP, IP_MINTTL, 10 }, { IPPROTO_IP, IP_MINTTL, 0 },
	{ IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1 },
	{ IPPROTO_IP, IP_MULTICAST_TTL, 3 }, { IPPROTO_IP, 100, 1 },
	{ IPPROTO_IPV6, IPV6_V6ONLY, 1 }, { IPPROTO_IPV6, IPV6_V6ONLY, 0 },
	{ IPPROTO_IPV6, IPV6_UNICAST_HOPS, 44 },
	{ IPPROTO_IPV6, IPV6_TCLASS, 0x20 },
	{ IPPROTO_IPV6, IPV6_RECVPKTINFO, 1 },
	{ IPPROTO_IPV6, IPV6_RECVERR, 1 },
	{ IPPROTO_IPV6, IPV6_AUTOFLOWLABEL, 1 },
	{ IPPROTO_IPV6, IPV6_DONTFRAG, 1 }, { IPPROTO_IPV6, 200, 1 },
};

static void set_one(struct ctx *c, const char *who, int fd,
		    const struct setting *s)
{
	char label[100];
	int v = s->value;
	socklen_t len;

	snprintf(label, sizeof(label), "setsockopt %s %d %d to %d", who,
		 s->level, s->opt, s->value);
	errno = 0;
	log_ret(c, label, setsockopt(fd, s->level, s->opt, &v, sizeof(v)));
	snprintf(label, sizeof(label), "then getsockopt %s %d %d", who,
		 s->level, s->opt);
	if (volatile_value(s->level, s->opt))
		return;
	memset(buf, 0, sizeof(buf));
	len = 64;
	errno = 0;
	if (getsockopt(fd, s->level, s->opt, buf, &len))
		log_ret(c, label, -1);
	else
		V(label, "length %u #%llx %d", len,
		  (unsigned long long)l5_hash(0, buf, 64), *(int *)buf);
}

#define SETTINGS (ARRAY_SIZE(settings))

SCENARIO(set_fresh)
{
	unsigned int i;

	for (i = 0; i < SETTINGS; i++)
		set_one(c, "fresh", cl_socket(c, SOCK_CLOEXEC), &settings[i]);
}

SCENARIO(set_connected)
{
	unsigned int i;

	pair(c);
	for (i = 0; i < SETTINGS; i++)
		set_one(c, "connected", c->a, &settings[i]);
	/* It still works after all that. */
	R(send(c->a, "x", 1, MSG_NOSIGNAL));
	R(recv(c->b, buf, 9, 0));
	R(send(c->b, "x", 1, MSG_NOSIGNAL));
	R(recv(c->a, buf, 9, 0));
}

/* Is the receiver told who sent? Kernels before 6.5 know no SO_PASSPIDFD. */
static bool passes_sender(int fd, const struct setting *x)
{
	socklen_t len = sizeof(int);
	int on = 0;

	return x->level == SOL_SOCKET &&
	       (x->opt == SO_PASSCRED || x->opt == SO_PASSPIDFD) &&
	       !getsockopt(fd, SOL_SOCKET, x->opt, &on, &len) && on;
}

/* Are packets to have times? Rings have no packets. */
static bool wants_stamps(const struct setting *x)
{
	if (x->level != SOL_SOCKET || !x->value)
		return false;
	switch (x->opt) {
	case SO_TIMESTAMP:
	case SO_TIMESTAMPNS:
	case SO_TIMESTAMPING:
	case SO_TXTIME:
	case SO_TIMESTAMP_NEW:
	case SO_TIMESTAMPNS_NEW:
	case SO_TIMESTAMPING_NEW:
		return true;
	default:
		return false;
	}
}

/* One at a time, so that each has all of a fresh connection to spoil. */
static void each_before_connect(struct ctx *c, bool client)
{
	static const struct setting skip[] = {
		/* These make a connection different by intent. */
		{ IPPROTO_TCP, TCP_DEFER_ACCEPT, 3 },
		{ IPPROTO_IP, IP_TTL, 0 }, { SOL_SOCKET, SO_RCVLOWAT, 100 },
		{ SOL_SOCKET, SO_RCVLOWAT, -5 },
		{ IPPROTO_IP, IP_TRANSPARENT, 1 },
		{ IPPROTO_TCP, TCP_MD5SIG, 1 },
	};
	const struct variant *normal = c->v;
	struct variant base = *c->v;
	unsigned int i, j;
	int s, l, a;
	bool bare;

	base.transport = L5_TRANSPORT_BASE;
	for (i = 0; i < SETTINGS; i++) {
		const struct setting *x = &settings[i];
		char label[100];

		for (j = 0; j < ARRAY_SIZE(skip); j++)
			if (x->level == skip[j].level &&
			    x->opt == skip[j].opt &&
			    x->value == skip[j].value)
				break;
		/* Below the library this one keeps an AF_UNIX connection. */
		if (is_full() && is_unix(c) && x->level == SOL_SOCKET &&
		    x->opt == SO_PEEK_OFF)
			continue;
		if (j < ARRAY_SIZE(skip))
			continue;
		s = cl_socket(c, SOCK_CLOEXEC);
		l = sv_socket(c, SOCK_CLOEXEC);
		setsockopt(client ? s : l, x->level, x->opt, &x->value,
			   sizeof(x->value));
		addr_new(c, &c->la);
		OK(bind(l, SA(&c->la), c->la.len));
		OK(listen(l, 2));
		addr_of(l, &c->la);
		snprintf(label, sizeof(label), "connect with %d %d = %d",
			 x->level, x->opt, x->value);
		errno = 0;
		log_ret(c, label, connect(s, SA(&c->la), c->la.len));
		a = OK(accept(l, NULL, NULL));
		/* A ring does not say who wrote, or when: it is not used. */
		if (is_unix(c))
			bare = passes_sender(client ? s : l, x);
		else
			bare = wants_stamps(x);
		c->v = bare ? &base : normal;
		check_transport(c, s, false);
		check_transport(c, a, true);
		c->v = normal;
		set_one(c, "kept", client ? s : a, x);
		/* As a pipe it works. */
		if (send(s, "abc", 3, MSG_NOSIGNAL) != 3 ||
		    recv(a, buf, 9, 0) != 3 ||
		    send(a, "de", 2, MSG_NOSIGNAL) != 2 ||
		    recv(s, buf, 9, 0) != 2)
			V(label, "does not carry");
		close(s);
		close(l);
		close(a);
	}
}

SCENARIO(set_before_connect)
{
	each_before_connect(c, true);
}

SCENARIO(set_before_listen)
{
	each_before_connect(c, false);
}

/* What the listener has, the accepted socket has. */
SCENARIO(inherited)
{
	static const struct setting in[] = {
		{ SOL_SOCKET, SO_KEEPALIVE, 1 },
		{ SOL_SOCKET, SO_SNDBUF, 50000 },
		{ SOL_SOCKET, SO_RCVBUF, 60000 },
		{ SOL_SOCKET, SO_PRIORITY, 2 },
		{ SOL_SOCKET, SO_MARK, 9 }, { SOL_SOCKET, SO_OOBINLINE, 1 },
		{ SOL_SOCKET, SO_BUSY_POLL, 5 },
		{ SOL_SOCKET, SO_REUSEADDR, 1 },
		{ SOL_SOCKET, SO_PASSCRED, 1 }, { SOL_SOCKET, SO_RCVLOWAT, 2 },
		{ IPPROTO_TCP, TCP_NODELAY, 1 },
		{ IPPROTO_TCP, TCP_KEEPIDLE, 55 },
		{ IPPROTO_TCP, TCP_KEEPCNT, 4 },
		{ IPPROTO_TCP, TCP_USER_TIMEOUT, 1234 },
		{ IPPROTO_TCP, TCP_NOTSENT_LOWAT, 777 },
		{ IPPROTO_IP, IP_TOS, 0x20 }, { IPPROTO_IP, IP_TTL, 55 },
	};
	struct linger lg = { 1, 3 };
	struct timeval tv = { 3, 0 };
	unsigned int i;
	socklen_t len;
	char label[64];
	int l, v;

	l = sv_socket(c, 0);
	for (i = 0; i < ARRAY_SIZE(in); i++)
		setsockopt(l, in[i].level, in[i].opt, &in[i].value,
			   sizeof(int));
	OK(setsockopt(l, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg)));
	OK(setsockopt(l, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
	addr_new(c, &c->la);
	OK(bind(l, SA(&c->la), c->la.len));
	OK(listen(l, 4));
	addr_of(l, &c->la);
	c->a = OK(cl_socket(c, 0));
	OK(connect(c->a, SA(&c->la), c->la.len));
	c->b = OK(accept(l, NULL, NULL));
	for (i = 0; i < ARRAY_SIZE(in); i++) {
		len = sizeof(v);
		v = -1;
		snprintf(label, sizeof(label), "child's %d %d", in[i].level,
			 in[i].opt);
		if (getsockopt(c->b, in[i].level, in[i].opt, &v, &len))
			log_ret(c, label, -1);
		else
			V(label, "%d", v);
	}
	memset(&lg, 0, sizeof(lg));
	len = sizeof(lg);
	R(getsockopt(c->b, SOL_SOCKET, SO_LINGER, &lg, &len));
	N(lg.l_onoff);
	memset(&tv, 0, sizeof(tv));
	len = sizeof(tv);
	R(getsockopt(c->b, SOL_SOCKET, SO_RCVTIMEO, &tv, &len));
	N(tv.tv_sec);
}

SCENARIO(set_lengths)
{
	static const struct { int level, opt; } o[] = {
		{ SOL_SOCKET, SO_KEEPALIVE }, { SOL_SOCKET, SO_RCVBUF },
		{ SOL_SOCKET, SO_LINGER }, { SOL_SOCKET, SO_RCVTIMEO },
		{ IPPROTO_TCP, TCP_NODELAY }, { IPPROTO_TCP, TCP_CONGESTION },
		{ IPPROTO_IP, IP_TOS }, { IPPROTO_IPV6, IPV6_V6ONLY },
		{ SOL_SOCKET, SO_BINDTODEVICE }, { SOL_SOCKET, SO_PRIORITY },
	};
	static const int lens[] = { 0, 1, 3, 4, 5, 8, 15, 16, 17, 256, -1 };
	unsigned int i, j;

	pair(c);
	for (i = 0; i < ARRAY_SIZE(o); i++) {
		V("option", "%d %d", o[i].level, o[i].opt);
		for (j = 0; j < ARRAY_SIZE(lens); j++) {
			memset(buf, 0, sizeof(buf));
			R(setsockopt(c->a, o[i].level, o[i].opt, buf,
				     lens[j]));
		}
		R(setsockopt(c->a, o[i].level, o[i].opt, NULL, 4));
		R(setsockopt(c->a, o[i].level, o[i].opt, bad_pointer(), 16));
		R(getsockopt(c->a, o[i].level, o[i].opt, buf, NULL));
		R(getsockopt(c->a, o[i].level, o[i].opt, buf, bad_pointer()));
		R(getsockopt(c->a, o[i].level, o[i].opt, bad_pointer(),
			     &(socklen_t){ 4 }));
	}
}

SCENARIO(timeouts)
{
	static const struct timeval v[] = {
		{ 0, 0 }, { 1, 0 }, { 0, 1 }, { 0, 999999 }, { 0, 1000000 },
		{ -1, 0 }, { 1, -1 }, { 100000000, 0 }, { 5, 500000 },
	};
	struct timeval tv;
	unsigned int i;
	socklen_t len;

	pair(c);
	for (i = 0; i < ARRAY_SIZE(v); i++) {
		R(setsockopt(c->a, SOL_SOCKET, SO_RCVTIMEO, &v[i],
			     sizeof(v[i])));
		len = sizeof(tv);
		R(getsockopt(c->a, SOL_SOCKET, SO_RCVTIMEO, &tv, &len));
		N(tv.tv_sec);
		N(tv.tv_usec);
		R(setsockopt(c->a, SOL_SOCKET, SO_SNDTIMEO, &v[i],
			     sizeof(v[i])));
		R(getsockopt(c->a, SOL_SOCKET, SO_SNDTIMEO, &tv, &len));
		N(tv.tv_sec);
		N(tv.tv_usec);
	}
}

SCENARIO(strings)
{
	static const char *const cc[] = {
		"reno", "cubic", "nonesuch", "", "averylongnamethatisnone",
	};
	static const char *const dev[] = { "lo", "nonesuch", "" };
	unsigned int i;
	socklen_t len;

	c->a = cl_socket(c, 0);
	for (i = 0; i < 5; i++) {
		R(setsockopt(c->a, IPPROTO_TCP, TCP_CONGESTION, cc[i],
			     strlen(cc[i])));
		memset(buf, 0, sizeof(buf));
		len = 64;
		R(getsockopt(c->a, IPPROTO_TCP, TCP_CONGESTION, buf, &len));
		V("congestion control", "%s %u", buf, len);
	}
	for (i = 0; i < 3; i++) {
		R(setsockopt(c->a, SOL_SOCKET, SO_BINDTODEVICE, dev[i],
			     strlen(dev[i]) + 1));
		memset(buf, 0, sizeof(buf));
		len = 64;
		R(getsockopt(c->a, SOL_SOCKET, SO_BINDTODEVICE, buf, &len));
		V("device", "%s %u", buf, len);
	}
}

SCENARIO(peercred)
{
	struct ucred u = { 0 };
	socklen_t len = sizeof(u);
	int s = cl_socket(c, 0), l = listener(c, 4);

	R(getsockopt(s, SOL_SOCKET, SO_PEERCRED, &u, &len));
	V("fresh", "%d %d %d", u.pid, (int)u.uid, (int)u.gid);
	R(getsockopt(l, SOL_SOCKET, SO_PEERCRED, &u, &len));
	V("listener", "%d %d", u.pid == getpid(), (int)u.uid);
	pair_on(c, l);
	R(getsockopt(c->a, SOL_SOCKET, SO_PEERCRED, &u, &len));
	V("a", "%d %d %d", u.pid == getpid() ? -1 : u.pid, (int)u.uid,
	  (int)u.gid);
	R(getsockopt(c->b, SOL_SOCKET, SO_PEERCRED, &u, &len));
	V("b", "%d %d %d", u.pid == getpid() ? -1 : u.pid, (int)u.uid,
	  (int)u.gid);
}

SCENARIO(acceptconn_and_type)
{
	int s = cl_socket(c, 0), l = listener(c, 4), v;
	socklen_t len = sizeof(v);

#define ASK(fd, opt) do {						\
	v = -1;								\
	R(getsockopt(fd, SOL_SOCKET, opt, &v, &len));			\
	V(#opt " of " #fd, "%d", v);					\
} while (0)
	ASK(s, SO_ACCEPTCONN);
	ASK(l, SO_ACCEPTCONN);
	ASK(s, SO_TYPE);
	ASK(s, SO_DOMAIN);
	ASK(s, SO_PROTOCOL);
	pair_on(c, l);
	ASK(c->a, SO_ACCEPTCONN);
	ASK(c->b, SO_ACCEPTCONN);
	ASK(c->a, SO_DOMAIN);
	ASK(c->b, SO_DOMAIN);
	ASK(c->b, SO_PROTOCOL);
	OK(shutdown(l, SHUT_RDWR));
	ASK(l, SO_ACCEPTCONN);
}

SCENARIO_ON(tcp, info)
{
	struct tcp_info ti;
	socklen_t len;
	int s = cl_socket(c, 0), l = listener(c, 4);

#define STATE(fd) do {							\
	memset(&ti, 0, sizeof(ti));					\
	len = sizeof(ti);						\
	R(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &ti, &len));		\
	N(ti.tcpi_state);						\
} while (0)
	STATE(s);
	STATE(l);
	pair_on(c, l);
	STATE(c->a);
	STATE(c->b);
	OK(shutdown(c->a, SHUT_WR));
	P(c->b, POLLRDHUP);
	settle(c);
	STATE(c->b);
	OK(shutdown(c->b, SHUT_WR));
	P(c->b, POLLHUP);
	settle(c);
	STATE(c->b);
}

SCENARIO_ON(tcp, cork)
{
	int on = 1, off = 0, n;

	pair(c);
	R(setsockopt(c->a, IPPROTO_TCP, TCP_CORK, &on, sizeof(on)));
	R(send(c->a, "abc", 3, 0));
	R(send(c->a, "def", 3, 0));
	R(setsockopt(c->a, IPPROTO_TCP, TCP_CORK, &off, sizeof(off)));
	await(c->b, 6);
	n = R(recv(c->b, buf, 9, 0));
	D(buf, n);
	R(setsockopt(c->a, IPPROTO_TCP, TCP_CORK, &on, sizeof(on)));
	R(send(c->a, "late", 4, 0));
	settle(c);
	n = -1;
	OK(ioctl(c->b, FIONREAD, &n));
	V("seen of what TCP_CORK keeps", "%d", n);
	P(c->b, POLLIN);
	n = R(recv(c->b, buf, 9, 0));
	D(buf, n);
}

/* The next notification: its sends, and what it says of them. */
static void notified(struct ctx *c, int fd)
{
	union {
		struct cmsghdr align;
		char buf[256];
	} u;
	struct msghdr m = {
		.msg_control = u.buf, .msg_controllen = sizeof(u.buf)
	};
	struct sock_extended_err *e;

	if (R(recvmsg(fd, &m, MSG_ERRQUEUE | MSG_DONTWAIT)) < 0 ||
	    !CMSG_FIRSTHDR(&m))
		return;
	e = (void *)CMSG_DATA(CMSG_FIRSTHDR(&m));
	V("notified", "errno %u origin %u code %u from %u to %u", e->ee_errno,
	  e->ee_origin, e->ee_code, e->ee_info, e->ee_data);
}

/* MSG_ZEROCOPY with its option: the data arrives, notified of or not. */
SCENARIO_ON(tcp, zerocopy_option)
{
	int s = cl_socket(c, 0), l = listener(c, 4), one = 1, a, n;

	R(setsockopt(s, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof(one)));
	R(connect(s, SA(&c->la), c->la.len));
	a = OK(accept(l, NULL, NULL));
	R(send(s, "abc", 3, MSG_ZEROCOPY));
	await(a, 3);
	n = R(recv(a, buf, 9, 0));
	D(buf, n);
	P(s, POLLERR);
	notified(c, s);
	/* bytes that did not go are not notified of */
	OK(shutdown(s, SHUT_WR));
	R(send(s, "abc", 3, MSG_ZEROCOPY | MSG_NOSIGNAL));
	notified(c, s);
}

TEST_HARNESS_MAIN
