// SPDX-License-Identifier: GPL-2.0
/*
 * poll(), select() and their relatives.
 *
 * If all that is asked about is mapped and something is ready, or the call does
 * not wait, the rings say all that there is to say. If a ring is ready among
 * descriptors of other kinds, the kernel is asked for the complete truth, and
 * does not wait. Else the rings are looked at for a while, as long as that has
 * paid lately, and then the kernel sleeps for what is left of the time-out: its
 * ->poll arms the rings. Other descriptors wait for no longer than that while.
 *
 * A call with a mask of signals also asks whether a signal is pending that the
 * mask lets in, which only the kernel knows. Signals that the mask keeps out
 * are not to end the call, as they would end a look. So unless the rings are
 * ready such a call goes to the kernel at once, whether it waits or not.
 *
 * A mapped socket with an error, a shutdown, a peer that closed or an option
 * that is the kernel's to keep counts as a descriptor of another kind. Events
 * other than those below make it one, too: a ring has no urgent data, no
 * hangup.
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
/* events that a healthy ring never has */
#define NO_EVENTS	(POLLPRI | POLLRDBAND | POLLRDHUP | POLLERR | \
			 POLLHUP | POLLNVAL)

enum {
	LOOK_MAX = 256,		/* descriptors; more go to the kernel */
	SETS_MAX = 64,		/* mapped ones in select()'s sets */
};

static __thread struct l5_adapt adapt
	__attribute__((tls_model("initial-exec")));
static __thread bool adapt_known __attribute__((tls_model("initial-exec")));

/**
 * struct look - a question
 * @wait: how it waits
 * @fds: the descriptors
 * @n: how many
 * @ready: rings that were ready
 * @others: descriptors that are the kernel's
 * @more: there are others beside those of @fds
 * @answered: @ready is the answer
 * @ns: the time-out; 0 is not to wait, UINT64_MAX is without end
 * @set: signals, of a call that has a mask of them
 * @kernel: the system call, at once or for what is left of the time-out; as
 *	@fds says it, too, what is ready
 */
struct look {
	struct l5_wait wait;
	struct pollfd *fds;
	unsigned int n;
	unsigned int ready;
	unsigned int others;
	bool more;
	bool answered;
	uint64_t ns;
	const sigset_t *set;
	int (*kernel)(struct look *l, bool now);
};

static bool may_be_memory(const void *p)
{
	return (uintptr_t)p >= 65536 && (intptr_t)p > 0;
}

/*
 * Is any of them mapped? If not the call is not worth a second thought. But it
 * may wait for a set of epoll's in which something will be mapped.
 */
static bool any_mapped(struct pollfd *fds, nfds_t n)
{
	bool any = false;
	uintptr_t word;
	nfds_t i;

	if (l5_likely(!fd_maps() && !ep_any()) || !may_be_memory(fds))
		return false;
	for (i = 0; i < n; i++) {
		word = fd_word(fds[i].fd);
		if (fd_is_sock(word))
			any = true;
		else if ((word & FD_KIND) == FD_EP)
			ep_unseen(fd_word_ep(word));
	}
	return any && n <= LOOK_MAX;
}

/* What the rings of a descriptor say; false if it is not a mapped socket. */
static bool fd_ready(int fd, short events, unsigned int *got)
{
	struct sock *s = sock_look(fd);

	if (!s)
		return false;
	*got = sock_ready(s, (events & IN_EVENTS ? L5_READY_IN : 0) |
			     (events & OUT_EVENTS ? L5_READY_OUT : 0));
	sock_done();
	return true;
}

/* What a ring says, or -1: ask the kernel. */
static int ring_events(int fd, short events)
{
	unsigned int got;

	if (events & ~(IN_EVENTS | OUT_EVENTS | NO_EVENTS) ||
	    !fd_ready(fd, events, &got) || got & L5_READY_ASK)
		return -1;
	return (got & L5_READY_IN ? events & IN_EVENTS : 0) |
	       (got & L5_READY_OUT ? events & OUT_EVENTS : 0);
}

static void look(struct look *l)
{
	unsigned int i;
	int got;

	l->ready = 0;
	l->others = l->more;
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
	unsigned int i, got;

	for (i = 0; i < l->n; i++)
		if (fd_ready(l->fds[i].fd, l->fds[i].events, &got) && got)
			return true;
	return false;
}

