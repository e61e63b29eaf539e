// SPDX-License-Identifier: GPL-2.0
/*
 * Is every barrier of uapi/l5_ring.h where it has to be? Built also with one of
 * them taken out, by mutants.sh, which then wants to see this fail: A to
 * D under ThreadSanitizer, which does not need the hardware to reorder; E and
 * F, which for a process that has the ring mapped is the unlock, by hammering
 * on the one window that they close. J and K are lock.c's.
 */
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "kselftest_harness.h"
#include "ring_view.h"

/* The sleep tests take a million rounds, or as many as fit in seconds. */
#define ROUNDS		(TSAN_BUILD ? 20000 : 1000000)
#if defined(__SANITIZE_ADDRESS__) || TSAN_BUILD
#define SECONDS		1
#else
#define SECONDS		3
#endif

struct stream {
	struct ring r;
	uint64_t total;
	uint64_t wrong;
	bool broken;
	bool stop;
};

static void *stream_produce(void *arg)
{
	struct stream *s = arg;
	struct l5_prod p = { .size = s->r.prod.size };
	uint8_t *scratch = malloc(p.size);
	uint64_t seed = 12345, at = 0;

	while (at < s->total) {
		uint32_t room = l5_prod_room(&p), len;

		len = 1 + l5_rnd64(&seed) % (p.size / 4);
		if (len > s->total - at)
			len = s->total - at;
		if (room < len) {
			if (l5_prod_look(&p, s->r.prod.peer)) {
				s->broken = true;
				break;
			}
			if (__atomic_load_n(&s->stop, __ATOMIC_RELAXED))
				break;
			if (l5_prod_room(&p) < len)
				sched_yield();
			continue;
		}
		ring_put(&s->r.prod, &p, at, len, scratch);
		at += len;
	}
	free(scratch);
	return NULL;
}

static void stream_consume(struct stream *s)
{
	struct l5_cons c = { .size = s->r.cons.size };
	uint8_t *scratch = malloc(c.size);
	uint64_t seed = 777, at = 0;

	while (at < s->total) {
		int ret = l5_cons_peek(&c, ring_slot(&s->r.cons, c.head));
		uint32_t n;

		if (ret < 0) {
			s->wrong++;
			__atomic_store_n(&s->stop, true, __ATOMIC_RELAXED);
			break;
		}
		if (!ret) {
			sched_yield();
			continue;
		}
		n = c.len - c.off;
		if (n > 1 && l5_rnd64(&seed) % 2)
			n = 1 + l5_rnd64(&seed) % n;
		s->wrong += ring_get(&s->r.cons, &c, at, n, scratch);
		at += n;
	}
	free(scratch);
}

FIXTURE(ring_order)
{
};

FIXTURE_SETUP(ring_order)
{
	ring_only(_metadata->name);
}

FIXTURE_TEARDOWN(ring_order)
{
}

/*
 * Nothing but the ring itself synchronises the two threads: no lock, no
 * system call that a sanitizer takes for one.
 */
TEST_F_TIMEOUT(ring_order, publish_consume, 300)
{
	struct stream s = { .total = TSAN_BUILD ? 4 << 20 : 64 << 20 };
	pthread_t t;

	ring_new(&s.r, 4096, false);
	ASSERT_EQ(0, pthread_create(&t, NULL, stream_produce, &s));
	stream_consume(&s);
	ASSERT_EQ(0, pthread_join(t, NULL));
	EXPECT_EQ(0, s.wrong);
	EXPECT_FALSE(s.broken);
	ring_free(&s.r);
}

/*
 * One window, many times: a sleeper that arms and looks, a waker that makes
 * news and looks for the flag, started together. That neither sees the other
 * would be a lost wake-up.
 */
struct window {
	struct ring r;
	bool space;		/* the news is room, not data */
	bool unlock;		/* F is the unlock */
	unsigned long rounds;	/* done */
	bool stop;
	unsigned int turn[2];	/* rounds begun by the two threads */
	unsigned int done[2];
	int saw_news, saw_flag;
	unsigned long lost, both;
};

static void meet(unsigned int *mine, const unsigned int *other)
{
	unsigned int n = *mine + 1;
	unsigned int i = 0;

	__atomic_store_n(mine, n, __ATOMIC_RELEASE);
	while ((int)(__atomic_load_n(other, __ATOMIC_ACQUIRE) - n) < 0)
		if (++i > 20000)
			sched_yield();
}

static void stagger(uint64_t *seed)
{
	unsigned int n = l5_rnd64(seed) % 32;

	while (n--)
		__asm__ __volatile__("" ::: "memory");
}

