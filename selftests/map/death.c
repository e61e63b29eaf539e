// SPDX-License-Identifier: GPL-2.0
/*
 * Lock words in the hands of processes that die, stop or forget. The others of
 * that end and the peer go on, byte-exact for what returned, or get an error;
 * no system call waits for a process that it could not be kept from by a
 * signal.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <linux/sockios.h>

#include "kselftest_harness.h"
#include "lock.h"
#include "map_pair.h"
#include "signals.h"

MAP_PAIR_FIXTURE(map_death, 16)

/* Where a holder stops, as l5_ring.h has the steps. */
enum step {
	TX_LOCKED,		/* nothing done */
	TX_COPIED,		/* payload is there, no header */
	TX_PUBLISHED,		/* header, but the tail is the old one */
	TX_TAIL,		/* all done but the unlocking */
	TX_NO_WAKE,		/* unlocked, but the waiters not told */
	TX_NO_BELL,		/* unlocked, doorbell not rung */
	RX_LOCKED,
	RX_PART,		/* took a part of the record */
	RX_MOVED,		/* rx_pos is at the next record, rx_head not */
	RX_HEAD,		/* all done but the unlocking */
	RX_NO_WAKE,
	RX_NO_BELL,
	STEP_MAX
};

static const char *const step_name[] = {
	"tx locked", "tx copied", "tx published", "tx tail", "tx no wake",
	"tx no bell", "rx locked", "rx part", "rx moved", "rx head",
	"rx no wake", "rx no bell"
};

#define FIRST		100	/* bytes before the holder comes */
#define HELD		50	/* bytes of the holder, if it sends them */
#define REST		70	/* bytes after it */

/* Shared with the children. */
struct shared {
	uint32_t ready, go, done;
	uint32_t stop;
	uint32_t result;
};

/* Bytes of the holder's that are in the stream for good, or out of it. */
static uint64_t step_bytes(enum step at)
{
	switch (at) {
	case TX_LOCKED:
	case TX_COPIED:
	case RX_LOCKED:
		return 0;
	case RX_PART:
		return 30;
	case RX_MOVED:
	case RX_HEAD:
	case RX_NO_WAKE:
	case RX_NO_BELL:
		return FIRST;
	default:
		return HELD;
	}
}

/* Do a step's work up to there; @sh, if not NULL, says when to unlock. */
static bool hold(struct mapping *m, enum step at, struct shared *sh)
{
	struct l5_prod *p = &m->prod;
	struct l5_cons *c = &m->cons;
	uint8_t b[FIRST];
	uint64_t next;

	if (at >= RX_LOCKED) {
		if (mapping_lock(m, L5_LOCK_RX) != 1 ||
		    l5_cons_load(c, m->own) < 0)
			return false;
		if (at == RX_LOCKED)
			return true;
		if (l5_cons_peek(c, (const __u64 *)(m->rx + (c->head &
							     (c->size - 1)))) !=
		    1)
			return false;
		if (at == RX_PART) {
			l5_cons_take(c, m->own, 30);
			return true;
		}
		if (at == RX_MOVED) {
			next = c->head + l5_rec_size(c->len);
			l5_store(&m->own->rx_pos, next);
			return true;
		}
		l5_cons_take(c, m->own, c->len);
		if (at == RX_HEAD)
			return true;
	} else {
		if (mapping_lock(m, L5_LOCK_TX) != 1 ||
		    l5_prod_load(p, m->own, m->peer) < 0)
			return false;
		if (at == TX_LOCKED)
			return true;
		l5_fill(b, HELD, FIRST);
		memcpy(m->tx + ((p->tail + L5_HDR) & (p->size - 1)), b, HELD);
		if (at == TX_COPIED)
			return true;
		next = p->tail + l5_rec_size(HELD);
		l5_store(mapping_slot(m, next), 0);
		l5_store_release(mapping_slot(m, p->tail),
				 (__u64)L5_REC_VALID << 32 | HELD);
		if (at == TX_PUBLISHED)
			return true;
		l5_store(&m->own->tx_tail, next);
		if (at == TX_TAIL)
			return true;
	}
	if (sh) {
		l5_store_release(&sh->ready, 1);
		while (!l5_load_acquire(&sh->go))
			sched_yield();
	}
	/* and no L5_IOC_UNLOCK, no doorbell after it */
	l5_unlock(at >= RX_LOCKED ? &m->own->rx_lock : &m->own->tx_lock);
	return true;
}

