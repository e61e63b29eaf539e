// SPDX-License-Identifier: GPL-2.0
/*
 * Descriptors that are closed behind the library's back, while a copy keeps the
 * socket open, and whose numbers are used again: what is written goes to what
 * the number means, and what is read comes from there.
 */
#define SHIM	shim_stale
#include "shim.h"

#include <dlfcn.h>
#include <liburing.h>
#include <linux/close_range.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "ends.h"
#include "uring.h"

/* libc's own syscall(), which passes the library's by. */
static long (*unseen)(long nr, ...);

__attribute__((constructor)) static void find_unseen(void)
{
	void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);

	*(void **)&unseen = libc ? dlsym(libc, "syscall") : NULL;
	if (!unseen)
		abort();
}

#define SAYS(from, to, text)						\
	do {								\
		ssize_t __n = sizeof(text) - 1;				\
		char __b[64];						\
									\
		ASSERT_EQ(__n, write((from), (text), __n));		\
		ASSERT_EQ(__n, read((to), __b, sizeof(__b)));		\
		ASSERT_EQ(0, memcmp(__b, (text), __n));			\
	} while (0)

/* Ways to give a number to another file: the number, or -1 */

static int again(int fd, int file)
{
	return unseen(SYS_fcntl, file, F_DUPFD, fd);
}

static int by_close(int fd, int file)
{
	return unseen(SYS_close, fd) ? -1 : again(fd, file);
}

static int by_dup2(int fd, int file)
{
	return unseen(SYS_dup2, file, fd);
}

static int by_dup3(int fd, int file)
{
	return unseen(SYS_dup3, file, fd, O_CLOEXEC);
}

static int by_range(int fd, int file)
{
	return unseen(SYS_close_range, fd, fd, 0) ? -1 : again(fd, file);
}

static int by_uring(int fd, int file)
{
	return uring_close(fd, 0) ? again(fd, file) : -1;
}

/* What a library has that was loaded with RTLD_DEEPBIND */
static int by_libc(int fd, int file)
{
	void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
	int (*closes)(int fd);

	if (!libc)
		return -1;
	*(void **)&closes = dlsym(libc, "close");
	return !closes || closes(fd) ? -1 : again(fd, file);
}

static void *closes_it(void *arg)
{
	return (void *)unseen(SYS_close, *(int *)arg);
}

static int by_thread(int fd, int file)
{
	pthread_t t;
	void *ret;

	if (pthread_create(&t, NULL, closes_it, &fd) || pthread_join(t, &ret) ||
	    ret)
		return -1;
	return again(fd, file);
}

/* A process that has the same descriptors */
static int by_sharer(int fd, int file)
{
	int status;
	pid_t pid = unseen(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);

	if (!pid)
		_exit(unseen(SYS_close, fd));
	return waitpid(pid, &status, 0) != pid || status ? -1 : again(fd, file);
}

static const struct {
	const char *name;
	int (*replace)(int fd, int file);
} ways[] = {
	{ "close", by_close }, { "dup2", by_dup2 }, { "dup3", by_dup3 },
	{ "close_range", by_range }, { "io_uring", by_uring },
	{ "libc", by_libc }, { "thread", by_thread }, { "sharer", by_sharer },
};

/* Ways to write to what is a file, and to a socket */

static ssize_t w_write(int fd, char *b, size_t n)
{
	return write(fd, b, n);
}

static ssize_t w_writev(int fd, char *b, size_t n)
{
	struct iovec v[2] = { { b, 1 }, { b + 1, n - 1 } };

	return writev(fd, v, 2);
}

static ssize_t w_pwritev2(int fd, char *b, size_t n)
{
	struct iovec v = { b, n };

	return pwritev2(fd, &v, 1, -1, 0);
}

static ssize_t w_send(int fd, char *b, size_t n)
{
	return send(fd, b, n, MSG_NOSIGNAL);
}

static ssize_t w_sendto(int fd, char *b, size_t n)
{
	return sendto(fd, b, n, 0, NULL, 0);
}

