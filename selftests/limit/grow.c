// SPDX-License-Identifier: GPL-2.0
/*
 * What a program may send before anybody reads: as much as TCP takes, by calls
 * that wait and by poll(); and what it then costs, for how long.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "limit_ends.h"
#include "mapping.h"

/* More than both rings hold, and less than TCP's buffers do. */
#define MUCH	(3 << 20)
/* So much a writer that asks poll() gets rid of: a ring that is half full. */
#define SOME	(2 << 20)
#define SOON	(10000 * l5_slow())
/* longer than a ring takes to grow */
#define NEVER	1500

/* A test that maps by itself. */
#define SKIP_IF_MAPPED()						\
	do {								\
		if (getenv("L5_FULL"))					\
			SKIP(return, "this end is mapped at once");	\
	} while (0)

LIMIT_FIXTURE(limit_grow)

/* A process that sends back what comes, with its own end alone. */
static pid_t echo(int s, int other)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid)
		return pid;
	close(other);
	_exit(end_echo(s));
}

static void echoes(struct __test_metadata *_metadata, int c, int s)
{
	pid_t pid = echo(s, c);

	close(s);
	/* a sender that waits for good is ended by the test's time-out */
	EXPECT_TRUE(end_put(c, MUCH, 0));
	EXPECT_TRUE(end_get(c, MUCH, 0));
	close(c);
	EXPECT_EQ(0, l5_reap(pid));
}

TEST_F_TIMEOUT(limit_grow, echo_tcp, 120)
{
	struct addr to = addr_parse("127.0.0.1:0");
	int l = end_listen(END_TCP, &to), c;

	ASSERT_LE(0, l);
	c = end_connect(END_TCP, &to);
	ASSERT_LE(0, c);
	echoes(_metadata, c, accept(l, NULL, NULL));
	close(l);
}

TEST_F_TIMEOUT(limit_grow, echo, 120)
{
	int c, s;

	ASSERT_TRUE(open_pair(self->listener, &self->to, &c, &s));
	echoes(_metadata, c, s);
}

/* A writer that waits for room uses what there is, if it is not little. */
TEST_F_TIMEOUT(limit_grow, no_room_lost, 120)
{
	const size_t some = 1 << 20, all = 6 << 20;
	pid_t pid;
	int c, s;

	ASSERT_TRUE(open_pair(self->listener, &self->to, &c, &s));
	fflush(NULL);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid)
		_exit(!end_put(c, all, 0));
	EXPECT_TRUE(L5_UNTIL(end_unread(s) > (4 << 20) - (200 << 10), SOON));
	/* a reader that takes less than half, and then waits for the rest */
	ASSERT_TRUE(end_get(s, some, 0));
	EXPECT_TRUE(L5_UNTIL(end_unread(s) > (4 << 20) - (200 << 10), SOON)) {
		TH_LOG("%d", end_unread(s));
	}
	EXPECT_TRUE(end_get(s, all - some, some));
	EXPECT_EQ(0, l5_reap(pid));
	close(c);
	close(s);
}

static size_t polled(int fd, size_t most, int ms)
{
	return end_put_polled(fd, 0, most, ms);
}

TEST_F_TIMEOUT(limit_grow, polled, 120)
{
	int c, s, err;

	ASSERT_TRUE(open_pair(self->listener, &self->to, &c, &s));
	ASSERT_EQ(SOME, polled(c, SOME, SOON));
	/* what is unread has its place in the longer ring, to the last byte */
	close(c);
	EXPECT_EQ(SOME, end_drain(s, 0, &err));
	EXPECT_EQ(0, err);
	close(s);
}

/* Fill a ring to the last byte: a long send alone leaves much of it free. */
static size_t brim(int fd, uint64_t pos)
{
	static char buf[30000];
	size_t len, done = 0;
	ssize_t n;

	for (len = sizeof(buf); len; len = len > 8 ? 8 : 0)
		do {
			l5_fill(buf, len, pos + done);
			n = send(fd, buf, len, MSG_DONTWAIT);
			done += n > 0 ? n : 0;
		} while (n > 0);
	return done;
}

/*
 * A ring that was full, and read, at any place: its end lies in the page of its
 * beginning then.
 */
