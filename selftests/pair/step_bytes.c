// SPDX-License-Identifier: GPL-2.0
/* Bytes of step: every way to hand them to the kernel, or not to it. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

#include "step.h"

/* The most that goes by splice() at once: half of a pipe. */
#define SPLICE_MAX	32768u
/* More than TCP ever has in flight, since sendfile() does not copy. */
#define FILE_SIZE	(64u * 1024 * 1024)

const char *name_of(int err)
{
	return err ? strerrorname_np(err) : "";
}

uint64_t number(const struct end *e, const char *v)
{
	char *end;
	uint64_t n;

	if (!v)
		die(e, "needs a number");
	n = strtoull(v, &end, 0);
	if (*end == 'k')
		n <<= 10;
	else if (*end == 'm')
		n <<= 20;
	else if (*end && *end != ',' && *end != ':')
		die(e, "'%s' is no number", v);
	return n;
}

/* What comes after the next comma. */
const char *after(const char *v)
{
	v = strchr(v, ',');
	return v ? v + 1 : NULL;
}

/* Until @fd is ready for @events; one of the waits that @way stands for. */
static void await(struct end *e, struct half *h, int events, enum way way)
{
	struct epoll_event ev = { .events = events | EPOLLRDHUP };
	struct pollfd p = { .fd = e->fd, .events = events };
	int n;

	if (way != WAY_LT && way != WAY_ET) {
		n = poll(&p, 1, LONG_MS);
		if (!n)
			die(e, "nothing happens, poll() for %#x", events);
		return;
	}
	if (h->epoll < 0) {
		h->epoll = epoll_create1(EPOLL_CLOEXEC);
		if (way == WAY_ET)
			ev.events |= EPOLLIN | EPOLLOUT | EPOLLET;
		if (epoll_ctl(h->epoll, EPOLL_CTL_ADD, e->fd, &ev))
			die(e, "EPOLL_CTL_ADD: %s", name_of(errno));
		/* An edge that came before is seen in the first try after. */
		if (way == WAY_ET)
			return;
	}
	n = epoll_wait(h->epoll, &ev, 1, LONG_MS);
	if (!n)
		die(e, "nothing happens, epoll_wait() for %#x", events);
}

static enum way this_time(struct end *e, struct half *h)
{
	static const enum way some[] = {
		WAY_BLOCK, WAY_POLL, WAY_IOV, WAY_PEEK, WAY_WAITALL,
		WAY_SPLICE, WAY_MORE, WAY_SENDFILE,
	};

	if (e->way != WAY_MIX)
		return e->way;
	return some[l5_rnd(&h->seed) % ARRAY_SIZE(some)];
}

static ssize_t send_pipe(struct end *e, struct half *h, const uint8_t *buf,
			 size_t n)
{
	ssize_t put, done = 0;

	if (h->pipe[0] < 0 && pipe2(h->pipe, O_CLOEXEC))
		die(e, "pipe: %s", name_of(errno));
	if (n > SPLICE_MAX)
		n = SPLICE_MAX;
	if (write(h->pipe[1], buf, n) != (ssize_t)n)
		die(e, "cannot fill a pipe");
	while (done < (ssize_t)n) {
		put = splice(h->pipe[0], NULL, e->fd, NULL, n - done, 0);
		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			return done ? done : put;
		done += put;
	}
	return done;
}

static ssize_t send_file(struct end *e, struct half *h, const uint8_t *buf,
			 size_t n)
{
	off_t at;

	if (h->file < 0) {
		h->file = memfd_create("step", MFD_CLOEXEC);
		if (h->file < 0 || ftruncate(h->file, FILE_SIZE))
			die(e, "memfd: %s", name_of(errno));
	}
	if (h->file_at + n > FILE_SIZE)
		h->file_at = 0;
	at = h->file_at;
	if (pwrite(h->file, buf, n, at) != (ssize_t)n)
		die(e, "cannot fill a file");
	h->file_at += n;
	return sendfile(e->fd, h->file, &at, n);
}

