// SPDX-License-Identifier: GPL-2.0
/*
 * What an end that has closed its connection still pays for while its peer
 * keeps the other end, for as long as it likes: what is unread, and what was
 * granted at the start. Nobody loses a byte by that.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hole.h"
#include "kselftest_harness.h"
#include "limit_ends.h"
#include "mapping.h"

/* KiB: what a connection is granted, and what it has without its rings. */
#define GRANT	32
#define REST	16
/* Bytes that fit into a ring of RING KiB, and into many pages. */
#define RING	256
#define BYTES	100000
#define PAGES(n)	(((n) / MAP_PAGE + 3) * (MAP_PAGE >> 10))

enum { CLIENT, SERVER };

FIXTURE(limit_closed)
{
	struct addr to;
	int listener;
};

FIXTURE_VARIANT(limit_closed)
{
	const char *at;
	int closer;
};

#define VARIANTS(name, where)						\
	FIXTURE_VARIANT_ADD(limit_closed, name##_client)		\
	{								\
		.at = where, .closer = CLIENT				\
	};								\
	FIXTURE_VARIANT_ADD(limit_closed, name##_server)		\
	{								\
		.at = where, .closer = SERVER				\
	}
VARIANTS(inet, "127.0.0.1:0");
VARIANTS(unix, "abstract:l5_limit_closed");

FIXTURE_SETUP(limit_closed)
{
	l5_or_skip();
	signal(SIGPIPE, SIG_IGN);
	ASSERT_TRUE(net_unshare());
	ASSERT_LE(0, l5_sysctl("match_ms", 10000));
	ASSERT_LE(0, l5_sysctl("ring_kb", RING));
	self->to = addr_parse(variant->at);
	self->listener = end_listen(END_L5, &self->to);
	ASSERT_LE(0, self->listener);
}

FIXTURE_TEARDOWN(limit_closed)
{
	close(self->listener);
}

/* One end closes, the other does not. */
struct pair {
	int closer;
	int keeper;
};

static bool pair_open(struct pair *p, int l, const struct addr *to, int closer)
{
	int fd[2];

	if (!open_pair(l, to, &fd[CLIENT], &fd[SERVER]) ||
	    l5_transport(fd[CLIENT]) != L5_TRANSPORT_SHM ||
	    l5_transport(fd[SERVER]) != L5_TRANSPORT_SHM)
		return false;
	p->closer = fd[closer];
	p->keeper = fd[!closer];
	return true;
}

/* Both rings get as much memory as a system call makes them have. */
static bool pair_fill(const struct pair *p)
{
	return end_put(p->closer, BYTES, 0) && end_get(p->keeper, BYTES, 0) &&
	       end_put(p->keeper, BYTES, 0) && end_get(p->closer, BYTES, 0);
}

/* Is no more than this held in the end, KiB? */
static bool falls_to(long long reserved, long long rings)
{
	return UNTIL(l5_stat("reserved_kb") <= reserved &&
		     l5_stat("rings_kb") <= rings);
}

#define EXPECT_FALLS_TO(reserved, rings)				\
	EXPECT_TRUE(falls_to(reserved, rings)) {			\
		TH_LOG("%lld KiB reserved, %lld KiB there",		\
		       l5_stat("reserved_kb"), l5_stat("rings_kb"));	\
	}

/* Bytes are taken once by TCP, whose peer has to refuse them, and never by
 * AF_UNIX. In the end there is an error.
 */
static bool send_fails(int fd, bool inet)
{
	ssize_t n = send(fd, "x", 1, 0);

	if (n != (inet ? 1 : -1))
		return false;
	if (!inet)
		return errno == EPIPE;
	return UNTIL(send(fd, "x", 1, 0) < 0) &&
	       (errno == EPIPE || errno == ECONNRESET);
}

enum { NOBODY, KEEPER, BOTH, MAPPED };

/* Connections of which one end is kept, and everything was read. */
TEST_F_TIMEOUT(limit_closed, nothing_unread, 300)
{
	enum { N = 8 };
	const bool inet = variant->at[0] != 'a';
	struct pair p[MAPPED][N];
	struct mapping keeps[MAPPED][N], closes;
	char b;
	int k, i;

	for (k = NOBODY; k < MAPPED; k++) {
		long long was = l5_stat("reserved_kb");
		long long rings = l5_stat("rings_kb");

		for (i = 0; i < N; i++) {
			ASSERT_TRUE(pair_open(&p[k][i], self->listener,
					      &self->to, variant->closer));
			ASSERT_TRUE(pair_fill(&p[k][i]));
			if (k != NOBODY)
				ASSERT_EQ(0, mapping_open(&keeps[k][i],
							  p[k][i].keeper));
			if (k == BOTH)
				ASSERT_EQ(0, mapping_open(&closes,
							  p[k][i].closer));
			/* or this test says nothing */
			ASSERT_LT(was + i * GRANT + 3 * BYTES / 2048,
				  l5_stat("reserved_kb"));
			if (k == BOTH)
				mapping_close(&closes);
			close(p[k][i].closer);
		}
		EXPECT_FALLS_TO(was + N * GRANT, rings + N * REST);
	}
	for (k = NOBODY; k < MAPPED; k++) {
		for (i = 0; i < N; i++) {
			int fd = p[k][i].keeper;

			if (k != NOBODY)
				EXPECT_EQ(0, mapping_recv(&keeps[k][i], &b, 1,
							  0));
			EXPECT_EQ(0, recv(fd, &b, 1, 0));
			if (k != NOBODY && inet && i == 1) {
				EXPECT_EQ(1, mapping_send(&keeps[k][i], "y", 1,
							  0));
			} else {
				EXPECT_TRUE(send_fails(fd, inet));
			}
			if (k != NOBODY)
				mapping_close(&keeps[k][i]);
			close(fd);
		}
	}
	EXPECT_TRUE(end_stat_reaches("reserved_kb", 0));
	EXPECT_TRUE(end_stat_reaches("rings_kb", 0));
	EXPECT_TRUE(end_stat_reaches("pairs", 0));
}

/* Receive what is left, one way or the other, and then the end. */
static ssize_t drain(struct mapping *m, int fd, size_t pos, size_t most)
{
	static uint8_t buf[3000];
	size_t got = 0;

	while (got < most) {
		size_t len = most - got < sizeof(buf) ? most - got :
							sizeof(buf);
		ssize_t n = m ? mapping_recv(m, buf, len, 0) :
				recv(fd, buf, len, 0);

		if (n < 0 || l5_check(buf, n, pos + got) != -1)
			return -1;
		if (!n)
			break;
		got += n;
	}
	return got;
}

/* Bytes that are unread stay, with the pages that have them, until read. */
TEST_F_TIMEOUT(limit_closed, unread, 300)
{
	enum { BEFORE = 30001, BETWEEN = 40007, PIECE = 1000 };
	const bool inet = variant->at[0] != 'a';
	static uint8_t stream[BYTES];
	struct mapping keeps, closes, *m;
	struct pair p;
	int k, i, n;
	size_t left;

	l5_fill(stream, BYTES, 0);
	for (k = NOBODY; k < MAPPED; k++) {
		ASSERT_TRUE(pair_open(&p, self->listener, &self->to,
				      variant->closer));
		/* so that what is unread goes over the end of the ring */
		ASSERT_TRUE(pair_fill(&p));
		ASSERT_TRUE(pair_fill(&p));
		m = k == NOBODY ? NULL : &keeps;
		if (m)
			ASSERT_EQ(0, mapping_open(m, p.keeper));
		if (k == BOTH)
			ASSERT_EQ(0, mapping_open(&closes, p.closer));
		/* a record goes only as a whole: short ones */
		for (i = 0; i < BYTES; i += n) {
			n = k == BOTH ? mapping_send(&closes, &stream[i], PIECE,
						     0) :
					send(p.closer, &stream[i], PIECE, 0);
			ASSERT_EQ(PIECE, n);
		}
		ASSERT_EQ(BEFORE, drain(m, p.keeper, 0, BEFORE));
		if (k == BOTH)
			mapping_close(&closes);
		close(p.closer);
		left = BYTES - BEFORE;
		EXPECT_FALLS_TO(GRANT + PAGES(left), REST + PAGES(left));
		EXPECT_LT((long long)left >> 10, l5_stat("rings_kb"));
		ASSERT_EQ(BETWEEN, drain(m, p.keeper, BEFORE, BETWEEN));
		left -= BETWEEN;
		EXPECT_FALLS_TO(GRANT + PAGES(left), REST + PAGES(left));
		/* the rest, and the end */
		ASSERT_EQ((ssize_t)left, drain(m, p.keeper, BEFORE + BETWEEN,
					       BYTES));
		EXPECT_FALLS_TO(GRANT, REST);
		EXPECT_EQ(0, drain(NULL, p.keeper, 0, 1));
		EXPECT_TRUE(send_fails(p.keeper, inet));
		if (m)
			mapping_close(m);
		close(p.keeper);
		ASSERT_TRUE(end_stat_reaches("rings_kb", 0));
	}
}

/* A process that maps the connection only then reads the same. */
TEST_F_TIMEOUT(limit_closed, mapped_late, 300)
{
	static uint8_t stream[BYTES];
	struct mapping m;
	struct pair p;

	l5_fill(stream, BYTES, 0);
	ASSERT_TRUE(pair_open(&p, self->listener, &self->to, variant->closer));
	ASSERT_EQ(BYTES, send(p.closer, stream, BYTES, 0));
	close(p.closer);
	EXPECT_FALLS_TO(GRANT + PAGES(BYTES), REST + PAGES(BYTES));
	ASSERT_EQ(0, mapping_open(&m, p.keeper));
	EXPECT_EQ(BYTES, drain(&m, p.keeper, 0, BYTES));
	EXPECT_EQ(0, drain(NULL, p.keeper, 0, 1));
	/* what is written goes nowhere */
	memset(m.tx, 1, m.tx_size);
	mapping_close(&m);
	close(p.keeper);
	EXPECT_TRUE(end_stat_reaches("rings_kb", 0));
	EXPECT_TRUE(end_stat_reaches("reserved_kb", 0));
}

/* The bytes of a client that has closed before it is accepted. */
TEST_F_TIMEOUT(limit_closed, not_accepted, 300)
{
	struct mapping m;
	int c, s, k;

	if (variant->closer != CLIENT)
		SKIP(return, "an end that is not accepted cannot close");
	for (k = 0; k < 4; k++) {
		size_t left = k & 1 ? BYTES : 0;

		c = end_connect(END_L5, &self->to);
		ASSERT_LE(0, c);
		ASSERT_EQ(L5_TRANSPORT_SHM, l5_transport(c));
		if (k & 2) {
			ASSERT_EQ(0, mapping_open(&m, c));
			ASSERT_EQ(0, mapping_whole(&m));
		}
		if (left)
			ASSERT_TRUE(end_put(c, left, 0));
		if (k)
			ASSERT_LT(GRANT, l5_stat("reserved_kb"));
		if (k & 2)
			mapping_close(&m);
		close(c);
		EXPECT_FALLS_TO(GRANT + !!left * PAGES(left),
				REST + !!left * PAGES(left));
		s = accept(self->listener, NULL, NULL);
		ASSERT_LE(0, s);
		ASSERT_EQ(L5_TRANSPORT_SHM, l5_transport(s));
		EXPECT_EQ((ssize_t)left, drain(NULL, s, 0, BYTES + 1));
		EXPECT_FALLS_TO(GRANT, REST);
		close(s);
		ASSERT_TRUE(end_stat_reaches("rings_kb", 0));
	}
	/* nor does one that never is keep anything */
	c = end_connect(END_L5, &self->to);
	ASSERT_LE(0, c);
	ASSERT_TRUE(end_put(c, BYTES, 0));
	close(c);
	close(self->listener);
	EXPECT_TRUE(end_stat_reaches("rings_kb", 0));
	EXPECT_TRUE(end_stat_reaches("reserved_kb", 0));
}

struct stuck {
	int fd;
	char *hole;
	ssize_t n;
};

static void *receives(void *p)
{
	struct stuck *s = p;

	s->n = recv(s->fd, s->hole, MAP_PAGE, 0);
	return NULL;
}

static void *sends(void *p)
{
	struct stuck *s = p;

	s->n = send(s->fd, s->hole, 3 * MAP_PAGE, 0);
	return NULL;
}

/* A peer that has calls in a page fault does not keep the memory, either. */
TEST_F_TIMEOUT(limit_closed, peer_in_a_fault, 300)
{
	struct stuck in, out;
	pthread_t t[2];
	int uffd[2];
	struct pair p;

	in.hole = hole_map(MAP_PAGE, &uffd[0]);
	out.hole = hole_map(3 * MAP_PAGE, &uffd[1]);
	if (!in.hole || !out.hole)
		SKIP(return, "no userfaultfd");
	ASSERT_TRUE(pair_open(&p, self->listener, &self->to, variant->closer));
	ASSERT_TRUE(pair_fill(&p));
	ASSERT_TRUE(end_put(p.closer, BYTES, 0));
	in.fd = p.keeper;
	out.fd = p.keeper;
	ASSERT_TRUE(l5_wait_asleep(l5_thread_start(&t[0], NULL, receives,
						   &in)));
	ASSERT_TRUE(l5_wait_asleep(l5_thread_start(&t[1], NULL, sends, &out)));
	close(p.closer);
	EXPECT_FALLS_TO(GRANT + PAGES(BYTES), REST + PAGES(BYTES));
	/* both go on where they were */
	close(uffd[0]);
	close(uffd[1]);
	pthread_join(t[0], NULL);
	pthread_join(t[1], NULL);
	EXPECT_EQ(MAP_PAGE, in.n);
	EXPECT_EQ(-1, l5_check(in.hole, MAP_PAGE, 0));
	EXPECT_EQ(3 * MAP_PAGE, out.n);
	EXPECT_EQ(BYTES - MAP_PAGE, drain(NULL, p.keeper, MAP_PAGE,
					  BYTES - MAP_PAGE));
	EXPECT_FALLS_TO(GRANT, REST);
	close(p.keeper);
	EXPECT_TRUE(end_stat_reaches("rings_kb", 0));
	EXPECT_TRUE(end_stat_reaches("reserved_kb", 0));
}

/* To disconnect is to close; the socket stays, and calls may be in it. */
TEST_F_TIMEOUT(limit_closed, disconnect, 300)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	struct mapping m;
	struct pair p;

	if (variant->at[0] == 'a')
		SKIP(return, "AF_UNIX does not disconnect");
	ASSERT_TRUE(pair_open(&p, self->listener, &self->to, variant->closer));
	ASSERT_TRUE(pair_fill(&p));
	ASSERT_EQ(0, mapping_open(&m, p.keeper));
	ASSERT_EQ(0, connect(p.closer, &none, sizeof(none)));
	EXPECT_FALLS_TO(GRANT, REST);
	mapping_close(&m);
	close(p.keeper);
	close(p.closer);
	EXPECT_TRUE(end_stat_reaches("rings_kb", 0));
	EXPECT_TRUE(end_stat_reaches("reserved_kb", 0));
}

/*
 * Both ends are gone, but a socket that was disconnected keeps the connection:
 * it keeps nothing of the rings, whichever end was first, and whatever is
 * unread.
 */
TEST_F_TIMEOUT(limit_closed, both_gone, 300)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	struct mapping m;
	struct pair p;
	int i;

	if (variant->at[0] == 'a')
		SKIP(return, "AF_UNIX does not disconnect");
	for (i = 0; i < 3; i++) {
		ASSERT_TRUE(pair_open(&p, self->listener, &self->to,
				      variant->closer));
		ASSERT_TRUE(pair_fill(&p));
		ASSERT_EQ(0, mapping_open(&m, p.keeper));
		if (i == 1)
			ASSERT_EQ(0, connect(p.keeper, &none, sizeof(none)));
		if (i == 2)
			ASSERT_TRUE(end_put(p.closer, BYTES, 0));
		close(p.closer);
		if (i == 2)
			EXPECT_FALLS_TO(GRANT + PAGES(BYTES),
					REST + PAGES(BYTES));
		if (i != 1)
			ASSERT_EQ(0, connect(p.keeper, &none, sizeof(none)));
		EXPECT_FALLS_TO(GRANT, REST);
		mapping_close(&m);
		close(p.keeper);
		EXPECT_TRUE(end_stat_reaches("rings_kb", 0));
		EXPECT_TRUE(end_stat_reaches("reserved_kb", 0));
	}
}

