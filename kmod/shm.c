// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: the link of two ends on one host. Both have the same memory, so there
 * is nothing to keep alike. All that is to be done is to wake a peer that said
 * that it may sleep. The bootstrap says the end of the stream, after the last
 * record.
 */
#include "end.h"
#include "link.h"
#include "netns.h"
#include "shm.h"

/**
 * l5_shm_published() - a record was published: wake a reader that waits
 * @conn: the connection
 * @end: the end that wrote it
 *
 * Context: process.
 */
void l5_shm_published(struct l5_conn *conn, int end)
{
	struct l5_end *peer = &conn->end[!end];

	if (l5_wait_armed(&peer->ctrl->rx_wait) || l5_end_async(peer))
		l5_bell(peer, &peer->ctrl->rx_wait, false);
}

/**
 * l5_shm_freed() - there is room: wake a writer that waits
 * @l5: the reader
 *
 * Context: process.
 */
void l5_shm_freed(struct l5_sock *l5)
{
	struct l5_end *own = l5_own(l5), *peer = l5_peer(l5);
	u32 size = READ_ONCE(peer->size);

	/* F, pairs with E */
	l5_mb();
	/* a writer of messages uses half of its ring, and one message more */
	if (l5_wants_room(peer->ctrl, own->cons.head,
			  peer->packets ? size / 2 : size))
		l5_bell(peer, &peer->ctrl->tx_wait, true);
}

static void l5_shm_ring(struct l5_conn *conn, int end, int bells)
{
	struct l5_end *e = &conn->end[end];

	if (bells & L5_BELL_DATA && l5_wait_armed(&e->ctrl->rx_wait))
		l5_bell(e, &e->ctrl->rx_wait, false);
	if (bells & L5_BELL_ROOM && l5_wait_armed(&e->ctrl->tx_wait))
		l5_bell(e, &e->ctrl->tx_wait, true);
}

static bool l5_shm_peer_released(const struct l5_sock *l5)
{
	return !rcu_access_pointer(l5_peer(l5)->sk);
}

const struct l5_link_ops l5_shm_link = {
	.transport	= L5_TRANSPORT_SHM,
	.name		= "shm",
	.stat		= L5_STAT_CONN_SHM,
	.drops		= true,
	.regions	= true,
	.published	= l5_shm_published,
	.freed		= l5_shm_freed,
	.ring		= l5_shm_ring,
	.peer_released	= l5_shm_peer_released,
};
