// SPDX-License-Identifier: GPL-2.0
/*
 * Do the two ends of a connection find each other when, and only when, both
 * are AF_L5 and nothing sits between them? Over loopback, in every address
 * family. In every case both ends have to agree on what carries the bytes, and
 * the bytes have to be exact. The networks are in net.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "ends.h"

FIXTURE(rendezvous_find)
{
	struct addr to;
	int listener;
};

FIXTURE_VARIANT(rendezvous_find)
{
	const char *at;
	const char *to;
};

FIXTURE_VARIANT_ADD(rendezvous_find, v4)
{
	.at = "127.0.0.1:0",
	.to = "127.0.0.1:0",
};

FIXTURE_VARIANT_ADD(rendezvous_find, v6)
{
	.at = "[::1]:0",
	.to = "[::1]:0",
};

FIXTURE_VARIANT_ADD(rendezvous_find, v4_to_v6)
{
	.at = "[::]:0",
	.to = "127.0.0.1:0",
};

FIXTURE_VARIANT_ADD(rendezvous_find, mapped_to_v6)
{
	.at = "[::]:0",
	.to = "[::ffff:127.0.0.1]:0",
};

FIXTURE_VARIANT_ADD(rendezvous_find, mapped_to_v4)
{
	.at = "127.0.0.1:0",
	.to = "[::ffff:127.0.0.1]:0",
};

FIXTURE_VARIANT_ADD(rendezvous_find, unix_path)
{
	.at = "unix:/tmp/l5_meet.sock",
	.to = "unix:/tmp/l5_meet.sock",
};

FIXTURE_VARIANT_ADD(rendezvous_find, unix_abstract)
{
	.at = "abstract:l5_meet",
	.to = "abstract:l5_meet",
};

static int listen_at(enum end_kind kind, const char *at, const char *to,
		     struct addr *dest)
{
	struct addr a = addr_parse(at);
	int fd = end_listen(kind, &a);

	*dest = addr_parse(to);
	addr_set_port(dest, addr_port(&a));
	return fd;
}

FIXTURE_SETUP(rendezvous_find)
{
	l5_or_skip();
	self->listener = listen_at(END_L5, variant->at, variant->to,
				   &self->to);
	ASSERT_LE(0, self->listener);
}

FIXTURE_TEARDOWN(rendezvous_find)
{
	close(self->listener);
}

static bool is_unix(const struct addr *a)
{
	return a->sa.sa_family == AF_UNIX;
}

/* Both ends decided, the same, as expected? */
#define EXPECT_TRANSPORT(want, why, c, s)				\
	do {								\
		ASSERT_EQ(want, l5_transport(c));			\
		ASSERT_EQ(want, l5_transport(s));			\
		ASSERT_EQ(why, end_reason(c));				\
		ASSERT_EQ(why, end_reason(s));				\
	} while (0)

TEST_F_TIMEOUT(rendezvous_find, many, 300)
{
	struct capture cap = { .fd = -1 };
	long long shm = l5_stat("conn_shm");
	const int count = 200;
	int i;

	if (!is_unix(&self->to))
		ASSERT_TRUE(capture_start(&cap, "lo", addr_port(&self->to)));
	for (i = 0; i < count; i++) {
		int c = end_connect(END_L5, &self->to);
		int s;

		ASSERT_LE(0, c);
		s = accept(self->listener, NULL, NULL);
		ASSERT_LE(0, s);
		EXPECT_TRANSPORT(L5_TRANSPORT_SHM, L5_REASON_NONE, c, s);
		ASSERT_TRUE(end_exchange(c, s, 1 + i * 37, i));
		close(c);
		close(s);
	}
	EXPECT_EQ(shm + 2 * count, l5_stat("conn_shm"));
	if (!is_unix(&self->to)) {
		ASSERT_TRUE(capture_stop(&cap));
		EXPECT_LT(3 * count, cap.packets);
		EXPECT_EQ(0, cap.payload);
	}
}

