// SPDX-License-Identifier: GPL-2.0
/* poll, select, epoll: at every stage of a connection's life. */
#define DIFF	diff_poll
#include "diff.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/wait.h>

#include "epoll.h"

static char buf[1 << 16];

static void log_epoll(struct ctx *c, const char *label, int ep, int timeout)
{
	struct epoll_event ev[8];
	char s[256] = "", b[128];
	int i, n;

	n = epoll_wait(ep, ev, 8, timeout);
	for (i = 0; i < n; i++) {
		events_name(ev[i].events & 0xffff, b, sizeof(b));
		snprintf(s + strlen(s), sizeof(s) - strlen(s), " %d:%s%s",
			 ev[i].data.u32, b,
			 ev[i].events & ~0xffffu ? "+" : "");
	}
	V(label, "%d%s", n, s);
}

/* What epoll says now; E1 gives it time to come. */
#define E(ep)	log_epoll(c, "epoll now", ep, 0)
#define E1(ep)	log_epoll(c, "epoll", ep, \
			  (is_unix(c) ? 300 : 10000) * l5_slow())

/* What fill() put in last, for empty() to take out. */
static long filled;

static void fill(struct ctx *c, int fd)
{
	long n;

	filled = fill_up(fd);
	n = send(fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	log_ret(c, "send into a full socket", n);
	filled += n > 0;
	V("something fits", "%d", filled > 0);
}

/*
 * Take out what fill() put in, all of it: TCP may rest for longer than a
 * pause tells from its end, on its way out of a closed window. Returns the
 * number of bytes.
 */
static long empty(int fd)
{
	int64_t end = l5_now_ms() + 10000 * l5_slow();
	long n, sum = 0;

	while (sum < filled && l5_now_ms() < end) {
		n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
		if (n > 0)
			sum += n;
		else
			usleep(1000);
	}
	return sum;
}

SCENARIO(stages)
{
	int s = cl_socket(c, 0), l = sv_socket(c, 0), l2, a;
	struct addr x;

	P(s, 0);
	addr_new(c, &x);
	OK(bind(s, SA(&x), x.len));
	P(s, 0);
	addr_new(c, &c->la);
	OK(bind(l, SA(&c->la), c->la.len));
	P(l, 0);
	OK(listen(l, 4));
	P(l, 0);
	addr_of(l, &c->la);
	OK(connect(s, SA(&c->la), c->la.len));
	P(l, POLLIN);
	P(s, POLLOUT);
	a = OK(accept(l, NULL, NULL));
	P(l, 0);
	P(a, POLLOUT);
	OK(send(s, "x", 1, 0));
	P(a, POLLIN);
	OK(recv(a, buf, 1, 0));
	P(a, 0);
	fill(c, s);
	P(s, 0);
	P(a, POLLIN);
	N(empty(a) == filled);
	P(s, POLLOUT);
	P(a, 0);
	OK(shutdown(s, SHUT_WR));
	P(a, POLLRDHUP);
	P(s, 0);
	OK(send(a, "yz", 2, 0));
	P(s, POLLIN);
	OK(shutdown(a, SHUT_WR));
	P(a, POLLHUP);
	P(s, POLLHUP);
	R(recv(s, buf, 9, 0));
	P(s, POLLHUP);
	R(recv(s, buf, 9, 0));
	R(recv(a, buf, 9, 0));
	P(s, POLLHUP);
	P(a, POLLHUP);
	l2 = listener(c, 4);
	OK(shutdown(l2, SHUT_RD));
	P(l2, 0);
	OK(shutdown(l, SHUT_RDWR));
	P(l, 0);
}

SCENARIO(shut_ends)
{
	pair(c);
	P(c->a, POLLOUT);
	OK(shutdown(c->a, SHUT_RD));
	P(c->a, POLLRDHUP);
	P(c->b, POLLOUT);
	R(send(c->b, "x", 1, MSG_NOSIGNAL));
	settle(c);
	P(c->a, POLLIN);
	OK(shutdown(c->a, SHUT_WR));
	P(c->a, POLLHUP);
	P(c->b, POLLRDHUP);
	close(c->b);
	P(c->a, POLLHUP);
}

SCENARIO(closed_peer)
{
	pair(c);
	OK(send(c->b, "last", 4, 0));
	close(c->b);
	P(c->a, POLLRDHUP);
	settle(c);
	R(recv(c->a, buf, 9, 0));
	P(c->a, POLLRDHUP);
	R(recv(c->a, buf, 9, 0));
	R(send(c->a, "x", 1, MSG_NOSIGNAL));
	P(c->a, POLLHUP | POLLERR);
	R(send(c->a, "x", 1, MSG_NOSIGNAL));
	P(c->a, POLLHUP);
	R(recv(c->a, buf, 9, 0));
}

SCENARIO(reset_peer)
{
	struct linger lg = { 1, 0 };

	pair(c);
	OK(send(c->b, "lost?", 5, 0));
	await(c->a, 5);
	OK(setsockopt(c->b, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg)));
	close(c->b);
	P(c->a, is_unix(c) ? POLLHUP : POLLERR | POLLHUP);
	R(recv(c->a, buf, 9, 0));
	P(c->a, POLLHUP);
	R(recv(c->a, buf, 9, 0));
	P(c->a, POLLHUP);
	R(send(c->a, "x", 1, MSG_NOSIGNAL));
	P(c->a, POLLHUP);
}

