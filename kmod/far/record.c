// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5 between hosts: records in the rings of an end: where their words are,
 * and how a record that came is shown to the reader.
 */
#include "far.h"

/**
 * l5_far_at() - find the byte at a position of a ring that is whole
 * @ring: the ring
 * @pos: the position, any
 *
 * Context: softirqs off, which keeps the page, see ../spill.c.
 */
void *l5_far_at(struct l5_end *ring, u64 pos)
{
	/* N, pairs with O: the array, then the page, then what is in it */
	struct l5_pages *pages = smp_load_acquire(&ring->pages);
	struct page *page =
		smp_load_acquire(&pages->at[(pos >> PAGE_SHIFT) & pages->mask]);

	return page_address(page) + offset_in_page(pos);
}

/**
 * l5_far_word() - find a word of a ring that is whole
 * @ring: the ring
 * @pos: position of the word
 */
u64 *l5_far_word(struct l5_end *ring, u64 pos)
{
	return l5_far_at(ring, pos & ~(u64)(L5_HDR - 1));
}

/**
 * l5_far_header() - find the header of a record in the own ring
 * @far: of this end
 * @pos: where the record begins
 */
u64 l5_far_header(struct l5_far *far, u64 pos)
{
	return l5_load(l5_far_word(&far->conn->end[far->end], pos));
}

/**
 * l5_far_got_wake() - the receiver of this end may look again
 * @far: of this end
 *
 * Then it arms again.
 *
 * Context: softirq.
 */
void l5_far_got_wake(struct l5_far *far)
{
	clear_bit(L5_FAR_ARM, &far->flags);
	/* X, pairs with the look at it in l5_far_arm_rx(): clear, then wake */
	smp_mb__after_atomic();
	l5_conn_bell(far->conn, far->end, false);
}

/**
 * l5_far_got_record() - write the header that makes what came visible
 * @far: of this end
 * @pos: where the record begins
 * @len: its length, checked
 *
 * Context: softirq.
 */
void l5_far_got_record(struct l5_far *far, u64 pos, u32 len)
{
	struct l5_end *ring = &far->conn->end[!far->end];
	struct l5_end *own = &far->conn->end[far->end];

	/* A, pairs with B */
	l5_store_release(l5_far_word(ring, pos),
			 (u64)L5_REC_VALID << 32 | len);
	l5_mailbox_set(far);
	/* F, pairs with E */
	if (l5_wait_armed(&own->ctrl->rx_wait) || l5_end_async(own))
		l5_far_got_wake(far);
}
