// SPDX-License-Identifier: GPL-2.0
/*
 * libl5: a process shares an end and forges its lock words under another that
 * uses that end by the library: each call is back when a socket's would be,
 * also those of zero copy, which have no system call to leave it to.
 */
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "forged.h"
#include "libl5.h"

FIXTURE(libl5_forged)
{
	int none;
};

FIXTURE_VARIANT(libl5_forged)
{
	const char *at;
};

FIXTURE_VARIANT_ADD(libl5_forged, inet)
{
	.at = "127.0.0.1:0",
};

FIXTURE_VARIANT_ADD(libl5_forged, unix)
{
	.at = "abstract:l5_libl5_forged",
};

FIXTURE_SETUP(libl5_forged)
{
	l5_or_skip();
	signal(SIGPIPE, SIG_IGN);
	ASSERT_TRUE(net_unshare());
	l5_sysctl("match_ms", 10000);
	l5_sysctl("grow_ms", 0);
}

FIXTURE_TEARDOWN(libl5_forged)
{
	(void)self;
}

static bool begin(struct forged *f)
{
	f->arg = l5_map(f->fd);
	return f->arg && l5_stream_mapped(f->arg);
}

/* Something to receive, by a way that is not forged */
static void more(struct forged *f)
{
	syscall(SYS_sendto, f->peer, "y", 1, MSG_DONTWAIT, NULL, 0);
}

static ssize_t by_send(struct forged *f)
{
	return l5_send(f->arg, "x", 1, dontwait(f));
}

static ssize_t by_recv(struct forged *f)
{
	char c;

	more(f);
	return l5_recv(f->arg, &c, 1, dontwait(f));
}

static ssize_t by_reserve(struct forged *f)
{
	ssize_t n;
	void *p;

	n = l5_reserve(f->arg, &p, 1, dontwait(f));
	if (n <= 0)
		return n;
	memset(p, 'x', 1);
	return l5_commit(f->arg, 1);
}

static ssize_t by_peek(struct forged *f)
{
	const void *p;
	ssize_t n;

	more(f);
	n = l5_peek(f->arg, &p, dontwait(f));
	if (n <= 0)
		return n;
	return l5_release(f->arg, 1) ? -1 : 1;
}

static const struct forged_game games[] = {
	{ "l5_send", begin, by_send },
	{ "l5_recv", begin, by_recv },
	{ "l5_reserve", begin, by_reserve },
	{ "l5_peek", begin, by_peek },
};

static void plays(struct __test_metadata *_metadata, const char *at,
		  enum patience how)
{
	unsigned int i;
	int what;

	for (i = 0; i < ARRAY_SIZE(games); i++)
		for (what = 0; what < FORGERIES; what++)
			EXPECT_TRUE(forged_play(&games[i], at, what, how));
}

TEST_F_TIMEOUT(libl5_forged, dontwait, 600)
{
	plays(_metadata, variant->at, P_NONE);
}

TEST_F_TIMEOUT(libl5_forged, timeout, 600)
{
	plays(_metadata, variant->at, P_TIME);
}

TEST_F_TIMEOUT(libl5_forged, interrupted, 600)
{
	plays(_metadata, variant->at, P_SIGNAL);
}

TEST_F_TIMEOUT(libl5_forged, killed, 600)
{
	plays(_metadata, variant->at, P_KILL);
}

TEST_HARNESS_MAIN
