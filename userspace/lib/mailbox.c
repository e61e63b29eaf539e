// SPDX-License-Identifier: GPL-2.0
/*
 * Mailboxes: see mailbox.h, and l5_mailbox_poll(3).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <endian.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "libl5.h"
#include "mailbox.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

/*
 * The words that are looked at change at any time: each is loaded once in a
 * call, which the compiler cannot merge with others. The result is a mask
 * alone, and an exchange finds out again what it says. So this is no race;
 * ThreadSanitizer cannot know that.
 */
#define L5_NOSAN __attribute__((no_sanitize("thread"), noinline))

static bool scan_always(void)
{
	return true;
}

/* A bit for each byte of a word that is not 0, the lowest for the first */
static uint64_t scan_word(uint64_t w)
{
	const uint64_t low = 0x7f7f7f7f7f7f7f7full;

	w = le64toh(w);
	w = (((w & low) + low) | w) & ~low;
	/* bits 7, 15, ... 63 meet in the highest byte without carries */
	return (w >> 7) * 0x0102040810204080ull >> 56;
}

L5_NOSAN
static unsigned int scan_scalar(const uint8_t *box, unsigned int from,
				unsigned int end, uint64_t *mask)
{
	const uint64_t *w = (const uint64_t *)(box + from * L5_MAILBOX_LINE);
	uint64_t word[8], any;
	int i;

	for (; from < end; from++, w += 8) {
		any = 0;
		for (i = 0; i < 8; i++) {
			word[i] = l5_load(&w[i]);
			any |= word[i];
		}
		if (l5_likely(!any))
			continue;
		any = 0;
		for (i = 0; i < 8; i++)
			any |= scan_word(word[i]) << 8 * i;
		*mask = any;
		break;
	}
	return from;
}

#ifdef __x86_64__

static bool scan_has_avx2(void)
{
	return __builtin_cpu_supports("avx2");
}

L5_NOSAN
static unsigned int scan_sse2(const uint8_t *box, unsigned int from,
			      unsigned int end, uint64_t *mask)
{
	const __m128i *p = (const __m128i *)(box + from * L5_MAILBOX_LINE);
	const __m128i zero = _mm_setzero_si128();
	uint64_t clear;

	for (; from < end; from++, p += 4) {
		__m128i a = _mm_cmpeq_epi8(_mm_load_si128(p), zero);
		__m128i b = _mm_cmpeq_epi8(_mm_load_si128(p + 1), zero);
		__m128i c = _mm_cmpeq_epi8(_mm_load_si128(p + 2), zero);
		__m128i d = _mm_cmpeq_epi8(_mm_load_si128(p + 3), zero);

		clear = (uint64_t)_mm_movemask_epi8(a) |
			(uint64_t)_mm_movemask_epi8(b) << 16 |
			(uint64_t)_mm_movemask_epi8(c) << 32 |
			(uint64_t)_mm_movemask_epi8(d) << 48;
		if (l5_unlikely(~clear)) {
			*mask = ~clear;
			break;
		}
	}
	return from;
}

L5_NOSAN __attribute__((target("avx2")))
static unsigned int scan_avx2(const uint8_t *box, unsigned int from,
			      unsigned int end, uint64_t *mask)
{
	const __m256i *p = (const __m256i *)(box + from * L5_MAILBOX_LINE);
	const __m256i zero = _mm256_setzero_si256();
	uint64_t clear;

	for (; from < end; from++, p += 2) {
		__m256i a = _mm256_cmpeq_epi8(_mm256_load_si256(p), zero);
		__m256i b = _mm256_cmpeq_epi8(_mm256_load_si256(p + 1), zero);

		clear = (uint32_t)_mm256_movemask_epi8(a) |
			(uint64_t)(uint32_t)_mm256_movemask_epi8(b) << 32;
		if (l5_unlikely(~clear)) {
			*mask = ~clear;
			break;
		}
	}
	return from;
}

#endif

const struct l5_scan l5_scans[] = {
#ifdef __x86_64__
	{ "avx2", scan_has_avx2, scan_avx2 },
	{ "sse2", scan_always, scan_sse2 },
#endif
	{ "scalar", scan_always, scan_scalar },
	{ NULL, NULL, NULL },
};

struct l5_mailbox *l5_mailbox_over(uint8_t *byte, uint32_t size)
{
	struct l5_mailbox *b;
	unsigned int i;

	if (l5_map_live() < 0)
		return NULL;
	b = calloc(1, sizeof(*b) + size * (sizeof(*b->conn) + sizeof(*b->at)));
	if (!b)
		return NULL;
	b->at = (uint32_t *)(b->conn + size);
	b->size = size;
	for (i = 0; !l5_scans[i].usable(); i++)
		;
	b->scan = &l5_scans[i];
	b->byte = byte;
	b->life = l5_load(l5_map_life);
	b->ref = 1;
	return b;
}

