// SPDX-License-Identifier: GPL-2.0
/*
 * Regions by libl5: memory that both ends have, and that a process which has
 * lost it does not take for what it was.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "ends.h"
#include "libl5_pair.h"
#include "regions.h"

#define PAGE		4096u
#define LEN		(21 * PAGE)

LIBL5_FIXTURE(libl5_region)

static int check_error(struct l5_region *r)
{
	return l5_region_check(r) ? errno : 0;
}

TEST_F(libl5_region, made_opened_ended)
{
	struct l5_region *c, *s;
	uint8_t *mine, *its;
	size_t len;

	c = l5_region_make(self->c, LEN - 5, true);
	ASSERT_NE(NULL, c);
	mine = l5_region_mem(c, &len);
	EXPECT_EQ(LEN, len);
	EXPECT_TRUE(l5_region_writable(c));
	EXPECT_TRUE(all_are(mine, LEN, 0));
	s = l5_region_open(self->s, l5_region_number(c));
	ASSERT_NE(NULL, s);
	its = l5_region_mem(s, NULL);
	EXPECT_EQ(l5_region_number(c), l5_region_number(s));
	EXPECT_TRUE(l5_region_writable(s));
	memset(its, 7, LEN);
	EXPECT_TRUE(all_are(mine, LEN, 7));
	EXPECT_EQ(0, check_error(c));
	EXPECT_EQ(0, check_error(s));

	/* only the end that has made it may take it */
	EXPECT_EQ(-1, l5_region_unshare(s));
	EXPECT_EQ(ENOENT, errno);
	EXPECT_EQ(0, l5_region_unshare(c));
	EXPECT_EQ(ESTALE, check_error(s));
	EXPECT_EQ(0, check_error(c));
	memset(its, 8, LEN);
	EXPECT_TRUE(all_are(mine, LEN, 7));
	EXPECT_EQ(NULL, l5_region_open(self->s, l5_region_number(c)));
	EXPECT_EQ(ENOENT, errno);
	EXPECT_EQ(0, l5_region_end(c));
	EXPECT_EQ(ESTALE, check_error(c));
	EXPECT_EQ(ESTALE, check_error(s));
	EXPECT_EQ(-1, l5_region_end(c));
	EXPECT_EQ(ENOENT, errno);
	l5_region_close(c);
	l5_region_close(s);
	l5_region_close(NULL);
}

TEST_F(libl5_region, read_only_and_refused)
{
	struct l5_region *c, *s;
	struct l5_stream *plain;
	int fd[2];

	c = l5_region_make(self->c, 1, false);
	ASSERT_NE(NULL, c);
	s = l5_region_open(self->s, l5_region_number(c));
	ASSERT_NE(NULL, s);
	EXPECT_FALSE(l5_region_writable(s));
	EXPECT_EQ(-1, mprotect(l5_region_mem(s, NULL), PAGE,
			       PROT_READ | PROT_WRITE));
	*(uint8_t *)l5_region_mem(c, NULL) = 3;
	EXPECT_EQ(3, *(uint8_t *)l5_region_mem(s, NULL));
	l5_region_close(s);
	l5_region_close(c);
	EXPECT_EQ(NULL, l5_region_make(self->c, 0, true));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(NULL, l5_region_make(self->c, 1ull << 40, true));
	EXPECT_EQ(EFBIG, errno);
	EXPECT_EQ(NULL, l5_region_open(self->c, 99999));
	EXPECT_EQ(ENOENT, errno);
	/* a connection that rings do not carry */
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, fd));
	plain = l5_map(fd[0]);
	ASSERT_NE(NULL, plain);
	EXPECT_EQ(NULL, l5_region_make(plain, 1, true));
	EXPECT_EQ(EOPNOTSUPP, errno);
	EXPECT_EQ(NULL, l5_region_open(plain, 2));
	EXPECT_EQ(EOPNOTSUPP, errno);
	l5_unmap(plain);
	close(fd[0]);
	close(fd[1]);
}

/* A region that is there is not lost with another one. */
TEST_F(libl5_region, others_stay)
{
	struct l5_region *a, *b, *s;

	a = l5_region_make(self->c, PAGE, true);
	b = l5_region_make(self->c, PAGE, true);
	ASSERT_TRUE(a && b);
	s = l5_region_open(self->s, l5_region_number(b));
	ASSERT_NE(NULL, s);
	EXPECT_EQ(0, l5_region_end(a));
	EXPECT_EQ(0, check_error(b));
	EXPECT_EQ(0, check_error(s));
	EXPECT_EQ(ESTALE, check_error(a));
	l5_region_close(a);
	l5_region_close(b);
	l5_region_close(s);
}

