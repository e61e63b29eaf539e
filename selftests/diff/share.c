// SPDX-License-Identifier: GPL-2.0
/* Sharing: threads, fork, dup, exec, passing a socket on, io_uring. */
#define DIFF	diff_share
#include "diff.h"

#include <liburing.h>
#include <pthread.h>
#include <sys/wait.h>

#include "pass.h"

static char buf[1 << 16];

static void child_writes(struct ctx *c)
{
	send(c->a, "from the child", 14, 0);
}

SCENARIO(fork_child_writes)
{
	pid_t pid;
	int n;

	pair(c);
	pid = beside(c, child_writes);
	R(waitpid(pid, NULL, 0) == pid);
	/* It has exited; this process still has the socket. */
	n = R(recv(c->b, buf, 99, 0));
	D(buf, n);
	P(c->b, 0);
	R(send(c->a, "from the parent", 15, 0));
	n = R(recv(c->b, buf, 99, 0));
	D(buf, n);
	close(c->a);
	P(c->b, POLLRDHUP);
	R(recv(c->b, buf, 99, 0));
}

static void child_echoes_once(struct ctx *c)
{
	int n;

	close(c->b);
	n = recv(c->a, buf, 99, 0);
	send(c->a, buf, n, 0);
	recv(c->a, buf, 99, 0);
}

SCENARIO(fork_parent_closes)
{
	pid_t pid;
	int n;

	pair(c);
	pid = beside(c, child_echoes_once);
	close(c->a);
	/* a time in which no end may come */
	usleep(10000);
	P(c->b, 0);
	R(send(c->b, "abc", 3, 0));
	n = R(recv(c->b, buf, 99, 0));
	D(buf, n);
	R(send(c->b, "d", 1, 0));
	/* P() gives AF_UNIX no time, and this process may not be the first */
	R(waitpid(pid, NULL, 0) == pid);
	P(c->b, POLLRDHUP);
	R(recv(c->b, buf, 99, 0));
}

/* Position and data are of the description, not of the process. */
SCENARIO(fork_shares_position)
{
	int i, n, st;
	pid_t pid;

	pair(c);
	OK(send(c->b, "0123456789", 10, 0));
	await(c->a, 10);
	for (i = 0; i < 3; i++) {
		pid = fork();
		if (!pid)
			_exit(recv(c->a, buf, 2, 0) == 2 ? buf[0] : 1);
		waitpid(pid, &st, 0);
		N(WEXITSTATUS(st));
		n = R(recv(c->a, buf, 1, 0));
		D(buf, n);
	}
	R(recv(c->a, buf, 9, 0));
}

static void shuts(struct ctx *c)
{
	shutdown(c->a, SHUT_WR);
}

SCENARIO(fork_child_shuts)
{
	pid_t pid;

	pair(c);
	pid = beside(c, shuts);
	waitpid(pid, NULL, 0);
	R(send(c->a, "x", 1, MSG_NOSIGNAL));
	R(recv(c->b, buf, 9, 0));
	R(send(c->b, "y", 1, 0));
	R(recv(c->a, buf, 9, 0));
}

SCENARIO(duplicates)
{
	int d, e, n;

	pair(c);
	d = OK(dup(c->a));
	e = OK(fcntl(c->a, F_DUPFD_CLOEXEC, 100));
	R(send(d, "a", 1, 0));
	R(send(e, "b", 1, 0));
	R(send(c->a, "c", 1, 0));
	await(c->b, 3);
	n = R(recv(c->b, buf, 9, 0));
	D(buf, n);
	close(c->a);
	close(d);
	P(c->b, 0);
	R(send(c->b, "x", 1, 0));
	R(recv(e, buf, 9, 0));
	R(dup2(c->b, e) == e);
	/* The last descriptor of the end a is gone. */
	P(c->b, POLLRDHUP);
	R(recv(e, buf, 9, 0));
}

/* By this name, which deviations.c knows */
static int pass(int through, int fd)
{
	return end_pass_many(through, &fd, 1, 0);
}

