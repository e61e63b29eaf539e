/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * The ring of AF_L5: what is wise, where l5_ring.h says what is right.
 *
 * How large a record is made, when a sleeper is woken, when a ring counts as
 * writable, and how long it pays to look at a ring before sleeping. The kernel
 * and the library follow the same rules, so it does not matter to a connection
 * which of the two moves its bytes. No rule is a protocol: an end that follows
 * another one loses time, and nothing else.
 *
 * Functions here have no effects beyond their arguments. They make no system
 * call, take no lock and do not sleep.
 */
#ifndef _UAPI_LINUX_L5_POLICY_H
#define _UAPI_LINUX_L5_POLICY_H

#include "l5_ring.h"

/* Room */

/*
 * A large send goes in records of at most so many bytes of payload, so that the
 * reader copies one while the writer fills the next.
 */
#define L5_PIECE		(64u << 10)

/* So much room is worth telling of, however long the ring is. */
#define L5_ROOM			(128u << 10)

/**
 * l5_room_low() - bytes that are unread at most once room is worth telling of
 * @extent: bytes of the ring that its writer uses
 *
 * A writer is told of room once half of the ring is free, and not about every
 * little: it would run, fill that, and sleep again. Of a long ring %L5_ROOM do:
 * a reader may wait for a writer that sleeps though megabytes are free. It is
 * also when a writer over RDMA asks how far its reader is. It has a copy of the
 * reader's position, and gets a new one ideally before the ring appears to be
 * full (Fent et al., ICDE 2020, section IV, sender_read).
 */
static inline __u32 l5_room_low(__u32 extent)
{
	return extent > 2 * L5_ROOM ? extent - L5_ROOM : extent / 2;
}

/**
 * l5_room_worth() - is there so much room that a writer is to go on?
 * @tail: position of the writer
 * @head: position of the reader
 * @extent: bytes of the ring that the writer uses
 *
 * Each position may be a moment old, and is only a hint: a lie is its author's
 * loss. A writer that died before it moved its tail lags behind its reader,
 * and then nothing is unread.
 */
static inline int l5_room_worth(__u64 tail, __u64 head, __u32 extent)
{
	return (__s64)(tail - head) <= (__s64)l5_room_low(extent);
}

/**
 * l5_room_tell() - is a reader to tell of room before it has all it wants?
 * @freed: bytes of the ring it has freed since it last told
 * @size: of the ring
 *
 * A long read is not to keep the writer waiting.
 */
static inline int l5_room_tell(__u64 freed, __u32 size)
{
	return freed >= size - l5_room_low(size);
}

/**
 * l5_room_claim() - how long is the next record to be?
 * @p: the producer; it learns how far the consumer is if that matters
 * @peer: the consumer's control page
 * @want: bytes of payload that there are
 * @extent: bytes of the ring that the writer uses, at most @p->size
 *
 * A large send is not to dribble into a nearly full ring: if there is no room
 * for all of it, and less than a quarter of what is told of, it is better to
 * wait.
 *
 * Return: bytes of payload, 0 if it is better to wait, or -1 if the consumer
 * claims a position that it cannot have.
 */
static inline int l5_room_claim(struct l5_prod *p, const struct l5_ctrl *peer,
				__u32 want, __u32 extent)
{
	__u32 slack = p->size - extent, room;
	__u32 low = (extent - l5_room_low(extent)) / 4;

	if (low > want)
		low = want;
	room = l5_prod_room(p);
	if (room < want + slack) {
		if (l5_prod_look(p, peer) < 0)
			return -1;
		room = l5_prod_room(p);
		if (room < low + slack)
			return 0;
		room -= slack;
		return room < want ? room : want;
	}
	return want;
}

/* Waking */

/**
 * l5_wants_data() - is the peer to be woken after a record was published?
 * @peer: its control page
 *
 * After a full barrier that follows the publication: see l5_wait_armed(), which
 * has that barrier, and l5_unlock(), which is one.
 */
static inline int l5_wants_data(const struct l5_ctrl *peer)
{
	return l5_load(&peer->rx_wait) != 0;
}

/**
 * l5_wants_room() - is the peer to be woken after its records were read?
 * @peer: its control page
 * @head: how far they were
 * @size: of the ring
 *
 * After a full barrier, as l5_wants_data().
 */
static inline int l5_wants_room(const struct l5_ctrl *peer, __u64 head,
				__u32 size)
{
	return l5_load(&peer->tx_wait) != 0 &&
	       l5_room_worth(l5_load(&peer->tx_tail), head, size);
}

/* Where the records end */

/**
 * l5_chain_from() - where to begin to look for the end of the unread records
 * @from: where they ended before, or anything
 * @head: position of the first of them
 * @size: of the ring
 *
 * The place of a header stays a header's until the record is read: so the last
 * end that was found is good as long as the reader has not passed it.
 */
static inline __u64 l5_chain_from(__u64 from, __u64 head, __u32 size)
{
	return from - head <= size ? from : head;
}

/**
 * l5_chain_step() - go over a record without taking it
 * @c: a copy of the consumer's view, at a record
 * @start: where the walk began
 *
 * The walk cannot pass the ring's size, whatever the headers say.
 *
 * Return: not 0 if there may be another record at @c->head.
 */
