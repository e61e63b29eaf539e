// SPDX-License-Identifier: GPL-2.0
#include <errno.h>

#include "call.h"
#include "pool.h"
#include "words.h"

#define VALID	((uint64_t)L5_REC_VALID << 32)

static uint64_t own_word(const struct fz_view *v, bool head)
{
	if (!v->own)
		return 0;
	return l5_load(head ? &v->own->rx_head : &v->own->tx_tail);
}

static uint64_t peer_word(const struct fz_view *v, bool head)
{
	if (!v->peer)
		return 0;
	return l5_load(head ? &v->peer->rx_head : &v->peer->tx_tail);
}

static int64_t around(uint64_t chance)
{
	static const int64_t by[] = {
		0, 0, 8, -8, 16, 1, -1, 4096, -4096, 65536, 262144, -262144,
	};

	return by[(chance >> 8) % ARRAY_SIZE(by)];
}

static uint64_t word(const struct fz_view *v, uint32_t what, uint64_t chance)
{
	uint64_t some = chance >> 16, size = v->tx_len ? v->tx_len / 2 : 262144;

	switch (what % FZ_WORDS) {
	case FZ_WORD_0:
		return 0;
	case FZ_WORD_SMALL:
		return some % 64;
	case FZ_WORD_SIZE:
		return size + around(chance);
	case FZ_WORD_ONES:
		return -1ULL << some % 64;
	case FZ_WORD_BIT:
		return 1ULL << some % 64;
	case FZ_WORD_OWN_TAIL:
		return own_word(v, false) + around(chance);
	case FZ_WORD_OWN_HEAD:
		return own_word(v, true) + around(chance);
	case FZ_WORD_PEER_TAIL:
		return peer_word(v, false) + around(chance);
	case FZ_WORD_PEER_HEAD:
		return peer_word(v, true) + around(chance);
	case FZ_WORD_RECORD:
		return VALID | some % 1024;
	case FZ_WORD_LONG_RECORD:
		return VALID | ((size + around(chance)) & 0xffffffff);
	case FZ_WORD_FLAGGED:
		return VALID | 1ULL << (some % 32 + 6) | (some >> 8) % 64;
	case FZ_WORD_LOCK_KERNEL:
		return L5_LOCK_KERNEL | (some & 1 ? L5_LOCK_WAITERS : 0);
	case FZ_WORD_LOCK_DIED:
		return L5_LOCK_DIED | (some & 1 ? L5_LOCK_WAITERS : 0) |
		       (some & 2 ? 1 : 0);
	case FZ_WORD_LOCK_ID:
		return some % 4 | (some & 64 ? L5_LOCK_WAITERS : 0);
	default:
		return chance;
	}
}

static uint64_t *slot_at(struct fz_view *v, uint64_t pos)
{
	return (uint64_t *)(v->tx + (pos % v->tx_len & ~7ULL));
}

/* Where in the ring, or NULL */
static uint64_t *ring_at(struct fz_view *v, uint32_t where, uint64_t chance)
{
	if (!v->tx || !v->tx_len)
		return NULL;
	switch (where) {
	case FZ_AT_PEER_HEAD:
		return slot_at(v, peer_word(v, true));
	case FZ_AT_OWN_TAIL:
		return slot_at(v, own_word(v, false));
	case FZ_AT_NEAR:
		return slot_at(v, peer_word(v, true) + (chance >> 40) % 512);
	default:
		return slot_at(v, chance >> 20);
	}
}

/* A word of 64 bits, or NULL */
static uint64_t *long_at(struct fz_view *v, uint32_t where, uint64_t chance)
{
	struct l5_ctrl *c = v->own;

	if (where >= FZ_AT_PEER_HEAD)
		return ring_at(v, where, chance);
	if (!c)
		return NULL;
	switch (where) {
	case FZ_AT_TX_TAIL:
		return (uint64_t *)&c->tx_tail;
	case FZ_AT_TX_BYTES:
		return (uint64_t *)&c->tx_bytes;
	case FZ_AT_RX_HEAD:
		return (uint64_t *)&c->rx_head;
	case FZ_AT_RX_POS:
		return (uint64_t *)&c->rx_pos;
	case FZ_AT_RX_BYTES:
		return (uint64_t *)&c->rx_bytes;
	default:
		return NULL;
	}
}

/* One of 32, or NULL */
static uint32_t *short_at(struct fz_view *v, uint32_t where)
{
	struct l5_ctrl *c = v->own;

	if (!c)
		return NULL;
	switch (where) {
	case FZ_AT_RX_WAIT:
		return &c->rx_wait;
	case FZ_AT_TX_WAIT:
		return &c->tx_wait;
	case FZ_AT_TX_LOCK:
		return &c->tx_lock;
	case FZ_AT_RX_LOCK:
		return &c->rx_lock;
	default:
		return NULL;
	}
}

long fz_poke(struct fz_view *v, uint32_t where, uint32_t what, uint64_t chance,
	     const bool *stop)
{
	uint64_t w = word(v, what, chance), *l;
	uint32_t *s;

	where %= FZ_WHERES;
	l = long_at(v, where, chance);
	s = l ? NULL : short_at(v, where);
	if (!l && !s)
		return -EINVAL;
	do {
		if (l)
			l5_store_release(l, w);
		else
			l5_store(s, (uint32_t)w);
	} while (stop && !l5_load(stop));
	return 0;
}

long fz_flood(struct fz_view *v, uint32_t n, uint32_t len, bool on, bool empty)
{
	uint64_t pos = on ? own_word(v, false) : peer_word(v, true);
	uint32_t i;

	if (!v->own || !v->tx || !v->tx_len)
		return -EINVAL;
	if (empty) {
		l5_store_release(slot_at(v, pos), VALID);
		pos += l5_rec_size(0);
	}
	for (i = 0; i < n && i < 65536; i++) {
		l5_store_release(slot_at(v, pos), VALID | len);
		pos += l5_rec_size(len);
	}
	l5_store_release(&v->own->tx_tail, pos);
	return 0;
}