/* All connected before the first is accepted. */
TEST_F_TIMEOUT(rendezvous_find, accept_late, 300)
{
	enum { COUNT = 100 };
	int c[COUNT], s[COUNT], i;

	for (i = 0; i < COUNT; i++) {
		c[i] = end_connect(END_L5, &self->to);
		ASSERT_LE(0, c[i]);
		ASSERT_EQ(L5_TRANSPORT_SHM, l5_transport(c[i]));
		ASSERT_TRUE(end_put(c[i], 100 + i, i));
	}
	for (i = 0; i < COUNT; i++) {
		s[i] = accept(self->listener, NULL, NULL);
		ASSERT_LE(0, s[i]);
		EXPECT_TRANSPORT(L5_TRANSPORT_SHM, L5_REASON_NONE, c[i], s[i]);
		/*
		 * in the order they came, or the bytes are those of another
		 * connection
		 */
		ASSERT_TRUE(end_get(s[i], 100 + i, i));
		ASSERT_TRUE(end_put(s[i], 5000, i));
		ASSERT_TRUE(end_get(c[i], 5000, i));
	}
	for (i = 0; i < COUNT; i++) {
		close(i & 1 ? c[i] : s[i]);
		close(i & 1 ? s[i] : c[i]);
	}
}

/* Either end may speak first. */
TEST_F_TIMEOUT(rendezvous_find, first_byte, 300)
{
	int i;

	for (i = 0; i < 60; i++) {
		int c, s;

		c = end_connect(END_L5, &self->to);
		ASSERT_LE(0, c);
		if (i % 3 == 1) /* before the server knows of it */
			ASSERT_TRUE(end_put(c, 700, 0));
		s = accept(self->listener, NULL, NULL);
		ASSERT_LE(0, s);
		if (i % 3 == 0) {
			ASSERT_TRUE(end_put(s, 700, 0));
			ASSERT_TRUE(end_get(c, 700, 0));
		} else if (i % 3 == 1) {
			ASSERT_TRUE(end_get(s, 700, 0));
		} else {
			ASSERT_TRUE(end_put(s, 700, 0));
			ASSERT_TRUE(end_put(c, 700, 0));
			ASSERT_TRUE(end_get(c, 700, 0));
			ASSERT_TRUE(end_get(s, 700, 0));
		}
		EXPECT_TRANSPORT(L5_TRANSPORT_SHM, L5_REASON_NONE, c, s);
		close(c);
		close(s);
	}
}

/* EPOLLOUT means connected; then the transport is decided on both ends. */
TEST_F_TIMEOUT(rendezvous_find, nonblocking, 300)
{
	int ep = epoll_create1(EPOLL_CLOEXEC), i;

	ASSERT_LE(0, ep);
	for (i = 0; i < 60; i++) {
		struct epoll_event ev = { .events = EPOLLOUT };
		int c = end_socket(END_L5, self->to.sa.sa_family), s, err;
		socklen_t len = sizeof(err);

		ASSERT_LE(0, c);
		ASSERT_EQ(0, fcntl(c, F_SETFL, O_NONBLOCK));
		if (connect(c, &self->to.sa, self->to.len))
			ASSERT_EQ(EINPROGRESS, errno);
		ASSERT_EQ(0, epoll_ctl(ep, EPOLL_CTL_ADD, c, &ev));
		ASSERT_EQ(1, epoll_wait(ep, &ev, 1, 60000 * l5_slow()));
		ASSERT_EQ(EPOLLOUT, ev.events);
		ASSERT_EQ(0, getsockopt(c, SOL_SOCKET, SO_ERROR, &err, &len));
		ASSERT_EQ(0, err);
		ASSERT_EQ(L5_TRANSPORT_SHM, l5_getopt(c, L5_TRANSPORT));
		s = accept(self->listener, NULL, NULL);
		ASSERT_LE(0, s);
		ASSERT_EQ(L5_TRANSPORT_SHM, l5_getopt(s, L5_TRANSPORT));
		ASSERT_TRUE(end_exchange(c, s, 3000, i));
		if (!is_unix(&self->to)) {
			/* TCP says once that the attempt has succeeded */
			connect(c, &self->to.sa, self->to.len);
			ASSERT_EQ(-1, connect(c, &self->to.sa, self->to.len));
			ASSERT_EQ(EISCONN, errno);
		}
		close(c);
		close(s);
	}
	close(ep);
}

