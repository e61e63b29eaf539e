// SPDX-License-Identifier: GPL-2.0
/*
 * Using a mapped socket: sock_use() and sock_look(), see fdtab.h.
 *
 * Most of this may run in a signal handler that interrupted any other part of
 * it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "entry.h"
#include "epoll.h"
#include "fdtab.h"
#include "learn.h"
#include "say.h"
#include "signal.h"
#include "users.h"

enum { DOUBT_MAX = 4 };	/* questions about one descriptor at a time */

/*
 * A lock word that was left with a use is for the next holder to mend, as if
 * this process had died: the kernel may be the next holder. If the record says
 * that the word may not have been taken yet, it was taken if no other thread is
 * here.
 */
static void unlock_left(struct sock *s, int fd)
{
	struct l5_held *h = &l5_held.now;
	unsigned int i, n;
	__u32 *word, old;
	bool taken;

	if (!s || !l5_map_mine(s->map))
		return;
	for (i = L5_LOCK_TX; i <= L5_LOCK_RX; i++) {
		if (h->key != s->map->key + i)
			continue;
		word = l5_map_word(s->map, i);
		old = l5_load(word);
		/* odd: for sure */
		taken = h->frame & 1 || !users_others_in(s);
		/* other threads may set and clear a bit for ever */
		for (n = 0; taken && n < L5_LOOKS &&
		     (old & L5_LOCK_ID) == s->map->id; n++) {
			if (l5_cmpxchg(word, old, (old & L5_LOCK_WAITERS) |
						  L5_LOCK_DIED))
				break;
			old = l5_load(word);
		}
		h->key = 0;
		s->map->ops->lock_wake(s->map, fd, i);
	}
}

/*
 * This thread seems to be inside already: in a handler that we do not know, or
 * in that of a fault. End the uses that such a handler has left by
 * siglongjmp(), as far as that is certain: the kernel, too, would wait for a
 * lock word that was left. An uncertain use stays there, and costs a place.
 * Returns the depth.
 */
static unsigned int end_left(struct user *u, unsigned int d, uintptr_t now)
{
	unsigned int i = 0;
	int saved = errno;

	while (i < d && !l5_frame_over(u->frame[i], now))
		i++;
	/* the uses that interrupted it are over, too */
	while (d > i) {
		d--;
		unlock_left(u->used[d], u->fd[d]);
		atomic_store(&u->used[d], NULL);
		atomic_store(&u->depth, d);
	}
	if (u->open > d)
		u->open = d;
	errno = saved;
	return d;
}

/*
 * A descriptor of this socket was closed. Was it this one? The kernel's answer
 * is that of one moment, so it is noted with what the page said just then. If
 * the page says something else, that moment is over, or it is another socket.
 * Not in a child of vfork(): these are not its descriptors.
 */
static bool sock_sure(struct fd_entry *e, int fd, const struct sock *s)
{
	uint64_t watch = 0, now = l5_map_watched(s->map);
	int saved = errno, i;
	bool sure = false;

	if (fd_ours()) {
		for (i = 0; i < DOUBT_MAX && !sure; i++) {
			if (l5_map_watch(fd, &watch))
				break;
			now = l5_map_watched(s->map);
			sure = watch == now;
		}
	}
	if (sure)
		atomic_store(&e->watch, watch);
	errno = saved;
	return sure;
}

/* It is another file's number. */
static void sock_stale(struct fd_entry *e, int fd, struct sock *s)
{
	uintptr_t word = (uintptr_t)s;
	struct reg *r;

	if (!fd_ours() || !atomic_compare_exchange_strong(&e->word, &word, 0))
		return;
	r = atomic_exchange(&e->reg, NULL);
	if (r)
		reg_dead(r);
	say("fd %d: closed by a call that the library does not see", fd);
	word_put((uintptr_t)s);
}

/* The use is published: the rest, where there are special terms. */
static bool on_terms(void)
{
	/* AI, pairs with fd_settle() */
	if (users_fenced())
		atomic_thread_fence(memory_order_seq_cst);
	return !sandbox_careful();
}

/* About: threads may lose what others count, and many are many. */
static inline void count_call(struct sock *s)
{
	unsigned int n = atomic_load_explicit(&s->calls, memory_order_relaxed);

	if (l5_unlikely(n < SOCK_CALLS))
		atomic_store_explicit(&s->calls, n + 1, memory_order_relaxed);
}

struct sock *sock_find(int fd, struct fd_entry *e, uintptr_t word, bool count)
{
	uintptr_t now = (uintptr_t)__builtin_frame_address(0);
	struct user *u = fd_me;
	struct sock *s;
	unsigned int d;

	/* read() and write() are where a thread is cancelled */
	if (count)
		pthread_testcancel();
	if (l5_unlikely(!fd_is_sock(word))) {
		if (!count || word & (FD_OTHER | FD_EP))
			return NULL;
		if (!learn_use(fd, word))
			return NULL;
		e = fd_entry(fd);
		word = fd_entry_word(e);
		if (!fd_is_sock(word))
			return NULL;
	}
	if (l5_unlikely(!u)) {
		u = users_claim();
		if (!u)
			return NULL;
	}
	d = atomic_load_explicit(&u->depth, memory_order_relaxed);
	if (l5_unlikely(d)) {
		d = end_left(u, d, now);
		if (d == NEST)
			return NULL;
	}
	u->frame[d] = now;
	u->fd[d] = fd;
	atomic_store_explicit(&u->depth, d + 1, memory_order_relaxed);
	for (;;) {
		s = (struct sock *)word;
		atomic_store_explicit(&u->used[d], s, memory_order_relaxed);
		/* pairs with reap(); and AI, with fd_settle() */
		atomic_signal_fence(memory_order_seq_cst);
		if (l5_unlikely(atomic_load_explicit(&sandbox_terms,
						     memory_order_relaxed)))
			if (!on_terms())
				goto out;
		word = fd_entry_word(e);
		if (l5_likely((struct sock *)word == s))
			break;
		if (!fd_is_sock(word))
			goto out;
	}
	if (l5_unlikely(!l5_map_mine(s->map))) {
		sock_done();
		fd_ours();
		return NULL;
	}
	if (l5_unlikely(atomic_load_explicit(&e->watch, memory_order_relaxed) !=
			l5_map_watched(s->map)) &&
	    !sock_sure(e, fd, s)) {
		sock_stale(e, fd, s);
		sock_done();
		return NULL;
	}
	if (count)
		count_call(s);
	return s;

out:
	sock_done();
	return NULL;
}

void sock_done(void)
{
	struct user *u = fd_me;
	unsigned int d = atomic_load_explicit(&u->depth,
					      memory_order_relaxed) - 1;

	/* AZ, pairs with BA in user_inside(), and in reap() */
	atomic_store_explicit(&u->used[d], NULL, memory_order_release);
	atomic_signal_fence(memory_order_seq_cst);
	atomic_store_explicit(&u->depth, d, memory_order_relaxed);
	sig_open();
}