/* After the news: does the sleeper want to be woken? */
static bool window_look(struct window *w, struct view *v, __u32 *flag)
{
	if (!w->unlock)
		return l5_wait_armed(flag);
	l5_unlock(w->space ? &v->own->rx_lock : &v->own->tx_lock);
	return l5_load(flag);
}

static void *window_waker(void *arg)
{
	struct window *w = arg;
	struct l5_prod p = { .size = w->r.prod.size };
	struct l5_cons c = { .size = w->r.cons.size };
	uint64_t seed = 99;
	unsigned long i;

	for (i = 0; !__atomic_load_n(&w->stop, __ATOMIC_RELAXED); i++) {
		meet(&w->turn[1], &w->turn[0]);
		stagger(&seed);
		if (w->unlock)
			l5_lock_try(w->space ? &w->r.cons.own->rx_lock :
					       &w->r.prod.own->tx_lock, 1);
		if (w->space) {
			/* the record that the sleeper published before */
			if (l5_cons_peek(&c, ring_slot(&w->r.cons,
						       c.head)) == 1)
				l5_cons_take(&c, w->r.cons.own, c.len);
			w->saw_flag = window_look(w, &w->r.cons,
						  &w->r.cons.peer->tx_wait);
		} else {
			l5_prod_publish(&p, w->r.prod.own,
					ring_slot(&w->r.prod, p.tail),
					ring_slot(&w->r.prod, p.tail + 16), 8);
			w->saw_flag = window_look(w, &w->r.prod,
						  &w->r.prod.peer->rx_wait);
		}
		meet(&w->done[1], &w->done[0]);
	}
	return NULL;
}

static void window_sleeper(struct window *w)
{
	struct l5_prod p = { .size = w->r.prod.size };
	struct l5_cons c = { .size = w->r.cons.size };
	__u32 *flag = w->space ? &w->r.prod.own->tx_wait :
				 &w->r.cons.own->rx_wait;
	time_t end = time(NULL) + SECONDS;
	uint64_t seed = 4711;
	unsigned long i;

	for (i = 0; !w->stop; i++) {
		__u64 head = p.head;

		__atomic_store_n(flag, 0, __ATOMIC_SEQ_CST);
		if (w->space)
			l5_prod_publish(&p, w->r.prod.own,
					ring_slot(&w->r.prod, p.tail),
					ring_slot(&w->r.prod, p.tail + 16), 8);
		meet(&w->turn[0], &w->turn[1]);
		stagger(&seed);
		l5_wait_arm(flag);
		if (w->space) {
			if (l5_prod_look(&p, w->r.prod.peer))
				abort();
			w->saw_news = p.head != head;
		} else {
			w->saw_news = l5_cons_peek(&c, ring_slot(&w->r.cons,
								 c.head));
		}
		/* before the waker looks again, after this round */
		if (i + 1 == ROUNDS || (i % 256 == 255 && time(NULL) > end))
			__atomic_store_n(&w->stop, true, __ATOMIC_RELAXED);
		meet(&w->done[0], &w->done[1]);
		w->rounds++;
		if (!w->saw_news && !w->saw_flag)
			w->lost++;
		if (w->saw_news && w->saw_flag)
			w->both++;
		if (w->space) {
			if (l5_prod_look(&p, w->r.prod.peer))
				abort();
		} else {
			if (l5_cons_peek(&c, ring_slot(&w->r.cons,
						       c.head)) != 1)
				abort();
			l5_cons_take(&c, w->r.cons.own, c.len);
			/* the producer's room is not what is tested here */
		}
	}
}

static void window_run(struct __test_metadata *_metadata, bool space,
		       bool unlock)
{
	struct window w = {
		.space = space,
		.unlock = unlock,
	};
	pthread_t t;

	ring_new(&w.r, 4096, false);
	ASSERT_EQ(0, pthread_create(&t, NULL, window_waker, &w));
	window_sleeper(&w);
	ASSERT_EQ(0, pthread_join(t, NULL));
	TH_LOG("%lu rounds, %lu lost, %lu met in the middle", w.rounds, w.lost,
	       w.both);
	EXPECT_EQ(0, w.lost);
	ring_free(&w.r);
}

TEST_F_TIMEOUT(ring_order, sleep_for_data, 300)
{
	window_run(_metadata, false, false);
}

TEST_F_TIMEOUT(ring_order, sleep_for_space, 300)
{
	window_run(_metadata, true, false);
}

TEST_F_TIMEOUT(ring_order, unlock_for_data, 300)
{
	window_run(_metadata, false, true);
}

TEST_F_TIMEOUT(ring_order, unlock_for_space, 300)
{
	window_run(_metadata, true, true);
}

TEST_HARNESS_MAIN