SCENARIO(subset_of_events)
{
	struct pollfd p = { 0 };
	static const short evs[] = {
		0, POLLIN, POLLOUT, POLLRDHUP, POLLPRI, POLLIN | POLLOUT,
		POLLRDNORM, POLLWRNORM, POLLRDBAND, POLLWRBAND,
	};
	unsigned int i, stage;

	pair(c);
	p.fd = c->a;
	for (stage = 0; stage < 4; stage++) {
		for (i = 0; i < ARRAY_SIZE(evs); i++) {
			p.events = evs[i];
			p.revents = 0;
			R(poll(&p, 1, 0));
			N(p.revents);
		}
		switch (stage) {
		case 0:
			OK(send(c->b, "x", 1, 0));
			P(c->a, POLLIN);
			break;
		case 1:
			OK(shutdown(c->b, SHUT_WR));
			P(c->a, POLLRDHUP);
			break;
		case 2:
			OK(shutdown(c->a, SHUT_WR));
			P(c->a, POLLHUP);
			break;
		}
	}
}

SCENARIO(select_call)
{
	fd_set r, w, x;
	struct timeval tv = { 0, 0 }, tv1 = { 5, 0 };

	pair(c);
#define SEL(t) do {							\
	FD_ZERO(&r); FD_ZERO(&w); FD_ZERO(&x);				\
	FD_SET(c->a, &r); FD_SET(c->a, &w); FD_SET(c->a, &x);		\
	R(select(c->a + 1, &r, &w, &x, t));				\
	N(!!FD_ISSET(c->a, &r));					\
	N(!!FD_ISSET(c->a, &w));					\
	N(!!FD_ISSET(c->a, &x));					\
} while (0)
	SEL(&tv);
	fill(c, c->a);
	SEL(&tv);
	OK(send(c->b, "x", 1, 0));
	P(c->a, POLLIN);
	SEL(&tv1);
	N(empty(c->b) == filled);
	P(c->a, POLLOUT);
	SEL(&tv1);
	OK(recv(c->a, buf, 9, 0));
	OK(shutdown(c->b, SHUT_WR));
	P(c->a, POLLRDHUP);
	SEL(&tv1);
}

