/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A message in bare shared memory, and nothing around it: its number, stored
 * last, says that the rest is there. Up to 64 bytes that is one cache line.
 */
#ifndef BENCH_LINE_H
#define BENCH_LINE_H

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "../userspace/lib/map.h"

#define LINE_BYTES	256	/* bytes of a message, with its number */

typedef _Atomic(unsigned long)line_nr_t;

struct line {
	line_nr_t nr;
	char text[LINE_BYTES - sizeof(line_nr_t)];
	atomic_int end;
} __attribute__((aligned(LINE_BYTES)));

static inline void line_put(struct line *l, unsigned long nr, const void *text,
			    size_t len)
{
	memcpy(l->text, text, len);
	atomic_store_explicit(&l->nr, nr, memory_order_release);
}

static inline void line_get(struct line *l, unsigned long nr, void *text,
			    size_t len)
{
	while (atomic_load_explicit(&l->nr, memory_order_acquire) != nr)
		l5_pause();
	memcpy(text, l->text, len);
}

/* Instead of message @nr: there are no more. */
static inline void line_end(struct line *l, unsigned long nr)
{
	atomic_store(&l->end, 1);
	atomic_store_explicit(&l->nr, nr, memory_order_release);
}

#endif /* BENCH_LINE_H */
