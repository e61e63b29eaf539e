// SPDX-License-Identifier: GPL-2.0
/*
 * poll(), select() and their relatives.
 *
 * If all that is asked about is mapped and something is ready, or nobody wants
 * to wait, the rings say all that there is to say. If a ring is ready among
 * descriptors of other kinds, the kernel is asked for the complete truth, and
 * does not wait. Else the rings are looked at for a while, as long as that has
 * paid lately, and then the kernel sleeps for what is left of the time-out: its
 * ->poll arms the rings. Other descriptors wait for no longer than that while.
 *
 * A call with a mask of signals also asks whether one is pending that the mask
 * lets in, which only the kernel knows; and those that the mask keeps out are
 * not to end it, as they would end a look. So unless the rings are ready it is
 * the kernel's at once, whether it waits or not.
 *
 * A mapped socket with an error, a shutdown, a peer that closed or an option
 * that is the kernel's to keep counts as one of another kind. Events but those
 * below make it one, too: a ring has no urgent data, no hangup.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "epoll.h"
#include "fdtab.h"
#include "real.h"
#include "signal.h"
#include "stats.h"

#define NS		1000000000ull

#define IN_EVENTS	(POLLIN | POLLRDNORM)
#define OUT_EVENTS	(POLLOUT | POLLWRNORM)
/* those that a healthy ring never has */
#define NO_EVENTS	(POLLPRI | POLLRDBAND | POLLRDHUP | POLLERR | \
			 POLLHUP | POLLNVAL)

enum {
	LOOK_MAX = 256,		/* descriptors; more is the kernel's */
	SETS_MAX = 64,		/* mapped ones in select()'s sets */
};

static __thread struct l5_adapt adapt
	__attribute__((tls_model("initial-exec")));
static __thread bool adapt_known __attribute__((tls_model("initial-exec")));

/**
 * struct look - a question
 * @fds: about whom
 * @n: of them
 * @ready: rings that were ready
 * @others: descriptors that are the kernel's
 * @masked: with a mask of signals
 */
struct look {
	struct pollfd *fds;
	unsigned int n;
	unsigned int ready;
	unsigned int others;
	bool masked;
};

static bool may_be_memory(const void *p)
{
	return (uintptr_t)p >= 65536 && (intptr_t)p > 0;
}

/* Is any of them mapped? Anything else is not worth a second thought. */
static bool any_mapped(struct pollfd *fds, nfds_t n)
{
	bool any = false;
	uintptr_t word;
	nfds_t i;

	if (l5_likely(!fd_maps()) || !may_be_memory(fds))
		return false;
	for (i = 0; i < n; i++) {
		word = fd_word(fds[i].fd);
		if (fd_is_sock(word))
			any = true;
		else if (word & FD_EP)
			ep_polled(fd_ep(fds[i].fd));
	}
	return any && n <= LOOK_MAX;
}

/* What a ring says, or -1: ask the kernel. */
static int ring_events(int fd, short events)
{
	int got = -1;
	struct sock *s;

	if (events & ~(IN_EVENTS | OUT_EVENTS | NO_EVENTS))
		return -1;
	s = sock_look(fd);
	if (!s)
		return -1;
	if (sock_clean(s)) {
		got = 0;
		if (events & IN_EVENTS && l5_map_readable(s->map))
			got |= events & IN_EVENTS;
		if (events & OUT_EVENTS && l5_map_writable(s->map))
			got |= events & OUT_EVENTS;
	}
	sock_done();
	return got;
}

static void look(struct look *l)
{
	unsigned int i;
	int got;

	l->ready = 0;
	l->others = 0;
	for (i = 0; i < l->n; i++) {
		l->fds[i].revents = 0;
		if (l->fds[i].fd < 0)
			continue;
		got = ring_events(l->fds[i].fd, l->fds[i].events);
		if (got < 0) {
			l->others++;
		} else if (got) {
			l->fds[i].revents = got;
			l->ready++;
		}
	}
}

