// SPDX-License-Identifier: GPL-2.0
/*
 * Bytes into a mapped end and out of it: see move.h.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <string.h>

#include "map.h"
#include "message.h"
#include "record.h"

static void l5_map_bytes(void *to, const void *from, size_t n)
{
	volatile uint8_t *t = to;
	const volatile uint8_t *f = from;

	while (n--)
		*t++ = *f++;
}

/* Both return false for what is no memory, see copy.h. */
static bool l5_map_copy_in(struct l5_map *m, uint64_t pos, const void *from,
			   size_t n)
{
	size_t at = pos & (m->tx_size - 1);
	size_t part = l5_map_span(at, n, m->tx_size);

	if (!L5_MAP_FLAT)
		return l5_copy_in(m->tx + at, from, n);
	l5_map_bytes(m->tx + at, from, part);
	if (part < n)
		l5_map_bytes(m->tx, (const uint8_t *)from + part, n - part);
	return true;
}

static bool l5_map_copy_out(struct l5_map *m, uint64_t pos, void *to, size_t n)
{
	size_t at = pos & (m->rx_size - 1);
	size_t part = l5_map_span(at, n, m->rx_size);

	if (!L5_MAP_FLAT)
		return l5_copy_out(&m->rx_walk, to, m->rx + at, n);
	l5_map_bytes(to, m->rx + at, part);
	if (part < n)
		l5_map_bytes((uint8_t *)to + part, m->rx, n - part);
	return true;
}

size_t l5_iov_total(const struct iovec *v, size_t n)
{
	size_t sum = 0, i;

	for (i = 0; i < n; i++)
		if (__builtin_add_overflow(sum, v[i].iov_len, &sum))
			return SIZE_MAX / 2;
	return sum > SIZE_MAX / 2 ? SIZE_MAX / 2 : sum;
}

/* The next @n bytes at most that lie side by side. */
static size_t l5_iov_part(struct l5_iov *i, uint8_t **p, size_t n)
{
	size_t part;

	while (i->off == i->v->iov_len) {
		i->v++;
		i->off = 0;
	}
	part = i->v->iov_len - i->off;
	if (part > n)
		part = n;
	*p = (uint8_t *)i->v->iov_base + i->off;
	i->off += part;
	return part;
}

bool l5_map_backed(struct l5_map *m, int fd, struct l5_prod *prod, uint32_t len)
{
	uint32_t need = l5_rec_size(len) + L5_HDR;

	if (l5_likely(l5_prod_used(prod) + need <= l5_map_extent(m)))
		return true;
	/* a lie is found in the system call */
	if (l5_prod_look(prod, m->peer) < 0)
		return false;
	need += l5_prod_used(prod);
	if (need > l5_map_extent(m) && m->ops->room)
		m->ops->room(m, fd, need);
	return need <= l5_map_extent(m);
}

/* How long may a record be by the memory that there is? */
static int l5_map_clip(const struct l5_map *m, const struct l5_prod *prod,
		       int len)
{
	int room = (int)(l5_map_extent(m) - l5_prod_used(prod)) - 2 * L5_HDR;

	return room < len ? (room > 0 ? room : 0) : len;
}

/*
 * Room for a record: as l5_room_claim(), and no more than there is memory for.
 * L5_TRY_ROOM: the kernel could not be asked for more, and send() may get it.
 */
static int l5_map_room(struct l5_map *m, int fd, struct l5_prod *prod,
		       size_t want, uint32_t most)
{
	int len = l5_room_claim(prod, m->peer, want < most ? want : most,
				l5_map_most(m));

	if (len < 0)
		return L5_TRY_BROKEN;
	if (!len || l5_map_backed(m, fd, prod, len))
		return len;
	/* a kernel that was asked has said that there is no more */
	if (l5_map_extent(m) < l5_map_most(m))
		return L5_TRY_ROOM;
	return l5_map_clip(m, prod, len);
}

bool l5_map_fill(struct l5_map *m, uint64_t tail, struct l5_iov *i, size_t len)
{
	uint64_t pos = tail + L5_HDR;
	size_t line = L5_LINE - (pos & (L5_LINE - 1));
	size_t part;
	uint8_t *p;

	while (len) {
		part = l5_iov_part(i, &p, len);
		if (pos == tail + L5_HDR && part > line) {
			if (!l5_map_copy_in(m, pos + line, p + line,
					    part - line) ||
			    !l5_map_copy_in(m, pos, p, line))
				return false;
		} else if (!l5_map_copy_in(m, pos, p, part)) {
			return false;
		}
		pos += part;
		len -= part;
	}
	return true;
}

