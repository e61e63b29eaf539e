// SPDX-License-Identifier: GPL-2.0
/*
 * Listeners, and what their children have of them. A child copies its
 * listener's callbacks and operations, and TCP may give it to another listener;
 * a socket that listens may have been something else before. Most of this needs
 * no right, so it is done as the user nobody.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/inet_diag.h>
#include <linux/membarrier.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "ends.h"
#include "hole.h"
#include "users.h"

#ifndef IPV6_ADDRFORM
#define IPV6_ADDRFORM	1
#endif

/* Bytes of an exchange: more than TCP's buffers of a fresh connection. */
#define MUCH		(300 << 10)

FIXTURE(life_hook)
{
	int home;
};

FIXTURE_SETUP(life_hook)
{
	l5_or_skip();
	signal(SIGPIPE, SIG_IGN);
	self->home = net_current();
	ASSERT_TRUE(net_unshare());
}

FIXTURE_TEARDOWN(life_hook)
{
	net_enter(self->home);
}

static int disconnect(int fd)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };

	return connect(fd, &none, sizeof(none)) ? -errno : 0;
}

/* Does @l take a connection by @kind, and do its bytes arrive? */
static bool serves(int l, enum end_kind kind, int port)
{
	struct addr to = addr_parse("127.0.0.1:0");
	bool ok;
	int c, s;

	addr_set_port(&to, port);
	c = end_connect(kind, &to);
	if (c < 0) {
		fprintf(stderr, "# connect: %s\n", strerror(-c));
		return false;
	}
	s = accept(l, NULL, NULL);
	if (s < 0) {
		fprintf(stderr, "# accept: %m\n");
		close(c);
		return false;
	}
	ok = end_exchange(c, s, MUCH, 0);
	close(c);
	close(s);
	return ok;
}

/* Let @fd, that was connected, listen on a port of its own; the port. */
static int relisten(int fd)
{
	struct addr a = { .len = sizeof(a.ss) };
	int err = disconnect(fd);

	if (err)
		return err;
	if (listen(fd, 16) || getsockname(fd, &a.sa, &a.len))
		return -errno;
	return a.sa.sa_family == AF_INET ? ntohs(a.in.sin_port) :
					   ntohs(a.in6.sin6_port);
}

/* An IPv6 socket of AF_L5 that talks to an IPv4 address; the peer is *@peer. */
static int mapped(bool accepted, int *peer)
{
	struct addr a = addr_parse(accepted ? "[::]:0" : "127.0.0.1:0");
	int l = end_listen(accepted ? END_L5 : END_TCP, &a), fd;
	struct addr to = addr_parse(accepted ? "127.0.0.1:0" :
					       "[::ffff:127.0.0.1]:0");

	if (l < 0)
		return l;
	addr_set_port(&to, addr_port(&a));
	fd = end_connect(accepted ? END_TCP : END_L5, &to);
	*peer = accept(l, NULL, NULL);
	close(l);
	if (accepted) {
		int s = *peer;

		*peer = fd;
		return s;
	}
	return fd;
}

/*
 * TCP leaves such a socket the operations it got for IPv4, also once it is
 * disconnected: as a listener it is not like others.
 */
static void v4_mapped(struct __test_metadata *_metadata, bool accepted,
		      bool addrform)
{
	int fd, peer, port, family = AF_INET;

	ASSERT_EQ(0, nobody_become());
	fd = mapped(accepted, &peer);
	ASSERT_LE(0, fd);
	if (addrform)
		ASSERT_EQ(0, setsockopt(fd, SOL_IPV6, IPV6_ADDRFORM, &family,
					sizeof(family)));
	port = relisten(fd);
	ASSERT_LT(0, port)
		TH_LOG("%s", strerror(-port));
	EXPECT_TRUE(serves(fd, END_TCP, port));
	EXPECT_TRUE(serves(fd, END_L5, port));
	EXPECT_TRUE(serves(fd, END_TCP, port));
	close(peer);
	close(fd);
}

TEST_F_TIMEOUT(life_hook, v4_mapped_client_listens, 60)
{
	v4_mapped(_metadata, false, false);
}

TEST_F_TIMEOUT(life_hook, v4_mapped_child_listens, 60)
{
	v4_mapped(_metadata, true, false);
}

TEST_F_TIMEOUT(life_hook, addrform_client_listens, 60)
{
	v4_mapped(_metadata, false, true);
}

TEST_F_TIMEOUT(life_hook, addrform_child_listens, 60)
{
	v4_mapped(_metadata, true, true);
}

enum { OUTLIVERS = 96 };	/* more than a slab of sockets */

/* Fill most of the memory that is free with something. */
static void reuse_memory(void)
{
	size_t size = (size_t)sysconf(_SC_AVPHYS_PAGES) * 4096 / 4 * 3;
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p != MAP_FAILED)
		memset(p, 0x5a, size);
}

