// SPDX-License-Identifier: GPL-2.0
/*
 * The public functions of libl5 over sockets that have no rings.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "l5test.h"
#include "libl5.h"
#include "native.h"

PLAIN_FIXTURE(unit_plain_alone)

/* A socket that cannot be mapped says why. */
TEST_F(unit_plain_alone, no_rings)
{
	int sv[2];

	EXPECT_EQ(NULL, l5_map_new(-1, 0));
	EXPECT_EQ(EBADF, errno);
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sv));
	EXPECT_EQ(NULL, l5_map_new(sv[0], 0));
	EXPECT_EQ(ENOTTY, errno);
	EXPECT_EQ(NULL, l5_map(-1));
	EXPECT_EQ(EBADF, errno);
	close(sv[1]);
	close(sv[0]);
}

/* To end nothing is no error. */
TEST_F(unit_plain_alone, nothing)
{
	l5_unmap(NULL);
	errno = 0;
	EXPECT_EQ(0, l5_close(NULL));
	EXPECT_EQ(0, errno);
	l5_mailbox_close(NULL);
}

/* Every descriptor without a mailbox says so in the same way. */
TEST_F(unit_plain_alone, no_mailbox)
{
	int i, fd[] = {
		l5_listen("127.0.0.1", "0", 1),
		socket(AF_INET, SOCK_STREAM, 0),
		socket(AF_INET, SOCK_DGRAM, 0),
		socket(AF_UNIX, SOCK_STREAM, 0),
		memfd_create("mailbox", 0),
		open("/dev/zero", O_RDWR),
		-1,
	};
	const int want[] = {
		l5_present() ? EOPNOTSUPP : ENODEV, ENODEV, ENODEV, ENODEV,
		ENOTSOCK, ENOTSOCK, EBADF,
	};

	for (i = 0; i < 7; i++) {
		errno = 0;
		EXPECT_EQ(NULL, l5_mailbox_open(fd[i]));
		EXPECT_EQ(want[i], errno) TH_LOG("entry %d", i);
		if (fd[i] >= 0)
			close(fd[i]);
	}
}

/* The public functions over sockets that have no rings. */
FIXTURE(unit_plain)
{
	struct l5_stream *c;
	struct l5_stream *s;
};

FIXTURE_VARIANT(unit_plain)
{
	bool unix_socket;
};

FIXTURE_VARIANT_ADD(unit_plain, inet)
{
	.unix_socket = false,
};

FIXTURE_VARIANT_ADD(unit_plain, unix)
{
	.unix_socket = true,
};

FIXTURE_SETUP(unit_plain)
{
	struct sockaddr_in sin;
	socklen_t len = sizeof(sin);
	char name[64], port[16];
	int fd;

	if (variant->unix_socket) {
		snprintf(name, sizeof(name), "@l5-unit-%d", getpid());
		fd = l5_listen(name, NULL, 5);
		ASSERT_LE(0, fd);
		self->c = l5_connect(name, NULL, SOCK_CLOEXEC);
	} else {
		fd = l5_listen("127.0.0.1", "0", 5);
		ASSERT_LE(0, fd);
		ASSERT_EQ(0, getsockname(fd, (struct sockaddr *)&sin, &len));
		snprintf(port, sizeof(port), "%d", ntohs(sin.sin_port));
		self->c = l5_connect("127.0.0.1", port, SOCK_CLOEXEC);
	}
	ASSERT_NE(NULL, self->c);
	self->s = l5_accept(fd, SOCK_CLOEXEC);
	ASSERT_NE(NULL, self->s);
	close(fd);
}

FIXTURE_TEARDOWN(unit_plain)
{
	EXPECT_EQ(0, l5_close(self->c));
	EXPECT_EQ(0, l5_close(self->s));
}

