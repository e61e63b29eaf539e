// SPDX-License-Identifier: GPL-2.0
/*
 * libl5: waiting for several connections, and for one. See l5_wait_any(3).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <sys/syscall.h>

#include "conn.h"
#include "mailbox.h"

/* All entries are looked at every so many calls, even without a byte set */
#define L5_FULL_TURNS	64u

/**
 * struct set - what l5_wait_any() waits for
 * @wait: how it waits
 * @ns: the time-out, UINT64_MAX without end
 * @begun: when the first look began, 0: that is not known
 * @e: entries
 * @n: how many
 * @box: the mailbox that speaks for some of them, NULL without
 * @others: entries it does not speak for
 * @full: look at all rings
 * @adapt: whose habits the wait follows, NULL if not all can be looked at
 */
struct set {
	struct l5_wait wait;
	uint64_t ns;
	uint64_t begun;
	struct l5_event *e;
	int n;
	struct l5_mailbox *box;
	int others;
	bool full;
	struct l5_adapt *adapt;
};

/*
 * What the rings say about an entry; *@ask if they cannot say it all. Errors
 * and hangups are for poll(2) to say, but there are none without L5_MAP_RX_ASK.
 */
static short event_look(const struct l5_event *e, bool *ask)
{
	const short in = e->events & (POLLIN | POLLRDNORM);
	const short out = e->events & (POLLOUT | POLLWRNORM);
	struct l5_map *m = l5_stream_map(e->conn);
	unsigned int got;

	if (!m) {
		*ask = true;
		return 0;
	}
	got = l5_map_ready(m, (in ? L5_READY_IN : 0) |
			      (out ? L5_READY_OUT : 0));
	if (got & L5_READY_ASK_IN || (out && got & L5_READY_ASK_OUT))
		*ask = true;
	return (got & L5_READY_IN ? in : 0) | (got & L5_READY_OUT ? out : 0);
}

/* The connection's mailbox if a byte there says all that is asked for. */
static struct l5_mailbox *event_box(const struct l5_event *e)
{
	struct l5_mailbox *b = l5_load(&e->conn->box);

	/* BA, pairs with AZ */
	if (!b || !l5_load_acquire(&e->conn->byte) ||
	    e->events & (POLLOUT | POLLWRNORM) || !l5_mailbox_mine(b))
		return NULL;
	return b;
}

/*
 * A byte has but one place in the array: other entries of the same connection
 * are looked at themselves. The place is a hint, which another thread with an
 * array of its own may change; then the entry is looked at itself, too.
 */
static bool event_claim(const struct set *s, int i)
{
	const struct l5_event *e = &s->e[i];
	uint32_t *at = &s->box->at[l5_load(&e->conn->byte) - 1];
	uint32_t was = l5_load(at);

	if (was == (uint32_t)i)
		return true;
	if (was < (uint32_t)s->n && s->e[was].conn == e->conn)
		return false;
	l5_store(at, i);
	return true;
}

static bool event_boxed(const struct set *s, int i)
{
	const struct l5_event *e = &s->e[i];

	return s->box && event_box(e) == s->box &&
	       l5_load(&s->box->at[l5_load(&e->conn->byte) - 1]) == (uint32_t)i;
}

/* The entry that a byte is about, or NULL */
static struct l5_event *box_event(const struct set *s, uint32_t byte)
{
	struct l5_stream *c = l5_load(&s->box->conn[byte]);
	uint32_t i = l5_load(&s->box->at[byte]);

	if (!c || i >= (uint32_t)s->n || s->e[i].conn != c ||
	    !event_boxed(s, i))
		return NULL;
	return &s->e[i];
}

static void set_init(struct set *s)
{
	struct l5_mailbox *b;
	bool all = true;
	struct l5_map *m;
	int i;

	for (i = 0; i < s->n; i++) {
		s->e[i].revents = 0;
		if (!s->e[i].conn)
			continue;
		m = l5_stream_map(s->e[i].conn);
		if (!m)
			all = false;
		else if (!s->adapt)
			s->adapt = &m->rx_adapt;
		b = s->n > 1 ? event_box(&s->e[i]) : NULL;
		if (b && !s->box)
			s->box = b;
		if (!b || b != s->box || !event_claim(s, i))
			s->others++;
	}
	if (!all)
		s->adapt = NULL;
	if (s->box)
		s->full = !(__atomic_add_fetch(&s->box->calls, 1,
					       __ATOMIC_RELAXED) %
			    L5_FULL_TURNS);
}

/* Is any byte set of the connections that are asked for? */
static bool box_ready(const struct set *s)
{
	const unsigned int lines = l5_load(&s->box->lines);
	unsigned int line = 0;
	uint64_t mask;

	for (;; line++) {
		line = l5_mailbox_line(s->box, line, lines, &mask);
		if (line >= lines)
			return false;
		for (; mask; mask &= mask - 1)
			if (box_event(s, line * L5_MAILBOX_LINE +
					 __builtin_ctzll(mask)))
				return true;
	}
}

static bool set_ready(const void *arg)
{
	const struct set *s = arg;
	bool ask = false;
	int i;

	if (s->box && box_ready(s))
		return true;
	if (s->box && !s->others)
		return false;
	for (i = 0; i < s->n; i++)
		if (s->e[i].conn && !event_boxed(s, i) &&
		    (event_look(&s->e[i], &ask) || ask))
			return true;
	return false;
}

