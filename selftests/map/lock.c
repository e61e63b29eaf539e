// SPDX-License-Identifier: GPL-2.0
/*
 * Lock words with nonsense in them, and the ioctls that go with them: no call
 * hangs, whatever a process writes there or asks for.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <linux/sockios.h>

#include "kselftest_harness.h"
#include "hole.h"
#include "lock.h"
#include "map_pair.h"
#include "regions.h"
#include "signals.h"

MAP_PAIR_FIXTURE(map_lock, 16)

/* Shared with the children. */
struct shared {
	uint32_t ready, go, done;
	uint32_t stop;
	uint32_t result;
};

/* No call hangs, whatever is in the word; a stray number delays none. */
TEST_F_TIMEOUT(map_lock, nonsense_in_the_word, 300)
{
	struct mapping m;
	unsigned int i;
	int which;

	ASSERT_EQ(0, mapping_open(&m, self->fd[0]));
	for (which = L5_LOCK_TX; which <= L5_LOCK_RX; which++) {
		__u32 *word = which == L5_LOCK_TX ? &m.own->tx_lock :
			      &m.own->rx_lock;
		const struct {
			uint32_t v;
			bool waits;	/* may, for a holder that lives */
		} t[] = {
			{ L5_LOCK_WAITERS, false },
			{ L5_LOCK_DIED, false },
			{ L5_LOCK_DIED | L5_LOCK_WAITERS, false },
			{ 0x1234567, false },
			{ 0x1234567 | L5_LOCK_WAITERS, false },
			{ 0x2fffffff | L5_LOCK_DIED, false },
			{ L5_LOCK_KERNEL, false },
			{ 0xffffffff, false },
			{ m.id, true },
			{ m.id | L5_LOCK_WAITERS, true },
			{ m.id | L5_LOCK_DIED, true },
		};

		for (i = 0; i < ARRAY_SIZE(t); i++) {
			uint8_t b[100], c[100];
			ssize_t n;

			l5_fill(b, 100, i);
			if (which == L5_LOCK_RX)
				ASSERT_EQ(100, send(self->fd[1], b, 100, 0));
			l5_store(word, t[i].v);
			/* at once */
			if (which == L5_LOCK_TX)
				n = send(self->fd[0], b, 100, MSG_DONTWAIT);
			else
				n = recv(self->fd[0], c, 100, MSG_DONTWAIT);
			if (n < 0)
				EXPECT_EQ(EAGAIN, errno);
			/* asleep, until a signal or because it goes on */
			if (n < 0) {
				alarm_every(50000);
				do {
					if (which == L5_LOCK_TX)
						n = send(self->fd[0], b, 100,
							 0);
					else
						n = recv(self->fd[0], c, 100,
							 0);
				} while (n < 0 && errno == EINTR &&
					 !t[i].waits && caught < 40);
				alarm_off();
			}
			if (!t[i].waits) {
				EXPECT_EQ(100, n) {
					TH_LOG("%s word %#x: %zd %s",
					       which ? "rx" : "tx", t[i].v, n,
					       strerror(errno));
				}
			} else if (n < 0) {
				EXPECT_EQ(EINTR, errno);
			}
			if (n < 0) {
				if (i == ARRAY_SIZE(t) - 1)
					EXPECT_TRUE(all_come_back(self->fd[0]));
				l5_store(word, 0);
				n = which == L5_LOCK_TX ?
				    send(self->fd[0], b, 100, 0) :
				    recv(self->fd[0], c, 100, 0);
			}
			EXPECT_EQ(100, n);
			if (which == L5_LOCK_TX)
				n = recv(self->fd[1], c, 100, MSG_WAITALL);
			EXPECT_EQ(-1, l5_check(c, 100, i));
			l5_store(word, 0);
			while (recv(self->fd[1], c, 100, MSG_DONTWAIT) > 0)
				;
		}
	}
	mapping_close(&m);
	EXPECT_TRUE(end_exchange(self->fd[0], self->fd[1], 50000, 0));
}

