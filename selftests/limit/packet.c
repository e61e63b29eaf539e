// SPDX-License-Identifier: GPL-2.0
/*
 * SOCK_SEQPACKET: a message is whole or is not there, whoever sends it, however
 * the sender ends; and where such sockets, and their rings, cannot be had.
 */
#include <kselftest_harness.h>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "mapping.h"
#include "whole.h"

enum { SENDERS = 4, EACH = 400, LONGEST = 60000, KILLS = 60 };

FIXTURE(limit_packet) { int fd[2]; };

FIXTURE_SETUP(limit_packet)
{
	l5_or_skip();
	ASSERT_EQ(0, socketpair(l5_family(), SOCK_SEQPACKET, L5PROTO_UNIX,
				self->fd));
	ASSERT_EQ(L5_TRANSPORT_SHM, l5_transport(self->fd[0]));
}

FIXTURE_TEARDOWN(limit_packet)
{
	(void)_metadata;
	close(self->fd[0]);
	close(self->fd[1]);
}

FIXTURE(limit_packet_new) { };

FIXTURE_SETUP(limit_packet_new)
{
	(void)self;
	l5_or_skip();
}

FIXTURE_TEARDOWN(limit_packet_new)
{
	(void)self;
	(void)_metadata;
}

static int send_one(int fd, uint8_t *buf, uint32_t len)
{
	whole_make(buf, len);
	return send(fd, buf, len, 0) == (ssize_t)len ? 0 : -1;
}

static void sender(int fd, uint64_t seed, int n)
{
	static uint8_t buf[LONGEST];

	for (; n; n--)
		if (send_one(fd, buf, sizeof(uint32_t) + l5_rnd(&seed) %
			     (LONGEST - sizeof(uint32_t))))
			_exit(1);
	_exit(0);
}

/* Several processes send by one descriptor, and several receive. */
TEST_F_TIMEOUT(limit_packet, shared, 300)
{
	int *count = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid[SENDERS], reader[2];
	static uint8_t buf[LONGEST + 1];
	ssize_t n;
	int i;

	ASSERT_NE(MAP_FAILED, count);
	for (i = 0; i < 2; i++) {
		reader[i] = fork();
		ASSERT_LE(0, reader[i]);
		if (reader[i])
			continue;
		close(self->fd[0]);
		while ((n = recv(self->fd[1], buf, sizeof(buf), 0)) > 0) {
			if (!whole_is(buf, n))
				_exit(1);
			__atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
		}
		_exit(n < 0);
	}
	for (i = 0; i < SENDERS; i++) {
		pid[i] = fork();
		ASSERT_LE(0, pid[i]);
		if (!pid[i])
			sender(self->fd[0], i + 1, EACH);
	}
	close(self->fd[0]);
	for (i = 0; i < SENDERS; i++)
		EXPECT_EQ(0, l5_reap(pid[i]));
	for (i = 0; i < 2; i++)
		EXPECT_EQ(0, l5_reap(reader[i]));
	EXPECT_EQ(SENDERS * EACH, *count);
	self->fd[0] = -1;
	munmap(count, 4096);
}

static void kill_sends(void *arg, uint64_t seed)
{
	sender(*(int *)arg, seed, 1 << 20);
}

static ssize_t kill_takes(void *arg, void *buf, size_t size)
{
	return recv(((int *)arg)[1], buf, size, MSG_DONTWAIT);
}

/* A sender that is killed leaves a whole message, or none. */
TEST_F_TIMEOUT(limit_packet, killed, 300)
{
	static uint8_t buf[LONGEST + 1];
	const struct whole_kill k = {
		.send = kill_sends, .take = kill_takes, .arg = self->fd,
		.buf = buf, .size = sizeof(buf),
	};
	ssize_t n;

	ASSERT_TRUE(whole_after_kills(&k, KILLS));
	/* and the next ones have their place */
	ASSERT_EQ(0, send_one(self->fd[0], buf, 1000));
	n = recv(self->fd[1], buf, sizeof(buf), 0);
	EXPECT_EQ(1000, n);
	EXPECT_TRUE(whole_is(buf, n));
}

