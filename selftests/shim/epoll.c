// SPDX-License-Identifier: GPL-2.0
/*
 * epoll under the preload library. The same steps on TCP, and on a mapped
 * connection, must give the same events: level, edge, oneshot, exclusive,
 * nested, in several sets, beside other descriptors, shared with a child.
 */
#ifndef SHIM
#define SHIM	shim_epoll
#endif
#include "shim.h"

#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

#include "epoll.h"
#include "hole.h"
#include "settle.h"

/* What a sequence of steps saw. */
struct log {
	enum kind kind;
	size_t len;
	char text[1 << 16];
};

__attribute__((format(printf, 2, 3)))
static void note(struct log *l, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	l->len += vsnprintf(l->text + l->len, sizeof(l->text) - l->len, format,
			    ap);
	va_end(ap);
}

#ifdef SHIM_ASK
/* The kernel is only asked about what user space does not know. */
__attribute__((constructor(101))) static void ask(void)
{
	setenv("L5_ASK_US", SHIM_ASK, 1);
}
#endif

#ifndef SHIM_ASK
/* By then the library asks the kernel again about what had an event lately. */
#define COLD_US	20000
#endif

/*
 * Let all that was sent arrive, and make the library look anew, by user space
 * alone if that is what this program is about.
 */
static void settle(void)
{
	l5_settle();
#ifdef COLD_US
	usleep(COLD_US);
#endif
}

static int by_data(const void *a, const void *b)
{
	const struct epoll_event *x = a, *y = b;

	if (x->data.u64 == y->data.u64)
		return 0;
	return x->data.u64 > y->data.u64 ? 1 : -1;
}

/* What epoll says, sorted. */
static void see(struct log *l, int ep, int timeout)
{
	struct epoll_event ev[16];
	int n, i;

	n = epoll_wait(ep, ev, 16, timeout);
	note(l, "%d:", n);
	qsort(ev, n > 0 ? n : 0, sizeof(ev[0]), by_data);
	for (i = 0; i < n; i++)
		note(l, " %d=%x", ev[i].data.u32, ev[i].events);
	note(l, "\n");
}

#define ADD(ep, fd, events, id)	note(l, "add %d\n", \
				     ep_ctl(ep, EPOLL_CTL_ADD, fd, events, id))
#define MOD(ep, fd, events, id)	note(l, "mod %d\n", \
				     ep_ctl(ep, EPOLL_CTL_MOD, fd, events, id))
#define DEL(ep, fd)		note(l, "del %d\n", \
				     ep_ctl(ep, EPOLL_CTL_DEL, fd, 0, 0))
#define SEND(fd, n)		do { \
					note(l, "send %zd\n", \
					     write(fd, data, n)); \
					settle(); \
				} while (0)
#define RECV(fd, n)		note(l, "recv %zd\n", \
				     recv(fd, data, n, MSG_DONTWAIT))
#define SEE(ep)			see(l, ep, 0)
#define WAIT(ep)		see(l, ep, 1000)

static char data[1 << 20];

/* Each scenario gets a connection, warm. */
typedef void scenario(struct log *l, int a, int b);

/*
 * Sockets that epoll reported lately are looked at in user space: make it
 * report.
 */
static void heat(int ep, int a, int b)
{
	struct epoll_event ev;
	char c;
	int i;

	for (i = 0; i < 50; i++) {
		if (write(a, "h", 1) != 1 || epoll_wait(ep, &ev, 1, 2000) != 1)
			abort();
		while (recv(b, &c, 1, MSG_DONTWAIT) != 1)
			;
	}
}

