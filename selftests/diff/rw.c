// SPDX-License-Identifier: GPL-2.0
/* Reading and writing, by every call that copies. */
#define DIFF	diff_rw
#include "diff.h"

static char buf[1 << 17];

SCENARIO(read_write)
{
	int n;

	pair(c);
	R(write(c->a, "hello", 5));
	P(c->b, POLLIN);
	n = R(read(c->b, buf, sizeof(buf)));
	D(buf, n);
	P(c->b, 0);
	R(write(c->b, "back", 4));
	P(c->a, POLLIN);
	n = R(read(c->a, buf, 2));
	D(buf, n);
	P(c->a, POLLIN);
	n = R(read(c->a, buf, 2));
	D(buf, n);
	P(c->a, 0);
}

SCENARIO(sizes)
{
	static const int sizes[] = {
		1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 63, 64, 65, 127, 255, 511,
		1000, 1023, 1024, 1025, 2047, 4087, 4088, 4095, 4096, 4097,
		8191, 8192, 8193, 16383, 30001,
	};
	uint64_t pos = 0;
	unsigned int i;
	int n;

	pair(c);
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		l5_fill(buf, sizes[i], pos);
		R(send(c->a, buf, sizes[i], 0));
		await(c->b, sizes[i]);
		memset(buf, 0, sizes[i]);
		n = R(recv(c->b, buf, sizeof(buf), 0));
		N(l5_check(buf, n, pos));
		pos += sizes[i];
	}
	P(c->b, 0);
}

SCENARIO(small_reads_of_big)
{
	int i, n;

	pair(c);
	l5_fill(buf, 10000, 0);
	R(send(c->a, buf, 10000, 0));
	await(c->b, 10000);
	for (i = 0; i < 10000; i += 333) {
		n = R(recv(c->b, buf, 333, 0));
		N(l5_check(buf, n, i));
	}
	P(c->b, 0);
}

SCENARIO(big_read_of_small)
{
	int i, n;

	pair(c);
	for (i = 0; i < 100; i++) {
		l5_fill(buf, i % 7 + 1, i * 7);
		if (send(c->a, buf, i % 7 + 1, 0) != i % 7 + 1)
			V("send", "failed at %d", i);
	}
	for (n = i = 0; i < 100; i++)
		n += i % 7 + 1;
	await(c->b, n);
	n = R(recv(c->b, buf, sizeof(buf), 0));
	D(buf, n);
	P(c->b, 0);
}

SCENARIO(zero_length)
{
	struct iovec none = { buf, 0 }, three[3] = {
		{ buf, 0 }, { buf, 1 }, { NULL, 0 },
	};
	struct msghdr m = { .msg_iov = &none, .msg_iovlen = 1 };
	struct msghdr no_iov = { 0 };
	int n;

	pair(c);
	R(write(c->a, buf, 0));
	R(write(c->a, NULL, 0));
	R(send(c->a, buf, 0, 0));
	R(send(c->a, NULL, 0, 0));
	R(sendmsg(c->a, &m, 0));
	R(sendmsg(c->a, &no_iov, 0));
	R(writev(c->a, &none, 1));
	R(writev(c->a, &none, 0));
	P(c->b, 0);
	R(read(c->b, buf, 0));
	R(read(c->b, NULL, 0));
	R(readv(c->b, &none, 0));
	R(recv(c->b, buf, 0, MSG_DONTWAIT));
	R(recv(c->b, buf, 1, MSG_DONTWAIT));
	buf[0] = 'q';
	R(writev(c->a, three, 3));
	P(c->b, POLLIN);
	/* A zero-length read with data there consumes nothing. */
	R(read(c->b, buf, 0));
	R(recv(c->b, buf, 0, 0));
	R(recv(c->b, buf, 0, MSG_DONTWAIT));
	n = R(recv(c->b, buf, 9, 0));
	D(buf, n);
}

