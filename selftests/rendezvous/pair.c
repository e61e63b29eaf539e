// SPDX-License-Identifier: GPL-2.0
/*
 * socketpair(): two ends that have met from the beginning, as those of AF_UNIX
 * have; over TCP there are none.
 */
#include <kselftest_harness.h>

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "l5test.h"
#include "mapping.h"

#define TEXT "what one says"

FIXTURE(rendezvous_pair) { int plain[2], ours[2]; };

FIXTURE_SETUP(rendezvous_pair)
{
	l5_or_skip();
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, self->plain));
	ASSERT_EQ(0, socketpair(l5_family(), SOCK_STREAM, L5PROTO_UNIX,
				self->ours));
}

FIXTURE_TEARDOWN(rendezvous_pair)
{
	(void)_metadata;
	for (int i = 0; i < 2; i++) {
		close(self->plain[i]);
		close(self->ours[i]);
	}
}

FIXTURE(rendezvous_pair_new) { };

FIXTURE_SETUP(rendezvous_pair_new)
{
	(void)self;
	l5_or_skip();
}

FIXTURE_TEARDOWN(rendezvous_pair_new)
{
	(void)self;
	(void)_metadata;
}

/* Both ways, and it is rings that carry it. */
TEST_F(rendezvous_pair, talks)
{
	char b[64];
	int i;

	for (i = 0; i < 2; i++) {
		EXPECT_EQ(L5_TRANSPORT_SHM, l5_transport(self->ours[i]));
		EXPECT_EQ((ssize_t)sizeof(TEXT),
			  send(self->ours[i], TEXT, sizeof(TEXT), 0));
		EXPECT_EQ((ssize_t)sizeof(TEXT),
			  recv(self->ours[!i], b, sizeof(b), 0));
		EXPECT_STREQ(TEXT, b);
	}
	EXPECT_EQ(-1, recv(self->ours[0], b, sizeof(b), MSG_DONTWAIT));
	EXPECT_EQ(EAGAIN, errno);
}

static bool same_option(int a, int b, int name)
{
	char x[128] = "", y[128] = "";
	socklen_t nx = sizeof(x), ny = sizeof(y);
	int ra = getsockopt(a, SOL_SOCKET, name, x, &nx) ? errno : 0;
	int rb = getsockopt(b, SOL_SOCKET, name, y, &ny) ? errno : 0;

	return ra == rb && nx == ny && !memcmp(x, y, sizeof(x));
}

static bool same_name(int a, int b, bool peer)
{
	struct sockaddr_un x = { 0 }, y = { 0 };
	socklen_t nx = sizeof(x), ny = sizeof(y);
	int ra, rb;

	ra = peer ? getpeername(a, (struct sockaddr *)&x, &nx) :
		    getsockname(a, (struct sockaddr *)&x, &nx);
	rb = peer ? getpeername(b, (struct sockaddr *)&y, &ny) :
		    getsockname(b, (struct sockaddr *)&y, &ny);
	return !ra && !rb && nx == ny && !memcmp(&x, &y, sizeof(x));
}

static short polled(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN | POLLOUT | POLLRDHUP };

	poll(&p, 1, 0);
	return p.revents;
}

/* What a program may ask of them, it hears of AF_UNIX's as well. */
TEST_F(rendezvous_pair, looks)
{
	static const int options[] = {
		SO_TYPE, SO_ERROR, SO_PEERCRED, SO_ACCEPTCONN, SO_DOMAIN,
		SO_PROTOCOL, SO_PASSCRED, SO_RCVTIMEO, SO_LINGER,
	};
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	size_t i;
	int e;

	for (e = 0; e < 2; e++) {
		for (i = 0; i < sizeof(options) / sizeof(*options); i++)
			EXPECT_TRUE(same_option(self->plain[e], self->ours[e],
						options[i])) {
				TH_LOG("option %d", options[i]);
			}
		EXPECT_TRUE(same_name(self->plain[e], self->ours[e], false));
		EXPECT_TRUE(same_name(self->plain[e], self->ours[e], true));
		EXPECT_EQ(polled(self->plain[e]), polled(self->ours[e]));
		EXPECT_EQ(-1, connect(self->ours[e], (struct sockaddr *)&sun,
				      sizeof(sa_family_t)));
		EXPECT_EQ(EINVAL, errno);
		EXPECT_EQ(-1, listen(self->ours[e], 1));
		EXPECT_EQ(EINVAL, errno);
	}
}

