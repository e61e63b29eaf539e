// SPDX-License-Identifier: GPL-2.0
/*
 * Descriptors passed a second, over AF_UNIX sockets: the client sends one with
 * a byte, the server receives it, closes it, and answers by one of its own.
 * With --one-way the client sends as many as go, and the server counts them.
 */
#include "bench.h"

#include <err.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>

#define WARM_UP		32	/* before the clock runs */

struct pass {
	struct setup setup;
	unsigned long one_way;
	int listener;
	struct address where;
	unsigned long *taken;	/* by the server, shared with the client */
};

union room {
	char bytes[CMSG_SPACE(sizeof(int))];
	struct cmsghdr align;
};

static void give(int via, int fd)
{
	union room room = { };
	struct iovec v = { "x", 1 };
	struct msghdr m = {
		.msg_iov = &v, .msg_iovlen = 1,
		.msg_control = &room, .msg_controllen = sizeof(room),
	};
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);

	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(h), &fd, sizeof(fd));
	while (sendmsg(via, &m, MSG_NOSIGNAL) != 1)
		if (errno != EINTR)
			err(1, "sendmsg");
}

/* False at the end. */
static bool take(int via)
{
	union room room = { };
	char byte;
	struct iovec v = { &byte, 1 };
	struct msghdr m = {
		.msg_iov = &v, .msg_iovlen = 1,
		.msg_control = &room, .msg_controllen = sizeof(room),
	};
	struct cmsghdr *h;
	ssize_t n;
	int fd;

	do {
		n = recvmsg(via, &m, MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		err(1, "recvmsg");
	if (!n)
		return false;
	h = CMSG_FIRSTHDR(&m);
	if (!h || h->cmsg_type != SCM_RIGHTS || m.msg_flags & MSG_CTRUNC)
		errx(1, "a byte without its descriptor");
	memcpy(&fd, CMSG_DATA(h), sizeof(fd));
	close(fd);
	return true;
}

static int something(void)
{
	int fd = memfd_create("passed", MFD_CLOEXEC);

	if (fd < 0)
		err(1, "memfd");
	return fd;
}

static void serve(void *arg)
{
	struct pass *p = arg;
	int fd = something();
	struct stream st;

	stream_accept(&st, &p->setup, p->listener);
	while (take(st.fd)) {
		__atomic_fetch_add(p->taken, 1, __ATOMIC_RELAXED);
		if (!p->one_way)
			give(st.fd, fd);
	}
	stream_check(&st, &p->setup);
	stream_close(&st);
}

static void once(struct pass *p, struct stream *st, int fd)
{
	give(st->fd, fd);
	if (!p->one_way && !take(st->fd))
		errx(1, "the server hung up");
}

static void measure(struct pass *p, pid_t server)
{
	unsigned long before;
	int fd = something();
	struct stream st;
	double result;
	int i;

	client_pin(&p->setup);
	stream_connect(&st, &p->setup, &p->where);
	for (i = 0; i < WARM_UP; i++)
		once(p, &st, fd);
	stream_check(&st, &p->setup);
	before = __atomic_load_n(p->taken, __ATOMIC_RELAXED);
	sample_start(p->setup.seconds);
	while (!sample_over)
		once(p, &st, fd);
	result = (__atomic_load_n(p->taken, __ATOMIC_RELAXED) - before) /
		 sample_elapsed();
	stream_close(&st);
	server_wait(server);
	/* the server's answers are descriptors, too */
	printf("%.2f fd/s\n", p->one_way ? result : 2 * result);
}

int main(int argc, char **argv)
{
	struct pass p = { .setup = setup_default };
	const struct own_option own[] = {
		{ "one-way", 'o', NULL, "from the client to the server alone",
		  &p.one_way },
		{ 0 }
	};
	pid_t server;

	p.setup.transport = transport_named("unix");
	options_parse(argc, argv,
		      "Measure how many descriptors two processes pass.",
		      &p.setup, own);
	if (p.setup.transport->family != AF_UNIX)
		errx(2, "only AF_UNIX passes descriptors: -t unix, l5-unix, "
		     "unix-packet or l5-packet");
	p.taken = mmap(NULL, sizeof(*p.taken), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (p.taken == MAP_FAILED)
		err(1, "mmap");
	server = server_start(&p.setup, &p.where, &p.listener, serve, &p);
	measure(&p, server);
	return 0;
}