SCENARIO(vectors)
{
	static struct iovec v[1025];
	volatile int minus_one = -1;
	char out[64][97];
	int i, n, sum = 0;

	pair(c);
	for (i = 0; i < 64; i++) {
		v[i].iov_base = buf + sum;
		v[i].iov_len = i * 7 % 97;
		sum += v[i].iov_len;
	}
	l5_fill(buf, sum, 0);
	n = R(writev(c->a, v, 64));
	await(c->b, n);
	for (i = 0; i < 64; i++) {
		v[i].iov_base = out[i];
		v[i].iov_len = i * 11 % 97;
	}
	memset(out, 0, sizeof(out));
	n = R(readv(c->b, v, 64));
	D(out, sizeof(out));
	R(recv(c->b, buf, sizeof(buf), MSG_DONTWAIT));
	R(writev(c->a, v, minus_one));
	R(writev(c->a, v, 1025));
	R(readv(c->b, v, 1025));
	v[0].iov_len = -1;
	R(writev(c->a, v, 1));
	R(readv(c->b, v, 1));
	R(preadv(c->b, v, 1, 0));
	R(pwrite(c->a, "x", 1, 0));
	R(pread(c->b, buf, 1, 0));
	R(lseek(c->a, 0, SEEK_SET));
	P(c->b, 0);
}

SCENARIO(msgs)
{
	char ctl[256], name[128];
	struct iovec v[2] = { { "ab", 2 }, { "cde", 3 } };
	struct iovec r[2] = { { buf, 1 }, { buf + 1, 99 } };
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };
	struct msghdr g = {
		.msg_iov = r, .msg_iovlen = 2, .msg_control = ctl,
		.msg_controllen = sizeof(ctl), .msg_name = name,
		.msg_namelen = sizeof(name), .msg_flags = 0x5555,
	};
	int n;

	pair(c);
	R(sendmsg(c->a, &m, 0));
	await(c->b, 5);
	n = R(recvmsg(c->b, &g, 0));
	D(buf, n);
	N(g.msg_flags);
	N(g.msg_controllen);
	N(g.msg_namelen);
	/* Without name and control. */
	R(sendmsg(c->a, &m, MSG_NOSIGNAL | MSG_DONTWAIT));
	await(c->b, 5);
	g = (struct msghdr){ .msg_iov = r, .msg_iovlen = 2 };
	n = R(recvmsg(c->b, &g, MSG_DONTWAIT | MSG_CMSG_CLOEXEC));
	D(buf, n);
	N(g.msg_flags);
	N(g.msg_controllen);
	R(recvmsg(c->b, &g, MSG_DONTWAIT));
	/* Bad headers. */
	m.msg_iovlen = 2000;
	R(sendmsg(c->a, &m, 0));
	R(recvmsg(c->b, &m, 0));
	R(sendmsg(c->a, NULL, 0));
	R(recvmsg(c->b, NULL, 0));
	m.msg_iovlen = 1;
	m.msg_iov = NULL;
	R(sendmsg(c->a, &m, 0));
	m.msg_iov = v;
	m.msg_control = NULL;
	m.msg_controllen = 64;
	R(sendmsg(c->a, &m, 0));
	m.msg_controllen = 1 << 20;
	R(sendmsg(c->a, &m, 0));
	P(c->b, 0);
}

SCENARIO(control_messages)
{
	union {
		char b[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} u = { 0 };
	struct iovec v = { "x", 1 };
	struct msghdr m = {
		.msg_iov = &v, .msg_iovlen = 1,
		.msg_control = u.b, .msg_controllen = sizeof(u.b),
	};
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);

	if (is_unix(c))
		return V("not", "here");
	pair(c);
	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = 0x7777;
	h->cmsg_len = CMSG_LEN(sizeof(int));
	R(sendmsg(c->a, &m, 0));	/* an unknown type */
	h->cmsg_level = 0x7777;
	R(sendmsg(c->a, &m, 0));	/* an unknown level is ignored */
	await(c->b, 1);
	R(recv(c->b, buf, 9, MSG_DONTWAIT));
	h->cmsg_len = 1;
	R(sendmsg(c->a, &m, 0));	/* a broken header */
	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SO_MARK;
	h->cmsg_len = CMSG_LEN(sizeof(int));
	R(sendmsg(c->a, &m, 0));
	await(c->b, 1);
	R(recv(c->b, buf, 9, MSG_DONTWAIT));
	h->cmsg_len = CMSG_LEN(1);
	R(sendmsg(c->a, &m, 0));	/* too short for its type */
	P(c->b, 0);
}

