// SPDX-License-Identifier: GPL-2.0
/*
 * Calls that move bytes and descriptors, and those that wait for them.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

#include "exec.h"

#define PIECES		5
#define PASS_MAX	300

/* Of c->v: the way, the buffer, and a word that says what else there is */
#define WAY(c)		((c)->v & 0xff)
#define BUF(c)		((c)->v >> 8 & 0xff)
#define MORE(c)		((c)->v >> 16)

/* Nothing may be written behind fz_bytes. */
#define LEN(c)		((c)->a % (FZ_BYTES + 1))

/* In one to five pieces, some of no bytes */
static int pieces(const struct fz_call *c, void *buf, size_t len,
		  struct iovec v[PIECES])
{
	int i, n = 1 + MORE(c) % PIECES;
	size_t at = 0, some;

	for (i = 0; i < n; i++) {
		some = i == n - 1 ? len - at :
		       i & 1 && MORE(c) & 64 ? 0 : (len - at) / 2;
		v[i].iov_base = buf ? (uint8_t *)buf + at : NULL;
		v[i].iov_len = some;
		at += some;
	}
	return n;
}

static void control(struct msghdr *h, void *room, const int *fd, int n,
		    int type)
{
	struct cmsghdr *m;

	h->msg_control = room;
	h->msg_controllen = CMSG_SPACE(n * sizeof(int));
	m = CMSG_FIRSTHDR(h);
	m->cmsg_level = SOL_SOCKET;
	m->cmsg_type = type;
	m->cmsg_len = CMSG_LEN(n * sizeof(int));
	if (n)
		memcpy(CMSG_DATA(m), fd, n * sizeof(int));
}

static long send_msg(const struct fz_call *c, int fd, void *buf)
{
	uint8_t room[CMSG_SPACE(2 * sizeof(int))]
		__attribute__((aligned(8))) = { 0 };
	struct sockaddr_storage at;
	struct iovec v[PIECES];
	struct msghdr h = { .msg_iov = v };
	int other[2] = { fz_fd(c->t), 0 };

	h.msg_iovlen = pieces(c, buf, LEN(c), v);
	switch (MORE(c) >> 3 & 15) {
	case 0:
		control(&h, room, other, 1, SCM_RIGHTS);
		break;
	case 1:
		control(&h, room, other, MORE(c) >> 8 & 1,
			MORE(c) >> 9 & 63);
		break;
	case 2:
		h.msg_name = &at;
		h.msg_namelen = fz_address(MORE(c) >> 8, &at);
		break;
	}
	return sendmsg(fd, &h, c->b);
}

static long send_mmsg(const struct fz_call *c, int fd, void *buf)
{
	struct iovec v[3][PIECES];
	struct mmsghdr h[3] = { };
	int i;

	for (i = 0; i < 3; i++) {
		h[i].msg_hdr.msg_iov = v[i];
		h[i].msg_hdr.msg_iovlen = pieces(c, buf, LEN(c) / (i + 1),
						 v[i]);
	}
	return sendmmsg(fd, h, 3, c->b);
}

static unsigned int splice_flags(const struct fz_call *c)
{
	return (c->b & MSG_DONTWAIT ? SPLICE_F_NONBLOCK : 0) |
	       (c->b & MSG_MORE ? SPLICE_F_MORE : 0);
}

static long send_splice(const struct fz_call *c, int fd)
{
	struct iovec v = { fz_bytes, LEN(c) % 60000 };
	long n;
	int p[2];

	if (pipe2(p, O_NONBLOCK))
		return -1;
	/* pages of ours, or copies */
	if (MORE(c) & 1)
		n = vmsplice(p[1], &v, 1, SPLICE_F_NONBLOCK);
	else
		n = write(p[1], v.iov_base, v.iov_len);
	n = splice(p[0], NULL, fd, NULL, n < 0 ? 0 : n, splice_flags(c));
	close(p[0]);
	close(p[1]);
	return n;
}

