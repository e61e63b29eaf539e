// SPDX-License-Identifier: GPL-2.0
/*
 * libl5 over RDMA: connections that move while they are in use, and mailboxes.
 * Both ends are here, connected by the address of a software device.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "l5test.h"
#include "libl5.h"
#include "libl5_ends.h"
#include "rdma_here.h"
#include "stream.h"

FIXTURE(libl5_rdma)
{
	struct place at;
	int listener;
	struct l5_stream *c, *s;
};

FIXTURE_SETUP(libl5_rdma)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGPIPE, SIG_IGN);
	if (!rdma_here())
		SKIP(return, "no RDMA device can be made here");
	setenv("L5_TRANSPORT", "rdma", 1);
	self->listener = place_listen(&self->at, RDMA_HERE);
	ASSERT_LE(0, self->listener);
	self->c = place_connect(&self->at, SOCK_CLOEXEC);
	ASSERT_NE(NULL, self->c);
	self->s = l5_accept(self->listener, SOCK_CLOEXEC);
	ASSERT_NE(NULL, self->s);
}

FIXTURE_TEARDOWN(libl5_rdma)
{
	if (self->c)
		EXPECT_EQ(0, l5_close(self->c));
	if (self->s)
		EXPECT_EQ(0, l5_close(self->s));
	if (self->listener > 0)
		close(self->listener);
}

/* Wait until it is mapped; what is sent meanwhile has to be read. */
static bool moved(struct l5_stream *c)
{
	int64_t end = l5_now_ms() + RDMA_MOVE_MS;

	while (!l5_stream_mapped(c)) {
		if (errno != EAGAIN || l5_now_ms() > end) {
			printf("# not moved: %s, transport %d, reason %d\n",
			       strerror(errno),
			       l5_getopt(l5_stream_fd(c), L5_TRANSPORT),
			       l5_getopt(l5_stream_fd(c), L5_REASON));
			return false;
		}
		usleep(1000);
	}
	return l5_getopt(l5_stream_fd(c), L5_TRANSPORT) == L5_TRANSPORT_RDMA;
}

static bool there(struct stream *s)
{
	return l5_stream_mapped(s->conn);
}

static ssize_t send_some(struct stream *s, uint8_t *buf, size_t n)
{
	ssize_t ret = send_way(s->conn, l5_rnd(&s->seed) % SENDS_BLOCK, buf, n);

	/* none of these sends nothing */
	return ret ? ret : -1;
}

static ssize_t recv_some(struct stream *s, uint8_t *buf, size_t n)
{
	return recv_way(s->conn, l5_rnd(&s->seed) % RECVS_BLOCK, buf, n);
}

static struct stream sender(struct l5_stream *c, uint64_t seed)
{
	return (struct stream){
		.move = send_some, .there = there, .conn = c,
		.fd = l5_stream_fd(c), .most = 20000, .total = 2 << 20,
		.shuts = true, .seed = seed,
	};
}

static struct stream receiver(struct l5_stream *c, uint64_t seed)
{
	return (struct stream){
		.move = recv_some, .conn = c, .most = 20000, .seed = seed,
	};
}

