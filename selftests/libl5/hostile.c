// SPDX-License-Identifier: GPL-2.0
/*
 * A peer that maps its end and writes whatever it likes to it, while a program
 * uses the other end by libl5: each call gives bytes or an error, soon, and
 * touches nothing else; another connection of the program does not notice.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "hostile.h"
#include "libl5_ends.h"

/* State of one victim; each victim is a process of its own. */
static struct l5_stream *evil, *ours[2];
static uint32_t sum_seen;

static bool one_way(struct hostile *h, struct l5_stream *from,
		    struct l5_stream *to,
		    size_t n)
{
	uint8_t b[2000];
	size_t done, k;
	ssize_t got;

	for (done = 0; done < n; done += k) {
		k = n - done < sizeof(b) ? n - done : sizeof(b);
		l5_fill(b, k, h->pos + done);
		/* a signal may come before the first byte */
		do
			got = l5_send(from, b, k, 0);
		while (got < 0 && errno == EINTR);
		if (got != (ssize_t)k)
			return false;
		do
			got = l5_recv(to, b, k, MSG_WAITALL);
		while (got < 0 && errno == EINTR);
		if (got != (ssize_t)k ||
		    l5_check(b, k, h->pos + done) >= 0)
			return false;
	}
	return true;
}

static bool good(struct hostile *h, void *arg, size_t n)
{
	bool ok = one_way(h, ours[0], ours[1], n) &&
		  one_way(h, ours[1], ours[0], n);

	(void)arg;
	h->pos += n;
	return ok;
}

static bool begin(struct hostile *h, void *arg)
{
	(void)arg;
	signal(SIGPIPE, SIG_IGN);
	evil = l5_map(h->evil);
	ours[0] = l5_map(h->good[0]);
	ours[1] = l5_map(h->good[1]);
	return evil && ours[0] && ours[1] && l5_stream_mapped(evil) &&
	       l5_stream_mapped(ours[0]) && l5_stream_mapped(ours[1]) &&
	       hostile_timeouts(h) && good(h, NULL, 1000);
}

/* All that moves bytes, libl5's calls and the socket's mixed */
static void put(struct hostile *h)
{
	size_t n = hostile_want(h);
	int way = l5_rnd(&h->seed) % WAYS;

	hostile_judge(h, send_way(evil, way, hostile_memory(n), n), n);
}

static void get(struct hostile *h)
{
	size_t n = hostile_want(h);
	int way = l5_rnd(&h->seed) % WAYS;

	hostile_judge(h, recv_way(evil, way, hostile_memory(n), n), n);
}

static void s_ways(struct hostile *h, void *arg)
{
	(void)arg;
	get(h);
	put(h);
}

static void s_nonblock(struct hostile *h, void *arg)
{
	if (!h->a->calls && l5_set_nonblock(evil, true))
		hostile_wrong(h, W_SETUP);
	s_ways(h, arg);
}

/* Nothing but a signal ends a call. */
static void s_alarm(struct hostile *h, void *arg)
{
	if (!h->a->calls && !hostile_alarm(h))
		hostile_wrong(h, W_SETUP);
	s_ways(h, arg);
}

/* Looks at all of it, which has to be there. */
static void look_at(const uint8_t *p, size_t n)
{
	uint32_t sum = 0;
	size_t i;

	for (i = 0; i < n; i++)
		sum += p[i];
	l5_store(&sum_seen, sum);
}

static void zero_get(struct hostile *h, int flags)
{
	size_t n;
	const void *p;
	ssize_t got;

	got = hostile_judge(h, l5_peek(evil, &p, flags), L5_RING_MAX);
	if (got <= 0)
		return;
	look_at(p, got);
	n = l5_rnd(&h->seed) % 3 ? got : l5_rnd(&h->seed) % got;
	hostile_judge(h, l5_release(evil, n), 0);
}

static void zero_put(struct hostile *h, int flags)
{
	size_t n = hostile_want(h);
	ssize_t got;
	void *p;

	got = hostile_judge(h, l5_reserve(evil, &p, n, flags), n);
	if (got <= 0)
		return;
	memset(p, 0x11, got);
	n = l5_rnd(&h->seed) % 3 ? got : l5_rnd(&h->seed) % got;
	hostile_judge(h, l5_commit(evil, n), n);
}

static void s_zero_copy(struct hostile *h, void *arg)
{
	int flags = l5_rnd(&h->seed) & 1 ? MSG_DONTWAIT : 0;

	(void)arg;
	zero_get(h, flags);
	zero_put(h, flags);
}

static void s_wait(struct hostile *h, void *arg)
{
	short events = l5_rnd(&h->seed) & 1 ? POLLIN : POLLIN | POLLOUT;
	int n = l5_wait(evil, events, 5);

	(void)arg;
	if (n < 0)
		hostile_wrong(h, W_ERRNO);
	if (n > 0 && n & POLLIN)
		zero_get(h, MSG_DONTWAIT);
	if (n > 0 && n & POLLOUT)
		zero_put(h, MSG_DONTWAIT);
}

