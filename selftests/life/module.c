// SPDX-License-Identifier: GPL-2.0
/*
 * What is left when connections are gone: nothing. Counters, references and
 * memory of the module come back to where they were; the module can be removed
 * when it is unused, and only then; namespaces and devices can be deleted under
 * live connections.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "ends.h"

#define LONG_MS		(60000 * l5_slow())

FIXTURE(life_module)
{
	int home;
};

FIXTURE_SETUP(life_module)
{
	l5_or_skip();
	signal(SIGPIPE, SIG_IGN);
	self->home = net_current();
	ASSERT_LE(0, self->home);
	/* no other program uses the module; sockets from before us end soon */
	ASSERT_TRUE(l5_comes_back(l5_references, 0, 0, LONG_MS));
}

FIXTURE_TEARDOWN(life_module)
{
	net_enter(self->home);
}

/* @count connections to @l, each with a few bytes both ways. */
static int short_ones(int l, const struct addr *to, int count)
{
	int i, c, s;

	for (i = 0; i < count; i++) {
		c = end_connect(END_L5, to);
		if (c < 0)
			return 1;
		s = accept(l, NULL, NULL);
		if (s < 0)
			return 2;
		if (i % 4 == 0 && (!end_put(c, 50, 0) || !end_get(s, 50, 0)))
			return 3;
		if (i % 4 == 1 && !end_put(c, 50, 0))
			return 4;
		if (i % 4 == 2) /* the server's end goes first */
			close(s);
		close(c);
		if (i % 4 != 2)
			close(s);
	}
	return 0;
}

TEST_F_TIMEOUT(life_module, ten_thousand_short_ones, 900)
{
	enum { PROCS = 4, EACH = 2500 };
	long long socks = l5_sockets();
	long long done = l5_stat("conn_shm") + l5_stat("conn_base");
	long long broken = l5_stat("violations");
	pid_t pid[PROCS];
	int i, status;

	ASSERT_LE(0, socks);
	/* a first round, so that caches are filled before we look */
	for (i = 0; i < 2; i++) {
		struct addr to = addr_parse(i ? "abstract:l5_module" :
					    "127.0.0.1:0");
		int l = end_listen(END_L5, &to);

		ASSERT_LE(0, l);
		ASSERT_EQ(0, short_ones(l, &to, 100));
		close(l);
	}
	ASSERT_TRUE(l5_comes_back(l5_references, 0, 0, LONG_MS));
	for (i = 0; i < PROCS; i++) {
		pid[i] = fork();
		ASSERT_LE(0, pid[i]);
		if (!pid[i]) {
			char name[32];
			struct addr to;
			int l;

			/* two processes over TCP, two over AF_UNIX */
			snprintf(name, sizeof(name), i & 1 ? "abstract:l5_m%d" :
				 "127.0.0.1:0", i);
			to = addr_parse(name);
			l = end_listen(END_L5, &to);
			if (l < 0)
				_exit(9);
			_exit(short_ones(l, &to, EACH));
		}
	}
	for (i = 0; i < PROCS; i++) {
		ASSERT_EQ(pid[i], waitpid(pid[i], &status, 0));
		EXPECT_EQ(0, status);
	}
	EXPECT_EQ(done + 2 * (PROCS * EACH + 200),
		  l5_stat("conn_shm") + l5_stat("conn_base"));
	EXPECT_TRUE(l5_comes_back(l5_references, 0, 0, LONG_MS));
	EXPECT_TRUE(l5_comes_back(l5_sockets, socks, socks, LONG_MS));
	EXPECT_TRUE(end_stat_reaches("pairs", 0));
	EXPECT_TRUE(end_stat_reaches("rings_kb", 0));
	EXPECT_TRUE(end_stat_reaches("reserved_kb", 0));
	EXPECT_EQ(broken, l5_stat("violations"));
}

/* The file this module came from: the lab's, or the tree's. */
static const char *module_file(void)
{
	return getenv("L5_MODULE") ?: "../af_l5.ko";
}

