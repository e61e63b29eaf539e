// SPDX-License-Identifier: GPL-2.0
/*
 * The two ends of a connection across what can lie between two sockets of one
 * machine: other processors, network namespaces, delay and loss, address
 * translation, SYN cookies, relays. And the claim: what happens when the
 * client stops waiting just as the server's half arrives.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "ends.h"

FIXTURE(rendezvous_net)
{
	int home;
	int a, b;
};

FIXTURE_SETUP(rendezvous_net)
{
	l5_or_skip();
	self->home = net_current();
	self->a = -1;
	self->b = -1;
	ASSERT_LE(0, self->home);
}

FIXTURE_TEARDOWN(rendezvous_net)
{
	net_enter(self->home);
	if (self->a >= 0)
		net_pair_end(self->a, self->b);
}

/* How many connections ended each way. */
struct tally {
	int shm, base, timeout;
};

/*
 * @count connections from namespace @from to @to, whose listener is @l. The
 * ends must agree each time; the bytes go both ways.
 */
static void connect_many(struct __test_metadata *_metadata, int from, int l,
			 const struct addr *to, int count, size_t bytes,
			 struct tally *t)
{
	int i, c, s, ct, st;

	memset(t, 0, sizeof(*t));
	if (from >= 0)
		ASSERT_TRUE(net_enter(from));
	for (i = 0; i < count; i++) {
		c = end_connect(END_L5, to);
		ASSERT_LE(0, c) {
			TH_LOG("connection %d: %s", i, strerror(-c));
		}
		ASSERT_EQ(POLLIN, end_poll(l, POLLIN));
		s = accept(l, NULL, NULL);
		ASSERT_LE(0, s);
		ct = l5_transport(c);
		st = l5_transport(s);
		ASSERT_EQ(ct, st) {
			TH_LOG("connection %d: client %s, server %s", i,
			       end_reason_name(end_reason(c)),
			       end_reason_name(end_reason(s)));
		}
		if (ct == L5_TRANSPORT_SHM)
			t->shm++;
		else
			t->base++;
		if (end_reason(c) == L5_REASON_TIMEOUT)
			t->timeout++;
		ASSERT_TRUE(end_exchange(c, s, bytes + i, i));
		/* neither end may change its mind later */
		ASSERT_EQ(ct, l5_getopt(c, L5_TRANSPORT));
		ASSERT_EQ(ct, l5_getopt(s, L5_TRANSPORT));
		close(c);
		close(s);
	}
}

static int listen_in(int ns, enum end_kind kind, const char *at,
		     struct addr *name)
{
	if (ns >= 0 && !net_enter(ns))
		return -errno;
	*name = addr_parse(at);
	return end_listen(kind, name);
}

/* SYN/ACK processing on the other processor. */
TEST_F_TIMEOUT(rendezvous_net, rps, 300)
{
	static const char *const masks[] = { "1", "2", "3" };
	struct addr to = { .len = 0 };
	struct tally t;
	unsigned int i;
	int l;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "one processor");
	if (access("/sys/class/net/lo/queues/rx-0/rps_cpus", W_OK))
		SKIP(return, "no RPS here");
	l = listen_in(-1, END_L5, "127.0.0.1:0", &to);
	ASSERT_LE(0, l);
	/* a slow machine may well need longer than the default */
	long old = l5_sysctl("match_ms", 10000);

	for (i = 0; i < ARRAY_SIZE(masks); i++) {
		ASSERT_EQ(0, sh("echo %s >/sys/class/net/lo/queues/rx-0/rps_cpus",
				masks[i]));
		connect_many(_metadata, -1, l, &to, 150, 500, &t);
		EXPECT_EQ(150, t.shm);
	}
	sh("echo 0 >/sys/class/net/lo/queues/rx-0/rps_cpus");
	l5_sysctl("match_ms", old);
	close(l);
}

