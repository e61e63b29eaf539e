// SPDX-License-Identifier: GPL-2.0
/*
 * Memory beside the rings that both ends can map: what each may do with it, and
 * that an end that has lost it neither sees nor changes it any more. A SIGBUS
 * anywhere ends the program, so there is none.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "map_pair.h"
#include "regions.h"

#ifndef MADV_DOFORK
#define MADV_DOFORK	11
#endif

/* Pages of the regions here: more than a fault fills in, and an odd number. */
#define PAGES		37
#define LEN		((size_t)PAGES * MAP_PAGE)

#define PROT_RW		(PROT_READ | PROT_WRITE)

FIXTURE(map_region)
{
	int fd[2];
};

FIXTURE_VARIANT(map_region)
{
	const char *at;
};

FIXTURE_VARIANT_ADD(map_region, inet) { .at = "127.0.0.1:0" };
FIXTURE_VARIANT_ADD(map_region, unix) { .at = "abstract:l5_map_region" };
FIXTURE_VARIANT_ADD(map_region, packets) { .at = "packets" };

FIXTURE_SETUP(map_region)
{
	signal(SIGPIPE, SIG_IGN);
	ASSERT_TRUE(map_begin(variant->at, 64, self->fd));
}

FIXTURE_TEARDOWN(map_region)
{
	close(self->fd[0]);
	close(self->fd[1]);
}

/* A region that both ends have mapped */
struct both {
	struct l5_region_arg a;
	uint8_t *p[2];
};

static bool both_open(struct both *b, const int fd[2], int maker,
		      uint32_t access)
{
	struct l5_region_arg peer;
	int prot = access & L5_AREA_WRITE ? PROT_RW : PROT_READ;

	if (region_make(fd[maker], LEN, access, &b->a) ||
	    region_get(fd[!maker], b->a.index, &peer) ||
	    peer.access != access || peer.length != LEN)
		return false;
	b->p[maker] = region_map(fd[maker], &b->a, PROT_RW);
	b->p[!maker] = region_map(fd[!maker], &peer, prot);
	return b->p[0] && b->p[1];
}

static void both_close(struct both *b)
{
	munmap(b->p[0], b->a.length);
	munmap(b->p[1], b->a.length);
}

/* Each byte of a region is the same memory at both ends, whoever made it. */
TEST_F_TIMEOUT(map_region, both_have_it, 120)
{
	struct both b;
	int maker;

	for (maker = 0; maker < 2; maker++) {
		ASSERT_TRUE(both_open(&b, self->fd, maker, REGION_RW));
		EXPECT_TRUE(all_are(b.p[!maker], LEN, 0));
		l5_fill(b.p[maker], LEN, 5);
		EXPECT_EQ(0, memcmp(b.p[0], b.p[1], LEN));
		l5_fill(b.p[!maker], LEN, 7777);
		EXPECT_EQ(0, memcmp(b.p[0], b.p[1], LEN));
		both_close(&b);
		/* it is there, mapped or not */
		b.p[0] = region_map(self->fd[0], &b.a, PROT_READ);
		b.p[1] = region_map(self->fd[1], &b.a, PROT_READ);
		ASSERT_TRUE(b.p[0] && b.p[1]);
		EXPECT_EQ(0, memcmp(b.p[0], b.p[1], LEN));
		EXPECT_FALSE(all_are(b.p[0], LEN, 0));
		both_close(&b);
		EXPECT_EQ(0, region_take(self->fd[maker], b.a.index,
					 L5_REGION_END));
	}
	EXPECT_TRUE(end_exchange(self->fd[0], self->fd[1], 10000, 0));
}

