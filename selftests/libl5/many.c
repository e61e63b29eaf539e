// SPDX-License-Identifier: GPL-2.0
/*
 * libl5: ten thousand connections of one process, both ends mapped. They cost
 * few mappings, and little memory once they say nothing. That needs a machine
 * with 4 GiB, which run_many makes; in a smaller one there are 500.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "libl5_pair.h"
#include "ends.h"

enum {
	COUNT = 10000,
	SMALL = 500,
	KIB_EACH = 40,		/* of rings and control pages, both ends */
	MAPPINGS = 65530,	/* that a process may have, and COUNT needs */
	LARGE = 100000,		/* bytes, far more than a ring has at first */
	IDLE_MS = 5000,		/* before a ring gives its memory back */
};

struct both {
	struct l5_stream *c, *s;
};

static long lines_of(const char *path)
{
	FILE *f = fopen(path, "re");
	long n = 0;
	int ch;

	while (f && (ch = getc(f)) != EOF)
		n += ch == '\n';
	if (f)
		fclose(f);
	return n;
}

FIXTURE(libl5_many)
{
	struct both *b;
	long idle_ms;
	int n;
};

FIXTURE_SETUP(libl5_many)
{
	struct rlimit nofile = { 2 * COUNT + 100, 2 * COUNT + 100 };

	l5_or_skip();
	self->n = l5_memory_kb("MemTotal") < 3500000 ? SMALL : COUNT;
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &nofile));
	self->b = calloc(self->n, sizeof(*self->b));
	ASSERT_NE(NULL, self->b);
	/* so long that all that have much to say can say it meanwhile */
	self->idle_ms = l5_sysctl("idle_ms", IDLE_MS * l5_slow());
	ASSERT_LE(0, self->idle_ms);
}

FIXTURE_TEARDOWN(libl5_many)
{
	l5_sysctl("idle_ms", self->idle_ms);
	free(self->b);
}

/* Some bytes there and back. */
static bool echo(const struct both *b, uint64_t at)
{
	char buf[64], got[64];

	l5_fill(buf, sizeof(buf), at);
	if (l5_send(b->c, buf, sizeof(buf), 0) != sizeof(buf) ||
	    l5_recv(b->s, got, sizeof(got), MSG_WAITALL) != sizeof(got) ||
	    l5_send(b->s, got, sizeof(got), 0) != sizeof(got))
		return false;
	memset(got, 0, sizeof(got));
	return l5_recv(b->c, got, sizeof(got), MSG_WAITALL) == sizeof(got) &&
	       l5_check(got, sizeof(got), at) == -1;
}

static bool burst(const struct both *b)
{
	static char buf[LARGE];

	l5_fill(buf, LARGE, 0);
	if (l5_send(b->c, buf, LARGE, 0) != LARGE)
		return false;
	memset(buf, 0, LARGE);
	return l5_recv(b->s, buf, LARGE, MSG_WAITALL) == LARGE &&
	       l5_check(buf, LARGE, 0) == -1;
}

static long each_kb(int n)
{
	return (l5_stat("rings_kb") + n - 1) / n;
}

TEST_F_TIMEOUT(libl5_many, idle, 900)
{
	long maps, used = l5_memory_kb("MemAvailable");
	int i, listener, n = self->n;
	struct place at;

	listener = place_listen(&at, NULL);
	ASSERT_LE(0, listener);
	for (i = 0; i < n; i++) {
		struct both *b = &self->b[i];

		b->c = place_connect(&at, SOCK_CLOEXEC);
		ASSERT_NE(NULL, b->c) {
			TH_LOG("connection %d: %s", i, strerror(errno));
		}
		b->s = l5_accept(listener, SOCK_CLOEXEC);
		ASSERT_NE(NULL, b->s);
		ASSERT_TRUE(echo(b, i));
		ASSERT_TRUE(l5_stream_mapped(b->c)) {
			TH_LOG("connection %d: %s", i, strerror(errno));
		}
		ASSERT_TRUE(l5_stream_mapped(b->s)) {
			TH_LOG("connection %d: %s", i, strerror(errno));
		}
	}
	maps = lines_of("/proc/self/maps");
	used -= l5_memory_kb("MemAvailable");
	TH_LOG("%ld mappings; %ld KiB a connection, rings and control %ld KiB",
	       maps, used / n, each_kb(n));
	EXPECT_GT(MAPPINGS / (COUNT / n), maps);
	EXPECT_GE(KIB_EACH, each_kb(n));
	/* in turn, and some have much to say */
	for (i = 0; i < n; i++)
		ASSERT_TRUE(echo(&self->b[i], n + i));
	for (i = 0; i < n; i += 10)
		ASSERT_TRUE(burst(&self->b[i]));
	EXPECT_LT(KIB_EACH, each_kb(n));
	/* then nothing */
	EXPECT_TRUE(L5_UNTIL(each_kb(n) <= KIB_EACH,
			     10 * IDLE_MS * l5_slow()));
	for (i = 0; i < n; i += 7)
		ASSERT_TRUE(echo(&self->b[i], 2 * n + i));
	for (i = 0; i < n; i++) {
		EXPECT_EQ(0, l5_close(self->b[i].c));
		EXPECT_EQ(0, l5_close(self->b[i].s));
	}
	close(listener);
	EXPECT_TRUE(end_stat_reaches("rings_kb", 0));
}

TEST_HARNESS_MAIN