static void level(struct log *l, int a, int b)
{
	int ep = epoll_create1(0), round;

	ADD(ep, b, EPOLLIN, 1);
	for (round = 0; round < 3; round++) {
		SEE(ep);
		SEND(a, 10);
		SEE(ep);
		SEE(ep);
		RECV(b, 5);
		SEE(ep);
		RECV(b, 100);
		SEE(ep);
		if (!round)
			heat(ep, a, b);
	}
	MOD(ep, b, EPOLLIN | EPOLLOUT, 2);
	SEE(ep);
	SEND(a, 1);
	WAIT(ep);
	SEE(ep);
	MOD(ep, b, EPOLLOUT, 3);
	WAIT(ep);
	MOD(ep, b, 0, 4);
	SEE(ep);
	MOD(ep, b, EPOLLIN, 5);
	WAIT(ep);
	DEL(ep, b);
	SEE(ep);
	DEL(ep, b);
	ADD(ep, b, EPOLLIN | EPOLLRDHUP, 6);
	SEE(ep);
	ADD(ep, b, EPOLLIN, 7);
	RECV(b, 100);
	shutdown(a, SHUT_WR);
	settle();
	WAIT(ep);
	close(a);
	settle();
	SEE(ep);
	RECV(b, 10);
	SEE(ep);
	close(ep);
}

/* By the older call, whose size means nothing but is looked at. */
static void created(struct log *l, int a, int b)
{
	int ep, i;

	for (i = -1; i < 3; i++) {
		ep = epoll_create(i);
		if (i <= 0 ? ep >= 0 || errno != EINVAL : ep < 0)
			abort();
		if (i <= 0)
			continue;
		note(l, "flags %d\n", fcntl(ep, F_GETFD));
		ADD(ep, b, EPOLLIN, 1);
		heat(ep, a, b);
		SEND(a, 10);
		SEE(ep);
		SEE(ep);
		RECV(b, 100);
		SEE(ep);
		DEL(ep, b);
		SEND(a, 1);
		SEE(ep);
		RECV(b, 100);
		close(ep);
	}
}

static void edge(struct log *l, int a, int b)
{
	int ep = epoll_create1(0), round;

	ADD(ep, b, EPOLLIN | EPOLLET, 1);
	SEE(ep);
	for (round = 0; round < 3; round++) {
		SEND(a, 10);
		WAIT(ep);
		SEE(ep);
		/* not all is taken: nothing is said until more comes */
		RECV(b, 5);
		SEE(ep);
		SEND(a, 5);
		SEE(ep);
		SEE(ep);
		RECV(b, 100);
		RECV(b, 100);
		SEE(ep);
		/* taken before it is asked for */
		SEND(a, 3);
		RECV(b, 100);
		SEE(ep);
		if (!round)
			heat(ep, a, b);
		SEE(ep);
	}
	SEND(a, 1);
	SEE(ep);
	MOD(ep, b, EPOLLIN | EPOLLET, 2);
	SEE(ep);
	SEE(ep);
	RECV(b, 100);
	MOD(ep, b, EPOLLIN | EPOLLET, 2);
	SEE(ep);
	close(a);
	settle();
	WAIT(ep);
	SEE(ep);
	close(ep);
}

/* In and out at once, as nginx does. */
static void edge_both(struct log *l, int a, int b)
{
	const uint32_t both = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
	int ep = epoll_create1(0), round;

	ADD(ep, b, both, 1);
	SEE(ep);
	SEE(ep);
	for (round = 0; round < 3; round++) {
		SEND(a, 10);
		WAIT(ep);
		SEE(ep);
		RECV(b, 100);
		SEE(ep);
		SEND(b, 10);
		SEE(ep);
		RECV(a, 100);
		settle();
		SEE(ep);
		if (!round)
			heat(ep, a, b);
		SEE(ep);
	}
	close(ep);
}

/* By us or past us. Returns whether there was room. */
static bool fill(int fd, bool past)
{
	int n = 0;

	while ((past ? raw_write(fd, data, 30000) :
		       write(fd, data, 30000)) > 0)
		n++;
	return n;
}

/*
 * The edge of room: a writer that fills the ring hears of it once it is free.
 */