static int module_remove(void)
{
	return syscall(SYS_delete_module, "af_l5", O_NONBLOCK) ? -errno : 0;
}

static int module_insert_with(const char *file, const char *params)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC), err = 0;

	if (fd < 0)
		return -errno;
	if (syscall(SYS_finit_module, fd, params, 0))
		err = -errno;
	close(fd);
	return err;
}

static int module_insert(const char *file)
{
	return module_insert_with(file, "");
}

TEST_F_TIMEOUT(life_module, remove_and_insert, 300)
{
	const char *file = module_file();
	int i, c, s, l, fd;
	struct addr to;

	if (access(file, R_OK))
		SKIP(return, "do not know where the module's file is");
	for (i = 0; i < 3; i++) {
		/* refused while there is any socket, of any state */
		fd = end_socket(END_L5, AF_INET6);
		ASSERT_LE(0, fd);
		EXPECT_EQ(-EWOULDBLOCK, module_remove());
		close(fd);
		to = addr_parse("127.0.0.1:0");
		l = end_listen(END_L5, &to);
		EXPECT_EQ(-EWOULDBLOCK, module_remove());
		c = end_connect(END_L5, &to);
		s = accept(l, NULL, NULL);
		ASSERT_LE(0, c);
		ASSERT_LE(0, s);
		ASSERT_TRUE(end_exchange(c, s, 1000, 0));
		close(l);
		close(c);
		EXPECT_EQ(-EWOULDBLOCK, module_remove());
		close(s);
		ASSERT_TRUE(l5_comes_back(l5_references, 0, 0, LONG_MS));
		ASSERT_EQ(0, module_remove());
		/* gone, and with it all it had registered */
		EXPECT_EQ(-1, access("/proc/net/l5", F_OK));
		EXPECT_EQ(-1, access("/proc/net/l5_stat", F_OK));
		EXPECT_EQ(-1, access("/proc/sys/net/l5", F_OK));
		EXPECT_EQ(-1, l5_sockets());
		EXPECT_GT(0, end_socket(END_L5, AF_INET));
		ASSERT_EQ(0, module_insert(file));
		EXPECT_EQ(0, l5_stat("conn_shm"));
	}
}

/* How many sockets a process gets that tries again and again, 100 at most. */
static int tries_sockets(void)
{
	int n = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGTERM, SIG_DFL);
	/* "family=1" says that the number is that of AF_UNIX */
	while (n < 100)
		n += socket(L5_FAMILY_DEFAULT, SOCK_STREAM, 0) >= 0;
	return n;
}

/*
 * With a number that is no family's or protocol's, or another's, nothing begins
 * or stays, and no process has a socket of what did not begin.
 */
TEST_F_TIMEOUT(life_module, number_not_to_be_had, 300)
{
	static const struct {
		const char *params;
		int err;
	} bad[] = {
		{ "family=-1", -EINVAL },
		{ "family=0", -EINVAL },
		{ "family=1000", -EINVAL },
		{ "family=1", -EBUSY },
		{ "protocol=-1", -EINVAL },
		{ "protocol=6", -EINVAL },
		{ "protocol=255", -EINVAL },
		{ "protocol=256", -EINVAL },
		{ "protocol=262", -EINVAL },
		{ "protocol=263", -EINVAL },
	};
	const char *file = module_file();
	unsigned int i;
	pid_t pid;

	if (access(file, R_OK))
		SKIP(return, "do not know where the module's file is");
	ASSERT_EQ(0, module_remove());
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid)
		_exit(tries_sockets());
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		/* the tests after this one want the module back */
		EXPECT_EQ(bad[i].err,
			  module_insert_with(file, bad[i].params));
		EXPECT_EQ(-1, access("/proc/net/l5", F_OK));
		EXPECT_EQ(-1, access("/proc/net/l5_stat", F_OK));
		EXPECT_EQ(-1, access("/proc/sys/net/l5", F_OK));
		EXPECT_EQ(-1, l5_sockets());
		EXPECT_GT(0, end_socket(END_L5, AF_INET));
	}
	/* it has no socket, or it would hold the module */
	EXPECT_EQ(0, kill(pid, SIGTERM));
	EXPECT_EQ(SIGTERM, l5_reap(pid));
	ASSERT_EQ(0, module_insert(file));
	EXPECT_EQ(0, l5_stat("conn_shm"));
	close(end_socket(END_L5, AF_INET));
}

