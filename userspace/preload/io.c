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
 * for certain and the kernel says that the stream goes on. Whoever then sleeps
 * in poll() or epoll is armed by the kernel's ->poll, which always arms. On a
 * full ring the system call has to be made: that is what arms EPOLLOUT.
 *
 * All that is rare goes to the kernel as it is: MSG_OOB, MSG_PEEK, MSG_TRUNC,
 * MSG_ERRQUEUE, control messages, addresses, no bytes at all, memory that is
 * none, also if a copy finds that out in the middle of it (copy.h). So is
 * what waits for a ring's lock word, since any process that shares the socket
 * may have written to it, and only the kernel's wait hears signals.
 *
 * No wrapper: sendfile(), splice(), tee(), vmsplice(), shutdown() and io_uring,
 * for which the kernel does it all, and coherently; so it does for stdio, whose
 * calls are libc's own and pass us by. The bytes of sendmmsg() and recvmmsg()
 * are the kernel's, too: they are here for the descriptors that go along.
 *
 * A signal handler that interrupted this very thread within the few
 * instructions that hold a ring's lock, and reads or writes the same socket, is
 * told EINTR, or EAGAIN if it does not block: there is nobody to wait for.
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

#include "fdtab.h"
#include "real.h"

/* What these functions say when the caller is to make its system call. */
#define TO_KERNEL	((ssize_t)-2)

/* Flags of send() and recv() that change nothing for a ring. */
#define SEND_FLAGS	(MSG_DONTWAIT | MSG_NOSIGNAL | MSG_MORE)
#define RECV_FLAGS	(MSG_DONTWAIT | MSG_NOSIGNAL | MSG_WAITALL | \
			 MSG_CMSG_CLOEXEC)

/* Neither NULL nor any of its neighbours, nor the kernel's half. */
static bool may_be_memory(const void *p)
{
	return (uintptr_t)p >= 65536 && (intptr_t)p > 0;
}

/**
 * struct pause - a wait that may end in a sleep
 * @start: when it began
 * @tx: for room
 * @slept: there is something to learn from it
 */
struct pause {
	uint64_t start;
	bool tx;
	bool slept;
};

/* The system call is back: had it been worth while to wait? */
static void woke(int fd, const struct pause *p)
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

static ssize_t nested(const struct sock *s, int flags)
{
	errno = sock_nonblocking(s) || flags & MSG_DONTWAIT ? EAGAIN : EINTR;
	return -1;
}

static bool plain(const struct sock *s)
{
	return l5_unlikely(atomic_load_explicit(&s->flags,
						memory_order_relaxed) &
			   SOCK_PLAIN);
}

/* Buffers that the kernel should see: none, too many, or no memory. */
static bool odd_iov(const struct iovec *iov, int n, size_t *len)
{
	int i;

	*len = 0;
	if (n <= 0 || n > IOV_MAX || !may_be_memory(iov))
		return true;
	for (i = 0; i < n; i++) {
		if (iov[i].iov_len && !may_be_memory(iov[i].iov_base))
			return true;
		if (iov[i].iov_len > SSIZE_MAX - *len)
			return true;
		*len += iov[i].iov_len;
	}
	return !*len;
}

/* The buffers without the first @done bytes. Returns how many. */
static int rest_of(const struct iovec *iov, int n, size_t done,
		   struct iovec *rest)
{
	int i, k = 0;

	for (i = 0; i < n; i++) {
		if (done >= iov[i].iov_len) {
			done -= iov[i].iov_len;
			continue;
		}
		rest[k].iov_base = (char *)iov[i].iov_base + done;
		rest[k++].iov_len = iov[i].iov_len - done;
		done = 0;
	}
	return k;
}

/* Receiving */

