/* SPDX-License-Identifier: GPL-2.0 */
/* Two of the library's ways to copy, as the others are called. */
#ifndef UNIT_COPIES_H
#define UNIT_COPIES_H

#include "copy.h"

static inline bool out_warm(void *to, const void *from, size_t n)
{
	struct l5_copy_walk w = { 0, 0 };

	return l5_copy_out(&w, to, from, n);
}

static inline bool small(void *to, const void *from, size_t n)
{
	return !n || l5_copy_small(to, from, n);
}

#endif /* UNIT_COPIES_H */
