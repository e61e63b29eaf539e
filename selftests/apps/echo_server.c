// SPDX-License-Identifier: GPL-2.0
/*
 * echo_server [-l] KIND PORT [PROGRAM]: sends back what comes, built in each
 * of the ways that servers are. On SIGTERM it says how much it has moved, and
 * ends. -l: its sockets are AF_L5's.
 */
#include <fcntl.h>
#include <liburing.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "echo.h"

#define WORKERS		8
#define PROCESSES	4
#define EVENTS		16
#define CONNS		1000

/* Shared by all processes. */
static struct {
	long conns;
	long bytes;
	long ticks;
} *sum;

static int listener;
static const char *program;

static void add(long *what, long n)
{
	__atomic_fetch_add(what, n, __ATOMIC_RELAXED);
}

/* What a thread does: something with a connection, or all of the server. */
struct job {
	void (*fn)(int fd);
	int fd;
	void (*loop)(void);
};

static void *run(void *arg)
{
	struct job job = *(struct job *)arg;

	free(arg);
	if (job.fn)
		job.fn(job.fd);
	else
		job.loop();
	return NULL;
}

static void start_job(struct job j)
{
	struct job *job = malloc(sizeof(*job));
	pthread_t t;

	*job = j;
	errno = pthread_create(&t, NULL, run, job);
	if (errno)
		err(1, "pthread_create");
	pthread_detach(t);
}

static void start(void (*fn)(int fd), int fd)
{
	start_job((struct job){ .fn = fn, .fd = fd });
}

static void loop(void (*fn)(void))
{
	start_job((struct job){ .loop = fn });
}

/* Blocking: one connection, in whatever thread or process */

static void echo(int fd)
{
	char *buf = malloc(CHUNK);
	ssize_t n, m, done;

	add(&sum->conns, 1);
	while ((n = read(fd, buf, CHUNK)) > 0) {
		add(&sum->bytes, n);
		for (done = 0; done < n; done += m) {
			m = write(fd, buf + done, n - done);
			if (m < 0)
				err(1, "write");
		}
	}
	if (n < 0)
		err(1, "read");
	close(fd);
	free(buf);
}

static int next(void)
{
	int fd;

	do {
		fd = accept(listener, NULL, NULL);
	} while (fd < 0 && errno == EINTR);
	if (fd < 0)
		err(1, "accept");
	return fd;
}

static void threads(void)
{
	for (;;)
		start(echo, next());
}

/* A pool of threads that all accept; each serves one connection at a time. */
static void accepting(void)
{
	for (;;)
		echo(next());
}

static void pool(void)
{
	int i;

	for (i = 1; i < 100; i++)
		loop(accepting);
	accepting();
}

/* By the C library's streams: a library above it sees neither call. */
static void stdio_thread(int fd)
{
	FILE *in = fdopen(fd, "r");
	FILE *out = fdopen(dup(fd), "w");
	int c;

	add(&sum->conns, 1);
	while ((c = fgetc(in)) != EOF) {
		add(&sum->bytes, 1);
		if (fputc(c, out) == EOF)
			err(1, "fputc");
		/* The next bytes may only come when these have been sent. */
		if (in->_IO_read_ptr == in->_IO_read_end && fflush(out))
			err(1, "fflush");
	}
	fclose(out);
	fclose(in);
}

static void stdio(void)
{
	for (;;)
		start(stdio_thread, next());
}

/* A process for each connection; it never runs another program. */
static void forks(void)
{
	int fd;

	signal(SIGCHLD, SIG_IGN);
	for (;;) {
		fd = next();
		switch (fork()) {
		case -1:
			err(1, "fork");
		case 0:
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			close(listener);
			echo(fd);
			_exit(0);
		}
		close(fd);
	}
}

/* Some processes, all of which accept. */
static void prefork(void)
{
	int i;

	for (i = 0; i < PROCESSES; i++) {
		switch (fork()) {
		case -1:
			err(1, "fork");
		case 0:
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			threads();
		}
	}
	/* They would die with this thread. */
	pause();
}

/*
 * The parent answers the first bytes, then a child goes on, then the parent
 * again when the child has had its share, which is the worst way to share.
 */
