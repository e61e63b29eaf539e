/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Counting for l5run --stats (stats_file.h), and what -v says of calls.
 *
 * In a program that did not ask for it, a call on a mapped socket pays for one
 * test of a pointer that is in the line of struct sock it has just read. In a
 * program that did, it pays for an increment or two in a line that is this
 * socket's and this direction's. There is no locked instruction, except where
 * sockets come and go.
 */
#ifndef L5_STATS_H
#define L5_STATS_H

#include <stdbool.h>

#include "../lib/map.h"
#include "policy.h"
#include "stats_file.h"

/* Are the counts wanted? Set once, at the start. */
extern bool stats_wanted;

/**
 * stats_start() - find the memory that l5run made; in a constructor
 *
 * After the environment was read.
 */
void stats_start(void);

/**
 * stats_forked() - in a child of fork(): what was counted was its parent's
 */
void stats_forked(void);

/**
 * stats_peer() - name the other end, for people
 * @fd: a connected socket
 * @side: which end it is
 * @text: of L5_STATS_PEER bytes; " to ADDRESS", or "" if there is none
 *
 * Return: @text
 */
const char *stats_peer(int fd, enum l5_side side, char *text);

/**
 * stats_mapped() - a socket was just mapped
 * @fd: it
 * @side: which end it is
 * @transport: what carries it
 * @early: calls until now
 *
 * Return: where to count its calls, or NULL: nowhere
 */
struct l5_stats_sock *stats_mapped(int fd, enum l5_side side, int transport,
				   unsigned int early);

/**
 * stats_unmapped() - a socket was found not to be mapped
 * @fd: it
 * @side: which end it is
 * @how: why
 * @arg: of that
 * @early: calls until now
 */
void stats_unmapped(int fd, enum l5_side side, enum l5_stats_how how, int arg,
		    unsigned int early);

/**
 * stats_closed() - a mapped socket is not used any more
 * @s: from stats_mapped(), may be NULL
 */
void stats_closed(struct l5_stats_sock *s);

/**
 * stats_cancel() - another thread was first to map it
 * @s: from stats_mapped(), may be NULL
 */
void stats_cancel(struct l5_stats_sock *s);

/**
 * stats_forget() - a descriptor that may be one of stats_unmapped() is closed
 * @fd: it
 */
void stats_forget(int fd);

void stats_count(struct l5_stats_sock *s, int fd, enum l5_stats_dir dir,
		 enum l5_stats_call call);
void stats_count_look(struct l5_stats_sock *s, enum l5_stats_dir dir,
		      bool paid);
void stats_count_left(int fd, enum l5_stats_dir dir, enum l5_stats_call call);
void stats_count_poll(enum l5_stats_call call);
void stats_count_poll_look(bool paid);

/**
 * stats_call() - a call was answered here, or goes to the kernel
 * @s: of the socket, which is in use; may be NULL
 * @fd: its descriptor
 * @dir: which way
 * @call: why, or L5_STATS_SAVED
 */
static inline void stats_call(struct l5_stats_sock *s, int fd,
			      enum l5_stats_dir dir, enum l5_stats_call call)
{
	if (l5_unlikely(s))
		stats_count(s, fd, dir, call);
}

/* A wait without sleep is over, that found something or not. */
static inline void stats_look(struct l5_stats_sock *s, enum l5_stats_dir dir,
			      bool paid)
{
	if (l5_unlikely(s))
		stats_count_look(s, dir, paid);
}

/* A call goes to the kernel before the socket was looked at. */
static inline void stats_left(int fd, enum l5_stats_dir dir,
			      enum l5_stats_call call)
{
	if (l5_unlikely(stats_wanted))
		stats_count_left(fd, dir, call);
}

/* poll() and relatives, with a mapped socket among what is asked about */
static inline void stats_poll(enum l5_stats_call call)
{
	if (l5_unlikely(stats_wanted))
		stats_count_poll(call);
}

static inline void stats_poll_look(bool paid)
{
	if (l5_unlikely(stats_wanted))
		stats_count_poll_look(paid);
}

#endif /* L5_STATS_H */
