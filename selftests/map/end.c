// SPDX-License-Identifier: GPL-2.0
/*
 * The end of a connection that is mapped: it is seen without asking, and what
 * is unmapped, closed and used again leaves nothing behind.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "map_pair.h"

MAP_PAIR_FIXTURE(map_end, 64)

/* The end of a connection is seen in the state page; system calls say why. */
TEST_F_TIMEOUT(map_end, ends_are_seen, 300)
{
	struct linger hard = { .l_onoff = 1 };
	struct mapping m, o;
	uint32_t gen;
	uint8_t b[100];
	int way, e, status;
	pid_t pid;

	for (way = 0; way < 12; way++) {
		int a, z;

		e = way & 1;
		ASSERT_TRUE(map_again(variant->at, self->fd));
		a = self->fd[e];
		z = self->fd[!e];
		ASSERT_EQ(0, mapping_open(&m, a));
		ASSERT_EQ(0, mapping_open(&o, z));
		gen = l5_load(&m.state->generation);
		EXPECT_EQ(0, l5_load(&m.state->flags) & (L5_MAP_TX_ASK |
							 L5_MAP_RX_ASK));
		l5_fill(b, 100, 0);
		ASSERT_EQ(100, mapping_put(&o, b, 100));
		switch (way / 2) {
		case 0:
			/* the peer closes */
			close(z);
			EXPECT_TRUE(mapping_flag_comes(&m, L5_MAP_RX_ASK));
			EXPECT_TRUE(mapping_flag_comes(&m, L5_MAP_TX_ASK));
			ASSERT_EQ(100, mapping_get(&m, b, 100));
			EXPECT_EQ(-1, l5_check(b, 100, 0));
			EXPECT_EQ(0, mapping_recv(&m, b, 100, 0));
			break;
		case 1:
			/* sends no more, but reads */
			ASSERT_EQ(0, shutdown(z, SHUT_WR));
			EXPECT_TRUE(mapping_flag_comes(&m, L5_MAP_RX_ASK));
			EXPECT_TRUE(mapping_flag_comes(&o, L5_MAP_TX_ASK));
			ASSERT_EQ(100, mapping_recv(&m, b, 100, 0));
			EXPECT_EQ(0, mapping_recv(&m, b, 100, 0));
			EXPECT_EQ(-1, mapping_send(&o, b, 1, MSG_NOSIGNAL));
			EXPECT_EQ(EPIPE, errno);
			l5_fill(b, 100, 5);
			ASSERT_EQ(100, mapping_send(&m, b, 100, 0));
			memset(b, 0, 100);
			ASSERT_EQ(100, mapping_recv(&o, b, 100, 0));
			EXPECT_EQ(-1, l5_check(b, 100, 5));
			break;
		case 2:
			/* this end sends no more */
			ASSERT_EQ(0, shutdown(a, SHUT_WR));
			EXPECT_TRUE(mapping_flag_comes(&m, L5_MAP_TX_ASK));
			EXPECT_EQ(0, mapping_put(&m, b, 1));
			EXPECT_EQ(-1, mapping_send(&m, b, 1, MSG_NOSIGNAL));
			EXPECT_EQ(EPIPE, errno);
			ASSERT_EQ(100, mapping_recv(&m, b, 100, 0));
			EXPECT_TRUE(mapping_flag_comes(&o, L5_MAP_RX_ASK));
			EXPECT_EQ(0, mapping_recv(&o, b, 100, 0));
			break;
		case 3:
			/* reset */
			setsockopt(z, SOL_SOCKET, SO_LINGER, &hard,
				   sizeof(hard));
			close(z);
			EXPECT_TRUE(mapping_flag_comes(&m, L5_MAP_RX_ASK));
			EXPECT_TRUE(mapping_flag_comes(&m, L5_MAP_TX_ASK));
			break;
		case 4:
			/* bytes unread at close are a reset, too */
			ASSERT_EQ(50, mapping_put(&m, b, 50));
			close(z);
			EXPECT_TRUE(mapping_flag_comes(&m, L5_MAP_RX_ASK));
			ASSERT_EQ(100, mapping_get(&m, b, 100));
			EXPECT_EQ(-1, mapping_recv(&m, b, 100, 0));
			EXPECT_EQ(ECONNRESET, errno);
			break;
		default:
			/* killed: a process has the only other end */
			pid = fork();
			ASSERT_LE(0, pid);
			if (!pid) {
				pause();
				_exit(0);
			}
			close(z);
			/* a time in which nothing may be told */
			usleep(10000);
			EXPECT_EQ(0, l5_load(&m.state->flags) &
				  (L5_MAP_TX_ASK | L5_MAP_RX_ASK));
			kill(pid, SIGKILL);
			status = l5_reap(pid);
			EXPECT_TRUE(WIFSIGNALED(status));
			EXPECT_TRUE(mapping_flag_comes(&m, L5_MAP_RX_ASK));
			ASSERT_EQ(100, mapping_get(&m, b, 100));
			EXPECT_EQ(0, mapping_recv(&m, b, 100, 0));
		}
		EXPECT_NE(gen, l5_load(&m.state->generation)) {
			TH_LOG("way %d", way / 2);
		}
		mapping_close(&o);
		/* a sender that goes on is told, as by TCP */
		if (way / 2 != 1) {
			for (status = 0; status < 100; status++) {
				if (mapping_send(&m, b, 1, MSG_NOSIGNAL) < 0)
					break;
				usleep(1000);
			}
			EXPECT_GT(100, status) {
				TH_LOG("way %d", way / 2);
			}
			EXPECT_TRUE(errno == EPIPE || errno == ECONNRESET);
		}
		mapping_close(&m);
	}
}

