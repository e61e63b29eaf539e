// SPDX-License-Identifier: GPL-2.0
/*
 * The lock words of uapi/l5_ring.h and the cursors they guard, one step at a
 * time: a holder is stopped after every single instruction, and the next one
 * has to go on exactly there; own control pages hold garbage.
 */
#include <limits.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "ring_view.h"

RING_FIXTURE(ring_lock)

TEST_F(ring_lock, words)
{
	static const struct {
		__u32 word;
		int got;
		__u32 after;
	} t[] = {
		{ 0, 1, 5 },
		{ L5_LOCK_WAITERS, 1, 5 | L5_LOCK_WAITERS },
		{ L5_LOCK_DIED, 2, 5 },
		{ L5_LOCK_DIED | L5_LOCK_WAITERS, 2, 5 | L5_LOCK_WAITERS },
		{ 1, 0, 1 },
		{ 5, 0, 5 },
		{ L5_LOCK_KERNEL, 0, L5_LOCK_KERNEL },
		{ 7 | L5_LOCK_WAITERS, 0, 7 | L5_LOCK_WAITERS },
		{ UINT32_MAX, 0, UINT32_MAX },
	};
	unsigned int i;
	__u32 w;

	for (i = 0; i < ARRAY_SIZE(t); i++) {
		w = t[i].word;
		EXPECT_EQ(t[i].got, l5_lock_try(&w, 5));
		EXPECT_EQ(t[i].after, w);
		if (!t[i].got)
			continue;
		EXPECT_EQ(t[i].word & L5_LOCK_WAITERS, l5_unlock(&w));
		EXPECT_EQ(0, w);
	}
	w = 5 | L5_LOCK_WAITERS;
	ring_owner_died(&w, 6);
	EXPECT_EQ(5 | L5_LOCK_WAITERS, w);
	ring_owner_died(&w, 5);
	EXPECT_EQ(L5_LOCK_DIED | L5_LOCK_WAITERS, w);
}

/*
 * Death at any instruction. A child runs a whole turn one instruction at a
 * time. After each, what it shares is copied: that is what it would leave if
 * it were killed there. In the copy the next holder takes over.
 */
#define SIZE		4096u
#define VICTIM		7
#define HEIR		8

struct stage {
	struct ring r;
	uint64_t start;		/* position of the first record */
	uint32_t lens[4];	/* of the records */
	unsigned int records;
	uint32_t piece;		/* a taker's */
	uint64_t taken;		/* bytes of the takes that returned */
	bool returned;
};

struct heir {
	struct ring r;
	uint8_t scratch[SIZE];
	unsigned long steps, died, mended;
	bool reader_first, far_behind;
};

static void ring_copy(struct ring *to, const struct ring *from)
{
	memcpy(to->prod.data, from->prod.data, from->prod.size);
	memcpy(to->prod.own, from->prod.own, sizeof(struct l5_ctrl));
	memcpy(to->cons.own, from->cons.own, sizeof(struct l5_ctrl));
}

/* Old bytes everywhere that look like headers, should one be read. */
static void stage_set(struct stage *s)
{
	uint32_t off;

	for (off = 0; off < SIZE; off += 8)
		*(__u64 *)(s->r.prod.data + off) = RING_VALID(off | 1);
	*ring_slot(&s->r.prod, s->start) = 0;
	memset(s->r.prod.own, 0, sizeof(struct l5_ctrl));
	memset(s->r.cons.own, 0, sizeof(struct l5_ctrl));
	s->r.prod.own->tx_tail = s->start;
	s->r.cons.own->rx_head = s->start;
	s->r.cons.own->rx_pos = s->start;
	s->taken = 0;
	s->returned = false;
}

/* Read what is there, from byte @at of the stream; how far, or -1. */
static int64_t heir_drain(struct heir *h, struct l5_cons *c, uint64_t at)
{
	int ret;

	while ((ret = l5_cons_peek(c, ring_slot(&h->r.cons, c->head))) > 0) {
		uint32_t n = c->len - c->off;

		if (ring_get(&h->r.cons, c, at, n, h->scratch))
			return -1;
		at += n;
	}
	return ret ? -1 : (int64_t)at;
}