SCENARIO(epoll_level)
{
	int ep = epoll_create1(0);

	pair(c);
	R(ep_ctl(ep, EPOLL_CTL_ADD, c->a, EPOLLIN | EPOLLRDHUP, 1));
	R(ep_ctl(ep, EPOLL_CTL_ADD, c->a, EPOLLIN, 1));
	E(ep);
	OK(send(c->b, "abc", 3, 0));
	E1(ep);
	E1(ep);
	OK(recv(c->a, buf, 1, 0));
	E1(ep);
	OK(recv(c->a, buf, 2, 0));
	E(ep);
	R(ep_ctl(ep, EPOLL_CTL_MOD, c->a, EPOLLIN | EPOLLOUT, 2));
	E1(ep);
	R(ep_ctl(ep, EPOLL_CTL_MOD, c->a, 0, 3));
	E(ep);
	OK(send(c->b, "abc", 3, 0));
	E(ep);
	R(ep_ctl(ep, EPOLL_CTL_MOD, c->a, EPOLLIN, 4));
	E1(ep);
	R(epoll_ctl(ep, EPOLL_CTL_DEL, c->a, NULL));
	R(epoll_ctl(ep, EPOLL_CTL_DEL, c->a, NULL));
	E(ep);
	R(ep_ctl(ep, EPOLL_CTL_ADD, c->a, EPOLLIN | EPOLLRDHUP, 5));
	OK(recv(c->a, buf, 9, 0));
	E(ep);
	OK(shutdown(c->b, SHUT_WR));
	E1(ep);
	E1(ep);
	close(c->a);
	E(ep);
}

SCENARIO(epoll_edge)
{
	int ep = epoll_create1(0);

	pair(c);
	R(ep_ctl(ep, EPOLL_CTL_ADD, c->a, EPOLLIN | EPOLLET, 1));
	E(ep);
	OK(send(c->b, "abcdef", 6, 0));
	E1(ep);
	E(ep);
	/* A partial drain makes no edge, new data does. */
	OK(recv(c->a, buf, 2, 0));
	E(ep);
	OK(send(c->b, "g", 1, 0));
	E1(ep);
	E(ep);
	R(recv(c->a, buf, 99, 0));
	R(recv(c->a, buf, 99, MSG_DONTWAIT));
	E(ep);
	OK(send(c->b, "h", 1, 0));
	E1(ep);
	OK(recv(c->a, buf, 99, 0));
	/* Without an EAGAIN in between. */
	OK(send(c->b, "i", 1, 0));
	E1(ep);
	E(ep);
	/* MOD makes an edge of what is there. */
	R(ep_ctl(ep, EPOLL_CTL_MOD, c->a, EPOLLIN | EPOLLET, 2));
	E1(ep);
	E(ep);
	OK(shutdown(c->b, SHUT_WR));
	/* the end wakes more than once */
	settle(c);
	E1(ep);
	E(ep);
}

SCENARIO(epoll_edge_peek)
{
	int ep = epoll_create1(0), i;

	pair(c);
	R(ep_ctl(ep, EPOLL_CTL_ADD, c->a, EPOLLIN | EPOLLET | EPOLLRDHUP, 1));
	/* Each of many single messages is an edge, read or not. */
	for (i = 0; i < 20; i++) {
		OK(send(c->b, "x", 1, 0));
		E1(ep);
		if (i & 1)
			R(recv(c->a, buf, 1, MSG_PEEK));
		if (i % 3 == 0)
			R(recv(c->a, buf, 1, 0));
	}
	E(ep);
	close(c->b);
	settle(c);
	E1(ep);
	E(ep);
}

SCENARIO(epoll_edge_out)
{
	int ep = epoll_create1(0);

	pair(c);
	R(ep_ctl(ep, EPOLL_CTL_ADD, c->a,
		 EPOLLIN | EPOLLOUT | EPOLLET | EPOLLRDHUP, 1));
	E1(ep);
	E(ep);
	fill(c, c->a);
	settle(c);
	E(ep);
	E(ep);
	N(empty(c->b) == filled);
	E1(ep);
	E(ep);
	OK(send(c->b, "x", 1, 0));
	E1(ep);
	E(ep);
	OK(shutdown(c->b, SHUT_WR));
	/* the end wakes more than once */
	settle(c);
	E1(ep);
	E(ep);
	OK(shutdown(c->a, SHUT_WR));
	settle(c);
	E1(ep);
	E(ep);
}

