/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Offsets in a socket's file of the areas that can be mapped. L5_IOC_MAP_INFO
 * tells programs of them, so they may change; tests that try what is next to an
 * area have the offsets from here. None is 0, so that an offset that lost its
 * upper half is none of them.
 */
#ifndef L5_AREAS_H
#define L5_AREAS_H

#define L5_MMAP_OWN		0x100000000ULL
#define L5_MMAP_PEER		0x200000000ULL
#define L5_MMAP_STATE		0x300000000ULL
#define L5_MMAP_TX		0x400000000ULL
#define L5_MMAP_RX		0x500000000ULL
#define L5_MMAP_MAILBOX		0x600000000ULL

#endif /* L5_AREAS_H */
