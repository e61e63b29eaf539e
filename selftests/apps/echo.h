/* SPDX-License-Identifier: GPL-2.0 */
/*
 * An echo server and clients for it, in all the ways that programs are built:
 * what the two have in common.
 */
#ifndef ECHO_H
#define ECHO_H

#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CHUNK		65536
#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

struct address {
	int family;		/* first argument of socket() */
	struct sockaddr_in in;
};

/*
 * Where the server is. @l5: make AF_L5 sockets here, for programs without a
 * preloaded library.
 */
struct address echo_address(bool l5, const char *port);

/**
 * struct way - one way to move bytes over a socket
 * @name: of it
 * @kinds: WAY_*
 * @send: as send() without flags; may take less
 * @recv: as recv() without flags; may give less
 */
struct way {
	const char *name;
	unsigned int kinds;
	ssize_t (*send)(int fd, void *buf, size_t len);
	ssize_t (*recv)(int fd, void *buf, size_t len);
};

enum {
	WAY_LIBC	= 1,	/* what a preloaded library can see */
	WAY_RAW		= 2,	/* system calls that it cannot */
	WAY_URING	= 4,
	WAY_ALL		= 7,
};

/* The @i-th of the ways of @kinds, counted round and round. */
const struct way *way(unsigned int kinds, unsigned int i);

#endif /* ECHO_H */
