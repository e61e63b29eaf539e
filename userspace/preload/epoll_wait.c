// SPDX-License-Identifier: GPL-2.0
/*
 * epoll_wait(): what is ready in user space. See epoll.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <unistd.h>

#include "ep.h"
#include "fdtab.h"
#include "real.h"
#include "signal.h"
#include "stats.h"

#define NS		1000000000ull

/* A socket without events for so long, ns, is hot no more. */
#define COLD		(20 * ep_ask_max)

/**
 * struct call - a call of epoll_wait() or of a relative
 * @wait: how it waits
 * @ep: the set
 * @gen: of the set, when the call began
 * @number: of the last wait in the kernel, see struct ep
 * @epfd: the argument
 * @ev: the argument
 * @max: the argument
 * @set: the argument, if @masked
 * @masked: it is epoll_pwait()
 * @precise: it is epoll_pwait2(), and has a timespec
 * @forever: there is no time-out
 * @ns: the time-out, else
 * @begun: when the waiting began, 0: it has not, or there is no time-out
 * @held: of sig_hold(), while @locked
 * @locked: it has the set's lock
 * @ask: the kernel is to be asked, and is not to sleep
 * @asks: how often that was so
 */
struct call {
	struct l5_wait wait;
	struct ep *ep;
	unsigned int gen;
	uint64_t number;
	int epfd;
	struct epoll_event *ev;
	int max;
	const sigset_t *set;
	bool masked;
	bool precise;
	bool forever;
	uint64_t ns;
	uint64_t begun;
	uintptr_t held;
	bool locked;
	bool ask;
	unsigned int asks;
};

/* The system call, with as much of the time-out as is left. */
static int kernel_wait(const struct call *w, bool now, uint64_t start)
{
	struct timespec t;
	uint64_t ns = w->ns, gone;
	int ms;

	if (now) {
		ns = 0;
	} else if (!w->forever && ns && start) {
		gone = l5_since(l5_map_now(), start);
		ns = gone < ns ? ns - gone : 0;
	}
	if (w->precise) {
		t = (struct timespec){ ns / NS, ns % NS };
		return real.epoll_pwait2(w->epfd, w->ev, w->max,
					 w->forever && !now ? NULL : &t,
					 w->set);
	}
	ms = w->forever && !now ? -1 : (int)((ns + 999999) / 1000000);
	if (w->masked)
		return real.epoll_pwait(w->epfd, w->ev, w->max, ms, w->set);
	return real.epoll_wait(w->epfd, w->ev, w->max, ms);
}

/* What the kernel has to say about a socket, among the events of one */
#define NOT_CLEAN	(~0u)

static uint32_t ready_events(const struct reg *r, unsigned int ready)
{
	return (ready & L5_READY_IN ? r->events & IN_EVENTS : 0) |
	       (ready & L5_READY_OUT ? r->events & OUT_EVENTS : 0);
}

/*
 * The events of one socket to report now, 0 if none, or NOT_CLEAN. @s is in
 * use. Room is no edge by itself, and to look for it takes the peer's line away
 * from it: so that is only done once there is an edge. @head is how far the
 * peer had read before that look, if there was one.
 */
static uint32_t reg_events(const struct reg *r, const struct sock *s,
			   uint64_t *head)
{
	unsigned int ready;

	if (r->there && r->events & IN_EVENTS)
		ready = sock_ready(s, L5_READY_IN);
	else
		ready = sock_ready(s, 0);
	if (ready & L5_READY_ASK)
		return NOT_CLEAN;
	if (!r->there)
		return 0;
	if (r->events & EPOLLET &&
	    !(ready & L5_READY_IN && l5_map_rx_since(s->map, r->tail)))
		return 0;
	if (r->events & OUT_EVENTS) {
		*head = l5_load(&s->map->peer->rx_head);
		ready |= l5_map_ready(s->map, L5_READY_OUT) & L5_READY_OUT;
	}
	return ready_events(r, ready);
}

/* Is any of the hot ones worth going on for? */
static bool hot_ready(const void *arg)
{
	const struct ep *ep = arg;
	unsigned int n = atomic_load_explicit(&ep->hots, memory_order_relaxed);
	unsigned int i;
	struct sock *s;
	uint64_t head;
	bool ready;

	for (i = 0; i < n; i++) {
		s = sock_look(ep->hot[i]->fd);
		if (!s)
			continue;
		ready = reg_events(ep->hot[i], s, &head);
		sock_done();
		if (ready)
			return true;
	}
	return atomic_load_explicit(&ep->wanted, memory_order_relaxed);
}

/*
 * The events of hot sockets; the lock is ours. With @dry they are only counted,
 * up to one.
 */
