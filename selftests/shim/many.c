// SPDX-License-Identifier: GPL-2.0
/*
 * Many at once under the preload library: more mapped connections than are
 * looked at in user space, in one epoll set and in calls of poll() and
 * select(); more sets than there are words for; changes and closed sockets
 * without number. Each question is put to TCP first, and to the mapped
 * connections, too.
 */
#define SHIM	shim_many
#include "shim.h"

#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/wait.h>

#include "epoll.h"

enum {
	CONNS = 300,		/* both ends mapped: 600 of at most 1000 */
	SETS = 1100,
	COPIES = 1200,
	SLEEPERS = 6,
};

static const char *const kind_name[] = { "TCP", "mapped" };

static int a[CONNS], b[CONNS];
static uint64_t seed = 1;
static char buf[4096];

static unsigned int below(unsigned int n)
{
	return l5_rnd(&seed) % n;
}

static bool connect_one(enum kind kind, int l, const struct sockaddr_in *sa,
			int *c, int *s)
{
	int one = 1, small = 4096;

	*c = shim_socket(kind, 0);
	if (*c < 0)
		return false;
	if (kind == L5) {
		setsockopt(*c, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
		setsockopt(*c, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	}
	if (connect(*c, (const struct sockaddr *)sa, sizeof(*sa)))
		return false;
	*s = accept(l, NULL, NULL);
	if (*s < 0)
		return false;
	setsockopt(*c, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(*s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return shim_warm(*c, *s);
}

/* Connections @first to @last - 1; all of those of AF_L5 are mapped. */
static bool connect_many(enum kind kind, int first, int last)
{
	struct rlimit files = { 4096, 4096 };
	int before = shim_maps(), l, i;
	struct sockaddr_in sa;

	setrlimit(RLIMIT_NOFILE, &files);
	if (!shim_listen(kind, &l, &sa))
		return false;
	for (i = first; i < last; i++)
		if (!connect_one(kind, l, &sa, &a[i], &b[i]))
			return false;
	close(l);
	return kind == TCP || shim_maps() == before + 2 * (last - first);
}

static void close_many(int first, int last)
{
	int i;

	for (i = first; i < last; i++) {
		close(a[i]);
		close(b[i]);
	}
}

/* One more byte for b[i], by the library or past it. */
static bool give(enum kind kind, int i)
{
	int64_t end = l5_now_ms() + 10000 * l5_slow();
	int before = 0, n;

	if (kind == TCP && ioctl(b[i], FIONREAD, &before))
		return false;
	if ((below(2) ? write(a[i], "x", 1) : raw_write(a[i], "x", 1)) != 1)
		return false;
	/* TCP's bytes are not there at once, and others may be */
	while (kind == TCP) {
		if (ioctl(b[i], FIONREAD, &n))
			return false;
		if (n > before)
			break;
		if (l5_now_ms() > end)
			return false;
		usleep(100);
	}
	return true;
}

/* epoll: what is to be reported of each, as the manual has it */

static const uint32_t mode_events[] = {
	EPOLLIN, EPOLLIN | EPOLLET, EPOLLIN | EPOLLONESHOT,
};

enum mode { LEVEL, EDGE, ONESHOT };

/**
 * struct want - what is known of a registration
 * @in: it is registered
 * @armed: a oneshot registration is armed
 * @due: an event is to be reported, once
 * @seen: level-triggered: it was reported
 * @unread: bytes
 * @call: the last call that reported it
 */
struct want {
	bool in;
	bool armed;
	bool due;
	bool seen;
	int unread;
	int call;
};

static struct want want[CONNS];
static int calls;

static enum mode mode_of(int i)
{
	static const enum mode of[] = { LEVEL, EDGE, LEVEL, ONESHOT, LEVEL };

	return of[i % ARRAY_SIZE(of)];
}

/* There was something to read when it was registered, or changed. */
static void registered(int i)
{
	want[i].in = true;
	want[i].armed = true;
	want[i].due = want[i].unread;
}

static bool awaited(int i)
{
	struct want *w = &want[i];

	if (mode_of(i) == LEVEL)
		return w->in && w->unread && !w->seen;
	return w->due;
}

/* One call of epoll_wait(): how many of what was awaited, or why not. */
static const char *see(int ep, int max, int ms, int *left)
{
	static struct epoll_event ev[CONNS + 1];
	int n = epoll_wait(ep, ev, max, ms), k, i;

	calls++;
	if (n < 0)
		return "failed";
	if (!n && *left)
		return "lost";
	for (k = 0; k < n; k++) {
		i = ev[k].data.u64;
		if (i < 0 || i >= CONNS)
			return "nobody's";
		if (ev[k].events != EPOLLIN)
			return "other events";
		if (want[i].call == calls)
			return "twice in a call";
		want[i].call = calls;
		if (!want[i].in)
			return "of one that is not registered";
		if (mode_of(i) == LEVEL) {
			if (!want[i].unread)
				return "level, but nothing to read";
			*left -= !want[i].seen;
			want[i].seen = true;
			continue;
		}
		if (!want[i].due)
			return mode_of(i) == EDGE ? "an edge more than once" :
						    "oneshot, but not armed";
		want[i].due = false;
		want[i].armed = false;
		--*left;
	}
	return NULL;
}

/* All that is awaited is reported, and nothing else. */
static const char *see_all(int ep)
{
	static const int maxima[] = { 1, 3, 16, 100, CONNS + 1 };
	const char *why = NULL;
	int i, left = 0;

	for (i = 0; i < CONNS; i++) {
		want[i].seen = false;
		left += awaited(i);
	}
	while (left && !why)
		why = see(ep, maxima[below(5)], 10000, &left);
	for (i = 0; i < 3 && !why; i++)
		why = see(ep, CONNS + 1, 0, &left);
	return why;
}

static bool take(int i, int n)
{
	if (recv(b[i], buf, n, MSG_DONTWAIT) != n)
		return false;
	want[i].unread -= n;
	return true;
}

/* Something that a program might do with b[i]; @churn: with all of them. */
static bool act(int ep, int i, bool churn)
{
	struct want *w = &want[i];
	uint32_t events = mode_events[mode_of(i)];
	int k;

	switch (churn ? 2 : below(8)) {
	case 0:
		return w->unread < 2 || take(i, w->unread - 1);
	case 1:
		if (!w->in)
			return true;
		registered(i);
		return !ep_ctl(ep, EPOLL_CTL_MOD, b[i], events, i);
	case 2:
		/* some do this with every request */
		for (k = 0; w->in && k < 10; k++)
			if (ep_ctl(ep, EPOLL_CTL_DEL, b[i], 0, 0) ||
			    ep_ctl(ep, EPOLL_CTL_ADD, b[i], events, i))
				return false;
		if (w->in)
			registered(i);
		return true;
	case 3:
		if (w->in) {
			w->in = false;
			w->due = false;
			return !ep_ctl(ep, EPOLL_CTL_DEL, b[i], 0, 0);
		}
		registered(i);
		return !ep_ctl(ep, EPOLL_CTL_ADD, b[i], events, i);
	default:
		if (w->unread && !take(i, w->unread))
			return false;
		if (mode_of(i) != ONESHOT || w->armed || !w->in)
			return true;
		registered(i);
		return !ep_ctl(ep, EPOLL_CTL_MOD, b[i], events, i);
	}
}

static void epoll_many(struct __test_metadata *_metadata, enum kind kind)
{
	int ep = epoll_create1(0), round, i, share;
	const char *why;

	ASSERT_TRUE(connect_many(kind, 0, CONNS));
	memset(want, 0, sizeof(want));
	for (i = 0; i < CONNS; i++) {
		ASSERT_EQ(0, ep_ctl(ep, EPOLL_CTL_ADD, b[i],
				    mode_events[mode_of(i)], i));
		registered(i);
	}
	for (round = 0; round < 60; round++) {
		/* now few, now all */
		share = 1 + below(4) * below(4);
		for (i = 0; i < CONNS; i++) {
			struct want *w = &want[i];

			if (below(10) >= (unsigned int)share)
				continue;
			ASSERT_TRUE(give(kind, i));
			w->unread++;
			if (mode_of(i) != LEVEL)
				w->due = w->in && w->armed;
			if (mode_of(i) == EDGE)
				w->due = w->in;
		}
		why = see_all(ep);
		ASSERT_EQ(NULL, why) {
			TH_LOG("%s, round %d: %s", kind_name[kind], round, why);
		}
		for (i = 0; i < CONNS; i++) {
			ASSERT_TRUE(act(ep, i, round % 7 == 3)) {
				TH_LOG("%s, round %d, socket %d: %m",
				       kind_name[kind], round, i);
			}
		}
		why = see_all(ep);
		ASSERT_EQ(NULL, why) {
			TH_LOG("%s, round %d, after: %s", kind_name[kind],
			       round, why);
		}
	}
	close(ep);
	close_many(0, CONNS);
}

SHIM_TEST(epoll)
{
	epoll_many(_metadata, TCP);
	epoll_many(_metadata, L5);
}

/* More registrations than a set had room for at first. */
static void epoll_large(struct __test_metadata *_metadata, enum kind kind)
{
	int ep = epoll_create1(0), fd[COPIES], seen, i, n, k, round, id;
	static bool said[CONNS + COPIES + 1];
	static struct epoll_event ev[64];
	uint64_t x = 1;

	ASSERT_TRUE(connect_many(kind, 0, 60));
	for (i = 0; i < 60; i++)
		ASSERT_EQ(0, ep_ctl(ep, EPOLL_CTL_ADD, b[i],
				    mode_events[i % 2], i));
	for (i = 0; i < COPIES; i++) {
		fd[i] = i ? dup(fd[0]) : eventfd(0, 0);
		ASSERT_LE(0, fd[i]);
		ASSERT_EQ(0, ep_ctl(ep, EPOLL_CTL_ADD, fd[i], EPOLLIN,
				    CONNS + i));
	}
	for (round = 0; round < 30; round++) {
		memset(said, 0, sizeof(said));
		for (i = 0; i < 60; i++)
			ASSERT_TRUE(give(kind, i));
		if (round % 10 == 9)
			ASSERT_EQ(8, write(fd[0], &x, 8));
		seen = round % 10 == 9 ? COPIES + 60 : 60;
		while (seen) {
			n = epoll_wait(ep, ev, 64, 10000);
			ASSERT_LT(0, n);
			for (k = 0; k < n; k++) {
				id = ev[k].data.u64;
				ASSERT_EQ(EPOLLIN, ev[k].events);
				ASSERT_GT(CONNS + COPIES, id);
				seen -= !said[id];
				said[id] = true;
				if (id < 60)
					ASSERT_EQ(1, read(b[id], buf, 9));
			}
		}
		if (round % 10 == 9)
			ASSERT_EQ(8, read(fd[0], &x, 8));
		ASSERT_EQ(0, epoll_wait(ep, ev, 64, 0));
	}
	for (i = 0; i < COPIES; i++)
		close(fd[i]);
	close(ep);
	close_many(0, 60);
}

SHIM_TEST(epoll_grows)
{
	epoll_large(_metadata, TCP);
	epoll_large(_metadata, L5);
}

/* Sockets come, are closed, and leave nothing behind in a set that stays. */
static void epoll_closed(struct __test_metadata *_metadata, enum kind kind)
{
	enum { STAY = 10, ALL = 50 };
	int ep = epoll_create1(0), round, i, k, n, d;
	struct epoll_event ev[ALL];
	bool said[ALL];

	ASSERT_TRUE(connect_many(kind, 0, STAY));
	for (i = 0; i < STAY; i++)
		ASSERT_EQ(0, ep_ctl(ep, EPOLL_CTL_ADD, b[i], mode_events[i % 2],
				    i));
	for (round = 0; round < 6; round++) {
		ASSERT_TRUE(connect_many(kind, STAY, ALL));
		/* copies, too: they are registered, and not any more */
		for (i = 0; i < 100; i++) {
			d = dup(b[i % ALL]);
			ASSERT_LE(0, d);
			ASSERT_EQ(0, ep_ctl(ep, EPOLL_CTL_ADD, d, EPOLLIN,
					    ALL));
			ASSERT_EQ(0, ep_ctl(ep, EPOLL_CTL_DEL, d, 0, 0));
			close(d);
		}
		for (i = STAY; i < ALL; i++)
			ASSERT_EQ(0, ep_ctl(ep, EPOLL_CTL_ADD, b[i],
					    mode_events[i % 2], i));
		memset(said, 0, sizeof(said));
		for (i = 0; i < ALL; i++)
			ASSERT_TRUE(give(kind, i));
		/* half of them are closed with something to read */
		for (i = STAY; i < ALL; i += 2) {
			close(a[i]);
			close(b[i]);
		}
		for (i = STAY + (ALL - STAY) / 2; i; i -= n) {
			n = epoll_wait(ep, ev, ALL, 10000);
			ASSERT_LT(0, n);
			for (k = 0; k < n; k++) {
				d = ev[k].data.u64;
				ASSERT_GT(ALL, d);
				ASSERT_FALSE(said[d]);
				ASSERT_TRUE(d < STAY || d % 2);
				said[d] = true;
				ASSERT_EQ(1, read(b[d], buf, 9));
			}
		}
		for (i = STAY + 1; i < ALL; i += 2) {
			close(a[i]);
			close(b[i]);
		}
		ASSERT_EQ(0, epoll_wait(ep, ev, ALL, 0));
	}
	close(ep);
	close_many(0, STAY);
	if (kind == L5)
		ASSERT_EQ(0, shim_maps());
}

SHIM_TEST(epoll_forgets)
{
	epoll_closed(_metadata, TCP);
	epoll_closed(_metadata, L5);
}

/* What a set says of socket 0 and one more; no other is registered. */
static bool set_says(int ep, int other, bool zero, bool one)
{
	struct epoll_event ev[4];
	int n, i, id, calls = 0;

	if (!zero && !one)
		return !epoll_wait(ep, ev, 4, 0);
	while (zero || one) {
		n = epoll_wait(ep, ev, 4, 10000);
		if (n <= 0 || calls++ == 100)
			return false;
		for (i = 0; i < n; i++) {
			id = ev[i].data.u64;
			if (ev[i].events != EPOLLIN || (id && id != other))
				return false;
			if (id)
				one = false;
			else
				zero = false;
		}
	}
	return true;
}

/* One socket in all sets, and of the others each in several. */
static void many_sets(struct __test_metadata *_metadata, enum kind kind)
{
	enum { USED = 90 };
	static int ep[SETS];
	int i, round, other;
	bool ready[USED];

	ASSERT_TRUE(connect_many(kind, 0, USED));
	for (i = 0; i < SETS; i++) {
		ep[i] = epoll_create1(0);
		ASSERT_LE(0, ep[i]);
		other = 1 + i % (USED - 1);
		ASSERT_EQ(0, ep_ctl(ep[i], EPOLL_CTL_ADD, b[0], EPOLLIN, 0));
		ASSERT_EQ(0, ep_ctl(ep[i], EPOLL_CTL_ADD, b[other], EPOLLIN,
				    other));
	}
	for (round = 0; round < 12; round++) {
		for (i = 0; i < USED; i++) {
			ready[i] = i ? below(3) != 0 : round % 3 != 0;
			if (ready[i])
				ASSERT_TRUE(give(kind, i));
		}
		for (i = 0; i < SETS; i++) {
			other = 1 + i % (USED - 1);
			ASSERT_TRUE(set_says(ep[i], other, ready[0],
					     ready[other])) {
				TH_LOG("%s, round %d, set %d",
				       kind_name[kind], round, i);
			}
		}
		for (i = 0; i < USED; i++)
			if (ready[i])
				ASSERT_EQ(1, read(b[i], buf, 9));
	}
	for (i = 0; i < SETS; i++)
		close(ep[i]);
	close_many(0, USED);
}

SHIM_TEST(sets)
{
	many_sets(_metadata, TCP);
	many_sets(_metadata, L5);
}

/* poll() and select() say at once all that there is. */
static const int asked[] = { 1, 63, 64, 65, 100, 255, 256, 257, CONNS };

/* Are those of @n sockets ready that @in names, and have all of them room? */
static const char *poll_says(int n, const bool *in, bool out, int ms)
{
	static struct pollfd p[CONNS];
	int i, due = 0, got, e;

	for (i = 0; i < n; i++) {
		e = POLLIN | (out && i % 2 ? POLLOUT : 0);
		p[i] = (struct pollfd){ b[i], e, 0x55 };
		due += in[i] || e & POLLOUT;
	}
	got = poll(p, n, ms);
	if (got != due)
		return "how many";
	for (i = 0; i < n; i++)
		if (p[i].revents != ((in[i] ? POLLIN : 0) |
				     (p[i].events & POLLOUT)))
			return "which";
	return NULL;
}

static const char *select_says(int n, const bool *in, bool out, int ms)
{
	struct timeval tv = { ms / 1000, ms % 1000 * 1000 };
	int i, due = 0, top = 0, got;
	fd_set r, w, e;

	FD_ZERO(&r);
	FD_ZERO(&w);
	FD_ZERO(&e);
	for (i = 0; i < n; i++) {
		FD_SET(b[i], &r);
		FD_SET(b[i], &e);
		due += in[i];
		if (out && i % 2) {
			FD_SET(b[i], &w);
			due++;
		}
		if (b[i] >= top)
			top = b[i] + 1;
	}
	got = select(top, &r, &w, below(2) ? &e : NULL, &tv);
	if (got != due)
		return "how many";
	for (i = 0; i < n; i++)
		if (!!FD_ISSET(b[i], &r) != in[i] ||
		    !!FD_ISSET(b[i], &w) != (out && i % 2))
			return "which";
	return NULL;
}

static void poll_many(struct __test_metadata *_metadata, enum kind kind,
		      const char *(*says)(int, const bool *, bool, int))
{
	static bool in[CONNS];
	unsigned int k;
	const char *why;
	int round, i, any, ms;
	bool out;

	ASSERT_TRUE(connect_many(kind, 0, CONNS));
	ASSERT_GT(FD_SETSIZE, b[CONNS - 1]);
	for (round = 0; round < 12; round++) {
		for (i = 0; i < CONNS; i++) {
			in[i] = below(12) < (unsigned int)round;
			if (in[i])
				ASSERT_TRUE(give(kind, i));
		}
		for (k = 0; k < ARRAY_SIZE(asked); k++) {
			out = below(2);
			any = out && asked[k] > 1;
			for (i = 0; i < asked[k]; i++)
				any |= in[i];
			/* until there is something; what has none ends */
			ms = any ? 10000 : below(2) * 20;
			why = says(asked[k], in, out, ms);
			ASSERT_EQ(NULL, why) {
				TH_LOG("%s, %d of them, round %d: %s",
				       kind_name[kind], asked[k], round, why);
			}
		}
		for (i = 0; i < CONNS; i++)
			if (in[i])
				ASSERT_EQ(1, read(b[i], buf, 9));
	}
	close_many(0, CONNS);
}

SHIM_TEST(poll)
{
	poll_many(_metadata, TCP, poll_says);
	poll_many(_metadata, L5, poll_says);
}

SHIM_TEST(select)
{
	poll_many(_metadata, TCP, select_says);
	poll_many(_metadata, L5, select_says);
}

/* Urgent data of another socket, while mapped ones are asked about, too. */
SHIM_TEST(select_except)
{
	struct timeval tv;
	fd_set r, e;
	int c, d, i, k, top;

	ASSERT_TRUE(shim_pair(TCP, &c, &d));
	ASSERT_TRUE(connect_many(L5, 0, 70));
	top = b[69] + 1;
	for (i = 0; i < 4; i++) {
		/* nothing, urgent data, and both */
		if (i == 1)
			ASSERT_EQ(1, send(c, "u", 1, MSG_OOB));
		if (i == 2)
			ASSERT_TRUE(give(L5, 69));
		if (i == 3)
			ASSERT_EQ(1, recv(d, buf, 1, MSG_OOB));
		FD_ZERO(&r);
		FD_ZERO(&e);
		FD_SET(d, &e);
		for (k = 0; k < 70; k++) {
			FD_SET(b[k], &r);
			FD_SET(b[k], &e);
		}
		tv = (struct timeval){ i ? 10 : 0, 20000 };
		ASSERT_EQ(i == 2 ? 2 : i != 0, select(top, &r, NULL, &e, &tv));
		ASSERT_EQ(i == 1 || i == 2, !!FD_ISSET(d, &e));
		ASSERT_EQ(i >= 2, !!FD_ISSET(b[69], &r));
		for (k = 0; k < 70; k++)
			ASSERT_FALSE(FD_ISSET(b[k], &e));
	}
	/* nothing but that */
	FD_ZERO(&e);
	FD_SET(b[69], &e);
	tv = (struct timeval){ 0, 20000 };
	ASSERT_EQ(0, select(top, NULL, NULL, &e, &tv));
	ASSERT_FALSE(FD_ISSET(b[69], &e));
	close(c);
	close(d);
	close_many(0, 70);
}

/* EPOLLEXCLUSIVE: several sleep, each in a set of its own. */
struct sleeper {
	pthread_t thread;
	int fd;
	atomic_int tid;
	atomic_long wakes;
};

static atomic_long taken;
/* A sleeper that takes one is busy until this changes; 0: is not. */
static atomic_int hold;

static void *sleeps(void *arg)
{
	int ep = epoll_create1(0);
	struct sleeper *s = arg;
	struct epoll_event ev;
	ssize_t n;
	int busy;
	char c;

	if (ep_ctl(ep, EPOLL_CTL_ADD, s->fd, EPOLLIN | EPOLLEXCLUSIVE, 1))
		return "add";
	atomic_store(&s->tid, gettid());
	for (;;) {
		if (epoll_wait(ep, &ev, 1, -1) != 1)
			return "wait";
		atomic_fetch_add(&s->wakes, 1);
		n = recv(s->fd, &c, 1, MSG_DONTWAIT);
		if (!n)
			break;
		if (n != 1)
			continue;
		busy = atomic_load(&hold);
		atomic_fetch_add(&taken, 1);
		while (busy && atomic_load(&hold) == busy)
			usleep(200);
	}
	close(ep);
	return NULL;
}

/* One sleeper takes it, whichever that is. */
static bool reaches(long n)
{
	int64_t end = l5_now_ms() + 10000 * l5_slow();

	while (atomic_load(&taken) < n && l5_now_ms() < end)
		usleep(50);
	return atomic_load(&taken) == n;
}

static void exclusive(struct __test_metadata *_metadata, const char *name,
		      int from, int to)
{
	static struct sleeper s[SLEEPERS];
	long n = 0, wakes = 0;
	int round, i;
	void *why;

	memset(s, 0, sizeof(s));
	atomic_store(&taken, 0);
	for (i = 0; i < SLEEPERS; i++) {
		s[i].fd = to;
		ASSERT_EQ(0, pthread_create(&s[i].thread, NULL, sleeps, &s[i]));
	}
	for (i = 0; i < SLEEPERS; i++)
		while (!atomic_load(&s[i].tid))
			usleep(100);
	for (round = 0; round < 300; round++) {
		/* asleep all of them, or just as they are */
		for (i = 0; round % 4 == 0 && i < SLEEPERS; i++)
			ASSERT_TRUE(l5_wait_asleep(s[i].tid));
		ASSERT_EQ(1, round & 1 ? raw_write(from, "x", 1) :
			     write(from, "x", 1));
		ASSERT_TRUE(reaches(++n)) {
			TH_LOG("%s: message %d wakes nobody", name, round);
		}
	}
	for (i = 0; i < SLEEPERS; i++)
		wakes += atomic_load(&s[i].wakes);
	TH_LOG("%s: %ld messages, %ld returns", name, n, wakes);
	ASSERT_LE(n, wakes);
	/* a sleeper that has one is busy: the next one is another's */
	for (round = 0; round < 10; round++) {
		atomic_store(&hold, round + 1);
		for (i = 0; i < SLEEPERS; i++) {
			ASSERT_EQ(1, i & 1 ? raw_write(from, "x", 1) :
				     write(from, "x", 1));
			ASSERT_TRUE(reaches(++n)) {
				TH_LOG("%s: %d are busy, the others sleep on",
				       name, i);
			}
		}
	}
	atomic_store(&hold, 0);
	shutdown(from, SHUT_WR);
	for (i = 0; i < SLEEPERS; i++) {
		ASSERT_EQ(0, pthread_join(s[i].thread, &why));
		ASSERT_EQ(NULL, why);
	}
	close(from);
	close(to);
}

SHIM_TEST(exclusive)
{
	int c, d, s[2];

	ASSERT_EQ(0, syscall(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, s));
	exclusive(_metadata, "AF_UNIX", s[0], s[1]);
	ASSERT_TRUE(shim_pair(TCP, &c, &d));
	exclusive(_metadata, "TCP", c, d);
	WARM_PAIR(L5, c, d);
	exclusive(_metadata, "mapped", c, d);
}

static void *writes_once(void *arg)
{
	return write(*(int *)arg, "x", 1) == 1 ? NULL : "write";
}

/* KiB of addresses */
static long addresses(void)
{
	long pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (!f || fscanf(f, "%ld", &pages) != 1)
		pages = 0;
	if (f)
		fclose(f);
	return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* A thread for each request: the place of an ended one serves the next. */
SHIM_TEST(threads_come_and_go)
{
	long before = 0;
	pthread_t th;
	int a, b, i;
	void *why;
	char c;

	WARM_PAIR(L5, a, b);
	for (i = 0; i < 5000; i++) {
		if (i == 1500)
			before = addresses();
		ASSERT_EQ(0, pthread_create(&th, NULL, writes_once, &a));
		ASSERT_EQ(0, pthread_join(th, &why));
		ASSERT_EQ(NULL, why);
		ASSERT_EQ(1, read(b, &c, 1));
	}
	TH_LOG("%ld KiB, then %ld", before, addresses());
	EXPECT_LT(0, before);
	EXPECT_GT(before + 128, addresses());
	close(a);
	close(b);
}

/* The library leaves most of a limit on addresses to the program. */
SHIM_TEST(address_limit)
{
	const struct rlimit limit = { 400 << 20, 400 << 20 };
	struct rlimit now;
	int a, b, i, status;
	pid_t pid;
	void *p;

	ASSERT_EQ(0, getrlimit(RLIMIT_AS, &now));
	if (now.rlim_cur == RLIM_INFINITY) {
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
			setrlimit(RLIMIT_AS, &limit);
			setenv("L5_TEST", "shim_many.address_limit", 1);
			execl("/proc/self/exe", "many", NULL);
			_exit(99);
		}
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		EXPECT_EQ(0, status);
		return;
	}
	for (i = 0; i < 100; i++) {
		ASSERT_TRUE(shim_pair(L5, &a, &b));
		ASSERT_TRUE(shim_warm(a, b));
	}
	EXPECT_LT(0, shim_maps());
	p = malloc(200 << 20);
	EXPECT_NE(NULL, p);
	free(p);
}

TEST_HARNESS_MAIN
