// SPDX-License-Identifier: GPL-2.0
/*
 * What the library knows of descriptors: see fdtab.h.
 *
 * Most of this may run in a signal handler that interrupted any other part of
 * it. So there are no locks that a thread waits for: one that finds a lock
 * taken goes without, that is to the kernel.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "entry.h"
#include "epoll.h"
#include "fdtab.h"
#include "learn.h"
#include "process.h"
#include "signal.h"
#include "sock.h"
#include "stats.h"
#include "unmapped.h"
#include "users.h"

enum { SETTLE_MAX = 1000 };	/* ms for a thread inside anything */

atomic_uint fd_forks;

/*
 * Other threads are out in no time, but for one that has no CPU, or is stopped
 * in a debugger. Nothing else is waited for, so the wait has an end.
 */
void fd_settle(void)
{
	struct timespec ms = { .tv_nsec = 1000000 };
	int i;

	/* AI: sandbox_terms were set before */
	users_barrier();
	for (i = 0; i < SETTLE_MAX && users_inside(); i++)
		syscall(SYS_nanosleep, &ms, NULL);
	fd_left();
}

void fd_left(void)
{
	ep_unseen_all();
	atomic_store(&fd_mapped, 0);
}

/* Descriptors that come, go, and change */

/* What a child of vfork() closes is still its parent's. */
void fd_forget(int fd)
{
	struct fd_entry *e = fd_entry(fd);

	if (!e || entry_empty(e) ||
	    ((entry_matters(e) || fd_far(fd_entry_word(e))) && !fd_ours()))
		return;
	entry_clear(e, fd);
}

/* A child of vfork() may come here, too: then its parent has to learn again. */
void fd_new(int fd)
{
	struct fd_entry *e = fd_entry(fd);

	if (e && !entry_empty(e))
		entry_clear(e, fd);
}

static void made(int fd, uintptr_t word)
{
	struct fd_entry *e = fd_entry_make(fd);

	if (!e)
		return;
	entry_clear(e, fd);
	/* a sock or a set that a parent of vfork() has there was cleared */
	atomic_store(&e->word, word);
}

/* A count of 0 for a new socket */
static uintptr_t fresh(enum l5_side side)
{
	return (uintptr_t)atomic_load(&fd_forks) << 32 | FD_OF_SIDE(side) |
	       FD_MADE | FD_COUNTS;
}

void fd_made(int fd, bool other)
{
	made(fd, other ? FD_OTHER : fresh(L5_SIDE_CONNECTED));
}

void fd_accepted(int fd)
{
	made(fd, fresh(L5_SIDE_ACCEPTED));
}

void fd_leave(int fd)
{
	struct fd_entry *e = fd_entry(fd);
	uintptr_t word = e ? atomic_load(&e->word) : 0;

	if ((word & FD_KIND) == FD_COUNTS && fd_ours())
		atomic_compare_exchange_strong(&e->word, &word, FD_OTHER);
}

void fd_shared(int fd)
{
	struct fd_entry *e = fd_entry(fd);
	uintptr_t word = e ? atomic_load(&e->word) : 0;
	struct sock *s;
	struct ep *ep;

	/* first: a thread that maps it finds the word changed, or is found */
	while ((word & FD_KIND) == FD_COUNTS && word & FD_MADE)
		if (atomic_compare_exchange_weak(&e->word, &word,
						 word & ~FD_MADE))
			break;
	s = sock_look(fd);
	if (s) {
		atomic_store(&s->forks, UINT32_MAX);
		sock_done();
	}
	ep = fd_ep(fd);
	if (ep)
		ep_shared(ep);
}

void fd_forget_range(unsigned int first, unsigned int last)
{
	bool ours = fd_ours();
	unsigned int fd;

	if (!ours)
		return;
	if (last >= FD_CHUNK * FD_CHUNKS)
		last = FD_CHUNK * FD_CHUNKS - 1;
	for (fd = first; fd <= last; fd++) {
		struct fd_entry *e = fd_entry(fd);

		if (!e)
			fd |= FD_CHUNK - 1;
		else if (!entry_empty(e))
			entry_clear(e, fd);
	}
}