static int give(struct ep *ep, struct epoll_event *ev, int max, uint64_t now,
		bool dry)
{
	unsigned int i, left = atomic_load(&ep->hots), at = ep->turn;
	uint64_t head = 0;
	uint32_t got;
	int n = 0;

	for (; left && n < max; left--) {
		struct reg *r;
		struct sock *s;

		if (at >= atomic_load_explicit(&ep->hots,
					       memory_order_relaxed))
			at = 0;
		i = at;
		r = ep->hot[i];
		s = atomic_load(&r->dead) ? NULL : sock_look(r->fd);
		got = s ? reg_events(r, s, &head) : 0;
		if (!s || got == NOT_CLEAN || now - r->last > COLD) {
			/* left to the kernel, until the kernel reports it */
			if (got)
				ep->news = true;
			if (s)
				sock_done();
			ep_hot_remove(ep, i);
			continue;
		}
		at++;
		if (got && dry) {
			sock_done();
			return 1;
		}
		if (got) {
			if (got & IN_EVENTS)
				r->tail = l5_map_rx_end(s->map, r->tail);
			r->room = got & OUT_EVENTS;
			r->head = head;
			r->extent = l5_map_most(s->map);
			r->refused = l5_map_refusals(s->map);
			r->last = now;
			ev[n].events = got;
			ev[n++].data.u64 = r->data;
		}
		sock_done();
	}
	if (!dry)
		ep->turn = at;
	return n;
}

/* The one registration with this data; NULL if there is none, or a second. */
static struct reg *reg_by_data(struct ep *ep, uint64_t data)
{
	struct reg *r, *found = NULL;

	for (r = *bucket_of(ep, data); r; r = r->next) {
		if (r->data != data || atomic_load(&r->dead))
			continue;
		if (found)
			return NULL;
		found = r;
	}
	return found;
}

/*
 * Was an edge that the kernel reports delivered already? Room is news unless it
 * was delivered, and the ring cannot have been full since: not by the peer's
 * position, nor by a SO_SNDBUF that was less, nor for want of memory.
 */
static bool known_edge(const struct reg *r, const struct sock *s,
		       uint32_t events)
{
	if (!(r->events & EPOLLET) || r->tail == NO_TAIL ||
	    events & ~(IN_EVENTS | OUT_EVENTS) ||
	    l5_map_rx_since(s->map, r->tail))
		return false;
	return !(events & OUT_EVENTS) ||
	       (r->room && l5_map_most(s->map) <= r->extent &&
		l5_map_refusals(s->map) == r->refused &&
		l5_map_always_roomy(s->map, r->head));
}

/*
 * The kernel's events are delivered. How far the peer had read when the kernel
 * looked is not known, but how far at the event before, if the wait began
 * after that.
 */
static void deliver(struct reg *r, const struct sock *s, uint32_t events,
		    uint64_t number)
{
	if (events & IN_EVENTS)
		r->tail = l5_map_rx_end(s->map, r->tail);
	r->room = events & OUT_EVENTS && number > r->seen_at;
	r->head = r->seen;
	r->extent = l5_map_most(s->map);
	r->refused = l5_map_refusals(s->map);
}

static void heat(struct ep *ep, struct reg *r, uint64_t now)
{
	unsigned int n = atomic_load(&ep->hots), i, idlest = 0;

	r->last = now;
	if (r->hot)
		return;
	if (n == HOT_MAX) {
		for (i = 1; i < n; i++)
			if (ep->hot[i]->last < ep->hot[idlest]->last)
				idlest = i;
		if (now - ep->hot[idlest]->last < COLD / 10)
			return;
		ep_hot_remove(ep, idlest);
		n--;
	}
	r->hot = true;
	ep->hot[n] = r;
	atomic_store(&ep->hots, n + 1);
}

/**
 * struct took - what the kernel's answer was about
 * @rings: mapped sockets
 * @others: anything else
 */
struct took {
	bool rings;
	bool others;
};

/* Did another thread deregister it while the kernel was asked? */
static bool gone_meanwhile(const struct reg *r, uint64_t number)
{
	return !r->there && (r->known || number <= r->gone);
}

/*
 * Is a thread changing it, and has not noted that yet? The kernel may have told
 * of it as it is since then.
 */
static bool changing(struct ep *ep, int fd)
{
	int i;

	for (i = 0; i < CHANGES; i++)
		if (atomic_load(&ep->changing[i]) == fd + 1)
			return true;
	return false;
}

/*
 * Look through what the kernel reported: what is mapped becomes hot, edges that
 * were delivered are dropped. Returns how many events are left.
 */
static int take(struct ep *ep, struct epoll_event *ev, int n, uint64_t number,
		struct took *t)
{
	uint64_t now = l5_map_now();
	int i, kept = 0;
	struct reg *r;
	struct sock *s;
	bool drop;

