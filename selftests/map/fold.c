// SPDX-License-Identifier: GPL-2.0
/*
 * Rings that are mapped get memory when their writers need it, and give it back
 * when they are idle: with every byte in its place.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "map_pair.h"

enum {
	RING = 256 << 10,
	LEAST_KB = 8,		/* of a ring that was just mapped */
	ENDS_KB = 16,		/* control and state pages of two ends */
	SLOW_MS = 60000,	/* so long means never */
};

MAP_PAIR_FIXTURE(map_fold, RING >> 10)

static void open_both(struct __test_metadata *_metadata, int fd[2],
		      struct mapping m[2])
{
	ASSERT_EQ(0, mapping_open(&m[0], fd[0]));
	ASSERT_EQ(0, mapping_open(&m[1], fd[1]));
}

/* Send @len bytes that nobody reads meanwhile. */
static bool put_all(struct mapping *m, size_t len, uint64_t pos)
{
	uint8_t *buf = malloc(len);
	size_t done = 0;
	ssize_t n = 1;

	l5_fill(buf, len, pos);
	while (buf && done < len && n > 0) {
		n = mapping_put(m, buf + done, len - done);
		if (n > 0)
			done += n;
	}
	free(buf);
	return done == len;
}

static bool get_all(struct mapping *m, size_t len, uint64_t pos)
{
	uint8_t *buf = malloc(len);
	size_t done = 0;
	bool good;

	while (buf && done < len) {
		ssize_t n = mapping_get(m, buf + done, len - done);

		if (n <= 0)
			break;
		done += n;
	}
	good = buf && done == len && l5_check(buf, len, pos) == -1;
	free(buf);
	return good;
}

TEST_F_TIMEOUT(map_fold, begins_small, 120)
{
	struct mapping m[2];
	int e;

	ASSERT_LE(0, l5_sysctl("idle_ms", SLOW_MS));
	open_both(_metadata, self->fd, m);
	EXPECT_GE(2 * LEAST_KB + ENDS_KB, l5_stat("rings_kb"));
	for (e = 0; e < 2; e++) {
		EXPECT_EQ(RING, m[e].state->tx_most);
		EXPECT_GE(LEAST_KB << 10, m[e].state->tx_extent);
		/* a program is told of the room that it may have */
		EXPECT_TRUE(end_exchange(self->fd[e], self->fd[!e], 1000, 0));
	}
	EXPECT_GE(2 * LEAST_KB + ENDS_KB, l5_stat("rings_kb"));
	mapping_close(&m[0]);
	mapping_close(&m[1]);
}

/* More of the ring is used by and by, and all of it is there to be read. */
TEST_F_TIMEOUT(map_fold, grows, 120)
{
	static const size_t step[] = { 3000, 4000, 9000, 30000, 80000, 90000 };
	struct mapping m[2];
	uint32_t extent, last;
	uint64_t pos = 0;
	unsigned int i;
	size_t sum;
	int e;

	ASSERT_LE(0, l5_sysctl("idle_ms", SLOW_MS));
	for (e = 0; e < 2; e++) {
		open_both(_metadata, self->fd, m);
		/* at any place of the ring */
		for (sum = 0; sum < RING + 5000; sum += 1000) {
			ASSERT_TRUE(put_all(&m[0], 1000, pos + sum));
			ASSERT_TRUE(get_all(&m[1], 1000, pos + sum));
		}
		pos += sum;
		EXPECT_GE(LEAST_KB << 10, m[0].state->tx_extent);
		last = 0;
		for (sum = 0, i = 0; i < ARRAY_SIZE(step); i++) {
			ASSERT_TRUE(put_all(&m[0], step[i], pos + sum));
			sum += step[i];
			extent = m[0].state->tx_extent;
			EXPECT_LE(sum, extent);
			EXPECT_LE(last, extent);
			last = extent;
		}
		EXPECT_EQ(RING, last);
		/* what was written before, by the mapping or by calls */
		ASSERT_TRUE(get_all(&m[1], 100000, pos));
		ASSERT_TRUE(end_get(self->fd[1], sum - 100000, pos + 100000));
		pos += sum;
		mapping_close(&m[0]);
		mapping_close(&m[1]);
		ASSERT_TRUE(end_exchange(self->fd[0], self->fd[1], 500000, 0));
		ASSERT_TRUE(map_again(variant->at, self->fd));
		ASSERT_LE(0, l5_sysctl("idle_ms", SLOW_MS));
		pos = 0;
	}
}

