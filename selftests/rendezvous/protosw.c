// SPDX-License-Identifier: GPL-2.0
/*
 * The second door: sockets of AF_INET and AF_INET6 with the protocol of AF_L5.
 * They are the sockets that the family makes, when the administrator lets them
 * be made.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/filter.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "bpf.h"
#include "ends.h"
#include "users.h"

#define KINDS	(END_INET + 1)
#define CGROUP	"/sys/fs/cgroup/l5_protosw"

/* Where programs of a cgroup hear of a socket */
enum {
	ON_MAKE = BPF_CGROUP_INET_SOCK_CREATE,
	ON_END = BPF_CGROUP_INET_SOCK_RELEASE,
};

FIXTURE(rendezvous_protosw)
{
	bool was;
	int protocol;
};

static bool inet_is_open(void)
{
	char c = 'N';
	int fd = open(L5_INET_PATH, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || read(fd, &c, 1) != 1)
		c = 'N';
	close(fd);
	return c == 'Y';
}

static bool inet_open(bool on)
{
	return put_text(L5_INET_PATH, on ? "1" : "0");
}

FIXTURE_SETUP(rendezvous_protosw)
{
	l5_or_skip();
	self->was = inet_is_open();
	self->protocol = l5_number(L5_PROTOCOL_PATH);
	ASSERT_EQ(IPPROTO_L5, self->protocol);
	ASSERT_TRUE(inet_open(true));
	ASSERT_TRUE(net_unshare());
	ASSERT_LE(0, l5_sysctl("match_ms", 10000));
}

FIXTURE_TEARDOWN(rendezvous_protosw)
{
	inet_open(self->was);
}

static int door(int family, int flags)
{
	return socket(family, SOCK_STREAM | SOCK_CLOEXEC | flags, IPPROTO_L5);
}

static int int_option(int fd, int opt)
{
	int v = -1;
	socklen_t len = sizeof(v);

	return getsockopt(fd, SOL_SOCKET, opt, &v, &len) ? -errno : v;
}

/* As the number of any protocol that is not there. */
TEST_F(rendezvous_protosw, shut)
{
	static const int families[] = { AF_INET, AF_INET6 };
	long long had = l5_references();
	unsigned int i;
	int fd;

	for (i = 0; i < 2; i++) {
		ASSERT_TRUE(inet_open(false));
		EXPECT_EQ(-1, door(families[i], 0));
		EXPECT_EQ(EPROTONOSUPPORT, errno);
		ASSERT_TRUE(inet_open(true));
		fd = door(families[i], 0);
		EXPECT_LE(0, fd);
		/* a socket that is there already stays */
		ASSERT_TRUE(inet_open(false));
		EXPECT_EQ(0, int_option(fd, SO_ERROR));
		close(fd);
		ASSERT_TRUE(inet_open(true));
		ASSERT_TRUE(put_text("/sys/module/af_l5/parameters/refuse",
				     "1"));
		fd = door(families[i], 0);
		ASSERT_TRUE(put_text("/sys/module/af_l5/parameters/refuse",
				     "0"));
		EXPECT_EQ(-1, fd);
	}
	EXPECT_TRUE(l5_comes_back(l5_references, 0, had, 10000));
}

/* Streams alone come by it. */
TEST_F(rendezvous_protosw, types)
{
	static const int families[] = { AF_INET, AF_INET6 };
	unsigned int i;

	for (i = 0; i < 2; i++) {
		EXPECT_EQ(-1, socket(families[i], SOCK_DGRAM, IPPROTO_L5));
		EXPECT_EQ(EPROTONOSUPPORT, errno);
		EXPECT_EQ(-1, socket(families[i], SOCK_SEQPACKET, IPPROTO_L5));
		EXPECT_EQ(ESOCKTNOSUPPORT, errno);
		EXPECT_EQ(-1, socket(families[i], SOCK_STREAM, IPPROTO_L5 - 1));
		EXPECT_EQ(EPROTONOSUPPORT, errno);
		/* nobody who asks for a stream gets one by accident */
		EXPECT_LE(0, socket(families[i], SOCK_STREAM, 0));
	}
	EXPECT_EQ(-1, socket(AF_UNIX, SOCK_STREAM, IPPROTO_L5));
	EXPECT_EQ(EPROTONOSUPPORT, errno);
}