/* match_ms belongs to a namespace: set it in @ns. */
static long set_match(int ns, long ms)
{
	int here = net_current();
	long old;

	net_enter(ns);
	old = l5_sysctl("match_ms", ms);
	net_enter(here);
	close(here);
	return old;
}

TEST_F_TIMEOUT(rendezvous_net, namespaces, 300)
{
	struct addr to;
	struct tally t;
	int l;

	ASSERT_TRUE(net_pair(&self->a, &self->b));
	set_match(self->a, 10000);
	l = listen_in(self->b, END_L5, "10.77.0.2:0", &to);
	ASSERT_LE(0, l);
	connect_many(_metadata, self->a, l, &to, 150, 3000, &t);
	EXPECT_EQ(150, t.shm);
	close(l);
}

/* The rings belong to both namespaces' counters, to each its own end. */
TEST_F_TIMEOUT(rendezvous_net, namespace_counters, 300)
{
	struct addr to;
	int l, c, s;

	ASSERT_TRUE(net_pair(&self->a, &self->b));
	set_match(self->a, 10000);
	l = listen_in(self->b, END_L5, "10.77.0.2:0", &to);
	ASSERT_LE(0, l);
	ASSERT_TRUE(net_enter(self->a));
	c = end_connect(END_L5, &to);
	ASSERT_LE(0, c);
	s = accept(l, NULL, NULL);
	ASSERT_LE(0, s);
	ASSERT_EQ(L5_TRANSPORT_SHM, l5_transport(c));
	ASSERT_TRUE(end_put(c, 1234, 0));
	ASSERT_TRUE(end_get(s, 1234, 0));
	/* what went by rings that processes map is counted at the end */
	close(c);
	close(s);
	EXPECT_EQ(1, l5_stat("conn_shm"));
	EXPECT_EQ(1234, l5_stat("bytes_tx"));
	EXPECT_EQ(0, l5_stat("bytes_rx"));
	ASSERT_TRUE(net_enter(self->b));
	EXPECT_EQ(1, l5_stat("conn_shm"));
	EXPECT_EQ(0, l5_stat("bytes_tx"));
	EXPECT_EQ(1234, l5_stat("bytes_rx"));
	close(l);
}

TEST_F_TIMEOUT(rendezvous_net, delay_and_loss, 400)
{
	struct addr to;
	struct tally t;
	int l;

	ASSERT_TRUE(net_pair(&self->a, &self->b));
	if (sh("modprobe -q sch_netem; tc -n l5a qdisc add dev va root netem delay 3ms && "
	       "tc -n l5b qdisc add dev vb root netem delay 5ms loss 5%%"))
		SKIP(return, "no netem");
	l = listen_in(self->b, END_L5, "10.77.0.2:0", &to);
	ASSERT_LE(0, l);
	/* with the default some time out, and then both ends stay TCP */
	connect_many(_metadata, self->a, l, &to, 60, 4000, &t);
	EXPECT_EQ(60, t.shm + t.base);
	EXPECT_EQ(t.base, t.timeout);
	set_match(self->a, 10000);
	connect_many(_metadata, self->a, l, &to, 60, 4000, &t);
	EXPECT_EQ(60, t.shm);
	close(l);
}

TEST_F_TIMEOUT(rendezvous_net, translated, 300)
{
	struct addr to, dest;
	struct tally t;
	int l;

	ASSERT_TRUE(net_pair(&self->a, &self->b));
	set_match(self->a, 10000);
	l = listen_in(self->b, END_L5, "10.77.0.2:7010", &to);
	ASSERT_LE(0, l);

	/* REDIRECT and SNAT at the server's side */
	ASSERT_EQ(0, sh("ip netns exec l5b nft 'table ip t { "
			"chain p { type nat hook prerouting priority -100; "
			"tcp dport 8001 redirect to :7010; }\n"
			"chain i { type nat hook input priority 100; "
			"tcp dport 7010 snat to 10.77.0.99; }\n}'"));
	dest = addr_parse("10.77.0.2:8001");
	connect_many(_metadata, self->a, l, &dest, 60, 3000, &t);
	EXPECT_EQ(60, t.shm);

	/* DNAT at the client's */
	ASSERT_EQ(0, sh("ip netns exec l5b nft flush ruleset; "
			"ip -n l5a route add 10.88.0.0/24 via 10.77.0.2; "
			"ip netns exec l5a nft 'table ip t { "
			"chain o { type nat hook output priority -100; "
			"ip daddr 10.88.0.77 tcp dport 9001 dnat to 10.77.0.2:7010; }\n"
			"chain s { type nat hook postrouting priority 100; "
			"ip daddr 10.77.0.2 masquerade; }\n}'"));
	dest = addr_parse("10.88.0.77:9001");
	connect_many(_metadata, self->a, l, &dest, 60, 3000, &t);
	EXPECT_EQ(60, t.shm);
	close(l);
}

