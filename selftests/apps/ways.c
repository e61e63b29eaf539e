// SPDX-License-Identifier: GPL-2.0
#include <fcntl.h>
#include <liburing.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "l5test.h"
#include "echo.h"

struct address echo_address(bool l5, const char *port)
{
	struct address a = {
		.family = l5 ? l5_family() : AF_INET,
		.in = {
			.sin_family = AF_INET,
			.sin_port = htons(atoi(port)),
			.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
		},
	};

	return a;
}

/* Three pieces of a buffer, one of them empty. */
static int pieces(struct iovec *v, void *buf, size_t len)
{
	v[0].iov_base = buf;
	v[0].iov_len = len / 3;
	v[1].iov_base = buf;
	v[1].iov_len = 0;
	v[2].iov_base = (char *)buf + len / 3;
	v[2].iov_len = len - len / 3;
	return 3;
}

/* What the C library offers */

static ssize_t libc_write(int fd, void *buf, size_t len)
{
	return write(fd, buf, len);
}

static ssize_t libc_read(int fd, void *buf, size_t len)
{
	return read(fd, buf, len);
}

static ssize_t libc_send(int fd, void *buf, size_t len)
{
	return send(fd, buf, len, MSG_NOSIGNAL);
}

static ssize_t libc_recv(int fd, void *buf, size_t len)
{
	return recv(fd, buf, len, 0);
}

static ssize_t libc_sendto(int fd, void *buf, size_t len)
{
	return sendto(fd, buf, len, 0, NULL, 0);
}

static ssize_t libc_recvfrom(int fd, void *buf, size_t len)
{
	struct sockaddr_storage ss;
	socklen_t n = sizeof(ss);

	return recvfrom(fd, buf, len, 0, (struct sockaddr *)&ss, &n);
}

static ssize_t libc_writev(int fd, void *buf, size_t len)
{
	struct iovec v[3];

	return writev(fd, v, pieces(v, buf, len));
}

static ssize_t libc_readv(int fd, void *buf, size_t len)
{
	struct iovec v[3];

	return readv(fd, v, pieces(v, buf, len));
}

static ssize_t libc_pwritev2(int fd, void *buf, size_t len)
{
	struct iovec v[3];

	return pwritev2(fd, v, pieces(v, buf, len), -1, 0);
}

static ssize_t libc_preadv2(int fd, void *buf, size_t len)
{
	struct iovec v[3];

	return preadv2(fd, v, pieces(v, buf, len), -1, 0);
}

static ssize_t libc_sendmsg(int fd, void *buf, size_t len)
{
	struct iovec v[3];
	struct msghdr m = { .msg_iov = v };

	m.msg_iovlen = pieces(v, buf, len);
	return sendmsg(fd, &m, 0);
}

static ssize_t libc_recvmsg(int fd, void *buf, size_t len)
{
	struct iovec v[3];
	struct msghdr m = { .msg_iov = v };

	m.msg_iovlen = pieces(v, buf, len);
	return recvmsg(fd, &m, 0);
}

static ssize_t libc_sendmmsg(int fd, void *buf, size_t len)
{
	struct iovec v[3];
	struct mmsghdr m[3] = { 0 };
	ssize_t sum = 0;
	int i, n;

	pieces(v, buf, len);
	for (i = 0; i < 3; i++) {
		m[i].msg_hdr.msg_iov = &v[i];
		m[i].msg_hdr.msg_iovlen = 1;
	}
	n = sendmmsg(fd, m, 3, 0);
	for (i = 0; i < n; i++)
		sum += m[i].msg_len;
	return n < 0 ? n : sum;
}

static ssize_t libc_recvmmsg(int fd, void *buf, size_t len)
{
	struct iovec v = { buf, len };
	struct mmsghdr m = { .msg_hdr = { .msg_iov = &v, .msg_iovlen = 1 } };
	int n = recvmmsg(fd, &m, 1, 0, NULL);

	return n < 0 ? n : (int)m.msg_len;
}

