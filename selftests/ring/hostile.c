// SPDX-License-Identifier: GPL-2.0
/*
 * The ring of uapi/l5_ring.h with a peer that writes what it likes: what is
 * believed lies in the ring, and nothing outside is touched.
 */
#include <pthread.h>

#include "kselftest_harness.h"
#include "l5test.h"
#include "ring_view.h"

RING_FIXTURE(ring_hostile)

/*
 * A hostile peer: it writes into everything it can write, words that are
 * nearly right among them. The victim gets through any number of operations,
 * each of them bounded, and touches nothing outside (guard pages).
 */
struct hostile {
	struct ring r;
	bool stop;
	uint64_t position;	/* where the victim is, so that it is met */
	uint64_t scribbles;
};

static uint64_t hostile_word(uint64_t *seed, uint32_t size, uint64_t position)
{
	uint32_t max = l5_rec_max(size);

	switch (l5_rnd64(seed) % 8) {
	case 0:
		return 0;
	case 1:
		return l5_rnd64(seed);
	case 2:
		return RING_VALID(max - 4 + l5_rnd64(seed) % 9);
	case 3:
		return RING_VALID(l5_rnd64(seed) % (max + 1));
	case 4:
		return RING_VALID(l5_rnd64(seed) % 32);
	case 5:
		return RING_VALID(l5_rnd64(seed));
	case 6:
		return position - 64 + l5_rnd64(seed) % 128 * 8;
	default:
		return RING_VALID(1) | 1ull << (32 + l5_rnd64(seed) % 32);
	}
}

/* For more than two seconds, and with other words: see long/ring. */
static uint64_t hostile_seed(uint64_t own)
{
	uint64_t seed = own ^ l5_setting("L5_SEED", 0);

	return seed ? seed : own;
}

static void *hostile_producer(void *arg)
{
	struct hostile *h = arg;
	uint32_t size = h->r.prod.size;
	uint64_t seed = hostile_seed(31337);

	while (!__atomic_load_n(&h->stop, __ATOMIC_RELAXED)) {
		uint64_t pos = __atomic_load_n(&h->position, __ATOMIC_RELAXED);
		uint64_t w = hostile_word(&seed, size, pos);

		/* most of it where the victim looks next */
		if (l5_rnd64(&seed) % 4)
			pos += l5_rnd64(&seed) % 8 * 8;
		else
			pos = l5_rnd64(&seed) & ~7ull;
		__atomic_store_n(ring_slot(&h->r.prod, pos), w,
				 __ATOMIC_RELAXED);
		if (l5_rnd64(&seed) % 16 == 0)
			h->r.prod.own->tx_tail = w;
		h->scribbles++;
	}
	return NULL;
}

/* So long, or so many operations, and until it was about something. */
struct hostile_until {
	double end;
	uint64_t ops;
	uint64_t done;
};

static struct hostile_until hostile_until(void)
{
	return (struct hostile_until){
		.end = ring_now() + 2,
		.ops = l5_setting("L5_OPS", 0),
	};
}

static bool hostile_goes_on(struct hostile_until *u, bool enough)
{
	double now;

	if (u->ops && u->done < u->ops) {
		u->done++;
		return true;
	}
	now = ring_now();
	if ((u->ops || now >= u->end) && (enough || now >= u->end + 60))
		return false;
	u->done++;
	return true;
}

static void hostile_done(struct __test_metadata *_metadata, uint64_t done)
{
	TH_LOG("%llu operations", (unsigned long long)done);
}

TEST_F_TIMEOUT(ring_hostile, hostile_producer, 120)
{
	struct hostile h = { .scribbles = 0 };
	uint64_t records = 0, violations = 0, none = 0;
	struct l5_cons c = { .size = 4096 };
	const uint32_t max = l5_rec_max(4096);
	uint8_t scratch[4096];
	uint64_t seed = hostile_seed(5);
	struct hostile_until until;
	pthread_t t;

	if (TSAN_BUILD)
		SKIP(return, "races on payload are what the peer does here");
	ring_new(&h.r, c.size, self->mirror);
	ASSERT_EQ(0, pthread_create(&t, NULL, hostile_producer, &h));
	until = hostile_until();
	while (hostile_goes_on(&until, records > 1000 && violations > 1000)) {
		uint64_t head = c.head;
		int ret = l5_cons_peek(&c, ring_slot(&h.r.cons, c.head));
		uint32_t n;

		__atomic_store_n(&h.position, c.head, __ATOMIC_RELAXED);
		if (ret < 0) {
			/* a victim would give up; this one begins again */
			violations++;
			ASSERT_EQ(0, c.len);
			c.head = l5_rnd64(&seed) & ~7ull;
			continue;
		}
		if (!ret) {
			/* no operation; what never comes is tested elsewhere */
			until.done--;
			if (++none % 64 == 0)
				c.head = l5_rnd64(&seed) & ~7ull;
			continue;
		}
		ASSERT_EQ(1, ret);
		ASSERT_GE(max, c.len);
		ASSERT_TRUE(c.len ? c.len > c.off : !c.off);
		records++;
		n = c.len ? 1 + l5_rnd64(&seed) % (c.len - c.off) : 0;
		if (l5_rnd64(&seed) % 2)
			n = c.len - c.off;
		ring_copy_out(&h.r.cons, c.head + L5_HDR + c.off, scratch, n);
		l5_cons_take(&c, h.r.cons.own, n);
		/* every record takes the victim on, by no more than a ring */
		if (!c.have) {
			ASSERT_LT(head, c.head);
			ASSERT_GE(head + 4088, c.head);
		}
	}
	__atomic_store_n(&h.stop, true, __ATOMIC_RELAXED);
	ASSERT_EQ(0, pthread_join(t, NULL));
	TH_LOG("%llu scribbles: %llu records, %llu violations, %llu times nothing",
	       (unsigned long long)h.scribbles, (unsigned long long)records,
	       (unsigned long long)violations, (unsigned long long)none);
	hostile_done(_metadata, until.done);
	EXPECT_LT(1000, records);
	EXPECT_LT(1000, violations);
	ring_free(&h.r);
}

