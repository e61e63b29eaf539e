// SPDX-License-Identifier: GPL-2.0
/* What a program so far has probably made, and words that fit. */
#include <string.h>
#include <sys/epoll.h>
#include <sys/poll.h>
#include <sys/socket.h>

#include "gen.h"

uint32_t pick(struct model *m, uint32_t n)
{
	return fz_below(m->r, n);
}

bool once(struct model *m, uint32_t n)
{
	return fz_once_in(m->r, n);
}

/* A slot that has one of @kinds, if there is any. */
uint8_t slot(struct model *m, unsigned int kinds)
{
	uint32_t i, from = pick(m, FZ_SLOTS);

	if (once(m, 25))
		return from;
	if (!once(m, 3) && m->has[m->last] & kinds)
		return m->last;
	for (i = 0; i < FZ_SLOTS; i++)
		if (m->has[(from + i) % FZ_SLOTS] & kinds)
			return (from + i) % FZ_SLOTS;
	return from;
}

bool any(const struct model *m, unsigned int kinds)
{
	int i;

	for (i = 0; i < FZ_SLOTS; i++)
		if (m->has[i] & kinds)
			return true;
	return false;
}

uint8_t map_slot(struct model *m)
{
	uint32_t i, from = pick(m, FZ_MAPS);

	for (i = 0; i < FZ_MAPS; i++)
		if (m->mapped[(from + i) % FZ_MAPS])
			return (from + i) % FZ_MAPS;
	return from;
}

void map_put(struct model *m, uint32_t i, uint8_t s)
{
	m->mapped[i % FZ_MAPS] = true;
	m->mapped_of[i % FZ_MAPS] = s % FZ_SLOTS;
}

/* What is in the rings is another: readers and writers there are to see it. */
void scribbled(struct model *m, uint8_t map)
{
	uint8_t s = m->mapped_of[map % FZ_MAPS], peer = m->peer[s];

	if (!m->mapped[map % FZ_MAPS])
		return;
	m->last = s;
	if (peer >= FZ_SLOTS)
		return;
	m->queued[peer] = true;
	if (once(m, 2))
		m->last = peer;
}

uint32_t some_of(struct model *m, const uint32_t *bits, uint32_t n,
		 uint32_t one_in)
{
	uint32_t i, v = 0;

	for (i = 0; i < n; i++)
		if (once(m, one_in))
			v |= bits[i];
	return v;
}

uint32_t some_len(struct model *m)
{
	static const uint32_t len[] = {
		0, 1, 2, 7, 8, 9, 64, 100, 1000, 2040, 4072, 4080, 4088, 4096,
		4097, 8192, 16384, 65528, 65536, 65537, 131072, 262144, 262160,
		300000, 1 << 20,
	};

	/* small ones most: they cost little, and rings are full of them */
	if (once(m, 3))
		return pick(m, 600);
	return len[pick(m, once(m, 4) ? ARRAY_SIZE(len) : 14)];
}

uint32_t some_addr(struct model *m, unsigned int proto)
{
	static const uint8_t v4[] = {
		FZ_V4_1, FZ_V4_1, FZ_V4_2, FZ_V4_3, FZ_V4_ANY, FZ_V4_PORT0,
		FZ_V4_FAR, FZ_V4_NEAR, FZ_V4_OTHER,
	};
	static const uint8_t v6[] = {
		FZ_V6_1, FZ_V6_1, FZ_V6_2, FZ_V6_ANY, FZ_V6_PORT0, FZ_MAPPED_1,
		FZ_MAPPED_2,
	};
	static const uint8_t un[] = {
		FZ_ABSTRACT_1, FZ_ABSTRACT_1, FZ_ABSTRACT_2, FZ_ABSTRACT_3,
		FZ_PATH_1, FZ_PATH_2, FZ_AUTOBIND,
	};

	if (once(m, 15))
		return pick(m, FZ_ADDRS);
	switch (proto) {
	case 0:
		return v4[pick(m, ARRAY_SIZE(v4))];
	case 1:
		return v6[pick(m, ARRAY_SIZE(v6))];
	default:
		return un[pick(m, ARRAY_SIZE(un))];
	}
}

unsigned int proto_of(uint32_t addr)
{
	if (addr < FZ_V6_1)
		return 0;
	return addr < FZ_ABSTRACT_1 ? 1 : 2;
}

