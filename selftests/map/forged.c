// SPDX-License-Identifier: GPL-2.0
/*
 * A process shares an end and forges its lock words: another that uses that
 * end, by system calls and, as full:, by mapped rings, does not wait for it
 * longer than its time-out says, and hears signals.
 */
#include <errno.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "forged.h"

FIXTURE(map_forged)
{
	int none;
};

FIXTURE_VARIANT(map_forged)
{
	const char *at;
};

FIXTURE_VARIANT_ADD(map_forged, inet)
{
	.at = "127.0.0.1:0",
};

FIXTURE_VARIANT_ADD(map_forged, unix)
{
	.at = "abstract:l5_map_forged",
};

FIXTURE_SETUP(map_forged)
{
	l5_or_skip();
	signal(SIGPIPE, SIG_IGN);
	ASSERT_TRUE(net_unshare());
	l5_sysctl("match_ms", 10000);
	l5_sysctl("grow_ms", 0);
}

FIXTURE_TEARDOWN(map_forged)
{
	(void)self;
}

/* Under full: the socket is mapped by then. */
static bool begin(struct forged *f)
{
	char c;

	return send(f->fd, "x", 1, 0) == 1 && recv(f->fd, &c, 1, 0) == 1;
}

static ssize_t by_send(struct forged *f)
{
	return send(f->fd, "x", 1, dontwait(f));
}

static ssize_t by_recv(struct forged *f)
{
	char c;

	/* by what nobody forges */
	syscall(SYS_sendto, f->peer, "y", 1, MSG_DONTWAIT, NULL, 0);
	return recv(f->fd, &c, 1, dontwait(f));
}

static ssize_t by_sendto(struct forged *f)
{
	return syscall(SYS_sendto, f->fd, "x", 1, dontwait(f), NULL, 0);
}

static ssize_t by_recvfrom(struct forged *f)
{
	char c;

	syscall(SYS_sendto, f->peer, "y", 1, MSG_DONTWAIT, NULL, 0);
	return syscall(SYS_recvfrom, f->fd, &c, 1, dontwait(f), NULL, NULL);
}

static const struct forged_game games[] = {
	{ "send", begin, by_send },
	{ "recv", begin, by_recv },
	{ "SYS_sendto", begin, by_sendto },
	{ "SYS_recvfrom", begin, by_recvfrom },
};

static void plays(struct __test_metadata *_metadata, const char *at,
		  enum patience how)
{
	/* without the library the first two plays are the same as the others */
	unsigned int i, n = getenv("L5_FULL") ? 4 : 2;
	int what;

	for (i = 0; i < n; i++)
		for (what = 0; what < FORGERIES; what++)
			EXPECT_TRUE(forged_play(&games[i], at, what, how));
}

TEST_F_TIMEOUT(map_forged, dontwait, 600)
{
	plays(_metadata, variant->at, P_NONE);
}

TEST_F_TIMEOUT(map_forged, timeout, 600)
{
	plays(_metadata, variant->at, P_TIME);
}

TEST_F_TIMEOUT(map_forged, interrupted, 600)
{
	plays(_metadata, variant->at, P_SIGNAL);
}

TEST_F_TIMEOUT(map_forged, killed, 600)
{
	plays(_metadata, variant->at, P_KILL);
}

/* L5_IOC_LOCK hears signals whatever the word says. */
static ssize_t by_ioctl(struct forged *f)
{
	int64_t end = l5_now_ms() + MAP_LONG_MS / 4;

	/* where the forger gets no time, nothing is forged for a while */
	while (l5_now_ms() < end)
		if (ioctl(f->fd, L5_IOC_LOCK, L5_LOCK_TX) < 0)
			return -1;
	return 0;
}

TEST_F_TIMEOUT(map_forged, lock_ioctl, 600)
{
	static const struct forged_game g = { "L5_IOC_LOCK", begin, by_ioctl };
	int what;

	for (what = 0; what < FORGERIES; what++)
		EXPECT_TRUE(forged_play(&g, variant->at, what, P_SIGNAL));
}

TEST_HARNESS_MAIN
