/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Bytes into a mapped end and out of it.
 */
#ifndef L5_MOVE_H
#define L5_MOVE_H

#include <sys/uio.h>

#include "held.h"
#include "mapped.h"
#include "ready.h"

/* Flags of l5_map_tryrecv() */
#define L5_TRY_PEEK	0x1	/* leave the bytes in the ring */

/**
 * l5_map_lock_nap() - sleep a while, as long as a lock word is held
 * @fd: the socket
 * @which: L5_LOCK_TX or L5_LOCK_RX
 *
 * After L5_TRY_BUSY, by a caller that counts the time. Sets errno.
 *
 * Return: 0 if it is worth trying, or -1: EINTR if a call of that direction
 * would end by the signal that came, or what ioctl() says to a stranger.
 */
int l5_map_lock_nap(int fd, unsigned int which);

/**
 * l5_map_trysend() - send what there is room for
 * @m: the end
 * @fd: its socket
 * @iov: buffers, in all at least one byte; if some of that is no memory, see
 *	copy.h, the record that it would have been in is not sent
 * @n: how many
 *
 * Return: bytes, or L5_TRY_*.
 */
ssize_t l5_map_trysend(struct l5_map *m, int fd, const struct iovec *iov,
		       size_t n);

/**
 * l5_map_tryrecv() - receive what is there
 * @m: the end
 * @fd: its socket
 * @iov: buffers, in all at least one byte
 * @n: how many
 * @flags: L5_TRY_PEEK
 *
 * Return: bytes, or L5_TRY_*; never 0.
 */
ssize_t l5_map_tryrecv(struct l5_map *m, int fd, const struct iovec *iov,
		       size_t n, int flags);

/*
 * Zero copy: memory of the ring itself, and its lock word is kept until the
 * second call of a pair, whatever the first call's stack. The thread that keeps
 * it gets L5_TRY_NESTED from every other call of that direction.
 *
 * l5_map_reserve(): bytes that may be written at *@p, or L5_TRY_*
 * l5_map_commit(): publish @len of them, or none
 * l5_map_peek(): bytes at *@p, or L5_TRY_*
 * l5_map_release(): take @len of them, or none
 */
ssize_t l5_map_reserve(struct l5_map *m, int fd, void **p, size_t want);
void l5_map_commit(struct l5_map *m, int fd, size_t len);
ssize_t l5_map_peek(struct l5_map *m, int fd, const void **p);
void l5_map_release(struct l5_map *m, int fd, size_t len);

/* Messages up to this length take the inline paths below. */
#define L5_MAP_SMALL	256u

/* What the paths below do not do; @entered: after l5_enter() */
ssize_t l5_map_send1_slow(struct l5_map *m, int fd, const void *buf, size_t len,
			  uintptr_t frame, bool entered);
ssize_t l5_map_recv1_slow(struct l5_map *m, int fd, void *buf, size_t len,
			  uintptr_t frame, bool entered);
/* What has to be done after them, now and then; @n */
ssize_t l5_map_sent(struct l5_map *m, int fd, size_t n, __u32 waiters);
ssize_t l5_map_received(struct l5_map *m, int fd, size_t n, __u32 waiters);

/**
 * l5_map_send1() - l5_map_trysend() for one buffer, quick if it is small
 * @m: the end
 * @fd: its socket
 * @buf: what to send
 * @len: how much of it
 *
 * Anything unusual goes the long way, which does the same.
 *
 * Return: as l5_map_trysend().
 */
