// SPDX-License-Identifier: GPL-2.0
/*
 * The public functions of libl5 over mapped rings, without AF_L5: bytes in
 * pieces of every size, zero copy, time-outs, and the end.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "kernel.h"

CONN_FIXTURE(unit_conn)

/* Send @len and receive them; buffers of just that size, for the sanitizers. */
static bool exact(struct l5_stream *from, struct l5_stream *to, size_t len,
		  size_t more, uint64_t at)
{
	uint8_t *out = malloc(len), *in = malloc(len + more);
	bool ok;

	l5_fill(out, len, at);
	memset(in, 0x5a, len + more);
	ok = l5_send(from, out, len, 0) == (ssize_t)len &&
	     l5_recv(to, in, len + more, 0) == (ssize_t)len &&
	     !wrong(in, len, at);
	while (more--)
		ok &= in[len + more] == 0x5a;
	free(out);
	free(in);
	return ok;
}

/* Each size, at each place of the ring sooner or later; no system call. */
TEST_F_TIMEOUT(unit_conn, sizes, 300)
{
	const size_t turns = 1 + 40 / slow();
	size_t len, turn;

	for (turn = 0; turn < turns; turn++) {
		for (len = 1; len <= 300; len++) {
			ASSERT_TRUE(exact(self->a, self->b, len, 0, turn));
			ASSERT_TRUE(exact(self->b, self->a, len, turn, len));
		}
		for (len = 301; len < SIZE - 16; len = len * 9 / 8)
			ASSERT_TRUE(exact(self->a, self->b, len + turn % 8, 9,
					  turn));
	}
	EXPECT_EQ(0, calls);
	/* a call without bytes is for the kernel to judge */
	EXPECT_EQ(0, l5_send(self->a, NULL, 0, 0));
	EXPECT_EQ(0, l5_recv(self->b, NULL, 0, 0));
	EXPECT_EQ(2, calls);
}

TEST_F(unit_conn, pieces)
{
	char buf[64] = "";

	EXPECT_EQ(10, l5_send(self->a, "0123456789", 10, 0));
	EXPECT_EQ(3, l5_send(self->a, "abc", 3, MSG_MORE));
	/* less than a record, the rest and more, and no more than there is */
	EXPECT_EQ(4, l5_recv(self->b, buf, 4, 0));
	EXPECT_EQ(0, memcmp(buf, "0123", 4));
	EXPECT_EQ(9, l5_recv(self->b, buf, sizeof(buf), 0));
	EXPECT_EQ(0, memcmp(buf, "456789abc", 9));

	EXPECT_EQ(5, l5_send(self->a, "peek!", 5, 0));
	EXPECT_EQ(5, l5_send(self->a, "again", 5, MSG_NOSIGNAL));
	EXPECT_EQ(2, l5_recv(self->b, buf, 2, MSG_PEEK));
	EXPECT_EQ(0, memcmp(buf, "pe", 2));
	EXPECT_EQ(10, l5_recv(self->b, buf, sizeof(buf), MSG_PEEK));
	EXPECT_EQ(0, memcmp(buf, "peek!again", 10));
	EXPECT_EQ(7, l5_recv(self->b, buf, 7, MSG_WAITALL));
	EXPECT_EQ(3, l5_recv(self->b, buf, 7, MSG_PEEK | MSG_DONTWAIT));
	EXPECT_EQ(0, memcmp(buf, "ain", 3));
	EXPECT_EQ(0, calls);
	/* what the rings cannot do, and bytes that only the kernel knows */
	EXPECT_EQ(3, l5_recv(self->b, buf, 3, MSG_PEEK | MSG_WAITALL));
	EXPECT_EQ(0, memcmp(buf, "ain", 3));
	EXPECT_EQ(-1, l5_recv(self->b, buf, 3, MSG_OOB));
	EXPECT_EQ(EOPNOTSUPP, errno);
	EXPECT_EQ(-1, l5_send(self->a, buf, 3, MSG_OOB));
	EXPECT_EQ(EOPNOTSUPP, errno);
	EXPECT_EQ(3, calls);
	EXPECT_EQ(3, l5_recv(self->b, buf, 7, MSG_WAITALL | MSG_DONTWAIT));
	EXPECT_EQ(3, calls);
}

