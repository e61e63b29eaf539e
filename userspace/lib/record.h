/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Records of a mapped end, under its lock words: what the code for streams and
 * the code for messages have in common.
 */
#ifndef L5_RECORD_H
#define L5_RECORD_H

#include <sys/uio.h>

#include "lock.h"
#include "mapped.h"
#include "ready.h"

/**
 * struct l5_iov - a place in an array of buffers
 * @v: the buffer that it is in
 * @n: how many there are from there on
 * @off: bytes before it in that buffer
 */
struct l5_iov {
	const struct iovec *v;
	size_t n;
	size_t off;
};

/* Bytes that the buffers have in all; more than there can be if too many */
size_t l5_iov_total(const struct iovec *v, size_t n);

/* How many of @n bytes at @at of a ring lie side by side. */
static inline size_t l5_map_span(size_t at, size_t n, uint32_t size)
{
	return L5_MAP_FLAT && n > size - at ? size - at : n;
}

/**
 * l5_map_backed() - is there memory behind the place of the next record?
 * @m: the end
 * @fd: its socket
 * @prod: the place
 * @len: bytes of payload
 *
 * Asks the kernel for memory if there is not enough.
 */
bool l5_map_backed(struct l5_map *m, int fd, struct l5_prod *prod,
		   uint32_t len);

/**
 * l5_map_fill() - copy the payload of a record into its place
 * @m: the end
 * @tail: where the record begins; its header's line is written last
 * @i: where the payload is; it goes on by @len bytes
 * @len: of the payload
 *
 * Return: false if not all of it is memory. Then there is no record.
 */
bool l5_map_fill(struct l5_map *m, uint64_t tail, struct l5_iov *i, size_t len);

/* Publish the record at a producer, with @len bytes of payload in place. */
void l5_map_put_record(struct l5_map *m, struct l5_prod *prod, size_t len);

/**
 * l5_map_drain() - copy bytes out of the ring
 * @m: the end
 * @pos: where they are
 * @i: where to; it goes on by @len bytes
 * @len: how many
 *
 * Return: false if not all of the buffers is memory.
 */
bool l5_map_drain(struct l5_map *m, struct l5_iov *i, uint64_t pos, size_t len);

/* Keep a lock word from the call that took it for the next ones. */
void l5_map_keep(struct l5_map *m, unsigned int which, struct l5_guard *g);

#endif /* L5_RECORD_H */