/* Unlocked by a plain store: a sleeper is not told, and goes on. */
TEST_F_TIMEOUT(map_lock, unlocked_in_silence, 120)
{
	struct shared *sh = map_shared(4096);
	struct mapping m;
	int k, status;
	pid_t pid;

	ASSERT_EQ(0, mapping_open(&m, self->fd[0]));
	for (k = 0; k < 4; k++) {
		memset(sh, 0, sizeof(*sh));
		ASSERT_EQ(1, mapping_lock(&m, L5_LOCK_TX));
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			struct mapping n;
			uint8_t b[100];

			l5_fill(b, 100, k);
			if (k & 1) {
				if (mapping_open(&n, self->fd[0]))
					_exit(1);
				_exit(mapping_send(&n, b, 100, 0) != 100);
			}
			_exit(send(self->fd[0], b, 100, 0) != 100);
		}
		ASSERT_TRUE(UNTIL(l5_load(&m.own->tx_lock) &
				  L5_LOCK_WAITERS));
		ASSERT_TRUE(l5_wait_asleep(pid));
		/* in its first nap, or in a later one */
		if (k / 2)
			usleep(200000);
		l5_store(&m.own->tx_lock, 0);
		status = l5_reap(pid);
		EXPECT_EQ(0, status) {
			TH_LOG("%s: %x", k & 1 ? "mapped" : "kernel", status);
		}
		EXPECT_TRUE(end_get(self->fd[1], 100, k));
	}
	mapping_close(&m);
}

/* The ioctls, with arguments and on sockets that they are not for. */
static void calls_refused(struct __test_metadata *_metadata, const char *what,
			  int fd, int err, int err2)
{
	struct l5_map_info info;
	struct l5_region_arg a;
	unsigned long arg;
	int ret;

	EXPECT_GT(0, mapping_info(fd, &info)) {
		TH_LOG("%s", what);
	}
	EXPECT_TRUE(errno == err || errno == err2) {
		TH_LOG("MAP_INFO, %s: %s", what, strerror(errno));
	}
	for (arg = 0; arg < 4; arg++) {
		EXPECT_EQ(-1, ioctl(fd, L5_IOC_DOORBELL, arg)) {
			TH_LOG("%s", what);
		}
		EXPECT_TRUE(errno == err || errno == err2);
		EXPECT_EQ(-1, ioctl(fd, L5_IOC_ARM, arg));
		EXPECT_TRUE(errno == err || errno == err2);
		EXPECT_EQ(-1, ioctl(fd, L5_IOC_LOCK, arg));
		EXPECT_TRUE(errno == err || errno == err2);
		EXPECT_EQ(-1, ioctl(fd, L5_IOC_UNLOCK, arg));
		EXPECT_TRUE(errno == err || errno == err2);
		EXPECT_EQ(-1, ioctl(fd, L5_IOC_ROOM, arg));
		EXPECT_TRUE(errno == err || errno == err2);
	}
	ret = region_make(fd, 1, REGION_RW, &a);
	EXPECT_TRUE(ret == -err || ret == -err2);
}

TEST_F_TIMEOUT(map_lock, calls_on_other_sockets, 120)
{
	struct addr to = addr_parse(variant->at);
	int force = L5_TRANSPORT_BASE, l, c, s, sp[2];

	close(self->fd[0]);
	close(self->fd[1]);
	c = end_socket(END_L5, to.sa.sa_family);
	ASSERT_LE(0, c);
	calls_refused(_metadata, "fresh", c, ENOTCONN, ENOTCONN);
	l = end_listen(END_L5, &to);
	ASSERT_LE(0, l);
	calls_refused(_metadata, "listener", l, ENOTCONN, ENOTCONN);
	ASSERT_EQ(0, setsockopt(c, SOL_L5, L5_FORCE, &force, sizeof(force)));
	ASSERT_EQ(0, connect(c, &to.sa, to.len));
	s = accept(l, NULL, NULL);
	ASSERT_LE(0, s);
	calls_refused(_metadata, "base", c, EOPNOTSUPP, ENOTCONN);
	calls_refused(_metadata, "base, accepted", s, EOPNOTSUPP, ENOTCONN);
	EXPECT_TRUE(end_exchange(c, s, 1000, 0));
	close(c);
	close(s);
	close(l);
	l = end_listen(END_TCP, &to);
	ASSERT_LE(0, l);
	calls_refused(_metadata, "plain listener", l, ENOTTY, ENOTTY);
	c = end_connect(END_TCP, &to);
	ASSERT_LE(0, c);
	calls_refused(_metadata, "plain", c, ENOTTY, ENOTTY);
	close(c);
	close(l);
	ASSERT_EQ(0, pipe(sp));
	calls_refused(_metadata, "pipe", sp[0], ENOTTY, ENOTTY);
	self->fd[0] = sp[0];
	self->fd[1] = sp[1];
}

