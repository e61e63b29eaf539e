/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The link keeps the rings of a connection's two ends alike: it is the seam
 * between the rings, which all connections have, and the transport, of which
 * there is a choice. The core calls these functions, and never asks which
 * transport it is.
 *
 * A connection gets its link before the state of a socket says that there are
 * rings, and keeps it for life.
 */
#ifndef L5_LINK_H
#define L5_LINK_H

#include <linux/indirect_call_wrapper.h>

#include "fold.h"
#include "grow.h"
#include "l5.h"
#include "ring.h"
#include "shm.h"

/**
 * struct l5_link_ops - a transport, as the rings see it
 * @transport: L5_TRANSPORT_*, for a program that asks
 * @name: of the transport, in /proc/net/l5
 * @stat: L5_STAT_CONN_*, which counts ends that it carries
 * @map_flags: L5_MAP_* that the state page of an end begins with
 * @drops: pages that nobody needs are given back once an end is closed, see
 *	drop.c: no device uses them by itself
 * @regions: both ends can have the same memory
 * @published: a system call has published a record at @end. Context: process,
 *	tx_lock held
 * @freed: @l5 has read, so there is room for its peer. Context: process,
 *	rx_lock held
 * @ring: a process at the other end rings the doorbell of @end, L5_BELL_*.
 *	Context: process
 * @flush: a process has published, and may not have been allowed to ring.
 *	Context: process
 * @arm_rx: the wait word for data is armed, so the peer is to tell of records;
 *	the ring is looked at after this. Context: process
 * @arm_tx: the wait word for room is armed, so the peer is to tell once no more
 *	than @low bytes are unread. Context: process
 * @fin: @end writes no more than what is published. Context: process, tx_lock
 *	held or no other task there
 * @lost: is there no longer a way to send what is published? Context: any
 * @rx_over: is there no longer a way for records to come, and is a reader to be
 *	told? Context: any
 * @end_visible: do the signs of an end that the bootstrap gives count, so that
 *	no record can be behind them? Context: any
 * @rx_end: there were signs of an end, and the ring was found empty after that:
 *	0 if it is the stream's end, -EAGAIN if the ring is to be looked at
 *	again, or another errno if bytes are lost, to each task that asks.
 *	Context: process
 * @boot_changed: the bootstrap may have ended. Context: any
 * @peer_released: is it certain that the peer's socket is gone? Context: any
 * @mailbox: 1 + the number of this end's byte in a mailbox. Context: process
 * @free: the connection goes, and @l5_conn.link_data with it. Context: softirq
 *
 * A function that is NULL does nothing, or its answer is the usual one: not
 * lost, not over, visible, the end, not certain, no mailbox.
 */
struct l5_link_ops {
	u8 transport;
	const char *name;
	u8 stat;
	u32 map_flags;
	bool drops;
	bool regions;
	void (*published)(struct l5_conn *conn, int end);
	void (*freed)(struct l5_sock *l5);
	void (*ring)(struct l5_conn *conn, int end, int bells);
	void (*flush)(struct l5_conn *conn);
	void (*arm_rx)(struct l5_sock *l5);
	void (*arm_tx)(struct l5_sock *l5, u32 low);
	void (*fin)(struct l5_conn *conn, int end);
	bool (*lost)(const struct l5_sock *l5);
	bool (*rx_over)(const struct l5_sock *l5);
	bool (*end_visible)(const struct l5_sock *l5);
	int (*rx_end)(struct l5_sock *l5);
	void (*boot_changed)(struct l5_sock *l5);
	bool (*peer_released)(const struct l5_sock *l5);
	u32 (*mailbox)(const struct l5_sock *l5);
	void (*free)(struct l5_conn *conn);
};

/* For each message: most are of one host. */
static inline void l5_link_published(struct l5_conn *conn, int end)
{
	INDIRECT_CALL_1(conn->link->published, l5_shm_published, conn, end);
}

static inline void l5_link_freed(struct l5_sock *l5)
{
	INDIRECT_CALL_1(l5->conn->link->freed, l5_shm_freed, l5);
}

/* Ring the doorbell of @end if it asks for it, L5_BELL_*. Context: process. */
static inline void l5_link_ring(struct l5_conn *conn, int end, int bells)
{
	conn->link->ring(conn, end, bells);
}

/* Say that this end is about to sleep until there is something to read. */
static inline void l5_link_arm_rx(struct l5_sock *l5)
{
	l5_wait_arm(&l5_own(l5)->ctrl->rx_wait);
	if (l5->conn->link->arm_rx)
		l5->conn->link->arm_rx(l5);
}

/* Say that this end is about to sleep until there is room. */
static inline void l5_link_arm_tx(struct l5_sock *l5)
{
	l5_wait_arm(&l5_own(l5)->ctrl->tx_wait);
	l5_ring_full(l5);
	if (l5->conn->link->arm_tx)
		l5->conn->link->arm_tx(l5, l5_room_low(l5_ring_extent(l5)));
}

static inline bool l5_link_lost(const struct l5_sock *l5)
{
	const struct l5_link_ops *link = l5->conn->link;

	return link->lost && link->lost(l5);
}

static inline bool l5_link_rx_over(const struct l5_sock *l5)
{
	const struct l5_link_ops *link = l5->conn->link;

	return link->rx_over && link->rx_over(l5);
}

static inline bool l5_link_end_visible(const struct l5_sock *l5)
{
	const struct l5_link_ops *link = l5->conn->link;

	return !link->end_visible || link->end_visible(l5);
}

static inline int l5_link_rx_end(struct l5_sock *l5)
{
	const struct l5_link_ops *link = l5->conn->link;

	return link->rx_end ? link->rx_end(l5) : 0;
}

static inline void l5_link_boot_changed(struct l5_sock *l5)
{
	if (l5->conn->link->boot_changed)
		l5->conn->link->boot_changed(l5);
}

static inline bool l5_link_peer_released(const struct l5_sock *l5)
{
	const struct l5_link_ops *link = l5->conn->link;

	return link->peer_released && link->peer_released(l5);
}

#endif /* L5_LINK_H */
