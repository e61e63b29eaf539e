// SPDX-License-Identifier: GPL-2.0
/*
 * To be preloaded: time stands still, or does what STILL says: "back" runs
 * backwards, "jump" goes to the other end of the world with every look.
 * Functions that give way to other threads, or sleep, do nothing.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long next(void)
{
	static long looks;
	const char *how = getenv("STILL");

	if (how && !strcmp(how, "back"))
		return 1000000000 - __atomic_fetch_add(&looks, 1,
						       __ATOMIC_RELAXED);
	if (how && !strcmp(how, "jump"))
		return 1000 + __atomic_fetch_add(&looks, 1,
						 __ATOMIC_RELAXED) %
			2 * 1000000000;
	return 1000;
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
	(void)clock;
	*t = (struct timespec){ next(), 0 };
	return 0;
}

int gettimeofday(struct timeval *t, void *zone)
{
	(void)zone;
	*t = (struct timeval){ next(), 0 };
	return 0;
}

time_t time(time_t *t)
{
	time_t now = next();

	if (t)
		*t = now;
	return now;
}

int sched_yield(void)
{
	return 0;
}

int nanosleep(const struct timespec *t, struct timespec *left)
{
	(void)t;
	(void)left;
	return 0;
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *t,
		    struct timespec *left)
{
	(void)clock;
	(void)flags;
	return nanosleep(t, left);
}

int usleep(useconds_t us)
{
	(void)us;
	return 0;
}