/* In a child: hold the word, say so, wait for what comes. */
static void holder(int fd, enum step at, struct shared *sh)
{
	bool late = at == TX_NO_WAKE || at == RX_NO_WAKE;
	struct mapping m;

	if (mapping_open(&m, fd) || !hold(&m, at, late ? sh : NULL))
		_exit(1);
	l5_store_release(&sh->done, 1);
	l5_store_release(&sh->ready, 1);
	for (;;)
		pause();
}

/* Moves the bytes after the holder's, at the end that it held: exit code. */
static int survivor(int fd, enum step at, bool mapped, struct shared *sh)
{
	uint64_t pos = at >= RX_LOCKED ? step_bytes(at) :
		       FIRST + step_bytes(at);
	uint8_t b[2 * FIRST];
	struct mapping m;
	ssize_t n;

	if (mapped && mapping_open(&m, fd))
		return 1;
	if (at < RX_LOCKED) {
		l5_fill(b, REST, pos);
		n = mapped ? mapping_send(&m, b, REST, MSG_NOSIGNAL) :
		    send(fd, b, REST, MSG_NOSIGNAL);
		if (n != REST)
			return 2;
	} else {
		uint64_t end = 2 * FIRST;

		while (pos < end) {
			n = mapped ? mapping_recv(&m, b, end - pos, 0) :
			    recv(fd, b, end - pos, 0);
			if (n <= 0)
				return 3;
			if (l5_check(b, n, pos) >= 0)
				return 4;
			pos += n;
		}
	}
	l5_store_release(&sh->result, 1);
	return 0;
}

static bool before_holder(int fd[2], enum step at)
{
	if (at < RX_LOCKED)
		return end_put(fd[0], FIRST, 0);
	/* two records for the end that is held */
	return end_put(fd[1], FIRST, 0) && end_put(fd[1], FIRST, FIRST);
}

static bool after_holder(int fd[2], enum step at)
{
	if (at >= RX_LOCKED)
		return end_exchange(fd[0], fd[1], 50000, 7);
	return end_get(fd[1], FIRST + step_bytes(at) + REST, 0) &&
	       end_exchange(fd[0], fd[1], 50000, 7);
}

TEST_F_TIMEOUT(map_death, at_every_step, 600)
{
	struct shared *sh = map_shared(4096);
	int k, status;

	for (k = 0; k < STEP_MAX * 4; k++) {
		enum step at = k / 4;
		bool mapped = k & 1, waits = k & 2;
		bool late = at == TX_NO_WAKE || at == RX_NO_WAKE;
		bool held = at != TX_NO_BELL && at != RX_NO_BELL;
		pid_t pid, other;

		ASSERT_TRUE(map_again(variant->at, self->fd));
		memset(sh, 0, sizeof(*sh));
		ASSERT_TRUE(before_holder(self->fd, at));
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid)
			holder(self->fd[0], at, sh);
		ASSERT_TRUE(UNTIL(l5_load_acquire(&sh->ready)));
		if (late && !waits)
			l5_store_release(&sh->go, 1);
		if (!waits) {
			if (late)
				UNTIL(l5_load_acquire(&sh->done));
			kill(pid, SIGKILL);
			l5_reap(pid);
		}
		other = fork();
		ASSERT_LE(0, other);
		if (!other)
			_exit(survivor(self->fd[0], at, mapped, sh));
		if (waits) {
			/* or it has ended, if nothing is held */
			l5_wait_asleep(other);
			if (held)
				EXPECT_EQ(0, l5_load(&sh->result)) {
					TH_LOG("%s: did not wait",
					       step_name[at]);
				}
			l5_store_release(&sh->go, 1);
			if (late)
				UNTIL(l5_load_acquire(&sh->done));
			kill(pid, SIGKILL);
			l5_reap(pid);
		}
		status = l5_reap(other);
		EXPECT_EQ(0, status) {
			TH_LOG("%s, %s, %s: %s (%x)", step_name[at],
			       mapped ? "mapped" : "kernel", waits ?
			       "waits" : "comes later", status == -1 ?
			       "hangs" : "wrong", status);
		}
		EXPECT_TRUE(after_holder(self->fd, at)) {
			TH_LOG("%s, %s, %s: afterwards", step_name[at],
			       mapped ? "mapped" : "kernel", waits ?
			       "waits" : "comes later");
		}
	}
	EXPECT_EQ(0, l5_stat("violations"));
}

/*
 * No other process has that end: the peer reads what was published, and the
 * end.
 */