static void edge_room(struct log *l, int a, int b)
{
	int ep = epoll_create1(0), round, n, i;
	struct epoll_event ev;

	ADD(ep, b, EPOLLIN | EPOLLOUT | EPOLLET, 1);
	SEE(ep);
	heat(ep, a, b);
	for (round = 0; round < 6; round++) {
		fcntl(b, F_SETFL, O_NONBLOCK);
		/* until it stays full: what TCP has underway makes room */
		do {
			fill(b, round & 1);
			settle();
			while (epoll_wait(ep, &ev, 1, 0) > 0)
				;
		} while (fill(b, round & 1));
		/* on a busy machine TCP is slow to bring the rest */
		for (n = 0, i = 0; !n && i < 250; i++) {
			while (recv(a, data, sizeof(data), MSG_DONTWAIT) > 0)
				;
			n = epoll_wait(ep, &ev, 1, 20);
		}
		note(l, "%d %x\n", n, n > 0 ? ev.events : 0);
	}
	close(ep);
}

static void oneshot(struct log *l, int a, int b)
{
	int ep = epoll_create1(0), round;

	ADD(ep, b, EPOLLIN | EPOLLONESHOT, 1);
	for (round = 0; round < 3; round++) {
		SEND(a, 10);
		WAIT(ep);
		SEE(ep);
		RECV(b, 5);
		SEND(a, 10);
		SEE(ep);
		MOD(ep, b, EPOLLIN | EPOLLONESHOT, 2);
		WAIT(ep);
		SEE(ep);
		RECV(b, 100);
		MOD(ep, b, EPOLLIN | EPOLLONESHOT, 3);
		SEE(ep);
	}
	MOD(ep, b, EPOLLIN, 4);
	SEND(a, 1);
	SEE(ep);
	SEE(ep);
	close(ep);
}

static void exclusive(struct log *l, int a, int b)
{
	int ep = epoll_create1(0);

	ADD(ep, b, EPOLLIN | EPOLLEXCLUSIVE, 1);
	SEND(a, 10);
	WAIT(ep);
	SEE(ep);
	RECV(b, 100);
	SEE(ep);
	MOD(ep, b, EPOLLIN, 1);
	close(ep);
}

static void nested(struct log *l, int a, int b)
{
	int in = epoll_create1(0), out = epoll_create1(0), round;
	struct pollfd p = { .fd = out, .events = POLLIN };

	ADD(in, b, EPOLLIN, 1);
	ADD(out, in, EPOLLIN | EPOLLET, 2);
	for (round = 0; round < 3; round++) {
		SEE(out);
		SEND(a, 10);
		note(l, "poll %d\n", poll(&p, 1, 1000));
		WAIT(out);
		SEE(out);
		SEE(in);
		RECV(b, 100);
		SEE(in);
		SEE(out);
		if (!round)
			heat(in, a, b);
	}
	close(in);
	close(out);
}

/* The number of a closed socket is another one's now. */
static void reused(struct log *l, int a, int b)
{
	int ep = epoll_create1(0), c, d, old = b;

	ADD(ep, b, EPOLLIN, 1);
	heat(ep, a, b);
	SEND(a, 3);
	SEE(ep);
	close(b);
	SEE(ep);
	if (!shim_pair(l->kind, &c, &d) || !shim_warm(c, d))
		abort();
	/* one of the two new sockets has the old number */
	note(l, "reused %d\n", c == old || d == old);
	SEND(c, 1);
	SEND(d, 1);
	SEE(ep);
	ADD(ep, d, EPOLLIN, 2);
	SEE(ep);
	close(c);
	close(d);
	close(ep);
}

