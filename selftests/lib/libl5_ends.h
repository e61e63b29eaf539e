/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Connections of libl5 for tests of it: where they listen, and each way to move
 * bytes. A header, as only those programs are linked with the library.
 */
#ifndef LIBL5_ENDS_H
#define LIBL5_ENDS_H

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "libl5.h"

/* By host and port, or by a path and no port. */
struct place {
	char host[64];
	char port[16];
	struct sockaddr_in sin;
};

/* At a free port of @host, or at a free AF_UNIX name if that is NULL. */
static inline int place_listen(struct place *p, const char *host)
{
	socklen_t len = sizeof(p->sin);
	static int count;
	int fd;

	memset(p, 0, sizeof(*p));
	if (!host) {
		snprintf(p->host, sizeof(p->host), "@libl5-%d-%d", getpid(),
			 count++);
		return l5_listen(p->host, NULL, 200);
	}
	snprintf(p->host, sizeof(p->host), "%s", host);
	fd = l5_listen(p->host, "0", 200);
	if (fd < 0 || getsockname(fd, (struct sockaddr *)&p->sin, &len))
		return -1;
	snprintf(p->port, sizeof(p->port), "%d", ntohs(p->sin.sin_port));
	return fd;
}

static inline struct l5_stream *place_connect(const struct place *p, int flags)
{
	return l5_connect(p->host, p->port[0] ? p->port : NULL, flags);
}

/*
 * Each way to send or receive the next @n bytes of a stream; how many went.
 * The first ones block, the others fail with EAGAIN.
 */
enum { SENDS_BLOCK = 7, RECVS_BLOCK = 8, WAYS = 9 };

static inline ssize_t send_way(struct l5_stream *c, int way, uint8_t *buf,
			       size_t n)
{
	struct iovec v[3] = {
		{ buf, n / 3 },
		{ buf + n / 3, 0 },
		{ buf + n / 3, n - n / 3 },
	};
	int fd = l5_stream_fd(c);
	ssize_t got;
	void *p;

	switch (way) {
	case 0:
		return l5_send(c, buf, n, 0);
	case 1:
		return l5_sendv(c, v, 3, 0);
	case 2:
		got = l5_reserve(c, &p, n, 0);
		if (got <= 0)
			return got;
		memcpy(p, buf, got);
		return l5_commit(c, got);
	case 3:
		/* another thread's turn, and nothing comes of it */
		if (l5_reserve(c, &p, n, 0) <= 0 || l5_commit(c, 0))
			return -1;
		return l5_send(c, buf, n, 0);
	case 4:
		return write(fd, buf, n);
	case 5:
		return writev(fd, v, 3);
	case 6:
		return l5_send(c, buf, n, MSG_MORE);
	case 7:
		return send(fd, buf, n, MSG_DONTWAIT);
	default:
		return l5_send(c, buf, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	}
}

static inline ssize_t recv_way(struct l5_stream *c, int way, uint8_t *buf,
			       size_t n)
{
	struct iovec v[3] = {
		{ buf, n / 3 },
		{ buf + n / 3, 0 },
		{ buf + n / 3, n - n / 3 },
	};
	int fd = l5_stream_fd(c);
	const void *p;
	ssize_t got;

	switch (way) {
	case 0:
		return l5_recv(c, buf, n, 0);
	case 1:
		return l5_recvv(c, v, 3, 0);
	case 2:
		got = l5_peek(c, &p, 0);
		if (got <= 0)
			return got;
		if ((size_t)got > n)
			got = n;
		memcpy(buf, p, got);
		return l5_release(c, got) ? -1 : got;
	case 3:
		got = l5_peek(c, &p, 0);
		if (got <= 0)
			return got;
		return l5_release(c, 0) ? -1 : l5_recv(c, buf, n, 0);
	case 4:
		return read(fd, buf, n);
	case 5:
		return readv(fd, v, 3);
	case 6:
		got = l5_recv(c, buf, n, MSG_PEEK);
		return got <= 0 ? got : l5_recv(c, buf, got, MSG_WAITALL);
	case 7:
		got = recv(fd, buf, n, MSG_PEEK);
		if (got <= 0)
			return got;
		return l5_recvv(c, &(struct iovec){ buf, got }, 1, 0);
	default:
		return l5_recv(c, buf, n, MSG_DONTWAIT);
	}
}

/*
 * Fill the ring of @c in place until there is no room, then read all at @s:
 * does an edge-triggered epoll of @c hear of it, and not before?
 */
static inline bool reserve_edge(struct l5_stream *c, struct l5_stream *s,
				int ms)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT | EPOLLET };
	int ep = epoll_create1(EPOLL_CLOEXEC), i;
	static char b[3000];
	bool ok = true;
	void *p;

	if (epoll_ctl(ep, EPOLL_CTL_ADD, l5_stream_fd(c), &ev) ||
	    epoll_wait(ep, &ev, 1, 0) != 1)
		ok = false;
	for (i = 0; ok && i < 3; i++) {
		ssize_t n;

		while ((n = l5_reserve(c, &p, sizeof(b), MSG_DONTWAIT)) > 0) {
			memset(p, i, n);
			l5_commit(c, n);
		}
		ok = errno == EAGAIN && !epoll_wait(ep, &ev, 1, 0);
		while (l5_recv(s, b, sizeof(b), MSG_DONTWAIT) > 0)
			;
		ok = ok && epoll_wait(ep, &ev, 1, ms) == 1 &&
		     ev.events & EPOLLOUT;
	}
	close(ep);
	return ok;
}

#endif /* LIBL5_ENDS_H */