/* The peer goes while bytes are being published, at any moment. */
TEST_F_TIMEOUT(map_end, close_races_mapped_send, 300)
{
	uint64_t seed = l5_seed() | 1;
	int round, status;

	for (round = 0; round < 60; round++) {
		unsigned int nap = l5_rnd(&seed) % 3000;
		struct mapping m;
		uint8_t b[500];
		int64_t end;
		ssize_t n;
		pid_t pid;

		ASSERT_TRUE(map_again(variant->at, self->fd));
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			close(self->fd[0]);
			usleep(nap);
			do
				n = round & 1 ? recv(self->fd[1], b, sizeof(b),
						     MSG_DONTWAIT) : 0;
			while (n > 0);
			close(self->fd[1]);
			_exit(0);
		}
		close(self->fd[1]);
		self->fd[1] = -1;
		ASSERT_EQ(0, mapping_open(&m, self->fd[0]));
		memset(b, 1, sizeof(b));
		end = l5_now_ms() + MAP_LONG_MS;
		do {
			n = mapping_send(&m, b, 1 + l5_rnd(&seed) % 500,
					 MSG_NOSIGNAL);
			if (n < 0)
				break;
			if (l5_rnd(&seed) % 8 == 0)
				usleep(100);
		} while (l5_now_ms() < end);
		EXPECT_EQ(-1, n);
		EXPECT_TRUE(errno == EPIPE || errno == ECONNRESET) {
			TH_LOG("%s", strerror(errno));
		}
		n = mapping_recv(&m, b, 1, 0);
		EXPECT_TRUE(!n || errno == ECONNRESET || errno == EPIPE);
		mapping_close(&m);
		status = l5_reap(pid);
		EXPECT_EQ(0, status);
	}
	EXPECT_EQ(0, l5_stat("violations"));
}

/* A mapping does not keep the socket, and is harmless without it. */
TEST_F_TIMEOUT(map_end, close_while_mapped, 120)
{
	struct mapping m, o;
	struct pollfd p;
	int e, err, k;
	uint8_t b[100];

	for (k = 0; k < 4; k++) {
		e = k & 1;
		ASSERT_EQ(0, mapping_open(&m, self->fd[e]));
		ASSERT_EQ(0, mapping_open(&o, self->fd[!e]));
		l5_fill(b, 100, 0);
		ASSERT_EQ(100, mapping_put(&m, b, 100));
		close(self->fd[e]);
		p.fd = self->fd[!e];
		p.events = POLLIN | POLLRDHUP;
		ASSERT_EQ(1, poll(&p, 1, MAP_LONG_MS));
		EXPECT_TRUE(UNTIL(poll(&p, 1, 0) == 1 &&
				  p.revents & POLLRDHUP));
		/* scribbles of an end that is gone do not trouble the other */
		if (k < 2) {
			memset(m.own, 0x80, 4096);
			memset(m.tx + 200, 0x80, m.tx_size - 200);
			EXPECT_EQ(0, map_touch(m.rx, false));
			for (err = 0; err < 50; err++)
				if (mapping_recv(&o, b, 100, 0) <= 0)
					break;
			EXPECT_GT(50, err);
		} else {
			EXPECT_EQ(100, end_drain(self->fd[!e], 0, &err));
			EXPECT_EQ(0, err);
		}
		close(self->fd[!e]);
		/* both gone, and sooner or later the rings: still memory */
		EXPECT_EQ(0, map_touch(m.own, true));
		EXPECT_EQ(0, map_touch(o.own, true));
		EXPECT_EQ(0, map_touch(m.peer, false));
		EXPECT_EQ(0, map_touch(m.tx + m.tx_size, true));
		mapping_close(&m);
		mapping_close(&o);
		ASSERT_TRUE(map_pair(variant->at, &self->fd[0], &self->fd[1]));
	}
}

