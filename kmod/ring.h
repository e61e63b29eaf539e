/* SPDX-License-Identifier: GPL-2.0 */
/* Bytes in and out of rings. */
#ifndef L5_KMOD_RING_H
#define L5_KMOD_RING_H

#include "l5.h"

ssize_t l5_ring_write(struct l5_sock *l5, struct iov_iter *from,
		      struct msghdr *files);
bool l5_ring_takes(struct l5_sock *l5);
ssize_t l5_ring_write_whole(struct l5_sock *l5, struct iov_iter *from,
			    struct msghdr *files);
ssize_t l5_ring_read(struct l5_sock *l5, struct msghdr *msg, size_t len,
		     bool discard, bool *files);
ssize_t l5_ring_peek(struct l5_sock *l5, struct msghdr *msg, size_t skip,
		     size_t len, bool discard, bool *files);
ssize_t l5_ring_read_whole(struct l5_sock *l5, struct msghdr *msg, size_t len,
			   bool peek);
int l5_ring_next(struct l5_end *ring, struct l5_cons *c, struct page **copy);
int l5_ring_walk(struct l5_end *ring, struct l5_cons *c, u64 start,
		 struct page **copy);
u64 l5_ring_seen(struct l5_sock *l5, u64 from);
u32 l5_ring_used(struct l5_conn *conn, int end);
int l5_ring_more(struct l5_sock *l5, struct l5_end *e, u32 len);
bool l5_ring_readable(struct l5_sock *l5);
bool l5_ring_writable(struct l5_sock *l5);
void l5_ring_violation(struct l5_sock *l5);

/**
 * l5_ring_message_max() - how long may a message be?
 * @l5: a socket in state L5_RINGS whose records are messages
 *
 * Context: any.
 * Return: bytes.
 */
static inline u32 l5_ring_message_max(const struct l5_sock *l5)
{
	return l5_rec_max(READ_ONCE(l5_own(l5)->size) / 2);
}

#endif /* L5_KMOD_RING_H */
