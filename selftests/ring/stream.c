// SPDX-License-Identifier: GPL-2.0
/*
 * Streams through the ring of uapi/l5_ring.h, between threads and between
 * processes: sleeping, waking, and every byte in its place.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <linux/futex.h>

#include "kselftest_harness.h"
#include "ring_view.h"

RING_FIXTURE(ring_stream)

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

/* How long a sleeper waits before it says that it was not woken. */
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
	n = l5_rnd64(seed) % 64;
	if (n < 2)
		usleep(l5_rnd64(seed) % 60);
	else if (n < 20)
		for (n = l5_rnd64(seed) % 600; n; n--)
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
		uint32_t len = 1 + l5_rnd64(&seed) % run->longest;

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
		if (n > 1 && l5_rnd64(&seed) % 4 == 0)
			n = 1 + l5_rnd64(&seed) % n;
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

TEST_F_TIMEOUT(ring_stream, stream_polling, 300)
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

TEST_F_TIMEOUT(ring_stream, stream_sleeping_futex, 300)
{
	NOT_MIRROR_UNDER_TSAN();
	stream_sleeping(_metadata, self->mirror, BELL_FUTEX);
}

TEST_F_TIMEOUT(ring_stream, stream_sleeping_eventfd, 300)
{
	NOT_MIRROR_UNDER_TSAN();
	stream_sleeping(_metadata, self->mirror, BELL_EVENTFD);
}

/* Two address spaces: nothing is shared but the pages. */
TEST_F_TIMEOUT(ring_stream, stream_processes, 300)
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

TEST_HARNESS_MAIN
