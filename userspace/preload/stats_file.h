/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the library counts for l5run --stats, in memory that it shares with
 * l5run.
 *
 * l5run makes it, a memfd(2) that is sealed so that its size stays, and names
 * it in the environment by its own process and descriptor. Each process that
 * has the library maps it all at the start, and takes a part when it first has
 * something to count; from then on it needs neither the name nor a descriptor:
 * closefrom(3), chroot(2), another user and fork() change nothing. A program
 * that cannot open it goes without: another user's program after execve(2), or
 * one in a place without /proc. No other program can open it, and pages that
 * are not written to take no memory.
 *
 * All processes that have it may write anything there at any time, and l5run
 * believes nothing: it copies a part, and looks at each number before it uses
 * it.
 */
#ifndef L5_STATS_FILE_H
#define L5_STATS_FILE_H

#include <assert.h>
#include <stdint.h>

#include "../../uapi/l5_ring.h"
#include "../lib/l5_counts.h"

/* "PID FD" of l5run; not set: nothing is counted. */
#define L5_ENV_STATS	"L5_STATS"

#define L5_STATS_MAGIC	0x3153544154533550ull
#define L5_STATS_PROCS	512
#define L5_STATS_SOCKS	80
#define L5_STATS_POLLS	8
#define L5_STATS_PART	32768
#define L5_STATS_PEER	64
#define L5_STATS_NAME	32

/*
 * Why a call on a mapped socket went to the kernel: the code, what l5run calls
 * it, and whether -v names the first one of a process, which it does of what
 * the program could do otherwise.
 */
#define L5_STATS_CALLS(X)						\
	X(SLEPT,   "to wait", 0)					\
	X(FULL,    "full ring", 0)					\
	X(ASKED,   "end or error", 0)					\
	X(LOCKED,  "ring in use", 0)					\
	X(SHARED,  "shared with a process", 0)				\
	X(OTHERS,  "other descriptors", 0)				\
	X(LEFT,    "no longer mapped", 1)				\
	X(REST,    "rest of a call", 0)					\
	X(FLAGS,   "flags", 1)						\
	X(ADDRESS, "address or control message", 1)			\
	X(MANY,    "many messages at once", 1)				\
	X(OPTION,  "option SO_RCVLOWAT or O_ASYNC", 1)			\
	X(ODD,     "no bytes, or no memory", 0)

/**
 * enum l5_stats_call - see L5_STATS_CALLS
 * @L5_STATS_SAVED: it did not go there: it was answered in user space
 */
enum l5_stats_call {
	L5_STATS_SAVED = -1,
#define L5_STATS_CALL_ENUM(code, name, said)	L5_STATS_##code,
	L5_STATS_CALLS(L5_STATS_CALL_ENUM)
#undef L5_STATS_CALL_ENUM
	L5_STATS_CALLS_MAX,
};

/*
 * What became of a socket. Of REASON the argument is an &enum l5_reason, of
 * ERRNO an errno, of OTHERS and CLOSED a number.
 */
#define L5_STATS_HOWS(X)						\
	X(MAPPED,    "mapped")						\
	X(REASON,    "the kernel's reason")				\
	X(POLICY,    "the policy says so")				\
	X(MODE,      "the mode is socket")				\
	X(NO_TABLE,  "no memory for what is known of descriptors")	\
	X(LIMIT,     "as many others are as L5_MAPS says")		\
	X(OPTIONS,   "SO_RCVLOWAT or O_ASYNC is set")			\
	X(APART,     "its threads have different descriptors")		\
	X(UNWATCHED, "its descriptors cannot be watched")		\
	X(ERRNO,     "it could not be")					\
	X(CLOSED,    "closed before it was used enough")

/**
 * enum l5_stats_how - see L5_STATS_HOWS
 */
enum l5_stats_how {
#define L5_STATS_HOW_ENUM(code, text)	L5_STATS_HOW_##code,
	L5_STATS_HOWS(L5_STATS_HOW_ENUM)
#undef L5_STATS_HOW_ENUM
	L5_STATS_HOWS_MAX,
};

