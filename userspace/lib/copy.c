// SPDX-License-Identifier: GPL-2.0
/*
 * Payloads into and out of rings.
 *
 * On their way in payloads go past the caches. Lines that are dirty in this
 * CPU's caches are slow to get for the CPU that will read them; lines in memory
 * it reads ahead. Measured, bulk between two cores is three times as fast.
 *
 * On their way out they stay in the caches, where the reader will want them. A
 * reader that fills more memory than the caches hold is the exception: there
 * each line would be read before it is overwritten, for nothing.
 *
 * A CPU that is emulated instruction by instruction has no caches to go past,
 * and its vector registers are memory: there every byte moves twice for each
 * move. Words of its host's size are what it copies fastest.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif
#include "copy.h"

#define LINE	64
/* the CPU reads ahead by itself no further than to the end of a page */
#define AHEAD	"512"
/* From so many bytes on the CPU's own string moves are the fastest. */
#define STRING	1024u

#if L5_COPY_FIXUP

/* All of them, of all files that are linked together; see ld(1). */
extern const struct l5_copy_entry __start_l5_copy_table[]
	__attribute__((visibility("hidden")));
extern const struct l5_copy_entry __stop_l5_copy_table[]
	__attribute__((visibility("hidden")));

bool l5_copy_fault(int sig, siginfo_t *si, void *ucontext)
{
	const struct l5_copy_entry *e;
	greg_t *ip = &((ucontext_t *)ucontext)->uc_mcontext.gregs[REG_RIP];

	/* a signal that a process sent is not about an instruction */
	if ((sig != SIGSEGV && sig != SIGBUS) || si->si_code <= 0)
		return false;
	for (e = __start_l5_copy_table; e < __stop_l5_copy_table; e++) {
		if ((uintptr_t)&e->at + e->at != (uintptr_t)*ip)
			continue;
		*ip = (uintptr_t)&e->to + e->to;
		return true;
	}
	return false;
}

/* A line in four moves; @store: the instruction of the stores, @ahead: more */
#define COPY_LINE(store, ahead, to, from)				\
	__asm__ goto("1: movdqu (%1), %%xmm0\n\t"			\
		     "2: movdqu 16(%1), %%xmm1\n\t"			\
		     "3: movdqu 32(%1), %%xmm2\n\t"			\
		     "4: movdqu 48(%1), %%xmm3\n\t"			\
		     ahead						\
		     "5: " store " %%xmm0, (%0)\n\t"			\
		     "6: " store " %%xmm1, 16(%0)\n\t"			\
		     "7: " store " %%xmm2, 32(%0)\n\t"			\
		     "8: " store " %%xmm3, 48(%0)\n\t"			\
		     L5_COPY_ENTRY("1b", "%l[fault]")			\
		     L5_COPY_ENTRY("2b", "%l[fault]")			\
		     L5_COPY_ENTRY("3b", "%l[fault]")			\
		     L5_COPY_ENTRY("4b", "%l[fault]")			\
		     L5_COPY_ENTRY("5b", "%l[fault]")			\
		     L5_COPY_ENTRY("6b", "%l[fault]")			\
		     L5_COPY_ENTRY("7b", "%l[fault]")			\
		     L5_COPY_ENTRY("8b", "%l[fault]")			\
		     : : "r" (to), "r" (from)				\
		     : "xmm0", "xmm1", "xmm2", "xmm3", "memory"		\
		     : fault)

/* Half a line in words, not in vectors */
#define COPY_WORDS(to, from)						\
	__asm__ goto("1: movq (%1), %%rax\n\t"				\
		     "2: movq 8(%1), %%rcx\n\t"			\
		     "3: movq 16(%1), %%rdx\n\t"			\
		     "4: movq 24(%1), %%r8\n\t"			\
		     "5: movq %%rax, (%0)\n\t"				\
		     "6: movq %%rcx, 8(%0)\n\t"			\
		     "7: movq %%rdx, 16(%0)\n\t"			\
		     "8: movq %%r8, 24(%0)\n\t"			\
		     L5_COPY_ENTRY("1b", "%l[fault]")			\
		     L5_COPY_ENTRY("2b", "%l[fault]")			\
		     L5_COPY_ENTRY("3b", "%l[fault]")			\
		     L5_COPY_ENTRY("4b", "%l[fault]")			\
		     L5_COPY_ENTRY("5b", "%l[fault]")			\
		     L5_COPY_ENTRY("6b", "%l[fault]")			\
		     L5_COPY_ENTRY("7b", "%l[fault]")			\
		     L5_COPY_ENTRY("8b", "%l[fault]")			\
		     : : "r" (to), "r" (from)				\
		     : "rax", "rcx", "rdx", "r8", "memory" : fault)