SCENARIO(epoll_oneshot)
{
	int ep = epoll_create1(0);

	pair(c);
	R(ep_ctl(ep, EPOLL_CTL_ADD, c->a, EPOLLIN | EPOLLONESHOT, 1));
	OK(send(c->b, "ab", 2, 0));
	E1(ep);
	E(ep);
	OK(send(c->b, "cd", 2, 0));
	E(ep);
	R(ep_ctl(ep, EPOLL_CTL_MOD, c->a, EPOLLIN | EPOLLONESHOT, 2));
	E1(ep);
	E(ep);
	await(c->a, 4);
	R(recv(c->a, buf, 99, 0));
	R(ep_ctl(ep, EPOLL_CTL_MOD, c->a, EPOLLIN | EPOLLONESHOT | EPOLLET, 3));
	E(ep);
	OK(send(c->b, "e", 1, 0));
	E1(ep);
	E(ep);
	close(c->b);
	settle(c);
	E(ep);
	R(ep_ctl(ep, EPOLL_CTL_MOD, c->a,
		 EPOLLIN | EPOLLRDHUP | EPOLLONESHOT, 4));
	E1(ep);
	E(ep);
}

/* Registered before there is anything: all of life through one epoll. */
SCENARIO(epoll_from_birth)
{
	int s = cl_socket(c, SOCK_NONBLOCK), ep = epoll_create1(0), l, a;

	l = listener(c, 4);
	R(ep_ctl(ep, EPOLL_CTL_ADD, s, EPOLLIN | EPOLLRDHUP, 1));
	R(ep_ctl(ep, EPOLL_CTL_ADD, l, EPOLLIN, 2));
	E(ep);
	if (connect(s, SA(&c->la), c->la.len) && errno != EINPROGRESS)
		V("connect", "failed %m");
	P(l, POLLIN);
	P(s, POLLOUT);
	E1(ep);
	a = OK(accept(l, NULL, NULL));
	E(ep);
	R(ep_ctl(ep, EPOLL_CTL_ADD, a, EPOLLIN | EPOLLRDHUP | EPOLLET, 3));
	OK(send(s, "x", 1, 0));
	E1(ep);
	OK(send(a, "y", 1, 0));
	P(s, POLLIN);
	E1(ep);
	OK(recv(s, buf, 9, 0));
	E(ep);
	close(a);
	P(s, POLLRDHUP);
	E1(ep);
	OK(shutdown(l, SHUT_RDWR));
	E(ep);
}

SCENARIO(epoll_edge_from_birth)
{
	int s = cl_socket(c, SOCK_NONBLOCK), ep = epoll_create1(0), l, a, i;
	struct epoll_event ev;
	unsigned int all = 0;

	l = listener(c, 4);
	R(ep_ctl(ep, EPOLL_CTL_ADD, s,
		 EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, 1));
	E(ep);
	if (connect(s, SA(&c->la), c->la.len) && errno != EINPROGRESS)
		V("connect", "failed %m");
	/*
	 * When TCP is up there is an edge for writing; at least one. AF_UNIX
	 * is connected at once, and has none.
	 */
	for (i = 0; i < (is_unix(c) ? 5 : 100) && !(all & EPOLLOUT); i++)
		if (epoll_wait(ep, &ev, 1, 100) == 1)
			all |= ev.events;
	N(all & (EPOLLIN | EPOLLOUT));
	a = OK(accept(l, NULL, NULL));
	check_transport(c, s, false);
	check_transport(c, a, true);
	while (epoll_wait(ep, &ev, 1, 50) == 1)
		;
	OK(send(a, "y", 1, 0));
	E1(ep);
	E(ep);
	OK(send(a, "z", 1, 0));
	E1(ep);
	E(ep);
}

SCENARIO(epoll_nested)
{
	int in = epoll_create1(0), out = epoll_create1(0);
	struct pollfd p = { .fd = out, .events = POLLIN };

	pair(c);
	R(ep_ctl(in, EPOLL_CTL_ADD, c->a, EPOLLIN, 1));
	R(ep_ctl(out, EPOLL_CTL_ADD, in, EPOLLIN | EPOLLET, 2));
	E(out);
	R(poll(&p, 1, 0));
	OK(send(c->b, "x", 1, 0));
	E1(out);
	E1(in);
	E(out);
	OK(send(c->b, "y", 1, 0));
	R(poll(&p, 1, 2000));
	E1(out);
	E1(in);
	R(recv(c->a, buf, 9, 0));
	E(in);
	R(ep_ctl(out, EPOLL_CTL_MOD, in, EPOLLIN, 3));
	E(out);
	OK(send(c->b, "y", 1, 0));
	E1(out);
	E1(out);
}

