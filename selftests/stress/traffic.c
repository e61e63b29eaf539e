// SPDX-License-Identifier: GPL-2.0
/*
 * Many connections at once with random traffic both ways: every byte is
 * checked by its position, every call that can move bytes takes its turn.
 */
#include <kselftest_harness.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

#include "ends.h"

#define CONNS		64
#define BIGGEST		(300 << 10)

FIXTURE(stress_traffic) {
	int family;
	int proto;
};

FIXTURE_VARIANT(stress_traffic) {
	int dom;
	int proto;
};

FIXTURE_VARIANT_ADD(stress_traffic, inet) { AF_INET, L5PROTO_INET };
FIXTURE_VARIANT_ADD(stress_traffic, inet6) { AF_INET6, L5PROTO_INET6 };
FIXTURE_VARIANT_ADD(stress_traffic, unix) { AF_UNIX, L5PROTO_UNIX };

FIXTURE_SETUP(stress_traffic)
{
	/* L5_DIFF=self: without the module, to test the test. */
	const char *s = getenv("L5_DIFF");

	if (s && !strcmp(s, "self")) {
		self->family = variant->dom;
		self->proto = 0;
		return;
	}
	self->family = l5_family();
	self->proto = variant->proto;
	if (!l5_present()) {
		if (getenv("L5_REQUIRED"))
			ASSERT_TRUE(l5_present());
		SKIP(return, "no AF_L5 here");
	}
}

FIXTURE_TEARDOWN(stress_traffic)
{
	(void)self;
	(void)variant;
	(void)_metadata;
}

struct job {
	pthread_t thread;
	int fd;
	bool sends;
	long total;		/* bytes this direction carries */
	uint64_t seed;
	uint64_t base;		/* position of its first byte */
	char error[120];
	long moved;
};

#define FAIL(...) do {							\
	snprintf(j->error, sizeof(j->error), __VA_ARGS__);		\
	goto out;							\
} while (0)

static long send_some(struct job *j, char *b, long want, uint64_t pos)
{
	struct iovec v[3];
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 3 };
	struct mmsghdr mm[2];
	unsigned int r = l5_rnd(&j->seed);
	long cut1 = r % (want + 1), cut2 = cut1 + (want - cut1) / 2;
	int n;

	l5_fill(b, want, pos);
	v[0] = (struct iovec){ b, cut1 };
	v[1] = (struct iovec){ b + cut1, cut2 - cut1 };
	v[2] = (struct iovec){ b + cut2, want - cut2 };
	switch (l5_rnd(&j->seed) % 9) {
	case 0:
		return write(j->fd, b, want);
	case 1:
		return writev(j->fd, v, 3);
	case 2:
		return sendmsg(j->fd, &m, MSG_NOSIGNAL);
	case 3:
		memset(mm, 0, sizeof(mm));
		mm[0].msg_hdr.msg_iov = v;
		mm[0].msg_hdr.msg_iovlen = 1;
		mm[1].msg_hdr.msg_iov = v + 1;
		mm[1].msg_hdr.msg_iovlen = 2;
		n = sendmmsg(j->fd, mm, 2, MSG_NOSIGNAL);
		if (n < 1)
			return -1;
		/* A blocking send is complete unless it failed. */
		return mm[0].msg_len + (n == 2 ? mm[1].msg_len : 0);
	case 4:
		return sendto(j->fd, b, want, MSG_MORE | MSG_NOSIGNAL, NULL,
			      0);
	case 5:
		n = send(j->fd, b, want, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && errno == EAGAIN) {
			struct pollfd pf = { j->fd, POLLOUT, 0 };

			if (poll(&pf, 1, 60000 * l5_slow()) != 1)
				return -1;
			return 0;
		}
		return n;
	case 6:
		return end_sendfile(j->fd, b, want);
	case 7:
		return end_splice_send(j->fd, b, want);
	default:
		return send(j->fd, b, want, MSG_NOSIGNAL);
	}
}

