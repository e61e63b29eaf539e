// SPDX-License-Identifier: GPL-2.0
/*
 * Calls that make, name, connect and end sockets.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exec.h"
#include "l5.h"

long fz_carried(int fd)
{
	int transport = 0, reason = 0;
	socklen_t len = sizeof(int);

	if (getsockopt(fd, SOL_L5, L5_TRANSPORT, &transport, &len) ||
	    getsockopt(fd, SOL_L5, L5_REASON, &reason, &len))
		return 0;
	return transport | reason << 4;
}

/*
 * Two of three connections are to be carried by RDMA; the call decides which.
 * Where RDMA cannot be had the bootstrap carries the connection.
 */
static void want_rdma(int fd, uint32_t proto, unsigned int chance)
{
	int rdma = L5_TRANSPORT_RDMA;

	if (fz_world.rdma && proto == L5PROTO_INET && chance % 3)
		setsockopt(fd, SOL_L5, L5_FORCE, &rdma, sizeof(rdma));
}

/* The move is made in the background, and most of what comes is about it. */
static void await_rdma(int fd)
{
	int i;

	for (i = 0; fz_world.rdma && i < 200 &&
	     (fz_carried(fd) & 15) != L5_TRANSPORT_RDMA; i++)
		usleep(1000);
}

/* By L5PROTO_* */
static const int plain[] = { AF_INET, AF_INET6, AF_UNIX };

static int make(uint32_t proto, uint32_t type, unsigned int kind)
{
	if (kind == FZ_KIND_ODD)
		return socket(proto & 63, type, proto);
	if (kind == FZ_KIND_PLAIN || fz_world.plain)
		return socket(plain[proto % 3], type, 0);
	if (kind == FZ_KIND_INET && proto % 3 != L5PROTO_UNIX)
		return socket(plain[proto % 3], type, IPPROTO_L5);
	return socket(fz_world.family, type, proto);
}

/* Of the sockets of pairs and the like, those in each fourth slot */
static unsigned int kind_of(const struct fz_call *c, uint32_t is_plain,
			    uint32_t slot)
{
	return c->b & is_plain ? FZ_KIND_PLAIN :
	       slot % 4 ? FZ_KIND_L5 : FZ_KIND_INET;
}

FZ_DO(socket)
{
	int fd = make(c->a, c->b, c->v);

	if (fd < 0)
		return -errno;
	fz_put(c->t, fd);
	return 0;
}

static uint32_t proto_of(uint32_t addr)
{
	switch (fz_family_of(addr)) {
	case AF_INET:
		return L5PROTO_INET;
	case AF_INET6:
		return L5PROTO_INET6;
	default:
		return L5PROTO_UNIX;
	}
}

static void small_buffers(int fd)
{
	int bytes = 4096;

	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
}

/* Whatever is at the address may be in the way, so any place will do. */
static int pair_listen(uint32_t addr, int type, unsigned int kind,
		       struct sockaddr_storage *at, socklen_t *len)
{
	uint32_t proto = proto_of(addr);
	int fd = make(proto, type | SOCK_CLOEXEC, kind), one = 1;

	if (fd < 0)
		return -1;
	*len = fz_address(addr, at);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (void *)at, *len)) {
		*len = fz_address(proto == L5PROTO_INET ? FZ_V4_PORT0 :
				  proto == L5PROTO_INET6 ? FZ_V6_PORT0 :
				  FZ_AUTOBIND, at);
		if (bind(fd, (void *)at, *len))
			goto failed;
	}
	*len = sizeof(*at);
	if (getsockname(fd, (void *)at, len) || listen(fd, 8))
		goto failed;
	return fd;

failed:
	close(fd);
	return -1;
}

static long pair_born(const struct fz_call *c, int type)
{
	uint32_t proto = proto_of(c->a);
	int fd[2];

	if (fz_world.plain ? socketpair(plain[proto % 3], type, 0, fd) :
			     socketpair(fz_world.family, type, proto, fd))
		return -errno;
	fz_put(c->s, fd[0]);
	fz_put(c->t, fd[1]);
	return fz_carried(fd[1]);
}

FZ_DO(pair)
{
	int what = c->b & FZ_PAIR_PACKETS ? SOCK_SEQPACKET : SOCK_STREAM;
	int type = what | (c->b & FZ_PAIR_NONBLOCK ? SOCK_NONBLOCK : 0);
	struct sockaddr_storage at;
	int l, s, n, i;
	socklen_t len;

	if (c->b & FZ_PAIR_BORN)
		return pair_born(c, type);
	l = pair_listen(c->a, what, kind_of(c, FZ_PAIR_PLAIN_SERVER, c->t),
			&at, &len);
	if (l < 0)
		return -errno;
	n = make(proto_of(c->a), type, kind_of(c, FZ_PAIR_PLAIN_CLIENT, c->s));
	if (n < 0) {
		close(l);
		return -EMFILE;
	}
	if (c->b & FZ_PAIR_SMALL) {
		small_buffers(l);
		small_buffers(n);
	}
	want_rdma(l, proto_of(c->a), c->s + c->t);
	want_rdma(n, proto_of(c->a), c->s + c->t);
	s = -1;
	if (!connect(n, (void *)&at, len) || errno == EINPROGRESS ||
	    errno == EINTR) {
		/* a look at the clock would make two runs differ more */
		for (i = 0; i < 5 && s < 0; i++)
			s = accept4(l, NULL, NULL, type & SOCK_NONBLOCK);
	}
	if (s >= 0 && (c->s + c->t) % 3 == 1)
		await_rdma(n);
	close(l);
	fz_put(c->s, n);
	if (s < 0)
		return -ECONNABORTED;
	fz_put(c->t, s);
	return fz_carried(s);
}

