// SPDX-License-Identifier: GPL-2.0
/*
 * Descriptors that ride with records, beside processes that have the rings
 * mapped, and do with them what they may not; see limit/files, too.
 */
#include <kselftest_harness.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ends.h"
#include "given.h"
#include "hole.h"
#include "mapping.h"
#include "pass.h"

FIXTURE(map_files)
{
	int fd[2];
};

FIXTURE_VARIANT(map_files)
{
	const char *at;
};

FIXTURE_VARIANT_ADD(map_files, inet)
{
	.at = "127.0.0.1:0",
};

FIXTURE_VARIANT_ADD(map_files, unix)
{
	.at = "abstract:map_files",
};

FIXTURE_VARIANT_ADD(map_files, packets)
{
	.at = "packets",
};

FIXTURE_SETUP(map_files)
{
	ASSERT_TRUE(map_begin(variant->at, 64, self->fd));
}

FIXTURE_TEARDOWN(map_files)
{
	(void)_metadata;
	close(self->fd[0]);
	close(self->fd[1]);
}

/* The flag on a record that nothing rides with is a violation. */
TEST_F(map_files, forged_flag)
{
	struct mapping m;
	char b[9];

	ASSERT_EQ(0, mapping_open(&m, self->fd[0]));
	ASSERT_EQ(3, mapping_put(&m, "abc", 3));
	/* of a stream, in parts */
	if (strcmp(variant->at, "packets")) {
		ASSERT_EQ(2, recv(self->fd[1], b, 2, 0));
		ASSERT_EQ(1, recv(self->fd[1], b, 2, 0));
	} else {
		ASSERT_EQ(3, recv(self->fd[1], b, 3, 0));
	}
	ASSERT_EQ(3, mapping_put(&m, "abc", 3));
	l5_store(mapping_slot(&m, l5_load(&m.own->tx_tail) - 16),
		 (__u64)L5_REC_VALID << 32 | L5_REC_FILES | 3);
	EXPECT_EQ(-1, recv(self->fd[1], b, sizeof(b), MSG_DONTWAIT));
	EXPECT_EQ(EPROTO, errno);
	EXPECT_NE(0, end_poll(self->fd[1], POLLIN) & (POLLERR | POLLHUP));
	mapping_close(&m);
}

/* A sharer that moved the cursor past some: never another's. */
TEST_F(map_files, moved_cursor)
{
	struct mapping m;
	uint32_t text;
	int got;

	if (!strchr(variant->at, 'a'))
		SKIP(return, "no descriptors over TCP");
	ASSERT_TRUE(given_number(self->fd[0], 1, 0));
	ASSERT_TRUE(given_number(self->fd[0], 2, 0));
	ASSERT_EQ(0, mapping_open(&m, self->fd[1]));
	l5_store(&m.own->rx_pos, l5_load(&m.own->rx_head) + 16);
	l5_store(&m.own->rx_head, l5_load(&m.own->rx_head) + 16);
	EXPECT_EQ(-1, fds_take(self->fd[1], &text, 4, &got, MSG_DONTWAIT));
	EXPECT_EQ(EPROTO, errno);
	mapping_close(&m);
}

/* And past all: the end comes, or an error, and none of them as bytes. */
TEST_F(map_files, moved_to_the_end)
{
	struct mapping m;
	char b[64];
	int got;

	if (!strchr(variant->at, 'a'))
		SKIP(return, "no descriptors over TCP");
	ASSERT_TRUE(given_number(self->fd[0], 1, 0));
	ASSERT_EQ(0, mapping_open(&m, self->fd[1]));
	l5_store(&m.own->rx_pos, l5_load(&m.own->rx_head) + 16);
	l5_store(&m.own->rx_head, l5_load(&m.own->rx_head) + 16);
	close(self->fd[0]);
	self->fd[0] = -1;
	EXPECT_EQ(-1, fds_take(self->fd[1], b, sizeof(b), &got, 0));
	EXPECT_EQ(EPROTO, errno);
	EXPECT_EQ(-1, got);
	mapping_close(&m);
}

/*
 * A peer takes back a record, or makes it empty, whose descriptor is under way:
 * a reader does not look for it for ever.
 */
TEST_F_TIMEOUT(map_files, taken_back, 60)
{
	const __u64 word[] = {
		0, (__u64)L5_REC_VALID << 32 | L5_REC_FILES,
	};
	struct mapping m;
	char b[64];
	size_t i;
	int got;

	if (!strchr(variant->at, 'a'))
		SKIP(return, "no descriptors over TCP");
	for (i = 0; i < ARRAY_SIZE(word); i++) {
		ASSERT_EQ(0, mapping_open(&m, self->fd[0]));
		ASSERT_TRUE(given_number(self->fd[0], 1, 0));
		l5_store(mapping_slot(&m, l5_load(&m.own->tx_tail) - 16),
			 word[i]);
		EXPECT_EQ(-1, fds_take(self->fd[1], b, sizeof(b), &got,
				       MSG_DONTWAIT));
		shutdown(self->fd[0], SHUT_WR);
		EXPECT_EQ(-1, fds_take(self->fd[1], b, sizeof(b), &got, 0));
		EXPECT_EQ(EPROTO, errno);
		EXPECT_EQ(-1, got);
		mapping_close(&m);
		ASSERT_TRUE(map_again(variant->at, self->fd));
	}
}

