// SPDX-License-Identifier: GPL-2.0
/* Blocking and not: wake-ups, time-outs, signals, MSG_WAITALL. */
#define DIFF	diff_block
#include "diff.h"

#include <pthread.h>
#include <sys/time.h>

static char buf[1 << 17];

static void send_5(struct ctx *c)
{
	send(c->b, "12345", 5, 0);
}

/*
 * A machine that is emulated may have ticks to make up for: time-outs are
 * 300 ms, and half of that is waiting enough.
 */
static void timeout_ms(int fd, int opt, int ms)
{
	struct timeval tv = { ms / 1000, ms % 1000 * 1000 };

	if (setsockopt(fd, SOL_SOCKET, opt, &tv, sizeof(tv)))
		abort();
}

SCENARIO(recv_blocks)
{
	int n;

	pair(c);
	when_asleep(c, send_5);
	n = R(recv(c->a, buf, 99, 0));
	D(buf, n);
	when_asleep(c, send_5);
	n = R(read(c->a, buf, 99));
	D(buf, n);
	when_asleep(c, send_5);
	n = R(recv(c->a, buf, 99, MSG_PEEK));
	D(buf, n);
	n = R(recv(c->a, buf, 99, 0));
}

SCENARIO(nonblocking)
{
	long full, n;
	int fl;

	pair(c);
	OK(fcntl(c->a, F_SETFL, O_NONBLOCK));
	R(recv(c->a, buf, 9, 0));
	R(read(c->a, buf, 9));
	R(recv(c->a, buf, 9, MSG_WAITALL));
	R(recv(c->a, buf, 9, MSG_PEEK));
	R(recv(c->b, buf, 9, MSG_DONTWAIT));
	full = fill_up(c->a);
	R(full > 0);
	R(send(c->a, buf, 9, 0));
	R(write(c->a, buf, 9));
	R(send(c->a, buf, 0, 0));
	for (; full > 0; full -= n) {
		n = recv(c->b, buf, full < (long)sizeof(buf) ? full :
			 (long)sizeof(buf), 0);
		if (n <= 0)
			break;
	}
	N(full);
	P(c->a, POLLOUT);
	R(send(c->a, buf, 9, 0));
	await(c->b, 9);
	R(recv(c->b, buf, 99, MSG_DONTWAIT));
	fl = 0;
	R(ioctl(c->a, FIONBIO, &fl));
	N(fcntl(c->a, F_GETFL) & O_NONBLOCK);
	when_asleep(c, send_5);
	R(recv(c->a, buf, 99, 0));
	fl = 1;
	R(ioctl(c->a, FIONBIO, &fl));
	N(fcntl(c->a, F_GETFL) & O_NONBLOCK);
	R(recv(c->a, buf, 99, 0));
}

/* More than fits, nonblocking: a part, and EAGAIN for the next. */
SCENARIO(nonblocking_partial)
{
	char *p = malloc(8 * BIG);
	long n;

	pair(c);
	OK(fcntl(c->a, F_SETFL, O_NONBLOCK));
	l5_fill(p, 8 * BIG, 0);
	n = send(c->a, p, 8 * BIG, 0);
	V("a part", "%d", n > 0 && n < 8 * BIG);
	R(drain(c->b, n, 0));
	P(c->b, 0);
	P(c->a, POLLOUT);
}

