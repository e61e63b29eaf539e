/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kernel's clock, whatever the program takes for the time.
 *
 * A program's clock_gettime() may be another library's, which stands still or
 * runs backwards; a wait by such a clock never ends. In a machine that was
 * stopped even the kernel's clock may not move as it should. So a waiting
 * thread counts its looks as well.
 */
#ifndef L5_CLOCK_H
#define L5_CLOCK_H

#include <stdint.h>
#include <time.h>

/*
 * As clock_gettime(), but without errno: the kernel's own function, found by
 * l5_clock_find(); until then the bare system call. Tests put their own here.
 */
extern int (*l5_clock_gettime)(clockid_t clock, struct timespec *t);

/**
 * l5_clock_find() - have the clock read without a system call, if possible
 *
 * Any number of times and in any thread. Allocates nothing, keeps errno.
 */
void l5_clock_find(void);

/**
 * l5_map_now() - monotonic nanoseconds
 */
uint64_t l5_map_now(void);

/**
 * l5_since() - how much time went by
 * @now: from l5_map_now()
 * @start: from l5_map_now(), before @now
 *
 * Return: nanoseconds; none by a clock that ran backwards.
 */
static inline uint64_t l5_since(uint64_t now, uint64_t start)
{
	return now > start ? now - start : 0;
}

#endif /* L5_CLOCK_H */