/* A server accepting in another process, blocked in accept() before us. */
TEST_F_TIMEOUT(rendezvous_find, blocked_accept, 300)
{
	const int count = 100;
	int status, i;
	pid_t pid;

	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		for (i = 0; i < count; i++) {
			int s = accept(self->listener, NULL, NULL);
			char t;

			if (s < 0 || !end_put(s, 1000, i))
				_exit(1);
			t = l5_transport(s);
			if (send(s, &t, 1, MSG_NOSIGNAL) != 1 ||
			    !end_get(s, 1000, i))
				_exit(2);
			close(s);
		}
		_exit(0);
	}
	for (i = 0; i < count; i++) {
		int c;
		char t;

		if (i % 4 == 0)
			ASSERT_TRUE(l5_wait_asleep(pid));
		c = end_connect(END_L5, &self->to);
		ASSERT_LE(0, c);
		ASSERT_TRUE(end_get(c, 1000, i));
		ASSERT_EQ(1, recv(c, &t, 1, 0));
		ASSERT_EQ(L5_TRANSPORT_SHM, t);
		ASSERT_EQ(L5_TRANSPORT_SHM, l5_transport(c));
		ASSERT_TRUE(end_put(c, 1000, i));
		ASSERT_EQ(0, recv(c, &t, 1, 0));
		close(c);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
}

static void plain(struct __test_metadata *_metadata, enum end_kind ck, int l,
		  enum end_kind sk, const struct addr *to, int reason)
{
	struct capture cap = { .fd = -1 };
	uint64_t sent = 0;
	char buf[64];
	int i, c, s;

	if (!is_unix(to))
		ASSERT_TRUE(capture_start(&cap, "lo", addr_port(to)));
	for (i = 0; i < 50; i++) {
		c = end_connect(ck, to);
		ASSERT_LE(0, c);
		s = accept(l, NULL, NULL);
		ASSERT_LE(0, s);
		if (ck == END_L5) {
			ASSERT_EQ(L5_TRANSPORT_BASE, l5_transport(c));
			ASSERT_EQ(reason, end_reason(c));
		}
		if (sk == END_L5) {
			ASSERT_EQ(L5_TRANSPORT_BASE, l5_transport(s));
			ASSERT_EQ(reason, end_reason(s));
		}
		/* the first read is what was written, not a byte more */
		ASSERT_EQ(5, send(s, "hello", 5, 0));
		ASSERT_EQ(5, recv(c, buf, sizeof(buf), 0));
		ASSERT_EQ(0, memcmp(buf, "hello", 5));
		ASSERT_EQ(3, send(c, "you", 3, 0));
		ASSERT_EQ(3, recv(s, buf, sizeof(buf), 0));
		ASSERT_EQ(0, memcmp(buf, "you", 3));
		ASSERT_TRUE(end_exchange(c, s, 2000 + i, i));
		sent += 8 + 2 * (2000 + i);
		ASSERT_EQ(0, shutdown(c, SHUT_WR));
		ASSERT_EQ(0, recv(s, buf, sizeof(buf), 0));
		ASSERT_EQ(0, shutdown(s, SHUT_WR));
		ASSERT_EQ(0, recv(c, buf, sizeof(buf), 0));
		close(c);
		close(s);
	}
	if (!is_unix(to)) {
		ASSERT_TRUE(capture_stop(&cap));
		EXPECT_EQ(sent, cap.payload);
	}
}

TEST_F_TIMEOUT(rendezvous_find, plain_client, 300)
{
	struct addr to = self->to;

	plain(_metadata, END_TCP, self->listener, END_L5, &to, L5_REASON_PEER);
}

TEST_F_TIMEOUT(rendezvous_find, plain_server, 300)
{
	struct addr to;
	int l;

	close(self->listener);
	l = listen_at(END_TCP, variant->at, variant->to, &to);
	ASSERT_LE(0, l);
	plain(_metadata, END_L5, l, END_TCP, &to, L5_REASON_PEER);
	close(l);
}

/* A client of a plain server does not wait for what cannot come. */
TEST_F_TIMEOUT(rendezvous_find, plain_server_no_wait, 300)
{
	long old = l5_sysctl("match_ms", 10000);
	int64_t begin = l5_now_ms(), took;
	struct addr to;
	int l, i, c, s;

	ASSERT_LE(0, old);
	close(self->listener);
	l = listen_at(END_TCP, variant->at, variant->to, &to);
	ASSERT_LE(0, l);
	for (i = 0; i < 20; i++) {
		c = end_connect(END_L5, &to);
		ASSERT_LE(0, c);
		s = accept(l, NULL, NULL);
		ASSERT_LE(0, s);
		close(c);
		close(s);
	}
	took = l5_now_ms() - begin;
	l5_sysctl("match_ms", old);
	/* one wait would be 5 s, all of them 100 s */
	EXPECT_GT(20000 * l5_slow(), took);
	close(l);
}