TEST_F_TIMEOUT(map_lock, nonsense_arguments, 120)
{
	static const unsigned long args[] = {
		0, 1, 2, 3, 4, 5, 7, 8, 100, 0x7fffffff, 0x80000000,
		0xffffffff, 0x100000000, 0x100000001, 1UL << 63, -1UL, -2UL,
	};
	unsigned int i, k;
	struct mapping m;
	int ret, e;

	for (k = 0; k < 2; k++) {
		for (i = 0; i < ARRAY_SIZE(args) * 2; i++) {
			unsigned long a = args[i / 2];
			int fd;

			e = i & 1;
			fd = self->fd[e];
			ret = ioctl(fd, L5_IOC_ARM, a);
			EXPECT_TRUE(ret < 0 ? errno == EINVAL :
				    !(ret & ~(L5_BELL_DATA | L5_BELL_ROOM)) &&
				    !(ret & ~(unsigned int)a)) {
				TH_LOG("ARM %#lx: %d", a, ret);
			}
			ret = ioctl(fd, L5_IOC_DOORBELL, a);
			EXPECT_TRUE(!ret || errno == EINVAL) {
				TH_LOG("DOORBELL %#lx: %d", a, ret);
			}
			ret = ioctl(fd, L5_IOC_LOCK, a);
			EXPECT_TRUE(a <= L5_LOCK_RX ? !ret :
				    ret < 0 && errno == EINVAL) {
				TH_LOG("LOCK %#lx: %d", a, ret);
			}
			ret = ioctl(fd, L5_IOC_UNLOCK, a);
			EXPECT_TRUE(a <= L5_LOCK_RX ? !ret :
				    ret < 0 && errno == EINVAL) {
				TH_LOG("UNLOCK %#lx: %d", a, ret);
			}
		}
		EXPECT_EQ(-1, ioctl(self->fd[0], L5_IOC_MAP_INFO, NULL));
		EXPECT_EQ(EFAULT, errno);
		EXPECT_EQ(-1, ioctl(self->fd[0], L5_IOC_MAP_INFO, 1UL << 63));
		EXPECT_EQ(EFAULT, errno);
		/* near misses */
		EXPECT_EQ(-1, ioctl(self->fd[0], _IO('L', 0xc5)));
		EXPECT_EQ(-1, ioctl(self->fd[0], _IO('L', 0xc0)));
		EXPECT_EQ(-1, ioctl(self->fd[0], _IO('L', 0xbf)));
		EXPECT_EQ(-1, ioctl(self->fd[0], _IOW('L', 0xc1, int)));
		/* and once more with a mapping there */
		if (!k)
			ASSERT_EQ(0, mapping_open(&m, self->fd[0]));
	}
	EXPECT_TRUE(end_exchange(self->fd[0], self->fd[1], 50000, 0));
	mapping_close(&m);
}

/* mend_makes_room is about a record of more than half the ring. */
MAP_PAIR_FIXTURE(map_lock_small, 4)

/*
 * A holder that mends a reader's cursors makes room, and did not ring for it.
 */
TEST_F_TIMEOUT(map_lock_small, mend_makes_room, 300)
{
	char big[4000] = "";
	pid_t writer, reader;

	ASSERT_EQ(4000, send(self->fd[0], big, 4000, MSG_DONTWAIT));
	writer = fork();
	if (!writer)
		_exit(send(self->fd[0], big, 3000, 0) != 3000);
	ASSERT_TRUE(l5_wait_asleep(writer));
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
	ASSERT_EQ(0, l5_reap(reader));
	/* asleep again, or done if the death was enough to wake it */
	l5_wait_asleep(writer);
	recv(self->fd[1], big, sizeof(big), MSG_DONTWAIT);
	EXPECT_EQ(0, l5_reap(writer));
}

/* A signal made FIN overtake a sender that had not published yet. */
TEST_F_TIMEOUT(map_lock_small, fin_waits_for_the_lock, 120)
{
	struct mapping m = { 0 };
	char text[8] = "";
	pid_t sender, closer;
	int ready[2], go[2];

	ASSERT_EQ(0, pipe(ready));
	ASSERT_EQ(0, pipe(go));
	catch_signal(SIGUSR1, SA_RESTART);
	sender = fork();
	if (!sender) {
		if (mapping_open(&m, self->fd[0]) ||
		    mapping_lock(&m, L5_LOCK_TX) != 1 ||
		    l5_prod_load(&m.prod, m.own, m.peer) ||
		    write(ready[1], "", 1) != 1 || read(go[0], text, 1) != 1)
			_exit(1);
		l5_prod_publish(&m.prod, m.own, mapping_slot(&m, m.prod.tail),
				mapping_slot(&m, m.prod.tail + 16), 5);
		mapping_unlock(&m, L5_LOCK_TX);
		ioctl(self->fd[0], L5_IOC_DOORBELL, L5_BELL_DATA);
		_exit(0);
	}
	ASSERT_EQ(1, read(ready[0], text, 1));
	closer = fork();
	if (!closer)
		_exit(shutdown(self->fd[0], SHUT_WR) != 0);
	ASSERT_TRUE(l5_wait_asleep(closer));
	ASSERT_EQ(0, kill(closer, SIGUSR1));
	/* asleep again, or done if the signal was enough to end the wait */
	l5_wait_asleep(closer);
	ASSERT_EQ(1, write(go[1], "", 1));
	EXPECT_EQ(5, recv(self->fd[1], text, sizeof(text), 0));
	EXPECT_EQ(0, recv(self->fd[1], text, sizeof(text), 0));
	EXPECT_EQ(0, l5_reap(sender));
	EXPECT_EQ(0, l5_reap(closer));
}

