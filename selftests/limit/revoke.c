// SPDX-License-Identifier: GPL-2.0
/*
 * What the administrator of a host, or of a network namespace, revokes has
 * ended: no more than was named, soon, and whoever is in its way.
 */
#include <sys/syscall.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "admin.h"
#include "hole.h"
#include "limit_ends.h"
#include "mapping.h"
#include "rdma_here.h"

ADMIN_FIXTURE(limit_revoke)

enum { PAIRS = 6 };

static int look(const char *at)
{
	return __atomic_load_n(at, __ATOMIC_SEQ_CST);
}

static bool is_reset(int fd)
{
	char b;

	return recv(fd, &b, 1, 0) == -1 && errno == ECONNRESET;
}

/* Ended for good: end of file, broken pipe, and poll() says so. */
static bool is_over(int fd)
{
	int got, put, err, events;
	char b;

	got = recv(fd, &b, 1, MSG_DONTWAIT);
	err = got < 0 ? errno : 0;
	put = send(fd, "", 1, MSG_NOSIGNAL);
	if (put < 0 && errno != EPIPE)
		err = errno;
	events = end_poll(fd, POLLIN | POLLRDHUP);
	if (!got && put == -1 && !err && events & POLLHUP)
		return true;
	fprintf(stderr, "# received %d, sent %d, %s, polled %x\n", got, put,
		strerror(err), events);
	return false;
}

/* A thread asleep in a call while its connection is revoked. */
struct sleeper {
	pthread_t thread;
	int fd;
	pid_t tid;
	ssize_t ret;
	int err;
};

static void *sleep_in_recv(void *arg)
{
	struct sleeper *z = arg;
	char b;

	__atomic_store_n(&z->tid, gettid(), __ATOMIC_RELEASE);
	z->ret = recv(z->fd, &b, 1, 0);
	z->err = errno;
	return NULL;
}

/* All of a namespace, by each kind of bootstrap; also for a sleeping thread. */
TEST_F_TIMEOUT(limit_revoke, revoke_all, 180)
{
	unsigned int i;

	ASSERT_TRUE(net_unshare());
	ASSERT_LE(0, l5_sysctl("match_ms", 10000));
	for (i = 0; i < ARRAY_SIZE(everywhere); i++) {
		struct addr to = addr_parse(everywhere[i]);
		int l = end_listen(END_L5, &to), c[4], s[4], k;
		struct sleeper z = { 0 };

		ASSERT_LE(0, l);
		for (k = 0; k < 4; k++) {
			ASSERT_TRUE(open_pair(l, &to, &c[k], &s[k]));
			ASSERT_EQ(L5_TRANSPORT_SHM, l5_transport(s[k]));
		}
		/* one with unread bytes, one asleep */
		ASSERT_TRUE(end_put(c[1], 5000, 0));
		z.fd = c[2];
		ASSERT_EQ(0, pthread_create(&z.thread, NULL, sleep_in_recv,
					    &z));
		ASSERT_TRUE(UNTIL(__atomic_load_n(&z.tid, __ATOMIC_ACQUIRE)));
		ASSERT_TRUE(l5_wait_asleep(z.tid));
		ASSERT_EQ(0, say(REVOKE, "all\n"));
		ASSERT_EQ(0, pthread_join(z.thread, NULL));
		EXPECT_EQ(-1, z.ret);
		EXPECT_EQ(ECONNRESET, z.err);
		EXPECT_TRUE(is_reset(s[2]));
		/* what was there is there, unless it was mapped */
		if (!getenv("L5_FULL"))
			EXPECT_TRUE(end_get(s[1], 5000, 0));
		EXPECT_TRUE(is_reset(s[1]));
		EXPECT_TRUE(is_reset(c[1]));
		EXPECT_TRUE(is_reset(c[0]));
		EXPECT_TRUE(is_reset(s[0]));
		for (k = 0; k < 3; k++) {
			EXPECT_TRUE(is_over(c[k]));
			EXPECT_TRUE(is_over(s[k]));
		}
		EXPECT_TRUE(end_poll(c[3], POLLIN) & POLLERR);
		for (k = 0; k < 4; k++) {
			close(c[k]);
			close(s[k]);
		}
		/* the listener listens */
		ASSERT_TRUE(open_pair(l, &to, &c[0], &s[0]));
		EXPECT_TRUE(end_exchange(c[0], s[0], 1000, 0));
		close(c[0]);
		close(s[0]);
		close(l);
	}
	EXPECT_TRUE(end_stat_reaches("pairs", 0));
	EXPECT_TRUE(end_stat_reaches("reserved_kb", 0));
}