/*
 * How many sockets of TCP over IPv6 has the kernel memory for, once it has
 * given back pages that hold none?
 */
static long long v6_objects(void)
{
	sh("echo 1 >/sys/kernel/slab/TCPv6/shrink");
	return l5_number("/sys/kernel/slab/TCPv6/objects");
}

/*
 * Children of IPv4 of a listener that was one of IPv6 once. The kernel leaves
 * them a pointer into that listener, so they are closed once its memory has
 * become something else.
 */
TEST_F_TIMEOUT(life_hook, addrform_child_outlives, 400)
{
	int fd[OUTLIVERS], s[OUTLIVERS], c, i, peer, port, family = AF_INET;
	struct addr to = addr_parse("127.0.0.1:0");
	long long had = l5_references(), objects = v6_objects();

	for (i = 0; i < OUTLIVERS; i++) {
		fd[i] = mapped(i & 1, &peer);
		ASSERT_LE(0, fd[i]);
		ASSERT_EQ(0, setsockopt(fd[i], SOL_IPV6, IPV6_ADDRFORM,
					&family, sizeof(family)));
		close(peer);
		port = relisten(fd[i]);
		ASSERT_LT(0, port);
		addr_set_port(&to, port);
		c = end_connect(END_TCP, &to);
		ASSERT_LE(0, c);
		s[i] = accept(fd[i], NULL, NULL);
		ASSERT_LE(0, s[i]);
		close(c);
	}
	for (i = 0; i < OUTLIVERS; i++)
		close(fd[i]);
	EXPECT_TRUE(L5_UNTIL(v6_objects() <= objects, 30000 * l5_slow()));
	/* the pages go behind a grace period; in the next one they have gone */
	for (i = 0; i < 2; i++)
		syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
	reuse_memory();
	for (i = 0; i < OUTLIVERS; i++)
		close(s[i]);
	EXPECT_TRUE(l5_comes_back(l5_references, 0, had, 30000 * l5_slow()));
}

#ifndef IPV6_FLOWLABEL_MGR
#define IPV6_FLOWLABEL_MGR	32
#endif

/* A call of IPv6's that is not over: its page comes when @arg is closed. */
struct asker {
	int fd;
	void *hole;
	atomic_int tid;
};

static void *asker_main(void *arg)
{
	struct asker *a = arg;
	socklen_t len = 32;	/* of struct in6_flowlabel_req */

	atomic_store(&a->tid, gettid());
	getsockopt(a->fd, SOL_IPV6, IPV6_FLOWLABEL_MGR, a->hole, &len);
	return NULL;
}

/* A socket that is not one of IPv6 any more, in the middle of such a call */
TEST_F_TIMEOUT(life_hook, addrform_while_asked, 60)
{
	const struct sockaddr none = { .sa_family = AF_UNSPEC };
	int peer, uffd, family = AF_INET;
	struct asker a = { 0 };
	pthread_t t;

	a.hole = hole_map(4096, &uffd);
	if (!a.hole)
		SKIP(return, "no userfaultfd(2)");
	a.fd = mapped(true, &peer);
	ASSERT_LE(0, a.fd);
	pthread_create(&t, NULL, asker_main, &a);
	while (!atomic_load(&a.tid))
		;
	ASSERT_TRUE(l5_wait_asleep(atomic_load(&a.tid)));
	ASSERT_EQ(0, setsockopt(a.fd, SOL_IPV6, IPV6_ADDRFORM, &family,
				sizeof(family)));
	close(peer);
	ASSERT_EQ(0, connect(a.fd, &none, sizeof(none)));
	EXPECT_EQ(0, listen(a.fd, 1));
	close(uffd);
	pthread_join(t, NULL);
	close(a.fd);
}

/* The same with IPv4 on the whole way: then it pairs. */
TEST_F_TIMEOUT(life_hook, client_listens, 60)
{
	struct addr a = addr_parse("127.0.0.1:0");
	int l, fd, port;

	ASSERT_EQ(0, nobody_become());
	l = end_listen(END_L5, &a);
	ASSERT_LE(0, l);
	fd = end_connect(END_L5, &a);
	ASSERT_LE(0, fd);
	port = relisten(fd);
	ASSERT_LT(0, port);
	EXPECT_TRUE(serves(fd, END_TCP, port));
	EXPECT_TRUE(serves(fd, END_L5, port));
	close(fd);
	close(l);
}

/* A listener of @kind that shares the port of *@a, which may be 0. */
static int shared_listener(enum end_kind kind, struct addr *a)
{
	int fd = end_socket(kind, AF_INET), on = 1;

	if (fd < 0)
		return fd;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) ||
	    bind(fd, &a->sa, a->len) || listen(fd, 64) ||
	    getsockname(fd, &a->sa, &a->len)) {
		close(fd);
		return -errno;
	}
	return fd;
}