/* The kernel slept: would a longer look have been worth while? */
static void learn(const struct look *l, int ret, uint64_t start)
{
	unsigned int i;

	if (!start)
		return;
	for (i = 0; ret > 0 && i < l->n; i++)
		if (l->fds[i].revents && fd_is_sock(fd_word(l->fds[i].fd)))
			break;
	/* the event was no ring's: then it would not */
	if (ret > 0 && i == l->n)
		start = 0;
	l5_adapt_woke(&adapt, start);
}

/*
 * What the rings say. It is the answer if all that is asked about is mapped and
 * something is ready, or the call does not wait; if a ring is ready among
 * others, or was a moment ago, the kernel is asked.
 */
static ssize_t poll_attempt(struct l5_wait *w)
{
	struct look *l = l5_call_of(w, struct look);

	look(l);
	if (!l->others && (l->ready || (!l->ns && !l->set))) {
		stats_poll(L5_STATS_SAVED);
		l->answered = true;
		return l->ready;
	}
	w->dontwait = l->ready || !l->ns || w->fruitless;
	return L5_TRY_AGAIN;
}

/* Only the kernel knows which signals are to end a call with a mask of them. */
static bool poll_look(struct l5_wait *w)
{
	struct look *l = l5_call_of(w, struct look);
	bool paid;

	if (l5_unlikely(l->set))
		return false;
	if (l5_unlikely(!adapt_known)) {
		l5_adapt_init(&adapt);
		adapt_known = true;
	}
	paid = fd_wait_for(&adapt, look_ready, l, &w->start, l->ns, w->seen);
	stats_poll_look(paid);
	return paid;
}

/* A mask lets signals in within the system call alone. */
static ssize_t poll_rest(struct l5_wait *w, ssize_t why)
{
	struct look *l = l5_call_of(w, struct look);
	bool came = !l->set && !l5_wait_quiet(w), ask = w->dontwait || came;
	int ret;

	(void)why;
	stats_poll(ask ? L5_STATS_OTHERS : L5_STATS_SLEPT);
	if (ask) {
		ret = l->kernel(l, true);
		if (ret || !l->ns)
			return ret;
		if (came) {
			errno = EINTR;
			return -1;
		}
	}
	ret = l->kernel(l, false);
	learn(l, ret, w->start);
	return ret;
}

/* All of them; @l has what was asked. */
static int consider(struct look *l)
{
	l5_wait_begin(&l->wait);
	pthread_testcancel();
	sig_settle();
	return l5_wait_loop(&l->wait, poll_attempt, poll_look, poll_rest);
}

/* What is left of the time-out, as far as it is known that some is gone */
static uint64_t left_of(const struct look *l)
{
	uint64_t start = l->wait.start, gone;

	gone = start ? l5_since(l5_map_now(), start) : 0;
	return gone < l->ns ? l->ns - gone : 0;
}

static int kernel_poll(struct look *l, bool now)
{
	int ms = -1;

	if (now)
		ms = 0;
	else if (l->ns != UINT64_MAX)
		ms = (left_of(l) + 999999) / 1000000;
	return real.poll(l->fds, l->n, ms);
}