/* What was reported is looked at again next time, until nothing is left. */
static void event_again(const struct set *s, const struct l5_event *e)
{
	if (event_boxed(s, e - s->e))
		l5_mailbox_set(s->box, l5_load(&e->conn->byte) - 1);
}

/* Ask poll(2) about what the rings cannot say, or about all entries. */
static int set_poll(struct set *s, bool all, const struct timespec *t)
{
	struct pollfd few[64], *p = few;
	struct timespec left;
	int i, n = 0;
	bool ask;

	if (s->n > 64)
		p = malloc(s->n * sizeof(*p));
	if (!p)
		return -1;
	for (i = 0; i < s->n; i++) {
		struct l5_event *e = &s->e[i];

		ask = all;
		if (e->conn && !all)
			event_look(e, &ask);
		p[i].fd = e->conn && ask ? e->conn->fd : -1;
		p[i].events = e->events;
	}
	/* the call writes to it */
	if (t)
		left = *t;
	if (syscall(SYS_ppoll, p, s->n, t ? &left : NULL, NULL, 0) < 0)
		n = -1;
	for (i = 0; i < s->n && n >= 0; i++) {
		if (p[i].fd >= 0)
			s->e[i].revents |= p[i].revents;
		if (p[i].fd >= 0 && p[i].revents)
			event_again(s, &s->e[i]);
		n += !!s->e[i].revents;
	}
	if (p != few)
		free(p);
	return n;
}

/* Entries whose byte was set; *@ask as event_look() */
static int box_look(struct set *s, bool *ask)
{
	const unsigned int lines = l5_load(&s->box->lines);
	unsigned int line = 0;
	struct l5_event *e;
	uint64_t mask, took;
	uint32_t first;
	bool one;
	int n = 0;

	for (;; line++) {
		line = l5_mailbox_line(s->box, line, lines, &mask);
		if (line >= lines)
			return n;
		first = line * L5_MAILBOX_LINE;
		for (took = 0; mask; mask &= mask - 1) {
			uint32_t i = __builtin_ctzll(mask);

			/* bytes of other entries, or of none, stay set */
			if (box_event(s, first + i) &&
			    l5_mailbox_take(s->box, first + i))
				took |= 1ull << i;
		}
		l5_mailbox_fence();
		for (; took; took &= took - 1) {
			uint32_t i = first + __builtin_ctzll(took);

			e = box_event(s, i);
			one = !e;
			if (e)
				e->revents = event_look(e, &one);
			/* or its place has changed just now */
			if (one || (e && e->revents))
				l5_mailbox_set(s->box, i);
			n += e && e->revents;
			*ask |= one && e;
		}
	}
}

/* One look at all of them: how many are ready */
static int set_look(struct set *s)
{
	static const struct timespec now;
	bool ask = false, one;
	int i, n = 0;

	for (i = 0; i < s->n; i++)
		s->e[i].revents = 0;
	if (s->box && !s->full)
		n = box_look(s, &ask);
	for (i = 0; i < s->n; i++) {
		struct l5_event *e = &s->e[i];

		if (s->box && !s->full && !s->others)
			break;
		if (!e->conn || e->revents || (!s->full && event_boxed(s, i)))
			continue;
		one = false;
		e->revents = event_look(e, &one);
		if (e->revents || one)
			event_again(s, e);
		n += !!e->revents;
		ask |= one;
	}
	/* also if others are ready: nobody is to starve */
	return ask ? set_poll(s, false, &now) : n;
}

static ssize_t set_attempt(struct l5_wait *w)
{
	struct set *s = l5_call_of(w, struct set);
	int got = set_look(s);

	return got || !s->ns ? got : L5_TRY_AGAIN;
}

/* What is left of the time-out: the time that was already waited is a part. */
static uint64_t set_left(const struct set *s)
{
	uint64_t gone;

	if (s->ns == UINT64_MAX || !s->begun)
		return s->ns;
	gone = l5_since(l5_map_now(), s->begun);
	return gone < s->ns ? s->ns - gone : 0;
}

static bool set_wait(struct l5_wait *w)
{
	struct set *s = l5_call_of(w, struct set);
	bool paid;

	paid = s->adapt && l5_adapt_wait_for(s->adapt, set_ready, s, &w->start,
					     set_left(s), w->seen);
	if (!s->begun)
		s->begun = w->start;
	return paid;
}

static ssize_t set_rest(struct l5_wait *w, ssize_t why)
{
	struct set *s = l5_call_of(w, struct set);
	uint64_t ns;
	struct timespec t;
	int got;

	(void)why;
	if (l5_stream_interrupted(w))
		return -1;
	ns = set_left(s);
	t.tv_sec = ns / 1000000000;
	t.tv_nsec = ns % 1000000000;
	got = set_poll(s, true, ns == UINT64_MAX ? NULL : &t);
	if (s->adapt && w->vain && got > 0)
		l5_adapt_woke(s->adapt, w->start);
	return got;
}

int l5_wait_any(struct l5_event *e, int n, int timeout)
{
	struct set s = {
		.ns = timeout < 0 ? UINT64_MAX : timeout * 1000000ull,
		.e = e, .n = n,
	};

	if (n < 0) {
		errno = EINVAL;
		return -1;
	}
	l5_wait_begin(&s.wait);
	set_init(&s);
	return l5_wait_loop(&s.wait, set_attempt, set_wait, set_rest);
}

int l5_wait(struct l5_stream *c, short events, int timeout)
{
	struct l5_event e = { .conn = c, .events = events };
	int n = l5_wait_any(&e, 1, timeout);

	return n > 0 ? e.revents : n;
}