static long long tcp_ext(const char *name)
{
	char cmd[256], buf[64] = "";
	FILE *f;

	snprintf(cmd, sizeof(cmd), "nstat -asz %s | awk '$1 == \"%s\" { print $2 }'",
		 name, name);
	f = popen(cmd, "r");
	if (!f || !fgets(buf, sizeof(buf), f))
		buf[0] = 0;
	if (f)
		pclose(f);
	return buf[0] ? atoll(buf) : -1;
}

TEST_F_TIMEOUT(rendezvous_net, syncookies, 300)
{
	static const char *const at[] = { "10.77.0.2:0", "[fd77::2]:0" };
	struct addr to;
	struct tally t;
	unsigned int i;
	int l;

	ASSERT_TRUE(net_pair(&self->a, &self->b));
	set_match(self->a, 10000);
	ASSERT_EQ(0, sh("ip -n l5a addr add fd77::1/64 dev va nodad; "
			"ip -n l5b addr add fd77::2/64 dev vb nodad; "
			"ip netns exec l5b "
			"sysctl -qw net.ipv4.tcp_syncookies=2"));
	for (i = 0; i < ARRAY_SIZE(at); i++) {
		long long cookies;

		l = listen_in(self->b, END_L5, at[i], &to);
		ASSERT_LE(0, l);
		connect_many(_metadata, self->a, l, &to, 60, 3000, &t);
		EXPECT_EQ(60, t.shm);
		net_enter(self->b);
		cookies = tcp_ext("TcpExtSyncookiesRecv");
		/* the kernel really made them */
		EXPECT_LE(60 * (i + 1), cookies);
		close(l);
	}
}

TEST_F_TIMEOUT(rendezvous_net, reuseport, 300)
{
	struct addr to = addr_parse("127.0.0.1:0");
	struct pollfd p[2];
	int l[2], i, c, s, one = 1, used[2] = { 0, 0 };
	long old = l5_sysctl("match_ms", 10000);

	for (i = 0; i < 2; i++) {
		l[i] = end_socket(END_L5, AF_INET);
		ASSERT_LE(0, l[i]);
		ASSERT_EQ(0, setsockopt(l[i], SOL_SOCKET, SO_REUSEPORT, &one,
					sizeof(one)));
		ASSERT_EQ(0, bind(l[i], &to.sa, to.len));
		ASSERT_EQ(0, listen(l[i], 100));
		to.len = sizeof(to.ss);
		ASSERT_EQ(0, getsockname(l[i], &to.sa, &to.len));
		p[i].fd = l[i];
		p[i].events = POLLIN;
	}
	for (i = 0; i < 100; i++) {
		int which;

		c = end_connect(END_L5, &to);
		ASSERT_LE(0, c);
		ASSERT_EQ(1, poll(p, 2, 60000 * l5_slow()));
		which = p[0].revents ? 0 : 1;
		used[which]++;
		s = accept(l[which], NULL, NULL);
		ASSERT_LE(0, s);
		ASSERT_EQ(L5_TRANSPORT_SHM, l5_transport(c));
		ASSERT_EQ(L5_TRANSPORT_SHM, l5_transport(s));
		ASSERT_TRUE(end_exchange(c, s, 2000, i));
		close(c);
		close(s);
	}
	EXPECT_LT(0, used[0]);
	EXPECT_LT(0, used[1]);
	l5_sysctl("match_ms", old);
	close(l[0]);
	close(l[1]);
}

