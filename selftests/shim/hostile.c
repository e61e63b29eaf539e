// SPDX-License-Identifier: GPL-2.0
/*
 * A peer that maps its end and writes whatever it likes to it, while a program
 * under the preload library uses the other end in each way that there is: each
 * call gives bytes or an error, soon, and touches nothing else; another
 * connection of the program does not notice.
 */
#define SHIM	shim_hostile
#include "shim.h"

#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

#include "hostile.h"

/* State of one victim; each victim is a process of its own. */
static int ep_level, ep_edge, ep_once, pipes[2], file;

static bool blocks(int fd, bool on)
{
	return !fcntl(fd, F_SETFL, O_RDWR | (on ? 0 : O_NONBLOCK));
}

static int ep_of(struct hostile *h, uint32_t more)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT | more };
	int ep = epoll_create1(EPOLL_CLOEXEC);

	ev.data.fd = h->evil;
	if (epoll_ctl(ep, EPOLL_CTL_ADD, h->evil, &ev))
		return -1;
	ev.events = EPOLLIN | (more & EPOLLET);
	ev.data.fd = h->good[0];
	return epoll_ctl(ep, EPOLL_CTL_ADD, h->good[0], &ev) ? -1 : ep;
}

/* Both ways */
static bool good(struct hostile *h, void *arg, size_t n)
{
	bool ok = end_exchange(h->good[0], h->good[1], n, h->pos);

	(void)arg;
	h->pos += n;
	return ok;
}

/* Used so often that all are mapped, before anything happens. */
static bool begin(struct hostile *h, void *arg)
{
	char c;
	int i;

	(void)arg;
	signal(SIGPIPE, SIG_IGN);
	for (i = 0; i < 2 * SHIM_AFTER; i++) {
		if (recv(h->evil, &c, 1, MSG_DONTWAIT) != -1 ||
		    !good(h, NULL, 10))
			return false;
	}
	ep_level = ep_of(h, 0);
	ep_edge = ep_of(h, EPOLLET);
	ep_once = ep_of(h, EPOLLONESHOT);
	file = memfd_create("l5", MFD_CLOEXEC);
	return shim_maps() == 3 && hostile_timeouts(h) && ep_level >= 0 &&
	       ep_edge >= 0 && ep_once >= 0 && !ftruncate(file, 65536) &&
	       !pipe2(pipes, O_NONBLOCK | O_CLOEXEC);
}

static void get(struct hostile *h, int flags)
{
	size_t n = hostile_want(h);

	hostile_judge(h, recv(h->evil, hostile_memory(n), n, flags), n);
}

static void put(struct hostile *h, int flags)
{
	size_t n = hostile_want(h);

	hostile_judge(h, send(h->evil, hostile_memory(n), n, flags), n);
}

/* Bytes, that a call may sleep for */

static void s_read_write(struct hostile *h, void *arg)
{
	size_t n = hostile_want(h);

	(void)arg;
	hostile_judge(h, read(h->evil, hostile_memory(n), n), n);
	n = hostile_want(h);
	hostile_judge(h, write(h->evil, hostile_memory(n), n), n);
}

static void s_nonblock(struct hostile *h, void *arg)
{
	blocks(h->evil, false);
	s_read_write(h, arg);
	s_read_write(h, arg);
	blocks(h->evil, true);
}

/* Nothing but a signal ends a call. */
static void s_alarm(struct hostile *h, void *arg)
{
	if (!h->a->calls && !hostile_alarm(h))
		hostile_wrong(h, W_SETUP);
	s_read_write(h, arg);
}

static void s_vectors(struct hostile *h, void *arg)
{
	size_t n = hostile_want(h);
	uint8_t *b = hostile_memory(n);
	struct iovec v[3] = {
		{ b, n / 3 }, { NULL, 0 }, { b + n / 3, n - n / 3 },
	};

	(void)arg;
	switch (l5_rnd(&h->seed) % 4) {
	case 0:
		hostile_judge(h, readv(h->evil, v, 3), n);
		break;
	case 1:
		hostile_judge(h, writev(h->evil, v, 3), n);
		break;
	case 2:
		hostile_judge(h, preadv2(h->evil, v, 3, -1, 0), n);
		break;
	default:
		hostile_judge(h, pwritev2(h->evil, v, 3, -1, 0), n);
	}
}

