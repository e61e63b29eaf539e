// SPDX-License-Identifier: GPL-2.0
/*
 * Mapped traffic and system calls on the same sockets: whoever mixes them, in
 * whatever order and in however many processes, sees one stream; whoever sleeps
 * in the kernel is woken by who does not enter it; and the end is seen without
 * asking.
 */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "mapping.h"

/* A socket that an exec handed down, see exec_maps_again. */
#define ENV_FD		"L5_MAP_LIVE_FD"

FIXTURE(live)
{
	int fd[2];
};

FIXTURE_VARIANT(live)
{
	const char *at;
};

FIXTURE_VARIANT_ADD(live, inet)
{
	.at = "127.0.0.1:0",
};

FIXTURE_VARIANT_ADD(live, unix)
{
	.at = "abstract:l5_map_live",
};

FIXTURE_SETUP(live)
{
	ASSERT_TRUE(map_begin(variant->at, 64, self->fd));
}

FIXTURE_TEARDOWN(live)
{
	close(self->fd[0]);
	close(self->fd[1]);
}

/* How an end moves bytes. */
enum how { MAPPED, KERNEL, MIXED, HOW_MAX };

static const char *const how_name[] = { "mapped", "kernel", "mixed" };

/**
 * struct flow - one direction at one end
 * @thread: that moves the bytes
 * @fd: the socket
 * @m: its mapping, NULL with KERNEL
 * @how: see &enum how
 * @sends: or receives
 * @total: bytes to move
 * @base: position of the first
 * @seed: of what happens
 * @uring: of this thread, if @has_uring
 * @has_uring: it could be had
 * @moved: so far
 * @error: what went wrong, if anything
 */
struct flow {
	pthread_t thread;
	int fd;
	struct mapping *m;
	enum how how;
	bool sends;
	long total;
	uint64_t base;
	uint64_t seed;
	struct io_uring uring;
	bool has_uring;
	long moved;
	char error[160];
};

#define FLOW_MAX	(160 << 10)

#define FAIL(f, ...) do {						\
	snprintf((f)->error, sizeof((f)->error), __VA_ARGS__);		\
	goto out;							\
} while (0)

static int uring_result(struct io_uring *ring)
{
	struct io_uring_cqe *cqe;
	int n;

	if (io_uring_submit_and_wait(ring, 1) < 1)
		return -1;
	if (io_uring_wait_cqe(ring, &cqe))
		return -1;
	n = cqe->res;
	io_uring_cqe_seen(ring, cqe);
	if (n < 0) {
		errno = -n;
		return -1;
	}
	return n;
}

static bool wait_for(int fd, int events)
{
	struct pollfd p = { .fd = fd, .events = events };

	return poll(&p, 1, MAP_LONG_MS) == 1;
}

/* Bytes sent, 0 to try again, -1. */
static long send_some(struct flow *f, uint8_t *b, long want)
{
	bool mapped = f->how == MAPPED || (f->how == MIXED &&
					   l5_rnd(&f->seed) & 1);
	long cut = l5_rnd(&f->seed) % (want + 1), n;
	struct iovec v[2] = { { b, cut }, { b + cut, want - cut } };
	struct msghdr mh = { .msg_iov = v, .msg_iovlen = 2 };

	if (mapped) {
		switch (l5_rnd(&f->seed) % 3) {
		case 0:
			return mapping_send(f->m, b, want, MSG_NOSIGNAL);
		case 1:
			n = mapping_put(f->m, b, want);
			if (!n)
				sched_yield();
			return n;
		default:
			n = mapping_send(f->m, b, want, MSG_DONTWAIT |
					 MSG_NOSIGNAL);
			if (n < 0 && errno == EAGAIN)
				return wait_for(f->fd, POLLOUT) ? 0 : -1;
			return n;
		}
	}
	switch (l5_rnd(&f->seed) % 9) {
	case 0:
		return write(f->fd, b, want);
	case 1:
		return writev(f->fd, v, 2);
	case 2:
		return sendmsg(f->fd, &mh, MSG_NOSIGNAL);
	case 3:
		return end_sendfile(f->fd, b, want);
	case 4:
		return end_splice_send(f->fd, b, want);
	case 5:
		if (!f->has_uring)
			break;
		io_uring_prep_send(io_uring_get_sqe(&f->uring), f->fd, b, want,
				   MSG_NOSIGNAL);
		return uring_result(&f->uring);
	case 6:
		if (!f->has_uring)
			break;
		io_uring_prep_write(io_uring_get_sqe(&f->uring), f->fd, b, want,
				    0);
		return uring_result(&f->uring);
	case 7:
		n = send(f->fd, b, want, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && errno == EAGAIN)
			return wait_for(f->fd, POLLOUT) ? 0 : -1;
		return n;
	}
	return send(f->fd, b, want, MSG_NOSIGNAL);
}

/* Sleeps until something may be there, by the rules for mapped sleepers. */
static bool armed_wait(struct flow *f)
{
	int ready;

	if (l5_rnd(&f->seed) & 1) {
		ready = ioctl(f->fd, L5_IOC_ARM, L5_BELL_DATA);
		if (ready)
			return ready > 0;
	} else {
		l5_wait_arm(&f->m->own->rx_wait);
		if (ioctl(f->fd, L5_IOC_ARM, L5_BELL_DATA) > 0)
			return true;
	}
	return wait_for(f->fd, POLLIN);
}

/* Bytes received, -1; -2 for bytes that changed; -3 to try again. */
static long recv_some(struct flow *f, uint8_t *b, long want, uint64_t pos)
{
	bool mapped = f->how == MAPPED || (f->how == MIXED &&
					   l5_rnd(&f->seed) & 1);
	long cut = l5_rnd(&f->seed) % (want + 1), n, k;
	struct iovec v[2] = { { b, cut }, { b + cut, want - cut } };
	struct msghdr mh = { .msg_iov = v, .msg_iovlen = 2 };
	uint32_t flags;
	int got;

	if (mapped) {
		switch (l5_rnd(&f->seed) % 3) {
		case 0:
			return mapping_recv(f->m, b, want, 0);
		case 1:
			flags = l5_load_acquire(&f->m->state->flags);
			n = mapping_get(f->m, b, want);
			if (n || flags & L5_MAP_RX_ASK)
				return n ? n : recv(f->fd, b, want, 0);
			return armed_wait(f) ? -3 : -1;
		default:
			n = mapping_recv(f->m, b, want, MSG_DONTWAIT);
			if (n < 0 && errno == EAGAIN)
				return wait_for(f->fd, POLLIN) ? -3 : -1;
			return n;
		}
	}
	switch (l5_rnd(&f->seed) % 10) {
	case 0:
		return read(f->fd, b, want);
	case 1:
		return readv(f->fd, v, 2);
	case 2:
		return recvmsg(f->fd, &mh, 0);
	case 3:
		return recv(f->fd, b, want, MSG_WAITALL);
	case 4:
		/* seen, then taken by either way */
		n = recv(f->fd, b, want, MSG_PEEK);
		if (n <= 0)
			return n;
		if (l5_check(b, n, pos) >= 0)
			return -2;
		memset(b, 0, n);
		if (f->m && f->how == MIXED && l5_rnd(&f->seed) & 1)
			return mapping_get(f->m, b, n);
		return recv(f->fd, b, n, MSG_DONTWAIT);
	case 5:
		/* what is counted can be had at once, by either way */
		if (ioctl(f->fd, FIONREAD, &got) || got < 0)
			return -1;
		if (!got)
			return wait_for(f->fd, POLLIN) ?
			       recv(f->fd, b, want, 0) : -1;
		k = got < want ? got : want;
		if (f->m && f->how == MIXED && l5_rnd(&f->seed) & 1)
			n = mapping_get(f->m, b, k);
		else
			n = recv(f->fd, b, k, MSG_DONTWAIT);
		return n == k ? n : -2;
	case 6:
		n = recv(f->fd, b, want, MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN)
			return wait_for(f->fd, POLLIN) ? -3 : -1;
		return n;
	case 7:
		return end_splice_recv(f->fd, b, want);
	case 8:
		if (!f->has_uring)
			break;
		io_uring_prep_recv(io_uring_get_sqe(&f->uring), f->fd, b, want,
				   0);
		return uring_result(&f->uring);
	}
	return recv(f->fd, b, want, 0);
}