/* A process that copies bytes between two connections of sockets of @kind. */
static int relay(enum end_kind kind, int l, const struct addr *to)
{
	for (;;) {
		bool open[2] = { true, true };
		int fd[2];

		fd[0] = accept(l, NULL, NULL);
		if (fd[0] < 0)
			return 1;
		fd[1] = end_connect(kind, to);
		if (fd[1] < 0)
			return 2;
		while (open[0] || open[1]) {
			struct pollfd p[2] = {
				{ open[0] ? fd[0] : -1, POLLIN, 0 },
				{ open[1] ? fd[1] : -1, POLLIN, 0 },
			};
			char buf[3000], *at;
			int i;

			if (poll(p, 2, -1) < 0)
				return 3;
			for (i = 0; i < 2; i++) {
				ssize_t n, put;

				if (!p[i].revents)
					continue;
				n = recv(fd[i], buf, sizeof(buf), 0);
				if (n <= 0) {
					open[i] = false;
					shutdown(fd[!i], SHUT_WR);
					continue;
				}
				for (at = buf; n; at += put, n -= put) {
					put = send(fd[!i], at, n, MSG_NOSIGNAL);
					if (put <= 0) {
						open[i] = false;
						break;
					}
				}
			}
		}
		close(fd[0]);
		close(fd[1]);
	}
}

static void through_relay(struct __test_metadata *_metadata,
			  enum end_kind kind, int transport, int reason)
{
	struct addr server, front = addr_parse("127.0.0.1:0");
	int l = listen_in(-1, END_L5, "127.0.0.1:0", &server);
	int fl = end_listen(kind, &front), i, c, s, status;
	pid_t pid;

	ASSERT_LE(0, l);
	ASSERT_LE(0, fl);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid)
		_exit(relay(kind, fl, &server));
	close(fl);
	for (i = 0; i < 50; i++) {
		c = end_connect(END_L5, &front);
		ASSERT_LE(0, c);
		s = accept(l, NULL, NULL);
		ASSERT_LE(0, s);
		ASSERT_EQ(transport, l5_transport(c));
		ASSERT_EQ(transport, l5_transport(s));
		ASSERT_EQ(reason, end_reason(c));
		ASSERT_EQ(reason, end_reason(s));
		ASSERT_TRUE(end_exchange(c, s, 20000 + i, i));
		close(c);
		ASSERT_EQ(POLLIN, end_poll(s, POLLIN) & POLLIN);
		ASSERT_EQ(0, recv(s, &status, 1, 0));
		close(s);
	}
	kill(pid, SIGKILL);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	/* it was there to the end */
	EXPECT_TRUE(WIFSIGNALED(status));
	close(l);
}

/* Nothing pairs across something that ends the connection in between. */
TEST_F_TIMEOUT(rendezvous_net, plain_relay, 300)
{
	through_relay(_metadata, END_TCP, L5_TRANSPORT_BASE, L5_REASON_PEER);
}

TEST_F_TIMEOUT(rendezvous_net, l5_relay, 300)
{
	long old = l5_sysctl("match_ms", 10000);

	through_relay(_metadata, END_L5, L5_TRANSPORT_SHM, L5_REASON_NONE);
	l5_sysctl("match_ms", old);
}