FZ_DO(send)
{
	void *buf = fz_buf(BUF(c), LEN(c));
	struct sockaddr_storage at;
	struct iovec v[PIECES];
	int fd = fz_fd(c->s);
	socklen_t len;
	off_t off = 0;

	switch (WAY(c)) {
	case FZ_WAY_MSG:
		return FZ_RET(send_msg(c, fd, buf));
	case FZ_WAY_RW:
		return FZ_RET(write(fd, buf, LEN(c)));
	case FZ_WAY_VEC:
		return FZ_RET(writev(fd, v, pieces(c, buf, LEN(c), v)));
	case FZ_WAY_ADDR:
		len = fz_address(MORE(c), &at);
		return FZ_RET(sendto(fd, buf, LEN(c), c->b, (void *)&at, len));
	case FZ_WAY_MMSG:
		return FZ_RET(send_mmsg(c, fd, buf));
	case FZ_WAY_FILE:
		return FZ_RET(sendfile(fd, fz_memfd, &off, LEN(c)));
	case FZ_WAY_SPLICE:
		return FZ_RET(send_splice(c, fd));
	case FZ_WAY_NOWAIT:
		return FZ_RET(pwritev2(fd, v, pieces(c, buf, LEN(c), v), -1,
				       RWF_NOWAIT));
	default:
		return FZ_RET(send(fd, buf, LEN(c), c->b));
	}
}

