// SPDX-License-Identifier: GPL-2.0
/*
 * libl5: from names to connections. See l5_connect(3).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "l5_env.h"
#include "l5_family.h"
#include "libl5.h"

/* Bare system calls: under l5run those of libc would be redirected again. */
static void close_keep(int fd)
{
	int saved = errno;

	syscall(SYS_close, fd);
	errno = saved;
}

/* A user who names a transport wants that one: what is not understood fails. */
static int read_env(int *force, int *wait)
{
	*force = l5_env_transport(secure_getenv(L5_ENV_TRANSPORT));
	*wait = l5_env_number(secure_getenv(L5_ENV_RDMA_WAIT),
			      L5_RDMA_WAIT_MAX);
	if (*force != L5_ENV_BAD && *wait != L5_ENV_BAD)
		return 0;
	errno = EINVAL;
	return -1;
}

static int set_option(int fd, int name, int value)
{
	return value < 0 ? 0 : syscall(SYS_setsockopt, fd, SOL_L5, name, &value,
				       sizeof(value));
}

int l5_socket(int domain, int flags)
{
	int proto, fd, force, wait;

	if (read_env(&force, &wait))
		return -1;
	switch (domain) {
	case AF_INET:
		proto = L5PROTO_INET;
		break;
	case AF_INET6:
		proto = L5PROTO_INET6;
		break;
	case AF_UNIX:
		proto = L5PROTO_UNIX;
		break;
	default:
		errno = EAFNOSUPPORT;
		return -1;
	}
	flags |= SOCK_STREAM;
	fd = syscall(SYS_socket, l5_family(), flags, proto);
	/* a plain socket has its bootstrap alone, whatever is asked for */
	if (fd < 0 && errno == EAFNOSUPPORT)
		return syscall(SYS_socket, domain, flags, 0);
	if (fd >= 0 && l5_family_labels())
		syscall(SYS_getsockopt, fd, SOL_L5, L5_TRANSPORT, &proto,
			&(socklen_t){ sizeof(proto) });
	if (fd >= 0 && (set_option(fd, L5_FORCE, force) ||
			set_option(fd, L5_RDMA_WAIT, wait))) {
		close_keep(fd);
		return -1;
	}
	return fd;
}

static struct l5_stream *map_owned(int fd)
{
	struct l5_stream *c = l5_map(fd);

	if (!c)
		close_keep(fd);
	return c;
}

struct l5_stream *l5_connect_addr(const struct sockaddr *addr, socklen_t len,
				  int flags)
{
	int fd = l5_socket(addr->sa_family,
			   flags & (SOCK_CLOEXEC | SOCK_SEQPACKET));
	struct l5_stream *c;

	if (fd < 0)
		return NULL;
	if (syscall(SYS_connect, fd, addr, len) < 0) {
		close_keep(fd);
		return NULL;
	}
	c = map_owned(fd);
	if (c && flags & SOCK_NONBLOCK && l5_set_nonblock(c, true)) {
		l5_close(c);
		c = NULL;
	}
	return c;
}

/* A path, or what follows '@': the length of the address, or 0 with errno. */
static socklen_t unix_addr(struct sockaddr_un *sun, const char *path)
{
	size_t len = strlen(path);

	memset(sun, 0, sizeof(*sun));
	sun->sun_family = AF_UNIX;
	if (len >= sizeof(sun->sun_path)) {
		errno = ENAMETOOLONG;
		return 0;
	}
	memcpy(sun->sun_path, path, len);
	if (*path != '@')
		return sizeof(*sun);
	sun->sun_path[0] = 0;
	return offsetof(struct sockaddr_un, sun_path) + len;
}

/* Try each address of a name; what @use says of the last counts. */
static int each_addr(const char *host, const char *port, int passive,
		     int (*use)(const struct sockaddr *addr, socklen_t len,
				void *arg), void *arg)
{
	const struct addrinfo hints = {
		.ai_socktype = SOCK_STREAM,
		.ai_flags = passive ? AI_PASSIVE : 0,
	};
	struct addrinfo *list, *ai;
	struct sockaddr_un sun;
	socklen_t len;
	int err;

	if (!host && !port) {
		errno = EINVAL;
		return -1;
	}
	if (!port) {
		len = unix_addr(&sun, host);
		return len ? use((struct sockaddr *)&sun, len, arg) : -1;
	}
	err = getaddrinfo(host, port, &hints, &list);
	if (err) {
		if (err == EAI_MEMORY)
			errno = ENOMEM;
		else if (err == EAI_AGAIN)
			errno = EAGAIN;
		else if (err != EAI_SYSTEM)
			errno = EADDRNOTAVAIL;
		return -1;
	}
	err = -1;
	for (ai = list; ai && err < 0; ai = ai->ai_next)
		err = use(ai->ai_addr, ai->ai_addrlen, arg);
	freeaddrinfo(list);
	return err;
}

struct connecting {
	struct l5_stream *conn;
	int flags;
};

static int use_connect(const struct sockaddr *addr, socklen_t len, void *arg)
{
	struct connecting *c = arg;

	c->conn = l5_connect_addr(addr, len, c->flags);
	return c->conn ? 0 : -1;
}

struct l5_stream *l5_connect(const char *host, const char *port, int flags)
{
	struct connecting c = { .flags = flags };

	each_addr(host, port, 0, use_connect, &c);
	return c.conn;
}

static int use_listen(const struct sockaddr *addr, socklen_t len, void *arg)
{
	int fd = l5_socket(addr->sa_family, SOCK_CLOEXEC);
	int backlog = *(int *)arg, one = 1;

	if (fd < 0)
		return -1;
	syscall(SYS_setsockopt, fd, SOL_SOCKET, SO_REUSEADDR, &one,
		sizeof(one));
	if (!syscall(SYS_bind, fd, addr, len) &&
	    !syscall(SYS_listen, fd, backlog))
		return fd;
	close_keep(fd);
	return -1;
}

int l5_listen(const char *host, const char *port, int backlog)
{
	return each_addr(host, port, 1, use_listen, &backlog);
}

struct l5_stream *l5_accept(int fd, int flags)
{
	int new = syscall(SYS_accept4, fd, NULL, NULL, flags);

	return new < 0 ? NULL : map_owned(new);
}

int l5_close(struct l5_stream *c)
{
	int fd;

	if (!c)
		return 0;
	fd = l5_stream_fd(c);
	l5_unmap(c);
	return syscall(SYS_close, fd);
}