SCENARIO(mmsg)
{
	struct iovec v[5] = {
		{ "a", 1 }, { "bb", 2 }, { "ccc", 3 }, { "", 0 }, { "dd", 2 },
	}, r[4] = { { buf, 2 }, { buf + 2, 3 }, { buf + 5, 90 },
		    { buf + 95, 9 } };
	struct mmsghdr m[5] = { 0 }, g[4] = { 0 };
	struct timespec none = { 0, 0 };
	int i, n;

	pair(c);
	for (i = 0; i < 5; i++) {
		m[i].msg_hdr.msg_iov = &v[i];
		m[i].msg_hdr.msg_iovlen = 1;
	}
	for (i = 0; i < 4; i++) {
		g[i].msg_hdr.msg_iov = &r[i];
		g[i].msg_hdr.msg_iovlen = 1;
	}
	R(sendmmsg(c->a, m, 5, 0));
	for (i = 0; i < 5; i++)
		N(m[i].msg_len);
	await(c->b, 8);
	n = R(recvmmsg(c->b, g, 4, MSG_DONTWAIT, NULL));
	for (i = 0; i < n; i++) {
		N(g[i].msg_len);
		N(g[i].msg_hdr.msg_flags);
	}
	D(buf, 8);
	R(recvmmsg(c->b, g, 4, MSG_DONTWAIT, NULL));
	R(sendmmsg(c->a, m, 0, 0));
	R(recvmmsg(c->b, g, 0, 0, NULL));
	R(sendmmsg(c->a, m, 1, 0));
	n = R(recvmmsg(c->b, g, 4, MSG_WAITFORONE, NULL));
	N(g[0].msg_len);
	R(sendmmsg(c->a, m, 1, 0));
	await(c->b, 1);
	R(recvmmsg(c->b, g, 4, MSG_WAITFORONE, &none));
	/* The second has a bad pointer: the first goes. */
	m[1].msg_hdr.msg_iov->iov_base = bad_pointer();
	R(sendmmsg(c->a, m, 5, 0));
	await(c->b, 1);
	R(recv(c->b, buf, 99, MSG_DONTWAIT));
	g[1].msg_hdr.msg_iov->iov_base = bad_pointer();
	R(sendmmsg(c->a, m + 2, 1, 0));
	await(c->b, 3);
	R(recvmmsg(c->b, g, 2, MSG_DONTWAIT, NULL));
	N(g[0].msg_len);
}

SCENARIO(sendto_recvfrom)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	int n;

	pair(c);
	R(sendto(c->a, "one", 3, 0, NULL, 0));
	await(c->b, 3);
	memset(&ss, 0x55, sizeof(ss));
	n = R(recvfrom(c->b, buf, 99, 0, (void *)&ss, &len));
	D(buf, n);
	N(len);
	N(ss.ss_family);
	/* An address on a connected stream. */
	n = R(sendto(c->a, "two", 3, 0, SA(&c->la), c->la.len));
	if (n > 0)
		await(c->b, n);
	len = 4;
	n = R(recvfrom(c->b, buf, 99, MSG_DONTWAIT, (void *)&ss, &len));
	N(len);
	R(sendto(c->a, "three", 5, 0, bad_pointer(), 16));
	R(sendto(c->a, "three", 5, 0, SA(&c->la), 1000));
	len = 99;
	R(recvfrom(c->b, buf, 99, MSG_DONTWAIT, bad_pointer(), &len));
	R(recvfrom(c->b, buf, 99, MSG_DONTWAIT, (void *)&ss, bad_pointer()));
}

/*
 * Arguments that are no address, or cannot be one, and where it is written
 * back.
 */