/* A socket that is used again keeps nothing of its old connection. */
TEST_F_TIMEOUT(map_end, disconnected, 120)
{
	struct sockaddr un = { .sa_family = AF_UNSPEC };
	struct addr to = addr_parse(variant->at);
	struct mapping m, n;
	struct l5_map_info info;
	uint8_t b[300];
	int l, s, fd = self->fd[0];

	if (to.sa.sa_family == AF_UNIX)
		SKIP(return, "AF_UNIX stays connected");
	ASSERT_EQ(0, mapping_open(&m, fd));
	l5_fill(b, sizeof(b), 0);
	ASSERT_EQ(300, send(self->fd[1], b, 300, 0));
	ASSERT_EQ(100, mapping_get(&m, b, 100));
	ASSERT_EQ(0, connect(fd, &un, sizeof(un)));
	/* what was unread is gone, by either way */
	EXPECT_NE(0, l5_load(&m.state->flags) & L5_MAP_LEAVE);
	EXPECT_GT(1, mapping_recv(&m, b, 300, MSG_DONTWAIT));
	EXPECT_EQ(-ENOTCONN, mapping_info(fd, &info));
	EXPECT_EQ(-1, ioctl(fd, L5_IOC_ARM, L5_BELL_DATA));
	EXPECT_EQ(-1, recv(self->fd[1], b, 1, 0));
	EXPECT_EQ(ECONNRESET, errno);
	/* connected again, with the old memory still there */
	l = end_listen(END_L5, &to);
	ASSERT_LE(0, l);
	if (connect(fd, &to.sa, to.len)) {
		TH_LOG("not connected again: %s", strerror(errno));
		close(l);
		mapping_close(&m);
		return;
	}
	s = accept(l, NULL, NULL);
	ASSERT_LE(0, s);
	close(l);
	l5_fill(b, sizeof(b), 9);
	ASSERT_EQ(300, mapping_send(&m, b, 300, 0));
	EXPECT_TRUE(end_get(s, 300, 9));
	EXPECT_TRUE(end_put(s, 300, 9));
	memset(b, 0, sizeof(b));
	EXPECT_EQ(300, mapping_recv(&m, b, 300, 0));
	EXPECT_EQ(-1, l5_check(b, 300, 9));
	if (l5_transport(fd) == L5_TRANSPORT_SHM) {
		ASSERT_EQ(0, mapping_info(fd, &info));
		EXPECT_EQ(0, info.id);
		ASSERT_EQ(0, mapping_open(&n, fd));
		/* locks left behind are locks of what was left behind */
		l5_store(&m.own->tx_lock, n.id);
		l5_store(&m.own->rx_lock, m.id);
		memset(m.tx, 0xff, m.tx_size);
		ASSERT_EQ(300, mapping_put(&n, b, 300));
		EXPECT_TRUE(end_get(s, 300, 9));
		EXPECT_TRUE(end_exchange(fd, s, 100000, 0));
		mapping_close(&n);
	}
	mapping_close(&m);
	EXPECT_TRUE(end_exchange(fd, s, 100000, 0));
	close(s);
}

/* A peer that shut down in two steps did not tell a process that has mapped. */
TEST_F_TIMEOUT(map_end, shut_down_in_two_steps, 120)
{
	struct mapping m = { 0 };

	ASSERT_EQ(0, mapping_open(&m, self->fd[0]));
	ASSERT_EQ(0, shutdown(self->fd[1], SHUT_WR));
	ASSERT_EQ(0, shutdown(self->fd[1], SHUT_RD));
	EXPECT_TRUE(UNTIL(l5_load(&m.state->flags) & L5_MAP_TX_ASK));
	mapping_close(&m);
}

/* Unread bytes came again, as those of the next connection. */
TEST_F_TIMEOUT(map_end, disconnect_leaves_the_memory, 120)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	struct addr to = addr_parse(variant->at);
	struct mapping m = { 0 };

	if (to.sa.sa_family == AF_UNIX)
		SKIP(return, "AF_UNIX stays connected");
	ASSERT_EQ(0, mapping_open(&m, self->fd[0]));
	ASSERT_EQ(3, send(self->fd[1], "old", 3, 0));
	ASSERT_EQ(0, connect(self->fd[0], &none, sizeof(none)));
	EXPECT_TRUE(l5_load(&m.state->flags) & L5_MAP_LEAVE);
	mapping_close(&m);
}

TEST_HARNESS_MAIN
