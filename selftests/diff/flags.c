// SPDX-License-Identifier: GPL-2.0
/* MSG_ flags and ioctls. */
#define DIFF	diff_flags
#include "diff.h"

#include <linux/sockios.h>
#include <net/if.h>
#include <sys/stat.h>

static char buf[1 << 16];

SCENARIO(peek)
{
	int n, i;

	pair(c);
	OK(send(c->b, "abc", 3, 0));
	OK(send(c->b, "defgh", 5, 0));
	await(c->a, 8);
	for (i = 1; i <= 12; i += 2) {
		n = R(recv(c->a, buf, i, MSG_PEEK));
		D(buf, n);
	}
	n = R(recv(c->a, buf, 2, 0));
	D(buf, n);
	n = R(recv(c->a, buf, 99, MSG_PEEK));
	D(buf, n);
	n = R(recv(c->a, buf, 99, MSG_PEEK));
	D(buf, n);
	n = R(recv(c->a, buf, 4, 0));
	D(buf, n);
	n = R(recv(c->a, buf, 99, MSG_PEEK | MSG_DONTWAIT));
	D(buf, n);
	n = R(recv(c->a, buf, 99, 0));
	D(buf, n);
	R(recv(c->a, buf, 99, MSG_PEEK | MSG_DONTWAIT));
	OK(send(c->b, "last", 4, 0));
	OK(shutdown(c->b, SHUT_WR));
	P(c->a, POLLRDHUP | POLLIN);
	n = R(recv(c->a, buf, 99, MSG_PEEK));
	D(buf, n);
	n = R(recv(c->a, buf, 99, 0));
	R(recv(c->a, buf, 99, MSG_PEEK));
	R(recv(c->a, buf, 99, MSG_PEEK));
}

SCENARIO(peek_far)
{
	int n;

	pair(c);
	l5_fill(buf, 50000, 0);
	OK(send(c->b, buf, 50000, 0));
	await(c->a, 50000);
	memset(buf, 0, sizeof(buf));
	n = R(recv(c->a, buf, 50000, MSG_PEEK));
	N(l5_check(buf, n, 0));
	R(drain(c->a, 12345, 0));
	n = R(recv(c->a, buf, 30000, MSG_PEEK));
	N(l5_check(buf, n, 12345));
	R(drain(c->a, 50000 - 12345, 12345));
	P(c->a, 0);
}

SCENARIO(peek_offset)
{
	socklen_t len = sizeof(int);
	int v = 2;

	pair(c);
	/* TCP learnt this in 6.9; AF_UNIX always knew. */
	R(setsockopt(c->a, SOL_SOCKET, SO_PEEK_OFF, &v, sizeof(v)));
	R(getsockopt(c->a, SOL_SOCKET, SO_PEEK_OFF, &v, &len));
}

/* TCP with MSG_TRUNC throws data away and says how much. */
SCENARIO(trunc)
{
	struct iovec v = { buf, 2 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
	int n;

	pair(c);
	OK(send(c->b, "abcdefghij", 10, 0));
	await(c->a, 10);
	memset(buf, '-', 16);
	n = R(recv(c->a, buf, 3, MSG_TRUNC));
	D(buf, 4);
	n = R(recv(c->a, buf, 2, MSG_PEEK | MSG_TRUNC));
	n = R(recvmsg(c->a, &m, MSG_TRUNC));
	N(m.msg_flags);
	n = R(recv(c->a, buf, 99, 0));
	D(buf, n);
	OK(send(c->b, "abcdefghij", 10, 0));
	await(c->a, 10);
	/* With no buffer at all. */
	n = R(recv(c->a, NULL, 4, MSG_TRUNC));
	if (n < 0 && errno == EFAULT)
		R(recv(c->a, buf, 4, 0));
	n = R(recv(c->a, buf, 99, MSG_DONTWAIT));
	D(buf, n);
}

/* And with MSG_PEEK says how much there is, and touches nothing. */
SCENARIO(peek_trunc)
{
	struct iovec v[2] = { { buf, 2 }, { buf + 8, 5 } };
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };
	int n;

	pair(c);
	OK(send(c->b, "abcdefghij", 10, 0));
	await(c->a, 10);
	memset(buf, '-', 16);
	n = R(recv(c->a, buf, 4, MSG_PEEK | MSG_TRUNC));
	D(buf, 5);
	R(recvmsg(c->a, &m, MSG_PEEK | MSG_TRUNC));
	N(m.msg_flags);
	D(buf, 15);
	R(recv(c->a, buf, 99, MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT));
	D(buf, 12);
	/* With no buffer at all, and with memory that is none. */
	R(recv(c->a, NULL, 4, MSG_PEEK | MSG_TRUNC));
	R(recv(c->a, bad_pointer(), 4, MSG_PEEK | MSG_TRUNC));
	memset(buf, '-', 16);
	n = R(recv(c->a, buf, 99, 0));
	D(buf, n);
	R(recv(c->a, buf, 9, MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT));
	OK(shutdown(c->b, SHUT_WR));
	P(c->a, POLLRDHUP);
	R(recv(c->a, buf, 9, MSG_PEEK | MSG_TRUNC));
}

