// SPDX-License-Identifier: GPL-2.0
/*
 * Descriptors that arrive at AF_L5 sockets over AF_UNIX. A process that makes a
 * socket keep itself by what lies in its queue leaves nothing behind: no
 * socket, no reference to the module. What an honest program passes arrives,
 * and what does not costs no bytes.
 *
 * Each way to make such a cycle is played a bounded number of times by a
 * process without privilege, that then ends, or is killed where it hangs.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "ends.h"
#include "hole.h"
#include "users.h"

#define BACK_MS		(10000 * l5_slow())
#define ROUNDS		16

/* What may go wrong in a play before there is anything to show. */
#define NEED(what) do { if (!(what)) play_failed(__LINE__); } while (0)

static void play_failed(int line)
{
	fprintf(stderr, "# line %d: %s\n", line, strerror(errno));
	_exit(1);
}

/* Those that /proc/net/l5 has of ours. */
static long long listed(void)
{
	FILE *f = fopen("/proc/net/l5", "re");
	char line[512];
	long long n = 0;

	while (f && fgets(line, sizeof(line), f))
		n++;
	if (f)
		fclose(f);
	return n;
}

/* What came with one byte: how many descriptors, -1 without a byte. */
static int take_flags(int via, int *fds, int *flags)
{
	union {
		char b[CMSG_SPACE(8 * sizeof(int))];
		struct cmsghdr align;
	} u = { 0 };
	char x;
	struct iovec v = { &x, 1 };
	struct msghdr m = {
		.msg_iov = &v, .msg_iovlen = 1,
		.msg_control = u.b, .msg_controllen = sizeof(u.b),
	};
	struct cmsghdr *h;
	int n;

	if (recvmsg(via, &m, *flags) != 1)
		return -1;
	*flags = m.msg_flags;
	h = CMSG_FIRSTHDR(&m);
	if (!h || h->cmsg_type != SCM_RIGHTS)
		return 0;
	n = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	memcpy(fds, CMSG_DATA(h), n * sizeof(int));
	return n;
}

static int take(int via, int *fds)
{
	int flags = 0;

	return take_flags(via, fds, &flags);
}

static int based(void)
{
	int base = L5_TRANSPORT_BASE, fd = end_socket(END_L5, AF_UNIX);

	if (fd >= 0 && setsockopt(fd, SOL_L5, L5_FORCE, &base, sizeof(base)))
		return -1;
	return fd;
}

/* What a play has: listeners of both kinds, connections to AF_L5's listener. */
struct play {
	struct addr to, to_plain;
	int l, plain;		/* listeners, AF_L5's and a plain one */
	int c, s;		/* a plain client and its AF_L5 child */
	atomic_bool stop, runs;
	int a, b;		/* what a thread beside the play needs */
	void *hole;
	pthread_t beside;
};

static void play_begin(struct play *p)
{
	char name[64];

	snprintf(name, sizeof(name), "abstract:scm-l5-%d", getpid());
	p->to = addr_parse(name);
	snprintf(name, sizeof(name), "abstract:scm-un-%d", getpid());
	p->to_plain = addr_parse(name);
	p->l = end_listen(END_L5, &p->to);
	p->plain = end_listen(END_TCP, &p->to_plain);
	NEED(p->l >= 0 && p->plain >= 0);
}

static void play_connect(struct play *p)
{
	p->c = end_connect(END_TCP, &p->to);
	NEED(p->c >= 0);
}

static void play_accept(struct play *p)
{
	play_connect(p);
	p->s = accept(p->l, NULL, NULL);
	NEED(p->s >= 0);
}

/* The accepted socket into its own queue. */
static void own_accepted(struct play *p)
{
	play_accept(p);
	NEED(end_pass_many(p->c, &p->s, 1, 0) == 1);
	close(p->c);
	close(p->s);
}

/* Alone in a message, it goes with the urgent byte. */
static void own_urgent(struct play *p)
{
	play_accept(p);
	NEED(end_pass_many(p->c, &p->s, 1, MSG_OOB) == 1);
	close(p->c);
	close(p->s);
}

/* Among others that may pass. */
static void own_hidden(struct play *p)
{
	int fds[4], i;

	play_accept(p);
	NEED(pipe(fds) == 0);
	fds[2] = p->s;
	fds[3] = open("/dev/null", O_RDWR);
	NEED(fds[3] >= 0);
	NEED(end_pass_many(p->c, fds, 4, 0) == 1);
	for (i = 0; i < 4; i++)
		close(fds[i]);
	close(p->c);
}

