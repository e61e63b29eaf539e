/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the benchmark programs share.
 *
 * Each program takes one sample of one figure over one transport and prints
 * it: "VALUE UNIT [LABEL]", a line a value. bench/run calls them in turns, so
 * that what disturbs the machine disturbs every transport alike.
 */
#ifndef BENCH_H
#define BENCH_H

#include <argp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>
#include <netinet/in.h>

#include "line.h"

/* transport.c: what a connection is made of. */

enum carrier {
	CARRIER_SOCKET,		/* send() and recv() */
	CARRIER_LIB,		/* libl5 on a socket */
	CARRIER_MEM,		/* libl5's rings over a memfd, no socket */
	CARRIER_LINE,		/* bare shared memory, see line.h */
	CARRIER_LINES,		/* the same, one message after the other */
};

struct transport {
	const char *name;
	int family;		/* of addresses */
	int domain;		/* of the socket, if it is another one */
	int proto;		/* of an AF_L5 socket, else -1 */
	enum carrier carrier;
	int type;		/* SOCK_*, 0: SOCK_STREAM */
};

struct address {
	union {
		struct sockaddr sa;
		struct sockaddr_in in;
		struct sockaddr_un un;
	};
	socklen_t len;
};

enum wait_mode {
	WAIT_BLOCK,		/* in recv() and send() */
	WAIT_POLL,		/* nowhere: nonblocking, libl5 spins itself */
	WAIT_EPOLL,		/* in epoll_wait(), as an event loop does */
};

enum pinning {
	PIN_NONE,		/* the scheduler's choice, as users run it */
	PIN_SPLIT,		/* client on the first, server on the second */
	PIN_SAME,		/* both on the first CPU */
};

enum role {
	ROLE_BOTH,		/* the server is a child of this process */
	ROLE_SERVER,		/* of a client on another host */
	ROLE_CLIENT,		/* of a server there */
};

struct setup {
	const struct transport *transport;
	enum wait_mode wait;
	enum pinning pinning;
	double seconds;		/* a sample's length */
	int spin_us;		/* L5_SPIN_US, -1: leave it alone */
	int buffer;		/* SO_SNDBUF and SO_RCVBUF, 0: leave alone */
	bool any_carrier;	/* AF_L5 may stay on its bootstrap */
	bool hurry;		/* connect() need not wait for RDMA */
	bool two_hosts;		/* this program can be one end alone */
	enum role role;
	struct address where;	/* of the server, if not ROLE_BOTH */
};

extern const struct setup setup_default;

const struct transport *transport_named(const char *name);
/* Memory of a connection without a socket, there before the server starts */
extern struct l5_native *transport_mem;
extern struct line_way *transport_line;
extern double transport_took;	/* seconds of the last connect() */

int transport_listen(const struct setup *s, struct address *where);
int transport_connect(const struct setup *s, const struct address *where);
int transport_accept(const struct setup *s, int listener);
int transport_of(int fd);
void transport_check(const struct setup *s, int fd);

/* options.c: the command line. */

/**
 * struct own_option - an option that only one program has
 * @name: the long one
 * @key: the short one
 * @arg: what its value is called, NULL: a switch
 * @doc: what it does
 * @value: where the value goes: a number above 0, or 1 for a switch
 */
struct own_option {
	const char *name;
	char key;
	const char *arg;
	const char *doc;
	unsigned long *value;
};

void options_parse(int argc, char **argv, const char *doc, struct setup *s,
		   const struct own_option *own);

/* io.c: whole messages, and what is in them. */

struct stream {
	int fd;
	int epoll;
	enum wait_mode wait;
	struct l5_stream *lib;	/* if libl5 carries it */
	struct l5_map *mem;	/* if a memfd does */
	struct line_way *line;	/* if that does: the client's, the server's */
	int end;		/* of these: 0 the client, 1 the server */
	struct line_pos put;	/* messages by line */
	struct line_pos get;
};

void stream_connect(struct stream *st, const struct setup *s,
		    const struct address *where);
void stream_accept(struct stream *st, const struct setup *s, int listener);
void stream_check(const struct stream *st, const struct setup *s);
void stream_settle(struct stream *st, const struct setup *s);
bool stream_recv(struct stream *st, void *buf, size_t len);
void stream_send(struct stream *st, const void *buf, size_t len);
void stream_end(struct stream *st);
void stream_close(struct stream *st);

void *array_alloc(size_t len);

#define PATTERN_TURNS	251	/* prime: repeats late at every size */

struct pattern {
	unsigned char *bytes;
};

void pattern_init(struct pattern *p, size_t len);
const void *pattern_of(const struct pattern *p, unsigned long nr);
void pattern_check(const struct pattern *p, unsigned long nr, const void *buf,
		   size_t len);

/* proc.c: two processes, and time. */

extern atomic_int sample_over;

void sample_start(double seconds);
double sample_elapsed(void);
double cpu_seconds(void);
double sample_median(double seconds, unsigned long every_us,
		     double (*once)(void *arg, unsigned long nr), void *arg);

pid_t child_start(const struct setup *s, void (*serve)(void *), void *arg);
pid_t server_start(const struct setup *s, struct address *where, int *listener,
		   void (*serve)(void *), void *arg);
void server_wait(pid_t pid);
void client_pin(const struct setup *s);

#endif /* BENCH_H */
