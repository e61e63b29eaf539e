// SPDX-License-Identifier: GPL-2.0
/* sendfile() and splice(). */
#define DIFF	diff_splice
#include "diff.h"

#include <sys/sendfile.h>

static char buf[1 << 17];

static int file_of(size_t len)
{
	char *p = malloc(len);
	int fd = memfd_create("l5", 0);

	l5_fill(p, len, 0);
	if (write(fd, p, len) != (ssize_t)len)
		abort();
	lseek(fd, 0, SEEK_SET);
	free(p);
	return fd;
}

SCENARIO(sendfile_small)
{
	int f = file_of(10000), n;
	off_t off = 100;

	pair(c);
	R(sendfile(c->a, f, NULL, 1000));
	await(c->b, 1000);
	n = R(recv(c->b, buf, sizeof(buf), 0));
	N(l5_check(buf, n, 0));
	R(sendfile(c->a, f, &off, 5000));
	N(off);
	await(c->b, 5000);
	n = R(recv(c->b, buf, sizeof(buf), 0));
	N(l5_check(buf, n, 100));
	R(sendfile(c->a, f, NULL, 0));
	off = 9990;
	R(sendfile(c->a, f, &off, 5000));
	await(c->b, 10);
	n = R(recv(c->b, buf, sizeof(buf), 0));
	N(l5_check(buf, n, 9990));
	R(sendfile(c->a, f, &off, 5000));
	P(c->b, 0);
	/* A socket as the source. */
	R(sendfile(c->a, c->b, NULL, 10));
	R(sendfile(f, c->b, NULL, 10));
	R(send(c->a, "x", 1, 0));
	P(c->b, POLLIN);
	R(sendfile(f, c->b, NULL, 1));
	R(recv(c->b, buf, 1, MSG_DONTWAIT));
}

SCENARIO(sendfile_big)
{
	long n, sum = 0;
	int f = file_of(BIG);

	pair(c);
	beside(c, drain_big);
	close(c->b);
	while (sum < BIG && (n = sendfile(c->a, f, NULL, BIG - sum)) > 0)
		sum += n;
	N(sum);
	R(recv(c->a, buf, 10, 0));
}

SCENARIO(sendfile_nonblocking)
{
	int f = file_of(BIG), i;
	long n, sum = 0;

	pair(c);
	OK(fcntl(c->a, F_SETFL, O_NONBLOCK));
	for (i = 0; i < 1000; i++) {
		n = sendfile(c->a, f, NULL, BIG);
		if (n <= 0)
			break;
		sum += n;
		/* Between segments TCP's buffer may have drained. */
		if (sum == BIG)
			lseek(f, sum = 0, SEEK_SET);
	}
	log_ret(c, "sendfile into a full socket", n);
	N(sum > 0);
	P(c->b, POLLIN);
}

SCENARIO(splice_from_pipe)
{
	int p[2], n;

	pair(c);
	OK(pipe(p));
	OK(write(p[1], "through a pipe", 14));
	R(splice(p[0], NULL, c->a, NULL, 100, 0));
	await(c->b, 14);
	n = R(recv(c->b, buf, sizeof(buf), 0));
	D(buf, n);
	R(splice(p[0], NULL, c->a, NULL, 100, SPLICE_F_NONBLOCK));
	OK(write(p[1], "more", 4));
	R(splice(p[0], NULL, c->a, NULL, 2, SPLICE_F_MORE));
	R(splice(p[0], NULL, c->a, NULL, 2, 0));
	await(c->b, 4);
	n = R(recv(c->b, buf, sizeof(buf), 0));
	D(buf, n);
	close(p[1]);
	R(splice(p[0], NULL, c->a, NULL, 100, 0));
	R(splice(p[0], NULL, c->a, &(loff_t){ 0 }, 100, 0));
}

SCENARIO(splice_to_pipe)
{
	int p[2], q[2], n;

	pair(c);
	OK(pipe(p));
	OK(pipe(q));
	l5_fill(buf, 20000, 0);
	R(send(c->a, buf, 20000, 0));
	await(c->b, 20000);
	n = R(splice(c->b, NULL, p[1], NULL, 7, 0));
	R(tee(p[0], q[1], 100, 0));
	n = R(read(p[0], buf, 100));
	N(l5_check(buf, n, 0));
	n = R(read(q[0], buf, 100));
	N(l5_check(buf, n, 0));
	n = R(splice(c->b, NULL, p[1], NULL, 10000, 0));
	n = R(read(p[0], buf, sizeof(buf)));
	N(l5_check(buf, n, 7));
	n += 7;
	for (int r; n < 20000; n += r) {
		r = splice(c->b, NULL, p[1], NULL, 20000, 0);
		if (r <= 0 || read(p[0], buf, r) != r ||
		    l5_check(buf, r, n) >= 0) {
			V("the rest", "is wrong");
			break;
		}
	}
	N(n);
	/* Nothing there, then the end. */
	OK(fcntl(c->b, F_SETFL, O_NONBLOCK));
	R(splice(c->b, NULL, p[1], NULL, 100, 0));
	OK(fcntl(c->b, F_SETFL, 0));
	OK(shutdown(c->a, SHUT_WR));
	P(c->b, POLLRDHUP);
	R(splice(c->b, NULL, p[1], NULL, 100, 0));
	R(splice(c->b, NULL, c->a, NULL, 100, 0));
	R(tee(c->b, p[1], 100, 0));
	R(splice(c->b, &(loff_t){ 0 }, p[1], NULL, 100, 0));
}

static void send_one(struct ctx *c)
{
	send(c->a, "1", 1, 0);
}