struct under_way {
	int fd;
	void *hole;
};

static void *gives_hole(void *arg)
{
	struct under_way *u = arg;
	int null = 1;

	end_give(u->fd, u->hole, 4, &null, 1, MSG_NOSIGNAL);
	return NULL;
}

/*
 * A peer has a send with a descriptor under way, and keeps its memory from it.
 * A reader that has come to the end does not wait, nor look again and again,
 * for that.
 */
TEST_F_TIMEOUT(map_files, under_way_for_ever, 120)
{
	struct under_way u = { .fd = self->fd[0] };
	struct mapping m;
	pthread_t t;
	char b[8];
	pid_t pid;
	int uffd;

	if (!strchr(variant->at, 'a'))
		SKIP(return, "no descriptors over TCP");
	u.hole = hole_map(MAP_PAGE, &uffd);
	if (!u.hole)
		SKIP(return, "no userfaultfd");
	/* what is queued has a record where the reader does not look */
	ASSERT_EQ(0, mapping_open(&m, self->fd[0]));
	l5_store(&m.own->tx_tail, l5_load(&m.own->tx_tail) + 64);
	ASSERT_TRUE(given_number(self->fd[0], 1, 0));
	ASSERT_TRUE(l5_wait_asleep(l5_thread_start(&t, NULL, gives_hole, &u)));
	/* the end, and not by a call that waits for the send */
	l5_store(&m.own->rx_head, l5_load(&m.own->rx_head) + 1);
	EXPECT_EQ(-1, recv(self->fd[0], b, sizeof(b), MSG_DONTWAIT));
	EXPECT_EQ(EPROTO, errno);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid)
		_exit(recv(self->fd[1], b, sizeof(b), 0) >= 0 ? 1 :
		      errno != EPROTO ? 2 : 0);
	EXPECT_EQ(0, l5_reap(pid));
	close(uffd);
	pthread_join(t, NULL);
	mapping_close(&m);
	ASSERT_TRUE(map_again(variant->at, self->fd));
}

/* A receive that fails leaves its caller no descriptors. */
TEST_F(map_files, nothing_installed)
{
	const __u64 files = (__u64)L5_REC_VALID << 32 | L5_REC_FILES | 4;
	const __u64 bare = (__u64)L5_REC_VALID << 32 | 4;
	int got, before, after, round;
	struct mapping m;
	uint32_t text;
	uint64_t at;

	if (!strchr(variant->at, 'a'))
		SKIP(return, "no descriptors over TCP");
	for (round = 0; round < 3; round++) {
		ASSERT_EQ(0, mapping_open(&m, self->fd[0]));
		at = l5_load(&m.own->tx_tail);
		ASSERT_TRUE(given_number(self->fd[0], 1, 0));
		ASSERT_EQ(4, mapping_put(&m, "next", 4));
		l5_store(mapping_slot(&m, at), bare);
		l5_store(mapping_slot(&m, at + 16), files);
		before = dup(0);
		close(before);
		ASSERT_EQ(4, fds_take(self->fd[1], &text, 4, &got, 0));
		ASSERT_EQ(-1, got);
		EXPECT_EQ(-1, fds_take(self->fd[1], &text, 4, &got, 0));
		EXPECT_EQ(EPROTO, errno);
		after = dup(0);
		close(after);
		EXPECT_EQ(before, after);
		mapping_close(&m);
		ASSERT_TRUE(map_again(variant->at, self->fd));
	}
}

/*
 * What credentials or descriptors come with is not for a sharer to write over,
 * whatever it has mapped, and when: neither in the ring, nor by a cursor.
 */
TEST_F(map_files, vouched_for)
{
	int one = 1, got, round;
	struct mapping m;
	uint64_t at;
	char b[16];

	if (!strchr(variant->at, 'a'))
		SKIP(return, "no descriptors over TCP");
	for (round = 0; round < 4; round++) {
		ASSERT_EQ(0, mapping_open(&m, self->fd[0]));
		if (round & 1) {
			ASSERT_EQ(0, setsockopt(self->fd[1], SOL_SOCKET,
						SO_PASSCRED, &one,
						sizeof(one)));
			EXPECT_TRUE(l5_load(&m.state->flags) & L5_MAP_TX_ASK);
		}
		at = l5_load(&m.own->tx_tail);
		got = given_make(7);
		ASSERT_EQ(4, end_give(self->fd[0], "true", 4, &got, 1, 0));
		close(got);
		memcpy(mapping_slot(&m, at) + 1, "lies", 4);
		/* one more at its place, of a sharer's that says so */
		if (round & 2) {
			l5_store(&m.own->tx_tail, at);
			send(self->fd[0], "lies", 4, MSG_DONTWAIT);
		}
		if (fds_take(self->fd[1], b, sizeof(b), &got, 0) > 0) {
			/* without what rides with the other, or that */
			EXPECT_EQ(0, memcmp(b, got < 0 ? "lies" : "true", 4));
			EXPECT_TRUE(round & 2 || got >= 0);
		} else {
			EXPECT_EQ(EPROTO, errno);
			EXPECT_TRUE(round & 2);
		}
		if (got >= 0)
			EXPECT_EQ(7, given_read(got));
		mapping_close(&m);
		ASSERT_TRUE(map_again(variant->at, self->fd));
	}
}