/* Is any ring worth going on for? Errors are, since they are the kernel's. */
static bool look_ready(const void *arg)
{
	const struct look *l = arg;
	unsigned int i;
	struct sock *s;
	bool ready = false;

	for (i = 0; i < l->n && !ready; i++) {
		s = sock_look(l->fds[i].fd);
		if (!s)
			continue;
		if (!sock_clean(s) ||
		    (l->fds[i].events & IN_EVENTS &&
		     l5_map_readable(s->map)) ||
		    (l->fds[i].events & OUT_EVENTS &&
		     l5_map_writable(s->map)))
			ready = true;
		sock_done();
	}
	return ready;
}

enum verdict {
	ANSWERED,	/* look.ready is the answer */
	ASK,		/* the kernel, without waiting */
	SLEEP,		/* in the kernel */
};

/*
 * All that can be done before the kernel is asked, in @ns at most: 0 is not to
 * wait. A signal that came since l5_signals was @seen ends that.
 */
static enum verdict weigh(struct look *l, uint64_t ns, uint64_t *start,
			  uint64_t seen)
{
	bool paid;

	*start = 0;
	pthread_testcancel();
	sig_settle();
	look(l);
	if (!l->others && (l->ready || (!ns && !l->masked)))
		return ANSWERED;
	if (l->ready || !ns)
		return ASK;
	if (l5_unlikely(l->masked))
		return SLEEP;
	if (l5_unlikely(!adapt_known)) {
		l5_adapt_init(&adapt);
		adapt_known = true;
	}
	/* what is there comes before the signal */
	paid = fd_wait_for(&adapt, look_ready, l, start, ns, seen);
	stats_poll_look(paid);
	if (!paid && l5_no_signal(seen))
		return SLEEP;
	look(l);
	return !l->others && l->ready ? ANSWERED : ASK;
}

/* The same, @others beside those of @l, and counted. */
static enum verdict consider(struct look *l, bool others, uint64_t ns,
			     uint64_t *start, uint64_t seen)
{
	enum verdict v = weigh(l, ns, start, seen);

	if (v == ANSWERED && others)
		v = ASK;
	stats_poll(v == ANSWERED ? L5_STATS_SAVED :
		   v == ASK ? L5_STATS_OTHERS : L5_STATS_SLEPT);
	return v;
}

/* A handler ran since l5_signals was @seen, and nothing is there. */
static bool interrupted(const struct look *l, uint64_t seen)
{
	/* one outside the call, since it has a mask */
	if (l->masked || l5_no_signal(seen))
		return false;
	errno = EINTR;
	return true;
}

/* The kernel slept: would it have been worth while to look on? */
static void learn(const struct look *l, int ret, uint64_t start)
{
	unsigned int i;

	if (!start)
		return;
	for (i = 0; ret > 0 && i < l->n; i++)
		if (l->fds[i].revents && fd_is_sock(fd_word(l->fds[i].fd)))
			break;
	/* what came was no ring's: then it would not */
	if (ret > 0 && i == l->n)
		start = 0;
	l5_adapt_woke(&adapt, start);
}

/* What is left of a time-out that began at @start; 0 is "not known". */
static uint64_t left_of(uint64_t ns, uint64_t start)
{
	uint64_t gone = start ? l5_since(l5_map_now(), start) : 0;

	return gone < ns ? ns - gone : 0;
}

EXPORT int poll(struct pollfd *fds, nfds_t n, int ms)
{
	uint64_t start, seen = l5_signals;
	struct look l = { .fds = fds, .n = n };
	enum verdict v;
	int ret;

	if (!any_mapped(fds, n))
		return real.poll(fds, n, ms);
	v = consider(&l, false, ms < 0 ? UINT64_MAX : ms * 1000000ull, &start,
		     seen);
	if (v == ANSWERED)
		return l.ready;
	if (v == ASK) {
		ret = real.poll(fds, n, 0);
		if (ret || !ms)
			return ret;
		if (interrupted(&l, seen))
			return -1;
	}
	if (ms > 0)
		ms = (left_of(ms * 1000000ull, start) + 999999) / 1000000;
	ret = real.poll(fds, n, ms);
	learn(&l, ret, start);
	return ret;
}

