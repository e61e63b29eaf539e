// SPDX-License-Identifier: GPL-2.0
/*
 * Descriptors that ride with records: which may, how many, and what becomes of
 * them when processes are killed, close at any time, share a socket, or write
 * what they like into what they have mapped. None is lost, none comes twice or
 * with other bytes, and nothing stays. What they do otherwise is AF_UNIX's, see
 * diff/files.
 */
#include <kselftest_harness.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ends.h"
#include "given.h"
#include "hole.h"
#include "uring.h"
#include "users.h"

enum { ROUNDS = 10000, KILLS = 60, READERS = 4, SHARED = 3000 };

#define BACK_MS		(10000 * l5_slow())

FIXTURE(limit_files)
{
	int fd[2];
	long long sockets, references, files;
};

FIXTURE_VARIANT(limit_files)
{
	int type;
};

FIXTURE_VARIANT_ADD(limit_files, stream)
{
	.type = SOCK_STREAM,
};

FIXTURE_VARIANT_ADD(limit_files, packets)
{
	.type = SOCK_SEQPACKET,
};

/* Open files of the whole machine */
static long long open_files(void)
{
	return l5_number("/proc/sys/fs/file-nr");
}

static bool ours(int type, int fd[2])
{
	return !socketpair(l5_family(), type, L5PROTO_UNIX, fd) &&
	       l5_transport(fd[0]) == L5_TRANSPORT_SHM;
}

FIXTURE_SETUP(limit_files)
{
	l5_or_skip();
	signal(SIGPIPE, SIG_IGN);
	self->sockets = l5_sockets();
	self->references = l5_references();
	self->files = open_files();
	ASSERT_TRUE(ours(variant->type, self->fd));
}

/* Other programs of the machine open a few. */
FIXTURE_TEARDOWN(limit_files)
{
	close(self->fd[0]);
	close(self->fd[1]);
	EXPECT_TRUE(l5_comes_back(l5_sockets, -1, self->sockets, BACK_MS));
	EXPECT_TRUE(l5_comes_back(l5_references, -1, self->references,
				  BACK_MS));
	EXPECT_TRUE(l5_comes_back(open_files, -1, self->files + 200, BACK_MS));
}

/* What cannot lie in a queue without harm has an error, and sends nothing. */
TEST_F(limit_files, refused)
{
	struct addr at = addr_parse("127.0.0.1:0"), at5 = at;
	struct addr un = addr_parse("abstract:limit_files_refused");
	int fds[2], sv[2], other[2], i, bad[6], n = 0;
	struct io_uring ring;
	char b[9];

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sv));
	ASSERT_TRUE(ours(SOCK_STREAM, other));
	bad[n++] = sv[0];
	bad[n++] = other[0];
	bad[n++] = self->fd[0];
	bad[n++] = self->fd[1];
	bad[n++] = socket(AF_UNIX, SOCK_DGRAM, 0);
	bad[n++] = end_listen(END_L5, &un);
	fds[0] = open("/dev/null", O_RDWR);
	ASSERT_LE(0, fds[0]);
	for (i = 0; i < n; i++) {
		ASSERT_LE(0, bad[i]);
		fds[1] = bad[i];
		EXPECT_EQ(-1, end_give(self->fd[0], "x", 1, &bad[i], 1, 0));
		EXPECT_EQ(EOPNOTSUPP, errno) {
			TH_LOG("%d", i);
		}
		EXPECT_EQ(-1, end_give(self->fd[0], "x", 1, fds, 2, 0));
		EXPECT_EQ(EOPNOTSUPP, errno);
		EXPECT_EQ(-1, recv(self->fd[1], b, sizeof(b), MSG_DONTWAIT));
		EXPECT_EQ(EAGAIN, errno);
	}
	/* the kernel's own answer, also over AF_UNIX */
	if (!io_uring_queue_init(2, &ring, 0)) {
		EXPECT_EQ(-1, end_give(self->fd[0], "x", 1, &ring.ring_fd, 1,
				       0));
		EXPECT_EQ(EINVAL, errno);
		io_uring_queue_exit(&ring);
	}
	/* and these keep no file */
	fds[0] = end_listen(END_TCP, &at);
	fds[1] = end_listen(END_L5, &at5);
	ASSERT_LE(0, fds[0]);
	ASSERT_LE(0, fds[1]);
	EXPECT_EQ(1, end_give(self->fd[0], "x", 1, fds, 2, 0));
	close(fds[0]);
	close(fds[1]);
	for (i = 0; i < n; i++)
		if (bad[i] != self->fd[0] && bad[i] != self->fd[1])
			close(bad[i]);
	close(sv[1]);
	close(other[1]);
}

