/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What every file here wants of the compiler and of the CPU.
 */
#ifndef L5_BASE_H
#define L5_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../uapi/l5.h"
#include "../../uapi/l5_policy.h"
#include "../../uapi/l5_ring.h"

/*
 * ThreadSanitizer knows addresses and not pages: for it the rings are mapped
 * once, and it has to see each byte that is copied. It does not model fences;
 * none of them orders payload.
 */
#ifdef __SANITIZE_THREAD__
#define L5_MAP_FLAT	1
#pragma GCC diagnostic ignored "-Wtsan"
#else
#define L5_MAP_FLAT	0
#endif

#define l5_likely(x)	__builtin_expect(!!(x), 1)
#define l5_unlikely(x)	__builtin_expect(!!(x), 0)

#define l5_signal_fence()	__atomic_signal_fence(__ATOMIC_SEQ_CST)

static inline void l5_pause(void)
{
#if __has_builtin(__builtin_ia32_pause)
	__builtin_ia32_pause();
#else
	l5_signal_fence();
#endif
}

#endif /* L5_BASE_H */