static long recv_some(struct job *j, char *b, long want, uint64_t pos)
{
	struct iovec v[3];
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 3 };
	struct mmsghdr mm = { 0 };
	struct pollfd pf = { j->fd, POLLIN, 0 };
	unsigned int r = l5_rnd(&j->seed);
	long cut1 = r % (want + 1), cut2 = cut1 + (want - cut1) / 2;
	int n;

	v[0] = (struct iovec){ b, cut1 };
	v[1] = (struct iovec){ b + cut1, cut2 - cut1 };
	v[2] = (struct iovec){ b + cut2, want - cut2 };
	switch (l5_rnd(&j->seed) % 9) {
	case 0:
		return read(j->fd, b, want);
	case 1:
		return readv(j->fd, v, 3);
	case 2:
		return recvmsg(j->fd, &m, 0);
	case 3:
		mm.msg_hdr = m;
		n = recvmmsg(j->fd, &mm, 1, 0, NULL);
		return n < 1 ? n : (long)mm.msg_len;
	case 4:
		return recv(j->fd, b, want, MSG_WAITALL);
	case 5:
		n = recv(j->fd, b, want, MSG_PEEK);
		if (n > 0 && l5_check(b, n, pos) >= 0)
			return -2;
		return n <= 0 ? n : recv(j->fd, b, n, 0);
	case 6:
		n = recv(j->fd, b, want, MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN) {
			if (poll(&pf, 1, 60000 * l5_slow()) != 1)
				return -1;
			return recv(j->fd, b, want, MSG_DONTWAIT);
		}
		return n;
	case 7:
		return end_splice_recv(j->fd, b, want);
	default:
		return recv(j->fd, b, want, 0);
	}
}

static void *work(void *arg)
{
	struct job *j = arg;
	char *b = malloc(BIGGEST);
	long want, n;

	while (j->moved < j->total || !j->sends) {
		/* Sizes: mostly small, sometimes more than a ring holds. */
		want = 1 + l5_rnd(&j->seed) %
		       (l5_rnd(&j->seed) % 8 ? 5000 : BIGGEST);
		if (j->sends && want > j->total - j->moved)
			want = j->total - j->moved;
		if (l5_rnd(&j->seed) % 40 == 0)
			usleep(l5_rnd(&j->seed) % 3000);
		else if (l5_rnd(&j->seed) % 20 == 0)
			sched_yield();
		if (j->sends) {
			n = send_some(j, b, want, j->base + j->moved);
			if (n < 0 || n > want)
				FAIL("send at %ld: %ld %m", j->moved, n);
		} else {
			n = recv_some(j, b, want, j->base + j->moved);
			if (n < 0 || n > want)
				FAIL("recv at %ld: %ld %m", j->moved, n);
			if (!n)
				break;
			if (l5_check(b, n, j->base + j->moved) >= 0)
				FAIL("wrong byte at %ld of %ld",
				     j->moved + l5_check(b, n, j->base +
							 j->moved), j->total);
		}
		j->moved += n;
	}
	if (j->moved != j->total) {
		l5_fatal("%ld of %ld bytes", j->moved, j->total);
		FAIL("%ld of %ld bytes", j->moved, j->total);
	}
	if (j->sends && shutdown(j->fd, SHUT_WR))
		FAIL("shutdown: %m");
out:
	/* A thread that fails must not leave the other waiting. */
	if (*j->error)
		shutdown(j->fd, SHUT_RDWR);
	free(b);
	return NULL;
}

static int listen_on(struct __test_metadata *_metadata, int family, int proto,
		     int dom, struct sockaddr_storage *ss, socklen_t *len)
{
	int l = socket(family, SOCK_STREAM, proto);
	struct sockaddr_in *in = (void *)ss;
	struct sockaddr_in6 *in6 = (void *)ss;
	struct sockaddr_un *un = (void *)ss;

	memset(ss, 0, sizeof(*ss));
	ss->ss_family = dom;
	if (dom == AF_INET) {
		in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		*len = sizeof(*in);
	} else if (dom == AF_INET6) {
		in6->sin6_addr = in6addr_loopback;
		*len = sizeof(*in6);
	} else {
		*len = offsetof(struct sockaddr_un, sun_path) + 1 +
		       sprintf(un->sun_path + 1, "l5stress%d", getpid());
	}
	EXPECT_LE(0, l);
	EXPECT_EQ(0, bind(l, (void *)ss, *len));
	EXPECT_EQ(0, listen(l, CONNS));
	*len = sizeof(*ss);
	EXPECT_EQ(0, getsockname(l, (void *)ss, len));
	return l;
}