/*
 * The end of both ends of a connection at a time: each is told once that it was
 * reset, by its own end or by the other's, and finds it ended from then on.
 */
TEST_F_TIMEOUT(limit_revoke, revoke_told_once, 180)
{
	enum { PAIRS = 8, ROUNDS = 10, KINDS = ARRAY_SIZE(everywhere) };
	int fd[2 * PAIRS], round, twice = 0, i;
	struct sleeper z[2 * PAIRS];
	char b;

	ASSERT_TRUE(net_unshare());
	ASSERT_LE(0, l5_sysctl("match_ms", 10000));
	for (round = 0; round < ROUNDS * KINDS; round++) {
		struct addr to = addr_parse(everywhere[round % KINDS]);
		int l = end_listen(END_L5, &to);

		ASSERT_LE(0, l);
		for (i = 0; i < 2 * PAIRS; i += 2)
			ASSERT_TRUE(open_pair(l, &to, &fd[i], &fd[i + 1]));
		memset(z, 0, sizeof(z));
		for (i = 0; i < 2 * PAIRS; i++) {
			z[i].fd = fd[i];
			ASSERT_EQ(0, pthread_create(&z[i].thread, NULL,
						    sleep_in_recv, &z[i]));
		}
		for (i = 0; i < 2 * PAIRS; i++) {
			ASSERT_TRUE(UNTIL(__atomic_load_n(&z[i].tid,
							  __ATOMIC_ACQUIRE)));
			ASSERT_TRUE(l5_wait_asleep(z[i].tid));
		}
		ASSERT_EQ(0, say(REVOKE, "all\n"));
		for (i = 0; i < 2 * PAIRS; i++) {
			ASSERT_EQ(0, pthread_join(z[i].thread, NULL));
			EXPECT_EQ(-1, z[i].ret);
			EXPECT_EQ(ECONNRESET, z[i].err);
			twice += recv(fd[i], &b, 1, MSG_DONTWAIT) != 0;
			close(fd[i]);
		}
		close(l);
	}
	EXPECT_EQ(0, twice);
	EXPECT_TRUE(end_stat_reaches("pairs", 0));
}

/*
 * A process that has it mapped, and does not care what it is told, has it no
 * more: what one end writes the other does not see, neither gets a signal, and
 * a call says what happened.
 */
TEST_F_TIMEOUT(limit_revoke, revoke_mapped, 120)
{
	unsigned int i;

	ASSERT_TRUE(net_unshare());
	ASSERT_LE(0, l5_sysctl("match_ms", 10000));
	for (i = 0; i < ARRAY_SIZE(everywhere); i++) {
		struct addr to = addr_parse(everywhere[i]);
		int l = end_listen(END_L5, &to), c, s;
		struct mapping m[2];
		const char *seen;
		char *mine;

		ASSERT_LE(0, l);
		ASSERT_TRUE(open_pair(l, &to, &c, &s));
		ASSERT_EQ(0, mapping_open(&m[0], c));
		ASSERT_EQ(0, mapping_open(&m[1], s));
		mine = (char *)m[0].tx;
		seen = (const char *)m[1].rx;
		__atomic_store_n(&mine[100], 7, __ATOMIC_SEQ_CST);
		ASSERT_EQ(7, look(&seen[100]));
		ASSERT_EQ(0, say(REVOKE, "all"));
		__atomic_store_n(&mine[100], 9, __ATOMIC_SEQ_CST);
		EXPECT_EQ(9, look(&mine[100]));
		EXPECT_NE(9, look(&seen[100]));
		EXPECT_NE(7, look(&seen[100]));
		EXPECT_TRUE(is_reset(c));
		EXPECT_TRUE(is_reset(s));
		mapping_close(&m[0]);
		mapping_close(&m[1]);
		close(c);
		close(s);
		close(l);
	}
	EXPECT_TRUE(end_stat_reaches("rings_kb", 0));
}

