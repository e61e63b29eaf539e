// SPDX-License-Identifier: GPL-2.0
/*
 * Descriptors under the preload library: copied, inherited, passed on, closed
 * by one thread while another is inside, their numbers used again.
 */
#define SHIM	shim_fd
#include "shim.h"

#include <linux/close_range.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "ends.h"
#include "signals.h"

static char buf[4096];

#define SAYS(from, to, text)						\
	do {								\
		ssize_t __n = sizeof(text) - 1;				\
									\
		ASSERT_EQ(__n, write((from), (text), __n));		\
		ASSERT_EQ(__n, read((to), buf, sizeof(buf)));		\
		ASSERT_EQ(0, memcmp(buf, (text), __n));			\
	} while (0)

SHIM_TEST(copies)
{
	int a, b, c[6], i;

	WARM_PAIR(L5, a, b);
	c[0] = dup(a);
	c[1] = fcntl(a, F_DUPFD, 100);
	c[2] = fcntl(c[0], F_DUPFD_CLOEXEC, 100);
	c[3] = dup2(a, 200);
	c[4] = dup3(c[3], 201, O_CLOEXEC);
	c[5] = dup2(a, a);
	ASSERT_EQ(a, c[5]);
	for (i = 0; i < 5; i++) {
		ASSERT_LE(0, c[i]);
		SAYS(c[i], b, "there");
		SAYS(b, c[i], "and back");
	}
	/* no copy was mapped by itself */
	ASSERT_EQ(2, shim_maps());
	close(a);
	for (i = 0; i < 5; i++) {
		SAYS(c[i], b, "there");
		close(c[i]);
	}
	ASSERT_EQ(1, shim_maps());
	ASSERT_EQ(0, read(b, buf, 1));
	ASSERT_EQ(-1, dup2(a, a));
	ASSERT_EQ(EBADF, errno);
	close(b);
	ASSERT_EQ(0, shim_maps());
}

/* The number of a mapped socket is given to something else. */
SHIM_TEST(replaced)
{
	int a, b, f, i, p[2];
	FILE *s;

	for (i = 0; i < 8; i++) {
		WARM_PAIR(L5, a, b);
		ASSERT_EQ(0, pipe(p));
		snprintf(buf, sizeof(buf), "/proc/self/fd/%d", p[1]);
		s = NULL;
		switch (i) {
		case 0:
			ASSERT_EQ(b, dup2(p[1], b));
			break;
		case 1:
			close(b);
			ASSERT_EQ(b, dup(p[1]));
			break;
		case 2:
			ASSERT_EQ(0, close_range(b, b, 0));
			ASSERT_EQ(b, dup(p[1]));
			break;
		case 3:
			fclose(fdopen(b, "r+"));
			ASSERT_EQ(b, fcntl(p[1], F_DUPFD, 0));
			break;
		case 4:
			/* behind our back */
			syscall(SYS_close, b);
			ASSERT_EQ(b, syscall(SYS_dup, p[1]));
			break;
		case 5:
			syscall(SYS_dup2, p[1], b);
			break;
		case 6:
			s = freopen(buf, "w", fdopen(b, "r+"));
			ASSERT_EQ(b, fileno(s));
			break;
		case 7:
			s = freopen64(buf, "w", fdopen(b, "r+"));
			ASSERT_EQ(b, fileno(s));
			break;
		}
		ASSERT_EQ(0, read(a, buf, 1));
		ASSERT_EQ(5, write(b, "piped", 5));
		ASSERT_EQ(5, read(p[0], buf, 10));
		close(a);
		if (s)
			fclose(s);
		else
			close(b);
		ASSERT_EQ(0, shim_maps());
		close(p[0]);
		close(p[1]);
	}
	WARM_PAIR(L5, a, b);
	f = memfd_create("f", 0);
	ASSERT_EQ(0, close_range(a, a, CLOSE_RANGE_CLOEXEC));
	SAYS(a, b, "still there");
	closefrom(3);
	ASSERT_EQ(-1, write(a, "x", 1));
	ASSERT_EQ(EBADF, errno);
	ASSERT_EQ(-1, write(f, "x", 1));
}

enum { RACERS = 3 };

struct race {
	atomic_int fd;
	atomic_bool stop;
	struct racer {
		struct race *race;
		atomic_long calls;
	} racer[RACERS];
};

