/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What receiving and sending have in common: see io.c.
 */
#ifndef L5_IO_H
#define L5_IO_H

#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "../lib/at.h"
#include "fdtab.h"
#include "real.h"
#include "signal.h"
#include "stats.h"

/* What these functions return when the caller is to make its system call. */
#define TO_KERNEL	((ssize_t)-2)

/* Neither NULL nor any of its neighbours, nor the kernel's half. */
static inline bool may_be_memory(const void *p)
{
	return (uintptr_t)p >= 65536 && (intptr_t)p > 0;
}

/**
 * struct pause - what is left of a wait when it is the kernel's turn
 * @start: when the last look began
 * @tx: for room
 * @slept: the kernel is to sleep, so there is something to learn from it
 */
struct pause {
	uint64_t start;
	bool tx;
	bool slept;
};

/**
 * io_pause() - a wait goes on in the kernel
 * @p: what is left of it
 * @w: how it waited
 *
 * Return: false if a signal ended it, so that it does not.
 */
static inline bool io_pause(struct pause *p, const struct l5_wait *w)
{
	bool came = w->vain && !l5_wait_quiet(w);

	p->start = w->start;
	p->slept = w->vain && !came;
	return !came;
}

/**
 * io_woke() - the system call is back: would a longer wait have been worth
 *	while?
 * @fd: the descriptor
 * @p: of that call
 */
void io_woke(int fd, const struct pause *p);

/**
 * io_interrupted() - signals came while the call waited, and were handled
 * @fd: the descriptor
 * @w: how it waited
 * @tx: for room
 *
 * Return: -1 with EINTR, or TO_KERNEL if the call goes on, as it does not where
 * it has a time-out.
 */
ssize_t io_interrupted(int fd, const struct l5_wait *w, bool tx);

/* The lock word is held by this very thread: -1, with errno. */
static inline ssize_t io_nested(const struct sock *s, int flags)
{
	errno = sock_nonblocking(s) || flags & MSG_DONTWAIT ? EAGAIN : EINTR;
	return -1;
}

/**
 * send_passes() - a message is about to be sent, perhaps with descriptors
 * @msg: the message
 *
 * From now on another process has them, too.
 */
void send_passes(const struct msghdr *msg);

/* Are these buffers for the kernel to see: none, too many, or no memory? */
bool io_odd(const struct iovec *iov, int n, size_t *len);

/**
 * struct io_rest - what is left of a call, for the kernel
 * @fd: the descriptor
 * @s: the socket, not in use any more; only for io_rest_of()
 * @gen: its number, while it was in use
 * @at: where the call is in its buffers
 * @flags: MSG_*
 * @one: the program's call has one buffer
 * @dontwait: it does not block
 * @seen: signals that had come when it began
 * @call: make a system call for some buffers; bytes, or -1 with errno
 */
struct io_rest {
	int fd;
	const struct sock *s;
	unsigned int gen;
	struct at at;
	int flags;
	bool one;
	bool dontwait;
	uint64_t seen;
	ssize_t (*call)(const struct io_rest *r, const struct iovec *v, int n);
};

/**
 * io_rest() - let the kernel move what is left of a call
 * @r: the call, which has moved something
 *
 * An error is for the next call to tell: L5_MSG_BELL has the kernel keep it.
 * Leaves errno alone.
 *
 * Return: how many bytes more were moved.
 */
size_t io_rest(struct io_rest *r);

/* The number of a socket in use, for struct io_rest */
static inline unsigned int sock_gen(const struct sock *s)
{
	return atomic_load_explicit(&s->gen, memory_order_relaxed);
}

/* What the kernel is asked for, once the rings had nothing more to say. */
static inline enum l5_stats_call call_of(const struct sock *s, ssize_t ret,
					 bool slept, bool dontwait,
					 enum l5_stats_call full)
{
	if (slept)
		return L5_STATS_SLEPT;
	if (ret == L5_TRY_ASK && l5_map_gone(s->map))
		return L5_STATS_LEFT;
	if (ret == L5_TRY_ASK || ret == L5_TRY_ROOM)
		return L5_STATS_ASKED;
	return ret == L5_TRY_AGAIN && dontwait ? full : L5_STATS_LOCKED;
}

/*
 * The first attempt, and if it is the kernel's turn the plain call; @ret is
 * what both return into, @p has to be there.
 */
#define THEN(ret, fd, p, call) do {					\
	if (l5_likely((ret) == TO_KERNEL)) {				\
		sig_settle();						\
		(ret) = (call);						\
		if (l5_unlikely((p)->slept))				\
			io_woke((fd), (p));				\
	}								\
} while (0)

#endif /* L5_IO_H */