static ssize_t w_sendmsg(int fd, char *b, size_t n)
{
	struct iovec v = { b, n };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };

	return sendmsg(fd, &m, 0);
}

static ssize_t r_read(int fd, char *b, size_t n)
{
	return read(fd, b, n);
}

static ssize_t r_readv(int fd, char *b, size_t n)
{
	struct iovec v[2] = { { b, 1 }, { b + 1, n - 1 } };

	return readv(fd, v, 2);
}

static ssize_t r_preadv2(int fd, char *b, size_t n)
{
	struct iovec v = { b, n };

	return preadv2(fd, &v, 1, -1, 0);
}

static ssize_t r_recv(int fd, char *b, size_t n)
{
	return recv(fd, b, n, MSG_DONTWAIT);
}

static ssize_t r_recvfrom(int fd, char *b, size_t n)
{
	return recvfrom(fd, b, n, 0, NULL, NULL);
}

static ssize_t r_recvmsg(int fd, char *b, size_t n)
{
	struct iovec v = { b, n };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };

	return recvmsg(fd, &m, 0);
}

static const struct {
	const char *name;
	ssize_t (*write)(int fd, char *b, size_t n);
	ssize_t (*read)(int fd, char *b, size_t n);
} wraps[] = {
	{ "write", w_write, r_read }, { "writev", w_writev, r_readv },
	{ "pwritev2", w_pwritev2, r_preadv2 },
	/* of sockets alone */
	{ "send", w_send, r_recv }, { "sendto", w_sendto, r_recvfrom },
	{ "sendmsg", w_sendmsg, r_recvmsg },
};

enum { FILES = 3, WRAPS = 6 };

/* The peer has heard nothing, and the copy is as good as before. */
#define UNTOUCHED(keep, peer)						\
	do {								\
		char __c[64];						\
									\
		ASSERT_EQ(-1, recv((peer), __c, sizeof(__c),		\
				   MSG_DONTWAIT));			\
		ASSERT_EQ(EAGAIN, errno);				\
		ASSERT_EQ(4, raw_read((keep), __c, sizeof(__c)));	\
		ASSERT_EQ(0, memcmp(__c, "ring", 4));			\
		SAYS((keep), (peer), "the copy");			\
		SAYS((peer), (keep), "and back");			\
	} while (0)

SHIM_TEST(to_a_file)
{
	int a, b, keep, file, f;
	char buf[64];
	size_t i, k;

	for (i = 0; i < ARRAY_SIZE(ways); i++)
		for (k = 0; k < FILES; k++) {
			WARM_PAIR(L5, a, b);
			keep = dup(a);
			file = memfd_create("stale", 0);
			ASSERT_EQ(4, raw_write(b, "ring", 4));
			f = ways[i].replace(a, file);
			ASSERT_EQ(a, f);
			ASSERT_EQ(11, wraps[k].write(f, "to the file", 11));
			ASSERT_EQ(11, pread(file, buf, sizeof(buf), 0)) {
				TH_LOG("%s, %s", ways[i].name, wraps[k].name);
			}
			ASSERT_EQ(0, memcmp(buf, "to the file", 11));
			ASSERT_EQ(0, lseek(f, 0, SEEK_SET));
			memset(buf, 0, sizeof(buf));
			ASSERT_EQ(11, wraps[k].read(f, buf, sizeof(buf)));
			ASSERT_STREQ("to the file", buf);
			UNTOUCHED(keep, b);
			close(f);
			close(file);
			close(keep);
			close(b);
			ASSERT_EQ(0, shim_maps());
		}
}