SCENARIO(receive_timeout)
{
	struct iovec v = { buf, 99 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
	int64_t t;
	int n;

	pair(c);
	timeout_ms(c->a, SO_RCVTIMEO, 300);
	t = l5_now_ms();
	R(recv(c->a, buf, 9, 0));
	N(l5_now_ms() - t >= 150);
	R(read(c->a, buf, 9));
	R(recvmsg(c->a, &m, 0));
	R(recv(c->a, buf, 9, MSG_PEEK));
	OK(send(c->b, "abc", 3, 0));
	await(c->a, 3);
	/* What came so far, not an error. */
	t = l5_now_ms();
	n = R(recv(c->a, buf, 9, MSG_WAITALL));
	N(l5_now_ms() - t >= 150);
	D(buf, n);
	R(recv(c->a, buf, 9, MSG_WAITALL));
	timeout_ms(c->a, SO_RCVTIMEO, 0);
	when_asleep(c, send_5);
	R(recv(c->a, buf, 9, 0));
}

SCENARIO(send_timeout)
{
	char *p = malloc(8 * BIG);
	int64_t t;
	long n;

	pair(c);
	l5_fill(p, 8 * BIG, 0);
	timeout_ms(c->a, SO_SNDTIMEO, 300);
	t = l5_now_ms();
	n = send(c->a, p, 8 * BIG, 0);
	V("a part", "%d", n > 0 && n < 8 * BIG);
	N(l5_now_ms() - t >= 150);
	R(fill_up(c->a) >= 0);
	t = l5_now_ms();
	R(send(c->a, p, 100, 0));
	N(l5_now_ms() - t >= 150);
	R(drain(c->b, n, 0));
}

SCENARIO(accept_timeout)
{
	int l = listener(c, 4);
	int64_t t;

	timeout_ms(l, SO_RCVTIMEO, 300);
	t = l5_now_ms();
	R(accept(l, NULL, NULL));
	N(l5_now_ms() - t >= 150);
}

SCENARIO(interrupted)
{
	int l;

	pair(c);
	parent = getpid();
	catch_signal(SIGUSR1, 0);
	when_asleep(c, usr1);
	R(recv(c->a, buf, 9, 0));
	when_asleep(c, usr1);
	R(read(c->a, buf, 9));
	when_asleep(c, usr1);
	R(recv(c->a, buf, 9, MSG_WAITALL));
	when_asleep(c, usr1);
	R(recv(c->a, buf, 9, MSG_PEEK));
	N(caught);
	R(fill_up(c->a) > 0);
	when_asleep(c, usr1);
	R(send(c->a, buf, 9, 0));
	when_asleep(c, usr1);
	R(write(c->a, buf, 9));
	N(caught);
	l = listener(c, 4);
	when_asleep(c, usr1);
	R(accept(l, NULL, NULL));
	when_asleep(c, usr1);
	P(c->a, 0);
	N(poll(NULL, 0, 20000));
	N(caught);
}

/* With a time-out set a signal must not restart the call. */
SCENARIO(interrupted_with_timeout)
{
	pair(c);
	parent = getpid();
	catch_signal(SIGUSR1, SA_RESTART);
	timeout_ms(c->a, SO_RCVTIMEO, 30000);
	timeout_ms(c->a, SO_SNDTIMEO, 30000);
	when_asleep(c, usr1);
	R(recv(c->a, buf, 9, 0));
	R(fill_up(c->a) > 0);
	when_asleep(c, usr1);
	R(send(c->a, buf, 9, 0));
	N(caught);
}

static void usr1_then_data(struct ctx *c)
{
	kill(parent, SIGUSR1);
	l5_wait_asleep(parent);
	send(c->b, "after", 5, 0);
}

SCENARIO(restarted_recv)
{
	int n;

	pair(c);
	parent = getpid();
	catch_signal(SIGUSR1, SA_RESTART);
	when_asleep(c, usr1_then_data);
	n = R(recv(c->a, buf, 9, 0));
	D(buf, n);
	N(caught);
	when_asleep(c, usr1_then_data);
	n = R(read(c->a, buf, 9));
	D(buf, n);
	N(caught);
}

static void usr1_then_room(struct ctx *c)
{
	kill(parent, SIGUSR1);
	l5_wait_asleep(parent);
	while (recv(c->b, buf, sizeof(buf), 0) > 0)
		;
}

SCENARIO(restarted_send)
{
	pair(c);
	parent = getpid();
	catch_signal(SIGUSR1, SA_RESTART);
	R(fill_up(c->a) > 0);
	when_asleep(c, usr1_then_room);
	R(send(c->a, buf, 9, 0));
	N(caught);
}

static void usr1_then_connect(struct ctx *c)
{
	int s;

	kill(parent, SIGUSR1);
	l5_wait_asleep(parent);
	s = cl_socket(c, 0);
	connect(s, SA(&c->la), c->la.len);
	pause();
}

SCENARIO(restarted_accept)
{
	int l = listener(c, 4);

	parent = getpid();
	catch_signal(SIGUSR1, SA_RESTART);
	when_asleep(c, usr1_then_connect);
	R(accept(l, NULL, NULL) >= 0);
	N(caught);
}

/* A signal in the middle of a transfer: what moved is returned. */
SCENARIO(interrupted_midway)
{
	char *p = malloc(8 * BIG);
	long n;

	pair(c);
	parent = getpid();
	catch_signal(SIGUSR1, 0);
	l5_fill(p, 8 * BIG, 0);
	when_asleep(c, usr1);
	n = send(c->a, p, 8 * BIG, 0);
	V("a part", "%d", n > 0 && n < 8 * BIG);
	R(drain(c->b, n, 0));
	P(c->b, 0);
	OK(send(c->b, "abc", 3, 0));
	await(c->a, 3);
	when_asleep(c, usr1);
	n = R(recv(c->a, buf, 9, MSG_WAITALL));
	D(buf, n);
	N(caught);
}

static void send_slowly(struct ctx *c)
{
	int i;

	for (i = 0; i < 10; i++) {
		l5_fill(buf, 1000, i * 1000);
		send(c->b, buf, 1000, 0);
		usleep(3000);
	}
}

SCENARIO(waitall)
{
	int n;

	pair(c);
	when_asleep(c, send_slowly);
	n = R(recv(c->a, buf, 10000, MSG_WAITALL));
	N(l5_check(buf, n, 0));
	P(c->a, 0);
}

static void feed_b(struct ctx *c)
{
	feed(c->b, BIG, 0);
}

SCENARIO(waitall_big)
{
	char *p = malloc(BIG);
	int n;

	pair(c);
	when_asleep(c, feed_b);
	n = R(recv(c->a, p, BIG, MSG_WAITALL));
	N(l5_check(p, n, 0));
	P(c->a, 0);
}

static void five_and_fin(struct ctx *c)
{
	send(c->b, "12345", 5, 0);
	shutdown(c->b, SHUT_WR);
}

SCENARIO(waitall_end)
{
	pair(c);
	when_asleep(c, five_and_fin);
	R(recv(c->a, buf, 99, MSG_WAITALL));
	R(recv(c->a, buf, 99, MSG_WAITALL));
}

SCENARIO(waitall_dontwait)
{
	pair(c);
	OK(send(c->b, "12345", 5, 0));
	await(c->a, 5);
	R(recv(c->a, buf, 99, MSG_WAITALL | MSG_DONTWAIT));
	R(recv(c->a, buf, 99, MSG_WAITALL | MSG_DONTWAIT));
}

static void more_5(struct ctx *c)
{
	send(c->b, "67890", 5, 0);
}

/* Peeking with MSG_WAITALL waits for the rest and consumes nothing. */
SCENARIO_ON(tcp, waitall_peek)
{
	int n;

	pair(c);
	OK(send(c->b, "12345", 5, 0));
	await(c->a, 5);
	when_asleep(c, more_5);
	n = R(recv(c->a, buf, 10, MSG_PEEK | MSG_WAITALL));
	D(buf, n);
	n = R(recv(c->a, buf, 99, 0));
	D(buf, n);
}

static void raise_sndbuf(struct ctx *c)
{
	int more = 8 << 20;

	setsockopt(c->a, SOL_SOCKET, SO_SNDBUFFORCE, &more, sizeof(more));
}

/* A writer that sleeps for room gets some when its buffer becomes larger. */
static void raised(struct ctx *c, int late)
{
	/* a ring has the size it was made with: see deviations.c */
	bool never = !c->own && c->v->transport == L5_TRANSPORT_SHM &&
		     (!late || is_full());
	/* should it never come, which is then told */
	struct timeval t = { .tv_sec = (never ? 1 : 10) * l5_slow() };
	long n;

	pair(c);
	if (late)
		R(setsockopt(c->a, SOL_SOCKET, SO_SNDBUF, &late, sizeof(late)));
	V("filled", "%d", fill_up(c->a) > 0);
	OK(setsockopt(c->a, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t)));
	when_asleep(c, raise_sndbuf);
	n = R(send(c->a, buf, 1000, 0));
	/* a writer that got no room has waited for POLLOUT as well */
	P(c->a, n < 0 ? 0 : POLLOUT);
}

