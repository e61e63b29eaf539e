/* SPDX-License-Identifier: GPL-2.0 */
/* io_uring, one call at a time. A header, as not all programs link liburing. */
#ifndef L5_URING_H
#define L5_URING_H

#include <errno.h>
#include <liburing.h>
#include <stdbool.h>

/* Do what was prepared and wait for it: its result, or -1 with errno. */
static inline int uring_result(struct io_uring *ring)
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

/* Close a descriptor, with flags of the request: was it? */
static inline bool uring_close(int fd, unsigned int flags)
{
	struct io_uring_sqe *sqe;
	struct io_uring ring;
	int res = -1;

	if (io_uring_queue_init(4, &ring, 0))
		return false;
	sqe = io_uring_get_sqe(&ring);
	io_uring_prep_close(sqe, fd);
	sqe->flags |= flags;
	res = uring_result(&ring);
	io_uring_queue_exit(&ring);
	return !res;
}

#endif /* L5_URING_H */
