/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * The ring of AF_L5: one producer, one consumer, records in place.
 *
 * The same code runs in the kernel, which reaches the data page by page, and
 * in user space, which maps the data twice, back to back. So this header never
 * touches payload: it is given the address of a header word ("slot") and does
 * everything that the protocol consists of: space, publication, consumption,
 * sleeping.
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
 *   A pairs with B: a consumer that sees the header sees the payload and the
 *     zero that ends the chain after it.
 *   C pairs with D: a producer that sees the head may overwrite what was read
 *     before it.
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
 *     every clear is followed by a wake, so a task that sleeps is armed or has
 *     a wake coming.
 *
 * Threads and processes that share an end, and the kernel on their behalf, take
 * turns by the lock words of its control page; the cursors they hand over live
 * there too (see l5_lock_try(), J and K). A holder may die at any instruction:
 * every update is one store that leaves cursors from which the next holder can
 * tell what was done.
 *
 * Neither side trusts the other: each word of the peer's is read once and the
 * copy is checked against what this side knows; then the copy is used. -1 from
 * a function here means that the peer broke the protocol.
 */
#ifndef _UAPI_LINUX_L5_RING_H
#define _UAPI_LINUX_L5_RING_H

/*
 * A cursor is 64 bits and changes by one store: 32-bit programs are refused
 * when they want to map (EOPNOTSUPP), and kernels when they are built.
 */
#if __SIZEOF_POINTER__ < 8 && !defined(L5_LAYOUT_ONLY)
#error "AF_L5's rings are for 64 bits; make system calls"
#endif

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
#define l5_cmpxchg(p, o, n)	(cmpxchg_acquire((p), (o), (n)) == (o))
#define l5_xchg_mb(p, v)	xchg((p), (v))
#else
/* Volatile: a task that dies half-way must have stored in the order written. */
#define l5_word(p)		((__typeof__(*(p)) volatile *)(p))
#define l5_load(p)		__atomic_load_n(l5_word(p), __ATOMIC_RELAXED)
#define l5_store(p, v)		\
	__atomic_store_n(l5_word(p), (v), __ATOMIC_RELAXED)
#define l5_load_acquire(p)	__atomic_load_n(l5_word(p), __ATOMIC_ACQUIRE)
#define l5_store_release(p, v)	\
	__atomic_store_n(l5_word(p), (v), __ATOMIC_RELEASE)
#define l5_mb()			__atomic_thread_fence(__ATOMIC_SEQ_CST)
#define l5_cmpxchg(p, o, n)	({					\
	__u32 __o = (o);						\
									\
	__atomic_compare_exchange_n((p), &__o, (n), 0,			\
				    __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);\
})
/* On x86 an exchange is a full barrier by itself, elsewhere it is not. */
#if defined(__x86_64__) || defined(__i386__)
#define l5_xchg_mb(p, v)	__atomic_exchange_n((p), (v), __ATOMIC_SEQ_CST)
#else
#define l5_xchg_mb(p, v)	({					\
	__u32 __v = __atomic_exchange_n((p), (v), __ATOMIC_SEQ_CST);	\
									\
	l5_mb();							\
	__v;								\
})
#endif
#endif

#define L5_LINE			64
/* Groups of the control page: apart also where lines are fetched in pairs. */
#define L5_GROUP		128
#define L5_HDR			((__u32)sizeof(__u64))

/* A ring's size is a power of two between these. */
#define L5_RING_MIN		4096u
#define L5_RING_MAX		(16u << 20)

/*
 * The upper half of a header word is L5_REC_VALID once the record is published.
 * (In a ring that another host writes by L5_NOTIFY_ONE the kernel finds other
 * bits there, too, see below.) The lower half is the length of the
 * payload, which may be 0, and flags in its upper bits.
 *
 * L5_REC_FILES is set by kernels alone, where the bootstrap can carry
 * descriptors: these wait there for the reader of the record, and so do its
 * bytes; what lies behind its header in the ring means nothing. Only a system
 * call can receive them, so a reader that has the ring mapped makes one. It has
 * said that it will (l5_map_info.features). Anywhere else the flag is a
 * violation, and so is any other flag: the names are for flags to come.
 */
