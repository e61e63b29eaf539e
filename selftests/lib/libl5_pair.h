/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Two ends of libl5 in shared memory, over TCP and over AF_UNIX. After
 * kselftest_harness.h.
 */
#ifndef LIBL5_PAIR_H
#define LIBL5_PAIR_H

#include <signal.h>

#include "l5test.h"
#include "libl5_ends.h"

#define LONG_MS		(60000 * l5_slow())

/* A fixture with a connection in shared memory, over TCP and over AF_UNIX. */
#define LIBL5_FIXTURE(name)						\
	FIXTURE(name)							\
	{								\
		struct place at;					\
		int listener;						\
		struct l5_stream *c, *s;				\
		int cfd, sfd;						\
		long grow_ms;						\
	};								\
	FIXTURE_VARIANT(name) { const char *host; };			\
	FIXTURE_VARIANT_ADD(name, inet) { .host = "127.0.0.1" };	\
	FIXTURE_VARIANT_ADD(name, unix) { .host = NULL };		\
	FIXTURE_SETUP(name)						\
	{								\
		l5_or_skip();						\
		signal(SIGPIPE, SIG_IGN);				\
		/* a ring that is full stays full, however long */	\
		self->grow_ms = l5_sysctl("grow_ms", 0);		\
		ASSERT_LE(0, self->grow_ms);				\
		self->listener = place_listen(&self->at, variant->host); \
		ASSERT_LE(0, self->listener);				\
		self->c = place_connect(&self->at, SOCK_CLOEXEC);	\
		ASSERT_NE(NULL, self->c);				\
		self->s = l5_accept(self->listener, SOCK_CLOEXEC);	\
		ASSERT_NE(NULL, self->s);				\
		self->cfd = l5_stream_fd(self->c);			\
		self->sfd = l5_stream_fd(self->s);			\
		ASSERT_EQ(L5_TRANSPORT_SHM, l5_transport(self->cfd));	\
		ASSERT_EQ(L5_TRANSPORT_SHM, l5_transport(self->sfd));	\
		ASSERT_TRUE(l5_stream_mapped(self->c));			\
		ASSERT_TRUE(l5_stream_mapped(self->s));			\
	}								\
	FIXTURE_TEARDOWN(name)						\
	{								\
		if (self->c)						\
			EXPECT_EQ(0, l5_close(self->c));		\
		if (self->s)						\
			EXPECT_EQ(0, l5_close(self->s));		\
		close(self->listener);					\
		l5_sysctl("grow_ms", self->grow_ms);			\
	}

#endif /* LIBL5_PAIR_H */