/* Of any other kind: what comes is what was sent. */
TEST_F(limit_files, kinds)
{
	int fd, got, seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	char b[8];

	fd = memfd_create("sealed", MFD_ALLOW_SEALING);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ftruncate(fd, 4096));
	ASSERT_EQ(0, fcntl(fd, F_ADD_SEALS, seals));
	ASSERT_EQ(4, end_give(self->fd[0], "memo", 4, &fd, 1, 0));
	ASSERT_EQ(4, fds_take(self->fd[1], b, sizeof(b), &got, 0));
	EXPECT_EQ(seals, fcntl(got, F_GET_SEALS));
	EXPECT_EQ(0, syscall(SYS_kcmp, getpid(), getpid(), 0, fd, got));
	close(got);
	close(fd);

	fd = open("/", O_PATH);
	ASSERT_LE(0, fd);
	ASSERT_EQ(4, end_give(self->fd[0], "path", 4, &fd, 1, 0));
	ASSERT_EQ(4, fds_take(self->fd[1], b, sizeof(b), &got, 0));
	EXPECT_EQ(O_PATH, fcntl(got, F_GETFL) & O_PATH);
	close(got);
	close(fd);

	fd = epoll_create1(0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(4, end_give(self->fd[0], "epol", 4, &fd, 1, 0));
	ASSERT_EQ(4, fds_take(self->fd[1], b, sizeof(b), &got, 0));
	EXPECT_LE(0, got);
	close(got);
	close(fd);

	fd = syscall(SYS_pidfd_open, getpid(), 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(4, end_give(self->fd[0], "pidf", 4, &fd, 1, 0));
	ASSERT_EQ(4, fds_take(self->fd[1], b, sizeof(b), &got, 0));
	EXPECT_LE(0, got);
	close(got);
	close(fd);
}

/* How many of nobody's lie in a queue before a send fails; by which error. */
static int in_flight(int fd, int *err)
{
	int n = 0;

	while (n < 1000 && given_number(fd, n, MSG_DONTWAIT))
		n++;
	*err = errno;
	return n;
}

/* A user may have as many under way as AF_UNIX allows, and no more. */
TEST_F(limit_files, in_flight)
{
	const struct rlimit few = { 32, 32 };
	int err[3], n[3], status, sv[2];
	pid_t pid = fork();

	ASSERT_LE(0, pid);
	if (!pid) {
		if (socketpair(AF_UNIX, variant->type, 0, sv) ||
		    nobody_become() || setrlimit(RLIMIT_NOFILE, &few))
			_exit(1);
		n[0] = in_flight(sv[0], &err[0]);
		close(sv[0]);
		close(sv[1]);
		n[1] = in_flight(self->fd[0], &err[1]);
		/* of each socket, not for each */
		n[2] = in_flight(self->fd[1], &err[2]);
		TH_LOG("%d %d %d, errors %d %d %d", n[0], n[1], n[2], err[0],
		       err[1], err[2]);
		_exit(n[0] != n[1] || n[2] > 1 || n[0] > 40 ||
		      err[0] != ETOOMANYREFS || err[1] != ETOOMANYREFS ||
		      err[2] != ETOOMANYREFS ? 2 : 0);
	}
	status = l5_reap(pid);
	EXPECT_EQ(0, status);
}

/* Whatever is done with it, nothing stays: the teardown looks. */
TEST_F_TIMEOUT(limit_files, rounds, 600)
{
	uint64_t rnd = l5_seed();
	int i, j, n, fd[2], got;
	uint32_t text;

	for (i = 0; i < ROUNDS / l5_slow() / l5_slow(); i++) {
		ASSERT_TRUE(ours(variant->type, fd));
		n = l5_rnd(&rnd) % 4;
		for (j = 0; j < n; j++) {
			ASSERT_TRUE(given_number(fd[0], j, 0));
			if (l5_rnd(&rnd) % 2)
				ASSERT_TRUE(given_number(fd[1], j, 0));
		}
		for (j = 0; j < n && l5_rnd(&rnd) % 4; j++) {
			ASSERT_EQ(4, fds_take(fd[1], &text, 4, &got,
					      l5_rnd(&rnd) % 4 ? 0 :
					      MSG_PEEK));
			close(got);
		}
		if (l5_rnd(&rnd) % 4 == 0)
			shutdown(fd[0], l5_rnd(&rnd) % 3);
		j = l5_rnd(&rnd) % 2;
		close(fd[j]);
		if (l5_rnd(&rnd) % 2)
			fds_take(fd[!j], &text, 4, &got, MSG_DONTWAIT);
		else
			got = -1;
		close(got);
		close(fd[!j]);
	}
}

static void sends_numbers(int fd, uint32_t n)
{
	for (;; n++)
		if (!given_number(fd, n, 0))
			_exit(errno != EPIPE);
}

/* Senders that are killed anywhere: what has come is whole. */
TEST_F_TIMEOUT(limit_files, killed, 300)
{
	uint64_t rnd = l5_seed();
	uint32_t text, next = 0;
	int i, j, got;
	pid_t pid;

	for (i = 0; i < KILLS; i++) {
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid)
			sends_numbers(self->fd[0], next);
		for (j = l5_rnd(&rnd) % 200; j; j--) {
			ASSERT_EQ(4, fds_take(self->fd[1], &text, 4, &got, 0));
			ASSERT_EQ(next, text);
			ASSERT_EQ(next, given_read(got));
			next++;
		}
		usleep(l5_rnd(&rnd) % 2000);
		kill(pid, SIGKILL);
		ASSERT_EQ(SIGKILL, l5_reap(pid) & 0x7f);
		while (fds_take(self->fd[1], &text, 4, &got,
				MSG_DONTWAIT) == 4) {
			ASSERT_EQ(next, text);
			ASSERT_EQ(next, given_read(got));
			next++;
		}
		ASSERT_EQ(EAGAIN, errno);
	}
}

