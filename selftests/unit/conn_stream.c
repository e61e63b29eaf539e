// SPDX-License-Identifier: GPL-2.0
/*
 * Streams through the public functions of libl5 over mapped rings, without
 * AF_L5: of two threads, of a crowd of them, and across fork().
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "kernel.h"

CONN_FIXTURE(unit_conn_stream)

/* Each way to send or receive the next bytes; the last ones do not wait. */
enum { WAYS = 6 };

static ssize_t send_way(struct l5_stream *c, int way, uint8_t *buf, size_t n,
			uint64_t *seed)
{
	struct iovec v[9];
	ssize_t got;
	void *p;

	switch (way) {
	case 0:
		return l5_send(c, buf, n, 0);
	case 1:
		return l5_sendv(c, v, cut(v, 9, buf, n, seed), MSG_NOSIGNAL);
	case 2:
		got = l5_reserve(c, &p, n, 0);
		if (got <= 0)
			return got;
		memcpy(p, buf, got);
		return l5_commit(c, got);
	case 3:
		/* another thread's turn, and nothing comes of it */
		if (l5_reserve(c, &p, n, 0) <= 0 || l5_commit(c, 0))
			return -1;
		return l5_send(c, buf, n, MSG_MORE);
	case 4:
		got = l5_reserve(c, &p, n, MSG_DONTWAIT);
		if (got <= 0)
			return got;
		got = 1 + l5_rnd(seed) % got;
		memcpy(p, buf, got);
		return l5_commit(c, got);
	default:
		return l5_sendv(c, v, cut(v, 9, buf, n, seed), MSG_DONTWAIT);
	}
}

static ssize_t recv_way(struct l5_stream *c, int way, uint8_t *buf, size_t n,
			uint64_t *seed)
{
	struct iovec v[9];
	const void *p;
	ssize_t got;

	switch (way) {
	case 0:
		return l5_recv(c, buf, n, 0);
	case 1:
		return l5_recvv(c, v, cut(v, 9, buf, n, seed), 0);
	case 2:
		got = l5_peek(c, &p, 0);
		if (got <= 0)
			return got;
		if ((size_t)got > n)
			got = n;
		memcpy(buf, p, got);
		return l5_release(c, got) ? -1 : got;
	case 3:
		got = l5_recv(c, buf, n, MSG_PEEK);
		if (got <= 0)
			return got;
		memset(buf, 0, got);
		return l5_recvv(c, v, cut(v, 9, buf, got, seed), MSG_WAITALL);
	case 4:
		got = l5_peek(c, &p, MSG_DONTWAIT);
		if (got <= 0)
			return got;
		got = 1 + l5_rnd(seed) % got;
		if ((size_t)got > n)
			got = n;
		memcpy(buf, p, got);
		return l5_release(c, got) ? -1 : got;
	default:
		return l5_recvv(c, v, cut(v, 9, buf, n, seed), MSG_DONTWAIT);
	}
}

struct stream {
	struct l5_stream *c;
	uint64_t total;
	uint64_t seed;
	bool sends;
	uint64_t bad;
};

static void *stream_run(void *arg)
{
	struct stream *s = arg;
	uint64_t at = 0;
	uint8_t *buf;
	size_t len;
	ssize_t n;
	int way;

	while (at < s->total && !s->bad) {
		len = 1 + l5_rnd(&s->seed) % (l5_rnd(&s->seed) % 8 ? 300 :
							     2 * SIZE);
		if (len > s->total - at)
			len = s->total - at;
		way = l5_rnd(&s->seed) % WAYS;
		buf = malloc(len);
		if (s->sends) {
			l5_fill(buf, len, at);
			n = send_way(s->c, way, buf, len, &s->seed);
		} else {
			n = recv_way(s->c, way, buf, len, &s->seed);
			s->bad += n > 0 && wrong(buf, n, at);
		}
		free(buf);
		if (n > 0)
			at += n;
		else if (n < 0 && errno == EAGAIN)
			s->bad += l5_wait(s->c, s->sends ? POLLOUT : POLLIN,
					  -1) <= 0;
		else
			s->bad++;
	}
	return NULL;
}

/* All ways at once in both directions, until ring and wake-ups have met. */
TEST_F_TIMEOUT(unit_conn_stream, streams, 300)
{
	const uint64_t total = (32 << 20) / slow();
	struct stream s[4] = {
		{ .c = self->a, .total = total, .seed = 1, .sends = true },
		{ .c = self->b, .total = total, .seed = 2 },
		{ .c = self->b, .total = total / 2, .seed = 3, .sends = true },
		{ .c = self->a, .total = total / 2, .seed = 4 },
	};
	pthread_t t[4];
	int i;

	for (i = 0; i < 4; i++)
		ASSERT_EQ(0, pthread_create(&t[i], NULL, stream_run, &s[i]));
	for (i = 0; i < 4; i++) {
		ASSERT_EQ(0, pthread_join(t[i], NULL));
		EXPECT_EQ(0, s[i].bad);
	}
	EXPECT_EQ(0, l5_wait(self->a, POLLIN, 0));
	EXPECT_EQ(0, l5_wait(self->b, POLLIN, 0));
}

/* Two that send and two that receive, each way: whole notes come, in order. */
struct crowd {
	struct l5_stream *c;
	uint32_t who;
	uint32_t count;
	bool sends;
	uint32_t next[2];
	uint32_t bad;
};

