// SPDX-License-Identifier: GPL-2.0
/*
 * Mapped sockets: their memory, and when it is free again. See sock.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fdtab.h"
#include "pays.h"
#include "signal.h"
#include "sock.h"
#include "stats.h"
#include "users.h"

enum {
	WAIT_MAX = 1000,	/* yields to a thread in a closed socket */
	POOL_BYTES = 16384,
};

/* Sockets that no thread finds any more, and memory for new sockets. */
static struct sock *_Atomic retired;
static struct sock *pool;
static atomic_flag pool_busy = ATOMIC_FLAG_INIT;
static atomic_flag reaping = ATOMIC_FLAG_INIT;

struct sock *sock_new(void)
{
	struct sock *s = NULL;
	size_t i;

	if (atomic_flag_test_and_set(&pool_busy))
		return NULL;
	if (!pool) {
		s = fd_memory(POOL_BYTES);
		for (i = 0; s && i < POOL_BYTES / sizeof(*s); i++) {
			s[i].next = pool;
			pool = &s[i];
		}
	}
	s = pool;
	if (s) {
		pool = s->next;
		atomic_fetch_add(&s->gen, 1);
	}
	atomic_flag_clear(&pool_busy);
	return s;
}

/* False: try again later. */
bool sock_free(struct sock *s)
{
	if (atomic_flag_test_and_set(&pool_busy))
		return false;
	s->next = pool;
	pool = s;
	atomic_flag_clear(&pool_busy);
	return true;
}

/*
 * A thread that is inside rings the peer's bell by the descriptor's number,
 * which is about to mean nothing, or something else. It is not for long: nobody
 * sleeps inside.
 */
void sock_wait_for_others(struct sock *s)
{
	int saved = errno, i;

	for (i = 0; i < WAIT_MAX && users_others_in(s); i++)
		syscall(SYS_sched_yield);
	errno = saved;
}

void sock_retire(struct sock *s)
{
	struct sock *old = atomic_load(&retired);

	do
		s->next = old;
	while (!atomic_compare_exchange_weak(&retired, &old, s));
}

/*
 * Free what was retired and no thread uses. The barrier: a thread has published
 * what it uses, or will find that it is not in the table any more.
 */
static void reap(void)
{
	struct sock *s, *next;
	int saved = errno;

	if (!atomic_load(&retired) || atomic_flag_test_and_set(&reaping))
		return;
	s = atomic_exchange(&retired, NULL);
	/* the look at what is published is not to move up */
	if (users_barrier()) {
		/* a filter of system calls, perhaps: then nothing is freed */
		for (; s; s = next) {
			next = s->next;
			sock_retire(s);
		}
	}
	for (; s; s = next) {
		next = s->next;
		if (users_in(s)) {
			sock_retire(s);
			continue;
		}
		if (s->map) {
			atomic_fetch_sub(&fd_mapped, 1);
			/* or it was a parent's socket, not closed there */
			if (l5_map_mine(s->map)) {
				stats_closed(s->stat);
				if (s->side)
					pays_ended(s->side,
						   atomic_load(&s->calls));
			}
		}
		l5_map_put(s->map);
		s->map = NULL;
		if (!sock_free(s))
			sock_retire(s);
	}
	atomic_flag_clear(&reaping);
	errno = saved;
}

void sock_put(struct sock *s)
{
	uintptr_t held;

	if (atomic_fetch_sub(&s->refs, 1) != 1)
		return;
	held = sig_hold();
	sock_retire(s);
	reap();
	sig_release(held);
}

/* One more word refers to the socket, unless that is already on its way out. */
bool sock_get(struct sock *s)
{
	unsigned int n = atomic_load(&s->refs);

	while (n)
		if (atomic_compare_exchange_weak(&s->refs, &n, n + 1))
			return true;
	return false;
}

/* Another thread may have been at it in the parent. */
void sock_forget_parent(void)
{
	atomic_flag_clear(&pool_busy);
	atomic_flag_clear(&reaping);
}