/* A program that does not say that it will ask for them maps no such ring. */
/* One thread has a receiver ask for the sender, and not. */
struct ask {
	int fd;
	bool stop;
};

static void *asks(void *arg)
{
	struct ask *a = arg;
	int on = 0;

	while (!__atomic_load_n(&a->stop, __ATOMIC_RELAXED)) {
		on = !on;
		setsockopt(a->fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
	}
	return NULL;
}

/* A record of a sharer's that goes on writing when it is told not to. */
static void lie(struct mapping *m)
{
	uint64_t at = l5_load(&m->own->tx_tail);

	l5_store(mapping_slot(m, at + 16), 0);
	memcpy(mapping_slot(m, at) + 1, "lies", 4);
	l5_store_release(mapping_slot(m, at), (uint64_t)L5_REC_VALID << 32 | 4);
	l5_store_release(&m->own->tx_tail, at + 16);
}

/*
 * A receive that has bytes of a sharer's when another thread has it ask is not
 * told that they are of the task that sent the next ones.
 */
TEST_F_TIMEOUT(map_files, asked_beside, 120)
{
	struct ask a = { .fd = self->fd[1] };
	int64_t end = l5_now_ms() + 3000;
	long told = 0, lies = 0;
	struct mapping m;
	pthread_t t;
	pid_t pid;
	char b[64];
	ssize_t n, left;

	if (!strchr(variant->at, 'a'))
		SKIP(return, "no credentials over TCP");
	ASSERT_EQ(0, mapping_open(&m, self->fd[0]));
	ASSERT_EQ(0, pthread_create(&t, NULL, asks, &a));
	while (l5_now_ms() < end) {
		lie(&m);
		ASSERT_EQ(4, creds_give(self->fd[0], "TRUE", 4, 0));
		for (left = 8; left > 0; left -= n) {
			n = creds_take(self->fd[1], b, sizeof(b), &pid, 0);
			ASSERT_LT(0, n);
			told += pid == getpid() && !memcmp(b, "TRUE", 4);
			lies += pid == getpid() && !memcmp(b, "lies", 4);
		}
	}
	__atomic_store_n(&a.stop, true, __ATOMIC_RELAXED);
	ASSERT_EQ(0, pthread_join(t, NULL));
	EXPECT_EQ(0, lies);
	EXPECT_LT(0, told);
	mapping_close(&m);
}

TEST_F(map_files, feature)
{
	struct l5_map_info info = { .size = sizeof(info) };
	bool un = strchr(variant->at, 'a');
	uint64_t has = un ? L5_REC_FILES : 0;
	int ret = ioctl(self->fd[0], L5_IOC_MAP_INFO, &info);

	if (!strcmp(variant->at, "packets"))
		has |= L5_MAP_MESSAGES;
	EXPECT_EQ(un ? -1 : 0, ret);
	if (un)
		EXPECT_EQ(EPROTONOSUPPORT, errno);
	EXPECT_EQ(has, info.features);
	info = (struct l5_map_info){ .size = sizeof(info),
				     .features = ~0ull };
	EXPECT_EQ(0, ioctl(self->fd[0], L5_IOC_MAP_INFO, &info));
	EXPECT_EQ(has, info.features);
}

/* Mapped readers and writers at both ends, beside system calls that pass */
TEST_F_TIMEOUT(map_files, mixed, 300)
{
	const uint32_t all = 4000;
	struct mapping w, r;
	uint32_t i, text;
	pid_t pid;
	int got;

	if (!strchr(variant->at, 'a'))
		SKIP(return, "no descriptors over TCP");
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		if (mapping_open(&w, self->fd[0]))
			_exit(1);
		for (i = 0; i < all; i++) {
			if (i % 5 == 0 ?
			    !given_number(self->fd[0], i, 0) :
			    mapping_send(&w, &i, 4, 0) != 4)
				_exit(2);
		}
		_exit(0);
	}
	ASSERT_EQ(0, mapping_open(&r, self->fd[1]));
	for (i = 0; i < all; i++) {
		/* by the ring, which has none; then by the kernel */
		if (i % 5 == 0) {
			while (end_poll(self->fd[1], POLLIN) == 0)
				;
			ASSERT_EQ(0, mapping_get(&r, &text, 4));
			ASSERT_EQ(4, fds_take(self->fd[1], &text, 4, &got, 0));
			ASSERT_EQ(i, given_read(got));
		} else {
			ASSERT_EQ(4, mapping_recv(&r, &text, 4, 0));
		}
		ASSERT_EQ(i, text);
	}
	EXPECT_LT(100, r.gets);
	EXPECT_EQ(0, l5_reap(pid));
	mapping_close(&r);
}

TEST_HARNESS_MAIN
