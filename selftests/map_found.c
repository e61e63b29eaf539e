// SPDX-License-Identifier: GPL-2.0
/*
 * What a review of mapped rings found, each a test that failed before.
 */
#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "mapping.h"

FIXTURE(found)
{
	int fd[2];
};

FIXTURE_SETUP(found)
{
	/* a record of more than half of it is what mend_makes_room is about */
	ASSERT_TRUE(map_begin("127.0.0.1:0", 4, self->fd));
}

FIXTURE_TEARDOWN(found)
{
	close(self->fd[0]);
	close(self->fd[1]);
}

/* A peer that shut down in two steps did not tell who has mapped. */
TEST_F_TIMEOUT(found, shut_down_in_two_steps, 120)
{
	struct mapping m = { 0 };

	ASSERT_EQ(0, mapping_open(&m, self->fd[0]));
	ASSERT_EQ(0, shutdown(self->fd[1], SHUT_WR));
	ASSERT_EQ(0, shutdown(self->fd[1], SHUT_RD));
	EXPECT_TRUE(UNTIL(l5_load(&m.state->flags) & L5_MAP_TX_ASK));
	mapping_close(&m);
}

/* Whoever mends a reader's cursors makes room, and did not ring for it. */
TEST_F_TIMEOUT(found, mend_makes_room, 300)
{
	char big[4000] = "";
	pid_t writer, reader;

	ASSERT_EQ(4000, send(self->fd[0], big, 4000, MSG_DONTWAIT));
	writer = fork();
	if (!writer)
		_exit(send(self->fd[0], big, 3000, 0) != 3000);
	usleep(100000);
	reader = fork();
	if (!reader) {
		struct mapping m = { 0 };

		if (mapping_open(&m, self->fd[1]) ||
		    mapping_lock(&m, L5_LOCK_RX) != 1 ||
		    l5_cons_load(&m.cons, m.own) ||
		    l5_cons_peek(&m.cons, (const __u64 *)(m.rx + (m.cons.head &
				 (m.rx_size - 1)))) != 1)
			_exit(1);
		/* all was read, and the head has not moved */
		l5_store(&m.own->rx_pos,
			 m.cons.head + l5_rec_size(m.cons.len));
		_exit(0);
	}
	ASSERT_EQ(0, map_reap(reader));
	usleep(100000);
	recv(self->fd[1], big, sizeof(big), MSG_DONTWAIT);
	EXPECT_EQ(0, map_reap(writer));
}

static void nothing(int sig)
{
	(void)sig;
}

/* A signal made FIN overtake a sender that had not published yet. */
TEST_F_TIMEOUT(found, fin_waits_for_the_lock, 120)
{
	struct itimerval soon = { .it_value.tv_usec = 20000 };
	struct mapping m = { 0 };
	char text[8] = "";
	pid_t sender, closer;
	int ready[2];

	ASSERT_EQ(0, pipe(ready));
	sender = fork();
	if (!sender) {
		if (mapping_open(&m, self->fd[0]) ||
		    mapping_lock(&m, L5_LOCK_TX) != 1 ||
		    l5_prod_load(&m.prod, m.own, m.peer) ||
		    write(ready[1], "", 1) != 1)
			_exit(1);
		usleep(300000);
		l5_prod_publish(&m.prod, m.own, mapping_slot(&m, m.prod.tail),
				mapping_slot(&m, m.prod.tail + 16), 5);
		mapping_unlock(&m, L5_LOCK_TX);
		ioctl(self->fd[0], L5_IOC_DOORBELL, L5_BELL_DATA);
		_exit(0);
	}
	ASSERT_EQ(1, read(ready[0], text, 1));
	closer = fork();
	if (!closer) {
		signal(SIGALRM, nothing);
		setitimer(ITIMER_REAL, &soon, NULL);
		_exit(shutdown(self->fd[0], SHUT_WR) != 0);
	}
	EXPECT_EQ(5, recv(self->fd[1], text, sizeof(text), 0));
	EXPECT_EQ(0, recv(self->fd[1], text, sizeof(text), 0));
	EXPECT_EQ(0, map_reap(sender));
	EXPECT_EQ(0, map_reap(closer));
}

