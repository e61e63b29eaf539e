/* SPDX-License-Identifier: GPL-2.0 */
/* How l5run ends, if not as the program does. */
#ifndef L5_TOOLS_EXITS_H
#define L5_TOOLS_EXITS_H

/* As env(1), nice(1), timeout(1): ours, found but not run, not found. */
enum {
	EXIT_SELF = 125,
	EXIT_CANNOT_RUN = 126,
	EXIT_NOT_FOUND = 127,
};

#endif /* L5_TOOLS_EXITS_H */