/* A part of a region can be mapped, and nothing beside it. */
TEST_F(map_region, parts)
{
	struct l5_region_arg a;
	uint8_t *all, *part;
	int i;

	ASSERT_EQ(0, region_make(self->fd[0], LEN, L5_AREA_READ, &a));
	all = region_map(self->fd[0], &a, PROT_RW);
	ASSERT_NE(NULL, all);
	for (i = 0; i < PAGES; i++)
		all[(size_t)i * MAP_PAGE] = i + 1;
	for (i = 0; i < PAGES; i++) {
		part = mmap(NULL, LEN - i * MAP_PAGE, PROT_READ, MAP_SHARED,
			    self->fd[1], a.offset + i * MAP_PAGE);
		ASSERT_NE(MAP_FAILED, part);
		EXPECT_EQ(i + 1, *part);
		EXPECT_EQ(PAGES, part[LEN - (i + 1) * MAP_PAGE]);
		munmap(part, LEN - i * MAP_PAGE);
		EXPECT_EQ(MAP_FAILED,
			  mmap(NULL, LEN - i * MAP_PAGE + 1, PROT_READ,
			       MAP_SHARED, self->fd[1],
			       a.offset + i * MAP_PAGE));
		EXPECT_EQ(EINVAL, errno);
	}
	EXPECT_EQ(MAP_FAILED, mmap(NULL, MAP_PAGE, PROT_READ, MAP_SHARED,
				   self->fd[1], a.offset - MAP_PAGE));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, MAP_PAGE, PROT_READ, MAP_SHARED,
				   self->fd[1], a.offset + LEN));
	munmap(all, LEN);
}

/* A program that asks what there is to map hears of the regions it may use. */
TEST_F(map_region, told_as_areas)
{
	struct l5_area area[MAP_AREAS];
	const struct l5_area *found;
	struct l5_map_info info;
	struct l5_region_arg a;
	int e;

	ASSERT_EQ(0, mapping_areas(self->fd[0], &info, area));
	EXPECT_EQ(NULL, mapping_area(&info, area, L5_AREA_REGION));
	ASSERT_EQ(0, region_make(self->fd[1], 1, L5_AREA_READ, &a));
	EXPECT_EQ(MAP_PAGE, a.length);
	for (e = 0; e < 2; e++) {
		ASSERT_EQ(0, mapping_areas(self->fd[e], &info, area));
		EXPECT_EQ(6, info.nareas);
		found = mapping_area(&info, area, L5_AREA_REGION);
		ASSERT_NE(NULL, found);
		EXPECT_EQ(a.index, found->index);
		EXPECT_EQ(a.offset, found->offset);
		EXPECT_EQ(a.length, found->length);
		EXPECT_EQ(e ? REGION_RW : L5_AREA_READ, (int)found->access);
	}
	/* room for those of the rings alone */
	ASSERT_EQ(0, region_take(self->fd[1], a.index, L5_REGION_UNSHARE));
	ASSERT_EQ(0, mapping_areas(self->fd[0], &info, area));
	EXPECT_EQ(5, info.nareas);
	ASSERT_EQ(0, mapping_areas(self->fd[1], &info, area));
	EXPECT_EQ(6, info.nareas);
	EXPECT_EQ(1, l5_stat("regions"));
}

/* An end that was not given the right cannot take it. */
TEST_F(map_region, read_only)
{
	struct both b;
	uint8_t c = 9;
	int fd, peer;

	ASSERT_TRUE(both_open(&b, self->fd, 0, L5_AREA_READ));
	peer = self->fd[1];
	EXPECT_EQ(NULL, region_map(peer, &b.a, PROT_RW));
	EXPECT_EQ(EACCES, errno);
	EXPECT_EQ(-1, mprotect(b.p[1], LEN, PROT_RW));
	EXPECT_EQ(EACCES, errno);
	EXPECT_EQ(SIGSEGV, map_touch(b.p[1], true));
	fd = open("/proc/self/mem", O_RDWR);
	ASSERT_LE(0, fd);
	EXPECT_EQ(-1, pwrite(fd, &c, 1, (intptr_t)b.p[1]));
	close(fd);
	EXPECT_EQ(0, *b.p[0]);
	*b.p[0] = 3;
	EXPECT_EQ(3, *b.p[1]);
	/* nor is it to be run, by either */
	EXPECT_EQ(NULL, region_map(peer, &b.a, PROT_READ | PROT_EXEC));
	EXPECT_EQ(EACCES, errno);
	EXPECT_EQ(-1, mprotect(b.p[0], LEN, PROT_READ | PROT_EXEC));
	EXPECT_EQ(EACCES, errno);
	both_close(&b);
}