/* By system calls, too, whichever end is mapped. */
TEST_F_TIMEOUT(map_fold, grows_by_calls, 120)
{
	struct mapping m;
	int e;

	for (e = 0; e < 2; e++) {
		ASSERT_EQ(0, mapping_open(&m, self->fd[e]));
		ASSERT_TRUE(end_put(self->fd[0], 200000, 0));
		if (!e)
			EXPECT_LE(200000, m.state->tx_extent);
		ASSERT_TRUE(end_get(self->fd[1], 200000, 0));
		ASSERT_TRUE(end_exchange(self->fd[0], self->fd[1], 600000, 0));
		mapping_close(&m);
		ASSERT_TRUE(map_again(variant->at, self->fd));
	}
}

/* A ring that is empty for a while has no more than it was mapped with. */
TEST_F_TIMEOUT(map_fold, idle, 120)
{
	struct mapping m[2];
	int i;

	ASSERT_LE(0, l5_sysctl("idle_ms", 50));
	open_both(_metadata, self->fd, m);
	for (i = 0; i < 3; i++) {
		ASSERT_TRUE(put_all(&m[0], 200000, 0));
		ASSERT_TRUE(put_all(&m[1], 100000, 0));
		/* not while there are bytes in it */
		EXPECT_LE(300, l5_stat("rings_kb"));
		usleep(300000);
		EXPECT_LE(200000, m[0].state->tx_extent);
		EXPECT_LE(100000, m[1].state->tx_extent);
		ASSERT_TRUE(get_all(&m[1], 200000, 0));
		EXPECT_TRUE(UNTIL(m[0].state->tx_extent <= LEAST_KB << 10));
		ASSERT_TRUE(get_all(&m[0], 100000, 0));
		EXPECT_TRUE(UNTIL(m[1].state->tx_extent <= LEAST_KB << 10));
		EXPECT_TRUE(UNTIL(l5_stat("rings_kb") <=
				  2 * LEAST_KB + ENDS_KB));
		EXPECT_GE(2 * LEAST_KB + ENDS_KB, l5_stat("reserved_kb"));
		EXPECT_EQ(RING, m[0].state->tx_most);
		ASSERT_TRUE(put_all(&m[0], 500, 0));
		ASSERT_TRUE(get_all(&m[1], 500, 0));
	}
	mapping_close(&m[0]);
	mapping_close(&m[1]);
	EXPECT_TRUE(end_exchange(self->fd[0], self->fd[1], 500000, 0));
}

/* Nor while a writer has the lock word, or with idle_ms of 0. */
TEST_F_TIMEOUT(map_fold, kept, 120)
{
	struct mapping m;

	ASSERT_LE(0, l5_sysctl("idle_ms", 20));
	ASSERT_EQ(0, mapping_open(&m, self->fd[0]));
	ASSERT_LT(0, mapping_lock(&m, L5_LOCK_TX));
	ASSERT_EQ(0, ioctl(m.fd, L5_IOC_ROOM, RING));
	EXPECT_EQ(RING, m.state->tx_extent);
	usleep(300000);
	EXPECT_EQ(RING, m.state->tx_extent);
	mapping_unlock(&m, L5_LOCK_TX);
	EXPECT_TRUE(UNTIL(m.state->tx_extent <= LEAST_KB << 10));
	ASSERT_LE(0, l5_sysctl("idle_ms", 0));
	ASSERT_EQ(0, mapping_whole(&m));
	usleep(300000);
	EXPECT_EQ(RING, m.state->tx_extent);
	mapping_close(&m);
}

