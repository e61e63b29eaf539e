// SPDX-License-Identifier: GPL-2.0
/*
 * Memory that runs out, by our limits, by a cgroup's and for real, runs out
 * without breaking a connection.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "limit_ends.h"

LIMIT_FIXTURE(limit_memory)

/*
 * Ring memory is used up: connections go on over TCP and say why, and when
 * memory comes back, so do rings.
 */
TEST_F_TIMEOUT(limit_memory, ring_memory, 120)
{
	enum { FIT = 3, MORE = 3 };
	int c[FIT + MORE + 1], s[FIT + MORE + 1], i;
	long long each;

	ASSERT_EQ(0, l5_stat("reserved_kb"));
	ASSERT_TRUE(open_pair(self->listener, &self->to, &c[0], &s[0]));
	each = l5_stat("reserved_kb");
	ASSERT_LT(0, each);
	EXPECT_EQ(1, l5_stat("pairs"));
	ASSERT_LT(0, l5_sysctl("mem_max_kb", FIT * each));
	for (i = 1; i < FIT + MORE; i++) {
		int want = i < FIT ? L5_TRANSPORT_SHM : L5_TRANSPORT_BASE;

		ASSERT_TRUE(open_pair(self->listener, &self->to, &c[i], &s[i]));
		ASSERT_EQ(want, l5_transport(c[i]));
		ASSERT_EQ(want, l5_transport(s[i]));
		/* the client is refused, and then offers nothing */
		EXPECT_EQ(i < FIT ? L5_REASON_NONE : L5_REASON_LIMIT,
			  end_reason(c[i]));
		EXPECT_EQ(i < FIT ? L5_REASON_NONE : L5_REASON_PEER,
			  end_reason(s[i]));
	}
	EXPECT_EQ(MORE, l5_stat("fallback_limit"));
	EXPECT_EQ(FIT * each, l5_stat("reserved_kb"));
	/* what is there is less than these send, yet enough */
	for (i = 0; i < FIT + MORE; i++)
		ASSERT_TRUE(end_exchange(c[i], s[i], 200000, i));
	EXPECT_EQ(FIT * each, l5_stat("reserved_kb"));
	/* one end is not enough: the other may still read */
	close(c[1]);
	close(s[1]);
	ASSERT_TRUE(end_stat_reaches("reserved_kb", (FIT - 1) * each));
	ASSERT_TRUE(open_pair(self->listener, &self->to, &c[1], &s[1]));
	EXPECT_EQ(L5_TRANSPORT_SHM, l5_transport(c[1]));
	EXPECT_EQ(L5_TRANSPORT_SHM, l5_transport(s[1]));
	/* connections that began on TCP stay there */
	EXPECT_EQ(L5_TRANSPORT_BASE, l5_transport(c[FIT]));
	for (i = 0; i < FIT + MORE; i++) {
		close(c[i]);
		close(s[i]);
	}
	EXPECT_TRUE(end_stat_reaches("reserved_kb", 0));
	EXPECT_TRUE(end_stat_reaches("rings_kb", 0));
	EXPECT_TRUE(end_stat_reaches("pairs", 0));
	/* none at all */
	ASSERT_LT(0, l5_sysctl("mem_max_kb", 0));
	ASSERT_TRUE(open_pair(self->listener, &self->to, &c[0], &s[0]));
	EXPECT_EQ(L5_REASON_LIMIT, end_reason(c[0]));
	EXPECT_EQ(L5_REASON_PEER, end_reason(s[0]));
	ASSERT_TRUE(end_exchange(c[0], s[0], 20000, 0));
}