/* What a program that asks is told, as of TCP. */
TEST_F(rendezvous_protosw, shows)
{
	static const int families[] = { AF_INET, AF_INET6 };
	unsigned int i;
	int fd, plain;

	for (i = 0; i < 2; i++) {
		fd = door(families[i], SOCK_NONBLOCK);
		plain = socket(families[i], SOCK_STREAM, 0);
		ASSERT_LE(0, fd);
		ASSERT_LE(0, plain);
		EXPECT_EQ(families[i], int_option(fd, SO_DOMAIN));
		EXPECT_EQ(IPPROTO_TCP, int_option(fd, SO_PROTOCOL));
		EXPECT_EQ(SOCK_STREAM, int_option(fd, SO_TYPE));
		EXPECT_EQ(int_option(plain, SO_SNDBUF),
			  int_option(fd, SO_SNDBUF));
		EXPECT_EQ(int_option(plain, SO_RCVBUF),
			  int_option(fd, SO_RCVBUF));
		EXPECT_EQ(O_NONBLOCK, fcntl(fd, F_GETFL) & O_NONBLOCK);
		EXPECT_EQ(FD_CLOEXEC, fcntl(fd, F_GETFD));
		EXPECT_EQ(L5_TRANSPORT_NONE, l5_getopt(fd, L5_TRANSPORT));
		EXPECT_LT(l5_getopt(plain, L5_TRANSPORT), 0);
		close(fd);
		close(plain);
	}
}

static void meet(struct __test_metadata *_metadata, const char *at,
		 enum end_kind server, enum end_kind client)
{
	struct addr to = addr_parse(at);
	int l = end_listen(server, &to), c = end_connect(client, &to), s, want;

	ASSERT_LE(0, l);
	ASSERT_LE(0, c);
	s = accept(l, NULL, NULL);
	ASSERT_LE(0, s);
	want = server == END_TCP || client == END_TCP ? L5_TRANSPORT_BASE :
	       L5_TRANSPORT_SHM;
	if (client != END_TCP)
		EXPECT_EQ(want, l5_transport(c))
			TH_LOG("%s, listener %d, client %d: %s", at, server,
			       client, end_reason_name(end_reason(c)));
	if (server != END_TCP) {
		EXPECT_EQ(want, l5_transport(s));
		EXPECT_EQ(to.sa.sa_family, int_option(s, SO_DOMAIN));
		EXPECT_EQ(IPPROTO_TCP, int_option(s, SO_PROTOCOL));
	}
	EXPECT_TRUE(end_exchange(c, s, 300000, 0));
	close(c);
	close(s);
	close(l);
}

TEST_F_TIMEOUT(rendezvous_protosw, meets, 120)
{
	enum end_kind s, c;

	for (s = 0; s < KINDS; s++)
		for (c = 0; c < KINDS; c++) {
			meet(_metadata, "127.0.0.1:0", s, c);
			meet(_metadata, "[::1]:0", s, c);
		}
}

/*
 * IPv4 by a socket of IPv6, and a connection that is given up: the next one of
 * the same socket stays on TCP, as of any AF_L5 socket.
 */
TEST_F(rendezvous_protosw, mapped_addresses)
{
	struct addr to = addr_parse("[::]:0"), v4 = addr_parse("127.0.0.1:0");
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	int l = door(AF_INET6, 0), c = door(AF_INET, 0), s, round;

	ASSERT_LE(0, l);
	ASSERT_LE(0, c);
	ASSERT_EQ(0, bind(l, &to.sa, to.len));
	ASSERT_EQ(0, listen(l, 8));
	to.len = sizeof(to.ss);
	ASSERT_EQ(0, getsockname(l, &to.sa, &to.len));
	addr_set_port(&v4, addr_port(&to));
	for (round = 0; round < 3; round++) {
		ASSERT_EQ(0, connect(c, &v4.sa, v4.len));
		s = accept(l, NULL, NULL);
		ASSERT_LE(0, s);
		EXPECT_EQ(round ? L5_TRANSPORT_BASE : L5_TRANSPORT_SHM,
			  l5_transport(c))
			TH_LOG("round %d: %s", round,
			       end_reason_name(end_reason(c)));
		EXPECT_TRUE(end_exchange(c, s, 5000, 0));
		close(s);
		ASSERT_EQ(0, connect(c, &none, sizeof(none)));
	}
	close(c);
	close(l);
}