/* Both directions at once, every way to call, before, while and after. */
TEST_F_TIMEOUT(libl5_rdma, streams, 500)
{
	struct stream up[2], down[2];
	pthread_t t[4];

	up[0] = sender(self->c, 1);
	up[1] = receiver(self->s, 2);
	down[0] = sender(self->s, 3);
	down[1] = receiver(self->c, 4);
	pthread_create(&t[0], NULL, stream_send, &up[0]);
	pthread_create(&t[1], NULL, stream_recv, &up[1]);
	pthread_create(&t[2], NULL, stream_send, &down[0]);
	pthread_create(&t[3], NULL, stream_recv, &down[1]);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	TH_LOG("moved after %llu and %llu bytes of %llu and %llu",
	       (unsigned long long)up[0].first,
	       (unsigned long long)down[0].first,
	       (unsigned long long)up[0].at, (unsigned long long)down[0].at);
	EXPECT_EQ(0, up[0].err);
	EXPECT_EQ(0, up[1].err);
	EXPECT_EQ(0, down[0].err);
	EXPECT_EQ(0, down[1].err);
	EXPECT_EQ(up[0].at, up[1].at);
	EXPECT_EQ(down[0].at, down[1].at);
	EXPECT_EQ(0, up[1].bad + down[1].bad);
	EXPECT_NE(0, up[0].first);
	EXPECT_NE(0, down[0].first);
	EXPECT_EQ(L5_TRANSPORT_RDMA, l5_transport(l5_stream_fd(self->c)));
	EXPECT_EQ(L5_TRANSPORT_RDMA, l5_transport(l5_stream_fd(self->s)));
	/* each host has memory of its own */
	EXPECT_EQ(NULL, l5_region_make(self->c, 1, true));
	EXPECT_EQ(EOPNOTSUPP, errno);
}

/* A connection maps itself by being used, without being asked to. */
TEST_F_TIMEOUT(libl5_rdma, itself, 200)
{
	long long before;
	char buf[8];
	int i;

	ASSERT_TRUE(l5_transport(l5_stream_fd(self->c)) > 0);
	before = l5_stat("maps");
	for (i = 0; i < 100000 && l5_stat("maps") < before + 2; i++) {
		ASSERT_EQ(2, l5_send(self->c, "ab", 2, 0));
		ASSERT_EQ(2, l5_recv(self->s, buf, 8, 0));
		ASSERT_EQ(2, l5_send(self->s, "cd", 2, 0));
		ASSERT_EQ(2, l5_recv(self->c, buf, 8, 0));
		if (l5_stat("conn_rdma") < 0)
			break;
	}
	TH_LOG("mapped after %d round trips", i);
	EXPECT_LE(before + 2, l5_stat("maps"));
	EXPECT_TRUE(l5_stream_mapped(self->c));
	EXPECT_TRUE(l5_stream_mapped(self->s));
}

/* A connection that stays on TCP says so, and why. */
TEST_F_TIMEOUT(libl5_rdma, stays, 100)
{
	struct l5_stream *c;

	ASSERT_TRUE(moved(self->c));
	setenv("L5_TRANSPORT", "base", 1);
	c = place_connect(&self->at, 0);
	ASSERT_NE(NULL, c);
	EXPECT_FALSE(l5_stream_mapped(c));
	EXPECT_EQ(EOPNOTSUPP, errno);
	EXPECT_EQ(0, l5_close(c));
	setenv("L5_TRANSPORT", "udp", 1);
	EXPECT_EQ(NULL, place_connect(&self->at, 0));
	EXPECT_EQ(EINVAL, errno);
	setenv("L5_TRANSPORT", "rdma", 1);
	setenv("L5_RDMA_WAIT", "1s", 1);
	EXPECT_EQ(-1, l5_socket(AF_INET, 0));
	EXPECT_EQ(EINVAL, errno);
}

/* connect() that waits for it */
static void *accept_one(void *arg)
{
	return l5_accept(*(int *)arg, 0);
}

TEST_F_TIMEOUT(libl5_rdma, waits, 100)
{
	struct l5_stream *c, *s;
	pthread_t t;
	void *ret;

	s = place_connect(&self->at, 0);
	ASSERT_NE(NULL, s);
	l5_close(s);
	l5_close(l5_accept(self->listener, 0));
	setenv("L5_RDMA_WAIT", "60000", 1);
	pthread_create(&t, NULL, accept_one, &self->listener);
	c = place_connect(&self->at, 0);
	ASSERT_NE(NULL, c);
	pthread_join(t, &ret);
	s = ret;
	ASSERT_NE(NULL, s);
	EXPECT_EQ(60000, l5_getopt(l5_stream_fd(c), L5_RDMA_WAIT));
	EXPECT_TRUE(moved(c));
	EXPECT_TRUE(moved(s));
	EXPECT_EQ(0, l5_close(c));
	EXPECT_EQ(0, l5_close(s));
}

