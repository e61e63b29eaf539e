// SPDX-License-Identifier: GPL-2.0
/*
 * libl5 without AF_L5: rings whose records are messages. A message arrives
 * whole and alone, or what it was called for is the kernel's; also for
 * sanitizers and valgrind.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "kselftest_harness.h"
#include "message.h"
#include "move.h"
#include "native_ends.h"

enum { MAX = SIZE / 2 - 16 };

FIXTURE(unit_message)
{
	struct l5_native *k;
	struct l5_map *a;
	struct l5_map *b;
};

FIXTURE_SETUP(unit_message)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	self->k = l5_native_new(SIZE);
	ASSERT_NE(NULL, self->k);
	self->k->messages = true;
	self->a = l5_native_map(self->k, 0, 1);
	self->b = l5_native_map(self->k, 1, 1);
	ASSERT_NE(NULL, self->a);
	ASSERT_NE(NULL, self->b);
}

FIXTURE_TEARDOWN(unit_message)
{
	l5_native_unmap(self->a);
	l5_native_unmap(self->b);
	l5_native_free(self->k);
}

/* One message by one of the ways there are: its length, or L5_TRY_*. */
static ssize_t put(struct l5_map *m, uint8_t *buf, size_t len, uint64_t *seed)
{
	struct iovec v[9];
	ssize_t n;
	void *q;

	switch (l5_rnd(seed) % 3) {
	case 0:
		return l5_map_send1(m, -1, buf, len);
	case 1:
		return l5_map_trysend(m, -1, v, cut(v, 9, buf, len, seed));
	default:
		/* more than is used, and sometimes nothing of it */
		n = l5_map_reserve(m, -1, &q, len + (len < MAX));
		if (n == L5_TRY_ASK)
			return l5_map_send1(m, -1, buf, len);
		if (n <= 0)
			return n;
		if (l5_rnd(seed) % 8) {
			memcpy(q, buf, len);
			l5_map_commit(m, -1, len);
			return len;
		}
		l5_map_commit(m, -1, 0);
		return L5_TRY_AGAIN;
	}
}

/* One message into room for @len: how much of it came, or L5_TRY_*. */
static ssize_t get(struct l5_map *m, uint8_t *buf, size_t len, uint64_t *seed)
{
	struct iovec v[9];
	const void *p;
	ssize_t n;

	switch (l5_rnd(seed) % 4) {
	case 0:
		return l5_map_recv1(m, -1, buf, len);
	case 1:
		return l5_map_tryrecv(m, -1, v, cut(v, 9, buf, len, seed), 0);
	case 2:
		n = l5_map_tryrecv(m, -1, v, cut(v, 9, buf, len, seed),
				   L5_TRY_PEEK);
		if (n <= 0)
			return n;
		memset(buf, 0, n);
		return l5_map_recv1(m, -1, buf, len);
	default:
		n = l5_map_peek(m, -1, &p);
		if (n == L5_TRY_ASK)
			return l5_map_recv1(m, -1, buf, len);
		if (n <= 0)
			return n;
		if ((size_t)n < len)
			len = n;
		memcpy(buf, p, len);
		/* whatever is said, all of it */
		l5_map_release(m, -1, 1);
		return len;
	}
}