static void *flow_run(void *arg)
{
	struct flow *f = arg;
	uint8_t *b = malloc(FLOW_MAX);
	long want, n;

	while (!f->sends || f->moved < f->total) {
		want = 1 + l5_rnd(&f->seed) %
		       (l5_rnd(&f->seed) % 6 ? 3000 : FLOW_MAX);
		if (l5_rnd(&f->seed) % 50 == 0)
			usleep(l5_rnd(&f->seed) % 2000);
		if (f->sends) {
			if (want > f->total - f->moved)
				want = f->total - f->moved;
			l5_fill(b, want, f->base + f->moved);
			n = send_some(f, b, want);
			if (n < 0 || n > want)
				FAIL(f, "send at %ld: %ld %m", f->moved, n);
		} else {
			n = recv_some(f, b, want, f->base + f->moved);
			if (n == -3)
				continue;
			if (n < 0 || n > want)
				FAIL(f, "recv at %ld: %ld %m", f->moved, n);
			if (!n)
				break;
			if (l5_check(b, n, f->base + f->moved) >= 0)
				FAIL(f, "wrong byte at %ld",
				     f->moved + (long)l5_check(b, n, f->base +
							       f->moved));
		}
		f->moved += n;
	}
	if (f->moved != f->total) {
		l5_fatal("%ld of %ld bytes", f->moved, f->total);
		FAIL(f, "%ld of %ld bytes", f->moved, f->total);
	}
	if (f->sends && shutdown(f->fd, SHUT_WR))
		FAIL(f, "shutdown: %m");
out:
	/* who fails must not leave the other waiting */
	if (*f->error)
		shutdown(f->fd, SHUT_RDWR);
	free(b);
	return NULL;
}

/* An end in this process; its exit code. */
static int end_run(int fd, enum how how, long out, long in, bool client,
		   uint64_t seed)
{
	struct mapping m;
	struct flow f[2];
	int i, bad = 0;

	alarm(MAP_LONG_MS / 1000 + 5);
	if (how != KERNEL && mapping_open(&m, fd)) {
		fprintf(stderr, "# cannot map: %m\n");
		return 1;
	}
	memset(f, 0, sizeof(f));
	for (i = 0; i < 2; i++) {
		f[i].fd = fd;
		f[i].how = how;
		f[i].m = how == KERNEL ? NULL : &m;
		f[i].sends = !i;
		f[i].total = i ? in : out;
		f[i].base = client == !i ? 0 : 1ULL << 40;
		f[i].seed = (seed * 4 + client * 2 + i) | 1ULL << 60;
		f[i].has_uring = !io_uring_queue_init(4, &f[i].uring, 0);
		if (pthread_create(&f[i].thread, NULL, flow_run, &f[i]))
			return 2;
	}
	for (i = 0; i < 2; i++) {
		pthread_join(f[i].thread, NULL);
		if (*f[i].error)
			fprintf(stderr, "# %s, %s, %s: %s\n", how_name[how],
				client ? "client" : "server",
				i ? "receiver" : "sender", f[i].error);
		bad |= *f[i].error != 0;
	}
	if (how == MAPPED && !(m.puts + m.gets)) {
		fprintf(stderr, "# nothing went by the mapping\n");
		bad = 1;
	}
	return bad;
}

static void combine(struct __test_metadata *_metadata, int fd[2], enum how a,
		    enum how b, long total, uint64_t seed)
{
	const enum how how[2] = { a, b };
	pid_t pid[2];
	int i, status;

	for (i = 0; i < 2; i++) {
		fflush(NULL);
		pid[i] = fork();
		ASSERT_LE(0, pid[i]);
		if (!pid[i]) {
			close(fd[!i]);
			_exit(end_run(fd[i], how[i], i ? total / 2 : total,
				      i ? total : total / 2, !i, seed));
		}
	}
	for (i = 0; i < 2; i++) {
		status = map_reap(pid[i]);
		EXPECT_EQ(0, status) {
			TH_LOG("%s with %s, seed %llu: %s %s (%x)",
			       how_name[a], how_name[b],
			       (unsigned long long)seed, i ? "server" :
			       "client", status == -1 ? "hangs" : "fails",
			       status);
		}
	}
}

static uint64_t new_seed(struct __test_metadata *_metadata)
{
	const char *set = getenv("L5_SEED");
	uint64_t seed = set ? strtoull(set, NULL, 0) : (uint64_t)l5_now_ms() %
			100000000;

	TH_LOG("L5_SEED=%llu", (unsigned long long)seed);
	return seed;
}

TEST_F_TIMEOUT(live, every_combination, 600)
{
	static const long kb[] = { 4, 16, 256 };
	uint64_t seed = new_seed(_metadata);
	unsigned int i, a, b;

	for (i = 0; i < ARRAY_SIZE(kb); i++) {
		ASSERT_LE(0, l5_sysctl("ring_kb", kb[i]));
		for (a = 0; a < HOW_MAX; a++) {
			for (b = 0; b < HOW_MAX; b++) {
				close(self->fd[0]);
				close(self->fd[1]);
				ASSERT_TRUE(map_pair(variant->at, &self->fd[0],
						     &self->fd[1]));
				combine(_metadata, self->fd, a, b,
					i == 2 ? 3000000 : 500000,
					seed + i * 100 + a * 10 + b);
			}
		}
	}
	EXPECT_EQ(0, l5_stat("violations"));
}

/* Mappings come and go under traffic that knows nothing of them. */
/* There is nothing to map of a connection that is over: wait for the end. */
static void open_or_rest(struct mapping *m, int fd)
{
	int err = mapping_open(m, fd);

	while (err == -ENOTCONN)
		pause();
	if (err)
		_exit(1);
}

TEST_F_TIMEOUT(live, mappings_come_and_go, 300)
{
	uint64_t seed = new_seed(_metadata);
	int round, status;

	for (round = 0; round < 3; round++) {
		pid_t pid;

		ASSERT_LE(0, l5_sysctl("ring_kb", round ? 64 : 8));
		ASSERT_TRUE(map_again(variant->at, self->fd));
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			for (;;) {
				struct mapping m, n;

				open_or_rest(&m, self->fd[0]);
				usleep(l5_rnd(&seed) % 3000);
				open_or_rest(&n, self->fd[1]);
				mapping_close(&m);
				usleep(l5_rnd(&seed) % 3000);
				mapping_close(&n);
			}
		}
		combine(_metadata, self->fd, round == 2 ? MIXED : KERNEL,
			KERNEL, 900000, seed + round);
		kill(pid, SIGKILL);
		status = map_reap(pid);
		EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	}
	EXPECT_EQ(0, l5_stat("violations"));
}

/*
 * One process does everything in turn, so what must be there is known at every
 * step: by FIONREAD, poll(), a peek, and what is read.
 */
