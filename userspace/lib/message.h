/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Messages into a mapped end of SOCK_SEQPACKET and out of it.
 *
 * A message is a record. What the kernel alone can tell of one goes by system
 * call: that it is too long, that it is empty, that descriptors ride with it,
 * and all that comes once the connection has ended or failed.
 */
#ifndef L5_MESSAGE_H
#define L5_MESSAGE_H

#include <sys/uio.h>

#include "mapped.h"

/* How long may a message be? */
static inline uint32_t l5_message_max(const struct l5_map *m)
{
	return l5_rec_max(m->tx_size / 2);
}

/*
 * What the functions of the same names in move.h do with an end whose records
 * are messages. @frame: the caller's l5_frame()
 *
 * l5_message_send(): all of the buffers is one message
 * l5_message_recv(): what has no room in the buffers is lost
 * l5_message_reserve(): @want bytes, or -EMSGSIZE, or L5_TRY_*
 * l5_message_peek(): one whole message, or L5_TRY_*
 */
ssize_t l5_message_send(struct l5_map *m, int fd, const struct iovec *iov,
			size_t n, uintptr_t frame);
ssize_t l5_message_recv(struct l5_map *m, int fd, const struct iovec *iov,
			size_t n, int flags, uintptr_t frame);
ssize_t l5_message_reserve(struct l5_map *m, int fd, void **p, size_t want,
			   uintptr_t frame);
ssize_t l5_message_peek(struct l5_map *m, int fd, const void **p,
			uintptr_t frame);

#endif /* L5_MESSAGE_H */