/* net.l5.enabled of one end's namespace only. */
TEST_F_TIMEOUT(rendezvous_net, disabled_on_one_side, 300)
{
	struct addr to;
	int l, c, s, i;

	ASSERT_TRUE(net_pair(&self->a, &self->b));
	set_match(self->a, 10000);
	l = listen_in(self->b, END_L5, "10.77.0.2:0", &to);
	ASSERT_LE(0, l);
	for (i = 0; i < 40; i++) {
		bool ca = i & 1, cb = i & 2;
		int want = ca && cb ? L5_TRANSPORT_SHM : L5_TRANSPORT_BASE;

		ASSERT_TRUE(net_enter(self->b));
		ASSERT_LE(0, l5_sysctl("enabled", cb));
		ASSERT_TRUE(net_enter(self->a));
		ASSERT_LE(0, l5_sysctl("enabled", ca));
		c = end_connect(END_L5, &to);
		ASSERT_LE(0, c);
		s = accept(l, NULL, NULL);
		ASSERT_LE(0, s);
		ASSERT_EQ(want, l5_transport(c));
		ASSERT_EQ(want, l5_transport(s));
		ASSERT_EQ(want == L5_TRANSPORT_SHM ? L5_REASON_NONE :
			  ca ? L5_REASON_PEER : L5_REASON_DISABLED,
			  end_reason(c));
		ASSERT_EQ(want == L5_TRANSPORT_SHM ? L5_REASON_NONE :
			  cb ? L5_REASON_PEER : L5_REASON_DISABLED,
			  end_reason(s));
		ASSERT_TRUE(end_exchange(c, s, 5000, i));
		close(c);
		close(s);
	}
	close(l);
}

/*
 * The claim. The client's last ACK takes some milliseconds with much jitter,
 * the client waits about as long. Both outcomes have to occur, and never a
 * connection whose ends disagree.
 */
TEST_F_TIMEOUT(rendezvous_net, timeout_races_match, 600)
{
	struct tally t, sum = { 0, 0, 0 };
	struct addr to;
	int l, ms, turn, rounds = 0;

	ASSERT_TRUE(net_pair(&self->a, &self->b));
	l = listen_in(self->b, END_L5, "10.77.0.2:0", &to);
	ASSERT_LE(0, l);

	/* a client that does not wait stays on TCP */
	set_match(self->a, 0);
	connect_many(_metadata, self->a, l, &to, 30, 2000, &t);
	EXPECT_EQ(30, t.base);
	EXPECT_EQ(30, t.timeout);

	if (sh("modprobe -q sch_netem; tc -n l5a qdisc add dev va root "
	       "netem delay 6ms 5ms"))
		SKIP(return, "no netem");
	for (turn = 0; turn < 4; turn++) {
		for (ms = 1; ms <= 13; ms += 4) {
			set_match(self->a, ms);
			connect_many(_metadata, self->a, l, &to, 20, 2000, &t);
			sum.shm += t.shm;
			sum.base += t.base;
			sum.timeout += t.timeout;
			rounds += 20;
		}
	}
	TH_LOG("%d connections: %d shm, %d base", rounds, sum.shm, sum.base);
	EXPECT_LT(0, sum.shm);
	EXPECT_LT(0, sum.base);
	EXPECT_EQ(sum.base, sum.timeout);
	EXPECT_EQ(rounds, sum.shm + sum.base);
	close(l);
}

/*
 * The same with nonblocking clients that do not wait for writability but send
 * as soon as the socket takes bytes, and close at once: the server reads it
 * all, whatever carries it.
 */