/* The rest of MSG_WAITALL, by the kernel. */
static ssize_t recv_rest(int fd, const struct iovec *iov, int n, size_t done,
			 int flags)
{
	struct iovec rest[n];
	struct msghdr msg = { .msg_iov = rest };
	int saved = errno;
	ssize_t ret;

	msg.msg_iovlen = rest_of(iov, n, done, rest);
	ret = real.recvmsg(fd, &msg, flags);
	if (ret < 0)
		errno = saved;
	return ret > 0 ? (ssize_t)done + ret : (ssize_t)done;
}

/*
 * Receive from the ring; @s is in use, and not any more afterwards. Returns
 * bytes, -1 with errno, or TO_KERNEL.
 */
static ssize_t ring_recv(struct sock *s, int fd, const struct iovec *iov,
			 int n, size_t len, int flags, struct pause *p)
{
	bool dontwait = flags & MSG_DONTWAIT;
	int fruitless = 0;
	ssize_t ret;

	p->slept = false;
	p->tx = false;
	if (plain(s)) {
		sock_done();
		return TO_KERNEL;
	}
	for (;;) {
		if (n == 1)
			ret = l5_map_recv1(s->map, fd, iov->iov_base, len);
		else
			ret = l5_map_tryrecv(s->map, fd, iov, n, 0);
		if (l5_likely(ret > 0))
			break;
		if (ret != L5_TRY_AGAIN)
			break;
		if (dontwait || sock_nonblocking(s)) {
			if (dontwait || sock_alone(s)) {
				errno = EAGAIN;
				ret = -1;
			}
			break;
		}
		if (!l5_map_wait_rx(s->map, &p->start)) {
			p->slept = true;
			break;
		}
		if (++fruitless == L5_FRUITLESS)
			break;
	}
	if (ret == L5_TRY_NESTED)
		ret = nested(s, flags);
	sock_done();
	if (ret == L5_TRY_BROKEN) {
		errno = EPROTO;
		return -1;
	}
	if (ret < -1)
		return TO_KERNEL;
	if (l5_unlikely(flags & MSG_WAITALL && ret > 0 && (size_t)ret < len))
		return recv_rest(fd, iov, n, ret, flags);
	return ret;
}

/* One buffer; TO_KERNEL if the descriptor is not ours, too. */
static inline __attribute__((always_inline))
ssize_t recv_one(int fd, void *buf, size_t len, int flags, struct pause *p)
{
	struct iovec iov = { buf, len };
	struct sock *s = sock_use(fd);

	p->slept = false;
	if (l5_likely(!s))
		return TO_KERNEL;
	if (flags & ~RECV_FLAGS || !len || len > SSIZE_MAX ||
	    !may_be_memory(buf)) {
		sock_done();
		return TO_KERNEL;
	}
	return ring_recv(s, fd, &iov, 1, len, flags, p);
}

static ssize_t recv_many(int fd, const struct iovec *iov, int n, int flags,
			 struct pause *p)
{
	struct sock *s = sock_use(fd);
	size_t len;

	p->slept = false;
	if (l5_likely(!s))
		return TO_KERNEL;
	if (flags & ~RECV_FLAGS || odd_iov(iov, n, &len)) {
		sock_done();
		return TO_KERNEL;
	}
	return ring_recv(s, fd, iov, n, len, flags, p);
}

/*
 * The first attempt, and if it is the kernel's turn the plain call; @ret is
 * what both return into, @p has to be there.
 */
#define THEN(ret, fd, p, call) do {					\
	if (l5_likely((ret) == TO_KERNEL)) {				\
		(ret) = (call);						\
		if (l5_unlikely((p)->slept))				\
			woke((fd), (p));				\
	}								\
} while (0)

EXPORT ssize_t read(int fd, void *buf, size_t n)
{
	struct pause p;
	ssize_t ret = recv_one(fd, buf, n, 0, &p);

	THEN(ret, fd, &p, real.read(fd, buf, n));
	return ret;
}

EXPORT ssize_t recv(int fd, void *buf, size_t n, int flags)
{
	struct pause p;
	ssize_t ret = recv_one(fd, buf, n, flags, &p);

	THEN(ret, fd, &p, real.recv(fd, buf, n, flags));
	return ret;
}