	for (i = 0; i < n; i++) {
		drop = false;
		r = reg_by_data(ep, ev[i].data.u64);
		s = r && reg_plain(r) ? sock_look(r->fd) : NULL;
		if (s && sock_clean(s)) {
			drop = known_edge(r, s, ev[i].events);
			t->rings = true;
			if (!drop)
				deliver(r, s, ev[i].events, number);
			r->seen = l5_load(&s->map->peer->rx_head);
			r->seen_at = atomic_load(&ep->waits);
			drop |= gone_meanwhile(r, number);
			drop = drop && !changing(ep, r->fd);
			heat(ep, r, now);
		} else {
			t->others = true;
		}
		if (s)
			sock_done();
		if (!drop)
			ev[kept++] = ev[i];
	}
	return kept;
}

/* Note what an answer of the kernel's was about. */
static int took(struct ep *ep, const struct call *w, unsigned int gen, int n,
		struct took *t)
{
	uintptr_t held = sig_hold();

	*t = (struct took){ false, false };
	if (!ep_trylock(ep))
		goto out;
	if (ep_same(ep, w->epfd, gen) && !ep_off(ep)) {
		ep->news = false;
		if (!ep->adapts)
			l5_adapt_init(&ep->adapt);
		ep->adapts = true;
		if (n > 0)
			n = take(ep, w->ev, n, w->number, t);
	}
	ep_unlock(ep);
out:
	sig_release(held);
	return n;
}

/* Set how long it is until the kernel is asked again. */
static void asked(struct ep *ep, const struct took *t)
{
	ep->asked = l5_map_now();
	if (t->others)
		ep->ask = ep_ask_min;
	else if (ep->ask < ep_ask_max)
		ep->ask *= 2;
}

/*
 * The set's lock, unless it was kept: false if another thread has it, or if the
 * set was closed and its memory is another one's.
 */
static bool call_lock(struct call *c)
{
	if (c->locked)
		return true;
	c->held = sig_hold();
	c->locked = ep_trylock(c->ep);
	if (c->locked && atomic_load(&c->ep->gen) != c->gen) {
		ep_unlock(c->ep);
		c->locked = false;
	}
	if (!c->locked)
		sig_release(c->held);
	return c->locked;
}

static void call_unlock(struct call *c)
{
	if (!c->locked)
		return;
	c->locked = false;
	ep_unlock(c->ep);
	sig_release(c->held);
}

/* What is left of the time-out, UINT64_MAX without end */
static uint64_t call_left(const struct call *c, uint64_t now)
{
	uint64_t gone;

	if (c->forever)
		return UINT64_MAX;
	gone = c->begun ? l5_since(now, c->begun) : 0;
	return gone < c->ns ? c->ns - gone : 0;
}

/*
 * Events from user space. If there are none the lock is kept for the look. If
 * the kernel was not asked for a while it comes first; also a descriptor that
 * always has to be waited for is not to starve others.
 */
static ssize_t ep_attempt(struct l5_wait *w)
{
	struct call *c = l5_call_of(w, struct call);
	struct ep *ep = c->ep;
	uint64_t now;
	int n = 0;

	c->ask = false;
	w->start = 0;
	if (!atomic_load_explicit(&ep->hots, memory_order_relaxed) ||
	    !call_lock(c))
		return L5_TRY_AGAIN;
	now = l5_map_now();
	w->start = now;
	if (now - ep->asked >= ep->ask) {
		c->ask = give(ep, c->ev, c->max, now, true) || ep->news;
	} else {
		n = give(ep, c->ev, c->max, now, false);
		c->ask = !n && ep->news;
	}
	if (!n || ep_off(ep))
		return L5_TRY_AGAIN;
	call_unlock(c);
	stats_poll(L5_STATS_SAVED);
	return n;
}

/* Only the kernel knows which signals are to end it: as in poll.c */
static bool ep_look(struct l5_wait *w)
{
	struct call *c = l5_call_of(w, struct call);
	struct ep *ep = c->ep;
	uint64_t now = w->start, ns = call_left(c, now);
	bool paid = false;

	if (c->locked && !c->ask && ns && !c->set && atomic_load(&ep->hots) &&
	    !atomic_load(&ep->wanted) && !ep_off(ep)) {
		if (!c->begun && !c->forever)
			c->begun = now;
		paid = fd_wait_for(&ep->adapt, hot_ready, ep, &w->start, ns,
				   w->seen);
		stats_poll_look(paid);
	} else {
		w->start = 0;
	}
	if (!paid)
		call_unlock(c);
	return paid;
}

/* The kernel is told what is new before a thread waits there. */
static int settled_wait(struct ep *ep, const struct call *w, bool now,
			uint64_t start)
{
	int n;

	sig_settle();
	atomic_fetch_add(&ep->sleepers, 1);
	if (l5_unlikely(atomic_load(&ep->laters)) && fd_own_begin()) {
		ep_settle(ep);
		fd_own_end();
	}
	n = kernel_wait(w, now, start);
	atomic_fetch_sub(&ep->sleepers, 1);
	return n;
}

