// SPDX-License-Identifier: GPL-2.0
/*
 * The ring protocol of uapi/l5_ring.h outside the kernel: every place a record
 * can have, the exact limits, streams between threads and processes, sleeping
 * and waking, and a peer that writes what it likes.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <time.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <linux/futex.h>

#include "kselftest_harness.h"
#include "ring_view.h"

FIXTURE(ring)
{
	bool mirror;
};

FIXTURE_VARIANT(ring)
{
	bool mirror;
};

FIXTURE_VARIANT_ADD(ring, mirror)
{
	.mirror = true,
};

FIXTURE_VARIANT_ADD(ring, flat)
{
	.mirror = false,
};

FIXTURE_SETUP(ring)
{
	ring_only(_metadata->name);
	self->mirror = variant->mirror;
}

FIXTURE_TEARDOWN(ring)
{
}

/* Other programs are compiled against this: it does not change by accident. */
TEST_F(ring, layout)
{
	EXPECT_EQ(0, offsetof(struct l5_ctrl, tx_tail));
	EXPECT_EQ(128, offsetof(struct l5_ctrl, rx_head));
	EXPECT_EQ(8, offsetof(struct l5_ctrl, tx_bytes));
	EXPECT_EQ(136, offsetof(struct l5_ctrl, rx_pos));
	EXPECT_EQ(144, offsetof(struct l5_ctrl, rx_bytes));
	EXPECT_EQ(256, offsetof(struct l5_ctrl, rx_wait));
	EXPECT_EQ(260, offsetof(struct l5_ctrl, tx_wait));
	EXPECT_EQ(384, offsetof(struct l5_ctrl, tx_lock));
	EXPECT_EQ(388, offsetof(struct l5_ctrl, rx_lock));
	EXPECT_EQ(512, sizeof(struct l5_ctrl));
	EXPECT_EQ(4096, L5_RING_MIN);
	EXPECT_EQ(16 << 20, L5_RING_MAX);
	EXPECT_EQ(16, l5_rec_size(1));
	EXPECT_EQ(16, l5_rec_size(8));
	EXPECT_EQ(24, l5_rec_size(9));
	EXPECT_EQ(24, l5_rec_size(16));
	EXPECT_EQ(4080, l5_rec_max(4096));
	EXPECT_EQ(4088, l5_rec_size(l5_rec_max(4096)));
}

/*
 * One record at @pos of a ring full of old bytes: invisible before, whole and
 * right after, followed by nothing, and its room comes back.
 */
static int one_record(struct ring *r, uint64_t pos, uint32_t len,
		      uint32_t piece, uint8_t *scratch)
{
	uint32_t size = r->prod.size, freed = 0, at;
	struct l5_prod p = { .tail = pos, .head = pos, .size = size };
	struct l5_cons c = { .head = pos, .size = size };

	__atomic_store_n(ring_slot(&r->prod, pos), 0, __ATOMIC_RELAXED);
	r->cons.own->rx_head = pos;
	if (l5_cons_peek(&c, ring_slot(&r->cons, c.head)) != 0)
		return __LINE__;
	if (l5_prod_look(&p, r->prod.peer) || l5_prod_room(&p) != size - 16)
		return __LINE__;
	ring_put(&r->prod, &p, pos, len, scratch);
	if (r->cons.peer->tx_tail != p.tail || p.tail - pos != l5_rec_size(len))
		return __LINE__;
	if (l5_prod_used(&p) != l5_rec_size(len))
		return __LINE__;
	if (l5_cons_peek(&c, ring_slot(&r->cons, c.head)) != 1 ||
	    c.len != len || c.off)
		return __LINE__;
	for (at = 0; at < len; at += piece) {
		uint32_t n = len - at < piece ? len - at : piece;

		ring_copy_out(&r->cons, c.head + L5_HDR + c.off, scratch, n);
		for (uint32_t i = 0; i < n; i++)
			if (scratch[i] != ring_byte(pos + at + i))
				return __LINE__;
		if (freed)
			return __LINE__;
		freed = l5_cons_take(&c, r->cons.own, n);
		if (at + n < len && (r->cons.own->rx_pos != pos + at + n ||
				     r->cons.own->rx_head != pos))
			return __LINE__;
	}
	if (freed != l5_rec_size(len) || c.head != p.tail || c.len || c.off ||
	    r->cons.own->rx_pos != c.head)
		return __LINE__;
	if (l5_cons_peek(&c, ring_slot(&r->cons, c.head)) != 0)
		return __LINE__;
	if (l5_prod_look(&p, r->prod.peer) || l5_prod_used(&p))
		return __LINE__;
	return 0;
}