TEST_F_TIMEOUT(rendezvous_find, forced_client, 300)
{
	int base = L5_TRANSPORT_BASE, i, c, s;

	for (i = 0; i < 30; i++) {
		c = end_socket(END_L5, self->to.sa.sa_family);
		ASSERT_LE(0, c);
		ASSERT_EQ(0, setsockopt(c, SOL_L5, L5_FORCE, &base,
					sizeof(base)));
		ASSERT_EQ(base, l5_getopt(c, L5_FORCE));
		ASSERT_EQ(0, connect(c, &self->to.sa, self->to.len));
		s = accept(self->listener, NULL, NULL);
		ASSERT_LE(0, s);
		ASSERT_EQ(L5_TRANSPORT_BASE, l5_transport(c));
		ASSERT_EQ(L5_TRANSPORT_BASE, l5_transport(s));
		ASSERT_EQ(L5_REASON_FORCED, end_reason(c));
		ASSERT_EQ(L5_REASON_PEER, end_reason(s));
		ASSERT_TRUE(end_exchange(c, s, 5000, i));
		close(c);
		close(s);
	}
}

TEST_F_TIMEOUT(rendezvous_find, forced_server, 300)
{
	int base = L5_TRANSPORT_BASE, i, c, s, l, one = 1;
	struct addr a = addr_parse(variant->at);
	long old = l5_sysctl("match_ms", 10000);
	int64_t begin = l5_now_ms();

	close(self->listener);
	l = end_socket(END_L5, a.sa.sa_family);
	ASSERT_LE(0, l);
	if (is_unix(&a) && a.un.sun_path[0])
		unlink(a.un.sun_path);
	setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	ASSERT_EQ(0, setsockopt(l, SOL_L5, L5_FORCE, &base, sizeof(base)));
	if (!is_unix(&a))
		addr_set_port(&a, addr_port(&self->to));
	ASSERT_EQ(0, bind(l, &a.sa, a.len));
	ASSERT_EQ(0, listen(l, 100));
	for (i = 0; i < 20; i++) {
		c = end_connect(END_L5, &self->to);
		ASSERT_LE(0, c);
		s = accept(l, NULL, NULL);
		ASSERT_LE(0, s);
		ASSERT_EQ(L5_TRANSPORT_BASE, l5_transport(c));
		ASSERT_EQ(L5_TRANSPORT_BASE, l5_transport(s));
		ASSERT_EQ(L5_REASON_FORCED, end_reason(s));
		ASSERT_EQ(L5_REASON_PEER, end_reason(c));
		ASSERT_EQ(base, l5_getopt(s, L5_FORCE));
		ASSERT_TRUE(end_exchange(c, s, 5000, i));
		close(c);
		close(s);
	}
	l5_sysctl("match_ms", old);
	EXPECT_GT(20000 * l5_slow(), l5_now_ms() - begin);
	close(l);
}

/* net.l5.enabled decides at the moment of each connection. */
TEST_F_TIMEOUT(rendezvous_find, disabled, 300)
{
	int i, c, s;

	for (i = 0; i < 40; i++) {
		bool on = i & 1;

		ASSERT_LE(0, l5_sysctl("enabled", on));
		c = end_connect(END_L5, &self->to);
		s = accept(self->listener, NULL, NULL);
		l5_sysctl("enabled", 1);
		ASSERT_LE(0, c);
		ASSERT_LE(0, s);
		ASSERT_EQ(on ? L5_TRANSPORT_SHM : L5_TRANSPORT_BASE,
			  l5_transport(c));
		ASSERT_EQ(on ? L5_TRANSPORT_SHM : L5_TRANSPORT_BASE,
			  l5_transport(s));
		ASSERT_EQ(on ? L5_REASON_NONE : L5_REASON_DISABLED,
			  end_reason(c));
		ASSERT_TRUE(end_exchange(c, s, 5000, i));
		close(c);
		close(s);
	}
}

/*
 * Several processes at once. The ends tell each other their transport and the
 * server answers with bytes that only this client expects.
 */