static inline __attribute__((always_inline))
ssize_t l5_map_send1(struct l5_map *m, int fd, const void *buf, size_t len)
{
	uintptr_t frame = l5_frame();
	struct l5_ctrl *own = m->own;
	__u32 mask, size, waiters;
	uint8_t *tx = m->tx;
	uint64_t tail;
	__u64 *slot;

	if (l5_unlikely(len - 1 >= L5_MAP_SMALL || L5_MAP_FLAT ||
			!l5_enter(&own->tx_lock, m->id, m->key + L5_LOCK_TX,
				  frame)))
		return l5_map_send1_slow(m, fd, buf, len, frame, false);
	tail = l5_load(&own->tx_tail);
	size = l5_rec_size(len);
	mask = (m->tx_size - 1) & ~(L5_HDR - 1);
	/* a head that cannot be makes the difference large, too */
	if (l5_unlikely(l5_load(&m->state->flags) & L5_MAP_TX_STOP ||
			tail - m->prod.head + size + L5_HDR >=
			l5_map_extent(m) >> m->messages))
		return l5_map_send1_slow(m, fd, buf, len, frame, true);
	slot = (__u64 *)(tx + (tail & mask));
	/*
	 * What is in further lines first: the reader polls the line of the
	 * header, and would take it away between two stores that are apart.
	 */
	l5_store((__u64 *)(tx + ((tail + size) & mask)), 0);
	if (l5_unlikely(!l5_copy_small((uint8_t *)(slot + 1), buf, len)))
		return l5_map_send1_slow(m, fd, buf, len, frame, true);
	/* A, pairs with B */
	l5_store_release(slot, (__u64)L5_REC_VALID << 32 | len);
	/* V, pairs with W in the kernel, as l5_prod_publish() has it */
	l5_store_release(&own->tx_tail, tail + size);
	l5_store(&own->tx_bytes, l5_load(&own->tx_bytes) + len);
	waiters = l5_leave(&own->tx_lock, frame);
	if (l5_unlikely(waiters | l5_load(&m->peer->rx_wait) |
			(l5_load(&m->state->flags) & L5_MAP_MUST &
			 ~L5_MAP_RX_ASK)))
		return l5_map_sent(m, fd, len, waiters);
	return len;
}

/**
 * l5_map_recv1() - l5_map_tryrecv() for one buffer, quick for small records
 * @m: the end
 * @fd: its socket
 * @buf: where to
 * @len: how much at most
 *
 * As a socket of a stream it does not return less than there is: many programs
 * take that for the end of what there is.
 *
 * Return: as l5_map_tryrecv().
 */
static inline __attribute__((always_inline))
ssize_t l5_map_recv1(struct l5_map *m, int fd, void *buf, size_t len)
{
	uintptr_t frame = l5_frame();
	struct l5_ctrl *own = m->own;
	const uint8_t *rx = m->rx;
	__u32 mask, n, waiters;
	const __u64 *slot;
	uint64_t head;
	__u64 hdr;

	mask = (m->rx_size - 1) & ~(L5_HDR - 1);
	head = l5_load(&own->rx_head);
	if (l5_unlikely(L5_MAP_FLAT ||
			!l5_map_glance((__u64 *)(rx + (head & mask))) ||
			l5_load(&m->state->flags) & m->rx_stop ||
			!l5_enter(&own->rx_lock, m->id, m->key + L5_LOCK_RX,
				  frame)))
		return l5_map_recv1_slow(m, fd, buf, len, frame, false);
	head = l5_load(&own->rx_head);
	slot = (__u64 *)(rx + (head & mask));
	/* B, pairs with A */
	hdr = l5_load_acquire(slot);
	n = (__u32)hdr;
	/*
	 * A whole record that fits, and of a stream none after it if there is
	 * more room.
	 */
	if (l5_unlikely(hdr - ((__u64)L5_REC_VALID << 32) - 1 >= L5_MAP_SMALL ||
			l5_load(&own->rx_pos) != head || n > len ||
			(n < len && !m->messages && l5_load((__u64 *)
				(rx + ((head + l5_rec_size(n)) & mask))))))
		return l5_map_recv1_slow(m, fd, buf, len, frame, true);
	if (l5_unlikely(!l5_copy_small(buf, (const uint8_t *)(slot + 1), n)) ||
	    l5_map_gone(m))
		return l5_map_recv1_slow(m, fd, buf, len, frame, true);
	head += l5_rec_size(n);
	l5_store(&own->rx_bytes, l5_load(&own->rx_bytes) + n);
	/* ahead of rx_head, as l5_cons_take() has it */
	l5_store(&own->rx_pos, head);
	/* C, pairs with D */
	l5_store_release(&own->rx_head, head);
	waiters = l5_leave(&own->rx_lock, frame);
	if (l5_unlikely(waiters | l5_load(&m->peer->tx_wait)))
		return l5_map_received(m, fd, n, waiters);
	return n;
}

#endif /* L5_MOVE_H */
