// SPDX-License-Identifier: GPL-2.0
/*
 * O_NONBLOCK and epoll sets, changed where the preload library does not see it
 * at once: by children of all kinds, by a copy of the descriptor, by system
 * calls of the program's own.
 */
#define SHIM	shim_child
#include "shim.h"

#include <spawn.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>

extern char **environ;

/* Clears all flags of its standard input. */
#define CLEARS	"python3 -c 'import fcntl; fcntl.fcntl(0, fcntl.F_SETFL, 0)'"

/* Once the first thread, which tests run in, sleeps. */
static void *late(void *arg)
{
	if (!l5_wait_asleep(getpid()) || write(*(int *)arg, "l", 1) != 1)
		return "write";
	return NULL;
}

/* A read that finds nothing waits for what comes. */
static bool blocks(int b, int a)
{
	pthread_t t;
	void *ret;
	bool ok;
	char c;

	pthread_create(&t, NULL, late, &a);
	ok = read(b, &c, 1) == 1;
	pthread_join(t, &ret);
	if (!ok)
		return false;
	return !ret && c == 'l';
}

static int by_spawn(int fd)
{
	char *argv[] = { "sh", "-c", CLEARS, NULL };
	posix_spawn_file_actions_t acts;
	int status;
	pid_t pid;

	posix_spawn_file_actions_init(&acts);
	posix_spawn_file_actions_adddup2(&acts, fd, 0);
	if (posix_spawnp(&pid, "sh", &acts, NULL, argv, environ))
		return -1;
	posix_spawn_file_actions_destroy(&acts);
	return waitpid(pid, &status, 0) == pid ? status : -1;
}

static int by_system(int fd)
{
	char cmd[256];

	snprintf(cmd, sizeof(cmd), "exec <&%d; " CLEARS, fd);
	return system(cmd);
}

static int by_popen(int fd)
{
	char cmd[256];
	FILE *f;

	snprintf(cmd, sizeof(cmd), "exec <&%d; " CLEARS, fd);
	f = popen(cmd, "r");
	return f ? pclose(f) : -1;
}

static int by_vfork(int fd)
{
	char cmd[256];
	pid_t pid;
	int status;

	snprintf(cmd, sizeof(cmd), "exec <&%d; " CLEARS, fd);
	pid = vfork();
	if (!pid) {
		execl("/bin/sh", "sh", "-c", cmd, NULL);
		_exit(127);
	}
	return waitpid(pid, &status, 0) == pid ? status : -1;
}

SHIM_TEST(flag_of_a_child)
{
	static int (*const ways[])(int fd) = {
		by_spawn, by_system, by_popen, by_vfork,
	};
	unsigned int i;
	int a, b;
	char c;

	for (i = 0; i < ARRAY_SIZE(ways); i++) {
		WARM_PAIR(L5, a, b);
		fcntl(b, F_SETFL, O_NONBLOCK);
		ASSERT_EQ(-1, read(b, &c, 1));
		ASSERT_EQ(EAGAIN, errno);
		ASSERT_EQ(0, ways[i](b));
		EXPECT_TRUE(blocks(b, a)) {
			TH_LOG("way %u", i);
		}
		close(a);
		close(b);
	}
}

SHIM_TEST(flag_of_a_copy)
{
	int a, b, d;
	char c;

	ASSERT_TRUE(shim_pair(L5, &a, &b));
	d = dup(b);
	ASSERT_LE(0, d);
	fcntl(b, F_SETFL, O_NONBLOCK);
	ASSERT_TRUE(shim_warm(a, b));
	ASSERT_EQ(-1, read(b, &c, 1));
	ASSERT_EQ(EAGAIN, errno);
	fcntl(d, F_SETFL, 0);
	EXPECT_TRUE(blocks(b, a));
	close(d);
	close(a);
	close(b);
}

SHIM_TEST(flag_by_syscall)
{
	int a, b, off = 0;
	char c;

	WARM_PAIR(L5, a, b);
	fcntl(b, F_SETFL, O_NONBLOCK);
	ASSERT_EQ(-1, read(b, &c, 1));
	syscall(SYS_fcntl, b, F_SETFL, 0);
	EXPECT_TRUE(blocks(b, a));
	fcntl(b, F_SETFL, O_NONBLOCK);
	ASSERT_EQ(-1, read(b, &c, 1));
	syscall(SYS_ioctl, b, FIONBIO, &off);
	EXPECT_TRUE(blocks(b, a));
	close(a);
	close(b);
}