/* Positions are 64 bits wide: a few starts where a narrower type would show. */
static const uint64_t starts[] = { 0, UINT32_MAX - 4095, INT64_MAX - 4095,
				   UINT64_MAX - 4095 };

TEST_F_TIMEOUT(ring, every_offset, 600)
{
	static const uint32_t sizes[] = { 4096, 8192, 65536, L5_RING_MAX };
	unsigned int s, l, b;
	uint64_t seed = 42;

	if (TSAN_BUILD)
		SKIP(return, "one thread, and nothing for this tool");
	for (s = 0; s < ARRAY_SIZE(sizes); s++) {
		uint32_t size = sizes[s], max = l5_rec_max(size), off, step;
		const uint32_t lens[] = {
			1, 2, 7, 8, 9, 15, 16, 17, 55, 56, 57, 64, 4079, 4080,
			4081, max / 2 - 1, max - 9, max - 8, max - 7, max - 1,
			max
		};
		uint8_t *scratch = malloc(size);
		unsigned long done = 0;
		struct ring r;

		ASSERT_NE(NULL, scratch);
		ring_new(&r, size, self->mirror);
		/* Old bytes that look like headers, should one be read. */
		for (off = 0; off < size; off += 8)
			*(__u64 *)(r.prod.data + off) = RING_VALID(off | 1);
		for (off = 0; off < size; off += step) {
			/* all of a small ring; of a large one the seam */
			step = 8;
			if (size > 8192 / RING_SLOW + 4096 && off >= 64 &&
			    off < size - 128)
				step = size / 32 - 8;
			if (off < size - 64 && off + step > size - 64)
				step = (size - 64 - off) ?: 8;
			for (l = 0; l < ARRAY_SIZE(lens); l++) {
				uint32_t len = lens[l] < max ? lens[l] : max;
				uint32_t piece = len;
				int line;

				if (size > 65536 && len > 8192 && off % 40)
					continue;
				if (ring_random(&seed) % 2)
					piece = 1 + ring_random(&seed) % len;
				if (len / piece > 64)
					piece = len / 64;
				b = ring_random(&seed) % ARRAY_SIZE(starts);
				line = one_record(&r, off +
						  (starts[b] & -(uint64_t)size),
						  len, piece, scratch);
				ASSERT_EQ(0, line) {
					TH_LOG("size %u off %u len %u piece %u",
					       size, off, len, piece);
				}
				done++;
			}
		}
		ASSERT_LT(100, done);
		ring_free(&r);
		free(scratch);
	}
}

/* What fits is said exactly, for every fill level. */
TEST_F(ring, room)
{
	const uint32_t size = 4096;
	uint8_t scratch[4096];
	struct ring r;
	uint32_t used;

	ring_new(&r, size, self->mirror);
	for (used = 0; used <= size; used += 8) {
		struct l5_prod p = { .tail = used, .size = size };
		uint32_t want = size - used < 16 ? 0 : size - used - 16;
		uint32_t room = l5_prod_room(&p);

		ASSERT_EQ(want, room);
		if (!room)
			continue;
		/* a record of just that length, and the zero word, fit ... */
		ring_put(&r.prod, &p, 0, room, scratch);
		ASSERT_GE(size, l5_prod_used(&p) + L5_HDR);
		ASSERT_EQ(0, l5_prod_room(&p));
		/* ... and nothing longer would */
		ASSERT_LT(size, used + l5_rec_size(room + 1) + L5_HDR);
	}
	ring_free(&r);
}