/* SPLICE_F_NONBLOCK speaks of the pipe: an empty TCP socket blocks. */
SCENARIO_ON(tcp, splice_blocks)
{
	int p[2];

	pair(c);
	OK(pipe(p));
	when_asleep(c, send_one);
	R(splice(c->b, NULL, p[1], NULL, 100, SPLICE_F_NONBLOCK));
	when_asleep(c, send_one);
	R(splice(c->b, NULL, p[1], NULL, 100, 0));
	R(read(p[0], buf, 100));
}

SCENARIO_ON(un, splice_does_not_block)
{
	int p[2];

	pair(c);
	OK(pipe(p));
	R(splice(c->b, NULL, p[1], NULL, 100, SPLICE_F_NONBLOCK));
	when_asleep(c, send_one);
	R(splice(c->b, NULL, p[1], NULL, 100, 0));
}

/* TCP stops at an urgent byte, and does not wait behind it. */
SCENARIO_ON(tcp, splice_urgent)
{
	struct timeval tv = { .tv_sec = 2 };
	/* rings have none */
	const bool base = c->v->transport == L5_TRANSPORT_BASE;
	const int times = base ? 3 : 1;
	int p[2], i, n;

	pair(c);
	OK(pipe(p));
	OK(setsockopt(c->b, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
	OK(send(c->a, "ab", 2, 0));
	if (base) {
		OK(send(c->a, "c", 1, MSG_OOB));
		P(c->b, POLLPRI);
	}
	for (i = 0; i < times; i++) {
		n = R(splice(c->b, NULL, p[1], NULL, 100, 0));
		N(ioctl(c->b, SIOCATMARK, &n));
		N(n);
	}
	if (base) {
		n = R(recv(c->b, buf, 9, MSG_OOB));
		D(buf, n);
	}
	OK(send(c->a, "de", 2, 0));
	settle(c);
	for (i = 0; i < times; i++)
		R(splice(c->b, NULL, p[1], NULL, 100, SPLICE_F_MORE));
	OK(shutdown(c->a, SHUT_WR));
	P(c->b, POLLRDHUP);
	R(splice(c->b, NULL, p[1], NULL, 100, 0));
	n = R(read(p[0], buf, 100));
	D(buf, n);
}

/* A socket that connects, or failed to, or never tried. */
SCENARIO_ON(tcp, splice_unconnected)
{
	int p[2], s = cl_socket(c, SOCK_NONBLOCK), l = listener(c, 4);

	OK(pipe(p));
	R(splice(s, NULL, p[1], NULL, 100, 0));
	R(splice(l, NULL, p[1], NULL, 100, SPLICE_F_NONBLOCK));
	OK(close(l));
	R(connect(s, SA(&c->la), c->la.len));
	P(s, POLLHUP);
	R(splice(s, NULL, p[1], NULL, 100, 0));
	R(splice(s, NULL, p[1], NULL, 100, 0));
}

/* An error is given once, whatever call asks for it. */
SCENARIO_ON(tcp, splice_reset)
{
	struct linger now = { .l_onoff = 1 };
	int p[2];

	pair(c);
	OK(pipe(p));
	OK(setsockopt(c->a, SOL_SOCKET, SO_LINGER, &now, sizeof(now)));
	OK(close(c->a));
	P(c->b, POLLHUP);
	R(splice(c->b, NULL, p[1], NULL, 100, 0));
	R(splice(c->b, NULL, p[1], NULL, 100, 0));
	R(recv(c->b, buf, 9, 0));
}

/* A pipe that is not read: splice stops, and nothing is lost. */
SCENARIO(splice_to_full_pipe)
{
	int p[2], n, sum = 0;
	uint64_t pos = 0;

	pair(c);
	OK(pipe(p));
	OK(fcntl(p[1], F_SETPIPE_SZ, 4096));
	l5_fill(buf, 60000, 0);
	R(send(c->a, buf, 60000, 0));
	await(c->b, 60000);
	while ((n = splice(c->b, NULL, p[1], NULL, 60000,
			   SPLICE_F_NONBLOCK)) > 0)
		sum += n;
	log_ret(c, "splice into a full pipe", n);
	N(sum > 0 && sum < 60000);
	while (sum) {
		n = read(p[0], buf, sum);
		if (n <= 0 || l5_check(buf, n, pos) >= 0)
			break;
		pos += n;
		sum -= n;
	}
	N(sum);
	R(drain(c->b, 60000 - pos, pos));
	P(c->b, 0);
}

static void splice_all(struct ctx *c)
{
	int p[2];
	long n, m;

	close(c->a);
	if (pipe(p))
		abort();
	/* An echo by splice alone. */
	while ((n = splice(c->b, NULL, p[1], NULL, 65536, SPLICE_F_MOVE)) > 0)
		for (; n; n -= m) {
			m = splice(p[0], NULL, c->b, NULL, n, SPLICE_F_MOVE);
			if (m <= 0) {
				V("splice", "ends with %ld", m);
				return;
			}
		}
	/* the other side may have all by now, so only what is wrong is said */
	if (n)
		V("splice at the end", "%ld", n);
	shutdown(c->b, SHUT_WR);
	pause();
}

static void feed_1m(struct ctx *c)
{
	if (feed(c->a, 1 << 20, 0))
		V("feeding", "failed");
	shutdown(c->a, SHUT_WR);
}

SCENARIO(splice_echo)
{
	pair(c);
	beside(c, splice_all);
	close(c->b);
	beside(c, feed_1m);
	R(drain(c->a, 1 << 20, 0));
	R(recv(c->a, buf, 1, 0));
}

TEST_HARNESS_MAIN