/* The listener into the queue of a socket that waits for accept(). */
static void own_listener(struct play *p)
{
	struct play one = { 0 };

	one = *p;
	close(p->l);
	p->l = end_listen(END_L5, &p->to);
	if (p->l < 0) {
		/* the name is still there if the last one leaked */
		char name[64];
		static int n;

		snprintf(name, sizeof(name), "abstract:scm-%d-%d", getpid(),
			 n++);
		p->to = addr_parse(name);
		p->l = end_listen(END_L5, &p->to);
	}
	NEED(p->l >= 0);
	one.to = p->to;
	play_connect(&one);
	NEED(end_pass_many(one.c, &p->l, 1, 0) == 1);
	close(one.c);
}

/* A plain socket whose queue has the AF_L5 socket, and the other way round. */
static void by_unix(struct play *p)
{
	int sv[2];

	play_accept(p);
	NEED(socketpair(AF_UNIX, SOCK_STREAM, 0, sv) == 0);
	NEED(end_pass_many(sv[0], &p->s, 1, 0) == 1);
	NEED(end_pass_many(p->c, &sv[1], 1, 0) == 1);
	close(sv[0]);
	close(sv[1]);
	close(p->c);
	close(p->s);
}

/* The same with datagrams, and of a socket that waits for accept(). */
static void by_unix_waiting(struct play *p)
{
	int sv[2];

	play_connect(p);
	NEED(socketpair(AF_UNIX, SOCK_DGRAM, 0, sv) == 0);
	NEED(end_pass_many(sv[0], &p->l, 1, 0) == 1);
	NEED(end_pass_many(p->c, &sv[1], 1, 0) == 1);
	close(sv[0]);
	close(sv[1]);
	close(p->c);
}

/* Sent while it waited for accept(), and then it is accepted. */
static void by_unix_then_accepted(struct play *p)
{
	int sv[2];

	play_connect(p);
	NEED(socketpair(AF_UNIX, SOCK_STREAM, 0, sv) == 0);
	NEED(end_pass_many(p->c, &sv[1], 1, 0) == 1);
	p->s = accept(p->l, NULL, NULL);
	NEED(p->s >= 0);
	NEED(end_pass_many(sv[0], &p->s, 1, 0) == 1);
	close(sv[0]);
	close(sv[1]);
	close(p->c);
	close(p->s);
}

/* Two AF_L5 sockets, each in the queue of the other. */
static void each_other(struct play *p)
{
	struct play q;

	play_accept(p);
	q = *p;
	play_accept(&q);
	NEED(end_pass_many(p->c, &q.s, 1, 0) == 1);
	NEED(end_pass_many(q.c, &p->s, 1, 0) == 1);
	close(p->c);
	close(p->s);
	close(q.c);
	close(q.s);
}

/* An AF_L5 client, whose peer is a plain socket. */
static void own_client(struct play *p)
{
	int c = end_connect(END_L5, &p->to_plain), s;

	NEED(c >= 0);
	s = accept(p->plain, NULL, NULL);
	NEED(s >= 0);
	NEED(end_pass_many(s, &c, 1, 0) == 1);
	close(c);
	close(s);
}

static void *swap_files(void *arg)
{
	struct play *p = arg;
	int null = open("/dev/null", O_RDWR);

	while (!atomic_load(&p->stop)) {
		dup2(p->a, p->b);
		atomic_store(&p->runs, true);
		dup2(null, p->b);
	}
	close(null);
	return NULL;
}

/*
 * From an AF_L5 sender, which looks early at what it sends: the number stands
 * for another file when it is looked up again.
 */
static void swapped_on(struct play *p, int client, int transport)
{
	int i;

	p->c = client;
	NEED(p->c >= 0);
	NEED(connect(p->c, &p->to.sa, p->to.len) == 0);
	p->s = accept(p->l, NULL, NULL);
	NEED(p->s >= 0 && l5_transport(p->s) == transport);
	p->a = p->s;
	p->b = open("/dev/null", O_RDWR);
	NEED(p->b >= 0);
	atomic_store(&p->stop, false);
	atomic_store(&p->runs, false);
	NEED(!pthread_create(&p->beside, NULL, swap_files, p));
	while (!atomic_load(&p->runs))
		sched_yield();
	/* until the queue is full of descriptors that may pass */
	for (i = 0; i < 5000; i++)
		if (end_pass_many(p->c, &p->b, 1, MSG_DONTWAIT) != 1 &&
		    errno == EAGAIN)
			break;
	atomic_store(&p->stop, true);
	pthread_join(p->beside, NULL);
	close(p->b);
	close(p->c);
	close(p->s);
}