TEST_F(map_region, refused)
{
	struct l5_region_arg a, made, grown[2];
	const uint32_t odd[] = { 0, L5_AREA_WRITE, L5_AREA_TWICE,
				 REGION_RW | L5_AREA_TWICE, ~0u };
	uint64_t far;
	int fd = self->fd[0], i;

	EXPECT_EQ(-EINVAL, region_make(fd, 0, REGION_RW, &a));
	EXPECT_EQ(-EFBIG, region_make(fd, L5_REGION_MAX + 1, REGION_RW, &a));
	EXPECT_EQ(-EFBIG, region_make(fd, ~0ul, REGION_RW, &a));
	for (i = 0; i < 5; i++)
		EXPECT_EQ(-EINVAL, region_make(fd, 1, odd[i], &a));
	ASSERT_EQ(0, region_make(fd, LEN, REGION_RW, &made));
	/* what means nothing is 0 */
	for (i = 0; i < 7; i++) {
		a = (struct l5_region_arg){ .op = L5_REGION_GET,
					    .index = made.index };
		*(i == 0 ? &a.access : i == 1 ? &a.reserved :
		  i == 2 ? &a.flags : i == 3 ? (uint32_t *)&a.length :
		  i == 4 ? (uint32_t *)&a.offset :
		  i == 5 ? (uint32_t *)&a.lost : &a.op) = 77;
		EXPECT_EQ(-EINVAL, region_call(fd, &a)) {
			TH_LOG("%d", i);
		}
	}
	/* only its maker may end it, and only what it has made */
	for (i = L5_REGION_UNSHARE; i <= L5_REGION_END; i++) {
		EXPECT_EQ(-ENOENT, region_take(self->fd[1], made.index, i));
		EXPECT_EQ(-ENOENT, region_take(fd, made.index + 1, i));
		EXPECT_EQ(-ENOENT, region_take(fd, 0, i));
	}
	EXPECT_EQ(0, region_get(self->fd[1], made.index, &a));
	EXPECT_EQ(-ENOENT, region_get(fd, made.index + 2, &a));
	/* a struct of another size */
	memset(grown, 0, sizeof(grown));
	grown[0] = (struct l5_region_arg){ .size = sizeof(grown),
					   .op = L5_REGION_GET,
					   .index = made.index };
	EXPECT_EQ(0, ioctl(fd, L5_IOC_REGION, grown));
	EXPECT_EQ(sizeof(*grown), grown[0].size);
	grown[1].op = 1;
	grown[0] = (struct l5_region_arg){ .size = sizeof(grown),
					   .op = L5_REGION_GET,
					   .index = made.index };
	EXPECT_EQ(-1, ioctl(fd, L5_IOC_REGION, grown));
	EXPECT_EQ(E2BIG, errno);
	grown[0].size = L5_REGION_SIZE_VER0 - 1;
	EXPECT_EQ(-1, ioctl(fd, L5_IOC_REGION, grown));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, ioctl(fd, L5_IOC_REGION, NULL));
	EXPECT_EQ(EFAULT, errno);
	/* offsets of no region, and of none here */
	for (far = 0; far < 63; far++) {
		uint64_t at = 1ull << far | L5_MMAP_REGION;

		if (at % MAP_PAGE || at == made.offset)
			continue;
		EXPECT_EQ(MAP_FAILED, mmap(NULL, MAP_PAGE, PROT_READ,
					   MAP_SHARED, fd, at));
	}
	EXPECT_EQ(MAP_FAILED, mmap(NULL, LEN, PROT_READ, MAP_PRIVATE, fd,
				   made.offset));
	EXPECT_EQ(EINVAL, errno);
}

/* There are only so many, and a number that was given back comes again late. */
TEST_F_TIMEOUT(map_region, only_so_many, 120)
{
	struct l5_region_arg a, first;
	int i;

	ASSERT_EQ(0, region_make(self->fd[0], 1, REGION_RW, &first));
	for (i = 1; i < L5_REGIONS_MAX; i++)
		ASSERT_EQ(0, region_make(self->fd[0], 1, REGION_RW, &a));
	EXPECT_EQ(-ENOSPC, region_make(self->fd[0], 1, REGION_RW, &a));
	/* the other end has a number of its own */
	EXPECT_EQ(0, region_make(self->fd[1], 1, REGION_RW, &a));
	EXPECT_EQ(0, region_take(self->fd[0], first.index, L5_REGION_END));
	EXPECT_EQ(0, region_make(self->fd[0], 1, REGION_RW, &a));
	EXPECT_NE(first.index, a.index);
	EXPECT_EQ(-ENOENT, region_get(self->fd[0], first.index, &a));
}