/* Nor does a listener that has closed pay for what its clients have mapped. */
TEST_F_TIMEOUT(limit_closed, listener_gone, 300)
{
	struct mapping m;
	int c;

	if (variant->closer == CLIENT)
		SKIP(return, "a client is no listener");
	c = end_connect(END_L5, &self->to);
	ASSERT_LE(0, c);
	ASSERT_EQ(L5_TRANSPORT_SHM, l5_transport(c));
	ASSERT_EQ(0, mapping_open(&m, c));
	close(self->listener);
	EXPECT_FALLS_TO(GRANT, REST);
	mapping_close(&m);
	close(c);
	self->listener = -1;
	EXPECT_TRUE(end_stat_reaches("rings_kb", 0));
	EXPECT_TRUE(end_stat_reaches("reserved_kb", 0));
}

struct both {
	int closer;
	int keeper;
};

static void *closes(void *p)
{
	const struct both *b = p;

	close(b->closer);
	close(b->keeper);
	return NULL;
}

/*
 * A peer that lingers in close(), for as long as it likes, keeps nothing of the
 * connection meanwhile: it takes no more packets without a signature, so TCP is
 * not told that its FIN has come.
 */
TEST_F_TIMEOUT(limit_closed, peer_lingers, 300)
{
	struct linger linger = { .l_onoff = 1, .l_linger = 300 };
	struct tcp_md5sig md5 = { .tcpm_keylen = 1 };
	struct mapping m;
	struct both b;
	struct pair p;
	pthread_t t;

	if (variant->at[0] == 'a')
		SKIP(return, "AF_UNIX does not linger");
	ASSERT_TRUE(pair_open(&p, self->listener, &self->to, variant->closer));
	ASSERT_TRUE(pair_fill(&p));
	ASSERT_EQ(0, mapping_open(&m, p.keeper));
	mapping_close(&m);
	memcpy(&md5.tcpm_addr, &self->to.ss, sizeof(struct sockaddr_in));
	if (setsockopt(p.keeper, SOL_TCP, TCP_MD5SIG, &md5, sizeof(md5)))
		SKIP(return, "no signatures");
	ASSERT_EQ(0, setsockopt(p.keeper, SOL_SOCKET, SO_LINGER, &linger,
				sizeof(linger)));
	b.closer = p.closer;
	b.keeper = p.keeper;
	ASSERT_TRUE(l5_wait_asleep(l5_thread_start(&t, NULL, closes, &b)));
	EXPECT_TRUE(end_stat_reaches("rings_kb", 0));
	EXPECT_TRUE(end_stat_reaches("reserved_kb", 0));
	/* it does linger, or this test says nothing */
	EXPECT_EQ(EBUSY, pthread_tryjoin_np(t, NULL));
	/* the namespace ends it */
}

