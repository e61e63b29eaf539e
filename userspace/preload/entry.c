// SPDX-License-Identifier: GPL-2.0
/*
 * The table of descriptors: its entries. See fdtab.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>

#include "entry.h"
#include "epoll.h"
#include "fdtab.h"
#include "pays.h"
#include "sock.h"
#include "stats.h"
#include "unmapped.h"
#include "users.h"

/* Most programs need no other. */
static struct fd_entry first_chunk[FD_CHUNK];
struct fd_entry *_Atomic fd_chunks[FD_CHUNKS] = { first_chunk };

struct fd_entry *fd_entry_make(int fd)
{
	struct fd_entry *c, *old = NULL;
	size_t len = FD_CHUNK * sizeof(*c);
	int saved = errno;

	if (fd < 0 || fd >= FD_CHUNK * FD_CHUNKS)
		return NULL;
	c = fd_entry(fd);
	if (c)
		return c;
	if (!fd_own_begin())
		return NULL;
	c = fd_memory(len);
	/* AZ, pairs with BA: the memory, which is zeros, then where it is */
	if (c && !atomic_compare_exchange_strong(&fd_chunks[fd >>
							    FD_CHUNK_BITS],
						 &old, c)) {
		munmap(c, len);
		c = old;
	}
	fd_own_end();
	errno = saved;
	return c ? &c[fd & (FD_CHUNK - 1)] : NULL;
}

/* What a word referred to is referred to no more. */
void word_put(uintptr_t word)
{
	if (fd_is_sock(word))
		sock_put((struct sock *)word);
	else if ((word & FD_KIND) == FD_EP)
		ep_put((struct ep *)(word - FD_EP));
}

bool entry_empty(struct fd_entry *e)
{
	/* BA, pairs with AZ */
	return !atomic_load_explicit(&e->word, memory_order_acquire) &&
	       !atomic_load_explicit(&e->reg, memory_order_relaxed);
}

/* Is there more to it than a count? */
bool entry_matters(struct fd_entry *e)
{
	uintptr_t word = atomic_load_explicit(&e->word, memory_order_relaxed);

	return fd_is_sock(word) || word & FD_EP ||
	       atomic_load_explicit(&e->reg, memory_order_relaxed);
}

/*
 * A count is simply dropped. A word that takes calls of ours to drop stays
 * where no such calls are made, and is never looked at again.
 */
void entry_clear(struct fd_entry *e, int fd)
{
	struct reg *r;
	uintptr_t word;
	bool own;

	do {
		word = atomic_load(&e->word);
		own = entry_matters(e);
		if (own && !fd_own_begin())
			return;
		if (atomic_compare_exchange_strong(&e->word, &word, 0))
			break;
		if (own)
			fd_own_end();
	} while (1);
	r = atomic_exchange(&e->reg, NULL);
	if (r)
		reg_dead(r);
	if (fd_is_sock(word))
		sock_wait_for_others((struct sock *)word);
	if (fd_far(word) && FD_SIDE(word))
		pays_ended(FD_SIDE(word), FD_USES(word));
	if (l5_unlikely(stats_wanted)) {
		if ((word & FD_KIND) == FD_COUNTS)
			unmapped_closed(fd, word);
		else if (word == FD_OTHER)
			stats_forget(fd);
	}
	word_put(word);
	if (own)
		fd_own_end();
}
