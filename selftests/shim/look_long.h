/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The library looks at a ring for a second before it sleeps in the kernel, so
 * that what a test does comes within the look. Include it before shim.h, whose
 * constructor runs the program again.
 */
#ifndef SHIM_LOOK_LONG_H
#define SHIM_LOOK_LONG_H

#include <stdlib.h>

__attribute__((constructor(101))) static void look_long(void)
{
	setenv("L5_SPIN_US", "1000000", 0);
	setenv("L5_ASK_US", "1000000", 0);
}

#endif /* SHIM_LOOK_LONG_H */
