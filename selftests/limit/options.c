// SPDX-License-Identifier: GPL-2.0
/*
 * Bad input gets the errno that TCP gives, and options and sysctls mean what
 * l5.h says.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "limit_ends.h"
#include "signals.h"

LIMIT_FIXTURE(limit_options)

static int socket_errno(int family, int type, int proto)
{
	int fd = socket(family, type, proto);

	if (fd < 0)
		return errno;
	close(fd);
	return 0;
}

TEST_F_TIMEOUT(limit_options, socket_arguments, 300)
{
	int f = l5_family(), sp[2];

	EXPECT_EQ(0, socket_errno(f, SOCK_STREAM, L5PROTO_INET));
	EXPECT_EQ(0, socket_errno(f, SOCK_STREAM, L5PROTO_INET6));
	EXPECT_EQ(0, socket_errno(f, SOCK_STREAM, L5PROTO_UNIX));
	EXPECT_EQ(0, socket_errno(f, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
				  0));
	/* as inet answers protocols and types it does not have */
	EXPECT_EQ(EPROTONOSUPPORT, socket_errno(AF_INET, SOCK_STREAM, 99));
	EXPECT_EQ(EPROTONOSUPPORT, socket_errno(f, SOCK_STREAM, 99));
	EXPECT_EQ(EPROTONOSUPPORT, socket_errno(f, SOCK_STREAM, L5PROTO_MAX));
	EXPECT_EQ(ESOCKTNOSUPPORT, socket_errno(AF_INET, SOCK_RDM, 0));
	EXPECT_EQ(ESOCKTNOSUPPORT, socket_errno(f, SOCK_RDM, 0));
	EXPECT_EQ(ESOCKTNOSUPPORT, socket_errno(f, SOCK_DGRAM, 0));
	EXPECT_EQ(ESOCKTNOSUPPORT, socket_errno(f, SOCK_RAW, 0));
	EXPECT_EQ(socket_errno(AF_INET, SOCK_STREAM, -1),
		  socket_errno(f, SOCK_STREAM, -1));
	EXPECT_EQ(socket_errno(AF_INET, 77, 0), socket_errno(f, 77, 0));
	EXPECT_EQ(socket_errno(AF_INET, SOCK_STREAM | 0x1000, 0),
		  socket_errno(f, SOCK_STREAM | 0x1000, 0));
	ASSERT_EQ(-1, socketpair(AF_INET, SOCK_STREAM, 0, sp));
	EXPECT_EQ(EOPNOTSUPP, errno);
	ASSERT_EQ(-1, socketpair(f, SOCK_STREAM, 0, sp));
	EXPECT_EQ(EOPNOTSUPP, errno);
}

/* bind() or connect() to @a, called family @alias and of @len bytes. */
static int address_errno(enum end_kind kind, struct addr a, int alias, int len,
			 bool binding)
{
	int fd = end_socket(kind, a.sa.sa_family), ret, err;
	struct sockaddr_un un = { .sun_family = 0 };
	socklen_t unlen = sizeof(un);

	if (fd < 0)
		return -fd;
	if (alias >= 0)
		a.sa.sa_family = alias;
	ret = binding ? bind(fd, &a.sa, len) : connect(fd, &a.sa, len);
	err = ret ? errno : 0;
	/* AF_UNIX makes a file of whatever part it was given */
	if (!ret && binding && !getsockname(fd, (void *)&un, &unlen) &&
	    un.sun_family == AF_UNIX && un.sun_path[0])
		unlink(un.sun_path);
	close(fd);
	return err;
}

