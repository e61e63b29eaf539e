// SPDX-License-Identifier: GPL-2.0
/* SOCK_SEQPACKET: messages, beside those of AF_UNIX. */
#define DIFF	diff_packet
#include "diff.h"

#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/wait.h>

DIFF_FIXTURE(diff_packet_packets)
DIFF_VARIANT(diff_packet_packets, path, .bit = V_PACKETS, .dom = AF_UNIX,
	     .type = SOCK_SEQPACKET, SHM);

/* More than any socket takes at a time, and as much as all of them do */
enum { HUGE = 5 << 20, LARGE = 100000 };

static char buf[HUGE];

/* A receive, with all that it says of the message */
static void take(struct ctx *c, int fd, size_t len, int flags)
{
	struct sockaddr_un name = { 0 };
	struct iovec v[2] = { { buf, len / 2 }, { buf + len / 2,
						  len - len / 2 } };
	struct msghdr m = {
		.msg_iov = v, .msg_iovlen = 2,
		.msg_name = &name, .msg_namelen = sizeof(name),
	};
	ssize_t n;

	n = R(recvmsg(fd, &m, flags | MSG_DONTWAIT));
	D(buf, n < 0 ? 0 : n < (ssize_t)len ? n : (ssize_t)len);
	if (n < 0)
		return;
	N(m.msg_flags & ~MSG_CMSG_CLOEXEC);
	log_addr(c, "from", (void *)&name, m.msg_namelen);
}

SCENARIO_ON(packets, one_by_one)
{
	int left;

	pair(c);
	R(send(c->a, "one", 3, 0));
	R(send(c->a, "and two", 7, MSG_EOR));
	R(send(c->a, "", 0, 0));
	R(write(c->a, "", 0));
	R(write(c->a, "four", 4));
	R(ioctl(c->b, FIONREAD, &left));
	N(left);
	P(c->b, POLLIN);
	take(c, c->b, 100, 0);
	take(c, c->b, 100, 0);
	take(c, c->b, 100, 0);
	take(c, c->b, 100, 0);
	take(c, c->b, 100, 0);
	take(c, c->b, 100, 0);
	P(c->b, 0);
	R(send(c->b, "back", 4, 0));
	take(c, c->a, 100, 0);
}

/* What there is no room for is lost, and its reader knows. */
SCENARIO_ON(packets, truncated)
{
	int i;

	pair(c);
	for (i = 0; i < 8; i++)
		OK(send(c->a, "0123456789" + i, 10 - i, 0));
	take(c, c->b, 4, 0);
	take(c, c->b, 4, MSG_TRUNC);
	take(c, c->b, 8, MSG_TRUNC);
	take(c, c->b, 0, 0);
	take(c, c->b, 0, MSG_TRUNC);
	R(read(c->b, buf, 2));
	R(recv(c->b, buf, 100, MSG_WAITALL));
	R(recv(c->b, NULL, 0, MSG_TRUNC));
	take(c, c->b, 1, 0);
}

SCENARIO_ON(packets, peeked)
{
	pair(c);
	OK(send(c->a, "first", 5, 0));
	OK(send(c->a, "second", 6, 0));
	take(c, c->b, 100, MSG_PEEK);
	take(c, c->b, 2, MSG_PEEK);
	take(c, c->b, 2, MSG_PEEK | MSG_TRUNC);
	take(c, c->b, 0, MSG_PEEK | MSG_TRUNC);
	take(c, c->b, 100, 0);
	take(c, c->b, 100, MSG_PEEK);
	take(c, c->b, 100, 0);
	take(c, c->b, 100, MSG_PEEK);
}

SCENARIO_ON(packets, gathered)
{
	struct iovec v[3] = { { "one ", 4 }, { "", 0 }, { "two", 3 } };
	struct mmsghdr m[2] = { { { .msg_iov = v, .msg_iovlen = 3 }, 0 },
				{ { .msg_iov = v, .msg_iovlen = 1 }, 0 } };

	pair(c);
	R(writev(c->a, v, 3));
	R(sendmmsg(c->a, m, 2, 0));
	take(c, c->b, 100, 0);
	R(recvmmsg(c->b, m, 2, MSG_DONTWAIT, NULL));
	N(m[0].msg_len);
	N(m[1].msg_len);
}