/*
 * The maker takes it back and keeps it: the peer's mappings show zeros and go
 * nowhere, the maker has what was there.
 */
TEST_F(map_region, unshared)
{
	struct l5_region_arg a;
	struct mapping m;
	struct both b;
	uint32_t lost;

	ASSERT_TRUE(both_open(&b, self->fd, 0, REGION_RW));
	ASSERT_EQ(0, mapping_open(&m, self->fd[1]));
	memset(b.p[1], 0x11, LEN);
	lost = l5_load(&m.state->regions_lost);
	ASSERT_EQ(0, region_take(self->fd[0], b.a.index, L5_REGION_UNSHARE));
	EXPECT_NE(lost, l5_load(&m.state->regions_lost));
	EXPECT_TRUE(all_are(b.p[1], LEN, 0));
	memset(b.p[1], 0x22, LEN);
	EXPECT_TRUE(all_are(b.p[0], LEN, 0x11));
	memset(b.p[0], 0x33, LEN);
	EXPECT_TRUE(all_are(b.p[1], LEN, 0x22));
	EXPECT_EQ(-ENOENT, region_get(self->fd[1], b.a.index, &a));
	EXPECT_EQ(NULL, region_map(self->fd[1], &b.a, PROT_READ));
	EXPECT_EQ(ENOENT, errno);
	EXPECT_EQ(0, region_get(self->fd[0], b.a.index, &a));
	/* once more is no error, and nothing new */
	lost = l5_load(&m.state->regions_lost);
	EXPECT_EQ(0, region_take(self->fd[0], b.a.index, L5_REGION_UNSHARE));
	EXPECT_EQ(lost, l5_load(&m.state->regions_lost));
	EXPECT_TRUE(all_are(b.p[0], LEN, 0x33));
	EXPECT_EQ(0, region_take(self->fd[0], b.a.index, L5_REGION_END));
	EXPECT_TRUE(all_are(b.p[0], LEN, 0));
	EXPECT_EQ(lost, l5_load(&m.state->regions_lost));
	mapping_close(&m);
	both_close(&b);
}

/* What was lost before a process looks is not counted as lost after that. */
TEST_F(map_region, counted)
{
	struct l5_region_arg a, b;
	struct mapping m;

	ASSERT_EQ(0, region_make(self->fd[0], 1, REGION_RW, &a));
	ASSERT_EQ(0, region_take(self->fd[0], a.index, L5_REGION_END));
	ASSERT_EQ(0, mapping_open(&m, self->fd[1]));
	EXPECT_EQ(1, l5_load(&m.state->regions_lost));
	ASSERT_EQ(0, region_make(self->fd[0], 1, REGION_RW, &a));
	ASSERT_EQ(0, region_get(self->fd[1], a.index, &b));
	EXPECT_EQ(1, b.lost);
	ASSERT_EQ(0, region_take(self->fd[0], a.index, L5_REGION_UNSHARE));
	EXPECT_EQ(2, l5_load(&m.state->regions_lost));
	ASSERT_EQ(0, region_get(self->fd[0], a.index, &b));
	EXPECT_EQ(1, b.lost);
	mapping_close(&m);
}

/* Memory goes as soon as both ends have lost it, mapped or not. */
static long long held_kb(void)
{
	return l5_stat("rings_kb");
}

TEST_F(map_region, given_back)
{
	long long before = held_kb(), reserved = l5_stat("reserved_kb");
	struct both b;

	ASSERT_TRUE(both_open(&b, self->fd, 1, REGION_RW));
	memset(b.p[0], 1, LEN);
	EXPECT_EQ(before + (long long)(LEN >> 10), held_kb());
	EXPECT_EQ(reserved + (long long)(LEN >> 10), l5_stat("reserved_kb"));
	EXPECT_EQ(0, region_take(self->fd[1], b.a.index, L5_REGION_UNSHARE));
	EXPECT_EQ(before + (long long)(LEN >> 10), held_kb());
	EXPECT_EQ(0, region_take(self->fd[1], b.a.index, L5_REGION_END));
	EXPECT_EQ(before, held_kb());
	EXPECT_EQ(reserved, l5_stat("reserved_kb"));
	EXPECT_TRUE(all_are(b.p[1], LEN, 0));
	both_close(&b);
}

