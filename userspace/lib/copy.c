// SPDX-License-Identifier: GPL-2.0
/*
 * Large payloads into and out of rings.
 *
 * Going in they go past the caches. Lines that are dirty in this CPU's are slow
 * to get for the one that will read them; those in memory it reads ahead.
 * Measured, bulk between two cores is three times as fast.
 *
 * Coming out they stay in the caches, where the reader will want them, but for
 * one that fills more memory than these hold: there each line would be read
 * before it is overwritten, for nothing.
 *
 * A CPU that is emulated instruction by instruction has no caches to go past,
 * and its vector registers are memory: there every byte moves twice for each
 * move. Words of its host's size are what it copies fastest.
 */
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "copy.h"

#define LINE	64
#define AHEAD	512

/* A word wherever it lies; not what a compiler makes vectors of. */
struct word {
	uint64_t w;
} __attribute__((packed, may_alias));

/**
 * l5_copy_emulated() - is this CPU QEMU's code generator?
 *
 * One that KVM runs in a virtual machine is a real one.
 */
bool l5_copy_emulated(void)
{
#if defined(__x86_64__) || defined(__i386__)
	unsigned int a, b, c, d;
	char name[12];

	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & 1U << 31))
		return false;
	__cpuid(0x40000000, a, b, c, d);
	memcpy(name, &b, 4);
	memcpy(name + 4, &c, 4);
	memcpy(name + 8, &d, 4);
	return !memcmp(name, "TCGTCGTCGTCG", sizeof(name));
#else
	return false;
#endif
}

/**
 * l5_copy_words() - copy by words
 * @to: where to
 * @from: where from, not overlapping
 * @n: bytes
 */
void l5_copy_words(void *to, const void *from, size_t n)
{
	volatile struct word *t = to;
	const volatile struct word *f = from;

	for (; n >= LINE; n -= LINE, t += 8, f += 8) {
		uint64_t a = f[0].w, b = f[1].w, c = f[2].w, d = f[3].w;

		t[0].w = a;
		t[1].w = b;
		t[2].w = c;
		t[3].w = d;
		a = f[4].w;
		b = f[5].w;
		c = f[6].w;
		d = f[7].w;
		t[4].w = a;
		t[5].w = b;
		t[6].w = c;
		t[7].w = d;
	}
	memcpy((void *)t, (const void *)f, n);
}

/**
 * l5_copy_past() - copy past the caches
 * @to: where to
 * @from: where from, not overlapping
 * @n: bytes
 */
void l5_copy_past(void *to, const void *from, size_t n)
{
#ifdef __SSE2__
	size_t head = -(uintptr_t)to & (LINE - 1);
	const uint8_t *f = from;
	uint8_t *t = to;

	if (head > n)
		head = n;
	memcpy(t, f, head);
	t += head;
	f += head;
	n -= head;
	for (; n >= LINE; n -= LINE, t += LINE, f += LINE) {
		__m128i a = _mm_loadu_si128((const __m128i *)f);
		__m128i b = _mm_loadu_si128((const __m128i *)f + 1);
		__m128i c = _mm_loadu_si128((const __m128i *)f + 2);
		__m128i d = _mm_loadu_si128((const __m128i *)f + 3);

		/* what the CPU reads ahead by itself ends with each page */
		_mm_prefetch((const char *)f + AHEAD, _MM_HINT_NTA);
		_mm_stream_si128((__m128i *)t, a);
		_mm_stream_si128((__m128i *)t + 1, b);
		_mm_stream_si128((__m128i *)t + 2, c);
		_mm_stream_si128((__m128i *)t + 3, d);
	}
	/* a store-release does not order these: before A */
	_mm_sfence();
	to = t;
	from = f;
#endif
	memcpy(to, from, n);
}

/* Asked once: in a virtual machine asking is an exit. */
static bool l5_copy_by_words;

static void __attribute__((constructor)) l5_copy_choose(void)
{
	l5_copy_by_words = l5_copy_emulated();
}

/**
 * l5_copy_in() - copy a payload of L5_COPY_LARGE bytes or more into a ring
 * @to: in the ring
 * @from: where from
 * @n: bytes
 */
void l5_copy_in(void *to, const void *from, size_t n)
{
	if (l5_copy_by_words)
		l5_copy_words(to, from, n);
	else
		l5_copy_past(to, from, n);
}

/* Has this reader gone through more memory than the caches hold? */
static bool l5_copy_cold(struct l5_copy_walk *w, void *to, size_t n)
{
	uintptr_t at = (uintptr_t)to;

	w->len = at == w->end ? w->len + n : n;
	w->end = at + n;
	return w->len >= L5_COPY_COLD;
}

/**
 * l5_copy_out() - copy a payload out of a ring
 * @w: of the ring, all zero at first
 * @to: where to
 * @from: in the ring
 * @n: bytes
 */
void l5_copy_out(struct l5_copy_walk *w, void *to, const void *from, size_t n)
{
	bool cold = l5_copy_cold(w, to, n);

	if (n < L5_COPY_LARGE || (!cold && !l5_copy_by_words))
		memcpy(to, from, n);
	else if (l5_copy_by_words)
		l5_copy_words(to, from, n);
	else
		l5_copy_past(to, from, n);
}
