/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Programs that give up system calls: seccomp(2) and its relatives.
 *
 * The library makes system calls that the program never asked for, and a filter
 * that knows nothing of them may answer what it likes, or kill. So there is a
 * state, of the whole process and its children, in which the library is
 * "careful": it makes no call of its own, learns nothing about descriptors,
 * maps and unmaps nothing, frees nothing, asks for no time. Each call of the
 * program's goes to the kernel as it is, which is right whatever is mapped, for
 * the kernel is coherent with that. That state is never left again, except by
 * exec().
 *
 * A process that asks for a filter, by prctl() or syscall(), is careful before
 * the filter is there, and by then no other thread is in the middle of a call
 * of ours. A filter that was there before the program is tried out by a child,
 * when the library first has a use for calls of its own. Should one of these be
 * refused all the same, the library makes no more.
 */
#ifndef L5_SANDBOX_H
#define L5_SANDBOX_H

#include <stdatomic.h>
#include <stdbool.h>

#include "../lib/map.h"

enum {
	SANDBOX_CAREFUL = 1,	/* no call but the program's */
	SANDBOX_SETTLED = 2,	/* and none is still being made */
	SANDBOX_UNTRIED = 4,	/* there is a filter that is not known */
	SANDBOX_PLAIN = 8,	/* it allows no socket of our family */
	SANDBOX_FENCED = 16,	/* nor membarrier(2): see process.c */
};

extern atomic_uint sandbox_terms;

/* Does the library make no call of its own any more? */
static inline bool sandbox_careful(void)
{
	return l5_unlikely(atomic_load_explicit(&sandbox_terms,
						memory_order_relaxed) &
			   SANDBOX_CAREFUL);
}

/* Is there a filter that was not tried out? */
static inline bool sandbox_untried(void)
{
	return l5_unlikely(atomic_load_explicit(&sandbox_terms,
						memory_order_relaxed) &
			   SANDBOX_UNTRIED);
}

/* The slow half of sandbox_may(). */
bool sandbox_try(void);

/**
 * sandbox_may() - may the library make calls of its own?
 *
 * Tries out a filter that was inherited.
 */
static inline bool sandbox_may(void)
{
	unsigned int terms = atomic_load_explicit(&sandbox_terms,
						  memory_order_relaxed);

	if (l5_likely(!(terms & (SANDBOX_CAREFUL | SANDBOX_UNTRIED))))
		return true;
	return !(terms & SANDBOX_CAREFUL) && sandbox_try();
}

/**
 * sandbox_start() - is there a filter already? In the constructor
 */
void sandbox_start(void);

/**
 * sandbox_family() - with which family would sockets be made?
 * @family: its number, 0: none
 */
void sandbox_family(int family);

/**
 * sandbox_prctl() - a program is about to call prctl()
 * @op: its first argument
 * @a: the second
 * @b: the third
 */
void sandbox_prctl(long op, unsigned long a, unsigned long b);

/**
 * sandbox_seccomp() - a program is about to call seccomp()
 * @op: its first argument
 * @args: its last
 */
void sandbox_seccomp(long op, const void *args);

#endif /* L5_SANDBOX_H */
