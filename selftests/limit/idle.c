// SPDX-License-Identifier: GPL-2.0
/*
 * Ten thousand connections that have said something and now say nothing: all
 * have rings, none costs more than its share beyond them. Needs a machine with
 * 4 GiB; run_idle makes one.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "ends.h"

#define COUNT		10000
#define KIB_EACH	40

/* What the system could still give, caches aside. */
static long long available(void)
{
	sh("sync; echo 3 >/proc/sys/vm/drop_caches");
	usleep(500000);
	return l5_memory_kb("MemAvailable");
}

FIXTURE(limit_idle)
{
};

FIXTURE_SETUP(limit_idle)
{
	l5_or_skip();
	if (l5_memory_kb("MemTotal") < 3500000)
		_exit(255);
}

FIXTURE_TEARDOWN(limit_idle)
{
}

static void open_many(struct __test_metadata *_metadata, const char *base,
		      int *fd, int n)
{
	int l[4], i;
	struct addr to[4];

	for (i = 0; i < 4; i++) {
		char at[40];

		snprintf(at, sizeof(at), base, i + 1);
		to[i] = addr_parse(at);
		l[i] = end_listen(END_L5, &to[i]);
		ASSERT_LE(0, l[i]);
	}
	for (i = 0; i < n; i++) {
		int *p = fd + 2 * i;

		p[0] = end_connect(END_L5, &to[i % 4]);
		ASSERT_LE(0, p[0]) {
			TH_LOG("connection %d: %s", i, strerror(-p[0]));
		}
		p[1] = accept(l[i % 4], NULL, NULL);
		ASSERT_LE(0, p[1]);
		ASSERT_EQ(L5_TRANSPORT_SHM, l5_transport(p[0])) {
			TH_LOG("connection %d: %s", i,
			       end_reason_name(end_reason(p[0])));
		}
		ASSERT_TRUE(end_put(p[0], 10, i));
		ASSERT_TRUE(end_get(p[1], 10, i));
		ASSERT_TRUE(end_put(p[1], 10, i));
		ASSERT_TRUE(end_get(p[0], 10, i));
	}
	for (i = 0; i < 4; i++)
		close(l[i]);
}

static void ten_thousand(struct __test_metadata *_metadata, const char *base)
{
	struct rlimit nofile = { 2 * COUNT + 100, 2 * COUNT + 100 };
	long long before, after, rings, each;
	static int fd[2 * COUNT];
	int i;

	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &nofile));
	/* once, so that what is allocated for good is not counted */
	open_many(_metadata, base, fd, 500);
	for (i = 0; i < 2 * 500; i++)
		close(fd[i]);
	ASSERT_TRUE(end_stat_reaches("pairs", 0));
	before = available();
	open_many(_metadata, base, fd, COUNT);
	EXPECT_EQ(COUNT, l5_stat("pairs"));
	after = available();
	rings = l5_stat("rings_kb");
	each = (before - after - rings) / COUNT;
	TH_LOG("%d connections: %lld KiB each, rings %lld KiB, beyond them %lld KiB",
	       COUNT, (before - after) / COUNT, rings / COUNT, each);
	EXPECT_LT(0, rings);
	EXPECT_GE(KIB_EACH, each);
	/* they still work */
	for (i = 0; i < COUNT; i += 97)
		ASSERT_TRUE(end_exchange(fd[2 * i], fd[2 * i + 1], 5000, i));
	for (i = 0; i < 2 * COUNT; i++)
		close(fd[i]);
	EXPECT_TRUE(end_stat_reaches("pairs", 0));
	EXPECT_TRUE(end_stat_reaches("rings_kb", 0));
	EXPECT_TRUE(end_stat_reaches("reserved_kb", 0));
}

TEST_F_TIMEOUT(limit_idle, inet, 600)
{
	ten_thousand(_metadata, "127.0.0.%d:0");
}

TEST_F_TIMEOUT(limit_idle, af_unix, 600)
{
	ten_thousand(_metadata, "abstract:l5_idle%d");
}

TEST_HARNESS_MAIN