/* Too long, as long as can be, and from memory that is not all there */
SCENARIO_ON(packets, lengths)
{
	pair(c);
	R(send(c->a, buf, HUGE, MSG_DONTWAIT));
	R(send(c->a, buf, HUGE, 0));
	l5_fill(buf, LARGE, 0);
	R(send(c->a, buf, LARGE, MSG_DONTWAIT));
	memset(buf, 0, LARGE);
	R(recv(c->b, buf, HUGE, 0));
	N(l5_check(buf, LARGE, 0));
	R(send(c->a, edge(1000), 1001, 0));
	R(send(c->a, bad_pointer(), 4, 0));
	P(c->b, 0);
	R(send(c->a, "good", 4, 0));
	P(c->b, POLLIN);
	take(c, c->b, 100, 0);
}

/* A name at a send says nothing, urgent data there are none. */
SCENARIO_ON(packets, flags)
{
	struct addr to;

	addr_new(c, &to);
	pair(c);
	R(sendto(c->a, "named", 5, 0, SA(&to), to.len));
	R(send(c->a, "o", 1, MSG_OOB));
	R(recv(c->b, buf, 1, MSG_OOB));
	take(c, c->b, 100, 0);
	R(send(c->a, "", 0, MSG_PROXY));
	take(c, c->b, 100, 0);
	R(send(c->a, "z", 1, MSG_ZEROCOPY));
	R(send(c->a, "m", 1, MSG_MORE));
	take(c, c->b, 100, 0);
	take(c, c->b, 100, 0);
}

/* Until no more is taken, not even an empty message, and from then on */
SCENARIO_ON(packets, full)
{
	ssize_t r;
	int n = 0;

	pair(c);
	while (send(c->a, buf, 4000, MSG_DONTWAIT) == 4000)
		n++;
	V("some were taken", "%d", n > 10);
	P(c->a, 0);
	R(send(c->a, buf, 4000, MSG_DONTWAIT));
	while (!send(c->a, "", 0, MSG_DONTWAIT))
		;
	R(send(c->a, "", 0, MSG_DONTWAIT));
	take(c, c->b, 1, 0);
	n--;
	while ((r = recv(c->b, buf, sizeof(buf), MSG_DONTWAIT)) >= 0)
		n -= r == 4000;
	N(n);
	P(c->a, POLLOUT);
	R(send(c->a, buf, 4000, MSG_DONTWAIT));
	R(recv(c->b, buf, sizeof(buf), MSG_DONTWAIT));
}

static void send_one(struct ctx *c)
{
	send(c->a, "late", 4, 0);
}

static void take_all(struct ctx *c)
{
	while (recv(c->b, buf, sizeof(buf), 0) == LARGE)
		;
}

static void end_a(struct ctx *c)
{
	shutdown(c->a, SHUT_WR);
}

/* Readers and writers that wait */
SCENARIO_ON(packets, waits)
{
	struct timeval t = { 0, 30000 };
	int i;

	pair(c);
	when_asleep(c, send_one);
	R(recv(c->b, buf, 100, 0));
	R(setsockopt(c->b, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)));
	R(recv(c->b, buf, 100, 0));
	while (send(c->a, buf, LARGE, MSG_DONTWAIT) == LARGE)
		;
	R(setsockopt(c->a, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t)));
	R(send(c->a, buf, LARGE, 0));
	t.tv_usec = 0;
	R(setsockopt(c->a, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t)));
	R(setsockopt(c->b, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)));
	when_asleep(c, take_all);
	for (i = 0; i < 5; i++)
		R(send(c->a, buf, LARGE, 0));
	R(send(c->a, "end", 3, 0));
}

/* Everything that can be asked of an end that must not block */
static void ask(struct ctx *c, const char *who, int fd)
{
	V("now", "%s", who);
	P(fd, 0);
	take(c, fd, 10, MSG_PEEK);
	take(c, fd, 10, 0);
	take(c, fd, 10, 0);
	R(send(fd, "s", 1, MSG_DONTWAIT));
	N(so_error(fd));
	P(fd, 0);
}

static void shut(struct ctx *c, int how, bool unread)
{
	pair(c);
	if (unread) {
		OK(send(c->a, "to b", 4, 0));
		OK(send(c->b, "to a", 4, 0));
	}
	R(shutdown(c->a, how));
	ask(c, "a", c->a);
	ask(c, "b", c->b);
	R(shutdown(c->b, how));
	ask(c, "b", c->b);
	ask(c, "a", c->a);
	close(c->a);
	ask(c, "b", c->b);
}

