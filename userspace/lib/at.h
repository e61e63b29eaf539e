/* SPDX-License-Identifier: GPL-2.0 */
/* Where a transfer is in the buffers of its caller. */
#ifndef L5_AT_H
#define L5_AT_H

#include <limits.h>
#include <stddef.h>
#include <sys/uio.h>

/* The most that one system call moves: MAX_RW_COUNT */
#define L5_IO_MAX	(INT_MAX & ~4095ul)

/**
 * struct at - a place in some buffers
 * @v: the buffer that it is in
 * @n: how many there are from there on
 * @off: bytes before it in the first of them
 * @left: bytes behind it in all of them
 *
 * Stacks are small and buffers may be many, so these are not copied.
 */
struct at {
	const struct iovec *v;
	int n;
	size_t off;
	size_t left;
};

/* Go on by @n bytes, and over buffers without any. */
static inline void at_move(struct at *at, size_t n)
{
	at->left -= n;
	n += at->off;
	while (at->n && n >= at->v->iov_len) {
		n -= at->v->iov_len;
		at->v++;
		at->n--;
	}
	at->off = n;
}

/* The first of @n buffers that have @len bytes in all */
static inline void at_begin(struct at *at, const struct iovec *v, int n,
			    size_t len)
{
	at->v = v;
	at->n = n;
	at->off = 0;
	at->left = len;
	at_move(at, 0);
}

/**
 * at_iov() - what one call can take from here on
 * @at: the place
 * @first: room for a buffer that was begun
 * @v: to the caller's array, or to @first if a buffer was begun
 *
 * Return: how many buffers @v has.
 */
static inline int at_iov(const struct at *at, struct iovec *first,
			 const struct iovec **v)
{
	if (!at->off) {
		*v = at->v;
		return at->n;
	}
	first->iov_base = (char *)at->v->iov_base + at->off;
	first->iov_len = at->v->iov_len - at->off;
	*v = first;
	return 1;
}

/* How many bytes that is */
static inline size_t at_span(const struct at *at)
{
	return at->off ? at->v->iov_len - at->off : at->left;
}

#endif /* L5_AT_H */