/* Reading first; and it is another process's socket. */
SHIM_TEST(to_a_socket)
{
	int a, b, keep, f, s[2];
	char buf[64];
	size_t i, k;

	for (i = 0; i < ARRAY_SIZE(ways); i++)
		for (k = 0; k < WRAPS; k++) {
			WARM_PAIR(L5, a, b);
			keep = dup(a);
			ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, s));
			ASSERT_EQ(4, raw_write(b, "ring", 4));
			f = ways[i].replace(a, s[0]);
			ASSERT_EQ(a, f);
			ASSERT_EQ(4, raw_write(s[1], "unix", 4));
			ASSERT_EQ(4, wraps[k].read(f, buf, sizeof(buf)));
			ASSERT_EQ(0, memcmp(buf, "unix", 4)) {
				TH_LOG("%s, %s", ways[i].name, wraps[k].name);
			}
			ASSERT_EQ(11, wraps[k].write(f, "to the unix", 11));
			ASSERT_EQ(11, raw_read(s[1], buf, sizeof(buf)));
			UNTOUCHED(keep, b);
			close(f);
			close(s[0]);
			close(s[1]);
			close(keep);
			close(b);
			ASSERT_EQ(0, shim_maps());
		}
}

/* Another of our own connections takes the number of the first. */
SHIM_TEST(to_another_connection)
{
	int a, b, c, d, keep;
	char buf[64];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(ways); i++) {
		WARM_PAIR(L5, a, b);
		WARM_PAIR(L5, c, d);
		keep = dup(a);
		ASSERT_EQ(4, raw_write(b, "ring", 4));
		ASSERT_EQ(a, ways[i].replace(a, c));
		SAYS(a, d, "by the other name");
		SAYS(d, a, "and back");
		SAYS(c, d, "by the old one");
		SAYS(d, c, "and back");
		UNTOUCHED(keep, b);
		ASSERT_TRUE(shim_warm(a, d));
		ASSERT_TRUE(shim_warm(keep, b));
		close(a);
		SAYS(c, d, "still");
		close(c);
		ASSERT_EQ(0, read(d, buf, 1));
		close(d);
		close(keep);
		close(b);
		ASSERT_EQ(0, shim_maps());
	}
}

/* Nothing at all has it: as the kernel says. */
SHIM_TEST(to_nothing)
{
	int a, b, keep;
	char buf[8];

	WARM_PAIR(L5, a, b);
	keep = dup(a);
	ASSERT_EQ(4, raw_write(b, "ring", 4));
	ASSERT_EQ(0, unseen(SYS_close, a));
	ASSERT_EQ(-1, write(a, "x", 1));
	ASSERT_EQ(EBADF, errno);
	ASSERT_EQ(-1, read(a, buf, 1));
	ASSERT_EQ(EBADF, errno);
	UNTOUCHED(keep, b);
}

/* A call that waits for the number looks at the file, too. */
SHIM_TEST(waited_for)
{
	struct epoll_event ev = { .events = EPOLLIN };
	struct timeval none = { 0 };
	int a, b, keep, p[2], ep;
	struct pollfd pfd;
	fd_set set;

	WARM_PAIR(L5, a, b);
	keep = dup(a);
	ASSERT_EQ(0, pipe(p));
	/* the ring has something, and the pipe has not */
	ASSERT_EQ(4, raw_write(b, "ring", 4));
	ASSERT_EQ(a, by_close(a, p[0]));
	pfd = (struct pollfd){ .fd = a, .events = POLLIN };
	ASSERT_EQ(0, poll(&pfd, 1, 0));
	FD_ZERO(&set);
	FD_SET(a, &set);
	ASSERT_EQ(0, select(a + 1, &set, NULL, NULL, &none));
	ep = epoll_create1(0);
	ASSERT_EQ(0, epoll_ctl(ep, EPOLL_CTL_ADD, a, &ev));
	ASSERT_EQ(0, epoll_wait(ep, &ev, 1, 0));
	ASSERT_EQ(1, write(p[1], "p", 1));
	ASSERT_EQ(1, poll(&pfd, 1, 0));
	ASSERT_EQ(1, epoll_wait(ep, &ev, 1, 1000));
	UNTOUCHED(keep, b);
}