/* The number of the protocol, or none. */
TEST_F_TIMEOUT(life_module, protocol_number, 120)
{
	const char *file = module_file();
	int fd;

	if (access(file, R_OK))
		SKIP(return, "do not know where the module's file is");
	ASSERT_EQ(0, module_remove());
	ASSERT_EQ(0, module_insert_with(file, "protocol=0 inet=1"));
	EXPECT_EQ(-EPROTONOSUPPORT, end_socket(END_INET, AF_INET));
	EXPECT_EQ(-EPROTONOSUPPORT, end_socket(END_INET, AF_INET6));
	ASSERT_EQ(0, module_remove());
	ASSERT_EQ(0, module_insert_with(file, "protocol=257 inet=1"));
	EXPECT_EQ(-EPROTONOSUPPORT, end_socket(END_INET, AF_INET));
	fd = socket(AF_INET6, SOCK_STREAM, 257);
	EXPECT_EQ(L5_TRANSPORT_NONE, l5_getopt(fd, L5_TRANSPORT));
	EXPECT_NE(0, module_remove());
	close(fd);
	ASSERT_TRUE(l5_comes_back(l5_references, 0, 0, 10000));
	ASSERT_EQ(0, module_remove());
	ASSERT_EQ(0, module_insert(file));
}

/* A process with sockets of every state, which closes none by itself. */
static int holder(int up)
{
	static const char *const at[] = { "127.0.0.1:0", "abstract:l5_held" };
	unsigned int i;
	int last = -1;
	char b;

	for (i = 0; i < ARRAY_SIZE(at); i++) {
		struct addr to = addr_parse(at[i]);
		int l = end_listen(END_L5, &to), c = end_connect(END_L5, &to);
		int s = accept(l, NULL, NULL);

		/* and one that nobody accepts */
		if (s < 0 || !end_exchange(c, s, 1000, 0) ||
		    end_connect(END_L5, &to) < 0)
			return 1;
		last = c;
	}
	if (end_socket(END_L5, AF_INET6) < 0)
		return 2;
	if (write(up, "", 1) != 1)
		return 3;
	/* asleep in one of them until that is ended, and keeps them all */
	recv(last, &b, 1, 0);
	for (;;)
		pause();
}

static int l5ctl(const char *args, const char *out)
{
	return sh("../userspace/bin/l5ctl %s >%s 2>&1; r=$?; cat %s; exit $r",
		  args, out, out);
}

static void *holding_thread(void *up)
{
	_exit(unshare(CLONE_FILES) ? 8 : holder(*(int *)up));
}

/*
 * A holder as it is found least: its sockets are in the table that one thread
 * has for itself, and the first thread, by whose number a process is known, may
 * have ended.
 */
static void hidden_holder(int up, bool headless)
{
	pthread_t t;

	if (pthread_create(&t, NULL, holding_thread, &up))
		_exit(10);
	if (headless)
		syscall(SYS_exit, 0);
	for (;;)
		pause();
}

/*
 * With live connections, by force: first no process is killed, all connections
 * have ended and their holders are named; then the module goes, whatever its
 * holders do.
 */