TEST_F(unit_plain, calls)
{
	struct iovec v[2] = { { "ab", 2 }, { "cd", 2 } };
	char buf[100] = "";
	const void *p;
	void *q;

	EXPECT_EQ(3, l5_send(self->c, "one", 3, 0));
	EXPECT_EQ(3, l5_recv(self->s, buf, sizeof(buf), 0));
	EXPECT_EQ(4, l5_sendv(self->c, v, 2, 0));
	v[0] = (struct iovec){ buf, 1 };
	v[1] = (struct iovec){ buf + 1, 10 };
	EXPECT_EQ(4, l5_recvv(self->s, v, 2, 0));
	EXPECT_EQ(0, memcmp(buf, "abcd", 4));

	EXPECT_EQ(-1, l5_recv(self->s, buf, 1, MSG_DONTWAIT));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_EQ(0, l5_set_nonblock(self->s, true));
	EXPECT_EQ(-1, l5_recv(self->s, buf, 1, 0));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_EQ(-1, l5_peek(self->s, &p, 0));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_EQ(0, l5_set_nonblock(self->s, false));

	EXPECT_EQ(5, l5_reserve(self->c, &q, 5, 0));
	memcpy(q, "hello", 5);
	EXPECT_EQ(5, l5_commit(self->c, 5));
	EXPECT_EQ(-1, l5_commit(self->c, 1));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(5, l5_peek(self->s, &p, 0));
	EXPECT_EQ(0, memcmp(p, "hello", 5));
	EXPECT_EQ(0, l5_release(self->s, 2));
	EXPECT_EQ(3, l5_peek(self->s, &p, 0));
	EXPECT_EQ(0, memcmp(p, "llo", 3));
	EXPECT_EQ(0, l5_release(self->s, 3));
	EXPECT_EQ(-1, l5_release(self->s, 0));
	EXPECT_EQ(EINVAL, errno);

	EXPECT_EQ(0, l5_wait(self->s, POLLIN, 0));
	EXPECT_EQ(0, l5_wait(self->s, POLLIN, 10));
	EXPECT_EQ(POLLOUT, l5_wait(self->s, POLLIN | POLLOUT, -1));
	EXPECT_EQ(1, l5_send(self->c, "x", 1, MSG_NOSIGNAL));
	EXPECT_EQ(POLLIN, l5_wait(self->s, POLLIN, -1));
	EXPECT_EQ(1, l5_recv(self->s, buf, 10, 0));
	EXPECT_EQ(0, shutdown(l5_stream_fd(self->c), SHUT_WR));
	EXPECT_EQ(0, l5_recv(self->s, buf, 10, 0));
	EXPECT_EQ(0, l5_peek(self->s, &p, 0));
	EXPECT_EQ(-1, l5_send(self->c, "x", 1, MSG_NOSIGNAL));
	EXPECT_EQ(EPIPE, errno);
	EXPECT_EQ(1, l5_reserve(self->c, &q, 1, MSG_NOSIGNAL));
	EXPECT_EQ(-1, l5_commit(self->c, 1));
	EXPECT_EQ(EPIPE, errno);
}

TEST_F(unit_plain, wait_any)
{
	struct l5_event e[3] = {
		{ .conn = self->s, .events = POLLIN },
		{ .conn = NULL, .events = POLLIN },
		{ .conn = self->c, .events = POLLIN },
	};
	char c;

	EXPECT_EQ(0, l5_wait_any(e, 3, 0));
	EXPECT_EQ(0, l5_wait_any(e, 3, 20));
	EXPECT_EQ(-1, l5_wait_any(e, -1, 0));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(1, l5_send(self->c, "x", 1, 0));
	EXPECT_EQ(1, l5_wait_any(e, 3, -1));
	EXPECT_EQ(POLLIN, e[0].revents);
	EXPECT_EQ(0, e[1].revents);
	EXPECT_EQ(0, e[2].revents);
	EXPECT_EQ(1, l5_send(self->s, "x", 1, 0));
	EXPECT_EQ(2, l5_wait_any(e, 3, -1));
	EXPECT_EQ(1, l5_recv(self->s, &c, 1, 0));
	EXPECT_EQ(1, l5_recv(self->c, &c, 1, 0));
}

TEST_F(unit_plain_alone, names)
{
	int fd;

	EXPECT_EQ(NULL, l5_connect(NULL, NULL, 0));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, l5_listen("no address at all", "0", 1));
	EXPECT_EQ(EADDRNOTAVAIL, errno);
	EXPECT_EQ(-1, l5_socket(AF_PACKET, 0));
	EXPECT_EQ(EAFNOSUPPORT, errno);
	EXPECT_EQ(NULL, l5_connect("@no such name", NULL, 0));
	EXPECT_EQ(ECONNREFUSED, errno);
	fd = l5_listen(NULL, "0", 1);
	EXPECT_LE(0, fd);
	close(fd);
}

TEST_HARNESS_MAIN
