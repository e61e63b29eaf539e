// SPDX-License-Identifier: GPL-2.0
/*
 * What a program may send to another host before anybody reads, by RDMA: as
 * much as TCP takes; how what was not read comes, to the last byte; and what it
 * costs, for how long.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "ends.h"
#include "mapping.h"
#include "rdma_here.h"

/* More than both rings hold, and less than TCP's buffers do. */
#define MUCH	(3 << 20)
/* So much a writer gets rid of whose reader does not read. */
#define SOME	(2 << 20)
#define RING	(256 << 10)
#define SOON	(20000 * l5_slow())
/* longer than it takes until there is room */
#define NEVER	1500

/* In this a library has no part: once is enough. */
#define ONCE()								\
	do {								\
		if (getenv("L5_FULL"))					\
			SKIP(return, "no library has a part in this");	\
	} while (0)

/* A test that maps by itself. */
#define SKIP_IF_MAPPED()						\
	do {								\
		if (getenv("L5_FULL"))					\
			SKIP(return, "this end is mapped at once");	\
	} while (0)

/*
 * Both ends are sockets of the host's own namespace, since the device is there.
 */
struct spill {
	long grow, notify, safe;
	int l, c, s;
};

/* How records are published: net.l5.rdma_notify; negative: as it is. */
static bool spill_begin(struct spill *self, int notify)
{
	self->l = -1;
	self->c = -1;
	self->s = -1;
	self->grow = l5_sysctl("grow_ms", 200);
	self->notify = -1;
	if (notify < 0)
		return self->grow >= 0;
	self->notify = l5_sysctl("rdma_notify", notify);
	/* what this test has is a CPU: each way is safe */
	self->safe = l5_sysctl("rdma_safe", 15);
	return self->grow >= 0 && self->notify >= 0 && self->safe >= 0;
}

static bool spill_end(struct spill *self)
{
	close(self->c);
	close(self->s);
	close(self->l);
	l5_sysctl("grow_ms", self->grow);
	if (self->notify >= 0) {
		l5_sysctl("rdma_notify", self->notify);
		l5_sysctl("rdma_safe", self->safe);
	}
	return end_stat_reaches("rings_kb", 0) &&
	       end_stat_reaches("reserved_kb", 0);
}

FIXTURE(limit_spill) { struct spill s; };

FIXTURE_SETUP(limit_spill)
{
	l5_or_skip();
	if (!rdma_here())
		SKIP(return, "no RDMA device can be made here");
	ASSERT_TRUE(spill_begin(&self->s, -1));
}

FIXTURE_TEARDOWN(limit_spill)
{
	EXPECT_TRUE(spill_end(&self->s));
}

FIXTURE(limit_spill_way) { struct spill s; };
FIXTURE_VARIANT(limit_spill_way) { int notify; };

#define WAY(name, how)							\
	FIXTURE_VARIANT_ADD(limit_spill_way, name) { .notify = how }

WAY(two, L5_NOTIFY_TWO);
WAY(one, L5_NOTIFY_ONE);
WAY(imm, L5_NOTIFY_IMM);
WAY(send, L5_NOTIFY_SEND);

FIXTURE_SETUP(limit_spill_way)
{
	l5_or_skip();
	if (!rdma_here())
		SKIP(return, "no RDMA device can be made here");
	ASSERT_TRUE(spill_begin(&self->s, variant->notify));
}

FIXTURE_TEARDOWN(limit_spill_way)
{
	EXPECT_TRUE(spill_end(&self->s));
}

/* A connection that RDMA carries. */
static bool open_rdma(int *l, int *c, int *s)
{
	struct addr to = addr_parse(RDMA_HERE ":0");

	*l = rdma_socket();
	if (*l < 0 || bind(*l, &to.sa, to.len) || listen(*l, 5) ||
	    getsockname(*l, &to.sa, &to.len))
		return false;
	*c = rdma_socket();
	if (*c < 0 || connect(*c, &to.sa, to.len))
		return false;
	*s = accept(*l, NULL, NULL);
	return *s >= 0 && end_exchange(*c, *s, 5000, 0) && rdma_moved(*c) &&
	       rdma_moved(*s);
}