TEST_F_TIMEOUT(life_module, unload_by_force, 300)
{
	static const char out[] = "/tmp/l5_unload";
	const char *file = module_file();
	int up[2], status, i;
	char b, want[64];
	pid_t pid[4];

	if (access(file, R_OK))
		SKIP(return, "do not know where the module's file is");
	ASSERT_EQ(0, pipe(up));
	fflush(NULL);
	for (i = 0; i < (int)ARRAY_SIZE(pid); i++) {
		pid[i] = fork();
		ASSERT_LE(0, pid[i]);
		if (!pid[i]) {
			/* each in a network of its own, but for the first */
			if (i && !net_unshare())
				_exit(9);
			if (i > 1)
				hidden_holder(up[1], i == 3);
			_exit(holder(up[1]));
		}
		ASSERT_EQ(1, read(up[0], &b, 1));
	}
	EXPECT_NE(0, l5ctl("-t 1 unload", out));
	for (i = 0; i < (int)ARRAY_SIZE(pid); i++) {
		snprintf(want, sizeof(want), "grep '(%d)' %s", pid[i], out);
		EXPECT_EQ(0, sh("%s", want));
		EXPECT_EQ(0, kill(pid[i], 0));
	}
	/* the state is as it was, but for what was ended */
	EXPECT_LT(0, l5_references());
	close(end_socket(END_L5, AF_INET));
	EXPECT_EQ(0, l5ctl("--kill -t 60 unload", out));
	for (i = 0; i < (int)ARRAY_SIZE(pid); i++) {
		ASSERT_EQ(pid[i], waitpid(pid[i], &status, 0));
		EXPECT_TRUE(WIFSIGNALED(status) &&
			    WTERMSIG(status) == SIGKILL);
	}
	EXPECT_EQ(-1, access("/proc/net/l5", F_OK));
	EXPECT_NE(0, l5ctl("unload", out));
	ASSERT_EQ(0, module_insert(file));
	/* no socket at all: at once */
	EXPECT_EQ(0, l5ctl("unload", out));
	ASSERT_EQ(0, module_insert(file));
	EXPECT_LE(0, end_socket(END_L5, AF_INET));
}

static bool refused(void)
{
	int fd = end_socket(END_L5, AF_INET);

	if (fd >= 0)
		close(fd);
	return fd == -EAFNOSUPPORT;
}

/*
 * An administrator that gives up waiting leaves nothing refused; and a holder's
 * name does nothing to the terminal that it is shown on.
 */
TEST_F_TIMEOUT(life_module, unload_given_up, 120)
{
	static const char out[] = "/tmp/l5_unload";
	char name[16] = { };
	int fd, status;
	pid_t pid;

	prctl(PR_GET_NAME, name);
	prctl(PR_SET_NAME, "a\033[31m b(1)");
	fd = end_socket(END_L5, AF_INET);
	ASSERT_LE(0, fd);
	EXPECT_EQ(0, l5ctl("list", out));
	EXPECT_EQ(0, sh("grep -qF 'a?[31m?b(1)' %s", out));
	EXPECT_NE(0, sh("LC_ALL=C grep -q '[^ -~]' %s", out));
	prctl(PR_SET_NAME, name);
	fflush(NULL);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		execl("../userspace/bin/l5ctl", "l5ctl", "-t", "100", "unload",
		      NULL);
		_exit(9);
	}
	ASSERT_TRUE(L5_UNTIL(refused(), 20000));
	kill(pid, SIGTERM);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
	EXPECT_FALSE(refused());
	close(fd);
}

/* Connections come and go in other processes all the while. */
static int traffic(int until, unsigned int seed)
{
	int64_t end = l5_now_ms() + 4 * LONG_MS;
	char stop;

	while (read(until, &stop, 1) < 0) {
		struct addr to = addr_parse("127.0.0.1:0");
		int l, c, s;

		if (l5_now_ms() > end)
			return 1;
		l = end_listen(END_L5, &to);
		if (l < 0) {
			/* it is not there just now */
			if (l != -EAFNOSUPPORT && l != -EAGAIN &&
			    l != -ESOCKTNOSUPPORT)
				return 2;
			usleep(1000);
			continue;
		}
		c = end_connect(END_L5, &to);
		if (c == -EAFNOSUPPORT)
			return 3;
		if (c < 0)
			return 4;
		s = accept(l, NULL, NULL);
		if (s < 0)
			return 5;
		if (!end_put(c, 100, 0) || !end_get(s, 100, 0))
			return 6;
		close(c);
		close(l);
		close(s);
		/* long enough, now and then, for all to be without a socket */
		usleep(rand_r(&seed) % 60000);
	}
	return 0;
}