/* All that is asked for, a part of which has to be waited for. */
static void send_more(struct ctx *c)
{
	send(c->b, "efgh", 4, 0);
}

SCENARIO_ON(tcp, peek_trunc_waits)
{
	int n;

	pair(c);
	OK(send(c->b, "abcd", 4, 0));
	await(c->a, 4);
	memset(buf, '-', 16);
	when_asleep(c, send_more);
	R(recv(c->a, buf, 8, MSG_PEEK | MSG_TRUNC | MSG_WAITALL));
	D(buf, 9);
	n = R(recv(c->a, buf, 8, MSG_WAITALL));
	D(buf, n);
}

SCENARIO(more)
{
	int i, n;

	pair(c);
	for (i = 0; i < 5; i++)
		R(send(c->a, "more", 4, MSG_MORE));
	R(send(c->a, "end", 3, 0));
	await(c->b, 23);
	n = R(recv(c->b, buf, 99, 0));
	D(buf, n);
	/* A lone MSG_MORE is sent after a while, or with the FIN. */
	R(send(c->a, "tail", 4, MSG_MORE));
	OK(shutdown(c->a, SHUT_WR));
	P(c->b, POLLIN | POLLRDHUP);
	n = R(recv(c->b, buf, 99, 0));
	D(buf, n);
	R(recv(c->b, buf, 99, 0));
}

SCENARIO(more_in_time)
{
	struct pollfd p = { .events = POLLIN };
	int n;

	pair(c);
	p.fd = c->b;
	R(send(c->a, "tail", 4, MSG_MORE));
	R(poll(&p, 1, 10000));
	n = R(recv(c->b, buf, 99, 0));
	D(buf, n);
}

/* Receive with room for @room bytes of control messages, and say which came. */
static void recv_inq(struct ctx *c, int fd, size_t want, size_t room, int flags)
{
	union {
		struct cmsghdr align;
		char buf[256];
	} u;
	struct iovec v = { buf, want };
	struct msghdr m = {
		.msg_iov = &v, .msg_iovlen = 1,
		.msg_control = room ? u.buf : NULL, .msg_controllen = room,
	};
	struct cmsghdr *i;
	int left;

	if (R(recvmsg(fd, &m, flags)) < 0)
		return;
	/* without room for them the library need not ask for any */
	if (room)
		N(m.msg_flags);
	N(m.msg_controllen);
	for (i = CMSG_FIRSTHDR(&m); i; i = CMSG_NXTHDR(&m, i)) {
		memcpy(&left, CMSG_DATA(i), sizeof(left));
		V("control message", "level %d type %d length %zu: %d",
		  i->cmsg_level, i->cmsg_type, (size_t)i->cmsg_len, left);
	}
}