static ssize_t send_lib(struct end *e, struct half *h, const uint8_t *buf,
			size_t n)
{
	ssize_t got;
	void *p;

	if (l5_rnd(&h->seed) % 2)
		return l5_send(e->lib, buf, n, MSG_NOSIGNAL);
	got = l5_reserve(e->lib, &p, n, MSG_NOSIGNAL);
	if (got <= 0)
		return got;
	memcpy(p, buf, got);
	return l5_commit(e->lib, got);
}

static ssize_t send_once(struct end *e, const uint8_t *buf, size_t n)
{
	struct half *h = &e->tx;
	struct iovec v[3] = {
		{ (void *)buf, n / 3 },
		{ (void *)(buf + n / 3), 0 },
		{ (void *)(buf + n / 3), n - n / 3 },
	};
	enum way way = this_time(e, h);
	int flags = MSG_NOSIGNAL;
	ssize_t put;

	switch (way) {
	case WAY_IOV:
		return writev(e->fd, v, 3);
	case WAY_SPLICE:
		return send_pipe(e, h, buf, n);
	case WAY_SENDFILE:
		return send_file(e, h, buf, n);
	case WAY_LIB:
		return send_lib(e, h, buf, n);
	case WAY_MAP:
		if (e->mapped)
			return mapping_send(&e->map, buf, n, flags);
		break;
	case WAY_MORE:
		if (l5_rnd(&h->seed) % 2)
			flags |= MSG_MORE;
		break;
	case WAY_POLL:
	case WAY_LT:
	case WAY_ET:
		flags |= MSG_DONTWAIT;
		break;
	default:
		break;
	}
	put = send(e->fd, buf, n, flags);
	if (put < 0 && errno == EAGAIN && way != WAY_TIMEO) {
		await(e, h, POLLOUT, way);
		errno = EAGAIN;
	}
	return put;
}

static ssize_t recv_pipe(struct end *e, struct half *h, uint8_t *buf, size_t n)
{
	ssize_t got;

	if (h->pipe[0] < 0 && pipe2(h->pipe, O_CLOEXEC))
		die(e, "pipe: %s", name_of(errno));
	if (n > SPLICE_MAX)
		n = SPLICE_MAX;
	got = splice(e->fd, NULL, h->pipe[1], NULL, n, 0);
	if (got > 0 && read(h->pipe[0], buf, got) != got)
		die_fatal(e, "a pipe lost bytes");
	return got;
}

static ssize_t recv_lib(struct end *e, struct half *h, uint8_t *buf, size_t n)
{
	const void *p;
	ssize_t got;

	if (l5_rnd(&h->seed) % 2)
		return l5_recv(e->lib, buf, n, 0);
	got = l5_peek(e->lib, &p, 0);
	if (got <= 0)
		return got;
	if ((size_t)got > n)
		got = n;
	memcpy(buf, p, got);
	return l5_release(e->lib, got) ? -1 : got;
}

static ssize_t recv_once(struct end *e, uint8_t *buf, size_t n)
{
	struct half *h = &e->rx;
	struct iovec v[3] = {
		{ buf, n / 3 },
		{ buf + n / 3, 0 },
		{ buf + n / 3, n - n / 3 },
	};
	enum way way = this_time(e, h);
	int flags = 0;
	ssize_t got;

	switch (way) {
	case WAY_IOV:
		return readv(e->fd, v, 3);
	case WAY_SPLICE:
		return recv_pipe(e, h, buf, n);
	case WAY_LIB:
		return recv_lib(e, h, buf, n);
	case WAY_MAP:
		if (e->mapped)
			return mapping_recv(&e->map, buf, n, 0);
		break;
	case WAY_PEEK:
		got = recv(e->fd, buf, n, MSG_PEEK);
		if (got <= 0)
			return got;
		if (l5_check(buf, got, h->base + h->at) >= 0)
			die(e, "MSG_PEEK: wrong byte at %zd",
			    l5_check(buf, got, h->base + h->at));
		n = got;
		flags = MSG_WAITALL;
		break;
	case WAY_WAITALL:
		flags = MSG_WAITALL;
		break;
	case WAY_POLL:
	case WAY_LT:
	case WAY_ET:
		flags = MSG_DONTWAIT;
		break;
	default:
		break;
	}
	got = recv(e->fd, buf, n, flags);
	if (got < 0 && errno == EAGAIN && way != WAY_TIMEO) {
		await(e, h, POLLIN, way);
		errno = EAGAIN;
	}
	return got;
}

