// SPDX-License-Identifier: GPL-2.0
/*
 * Where libl5 maps rings while other threads map memory, too: what the library
 * gives back may have become theirs. The kernel is a memfd; the calls that the
 * library makes for its areas come here (-Wl,--wrap), and here it is also that
 * the other threads come in between. Built with the library's sources.
 */
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "map.h"

enum { PAGE = 4096, RING = 8192, AREAS = 5, STRANGERS = 100 };

/* The kernel */

static int rings = -1;
/* The area that is refused, after its place was cleared */
static int refused;
/* The area at which strangers come, and how many times */
static int invaded, invasions;
/* Areas asked for since the last base was */
static int asked;

static uint8_t *stranger[STRANGERS];
static int strangers;

void *__real_mmap64(void *at, size_t len, int prot, int flags, int fd,
		    off_t off);
void *__wrap_mmap64(void *at, size_t len, int prot, int flags, int fd,
		    off_t off);
long __real_syscall(long nr, ...);
long __wrap_syscall(long nr, ...);

/* Apart from each other in the file: each is a mapping of its own. */
static const struct {
	uint32_t kind, access, offset, length;
} areas[AREAS] = {
	{ L5_AREA_CTRL, L5_AREA_READ | L5_AREA_WRITE, 0, PAGE },
	{ L5_AREA_PEER, L5_AREA_READ, 2 * PAGE, PAGE },
	{ L5_AREA_STATE, L5_AREA_READ, 4 * PAGE, PAGE },
	{ L5_AREA_TX, L5_AREA_READ | L5_AREA_WRITE | L5_AREA_TWICE,
	  6 * PAGE, RING },
	{ L5_AREA_RX, L5_AREA_READ | L5_AREA_TWICE, 7 * PAGE + 2 * RING,
	  RING },
};

/* Another thread maps a page wherever there is room at @at. */
static void intrude(void *at)
{
	uint8_t *p = __real_mmap64(at, PAGE, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS |
				   MAP_FIXED_NOREPLACE, -1, 0);

	if (p == MAP_FAILED || strangers == STRANGERS)
		return;
	memset(p, 0x5a, PAGE);
	stranger[strangers++] = p;
}

void *__wrap_mmap64(void *at, size_t len, int prot, int flags, int fd,
		    off_t off)
{
	int i;

	if (fd != rings)
		return __real_mmap64(at, len, prot, flags, fd, off);
	i = asked++ % AREAS;
	if (i == invaded && invasions) {
		invasions--;
		asked = 0;
		intrude(at);
	}
	if (i == refused) {
		/* MAP_FIXED makes room first, then the file is asked */
		if ((flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) == MAP_FIXED)
			munmap(at, len);
		intrude(at);
		errno = ENOTCONN;
		return MAP_FAILED;
	}
	return __real_mmap64(at, len, prot, flags, fd, off);
}

static int map_info(struct l5_map_info *info)
{
	struct l5_area *a = (void *)(uintptr_t)info->areas;
	uint32_t i;

	for (i = 0; i < info->nareas && i < AREAS; i++)
		a[i] = (struct l5_area){
			.kind = areas[i].kind,
			.access = areas[i].access,
			.offset = areas[i].offset,
			.length = areas[i].length,
		};
	info->version = L5_MAP_VERSION;
	info->nareas = AREAS;
	info->id = 1;
	info->tx_size = RING;
	info->rx_size = RING;
	return 0;
}

long __wrap_syscall(long nr, ...)
{
	long a[6];
	va_list ap;
	int i;

	va_start(ap, nr);
	for (i = 0; i < 3; i++)
		a[i] = va_arg(ap, long);
	if (nr == SYS_ioctl && a[0] == rings) {
		va_end(ap);
		return map_info((void *)a[2]);
	}
	for (; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	return __real_syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* Lines of /proc/self/maps with the rings' memory, and how many there are. */
static int mapped(int *all)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[4096];
	int n = 0;

	for (*all = 0; f && fgets(line, sizeof(line), f); ++*all)
		n += !!strstr(line, "memfd:l5_place");
	if (f)
		fclose(f);
	return n;
}

FIXTURE(unit_place)
{
	int vmas;
};

FIXTURE_SETUP(unit_place)
{
	struct l5_map_state state = {
		.size = sizeof(state),
		.version = L5_MAP_VERSION,
		.tx_size = RING,
		.rx_size = RING,
		.tx_extent = RING,
		.tx_most = RING,
	};
	struct l5_map *m;

	rings = memfd_create("l5_place", MFD_CLOEXEC);
	ASSERT_LE(0, rings);
	ASSERT_EQ(0, ftruncate(rings, 7 * PAGE + 4 * RING));
	ASSERT_EQ(sizeof(state), pwrite(rings, &state, sizeof(state),
					4 * PAGE));
	refused = -1;
	invaded = -1;
	/* with what is made once, and what stdio keeps */
	mapped(&self->vmas);
	m = l5_map_new(rings, 0);
	ASSERT_NE(NULL, m);
	EXPECT_LT(0, mapped(&self->vmas));
	l5_map_put(m);
	EXPECT_EQ(0, mapped(&self->vmas));
	asked = 0;
}

FIXTURE_TEARDOWN(unit_place)
{
	int i, n, vmas;

	/* their memory, with all that is in it */
	for (i = 0; i < strangers; i++) {
		n = msync(stranger[i], PAGE, MS_ASYNC);
		EXPECT_EQ(0, n)
			TH_LOG("what stranger %d mapped is gone", i);
		if (n)
			continue;
		for (n = 0; n < PAGE && stranger[i][n] == 0x5a; n++)
			;
		EXPECT_EQ(PAGE, n);
		munmap(stranger[i], PAGE);
	}
	/* and of ours nothing is left */
	EXPECT_EQ(0, mapped(&vmas));
#ifndef __SANITIZE_THREAD__
	/* these map more and more for themselves */
	if (!getenv("L5_VALGRIND"))
		EXPECT_EQ(self->vmas, vmas);
#endif
	close(rings);
}

FIXTURE_VARIANT(unit_place)
{
	int area;
};

FIXTURE_VARIANT_ADD(unit_place, own) { .area = 0 };
FIXTURE_VARIANT_ADD(unit_place, peer) { .area = 1 };
FIXTURE_VARIANT_ADD(unit_place, state) { .area = 2 };
FIXTURE_VARIANT_ADD(unit_place, tx) { .area = 3 };
FIXTURE_VARIANT_ADD(unit_place, rx) { .area = 4 };

/* The kernel refuses an area, and its place is another thread's at once. */
TEST_F(unit_place, refused)
{
	refused = variant->area;
	EXPECT_EQ(NULL, l5_map_new(rings, 0));
	EXPECT_EQ(ENOTCONN, errno);
	EXPECT_EQ(1, strangers);
}

/* Another thread takes the place first: so the rings go elsewhere. */
TEST_F(unit_place, invaded)
{
	struct l5_map *m;

	invaded = variant->area;
	invasions = 2;
	m = l5_map_new(rings, 0);
	ASSERT_NE(NULL, m);
	EXPECT_EQ(0, invasions);
	EXPECT_EQ(RING, m->rx_size);
	l5_map_put(m);
}

/* Other threads are first again and again: then mapping is put off. */
TEST_F(unit_place, besieged)
{
	invaded = variant->area;
	invasions = STRANGERS;
	EXPECT_EQ(NULL, l5_map_new(rings, 0));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_LT(0, invasions);
}

TEST_HARNESS_MAIN
