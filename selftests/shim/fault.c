// SPDX-License-Identifier: GPL-2.0
/*
 * Calls with bad memory, or memory that goes bad, under the preload library:
 * what they return is what they do on TCP, and what was not sent, or not taken,
 * is where it was.
 */
#define SHIM	shim_fault
#include "shim.h"

#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/uio.h>

#define PAGE	4096u

/* What is wrong with the memory */
enum fault { GONE, UNREADABLE, READ_ONLY, TRUNCATED, FAULTS };

/* @good bytes, then three pages of what is wrong: the address of the first */
static char *spoilt(enum fault fault, size_t good)
{
	size_t pages = (good + PAGE - 1) / PAGE * PAGE, all = pages + 3 * PAGE;
	int fd = memfd_create("spoilt", 0);
	char *p;

	if (fd < 0 || ftruncate(fd, all))
		abort();
	p = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		abort();
	l5_fill(p + pages - good, good, 0);
	if ((fault == GONE && munmap(p + pages, all - pages)) ||
	    (fault == UNREADABLE &&
	     mprotect(p + pages, all - pages, PROT_NONE)) ||
	    (fault == READ_ONLY &&
	     mprotect(p + pages, all - pages, PROT_READ)) ||
	    (fault == TRUNCATED && ftruncate(fd, pages)))
		abort();
	close(fd);
	return p + pages - good;
}

static ssize_t f_write(int fd, char *b, size_t n)
{
	return write(fd, b, n);
}

static ssize_t f_send(int fd, char *b, size_t n)
{
	return send(fd, b, n, MSG_NOSIGNAL);
}

static ssize_t f_writev(int fd, char *b, size_t n)
{
	struct iovec v[3] = { { "good", 4 }, { b, n }, { "more", 4 } };

	return writev(fd, v, 3);
}

static ssize_t f_read(int fd, char *b, size_t n)
{
	return read(fd, b, n);
}

static ssize_t f_recv(int fd, char *b, size_t n)
{
	return recv(fd, b, n, MSG_DONTWAIT);
}

static ssize_t f_readv(int fd, char *b, size_t n)
{
	static char four[4];
	struct iovec v[2] = { { four, 4 }, { b, n } };

	return readv(fd, v, 2);
}

static const struct {
	const char *name;
	ssize_t (*send)(int fd, char *b, size_t n);
	ssize_t (*recv)(int fd, char *b, size_t n);
} calls[] = {
	{ "write", f_write, f_read }, { "send", f_send, f_recv },
	{ "writev", f_writev, f_readv },
};

static const struct {
	size_t good;
	size_t n;
} sizes[] = {
	{ 0, 1 }, { 0, 100 }, { 0, 4096 }, { 7, 8 }, { 100, 200 },
	{ 300, 1000 }, { 5000, 9000 },
};

static ssize_t or_errno(ssize_t n)
{
	return n < 0 ? -errno : n;
}

/*
 * How many bytes of a part are sent before a fault is not the same from kernel
 * to kernel: a fault, or as many as come.
 */
static bool alike(ssize_t tcp, ssize_t ours)
{
	return tcp == ours || (tcp > 0 && ours == -EFAULT) ||
	       (tcp == -EFAULT && ours > 0);
}

SHIM_TEST(sends)
{
	int fd[2][2], kind, fault;
	size_t i, k;

	ASSERT_TRUE(shim_pair(TCP, &fd[TCP][0], &fd[TCP][1]));
	WARM_PAIR(L5, fd[L5][0], fd[L5][1]);
	for (fault = 0; fault < FAULTS; fault++)
		for (i = 0; i < ARRAY_SIZE(sizes); i++)
			for (k = 0; k < ARRAY_SIZE(calls); k++) {
				ssize_t ret[2];

				if (fault == READ_ONLY)
					continue;
				for (kind = TCP; kind <= L5; kind++) {
					char *b = spoilt(fault, sizes[i].good);
					char in[9000];
					ssize_t n, got = 0;

					n = calls[k].send(fd[kind][0], b,
							  sizes[i].n);
					ret[kind] = or_errno(n);
					ASSERT_EQ(3, write(fd[kind][0], "END",
							   3));
					while (got < 3 || memcmp(in + got - 3,
								 "END", 3)) {
						n = read(fd[kind][1], in + got,
							 sizeof(in) - got);
						ASSERT_LT(0, n);
						got += n;
					}
					/* what came is what was told */
					ASSERT_EQ(ret[kind] > 0 ? ret[kind] : 0,
						  got - 3);
				}
				EXPECT_TRUE(alike(ret[TCP], ret[L5])) {
					TH_LOG("%s, fault %d, %zu of %zu: %zd, %zd",
					       calls[k].name, fault,
					       sizes[i].good, sizes[i].n,
					       ret[TCP], ret[L5]);
				}
			}
	ASSERT_EQ(2, shim_maps());
}