/*
 * A send that was in the middle of a copy when its socket was disconnected
 * publishes to nobody, and moves nothing that tells where the records end.
 */
TEST_F_TIMEOUT(limit_closed, disconnected_in_a_fault, 300)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	struct stuck out;
	struct pair p;
	pthread_t t;
	int uffd;

	if (variant->at[0] == 'a')
		SKIP(return, "AF_UNIX does not disconnect");
	out.hole = hole_map(3 * MAP_PAGE, &uffd);
	if (!out.hole)
		SKIP(return, "no userfaultfd");
	ASSERT_TRUE(pair_open(&p, self->listener, &self->to, variant->closer));
	ASSERT_TRUE(pair_fill(&p));
	out.fd = p.closer;
	ASSERT_TRUE(l5_wait_asleep(l5_thread_start(&t, NULL, sends, &out)));
	ASSERT_EQ(0, connect(p.closer, &none, sizeof(none)));
	EXPECT_FALLS_TO(GRANT, REST + 4);
	close(uffd);
	pthread_join(t, NULL);
	EXPECT_FALLS_TO(GRANT, REST);
	close(p.keeper);
	close(p.closer);
	EXPECT_TRUE(end_stat_reaches("rings_kb", 0));
	EXPECT_TRUE(end_stat_reaches("reserved_kb", 0));
}