static bool note_send(struct l5_stream *c, struct note *n, int way)
{
	struct iovec v[2] = { { n, 11 }, { (uint8_t *)n + 11, 53 } };
	ssize_t got;
	void *p;

	if (way == 1)
		return l5_sendv(c, v, 2, 0) == sizeof(*n);
	if (way == 2) {
		got = l5_reserve(c, &p, sizeof(*n), 0);
		if (got == sizeof(*n))
			memcpy(p, n, sizeof(*n));
		else if (got > 0)
			/* where the ring is mapped but once, at its end */
			got = 0;
		if (got < 0 || l5_commit(c, got) != got)
			return false;
		if (got)
			return true;
	}
	return l5_send(c, n, sizeof(*n), 0) == sizeof(*n);
}

static bool note_recv(struct l5_stream *c, struct note *n, int way)
{
	struct iovec v[2] = { { n, 11 }, { (uint8_t *)n + 11, 53 } };
	const void *p;
	ssize_t got;

	if (way == 1)
		return l5_recvv(c, v, 2, 0) == sizeof(*n);
	if (way == 2) {
		got = l5_peek(c, &p, 0);
		if (got == sizeof(*n))
			memcpy(n, p, sizeof(*n));
		else if (got > 0)
			got = 0;
		if (got < 0 || l5_release(c, got))
			return false;
		if (got)
			return true;
	}
	return l5_recv(c, n, sizeof(*n), 0) == sizeof(*n);
}

static void *crowd_run(void *arg)
{
	struct crowd *w = arg;
	struct note n;
	uint32_t i;

	for (i = 0; i < w->count && !w->bad; i++) {
		if (w->sends) {
			n.who = w->who;
			n.n = i;
			memset(n.body, w->who * 100 + i, sizeof(n.body));
			w->bad += !note_send(w->c, &n, i % 3);
			continue;
		}
		if (!note_recv(w->c, &n, (i + w->who) % 3) || n.who > 1 ||
		    n.n < w->next[n.who]) {
			w->bad++;
			break;
		}
		w->next[n.who] = n.n + 1;
		w->bad += n.body[0] != (uint8_t)(n.who * 100 + n.n) ||
			  memcmp(n.body, n.body + 1, sizeof(n.body) - 1);
	}
	return NULL;
}

TEST_F_TIMEOUT(unit_conn_stream, crowd, 300)
{
	const uint32_t count = 100000 / slow();
	struct crowd w[8];
	pthread_t t[8];
	int i;

	for (i = 0; i < 8; i++) {
		w[i] = (struct crowd){
			.c = self->p.c[!!(i & 4) ^ !(i & 2)], .who = i & 1,
			.count = count, .sends = i & 2,
		};
		ASSERT_EQ(0, pthread_create(&t[i], NULL, crowd_run, &w[i]));
	}
	for (i = 0; i < 8; i++) {
		ASSERT_EQ(0, pthread_join(t[i], NULL));
		EXPECT_EQ(0, w[i].bad);
	}
	EXPECT_EQ(0, l5_wait(self->a, POLLIN, 0));
	EXPECT_EQ(0, l5_wait(self->b, POLLIN, 0));
}

/* Processes */

/*
 * A child has the connection and not the mapping. The socket has no rings to
 * map again, so there it goes on by system calls.
 */
TEST_F(unit_conn_stream, fork)
{
	char buf[16] = "";
	const void *q;
	pid_t pid;
	void *p;

	ASSERT_EQ(4, l5_send(self->b, "look", 4, 0));
	ASSERT_EQ(4, l5_reserve(self->a, &p, 4, 0));
	ASSERT_EQ(4, l5_peek(self->a, &q, 0));
	fflush(NULL);
	pid = fork();
	if (!pid) {
		/* what a parent has in its hands is not the child's */
		if (l5_commit(self->a, 1) != -1 || errno != EINVAL)
			_exit(1);
		if (l5_release(self->a, 1) != -1 || errno != EINVAL)
			_exit(2);
		if (l5_stream_mapped(self->a) || errno != ENOTTY)
			_exit(3);
		_exit(0);
	}
	EXPECT_EQ(0, l5_reap(pid));
	memcpy(p, "mine", 4);
	EXPECT_EQ(4, l5_commit(self->a, 4));
	EXPECT_EQ(0, memcmp(q, "look", 4));
	EXPECT_EQ(0, l5_release(self->a, 4));
	EXPECT_TRUE(l5_stream_mapped(self->a));

	fflush(NULL);
	pid = fork();
	if (!pid) {
		count_from_here();
		if (l5_send(self->a, "child", 5, 0) != 5 || calls != 1)
			_exit(1);
		if (l5_recv(self->a, buf, 6, 0) != 6 ||
		    memcmp(buf, "answer", 6) || calls != 2)
			_exit(2);
		if (l5_reserve(self->a, &p, 9, 0) != 9)
			_exit(3);
		memcpy(p, "too", 3);
		if (l5_commit(self->a, 3) != 3 || calls != 3)
			_exit(4);
		l5_set_wait(self->a, 1, 1);
		if (l5_wait(self->a, POLLOUT, -1) != POLLOUT)
			_exit(5);
		l5_unmap(self->a);
		_exit(0);
	}
	EXPECT_EQ(4, l5_recv(self->b, buf, 4, 0));
	EXPECT_EQ(5, l5_recv(self->b, buf, 5, MSG_WAITALL));
	EXPECT_EQ(0, memcmp(buf, "child", 5));
	EXPECT_EQ(6, l5_send(self->b, "answer", 6, 0));
	EXPECT_EQ(3, l5_recv(self->b, buf, 3, MSG_WAITALL));
	EXPECT_EQ(0, memcmp(buf, "too", 3));
	EXPECT_EQ(0, l5_reap(pid));
	/* the parent's is as it was */
	count_from_here();
	EXPECT_EQ(6, l5_send(self->a, "parent", 6, 0));
	EXPECT_EQ(6, l5_recv(self->b, buf, 6, 0));
	EXPECT_EQ(0, calls);
}

TEST_HARNESS_MAIN