static void relay_one(int fd)
{
	int i, status;
	static char buf[CHUNK];
	ssize_t n = 1;
	pid_t pid;

	add(&sum->conns, 1);
	for (i = 0; n > 0; i++) {
		if (i % 4 < 2) {
			n = recv(fd, buf, sizeof(buf), 0);
			if (n > 0 && send(fd, buf, n, 0) == n)
				add(&sum->bytes, n);
			continue;
		}
		pid = fork();
		if (!pid) {
			n = read(fd, buf, sizeof(buf));
			if (n > 0 && write(fd, buf, n) == n)
				add(&sum->bytes, n);
			_exit(n > 0);
		}
		if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
			errx(1, "the child ended with %#x", status);
		n = WEXITSTATUS(status);
	}
	close(fd);
}

static void relay(void)
{
	for (;;)
		relay_one(next());
}

/* The connection becomes the standard input and output of a program. */
static void exec(void)
{
	static char line[100];
	ssize_t n;
	int fd;

	signal(SIGCHLD, SIG_IGN);
	for (;;) {
		fd = next();
		add(&sum->conns, 1);
		/* What is read here the program does not get, nothing else. */
		n = read(fd, line, 16);
		if (n <= 0 || write(fd, line, n) != n)
			err(1, "the first bytes");
		switch (fork()) {
		case -1:
			err(1, "fork");
		case 0:
			dup2(fd, 0);
			dup2(fd, 1);
			close(fd);
			close(listener);
			execlp(program, program, NULL);
			err(1, "%s", program);
		}
		close(fd);
	}
}

/* The connection is sent to another process as SCM_RIGHTS. */
static void handoff(void)
{
	union {
		struct cmsghdr c;
		char buf[CMSG_SPACE(sizeof(int))];
	} u;
	char byte = 'x';
	struct iovec v = { &byte, 1 };
	struct msghdr m = {
		.msg_iov = &v, .msg_iovlen = 1,
		.msg_control = &u, .msg_controllen = sizeof(u),
	};
	int pair[2], fd;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair))
		err(1, "socketpair");
	switch (fork()) {
	case -1:
		err(1, "fork");
	case 0:
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(pair[0]);
		close(listener);
		for (;;) {
			m.msg_controllen = sizeof(u);
			if (recvmsg(pair[1], &m, MSG_CMSG_CLOEXEC) != 1)
				_exit(0);
			memcpy(&fd, CMSG_DATA(&u.c), sizeof(fd));
			start(echo, fd);
		}
	}
	for (;;) {
		fd = next();
		u.c.cmsg_level = SOL_SOCKET;
		u.c.cmsg_type = SCM_RIGHTS;
		u.c.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&u.c), &fd, sizeof(fd));
		if (sendmsg(pair[0], &m, 0) != 1)
			err(1, "sendmsg");
		close(fd);
	}
}

/* Nonblocking: whatever tells when to go on */

struct conn {
	int fd;
	size_t have;		/* bytes in buf */
	size_t done;		/* of them sent */
	char buf[CHUNK];
};

static struct conn *conn_new(int fd)
{
	struct conn *c = malloc(sizeof(*c));

	c->fd = fd;
	c->have = 0;
	c->done = 0;
	add(&sum->conns, 1);
	return c;
}

static void conn_free(struct conn *c)
{
	close(c->fd);
	free(c);
}

/*
 * Move what can be moved, or, if not @all, one piece. What to wait for then;
 * 0 at the end.
 */
static int step(struct conn *c, bool all)
{
	ssize_t n;

	do {
		while (c->done < c->have) {
			n = write(c->fd, c->buf + c->done, c->have - c->done);
			if (n < 0 && errno == EAGAIN)
				return EPOLLOUT;
			if (n < 0)
				err(1, "write");
			c->done += n;
			if (!all)
				return c->done < c->have ? EPOLLOUT : EPOLLIN;
		}
		n = read(c->fd, c->buf, sizeof(c->buf));
		if (n < 0 && errno == EAGAIN)
			return EPOLLIN;
		if (n < 0)
			err(1, "read");
		add(&sum->bytes, n);
		c->have = n;
		c->done = 0;
	} while (n > 0 && all);
	return n > 0 ? EPOLLOUT : 0;
}

static void ctl(int ep, int op, int fd, int events, void *ptr)
{
	struct epoll_event ev = { .events = events, .data.ptr = ptr };

	if (epoll_ctl(ep, op, fd, &ev))
		err(1, "epoll_ctl");
}

static int epoll_new(void)
{
	int ep = epoll_create1(EPOLL_CLOEXEC);

	if (ep < 0)
		err(1, "epoll_create1");
	return ep;
}

