/* SPDX-License-Identifier: GPL-2.0 */
/*
 * System calls of our own. The library has a syscall() for programs, so ours
 * are made by another name. The compiler is told to put it in the place of
 * syscall() (-include raw.h), also where the sources are libl5's.
 *
 * Where we do not know how to make them there is no syscall() of ours.
 */
#ifndef L5_RAW_H
#define L5_RAW_H

#if defined(__x86_64__)
#define L5_RAW	1

/* As the kernel returns it: -errno is an error. */
static inline long l5_raw(long nr, long a, long b, long c, long d, long e,
			  long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long ret;

	__asm__ volatile("syscall"
			 : "=a" (ret)
			 : "a" (nr), "D" (a), "S" (b), "d" (c), "r" (r10),
			   "r" (r8), "r" (r9)
			 : "rcx", "r11", "memory");
	return ret;
}

#elif defined(__aarch64__)
#define L5_RAW	1

static inline long l5_raw(long nr, long a, long b, long c, long d, long e,
			  long f)
{
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc 0"
			 : "+r" (x0)
			 : "r" (x8), "r" (x1), "r" (x2), "r" (x3), "r" (x4),
			   "r" (x5)
			 : "memory");
	return x0;
}

#elif defined(__riscv)
#define L5_RAW	1

static inline long l5_raw(long nr, long a, long b, long c, long d, long e,
			  long f)
{
	register long a7 __asm__("a7") = nr;
	register long a0 __asm__("a0") = a;
	register long a1 __asm__("a1") = b;
	register long a2 __asm__("a2") = c;
	register long a3 __asm__("a3") = d;
	register long a4 __asm__("a4") = e;
	register long a5 __asm__("a5") = f;

	__asm__ volatile("ecall"
			 : "+r" (a0)
			 : "r" (a7), "r" (a1), "r" (a2), "r" (a3), "r" (a4),
			   "r" (a5)
			 : "memory");
	return a0;
}

#else
#define L5_RAW	0
#endif

#if L5_RAW
long l5_syscall(long nr, ...) __attribute__((visibility("hidden")));
#define syscall	l5_syscall
#endif

#endif /* L5_RAW_H */
