// SPDX-License-Identifier: GPL-2.0
/*
 * Is this the process whose descriptors the table has? See process.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/membarrier.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "entry.h"
#include "epoll.h"
#include "fdtab.h"
#include "process.h"
#include "sock.h"
#include "stats.h"
#include "users.h"

#define REGISTER	MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED

static atomic_flag forgetting = ATOMIC_FLAG_INIT;

static atomic_int fd_nolife = 1;
static atomic_int *life = &fd_nolife;
const atomic_int *fd_life = &fd_nolife;

/*
 * In a child of fork(): this thread is the only one, and anything that it was
 * in the middle of in the parent is over. Words are cleared before objects are
 * put, so that a second thread, if the child was quick to make one, finds
 * nothing.
 */
static void forget_parent(void)
{
	struct fd_entry *e;
	struct sock *s;
	uintptr_t word;
	int i, j;

	stats_forked();
	sock_forget_parent();
	users_forget_parent();
	ep_forget_parent();
	for (i = 0; i < FD_CHUNKS; i++) {
		e = atomic_load(&fd_chunks[i]);
		for (j = 0; e && j < FD_CHUNK; j++, e++) {
			atomic_store(&e->reg, NULL);
			word = atomic_load(&e->word);
			/* of the sets it is known that they are shared */
			if (!fd_is_sock(word))
				continue;
			s = (struct sock *)word;
			atomic_store(&e->word, FD_OF_SIDE(s->side) | FD_COUNTS |
				     FD_ONCE * atomic_load(&s->calls));
			sock_put(s);
		}
	}
}

static bool ours(void)
{
	int pid = syscall(SYS_getpid);

	if (l5_unlikely(fd_forked())) {
		/* a second thread of the child, or a handler, does without */
		if (atomic_flag_test_and_set(&forgetting))
			return false;
		if (fd_forked()) {
			if (!users_fenced() &&
			    syscall(SYS_membarrier, REGISTER, 0, 0))
				atomic_fetch_or(&sandbox_terms,
						SANDBOX_FENCED);
			forget_parent();
			atomic_store(life, pid);
		}
		atomic_flag_clear(&forgetting);
	}
	return atomic_load_explicit(life, memory_order_relaxed) == pid;
}

bool fd_ours(void)
{
	int saved = errno;
	bool is;

	/* until it is tried out there is nothing that could be */
	if (sandbox_untried() || !fd_own_begin())
		return false;
	is = ours();
	fd_own_end();
	errno = saved;
	return is;
}

void process_in_child(void)
{
	/* another thread may have been at it in the parent */
	atomic_flag_clear(&forgetting);
}

void process_child(void)
{
	atomic_store(life, 0);
}

bool process_live(void)
{
	size_t page = sysconf(_SC_PAGESIZE);
	atomic_int *word = fd_memory(page);

	if (!word || madvise(word, page, MADV_WIPEONFORK))
		return false;
	atomic_store(word, (int)syscall(SYS_getpid));
	life = word;
	fd_life = word;
	if (!syscall(SYS_membarrier, REGISTER, 0, 0))
		atomic_fetch_and(&sandbox_terms, ~SANDBOX_FENCED);
	return true;
}
