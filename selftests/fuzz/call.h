/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A call and a program of calls. Both are plain words, so that a program can be
 * logged before it runs, changed by chance, printed, read again and repeated. A
 * call names descriptors and mappings by the number of a slot: what is in there
 * is known when it runs.
 */
#ifndef FZ_CALL_H
#define FZ_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "rnd.h"

#define FZ_SLOTS	24
#define FZ_MAPS		16
#define FZ_CALLS	64
#define FZ_LANES	4

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

/*
 * Name, how often the call is wanted, and what its words s, t, a, b and v are.
 * Slots are of descriptors, slots called m of mappings.
 */
#define FZ_OPS(X)							\
	X(SOCKET, "socket", 40)	/* t; protocol, type, kind */		\
	X(PAIR, "pair", 60)	/* s, t; address, FZ_PAIR_* */		\
	X(LISTENER, "listener", 28) /* t; address, FZ_PAIR_* */	\
	X(DIAL, "dial", 60)	/* s, t; address, FZ_PAIR_*: to s */	\
	X(BIND, "bind", 25)	/* s; address, length */		\
	X(LISTEN, "listen", 35)	/* s; backlog */			\
	X(CONNECT, "connect", 30) /* s, t; address, length: to t */	\
	X(ACCEPT, "accept", 50)	/* s, t; flags, address */		\
	X(UNCONNECT, "unconnect", 25) /* s; -, length */		\
	X(RELISTEN, "relisten", 40) /* s; backlog: after a disconnect */ \
	X(SHUTDOWN, "shutdown", 18) /* s; how */			\
	X(CLOSE, "close", 30)	/* s */					\
	X(DUP, "dup", 12)	/* s, t; way */				\
	X(SEND, "send", 90)	/* s, t; length, flags, way */		\
	X(RECV, "recv", 90)	/* s, t; length, flags, way */		\
	X(PASS, "pass", 15)	/* s, t; how many, flags */		\
	X(GETOPT, "getopt", 25)	/* s; level, option, value */		\
	X(SETOPT, "setopt", 60)	/* s; level, option, value */		\
	X(NAME, "name", 5)	/* s; which, length */			\
	X(POLL, "poll", 20)	/* s, t; events, ms, way */		\
	X(EPOLL, "epoll", 6)	/* t; flags */				\
	X(EPOLL_CTL, "epoll_ctl", 15) /* s, t; what, events */		\
	X(EPOLL_WAIT, "epoll_wait", 10)	/* s; ms, how many */		\
	X(IOCTL, "ioctl", 45)	/* s; which, argument, value */		\
	X(MAP_INFO, "map_info", 10) /* s; size, areas, versions */	\
	X(FCNTL, "fcntl", 10)	/* s; which, argument */		\
	X(MAP, "map", 35)	/* s, m: all of an end, in five slots */ \
	X(MMAP, "mmap", 25)	/* s, m; region, length, protection */	\
	X(MUNMAP, "munmap", 10)	/* -, m; part */			\
	X(MPROTECT, "mprotect", 6) /* -, m; protection, part */		\
	X(MADVISE, "madvise", 10) /* -, m; advice, part */		\
	X(MREMAP, "mremap", 4)	/* -, m; way */				\
	X(POKE, "poke", 90)	/* -, m; where, what, word */		\
	X(FLOOD, "flood", 12)	/* -, m; records, length, FZ_FLOOD_* */	\
	X(LOOK, "look", 8)	/* -, m: reads it */			\
	X(SCRIBBLE, "scribble", 8) /* -; -, -, seed: a thread that pokes */ \
	X(HAMMER, "hammer", 30)	/* -, m; where, what, word: one word */	\
	X(SPAWN, "spawn", 16)	/* -; lane, FZ_SPAWN_* */		\
	X(KILL, "kill", 4)	/* -; lane */				\
	X(NETNS, "netns", 2)	/* -; which */				\
	X(SYSCTL, "sysctl", 8)	/* -; which, value */			\
	X(RULE, "rule", 4)	/* s; file, line */			\
	X(READ_PROC, "read_proc", 5) /* s; file */			\
	X(FILE_CALL, "file", 8)	/* s; which */				\
	X(PIPE, "pipe", 6)	/* s, t; flags */			\
	X(UNIX, "unix", 6)	/* s, t: a plain pair */		\
	X(SLEEP, "sleep", 6)	/* -; us */				\
	X(FAIL, "fail", 5)	/* -; the n-th allocation from now on */ \
	X(DESTROY, "destroy", 4) /* s: by netlink, as ss -K */		\
	X(URING, "uring", 12)	/* s, t; operation, length, flags */