SCENARIO(addresses)
{
	struct sockaddr_storage ss;
	struct iovec v = { buf, 99 }, w = { "four", 4 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
	struct msghdr g = { .msg_iov = &w, .msg_iovlen = 1 };
	struct mmsghdr mm = { .msg_hdr = m };
	socklen_t len;
	int n;

	pair(c);
	R(sendto(c->a, "zero", 4, 0, SA(&c->la), 0));
	await(c->b, 4);
	/* bytes taken or not, it says what is wrong */
	len = -1;
	R(recvfrom(c->b, buf, 2, MSG_DONTWAIT, (void *)&ss, &len));
	N(len);
	R(recvfrom(c->b, buf, 1, MSG_DONTWAIT, (void *)&ss, NULL));
	n = R(recvfrom(c->b, buf, 99, MSG_DONTWAIT, NULL, &len));
	D(buf, n);
	N(len);
	R(sendto(c->a, "one", 3, 0, SA(&c->la), -1));
	R(sendto(c->a, "one", 3, 0, NULL, 5));
	while (recv(c->b, buf, 99, MSG_DONTWAIT) > 0)
		;
	/* nothing is there, or the end: it is said in the same place */
	len = 50;
	R(recvfrom(c->b, buf, 9, MSG_DONTWAIT, (void *)&ss, &len));
	N(len);
	g.msg_name = SA(&c->la);
	g.msg_namelen = c->la.len;
	n = R(sendmsg(c->a, &g, 0));
	if (n < 0)
		OK(send(c->a, "four", 4, 0));
	await(c->b, 4);
	memset(&ss, 0x55, sizeof(ss));
	m.msg_name = &ss;
	m.msg_namelen = sizeof(ss);
	m.msg_flags = 0x5555;
	v.iov_len = 2;
	n = R(recvmsg(c->b, &m, 0));
	D(buf, n);
	N(m.msg_namelen);
	N(m.msg_flags);
	N(ss.ss_family);
	m.msg_namelen = -1;
	R(recvmsg(c->b, &m, MSG_DONTWAIT));
	m.msg_name = NULL;
	m.msg_namelen = 77;
	v.iov_len = 1;
	R(recvmsg(c->b, &m, MSG_DONTWAIT));
	N(m.msg_namelen);
	mm.msg_hdr.msg_name = &ss;
	mm.msg_hdr.msg_namelen = sizeof(ss);
	R(recvmmsg(c->b, &mm, 1, MSG_DONTWAIT, NULL));
	N(mm.msg_hdr.msg_namelen);
	while (recv(c->b, buf, 99, MSG_DONTWAIT) > 0)
		;
	g.msg_namelen = -1;
	R(sendmsg(c->a, &g, 0));
	g.msg_namelen = 1000;
	R(sendmsg(c->a, &g, 0));
	g.msg_name = NULL;
	R(sendmsg(c->a, &g, 0));
	while (recv(c->b, buf, 99, MSG_DONTWAIT) > 0)
		;
	OK(shutdown(c->a, SHUT_WR));
	P(c->b, POLLRDHUP);
	len = 50;
	R(recvfrom(c->b, buf, 9, 0, (void *)&ss, &len));
	N(len);
}

/* One waits, and for an address. */
static void send_to(struct ctx *c)
{
	if (is_unix(c))
		send(c->a, "later", 5, 0);
	else
		sendto(c->a, "later", 5, 0, SA(&c->la), c->la.len);
}

SCENARIO(recvfrom_waits)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	int n;

	pair(c);
	when_asleep(c, send_to);
	n = R(recvfrom(c->b, buf, 5, MSG_WAITALL, (void *)&ss, &len));
	D(buf, n);
	N(len);
	when_asleep(c, send_to);
	len = sizeof(ss);
	n = R(recvfrom(c->b, buf, 9, 0, (void *)&ss, &len));
	N(len);
	V("some", "%d", n > 0);
}

SCENARIO(unconnected)
{
	int s = cl_socket(c, 0), l;
	struct iovec v = { buf, 4 };
	struct addr a;
	char b[4];

	catch_signal(SIGPIPE, 0);
	R(send(s, "x", 1, 0));
	N(caught);
	R(send(s, "x", 1, MSG_NOSIGNAL));
	N(caught);
	R(write(s, "x", 1));
	N(caught);
	R(send(s, "", 0, 0));
	R(recv(s, b, 1, 0));
	R(recv(s, b, 0, 0));
	R(recv(s, b, 1, MSG_DONTWAIT));
	R(recv(s, b, 1, MSG_PEEK));
	R(read(s, b, 1));
	R(readv(s, &v, 1));
	P(s, 0);
	/* To an address: TCP connects, if it is asked for fast open only. */
	addr_new(c, &a);
	R(sendto(s, "x", 1, MSG_NOSIGNAL, SA(&a), a.len));
	l = listener(c, 1);
	R(send(l, "x", 1, MSG_NOSIGNAL));
	R(recv(l, b, 1, 0));
	R(recv(l, b, 1, MSG_DONTWAIT));
	R(read(l, b, 1));
	P(l, 0);
}