/* Who was told EAGAIN because of a lock word got no other edge. */
TEST_F_TIMEOUT(found, edge_after_a_held_word, 300)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET };
	int ep = epoll_create1(0), ready[2], go[2];
	struct mapping m = { 0 };
	char text[8];
	pid_t holder;

	ASSERT_EQ(0, epoll_ctl(ep, EPOLL_CTL_ADD, self->fd[1], &ev));
	ASSERT_EQ(0, pipe(ready));
	ASSERT_EQ(0, pipe(go));
	holder = fork();
	if (!holder) {
		if (mapping_open(&m, self->fd[1]) ||
		    mapping_lock(&m, L5_LOCK_RX) != 1 ||
		    write(ready[1], "", 1) != 1 || read(go[0], text, 1) != 1)
			_exit(1);
		mapping_unlock(&m, L5_LOCK_RX);
		_exit(read(go[0], text, 1) != 1);
	}
	ASSERT_EQ(1, read(ready[0], text, 1));
	ASSERT_EQ(3, send(self->fd[0], "abc", 3, 0));
	ASSERT_EQ(1, epoll_wait(ep, &ev, 1, MAP_LONG_MS));
	ASSERT_EQ(-1, recv(self->fd[1], text, sizeof(text), MSG_DONTWAIT));
	ASSERT_EQ(EAGAIN, errno);
	ASSERT_EQ(1, write(go[1], "", 1));
	EXPECT_EQ(1, epoll_wait(ep, &ev, 1, MAP_LONG_MS));
	EXPECT_EQ(3, recv(self->fd[1], text, sizeof(text), MSG_DONTWAIT));
	ASSERT_EQ(1, write(go[1], "", 1));
	EXPECT_EQ(0, map_reap(holder));
}

/* A multishot poll heard of the first message and of no other. */
TEST_F_TIMEOUT(found, multishot_poll, 120)
{
	struct __kernel_timespec long_ms = { .tv_sec = MAP_LONG_MS / 1000 };
	struct io_uring_cqe *cqe;
	struct io_uring_sqe *sqe;
	struct mapping m = { 0 };
	struct io_uring ring;
	char text[8];
	int i;

	ASSERT_EQ(0, mapping_open(&m, self->fd[0]));
	if (io_uring_queue_init(8, &ring, 0))
		SKIP(return, "no io_uring");
	sqe = io_uring_get_sqe(&ring);
	io_uring_prep_poll_multishot(sqe, self->fd[1], POLLIN);
	ASSERT_EQ(1, io_uring_submit(&ring));
	for (i = 0; i < 5; i++) {
		ASSERT_EQ(3, mapping_put(&m, "abc", 3));
		ASSERT_EQ(0, io_uring_wait_cqe_timeout(&ring, &cqe, &long_ms)) {
			TH_LOG("message %d", i);
		}
		EXPECT_TRUE(cqe->res & POLLIN);
		io_uring_cqe_seen(&ring, cqe);
		/* and no more, which would arm by itself */
		ASSERT_EQ(3, recv(self->fd[1], text, 3, 0));
	}
	io_uring_queue_exit(&ring);
	mapping_close(&m);
}

/* What was unread came again, as the bytes of the next connection. */
TEST_F_TIMEOUT(found, disconnect_leaves_the_memory, 120)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	struct mapping m = { 0 };

	ASSERT_EQ(0, mapping_open(&m, self->fd[0]));
	ASSERT_EQ(3, send(self->fd[1], "old", 3, 0));
	ASSERT_EQ(0, connect(self->fd[0], &none, sizeof(none)));
	EXPECT_TRUE(l5_load(&m.state->flags) & L5_MAP_LEAVE);
	mapping_close(&m);
}

TEST_HARNESS_MAIN
