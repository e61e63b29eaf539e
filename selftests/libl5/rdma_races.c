// SPDX-License-Identifier: GPL-2.0
/*
 * What reviews of RDMA found, each as a test named after it.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "l5test.h"
#include "l5_ring.h"
#include "libl5.h"
#include "libl5_ends.h"
#include "mapping.h"
#include "rdma_here.h"

enum { ROUNDS = 60 };

FIXTURE(libl5_rdma_races)
{
	struct place at;
	int listener;
};

FIXTURE_SETUP(libl5_rdma_races)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGPIPE, SIG_IGN);
	if (!rdma_here())
		SKIP(return, "no RDMA device can be made here");
	setenv("L5_TRANSPORT", "rdma", 1);
	self->listener = place_listen(&self->at, RDMA_HERE);
	ASSERT_LE(0, self->listener);
}

FIXTURE_TEARDOWN(libl5_rdma_races)
{
	if (self->listener > 0)
		close(self->listener);
}

static int client(const struct sockaddr_in *sa)
{
	int fd = l5_socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC);

	if (fd >= 0 && connect(fd, (const struct sockaddr *)sa, sizeof(*sa))) {
		close(fd);
		return -1;
	}
	return fd;
}

/* A connection that RDMA carries, both ends of it */
static bool moved_pair(const struct sockaddr_in *sa, int listener, int *c,
		       int *s)
{
	*c = client(sa);
	*s = *c < 0 ? -1 : accept(listener, NULL, NULL);
	return *s >= 0 && rdma_moved(*c) && rdma_moved(*s);
}

/* A tail one word further was a batch without a record, and a wild write. */
TEST_F_TIMEOUT(libl5_rdma_races, short_tail, 120)
{
	struct l5_ctrl *own;
	struct pollfd p;
	int c, s;

	ASSERT_TRUE(moved_pair(&self->at.sin, self->listener, &c, &s));
	own = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, c,
		   L5_MMAP_OWN);
	ASSERT_NE(MAP_FAILED, own);
	own->tx_tail += 8;
	ioctl(c, L5_IOC_DOORBELL, L5_BELL_DATA);
	/* the forger's own connection ends, with an error; no other does */
	p = (struct pollfd){ .fd = c };
	ASSERT_EQ(1, poll(&p, 1, RDMA_MOVE_MS));
	ASSERT_TRUE(p.revents & (POLLERR | POLLHUP));
	p = (struct pollfd){ .fd = s, .events = POLLIN };
	ASSERT_EQ(1, poll(&p, 1, RDMA_MOVE_MS));
	ASSERT_GT(0, recv(s, &p, 1, 0));
	close(c);
	close(s);
}

/*
 * An empty record was a batch without a request, and a wild write, for some of
 * the ways to publish; the first of two records that do not go together was so,
 * too.
 */
TEST_F_TIMEOUT(libl5_rdma_races, empty_record, 240)
{
	static const uint32_t next[] = { 0, 65536 };
	static char buf[4096];
	int c, s, way, i, mapped = 0;
	struct mapping m;
	struct pollfd p;

	for (i = 0; i < 2 * (L5_NOTIFY_SEND + 1); i++) {
		way = i / 2;
		l5_sysctl("rdma_notify", way);
		ASSERT_TRUE(moved_pair(&self->at.sin, self->listener,
				       &c, &s));
		/* not every way is for rings that are mapped */
		if (mapping_open(&m, c)) {
			printf("# way %d: not mapped\n", way);
			close(c);
			close(s);
			continue;
		}
		mapped++;
		ASSERT_LT(0, mapping_lock(&m, L5_LOCK_TX));
		*mapping_slot(&m, m.own->tx_tail) = (__u64)L5_REC_VALID << 32;
		*mapping_slot(&m, m.own->tx_tail + 8) =
			(__u64)L5_REC_VALID << 32 | next[i % 2];
		*mapping_slot(&m, m.own->tx_tail + 16 + next[i % 2]) = 0;
		m.own->tx_tail += 16 + next[i % 2];
		mapping_unlock(&m, L5_LOCK_TX);
		ioctl(c, L5_IOC_DOORBELL, L5_BELL_DATA);
		p = (struct pollfd){ .fd = s, .events = POLLIN };
		if (way != L5_NOTIFY_TWO || next[i % 2])
			ASSERT_EQ(1, poll(&p, 1, RDMA_MOVE_MS));
		/* empty records are skipped, or the connection's end */
		while (recv(s, buf, sizeof(buf), MSG_DONTWAIT) > 0)
			;
		mapping_close(&m);
		close(c);
		close(s);
	}
	l5_sysctl("rdma_notify", L5_NOTIFY_AUTO);
	EXPECT_LT(0, mapped);
}

