// SPDX-License-Identifier: GPL-2.0
/*
 * One process writes whatever it likes to all it can map, again and again; the
 * victim at the other end, or at the same one, gets data or an error from every
 * call. The victim does not crash, hang, or read outside; the kernel is not
 * harmed.
 */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/time.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <linux/sockios.h>

#include "kselftest_harness.h"
#include "scribble.h"
#include "signals.h"

FIXTURE(map_hostile)
{
	int none;
};

FIXTURE_VARIANT(map_hostile)
{
	const char *at;
};

FIXTURE_VARIANT_ADD(map_hostile, inet)
{
	.at = "127.0.0.1:0",
};

FIXTURE_VARIANT_ADD(map_hostile, unix)
{
	.at = "abstract:l5_map_hostile",
};

FIXTURE_VARIANT_ADD(map_hostile, packets)
{
	.at = "packets",
};

FIXTURE_SETUP(map_hostile)
{
	l5_or_skip();
	signal(SIGPIPE, SIG_IGN);
	ASSERT_TRUE(net_unshare());
	l5_sysctl("match_ms", 10000);
	l5_sysctl("grow_ms", 0);
}

FIXTURE_TEARDOWN(map_hostile)
{
	(void)self;
}

/* What the victim does all the time. */
enum api {
	A_RECV, A_SEND, A_NONBLOCK, A_POLL, A_SELECT, A_EPOLL, A_SPLICE, A_PEEK,
	A_COUNT, A_WAITALL, A_URING, A_MAPPED, A_MIXED, A_MAX
};

static const char *const api_name[] = {
	"recv", "send", "nonblocking", "poll", "select", "epoll", "splice",
	"peek", "counts", "waitall", "io_uring", "mapped", "mixed"
};

#define BUF	9000
#define CANARY	64

struct victim {
	int fd;
	enum api api;
	uint64_t seed;
	struct mapping m;
	struct io_uring uring;
	int ep[2], pipe[2], file;
	bool wrong;
	uint8_t b[CANARY + BUF + CANARY];
};

/* Was @n a possible answer to @want, and was nothing written beyond it? */
static void judge(struct victim *v, long n, long want)
{
	const uint8_t *end = v->b + CANARY + (want < BUF ? want : BUF);
	int i;

	if (n > want)
		v->wrong = true;
	for (i = 0; i < CANARY; i++)
		if (v->b[i] != 0xc5 || end[i] != 0xc5)
			v->wrong = true;
}

static long v_recv(struct victim *v, long want, int flags)
{
	long n;

	memset(v->b + CANARY + want, 0xc5, CANARY);
	n = recv(v->fd, v->b + CANARY, want, flags);
	judge(v, n, want);
	return n;
}

static long v_send(struct victim *v, long want, int flags)
{
	long n;

	memset(v->b + CANARY, 0x33, want);
	memset(v->b + CANARY + want, 0xc5, CANARY);
	n = send(v->fd, v->b + CANARY, want, flags | MSG_NOSIGNAL);
	judge(v, n, want);
	return n;
}

static bool v_init(struct victim *v)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT };
	int i, err = 0;

	memset(v->b, 0xc5, sizeof(v->b));
	for (i = 0; i < 2; i++) {
		v->ep[i] = epoll_create1(0);
		if (epoll_ctl(v->ep[i], EPOLL_CTL_ADD, v->fd, &ev))
			return false;
		ev.events |= EPOLLET;
	}
	v->file = memfd_create("l5", 0);
	if (pipe2(v->pipe, O_NONBLOCK) || ftruncate(v->file, 65536))
		return false;
	if (v->api == A_URING && io_uring_queue_init(4, &v->uring, 0))
		v->api = A_POLL;
	if (v->api >= A_MAPPED)
		err = mapping_open(&v->m, v->fd);
	/* ended already: then there is nothing to map, and calls say why */
	if (err == -ENOTCONN)
		v->api = A_NONBLOCK;
	else if (err)
		return false;
	/* the number of a process that lives and holds nothing can be forged */
	v->m.patience = 3;
	return true;
}