static void *uses(void *arg)
{
	struct racer *me = arg;
	struct race *r = me->race;
	char c[64];

	while (!atomic_load(&r->stop)) {
		int fd = atomic_load(&r->fd);

		if (write(fd, "0123456789", 10) > 0)
			recv(fd, c, sizeof(c), MSG_DONTWAIT);
		atomic_fetch_add(&me->calls, 1);
	}
	return NULL;
}

/* Until each thread has made so many calls more. */
static void all_used(struct race *r, int calls)
{
	long before[RACERS];
	int i;

	for (i = 0; i < RACERS; i++)
		before[i] = atomic_load(&r->racer[i].calls);
	for (i = 0; i < RACERS; i++)
		while (atomic_load(&r->racer[i].calls) < before[i] + calls)
			sched_yield();
}

/* Sockets are closed while threads are inside, again and again. */
SHIM_TEST(close_races)
{
	struct race r = { .fd = -1 };
	int a, b, i, rounds = 40;
	pthread_t t[RACERS];

	signal(SIGPIPE, SIG_IGN);
	for (i = 0; i < RACERS; i++) {
		r.racer[i].race = &r;
		ASSERT_EQ(0, pthread_create(&t[i], NULL, uses, &r.racer[i]));
	}
	while (rounds--) {
		ASSERT_TRUE(shim_pair(L5, &a, &b));
		ASSERT_TRUE(shim_warm(a, b));
		fcntl(a, F_SETFL, O_NONBLOCK);
		atomic_store(&r.fd, a);
		all_used(&r, 15);
		if (rounds & 1) {
			close(a);
		} else {
			int p[2];

			ASSERT_EQ(0, pipe2(p, O_NONBLOCK));
			ASSERT_EQ(a, dup2(p[0], a));
			close(p[0]);
			close(p[1]);
			close(a);
		}
		/* no thread is to be inside when the number comes again */
		atomic_store(&r.fd, -1);
		all_used(&r, 2);
		close(b);
	}
	atomic_store(&r.stop, true);
	for (i = 0; i < RACERS; i++)
		pthread_join(t[i], NULL);
	ASSERT_GE(1, shim_maps());
}

struct sleeper {
	int fd;
	atomic_int tid;
};

static void *reads(void *arg)
{
	struct sleeper *s = arg;
	char c;

	atomic_store(&s->tid, gettid());
	return (void *)read(s->fd, &c, 1);
}

/*
 * As the kernel: a thread that sleeps inside sleeps on until data or the end.
 */
SHIM_TEST(close_under_sleeper)
{
	struct sleeper s = { 0 };
	pthread_t t;
	void *ret;
	int a, b, d;

	WARM_PAIR(L5, a, b);
	d = dup(b);
	s.fd = b;
	ASSERT_EQ(0, pthread_create(&t, NULL, reads, &s));
	while (!atomic_load(&s.tid))
		usleep(1000);
	ASSERT_TRUE(l5_wait_asleep(s.tid));
	close(b);
	ASSERT_EQ(1, write(a, "x", 1));
	pthread_join(t, &ret);
	ASSERT_EQ(1, (long)ret);
	SAYS(a, d, "by the other");
}

static int64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000LL + t.tv_nsec / 1000;
}

/* Read so much that the socket is mapped on the way. */
static void *reads_until_mapped(void *arg)
{
	struct sleeper *s = arg;
	long i, n = 0;
	char c;

	atomic_store(&s->tid, gettid());
	for (i = 0; i < 4 * SHIM_AFTER; i++)
		n += read(s->fd, &c, 1);
	return (void *)n;
}

/*
 * A thread changes O_NONBLOCK while another is about to map the socket, at one
 * moment after the other of the time that this takes. What it said last holds.
 */