#else

bool l5_copy_fault(int sig, siginfo_t *si, void *ucontext)
{
	(void)sig;
	(void)si;
	(void)ucontext;
	return false;
}

#endif

/**
 * l5_copy_emulated() - is this CPU QEMU's code generator?
 *
 * A CPU that KVM runs in a virtual machine is a real one.
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
 *
 * Return: as l5_copy_small(), also of those below.
 */
bool l5_copy_words(void *to, const void *from, size_t n)
{
#if L5_COPY_FIXUP
	const uint8_t *f = from;
	uint8_t *t = to;

	for (; n >= LINE / 2; n -= LINE / 2, t += LINE / 2, f += LINE / 2)
		COPY_WORDS(t, f);
	return !n || l5_copy_small(t, f, n);
fault:
	return false;
#else
	memcpy(to, from, n);
	return true;
#endif
}

/**
 * l5_copy_near() - copy within the caches
 * @to: where to
 * @from: where from, not overlapping
 * @n: bytes
 */
bool l5_copy_near(void *to, const void *from, size_t n)
{
#if L5_COPY_FIXUP
	const uint8_t *f = from;
	uint8_t *t = to;

	for (; n >= LINE; n -= LINE, t += LINE, f += LINE)
		COPY_LINE("movdqu", "", t, f);
	return !n || l5_copy_small(t, f, n);
fault:
	return false;
#else
	memcpy(to, from, n);
	return true;
#endif
}

/**
 * l5_copy_string() - copy by the instruction that does it all
 * @to: where to
 * @from: where from, not overlapping
 * @n: bytes
 */
bool l5_copy_string(void *to, const void *from, size_t n)
{
#if L5_COPY_FIXUP
	__asm__ volatile("1: rep movsb\n"
			 "2:\n\t"
			 L5_COPY_ENTRY("1b", "2b")
			 : "+D" (to), "+S" (from), "+c" (n) : : "memory");
	return !n;
#else
	memcpy(to, from, n);
	return true;
#endif
}

/**
 * l5_copy_past() - copy past the caches
 * @to: where to
 * @from: where from, not overlapping
 * @n: bytes
 */
bool l5_copy_past(void *to, const void *from, size_t n)
{
#if L5_COPY_FIXUP
	size_t head = -(uintptr_t)to & (LINE - 1);
	const uint8_t *f = from;
	uint8_t *t = to;
	bool done = true;

	if (head > n)
		head = n;
	if (head && !l5_copy_small(t, f, head))
		return false;
	t += head;
	f += head;
	n -= head;
	for (; n >= LINE; n -= LINE, t += LINE, f += LINE)
		COPY_LINE("movntdq", "prefetchnta " AHEAD "(%1)\n\t", t, f);
	goto out;
fault:
	done = false;
out:
	/* a store-release does not order these: before A */
	__asm__ volatile("sfence" : : : "memory");
	return done && (!n || l5_copy_small(t, f, n));
#else
	memcpy(to, from, n);
	return true;
#endif
}

/* Asked once: in a virtual machine asking is an exit. */
static bool l5_copy_by_words;
/* Are those fast? (ERMS) */
static bool l5_copy_by_string;

static void __attribute__((constructor)) l5_copy_choose(void)
{
#if L5_COPY_FIXUP
	unsigned int a, b, c, d;

	if (__get_cpuid_count(7, 0, &a, &b, &c, &d))
		l5_copy_by_string = b & 1U << 9;
#endif
	l5_copy_by_words = l5_copy_emulated();
}

/**
 * l5_copy_in() - copy a payload into a ring
 * @to: in the ring
 * @from: where from
 * @n: bytes, at least one
 */
bool l5_copy_in(void *to, const void *from, size_t n)
{
	if (n < L5_COPY_LARGE)
		return l5_copy_near(to, from, n);
	if (l5_copy_by_words)
		return l5_copy_words(to, from, n);
	return l5_copy_past(to, from, n);
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
bool l5_copy_out(struct l5_copy_walk *w, void *to, const void *from, size_t n)
{
	bool cold = l5_copy_cold(w, to, n);

	if (n < L5_COPY_LARGE)
		return l5_copy_near(to, from, n);
	if (l5_copy_by_words)
		return l5_copy_words(to, from, n);
	if (cold)
		return l5_copy_past(to, from, n);
	if (l5_copy_by_string && n >= STRING)
		return l5_copy_string(to, from, n);
	return l5_copy_near(to, from, n);
}
