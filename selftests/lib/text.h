/* SPDX-License-Identifier: GPL-2.0 */
/* What programs said. */
#ifndef L5_TEXT_H
#define L5_TEXT_H

#include <stddef.h>

/* Read all of a file from its beginning, as a string, and close it. */
void text_take(int fd, char *text, size_t size);

/* How often does a text have this in it? */
int text_times(const char *text, const char *what);

#endif /* L5_TEXT_H */