/* What is deregistered by a system call is not reported. */
SHIM_TEST(set_by_syscall)
{
	struct epoll_event e = { .events = EPOLLIN }, got;
	int a, b, ep, i;
	char c;

	WARM_PAIR(L5, a, b);
	ep = epoll_create1(0);
	ASSERT_EQ(0, epoll_ctl(ep, EPOLL_CTL_ADD, b, &e));
	for (i = 0; i < 50; i++) {
		ASSERT_EQ(1, write(a, "x", 1));
		ASSERT_EQ(1, epoll_wait(ep, &got, 1, 10000));
		ASSERT_EQ(1, read(b, &c, 1));
	}
	ASSERT_EQ(0, syscall(SYS_epoll_ctl, ep, EPOLL_CTL_DEL, b, &e));
	ASSERT_EQ(1, write(a, "x", 1));
	EXPECT_EQ(0, epoll_wait(ep, &got, 1, 50));
	close(ep);
	close(a);
	close(b);
}

/* A control message that is none is an error, not a crash. */
SHIM_TEST(cut_control_message)
{
	union {
		char room[CMSG_SPACE(sizeof(int))];
		struct cmsghdr c;
	} u;
	struct iovec v = { "x", 1 };
	struct msghdr msg = {
		.msg_iov = &v, .msg_iovlen = 1, .msg_control = &u,
		.msg_controllen = sizeof(u),
	};
	size_t len[] = { 0, 1, sizeof(struct cmsghdr) - 1, 4096, SIZE_MAX };
	int kind, a, b, ret[2], err[2];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(len); i++) {
		for (kind = TCP; kind <= L5; kind++) {
			WARM_PAIR(kind, a, b);
			memset(&u, 0, sizeof(u));
			u.c = (struct cmsghdr){
				.cmsg_len = len[i], .cmsg_level = SOL_SOCKET,
				.cmsg_type = SCM_RIGHTS,
			};
			errno = 0;
			ret[kind] = sendmsg(a, &msg, 0);
			err[kind] = errno;
			close(a);
			close(b);
		}
		EXPECT_EQ(ret[TCP], ret[L5]);
		EXPECT_EQ(err[TCP], err[L5]) {
			TH_LOG("cmsg_len %zu", len[i]);
		}
	}
}

static int set_flag(int fd, bool on)
{
	return fcntl(fd, F_SETFL, on ? O_NONBLOCK : 0);
}

struct setter {
	pthread_barrier_t *both;
	int fd;
};

static void *sets(void *arg)
{
	struct setter *s = arg;

	pthread_barrier_wait(s->both);
	set_flag(s->fd, true);
	return NULL;
}

static long sleeps(void)
{
	struct rusage u;

	getrusage(RUSAGE_THREAD, &u);
	return u.ru_nvcsw;
}

/* Of two threads the one that is last in the kernel has its way. */
SHIM_TEST(flag_by_two_threads)
{
	struct timeval ms = { .tv_usec = 1000 };
	pthread_barrier_t both;
	struct setter s;
	int a, b, i;
	pthread_t t;
	long slept;
	char c;

	WARM_PAIR(L5, a, b);
	ASSERT_EQ(0, setsockopt(b, SOL_SOCKET, SO_RCVTIMEO, &ms, sizeof(ms)));
	pthread_barrier_init(&both, NULL, 2);
	s = (struct setter){ &both, b };
	for (i = 0; i < 1000; i++) {
		pthread_create(&t, NULL, sets, &s);
		pthread_barrier_wait(&both);
		set_flag(b, false);
		pthread_join(t, NULL);
		slept = sleeps();
		ASSERT_EQ(-1, read(b, &c, 1));
		ASSERT_EQ(EAGAIN, errno);
		if (syscall(SYS_fcntl, b, F_GETFL) & O_NONBLOCK)
			continue;
		/* it waited for the time-out */
		ASSERT_LT(slept, sleeps());
	}
	close(a);
	close(b);
}

/* An option that another process sets on what it shares holds here, too. */
SHIM_TEST(lowat_by_a_child)
{
	struct pollfd p = { .events = POLLIN };
	int a, b, low = 3, status;
	char in[10];
	pid_t pid;

	WARM_PAIR(L5, a, b);
	pid = fork();
	if (!pid)
		_exit(setsockopt(b, SOL_SOCKET, SO_RCVLOWAT, &low,
				 sizeof(low)));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
	p.fd = b;
	ASSERT_EQ(2, write(a, "12", 2));
	ASSERT_EQ(0, poll(&p, 1, 50));
	ASSERT_EQ(1, write(a, "3", 1));
	ASSERT_EQ(1, poll(&p, 1, 10000));
	ASSERT_EQ(3, read(b, in, sizeof(in)));
	close(a);
	close(b);
}

TEST_HARNESS_MAIN
