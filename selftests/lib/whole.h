/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Messages of which each says how long it is, and has a pattern that begins
 * there: so it can be told whether one is whole. After kselftest_harness.h.
 */
#ifndef WHOLE_H
#define WHOLE_H

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "l5test.h"

/* A message of @len bytes, at least 4 */
static inline void whole_make(uint8_t *buf, uint32_t len)
{
	memcpy(buf, &len, sizeof(len));
	l5_fill(buf + sizeof(len), len - sizeof(len), len);
}

static inline bool whole_is(const uint8_t *buf, ssize_t n)
{
	uint32_t len;

	memcpy(&len, buf, sizeof(len));
	if (n != (ssize_t)len) {
		l5_fatal("%zd bytes of a message of %u", n, len);
		return false;
	}
	return l5_check(buf + sizeof(len), len - sizeof(len), len) < 0;
}

/**
 * struct whole_kill - senders that are killed, whatever they are at
 * @send: sends such messages for ever, in a child
 * @take: receives one into @buf, without waiting; -1 with errno
 * @arg: for both
 * @buf: for @take
 * @size: of @buf
 */
struct whole_kill {
	void (*send)(void *arg, uint64_t seed);
	ssize_t (*take)(void *arg, void *buf, size_t size);
	void *arg;
	uint8_t *buf;
	size_t size;
};

/* Take all there are: is each one whole? */
static inline bool whole_drain(const struct whole_kill *k)
{
	ssize_t n;

	while ((n = k->take(k->arg, k->buf, k->size)) > 0)
		if (!whole_is(k->buf, n))
			return false;
	return n < 0 && errno == EAGAIN;
}

/* Kill so many senders, each after a few milliseconds at most. */
static inline bool whole_after_kills(const struct whole_kill *k, int times)
{
	uint64_t seed = l5_seed();
	struct timespec t = { 0 };
	bool ok = true;
	pid_t pid;

	while (ok && times--) {
		pid = fork();
		if (!pid) {
			k->send(k->arg, seed + times);
			_exit(1);
		}
		t.tv_nsec = l5_rnd(&seed) % 5000000;
		nanosleep(&t, NULL);
		kill(pid, SIGKILL);
		ok = pid > 0 && whole_drain(k);
		waitpid(pid, NULL, 0);
	}
	return ok && whole_drain(k);
}

#endif /* WHOLE_H */