struct model {
	struct mapping *m[2];
	int fd[2];
	uint64_t in[2], out[2];	/* of the direction that end e sends */
};

static bool model_send(struct model *w, int e, size_t n, bool mapped)
{
	static uint8_t b[FLOW_MAX];
	ssize_t put;

	l5_fill(b, n, w->in[e]);
	if (mapped && w->m[e]) {
		put = mapping_put(w->m[e], b, n);
	} else {
		put = send(w->fd[e], b, n, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (put < 0 && errno == EAGAIN)
			put = 0;
	}
	if (put < 0)
		return false;
	w->in[e] += put;
	return true;
}

static bool model_recv(struct model *w, int e, size_t n, int way)
{
	static uint8_t b[FLOW_MAX];
	uint64_t left = w->in[!e] - w->out[!e];
	size_t want = n < left ? n : left;
	ssize_t got;

	memset(b, 0, n);
	if (way == 0 && w->m[e]) {
		got = mapping_get(w->m[e], b, n);
	} else {
		got = recv(w->fd[e], b, n, MSG_DONTWAIT | (way == 1 ? MSG_PEEK :
							   0));
		if (got < 0 && errno == EAGAIN)
			got = 0;
	}
	if (got != (ssize_t)want || l5_check(b, want, w->out[!e]) >= 0) {
		l5_fatal("way %d: %zd of %zu bytes", way, got, want);
		return false;
	}
	if (way != 1)
		w->out[!e] += got;
	return true;
}

static bool model_right(struct model *w)
{
	int e, n;

	for (e = 0; e < 2; e++) {
		struct pollfd p = { .fd = w->fd[e], .events = POLLIN };
		uint64_t left = w->in[!e] - w->out[!e];

		if (ioctl(w->fd[e], FIONREAD, &n) || (uint64_t)n != left) {
			l5_fatal("FIONREAD %d, not %llu", n,
				 (unsigned long long)left);
			return false;
		}
		if (poll(&p, 1, 0) != !!left) {
			fprintf(stderr, "# poll %#x, with %d to read\n",
				p.revents, n);
			return false;
		}
	}
	return true;
}

TEST_F_TIMEOUT(live, one_step_after_the_other, 300)
{
	uint64_t seed = new_seed(_metadata) | 1;
	struct mapping m[2];
	int kb, i, k;

	for (k = 0; k < 12; k++) {
		struct model w = { 0 };

		kb = k % 3 == 0 ? 4 : k % 3 == 1 ? 16 : 128;
		ASSERT_LE(0, l5_sysctl("ring_kb", kb));
		close(self->fd[0]);
		close(self->fd[1]);
		ASSERT_TRUE(map_pair(variant->at, &w.fd[0], &w.fd[1]));
		self->fd[0] = w.fd[0];
		self->fd[1] = w.fd[1];
		for (i = 0; i < 500; i++) {
			int e = l5_rnd(&seed) & 1;
			size_t n = 1 + l5_rnd(&seed) %
				   (l5_rnd(&seed) & 3 ? 600 : kb << 10);

			if (n > FLOW_MAX)
				n = FLOW_MAX;
			/* mapped in the midst of it, perhaps for a while */
			if (l5_rnd(&seed) % 100 == 0) {
				if (w.m[e]) {
					mapping_close(w.m[e]);
					w.m[e] = NULL;
				} else {
					ASSERT_EQ(0, mapping_open(&m[e],
								  w.fd[e]));
					w.m[e] = &m[e];
				}
			}
			ASSERT_TRUE(l5_rnd(&seed) % 5 < 2 ?
				    model_send(&w, e, n, l5_rnd(&seed) & 1) :
				    model_recv(&w, e, n, l5_rnd(&seed) % 3));
			ASSERT_TRUE(model_right(&w)) {
				TH_LOG("%d KiB, step %d", kb, i);
			}
		}
		for (i = 0; i < 2; i++)
			if (w.m[i])
				mapping_close(w.m[i]);
	}
	EXPECT_EQ(0, l5_stat("violations"));
}

/* A part of a record by one way, the rest by the other. */
TEST_F_TIMEOUT(live, parts_of_a_record, 120)
{
	struct mapping m, o;
	uint8_t b[100];
	int way, n;

	ASSERT_EQ(0, mapping_open(&m, self->fd[0]));
	ASSERT_EQ(0, mapping_open(&o, self->fd[1]));
	for (way = 0; way < 6; way++) {
		struct pollfd p = { .fd = self->fd[1], .events = POLLIN };

		l5_fill(b, 100, 0);
		ASSERT_EQ(100, way & 1 ? mapping_put(&m, b, 100) :
			  send(self->fd[0], b, 100, 0));
		memset(b, 0, 100);
		switch (way / 2) {
		case 0:
			/* seen by the kernel, taken behind its back */
			ASSERT_EQ(100, recv(self->fd[1], b, 100, MSG_PEEK));
			ASSERT_EQ(100, mapping_get(&o, b, 100));
			break;
		case 1:
			ASSERT_EQ(30, recv(self->fd[1], b, 30, 0));
			ASSERT_EQ(0, ioctl(self->fd[1], FIONREAD, &n));
			ASSERT_EQ(70, n);
			ASSERT_EQ(70, mapping_get(&o, b + 30, 100));
			break;
		default:
			ASSERT_EQ(30, mapping_get(&o, b, 30));
			ASSERT_EQ(0, ioctl(self->fd[1], FIONREAD, &n));
			ASSERT_EQ(70, n);
			ASSERT_EQ(20, recv(self->fd[1], b + 30, 20, MSG_PEEK));
			ASSERT_EQ(20, mapping_get(&o, b + 30, 20));
			ASSERT_EQ(50, recv(self->fd[1], b + 50, 50,
					   MSG_WAITALL));
		}
		EXPECT_EQ(-1, l5_check(b, 100, 0));
		EXPECT_EQ(0, poll(&p, 1, 0));
		ASSERT_EQ(0, ioctl(self->fd[1], FIONREAD, &n));
		EXPECT_EQ(0, n);
		EXPECT_EQ(-1, recv(self->fd[1], b, 1, MSG_DONTWAIT));
		EXPECT_EQ(EAGAIN, errno);
		EXPECT_EQ(0, mapping_get(&o, b, 1));
	}
	/* what was taken by mapping is not unread: no reset */
	l5_fill(b, 100, 0);
	ASSERT_EQ(100, send(self->fd[0], b, 100, 0));
	ASSERT_EQ(100, recv(self->fd[1], b, 100, MSG_PEEK));
	ASSERT_EQ(100, mapping_get(&o, b, 100));
	close(self->fd[1]);
	EXPECT_EQ(0, recv(self->fd[0], b, 1, 0));
	mapping_close(&m);
	mapping_close(&o);
	/* and what was not is */
	close(self->fd[0]);
	ASSERT_TRUE(map_pair(variant->at, &self->fd[0], &self->fd[1]));
	ASSERT_EQ(0, mapping_open(&m, self->fd[0]));
	ASSERT_EQ(0, mapping_open(&o, self->fd[1]));
	ASSERT_EQ(100, mapping_put(&m, b, 100));
	ASSERT_EQ(99, mapping_get(&o, b, 99));
	close(self->fd[1]);
	EXPECT_EQ(-1, recv(self->fd[0], b, 1, 0));
	EXPECT_EQ(ECONNRESET, errno);
	mapping_close(&m);
	mapping_close(&o);
	self->fd[1] = -1;
}

/* What a sleeper sleeps in. */
enum sleep_in {
	IN_RECV, IN_POLL, IN_SELECT, IN_EPOLL, IN_EPOLLET, IN_ONESHOT,
	IN_NESTED, IN_SIGIO, IN_URING, IN_URING_POLL, IN_ARMED, IN_MAX
};

static const char *const sleep_name[] = {
	"recv", "poll", "select", "epoll", "epoll ET", "epoll oneshot",
	"nested epoll", "SIGIO", "io_uring recv", "io_uring poll", "poll, armed"
};

struct sleeper {
	enum sleep_in in;
	int fd, ep, outer;
	struct mapping *m;
	struct io_uring uring;
	sigset_t sigio;
};

static bool sleeper_init(struct sleeper *s, int events)
{
	struct epoll_event ev = { .events = events };

	s->ep = epoll_create1(0);
	s->outer = epoll_create1(0);
	switch (s->in) {
	case IN_EPOLLET:
		ev.events |= EPOLLET;
		break;
	case IN_ONESHOT:
		ev.events |= EPOLLONESHOT;
		break;
	case IN_NESTED:
		ev.events = EPOLLIN | EPOLLET;
		if (epoll_ctl(s->outer, EPOLL_CTL_ADD, s->ep, &ev))
			return false;
		ev.events = events | EPOLLET;
		break;
	case IN_SIGIO:
		sigemptyset(&s->sigio);
		sigaddset(&s->sigio, SIGIO);
		sigprocmask(SIG_BLOCK, &s->sigio, NULL);
		return !fcntl(s->fd, F_SETOWN, getpid()) &&
		       !fcntl(s->fd, F_SETFL, O_RDWR | O_ASYNC);
	case IN_URING:
	case IN_URING_POLL:
		return !io_uring_queue_init(4, &s->uring, 0);
	default:
		break;
	}
	return !epoll_ctl(s->ep, EPOLL_CTL_ADD, s->fd, &ev);
}

/* Sleep until there may be something; a byte of it may be taken: 1. */
static int sleeper_wait(struct sleeper *s, int events, uint8_t *b)
{
	struct epoll_event ev = { .events = events | EPOLLONESHOT };
	struct pollfd p = { .fd = s->fd, .events = events };
	fd_set set;

	switch (s->in) {
	case IN_RECV:
		return recv(s->fd, b, 1, 0);
	case IN_ARMED:
		l5_wait_arm(&s->m->own->rx_wait);
		if (ioctl(s->fd, L5_IOC_ARM, L5_BELL_DATA))
			return 0;
		return poll(&p, 1, -1) == 1 ? 0 : -1;
	case IN_POLL:
		return poll(&p, 1, -1) == 1 ? 0 : -1;
	case IN_SELECT:
		FD_ZERO(&set);
		FD_SET(s->fd, &set);
		return select(s->fd + 1, events & POLLIN ? &set : NULL,
			      events & POLLOUT ? &set : NULL, NULL, NULL) == 1 ?
		       0 : -1;
	case IN_ONESHOT:
		if (epoll_ctl(s->ep, EPOLL_CTL_MOD, s->fd, &ev))
			return -1;
		return epoll_wait(s->ep, &ev, 1, -1) == 1 ? 0 : -1;
	case IN_NESTED:
		if (epoll_wait(s->outer, &ev, 1, -1) != 1)
			return -1;
		return epoll_wait(s->ep, &ev, 1, 0) < 0 ? -1 : 0;
	case IN_SIGIO:
		return sigwaitinfo(&s->sigio, NULL) == SIGIO ? 0 : -1;
	case IN_URING:
		io_uring_prep_recv(io_uring_get_sqe(&s->uring), s->fd, b, 1, 0);
		return uring_result(&s->uring);
	case IN_URING_POLL:
		io_uring_prep_poll_add(io_uring_get_sqe(&s->uring), s->fd,
				       events);
		return uring_result(&s->uring) > 0 ? 0 : -1;
	default:
		return epoll_wait(s->ep, &ev, 1, -1) == 1 ? 0 : -1;
	}
}

/* Sleeps for each message, then reads all there is. 0 when all is right. */
static int sleep_often(int fd, enum sleep_in in, bool mapped, long count,
		       uint64_t seed, volatile uint32_t *ack)
{
	struct sleeper s = { .in = in, .fd = fd };
	struct mapping m;
	uint64_t pos = 0;
	uint8_t b[256];

	alarm(MAP_LONG_MS / 1000 + 5);
	if (mapping_open(&m, fd))
		return 1;
	s.m = &m;
	if (!sleeper_init(&s, EPOLLIN))
		return 2;
	*ack = 1;
	while (pos < (uint64_t)count) {
		int n = sleeper_wait(&s, POLLIN, b);

		if (n < 0)
			return 3;
		for (;;) {
			if (n > 0 && l5_check(b, n, pos) >= 0)
				return 4;
			pos += n;
			if (mapped)
				n = mapping_get(&m, b, sizeof(b));
			else
				n = recv(fd, b, sizeof(b), MSG_DONTWAIT);
			if (n < 0 && !mapped && errno == EAGAIN)
				n = 0;
			if (n < 0)
				return 5;
			if (!n)
				break;
		}
		if (l5_rnd(&seed) % 4 == 0)
			usleep(l5_rnd(&seed) % 300);
		*ack = pos + 1;
	}
	return 0;
}

/* Each message is sent when the one before was read: none wakes for another. */
TEST_F_TIMEOUT(live, doorbell_wakes, 600)
{
	volatile uint32_t *ack = map_shared(4096);
	uint64_t seed = new_seed(_metadata) | 1;
	unsigned long bells = 0;
	int k, i, status;

	for (k = 0; k < IN_MAX * 2; k++) {
		enum sleep_in in = k / 2;
		enum { COUNT = 60 };
		struct mapping m;
		int64_t end;
		uint8_t b;
		pid_t pid;

		ASSERT_TRUE(map_again(variant->at, self->fd));
		*ack = 0;
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid)
			_exit(sleep_often(self->fd[1], in, k & 1, COUNT, seed,
					  ack));
		ASSERT_EQ(0, mapping_open(&m, self->fd[0]));
		end = l5_now_ms() + MAP_LONG_MS;
		for (i = 0; i < COUNT; i++) {
			while (*ack != (uint32_t)i + 1 && l5_now_ms() < end)
				sched_yield();
			if (*ack != (uint32_t)i + 1)
				break;
			/* now while it falls asleep, now while it sleeps */
			if (l5_rnd(&seed) % 4 == 0)
				usleep(l5_rnd(&seed) % 3000);
			else if (l5_rnd(&seed) & 1)
				usleep(l5_rnd(&seed) % 100);
			l5_fill(&b, 1, i);
			ASSERT_EQ(1, mapping_put(&m, &b, 1));
		}
		EXPECT_EQ(COUNT, i) {
			TH_LOG("%s, reads %s: sleeps though %d are sent",
			       sleep_name[in], k & 1 ? "mapped" : "by recv", i);
			kill(pid, SIGKILL);
		}
		status = map_reap(pid);
		EXPECT_EQ(0, status) {
			TH_LOG("%s: %x", sleep_name[in], status);
		}
		bells += m.bells;
		mapping_close(&m);
	}
	TH_LOG("%lu doorbells", bells);
	EXPECT_LT(0, bells);
}