TEST_F_TIMEOUT(limit_grow, anywhere, 200)
{
	static char b[30000];
	uint64_t rnd = 12345;
	int c, s, err, i;

	for (i = 0; i < 12; i++) {
		uint64_t pos = 0, at = 0;
		size_t n, most = sizeof(b);

		ASSERT_LE(0, l5_sysctl("grow_ms", 0));
		ASSERT_TRUE(open_pair(self->listener, &self->to, &c, &s));
		/* some rounds through the ring, which is full each time */
		while (pos < (1 << 20)) {
			n = 1 + l5_rnd(&rnd) % most;
			l5_fill(b, n, pos);
			err = send(c, b, n, MSG_DONTWAIT);
			if (err > 0) {
				pos += err;
				continue;
			}
			ASSERT_EQ(EAGAIN, errno);
			/* to the brim: a long one leaves much of it free */
			most = most == sizeof(b) ? 100 : sizeof(b);
			if (most == 100)
				continue;
			n = 1 + l5_rnd(&rnd) % 200000;
			if (n > pos - at)
				n = pos - at;
			ASSERT_TRUE(end_get(s, n, at));
			at += n;
		}
		/* the reader in the middle of a page, and the ring full */
		n = 1 + l5_rnd(&rnd) % 20000;
		if (n > pos - at)
			n = pos - at;
		ASSERT_TRUE(end_get(s, n, at));
		at += n;
		pos += brim(c, pos);
		ASSERT_EQ(0, l5_sysctl("grow_ms", 50));
		n = SOME - (300 << 10);
		ASSERT_EQ(n, end_put_polled(c, pos, n, SOON));
		EXPECT_EQ(4 << 20, info_of(c).tx_size);
		close(c);
		EXPECT_EQ(pos + n, at + end_drain(s, at, &err));
		EXPECT_EQ(0, err);
		close(s);
	}
}

/* Fill a ring, and have it read just when it grows. */
static int read_late(int c, int s, unsigned int us)
{
	const size_t least = 256 << 10, all = 1 << 20;
	int64_t got;
	size_t put;
	pid_t pid;
	int err;

	put = polled(c, least, 0);
	pid = fork();
	if (!pid) {
		close(s);
		_exit(!end_put(c, all - put, put));
	}
	close(c);
	usleep(us);
	got = end_drain(s, 0, &err);
	return l5_reap(pid) || got != (int64_t)all || err;
}

TEST_F_TIMEOUT(limit_grow, as_it_is_read, 200)
{
	enum { PAIRS = 50 };
	pid_t pid[PAIRS];
	int c, s, i;

	fflush(NULL);
	for (i = 0; i < PAIRS; i++) {
		ASSERT_TRUE(open_pair(self->listener, &self->to, &c, &s));
		pid[i] = fork();
		ASSERT_LE(0, pid[i]);
		if (!pid[i])
			_exit(read_late(c, s, 190000 + i * 1000));
		close(c);
		close(s);
	}
	for (i = 0; i < PAIRS; i++)
		EXPECT_EQ(0, l5_reap(pid[i]));
	EXPECT_TRUE(end_stat_reaches("rings_kb", 0));
}

/* A server that has not accepted has no reader, either. */
TEST_F_TIMEOUT(limit_grow, not_accepted, 120)
{
	int c = end_connect(END_L5, &self->to), s, err;

	ASSERT_LE(0, c);
	ASSERT_EQ(SOME, polled(c, SOME, SOON));
	s = accept(self->listener, NULL, NULL);
	ASSERT_LE(0, s);
	close(c);
	EXPECT_EQ(SOME, end_drain(s, 0, &err));
	EXPECT_EQ(0, err);
	close(s);
}

/* A size that a program or an administrator has said is the size. */
TEST_F_TIMEOUT(limit_grow, told, 120)
{
	long max, size = 100000;
	int c, s;

	ASSERT_TRUE(open_pair(self->listener, &self->to, &c, &s));
	ASSERT_EQ(0, setsockopt(c, SOL_SOCKET, SO_SNDBUF, &(int){ size },
				sizeof(int)));
	EXPECT_GE(2 * size, (long)polled(c, MUCH, NEVER));
	close(c);
	close(s);

	max = l5_sysctl("ring_max_kb", 256);
	ASSERT_LE(0, max);
	ASSERT_TRUE(open_pair(self->listener, &self->to, &c, &s));
	EXPECT_GE(256 << 10, polled(c, MUCH, NEVER));
	close(c);
	close(s);
	ASSERT_EQ(256, l5_sysctl("ring_max_kb", max));

	max = l5_sysctl("grow_ms", 0);
	ASSERT_LE(0, max);
	ASSERT_TRUE(open_pair(self->listener, &self->to, &c, &s));
	size = polled(c, MUCH, NEVER);
	EXPECT_GE(256 << 10, size);
	/* a writer that asks again hears of it */
	ASSERT_EQ(0, l5_sysctl("grow_ms", max));
	EXPECT_LT(SOME, size + end_put_polled(c, size, SOME, SOON));
	close(c);
	close(s);
}