/* How much is left is told with each receive. */
SCENARIO_ON(tcp, inq)
{
	int one = 1, zero = 0;

	pair(c);
	R(setsockopt(c->a, IPPROTO_TCP, TCP_INQ, &one, sizeof(one)));
	recv_inq(c, c->a, 4, 256, MSG_DONTWAIT);
	OK(send(c->b, "abcdefghij", 10, 0));
	await(c->a, 10);
	recv_inq(c, c->a, 4, 256, 0);
	recv_inq(c, c->a, 4, 256, MSG_PEEK);
	recv_inq(c, c->a, 2, 8, 0);
	recv_inq(c, c->a, 2, 0, 0);
	recv_inq(c, c->a, 99, 256, 0);
	OK(send(c->b, "kl", 2, 0));
	await(c->a, 2);
	OK(shutdown(c->b, SHUT_WR));
	P(c->a, POLLRDHUP);
	settle(c);
	recv_inq(c, c->a, 1, 256, 0);
	recv_inq(c, c->a, 1, 256, 0);
	recv_inq(c, c->a, 1, 256, 0);
	R(setsockopt(c->a, IPPROTO_TCP, TCP_INQ, &zero, sizeof(zero)));
	recv_inq(c, c->a, 1, 256, 0);
}

/* What is kept back for more to come: see the table of deviations. */
SCENARIO_ON(tcp, more_unseen)
{
	int n;

	pair(c);
	R(send(c->a, "head", 4, MSG_MORE));
	settle(c);
	n = -1;
	OK(ioctl(c->b, FIONREAD, &n));
	V("seen of what MSG_MORE keeps", "%d", n);
	R(send(c->a, "body", 4, 0));
	await(c->b, 8);
	n = R(recv(c->b, buf, 99, 0));
	D(buf, n);
}

/* A socket in use does not take it, and goes on. */
SCENARIO_ON(tcp, tls_after_connect)
{
	int n;

	pair(c);
	if (c->v->transport != L5_TRANSPORT_BASE)
		R(setsockopt(c->a, IPPROTO_TCP, TCP_ULP, "tls", 3));
	R(send(c->a, "abc", 3, 0));
	n = R(recv(c->b, buf, 9, 0));
	D(buf, n);
}

SCENARIO(sigpipe)
{
	struct iovec v = { "x", 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };

	pair(c);
	catch_signal(SIGPIPE, 0);
	OK(shutdown(c->a, SHUT_WR));
	R(send(c->a, "x", 1, 0));
	N(caught);
	R(send(c->a, "x", 1, MSG_NOSIGNAL));
	N(caught);
	R(write(c->a, "x", 1));
	N(caught);
	R(writev(c->a, &v, 1));
	N(caught);
	R(sendmsg(c->a, &m, 0));
	N(caught);
	R(sendmsg(c->a, &m, MSG_NOSIGNAL));
	N(caught);
	R(send(c->a, "", 0, 0));
	R(write(c->a, "", 0));
	N(caught);
	signal(SIGPIPE, SIG_IGN);
	R(send(c->a, "x", 1, 0));
	signal(SIGPIPE, SIG_DFL);
	/* The transcript ends here. */
	send(c->a, "x", 1, 0);
	V("survived", "it");
}

SCENARIO(oob)
{
	int n, mark = -1;

	pair(c);
	R(ioctl(c->b, SIOCATMARK, &mark));
	N(mark);
	R(recv(c->b, buf, 1, MSG_OOB));
	OK(send(c->a, "ab", 2, 0));
	n = R(send(c->a, "c", 1, MSG_OOB));
	OK(send(c->a, "d", 1, 0));
	await(c->b, 2);
	settle(c);
	P(c->b, POLLIN);
	R(recv(c->b, buf, 1, MSG_OOB));
	n = recv(c->b, buf, 99, 0);
	V("read past it", "%d", n);
	D(buf, n);
	R(ioctl(c->b, SIOCATMARK, &mark));
	V("mark", "%d", mark);
	R(send(c->a, "", 0, MSG_OOB));
}

SCENARIO(oob_inline)
{
	int n, one = 1;

	pair(c);
	R(setsockopt(c->b, SOL_SOCKET, SO_OOBINLINE, &one, sizeof(one)));
	R(recv(c->b, buf, 1, MSG_OOB | MSG_DONTWAIT));
	OK(send(c->a, "ab", 2, 0));
	await(c->b, 2);
	n = R(recv(c->b, buf, 99, 0));
	D(buf, n);
}

