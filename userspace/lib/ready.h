/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Is there anything to read, or room to write? Looks at a mapped end that need
 * no lock, and that move nothing.
 */
#ifndef L5_READY_H
#define L5_READY_H

#include "mapped.h"

/* Looks at cursors that others move meanwhile */
#define L5_LOOKS	64

/*
 * The header at a position that may be out of date without the lock: then other
 * threads have read on, and it is payload, even such as is being written. B,
 * pairs with A: what is read after it is later.
 */
static inline __attribute__((no_sanitize("thread")))
uint64_t l5_map_glance(const __u64 *slot)
{
	return l5_load_acquire(slot);
}

/* How much of its ring may this end use at present? */
static inline uint32_t l5_map_extent(const struct l5_map *m)
{
	return l5_load(&m->state->tx_extent);
}

/* And how much may it come to use, if a system call gets memory for it? */
static inline uint32_t l5_map_most(const struct l5_map *m)
{
	uint32_t most = l5_load(&m->state->tx_most);

	/* of a module that does not know the word */
	return l5_likely(most) ? most : l5_map_extent(m);
}

/* How often was it less, since there was no memory? */
static inline uint32_t l5_map_refusals(const struct l5_map *m)
{
	return l5_load(&m->state->tx_refused);
}

/**
 * l5_map_readable() - is there anything to read, or to complain about?
 * @m: the end
 *
 * Needs no lock. A false may be out of date once it is back, as any such
 * answer may. Says nothing about the end of the stream: l5_map_rx_ask().
 */
static inline bool l5_map_readable(const struct l5_map *m)
{
	uint64_t head, slot;
	int i;

	/* a head that moves whenever it is looked at is worth a try */
	for (i = 0; i < L5_LOOKS; i++) {
		head = l5_load(&m->own->rx_head);
		if (l5_load(&m->own->rx_pos) != head)
			return true;
		slot = l5_map_glance(l5_map_rx_slot(m, head));
		if (slot || l5_likely(l5_load(&m->own->rx_head) == head))
			return slot;
	}
	return true;
}

/**
 * l5_map_rx_end() - where the records that have come end
 * @m: the end
 * @from: where they did before, or anything
 *
 * The peer's tail says it, but not by RDMA: its copy here is hardly ever
 * written. Then the records are followed.
 */
uint64_t l5_map_rx_end(const struct l5_map *m, uint64_t from);

/**
 * l5_map_rx_since() - has anything come since then, read or not?
 * @m: the end
 * @end: from l5_map_rx_end()
 */
static inline bool l5_map_rx_since(const struct l5_map *m, uint64_t end)
{
	if (l5_likely(!l5_map_far(m)))
		return l5_load(&m->peer->tx_tail) != end;
	return end - l5_load(&m->own->rx_head) > m->rx_size ||
	       l5_map_glance(l5_map_rx_slot(m, end)) ||
	       end - l5_load(&m->own->rx_head) > m->rx_size;
}

/**
 * l5_map_rx_ask() - if the ring is found empty after this, is recv(2) to say
 *	why?
 * @m: the end
 */
static inline bool l5_map_rx_ask(const struct l5_map *m)
{
	/* P: the flag is looked at, then the ring */
	return l5_load_acquire(&m->state->flags) & L5_MAP_RX_STOP;
}

/* Is so much of the ring free that it is worth while to write? */
static inline bool l5_map_roomy(const struct l5_map *m)
{
	return l5_room_worth(l5_load(&m->own->tx_tail),
			     l5_load(&m->peer->rx_head),
			     l5_map_most(m) >> m->messages);
}

/**
 * l5_map_always_roomy() - has it been worth while to write ever since?
 * @m: the end
 * @head: how far the peer had read then
 *
 * The tail does not go back, and the peer's head was not less since.
 */
static inline bool l5_map_always_roomy(const struct l5_map *m, uint64_t head)
{
	return l5_room_worth(l5_load(&m->own->tx_tail), head,
			     l5_map_most(m) >> m->messages);
}

/**
 * l5_map_writable() - is it worth while to write?
 * @m: the end
 *
 * That is, is half the ring free, or has send(2) to say why it never will.
 */
static inline bool l5_map_writable(const struct l5_map *m)
{
	return l5_map_roomy(m) || l5_load(&m->state->flags) & L5_MAP_TX_STOP;
}

/* What the rings say: bits of l5_map_ready(). */
#define L5_READY_IN		0x1	/* bytes, or something to complain of */
#define L5_READY_OUT		0x2	/* it is worth while to write */
#define L5_READY_ASK_IN		0x4	/* of an empty ring recv(2) says why */
#define L5_READY_ASK_OUT	0x8	/* what sending does, send(2) says */
#define L5_READY_ASK		(L5_READY_ASK_IN | L5_READY_ASK_OUT)

/*
 * The flags of the end's state page, for l5_map_ready_by(). P, before the look
 * at the ring: what was published before the end comes first.
 */
static inline uint32_t l5_map_flags(const struct l5_map *m)
{
	return l5_load_acquire(&m->state->flags);
}

/* l5_map_ready(), by flags that were read just now */
static inline __attribute__((always_inline))
unsigned int l5_map_ready_by(const struct l5_map *m, uint32_t flags,
			     unsigned int want)
{
	unsigned int got = 0;

	if (l5_unlikely(flags & L5_MAP_RX_STOP))
		got |= L5_READY_ASK_IN;
	if (l5_unlikely(flags & L5_MAP_TX_STOP))
		got |= L5_READY_ASK_OUT;
	if (want & L5_READY_IN && l5_map_readable(m))
		got |= L5_READY_IN;
	if (want & L5_READY_OUT &&
	    (got & L5_READY_ASK_OUT || l5_map_roomy(m)))
		got |= L5_READY_OUT;
	return got;
}

/**
 * l5_map_ready() - what could be done without waiting?
 * @m: the end
 * @want: L5_READY_IN, L5_READY_OUT, or both
 *
 * The one answer for all that waits: a receive, a send, poll(), select(), epoll
 * and l5_wait_any(). What asks for no more than a bit of @want still learns
 * whether the kernel has something to say about either direction.
 *
 * Return: L5_READY_*; of @want only what is there.
 */
static inline __attribute__((always_inline))
unsigned int l5_map_ready(const struct l5_map *m, unsigned int want)
{
	return l5_map_ready_by(m, l5_map_flags(m), want);
}

/* For a wait of one direction */
static inline bool l5_map_rx_ready(const void *arg)
{
	return l5_map_ready(arg, L5_READY_IN) &
	       (L5_READY_IN | L5_READY_ASK_IN);
}

static inline bool l5_map_tx_ready(const void *arg)
{
	return l5_map_ready(arg, L5_READY_OUT) & L5_READY_OUT;
}

#endif /* L5_READY_H */