/* A reader that is slow, and reads, needs no more. */
TEST_F_TIMEOUT(limit_grow, not_while_read, 120)
{
	struct pollfd p = { .events = POLLOUT };
	static char b[50000];
	int c, s, i;

	/* longer than a busy machine may keep the reader from its reading */
	ASSERT_LE(0, l5_sysctl("grow_ms", 1000));
	ASSERT_TRUE(open_pair(self->listener, &self->to, &c, &s));
	p.fd = c;
	/* one record, of which few bytes at a time are read */
	while (send(c, b, sizeof(b), MSG_DONTWAIT) > 0)
		;
	for (i = 0; i < 50; i++) {
		EXPECT_EQ(0, poll(&p, 1, 50));
		ASSERT_EQ(10, recv(s, b, 10, 0));
	}
	EXPECT_EQ(256 << 10, info_of(c).tx_size);
	close(c);
	close(s);
}

/* A page that a reader has pinned keeps no other one from being given back. */
TEST_F_TIMEOUT(limit_grow, pinned, 120)
{
	enum { PINS = 3 };
	struct mapping m;
	struct iovec v;
	int c, s, i, p[2];

	SKIP_IF_MAPPED();
	ASSERT_LE(0, l5_sysctl("idle_ms", 200));
	ASSERT_EQ(0, pipe(p));
	ASSERT_TRUE(open_pair(self->listener, &self->to, &c, &s));
	ASSERT_EQ(0, mapping_open(&m, s));
	for (i = 0; i < PINS; i++) {
		v.iov_base = (char *)m.rx + 2 * i * MAP_PAGE;
		v.iov_len = MAP_PAGE;
		ASSERT_EQ(MAP_PAGE, vmsplice(p[1], &v, 1, SPLICE_F_NONBLOCK));
	}
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(SOME, polled(c, SOME, SOON));
		EXPECT_LE(SOME >> 10, l5_stat("rings_kb"));
		ASSERT_TRUE(end_get(s, SOME, 0));
		EXPECT_TRUE(L5_UNTIL(l5_stat("rings_kb") < 300, SOON)) {
			TH_LOG("%lld KiB", l5_stat("rings_kb"));
		}
	}
	mapping_close(&m);
	close(p[0]);
	close(p[1]);
	close(c);
	close(s);
}

/* What the long ring took is given back once it is idle; a few pages stay. */
TEST_F_TIMEOUT(limit_grow, gives_back, 120)
{
	int c, s, i;
	size_t n;

	ASSERT_LE(0, l5_sysctl("idle_ms", 200));
	ASSERT_TRUE(open_pair(self->listener, &self->to, &c, &s));
	ASSERT_EQ(SOME, polled(c, SOME, SOON));
	EXPECT_LE(SOME >> 10, l5_stat("rings_kb"));
	ASSERT_TRUE(end_get(s, SOME, 0));
	EXPECT_TRUE(L5_UNTIL(l5_stat("rings_kb") < 300, SOON)) {
		TH_LOG("%lld KiB", l5_stat("rings_kb"));
	}
	EXPECT_TRUE(L5_UNTIL(l5_stat("reserved_kb") < 300, SOON));
	/* and it is as long as before, as often as it takes, to the brim */
	for (i = 0; i < 4; i++) {
		n = brim(c, 0);
		EXPECT_LT(4 << 20, n + (20 << 10));
		ASSERT_TRUE(end_get(s, n, 0));
		/* on to another place, without a page that is new */
		ASSERT_TRUE(end_exchange(c, s, i * 1500000, n));
		EXPECT_TRUE(L5_UNTIL(l5_stat("rings_kb") < 300, SOON)) {
			TH_LOG("%lld KiB", l5_stat("rings_kb"));
		}
		ASSERT_TRUE(end_exchange(c, s, 300000, SOME));
	}
	close(c);
	close(s);
	EXPECT_TRUE(end_stat_reaches("rings_kb", 0));
}