SHIM_TEST(nonblock_while_mapping)
{
	static const char bytes[4 * SHIM_AFTER];
	int64_t start, took = 0;
	int a, b, i, maps;
	void *ret;

	for (i = 0; i <= 64; i++) {
		bool nonblock = i & 1;
		struct sleeper s = { 0 };
		pthread_t t;

		ASSERT_TRUE(shim_pair(L5, &a, &b));
		ASSERT_EQ(0, fcntl(b, F_SETFL, nonblock ? 0 : O_NONBLOCK));
		ASSERT_EQ((ssize_t)sizeof(bytes),
			  write(a, bytes, sizeof(bytes)));
		maps = shim_maps();
		s.fd = b;
		ASSERT_EQ(0, pthread_create(&t, NULL, reads_until_mapped, &s));
		while (!atomic_load(&s.tid))
			sched_yield();
		start = now_us();
		while (now_us() < start + took * i / 64)
			;
		/* the first time shows how long it takes */
		if (!i)
			pthread_join(t, &ret);
		took = i ? took : now_us() - start;
		ASSERT_EQ(0, fcntl(b, F_SETFL, nonblock ? O_NONBLOCK : 0));
		if (i)
			pthread_join(t, &ret);
		ASSERT_EQ(4 * SHIM_AFTER, (long)ret);
		ASSERT_EQ(maps + 1, shim_maps());
		if (nonblock) {
			/* or it sleeps until this test's time is up */
			ASSERT_EQ(-1, read(b, buf, 1));
			ASSERT_EQ(EAGAIN, errno);
		} else {
			atomic_store(&s.tid, 0);
			ASSERT_EQ(0, pthread_create(&t, NULL, reads, &s));
			while (!atomic_load(&s.tid))
				sched_yield();
			ASSERT_TRUE(l5_wait_asleep(s.tid));
			ASSERT_EQ(1, write(a, "x", 1));
			pthread_join(t, &ret);
			ASSERT_EQ(1, (long)ret);
		}
		close(a);
		close(b);
	}
}

/* Parent and child use the socket, one after the other and at once. */
SHIM_TEST(forks)
{
	int a, b, i, status, left;
	pid_t pid;

	WARM_PAIR(L5, a, b);
	for (i = 0; i < 3; i++) {
		pid = i < 2 ? fork() :
		      (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
		ASSERT_LE(0, pid);
		if (!pid) {
			int k;

			if (shim_maps())
				_exit(2);
			for (k = 0; k < 50; k++)
				if (write(a, "c", 1) != 1)
					_exit(3);
			_exit(shim_maps() == 1 ? 0 : 4);
		}
		for (left = 0; left < 50; left++)
			ASSERT_EQ(1, write(a, "p", 1));
		for (left = 100; left; ) {
			ssize_t n = read(b, buf, left);

			ASSERT_GT(n, 0);
			left -= n;
		}
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		ASSERT_EQ(0, status);
		SAYS(b, a, "back");
	}
}

/* A child of vfork() closes and replaces what are its own descriptors. */
SHIM_TEST(vforks)
{
	int a, b, status;
	pid_t pid;

	WARM_PAIR(L5, a, b);
	pid = vfork();
	if (!pid) {
		close(a);
		dup2(b, 0);
		close(b);
		execl("/bin/true", "true", NULL);
		_exit(9);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
	ASSERT_EQ(2, shim_maps());
	SAYS(a, b, "there");
	SAYS(b, a, "and back");
}

/* Another program gets the socket: with the library, and without. */
SHIM_TEST(executes)
{
	static char *const plain[] = {
		"sh", "-c", "read x; echo got $x", NULL
	};
	static char *const none[] = { NULL };
	posix_spawn_file_actions_t fa;
	int a, b, i, status, n;
	pid_t pid;

	for (i = 0; i < 2; i++) {
		WARM_PAIR(L5, a, b);
		posix_spawn_file_actions_init(&fa);
		posix_spawn_file_actions_adddup2(&fa, b, 0);
		posix_spawn_file_actions_adddup2(&fa, b, 1);
		ASSERT_EQ(0, posix_spawn(&pid, "/bin/sh", &fa, NULL, plain,
					 i ? none : environ));
		posix_spawn_file_actions_destroy(&fa);
		ASSERT_EQ(5, write(a, "word\n", 5));
		for (n = 0; n < 9; )
			n += read(a, buf + n, sizeof(buf) - n);
		ASSERT_EQ(0, memcmp(buf, "got word\n", 9));
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		ASSERT_EQ(0, status);
		SAYS(a, b, "we still have it");
		close(a);
		close(b);
	}
}

SHIM_TEST(passed_on)
{
	int a, b, c, i, s[2];

	WARM_PAIR(L5, a, b);
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, s));
	ASSERT_TRUE(end_pass(s[0], b));
	c = end_take(s[1]);
	ASSERT_LE(0, c);
	SAYS(a, c, "a copy");
	for (i = 0; i < 20; i++) {
		SAYS(a, b, "by turns");
		SAYS(a, c, "by turns");
		SAYS(c, a, "and back");
	}
	close(b);
	SAYS(a, c, "alone");
	close(c);
	ASSERT_EQ(0, read(a, buf, 1));
}

/* Two descriptors and the text they come with, by one of two calls each. */
union control {
	char buf[CMSG_SPACE(2 * sizeof(int))];
	struct cmsghdr align;
};

