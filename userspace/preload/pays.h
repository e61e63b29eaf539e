/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Does it pay to map a socket?
 */
#ifndef L5_PAYS_H
#define L5_PAYS_H

#include <stdbool.h>
#include <stdint.h>

#include "policy.h"

/* Calls of a connection until it is asked for the first time */
#define PAYS_FIRST	16

/**
 * pays_due() - is it time to ask whether a socket is to be mapped?
 * @calls: made so far
 *
 * At PAYS_FIRST, and then at most half as many calls later again, so that few
 * are asked for nothing.
 */
static inline bool pays_due(uint32_t calls)
{
	uint32_t n = calls / PAYS_FIRST;

	/* n has no bit set but its two highest */
	return n && !(calls % PAYS_FIRST) &&
	       !(n & ~(3u << 30 >> __builtin_clz(n)));
}

/**
 * pays() - does it pay to map a socket?
 * @side: which end it is
 * @calls: it was read and written so often
 */
bool pays(enum l5_side side, uint32_t calls);

/**
 * pays_ended() - a socket is closed
 * @side: which end it was
 * @calls: it was read and written so often in all
 */
void pays_ended(enum l5_side side, uint64_t calls);

/**
 * pays_mapped() - a socket was mapped
 * @ns: what that took
 */
void pays_mapped(uint64_t ns);

/**
 * pays_asked() - a system call was made that hardly does anything
 * @ns: what it took
 */
void pays_asked(uint64_t ns);

#endif /* L5_PAYS_H */
