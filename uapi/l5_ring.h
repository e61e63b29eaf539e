/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * The ring of AF_L5: one producer, one consumer, records in place.
 *
 * The same code runs in the kernel, which reaches the data page by page, and
 * in user space, which maps it twice back to back. So this header never
 * touches payload: it is given the address of a header word ("slot") and does
 * everything that is a protocol: space, publication, consumption, sleeping.
 *
 * A record is a header word and its payload, 8-byte aligned. The consumer
 * polls the header where the next record will be, so a small message moves in
 * the cache line that announces it, and the consumer writes no data page
 * (after Fent et al., ICDE 2020, section IV). Positions are byte counts since
 * the start, headers included; they never wrap in practice (u64).
 *
 *   producer                                consumer
 *
 *   l5_prod_room: LOAD.acq rx_head    (D)   LOAD.acq header           (B)
 *   if (room) {                             if (header) {
 *      STORE next header = 0                   LOAD payload
 *      STORE payload                           STORE.rel rx_head       (C)
 *      STORE.rel header          (A)        }
 *   }
 *
 *   A pairs with B: who sees the header sees the payload and the zero that
 *     ends the chain after it.
 *   C pairs with D: who sees the head may overwrite what was read before it.
 *
 *   sleeper                                 waker
 *
 *   STORE wait = 1                          STORE header, or rx_head
 *   FULL BARRIER                      (E)   FULL BARRIER               (F)
 *   LOAD header, or rx_head                 LOAD wait
 *   if (nothing new) sleep                  if (wait) doorbell: STORE wait = 0
 *                                             FULL BARRIER             (G)
 *                                             wake
 *
 *   E pairs with F: either the sleeper sees the news or the waker the flag.
 *   G pairs with E of the same sleeper's next turn: a clear is never seen
 *     after the arming that follows its wake. Only the kernel clears, and
 *     every clear is followed by a wake, so whoever sleeps is armed or has a
 *     wake coming.
 *
 * Neither side trusts the other: each word of the peer's is read once, checked
 * against what this side knows, and then the copy is used. -1 from a function
 * here means that the peer broke the protocol.
 */
#ifndef _UAPI_LINUX_L5_RING_H
#define _UAPI_LINUX_L5_RING_H

#include <linux/types.h>

#ifdef __KERNEL__
#include <asm/barrier.h>
#include <linux/compiler.h>
#include <linux/minmax.h>
#define l5_load(p)		READ_ONCE(*(p))
#define l5_store(p, v)		WRITE_ONCE(*(p), (v))
#define l5_load_acquire(p)	smp_load_acquire(p)
#define l5_store_release(p, v)	smp_store_release((p), (v))
#define l5_mb()			smp_mb()
#else
#define l5_load(p)		__atomic_load_n((p), __ATOMIC_RELAXED)
#define l5_store(p, v)		__atomic_store_n((p), (v), __ATOMIC_RELAXED)
#define l5_load_acquire(p)	__atomic_load_n((p), __ATOMIC_ACQUIRE)
#define l5_store_release(p, v)	__atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define l5_mb()			__atomic_thread_fence(__ATOMIC_SEQ_CST)
#endif

#define L5_LINE			64
#define L5_HDR			((__u32)sizeof(__u64))

/* Sizes a ring may have: powers of two between these. */
#define L5_RING_MIN		4096u
#define L5_RING_MAX		(16u << 20)

/* Upper half of a header word; the lower half is the payload's length. */
#define L5_REC_VALID		0x80000000u	/* always set once published */
#define L5_REC_FLAGS		L5_REC_VALID	/* all that are defined */

/**
 * struct l5_ctrl - an end's control page
 * @tx_tail: as a producer: position after the last published record
 * @version: of the ring's protocol, 0 so far
 * @features: additions to it that the owner knows, none so far
 * @rx_head: as a consumer: position of the first record not yet taken
 * @rx_off: as a consumer: bytes already taken of the record at @rx_head
 * @rx_wait: not 0: ring the doorbell after publishing a record for the owner
 * @tx_wait: not 0: ring the doorbell after making room for the owner
 * @tx_lock: reserved
 * @rx_lock: reserved
 *
 * Written by its owner, and by the kernel, which alone clears the wait words.
 * What changes together shares a line; the wait words have one of their own,
 * since the peer looks at them after every message. @tx_lock and @rx_lock are
 * for the owner's threads and processes. All that has no name is zero.
 */
struct l5_ctrl {
	__u64 tx_tail;
	__u32 version;
	__u32 features;
	__u8 line0[L5_LINE - 16];
	__u64 rx_head;
	__u32 rx_off;
	__u8 line1[L5_LINE - 12];
	__u32 rx_wait;
	__u32 tx_wait;
	__u8 line2[L5_LINE - 8];
	__u32 tx_lock;
	__u32 rx_lock;
	__u8 line3[L5_LINE - 8];
};

/**
 * struct l5_prod - a producer's private view of the ring it writes
 * @tail: position of the next record
 * @head: the consumer's position when last looked at
 * @size: of the ring in bytes
 */
struct l5_prod {
	__u64 tail;
	__u64 head;
	__u32 size;
};