TEST_F_TIMEOUT(map_fold, room_arguments, 120)
{
	struct mapping m;

	EXPECT_EQ(-1, ioctl(self->fd[0], L5_IOC_ROOM, 100));
	EXPECT_EQ(EINVAL, errno);
	ASSERT_EQ(0, mapping_open(&m, self->fd[0]));
	/* without the lock word, or with another's number in it */
	EXPECT_EQ(-1, ioctl(self->fd[0], L5_IOC_ROOM, 100));
	EXPECT_EQ(EINVAL, errno);
	m.own->tx_lock = m.id + 1;
	EXPECT_EQ(-1, ioctl(self->fd[0], L5_IOC_ROOM, 100));
	EXPECT_EQ(EINVAL, errno);
	m.own->tx_lock = L5_LOCK_KERNEL;
	EXPECT_EQ(-1, ioctl(self->fd[0], L5_IOC_ROOM, 100));
	EXPECT_EQ(EINVAL, errno);
	m.own->tx_lock = m.id;
	EXPECT_EQ(-1, ioctl(self->fd[0], L5_IOC_ROOM, RING + 1ul));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, ioctl(self->fd[0], L5_IOC_ROOM, ~0ul));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(0, ioctl(self->fd[0], L5_IOC_ROOM, 0));
	EXPECT_EQ(0, ioctl(self->fd[0], L5_IOC_ROOM, 100000));
	EXPECT_LE(100000, m.state->tx_extent);
	EXPECT_EQ(0, ioctl(self->fd[0], L5_IOC_ROOM, RING));
	EXPECT_EQ(0, ioctl(self->fd[0], L5_IOC_ROOM, RING));
	m.own->tx_lock = 0;
	EXPECT_TRUE(end_exchange(self->fd[0], self->fd[1], 100000, 0));
	/* a reader that lies about where it is: no more for its writer */
	m.own->tx_lock = m.id;
	mapping_close(&m);
	EXPECT_TRUE(end_exchange(self->fd[0], self->fd[1], 100000, 0));
}

/* One thread asks for room in the lock word's name, another says it is free. */
enum { BIG_KB = 16384 };

struct liars {
	struct mapping *m;
	bool stop;
};

static void *asks(void *arg)
{
	struct liars *l = arg;

	while (!l5_load(&l->stop)) {
		/* a little, which is given back while there is to be much */
		l5_store(&l->m->own->tx_lock, l->m->id);
		ioctl(l->m->fd, L5_IOC_ROOM, 6 * MAP_PAGE);
		usleep(2000);
		l5_store(&l->m->own->tx_lock, l->m->id);
		ioctl(l->m->fd, L5_IOC_ROOM, l->m->tx_size);
		/* until all is given back */
		usleep(20000);
	}
	return NULL;
}

static void *denies(void *arg)
{
	struct liars *l = arg;

	while (!l5_load(&l->stop)) {
		l5_store(&l->m->own->tx_lock, 0);
		usleep(100);
	}
	return NULL;
}