static void swapped(struct play *p)
{
	swapped_on(p, based(), L5_TRANSPORT_BASE);
}

/* The same where the descriptors ride with records of a ring. */
static void swapped_rings(struct play *p)
{
	swapped_on(p, end_socket(END_L5, AF_UNIX), L5_TRANSPORT_SHM);
}

static void *peek(void *arg)
{
	struct play *p = arg;
	char buf[8];

	while (!atomic_load(&p->stop))
		recv(p->s, buf, sizeof(buf), MSG_PEEK | MSG_DONTWAIT);
	return NULL;
}

/* To a socket whose queue another thread is looking at. */
static void peeked(struct play *p)
{
	int i;

	play_accept(p);
	NEED(send(p->c, "y", 1, 0) == 1);
	atomic_store(&p->stop, false);
	NEED(!pthread_create(&p->beside, NULL, peek, p));
	for (i = 0; i < 50; i++)
		end_pass_many(p->c, &p->s, 1, MSG_DONTWAIT);
	atomic_store(&p->stop, true);
	pthread_join(p->beside, NULL);
	close(p->c);
	close(p->s);
}

static void *splice_in(void *arg)
{
	struct play *p = arg;
	char buf[64];
	int i;

	for (i = 0; i < 400 && !atomic_load(&p->stop); i++) {
		off_t at = 0;

		if (sendfile(p->c, p->a, &at, sizeof(buf)) < 0)
			usleep(100);
	}
	return NULL;
}

/* To a socket that waits for accept() while pages go there, too. */
static void spliced(struct play *p)
{
	struct play one;
	int i;

	own_listener(p);
	one = *p;
	one.c = end_connect(END_TCP, &p->to);
	NEED(one.c >= 0);
	NEED(fcntl(one.c, F_SETFL, O_NONBLOCK) == 0);
	one.a = memfd_create("pages", 0);
	NEED(one.a >= 0 && ftruncate(one.a, 4096) == 0);
	atomic_store(&one.stop, false);
	NEED(!pthread_create(&one.beside, NULL, splice_in, &one));
	for (i = 0; i < 50; i++)
		end_pass_many(one.c, &p->l, 1, MSG_DONTWAIT);
	atomic_store(&one.stop, true);
	pthread_join(one.beside, NULL);
	close(one.a);
	close(one.c);
}

static void *fall_in(void *arg)
{
	struct play *p = arg;

	recv(p->s, p->hole, 2, 0);
	return NULL;
}

/* To a socket whose receiver sleeps for ever in a fault. */
static void held(struct play *p)
{
	struct uffd_msg what;
	int i;

	play_accept(p);
	NEED(send(p->c, "yy", 2, 0) == 2);
	NEED(!pthread_create(&p->beside, NULL, fall_in, p));
	NEED(read(p->a, &what, sizeof(what)) == sizeof(what));
	for (i = 0; i < 50; i++)
		NEED(end_pass_many(p->c, &p->s, 1, MSG_DONTWAIT) == 1);
	/* and so it ends */
	kill(getpid(), SIGKILL);
}

/* A page that is never filled; root makes it, since recv() is to fall in. */
static bool held_prepare(struct play *p)
{
	p->hole = hole_map(4096, &p->a);
	return p->hole;
}

FIXTURE(life_scm)
{
	long long sockets, references, listed;
};

FIXTURE_SETUP(life_scm)
{
	l5_or_skip();
	signal(SIGPIPE, SIG_IGN);
	/* what the test before this one closed goes a little later */
	l5_comes_back(l5_references, -1, 0, BACK_MS / 10);
	self->sockets = l5_sockets();
	self->references = l5_references();
	self->listed = listed();
	ASSERT_LE(0, self->sockets);
	ASSERT_LE(0, self->references);
}

/* All that was made is gone again. */
FIXTURE_TEARDOWN(life_scm)
{
	EXPECT_TRUE(l5_comes_back(l5_sockets, -1, self->sockets, BACK_MS));
	EXPECT_TRUE(l5_comes_back(listed, -1, self->listed, BACK_MS));
	EXPECT_TRUE(l5_comes_back(l5_references, -1, self->references,
				  BACK_MS));
}

/* Play it, as nobody: the status of the process. */
static int play(void (*round)(struct play *p), int rounds, bool prepare)
{
	struct play p = { 0 };
	int i, status;
	pid_t pid = fork();

	if (pid)
		return waitpid(pid, &status, 0) == pid ? status : -1;
	NEED(!prepare || held_prepare(&p));
	NEED(!nobody_become());
	alarm(120 * l5_slow());
	play_begin(&p);
	for (i = 0; i < rounds; i++)
		round(&p);
	_exit(0);
}

