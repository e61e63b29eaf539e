// SPDX-License-Identifier: GPL-2.0
/*
 * The threads and processes that share an end of a ring take turns by the lock
 * words of uapi/l5_ring.h; some of them are shot.
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <linux/futex.h>

#include "kselftest_harness.h"
#include "ring_view.h"

RING_FIXTURE(ring_team)

/*
 * Death at any instruction. A child runs a whole turn one instruction at a
 * time. After each, what it shares is copied: that is what it would leave if
 * it were killed there. In the copy the next holder takes over.
 */
#define SIZE		4096u
#define VICTIM		7
#define HEIR		8

/*
 * Several at both ends. Each sending thread numbers its records; a thread that
 * takes one knows what has to come from that thread. What a process keeps for
 * its threads, and what the receivers note here, is guarded by nothing but the
 * lock word.
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
	if (t->dawdle && l5_rnd64(seed) % 256 == 0)
		usleep(l5_rnd64(seed) % 1000);
}

static uint8_t record_byte(const struct record *rec, uint32_t i)
{
	return l5_byte(rec->uid * 0x10001ull + rec->seq * 257ull + i);
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
		rec.len = sizeof(rec) + l5_rnd64(&seed) % 600;
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

/* The record that the cursors are in: is the piece right, and its turn? */
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
 * Is anything there? Without the lock, as a thread that waits does: the head
 * may be that of a moment ago, and its place be payload by now. Such a look
 * decides nothing, since what was written there is published after the wait
 * word was armed. No race detector can know that.
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
		if (n > 1 && l5_rnd64(&seed) % 2)
			n = 1 + l5_rnd64(&seed) % n;
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
	/* the lock stays taken: no thread goes on from here */
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
TEST_F_TIMEOUT(ring_team, threads, 120)
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
		ring_owner_died(team_word(t, dir), id);
		team_wake(&t->queue[dir]);
	}
	/* the dead process may have been about to ring */
	l5_wait_clear(&t->r.cons.own->rx_wait);
	team_wake(&t->data);
	l5_wait_clear(&t->r.prod.own->tx_wait);
	team_wake(&t->room);
}

/*
 * Processes with several threads each, any of which is killed at any time and
 * followed by a new one.
 */
TEST_F_TIMEOUT(ring_team, kill, 120)
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
		usleep(200 + l5_rnd64(&seed) % 4000);
		i = l5_rnd64(&seed) % MEMBERS;
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
