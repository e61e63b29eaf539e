/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The mailbox of a listener: a byte for each of its connections that RDMA
 * carries, which the peer's host sets after each record (Fent et al., ICDE
 * 2020, figure 9). So 64 connections are looked at in one cache line.
 *
 *   peer's host                             the thread that looks
 *
 *   WRITE record                            EXCHANGE byte = 0        (BB)
 *   WRITE byte = not 0           (CC)       FULL BARRIER
 *                                           LOAD header of the record
 *
 *   CC pairs with BB: a queue pair's WRITEs take effect in their order with a
 *     device for which the peer was told so (kmod/rdma/order.c); else, and for
 *     the end of a connection (AR, kmod/far/mailbox.c), it is this host's
 *     kernel that sets the byte, by a store that releases what is before it.
 *     If the exchange took the byte away the record is there for the next look.
 *     If the header is not there yet, then the byte is set after it was
 *     cleared, and stays. In the other order, header first, the byte would be
 *     lost.
 *
 * A byte that is set says that it is worth while to look, and nothing else. The
 * peer's host may set it at any time to any value; that costs the look. The
 * state page and the kernel tell of all else: connections without a byte, and
 * news other than records, such as the end of a connection.
 *
 * The thread that looks may set a byte, too: then it will look again. That is
 * how l5_wait_any() remembers what it reported and was not read.
 */
#ifndef L5_MAILBOX_H
#define L5_MAILBOX_H

#include "map.h"

struct l5_stream;

/* Bytes that are looked at together, a bit for each in a mask */
#define L5_MAILBOX_LINE		64u

/**
 * struct l5_scan - a way to find bytes that are set
 * @name: for people
 * @usable: does this CPU have it?
 * @line: the first line at or after @from, and before @end, with a byte that is
 *	set, and which these are; @end if there is none
 */
struct l5_scan {
	const char *name;
	bool (*usable)(void);
	unsigned int (*line)(const uint8_t *box, unsigned int from,
			     unsigned int end, uint64_t *mask);
};

/* All ways there are, the best first; the last is always usable; then NULL. */
extern const struct l5_scan l5_scans[];

/**
 * struct l5_mailbox - a mailbox as this process has it mapped
 * @byte: the bytes
 * @size: how many there are, a multiple of L5_MAILBOX_LINE
 * @scan: how to look at them
 * @lines: lines from here on have no connection
 * @turn: where l5_mailbox_poll() begins
 * @calls: of l5_wait_any(), to look now and then at entries whose byte is not
 * set
 * @life: see l5_map_mine()
 * @ref: references of the program and of connections
 * @mapped: is @byte to be unmapped?
 * @at: of each byte: its entry in the array last given to l5_wait_any()
 * @conn: of each byte: the connection that has it, or NULL
 */
struct l5_mailbox {
	uint8_t *byte;
	uint32_t size;
	const struct l5_scan *scan;
	uint32_t lines;
	uint32_t turn;
	uint32_t calls;
	uint32_t life;
	int ref;
	bool mapped;
	uint32_t *at;
	struct l5_stream *conn[];
};

/**
 * l5_mailbox_over() - a mailbox in memory that is there already, for tests
 * @byte: of the bytes, aligned to L5_MAILBOX_LINE
 * @size: how many there are, a multiple of that
 *
 * Return: for l5_mailbox_close(), or NULL with errno.
 */
struct l5_mailbox *l5_mailbox_over(uint8_t *byte, uint32_t size);

/* One user more, one less */
void l5_mailbox_get(struct l5_mailbox *b);
void l5_mailbox_put(struct l5_mailbox *b);

/**
 * l5_mailbox_join() - a connection has a byte
 * @b: the mailbox
 * @c: the connection
 * @i: number of the byte
 *
 * Return: true, or false if there is another connection that has it.
 */
bool l5_mailbox_join(struct l5_mailbox *b, struct l5_stream *c, uint32_t i);

/* The connection has the byte no more */
void l5_mailbox_leave(struct l5_mailbox *b, struct l5_stream *c, uint32_t i);

/* Was it mapped in this process, or in a parent? */
static inline bool l5_mailbox_mine(const struct l5_mailbox *b)
{
	return l5_likely(l5_load(l5_map_life) == b->life);
}

/* The next line with bytes that are set; @end: l5_mailbox.lines */
static inline
unsigned int l5_mailbox_line(const struct l5_mailbox *b, unsigned int from,
			     unsigned int end, uint64_t *mask)
{
	return b->scan->line(b->byte, from, end, mask);
}

/* To look again */
static inline void l5_mailbox_set(struct l5_mailbox *b, uint32_t i)
{
	if (!l5_load(&b->byte[i]))
		l5_store(&b->byte[i], 1);
}

/**
 * l5_mailbox_take() - clear a byte
 * @b: the mailbox
 * @i: its number
 *
 * Before the ring is looked at l5_mailbox_fence() has to follow, once for all
 * that were taken.
 *
 * Return: was it set?
 */
static inline bool l5_mailbox_take(struct l5_mailbox *b, uint32_t i)
{
	/* BB, pairs with CC */
	return __atomic_exchange_n(&b->byte[i], 0, __ATOMIC_SEQ_CST);
}

static inline void l5_mailbox_fence(void)
{
	/* on x86 the exchange was one */
#if !defined(__x86_64__) && !defined(__i386__)
	l5_mb();
#else
	l5_signal_fence();
#endif
}

#endif /* L5_MAILBOX_H */