/* bind() and connect() with every length and some families, beside TCP. */
TEST_F_TIMEOUT(limit_options, addresses, 120)
{
	static const char *const good[] = {
		"127.0.0.1:1", "[::1]:1", "unix:/tmp/l5_none/l5",
	};
	static const int families[] = {
		-1, AF_UNSPEC, AF_UNIX, AF_INET, AF_INET6, AF_PACKET, 99, 65535
	};
	static const int lens[] = {
		0, 1, 2, 3, 7, 8, 15, 16, 17, 23, 24, 27, 28, 29, 110, 111,
		128, 129, 4096, -1
	};
	const unsigned int all = ARRAY_SIZE(good) * ARRAY_SIZE(families) *
				 ARRAY_SIZE(lens) * 2;
	unsigned int i, k;

	for (i = 0; i < all; i++) {
		const char *text = good[i / 2 % ARRAY_SIZE(good)];
		unsigned int rest = i / 2 / ARRAY_SIZE(good);
		int alias = families[rest % ARRAY_SIZE(families)];
		int len = lens[rest / ARRAY_SIZE(families)];
		struct addr a = addr_parse(text);
		int err[2];

		for (k = END_TCP; k <= END_L5; k++)
			err[k] = address_errno(k, a, alias, len, i % 2);
		EXPECT_EQ(err[END_TCP], err[END_L5]) {
			TH_LOG("%s %s, family %d, length %d: AF_L5 says %s",
			       i % 2 ? "bind" : "connect", text, alias, len,
			       strerror(err[END_L5]));
		}
	}
}

TEST_F_TIMEOUT(limit_options, port_in_use, 300)
{
	int k, fd;

	for (k = END_TCP; k <= END_L5; k++) {
		fd = end_socket(k, AF_INET);
		ASSERT_LE(0, fd);
		ASSERT_EQ(-1, bind(fd, &self->to.sa, self->to.len));
		EXPECT_EQ(EADDRINUSE, errno);
		close(fd);
	}
	close(self->listener);
	self->listener = end_listen(END_TCP, &self->to);
	ASSERT_LE(0, self->listener);
	fd = end_socket(END_L5, AF_INET);
	ASSERT_EQ(-1, bind(fd, &self->to.sa, self->to.len));
	EXPECT_EQ(EADDRINUSE, errno);
	close(fd);
}

TEST_F_TIMEOUT(limit_options, wrong_order, 300)
{
	int k, err[2][6], i;

	for (k = END_TCP; k <= END_L5; k++) {
		struct addr a = addr_parse("127.0.0.1:0");
		int c, l = end_listen(k, &a), n = 0;

		ASSERT_LE(0, l);
		c = end_connect(k, &a);
		ASSERT_LE(0, c);
#define TRY(call) (err[k][n++] = (call) ? errno : 0)
		TRY(connect(c, &a.sa, a.len));
		TRY(listen(c, 5));
		TRY(bind(c, &a.sa, a.len));
		TRY(accept(c, NULL, NULL));
		TRY(connect(l, &a.sa, a.len));
		TRY(send(l, "x", 1, MSG_NOSIGNAL) < 0);
#undef TRY
		close(c);
		close(l);
	}
	for (i = 0; i < 6; i++)
		EXPECT_EQ(err[END_TCP][i], err[END_L5][i]) {
			TH_LOG("call %d", i);
		}
}

static int set_own(int fd, int opt, int val, socklen_t len)
{
	return setsockopt(fd, SOL_L5, opt, &val, len) ? errno : 0;
}

