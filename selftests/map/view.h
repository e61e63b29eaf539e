/* SPDX-License-Identifier: GPL-2.0 */
/* Looks at what mmap() gives of a socket. */
#ifndef MAP_VIEW_H
#define MAP_VIEW_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ	22
#define MADV_POPULATE_WRITE	23
#endif

static inline bool is_zero(const void *p, size_t len)
{
	const uint8_t *b = p;

	return !len || (!b[0] && !memcmp(b, b + 1, len - 1));
}

/* mmap() that succeeds or says why not, and leaves nothing: its errno or 0. */
static inline int try_map(int fd, size_t len, int prot, int flags, uint64_t off)
{
	void *p = mmap(NULL, len, prot, flags, fd, off);

	if (p == MAP_FAILED)
		return errno;
	munmap(p, len);
	return 0;
}

#endif /* MAP_VIEW_H */