/* The same user data twice. */
static void same_data(struct log *l, int a, int b)
{
	int ep = epoll_create1(0), c, d;

	if (!shim_pair(l->kind, &c, &d) || !shim_warm(c, d))
		abort();
	ADD(ep, b, EPOLLIN | EPOLLET, 7);
	ADD(ep, d, EPOLLIN | EPOLLET, 7);
	SEND(a, 3);
	SEE(ep);
	SEND(c, 3);
	SEE(ep);
	SEND(a, 3);
	SEND(c, 3);
	SEE(ep);
	RECV(b, 10);
	RECV(d, 10);
	SEE(ep);
	close(c);
	close(d);
	close(ep);
}

/* A pipe that the library knows to be none of its sockets. */
static void known_pipe(int p[2])
{
	char c = 0;
	int i;

	if (pipe(p))
		abort();
	for (i = 0; i < 50; i++)
		if (write(p[1], &c, 1) != 1 || read(p[0], &c, 1) != 1)
			abort();
}

/*
 * What is no mapped socket has the same data as one: the program is told of
 * each. First a socket that was removed, then one that has had its edge.
 */
static void data_of_other(struct log *l, int a, int b)
{
	int ep = epoll_create1(0), p[2], round;

	known_pipe(p);
	for (round = 0; round < 2; round++) {
		ADD(ep, b, round ? EPOLLIN | EPOLLET : EPOLLIN, 7);
		heat(ep, a, b);
		if (!round)
			DEL(ep, b);
		ADD(ep, p[0], EPOLLIN, 7);
		SEND(p[1], 1);
		WAIT(ep);
		SEE(ep);
		WAIT(ep);
		if (read(p[0], data, 1) != 1)
			abort();
		SEE(ep);
		SEND(p[1], 1);
		WAIT(ep);
		/* the data of the two is changed, and is the same again */
		MOD(ep, p[0], EPOLLIN, 8);
		WAIT(ep);
		MOD(ep, p[0], EPOLLIN, 7);
		WAIT(ep);
		DEL(ep, p[0]);
		if (read(p[0], data, 1) != 1)
			abort();
		SEE(ep);
		if (!round)
			continue;
		SEND(a, 1);
		WAIT(ep);
		RECV(b, 9);
		DEL(ep, b);
	}
	close(p[0]);
	close(p[1]);
	close(ep);
}

/* The same with a registration of another socket that is not plain. */
static void data_of_oneshot(struct log *l, int a, int b)
{
	int ep = epoll_create1(0), c, d, round;

	if (!shim_pair(l->kind, &c, &d) || !shim_warm(c, d))
		abort();
	ADD(ep, b, EPOLLIN | EPOLLET, 7);
	heat(ep, a, b);
	ADD(ep, d, EPOLLIN | EPOLLONESHOT, 7);
	for (round = 0; round < 3; round++) {
		SEND(c, 1);
		WAIT(ep);
		SEE(ep);
		MOD(ep, d, EPOLLIN | EPOLLONESHOT, 7);
		WAIT(ep);
		RECV(d, 9);
		MOD(ep, d, EPOLLIN | EPOLLONESHOT, 7);
		SEE(ep);
	}
	/* plain, then removed, and back as another kind */
	ADD(ep, a, EPOLLIN, 5);
	heat(ep, b, a);
	DEL(ep, a);
	ADD(ep, a, EPOLLIN | EPOLLONESHOT, 5);
	SEND(b, 1);
	WAIT(ep);
	SEE(ep);
	RECV(a, 9);
	/* plain, and not any more */
	MOD(ep, d, EPOLLIN, 9);
	heat(ep, c, d);
	MOD(ep, d, EPOLLIN | EPOLLONESHOT, 9);
	SEND(c, 1);
	WAIT(ep);
	SEE(ep);
	RECV(d, 9);
	close(c);
	close(d);
	close(ep);
}

