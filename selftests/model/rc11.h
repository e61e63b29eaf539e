/* SPDX-License-Identifier: GPL-2.0 */
/*
 * For ring_publish.c and ring_wake.c, which are the ring of uapi/l5_ring.h as
 * it is, not a model of it: GenMC tries all that a memory model allows their
 * threads to see (-DGENMC). Without it they are programs that go round and
 * round, for ThreadSanitizer.
 */
#ifndef RC11_H
#define RC11_H

#include <assert.h>
#include <pthread.h>
#include <stddef.h>
#include <linux/types.h>

#ifdef GENMC
void __VERIFIER_assume(int);

/* A wait in vain for ever is no error, but the end of that execution. */
#define AWAIT(cond)	__VERIFIER_assume(!!(cond))
#define TURNS		1
#else
#include <sched.h>

#define AWAIT(cond)	do { while (!(cond)) sched_yield(); } while (0)
#define TURNS		2000
#endif

/*
 * The exchange of a processor that needs a barrier behind it, since the models
 * know no x86. System headers, which ask the same, are all in by now.
 */
#ifdef PORTABLE
#undef __x86_64__
#undef __i386__
#endif
#include "l5_ring.h"

/* Each word is at some time a header, payload, and the end of the chain. */
enum { WORDS = 5, PAYLOAD = sizeof(__u64) };

static __u64 word[WORDS];
static struct l5_ctrl writer, reader;	/* control pages */

static inline __u64 *slot(__u64 pos)
{
	return &word[pos / sizeof(__u64) % WORDS];
}

/* Looks at the reader's head only if it knows of no room. */
static inline int room(struct l5_prod *p)
{
	if (l5_prod_room(p) >= PAYLOAD)
		return 1;
	assert(!l5_prod_look(p, &reader));
	return l5_prod_room(p) >= PAYLOAD;
}

/* There is room. The payload is a plain store: a race is an error. */
static inline void put(struct l5_prod *p, __u64 n)
{
	*slot(p->tail + L5_HDR) = n;
	l5_prod_publish(p, &writer, slot(p->tail),
			slot(p->tail + l5_rec_size(PAYLOAD)), PAYLOAD);
}

/* A record, if there is one: it is number @n. */
static inline int get(struct l5_cons *c, __u64 n)
{
	int ret = l5_cons_peek(c, slot(c->head));

	if (!ret)
		return 0;
	assert(ret == 1 && c->len == PAYLOAD);
	assert(*slot(c->head + L5_HDR) == n);
	l5_cons_take(c, &reader, PAYLOAD);
	return 1;
}

static inline void run(void *(*one)(void *), void *(*other)(void *),
		       void (*begin)(void), void (*end)(void))
{
	pthread_t a, b;

	for (int i = 0; i < TURNS; i++) {
		begin();
		assert(!pthread_create(&a, NULL, one, NULL));
		assert(!pthread_create(&b, NULL, other, NULL));
		pthread_join(a, NULL);
		pthread_join(b, NULL);
		end();
	}
}

static inline void empty(void)
{
	for (int i = 0; i < WORDS; i++)
		word[i] = 0;
	writer = (struct l5_ctrl){ };
	reader = (struct l5_ctrl){ };
}

#endif /* RC11_H */