/* Sleeping and waking, room, and the end. */
static void *late(void *arg)
{
	l5_wait_asleep(getpid());
	l5_send(arg, "late", 4, 0);
	return NULL;
}

TEST_F_TIMEOUT(libl5_rdma, sleeps, 200)
{
	struct l5_event e[2] = {
		{ .conn = self->c, .events = POLLIN },
		{ .conn = self->s, .events = POLLIN },
	};
	size_t sent = 0, got = 0;
	static char buf[65536];
	pthread_t t;
	ssize_t n;
	int i;

	ASSERT_TRUE(moved(self->c));
	ASSERT_TRUE(moved(self->s));
	ASSERT_EQ(0, l5_wait(self->c, POLLIN, 20));
	ASSERT_EQ(POLLOUT, l5_wait(self->c, POLLIN | POLLOUT, 20));
	for (i = 0; i < 6; i++) {
		pthread_create(&t, NULL, late, self->s);
		ASSERT_TRUE(i % 3 == 2 ||
			    (i % 3 ? l5_wait_any(e, 2, -1) == 1 :
			     l5_wait(self->c, POLLIN, -1) == POLLIN));
		ASSERT_EQ(4, l5_recv(self->c, buf, 8, 0));
		pthread_join(t, NULL);
	}
	/* until it is full, and until there is room again */
	while ((n = l5_send(self->c, buf, sizeof(buf), MSG_DONTWAIT)) > 0)
		sent += n;
	ASSERT_EQ(EAGAIN, errno);
	ASSERT_EQ(0, l5_wait(self->c, POLLOUT, 50));
	while (got < sent) {
		n = l5_recv(self->s, buf, sizeof(buf), 0);
		ASSERT_LT(0, n);
		got += n;
	}
	ASSERT_EQ(POLLOUT, l5_wait(self->c, POLLOUT, 10000 * l5_slow()));
	/* what was sent comes before the end */
	ASSERT_EQ(4, l5_send(self->c, "last", 4, 0));
	ASSERT_EQ(0, l5_close(self->c));
	self->c = NULL;
	ASSERT_EQ(4, l5_recv(self->s, buf, 8, 0));
	ASSERT_TRUE(l5_wait(self->s, POLLIN, 10000 * l5_slow()) & POLLIN);
	ASSERT_EQ(0, l5_recv(self->s, buf, 8, 0));
}

/* A child maps for itself. */
TEST_F_TIMEOUT(libl5_rdma, child, 200)
{
	char buf[8];
	int status;
	pid_t pid;

	ASSERT_TRUE(moved(self->c));
	ASSERT_TRUE(moved(self->s));
	pid = fork();
	if (!pid) {
		if (!l5_stream_mapped(self->s))
			_exit(1);
		if (l5_recv(self->s, buf, 8, 0) != 2)
			_exit(2);
		_exit(l5_send(self->s, "yes", 3, 0) != 3);
	}
	ASSERT_EQ(2, l5_send(self->c, "do", 2, 0));
	ASSERT_EQ(3, l5_recv(self->c, buf, 8, 0));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
	ASSERT_EQ(2, l5_send(self->c, "me", 2, 0));
	ASSERT_EQ(2, l5_recv(self->s, buf, 8, 0));
}

/* A peer that is killed ends both directions, whatever they wait in. */
struct flood {
	struct l5_stream *c;
	int way;
	int calls;
	int64_t ended;
};

static void *flood_send(void *arg)
{
	static uint8_t buf[30000];
	struct flood *f = arg;

	while (send_way(f->c, f->way, buf, sizeof(buf)) > 0)
		__atomic_store_n(&f->calls, f->calls + 1,
				 __ATOMIC_RELAXED);
	f->ended = l5_now_ms();
	return NULL;
}

