// SPDX-License-Identifier: GPL-2.0
/*
 * Is this the process that made a map, or a child of fork()? See life.h.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <signal.h>
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

#define SIG(n)	(1ull << ((n) - 1))

void l5_sigs_block(struct l5_sigs *was)
{
	uint64_t set = ~(SIG(SIGSEGV) | SIG(SIGBUS) | SIG(SIGILL) |
			 SIG(SIGFPE) | SIG(SIGTRAP) | SIG(SIGSYS));

	was->blocked = !syscall(SYS_rt_sigprocmask, SIG_SETMASK, &set,
				&was->set, sizeof(set));
}

void l5_sigs_restore(const struct l5_sigs *was)
{
	if (was->blocked)
		syscall(SYS_rt_sigprocmask, SIG_SETMASK, &was->set, NULL,
			sizeof(was->set));
}

/*
 * One at a time; taken for ever in a child of fork() if a thread had it. A
 * thread has no signals meanwhile: a handler would wait for it.
 */
static void l5_map_env_lock(struct l5_sigs *sigs)
{
	int me = syscall(SYS_getpid), old;

	l5_sigs_block(sigs);
	for (;;) {
		old = l5_load(&l5_map_env.lock);
		if (old != me && l5_cmpxchg(&l5_map_env.lock, old, me))
			return;
		syscall(SYS_sched_yield);
	}
}

static void l5_map_env_unlock(const struct l5_sigs *sigs)
{
	/* pairs with the exchange in l5_map_env_lock() */
	l5_store_release(&l5_map_env.lock, 0);
	l5_sigs_restore(sigs);
}

int l5_map_live(void)
{
	long page = sysconf(_SC_PAGESIZE);
	struct l5_sigs sigs;
	uint32_t *word;

	/* a page of its own, also the parent's that is still there */
	if (l5_likely(l5_load(l5_map_life)))
		return 0;
	l5_map_env_lock(&sigs);
	if (!l5_map_env.ready) {
		word = mmap(NULL, page, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (word == MAP_FAILED ||
		    madvise(word, page, MADV_WIPEONFORK)) {
			if (word != MAP_FAILED)
				munmap(word, page);
			l5_map_env_unlock(&sigs);
			return -1;
		}
		l5_adapt_calibrate();
		l5_map_env.ready = 1;
		/* AZ, pairs with BA: what was calibrated is there, too */
		__atomic_store_n(&l5_map_life, word, __ATOMIC_RELEASE);
	}
	word = (uint32_t *)(uintptr_t)l5_map_life;
	if (!l5_load(word))
		l5_store(word, ++l5_map_env.life);
	l5_map_env_unlock(&sigs);
	return 0;
}