EXPORT ssize_t recvfrom(int fd, void *buf, size_t n, int flags,
			struct sockaddr *from, socklen_t *len)
{
	struct pause p = { .slept = false };
	ssize_t ret = from ? TO_KERNEL : recv_one(fd, buf, n, flags, &p);

	THEN(ret, fd, &p, real.recvfrom(fd, buf, n, flags, from, len));
	return ret;
}

EXPORT ssize_t readv(int fd, const struct iovec *iov, int n)
{
	struct pause p;
	ssize_t ret = recv_many(fd, iov, n, 0, &p);

	THEN(ret, fd, &p, real.readv(fd, iov, n));
	return ret;
}

/* Descriptors that came along are new, whatever we thought of the numbers. */
static void received(const struct msghdr *msg)
{
	struct cmsghdr *c;
	size_t i, n;
	int fd;

	if (!msg->msg_control || msg->msg_controllen < sizeof(*c))
		return;
	for (c = CMSG_FIRSTHDR(msg); c;
	     c = CMSG_NXTHDR((struct msghdr *)msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(fd);
		for (i = 0; i < n; i++) {
			memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
			fd_new(fd);
		}
	}
}

EXPORT ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
	struct pause p = { .slept = false };
	ssize_t ret = TO_KERNEL;
	bool simple;

	if (fd_word(fd) == FD_OTHER || !may_be_memory(msg)) {
		ret = real.recvmsg(fd, msg, flags);
		if (ret >= 0)
			received(msg);
		return ret;
	}
	simple = !msg->msg_controllen && !msg->msg_name;
	if (simple && msg->msg_iovlen <= IOV_MAX)
		ret = recv_many(fd, msg->msg_iov, msg->msg_iovlen, flags, &p);
	if (ret >= 0)
		msg->msg_flags = flags & MSG_CMSG_CLOEXEC;
	THEN(ret, fd, &p, real.recvmsg(fd, msg, flags));
	if (!simple && ret >= 0)
		received(msg);
	return ret;
}

EXPORT int recvmmsg(int fd, struct mmsghdr *msgs, unsigned int n, int flags,
		    struct timespec *t)
{
	int i, ret = real.recvmmsg(fd, msgs, n, flags, t);

	for (i = 0; i < ret; i++)
		received(&msgs[i].msg_hdr);
	return ret;
}

/* Sending */

/*
 * A send had moved something when the kernel told, and forgot, why it cannot
 * move the rest. EPIPE it tells again, and with its signal. AF_UNIX forgets.
 */
static void keep_error(int fd, int error)
{
	int domain = AF_UNIX;
	socklen_t len = sizeof(domain);
	struct sock *s;

	if (error == EAGAIN || error == EINTR || error == EPIPE)
		return;
	if (syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_DOMAIN, &domain,
		    &len) || domain == AF_UNIX)
		return;
	s = sock_look(fd);
	if (!s)
		return;
	atomic_store(&s->error, error);
	sock_done();
}

/* Tell it, once. */
static ssize_t kept_error(struct sock *s)
{
	int error = atomic_exchange(&s->error, 0);

	sock_done();
	if (!error)
		return TO_KERNEL;
	errno = error;
	return -1;
}

/*
 * Send through the ring; @s is in use, and not any more afterwards. Returns as
 * ring_recv().
 */
