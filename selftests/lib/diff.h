/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The differential suite: a scenario is run on the kernel's own family and
 * on AF_L5, both write down what every call returned, and what they wrote
 * must be equal, but for the deviations in deviations.c.
 *
 * Include this from a test program only: it brings the kselftest harness.
 */
#ifndef DIFF_H
#define DIFF_H

#include <kselftest_harness.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

#include "l5test.h"
#include "diff_core.h"
#include "signals.h"

/* A full ring stays full, as TCP's buffers do: limit/grow is about the rest. */
#define DIFF_FIXTURE(set)						\
	FIXTURE(set) { long grow_ms; };					\
	FIXTURE_VARIANT(set) { struct variant v; };			\
	FIXTURE_SETUP(set)						\
	{								\
		(void)variant;						\
		self->grow_ms = l5_sysctl("grow_ms", 0);		\
		ASSERT_LE(0, self->grow_ms);				\
	}								\
	FIXTURE_TEARDOWN(set)						\
	{								\
		(void)variant;						\
		(void)_metadata;					\
		l5_sysctl("grow_ms", self->grow_ms);			\
	}

#define DIFF_VARIANT(set, which, ...)					\
	FIXTURE_VARIANT_ADD(set, which) { { .name = #which, __VA_ARGS__ } }

#define SHM	.l5_client = true, .l5_server = true,			\
		.transport = L5_TRANSPORT_SHM
#define BASE	.transport = L5_TRANSPORT_BASE

/* Both ends AF_L5 on TCP: rings. "rev" tests the accepted end. */
#define RING_VARIANTS(set)						\
	DIFF_VARIANT(set, inet, .bit = V_INET, .dom = AF_INET, SHM);	\
	DIFF_VARIANT(set, rev, .bit = V_REV, .dom = AF_INET, SHM);	\
	DIFF_VARIANT(set, inet6, .bit = V_INET6, .dom = AF_INET6, SHM)

/* One end is plain TCP, or both are told to be: it must stay TCP. */
#define BASE_VARIANTS(set)						\
	DIFF_VARIANT(set, to_plain, .bit = V_TO_PLAIN, .dom = AF_INET,	\
		     .l5_client = true, BASE);				\
	DIFF_VARIANT(set, from_plain, .bit = V_FROM_PLAIN,		\
		     .dom = AF_INET, .l5_server = true, BASE);		\
	DIFF_VARIANT(set, forced, .bit = V_FORCED, .dom = AF_INET,	\
		     .l5_client = true, .l5_server = true, BASE)

#define UNIX_VARIANTS(set)						\
	DIFF_VARIANT(set, path, .bit = V_UNIX, .dom = AF_UNIX, SHM);	\
	DIFF_VARIANT(set, abstract, .bit = V_ABSTRACT,			\
		     .dom = AF_UNIX, SHM)

/*
 * The fixtures of a program are DIFF_any, DIFF_tcp and DIFF_un, where DIFF is
 * what it is called; the program defines that before it includes this.
 */
#define DIFF_PASTE_(program, set)	program##_##set
#define DIFF_PASTE(program, set)	DIFF_PASTE_(program, set)
#define DIFF_SET(set)			DIFF_PASTE(DIFF, set)

DIFF_FIXTURE(DIFF_SET(any))
RING_VARIANTS(DIFF_SET(any));
BASE_VARIANTS(DIFF_SET(any));
UNIX_VARIANTS(DIFF_SET(any));

DIFF_FIXTURE(DIFF_SET(tcp))
RING_VARIANTS(DIFF_SET(tcp));
BASE_VARIANTS(DIFF_SET(tcp));

DIFF_FIXTURE(DIFF_SET(un))
UNIX_VARIANTS(DIFF_SET(un));

/* Defines a scenario for all families; its context is called c. */
#define SCENARIO(name) SCENARIO_ON(any, name)

/* Defines a scenario for a set of families: any, tcp, un. */
#define SCENARIO_ON(set, name)						\
	static void sc_##name(struct ctx *c);				\
	TEST_F_TIMEOUT(DIFF_SET(set), name, 600)			\
	{								\
		char why[256] = "";					\
									\
		switch (diff_compare(#name, &variant->v, sc_##name,	\
				     why, sizeof(why))) {		\
		case DIFF_SAME:						\
			break;						\
		case DIFF_SKIP:						\
			SKIP(return, "%s", why);			\
		default:						\
			TH_LOG("%s", why);				\
			_metadata->passed = 0;				\
		}							\
	}								\
	static void sc_##name(struct ctx *c)

#endif /* DIFF_H */