/* The same with a registration of a descriptor that is in another set, too. */
static void data_of_shared(struct log *l, int a, int b)
{
	int first = epoll_create1(0), ep = epoll_create1(0), p[2], c, d, i;

	if (!shim_pair(l->kind, &c, &d) || !shim_warm(c, d))
		abort();
	known_pipe(p);
	ADD(first, p[0], EPOLLIN, 1);
	ADD(first, d, EPOLLIN, 2);
	ADD(ep, b, EPOLLIN | EPOLLET, 7);
	heat(ep, a, b);
	ADD(ep, p[0], EPOLLIN, 7);
	SEND(p[1], 1);
	WAIT(ep);
	WAIT(first);
	if (read(p[0], data, 1) != 1)
		abort();
	DEL(ep, p[0]);
	ADD(ep, d, EPOLLIN | EPOLLET, 7);
	SEND(c, 1);
	WAIT(ep);
	WAIT(first);
	RECV(d, 9);
	SEE(ep);
	MOD(ep, d, EPOLLIN, 7);
	SEND(c, 1);
	WAIT(ep);
	WAIT(ep);
	DEL(ep, d);
	SEE(ep);
	SEND(a, 1);
	WAIT(ep);
	RECV(b, 9);
	/* more than are remembered */
	for (i = 0; i < 200; i++) {
		int e = eventfd(1, 0);

		if (e < 0 || ep_ctl(first, EPOLL_CTL_ADD, e, EPOLLIN, 100) ||
		    ep_ctl(ep, EPOLL_CTL_ADD, e, EPOLLIN, 7))
			abort();
		if (i % 50)
			ep_ctl(ep, EPOLL_CTL_DEL, e, 0, 0);
		close(e);
	}
	heat(ep, a, b);
	SEND(a, 1);
	WAIT(ep);
	close(p[0]);
	close(p[1]);
	close(c);
	close(d);
	close(first);
	close(ep);
}

struct sleeper {
	int ep;
	struct epoll_event ev;
	int n;
};

static void *sleeps(void *arg)
{
	struct sleeper *s = arg;

	s->n = epoll_wait(s->ep, &s->ev, 1, 5000);
	return NULL;
}

/* Registered anew with every request, while asleep, with a copy. */
static void churn(struct log *l, int a, int b)
{
	int ep = epoll_create1(0), round, d;
	struct pollfd p = { .fd = ep, .events = POLLIN };
	struct sleeper s = { .ep = ep };
	pthread_t t;

	ADD(ep, b, EPOLLIN, 1);
	heat(ep, a, b);
	for (round = 0; round < 30; round++) {
		ADD(ep, b, EPOLLIN, 1);
		DEL(ep, b);
		DEL(ep, b);
		MOD(ep, b, EPOLLIN, 1);
		if (round % 10 == 3) {
			SEND(a, 1);
			SEE(ep);
		}
		ADD(ep, b, EPOLLOUT, 2);
		SEE(ep);
		MOD(ep, b, EPOLLIN, 3);
		note(l, "none %d\n", ep_ctl(ep, 0, b, EPOLLIN, 3));
		note(l, "none %d\n", ep_ctl(ep, 7, b, EPOLLIN, 3));
		if (round % 10 == 3) {
			WAIT(ep);
			RECV(b, 10);
		}
		SEE(ep);
		if (round % 10 == 5) {
			DEL(ep, b);
			SEND(a, 1);
			note(l, "poll %d\n", poll(&p, 1, 0));
			ADD(ep, b, EPOLLIN, 4);
			note(l, "poll %d\n", poll(&p, 1, 0));
			SEE(ep);
			RECV(b, 10);
		}
	}
	/* a sleeper hears of what another thread registers */
	MOD(ep, b, 0, 5);
	if (!l5_wait_asleep(l5_thread_start(&t, NULL, sleeps, &s)))
		abort();
	MOD(ep, b, EPOLLOUT, 6);
	pthread_join(t, NULL);
	note(l, "slept %d %x %d\n", s.n, s.ev.events, s.ev.data.u32);
	/* what was removed stays removed, although a copy lives on */
	d = dup(b);
	DEL(ep, b);
	close(b);
	SEND(a, 1);
	SEE(ep);
	close(d);
	close(ep);
}