SCENARIO(sndbuf_raised)
{
	raised(c, 0);
}

SCENARIO(sndbuf_raised_from_little)
{
	raised(c, 8192);
}

static void fin_b(struct ctx *c)
{
	close(c->a);
	shutdown(c->b, SHUT_WR);
	pause();
}

static void close_b(struct ctx *c)
{
	close(c->a);
	close(c->b);
}

static void reset_b(struct ctx *c)
{
	struct linger lg = { 1, 0 };

	close(c->a);
	setsockopt(c->b, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg));
	close(c->b);
}

SCENARIO(end_while_reading)
{
	pair(c);
	when_asleep(c, fin_b);
	R(recv(c->a, buf, 9, 0));
	R(recv(c->a, buf, 9, 0));
}

SCENARIO(close_while_reading)
{
	pair(c);
	when_asleep(c, close_b);
	close(c->b);
	R(recv(c->a, buf, 9, 0));
	R(recv(c->a, buf, 9, 0));
}

SCENARIO(reset_while_reading)
{
	pair(c);
	when_asleep(c, reset_b);
	close(c->b);
	R(recv(c->a, buf, 9, 0));
	R(recv(c->a, buf, 9, 0));
	R(send(c->a, "x", 1, MSG_NOSIGNAL));
}

SCENARIO(close_while_writing)
{
	pair(c);
	R(fill_up(c->a) > 0);
	catch_signal(SIGPIPE, 0);
	when_asleep(c, close_b);
	close(c->b);
	R(send(c->a, buf, 9, 0));
	N(caught);
	R(send(c->a, buf, 9, 0));
	N(caught);
}