#define PLAYED(name)							\
	TEST_F_TIMEOUT(life_scm, name, 300)				\
	{								\
		EXPECT_EQ(0, play(name, ROUNDS, false));		\
	}

PLAYED(own_accepted)
PLAYED(own_urgent)
PLAYED(own_hidden)
PLAYED(own_listener)
PLAYED(by_unix)
PLAYED(by_unix_waiting)
PLAYED(by_unix_then_accepted)
PLAYED(each_other)
PLAYED(own_client)
PLAYED(swapped)
PLAYED(swapped_rings)
PLAYED(peeked)
PLAYED(spliced)

TEST_F_TIMEOUT(life_scm, held, 300)
{
	EXPECT_EQ(SIGKILL, play(held, 1, true));
}

/* Descriptors that keep nothing arrive, before and after accept(). */
TEST_F(life_scm, ordinary_pass)
{
	struct addr at = addr_parse("127.0.0.1:0"), at5 = at;
	int i, j, n, fds[8], got[8];
	struct play p = { 0 };
	char buf[8] = "";

	play_begin(&p);
	ASSERT_EQ(0, pipe(fds));
	fds[2] = memfd_create("m", 0);
	fds[3] = end_listen(END_TCP, &at);
	fds[4] = end_listen(END_L5, &at5);
	ASSERT_EQ(1, write(fds[2], "m", 1));
	for (i = 0; i < 5; i++)
		ASSERT_LE(0, fds[i]);
	play_connect(&p);
	ASSERT_EQ(1, end_pass_many(p.c, fds, 5, 0));
	p.s = accept(p.l, NULL, NULL);
	ASSERT_LE(0, p.s);
	ASSERT_EQ(1, end_pass_many(p.c, fds, 5, 0));
	for (j = 0; j < 2; j++) {
		n = take(p.s, got);
		ASSERT_EQ(5, n);
		ASSERT_EQ(1, write(got[1], "p", 1));
		ASSERT_EQ(1, read(fds[0], buf, 1));
		EXPECT_EQ('p', buf[0]);
		ASSERT_EQ(1, pread(got[2], buf, 1, 0));
		EXPECT_EQ('m', buf[0]);
		EXPECT_EQ(0, listen(got[3], 1));
		EXPECT_EQ(0, listen(got[4], 1));
		for (i = 0; i < n; i++)
			close(got[i]);
	}
	for (i = 0; i < 5; i++)
		close(fds[i]);
	close(p.c);
	close(p.s);
	close(p.l);
	close(p.plain);
}

/* AF_L5 sockets themselves travel over plain AF_UNIX, and go on there. */
TEST_F(life_scm, l5_over_unix)
{
	static const char *const at[] = { "127.0.0.1:0", "abstract:scm-go" };
	unsigned int i;
	int sv[2];

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sv));
	for (i = 0; i < ARRAY_SIZE(at); i++) {
		struct addr to = addr_parse(at[i]);
		int l = end_listen(END_L5, &to);
		int c = end_connect(END_L5, &to);
		int s = accept(l, NULL, NULL), got;

		ASSERT_LE(0, l);
		ASSERT_LE(0, c);
		ASSERT_LE(0, s);
		EXPECT_EQ(L5_TRANSPORT_SHM, l5_transport(c));
		ASSERT_EQ(1, end_pass_many(sv[0], &c, 1, 0));
		close(c);
		ASSERT_EQ(1, take(sv[1], &got));
		EXPECT_TRUE(end_exchange(got, s, 30000, 0));
		close(got);
		close(s);
		/* a listener, too */
		ASSERT_EQ(1, end_pass_many(sv[0], &l, 1, 0));
		close(l);
		ASSERT_EQ(1, take(sv[1], &got));
		c = end_connect(END_L5, &to);
		ASSERT_LE(0, c);
		s = accept(got, NULL, NULL);
		ASSERT_LE(0, s);
		EXPECT_TRUE(end_exchange(c, s, 30000, 0));
		close(c);
		close(s);
		close(got);
	}
	close(sv[0]);
	close(sv[1]);
}

