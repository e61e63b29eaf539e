// SPDX-License-Identifier: GPL-2.0
/*
 * libl5 over SOCK_SEQPACKET: mapped at both ends or at one, beside system calls
 * and other processes, and over a socket of AF_UNIX, which says what is right.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "ends.h"
#include "given.h"
#include "libl5_pair.h"
#include "whole.h"

enum { LONGEST = 60000, SENDERS = 3, EACH = 300, KILLS = 40 };

FIXTURE(libl5_message)
{
	struct l5_stream *c, *s;
	int cfd, sfd;
};

FIXTURE_VARIANT(libl5_message)
{
	bool plain;
	bool dial;
	bool c_maps;
	bool s_maps;
};

FIXTURE_VARIANT_ADD(libl5_message, af_unix) { .plain = true };
FIXTURE_VARIANT_ADD(libl5_message, both) { .c_maps = true, .s_maps = true };
FIXTURE_VARIANT_ADD(libl5_message, sender) { .c_maps = true };
FIXTURE_VARIANT_ADD(libl5_message, receiver) { .s_maps = true };
FIXTURE_VARIANT_ADD(libl5_message, dialled)
{
	.dial = true, .c_maps = true, .s_maps = true,
};

/* A connection without rings, for what this test says goes by system call */
static struct l5_stream *over(int fd, bool maps)
{
	struct l5_stream *c;
	struct rlimit was, none = { 0 };

	if (maps)
		return l5_map(fd);
	/* no place in this process: the library does without */
	getrlimit(RLIMIT_AS, &was);
	none.rlim_max = was.rlim_max;
	setrlimit(RLIMIT_AS, &none);
	c = l5_map(fd);
	setrlimit(RLIMIT_AS, &was);
	return c;
}

static bool dial(struct l5_stream **c, struct l5_stream **s)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	char name[64];
	int fd;

	snprintf(name, sizeof(name), "@message-%d", getpid());
	strcpy(sun.sun_path + 1, name + 1);
	fd = l5_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC);
	if (fd < 0 ||
	    bind(fd, (struct sockaddr *)&sun,
		 offsetof(struct sockaddr_un, sun_path) + strlen(name)) ||
	    listen(fd, 5))
		return false;
	*c = l5_connect(name, NULL, SOCK_SEQPACKET);
	*s = l5_accept(fd, 0);
	close(fd);
	return *c && *s;
}

FIXTURE_SETUP(libl5_message)
{
	int fd[2];

	l5_or_skip();
	signal(SIGPIPE, SIG_IGN);
	if (variant->dial) {
		ASSERT_TRUE(dial(&self->c, &self->s));
		self->cfd = l5_stream_fd(self->c);
		self->sfd = l5_stream_fd(self->s);
	} else {
		ASSERT_EQ(0, socketpair(variant->plain ? AF_UNIX : l5_family(),
					SOCK_SEQPACKET,
					variant->plain ? 0 : L5PROTO_UNIX, fd));
		self->cfd = fd[0];
		self->sfd = fd[1];
		self->c = over(fd[0], variant->plain || variant->c_maps);
		self->s = over(fd[1], variant->plain || variant->s_maps);
		ASSERT_NE(NULL, self->c);
		ASSERT_NE(NULL, self->s);
	}
	ASSERT_EQ(variant->c_maps, l5_stream_mapped(self->c));
	ASSERT_EQ(variant->s_maps, l5_stream_mapped(self->s));
}

FIXTURE_TEARDOWN(libl5_message)
{
	(void)_metadata;
	(void)variant;
	if (self->c)
		l5_close(self->c);
	if (self->s)
		l5_close(self->s);
}

static ssize_t send_one(struct l5_stream *c, int way, uint8_t *buf,
			uint32_t len)
{
	whole_make(buf, len);
	return send_way(c, way, buf, len);
}

static uint32_t some_length(uint64_t *seed)
{
	return sizeof(uint32_t) +
	       l5_rnd(seed) % (l5_rnd(seed) % 4 ? 300 : LONGEST);
}

/* Each way to send meets each way to receive. */
TEST_F_TIMEOUT(libl5_message, ways, 300)
{
	static uint8_t out[LONGEST + 4], in[LONGEST + 5];
	uint64_t seed = 5;
	uint32_t len;
	int i, k;

	for (i = 0; i < WAYS; i++) {
		for (k = 0; k < 4 * WAYS; k++) {
			len = some_length(&seed);
			ASSERT_EQ((ssize_t)len,
				  send_one(self->c, i, out, len));
			memset(in, 0, len);
			ASSERT_EQ((ssize_t)len, recv_way(self->s, k % WAYS, in,
							 sizeof(in)));
			ASSERT_TRUE(whole_is(in, len));
		}
	}
}