static void s_messages(struct hostile *h, void *arg)
{
	size_t n = hostile_want(h);
	uint8_t *b = hostile_memory(n);
	struct iovec v[2] = { { b, n / 2 }, { b + n / 2, n - n / 2 } };
	struct mmsghdr mm[2] = {
		{ .msg_hdr = { .msg_iov = v, .msg_iovlen = 2 } },
		{ .msg_hdr = { .msg_iov = v, .msg_iovlen = 2 } },
	};
	struct timespec t = { .tv_nsec = 5000000 };
	int i, k, flags = l5_rnd(&h->seed) & 1 ? MSG_DONTWAIT : 0;

	(void)arg;
	switch (l5_rnd(&h->seed) % 4) {
	case 0:
		hostile_judge(h, recvmsg(h->evil, &mm[0].msg_hdr, flags), n);
		return;
	case 1:
		hostile_judge(h, sendmsg(h->evil, &mm[0].msg_hdr, flags), n);
		return;
	case 2:
		k = recvmmsg(h->evil, mm, 2, flags | MSG_WAITFORONE, &t);
		break;
	default:
		k = sendmmsg(h->evil, mm, 2, flags);
	}
	hostile_judge(h, k, 2);
	for (i = 0; i < k; i++)
		hostile_judge(h, mm[i].msg_len, n);
}

static void s_flags(struct hostile *h, void *arg)
{
	static const int in[] = {
		0, MSG_DONTWAIT, MSG_WAITALL, MSG_PEEK,
		MSG_PEEK | MSG_WAITALL | MSG_DONTWAIT,
	};
	size_t n = hostile_want(h);
	int left;

	(void)arg;
	switch (l5_rnd(&h->seed) % 6) {
	case 0:
		put(h, MSG_MORE);
		break;
	case 1:
		put(h, MSG_DONTWAIT);
		break;
	case 2:
		hostile_judge(h, sendto(h->evil, hostile_memory(n), n,
					MSG_NOSIGNAL, NULL, 0), n);
		break;
	case 3:
		hostile_judge(h, recvfrom(h->evil, hostile_memory(n), n, 0,
					  NULL, NULL), n);
		break;
	case 4:
		hostile_judge(h, recv(h->evil, hostile_memory(n), n, MSG_TRUNC |
				      MSG_DONTWAIT), n);
		if (!ioctl(h->evil, FIONREAD, &left) && left < 0)
			hostile_wrong(h, W_COUNT);
		break;
	default:
		get(h, in[l5_rnd(&h->seed) % ARRAY_SIZE(in)]);
	}
}

static void s_sendfile(struct hostile *h, void *arg)
{
	size_t n = hostile_want(h);
	off_t at = 0;

	(void)arg;
	blocks(h->evil, l5_rnd(&h->seed) & 1);
	hostile_judge(h, sendfile(h->evil, file, &at, n), n);
	get(h, MSG_DONTWAIT);
}

static void s_splice(struct hostile *h, void *arg)
{
	size_t n = hostile_want(h);
	ssize_t got, k;

	(void)arg;
	blocks(h->evil, l5_rnd(&h->seed) & 1);
	got = hostile_judge(h, splice(h->evil, NULL, pipes[1], NULL, n, 0), n);
	/* and back */
	if (got > 0) {
		k = splice(pipes[0], NULL, h->evil, NULL, got, 0);
		hostile_judge(h, k, got);
		got -= k > 0 ? k : 0;
	}
	for (; got > 0; got -= k) {
		k = read(pipes[0], hostile_memory(HOSTILE_BUF), HOSTILE_BUF);
		if (k <= 0) {
			hostile_wrong(h, W_COUNT);
			break;
		}
	}
}