enum fz_op {
#define FZ_OP_ENUM(op, name, weight)	FZ_##op,
	FZ_OPS(FZ_OP_ENUM)
#undef FZ_OP_ENUM
	FZ_OP_COUNT
};

extern const char *const fz_op_name[FZ_OP_COUNT];
extern const unsigned int fz_op_weight[FZ_OP_COUNT];

/* What a socket is made as */
enum fz_kind { FZ_KIND_L5, FZ_KIND_PLAIN, FZ_KIND_ODD, FZ_KIND_INET };

/* Records that follow the last one; an empty one comes before them */
#define FZ_FLOOD_ON		0x1
#define FZ_FLOOD_EMPTY		0x2

#define FZ_PAIR_PLAIN_CLIENT	0x1
#define FZ_PAIR_PLAIN_SERVER	0x2
#define FZ_PAIR_NONBLOCK	0x4
#define FZ_PAIR_SMALL		0x8	/* buffers, hence rings */
#define FZ_PAIR_REUSE	0x20	/* SO_REUSEPORT: more than one */
#define FZ_PAIR_V4		0x10	/* a client of the other family */
#define FZ_PAIR_BORN	0x40	/* by socketpair() */
#define FZ_PAIR_PACKETS	0x80	/* SOCK_SEQPACKET */

/* A lane is a thread, or a process that has copies of all slots. */
#define FZ_SPAWN_THREAD		0
#define FZ_SPAWN_PROCESS	1
#define FZ_SPAWN_NOBODY		2	/* a process of another user */

/**
 * struct fz_call - one call
 * @op: an &enum fz_op
 * @lane: the thread that makes it: 0 the main thread, else a lane once it is
 * spawned
 * @s: slot
 * @t: another slot
 * @a: argument
 * @b: argument
 * @v: argument
 */
struct fz_call {
	uint8_t op;
	uint8_t lane;
	uint8_t s;
	uint8_t t;
	uint32_t a;
	uint32_t b;
	uint64_t v;
};

/**
 * struct fz_prog - calls, and where they come from
 * @seed: of the run
 * @number: of the program in it
 * @parent: number of the program that it was made of by changes, or its own
 * @n: how many calls
 * @call: the calls
 */
struct fz_prog {
	uint64_t seed;
	uint64_t number;
	uint64_t parent;
	uint32_t n;
	struct fz_call call[FZ_CALLS];
};

/* gen.c: by the seed and number alone */
void fz_gen(struct fz_prog *p, uint64_t seed, uint64_t number, bool lanes);

/* @p becomes a change of @from, with parts of @other. */
void fz_mutate(struct fz_prog *p, const struct fz_prog *from,
	       const struct fz_prog *other, uint64_t seed, uint64_t number,
	       bool lanes);

/* text.c: a line a call. False if what is read is no program. */
void fz_print(FILE *f, const char *before, const struct fz_prog *p,
	      const uint32_t at[FZ_LANES]);
bool fz_parse(FILE *f, struct fz_prog *p);
uint64_t fz_hash(uint64_t h, const struct fz_prog *p);

#endif /* FZ_CALL_H */