/* Also of an end that has no rings mapped, and asks by a call each time. */
TEST_F(libl5_region, without_rings)
{
	struct l5_region *c, *s;
	struct l5_stream *again;
	int status;
	pid_t pid;

	c = l5_region_make(self->c, LEN, true);
	ASSERT_NE(NULL, c);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		/* the parent's is not to be used, nor unmapped */
		void *mem = l5_region_mem(c, NULL);

		if (check_error(c) != ESTALE)
			_exit(1);
		if (mmap(mem, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE |
			 MAP_ANONYMOUS | MAP_FIXED, -1, 0) != mem)
			_exit(2);
		memset(mem, 1, LEN);
		s = l5_region_open(self->c, l5_region_number(c));
		l5_region_close(c);
		if (!s || !all_are(mem, LEN, 1))
			_exit(3);
		memset(l5_region_mem(s, NULL), 5, LEN);
		_exit(check_error(s));
	}
	status = l5_reap(pid);
	EXPECT_EQ(0, status);
	EXPECT_TRUE(all_are(l5_region_mem(c, NULL), LEN, 5));
	l5_unmap(self->s);
	again = l5_map(self->sfd);
	self->s = again;
	s = l5_region_open(again, l5_region_number(c));
	ASSERT_NE(NULL, s);
	EXPECT_EQ(0, check_error(s));
	EXPECT_EQ(0, l5_region_end(c));
	EXPECT_EQ(ESTALE, check_error(s));
	l5_region_close(s);
	l5_region_close(c);
}

TEST_F(libl5_region, closed)
{
	struct l5_region *c, *s;

	c = l5_region_make(self->c, LEN, true);
	s = l5_region_make(self->s, LEN, true);
	ASSERT_TRUE(c && s);
	l5_close(self->s);
	self->s = NULL;
	EXPECT_EQ(0, check_error(c));
	EXPECT_TRUE(L5_UNTIL(!*(volatile uint8_t *)l5_region_mem(s, NULL),
			     LONG_MS));
	l5_region_close(c);
	l5_region_close(s);
}

/* An end that sends numbers of regions it has filled, and takes them back. */
struct maker {
	struct l5_stream *c;
	volatile bool stop;
	unsigned long made;
};

static void *maker_run(void *arg)
{
	struct maker *m = arg;
	uint64_t seed = 1;
	uint32_t number;

	while (!m->stop) {
		struct l5_region *r = l5_region_make(m->c, LEN, true);

		if (!r)
			return "make";
		memset(l5_region_mem(r, NULL), 0x5a, LEN);
		number = l5_region_number(r);
		if (l5_send(m->c, &number, sizeof(number), 0) != sizeof(number))
			return "send";
		if (l5_rnd(&seed) % 4)
			usleep(l5_rnd(&seed) % 300);
		if (l5_rnd(&seed) % 2 && l5_region_unshare(r))
			return "unshare";
		if (l5_region_end(r))
			return "end";
		l5_region_close(r);
		m->made++;
	}
	number = 0;
	return l5_send(m->c, &number, sizeof(number), 0) == sizeof(number) ?
	       NULL : "end";
}

/*
 * What is read from a region that is taken away meanwhile is right, or the
 * reader is told.
 */
TEST_F_TIMEOUT(libl5_region, told_before_it_believes, 240)
{
	enum { ROUNDS = 3000 };
	struct maker m = { .c = self->c };
	unsigned long whole = 0, stale = 0, late = 0;
	uint8_t *copy = malloc(LEN);
	pthread_t t;
	void *said;

	ASSERT_NE(NULL, copy);
	ASSERT_EQ(0, pthread_create(&t, NULL, maker_run, &m));
	for (;;) {
		struct l5_region *r;
		uint32_t number;

		ASSERT_EQ((ssize_t)sizeof(number),
			  l5_recv(self->s, &number, sizeof(number),
				  MSG_WAITALL));
		if (!number)
			break;
		m.stop = whole + stale + late >= ROUNDS;
		r = l5_region_open(self->s, number);
		if (!r) {
			EXPECT_EQ(ENOENT, errno);
			late++;
			continue;
		}
		do {
			memcpy(copy, l5_region_mem(r, NULL), LEN);
			if (l5_region_check(r)) {
				EXPECT_EQ(ESTALE, errno);
				stale++;
				break;
			}
			whole++;
			EXPECT_TRUE(all_are(copy, LEN, 0x5a));
		} while (!m.stop);
		l5_region_close(r);
	}
	pthread_join(t, &said);
	EXPECT_EQ(NULL, said) {
		TH_LOG("%s: %s", (char *)said, strerror(errno));
	}
	TH_LOG("%lu whole, %lu stale, %lu late", whole, stale, late);
	free(copy);
}

TEST_HARNESS_MAIN
