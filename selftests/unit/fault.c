// SPDX-License-Identifier: GPL-2.0
/*
 * Copies between rings and what is no memory: the kernel fails the call, and
 * the ring is as if the call had not been tried, with a handler of signals that
 * asks l5_copy_fault().
 */
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "copies.h"
#include "copy.h"
#include "native_ends.h"

#define PAGE	4096u

static volatile sig_atomic_t faults;

static void handler(int sig, siginfo_t *si, void *uc)
{
	struct sigaction dfl = { .sa_handler = SIG_DFL };

	if (l5_copy_fault(sig, si, uc)) {
		faults++;
		return;
	}
	sigaction(sig, &dfl, NULL);
}

/* What is wrong with the memory */
enum kind { NONE, NO_READ, NO_WRITE, TRUNCATED, KINDS };

/*
 * @good bytes, and after them @bad that cannot be used (in pages): the address
 * of the first.
 */
static uint8_t *spoilt(enum kind kind, size_t good, size_t bad)
{
	size_t pages = (good + PAGE - 1) / PAGE * PAGE;
	size_t all = pages + (bad + PAGE - 1) / PAGE * PAGE;
	int fd = memfd_create("spoilt", 0);
	uint8_t *p;

	if (fd < 0 || ftruncate(fd, all))
		abort();
	p = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		abort();
	l5_fill(p + pages - good, good, 0);
	if ((kind == NONE && munmap(p + pages, all - pages)) ||
	    (kind == NO_READ && mprotect(p + pages, all - pages, PROT_NONE)) ||
	    (kind == NO_WRITE && mprotect(p + pages, all - pages, PROT_READ)) ||
	    (kind == TRUNCATED && ftruncate(fd, pages)))
		abort();
	close(fd);
	return p + pages - good;
}

static const struct {
	const char *name;
	bool (*copy)(void *to, const void *from, size_t n);
} ways[] = {
	{ "small", small }, { "near", l5_copy_near },
	{ "string", l5_copy_string }, { "words", l5_copy_words },
	{ "past", l5_copy_past }, { "in", l5_copy_in }, { "out", out_warm },
};

FIXTURE(unit_fault)
{
	struct l5_native *k;
	struct l5_map *m[2];
};

FIXTURE_SETUP(unit_fault)
{
	struct sigaction sa = {
		.sa_sigaction = handler,
		.sa_flags = SA_SIGINFO | SA_NODEFER,
	};

	/* copies may not fault in this build: skipped */
	if (!L5_COPY_FIXUP)
		_exit(255);
	alarm(100);
	sigaction(SIGSEGV, &sa, NULL);
	sigaction(SIGBUS, &sa, NULL);
	self->k = l5_native_new(64 << 10);
	ASSERT_NE(NULL, self->k);
	self->m[0] = l5_native_map(self->k, 0, 1);
	self->m[1] = l5_native_map(self->k, 1, 2);
}

FIXTURE_TEARDOWN(unit_fault)
{
	l5_native_unmap(self->m[0]);
	l5_native_unmap(self->m[1]);
	l5_native_free(self->k);
}

/* Each way, each place of the first bad byte, on either side */
TEST_F(unit_fault, each_way)
{
	static const size_t lengths[] = {
		1, 2, 3, 4, 7, 8, 15, 16, 17, 100, 256, 700, 1000, 3000, 9000,
	};
	uint8_t *fine = malloc(16384);
	size_t w, l, good, n;
	enum kind kind;
	uint8_t *bad;

	for (w = 0; w < ARRAY_SIZE(ways); w++)
		for (kind = 0; kind < KINDS; kind++)
			for (l = 0; l < ARRAY_SIZE(lengths); l++) {
				n = lengths[l];
				good = n > 1 ? (l * 977 + w * 31) % n : 0;
				bad = spoilt(kind, good, n);
				faults = 0;
				if (kind != NO_WRITE) {
					EXPECT_EQ(false, ways[w].copy(fine, bad,
								      n)) {
						TH_LOG("%s: %zu of %zu",
						       ways[w].name, good, n);
					}
					EXPECT_EQ(1, faults);
				}
				faults = 0;
				EXPECT_EQ(false, ways[w].copy(bad, fine, n)) {
					TH_LOG("%s: to %zu of %zu",
					       ways[w].name, good, n);
				}
				EXPECT_EQ(1, faults);
				/* what is all there is copied */
				if (good)
					EXPECT_EQ(true, ways[w].copy(fine, bad,
								     good));
			}
	free(fine);
}

