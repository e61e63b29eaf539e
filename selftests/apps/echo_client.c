// SPDX-License-Identifier: GPL-2.0
/*
 * echo_client [-l] KIND PORT CONNECTIONS BYTES: many connections at once to an
 * echo server, each with so many bytes, which must come back as they went. -l:
 * its sockets are AF_L5's.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <unistd.h>

#include "l5test.h"
#include "echo.h"

/* Less than anything holds, so that a blocking send does not wait. */
#define BURST		32768
#define TIMEOUT		100

struct conn {
	pthread_t thread;
	int fd;
	unsigned int kinds;
	uint64_t base;		/* where its pattern begins */
	size_t sent;
	size_t got;
	bool end;
	const char *at;
	char buf[CHUNK];
};

static size_t total;
static struct conn *conns;
static int n_conns;

static unsigned int rnd(uint64_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 7;
	*s ^= *s << 17;
	return *s >> 32;
}

/* Where does it hang? Not safe in a handler, but it is the end anyway. */
static void hangs(int sig)
{
	int i, shown = 0;

	(void)sig;
	for (i = 0; i < n_conns; i++) {
		struct conn *c = &conns[i];

		if (!c->end && shown++ < 5)
			fprintf(stderr,
				"connection %d: fd %d sent %zu got %zu in %s\n",
				i, c->fd, c->sent, c->got,
				c->at ? c->at : "no call");
	}
	l5_fatal("%d connections hang", shown);
	_exit(3);
}

static void check(struct conn *c, const void *buf, size_t n)
{
	ssize_t bad = l5_check(buf, n, c->base + c->got);

	if (bad >= 0)
		errx(1, "%s: byte %zu of the answer is wrong", c->at,
		     c->got + bad);
	c->got += n;
	if (c->got > c->sent)
		l5_fatal("more bytes than were sent");
	if (c->got > c->sent)
		errx(1, "%s: more bytes than were sent", c->at);
}

/* Blocking: a thread a connection, a burst there and back */

static void *talk(void *arg)
{
	struct conn *c = arg;
	uint64_t seed = c->base + 1;
	unsigned int i = rnd(&seed);
	const struct way *w;
	size_t burst, done;
	ssize_t n;

	while (c->sent < total) {
		/* Small ones are the rule. */
		burst = 1 + rnd(&seed) % (rnd(&seed) % 4 ? 200 : BURST);
		if (burst > total - c->sent)
			burst = total - c->sent;
		for (done = 0; done < burst; done += n) {
			w = way(c->kinds, i++);
			c->at = w->name;
			l5_fill(c->buf, burst - done, c->base + c->sent);
			n = w->send(c->fd, c->buf, burst - done);
			if (n < 0)
				err(1, "sending by %s", w->name);
			c->sent += n;
		}
		while (c->got < c->sent) {
			w = way(c->kinds, i += 3);
			c->at = w->name;
			n = w->recv(c->fd, c->buf,
				    1 + rnd(&seed) % sizeof(c->buf));
			if (n <= 0)
				err(1, "receiving by %s: %zd", w->name, n);
			check(c, c->buf, n);
		}
	}
	if (shutdown(c->fd, SHUT_WR))
		err(1, "shutdown");
	w = way(c->kinds, i);
	c->at = w->name;
	n = w->recv(c->fd, c->buf, sizeof(c->buf));
	if (n)
		err(1, "the end by %s: %zd", w->name, n);
	c->end = true;
	close(c->fd);
	return NULL;
}

/* The C library's streams */
static void *talk_stdio(void *arg)
{
	struct conn *c = arg;
	FILE *in = fdopen(dup(c->fd), "r");
	FILE *out = fdopen(dup(c->fd), "w");
	uint64_t seed = c->base + 1;
	size_t burst;
	int i;

	for (i = 0; c->sent < total; i++) {
		burst = 1 + rnd(&seed) % (rnd(&seed) % 4 ? 200 : BURST);
		if (burst > total - c->sent)
			burst = total - c->sent;
		l5_fill(c->buf, burst, c->base + c->sent);
		c->at = "fwrite";
		/* Now and then by send(), where the stream stands. */
		if (i % 4 == 3) {
			if (send(c->fd, c->buf, burst, 0) != (ssize_t)burst)
				err(1, "send");
		} else if (fwrite(c->buf, 1, burst, out) != burst ||
			   fflush(out)) {
			err(1, "fwrite");
		}
		c->sent += burst;
		c->at = "fread";
		if (i % 4 == 1) {
			if (recv(c->fd, c->buf, burst, MSG_WAITALL) !=
			    (ssize_t)burst)
				err(1, "recv");
		} else if (fread(c->buf, 1, burst, in) != burst) {
			err(1, "fread");
		}
		check(c, c->buf, burst);
	}
	if (shutdown(fileno(out), SHUT_WR))
		err(1, "shutdown");
	c->at = "fgetc";
	if (fgetc(in) != EOF)
		errx(1, "no end");
	c->end = true;
	fclose(in);
	fclose(out);
	close(c->fd);
	return NULL;
}

/* Nonblocking: both directions at once, as much as goes */

