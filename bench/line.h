/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A message in bare shared memory, and nothing around it: its number, stored
 * last, says that the rest is there. Up to 64 bytes that is one cache line.
 *
 * Messages come to the same place each time, or one after the other through as
 * much memory as a ring has, since the cost of a line that moves between two
 * cores depends on that.
 */
#ifndef BENCH_LINE_H
#define BENCH_LINE_H

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "../userspace/lib/map.h"

#define LINE_BYTES	256	/* bytes of a message, with its number */
#define LINE_RING	(256 * 1024)	/* as net.l5.ring_kb */

typedef _Atomic(unsigned long)line_nr_t;

struct line {
	line_nr_t nr;
	char text[LINE_BYTES - sizeof(line_nr_t)];
} __attribute__((aligned(L5_HDR)));

/* One way of a connection. */
struct line_way {
	char at[LINE_RING + LINE_BYTES];
	atomic_int end;
} __attribute__((aligned(LINE_BYTES)));

/**
 * struct line_pos - where the next message of a way is
 * @at: byte of its line
 * @nr: its number
 * @ring: bytes they walk through, 0 if they all have the same place
 */
struct line_pos {
	size_t at;
	unsigned long nr;
	size_t ring;
};

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

static inline struct line *line_next(struct line_way *w, struct line_pos *p,
				     size_t len)
{
	struct line *l = (struct line *)(w->at + p->at);

	p->nr++;
	if (p->ring) {
		p->at += l5_rec_size(len);
		if (p->at >= p->ring)
			p->at = 0;
	}
	return l;
}

/* Instead of the next message: there are no more. */
static inline void line_end(struct line_way *w, struct line_pos *p)
{
	struct line *l = line_next(w, p, 0);

	atomic_store(&w->end, 1);
	atomic_store_explicit(&l->nr, p->nr, memory_order_release);
}

#endif /* BENCH_LINE_H */
