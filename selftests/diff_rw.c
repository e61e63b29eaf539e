// SPDX-License-Identifier: GPL-2.0
/* Reading and writing, by every call that can. */
#include "diff.h"

SCENARIO(read_write)
{
	char buf[64];
	int n;

	pair(c);
	R(write(c->a, "hello", 5));
	P(c->b, POLLIN);
	n = R(read(c->b, buf, sizeof(buf)));
	D(buf, n);
	P(c->b, 0);
	R(write(c->b, "back", 4));
	P(c->a, POLLIN);
	n = R(read(c->a, buf, 2));
	D(buf, n);
	n = R(read(c->a, buf, 2));
	D(buf, n);
}

TEST_HARNESS_MAIN