/* A filter that lets nothing through, or a program that takes the second. */
static int attached_to(int fd, int opt, uint32_t answer)
{
	struct sock_filter code = BPF_STMT(BPF_RET | BPF_K, answer);
	struct sock_fprog prog = { .len = 1, .filter = &code };

	return setsockopt(fd, SOL_SOCKET, opt, &prog, sizeof(prog)) ? errno : 0;
}

/*
 * A program that has a filter gets what it lets through, and one that steers
 * connections has them where it wants them: by the options of SOL_SOCKET that
 * any program knows.
 */
TEST_F_TIMEOUT(rendezvous_protosw, filters, 120)
{
	struct addr to = addr_parse("127.0.0.1:0");
	int l[2], c, s, i, one = 1;
	struct pollfd p;
	enum end_kind kind;

	if (!kernel_asks_for_options())
		SKIP(return, "this kernel does not ask AF_L5 for these options");
	for (kind = 0; kind < KINDS; kind++) {
		to = addr_parse("127.0.0.1:0");
		l[0] = end_listen(END_TCP, &to);
		ASSERT_LE(0, l[0]);
		c = end_socket(kind, AF_INET);
		ASSERT_LE(0, c);
		EXPECT_EQ(0, attached_to(c, SO_ATTACH_FILTER, 0));
		fcntl(c, F_SETFL, O_NONBLOCK);
		EXPECT_EQ(-1, connect(c, &to.sa, to.len));
		EXPECT_EQ(EINPROGRESS, errno);
		p = (struct pollfd){ .fd = c, .events = POLLOUT };
		EXPECT_EQ(0, poll(&p, 1, 300));
		EXPECT_EQ(0, setsockopt(c, SOL_SOCKET, SO_DETACH_FILTER, &one,
					sizeof(one)));
		EXPECT_EQ(POLLOUT, end_poll(c, POLLOUT));
		close(c);
		close(l[0]);

		to = addr_parse("127.0.0.1:0");
		for (i = 0; i < 2; i++) {
			l[i] = end_socket(kind, AF_INET);
			ASSERT_LE(0, l[i]);
			ASSERT_EQ(0, setsockopt(l[i], SOL_SOCKET, SO_REUSEPORT,
						&one, sizeof(one)));
			ASSERT_EQ(0, bind(l[i], &to.sa, to.len));
			ASSERT_EQ(0, listen(l[i], 8));
			to.len = sizeof(to.ss);
			ASSERT_EQ(0, getsockname(l[i], &to.sa, &to.len));
		}
		EXPECT_EQ(0, attached_to(l[0], SO_ATTACH_REUSEPORT_CBPF, 1));
		for (i = 0; i < 8; i++) {
			c = end_connect(END_TCP, &to);
			ASSERT_LE(0, c);
			EXPECT_EQ(POLLIN, end_poll(l[1], POLLIN));
			s = accept(l[1], NULL, NULL);
			EXPECT_LE(0, s);
			close(s);
			close(c);
		}
		close(l[0]);
		close(l[1]);
	}
}

/*
 * A program of a cgroup that hears of sockets: it adds one to a word of a map,
 * and answers @answer.
 */
static int cgroup_prog(int map, int word, int answer, int type)
{
	struct bpf_insn insns[] = {
		{ BPF_ST | BPF_W | BPF_MEM, BPF_REG_10, 0, -4, word },
		{ BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_2, BPF_REG_10, 0, 0 },
		{ BPF_ALU64 | BPF_ADD | BPF_K, BPF_REG_2, 0, 0, -4 },
		{ BPF_LD | BPF_DW | BPF_IMM, BPF_REG_1, BPF_PSEUDO_MAP_FD, 0,
		  map },
		{ 0, 0, 0, 0, 0 },
		{ BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_map_lookup_elem },
		{ BPF_JMP | BPF_JEQ | BPF_K, BPF_REG_0, 0, 2, 0 },
		{ BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_1, 0, 0, 1 },
		{ BPF_STX | BPF_DW | BPF_ATOMIC, BPF_REG_0, BPF_REG_1, 0,
		  BPF_ADD },
		{ BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, answer },
		{ BPF_JMP | BPF_EXIT, 0, 0, 0, 0 },
	};

	return bpf_load(BPF_PROG_TYPE_CGROUP_SOCK, type, insns,
			ARRAY_SIZE(insns));
}