/* What has no room is lost, MSG_PEEK leaves it, MSG_WAITALL adds nothing. */
TEST_F(libl5_message, cut)
{
	struct iovec v = { .iov_len = 4 };
	char b[20] = "";
	const void *p;

	v.iov_base = b;
	ASSERT_EQ(10, l5_send(self->c, "0123456789", 10, 0));
	ASSERT_EQ(3, l5_send(self->c, "abc", 3, 0));
	ASSERT_EQ(2, l5_send(self->c, "de", 2, 0));
	EXPECT_EQ(4, l5_recv(self->s, b, 4, MSG_PEEK));
	EXPECT_EQ(10, l5_recvv(self->s, &v, 1, MSG_PEEK | MSG_TRUNC));
	EXPECT_EQ(4, l5_recv(self->s, b, 4, 0));
	EXPECT_EQ(0, memcmp(b, "0123", 4));
	EXPECT_EQ(3, l5_peek(self->s, &p, 0));
	EXPECT_EQ(0, memcmp(p, "abc", 3));
	/* nothing taken; then a part, and the rest is gone */
	EXPECT_EQ(0, l5_release(self->s, 0));
	EXPECT_EQ(3, l5_peek(self->s, &p, 0));
	EXPECT_EQ(0, l5_release(self->s, 1));
	EXPECT_EQ(2, l5_recv(self->s, b, sizeof(b), MSG_WAITALL));
	EXPECT_EQ(0, memcmp(b, "de", 2));
	EXPECT_EQ(-1, l5_recv(self->s, b, sizeof(b), MSG_DONTWAIT));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_EQ(-1, l5_peek(self->s, &p, MSG_DONTWAIT));
	EXPECT_EQ(EAGAIN, errno);
}

/* One without bytes is one. */
TEST_F(libl5_message, empty)
{
	char b[20];
	const void *p;
	int i;

	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, l5_send(self->c, b, 0, 0));
		ASSERT_EQ(1, l5_send(self->c, "x", 1, 0));
		EXPECT_EQ(POLLIN, l5_wait(self->s, POLLIN, LONG_MS));
		/* left for a receive, and not mistaken for the next one */
		EXPECT_EQ(0, l5_peek(self->s, &p, 0));
		EXPECT_EQ(0, l5_recv(self->s, b, sizeof(b), MSG_PEEK));
		EXPECT_EQ(0, l5_recv(self->s, b, sizeof(b), 0));
		EXPECT_EQ(1, l5_recv(self->s, b, sizeof(b), 0));
	}
}

/* Longer than any message may be, by each door. */
TEST_F(libl5_message, too_long)
{
	size_t len = 20 << 20;
	uint8_t *b = malloc(len);
	void *p;

	ASSERT_NE(NULL, b);
	EXPECT_EQ(-1, l5_send(self->c, b, len, 0));
	EXPECT_EQ(EMSGSIZE, errno);
	EXPECT_EQ(-1, l5_reserve(self->c, &p, len, 0));
	EXPECT_EQ(EMSGSIZE, errno);
	len = 1 << 20;
	EXPECT_EQ(-1, l5_send(self->c, b, len, MSG_DONTWAIT));
	EXPECT_EQ(EMSGSIZE, errno);
	/* without a ring that is only found when it is sent */
	if (l5_reserve(self->c, &p, len, 0) > 0)
		EXPECT_EQ(-1, l5_commit(self->c, len));
	EXPECT_EQ(EMSGSIZE, errno);
	EXPECT_EQ(2, l5_send(self->c, "ok", 2, 0));
	EXPECT_EQ(2, l5_recv(self->s, b, len, 0));
	free(b);
}

/* Until there is no room, and poll() and the call agree that there is none. */
TEST_F(libl5_message, full)
{
	static uint8_t b[3000];
	int n = 0, i;
	void *p;

	while (l5_send(self->c, b, sizeof(b), MSG_DONTWAIT) > 0)
		n++;
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_LT(10, n);
	EXPECT_EQ(0, l5_wait(self->c, POLLOUT, 0));
	/* of AF_UNIX's own only the commit can say so */
	if (!variant->plain && variant->c_maps) {
		EXPECT_EQ(-1, l5_reserve(self->c, &p, 1, MSG_DONTWAIT));
		EXPECT_EQ(EAGAIN, errno);
	}
	for (i = 0; i < n; i++)
		ASSERT_EQ(3000, l5_recv(self->s, b, sizeof(b), 0));
	EXPECT_EQ(POLLOUT, l5_wait(self->c, POLLOUT, LONG_MS));
	EXPECT_EQ(3000, l5_send(self->c, b, sizeof(b), MSG_DONTWAIT));
}