FZ_DO(listener)
{
	int one = 1, fd = make(proto_of(c->a), SOCK_STREAM |
			       (c->b & FZ_PAIR_NONBLOCK ? SOCK_NONBLOCK : 0),
			       kind_of(c, FZ_PAIR_PLAIN_SERVER, c->t));
	struct fz_call bind = { .s = c->t, .a = c->a };

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (c->b & FZ_PAIR_REUSE)
		setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one));
	if (c->b & FZ_PAIR_SMALL)
		small_buffers(fd);
	want_rdma(fd, proto_of(c->a), c->t);
	fz_put(c->t, fd);
	if (fz_do_bind(&bind))
		return -errno;
	return FZ_RET(listen(fd, 5));
}

/* The same port, by IPv4: a listener by IPv6 may hear that, too. */
static socklen_t by_v4(struct sockaddr_storage *at)
{
	struct sockaddr_in6 *in6 = (void *)at;
	struct sockaddr_in in = { .sin_family = AF_INET };

	in.sin_port = in6->sin6_port;
	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	memcpy(at, &in, sizeof(in));
	return sizeof(in);
}

FZ_DO(dial)
{
	struct sockaddr_storage at;
	socklen_t len = fz_target(c->a, c->s, &at);
	uint32_t proto;
	int fd;

	if (c->b & FZ_PAIR_V4 && at.ss_family == AF_INET6)
		len = by_v4(&at);
	/* IPV6_ADDRFORM makes it another socket than the slot was made for */
	proto = at.ss_family == AF_INET ? L5PROTO_INET :
		at.ss_family == AF_INET6 ? L5PROTO_INET6 :
		at.ss_family == AF_UNIX ? L5PROTO_UNIX : proto_of(c->a);
	fd = make(proto, SOCK_STREAM |
		  (c->b & FZ_PAIR_NONBLOCK ? SOCK_NONBLOCK : 0),
		  kind_of(c, FZ_PAIR_PLAIN_CLIENT, c->t));
	if (fd < 0)
		return -errno;
	want_rdma(fd, proto, c->s);
	fz_put(c->t, fd);
	return FZ_RET(connect(fd, (void *)&at, len));
}

FZ_DO(bind)
{
	struct sockaddr_storage at;
	socklen_t len = fz_address(c->a, &at);

	if (at.ss_family == AF_UNIX && len > 2 &&
	    ((struct sockaddr *)&at)->sa_data[0])
		unlink(((struct sockaddr *)&at)->sa_data);
	return FZ_RET(bind(fz_fd(c->s), (void *)&at, fz_addr_len(c->b, len)));
}

FZ_DO(listen)
{
	return FZ_RET(listen(fz_fd(c->s), c->a));
}

FZ_DO(connect)
{
	struct sockaddr_storage at;
	socklen_t len = fz_target(c->a, c->t, &at);

	return FZ_RET(connect(fz_fd(c->s), (void *)&at,
			      fz_addr_len(c->b, len)));
}

FZ_DO(accept)
{
	struct sockaddr_storage at;
	socklen_t len = c->b == 2 ? 1 : c->b == 3 ? ~0u : sizeof(at);
	int fd = accept4(fz_fd(c->s), c->b ? (void *)&at : NULL,
			 c->b ? &len : NULL, c->a);

	if (fd < 0)
		return -errno;
	fz_put(c->t, fd);
	return fz_carried(fd);
}

FZ_DO(unconnect)
{
	struct sockaddr_storage at;
	socklen_t len = fz_address(FZ_UNSPEC, &at);

	return FZ_RET(connect(fz_fd(c->s), (void *)&at,
			      fz_addr_len(c->b, len)));
}

FZ_DO(relisten)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	int fd = fz_fd(c->s);

	if (connect(fd, &none, sizeof(none)))
		return -errno;
	return FZ_RET(listen(fd, c->a));
}

FZ_DO(shutdown)
{
	return FZ_RET(shutdown(fz_fd(c->s), c->a));
}

FZ_DO(close)
{
	int fd = fz_take(c->s);

	return FZ_RET(fd < 0 ? (errno = EBADF, -1) : close(fd));
}

FZ_DO(dup)
{
	int fd = fz_fd(c->s), to = fz_fd(c->t), new;

	switch (c->a % 4) {
	case 0:
		new = dup(fd);
		break;
	case 1:
		new = fcntl(fd, F_DUPFD_CLOEXEC, 3);
		break;
	default:
		/* over another one, in one step */
		if (fd < 0 || to < 0 || fd == to)
			return -EBADF;
		return FZ_RET(dup3(fd, to, c->a == 3 ? O_CLOEXEC : 0)) < 0;
	}
	if (new < 0)
		return -errno;
	fz_put(c->t, new);
	return 0;
}

FZ_DO(name)
{
	struct sockaddr_storage at;
	socklen_t len = fz_addr_len(c->b, sizeof(at));
	int fd = fz_fd(c->s);

	return FZ_RET(c->a ? getpeername(fd, (void *)&at, &len) :
		      getsockname(fd, (void *)&at, &len));
}