/* Is it of AF_L5? Other files refuse a mapping for reasons of their own. */
static bool mailbox_able(int fd)
{
	socklen_t len = sizeof(int);
	int transport;

	if (!syscall(SYS_getsockopt, fd, SOL_L5, L5_TRANSPORT, &transport,
		     &len))
		return true;
	if (errno != EBADF && errno != ENOTSOCK)
		errno = ENODEV;
	return false;
}

/* A listener that does not answer for RDMA, if it is a listener. */
static bool mailbox_listens(int fd)
{
	socklen_t len = sizeof(int);
	int listens;

	return !syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_ACCEPTCONN,
			&listens, &len) && listens;
}

struct l5_mailbox *l5_mailbox_open(int fd)
{
	struct l5_map_info info;
	struct l5_area area;
	struct l5_mailbox *b;
	uint8_t *byte;

	if (!mailbox_able(fd))
		return NULL;
	if (l5_map_ask(fd, &info, &area, 1, 0)) {
		if (errno == ENOTCONN || errno == EOPNOTSUPP ||
		    errno == EAGAIN)
			errno = mailbox_listens(fd) ? EOPNOTSUPP : EINVAL;
		return NULL;
	}
	if (!info.nareas || area.kind != L5_AREA_MAILBOX) {
		errno = EINVAL;
		return NULL;
	}
	if (!area.length || area.length > 1 << 20 ||
	    area.length % L5_MAILBOX_LINE) {
		errno = EPROTONOSUPPORT;
		return NULL;
	}
	byte = mmap64(NULL, area.length, PROT_READ | PROT_WRITE, MAP_SHARED,
		      fd, area.offset);
	if (byte == MAP_FAILED)
		return NULL;
	b = l5_mailbox_over(byte, area.length);
	if (b)
		b->mapped = true;
	else
		munmap(byte, area.length);
	return b;
}

void l5_mailbox_get(struct l5_mailbox *b)
{
	__atomic_add_fetch(&b->ref, 1, __ATOMIC_RELAXED);
}

void l5_mailbox_put(struct l5_mailbox *b)
{
	if (__atomic_sub_fetch(&b->ref, 1, __ATOMIC_ACQ_REL))
		return;
	/* what a parent mapped is not there */
	if (b->mapped && l5_mailbox_mine(b))
		munmap(b->byte, b->size);
	free(b);
}

void l5_mailbox_close(struct l5_mailbox *b)
{
	if (b)
		l5_mailbox_put(b);
}

bool l5_mailbox_join(struct l5_mailbox *b, struct l5_stream *c, uint32_t i)
{
	struct l5_stream *old = NULL;
	uint32_t lines = l5_load(&b->lines);
	const uint32_t want = i / L5_MAILBOX_LINE + 1;

	if (i >= b->size)
		return false;
	if (!__atomic_compare_exchange_n(&b->conn[i], &old, c, false,
					 __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST) &&
	    old != c)
		return false;
	while (lines < want &&
	       !__atomic_compare_exchange_n(&b->lines, &lines, want, false,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	/* records that came before did not set it, or it was cleared */
	l5_mailbox_set(b, i);
	return true;
}

void l5_mailbox_leave(struct l5_mailbox *b, struct l5_stream *c, uint32_t i)
{
	__atomic_compare_exchange_n(&b->conn[i], &c, NULL, false,
				    __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

/* Those of the bytes from @from on and before @end that are set */
static int poll_part(struct l5_mailbox *b, uint32_t from, uint32_t end,
		     struct l5_stream **ready, int max)
{
	const unsigned int lines = l5_load(&b->lines);
	unsigned int line = from / L5_MAILBOX_LINE;
	struct l5_stream *c;
	uint64_t mask;
	uint32_t i;
	int n = 0;

	for (; n < max; line++) {
		line = l5_mailbox_line(b, line, lines, &mask);
		i = line * L5_MAILBOX_LINE;
		if (line >= lines || i >= end)
			break;
		if (i < from)
			mask &= ~0ull << (from - i);
		if (end - i < L5_MAILBOX_LINE)
			mask &= ~(~0ull << (end - i));
		for (; mask && n < max; mask &= mask - 1) {
			i = line * L5_MAILBOX_LINE + __builtin_ctzll(mask);
			if (!l5_mailbox_take(b, i))
				continue;
			c = __atomic_load_n(&b->conn[i], __ATOMIC_ACQUIRE);
			if (c)
				ready[n++] = c;
			l5_store(&b->turn, i + 1);
		}
	}
	return n;
}

int l5_mailbox_poll(struct l5_mailbox *b, struct l5_stream **ready, int max)
{
	uint32_t turn = l5_load(&b->turn) % b->size;
	int n;

	if (max < 1 || !l5_mailbox_mine(b)) {
		errno = EINVAL;
		return -1;
	}
	/* connections that were reported last come last */
	n = poll_part(b, turn, b->size, ready, max);
	if (n < max && turn)
		n += poll_part(b, 0, turn, ready + n, max - n);
	l5_mailbox_fence();
	return n;
}