/**
 * struct l5_cons - a consumer's private view of the ring it reads
 * @head: position of the record being read
 * @off: bytes of its payload already taken
 * @len: its length as validated, 0 when there is none
 * @size: of the ring in bytes
 *
 * @len is kept because a record is validated once: what the producer writes
 * over the header afterwards changes nothing.
 */
struct l5_cons {
	__u64 head;
	__u32 off;
	__u32 len;
	__u32 size;
};

/**
 * l5_rec_size() - bytes a record takes in the ring
 * @len: of its payload
 */
static inline __u32 l5_rec_size(__u32 len)
{
	return (L5_HDR + len + L5_HDR - 1) & ~(L5_HDR - 1);
}

/**
 * l5_rec_max() - longest payload a record may have
 * @size: of the ring
 */
static inline __u32 l5_rec_max(__u32 size)
{
	return size - 2 * L5_HDR;
}

/**
 * l5_prod_used() - bytes between the producer and the head last seen
 * @p: the producer
 */
static inline __u32 l5_prod_used(const struct l5_prod *p)
{
	return (__u32)(p->tail - p->head);
}

/**
 * l5_prod_look() - read how far the consumer is
 * @p: the producer
 * @peer: the consumer's control page
 *
 * Return: 0, or -1 if it claims a position it cannot have.
 */
static inline int l5_prod_look(struct l5_prod *p, const struct l5_ctrl *peer)
{
	/* D, pairs with C */
	__u64 head = l5_load_acquire(&peer->rx_head);

	if (head - p->head > p->tail - p->head || (head & (L5_HDR - 1)))
		return -1;
	p->head = head;
	return 0;
}

/**
 * l5_prod_room() - longest payload that fits now, by the head last seen
 * @p: the producer
 *
 * Room is kept for the record's header and for the zero word after it.
 */
static inline __u32 l5_prod_room(const struct l5_prod *p)
{
	__u32 room = p->size - l5_prod_used(p);

	return room < 2 * L5_HDR ? 0 : room - 2 * L5_HDR;
}

/**
 * l5_prod_publish() - hand a record to the consumer
 * @p: the producer
 * @own: its control page
 * @slot: the header word at @p->tail
 * @next: the header word l5_rec_size(@len) further
 * @len: of the payload, already in place, at most l5_prod_room()
 */
static inline void l5_prod_publish(struct l5_prod *p, struct l5_ctrl *own,
				   __u64 *slot, __u64 *next, __u32 len)
{
	l5_store(next, 0);
	/* A, pairs with B */
	l5_store_release(slot, (__u64)L5_REC_VALID << 32 | len);
	p->tail += l5_rec_size(len);
	l5_store(&own->tx_tail, p->tail);
}

/**
 * l5_cons_peek() - look for a record
 * @c: the consumer; its @len and @off describe the record on success
 * @slot: the header word at @c->head
 *
 * Return: 1 if there is one, 0 if not, -1 if what is there is none.
 */
static inline int l5_cons_peek(struct l5_cons *c, const __u64 *slot)
{
	__u64 hdr;

	if (c->len)
		return 1;
	/* B, pairs with A */
	hdr = l5_load_acquire(slot);
	if (!hdr)
		return 0;
	if (hdr >> 32 != L5_REC_VALID || !(__u32)hdr ||
	    (__u32)hdr > l5_rec_max(c->size))
		return -1;
	c->len = (__u32)hdr;
	c->off = 0;
	return 1;
}

/**
 * l5_cons_take() - give up bytes of the record l5_cons_peek() found
 * @c: the consumer
 * @own: its control page
 * @n: bytes read since, at most what is left of the record
 *
 * Return: bytes of the ring this freed: 0 until the record is finished.
 */
static inline __u32 l5_cons_take(struct l5_cons *c, struct l5_ctrl *own,
				 __u32 n)
{
	__u32 size;

	c->off += n;
	if (c->off < c->len) {
		l5_store(&own->rx_off, c->off);
		return 0;
	}
	size = l5_rec_size(c->len);
	c->head += size;
	c->off = 0;
	c->len = 0;
	l5_store(&own->rx_off, 0);
	/* C, pairs with D */
	l5_store_release(&own->rx_head, c->head);
	return size;
}

/**
 * l5_wait_arm() - say that the owner is about to sleep
 * @wait: rx_wait or tx_wait of its own control page
 *
 * Look at the ring again after this, and sleep only if nothing is new.
 */
static inline void l5_wait_arm(__u32 *wait)
{
	l5_store(wait, 1);
	/* E, pairs with F and G */
	l5_mb();
}

/**
 * l5_wait_armed() - does the peer want the doorbell, now that there is news?
 * @wait: rx_wait or tx_wait of the peer's control page
 */
static inline int l5_wait_armed(const __u32 *wait)
{
	/* F, pairs with E */
	l5_mb();
	return l5_load(wait) != 0;
}

/**
 * l5_wait_clear() - the kernel's half of the doorbell, before it wakes
 * @wait: rx_wait or tx_wait of the sleeper's control page
 */
static inline void l5_wait_clear(__u32 *wait)
{
	l5_store(wait, 0);
	/* G, pairs with E */
	l5_mb();
}

#endif /* _UAPI_LINUX_L5_RING_H */