/* The same for room: a writer sleeps, a mapped reader empties the ring. */
static int write_much(int fd, enum sleep_in in, bool mapped, long total)
{
	struct sleeper s = { .in = in, .fd = fd };
	static uint8_t b[5000];
	struct mapping m;
	long done = 0;

	alarm(MAP_LONG_MS / 1000 + 5);
	if (mapping_open(&m, fd))
		return 1;
	s.m = &m;
	if (in == IN_ARMED)
		s.in = IN_POLL;
	if (!sleeper_init(&s, EPOLLOUT))
		return 2;
	while (done < total) {
		long want = total - done < (long)sizeof(b) ? total - done :
			    (long)sizeof(b), n;
		int flags = MSG_NOSIGNAL | (in == IN_RECV ? 0 : MSG_DONTWAIT);

		l5_fill(b, want, done);
		if (mapped)
			n = mapping_send(&m, b, want, flags);
		else
			n = send(fd, b, want, flags);
		if (n < 0 && errno == EAGAIN) {
			if (in == IN_ARMED &&
			    ioctl(fd, L5_IOC_ARM, L5_BELL_ROOM))
				continue;
			if (sleeper_wait(&s, POLLOUT, NULL) < 0)
				return 3;
			continue;
		}
		if (n < 0)
			return 4;
		done += n;
	}
	return 0;
}

