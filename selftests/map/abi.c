// SPDX-License-Identifier: GPL-2.0
/*
 * Programs of other versions than the module's: shorter and longer structs,
 * other versions, other features. The programs are understood or refused, and
 * the connection does not suffer.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "mapping.h"

FIXTURE(map_abi)
{
	int fd[2];
};

FIXTURE_SETUP(map_abi)
{
	ASSERT_TRUE(map_begin("127.0.0.1:0", 64, self->fd));
}

FIXTURE_TEARDOWN(map_abi)
{
	/* whatever was refused */
	EXPECT_TRUE(end_exchange(self->fd[0], self->fd[1], 10000, 0));
	close(self->fd[0]);
	close(self->fd[1]);
}

/* What a program of the future would pass */
union info {
	struct l5_map_info v0;
	uint8_t bytes[8192];
};

static int ask(int fd, union info *u)
{
	return ioctl(fd, L5_IOC_MAP_INFO, u) ? errno : 0;
}

TEST_F(map_abi, sizes)
{
	const uint32_t known = sizeof(struct l5_map_info);
	static const uint32_t longer[] = { 1, 7, 8, 100, 4096 };
	union info u;
	uint32_t n;
	size_t i;

	for (n = 0; n < L5_MAP_INFO_SIZE_VER0; n++) {
		memset(&u, 0, sizeof(u));
		u.v0.size = n;
		EXPECT_EQ(EINVAL, ask(self->fd[0], &u)) {
			TH_LOG("%u bytes", n);
		}
	}
	/* no byte more is written than the caller knows */
	for (n = L5_MAP_INFO_SIZE_VER0; n <= known; n++) {
		memset(&u, 0, sizeof(u));
		memset(u.bytes + n, 0xaa, sizeof(u) - n);
		u.v0.size = n;
		ASSERT_EQ(0, ask(self->fd[0], &u));
		EXPECT_EQ(known, u.v0.size);
		EXPECT_EQ(64u << 10, u.v0.tx_size);
		EXPECT_EQ(0xaa, u.bytes[n]);
	}
	for (i = 0; i < ARRAY_SIZE(longer); i++) {
		n = known + longer[i];
		memset(&u, 0, sizeof(u));
		u.v0.size = n;
		if (n > (uint32_t)sysconf(_SC_PAGESIZE)) {
			EXPECT_EQ(E2BIG, ask(self->fd[0], &u));
			continue;
		}
		ASSERT_EQ(0, ask(self->fd[0], &u));
		EXPECT_EQ(known, u.v0.size);
		/* what the module would have to understand and does not */
		memset(&u, 0, sizeof(u));
		u.v0.size = n;
		u.bytes[n - 1] = 1;
		EXPECT_EQ(E2BIG, ask(self->fd[0], &u));
	}
	memset(&u, 0, sizeof(u));
	u.v0.size = known;
	u.v0.reserved = 1;
	EXPECT_EQ(EINVAL, ask(self->fd[0], &u));
	EXPECT_EQ(-1, ioctl(self->fd[0], L5_IOC_MAP_INFO, NULL));
	EXPECT_EQ(EFAULT, errno);
}

TEST_F(map_abi, versions)
{
	static const struct {
		uint32_t min, max;
		int err;
	} says[] = {
		{ 0, 0, 0 }, { 0, 5, 0 }, { 0, UINT32_MAX, 0 },
		{ 1, 1, EPROTONOSUPPORT }, { 1, UINT32_MAX, EPROTONOSUPPORT },
		{ UINT32_MAX, 0, EPROTONOSUPPORT },
	};
	union info u;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(says); i++) {
		memset(&u, 0, sizeof(u));
		u.v0.size = sizeof(u.v0);
		u.v0.version_min = says[i].min;
		u.v0.version_max = says[i].max;
		EXPECT_EQ(says[i].err, ask(self->fd[0], &u)) {
			TH_LOG("versions %u to %u", says[i].min, says[i].max);
		}
		/* and is told what there is */
		EXPECT_EQ(L5_MAP_VERSION, u.v0.version_min);
		EXPECT_EQ(L5_MAP_VERSION, u.v0.version_max);
		EXPECT_EQ(L5_MAP_VERSION, u.v0.version);
	}
}

/* What only one of the two understands is not used, which is no error. */
TEST_F(map_abi, features)
{
	union info u = { .v0.size = sizeof(u.v0), .v0.features = ~0ull };

	EXPECT_EQ(0, ask(self->fd[0], &u));
	EXPECT_EQ(0, u.v0.features);
}