static void v_uring(struct victim *v, long want)
{
	struct __kernel_timespec ts = { .tv_nsec = 20000000 };
	struct io_uring_sqe *sqe = io_uring_get_sqe(&v->uring);
	struct io_uring_cqe *cqe;
	int what;

	memset(v->b + CANARY + want, 0xc5, CANARY);
	what = l5_rnd(&v->seed) % 4;
	switch (what) {
	case 0:
		io_uring_prep_recv(sqe, v->fd, v->b + CANARY, want, 0);
		break;
	case 1:
		io_uring_prep_send(sqe, v->fd, v->b + CANARY, want,
				   MSG_NOSIGNAL | MSG_DONTWAIT);
		break;
	case 2:
		io_uring_prep_poll_add(sqe, v->fd, POLLIN);
		break;
	default:
		io_uring_prep_recv(sqe, v->fd, v->b + CANARY, want,
				   MSG_DONTWAIT);
	}
	io_uring_sqe_set_data64(sqe, 1);
	io_uring_submit(&v->uring);
	if (io_uring_wait_cqe_timeout(&v->uring, &cqe, &ts)) {
		/* nothing yet: take it back, and wait for that */
		sqe = io_uring_get_sqe(&v->uring);
		io_uring_prep_cancel64(sqe, 1, 0);
		io_uring_sqe_set_data64(sqe, 2);
		io_uring_submit(&v->uring);
		while (io_uring_wait_cqe(&v->uring, &cqe))
			;
		io_uring_cqe_seen(&v->uring, cqe);
		while (io_uring_wait_cqe(&v->uring, &cqe))
			;
	}
	/* a poll gives events, not bytes */
	judge(v, what == 2 ? 0 : cqe->res, want);
	io_uring_cqe_seen(&v->uring, cqe);
}

