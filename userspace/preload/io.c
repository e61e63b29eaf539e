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
 * MSG_ERRQUEUE, control messages, no bytes at all, memory that is none, also if
 * a copy finds that out in the middle of it (copy.h), and on AF_UNIX addresses;
 * those of a TCP connection mean nothing. So is
 * what waits for a ring's lock word, since any process that shares the socket
 * may have written to it, and only the kernel's wait hears signals.
 *
 * No wrapper: sendfile(), splice(), tee(), vmsplice(), shutdown() and io_uring,
 * for which the kernel does it all, and coherently; so it does for stdio, whose
 * calls are libc's own and pass us by. The bytes of sendmmsg() and recvmmsg()
 * are the kernel's, too: they are here for the descriptors that go along.
 *
 * A signal that comes while a call waits ends it, as it would end the sleep:
 * its handler runs once the ring is not in use any more, see signal.h, and the
 * call returns what is there, or EINTR, or sleeps if the handler lets calls go
 * on. A handler that is not kept out, see there, and that interrupted this very
 * thread within the few instructions that hold a ring's lock, and reads or
 * writes the same socket, is told EINTR, or EAGAIN if it does not block: there
 * is nobody to wait for.
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
#include "signal.h"
#include "stats.h"

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
 * @seen: l5_signals when the call did
 * @tx: for room
 * @slept: there is something to learn from it
 */