TEST_F(map_abi, areas)
{
	struct l5_area area[MAP_AREAS], part[MAP_AREAS];
	struct l5_map_info info;
	const struct l5_area *a;
	union info u;
	uint32_t k, n;
	void *p;

	ASSERT_EQ(0, mapping_areas(self->fd[0], &info, area));
	for (k = L5_AREA_CTRL; k <= L5_AREA_RX; k++) {
		a = mapping_area(&info, area, k);
		ASSERT_NE(NULL, a) {
			TH_LOG("kind %u", k);
		}
		EXPECT_EQ(0, a->reserved);
		EXPECT_EQ(k == L5_AREA_CTRL || k == L5_AREA_TX,
			  !!(a->access & L5_AREA_WRITE));
		EXPECT_EQ(k == L5_AREA_TX || k == L5_AREA_RX,
			  !!(a->access & L5_AREA_TWICE));
		p = mmap(NULL, a->length, PROT_READ, MAP_SHARED, self->fd[0],
			 a->offset);
		EXPECT_NE(MAP_FAILED, p);
		if (p != MAP_FAILED)
			munmap(p, a->length);
	}
	EXPECT_EQ(NULL, mapping_area(&info, area, L5_AREA_MAILBOX));
	/* an array that is too short is filled, and no more */
	for (n = 0; n < info.nareas; n++) {
		memset(&u, 0, sizeof(u));
		memset(part, 0xaa, sizeof(part));
		u.v0.size = sizeof(u.v0);
		u.v0.areas = (uintptr_t)part;
		u.v0.nareas = n;
		ASSERT_EQ(0, ask(self->fd[0], &u));
		EXPECT_EQ(info.nareas, u.v0.nareas);
		EXPECT_EQ(0, memcmp(part, area, n * sizeof(*part)));
		EXPECT_EQ(0xaaaaaaaa, part[n].kind);
	}
	u.v0.areas = 1ull << 63;
	u.v0.nareas = 1;
	EXPECT_EQ(EFAULT, ask(self->fd[0], &u));
}

TEST_F(map_abi, state)
{
	struct mapping m;

	ASSERT_EQ(0, mapping_open(&m, self->fd[0]));
	EXPECT_EQ(sizeof(struct l5_map_state), m.state->size);
	EXPECT_EQ(L5_MAP_VERSION, m.state->version);
	EXPECT_EQ(0, m.state->features);
	EXPECT_EQ(0, m.state->tx_ring);
	EXPECT_EQ(0, m.state->rx_ring);
	mapping_close(&m);
}

/* Longer values of options, as a later version may have them */
TEST_F(map_abi, options)
{
	int val[20] = { 5 };

	EXPECT_EQ(0, setsockopt(self->fd[0], SOL_L5, L5_SPIN_US, val,
				sizeof(val)));
	val[19] = 1;
	EXPECT_EQ(-1, setsockopt(self->fd[0], SOL_L5, L5_SPIN_US, val,
				 sizeof(val)));
	EXPECT_EQ(E2BIG, errno);
	val[19] = 0;
	val[1] = 1;
	EXPECT_EQ(-1, setsockopt(self->fd[0], SOL_L5, L5_SPIN_US, val,
				 sizeof(val[0]) + 1));
	EXPECT_EQ(E2BIG, errno);
	EXPECT_EQ(0, setsockopt(self->fd[0], SOL_L5, L5_SPIN_US, val,
				sizeof(val[0])));
}

/* Records that do not belong into a stream: skipped, or it ends. */
TEST_F(map_abi, empty_records)
{
	struct mapping m, o;
	char buf[8];
	int i;

	ASSERT_EQ(0, mapping_open(&m, self->fd[0]));
	for (i = 0; i < 20; i++) {
		ASSERT_LT(0, mapping_lock(&m, L5_LOCK_TX));
		ASSERT_EQ(0, l5_prod_load(&m.prod, m.own, m.peer));
		l5_prod_publish(&m.prod, m.own, mapping_slot(&m, m.prod.tail),
				mapping_slot(&m, m.prod.tail + L5_HDR), 0);
		mapping_unlock(&m, L5_LOCK_TX);
		if (i % 5 == 4)
			ASSERT_EQ(3, mapping_put(&m, "abc", 3));
	}
	EXPECT_EQ(3, recv(self->fd[1], buf, 3, MSG_PEEK));
	EXPECT_EQ(6, recv(self->fd[1], buf, 6, MSG_WAITALL));
	EXPECT_EQ(0, memcmp(buf, "abcabc", 6));
	ASSERT_EQ(0, mapping_open(&o, self->fd[1]));
	EXPECT_EQ(6, mapping_get(&o, buf, sizeof(buf)));
	EXPECT_EQ(0, memcmp(buf, "abcabc", 6));
	mapping_close(&o);
	mapping_close(&m);
}

#ifdef __x86_64__
/*
 * A 32-bit program's call, by the old gate: such a program loads half a cursor
 * at a time, so it is not to map any, and goes on by system calls.
 */
static long call32(long nr, long a, long b, long c)
{
	long ret;

	__asm__ volatile("int $0x80" : "=a" (ret) : "a" (nr), "b" (a), "c" (b),
			 "d" (c) : "memory", "r8", "r9", "r10", "r11");
	return (int)ret;
}

TEST_F(map_abi, of_32_bits)
{
	struct l5_map_info *info = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS |
					MAP_32BIT, -1, 0);
	long ret;

	ASSERT_NE(MAP_FAILED, info);
	/* getpid() */
	if (call32(20, 0, 0, 0) != getpid())
		SKIP(return, "no 32-bit calls in this kernel");
	info->size = sizeof(*info);
	ret = call32(54, self->fd[0], L5_IOC_MAP_INFO, (long)info);
	EXPECT_EQ(-EOPNOTSUPP, ret);
	ret = call32(54, self->fd[0], L5_IOC_ARM, L5_BELL_DATA);
	EXPECT_EQ(-EOPNOTSUPP, ret);
	munmap(info, 4096);
}
#endif

TEST_HARNESS_MAIN