static bool pass_two(int via, bool many, const int *fd)
{
	union control u = { };
	struct iovec v = { (void *)fd, 2 * sizeof(int) };
	struct mmsghdr m[2] = { };
	struct cmsghdr *c;
	int i;

	/* the first of them has none */
	for (i = 0; i < 2; i++) {
		m[i].msg_hdr.msg_iov = &v;
		m[i].msg_hdr.msg_iovlen = 1;
	}
	m[1].msg_hdr.msg_control = u.buf;
	m[1].msg_hdr.msg_controllen = sizeof(u.buf);
	c = CMSG_FIRSTHDR(&m[1].msg_hdr);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(2 * sizeof(int));
	memcpy(CMSG_DATA(c), fd, 2 * sizeof(int));
	if (many)
		return sendmmsg(via, m, 2, 0) == 2;
	return sendmsg(via, &m[0].msg_hdr, 0) > 0 &&
	       sendmsg(via, &m[1].msg_hdr, 0) > 0;
}

/* @number: the numbers they had; @fd: those they have. */
static bool take_two(int via, bool many, int *number, int *fd)
{
	union control u[2];
	struct iovec v = { number, 2 * sizeof(int) };
	struct mmsghdr m[2] = { };
	struct cmsghdr *c;
	int i;

	for (i = 0; i < 2; i++) {
		m[i].msg_hdr.msg_iov = &v;
		m[i].msg_hdr.msg_iovlen = 1;
		m[i].msg_hdr.msg_control = u[i].buf;
		m[i].msg_hdr.msg_controllen = sizeof(u[i].buf);
	}
	if (many) {
		if (recvmmsg(via, m, 2, 0, NULL) != 2)
			return false;
	} else if (recvmsg(via, &m[0].msg_hdr, 0) <= 0 ||
		   recvmsg(via, &m[1].msg_hdr, 0) <= 0) {
		return false;
	}
	c = CMSG_FIRSTHDR(&m[1].msg_hdr);
	if (!c || c->cmsg_len != CMSG_LEN(2 * sizeof(int)))
		return false;
	memcpy(fd, CMSG_DATA(c), 2 * sizeof(int));
	return true;
}

/* Does it block? Any process may clear O_NONBLOCK, for all. */
static bool blocks(int fd)
{
	bool ret;

	alarm_every(50000);
	ret = read(fd, buf, 1) == -1 && errno == EINTR;
	alarm_off();
	return ret;
}

/* A process that was there before: it changes what it is passed. */
static void changes(int via, bool many)
{
	int number[2], fd[2];

	if (!take_two(via, many, number, fd))
		_exit(1);
	if (fcntl(fd[0], F_SETFL, 0))
		_exit(2);
	/* a registration is known by the number, too */
	if (fd[1] == number[0])
		fd[1] = dup(fd[1]);
	if (fd[0] != number[0] && dup2(fd[0], number[0]) < 0)
		_exit(3);
	if (epoll_ctl(fd[1], EPOLL_CTL_DEL, number[0], NULL))
		_exit(4);
	_exit(0);
}

/* A descriptor that was passed on is not this process's alone any more. */
SHIM_TEST(passed_and_changed)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u32 = 1 };
	int a, b, fd[2], i, k, s[2], status;
	pid_t pid;

	for (k = 0; k < 4; k++) {
		ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_SEQPACKET, 0, s));
		pid = fork();
		if (!pid)
			changes(s[1], k & 2);
		WARM_PAIR(L5, a, b);
		fd[0] = b;
		fd[1] = epoll_create1(0);
		ASSERT_EQ(0, epoll_ctl(fd[1], EPOLL_CTL_ADD, b, &ev));
		for (i = 0; i < 50; i++) {
			ASSERT_EQ(1, write(a, "x", 1));
			ASSERT_EQ(1, epoll_wait(fd[1], &ev, 1, 1000));
			ASSERT_EQ(1, read(b, buf, 10));
		}
		ASSERT_EQ(0, fcntl(b, F_SETFL, O_NONBLOCK));
		ASSERT_EQ(-1, read(b, buf, 1));
		ASSERT_EQ(EAGAIN, errno);
		ASSERT_TRUE(pass_two(s[0], k & 1, fd));
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		ASSERT_EQ(0, status);
		EXPECT_TRUE(blocks(b)) {
			TH_LOG("by %s: still nonblocking",
			       k & 1 ? "sendmmsg" : "sendmsg");
		}
		for (i = 0; i < 5; i++) {
			ASSERT_EQ(1, write(a, "x", 1));
			EXPECT_EQ(0, epoll_wait(fd[1], &ev, 1, 0)) {
				TH_LOG("by %s: still registered",
				       k & 1 ? "sendmmsg" : "sendmsg");
			}
		}
		close(fd[1]);
		close(a);
		close(b);
		close(s[0]);
		close(s[1]);
	}
}

