/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How l5run tells libl5preload.so what to do: variables of the environment. The
 * first two are libl5's as well.
 */
#ifndef L5_ENV_H
#define L5_ENV_H

#include <string.h>
#include <sys/socket.h>

#include "../../uapi/l5.h"
#include "l5_counts.h"

/* L5_FORCE of each socket made, by name; not set: the kernel chooses. */
#define L5_ENV_TRANSPORT "L5_TRANSPORT"
/* L5_RDMA_WAIT of each socket made, ms; not set: connect() does not wait. */
#define L5_ENV_RDMA_WAIT "L5_RDMA_WAIT"

/* Comma-separated names of l5_sockets[]; not set: L5_SOCKETS_DEFAULT. */
#define L5_ENV_SOCKETS	"L5_SOCKETS"
/* L5_SPIN_US of each socket made; not set: left alone. */
#define L5_ENV_SPIN	"L5_SPIN_US"
/* "1": say on stderr what does not work. */
#define L5_ENV_DEBUG	"L5_DEBUG"

/* "full" or "socket": whether mapped sockets are used without system calls. */
#define L5_ENV_MODE	"L5_MODE"
/* Rules of the policy, separated by semicolons; before those of the file. */
#define L5_ENV_POLICY	"L5_POLICY"
/* The file with rules; not set: those below, the first one below $HOME. */
#define L5_ENV_CONF	"L5_CONF"
#define L5_CONF_HOME	"/.config/l5.conf"
#define L5_CONF_ETC	"/etc/l5.conf"
/* Map a socket once it was read or written so often. */
#define L5_ENV_MAP	"L5_MAP_AFTER"

/* and at most so many at once. */
#define L5_ENV_MAPS	"L5_MAPS"
/* epoll asks the kernel every so many microseconds at least; for tests */
#define L5_ENV_ASK	"L5_ASK_US"

/* Set by l5run --static: what cannot be preloaded into is supervised. */
#define L5_ENV_STATIC	"L5_STATIC"

/*
 * The fourth argument of a socket() that is not for the supervisor: socket()
 * has three, and the kernel does not look at it. The preload library has
 * decided by then, by rules that the supervisor may not know.
 */
#define L5_LEAVE	0x4c355f4c65617665ul

#define L5_PRELOAD_NAME	"libl5preload.so"
/* The same for --mode=socket, and nothing but that. */
#define L5_SOCKET_NAME	"libl5socket.so"

/* Sockets that can be redirected, by L5PROTO_*. */
static const struct {
	const char *name;
	int af;
} l5_sockets[L5PROTO_MAX] = {
	[L5PROTO_INET] = { "inet", AF_INET },
	[L5PROTO_INET6] = { "inet6", AF_INET6 },
	[L5PROTO_UNIX] = { "unix", AF_UNIX },
};

/* A set of them has a bit for each. */
enum {
	L5_SOCKETS_DEFAULT = 1u << L5PROTO_INET | 1u << L5PROTO_INET6,
};

/* What can be asked for, by &enum l5_transport. */
static const char *const l5_transports[L5_TRANSPORT_MAX] = {
	[L5_TRANSPORT_BASE] = "base",
	[L5_TRANSPORT_SHM] = "shm",
	[L5_TRANSPORT_RDMA] = "rdma",
};

enum {
	L5_ENV_NONE = -1,	/* not set, or empty */
	L5_ENV_BAD = -2,
};

/* An &enum l5_transport, L5_ENV_NONE or L5_ENV_BAD */
static inline int l5_env_transport(const char *s)
{
	int i;

	if (!s || !*s)
		return L5_ENV_NONE;
	for (i = 0; i < L5_TRANSPORT_MAX; i++)
		if (l5_transports[i] && !strcmp(s, l5_transports[i]))
			return i;
	return L5_ENV_BAD;
}

/* A decimal number up to @max, L5_ENV_NONE or L5_ENV_BAD */
static inline int l5_env_number(const char *s, int max)
{
	int n = 0;

	if (!s || !*s)
		return L5_ENV_NONE;
	for (; *s >= '0' && *s <= '9' && n <= max; s++) {
		if (n > max / 10)
			return L5_ENV_BAD;
		n = n * 10 + (*s - '0');
	}
	return *s || n > max ? L5_ENV_BAD : n;
}

#endif /* L5_ENV_H */