static ssize_t ring_send(struct sock *s, int fd, const struct iovec *iov,
			 int n, size_t len, int flags, struct pause *p)
{
	bool dontwait = flags & MSG_DONTWAIT || sock_nonblocking(s);
	int fruitless = 0;
	size_t done = 0;
	ssize_t ret;

	p->slept = false;
	p->tx = true;
	if (plain(s)) {
		sock_done();
		return TO_KERNEL;
	}
	if (l5_unlikely(atomic_load_explicit(&s->error, memory_order_relaxed)))
		return kept_error(s);
	if (n == 1)
		ret = l5_map_send1(s->map, fd, iov->iov_base, len);
	else
		ret = l5_map_trysend(s->map, fd, iov, n);
	if (l5_likely(ret == (ssize_t)len)) {
		sock_done();
		return ret;
	}
	for (;;) {
		struct iovec rest[done || ret > 0 ? n : 1];
		int k;

		if (ret > 0) {
			done += ret;
			fruitless = 0;
			if (done == len)
				break;
		} else if (ret != L5_TRY_AGAIN || dontwait) {
			break;
		} else if (!l5_map_wait_tx(s->map, &p->start)) {
			p->slept = true;
			break;
		} else if (++fruitless == L5_FRUITLESS) {
			break;
		}
		if (done) {
			k = rest_of(iov, n, done, rest);
			ret = l5_map_trysend(s->map, fd, rest, k);
		} else {
			ret = l5_map_trysend(s->map, fd, iov, n);
		}
	}
	if (ret == L5_TRY_NESTED && !done)
		ret = nested(s, flags);
	sock_done();
	if (ret == L5_TRY_BROKEN && !done) {
		errno = EPROTO;
		return -1;
	}
	if (ret == -1 || done == len)
		return done == len ? (ssize_t)done : -1;
	if (!done)
		return TO_KERNEL;
	/* an error now is for the next call to report */
	if (ret == L5_TRY_AGAIN || ret == L5_TRY_BUSY) {
		struct iovec rest[n];
		struct msghdr msg = { .msg_iov = rest };
		int saved = errno;

		msg.msg_iovlen = rest_of(iov, n, done, rest);
		ret = real.sendmsg(fd, &msg, flags | MSG_NOSIGNAL);
		if (ret > 0)
			done += ret;
		else if (ret < 0)
			keep_error(fd, errno);
		errno = saved;
		woke(fd, p);
		p->slept = false;
	}
	return done;
}

static inline __attribute__((always_inline))
ssize_t send_one(int fd, const void *buf, size_t len, int flags,
		 struct pause *p)
{
	struct iovec iov = { (void *)buf, len };
	struct sock *s = sock_use(fd);

	p->slept = false;
	if (l5_likely(!s))
		return TO_KERNEL;
	if (flags & ~SEND_FLAGS || !len || len > SSIZE_MAX ||
	    !may_be_memory(buf)) {
		sock_done();
		return TO_KERNEL;
	}
	return ring_send(s, fd, &iov, 1, len, flags, p);
}

static ssize_t send_many(int fd, const struct iovec *iov, int n, int flags,
			 struct pause *p)
{
	struct sock *s = sock_use(fd);
	size_t len;

	p->slept = false;
	if (l5_likely(!s))
		return TO_KERNEL;
	if (flags & ~SEND_FLAGS || odd_iov(iov, n, &len)) {
		sock_done();
		return TO_KERNEL;
	}
	return ring_send(s, fd, iov, n, len, flags, p);
}

EXPORT ssize_t write(int fd, const void *buf, size_t n)
{
	struct pause p;
	ssize_t ret = send_one(fd, buf, n, 0, &p);

	THEN(ret, fd, &p, real.write(fd, buf, n));
	return ret;
}

EXPORT ssize_t send(int fd, const void *buf, size_t n, int flags)
{
	struct pause p;
	ssize_t ret = send_one(fd, buf, n, flags, &p);

	THEN(ret, fd, &p, real.send(fd, buf, n, flags));
	return ret;
}

EXPORT ssize_t sendto(int fd, const void *buf, size_t n, int flags,
		      const struct sockaddr *to, socklen_t len)
{
	struct pause p = { .slept = false };
	ssize_t ret = to ? TO_KERNEL : send_one(fd, buf, n, flags, &p);

	THEN(ret, fd, &p, real.sendto(fd, buf, n, flags, to, len));
	return ret;
}

EXPORT ssize_t writev(int fd, const struct iovec *iov, int n)
{
	struct pause p;
	ssize_t ret = send_many(fd, iov, n, 0, &p);

	THEN(ret, fd, &p, real.writev(fd, iov, n));
	return ret;
}