struct pause {
	uint64_t start;
	uint64_t seen;
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

/*
 * Signals came while the call waited, and their handlers have run. TO_KERNEL if
 * it goes on, as it does not where it has a time-out.
 */
static ssize_t interrupted(int fd, const struct pause *p)
{
	struct timeval t = { 0 };
	socklen_t len = sizeof(t);
	int saved = errno;

	if (!l5_signal_ends(p->seen, l5_signals) &&
	    (syscall(SYS_getsockopt, fd, SOL_SOCKET,
		     p->tx ? SO_SNDTIMEO : SO_RCVTIMEO, &t, &len) ||
	     !(t.tv_sec || t.tv_usec))) {
		errno = saved;
		return TO_KERNEL;
	}
	errno = EINTR;
	return -1;
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

/*
 * An address that is asked for: of a connected stream TCP says that it has no
 * bytes, and writes nothing else. @len is where, NULL if none is asked for.
 */
static bool unnamed(const struct sock *s, const socklen_t *len)
{
	return l5_likely(!len) ||
	       (may_be_memory(len) && (int)*len >= 0 &&
		!(atomic_load_explicit(&s->flags, memory_order_relaxed) &
		  SOCK_NAMES));
}

/* One that is given: TCP overlooks it if it is one. @to is NULL for none. */
static bool unaddressed(const struct sock *s, const void *to, socklen_t len)
{
	return l5_likely(!to) ||
	       (may_be_memory(to) && (int)len >= 0 &&
		len <= sizeof(struct sockaddr_storage) &&
		!(atomic_load_explicit(&s->flags, memory_order_relaxed) &
		  SOCK_NAMES));
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

/**
 * struct rest - what is left of some buffers
 * @part: what is left of one that was begun; no bytes if none was
 * @iov: those after it
 * @n: of these
 *
 * Stacks are small and buffers may be many, so these are not copied.
 */
struct rest {
	struct iovec part;
	const struct iovec *iov;
	int n;
};

/* The buffers without the first @done bytes. */
static void rest_of(const struct iovec *iov, int n, size_t done,
		    struct rest *rest)
{
	for (; n && done >= iov->iov_len; iov++, n--)
		done -= iov->iov_len;
	rest->part = (struct iovec){ NULL, 0 };
	if (n && done) {
		rest->part.iov_base = (char *)iov->iov_base + done;
		rest->part.iov_len = iov->iov_len - done;
		iov++;
		n--;
	}
	rest->iov = iov;
	rest->n = n;
}

/* What of them comes first: a call takes these, and another the rest. */
static const struct iovec *rest_first(const struct rest *rest, int *n)
{
	if (rest->part.iov_len) {
		*n = 1;
		return &rest->part;
	}
	*n = rest->n;
	return rest->iov;
}

static size_t bytes_of(const struct iovec *iov, int n)
{
	size_t len = 0;

	for (; n; iov++, n--)
		len += iov->iov_len;
	return len;
}

/* Counting */

/* What the kernel is asked for, once the rings had nothing more to say. */
static enum l5_stats_call call_of(ssize_t ret, bool slept, bool dontwait,
				  enum l5_stats_call full)
{
	if (slept)
		return L5_STATS_SLEPT;
	if (ret == L5_TRY_ASK)
		return L5_STATS_ASKED;
	return ret == L5_TRY_AGAIN && dontwait ? full : L5_STATS_LOCKED;
}

/* Not to be seen by those that did not ask for it. */
static __attribute__((noinline, cold))
void count_recv(struct sock *s, int fd, ssize_t ret, size_t len, int flags,
		const struct pause *p)
{
	bool dontwait = flags & MSG_DONTWAIT || sock_nonblocking(s);
	enum l5_stats_call call = L5_STATS_SAVED;

	if (ret < -1 && ret != L5_TRY_BROKEN)
		call = call_of(ret, p->slept, dontwait, L5_STATS_SHARED);
	else if (ret > 0 && flags & MSG_WAITALL && (size_t)ret < len)
		call = L5_STATS_REST;
	stats_call(s->stat, fd, L5_STATS_IN, call);
}

static __attribute__((noinline, cold))
void count_send(struct sock *s, int fd, ssize_t ret, bool all, bool some,
		bool dontwait, const struct pause *p)
{
	enum l5_stats_call call = L5_STATS_SAVED;

	/* what a part was sent of, and then an error, is not asked about */
	if (!all && ret < -1 && ret != L5_TRY_BROKEN &&
	    (!some || ret == L5_TRY_AGAIN || ret == L5_TRY_BUSY))
		call = call_of(ret, p->slept, dontwait, L5_STATS_FULL);
	stats_call(s->stat, fd, L5_STATS_OUT, call);
}

/* l5_map_wait_rx(), l5_map_wait_tx(): those that look at all are counted. */

static bool wait_rx(struct sock *s, struct pause *p)
{
	bool looks = l5_load(&s->map->rx_adapt.win);
	bool paid = l5_map_wait_rx(s->map, &p->start, p->seen);

	if (looks)
		stats_look(s->stat, L5_STATS_IN, paid);
	return paid;
}

static bool wait_tx(struct sock *s, struct pause *p)
{
	bool looks = l5_load(&s->map->tx_adapt.win);
	bool paid = l5_map_wait_tx(s->map, &p->start, p->seen);

	if (looks)
		stats_look(s->stat, L5_STATS_OUT, paid);
	return paid;
}

/* Receiving */

/*
 * The rest of MSG_WAITALL, by the kernel; by the system call that the program
 * made, since a filter may know no other.
 */
static ssize_t recv_rest(int fd, const struct iovec *iov, int n, size_t done,
			 size_t len, int flags, uint64_t seen)
{
	const struct iovec *first;
	int saved = errno, k;
	struct rest rest;
	ssize_t ret;

	sig_settle();
	do {
		rest_of(iov, n, done, &rest);
		first = rest_first(&rest, &k);
		if (n == 1) {
			ret = real.recv(fd, first->iov_base, first->iov_len,
					flags);
		} else {
			struct msghdr msg = {
				.msg_iov = (struct iovec *)first,
				.msg_iovlen = k,
			};

			ret = real.recvmsg(fd, &msg, flags);
		}
		if (ret > 0)
			done += ret;
	} while (done < len && ret > 0 &&
		 (size_t)ret == bytes_of(first, k) && l5_no_signal(seen));
	if (ret < 0)
		errno = saved;
	return done;
}

/*
 * Receive from the ring; @s is in use, and not any more afterwards. Returns
 * bytes, -1 with errno, or TO_KERNEL.
 */
static ssize_t ring_recv(struct sock *s, int fd, const struct iovec *iov,
			 int n, size_t len, int flags, struct pause *p)
{
	bool dontwait = flags & MSG_DONTWAIT, came = false;
	int fruitless = 0;
	ssize_t ret;

	p->seen = l5_signals;
	p->slept = false;
	p->tx = false;
	if (plain(s)) {
		stats_call(s->stat, fd, L5_STATS_IN, L5_STATS_OPTION);
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
		if (!wait_rx(s, p)) {
			came = !l5_no_signal(p->seen);
			/* what is there comes before the signal */
			if (came && l5_map_readable(s->map) &&
			    ++fruitless < L5_FRUITLESS)
				continue;
			p->slept = !came;
			break;
		}
		if (++fruitless == L5_FRUITLESS)
			break;
	}
	if (ret == L5_TRY_NESTED)
		ret = nested(s, flags);
	if (l5_unlikely(s->stat))
		count_recv(s, fd, ret, len, flags, p);
	sock_done();
	if (l5_unlikely(came && ret == L5_TRY_AGAIN))
		return interrupted(fd, p);
	if (ret == L5_TRY_BROKEN) {
		errno = EPROTO;
		return -1;
	}
	if (ret < -1)
		return TO_KERNEL;
	if (l5_unlikely(flags & MSG_WAITALL && ret > 0 && (size_t)ret < len &&
			l5_no_signal(p->seen)))
		return recv_rest(fd, iov, n, ret, len, flags, p->seen);
	return ret;
}

/* One buffer; TO_KERNEL if the descriptor is not ours, too. */
static inline __attribute__((always_inline))
ssize_t recv_one(int fd, void *buf, size_t len, int flags,
		 const socklen_t *name, struct pause *p)
{
	struct iovec iov = { buf, len };
	struct sock *s = sock_use(fd);

	p->slept = false;
	if (l5_likely(!s))
		return TO_KERNEL;
	if (flags & ~RECV_FLAGS || !len || len > SSIZE_MAX ||
	    !may_be_memory(buf) || !unnamed(s, name)) {
		stats_call(s->stat, fd, L5_STATS_IN, flags & ~RECV_FLAGS ?
			   L5_STATS_FLAGS : L5_STATS_ODD);
		sock_done();
		return TO_KERNEL;
	}
	return ring_recv(s, fd, &iov, 1, len, flags, p);
}

static ssize_t recv_many(int fd, const struct iovec *iov, int n, int flags,
			 const socklen_t *name, struct pause *p)
{
	struct sock *s = sock_use(fd);
	size_t len;

	p->slept = false;
	if (l5_likely(!s))
		return TO_KERNEL;
	if (flags & ~RECV_FLAGS || odd_iov(iov, n, &len) ||
	    !unnamed(s, name)) {
		stats_call(s->stat, fd, L5_STATS_IN, flags & ~RECV_FLAGS ?
			   L5_STATS_FLAGS : L5_STATS_ODD);
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
		sig_settle();						\
		(ret) = (call);						\
		if (l5_unlikely((p)->slept))				\
			woke((fd), (p));				\
	}								\
} while (0)

EXPORT ssize_t read(int fd, void *buf, size_t n)
{
	struct pause p;
	ssize_t ret = recv_one(fd, buf, n, 0, NULL, &p);

	THEN(ret, fd, &p, real.read(fd, buf, n));
	return ret;
}

EXPORT ssize_t recv(int fd, void *buf, size_t n, int flags)
{
	struct pause p;
	ssize_t ret = recv_one(fd, buf, n, flags, NULL, &p);

	THEN(ret, fd, &p, real.recv(fd, buf, n, flags));
	return ret;
}

EXPORT ssize_t recvfrom(int fd, void *buf, size_t n, int flags,
			struct sockaddr *from, socklen_t *len)
{
	struct pause p = { .slept = false };
	ssize_t ret = TO_KERNEL;

	if (!from || len)
		ret = recv_one(fd, buf, n, flags, from ? len : NULL, &p);
	if (from && ret > 0)
		*len = 0;
	THEN(ret, fd, &p, real.recvfrom(fd, buf, n, flags, from, len));
	return ret;
}

EXPORT ssize_t readv(int fd, const struct iovec *iov, int n)
{
	struct pause p;
	ssize_t ret = recv_many(fd, iov, n, 0, NULL, &p);

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
	simple = !msg->msg_controllen;
	if (simple && msg->msg_iovlen <= IOV_MAX)
		ret = recv_many(fd, msg->msg_iov, msg->msg_iovlen, flags,
				msg->msg_name ? &msg->msg_namelen : NULL, &p);
	else
		stats_left(fd, L5_STATS_IN, L5_STATS_ADDRESS);
	if (ret >= 0)
		msg->msg_flags = flags & MSG_CMSG_CLOEXEC;
	if (ret >= 0 && msg->msg_name)
		msg->msg_namelen = 0;
	THEN(ret, fd, &p, real.recvmsg(fd, msg, flags));
	if (!simple && ret >= 0)
		received(msg);
	return ret;
}

EXPORT int recvmmsg(int fd, struct mmsghdr *msgs, unsigned int n, int flags,
		    struct timespec *t)
{
	int i, ret = real.recvmmsg(fd, msgs, n, flags, t);

	stats_left(fd, L5_STATS_IN, L5_STATS_MANY);
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
	struct sock *s;

	if (error == EAGAIN || error == EINTR || error == EPIPE)
		return;
	s = sock_look(fd);
	if (!s)
		return;
	if (!(atomic_load_explicit(&s->flags, memory_order_relaxed) &
	      SOCK_NAMES))
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

/* As sendmsg(), of a send that had begun when the library became careful. */
static ssize_t write_all(int fd, const struct iovec *iov, int n)
{
	size_t done = 0;
	ssize_t ret;
	int i;

	for (i = 0; i < n; i++) {
		/* the call that no filter refuses */
		ret = real.write(fd, iov[i].iov_base, iov[i].iov_len);
		if (ret > 0)
			done += ret;
		if (ret < 0 || (size_t)ret < iov[i].iov_len)
			break;
	}
	return done;
}

/* The rest of a send, by the kernel. How many bytes went in all. */
static size_t send_rest(int fd, const struct iovec *iov, int n, size_t done,
			size_t len, int flags, bool dontwait, uint64_t seen)
{
	const struct iovec *first;
	struct rest rest;
	ssize_t ret;
	int k;

	sig_settle();
	do {
		rest_of(iov, n, done, &rest);
		first = rest_first(&rest, &k);
		if (sandbox_careful()) {
			ret = dontwait ? 0 : write_all(fd, first, k);
		} else {
			struct msghdr msg = {
				.msg_iov = (struct iovec *)first,
				.msg_iovlen = k,
			};

			ret = real.sendmsg(fd, &msg, flags | MSG_NOSIGNAL);
		}
		if (ret > 0)
			done += ret;
		else if (ret < 0)
			keep_error(fd, errno);
	} while (done < len && ret > 0 &&
		 (size_t)ret == bytes_of(first, k) &&
		 (dontwait || l5_no_signal(seen)));
	return done;
}

/*
 * Send through the ring; @s is in use, and not any more afterwards. Returns as
 * ring_recv().
 */
static ssize_t ring_send(struct sock *s, int fd, const struct iovec *iov,
			 int n, size_t len, int flags, struct pause *p)
{
	bool dontwait = flags & MSG_DONTWAIT || sock_nonblocking(s);
	bool came = false;
	int fruitless = 0;
	size_t done = 0;
	ssize_t ret;

	p->seen = l5_signals;
	p->slept = false;
	p->tx = true;
	if (plain(s)) {
		stats_call(s->stat, fd, L5_STATS_OUT, L5_STATS_OPTION);
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
		stats_call(s->stat, fd, L5_STATS_OUT, L5_STATS_SAVED);
		sock_done();
		return ret;
	}
	for (;;) {
		const struct iovec *first;
		struct rest rest;
		int k;

		if (ret > 0) {
			done += ret;
			fruitless = 0;
			if (done == len)
				break;
		} else if (ret != L5_TRY_AGAIN || dontwait) {
			break;
		} else if (!wait_tx(s, p)) {
			came = !l5_no_signal(p->seen);
			p->slept = !came;
			break;
		} else if (++fruitless == L5_FRUITLESS) {
			break;
		}
		if (sandbox_careful()) {
			ret = L5_TRY_AGAIN;
			break;
		}
		rest_of(iov, n, done, &rest);
		first = rest_first(&rest, &k);
		ret = l5_map_trysend(s->map, fd, first, k);
	}
	if (ret == L5_TRY_NESTED && !done)
		ret = nested(s, flags);
	if (l5_unlikely(s->stat))
		count_send(s, fd, ret, done == len, done, dontwait, p);
	sock_done();
	if (l5_unlikely(came))
		return done ? (ssize_t)done : interrupted(fd, p);
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
		int saved = errno;

		/* for which a call that has moved something does not sleep */
		if (!dontwait && !l5_no_signal(p->seen))
			return done;
		done = send_rest(fd, iov, n, done, len, flags, dontwait,
				 p->seen);
		errno = saved;
		woke(fd, p);
		p->slept = false;
	}
	return done;
}

static inline __attribute__((always_inline))
ssize_t send_one(int fd, const void *buf, size_t len, int flags,
		 const void *to, socklen_t tolen, struct pause *p)
{
	struct iovec iov = { (void *)buf, len };
	struct sock *s = sock_use(fd);

	p->slept = false;
	if (l5_likely(!s))
		return TO_KERNEL;
	if (flags & ~SEND_FLAGS || !len || len > SSIZE_MAX ||
	    !may_be_memory(buf) || !unaddressed(s, to, tolen)) {
		stats_call(s->stat, fd, L5_STATS_OUT, flags & ~SEND_FLAGS ?
			   L5_STATS_FLAGS : L5_STATS_ODD);
		sock_done();
		return TO_KERNEL;
	}
	return ring_send(s, fd, &iov, 1, len, flags, p);
}

static ssize_t send_many(int fd, const struct iovec *iov, int n, int flags,
			 const void *to, socklen_t tolen, struct pause *p)
{
	struct sock *s = sock_use(fd);
	size_t len;

	p->slept = false;
	if (l5_likely(!s))
		return TO_KERNEL;
	if (flags & ~SEND_FLAGS || odd_iov(iov, n, &len) ||
	    !unaddressed(s, to, tolen)) {
		stats_call(s->stat, fd, L5_STATS_OUT, flags & ~SEND_FLAGS ?
			   L5_STATS_FLAGS : L5_STATS_ODD);
		sock_done();
		return TO_KERNEL;
	}
	return ring_send(s, fd, iov, n, len, flags, p);
}

EXPORT ssize_t write(int fd, const void *buf, size_t n)
{
	struct pause p;
	ssize_t ret = send_one(fd, buf, n, 0, NULL, 0, &p);

	THEN(ret, fd, &p, real.write(fd, buf, n));
	return ret;
}

EXPORT ssize_t send(int fd, const void *buf, size_t n, int flags)
{
	struct pause p;
	ssize_t ret = send_one(fd, buf, n, flags, NULL, 0, &p);

	THEN(ret, fd, &p, real.send(fd, buf, n, flags));
	return ret;
}

EXPORT ssize_t sendto(int fd, const void *buf, size_t n, int flags,
		      const struct sockaddr *to, socklen_t len)
{
	struct pause p;
	ssize_t ret = send_one(fd, buf, n, flags, to, len, &p);

	THEN(ret, fd, &p, real.sendto(fd, buf, n, flags, to, len));
	return ret;
}

EXPORT ssize_t writev(int fd, const struct iovec *iov, int n)
{
	struct pause p;
	ssize_t ret = send_many(fd, iov, n, 0, NULL, 0, &p);

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
		else if (!msg->msg_controllen && msg->msg_iovlen <= IOV_MAX)
			ret = send_many(fd, msg->msg_iov, msg->msg_iovlen,
					flags, msg->msg_name, msg->msg_namelen,
					&p);
		if (msg->msg_controllen)
			stats_left(fd, L5_STATS_OUT, L5_STATS_ADDRESS);
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
	stats_left(fd, L5_STATS_OUT, L5_STATS_MANY);
	return real.sendmmsg(fd, msgs, n, flags);
}

/* On a socket the offset has to be -1, and then it is readv(). */

EXPORT ssize_t preadv64v2(int fd, const struct iovec *iov, int n, off64_t off,
			  int flags)
{
	struct pause p = { .slept = false };
	ssize_t ret = TO_KERNEL;

	if (off == -1 && !flags)
		ret = recv_many(fd, iov, n, 0, NULL, &p);
	THEN(ret, fd, &p, real.preadv64v2(fd, iov, n, off, flags));
	return ret;
}

EXPORT ssize_t pwritev64v2(int fd, const struct iovec *iov, int n, off64_t off,
			   int flags)
{
	struct pause p = { .slept = false };
	ssize_t ret = TO_KERNEL;

	if (off == -1 && !flags)
		ret = send_many(fd, iov, n, 0, NULL, 0, &p);
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
