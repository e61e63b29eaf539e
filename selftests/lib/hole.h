/* SPDX-License-Identifier: GPL-2.0 */
/* Memory that is never there: whoever touches it waits, in a page fault. */
#ifndef L5_HOLE_H
#define L5_HOLE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Map @len bytes of it: NULL where userfaultfd(2) cannot be had. The hole is as
 * long as its descriptor, which goes to *@uffd, is open; @uffd may be NULL.
 */
void *hole_map(size_t len, int *uffd);

/* Make a hole of memory that is mapped and was never touched; false if not. */
bool hole_make(void *at, size_t len, int *uffd);

#endif /* L5_HOLE_H */
