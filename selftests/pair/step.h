/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The parts of step: its steps (step.c), its sockets (step_socket.c), and every
 * way in which their bytes go (step_bytes.c).
 */
#ifndef PAIR_STEP_H
#define PAIR_STEP_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "libl5.h"
#include "mapping.h"

/* Far more than anything here needs: it only ends what hangs. */
#define LONG_MS		(60000 * l5_slow())
#define CHUNK_MAX	(1024u * 1024)
#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

/* How bytes are handed to the kernel, or not to it. */
enum way {
	WAY_BLOCK,
	WAY_POLL,	/* MSG_DONTWAIT, then poll() */
	WAY_LT,		/* O_NONBLOCK, then epoll_wait() */
	WAY_ET,		/* the same, edge triggered */
	WAY_TIMEO,	/* SO_RCVTIMEO, SO_SNDTIMEO, which run out often */
	WAY_IOV,
	WAY_PEEK,	/* each byte is looked at, then taken */
	WAY_WAITALL,
	WAY_SPLICE,
	WAY_SENDFILE,
	WAY_MORE,
	WAY_MIX,	/* a different one each time */
	WAY_LIB,	/* libl5 */
	WAY_MAP,	/* lib/mapping.h */
	WAYS
};

/* One direction of a connection, used by one thread at a time. */
struct half {
	uint64_t base;		/* tells the streams apart */
	uint64_t at;		/* bytes so far */
	uint64_t seed;
	int epoll;
	int pipe[2];
	int file;
	off_t file_at;
	uint8_t *buf;
	int err;
	bool eof;
};

struct setting {
	int level, name, value;
};

/* Options that have a connection's packets signed or encrypted, see guard(). */
struct guard {
	char what[8];
	char peer[64];
};

struct end {
	bool plain;
	struct guard guard[4];
	int nguard;
	int listener;
	int fd;
	bool server;
	enum way way;
	size_t chunk;
	struct half tx, rx;
	struct setting set[16];
	int nset;
	struct l5_stream *lib;
	struct mapping map;
	bool mapped;
	int64_t connect_ms;
	uint64_t need;		/* duplex: bytes to send after the move */
	bool any;		/* duplex: moved or not */
	const char *step;
	unsigned int index;	/* of this thread, and how all meet */
	pthread_barrier_t *all;
};

/* Bytes of all connections so far */
extern _Atomic uint64_t total_tx, total_rx;

/* A line of output; and one that ends the program, for what went wrong. */
void __attribute__((format(printf, 1, 2))) say(const char *fmt, ...);
void __attribute__((format(printf, 2, 3), noreturn))
die(const struct end *e, const char *fmt, ...);

/* No noise makes that. */
#define die_fatal(e, ...) do {						\
	l5_fatal(__VA_ARGS__);						\
	die(e, __VA_ARGS__);						\
} while (0)

/* The name of an errno; the number that a value begins with; what follows it */
const char *name_of(int err);
uint64_t number(const struct end *e, const char *v);
const char *after(const char *v);

/* Once, by the end's way: bytes, 0 at the end, -1 for an error in the half. */
ssize_t put_some(struct end *e, size_t n);
ssize_t get_some(struct end *e, size_t n);
size_t some_size(struct end *e, struct half *h);

/* All of them, or the program ends. */
void put(struct end *e, uint64_t n);
void get(struct end *e, uint64_t n);
void put_whole(struct end *e, size_t n);
void get_whole(struct end *e, size_t n);

/* What is set before there is a socket */
void set(struct end *e, const char *v);
int guard(struct end *e, int fd, const struct guard *g);
struct guard guard_parse(const struct end *e, const char *v);
void guard_now(struct end *e, const char *v);

void do_listen(struct end *e, const char *v);
void do_connect(struct end *e, const char *v, bool wait);
void do_accept(struct end *e);
void do_close(struct end *e);
void do_map(struct end *e, const char *v);

#endif /* PAIR_STEP_H */
