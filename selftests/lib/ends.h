/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Connections and the networks they cross, for the tests of rendezvous,
 * lifetimes and limits.
 */
#ifndef ENDS_H
#define ENDS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "l5test.h"
#include "pass.h"

/* END_INET is AF_L5 by its protocol of AF_INET and AF_INET6. */
enum end_kind { END_TCP, END_L5, END_INET };

/* An address of any of the three families, and its length. */
struct addr {
	union {
		struct sockaddr sa;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
		struct sockaddr_un un;
		struct sockaddr_storage ss;
	};
	socklen_t len;
};

/*
 * Parse "127.0.0.1:5000", "[::1]:5000", "unix:/path" or "abstract:name"; port
 * 0 lets the kernel choose.
 */
struct addr addr_parse(const char *text);
void addr_set_port(struct addr *a, int port);
int addr_port(const struct addr *a);

/* A socket of AF_L5 or of the address's own family. -errno. */
int end_socket(enum end_kind kind, int family);

/* A listener; *@a becomes its name. Backlog 4096. -errno. */
int end_listen(enum end_kind kind, struct addr *a);

/* connect() a new blocking socket. -errno. */
int end_connect(enum end_kind kind, const struct addr *a);

/*
 * Move @n bytes each way at once and compare them. @pos is the position in the
 * streams, the same in both directions; NULL is 0. False, and why on stderr.
 */
bool end_exchange(int a, int b, size_t n, uint64_t pos);

/* The same, one way: @n bytes of the stream from @pos. */
bool end_put(int fd, size_t n, uint64_t pos);
bool end_get(int fd, size_t n, uint64_t pos);

/*
 * recv() until the end: how many bytes of the stream came from @pos on, or
 * -1 - @pos of the first wrong one; *@err says how it ended: 0 or an errno.
 */
int64_t end_drain(int fd, uint64_t pos, int *err);

/*
 * Send bytes of the stream from @pos on, whenever poll() says that there is
 * room: how many were taken before it says for @ms that there is none; @most at
 * most.
 */
size_t end_put_polled(int fd, uint64_t pos, size_t most, int ms);

/*
 * Send back what comes, each piece before the next one is read, until the end.
 * 0, 1 if a send failed, 2 if a receive did.
 */
int end_echo(int fd);

/* FIONREAD, or -1. */
int end_unread(int fd);

/* Send, or receive, once by a pipe or from a file: bytes, or -1. */
long end_splice_send(int fd, const void *b, long n);
long end_splice_recv(int fd, void *b, long n);
long end_sendfile(int fd, const void *b, long n);

/* Readable (or @events) within a generous time? The revents. */
int end_poll(int fd, int events);

/* Does this kernel ask AF_L5 for options of SOL_SOCKET? */
bool kernel_asks_for_options(void);

/* L5_REASON by number and name. */
int end_reason(int fd);
const char *end_reason_name(int reason);

/* Wait, generously, until the statistic @name of this namespace is @value. */
bool end_stat_reaches(const char *name, long long value);

/* printf a shell command, run it; its status. Output goes to stderr. */
int sh(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* An own network namespace with lo up, as unshare(1) -n; false with errno. */
bool net_unshare(void);

/* The same, and a ring that is full stays full there, however long. */
bool net_keeps_full(void);

/* Make namespace @name (ip netns) with lo up, or enter it; fd or -errno. */
int net_make(const char *name);
bool net_enter(int fd);
int net_current(void);
void net_delete(const char *name);

/*
 * Two namespaces, l5a with 10.77.0.1 and l5b with 10.77.0.2, joined by a veth
 * pair of the names va and vb. Fills their descriptors.
 */
bool net_pair(int *a, int *b);
void net_pair_end(int a, int b);

/* Count the TCP payload bytes that cross an interface to or from a port. */
struct capture {
	int fd;
	int port;
	uint64_t packets;
	uint64_t payload;
};

bool capture_start(struct capture *c, const char *dev, int port);
/* Take in what was captured; false if the kernel dropped any of it. */
bool capture_stop(struct capture *c);

#endif /* ENDS_H */
