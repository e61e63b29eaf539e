// SPDX-License-Identifier: GPL-2.0
/*
 * What it costs to ask, and whether it can keep a caller waiting: poll(),
 * select() and epoll neither spin for a program that does not wait nor sleep
 * behind a receiver whose buffer is not there; a server that waits is spun for.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <linux/sockios.h>

#include "kselftest_harness.h"
#include "hole.h"
#include "mapping.h"
#include "signals.h"

FIXTURE(map_poll)
{
	int c, s;
	int ep;
};

FIXTURE_VARIANT(map_poll)
{
	const char *at;
};

FIXTURE_VARIANT_ADD(map_poll, inet)
{
	.at = "127.0.0.1:0",
};

FIXTURE_VARIANT_ADD(map_poll, unix)
{
	.at = "abstract:l5_map_poll",
};

FIXTURE_SETUP(map_poll)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int fd[2];

	ASSERT_TRUE(map_begin(variant->at, 64, fd));
	self->c = fd[0];
	self->s = fd[1];
	self->ep = epoll_create1(EPOLL_CLOEXEC);
	ASSERT_EQ(0, epoll_ctl(self->ep, EPOLL_CTL_ADD, self->c, &ev));
}

FIXTURE_TEARDOWN(map_poll)
{
	close(self->ep);
	close(self->c);
	close(self->s);
}

static bool spin_us(int fd, int us)
{
	return !setsockopt(fd, SOL_L5, L5_SPIN_US, &us, sizeof(us));
}

static bool say(int from)
{
	return send(from, "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
}

static bool hear(int to)
{
	char c;

	return recv(to, &c, 1, MSG_DONTWAIT) == 1;
}

/* By poll() and by select(), without waiting */
static int ask(int fd, int i)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct timeval now = { 0 };
	fd_set set;

	if (i & 1)
		return poll(&p, 1, 0);
	FD_ZERO(&set);
	FD_SET(fd, &set);
	return select(fd + 1, &set, NULL, NULL, &now);
}

/* On a socket that has asked something and has no answer. */
TEST_F_TIMEOUT(map_poll, ask_only, 120)
{
	long long spins;
	int i, k;

	/* nor if an epoll set watches it, too */
	for (k = 0; k < 2; k++) {
		ASSERT_TRUE(spin_us(self->c, 1000));
		spins = l5_stat("spins");
		for (i = 0; i < 200; i++) {
			ASSERT_TRUE(say(self->c));
			ASSERT_EQ(0, ask(self->c, i));
			ASSERT_EQ(0, ask(self->c, i + 1));
			ASSERT_EQ(0, ask(self->c, i));
			ASSERT_TRUE(hear(self->s));
			ASSERT_TRUE(say(self->s));
			ASSERT_EQ(1, ask(self->c, i));
			ASSERT_TRUE(hear(self->c));
		}
		spins = l5_stat("spins") - spins;
		/* with the set it may be thought to sleep, for a lock */
		EXPECT_GE(k ? 0 : 20, spins);
		if (!k)
			EXPECT_EQ(0, close(self->ep));
		self->ep = -1;
	}
}

/* A program that asks epoll now and then and does other things. */
TEST_F_TIMEOUT(map_poll, epoll_ask_only, 120)
{
	struct epoll_event ev;
	long long spins;
	int i;

	ASSERT_TRUE(spin_us(self->c, 1000));
	spins = l5_stat("spins");
	for (i = 0; i < 200; i++) {
		ASSERT_TRUE(say(self->s));
		ASSERT_EQ(1, epoll_wait(self->ep, &ev, 1, 0));
		ASSERT_TRUE(hear(self->c));
		ASSERT_TRUE(say(self->c));
		ASSERT_EQ(0, epoll_wait(self->ep, &ev, 1, 0));
		ASSERT_TRUE(hear(self->s));
	}
	/* some of these may have slept for a lock */
	EXPECT_GT(50, l5_stat("spins") - spins);
}

struct later {
	int fd;
	uint32_t go;
};