/* From now on somebody else has them too. */
static void passed(const struct msghdr *msg)
{
	struct cmsghdr *c;
	size_t i, n;
	int fd;

	for (c = CMSG_FIRSTHDR(msg); c;
	     c = CMSG_NXTHDR((struct msghdr *)msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(fd);
		for (i = 0; i < n; i++) {
			memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
			fd_shared(fd);
		}
	}
}

EXPORT ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	struct pause p = { .slept = false };
	ssize_t ret = TO_KERNEL;

	if (may_be_memory(msg)) {
		if (msg->msg_controllen >= sizeof(struct cmsghdr) &&
		    may_be_memory(msg->msg_control))
			passed(msg);
		else if (!msg->msg_controllen && !msg->msg_name &&
			 msg->msg_iovlen <= IOV_MAX)
			ret = send_many(fd, msg->msg_iov, msg->msg_iovlen,
					flags, &p);
	}
	THEN(ret, fd, &p, real.sendmsg(fd, msg, flags));
	return ret;
}

EXPORT int sendmmsg(int fd, struct mmsghdr *msgs, unsigned int n, int flags)
{
	struct msghdr *msg;
	unsigned int i;

	/* the kernel takes no more of them at a time */
	for (i = 0; may_be_memory(msgs) && i < n && i < IOV_MAX; i++) {
		msg = &msgs[i].msg_hdr;
		if (msg->msg_controllen >= sizeof(struct cmsghdr) &&
		    may_be_memory(msg->msg_control))
			passed(msg);
	}
	return real.sendmmsg(fd, msgs, n, flags);
}

/* On a socket the offset has to be -1, and then it is readv(). */

EXPORT ssize_t preadv64v2(int fd, const struct iovec *iov, int n, off64_t off,
			  int flags)
{
	struct pause p = { .slept = false };
	ssize_t ret = TO_KERNEL;

	if (off == -1 && !flags)
		ret = recv_many(fd, iov, n, 0, &p);
	THEN(ret, fd, &p, real.preadv64v2(fd, iov, n, off, flags));
	return ret;
}

EXPORT ssize_t pwritev64v2(int fd, const struct iovec *iov, int n, off64_t off,
			   int flags)
{
	struct pause p = { .slept = false };
	ssize_t ret = TO_KERNEL;

	if (off == -1 && !flags)
		ret = send_many(fd, iov, n, 0, &p);
	THEN(ret, fd, &p, real.pwritev64v2(fd, iov, n, off, flags));
	return ret;
}

EXPORT ssize_t preadv2(int fd, const struct iovec *iov, int n, off_t off,
		       int flags) __attribute__((alias("preadv64v2")));
EXPORT ssize_t pwritev2(int fd, const struct iovec *iov, int n, off_t off,
			int flags) __attribute__((alias("pwritev64v2")));

/* What read() and recv() are when a program was built with _FORTIFY_SOURCE. */

void __chk_fail(void) __attribute__((noreturn));

EXPORT ssize_t __read_chk(int fd, void *buf, size_t n, size_t size);
EXPORT ssize_t __read_chk(int fd, void *buf, size_t n, size_t size)
{
	if (n > size)
		__chk_fail();
	return read(fd, buf, n);
}

EXPORT ssize_t __recv_chk(int fd, void *buf, size_t n, size_t size, int flags);
EXPORT ssize_t __recv_chk(int fd, void *buf, size_t n, size_t size, int flags)
{
	if (n > size)
		__chk_fail();
	return recv(fd, buf, n, flags);
}

EXPORT ssize_t __recvfrom_chk(int fd, void *buf, size_t n, size_t size,
			      int flags, struct sockaddr *from,
			      socklen_t *len);
EXPORT ssize_t __recvfrom_chk(int fd, void *buf, size_t n, size_t size,
			      int flags, struct sockaddr *from,
			      socklen_t *len)
{
	if (n > size)
		__chk_fail();
	return recvfrom(fd, buf, n, flags, from, len);
}
