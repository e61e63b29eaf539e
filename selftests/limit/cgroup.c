// SPDX-License-Identifier: GPL-2.0
/*
 * Memory cgroups: a user that lacks memory by its own choice keeps nobody else
 * waiting, and what is received into a pipe is charged.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "admin.h"
#include "limit_ends.h"
#include "mapping.h"
#include "users.h"

#define CGROUP	"/sys/fs/cgroup/l5_short"
#define RING_KB	1024
#define USED	(4 << 20)

ADMIN_FIXTURE(limit_cgroup)

static bool cgroup_make(void)
{
	put_text("/sys/fs/cgroup/cgroup.subtree_control", "+memory");
	mkdir(CGROUP, 0755);
	return put_text(CGROUP "/memory.high", "max");
}

static bool byte_comes(int fd)
{
	char b;

	return read(fd, &b, 1) == 1;
}

/* This process, until its parent ends, is far above what it is to have. */
static bool far_above(void)
{
	char *used;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	used = mmap(NULL, USED, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (used == MAP_FAILED || !cgroup_enter(CGROUP))
		return false;
	memset(used, 1, USED);
	return true;
}

/*
 * A client that is far above what its cgroup may have: the kernel has it sleep
 * for each few pages more. So it takes seconds until it has a whole ring.
 */
static int short_of_memory(const struct addr *to, int up, int down,
			   atomic_bool *mapped)
{
	struct mapping m;
	int c;

	if (!far_above())
		return 1;
	c = end_connect(END_L5, to);
	if (c < 0 || write(up, "", 1) != 1 || !byte_comes(down) ||
	    write(up, "", 1) != 1)
		return 2;
	if (mapping_open(&m, c))
		return 3;
	while (mapping_whole(&m))
		usleep(1000);
	atomic_store(mapped, true);
	pause();
	return 0;
}

/* Does it sleep for memory in a call on a mapped socket? */
static bool asks_for_room(pid_t pid)
{
	char path[64], stack[4096];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stack", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = read(fd, stack, sizeof(stack) - 1);
	close(fd);
	stack[n > 0 ? n : 0] = '\0';
	return strstr(stack, "mem_cgroup") && strstr(stack, "l5_ring_unfold");
}

/* It is the only one that waits: the other end does what it likes. */
TEST_F_TIMEOUT(limit_cgroup, others_do_not_wait, 300)
{
	struct addr to = addr_parse("127.0.0.1:0");
	static char bytes[40000];
	int up[2], down[2], l, s = -1;
	struct mapping m = { };
	atomic_bool *mapped;
	pid_t pid;

	if (!cgroup_make())
		SKIP(return, "no memory cgroups");
	mapped = map_shared(MAP_PAGE);
	ASSERT_TRUE(mapped);
	ASSERT_TRUE(net_unshare());
	ASSERT_LE(0, l5_sysctl("match_ms", 10000));
	ASSERT_LE(0, l5_sysctl("ring_kb", RING_KB));
	ASSERT_EQ(0, pipe(up) | pipe(down));
	l = end_listen(END_L5, &to);
	ASSERT_LE(0, l);
	pid = fork();
	if (!pid)
		_exit(short_of_memory(&to, up[1], down[0], mapped));
	ASSERT_TRUE(byte_comes(up[0]));
	EXPECT_TRUE(put_text(CGROUP "/memory.high", "65536"));
	ASSERT_EQ(1, write(down[1], "", 1));
	ASSERT_TRUE(byte_comes(up[0]));
	if (!L5_UNTIL(asks_for_room(pid) || atomic_load(mapped),
		      60000 * l5_slow()) || atomic_load(mapped))
		SKIP(goto out, "memory.high slows nobody down here");
	s = accept(l, NULL, NULL);
	ASSERT_LE(0, s);
	EXPECT_EQ(L5_TRANSPORT_SHM, l5_transport(s));
	EXPECT_GT(2 * RING_KB, l5_stat("rings_kb")) {
		TH_LOG("accept() waited for the client's memory");
	}
	EXPECT_LT(0, send(s, bytes, sizeof(bytes), MSG_DONTWAIT));
	/* a server in full mode has mapped its end by now, and filled it */
	EXPECT_TRUE(getenv("L5_FULL") ? !atomic_load(mapped) :
			l5_stat("rings_kb") < 2 * RING_KB) {
		TH_LOG("send() waited for the client's memory");
	}
	EXPECT_EQ(0, mapping_open(&m, s));
out:
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	put_text(CGROUP "/memory.high", "max");
	if (s >= 0) {
		mapping_close(&m);
		close(s);
	}
	close(l);
	EXPECT_TRUE(end_stat_reaches("reserved_kb", 0));
}

enum { ASKS = 16, ASKED_KB = 2048 };

static void *asks(void *p)
{
	struct mapping *m = p;

	ioctl(m->fd, L5_IOC_ROOM, m->tx_size);
	return NULL;
}

/* An end that lacks memory wants its ring whole, by many threads at a time. */
static int asks_at_a_time(int l, int up, int down, atomic_bool *done)
{
	pthread_t t[ASKS];
	struct mapping m;
	int s, i;

	if (!far_above())
		return 1;
	s = accept(l, NULL, NULL);
	if (s < 0 || write(up, "", 1) != 1 || !byte_comes(down))
		return 2;
	if (mapping_open(&m, s) || mapping_lock(&m, L5_LOCK_TX) < 0)
		return 3;
	for (i = 0; i < ASKS; i++)
		if (pthread_create(&t[i], NULL, asks, &m))
			return 4;
	for (i = 0; i < ASKS; i++)
		pthread_join(t[i], NULL);
	atomic_store(done, true);
	pause();
	return 0;
}

static int socket_of(const struct addr *to, int kb)
{
	int fd = end_socket(END_L5, to->sa.sa_family), bytes = kb << 10;

	setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes));
	return fd;
}