static int counters(void)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.map_type = BPF_MAP_TYPE_ARRAY;
	attr.key_size = 4;
	attr.value_size = 8;
	attr.max_entries = 2;
	return bpf(BPF_MAP_CREATE, &attr);
}

static uint64_t counted(int map, uint32_t word)
{
	uint64_t n = ~0ULL;
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.map_fd = map;
	attr.key = (unsigned long)&word;
	attr.value = (unsigned long)&n;
	bpf(BPF_MAP_LOOKUP_ELEM, &attr);
	return n;
}

/* The cgroup is left and goes, and so do sockets that were refused in it. */
static bool all_left(long long references, long long sockets)
{
	return cgroup_enter("/sys/fs/cgroup") && !rmdir(CGROUP) &&
	       l5_comes_back(l5_references, 0, references, 10000) &&
	       l5_comes_back(l5_sockets, 0, sockets, 10000);
}

/* Sockets of one kind: some that connect, are accepted, or do nothing. */
static bool some_sockets(enum end_kind kind, int family)
{
	struct addr to = addr_parse(family == AF_INET ? "127.0.0.1:0" :
							"[::1]:0");
	int l = end_listen(kind, &to), c = end_connect(kind, &to);
	int idle = end_socket(kind, family), s = accept(l, NULL, NULL);
	bool ok = idle >= 0 && c >= 0 && s >= 0 && end_exchange(c, s, 1000, 0);

	close(s);
	close(c);
	close(idle);
	close(l);
	return ok;
}

/*
 * Programs that hear of the making of sockets and of their end: by the door
 * they hear of two for one, as of what the kernel makes for MPTCP, and of as
 * many ends as of any other socket. A refusal is one, and leaves nothing.
 */
TEST_F_TIMEOUT(rendezvous_protosw, cgroup_hears, 120)
{
	static const int families[] = { AF_INET, AF_INET6 };
	long long had = l5_references(), sockets = l5_sockets();
	int make, end, no, map, dir;
	uint64_t made[KINDS], ended[KINDS];
	unsigned int i;
	enum end_kind kind;

	mkdir(CGROUP, 0755);
	dir = open(CGROUP, O_RDONLY | O_DIRECTORY);
	ASSERT_LE(0, dir);
	ASSERT_TRUE(cgroup_enter(CGROUP));
	for (i = 0; i < 2; i++) {
		for (kind = 0; kind < KINDS; kind++) {
			map = counters();
			ASSERT_LE(0, map);
			make = cgroup_prog(map, 0, 1, ON_MAKE);
			ASSERT_LE(0, make);
			end = cgroup_prog(map, 1, 1, ON_END);
			ASSERT_LE(0, end);
			ASSERT_TRUE(bpf_attach(dir, make, ON_MAKE, 1));
			ASSERT_TRUE(bpf_attach(dir, end, ON_END, 1));
			EXPECT_TRUE(some_sockets(kind, families[i]));
			made[kind] = counted(map, 0);
			ended[kind] = counted(map, 1);
			ASSERT_TRUE(bpf_attach(dir, make, ON_MAKE, 0));
			ASSERT_TRUE(bpf_attach(dir, end, ON_END, 0));
			close(make);
			close(end);
			close(map);
		}
		EXPECT_EQ(3, made[END_TCP]);
		EXPECT_EQ(made[END_TCP], made[END_L5]);
		EXPECT_EQ(2 * made[END_TCP], made[END_INET]);
		/* of an accepted one they hear the end alone */
		EXPECT_EQ(made[END_TCP] + 1, ended[END_TCP]);
		EXPECT_EQ(ended[END_TCP] - made[END_TCP],
			  ended[END_INET] - made[END_INET]);
		EXPECT_EQ(ended[END_TCP], ended[END_L5]);
	}
	/* the first question is about the bootstrap, the second about ours */
	map = counters();
	no = cgroup_prog(map, 0, 0, ON_MAKE);
	ASSERT_LE(0, no);
	ASSERT_TRUE(bpf_attach(dir, no, ON_MAKE, 1));
	for (i = 0; i < 2; i++)
		for (kind = 0; kind < KINDS; kind++)
			EXPECT_EQ(-EPERM, end_socket(kind, families[i]));
	EXPECT_EQ(2 * KINDS, counted(map, 0));
	ASSERT_TRUE(bpf_attach(dir, no, ON_MAKE, 0));
	close(no);
	close(map);
	close(dir);
	EXPECT_TRUE(all_left(had, sockets));
}