/* An AF_L5 sender hears of it if its peer is AF_L5, and only then. */
TEST_F(life_scm, sender_hears)
{
	struct play p = { 0 };
	int c, s, sv[2], got[8];

	play_begin(&p);
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sv));
	c = based();
	ASSERT_LE(0, c);
	ASSERT_EQ(0, connect(c, &p.to.sa, p.to.len));
	s = accept(p.l, NULL, NULL);
	ASSERT_LE(0, s);
	EXPECT_EQ(-1, end_pass_many(c, &sv[0], 1, 0));
	EXPECT_EQ(EOPNOTSUPP, errno);
	EXPECT_EQ(-1, end_pass_many(s, &c, 1, 0));
	EXPECT_EQ(EOPNOTSUPP, errno);
	ASSERT_EQ(0, close(sv[0]));
	ASSERT_EQ(0, pipe(sv));
	ASSERT_EQ(1, end_pass_many(s, sv, 2, 0));
	ASSERT_EQ(2, take(c, got));
	close(got[0]);
	close(got[1]);
	close(c);
	close(s);
	/* a plain peer's queue is AF_UNIX's own business */
	c = end_connect(END_L5, &p.to_plain);
	ASSERT_LE(0, c);
	s = accept(p.plain, NULL, NULL);
	ASSERT_LE(0, s);
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sv));
	ASSERT_EQ(1, end_pass_many(c, sv, 2, 0));
	ASSERT_EQ(2, take(s, got));
	ASSERT_EQ(1, write(got[0], "u", 1));
	ASSERT_EQ(1, read(sv[1], got, 1));
	close(c);
	close(s);
	close(p.l);
	close(p.plain);
	/* the harness's process ends with all of these */
}

/* A plain sender loses descriptors that cannot be, and no byte. */
TEST_F(life_scm, bytes_stay)
{
	struct play p = { 0 };
	int sv[2], got[8], i, flags;
	char buf[8];

	play_begin(&p);
	play_accept(&p);
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sv));
	ASSERT_EQ(2, send(p.c, "ab", 2, 0));
	for (i = 0; i < 3; i++)
		ASSERT_EQ(1, end_pass_many(p.c, sv, 2, 0));
	ASSERT_EQ(2, send(p.c, "cd", 2, 0));
	ASSERT_EQ(2, recv(p.s, buf, 2, 0));
	EXPECT_EQ(0, memcmp(buf, "ab", 2));
	for (i = 0; i < 3; i++) {
		flags = MSG_PEEK;
		EXPECT_EQ(0, take_flags(p.s, got, &flags));
		EXPECT_EQ(0, flags & MSG_CTRUNC);
		/* and the receiver is told */
		flags = 0;
		EXPECT_EQ(0, take_flags(p.s, got, &flags));
		EXPECT_EQ(MSG_CTRUNC, flags & MSG_CTRUNC);
	}
	flags = 0;
	EXPECT_EQ(0, take_flags(p.s, got, &flags));
	EXPECT_EQ(0, flags & MSG_CTRUNC);
	ASSERT_EQ(1, recv(p.s, buf, 8, 0));
	EXPECT_EQ('d', buf[0]);
	/* also of what came before accept() */
	close(p.c);
	close(p.s);
	play_connect(&p);
	ASSERT_EQ(1, end_pass_many(p.c, sv, 2, 0));
	p.s = accept(p.l, NULL, NULL);
	ASSERT_LE(0, p.s);
	flags = 0;
	EXPECT_EQ(0, take_flags(p.s, got, &flags));
	EXPECT_EQ(MSG_CTRUNC, flags & MSG_CTRUNC);
	/* what was taken out is closed */
	close(sv[1]);
	EXPECT_EQ(0, recv(sv[0], buf, 1, 0));
	close(sv[0]);
	close(p.c);
	close(p.s);
	close(p.l);
	close(p.plain);
}

/* How many messages fit into a queue, with or without a descriptor. */
static int fill(int via, const int *fd)
{
	int n = 0;

	while (n < 100000 &&
	       (fd ? end_pass_many(via, fd, 1, MSG_DONTWAIT) :
		     send(via, "x", 1, MSG_DONTWAIT)) == 1)
		n++;
	return errno == EAGAIN ? n : -1;
}

/* It is no way round SO_SNDBUF. */
TEST_F(life_scm, sender_is_bounded)
{
	struct play p = { 0 };
	int sv[2], n, most;

	play_begin(&p);
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sv));
	play_accept(&p);
	most = fill(p.c, NULL);
	ASSERT_LT(0, most);
	close(p.c);
	close(p.s);
	play_accept(&p);
	n = fill(p.c, &sv[0]);
	EXPECT_EQ(most, n);
	close(p.c);
	close(p.s);
	/* and while nobody accepts */
	play_connect(&p);
	n = fill(p.c, &sv[0]);
	EXPECT_EQ(most, n);
	close(p.c);
	close(p.l);
	close(p.plain);
	close(sv[0]);
	close(sv[1]);
}

TEST_HARNESS_MAIN