/* A ring that gets no more memory is full: nothing fails, nothing is lost. */
TEST_F_TIMEOUT(limit_memory, ring_memory_of_one, 120)
{
	uint64_t put = 0, got = 0;
	uint8_t buf[5000];
	long long each;
	int c, s, i;

	ASSERT_TRUE(open_pair(self->listener, &self->to, &c, &s));
	each = l5_stat("reserved_kb");
	ASSERT_LT(0, l5_sysctl("mem_max_kb", each + 40));
	for (i = 0; i < 200; i++) {
		ssize_t n;

		do {
			l5_fill(buf, sizeof(buf), put);
			n = send(c, buf, sizeof(buf), MSG_DONTWAIT);
			if (n > 0)
				put += n;
		} while (n > 0);
		ASSERT_EQ(EAGAIN, errno);
		/* far less than the ring is long */
		ASSERT_GE((each + 40) << 10, put - got);
		ASSERT_GE(each + 40, l5_stat("reserved_kb"));
		ASSERT_GE(l5_stat("reserved_kb") + 16, l5_stat("rings_kb"));
		n = recv(s, buf, 1 + i * 20, 0);
		ASSERT_LT(0, n);
		ASSERT_EQ(-1, l5_check(buf, n, got));
		got += n;
		if (i % 20 == 0) {
			ASSERT_TRUE(end_get(s, put - got, got));
			got = put;
		}
	}
	/* writable again as soon as there is room */
	ASSERT_TRUE(end_get(s, put - got, got));
	ASSERT_EQ(POLLOUT, end_poll(c, POLLOUT));
	close(c);
	close(s);
	EXPECT_TRUE(end_stat_reaches("reserved_kb", 0));
	EXPECT_TRUE(end_stat_reaches("rings_kb", 0));
}

TEST_F_TIMEOUT(limit_memory, ring_size, 120)
{
	static const int asked[] = {
		0, 1, 4096, 5000, 40000, 65536, 300000, 1 << 20, 64 << 20
	};
	const uint32_t dflt = 256 << 10, max = 1024 << 10;
	uint32_t last[2] = { 0, 0 };
	unsigned int n, i;

	ASSERT_LT(0, l5_sysctl("ring_max_kb", max >> 10));
	ASSERT_LT(0, l5_sysctl("ring_kb", dflt >> 10));
	/* as root, so that no limit of the core's stands before ours */
	for (n = 0; n < 2 * ARRAY_SIZE(asked); n++) {
		struct l5_info ic, is;
		struct addr to = addr_parse("127.0.0.1:0");
		uint32_t wish, tx, rx;
		bool server = n >= ARRAY_SIZE(asked);
		int l, c = end_socket(END_L5, AF_INET), s;

		i = n % ARRAY_SIZE(asked);
		l = end_socket(END_L5, AF_INET);
		ASSERT_EQ(0, bind(l, &to.sa, to.len));
		to.len = sizeof(to.ss);
		ASSERT_EQ(0, getsockname(l, &to.sa, &to.len));
		if (asked[i]) {
			int which = server ? l : c;

			ASSERT_EQ(0, setsockopt(which, SOL_SOCKET,
						SO_SNDBUFFORCE, &asked[i],
						sizeof(int)));
			ASSERT_EQ(0, setsockopt(which, SOL_SOCKET,
						SO_RCVBUFFORCE, &asked[i],
						sizeof(int)));
		}
		ASSERT_EQ(0, listen(l, 5));
		ASSERT_EQ(0, connect(c, &to.sa, to.len));
		s = accept(l, NULL, NULL);
		ASSERT_LE(0, s);
		ASSERT_EQ(L5_TRANSPORT_SHM, l5_transport(s));
		ic = info_of(c);
		is = info_of(s);
		EXPECT_EQ(ic.tx_size, is.rx_size);
		EXPECT_EQ(ic.rx_size, is.tx_size);
		EXPECT_EQ(0, ic.tx_size & (ic.tx_size - 1));
		EXPECT_EQ(0, ic.rx_size & (ic.rx_size - 1));
		EXPECT_LE(4096, ic.tx_size);
		EXPECT_GE(max, ic.tx_size);
		EXPECT_LE(4096, ic.rx_size);
		EXPECT_GE(max, ic.rx_size);
		tx = server ? is.tx_size : ic.tx_size;
		rx = server ? is.rx_size : ic.rx_size;
		if (i > 1) {
			/* what was asked for, at least, and not much more */
			wish = asked[i] < (int)max ? asked[i] : (int)max;
			EXPECT_LE(wish, tx);
			EXPECT_GE(asked[i] * 2LL, tx);
			EXPECT_LE(last[0], tx);
			/* the other end writes that, and has not asked to */
			EXPECT_LE(wish < dflt ? wish : dflt, rx);
			EXPECT_GE(dflt, rx);
			EXPECT_LE(last[1], rx);
		}
		last[0] = i ? tx : 0;
		last[1] = i ? rx : 0;
		ASSERT_TRUE(end_exchange(c, s, 100000, i));
		close(c);
		close(s);
		close(l);
	}
	EXPECT_EQ(max, last[0]);
}

/*
 * Rings are charged to the client. In a small memory cgroup sending gives an
 * errno when no more can be had, or works; afterwards all is given back.
 */
