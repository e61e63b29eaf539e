// SPDX-License-Identifier: GPL-2.0
/*
 * The lock words of a mapped end, and the cursors that they guard: see held.h.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <unistd.h>
#include <sys/syscall.h>

#include "lock.h"
#include "map.h"

/* Looks at a lock word that is taken, before anything else. */
#define L5_TRIES	64

__thread struct l5_held_all l5_held
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Note it in the stack of words that handlers came upon; NULL if it is full. */
static struct l5_held *l5_hold_more(uint64_t key, uintptr_t frame)
{
	int i = l5_held.n;
	struct l5_held *h = &l5_held.more[i];

	if (i == L5_HELD_MORE)
		return NULL;
	l5_held.n = i + 1;
	l5_signal_fence();
	h->frame = frame;
	l5_signal_fence();
	h->key = key;
	l5_signal_fence();
	return h;
}

/* Entries of calls that siglongjmp() ended and that hold nothing for sure. */
static void l5_held_purge(uintptr_t frame)
{
	int i, n = 0;

	for (i = 0; i < l5_held.n; i++) {
		struct l5_held *h = &l5_held.more[i];

		if (h->key && !(h->frame & 1) &&
		    l5_frame_over(h->frame, frame))
			h->key = 0;
		if (h->key)
			n = i + 1;
	}
	l5_held.n = n;
}

/* Where this thread notes that it has a lock word, or will have. */
struct l5_held *l5_hold(uint64_t key, uintptr_t frame)
{
	struct l5_held *now = &l5_held.now;

	if (l5_unlikely(now->key) &&
	    l5_frame_over(now->frame & ~1ul, frame)) {
		/* the call was left, and may have left the word taken */
		if (!(now->frame & 1) || l5_hold_more(now->key, now->frame))
			now->key = 0;
	}
	if (l5_unlikely(now->key)) {
		if (l5_held.n == L5_HELD_MORE)
			l5_held_purge(frame);
		return l5_hold_more(key, frame);
	}
	now->frame = frame;
	l5_signal_fence();
	now->key = key;
	l5_signal_fence();
	/* again: a handler between the two left its own */
	now->frame = frame;
	l5_signal_fence();
	return now;
}

void l5_unhold(struct l5_held *h)
{
	l5_signal_fence();
	h->key = 0;
	l5_signal_fence();
	if (h == &l5_held.now)
		return;
	while (l5_held.n && !l5_held.more[l5_held.n - 1].key)
		l5_held.n--;
}

/*
 * What another entry of this thread says about a word that is taken: 2 if a
 * call took it that was left in the middle.
 */
static int l5_held_says(struct l5_held *h, const struct l5_guard *g)
{
	if (h == g->held || h->key != g->held->key)
		return 0;
	if (!l5_frame_over(h->frame & ~1ul, g->frame))
		return L5_TRY_NESTED;
	if (!(h->frame & 1))
		return 0;
	h->key = 0;
	return 2;
}

static int l5_held_check(const struct l5_guard *g)
{
	int i, got = l5_held_says(&l5_held.now, g);

	for (i = 0; i < l5_held.n && !got; i++)
		got = l5_held_says(&l5_held.more[i], g);
	return got;
}

/* Looks at a word that is taken: as l5_lock_try(), or L5_TRY_NESTED. */
static int l5_map_lock_look(struct l5_map *m, unsigned int which,
			    const struct l5_guard *g)
{
	__u32 *word = l5_map_word(m, which);
	int i, got;

	for (i = 0; i < L5_TRIES; i++) {
		got = l5_lock_try(word, m->id);
		if (got)
			return got;
		l5_pause();
	}
	if ((l5_load(word) & L5_LOCK_ID) != m->id)
		return 0;
	if (l5_load(&m->keeper[which]) == &l5_held)
		return L5_TRY_NESTED;
	return l5_held_check(g);
}

/*
 * Take a word that is taken: 1, or 2 if what it guards has to be mended first,
 * or L5_TRY_NESTED or _BUSY. A word is held for less than a switch takes, so a
 * few looks and a yield are worth it. A longer wait is for a system call: a
 * process that shares this end may have made up what the word says, and here
 * nothing would end the wait.
 */
