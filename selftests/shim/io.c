// SPDX-License-Identifier: GPL-2.0
/*
 * Bytes under the preload library: every call that it takes over, and those
 * that it leaves to the kernel, mixed on one connection in both orders.
 */
#define SHIM	shim_io
#include "ends.h"
#include "shim.h"

#include <liburing.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

#include "signals.h"

#define STREAM_BYTES	(6 << 20)

ssize_t __read_chk(int fd, void *buf, size_t n, size_t size);
ssize_t __recv_chk(int fd, void *buf, size_t n, size_t size, int flags);
ssize_t __recvfrom_chk(int fd, void *buf, size_t n, size_t size, int flags,
		       struct sockaddr *from, socklen_t *len);

/* Ways to send */

/* Three pieces, one of them empty. */
static int split(struct iovec *v, void *buf, size_t n)
{
	v[0] = (struct iovec){ buf, n / 3 };
	v[1] = (struct iovec){ NULL, 0 };
	v[2] = (struct iovec){ (char *)buf + n / 3, n - n / 3 };
	return 3;
}

#define MSG_OF(buf, n)							\
	struct iovec v[3];						\
	struct msghdr m = { .msg_iov = v, .msg_iovlen = split(v, (buf), (n)) }

static ssize_t s_write(int fd, void *buf, size_t n)
{
	return write(fd, buf, n);
}

static ssize_t s_writev(int fd, void *buf, size_t n)
{
	MSG_OF(buf, n);

	return writev(fd, v, m.msg_iovlen);
}

static ssize_t s_pwritev2(int fd, void *buf, size_t n)
{
	MSG_OF(buf, n);

	return pwritev2(fd, v, m.msg_iovlen, -1, 0);
}

static ssize_t s_send(int fd, void *buf, size_t n)
{
	return send(fd, buf, n, MSG_NOSIGNAL);
}

static ssize_t s_sendto(int fd, void *buf, size_t n)
{
	return sendto(fd, buf, n, MSG_MORE, NULL, 0);
}

static ssize_t s_sendmsg(int fd, void *buf, size_t n)
{
	MSG_OF(buf, n);

	return sendmsg(fd, &m, 0);
}

static ssize_t s_sendmmsg(int fd, void *buf, size_t n)
{
	MSG_OF(buf, n);
	struct mmsghdr mm = { .msg_hdr = m };

	return sendmmsg(fd, &mm, 1, 0) == 1 ? (ssize_t)mm.msg_len : -1;
}

static ssize_t s_raw(int fd, void *buf, size_t n)
{
	return raw_write(fd, buf, n);
}

static ssize_t s_raw_msg(int fd, void *buf, size_t n)
{
	MSG_OF(buf, n);

	return syscall(SYS_sendmsg, fd, &m, 0);
}

static ssize_t s_sendfile(int fd, void *buf, size_t n)
{
	int f = memfd_create("s", MFD_CLOEXEC);
	off_t at = 0;
	ssize_t ret;

	if (f < 0 || write(f, buf, n) != (ssize_t)n)
		return -1;
	ret = sendfile(fd, f, &at, n);
	close(f);
	return ret;
}

static ssize_t s_splice(int fd, void *buf, size_t n)
{
	ssize_t ret = 0, one;
	int p[2];

	if (n > 4096)
		n = 4096;
	if (pipe(p) || write(p[1], buf, n) != (ssize_t)n)
		return -1;
	while (ret < (ssize_t)n) {
		one = splice(p[0], NULL, fd, NULL, n - ret, 0);
		if (one <= 0)
			return -1;
		ret += one;
	}
	close(p[0]);
	close(p[1]);
	return ret;
}

/* libc's own write, which no library can take over */
static ssize_t s_stdio(int fd, void *buf, size_t n)
{
	FILE *f = fdopen(dup(fd), "w");
	size_t ret = fwrite(buf, 1, n, f);

	if (fclose(f))
		return -1;
	return ret;
}

/* The ring of a thread, which ends only when the program does. */
static struct io_uring *uring(void)
{
	static __thread struct io_uring ring;
	static __thread bool there;

	if (!there && io_uring_queue_init(4, &ring, 0))
		return NULL;
	there = true;
	return &ring;
}