static bool waits(int l)
{
	return end_poll(l, POLLIN) & POLLIN;
}

/*
 * With net.ipv4.tcp_migrate_req children that wait for accept() go to another
 * listener of the port when theirs closes. Children that had no meeting do.
 * Children that met an AF_L5 client would be of no use to a listener that is
 * not AF_L5's, and their clients have to hear of it.
 */
TEST_F_TIMEOUT(life_hook, children_migrate, 120)
{
	struct addr a = addr_parse("127.0.0.1:0");
	int plain, l, c[2], s, err, i;
	char b[8];

	if (sh("echo 1 >/proc/sys/net/ipv4/tcp_migrate_req"))
		SKIP(return, "no tcp_migrate_req");
	l = shared_listener(END_L5, &a);
	ASSERT_LE(0, l);
	c[0] = end_connect(END_TCP, &a);
	ASSERT_LE(0, c[0]);
	c[1] = end_connect(END_L5, &a);
	ASSERT_LE(0, c[1]);
	EXPECT_EQ(L5_TRANSPORT_SHM, l5_transport(c[1]));
	EXPECT_EQ(4, send(c[1], "lost", 4, 0));
	plain = shared_listener(END_TCP, &a);
	ASSERT_LE(0, plain);
	EXPECT_TRUE(waits(l));
	close(l);

	/* never silence: the bytes that were sent will not be read */
	EXPECT_GE(0, recv(c[1], b, sizeof(b), 0));
	for (i = 0; i < 2 && waits(plain); i++) {
		struct sockaddr_in who = { };
		socklen_t len = sizeof(who);

		s = accept(plain, (struct sockaddr *)&who, &len);
		ASSERT_LE(0, s);
		if (send(s, "hello", 5, 0) == 5 &&
		    end_poll(c[0], POLLIN) & POLLIN) {
			EXPECT_EQ(5, recv(c[0], b, sizeof(b), 0));
			EXPECT_TRUE(end_exchange(c[0], s, MUCH, 0));
			close(s);
			break;
		}
		close(s);
	}
	EXPECT_LT(i, 2);
	EXPECT_EQ(-EPIPE, (err = send(c[1], "x", 1, MSG_NOSIGNAL)) < 0 ?
		  -errno : err);
	close(c[0]);
	close(c[1]);
	close(plain);
}

/* As "ss -K" does: the kernel ends a TCP socket, by its port and state. */
static int destroy(int sport, int state)
{
	struct {
		struct nlmsghdr nlh;
		struct inet_diag_req_v2 req;
	} m = {
		.nlh = {
			.nlmsg_len = sizeof(m),
			.nlmsg_type = SOCK_DESTROY,
			.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK,
		},
		.req = {
			.sdiag_family = AF_INET,
			.sdiag_protocol = IPPROTO_TCP,
			.idiag_states = 1 << state,
			.id = {
				.idiag_sport = htons(sport),
				.idiag_src = { htonl(INADDR_LOOPBACK) },
				.idiag_cookie = { INET_DIAG_NOCOOKIE,
						  INET_DIAG_NOCOOKIE },
			},
		},
	};
	struct {
		struct nlmsghdr nlh;
		struct nlmsgerr err;
		char rest[512];
	} ans;
	int fd = socket(AF_NETLINK, SOCK_DGRAM, NETLINK_SOCK_DIAG);
	int ret = -1;

	if (fd < 0 || send(fd, &m, sizeof(m), 0) != sizeof(m) ||
	    recv(fd, &ans, sizeof(ans), 0) < (ssize_t)sizeof(ans.nlh))
		ret = -errno;
	else if (ans.nlh.nlmsg_type == NLMSG_ERROR)
		ret = ans.err.error;
	close(fd);
	return ret;
}

/*
 * The administrator ends a listener. Its owner finds what TCP's finds, and may
 * listen again; a client that waited for accept() is told.
 */
TEST_F_TIMEOUT(life_hook, listener_destroyed, 120)
{
	struct addr a = addr_parse("127.0.0.1:0");
	int l, c, err, i;
	char b[8];

	for (i = 0; i < 3; i++) {
		l = end_listen(END_L5, &a);
		ASSERT_LE(0, l);
		c = end_connect(END_L5, &a);
		ASSERT_LE(0, c);
		EXPECT_EQ(L5_TRANSPORT_SHM, l5_transport(c));
		EXPECT_EQ(4, send(c, "lost", 4, 0));
		err = destroy(addr_port(&a), TCP_LISTEN);
		if (err == -EOPNOTSUPP)
			SKIP(return, "no SOCK_DESTROY");
		ASSERT_EQ(0, err);
		EXPECT_GE(0, recv(c, b, sizeof(b), 0));
		close(c);
		EXPECT_EQ(-1, accept(l, NULL, NULL));
		EXPECT_EQ(EINVAL, errno);
		/* as if nothing had been, in different ways */
		if (i == 0) {
			int port = relisten(l);

			ASSERT_LT(0, port);
			EXPECT_TRUE(serves(l, END_L5, port));
			EXPECT_TRUE(serves(l, END_TCP, port));
		} else if (i == 1) {
			EXPECT_EQ(0, listen(l, 8));
		}
		close(l);
		a = addr_parse("127.0.0.1:0");
	}
}

