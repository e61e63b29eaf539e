/* SPDX-License-Identifier: GPL-2.0 */
/* L5_DEBUG: a line on stderr, with the process it is about. */
#ifndef L5_SAY_H
#define L5_SAY_H

#include <stdbool.h>

extern bool say_wanted;

/**
 * say() - a line on stderr, if L5_DEBUG is set
 * @format: knows %s and %d and nothing else
 *
 * As careful as socket(): no stdio, no memory, one write(2), errno kept. Says
 * nothing where standard error is a connection.
 */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif /* L5_SAY_H */