/* A flag belongs to the file that the number means. */
SHIM_TEST(flags)
{
	int a, b, keep, p[2];
	char c;

	WARM_PAIR(L5, a, b);
	keep = dup(a);
	ASSERT_EQ(0, pipe(p));
	ASSERT_EQ(4, raw_write(b, "ring", 4));
	ASSERT_EQ(a, by_close(a, p[0]));
	ASSERT_EQ(0, fcntl(a, F_SETFL, O_NONBLOCK));
	ASSERT_EQ(-1, read(a, &c, 1));
	ASSERT_EQ(EAGAIN, errno);
	ASSERT_EQ(0, fcntl(keep, F_GETFL) & O_NONBLOCK);
	UNTOUCHED(keep, b);
	/* and is not lost for the copies, whose word was in doubt as well */
	ASSERT_EQ(0, unseen(SYS_close, unseen(SYS_dup, keep)));
	ASSERT_EQ(0, fcntl(keep, F_SETFL, O_NONBLOCK));
	ASSERT_EQ(-1, read(keep, &c, 1));
	ASSERT_EQ(EAGAIN, errno);
}

/* A copy that is made of a number that means something else by then */
SHIM_TEST(copied)
{
	int a, b, keep, file, f;
	char buf[64];

	WARM_PAIR(L5, a, b);
	keep = dup(a);
	file = memfd_create("stale", 0);
	ASSERT_EQ(4, raw_write(b, "ring", 4));
	ASSERT_EQ(a, by_close(a, file));
	f = dup(a);
	ASSERT_EQ(11, write(f, "to the file", 11));
	ASSERT_EQ(11, pread(file, buf, sizeof(buf), 0));
	UNTOUCHED(keep, b);
}

/* Copies that are closed as usual cost the others no mapping. */
SHIM_TEST(stays_mapped)
{
	int a, b, keep, i;

	WARM_PAIR(L5, a, b);
	keep = dup(a);
	for (i = 0; i < 20; i++) {
		close(dup(a));
		SAYS(a, b, "there");
		SAYS(keep, b, "and there");
		ASSERT_EQ(0, unseen(SYS_close, unseen(SYS_dup, a)));
		SAYS(b, keep, "and back");
		ASSERT_EQ(2, shim_maps());
	}
}

/* A thread uses the number all the time; what is told after it changed... */
struct user {
	int fd;
	atomic_int mark;
	atomic_int seen;
};

static void *writes(void *arg)
{
	struct user *u = arg;
	int m;

	do {
		char c;

		m = atomic_load(&u->mark);
		c = 'a' + m;
		if (write(u->fd, &c, 1) != 1)
			return "write";
		atomic_store(&u->seen, m);
	} while (m < 2);
	return NULL;
}

/* ...is not in the ring, before that all is in one of them. */
SHIM_TEST(under_a_user)
{
	int a, b, keep, file, round, n;
	struct user u;
	pthread_t t;
	char c[4096];
	void *ret;

	for (round = 0; round < 20; round++) {
		WARM_PAIR(L5, a, b);
		keep = dup(a);
		file = memfd_create("stale", 0);
		u = (struct user){ .fd = a };
		ASSERT_EQ(0, pthread_create(&t, NULL, writes, &u));
		for (n = 0; n < 50; n++)
			ASSERT_LT(0, read(b, c, sizeof(c)));
		ASSERT_EQ(a, unseen(SYS_dup2, file, a));
		atomic_store(&u.mark, 1);
		/* a writer may wait for room in the ring */
		while (atomic_load(&u.seen) != 1) {
			n = recv(b, c, sizeof(c), MSG_DONTWAIT);
			ASSERT_TRUE(n < 0 || (!memchr(c, 'b', n) &&
					      !memchr(c, 'c', n)));
			sched_yield();
		}
		atomic_store(&u.mark, 2);
		ASSERT_EQ(0, pthread_join(t, &ret));
		ASSERT_EQ(NULL, ret);
		while ((n = recv(b, c, sizeof(c), MSG_DONTWAIT)) > 0) {
			ASSERT_EQ(NULL, memchr(c, 'c', n));
			ASSERT_EQ(NULL, memchr(c, 'b', n));
		}
		n = lseek(file, 0, SEEK_END);
		ASSERT_LT(1, n);
		ASSERT_EQ(1, pread(file, c, 1, n - 1));
		ASSERT_EQ('c', c[0]);
		close(a);
		close(file);
		close(keep);
		close(b);
	}
}