/* A closed socket has no regions, and the other end has what it has made. */
TEST_F(map_region, closed)
{
	struct both mine, theirs;

	ASSERT_TRUE(both_open(&mine, self->fd, 0, REGION_RW));
	ASSERT_TRUE(both_open(&theirs, self->fd, 1, REGION_RW));
	memset(mine.p[0], 0x11, LEN);
	memset(theirs.p[0], 0x22, LEN);
	close(self->fd[1]);
	/* a work sees to it */
	EXPECT_TRUE(UNTIL(!*(volatile uint8_t *)theirs.p[0] &&
			  !*(volatile uint8_t *)theirs.p[1] &&
			  !*(volatile uint8_t *)mine.p[1]));
	EXPECT_TRUE(all_are(mine.p[1], LEN, 0));
	EXPECT_TRUE(all_are(theirs.p[0], LEN, 0));
	EXPECT_TRUE(all_are(theirs.p[1], LEN, 0));
	EXPECT_TRUE(all_are(mine.p[0], LEN, 0x11));
	memset(mine.p[1], 0x33, LEN);
	memset(theirs.p[1], 0x44, LEN);
	EXPECT_TRUE(all_are(mine.p[0], LEN, 0x11));
	EXPECT_TRUE(all_are(theirs.p[0], LEN, 0));
	/* one that is made now is the maker's alone */
	EXPECT_EQ(0, region_make(self->fd[0], 1, REGION_RW, &mine.a));
	close(self->fd[0]);
	EXPECT_TRUE(end_stat_reaches("rings_kb", 0));
	EXPECT_TRUE(end_stat_reaches("reserved_kb", 0));
	EXPECT_TRUE(all_are(mine.p[0], LEN, 0));
	mine.a.length = LEN;
	both_close(&mine);
	both_close(&theirs);
	ASSERT_TRUE(map_again(variant->at, self->fd));
}

/* A peer that closes before it was accepted, or is never, leaves nothing. */
TEST_F(map_region, not_accepted)
{
	struct l5_region_arg a;
	struct addr to;
	uint8_t *p;
	int l, c;

	if (!strcmp(variant->at, "packets"))
		SKIP(return, "socketpair() has no listener");
	to = addr_parse(variant->at);
	if (to.sa.sa_family == AF_UNIX)
		to = addr_parse("abstract:l5_map_region_none");
	l = end_listen(END_L5, &to);
	ASSERT_LE(0, l);
	c = end_connect(END_L5, &to);
	ASSERT_LE(0, c);
	ASSERT_EQ(L5_TRANSPORT_SHM, l5_transport(c));
	ASSERT_EQ(0, region_make(c, LEN, REGION_RW, &a));
	p = region_map(c, &a, PROT_RW);
	ASSERT_NE(NULL, p);
	memset(p, 1, LEN);
	close(l);
	EXPECT_TRUE(all_are(p, LEN, 1));
	close(c);
	EXPECT_TRUE(UNTIL(!*(volatile uint8_t *)p));
	munmap(p, LEN);
}

