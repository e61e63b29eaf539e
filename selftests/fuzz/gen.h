/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the grammar (gen.c) and the changes to its programs (mutate.c) go by: a
 * rough idea of what each slot holds (model.c).
 */
#ifndef FZ_GEN_H
#define FZ_GEN_H

#include "call.h"
#include "pool.h"

/* What a slot may hold, as a bit */
#define HAS_NONE	0x01
#define HAS_IDLE	0x02
#define HAS_LISTEN	0x04
#define HAS_CONN	0x08
#define HAS_PIPE	0x10
#define HAS_EPOLL	0x20
#define HAS_UNIX	0x40
#define HAS_SOCKET	(HAS_IDLE | HAS_LISTEN | HAS_CONN)
#define HAS_FD		(HAS_SOCKET | HAS_PIPE | HAS_EPOLL | HAS_UNIX)

/**
 * struct model - what the program so far has probably made
 * @r: chance
 * @has: of each slot, HAS_*
 * @proto: of the socket in each slot
 * @addr: that it is bound to, or connected with, of an &enum fz_addr
 * @mapped: a mapping is likely there
 * @mapped_of: of the end in that slot
 * @last: the slot that was used last: what comes next is about it, often
 * @fights: so many of the next calls may take a lock that is hammered at
 * @peer: the slot of the other end of a pair, or the listener that it dialled
 * @queued: there is something to read
 * @pending: connections that wait for accept()
 * @lanes: those that were spawned
 */
struct model {
	struct fz_rnd *r;
	uint8_t has[FZ_SLOTS];
	uint8_t proto[FZ_SLOTS];
	uint8_t addr[FZ_SLOTS];
	bool mapped[FZ_MAPS];
	uint8_t mapped_of[FZ_MAPS];
	uint8_t last;
	uint8_t fights;
	uint8_t peer[FZ_SLOTS];
	bool queued[FZ_SLOTS];
	uint8_t pending[FZ_SLOTS];
	uint8_t lanes;
};

uint32_t pick(struct model *m, uint32_t n);
bool once(struct model *m, uint32_t n);
uint8_t slot(struct model *m, unsigned int kinds);
bool any(const struct model *m, unsigned int kinds);
uint8_t map_slot(struct model *m);
void map_put(struct model *m, uint32_t i, uint8_t s);
void scribbled(struct model *m, uint8_t map);
uint32_t some_of(struct model *m, const uint32_t *bits, uint32_t n,
		 uint32_t one_in);
uint32_t some_len(struct model *m);
uint32_t some_addr(struct model *m, unsigned int proto);
unsigned int proto_of(uint32_t addr);
uint32_t some_length(struct model *m);
void put(struct model *m, uint8_t s, uint8_t has, uint8_t proto);
void meet(struct model *m, uint8_t s, uint8_t t);
uint32_t where_is(struct model *m, uint8_t l);
void dialled(struct model *m, uint8_t s, uint8_t l);
void accepted(struct model *m, uint8_t l, uint8_t t);
void model_new(struct model *m, struct fz_rnd *r);
void model_follow(struct model *m, const struct fz_prog *p, uint32_t n);

/* Make a call; or make up another set of words for the same one. */
void gen_call(struct model *m, struct fz_call *c, bool lanes);
void gen_words(struct model *m, struct fz_call *c);

#endif /* FZ_GEN_H */