/* Of all heads a peer can claim, exactly the possible ones are believed. */
TEST_F(ring, look)
{
	static const uint32_t spans[] = { 0, 8, 16, 4080, 4088 };
	unsigned int b, s;
	struct ring r;

	ring_new(&r, 4096, self->mirror);
	for (b = 0; b < ARRAY_SIZE(starts); b++) {
		for (s = 0; s < ARRAY_SIZE(spans); s++) {
			uint64_t head = (starts[b] & ~7ull) + 8;
			uint64_t tail = head + spans[s];
			int64_t d;

			for (d = -64; d <= (int64_t)spans[s] + 64; d++) {
				struct l5_prod p = {
					.tail = tail,
					.head = head,
					.size = 4096,
				};
				bool ok = d >= 0 && d <= spans[s] && !(d & 7);

				r.cons.own->rx_head = head + d;
				ASSERT_EQ(ok ? 0 : -1,
					  l5_prod_look(&p, r.prod.peer)) {
					TH_LOG("span %u d %lld", spans[s],
					       (long long)d);
				}
				ASSERT_EQ(ok ? head + d : head, p.head);
				ASSERT_EQ(tail, p.tail);
			}
			for (d = 3; d < 64; d++) {
				struct l5_prod p = {
					.tail = tail,
					.head = head,
					.size = 4096,
				};

				r.cons.own->rx_head = head + (1ull << d);
				ASSERT_EQ((1ull << d) <= spans[s] ? 0 : -1,
					  l5_prod_look(&p, r.prod.peer));
			}
		}
	}
	ring_free(&r);
}

/* Of all header words, exactly the possible ones are records. */
TEST_F(ring, peek)
{
	static const uint32_t sizes[] = { 4096, 65536, L5_RING_MAX };
	static const uint32_t uppers[] = {
		0, 1, L5_REC_VALID, L5_REC_VALID | 1, L5_REC_VALID | 0x40000000,
		L5_REC_VALID - 1, UINT32_MAX
	};
	unsigned int s, u, l;

	for (s = 0; s < ARRAY_SIZE(sizes); s++) {
		uint32_t max = l5_rec_max(sizes[s]);
		const uint32_t lens[] = {
			0, 1, 7, 8, max - 1, max, max + 1, max + 8, sizes[s],
			INT_MAX, 1u + INT_MAX, UINT32_MAX - 7, UINT32_MAX
		};

		for (u = 0; u < ARRAY_SIZE(uppers); u++) {
			for (l = 0; l < ARRAY_SIZE(lens); l++) {
				__u64 hdr = (__u64)uppers[u] << 32 | lens[l];
				struct l5_cons c = { .size = sizes[s] };
				int want = -1;

				if (!hdr)
					want = 0;
				else if (uppers[u] == L5_REC_VALID &&
					 lens[l] <= max)
					want = 1;
				ASSERT_EQ(want, l5_cons_peek(&c, &hdr)) {
					TH_LOG("size %u header %llx", sizes[s],
					       (unsigned long long)hdr);
				}
				ASSERT_EQ(want == 1 ? lens[l] : 0, c.len);
				ASSERT_EQ(want == 1, c.have);
				ASSERT_EQ(0, c.off);
				ASSERT_EQ(0, c.head);
			}
		}
	}
}

/* Flags that nobody said to understand, and bits that are none. */
TEST_F(ring, flags)
{
	static const uint32_t lens[] = { 0, 1, 100 };
	unsigned int bit, l;

	EXPECT_EQ(UINT32_MAX, L5_REC_LEN | 0xfe000000u);
	EXPECT_EQ(1u << 25, L5_REC_MORE);
	EXPECT_EQ(1u << 26, L5_REC_FILES);
	EXPECT_EQ(1u << 27, L5_REC_SWITCH);
	EXPECT_GE(L5_REC_LEN, l5_rec_max(L5_RING_MAX));
	for (l = 0; l < ARRAY_SIZE(lens); l++)
		for (bit = 25; bit < 63; bit++) {
			struct l5_cons c = { .size = L5_RING_MAX };
			__u64 hdr = RING_VALID(lens[l]) | 1ull << bit;

			EXPECT_EQ(-1, l5_cons_peek(&c, &hdr)) {
				TH_LOG("bit %u, length %u", bit, lens[l]);
			}
			EXPECT_EQ(0, c.have);
		}
}