/* Looks first, and must then get the same. */
static ssize_t libc_peek(int fd, void *buf, size_t len)
{
	ssize_t n = recv(fd, buf, len, MSG_PEEK);
	void *seen;

	if (n <= 0)
		return n;
	seen = malloc(n);
	memcpy(seen, buf, n);
	n = recv(fd, buf, n, MSG_WAITALL);
	if (n > 0 && memcmp(seen, buf, n))
		errx(1, "what was seen by MSG_PEEK was not read");
	free(seen);
	return n;
}

static ssize_t libc_poll_read(int fd, void *buf, size_t len)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int have = 0;

	if (poll(&p, 1, -1) < 0)
		return -1;
	if (ioctl(fd, FIONREAD, &have))
		return -1;
	if (!have)
		have = 1;	/* the end */
	return read(fd, buf, (size_t)have < len ? (size_t)have : len);
}

static ssize_t libc_sendfile(int fd, void *buf, size_t len)
{
	int file = memfd_create("echo", MFD_CLOEXEC);
	off_t at = 0;
	ssize_t n;

	if (file < 0 || write(file, buf, len) != (ssize_t)len)
		err(1, "a file in memory");
	n = sendfile(fd, file, &at, len);
	close(file);
	return n;
}

/* A pipe holds 64 KiB. */
static ssize_t through_pipe(int fd, void *buf, size_t len, bool out)
{
	ssize_t n = 0, m, sum;
	int p[2];

	if (pipe2(p, O_CLOEXEC))
		err(1, "pipe");
	if (len > 32768)
		len = 32768;
	if (out) {
		if (write(p[1], buf, len) != (ssize_t)len)
			err(1, "write to a pipe");
		for (sum = 0; sum < (ssize_t)len; sum += n) {
			n = splice(p[0], NULL, fd, NULL, len - sum, 0);
			if (n <= 0)
				break;
		}
		if (sum)
			n = sum;
	} else {
		n = splice(fd, NULL, p[1], NULL, len, 0);
		for (sum = 0; sum < n; sum += m) {
			m = read(p[0], (char *)buf + sum, n - sum);
			if (m <= 0)
				err(1, "read from a pipe");
		}
	}
	close(p[0]);
	close(p[1]);
	return n;
}

static ssize_t libc_splice_out(int fd, void *buf, size_t len)
{
	return through_pipe(fd, buf, len, true);
}

static ssize_t libc_splice_in(int fd, void *buf, size_t len)
{
	return through_pipe(fd, buf, len, false);
}

static ssize_t libc_dup_write(int fd, void *buf, size_t len)
{
	int other = fcntl(fd, F_DUPFD_CLOEXEC, 100);
	ssize_t n = write(other, buf, len);

	close(other);
	return n;
}

static ssize_t libc_dup_read(int fd, void *buf, size_t len)
{
	int other = dup(fd);
	ssize_t n = read(other, buf, len);

	close(other);
	return n;
}

/* What goes past it */

static ssize_t raw_write(int fd, void *buf, size_t len)
{
	return syscall(SYS_write, fd, buf, len);
}

static ssize_t raw_read(int fd, void *buf, size_t len)
{
	return syscall(SYS_read, fd, buf, len);
}

static ssize_t raw_sendto(int fd, void *buf, size_t len)
{
	return syscall(SYS_sendto, fd, buf, len, 0, NULL, 0);
}

static ssize_t raw_recvfrom(int fd, void *buf, size_t len)
{
	return syscall(SYS_recvfrom, fd, buf, len, 0, NULL, NULL);
}

static ssize_t raw_writev(int fd, void *buf, size_t len)
{
	struct iovec v[3];

	return syscall(SYS_writev, fd, v, pieces(v, buf, len));
}

static ssize_t raw_readv(int fd, void *buf, size_t len)
{
	struct iovec v[3];

	return syscall(SYS_readv, fd, v, pieces(v, buf, len));
}

/* io_uring: a ring a thread. */

static struct io_uring *ring(void)
{
	static __thread struct io_uring r;
	static __thread bool up;
	int ret;