static int accept_some(void)
{
	int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0 && errno != EAGAIN && errno != ECONNABORTED)
		err(1, "accept4");
	return fd;
}

/* One set for all threads; the thread that gets an event has the connection. */
static int shared;

static void oneshot_worker(void)
{
	struct epoll_event ev;
	struct conn *c;
	int fd, want;

	for (;;) {
		if (epoll_wait(shared, &ev, 1, -1) < 1)
			continue;
		c = ev.data.ptr;
		if (!c) {
			while ((fd = accept_some()) >= 0)
				ctl(shared, EPOLL_CTL_ADD, fd,
				    EPOLLIN | EPOLLONESHOT, conn_new(fd));
			ctl(shared, EPOLL_CTL_MOD, listener,
			    EPOLLIN | EPOLLONESHOT, NULL);
			continue;
		}
		want = step(c, false);
		if (want)
			ctl(shared, EPOLL_CTL_MOD, c->fd, want | EPOLLONESHOT,
			    c);
		else
			conn_free(c);
	}
}

static void oneshot(void)
{
	int i;

	shared = epoll_new();
	ctl(shared, EPOLL_CTL_ADD, listener, EPOLLIN | EPOLLONESHOT, NULL);
	for (i = 1; i < WORKERS; i++)
		loop(oneshot_worker);
	oneshot_worker();
}

/* A set for each thread, with the listener in all of them; level-triggered. */
static void exclusive_worker(void)
{
	struct epoll_event evs[EVENTS];
	int ep = epoll_new(), i, n, fd, want;
	struct conn *c;

	ctl(ep, EPOLL_CTL_ADD, listener, EPOLLIN | EPOLLEXCLUSIVE, NULL);
	for (;;) {
		n = epoll_wait(ep, evs, EVENTS, -1);
		for (i = 0; i < n; i++) {
			c = evs[i].data.ptr;
			if (!c) {
				fd = accept_some();
				if (fd >= 0)
					ctl(ep, EPOLL_CTL_ADD, fd, EPOLLIN,
					    conn_new(fd));
				continue;
			}
			want = step(c, false);
			if (want)
				ctl(ep, EPOLL_CTL_MOD, c->fd, want, c);
			else
				conn_free(c);
		}
	}
}

static void exclusive(void)
{
	int i;

	for (i = 1; i < WORKERS; i++)
		loop(exclusive_worker);
	exclusive_worker();
}

/*
 * One thread, edge-triggered, and what is no socket in the same set: a timer,
 * and an eventfd that it rings at every tick.
 */
static void edge(void)
{
	struct itimerspec every = { { 0, 20000000 }, { 0, 20000000 } };
	struct epoll_event evs[EVENTS];
	int ep = epoll_new(), i, n, fd;
	int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
	int event = eventfd(0, EFD_NONBLOCK);
	uint64_t ticks;
	struct conn *c;

	timerfd_settime(timer, 0, &every, NULL);
	ctl(ep, EPOLL_CTL_ADD, listener, EPOLLIN | EPOLLET, NULL);
	ctl(ep, EPOLL_CTL_ADD, timer, EPOLLIN, &timer);
	ctl(ep, EPOLL_CTL_ADD, event, EPOLLIN | EPOLLET, &event);
	for (;;) {
		n = epoll_pwait2(ep, evs, EVENTS, NULL, NULL);
		for (i = 0; i < n; i++) {
			c = evs[i].data.ptr;
			if (evs[i].data.ptr == &timer) {
				if (read(timer, &ticks, 8) == 8 &&
				    write(event, &ticks, 8) != 8)
					err(1, "eventfd");
			} else if (evs[i].data.ptr == &event) {
				if (read(event, &ticks, 8) == 8)
					add(&sum->ticks, ticks);
			} else if (c) {
				if (!step(c, true))
					conn_free(c);
			} else {
				while ((fd = accept_some()) >= 0)
					ctl(ep, EPOLL_CTL_ADD, fd, EPOLLIN |
					    EPOLLOUT | EPOLLET, conn_new(fd));
			}
		}
	}
}