TEST_F_TIMEOUT(libl5_message, reserve_edge, 120)
{
	if (!variant->c_maps)
		SKIP(return, "what only the commit finds is not reserved");
	EXPECT_TRUE(reserve_edge(self->c, self->s, LONG_MS));
}

/* A sleeper is woken, for a message and for room. */
static void *late_message(void *arg)
{
	l5_wait_asleep(getpid());
	return (void *)l5_send(arg, "late", 4, 0);
}

static void *late_drain(void *arg)
{
	static char b[3000];
	long n = 0;

	l5_wait_asleep(getpid());
	while (l5_recv(arg, b, sizeof(b), 0) == sizeof(b))
		n++;
	return (void *)n;
}

TEST_F_TIMEOUT(libl5_message, wakes, 120)
{
	static uint8_t b[3000];
	const void *p;
	pthread_t t;
	long n = 0;
	void *ret;
	int i;

	for (i = 0; i < 4; i++) {
		ASSERT_EQ(0, pthread_create(&t, NULL, late_message, self->c));
		if (i == 0) {
			EXPECT_EQ(4, l5_recv(self->s, b, 100, 0));
		} else if (i == 1) {
			EXPECT_EQ(4, l5_peek(self->s, &p, 0));
			EXPECT_EQ(0, l5_release(self->s, 4));
		} else if (i == 2) {
			EXPECT_EQ(POLLIN, l5_wait(self->s, POLLIN, LONG_MS));
			EXPECT_EQ(4, l5_recv(self->s, b, 100, 0));
		} else {
			EXPECT_EQ(4, recv(self->sfd, b, 100, 0));
		}
		pthread_join(t, &ret);
		EXPECT_EQ(4, (long)ret);
	}
	ASSERT_EQ(0, pthread_create(&t, NULL, late_drain, self->s));
	for (n = 0; n < 500; n++)
		ASSERT_EQ(3000, l5_send(self->c, b, sizeof(b), 0));
	ASSERT_EQ(3, l5_send(self->c, "end", 3, 0));
	pthread_join(t, &ret);
	EXPECT_EQ(n, (long)ret);
}

/*
 * How it ends, in the words of a script: of each step what came back. A peer
 * that has read all, one that has not, and shutdown() of either side.
 */
static int said(char *to, ssize_t n)
{
	return sprintf(to, "%zd/%s ", n, n < 0 ? strerrorname_np(errno) : "-");
}

static void script(struct l5_stream **c, struct l5_stream **s, int which,
		   char *to)
{
	char b[10];
	int i;

	l5_send(*c, "one", 3, 0);
	l5_send(*c, "two", 3, 0);
	l5_send(*s, "three", 5, 0);
	switch (which) {
	case 0:
		l5_recv(*c, b, sizeof(b), 0);
		/* fall through */
	case 1:
		l5_close(*c);
		*c = NULL;
		break;
	case 2:
		shutdown(l5_stream_fd(*c), SHUT_WR);
		break;
	case 3:
		shutdown(l5_stream_fd(*c), SHUT_RD);
		break;
	case 4:
		shutdown(l5_stream_fd(*s), SHUT_RD);
		break;
	default:
		shutdown(l5_stream_fd(*s), SHUT_RDWR);
		break;
	}
	for (i = 0; i < 5; i++) {
		to += said(to, l5_recv(*s, b, sizeof(b), MSG_DONTWAIT));
		if (i % 2)
			to += said(to, l5_send(*s, "x", 1, MSG_DONTWAIT |
					       MSG_NOSIGNAL));
	}
	for (i = 0; *c && i < 3; i++) {
		to += said(to, l5_recv(*c, b, sizeof(b), MSG_DONTWAIT));
		to += said(to, l5_send(*c, "y", 1, MSG_DONTWAIT |
				       MSG_NOSIGNAL));
	}
}

static void script_plain(int which, char *to)
{
	struct l5_stream *c, *s;
	int fd[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fd))
		abort();
	c = l5_map(fd[0]);
	s = l5_map(fd[1]);
	script(&c, &s, which, to);
	l5_close(c);
	l5_close(s);
}

static void ends_as_unix(struct __test_metadata *_metadata,
			 struct l5_stream **c, struct l5_stream **s, int which)
{
	char want[500] = "", got[500] = "";

	script_plain(which, want);
	script(c, s, which, got);
	EXPECT_STREQ(want, got);
}

#define ENDS(name, which)						\
	TEST_F(libl5_message, name)					\
	{								\
		ends_as_unix(_metadata, &self->c, &self->s, which);	\
	}

ENDS(end_all_read, 0)
ENDS(end_unread, 1)
ENDS(end_shut_wr, 2)
ENDS(end_shut_rd, 3)
ENDS(end_own_rd, 4)
ENDS(end_own_both, 5)