SCENARIO(errqueue)
{
	struct iovec v = { buf, 99 };
	char ctl[200];
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1,
			    .msg_control = ctl, .msg_controllen = 200 };

	pair(c);
	if (!is_unix(c))	/* AF_UNIX does not know it: it would block */
		R(recvmsg(c->a, &m, MSG_ERRQUEUE));
	R(recv(c->a, buf, 9, MSG_ERRQUEUE | MSG_DONTWAIT));
	OK(send(c->b, "abc", 3, 0));
	await(c->a, 3);
	R(recv(c->a, buf, 9, MSG_ERRQUEUE | MSG_DONTWAIT));
	R(recv(c->a, buf, 9, MSG_DONTWAIT));
}

SCENARIO(odd_flags)
{
	static const unsigned int flags[] = {
		MSG_CONFIRM, MSG_DONTROUTE, MSG_EOR, MSG_PROXY, MSG_SYN,
		MSG_RST, MSG_FIN, 1u << 24, MSG_CTRUNC,
	};
	unsigned int i;

	pair(c);
	for (i = 0; i < ARRAY_SIZE(flags); i++) {
		R(send(c->a, "abc", 3, flags[i] | MSG_NOSIGNAL));
		await(c->b, 3);
		R(recv(c->b, buf, 99, MSG_DONTWAIT));
		OK(send(c->a, "abc", 3, 0));
		await(c->b, 3);
		R(recv(c->b, buf, 99, flags[i] | MSG_DONTWAIT));
		while (recv(c->b, buf, 99, MSG_DONTWAIT) > 0)
			;
	}
}

SCENARIO(zerocopy)
{
	pair(c);
	/* Without SO_ZEROCOPY the flag means nothing. */
	R(send(c->a, "abc", 3, MSG_ZEROCOPY));
	await(c->b, 3);
	R(recv(c->b, buf, 99, MSG_DONTWAIT));
}

SCENARIO(fastopen)
{
	int s = cl_socket(c, 0), l = listener(c, 4), a;

	R(sendto(s, "fast", 4, MSG_FASTOPEN | MSG_NOSIGNAL, SA(&c->la),
		 c->la.len));
	if (is_unix(c))
		return;
	a = OK(accept(l, NULL, NULL));
	await(a, 4);
	R(recv(a, buf, 99, MSG_DONTWAIT));
	R(send(a, "x", 1, 0));
	R(recv(s, buf, 99, 0));
}

SCENARIO(fionread)
{
	int v, s = cl_socket(c, 0), l;

	v = -1;
	R(ioctl(s, FIONREAD, &v));
	N(v);
	l = listener(c, 4);
	v = -1;
	R(ioctl(l, FIONREAD, &v));
	N(v);
	R(ioctl(l, SIOCOUTQ, &v));
	pair(c);
	R(ioctl(c->a, FIONREAD, &v));
	N(v);
	OK(send(c->b, "abc", 3, 0));
	await(c->a, 3);
	R(ioctl(c->a, FIONREAD, &v));
	N(v);
	l5_fill(buf, 30000, 0);
	OK(send(c->b, buf, 30000, 0));
	await(c->a, 30003);
	R(ioctl(c->a, SIOCINQ, &v));
	N(v);
	OK(recv(c->a, buf, 2, 0));
	R(ioctl(c->a, FIONREAD, &v));
	N(v);
	R(recv(c->a, buf, 5, MSG_PEEK));
	R(ioctl(c->a, FIONREAD, &v));
	N(v);
	OK(shutdown(c->b, SHUT_WR));
	P(c->a, POLLRDHUP);
	R(ioctl(c->a, FIONREAD, &v));
	N(v);
	OK(recv(c->a, buf, 30001, MSG_WAITALL));
	R(ioctl(c->a, FIONREAD, &v));
	N(v);
	R(recv(c->a, buf, 9, 0));
	R(ioctl(c->a, FIONREAD, &v));
	N(v);
	R(ioctl(c->a, FIONREAD, bad_pointer()));
}