TEST_F_TIMEOUT(life_module, remove_under_traffic, 600)
{
	enum { PROCS = 2, WANTED = 10 };
	const char *file = module_file();
	int64_t end = l5_now_ms() + 2 * LONG_MS;
	int i, status, gate[2], removed = 0, refused = 0;
	pid_t pid[PROCS];

	if (access(file, R_OK))
		SKIP(return, "do not know where the module's file is");
	ASSERT_EQ(0, pipe2(gate, O_NONBLOCK));
	for (i = 0; i < PROCS; i++) {
		pid[i] = fork();
		ASSERT_LE(0, pid[i]);
		if (!pid[i]) {
			close(gate[1]);
			_exit(traffic(gate[0], i));
		}
	}
	while ((removed < WANTED || refused < WANTED) && l5_now_ms() < end) {
		int err = module_remove();

		if (err) {
			ASSERT_EQ(-EWOULDBLOCK, err);
			refused++;
			usleep(rand() % 2000);
			continue;
		}
		removed++;
		usleep(rand() % 5000);
		ASSERT_EQ(0, module_insert(file));
	}
	close(gate[1]);
	for (i = 0; i < PROCS; i++) {
		ASSERT_EQ(pid[i], waitpid(pid[i], &status, 0));
		EXPECT_EQ(0, status);
	}
	TH_LOG("removed %d times, refused %d times", removed, refused);
	EXPECT_LT(0, removed);
	EXPECT_LT(0, refused);
	EXPECT_TRUE(l5_comes_back(l5_references, 0, 0, LONG_MS));
}

/*
 * A namespace with a veth whose other end is here: when the kernel has really
 * torn the namespace down, that end is gone, too.
 */
static bool watched_namespace(const char *name, int *fd)
{
	*fd = net_make(name);
	return *fd >= 0 &&
	       !sh("ip link add %s_w type veth peer name w netns %s", name,
		   name);
}

static bool torn_down(const char *name)
{
	int64_t end = l5_now_ms() + LONG_MS;
	char path[96];

	snprintf(path, sizeof(path), "/sys/class/net/%s_w", name);
	while (!access(path, F_OK)) {
		if (l5_now_ms() > end)
			return false;
		usleep(50000);
	}
	return true;
}

TEST_F_TIMEOUT(life_module, namespace_deleted, 300)
{
	int round;

	for (round = 0; round < 4; round++) {
		struct addr to = addr_parse(round & 1 ? "abstract:l5_ns" :
					    "127.0.0.1:0");
		int ns, l, c[4], s[4], i;

		ASSERT_TRUE(watched_namespace("l5gone", &ns));
		ASSERT_TRUE(net_enter(ns));
		ASSERT_LE(0, l5_sysctl("match_ms", 10000));
		l = end_listen(END_L5, &to);
		ASSERT_LE(0, l);
		for (i = 0; i < 4; i++) {
			c[i] = end_connect(END_L5, &to);
			ASSERT_LE(0, c[i]);
			s[i] = accept(l, NULL, NULL);
			ASSERT_LE(0, s[i]);
			ASSERT_EQ(L5_TRANSPORT_SHM, l5_transport(s[i]));
			ASSERT_TRUE(end_put(c[i], 500, 0));
		}
		/* one recently closed, with bytes in it */
		close(c[3]);
		close(s[3]);
		ASSERT_TRUE(net_enter(self->home));
		close(ns);
		net_delete("l5gone");
		/*
		 * nothing but the sockets holds the namespace now, and they
		 * work
		 */
		for (i = 0; i < 3; i++) {
			ASSERT_TRUE(end_get(s[i], 500, 0));
			ASSERT_TRUE(end_exchange(c[i], s[i], 5000, 0));
		}
		EXPECT_EQ(0, access("/sys/class/net/l5gone_w", F_OK));
		for (i = 0; i < 3; i++) {
			close(s[i]);
			close(c[i]);
		}
		close(l);
		EXPECT_TRUE(torn_down("l5gone"));
	}
	EXPECT_TRUE(l5_comes_back(l5_references, 0, 0, LONG_MS));
}