SCENARIO(bad_pointers)
{
	char *e;
	int n, i;

	pair(c);
	R(write(c->a, bad_pointer(), 10));
	R(send(c->a, bad_pointer(), 10, 0));
	R(write(c->a, (void *)-4096, 10));
	P(c->b, 0);
	/* The buffer ends in the middle: what is sent is what is returned. */
	e = edge(100);
	n = R(send(c->a, e, 200, 0));
	R(send(c->a, "END", 3, 0));
	await(c->b, 3 + (n > 0 ? n : 0));
	n = R(recv(c->b, buf, sizeof(buf), 0));
	D(buf, n);
	/* Reading into a bad buffer: what was not returned is still there. */
	l5_fill(buf, 5000, 0);
	R(send(c->b, buf, 5000, 0));
	await(c->a, 5000);
	R(recv(c->a, bad_pointer(), 10, 0));
	R(read(c->a, bad_pointer(), 10));
	R(recv(c->a, bad_pointer(), 10, MSG_PEEK));
	e = edge(100);
	n = R(recv(c->a, e, 200, 0));
	i = n > 0 ? n : 0;
	N(l5_check(e, i, 0));
	n = R(recv(c->a, buf, sizeof(buf), 0));
	N(l5_check(buf, n, i));
	P(c->a, 0);
}

SCENARIO(holes_in_vectors)
{
	struct iovec v[3] = {
		{ "good", 4 }, { bad_pointer(), 4 }, { "more", 4 },
	};
	struct iovec r[3] = {
		{ buf, 4 }, { bad_pointer(), 4 }, { buf + 8, 4 },
	};
	int n;

	pair(c);
	n = R(writev(c->a, v, 3));
	R(send(c->a, "END", 3, 0));
	await(c->b, 3 + (n > 0 ? n : 0));
	n = R(recv(c->b, buf, sizeof(buf), 0));
	D(buf, n);
	R(send(c->a, "0123456789ab", 12, 0));
	await(c->b, 12);
	memset(buf, 0, 16);
	n = R(readv(c->b, r, 3));
	n = R(recv(c->b, buf, sizeof(buf), MSG_DONTWAIT));
	D(buf, n);
	R(writev(c->a, bad_pointer(), 2));
	R(readv(c->b, bad_pointer(), 2));
	P(c->b, 0);
}

/* What a failing big send has reported as sent must arrive, and no more. */
SCENARIO(hole_far_inside)
{
	size_t good = 40000;
	char *e = edge(good);
	long n, got = 0, r;

	pair(c);
	l5_fill(e, good, 0);
	n = send(c->a, e, good + 5000, 0);
	V("it is partial or a fault", "%d",
	  (n > 0 && n <= (long)good) || (n < 0 && errno == EFAULT));
	OK(shutdown(c->a, SHUT_WR));
	while ((r = recv(c->b, buf, sizeof(buf), 0)) > 0) {
		if (l5_check(buf, r, got) >= 0)
			V("data", "wrong at %ld", got);
		got += r;
	}
	V("all that was sent came", "%d", got == (n > 0 ? n : 0));
}

static void feed_big(struct ctx *c)
{
	char b[1];

	close(c->b);
	if (feed(c->a, BIG, 0))
		V("feeding", "failed");
	shutdown(c->a, SHUT_WR);
	recv(c->a, b, 1, 0);
}

SCENARIO(bigger_than_the_ring)
{
	pair(c);
	beside(c, feed_big);
	close(c->a);
	R(drain(c->b, BIG, 0));
	R(recv(c->b, buf, 1, 0));
}

/* A single blocking send of more than fits returns when all is sent. */
SCENARIO(one_big_send)
{
	char *p = malloc(BIG);

	pair(c);
	l5_fill(p, BIG, 0);
	beside(c, drain_big);
	close(c->b);
	R(send(c->a, p, BIG, 0));
	R(recv(c->a, buf, 10, 0));
}

SCENARIO(one_big_writev)
{
	char *p = malloc(BIG);
	struct iovec v[100];
	int i;

	pair(c);
	l5_fill(p, BIG, 0);
	for (i = 0; i < 100; i++) {
		v[i].iov_base = p + (long)BIG * i / 100;
		v[i].iov_len = (long)BIG * (i + 1) / 100 - (long)BIG * i / 100;
	}
	beside(c, drain_big);
	close(c->b);
	R(writev(c->a, v, 100));
	R(recv(c->a, buf, 10, 0));
}

TEST_HARNESS_MAIN