/* A record without payload is one; a stream skips it, up to a point. */
TEST_F(ring, empty)
{
	struct l5_cons c = { .size = 65536 };
	struct l5_ctrl own = { .rx_head = 0 };
	__u64 hdr = RING_VALID(0);
	unsigned int i;

	ASSERT_EQ(1, l5_cons_peek(&c, &hdr));
	EXPECT_EQ(1, c.have);
	EXPECT_EQ(0, c.len);
	/* it is there until it is taken, whatever becomes of its header */
	hdr = 0;
	ASSERT_EQ(1, l5_cons_peek(&c, &hdr));
	EXPECT_EQ(L5_HDR, l5_cons_take(&c, &own, 0));
	EXPECT_EQ(L5_HDR, own.rx_head);
	EXPECT_EQ(L5_HDR, own.rx_pos);
	ASSERT_EQ(0, l5_cons_peek(&c, &hdr));
	hdr = RING_VALID(0);
	for (i = 0; i < L5_EMPTY_MAX; i++)
		ASSERT_EQ(2, l5_cons_skip(&c, &own, &hdr));
	/* payload in between, taken here or by somebody else */
	hdr = RING_VALID(3);
	ASSERT_EQ(1, l5_cons_skip(&c, &own, &hdr));
	EXPECT_EQ(3, c.len);
	ASSERT_EQ(16, l5_cons_take(&c, &own, 3));
	hdr = RING_VALID(0);
	for (i = 0; i < L5_EMPTY_MAX; i++)
		ASSERT_EQ(2, l5_cons_skip(&c, &own, &hdr));
	EXPECT_EQ(-1, l5_cons_skip(&c, &own, &hdr));
	/* who claims to be within one that has nothing */
	own.rx_pos = own.rx_head + 1;
	ASSERT_EQ(0, l5_cons_load(&c, &own));
	EXPECT_EQ(-1, l5_cons_peek(&c, &hdr));
	/* taken, and its taker died before the head moved */
	own.rx_pos = own.rx_head + L5_HDR;
	ASSERT_EQ(0, l5_cons_load(&c, &own));
	l5_cons_mend(&c, &own, &hdr);
	EXPECT_EQ(own.rx_pos, own.rx_head);
}

/* A record is validated once; later scribbles over its header are not read. */
TEST_F(ring, take)
{
	struct l5_cons c = { .head = 4096 - 8, .size = 4096 };
	struct l5_ctrl own = { .rx_head = 4096 - 8 };
	__u64 hdr = RING_VALID(100);

	ASSERT_EQ(1, l5_cons_peek(&c, &hdr));
	hdr = RING_VALID(4000);
	ASSERT_EQ(1, l5_cons_peek(&c, &hdr));
	EXPECT_EQ(100, c.len);
	EXPECT_EQ(0, l5_cons_take(&c, &own, 0));
	EXPECT_EQ(4088, own.rx_pos);
	EXPECT_EQ(0, l5_cons_take(&c, &own, 60));
	EXPECT_EQ(4088 + 60, own.rx_pos);
	EXPECT_EQ(4088, own.rx_head);
	hdr = 0;
	ASSERT_EQ(1, l5_cons_peek(&c, &hdr));
	EXPECT_EQ(60, c.off);
	EXPECT_EQ(0, l5_cons_take(&c, &own, 39));
	EXPECT_EQ(l5_rec_size(100), l5_cons_take(&c, &own, 1));
	EXPECT_EQ(4088 + 112, own.rx_pos);
	EXPECT_EQ(4088 + 112, own.rx_head);
	EXPECT_EQ(4088 + 112, c.head);
	EXPECT_EQ(0, c.len);
	EXPECT_EQ(0, l5_cons_peek(&c, &hdr));
}

TEST_F(ring, wait_words)
{
	__u32 w = 0;

	EXPECT_FALSE(l5_wait_armed(&w));
	l5_wait_arm(&w);
	EXPECT_TRUE(l5_wait_armed(&w));
	l5_wait_arm(&w);
	EXPECT_TRUE(l5_wait_armed(&w));
	l5_wait_clear(&w);
	EXPECT_FALSE(l5_wait_armed(&w));
}

/*
 * Streams. What a kernel does for the two ends, the doorbell, is done here by
 * a futex or an eventfd; the end that rings clears the other's wait word as
 * the kernel would.
 */
enum bell_kind { BELL_NONE, BELL_FUTEX, BELL_EVENTFD };

struct bell {
	enum bell_kind kind;
	int fd;
	unsigned int count;	/* the futex */
};

struct run {
	struct ring r;
	struct bell data, space;
	uint64_t total;
	uint64_t start;		/* position of the first record */
	uint32_t longest;
	bool delays;
	/* results */
	uint64_t wrong, sleeps_data, sleeps_space, lost, broken;
	bool stop;		/* one end gave up */
};

