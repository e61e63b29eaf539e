// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: splice() and sendfile().
 *
 * If TCP carries the bytes, and will carry them, they are spliced by TCP, which
 * knows of urgent data and need not copy. Else the bytes are received as by
 * recvmsg(): the pages of a ring stay the ring's.
 */
#include <linux/fs.h>
#include <linux/pipe_fs_i.h>
#include <linux/splice.h>
#include <linux/uio.h>

#include "answer.h"
#include "bootstrap.h"
#include "connect.h"
#include "io.h"
#include "splice.h"
#include "transport.h"

/* Is a connected socket's stream TCP's for good? */
static bool l5_splice_base(struct l5_sock *l5)
{
	return !l5->bops->whole && !l5_rx_rings(l5) && !l5_remote_may_move(l5);
}

#if L5_OLD_SPLICE

/**
 * l5_sendpage() - struct proto_ops's sendpage
 * @sock: the socket
 * @page: where the bytes are
 * @offset: in the page
 * @size: bytes
 * @flags: MSG_*
 *
 * Context: may sleep.
 * Return: bytes sent or -errno.
 */
ssize_t l5_sendpage(struct socket *sock, struct page *page, int offset,
		    size_t size, int flags)
{
	struct l5_sock *l5 = l5_sk(sock->sk);
	ssize_t ret;

	/* the bootstrap can do without a copy, a ring cannot */
	if (l5_state(l5) != L5_BASE || l5_remote_may_move(l5) ||
	    !l5->boot->ops->sendpage)
		return sock_no_sendpage(sock, page, offset, size, flags);
	l5_boot_use(l5);
	ret = l5->boot->ops->sendpage(l5->boot, page, offset, size, flags);
	l5_boot_error(l5);
	return ret;
}

#else

/**
 * l5_splice_eof() - a file that was being sent has ended before its time
 * @sock: the socket
 *
 * Bytes that TCP keeps until more come are to go now. A ring keeps none.
 */
void l5_splice_eof(struct socket *sock)
{
	struct socket *boot = l5_sk(sock->sk)->boot;

	if (boot->ops->splice_eof)
		boot->ops->splice_eof(boot);
}

#endif /* L5_OLD_SPLICE */

/* Pages that one call fills at most, as many as a pipe has by default. */
#define L5_SPLICE_PAGES	PIPE_DEF_BUFFERS

static void l5_splice_release(struct splice_pipe_desc *spd, unsigned int i)
{
	put_page(spd->pages[i]);
}

/*
 * Receive into fresh pages, and put them into the pipe. The function that newer
 * kernels have for that knows nothing of SPLICE_F_NONBLOCK, which AF_UNIX
 * obeys.
 */
static ssize_t l5_splice_copy(struct socket *sock,
			      struct pipe_inode_info *pipe, size_t len,
			      unsigned int flags)
{
	int nonblock = sock->file->f_flags & O_NONBLOCK ? MSG_DONTWAIT : 0;
	struct l5_sock *l5 = l5_sk(sock->sk);
	unsigned int used = pipe_occupancy(pipe->head, pipe->tail);
	struct partial_page partial[L5_SPLICE_PAGES] = { };
	struct bio_vec bvec[L5_SPLICE_PAGES];
	struct page *pages[L5_SPLICE_PAGES];
	struct splice_pipe_desc spd = {
		.pages		= pages,
		.partial	= partial,
		.nr_pages_max	= L5_SPLICE_PAGES,
		.ops		= &nosteal_pipe_buf_ops,
		.spd_release	= l5_splice_release,
	};
	struct msghdr msg = { };
	unsigned int i, n;
	ssize_t ret;

	if (used >= pipe->max_usage)
		return -EAGAIN;
	if (l5->bops->whole && flags & SPLICE_F_NONBLOCK)
		nonblock = MSG_DONTWAIT;
	n = min3((size_t)(pipe->max_usage - used), (size_t)L5_SPLICE_PAGES,
		 DIV_ROUND_UP(len, PAGE_SIZE));
	for (i = 0; i < n; i++) {
		pages[i] = alloc_page(GFP_USER | __GFP_ACCOUNT);
		if (!pages[i])
			break;
		bvec[i].bv_page = pages[i];
		bvec[i].bv_offset = 0;
		bvec[i].bv_len = PAGE_SIZE;
	}
	n = i;
	if (!n)
		return -ENOMEM;
	len = min_t(size_t, len, n * PAGE_SIZE);
	iov_iter_bvec(&msg.msg_iter, L5_ITER_DEST, bvec, n, len);
	ret = sock_recvmsg(sock, &msg, nonblock);
	for (i = 0; ret > 0 && i * PAGE_SIZE < ret; i++)
		partial[i].len = min_t(size_t, ret - i * PAGE_SIZE, PAGE_SIZE);
	while (n > i)
		put_page(pages[--n]);
	spd.nr_pages = i;
	return i ? splice_to_pipe(pipe, &spd) : ret;
}

/**
 * l5_splice_read() - move bytes from a socket into a pipe
 * @sock: the socket
 * @ppos: not used
 * @pipe: the pipe, locked by the caller, which has seen room in it
 * @len: how many at most
 * @flags: SPLICE_F_*, which say nothing about a TCP socket
 *
 * Return: bytes moved, 0 at the end of the stream, or as recvmsg().
 */
ssize_t l5_splice_read(struct socket *sock, loff_t *ppos,
		       struct pipe_inode_info *pipe, size_t len,
		       unsigned int flags)
{
	bool nonblock = sock->file->f_flags & O_NONBLOCK, early, base;
	struct l5_sock *l5 = l5_sk(sock->sk);
	ssize_t ret;

	if (!l5->bops->whole) {
		ret = l5_wait_carrier(l5, sock_rcvtimeo(&l5->sk, nonblock));
		if (ret)
			return ret;
	}
	early = l5_early_begin(l5, L5_REASON_CONNECT);
	base = l5_splice_base(l5);
	if (base) {
		l5_boot_use(l5);
		ret = l5->boot->ops->splice_read(l5->boot, ppos, pipe, len,
						 flags);
		l5_boot_error(l5);
	}
	if (early)
		l5_early_end(l5);
	return base ? ret : l5_splice_copy(sock, pipe, len, flags);
}

/**
 * l5_packet_splice_read() - receive a message into a pipe
 * @sock: a socket of type SOCK_SEQPACKET
 * @ppos: not used
 * @pipe: as of l5_splice_read()
 * @len: how much of it; the rest is lost
 * @flags: SPLICE_F_*, which say nothing about such a socket of AF_UNIX, either
 *
 * AF_UNIX has no such function, and then older kernels hand recvmsg() the pipe
 * itself. What is copied there from a page is the page.
 *
 * Return: as l5_splice_read().
 */
ssize_t l5_packet_splice_read(struct socket *sock, loff_t *ppos,
			      struct pipe_inode_info *pipe, size_t len,
			      unsigned int flags)
{
	return l5_splice_copy(sock, pipe, len, 0);
}