/* What has met and waits for accept() is a connection as well. */
TEST_F_TIMEOUT(limit_revoke, revoke_pending, 120)
{
	unsigned int i;

	ASSERT_TRUE(net_unshare());
	ASSERT_LE(0, l5_sysctl("match_ms", 10000));
	for (i = 0; i < ARRAY_SIZE(everywhere); i++) {
		struct addr to = addr_parse(everywhere[i]);
		int l, c[3], s, k;

		ASSERT_EQ(0, seteuid(NOBODY));
		l = end_listen(END_L5, &to);
		ASSERT_EQ(0, seteuid(0));
		ASSERT_LE(0, l);
		for (k = 0; k < 3; k++) {
			c[k] = end_connect(END_L5, &to);
			ASSERT_LE(0, c[k]);
			ASSERT_EQ(L5_TRANSPORT_SHM, l5_transport(c[k]));
		}
		/* by whom they were connected to */
		ASSERT_EQ(0, say(REVOKE, "uid %d", NOBODY));
		for (k = 0; k < 3; k++) {
			EXPECT_TRUE(is_reset(c[k]));
			s = accept(l, NULL, NULL);
			ASSERT_LE(0, s);
			EXPECT_TRUE(is_reset(s));
			close(s);
			close(c[k]);
		}
		close(l);
	}
	EXPECT_TRUE(end_stat_reaches("reserved_kb", 0));
}

static unsigned long inode_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) ? 0 : st.st_ino;
}

/* No more than what is named. */
TEST_F_TIMEOUT(limit_revoke, revoke_some, 120)
{
	struct addr to = addr_parse("127.0.0.1:0");
	int l, c[3], s[3], t, u, k;

	ASSERT_TRUE(net_unshare());
	ASSERT_LE(0, l5_sysctl("match_ms", 10000));
	l = end_listen(END_L5, &to);
	ASSERT_LE(0, l);
	for (k = 0; k < 3; k++)
		ASSERT_TRUE(open_pair(l, &to, &c[k], &s[k]));
	/* TCP carries this one, where firewalls see it */
	t = end_connect(END_TCP, &to);
	ASSERT_LE(0, t);
	u = accept(l, NULL, NULL);
	ASSERT_LE(0, u);
	ASSERT_EQ(0, say(REVOKE, "inode %lu", inode_of(s[1])));
	EXPECT_TRUE(is_reset(c[1]));
	EXPECT_TRUE(end_exchange(c[0], s[0], 1000, 0));
	EXPECT_TRUE(end_exchange(c[2], s[2], 1000, 0));
	ASSERT_EQ(0, say(REVOKE, "uid 1-70000"));
	EXPECT_TRUE(end_exchange(c[0], s[0], 1000, 1000));
	ASSERT_EQ(0, say(REVOKE, "cgroup /"));
	EXPECT_TRUE(is_reset(c[0]));
	EXPECT_TRUE(is_reset(s[2]));
	EXPECT_TRUE(end_exchange(t, u, 1000, 0));
	/* everything, with no exception */
	ASSERT_EQ(0, say(REVOKE, "sockets"));
	EXPECT_TRUE(is_reset(t));
	EXPECT_TRUE(is_reset(u));
	EXPECT_EQ(-1, accept(l, NULL, NULL));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-ECONNREFUSED, end_connect(END_TCP, &to));
	for (k = 0; k < 3; k++) {
		close(c[k]);
		close(s[k]);
	}
	close(t);
	close(u);
	close(l);
}

