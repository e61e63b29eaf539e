// SPDX-License-Identifier: GPL-2.0
/*
 * Sockets are mapped when that pays, as far as it can be known: the default,
 * without L5_MAP_AFTER.
 */
#define SHIM	shim_pays
#include "shim.h"

enum {
	SHORT = 20,		/* round trips, of two calls an end each */
	LONG = 5000,
	MANY = 16,		/* connections that say something of others */
	NEVER = 1000000,	/* trips: something is wrong */
};

/* Before shim.h sets it, which leaves it alone then. */
__attribute__((constructor(101))) static void no_number(void)
{
	setenv("L5_MAP_AFTER", "", 0);
}

/* Of both ends, how many are mapped after so many trips? The end, then. */
static int mapped_after(int n)
{
	int a, b, maps;

	if (!shim_pair(L5, &a, &b) || !shim_trips(a, b, n))
		return -1;
	maps = shim_maps();
	close(a);
	close(b);
	return maps;
}

SHIM_TEST(first)
{
	int a, b, n;

	ASSERT_TRUE(shim_pair(L5, &a, &b));
	ASSERT_TRUE(shim_trips(a, b, SHORT));
	EXPECT_EQ(0, shim_maps());
	/* nothing is known of others: once it would have paid */
	for (n = 0; n < NEVER && shim_maps() < 2; n += SHORT)
		ASSERT_TRUE(shim_trips(a, b, SHORT));
	EXPECT_EQ(2, shim_maps());
	close(a);
	close(b);
}

SHIM_TEST(short_ones)
{
	int i;

	for (i = 0; i < 4 * MANY; i++)
		EXPECT_EQ(0, mapped_after(SHORT));
	/* one that goes on all the same */
	EXPECT_EQ(2, mapped_after(4 * LONG));
}

SHIM_TEST(long_ones)
{
	int i;

	for (i = 0; i < MANY; i++)
		EXPECT_LE(0, mapped_after(LONG));
	/* the next one is thought to be as long */
	EXPECT_EQ(2, mapped_after(SHORT));
	/* until they are known to be short */
	for (i = 0; i < 100 * MANY; i++)
		EXPECT_LE(0, mapped_after(SHORT));
	EXPECT_EQ(0, mapped_after(SHORT));
}

TEST_HARNESS_MAIN