/* Descriptors that came with a message: one is kept, the others are closed. */
static void take_files(struct msghdr *h, unsigned int slot)
{
	struct cmsghdr *m;
	size_t i, n;
	int fd;

	for (m = CMSG_FIRSTHDR(h); m; m = CMSG_NXTHDR(h, m)) {
		if (m->cmsg_level != SOL_SOCKET || m->cmsg_type != SCM_RIGHTS)
			continue;
		n = (m->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (i = 0; i < n; i++) {
			memcpy(&fd, CMSG_DATA(m) + i * sizeof(int),
			       sizeof(fd));
			if (i)
				close(fd);
			else
				fz_put(slot, fd);
		}
	}
}

static long recv_msg(const struct fz_call *c, int fd, void *buf)
{
	uint8_t room[CMSG_SPACE(PASS_MAX * sizeof(int))]
		__attribute__((aligned(8)));
	struct sockaddr_storage at;
	struct iovec v[PIECES];
	struct msghdr h = {
		.msg_iov = v,
		.msg_control = MORE(c) & 128 ? NULL : room,
		.msg_controllen = MORE(c) & 128 ? 0 : sizeof(room),
	};
	long n;

	if (MORE(c) & 256) {
		h.msg_name = &at;
		h.msg_namelen = MORE(c) & 512 ? sizeof(at) : 1;
	}
	h.msg_iovlen = pieces(c, buf, LEN(c), v);
	n = recvmsg(fd, &h, c->b);
	if (n >= 0 && h.msg_control)
		take_files(&h, c->t);
	return n;
}

static long recv_mmsg(const struct fz_call *c, int fd, void *buf)
{
	struct timespec soon = { .tv_nsec = 1000000 };
	struct iovec v[3][PIECES];
	struct mmsghdr h[3] = { };
	int i;

	for (i = 0; i < 3; i++) {
		h[i].msg_hdr.msg_iov = v[i];
		h[i].msg_hdr.msg_iovlen = pieces(c, buf, LEN(c) / (i + 1),
						 v[i]);
	}
	return recvmmsg(fd, h, 3, c->b, MORE(c) & 128 ? &soon : NULL);
}

static long recv_splice(const struct fz_call *c, int fd)
{
	long n;
	int p[2];

	if (pipe2(p, O_NONBLOCK))
		return -1;
	n = splice(fd, NULL, p[1], NULL, LEN(c), splice_flags(c));
	close(p[0]);
	close(p[1]);
	return n;
}

FZ_DO(recv)
{
	void *buf = fz_buf(BUF(c), LEN(c));
	struct sockaddr_storage at;
	struct iovec v[PIECES];
	int fd = fz_fd(c->s);
	socklen_t len = MORE(c) & 1 ? sizeof(at) : 1;
	off_t off = 0;

	switch (WAY(c)) {
	case FZ_WAY_MSG:
		return FZ_RET(recv_msg(c, fd, buf));
	case FZ_WAY_RW:
		return FZ_RET(read(fd, buf, LEN(c)));
	case FZ_WAY_VEC:
		return FZ_RET(readv(fd, v, pieces(c, buf, LEN(c), v)));
	case FZ_WAY_ADDR:
		return FZ_RET(recvfrom(fd, buf, LEN(c), c->b, (void *)&at,
				       &len));
	case FZ_WAY_MMSG:
		return FZ_RET(recv_mmsg(c, fd, buf));
	case FZ_WAY_FILE:
		return FZ_RET(copy_file_range(fd, NULL, fz_memfd, &off, LEN(c),
					      0));
	case FZ_WAY_SPLICE:
		return FZ_RET(recv_splice(c, fd));
	case FZ_WAY_NOWAIT:
		return FZ_RET(preadv2(fd, v, pieces(c, buf, LEN(c), v), -1,
				      RWF_NOWAIT));
	default:
		return FZ_RET(recv(fd, buf, LEN(c), c->b));
	}
}

FZ_DO(pass)
{
	uint8_t room[CMSG_SPACE(PASS_MAX * sizeof(int))]
		__attribute__((aligned(8))) = { 0 };
	int fds[PASS_MAX], n = c->a % PASS_MAX, i;
	struct iovec v = { fz_bytes, 1 };
	struct msghdr h = { .msg_iov = &v, .msg_iovlen = 1 };

	for (i = 0; i < n; i++)
		fds[i] = fz_fd(c->t + (i & 1));
	control(&h, room, fds, n, SCM_RIGHTS);
	return FZ_RET(sendmsg(fz_fd(c->s), &h, c->b | MSG_DONTWAIT));
}

FZ_DO(poll)
{
	struct pollfd p[2] = {
		{ .fd = fz_fd(c->s), .events = c->a },
		{ .fd = fz_fd(c->t), .events = c->a },
	};
	struct timeval tv = { .tv_usec = c->b * 1000 };
	struct timespec ts = { .tv_nsec = c->b * 1000000 };
	fd_set in, out;

	switch (c->v % 3) {
	case 0:
		return FZ_RET(poll(p, 2, c->b));
	case 1:
		return FZ_RET(ppoll(p, 2, &ts, NULL));
	default:
		if (p[0].fd < 0 || p[0].fd >= FD_SETSIZE)
			return -EBADF;
		FD_ZERO(&in);
		FD_SET(p[0].fd, &in);
		out = in;
		return FZ_RET(select(p[0].fd + 1, &in, &out, NULL, &tv));
	}
}

FZ_DO(epoll)
{
	int fd = epoll_create1(c->a);

	if (fd < 0)
		return -errno;
	fz_put(c->t, fd);
	return 0;
}

FZ_DO(epoll_ctl)
{
	struct epoll_event e = { .events = c->b };

	return FZ_RET(epoll_ctl(fz_fd(c->s), c->a, fz_fd(c->t), &e));
}

FZ_DO(epoll_wait)
{
	struct epoll_event e[8];

	return FZ_RET(epoll_wait(fz_fd(c->s), e, c->b % 9, c->a % 10));
}

FZ_DO(pipe)
{
	int p[2];

	if (pipe2(p, c->a ? O_NONBLOCK : 0))
		return -errno;
	fz_put(c->s, p[0]);
	fz_put(c->t, p[1]);
	return 0;
}

FZ_DO(unix)
{
	int p[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | (c->a ? SOCK_NONBLOCK : 0), 0, p))
		return -errno;
	fz_put(c->s, p[0]);
	fz_put(c->t, p[1]);
	return 0;
}