/* No byte came, no lock is held, and what comes next is right. */
#define RING_IS_FINE(at)						\
	do {								\
		uint8_t in_[100], out_[100];				\
									\
		EXPECT_EQ(0, self->m[0]->own->tx_lock);			\
		EXPECT_EQ(0, self->m[1]->own->rx_lock);			\
		EXPECT_EQ(0, l5_held.now.key);				\
		l5_fill(out_, sizeof(out_), (at));			\
		EXPECT_EQ(100, l5_map_send1(self->m[0], -1, out_, 100));\
		EXPECT_EQ(100, l5_map_recv1(self->m[1], -1, in_, 100));	\
		EXPECT_EQ(0, wrong(in_, 100, (at)));			\
		EXPECT_EQ(L5_TRY_AGAIN,					\
			  l5_map_recv1(self->m[1], -1, in_, 100));	\
	} while (0)

TEST_F(unit_fault, sends)
{
	static const size_t lengths[] = { 1, 3, 8, 40, 256, 257, 900, 5000 };
	enum kind kind;
	uint8_t *bad;
	size_t l, n;

	for (kind = 0; kind < KINDS; kind++) {
		if (kind == NO_WRITE)
			continue;
		for (l = 0; l < ARRAY_SIZE(lengths); l++) {
			n = lengths[l];
			bad = spoilt(kind, n / 2, n);
			EXPECT_EQ(L5_TRY_ASK,
				  l5_map_send1(self->m[0], -1, bad, n));
			RING_IS_FINE(l);
		}
	}
	EXPECT_LT(0, faults);
}

TEST_F(unit_fault, receives)
{
	static const size_t lengths[] = { 1, 3, 8, 40, 256, 257, 900, 5000 };
	uint8_t *out = malloc(8192), *in = malloc(8192);
	enum kind kind;
	uint8_t *bad;
	size_t l, n;

	for (kind = 0; kind < KINDS; kind++)
		for (l = 0; l < ARRAY_SIZE(lengths); l++) {
			n = lengths[l];
			l5_fill(out, n, l);
			bad = spoilt(kind, n / 2, n);
			ASSERT_EQ((ssize_t)n,
				  l5_map_send1(self->m[0], -1, out, n));
			EXPECT_EQ(L5_TRY_ASK,
				  l5_map_recv1(self->m[1], -1, bad, n));
			/* a look has to fail, too */
			EXPECT_EQ(L5_TRY_ASK,
				  l5_map_tryrecv(self->m[1], -1,
						 &(struct iovec){ bad, n }, 1,
						 L5_TRY_PEEK));
			/* it is all still there */
			EXPECT_EQ((ssize_t)n,
				  l5_map_recv1(self->m[1], -1, in, n));
			EXPECT_EQ(0, wrong(in, n, l));
			RING_IS_FINE(l);
		}
	free(out);
	free(in);
}

/* What went before counts, in whole records. */
TEST_F(unit_fault, in_part)
{
	uint8_t *in = malloc(64 << 10), *bad = spoilt(NONE, 10, 100);
	struct iovec v[2];
	ssize_t n;

	/* a ring full, of which the second half is nowhere */
	v[0] = (struct iovec){ spoilt(TRUNCATED, 40000, 40000), 80000 };
	n = l5_map_trysend(self->m[0], -1, v, 1);
	EXPECT_EQ(L5_TRY_ASK, n);
	RING_IS_FINE(1);
	/* two messages, the second of which has no place */
	l5_fill(in, 100, 0);
	ASSERT_EQ(50, l5_map_send1(self->m[0], -1, in, 50));
	ASSERT_EQ(50, l5_map_send1(self->m[0], -1, in + 50, 50));
	v[0] = (struct iovec){ in, 50 };
	v[1] = (struct iovec){ bad, 50 };
	EXPECT_EQ(50, l5_map_tryrecv(self->m[1], -1, v, 2, 0));
	EXPECT_EQ(0, wrong(in, 50, 0));
	EXPECT_EQ(50, l5_map_recv1(self->m[1], -1, in, 100));
	EXPECT_EQ(0, wrong(in, 50, 50));
	RING_IS_FINE(2);
	/* a bad second element: the record is none */
	v[0] = (struct iovec){ in, 50 };
	EXPECT_EQ(L5_TRY_ASK, l5_map_trysend(self->m[0], -1, v, 2));
	RING_IS_FINE(3);
	free(in);
}

/* Faults of the program's own are the program's. */
TEST_F(unit_fault, others)
{
	ucontext_t uc = { 0 };
	siginfo_t si = { .si_code = SEGV_MAPERR };
	int status;
	pid_t pid;

	getcontext(&uc);
	EXPECT_EQ(false, l5_copy_fault(SIGSEGV, &si, &uc));
	pid = fork();
	if (!pid) {
		*(volatile uint8_t *)spoilt(NONE, 0, 10) = 1;
		_exit(0);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(true, WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	pid = fork();
	if (!pid) {
		kill(getpid(), SIGBUS);
		kill(getpid(), SIGBUS);
		_exit(0);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(true, WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
}

TEST_HARNESS_MAIN