/* The host reaches every namespace. */
TEST_F_TIMEOUT(limit_revoke, revoke_from_host, 120)
{
	struct addr to = addr_parse("127.0.0.1:0");
	int host = net_current(), own, l, c, s;

	ASSERT_TRUE(net_unshare());
	own = net_current();
	ASSERT_LE(0, l5_sysctl("match_ms", 10000));
	l = end_listen(END_L5, &to);
	ASSERT_TRUE(open_pair(l, &to, &c, &s));
	ASSERT_EQ(L5_TRANSPORT_SHM, l5_transport(c));
	ASSERT_TRUE(net_enter(host));
	EXPECT_EQ(0, say(REVOKE, "inode %lu", inode_of(c)));
	EXPECT_TRUE(is_reset(c));
	EXPECT_TRUE(is_reset(s));
	close(c);
	close(s);
	ASSERT_TRUE(net_enter(own));
	close(l);
}

/* Connections come, go and send while others are ended: no call hangs. */
TEST_F_TIMEOUT(limit_revoke, revoke_busy, 240)
{
	enum { PROCS = 3, ROUNDS = 60 };
	int gate[2], i, status;
	pid_t pid[PROCS];

	ASSERT_TRUE(net_unshare());
	ASSERT_EQ(0, pipe2(gate, O_NONBLOCK));
	fflush(NULL);
	for (i = 0; i < PROCS; i++) {
		struct addr to = addr_parse(i == 2 ? "abstract:l5_busy" :
					    "127.0.0.1:0");
		int l, c, s, k;
		char stop;

		pid[i] = fork();
		ASSERT_LE(0, pid[i]);
		if (pid[i])
			continue;
		close(gate[1]);
		l = end_listen(END_L5, &to);
		while (read(gate[0], &stop, 1) < 0) {
			static char buf[100000];

			c = end_connect(END_L5, &to);
			if (c < 0)
				continue;
			s = accept(l, NULL, NULL);
			if (s < 0)
				_exit(1);
			for (k = 0; k < 20; k++) {
				send(c, buf, sizeof(buf), MSG_DONTWAIT |
				     MSG_NOSIGNAL);
				recv(s, buf, sizeof(buf), MSG_DONTWAIT);
			}
			shutdown(c, SHUT_WR);
			while (recv(s, buf, sizeof(buf), 0) > 0)
				;
			close(i ? c : s);
			close(i ? s : c);
		}
		_exit(0);
	}
	for (i = 0; i < ROUNDS; i++) {
		EXPECT_EQ(0, say(REVOKE, "all"));
		usleep(20000);
	}
	close(gate[1]);
	for (i = 0; i < PROCS; i++) {
		ASSERT_EQ(pid[i], waitpid(pid[i], &status, 0));
		EXPECT_EQ(0, status);
	}
	EXPECT_TRUE(end_stat_reaches("pairs", 0));
	EXPECT_TRUE(end_stat_reaches("reserved_kb", 0));
	EXPECT_EQ(0, l5_stat("violations"));
}

/* A socket that takes RDMA or nothing, made as @uid. */
static int rdma_socket_of(uid_t uid)
{
	int fd;

	if (seteuid(uid))
		return -1;
	fd = end_socket(END_L5, AF_INET);
	return seteuid(0) || rdma_force(fd) ? -1 : fd;
}

static bool rdma_pair(uid_t client, uid_t server, int *c, int *s)
{
	struct addr to = addr_parse(RDMA_HERE ":0");
	int l = rdma_socket_of(server);
	bool ok;

	*c = rdma_socket_of(client);
	*s = -1;
	ok = l >= 0 && *c >= 0 && !bind(l, &to.sa, to.len) && !listen(l, 5) &&
	     !getsockname(l, &to.sa, &to.len) &&
	     !connect(*c, &to.sa, to.len);
	if (ok)
		*s = accept(l, NULL, NULL);
	/* a question that was asked is answered by now */
	ok = ok && *s >= 0 && end_exchange(*c, *s, 50000, 0);
	if (ok && !client && !server)
		ok = rdma_moved(*c) && rdma_moved(*s);
	close(l);
	return ok;
}