/* A number that was closed behind our back comes with another socket. */
SHIM_TEST(taken_as_new)
{
	int a, b, c, d, i, k, s[2], fd[2], number[2], x;

	for (k = 0; k < 2; k++) {
		WARM_PAIR(L5, a, b);
		ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_SEQPACKET, 0, s));
		ASSERT_TRUE(shim_pair(L5, &c, &d));
		fd[0] = b;
		fd[1] = b;
		ASSERT_EQ(0, fcntl(b, F_SETFL, O_NONBLOCK));
		ASSERT_TRUE(pass_two(s[0], true, fd));
		syscall(SYS_close, c);
		syscall(SYS_close, d);
		ASSERT_TRUE(take_two(s[1], k, number, fd));
		x = fd[0] == c || fd[0] == d ? fd[0] : fd[1];
		ASSERT_TRUE(x == c || x == d);
		for (i = 0; i < 2 * SHIM_AFTER; i++) {
			ASSERT_EQ(1, write(a, "x", 1));
			ASSERT_EQ(1, read(x, buf, 10));
		}
		ASSERT_EQ(3, shim_maps());
		ASSERT_EQ(0, fcntl(b, F_SETFL, 0));
		EXPECT_TRUE(blocks(x)) {
			TH_LOG("by %s: as if alone", k ? "recvmmsg" :
			       "recvmsg");
		}
		close(a);
		close(b);
		close(fd[0]);
		close(fd[1]);
		close(s[0]);
		close(s[1]);
	}
}

/* daemon() puts /dev/null where a connection was. */
SHIM_TEST(daemons)
{
	int a, b, i, k, p[2], status;
	struct stat st;
	pid_t pid;
	char c;

	for (k = 0; k < 2; k++) {
		WARM_PAIR(L5, a, b);
		ASSERT_EQ(0, pipe(p));
		pid = fork();
		if (!pid) {
			for (i = 0; i <= STDERR_FILENO; i++)
				if (dup2(b, i) != i)
					_exit(1);
			/* mapped in this process, by these numbers */
			for (i = 0; i < 4 * SHIM_AFTER; i++)
				if (write(1, "d", 1) != 1)
					_exit(2);
			close(a);
			close(b);
			if (daemon(1, k))
				_exit(3);
			/* from now on no process waits for us */
			c = 0;
			for (i = 0; i <= STDERR_FILENO; i++)
				if (fstat(i, &st) || write(i, "ok", 2) != 2 ||
				    S_ISCHR(st.st_mode) == k)
					c = 1;
			if (write(p[1], &c, 1) != 1)
				_exit(4);
			_exit(0);
		}
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		ASSERT_EQ(0, status);
		ASSERT_EQ(1, read(p[0], &c, 1));
		ASSERT_EQ(0, c);
		close(b);
		for (i = 0; i < 4 * SHIM_AFTER + 6 * k; i++)
			ASSERT_EQ(1, read(a, buf, 1));
		ASSERT_EQ(0, read(a, buf, 1));
		close(a);
		close(p[0]);
		close(p[1]);
	}
}

/* A signal handler that writes to the socket, and one that leaves by a jump. */
static int signal_fd;
static volatile long handled;

static void on_tick(int sig)
{
	int saved = errno;

	(void)sig;
	if (write(signal_fd, "S", 1) == 1)
		handled++;
	errno = saved;
}

SHIM_TEST(handlers)
{
	struct itimerval it = { { 0, 2000 }, { 0, 2000 } }, off = { };
	struct sigaction sa = { .sa_handler = on_tick, .sa_flags = SA_RESTART };
	long sent = 0, got = 0;
	int64_t end = l5_now_ms() + 2000;
	int a, b;
	ssize_t n;

	WARM_PAIR(L5, a, b);
	signal_fd = a;
	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &it, NULL);
	while (l5_now_ms() < end) {
		if (write(a, "0123456789", 10) == 10)
			sent += 10;
		n = recv(b, buf, sizeof(buf), MSG_DONTWAIT);
		if (n > 0)
			got += n;
	}
	setitimer(ITIMER_REAL, &off, NULL);
	while (got < sent + handled) {
		n = read(b, buf, sizeof(buf));
		ASSERT_GT(n, 0);
		got += n;
	}
	ASSERT_EQ(sent + handled, got);
	ASSERT_GT(handled, 10);
}