/* Half closed, closed, closed with bytes unread: as AF_UNIX says it */
TEST_F(rendezvous_pair, ends)
{
	int *const pairs[] = { self->plain, self->ours };
	char text[2][256] = { "", "" }, b[8];
	size_t i, n;

	signal(SIGPIPE, SIG_IGN);
	for (i = 0; i < 2; i++) {
		char *at = text[i];
		int *p = pairs[i];

#define NOTE(call) do {							\
		n = strlen(at);						\
		errno = 0;						\
		snprintf(at + n, sizeof(text[0]) - n, "%ld/%d ",	\
			 (long)(call), errno);				\
} while (0)
		NOTE(shutdown(p[0], SHUT_WR));
		NOTE(send(p[0], "x", 1, 0));
		NOTE(recv(p[1], b, sizeof(b), 0));
		NOTE(polled(p[0]));
		NOTE(polled(p[1]));
		NOTE(send(p[1], "y", 1, 0));
		NOTE(close(p[0]));
		NOTE(polled(p[1]));
		NOTE(send(p[1], "z", 1, 0));
		NOTE(recv(p[1], b, sizeof(b), 0));
		NOTE(recv(p[1], b, sizeof(b), 0));
	}
	EXPECT_STREQ(text[0], text[1]);
	self->plain[0] = -1;
	self->ours[0] = -1;
}

TEST_F(rendezvous_pair_new, kinds)
{
	int p[2];

	EXPECT_EQ(-1, socketpair(l5_family(), SOCK_STREAM, L5PROTO_INET, p));
	EXPECT_EQ(EOPNOTSUPP, errno);
	EXPECT_EQ(-1, socketpair(l5_family(), SOCK_STREAM, L5PROTO_INET6, p));
	EXPECT_EQ(EOPNOTSUPP, errno);
	EXPECT_EQ(-1, socketpair(l5_family(), SOCK_DGRAM, L5PROTO_UNIX, p));
	EXPECT_EQ(ESOCKTNOSUPPORT, errno);
	ASSERT_EQ(0, socketpair(l5_family(), SOCK_STREAM | SOCK_NONBLOCK |
				SOCK_CLOEXEC, L5PROTO_UNIX, p));
	EXPECT_TRUE(fcntl(p[0], F_GETFL) & O_NONBLOCK);
	EXPECT_TRUE(fcntl(p[1], F_GETFD) & FD_CLOEXEC);
	close(p[0]);
	close(p[1]);
}

/* A process at each end, by way of fork(), mapped. */
TEST_F(rendezvous_pair, mapped)
{
	struct mapping m;
	char b[sizeof(TEXT)];
	int status;
	pid_t pid;

	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		close(self->ours[0]);
		if (recv(self->ours[1], b, sizeof(b), MSG_WAITALL) !=
		    sizeof(b) ||
		    send(self->ours[1], b, sizeof(b), 0) != sizeof(b))
			_exit(1);
		_exit(strcmp(b, TEXT));
	}
	ASSERT_EQ(0, mapping_open(&m, self->ours[0]));
	EXPECT_EQ((ssize_t)sizeof(TEXT),
		  mapping_send(&m, TEXT, sizeof(TEXT), 0));
	EXPECT_EQ((ssize_t)sizeof(TEXT),
		  mapping_recv(&m, b, sizeof(b), MSG_WAITALL));
	EXPECT_STREQ(TEXT, b);
	EXPECT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	mapping_close(&m);
}

/* Where there are to be no rings AF_UNIX carries the bytes. */
TEST_F(rendezvous_pair_new, without_rings)
{
	long enabled = l5_sysctl("enabled", 0);
	char b[sizeof(TEXT)];
	int p[2], i;

	ASSERT_EQ(0, socketpair(l5_family(), SOCK_STREAM, L5PROTO_UNIX, p));
	l5_sysctl("enabled", enabled);
	for (i = 0; i < 2; i++) {
		EXPECT_EQ(L5_TRANSPORT_BASE, l5_transport(p[i]));
		EXPECT_EQ(L5_REASON_DISABLED, l5_getopt(p[i], L5_REASON));
		EXPECT_EQ((ssize_t)sizeof(TEXT),
			  send(p[i], TEXT, sizeof(TEXT), 0));
		EXPECT_EQ((ssize_t)sizeof(TEXT), recv(p[!i], b, sizeof(b), 0));
	}
	close(p[0]);
	close(p[1]);
}

/* Nothing stays, of memory or of sockets. */
TEST_F(rendezvous_pair_new, many)
{
	int p[2], i;

	/* whose numbers are ours alone */
	ASSERT_EQ(0, unshare(CLONE_NEWNET));
	for (i = 0; i < 2000; i++) {
		ASSERT_EQ(0, socketpair(l5_family(), SOCK_STREAM, L5PROTO_UNIX,
					p));
		if (i % 3)
			ASSERT_EQ(1, send(p[i % 2], "x", 1, 0));
		close(p[0]);
		close(p[1]);
	}
	EXPECT_TRUE(UNTIL(!l5_stat("pairs") && !l5_stat("rings_kb")));
}

TEST_HARNESS_MAIN