/* What a call that may not wait, or not for long, says of an end: 0 or errno */
static int says(int fd, int flags)
{
	char b[8];

	return recv(fd, b, sizeof(b), flags) < 0 ? errno : 0;
}

/*
 * The stream has ended, and there are records before the end, which another
 * reader keeps: that is no end.
 */
TEST_F_TIMEOUT(map_lock_small, no_end_behind_a_held_word, 120)
{
	const struct timeval soon = { .tv_usec = 30000 };
	struct mapping m = { 0 };
	int pair[2][2], i;
	char b[8];

	memcpy(pair[0], self->fd, sizeof(pair[0]));
	ASSERT_TRUE(map_pair("packets", &pair[1][0], &pair[1][1]));
	for (i = 0; i < 2; i++) {
		int from = pair[i][0], to = pair[i][1];

		ASSERT_EQ(1, send(from, "a", 1, 0));
		ASSERT_EQ(0, shutdown(from, SHUT_WR));
		ASSERT_EQ(0, mapping_open(&m, to));
		ASSERT_EQ(1, mapping_lock(&m, L5_LOCK_RX));
		EXPECT_EQ(EAGAIN, says(to, MSG_DONTWAIT));
		EXPECT_EQ(EAGAIN, says(to, MSG_DONTWAIT | MSG_PEEK));
		ASSERT_EQ(0, setsockopt(to, SOL_SOCKET, SO_RCVTIMEO, &soon,
					sizeof(soon)));
		EXPECT_EQ(EAGAIN, says(to, 0));
		mapping_unlock(&m, L5_LOCK_RX);
		EXPECT_EQ(1, recv(to, b, sizeof(b), 0));
		EXPECT_EQ(0, recv(to, b, sizeof(b), 0));
		mapping_close(&m);
	}
	close(pair[1][0]);
	close(pair[1][1]);
}

/* A process that has a send under way, and another that waits to shut down */
static void in_the_way(int fd)
{
	void *hole = hole_map(MAP_PAGE, NULL);

	if (!hole)
		_exit(1);
	if (!fork())
		_exit(!l5_wait_asleep(getppid()) || shutdown(fd, SHUT_WR));
	send(fd, hole, 4, MSG_NOSIGNAL);
	_exit(0);
}

static void call_beside(int fd, int i)
{
	const struct sockaddr none = { .sa_family = AF_UNSPEC };
	int v = L5_TRANSPORT_BASE;

	switch (i) {
	case 0:
		shutdown(fd, SHUT_RD);
		break;
	case 1:
		shutdown(fd, SHUT_WR);
		break;
	case 2:
		connect(fd, &none, sizeof(none));
		break;
	case 3:
		listen(fd, 1);
		break;
	default:
		setsockopt(fd, SOL_L5, L5_FORCE, &v, sizeof(v));
	}
	_exit(0);
}

/* A process can be killed, whatever others do with the socket. */
TEST_F_TIMEOUT(map_lock_small, killed_beside_a_shutdown, 240)
{
	pid_t holder, pid[5];
	int i;

	if (!hole_map(MAP_PAGE, NULL))
		SKIP(return, "no userfaultfd");
	holder = fork();
	ASSERT_LE(0, holder);
	if (!holder)
		in_the_way(self->fd[0]);
	ASSERT_TRUE(l5_wait_asleep(holder));
	/* the first one waits for the sender, the others for that */
	for (i = 0; i < 5; i++) {
		pid[i] = fork();
		ASSERT_LE(0, pid[i]);
		if (!pid[i])
			call_beside(self->fd[0], i);
	}
	for (i = 0; i < 5; i++)
		l5_wait_asleep(pid[i]);
	for (i = 0; i < 5; i++) {
		kill(pid[i], SIGKILL);
		EXPECT_NE(-1, l5_reap(pid[i])) {
			TH_LOG("call %d", i);
		}
	}
	kill(holder, SIGKILL);
	EXPECT_EQ(SIGKILL, l5_reap(holder));
}

/* A reader that was told EAGAIN because of a lock word got no other edge. */
TEST_F_TIMEOUT(map_lock_small, edge_after_a_held_word, 300)
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
	EXPECT_EQ(0, l5_reap(holder));
}

TEST_HARNESS_MAIN