SCENARIO(epoll_two)
{
	int e1 = epoll_create1(0), e2 = epoll_create1(0), fd;

	pair(c);
	R(ep_ctl(e1, EPOLL_CTL_ADD, c->a, EPOLLIN | EPOLLET, 1));
	R(ep_ctl(e2, EPOLL_CTL_ADD, c->a, EPOLLIN, 2));
	fd = dup(c->a);
	R(ep_ctl(e2, EPOLL_CTL_ADD, fd, EPOLLOUT, 3));
	OK(send(c->b, "x", 1, 0));
	E1(e1);
	E(e1);
	E1(e2);
	OK(recv(fd, buf, 9, 0));
	E(e2);
	/* The description lives on in the duplicate. */
	close(c->a);
	OK(send(c->b, "y", 1, 0));
	P(fd, POLLIN);
	E1(e1);
	E1(e2);
}

SCENARIO(epoll_exclusive)
{
	int e1 = epoll_create1(0), e2 = epoll_create1(0);

	pair(c);
	R(ep_ctl(e1, EPOLL_CTL_ADD, c->a, EPOLLIN | EPOLLEXCLUSIVE, 1));
	R(ep_ctl(e2, EPOLL_CTL_ADD, c->a, EPOLLIN | EPOLLEXCLUSIVE, 2));
	R(ep_ctl(epoll_create1(0), EPOLL_CTL_ADD, c->a,
		 EPOLLIN | EPOLLEXCLUSIVE | EPOLLONESHOT, 3));
	R(ep_ctl(e1, EPOLL_CTL_MOD, c->a, EPOLLIN | EPOLLEXCLUSIVE, 1));
	OK(send(c->b, "x", 1, 0));
	/* an exclusive sleeper would keep it from the other set */
	await(c->a, 1);
	E1(e1);
	E1(e2);
	OK(recv(c->a, buf, 9, 0));
	E(e1);
	E(e2);
}

static int wait_ep;
static int woken;

