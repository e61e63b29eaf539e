// SPDX-License-Identifier: GPL-2.0
/*
 * Room, as a program under the preload library hears of it: an edge that it
 * waits for comes, and what poll() says is what the next call finds, also of a
 * call that is the kernel's, and with a SO_SNDBUF that is less than the ring.
 */
#define SHIM	shim_room
#include "ends.h"
#include "shim.h"

#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

#define PATIENCE	(10000 * l5_slow())

static char buf[1 << 16];

static void nonblock(int fd)
{
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

/* Read all that is there, or that comes within a moment. */
static long drain(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	long sum = 0;
	ssize_t n;

	while (syscall(SYS_poll, &p, 1, 100) == 1) {
		n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
		if (n <= 0)
			break;
		sum += n;
	}
	return sum;
}

static int edges(int ep, int ms)
{
	struct epoll_event e = { 0 };

	return epoll_wait(ep, &e, 1, ms) == 1 ? (int)e.events : 0;
}

/* A file that sendfile() sends, as often as it likes */
static int file_of(size_t len)
{
	int fd = memfd_create("room", MFD_CLOEXEC);

	return fd < 0 || ftruncate(fd, len) ? -1 : fd;
}

static long send_file(int to, int from)
{
	off_t at = 0;
	long sum = 0, n;

	while ((n = sendfile(to, from, &at, 16384)) > 0) {
		sum += n;
		at = 0;
	}
	return n < 0 && errno == EAGAIN ? sum : -1;
}

/* The request came as an edge; the answer is a file, and does not fit. */
SHIM_TEST(file_after_little_sndbuf)
{
	struct epoll_event e = { .events = EPOLLIN | EPOLLOUT | EPOLLET };
	int kind, a, b, f, ep, size = 32768, i;

	f = file_of(1 << 20);
	ASSERT_LE(0, f);
	for (kind = TCP; kind <= L5; kind++) {
		WARM_PAIR(kind, a, b);
		nonblock(b);
		ASSERT_EQ(0, setsockopt(b, SOL_SOCKET, SO_SNDBUF, &size,
					sizeof(size)));
		ep = epoll_create1(0);
		ASSERT_EQ(0, epoll_ctl(ep, EPOLL_CTL_ADD, b, &e));
		ASSERT_EQ(EPOLLOUT, edges(ep, PATIENCE));
		for (i = 0; i < 20; i++) {
			ASSERT_EQ(1, write(a, "r", 1));
			ASSERT_EQ(EPOLLIN | EPOLLOUT, edges(ep, PATIENCE));
			ASSERT_EQ(1, read(b, buf, sizeof(buf)));
			ASSERT_LT(0, send_file(b, f));
			ASSERT_LT(0, drain(a));
			ASSERT_EQ(EPOLLOUT, edges(ep, PATIENCE)) {
				TH_LOG("%s, round %d", kind ? "l5" : "tcp", i);
			}
		}
		close(ep);
		close(a);
		close(b);
	}
	close(f);
}

/* What is full for one call is full for poll(), and for all other calls. */
SHIM_TEST(full_is_full)
{
	int kind, a, b, f, size = 32768;
	struct pollfd p;

	f = file_of(1 << 20);
	ASSERT_LE(0, f);
	for (kind = TCP; kind <= L5; kind++) {
		WARM_PAIR(kind, a, b);
		nonblock(b);
		ASSERT_EQ(0, setsockopt(b, SOL_SOCKET, SO_SNDBUF, &size,
					sizeof(size)));
		ASSERT_LT(0, send_file(b, f));
		p = (struct pollfd){ .fd = b, .events = POLLOUT };
		EXPECT_EQ(0, poll(&p, 1, 0));
		EXPECT_EQ(-1, write(b, buf, 16384));
		EXPECT_EQ(EAGAIN, errno);
		ASSERT_LT(0, drain(a));
		EXPECT_EQ(1, poll(&p, 1, PATIENCE));
		EXPECT_LT(0, write(b, buf, 16384));
		close(a);
		close(b);
	}
	close(f);
}

/* A peer that sends a little, and then reads all there is, round by round. */
struct peer {
	int fd;
	atomic_int go;
};

static void *peer_main(void *arg)
{
	struct peer *p = arg;
	int round, seen = 0;

	while ((round = atomic_load(&p->go)) >= 0) {
		if (round == seen)
			continue;
		seen = round;
		if (write(p->fd, "i", 1) != 1)
			return "write";
		while (recv(p->fd, buf, sizeof(buf), MSG_DONTWAIT) > 0)
			;
	}
	return NULL;
}

/* Input comes while there is no room, and room a moment later. */
SHIM_TEST(room_behind_input)
{
	struct epoll_event e = { .events = EPOLLIN | EPOLLOUT | EPOLLET };
	struct peer other = { 0 };
	static char more[8192];
	int a, b, ep, i, got;
	pthread_t t;
	bool in, out;
	void *ret;
	char c;

	WARM_PAIR(L5, a, b);
	nonblock(b);
	ep = epoll_create1(0);
	ASSERT_EQ(0, epoll_ctl(ep, EPOLL_CTL_ADD, b, &e));
	ASSERT_EQ(EPOLLOUT, edges(ep, PATIENCE));
	other.fd = a;
	pthread_create(&t, NULL, peer_main, &other);
	for (i = 1; i <= 2000 / l5_slow(); i++) {
		while (write(b, more, sizeof(more)) > 0)
			;
		ASSERT_EQ(EAGAIN, errno);
		atomic_store(&other.go, i);
		for (in = false, out = false; !in || !out;) {
			got = edges(ep, PATIENCE);
			ASSERT_NE(0, got) {
				TH_LOG("round %d: in %d, out %d", i, in, out);
			}
			in |= got & EPOLLIN && read(b, &c, 1) == 1;
			/* an edge of a peer that has not read all yet */
			out |= got & EPOLLOUT;
		}
	}
	atomic_store(&other.go, -1);
	pthread_join(t, &ret);
	ASSERT_EQ(NULL, ret);
	close(ep);
	close(a);
	close(b);
}

static void *discard(void *arg)
{
	while (recv(*(int *)arg, NULL, 1 << 20, MSG_TRUNC) > 0)
		;
	return NULL;
}

/* No system call moves more than fits into an int; nor does ours. */
SHIM_TEST(no_more_than_the_kernel)
{
	const size_t most = 0x7ffff000, len = 0x80000000ul + 4096;
	struct iovec v[2];
	pthread_t t;
	char *much;
	int a, b;

	much = mmap(NULL, len, PROT_READ,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	ASSERT_NE(MAP_FAILED, much);
	WARM_PAIR(L5, a, b);
	pthread_create(&t, NULL, discard, &a);
	EXPECT_EQ((ssize_t)most, write(b, much, len));
	v[0] = (struct iovec){ much, len / 2 };
	v[1] = (struct iovec){ much, len / 2 };
	EXPECT_EQ((ssize_t)most, writev(b, v, 2));
	close(b);
	pthread_join(t, NULL);
	close(a);
	munmap(much, len);
}

/* A thread that writes two buffers, of which the first does not fit. */
struct writer {
	int fd;
	atomic_int tid;
	ssize_t ret;
};

static void *writer_main(void *arg)
{
	static char big[1 << 20];
	struct iovec v[2] = { { big, sizeof(big) }, { big, 100 } };
	struct writer *w = arg;

	atomic_store(&w->tid, gettid());
	w->ret = writev(w->fd, v, 2);
	return NULL;
}

/* The number is another connection's before the write is done. */
SHIM_TEST(rest_of_a_replaced_number)
{
	struct writer w = { 0 };
	long got = 0;
	int a, b, c, d;
	pthread_t t;

	ASSERT_TRUE(net_keeps_full());
	WARM_PAIR(L5, a, b);
	WARM_PAIR(L5, c, d);
	w.fd = b;
	pthread_create(&t, NULL, writer_main, &w);
	while (!atomic_load(&w.tid))
		;
	ASSERT_TRUE(l5_wait_asleep(atomic_load(&w.tid)));
	ASSERT_EQ(b, dup2(d, b));
	while (pthread_tryjoin_np(t, NULL))
		got += drain(a);
	got += drain(a);
	EXPECT_LE(1 << 20, w.ret);
	EXPECT_EQ(got, w.ret);
	/* nothing of it for the other */
	EXPECT_EQ(-1, recv(c, buf, sizeof(buf), MSG_DONTWAIT));
	close(a);
	close(b);
	close(c);
	close(d);
}

/*
 * The same, where the number is closed and then another connection's, for which
 * the library uses the memory of the first again.
 */
SHIM_TEST(rest_of_a_number_used_again)
{
	struct writer w = { 0 };
	int a, b, c = -1, d = -1, i;
	long got = 0;
	pthread_t t;

	ASSERT_TRUE(net_keeps_full());
	WARM_PAIR(L5, a, b);
	w.fd = b;
	pthread_create(&t, NULL, writer_main, &w);
	while (!atomic_load(&w.tid))
		;
	ASSERT_TRUE(l5_wait_asleep(atomic_load(&w.tid)));
	close(b);
	/* one of the ends gets the number */
	ASSERT_TRUE(shim_pair(L5, &c, &d));
	ASSERT_TRUE(b == c || b == d);
	if (b == c) {
		c = d;
		d = b;
	}
	/* and is mapped first */
	for (i = 0; i < 4 * SHIM_AFTER; i++)
		ASSERT_EQ(1, write(d, "w", 1));
	for (i = 0; i < 4 * SHIM_AFTER; i++)
		ASSERT_EQ(1, raw_read(c, buf, 1));
	while (pthread_tryjoin_np(t, NULL))
		got += drain(a);
	got += drain(a);
	/* the kernel moves what was begun; nothing of it is for the other */
	EXPECT_EQ(got, w.ret);
	EXPECT_EQ(-1, recv(c, buf, sizeof(buf), MSG_DONTWAIT));
	close(a);
	close(c);
	close(d);
}

TEST_HARNESS_MAIN
