// SPDX-License-Identifier: GPL-2.0
/*
 * Is this the process that made a map, or a child of fork()? See life.h.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <unistd.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "adapt.h"
#include "life.h"

/* Before the first map no mapping is this process's. */
static const uint32_t l5_map_nolife;
const uint32_t *l5_map_life = &l5_map_nolife;

static struct {
	uint32_t life;		/* the last given */
	int ready;
	int lock;
} l5_map_env;

/* One at a time; taken for ever in a child of fork() if a thread had it. */
static void l5_map_env_lock(void)
{
	int me = syscall(SYS_getpid), old;

	for (;;) {
		old = l5_load(&l5_map_env.lock);
		if (old != me && l5_cmpxchg(&l5_map_env.lock, old, me))
			return;
		syscall(SYS_sched_yield);
	}
}

int l5_map_live(void)
{
	long page = sysconf(_SC_PAGESIZE);
	uint32_t *word;

	/* a page of its own, also the parent's that is still there */
	if (l5_likely(l5_load(l5_map_life)))
		return 0;
	l5_map_env_lock();
	if (!l5_map_env.ready) {
		word = mmap(NULL, page, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (word == MAP_FAILED ||
		    madvise(word, page, MADV_WIPEONFORK)) {
			if (word != MAP_FAILED)
				munmap(word, page);
			l5_store_release(&l5_map_env.lock, 0);
			return -1;
		}
		l5_adapt_calibrate();
		l5_map_env.ready = 1;
		__atomic_store_n(&l5_map_life, word, __ATOMIC_RELEASE);
	}
	word = (uint32_t *)(uintptr_t)l5_map_life;
	if (!l5_load(word))
		l5_store(word, ++l5_map_env.life);
	l5_store_release(&l5_map_env.lock, 0);
	return 0;
}
