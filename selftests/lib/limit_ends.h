/* SPDX-License-Identifier: GPL-2.0 */
/* How tests of limits begin. They include kselftest_harness.h before. */
#ifndef LIMIT_ENDS_H
#define LIMIT_ENDS_H

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ends.h"

/*
 * A fixture with a listener in a namespace of its own: limits are changed here,
 * and counters start at nothing.
 */
#define LIMIT_FIXTURE(name)						\
	FIXTURE(name) { struct addr to; int listener; };		\
	FIXTURE_SETUP(name)						\
	{								\
		l5_or_skip();						\
		ASSERT_TRUE(net_unshare());				\
		ASSERT_LE(0, l5_sysctl("match_ms", 10000));		\
		self->to = addr_parse("127.0.0.1:0");			\
		self->listener = end_listen(END_L5, &self->to);		\
		ASSERT_LE(0, self->listener);				\
	}								\
	FIXTURE_TEARDOWN(name)						\
	{								\
		close(self->listener);					\
	}

static inline bool open_pair(int l, const struct addr *to, int *c, int *s)
{
	*c = end_connect(END_L5, to);
	if (*c < 0)
		return false;
	*s = accept(l, NULL, NULL);
	return *s >= 0;
}

static inline struct l5_info info_of(int fd)
{
	struct l5_info i;
	socklen_t len = sizeof(i);

	memset(&i, 0xff, sizeof(i));
	if (getsockopt(fd, SOL_L5, L5_INFO, &i, &len) || len != sizeof(i))
		abort();
	return i;
}

#endif /* LIMIT_ENDS_H */
