// SPDX-License-Identifier: GPL-2.0
/*
 * Calls on a socket that another thread is about to connect. Such a call may
 * have looked at the socket a moment before, and go on to its bootstrap a
 * moment after; but the bytes of one direction go one way, whichever it is.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "beside.h"
#include "ends.h"

FIXTURE(rendezvous_early)
{
	struct addr to;
	int listener;
};

FIXTURE_VARIANT(rendezvous_early)
{
	const char *at;
};

FIXTURE_VARIANT_ADD(rendezvous_early, inet)
{
	.at = "127.0.0.1:0",
};

FIXTURE_VARIANT_ADD(rendezvous_early, unix)
{
	.at = "unix:/tmp/l5_early.sock",
};

FIXTURE_SETUP(rendezvous_early)
{
	l5_or_skip();
	signal(SIGPIPE, SIG_IGN);
	ASSERT_TRUE(net_unshare());
	/* a child that is late is waited for */
	l5_sysctl("match_ms", 10000);
	self->to = addr_parse(variant->at);
	self->listener = end_listen(END_L5, &self->to);
	ASSERT_LE(0, self->listener);
}

FIXTURE_TEARDOWN(rendezvous_early)
{
	close(self->listener);
}

enum { TRIES = 1000 };

/* Recv or send a byte, without end, until the socket is connected. */
struct caller {
	struct beside other;
	bool sends;
	char byte;
};

static long early_call(struct beside *b, int fd)
{
	struct caller *t = (struct caller *)b;
	long n;

	do {
		n = t->sends ? send(fd, "e", 1, MSG_NOSIGNAL) :
			       recv(fd, &t->byte, 1, 0);
	} while (n < 0 && (errno == ENOTCONN || errno == EPIPE ||
			   errno == EINVAL));
	return n < 0 ? -errno : n;
}

static void race(struct __test_metadata *_metadata, struct addr *to,
		 int listener, bool sends)
{
	struct timeval tv = { .tv_sec = 10 * l5_slow() };
	struct caller t = { { .call = early_call }, .sends = sends };
	int i, c, s, rings = 0;
	long got;
	char byte;

	ASSERT_TRUE(beside_start(&t.other));
	for (i = 0; beside_again(&t.other, i, TRIES / l5_slow()); i++) {
		c = end_socket(END_L5, to->sa.sa_family);
		ASSERT_LE(0, c);
		setsockopt(c, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
		beside_call(&t.other, c, 0);
		beside_spin(i * 37 % 2000);
		ASSERT_EQ(0, connect(c, &to->sa, to->len));
		s = accept(listener, NULL, NULL);
		ASSERT_LE(0, s);
		setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
		ASSERT_EQ(1, send(s, "s", 1, MSG_NOSIGNAL));
		got = beside_wait(&t.other);
		ASSERT_EQ(1, got) {
			TH_LOG("try %d: %s", i, strerror(-got));
		}
		if (sends) {
			ASSERT_EQ(1, recv(s, &byte, 1, 0));
			ASSERT_EQ('e', byte);
			ASSERT_EQ(1, recv(c, &t.byte, 1, 0));
		}
		ASSERT_EQ('s', t.byte);
		ASSERT_EQ(1, send(c, "c", 1, MSG_NOSIGNAL));
		ASSERT_EQ(1, recv(s, &byte, 1, 0));
		ASSERT_EQ('c', byte);
		rings += l5_transport(c) == L5_TRANSPORT_SHM;
		close(c);
		close(s);
	}
	beside_end(&t.other);
	printf("# %d of %d had rings\n", rings, i);
}

TEST_F_TIMEOUT(rendezvous_early, recv, 300)
{
	race(_metadata, &self->to, self->listener, false);
}

TEST_F_TIMEOUT(rendezvous_early, send, 300)
{
	race(_metadata, &self->to, self->listener, true);
}

/* Connect by sending. */
struct opener {
	struct beside other;
	const struct addr *to;
};

static long open_call(struct beside *b, int fd)
{
	const struct addr *to = ((struct opener *)b)->to;

	return sendto(fd, "e", 1, MSG_FASTOPEN | MSG_NOSIGNAL, &to->sa,
		      to->len);
}

/* Two threads connect, one of them by TCP Fast Open: both calls come back. */
TEST_F_TIMEOUT(rendezvous_early, fastopen, 120)
{
	struct opener t = { { .call = open_call }, .to = &self->to };
	int i, c, s;
	long got;
	char byte;

	if (self->to.sa.sa_family == AF_UNIX)
		SKIP(return, "AF_UNIX has no such thing");
	ASSERT_EQ(0, sh("echo 7 >/proc/sys/net/ipv4/tcp_fastopen"));
	ASSERT_TRUE(beside_start(&t.other));
	for (i = 0; beside_again(&t.other, i, 2 * TRIES / l5_slow()); i++) {
		c = end_socket(END_L5, self->to.sa.sa_family);
		ASSERT_LE(0, c);
		beside_call(&t.other, c, 0);
		beside_spin(i * 37 % 2000);
		if (connect(c, &self->to.sa, self->to.len))
			ASSERT_TRUE(errno == EISCONN || errno == EALREADY);
		got = beside_wait(&t.other);
		s = accept(self->listener, NULL, NULL);
		ASSERT_LE(0, s);
		ASSERT_EQ(1, send(c, "c", 1, MSG_NOSIGNAL));
		if (got == 1) {
			ASSERT_EQ(1, recv(s, &byte, 1, 0));
			ASSERT_EQ('e', byte);
		}
		ASSERT_EQ(1, recv(s, &byte, 1, 0));
		ASSERT_EQ('c', byte);
		close(c);
		close(s);
	}
	beside_end(&t.other);
}

/* A thread that sends more than there is room for. */
struct sender {
	int fd;
	atomic_int tid;
};

static void *sender_main(void *arg)
{
	static char much[16 << 20];
	struct sender *t = arg;

	atomic_store(&t->tid, gettid());
	send(t->fd, much, sizeof(much), MSG_NOSIGNAL);
	return NULL;
}

/*
 * A send that is back from a socket that was disconnected meanwhile leaves it
 * as it is: it may be used again, for listening, too.
 */
TEST_F_TIMEOUT(rendezvous_early, sent_when_disconnected, 60)
{
	const struct sockaddr none = { .sa_family = AF_UNSPEC };
	struct addr at = addr_parse("127.0.0.1:0");
	struct sender t = { 0 };
	pthread_t thread;
	int l, c, s;

	if (self->to.sa.sa_family == AF_UNIX)
		SKIP(return, "AF_UNIX is not disconnected");
	l = end_listen(END_TCP, &at);
	ASSERT_LE(0, l);
	c = end_connect(END_L5, &at);
	ASSERT_LE(0, c);
	s = accept(l, NULL, NULL);
	ASSERT_LE(0, s);
	t.fd = c;
	ASSERT_EQ(0, pthread_create(&thread, NULL, sender_main, &t));
	while (!atomic_load(&t.tid))
		;
	ASSERT_TRUE(l5_wait_asleep(atomic_load(&t.tid)));
	if (connect(c, &none, sizeof(none))) {
		/* newer kernels: not while a call waits */
		ASSERT_EQ(EBUSY, errno);
		close(s);
		pthread_join(thread, NULL);
		SKIP(return, "this kernel does not");
	}
	pthread_join(thread, NULL);
	EXPECT_EQ(0, listen(c, 1));
	close(c);
	close(s);
	close(l);
}

TEST_HARNESS_MAIN