TEST_F_TIMEOUT(limit_memory, memory_cgroup, 300)
{
	const char *dir = "/sys/fs/cgroup/l5_limit";
	int status, c, i, up[2], down[2];
	long long charged, after;
	pid_t pid;
	char b;

	sh("echo +memory >/sys/fs/cgroup/cgroup.subtree_control; mkdir -p %s",
	   dir);
	sh("echo 0 >%s/memory.swap.max", dir);
	if (l5_number("/sys/fs/cgroup/l5_limit/memory.current") < 0)
		SKIP(return, "no memory cgroups");
	ASSERT_EQ(0, pipe(up));
	ASSERT_EQ(0, pipe(down));
	ASSERT_LE(0, l5_sysctl("ring_kb", 4096));
	fflush(NULL);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		/* connects inside, fills rings that are not read */
		if (sh("echo %d >%s/cgroup.procs", getpid(), dir))
			_exit(1);
		c = end_connect(END_L5, &self->to);
		if (c < 0 || !end_put(c, 3 << 20, 0))
			_exit(2);
		if (write(up[1], "", 1) != 1 || read(down[0], &b, 1) != 1)
			_exit(3);
		/* now with little left */
		for (i = 0; i < 20; i++) {
			static char zero[65536];
			int f = end_connect(END_L5, &self->to);
			ssize_t n;

			if (f < 0)
				_exit(f == -ENOBUFS || f == -ENOMEM ? 0 : 4);
			do
				n = send(f, zero, sizeof(zero),
					 MSG_DONTWAIT | MSG_NOSIGNAL);
			while (n > 0);
			if (errno == ENOBUFS || errno == ENOMEM)
				_exit(0);
			if (errno != EAGAIN)
				_exit(5);
		}
		_exit(6);
	}
	/* so that the end of a child that fails is heard */
	close(up[1]);
	close(down[0]);
	ASSERT_EQ(1, read(up[0], &b, 1));
	charged = l5_number("/sys/fs/cgroup/l5_limit/memory.current");
	TH_LOG("charged with 3 MiB in the ring: %lld KiB", charged >> 10);
	EXPECT_LE(3 << 20, charged);
	ASSERT_EQ(0, sh("echo 12M >%s/memory.max", dir));
	ASSERT_EQ(1, write(down[1], "", 1));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	/* its own errno, or its own cgroup's oom killer */
	EXPECT_TRUE(status == 0 ||
		    (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)) {
		TH_LOG("status %x", status);
	}
	/* they were not accepted: end of the listener, end of the rings */
	close(self->listener);
	EXPECT_TRUE(end_stat_reaches("rings_kb", 0));
	for (i = 0; i < 500; i++) {
		after = l5_number("/sys/fs/cgroup/l5_limit/memory.current");
		if (after < 1 << 20)
			break;
		usleep(20000);
	}
	TH_LOG("charged afterwards: %lld KiB", after >> 10);
	EXPECT_GT(1 << 20, after);
	EXPECT_EQ(0, sh("rmdir %s", dir));
}

/*
 * No memory for the meeting or the rings, one allocation after the other, with
 * the kernel's own fault injection: a debug kernel has it.
 */
TEST_F_TIMEOUT(limit_memory, no_memory, 300)
{
	int n, c, s, failed = 0, nomem = 0;

	if (!l5_fail_nth(0))
		SKIP(return, "no fault injection in this kernel");
	sh("echo N >/sys/kernel/debug/failslab/ignore-gfp-wait; "
	   "echo N >/sys/kernel/debug/fail_page_alloc/ignore-gfp-wait; true");
	for (n = 1; n < 60; n++) {
		c = end_socket(END_L5, AF_INET);
		ASSERT_LE(0, c);
		l5_fail_nth(n);
		if (connect(c, &self->to.sa, self->to.len)) {
			int err = errno;

			l5_fail_nth(0);
			failed++;
			/* EFAULT: user memory "fails", too */
			EXPECT_TRUE(err == ENOMEM || err == ENOBUFS ||
				    err == EAGAIN || err == ECONNREFUSED ||
				    err == EFAULT) {
				TH_LOG("allocation %d: %s", n, strerror(err));
			}
			close(c);
			/* a child may have been made all the same */
			for (;;) {
				struct pollfd p = {
					.fd = self->listener, .events = POLLIN,
				};

				if (poll(&p, 1, 50) != 1)
					break;
				close(accept(self->listener, NULL, NULL));
			}
			continue;
		}
		l5_fail_nth(0);
		s = accept(self->listener, NULL, NULL);
		ASSERT_LE(0, s);
		ASSERT_EQ(l5_transport(c), l5_transport(s));
		nomem += end_reason(c) == L5_REASON_NOMEM;
		ASSERT_TRUE(end_exchange(c, s, 20000, 0));
		close(c);
		close(s);
	}
	TH_LOG("%d connects failed, %d stayed TCP for want of memory", failed,
	       nomem);
	EXPECT_LT(0, nomem);
	EXPECT_TRUE(end_stat_reaches("pairs", 0));
	EXPECT_TRUE(end_stat_reaches("reserved_kb", 0));
}

