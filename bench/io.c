// SPDX-License-Identifier: GPL-2.0
/*
 * Whole messages through a socket in one of three ways of waiting, and bytes
 * that betray what is lost, repeated or out of order.
 */
#include "bench.h"

#include <err.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/epoll.h>

#include "../uapi/l5.h"
#include "../userspace/lib/libl5.h"
#include "../userspace/lib/native.h"

#define SETTLE_S	10	/* seconds to wait for RDMA */

/* libl5 asks the environment once, when the first ring is mapped. */
static void lib_spin(const struct setup *s)
{
	char text[16];

	if (s->wait != WAIT_POLL && s->spin_us < 0)
		return;
	snprintf(text, sizeof(text), "%d",
		 s->wait == WAIT_POLL ? L5_SPIN_US_MAX : s->spin_us);
	if (setenv("L5_SPIN_US", text, 1))
		err(1, "setenv");
}

static void stream_init(struct stream *st, const struct setup *s, int fd,
			int end)
{
	struct epoll_event ev = { .events = EPOLLIN };

	*st = (struct stream){ .fd = fd, .epoll = -1, .wait = s->wait };
	if (s->transport->carrier != CARRIER_SOCKET)
		lib_spin(s);
	if (s->transport->carrier == CARRIER_MEM) {
		st->end = end;
		st->mem = l5_native_map(transport_mem, end, 1);
		if (!st->mem)
			err(1, "mapping end %d", end);
		return;
	}
	if (s->transport->carrier >= CARRIER_LINE) {
		st->line = transport_line;
		st->end = end;
		if (s->transport->carrier == CARRIER_LINES)
			st->put.ring = s->buffer && s->buffer < LINE_RING ?
				       s->buffer : LINE_RING;
		st->get = st->put;
		return;
	}
	if (s->transport->carrier == CARRIER_LIB) {
		st->lib = l5_map(fd);
		if (!st->lib)
			err(1, "l5_map");
		return;
	}
	if (s->wait != WAIT_EPOLL)
		return;
	st->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (st->epoll < 0 || epoll_ctl(st->epoll, EPOLL_CTL_ADD, fd, &ev))
		err(1, "epoll");
}

void stream_connect(struct stream *st, const struct setup *s,
		    const struct address *where)
{
	stream_init(st, s, transport_connect(s, where), 0);
}

void stream_accept(struct stream *st, const struct setup *s, int listener)
{
	stream_init(st, s, transport_accept(s, listener), 1);
}

static void map_check(const struct stream *st)
{
	if (st->lib && !l5_stream_mapped(st->lib))
		errx(1, "libl5 did not map the connection");
}

/*
 * Does the transport that the figure will claim carry it? A server whose client
 * on another host has left may have no rings any more; it has looked before.
 */
void stream_check(const struct stream *st, const struct setup *s)
{
	transport_check(s, st->fd);
	if (s->role != ROLE_SERVER)
		map_check(st);
}

/*
 * Between hosts a connection begins on TCP. Both ends exchange bytes until each
 * has seen, and said, that its own transport is as it should be; a client that
 * has waited for too long says so, and finds out why when it checks.
 */
void stream_settle(struct stream *st, const struct setup *s)
{
	char mine = 0, theirs = 0;
	int carrier;

	if (s->role == ROLE_BOTH || s->any_carrier)
		return;
	sample_start(SETTLE_S);
	while (!mine || !theirs) {
		if (s->role == ROLE_SERVER &&
		    !stream_recv(st, &theirs, 1))
			errx(1, "the client hung up");
		carrier = transport_of(st->fd);
		mine = carrier < 0 || sample_over ||
		       (carrier == L5_TRANSPORT_RDMA &&
			(!st->lib || l5_stream_mapped(st->lib)));
		stream_send(st, &mine, 1);
		if (s->role == ROLE_CLIENT &&
		    !stream_recv(st, &theirs, 1))
			errx(1, "the server hung up");
	}
	map_check(st);
}

static void await(struct stream *st, short events)
{
	struct pollfd pfd = { .fd = st->fd, .events = events };
	struct epoll_event ev;
	int n;

	if (st->wait == WAIT_POLL || st->mem)
		return;
	if (st->lib)
		n = l5_wait(st->lib, events, -1);
	else if (events == POLLIN)
		n = epoll_wait(st->epoll, &ev, 1, -1);
	else
		n = poll(&pfd, 1, -1);
	if (n < 0 && errno != EINTR)
		err(1, "waiting");
}