/* Nobody else has a page of a region, so that it can be taken back. */
TEST_F(map_region, not_pinned)
{
	struct iovec local, remote;
	struct both b;
	uint8_t *buf;
	int pipefd[2], null;
	pid_t pid;

	ASSERT_TRUE(both_open(&b, self->fd, 0, REGION_RW));
	l5_fill(b.p[0], LEN, 1);
	ASSERT_EQ(0, pipe(pipefd));
	remote = (struct iovec){ b.p[1], MAP_PAGE };
	EXPECT_EQ(-1, vmsplice(pipefd[1], &remote, 1, 0));
	EXPECT_EQ(EFAULT, errno);
	buf = malloc(MAP_PAGE);
	ASSERT_NE(NULL, buf);
	local = (struct iovec){ buf, MAP_PAGE };
	EXPECT_EQ(-1, process_vm_readv(getpid(), &local, 1, &remote, 1, 0));
	EXPECT_EQ(EFAULT, errno);
	/* what copies is fine */
	EXPECT_EQ(MAP_PAGE, write(pipefd[1], b.p[1], MAP_PAGE));
	EXPECT_EQ(MAP_PAGE, read(pipefd[0], b.p[1] + 8 * MAP_PAGE, MAP_PAGE));
	EXPECT_EQ(0, memcmp(b.p[0], b.p[0] + 8 * MAP_PAGE, MAP_PAGE));
	null = open("/dev/null", O_WRONLY);
	EXPECT_EQ((ssize_t)LEN, write(null, b.p[1], LEN));
	close(null);
	/* a mapping is whole, stays where it is, and is no child's */
	EXPECT_EQ(-1, munmap(b.p[1], MAP_PAGE));
	EXPECT_EQ(-1, mprotect(b.p[1] + MAP_PAGE, MAP_PAGE, PROT_READ));
	EXPECT_EQ(MAP_FAILED, mremap(b.p[1], LEN, 2 * LEN, MREMAP_MAYMOVE));
	EXPECT_EQ(MAP_FAILED, mremap(b.p[1], LEN, LEN, MREMAP_MAYMOVE |
				     MREMAP_FIXED, buf));
	EXPECT_EQ(-1, madvise(b.p[1], LEN, MADV_DOFORK));
	EXPECT_EQ(EINVAL, errno);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid)
		_exit(map_touch(b.p[1], false) != SIGSEGV);
	EXPECT_EQ(0, l5_reap(pid));
	close(pipefd[0]);
	close(pipefd[1]);
	free(buf);
	both_close(&b);
}

/* Many mappings of one end are too many; the other end has its own number. */
TEST_F(map_region, only_so_many_mappings)
{
	struct l5_region_arg a;
	void *p[1000];
	int n, i;

	ASSERT_EQ(0, region_make(self->fd[0], MAP_PAGE, REGION_RW, &a));
	for (n = 0; n < 1000; n++) {
		p[n] = region_map(self->fd[1], &a, PROT_RW);
		if (!p[n])
			break;
		*(volatile char *)p[n] = 1;
	}
	EXPECT_EQ(256, n);
	EXPECT_EQ(ENOMEM, errno);
	p[n] = region_map(self->fd[0], &a, PROT_RW);
	EXPECT_NE(NULL, p[n]);
	EXPECT_EQ(0, region_take(self->fd[0], a.index, L5_REGION_UNSHARE));
	for (i = 0; i < n; i++)
		EXPECT_EQ(0, *(volatile char *)p[i]);
	EXPECT_EQ(1, *(volatile char *)p[n]);
	for (i = 0; i <= n; i++)
		munmap(p[i], MAP_PAGE);
}

/* A peer that writes, and has the kernel write, wherever it can */
struct scribbler {
	int fd;
	uint8_t *volatile p;
	volatile bool stop;
	volatile unsigned long rounds;
};

static void *scribble_bytes(void *arg)
{
	struct scribbler *s = arg;
	uint8_t n = 0;
	size_t i;

	while (!s->stop) {
		for (i = 0; i < LEN; i += 64)
			s->p[i] = n;
		/* never 0, so that it is known from what was lost */
		n = n % 255 + 1;
		s->rounds++;
	}
	return NULL;
}

static void *scribble_calls(void *arg)
{
	struct scribbler *s = arg;
	int zero = open("/dev/zero", O_RDONLY);
	size_t i;

	while (!s->stop)
		for (i = 0; i < LEN; i += MAP_PAGE)
			if (read(zero, s->p + i, MAP_PAGE) != MAP_PAGE)
				_exit(1);
	close(zero);
	return NULL;
}

/*
 * Once a call that takes it from the peer is back no byte of a region changes.
 * The peer has several threads that write all the time, by faults, too.
 */