/* A call that is in a page fault for ever, with what its socket has locked. */
static pid_t stuck_in_send(int fd)
{
	pid_t pid;
	void *p;

	fflush(NULL);
	pid = fork();
	if (pid)
		return pid;
	p = hole_map(4096, NULL);
	if (!p)
		_exit(77);
	syscall(SYS_sendto, fd, p, 10, 0, NULL, 0);
	_exit(1);
}

/* No user keeps an administrator from ending the connections of others. */
TEST_F_TIMEOUT(limit_revoke, revoke_beside_a_stuck_one, 180)
{
	struct addr to = addr_parse("127.0.0.1:0");
	pid_t stuck, shut, admin;
	int l, c[2], s[2], i;

	l = end_listen(END_L5, &to);
	ASSERT_LE(0, l);
	for (i = 0; i < 2; i++) {
		c[i] = end_connect(END_L5, &to);
		s[i] = accept(l, NULL, NULL);
		ASSERT_LE(0, s[i]);
		ASSERT_EQ(L5_TRANSPORT_SHM, l5_transport(c[i]));
	}
	stuck = stuck_in_send(c[0]);
	EXPECT_TRUE(l5_wait_asleep(stuck));
	fflush(NULL);
	shut = fork();
	if (!shut) {
		shutdown(c[0], SHUT_WR);
		_exit(0);
	}
	/* the child sleeps where only a signal that kills ends it */
	EXPECT_TRUE(l5_wait_asleep(shut));
	fflush(NULL);
	admin = fork();
	if (!admin) {
		i = say(REVOKE, "all");
		_exit(i && i != EINPROGRESS);
	}
	/* this connection at once, and the stuck one has no rings any more */
	EXPECT_TRUE(is_reset(c[1]));
	EXPECT_TRUE(is_reset(s[1]));
	EXPECT_TRUE(UNTIL(send(s[0], "x", 1, MSG_NOSIGNAL) == -1));
	ASSERT_EQ(admin, waitpid(admin, &i, 0));
	EXPECT_EQ(0, i);
	kill(shut, SIGKILL);
	kill(stuck, SIGKILL);
	waitpid(shut, &i, 0);
	waitpid(stuck, &i, 0);
	for (i = 0; i < 2; i++) {
		close(c[i]);
		close(s[i]);
	}
	close(l);
}

/* A connection that TCP carries, and a thread that is stuck in send() on it. */
struct held {
	int l, c, s, uffd;
	char *hole;
	pthread_t thread;
};

static void *held_send(void *arg)
{
	struct held *h = arg;

	send(h->c, h->hole, 4096, MSG_NOSIGNAL);
	return NULL;
}

/* With @hole from hole_map(): the thread holds the bootstrap's lock. */
static bool held_open(struct held *h)
{
	struct addr to = addr_parse("127.0.0.1:0");
	int base = L5_TRANSPORT_BASE;

	h->l = end_listen(END_L5, &to);
	h->c = end_socket(END_L5, AF_INET);
	if (h->l < 0 || h->c < 0 ||
	    setsockopt(h->c, SOL_L5, L5_FORCE, &base, sizeof(base)) ||
	    connect(h->c, &to.sa, to.len))
		return false;
	h->s = accept(h->l, NULL, NULL);
	return h->s >= 0 && l5_transport(h->c) == L5_TRANSPORT_BASE &&
	       l5_wait_asleep(l5_thread_start(&h->thread, NULL, held_send, h));
}

/* A process that revokes, waits, and says by its status what it got. */
static pid_t held_revoke(const struct held *h)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid)
		return pid;
	/* it is the opener alone that lets go */
	close(h->uffd);
	_exit(say(REVOKE, "sockets"));
}