static bool good_time(const struct timespec *t)
{
	return t->tv_sec >= 0 && t->tv_sec < 1000000000 && t->tv_nsec >= 0 &&
	       t->tv_nsec < (long)NS;
}

static uint64_t spec_ns(const struct timespec *t)
{
	return t ? t->tv_sec * NS + t->tv_nsec : UINT64_MAX;
}

static struct timespec spec_left(const struct timespec *t, uint64_t start)
{
	uint64_t ns = left_of(spec_ns(t), start);

	return (struct timespec){ ns / NS, ns % NS };
}

EXPORT int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *t,
		 const sigset_t *set)
{
	static const struct timespec zero;
	uint64_t start, seen = l5_signals;
	struct look l = { .fds = fds, .n = n, .masked = set };
	struct timespec left;
	enum verdict v;
	int ret;

	if (!any_mapped(fds, n) || (t && !good_time(t)))
		return real.ppoll(fds, n, t, set);
	v = consider(&l, false, spec_ns(t), &start, seen);
	if (v == ANSWERED)
		return l.ready;
	if (v == ASK) {
		ret = real.ppoll(fds, n, &zero, set);
		if (ret || (t && !t->tv_sec && !t->tv_nsec))
			return ret;
		if (interrupted(&l, seen))
			return -1;
	}
	if (t)
		left = spec_left(t, start);
	ret = real.ppoll(fds, n, t ? &left : NULL, set);
	learn(&l, ret, start);
	return ret;
}

void __chk_fail(void) __attribute__((noreturn));

EXPORT int __poll_chk(struct pollfd *fds, nfds_t n, int ms, size_t size);
EXPORT int __poll_chk(struct pollfd *fds, nfds_t n, int ms, size_t size)
{
	if (n > size / sizeof(*fds))
		__chk_fail();
	return poll(fds, n, ms);
}

EXPORT int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *t,
		       const sigset_t *set, size_t size);
EXPORT int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *t,
		       const sigset_t *set, size_t size)
{
	if (n > size / sizeof(*fds))
		__chk_fail();
	return ppoll(fds, n, t, set);
}

union bits {
	fd_set set;
	unsigned long word[FD_SETSIZE / 64];
};

/**
 * struct sets - what select() was asked, as poll() would be
 * @look: the mapped ones
 * @fds: for it
 * @others: is there anything else?
 * @n: of select()
 * @set: those of the caller, may be NULL
 * @asked: the sets as they were, since a call that finds nothing clears them
 */
struct sets {
	struct look look;
	struct pollfd fds[SETS_MAX];
	bool others;
	int n;
	union bits *set[3];
	union bits asked[3];
};

#define SET_BYTES(n)	(((n) + 63) / 64 * 8)

static bool sets_take(struct sets *s, int n, fd_set *r, fd_set *w, fd_set *e)
{
	unsigned long any;
	int i, fd, k;

	if (l5_likely(!fd_maps()) || n <= 0 || n > FD_SETSIZE)
		return false;
	s->n = n;
	s->set[0] = (union bits *)r;
	s->set[1] = (union bits *)w;
	s->set[2] = (union bits *)e;
	s->others = false;
	s->look = (struct look){ .fds = s->fds };
	for (i = 0; i < n; i += 64) {
		any = 0;
		for (k = 0; k < 3; k++) {
			if (s->set[k])
				any |= s->set[k]->word[i / 64];
		}
		for (fd = i; any && fd < n; fd++, any >>= 1) {
			struct pollfd *p = &s->fds[s->look.n];

			if (!(any & 1))
				continue;
			if (fd_word(fd) & FD_EP)
				ep_polled(fd_ep(fd));
			if (!fd_is_sock(fd_word(fd)) ||
			    s->look.n == SETS_MAX) {
				s->others = true;
				continue;
			}
			p->fd = fd;
			p->events = (r && FD_ISSET(fd, r) ? POLLIN : 0) |
				    (w && FD_ISSET(fd, w) ? POLLOUT : 0);
			s->look.n++;
		}
	}
	if (!s->look.n)
		return false;
	for (k = 0; k < 3; k++)
		if (s->set[k])
			memcpy(&s->asked[k], s->set[k], SET_BYTES(n));
	return true;
}