/* One call, or a few. */
static void v_step(struct victim *v)
{
	uint32_t r = l5_rnd(&v->seed);
	long want = 1 + r % (r & 0x1000 ? BUF : 100);
	struct pollfd p = { .fd = v->fd, .events = POLLIN | POLLOUT };
	struct iovec iov[2] = {
		{ v->b + CANARY, want / 2 },
		{ v->b + CANARY + want / 2, want - want / 2 },
	};
	struct timeval tv = { .tv_usec = 5000 };
	struct epoll_event ev;
	struct l5_info info;
	socklen_t len = sizeof(info);
	enum api api = v->api;
	int nr, one = 1;
	long n, k;
	fd_set set;

	switch (api) {
	case A_RECV:
		v_recv(v, want, 0);
		break;
	case A_SEND:
		v_send(v, want, 0);
		break;
	case A_NONBLOCK:
		v_recv(v, want, MSG_DONTWAIT);
		v_send(v, want, MSG_DONTWAIT);
		break;
	case A_POLL:
		p.events = r & 1 ? POLLIN : POLLIN | POLLOUT;
		poll(&p, 1, 5);
		if (p.revents & POLLIN)
			v_recv(v, want, MSG_DONTWAIT);
		if (p.revents & POLLOUT)
			v_send(v, want, MSG_DONTWAIT);
		break;
	case A_SELECT:
		FD_ZERO(&set);
		FD_SET(v->fd, &set);
		if (select(v->fd + 1, &set, NULL, NULL, &tv) == 1) {
			memset(v->b + CANARY + want, 0xc5, CANARY);
			judge(v, readv(v->fd, iov, 2), want);
		} else {
			(void)!writev(v->fd, iov, 2);
		}
		break;
	case A_EPOLL:
		if (epoll_wait(v->ep[r & 1], &ev, 1, 5) != 1)
			break;
		if (ev.events & EPOLLIN)
			v_recv(v, want, MSG_DONTWAIT);
		if (ev.events & EPOLLOUT)
			v_send(v, want, MSG_DONTWAIT);
		break;
	case A_SPLICE:
		fcntl(v->fd, F_SETFL, O_RDWR | (r & 1 ? O_NONBLOCK : 0));
		n = splice(v->fd, NULL, v->pipe[1], NULL, want, 0);
		if (n > want)
			v->wrong = true;
		for (; n > 0; n -= k) {
			k = read(v->pipe[0], v->b + CANARY,
				 n < BUF ? n : BUF);
			if (k <= 0) {
				v->wrong = true;
				break;
			}
		}
		memset(v->b + CANARY + BUF, 0xc5, CANARY);
		if (r & 2)
			break;
		if (sendfile(v->fd, v->file, &(off_t){ 0 }, want) > want)
			v->wrong = true;
		break;
	case A_PEEK:
		v_recv(v, want, MSG_PEEK);
		n = recv(v->fd, v->b + CANARY, 10, MSG_PEEK | MSG_TRUNC |
			 MSG_DONTWAIT);
		n = recv(v->fd, NULL, r % 100000, MSG_TRUNC | MSG_DONTWAIT);
		v_recv(v, want, MSG_PEEK | MSG_WAITALL | MSG_DONTWAIT);
		v_recv(v, want, MSG_DONTWAIT);
		break;
	case A_COUNT:
		if (!ioctl(v->fd, FIONREAD, &nr) && nr < 0)
			v->wrong = true;
		ioctl(v->fd, SIOCOUTQ, &nr);
		getsockopt(v->fd, SOL_L5, L5_INFO, &info, &len);
		ioctl(v->fd, L5_IOC_ARM, r & 3);
		ioctl(v->fd, L5_IOC_DOORBELL, r & 3);
		ioctl(v->fd, L5_IOC_LOCK, r & 1);
		ioctl(v->fd, L5_IOC_UNLOCK, r & 1);
		ioctl(v->fd, L5_IOC_ROOM, r % 300000);
		setsockopt(v->fd, SOL_SOCKET, SO_RCVLOWAT, &one, sizeof(one));
		if (r % 16 == 0) {
			int f = open("/proc/net/l5", O_RDONLY);

			(void)!read(f, v->b + CANARY, BUF);
			memset(v->b + CANARY + BUF, 0xc5, CANARY);
			close(f);
		}
		v_recv(v, want, MSG_DONTWAIT);
		break;
	case A_WAITALL:
		v_recv(v, want, MSG_WAITALL);
		if (r & 1)
			v_send(v, want, MSG_DONTWAIT | MSG_MORE);
		break;
	case A_URING:
		v_uring(v, want);
		break;
	case A_MIXED:
		if (r & 1) {
			v_recv(v, want, MSG_DONTWAIT);
			v_send(v, want, MSG_DONTWAIT);
		}
		/* fall through */
	default:
		memset(v->b + CANARY + want, 0xc5, CANARY);
		n = r & 2 ? mapping_recv(&v->m, v->b + CANARY, want, r & 4 ? 0 :
					 MSG_DONTWAIT) :
		    mapping_get(&v->m, v->b + CANARY, want);
		judge(v, n, want);
		if (r & 8)
			break;
		n = r & 2 ? mapping_send(&v->m, v->b + CANARY, want,
					 MSG_DONTWAIT | MSG_NOSIGNAL) :
		    mapping_put(&v->m, v->b + CANARY, want);
		judge(v, n, want);
	}
}

/* In a child: exit code 0 if all that happened may happen. */
static int victim(int fd, enum api api, struct arena *a, uint64_t seed,
		  bool drain)
{
	struct pollfd p = { .fd = fd };
	static struct victim v;
	int i, ended = 0;
	int64_t end;
	long n;

	v.fd = fd;
	v.api = api;
	v.seed = seed;
	if (!v_init(&v))
		return 1;
	alarm_every(15000);
	while (!l5_load(&a->stop)) {
		v_step(&v);
		a->calls++;
		if (v.wrong)
			return 2;
		/* broken: it has to stay harmless, but for how long */
		p.revents = 0;
		poll(&p, 1, 0);
		if (p.revents && ++ended > 200)
			break;
	}
	if (!drain)
		return 0;
	/* the other end is gone: every call is back soon, without alarm() */
	UNTIL(l5_load(&a->stop) == 2);
	alarm_off();
	fcntl(fd, F_SETFL, O_RDWR);
	end = l5_now_ms() + MAP_LONG_MS / 2;
	for (i = 0; i < 100; i++) {
		n = v_recv(&v, 1 + l5_rnd(&v.seed) % BUF, 0);

		if (v.wrong)
			return 3;
		if (n <= 0)
			break;
	}
	/* sending to a peer that is gone ends, if not at once */
	do {
		n = v.api >= A_MAPPED ? mapping_send(&v.m, v.b + CANARY, 500,
						   MSG_NOSIGNAL) :
		    v_send(&v, 500, 0);
		if (v.wrong)
			return 4;
		usleep(500);
	} while (n >= 0 && l5_now_ms() < end);
	return n < 0 ? 0 : 5;
}

