// SPDX-License-Identifier: GPL-2.0
/*
 * Mapped rings whose users die inside, are interrupted there, touch memory that
 * is not theirs, or write what they like. Without AF_L5, as map.c.
 */
#include <errno.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "hole.h"
#include "native_ends.h"

RINGS_FIXTURE(unit_hurt)

/* A holder dies at each place where it matters, and the next one goes on. */
#define DEAD_HDR	((__u64)L5_REC_VALID << 32 | strlen("dead"))

TEST_F(unit_hurt, died_sending)
{
	struct l5_map *m;
	char buf[100];
	int status, at;
	__u64 *slot;
	pid_t pid;

	for (at = 0; at < 3; at++) {
		fflush(NULL);
		pid = fork();
		if (!pid) {
			m = l5_native_map(self->k, 0, 2);
			if (l5_lock_try(&m->own->tx_lock, 2) != 1 ||
			    l5_prod_load(&m->prod, m->own, m->peer))
				_exit(1);
			slot = l5_map_tx_slot(m, m->prod.tail);
			memcpy(slot + 1, "dead", 4);
			l5_store(l5_map_tx_slot(m, m->prod.tail + 16), 0);
			if (at > 0)
				l5_store_release(slot, DEAD_HDR);
			if (at > 1)
				l5_store(&m->own->tx_tail, m->prod.tail + 16);
			kill(getpid(), SIGKILL);
		}
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		ASSERT_TRUE(WIFSIGNALED(status));
		/* before and after the reader took it */
		if (at == 1)
			ASSERT_EQ(4, l5_map_recv1(self->b, -1, buf, 100));
		l5_native_died(self->k, 0, 2);
		ASSERT_EQ(4, l5_map_send1(self->a, -1, "next", 4));
		ASSERT_EQ(at == 2 ? 8 : 4,
			  l5_map_recv1(self->b, -1, buf, 100));
		EXPECT_EQ(0, memcmp(buf, at == 2 ? "deadnext" : "next",
				    at == 2 ? 8 : 4));
		EXPECT_EQ(0, self->k->ctrl[0]->tx_lock);
	}
}

TEST_F(unit_hurt, died_receiving)
{
	struct l5_map *m;
	char buf[100];
	int status, at;
	pid_t pid;

	for (at = 0; at < 3; at++) {
		ASSERT_EQ(4, l5_map_send1(self->a, -1, "old ", 4));
		ASSERT_EQ(4, l5_map_send1(self->a, -1, "next", 4));
		fflush(NULL);
		pid = fork();
		if (!pid) {
			m = l5_native_map(self->k, 1, 2);
			if (l5_lock_try(&m->own->rx_lock, 2) != 1 ||
			    l5_cons_load(&m->cons, m->own))
				_exit(1);
			/* nothing; half of it; all but the head */
			l5_store(&m->own->rx_pos, m->cons.head +
				 (at == 0 ? 0 : at == 1 ? 2 : 16));
			kill(getpid(), SIGKILL);
		}
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		ASSERT_TRUE(WIFSIGNALED(status));
		l5_native_died(self->k, 1, 2);
		ASSERT_EQ(at == 0 ? 8 : at == 1 ? 6 : 4,
			  l5_map_recv1(self->b, -1, buf, 100));
		EXPECT_EQ(0, memcmp(buf, "old next" + (at * 2), 4));
		EXPECT_EQ(0, self->k->ctrl[1]->rx_lock);
	}
}

/* Dying anywhere at all: whole messages come through, from those left. */
TEST_F_TIMEOUT(unit_hurt, killed, 300)
{
	uint64_t seed = 4711, n, last, notes = 0, lost = 0;
	struct note note;
	uint32_t id = 2;
	struct l5_map *m;
	int round, status;
	pid_t pid;

	for (round = 0; round < 400 / slow() + 8; round++, id++) {
		fflush(NULL);
		pid = fork();
		if (!pid) {
			m = l5_native_map(self->k, 0, id);
			for (note.n = 1;; note.n++) {
				note.who = id;
				l5_fill(note.body, sizeof(note.body), note.n);
				l5_native_send(m, &note, sizeof(note));
			}
		}
		last = 0;
		for (n = l5_rnd(&seed) % 3000 / slow() + 1; n; n--) {
			ASSERT_TRUE(l5_native_recv(self->b, &note,
						   sizeof(note)));
			ASSERT_EQ(id, note.who);
			ASSERT_EQ(++last, note.n);
		}
		kill(pid, SIGKILL);
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		lost += !!(self->k->ctrl[0]->tx_lock & L5_LOCK_ID);
		l5_native_died(self->k, 0, id);
		note.who = 1;
		note.n = round;
		/* the ring may be full of what the dead left */
		while (l5_map_send1(self->a, -1, &note, sizeof(note)) < 0) {
			ASSERT_TRUE(l5_native_recv(self->b, &note,
						   sizeof(note)));
			ASSERT_EQ(++last, note.n);
			note.who = 1;
			note.n = round;
		}
		for (;;) {
			ASSERT_TRUE(l5_native_recv(self->b, &note,
						   sizeof(note)));
			notes++;
			if (note.who == 1)
				break;
			ASSERT_EQ(id, note.who);
			ASSERT_EQ(++last, note.n);
			ASSERT_EQ(0, wrong(note.body, sizeof(note.body),
					   note.n));
		}
		ASSERT_EQ(round, note.n);
	}
	TH_LOG("%llu of %d died with the lock", (unsigned long long)lost,
	       round);
}

