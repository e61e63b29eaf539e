/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How most tests of mappings begin: two ends in shared memory, connected over
 * TCP and over AF_UNIX. After kselftest_harness.h.
 */
#ifndef MAP_PAIR_H
#define MAP_PAIR_H

#include <unistd.h>

#include "mapping.h"

/* A fixture that has the ends of a pair, with rings of @kb, in self->fd. */
#define MAP_PAIR_FIXTURE(name, kb)					\
	FIXTURE(name) { int fd[2]; };					\
	FIXTURE_VARIANT(name) { const char *at; };			\
	FIXTURE_VARIANT_ADD(name, inet) { .at = "127.0.0.1:0" };	\
	FIXTURE_VARIANT_ADD(name, unix) { .at = "abstract:l5_" #name };	\
	FIXTURE_SETUP(name)						\
	{								\
		ASSERT_TRUE(map_begin(variant->at, kb, self->fd));	\
	}								\
	FIXTURE_TEARDOWN(name)						\
	{								\
		close(self->fd[0]);					\
		close(self->fd[1]);					\
	}

#endif /* MAP_PAIR_H */
