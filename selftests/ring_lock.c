// SPDX-License-Identifier: GPL-2.0
/*
 * Those who share an end of a ring: the lock words of uapi/l5_ring.h and the
 * cursors they guard. A holder is stopped after every single instruction, and
 * the next one has to go on exactly there; own control pages hold garbage;
 * threads and processes take turns, some of them shot.
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <linux/futex.h>

#include "kselftest_harness.h"
#include "ring_view.h"

FIXTURE(lock)
{
	bool mirror;
};

FIXTURE_VARIANT(lock)
{
	bool mirror;
};

FIXTURE_VARIANT_ADD(lock, mirror)
{
	.mirror = true,
};

FIXTURE_VARIANT_ADD(lock, flat)
{
	.mirror = false,
};

FIXTURE_SETUP(lock)
{
	ring_only(_metadata->name);
	self->mirror = variant->mirror;
}

FIXTURE_TEARDOWN(lock)
{
}

/* What the kernel does when a mapping is gone. */
static void owner_died(__u32 *word, __u32 id)
{
	__u32 old = l5_load(word);

	while ((old & L5_LOCK_ID) == id)
		if (__atomic_compare_exchange_n(word, &old,
						(old & L5_LOCK_WAITERS) |
						L5_LOCK_DIED, 0,
						__ATOMIC_SEQ_CST,
						__ATOMIC_SEQ_CST))
			break;
}

TEST_F(lock, words)
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
	owner_died(&w, 6);
	EXPECT_EQ(5 | L5_LOCK_WAITERS, w);
	owner_died(&w, 5);
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
	/* all or nothing, and all if anyone could see it */
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
	/* not taken again once the take returned; else once at the most */
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
		owner_died(&h->r.prod.own->tx_lock, VICTIM);
		owner_died(&h->r.cons.own->rx_lock, VICTIM);
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

TEST_F_TIMEOUT(lock, die_sending, 300)
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

TEST_F_TIMEOUT(lock, die_taking, 300)
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
	switch (ring_random(seed) % 6) {
	case 0:
		return ring_random(seed);
	case 1:
		return near + ring_random(seed) % 64 - 32;
	case 2:
		return near + (ring_random(seed) % 4 - 2) * SIZE;
	case 3:
		return near + (ring_random(seed) % 1025) * 8;
	case 4:
		return near - (ring_random(seed) % 1025) * 8;
	default:
		return near + (ring_random(seed) % 3 - 1) * SIZE +
		       ring_random(seed) % 5 * 8 - 16;
	}
}

/*
 * The own control page holds anything, and so does the slot: what comes of it
 * is -1, or cursors that stay in the ring (which has guard pages).
 */