static inline int l5_chain_step(struct l5_cons *c, __u64 start)
{
	c->head += l5_rec_size(c->len);
	c->off = 0;
	c->len = 0;
	c->have = 0;
	return c->head - start < c->size;
}

/* Spinning */

/*
 * Waiting without sleep is never worth more than this, ns, unless somebody says
 * so: it is what KVM's halt polling allows.
 */
#define L5_SPIN_MOST		200000u
/* Nor is it worth beginning with less than this, ns. */
#define L5_SPIN_LEAST		1000u

/**
 * l5_spin_ns() - how long to look at a ring before sleeping, ns
 * @told_us: microseconds that somebody has asked for; negative: as it pays
 * @win: what it is worth at present, see l5_spin_learn()
 * @most: what it may be worth
 */
static inline __u64 l5_spin_ns(int told_us, __u64 win, __u64 most)
{
	if (told_us >= 0)
		return (__u64)told_us * 1000;
	return win < most ? win : most;
}

/**
 * l5_spin_learn() - learn from a wait, as KVM's halt polling does
 * @win: what waiting without sleep is worth at present, ns
 * @waited: how long this wait was, ns, with or without sleep
 * @paid: a wait up to this, ns, is worth waiting through
 * @most: what it may be worth
 *
 * If the wait was short enough to look through, look as long next time and half
 * as much again; if not, half as long and soon not at all. So a connection that
 * answers at once is looked at, and an idle one never is.
 *
 * Return: what it is worth from now on.
 */
static inline __u64 l5_spin_learn(__u64 win, __u64 waited, __u64 paid,
				  __u64 most)
{
	__u64 want;

	if (waited > paid)
		return win < L5_SPIN_LEAST ? 0 : win / 2;
	want = waited + waited / 2;
	if (want < L5_SPIN_LEAST)
		want = L5_SPIN_LEAST;
	if (want > most)
		want = most;
	return want > win ? want : win;
}

/* The budget of looking */

/* The share of the time that goes by, percent, unless somebody says another. */
#define L5_CPU_BUDGET		10u
/*
 * A sleep costs a task at least this, ns: two switches and a wake-up. On many
 * machines it is more, and both sides measure it. A look that finds what it is
 * for within that time has cost nothing.
 */
#define L5_SLEEP_LEAST		10000u
/* Looking that is saved up for later, ns at most. */
#define L5_BUDGET_MOST		2000000

/**
 * struct l5_budget - how much looking a thread, or a CPU, can afford
 * @left: ns; no more than 0: a look is not to begin
 * @at: when @left was last added to, ns of any clock
 *
 * Looking at a ring takes a CPU from other tasks, and energy. What is worth it
 * to a connection, see l5_spin_learn(), may still be too dear: a reader whose
 * messages come every 100 us would be running always, to have each of them a
 * little earlier. So looks are paid for with a share of the time that goes by.
 * Tasks that share a budget may race: a little is paid for twice, or never.
 */
struct l5_budget {
	__s64 left;
	__u64 at;
};

/**
 * l5_budget_ns() - how long may a look be that begins now, ns?
 * @b: the budget, which gets its share of the time since it was last asked
 * @now: ns, of the clock of @b->at; a clock that runs backwards adds nothing
 * @percent: the share; 100 or more is no limit
 * @sleep: what a sleep costs, ns
 * @want: how long it is worth to look, ns
 *
 * A look that ends before what it is for has come was in vain. So it is as long
 * as it is to be, or there is none until so much has been saved up; but what
 * cannot be saved up is not waited for.
 *
 * Return: ns, at most @want.
 */
static inline __u64 l5_budget_ns(struct l5_budget *b, __u64 now, __u32 percent,
				 __u64 sleep, __u64 want)
{
	__u64 gone = now - l5_load(&b->at);
	__s64 left = l5_load(&b->left);

	if (percent >= 100)
		return want;
	if ((__s64)gone < 0)
		gone = 0;
	l5_store(&b->at, now);
	/* so much fills it, whatever was owed; and 32 bits hold it */
	if (gone > 200u * L5_BUDGET_MOST)
		gone = 200u * L5_BUDGET_MOST;
	left += (__u32)gone / 100 * percent;
	if (left > L5_BUDGET_MOST)
		left = L5_BUDGET_MOST;
	l5_store(&b->left, left);
	if (left <= 0)
		return 0;
	if (want > L5_BUDGET_MOST / 2 && left > L5_BUDGET_MOST / 2)
		return want < (__u64)left ? want : (__u64)left;
	return (__u64)left + sleep >= want ? want : 0;
}

/**
 * l5_budget_spend() - a look is over
 * @b: the budget
 * @looked: how long it took, ns
 * @saved: what the sleep would have cost that it made unnecessary, ns; 0 if a
 *	sleep follows
 */
static inline void l5_budget_spend(struct l5_budget *b, __u64 looked,
				   __u64 saved)
{
	__s64 left = l5_load(&b->left);

	if (looked <= saved)
		return;
	looked -= saved;
	if (looked > L5_BUDGET_MOST)
		looked = L5_BUDGET_MOST;
	left -= looked;
	if (left < -L5_BUDGET_MOST)
		left = -L5_BUDGET_MOST;
	l5_store(&b->left, left);
}

#endif /* _UAPI_LINUX_L5_POLICY_H */