/*
 * A program that refuses what has been made already: the second question is the
 * one that it says no to.
 */
static int second_refused(int map)
{
	struct bpf_insn insns[] = {
		{ BPF_ST | BPF_W | BPF_MEM, BPF_REG_10, 0, -4, 0 },
		{ BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_2, BPF_REG_10, 0, 0 },
		{ BPF_ALU64 | BPF_ADD | BPF_K, BPF_REG_2, 0, 0, -4 },
		{ BPF_LD | BPF_DW | BPF_IMM, BPF_REG_1, BPF_PSEUDO_MAP_FD, 0,
		  map },
		{ 0, 0, 0, 0, 0 },
		{ BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_map_lookup_elem },
		{ BPF_JMP | BPF_JNE | BPF_K, BPF_REG_0, 0, 2, 0 },
		{ BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, 1 },
		{ BPF_JMP | BPF_EXIT, 0, 0, 0, 0 },
		{ BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_1, 0, 0, 1 },
		{ BPF_STX | BPF_DW | BPF_ATOMIC, BPF_REG_0, BPF_REG_1, 0,
		  BPF_ADD | BPF_FETCH },
		{ BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, 1 },
		{ BPF_ALU64 | BPF_AND | BPF_K, BPF_REG_1, 0, 0, 1 },
		{ BPF_ALU64 | BPF_SUB | BPF_X, BPF_REG_0, BPF_REG_1, 0, 0 },
		{ BPF_JMP | BPF_EXIT, 0, 0, 0, 0 },
	};

	return bpf_load(BPF_PROG_TYPE_CGROUP_SOCK,
			ON_MAKE, insns,
			ARRAY_SIZE(insns));
}

TEST_F(rendezvous_protosw, refused_when_made)
{
	static const int families[] = { AF_INET, AF_INET6 };
	long long had = l5_references(), sockets = l5_sockets();
	int no, map = counters(), dir;
	unsigned int i;

	mkdir(CGROUP, 0755);
	dir = open(CGROUP, O_RDONLY | O_DIRECTORY);
	ASSERT_LE(0, dir);
	ASSERT_TRUE(cgroup_enter(CGROUP));
	no = second_refused(map);
	ASSERT_LE(0, no)
		TH_LOG("%m");
	ASSERT_TRUE(bpf_attach(dir, no, ON_MAKE, 1));
	for (i = 0; i < 100; i++) {
		EXPECT_EQ(-1, door(families[i % 2], 0));
		EXPECT_EQ(EPERM, errno);
	}
	EXPECT_EQ(2 * i, counted(map, 0));
	ASSERT_TRUE(bpf_attach(dir, no, ON_MAKE, 0));
	close(no);
	close(map);
	close(dir);
	EXPECT_TRUE(all_left(had, sockets));
}

static void *makes_sockets(void *stop)
{
	unsigned long n = 0;

	while (!__atomic_load_n((bool *)stop, __ATOMIC_RELAXED)) {
		int fd = door(n++ % 2 ? AF_INET : AF_INET6, 0);

		if (fd >= 0)
			close(fd);
		else if (errno != EPROTONOSUPPORT)
			return (void *)1UL;
	}
	return NULL;
}

/* The door opens and shuts beside tasks that come by it. */
TEST_F_TIMEOUT(rendezvous_protosw, opens_and_shuts, 60)
{
	long long had = l5_references();
	int64_t end = l5_now_ms() + 1500;
	bool stop = false;
	pthread_t t[2];
	void *bad;
	int i;

	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, pthread_create(&t[i], NULL, makes_sockets, &stop));
	while (l5_now_ms() < end)
		inet_open(!inet_is_open());
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, pthread_join(t[i], &bad));
		EXPECT_EQ(NULL, bad);
	}
	EXPECT_TRUE(l5_comes_back(l5_references, 0, had, 10000));
}

TEST_HARNESS_MAIN