struct readers {
	int fd;
	uint8_t *seen;
	int wrong;
};

static void *reads_shared(void *arg)
{
	struct readers *r = arg;
	uint32_t text;
	int got;

	while (fds_take(r->fd, &text, 4, &got, 0) == 4) {
		if (text >= SHARED || given_read(got) != text ||
		    __atomic_fetch_add(&r->seen[text], 1, __ATOMIC_RELAXED))
			__atomic_fetch_add(&r->wrong, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* Threads that share the socket get each once. */
TEST_F_TIMEOUT(limit_files, shared, 300)
{
	struct readers r = { .fd = self->fd[1] };
	pthread_t t[READERS];
	int i, missing = 0;

	r.seen = calloc(SHARED, 1);
	for (i = 0; i < READERS; i++)
		ASSERT_EQ(0, pthread_create(&t[i], NULL, reads_shared, &r));
	for (i = 0; i < SHARED; i++)
		ASSERT_TRUE(given_number(self->fd[0], i, 0));
	shutdown(self->fd[0], SHUT_WR);
	for (i = 0; i < READERS; i++)
		pthread_join(t[i], NULL);
	for (i = 0; i < SHARED; i++)
		missing += r.seen[i] != 1;
	EXPECT_EQ(0, r.wrong);
	EXPECT_EQ(0, missing);
	free(r.seen);
}

/* io_uring passes them as well. */
TEST_F(limit_files, uring)
{
	union {
		char b[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} u = { 0 };
	uint32_t text = 7;
	struct iovec v = { &text, sizeof(text) };
	struct msghdr m = {
		.msg_iov = &v, .msg_iovlen = 1,
		.msg_control = u.b, .msg_controllen = sizeof(u.b),
	};
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);
	int fd = given_make(7), got;
	struct io_uring ring;

	if (io_uring_queue_init(4, &ring, 0))
		SKIP(return, "no io_uring");
	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(h), &fd, sizeof(fd));
	io_uring_prep_sendmsg(io_uring_get_sqe(&ring), self->fd[0], &m, 0);
	ASSERT_EQ(4, uring_result(&ring));
	close(fd);
	text = 0;
	memset(&u, 0, sizeof(u));
	m.msg_controllen = sizeof(u.b);
	io_uring_prep_recvmsg(io_uring_get_sqe(&ring), self->fd[1], &m, 0);
	ASSERT_EQ(4, uring_result(&ring));
	EXPECT_EQ(7, text);
	h = CMSG_FIRSTHDR(&m);
	ASSERT_NE(NULL, h);
	memcpy(&got, CMSG_DATA(h), sizeof(got));
	EXPECT_EQ(7, given_read(got));
	io_uring_queue_exit(&ring);
}

struct beside {
	int fd;
	int wrong;
};

static void *takes_until_end(void *arg)
{
	struct beside *b = arg;
	char text[64];
	ssize_t n;
	int got;

	while ((n = fds_take(b->fd, text, 1, &got, 0)) == 1)
		close(got);
	if (n > 0 || (n < 0 && errno != ECONNRESET))
		__atomic_fetch_add(&b->wrong, 1, __ATOMIC_RELAXED);
	return NULL;
}

static void *gives_until_end(void *arg)
{
	struct beside *b = arg;
	static const char much[60000];
	int fd = open("/dev/null", O_RDONLY);
	ssize_t n;

	do {
		n = end_give(b->fd, "x", 1, &fd, 1, 0);
		if (n == 1)
			n = send(b->fd, much, 300, MSG_NOSIGNAL);
	} while (n > 0);
	if (errno != EPIPE && errno != ECONNRESET)
		__atomic_fetch_add(&b->wrong, 1, __ATOMIC_RELAXED);
	close(fd);
	return NULL;
}

/* Readers and writers that are honest, and one that shuts down beside them */
TEST_F_TIMEOUT(limit_files, shut_beside, 300)
{
	int round, i, rounds = 80 / l5_slow();
	struct beside a, b;
	pthread_t t[5];
	int fd[2];

	for (round = 0; round < rounds; round++) {
		ASSERT_TRUE(ours(variant->type, fd));
		a = (struct beside){ .fd = fd[0] };
		b = (struct beside){ .fd = fd[1] };
		for (i = 0; i < 2; i++)
			pthread_create(&t[i], NULL, gives_until_end, &a);
		for (; i < 4; i++)
			pthread_create(&t[i], NULL, takes_until_end, &b);
		pthread_create(&t[i], NULL, gives_until_end, &b);
		usleep(round * 37 % 3000);
		shutdown(fd[1], SHUT_RDWR);
		for (i = 0; i < 5; i++)
			pthread_join(t[i], NULL);
		EXPECT_EQ(0, a.wrong);
		EXPECT_EQ(0, b.wrong);
		close(fd[0]);
		close(fd[1]);
	}
}

/* An administrator's end frees what waited. */
TEST_F(limit_files, revoked)
{
	FILE *f = fopen("/proc/net/l5_revoke", "w");
	int p[2];

	ASSERT_NE(NULL, f);
	ASSERT_EQ(0, pipe(p));
	ASSERT_EQ(1, end_give(self->fd[0], "x", 1, &p[0], 1, 0));
	close(p[0]);
	EXPECT_EQ(1, write(p[1], "w", 1));
	EXPECT_LE(0, fputs("all\n", f));
	EXPECT_EQ(0, fclose(f));
	close(self->fd[1]);
	EXPECT_EQ(POLLERR, end_poll(p[1], 0) & POLLERR);
	self->fd[1] = -1;
	close(p[1]);
}

/* What is asked for errors gets no message, and nothing that rides with one. */
TEST_F(limit_files, errqueue)
{
	uint32_t text;
	int got;

	ASSERT_TRUE(given_number(self->fd[0], 5, 0));
	EXPECT_EQ(-1, fds_take(self->fd[1], &text, 4, &got, MSG_ERRQUEUE));
	EXPECT_EQ(EAGAIN, errno);
	ASSERT_EQ(4, fds_take(self->fd[1], &text, 4, &got, 0));
	EXPECT_EQ(5, text);
	EXPECT_EQ(5, given_read(got));
}

/* A look that waits for more than it can be told of ends, and nothing else. */
TEST_F(limit_files, peeked_on)
{
	char b[16];

	ASSERT_EQ(5, creds_give(self->fd[0], "12345", 5, 0));
	ASSERT_EQ(5, creds_give(self->fd[0], "12345", 5, 0));
	EXPECT_EQ(5, recv(self->fd[1], b, 10, MSG_PEEK));
	EXPECT_EQ(5, recv(self->fd[1], b, 10, MSG_PEEK | MSG_WAITALL));
	ASSERT_EQ(5, recv(self->fd[1], b, 5, 0));
	ASSERT_EQ(5, recv(self->fd[1], b, 5, 0));
	EXPECT_EQ(5, creds_give(self->fd[0], "12345", 5, 0));
}

/* A look is shown no descriptor of a message that it is not shown. */
TEST_F(limit_files, peeked_apart)
{
	int asks, got, fd;
	size_t room;
	char b[16];
	pid_t pid;

	for (asks = 0; asks < 2; asks++) {
		ASSERT_EQ(0, setsockopt(self->fd[1], SOL_SOCKET, SO_PASSCRED,
					&asks, sizeof(asks)));
		ASSERT_EQ(4, creds_give(self->fd[0], "AAAA", 4, 0));
		ASSERT_EQ(4, creds_give(self->fd[0], "CCCC", 4, 0));
		fd = given_make(7);
		ASSERT_EQ(4, end_give(self->fd[0], "BBBB", 4, &fd, 1, 0));
		close(fd);
		for (room = 1; room <= sizeof(b); room++) {
			memset(b, 0, sizeof(b));
			got = -1;
			EXPECT_LT(0, fds_take(self->fd[1], b, room, &got,
					      MSG_PEEK));
			EXPECT_EQ('A', b[0]);
			if (got >= 0)
				EXPECT_NE(NULL, memchr(b, 'B', sizeof(b)))
					TH_LOG("room %zu", room);
			close(got);
			EXPECT_LT(0, creds_take(self->fd[1], b, room, &pid,
						MSG_PEEK));
			EXPECT_EQ(asks ? getpid() : 0, pid);
		}
		/* and what is taken is as it was sent */
		memset(b, 0, sizeof(b));
		for (room = 0; room < 12 && !strchr(b, 'B'); ) {
			ssize_t n = fds_take(self->fd[1], b + room,
					     sizeof(b) - room, &got, 0);

			ASSERT_LT(0, n);
			room += n;
		}
		EXPECT_EQ(0, memcmp(b, "AAAACCCCBBBB", 12));
		EXPECT_EQ(7, given_read(got));
	}
}

/* One thread makes the buffer small and large. */
struct resize {
	int fd;
	bool stop;
};

static void *resizes(void *arg)
{
	struct resize *r = arg;
	int size = 1;

	while (!__atomic_load_n(&r->stop, __ATOMIC_RELAXED)) {
		setsockopt(r->fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
		size = 200001 - size;
	}
	return NULL;
}

/* What was sent beside that comes, as it was sent. */
TEST_F_TIMEOUT(limit_files, resized_beside, 120)
{
	enum { LONG = 16384, TIMES = 400 };
	struct resize r = { .fd = self->fd[0] };
	static char out[LONG], in[LONG];
	int64_t end = l5_now_ms() + 20000;
	int i, fd, got, ok = 0;
	pthread_t t;
	ssize_t n;

	l5_fill(out, LONG, 0);
	ASSERT_EQ(0, pthread_create(&t, NULL, resizes, &r));
	for (i = 0; i < TIMES && l5_now_ms() < end; i++) {
		size_t want = variant->type == SOCK_STREAM ? LONG : 2000, have;

		fd = given_make(i);
		n = end_give(self->fd[0], out, want, &fd, 1, MSG_DONTWAIT);
		close(fd);
		if (n < 0) {
			/* of a packet that is too long for the moment's size */
			EXPECT_TRUE(errno == EAGAIN || errno == EMSGSIZE);
			continue;
		}
		got = -1;
		have = fds_take(self->fd[1], in, LONG, &got, 0);
		ASSERT_LT(0, (ssize_t)have);
		EXPECT_EQ(i, given_read(got));
		while (have < (size_t)n) {
			ssize_t more = recv(self->fd[1], in + have,
					    LONG - have, 0);

			ASSERT_LT(0, more);
			have += more;
		}
		EXPECT_EQ(-1, l5_check(in, n, 0));
		ok++;
	}
	__atomic_store_n(&r.stop, true, __ATOMIC_RELAXED);
	ASSERT_EQ(0, pthread_join(t, NULL));
	EXPECT_LE(TIMES / 10, ok);
}

struct late {
	int via, fd;
	ssize_t ret;
	int err;
};

static void *sends_late(void *arg)
{
	struct late *l = arg;

	l->ret = end_give(l->via, "x", 1, &l->fd, 1, 0);
	l->err = errno;
	return NULL;
}

/* A number that stands for another file by the time that there is room */
TEST_F(limit_files, swapped_while_waiting)
{
	struct late l = { .via = self->fd[0], .fd = given_make(1) };
	static char much[65536];
	pthread_t t;
	int other = given_make(2), got;
	pid_t tid;

	while (send(self->fd[0], much, sizeof(much), MSG_DONTWAIT) > 0)
		;
	while (send(self->fd[0], much, 1, MSG_DONTWAIT) > 0)
		;
	tid = l5_thread_start(&t, NULL, sends_late, &l);
	ASSERT_LE(0, tid);
	ASSERT_TRUE(l5_wait_asleep(tid));
	ASSERT_EQ(l.fd, dup2(other, l.fd));
	while (fds_take(self->fd[1], much, sizeof(much), &got,
			MSG_DONTWAIT) > 0) {
		EXPECT_EQ(-1, got);
		close(got);
	}
	ASSERT_EQ(0, pthread_join(t, NULL));
	EXPECT_EQ(-1, l.ret);
	EXPECT_EQ(EBADF, l.err);
	close(other);
	close(l.fd);
}

/* One that shares the socket, and sleeps for ever with what it was given */
static void takes_into_hole(int fd)
{
	char b[8], *hole = hole_map(4096, NULL);
	struct iovec v = { b, sizeof(b) };
	struct msghdr m = {
		.msg_iov = &v, .msg_iovlen = 1,
		.msg_control = hole, .msg_controllen = 64,
	};

	if (!hole)
		_exit(1);
	recvmsg(fd, &m, 0);
	_exit(2);
}

/* keeps no other from hearing signals, or the time. */
TEST_F_TIMEOUT(limit_files, held, 120)
{
	struct timeval tv = { .tv_usec = 200000 };
	int64_t start;
	pid_t a, b;
	char x;

	ASSERT_TRUE(given_number(self->fd[0], 5, 0));
	a = fork();
	ASSERT_LE(0, a);
	if (!a)
		takes_into_hole(self->fd[1]);
	ASSERT_TRUE(l5_wait_asleep(a));
	shutdown(self->fd[0], SHUT_RDWR);
	b = fork();
	ASSERT_LE(0, b);
	if (!b) {
		recv(self->fd[1], &x, 1, 0);
		_exit(0);
	}
	usleep(100000);
	kill(b, SIGKILL);
	EXPECT_NE(-1, l5_reap(b));
	start = l5_now_ms();
	recv(self->fd[1], &x, 1, MSG_DONTWAIT);
	setsockopt(self->fd[1], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	recv(self->fd[1], &x, 1, 0);
	EXPECT_GT(20000, l5_now_ms() - start);
	kill(a, SIGKILL);
	EXPECT_NE(-1, l5_reap(a));
}

TEST_HARNESS_MAIN