TEST_F_TIMEOUT(unit_conn, vectors, 200)
{
	static struct iovec many[IOV_MAX + 1];
	const int turns = 20000 / slow();
	uint64_t seed = 7, at = 0;
	uint8_t *out, *in;
	struct iovec v[9];
	size_t len;
	int i, n;

	for (i = 0; i < turns; i++) {
		len = 1 + l5_rnd(&seed) % (i % 4 ? 200 : SIZE / 2);
		out = malloc(len);
		in = malloc(len);
		l5_fill(out, len, at);
		n = cut(v, 9, out, len, &seed);
		ASSERT_EQ((ssize_t)len, l5_sendv(self->a, v, n, 0));
		/* in two, the first of them only looked at */
		n = cut(v, 9, in, len, &seed);
		ASSERT_EQ((ssize_t)len, l5_recvv(self->b, v, n, MSG_PEEK));
		ASSERT_EQ(0, wrong(in, len, at));
		memset(in, 0, len);
		n = cut(v, 9, in, len, &seed);
		ASSERT_EQ((ssize_t)len, l5_recvv(self->b, v, n, 0));
		ASSERT_EQ(0, wrong(in, len, at));
		free(out);
		free(in);
		at += len;
	}
	/* all the buffers there may be */
	out = malloc(IOV_MAX);
	in = malloc(IOV_MAX);
	l5_fill(out, IOV_MAX, at);
	for (i = 0; i <= IOV_MAX; i++)
		many[i] = (struct iovec){ out + i, 1 };
	ASSERT_EQ(IOV_MAX, l5_sendv(self->a, many, IOV_MAX, 0));
	for (i = 0; i <= IOV_MAX; i++)
		many[i].iov_base = in + i;
	ASSERT_EQ(IOV_MAX, l5_recvv(self->b, many, IOV_MAX, MSG_WAITALL));
	EXPECT_EQ(0, wrong(in, IOV_MAX, at));
	EXPECT_EQ(0, calls);
	/* more buffers, none, and empty ones: for the kernel to judge */
	EXPECT_EQ(-1, l5_sendv(self->a, many, IOV_MAX + 1, 0));
	EXPECT_EQ(EMSGSIZE, errno);
	EXPECT_EQ(-1, l5_recvv(self->b, many, IOV_MAX + 1, 0));
	EXPECT_EQ(EMSGSIZE, errno);
	EXPECT_EQ(-1, l5_sendv(self->a, many, -1, 0));
	EXPECT_EQ(EMSGSIZE, errno);
	EXPECT_EQ(0, l5_sendv(self->a, many, 0, 0));
	many[0].iov_len = 0;
	EXPECT_EQ(0, l5_recvv(self->b, many, 1, 0));
	EXPECT_EQ(5, calls);
	free(out);
	free(in);
}