static void *flood_recv(void *arg)
{
	struct flood *f = arg;
	uint8_t buf[30000];

	while (recv_way(f->c, f->way, buf, sizeof(buf)) > 0)
		__atomic_store_n(&f->calls, f->calls + 1,
				 __ATOMIC_RELAXED);
	f->ended = l5_now_ms();
	return NULL;
}

static int calls_of(struct flood *f)
{
	return __atomic_load_n(&f->calls, __ATOMIC_RELAXED);
}

static void killed(struct __test_metadata *_metadata, struct l5_stream *c,
		   struct l5_stream *s, int way, bool reads)
{
	struct flood f[2] = { { .c = c, .way = way }, { .c = c, .way = way } };
	struct flood g[2] = { { .c = s, .way = way }, { .c = s, .way = way } };
	int64_t end;
	pthread_t t[2];
	pid_t pid;

	pid = fork();
	if (!pid) {
		close(l5_stream_fd(c));
		pthread_create(&t[0], NULL, flood_send, &g[0]);
		if (reads)
			flood_recv(&g[1]);
		for (;;)
			pause();
	}
	l5_close(s);
	pthread_create(&t[0], NULL, flood_send, &f[0]);
	pthread_create(&t[1], NULL, flood_recv, &f[1]);
	/* both directions are busy, or one is full */
	ASSERT_TRUE(L5_UNTIL(calls_of(&f[0]) >= (reads ? 8 : 1) &&
			     calls_of(&f[1]) >= 8, 20000 * l5_slow()));
	ASSERT_EQ(0, f[0].ended);
	ASSERT_EQ(0, f[1].ended);
	kill(pid, SIGKILL);
	ASSERT_EQ(pid, waitpid(pid, NULL, 0));
	end = l5_now_ms() + 20000 * l5_slow();
	while (!(__atomic_load_n(&f[0].ended, __ATOMIC_RELAXED) &&
		 __atomic_load_n(&f[1].ended, __ATOMIC_RELAXED)) &&
	       l5_now_ms() < end)
		usleep(10000);
	EXPECT_NE(0, f[0].ended) {
		TH_LOG("way %d, %d: the sender hangs", way, reads);
	}
	EXPECT_NE(0, f[1].ended) {
		TH_LOG("way %d, %d: the receiver hangs", way, reads);
	}
	if (f[0].ended && f[1].ended) {
		pthread_join(t[0], NULL);
		pthread_join(t[1], NULL);
	}
}

TEST_F_TIMEOUT(libl5_rdma, killed, 400)
{
	int i;

	for (i = 0; i < 8; i++) {
		struct l5_stream *c = place_connect(&self->at, 0);
		struct l5_stream *s = l5_accept(self->listener, 0);

		ASSERT_TRUE(moved(c));
		ASSERT_TRUE(moved(s));
		killed(_metadata, c, s, i / 2, i % 2);
		l5_close(c);
	}
}

/* Many clients, one mailbox. */
enum { CLIENTS = 12 };

struct many {
	struct l5_mailbox *b;
	struct l5_stream *c[CLIENTS];
	struct l5_stream *s[CLIENTS];
	struct l5_event e[CLIENTS];
};

static bool many_one(struct many *m, int i, int listener,
		     const struct place *at)
{
	m->c[i] = place_connect(at, 0);
	m->s[i] = l5_accept(listener, 0);
	if (!m->c[i] || !m->s[i] || l5_mailbox_attach(m->b, m->s[i]))
		return false;
	m->e[i] = (struct l5_event){ .conn = m->s[i], .events = POLLIN };
	return moved(m->c[i]) && moved(m->s[i]) &&
	       l5_stream_mailbox(m->s[i]) >= 0;
}

/* Poll until there is something, or 10 s are over */
static int poll_some(struct many *m, struct l5_stream **got, int max)
{
	int64_t end = l5_now_ms() + 10000 * l5_slow();
	int n;

	do
		n = l5_mailbox_poll(m->b, got, max);
	while (!n && l5_now_ms() < end);
	return n;
}