static ssize_t uring_done(struct io_uring *r)
{
	struct io_uring_cqe *cqe;
	ssize_t ret;

	if (io_uring_submit(r) != 1 || io_uring_wait_cqe(r, &cqe))
		return -1;
	ret = cqe->res;
	io_uring_cqe_seen(r, cqe);
	return ret;
}

static ssize_t s_uring(int fd, void *buf, size_t n)
{
	struct io_uring *r = uring();

	if (!r)
		return -1;
	io_uring_prep_send(io_uring_get_sqe(r), fd, buf, n, 0);
	return uring_done(r);
}

/* Ways to receive */

static ssize_t r_uring(int fd, void *buf, size_t n)
{
	struct io_uring *r = uring();

	if (!r)
		return -1;
	io_uring_prep_recv(io_uring_get_sqe(r), fd, buf, n, 0);
	return uring_done(r);
}

static ssize_t r_read(int fd, void *buf, size_t n)
{
	return read(fd, buf, n);
}

static ssize_t r_readv(int fd, void *buf, size_t n)
{
	MSG_OF(buf, n);

	return readv(fd, v, m.msg_iovlen);
}

static ssize_t r_preadv2(int fd, void *buf, size_t n)
{
	MSG_OF(buf, n);

	return preadv2(fd, v, m.msg_iovlen, -1, 0);
}

static ssize_t r_recv(int fd, void *buf, size_t n)
{
	return recv(fd, buf, n, 0);
}

static ssize_t r_waitall(int fd, void *buf, size_t n)
{
	return recv(fd, buf, n, MSG_WAITALL);
}

static ssize_t r_peek(int fd, void *buf, size_t n)
{
	ssize_t ret = recv(fd, buf, n, MSG_PEEK);
	char *again = malloc(n);

	/* and take just that */
	if (ret > 0 && (recv(fd, again, ret, MSG_WAITALL) != ret ||
			memcmp(buf, again, ret)))
		ret = -1;
	free(again);
	return ret;
}

static ssize_t r_recvfrom(int fd, void *buf, size_t n)
{
	struct sockaddr_storage from;
	socklen_t len = sizeof(from);

	return recvfrom(fd, buf, n, 0, (struct sockaddr *)&from, &len);
}

/* A send to a name, which a connected stream has no use for. */
static ssize_t s_sendmsg_name(int fd, void *buf, size_t n)
{
	static struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = 1 };

	MSG_OF(buf, n);
	m.msg_name = &to;
	m.msg_namelen = sizeof(to);
	return sendmsg(fd, &m, 0);
}

static ssize_t s_sendto_name(int fd, void *buf, size_t n)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = 1 };

	return sendto(fd, buf, n, 0, (struct sockaddr *)&to, sizeof(to));
}

static ssize_t r_recvmsg_name(int fd, void *buf, size_t n)
{
	struct sockaddr_storage from;
	ssize_t ret;

	MSG_OF(buf, n);
	m.msg_name = &from;
	m.msg_namelen = sizeof(from);
	ret = recvmsg(fd, &m, 0);
	return ret > 0 && (m.msg_flags || m.msg_namelen) ? -1 : ret;
}

static ssize_t r_recvmsg(int fd, void *buf, size_t n)
{
	MSG_OF(buf, n);
	ssize_t ret = recvmsg(fd, &m, 0);

	return m.msg_flags ? -1 : ret;
}

static ssize_t r_recvmsg_control(int fd, void *buf, size_t n)
{
	MSG_OF(buf, n);
	char control[64];

	m.msg_control = control;
	m.msg_controllen = sizeof(control);
	return recvmsg(fd, &m, 0);
}

static ssize_t r_recvmmsg(int fd, void *buf, size_t n)
{
	MSG_OF(buf, n);
	struct mmsghdr mm = { .msg_hdr = m };

	return recvmmsg(fd, &mm, 1, 0, NULL) == 1 ? (ssize_t)mm.msg_len : -1;
}

static ssize_t r_read_chk(int fd, void *buf, size_t n)
{
	return __read_chk(fd, buf, n, n);
}

static ssize_t r_recv_chk(int fd, void *buf, size_t n)
{
	return __recv_chk(fd, buf, n, n, 0);
}

