// SPDX-License-Identifier: GPL-2.0
/* TCP_DEFER_ACCEPT: listeners that want bytes first. */
#define DIFF	diff_defer
#include "diff.h"

static unsigned char buf[512];

/* TCP_DEFER_ACCEPT: accept() only once there is data. */
SCENARIO_ON(tcp, defer_accept)
{
	int l = listener(c, 4), s = cl_socket(c, 0), v = 5, a;

	R(setsockopt(l, IPPROTO_TCP, TCP_DEFER_ACCEPT, &v, sizeof(v)));
	R(connect(s, SA(&c->la), c->la.len));
	settle(c);
	P(l, 0);
	R(send(s, "now", 3, 0));
	P(l, POLLIN);
	a = OK(accept(l, NULL, NULL));
	R(recv(a, buf, 9, 0));
	R(send(a, "you", 3, 0));
	R(recv(s, buf, 9, 0));
	check_transport(c, s, false);
	check_transport(c, a, true);
}

/* A listener with the option, and a client that is connected to it. */
static int deferred(struct ctx *c, int secs, int flags, int *s)
{
	struct pollfd p = { .events = POLLOUT };
	int l = listener(c, 4);

	R(setsockopt(l, IPPROTO_TCP, TCP_DEFER_ACCEPT, &secs, sizeof(secs)));
	*s = cl_socket(c, flags);
	p.fd = *s;
	R(connect(*s, SA(&c->la), c->la.len));
	if (flags & SOCK_NONBLOCK)
		R(poll(&p, 1, 10000));
	return l;
}

/* What made it acceptable is there, once, and before the end. */
SCENARIO_ON(tcp, defer_accept_first)
{
	int s, l = deferred(c, 5, 0, &s), a, n;

	R(send(s, "first", 5, 0));
	R(send(s, "second", 6, 0));
	P(l, POLLIN);
	a = OK(accept(l, NULL, NULL));
	n = R(recv(a, buf, 3, MSG_DONTWAIT));
	D(buf, n);
	await(a, 8);
	n = R(recv(a, buf, 99, MSG_DONTWAIT));
	D(buf, n);
	R(recv(a, buf, 99, MSG_DONTWAIT));
	R(send(s, "third", 5, 0));
	OK(close(s));
	P(a, POLLRDHUP | POLLIN);
	n = R(recv(a, buf, 99, 0));
	D(buf, n);
	R(recv(a, buf, 99, 0));
	R(recv(a, buf, 99, 0));
	check_transport(c, a, true);
}

/* One that is closed with all of it read sends no reset. */
SCENARIO_ON(tcp, defer_accept_answered)
{
	int s, l = deferred(c, 5, SOCK_NONBLOCK, &s), a, n;

	l5_fill(buf, 60000, 0);
	n = R(send(s, buf, 60000, 0));
	P(l, POLLIN);
	a = OK(accept(l, NULL, NULL));
	R(drain(a, n, 0));
	R(send(a, "answer", 6, 0));
	check_transport(c, s, false);
	check_transport(c, a, true);
	OK(close(a));
	P(s, POLLRDHUP | POLLIN);
	n = R(recv(s, buf, 99, 0));
	D(buf, n);
	R(recv(s, buf, 99, 0));
	R(recv(s, buf, 99, 0));
}

/* The first bytes are more than any buffer has. */
static void feed_much(struct ctx *c)
{
	feed(c->b, 1 << 20, 0);
}

SCENARIO_ON(tcp, defer_accept_much)
{
	int l = deferred(c, 5, 0, &c->b), a;

	beside(c, feed_much);
	P(l, POLLIN);
	a = OK(accept(l, NULL, NULL));
	R(drain(a, 1 << 20, 0));
	R(feed(a, 100, 0));
	R(drain(c->b, 100, 0));
}

/* Of several senders of the first bytes each has its own in one piece. */
static void send_a(struct ctx *c)
{
	send(c->b, "aaaaaaaa", 8, 0);
}

static void send_b(struct ctx *c)
{
	send(c->b, "bbbbbbbb", 8, 0);
}

SCENARIO_ON(tcp, defer_accept_two)
{
	int l = deferred(c, 5, 0, &c->b), a, n = 0, got, whole = 0;

	beside(c, send_a);
	beside(c, send_b);
	a = OK(accept(l, NULL, NULL));
	while (n < 16 && (got = recv(a, buf + n, 16 - n, 0)) > 0)
		n += got;
	N(n);
	whole += !memcmp(buf, "aaaaaaaabbbbbbbb", 16);
	whole += !memcmp(buf, "bbbbbbbbaaaaaaaa", 16);
	N(whole);
}