/* What the calls that do not wait say of a ring that is empty, or full. */
TEST_F(unit_conn, nonblocking)
{
	uint8_t *big = malloc(4 * SIZE), buf[100];
	struct iovec v = { buf, sizeof(buf) };
	size_t sent = 0, got = 0;
	const void *q;
	ssize_t n;
	void *p;
	int i;

	l5_fill(big, 4 * SIZE, 0);
	for (i = 0; i < 2; i++) {
		const int flags = i ? 0 : MSG_DONTWAIT;

		EXPECT_EQ(0, l5_set_nonblock(self->a, i));
		EXPECT_EQ(0, l5_set_nonblock(self->b, i));
		EXPECT_EQ(i ? O_NONBLOCK : 0,
			  fcntl(self->p.fd[0], F_GETFL) & O_NONBLOCK);
		count_from_here();
		EXPECT_EQ(-1, l5_recv(self->b, buf, 1, flags));
		EXPECT_EQ(EAGAIN, errno);
		EXPECT_EQ(-1, l5_recv(self->b, buf, 1, flags | MSG_PEEK));
		EXPECT_EQ(EAGAIN, errno);
		EXPECT_EQ(-1, l5_recv(self->b, buf, 1, flags | MSG_WAITALL));
		EXPECT_EQ(EAGAIN, errno);
		EXPECT_EQ(-1, l5_recvv(self->b, &v, 1, flags));
		EXPECT_EQ(EAGAIN, errno);
		EXPECT_EQ(-1, l5_peek(self->b, &q, flags));
		EXPECT_EQ(EAGAIN, errno);
		EXPECT_EQ(0, calls);

		/* so much as there is room for, then nothing */
		n = l5_send(self->a, big + sent, 4 * SIZE - sent, flags);
		ASSERT_LT(SIZE / 2, n);
		ASSERT_GT(SIZE, n);
		sent += n;
		while ((n = l5_send(self->a, big + sent, 1, flags)) > 0)
			sent += n;
		EXPECT_EQ(EAGAIN, errno);
		/* a writer told EAGAIN asked the kernel, which will wake it */
		count_from_here();
		EXPECT_EQ(-1, l5_sendv(self->a, &v, 1, flags));
		EXPECT_EQ(EAGAIN, errno);
		EXPECT_EQ(1, calls);
		EXPECT_EQ(-1, l5_reserve(self->a, &p, 100, flags));
		EXPECT_EQ(EAGAIN, errno);
		EXPECT_EQ(0, l5_wait(self->a, POLLOUT, 0));
		EXPECT_EQ(POLLIN, l5_wait(self->b, POLLIN, 0));
		EXPECT_EQ(0, sleeps);

		while ((n = l5_recv(self->b, buf, 77, flags)) > 0) {
			ASSERT_EQ(0, wrong(buf, n, got));
			got += n;
		}
		EXPECT_EQ(EAGAIN, errno);
		EXPECT_EQ(sent, got);
		EXPECT_EQ(POLLOUT, l5_wait(self->a, POLLIN | POLLOUT, 0));
		EXPECT_EQ(0, l5_wait(self->b, POLLIN, 0));
	}
	/* the call needs a real socket */
	close(self->p.fd[0]);
	EXPECT_EQ(-1, l5_set_nonblock(self->a, true));
	EXPECT_EQ(EBADF, errno);
	self->p.fd[0] = sock_of(self->p.fd[0])->fd = dup(self->p.fd[1]);
	free(big);
}

/* Zero copy */

static ssize_t put(struct l5_stream *c, size_t want, size_t len, uint64_t at)
{
	ssize_t n;
	void *p;

	n = l5_reserve(c, &p, want, MSG_DONTWAIT);
	if (n <= 0)
		return n;
	if ((size_t)n < len)
		len = n;
	l5_fill(p, len, at);
	return l5_commit(c, len);
}