static ssize_t r_recvfrom_chk(int fd, void *buf, size_t n)
{
	return __recvfrom_chk(fd, buf, n, n, 0, NULL, NULL);
}

static ssize_t r_raw(int fd, void *buf, size_t n)
{
	return raw_read(fd, buf, n);
}

static ssize_t r_raw_msg(int fd, void *buf, size_t n)
{
	MSG_OF(buf, n);

	return syscall(SYS_recvmsg, fd, &m, 0);
}

static ssize_t r_splice(int fd, void *buf, size_t n)
{
	ssize_t ret, got = -1;
	int p[2];

	if (pipe(p))
		return -1;
	ret = splice(fd, NULL, p[1], NULL, n > 4096 ? 4096 : n, 0);
	if (ret > 0)
		got = read(p[0], buf, ret);
	close(p[0]);
	close(p[1]);
	return got == ret ? ret : -1;
}

static ssize_t r_stdio(int fd, void *buf, size_t n)
{
	FILE *f = fdopen(dup(fd), "r");
	size_t ret;

	setvbuf(f, NULL, _IONBF, 0);
	ret = fread(buf, 1, n, f);
	fclose(f);
	return ret ? (ssize_t)ret : -1;
}

struct way {
	const char *name;
	ssize_t (*move)(int fd, void *buf, size_t n);
};

static const struct way senders[] = {
	{ "write", s_write }, { "writev", s_writev },
	{ "pwritev2", s_pwritev2 }, { "send", s_send }, { "sendto", s_sendto },
	{ "sendmsg", s_sendmsg }, { "sendmmsg", s_sendmmsg },
	{ "raw write", s_raw }, { "raw sendmsg", s_raw_msg },
	{ "sendfile", s_sendfile }, { "splice", s_splice },
	{ "stdio", s_stdio }, { "io_uring", s_uring },
	{ "sendto name", s_sendto_name }, { "sendmsg name", s_sendmsg_name },
};

static const struct way receivers[] = {
	{ "read", r_read }, { "readv", r_readv }, { "preadv2", r_preadv2 },
	{ "recv", r_recv }, { "waitall", r_waitall }, { "peek", r_peek },
	{ "recvfrom", r_recvfrom }, { "recvmsg", r_recvmsg },
	{ "recvmsg name", r_recvmsg_name },
	{ "recvmsg control", r_recvmsg_control }, { "recvmmsg", r_recvmmsg },
	{ "__read_chk", r_read_chk }, { "__recv_chk", r_recv_chk },
	{ "__recvfrom_chk", r_recvfrom_chk }, { "raw read", r_raw },
	{ "raw recvmsg", r_raw_msg }, { "splice", r_splice },
	{ "stdio", r_stdio }, { "io_uring", r_uring },
};

#define N(a)	(sizeof(a) / sizeof((a)[0]))

static uint8_t out[70000], in[70000];

/* Move @n bytes from @pos on by these two ways; what went wrong, or NULL. */
static const char *move(int a, int b, const struct way *s,
			const struct way *r, size_t n, uint64_t *pos)
{
	size_t sent = 0, got = 0;
	ssize_t ret;

	l5_fill(out, n, *pos);
	while (sent < n) {
		ret = s->move(a, out + sent, n - sent);
		if (ret <= 0)
			return "send";
		sent += ret;
	}
	while (got < n) {
		ret = r->move(b, in + got, n - got);
		if (!ret)
			l5_fatal("end of file after %zu of %zu", got, n);
		if (ret <= 0)
			return "receive";
		got += ret;
	}
	if (l5_check(in, n, *pos) >= 0)
		return "bytes";
	*pos += n;
	return NULL;
}

/* Each way to send with each way to receive. */
SHIM_TEST(every_pair)
{
	static const size_t sizes[] = { 1, 7, 64, 513, 4096, 70000 };
	uint64_t pos = 0;
	unsigned int i, j, k;
	const char *why;
	int a, b;

	WARM_PAIR(L5, a, b);
	for (i = 0; i < N(senders); i++) {
		for (j = 0; j < N(receivers); j++) {
			for (k = 0; k < N(sizes); k++) {
				why = move(a, b, &senders[i], &receivers[j],
					   sizes[k], &pos);
				ASSERT_EQ(NULL, why) {
					TH_LOG("%s, %s, %zu: %s, %m",
					       senders[i].name,
					       receivers[j].name, sizes[k],
					       why);
				}
				/* and back */
				why = move(b, a, &senders[i], &receivers[j],
					   sizes[k], &pos);
				ASSERT_EQ(NULL, why);
			}
		}
	}
	close(a);
	close(b);
}