struct storm_msg {
	uint32_t transport;
	uint32_t id;
};

/* What went wrong with a connection, and how it stood then. */
static int storm_bad(const char *who, const char *what, int fd, uint32_t id)
{
	int err = errno;

	fprintf(stderr, "# %s %u: %s: %s, transport %d, %s\n", who, id,
		what, strerror(err), fd < 0 ? -1 : l5_transport(fd),
		end_reason_name(fd < 0 ? -1 : end_reason(fd)));
	return 1;
}

static int storm_serve(int l)
{
	for (;;) {
		struct storm_msg m = { 0 };
		int s = accept(l, NULL, NULL);
		uint32_t t;

		if (s < 0)
			return storm_bad("server", "accept", s, 0);
		if (recv(s, &m, sizeof(m), MSG_WAITALL) != sizeof(m))
			return storm_bad("server", "recv", s, m.id);
		if (m.id == UINT32_MAX)
			return 0;
		t = l5_transport(s);
		if (t != m.transport || t != L5_TRANSPORT_SHM)
			return storm_bad("server", "transport", s, m.id);
		if (!end_put(s, m.id % 4000, m.id))
			return storm_bad("server", "send", s, m.id);
		close(s);
	}
}

static int storm_connect(const struct addr *to, unsigned int base,
			 unsigned int count)
{
	unsigned int i;

	for (i = 0; i < count; i++) {
		struct storm_msg m = { .id = base + i };
		int c = end_connect(END_L5, to), err;
		int64_t n;

		if (c < 0)
			return storm_bad("client", "connect", c, m.id);
		m.transport = l5_transport(c);
		if (send(c, &m, sizeof(m), MSG_NOSIGNAL) != sizeof(m))
			return storm_bad("client", "send", c, m.id);
		n = end_drain(c, m.id, &err);
		errno = err;
		if (err || n != m.id % 4000)
			return storm_bad("client", "recv", c, m.id);
		close(c);
	}
	return 0;
}

TEST_F_TIMEOUT(rendezvous_find, storm, 300)
{
	enum { SERVERS = 3, CLIENTS = 4, COUNT = 100 };
	struct storm_msg stop = { .id = UINT32_MAX };
	pid_t server[SERVERS], client[CLIENTS];
	int i, status, c;

	for (i = 0; i < SERVERS; i++) {
		server[i] = fork();
		ASSERT_LE(0, server[i]);
		if (!server[i])
			_exit(storm_serve(self->listener));
	}
	for (i = 0; i < CLIENTS; i++) {
		client[i] = fork();
		ASSERT_LE(0, client[i]);
		if (!client[i])
			_exit(storm_connect(&self->to, i * 100000, COUNT));
	}
	for (i = 0; i < CLIENTS; i++) {
		ASSERT_EQ(client[i], waitpid(client[i], &status, 0));
		EXPECT_EQ(0, status);
	}
	for (i = 0; i < SERVERS; i++) {
		c = end_connect(END_L5, &self->to);
		ASSERT_LE(0, c);
		ASSERT_EQ((ssize_t)sizeof(stop),
			  send(c, &stop, sizeof(stop), MSG_NOSIGNAL));
		close(c);
	}
	for (i = 0; i < SERVERS; i++) {
		ASSERT_EQ(server[i], waitpid(server[i], &status, 0));
		EXPECT_EQ(0, status);
	}
}

/* Options of TCP that move the moment at which the child exists. */
TEST_F_TIMEOUT(rendezvous_find, defer_accept_and_quickack, 300)
{
	int i, c, s, one = 1, zero = 0;

	if (is_unix(&self->to))
		SKIP(return, "no TCP");
	for (i = 0; i < 30; i++) {
		int defer = i % 2 ? 5 : 0;

		ASSERT_EQ(0, setsockopt(self->listener, IPPROTO_TCP,
					TCP_DEFER_ACCEPT, &defer,
					sizeof(defer)));
		c = end_socket(END_L5, self->to.sa.sa_family);
		ASSERT_LE(0, c);
		ASSERT_EQ(0, setsockopt(c, IPPROTO_TCP, TCP_QUICKACK,
					i % 4 < 2 ? &zero : &one,
					sizeof(zero)));
		ASSERT_EQ(0, connect(c, &self->to.sa, self->to.len));
		ASSERT_TRUE(end_put(c, 1000, i));
		s = accept(self->listener, NULL, NULL);
		ASSERT_LE(0, s);
		ASSERT_EQ(L5_TRANSPORT_SHM, l5_transport(c));
		ASSERT_EQ(L5_TRANSPORT_SHM, l5_transport(s));
		ASSERT_TRUE(end_get(s, 1000, i));
		ASSERT_TRUE(end_exchange(c, s, 5000, i));
		close(c);
		close(s);
	}
}