static void bell_init(struct bell *b, enum bell_kind kind)
{
	b->kind = kind;
	b->fd = -1;
	if (kind == BELL_EVENTFD) {
		b->fd = eventfd(0, EFD_NONBLOCK);
		if (b->fd < 0)
			ring_die("eventfd");
	}
}

static void bell_ring(struct bell *b, __u32 *wait)
{
	uint64_t one = 1;

	if (b->kind == BELL_NONE)
		return;
	l5_wait_clear(wait);
	if (b->kind == BELL_FUTEX) {
		__atomic_fetch_add(&b->count, 1, __ATOMIC_RELEASE);
		syscall(SYS_futex, &b->count, FUTEX_WAKE, INT_MAX, NULL);
	} else if (write(b->fd, &one, sizeof(one)) != sizeof(one)) {
		ring_die("eventfd write");
	}
}

/* How long a sleeper waits before it says that nobody woke it. */
#define LOST_MS		20000

static bool bell_sleep(struct bell *b, unsigned int seen)
{
	struct timespec t = { .tv_sec = LOST_MS / 1000 };
	struct pollfd p = { .fd = b->fd, .events = POLLIN };
	uint64_t n;

	if (b->kind == BELL_FUTEX)
		return !(syscall(SYS_futex, &b->count, FUTEX_WAIT, seen, &t) &&
			 errno == ETIMEDOUT);
	if (poll(&p, 1, LOST_MS) == 0)
		return false;
	return read(b->fd, &n, sizeof(n)) == sizeof(n) || errno == EAGAIN;
}

static void dither(struct run *run, uint64_t *seed)
{
	unsigned int n;

	if (!run->delays)
		return;
	n = ring_random(seed) % 64;
	if (n < 2)
		usleep(ring_random(seed) % 60);
	else if (n < 20)
		for (n = ring_random(seed) % 600; n; n--)
			__asm__ __volatile__("" ::: "memory");
}

static void *produce(void *arg)
{
	struct run *run = arg;
	struct view *v = &run->r.prod;
	struct l5_prod p = {
		.tail = run->start,
		.head = run->start,
		.size = v->size,
	};
	uint8_t *scratch = malloc(p.size);
	uint64_t seed = 0xfeed, at = 0;

	while (at < run->total) {
		uint32_t len = 1 + ring_random(&seed) % run->longest;

		if (len > run->total - at)
			len = run->total - at;
		while (l5_prod_room(&p) < len) {
			unsigned int seen;

			if (l5_prod_look(&p, v->peer)) {
				run->broken++;
				goto out;
			}
			if (l5_prod_room(&p) >= len)
				break;
			if (__atomic_load_n(&run->stop, __ATOMIC_RELAXED))
				goto out;
			if (run->space.kind == BELL_NONE) {
				sched_yield();
				continue;
			}
			seen = __atomic_load_n(&run->space.count,
					       __ATOMIC_ACQUIRE);
			l5_wait_arm(&v->own->tx_wait);
			if (l5_prod_look(&p, v->peer)) {
				run->broken++;
				goto out;
			}
			if (l5_prod_room(&p) >= len)
				break;
			run->sleeps_space++;
			if (!bell_sleep(&run->space, seen)) {
				run->lost++;
				goto out;
			}
		}
		ring_put(v, &p, at, len, scratch);
		at += len;
		if (l5_wait_armed(&v->peer->rx_wait))
			bell_ring(&run->data, &run->r.cons.own->rx_wait);
		dither(run, &seed);
	}
out:
	if (at < run->total)
		__atomic_store_n(&run->stop, true, __ATOMIC_RELAXED);
	free(scratch);
	return NULL;
}