TEST_F_TIMEOUT(limit_options, own_options, 300)
{
	void *nowhere = mmap(NULL, 4096, PROT_NONE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int c = end_socket(END_L5, AF_INET), s, val;
	struct l5_info info;
	unsigned char raw[200];
	socklen_t len;

	/* before there is a connection */
	EXPECT_EQ(L5_TRANSPORT_NONE, l5_getopt(c, L5_TRANSPORT));
	EXPECT_EQ(L5_REASON_NONE, l5_getopt(c, L5_REASON));
	EXPECT_EQ(-1, l5_getopt(c, L5_SPIN_US));
	EXPECT_EQ(L5_TRANSPORT_NONE, l5_getopt(c, L5_FORCE));
	info = info_of(c);
	EXPECT_EQ(0, info.tx_size);
	EXPECT_EQ(0, info.rx_bytes);

	EXPECT_EQ(0, set_own(c, L5_SPIN_US, 0, 4));
	EXPECT_EQ(0, l5_getopt(c, L5_SPIN_US));
	EXPECT_EQ(0, set_own(c, L5_SPIN_US, L5_SPIN_US_MAX, 4));
	EXPECT_EQ(L5_SPIN_US_MAX, l5_getopt(c, L5_SPIN_US));
	EXPECT_EQ(EINVAL, set_own(c, L5_SPIN_US, L5_SPIN_US_MAX + 1, 4));
	EXPECT_EQ(EINVAL, set_own(c, L5_SPIN_US, -2, 4));
	EXPECT_EQ(EINVAL, set_own(c, L5_SPIN_US, 5, 3));
	EXPECT_EQ(EINVAL, set_own(c, L5_SPIN_US, 5, 0));
	EXPECT_EQ(L5_SPIN_US_MAX, l5_getopt(c, L5_SPIN_US));
	EXPECT_EQ(0, set_own(c, L5_SPIN_US, -1, 4));

	EXPECT_EQ(0, set_own(c, L5_FORCE, L5_TRANSPORT_SHM, 4));
	EXPECT_EQ(0, set_own(c, L5_FORCE, L5_TRANSPORT_RDMA, 4));
	EXPECT_EQ(L5_TRANSPORT_RDMA, l5_getopt(c, L5_FORCE));
	EXPECT_EQ(EINVAL, set_own(c, L5_FORCE, -1, 4));
	EXPECT_EQ(EINVAL, set_own(c, L5_FORCE, L5_TRANSPORT_MAX, 4));
	EXPECT_EQ(0, set_own(c, L5_FORCE, L5_TRANSPORT_BASE, 4));
	EXPECT_EQ(0, set_own(c, L5_FORCE, L5_TRANSPORT_NONE, 4));
	EXPECT_EQ(-1, l5_getopt(c, L5_RDMA));
	EXPECT_EQ(0, set_own(c, L5_RDMA, 1, 4));
	EXPECT_EQ(0, set_own(c, L5_RDMA, 0, 4));
	EXPECT_EQ(0, l5_getopt(c, L5_RDMA));
	EXPECT_EQ(EINVAL, set_own(c, L5_RDMA, 2, 4));
	EXPECT_EQ(EINVAL, set_own(c, L5_RDMA, -2, 4));
	EXPECT_EQ(0, set_own(c, L5_RDMA, -1, 4));
	EXPECT_EQ(0, l5_getopt(c, L5_RDMA_WAIT));
	EXPECT_EQ(0, set_own(c, L5_RDMA_WAIT, L5_RDMA_WAIT_MAX, 4));
	EXPECT_EQ(EINVAL, set_own(c, L5_RDMA_WAIT, L5_RDMA_WAIT_MAX + 1, 4));
	EXPECT_EQ(EINVAL, set_own(c, L5_RDMA_WAIT, -1, 4));
	EXPECT_EQ(0, set_own(c, L5_RDMA_WAIT, 0, 4));
	EXPECT_EQ(L5_RDMA_NONE, l5_getopt(c, L5_RDMA_INFO));
	EXPECT_EQ(ENOPROTOOPT, set_own(c, L5_RDMA_INFO, 1, 4));
	EXPECT_EQ(ENOPROTOOPT, set_own(c, L5_TRANSPORT, 1, 4));
	EXPECT_EQ(ENOPROTOOPT, set_own(c, L5_INFO, 1, 4));
	EXPECT_EQ(ENOPROTOOPT, set_own(c, 0, 1, 4));
	EXPECT_EQ(ENOPROTOOPT, set_own(c, 4711, 1, 4));
	EXPECT_EQ(-ENOPROTOOPT, l5_getopt(c, 4711));
	EXPECT_EQ(-ENOPROTOOPT, l5_getopt(c, 0));
	EXPECT_EQ(-1, setsockopt(c, SOL_L5, L5_SPIN_US, nowhere, 4));
	EXPECT_EQ(EFAULT, errno);

	EXPECT_EQ(EISCONN, set_own(self->listener, L5_FORCE,
				   L5_TRANSPORT_BASE, 4));
	ASSERT_EQ(0, connect(c, &self->to.sa, self->to.len));
	s = accept(self->listener, NULL, NULL);
	ASSERT_LE(0, s);
	EXPECT_EQ(EISCONN, set_own(c, L5_FORCE, L5_TRANSPORT_BASE, 4));
	EXPECT_EQ(EISCONN, set_own(s, L5_FORCE, L5_TRANSPORT_NONE, 4));

	/* short and long buffers */
	ASSERT_TRUE(end_put(c, 1000, 0));
	info = info_of(c);
	EXPECT_EQ(1000, info.tx_bytes);
	EXPECT_LE(1000, info.tx_used);
	EXPECT_EQ(L5_TRANSPORT_SHM, info.transport);
	info = info_of(s);
	EXPECT_EQ(0, info.rx_bytes);
	EXPECT_LE(1000, info.rx_used);
	ASSERT_TRUE(end_get(s, 1000, 0));
	EXPECT_EQ(0, info_of(s).rx_used);
	EXPECT_EQ(1000, info_of(s).rx_bytes);
	memset(raw, 0xaa, sizeof(raw));
	len = 8;
	ASSERT_EQ(0, getsockopt(s, SOL_L5, L5_INFO, raw, &len));
	EXPECT_EQ(8, len);
	EXPECT_EQ(L5_TRANSPORT_SHM, raw[0]);
	EXPECT_EQ(0xaa, raw[8]);
	len = sizeof(raw);
	ASSERT_EQ(0, getsockopt(s, SOL_L5, L5_INFO, raw, &len));
	EXPECT_EQ(sizeof(struct l5_info), len);
	EXPECT_EQ(0xaa, raw[len]);
	len = 0;
	EXPECT_EQ(0, getsockopt(s, SOL_L5, L5_INFO, raw, &len));
	EXPECT_EQ(0, len);
	len = -1;
	EXPECT_EQ(-1, getsockopt(s, SOL_L5, L5_INFO, raw, &len));
	EXPECT_EQ(EINVAL, errno);
	len = 4;
	EXPECT_EQ(-1, getsockopt(s, SOL_L5, L5_TRANSPORT, nowhere, &len));
	EXPECT_EQ(EFAULT, errno);
	len = sizeof(val);
	/* other levels still are the bootstrap's */
	EXPECT_EQ(-1, getsockopt(s, 4711, 1, &val, &len));
	EXPECT_TRUE(errno == ENOPROTOOPT || errno == EOPNOTSUPP);
	close(c);
	close(s);
}

/* An accepted socket starts with its listener's. */
TEST_F_TIMEOUT(limit_options, inherited_options, 300)
{
	int c, s, l;
	struct addr to = addr_parse("127.0.0.1:0");

	l = end_socket(END_L5, AF_INET);
	ASSERT_EQ(0, set_own(l, L5_SPIN_US, 123, 4));
	ASSERT_EQ(0, bind(l, &to.sa, to.len));
	to.len = sizeof(to.ss);
	ASSERT_EQ(0, getsockname(l, &to.sa, &to.len));
	ASSERT_EQ(0, listen(l, 5));
	ASSERT_TRUE(open_pair(l, &to, &c, &s));
	EXPECT_EQ(123, l5_getopt(s, L5_SPIN_US));
	EXPECT_EQ(-1, l5_getopt(c, L5_SPIN_US));
}

TEST_F_TIMEOUT(limit_options, spinning, 120)
{
	int c, s, i, status, big = L5_SPIN_US_MAX;
	long long before;
	char b;
	pid_t pid;

	ASSERT_TRUE(open_pair(self->listener, &self->to, &c, &s));
	ASSERT_EQ(0, set_own(s, L5_SPIN_US, big, 4));
	before = l5_stat("spins");
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		for (i = 0; i < 50; i++) {
			usleep(3000);
			if (!end_put(c, 100, i * 100) ||
			    recv(c, &b, 1, 0) != 1)
				_exit(1);
		}
		_exit(0);
	}
	for (i = 0; i < 50; i++) {
		uint8_t buf[100];

		ASSERT_EQ(100, recv(s, buf, 100, MSG_WAITALL));
		ASSERT_EQ(-1, l5_check(buf, 100, i * 100));
		ASSERT_EQ(1, send(s, "x", 1, 0));
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_LT(before, l5_stat("spins"));

	/* a signal ends it, if not the first, which may come too early */
	for (i = 0; i < 5; i++) {
		alarm_every(100000);
		ASSERT_EQ(-1, recv(s, &b, 1, 0));
		ASSERT_EQ(EINTR, errno);
	}
	alarm_off();
	/* and nonblocking calls do not spin */
	ASSERT_EQ(-1, recv(s, &b, 1, MSG_DONTWAIT));
	ASSERT_EQ(EAGAIN, errno);
	close(c);
	EXPECT_EQ(0, recv(s, &b, 1, 0));
	close(s);
}

TEST_F_TIMEOUT(limit_options, unprivileged, 120)
{
	int status, c, s;
	pid_t pid;

	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		struct addr low = addr_parse("127.0.0.1:80");

		if (setgid(65534) || setuid(65534))
			_exit(1);
		if (!open_pair(self->listener, &self->to, &c, &s))
			_exit(2);
		if (l5_transport(c) != L5_TRANSPORT_SHM ||
		    l5_transport(s) != L5_TRANSPORT_SHM)
			_exit(3);
		if (!end_exchange(c, s, 300000, 0))
			_exit(4);
		c = end_socket(END_L5, AF_INET);
		if (bind(c, &low.sa, low.len) == 0 || errno != EACCES)
			_exit(5);
		if (l5_sysctl("enabled", 0) >= 0)
			_exit(6);
		_exit(0);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
}

static int sysctl_write(const char *name, const char *text)
{
	char path[96];
	int fd, err;

	snprintf(path, sizeof(path), "/proc/sys/net/l5/%s", name);
	fd = open(path, O_WRONLY);
	if (fd < 0)
		return errno;
	err = write(fd, text, strlen(text)) < 0 ? errno : 0;
	close(fd);
	return err;
}

static long sysctl_read(const char *name)
{
	char path[96];
	long v = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/sys/net/l5/%s", name);
	f = fopen(path, "re");
	if (f && fscanf(f, "%ld", &v) != 1)
		v = -1;
	if (f)
		fclose(f);
	return v;
}

TEST_F_TIMEOUT(limit_options, sysctls, 300)
{
	static const struct {
		const char *name, *good, *bad[4];
	} t[] = {
		{ "enabled", "0", { "2", "-1", "x" } },
		{ "spin_us", "10", { "1000001", "-1", "x" } },
		{ "cpu_budget", "7", { "101", "-1", "x" } },
		{ "ring_kb", "64", { "3", "0", "-4", "16385" } },
		{ "ring_max_kb", "64", { "3", "0", "-4", "16385" } },
		{ "match_ms", "0", { "-1", "10001", "x" } },
		{ "grow_ms", "0", { "-1", "3600001", "x" } },
		{ "mem_max_kb", "1000", { "x" } },
	};
	unsigned int i, j;
	long before;

	for (i = 0; i < ARRAY_SIZE(t); i++) {
		before = sysctl_read(t[i].name);
		ASSERT_LE(0, before);
		for (j = 0; j < 4 && t[i].bad[j]; j++) {
			EXPECT_EQ(EINVAL,
				  sysctl_write(t[i].name, t[i].bad[j])) {
				TH_LOG("%s = %s", t[i].name, t[i].bad[j]);
			}
			EXPECT_EQ(before, sysctl_read(t[i].name));
		}
		EXPECT_EQ(0, sysctl_write(t[i].name, t[i].good));
		EXPECT_EQ(atol(t[i].good), sysctl_read(t[i].name));
	}
	/* another namespace has its own, fresh */
	ASSERT_TRUE(net_unshare());
	for (i = 0; i < ARRAY_SIZE(t); i++)
		EXPECT_NE(atol(t[i].good), sysctl_read(t[i].name));
}

/* A namespace's counters: every connection is in exactly one of them. */
TEST_F_TIMEOUT(limit_options, counters, 300)
{
	static const char *const names[] = {
#define NAME(code, name, text)	[L5_REASON_##code] = "fallback_" name,
		L5_REASONS(NAME)
#undef NAME
	};
	long long sum = 0;
	int c, s, i;

	for (i = 0; i < 10; i++) {
		l5_sysctl("enabled", i < 6);
		ASSERT_TRUE(open_pair(self->listener, &self->to, &c, &s));
		ASSERT_TRUE(end_exchange(c, s, 1000, 0));
		close(c);
		close(s);
	}
	for (i = 1; i < L5_REASON_MAX; i++) {
		EXPECT_LE(0, l5_stat(names[i])) {
			TH_LOG("%s", names[i]);
		}
		sum += l5_stat(names[i]);
	}
	EXPECT_EQ(12, l5_stat("conn_shm"));
	EXPECT_EQ(8, l5_stat("conn_base"));
	EXPECT_EQ(8, sum);
	EXPECT_EQ(12 * 1000, l5_stat("bytes_tx"));
	EXPECT_EQ(12 * 1000, l5_stat("bytes_rx"));
	EXPECT_EQ(0, l5_stat("violations"));
}

TEST_HARNESS_MAIN