#define OPEN()	ASSERT_TRUE(open_rdma(&self->s.l, &self->s.c, &self->s.s))

static void shut(int *fd)
{
	close(*fd);
	*fd = -1;
}

TEST_F_TIMEOUT(limit_spill, echo, 120)
{
	pid_t pid;

	OPEN();
	fflush(NULL);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		close(self->s.c);
		_exit(end_echo(self->s.s));
	}
	shut(&self->s.s);
	/* a sender that waits for good is ended by the test's time-out */
	EXPECT_TRUE(end_put(self->s.c, MUCH, 0));
	EXPECT_TRUE(end_get(self->s.c, MUCH, 0));
	shut(&self->s.c);
	EXPECT_EQ(0, l5_reap(pid));
}

/* Until all that was sent is at the reader's host. */
static bool all_here(int s, int n)
{
	return L5_UNTIL(end_unread(s) == n, SOON);
}

/* The reader counts all, and gets all, and then the end of the stream. */
TEST_F_TIMEOUT(limit_spill_way, to_the_end, 120)
{
	int err;

	OPEN();
	ASSERT_EQ(SOME, end_put_polled(self->s.c, 0, SOME, SOON));
	EXPECT_TRUE(all_here(self->s.s, SOME)) {
		TH_LOG("%d", end_unread(self->s.s));
	}
	shut(&self->s.c);
	EXPECT_EQ(SOME, end_drain(self->s.s, 0, &err));
	EXPECT_EQ(0, err);
}

/* A reader that goes on, at any place, and stops again. */
TEST_F_TIMEOUT(limit_spill_way, on_and_off, 200)
{
	uint64_t rnd = 12345 + variant->notify, pos = 0, at = 0;
	int i, err;
	size_t n;

	ASSERT_LE(0, l5_sysctl("grow_ms", 20));
	OPEN();
	for (i = 0; i < 12; i++) {
		n = 200000 + l5_rnd(&rnd) % 1500000;
		if (pos - at + n > SOME)
			n = SOME - (pos - at);
		ASSERT_EQ(n, end_put_polled(self->s.c, pos, n, SOON));
		pos += n;
		n = 1 + l5_rnd(&rnd) % (pos - at);
		ASSERT_TRUE(end_get(self->s.s, n, at));
		at += n;
	}
	/* and the other way */
	ASSERT_EQ(SOME, end_put_polled(self->s.s, 0, SOME, SOON));
	ASSERT_TRUE(end_get(self->s.c, SOME, 0));
	shut(&self->s.c);
	EXPECT_EQ(pos, at + end_drain(self->s.s, at, &err));
	EXPECT_EQ(0, err);
}

/* Small records, each read as it comes once the reader goes on. */
TEST_F_TIMEOUT(limit_spill_way, as_it_is_read, 200)
{
	enum { PAIRS = 8 };
	pid_t pid[PAIRS];
	int i, l, c, s, err;

	for (i = 0; i < PAIRS; i++) {
		fflush(NULL);
		pid[i] = fork();
		ASSERT_LE(0, pid[i]);
		if (pid[i])
			continue;
		if (!open_rdma(&l, &c, &s))
			_exit(1);
		if (!fork()) {
			close(s);
			_exit(!end_put(c, 1 << 20, 0));
		}
		close(c);
		/* about when what is unread is copied */
		usleep(200000 * l5_slow() + i * 5000);
		_exit(end_drain(s, 0, &err) != 1 << 20 || err);
	}
	for (i = 0; i < PAIRS; i++)
		EXPECT_EQ(0, l5_reap(pid[i]));
}

/* A peer that is gone has left what is unread: it is read, and given back. */
TEST_F_TIMEOUT(limit_spill, peer_gone, 120)
{
	long long before;
	int i;

	OPEN();
	before = l5_stat("rings_kb");
	ASSERT_EQ(SOME, end_put_polled(self->s.c, 0, SOME, SOON));
	EXPECT_TRUE(all_here(self->s.s, SOME));
	shut(&self->s.c);
	/* until its wire is gone */
	EXPECT_TRUE(L5_UNTIL(l5_stat("rdma_now") < 2, SOON));
	for (i = 0; i < 2; i++)
		ASSERT_TRUE(end_get(self->s.s, SOME / 2, i * SOME / 2));
	EXPECT_TRUE(L5_UNTIL(l5_stat("rings_kb") < before + 50, SOON)) {
		TH_LOG("%lld KiB, not %lld", l5_stat("rings_kb"), before);
	}
}