/* Send some of the next @n bytes; less than 0 with h->err at an error. */
ssize_t put_some(struct end *e, size_t n)
{
	struct half *h = &e->tx;
	int64_t until = l5_now_ms() + LONG_MS;
	ssize_t put;

	if (n > CHUNK_MAX)
		n = CHUNK_MAX;
	l5_fill(h->buf, n, h->base + h->at);
	for (;;) {
		put = send_once(e, h->buf, n);
		if (put > 0) {
			h->at += put;
			total_tx += put;
			return put;
		}
		if (!put)
			die(e, "sending %zu gives 0", n);
		if (errno != EAGAIN && errno != EINTR) {
			h->err = errno;
			return -1;
		}
		if (l5_now_ms() > until)
			die(e, "cannot send");
	}
}

/* Receive at most @n and check them: 0 with h->eof, or less with h->err. */
ssize_t get_some(struct end *e, size_t n)
{
	struct half *h = &e->rx;
	int64_t until = l5_now_ms() + LONG_MS;
	ssize_t got, bad;

	if (n > CHUNK_MAX)
		n = CHUNK_MAX;
	for (;;) {
		got = recv_once(e, h->buf, n);
		if (got > 0) {
			bad = l5_check(h->buf, got, h->base + h->at);
			if (bad >= 0)
				die(e, "wrong byte at %" PRIu64 ", %#x",
				    h->at + bad, h->buf[bad]);
			h->at += got;
			total_rx += got;
			return got;
		}
		if (!got) {
			h->eof = true;
			return 0;
		}
		if (errno != EAGAIN && errno != EINTR) {
			h->err = errno;
			return -1;
		}
		if (l5_now_ms() > until)
			die_fatal(e, "nothing comes");
	}
}

/* Mostly small ones, some large. */
size_t some_size(struct end *e, struct half *h)
{
	size_t max = e->chunk;

	if (max > 300 && l5_rnd(&h->seed) % 4 == 0)
		max = 300;
	return 1 + l5_rnd(&h->seed) % max;
}

void put(struct end *e, uint64_t n)
{
	uint64_t end = e->tx.at + n;
	size_t want;

	while (e->tx.at < end) {
		want = some_size(e, &e->tx);
		if (want > end - e->tx.at)
			want = end - e->tx.at;
		if (put_some(e, want) < 0)
			die(e, "send: %s", name_of(e->tx.err));
	}
}

void get(struct end *e, uint64_t n)
{
	uint64_t end = e->rx.at + n;
	size_t want;
	ssize_t got;

	while (e->rx.at < end) {
		want = some_size(e, &e->rx);
		if (want > end - e->rx.at)
			want = end - e->rx.at;
		got = get_some(e, want);
		if (!got)
			die_fatal(e, "end of file, %" PRIu64 " bytes early",
				  end - e->rx.at);
		if (got < 0)
			die(e, "recv: %s", name_of(e->rx.err));
	}
}

/* A round trip's half in one piece: a whole message is one call. */
void put_whole(struct end *e, size_t n)
{
	uint64_t end = e->tx.at + n;

	while (e->tx.at < end)
		if (put_some(e, end - e->tx.at) < 0)
			die(e, "send: %s", name_of(e->tx.err));
}

void get_whole(struct end *e, size_t n)
{
	uint64_t end = e->rx.at + n;
	ssize_t got;

	while (e->rx.at < end) {
		got = get_some(e, end - e->rx.at);
		if (got <= 0)
			die(e, "recv: %s", got ? name_of(e->rx.err) : "EOF");
	}
}