SHIM_TEST(jumps)
{
	struct sigaction sa = { .sa_handler = jump_out };
	struct itimerval it = { .it_value.tv_usec = 300 };
	volatile long jumps = 0;
	int a, b;

	WARM_PAIR(L5, a, b);
	sigaction(SIGALRM, &sa, NULL);
	while (jumps < 300) {
		if (sigsetjmp(jump_buf, 1)) {
			jumps++;
			continue;
		}
		it.it_value.tv_usec = 100 + jumps * 7;
		setitimer(ITIMER_REAL, &it, NULL);
		/* until the handler takes us out of one of them */
		for (;;) {
			write(a, "0123456789", 10);
			/*
			 * there may be nothing to read: then the signal ends
			 * the wait
			 */
			read(b, buf, sizeof(buf));
		}
	}
	/* whatever was lost to the jumps, the connection works */
	while (recv(b, buf, sizeof(buf), MSG_DONTWAIT) > 0)
		;
	SAYS(a, b, "still works");
	SAYS(b, a, "and back");
}

static void *cancelled(void *arg)
{
	int fd = *(int *)arg;
	char c;

	for (;;)
		if (read(fd, &c, 1) == 1)
			write(fd, &c, 1);
	return NULL;
}

/* Cancelled while it sleeps, and while there is always something to read. */
SHIM_TEST(cancels)
{
	int a, b, i, k;
	pthread_t t;
	void *ret;
	pid_t tid;

	WARM_PAIR(L5, a, b);
	for (i = 0; i < 4; i++) {
		tid = l5_thread_start(&t, NULL, cancelled, &b);
		for (k = 0; i & 1 && k < 1000; k++)
			ASSERT_EQ(1, write(a, "x", 1));
		if (!(i & 1))
			ASSERT_TRUE(l5_wait_asleep(tid));
		pthread_cancel(t);
		ASSERT_EQ(0, pthread_join(t, &ret));
		ASSERT_EQ(PTHREAD_CANCELED, ret);
		while (recv(b, buf, sizeof(buf), MSG_DONTWAIT) > 0)
			;
		while (recv(a, buf, sizeof(buf), MSG_DONTWAIT) > 0)
			;
	}
	SAYS(a, b, "still works");
}

/* A child changes the set that it shares: the parent hears of it. */
SHIM_TEST(epoll_shared)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u32 = 1 };
	int a, b, ep, i, status;
	pid_t pid;

	WARM_PAIR(L5, a, b);
	ep = epoll_create1(0);
	ASSERT_EQ(0, epoll_ctl(ep, EPOLL_CTL_ADD, b, &ev));
	for (i = 0; i < 50; i++) {
		ASSERT_EQ(1, write(a, "x", 1));
		ASSERT_EQ(1, epoll_wait(ep, &ev, 1, 1000));
		ASSERT_EQ(1, read(b, buf, 10));
	}
	pid = fork();
	if (!pid)
		_exit(epoll_ctl(ep, EPOLL_CTL_DEL, b, NULL) ? 1 : 0);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
	for (i = 0; i < 5; i++) {
		ASSERT_EQ(1, write(a, "x", 1));
		ASSERT_EQ(0, epoll_wait(ep, &ev, 1, 0));
	}
}

/* More threads, one after the other and at once, than there are places for. */
static void *one_round_trip(void *arg)
{
	int *p = arg;
	char c;

	return (void *)(long)(write(p[0], "x", 1) != 1 ||
			      read(p[1], &c, 1) != 1);
}

SHIM_TEST(threads)
{
	pthread_t t[60];
	int i, k, p[2];
	void *ret;

	WARM_PAIR(L5, p[0], p[1]);
	for (i = 0; i < 20; i++) {
		for (k = 0; k < 60; k++)
			ASSERT_EQ(0, pthread_create(&t[k], NULL,
						    one_round_trip, p));
		for (k = 0; k < 60; k++) {
			pthread_join(t[k], &ret);
			ASSERT_EQ(NULL, ret);
		}
	}
	close(p[0]);
	close(p[1]);
	ASSERT_EQ(0, shim_maps());
}

TEST_HARNESS_MAIN