static void play(struct __test_metadata *_metadata, const char *at,
		 enum api api, enum mood mood, bool same_end, uint64_t seed,
		 unsigned long sum[2])
{
	struct arena *a = map_shared(4096);
	pid_t vic, scr, friend = 0;
	int fd[2], e, status;

	a->ready = 1;
	ASSERT_LE(0, l5_sysctl("ring_kb", seed & 2 ? 4 : 16));
	ASSERT_TRUE(map_pair(at, &fd[0], &fd[1]));
	e = seed & 1;
	vic = fork();
	ASSERT_LE(0, vic);
	if (!vic) {
		close(fd[!e]);
		_exit(victim(fd[e], api, a, seed | 1ULL << 40, !same_end));
	}
	scr = fork();
	ASSERT_LE(0, scr);
	if (!scr) {
		close(fd[same_end ? !e : e]);
		scribbler(fd[same_end ? e : !e], mood, a, seed | 1ULL << 41);
	}
	if (same_end) {
		/* an innocent program at the other end */
		friend = fork();
		ASSERT_LE(0, friend);
		if (!friend) {
			close(fd[e]);
			_exit(victim(fd[!e], A_NONBLOCK, a, seed | 1ULL << 42,
				     false));
		}
	}
	close(fd[0]);
	close(fd[1]);
	EXPECT_TRUE(scribble_watch(a, vic, scr, 60 * l5_slow(), seed & 4,
				   &status)) {
		TH_LOG("%s, %s: scribbler: %x", api_name[api],
		       mood_name[mood], status);
	}
	status = l5_reap(vic);
	EXPECT_EQ(0, status) {
		TH_LOG("%s, %s, %s end, seed %llu: victim %s (%x)",
		       api_name[api], mood_name[mood], same_end ? "own" :
		       "other", (unsigned long long)seed, status == -1 ?
		       "hangs" : "fails", status);
	}
	if (friend) {
		status = l5_reap(friend);
		EXPECT_EQ(0, status) {
			TH_LOG("%s, %s, seed %llu: peer %s (%x)",
			       api_name[api], mood_name[mood],
			       (unsigned long long)seed, status == -1 ?
			       "hangs" : "fails", status);
		}
	}
	sum[0] += a->calls;
	sum[1] += a->writes;
	munmap(a, 4096);
}

static void all_plays(struct __test_metadata *_metadata, const char *at,
		      bool same_end)
{
	uint64_t seed = l5_seed();
	unsigned long sum[2] = { 0 };
	int api, mood;

	for (api = 0; api < A_MAX; api++)
		for (mood = 0; mood < MOODS; mood++)
			play(_metadata, at, api, mood, same_end, seed++, sum);
	TH_LOG("%lu calls, %lu scribbles, %lld connections ended for it",
	       sum[0], sum[1], l5_stat("violations"));
	/* nothing of it stays */
	EXPECT_TRUE(scribble_over(at));
}

TEST_F_TIMEOUT(map_hostile, peer, 600)
{
	all_plays(_metadata, variant->at, false);
}

TEST_F_TIMEOUT(map_hostile, sharer, 600)
{
	all_plays(_metadata, variant->at, true);
}

