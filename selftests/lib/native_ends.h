/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Two ends of mapped rings over a memfd, of one process, and what goes through
 * them. After kselftest_harness.h.
 */
#ifndef NATIVE_ENDS_H
#define NATIVE_ENDS_H

#include <stdlib.h>
#include <sys/prctl.h>

#include "l5test.h"
#include "native.h"

#define SIZE		8192u

/* Sanitizers and valgrind see the same cases, and fewer of them. */
static inline int slow(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return 10;
#else
	return getenv("L5_VALGRIND") ? 50 : 1;
#endif
}

/* Are some of these bytes not the stream's? */
static inline bool wrong(const void *buf, size_t n, uint64_t at)
{
	return l5_wrong(buf, n, at) >= 0;
}

/* Cut a buffer into up to @max buffers, some of them empty. */
static inline int cut(struct iovec *v, int max, uint8_t *buf, size_t len,
		      uint64_t *seed)
{
	int n = 0;

	while (n < max - 1 && len) {
		v[n].iov_base = buf;
		v[n].iov_len = l5_rnd(seed) % 4 ? l5_rnd(seed) % (len + 1) : 0;
		buf += v[n].iov_len;
		len -= v[n].iov_len;
		n++;
	}
	v[n].iov_base = buf;
	v[n].iov_len = len;
	return n + 1;
}

/* A message that says whose and which it is */
struct note {
	uint32_t who;
	uint32_t n;
	uint8_t body[56];
};

/* A fixture with a connection that has both its ends in this process. */
#define RINGS_FIXTURE(name)						\
	FIXTURE(name)							\
	{								\
		struct l5_native *k;					\
		struct l5_map *a;					\
		struct l5_map *b;					\
	};								\
	FIXTURE_SETUP(name)						\
	{								\
		/* a test that hangs ends with the program */		\
		prctl(PR_SET_PDEATHSIG, SIGKILL);			\
		self->k = l5_native_new(SIZE);				\
		ASSERT_NE(NULL, self->k);				\
		self->a = l5_native_map(self->k, 0, 1);			\
		self->b = l5_native_map(self->k, 1, 1);			\
		ASSERT_NE(NULL, self->a);				\
		ASSERT_NE(NULL, self->b);				\
	}								\
	FIXTURE_TEARDOWN(name)						\
	{								\
		l5_native_unmap(self->a);				\
		l5_native_unmap(self->b);				\
		l5_native_free(self->k);				\
	}

#endif /* NATIVE_ENDS_H */
