/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How a wait hears of signals.
 */
#ifndef L5_SIGNALS_H
#define L5_SIGNALS_H

#include "base.h"

/*
 * Signals that came to this thread, as far as they are counted: by the library
 * that handlers give way to, or by the handlers themselves. A wait is over once
 * this is no more what it was when the call began.
 *
 * The lower half counts all, the upper half those that end a call with EINTR.
 */
extern __thread uint64_t l5_signals
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

#define L5_SIGNAL_CAME	((uint64_t)1)
#define L5_SIGNAL_ENDS	((uint64_t)1 << 32)

/* No signal since @seen was read? One load, of this thread's own line. */
static inline bool l5_no_signal(uint64_t seen)
{
	return l5_likely(l5_load(&l5_signals) == seen);
}

/* Count one; also by a handler that interrupts this. */
static inline void l5_signal_came(bool ends)
{
	uint64_t now = l5_load(&l5_signals) + L5_SIGNAL_CAME;

	l5_store(&l5_signals, ends ? now + L5_SIGNAL_ENDS : now);
}

/* Does what came between these end a call with EINTR? */
static inline bool l5_signal_ends(uint64_t seen, uint64_t now)
{
	return seen >> 32 != now >> 32;
}

#endif /* L5_SIGNALS_H */