/* A ring that is one endless chain: a huge receive can be killed. */
TEST_F_TIMEOUT(map_hostile, endless, 300)
{
	const uint64_t one = (uint64_t)L5_REC_VALID << 32 | 1;
	int fd[2], k, n, status;
	struct mapping m;
	uint64_t i;

	for (k = 0; k < 4; k++) {
		pid_t pid;

		ASSERT_LE(0, l5_sysctl("ring_kb", 4));
		ASSERT_TRUE(map_pair(variant->at, &fd[0], &fd[1]));
		ASSERT_EQ(0, mapping_open(&m, fd[1]));
		for (i = 0; i < m.tx_size; i += 16)
			scribble_header(&m, i, one);
		/* a count of what is in the ring comes to an end */
		ASSERT_EQ(0, ioctl(fd[0], FIONREAD, &n));
		EXPECT_LE(0, n);
		EXPECT_GE((int)m.tx_size, n);
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			static char b[1 << 20];
			struct iovec iov[64];

			for (n = 0; n < 64; n++)
				iov[n] = (struct iovec){ b, sizeof(b) };
			close(fd[1]);
			switch (k) {
			case 0:
				recv(fd[0], NULL, 0x7ffff000, MSG_TRUNC);
				break;
			case 1:
				recv(fd[0], NULL, 0x7ffff000, MSG_TRUNC |
				     MSG_WAITALL);
				break;
			case 2:
				(void)!readv(fd[0], iov, 64);
				break;
			default:
				recv(fd[0], b, sizeof(b), MSG_PEEK |
				     MSG_WAITALL);
			}
			_exit(0);
		}
		usleep(100000);
		kill(pid, SIGKILL);
		status = l5_reap(pid);
		EXPECT_NE(-1, status) {
			TH_LOG("receive %d cannot be killed", k);
		}
		mapping_close(&m);
		close(fd[0]);
		close(fd[1]);
	}
	EXPECT_TRUE(end_stat_reaches("pairs", 0));
}

#ifndef UFFD_FEATURE_WP_ASYNC
#define UFFD_FEATURE_WP_ASYNC	0x8000
#endif

/* Leave markers where nothing is yet; false if this kernel does not. */
static bool mark(void *at, size_t len)
{
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_WP };
	struct uffdio_writeprotect wp = { .mode = UFFDIO_WRITEPROTECT_MODE_WP };
	struct uffdio_api api = {
		.api = UFFD_API, .features = UFFD_FEATURE_WP_ASYNC,
	};
	int u = syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);

	reg.range.start = (uintptr_t)at;
	reg.range.len = len;
	wp.range = reg.range;
	return u >= 0 && !ioctl(u, UFFDIO_API, &api) &&
	       !ioctl(u, UFFDIO_REGISTER, &reg) &&
	       !ioctl(u, UFFDIO_WRITEPROTECT, &wp);
}

/*
 * A page that cannot be put where it is wanted is not tried for ever, neither
 * by the process nor by a call of its own: that ends, by a signal or not.
 */
TEST_F_TIMEOUT(map_hostile, markers, 300)
{
	int fd[2], k, status, p[2];
	struct mapping m;

	for (k = 0; k < 4; k++) {
		pid_t pid;

		ASSERT_TRUE(map_pair(variant->at, &fd[0], &fd[1]));
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			size_t len;
			char *at;

			if (mapping_open(&m, fd[1]))
				_exit(1);
			/* a region is taken whole */
			at = k & 1 ? (char *)m.own : (char *)m.tx;
			len = k & 1 ? MAP_PAGE : 2 * m.tx_size;
			/* as if nobody had touched it before */
			madvise(at, len, MADV_DONTNEED);
			if (!mark(at, len))
				_exit(77);
			if (pipe(p))
				_exit(1);
			if (k & 2)
				*(volatile char *)at = 1;
			else if (write(p[1], at, 8) < 0 && errno != EFAULT)
				_exit(2);
			_exit(0);
		}
		status = l5_reap(pid);
		EXPECT_NE(-1, status) {
			TH_LOG("game %d hangs", k);
		}
		close(fd[0]);
		close(fd[1]);
		if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
			SKIP(return, "no such markers in this kernel");
		EXPECT_TRUE(!status || (WIFSIGNALED(status) &&
					WTERMSIG(status) == SIGBUS)) {
			TH_LOG("game %d: %x", k, status);
		}
	}
	EXPECT_TRUE(end_stat_reaches("pairs", 0));
}

TEST_HARNESS_MAIN