#ifdef SHIM_ASK
/* Steps where one call of ours reports all events. */

/*
 * One of several is closed: the others are reported once each, whichever was
 * closed and whichever is looked at first. A program reads once for each event,
 * and one that does not expect EAGAIN then takes it for an error.
 */
static void once(struct log *l, int a, int b)
{
	enum { ALL = 3 };
	int c[ALL], d[ALL], round, turn, victim, ep, i;
	struct epoll_event ev;

	(void)a;
	(void)b;
	for (round = 0; round < ALL * ALL; round++) {
		turn = round / ALL;
		victim = round % ALL;
		ep = epoll_create1(0);
		for (i = 0; i < ALL; i++) {
			if (!shim_pair(l->kind, &c[i], &d[i]) ||
			    !shim_warm(c[i], d[i]))
				abort();
			ADD(ep, d[i], EPOLLIN, i);
			heat(ep, c[i], d[i]);
		}
		for (i = 0; i < ALL; i++)
			if (write(c[i], "o", 1) != 1)
				abort();
		settle();
		for (i = 0; i < turn; i++)
			note(l, "first %d\n", epoll_wait(ep, &ev, 1, 0));
		close(d[victim]);
		SEE(ep);
		for (i = 0; i < ALL; i++) {
			if (i != victim) {
				RECV(d[i], 10);
				close(d[i]);
			}
			close(c[i]);
		}
		close(ep);
	}
}
#else
/* Steps where one call of ours need not report all events. */

static void several(struct log *l, int a, int b)
{
	int e1 = epoll_create1(0), e2 = epoll_create1(0), d = dup(b), round;

	ADD(e1, b, EPOLLIN | EPOLLET, 1);
	ADD(e2, b, EPOLLIN, 2);
	ADD(e1, d, EPOLLIN | EPOLLET, 3);
	for (round = 0; round < 3; round++) {
		SEND(a, 10);
		SEE(e1);
		SEE(e2);
		SEE(e1);
		SEE(e2);
		RECV(d, 100);
		SEE(e1);
		SEE(e2);
		if (!round)
			heat(e2, a, b);
		SEE(e1);
	}
	/* what is registered goes with the last descriptor */
	close(b);
	SEND(a, 1);
	SEE(e2);
	close(d);
	SEND(a, 1);
	SEE(e1);
	SEE(e2);
	close(e1);
	close(e2);
}

static void others(struct log *l, int a, int b)
{
	int ep = epoll_create1(0), ev = eventfd(0, 0), p[2], round;
	uint64_t one = 1;

	if (pipe(p))
		abort();
	ADD(ep, b, EPOLLIN, 1);
	ADD(ep, ev, EPOLLIN, 2);
	ADD(ep, p[0], EPOLLIN, 3);
	ADD(ep, p[1], EPOLLOUT | EPOLLET, 4);
	heat(ep, a, b);
	for (round = 0; round < 2; round++) {
		SEE(ep);
		SEE(ep);
		SEND(a, 1);
		SEND(ev, 8);
		SEND(p[1], 1);
		SEE(ep);
		RECV(b, 10);
		SEE(ep);
		if (read(ev, &one, 8) != 8 || read(p[0], &one, 1) != 1)
			abort();
		SEE(ep);
	}
	close(p[0]);
	settle();
	SEE(ep);
	close(p[1]);
	SEE(ep);
	close(ev);
	close(ep);
}
#endif

