/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Large payloads into and out of rings. All ways do the same; which one is
 * fast depends on where the bytes have to go.
 */
#ifndef L5_COPY_H
#define L5_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* From so many bytes on it is worth asking how. */
#define L5_COPY_LARGE	960u

/* Who has walked so far through memory will not find it in a cache. */
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

void l5_copy_in(void *to, const void *from, size_t n);
void l5_copy_out(struct l5_copy_walk *w, void *to, const void *from, size_t n);

/* The ways, for tests. */
void l5_copy_past(void *to, const void *from, size_t n);
void l5_copy_words(void *to, const void *from, size_t n);
bool l5_copy_emulated(void);

#endif /* L5_COPY_H */
