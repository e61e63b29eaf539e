/* SPDX-License-Identifier: GPL-2.0 */
/* Regions of connections, by the bare calls of uapi/l5.h. */
#ifndef L5_REGIONS_H
#define L5_REGIONS_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "l5.h"

#define REGION_RW	(L5_AREA_READ | L5_AREA_WRITE)

/* L5_IOC_REGION with what @a says beside its size: 0 or -errno. */
static inline int region_call(int fd, struct l5_region_arg *a)
{
	a->size = sizeof(*a);
	return ioctl(fd, L5_IOC_REGION, a) ? -errno : 0;
}

/* Make one, of which the peer has @access: 0 or -errno, and what it is. */
static inline int region_make(int fd, size_t len, __u32 access,
			      struct l5_region_arg *a)
{
	*a = (struct l5_region_arg){
		.op = L5_REGION_MAKE, .length = len, .access = access,
	};
	return region_call(fd, a);
}

/* What an end may do with the one of that number: 0 or -errno. */
static inline int region_get(int fd, __u32 index, struct l5_region_arg *a)
{
	*a = (struct l5_region_arg){ .op = L5_REGION_GET, .index = index };
	return region_call(fd, a);
}

/* L5_REGION_UNSHARE or L5_REGION_END: 0 or -errno. */
static inline int region_take(int fd, __u32 index, __u32 op)
{
	struct l5_region_arg a = { .op = op, .index = index };

	return region_call(fd, &a);
}

/* All of it, as @prot says: NULL with errno if not. */
static inline void *region_map(int fd, const struct l5_region_arg *a, int prot)
{
	void *p = mmap(NULL, a->length, prot, MAP_SHARED, fd, a->offset);

	return p == MAP_FAILED ? NULL : p;
}

/* Is each byte of some memory the same? */
static inline bool all_are(const uint8_t *p, size_t len, int c)
{
	size_t i;

	for (i = 0; i < len; i++)
		if (p[i] != c)
			return false;
	return true;
}

#endif /* L5_REGIONS_H */