TEST_F_TIMEOUT(rendezvous_net, send_races_match, 600)
{
	struct addr to;
	int l, i;

	ASSERT_TRUE(net_pair(&self->a, &self->b));
	l = listen_in(self->b, END_L5, "10.77.0.2:0", &to);
	ASSERT_LE(0, l);
	if (sh("modprobe -q sch_netem; tc -n l5a qdisc add dev va root "
	       "netem delay 4ms 3ms"))
		SKIP(return, "no netem");
	set_match(self->a, 5);
	ASSERT_TRUE(net_enter(self->a));
	for (i = 0; i < 100; i++) {
		int c = end_socket(END_L5, AF_INET), s, err;
		int64_t end = l5_now_ms() + 60000 * l5_slow();
		uint8_t buf[900];
		ssize_t n;

		ASSERT_LE(0, c);
		ASSERT_EQ(0, fcntl(c, F_SETFL, O_NONBLOCK));
		if (connect(c, &to.sa, to.len))
			ASSERT_EQ(EINPROGRESS, errno);
		l5_fill(buf, sizeof(buf), i);
		do {
			n = send(c, buf, sizeof(buf), MSG_NOSIGNAL);
			if (n < 0)
				ASSERT_TRUE(errno == EAGAIN ||
					    errno == ENOTCONN) {
					TH_LOG("%s", strerror(errno));
				}
			ASSERT_GT(end, l5_now_ms());
		} while (n < 0);
		ASSERT_EQ((ssize_t)sizeof(buf), n);
		close(c);
		ASSERT_EQ(POLLIN, end_poll(l, POLLIN));
		s = accept(l, NULL, NULL);
		ASSERT_LE(0, s);
		EXPECT_EQ((int64_t)sizeof(buf), end_drain(s, i, &err));
		EXPECT_EQ(0, err);
		close(s);
	}
	close(l);
}

/*
 * A sender to a closed peer is told by the answer to a byte on the bootstrap.
 * Should that be lost the next send() asks again, and does not wait for a
 * retransmission: each one taken was a segment. Most times, as a slow machine
 * may have more sends on their way than TCP has leave to send.
 */
TEST_F_TIMEOUT(rendezvous_net, byte_to_closed_is_lost, 300)
{
	int c, s, l, i, taken, prompt = 0, rounds = 9;
	struct tcp_info info;
	struct addr to;
	int64_t end;

	ASSERT_TRUE(net_pair(&self->a, &self->b));
	set_match(self->a, 10000);
	l = listen_in(self->b, END_L5, "10.77.0.2:0", &to);
	ASSERT_LE(0, l);
	ASSERT_TRUE(net_enter(self->a));
	for (i = 0; i < rounds; i++) {
		socklen_t len = sizeof(info);

		/* of one byte and a time stamp: the first is lost */
		ASSERT_EQ(0, sh("ip netns exec l5b nft 'flush ruleset; "
				"table ip t { chain p { type filter "
				"hook prerouting priority 0; "
				"ip length 53 numgen inc mod 100000 0 "
				"drop; }\n}'"));
		c = end_connect(END_L5, &to);
		ASSERT_LE(0, c);
		s = accept(l, NULL, NULL);
		ASSERT_LE(0, s);
		ASSERT_EQ(L5_TRANSPORT_SHM, l5_transport(c));
		ASSERT_TRUE(end_exchange(c, s, 100, 0));
		close(s);
		ASSERT_EQ(POLLIN | POLLRDHUP,
			  end_poll(c, POLLIN | POLLRDHUP));
		end = l5_now_ms() + 60000 * l5_slow();
		for (taken = 0; send(c, "", 1, MSG_NOSIGNAL) == 1; taken++) {
			ASSERT_GT(end, l5_now_ms());
			usleep(1000);
		}
		EXPECT_TRUE(errno == EPIPE || errno == ECONNRESET);
		ASSERT_EQ(0, getsockopt(c, IPPROTO_TCP, TCP_INFO, &info, &len));
		EXPECT_LT(1, info.tcpi_data_segs_out);
		prompt += info.tcpi_data_segs_out >= (__u32)taken;
		close(c);
	}
	EXPECT_LT(rounds / 2, prompt);
	close(l);
}

/* What a client sends first, and what came of it. */
struct first {
	int fd;
	ssize_t sent;
};

static void *send_first(void *arg)
{
	struct first *first = arg;

	first->sent = send(first->fd, "first", 5, MSG_NOSIGNAL);
	return NULL;
}

/* Has TCP brought all that this end has given it? */
static bool tcp_settled(int fd)
{
	int64_t end = l5_now_ms() + 60000 * l5_slow();
	struct tcp_info info;

	do {
		socklen_t len = sizeof(info);

		if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len))
			return false;
		if (!info.tcpi_unacked && !info.tcpi_notsent_bytes)
			return true;
		usleep(10000);
	} while (l5_now_ms() < end);
	return false;
}

