// SPDX-License-Identifier: GPL-2.0
/*
 * TIME_WAIT belongs to the end that closes first: a server whose clients close
 * can bind its port again at once, without SO_REUSEADDR, and one that closes
 * cannot. The other end reacts to the end of the stream as fast as can be, on
 * another CPU if there is one, and is not to be ahead of TCP's FIN.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "ends.h"

#define ROUNDS		50
#define TRIPS		30
#define WAIT_MS		(30000 * l5_slow())

/* How the first one ends. */
enum how { CLOSES, SHUTS, LINGERS };

FIXTURE(life_time_wait)
{
};

FIXTURE_VARIANT(life_time_wait)
{
	enum end_kind kind;
	bool server;		/* is first */
	bool sleeps;		/* the other, in recv() */
	enum how how;
};

#define TIME_WAIT(name, ...)						\
	FIXTURE_VARIANT_ADD(life_time_wait, name) { __VA_ARGS__ }
#define RINGS(name, ...) TIME_WAIT(name, .kind = END_L5, __VA_ARGS__)

RINGS(client_closes, .how = CLOSES);
RINGS(client_closes_sleeper, .how = CLOSES, .sleeps = true);
RINGS(client_shuts, .how = SHUTS);
RINGS(client_shuts_sleeper, .how = SHUTS, .sleeps = true);
RINGS(client_lingers, .how = LINGERS);
RINGS(server_closes, .server = true, .how = CLOSES);
RINGS(server_shuts, .server = true, .how = SHUTS);
RINGS(server_closes_sleeper, .server = true, .sleeps = true);
TIME_WAIT(on_tcp, .kind = END_TCP);
TIME_WAIT(on_tcp_server, .kind = END_TCP, .server = true);

FIXTURE_SETUP(life_time_wait)
{
	(void)self;
	(void)variant;
	l5_or_skip();
	signal(SIGPIPE, SIG_IGN);
}

FIXTURE_TEARDOWN(life_time_wait)
{
	(void)self;
	(void)variant;
	(void)_metadata;
}

/* The end that answers, and closes once the stream has ended. */
static void *second(void *arg)
{
	const int *way = arg;
	int fd = way[0], flags = way[1] ? 0 : MSG_DONTWAIT;
	ssize_t n;
	char b;

	for (;;) {
		n = recv(fd, &b, 1, flags);
		if (n == 1 && send(fd, &b, 1, 0) == 1)
			continue;
		if (n < 0 && errno == EAGAIN)
			continue;
		break;
	}
	close(fd);
	return (void *)(long)(n ? errno : 0);
}

enum { ST_TIME_WAIT = 6 };

/* Sockets between two ports: all; the client's, the server's in TIME_WAIT */
struct between {
	int all, client, server;
};

/* In one go: the kernel looks through all of its table each time. */
static struct between count(int client, int server)
{
	struct between n = { 0 };
	unsigned int l, r, st;
	char line[512];
	bool first, second;
	FILE *f = fopen("/proc/net/tcp", "re");

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, " %*d: %*8x:%x %*8x:%x %x", &l, &r, &st) != 3)
			continue;
		first = (int)l == client && (int)r == server;
		second = (int)l == server && (int)r == client;
		n.all += first || second;
		n.client += first && st == ST_TIME_WAIT;
		n.server += second && st == ST_TIME_WAIT;
	}
	if (f)
		fclose(f);
	return n;
}

/*
 * All is over between two ports but a TIME_WAIT of one of them: whose? 1 the
 * client's, 2 the server's, 3 of both, 0 of none, -1 if it is never over.
 */
static int settles(int client, int server)
{
	int64_t end = l5_now_ms() + WAIT_MS;
	struct between n;

	do {
		n = count(client, server);
		if (n.all == n.client + n.server)
			return !!n.client + 2 * !!n.server;
		usleep(1000);
	} while (l5_now_ms() < end);
	return -1;
}

static int port_of(int fd)
{
	struct addr a = { .len = sizeof(a.ss) };

	return getsockname(fd, &a.sa, &a.len) ? -1 : addr_port(&a);
}

/* Bind and listen without SO_REUSEADDR. */
static int serve(enum end_kind kind, struct addr *a)
{
	int fd = end_socket(kind, AF_INET);

	if (fd < 0)
		return fd;
	if (bind(fd, &a->sa, a->len) || listen(fd, 4)) {
		int err = errno;

		close(fd);
		return -err;
	}
	addr_set_port(a, port_of(fd));
	return fd;
}

static void end_first(int fd, enum how how)
{
	struct linger lg = { 1, 20 };
	char b;

	if (how == LINGERS)
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg));
	if (how == SHUTS) {
		shutdown(fd, SHUT_WR);
		while (recv(fd, &b, 1, 0) > 0)
			;
	}
	close(fd);
}

static void trips(struct __test_metadata *_metadata, int fd)
{
	int i;
	char b = 'x';

	for (i = 0; i < TRIPS; i++) {
		ASSERT_EQ(1, send(fd, &b, 1, 0));
		ASSERT_EQ(1, recv(fd, &b, 1, 0));
	}
}

TEST_F_TIMEOUT(life_time_wait, first, 600)
{
	struct addr a = addr_parse("127.0.0.1:0");
	int way[2], i, l, c, s, server, client, whose, others = 0, nobodys = 0;
	pthread_t t;
	void *err;

	for (i = 0; i < ROUNDS; i++) {
		if (variant->server)
			addr_set_port(&a, 0);
		l = serve(variant->kind, &a);
		if (l < 0)
			TH_LOG("round %d: %s", i, strerror(-l));
		ASSERT_LE(0, l);
		server = addr_port(&a);
		c = end_connect(variant->kind, &a);
		ASSERT_LE(0, c);
		client = port_of(c);
		s = accept(l, NULL, NULL);
		ASSERT_LE(0, s);
		close(l);
		if (variant->kind == END_L5) {
			ASSERT_EQ(L5_TRANSPORT_SHM, l5_transport(c));
			ASSERT_EQ(L5_TRANSPORT_SHM, l5_transport(s));
		}
		way[0] = variant->server ? c : s;
		way[1] = variant->sleeps;
		ASSERT_EQ(0, pthread_create(&t, NULL, second, way));
		trips(_metadata, variant->server ? s : c);
		end_first(variant->server ? s : c, variant->how);
		ASSERT_EQ(0, pthread_join(t, &err));
		/* no reset, nothing was lost */
		EXPECT_EQ(NULL, err);
		whose = settles(client, server);
		ASSERT_LE(0, whose);
		/* a machine that stalls sends its FIN twice, see RFC 1337 */
		nobodys += !whose;
		others += whose && whose != (variant->server ? 2 : 1);
		if (!whose || !variant->server)
			continue;
		l = serve(variant->kind, &a);
		EXPECT_EQ(-EADDRINUSE, l);
		if (l >= 0)
			close(l);
	}
	EXPECT_EQ(0, others);
	EXPECT_GE(ROUNDS / 5, nobodys);
}

TEST_HARNESS_MAIN