	if (up)
		return &r;
	ret = io_uring_queue_init(8, &r, 0);
	if (ret < 0) {
		errno = -ret;
		err(1, "io_uring_queue_init");
	}
	up = true;
	return &r;
}

/* Submit the one entry and wait for it. */
static ssize_t finish(struct io_uring *r)
{
	struct io_uring_cqe *cqe;
	int ret;

	io_uring_submit(r);
	do {
		ret = io_uring_wait_cqe(r, &cqe);
	} while (ret == -EINTR);
	if (!ret) {
		ret = cqe->res;
		io_uring_cqe_seen(r, cqe);
	}
	if (ret >= 0)
		return ret;
	errno = -ret;
	return -1;
}

static ssize_t uring_send(int fd, void *buf, size_t len)
{
	struct io_uring *r = ring();

	io_uring_prep_send(io_uring_get_sqe(r), fd, buf, len, MSG_NOSIGNAL);
	return finish(r);
}

static ssize_t uring_recv(int fd, void *buf, size_t len)
{
	struct io_uring *r = ring();

	io_uring_prep_recv(io_uring_get_sqe(r), fd, buf, len, 0);
	return finish(r);
}

static ssize_t uring_write(int fd, void *buf, size_t len)
{
	struct io_uring *r = ring();

	io_uring_prep_write(io_uring_get_sqe(r), fd, buf, len, -1);
	return finish(r);
}

static ssize_t uring_read(int fd, void *buf, size_t len)
{
	struct io_uring *r = ring();

	io_uring_prep_read(io_uring_get_sqe(r), fd, buf, len, -1);
	return finish(r);
}

static ssize_t uring_sendmsg(int fd, void *buf, size_t len)
{
	struct io_uring *r = ring();
	struct iovec v[3];
	struct msghdr m = { .msg_iov = v };

	m.msg_iovlen = pieces(v, buf, len);
	io_uring_prep_sendmsg(io_uring_get_sqe(r), fd, &m, 0);
	return finish(r);
}

/* Its own poll, and then the library's read. */
static ssize_t uring_poll_read(int fd, void *buf, size_t len)
{
	struct io_uring *r = ring();

	io_uring_prep_poll_add(io_uring_get_sqe(r), fd, POLLIN);
	if (finish(r) < 0)
		return -1;
	return read(fd, buf, len);
}

static const struct way ways[] = {
	{ "write", WAY_LIBC, libc_write, libc_read },
	{ "send", WAY_LIBC, libc_send, libc_recv },
	{ "sendto", WAY_LIBC, libc_sendto, libc_recvfrom },
	{ "writev", WAY_LIBC, libc_writev, libc_readv },
	{ "pwritev2", WAY_LIBC, libc_pwritev2, libc_preadv2 },
	{ "sendmsg", WAY_LIBC, libc_sendmsg, libc_recvmsg },
	{ "sendmmsg", WAY_LIBC, libc_sendmmsg, libc_recvmmsg },
	{ "sendfile, poll", WAY_LIBC, libc_sendfile, libc_poll_read },
	{ "splice", WAY_LIBC, libc_splice_out, libc_splice_in },
	{ "dup", WAY_LIBC, libc_dup_write, libc_dup_read },
	{ "send, peek", WAY_LIBC, libc_send, libc_peek },
	{ "raw write", WAY_RAW, raw_write, raw_read },
	{ "raw sendto", WAY_RAW, raw_sendto, raw_recvfrom },
	{ "raw writev", WAY_RAW, raw_writev, raw_readv },
	{ "io_uring send", WAY_URING, uring_send, uring_recv },
	{ "io_uring write", WAY_URING, uring_write, uring_read },
	{ "io_uring sendmsg", WAY_URING, uring_sendmsg, uring_poll_read },
};

const struct way *way(unsigned int kinds, unsigned int i)
{
	unsigned int k, n = 0;

	for (k = 0; k < ARRAY_SIZE(ways); k++)
		n += !!(ways[k].kinds & kinds);
	i %= n;
	for (k = 0; ; k++)
		if ((ways[k].kinds & kinds) && !i--)
			return &ways[k];
}