/*
 * A listener with TCP_DEFER_ACCEPT has waited for long enough while the first
 * bytes were lost, so what TCP brings of them comes after accept(). Whatever
 * carries them, they are read once, and nothing says that there is more.
 */
static void defer_late(struct __test_metadata *_metadata, int a, int b,
		       bool server_first)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLRDHUP };
	struct pollfd p = { .events = POLLIN | POLLRDHUP };
	int c, s, l, ep, secs = 1, n = -1;
	struct first first;
	pthread_t thread;
	struct addr to;
	char buf[16];

	ASSERT_EQ(0, sh("ip netns exec l5b nft 'flush ruleset; "
			"table ip t { chain p { type filter "
			"hook prerouting priority 0; "
			"ip length 57 drop; }\n}'"));
	l = listen_in(b, END_L5, "10.77.0.2:0", &to);
	ASSERT_LE(0, l);
	ASSERT_EQ(0, setsockopt(l, IPPROTO_TCP, TCP_DEFER_ACCEPT, &secs,
				sizeof(secs)));
	ASSERT_TRUE(net_enter(a));
	c = end_connect(END_L5, &to);
	ASSERT_LE(0, c);
	first.fd = c;
	ASSERT_EQ(0, pthread_create(&thread, NULL, send_first, &first));
	s = accept(l, NULL, NULL);
	ASSERT_LE(0, s);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	ASSERT_EQ(5, first.sent);
	EXPECT_EQ(l5_transport(c), l5_transport(s));
	ASSERT_EQ(0, sh("ip netns exec l5b nft flush ruleset"));
	ASSERT_EQ(5, recv(s, buf, 5, MSG_WAITALL));
	EXPECT_EQ(0, memcmp(buf, "first", 5));
	ASSERT_TRUE(tcp_settled(c));

	/* there is nothing, whichever call asks */
	p.fd = s;
	EXPECT_EQ(0, poll(&p, 1, 0));
	EXPECT_EQ(0, ioctl(s, FIONREAD, &n));
	EXPECT_EQ(0, n);
	EXPECT_EQ(-1, recv(s, buf, sizeof(buf), MSG_DONTWAIT));
	EXPECT_EQ(EAGAIN, errno);
	ep = epoll_create1(0);
	ASSERT_LE(0, ep);
	ASSERT_EQ(0, epoll_ctl(ep, EPOLL_CTL_ADD, s, &ev));
	EXPECT_EQ(0, epoll_wait(ep, &ev, 1, 0));

	ASSERT_EQ(4, send(c, "more", 4, MSG_NOSIGNAL));
	EXPECT_EQ(1, epoll_wait(ep, &ev, 1, -1));
	EXPECT_EQ((uint32_t)EPOLLIN, ev.events);
	ASSERT_EQ(4, recv(s, buf, sizeof(buf), 0));
	EXPECT_EQ(0, memcmp(buf, "more", 4));
	EXPECT_EQ(0, epoll_wait(ep, &ev, 1, 0));
	close(ep);

	/* and nothing was left unread */
	ASSERT_EQ(3, send(s, "end", 3, MSG_NOSIGNAL));
	if (server_first)
		close(s);
	ASSERT_EQ(3, recv(c, buf, sizeof(buf), 0));
	if (!server_first)
		close(c);
	EXPECT_EQ(0, recv(server_first ? c : s, buf, sizeof(buf), 0)) {
		TH_LOG("%s", strerror(errno));
	}
	close(server_first ? c : s);
	close(l);
}

TEST_F_TIMEOUT(rendezvous_net, defer_late, 300)
{
	ASSERT_TRUE(net_pair(&self->a, &self->b));
	set_match(self->a, 10000);
	defer_late(_metadata, self->a, self->b, true);
	defer_late(_metadata, self->a, self->b, false);
}

TEST_HARNESS_MAIN
