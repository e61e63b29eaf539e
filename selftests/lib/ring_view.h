/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A ring of uapi/l5_ring.h outside the kernel: the pages, and the two ways in
 * which they are reached. User space maps the data twice back to back and the
 * peer's pages read-only ("mirror"); the kernel sees it once and goes page by
 * page ("flat"). ThreadSanitizer knows addresses, not pages, so it can only
 * judge the second, where both ends use the same addresses.
 */
#ifndef RING_VIEW_H
#define RING_VIEW_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <linux/types.h>

#ifdef __SANITIZE_THREAD__
#define TSAN_BUILD	1
/*
 * ThreadSanitizer does not model fences. None of those in the ring orders
 * payload: they stand between words that are all atomic.
 */
#pragma GCC diagnostic ignored "-Wtsan"
#else
#define TSAN_BUILD	0
#endif

#include "l5_ring.h"
#include "l5test.h"

#define CTRL_PAGE	4096u

/* The header word of a record */
#define RING_VALID(len)	((__u64)L5_REC_VALID << 32 | (__u32)(len))

/* Sanitizers cost up to twenty times: they see the same cases, fewer bytes. */
#if defined(__SANITIZE_ADDRESS__) || TSAN_BUILD
#define RING_SLOW	8
#else
#define RING_SLOW	1
#endif

static inline double ring_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/**
 * struct view - one end's addresses
 * @data: of the ring
 * @own: control page of this end
 * @peer: control page of the other end
 * @mirror: @data is mapped twice back to back
 * @size: of the ring
 */
struct view {
	uint8_t *data;
	struct l5_ctrl *own;
	struct l5_ctrl *peer;
	bool mirror;
	uint32_t size;
};

struct ring {
	struct view prod;
	struct view cons;
};

static inline void ring_die(const char *what)
{
	perror(what);
	abort();
}

/*
 * Guard pages on both sides: an access outside the ring is a fault, in every
 * build.
 */
static inline void *ring_map_twice(int fd, off_t off, uint32_t size, int prot)
{
	uint8_t *p = mmap(NULL, 2 * CTRL_PAGE + 2UL * size, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		ring_die("mmap");
	p += CTRL_PAGE;
	if (mmap(p, size, prot, MAP_SHARED | MAP_FIXED, fd, off) ==
	    MAP_FAILED ||
	    mmap(p + size, size, prot, MAP_SHARED | MAP_FIXED, fd, off) ==
	    MAP_FAILED)
		ring_die("mmap twice");
	return p;
}

static inline void *ring_map_once(int fd, off_t off, uint32_t size, int prot)
{
	uint8_t *p = mmap(NULL, 2 * CTRL_PAGE + size, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		ring_die("mmap");
	p += CTRL_PAGE;
	if (mmap(p, size, prot, MAP_SHARED | MAP_FIXED, fd, off) == MAP_FAILED)
		ring_die("mmap once");
	return p;
}

static inline void ring_new(struct ring *r, uint32_t size, bool mirror)
{
	const int rw = PROT_READ | PROT_WRITE;
	const off_t at = 2 * CTRL_PAGE;
	int fd = memfd_create("ring", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, at + size))
		ring_die("memfd");
	memset(r, 0, sizeof(*r));
	r->prod.size = size;
	r->cons.size = size;
	r->prod.mirror = mirror;
	r->cons.mirror = mirror;
	r->prod.own = ring_map_once(fd, 0, CTRL_PAGE, rw);
	r->cons.own = ring_map_once(fd, CTRL_PAGE, CTRL_PAGE, rw);
	if (mirror) {
		r->prod.data = ring_map_twice(fd, at, size, rw);
		r->cons.data = ring_map_twice(fd, at, size, PROT_READ);
		r->prod.peer = ring_map_once(fd, CTRL_PAGE, CTRL_PAGE,
					     PROT_READ);
		r->cons.peer = ring_map_once(fd, 0, CTRL_PAGE, PROT_READ);
	} else {
		r->prod.data = ring_map_once(fd, at, size, rw);
		r->cons.data = r->prod.data;
		r->prod.peer = r->cons.own;
		r->cons.peer = r->prod.own;
	}
	close(fd);
}

static inline void ring_free(struct ring *r)
{
	size_t data = r->prod.size * (r->prod.mirror ? 2UL : 1UL);

	munmap((uint8_t *)r->prod.data - CTRL_PAGE, data + 2 * CTRL_PAGE);
	munmap((uint8_t *)r->prod.own - CTRL_PAGE, 3 * CTRL_PAGE);
	munmap((uint8_t *)r->cons.own - CTRL_PAGE, 3 * CTRL_PAGE);
	if (r->prod.mirror) {
		munmap(r->cons.data - CTRL_PAGE, data + 2 * CTRL_PAGE);
		munmap((uint8_t *)r->prod.peer - CTRL_PAGE, 3 * CTRL_PAGE);
		munmap((uint8_t *)r->cons.peer - CTRL_PAGE, 3 * CTRL_PAGE);
	}
}

static inline __u64 *ring_slot(const struct view *v, uint64_t pos)
{
	return (__u64 *)(v->data + (pos & (v->size - 1)));
}

/*
 * gcc turns memcpy() and loops that look like it into code that
 * ThreadSanitizer never sees, so there each byte goes by itself.
 */
static inline void ring_memcpy(uint8_t *to, const uint8_t *from, uint32_t n)
{
	if (!TSAN_BUILD) {
		memcpy(to, from, n);
		return;
	}
	while (n--) {
		*to++ = *from++;
		__asm__ __volatile__("");
	}
}

/* Run @body for each piece of the ring that is contiguous in this view. */
#define ring_pieces(v, pos, len, at, n, body) do {			\
	uint64_t _pos = (pos);						\
	uint32_t _left = (len), at, n;					\
									\
	for (; _left; _pos += n, _left -= n) {				\
		at = _pos & ((v)->size - 1);				\
		n = _left;						\
		if (!(v)->mirror && n > 4096 - (at & 4095))		\
			n = 4096 - (at & 4095);				\
		body;							\
	}								\
} while (0)

