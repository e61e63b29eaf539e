// SPDX-License-Identifier: GPL-2.0
/* Coming to an end: shutdown, close, linger, reset. */
#define DIFF	diff_close
#include "diff.h"

#include <sys/wait.h>

static char buf[1 << 17];

static void linger(struct ctx *c, int fd, int on, int s)
{
	struct linger lg = { on, s };

	R(setsockopt(fd, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg)));
}

/* Everything that can be asked of an end that must not block. */
static void ask(struct ctx *c, const char *who, int fd)
{
	V("now", "%s", who);
	P(fd, 0);
	R(recv(fd, buf, 3, MSG_DONTWAIT | MSG_PEEK));
	R(recv(fd, buf, 3, MSG_DONTWAIT));
	R(recv(fd, buf, 3, MSG_DONTWAIT));
	R(send(fd, "s", 1, MSG_DONTWAIT | MSG_NOSIGNAL));
	settle(c);
	P(fd, 0);
}

/* Two shutdowns, in each order, at each end. */
static void two(struct ctx *c, int h1, int h2, bool at_peer)
{
	int f, g;

	pair(c);
	f = c->a;
	g = at_peer ? c->b : c->a;
	OK(send(c->a, "one", 3, 0));
	OK(send(c->b, "two", 3, 0));
	await(c->a, 3);
	await(c->b, 3);
	R(shutdown(f, h1));
	settle(c);
	ask(c, "a", c->a);
	ask(c, "b", c->b);
	R(shutdown(g, h2));
	settle(c);
	ask(c, "a", c->a);
	ask(c, "b", c->b);
	R(shutdown(f, h1));
	R(shutdown(g, h2));
	R(shutdown(f, SHUT_RDWR));
	settle(c);
	ask(c, "a", c->a);
	ask(c, "b", c->b);
	close(c->a);
	settle(c);
	ask(c, "b", c->b);
	N(so_error(c->b));
}

