// SPDX-License-Identifier: GPL-2.0
/*
 * shutdown() while another thread connects. TCP then says once more that the
 * connection is there, with the meeting open. Both ends have to agree on what
 * carries the bytes all the same, and on what the shutdown ended.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "beside.h"
#include "ends.h"

FIXTURE(rendezvous_shut)
{
	struct addr to;
	int listener;
};

FIXTURE_VARIANT(rendezvous_shut)
{
	const char *at;
	int option;		/* of the client: when its last ACK leaves */
};

FIXTURE_VARIANT_ADD(rendezvous_shut, v4)
{
	.at = "127.0.0.1:0",
};

FIXTURE_VARIANT_ADD(rendezvous_shut, v4_late)
{
	.at = "127.0.0.1:0",
	.option = TCP_DEFER_ACCEPT,
};

FIXTURE_VARIANT_ADD(rendezvous_shut, v6_late)
{
	.at = "[::1]:0",
	.option = TCP_DEFER_ACCEPT,
};

FIXTURE_SETUP(rendezvous_shut)
{
	l5_or_skip();
	ASSERT_TRUE(net_unshare());
	/* a child that is late is waited for */
	l5_sysctl("match_ms", 10000);
	self->to = addr_parse(variant->at);
	self->listener = end_listen(END_L5, &self->to);
	ASSERT_LE(0, self->listener);
	fcntl(self->listener, F_SETFL, O_NONBLOCK);
}

FIXTURE_TEARDOWN(rendezvous_shut)
{
	close(self->listener);
}

enum { TRIES = 1500 };

static long shut(struct beside *b, int fd)
{
	(void)b;
	return shutdown(fd, SHUT_RD);
}

static bool established(int fd)
{
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);

	return !getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) &&
	       info.tcpi_state == TCP_ESTABLISHED;
}

/* The child, or -1 if there is none */
static int take(int listener)
{
	struct pollfd p = { listener, POLLIN, 0 };

	return poll(&p, 1, 3000) == 1 ? accept(listener, NULL, NULL) : -1;
}

TEST_F_TIMEOUT(rendezvous_shut, while_connecting, 300)
{
	struct beside other = { .call = shut };
	int i, c, s, one = 1, met = 0;
	char byte;

	ASSERT_TRUE(beside_start(&other));
	for (i = 0; beside_again(&other, i, TRIES / l5_slow()); i++) {
		c = end_socket(END_L5, self->to.sa.sa_family);
		ASSERT_LE(0, c);
		fcntl(c, F_SETFL, O_NONBLOCK);
		if (variant->option)
			ASSERT_EQ(0, setsockopt(c, IPPROTO_TCP, variant->option,
						&one, sizeof(one)));
		beside_call(&other, c, i * 37 % 5000);
		connect(c, &self->to.sa, self->to.len);
		beside_wait(&other);
		if (!established(c)) {
			close(c);
			while ((s = accept(self->listener, NULL, NULL)) >= 0)
				close(s);
			continue;
		}
		setsockopt(c, IPPROTO_TCP, TCP_QUICKACK, &one, sizeof(one));
		s = take(self->listener);
		ASSERT_LE(0, s);
		/* a client that asks has decided */
		EXPECT_EQ(0, recv(c, &byte, 1, 0));
		met++;
		ASSERT_EQ(l5_transport(c), l5_transport(s));
		EXPECT_EQ(1, send(c, "x", 1, MSG_NOSIGNAL));
		ASSERT_EQ(POLLIN, end_poll(s, POLLIN) & POLLIN);
		EXPECT_EQ(1, recv(s, &byte, 1, 0));
		close(c);
		close(s);
	}
	beside_end(&other);
	EXPECT_LT(0, met);
	printf("# %d of %d met\n", met, i);
}

TEST_HARNESS_MAIN