TEST_F_TIMEOUT(live, room_wakes, 600)
{
	static const enum sleep_in ways[] = {
		IN_RECV, IN_POLL, IN_SELECT, IN_EPOLL, IN_EPOLLET, IN_ONESHOT,
		IN_NESTED, IN_URING_POLL, IN_SIGIO, IN_ARMED
	};
	uint64_t seed = new_seed(_metadata) | 1;
	unsigned int k;

	ASSERT_LE(0, l5_sysctl("ring_kb", 16));
	for (k = 0; k < ARRAY_SIZE(ways) * 2; k++) {
		enum { TOTAL = 400000 };
		static uint8_t b[20000];
		struct mapping m;
		uint64_t pos = 0;
		int64_t end;
		int status;
		pid_t pid;

		ASSERT_TRUE(map_again(variant->at, self->fd));
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid)
			_exit(write_much(self->fd[1], ways[k / 2], k & 1,
					 TOTAL));
		ASSERT_EQ(0, mapping_open(&m, self->fd[0]));
		end = l5_now_ms() + MAP_LONG_MS;
		while (pos < TOTAL && l5_now_ms() < end) {
			ssize_t n = mapping_get(&m, b, sizeof(b));

			ASSERT_LE(0, n);
			if (!n) {
				sched_yield();
				continue;
			}
			ASSERT_EQ(-1, l5_check(b, n, pos));
			pos += n;
			/* let it fill up and sleep, now and then */
			if (l5_rnd(&seed) % 4 == 0)
				usleep(l5_rnd(&seed) % 2000);
		}
		EXPECT_EQ(TOTAL, pos) {
			TH_LOG("%s, writes %s", sleep_name[ways[k / 2]],
			       k & 1 ? "mapped" : "by send");
			kill(pid, SIGKILL);
		}
		status = map_reap(pid);
		EXPECT_EQ(0, status) {
			TH_LOG("%s: %x", sleep_name[ways[k / 2]], status);
		}
		mapping_close(&m);
	}
}

/* L5_IOC_ARM says what needs no waiting, and arms the rest. */
TEST_F_TIMEOUT(live, arm, 120)
{
	const int both = L5_BELL_DATA | L5_BELL_ROOM;
	static uint8_t b[FLOW_MAX];
	struct mapping m, o;
	struct pollfd p;
	int fd;

	ASSERT_EQ(0, mapping_open(&m, self->fd[0]));
	ASSERT_EQ(0, mapping_open(&o, self->fd[1]));
	fd = self->fd[0];
	EXPECT_EQ(0, ioctl(fd, L5_IOC_ARM, L5_BELL_DATA));
	EXPECT_NE(0, l5_load(&m.own->rx_wait));
	EXPECT_NE(0, l5_load(&o.peer->rx_wait));
	EXPECT_EQ(L5_BELL_ROOM, ioctl(fd, L5_IOC_ARM, L5_BELL_ROOM));
	EXPECT_EQ(L5_BELL_ROOM, ioctl(fd, L5_IOC_ARM, both));
	/* the doorbell of a mapped peer clears the word, with a wake */
	ASSERT_EQ(5, mapping_put(&o, "hello", 5));
	EXPECT_EQ(0, l5_load(&m.own->rx_wait));
	EXPECT_EQ(L5_BELL_DATA, ioctl(fd, L5_IOC_ARM, L5_BELL_DATA));
	EXPECT_EQ(both, ioctl(fd, L5_IOC_ARM, both));
	p.fd = fd;
	p.events = POLLIN;
	EXPECT_EQ(1, poll(&p, 1, 0));
	ASSERT_EQ(5, mapping_get(&m, b, 100));
	EXPECT_EQ(0, ioctl(fd, L5_IOC_ARM, L5_BELL_DATA));
	/* full */
	while (mapping_put(&m, b, sizeof(b)) > 0)
		;
	EXPECT_EQ(0, ioctl(fd, L5_IOC_ARM, L5_BELL_ROOM));
	EXPECT_NE(0, l5_load(&m.own->tx_wait));
	p.events = POLLOUT;
	EXPECT_EQ(0, poll(&p, 1, 0));
	while (mapping_get(&o, b, sizeof(b)) > 0)
		;
	EXPECT_LT(0, o.bells);
	EXPECT_EQ(0, l5_load(&m.own->tx_wait));
	EXPECT_EQ(1, poll(&p, 1, 0));
	EXPECT_EQ(L5_BELL_ROOM, ioctl(fd, L5_IOC_ARM, L5_BELL_ROOM));
	/* the end needs no waiting either */
	EXPECT_EQ(0, ioctl(fd, L5_IOC_ARM, L5_BELL_DATA));
	close(self->fd[1]);
	EXPECT_TRUE(UNTIL(ioctl(fd, L5_IOC_ARM, L5_BELL_DATA) ==
			  L5_BELL_DATA));
	mapping_close(&m);
	mapping_close(&o);
	self->fd[1] = -1;
}

static bool flag_comes(struct mapping *m, uint32_t flag)
{
	return UNTIL(l5_load_acquire(&m->state->flags) & flag);
}