static void on_cpu(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void *answer_later(void *arg)
{
	struct later *l = arg;

	on_cpu(1);
	while (!l5_load(&l->go))
		usleep(100);
	usleep(10000);
	say(l->fd);
	return NULL;
}

/*
 * Told to spin for as long as it can be, epoll is not kept waiting until the
 * answer comes after 10 ms: it says that there is none. Not each time, as this
 * thread may stand still for so long.
 */
TEST_F_TIMEOUT(map_poll, epoll_no_long_spin, 120)
{
	struct epoll_event ev;
	int i, n, sum = 0;

	on_cpu(0);
	ASSERT_TRUE(spin_us(self->c, 1000000));
	for (i = 0; i < 40; i++) {
		struct later l = { .fd = self->s };
		pthread_t t;

		/* as the last one that was polled here, and read */
		ASSERT_TRUE(say(self->s));
		ASSERT_EQ(1, epoll_wait(self->ep, &ev, 1, 0));
		ASSERT_TRUE(hear(self->c));
		ASSERT_TRUE(say(self->c));
		ASSERT_EQ(0, pthread_create(&t, NULL, answer_later, &l));
		/* it has slept, and may be going to */
		usleep(2000);
		l5_store(&l.go, 1);
		n = epoll_wait(self->ep, &ev, 1, 0);
		ASSERT_LE(0, n);
		sum += n;
		pthread_join(t, NULL);
		ASSERT_TRUE(hear(self->c));
		ASSERT_TRUE(hear(self->s));
	}
	TH_LOG("waited for %d answers of 40", sum);
	EXPECT_GT(20, sum);
}

/* An echo server in level-triggered epoll. */
static void *serve(void *arg)
{
	int *fd = arg, n;
	struct epoll_event ev;
	char c;

	for (;;) {
		if (epoll_wait(fd[0], &ev, 1, -1) != 1)
			continue;
		n = recv(fd[1], &c, 1, MSG_DONTWAIT);
		if (!n)
			return NULL;
		if (n == 1)
			send(fd[1], &c, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	}
}

TEST_F_TIMEOUT(map_poll, server_spins, 120)
{
	int fd[2] = { self->ep, self->c }, i;
	long long spins;
	pthread_t t;
	char c;

	ASSERT_TRUE(spin_us(self->c, 200));
	ASSERT_TRUE(spin_us(self->s, 0));
	spins = l5_stat("spins");
	ASSERT_EQ(0, pthread_create(&t, NULL, serve, fd));
	for (i = 0; i < 300; i++) {
		ASSERT_EQ(1, send(self->s, "x", 1, 0));
		ASSERT_EQ(1, recv(self->s, &c, 1, 0));
		/* so that it sleeps now and then */
		if (i % 10 == 0)
			usleep(2000);
	}
	shutdown(self->s, SHUT_WR);
	pthread_join(t, NULL);
	spins = l5_stat("spins") - spins;
	TH_LOG("%lld spins", spins);
	EXPECT_LT(20, spins);
}

/*
 * A peer that sends by a mapped ring and receives by system calls is waited
 * for, too; as long as net.l5.spin_us says, which is long here.
 */
TEST_F_TIMEOUT(map_poll, mapped_awaits, 120)
{
	struct mapping m;
	long long spins;
	pid_t pid;
	char c;
	int i;

	ASSERT_LE(0, l5_sysctl("spin_us", 100000));
	ASSERT_LE(0, l5_sysctl("cpu_budget", 100));
	/* the other end is not to be counted */
	ASSERT_TRUE(spin_us(self->s, 0));
	ASSERT_EQ(0, mapping_open(&m, self->c));
	pid = fork();
	if (!pid) {
		close(self->c);
		while (recv(self->s, &c, 1, 0) == 1)
			send(self->s, &c, 1, MSG_NOSIGNAL);
		_exit(0);
	}
	close(self->s);
	self->s = -1;
	spins = l5_stat("spins");
	for (i = 0; i < 100; i++) {
		ASSERT_EQ(1, mapping_put(&m, "x", 1));
		ASSERT_EQ(1, recv(self->c, &c, 1, 0));
	}
	/* but not while another task could use the CPU */
	spins = l5_stat("spins") - spins;
	TH_LOG("%lld spins", spins);
	EXPECT_LT(10, spins);
	mapping_close(&m);
	shutdown(self->c, SHUT_WR);
	EXPECT_EQ(0, l5_reap(pid));
}

/*
 * A receiver, or a sender, inside of the kernel whose buffer is not there, and
 * does not come: it has the lock of its direction.
 */
struct stuck {
	uint8_t *page;
	pid_t pid;
};

static bool stick(struct stuck *s, int fd, bool rx)
{
	int ready[2];
	char c;

	if (pipe(ready))
		return false;
	fflush(NULL);
	s->pid = fork();
	if (s->pid)
		goto parent;
	s->page = hole_map(MAP_PAGE, NULL);
	if (!s->page)
		_exit(77);
	(void)!write(ready[1], "x", 1);
	if (rx)
		recv(fd, s->page, 10, 0);
	else
		send(fd, s->page, 10, 0);
	_exit(1);

parent:
	close(ready[1]);
	if (read(ready[0], &c, 1) != 1)
		return false;
	close(ready[0]);
	return l5_wait_asleep(s->pid);
}

static void unstick(struct stuck *s)
{
	int status;

	kill(s->pid, SIGKILL);
	waitpid(s->pid, &status, 0);
}

/* Ask in a child: exit code 0 if all is as it should be. */
static int beside_rx(int fd, int what)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct timeval tv = { .tv_usec = 50000 };
	struct epoll_event ev = { .events = EPOLLIN };
	int low = 100, n, ep = epoll_create1(0);
	char b[200];

	switch (what) {
	case 0:
	case 1:
		/* 300 bytes are there */
		setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low));
		if (!what)
			return poll(&p, 1, 0) != 1;
		epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev);
		return epoll_wait(ep, &ev, 1, 0) != 1;
	case 2:
		return recv(fd, b, 1, MSG_DONTWAIT) != -1 || errno != EAGAIN;
	case 3:
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
		return recv(fd, b, 1, 0) != -1 || errno != EAGAIN;
	case 4:
		alarm_every(15000);
		return recv(fd, b, 1, 0) != -1 || errno != EINTR;
	case 5:
		alarm_every(15000);
		return ioctl(fd, SIOCINQ, &n) != -1 || errno != EINTR;
	default:
		/* to be killed */
		recv(fd, b, 1, 0);
		return 1;
	}
}