SHIM_TEST(receives)
{
	static char out[9000], in[9000];
	int fd[2][2], kind, fault;
	size_t i, k;

	ASSERT_TRUE(shim_pair(TCP, &fd[TCP][0], &fd[TCP][1]));
	WARM_PAIR(L5, fd[L5][0], fd[L5][1]);
	l5_fill(out, sizeof(out), 0);
	for (fault = 0; fault < FAULTS; fault++)
		for (i = 0; i < ARRAY_SIZE(sizes); i++)
			for (k = 0; k < ARRAY_SIZE(calls); k++) {
				ssize_t ret[2];

				for (kind = TCP; kind <= L5; kind++) {
					char *b = spoilt(fault, sizes[i].good);
					ssize_t n = sizes[i].n, got;

					ASSERT_EQ(n, write(fd[kind][0], out,
							   n));
					got = calls[k].recv(fd[kind][1], b, n);
					ret[kind] = or_errno(got);
					/* the rest is still there */
					got = ret[kind] > 0 ? ret[kind] : 0;
					while (got < n) {
						ssize_t r = read(fd[kind][1],
								 in, n - got);

						ASSERT_LT(0, r);
						ASSERT_EQ(-1, l5_check(in, r,
								       got));
						got += r;
					}
				}
				EXPECT_TRUE(alike(ret[TCP], ret[L5])) {
					TH_LOG("%s, fault %d, %zu of %zu: %zd, %zd",
					       calls[k].name, fault,
					       sizes[i].good, sizes[i].n,
					       ret[TCP], ret[L5]);
				}
			}
	ASSERT_EQ(2, shim_maps());
}

/* A fault of the program's own is the program's. */
static volatile sig_atomic_t seen;