/*
 * Signals in the middle of a copy: the buffer cannot be touched, so that is
 * where the handler comes.
 */
static struct {
	struct l5_map *m;
	bool rx;
	bool jump;
	void *page;
	ssize_t nested;
	sigjmp_buf env;
} fault;

static void on_fault(int sig)
{
	char c;

	(void)sig;
	fault.nested = fault.rx ? l5_map_recv1(fault.m, -1, &c, 1) :
				  l5_map_send1(fault.m, -1, "nested", 6);
	if (fault.jump)
		siglongjmp(fault.env, 1);
	mprotect(fault.page, 4096, PROT_READ | PROT_WRITE);
}

/*
 * Where the handler runs; ABOVE is further up than what it interrupts, and the
 * kernel does not say to it that it is an alternate stack.
 */
enum stack { SAME, OTHER, ABOVE, STACKS };

enum { STACK = 65536 };

/* linux/signal.h does not go with signal.h */
#ifndef SS_AUTODISARM
#define SS_AUTODISARM	0x80000000U
#endif

static void fault_init(struct l5_map *m, bool rx, bool jump, enum stack where,
		       uint8_t *above)
{
	static uint8_t stack[STACK];
	const stack_t ss = {
		.ss_sp = where == ABOVE ? above : stack,
		.ss_size = STACK,
		.ss_flags = where == SAME ? SS_DISABLE :
			    where == ABOVE ? SS_AUTODISARM : 0,
	};
	const struct sigaction sa = {
		.sa_handler = on_fault,
		.sa_flags = SA_NODEFER | (where != SAME ? SA_ONSTACK : 0),
	};

	sigaltstack(&ss, NULL);
	sigaction(SIGSEGV, &sa, NULL);
	if (!fault.page)
		fault.page = mmap(NULL, 4096, PROT_NONE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mprotect(fault.page, 4096, PROT_NONE);
	fault.m = m;
	fault.rx = rx;
	fault.jump = jump;
	fault.nested = 0;
}

TEST_F(unit_hurt, handler_returns)
{
	uint8_t above[STACK];
	char buf[1000];
	int other;

	if (getenv("L5_VALGRIND"))
		SKIP(return, "those faults are meant to be");
	for (other = 0; other < STACKS; other++) {
		fault_init(self->a, false, false, other, above);
		EXPECT_EQ(600, l5_map_send1(self->a, -1, fault.page, 600));
		EXPECT_EQ(L5_TRY_NESTED, fault.nested);
		fault_init(self->a, false, false, other, above);
		EXPECT_EQ(60, l5_map_send1(self->a, -1, fault.page, 60));
		EXPECT_EQ(L5_TRY_NESTED, fault.nested);
		fault_init(self->b, true, false, other, above);
		EXPECT_EQ(660, l5_map_recv1(self->b, -1, fault.page, 1000));
		EXPECT_EQ(L5_TRY_NESTED, fault.nested);
		/* the other direction is free */
		fault_init(self->b, false, false, other, above);
		ASSERT_EQ(60, l5_map_send1(self->a, -1, buf, 60));
		EXPECT_EQ(60, l5_map_recv1(self->b, -1, fault.page, 60));
		EXPECT_EQ(6, fault.nested);
		EXPECT_EQ(6, l5_map_recv1(self->a, -1, buf, 10));
		EXPECT_EQ(0, l5_held.n + l5_held.now.key);
	}
}

TEST_F(unit_hurt, handler_jumps)
{
	volatile int other, i;
	uint8_t above[STACK];
	char buf[1000];

	if (getenv("L5_VALGRIND"))
		SKIP(return, "those faults are meant to be");
	for (other = 0; other < STACKS; other++) {
		for (i = 0; i < 20; i++) {
			fault_init(self->a, false, true, other, above);
			if (!sigsetjmp(fault.env, 1)) {
				l5_map_send1(self->a, -1, fault.page,
					     i & 1 ? 600 : 60);
				ASSERT_TRUE(false);
			}
			EXPECT_EQ(L5_TRY_NESTED, fault.nested);
			EXPECT_NE(0, self->k->ctrl[0]->tx_lock);
			ASSERT_EQ(5, l5_map_send1(self->a, -1, "after", 5));
			EXPECT_EQ(0, self->k->ctrl[0]->tx_lock);

			fault_init(self->b, true, true, other, above);
			if (!sigsetjmp(fault.env, 1)) {
				l5_map_recv1(self->b, -1, fault.page, 5);
				ASSERT_TRUE(false);
			}
			EXPECT_EQ(L5_TRY_NESTED, fault.nested);
			ASSERT_EQ(5, l5_map_recv1(self->b, -1, buf, 1000));
			EXPECT_EQ(0, memcmp(buf, "after", 5));
		}
	}
}

/* Signals at any time, in handlers that send, too. */
static struct l5_map *tick_map;
static uint64_t tick_sent, tick_nested;

static void on_tick(int sig)
{
	int saved = errno;
	ssize_t n;

	(void)sig;
	n = l5_map_send1(tick_map, -1, "tick", 4);
	if (n == 4)
		tick_sent++;
	else if (n == L5_TRY_NESTED)
		tick_nested++;
	errno = saved;
}

TEST_F_TIMEOUT(unit_hurt, handler_any_time, 60)
{
	const struct itimerspec every = {
		.it_interval.tv_nsec = 50000,
		.it_value.tv_nsec = 50000,
	};
	struct sigevent ev = {
		.sigev_notify = SIGEV_SIGNAL,
		.sigev_signo = SIGALRM,
	};
	uint64_t i, sent = 0, ticks = 0, mine = 0;
	char buf[SIZE];
	ssize_t n, k;
	timer_t timer;

	tick_map = self->a;
	signal(SIGALRM, on_tick);
	ASSERT_EQ(0, timer_create(CLOCK_MONOTONIC, &ev, &timer));
	ASSERT_EQ(0, timer_settime(timer, 0, &every, NULL));
	for (i = 0; i < 3000000u / slow() / slow(); i++) {
		n = l5_map_send1(self->a, -1, "main", 4);
		ASSERT_TRUE(n == 4 || n == L5_TRY_AGAIN);
		sent += n == 4;
		if (i % 16)
			continue;
		do {
			n = l5_map_recv1(self->b, -1, buf, sizeof(buf));
			for (k = 0; k < n; k += 4) {
				mine += !memcmp(buf + k, "main", 4);
				ticks += !memcmp(buf + k, "tick", 4);
			}
		} while (n > 0);
	}
	timer_delete(timer);
	signal(SIGALRM, SIG_IGN);
	while ((n = l5_map_recv1(self->b, -1, buf, sizeof(buf))) > 0)
		for (k = 0; k < n; k += 4) {
			mine += !memcmp(buf + k, "main", 4);
			ticks += !memcmp(buf + k, "tick", 4);
		}
	EXPECT_EQ(sent, mine);
	EXPECT_EQ(tick_sent, ticks);
	EXPECT_EQ(0, l5_held.n + l5_held.now.key);
	TH_LOG("%llu ticks sent, %llu met their own thread",
	       (unsigned long long)tick_sent, (unsigned long long)tick_nested);
}

/* A peer that writes what it likes, wherever it can. */
static void *scribble(void *arg)
{
	struct l5_native *k = arg;
	uint64_t seed = 99, word, pos;
	uint64_t *ctrl = (uint64_t *)k->ctrl[1];
	uint64_t *data = (uint64_t *)k->data[1];

	while (!l5_load(&k->state[1]->generation)) {
		pos = l5_load(&k->ctrl[0]->rx_head);
		switch (l5_rnd(&seed) % 4) {
		case 0:
			word = (uint64_t)L5_REC_VALID << 32 |
			       l5_rnd(&seed) % (SIZE + 9);
			break;
		case 1:
			word = l5_rnd(&seed) % 64 * 8;
			break;
		case 2:
			word = pos + l5_rnd(&seed) % 64 * 8 - 256;
			break;
		default:
			word = l5_rnd(&seed) * 0x100000001ull;
		}
		if (l5_rnd(&seed) % 2)
			l5_store(&data[(pos & (SIZE - 1)) / 8], word);
		l5_store(&data[l5_rnd(&seed) % (SIZE / 8)], word);
		l5_store(&ctrl[l5_rnd(&seed) % (sizeof(struct l5_ctrl) / 8)],
			 word);
	}
	return NULL;
}

TEST_F_TIMEOUT(unit_hurt, hostile, 60)
{
	uint64_t moved = 0, broken = 0;
	uint8_t buf[2 * SIZE];
	struct timespec t;
	const void *p;
	time_t end;
	pthread_t th;
	void *q;
	ssize_t n;
	int i;

	if (L5_MAP_FLAT)
		SKIP(return, "that is a data race, and meant to be");
	clock_gettime(CLOCK_MONOTONIC, &t);
	end = t.tv_sec + 3;
	ASSERT_EQ(0, pthread_create(&th, NULL, scribble, self->k));
	/* valgrind runs a thread at a time, and the other may have to wait */
	for (i = 0; t.tv_sec < end ||
	     (!(moved && broken) && t.tv_sec < end + 40); i++) {
		switch (i % 8) {
		case 0:
			n = l5_map_send1(self->a, -1, buf, 64);
			break;
		case 1:
			n = l5_map_send1(self->a, -1, buf, sizeof(buf));
			break;
		case 2:
			n = l5_map_reserve(self->a, -1, &q, sizeof(buf));
			if (n > 0) {
				memset(q, 1, n);
				l5_map_commit(self->a, -1, n);
			}
			break;
		case 3:
			n = l5_map_recv1(self->a, -1, buf, sizeof(buf));
			break;
		case 4:
			n = l5_map_recv1(self->a, -1, buf, 64);
			break;
		case 5:
			n = l5_map_tryrecv(self->a, -1, &(struct iovec){
					   buf, sizeof(buf) }, 1, L5_TRY_PEEK);
			break;
		case 6:
			n = l5_map_peek(self->a, -1, &p);
			if (n > 0) {
				memcpy(buf, p, n);
				l5_map_release(self->a, -1, n);
			}
			break;
		default:
			n = l5_map_readable(self->a) + l5_map_writable(self->a);
			clock_gettime(CLOCK_MONOTONIC, &t);
		}
		ASSERT_LE(n, (ssize_t)sizeof(buf));
		moved += n > 0;
		broken += n == L5_TRY_BROKEN;
		/* as if it were not for that */
		__atomic_store_n(&self->k->state[0]->flags, 0,
				 __ATOMIC_RELAXED);
	}
	l5_store(&self->k->state[1]->generation, 1);
	ASSERT_EQ(0, pthread_join(th, NULL));
	EXPECT_LT(0, moved);
	EXPECT_LT(0, broken);
	EXPECT_EQ(0, l5_held.n + l5_held.now.key);
}

struct stalled {
	struct l5_map *m;
	void *hole;
	ssize_t sent;
};

static void *stalled_main(void *arg)
{
	struct stalled *t = arg;
	struct iovec v = { .iov_base = t->hole, .iov_len = 2 * SIZE };

	t->sent = l5_map_trysend(t->m, -1, &v, 1);
	return NULL;
}

static void not_yet_told(struct l5_map *m, int fd)
{
	(void)m;
	(void)fd;
}

/*
 * A lock word that a co-holder has forged is had by two threads. The one that
 * finds nonsense leaves the other's cursors alone: that one was asleep in the
 * middle of a copy, and then wrote past the ring. It did so if the kernel had
 * not been told of the nonsense yet.
 */
TEST_F(unit_hurt, two_have_a_word)
{
	struct stalled t = { .m = self->a };
	struct uffdio_zeropage zero = { };
	struct l5_map_ops ops = *self->a->ops;
	struct l5_ctrl *own = self->a->own;
	struct uffd_msg msg;
	pthread_t thread;
	int uffd;

	ops.broken = not_yet_told;
	self->a->ops = &ops;
	t.hole = hole_map(2 * SIZE, &uffd);
	if (!t.hole)
		SKIP(return, "no userfaultfd here");
	ASSERT_EQ(0, pthread_create(&thread, NULL, stalled_main, &t));
	ASSERT_EQ(sizeof(msg), read(uffd, &msg, sizeof(msg)));
	l5_store(&own->tx_lock, 0);
	l5_store(&own->tx_tail, 1 << 20);
	EXPECT_EQ(L5_TRY_BROKEN, l5_map_send1(self->a, -1, "x", 1));
	zero.range.start = (uintptr_t)t.hole;
	zero.range.len = 2 * SIZE;
	ASSERT_EQ(0, ioctl(uffd, UFFDIO_ZEROPAGE, &zero));
	pthread_join(thread, NULL);
	/* one ring full, and no more */
	EXPECT_EQ(l5_rec_max(SIZE), t.sent);
	close(uffd);
	munmap(t.hole, 2 * SIZE);
}

TEST_HARNESS_MAIN