#define SHUT(name, how)							\
	SCENARIO_ON(packets, name) { shut(c, how, false); }		\
	SCENARIO_ON(packets, name##_unread) { shut(c, how, true); }

SHUT(shut_rd, SHUT_RD)
SHUT(shut_wr, SHUT_WR)
SHUT(shut_rdwr, SHUT_RDWR)

SCENARIO_ON(packets, closed)
{
	pair(c);
	OK(send(c->a, "last", 4, 0));
	close(c->a);
	ask(c, "b", c->b);
	ask(c, "b", c->b);
}

SCENARIO_ON(packets, closed_unread)
{
	pair(c);
	OK(send(c->b, "unread", 6, 0));
	OK(send(c->a, "last", 4, 0));
	close(c->a);
	ask(c, "b", c->b);
	ask(c, "b", c->b);
}

SCENARIO_ON(packets, closed_empty_unread)
{
	pair(c);
	OK(send(c->b, "", 0, 0));
	close(c->a);
	N(so_error(c->b));
}

/* The end comes while a call waits for something else. */
SCENARIO_ON(packets, end_while_waiting)
{
	pair(c);
	when_asleep(c, end_a);
	R(recv(c->b, buf, 10, 0));
}

/* Only with its like */
SCENARIO_ON(packets, types)
{
	int proto, fam = tested_family(c, &proto), l = listener(c, 2), fd;

	fd = socket(fam, SOCK_STREAM, proto);
	R(connect(fd, SA(&c->la), c->la.len));
	close(fd);
	fd = socket(fam, SOCK_SEQPACKET, proto);
	R(send(fd, "early", 5, 0));
	R(recv(fd, buf, 5, MSG_DONTWAIT));
	P(fd, 0);
	R(connect(fd, SA(&c->la), c->la.len));
	N(so_error(fd));
	R(send(fd, "waits for accept()", 18, 0));
	c->b = R(accept(l, NULL, NULL)) < 0 ? -1 : 0;
	close(fd);
	close(l);
}

SCENARIO_ON(packets, listens)
{
	int l = listener(c, 1), type, proto, fd;
	socklen_t len = sizeof(type);

	R(getsockopt(l, SOL_SOCKET, SO_TYPE, &type, &len));
	N(type);
	R(getsockopt(l, SOL_SOCKET, SO_PROTOCOL, &proto, &len));
	N(proto);
	R(recv(l, buf, 1, MSG_DONTWAIT));
	R(send(l, buf, 1, MSG_DONTWAIT));
	P(l, 0);
	pair_on(c, l);
	R(getsockopt(c->b, SOL_SOCKET, SO_TYPE, &type, &len));
	N(type);
	close(c->a);
	R(recv(c->b, buf, 1, 0));
	fd = cl_socket(c, SOCK_NONBLOCK);
	R(connect(fd, SA(&c->la), c->la.len));
	close(fd);
	close(l);
}

/* What there is in a pipe */
static void pour(struct ctx *c, int fd)
{
	ssize_t n = R(read(fd, buf, 100));

	D(buf, n < 0 ? 0 : n);
}

/* Messages are not spliced, but sent and received all the same. */
SCENARIO_ON(packets, spliced)
{
	loff_t at = 0;
	FILE *f = tmpfile();
	int p[2];

	pair(c);
	OK(pipe2(p, O_NONBLOCK));
	OK(fwrite("from a file", 1, 11, f) == 11 && !fflush(f) ? 0 : -1);
	R(sendfile(c->a, fileno(f), &at, 11));
	take(c, c->b, 100, 0);
	OK(send(c->a, "into a pipe", 11, 0));
	R(splice(c->b, NULL, p[1], NULL, 5, SPLICE_F_NONBLOCK));
	/* what came after it is not in the pipe's pages */
	OK(send(c->a, "0123456789", 10, 0));
	take(c, c->b, 100, 0);
	pour(c, p[0]);
	/* nothing, of a socket that may not wait, and of the end */
	OK(fcntl(c->b, F_SETFL, O_RDWR | O_NONBLOCK));
	R(splice(c->b, NULL, p[1], NULL, 5, 0));
	OK(send(c->a, "", 0, 0));
	OK(send(c->a, "long", 4, 0));
	R(splice(c->b, NULL, p[1], NULL, 5, 0));
	R(splice(c->b, NULL, p[1], NULL, 100, 0));
	pour(c, p[0]);
	OK(shutdown(c->a, SHUT_WR));
	R(splice(c->b, NULL, p[1], NULL, 5, 0));
	fclose(f);
	close(p[0]);
	close(p[1]);
}

TEST_HARNESS_MAIN