/* How it ends is seen in the state page, and the system calls say why. */
TEST_F_TIMEOUT(live, ends_are_seen, 300)
{
	struct linger hard = { .l_onoff = 1 };
	struct mapping m, o;
	uint32_t gen;
	uint8_t b[100];
	int way, e, status;
	pid_t pid;

	for (way = 0; way < 12; way++) {
		int a, z;

		e = way & 1;
		ASSERT_TRUE(map_again(variant->at, self->fd));
		a = self->fd[e];
		z = self->fd[!e];
		ASSERT_EQ(0, mapping_open(&m, a));
		ASSERT_EQ(0, mapping_open(&o, z));
		gen = l5_load(&m.state->generation);
		EXPECT_EQ(0, l5_load(&m.state->flags) & (L5_MAP_TX_ASK |
							 L5_MAP_RX_ASK));
		l5_fill(b, 100, 0);
		ASSERT_EQ(100, mapping_put(&o, b, 100));
		switch (way / 2) {
		case 0:
			/* the peer closes */
			close(z);
			EXPECT_TRUE(flag_comes(&m, L5_MAP_RX_ASK));
			EXPECT_TRUE(flag_comes(&m, L5_MAP_TX_ASK));
			ASSERT_EQ(100, mapping_get(&m, b, 100));
			EXPECT_EQ(-1, l5_check(b, 100, 0));
			EXPECT_EQ(0, mapping_recv(&m, b, 100, 0));
			break;
		case 1:
			/* sends no more, but reads */
			ASSERT_EQ(0, shutdown(z, SHUT_WR));
			EXPECT_TRUE(flag_comes(&m, L5_MAP_RX_ASK));
			EXPECT_TRUE(flag_comes(&o, L5_MAP_TX_ASK));
			ASSERT_EQ(100, mapping_recv(&m, b, 100, 0));
			EXPECT_EQ(0, mapping_recv(&m, b, 100, 0));
			EXPECT_EQ(-1, mapping_send(&o, b, 1, MSG_NOSIGNAL));
			EXPECT_EQ(EPIPE, errno);
			l5_fill(b, 100, 5);
			ASSERT_EQ(100, mapping_send(&m, b, 100, 0));
			memset(b, 0, 100);
			ASSERT_EQ(100, mapping_recv(&o, b, 100, 0));
			EXPECT_EQ(-1, l5_check(b, 100, 5));
			break;
		case 2:
			/* this end sends no more */
			ASSERT_EQ(0, shutdown(a, SHUT_WR));
			EXPECT_TRUE(flag_comes(&m, L5_MAP_TX_ASK));
			EXPECT_EQ(0, mapping_put(&m, b, 1));
			EXPECT_EQ(-1, mapping_send(&m, b, 1, MSG_NOSIGNAL));
			EXPECT_EQ(EPIPE, errno);
			ASSERT_EQ(100, mapping_recv(&m, b, 100, 0));
			EXPECT_TRUE(flag_comes(&o, L5_MAP_RX_ASK));
			EXPECT_EQ(0, mapping_recv(&o, b, 100, 0));
			break;
		case 3:
			/* reset */
			setsockopt(z, SOL_SOCKET, SO_LINGER, &hard,
				   sizeof(hard));
			close(z);
			EXPECT_TRUE(flag_comes(&m, L5_MAP_RX_ASK));
			EXPECT_TRUE(flag_comes(&m, L5_MAP_TX_ASK));
			break;
		case 4:
			/* bytes unread at close are a reset, too */
			ASSERT_EQ(50, mapping_put(&m, b, 50));
			close(z);
			EXPECT_TRUE(flag_comes(&m, L5_MAP_RX_ASK));
			ASSERT_EQ(100, mapping_get(&m, b, 100));
			EXPECT_EQ(-1, mapping_recv(&m, b, 100, 0));
			EXPECT_EQ(ECONNRESET, errno);
			break;
		default:
			/* killed: a process has the only other end */
			pid = fork();
			ASSERT_LE(0, pid);
			if (!pid) {
				pause();
				_exit(0);
			}
			close(z);
			usleep(10000);
			EXPECT_EQ(0, l5_load(&m.state->flags) &
				  (L5_MAP_TX_ASK | L5_MAP_RX_ASK));
			kill(pid, SIGKILL);
			status = map_reap(pid);
			EXPECT_TRUE(WIFSIGNALED(status));
			EXPECT_TRUE(flag_comes(&m, L5_MAP_RX_ASK));
			ASSERT_EQ(100, mapping_get(&m, b, 100));
			EXPECT_EQ(0, mapping_recv(&m, b, 100, 0));
		}
		EXPECT_NE(gen, l5_load(&m.state->generation)) {
			TH_LOG("way %d", way / 2);
		}
		mapping_close(&o);
		/* who goes on sending is told, as by TCP */
		if (way / 2 != 1) {
			for (status = 0; status < 100; status++) {
				if (mapping_send(&m, b, 1, MSG_NOSIGNAL) < 0)
					break;
				usleep(1000);
			}
			EXPECT_GT(100, status) {
				TH_LOG("way %d", way / 2);
			}
			EXPECT_TRUE(errno == EPIPE || errno == ECONNRESET);
		}
		mapping_close(&m);
	}
}

/* The peer goes while bytes are being published, at any moment. */
TEST_F_TIMEOUT(live, close_races_mapped_send, 300)
{
	uint64_t seed = new_seed(_metadata) | 1;
	int round, status;

	for (round = 0; round < 60; round++) {
		unsigned int nap = l5_rnd(&seed) % 3000;
		struct mapping m;
		uint8_t b[500];
		int64_t end;
		ssize_t n;
		pid_t pid;

		ASSERT_TRUE(map_again(variant->at, self->fd));
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			close(self->fd[0]);
			usleep(nap);
			do
				n = round & 1 ? recv(self->fd[1], b, sizeof(b),
						     MSG_DONTWAIT) : 0;
			while (n > 0);
			close(self->fd[1]);
			_exit(0);
		}
		close(self->fd[1]);
		self->fd[1] = -1;
		ASSERT_EQ(0, mapping_open(&m, self->fd[0]));
		memset(b, 1, sizeof(b));
		end = l5_now_ms() + MAP_LONG_MS;
		do {
			n = mapping_send(&m, b, 1 + l5_rnd(&seed) % 500,
					 MSG_NOSIGNAL);
			if (n < 0)
				break;
			if (l5_rnd(&seed) % 8 == 0)
				usleep(100);
		} while (l5_now_ms() < end);
		EXPECT_EQ(-1, n);
		EXPECT_TRUE(errno == EPIPE || errno == ECONNRESET) {
			TH_LOG("%s", strerror(errno));
		}
		n = mapping_recv(&m, b, 1, 0);
		EXPECT_TRUE(!n || errno == ECONNRESET || errno == EPIPE);
		mapping_close(&m);
		status = map_reap(pid);
		EXPECT_EQ(0, status);
	}
	EXPECT_EQ(0, l5_stat("violations"));
}

/* A mapping does not keep the socket, and is harmless without. */
TEST_F_TIMEOUT(live, close_while_mapped, 120)
{
	struct mapping m, o;
	struct pollfd p;
	int e, err, k;
	uint8_t b[100];

	for (k = 0; k < 4; k++) {
		e = k & 1;
		ASSERT_EQ(0, mapping_open(&m, self->fd[e]));
		ASSERT_EQ(0, mapping_open(&o, self->fd[!e]));
		l5_fill(b, 100, 0);
		ASSERT_EQ(100, mapping_put(&m, b, 100));
		close(self->fd[e]);
		p.fd = self->fd[!e];
		p.events = POLLIN | POLLRDHUP;
		ASSERT_EQ(1, poll(&p, 1, MAP_LONG_MS));
		EXPECT_TRUE(UNTIL(poll(&p, 1, 0) == 1 &&
				  p.revents & POLLRDHUP));
		/* scribbles of who is gone do not trouble who is there */
		if (k < 2) {
			memset(m.own, 0x80, 4096);
			memset(m.tx + 200, 0x80, m.tx_size - 200);
			EXPECT_EQ(0, map_touch(m.rx, false));
			for (err = 0; err < 50; err++)
				if (mapping_recv(&o, b, 100, 0) <= 0)
					break;
			EXPECT_GT(50, err);
		} else {
			EXPECT_EQ(100, end_drain(self->fd[!e], 0, &err));
			EXPECT_EQ(0, err);
		}
		close(self->fd[!e]);
		/* both gone, and sooner or later the rings: still memory */
		EXPECT_EQ(0, map_touch(m.own, true));
		EXPECT_EQ(0, map_touch(o.own, true));
		EXPECT_EQ(0, map_touch(m.peer, false));
		EXPECT_EQ(0, map_touch(m.tx + m.tx_size, true));
		mapping_close(&m);
		mapping_close(&o);
		ASSERT_TRUE(map_pair(variant->at, &self->fd[0], &self->fd[1]));
	}
}

