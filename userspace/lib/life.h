/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which life of the process is this? A child of fork() has none of the mappings
 * of its parent.
 */
#ifndef L5_LIFE_H
#define L5_LIFE_H

#include "base.h"

/**
 * l5_map_live() - make l5_map_mine() work in this process
 *
 * Return: 0, or -1 with errno: nothing can be mapped.
 */
int l5_map_live(void);

/*
 * A word that a child of fork() finds 0, whatever it was, until it maps
 * something itself. Each life of the process has another number there.
 */
extern const uint32_t *l5_map_life;

/* What signals a thread had blocked */
struct l5_sigs {
	uint64_t set;
	bool blocked;
};

/**
 * l5_sigs_block() - no signal handler is to come upon this thread
 * @was: for l5_sigs_restore()
 *
 * Not those that an instruction or a filter of system calls raises: they do not
 * wait.
 */
void l5_sigs_block(struct l5_sigs *was);
void l5_sigs_restore(const struct l5_sigs *was);

#endif /* L5_LIFE_H */