static void consume(struct run *run)
{
	struct view *v = &run->r.cons;
	struct l5_cons c = { .head = run->start, .size = v->size };
	uint8_t *scratch = malloc(c.size);
	uint64_t seed = 0xbeef, at = 0;

	while (at < run->total) {
		int ret = l5_cons_peek(&c, ring_slot(v, c.head));
		unsigned int seen;
		uint32_t n;

		if (!ret && run->data.kind != BELL_NONE) {
			seen = __atomic_load_n(&run->data.count,
					       __ATOMIC_ACQUIRE);
			l5_wait_arm(&v->own->rx_wait);
			ret = l5_cons_peek(&c, ring_slot(v, c.head));
			if (!ret) {
				run->sleeps_data++;
				if (!bell_sleep(&run->data, seen)) {
					run->lost++;
					break;
				}
				continue;
			}
		}
		if (ret < 0) {
			run->broken++;
			break;
		}
		if (!ret) {
			if (__atomic_load_n(&run->stop, __ATOMIC_RELAXED))
				break;
			sched_yield();
			continue;
		}
		n = c.len - c.off;
		if (n > 1 && ring_random(&seed) % 4 == 0)
			n = 1 + ring_random(&seed) % n;
		run->wrong += ring_get(v, &c, at, n, scratch);
		at += n;
		if (!c.len && l5_wait_armed(&v->peer->tx_wait))
			bell_ring(&run->space, &run->r.prod.own->tx_wait);
		dither(run, &seed);
	}
	if (at < run->total)
		__atomic_store_n(&run->stop, true, __ATOMIC_RELAXED);
	free(scratch);
}

static void run_init(struct run *run, uint32_t size, bool mirror,
		     enum bell_kind kind)
{
	memset(run, 0, sizeof(*run));
	ring_new(&run->r, size, mirror);
	bell_init(&run->data, kind);
	bell_init(&run->space, kind);
	run->longest = size / 2;
	run->total = (uint64_t)size * 2000 / RING_SLOW;
}

static void run_start(struct run *run, uint64_t start)
{
	run->start = start;
	run->r.cons.own->rx_head = start;
}

static void run_end(struct run *run)
{
	if (run->data.fd >= 0)
		close(run->data.fd);
	if (run->space.fd >= 0)
		close(run->space.fd);
	ring_free(&run->r);
}

static void run_threads(struct __test_metadata *_metadata, struct run *run)
{
	pthread_t t;

	ASSERT_EQ(0, pthread_create(&t, NULL, produce, run));
	consume(run);
	ASSERT_EQ(0, pthread_join(t, NULL));
	EXPECT_EQ(0, run->wrong);
	EXPECT_EQ(0, run->broken);
	EXPECT_EQ(0, run->lost);
}

/*
 * ThreadSanitizer would take the two addresses of one page for two pages and
 * see nothing at all; a test that cannot fail is not run.
 */
#define NOT_MIRROR_UNDER_TSAN()						\
	do {								\
		if (TSAN_BUILD && self->mirror)				\
			SKIP(return, "pages have two addresses here");	\
	} while (0)

TEST_F_TIMEOUT(ring, stream_polling, 300)
{
	static const uint32_t sizes[] = { 4096, 16384, 1 << 20 };
	unsigned int i;

	NOT_MIRROR_UNDER_TSAN();
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct run run;

		run_init(&run, sizes[i], self->mirror, BELL_NONE);
		if (sizes[i] > 65536)
			run.total /= 20;
		run_start(&run, i == 1 ? UINT32_MAX - 16383 : 0);
		run_threads(_metadata, &run);
		run_end(&run);
	}
}

static void stream_sleeping(struct __test_metadata *_metadata, bool mirror,
			    enum bell_kind kind)
{
	static const uint32_t longest[] = { 64, 2000, 4080 };
	unsigned int i, d;

	for (d = 0; d < 2; d++) {
		for (i = 0; i < ARRAY_SIZE(longest); i++) {
			struct run run;

			run_init(&run, 4096, mirror, kind);
			run.longest = longest[i];
			run.delays = d;
			if (longest[i] == 64)
				run.total /= 8;
			run_start(&run, 0);
			run_threads(_metadata, &run);
			TH_LOG("records to %u%s: slept %llu for data, %llu for space",
			       longest[i], d ? " with delays" : "",
			       (unsigned long long)run.sleeps_data,
			       (unsigned long long)run.sleeps_space);
			/* else this has tested nothing */
			EXPECT_LT(0, run.sleeps_data + run.sleeps_space);
			run_end(&run);
		}
	}
}

TEST_F_TIMEOUT(ring, stream_sleeping_futex, 300)
{
	NOT_MIRROR_UNDER_TSAN();
	stream_sleeping(_metadata, self->mirror, BELL_FUTEX);
}