/*
 * A listener with TCP_DEFER_ACCEPT has no room for another child. A first send
 * that may not wait does not, and what it took arrives, however late.
 */
TEST_F_TIMEOUT(rendezvous_find, defer_full, 300)
{
	enum { CLIENTS = 12 };
	int c[CLIENTS], s, i, taken = 0, defer = 10;
	struct rusage before, after;
	ssize_t n;

	if (is_unix(&self->to))
		SKIP(return, "no TCP");
	ASSERT_EQ(0, setsockopt(self->listener, IPPROTO_TCP, TCP_DEFER_ACCEPT,
				&defer, sizeof(defer)));
	for (i = 0; i < CLIENTS; i++) {
		c[i] = end_connect(END_L5, &self->to);
		ASSERT_LE(0, c[i]);
	}
	ASSERT_EQ(0, listen(self->listener, 0));
	ASSERT_EQ(0, getrusage(RUSAGE_THREAD, &before));
	for (i = 0; i < CLIENTS; i++) {
		n = send(c[i], "first", 5, MSG_DONTWAIT | MSG_NOSIGNAL);
		ASSERT_TRUE(n == 5 || (n == -1 && errno == EAGAIN));
		taken += n == 5;
	}
	ASSERT_EQ(0, getrusage(RUSAGE_THREAD, &after));
	/* a lock may be taken once; a wait would delay each client */
	EXPECT_GT(CLIENTS / 2, after.ru_nvcsw - before.ru_nvcsw);
	EXPECT_EQ(CLIENTS, taken);
	ASSERT_EQ(0, listen(self->listener, CLIENTS));
	for (i = 0; i < taken; i++) {
		char buf[8];

		s = accept(self->listener, NULL, NULL);
		ASSERT_LE(0, s);
		EXPECT_EQ(5, recv(s, buf, sizeof(buf), 0));
		EXPECT_EQ(0, memcmp(buf, "first", 5));
		close(s);
	}
	for (i = 0; i < CLIENTS; i++)
		close(c[i]);
}

PLAIN_FIXTURE(rendezvous_find_alone)

/*
 * Of many AF_UNIX listeners each is found, as they come and go. This does not
 * show that their number costs no time: no test measures time.
 */
TEST_F(rendezvous_find_alone, unix_among_many)
{
	enum { MANY = 600 };
	struct rlimit files = { 4 * MANY, 4 * MANY };
	static struct addr at[MANY];
	static int l[MANY];
	int i, c, s;

	l5_or_skip();
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &files));
	for (i = 0; i < MANY; i++) {
		/* the kernel makes up the name */
		at[i].un.sun_family = AF_UNIX;
		at[i].len = sizeof(sa_family_t);
		l[i] = end_listen(END_L5, &at[i]);
		ASSERT_LE(0, l[i]);
		at[i].len = sizeof(at[i].ss);
		ASSERT_EQ(0, getsockname(l[i], &at[i].sa, &at[i].len));
	}
	for (i = 0; i < MANY; i++) {
		if (i % 3 == 0)
			close(l[i]);
		if (i % 3 == 0 || i % 50)
			continue;
		c = end_connect(END_L5, &at[i]);
		ASSERT_LE(0, c);
		/* before accept() */
		EXPECT_EQ(L5_TRANSPORT_SHM, l5_transport(c));
		s = accept(l[i], NULL, NULL);
		ASSERT_LE(0, s);
		EXPECT_EQ(L5_TRANSPORT_SHM, l5_transport(s));
		EXPECT_TRUE(end_exchange(c, s, 3000, i));
		close(c);
		close(s);
	}
	EXPECT_EQ(-ECONNREFUSED, end_connect(END_L5, &at[0]));
	for (i = 0; i < MANY; i++)
		if (i % 3)
			close(l[i]);
}

TEST_HARNESS_MAIN