static int take(int from, int *count)
{
	union {
		char b[CMSG_SPACE(4 * sizeof(int))];
		struct cmsghdr align;
	} u = { 0 };
	char x;
	struct iovec v = { &x, 1 };
	struct msghdr m = {
		.msg_iov = &v, .msg_iovlen = 1,
		.msg_control = u.b, .msg_controllen = sizeof(u.b),
	};
	struct cmsghdr *h;
	int fd = -1;

	*count = recvmsg(from, &m, MSG_DONTWAIT);
	h = CMSG_FIRSTHDR(&m);
	if (h && h->cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(h), sizeof(fd));
	return fd;
}

static int through[2];

static void uses_passed(struct ctx *c)
{
	int fd, n;

	close(c->a);
	close(c->b);
	while (poll(&(struct pollfd){ through[1], POLLIN, 0 }, 1, -1) < 0)
		;
	fd = take(through[1], &n);
	n = recv(fd, buf, 99, 0);
	send(fd, buf, n, 0);
	recv(fd, buf, 99, 0);
}

/* The socket goes to another process over a plain AF_UNIX socket. */
SCENARIO(passed_on)
{
	int n;

	pair(c);
	OK(socketpair(AF_UNIX, SOCK_STREAM, 0, through));
	beside(c, uses_passed);
	R(pass(through[0], c->a));
	close(c->a);
	close(through[0]);
	close(through[1]);
	R(send(c->b, "hello you", 9, 0));
	n = R(recv(c->b, buf, 99, 0));
	D(buf, n);
	R(shutdown(c->b, SHUT_WR));
	R(recv(c->b, buf, 99, 0));
	P(c->b, POLLHUP);
}

/* In flight, in a queue nobody reads, it is alive; then it is not. */
SCENARIO(passed_and_dropped)
{
	pair(c);
	OK(socketpair(AF_UNIX, SOCK_STREAM, 0, through));
	R(pass(through[0], c->a));
	close(c->a);
	/* a time in which no end may come */
	usleep(5000);
	P(c->b, 0);
	R(send(c->b, "x", 1, 0));
	settle(c);
	close(through[0]);
	close(through[1]);
	P(c->b, POLLHUP);
	R(recv(c->b, buf, 9, 0));
}

/* A descriptor passed through the tested socket itself. */
SCENARIO_ON(un, passes_a_file)
{
	int p[2], fd, n;

	pair(c);
	OK(pipe(p));
	R(pass(c->a, p[0]));
	P(c->b, 0);
	fd = take(c->b, &n);
	V("received bytes", "%d", n);
	V("received a descriptor", "%d", fd >= 0);
	R(send(c->a, "x", 1, MSG_NOSIGNAL));
	R(recv(c->b, buf, 9, MSG_DONTWAIT));
}

SCENARIO_ON(un, passes_credentials)
{
	union {
		char b[CMSG_SPACE(sizeof(struct ucred))];
		struct cmsghdr align;
	} u = { 0 };
	char x;
	struct iovec v = { &x, 1 };
	struct msghdr m = {
		.msg_iov = &v, .msg_iovlen = 1,
		.msg_control = u.b, .msg_controllen = sizeof(u.b),
	};
	struct cmsghdr *h;
	int one = 1;

	pair(c);
	R(setsockopt(c->b, SOL_SOCKET, SO_PASSCRED, &one, sizeof(one)));
	R(send(c->a, "x", 1, 0));
	await(c->b, 1);
	R(recvmsg(c->b, &m, 0));
	h = CMSG_FIRSTHDR(&m);
	V("credentials", "%d", h && h->cmsg_type == SCM_CREDENTIALS);
}

SCENARIO(exec)
{
	char cmd[200];
	int n;

	pair(c);
	snprintf(cmd, sizeof(cmd),
		 "echo from a shell >&%d; head -c 3 <&%d | tr a-z A-Z >&%d",
		 c->a, c->a, c->a);
	OK(send(c->b, "abc", 3, 0));
	R(system(cmd));
	close(c->a);
	n = R(recv(c->b, buf, 99, MSG_WAITALL));
	D(buf, n);
}