/* Waiting, for both connections: the innocent one has to be seen. */

typedef bool (*look_fn)(struct hostile *h, bool *good, short *evil);

static void waits(struct hostile *h, look_fn look)
{
	size_t n = 1 + l5_rnd(&h->seed) % 500, left = n;
	int64_t end = l5_now_ms() + 15000 * l5_slow();
	uint8_t b[500];
	ssize_t k;

	l5_fill(b, n, h->pos);
	if (send(h->good[1], b, n, 0) != (ssize_t)n)
		hostile_wrong(h, W_GOOD);
	while (left && !h->wrong) {
		bool ours = false;
		short evil = 0;

		if (!look(h, &ours, &evil))
			hostile_wrong(h, W_ERRNO);
		if (evil & POLLIN)
			get(h, MSG_DONTWAIT);
		if (evil & POLLOUT)
			put(h, MSG_DONTWAIT);
		if (l5_now_ms() > end)
			hostile_wrong(h, W_STARVED);
		if (!ours)
			continue;
		/* an edge comes only once */
		while ((k = recv(h->good[0], b, left, MSG_DONTWAIT)) > 0) {
			if (l5_check(b, k, h->pos + n - left) >= 0)
				hostile_wrong(h, W_GOOD);
			left -= k;
			if (!left)
				break;
		}
	}
	/* the other way, since both have one position */
	l5_fill(b, n, h->pos);
	if (send(h->good[0], b, n, 0) != (ssize_t)n ||
	    !end_get(h->good[1], n, h->pos))
		hostile_wrong(h, W_GOOD);
	h->pos += n;
}

static bool l_poll(struct hostile *h, bool *good, short *evil)
{
	struct timespec t = { .tv_nsec = 5000000 };
	struct pollfd p[2] = {
		{ .fd = h->evil, .events = POLLIN },
		{ .fd = h->good[0], .events = POLLIN },
	};
	uint32_t r = l5_rnd(&h->seed);
	int n;

	if (r & 1)
		p[0].events |= POLLOUT;
	n = r & 2 ? poll(p, 2, 5) : ppoll(p, 2, &t, NULL);
	*good = n > 0 && p[1].revents;
	*evil = n > 0 ? p[0].revents : 0;
	return n >= 0;
}

static bool l_select(struct hostile *h, bool *good, short *evil)
{
	struct timespec t = { .tv_nsec = 5000000 };
	struct timeval tv = { .tv_usec = 5000 };
	int max = h->evil > h->good[0] ? h->evil : h->good[0], n;
	uint32_t r = l5_rnd(&h->seed);
	fd_set in, out;

	FD_ZERO(&in);
	FD_ZERO(&out);
	FD_SET(h->evil, &in);
	FD_SET(h->good[0], &in);
	if (r & 1)
		FD_SET(h->evil, &out);
	n = r & 2 ? select(max + 1, &in, &out, NULL, &tv) :
	    pselect(max + 1, &in, &out, NULL, &t, NULL);
	if (n <= 0)
		return !n;
	*good = FD_ISSET(h->good[0], &in);
	*evil = (FD_ISSET(h->evil, &in) ? POLLIN : 0) |
		(FD_ISSET(h->evil, &out) ? POLLOUT : 0);
	return true;
}

static bool l_epoll(struct hostile *h, int ep, bool *good, short *evil)
{
	struct epoll_event ev[2];
	int n, i;

	n = l5_rnd(&h->seed) & 1 ? epoll_wait(ep, ev, 2, 5) :
	    epoll_pwait(ep, ev, 1, 5, NULL);
	for (i = 0; i < n; i++) {
		if (ev[i].data.fd == h->good[0])
			*good = true;
		else
			*evil = (ev[i].events & EPOLLIN ? POLLIN : 0) |
				(ev[i].events & EPOLLOUT ? POLLOUT : 0);
	}
	return n >= 0;
}

static bool l_level(struct hostile *h, bool *good, short *evil)
{
	return l_epoll(h, ep_level, good, evil);
}