/* Threads with descriptors of their own: the same number is two files. */
struct alone {
	int a1, b1, a2, b2;
	int flags;
	atomic_int step;
	bool ok;
};

static int lives_alone(void *arg)
{
	struct alone *s = arg;
	int i, c, d;
	char buf[64];

	if (s->flags == CLONE_FILES && unshare(CLONE_FILES))
		goto out;
	if (s->flags == -1 && close_range(9000, 9001, CLOSE_RANGE_UNSHARE))
		goto out;
	/* another connection by the number of the first */
	if (!shim_pair(L5, &c, &d) || dup2(c, s->a1) != s->a1)
		goto out;
	close(c);
	for (i = 0; i < 4 * SHIM_AFTER; i++)
		if (write(s->a1, "w", 1) != 1 || read(d, buf, 1) != 1)
			goto out;
	atomic_store(&s->step, 1);
	while (atomic_load(&s->step) != 2)
		usleep(1000);
	if (write(s->a1, "thread 2", 8) != 8 ||
	    recv(d, buf, sizeof(buf), MSG_DONTWAIT) != 8 ||
	    memcmp(buf, "thread 2", 8))
		goto out;
	s->ok = true;
out:
	atomic_store(&s->step, 3);
	return 0;
}

static void *thread_alone(void *arg)
{
	lives_alone(arg);
	return NULL;
}

SHIM_TEST(own_tables)
{
	static const int flags[] = { CLONE_FILES, -1, 0 };
	static char stack[256 << 10] __attribute__((aligned(64)));
	char buf[64];
	size_t i;

	/* each in a process of its own: there is no way back */
	for (i = 0; i < ARRAY_SIZE(flags); i++) {
		pid_t pid = fork();
		int status;

		if (!pid) {
			struct alone s = { .flags = flags[i] };
			pthread_t t;
			pid_t c = 0;

			alarm(60);
			if (!shim_pair(L5, &s.a1, &s.b1) ||
			    !shim_warm(s.a1, s.b1))
				_exit(1);
			if (flags[i])
				pthread_create(&t, NULL, thread_alone, &s);
			else
				c = clone(lives_alone, stack + sizeof(stack),
					  CLONE_VM | SIGCHLD, &s);
			if (c < 0)
				_exit(2);
			while (atomic_load(&s.step) == 0)
				usleep(1000);
			if (atomic_load(&s.step) != 1)
				_exit(3);
			if (write(s.a1, "thread 1", 8) != 8 ||
			    recv(s.b1, buf, sizeof(buf), MSG_DONTWAIT) != 8 ||
			    memcmp(buf, "thread 1", 8))
				_exit(4);
			atomic_store(&s.step, 2);
			while (atomic_load(&s.step) != 3)
				usleep(1000);
			_exit(s.ok ? 0 : 5);
		}
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		EXPECT_EQ(0, status) {
			TH_LOG("way %zu: %x", i, status);
		}
	}
}

/* With one thread a table of its own changes nothing. */
SHIM_TEST(unshared_alone)
{
	int a, b, keep, file;

	WARM_PAIR(L5, a, b);
	ASSERT_EQ(0, unshare(CLONE_FILES));
	SAYS(a, b, "there");
	ASSERT_EQ(2, shim_maps());
	keep = dup(a);
	file = memfd_create("stale", 0);
	ASSERT_EQ(4, raw_write(b, "ring", 4));
	ASSERT_EQ(a, by_close(a, file));
	ASSERT_EQ(1, write(a, "f", 1));
	ASSERT_EQ(1, lseek(file, 0, SEEK_END));
	UNTOUCHED(keep, b);
}

TEST_HARNESS_MAIN