/* As long as half of its ring less 16 bytes, and not one byte more */
TEST_F(limit_packet, longest)
{
	size_t most = l5_sysctl("ring_kb", 256), n;
	uint8_t *buf;

	ASSERT_EQ(256, most);
	most = (most << 10) - 16;
	buf = malloc(most + 1);
	ASSERT_NE(NULL, buf);
	for (n = 0; n < 3; n++) {
		l5_fill(buf, most, n);
		EXPECT_EQ(-1, send(self->fd[0], buf, most + 1, 0));
		EXPECT_EQ(EMSGSIZE, errno);
		ASSERT_EQ((ssize_t)most, send(self->fd[0], buf, most, 0));
		/* a second one fits as well, and a third does not */
		ASSERT_EQ((ssize_t)most, send(self->fd[0], buf, most, 0));
		EXPECT_EQ(-1, send(self->fd[0], "", 0, MSG_DONTWAIT));
		EXPECT_EQ(EAGAIN, errno);
		memset(buf, 0, most);
		ASSERT_EQ((ssize_t)most, recv(self->fd[1], buf, most + 1, 0));
		EXPECT_EQ(-1, l5_check(buf, most, n));
		ASSERT_EQ((ssize_t)most, recv(self->fd[1], buf, most + 1, 0));
		ASSERT_EQ(3, send(self->fd[0], "odd", 3, 0));
		ASSERT_EQ(3, recv(self->fd[1], buf, most, 0));
	}
	free(buf);
}

/* A long message has its turn beside short ones, however many there are. */
TEST_F_TIMEOUT(limit_packet, turns, 120)
{
	static uint8_t buf[200000];
	pid_t small[3], large;
	int i, longs = 0;
	ssize_t n;

	for (i = 0; i < 3; i++) {
		small[i] = fork();
		ASSERT_LE(0, small[i]);
		while (!small[i])
			if (send(self->fd[0], buf, 1000, 0) != 1000)
				_exit(1);
	}
	large = fork();
	ASSERT_LE(0, large);
	while (!large)
		if (send(self->fd[0], buf, sizeof(buf), 0) != sizeof(buf))
			_exit(1);
	/* it is bounded by what it takes: a message that starves never comes */
	for (i = 0; longs < 10; i++) {
		n = recv(self->fd[1], buf, sizeof(buf), 0);
		ASSERT_LT(0, n);
		longs += n == sizeof(buf);
		if (!(i % 8))
			usleep(200);
		ASSERT_GT(100000, i);
	}
	kill(large, SIGKILL);
	waitpid(large, NULL, 0);
	for (i = 0; i < 3; i++) {
		kill(small[i], SIGKILL);
		waitpid(small[i], NULL, 0);
	}
}

/* What poll() says holds: a sender that is alone is not turned away. */
TEST_F_TIMEOUT(limit_packet, poll_says, 120)
{
	static uint8_t buf[200000];
	struct pollfd p = { .fd = self->fd[0], .events = POLLOUT };
	int i, again = 0;
	pid_t pid;

	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		for (i = 0; i < 60; i++) {
			usleep(5000);
			if (recv(self->fd[1], buf, sizeof(buf), 0) <= 0)
				_exit(1);
		}
		_exit(0);
	}
	for (i = 0; i < 60; ) {
		ASSERT_EQ(1, poll(&p, 1, -1));
		if (send(self->fd[0], buf, i % 2 ? 125000 : 190000,
			 MSG_DONTWAIT) > 0) {
			i++;
			continue;
		}
		ASSERT_EQ(EAGAIN, errno);
		again++;
	}
	EXPECT_EQ(0, l5_reap(pid));
	EXPECT_EQ(0, again);
}

/* With little memory messages wait for those before them to be read. */
TEST_F_TIMEOUT(limit_packet_new, little_memory, 120)
{
	struct pollfd p = { .events = POLLOUT };
	static uint8_t buf[28000];
	long before = l5_sysctl("mem_max_kb", 64);
	int fd[2], i, again = 0;
	pid_t pid;

	ASSERT_LE(0, before);
	ASSERT_EQ(0, socketpair(l5_family(), SOCK_SEQPACKET, L5PROTO_UNIX, fd));
	EXPECT_EQ(L5_TRANSPORT_SHM, l5_transport(fd[0]));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		for (i = 0; i < 40; i++) {
			usleep(5000);
			if (recv(fd[1], buf, sizeof(buf), 0) <= 0)
				_exit(1);
		}
		_exit(0);
	}
	for (i = 0; i < 20; i++) {
		EXPECT_EQ((ssize_t)sizeof(buf),
			  send(fd[0], buf, sizeof(buf), 0)) {
			TH_LOG("%s", strerror(errno));
		}
	}
	p.fd = fd[0];
	while (i < 40) {
		ASSERT_EQ(1, poll(&p, 1, -1));
		if (send(fd[0], buf, sizeof(buf), MSG_DONTWAIT) > 0) {
			i++;
			continue;
		}
		ASSERT_EQ(EAGAIN, errno);
		again++;
	}
	/* each page that the reader leaves may be one too few */
	EXPECT_GT(1000, again);
	EXPECT_EQ(0, l5_reap(pid));
	close(fd[0]);
	close(fd[1]);
	l5_sysctl("mem_max_kb", before);
}

