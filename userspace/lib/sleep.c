// SPDX-License-Identifier: GPL-2.0
/*
 * libl5: sleeping, for calls that have begun already.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <time.h>
#include <unistd.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include "conn.h"

/* A time-out, ns. Longer than a process lives is for ever. */
static uint64_t timeout_ns(const struct timeval *tv)
{
	if (tv->tv_sec < 0 || tv->tv_sec >= 1000000000)
		return 0;
	return tv->tv_sec * 1000000000ull + tv->tv_usec * 1000ull;
}

/*
 * What is left of a call's time-out that began at @start, ns; *@end: when it is
 * over, 0 if that was not asked yet.
 */
static uint64_t conn_left(const struct l5_stream *c, short events,
			  uint64_t start, uint64_t *end)
{
	uint64_t now = l5_map_now();
	struct timeval tv = { 0 };
	socklen_t len = sizeof(tv);
	uint64_t ns;

	if (!*end) {
		syscall(SYS_getsockopt, c->fd, SOL_SOCKET,
			events & POLLIN ? SO_RCVTIMEO : SO_SNDTIMEO, &tv, &len);
		ns = timeout_ns(&tv);
		*end = ns ? (start ?: now) + ns : UINT64_MAX;
	}
	return now < *end ? *end - now : 0;
}

static struct timespec spec_of(uint64_t ns)
{
	return (struct timespec){ ns / 1000000000, ns % 1000000000 };
}

int l5_stream_sleep(const struct l5_stream *c, short events, uint64_t start,
		    uint64_t *end)
{
	struct pollfd p = { .fd = c->fd, .events = events };
	uint64_t left = conn_left(c, events, start, end);
	struct timespec t = spec_of(left);
	long n;

	n = syscall(SYS_ppoll, &p, 1, *end != UINT64_MAX ? &t : NULL, NULL, 0);
	if (!n)
		errno = EAGAIN;
	return n > 0 ? 0 : -1;
}

int l5_stream_lock_sleep(const struct l5_stream *c, short events,
			 uint64_t *end)
{
	struct timespec t = spec_of(1000000);

	if (!conn_left(c, events, 0, end)) {
		errno = EAGAIN;
		return -1;
	}
	if (!l5_map_lock_nap(c->fd, events & POLLIN ? L5_LOCK_RX : L5_LOCK_TX))
		return 0;
	if (errno == EINTR)
		return -1;
	return syscall(SYS_ppoll, NULL, 0, &t, NULL, 0) < 0 ? -1 : 0;
}

bool l5_stream_low(const struct l5_stream *c)
{
	socklen_t len = sizeof(int);
	int low = 1;

	syscall(SYS_getsockopt, c->fd, SOL_SOCKET, SO_RCVLOWAT, &low, &len);
	return low > 1;
}

bool l5_stream_interrupted(const struct l5_wait *w)
{
	if (!l5_signal_ends(w->seen, l5_signals))
		return false;
	errno = EINTR;
	return true;
}

/* A handler may run on a small stack, and interrupt any of these functions. */
void l5_interrupt(void)
{
	l5_signal_came(true);
}