static void sees(int sig)
{
	seen = sig;
	mmap((void *)0x10000000, PAGE, PROT_READ | PROT_WRITE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

SHIM_TEST(own_handler)
{
	int a, b, status;
	pid_t pid;

	WARM_PAIR(L5, a, b);
	signal(SIGSEGV, sees);
	*(volatile char *)0x10000000 = 1;
	ASSERT_EQ(SIGSEGV, seen);
	seen = 0;
	ASSERT_EQ(-1, write(a, spoilt(GONE, 0), 10));
	ASSERT_EQ(EFAULT, errno);
	ASSERT_EQ(0, seen);
	signal(SIGSEGV, SIG_DFL);
	pid = fork();
	if (!pid) {
		*(volatile char *)spoilt(GONE, 0) = 1;
		_exit(0);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

/*
 * A handler for once is used up by a fault of the program's, and by no other;
 * nor does a copy that faults kill once the handler is used up.
 */
static void once(_Atomic int *step)
{
	char *bad = spoilt(UNREADABLE, 0);
	struct sigaction sa = {
		.sa_handler = sees, .sa_flags = SA_RESETHAND | SA_NODEFER,
	};
	int a, b, i;

	alarm(100);
	if (!shim_pair(L5, &a, &b) || !shim_warm(a, b) || shim_maps() != 2 ||
	    write(a, "x", 1) != 1 || sigaction(SIGSEGV, &sa, NULL))
		_exit(1);
	for (i = 0; i < 3; i++) {
		if (read(b, bad, 1) != -1 || errno != EFAULT ||
		    write(a, bad, 1) != -1 || errno != EFAULT || seen)
			_exit(2);
		atomic_fetch_add(step, 1);
	}
	if (sigaction(SIGSEGV, NULL, &sa) || sa.sa_handler != sees ||
	    (sa.sa_flags & (SA_RESETHAND | SA_NODEFER | SA_SIGINFO |
			    SA_RESTART)) != (SA_RESETHAND | SA_NODEFER))
		_exit(3);
	*(volatile char *)0x10000000 = 1;
	if (seen != SIGSEGV || sigaction(SIGSEGV, NULL, &sa) ||
	    sa.sa_handler != SIG_DFL || !(sa.sa_flags & SA_RESETHAND))
		_exit(4);
	atomic_fetch_add(step, 1);
	if (read(b, bad, 1) != -1 || errno != EFAULT)
		_exit(5);
	atomic_fetch_add(step, 1);
	*(volatile char *)bad = 1;
	_exit(6);
}

SHIM_TEST(handler_for_once)
{
	_Atomic int *step = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status;
	pid_t pid;

	ASSERT_NE(MAP_FAILED, step);
	pid = fork();
	if (!pid)
		once(step);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(5, atomic_load(step));
	EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV)
		TH_LOG("status %x", status);
}

/* Stacks as small as they may be, and buffers as many */
enum { MANY = 1024, TOTAL = 4 << 20 };

static char many_bytes[TOTAL];

/* Of all sizes, with empty ones between. */
static void many(struct iovec *v, char *at)
{
	size_t len, left = TOTAL;
	int i;

	for (i = 0; i < MANY; i++) {
		len = i % 7 == 3 ? 0 : (i * 977u) % 9000;
		if (len > left || i == MANY - 1)
			len = left;
		v[i] = (struct iovec){ at, len };
		at += len;
		left -= len;
	}
}

static void *small_send(void *arg)
{
	static struct iovec v[MANY];

	many(v, many_bytes);
	return (void *)writev(*(int *)arg, v, MANY);
}

static void *small_recv(void *arg)
{
	static struct iovec v[MANY];
	struct msghdr msg = { .msg_iov = v, .msg_iovlen = MANY };

	many(v, many_bytes);
	return (void *)recvmsg(*(int *)arg, &msg, MSG_WAITALL);
}

static bool start_small(pthread_t *th, void *(*f)(void *arg), int *fd)
{
	pthread_attr_t attr;

	return !pthread_attr_init(&attr) &&
	       !pthread_attr_setstacksize(&attr, 16384) &&
	       !pthread_create(th, &attr, f, fd);
}

SHIM_TEST(small_stacks)
{
	static char in[65536];
	size_t got, len;
	int a, b, i;
	pthread_t th;
	void *ret;
	ssize_t n;

	WARM_PAIR(L5, a, b);
	for (i = 0; i < 3; i++) {
		l5_fill(many_bytes, TOTAL, 0);
		ASSERT_TRUE(start_small(&th, small_send, &a));
		for (got = 0; got < TOTAL; got += n) {
			/*
			 * the ring is full now and then, for longer than the
			 * call looks
			 */
			if (got % 7 < 2)
				usleep(3000);
			n = read(b, in, sizeof(in) - got % 777);
			ASSERT_LT(0, n);
			ASSERT_EQ(-1, l5_check(in, n, got));
		}
		ASSERT_EQ(0, pthread_join(th, &ret));
		ASSERT_EQ(TOTAL, (ssize_t)ret);

		memset(many_bytes, 0, TOTAL);
		ASSERT_TRUE(start_small(&th, small_recv, &b));
		for (got = 0; got < TOTAL; got += n) {
			len = 10000 + got % 50000;
			if (len > TOTAL - got)
				len = TOTAL - got;
			l5_fill(in, len, got);
			if (got % 7 < 2)
				usleep(3000);
			n = write(a, in, len);
			ASSERT_LT(0, n);
		}
		ASSERT_EQ(0, pthread_join(th, &ret));
		ASSERT_EQ(TOTAL, (ssize_t)ret);
		ASSERT_EQ(-1, l5_check(many_bytes, TOTAL, 0));
	}
	ASSERT_EQ(2, shim_maps());
}

TEST_HARNESS_MAIN