enum { WAITING = 40, ROUNDS = 60 };

/* A thread that has the administrator end a listener. */
struct destroyer {
	pthread_barrier_t go;
	int port;
	int err;
};

static void *destroyer_main(void *arg)
{
	struct destroyer *d = arg;

	pthread_barrier_wait(&d->go);
	d->err = destroy(d->port, TCP_LISTEN);
	return NULL;
}

/*
 * The owner closes a listener, or has it listen again, while the administrator
 * ends it: each of them ends the children that wait, and only one may.
 */
TEST_F_TIMEOUT(life_hook, destroyed_while_ended, 300)
{
	int l, c[WAITING], i, j, ended = 0;
	pthread_t thread;

	for (i = 0; i < ROUNDS / l5_slow(); i++) {
		struct addr a = addr_parse("127.0.0.1:0");
		struct destroyer d = { 0 };

		l = end_listen(END_L5, &a);
		ASSERT_LE(0, l);
		for (j = 0; j < WAITING; j++) {
			c[j] = end_connect(END_L5, &a);
			ASSERT_LE(0, c[j]);
		}
		d.port = addr_port(&a);
		pthread_barrier_init(&d.go, NULL, 2);
		ASSERT_EQ(0, pthread_create(&thread, NULL, destroyer_main, &d));
		pthread_barrier_wait(&d.go);
		for (j = 0; i % 2 && j < i * 40; j++)
			atomic_signal_fence(memory_order_seq_cst);
		if (i % 3 == 0)
			shutdown(l, SHUT_RD);
		else if (i % 3 == 1)
			for (j = 0; j < 20; j++)
				listen(l, 8);
		close(l);
		pthread_join(thread, NULL);
		pthread_barrier_destroy(&d.go);
		if (d.err == -EOPNOTSUPP)
			SKIP(return, "no SOCK_DESTROY");
		ended += !d.err;
		for (j = 0; j < WAITING; j++) {
			/* each is told, once and soon */
			EXPECT_NE(0, end_poll(c[j], POLLIN | POLLHUP));
			close(c[j]);
		}
	}
	TH_LOG("ended by the administrator: %d of %d", ended, i);
}

/*
 * TCP forgets a connection that was made and reset unseen only with the next
 * connect(), which says so. The socket is fresh then.
 */
static void forgotten(struct __test_metadata *_metadata, enum end_kind kind)
{
	struct addr a = addr_parse("127.0.0.1:0");
	struct linger now = { .l_onoff = 1 };
	int l, fd, s, port;

	l = end_listen(kind, &a);
	ASSERT_LE(0, l);
	fd = end_socket(kind, AF_INET);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, fcntl(fd, F_SETFL, O_NONBLOCK));
	if (connect(fd, &a.sa, a.len))
		ASSERT_EQ(EINPROGRESS, errno);
	s = accept(l, NULL, NULL);
	ASSERT_LE(0, s);
	if (kind == END_L5)
		EXPECT_EQ(L5_TRANSPORT_SHM, l5_transport(fd));
	ASSERT_EQ(0, setsockopt(s, SOL_SOCKET, SO_LINGER, &now, sizeof(now)));
	close(s);
	end_poll(fd, POLLHUP);
	EXPECT_EQ(-1, connect(fd, &a.sa, a.len));
	EXPECT_EQ(ECONNRESET, errno);
	ASSERT_EQ(0, fcntl(fd, F_SETFL, 0));
	/* it can be connected once more, and bytes go to the new peer */
	EXPECT_EQ(0, connect(fd, &a.sa, a.len));
	s = accept(l, NULL, NULL);
	ASSERT_LE(0, s);
	EXPECT_TRUE(end_exchange(fd, s, MUCH, 0));
	close(s);
	/* or listen */
	port = relisten(fd);
	ASSERT_LT(0, port);
	EXPECT_TRUE(serves(fd, kind, port));
	EXPECT_TRUE(serves(fd, END_TCP, port));
	close(fd);
	close(l);
}

TEST_F_TIMEOUT(life_hook, forgotten_tcp, 60)
{
	forgotten(_metadata, END_TCP);
}

TEST_F_TIMEOUT(life_hook, forgotten_l5, 60)
{
	forgotten(_metadata, END_L5);
}

TEST_HARNESS_MAIN
