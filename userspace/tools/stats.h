/* SPDX-License-Identifier: GPL-2.0 */
/* l5run --stats: run a program, and print what the library counted in it. */
#ifndef L5_TOOLS_STATS_H
#define L5_TOOLS_STATS_H

#include <stdbool.h>

/* The most that --stats=SECONDS takes. */
#define STATS_SECONDS_MAX	86400

/**
 * stats_open() - make the memory to count in, and tell the environment
 *
 * Return: whether there is any; why not was said.
 */
bool stats_open(void);

/**
 * stats_run() - run a program and wait for it
 * @program: its name and arguments, as execvp() has them
 * @seconds: print so often; 0: at the end alone
 * @counts: stats_open() was called and succeeded; else that nothing is counted
 *	is all that is printed
 *
 * Signals that are sent to this process go to the program.
 *
 * Return: its exit status. If it was ended by a signal so is this process. If
 * it could not be executed, -1 with errno.
 */
int stats_run(char **program, int seconds, bool counts);

#endif /* L5_TOOLS_STATS_H */