static void sets_restore(struct sets *s)
{
	int k;

	for (k = 0; k < 3; k++)
		if (s->set[k])
			memcpy(s->set[k], &s->asked[k], SET_BYTES(s->n));
}

/* The answer in the caller's sets; how many bits. */
static int sets_answer(struct sets *s)
{
	unsigned int i;
	int k, n = 0;

	for (k = 0; k < 3; k++)
		if (s->set[k])
			memset(s->set[k], 0, SET_BYTES(s->n));
	for (i = 0; i < s->look.n; i++) {
		if (s->fds[i].revents & POLLIN) {
			FD_SET(s->fds[i].fd, &s->set[0]->set);
			n++;
		}
		if (s->fds[i].revents & POLLOUT) {
			FD_SET(s->fds[i].fd, &s->set[1]->set);
			n++;
		}
	}
	return n;
}

static enum verdict sets_consider(struct sets *s, uint64_t ns, uint64_t *start,
				  uint64_t seen)
{
	return consider(&s->look, s->others, ns, start, seen);
}

static bool is_set(const union bits *b, int fd)
{
	return b && FD_ISSET(fd, &b->set);
}

static void sets_learn(struct sets *s, int ret, uint64_t start)
{
	unsigned int i;

	for (i = 0; i < s->look.n; i++) {
		struct pollfd *p = &s->fds[i];

		p->revents = ret > 0 && (is_set(s->set[0], p->fd) ||
					 is_set(s->set[1], p->fd));
	}
	learn(&s->look, ret, start);
}

EXPORT int select(int n, fd_set *r, fd_set *w, fd_set *e, struct timeval *t)
{
	struct timeval zero = { 0, 0 };
	uint64_t start, ns, seen = l5_signals;
	struct sets s;
	enum verdict v;
	int ret;

	if ((t && (t->tv_sec < 0 || t->tv_usec < 0 ||
		   t->tv_sec > 1000000000 || t->tv_usec > 1000000)) ||
	    !sets_take(&s, n, r, w, e))
		return real.select(n, r, w, e, t);
	ns = t ? t->tv_sec * NS + t->tv_usec * 1000 : UINT64_MAX;
	v = sets_consider(&s, ns, &start, seen);
	if (t && start) {
		ns = (left_of(ns, start) + 999) / 1000;
		*t = (struct timeval){ ns / 1000000, ns % 1000000 };
	}
	if (v == ANSWERED)
		return sets_answer(&s);
	if (v == ASK) {
		ret = real.select(n, r, w, e, &zero);
		if (ret || (t && !t->tv_sec && !t->tv_usec))
			return ret;
		sets_restore(&s);
		if (interrupted(&s.look, seen))
			return -1;
	}
	ret = real.select(n, r, w, e, t);
	sets_learn(&s, ret, start);
	return ret;
}

EXPORT int pselect(int n, fd_set *r, fd_set *w, fd_set *e,
		   const struct timespec *t, const sigset_t *set)
{
	static const struct timespec zero;
	uint64_t start, seen = l5_signals;
	struct timespec left;
	struct sets s;
	enum verdict v;
	int ret;

	if ((t && !good_time(t)) || !sets_take(&s, n, r, w, e))
		return real.pselect(n, r, w, e, t, set);
	s.look.masked = set;
	v = sets_consider(&s, spec_ns(t), &start, seen);
	if (v == ANSWERED)
		return sets_answer(&s);
	if (v == ASK) {
		ret = real.pselect(n, r, w, e, &zero, set);
		if (ret || (t && !t->tv_sec && !t->tv_nsec))
			return ret;
		sets_restore(&s);
		if (interrupted(&s.look, seen))
			return -1;
	}
	if (t)
		left = spec_left(t, start);
	ret = real.pselect(n, r, w, e, t ? &left : NULL, set);
	sets_learn(&s, ret, start);
	return ret;
}