/* One turn of a sender. */
static void victim_sends(struct stage *s)
{
	struct l5_ctrl *own = s->r.prod.own;
	struct l5_prod p = { .head = s->start, .size = SIZE };
	uint8_t scratch[SIZE];

	if (l5_lock_try(&own->tx_lock, VICTIM) != 1 ||
	    l5_prod_load(&p, own, s->r.prod.peer) ||
	    l5_prod_room(&p) < s->lens[1])
		abort();
	ring_put(&s->r.prod, &p, s->lens[0], s->lens[1], scratch);
	l5_unlock(&own->tx_lock);
}

/* Return: line of what is wrong, or 0. */
static int heir_sends(struct stage *s, struct heir *h)
{
	uint64_t second = s->start + l5_rec_size(s->lens[0]);
	uint64_t third = second + l5_rec_size(s->lens[1]), all;
	struct l5_prod p = { .head = h->far_behind ? 0 : s->start,
			     .size = SIZE };
	struct l5_cons c = { .head = s->start, .size = SIZE };
	struct l5_ctrl *own = h->r.prod.own;
	bool was_in = *ring_slot(&h->r.prod, second);
	int64_t at = 0;
	int got;

	if (h->reader_first) {
		at = heir_drain(h, &c, 0);
		if (at < 0)
			return __LINE__;
	}
	got = l5_lock_try(&own->tx_lock, HEIR);
	if (!got)
		return __LINE__;
	h->died += got == 2;
	if (l5_prod_load(&p, own, h->r.prod.peer))
		return __LINE__;
	if (got == 2) {
		uint64_t tail = p.tail;

		if (l5_prod_mend(&p, own, h->r.prod.peer,
				 ring_slot(&h->r.prod, p.tail)))
			return __LINE__;
		h->mended += p.tail != tail;
	}
	/* all or nothing, and all if the peer could see it */
	if (p.tail != second && p.tail != third)
		return __LINE__;
	if ((was_in || s->returned) && p.tail != third)
		return __LINE__;
	if (own->tx_tail != p.tail || *ring_slot(&h->r.prod, p.tail))
		return __LINE__;
	if (l5_prod_look(&p, h->r.prod.peer) ||
	    l5_prod_room(&p) < s->lens[2])
		return __LINE__;
	all = s->lens[0] + (p.tail == third ? s->lens[1] : 0);
	ring_put(&h->r.prod, &p, all, s->lens[2], h->scratch);
	if (l5_unlock(&own->tx_lock))
		return __LINE__;
	at = heir_drain(h, &c, at);
	if (at != (int64_t)(all + s->lens[2]))
		return __LINE__;
	if (l5_prod_look(&p, h->r.prod.peer) || l5_prod_used(&p))
		return __LINE__;
	return 0;
}

/* Turns of a receiver, until all is read. */
static void victim_takes(struct stage *s)
{
	struct l5_ctrl *own = s->r.cons.own;
	struct l5_cons c = { .size = SIZE };
	uint8_t scratch[SIZE];
	uint32_t n;

	for (;;) {
		if (l5_lock_try(&own->rx_lock, VICTIM) != 1 ||
		    l5_cons_load(&c, own))
			abort();
		if (l5_cons_peek(&c, ring_slot(&s->r.cons, c.head)) != 1)
			break;
		n = c.len - c.off < s->piece ? c.len - c.off : s->piece;
		ring_copy_out(&s->r.cons, c.head + L5_HDR + c.off, scratch, n);
		l5_cons_take(&c, own, n);
		__atomic_store_n(&s->taken, s->taken + n, __ATOMIC_RELAXED);
		l5_unlock(&own->rx_lock);
	}
	l5_unlock(&own->rx_lock);
}