void l5_map_put_record(struct l5_map *m, struct l5_prod *prod, size_t len)
{
	uint64_t tail = prod->tail;

	l5_store(&m->own->tx_bytes, l5_load(&m->own->tx_bytes) + len);
	l5_prod_publish(prod, m->own, l5_map_tx_slot(m, tail),
			l5_map_tx_slot(m, tail + l5_rec_size(len)), len);
}

static ssize_t l5_map_send_at(struct l5_map *m, int fd, const struct iovec *iov,
			      size_t n, uintptr_t frame)
{
	size_t total = l5_iov_total(iov, n), done = 0;
	struct l5_iov i = { .v = iov, .n = n };
	struct l5_guard g = { .frame = frame };
	ssize_t ret;
	int len;

	if (m->messages)
		return l5_message_send(m, fd, iov, n, frame);
	if (!total || l5_load(&m->state->flags) & L5_MAP_TX_STOP)
		return L5_TRY_ASK;
	ret = l5_map_lock(m, fd, L5_LOCK_TX, &g);
	if (ret)
		return ret;
	ret = L5_TRY_AGAIN;
	while (done < total) {
		if (l5_load(&m->state->flags) & L5_MAP_TX_STOP) {
			ret = L5_TRY_ASK;
			break;
		}
		if (done) {
			/* F, pairs with E */
			l5_mb();
			l5_map_published(m, fd);
		}
		len = l5_map_room(m, fd, &g.prod, total - done, L5_PIECE);
		if (len <= 0) {
			if (len < 0)
				ret = len;
			break;
		}
		if (!l5_map_fill(m, g.prod.tail, &i, len)) {
			ret = L5_TRY_ASK;
			break;
		}
		l5_map_put_record(m, &g.prod, len);
		done += len;
	}
	l5_map_leave(m, L5_LOCK_TX, &g);
	l5_map_unlock(m, fd, L5_LOCK_TX, &g);
	if (done)
		l5_map_published(m, fd);
	if (ret == L5_TRY_BROKEN)
		ret = l5_map_broken(m, fd);
	return done ? (ssize_t)done : ret;
}

ssize_t l5_map_trysend(struct l5_map *m, int fd, const struct iovec *iov,
		       size_t n)
{
	return l5_map_send_at(m, fd, iov, n, l5_frame());
}

bool l5_map_drain(struct l5_map *m, struct l5_iov *i, uint64_t pos, size_t len)
{
	size_t part;
	uint8_t *p;

	while (len) {
		part = l5_iov_part(i, &p, len);
		if (!l5_map_copy_out(m, pos, p, part))
			return false;
		pos += part;
		len -= part;
	}
	return true;
}

/*
 * The record that a stream goes on with: as l5_cons_peek(). One that
 * descriptors ride with is the kernel's to take, however much of it was taken.
 */
static int l5_map_payload(struct l5_map *m, struct l5_cons *c)
{
	int ret;

	do
		ret = l5_cons_skip(c, m->own, l5_map_rx_slot(m, c->head));
	while (ret == 2);
	return ret;
}

/* Over published records without taking them, at most once around. */
static size_t l5_map_look(struct l5_map *m, struct l5_cons *cons,
			  struct l5_iov *i, size_t total, int *err)
{
	size_t done = 0, part;
	struct l5_cons c;
	uint64_t start;

	*err = l5_map_payload(m, cons);
	if (*err <= 0 || cons->files)
		return 0;
	c = *cons;
	start = c.head;
	do {
		*err = l5_cons_peek(&c, l5_map_rx_slot(m, c.head));
		if (*err <= 0 || c.files)
			break;
		part = c.len - c.off;
		if (part > total - done)
			part = total - done;
		if (!l5_map_drain(m, i, c.head + L5_HDR + c.off, part) ||
		    l5_map_gone(m))
			break;
		done += part;
	} while (done < total && l5_chain_step(&c, start));
	return done;
}

static size_t l5_map_take(struct l5_map *m, int fd, struct l5_cons *c,
			  struct l5_iov *i, size_t total, int *err)
{
	size_t done = 0, part, freed = 0;

	while (done < total) {
		*err = l5_map_payload(m, c);
		if (*err <= 0 || c->files)
			break;
		part = c->len - c->off;
		if (part > total - done)
			part = total - done;
		if (!l5_map_drain(m, i, c->head + L5_HDR + c->off, part) ||
		    l5_map_gone(m))
			break;
		l5_store(&m->own->rx_bytes, l5_load(&m->own->rx_bytes) + part);
		freed += l5_cons_take(c, m->own, part);
		done += part;
		if (l5_room_tell(freed, m->rx_size) && done < total) {
			/* F, pairs with E */
			l5_mb();
			l5_map_freed(m, fd, c->head);
			freed = 0;
		}
	}
	return done;
}