/* A ring that is full is readable, whatever was copied once. */
TEST_F_TIMEOUT(limit_spill, lowat, 120)
{
	size_t n;

	OPEN();
	ASSERT_EQ(SOME, end_put_polled(self->s.c, 0, SOME, SOON));
	ASSERT_TRUE(end_get(self->s.s, SOME, 0));
	ASSERT_TRUE(end_exchange(self->s.c, self->s.s, 1000, 0));
	ASSERT_LE(0, l5_sysctl("grow_ms", 0));
	ASSERT_EQ(0, setsockopt(self->s.s, SOL_SOCKET, SO_RCVLOWAT,
				&(int){ 300000 }, sizeof(int)));
	n = end_put_polled(self->s.c, 0, MUCH, 500);
	EXPECT_GE(RING, n);
	EXPECT_TRUE(end_poll(self->s.s, POLLIN) & POLLIN);
	ASSERT_EQ(0, setsockopt(self->s.s, SOL_SOCKET, SO_RCVLOWAT,
				&(int){ 1 }, sizeof(int)));
	ASSERT_TRUE(end_get(self->s.s, n, 0));
}

/* A writer that has set its size has the reader's room beside it. */
TEST_F_TIMEOUT(limit_spill, sndbuf, 120)
{
	OPEN();
	ASSERT_EQ(0, setsockopt(self->s.c, SOL_SOCKET, SO_SNDBUF,
				&(int){ 65536 }, sizeof(int)));
	EXPECT_EQ(SOME, end_put_polled(self->s.c, 0, SOME, SOON));
	ASSERT_TRUE(end_get(self->s.s, SOME, 0));
}

/* A reader that closes has not read what was copied: its peer is told. */
TEST_F_TIMEOUT(limit_spill, closed, 120)
{
	char b[100];

	OPEN();
	ASSERT_EQ(SOME, end_put_polled(self->s.c, 0, SOME, SOON));
	EXPECT_TRUE(all_here(self->s.s, SOME));
	shut(&self->s.s);
	/* as TCP: a reset */
	EXPECT_TRUE(end_poll(self->s.c, POLLIN));
	EXPECT_EQ(-1, recv(self->s.c, b, sizeof(b), 0));
	EXPECT_EQ(ECONNRESET, errno);
}

/* A size that a program has set is what the kernel keeps of it, or more. */
TEST_F_TIMEOUT(limit_spill, told, 200)
{
	long was;
	size_t n;

	ONCE();
	OPEN();
	ASSERT_EQ(0, setsockopt(self->s.s, SOL_SOCKET, SO_RCVBUF,
				&(int){ RING }, sizeof(int)));
	n = end_put_polled(self->s.c, 0, MUCH, NEVER);
	EXPECT_LT(RING, n);
	EXPECT_GE(2 * RING, n);
	shut(&self->s.c);
	shut(&self->s.s);
	shut(&self->s.l);

	was = l5_sysctl("ring_max_kb", 256);
	ASSERT_LE(0, was);
	OPEN();
	EXPECT_GE(RING, end_put_polled(self->s.c, 0, MUCH, NEVER));
	ASSERT_EQ(256, l5_sysctl("ring_max_kb", was));
	shut(&self->s.c);
	shut(&self->s.s);
	shut(&self->s.l);

	ASSERT_LE(0, l5_sysctl("grow_ms", 0));
	OPEN();
	n = end_put_polled(self->s.c, 0, MUCH, NEVER);
	EXPECT_GE(RING, n);
	/* the writer asks again, and is heard */
	ASSERT_EQ(0, l5_sysctl("grow_ms", 200));
	EXPECT_EQ(SOME, n + end_put_polled(self->s.c, n, SOME - n, SOON));
	ASSERT_TRUE(end_get(self->s.s, SOME, 0));
}