static void kill_b(struct ctx *c)
{
	(void)c;
	kill(getpid(), SIGKILL);
}

SCENARIO(killed_while_writing)
{
	char *p = malloc(8 * BIG);
	long n;

	pair(c);
	catch_signal(SIGPIPE, 0);
	when_asleep(c, kill_b);
	close(c->b);
	n = send(c->a, p, 8 * BIG, 0);
	V("a part", "%d", n > 0 && n < 8 * BIG);
	N(caught);
	R(send(c->a, p, 9, 0));
	R(send(c->a, p, 9, 0));
	N(caught);
}

static void shut_rd(struct ctx *c)
{
	shutdown(c->a, SHUT_RD);
}

static void shut_wr(struct ctx *c)
{
	shutdown(c->a, SHUT_WR);
}

/* The own end is shut by another process that shares it. */
SCENARIO(own_shutdown_while_reading)
{
	pair(c);
	when_asleep(c, shut_rd);
	R(recv(c->a, buf, 9, 0));
}

SCENARIO(own_shutdown_while_writing)
{
	pair(c);
	R(fill_up(c->a) > 0);
	catch_signal(SIGPIPE, 0);
	when_asleep(c, shut_wr);
	R(send(c->a, buf, 9, 0));
	N(caught);
}

/* A thread that sleeps in a call while another one disconnects. */
struct sleeper {
	int fd;
	bool sends;
	long ret;
	int err;
};

static void *sleeps(void *arg)
{
	static char much[8 * BIG];
	struct sleeper *s = arg;
	char c;

	s->ret = s->sends ? send(s->fd, much, sizeof(much), 0) :
			    recv(s->fd, &c, 1, 0);
	s->err = s->ret < 0 ? errno : 0;
	return NULL;
}

/* Two ends that have been used, so that a process has them mapped. */
static void used_pair(struct ctx *c)
{
	int i;

	pair(c);
	for (i = 0; i < 40; i++) {
		OK(send(c->b, "x", 1, 0));
		OK(recv(c->a, buf, 9, 0));
		OK(send(c->a, "x", 1, 0));
		OK(recv(c->b, buf, 9, 0));
	}
}

static void disconnect_beside(struct ctx *c, struct sleeper *s, int n)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	pthread_t t[2];
	int i;

	used_pair(c);
	catch_signal(SIGPIPE, 0);
	for (i = 0; i < n; i++) {
		s[i].fd = c->a;
		l5_wait_asleep(l5_thread_start(&t[i], NULL, sleeps, &s[i]));
	}
	R(connect(c->a, &none, sizeof(none)));
	for (i = 0; i < n; i++) {
		pthread_join(t[i], NULL);
		if (s[i].sends)
			V("a part", "%d", s[i].ret > 0);
		else
			N(s[i].ret);
		N(s[i].err);
	}
	N(caught);
}

SCENARIO_ON(tcp, disconnect_beside_sender)
{
	struct sleeper s = { .sends = true };

	disconnect_beside(c, &s, 1);
	P(c->a, POLLOUT | POLLHUP);
	N(so_error(c->a));
	P(c->a, POLLOUT | POLLHUP);
	R(send(c->a, "x", 1, 0));
	N(caught);
}