struct stream {
	int fd;
	bool sends;
	unsigned int seed;
	const char *why;
};

static void *stream_end(void *arg)
{
	struct stream *s = arg;
	uint8_t *buf = malloc(sizeof(out));
	uint64_t pos = 0;
	ssize_t ret;
	size_t n;
	int way;

	while (pos < STREAM_BYTES) {
		n = rand_r(&s->seed) % sizeof(out) + 1;
		if (rand_r(&s->seed) % 2)
			n = n % 200 + 1;
		if (n > STREAM_BYTES - pos)
			n = STREAM_BYTES - pos;
		if (s->sends) {
			way = rand_r(&s->seed) % N(senders);
			l5_fill(buf, n, pos);
			ret = senders[way].move(s->fd, buf, n);
			s->why = senders[way].name;
		} else {
			way = rand_r(&s->seed) % N(receivers);
			/* it waits for as much as it may */
			if (receivers[way].move == r_stdio)
				continue;
			ret = receivers[way].move(s->fd, buf, n);
			s->why = receivers[way].name;
			if (ret > 0 && l5_check(buf, ret, pos) >= 0)
				break;
		}
		if (ret <= 0)
			break;
		pos += ret;
	}
	if (pos == STREAM_BYTES)
		s->why = NULL;
	free(buf);
	return NULL;
}

/* Both ways at once, by whatever way comes up, waiting for each other. */
SHIM_TEST(streams)
{
	struct stream s[4];
	pthread_t t[4];
	int a, b, i;

	WARM_PAIR(L5, a, b);
	for (i = 0; i < 4; i++) {
		s[i] = (struct stream){ i & 1 ? a : b, i < 2, i + 1, NULL };
		ASSERT_EQ(0, pthread_create(&t[i], NULL, stream_end, &s[i]));
	}
	for (i = 0; i < 4; i++) {
		pthread_join(t[i], NULL);
		ASSERT_EQ(NULL, s[i].why) {
			TH_LOG("end %d: %s", i, s[i].why);
		}
	}
}

/* Two threads a direction: records may mix, bytes may not be lost. */
static void *writes_own_byte(void *arg)
{
	struct stream *s = arg;
	char buf[97];
	int i;

	memset(buf, s->seed, sizeof(buf));
	for (i = 0; i < 3000; i++) {
		ssize_t n = s->seed & 1 ? raw_write(s->fd, buf, sizeof(buf)) :
			    write(s->fd, buf, sizeof(buf));
		if (n != sizeof(buf))
			s->why = "short";
	}
	return NULL;
}

SHIM_TEST(writers_share)
{
	struct stream s[4];
	long count[256] = { 0 };
	long left = 4 * 3000 * 97;
	pthread_t t[4];
	ssize_t n, i;
	int a, b;

	WARM_PAIR(L5, a, b);
	for (i = 0; i < 4; i++) {
		s[i] = (struct stream){ .fd = a, .seed = i };
		ASSERT_EQ(0, pthread_create(&t[i], NULL, writes_own_byte,
					    &s[i]));
	}
	while (left) {
		n = left & 1 ? raw_read(b, in, 1000) : read(b, in, 1000);
		ASSERT_GT(n, 0);
		for (i = 0; i < n; i++)
			count[in[i]]++;
		left -= n;
	}
	for (i = 0; i < 4; i++) {
		pthread_join(t[i], NULL);
		ASSERT_EQ(NULL, s[i].why);
		ASSERT_EQ(3000 * 97, count[i]);
	}
}

static void *writes_late(void *arg)
{
	l5_wait_asleep(getpid());
	return (void *)write(*(int *)arg, "late", 4);
}