static bool l_edge(struct hostile *h, bool *good, short *evil)
{
	return l_epoll(h, ep_edge, good, evil);
}

static bool l_once(struct hostile *h, bool *good, short *evil)
{
	struct epoll_event ev = {
		.events = EPOLLIN | EPOLLOUT | EPOLLONESHOT,
		.data.fd = h->evil,
	};

	if (l5_rnd(&h->seed) & 1 &&
	    epoll_ctl(ep_once, EPOLL_CTL_MOD, h->evil, &ev))
		return false;
	return l_epoll(h, ep_once, good, evil);
}

static void s_wait(struct hostile *h, void *arg)
{
	waits(h, *(look_fn *)arg);
}

/* The other end is gone. */
static void end(struct hostile *h, void *arg)
{
	int64_t stop = l5_now_ms() + 10000 * l5_slow();
	ssize_t n;
	int i;

	(void)arg;
	hostile_timeouts(h);
	blocks(h->evil, true);
	/* that may go around in the ring for ever */
	for (i = 0; i < 100; i++) {
		n = hostile_judge(h, read(h->evil, hostile_memory(500), 500),
				  500);
		if (!n || (n < 0 && errno != EAGAIN))
			break;
	}
	do {
		n = hostile_judge(h, write(h->evil, hostile_memory(500), 500),
				  500);
		if (l5_now_ms() > stop)
			hostile_wrong(h, W_ENDLESS);
	} while (!h->wrong && (n >= 0 || errno == EAGAIN));
	close(ep_level);
	close(ep_edge);
	close(ep_once);
	if (close(h->evil) || shim_maps() != 2)
		hostile_wrong(h, W_CLOSE);
}

static look_fn polls = l_poll, selects = l_select, level = l_level,
	       edge = l_edge, once = l_once;

static const struct {
	const char *name;
	void (*step)(struct hostile *h, void *arg);
	look_fn *look;
} api[] = {
	{ "read, write", s_read_write, NULL },
	{ "nonblocking", s_nonblock, NULL },
	{ "alarm", s_alarm, NULL },
	{ "vectors", s_vectors, NULL },
	{ "messages", s_messages, NULL },
	{ "flags", s_flags, NULL },
	{ "sendfile", s_sendfile, NULL },
	{ "splice", s_splice, NULL },
	{ "poll", s_wait, &polls },
	{ "select", s_wait, &selects },
	{ "epoll level", s_wait, &level },
	{ "epoll edge", s_wait, &edge },
	{ "epoll oneshot", s_wait, &once },
};

static void all_plays(struct __test_metadata *_metadata, const char *at)
{
	struct hostile_game g = { .begin = begin, .good = good, .end = end };
	unsigned long sum[2] = { 0 };
	uint64_t seed;
	int mood;
	size_t i;

	ASSERT_TRUE(net_unshare());
	ASSERT_LE(0, l5_sysctl("match_ms", 10000));
	ASSERT_LE(0, l5_sysctl("grow_ms", 0));
	seed = l5_seed();
	for (i = 0; i < ARRAY_SIZE(api); i++) {
		g.api = api[i].name;
		g.step = api[i].step;
		g.arg = (void *)api[i].look;
		for (mood = 0; mood < MOODS; mood++)
			EXPECT_TRUE(hostile_play(&g, at, mood, seed++, sum));
	}
	TH_LOG("%lu calls, %lu scribbles, %lld connections ended for it",
	       sum[0], sum[1], l5_stat("violations"));
	EXPECT_LT(0, sum[0]);
	EXPECT_LT(0, sum[1]);
	/* nothing of it stays */
	EXPECT_TRUE(scribble_over(at));
}

TEST_F_TIMEOUT(SHIM, hostile_inet, 400)
{
	all_plays(_metadata, "127.0.0.1:0");
}

TEST_F_TIMEOUT(SHIM, hostile_unix, 400)
{
	all_plays(_metadata, "abstract:l5_shim_hostile");
}

TEST_HARNESS_MAIN