/* A bootstrap that is held ends when it is let go, and every writer knows. */
TEST_F_TIMEOUT(limit_revoke, revoke_let_go, 120)
{
	enum { WRITERS = 4 };
	pid_t pid[WRITERS];
	struct held h;
	int i, status;

	ASSERT_TRUE(net_unshare());
	h.hole = hole_map(4096, &h.uffd);
	if (!h.hole)
		SKIP(return, "no userfaultfd");
	ASSERT_TRUE(held_open(&h));
	for (i = 0; i < WRITERS; i++) {
		pid[i] = held_revoke(&h);
		ASSERT_TRUE(l5_wait_asleep(pid[i]));
	}
	/* one of them leaves before */
	kill(pid[1], SIGKILL);
	ASSERT_EQ(pid[1], waitpid(pid[1], &status, 0));
	EXPECT_TRUE(WIFSIGNALED(status));
	/* none has an end by then: the rest are there */
	ASSERT_EQ(0, waitpid(-1, &status, WNOHANG));
	close(h.uffd);
	for (i = 0; i < WRITERS; i++) {
		if (i == 1)
			continue;
		ASSERT_EQ(pid[i], waitpid(pid[i], &status, 0));
		EXPECT_EQ(0, status);
	}
	pthread_join(h.thread, NULL);
	EXPECT_TRUE(is_reset(h.c));
	close(h.c);
	close(h.s);
	close(h.l);
}

/* User nobody's process, root of its own namespace, where it revokes often. */
static void revoke_often(int said, int rounds)
{
	enum { AT_A_TIME = 50 };
	struct held h = { .hole = hole_map(4096, &h.uffd) };
	pid_t pid[AT_A_TIME];
	int i;

	if (!h.hole || !nobody_unshare() || !held_open(&h))
		_exit(1);
	/* not before: it goes when the user changes */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (; rounds > 0; rounds -= AT_A_TIME) {
		for (i = 0; i < AT_A_TIME; i++)
			pid[i] = held_revoke(&h);
		/* where the last one waits the others do, but for a few */
		if (!l5_wait_asleep(pid[AT_A_TIME - 1]))
			_exit(2);
		for (i = 0; i < AT_A_TIME; i++)
			kill(pid[i], SIGKILL);
		for (i = 0; i < AT_A_TIME; i++)
			waitpid(pid[i], NULL, 0);
	}
	if (write(said, "", 1) != 1)
		_exit(3);
	for (;;)
		pause();
}

static bool has_said_so(int pipe)
{
	char byte;

	return read(pipe, &byte, 1) == 1;
}

/*
 * A user that is root of a namespace revokes there, in vain, more often than a
 * work queue has workers: nobody else's connection ends later for that.
 */
TEST_F_TIMEOUT(limit_revoke, revoke_beside_many_rounds, 300)
{
	enum { ROUNDS = 700 };
	struct addr to = addr_parse("127.0.0.1:0");
	int said[2], l, c, s;
	struct stat st;
	pid_t pid;

	if (!hole_map(4096, NULL))
		SKIP(return, "no userfaultfd");
	l = end_listen(END_L5, &to);
	ASSERT_TRUE(open_pair(l, &to, &c, &s));
	ASSERT_EQ(L5_TRANSPORT_SHM, l5_transport(c));
	ASSERT_EQ(0, fstat(c, &st));
	ASSERT_EQ(0, pipe(said));
	fflush(NULL);
	pid = fork();
	if (!pid) {
		close(c);
		close(s);
		close(said[0]);
		revoke_often(said[1], ROUNDS);
	}
	close(said[1]);
	ASSERT_TRUE(has_said_so(said[0]));
	EXPECT_EQ(0, say(REVOKE, "inode %lu", (unsigned long)st.st_ino));
	EXPECT_TRUE(end_poll(c, POLLIN) & POLLERR);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(said[0]);
	close(c);
	close(s);
	close(l);
}