TEST_F_TIMEOUT(unit_conn, zero_copy, 200)
{
	const int turns = 50000 / slow();
	uint64_t sent = 0, got = 0, seed = 3;
	uint8_t buf[64];
	const void *q;
	ssize_t n;
	void *p;
	int i;

	EXPECT_EQ(-1, l5_reserve(self->a, &p, 0, 0));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, l5_reserve(self->a, &p, 1, MSG_OOB));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, l5_peek(self->b, &q, MSG_PEEK));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, l5_commit(self->a, 0));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, l5_release(self->b, 0));
	EXPECT_EQ(EINVAL, errno);

	/* never more than half; too much is refused, and all goes on */
	n = l5_reserve(self->a, &p, 10 * SIZE, MSG_NOSIGNAL);
	EXPECT_EQ(SIZE / 2, n);
	EXPECT_EQ(-1, l5_commit(self->a, n + 1));
	EXPECT_EQ(EINVAL, errno);
	/* this thread alone has the direction, but not the other one */
	EXPECT_EQ(-1, l5_send(self->a, "x", 1, 0));
	EXPECT_EQ(EDEADLK, errno);
	EXPECT_EQ(-1, l5_reserve(self->a, &p, 1, 0));
	EXPECT_EQ(EDEADLK, errno);
	EXPECT_EQ(1, l5_send(self->b, "y", 1, 0));
	EXPECT_EQ(1, l5_recv(self->a, buf, 1, 0));
	memcpy(p, "partly", 6);
	EXPECT_EQ(6, l5_commit(self->a, 6));
	EXPECT_EQ(-1, l5_commit(self->a, 0));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(5, l5_reserve(self->a, &p, 5, 0));
	EXPECT_EQ(0, l5_commit(self->a, 0));

	EXPECT_EQ(6, l5_peek(self->b, &q, 0));
	EXPECT_EQ(0, memcmp(q, "partly", 6));
	EXPECT_EQ(-1, l5_release(self->b, 7));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, l5_recv(self->b, buf, 1, 0));
	EXPECT_EQ(EDEADLK, errno);
	EXPECT_EQ(-1, l5_peek(self->b, &q, MSG_DONTWAIT));
	EXPECT_EQ(EDEADLK, errno);
	EXPECT_EQ(0, l5_release(self->b, 0));
	EXPECT_EQ(6, l5_peek(self->b, &q, 0));
	EXPECT_EQ(0, l5_release(self->b, 4));
	EXPECT_EQ(2, l5_peek(self->b, &q, 0));
	EXPECT_EQ(0, memcmp(q, "ly", 2));
	EXPECT_EQ(0, l5_release(self->b, 2));
	EXPECT_EQ(-1, l5_peek(self->b, &q, MSG_DONTWAIT));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_EQ(0, calls);

	/* at every place, what is taken in other pieces than it came in */
	for (i = 0; i < turns; i++) {
		size_t want = 1 + l5_rnd(&seed) % 600;

		n = 1;
		while (n > 0 && sent - got < SIZE / 4) {
			n = put(self->a, want, 1 + l5_rnd(&seed) % want, sent);
			sent += n > 0 ? n : 0;
		}
		/* the ring may be full of small ones */
		ASSERT_TRUE(n > 0 || errno == EAGAIN);
		n = l5_peek(self->b, &q, 0);
		ASSERT_LT(0, n);
		ASSERT_EQ(0, wrong(q, n, got));
		n = l5_rnd(&seed) % (n + 1);
		ASSERT_EQ(0, l5_release(self->b, n));
		got += n;
		if (l5_rnd(&seed) % 4 || sent == got)
			continue;
		n = l5_recv(self->b, buf, sizeof(buf), 0);
		ASSERT_LT(0, n);
		ASSERT_EQ(0, wrong(buf, n, got));
		got += n;
	}
	EXPECT_EQ(0, calls);
}

static void *send_two(void *arg)
{
	return l5_send(arg, "two", 3, 0) == 3 ? NULL : arg;
}

static void *recv_two(void *arg)
{
	char buf[3];

	return l5_recv(arg, buf, 3, 0) == 3 && !memcmp(buf, "two", 3) ? NULL :
	       arg;
}

/* Start a thread that is to sleep, and wait until it does. */
static bool asleep(pthread_t *t, void *(*fn)(void *arg), void *arg)
{
	return l5_wait_asleep(l5_thread_start(t, NULL, fn, arg));
}

/* Another thread has to wait until the second call of a pair. */
TEST_F(unit_conn, kept_from_others)
{
	const void *q;
	pthread_t t;
	char buf[6];
	void *bad;
	void *p;

	ASSERT_EQ(3, l5_reserve(self->a, &p, 3, 0));
	ASSERT_TRUE(asleep(&t, send_two, self->a));
	EXPECT_EQ(0, l5_wait(self->b, POLLIN, 0));
	memcpy(p, "one", 3);
	ASSERT_EQ(3, l5_commit(self->a, 3));
	ASSERT_EQ(0, pthread_join(t, &bad));
	EXPECT_EQ(NULL, bad);
	ASSERT_EQ(6, l5_recv(self->b, buf, 6, MSG_WAITALL));
	EXPECT_EQ(0, memcmp(buf, "onetwo", 6));

	ASSERT_EQ(3, l5_send(self->a, "one", 3, 0));
	ASSERT_EQ(3, l5_send(self->a, "two", 3, 0));
	ASSERT_EQ(3, l5_peek(self->b, &q, 0));
	ASSERT_TRUE(asleep(&t, recv_two, self->b));
	EXPECT_EQ(0, memcmp(q, "one", 3));
	ASSERT_EQ(0, l5_release(self->b, 3));
	ASSERT_EQ(0, pthread_join(t, &bad));
	EXPECT_EQ(NULL, bad);
}

