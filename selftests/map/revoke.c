// SPDX-License-Identifier: GPL-2.0
/*
 * A connection that an administrator ends (ss -K) is over: two processes that
 * have mapped a connection, and ignore what they are told, exchange nothing
 * more by it. They get no signal for it either, and system calls say what TCP
 * would.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "mapping.h"

#ifndef SOCK_DESTROY
#define SOCK_DESTROY	21
#endif

#define FORGED		0x5ec7e7c0de5ec7e7ull

/* As "ss -K" does to the socket that has these names: 0 or -errno. */
static int destroy(int fd)
{
	struct {
		struct nlmsghdr nlh;
		struct inet_diag_req_v2 r;
	} req = {
		.nlh = {
			.nlmsg_len = sizeof(req),
			.nlmsg_type = SOCK_DESTROY,
			.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK,
		},
		.r = {
			.sdiag_family = AF_INET,
			.sdiag_protocol = IPPROTO_TCP,
			.id.idiag_cookie = { INET_DIAG_NOCOOKIE,
					     INET_DIAG_NOCOOKIE },
		},
	};
	struct sockaddr_in own, peer;
	socklen_t len = sizeof(own);
	struct {
		struct nlmsghdr nlh;
		struct nlmsgerr err;
		char more[256];
	} ack;
	int nl, ret;

	if (getsockname(fd, (struct sockaddr *)&own, &len) < 0)
		return -errno;
	len = sizeof(peer);
	if (getpeername(fd, (struct sockaddr *)&peer, &len) < 0)
		return -errno;
	req.r.id.idiag_sport = own.sin_port;
	req.r.id.idiag_dport = peer.sin_port;
	req.r.id.idiag_src[0] = own.sin_addr.s_addr;
	req.r.id.idiag_dst[0] = peer.sin_addr.s_addr;
	nl = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	if (nl < 0)
		return -errno;
	ret = send(nl, &req, sizeof(req), 0) == sizeof(req) &&
	      recv(nl, &ack, sizeof(ack), 0) >= (ssize_t)sizeof(ack.nlh) +
	      (ssize_t)sizeof(ack.err.error) ? ack.err.error : -errno;
	close(nl);
	return ret;
}

FIXTURE(map_revoke)
{
	int fd[2];
};

FIXTURE_SETUP(map_revoke)
{
	ASSERT_TRUE(map_begin("127.0.0.1:0", 64, self->fd));
}

FIXTURE_TEARDOWN(map_revoke)
{
	close(self->fd[0]);
	close(self->fd[1]);
}

/* What the other process is told to do, and what came of it. */
struct shared {
	int step;
	int sig;
	int saw;
	int bad;
	int err;
};

/* Does the state page say that it is over? Read again and again, by fault. */
static bool told(const struct mapping *m)
{
	const uint32_t want = L5_MAP_TX_ASK | L5_MAP_RX_ASK | L5_MAP_GONE;

	return (l5_load_acquire(&m->state->flags) & want) == want;
}

/* Write all that can be written; a signal would end us. */
static int forge(struct mapping *m)
{
	size_t at;
	int sig = 0;

	for (at = 0; at < 2ul * m->tx_size && !sig; at += 512) {
		sig = map_touch(m->tx + at, true);
		if (!sig)
			l5_store((__u64 *)(m->tx + at), FORGED);
	}
	sig = sig ?: map_touch(m->own, true);
	if (!sig)
		l5_store(&m->own->tx_tail, FORGED);
	return sig;
}

/* Are there only zeros to read? */
static bool nothing_in(const void *p, size_t len, int *sig)
{
	const uint8_t *b = p;
	size_t at;

	for (at = 0; at < len; at += 512) {
		*sig = map_touch(b + at, false);
		if (*sig || l5_load((const __u64 *)(b + at)))
			return false;
	}
	return true;
}

static bool sees_nothing(struct mapping *m, int *sig)
{
	return nothing_in(m->rx, 2ul * m->rx_size, sig) &&
	       nothing_in(m->peer, MAP_PAGE, sig);
}

static int call_error(int fd, bool tx)
{
	char c = 0;
	ssize_t n = tx ? send(fd, &c, 1, MSG_NOSIGNAL | MSG_DONTWAIT) :
		    recv(fd, &c, 1, MSG_DONTWAIT);

	return n < 0 ? errno : 0;
}

/* A word that is no header, left there so that its end can be seen. */
static __u64 *mark(const struct mapping *m)
{
	return (__u64 *)(m->tx + 512);
}

static bool seen(const struct mapping *m)
{
	return l5_load((const __u64 *)(m->rx + 512)) == FORGED;
}