/* A set for the connections inside of another one for all the rest. */
static void nested(void)
{
	struct epoll_event evs[EVENTS];
	int outer = epoll_new(), inner = epoll_new(), i, n, fd, want;
	struct conn *c;

	ctl(outer, EPOLL_CTL_ADD, listener, EPOLLIN, NULL);
	ctl(outer, EPOLL_CTL_ADD, inner, EPOLLIN, &inner);
	for (;;) {
		if (epoll_wait(outer, evs, 1, -1) < 1)
			continue;
		if (!evs[0].data.ptr) {
			fd = accept_some();
			if (fd >= 0)
				ctl(inner, EPOLL_CTL_ADD, fd, EPOLLIN,
				    conn_new(fd));
			continue;
		}
		n = epoll_wait(inner, evs, EVENTS, 0);
		for (i = 0; i < n; i++) {
			c = evs[i].data.ptr;
			want = step(c, false);
			if (want)
				ctl(inner, EPOLL_CTL_MOD, c->fd, want, c);
			else
				conn_free(c);
		}
	}
}

static struct conn *conns[CONNS];
static int wants[CONNS];

static void serve(int i, bool all)
{
	wants[i] = step(conns[i], all);
	if (!wants[i]) {
		conn_free(conns[i]);
		conns[i] = NULL;
	}
}

static void take(void)
{
	int fd = accept_some(), i;

	if (fd < 0)
		return;
	for (i = 0; conns[i]; i++)
		;
	conns[i] = conn_new(fd);
	wants[i] = EPOLLIN;
}

static void polling(void)
{
	static struct pollfd p[CONNS + 1];
	int i;

	for (;;) {
		p[CONNS] = (struct pollfd){ .fd = listener, .events = POLLIN };
		for (i = 0; i < CONNS; i++) {
			p[i].fd = conns[i] ? conns[i]->fd : -1;
			p[i].events = wants[i] & EPOLLIN ? POLLIN : POLLOUT;
		}
		if (poll(p, CONNS + 1, -1) < 0)
			err(1, "poll");
		for (i = 0; i < CONNS; i++)
			if (conns[i] && p[i].revents)
				serve(i, false);
		if (p[CONNS].revents)
			take();
	}
}

static void selecting(void)
{
	fd_set in, out;
	int i, max;

	for (;;) {
		FD_ZERO(&in);
		FD_ZERO(&out);
		FD_SET(listener, &in);
		max = listener;
		for (i = 0; i < CONNS; i++) {
			if (!conns[i])
				continue;
			FD_SET(conns[i]->fd, wants[i] & EPOLLIN ? &in : &out);
			if (conns[i]->fd > max)
				max = conns[i]->fd;
		}
		if (select(max + 1, &in, &out, NULL, NULL) < 0)
			err(1, "select");
		for (i = 0; i < CONNS; i++)
			if (conns[i] && (FD_ISSET(conns[i]->fd, &in) ||
					 FD_ISSET(conns[i]->fd, &out)))
				serve(i, true);
		if (FD_ISSET(listener, &in))
			take();
	}
}

/* io_uring alone: it accepts, receives and sends. */

static struct io_uring_sqe *sqe(struct io_uring *r, void *data)
{
	struct io_uring_sqe *e = io_uring_get_sqe(r);

	if (!e) {
		io_uring_submit(r);
		e = io_uring_get_sqe(r);
	}
	io_uring_sqe_set_data(e, data);
	return e;
}

static void uring_go_on(struct io_uring *r, struct conn *c)
{
	struct io_uring_sqe *e = sqe(r, c);

	if (c->done < c->have)
		io_uring_prep_send(e, c->fd, c->buf + c->done,
				   c->have - c->done, MSG_NOSIGNAL);
	else
		io_uring_prep_recv(e, c->fd, c->buf, sizeof(c->buf), 0);
	io_uring_sqe_set_data(e, c);
}

static void uring_done(struct io_uring *r, struct conn *c, int res)
{
	if (res < 0)
		errx(1, "io_uring: %s", strerrorname_np(-res));
	if (c->done < c->have) {
		c->done += res;
	} else {
		c->have = res;
		c->done = 0;
		add(&sum->bytes, res);
	}
	if (c->have)
		uring_go_on(r, c);
	else
		conn_free(c);
}