static void *send_slowly(void *arg)
{
	int i;

	for (i = 0; i < 10; i++) {
		usleep(2000);
		if (l5_send(arg, "0123456789" + i, 1, 0) != 1)
			return arg;
	}
	return NULL;
}

/* MSG_WAITALL gets all of it, by as many sleeps as it takes. */
TEST_F(unit_conn, waitall)
{
	char buf[11] = "";
	pthread_t t;
	void *bad;

	ASSERT_EQ(0, pthread_create(&t, NULL, send_slowly, self->a));
	EXPECT_EQ(10, l5_recv(self->b, buf, 10, MSG_WAITALL));
	EXPECT_STREQ("0123456789", buf);
	ASSERT_EQ(0, pthread_join(t, &bad));
	EXPECT_EQ(NULL, bad);

	/* what is there by the end of the time, then nothing is an error */
	ASSERT_TRUE(set_timeout(self->p.fd[1], SO_RCVTIMEO, 20));
	EXPECT_EQ(3, l5_send(self->a, "abc", 3, 0));
	EXPECT_EQ(3, l5_recv(self->b, buf, 10, MSG_WAITALL));
	EXPECT_EQ(-1, l5_recv(self->b, buf, 10, MSG_WAITALL));
	EXPECT_EQ(EAGAIN, errno);
}

/* A call that sleeps does so for the socket's time, and says so. */
TEST_F(unit_conn, timeouts)
{
	uint8_t *big = calloc(1, 2 * SIZE);
	const void *q;
	char buf[8];
	ssize_t n;
	void *p;

	ASSERT_TRUE(set_timeout(self->p.fd[1], SO_RCVTIMEO, 20));
	ASSERT_TRUE(set_timeout(self->p.fd[0], SO_SNDTIMEO, 20));
	EXPECT_EQ(-1, l5_recv(self->b, buf, 8, 0));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_EQ(-1, l5_recv(self->b, buf, 8, MSG_PEEK));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_EQ(-1, l5_peek(self->b, &q, 0));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_EQ(3, sleeps);
	n = l5_send(self->a, big, 2 * SIZE, 0);
	EXPECT_LT(SIZE / 2, n);
	EXPECT_GT(SIZE, n);
	EXPECT_EQ(-1, l5_send(self->a, big, SIZE, 0));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_EQ(-1, l5_reserve(self->a, &p, SIZE, 0));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_EQ(0, l5_wait(self->a, POLLOUT, 500));
	EXPECT_EQ(7, sleeps);
	free(big);
}

/* The end */