/* Numbers of what l5_stats_why() returns */
#define L5_STATS_WHYS	(L5_STATS_HOWS_MAX + L5_REASON_MAX)

/* One number for why a socket is not mapped, whatever is in these. */
static inline unsigned int l5_stats_why(uint32_t how, int32_t arg)
{
	if (how == L5_STATS_HOW_REASON && arg >= 0 && arg < L5_REASON_MAX)
		return L5_STATS_HOWS_MAX + arg;
	return how < L5_STATS_HOWS_MAX ? how : L5_STATS_HOW_ERRNO;
}

enum l5_stats_dir { L5_STATS_IN, L5_STATS_OUT, L5_STATS_DIRS };

/**
 * struct l5_stats_way - calls of one direction
 * @saved: answered in user space
 * @paid: looks that found something before it was time to sleep
 * @vain: looks that did not
 * @kernel: system calls, by &enum l5_stats_call
 *
 * A line is written by the thread that has just held the ring's lock of that
 * direction, by plain increments: threads that share a direction of a socket
 * may lose some.
 */
struct l5_stats_way {
	uint64_t saved;
	uint64_t paid;
	uint64_t vain;
	uint64_t kernel[L5_STATS_CALLS_MAX];
} __attribute__((aligned(L5_LINE)));

/* States of a part, and of a socket in it: BUSY is being written. */
enum l5_stats_state {
	L5_STATS_FREE,
	L5_STATS_BUSY,
	L5_STATS_OPEN,
	L5_STATS_CLOSED,
};

/**
 * struct l5_stats_sock - a socket
 * @state: an &enum l5_stats_state
 * @fd: the descriptor by which it was mapped, or found not to be
 * @how: an &enum l5_stats_how
 * @arg: of @how
 * @transport: an &enum l5_transport
 * @n: how many sockets this stands for, in entries that stand for more than one
 * @early: calls before it was mapped, of both directions
 * @peer: "to" or "from" whom, for people
 * @way: by &enum l5_stats_dir
 */
struct l5_stats_sock {
	uint32_t state;
	int32_t fd;
	uint32_t how;
	int32_t arg;
	uint32_t transport;
	uint32_t n;
	uint64_t early;
	char peer[L5_STATS_PEER];
	struct l5_stats_way way[L5_STATS_DIRS];
};

/* Numbers in sock[] that are no socket's own */
enum {
	L5_STATS_REST_OPEN,	/* sockets that found no place */
	L5_STATS_REST_CLOSED,	/* sockets whose place was needed */
	L5_STATS_FIRST,
};

/**
 * struct l5_stats_proc - a process's part
 * @state: an &enum l5_stats_state, never CLOSED
 * @pid: of the process
 * @turn: where to look for a closed one next
 * @name: of its program
 * @unmapped: sockets without a place that are not mapped, by l5_stats_why()
 * @poll: poll(), select(), epoll_wait() and the like, by thread
 * @sock: sockets
 */
struct l5_stats_proc {
	uint32_t state;
	int32_t pid;
	uint32_t turn;
	char name[L5_STATS_NAME];
	uint64_t unmapped[L5_STATS_WHYS];
	struct l5_stats_way poll[L5_STATS_POLLS];
	struct l5_stats_sock sock[L5_STATS_SOCKS];
};

static_assert(sizeof(struct l5_stats_proc) <= L5_STATS_PART,
	      "a process's part is too small");

/**
 * struct l5_stats_file - all of it
 * @magic: L5_STATS_MAGIC
 * @lost: processes for which there was no part
 * @part: each is a &struct l5_stats_proc
 */
struct l5_stats_file {
	uint64_t magic;
	uint64_t lost;
	uint8_t part[L5_STATS_PROCS][L5_STATS_PART]
		__attribute__((aligned(4096)));
};

#endif /* L5_STATS_FILE_H */