/* Every way, every length, at every place: as long as it was, and alone. */
TEST_F_TIMEOUT(unit_message, whole, 300)
{
	uint64_t sent = 0, got = 0, seed = 43, bytes = 0;
	static uint32_t length[1 << 16];
	uint8_t out[MAX], in[MAX + 10];
	const uint64_t total = 60000 / slow();
	size_t len, room;
	int full = 0, cuts = 0;
	ssize_t n;

	ASSERT_EQ(MAX, l5_message_max(self->a));
	while (got < total) {
		len = l5_rnd(&seed) % 4 ? 1 + l5_rnd(&seed) % 200 :
					  1 + l5_rnd(&seed) % MAX;
		l5_fill(out, len, sent);
		n = sent < total ? put(self->a, out, len, &seed) :
				   L5_TRY_AGAIN;
		if (n != L5_TRY_AGAIN) {
			ASSERT_EQ((ssize_t)len, n);
			length[sent++ % (1 << 16)] = len;
			bytes += len;
		}
		full += n < 0;
		if (l5_rnd(&seed) % 2)
			continue;
		room = l5_rnd(&seed) % 8 ? sizeof(in) :
					   1 + l5_rnd(&seed) % 300;
		n = get(self->b, in, room, &seed);
		if (n == L5_TRY_AGAIN) {
			ASSERT_EQ(sent, got);
			continue;
		}
		len = length[got % (1 << 16)];
		cuts += len > room;
		ASSERT_EQ((ssize_t)(len < room ? len : room), n);
		ASSERT_EQ(0, wrong(in, n, got));
		got++;
	}
	EXPECT_LT(0, full);
	EXPECT_LT(0, cuts);
	EXPECT_EQ(bytes, self->k->ctrl[0]->tx_bytes);
	EXPECT_EQ(bytes, self->k->ctrl[1]->rx_bytes);
	EXPECT_EQ(0, l5_held.n + l5_held.now.key);
}

/* Taken while half of the ring is free, and then however long it is. */
TEST_F(unit_message, half)
{
	static uint8_t b[MAX + 1];
	int i, n = 0;

	/* records of 64 bytes, and one that brings more than half into use */
	while (l5_map_send1(self->a, -1, b, 56) == 56)
		n++;
	EXPECT_EQ(SIZE / 2 / 64 + 1, n);
	EXPECT_FALSE(l5_map_roomy(self->a));
	EXPECT_EQ(L5_TRY_AGAIN, l5_map_send1(self->a, -1, b, 1));
	EXPECT_EQ(56, l5_map_recv1(self->b, -1, b, sizeof(b)));
	EXPECT_EQ(MAX, l5_map_send1(self->a, -1, b, MAX));
	EXPECT_EQ(L5_TRY_AGAIN, l5_map_send1(self->a, -1, b, 1));
	for (i = 1; i < n; i++)
		ASSERT_EQ(56, l5_map_recv1(self->b, -1, b, sizeof(b)));
	EXPECT_EQ(MAX, l5_map_recv1(self->b, -1, b, sizeof(b)));
	EXPECT_TRUE(l5_map_roomy(self->a));
}

/* What is the kernel's to tell of, or to do */
TEST_F(unit_message, kernels)
{
	static uint8_t b[MAX + 1];
	struct l5_ctrl *own = self->k->ctrl[0];
	const void *p;
	void *q;

	EXPECT_EQ(L5_TRY_ASK, l5_map_send1(self->a, -1, b, MAX + 1));
	EXPECT_EQ(-EMSGSIZE, l5_map_reserve(self->a, -1, &q, MAX + 1));
	/* an empty one */
	l5_store((uint64_t *)self->k->data[0],
		 (uint64_t)L5_REC_VALID << 32);
	l5_store(&own->tx_tail, L5_HDR);
	EXPECT_EQ(L5_TRY_ASK, l5_map_recv1(self->b, -1, b, 1));
	EXPECT_EQ(L5_TRY_ASK, l5_map_peek(self->b, -1, &p));
	EXPECT_EQ(0, l5_load(&self->k->ctrl[1]->rx_head));
	/* one that descriptors ride with */
	l5_store((uint64_t *)self->k->data[0],
		 (uint64_t)L5_REC_VALID << 32 | L5_REC_FILES | 1);
	EXPECT_EQ(L5_TRY_ASK, l5_map_recv1(self->b, -1, b, 1));
	EXPECT_EQ(L5_TRY_ASK, l5_map_peek(self->b, -1, &p));
	/* one that a process which shares the end says it took a part of */
	l5_store((uint64_t *)self->k->data[0],
		 (uint64_t)L5_REC_VALID << 32 | 8);
	l5_store(&self->k->ctrl[1]->rx_pos, 4);
	EXPECT_EQ(L5_TRY_ASK, l5_map_recv1(self->b, -1, b, 8));
	EXPECT_EQ(L5_TRY_ASK, l5_map_peek(self->b, -1, &p));
	l5_store(&self->k->ctrl[1]->rx_pos, 0);
	/* an error comes before what is there */
	l5_native_flag(self->k, 1, L5_MAP_RX_ASK);
	EXPECT_EQ(L5_TRY_ASK, l5_map_recv1(self->b, -1, b, 8));
	EXPECT_EQ(L5_TRY_ASK, l5_map_peek(self->b, -1, &p));
	l5_native_flag(self->k, 0, L5_MAP_TX_ASK);
	EXPECT_EQ(L5_TRY_ASK, l5_map_send1(self->a, -1, b, 1));
	EXPECT_EQ(L5_TRY_ASK, l5_map_reserve(self->a, -1, &q, 1));
}