static void *waiter(void *arg)
{
	struct epoll_event ev;

	*(volatile pid_t *)arg = gettid();
	if (epoll_wait(wait_ep, &ev, 1, 30000) == 1)
		__atomic_add_fetch(&woken, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

/* Threads sleeping in one epoll: one message with ET wakes one of them. */
SCENARIO(epoll_threads_edge)
{
	volatile pid_t tid[3] = { 0 };
	pthread_t t[3];
	int i;

	pair(c);
	wait_ep = epoll_create1(0);
	R(ep_ctl(wait_ep, EPOLL_CTL_ADD, c->a, EPOLLIN | EPOLLET, 1));
	for (i = 0; i < 3; i++) {
		pthread_create(&t[i], NULL, waiter, (void *)&tid[i]);
		while (!tid[i])
			usleep(100);
		l5_wait_asleep(tid[i]);
	}
	OK(send(c->b, "x", 1, 0));
	for (i = 0; i < 2000 && !woken; i++)
		usleep(1000);
	/* a time in which no other may be woken */
	usleep(50000);
	N(woken);
	OK(send(c->b, "x", 1, 0));
	for (i = 0; i < 2000 && woken < 2; i++)
		usleep(1000);
	/* nor here */
	usleep(50000);
	N(woken);
}

static void send_x(struct ctx *c)
{
	send(c->b, "x", 1, 0);
}

static void empty_b(struct ctx *c)
{
	empty(c->b);
}

static void fin_b(struct ctx *c)
{
	shutdown(c->b, SHUT_WR);
}

/* Something happens while the caller sleeps in poll, select, epoll_wait. */
SCENARIO(woken_for_data)
{
	struct pollfd p = { .events = POLLIN };
	struct epoll_event ev;
	int ep = epoll_create1(0);
	fd_set r;

	pair(c);
	p.fd = c->a;
	when_asleep(c, send_x);
	R(poll(&p, 1, 15000));
	N(p.revents);
	OK(recv(c->a, buf, 9, 0));
	FD_ZERO(&r);
	FD_SET(c->a, &r);
	when_asleep(c, send_x);
	R(select(c->a + 1, &r, NULL, NULL, NULL));
	OK(recv(c->a, buf, 9, 0));
	R(ep_ctl(ep, EPOLL_CTL_ADD, c->a, EPOLLIN, 1));
	when_asleep(c, send_x);
	R(epoll_wait(ep, &ev, 1, 15000));
	OK(recv(c->a, buf, 9, 0));
	R(ep_ctl(ep, EPOLL_CTL_MOD, c->a, EPOLLIN | EPOLLET, 1));
	when_asleep(c, send_x);
	R(epoll_wait(ep, &ev, 1, 15000));
	OK(recv(c->a, buf, 9, 0));
	R(ep_ctl(ep, EPOLL_CTL_MOD, c->a, EPOLLRDHUP, 1));
	when_asleep(c, fin_b);
	R(epoll_wait(ep, &ev, 1, 15000));
	N(ev.events);
}

SCENARIO(woken_for_room)
{
	struct pollfd p = { .events = POLLOUT };
	struct epoll_event ev;
	int ep = epoll_create1(0);

	pair(c);
	p.fd = c->a;
	fill(c, c->a);
	R(poll(&p, 1, 0));
	when_asleep(c, empty_b);
	R(poll(&p, 1, 15000));
	N(p.revents);
	wait(NULL);
	fill(c, c->a);
	R(ep_ctl(ep, EPOLL_CTL_ADD, c->a, EPOLLOUT, 1));
	when_asleep(c, empty_b);
	R(epoll_wait(ep, &ev, 1, 15000));
	wait(NULL);
	fill(c, c->a);
	R(ep_ctl(ep, EPOLL_CTL_MOD, c->a, EPOLLOUT | EPOLLET, 1));
	when_asleep(c, empty_b);
	R(epoll_wait(ep, &ev, 1, 15000));
}

static void close_b(struct ctx *c)
{
	close(c->b);
}

/* A sleeper that wants nothing still hears of the end. */
SCENARIO(woken_for_the_end)
{
	struct pollfd p = { .events = 0 };
	struct linger lg = { 1, 0 };

	pair(c);
	p.fd = c->a;
	OK(setsockopt(c->b, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg)));
	when_asleep(c, close_b);
	close(c->b);
	R(poll(&p, 1, 15000));
	N(p.revents);
}

static void connect_l(struct ctx *c)
{
	int s = cl_socket(c, 0);

	connect(s, SA(&c->la), c->la.len);
	pause();
}

SCENARIO(woken_listener)
{
	int l = listener(c, 4), ep = epoll_create1(0);
	struct pollfd p = { .fd = l, .events = POLLIN };
	struct epoll_event ev;

	when_asleep(c, connect_l);
	R(poll(&p, 1, 15000));
	N(p.revents);
	R(accept(l, NULL, NULL) >= 0);
	R(ep_ctl(ep, EPOLL_CTL_ADD, l, EPOLLIN | EPOLLET, 1));
	when_asleep(c, connect_l);
	R(epoll_wait(ep, &ev, 1, 15000));
	E(ep);
	beside(c, connect_l);
	R(epoll_wait(ep, &ev, 1, 15000));
	E(ep);
	R(accept(l, NULL, NULL) >= 0);
	R(accept(l, NULL, NULL) >= 0);
	OK(fcntl(l, F_SETFL, O_NONBLOCK));
	R(accept(l, NULL, NULL));
}

SCENARIO(lowat)
{
	int ep = epoll_create1(0), v = 10;

	pair(c);
	R(setsockopt(c->a, SOL_SOCKET, SO_RCVLOWAT, &v, sizeof(v)));
	R(ep_ctl(ep, EPOLL_CTL_ADD, c->a, EPOLLIN, 1));
	OK(send(c->b, "12345", 5, 0));
	await(c->a, 5);
	P(c->a, 0);
	E(ep);
	OK(send(c->b, "67890", 5, 0));
	P(c->a, POLLIN);
	E1(ep);
	R(recv(c->a, buf, 4, 0));
	P(c->a, 0);
	E(ep);
	/* The rest comes with the end. */
	OK(shutdown(c->b, SHUT_WR));
	P(c->a, POLLIN);
	E1(ep);
}

TEST_HARNESS_MAIN