TEST_F_TIMEOUT(map_region, still_once_unshared, 240)
{
	enum { ROUNDS = 60 };
	uint8_t *copy = malloc(LEN);
	struct both b[2];
	int r, i;

	ASSERT_NE(NULL, copy);
	for (r = 0; r < ROUNDS; r++) {
		struct scribbler s = { .fd = self->fd[1] };
		pthread_t t[3];

		ASSERT_TRUE(both_open(&b[0], self->fd, 0, REGION_RW));
		ASSERT_TRUE(both_open(&b[1], self->fd, 0, REGION_RW));
		s.p = b[r & 1].p[1];
		for (i = 0; i < 3; i++)
			ASSERT_EQ(0, pthread_create(&t[i], NULL, i < 2 ?
						    scribble_bytes :
						    scribble_calls, &s));
		/* at the first fault, or in the midst of it */
		if (r % 3)
			EXPECT_TRUE(UNTIL(s.rounds > (unsigned long)(r % 3)));
		ASSERT_EQ(0, region_take(self->fd[0], b[r & 1].a.index,
					 L5_REGION_UNSHARE));
		memcpy(copy, b[r & 1].p[0], LEN);
		for (i = 0; i < 3; i++)
			EXPECT_EQ(0, memcmp(copy, b[r & 1].p[0], LEN));
		s.stop = true;
		for (i = 0; i < 3; i++)
			pthread_join(t[i], NULL);
		EXPECT_EQ(0, memcmp(copy, b[r & 1].p[0], LEN));
		EXPECT_TRUE(all_are(b[!(r & 1)].p[0], LEN, 0));
		for (i = 0; i < 2; i++) {
			EXPECT_EQ(0, region_take(self->fd[0], b[i].a.index,
						 L5_REGION_END));
			both_close(&b[i]);
		}
	}
	free(copy);
}

/* Threads of both ends make, map, touch and end regions, whatever there is. */
struct crowd {
	const int *fd;
	volatile bool stop;
	volatile unsigned long done;
};

static void crowd_use(int fd, struct l5_region_arg *a, uint64_t *seed)
{
	uint8_t *p;
	size_t i;

	if (region_get(fd, a->index, a))
		return;
	p = region_map(fd, a, a->access & L5_AREA_WRITE ? PROT_RW : PROT_READ);
	if (!p)
		return;
	for (i = 0; i < a->length; i += MAP_PAGE) {
		if (a->access & L5_AREA_WRITE)
			((volatile uint8_t *)p)[i] = 1;
		else
			(void)((volatile uint8_t *)p)[i];
	}
	if (l5_rnd(seed) % 4)
		munmap(p, a->length);
}

static void *crowd_run(void *arg)
{
	struct crowd *c = arg;
	uint64_t seed = __atomic_fetch_add(&c->done, 1, __ATOMIC_RELAXED) + 1;
	struct l5_region_arg a;

	while (!c->stop) {
		int fd = c->fd[l5_rnd(&seed) % 2];

		a.index = l5_rnd(&seed) % 64;
		switch (l5_rnd(&seed) % 4) {
		case 0:
			region_make(fd, l5_rnd(&seed) % 40 * MAP_PAGE + 1,
				    l5_rnd(&seed) % 2 ? REGION_RW :
				    L5_AREA_READ, &a);
			break;
		case 1:
			region_take(fd, a.index, L5_REGION_UNSHARE +
				    l5_rnd(&seed) % 2);
			break;
		default:
			crowd_use(fd, &a, &seed);
		}
		__atomic_fetch_add(&c->done, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

TEST_F_TIMEOUT(map_region, crowd, 240)
{
	enum { THREADS = 4, CALLS = 1500 };
	struct crowd c = { .fd = self->fd };
	pthread_t t[THREADS];
	int i, pid, round;

	for (round = 0; round < 3; round++) {
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			/* its mappings go with it */
			for (i = 0; i < THREADS; i++)
				pthread_create(&t[i], NULL, crowd_run, &c);
			UNTIL(c.done > CALLS);
			if (round == 1) {
				close(self->fd[0]);
				shutdown(self->fd[1], SHUT_RDWR);
			}
			c.stop = true;
			for (i = 0; i < THREADS; i++)
				pthread_join(t[i], NULL);
			_exit(c.done <= CALLS);
		}
		EXPECT_EQ(0, l5_reap(pid));
	}
	close(self->fd[0]);
	close(self->fd[1]);
	EXPECT_TRUE(end_stat_reaches("rings_kb", 0));
	EXPECT_TRUE(end_stat_reaches("reserved_kb", 0));
	ASSERT_TRUE(map_again(variant->at, self->fd));
}

TEST_HARNESS_MAIN