/* One end's namespace goes; the connection holds it until it is closed. */
TEST_F_TIMEOUT(life_module, one_namespace_deleted, 300)
{
	int a, b, l, c, s, err;
	struct addr to = addr_parse("10.77.0.2:0");

	ASSERT_TRUE(net_pair(&a, &b));
	ASSERT_EQ(0, sh("ip link add l5b_w type veth peer name w netns l5b"));
	ASSERT_TRUE(net_enter(a));
	l5_sysctl("match_ms", 10000);
	ASSERT_TRUE(net_enter(b));
	l = end_listen(END_L5, &to);
	ASSERT_LE(0, l);
	ASSERT_TRUE(net_enter(a));
	c = end_connect(END_L5, &to);
	ASSERT_LE(0, c);
	s = accept(l, NULL, NULL);
	ASSERT_LE(0, s);
	ASSERT_EQ(L5_TRANSPORT_SHM, l5_transport(s));
	ASSERT_TRUE(net_enter(self->home));
	close(l);
	net_pair_end(a, b);
	ASSERT_TRUE(end_exchange(c, s, 50000, 0));
	ASSERT_TRUE(end_put(s, 3000, 0));
	close(s);
	EXPECT_TRUE(torn_down("l5b"));
	/* the rings do not need what lay between them */
	EXPECT_EQ(3000, end_drain(c, 0, &err));
	EXPECT_TRUE(err == 0 || err == ECONNRESET);
	close(c);
}

/* The device between two ends is deleted while bytes move. */
TEST_F_TIMEOUT(life_module, device_deleted, 300)
{
	struct addr to = addr_parse("10.77.0.2:0");
	int a, b, l, c, s, i, status, err;
	const int one = 1, two = 2;
	pid_t pid;

	ASSERT_TRUE(net_pair(&a, &b));
	ASSERT_TRUE(net_enter(a));
	l5_sysctl("match_ms", 10000);
	ASSERT_TRUE(net_enter(b));
	l = end_listen(END_L5, &to);
	ASSERT_LE(0, l);
	ASSERT_TRUE(net_enter(a));
	c = end_connect(END_L5, &to);
	ASSERT_LE(0, c);
	s = accept(l, NULL, NULL);
	ASSERT_LE(0, s);
	ASSERT_EQ(L5_TRANSPORT_SHM, l5_transport(s));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		close(c);
		/* an echo, of what comes before and after */
		for (i = 0; i < 200; i++)
			if (!end_get(s, 1000, i * 1000) ||
			    !end_put(s, 1000, i * 1000))
				_exit(1);
		_exit(0);
	}
	close(s);
	for (i = 0; i < 200; i++) {
		ASSERT_TRUE(end_put(c, 1000, i * 1000));
		if (i == 100)
			ASSERT_EQ(0, sh("ip -n l5a link del va"));
		ASSERT_TRUE(end_get(c, 1000, i * 1000));
	}
	/* no packet can tell us of the end: it is as with TCP */
	ASSERT_EQ(0, setsockopt(c, IPPROTO_TCP, TCP_KEEPIDLE, &one,
				sizeof(one)));
	ASSERT_EQ(0, setsockopt(c, IPPROTO_TCP, TCP_KEEPINTVL, &one,
				sizeof(one)));
	ASSERT_EQ(0, setsockopt(c, IPPROTO_TCP, TCP_KEEPCNT, &two,
				sizeof(two)));
	ASSERT_EQ(0, setsockopt(c, SOL_SOCKET, SO_KEEPALIVE, &one,
				sizeof(one)));
	EXPECT_EQ(0, end_drain(c, 0, &err));
	EXPECT_EQ(ETIMEDOUT, err);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	close(c);
	close(l);
	ASSERT_TRUE(net_enter(self->home));
	net_pair_end(a, b);
}

TEST_HARNESS_MAIN