/* The process at the other end. Steps: 1 mapped, 3 wrote, 5 looked. */
static void other(struct shared *sh, int fd)
{
	struct mapping m;

	sh->err = mapping_open(&m, fd);
	if (sh->err)
		_exit(1);
	l5_store(mark(&m), FORGED);
	l5_store_release(&sh->step, 1);
	if (!UNTIL(l5_load_acquire(&sh->step) == 2))
		_exit(2);
	sh->saw = UNTIL(told(&m)) && UNTIL(l5_load(mark(&m)) != FORGED);
	sh->sig = forge(&m);
	l5_store_release(&sh->step, 3);
	if (!UNTIL(l5_load_acquire(&sh->step) == 4))
		_exit(3);
	sh->bad = !sees_nothing(&m, &sh->sig);
	/* once more, from what there is in place of pages */
	madvise(m.tx, 2ul * m.tx_size, MADV_DONTNEED);
	madvise((void *)m.rx, 2ul * m.rx_size, MADV_DONTNEED);
	madvise((void *)m.peer, MAP_PAGE, MADV_DONTNEED);
	sh->sig = sh->sig ?: forge(&m);
	sh->bad |= !sees_nothing(&m, &sh->sig);
	sh->err = call_error(fd, false);
	l5_store_release(&sh->step, 5);
	UNTIL(l5_load_acquire(&sh->step) == 6);
	_exit(0);
}

TEST_F_TIMEOUT(map_revoke, two_processes, 400)
{
	struct shared *sh = map_shared(sizeof(*sh));
	struct mapping m;
	int sig = 0, err;
	void *p;
	pid_t pid;

	ASSERT_NE(NULL, sh);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		close(self->fd[0]);
		other(sh, self->fd[1]);
	}
	close(self->fd[1]);
	self->fd[1] = -1;
	ASSERT_EQ(0, mapping_open(&m, self->fd[0]));
	ASSERT_TRUE(UNTIL(l5_load_acquire(&sh->step) == 1));
	/* before, it is one memory */
	ASSERT_TRUE(seen(&m));
	err = destroy(self->fd[0]);
	ASSERT_EQ(0, err) {
		TH_LOG("SOCK_DESTROY: %s", strerror(-err));
	}
	l5_store_release(&sh->step, 2);
	EXPECT_TRUE(UNTIL(told(&m)));
	ASSERT_TRUE(UNTIL(l5_load_acquire(&sh->step) == 3));
	EXPECT_TRUE(sh->saw);
	EXPECT_EQ(0, sh->sig);
	EXPECT_TRUE(UNTIL(!seen(&m)));
	EXPECT_TRUE(sees_nothing(&m, &sig));
	EXPECT_EQ(0, sig);
	EXPECT_EQ(0, forge(&m));
	l5_store_release(&sh->step, 4);
	ASSERT_TRUE(UNTIL(l5_load_acquire(&sh->step) == 5));
	EXPECT_EQ(0, sh->sig);
	EXPECT_EQ(0, sh->bad);
	/* what is written stays apart from what is read */
	EXPECT_TRUE(sees_nothing(&m, &sig));
	EXPECT_EQ(0, sig);
	/* the end that was killed, and the end that was reset */
	EXPECT_EQ(ECONNABORTED, call_error(self->fd[0], false));
	EXPECT_EQ(ECONNRESET, sh->err);
	EXPECT_EQ(EPIPE, call_error(self->fd[0], true));
	/* and the memory is not to be had again */
	p = mmap(NULL, MAP_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED,
		 self->fd[0], L5_MMAP_OWN);
	EXPECT_EQ(MAP_FAILED, p);
	EXPECT_EQ(ENOTCONN, errno);
	l5_store_release(&sh->step, 6);
	EXPECT_EQ(0, l5_reap(pid));
	mapping_close(&m);
}

/*
 * Bytes unread by then may be half written, if a process wrote them: they are
 * not to be read as if they were whole.
 */
TEST_F_TIMEOUT(map_revoke, unread, 120)
{
	struct mapping m;
	char c = 'x';

	ASSERT_EQ(0, mapping_open(&m, self->fd[0]));
	ASSERT_EQ(1, mapping_put(&m, &c, 1));
	ASSERT_EQ(1, send(self->fd[1], &c, 1, 0));
	ASSERT_EQ(0, destroy(self->fd[0]));
	ASSERT_TRUE(UNTIL(told(&m)));
	EXPECT_TRUE(UNTIL(!m.rx[L5_HDR]));
	EXPECT_EQ(ECONNABORTED, call_error(self->fd[0], false));
	EXPECT_EQ(ECONNRESET, call_error(self->fd[1], false));
	mapping_close(&m);
}