/* A socket that is used again has nothing to do with what it was. */
TEST_F_TIMEOUT(live, disconnected, 120)
{
	struct sockaddr un = { .sa_family = AF_UNSPEC };
	struct addr to = addr_parse(variant->at);
	struct mapping m, n;
	struct l5_map_info info;
	uint8_t b[300];
	int l, s, fd = self->fd[0];

	if (to.sa.sa_family == AF_UNIX)
		SKIP(return, "AF_UNIX stays connected");
	ASSERT_EQ(0, mapping_open(&m, fd));
	l5_fill(b, sizeof(b), 0);
	ASSERT_EQ(300, send(self->fd[1], b, 300, 0));
	ASSERT_EQ(100, mapping_get(&m, b, 100));
	ASSERT_EQ(0, connect(fd, &un, sizeof(un)));
	/* what was unread is gone, by either way */
	EXPECT_NE(0, l5_load(&m.state->flags) & L5_MAP_LEAVE);
	EXPECT_GT(1, mapping_recv(&m, b, 300, MSG_DONTWAIT));
	EXPECT_EQ(-ENOTCONN, mapping_info(fd, &info));
	EXPECT_EQ(-1, ioctl(fd, L5_IOC_ARM, L5_BELL_DATA));
	EXPECT_EQ(-1, recv(self->fd[1], b, 1, 0));
	EXPECT_EQ(ECONNRESET, errno);
	/* connected again, with the old memory still there */
	l = end_listen(END_L5, &to);
	ASSERT_LE(0, l);
	if (connect(fd, &to.sa, to.len)) {
		TH_LOG("not connected again: %s", strerror(errno));
		close(l);
		mapping_close(&m);
		return;
	}
	s = accept(l, NULL, NULL);
	ASSERT_LE(0, s);
	close(l);
	l5_fill(b, sizeof(b), 9);
	ASSERT_EQ(300, mapping_send(&m, b, 300, 0));
	EXPECT_TRUE(end_get(s, 300, 9));
	EXPECT_TRUE(end_put(s, 300, 9));
	memset(b, 0, sizeof(b));
	EXPECT_EQ(300, mapping_recv(&m, b, 300, 0));
	EXPECT_EQ(-1, l5_check(b, 300, 9));
	if (l5_transport(fd) == L5_TRANSPORT_SHM) {
		ASSERT_EQ(0, mapping_info(fd, &info));
		EXPECT_EQ(0, info.id);
		ASSERT_EQ(0, mapping_open(&n, fd));
		/* locks left behind are locks of what was left behind */
		l5_store(&m.own->tx_lock, n.id);
		l5_store(&m.own->rx_lock, m.id);
		memset(m.tx, 0xff, m.tx_size);
		ASSERT_EQ(300, mapping_put(&n, b, 300));
		EXPECT_TRUE(end_get(s, 300, 9));
		EXPECT_TRUE(end_exchange(fd, s, 100000, 0));
		mapping_close(&n);
	}
	mapping_close(&m);
	EXPECT_TRUE(end_exchange(fd, s, 100000, 0));
	close(s);
}

TEST_F_TIMEOUT(live, dup_is_the_same, 120)
{
	struct mapping m, n, o;
	uint8_t b[100];
	int d = dup(self->fd[0]), err;

	ASSERT_LE(0, d);
	ASSERT_EQ(0, mapping_open(&m, self->fd[0]));
	ASSERT_EQ(0, mapping_open(&n, d));
	ASSERT_EQ(0, mapping_open(&o, self->fd[1]));
	/* one process, one number */
	EXPECT_EQ(m.id, n.id);
	l5_fill(b, 100, 0);
	ASSERT_EQ(60, mapping_put(&m, b, 60));
	ASSERT_EQ(40, mapping_put(&n, b + 60, 40));
	close(self->fd[0]);
	memset(b, 0, 100);
	ASSERT_EQ(100, mapping_get(&o, b, 100));
	EXPECT_EQ(-1, l5_check(b, 100, 0));
	/* still open by the other name */
	EXPECT_EQ(0, l5_load(&o.state->flags) & L5_MAP_RX_ASK);
	ASSERT_EQ(100, mapping_put(&n, b, 100));
	ASSERT_TRUE(end_get(self->fd[1], 100, 0));
	close(d);
	EXPECT_TRUE(flag_comes(&o, L5_MAP_RX_ASK));
	EXPECT_EQ(0, end_drain(self->fd[1], 0, &err));
	mapping_close(&m);
	mapping_close(&n);
	mapping_close(&o);
	self->fd[0] = -1;
}

/*
 * Several processes have the same end and take turns, each with a mapping of
 * its own or none, sending and receiving pieces of one stream.
 */
struct turns {
	uint32_t turn;
	uint32_t id[4];
	uint64_t in, out;
};

static int take_turns(struct turns *t, int me, int of, int fd, bool mapped,
		      int rounds)
{
	struct mapping m;
	uint8_t b[700];
	int i;

	alarm(MAP_LONG_MS / 1000 + 5);
	if (mapped && mapping_open(&m, fd))
		return 1;
	if (mapped)
		l5_store(&t->id[me], m.id);
	for (i = 0; i < rounds; i++) {
		size_t n = 1 + (i * 37 + me * 101) % sizeof(b);
		uint64_t pos;
		ssize_t k;

		while (l5_load_acquire(&t->turn) % of != (uint32_t)me)
			usleep(50);
		l5_fill(b, n, t->in);
		k = mapped ? mapping_send(&m, b, n, MSG_NOSIGNAL) :
		    send(fd, b, n, MSG_NOSIGNAL);
		if (k != (ssize_t)n)
			return 2;
		t->in += n;
		/* the echo of some of it, perhaps of another's */
		pos = t->out;
		k = mapped ? mapping_recv(&m, b, n, 0) : recv(fd, b, n, 0);
		if (k <= 0 || l5_check(b, k, pos) >= 0)
			return 3;
		t->out += k;
		l5_store_release(&t->turn, t->turn + 1);
	}
	return 0;
}

/* Sends back what comes, until the end. */
static int echo(int fd, bool mapped)
{
	struct mapping m;
	uint8_t b[1000];
	ssize_t n;

	alarm(MAP_LONG_MS / 1000 + 5);
	if (mapped && mapping_open(&m, fd))
		return 1;
	for (;;) {
		n = mapped ? mapping_recv(&m, b, sizeof(b), 0) :
		    recv(fd, b, sizeof(b), 0);
		if (n <= 0)
			return n ? 2 : 0;
		if ((mapped ? mapping_send(&m, b, n, MSG_NOSIGNAL) :
		     send(fd, b, n, MSG_NOSIGNAL)) != n)
			return 3;
	}
}

