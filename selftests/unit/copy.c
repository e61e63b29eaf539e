// SPDX-License-Identifier: GPL-2.0
/*
 * Every way to copy a payload: the same bytes as memcpy(), and none
 * beyond, at each alignment of both ends.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "copies.h"
#include "copy.h"

#define PAGE	4096u
#define MOST	(2 * PAGE)

typedef bool copy_fn(void *to, const void *from, size_t n);

static bool out_cold(void *to, const void *from, size_t n)
{
	struct l5_copy_walk w = { (uintptr_t)to, L5_COPY_COLD };

	return l5_copy_out(&w, to, from, n);
}

static copy_fn *const ways[] = {
	l5_copy_past, l5_copy_words, l5_copy_near, l5_copy_string, l5_copy_in,
	out_warm, out_cold, small,
};

/* Pages, and after them a page without access. */
static uint8_t *fenced(size_t n)
{
	uint8_t *p = mmap(NULL, n + PAGE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED || mprotect(p + n, PAGE, PROT_NONE))
		abort();
	return p;
}

FIXTURE(unit_copy)
{
	uint8_t *from;
	uint8_t *to;
};

FIXTURE_SETUP(unit_copy)
{
	size_t i;

	self->from = fenced(MOST);
	self->to = fenced(MOST);
	for (i = 0; i < MOST; i++)
		self->from[i] = i * 7 + i / 251;
}

FIXTURE_TEARDOWN(unit_copy)
{
	munmap(self->from, MOST + PAGE);
	munmap(self->to, MOST + PAGE);
}

/* Are the bytes at @to those of @from, and all around them untouched? */
static int right(const uint8_t *base, const uint8_t *to, const uint8_t *from,
		 size_t n)
{
	const uint8_t *p;

	if (memcmp(to, from, n))
		return 0;
	for (p = base; p < to; p++)
		if (*p != 0xa5)
			return 0;
	for (p = to + n; p < base + MOST; p++)
		if (*p != 0xa5)
			return 0;
	return 1;
}

TEST_F(unit_copy, each_alignment)
{
	static const size_t lengths[] = {
		0, 1, 7, 63, 64, 65, 127, 960, 961, 1024, 2048 + 13, 4096,
	};
	size_t w, l, a, b;

	for (w = 0; w < sizeof(ways) / sizeof(*ways); w++)
		for (l = 0; l < sizeof(lengths) / sizeof(*lengths); l++)
			for (a = 0; a < 70; a += 3)
				for (b = 0; b < 70; b += 5) {
					memset(self->to, 0xa5, MOST);
					ASSERT_EQ(true, ways[w](self->to + a,
								self->from + b,
								lengths[l]));
					ASSERT_EQ(1, right(self->to,
							   self->to + a,
							   self->from + b,
							   lengths[l]))
						TH_LOG("way %zu, %zu bytes", w,
						       lengths[l]);
				}
}

/* A read or a write of a byte too many is a fault here. */
TEST_F(unit_copy, up_to_the_end)
{
	size_t w, n;

	for (w = 0; w < sizeof(ways) / sizeof(*ways); w++)
		for (n = 0; n < 1200; n++) {
			uint8_t *to = self->to + MOST - n;
			uint8_t *from = self->from + MOST - n;

			memset(self->to, 0xa5, MOST);
			ASSERT_EQ(true, ways[w](to, from, n));
			ASSERT_EQ(1, right(self->to, to, from, n));
		}
}

/* A reader is cold only while it goes on where it ended. */
TEST_F(unit_copy, walk)
{
	struct l5_copy_walk w = { 0, 0 };
	size_t n;

	for (n = 0; n < MOST; n += 1024) {
		l5_copy_out(&w, self->to + n, self->from + n, 1024);
		EXPECT_EQ(n + 1024, w.len);
		EXPECT_EQ((uintptr_t)self->to + n + 1024, w.end);
	}
	EXPECT_EQ(0, memcmp(self->to, self->from, MOST));
	/* the same memory again */
	l5_copy_out(&w, self->to, self->from + 1024, 1024);
	EXPECT_EQ(1024, w.len);
	EXPECT_EQ(0, memcmp(self->to, self->from + 1024, 1024));
	/* little pieces count, too */
	l5_copy_out(&w, self->to + 1024, self->from, 10);
	EXPECT_EQ(1034, w.len);
}

PLAIN_FIXTURE(unit_copy_alone)

/* Whether QEMU generates the code is what the kernel says, too. */
TEST_F(unit_copy_alone, emulated)
{
	char line[4096];
	FILE *f = fopen("/proc/cpuinfo", "r");
	bool tcg = false, flag = false;

	ASSERT_NE(NULL, f);
	while (fgets(line, sizeof(line), f)) {
		if (strstr(line, "QEMU TCG"))
			tcg = true;
		if (strstr(line, "hypervisor"))
			flag = true;
	}
	fclose(f);
	if (!flag)
		EXPECT_FALSE(l5_copy_emulated());
	if (tcg)
		EXPECT_TRUE(l5_copy_emulated());
}

TEST_HARNESS_MAIN