/* What to wait for, as bits of poll; 0 at the end. */
static int move(struct conn *c)
{
	static unsigned int i;
	const struct way *w;
	int want = POLLIN;
	size_t len;
	ssize_t n;

	while (c->sent < total) {
		w = way(WAY_LIBC, 0);
		c->at = w->name;
		len = 1 + i++ % 3 * 20000;
		if (len > total - c->sent)
			len = total - c->sent;
		l5_fill(c->buf, len, c->base + c->sent);
		n = w->send(c->fd, c->buf, len);
		if (n < 0 && errno == EAGAIN) {
			want |= POLLOUT;
			break;
		}
		if (n < 0)
			err(1, "%s", w->name);
		c->sent += n;
		if (c->sent == total && shutdown(c->fd, SHUT_WR))
			err(1, "shutdown");
	}
	for (;;) {
		c->at = "recv";
		n = recv(c->fd, c->buf, sizeof(c->buf), 0);
		if (n < 0 && errno == EAGAIN)
			return want;
		if (n < 0)
			err(1, "recv");
		if (!n)
			break;
		check(c, c->buf, n);
	}
	if (c->got != total)
		errx(1, "the end after %zu of %zu bytes", c->got, total);
	c->end = true;
	close(c->fd);
	return 0;
}

static void by_epoll(void)
{
	int ep = epoll_create1(0), i, n, left = n_conns;
	struct epoll_event ev, evs[16];

	for (i = 0; i < n_conns; i++) {
		ev.events = EPOLLIN | EPOLLOUT | EPOLLET;
		ev.data.ptr = &conns[i];
		if (epoll_ctl(ep, EPOLL_CTL_ADD, conns[i].fd, &ev))
			err(1, "epoll_ctl");
	}
	while (left) {
		n = epoll_wait(ep, evs, 16, TIMEOUT * 1000);
		if (n <= 0 && errno != EINTR)
			err(1, "epoll_wait: %d", n);
		for (i = 0; i < n; i++) {
			struct conn *c = evs[i].data.ptr;

			if (!c->end && !move(c))
				left--;
		}
	}
}

static void by_poll(void)
{
	struct pollfd *p = calloc(n_conns, sizeof(*p));
	int i, left = n_conns;

	for (i = 0; i < n_conns; i++) {
		p[i].fd = conns[i].fd;
		p[i].events = POLLIN | POLLOUT;
	}
	while (left) {
		if (ppoll(p, n_conns, NULL, NULL) <= 0)
			err(1, "ppoll");
		for (i = 0; i < n_conns; i++) {
			if (!p[i].revents)
				continue;
			p[i].events = move(&conns[i]);
			if (!p[i].events) {
				p[i].fd = -1;
				left--;
			}
		}
	}
	free(p);
}

static void by_select(void)
{
	int *want = calloc(n_conns, sizeof(*want));
	int i, max, left = n_conns;
	fd_set in, out;

	for (i = 0; i < n_conns; i++)
		want[i] = POLLIN | POLLOUT;
	while (left) {
		FD_ZERO(&in);
		FD_ZERO(&out);
		for (i = max = 0; i < n_conns; i++) {
			if (want[i])
				FD_SET(conns[i].fd, &in);
			if (want[i] & POLLOUT)
				FD_SET(conns[i].fd, &out);
			if (want[i] && conns[i].fd > max)
				max = conns[i].fd;
		}
		if (pselect(max + 1, &in, &out, NULL, NULL, NULL) <= 0)
			err(1, "pselect");
		for (i = 0; i < n_conns; i++) {
			if (!want[i] || (!FD_ISSET(conns[i].fd, &in) &&
					 !FD_ISSET(conns[i].fd, &out)))
				continue;
			want[i] = move(&conns[i]);
			left -= !want[i];
		}
	}
	free(want);
}

static void by_threads(void *(*fn)(void *arg), unsigned int ways)
{
	int i;

	for (i = 0; i < n_conns; i++) {
		conns[i].kinds = ways;
		errno = pthread_create(&conns[i].thread, NULL, fn, &conns[i]);
		if (errno)
			err(1, "pthread_create");
	}
	for (i = 0; i < n_conns; i++)
		pthread_join(conns[i].thread, NULL);
}

static const struct {
	const char *name;
	void (*loop)(void);
	void *(*thread)(void *arg);
	unsigned int ways;
} kinds[] = {
	{ "threads", NULL, talk, WAY_LIBC },
	{ "raw", NULL, talk, WAY_RAW },
	{ "uring", NULL, talk, WAY_URING },
	{ "mixed", NULL, talk, WAY_ALL },
	{ "stdio", NULL, talk_stdio, 0 },
	{ "epoll", by_epoll, NULL, 0 },
	{ "poll", by_poll, NULL, 0 },
	{ "select", by_select, NULL, 0 },
};

int main(int argc, char **argv)
{
	bool l5 = argc > 1 && !strcmp(argv[1], "-l");
	struct address a;
	unsigned int k;
	int i;

	argv += l5;
	argc -= l5;
	if (argc != 5)
		errx(2, "[-l] KIND PORT CONNECTIONS BYTES");
	for (k = 0; k < ARRAY_SIZE(kinds); k++)
		if (!strcmp(kinds[k].name, argv[1]))
			break;
	if (k == ARRAY_SIZE(kinds))
		errx(2, "no kind %s", argv[1]);
	a = echo_address(l5, argv[2]);
	n_conns = atoi(argv[3]);
	total = atol(argv[4]);
	conns = calloc(n_conns, sizeof(*conns));
	signal(SIGALRM, hangs);
	alarm(TIMEOUT * l5_slow());

	for (i = 0; i < n_conns; i++) {
		struct conn *c = &conns[i];

		c->base = (uint64_t)i << 32;
		c->fd = socket(a.family, SOCK_STREAM, 0);
		if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&a.in,
					 sizeof(a.in)))
			err(1, "connect");
		if (kinds[k].loop && fcntl(c->fd, F_SETFL, O_NONBLOCK))
			err(1, "fcntl");
	}
	if (kinds[k].loop)
		kinds[k].loop();
	else
		by_threads(kinds[k].thread, kinds[k].ways);
	printf("%d connections, %zu bytes\n", n_conns, n_conns * total);
	return 0;
}