SCENARIO(exec_cloexec)
{
	pid_t pid;

	pair(c);
	OK(fcntl(c->a, F_SETFD, FD_CLOEXEC));
	pid = fork();
	if (!pid) {
		close(c->b);
		execlp("sleep", "sleep", "30", NULL);
		_exit(1);
	}
	close(c->a);
	/* The child's copy goes with its exec, which takes its time. */
	poll(&(struct pollfd){ c->b, POLLRDHUP, 0 }, 1, 15000 * l5_slow());
	P(c->b, POLLRDHUP);
	R(recv(c->b, buf, 9, MSG_DONTWAIT));
	kill(pid, SIGKILL);
}

#define TOTAL		1048576

struct reader {
	int fd;
	long bytes;
	unsigned int seen[256];
};

static void *reads(void *arg)
{
	struct reader *r = arg;
	unsigned char b[777];
	ssize_t n;

	while ((n = recv(r->fd, b, sizeof(b), 0)) > 0) {
		r->bytes += n;
		while (n)
			r->seen[b[--n]]++;
	}
	return NULL;
}

/* Two threads read: every byte comes to exactly one of them. */
SCENARIO(two_readers)
{
	struct reader r[2] = { { .fd = -1 }, { .fd = -1 } };
	unsigned int want[256] = { 0 };
	pthread_t t[2];
	long i;
	int j, bad = 0;

	pair(c);
	r[0].fd = c->b;
	r[1].fd = c->b;
	for (j = 0; j < 2; j++)
		pthread_create(&t[j], NULL, reads, &r[j]);
	R(feed(c->a, TOTAL, 0));
	OK(shutdown(c->a, SHUT_WR));
	for (j = 0; j < 2; j++)
		pthread_join(t[j], NULL);
	for (i = 0; i < TOTAL; i++) {
		unsigned char b;

		l5_fill(&b, 1, i);
		want[b]++;
	}
	for (j = 0; j < 256; j++)
		bad += want[j] != r[0].seen[j] + r[1].seen[j];
	V("all", "%ld", r[0].bytes + r[1].bytes);
	N(bad);
}

static void *writes(void *arg)
{
	struct reader *r = arg;
	char b[1000];
	int i;

	/* One byte value a writer: what it wrote can be told. */
	memset(b, r->seen[0], sizeof(b));
	for (i = 0; i < 300; i++) {
		ssize_t n = send(r->fd, b, 1 + i * 7 % 1000, 0);

		if (n != 1 + i * 7 % 1000)
			return NULL;
		r->bytes += n;
	}
	return NULL;
}

SCENARIO(three_writers)
{
	struct reader w[3] = { { .bytes = 0 } };
	long got[3] = { 0 };
	pthread_t t[3];
	int j, n, i, want = 0;

	pair(c);
	for (j = 0; j < 3; j++) {
		w[j].fd = c->a;
		w[j].seen[0] = j;
		pthread_create(&t[j], NULL, writes, &w[j]);
	}
	for (i = 0; i < 300; i++)
		want += 3 * (1 + i * 7 % 1000);
	i = 0;
	while (i < want) {
		n = recv(c->b, buf, sizeof(buf), MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN) {
			struct pollfd p = { c->b, POLLIN, 0 };

			if (poll(&p, 1, 15000 * l5_slow()) == 0)
				break;
			continue;
		}
		if (n <= 0)
			break;
		for (j = 0; j < n; j++)
			if (buf[j] >= 0 && buf[j] < 3)
				got[(int)buf[j]]++;
		i += n;
	}
	for (j = 0; j < 3; j++) {
		pthread_join(t[j], NULL);
		V("lost", "%ld", w[j].bytes - got[j]);
		V("sent", "%ld", w[j].bytes);
	}
	/* and not a byte more */
	settle(c);
	R(recv(c->b, buf, sizeof(buf), MSG_DONTWAIT));
}

static void *reads_both(void *arg)
{
	struct reader *r = arg;

	r->bytes = drain(r->fd, TOTAL, 0);
	return NULL;
}

/* One thread reads while another writes the same socket, at both ends. */
static void full_duplex_b(struct ctx *c)
{
	struct reader r = { .fd = c->b };
	pthread_t t;

	close(c->a);
	pthread_create(&t, NULL, reads_both, &r);
	if (feed(c->b, TOTAL, 0))
		V("peer", "cannot write");
	pthread_join(t, NULL);
	if (r.bytes)
		V("peer", "reads wrong bytes");
}