TEST_F_TIMEOUT(map_death, of_the_last_one, 300)
{
	struct shared *sh = map_shared(4096);
	int k, err;

	for (k = 0; k < STEP_MAX * 2; k++) {
		enum step at = k / 2;
		int64_t n;
		pid_t pid;

		if (at == TX_NO_WAKE || at == RX_NO_WAKE)
			continue;
		ASSERT_TRUE(map_again(variant->at, self->fd));
		memset(sh, 0, sizeof(*sh));
		ASSERT_TRUE(before_holder(self->fd, at));
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			close(self->fd[1]);
			holder(self->fd[0], at, sh);
		}
		close(self->fd[0]);
		self->fd[0] = -1;
		ASSERT_TRUE(UNTIL(l5_load_acquire(&sh->ready)));
		kill(pid, SIGKILL);
		l5_reap(pid);
		if (at < RX_LOCKED) {
			uint64_t want = FIRST + step_bytes(at);

			if (k & 1) {
				struct mapping m;
				uint8_t b[500];

				ASSERT_EQ(0, mapping_open(&m, self->fd[1]));
				for (n = 0; n < (int64_t)want;) {
					ssize_t got = mapping_recv(&m, b, 500,
								   0);

					ASSERT_LT(0, got);
					ASSERT_EQ(-1, l5_check(b, got, n));
					n += got;
				}
				EXPECT_EQ(0, mapping_recv(&m, b, 500, 0));
				mapping_close(&m);
			} else {
				n = end_drain(self->fd[1], 0, &err);
				EXPECT_EQ(0, err);
			}
			EXPECT_EQ((int64_t)want, n) {
				TH_LOG("%s", step_name[at]);
			}
		} else {
			/* it left bytes unread */
			EXPECT_EQ(0, end_drain(self->fd[1], 0, &err));
			EXPECT_EQ(ECONNRESET, err);
		}
	}
	close(self->fd[1]);
	self->fd[1] = -1;
	EXPECT_TRUE(end_stat_reaches("pairs", 0));
	EXPECT_TRUE(end_stat_reaches("rings_kb", 0));
}

/* The holder unmaps, or closes and unmaps, or execs: the same as dying. */
TEST_F_TIMEOUT(map_death, holder_unmaps, 300)
{
	struct shared *sh = map_shared(4096);
	int k, status;

	for (k = 0; k < STEP_MAX * 6; k++) {
		enum step at = k / 6;
		bool mapped = k & 1;
		int way = k % 6 / 2;
		pid_t pid, other;

		if (at == TX_NO_WAKE || at == RX_NO_WAKE || at == TX_NO_BELL ||
		    at == RX_NO_BELL)
			continue;
		ASSERT_TRUE(map_again(variant->at, self->fd));
		memset(sh, 0, sizeof(*sh));
		ASSERT_TRUE(before_holder(self->fd, at));
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			struct mapping m;

			if (mapping_open(&m, self->fd[0]) ||
			    !hold(&m, at, NULL))
				_exit(1);
			if (way == 1) {
				close(self->fd[0]);
				close(self->fd[1]);
			}
			l5_store_release(&sh->ready, 1);
			while (!l5_load_acquire(&sh->go))
				usleep(1000);
			if (way == 2) {
				execl("/bin/sleep", "sleep", "1000", NULL);
				_exit(1);
			}
			mapping_close(&m);
			for (;;)
				pause();
		}
		ASSERT_TRUE(UNTIL(l5_load_acquire(&sh->ready)));
		other = fork();
		ASSERT_LE(0, other);
		if (!other)
			_exit(survivor(self->fd[0], at, mapped, sh));
		if (k & 1)
			ASSERT_TRUE(l5_wait_asleep(other));
		l5_store_release(&sh->go, 1);
		status = l5_reap(other);
		EXPECT_EQ(0, status) {
			TH_LOG("%s, %s, way %d: %x", step_name[at], mapped ?
			       "mapped" : "kernel", way, status);
		}
		EXPECT_TRUE(after_holder(self->fd, at));
		kill(pid, SIGKILL);
		l5_reap(pid);
	}
	EXPECT_EQ(0, l5_stat("violations"));
}