/* A plain TCP connection of a socket that was disconnected before. */
static int connect_again(int fd)
{
	struct addr to = addr_parse("127.0.0.1:0");
	int l = end_listen(END_TCP, &to), s;

	s = l < 0 || connect(fd, &to.sa, to.len) ? -1 : accept(l, NULL, NULL);
	close(l);
	return s;
}

/*
 * The old peer of a socket that is connected to another one by now: what it
 * forges is nothing to the new connection, and a call that was in the old one
 * ends.
 */
TEST_F_TIMEOUT(limit_closed, connected_again, 300)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	struct stuck out;
	struct mapping m;
	struct pair p;
	pthread_t t;
	int uffd, k, s;
	char c;

	if (variant->at[0] == 'a')
		SKIP(return, "AF_UNIX does not disconnect");
	/* a ring that is full stays full, however long */
	ASSERT_LE(0, l5_sysctl("grow_ms", 0));
	for (k = 0; k < 2; k++) {
		ASSERT_TRUE(pair_open(&p, self->listener, &self->to,
				      variant->closer));
		ASSERT_EQ(0, mapping_open(&m, p.keeper));
		/* in a page fault; or asleep, since there is no room */
		out.hole = k ? map_shared(3 * MAP_PAGE) :
			       hole_map(3 * MAP_PAGE, &uffd);
		if (!out.hole)
			SKIP(return, "no userfaultfd");
		while (k && send(p.closer, out.hole, 3 * MAP_PAGE,
				 MSG_DONTWAIT) > 0)
			;
		out.fd = p.closer;
		ASSERT_TRUE(l5_wait_asleep(l5_thread_start(&t, NULL, sends,
							   &out)));
		ASSERT_EQ(0, connect(p.closer, &none, sizeof(none)));
		s = connect_again(p.closer);
		ASSERT_LE(0, s);
		l5_store(&m.own->rx_head, 0x5555555555555ull);
		if (!k)
			close(uffd);
		pthread_join(t, NULL);
		EXPECT_EQ(1, send(p.closer, "x", 1, 0));
		EXPECT_EQ(1, recv(s, &c, 1, 0));
		EXPECT_EQ(1, send(s, "y", 1, 0));
		EXPECT_EQ(1, recv(p.closer, &c, 1, 0));
		mapping_close(&m);
		close(p.keeper);
		close(p.closer);
		EXPECT_EQ(0, recv(s, &c, 1, 0));
		close(s);
	}
	EXPECT_TRUE(end_stat_reaches("rings_kb", 0));
	EXPECT_TRUE(end_stat_reaches("reserved_kb", 0));
}