static void compare(struct __test_metadata *_metadata, scenario *run)
{
	static struct log logs[2];
	char *x, *y, *rest[2];
	int kind, a, b, line = 0;

	data[0] = 1;
	for (kind = TCP; kind <= L5; kind++) {
		memset(&logs[kind], 0, sizeof(logs[kind]));
		logs[kind].kind = kind;
		ASSERT_TRUE(shim_pair(kind, &a, &b));
		ASSERT_TRUE(shim_warm(a, b));
		if (kind == L5)
			ASSERT_LE(2, shim_maps());
		run(&logs[kind], a, b);
		close(a);
		close(b);
		rest[kind] = logs[kind].text;
	}
	for (;;) {
		x = strsep(&rest[TCP], "\n");
		y = strsep(&rest[L5], "\n");
		line++;
		if (!x || !y)
			break;
		EXPECT_STREQ(x, y) {
			TH_LOG("step %d: TCP %s, mapped %s", line, x, y);
		}
	}
	EXPECT_EQ(NULL, x);
	EXPECT_EQ(NULL, y);
}

#define SCENARIO(name)							\
	SHIM_TEST(name)							\
	{								\
		compare(_metadata, name);				\
	}

SCENARIO(level)
SCENARIO(created)
SCENARIO(edge)
SCENARIO(edge_both)
SCENARIO(edge_room)
SCENARIO(oneshot)
SCENARIO(exclusive)
SCENARIO(nested)
SCENARIO(reused)
SCENARIO(same_data)
SCENARIO(data_of_other)
SCENARIO(data_of_oneshot)
SCENARIO(data_of_shared)
SCENARIO(churn)
#ifdef SHIM_ASK
SCENARIO(once)

/* A thread that has its event written where memory comes late */
struct stuck {
	int ep, hole;
	struct epoll_event *ev;
};

static void *stuck_main(void *arg)
{
	struct stuck *s = arg;

	epoll_wait(s->ep, s->ev, 1, -1);
	return NULL;
}

static void *stuck_end(void *arg)
{
	struct stuck *s = arg;

	usleep(500000);
	close(s->hole);
	return NULL;
}

/*
 * A thread has the set's lock, and no CPU, for half a second. Another one that
 * is to tell the kernel what was turned off waits for it: what is off gives no
 * event.
 */
TEST_F_TIMEOUT(SHIM, lock_is_waited_for, 200)
{
	struct epoll_event ev[4], one = { .events = EPOLLIN, .data.u64 = 1 };
	int a, b, c, d, i, n;
	struct stuck s;
	pthread_t t, u;

	s.ev = hole_map(4096, &s.hole);
	if (!s.ev)
		SKIP(return, "no userfaultfd: %m");
	WARM_PAIR(L5, a, b);
	WARM_PAIR(L5, c, d);
	s.ep = epoll_create1(0);
	ASSERT_EQ(0, epoll_ctl(s.ep, EPOLL_CTL_ADD, b, &one));
	one.data.u64 = 2;
	ASSERT_EQ(0, epoll_ctl(s.ep, EPOLL_CTL_ADD, d, &one));
	ASSERT_EQ(1, write(a, "x", 1));
	ASSERT_EQ(1, write(c, "x", 1));
	/* it changes so often that the kernel is told later */
	for (i = 0; i < 10; i++) {
		ASSERT_EQ(0, epoll_ctl(s.ep, EPOLL_CTL_MOD, d, &one));
		ASSERT_EQ(2, epoll_wait(s.ep, ev, 4, i ? 0 : -1));
	}
	one.events = 0;
	ASSERT_EQ(0, epoll_ctl(s.ep, EPOLL_CTL_MOD, d, &one));
	ASSERT_TRUE(l5_wait_asleep(l5_thread_start(&t, NULL, stuck_main, &s)));
	pthread_create(&u, NULL, stuck_end, &s);
	n = epoll_wait(s.ep, ev, 4, 0);
	for (i = 0; i < n; i++)
		EXPECT_EQ(1, ev[i].data.u64);
	EXPECT_EQ(1, n);
	pthread_join(t, NULL);
	pthread_join(u, NULL);
	EXPECT_EQ(1, s.ev->data.u64);
	munmap(s.ev, 4096);
	close(a);
	close(b);
	close(c);
	close(d);
	close(s.ep);
}
#else
SCENARIO(several)
SCENARIO(others)
#endif

TEST_HARNESS_MAIN