/* A sleeping peer hears of what the dead process had done, but not rung for. */
TEST_F_TIMEOUT(map_death, bell_not_rung, 300)
{
	struct shared *sh = map_shared(4096);
	static uint8_t b[30000];
	int k, status;

	for (k = 0; k < 12; k++) {
		bool room = k & 1;
		struct mapping m;
		pid_t pid, peer;

		ASSERT_TRUE(map_again(variant->at, self->fd));
		memset(sh, 0, sizeof(*sh));
		peer = fork();
		ASSERT_LE(0, peer);
		if (!peer) {
			struct pollfd p = {
				.fd = self->fd[1],
				.events = room ? POLLOUT : POLLIN,
			};
			long n;

			if (room)
				while (send(p.fd, b, 1000, MSG_DONTWAIT) > 0)
					;
			if (k % 3 == 0)
				n = poll(&p, 1, -1) == 1;
			else if (room)
				n = send(p.fd, b, 3000, 0);
			else
				n = recv(p.fd, b, HELD, 0);
			_exit(n > 0 ? 0 : 1);
		}
		ASSERT_TRUE(l5_wait_asleep(peer));
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			if (mapping_open(&m, self->fd[0]))
				_exit(1);
			if (!room) {
				if (!hold(&m, TX_NO_BELL, NULL))
					_exit(2);
			} else {
				/* takes all of it and says nothing */
				mapping_lock(&m, L5_LOCK_RX);
				l5_cons_load(&m.cons, m.own);
				while (l5_cons_peek(&m.cons, (const __u64 *)
				       (m.rx + (m.cons.head &
						(m.cons.size - 1)))) > 0)
					l5_cons_take(&m.cons, m.own,
						     m.cons.len - m.cons.off);
				l5_unlock(&m.own->rx_lock);
			}
			l5_store_release(&sh->ready, 1);
			for (;;)
				pause();
		}
		ASSERT_TRUE(UNTIL(l5_load_acquire(&sh->ready)));
		kill(pid, SIGKILL);
		l5_reap(pid);
		status = l5_reap(peer);
		EXPECT_EQ(0, status) {
			TH_LOG("%s by %s: %s", room ? "room" : "data",
			       k % 3 ? "call" : "poll", status == -1 ?
			       "for ever" : "wrong");
		}
	}
}

/* Messages of many processes, some of which are killed at any moment. */
#define MSG		64
#define SENDERS		3
#define RECEIVERS	2
#define LIVES		90	/* senders: started, perhaps killed */
#define EACH		1500

struct crowd {
	uint32_t stop;
	uint32_t bad;
	uint32_t returned[LIVES];
	uint8_t got[LIVES][EACH + 1];
};

static void crowd_send(struct crowd *cr, int fd, int life)
{
	uint32_t msg[MSG / 4], i, k;
	uint64_t seed = life * 99 + 5;
	struct mapping m;
	ssize_t n;

	if (mapping_open(&m, fd)) {
		l5_store(&cr->bad, 1);
		_exit(1);
	}
	for (i = 0; i < EACH && !l5_load(&cr->stop); i++) {
		for (k = 0; k < MSG / 4; k++)
			msg[k] = life << 16 | i;
		n = l5_rnd(&seed) % 4 ? mapping_send(&m, msg, MSG, 0) :
		    send(fd, msg, MSG, 0);
		if (n != MSG) {
			fprintf(stderr, "# send: %zd %m\n", n);
			l5_store(&cr->bad, 2);
			_exit(2);
		}
		l5_store_release(&cr->returned[life], i + 1);
		if (l5_rnd(&seed) % 64 == 0)
			usleep(l5_rnd(&seed) % 1000);
	}
	_exit(0);
}

static void crowd_recv(struct crowd *cr, int fd, uint64_t seed)
{
	uint32_t msg[MSG / 4], k;
	struct mapping m;
	ssize_t n;

	if (mapping_open(&m, fd)) {
		l5_store(&cr->bad, 3);
		_exit(1);
	}
	for (;;) {
		n = l5_rnd(&seed) % 4 ? mapping_recv(&m, msg, MSG, 0) :
		    recv(fd, msg, MSG, 0);
		if (!n)
			_exit(0);
		if (n != MSG) {
			fprintf(stderr, "# recv: %zd %m\n", n);
			l5_store(&cr->bad, 4);
			_exit(2);
		}
		for (k = 1; k < MSG / 4; k++) {
			if (msg[k] != msg[0]) {
				l5_fatal("message of two");
				l5_store(&cr->bad, 5);
				_exit(3);
			}
		}
		if (msg[0] >> 16 >= LIVES || (msg[0] & 0xffff) > EACH) {
			l5_fatal("no such message: %#x", msg[0]);
			l5_store(&cr->bad, 6);
			_exit(4);
		}
		__atomic_fetch_add(&cr->got[msg[0] >> 16][msg[0] & 0xffff], 1,
				   __ATOMIC_SEQ_CST);
	}
}