TEST_F_TIMEOUT(map_fold, liars, 300)
{
	struct mapping m;
	struct liars l = { .m = &m };
	pthread_t t[2];
	int i;

	ASSERT_LE(0, l5_sysctl("ring_kb", BIG_KB));
	ASSERT_LE(0, l5_sysctl("idle_ms", 1));
	ASSERT_TRUE(map_again(variant->at, self->fd));
	ASSERT_EQ(0, mapping_open(&m, self->fd[0]));
	ASSERT_EQ(0, pthread_create(&t[0], NULL, asks, &l));
	ASSERT_EQ(0, pthread_create(&t[1], NULL, denies, &l));
	for (i = 0; i < 50; i++) {
		usleep(100000);
		/* both rings and a little, and never less than nothing */
		EXPECT_LE(0, l5_stat("reserved_kb"));
		EXPECT_GT(2 * BIG_KB + 256, l5_stat("reserved_kb"));
	}
	l5_store(&l.stop, true);
	for (i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	m.own->tx_lock = 0;
	EXPECT_TRUE(end_exchange(self->fd[0], self->fd[1], 100000, 0));
	mapping_close(&m);
	close(self->fd[0]);
	close(self->fd[1]);
	EXPECT_TRUE(end_stat_reaches("rings_kb", 0));
	EXPECT_TRUE(end_stat_reaches("reserved_kb", 0));
	self->fd[0] = self->fd[1] = -1;
}

static void *fails(void *arg)
{
	struct liars *l = arg;

	while (!l5_load(&l->stop)) {
		l5_store(&l->m->own->tx_lock, l->m->id);
		l5_store(&l->m->own->tx_tail, (uint64_t)RING << 12);
		ioctl(l->m->fd, L5_IOC_ROOM, l->m->tx_size);
	}
	return NULL;
}

/* A peer that asks for room in vain, and again, keeps nobody's memory. */
TEST_F_TIMEOUT(map_fold, put_off, 300)
{
	struct mapping m[2];
	struct liars l = { .m = &m[1] };
	const int half = RING / 2;
	pthread_t t;

	ASSERT_LE(0, l5_sysctl("idle_ms", 400));
	open_both(_metadata, self->fd, m);
	ASSERT_TRUE(put_all(&m[0], half, 0));
	ASSERT_TRUE(get_all(&m[1], half, 0));
	ASSERT_EQ(0, pthread_create(&t, NULL, fails, &l));
	EXPECT_TRUE(UNTIL(m[0].state->tx_extent <= LEAST_KB << 10));
	ASSERT_TRUE(put_all(&m[0], half, half));
	ASSERT_LE(half, m[0].state->tx_extent);
	/* nor once there is a socket less */
	mapping_close(&m[0]);
	close(self->fd[0]);
	self->fd[0] = -1;
	EXPECT_TRUE(get_all(&m[1], half, half));
	EXPECT_TRUE(UNTIL(l5_stat("rings_kb") <= 2 * LEAST_KB + ENDS_KB));
	l5_store(&l.stop, true);
	pthread_join(t, NULL);
	mapping_close(&m[1]);
}

/* What a peer has pinned stays the ring's, and is counted. */
TEST_F_TIMEOUT(map_fold, pinned, 120)
{
	struct mapping m[2];
	struct iovec v;
	int p[2];

	ASSERT_LE(0, l5_sysctl("idle_ms", 20));
	open_both(_metadata, self->fd, m);
	ASSERT_EQ(0, pipe(p));
	ASSERT_TRUE(put_all(&m[0], 200000, 0));
	v = (struct iovec){ (void *)(m[1].rx + 8 * MAP_PAGE), 8 * MAP_PAGE };
	ASSERT_EQ(8 * MAP_PAGE, vmsplice(p[1], &v, 1, 0));
	ASSERT_TRUE(get_all(&m[1], 200000, 0));
	usleep(500000);
	EXPECT_LE(200000, m[0].state->tx_extent);
	EXPECT_LE(200, l5_stat("rings_kb"));
	/* and is given back once it is not pinned any more */
	close(p[0]);
	close(p[1]);
	EXPECT_TRUE(UNTIL(m[0].state->tx_extent <= LEAST_KB << 10));
	EXPECT_TRUE(UNTIL(l5_stat("rings_kb") <= 2 * LEAST_KB + ENDS_KB));
	mapping_close(&m[0]);
	mapping_close(&m[1]);
}

/* An end may be mapped so often by a process, and no more. */
TEST_F_TIMEOUT(map_fold, areas, 120)
{
	void *p[40];
	int i, n = 0;

	for (i = 0; i < 40; i++) {
		p[i] = mmap(NULL, MAP_PAGE, PROT_READ, MAP_SHARED, self->fd[0],
			    L5_MMAP_PEER);
		n += p[i] != MAP_FAILED;
		if (p[i] == MAP_FAILED)
			EXPECT_EQ(ENOMEM, errno);
	}
	EXPECT_EQ(16, n);
	ASSERT_EQ(0, munmap(p[0], MAP_PAGE));
	p[0] = mmap(NULL, MAP_PAGE, PROT_READ, MAP_SHARED, self->fd[0],
		    L5_MMAP_PEER);
	EXPECT_NE(MAP_FAILED, p[0]);
	for (i = 0; i < 40; i++)
		if (p[i] != MAP_FAILED)
			munmap(p[i], MAP_PAGE);
	EXPECT_TRUE(end_exchange(self->fd[0], self->fd[1], 100000, 0));
}

/*
 * Children may be given what an end's process has mapped, and any number of
 * them. As long as there are so many its ring stays as it is, and works.
 */
TEST_F_TIMEOUT(map_fold, children, 300)
{
	enum { CHILDREN = 40 };
	struct mapping m[2];
	pid_t pid[CHILDREN];
	void *p;
	int e, i;

	ASSERT_LE(0, l5_sysctl("idle_ms", SLOW_MS));
	for (e = 0; e < 2; e++) {
		open_both(_metadata, self->fd, m);
		p = mmap(NULL, MAP_PAGE, PROT_READ, MAP_SHARED, self->fd[e],
			 L5_MMAP_PEER);
		ASSERT_NE(MAP_FAILED, p);
		if (madvise(p, MAP_PAGE, MADV_DOFORK) && errno == EINVAL)
			SKIP(return, "this kernel gives a child no such thing");
		for (i = 0; i < CHILDREN; i++) {
			pid[i] = fork();
			ASSERT_LE(0, pid[i]);
			if (!pid[i])
				for (;;)
					pause();
		}
		EXPECT_TRUE(end_exchange(self->fd[0], self->fd[1], 100000, 0));
		EXPECT_GE(LEAST_KB << 10, m[0].state->tx_extent);
		for (i = 0; i < CHILDREN; i++) {
			kill(pid[i], SIGKILL);
			waitpid(pid[i], NULL, 0);
		}
		EXPECT_TRUE(UNTIL(m[0].state->tx_most == RING));
		ASSERT_TRUE(put_all(&m[0], 100000, 0));
		EXPECT_LE(100000, m[0].state->tx_extent);
		EXPECT_TRUE(get_all(&m[1], 100000, 0));
		munmap(p, MAP_PAGE);
		mapping_close(&m[0]);
		mapping_close(&m[1]);
		ASSERT_TRUE(map_again(variant->at, self->fd));
	}
}

/* Memory comes and goes under traffic of all kinds. */
enum { TRAFFIC_MAX = 120000 };

struct traffic {
	struct mapping *m;
	int fd;
	uint64_t seed;
	long total, moved;
	bool sends, mapped;
	char error[100];
};

static void *run_traffic(void *arg)
{
	uint8_t *buf = malloc(TRAFFIC_MAX);
	struct traffic *t = arg;

	while (t->moved < t->total && !*t->error) {
		size_t want = 1 + l5_rnd(&t->seed) %
			(l5_rnd(&t->seed) % 4 ? 300 : TRAFFIC_MAX);
		bool call = !t->mapped || l5_rnd(&t->seed) % 5 == 0;
		ssize_t n;

		if (want > (size_t)(t->total - t->moved))
			want = t->total - t->moved;
		/* long enough for the ring to be found idle, now and then */
		if (l5_rnd(&t->seed) % 40 == 0)
			usleep(l5_rnd(&t->seed) % 8000);
		if (t->sends) {
			l5_fill(buf, want, t->moved);
			n = call ? send(t->fd, buf, want, 0) :
				   mapping_send(t->m, buf, want, 0);
		} else {
			n = call ? recv(t->fd, buf, want, 0) :
				   mapping_recv(t->m, buf, want, 0);
			if (n > 0 && l5_check(buf, n, t->moved) != -1)
				snprintf(t->error, sizeof(t->error),
					 "wrong byte at %ld",
					 t->moved + l5_check(buf, n, t->moved));
		}
		if (n <= 0)
			snprintf(t->error, sizeof(t->error), "%s at %ld: %s",
				 t->sends ? "send" : "recv", t->moved,
				 strerror(errno));
		else
			t->moved += n;
	}
	free(buf);
	return NULL;
}

TEST_F_TIMEOUT(map_fold, traffic, 600)
{
	uint64_t seed = l5_seed();
	struct traffic t[4];
	struct mapping m[4];
	pthread_t thread[4];
	long small = 0, large = 0;
	int round, i;

	for (round = 0; round < 4; round++) {
		ASSERT_LE(0, l5_sysctl("idle_ms", 1));
		/* a thread that sends and one that receives at each end */
		for (i = 0; i < 4; i++) {
			ASSERT_EQ(0, mapping_open(&m[i], self->fd[i & 1]));
			t[i] = (struct traffic){
				.m = &m[i],
				.fd = self->fd[i & 1],
				.seed = seed + round * 4 + i,
				.total = 3000000,
				.sends = i < 2,
				.mapped = round != 1 || i & 1,
			};
		}
		for (i = 0; i < 4; i++)
			ASSERT_EQ(0, pthread_create(&thread[i], NULL,
						    run_traffic, &t[i]));
		while (l5_load(&t[2].moved) < t[2].total && !*t[2].error &&
		       !*t[0].error && !*t[1].error && !*t[3].error) {
			if (l5_load(&m[0].state->tx_extent) > LEAST_KB << 10)
				large++;
			else
				small++;
			usleep(200);
		}
		for (i = 0; i < 4; i++) {
			pthread_join(thread[i], NULL);
			EXPECT_EQ(0, *t[i].error) {
				TH_LOG("round %d, thread %d: %s", round, i,
				       t[i].error);
			}
		}
		for (i = 0; i < 4; i++)
			mapping_close(&m[i]);
		ASSERT_TRUE(map_again(variant->at, self->fd));
	}
	TH_LOG("seen small %ld times, large %ld times", small, large);
	EXPECT_LT(0, small);
	EXPECT_LT(0, large);
	EXPECT_EQ(0, l5_stat("violations"));
}

TEST_HARNESS_MAIN