/* A ring that has grown is mapped as what it is, with what is unread in it. */
TEST_F_TIMEOUT(limit_grow, then_mapped, 120)
{
	static char buf[70000];
	struct mapping m;
	size_t got = 0;
	ssize_t n;
	int c, s;

	SKIP_IF_MAPPED();
	ASSERT_TRUE(open_pair(self->listener, &self->to, &c, &s));
	ASSERT_EQ(SOME, polled(c, SOME, SOON));
	ASSERT_EQ(0, mapping_open(&m, s));
	EXPECT_EQ(4 << 20, m.rx_size);
	EXPECT_EQ(256 << 10, m.tx_size);
	while (got < SOME) {
		n = mapping_get(&m, buf, sizeof(buf));
		ASSERT_LT(0, n);
		ASSERT_EQ(-1, l5_check(buf, n, got));
		got += n;
	}
	ASSERT_TRUE(end_exchange(c, s, 1 << 20, SOME));
	mapping_close(&m);
	close(c);
	close(s);
}

/* A long ring that was full, and is idle elsewhere: nothing is read there. */
TEST_F_TIMEOUT(limit_grow, idle_elsewhere, 200)
{
	struct mapping m;
	int c, s, i;
	char b[100];
	size_t n;

	SKIP_IF_MAPPED();
	ASSERT_LE(0, l5_sysctl("idle_ms", 100));
	for (i = 0; i < 8; i++) {
		ASSERT_TRUE(open_pair(self->listener, &self->to, &c, &s));
		ASSERT_EQ(SOME, polled(c, SOME, SOON));
		n = SOME + brim(c, SOME);
		EXPECT_LT(4 << 20, n + (20 << 10));
		ASSERT_TRUE(end_get(s, n, 0));
		/* on to another place, with each page that there is */
		ASSERT_TRUE(end_exchange(c, s, 500000 + i / 2 * 4096, n));
		EXPECT_TRUE(L5_UNTIL(l5_stat("rings_kb") < 600, SOON));
		if (i & 1)
			ASSERT_EQ(0, mapping_open(&m, i & 2 ? c : s));
		EXPECT_EQ(0, end_unread(s));
		EXPECT_EQ(-1, recv(s, b, sizeof(b), MSG_DONTWAIT));
		EXPECT_EQ(EAGAIN, errno);
		EXPECT_TRUE(end_exchange(c, s, 100000, 0));
		if (i & 1)
			mapping_close(&m);
		close(c);
		close(s);
		EXPECT_TRUE(end_stat_reaches("rings_kb", 0));
	}
}

/* A ring that is mapped is the kernel's alone once it has grown. */
TEST_F_TIMEOUT(limit_grow, mapped, 120)
{
	static char buf[70000];
	uint64_t got = 0, pos = 0;
	struct mapping m, n;
	ssize_t len;
	int c, s;

	SKIP_IF_MAPPED();
	ASSERT_TRUE(open_pair(self->listener, &self->to, &c, &s));
	ASSERT_EQ(0, mapping_open(&m, c));
	ASSERT_EQ(0, mapping_open(&n, s));
	/* by its mapping as long as there is room, then as poll() says */
	do {
		l5_fill(buf, 1000, pos);
		len = mapping_put(&m, buf, 1000);
		pos += len > 0 ? len : 0;
	} while (len > 0);
	EXPECT_LT(100000, pos);
	pos += end_put_polled(c, pos, SOME, SOON);
	EXPECT_EQ(4 << 20, info_of(c).tx_size);
	EXPECT_LT(SOME, pos);
	/* the reader is told to ask; what it sees is nothing */
	EXPECT_TRUE(mapping_flag_comes(&n, L5_MAP_GONE));
	EXPECT_TRUE(mapping_flag_comes(&m, L5_MAP_GONE));
	for (len = 0; len < n.rx_size && !n.rx[len]; len++)
		;
	EXPECT_EQ(n.rx_size, len);
	EXPECT_EQ(0, mapping_get(&n, buf, sizeof(buf)));
	while (got < pos) {
		len = mapping_recv(&n, buf, sizeof(buf), 0);
		ASSERT_LT(0, len);
		ASSERT_EQ(-1, l5_check(buf, len, got));
		got += len;
	}
	/* the other way, too */
	l5_fill(buf, 1000, 0);
	EXPECT_EQ(1000, mapping_send(&n, buf, 1000, 0));
	EXPECT_EQ(1000, mapping_recv(&m, buf, sizeof(buf), 0));
	EXPECT_EQ(-1, l5_check(buf, 1000, 0));
	ASSERT_TRUE(end_exchange(c, s, 1 << 20, 0));
	mapping_close(&m);
	EXPECT_EQ(-EOPNOTSUPP, mapping_open(&m, c));
	mapping_close(&n);
	close(c);
	close(s);
}