SCENARIO(outq)
{
	int v = -1, i;

	pair(c);
	R(ioctl(c->a, SIOCOUTQ, &v));
	N(v);
	OK(send(c->a, "abc", 3, 0));
	await(c->b, 3);
	R(ioctl(c->a, SIOCOUTQ, &v));
	/* TCP counts until acknowledged, AF_L5 until read. */
	for (i = 0; i < 10000 && v; i++) {
		recv(c->b, buf, 9, MSG_DONTWAIT);
		usleep(1000);
		ioctl(c->a, SIOCOUTQ, &v);
	}
	V("when all is read", "%d", v);
	R(ioctl(c->a, SIOCOUTQNSD, &v));
	N(v);
	R(ioctl(c->a, SIOCOUTQ, bad_pointer()));
}

SCENARIO(ioctls)
{
	static const unsigned long cmds[] = {
		0, 1, 0x5401, 0x5413, 0xdeadbeef, SIOCGIFADDR, SIOCGIFINDEX,
		SIOCADDRT, SIOCGSTAMP, SIOCGSTAMPNS, SIOCPROTOPRIVATE,
		SIOCGPGRP, SIOCSPGRP, FIOGETOWN, FIOSETOWN, FIOQSIZE, 2,
	};
	unsigned int i;
	char label[40];

	pair(c);
	for (i = 0; i < ARRAY_SIZE(cmds); i++) {
		memset(buf, 0, 64);
		strcpy(buf, "lo");
		snprintf(label, sizeof(label), "ioctl %#lx", cmds[i]);
		errno = 0;
		log_ret(c, label, ioctl(c->a, cmds[i], buf));
		errno = 0;
		log_ret(c, label, ioctl(c->a, cmds[i], NULL));
		errno = 0;
		log_ret(c, label, ioctl(c->a, cmds[i], bad_pointer()));
	}
}

SCENARIO(other_calls)
{
	struct stat st;

	pair(c);
	memset(&st, 0, sizeof(st));
	R(fstat(c->a, &st));
	V("mode", "%o", st.st_mode);
	V("size", "%lld", (long long)st.st_size);
	V("blksize", "%lld", (long long)st.st_blksize);
	R(ftruncate(c->a, 0));
	R(fsync(c->a));
	R(fallocate(c->a, 0, 0, 1));
	R(fchmod(c->a, 0700));
	R(lseek(c->a, 0, SEEK_END));
	R(fcntl(c->a, F_GETFL));
	R(fcntl(c->a, F_GETFD));
	R(fcntl(c->a, F_SETFL, O_APPEND | O_DIRECT));
	R(fcntl(c->a, F_GETPIPE_SZ));
	R(fcntl(c->a, F_GETSIG));
	R(isatty(c->a));
	R(readahead(c->a, 0, 1));
	R(posix_fadvise(c->a, 0, 0, 0));
	R(copy_file_range(c->a, NULL, c->b, NULL, 1, 0));
	R(syscall(0x7fffffff, c->a));
}

SCENARIO(types)
{
	/* Only where the tested family itself is asked. */
	int fam, proto;

	if (c->v->bit == V_TO_PLAIN || c->v->bit == V_FROM_PLAIN)
		return V("not", "here");
	fam = tested_family(c, &proto);
	R(socket(fam, SOCK_STREAM | 0x1000, proto));
	R(socket(fam, 77, proto));
	R(socket(fam, 0, proto));
	R(socket(fam, SOCK_RDM, proto));
	R(socket(fam, SOCK_STREAM, -1));
	R(socket(fam, SOCK_STREAM, 12345));
	R(socket(fam, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, proto) >= 0);
	N(!!(fcntl(cl_socket(c, SOCK_NONBLOCK), F_GETFL) & O_NONBLOCK));
	N(fcntl(cl_socket(c, SOCK_CLOEXEC), F_GETFD));
}

SCENARIO_ON(tcp, no_socketpair)
{
	int fam, proto, p[2];

	if (c->v->bit == V_TO_PLAIN || c->v->bit == V_FROM_PLAIN)
		return V("not", "here");
	fam = tested_family(c, &proto);
	R(socketpair(fam, SOCK_STREAM, proto, p));
}

TEST_HARNESS_MAIN