static void uring(void)
{
	struct io_uring_cqe *cqe;
	struct io_uring r;

	if (io_uring_queue_init(256, &r, 0) < 0)
		errx(1, "io_uring_queue_init");
	io_uring_prep_multishot_accept(sqe(&r, NULL), listener, NULL, NULL, 0);
	for (;;) {
		struct conn *c;
		int res;

		io_uring_submit_and_wait(&r, 1);
		if (io_uring_peek_cqe(&r, &cqe))
			continue;
		c = io_uring_cqe_get_data(cqe);
		res = cqe->res;
		if (!c && !(cqe->flags & IORING_CQE_F_MORE))
			io_uring_prep_multishot_accept(sqe(&r, NULL), listener,
						       NULL, NULL, 0);
		io_uring_cqe_seen(&r, cqe);
		if (c)
			uring_done(&r, c, res);
		else if (res >= 0)
			uring_go_on(&r, conn_new(res));
		else
			errx(1, "accept: %s", strerrorname_np(-res));
	}
}

/* System calls alone, as a program without a C library makes them */
static void raw_thread(int fd)
{
	char *buf = malloc(CHUNK);
	ssize_t n, m, done;

	add(&sum->conns, 1);
	while ((n = syscall(SYS_read, fd, buf, CHUNK)) > 0) {
		add(&sum->bytes, n);
		for (done = 0; done < n; done += m) {
			m = syscall(SYS_write, fd, buf + done, n - done);
			if (m < 0)
				err(1, "write");
		}
	}
	if (n < 0)
		err(1, "read");
	syscall(SYS_close, fd);
	free(buf);
}

static void raw(void)
{
	int fd;

	for (;;) {
		fd = syscall(SYS_accept4, listener, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0)
			err(1, "accept4");
		start(raw_thread, fd);
	}
}

/* Every way to read and to write there is, in turn, on each connection */
static void mixed_thread(int fd)
{
	char *buf = malloc(CHUNK);
	ssize_t n, m, done;
	unsigned int i = fd;
	const struct way *w;

	add(&sum->conns, 1);
	for (;;) {
		w = way(WAY_ALL, i++);
		n = w->recv(fd, buf, CHUNK);
		if (n < 0)
			err(1, "%s", w->name);
		if (!n)
			break;
		add(&sum->bytes, n);
		for (done = 0; done < n; done += m) {
			w = way(WAY_ALL, i * 7);
			m = w->send(fd, buf + done, n - done);
			if (m < 0)
				err(1, "%s", w->name);
		}
	}
	close(fd);
	free(buf);
}

static void mixed(void)
{
	for (;;)
		start(mixed_thread, next());
}

static const struct {
	const char *name;
	void (*run)(void);
	bool nonblock;
} kinds[] = {
	{ "threads", threads, false },
	{ "pool", pool, false },
	{ "stdio", stdio, false },
	{ "fork", forks, false },
	{ "prefork", prefork, false },
	{ "relay", relay, false },
	{ "exec", exec, false },
	{ "handoff", handoff, false },
	{ "oneshot", oneshot, true },
	{ "exclusive", exclusive, true },
	{ "edge", edge, true },
	{ "nested", nested, true },
	{ "poll", polling, true },
	{ "select", selecting, true },
	{ "uring", uring, false },
	{ "raw", raw, false },
	{ "mixed", mixed, false },
};

int main(int argc, char **argv)
{
	bool l5 = argc > 1 && !strcmp(argv[1], "-l");
	struct address a;
	unsigned int k;
	int one = 1, sig;
	sigset_t term;

	argv += l5;
	argc -= l5;
	if (argc < 3)
		errx(2, "[-l] KIND PORT [PROGRAM]");
	program = argv[3];
	sum = mmap(NULL, sizeof(*sum), PROT_READ | PROT_WRITE,
		   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (sum == MAP_FAILED)
		err(1, "mmap");
	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &term, NULL);

	for (k = 0; k < ARRAY_SIZE(kinds); k++)
		if (!strcmp(kinds[k].name, argv[1]))
			break;
	if (k == ARRAY_SIZE(kinds))
		errx(2, "no kind %s", argv[1]);

	a = echo_address(l5, argv[2]);
	listener = socket(a.family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (listener < 0 ||
	    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, 4) ||
	    bind(listener, (struct sockaddr *)&a.in, sizeof(a.in)) ||
	    (kinds[k].nonblock && fcntl(listener, F_SETFL, O_NONBLOCK)) ||
	    listen(listener, 1024))
		err(1, "listener");
	loop(kinds[k].run);
	sigwait(&term, &sig);
	printf("%ld connections, %ld bytes\n", sum->conns, sum->bytes);
	if (sum->ticks)
		fprintf(stderr, "the timer ticked\n");
	fflush(stdout);
	_exit(0);
}