static int heir_takes(struct stage *s, struct heir *h)
{
	struct l5_ctrl *own = h->r.cons.own;
	struct l5_prod p = { .tail = h->r.prod.own->tx_tail,
			     .head = s->start, .size = SIZE };
	uint64_t pos = own->rx_pos, all = 0, at = 0, head = s->start;
	struct l5_cons c = { .size = SIZE };
	unsigned int i;
	int got;

	got = l5_lock_try(&own->rx_lock, HEIR);
	if (!got)
		return __LINE__;
	h->died += got == 2;
	if (l5_cons_load(&c, own))
		return __LINE__;
	if (got == 2) {
		uint64_t old = c.head;

		l5_cons_mend(&c, own, ring_slot(&h->r.cons, c.head));
		h->mended += c.head != old;
	}
	/* what the victim's store said is what counts */
	if (c.head + c.off != pos)
		return __LINE__;
	for (i = 0; i < s->records; i++) {
		if (head < c.head)
			at += s->lens[i];
		head += l5_rec_size(s->lens[i]);
		all += s->lens[i];
	}
	at += c.off;
	/* no byte comes again once the take returned; else once at most */
	if (at < s->taken || at > s->taken + s->piece)
		return __LINE__;
	if (heir_drain(h, &c, at) != (int64_t)all)
		return __LINE__;
	if (own->rx_head != h->r.prod.own->tx_tail ||
	    own->rx_pos != own->rx_head)
		return __LINE__;
	if (l5_prod_look(&p, h->r.prod.peer) || l5_prod_used(&p))
		return __LINE__;
	return 0;
}

/*
 * Step a child through @turn and let the heir have a look after each
 * instruction. Return: line of what is wrong, or 0.
 */
static int step_through(struct stage *s, struct heir *h,
			void (*turn)(struct stage *),
			int (*heir)(struct stage *, struct heir *))
{
	int status, line = 0;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (!pid) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		turn(s);
		__atomic_store_n(&s->returned, true, __ATOMIC_SEQ_CST);
		for (;;)
			pause();
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
		return __LINE__;
	while (!line) {
		bool returned = __atomic_load_n(&s->returned, __ATOMIC_SEQ_CST);

		ring_copy(&h->r, &s->r);
		ring_owner_died(&h->r.prod.own->tx_lock, VICTIM);
		ring_owner_died(&h->r.cons.own->rx_lock, VICTIM);
		line = heir(s, h);
		h->steps++;
		if (returned)
			break;
		if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) ||
		    waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status) ||
		    WSTOPSIG(status) != SIGTRAP)
			line = __LINE__;
	}
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return line;
}

static struct stage *stage_new(bool mirror)
{
	struct stage *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (s == MAP_FAILED)
		ring_die("mmap");
	ring_new(&s->r, SIZE, mirror);
	return s;
}

TEST_F_TIMEOUT(ring_lock, die_sending, 300)
{
	static const uint32_t seconds[] = { 1, 8, 60, 2000 / RING_SLOW };
	struct heir h = { .died = 0 };
	struct stage *s;
	unsigned int i;
	int line;

	if (TSAN_BUILD)
		SKIP(return, "one thread, and nothing for this tool");
	s = stage_new(self->mirror);
	ring_new(&h.r, SIZE, self->mirror);
	for (i = 0; i < 16; i++) {
		struct l5_prod p = { .size = SIZE };
		uint8_t scratch[SIZE];

		h.far_behind = i & 1;
		h.reader_first = i & 2;
		s->lens[0] = 24;
		s->lens[1] = seconds[i / 4];
		s->lens[2] = 50;
		/* the end of the ring in the middle of it, and far from zero */
		s->start = 10 * SIZE - 64 - 8 * i;
		stage_set(s);
		p.tail = s->start;
		p.head = s->start;
		ring_put(&s->r.prod, &p, 0, s->lens[0], scratch);
		line = step_through(s, &h, victim_sends, heir_sends);
		ASSERT_EQ(0, line) {
			TH_LOG("case %u, after %lu instructions", i, h.steps);
		}
	}
	TH_LOG("%lu deaths, %lu with the lock, %lu to mend", h.steps, h.died,
	       h.mended);
	EXPECT_LT(0, h.mended);
	EXPECT_LT(h.mended, h.died);
	EXPECT_LT(h.died, h.steps);
	ring_free(&h.r);
}