TEST_F_TIMEOUT(libl5_rdma, mailbox, 400)
{
	struct l5_stream *got[CLIENTS];
	struct many m = { 0 };
	int i, j, n, seen;
	char buf[64];

	EXPECT_EQ(NULL, l5_mailbox_open(l5_stream_fd(self->c)));
	m.b = l5_mailbox_open(self->listener);
	ASSERT_NE(NULL, m.b);
	/* the one before has none */
	ASSERT_EQ(0, l5_mailbox_attach(m.b, self->s));
	for (i = 0; i < CLIENTS; i++)
		ASSERT_TRUE(many_one(&m, i, self->listener, &self->at));
	for (i = 0; i < CLIENTS; i++)
		for (j = 0; j < i; j++)
			ASSERT_NE(l5_stream_mailbox(m.s[i]),
				  l5_stream_mailbox(m.s[j]));
	/* all are new */
	ASSERT_EQ(CLIENTS, l5_mailbox_poll(m.b, got, CLIENTS));
	/* each alone */
	for (i = 0; i < 3 * CLIENTS; i++) {
		j = i * 5 % CLIENTS;
		ASSERT_EQ(2, l5_send(m.c[j], "hi", 2, 0));
		ASSERT_EQ(1, poll_some(&m, got, CLIENTS));
		ASSERT_EQ(m.s[j], got[0]);
		ASSERT_EQ(2, l5_recv(got[0], buf, 64, MSG_DONTWAIT));
		ASSERT_EQ(2, l5_send(got[0], "ho", 2, 0));
		ASSERT_EQ(2, l5_recv(m.c[j], buf, 64, 0));
	}
	/* all at once */
	for (i = 0; i < CLIENTS; i++)
		ASSERT_EQ(3, l5_send(m.c[i], "all", 3, 0));
	for (seen = 0; seen < CLIENTS; seen += n) {
		n = poll_some(&m, got, 5);
		ASSERT_LT(0, n);
		for (i = 0; i < n; i++)
			ASSERT_EQ(3, l5_recv(got[i], buf, 64, MSG_DONTWAIT));
	}
	ASSERT_EQ(0, l5_mailbox_poll(m.b, got, CLIENTS));
	/* a thread that waits looks there, and sleeps as without a mailbox */
	ASSERT_EQ(0, l5_wait_any(m.e, CLIENTS, 20));
	for (i = 0; i < 3 * CLIENTS; i++) {
		pthread_t t;

		j = i * 7 % CLIENTS;
		pthread_create(&t, NULL, late, m.c[j]);
		ASSERT_EQ(1, l5_wait_any(m.e, CLIENTS, -1));
		ASSERT_EQ(POLLIN, m.e[j].revents);
		ASSERT_EQ(4, l5_recv(m.s[j], buf, 64, 0));
		pthread_join(t, NULL);
	}
	/* the end of one */
	ASSERT_EQ(0, l5_close(m.c[3]));
	ASSERT_EQ(1, l5_wait_any(m.e, CLIENTS, 10000 * l5_slow()));
	ASSERT_TRUE(m.e[3].revents & POLLIN);
	ASSERT_EQ(0, l5_recv(m.s[3], buf, 64, 0));
	ASSERT_EQ(0, l5_close(m.s[3]));
	/* another in its place */
	ASSERT_TRUE(many_one(&m, 3, self->listener, &self->at));
	ASSERT_EQ(2, l5_send(m.c[3], "hi", 2, 0));
	ASSERT_EQ(1, l5_wait_any(m.e, CLIENTS, -1));
	ASSERT_EQ(POLLIN, m.e[3].revents);
	/* all of it ends, the mailbox first */
	l5_mailbox_close(m.b);
	ASSERT_EQ(1, l5_wait_any(m.e, CLIENTS, -1));
	for (i = 0; i < CLIENTS; i++) {
		ASSERT_EQ(0, l5_close(m.c[i]));
		ASSERT_EQ(0, l5_close(m.s[i]));
	}
}

TEST_HARNESS_MAIN
