/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Entries of the table of descriptors, and what their words refer to.
 */
#ifndef L5_ENTRY_H
#define L5_ENTRY_H

#include <stdbool.h>
#include <stdint.h>

struct fd_entry;

/* What a word referred to is referred to no more. */
void word_put(uintptr_t word);

/* Is nothing known? Is there more to it than a count? */
bool entry_empty(struct fd_entry *e);
bool entry_matters(struct fd_entry *e);

/**
 * entry_clear() - nothing is known of a descriptor any more
 * @e: its entry
 * @fd: the descriptor
 */
void entry_clear(struct fd_entry *e, int fd);

#endif /* L5_ENTRY_H */