/* Nor is their loss an orderly end, if the peer has ended its stream. */
TEST_F_TIMEOUT(map_revoke, unread_before_the_end, 120)
{
	struct mapping m;
	char c = 'x';
	int i;

	for (i = 0; i < 3; i++) {
		if (i) {
			close(self->fd[0]);
			close(self->fd[1]);
			ASSERT_TRUE(map_begin("127.0.0.1:0", 64, self->fd));
		}
		ASSERT_EQ(0, mapping_open(&m, self->fd[0]));
		ASSERT_EQ(1, send(self->fd[1], &c, 1, 0));
		if (i) {
			ASSERT_EQ(0, shutdown(self->fd[1], SHUT_WR));
		} else {
			close(self->fd[1]);
			self->fd[1] = -1;
		}
		ASSERT_TRUE(UNTIL(l5_load(&m.state->flags) & L5_MAP_RX_ASK));
		ASSERT_EQ(0, destroy(self->fd[0]));
		ASSERT_TRUE(UNTIL(told(&m)));
		if (i == 2) {
			/* a sender may have had the error */
			EXPECT_EQ(ECONNABORTED, call_error(self->fd[0], true));
		} else {
			EXPECT_NE(0, call_error(self->fd[0], false));
		}
		EXPECT_EQ(0, call_error(self->fd[0], false));
		mapping_close(&m);
	}
}

/*
 * Without a socket a mapped connection cannot be ended: once both ends are
 * closed the memory is taken from its processes.
 */
TEST_F_TIMEOUT(map_revoke, both_closed, 120)
{
	struct mapping a, b;
	__u64 n = 0x2345, was = 0x1234, seen;

	ASSERT_EQ(0, mapping_open(&a, self->fd[0]));
	ASSERT_EQ(0, mapping_open(&b, self->fd[1]));
	l5_store((__u64 *)a.tx + 16, 0x1234);
	EXPECT_EQ(0x1234, l5_load((__u64 *)b.rx + 16));
	close(self->fd[0]);
	/* the peer sees what is written until the pages are given back */
	EXPECT_TRUE(UNTIL(({
		l5_store((__u64 *)a.tx + 16, ++n);
		seen = l5_load((__u64 *)b.rx + 16);
		if (seen == n)
			was = n;
		seen != n;
	})));
	EXPECT_TRUE(!seen || seen == was) {
		TH_LOG("%#llx, and last %#llx", (unsigned long long)seen,
		       (unsigned long long)was);
	}
	/* and then no more */
	l5_store((__u64 *)a.tx + 16, ++n);
	EXPECT_NE(n, l5_load((__u64 *)b.rx + 16));
	close(self->fd[1]);
	self->fd[0] = -1;
	self->fd[1] = -1;
	EXPECT_TRUE(UNTIL(!l5_load((__u64 *)b.rx + 16)));
	l5_store((__u64 *)a.tx + 16, 0x3456);
	EXPECT_EQ(0, l5_load((__u64 *)b.rx + 16));
	mapping_close(&a);
	mapping_close(&b);
}

/* A lock word that a zapped process held keeps nobody waiting. */
TEST_F_TIMEOUT(map_revoke, held_words, 120)
{
	struct mapping m;

	ASSERT_EQ(0, mapping_open(&m, self->fd[0]));
	ASSERT_LT(0, mapping_lock(&m, L5_LOCK_TX));
	ASSERT_LT(0, mapping_lock(&m, L5_LOCK_RX));
	ASSERT_EQ(0, destroy(self->fd[0]));
	ASSERT_TRUE(UNTIL(told(&m)));
	EXPECT_EQ(ECONNABORTED, call_error(self->fd[0], false));
	mapping_unlock(&m, L5_LOCK_TX);
	mapping_unlock(&m, L5_LOCK_RX);
	EXPECT_EQ(0, call_error(self->fd[0], false));
	EXPECT_EQ(EPIPE, call_error(self->fd[0], true));
	mapping_close(&m);
}

/* Not mapped at all: there is nothing to take, and calls are as before. */
TEST_F_TIMEOUT(map_revoke, by_system_calls, 120)
{
	char c = 'x';

	ASSERT_EQ(1, send(self->fd[1], &c, 1, 0));
	ASSERT_EQ(0, destroy(self->fd[0]));
	EXPECT_EQ(ECONNABORTED, call_error(self->fd[0], true));
	EXPECT_EQ(ECONNRESET, call_error(self->fd[1], true));
	EXPECT_EQ(EPIPE, call_error(self->fd[1], true));
}

TEST_HARNESS_MAIN