static int l5_map_lock_wait(struct l5_map *m, int fd, unsigned int which,
			    const struct l5_guard *g)
{
	__u32 *word = l5_map_word(m, which);
	__u32 old;
	int got;

	got = l5_map_lock_look(m, which, g);
	if (got)
		return got;
	if (l5_load(&l5_map_hush))
		return L5_TRY_BUSY;
	syscall(SYS_sched_yield);
	for (;;) {
		got = l5_map_lock_look(m, which, g);
		if (got)
			return got;
		if (!m->ops->lock_wait)
			return L5_TRY_BUSY;
		old = l5_load(word);
		if (old & L5_LOCK_ID &&
		    (old & L5_LOCK_WAITERS ||
		     l5_cmpxchg(word, old, old | L5_LOCK_WAITERS)))
			m->ops->lock_wait(m, fd, which);
	}
}

/* The ring makes no sense: the peer's doing, or its memory was taken back. */
int l5_map_broken(struct l5_map *m, int fd)
{
	if (l5_map_gone(m))
		return L5_TRY_ASK;
	m->ops->broken(m, fd);
	return L5_TRY_BROKEN;
}

/*
 * The cursors as the last holder left them. If the holder died, the peer has
 * not heard of what it did last, nor of what mending does.
 */
static int l5_map_load_tx(struct l5_map *m, int fd, struct l5_guard *g,
			  bool died)
{
	struct l5_prod *p = &g->prod;

	p->head = l5_load(&m->prod.head);
	p->size = m->tx_size;
	if (l5_prod_load(p, m->own, m->peer))
		return -1;
	if (!died)
		return 0;
	if (l5_prod_mend(p, m->own, m->peer, l5_map_tx_slot(m, p->tail)))
		return -1;
	/* F, pairs with E */
	l5_mb();
	l5_map_published(m, fd);
	return 0;
}

static int l5_map_load_rx(struct l5_map *m, int fd, struct l5_guard *g,
			  bool died)
{
	struct l5_cons *c = &g->cons;

	c->size = m->rx_size;
	c->empty = l5_load(&m->cons.empty);
	c->empty_end = l5_load(&m->cons.empty_end);
	if (l5_cons_load(c, m->own))
		return -1;
	if (!died)
		return 0;
	l5_cons_mend(c, m->own, l5_map_rx_slot(m, c->head));
	/* F, pairs with E */
	l5_mb();
	l5_map_freed(m, fd, c->head);
	return 0;
}

void l5_map_leave(struct l5_map *m, unsigned int which,
		  const struct l5_guard *g)
{
	if (which == L5_LOCK_TX) {
		l5_store(&m->prod.tail, g->prod.tail);
		l5_store(&m->prod.head, g->prod.head);
	} else {
		m->cons = g->cons;
	}
}

void l5_map_unlock(struct l5_map *m, int fd, unsigned int which,
		   const struct l5_guard *g)
{
	__u32 waiters;

	l5_signal_fence();
	g->held->frame = g->frame;
	l5_signal_fence();
	waiters = l5_unlock(l5_map_word(m, which));
	l5_unhold(g->held);
	if (l5_unlikely(waiters))
		m->ops->lock_wake(m, fd, which);
}

/*
 * Take a lock word, and the cursors it guards. Returns 0; or L5_TRY_NESTED,
 * _BUSY or _BROKEN, and the word is not taken.
 */
int l5_map_lock(struct l5_map *m, int fd, unsigned int which,
		struct l5_guard *g)
{
	int saved = errno, got, err;

	g->held = l5_hold(m->key + which, g->frame);
	if (!g->held)
		return L5_TRY_NESTED;
	got = l5_lock_try(l5_map_word(m, which), m->id) ?:
	      l5_map_lock_wait(m, fd, which, g);
	errno = saved;
	if (got < 0) {
		l5_unhold(g->held);
		return got;
	}
	l5_signal_fence();
	g->held->frame = g->frame | 1;
	l5_signal_fence();
	if (which == L5_LOCK_TX)
		err = l5_map_load_tx(m, fd, g, got == 2);
	else
		err = l5_map_load_rx(m, fd, g, got == 2);
	if (!err)
		return 0;
	l5_map_unlock(m, fd, which, g);
	return l5_map_broken(m, fd);
}
