/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Offsets in a socket's file of the areas that can be mapped. L5_IOC_MAP_INFO
 * tells programs of them, so they may change; tests that try what is next to an
 * area have the offsets from here. None is 0, so that an offset that lost its
 * upper half is none of them.
 *
 * What this end writes lies together, and so does what it may only read: each
 * can be mapped by one call.
 */
#ifndef L5_AREAS_H
#define L5_AREAS_H

/* The tests run where a page is that long. */
#ifdef __KERNEL__
#define L5_MMAP_PAGE		PAGE_SIZE
#else
#define L5_MMAP_PAGE		4096ULL
#endif

#define L5_MMAP_OWN		0x100000000ULL
#define L5_MMAP_TX		(L5_MMAP_OWN + L5_MMAP_PAGE)
#define L5_MMAP_PEER		0x200000000ULL
#define L5_MMAP_STATE		(L5_MMAP_PEER + L5_MMAP_PAGE)
#define L5_MMAP_RX		(L5_MMAP_STATE + L5_MMAP_PAGE)
#define L5_MMAP_MAILBOX		0x300000000ULL
/* Regions, each at the place that the lower bits of its number say */
#define L5_MMAP_REGION		0x1000000000000000ULL
#define L5_REGION_SHIFT		33
#define L5_REGION_PLACE		((1u << 20) - 1)

#endif /* L5_AREAS_H */