/* If there is no memory for it at all it is told so, once it is the first. */
TEST_F_TIMEOUT(limit_packet_new, no_memory, 60)
{
	static uint8_t buf[200000];
	long before = l5_sysctl("mem_max_kb", 64);
	struct pollfd p = { .events = POLLOUT };
	int fd[2], status;
	pid_t pid;

	ASSERT_LE(0, before);
	ASSERT_EQ(0, socketpair(l5_family(), SOCK_SEQPACKET, L5PROTO_UNIX, fd));
	ASSERT_EQ(100, send(fd[0], buf, 100, 0));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid)
		_exit(send(fd[0], buf, sizeof(buf), 0) < 0 ? errno : 0);
	EXPECT_TRUE(l5_wait_asleep(pid));
	EXPECT_EQ(100, recv(fd[1], buf, sizeof(buf), 0));
	status = l5_reap(pid);
	EXPECT_TRUE(WIFEXITED(status));
	EXPECT_EQ(ENOBUFS, WEXITSTATUS(status));
	/* and others go on */
	p.fd = fd[0];
	EXPECT_EQ(1, poll(&p, 1, 10000));
	EXPECT_EQ(100, send(fd[0], buf, 100, MSG_DONTWAIT));
	EXPECT_EQ(100, recv(fd[1], buf, sizeof(buf), MSG_DONTWAIT));
	close(fd[0]);
	close(fd[1]);
	l5_sysctl("mem_max_kb", before);
}

/* A long message waits for its room, while short ones are read. */
TEST_F_TIMEOUT(limit_packet, waits_for_room, 120)
{
	static uint8_t buf[200000];
	int n = 0, got = 0;
	pid_t pid;

	while (send(self->fd[0], buf, 1000, MSG_DONTWAIT) == 1000)
		n++;
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid)
		_exit(send(self->fd[0], buf, sizeof(buf), 0) != sizeof(buf));
	ASSERT_TRUE(l5_wait_asleep(pid));
	while (n--)
		got += recv(self->fd[1], buf, sizeof(buf), 0) == 1000;
	EXPECT_EQ((ssize_t)sizeof(buf),
		  recv(self->fd[1], buf, sizeof(buf), 0));
	EXPECT_EQ(0, l5_reap(pid));
	EXPECT_LT(100, got);
}

/* A program that knows streams alone is not let near these rings. */
TEST_F(limit_packet, asked_about)
{
	struct l5_map_info info = {
		.size = sizeof(info), .version_max = L5_MAP_VERSION,
		.features = L5_REC_FILES,
	};

	EXPECT_EQ(-1, ioctl(self->fd[0], L5_IOC_MAP_INFO, &info));
	EXPECT_EQ(EPROTONOSUPPORT, errno);
	EXPECT_EQ(L5_REC_FILES | L5_MAP_MESSAGES, info.features);
	info = (struct l5_map_info){
		.size = sizeof(info), .version_max = L5_MAP_VERSION,
		.features = ~0ull,
	};
	EXPECT_EQ(0, ioctl(self->fd[0], L5_IOC_MAP_INFO, &info));
	EXPECT_EQ(L5_REC_FILES | L5_MAP_MESSAGES, info.features);
}

/* A process that shares the end says that it took a part, and did not. */
TEST_F(limit_packet, no_part_taken)
{
	struct mapping m;
	char b[9] = "";

	ASSERT_EQ(0, mapping_open(&m, self->fd[1]));
	ASSERT_EQ(8, send(self->fd[0], "01234567", 8, 0));
	ASSERT_EQ(3, send(self->fd[0], "abc", 3, 0));
	l5_store(&m.own->rx_pos, l5_load(&m.own->rx_head) + 4);
	EXPECT_EQ(8, recv(self->fd[1], b, sizeof(b), MSG_PEEK));
	EXPECT_STREQ("01234567", b);
	l5_store(&m.own->rx_pos, l5_load(&m.own->rx_head) + 4);
	memset(b, 0, sizeof(b));
	EXPECT_EQ(8, recv(self->fd[1], b, sizeof(b), 0));
	EXPECT_STREQ("01234567", b);
	EXPECT_EQ(3, recv(self->fd[1], b, sizeof(b), 0));
	mapping_close(&m);
}

static ssize_t send_fd(int fd, const char *text, size_t len, int passed)
{
	char room[CMSG_SPACE(sizeof(int))] = "";
	struct iovec v = { (char *)text, len };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1,
			    .msg_control = room,
			    .msg_controllen = sizeof(room) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &passed, sizeof(int));
	return sendmsg(fd, &m, 0);
}

