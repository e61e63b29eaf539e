// SPDX-License-Identifier: GPL-2.0
/* Sockets of step: made as they were asked for, connected, accepted, closed. */
#include <errno.h>
#include <fcntl.h>
#include <linux/xfrm.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/time.h>
#include <unistd.h>

#include "step.h"

static void half_init(struct half *h, uint64_t base, uint64_t seed)
{
	uint8_t *buf = h->buf ? h->buf : malloc(CHUNK_MAX);

	*h = (struct half){
		.base = base, .seed = seed | 1, .epoll = -1,
		.pipe = { -1, -1 }, .file = -1, .buf = buf,
	};
}

static void half_close(struct half *h)
{
	if (h->epoll >= 0)
		close(h->epoll);
	if (h->pipe[0] >= 0) {
		close(h->pipe[0]);
		close(h->pipe[1]);
	}
	if (h->file >= 0)
		close(h->file);
	h->epoll = -1;
	h->pipe[0] = -1;
	h->pipe[1] = -1;
	h->file = -1;
}

/* A connection is there: the client's port makes its streams unlike others. */
static void begin(struct end *e, bool server)
{
	struct addr a = { .len = sizeof(a.ss) };
	struct timeval tv = { .tv_usec = 30000 };
	uint64_t base;

	if (server ? getpeername(e->fd, &a.sa, &a.len) :
		     getsockname(e->fd, &a.sa, &a.len))
		a.in.sin_port = 0;
	/* at the same place in the addresses of both families */
	base = (uint64_t)ntohs(a.in.sin_port) << 40;
	e->server = server;
	half_init(&e->tx, base + ((uint64_t)server << 58), base + server + 1);
	half_init(&e->rx, base + ((uint64_t)!server << 58), base + server + 3);
	if (e->way == WAY_TIMEO) {
		setsockopt(e->fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
		setsockopt(e->fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
	}
	if (e->way == WAY_LT || e->way == WAY_ET)
		fcntl(e->fd, F_SETFL, O_NONBLOCK);
	if (e->way == WAY_LIB) {
		e->lib = l5_map(e->fd);
		if (!e->lib)
			die(e, "l5_map: %s", name_of(errno));
	}
}

static const struct {
	const char *name;
	int level, opt;
} options[] = {
	{ "rdma", SOL_L5, L5_RDMA },
	{ "rdma_wait", SOL_L5, L5_RDMA_WAIT },
	{ "force", SOL_L5, L5_FORCE },
	{ "spin", SOL_L5, L5_SPIN_US },
	{ "sndbuf", SOL_SOCKET, SO_SNDBUF },
	{ "rcvbuf", SOL_SOCKET, SO_RCVBUF },
	{ "keepalive", SOL_SOCKET, SO_KEEPALIVE },
	{ "idle", IPPROTO_TCP, TCP_KEEPIDLE },
	{ "intvl", IPPROTO_TCP, TCP_KEEPINTVL },
	{ "cnt", IPPROTO_TCP, TCP_KEEPCNT },
	{ "nodelay", IPPROTO_TCP, TCP_NODELAY },
	{ "user_timeout", IPPROTO_TCP, TCP_USER_TIMEOUT },
	{ "v6only", IPPROTO_IPV6, IPV6_V6ONLY },
};

void set(struct end *e, const char *v)
{
	const char *colon = v ? strchr(v, ':') : NULL;
	size_t i;

	for (i = 0; colon && i < ARRAY_SIZE(options); i++)
		if (!strncmp(options[i].name, v, colon - v) &&
		    !options[i].name[colon - v] && e->nset < 16) {
			e->set[e->nset++] = (struct setting){
				options[i].level, options[i].opt,
				number(e, colon + 1) };
			return;
		}
	die(e, "no such option");
}

static int set_key(int fd, const char *peer)
{
	struct tcp_md5sig key = { .tcpm_keylen = 6, .tcpm_key = "secret" };
	struct addr a = addr_parse(peer);

	memcpy(&key.tcpm_addr, &a.ss, sizeof(a.ss));
	return setsockopt(fd, IPPROTO_TCP, TCP_MD5SIG, &key, sizeof(key));
}

/* ESP, by whatever keys there are */
static int set_policy(int fd, const char *peer, int dir)
{
	struct addr a = addr_parse(peer);
	bool six = a.sa.sa_family == AF_INET6;
	struct {
		struct xfrm_userpolicy_info info;
		struct xfrm_user_tmpl tmpl;
	} p = {
		.info = {
			.sel.family = a.sa.sa_family,
			.lft = {
				.soft_byte_limit = XFRM_INF,
				.hard_byte_limit = XFRM_INF,
				.soft_packet_limit = XFRM_INF,
				.hard_packet_limit = XFRM_INF,
			},
			.dir = dir,
			.action = XFRM_POLICY_ALLOW,
		},
		.tmpl = {
			.id.proto = IPPROTO_ESP,
			.family = a.sa.sa_family,
			.mode = XFRM_MODE_TRANSPORT,
			.aalgos = ~0U,
			.ealgos = ~0U,
			.calgos = ~0U,
		},
	};

	return setsockopt(fd, six ? SOL_IPV6 : SOL_IP,
			  six ? IPV6_XFRM_POLICY : IP_XFRM_POLICY, &p,
			  sizeof(p));
}

/* key: TCP_MD5SIG; in, out: a policy of the socket's own. 0 or -1, errno. */
int guard(struct end *e, int fd, const struct guard *g)
{
	if (!strcmp(g->what, "key"))
		return set_key(fd, g->peer);
	if (!strcmp(g->what, "in"))
		return set_policy(fd, g->peer, XFRM_POLICY_IN);
	if (!strcmp(g->what, "out"))
		return set_policy(fd, g->peer, XFRM_POLICY_OUT);
	die(e, "no such guard");
}

struct guard guard_parse(const struct end *e, const char *v)
{
	struct guard g = { };

	if (!v || sscanf(v, "%7[^,],%63s", g.what, g.peer) != 2)
		die(e, "what, and for which peer?");
	return g;
}

/* Say what the guard has made of a connection. */
void guard_now(struct end *e, const char *v)
{
	struct guard g = guard_parse(e, v);
	int err = guard(e, e->fd, &g) ? errno : 0;

	say("{\"guard\": \"%s\", \"err\": \"%s\"}", g.what, name_of(err));
}

/* Make a socket with all that was set. */
static int make(struct end *e, const struct addr *a)
{
	int fd = end_socket(e->plain ? END_TCP : END_L5, a->sa.sa_family);
	int i;

	if (fd < 0)
		die(e, "socket: %s", name_of(-fd));
	for (i = 0; i < e->nset; i++)
		if (setsockopt(fd, e->set[i].level, e->set[i].name,
			       &e->set[i].value, sizeof(int)) && !e->plain)
			die(e, "setsockopt %#x %d: %s", e->set[i].level,
			    e->set[i].name, name_of(errno));
	for (i = 0; i < e->nguard; i++)
		if (guard(e, fd, &e->guard[i]))
			die(e, "guard %s: %s", e->guard[i].what,
			    name_of(errno));
	return fd;
}

void do_listen(struct end *e, const char *v)
{
	struct addr a = addr_parse(v);
	int one = 1;

	e->listener = make(e, &a);
	setsockopt(e->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(e->listener, &a.sa, a.len))
		die(e, "bind: %s", name_of(errno));
	if (listen(e->listener, 4096))
		die(e, "listen: %s", name_of(errno));
}

void do_connect(struct end *e, const char *v, bool wait)
{
	struct addr a = addr_parse(v);
	struct pollfd p = { .events = POLLOUT };
	socklen_t len = sizeof(int);
	int64_t start = l5_now_ms();
	int err = 0;

	e->fd = make(e, &a);
	p.fd = e->fd;
	if (!wait)
		fcntl(e->fd, F_SETFL, O_NONBLOCK);
	if (connect(e->fd, &a.sa, a.len) && (wait || errno != EINPROGRESS))
		die(e, "connect: %s", name_of(errno));
	if (!wait) {
		if (poll(&p, 1, LONG_MS) != 1 ||
		    getsockopt(e->fd, SOL_SOCKET, SO_ERROR, &err, &len) || err)
			die(e, "connect, then poll(): %s", name_of(err));
		fcntl(e->fd, F_SETFL, 0);
	}
	e->connect_ms = l5_now_ms() - start;
	begin(e, false);
}

void do_accept(struct end *e)
{
	struct pollfd p = { .fd = e->listener, .events = POLLIN };

	if (poll(&p, 1, LONG_MS) != 1)
		die(e, "nobody connects");
	e->fd = accept(e->listener, NULL, NULL);
	if (e->fd < 0)
		die(e, "accept: %s", name_of(errno));
	begin(e, true);
}

void do_close(struct end *e)
{
	int fd = e->fd;

	half_close(&e->tx);
	half_close(&e->rx);
	if (e->mapped)
		mapping_close(&e->map);
	l5_unmap(e->lib);
	e->mapped = false;
	e->lib = NULL;
	e->fd = -1;
	if (close(fd))
		die(e, "close: %s", name_of(errno));
}

void do_map(struct end *e, const char *v)
{
	int64_t until = l5_now_ms() + (int64_t)number(e, v);
	int err;

	do {
		err = mapping_open(&e->map, e->fd);
		if (err != -EAGAIN)
			break;
		usleep(2000);
	} while (l5_now_ms() < until);
	if (err)
		die(e, "cannot map: %s", name_of(-err));
	e->mapped = true;
}