TEST_F_TIMEOUT(ring_lock, die_taking, 300)
{
	static const uint32_t pieces[] = { 1, 7, 16, 4096 };
	struct heir h = { .died = 0 };
	struct stage *s;
	unsigned int i, j;
	int line;

	if (TSAN_BUILD)
		SKIP(return, "one thread, and nothing for this tool");
	s = stage_new(self->mirror);
	ring_new(&h.r, SIZE, self->mirror);
	for (i = 0; i < ARRAY_SIZE(pieces); i++) {
		struct l5_prod p = { .size = SIZE };
		uint8_t scratch[SIZE];
		uint64_t at = 0;

		s->piece = pieces[i];
		s->records = 4;
		s->lens[0] = 1;
		s->lens[1] = 16;
		s->lens[2] = 21;
		s->lens[3] = 8;
		s->start = 10 * SIZE - 40 + 8 * i;
		stage_set(s);
		p.tail = s->start;
		p.head = s->start;
		for (j = 0; j < s->records; j++) {
			ring_put(&s->r.prod, &p, at, s->lens[j], scratch);
			at += s->lens[j];
		}
		line = step_through(s, &h, victim_takes, heir_takes);
		ASSERT_EQ(0, line) {
			TH_LOG("pieces of %u, after %lu instructions",
			       s->piece, h.steps);
		}
	}
	TH_LOG("%lu deaths, %lu with the lock, %lu to mend", h.steps, h.died,
	       h.mended);
	EXPECT_LT(0, h.mended);
	EXPECT_LT(h.mended, h.died);
	EXPECT_LT(h.died, h.steps);
	ring_free(&h.r);
}

/* A word that is nearly right, or not at all. */
static uint64_t garbage(uint64_t *seed, uint64_t near)
{
	switch (l5_rnd64(seed) % 6) {
	case 0:
		return l5_rnd64(seed);
	case 1:
		return near + l5_rnd64(seed) % 64 - 32;
	case 2:
		return near + (l5_rnd64(seed) % 4 - 2) * SIZE;
	case 3:
		return near + (l5_rnd64(seed) % 1025) * 8;
	case 4:
		return near - (l5_rnd64(seed) % 1025) * 8;
	default:
		return near + (l5_rnd64(seed) % 3 - 1) * SIZE +
		       l5_rnd64(seed) % 5 * 8 - 16;
	}
}

/*
 * The own control page holds anything, and so does the slot: what comes of it
 * is -1, or cursors that stay in the ring (which has guard pages).
 */
TEST_F_TIMEOUT(ring_lock, garbage_sending, 120)
{
	unsigned long refused = 0, mended = 0, i;
	uint8_t scratch[SIZE];
	uint64_t seed = 77;
	struct ring r;

	if (TSAN_BUILD)
		SKIP(return, "one thread, and nothing for this tool");
	ring_new(&r, SIZE, self->mirror);
	for (i = 0; i < 4000000 / RING_SLOW; i++) {
		uint64_t base = (l5_rnd64(&seed) % 4) << 40;
		struct l5_prod p = { .head = garbage(&seed, base) & ~7ull,
				     .size = SIZE };
		uint64_t was = p.head, tail = garbage(&seed, base);
		uint64_t head = garbage(&seed, base);
		uint32_t room;
		bool ok;

		r.prod.own->tx_tail = tail;
		r.cons.own->rx_head = head;
		/* near what the writer knew, or near where the reader is */
		ok = !(tail & 7) && (tail - was <= SIZE ||
				     head - tail <= SIZE ||
				     (tail - head <= SIZE && !(head & 7)));
		ASSERT_EQ(ok ? 0 : -1,
			  l5_prod_load(&p, r.prod.own, r.prod.peer)) {
			TH_LOG("tail %llx knew %llx head %llx",
			       (unsigned long long)tail,
			       (unsigned long long)was,
			       (unsigned long long)head);
		}
		if (!ok) {
			refused++;
			continue;
		}
		if (l5_rnd64(&seed) % 2) {
			__u64 *slot = ring_slot(&r.prod, p.tail);

			*slot = RING_VALID(l5_rnd64(&seed) % (SIZE + 64));
			if (l5_rnd64(&seed) % 8 == 0)
				*slot = l5_rnd64(&seed);
			if (l5_prod_mend(&p, r.prod.own, r.prod.peer, slot)) {
				refused++;
				continue;
			}
			mended += p.tail != tail;
			ASSERT_EQ(p.tail, r.prod.own->tx_tail);
		}
		ASSERT_EQ(0, p.tail & 7);
		ASSERT_GE(SIZE, l5_prod_used(&p));
		room = l5_prod_room(&p);
		ASSERT_GE(l5_rec_max(SIZE), room);
		if (room && i % 16 == 0)
			ring_put(&r.prod, &p, 0, room, scratch);
		ASSERT_GE(SIZE, l5_prod_used(&p));
	}
	TH_LOG("%lu refused, %lu mended", refused, mended);
	EXPECT_LT(1000, refused);
	EXPECT_LT(1000, mended);
	ring_free(&r);
}