TEST_F_TIMEOUT(live, processes_share_an_end, 300)
{
	enum { OF = 4, ROUNDS = 60 };
	int k, i, status;

	for (k = 0; k < 2; k++) {
		struct turns *t = map_shared(4096);
		pid_t pid[OF], other;
		int via[2];

		ASSERT_TRUE(map_again(variant->at, self->fd));
		other = fork();
		ASSERT_LE(0, other);
		if (!other) {
			close(self->fd[0]);
			_exit(echo(self->fd[1], k));
		}
		close(self->fd[1]);
		ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, via));
		for (i = 0; i < OF; i++) {
			pid[i] = fork();
			ASSERT_LE(0, pid[i]);
			if (pid[i])
				continue;
			/* inherited by some, passed on to others */
			if (i & 1) {
				close(self->fd[0]);
				self->fd[0] = end_take(via[1]);
			}
			_exit(take_turns(t, i, OF, self->fd[0], i != 2,
					 ROUNDS));
		}
		for (i = 1; i < OF; i += 2)
			ASSERT_TRUE(end_pass(via[0], self->fd[0]));
		close(self->fd[0]);
		for (i = 0; i < OF; i++) {
			status = map_reap(pid[i]);
			EXPECT_EQ(0, status) {
				TH_LOG("process %d: %x", i, status);
			}
		}
		EXPECT_NE(0, t->id[0]);
		EXPECT_NE(0, t->id[1]);
		EXPECT_NE(t->id[0], t->id[1]);
		EXPECT_NE(t->id[1], t->id[3]);
		EXPECT_NE(t->id[0], t->id[3]);
		status = map_reap(other);
		/* it may be left with bytes that nobody fetched: a reset */
		EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) != 1) {
			TH_LOG("echo: %x", status);
		}
		close(via[0]);
		close(via[1]);
		munmap(t, 4096);
	}
	self->fd[0] = self->fd[1] = -1;
	EXPECT_TRUE(end_stat_reaches("pairs", 0));
	EXPECT_TRUE(end_stat_reaches("rings_kb", 0));
	EXPECT_EQ(0, l5_stat("violations"));
}

/* A child maps for itself while its parent goes on, or does not. */
TEST_F_TIMEOUT(live, child_maps_anew, 120)
{
	struct mapping m, o;
	uint8_t b[2000];
	int k, status;
	pid_t pid;

	for (k = 0; k < 2; k++) {
		ASSERT_EQ(0, mapping_open(&m, self->fd[0]));
		ASSERT_EQ(0, mapping_open(&o, self->fd[1]));
		l5_fill(b, 2000, 0);
		ASSERT_EQ(500, mapping_put(&m, b, 500));
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			struct mapping n;

			if (map_touch(m.own, false) != SIGSEGV)
				_exit(1);
			if (mapping_open(&n, self->fd[0]) || n.id == m.id)
				_exit(2);
			if (k)
				close(self->fd[1]);
			l5_fill(b, 2000, 0);
			if (mapping_put(&n, b + 500, 700) != 700)
				_exit(3);
			_exit(0);
		}
		if (k)
			mapping_close(&m);
		status = map_reap(pid);
		EXPECT_EQ(0, status);
		ASSERT_EQ(800, k ? send(self->fd[0], b + 1200, 800, 0) :
			  mapping_put(&m, b + 1200, 800));
		memset(b, 0, sizeof(b));
		ASSERT_EQ(2000, mapping_get(&o, b, 2000));
		EXPECT_EQ(-1, l5_check(b, 2000, 0));
		if (!k)
			mapping_close(&m);
		mapping_close(&o);
	}
}

/* What the program is when exec handed it a socket. */
static __attribute__((constructor)) void after_exec(void)
{
	const char *fd = getenv(ENV_FD);

	if (fd)
		_exit(echo(atoi(fd), true));
}

TEST_F_TIMEOUT(live, exec_maps_again, 120)
{
	uint8_t b[3000];
	struct mapping o;
	int status;
	pid_t pid;

	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		struct mapping m;
		char text[16];
		int fd = dup(self->fd[0]);	/* without O_CLOEXEC */

		/* mapped, and holding a lock word, when it goes */
		if (mapping_open(&m, fd))
			_exit(1);
		mapping_lock(&m, L5_LOCK_TX);
		mapping_lock(&m, L5_LOCK_RX);
		snprintf(text, sizeof(text), "%d", fd);
		setenv(ENV_FD, text, 1);
		execl("/proc/self/exe", "map_live", NULL);
		_exit(1);
	}
	close(self->fd[0]);
	self->fd[0] = -1;
	ASSERT_EQ(0, mapping_open(&o, self->fd[1]));
	l5_fill(b, sizeof(b), 0);
	ASSERT_EQ(3000, mapping_send(&o, b, 3000, 0));
	EXPECT_TRUE(end_get(self->fd[1], 3000, 0));
	ASSERT_EQ(0, shutdown(self->fd[1], SHUT_WR));
	status = map_reap(pid);
	EXPECT_EQ(0, status);
	EXPECT_TRUE(flag_comes(&o, L5_MAP_RX_ASK));
	mapping_close(&o);
}

/* Threads share a mapping: many producers, many consumers, whole messages. */
#define MSG		64
#define THREADS		3

struct many {
	pthread_t thread;
	struct mapping *m;
	int who, count;
	long bad, got, sum;
	uint64_t seed;
};

static void *many_send(void *arg)
{
	struct many *t = arg;
	uint32_t msg[MSG / 4];
	int i, k;

	for (i = 0; i < t->count; i++) {
		for (k = 0; k < MSG / 4; k++)
			msg[k] = t->who << 24 | i;
		/* the kernel sends now and then */
		if (l5_rnd(&t->seed) % 8)
			t->bad += mapping_send(t->m, msg, MSG, 0) != MSG;
		else
			t->bad += send(t->m->fd, msg, MSG, 0) != MSG;
	}
	return NULL;
}

static void *many_recv(void *arg)
{
	struct many *t = arg;
	uint32_t msg[MSG / 4], last[THREADS] = { 0 };
	ssize_t n;
	int k;

	for (;;) {
		if (l5_rnd(&t->seed) % 8)
			n = mapping_recv(t->m, msg, MSG, 0);
		else
			n = recv(t->m->fd, msg, MSG, 0);
		if (n != MSG) {
			t->bad += n != 0;
			return NULL;
		}
		for (k = 1; k < MSG / 4; k++)
			t->bad += msg[k] != msg[0];
		if (msg[0] >> 24 >= THREADS) {
			t->bad++;
			continue;
		}
		/* each sender's come in order, if not all to us */
		k = (msg[0] & 0xffffff) + 1;
		t->bad += (uint32_t)k <= last[msg[0] >> 24];
		last[msg[0] >> 24] = k;
		t->got++;
		t->sum += msg[0] & 0xffffff;
	}
}

TEST_F_TIMEOUT(live, threads_share_a_mapping, 300)
{
	enum { COUNT = 1500 };
	struct many t[2 * THREADS];
	struct mapping m, o;
	long got = 0, sum = 0;
	int k, i;

	for (k = 0; k < 2; k++) {
		ASSERT_LE(0, l5_sysctl("ring_kb", k ? 64 : 4));
		ASSERT_TRUE(map_again(variant->at, self->fd));
		ASSERT_EQ(0, mapping_open(&m, self->fd[0]));
		ASSERT_EQ(0, mapping_open(&o, self->fd[1]));
		memset(t, 0, sizeof(t));
		got = sum = 0;
		for (i = 0; i < 2 * THREADS; i++) {
			t[i].who = i % THREADS;
			t[i].count = COUNT;
			t[i].seed = 77 + i;
			t[i].m = i < THREADS ? &m : &o;
			ASSERT_EQ(0, pthread_create(&t[i].thread, NULL,
						    i < THREADS ? many_send :
						    many_recv, &t[i]));
		}
		for (i = 0; i < 2 * THREADS; i++) {
			pthread_join(t[i].thread, NULL);
			EXPECT_EQ(0, t[i].bad);
			got += t[i].got;
			sum += t[i].sum;
			if (i == THREADS - 1)
				shutdown(self->fd[0], SHUT_WR);
		}
		EXPECT_EQ(THREADS * COUNT, got);
		EXPECT_EQ(THREADS * (COUNT * (COUNT - 1L) / 2), sum);
		mapping_close(&m);
		mapping_close(&o);
	}
	EXPECT_EQ(0, l5_stat("violations"));
}

TEST_HARNESS_MAIN