TEST_F_TIMEOUT(map_death, at_random, 300)
{
	pid_t pid[SENDERS + RECEIVERS] = { 0 };
	struct crowd *cr = map_shared(sizeof(*cr));
	int lives = 0, killed = 0, lost = 0, twice = 0, extra = 0, i, j;
	uint64_t seed = l5_now_ms() | 1;
	int64_t end = l5_now_ms() + MAP_LONG_MS;
	int status, life[SENDERS];
	long total = 0;

	ASSERT_NE(NULL, cr);
	TH_LOG("seed %llu", (unsigned long long)seed);
	while (lives < LIVES && !l5_load(&cr->bad) && l5_now_ms() < end) {
		for (i = 0; i < SENDERS + RECEIVERS; i++) {
			if (pid[i]) {
				if (!waitpid(pid[i], &status, WNOHANG))
					continue;
				/* done before it was killed */
				if (i < SENDERS)
					EXPECT_EQ(0, status);
				pid[i] = 0;
			}
			if (i < SENDERS && lives >= LIVES)
				continue;
			if (i < SENDERS)
				life[i] = lives++;
			fflush(NULL);
			pid[i] = fork();
			ASSERT_LE(0, pid[i]);
			if (pid[i])
				continue;
			if (i < SENDERS) {
				close(self->fd[1]);
				crowd_send(cr, self->fd[0], life[i]);
			}
			close(self->fd[0]);
			crowd_recv(cr, self->fd[1], seed + i);
		}
		usleep(l5_rnd(&seed) % 12000);
		i = l5_rnd(&seed) % (SENDERS + RECEIVERS);
		if (!pid[i])
			continue;
		kill(pid[i], SIGKILL);
		l5_reap(pid[i]);
		pid[i] = 0;
		if (i >= SENDERS)
			killed++;
	}
	/* the processes that are left go on to the end of it */
	for (i = 0; i < RECEIVERS; i++) {
		if (pid[SENDERS + i])
			continue;
		pid[SENDERS + i] = fork();
		ASSERT_LE(0, pid[SENDERS + i]);
		if (!pid[SENDERS + i]) {
			close(self->fd[0]);
			crowd_recv(cr, self->fd[1], seed + i);
		}
	}
	usleep(20000);
	l5_store(&cr->stop, 1);
	for (i = 0; i < SENDERS; i++) {
		if (!pid[i])
			continue;
		status = l5_reap(pid[i]);
		EXPECT_EQ(0, status) {
			TH_LOG("sender: %x", status);
		}
	}
	shutdown(self->fd[0], SHUT_WR);
	for (i = 0; i < RECEIVERS; i++) {
		status = l5_reap(pid[SENDERS + i]);
		EXPECT_EQ(0, status) {
			TH_LOG("receiver: %x", status);
		}
	}
	for (i = 0; i < lives; i++) {
		for (j = 0; j <= EACH; j++) {
			uint32_t n = cr->got[i][j];

			total += n;
			twice += n > 1;
			lost += !n && (uint32_t)j < cr->returned[i];
			extra += n && (uint32_t)j > cr->returned[i];
		}
	}
	TH_LOG("%ld messages, %d lives of senders, %d receivers killed, %d lost with them",
	       total, lives, killed, lost);
	EXPECT_EQ(0, l5_load(&cr->bad));
	EXPECT_EQ(0, twice);
	EXPECT_EQ(0, extra);
	EXPECT_LE(lost, killed);
	EXPECT_EQ(0, l5_stat("violations"));
}