static ssize_t l5_map_recv_at(struct l5_map *m, int fd, const struct iovec *iov,
			      size_t n, int flags, uintptr_t frame)
{
	struct l5_iov i = { .v = iov, .n = n };
	size_t total = l5_iov_total(iov, n), done;
	struct l5_guard g = { .frame = frame };
	unsigned int ready;
	ssize_t nothing;
	uint64_t head;
	int err = 0;

	if (m->messages)
		return l5_message_recv(m, fd, iov, n, flags, frame);
	if (!total || l5_load(&m->state->flags) & L5_MAP_LEAVE)
		return L5_TRY_ASK;
	ready = l5_map_ready(m, L5_READY_IN);
	nothing = ready & L5_READY_ASK_IN ? L5_TRY_ASK : L5_TRY_AGAIN;
	if (!(ready & L5_READY_IN))
		return nothing;
	err = l5_map_lock(m, fd, L5_LOCK_RX, &g);
	if (err)
		return err;
	if (flags & L5_TRY_PEEK)
		done = l5_map_look(m, &g.cons, &i, total, &err);
	else
		done = l5_map_take(m, fd, &g.cons, &i, total, &err);
	head = g.cons.head;
	l5_map_leave(m, L5_LOCK_RX, &g);
	l5_map_unlock(m, fd, L5_LOCK_RX, &g);
	if (done && !(flags & L5_TRY_PEEK))
		l5_map_freed(m, fd, head);
	if (done)
		return done;
	if (err < 0)
		return l5_map_broken(m, fd);
	return err ? L5_TRY_ASK : nothing;
}

ssize_t l5_map_tryrecv(struct l5_map *m, int fd, const struct iovec *iov,
		       size_t n, int flags)
{
	return l5_map_recv_at(m, fd, iov, n, flags, l5_frame());
}

uint64_t l5_map_rx_end(const struct l5_map *m, uint64_t from)
{
	/* records that fit, and a few that were read meanwhile */
	uint32_t left = m->rx_size / (2 * L5_HDR) + L5_LOOKS;
	uint64_t head, pos, hdr;

	if (!l5_map_far(m))
		return l5_load(&m->peer->tx_tail);
	head = l5_load(&m->own->rx_head);
	pos = l5_chain_from(from, head, m->rx_size);
	while (pos - head <= m->rx_size && left--) {
		hdr = l5_map_glance(l5_map_rx_slot(m, pos));
		/* what others have read meanwhile may be written over */
		head = l5_load(&m->own->rx_head);
		if (pos - head > m->rx_size) {
			pos = head;
			continue;
		}
		if (!l5_rec_valid(m->rx_size, hdr))
			break;
		pos += l5_rec_size((__u32)hdr);
	}
	return pos;
}

/* What the inline paths leave to do */

ssize_t l5_map_send1_slow(struct l5_map *m, int fd, const void *buf, size_t len,
			  uintptr_t frame, bool entered)
{
	struct iovec iov = { .iov_base = (void *)buf, .iov_len = len };

	if (entered && l5_leave(&m->own->tx_lock, frame))
		m->ops->lock_wake(m, fd, L5_LOCK_TX);
	return l5_map_send_at(m, fd, &iov, 1, frame);
}

ssize_t l5_map_recv1_slow(struct l5_map *m, int fd, void *buf, size_t len,
			  uintptr_t frame, bool entered)
{
	struct iovec iov = { .iov_base = buf, .iov_len = len };

	if (entered && l5_leave(&m->own->rx_lock, frame))
		m->ops->lock_wake(m, fd, L5_LOCK_RX);
	return l5_map_recv_at(m, fd, &iov, 1, 0, frame);
}

ssize_t l5_map_sent(struct l5_map *m, int fd, size_t n, __u32 waiters)
{
	if (waiters)
		m->ops->lock_wake(m, fd, L5_LOCK_TX);
	l5_map_published(m, fd);
	return n;
}

ssize_t l5_map_received(struct l5_map *m, int fd, size_t n, __u32 waiters)
{
	if (waiters)
		m->ops->lock_wake(m, fd, L5_LOCK_RX);
	l5_map_freed(m, fd, l5_load(&m->own->rx_head));
	return n;
}

