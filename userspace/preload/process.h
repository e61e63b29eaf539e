/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The process whose descriptors the table has. A child of fork() forgets all
 * that is in it; fd_ours() in fdtab.h does that.
 */
#ifndef L5_PROCESS_H
#define L5_PROCESS_H

#include <stdbool.h>

/* From now on it is this one: false if that cannot be told from a child. */
bool process_live(void);

/* In a child of fork(): first of all, and where the table may be used */
void process_in_child(void);
void process_child(void);

#endif /* L5_PROCESS_H */