/* Stopped, not dead: a process that does not want to wait is not held up. */
TEST_F_TIMEOUT(map_death, stopped_holder, 300)
{
	struct shared *sh = map_shared(4096);
	int k, status;

	for (k = 0; k < 6; k++) {
		enum step at = k & 1 ? RX_MOVED : TX_PUBLISHED;
		struct timeval soon = { .tv_usec = 100000 };
		pid_t pid, other;
		uint8_t b[10];

		ASSERT_TRUE(map_again(variant->at, self->fd));
		memset(sh, 0, sizeof(*sh));
		ASSERT_TRUE(before_holder(self->fd, at));
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			struct mapping m;

			if (mapping_open(&m, self->fd[0]) ||
			    !hold(&m, at, NULL))
				_exit(1);
			l5_store_release(&sh->ready, 1);
			while (!l5_load_acquire(&sh->go))
				usleep(1000);
			/* and finishes what it began */
			if (k & 1) {
				l5_store_release(&m.own->rx_head,
						 l5_load(&m.own->rx_pos));
				mapping_unlock(&m, L5_LOCK_RX);
			} else {
				l5_store(&m.own->tx_tail, m.prod.tail +
					 l5_rec_size(HELD));
				mapping_unlock(&m, L5_LOCK_TX);
				ioctl(m.fd, L5_IOC_DOORBELL, L5_BELL_DATA);
			}
			_exit(0);
		}
		ASSERT_TRUE(UNTIL(l5_load_acquire(&sh->ready)));
		kill(pid, SIGSTOP);

		/* nonblocking, and with a time-out */
		if (k & 1) {
			EXPECT_EQ(-1, recv(self->fd[0], b, 1, MSG_DONTWAIT));
			EXPECT_EQ(EAGAIN, errno);
			EXPECT_EQ(-1, recv(self->fd[0], b, 1, MSG_DONTWAIT |
					   MSG_PEEK));
			EXPECT_EQ(EAGAIN, errno);
		} else {
			EXPECT_EQ(-1, send(self->fd[0], b, 1, MSG_DONTWAIT));
			EXPECT_EQ(EAGAIN, errno);
		}
		setsockopt(self->fd[0], SOL_SOCKET, SO_RCVTIMEO, &soon,
			   sizeof(soon));
		setsockopt(self->fd[0], SOL_SOCKET, SO_SNDTIMEO, &soon,
			   sizeof(soon));
		EXPECT_EQ(-1, k & 1 ? recv(self->fd[0], b, 1, 0) :
			  send(self->fd[0], b, 1, 0));
		EXPECT_EQ(EAGAIN, errno) {
			TH_LOG("%s", strerror(errno));
		}
		soon.tv_usec = 0;
		setsockopt(self->fd[0], SOL_SOCKET, SO_RCVTIMEO, &soon,
			   sizeof(soon));
		setsockopt(self->fd[0], SOL_SOCKET, SO_SNDTIMEO, &soon,
			   sizeof(soon));

		/* a signal */
		alarm_every(50000);
		EXPECT_EQ(-1, k & 1 ? recv(self->fd[0], b, 1, 0) :
			  send(self->fd[0], b, 1, 0));
		EXPECT_EQ(EINTR, errno) {
			TH_LOG("%s", strerror(errno));
		}
		alarm_off();

		/* a signal that kills */
		other = fork();
		ASSERT_LE(0, other);
		if (!other) {
			alarm(0);
			if (k & 1)
				recv(self->fd[0], b, 1, 0);
			else
				send(self->fd[0], b, 1, 0);
			_exit(1);
		}
		l5_wait_asleep(other);
		kill(other, SIGKILL);
		status = l5_reap(other);
		EXPECT_TRUE(status != -1 && WIFSIGNALED(status)) {
			TH_LOG("%s: %x", k & 1 ? "recv" : "send", status);
		}

		/* the other direction does not care */
		EXPECT_TRUE(end_put(self->fd[!(k & 1)], 1000, 3) &&
			    end_get(self->fd[k & 1], 1000, 3));
		if (k / 2 == 2) {
			/* nor does an end that has had enough */
			EXPECT_TRUE(all_come_back(self->fd[0]));
			EXPECT_EQ(0, shutdown(self->fd[0], SHUT_RDWR));
			close(self->fd[0]);
			self->fd[0] = -1;
			/* whatever came before, there is an end of it */
			do {
				EXPECT_NE(0, end_poll(self->fd[1], POLLIN));
				status = recv(self->fd[1], b, 10, MSG_DONTWAIT);
			} while (status > 0);
			EXPECT_TRUE(!status || errno == ECONNRESET) {
				TH_LOG("%s", strerror(errno));
			}
			kill(pid, SIGKILL);
			l5_reap(pid);
			continue;
		}
		if (k / 2 == 1) {
			kill(pid, SIGKILL);
			l5_reap(pid);
		} else {
			l5_store_release(&sh->go, 1);
			kill(pid, SIGCONT);
			EXPECT_EQ(0, l5_reap(pid));
		}
		EXPECT_EQ(0, survivor(self->fd[0], at, k / 2, sh));
		EXPECT_TRUE(after_holder(self->fd, at));
	}
	EXPECT_EQ(0, l5_stat("violations"));
}

TEST_HARNESS_MAIN
