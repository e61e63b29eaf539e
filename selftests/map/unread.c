// SPDX-License-Identifier: GPL-2.0
/*
 * How many bytes are left, asked of a ring with many records: right after each
 * step, whichever way the bytes come and go, and without a walk over all of
 * them each time.
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <linux/sockios.h>

#include "kselftest_harness.h"
#include "map_pair.h"

#define RING	(64 << 10)

MAP_PAIR_FIXTURE(map_unread, RING >> 10)

static int left(int fd)
{
	int n;

	return ioctl(fd, FIONREAD, &n) ? -1 : n;
}

/* What TCP_INQ says with a receive of @n bytes, which are checked. */
static int left_after(int fd, size_t n, uint64_t pos)
{
	char control[CMSG_SPACE(sizeof(int))];
	uint8_t b[4096];
	struct iovec iov = { b, n };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *c;
	int inq;

	if (recvmsg(fd, &msg, MSG_DONTWAIT) != (ssize_t)n ||
	    l5_check(b, n, pos) >= 0)
		return -1;
	c = CMSG_FIRSTHDR(&msg);
	if (!c || c->cmsg_type != TCP_CM_INQ)
		return -2;
	memcpy(&inq, CMSG_DATA(c), sizeof(inq));
	return inq;
}

/* Many small records come by both ways, and go by all. */
TEST_F_TIMEOUT(map_unread, each_step, 300)
{
	bool inet = variant->at[0] != 'a';
	uint64_t seed = l5_seed() | 1, in = 0, out = 0;
	struct mapping m[2];
	uint8_t b[4096];
	int i, k, one = 1, n;

	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, mapping_open(&m[i], self->fd[i]));
	if (inet)
		ASSERT_EQ(0, setsockopt(self->fd[1], SOL_TCP, TCP_INQ, &one,
					sizeof(one)));
	for (i = 0; i < 3000; i++) {
		size_t want = 1 + l5_rnd(&seed) % (l5_rnd(&seed) & 7 ? 700 :
						   sizeof(b));
		unsigned int way = l5_rnd(&seed) % 4;
		ssize_t got;

		/* full for a while, then empty for a while */
		if (l5_rnd(&seed) % 8 < (i & 256 ? 2 : 6)) {
			for (k = l5_rnd(&seed) % 100; k >= 0; k--) {
				size_t len = 1 + l5_rnd(&seed) %
					     (l5_rnd(&seed) & 15 ? 20 : 600);

				l5_fill(b, len, in);
				got = l5_rnd(&seed) & 1 ?
					mapping_put(&m[0], b, len) :
					send(self->fd[0], b, len, MSG_DONTWAIT);
				if (got <= 0)
					break;
				in += got;
			}
		}
		if (want > in - out)
			want = in - out;
		if (want && way == 0) {
			ASSERT_EQ((ssize_t)want, mapping_get(&m[1], b, want));
			ASSERT_EQ(-1, l5_check(b, want, out));
			out += want;
		} else if (want && way == 1 && inet) {
			ASSERT_EQ((int)(in - out - want),
				  left_after(self->fd[1], want, out));
			out += want;
		} else if (want && way != 2) {
			ASSERT_EQ((ssize_t)want, recv(self->fd[1], b, want, 0));
			ASSERT_EQ(-1, l5_check(b, want, out));
			out += want;
		}
		if (l5_rnd(&seed) & 3)
			ASSERT_EQ((int)(in - out), left(self->fd[1])) {
				TH_LOG("step %d", i);
			}
		if (!inet && !(l5_rnd(&seed) & 3)) {
			ASSERT_EQ(0, ioctl(self->fd[0], SIOCOUTQ, &n));
			ASSERT_EQ((int)(in - out), n);
		}
	}
	EXPECT_LT(10 * RING, (int)in);
	for (i = 0; i < 2; i++)
		mapping_close(&m[i]);
	EXPECT_EQ(0, l5_stat("violations"));
}

/*
 * A peer that writes over the headers that were counted gets the reader told
 * nonsense, but no more than the ring has, and no more than once.
 */
TEST_F_TIMEOUT(map_unread, rewritten, 300)
{
	uint64_t seed = l5_seed() | 1;
	int round, i, k;
	uint8_t b[256];

	memset(b, 1, sizeof(b));
	for (round = 0; round < 40; round++) {
		struct mapping m;
		int fd[2], n;

		ASSERT_TRUE(map_pair(variant->at, &fd[0], &fd[1]));
		ASSERT_EQ(0, mapping_open(&m, fd[0]));
		for (i = 0; i < 200; i++) {
			for (k = l5_rnd(&seed) % 50; k > 0; k--)
				mapping_put(&m, b, 1 + l5_rnd(&seed) % 100);
			for (k = l5_rnd(&seed) % 4; k > 0; k--)
				l5_store_release(mapping_slot(&m, m.prod.tail -
					(l5_rnd(&seed) % RING & -16)),
					(uint64_t)L5_REC_VALID << 32 |
					l5_rnd(&seed) % (k & 1 ? 64 :
							 2 * RING));
			for (k = 0; k < 3; k++) {
				n = left(fd[1]);
				ASSERT_LE(0, n);
				ASSERT_GE(RING, n);
				recv(fd[1], b, 1 + l5_rnd(&seed) % sizeof(b),
				     MSG_DONTWAIT);
			}
		}
		mapping_close(&m);
		close(fd[0]);
		close(fd[1]);
	}
}

static uint64_t ask_ns(int fd)
{
	struct timespec a, b;

	clock_gettime(CLOCK_MONOTONIC, &a);
	left(fd);
	clock_gettime(CLOCK_MONOTONIC, &b);
	return (b.tv_sec - a.tv_sec) * 1000000000ull + b.tv_nsec - a.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* A program that asks after each read does not pay for the whole ring. */
TEST_F_TIMEOUT(map_unread, not_all_again, 120)
{
	uint64_t first, t[99];
	uint8_t b;
	int i, n;

	l5_fill(&b, 1, 0);
	for (n = 0; send(self->fd[0], &b, 1, MSG_DONTWAIT) == 1; n++)
		;
	ASSERT_LT(2000, n);
	first = ask_ns(self->fd[1]);
	/* from now on it is worth remembering */
	ask_ns(self->fd[1]);
	for (i = 0; i < 99; i++) {
		ASSERT_EQ(1, recv(self->fd[1], &b, 1, 0));
		t[i] = ask_ns(self->fd[1]);
	}
	ASSERT_EQ(n - 99, left(self->fd[1]));
	qsort(t, 99, sizeof(t[0]), by_size);
	TH_LOG("%d records: %llu ns, and then %llu", n,
	       (unsigned long long)first, (unsigned long long)t[49]);
	EXPECT_GT(first, 4 * t[49]);
}

TEST_HARNESS_MAIN