/*
 * An end that lies about where its last record ends, before it closes, has the
 * pages of the others given back. Its peer reads what is there, and has an
 * error then, or the end where it was told to be; and no call lasts.
 */
TEST_F_TIMEOUT(limit_closed, lies_about_its_tail, 300)
{
	enum { RECORDS = 20, PIECE = 3000 };
	static uint8_t stream[RECORDS * PIECE], buf[RECORDS * PIECE];
	struct mapping closes, keeps;
	size_t got = 0;
	struct pair p;
	ssize_t n = 0;
	int i, k;

	l5_fill(stream, sizeof(stream), 0);
	for (k = 0; k < 3; k++) {
		ASSERT_TRUE(pair_open(&p, self->listener, &self->to,
				      variant->closer));
		ASSERT_EQ(0, mapping_open(&closes, p.closer));
		for (i = 0; i < RECORDS; i++)
			ASSERT_EQ(PIECE, mapping_send(&closes,
						      &stream[i * PIECE], PIECE,
						      0));
		l5_store(&closes.own->tx_tail, 0);
		close(p.closer);
		/* the page of the first record stays */
		EXPECT_FALLS_TO(GRANT + 4, REST + 4);
		mapping_close(&closes);
		if (k == 2)
			ASSERT_EQ(0, mapping_open(&keeps, p.keeper));
		if (k == 1)
			EXPECT_LE(PIECE, recv(p.keeper, buf, sizeof(buf),
					      MSG_PEEK));
		for (got = 0; got < sizeof(buf); got += n) {
			n = recv(p.keeper, &buf[got], sizeof(buf) - got, 0);
			if (n <= 0)
				break;
		}
		EXPECT_LE(PIECE, got);
		/*
		 * Then the end that it has told, after its first record, or an
		 * error. In a mapping zeroes are where the pages were: they are
		 * what the liar may have written there itself. Nothing else is.
		 */
		if (getenv("L5_FULL")) {
			EXPECT_EQ(-1, l5_check(buf, PIECE, 0));
			for (i = PIECE; i < (int)got; i++)
				if (buf[i] && buf[i] != stream[i])
					break;
			EXPECT_EQ((int)got, i);
		} else {
			EXPECT_TRUE(n ? errno == EPROTO || errno == ECONNRESET :
					got == PIECE) {
				TH_LOG("%zd: %s", n, strerror(errno));
			}
			EXPECT_EQ(-1, l5_check(buf, got, 0));
		}
		if (k == 2)
			mapping_close(&keeps);
		close(p.keeper);
		EXPECT_TRUE(end_stat_reaches("rings_kb", 0));
	}
}

/* A peer that has shut down both ways is there, and keeps as much. */
TEST_F_TIMEOUT(limit_closed, peer_shut_down, 300)
{
	struct mapping m;
	struct pair p;

	ASSERT_TRUE(pair_open(&p, self->listener, &self->to, variant->closer));
	ASSERT_TRUE(pair_fill(&p));
	ASSERT_EQ(0, mapping_open(&m, p.keeper));
	ASSERT_EQ(0, shutdown(p.keeper, SHUT_RDWR));
	close(p.closer);
	EXPECT_FALLS_TO(GRANT, REST);
	mapping_close(&m);
	close(p.keeper);
	EXPECT_TRUE(end_stat_reaches("rings_kb", 0));
	EXPECT_TRUE(end_stat_reaches("reserved_kb", 0));
}

TEST_HARNESS_MAIN