SCENARIO(full_duplex)
{
	struct reader r = { .fd = -1 };
	pthread_t t;
	pid_t pid;

	pair(c);
	pid = beside(c, full_duplex_b);
	close(c->b);
	r.fd = c->a;
	pthread_create(&t, NULL, reads_both, &r);
	R(feed(c->a, TOTAL, 0));
	pthread_join(t, NULL);
	N(r.bytes);
	R(waitpid(pid, NULL, 0) == pid);
}

/* Both ends in one thread; one end relays to another connection. */
struct relay_arg { int from, to; };

static void *relay(void *arg)
{
	struct relay_arg *r = arg;
	char b[3000];
	ssize_t n, m, o;

	while ((n = recv(r->from, b, sizeof(b), 0)) > 0)
		for (o = 0; o < n; o += m) {
			m = send(r->to, b + o, n - o, MSG_NOSIGNAL);
			if (m <= 0)
				return NULL;
		}
	shutdown(r->to, SHUT_WR);
	return NULL;
}

static void *feeds(void *arg)
{
	int fd = *(int *)arg;

	if (feed(fd, TOTAL, 0))
		return arg;
	shutdown(fd, SHUT_WR);
	return NULL;
}

SCENARIO(relay_chain)
{
	int first, last, i;
	struct relay_arg r[4];
	pthread_t t[4], f;
	void *ret;

	pair(c);
	first = c->a;
	for (i = 0; i < 4; i++) {
		r[i].from = c->b;
		pair(c);
		r[i].to = c->a;
		pthread_create(&t[i], NULL, relay, &r[i]);
	}
	last = c->b;
	pthread_create(&f, NULL, feeds, &first);
	R(drain(last, TOTAL, 0));
	R(recv(last, buf, 1, 0));
	pthread_join(f, &ret);
	V("feeding", "%s", ret ? "failed" : "went well");
	for (i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
}

static struct io_uring ring;

static void push(struct ctx *c, const char *what, int wait)
{
	struct io_uring_cqe *cqe;
	struct __kernel_timespec ts = { .tv_sec = 10 };
	int n = io_uring_submit(&ring);

	if (n < 0)
		V(what, "submit %d", n);
	if (!wait)
		return;
	n = io_uring_wait_cqe_timeout(&ring, &cqe, &ts);
	if (n) {
		V(what, "waiting %s", strerrorname_np(-n));
		return;
	}
	if (cqe->res < 0)
		V(what, "%d %s", cqe->res, strerrorname_np(-cqe->res));
	else
		V(what, "%d", cqe->res);
	io_uring_cqe_seen(&ring, cqe);
}

static struct io_uring_sqe *sqe(void)
{
	return io_uring_get_sqe(&ring);
}

/*
 * A send without a copy, if that is to be had: what it returned, and if that
 * was not an error a notification that the buffer is free. Whichever is first.
 */
static void push_zc(struct ctx *c, const char *what)
{
	struct __kernel_timespec ts = { .tv_sec = 10 };
	struct io_uring_cqe *cqe;
	int n = io_uring_submit(&ring), left = 1;

	if (n < 0)
		V(what, "submit %d", n);
	while (left--) {
		n = io_uring_wait_cqe_timeout(&ring, &cqe, &ts);
		if (n) {
			V(what, "waiting %s", strerrorname_np(-n));
			return;
		}
		if (cqe->flags & IORING_CQE_F_NOTIF)
			V(what, "notified");
		else
			V(what, "%d %s", cqe->res, cqe->res < 0 ?
			  strerrorname_np(-cqe->res) : "");
		if (cqe->flags & IORING_CQE_F_MORE)
			left++;
		io_uring_cqe_seen(&ring, cqe);
	}
}

SCENARIO(uring_send_zc)
{
	struct iovec v[2] = { { "uv", 2 }, { "wxyz", 4 } };
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };
	static char much[30000];
	int n;

	n = io_uring_queue_init(8, &ring, 0);
	if (n) {
		V("io_uring", "%d", n);
		return;
	}
	pair(c);
	io_uring_prep_send_zc(sqe(), c->a, "abc", 3, 0, 0);
	push_zc(c, "send_zc");
	io_uring_prep_send_zc(sqe(), c->b, "de", 2, MSG_WAITALL, 0);
	push_zc(c, "send_zc by the other");
	io_uring_prep_sendmsg_zc(sqe(), c->a, &m, 0);
	push_zc(c, "sendmsg_zc");
	/* AF_UNIX refuses them */
	if (!is_unix(c)) {
		await(c->b, 9);
		n = R(recv(c->b, buf, 99, 0));
		D(buf, n);
		n = R(recv(c->a, buf, 99, 0));
		D(buf, n);
		l5_fill(much, sizeof(much), 0);
		io_uring_prep_send_zc(sqe(), c->a, much, sizeof(much),
				      MSG_WAITALL, 0);
		push_zc(c, "send_zc of much");
		R(drain(c->b, sizeof(much), 0));
	}
	OK(shutdown(c->a, SHUT_WR));
	io_uring_prep_send_zc(sqe(), c->a, "abc", 3, MSG_NOSIGNAL, 0);
	push_zc(c, "send_zc after the end");
}

