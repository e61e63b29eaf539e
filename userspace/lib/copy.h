/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Payloads into and out of rings. All ways do the same; which one is fast
 * depends on where the bytes have to go.
 *
 * One side of each copy is memory of the caller's, and may be none: not mapped,
 * not to be written, or of a file that is shorter by now. The kernel copies
 * with a table that says, of each instruction that may fault, where to go on;
 * so does this. A handler of SIGSEGV and SIGBUS that asks l5_copy_fault() first
 * makes such a copy return false, with any part of it done. Then the bytes are
 * not to be used, and the system call says what is wrong with the memory.
 * Without such a handler, or if the thread blocks these signals, the process
 * ends as by any other access. So it does on other CPUs than x86-64, and under
 * the sanitizers, which want to see each access.
 */
#ifndef L5_COPY_H
#define L5_COPY_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__LP64__) && \
	!defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define L5_COPY_FIXUP	1
#else
#define L5_COPY_FIXUP	0
#endif

/**
 * struct l5_copy_entry - an instruction that may fault, and where to go on
 * @at: its address, as the distance from this field
 * @to: the address to go on at, as the distance from this field
 */
struct l5_copy_entry {
	int32_t at;
	int32_t to;
};

/**
 * l5_copy_fault() - did a copy touch what is no memory?
 * @sig: SIGSEGV or SIGBUS
 * @si: what the handler got
 * @ucontext: what the handler got; changed so that the copy returns false
 *
 * Context: a signal handler, also of a thread that was never here.
 * Return: whether the fault was a copy's. Then all is done once the handler
 * returns.
 */
bool l5_copy_fault(int sig, siginfo_t *si, void *ucontext);

#if L5_COPY_FIXUP

/* The table's entry for the instruction at a label: go on at another label */
#define L5_COPY_ENTRY(at, to)						\
	".pushsection l5_copy_table, \"a\"\n\t"				\
	".balign 4\n\t"							\
	".long " at " - ., " to " - .\n\t"				\
	".popsection\n\t"

/* A load and a store, by way of a register; else to the label "fault" */
#define L5_COPY_MOVE(op, reg, clobber, to, from)			\
	__asm__ goto("1: " op " (%1), " reg "\n\t"			\
		     "2: " op " " reg ", (%0)\n\t"			\
		     L5_COPY_ENTRY("1b", "%l[fault]")			\
		     L5_COPY_ENTRY("2b", "%l[fault]")			\
		     : : "r" (to), "r" (from) : clobber, "memory"	\
		     : fault)

/* The same twice: both loads come first, so that the parts may overlap. */
#define L5_COPY_TWO(op, reg, reg2, clobber, clobber2, to, from, off)	\
	__asm__ goto("1: " op " (%1), " reg "\n\t"			\
		     "2: " op " (%1,%2), " reg2 "\n\t"		\
		     "3: " op " " reg2 ", (%0,%2)\n\t"		\
		     "4: " op " " reg ", (%0)\n\t"			\
		     L5_COPY_ENTRY("1b", "%l[fault]")			\
		     L5_COPY_ENTRY("2b", "%l[fault]")			\
		     L5_COPY_ENTRY("3b", "%l[fault]")			\
		     L5_COPY_ENTRY("4b", "%l[fault]")			\
		     : : "r" (to), "r" (from), "r" (off)		\
		     : clobber, clobber2, "memory" : fault)

#endif

/**
 * l5_copy_small() - copy a few bytes, from the end to the start
 * @to: where to
 * @from: where from, not overlapping
 * @n: bytes, at least one
 *
 * The line with the header of a record is written last. Not by a call, since
 * for so little it would cost more than the copy.
 *
 * Return: true; false if not all of that was memory, see above.
 */
static inline __attribute__((always_inline))
bool l5_copy_small(uint8_t *to, const uint8_t *from, size_t n)
{
	/* what the compiler knows of the buffers says nothing about n */
	__asm__("" : "+r" (to), "+r" (from));
#if L5_COPY_FIXUP
	if (__builtin_expect(n >= 16, 1)) {
		for (; n > 16; n -= 16)
			L5_COPY_MOVE("movdqu", "%%xmm0", "xmm0", to + n - 16,
				     from + n - 16);
		L5_COPY_MOVE("movdqu", "%%xmm0", "xmm0", to, from);
	} else if (n >= 8) {
		L5_COPY_TWO("movq", "%%rax", "%%rdx", "rax", "rdx", to, from,
			    n - 8);
	} else if (n >= 4) {
		L5_COPY_TWO("movl", "%%eax", "%%edx", "rax", "rdx", to, from,
			    n - 4);
	} else {
		L5_COPY_TWO("movb", "%%al", "%%dl", "rax", "rdx", to, from,
			    n - 1);
		L5_COPY_MOVE("movb", "%%al", "rax", to + n / 2, from + n / 2);
	}
	return true;
fault:
	return false;
#else
	if (__builtin_expect(n >= 16, 1)) {
		for (; n > 16; n -= 16)
			memcpy(to + n - 16, from + n - 16, 16);
		memcpy(to, from, 16);
	} else if (n >= 8) {
		memcpy(to + n - 8, from + n - 8, 8);
		memcpy(to, from, 8);
	} else if (n >= 4) {
		memcpy(to + n - 4, from + n - 4, 4);
		memcpy(to, from, 4);
	} else {
		to[n - 1] = from[n - 1];
		to[n / 2] = from[n / 2];
		to[0] = from[0];
	}
	return true;
#endif
}

/* From so many bytes on it is worth asking how. */
#define L5_COPY_LARGE	960u

/* A reader that walked so far through memory finds it in no cache. */
#define L5_COPY_COLD	(32ul << 20)

/**
 * struct l5_copy_walk - where a reader puts what it receives
 * @end: where the last payload ended
 * @len: bytes up to there that came one after the other
 */
struct l5_copy_walk {
	uintptr_t end;
	size_t len;
};

bool l5_copy_in(void *to, const void *from, size_t n);
bool l5_copy_out(struct l5_copy_walk *w, void *to, const void *from, size_t n);

/* The ways, for tests. */
bool l5_copy_near(void *to, const void *from, size_t n);
bool l5_copy_string(void *to, const void *from, size_t n);
bool l5_copy_past(void *to, const void *from, size_t n);
bool l5_copy_words(void *to, const void *from, size_t n);
bool l5_copy_emulated(void);

#endif /* L5_COPY_H */
