// SPDX-License-Identifier: GPL-2.0
/*
 * Mapped rings that are taken back in the middle of a call: from one
 * instruction to the next all of them is zeros, and the state page says so
 * before. No call is to return these zeros, nor to blame the peer for them.
 */
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "native_ends.h"

RINGS_FIXTURE(unit_gone)

enum { PAGE = 4096 };

static struct l5_native *taken;
static uint8_t *trap;
static int blamed;

static void take_back(void)
{
	int e;

	for (e = 0; e < 2; e++)
		l5_native_flag(taken, e, L5_MAP_TX_ASK | L5_MAP_RX_ASK |
			       L5_MAP_GONE);
	for (e = 0; e < 2; e++) {
		memset(taken->ctrl[e], 0, sizeof(struct l5_ctrl));
		memset(taken->data[e], 0, taken->size);
	}
}

/* A touch of the buffer's second page takes the rings back, and maps it. */
static void on_segv(int sig)
{
	(void)sig;
	take_back();
	if (mprotect(trap, PAGE, PROT_READ | PROT_WRITE))
		_exit(1);
}

static void on_bell(struct l5_map *m, int fd, unsigned int bells)
{
	(void)m;
	(void)fd;
	(void)bells;
	take_back();
}

static void on_broken(struct l5_map *m, int fd)
{
	(void)m;
	(void)fd;
	blamed++;
}

/* A buffer of @n bytes, all but the first @before behind the trap. */
static uint8_t *trapped(struct __test_metadata *_metadata, size_t before)
{
	struct sigaction sa = { .sa_handler = on_segv };
	uint8_t *p = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ASSERT_NE(MAP_FAILED, p);
	trap = p + PAGE;
	ASSERT_EQ(0, mprotect(trap, PAGE, PROT_NONE));
	ASSERT_EQ(0, sigaction(SIGSEGV, &sa, NULL));
	return trap - before;
}

/* Sizes of the inline paths, of one record and of several */
static const size_t sizes[] = { 100, 250, 1000, 3000, 4000 };

TEST_F(unit_gone, receiving)
{
	struct l5_map_ops ops = *self->b->ops;
	uint8_t out[4000], *in;
	size_t i;

	ops.broken = on_broken;
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		size_t n = sizes[i];

		taken = self->k;
		self->b->ops = &ops;
		l5_fill(out, n, i);
		ASSERT_EQ((ssize_t)n, l5_map_send1(self->a, -1, out, n));
		in = trapped(_metadata, n / 2);
		EXPECT_EQ(L5_TRY_ASK, l5_map_recv1(self->b, -1, in, n)) {
			TH_LOG("%zu bytes", n);
		}
		EXPECT_EQ(0, blamed);
		/* ends that are new */
		l5_native_unmap(self->a);
		l5_native_unmap(self->b);
		l5_native_free(self->k);
		self->k = l5_native_new(SIZE);
		ASSERT_NE(NULL, self->k);
		self->a = l5_native_map(self->k, 0, 1);
		self->b = l5_native_map(self->k, 1, 1);
		ASSERT_NE(NULL, self->b);
	}
}

TEST_F(unit_gone, looking)
{
	struct iovec v = { .iov_len = 1000 };
	uint8_t out[1000];

	taken = self->k;
	l5_fill(out, sizeof(out), 1);
	ASSERT_EQ(1000, l5_map_send1(self->a, -1, out, 1000));
	v.iov_base = trapped(_metadata, 10);
	EXPECT_EQ(L5_TRY_ASK, l5_map_tryrecv(self->b, -1, &v, 1, L5_TRY_PEEK));
}

/* Room is looked for again after the doorbell, and there is no sense in it. */
TEST_F(unit_gone, sending)
{
	struct l5_map_ops ops = *self->a->ops;
	static uint8_t out[4 * SIZE];
	ssize_t n;

	taken = self->k;
	/* a head that is not 0 */
	ASSERT_EQ(4000, l5_map_send1(self->a, -1, out, 4000));
	ASSERT_EQ(4000, l5_map_recv1(self->b, -1, out, 4000));
	ASSERT_EQ(4000, l5_map_send1(self->a, -1, out, 4000));
	ASSERT_EQ(4000, l5_map_recv1(self->b, -1, out, 4000));
	ops.bell = on_bell;
	ops.broken = on_broken;
	self->a->ops = &ops;
	l5_store(&self->k->ctrl[1]->rx_wait, 1);
	n = l5_map_send1(self->a, -1, out, sizeof(out));
	EXPECT_LT(0, n);
	EXPECT_LE(n, (ssize_t)SIZE);
	EXPECT_EQ(0, blamed);
	EXPECT_EQ(L5_TRY_ASK, l5_map_send1(self->a, -1, out, 1));
	EXPECT_EQ(0, blamed);
}

TEST_HARNESS_MAIN
