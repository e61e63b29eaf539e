/* SPDX-License-Identifier: GPL-2.0 */
/* What kind of a program a file is: can a library be preloaded into it? */
#ifndef L5_TOOLS_PROGRAM_H
#define L5_TOOLS_PROGRAM_H

#include <stdbool.h>

/**
 * struct program - what was found
 * @file: where execvp() will find it, or NULL; the caller frees
 * @why: why the library does nothing for it, or NULL: it will, it seems
 * @static_helps: whether --static does it, then
 */
struct program {
	char *file;
	const char *why;
	bool static_helps;
};

/**
 * program_look() - look for a program, and at it
 * @p: where to
 * @name: as for execvp()
 */
void program_look(struct program *p, const char *name);

#endif /* L5_TOOLS_PROGRAM_H */