/* The same without a second thread: every word in turn, deterministic. */
TEST_F_TIMEOUT(ring_hostile, hostile_words, 120)
{
	struct l5_cons c = { .size = 4096 };
	uint64_t ops = l5_setting("L5_OPS", 2000000 / RING_SLOW);
	uint64_t seed = hostile_seed(6), i;
	struct ring r;
	uint8_t scratch[4096];

	ring_new(&r, c.size, self->mirror);
	for (i = 0; i < ops; i++) {
		__u64 w = hostile_word(&seed, c.size, c.head);
		bool ok = w >> 32 == L5_REC_VALID &&
			  (__u32)w <= l5_rec_max(c.size);

		*ring_slot(&r.prod, c.head) = w;
		ASSERT_EQ(ok ? 1 : w ? -1 : 0,
			  l5_cons_peek(&c, ring_slot(&r.cons, c.head)));
		if (!ok)
			continue;
		ASSERT_EQ((__u32)w, c.len);
		if (i % 64 == 0)
			ring_copy_out(&r.cons, c.head + L5_HDR, scratch, c.len);
		ASSERT_EQ(l5_rec_size((__u32)w),
			  l5_cons_take(&c, r.cons.own, c.len));
	}
	hostile_done(_metadata, i);
	ring_free(&r);
}

static void *hostile_consumer(void *arg)
{
	struct hostile *h = arg;
	uint64_t seed = hostile_seed(7331);

	while (!__atomic_load_n(&h->stop, __ATOMIC_RELAXED)) {
		uint64_t pos = __atomic_load_n(&h->position, __ATOMIC_RELAXED);
		uint64_t w = pos - l5_rnd64(&seed) % 600 * 8;

		if (l5_rnd64(&seed) % 4 == 0)
			w = hostile_word(&seed, h->r.cons.size, pos);
		__atomic_store_n(&h->r.cons.own->rx_head, w, __ATOMIC_RELAXED);
		__atomic_store_n(&h->r.cons.own->rx_wait, (__u32)w,
				 __ATOMIC_RELAXED);
		h->scribbles++;
	}
	return NULL;
}

TEST_F_TIMEOUT(ring_hostile, hostile_consumer, 120)
{
	struct hostile h = { .scribbles = 0 };
	uint64_t records = 0, violations = 0, full = 0, bells = 0;
	struct l5_prod p = { .size = 4096 };
	uint8_t scratch[4096];
	uint64_t seed = hostile_seed(8);
	struct hostile_until until;
	pthread_t t;

	ring_new(&h.r, p.size, self->mirror);
	ASSERT_EQ(0, pthread_create(&t, NULL, hostile_consumer, &h));
	until = hostile_until();
	while (hostile_goes_on(&until, records > 1000 && violations > 1000 &&
			       bells)) {
		uint64_t head = p.head;
		uint32_t room;

		if (l5_prod_look(&p, h.r.prod.peer)) {
			violations++;
			ASSERT_EQ(head, p.head);
		}
		ASSERT_LE(head, p.head);
		ASSERT_GE(p.tail, p.head);
		ASSERT_GE(p.size - L5_HDR, l5_prod_used(&p));
		room = l5_prod_room(&p);
		ASSERT_GE(l5_rec_max(p.size), room);
		if (!room) {
			full++;
			/* there is no reader: go on from what was published */
			if (full % 64 == 0)
				p.head = p.tail;
		} else {
			ring_put(&h.r.prod, &p, 0,
				 1 + l5_rnd64(&seed) % room, scratch);
			records++;
		}
		bells += l5_wait_armed(&h.r.prod.peer->rx_wait);
		__atomic_store_n(&h.position, p.tail, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&h.stop, true, __ATOMIC_RELAXED);
	ASSERT_EQ(0, pthread_join(t, NULL));
	TH_LOG("%llu scribbles: %llu records, %llu violations, %llu times full",
	       (unsigned long long)h.scribbles, (unsigned long long)records,
	       (unsigned long long)violations, (unsigned long long)full);
	hostile_done(_metadata, until.done);
	EXPECT_LT(1000, records);
	EXPECT_LT(1000, violations);
	EXPECT_LT(0, bells);
	ring_free(&h.r);
}

TEST_HARNESS_MAIN