TEST_F_TIMEOUT(ring, stream_sleeping_eventfd, 300)
{
	NOT_MIRROR_UNDER_TSAN();
	stream_sleeping(_metadata, self->mirror, BELL_EVENTFD);
}

/* Two address spaces: nothing is shared but the pages. */
TEST_F_TIMEOUT(ring, stream_processes, 300)
{
	enum bell_kind kind;

	NOT_MIRROR_UNDER_TSAN();
	for (kind = BELL_NONE; kind <= BELL_EVENTFD; kind++) {
		struct run *run = mmap(NULL, sizeof(*run),
				       PROT_READ | PROT_WRITE,
				       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		int status;
		pid_t pid;

		ASSERT_NE(MAP_FAILED, run);
		run_init(run, 8192, self->mirror, kind);
		run->delays = kind != BELL_NONE;
		run_start(run, 0);
		fflush(NULL);
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			produce(run);
			_exit(0);
		}
		consume(run);
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		EXPECT_EQ(0, status);
		EXPECT_EQ(0, run->wrong);
		EXPECT_EQ(0, run->broken);
		EXPECT_EQ(0, run->lost);
		run_end(run);
		munmap(run, sizeof(*run));
	}
}

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

	switch (ring_random(seed) % 8) {
	case 0:
		return 0;
	case 1:
		return ring_random(seed);
	case 2:
		return RING_VALID(max - 4 + ring_random(seed) % 9);
	case 3:
		return RING_VALID(ring_random(seed) % (max + 1));
	case 4:
		return RING_VALID(ring_random(seed) % 32);
	case 5:
		return RING_VALID(ring_random(seed));
	case 6:
		return position - 64 + ring_random(seed) % 128 * 8;
	default:
		return RING_VALID(1) | 1ull << (32 + ring_random(seed) % 32);
	}
}

/* More of it than two seconds, and other words: see long/ring. */
static uint64_t hostile_number(const char *name, uint64_t none)
{
	const char *s = getenv(name);

	return s ? strtoull(s, NULL, 0) : none;
}

static uint64_t hostile_seed(uint64_t own)
{
	uint64_t seed = own ^ hostile_number("L5_SEED", 0);

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
		if (ring_random(&seed) % 4)
			pos += ring_random(&seed) % 8 * 8;
		else
			pos = ring_random(&seed) & ~7ull;
		__atomic_store_n(ring_slot(&h->r.prod, pos), w,
				 __ATOMIC_RELAXED);
		if (ring_random(&seed) % 16 == 0)
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
		.ops = hostile_number("L5_OPS", 0),
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

TEST_F_TIMEOUT(ring, hostile_producer, 120)
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
			c.head = ring_random(&seed) & ~7ull;
			continue;
		}
		if (!ret) {
			/* no operation; and what never comes is elsewhere */
			until.done--;
			if (++none % 64 == 0)
				c.head = ring_random(&seed) & ~7ull;
			continue;
		}
		ASSERT_EQ(1, ret);
		ASSERT_GE(max, c.len);
		ASSERT_TRUE(c.len ? c.len > c.off : !c.off);
		records++;
		n = c.len ? 1 + ring_random(&seed) % (c.len - c.off) : 0;
		if (ring_random(&seed) % 2)
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

/* The same with nobody beside: every word in turn, deterministic. */
TEST_F_TIMEOUT(ring, hostile_words, 120)
{
	struct l5_cons c = { .size = 4096 };
	uint64_t ops = hostile_number("L5_OPS", 2000000 / RING_SLOW);
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
		uint64_t w = pos - ring_random(&seed) % 600 * 8;

		if (ring_random(&seed) % 4 == 0)
			w = hostile_word(&seed, h->r.cons.size, pos);
		__atomic_store_n(&h->r.cons.own->rx_head, w, __ATOMIC_RELAXED);
		__atomic_store_n(&h->r.cons.own->rx_wait, (__u32)w,
				 __ATOMIC_RELAXED);
		h->scribbles++;
	}
	return NULL;
}

TEST_F_TIMEOUT(ring, hostile_consumer, 120)
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
			/* nobody reads: go on from what was published */
			if (full % 64 == 0)
				p.head = p.tail;
		} else {
			ring_put(&h.r.prod, &p, 0,
				 1 + ring_random(&seed) % room, scratch);
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