/* A flag that is not known, or a length that cannot be, ends it. */
TEST_F(unit_message, broken)
{
	const uint64_t bad[] = {
		L5_REC_MORE | 8, L5_REC_SWITCH | 8, SIZE, SIZE - 15,
	};
	uint8_t b[8];
	unsigned int i;

	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		l5_store((uint64_t *)self->k->data[0],
			 (uint64_t)L5_REC_VALID << 32 | bad[i]);
		EXPECT_EQ(L5_TRY_BROKEN, l5_map_recv1(self->b, -1, b, 8));
		l5_store(&self->k->state[1]->flags, 0);
	}
}

/* Threads at both ends: each message says how long it is, and whose. */
enum { SENDERS = 3, READERS = 2 };

struct crowd {
	struct l5_map *m;
	uint32_t who, count;
	uint32_t *left;
	uint64_t seed;
	int bad;
};

struct label {
	uint32_t who, seq, len;
};

static void *crowd_send(void *arg)
{
	static __thread uint8_t buf[MAX];
	struct crowd *c = arg;
	struct label l = { .who = c->who };
	ssize_t n;

	for (; l.seq < c->count; l.seq++) {
		l.len = sizeof(l) + l5_rnd(&c->seed) % (MAX - sizeof(l));
		if (l5_rnd(&c->seed) % 4)
			l.len = sizeof(l) + l.len % 100;
		l5_fill(buf, l.len, l.who * 1000003 + l.seq);
		memcpy(buf, &l, sizeof(l));
		while ((n = put(c->m, buf, l.len, &c->seed)) == L5_TRY_AGAIN)
			sched_yield();
		c->bad += n != (ssize_t)l.len;
	}
	return NULL;
}

static void *crowd_recv(void *arg)
{
	static __thread uint8_t buf[MAX];
	struct crowd *c = arg;
	struct label l;
	ssize_t n;

	while (__atomic_load_n(c->left, __ATOMIC_RELAXED)) {
		n = get(c->m, buf, sizeof(buf), &c->seed);
		if (n == L5_TRY_AGAIN) {
			sched_yield();
			continue;
		}
		if (n < (ssize_t)sizeof(l)) {
			c->bad++;
			break;
		}
		memcpy(&l, buf, sizeof(l));
		c->bad += (ssize_t)l.len != n ||
			  wrong(buf + sizeof(l), n - sizeof(l),
				l.who * 1000003 + l.seq + sizeof(l));
		__atomic_fetch_sub(c->left, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

TEST_F_TIMEOUT(unit_message, threads, 300)
{
	uint32_t left, each = 20000 / slow();
	struct crowd c[SENDERS + READERS];
	pthread_t t[SENDERS + READERS];
	int i;

	left = SENDERS * each;
	for (i = 0; i < SENDERS + READERS; i++) {
		c[i] = (struct crowd){
			.m = i < SENDERS ? self->a : self->b,
			.who = i, .count = each, .left = &left, .seed = i + 1,
		};
		ASSERT_EQ(0, pthread_create(&t[i], NULL, i < SENDERS ?
					    crowd_send : crowd_recv, &c[i]));
	}
	for (i = 0; i < SENDERS + READERS; i++) {
		pthread_join(t[i], NULL);
		EXPECT_EQ(0, c[i].bad);
	}
	EXPECT_EQ(0, left);
}

TEST_HARNESS_MAIN
