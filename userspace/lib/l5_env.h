/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How l5run tells libl5preload.so what to do: variables of the environment.
 */
#ifndef L5_ENV_H
#define L5_ENV_H

#include <sys/socket.h>

#include "../../uapi/l5.h"

/* Comma-separated names of l5_sockets[]; not set: L5_SOCKETS_DEFAULT. */
#define L5_ENV_SOCKETS	"L5_SOCKETS"
/* L5_SPIN_US of each socket made; not set: left alone. */
#define L5_ENV_SPIN	"L5_SPIN_US"
/* "1": say on stderr what does not work. */
#define L5_ENV_DEBUG	"L5_DEBUG"

#define L5_PRELOAD_NAME	"libl5preload.so"

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

#endif /* L5_ENV_H */