/* Programs that give an address are mapped, and served, like any other. */
SHIM_TEST(addresses)
{
	static const struct {
		const struct way send, recv;
	} ways[] = {
		{ { "sendto", s_sendto_name }, { "recvfrom", r_recvfrom } },
		{ { "sendmsg", s_sendmsg_name },
		  { "recvmsg", r_recvmsg_name } },
	};
	struct sockaddr_storage ss, was;
	int before = shim_maps(), a, b, i;
	long long tx, rx;
	socklen_t len;
	unsigned int w;
	char c[8];

	for (w = 0; w < sizeof(ways) / sizeof(*ways); w++) {
		ASSERT_TRUE(shim_pair(L5, &a, &b));
		for (i = 0; i < 4 * SHIM_AFTER; i++) {
			ASSERT_EQ(1, ways[w].send.move(a, "x", 1));
			ASSERT_EQ(1, ways[w].recv.move(b, c, 1));
			ASSERT_EQ(1, ways[w].send.move(b, "y", 1));
			ASSERT_EQ(1, ways[w].recv.move(a, c, 1));
		}
		EXPECT_EQ(before + 2, shim_maps());
		/* the kernel counts what it moves when it moves it */
		tx = l5_stat("bytes_tx");
		rx = l5_stat("bytes_rx");
		for (i = 0; i < 100; i++) {
			ASSERT_EQ(3, ways[w].send.move(a, "xyz", 3));
			ASSERT_EQ(3, ways[w].recv.move(b, c, 8));
		}
		EXPECT_EQ(tx, l5_stat("bytes_tx"));
		EXPECT_EQ(rx, l5_stat("bytes_rx"));
		/* nothing but the length is written */
		memset(&ss, 0x55, sizeof(ss));
		was = ss;
		len = 4;
		ASSERT_EQ(1, write(a, "x", 1));
		ASSERT_EQ(1, recvfrom(b, c, 8, 0, (void *)&ss, &len));
		EXPECT_EQ(0, len);
		EXPECT_EQ(0, memcmp(&ss, &was, sizeof(ss)));
		close(a);
		close(b);
	}
}

SHIM_TEST(waits)
{
	pthread_t t;
	int a, b, i;

	WARM_PAIR(L5, a, b);
	for (i = 0; i < 5; i++) {
		ASSERT_EQ(0, pthread_create(&t, NULL, writes_late, &a));
		ASSERT_EQ(4, read(b, in, 100));
		ASSERT_EQ(0, memcmp(in, "late", 4));
		pthread_join(t, NULL);
	}
	ASSERT_EQ(0, pthread_create(&t, NULL, writes_late, &a));
	ASSERT_EQ(1, write(a, "x", 1));
	ASSERT_EQ(5, recv(b, in, 5, MSG_WAITALL));
	ASSERT_EQ(0, memcmp(in, "xlate", 5));
	pthread_join(t, NULL);
}