TEST_F_TIMEOUT(lock, garbage_sending, 120)
{
	unsigned long refused = 0, mended = 0, i;
	uint8_t scratch[SIZE];
	uint64_t seed = 77;
	struct ring r;

	if (TSAN_BUILD)
		SKIP(return, "one thread, and nothing for this tool");
	ring_new(&r, SIZE, self->mirror);
	for (i = 0; i < 4000000 / RING_SLOW; i++) {
		uint64_t base = (ring_random(&seed) % 4) << 40;
		struct l5_prod p = { .head = garbage(&seed, base) & ~7ull,
				     .size = SIZE };
		uint64_t was = p.head, tail = garbage(&seed, base);
		uint64_t head = garbage(&seed, base);
		uint32_t room;
		bool ok;

		r.prod.own->tx_tail = tail;
		r.cons.own->rx_head = head;
		/* near what it knew, or near where the reader is */
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
		if (ring_random(&seed) % 2) {
			__u64 *slot = ring_slot(&r.prod, p.tail);

			*slot = RING_VALID(ring_random(&seed) % (SIZE + 64));
			if (ring_random(&seed) % 8 == 0)
				*slot = ring_random(&seed);
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

TEST_F_TIMEOUT(lock, garbage_taking, 120)
{
	unsigned long refused = 0, mended = 0, read = 0, i;
	uint8_t scratch[SIZE];
	uint64_t seed = 78;
	struct ring r;

	if (TSAN_BUILD)
		SKIP(return, "one thread, and nothing for this tool");
	ring_new(&r, SIZE, self->mirror);
	for (i = 0; i < 4000000 / RING_SLOW; i++) {
		uint64_t base = (ring_random(&seed) % 4) << 40;
		uint64_t head = garbage(&seed, base), pos, *slot;
		struct l5_cons c = { .len = 3, .off = 9, .size = SIZE };
		bool ok;
		int ret;

		pos = garbage(&seed, head);
		if (ring_random(&seed) % 2)
			pos = head + ring_random(&seed) % (SIZE + 64);
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
		*slot = RING_VALID(ring_random(&seed) % 2 ? c.off + 1 :
			      ring_random(&seed) % (SIZE + 64));
		if (ring_random(&seed) % 4 == 0)
			*slot = RING_VALID(c.off - 8 - ring_random(&seed) % 8);
		if (ring_random(&seed) % 2) {
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

/*
 * Several at both ends. Each sending thread numbers its records; whoever takes
 * one knows what has to come from that thread. What a process keeps for its
 * threads, and what the receivers note here, is guarded by nothing but the lock
 * word.
 */
#define MAX_UIDS	8192
#define THREADS		2
#define LOST_S		20

struct record {
	uint32_t uid;
	uint32_t seq;
	uint32_t len;
};

/* A take: from where to where, and whether it returned. */
struct step {
	uint64_t start;
	uint64_t end;
	uint64_t done;
};

struct team {
	struct ring r;
	unsigned int data, room;	/* futexes: the two doorbells, */
	unsigned int queue[2];		/* and L5_IOC_LOCK */
	uint32_t uids;
	uint32_t stop;			/* no more records */
	uint32_t finished;		/* and none on the way */
	bool dawdle;
	/* under rx_lock */
	struct step step[2];
	uint32_t last_step;
	uint32_t want[MAX_UIDS];	/* the next from each thread */
	uint64_t where[MAX_UIDS];	/* position of the last */
	/* by the senders */
	uint32_t sent[MAX_UIDS];	/* sends that returned */
	/* what went wrong */
	uint32_t lost, broken, wrong, twice, order;
	uint32_t died, mended, slept;
};

/* A process of it. */
struct member {
	struct team *team;
	bool sends;
	uint32_t id;
	struct l5_prod p;
	struct l5_cons c;
};

#define count(word)	__atomic_fetch_add(&(word), 1, __ATOMIC_RELAXED)
#define is_set(word)	__atomic_load_n(&(word), __ATOMIC_RELAXED)

static void team_wake(unsigned int *futex)
{
	count(*futex);
	syscall(SYS_futex, futex, FUTEX_WAKE, INT_MAX, NULL);
}

static void team_sleep(struct team *t, unsigned int *futex, unsigned int seen)
{
	struct timespec limit = { .tv_sec = LOST_S };

	count(t->slept);
	if (syscall(SYS_futex, futex, FUTEX_WAIT, seen, &limit) &&
	    errno == ETIMEDOUT)
		count(t->lost);
}

static __u32 *team_word(struct team *t, int dir)
{
	return dir ? &t->r.cons.own->rx_lock : &t->r.prod.own->tx_lock;
}

/* Return: false if the cursors make no sense. */
static bool team_lock(struct member *m, int dir)
{
	struct team *t = m->team;
	__u32 *word = team_word(t, dir), old;
	unsigned int i, seen;
	int got;

	for (i = 0; !(got = l5_lock_try(word, m->id)); i++) {
		if (i % 64) {
			sched_yield();
			continue;
		}
		/* L5_IOC_LOCK */
		seen = __atomic_load_n(&t->queue[dir], __ATOMIC_SEQ_CST);
		old = l5_load(word);
		if (old & L5_LOCK_ID &&
		    l5_cmpxchg(word, old, old | L5_LOCK_WAITERS))
			team_sleep(t, &t->queue[dir], seen);
	}
	if (got == 2)
		count(t->died);
	if (!dir) {
		uint64_t tail;

		if (l5_prod_load(&m->p, t->r.prod.own, t->r.prod.peer))
			return false;
		tail = m->p.tail;
		if (got == 2 &&
		    l5_prod_mend(&m->p, t->r.prod.own, t->r.prod.peer,
				 ring_slot(&t->r.prod, m->p.tail)))
			return false;
		if (tail != m->p.tail)
			count(t->mended);
	} else {
		uint64_t head;

		if (l5_cons_load(&m->c, t->r.cons.own))
			return false;
		head = m->c.head;
		if (got == 2)
			l5_cons_mend(&m->c, t->r.cons.own,
				     ring_slot(&t->r.cons, m->c.head));
		if (head != m->c.head)
			count(t->mended);
	}
	return true;
}

static void team_unlock(struct team *t, int dir)
{
	if (l5_unlock(team_word(t, dir)))
		team_wake(&t->queue[dir]);
}

/* A chance to be killed with the lock held. */
static void dawdle(struct team *t, uint64_t *seed)
{
	if (t->dawdle && ring_random(seed) % 256 == 0)
		usleep(ring_random(seed) % 1000);
}

static uint8_t record_byte(const struct record *rec, uint32_t i)
{
	return ring_byte(rec->uid * 0x10001ull + rec->seq * 257ull + i);
}

static void *team_send(void *arg)
{
	struct member *m = arg;
	struct team *t = m->team;
	struct view *v = &t->r.prod;
	uint8_t scratch[SIZE];
	struct record rec = { .uid = count(t->uids) };
	uint64_t seed = rec.uid * 0x9e3779b97f4a7c15ull + 1;
	uint32_t i;

	if (rec.uid >= MAX_UIDS)
		return NULL;
	while (!is_set(t->stop)) {
		rec.len = sizeof(rec) + ring_random(&seed) % 600;
		memcpy(scratch, &rec, sizeof(rec));
		for (i = sizeof(rec); i < rec.len; i++)
			scratch[i] = record_byte(&rec, i);
again:
		if (!team_lock(m, 0))
			goto broken;
		if (l5_prod_room(&m->p) < rec.len &&
		    l5_prod_look(&m->p, v->peer))
			goto broken;
		if (l5_prod_room(&m->p) < rec.len) {
			unsigned int seen;

			team_unlock(t, 0);
			seen = __atomic_load_n(&t->room, __ATOMIC_SEQ_CST);
			l5_wait_arm(&v->own->tx_wait);
			if ((int64_t)(l5_load(&v->own->tx_tail) -
				      l5_load(&v->peer->rx_head)) > SIZE / 2)
				team_sleep(t, &t->room, seen);
			goto again;
		}
		dawdle(t, &seed);
		ring_copy_in(v, m->p.tail + L5_HDR, scratch, rec.len);
		l5_prod_publish(&m->p, v->own, ring_slot(v, m->p.tail),
				ring_slot(v, m->p.tail + l5_rec_size(rec.len)),
				rec.len);
		dawdle(t, &seed);
		team_unlock(t, 0);
		/* F was the unlock */
		if (l5_load(&v->peer->rx_wait)) {
			l5_wait_clear(&t->r.cons.own->rx_wait);
			team_wake(&t->data);
		}
		rec.seq++;
		__atomic_store_n(&t->sent[rec.uid], rec.seq, __ATOMIC_RELAXED);
	}
	return NULL;
broken:
	count(t->broken);
	return NULL;
}

/* The record the cursors are in: is the piece right, and its turn? */
static bool team_check(struct team *t, const struct l5_cons *c, uint32_t n)
{
	const struct step *last = &t->step[t->last_step % 2];
	struct step *step = &t->step[(t->last_step + 1) % 2];
	uint64_t pos = c->head + c->off;
	uint8_t scratch[SIZE];
	struct record rec;
	uint32_t i;

	/* where the last take ended, or began if it did not return */
	if (pos != last->end && (last->done || pos != last->start)) {
		count(t->twice);
		return false;
	}
	ring_copy_out(&t->r.cons, c->head + L5_HDR, (uint8_t *)&rec,
		      sizeof(rec));
	ring_copy_out(&t->r.cons, c->head + L5_HDR + c->off, scratch, n);
	if (rec.uid >= MAX_UIDS || rec.len != c->len) {
		count(t->wrong);
		return false;
	}
	for (i = 0; i < n; i++) {
		if (c->off + i >= sizeof(rec) &&
		    scratch[i] != record_byte(&rec, c->off + i)) {
			count(t->wrong);
			return false;
		}
	}
	if (c->off + n == c->len) {
		/* a record whose taker died comes again to the next one */
		if (rec.seq != t->want[rec.uid] &&
		    (rec.seq + 1 != t->want[rec.uid] ||
		     t->where[rec.uid] != c->head)) {
			count(t->order);
			return false;
		}
		l5_store(&t->where[rec.uid], c->head);
		l5_store(&t->want[rec.uid], rec.seq + 1);
	}
	step->done = 0;
	step->start = pos;
	step->end = c->off + n == c->len ? c->head + l5_rec_size(c->len) :
					   pos + n;
	/* the compiler too: we may be killed anywhere */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	l5_store(&t->last_step, t->last_step + 1);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return true;
}

/*
 * Is anything there? Without the lock, as who waits does: the head may be that
 * of a moment ago, and its place be payload by now. Such a look decides
 * nothing, since what was written there is published after the wait word was
 * armed. No race detector can know that.
 */
static bool __attribute__((noinline, no_sanitize("thread")))
team_glance(const struct view *v)
{
	return l5_load(ring_slot(v, l5_load(&v->own->rx_head)));
}

static void *team_take(void *arg)
{
	struct member *m = arg;
	struct team *t = m->team;
	struct view *v = &t->r.cons;
	uint64_t seed = (uintptr_t)&seed + m->id;

	for (;;) {
		bool over = is_set(t->finished);
		unsigned int seen;
		uint64_t head;
		uint32_t n;
		int ret;

		if (!team_lock(m, 1))
			break;
		ret = l5_cons_peek(&m->c, ring_slot(v, m->c.head));
		if (ret < 0)
			break;
		if (!ret) {
			team_unlock(t, 1);
			if (over)
				return NULL;
			seen = __atomic_load_n(&t->data, __ATOMIC_SEQ_CST);
			l5_wait_arm(&v->own->rx_wait);
			if (!team_glance(v) && !is_set(t->finished))
				team_sleep(t, &t->data, seen);
			continue;
		}
		n = m->c.len - m->c.off;
		if (n > 1 && ring_random(&seed) % 2)
			n = 1 + ring_random(&seed) % n;
		if (!team_check(t, &m->c, n))
			break;
		dawdle(t, &seed);
		l5_cons_take(&m->c, v->own, n);
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		dawdle(t, &seed);
		t->step[t->last_step % 2].done = 1;
		head = m->c.head;
		team_unlock(t, 1);
		if (l5_load(&v->peer->tx_wait) &&
		    (int64_t)(l5_load(&v->peer->tx_tail) - head) <= SIZE / 2) {
			l5_wait_clear(&t->r.prod.own->tx_wait);
			team_wake(&t->room);
		}
	}
	/* the lock stays taken: nobody goes on from here */
	count(t->broken);
	__atomic_store_n(&t->stop, 1, __ATOMIC_RELAXED);
	return NULL;
}

static struct team *team_new(bool mirror)
{
	struct team *t = mmap(NULL, sizeof(*t), PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (t == MAP_FAILED)
		ring_die("mmap");
	ring_new(&t->r, SIZE, mirror);
	return t;
}

static void member_init(struct member *m, struct team *t, uint32_t id,
			bool sends)
{
	memset(m, 0, sizeof(*m));
	m->team = t;
	m->id = id;
	m->sends = sends;
	m->p.size = SIZE;
	m->c.size = SIZE;
}

static void member_start(struct member *m, pthread_t *threads)
{
	int i;

	for (i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL,
				   m->sends ? team_send : team_take, m))
			ring_die("pthread_create");
}

static void member_join(pthread_t *threads)
{
	int i;

	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

static void team_judge(struct __test_metadata *_metadata, struct team *t,
		       bool killed)
{
	uint32_t uids = t->uids < MAX_UIDS ? t->uids : MAX_UIDS, i;
	unsigned long records = 0, more = 0, less = 0;

	for (i = 0; i < uids; i++) {
		records += t->want[i];
		/* published, but the sender did not live to know */
		more += t->want[i] == t->sent[i] + 1;
		less += t->want[i] != t->sent[i] &&
			t->want[i] != t->sent[i] + 1;
	}
	TH_LOG("%lu records of %u threads, %u dead with the lock, %u mended, slept %u",
	       records, uids, t->died, t->mended, t->slept);
	EXPECT_EQ(0, t->lost);
	EXPECT_EQ(0, t->broken);
	EXPECT_EQ(0, t->wrong);
	EXPECT_EQ(0, t->twice);
	EXPECT_EQ(0, t->order);
	EXPECT_EQ(0, less);
	if (!killed)
		EXPECT_EQ(0, more);
	EXPECT_LT(1000, records);
	EXPECT_EQ(t->r.prod.own->tx_tail, t->r.cons.own->rx_head);
}

/* Threads of one process an end; what they share is plain memory. */
TEST_F_TIMEOUT(lock, threads, 120)
{
	pthread_t senders[THREADS], takers[THREADS];
	struct member send, take;
	struct team *t;

	if (TSAN_BUILD && self->mirror)
		SKIP(return, "pages have two addresses here");
	t = team_new(self->mirror);
	member_init(&send, t, 1, true);
	member_init(&take, t, 1, false);
	member_start(&take, takers);
	member_start(&send, senders);
	sleep(1);
	__atomic_store_n(&t->stop, 1, __ATOMIC_RELAXED);
	member_join(senders);
	__atomic_store_n(&t->finished, 1, __ATOMIC_RELAXED);
	team_wake(&t->data);
	member_join(takers);
	team_judge(_metadata, t, false);
	EXPECT_EQ(0, t->died);
	ring_free(&t->r);
}

#define MEMBERS		5	/* the first three send */

static pid_t member_fork(struct team *t, unsigned int i, uint32_t id)
{
	pthread_t threads[THREADS];
	struct member m;
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	member_init(&m, t, id, i < 3);
	member_start(&m, threads);
	member_join(threads);
	_exit(0);
}

/* The kernel's part in a death. */
static void member_died(struct team *t, uint32_t id)
{
	int dir;

	for (dir = 0; dir < 2; dir++) {
		owner_died(team_word(t, dir), id);
		team_wake(&t->queue[dir]);
	}
	/* it may have been about to ring */
	l5_wait_clear(&t->r.cons.own->rx_wait);
	team_wake(&t->data);
	l5_wait_clear(&t->r.prod.own->tx_wait);
	team_wake(&t->room);
}

/*
 * Processes with several threads each, any of which is killed at any time and
 * followed by a new one.
 */
TEST_F_TIMEOUT(lock, kill, 120)
{
	pid_t pids[MEMBERS];
	uint32_t ids[MEMBERS], id = 0;
	uint32_t i, kills = 0;
	uint64_t seed = 1234;
	struct team *t;
	int status;
	double end;

	if (TSAN_BUILD)
		SKIP(return, "it does not see into other processes");
	t = team_new(self->mirror);
	t->dawdle = true;
	fflush(NULL);
	for (i = 0; i < MEMBERS; i++) {
		ids[i] = ++id;
		pids[i] = member_fork(t, i, ids[i]);
		ASSERT_LT(0, pids[i]);
	}
	/* on a busy machine until it was about something */
	for (end = ring_now() + 3; kills < 1500; kills++) {
		if (ring_now() > end && (is_set(t->died) >= 20 ||
					 ring_now() > end + 60))
			break;
		usleep(200 + ring_random(&seed) % 4000);
		i = ring_random(&seed) % MEMBERS;
		ASSERT_EQ(0, kill(pids[i], SIGKILL));
		ASSERT_EQ(pids[i], waitpid(pids[i], &status, 0));
		member_died(t, ids[i]);
		/* unless it found something wrong and ended by itself */
		if (t->broken)
			break;
		ids[i] = ++id;
		pids[i] = member_fork(t, i, ids[i]);
		ASSERT_LT(0, pids[i]);
	}
	__atomic_store_n(&t->stop, 1, __ATOMIC_RELAXED);
	for (i = 0; i < MEMBERS; i++) {
		if (i == 3) {
			__atomic_store_n(&t->finished, 1, __ATOMIC_RELAXED);
			team_wake(&t->data);
		}
		if (t->broken)
			kill(pids[i], SIGKILL);
		waitpid(pids[i], &status, 0);
		if (!t->broken)
			EXPECT_EQ(0, status);
	}
	TH_LOG("%u killed", kills);
	team_judge(_metadata, t, true);
	EXPECT_LT(10, t->died);
	ring_free(&t->r);
}

TEST_HARNESS_MAIN