TEST_F(unit_conn, end)
{
	struct l5_event e = { self->b, POLLIN | POLLRDHUP, 0 };
	const void *q;
	char buf[8];
	void *p;

	EXPECT_EQ(3, l5_send(self->a, "end", 3, 0));
	l5_native_flag(self->p.k, 1, L5_MAP_RX_ASK);
	l5_native_flag(self->p.k, 0, L5_MAP_TX_ASK);
	/* first what came before */
	EXPECT_EQ(1, l5_wait_any(&e, 1, -1));
	EXPECT_EQ(POLLIN | POLLRDHUP, e.revents);
	EXPECT_EQ(2, l5_recv(self->b, buf, 2, 0));
	EXPECT_EQ(1, l5_peek(self->b, &q, 0));
	EXPECT_EQ(0, l5_release(self->b, 1));
	EXPECT_EQ(0, l5_recv(self->b, buf, 8, 0));
	EXPECT_EQ(0, l5_recv(self->b, buf, 8, MSG_PEEK));
	EXPECT_EQ(0, l5_recv(self->b, buf, 8, MSG_WAITALL | MSG_DONTWAIT));
	EXPECT_EQ(0, l5_peek(self->b, &q, 0));
	EXPECT_EQ(-1, l5_release(self->b, 0));
	EXPECT_EQ(EINVAL, errno);
	/* the peer's: of reserved memory the commit hears */
	EXPECT_EQ(-1, l5_send(self->a, "x", 1, MSG_NOSIGNAL));
	EXPECT_EQ(EPIPE, errno);
	EXPECT_EQ(1, l5_reserve(self->a, &p, 1, MSG_NOSIGNAL));
	EXPECT_EQ(-1, l5_commit(self->a, 1));
	EXPECT_EQ(EPIPE, errno);
	EXPECT_EQ(64 << 10, l5_reserve(self->a, &p, 1 << 20, MSG_NOSIGNAL));
	EXPECT_EQ(0, l5_commit(self->a, 0));
	EXPECT_EQ(0, sleeps);
	/* the other direction goes on */
	EXPECT_EQ(2, l5_send(self->b, "on", 2, 0));
	EXPECT_EQ(2, l5_recv(self->a, buf, 8, 0));
}

static void *recv_end(void *arg)
{
	char c;

	return l5_recv(arg, &c, 1, 0) ? arg : NULL;
}

TEST_F(unit_conn, end_wakes)
{
	pthread_t t;
	void *bad;

	ASSERT_TRUE(asleep(&t, recv_end, self->b));
	l5_native_flag(self->p.k, 1, L5_MAP_RX_ASK);
	ASSERT_EQ(0, pthread_join(t, &bad));
	EXPECT_EQ(NULL, bad);
}

/* A peer that does not keep to the rules. */
TEST_F(unit_conn, broken)
{
	const void *q;
	char buf[8];
	void *p;

	l5_store((__u64 *)self->p.k->data[0], ~0ull);
	EXPECT_EQ(-1, l5_recv(self->b, buf, 8, 0));
	EXPECT_EQ(EPROTO, errno);
	l5_store(&self->p.k->ctrl[0]->rx_head, 1ull << 40);
	EXPECT_EQ(-1, l5_peek(self->b, &q, 0));
	EXPECT_EQ(EPROTO, errno);
	/*
	 * the connection was ended for that, and a call is the kernel's from
	 * now on
	 */
	EXPECT_EQ(-1, l5_send(self->b, "x", 1, MSG_NOSIGNAL));
	EXPECT_EQ(EPIPE, errno);
	EXPECT_EQ(1, l5_reserve(self->b, &p, 1, 0));
	EXPECT_EQ(-1, l5_commit(self->b, 1));
	EXPECT_EQ(EPIPE, errno);
}

PLAIN_FIXTURE(unit_conn_alone)

/* Only l5_close() ends the descriptor along with the connection. */
TEST_F(unit_conn_alone, closed)
{
	struct pair p;
	struct sock *s;
	int fd;

	ASSERT_TRUE(pair_new(&p));
	s = sock_of(p.fd[0]);
	fd = dup(p.fd[0]);
	l5_unmap(p.c[0]);
	EXPECT_LE(0, fcntl(fd, F_GETFD));
	p.c[0] = l5_stream_over(p.fd[0], p.m[0]);
	ASSERT_NE(NULL, p.c[0]);
	EXPECT_EQ(0, l5_close(p.c[0]));
	EXPECT_EQ(-1, fcntl(p.fd[0], F_GETFD));
	EXPECT_EQ(EBADF, errno);
	p.fd[0] = fd;
	s->fd = fd;
	p.c[0] = NULL;
	/* a second time it is nobody's */
	EXPECT_EQ(0, l5_close(p.c[0]));
	pair_free(&p);
}

TEST_HARNESS_MAIN