SCENARIO_ON(tcp, send_after_disconnect)
{
	struct sleeper s = { .sends = true };

	disconnect_beside(c, &s, 1);
	R(send(c->a, "x", 1, 0));
	N(caught);
	R(send(c->a, "x", 1, 0));
	N(caught);
}

SCENARIO_ON(tcp, disconnect_beside_reader)
{
	struct sleeper s = { };

	disconnect_beside(c, &s, 1);
	P(c->a, POLLOUT | POLLHUP);
	N(so_error(c->a));
	R(recv(c->a, buf, 9, 0));
}

SCENARIO_ON(tcp, disconnect_beside_both)
{
	struct sleeper s[2] = { { }, { .sends = true } };

	disconnect_beside(c, s, 2);
	R(send(c->a, "x", 1, 0));
	R(recv(c->a, buf, 9, 0));
	N(caught);
}

static void shut_l(struct ctx *c)
{
	shutdown(c->a, SHUT_RDWR);
}

SCENARIO(shutdown_while_accepting)
{
	c->a = listener(c, 4);
	when_asleep(c, shut_l);
	R(accept(c->a, NULL, NULL));
	R(accept(c->a, NULL, NULL));
}

static volatile int io_seen;

static void on_io(int sig, siginfo_t *si, void *u)
{
	(void)sig;
	(void)u;
	(void)si;
	io_seen++;
}

static void want_io(struct ctx *c, const char *what)
{
	int i;

	for (i = 0; i < 1000 && !io_seen; i++)
		usleep(2000);
	V(what, "%d", io_seen > 0);
	io_seen = 0;
}

SCENARIO(sigio)
{
	struct sigaction sa = { .sa_sigaction = on_io,
				.sa_flags = SA_SIGINFO };
	int one = 1, zero = 0;

	pair(c);
	sigaction(SIGIO, &sa, NULL);
	R(fcntl(c->a, F_SETOWN, getpid()));
	R(fcntl(c->a, F_GETOWN) == getpid());
	R(ioctl(c->a, FIOASYNC, &one));
	N(!!(fcntl(c->a, F_GETFL) & O_ASYNC));
	io_seen = 0;
	OK(send(c->b, "x", 1, 0));
	want_io(c, "SIGIO for data");
	OK(recv(c->a, buf, 9, 0));
	OK(send(c->b, "x", 1, 0));
	want_io(c, "SIGIO for more data");
	OK(shutdown(c->b, SHUT_WR));
	want_io(c, "SIGIO for the end");
	R(ioctl(c->a, FIOASYNC, &zero));
	N(!!(fcntl(c->a, F_GETFL) & O_ASYNC));
	settle(c);
	io_seen = 0;
	close(c->b);
	/* a time in which no signal may come */
	usleep(50000);
	N(io_seen);
}

/* Asked for on a used connection, by a process that may have it mapped. */
SCENARIO(sigio_in_use)
{
	struct sigaction sa = { .sa_sigaction = on_io,
				.sa_flags = SA_SIGINFO };
	int i;

	used_pair(c);
	sigaction(SIGIO, &sa, NULL);
	R(fcntl(c->a, F_SETOWN, getpid()));
	R(fcntl(c->a, F_SETFL, O_ASYNC | O_NONBLOCK));
	io_seen = 0;
	for (i = 0; i < 3; i++) {
		OK(send(c->b, "x", 1, 0));
		want_io(c, "SIGIO for data");
		OK(recv(c->a, buf, 9, 0));
	}
}

SCENARIO(sigio_listener)
{
	int l = listener(c, 4), s = cl_socket(c, 0);
	struct sigaction sa = { .sa_sigaction = on_io,
				.sa_flags = SA_SIGINFO };

	sigaction(SIGIO, &sa, NULL);
	R(fcntl(l, F_SETOWN, getpid()));
	R(fcntl(l, F_SETFL, O_ASYNC | O_NONBLOCK));
	while (connect(s, SA(&c->la), c->la.len) && errno == EINTR)
		;
	want_io(c, "SIGIO for a connection");
	R(accept(l, NULL, NULL) >= 0);
}

TEST_HARNESS_MAIN