SHIM_TEST(timeouts)
{
	struct timeval tv = { 0, 100000 };
	static char big[3 << 20];
	int64_t start;
	int a, b;
	ssize_t n;

	ASSERT_TRUE(net_keeps_full());
	WARM_PAIR(L5, a, b);
	ASSERT_EQ(0, setsockopt(b, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
	ASSERT_EQ(0, setsockopt(a, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)));
	start = l5_now_ms();
	ASSERT_EQ(-1, read(b, in, 1));
	ASSERT_EQ(EAGAIN, errno);
	ASSERT_GE(l5_now_ms() - start, 95);
	start = l5_now_ms();
	/* what went before counts */
	n = write(a, big, sizeof(big));
	ASSERT_GT(n, 0);
	ASSERT_LT(n, (ssize_t)sizeof(big));
	ASSERT_GE(l5_now_ms() - start, 95);
	ASSERT_EQ(-1, write(a, big, sizeof(big)));
	ASSERT_EQ(EAGAIN, errno);
	/* WAITALL with too little */
	while (n > 0) {
		ssize_t got = recv(b, in, n > 70000 ? 70000 : n, MSG_WAITALL);

		ASSERT_GT(got, 0);
		n -= got;
	}
	ASSERT_EQ(3, write(a, "abc", 3));
	ASSERT_EQ(3, recv(b, in, 10, MSG_WAITALL));
}

static void *writes_after_signal(void *arg)
{
	L5_UNTIL(caught, 60000);
	return writes_late(arg);
}

SHIM_TEST(signals)
{
	struct pollfd end = { .events = POLLRDHUP };
	pthread_t t;
	int a, b;

	WARM_PAIR(L5, a, b);
	alarm_every(50000);
	ASSERT_EQ(-1, read(b, in, 1));
	ASSERT_EQ(EINTR, errno);
	alarm_off();
	ASSERT_LE(1, caught);
	alarm_in(20000, SA_RESTART);
	ASSERT_EQ(0, pthread_create(&t, NULL, writes_after_signal, &a));
	/* the handler may run in either thread; both go on */
	ASSERT_EQ(4, read(b, in, 10));
	pthread_join(t, NULL);
	close(b);
	ASSERT_EQ(1, caught);
	catch_signal(SIGPIPE, SA_RESTART);
	/* past the library, whose own view of the end is for write() */
	end.fd = a;
	ASSERT_EQ(1, syscall(SYS_poll, &end, 1, 10000 * l5_slow()));
	while (write(a, "x", 1) == 1)
		usleep(1000);
	ASSERT_EQ(1, caught);
}

SHIM_TEST(nonblocking)
{
	long full = 0, empty = 0;
	int a, b, one = 1, n;
	ssize_t ret;

	WARM_PAIR(L5, a, b);
	ASSERT_EQ(-1, recv(b, in, 1, MSG_DONTWAIT));
	ASSERT_EQ(EAGAIN, errno);
	ASSERT_EQ(0, fcntl(b, F_SETFL, O_NONBLOCK));
	ASSERT_EQ(-1, read(b, in, 1));
	ASSERT_EQ(EAGAIN, errno);
	ASSERT_EQ(0, ioctl(a, FIONBIO, &one));
	while ((ret = write(a, out, 1000)) > 0)
		full += ret;
	ASSERT_EQ(EAGAIN, errno);
	while ((ret = write(a, out, 1)) > 0)
		full += ret;
	ASSERT_EQ(EAGAIN, errno);
	ASSERT_EQ(-1, raw_write(a, out, 1));
	ASSERT_EQ(EAGAIN, errno);
	ASSERT_EQ(0, ioctl(b, FIONREAD, &n));
	ASSERT_EQ(full, n);
	while ((ret = empty & 1 ? raw_read(b, in, 999) : read(b, in, 999)) > 0)
		empty += ret;
	ASSERT_EQ(full, empty);
	ASSERT_EQ(EAGAIN, errno);
	ASSERT_EQ(1, write(a, "x", 1));
	ASSERT_EQ(1, read(b, in, 9));
	/* and back to blocking */
	ASSERT_EQ(0, fcntl(b, F_SETFL, 0));
	alarm_every(30000);
	ASSERT_EQ(-1, read(b, in, 1));
	ASSERT_EQ(EINTR, errno);
	alarm_off();
}

SHIM_TEST(ends)
{
	struct linger lg = { 1, 0 };
	int a, b;

	signal(SIGPIPE, SIG_IGN);
	WARM_PAIR(L5, a, b);
	ASSERT_EQ(4, write(a, "last", 4));
	ASSERT_EQ(0, shutdown(a, SHUT_WR));
	ASSERT_EQ(-1, write(a, "x", 1));
	ASSERT_EQ(EPIPE, errno);
	ASSERT_EQ(2, read(b, in, 2));
	ASSERT_EQ(2, read(b, in, 10));
	ASSERT_EQ(0, read(b, in, 10));
	ASSERT_EQ(0, read(b, in, 10));
	ASSERT_EQ(3, write(b, "abc", 3));
	ASSERT_EQ(3, read(a, in, 10));
	close(b);
	ASSERT_EQ(0, read(a, in, 10));
	close(a);

	WARM_PAIR(L5, a, b);
	ASSERT_EQ(4, write(a, "lost", 4));
	setsockopt(b, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg));
	close(b);
	ASSERT_EQ(-1, read(a, in, 10));
	ASSERT_EQ(ECONNRESET, errno);
	ASSERT_EQ(-1, write(a, "x", 1));
	ASSERT_EQ(EPIPE, errno);
	close(a);
}

/*
 * A receive that waits for all of its bytes and gets some: the error that kept
 * it from the rest is told next, once, by either direction.
 */