static void *leave(void *arg)
{
	const struct sockaddr sa = { .sa_family = AF_UNSPEC };
	int i;

	for (i = 0; i < 3; i++)
		connect(*(int *)arg, &sa, sizeof(sa));
	return NULL;
}

static void *talk(void *arg)
{
	char buf[4096] = { };
	int i;

	for (i = 0; i < 200; i++)
		if (send(*(int *)arg, buf, sizeof(buf),
			 MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno != EAGAIN)
			break;
	return NULL;
}

/* Two threads gave one reference back, and a sender used what was freed. */
TEST_F_TIMEOUT(libl5_rdma_races, disconnect_twice, 180)
{
	int i, j, c, s, one = 1;

	ASSERT_EQ(0, setsockopt(self->listener, SOL_SOCKET, SO_REUSEADDR, &one,
				sizeof(one)));
	for (i = 0; i < ROUNDS; i++) {
		pthread_t t[3];

		c = client(&self->at.sin);
		ASSERT_LE(0, c);
		s = accept(self->listener, NULL, NULL);
		ASSERT_LE(0, s);
		/* before, while and after it moves */
		usleep(i * 1000);
		pthread_create(&t[0], NULL, talk, &c);
		pthread_create(&t[1], NULL, leave, &c);
		pthread_create(&t[2], NULL, leave, &c);
		for (j = 0; j < 3; j++)
			pthread_join(t[j], NULL);
		/* and it is as good as new, but for RDMA */
		ASSERT_EQ(0, connect(c, (struct sockaddr *)&self->at.sin,
				     sizeof(self->at.sin)));
		close(s);
		s = accept(self->listener, NULL, NULL);
		ASSERT_LE(0, s);
		ASSERT_EQ(1, send(c, "x", 1, 0));
		ASSERT_EQ(1, recv(s, &j, 1, 0));
		ASSERT_EQ(L5_TRANSPORT_BASE, l5_getopt(c, L5_TRANSPORT));
		close(c);
		close(s);
	}
}

/* Which byte of its listener's mailbox has a connection? */
static int byte_of(int fd)
{
	struct l5_map_info info = { .size = sizeof(info) };

	return ioctl(fd, L5_IOC_MAP_INFO, &info) ? -1 : (int)info.mailbox - 1;
}

/*
 * The byte of a connection that was over went to the next while the program had
 * the socket: it took the records of that one for a word about the other.
 */
TEST_F_TIMEOUT(libl5_rdma_races, byte_until_closed, 200)
{
	const struct linger now = { .l_onoff = 1 };
	struct l5_mailbox *box = l5_mailbox_open(self->listener);
	int c[3], s[3], was[3], i, ms;
	char byte;

	ASSERT_NE(NULL, box);
	for (i = 0; i < 3; i++) {
		c[i] = client(&self->at.sin);
		ASSERT_LE(0, c[i]);
		s[i] = accept(self->listener, NULL, NULL);
		ASSERT_LE(0, s[i]);
		ASSERT_TRUE(rdma_moved(c[i]));
		ASSERT_TRUE(rdma_moved(s[i]));
		was[i] = byte_of(s[i]);
		ASSERT_LE(0, was[i]);
		setsockopt(c[i], SOL_SOCKET, SO_LINGER, &now, sizeof(now));
		close(c[i]);
		ASSERT_EQ(-1, recv(s[i], &byte, 1, 0));
		/* its queue pair is gone, its socket is not */
		for (ms = 0; l5_stat("rdma_now") && ms < RDMA_MOVE_MS; ms += 20)
			usleep(20000);
		ASSERT_EQ(0, l5_stat("rdma_now"));
		/* the last one comes when the first is closed */
		if (i == 1)
			close(s[0]);
	}
	EXPECT_NE(was[0], was[1]);
	EXPECT_EQ(was[0], was[2]);
	close(s[1]);
	close(s[2]);
	l5_mailbox_close(box);
}

/* A question that had not been asked yet was asked all the same. */
TEST_F_TIMEOUT(libl5_rdma_races, option_in_time, 120)
{
	int c, s, i;

	c = client(&self->at.sin);
	ASSERT_LE(0, c);
	if (setsockopt(c, SOL_TCP, TCP_ULP, "tls", 4)) {
		/* without kTLS the option itself fails, and counts for less */
		struct sock_filter all = { BPF_RET | BPF_K, 0, 0, -1 };
		struct sock_fprog f = { 1, &all };

		ASSERT_EQ(0, setsockopt(c, SOL_L5_SOCKET, SO_ATTACH_FILTER, &f,
					sizeof(f)));
	}
	s = accept(self->listener, NULL, NULL);
	ASSERT_LE(0, s);
	for (i = 0; i < 50; i++) {
		usleep(20000);
		ASSERT_EQ(L5_TRANSPORT_BASE, l5_getopt(c, L5_TRANSPORT));
		ASSERT_EQ(L5_TRANSPORT_BASE, l5_getopt(s, L5_TRANSPORT));
	}
	close(c);
	close(s);
}

/*
 * A connection with @n bytes on TCP, sent as @flags, that the server has not
 * read when the client has cut; what the client sends next goes by the ring.
 */
static void before_cut(struct __test_metadata *_metadata,
		       const struct sockaddr_in *sa, int listener,
		       const char *bytes, int flags, int *c, int *s)
{
	struct timeval tv = { .tv_sec = RDMA_MOVE_MS / 1000 };

	*c = client(sa);
	ASSERT_LE(0, *c);
	ASSERT_EQ((ssize_t)strlen(bytes),
		  send(*c, bytes, strlen(bytes), flags));
	*s = accept(listener, NULL, NULL);
	ASSERT_LE(0, *s);
	ASSERT_TRUE(rdma_moved(*c));
	ASSERT_EQ(L5_TRANSPORT_BASE, l5_getopt(*s, L5_TRANSPORT));
	setsockopt(*s, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
}

/* What lies on TCP and what lies in the ring behind it add up. */
TEST_F_TIMEOUT(libl5_rdma_races, low_water_at_cut, 200)
{
	static const int peeks[] = { 0, MSG_PEEK, MSG_PEEK | MSG_WAITALL };
	int c, s, i, n, low = 8;
	struct pollfd p;
	char buf[32];

	for (i = 0; i < 4; i++) {
		before_cut(_metadata, &self->at.sin, self->listener, "abc", 0,
			   &c, &s);
		ASSERT_EQ(0, setsockopt(s, SOL_SOCKET, SO_RCVLOWAT, &low,
					sizeof(low)));
		p = (struct pollfd){ .fd = s, .events = POLLIN };
		EXPECT_EQ(0, poll(&p, 1, 50));
		ASSERT_EQ(5, send(c, "defgh", 5, 0));
		if (i < 3) {
			ASSERT_EQ(1, poll(&p, 1, RDMA_MOVE_MS));
			n = -1;
			EXPECT_EQ(0, ioctl(s, FIONREAD, &n));
			EXPECT_EQ(8, n);
		}
		if (i < 3 && peeks[i]) {
			EXPECT_EQ(8, recv(s, buf, 8, peeks[i]));
			EXPECT_EQ(0, memcmp(buf, "abcdefgh", 8));
		}
		EXPECT_EQ(8, recv(s, buf, sizeof(buf), 0));
		EXPECT_EQ(0, memcmp(buf, "abcdefgh", 8));
		close(c);
		close(s);
	}
}

/* An urgent byte that the reader passes over hides nothing of the ring. */
TEST_F_TIMEOUT(libl5_rdma_races, urgent_at_cut, 100)
{
	struct pollfd p;
	char buf[8];
	int c, s;

	before_cut(_metadata, &self->at.sin, self->listener, "u", MSG_OOB, &c,
		   &s);
	ASSERT_EQ(3, send(c, "xyz", 3, 0));
	p = (struct pollfd){ .fd = s, .events = POLLIN };
	EXPECT_EQ(1, poll(&p, 1, RDMA_MOVE_MS));
	EXPECT_EQ(3, recv(s, buf, sizeof(buf), 0));
	EXPECT_EQ(0, memcmp(buf, "xyz", 3));
	close(c);
	close(s);
}

/* What goes by the ring is not there before what TCP is still to bring. */
TEST_F_TIMEOUT(libl5_rdma_races, tcp_is_late, 200)
{
	static const char gone[] =
		"PATH=$PATH:/sbin:/usr/sbin; tc qdisc del dev lo root";
	char buf[32], late[256];
	int c, s, i, n, low;
	struct pollfd p;

	snprintf(late, sizeof(late),
		 "PATH=$PATH:/sbin:/usr/sbin; exec >/dev/null 2>&1; "
		 "modprobe sch_netem; tc qdisc add dev lo root netem delay %ds",
		 4 * l5_slow());
	for (i = 0; i < 2; i++) {
		c = client(&self->at.sin);
		ASSERT_LE(0, c);
		if (system(late)) {
			close(c);
			SKIP(return, "no sch_netem");
		}
		ASSERT_EQ(3, send(c, "abc", 3, 0));
		s = accept(self->listener, NULL, NULL);
		EXPECT_LE(0, s);
		EXPECT_TRUE(rdma_moved_in(c, 3000 * l5_slow()));
		low = i ? 8 : 1;
		EXPECT_EQ(0, setsockopt(s, SOL_SOCKET, SO_RCVLOWAT, &low,
					sizeof(low)));
		EXPECT_EQ(5, send(c, "defgh", 5, 0));
		p = (struct pollfd){ .fd = s, .events = POLLIN };
		while (poll(&p, 1, 100) == 1) {
			n = 0;
			EXPECT_EQ(0, ioctl(s, FIONREAD, &n));
			EXPECT_NE(0, n);
			if (!n || recv(s, buf, 1, MSG_PEEK) == 1)
				break;
		}
		EXPECT_EQ(1, poll(&p, 1, RDMA_MOVE_MS));
		EXPECT_EQ(8, recv(s, buf, 8, MSG_WAITALL));
		EXPECT_EQ(0, memcmp(buf, "abcdefgh", 8));
		ASSERT_EQ(0, system(gone));
		close(c);
		close(s);
	}
}

static void *send_much(void *arg)
{
	static char much[16 << 20];

	send(*(int *)arg, much, sizeof(much), 0);
	return NULL;
}

/* One direction has moved, the other cannot: a sender is inside TCP. */
TEST_F_TIMEOUT(libl5_rdma_races, count_while_moving, 200)
{
	struct l5_rdma_info info;
	int c, s, i, n, half = 0;
	struct pollfd p;
	pthread_t t;
	socklen_t len;

	for (i = 0; i < 10 && !half; i++) {
		c = client(&self->at.sin);
		ASSERT_LE(0, c);
		s = accept(self->listener, NULL, NULL);
		ASSERT_LE(0, s);
		pthread_create(&t, NULL, send_much, &s);
		do {
			usleep(1000);
			len = sizeof(info);
			ASSERT_EQ(0, getsockopt(c, SOL_L5, L5_RDMA_INFO, &info,
						&len));
		} while (info.state == L5_RDMA_OPEN);
		ASSERT_EQ(5, send(c, "abcde", 5, 0));
		p = (struct pollfd){ .fd = s, .events = POLLIN };
		ASSERT_EQ(1, poll(&p, 1, RDMA_MOVE_MS));
		n = -1;
		EXPECT_EQ(0, ioctl(s, FIONREAD, &n));
		EXPECT_EQ(5, n);
		len = sizeof(info);
		ASSERT_EQ(0, getsockopt(s, SOL_L5, L5_RDMA_INFO, &info, &len));
		half = info.state == L5_RDMA_MOVING;
		close(c);
		pthread_join(t, NULL);
		close(s);
	}
	EXPECT_EQ(1, half);
}

TEST_HARNESS_MAIN
