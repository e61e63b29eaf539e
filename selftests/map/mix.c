// SPDX-License-Identifier: GPL-2.0
/*
 * Mapped traffic and system calls on the same sockets: a program that mixes
 * them, in whatever order, sees one stream.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "map_pair.h"
#include "uring.h"

MAP_PAIR_FIXTURE(map_mix, 64)

/* How an end moves bytes. */
enum how { MAPPED, KERNEL, MIXED, HOW_MAX };

static const char *const how_name[] = { "mapped", "kernel", "mixed" };

/**
 * struct flow - one direction at one end
 * @thread: that moves the bytes
 * @fd: the socket
 * @m: its mapping, NULL with KERNEL
 * @how: see &enum how
 * @sends: the thread sends; else it receives
 * @total: bytes to move
 * @base: position of the first
 * @seed: of what happens
 * @uring: of this thread, if @has_uring
 * @has_uring: io_uring could be set up
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

/* Sleep until something may be there, by the rules for mapped sleepers. */
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

/* What is there is to be had by the mapping, or the ring is not mapped now. */
static long get_now(struct flow *f, uint8_t *b, long want)
{
	long n = mapping_get(f->m, b, want);

	if (n || !(l5_load_acquire(&f->m->state->flags) & L5_MAP_GONE))
		return n;
	return recv(f->fd, b, want, MSG_DONTWAIT);
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
			return get_now(f, b, n);
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
			n = get_now(f, b, k);
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
	/* a thread that fails must not leave the other waiting */
	if (*f->error)
		shutdown(f->fd, SHUT_RDWR);
	free(b);
	return NULL;
}

/* Are there rings that grow meanwhile, and are not mapped any more? */
static bool grows;

/* An end in this process; its exit code. */
static int end_run(int fd, enum how how, long out, long in, bool client,
		   uint64_t seed)
{
	struct mapping m;
	struct flow f[2];
	int i, bad = 0, err = 0;

	alarm(MAP_LONG_MS / 1000 + 5);
	if (how != KERNEL)
		err = mapping_open(&m, fd);
	/* the other end was quick, and its ring has grown */
	if (grows && err == -EOPNOTSUPP) {
		how = KERNEL;
	} else if (err) {
		fprintf(stderr, "# cannot map: %s\n", strerror(-err));
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
	/* it may have grown before that */
	if (how == MAPPED && !(m.puts + m.gets) &&
	    !(grows && m.state->flags & L5_MAP_GONE)) {
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
		status = l5_reap(pid[i]);
		EXPECT_EQ(0, status) {
			TH_LOG("%s with %s, seed %llu: %s %s (%x)",
			       how_name[a], how_name[b],
			       (unsigned long long)seed, i ? "server" :
			       "client", status == -1 ? "hangs" : "fails",
			       status);
		}
	}
}

TEST_F_TIMEOUT(map_mix, every_combination, 600)
{
	static const long kb[] = { 4, 16, 256, 16 };
	uint64_t seed = l5_seed();
	unsigned int i, a, b;

	for (i = 0; i < ARRAY_SIZE(kb); i++) {
		ASSERT_LE(0, l5_sysctl("ring_kb", kb[i]));
		/* at last with rings that grow in the middle of it */
		grows = i == 3;
		ASSERT_LE(0, l5_sysctl("grow_ms", grows ? 2 : 0));
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

TEST_F_TIMEOUT(map_mix, mappings_come_and_go, 300)
{
	uint64_t seed = l5_seed();
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
		status = l5_reap(pid);
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

TEST_F_TIMEOUT(map_mix, one_step_after_the_other, 300)
{
	uint64_t seed = l5_seed() | 1;
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
			/* mapped amid traffic, perhaps for a while */
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
TEST_F_TIMEOUT(map_mix, parts_of_a_record, 120)
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

TEST_HARNESS_MAIN