/*
 * A line holds one message, and the next comes only after the answer. Messages
 * that walk through memory lie as records do in a ring; all are of one length
 * here.
 */
static ssize_t line_recv(struct stream *st, void *buf, size_t len)
{
	struct line_way *w = &st->line[!st->end];
	struct line *l = line_next(w, &st->get, len);

	if (len > sizeof(l->text))
		errx(1, "a line takes %zu bytes", sizeof(l->text));
	line_get(l, st->get.nr, buf, len);
	return atomic_load(&w->end) ? 0 : len;
}

static ssize_t recv_some(struct stream *st, void *buf, size_t len)
{
	if (st->line)
		return line_recv(st, buf, len);
	if (st->mem)
		return l5_native_recv(st->mem, buf, len) ? (ssize_t)len : 0;
	if (st->lib)
		return l5_recv(st->lib, buf, len, 0);
	return recv(st->fd, buf, len,
		    st->wait == WAIT_BLOCK ? 0 : MSG_DONTWAIT);
}

static ssize_t send_some(struct stream *st, const void *buf, size_t len)
{
	if (st->line) {
		struct line *l = line_next(&st->line[st->end], &st->put,
					   len);

		line_put(l, st->put.nr, buf, len);
		return len;
	}
	if (st->mem) {
		if (!l5_native_send(st->mem, buf, len))
			errx(1, "the ring is broken");
		return len;
	}
	if (st->lib)
		return l5_send(st->lib, buf, len, MSG_NOSIGNAL);
	return send(st->fd, buf, len, MSG_NOSIGNAL |
		    (st->wait == WAIT_BLOCK ? 0 : MSG_DONTWAIT));
}

/* False at the end of the stream, which must be between two messages. */
bool stream_recv(struct stream *st, void *buf, size_t len)
{
	size_t got = 0;
	ssize_t n;

	while (got < len) {
		/* An event loop does not ask before it is told. */
		if (st->wait == WAIT_EPOLL)
			await(st, POLLIN);
		n = recv_some(st, (char *)buf + got, len - got);
		if (n > 0) {
			got += n;
		} else if (!n) {
			if (got)
				errx(1, "stream ends inside a message");
			return false;
		} else if (errno == EAGAIN) {
			await(st, POLLIN);
		} else if (errno != EINTR) {
			err(1, "recv");
		}
	}
	return true;
}

void stream_send(struct stream *st, const void *buf, size_t len)
{
	size_t sent = 0;
	ssize_t n;

	while (sent < len) {
		n = send_some(st, (const char *)buf + sent, len - sent);
		if (n >= 0)
			sent += n;
		else if (errno == EAGAIN)
			await(st, POLLOUT);
		else if (errno != EINTR)
			err(1, "send");
	}
}

/* The other side reads to the end; we may go on reading. */
void stream_end(struct stream *st)
{
	if (st->line)
		line_end(&st->line[st->end], &st->put);
	else if (st->mem)
		l5_native_flag(transport_mem, !st->end, L5_MAP_RX_ASK);
	else if (shutdown(st->fd, SHUT_WR))
		err(1, "shutdown");
}

void stream_close(struct stream *st)
{
	if (st->line)
		return stream_end(st);
	if (st->mem) {
		stream_end(st);
		l5_native_unmap(st->mem);
	}
	l5_unmap(st->lib);
	if (st->epoll >= 0)
		close(st->epoll);
	close(st->fd);
}

/* Memory that is there: the first touch of a page is no part of a sample. */
void *array_alloc(size_t len)
{
	void *p = aligned_alloc(4096, (len + 4095) & ~4095ul);

	if (!p)
		err(1, "%zu bytes", len);
	return memset(p, 1, len);
}

/*
 * Message number nr is a window of one random array that moves on by a byte a
 * message: nothing has to be filled in, and every byte can be compared.
 */
void pattern_init(struct pattern *p, size_t len)
{
	size_t i;

	p->bytes = malloc(len + PATTERN_TURNS);
	if (!p->bytes)
		err(1, "malloc");
	srandom(5);
	for (i = 0; i < len + PATTERN_TURNS; i++)
		p->bytes[i] = random() >> 16;
}

const void *pattern_of(const struct pattern *p, unsigned long nr)
{
	return p->bytes + nr % PATTERN_TURNS;
}

void pattern_check(const struct pattern *p, unsigned long nr, const void *buf,
		   size_t len)
{
	if (memcmp(pattern_of(p, nr), buf, len))
		errx(1, "wrong bytes in message %lu",
		     nr);
}