#define L5_REC_VALID		0x80000000u
#define L5_REC_LEN		0x01ffffffu
#define L5_REC_MORE		0x02000000u	/* the message goes on */
#define L5_REC_FILES		0x04000000u	/* descriptors ride with it */
#define L5_REC_SWITCH		0x08000000u	/* the last of its ring */

/*
 * More of the upper half, for kernels alone: with L5_NOTIFY_ONE a record comes
 * from another host all at once, in any order of its bytes. A header word that
 * came so has L5_REC_LATE and, in the bits of L5_REC_STAMP below that, a number
 * which only the two kernels know for that position. So has the word after the
 * record: once it is there, all of the record is. L5_REC_STAMP covers both. The
 * reader's kernel takes these bits out, and such a ring cannot be mapped: no
 * program sees them.
 */
#define L5_REC_LATE		0x40000000u
#define L5_REC_STAMP		0x7fffffffu

/*
 * A lock word has the holder's number: the one that the kernel gave its
 * mapping, or L5_LOCK_KERNEL. A thread that finds the word taken sets
 * L5_LOCK_WAITERS and sleeps in L5_IOC_LOCK; a holder that sees that bit when
 * it unlocks calls L5_IOC_UNLOCK. If a holder's mapping is gone the kernel
 * writes L5_LOCK_DIED: the next holder mends what was left half done.
 */
#define L5_LOCK_ID		0x3fffffffu
#define L5_LOCK_KERNEL		L5_LOCK_ID
#define L5_LOCK_DIED		0x40000000u
#define L5_LOCK_WAITERS		0x80000000u

/**
 * struct l5_ctrl - an end's control page
 * @tx_tail: as a producer: position after the last published record
 * @tx_bytes: payload bytes published, for statistics
 * @rx_head: as a consumer: position of the first record not yet taken
 * @rx_pos: as a consumer: @rx_head and the bytes already taken of the record
 *	there; with the last of these bytes @rx_pos moves to the next record,
 *	before @rx_head does
 * @rx_bytes: payload bytes taken, for statistics
 * @rx_wait: not 0: ring the doorbell after publishing a record for the owner
 * @tx_wait: not 0: ring the doorbell after making room for the owner
 * @tx_lock: held by the task that changes @tx_tail
 * @rx_lock: held by the task that changes @rx_head and @rx_pos
 *
 * Written by its owner, and by the kernel, which alone clears the wait words.
 * Words that change together are a group; the wait words are a group of their
 * own, since the peer looks at them after every message. The lock words are for
 * the owner's threads and processes, and for the kernel when one of these makes
 * a system call; they mean nothing to the peer. Bytes that have no name are
 * zero.
 */
