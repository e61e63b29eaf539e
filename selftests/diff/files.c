// SPDX-License-Identifier: GPL-2.0
/* Descriptors and credentials that ride with bytes, beside AF_UNIX's. */
#define DIFF	diff_files
#include "diff.h"

#include <sys/resource.h>
#include <sys/wait.h>

#include "given.h"
#include "pass.h"

DIFF_FIXTURE(diff_files_packets)
DIFF_VARIANT(diff_files_packets, path, .bit = V_PACKETS, .dom = AF_UNIX,
	     .type = SOCK_SEQPACKET, SHM);

/* A scenario for both kinds of sockets */
#define SCENARIO_BOTH(name)						\
	static void both_##name(struct ctx *c);				\
	SCENARIO_ON(un, name) { both_##name(c); }			\
	SCENARIO_ON(packets, name##_packets) { both_##name(c); }	\
	static void both_##name(struct ctx *c)

enum { MOST = 253 };	/* descriptors in a message */

static char buf[1 << 20];
static int some[MOST + 2], nsome;

/* A descriptor that can be told from others: the end of a pipe with a byte. */
static int marked(char mark)
{
	int p[2];

	if (pipe(p) || write(p[1], &mark, 1) != 1)
		return -1;
	close(p[1]);
	return p[0];
}

/* Bytes with the first @n of some[], of which there are @nsome. */
static ssize_t give(int fd, const char *text, size_t len, int n, int flags)
{
	return end_give(fd, text, len, some, n, flags);
}

static void make(char mark, int n)
{
	for (nsome = 0; nsome < n; nsome++)
		some[nsome] = marked(mark + nsome % 26);
}

static void unmake(void)
{
	while (nsome)
		close(some[--nsome]);
}

/* A message with @n descriptors that are marked from @mark on. */
static ssize_t give_marked(int fd, const char *text, char mark, int n)
{
	ssize_t ret;

	make(mark, n);
	ret = give(fd, text, strlen(text), n, 0);
	unmake();
	return ret;
}

/*
 * A receive with room for @len bytes and @n descriptors, and what came: the
 * bytes, flags, and of each descriptor its mark. -1: no room for control
 * messages at all.
 */
static ssize_t take_waiting(struct ctx *c, int fd, size_t len, int n, int flags)
{
	union {
		char b[CMSG_SPACE(MOST * sizeof(int)) +
		       CMSG_SPACE(sizeof(struct ucred))];
		struct cmsghdr align;
	} u = { 0 };
	struct iovec v = { buf, len };
	struct msghdr m = {
		.msg_iov = &v, .msg_iovlen = 1,
		.msg_control = n < 0 ? NULL : u.b,
		.msg_controllen = n < 0 ? 0 : n ? CMSG_LEN(n * sizeof(int)) : 4,
	};
	struct cmsghdr *h;
	int i, got;
	char mark;
	ssize_t ret;

	ret = R(recvmsg(fd, &m, flags));
	D(buf, ret < 0 ? 0 : ret);
	if (ret < 0)
		return ret;
	N(m.msg_flags);
	for (h = CMSG_FIRSTHDR(&m); h; h = CMSG_NXTHDR(&m, h)) {
		N(h->cmsg_type);
		if (h->cmsg_type == SCM_CREDENTIALS) {
			struct ucred cred;

			memcpy(&cred, CMSG_DATA(h), sizeof(cred));
			V("from", "%s, %u, %u", !cred.pid ? "nobody" :
			  cred.pid == getpid() ? "us" : "others", cred.uid,
			  cred.gid);
		}
		if (h->cmsg_type != SCM_RIGHTS)
			continue;
		N(h->cmsg_len);
		for (i = 0; i < (int)((h->cmsg_len - CMSG_LEN(0)) /
				      sizeof(int)); i++) {
			memcpy(&got, CMSG_DATA(h) + i * sizeof(int),
			       sizeof(got));
			mark = '?';
			R(read(got, &mark, 1));
			V("mark", "%c", mark);
			N(fcntl(got, F_GETFD));
			close(got);
		}
	}
	return ret;
}

static ssize_t take(struct ctx *c, int fd, size_t len, int n, int flags)
{
	return take_waiting(c, fd, len, n, flags | MSG_DONTWAIT);
}

SCENARIO_BOTH(one)
{
	pair(c);
	R(give_marked(c->a, "with", 'a', 1));
	P(c->b, POLLIN);
	take(c, c->b, 100, 1, 0);
	P(c->b, 0);
	R(give_marked(c->b, "and back", 'A', 3));
	take(c, c->a, 100, 8, MSG_CMSG_CLOEXEC);
	P(c->a, 0);
	P(c->b, 0);
	R(send(c->a, "without", 7, 0));
	take(c, c->b, 100, 8, 0);
	take(c, c->b, 100, 8, 0);
}

/* Bytes before it come along, bytes behind it do not. */
SCENARIO_BOTH(between)
{
	pair(c);
	R(send(c->a, "ab", 2, 0));
	R(give_marked(c->a, "cd", 'c', 1));
	R(send(c->a, "ef", 2, 0));
	R(give_marked(c->a, "gh", 'g', 2));
	R(give_marked(c->a, "ij", 'i', 1));
	R(send(c->a, "kl", 2, 0));
	take(c, c->b, 100, 8, 0);
	take(c, c->b, 100, 8, MSG_WAITALL);
	take(c, c->b, 100, 8, 0);
	take(c, c->b, 100, 8, 0);
	take(c, c->b, 100, 8, 0);
	take(c, c->b, 100, 8, 0);
	take(c, c->b, 100, 8, 0);
}

/* They come with the first byte that is taken of their record. */
SCENARIO_BOTH(cut)
{
	pair(c);
	R(give_marked(c->a, "0123456789", 'a', 1));
	R(send(c->a, "abc", 3, 0));
	R(give_marked(c->a, "xyz", 'x', 1));
	take(c, c->b, 1, 1, 0);
	take(c, c->b, 3, 1, 0);
	take(c, c->b, 8, 1, 0);
	take(c, c->b, 100, 1, 0);
	take(c, c->b, 100, 1, 0);
}

/* What there is no room for is lost, and the receiver is told. */
SCENARIO_BOTH(no_room)
{
	pair(c);
	R(give_marked(c->a, "none", 'a', 1));
	take(c, c->b, 100, -1, 0);
	R(give_marked(c->a, "less than a header", 'a', 1));
	take(c, c->b, 100, 0, 0);
	R(give_marked(c->a, "two of three", 'a', 3));
	take(c, c->b, 100, 2, 0);
	R(give_marked(c->a, "read", 'a', 2));
	R(read(c->b, buf, 100));
	R(give_marked(c->a, "received", 'a', 2));
	R(recv(c->b, buf, 100, 0));
	R(give_marked(c->a, "last", 'z', 1));
	take(c, c->b, 100, 2, 0);
}

SCENARIO_BOTH(peeked)
{
	pair(c);
	R(send(c->a, "ab", 2, 0));
	R(give_marked(c->a, "cd", 'c', 1));
	R(send(c->a, "ef", 2, 0));
	take(c, c->b, 1, -1, MSG_PEEK);
	take(c, c->b, 100, -1, MSG_PEEK);
	R(recv(c->b, buf, 100, MSG_PEEK));
	R(recv(c->b, buf, 1, 0));
	R(recv(c->b, buf, 100, MSG_PEEK));
	R(give_marked(c->a, "gh", 'g', 1));
	take(c, c->b, 100, 4, 0);
	take(c, c->b, 100, 4, 0);
	take(c, c->b, 100, 4, 0);
}

/* A look brings descriptors of the looker's own. */
SCENARIO_BOTH(peeked_with)
{
	pair(c);
	R(give_marked(c->a, "cd", 'c', 1));
	/* the mark is read of both */
	take(c, c->b, 1, 1, MSG_PEEK);
	take(c, c->b, 100, 1, 0);
	take(c, c->b, 100, 1, 0);
}

/* Wrong lists send nothing. */
SCENARIO_BOTH(refused)
{
	struct {
		struct cmsghdr h;
		int fd[2];
	} bad = { .h = { 1000, SOL_SOCKET, SCM_RIGHTS } };
	struct iovec v = { "bytes", 5 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1,
			    .msg_control = &bad,
			    .msg_controllen = sizeof(bad) };

	pair(c);
	some[0] = -1;
	R(give(c->a, "x", 1, 1, 0));
	some[0] = 12345;
	R(give(c->a, "x", 1, 1, 0));
	some[0] = 0;
	some[1] = -1;
	R(give(c->a, "x", 1, 2, 0));
	R(sendmsg(c->a, &m, 0));
	bad.h.cmsg_len = 3;
	R(sendmsg(c->a, &m, 0));
	bad.h.cmsg_len = CMSG_LEN(0);
	R(sendmsg(c->a, &m, 0));
	bad.h.cmsg_type = 77;
	R(sendmsg(c->a, &m, 0));
	bad.h = (struct cmsghdr){ CMSG_LEN(4), SOL_SOCKET, SCM_CREDENTIALS };
	R(sendmsg(c->a, &m, 0));
	/* of another level: overlooked */
	bad.h = (struct cmsghdr){ CMSG_LEN(4), SOL_TCP, SCM_RIGHTS };
	R(sendmsg(c->a, &m, 0));
	take(c, c->b, 100, 8, 0);
	take(c, c->b, 100, 8, 0);
	P(c->b, 0);
	make('a', MOST + 1);
	R(give(c->a, "too many", 8, MOST + 1, 0));
	R(give(c->a, "as many as can be", 17, MOST, 0));
	unmake();
	take(c, c->b, 100, MOST, 0);
	take(c, c->b, 100, MOST, 0);
}

/* A message of no bytes is one, a stream has none. */
SCENARIO_BOTH(no_bytes)
{
	pair(c);
	R(give_marked(c->a, "", 'a', 1));
	some[0] = -1;
	R(give(c->a, "", 0, 1, 0));
	P(c->b, 0);
	R(send(c->a, "x", 1, 0));
	take(c, c->b, 100, 2, 0);
	take(c, c->b, 100, 2, 0);
}

/* Is a descriptor that waits in a queue closed with it? */
SCENARIO_BOTH(closed_unread)
{
	int p[2];

	pair(c);
	OK(pipe(p));
	some[0] = p[0];
	R(give(c->a, "x", 1, 1, 0));
	close(p[0]);
	signal(SIGPIPE, SIG_IGN);
	R(write(p[1], "in flight", 9));
	close(c->b);
	P(p[1], POLLERR);
	R(write(p[1], "closed", 6));
	P(c->a, POLLHUP);
	R(recv(c->a, buf, 9, 0));
	R(recv(c->a, buf, 9, 0));
	R(give_marked(c->a, "x", 'a', 1));
	R(send(c->a, "x", 1, MSG_NOSIGNAL));
}

SCENARIO_BOTH(closed_before)
{
	pair(c);
	close(c->b);
	P(c->a, POLLHUP);
	R(give_marked(c->a, "x", 'a', 1));
	some[0] = -1;
	R(give(c->a, "x", 1, 1, 0));
	R(recv(c->a, buf, 9, 0));
}

/* The sender is gone, what it sent is there. */
SCENARIO_BOTH(closed_after)
{
	pair(c);
	R(give_marked(c->a, "first", 'a', 1));
	R(give_marked(c->a, "last", 'z', 2));
	close(c->a);
	P(c->b, POLLHUP);
	take(c, c->b, 100, 4, 0);
	take(c, c->b, 100, 4, 0);
	take(c, c->b, 100, 4, 0);
}

SCENARIO_BOTH(shut)
{
	pair(c);
	R(give_marked(c->a, "first", 'a', 1));
	R(shutdown(c->a, SHUT_WR));
	R(give_marked(c->a, "second", 'a', 1));
	take(c, c->b, 100, 4, 0);
	take(c, c->b, 100, 4, 0);
	R(give_marked(c->b, "third", 'a', 1));
	R(shutdown(c->a, SHUT_RD));
	R(give_marked(c->b, "fourth", 'a', 1));
	take(c, c->a, 100, 4, 0);
	take(c, c->a, 100, 4, 0);
}

SCENARIO_BOTH(credentials)
{
	struct ucred cred = { getpid(), getuid(), getgid() };
	int one = 1;

	pair(c);
	R(creds_give_of(c->a, "x", 1, &cred, 0));
	take(c, c->b, 100, 4, 0);
	R(setsockopt(c->b, SOL_SOCKET, SO_PASSCRED, &one, sizeof(one)));
	R(creds_give_of(c->a, "x", 1, &cred, 0));
	take(c, c->b, 100, 30, 0);
	R(give_marked(c->a, "both", 'a', 1));
	take(c, c->b, 100, 30, 0);
	cred.pid = 0x3fffff00;
	R(creds_give_of(c->a, "x", 1, &cred, 0));
	P(c->b, 0);
}

/* A receiver that asks once it is connected, and what came before */
SCENARIO_BOTH(asked_late)
{
	int one = 1, none = 0;
	size_t i;

	pair(c);
	R(send(c->a, "before", 6, 0));
	settle(c);
	R(setsockopt(c->b, SOL_SOCKET, SO_PASSCRED, &one, sizeof(one)));
	take(c, c->b, 100, 30, 0);
	R(send(c->a, "after", 5, 0));
	R(write(c->a, "and on", 6));
	take(c, c->b, 5, 30, 0);
	take(c, c->b, 3, 30, MSG_PEEK);
	take(c, c->b, 6, -1, 0);
	R(give_marked(c->a, "both", 'a', 1));
	take(c, c->b, 100, 30, 0);
	R(send(c->b, "not asked", 9, 0));
	take(c, c->a, 100, 30, 0);
	/* as long as it asks */
	for (i = 0; i < 3; i++)
		R(send(c->a, "0123456789" + i, 5, 0));
	R(recv(c->b, buf, 5, MSG_WAITALL));
	R(setsockopt(c->b, SOL_SOCKET, SO_PASSCRED, &none, sizeof(none)));
	take(c, c->b, 5, 30, 0);
	take(c, c->b, 5, 30, 0);
	R(send(c->a, "last", 4, 0));
	take(c, c->b, 9, 30, 0);
	R(setsockopt(c->b, SOL_SOCKET, SO_PASSCRED, &one, sizeof(one)));
	close(c->a);
	P(c->b, POLLHUP);
	take(c, c->b, 9, 30, 0);
}

/* A listener that asks once a client is there accepts a socket that does. */
SCENARIO_BOTH(listener_asks)
{
	int one = 1, l;

	l = OK(listener(c, 5));
	c->a = OK(cl_socket(c, 0));
	OK(connect(c->a, SA(&c->la), c->la.len));
	R(setsockopt(l, SOL_SOCKET, SO_PASSCRED, &one, sizeof(one)));
	c->b = OK(accept(l, NULL, NULL));
	check_transport(c, c->b, true);
	R(send(c->a, "after", 5, 0));
	take(c, c->b, 5, 30, 0);
	R(send(c->b, "back", 4, 0));
	take(c, c->a, 5, 30, 0);
	close(l);
}

/* Credentials that are stated hold for all of a send, also if it is long. */
SCENARIO_BOTH(stated_for_all)
{
	struct ucred cred = { getpid(), 1234, 5678 };
	size_t left = 150000, n = 0;
	int one = 1;
	ssize_t got;

	pair(c);
	R(setsockopt(c->b, SOL_SOCKET, SO_PASSCRED, &one, sizeof(one)));
	memset(buf, 's', left);
	R(creds_give_of(c->a, buf, left, &cred, 0) == (ssize_t)left);
	for (; left; left -= got, n++) {
		union {
			char b[CMSG_SPACE(sizeof(cred))];
			struct cmsghdr align;
		} u = { 0 };
		struct iovec v = { buf, left };
		struct msghdr m = {
			.msg_iov = &v, .msg_iovlen = 1,
			.msg_control = u.b, .msg_controllen = sizeof(u.b),
		};
		struct cmsghdr *h;

		got = recvmsg(c->b, &m, 0);
		h = CMSG_FIRSTHDR(&m);
		if (got <= 0 || !h || h->cmsg_type != SCM_CREDENTIALS)
			break;
		memcpy(&cred, CMSG_DATA(h), sizeof(cred));
		if (cred.uid != 1234 || cred.gid != 5678)
			break;
	}
	N(left);
}

/* Each part of what is read in parts says who sent it. */
SCENARIO_BOTH(parts)
{
	struct ucred cred = { getpid(), 1234, 5678 };
	int one = 1;

	pair(c);
	R(setsockopt(c->b, SOL_SOCKET, SO_PASSCRED, &one, sizeof(one)));
	R(creds_give_of(c->a, "0123456789", 10, &cred, 0));
	R(send(c->a, "real", 4, 0));
	take(c, c->b, 3, 30, 0);
	take(c, c->b, 3, 30, MSG_PEEK);
	take(c, c->b, 3, 30, 0);
	take(c, c->b, 4, 30, 0);
	take(c, c->b, 9, 30, 0);
	take(c, c->b, 9, 30, 0);
}

/* What was sent before it asked, and after, in one receive: apart */
static void sends_after(struct ctx *c)
{
	send(c->a, "waited", 6, 0);
}

SCENARIO_BOTH(asked_between)
{
	int one = 1, none = 0;

	pair(c);
	R(send(c->a, "before", 6, 0));
	R(setsockopt(c->b, SOL_SOCKET, SO_PASSCRED, &one, sizeof(one)));
	R(send(c->a, "after", 5, 0));
	take(c, c->b, 100, 30, MSG_PEEK);
	take(c, c->b, 100, 30, 0);
	take(c, c->b, 100, 30, 0);
	R(setsockopt(c->b, SOL_SOCKET, SO_PASSCRED, &none, sizeof(none)));
	R(send(c->a, "again", 5, 0));
	R(setsockopt(c->b, SOL_SOCKET, SO_PASSCRED, &one, sizeof(one)));
	/* a packet is not waited on for more */
	if (c->v->bit != V_PACKETS)
		when_asleep(c, sends_after);
	take_waiting(c, c->b, 11, 30, MSG_WAITALL);
	take(c, c->b, 100, 30, 0);
}

/* Descriptors that nobody takes: a sender has to wait, and is told when not. */
SCENARIO_BOTH(full)
{
	int i, n = 0;

	pair(c);
	make('a', 1);
	while (n < 100000 && give(c->a, "x", 1, 1, MSG_DONTWAIT) == 1)
		n++;
	V("some", "%d", n > 8 && n < 100000);
	R(give(c->a, "x", 1, 1, MSG_DONTWAIT));
	P(c->a, 0);
	for (i = 0; i < n; i++)
		if (recv(c->b, buf, 1, MSG_DONTWAIT) != 1)
			break;
	V("all", "%d", i == n);
	P(c->a, POLLOUT);
	R(give(c->a, "x", 1, 1, MSG_DONTWAIT));
	take(c, c->b, 9, 1, 0);
	unmake();
}

static void sends_many(struct ctx *c)
{
	char text[40];
	int i;

	close(c->b);
	for (i = 0; i < 2000; i++) {
		snprintf(text, sizeof(text), "message %04d", i);
		if (i % 3) {
			if (send(c->a, text, 12, 0) != 12)
				_exit(1);
		} else {
			make('A', 1 + i % 2);
			if (give(c->a, text, 12, nsome, 0) != 12)
				_exit(2);
			unmake();
		}
	}
}

/* splice() has no place for them. */
SCENARIO_ON(un, spliced)
{
	int p[2];

	pair(c);
	OK(pipe(p));
	R(give_marked(c->a, "abc", 'a', 1));
	R(give_marked(c->a, "def", 'd', 1));
	R(splice(c->b, NULL, p[1], NULL, 2, SPLICE_F_NONBLOCK));
	R(splice(c->b, NULL, p[1], NULL, 1, SPLICE_F_NONBLOCK));
	R(read(p[0], buf, 9));
	take(c, c->b, 9, 2, 0);
	P(c->b, 0);
}

/* A sender that waits until there is room, and a reader that takes all */
SCENARIO_BOTH(many)
{
	union {
		char b[CMSG_SPACE(2 * sizeof(int))];
		struct cmsghdr align;
	} u;
	struct iovec v = { buf, 12 };
	int i, j, fd[2], wrong = 0;
	struct cmsghdr *h;
	char want[40];

	pair(c);
	beside(c, sends_many);
	close(c->a);
	for (i = 0; i < 2000; i++) {
		struct msghdr m = {
			.msg_iov = &v, .msg_iovlen = 1,
			.msg_control = u.b, .msg_controllen = sizeof(u.b),
		};
		int n = i % 3 ? 0 : 1 + i % 2;
		ssize_t got = recvmsg(c->b, &m, 0);

		snprintf(want, sizeof(want), "message %04d", i);
		wrong += got != 12 || memcmp(buf, want, 12);
		h = CMSG_FIRSTHDR(&m);
		wrong += !h != !n || m.msg_flags & MSG_CTRUNC;
		if (!h || h->cmsg_len != CMSG_LEN(n * sizeof(int))) {
			wrong += n;
			continue;
		}
		memcpy(fd, CMSG_DATA(h), n * sizeof(int));
		for (j = 0; j < n; j++) {
			wrong += read(fd[j], buf, 1) != 1 || *buf != 'A' + j;
			close(fd[j]);
		}
	}
	N(wrong);
	R(recv(c->b, buf, 9, 0));
}

/* A file with the bytes of a write that is long: with the first of them */
SCENARIO_ON(un, with_much)
{
	size_t left = 300000;
	ssize_t n;

	pair(c);
	memset(buf, 'l', sizeof(buf));
	make('a', 1);
	n = give(c->a, buf, left, 1, MSG_DONTWAIT);
	unmake();
	V("sent", "%d", n > 10000);
	take(c, c->b, 5, 1, 0);
	take(c, c->b, 5, 1, 0);
}

TEST_HARNESS_MAIN