/*
 * It is not known yet whether it is to be mapped, but which end it is. A flag
 * may be set by either number, and is then not noted of the other.
 */
static void copy_side(int from, int to)
{
	uintptr_t word = fd_word(from), none = 0;
	struct fd_entry *e;

	if ((word & FD_KIND) != FD_COUNTS || !(word & FD_SIDES) || !fd_ours())
		return;
	fd_shared(from);
	e = fd_entry_make(to);
	if (e)
		atomic_compare_exchange_strong(&e->word, &none,
					       (word & FD_SIDES) | FD_COUNTS);
}

/*
 * The copy becomes what the original is now known to have been when the copy
 * was made: if nothing was closed up to now.
 */
void fd_copy(int from, int to, struct fd_seen seen)
{
	struct fd_entry *e;
	struct sock *s;
	struct ep *ep;

	fd_new(to);
	ep = fd_ep(from);
	if (ep)
		ep_shared(ep);
	s = sock_look(from);
	if (!s) {
		copy_side(from, to);
		return;
	}
	e = fd_ours() ? fd_entry_make(to) : NULL;
	if (e && (uintptr_t)s == seen.word &&
	    l5_map_watched(s->map) == seen.watch && sock_get(s)) {
		atomic_store(&e->watch, seen.watch);
		word_put(atomic_exchange(&e->word, (uintptr_t)s));
	} else {
		/* what is done by the copy is not noted of it */
		atomic_store(&s->forks, UINT32_MAX);
	}
	sock_done();
}

void fd_set_ep(int fd, void *ep)
{
	struct fd_entry *e = fd_entry_make(fd);

	if (e)
		word_put(atomic_exchange(&e->word, (uintptr_t)ep + FD_EP));
}

void fd_flag(int fd, unsigned int flag, bool on)
{
	struct sock *s = sock_look(fd);

	if (!s)
		return;
	if (on)
		atomic_fetch_or(&s->flags, flag);
	else
		atomic_fetch_and(&s->flags, ~flag);
	sock_done();
}

/* Tables of descriptors */

void fd_doubt(void)
{
	struct fd_entry *e;
	int i, j;

	for (i = 0; i < FD_CHUNKS; i++) {
		e = atomic_load(&fd_chunks[i]);
		for (j = 0; e && j < FD_CHUNK; j++, e++)
			/* what no socket says */
			atomic_store(&e->watch, 0);
	}
}

void fd_give_up(void)
{
	int saved = errno, i, j;
	struct fd_entry *e;
	uintptr_t word;

	if (!fd_ours())
		return;
	unmapped_never(L5_STATS_HOW_APART);
	fd_map_after = -1;
	/* a thread that is about to enter a word sees that, or is seen here */
	for (i = 0; i < FD_CHUNKS; i++) {
		e = atomic_load(&fd_chunks[i]);
		for (j = 0; e && j < FD_CHUNK; j++) {
			word = atomic_load(&e[j].word);
			if (fd_is_sock(word))
				entry_clear(&e[j], i * FD_CHUNK + j);
			else if ((word & FD_KIND) == FD_EP)
				ep_shared((struct ep *)(word - FD_EP));
		}
	}
	errno = saved;
}

/* Processes */

/* From now on a child may change what the descriptors share. */
void fd_children(void)
{
	int saved = errno;

	atomic_fetch_add(&fd_forks, 1);
	ep_unseen_all();
	errno = saved;
}

static void in_child(void)
{
	process_in_child();
	if (sandbox_untried())
		return;
	process_child();
	sig_in_child();
	fd_ours();
}

void fd_live(void)
{
	int saved = errno;

	sig_start();
	if (!process_live()) {
		fd_map_after = -1;
		return;
	}
	learn_live();
	errno = saved;
}

void fd_start(int after, int maps)
{
	pthread_atfork(fd_children, fd_children, in_child);
	learn_start(after, maps);
	if (after < 0)
		unmapped_never(policy_how());
	if (!sandbox_untried())
		fd_live();
}