#define TWO(name, h1, h2)						\
	SCENARIO(name##_own) { two(c, h1, h2, false); }			\
	SCENARIO(name##_both) { two(c, h1, h2, true); }

TWO(rd_rd, SHUT_RD, SHUT_RD)
TWO(rd_wr, SHUT_RD, SHUT_WR)
TWO(rd_rdwr, SHUT_RD, SHUT_RDWR)
TWO(wr_rd, SHUT_WR, SHUT_RD)
TWO(wr_wr, SHUT_WR, SHUT_WR)
TWO(wr_rdwr, SHUT_WR, SHUT_RDWR)
TWO(rdwr_rd, SHUT_RDWR, SHUT_RD)
TWO(rdwr_wr, SHUT_RDWR, SHUT_WR)
TWO(rdwr_rdwr, SHUT_RDWR, SHUT_RDWR)

/* What was sent before both ends are shut is there to be read. */
SCENARIO(read_after_both)
{
	pair(c);
	OK(send(c->a, "one", 3, 0));
	await(c->b, 3);
	R(shutdown(c->b, SHUT_RDWR));
	settle(c);
	close(c->a);
	settle(c);
	ask(c, "b", c->b);
	N(so_error(c->b));
}

SCENARIO(shutdown_wrong)
{
	int s = cl_socket(c, 0), l = listener(c, 4);

	R(shutdown(s, SHUT_RD));
	R(shutdown(s, SHUT_WR));
	R(shutdown(s, SHUT_RDWR));
	P(s, 0);
	R(shutdown(s, 3));
	R(shutdown(s, -1));
	R(shutdown(-1, SHUT_RD));
	pair(c);
	R(shutdown(c->a, 3));
	R(shutdown(c->a, -1));
	R(shutdown(c->a, 77));
	R(send(c->a, "x", 1, 0));
	R(recv(c->b, buf, 9, 0));
	R(shutdown(l, 3));
	R(shutdown(l, SHUT_WR));
	P(l, 0);
	R(shutdown(l, SHUT_RD));
	P(l, 0);
	OK(fcntl(l, F_SETFL, O_NONBLOCK));
	R(accept(l, NULL, NULL));
	R(shutdown(l, SHUT_RD));
	R(shutdown(l, SHUT_RDWR));
}

/* A listener that was shut can listen again. */
SCENARIO_ON(tcp, listen_again)
{
	int l = listener(c, 4);

	R(shutdown(l, SHUT_RDWR));
	R(listen(l, 4));
	addr_of(l, &c->la);	/* a port it chose is given up */
	pair_on(c, l);
	R(send(c->a, "x", 1, 0));
	R(recv(c->b, buf, 9, 0));
}

/* Half-closed, the other direction carries as much as it likes. */
SCENARIO(half_closed)
{
	int i, n;

	pair(c);
	OK(shutdown(c->a, SHUT_WR));
	P(c->b, POLLRDHUP);
	R(recv(c->b, buf, 9, 0));
	for (i = 0; i < 20; i++) {
		l5_fill(buf, 20000, i * 20000);
		R(send(c->b, buf, 20000, 0));
		R(drain(c->a, 20000, i * 20000));
	}
	R(shutdown(c->b, SHUT_WR));
	n = R(recv(c->a, buf, 9, 0));
	P(c->a, POLLHUP);
	P(c->b, POLLHUP);
	N(n);
}

static void echo_until_end(struct ctx *c)
{
	ssize_t n;

	close(c->a);
	while ((n = recv(c->b, buf, sizeof(buf), 0)) > 0)
		send(c->b, buf, n, 0);
	send(c->b, "bye", 3, 0);
	shutdown(c->b, SHUT_WR);
}

SCENARIO(request_reply)
{
	int n;

	pair(c);
	beside(c, echo_until_end);
	close(c->b);
	R(send(c->a, "request", 7, 0));
	R(shutdown(c->a, SHUT_WR));
	n = R(recv(c->a, buf, 10, MSG_WAITALL));
	D(buf, n);
	R(recv(c->a, buf, 10, 0));
}

/* Queued data arrives although its sender has closed. */
SCENARIO(close_with_data_sent)
{
	pair(c);
	l5_fill(buf, 50000, 0);
	R(send(c->b, buf, 50000, 0));
	R(close(c->b));
	R(drain(c->a, 50000, 0));
	R(recv(c->a, buf, 9, 0));
	R(recv(c->a, buf, 9, 0));
	N(so_error(c->a));
}

/* Closed with something unread: TCP resets. */
SCENARIO(close_with_data_unread)
{
	pair(c);
	OK(send(c->a, "unread", 6, 0));
	await(c->b, 6);
	R(close(c->b));
	P(c->a, POLLHUP);
	R(recv(c->a, buf, 9, 0));
	R(recv(c->a, buf, 9, 0));
	N(so_error(c->a));
	R(send(c->a, "x", 1, MSG_NOSIGNAL));
	P(c->a, POLLHUP);
}

/* The same with something to read before: a reset throws it away. */
SCENARIO(close_unread_and_sent)
{
	pair(c);
	OK(send(c->a, "unread", 6, 0));
	OK(send(c->b, "sent", 4, 0));
	await(c->b, 6);
	await(c->a, 4);
	R(close(c->b));
	P(c->a, POLLHUP);
	N(so_error(c->a));
	R(recv(c->a, buf, 9, 0));
	R(recv(c->a, buf, 9, 0));
}

/* A writer then hears of the end first, a reader of the reset. */
SCENARIO(write_after_close_unread)
{
	pair(c);
	catch_signal(SIGPIPE, 0);
	OK(send(c->a, "unread", 6, 0));
	await(c->b, 6);
	R(close(c->b));
	P(c->a, POLLERR | POLLHUP);
	R(send(c->a, "x", 1, 0));
	N(caught);
	R(send(c->a, "x", 1, MSG_NOSIGNAL));
	N(caught);
	R(recv(c->a, buf, 9, 0));
	R(recv(c->a, buf, 9, 0));
	R(send(c->a, "x", 1, 0));
	N(caught);
	N(so_error(c->a));
}

/* An address that is not wanted, at a time when nothing can be sent. */
SCENARIO(address_after_the_end)
{
	pair(c);
	catch_signal(SIGPIPE, 0);
	OK(shutdown(c->a, SHUT_WR));
	R(sendto(c->a, "x", 1, 0, SA(&c->la), c->la.len));
	N(caught);
	close(c->b);
	P(c->a, POLLHUP);
	R(sendto(c->a, "x", 1, 0, SA(&c->la), c->la.len));
	N(caught);
	R(send(c->a, "x", 1, 0));
	N(caught);
}

SCENARIO(close_partly_read)
{
	pair(c);
	OK(send(c->a, "partly", 6, 0));
	await(c->b, 6);
	R(recv(c->b, buf, 3, 0));
	R(close(c->b));
	P(c->a, POLLHUP);
	R(recv(c->a, buf, 9, 0));
	R(recv(c->a, buf, 9, 0));
}

SCENARIO(write_after_close)
{
	pair(c);
	catch_signal(SIGPIPE, 0);
	R(close(c->b));
	P(c->a, POLLRDHUP);
	settle(c);
	R(send(c->a, "x", 1, 0));
	P(c->a, POLLHUP);
	N(caught);
	R(send(c->a, "x", 1, 0));
	N(caught);
	R(send(c->a, "x", 1, 0));
	N(caught);
	R(recv(c->a, buf, 9, 0));
	N(so_error(c->a));
}

/*
 * A send of more than any buffer holds, to a peer that is gone: no more is
 * taken than such a buffer would hold, and the next call says why.
 */
static void write_much(struct ctx *c, bool signals)
{
	const size_t len = 64 << 20;
	char *much = calloc(1, len);
	ssize_t n;

	if (!much)
		return V("memory", "none");
	pair(c);
	catch_signal(SIGPIPE, 0);
	R(close(c->b));
	P(c->a, POLLRDHUP);
	settle(c);
	n = send(c->a, much, len, signals ? 0 : MSG_NOSIGNAL);
	V("something", "%d", n > 0);
	V("everything", "%d", n == (ssize_t)len);
	V("caught at first", "%d", (int)caught);
	P(c->a, POLLHUP);
	R(send(c->a, much, len, signals ? 0 : MSG_NOSIGNAL));
	N(caught);
	R(recv(c->a, buf, 9, 0));
	N(so_error(c->a));
	free(much);
}

SCENARIO(write_much_after_close)
{
	write_much(c, true);
}

SCENARIO(write_much_after_close_quietly)
{
	write_much(c, false);
}

/* The same in pieces, and by a call that would not wait. */
SCENARIO(write_pieces_after_close)
{
	const size_t len = 64 << 20;
	struct iovec v[8];
	char *much = calloc(1, len);
	ssize_t n;
	int i;

	if (!much)
		return V("memory", "none");
	for (i = 0; i < 8; i++)
		v[i] = (struct iovec){ much + i * (len / 8), len / 8 };
	pair(c);
	OK(fcntl(c->a, F_SETFL, O_NONBLOCK));
	catch_signal(SIGPIPE, 0);
	R(close(c->b));
	P(c->a, POLLRDHUP);
	settle(c);
	n = writev(c->a, v, 8);
	V("something", "%d", n > 0);
	V("everything", "%d", n == (ssize_t)len);
	P(c->a, POLLHUP);
	R(writev(c->a, v, 8));
	N(caught);
	free(much);
}

SCENARIO(write_nothing_after_close)
{
	int i;

	pair(c);
	R(close(c->b));
	P(c->a, POLLRDHUP);
	settle(c);
	for (i = 0; i < 3; i++) {
		R(send(c->a, "", 0, MSG_NOSIGNAL));
		settle(c);
		P(c->a, POLLRDHUP);
	}
	R(send(c->a, "x", 1, MSG_NOSIGNAL));
	P(c->a, POLLHUP);
	R(send(c->a, "", 0, MSG_NOSIGNAL));
	R(recv(c->a, buf, 9, 0));
}

/* The peer has not read all, and is told of nothing. */
SCENARIO(write_nothing_after_shutdown)
{
	int i;

	pair(c);
	OK(send(c->a, "unread", 6, 0));
	await(c->b, 6);
	R(shutdown(c->b, SHUT_RDWR));
	P(c->a, POLLRDHUP);
	for (i = 0; i < 2; i++) {
		R(send(c->a, "", 0, MSG_NOSIGNAL));
		settle(c);
	}
	P(c->a, POLLRDHUP);
	R(recv(c->a, buf, 9, 0));
	R(recv(c->b, buf, 9, 0));
	R(recv(c->b, buf, 9, 0));
}

/* It is reset; a bell, which is nothing to TCP, does not take the error. */
SCENARIO(write_nothing_after_reset)
{
	int proto, family = tested_family(c, &proto);

	pair(c);
	OK(send(c->a, "unread", 6, 0));
	await(c->b, 6);
	R(close(c->b));
	P(c->a, POLLHUP);
	if (c->v->transport == L5_TRANSPORT_SHM && family != AF_INET &&
	    family != AF_INET6 && family != AF_UNIX)
		OK(send(c->a, "", 0, MSG_NOSIGNAL | L5_MSG_BELL));
	R(send(c->a, "", 0, MSG_NOSIGNAL));
	R(send(c->a, "", 0, MSG_NOSIGNAL));
	R(recv(c->a, buf, 9, 0));
}

SCENARIO(write_after_close_then_error)
{
	pair(c);
	R(close(c->b));
	P(c->a, POLLRDHUP);
	settle(c);
	R(send(c->a, "x", 1, MSG_NOSIGNAL));
	P(c->a, POLLHUP);
	N(so_error(c->a));
	N(so_error(c->a));
	R(recv(c->a, buf, 9, 0));
}

SCENARIO(write_after_close_then_read)
{
	pair(c);
	R(close(c->b));
	P(c->a, POLLRDHUP);
	settle(c);
	R(send(c->a, "x", 1, MSG_NOSIGNAL));
	P(c->a, POLLHUP);
	R(recv(c->a, buf, 9, 0));
	R(recv(c->a, buf, 9, 0));
	N(so_error(c->a));
	R(send(c->a, "x", 1, MSG_NOSIGNAL));
}

SCENARIO(data_then_close_then_write)
{
	int n;

	pair(c);
	OK(send(c->b, "final", 5, 0));
	R(close(c->b));
	P(c->a, POLLRDHUP);
	settle(c);
	R(send(c->a, "x", 1, MSG_NOSIGNAL));
	P(c->a, POLLHUP);
	/* What came before the reset is gone, or still there. */
	n = R(recv(c->a, buf, 9, 0));
	D(buf, n);
	R(recv(c->a, buf, 9, 0));
}

SCENARIO(reset)
{
	pair(c);
	catch_signal(SIGPIPE, 0);
	linger(c, c->b, 1, 0);
	R(close(c->b));
	P(c->a, POLLHUP);
	R(recv(c->a, buf, 9, 0));
	R(recv(c->a, buf, 9, 0));
	N(so_error(c->a));
	R(send(c->a, "x", 1, 0));
	N(caught);
}

SCENARIO(reset_then_write)
{
	pair(c);
	catch_signal(SIGPIPE, 0);
	linger(c, c->b, 1, 0);
	R(close(c->b));
	P(c->a, POLLHUP);
	R(send(c->a, "x", 1, 0));
	N(caught);
	R(send(c->a, "x", 1, 0));
	N(caught);
	R(recv(c->a, buf, 9, 0));
}

SCENARIO(reset_then_error)
{
	pair(c);
	linger(c, c->b, 1, 0);
	R(close(c->b));
	P(c->a, POLLHUP);
	N(so_error(c->a));
	N(so_error(c->a));
	R(recv(c->a, buf, 9, 0));
	R(send(c->a, "x", 1, MSG_NOSIGNAL));
	R(shutdown(c->a, SHUT_WR));
}

SCENARIO(reset_with_data_queued)
{
	pair(c);
	OK(send(c->b, "queued", 6, 0));
	await(c->a, 6);
	linger(c, c->b, 1, 0);
	R(close(c->b));
	P(c->a, POLLHUP);
	R(recv(c->a, buf, 9, 0));
	R(recv(c->a, buf, 9, 0));
}

SCENARIO(reset_after_half_close)
{
	pair(c);
	OK(shutdown(c->b, SHUT_WR));
	P(c->a, POLLRDHUP);
	linger(c, c->b, 1, 0);
	R(close(c->b));
	settle(c);
	P(c->a, POLLRDHUP);
	R(recv(c->a, buf, 9, 0));
	R(send(c->a, "x", 1, MSG_NOSIGNAL));
}

/* With time to linger close() waits for what TCP has acknowledged. */
SCENARIO(linger_in_vain)
{
	pair(c);
	linger(c, c->b, 1, 1);
	OK(send(c->b, "queued", 6, 0));
	R(close(c->b));
	R(recv(c->a, buf, 9, 0));
	R(recv(c->a, buf, 9, 0));
}

SCENARIO(linger_value)
{
	struct linger lg;
	socklen_t len = sizeof(lg);

	pair(c);
	linger(c, c->a, 1, 7);
	R(getsockopt(c->a, SOL_SOCKET, SO_LINGER, &lg, &len));
	N(lg.l_onoff);
	N(lg.l_linger);
	linger(c, c->a, 0, 9);
	R(getsockopt(c->a, SOL_SOCKET, SO_LINGER, &lg, &len));
	N(lg.l_onoff);
	N(lg.l_linger);
}

static void wait_for_end(struct ctx *c)
{
	close(c->a);
	while (recv(c->b, buf, sizeof(buf), 0) > 0)
		;
}

/* A process that dies closes. */
SCENARIO(exit_closes)
{
	pid_t pid;
	int st = -1;

	pair(c);
	pid = beside(c, wait_for_end);
	close(c->b);
	R(send(c->a, "x", 1, 0));
	R(shutdown(c->a, SHUT_WR));
	R(waitpid(pid, &st, 0) == pid);
	N(st);
	P(c->a, POLLHUP);
	R(recv(c->a, buf, 9, 0));
}

static void pause_b(struct ctx *c)
{
	close(c->a);
	pause();
}

SCENARIO(kill_closes)
{
	pid_t pid;

	pair(c);
	pid = beside(c, pause_b);
	close(c->b);
	OK(send(c->a, "unread", 6, 0));
	R(kill(pid, SIGKILL));
	R(waitpid(pid, NULL, 0) == pid);
	P(c->a, POLLHUP);
	R(recv(c->a, buf, 9, 0));
	R(recv(c->a, buf, 9, 0));
}

SCENARIO(kill_closes_clean)
{
	pid_t pid;

	pair(c);
	pid = beside(c, pause_b);
	OK(send(c->b, "bye", 3, 0));
	close(c->b);
	R(kill(pid, SIGKILL));
	R(waitpid(pid, NULL, 0) == pid);
	P(c->a, POLLRDHUP);
	R(recv(c->a, buf, 9, 0));
	R(recv(c->a, buf, 9, 0));
}

SCENARIO(read_shut)
{
	pair(c);
	OK(send(c->b, "before", 6, 0));
	await(c->a, 6);
	R(shutdown(c->a, SHUT_RD));
	/* What is there can still be read; what comes after, too, on TCP. */
	R(recv(c->a, buf, 3, 0));
	R(recv(c->a, buf, 9, 0));
	R(recv(c->a, buf, 9, 0));
	R(send(c->b, "after", 5, MSG_NOSIGNAL));
	settle(c);
	P(c->a, POLLIN);
	R(recv(c->a, buf, 9, 0));
	R(recv(c->a, buf, 9, 0));
	R(send(c->a, "x", 1, 0));
	R(recv(c->b, buf, 9, 0));
}

/* A receive of all that waits when the peer closes with bytes unread. */
SCENARIO(waitall_at_reset)
{
	pair(c);
	OK(send(c->a, "xyz", 3, 0));
	await(c->b, 3);
	OK(send(c->b, "12345", 5, 0));
	await(c->a, 5);
	close(c->b);
	settle(c);
	R(recv(c->a, buf, 9, MSG_WAITALL));
	R(recv(c->a, buf, 9, 0));
	R(recv(c->a, buf, 9, 0));
}

TEST_HARNESS_MAIN