EXPORT int poll(struct pollfd *fds, nfds_t n, int ms)
{
	struct look l;

	if (!any_mapped(fds, n))
		return real.poll(fds, n, ms);
	l = (struct look){
		.fds = fds, .n = n, .kernel = kernel_poll,
		.ns = ms < 0 ? UINT64_MAX : ms * 1000000ull,
	};
	return consider(&l);
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

/* As a system call takes it, NULL without end */
static const struct timespec *spec_of(const struct look *l, bool now,
				      struct timespec *t)
{
	uint64_t ns = now ? 0 : left_of(l);

	*t = (struct timespec){ ns / NS, ns % NS };
	return now || l->ns != UINT64_MAX ? t : NULL;
}

static int kernel_ppoll(struct look *l, bool now)
{
	struct timespec t;

	return real.ppoll(l->fds, l->n, spec_of(l, now, &t), l->set);
}

EXPORT int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *t,
		 const sigset_t *set)
{
	struct look l;

	if (!any_mapped(fds, n) || (t && !good_time(t)))
		return real.ppoll(fds, n, t, set);
	l = (struct look){
		.fds = fds, .n = n, .kernel = kernel_ppoll,
		.ns = spec_ns(t), .set = set,
	};
	return consider(&l);
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
 * @look: the mapped ones, and whether there is anything else
 * @fds: memory for @look
 * @t: of select(), which has it changed
 * @slept: the kernel has changed it
 * @n: of select()
 * @set: those of the caller, may be NULL
 * @asked: the sets as they were, since a call that finds nothing clears them
 */
struct sets {
	struct look look;
	struct pollfd fds[SETS_MAX];
	struct timeval *t;
	bool slept;
	int n;
	union bits *set[3];
	union bits asked[3];
};

#define SET_BYTES(n)	(((n) + 63) / 64 * 8)

static bool sets_take(struct sets *s, int n, fd_set *r, fd_set *w, fd_set *e)
{
	unsigned long any;
	int i, fd, k;

	if (l5_likely(!fd_maps() && !ep_any()) || n <= 0)
		return false;
	if (n > FD_SETSIZE) {
		/* where the sets really end only the kernel knows */
		ep_unseen_all();
		return false;
	}
	s->n = n;
	s->set[0] = (union bits *)r;
	s->set[1] = (union bits *)w;
	s->set[2] = (union bits *)e;
	s->look = (struct look){ .fds = s->fds };
	for (i = 0; i < n; i += 64) {
		any = 0;
		for (k = 0; k < 3; k++) {
			if (s->set[k])
				any |= s->set[k]->word[i / 64];
		}
		for (fd = i; any && fd < n; fd++, any >>= 1) {
			struct pollfd *p = &s->fds[s->look.n];
			uintptr_t word;

			if (!(any & 1))
				continue;
			word = fd_word(fd);
			if ((word & FD_KIND) == FD_EP)
				ep_unseen(fd_word_ep(word));
			if (!fd_is_sock(word) ||
			    s->look.n == SETS_MAX) {
				s->look.more = true;
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

/* Put the answer into the caller's sets; returns how many bits. */
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

static bool is_set(const union bits *b, int fd)
{
	return b && FD_ISSET(fd, &b->set);
}

/* What the kernel found, as poll() would have it */
static int sets_found(struct sets *s, bool now, int ret)
{
	unsigned int i;

	for (i = 0; i < s->look.n; i++) {
		struct pollfd *p = &s->fds[i];

		p->revents = ret > 0 && (is_set(s->set[0], p->fd) ||
					 is_set(s->set[1], p->fd));
	}
	/* the call goes on */
	if (now && !ret && s->look.ns)
		sets_restore(s);
	return ret;
}

#define SETS_OF(l)	((struct sets *)(void *)((char *)(l) -		\
				offsetof(struct sets, look)))

static fd_set *sets_of(const struct sets *s, int k)
{
	return (fd_set *)s->set[k];
}

/* select() says what is left of its time-out, as far as we know of it. */
static void sets_left(struct sets *s)
{
	uint64_t us;

	if (!s->t || !s->look.wait.start)
		return;
	us = (left_of(&s->look) + 999) / 1000;
	*s->t = (struct timeval){ us / 1000000, us % 1000000 };
}

static int kernel_select(struct look *l, bool now)
{
	struct timeval zero = { 0, 0 };
	struct sets *s = SETS_OF(l);

	if (!now) {
		sets_left(s);
		s->slept = true;
	}
	return sets_found(s, now, real.select(s->n, sets_of(s, 0),
					      sets_of(s, 1), sets_of(s, 2),
					      now ? &zero : s->t));
}

EXPORT int select(int n, fd_set *r, fd_set *w, fd_set *e, struct timeval *t)
{
	struct sets s;
	int ret;

	if (!sets_take(&s, n, r, w, e) ||
	    (t && (t->tv_sec < 0 || t->tv_usec < 0 ||
		   t->tv_sec > 1000000000 || t->tv_usec > 1000000)))
		return real.select(n, r, w, e, t);
	s.t = t;
	s.slept = false;
	s.look.kernel = kernel_select;
	s.look.ns = t ? t->tv_sec * NS + t->tv_usec * 1000 : UINT64_MAX;
	ret = consider(&s.look);
	if (!s.slept)
		sets_left(&s);
	return s.look.answered ? sets_answer(&s) : ret;
}

static int kernel_pselect(struct look *l, bool now)
{
	struct sets *s = SETS_OF(l);
	struct timespec t;

	return sets_found(s, now, real.pselect(s->n, sets_of(s, 0),
					       sets_of(s, 1), sets_of(s, 2),
					       spec_of(l, now, &t), l->set));
}

EXPORT int pselect(int n, fd_set *r, fd_set *w, fd_set *e,
		   const struct timespec *t, const sigset_t *set)
{
	struct sets s;
	int ret;

	if (!sets_take(&s, n, r, w, e) || (t && !good_time(t)))
		return real.pselect(n, r, w, e, t, set);
	s.look.kernel = kernel_pselect;
	s.look.set = set;
	s.look.ns = spec_ns(t);
	ret = consider(&s.look);
	return s.look.answered ? sets_answer(&s) : ret;
}