TEST_F_TIMEOUT(ring_lock, garbage_taking, 120)
{
	unsigned long refused = 0, mended = 0, read = 0, i;
	uint8_t scratch[SIZE];
	uint64_t seed = 78;
	struct ring r;

	if (TSAN_BUILD)
		SKIP(return, "one thread, and nothing for this tool");
	ring_new(&r, SIZE, self->mirror);
	for (i = 0; i < 4000000 / RING_SLOW; i++) {
		uint64_t base = (l5_rnd64(&seed) % 4) << 40;
		uint64_t head = garbage(&seed, base), pos, *slot;
		struct l5_cons c = { .len = 3, .off = 9, .size = SIZE };
		bool ok;
		int ret;

		pos = garbage(&seed, head);
		if (l5_rnd64(&seed) % 2)
			pos = head + l5_rnd64(&seed) % (SIZE + 64);
		r.cons.own->rx_head = head;
		r.cons.own->rx_pos = pos;
		ok = !(head & 7) && pos - head <= SIZE;
		ASSERT_EQ(ok ? 0 : -1, l5_cons_load(&c, r.cons.own));
		if (!ok) {
			refused++;
			continue;
		}
		ASSERT_EQ(head, c.head);
		ASSERT_EQ(pos - head, c.off);
		ASSERT_EQ(0, c.len);
		slot = (uint64_t *)ring_slot(&r.prod, c.head);
		*slot = RING_VALID(l5_rnd64(&seed) % 2 ? c.off + 1 :
			      l5_rnd64(&seed) % (SIZE + 64));
		if (l5_rnd64(&seed) % 4 == 0)
			*slot = RING_VALID(c.off - 8 - l5_rnd64(&seed) % 8);
		if (l5_rnd64(&seed) % 2) {
			l5_cons_mend(&c, r.cons.own,
				     ring_slot(&r.cons, c.head));
			mended += c.head != head;
			ASSERT_EQ(0, c.head & 7);
			ASSERT_EQ(c.head, r.cons.own->rx_head);
			ASSERT_EQ(c.head + c.off, pos);
		}
		ret = l5_cons_peek(&c, ring_slot(&r.cons, c.head));
		if (ret < 1) {
			refused += ret < 0;
			continue;
		}
		ASSERT_TRUE(c.len ? c.off < c.len : !c.off);
		ASSERT_GE(l5_rec_max(SIZE), c.len);
		ring_copy_out(&r.cons, c.head + L5_HDR + c.off, scratch,
			      c.len - c.off);
		l5_cons_take(&c, r.cons.own, c.len - c.off);
		read++;
	}
	TH_LOG("%lu refused, %lu mended, %lu read", refused, mended, read);
	EXPECT_LT(1000, refused);
	EXPECT_LT(1000, mended);
	EXPECT_LT(1000, read);
	ring_free(&r);
}

TEST_HARNESS_MAIN