/* The innocent connection has to be seen. */
static void s_wait_any(struct hostile *h, void *arg)
{
	struct l5_event e[2] = {
		{ .conn = evil, .events = POLLIN },
		{ .conn = ours[0], .events = POLLIN },
	};
	int64_t end = l5_now_ms() + 10000 * l5_slow();
	size_t n = 1 + l5_rnd(&h->seed) % 500;
	uint8_t b[500];

	(void)arg;
	if (l5_rnd(&h->seed) & 1)
		e[0].events |= POLLOUT;
	l5_fill(b, n, h->pos);
	if (l5_send(ours[1], b, n, 0) != (ssize_t)n)
		hostile_wrong(h, W_GOOD);
	do {
		if (l5_wait_any(e, 2, 5) < 0)
			hostile_wrong(h, W_ERRNO);
		if (e[0].revents & POLLIN)
			get(h);
		if (e[0].revents & POLLOUT)
			put(h);
		if (l5_now_ms() > end)
			hostile_wrong(h, W_STARVED);
	} while (!e[1].revents && !h->wrong);
	if (l5_recv(ours[0], b, n, MSG_WAITALL) != (ssize_t)n ||
	    l5_check(b, n, h->pos) >= 0 || !one_way(h, ours[0], ours[1], n))
		hostile_wrong(h, W_GOOD);
	h->pos += n;
}

/* Each direction in a thread */
static void *receiver(void *arg)
{
	struct hostile *h = arg, mine = *h;
	int i;

	mine.seed ^= 4711;
	for (i = 0; i < 30; i++)
		zero_get(&mine, i & 1 ? MSG_DONTWAIT : 0);
	return (void *)(uintptr_t)mine.wrong;
}

static void s_threads(struct hostile *h, void *arg)
{
	void *wrong;
	pthread_t t;
	int i;

	(void)arg;
	if (pthread_create(&t, NULL, receiver, h)) {
		hostile_wrong(h, W_SETUP);
		return;
	}
	for (i = 0; i < 30; i++)
		put(h);
	pthread_join(t, &wrong);
	if (wrong)
		hostile_wrong(h, (uintptr_t)wrong);
}

/* The other end is gone. */
static void end(struct hostile *h, void *arg)
{
	int64_t stop = l5_now_ms() + 10000 * l5_slow();
	ssize_t n;
	int i;

	(void)arg;
	hostile_timeouts(h);
	l5_set_nonblock(evil, false);
	/* that may go around in the ring for ever */
	for (i = 0; i < 100; i++) {
		n = hostile_judge(h, l5_recv(evil, hostile_memory(500), 500, 0),
				  500);
		if (!n || (n < 0 && errno != EAGAIN))
			break;
	}
	do {
		n = hostile_judge(h, l5_send(evil, hostile_memory(500), 500, 0),
				  500);
		if (l5_now_ms() > stop)
			hostile_wrong(h, W_ENDLESS);
	} while (!h->wrong && (n >= 0 || errno == EAGAIN));
	if (l5_close(evil))
		hostile_wrong(h, W_CLOSE);
}

static const struct {
	const char *name;
	void (*step)(struct hostile *h, void *arg);
} api[] = {
	{ "all ways", s_ways },
	{ "nonblocking", s_nonblock },
	{ "alarm", s_alarm },
	{ "zero copy", s_zero_copy },
	{ "wait", s_wait },
	{ "wait any", s_wait_any },
	{ "threads", s_threads },
};

FIXTURE(libl5_hostile)
{
	int none;
};

FIXTURE_VARIANT(libl5_hostile)
{
	const char *at;
};

FIXTURE_VARIANT_ADD(libl5_hostile, inet)
{
	.at = "127.0.0.1:0",
};

FIXTURE_VARIANT_ADD(libl5_hostile, unix)
{
	.at = "abstract:l5_libl5_hostile",
};

FIXTURE_SETUP(libl5_hostile)
{
	(void)self;
	l5_or_skip();
	ASSERT_TRUE(net_unshare());
	ASSERT_LE(0, l5_sysctl("match_ms", 10000));
	ASSERT_LE(0, l5_sysctl("grow_ms", 0));
}

FIXTURE_TEARDOWN(libl5_hostile)
{
	(void)self;
}

TEST_F_TIMEOUT(libl5_hostile, plays, 400)
{
	struct hostile_game g = { .begin = begin, .good = good, .end = end };
	uint64_t seed = l5_seed();
	unsigned long sum[2] = { 0 };
	int mood;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(api); i++) {
		g.api = api[i].name;
		g.step = api[i].step;
		for (mood = 0; mood < MOODS; mood++)
			EXPECT_TRUE(hostile_play(&g, variant->at, mood, seed++,
						 sum));
	}
	TH_LOG("%lu calls, %lu scribbles, %lld connections ended for it",
	       sum[0], sum[1], l5_stat("violations"));
	EXPECT_LT(0, sum[0]);
	EXPECT_LT(0, sum[1]);
	/* nothing of it stays */
	EXPECT_TRUE(scribble_over(variant->at));
}

TEST_HARNESS_MAIN