/* The same for socket() and accept(): an errno, and the next try works. */
TEST_F_TIMEOUT(limit_memory, no_memory_for_a_socket, 300)
{
	int n, c, s, failed = 0;

	if (!l5_fail_nth(0))
		SKIP(return, "no fault injection in this kernel");
	for (n = 1; n < 40; n++) {
		l5_fail_nth(n);
		c = end_socket(END_L5, AF_INET);
		l5_fail_nth(0);
		if (c < 0) {
			failed++;
			EXPECT_TRUE(c == -ENOMEM || c == -ENOBUFS ||
				    c == -ENFILE || c == -EMFILE) {
				TH_LOG("socket, %d: %s", n, strerror(-c));
			}
			c = end_socket(END_L5, AF_INET);
		}
		ASSERT_LE(0, c);
		ASSERT_EQ(0, connect(c, &self->to.sa, self->to.len));
		l5_fail_nth(n);
		s = accept(self->listener, NULL, NULL);
		if (s < 0) {
			int err = errno;

			l5_fail_nth(0);
			failed++;
			EXPECT_TRUE(err == ENOMEM || err == ENOBUFS ||
				    err == ENFILE || err == EMFILE) {
				TH_LOG("accept, %d: %s", n, strerror(err));
			}
			s = accept(self->listener, NULL, NULL);
		}
		l5_fail_nth(0);
		ASSERT_LE(0, s);
		ASSERT_EQ(l5_transport(c), l5_transport(s));
		ASSERT_TRUE(end_exchange(c, s, 2000, 0));
		close(c);
		close(s);
	}
	EXPECT_LT(0, failed);
	EXPECT_TRUE(end_stat_reaches("pairs", 0));
}

/* A send or receive that fails has moved nothing; the stream stays exact. */
TEST_F_TIMEOUT(limit_memory, no_memory_in_transfer, 300)
{
	static uint8_t buf[50000];
	int n, c, s, failed = 0;

	if (!l5_fail_nth(0))
		SKIP(return, "no fault injection in this kernel");
	for (n = 1; n < 40; n++) {
		size_t put = 0, got = 0;
		ssize_t ret;

		ASSERT_TRUE(open_pair(self->listener, &self->to, &c, &s));
		l5_fill(buf, sizeof(buf), 0);
		l5_fail_nth(n);
		ret = send(c, buf, sizeof(buf), MSG_DONTWAIT);
		l5_fail_nth(0);
		if (ret < 0) {
			failed++;
			EXPECT_TRUE(errno == ENOMEM || errno == ENOBUFS ||
				    errno == EFAULT || errno == EAGAIN) {
				TH_LOG("send, %d: %s", n, strerror(errno));
			}
		} else {
			put = ret;
		}
		ASSERT_TRUE(end_put(c, sizeof(buf) - put, put));
		memset(buf, 0, sizeof(buf));
		l5_fail_nth(n);
		ret = recv(s, buf, sizeof(buf), MSG_DONTWAIT);
		l5_fail_nth(0);
		if (ret < 0) {
			failed++;
			EXPECT_TRUE(errno == ENOMEM || errno == EFAULT) {
				TH_LOG("recv, %d: %s", n, strerror(errno));
			}
		} else {
			got = ret;
			ASSERT_EQ(-1, l5_check(buf, got, 0));
		}
		ASSERT_TRUE(end_get(s, sizeof(buf) - got, got));
		ASSERT_TRUE(end_exchange(c, s, 1000, 0));
		close(c);
		close(s);
	}
	EXPECT_LT(0, failed);
	EXPECT_TRUE(end_stat_reaches("rings_kb", 0));
	EXPECT_TRUE(end_stat_reaches("reserved_kb", 0));
}

TEST_HARNESS_MAIN