/*
 * The kernel's answer, at once or after a sleep. Nothing, but for edges that
 * were known, is none.
 */
static ssize_t ep_rest(struct l5_wait *w, ssize_t why)
{
	struct call *c = l5_call_of(w, struct call);
	bool waits = c->forever || c->ns, came;
	struct ep *ep = c->ep;
	struct took t;
	int n;

	(void)why;
	call_unlock(c);
	w->fruitless = 0;
	stats_poll(c->ask || !waits ? L5_STATS_OTHERS : L5_STATS_SLEPT);
	if (!c->begun && !c->forever && c->ns)
		c->begun = w->start ?: l5_map_now();
	/* rings say one thing and the kernel another: it may sleep */
	if (c->ask && ++c->asks > L5_FRUITLESS)
		c->ask = false;
	if (!c->ask && !w->start)
		w->start = l5_map_now();
	/* what is there comes before the signal */
	came = !c->set && !l5_wait_quiet(w);
	c->number = atomic_fetch_add(&ep->waits, 1) + 1;
	n = settled_wait(ep, c, c->ask || came, c->begun);
	if (n < 0)
		return n;
	n = took(ep, c, c->gen, n, &t);
	asked(ep, &t);
	if (!n && came && waits) {
		errno = EINTR;
		return -1;
	}
	if (!c->ask && !came)
		l5_adapt_woke(&ep->adapt,
			      t.rings || !(n || t.others) ? w->start : 0);
	if (n)
		return n;
	if (c->ask)
		return L5_TRY_AGAIN;
	return t.rings && call_left(c, l5_map_now()) ? L5_TRY_AGAIN : 0;
}

/*
 * All of them; @c has the arguments and the time-out. The rest is set member by
 * member: to zero it all first is a good part of a call that finds events.
 */
static int ep_wait(struct ep *ep, struct call *c)
{
	l5_wait_begin(&c->wait);
	pthread_testcancel();
	/* as long as nothing is mapped */
	if (l5_likely(!fd_maps() || !ep->regs || c->max <= 0 || ep_off(ep)))
		return settled_wait(ep, c, false, 0);
	c->ep = ep;
	c->gen = atomic_load(&ep->gen);
	c->begun = 0;
	c->locked = false;
	c->asks = 0;
	return l5_wait_loop(&c->wait, ep_attempt, ep_look, ep_rest);
}

static struct ep *ep_of(int epfd, const struct epoll_event *ev)
{
	struct ep *ep = fd_ep(epfd);

	return ep && !fd_forked() && !sandbox_careful() &&
	       (uintptr_t)ev >= 65536 ? ep : NULL;
}

/* The arguments that all have */
static void call_of_set(struct call *c, int epfd, struct epoll_event *ev,
			int max)
{
	c->epfd = epfd;
	c->ev = ev;
	c->max = max;
	c->set = NULL;
	c->masked = false;
	c->precise = false;
}

static void call_ms(struct call *c, int ms)
{
	c->forever = ms < 0;
	c->ns = ms < 0 ? 0 : ms * 1000000ull;
}

EXPORT int epoll_wait(int epfd, struct epoll_event *ev, int max, int ms)
{
	struct ep *ep = ep_of(epfd, ev);
	struct call c;

	if (l5_likely(!ep))
		return real.epoll_wait(epfd, ev, max, ms);
	call_of_set(&c, epfd, ev, max);
	call_ms(&c, ms);
	return ep_wait(ep, &c);
}

EXPORT int epoll_pwait(int epfd, struct epoll_event *ev, int max, int ms,
		       const sigset_t *set)
{
	struct ep *ep = ep_of(epfd, ev);
	struct call c;

	if (l5_likely(!ep))
		return real.epoll_pwait(epfd, ev, max, ms, set);
	call_of_set(&c, epfd, ev, max);
	call_ms(&c, ms);
	c.set = set;
	c.masked = true;
	return ep_wait(ep, &c);
}

EXPORT int epoll_pwait2(int epfd, struct epoll_event *ev, int max,
			const struct timespec *t, const sigset_t *set)
{
	struct ep *ep = ep_of(epfd, ev);
	struct call c;

	if (l5_likely(!ep) ||
	    (t && (t->tv_sec < 0 || t->tv_sec > 1000000000 ||
		   t->tv_nsec < 0 || t->tv_nsec >= (long)NS)))
		return real.epoll_pwait2(epfd, ev, max, t, set);
	call_of_set(&c, epfd, ev, max);
	c.forever = !t;
	c.ns = t ? t->tv_sec * NS + t->tv_nsec : 0;
	c.set = set;
	c.masked = true;
	c.precise = true;
	return ep_wait(ep, &c);
}