struct l5_ctrl {
	__aligned_u64 tx_tail;
	__aligned_u64 tx_bytes;
	__u8 group0[L5_GROUP - 16];
	__aligned_u64 rx_head;
	__aligned_u64 rx_pos;
	__aligned_u64 rx_bytes;
	__u8 group1[L5_GROUP - 24];
	__u32 rx_wait;
	__u32 tx_wait;
	__u8 group2[L5_GROUP - 8];
	__u32 tx_lock;
	__u32 rx_lock;
	__u8 group3[L5_GROUP - 8];
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
 * @have: is there a record, so that @len says something?
 * @len: the record's length as validated, which may be 0; 0 if there is no
 *	record
 * @files: if there is a record: do descriptors ride with it? Then it is for the
 *	kernel to take it
 * @size: of the ring in bytes
 * @empty: number of records without payload that were skipped in a row
 * @empty_end: position after the last of them
 *
 * @len is kept because a record is validated once: if the producer writes over
 * the header afterwards, that changes nothing.
 */
struct l5_cons {
	__u64 head;
	__u32 off;
	__u32 have;
	__u32 len;
	__u32 files;
	__u32 size;
	__u32 empty;
	__u64 empty_end;
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
 * l5_rec_bare() - a header word without the flags that a reader may meet
 * @hdr: the header word
 */
static inline __u64 l5_rec_bare(__u64 hdr)
{
	return hdr & ~(__u64)L5_REC_FILES;
}

/* Is this the header of a record that a ring of this size may hold? A flag
 * makes the length too large.
 */
static inline int l5_rec_valid(__u32 size, __u64 hdr)
{
	return hdr >> 32 == L5_REC_VALID && (__u32)hdr <= l5_rec_max(size);
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
 * Return: 0, or -1 if the consumer claims a position that it cannot have.
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
 * l5_prod_publish_with() - hand a record with flags to the consumer
 * @p: the producer
 * @own: its control page
 * @slot: the header word at @p->tail
 * @next: the header word l5_rec_size(@len) further
 * @len: of the payload, already in place, at most l5_prod_room()
 * @flags: L5_REC_FILES or 0
 */
static inline void l5_prod_publish_with(struct l5_prod *p, struct l5_ctrl *own,
					__u64 *slot, __u64 *next, __u32 len,
					__u32 flags)
{
	l5_store(next, 0);
	/* A, pairs with B */
	l5_store_release(slot, (__u64)L5_REC_VALID << 32 | flags | len);
	p->tail += l5_rec_size(len);
	/* V, pairs with W in the kernel, which sends what is before the tail */
	l5_store_release(&own->tx_tail, p->tail);
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
	l5_prod_publish_with(p, own, slot, next, len, 0);
}

/**
 * l5_cons_peek() - look for a record
 * @c: the consumer; its @len and @files describe the record on success
 * @slot: the header word at @c->head
 *
 * Return: 1 if there is a record, 0 if not, -1 if the header word is no
 * record's.
 */
static inline int l5_cons_peek(struct l5_cons *c, const __u64 *slot)
{
	__u64 hdr, bare;

	if (c->have)
		return 1;
	/* B, pairs with A */
	hdr = l5_load_acquire(slot);
	/* a record that some was taken of cannot be gone, or not have come */
	if (!hdr)
		return c->off ? -1 : 0;
	bare = l5_rec_bare(hdr);
	/* and it is longer than that */
	if (!l5_rec_valid(c->size, bare) || (c->off && c->off >= (__u32)bare))
		return -1;
	c->len = (__u32)bare;
	c->files = bare != hdr;
	c->have = 1;
	return 1;
}

/**
 * l5_cons_take() - give up bytes of the record l5_cons_peek() found
 * @c: the consumer
 * @own: its control page
 * @n: bytes read since, at most what is left of the record; a record of 0 bytes
 *	is finished by taking none
 *
 * Return: bytes of the ring this freed: 0 until the record is finished.
 */
static inline __u32 l5_cons_take(struct l5_cons *c, struct l5_ctrl *own,
				 __u32 n)
{
	__u32 size;

	c->off += n;
	if (c->off < c->len) {
		l5_store(&own->rx_pos, c->head + c->off);
		return 0;
	}
	size = l5_rec_size(c->len);
	c->head += size;
	c->off = 0;
	c->len = 0;
	c->have = 0;
	/* ahead of rx_head, so that a task that mends knows it is finished */
	l5_store(&own->rx_pos, c->head);
	/* C, pairs with D */
	l5_store_release(&own->rx_head, c->head);
	return size;
}

/*
 * A stream knows no empty records, and skips them. No peer has a reason to send
 * many: a peer that sends so many with nothing between them wants us to do
 * nothing else.
 */
#define L5_EMPTY_MAX		512u

/**
 * l5_cons_skip() - l5_cons_peek() for a stream, which has no use for a record
 *	without payload
 * @c: the consumer; there is a record with payload if this returns 1
 * @own: its control page, rx_lock held
 * @slot: the header word at @c->head
 *
 * Return: as l5_cons_peek(), or 2 if a record was skipped: look again.
 */
static inline int l5_cons_skip(struct l5_cons *c, struct l5_ctrl *own,
			       const __u64 *slot)
{
	int ret = l5_cons_peek(c, slot);

	if (ret <= 0 || c->len)
		return ret;
	if (c->head != c->empty_end)
		c->empty = 0;
	if (++c->empty > L5_EMPTY_MAX)
		return -1;
	l5_cons_take(c, own, 0);
	c->empty_end = c->head;
	return 2;
}

/**
 * l5_prod_load() - take over where another holder of the lock left off
 * @p: the producer; its @head may lag
 * @own: its control page, tx_lock held
 * @peer: the consumer's
 *
 * Return: 0, or -1 if the words make no sense.
 */
static inline int l5_prod_load(struct l5_prod *p, const struct l5_ctrl *own,
			       const struct l5_ctrl *peer)
{
	__u64 head;

	p->tail = l5_load(&own->tx_tail);
	if (p->tail & (L5_HDR - 1))
		return -1;
	if (p->tail - p->head <= p->size)
		return 0;
	/* D, pairs with C */
	head = l5_load_acquire(&peer->rx_head);
	/* it may have read a record whose writer died and left the tail */
	if (head - p->tail <= p->size)
		head = p->tail;
	if (p->tail - head > p->size || (head & (L5_HDR - 1)))
		return -1;
	p->head = head;
	return 0;
}

/**
 * l5_prod_mend() - finish what a holder that died began
 * @p: the producer, loaded
 * @own: its control page, tx_lock held
 * @peer: the consumer's
 * @slot: the header word at @p->tail
 *
 * There is a header only if the record was published; then the tail follows.
 *
 * Return: as l5_prod_load().
 */
static inline int l5_prod_mend(struct l5_prod *p, struct l5_ctrl *own,
			       const struct l5_ctrl *peer, const __u64 *slot)
{
	__u64 hdr = l5_rec_bare(l5_load(slot));

	if (!l5_rec_valid(p->size, hdr))
		return 0;
	l5_store(&own->tx_tail, p->tail + l5_rec_size((__u32)hdr));
	return l5_prod_load(p, own, peer);
}

/**
 * l5_cons_load() - take over where another holder of the lock left off
 * @c: the consumer
 * @own: its control page, rx_lock held
 *
 * Return: 0, or -1 if the words make no sense.
 */
static inline int l5_cons_load(struct l5_cons *c, const struct l5_ctrl *own)
{
	__u64 off;

	c->head = l5_load(&own->rx_head);
	off = l5_load(&own->rx_pos) - c->head;
	c->off = (__u32)off;
	c->len = 0;
	c->have = 0;
	return off > c->size || (c->head & (L5_HDR - 1)) ? -1 : 0;
}

/**
 * l5_cons_mend() - finish what a holder that died began
 * @c: the consumer, loaded
 * @own: its control page, rx_lock held
 * @slot: the header word at @c->head
 *
 * A record whose last byte was taken is left behind.
 */
static inline void l5_cons_mend(struct l5_cons *c, struct l5_ctrl *own,
				const __u64 *slot)
{
	/* B, pairs with A */
	__u64 hdr = l5_rec_bare(l5_load_acquire(slot));

	if (!c->off || !l5_rec_valid(c->size, hdr) ||
	    c->off != l5_rec_size((__u32)hdr))
		return;
	c->head += c->off;
	c->off = 0;
	/* C, pairs with D */
	l5_store_release(&own->rx_head, c->head);
}

/**
 * l5_lock_try() - take a lock word if it is free
 * @word: tx_lock or rx_lock of the own control page
 * @id: of this mapping, or L5_LOCK_KERNEL
 *
 * Return: 1 if taken, 2 if taken and the last holder died: mend first, 0 if
 * another task holds the word.
 */
static inline int l5_lock_try(__u32 *word, __u32 id)
{
	__u32 old = l5_load(word);

	if (old & L5_LOCK_ID)
		return 0;
	/* J, pairs with K: the new holder sees what the last holder did */
	if (!l5_cmpxchg(word, old, id | (old & L5_LOCK_WAITERS)))
		return 0;
	return old & L5_LOCK_DIED ? 2 : 1;
}

/**
 * l5_unlock() - give a lock word back
 * @word: tx_lock or rx_lock of the own control page
 *
 * A full barrier: what was published before it is ordered before the look at
 * the peer's wait word after it, so this also stands for F.
 *
 * Return: not 0 if a task sleeps for the word: call L5_IOC_UNLOCK.
 */
static inline __u32 l5_unlock(__u32 *word)
{
	/* K, pairs with J */
	return l5_xchg_mb(word, 0) & L5_LOCK_WAITERS;
}

/**
 * l5_wait_arm() - say that the owner is about to sleep
 * @wait: rx_wait or tx_wait of the owner's control page
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