static inline void ring_copy_in(const struct view *v, uint64_t pos,
				const uint8_t *from, uint32_t len)
{
	ring_pieces(v, pos, len, at, n, {
		ring_memcpy(v->data + at, from, n);
		from += n;
	});
}

static inline void ring_copy_out(const struct view *v, uint64_t pos,
				 uint8_t *to, uint32_t len)
{
	ring_pieces(v, pos, len, at, n, {
		ring_memcpy(to, v->data + at, n);
		to += n;
	});
}

/* Publish one record of the stream @at; the caller has made sure of room. */
static inline void ring_put(const struct view *v, struct l5_prod *p,
			    uint64_t at, uint32_t len, uint8_t *scratch)
{
	l5_fill(scratch, len, at);
	ring_copy_in(v, p->tail + L5_HDR, scratch, len);
	l5_prod_publish(p, v->own, ring_slot(v, p->tail),
			ring_slot(v, p->tail + l5_rec_size(len)), len);
}

/* Take @len bytes of the current record; are some not the stream's? */
static inline uint32_t ring_get(const struct view *v, struct l5_cons *c,
				uint64_t at, uint32_t len, uint8_t *scratch)
{
	ring_copy_out(v, c->head + L5_HDR + c->off, scratch, len);
	l5_cons_take(c, v->own, len);
	return l5_wrong(scratch, len, at) >= 0;
}

/*
 * ring/mutants.sh asks for one test; the harness takes 255 for a skip. A test
 * that hangs, as those of mutants may, ends with the program that runs it: the
 * harness gives it a process group of its own, which timeout(1) misses.
 */
static inline void ring_only(const char *name)
{
	const char *only = getenv("L5_RING_ONLY");

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (only && *only && !strstr(name, only))
		_exit(255);
}

/* What the kernel does when a mapping is gone. */
static inline void ring_owner_died(__u32 *word, __u32 id)
{
	__u32 old = l5_load(word);

	while ((old & L5_LOCK_ID) == id)
		if (__atomic_compare_exchange_n(word, &old,
						(old & L5_LOCK_WAITERS) |
						L5_LOCK_DIED, 0,
						__ATOMIC_SEQ_CST,
						__ATOMIC_SEQ_CST))
			break;
}

/* A fixture that says in self->mirror which view a test is about. */
#define RING_FIXTURE(set)						\
	FIXTURE(set) { bool mirror; };					\
	FIXTURE_VARIANT(set) { bool mirror; };				\
	FIXTURE_VARIANT_ADD(set, mirror) { .mirror = true };		\
	FIXTURE_VARIANT_ADD(set, flat) { .mirror = false };		\
	FIXTURE_SETUP(set)						\
	{								\
		ring_only(_metadata->name);				\
		self->mirror = variant->mirror;				\
	}								\
	FIXTURE_TEARDOWN(set) { }

#endif /* RING_VIEW_H */