uint32_t some_length(struct model *m)
{
	return once(m, 10) ? pick(m, FZ_LENS) : FZ_LEN_RIGHT;
}

void put(struct model *m, uint8_t s, uint8_t has, uint8_t proto)
{
	if (s >= FZ_SLOTS)
		return;
	m->has[s] = has;
	m->proto[s] = proto;
	m->peer[s] = FZ_SLOTS;
	m->queued[s] = false;
	m->pending[s] = 0;
	m->last = s;
}

void meet(struct model *m, uint8_t s, uint8_t t)
{
	m->peer[s] = t;
	m->peer[t] = s;
}

uint32_t where_is(struct model *m, uint8_t l)
{
	static const uint8_t of[] = { FZ_OF_V4, FZ_OF_V6, FZ_OF_UNIX };

	if (once(m, 12))
		return some_addr(m, m->proto[l]);
	return m->addr[l] && once(m, 4) ? m->addr[l] : of[m->proto[l] % 3];
}

/* Where the listener may be reached, if it is at all. */
void dialled(struct model *m, uint8_t s, uint8_t l)
{
	m->peer[s] = l;
	if (m->has[l] & HAS_LISTEN) {
		m->pending[l]++;
		/* the listener is likely to accept it then */
		m->last = l;
	}
}

/* @t is the other end of the first socket that dialled. */
void accepted(struct model *m, uint8_t l, uint8_t t)
{
	uint8_t s;

	/* without one there is likely nothing in there */
	if (!m->pending[l])
		return;
	put(m, t, HAS_CONN, m->proto[l]);
	m->pending[l]--;
	for (s = 0; s < FZ_SLOTS; s++)
		if (s != t && m->has[s] & HAS_CONN && m->peer[s] == l) {
			meet(m, s, t);
			break;
		}
}

void model_new(struct model *m, struct fz_rnd *r)
{
	memset(m, 0, sizeof(*m));
	m->r = r;
	memset(m->has, HAS_NONE, sizeof(m->has));
	memset(m->peer, FZ_SLOTS, sizeof(m->peer));
}

/* After calls that came from elsewhere: what would they have made? */
void model_follow(struct model *m, const struct fz_prog *p, uint32_t n)
{
	uint32_t i;
	int k;

	for (i = 0; i < n; i++) {
		const struct fz_call *c = &p->call[i];
		uint8_t s = c->s % FZ_SLOTS, t = c->t % FZ_SLOTS;

		switch (c->op) {
		case FZ_SOCKET:
			put(m, t, HAS_IDLE, c->a % 3);
			break;
		case FZ_PAIR:
			put(m, s, HAS_CONN, proto_of(c->a));
			put(m, t, HAS_CONN, proto_of(c->a));
			meet(m, s, t);
			break;
		case FZ_BIND:
			m->addr[s] = c->a;
			break;
		case FZ_LISTEN:
		case FZ_RELISTEN:
			put(m, s, HAS_LISTEN, m->proto[s]);
			break;
		case FZ_LISTENER:
			put(m, t, HAS_LISTEN, proto_of(c->a));
			m->addr[t] = c->a;
			break;
		case FZ_DIAL:
			put(m, t, HAS_CONN, proto_of(c->a));
			dialled(m, t, s);
			break;
		case FZ_SEND:
			if (m->peer[s] < FZ_SLOTS)
				m->queued[m->peer[s]] = true;
			break;
		case FZ_CONNECT:
			put(m, s, HAS_CONN, m->proto[s]);
			break;
		case FZ_ACCEPT:
			accepted(m, s, t);
			break;
		case FZ_UNCONNECT:
			put(m, s, HAS_IDLE, m->proto[s]);
			break;
		case FZ_CLOSE:
			m->has[s] = HAS_NONE;
			break;
		case FZ_DUP:
			put(m, t, m->has[s], m->proto[s]);
			break;
		case FZ_EPOLL:
			put(m, t, HAS_EPOLL, 0);
			break;
		case FZ_MAP:
			for (k = 0; k < 5; k++)
				map_put(m, c->t + k, s);
			break;
		case FZ_MMAP:
			map_put(m, c->t, s);
			break;
		case FZ_SPAWN:
			m->lanes |= 1 << c->a % FZ_LANES;
			break;
		}
	}
}