static void send_8(struct ctx *c)
{
	send(c->b, "12345678", 8, 0);
}

SCENARIO(uring)
{
	struct iovec v[2] = { { "uv", 2 }, { "wxyz", 4 } };
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };
	int l, s, n;

	n = io_uring_queue_init(8, &ring, 0);
	if (n) {
		/* Where the kernel forbids it, both sides say so. */
		V("io_uring", "%d", n);
		return;
	}
	pair(c);
	io_uring_prep_send(sqe(), c->a, "abc", 3, 0);
	push(c, "send", 1);
	io_uring_prep_recv(sqe(), c->b, buf, 99, 0);
	push(c, "recv", 1);
	D(buf, 3);
	io_uring_prep_write(sqe(), c->a, "defg", 4, 0);
	push(c, "write", 1);
	io_uring_prep_read(sqe(), c->b, buf, 99, 0);
	push(c, "read", 1);
	D(buf, 4);
	io_uring_prep_sendmsg(sqe(), c->a, &m, 0);
	push(c, "sendmsg", 1);
	v[0].iov_base = buf;
	v[1].iov_base = buf + 2;
	io_uring_prep_recvmsg(sqe(), c->b, &m, 0);
	push(c, "recvmsg", 1);
	D(buf, 6);
	/* Submitted before there is anything. */
	io_uring_prep_recv(sqe(), c->a, buf, 99, 0);
	push(c, "recv", 0);
	send_8(c);
	push(c, "recv that waited", 1);
	D(buf, 8);
	io_uring_prep_poll_add(sqe(), c->a, POLLIN);
	push(c, "poll", 0);
	send_8(c);
	push(c, "poll that waited", 1);
	R(recv(c->a, buf, 99, 0));
	io_uring_prep_poll_add(sqe(), c->a, POLLOUT);
	push(c, "poll for writing", 1);
	io_uring_prep_recv(sqe(), c->a, buf, 99, MSG_DONTWAIT);
	push(c, "recv with MSG_DONTWAIT", 1);
	l = listener(c, 4);
	s = cl_socket(c, 0);
	io_uring_prep_accept(sqe(), l, NULL, NULL, 0);
	push(c, "accept", 0);
	io_uring_prep_connect(sqe(), s, SA(&c->la), c->la.len);
	push(c, "connect", 0);
	push(c, "one of the two", 1);
	push(c, "the other", 1);
	io_uring_prep_recv(sqe(), c->a, buf, 99, 0);
	push(c, "recv", 0);
	OK(shutdown(c->b, SHUT_WR));
	push(c, "recv of the end", 1);
	io_uring_prep_shutdown(sqe(), c->a, SHUT_WR);
	push(c, "shutdown", 1);
	P(c->b, POLLHUP);
	io_uring_prep_close(sqe(), c->a);
	push(c, "close", 1);
	R(fcntl(c->a, F_GETFD));
}

TEST_HARNESS_MAIN