/* Of connections that RDMA carries the same is true. */
TEST_F_TIMEOUT(limit_revoke, rdma, 240)
{
	int c, s, i;

	if (!rdma_here())
		SKIP(return, "no RDMA device can be made here");
	for (i = 0; i < 2; i++) {
		ASSERT_TRUE(rdma_pair(0, 0, &c, &s));
		ASSERT_EQ(0, say(REVOKE, "inode %lu", inode_of(i ? c : s)));
		/* over RDMA each reader hears of it, every time */
		EXPECT_TRUE(is_reset(c) && is_reset(c));
		EXPECT_TRUE(is_reset(s) && is_reset(s));
		close(c);
		close(s);
	}
	ASSERT_EQ(0, say(DENY, "uid %d", NOBODY));
	for (i = 0; i < 2; i++) {
		ASSERT_TRUE(rdma_pair(i ? 0 : NOBODY, i ? NOBODY : 0, &c, &s));
		EXPECT_EQ(L5_TRANSPORT_BASE, l5_transport(c));
		EXPECT_EQ(L5_TRANSPORT_BASE, l5_transport(s));
		EXPECT_EQ(L5_REASON_DENIED, end_reason(i ? s : c));
		close(c);
		close(s);
	}
	ASSERT_EQ(0, say(DENY, "allow uid %d", NOBODY));
	EXPECT_TRUE(end_stat_reaches("rdma_now", 0));
	EXPECT_TRUE(end_stat_reaches("reserved_kb", 0));
}

/* Records that may be half written are not read, and keep no reader busy. */
TEST_F_TIMEOUT(limit_revoke, rdma_unread, 120)
{
	static char b[100000];
	struct mapping m;
	int c, s, i;

	if (!rdma_here())
		SKIP(return, "no RDMA device can be made here");
	if (getenv("L5_FULL"))
		SKIP(return, "this end is mapped at once");
	for (i = 0; i < 2; i++) {
		int flags = i ? MSG_DONTWAIT : 0;

		ASSERT_TRUE(rdma_pair(0, 0, &c, &s));
		ASSERT_EQ(0, mapping_open(&m, s));
		ASSERT_EQ(sizeof(b), send(c, b, sizeof(b), 0));
		EXPECT_TRUE(L5_UNTIL(end_unread(s) == sizeof(b),
				     10000 * l5_slow()));
		ASSERT_EQ(0, say(REVOKE, "inode %lu", inode_of(s)));
		EXPECT_TRUE(L5_UNTIL(recv(s, b, sizeof(b), flags) < 0 &&
				     errno == ECONNRESET, 10000 * l5_slow()));
		mapping_close(&m);
		close(c);
		close(s);
	}
}

/* The tool says what the files say. */
TEST_F_TIMEOUT(limit_revoke, l5ctl, 120)
{
	static const char ctl[] = "../userspace/bin/l5ctl";
	struct addr to = addr_parse("127.0.0.1:0");
	int l, c, s;

	ASSERT_TRUE(net_unshare());
	ASSERT_LE(0, l5_sysctl("match_ms", 10000));
	l = end_listen(END_L5, &to);
	ASSERT_TRUE(open_pair(l, &to, &c, &s));
	EXPECT_EQ(0, sh("%s list | grep -q '^%lu .* shm .*revoke(%d)'",
			ctl, inode_of(c), getpid()));
	EXPECT_EQ(0, sh("%s deny uid 7-9 && %s deny cgroup / &&"
			"[ \"$(%s rules)\" = 'uid 7-9\ncgroup /' ]", ctl, ctl,
			ctl));
	EXPECT_EQ(0, sh("%s allow uid 7-9", ctl));
	EXPECT_TRUE(rules_are("cgroup /\n"));
	EXPECT_TRUE(end_exchange(c, s, 1000, 0));
	EXPECT_EQ(0, sh("%s revoke inode %lu", ctl, inode_of(c)));
	EXPECT_TRUE(is_reset(c));
	EXPECT_TRUE(is_reset(s));
	/* each says what is wrong, and fails */
	EXPECT_EQ(0, sh("! %s && ! %s deny && ! %s rules x && ! %s revoke x &&"
			"! %s allow uid 1 && ! %s -t x unload && ! %s none",
			ctl, ctl, ctl, ctl, ctl, ctl, ctl));
	close(c);
	close(s);
	close(l);
}

TEST_HARNESS_MAIN