/* To make a ring whole takes as much for many threads as for one. */
TEST_F_TIMEOUT(limit_cgroup, asked_for_by_many, 300)
{
	struct addr to = addr_parse("127.0.0.1:0");
	struct l5_map_info info;
	long long most, peak = 0;
	int up[2], down[2], l, c;
	atomic_bool *done;
	pid_t pid;

	if (!cgroup_make())
		SKIP(return, "no memory cgroups");
	done = map_shared(MAP_PAGE);
	ASSERT_TRUE(done);
	ASSERT_TRUE(net_unshare());
	ASSERT_LE(0, l5_sysctl("match_ms", 10000));
	ASSERT_EQ(0, pipe(up) | pipe(down));
	l = socket_of(&to, ASKED_KB);
	ASSERT_EQ(0, bind(l, &to.sa, to.len) | listen(l, 1) |
		     getsockname(l, &to.sa, &to.len));
	pid = fork();
	if (!pid)
		_exit(asks_at_a_time(l, up[1], down[0], done));
	c = socket_of(&to, ASKED_KB);
	ASSERT_EQ(0, connect(c, &to.sa, to.len));
	ASSERT_TRUE(byte_comes(up[0]));
	ASSERT_EQ(0, mapping_info(c, &info));
	ASSERT_LE(ASKED_KB << 10, info.tx_size);
	ASSERT_LE(ASKED_KB << 10, info.rx_size);
	/* the ring, what is there already, and pages to spare */
	most = (info.rx_size >> 10) + 256;
	EXPECT_TRUE(put_text(CGROUP "/memory.high", "65536"));
	ASSERT_EQ(1, write(down[1], "", 1));
	EXPECT_TRUE(L5_UNTIL(({
		long long now = l5_stat("reserved_kb");

		peak = now > peak ? now : peak;
		atomic_load(done) || peak > most;
	}), 100000 * l5_slow()));
	EXPECT_LE(ASKED_KB, peak);
	EXPECT_LE(peak, most);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	put_text(CGROUP "/memory.high", "max");
	close(c);
	close(l);
	EXPECT_TRUE(end_stat_reaches("reserved_kb", 0));
}

enum { PIPES = 32, PIPE_KB = 64 };

/* Fill pipes by splice() from a socket. */
static int splices(int down, int up)
{
	static char bytes[PIPE_KB << 10];
	struct addr to = addr_parse("abstract:l5_cgroup");
	int l, c, s, p[PIPES][2], i, n, got;

	if (!cgroup_enter(CGROUP))
		return 1;
	l = end_listen(END_L5, &to);
	c = end_connect(END_L5, &to);
	s = accept(l, NULL, NULL);
	if (s < 0 || l5_transport(s) != L5_TRANSPORT_SHM)
		return 2;
	for (i = 0; i < PIPES; i++) {
		if (pipe(p[i]))
			return 3;
		for (got = 0; got < (int)sizeof(bytes); got += n) {
			if (send(c, bytes, 4096, 0) != 4096)
				return 4;
			n = splice(s, NULL, p[i][1], NULL, 4096, 0);
			if (n <= 0)
				return 5;
		}
		/* the rings are there, and much else that is charged once */
		if ((!i || i == PIPES - 1) &&
		    (write(up, "", 1) != 1 || !byte_comes(down)))
			return 6;
	}
	return 0;
}

TEST_F_TIMEOUT(limit_cgroup, spliced_bytes_are_charged, 100)
{
	int up[2], down[2], status;
	long before, after;
	pid_t pid;

	if (!cgroup_make())
		SKIP(return, "no memory cgroups");
	ASSERT_TRUE(net_unshare());
	ASSERT_LE(0, l5_sysctl("match_ms", 10000));
	ASSERT_EQ(0, pipe(up) | pipe(down));
	pid = fork();
	if (!pid)
		_exit(splices(down[0], up[1]));
	close(up[1]);
	ASSERT_TRUE(byte_comes(up[0]));
	before = l5_number(CGROUP "/memory.current") >> 10;
	ASSERT_EQ(1, write(down[1], "", 1));
	ASSERT_TRUE(byte_comes(up[0]));
	after = l5_number(CGROUP "/memory.current") >> 10;
	EXPECT_LE((PIPES - 1) * PIPE_KB * 3 / 4, after - before);
	ASSERT_EQ(1, write(down[1], "", 1));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
}

/*
 * An end that maps the other one's ring pays for what its namespace allows. The
 * maker of a user namespace is not to set that to nothing.
 */
TEST_F_TIMEOUT(limit_cgroup, ring_size_is_the_hosts, 100)
{
	int status;
	pid_t pid;

	pid = fork();
	if (!pid) {
		if (!nobody_unshare())
			_exit(2);
		_exit(put_text("/proc/sys/net/l5/ring_kb", "4"));
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
}

TEST_HARNESS_MAIN