/* Descriptors come with the message that they were sent with. */
TEST_F(libl5_message, descriptors)
{
	char b[10];
	int fd;

	ASSERT_EQ(1, l5_send(self->c, "a", 1, 0));
	ASSERT_TRUE(given_number(self->cfd, 22, 0));
	ASSERT_EQ(1, l5_send(self->c, "b", 1, 0));
	EXPECT_EQ(1, l5_recv(self->s, b, sizeof(b), 0));
	EXPECT_EQ('a', *b);
	EXPECT_LT(0, fds_take(self->sfd, b, sizeof(b), &fd, 0));
	EXPECT_EQ(22, given_read(fd));
	EXPECT_EQ(1, l5_recv(self->s, b, sizeof(b), 0));
	EXPECT_EQ('b', *b);
	/* a receive that has no room for them leaves them behind */
	ASSERT_TRUE(given_number(self->cfd, 23, 0));
	ASSERT_EQ(1, l5_send(self->c, "c", 1, 0));
	EXPECT_LT(0, l5_recv(self->s, b, sizeof(b), 0));
	EXPECT_EQ(1, l5_recv(self->s, b, sizeof(b), 0));
	EXPECT_EQ('c', *b);
}

/* Processes that share both ends: each message comes once, and whole. */
static void sends(struct l5_stream *c, uint64_t seed, int n)
{
	static uint8_t buf[LONGEST + 4];

	while (n--) {
		uint32_t len = some_length(&seed);

		if (send_one(c, l5_rnd(&seed) % SENDS_BLOCK, buf, len) !=
		    (ssize_t)len)
			_exit(1);
	}
	_exit(0);
}

TEST_F_TIMEOUT(libl5_message, shared, 300)
{
	static uint8_t buf[LONGEST + 5];
	uint64_t seed = l5_seed();
	pid_t pid[SENDERS], reader[2];
	int count[2], i, k;
	ssize_t n;

	ASSERT_EQ(0, pipe(count));
	for (i = 0; i < 2; i++) {
		reader[i] = fork();
		ASSERT_LE(0, reader[i]);
		if (reader[i])
			continue;
		/* the parent's are no longer to keep it open */
		close(self->cfd);
		/*
		 * Ways that take in one call, as others take meanwhile: of two
		 * calls the second one is system call's at the end.
		 */
		for (k = 0; (n = recv_way(self->s, (int[]){ 0, 1, 4, 5 }
					  [k % 4], buf, sizeof(buf))) > 0; k++)
			if (!whole_is(buf, n))
				_exit(1);
		_exit(n < 0 || write(count[1], &k, sizeof(k)) != sizeof(k));
	}
	for (i = 0; i < SENDERS; i++) {
		pid[i] = fork();
		ASSERT_LE(0, pid[i]);
		if (!pid[i])
			sends(self->c, seed + i, EACH);
	}
	l5_close(self->c);
	self->c = NULL;
	for (i = 0; i < SENDERS; i++)
		EXPECT_EQ(0, l5_reap(pid[i]));
	for (i = 0; i < 2; i++)
		EXPECT_EQ(0, l5_reap(reader[i]));
	ASSERT_EQ(sizeof(k), read(count[0], &k, sizeof(k)));
	ASSERT_EQ(sizeof(i), read(count[0], &i, sizeof(i)));
	EXPECT_EQ(SENDERS * EACH, k + i);
	close(count[0]);
	close(count[1]);
}

static void kill_sends(void *arg, uint64_t seed)
{
	sends(((struct l5_stream **)arg)[0], seed, 1 << 20);
}

static ssize_t kill_takes(void *arg, void *buf, size_t size)
{
	return l5_recv(((struct l5_stream **)arg)[1], buf, size, MSG_DONTWAIT);
}

/* A sender that is killed, in whatever call, leaves it whole or not at all. */
TEST_F_TIMEOUT(libl5_message, killed, 300)
{
	static uint8_t buf[LONGEST + 5];
	struct l5_stream *ends[] = { self->c, self->s };
	const struct whole_kill k = {
		.send = kill_sends, .take = kill_takes, .arg = ends,
		.buf = buf, .size = sizeof(buf),
	};
	ssize_t n;

	ASSERT_TRUE(whole_after_kills(&k, KILLS));
	/* and the next ones have their place, a long one, too */
	ASSERT_EQ(LONGEST, send_one(self->c, 0, buf, LONGEST));
	n = l5_recv(self->s, buf, sizeof(buf), 0);
	ASSERT_EQ(LONGEST, n);
	EXPECT_TRUE(whole_is(buf, n));
}

TEST_HARNESS_MAIN