/* Nothing comes: once the time is over the server is asked to speak. */
SCENARIO_ON(tcp, defer_accept_in_vain)
{
	int s, l = deferred(c, 1, 0, &s), a, n;

	R(recv(s, buf, 9, MSG_DONTWAIT));
	P(s, POLLOUT);
	P(l, POLLIN);
	a = OK(accept(l, NULL, NULL));
	R(recv(a, buf, 9, MSG_DONTWAIT));
	R(send(a, "hello", 5, 0));
	n = R(recv(s, buf, 9, 0));
	D(buf, n);
	R(send(s, "well", 4, 0));
	n = R(recv(a, buf, 9, 0));
	D(buf, n);
	check_transport(c, s, false);
	check_transport(c, a, true);
}

static void greet(struct ctx *c)
{
	int a = OK(accept(c->b, NULL, NULL));

	send(a, "hello", 5, 0);
	recv(a, buf, 9, 0);
}

/* A client that is asleep, and not in poll(), hears of it. */
SCENARIO_ON(tcp, defer_accept_waits)
{
	int s, n;

	c->b = deferred(c, 1, 0, &s);
	when_asleep(c, greet);
	n = R(recv(s, buf, 9, 0));
	D(buf, n);
	R(send(s, "x", 1, 0));
}

SCENARIO_ON(tcp, defer_accept_timeout)
{
	struct timeval tv = { .tv_usec = 50000 };
	int s;

	deferred(c, 60, 0, &s);
	R(setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
	R(recv(s, buf, 9, 0));
	R(send(s, "", 0, 0));
	R(recv(s, buf, 9, MSG_OOB));
	R(connect(s, SA(&c->la), c->la.len));
	P(s, POLLOUT);
}

/* An end is as good as a byte. */
SCENARIO_ON(tcp, defer_accept_end)
{
	int s, l = deferred(c, 60, 0, &s), a, n;

	R(shutdown(s, SHUT_WR));
	P(l, POLLIN);
	a = OK(accept(l, NULL, NULL));
	R(recv(a, buf, 9, 0));
	R(send(a, "hello", 5, 0));
	n = R(recv(s, buf, 9, 0));
	D(buf, n);
	OK(close(a));
	P(s, POLLIN | POLLHUP);
	R(recv(s, buf, 9, 0));
}

SCENARIO_ON(tcp, defer_accept_close)
{
	int s, l = deferred(c, 60, 0, &s), a;

	OK(close(s));
	P(l, POLLIN);
	a = OK(accept(l, NULL, NULL));
	R(recv(a, buf, 9, 0));
	R(send(a, "hello", 5, MSG_NOSIGNAL));
}

/* Urgent data before any other stays TCP's. */
SCENARIO_ON(tcp, defer_accept_oob)
{
	int s, l = deferred(c, 60, 0, &s), a;

	R(send(s, "x", 1, MSG_OOB));
	P(l, POLLIN);
	a = OK(accept(l, NULL, NULL));
	P(a, POLLPRI);
	R(recv(a, buf, 9, MSG_OOB));
}

/* The listener is gone by then. */
SCENARIO_ON(tcp, defer_accept_gone)
{
	int s, l = deferred(c, 60, 0, &s);

	OK(close(l));
	settle(c);
	P(s, POLLOUT);
	R(send(s, "now", 3, MSG_NOSIGNAL));
	P(s, POLLHUP | POLLERR);
	R(recv(s, buf, 9, 0));
	R(recv(s, buf, 9, 0));
	R(send(s, "now", 3, MSG_NOSIGNAL));
}

/* The option comes and goes between the handshake and the bytes. */
SCENARIO_ON(tcp, defer_accept_off)
{
	int s, l = deferred(c, 60, 0, &s), a, n, off = 0;

	R(setsockopt(l, IPPROTO_TCP, TCP_DEFER_ACCEPT, &off, sizeof(off)));
	R(send(s, "now", 3, 0));
	a = OK(accept(l, NULL, NULL));
	n = R(recv(a, buf, 9, 0));
	D(buf, n);
	check_transport(c, s, false);
}

TEST_HARNESS_MAIN
