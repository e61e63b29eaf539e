// SPDX-License-Identifier: GPL-2.0
/*
 * Bytes: read(), write() and their relatives.
 *
 * What the ring has, or has room for, is moved here. When it is empty or full
 * the call waits a while as long as that pays (l5_map_wait_rx()), and then does
 * the plain system call, which sleeps, with the right time-outs, signals and
 * restarts, and moves the data itself. What a blocking send did before counts.
 *
 * A nonblocking call on an empty ring is EAGAIN at once, if the flag is known
 * for certain and the kernel says that the stream goes on. For a program that
 * then sleeps in poll() or epoll the kernel's ->poll arms, as it always does.
 * On a full ring the system call has to be made: that is what arms EPOLLOUT.
 *
 * All that is rare goes to the kernel as it is: MSG_OOB, MSG_PEEK, MSG_TRUNC,
 * MSG_ERRQUEUE, control messages, no bytes at all, bad addresses, also if a
 * copy finds that out in the middle of it (copy.h), and on AF_UNIX addresses of
 * sockets; those of a TCP connection mean nothing. So does a call that waits
 * for a ring's lock word, since any process that shares the socket may have
 * written to it, and only the kernel's wait hears signals.
 *
 * No wrapper: sendfile(), splice(), tee(), vmsplice(), shutdown() and io_uring,
 * for which the kernel does it all, and coherently. It does the same for stdio,
 * whose calls are libc's own and pass us by. The bytes of sendmmsg() and
 * recvmmsg() are the kernel's, too: they are here for the descriptors that go
 * along.
 *
 * A signal that comes while a call waits ends it, as it would end the sleep:
 * its handler runs once the ring is not in use any more, see signal.h, and the
 * call returns what is there, or EINTR, or sleeps if the handler lets calls go
 * on. A handler that is not kept out, see there, and that interrupted this very
 * thread within the few instructions that hold a ring's lock, and reads or
 * writes the same socket, is told EINTR, or EAGAIN if it does not block: it
 * would wait for itself.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "io.h"

void io_woke(int fd, const struct pause *p)
{
	struct sock *s;

	if (!p->slept)
		return;
	s = sock_look(fd);
	if (!s)
		return;
	if (p->tx)
		l5_map_woke_tx(s->map, p->start);
	else
		l5_map_woke_rx(s->map, p->start);
	sock_done();
}

ssize_t io_interrupted(int fd, const struct l5_wait *w, bool tx)
{
	struct timeval t = { 0 };
	socklen_t len = sizeof(t);
	int saved = errno;

	if (!l5_signal_ends(w->seen, l5_signals) &&
	    (syscall(SYS_getsockopt, fd, SOL_SOCKET,
		     tx ? SO_SNDTIMEO : SO_RCVTIMEO, &t, &len) ||
	     !(t.tv_sec || t.tv_usec))) {
		errno = saved;
		return TO_KERNEL;
	}
	errno = EINTR;
	return -1;
}

bool io_odd(const struct iovec *iov, int n, size_t *len)
{
	int i;

	*len = 0;
	if (n <= 0 || n > IOV_MAX || !may_be_memory(iov))
		return true;
	for (i = 0; i < n; i++) {
		if (iov[i].iov_len && !may_be_memory(iov[i].iov_base))
			return true;
		if (iov[i].iov_len > L5_IO_MAX - *len)
			return true;
		*len += iov[i].iov_len;
	}
	return !*len;
}

/*
 * Is the number still that of the socket? It may have been closed meanwhile,
 * and be another's, whose memory may even be the same.
 */
static bool io_rest_of(const struct io_rest *r)
{
	return fd_word(r->fd) == (uintptr_t)r->s && sock_gen(r->s) == r->gen;
}

size_t io_rest(struct io_rest *r)
{
	size_t left = r->at.left, span;
	const struct iovec *v;
	struct iovec first;
	int saved = errno;
	ssize_t ret;
	int n;

	sig_settle();
	while (r->at.left && io_rest_of(r)) {
		n = at_iov(&r->at, &first, &v);
		span = at_span(&r->at);
		ret = r->call(r, v, n);
		if (ret > 0)
			at_move(&r->at, ret);
		if (ret <= 0 || (size_t)ret != span ||
		    !(r->dontwait || l5_no_signal(r->seen)))
			break;
	}
	errno = saved;
	return left - r->at.left;
}
