// SPDX-License-Identifier: GPL-2.0
/*
 * What open connections cost a server that say nothing: round trips a second
 * over a few connections in turn, one message at a time, first with only these
 * open, then with more open, then with the few again. Prints the rate with the
 * few, before and after, and the rate with all.
 *
 * The server asks which connection has something as is best for the transport:
 * the mailbox, if there is one, or l5_wait_any() with --array, or epoll_wait().
 */
#include "bench.h"

#include <err.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/epoll.h>

#include "../userspace/lib/libl5.h"

#define SIZE		64	/* bytes of a message, as of the answer */
#define WARM_UP		4	/* turns through the few before the clock */
#define BATCH		64	/* connections a look may find */
#define TOGETHER	8	/* connections that are opened at once */
#define FILES		64	/* numbers of files that are no connections */

/* First byte of a message */
#define ASK		'?'
#define MORE		'+'	/* the server accepts the others */
#define LESS		'-'	/* it closes them */
#define END		'.'

struct many {
	struct setup setup;
	unsigned long few;
	unsigned long all;
	unsigned long array;	/* l5_wait_any(), not the mailbox */
	int listener;
	struct address where;
	struct stream *st;
	unsigned long open;
	/* The server's */
	struct l5_mailbox *mailbox;
	struct l5_event *event;
	struct stream **by_fd;
	int epoll;
};

static bool by_lib(const struct many *m)
{
	return m->setup.transport->carrier == CARRIER_LIB;
}

static void open_until(struct many *m, unsigned long n,
		       void (*one)(struct many *m, struct stream *st))
{
	unsigned long settled = m->open;

	/* Some at a time: hosts take their time to agree on RDMA. */
	while (settled < n) {
		for (; m->open < n && m->open < settled + TOGETHER; m->open++)
			one(m, &m->st[m->open]);
		for (; settled < m->open; settled++)
			stream_settle(&m->st[settled], &m->setup);
	}
}

static void close_until(struct many *m, unsigned long n)
{
	while (m->open > n)
		stream_close(&m->st[--m->open]);
}

static void accept_one(struct many *m, struct stream *st)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = m->open };

	stream_accept(st, &m->setup, m->listener);
	if (m->mailbox) {
		m->by_fd[st->fd] = st;
		if (l5_mailbox_attach(m->mailbox, st->lib))
			err(1, "l5_mailbox_attach");
	} else if (by_lib(m)) {
		m->event[m->open] = (struct l5_event){
			.conn = st->lib,
			.events = POLLIN,
		};
	} else if (epoll_ctl(m->epoll, EPOLL_CTL_ADD, st->fd, &ev)) {
		err(1, "epoll_ctl");
	}
}

/* False at the end. */
static bool answer(struct many *m, struct stream *st)
{
	char buf[SIZE];

	if (!stream_recv(st, buf, sizeof(buf)))
		errx(1, "the client hung up");
	if (buf[0] == MORE)
		open_until(m, m->all, accept_one);
	else if (buf[0] == LESS)
		close_until(m, m->few);
	stream_send(st, buf, sizeof(buf));
	return buf[0] != END;
}

/* What has its byte set may have been read already, so this asks first. */
static bool serve_mailbox(struct many *m)
{
	struct l5_stream *ready[BATCH];
	char byte;
	int i, n;

	n = l5_mailbox_poll(m->mailbox, ready, BATCH);
	if (n < 0)
		err(1, "l5_mailbox_poll");
	for (i = 0; i < n; i++)
		if (l5_recv(ready[i], &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0 &&
		    !answer(m, m->by_fd[l5_stream_fd(ready[i])]))
			return false;
	return true;
}

static bool serve_array(struct many *m)
{
	unsigned long i, open = m->open;
	int n = l5_wait_any(m->event, open, -1);

	for (i = 0; n > 0 && i < open; i++) {
		if (!m->event[i].revents)
			continue;
		n--;
		if (!answer(m, &m->st[i]))
			return false;
	}
	return true;
}

static bool serve_epoll(struct many *m)
{
	struct epoll_event ev[BATCH];
	int i, n = epoll_wait(m->epoll, ev, BATCH, -1);

	for (i = 0; i < n; i++)
		if (!answer(m, &m->st[ev[i].data.u64]))
			return false;
	return true;
}

static void serve(void *arg)
{
	bool (*some)(struct many *m) = serve_epoll;
	struct many *m = arg;

	if (by_lib(m) && m->array) {
		some = serve_array;
		m->event = calloc(m->all, sizeof(*m->event));
	} else if (by_lib(m)) {
		some = serve_mailbox;
		m->mailbox = l5_mailbox_open(m->listener);
		if (!m->mailbox)
			err(1, "l5_mailbox_open");
		m->by_fd = calloc(m->all + FILES, sizeof(*m->by_fd));
	} else {
		m->epoll = epoll_create1(0);
	}
	open_until(m, m->few, accept_one);
	while (some(m))
		;
	close_until(m, 0);
}

static void connect_one(struct many *m, struct stream *st)
{
	stream_connect(st, &m->setup, &m->where);
}

static void round_trip(struct stream *st, char what)
{
	char buf[SIZE] = { what };

	stream_send(st, buf, sizeof(buf));
	if (!stream_recv(st, buf, sizeof(buf)))
		errx(1, "the server hung up");
	if (buf[0] != what)
		errx(1, "wrong answer from the server");
}

static void turn(struct many *m)
{
	unsigned long i;

	for (i = 0; i < m->few; i++)
		round_trip(&m->st[i], ASK);
}

static double rate(struct many *m)
{
	unsigned long n;

	for (n = 0; n < WARM_UP; n++)
		turn(m);
	sample_start(m->setup.seconds);
	for (n = 0; !sample_over; n++)
		turn(m);
	return n * m->few / sample_elapsed();
}

/* The server goes first: it accepts what has not come yet. */
static void measure(struct many *m)
{
	double before, all, after;
	char more[SIZE] = { MORE };

	open_until(m, m->few, connect_one);
	before = rate(m);
	stream_send(m->st, more, sizeof(more));
	open_until(m, m->all, connect_one);
	if (!stream_recv(m->st, more, sizeof(more)))
		errx(1, "the server hung up");
	stream_check(&m->st[m->all - 1], &m->setup);
	all = rate(m);
	round_trip(m->st, LESS);
	close_until(m, m->few);
	after = rate(m);
	round_trip(m->st, END);
	printf("%.1f rt/s %lu\n%.1f rt/s %lu\n%.1f rt/s %lu\n", before, m->few,
	       all, m->all, after, m->few);
}

int main(int argc, char **argv)
{
	struct many m = { .setup = setup_default, .few = 20, .all = 200 };
	const struct own_option own[] = {
		{ "few", 'k', "N", "connections in use (20)", &m.few },
		{ "number", 'n', "N", "of connections in all (200)", &m.all },
		{ "array", 'A', NULL, "libl5 without a mailbox", &m.array },
		{ 0 }
	};
	pid_t server;

	m.setup.two_hosts = true;
	m.setup.hurry = true;
	options_parse(argc, argv, "Measure what open connections cost.",
		      &m.setup, own);
	if (m.all <= m.few)
		errx(1, "no more connections than are in use");
	m.st = calloc(m.all, sizeof(*m.st));
	server = server_start(&m.setup, &m.where, &m.listener, serve, &m);
	measure(&m);
	server_wait(server);
	return 0;
}