/* It has an end, and once the reader has passed that it is as before. */
TEST_F_TIMEOUT(limit_spill, full, 200)
{
	long long before;
	size_t n;
	int i;

	ONCE();
	OPEN();
	before = l5_stat("rings_kb");
	for (i = 0; i < 2; i++) {
		n = end_put_polled(self->s.c, 0, 8 << 20, NEVER);
		EXPECT_LT(SOME, n);
		EXPECT_GE(4 << 20, n);
		EXPECT_LT(before + (SOME >> 10), l5_stat("rings_kb"));
		ASSERT_TRUE(end_get(self->s.s, n, 0));
		/* no more than what it takes to map both ends */
		EXPECT_TRUE(L5_UNTIL(l5_stat("rings_kb") < before + 50, SOON)) {
			TH_LOG("%lld KiB", l5_stat("rings_kb"));
		}
		ASSERT_TRUE(end_exchange(self->s.c, self->s.s, SOME, i));
	}
}

/* Without memory for it the writer waits, as it did, until there is some. */
TEST_F_TIMEOUT(limit_spill, no_memory, 200)
{
	long was;
	size_t n;

	ONCE();
	OPEN();
	was = l5_sysctl("mem_max_kb", l5_stat("reserved_kb") + 300);
	ASSERT_LE(0, was);
	n = end_put_polled(self->s.c, 0, SOME, 2 * NEVER);
	EXPECT_GE(RING + (300 << 10), n);
	EXPECT_TRUE(l5_sysctl("mem_max_kb", was) >= 0);
	EXPECT_EQ(SOME, n + end_put_polled(self->s.c, n, SOME - n, SOON));
	ASSERT_TRUE(end_get(self->s.s, SOME, 0));
	ASSERT_TRUE(end_exchange(self->s.c, self->s.s, SOME, 0));
}

/* A reader that has mapped its end is the kernel's from then on. */
TEST_F_TIMEOUT(limit_spill, mapped, 120)
{
	static char buf[70000];
	uint64_t got = 0;
	struct mapping m;
	ssize_t len;

	SKIP_IF_MAPPED();
	OPEN();
	ASSERT_EQ(0, mapping_open(&m, self->s.s));
	ASSERT_EQ(SOME, end_put_polled(self->s.c, 0, SOME, SOON));
	EXPECT_TRUE(mapping_flag_comes(&m, L5_MAP_GONE));
	/* what it sees is nothing, and what it says about itself is its loss */
	for (len = 0; len < m.rx_size && !m.rx[len]; len++)
		;
	EXPECT_EQ(m.rx_size, len);
	while (got < SOME) {
		len = mapping_recv(&m, buf, sizeof(buf), 0);
		ASSERT_LT(0, len);
		ASSERT_EQ(-1, l5_check(buf, len, got));
		got += len;
	}
	ASSERT_TRUE(end_exchange(self->s.c, self->s.s, 1 << 20, 0));
	mapping_close(&m);
	EXPECT_EQ(-EOPNOTSUPP, mapping_open(&m, self->s.s));
}

/* Processes still see the cursors: whatever they write there, calls end. */
TEST_F_TIMEOUT(limit_spill, lies, 200)
{
	static const uint64_t far[] = {
		1ULL << 62, -4096ULL, 8ULL << 20, 4096, 0,
	};
	static char b[1000];
	struct mapping m;
	pid_t pid;
	int i;

	SKIP_IF_MAPPED();
	for (i = 0; i < (int)ARRAY_SIZE(far); i++) {
		OPEN();
		ASSERT_EQ(0, mapping_open(&m, self->s.s));
		ASSERT_EQ(1 << 20, end_put_polled(self->s.c, 0, 1 << 20, SOON));
		l5_store(&m.own->rx_head, far[i]);
		l5_store(&m.own->rx_pos, far[i]);
		end_put_polled(self->s.c, 0, 1 << 20, 700);
		fflush(NULL);
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			while (recv(self->s.s, b, sizeof(b), MSG_DONTWAIT) > 0)
				;
			_exit(0);
		}
		EXPECT_EQ(0, l5_reap(pid))
			TH_LOG("%llx", (unsigned long long)far[i]);
		mapping_close(&m);
		shut(&self->s.c);
		shut(&self->s.s);
		shut(&self->s.l);
		EXPECT_TRUE(end_stat_reaches("rings_kb", 0));
	}
}

TEST_HARNESS_MAIN
