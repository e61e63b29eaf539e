// SPDX-License-Identifier: GPL-2.0
/*
 * Messages into a mapped end and out of it: see message.h.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>

#include "message.h"
#include "move.h"
#include "record.h"

/* Is no more than half of the ring in use? As l5_ring_takes() in the kernel. */
static int l5_message_room(struct l5_map *m, int fd, struct l5_prod *prod,
			   uint32_t len)
{
	uint32_t half = l5_map_most(m) / 2;

	if (l5_prod_used(prod) > half) {
		if (l5_prod_look(prod, m->peer) < 0)
			return L5_TRY_BROKEN;
		if (l5_prod_used(prod) > half)
			return L5_TRY_AGAIN;
	}
	/* of memory that is not to be had the kernel knows more */
	return l5_map_backed(m, fd, prod, len) ? 0 : L5_TRY_ROOM;
}

/* With the lock word: a place for a message, or why there is none. */
static int l5_message_place(struct l5_map *m, int fd, struct l5_prod *prod,
			    uint32_t len)
{
	if (l5_load(&m->state->flags) & L5_MAP_TX_STOP)
		return L5_TRY_ASK;
	return l5_message_room(m, fd, prod, len);
}

ssize_t l5_message_send(struct l5_map *m, int fd, const struct iovec *iov,
			size_t n, uintptr_t frame)
{
	struct l5_iov i = { .v = iov, .n = n };
	struct l5_guard g = { .frame = frame };
	size_t len = l5_iov_total(iov, n);
	int ret;

	if (!len || len > l5_message_max(m))
		return L5_TRY_ASK;
	ret = l5_map_lock(m, fd, L5_LOCK_TX, &g);
	if (ret)
		return ret;
	ret = l5_message_place(m, fd, &g.prod, len);
	if (!ret && !l5_map_fill(m, g.prod.tail, &i, len))
		ret = L5_TRY_ASK;
	if (!ret)
		l5_map_put_record(m, &g.prod, len);
	l5_map_leave(m, L5_LOCK_TX, &g);
	l5_map_unlock(m, fd, L5_LOCK_TX, &g);
	if (ret)
		return ret == L5_TRY_BROKEN ? l5_map_broken(m, fd) : ret;
	l5_map_published(m, fd);
	return len;
}

/*
 * With the lock word: the message at the cursors, if it is one that this side
 * can take.
 *
 * Return: 1, or L5_TRY_*.
 */
static int l5_message_next(struct l5_map *m, struct l5_cons *c)
{
	int ret = l5_cons_peek(c, l5_map_rx_slot(m, c->head));

	if (ret < 0)
		return L5_TRY_BROKEN;
	if (!ret)
		return L5_TRY_AGAIN;
	/* a process that shares the end may say that it took a part */
	return c->len && !c->files && !c->off ? 1 : L5_TRY_ASK;
}

/* Without it: is there anything to take it for? */
static int l5_message_look(struct l5_map *m)
{
	unsigned int ready = l5_map_ready(m, L5_READY_IN);

	if (ready & L5_READY_ASK_IN)
		return L5_TRY_ASK;
	return ready & L5_READY_IN ? 0 : L5_TRY_AGAIN;
}

static void l5_message_take(struct l5_map *m, struct l5_cons *c)
{
	uint32_t len = c->len;

	l5_store(&m->own->rx_bytes, l5_load(&m->own->rx_bytes) + len);
	l5_cons_take(c, m->own, len);
}

ssize_t l5_message_recv(struct l5_map *m, int fd, const struct iovec *iov,
			size_t n, int flags, uintptr_t frame)
{
	struct l5_iov i = { .v = iov, .n = n };
	struct l5_guard g = { .frame = frame };
	size_t room = l5_iov_total(iov, n);
	bool take = !(flags & L5_TRY_PEEK);
	ssize_t ret;

	if (!room)
		return L5_TRY_ASK;
	ret = l5_message_look(m) ?: l5_map_lock(m, fd, L5_LOCK_RX, &g);
	if (ret)
		return ret;
	ret = l5_message_next(m, &g.cons);
	if (ret > 0) {
		ret = g.cons.len < room ? g.cons.len : room;
		if (!l5_map_drain(m, &i, g.cons.head + L5_HDR, ret) ||
		    l5_map_gone(m))
			ret = L5_TRY_ASK;
		else if (take)
			l5_message_take(m, &g.cons);
	}
	l5_map_leave(m, L5_LOCK_RX, &g);
	l5_map_unlock(m, fd, L5_LOCK_RX, &g);
	if (ret > 0 && take)
		l5_map_freed(m, fd, g.cons.head);
	return ret == L5_TRY_BROKEN ? l5_map_broken(m, fd) : ret;
}

ssize_t l5_message_reserve(struct l5_map *m, int fd, void **p, size_t want,
			   uintptr_t frame)
{
	struct l5_guard g = { .frame = frame };
	ssize_t ret;
	size_t at;

	if (want > l5_message_max(m))
		return -EMSGSIZE;
	ret = l5_map_lock(m, fd, L5_LOCK_TX, &g);
	if (ret)
		return ret;
	ret = l5_message_place(m, fd, &g.prod, want);
	at = (g.prod.tail + L5_HDR) & (m->tx_size - 1);
	if (!ret && l5_map_span(at, want, m->tx_size) == want) {
		*p = m->tx + at;
		l5_map_keep(m, L5_LOCK_TX, &g);
		return want;
	}
	l5_map_unlock(m, fd, L5_LOCK_TX, &g);
	if (ret == L5_TRY_BROKEN)
		return l5_map_broken(m, fd);
	/* the caller's own memory will do, and the kernel finds room for it */
	return !ret || ret == L5_TRY_ROOM ? L5_TRY_ASK : ret;
}

ssize_t l5_message_peek(struct l5_map *m, int fd, const void **p,
			uintptr_t frame)
{
	struct l5_guard g = { .frame = frame };
	ssize_t ret;
	size_t at;

	ret = l5_message_look(m) ?: l5_map_lock(m, fd, L5_LOCK_RX, &g);
	if (ret)
		return ret;
	ret = l5_message_next(m, &g.cons);
	at = (g.cons.head + L5_HDR) & (m->rx_size - 1);
	if (ret > 0 && l5_map_span(at, g.cons.len, m->rx_size) == g.cons.len) {
		*p = m->rx + at;
		ret = g.cons.len;
		l5_map_keep(m, L5_LOCK_RX, &g);
		return ret;
	}
	l5_map_unlock(m, fd, L5_LOCK_RX, &g);
	if (ret == L5_TRY_BROKEN)
		return l5_map_broken(m, fd);
	return ret > 0 ? L5_TRY_ASK : ret;
}