static int beside_tx(int fd, int what)
{
	struct timeval tv = { .tv_usec = 50000 };

	switch (what) {
	case 2:
		return send(fd, "x", 1, MSG_DONTWAIT) != -1 || errno != EAGAIN;
	case 3:
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
		return send(fd, "x", 1, 0) != -1 || errno != EAGAIN;
	case 4:
		alarm_every(15000);
		return send(fd, "x", 1, 0) != -1 || errno != EINTR;
	case 6:
		send(fd, "x", 1, 0);
		return 1;
	default:
		return 0;
	}
}

static void beside(struct __test_metadata *_metadata, int fd, bool rx)
{
	static const char *const name[] = {
		"poll", "epoll", "MSG_DONTWAIT", "time-out", "signal",
		"SIOCINQ", "kill"
	};
	struct timeval none = { 0 };
	int what, status;
	pid_t pid;

	for (what = 0; what < 7; what++) {
		/* they share the socket */
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof(none));
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &none, sizeof(none));
		pid = fork();
		if (!pid)
			_exit(rx ? beside_rx(fd, what) : beside_tx(fd, what));
		if (what == 6) {
			EXPECT_TRUE(l5_wait_asleep(pid));
			kill(pid, SIGKILL);
		}
		status = l5_reap(pid);
		if (what == 6 && status != -1 && WIFSIGNALED(status))
			status = 0;
		EXPECT_EQ(0, status) {
			TH_LOG("%s, %s: %s (%x)", rx ? "rx" : "tx", name[what],
			       status == -1 ? "hangs" : "wrong", status);
		}
	}
}

TEST_F_TIMEOUT(map_poll, stuck_receiver, 600)
{
	uint8_t b[300] = { 0 };
	struct stuck k;

	ASSERT_EQ(300, send(self->s, b, 300, 0));
	ASSERT_TRUE(stick(&k, self->c, true));
	beside(_metadata, self->c, true);
	unstick(&k);
	/* nothing of it is gone */
	EXPECT_EQ(300, recv(self->c, b, sizeof(b), 0));
}

TEST_F_TIMEOUT(map_poll, stuck_sender, 600)
{
	struct stuck k;

	ASSERT_TRUE(stick(&k, self->c, false));
	beside(_metadata, self->c, false);
	unstick(&k);
	ASSERT_TRUE(say(self->c));
	EXPECT_TRUE(hear(self->s));
	EXPECT_FALSE(hear(self->s));
}

/* Say at an end that its peer has bytes to read. */
static bool lie(int fd)
{
	struct mapping m;

	if (mapping_open(&m, fd))
		return false;
	l5_store(&m.own->tx_tail, l5_load(&m.own->tx_tail) + L5_HDR);
	mapping_close(&m);
	return true;
}

/*
 * Words of both ends say that the other one is to be woken, for nothing. A task
 * that asks for both does not go on waking itself.
 */
TEST_F_TIMEOUT(map_poll, lies_of_both, 120)
{
	struct epoll_event ev = { .events = EPOLLIN };
	struct pollfd p[2] = {
		{ .fd = self->c, .events = POLLIN },
		{ .fd = self->s, .events = POLLIN },
	};
	struct timeval tv = { .tv_usec = 50000 };
	fd_set in;

	ASSERT_TRUE(lie(self->c));
	ASSERT_TRUE(lie(self->s));
	FD_ZERO(&in);
	FD_SET(self->c, &in);
	FD_SET(self->s, &in);
	ASSERT_EQ(0, epoll_ctl(self->ep, EPOLL_CTL_ADD, self->s, &ev));
	catch_signal(SIGALRM, 0);
	alarm(10 * l5_slow());
	EXPECT_EQ(0, poll(p, 2, 50));
	alarm(10 * l5_slow());
	EXPECT_EQ(0, epoll_wait(self->ep, &ev, 1, 50));
	alarm(10 * l5_slow());
	EXPECT_EQ(0, select(self->c + self->s + 1, &in, NULL, NULL, &tv));
	alarm(0);
}

TEST_HARNESS_MAIN