/* Zero copy */

void l5_map_keep(struct l5_map *m, unsigned int which, struct l5_guard *g)
{
	l5_map_leave(m, which, g);
	l5_store(&m->keeper[which], (const void *)&l5_held);
	l5_unhold(g->held);
}

/* And take it back. */
static void l5_map_unkeep(struct l5_map *m, int fd, unsigned int which)
{
	struct l5_guard g = { .frame = l5_frame() };
	__u32 waiters;

	g.held = l5_hold(m->key + which, g.frame);
	if (g.held)
		g.held->frame = g.frame | 1;
	l5_signal_fence();
	l5_store(&m->keeper[which], NULL);
	if (g.held) {
		l5_map_unlock(m, fd, which, &g);
		return;
	}
	/* more nested calls than can be noted */
	waiters = l5_unlock(l5_map_word(m, which));
	if (waiters)
		m->ops->lock_wake(m, fd, which);
}

ssize_t l5_map_reserve(struct l5_map *m, int fd, void **p, size_t want)
{
	struct l5_guard g = { .frame = l5_frame() };
	uint32_t most;
	ssize_t ret;
	size_t at;

	if (!want)
		return L5_TRY_ASK;
	if (m->messages)
		return l5_message_reserve(m, fd, p, want, g.frame);
	ret = l5_map_lock(m, fd, L5_LOCK_TX, &g);
	if (ret)
		return ret;
	ret = L5_TRY_ASK;
	if (!(l5_load(&m->state->flags) & L5_MAP_TX_STOP)) {
		most = l5_map_most(m) / 2;
		/* the kernel may send to another host record by record */
		if (most > L5_PIECE && l5_map_far(m))
			most = L5_PIECE;
		ret = l5_map_room(m, fd, &g.prod, want, most);
		/* less will do */
		if (ret == L5_TRY_ROOM)
			ret = l5_map_clip(m, &g.prod,
					  want < most ? want : most);
		if (!ret)
			ret = L5_TRY_AGAIN;
	}
	if (ret > 0) {
		at = (g.prod.tail + L5_HDR) & (m->tx_size - 1);
		*p = m->tx + at;
		l5_map_keep(m, L5_LOCK_TX, &g);
		return l5_map_span(at, ret, m->tx_size);
	}
	l5_map_unlock(m, fd, L5_LOCK_TX, &g);
	return ret == L5_TRY_BROKEN ? l5_map_broken(m, fd) : ret;
}

void l5_map_commit(struct l5_map *m, int fd, size_t len)
{
	if (len)
		l5_map_put_record(m, &m->prod, len);
	l5_map_unkeep(m, fd, L5_LOCK_TX);
	if (len)
		l5_map_published(m, fd);
}

ssize_t l5_map_peek(struct l5_map *m, int fd, const void **p)
{
	struct l5_guard g = { .frame = l5_frame() };
	unsigned int ready;
	ssize_t ret;
	size_t at;
	int err;

	if (m->messages)
		return l5_message_peek(m, fd, p, g.frame);
	if (l5_load(&m->state->flags) & L5_MAP_LEAVE)
		return L5_TRY_ASK;
	ready = l5_map_ready(m, L5_READY_IN);
	ret = ready & L5_READY_ASK_IN ? L5_TRY_ASK : L5_TRY_AGAIN;
	if (!(ready & L5_READY_IN))
		return ret;
	err = l5_map_lock(m, fd, L5_LOCK_RX, &g);
	if (err)
		return err;
	err = l5_map_payload(m, &g.cons);
	if (err > 0 && !g.cons.files) {
		at = (g.cons.head + L5_HDR + g.cons.off) & (m->rx_size - 1);
		*p = m->rx + at;
		ret = l5_map_span(at, g.cons.len - g.cons.off, m->rx_size);
		l5_map_keep(m, L5_LOCK_RX, &g);
		return ret;
	}
	l5_map_unlock(m, fd, L5_LOCK_RX, &g);
	if (err > 0)
		return L5_TRY_ASK;
	return err ? l5_map_broken(m, fd) : ret;
}

void l5_map_release(struct l5_map *m, int fd, size_t len)
{
	uint64_t head;

	if (len && m->messages)
		len = m->cons.len;
	if (len) {
		l5_store(&m->own->rx_bytes, l5_load(&m->own->rx_bytes) + len);
		l5_cons_take(&m->cons, m->own, len);
	}
	head = m->cons.head;
	l5_map_unkeep(m, fd, L5_LOCK_RX);
	if (len)
		l5_map_freed(m, fd, head);
}
