// SPDX-License-Identifier: GPL-2.0
/*
 * The same by io_uring, whose workers make calls at times of their own. A ring
 * lives for one call: what it has not done when that ends is cancelled.
 */
#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <unistd.h>

#include "exec.h"

#define ENTRIES	8

static void prepare(struct io_uring_sqe *s, const struct fz_call *c, int fd,
		    struct sockaddr_storage *at, socklen_t len)
{
	size_t n = (c->a >> 8) % (FZ_BYTES + 1);

	switch ((c->a & 0xff) % FZ_URINGS) {
	case FZ_URING_SEND:
		io_uring_prep_send(s, fd, fz_bytes, n, c->b);
		break;
	case FZ_URING_RECV:
		io_uring_prep_recv(s, fd, fz_bytes, n, c->b);
		break;
	case FZ_URING_POLL:
		io_uring_prep_poll_add(s, fd, POLLIN | POLLOUT | POLLRDHUP);
		break;
	case FZ_URING_ACCEPT:
		io_uring_prep_accept(s, fd, NULL, NULL, 0);
		break;
	case FZ_URING_CONNECT:
		io_uring_prep_connect(s, fd, (void *)at, len);
		break;
	case FZ_URING_SHUTDOWN:
		io_uring_prep_shutdown(s, fd, c->b & 3);
		break;
	case FZ_URING_CLOSE:
		/* a copy, or the slot would mean what others open next */
		io_uring_prep_close(s, dup(fd));
		break;
	case FZ_URING_READ:
		io_uring_prep_read(s, fd, fz_bytes, n, -1);
		break;
	case FZ_URING_WRITE:
		io_uring_prep_write(s, fd, fz_bytes, n, -1);
		break;
	case FZ_URING_SEND_ZC:
		io_uring_prep_send(s, fd, fz_bytes, n, c->b | MSG_ZEROCOPY);
		break;
	default:
		io_uring_prep_cancel64(s, 1, 0);
	}
}

static long result(const struct fz_call *c, const struct io_uring_cqe *e)
{
	if ((c->a & 0xff) % FZ_URINGS == FZ_URING_ACCEPT && e->res >= 0) {
		fz_put(c->t, e->res);
		return 0;
	}
	return e->res;
}

FZ_DO(uring)
{
	struct __kernel_timespec soon = { .tv_nsec = 3000000 };
	struct sockaddr_storage at;
	socklen_t len = fz_address(c->v, &at);
	struct io_uring_cqe *e;
	struct io_uring_sqe *s;
	struct io_uring ring;
	long ret;

	if (io_uring_queue_init(ENTRIES, &ring, 0))
		return -ENOSYS;
	s = io_uring_get_sqe(&ring);
	prepare(s, c, fz_fd(c->s), &at, len);
	io_uring_sqe_set_data64(s, 1);
	/* now and then by a worker, whatever would be done at once */
	if (c->v >> 32 & 1)
		s->flags |= IOSQE_ASYNC;
	io_uring_submit(&ring);
	ret = io_uring_wait_cqe_timeout(&ring, &e, &soon);
	if (!ret)
		ret = result(c, e);
	io_uring_queue_exit(&ring);
	return ret;
}