TEST_F_TIMEOUT(stress_traffic, random_traffic, 900)
{
	static struct job jobs[4 * CONNS];
	struct sockaddr_storage ss;
	long long shm, tx, rx, viol, base;
	long total = 0, want;
	int i, l, c, s, failed = 0;
	uint64_t seed;
	socklen_t len;
	bool real = self->family != variant->dom;

	if (_metadata->skip)
		return;
	seed = l5_seed();
	shm = l5_stat("conn_shm");
	base = l5_stat("conn_base");
	tx = l5_stat("bytes_tx");
	rx = l5_stat("bytes_rx");
	viol = l5_stat("violations");
	l = listen_on(_metadata, self->family, self->proto, variant->dom, &ss,
		      &len);
	ASSERT_TRUE(_metadata->passed);
	for (i = 0; i < CONNS; i++) {
		struct job *j = &jobs[4 * i];
		int k;

		c = socket(self->family, SOCK_STREAM, self->proto);
		ASSERT_LE(0, c);
		ASSERT_EQ(0, connect(c, (void *)&ss, len));
		s = accept(l, NULL, NULL);
		ASSERT_LE(0, s);
		if (real) {
			ASSERT_EQ(L5_TRANSPORT_SHM, l5_transport(c));
			ASSERT_EQ(L5_TRANSPORT_SHM, l5_transport(s));
		}
		/* 1 to 513 KiB each way: one sender, one receiver. */
		for (k = 0; k < 4; k += 2) {
			want = 1024 + l5_rnd(&seed) % (512 << 10);
			total += want;
			j[k].total = want;
			j[k].base = (uint64_t)(4 * i + k) << 32;
			j[k + 1].total = j[k].total;
			j[k + 1].base = j[k].base;
			j[k].sends = true;
			j[k].fd = k ? s : c;
			j[k + 1].fd = k ? c : s;
			l5_rnd(&seed);
			j[k].seed = seed;
			l5_rnd(&seed);
			j[k + 1].seed = seed;
		}
	}
	for (i = 0; i < 4 * CONNS; i++)
		ASSERT_EQ(0, pthread_create(&jobs[i].thread, NULL, work,
					    &jobs[i]));
	for (i = 0; i < 4 * CONNS; i++) {
		pthread_join(jobs[i].thread, NULL);
		if (*jobs[i].error && failed++ < 10)
			TH_LOG("connection %d, %s: %s", i / 4,
			       i & 2 ? "answer" : "request", jobs[i].error);
	}
	EXPECT_EQ(0, failed);
	for (i = 0; i < CONNS; i++) {
		char x;

		/* Both directions ended: nothing more, no error. */
		EXPECT_EQ(0, recv(jobs[4 * i].fd, &x, 1, 0));
		EXPECT_EQ(0, recv(jobs[4 * i + 2].fd, &x, 1, 0));
		close(jobs[4 * i].fd);
		close(jobs[4 * i + 2].fd);
	}
	close(l);
	if (!real)
		return;
	/* Both ends of each connection count, in one namespace. */
	EXPECT_LE(2 * CONNS, l5_stat("conn_shm") - shm);
	EXPECT_EQ(base, l5_stat("conn_base"));
	EXPECT_LE(total, l5_stat("bytes_tx") - tx);
	EXPECT_LE(total, l5_stat("bytes_rx") - rx);
	EXPECT_EQ(viol, l5_stat("violations"));
}

TEST_HARNESS_MAIN