/* A process that holds the reader's word keeps the ring as it is. */
TEST_F_TIMEOUT(limit_grow, held, 120)
{
	struct mapping m;
	int c, s, err;

	SKIP_IF_MAPPED();
	ASSERT_TRUE(open_pair(self->listener, &self->to, &c, &s));
	ASSERT_EQ(0, mapping_open(&m, s));
	ASSERT_LT(0, mapping_lock(&m, L5_LOCK_RX));
	EXPECT_GE(256 << 10, polled(c, MUCH, NEVER));
	EXPECT_EQ(256 << 10, info_of(c).tx_size);
	mapping_unlock(&m, L5_LOCK_RX);
	EXPECT_TRUE(L5_UNTIL(info_of(c).tx_size == 4 << 20, SOON));
	mapping_close(&m);
	close(c);
	EXPECT_LT(0, end_drain(s, 0, &err));
	EXPECT_EQ(0, err);
	close(s);
}

/* What holds the word is dead, or was never there: that keeps nothing. */
TEST_F_TIMEOUT(limit_grow, not_held, 120)
{
	struct mapping m;
	int c, s, i;
	pid_t pid;

	SKIP_IF_MAPPED();
	for (i = 0; i < 4; i++) {
		int which = i & 1 ? L5_LOCK_TX : L5_LOCK_RX;

		ASSERT_TRUE(open_pair(self->listener, &self->to, &c, &s));
		fflush(NULL);
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			if (mapping_open(&m, which == L5_LOCK_TX ? c : s))
				_exit(1);
			if (i & 2)
				l5_store(which == L5_LOCK_TX ? &m.own->tx_lock :
					 &m.own->rx_lock, 12345);
			else if (mapping_lock(&m, which) <= 0)
				_exit(2);
			kill(getpid(), SIGKILL);
		}
		EXPECT_EQ(SIGKILL, l5_reap(pid));
		EXPECT_EQ(SOME, polled(c, SOME, SOON));
		EXPECT_EQ(4 << 20, info_of(c).tx_size);
		ASSERT_TRUE(end_get(s, SOME, 0));
		close(c);
		close(s);
	}
}

/* Processes still see the cursors: whatever they write there, calls end. */
TEST_F_TIMEOUT(limit_grow, lies, 120)
{
	static const uint64_t far[] = {
		1ULL << 62, -4096ULL, 1ULL << 33, 8ULL << 20, 4096, 0,
	};
	static char b[1000];
	struct mapping m, n;
	int c, s, i;
	pid_t pid;

	SKIP_IF_MAPPED();
	for (i = 0; i < (int)ARRAY_SIZE(far); i++) {
		ASSERT_TRUE(open_pair(self->listener, &self->to, &c, &s));
		ASSERT_EQ(0, mapping_open(&m, c));
		ASSERT_EQ(0, mapping_open(&n, s));
		ASSERT_EQ(300 << 10, polled(c, 300 << 10, SOON));
		EXPECT_EQ(4 << 20, info_of(c).tx_size);
		l5_store(&m.own->tx_tail, far[i]);
		l5_store(&n.own->rx_head, far[i]);
		l5_store(&n.own->rx_pos, far[i]);
		fflush(NULL);
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			while (send(c, b, sizeof(b), MSG_DONTWAIT |
				    MSG_NOSIGNAL) > 0)
				;
			while (recv(s, b, sizeof(b), MSG_DONTWAIT) > 0)
				;
			_exit(0);
		}
		EXPECT_EQ(0, l5_reap(pid))
			TH_LOG("%llx", (unsigned long long)far[i]);
		mapping_close(&m);
		mapping_close(&n);
		close(c);
		close(s);
		EXPECT_TRUE(end_stat_reaches("rings_kb", 0));
	}
}

TEST_HARNESS_MAIN
