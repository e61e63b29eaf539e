/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How l5run tells libl5preload.so what to do: variables of the environment.
 */
#ifndef L5_ENV_H
#define L5_ENV_H

/* Comma-separated names of L5_SOCKETS; not set: L5_SOCKETS_DEFAULT. */
#define L5_ENV_SOCKETS	"L5_SOCKETS"
/* L5_SPIN_US of each socket made; not set: left alone. */
#define L5_ENV_SPIN	"L5_SPIN_US"
/* "1": say on stderr what does not work. */
#define L5_ENV_DEBUG	"L5_DEBUG"

#define L5_PRELOAD_NAME	"libl5preload.so"

/* Sockets that can be redirected: the name, AF_* and L5PROTO_*. */
#define L5_SOCKETS(X)				\
	X("inet",  AF_INET,  L5PROTO_INET)	\
	X("inet6", AF_INET6, L5PROTO_INET6)	\
	X("unix",  AF_UNIX,  L5PROTO_UNIX)

#define L5_SOCKETS_DEFAULT (1u << L5PROTO_INET | 1u << L5PROTO_INET6)

#endif /* L5_ENV_H */