SHIM_TEST(error_after_bytes)
{
	struct linger lg = { 1, 0 };
	int kind, how, a, b;
	ssize_t n;
	pid_t pid;

	signal(SIGPIPE, SIG_IGN);
	for (kind = TCP; kind <= L5; kind++) {
		for (how = 0; how < 3; how++) {
			WARM_PAIR(kind, a, b);
			pid = fork();
			if (!pid) {
				close(b);
				l5_wait_asleep(getppid());
				setsockopt(a, SOL_SOCKET, SO_LINGER, &lg,
					   sizeof(lg));
				_exit(0);
			}
			ASSERT_EQ(4, write(a, "some", 4));
			close(a);
			ASSERT_EQ(4, recv(b, in, 10, MSG_WAITALL));
			waitpid(pid, NULL, 0);
			if (how == 1)
				n = send(b, "x", 1, 0);
			else
				n = recv(b, in, 10, how ? MSG_DONTWAIT : 0);
			EXPECT_EQ(-1, n);
			EXPECT_EQ(ECONNRESET, errno) {
				TH_LOG("%d.%d: %m", kind, how);
			}
			EXPECT_EQ(0, recv(b, in, 10, 0));
			close(b);
		}
	}
}

/* The kernel still does what no ring can do. */
SHIM_TEST(rare)
{
	void *volatile nowhere = (void *)16;
	int a, b, low = 3;
	struct pollfd p;
	char c;

	WARM_PAIR(L5, a, b);
	ASSERT_EQ(-1, send(a, "x", 1, MSG_OOB));
	ASSERT_EQ(EOPNOTSUPP, errno);
	ASSERT_EQ(0, read(b, in, 0));
	ASSERT_EQ(0, write(a, out, 0));
	ASSERT_EQ(1, write(a, "x", 1));
	ASSERT_EQ(-1, read(b, nowhere, 1));
	ASSERT_EQ(EFAULT, errno);
	ASSERT_EQ(1, read(b, &c, 1));
	ASSERT_EQ(-1, write(a, nowhere, 1));
	ASSERT_EQ(EFAULT, errno);
	ASSERT_EQ(-1, readv(b, nowhere, 1));
	ASSERT_EQ(EFAULT, errno);
	ASSERT_EQ(-1, recvmsg(b, NULL, 0));
	ASSERT_EQ(EFAULT, errno);
	ASSERT_EQ(-1, preadv2(b, &(struct iovec){ in, 1 }, 1, 0, 0));
	ASSERT_EQ(ESPIPE, errno);

	ASSERT_EQ(0, setsockopt(b, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low)));
	p = (struct pollfd){ .fd = b, .events = POLLIN };
	ASSERT_EQ(2, write(a, "12", 2));
	ASSERT_EQ(0, poll(&p, 1, 50));
	ASSERT_EQ(1, write(a, "3", 1));
	ASSERT_EQ(1, poll(&p, 1, 1000));
	ASSERT_EQ(3, read(b, in, 10));
}

/* A buffer that is too small: libc ends the program, and nothing is taken. */
SHIM_TEST(overflows)
{
	struct rlimit none = { 0, 0 };
	int a, b, i, status;
	pid_t pid;

	WARM_PAIR(L5, a, b);
	for (i = 0; i < 6; i++) {
		ASSERT_EQ(2, write(a, "xy", 2));
		pid = fork();
		if (!pid) {
			setrlimit(RLIMIT_CORE, &none);
			dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
			/* mapped here, too */
			while (i & 1 && !shim_maps())
				if (recv(b, in, 0, MSG_DONTWAIT))
					_exit(2);
			switch (i / 2) {
			case 0:
				__read_chk(b, in, 2, 1);
				break;
			case 1:
				__recv_chk(b, in, 2, 1, 0);
				break;
			case 2:
				__recvfrom_chk(b, in, 2, 1, 0, NULL, NULL);
				break;
			}
			_exit(1);
		}
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		ASSERT_TRUE(WIFSIGNALED(status));
		ASSERT_EQ(SIGABRT, WTERMSIG(status));
		ASSERT_EQ(2, read(b, in, 10));
	}
}

TEST_HARNESS_MAIN