/* An administrator's end: a reset, once; then what has come, and the end. */
TEST_F(limit_packet, revoked)
{
	static const char all[] = "all\n";
	FILE *f = fopen("/proc/net/l5_revoke", "w");
	char b[8];

	ASSERT_NE(NULL, f);
	ASSERT_EQ(4, send(self->fd[0], "last", 4, 0));
	EXPECT_LE(0, fputs(all, f));
	EXPECT_EQ(0, fclose(f));
	EXPECT_EQ(-1, recv(self->fd[1], b, sizeof(b), 0));
	EXPECT_EQ(ECONNRESET, errno);
	EXPECT_EQ(4, recv(self->fd[1], b, sizeof(b), 0));
	EXPECT_EQ(0, recv(self->fd[1], b, sizeof(b), 0));
	EXPECT_EQ(-1, send(self->fd[1], b, 1, 0));
	EXPECT_EQ(EPIPE, errno);
}

TEST_F(limit_packet_new, kinds)
{
	int fd;

	EXPECT_EQ(-1, socket(l5_family(), SOCK_SEQPACKET, L5PROTO_INET));
	EXPECT_EQ(ESOCKTNOSUPPORT, errno);
	EXPECT_EQ(-1, socket(l5_family(), SOCK_SEQPACKET, L5PROTO_INET6));
	EXPECT_EQ(ESOCKTNOSUPPORT, errno);
	EXPECT_EQ(-1, socket(l5_family(), SOCK_RAW, L5PROTO_UNIX));
	EXPECT_EQ(ESOCKTNOSUPPORT, errno);
	fd = socket(l5_family(), SOCK_SEQPACKET | SOCK_NONBLOCK, L5PROTO_UNIX);
	EXPECT_LE(0, fd);
	close(fd);
}

/* Without rings messages go by AF_UNIX. */
TEST_F(limit_packet_new, without_rings)
{
	long enabled = l5_sysctl("enabled", 0);
	char b[8];
	int p[2];

	ASSERT_EQ(0, socketpair(l5_family(), SOCK_SEQPACKET, L5PROTO_UNIX, p));
	l5_sysctl("enabled", enabled);
	EXPECT_EQ(L5_TRANSPORT_BASE, l5_transport(p[0]));
	EXPECT_EQ(4, send(p[0], "long", 4, 0));
	EXPECT_EQ(0, send(p[0], "", 0, 0));
	EXPECT_EQ(4, recv(p[1], b, 2, MSG_TRUNC));
	EXPECT_EQ(0, recv(p[1], b, sizeof(b), MSG_DONTWAIT));
	EXPECT_EQ(-1, recv(p[1], b, sizeof(b), MSG_DONTWAIT));
	EXPECT_EQ(EAGAIN, errno);
	close(p[0]);
	close(p[1]);
}

/*
 * A plain peer's descriptors that would keep others are taken, and the receiver
 * is told so with that message, be it empty.
 */
TEST_F(limit_packet_new, taken)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	struct iovec v = { &(char){ 0 }, 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
	int l, a, b, p[2];

	snprintf(sun.sun_path + 1, sizeof(sun.sun_path) - 1,
		 "limit_packet %d", getpid());
	l = socket(l5_family(), SOCK_SEQPACKET, L5PROTO_UNIX);
	ASSERT_EQ(0, bind(l, (struct sockaddr *)&sun, sizeof(sun)));
	ASSERT_EQ(0, listen(l, 1));
	a = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	ASSERT_EQ(0, connect(a, (struct sockaddr *)&sun, sizeof(sun)));
	b = accept(l, NULL, NULL);
	ASSERT_LE(0, b);
	EXPECT_EQ(L5_TRANSPORT_BASE, l5_transport(b));
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, p));
	EXPECT_EQ(0, send_fd(a, "", 0, p[0]));
	EXPECT_EQ(1, send_fd(a, "x", 1, p[0]));
	EXPECT_EQ(1, send(a, "y", 1, 0));
	EXPECT_EQ(0, recvmsg(b, &m, 0));
	EXPECT_EQ(MSG_CTRUNC, m.msg_flags & MSG_CTRUNC);
	EXPECT_EQ(1, recvmsg(b, &m, 0));
	EXPECT_EQ(MSG_CTRUNC, m.msg_flags & MSG_CTRUNC);
	EXPECT_EQ(1, recvmsg(b, &m, 0));
	EXPECT_EQ(0, m.msg_flags & MSG_CTRUNC);
	close(p[0]);
	close(p[1]);
	close(a);
	close(b);
	close(l);
}

TEST_HARNESS_MAIN
