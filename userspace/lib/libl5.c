// SPDX-License-Identifier: GPL-2.0
/*
 * libl5: bytes, and waiting for them. See libl5(7).
 *
 * What the rings do not do at once is waited for as long as that pays, and what
 * is left then is the plain system call's. It sleeps, times out, is interrupted
 * and fails as the socket does, so none of that is imitated here.
 *
 * System calls are bare ones: under l5run those of libc lead to the rings, too.
 * So no function here is a cancellation point; in connect.c getaddrinfo() is.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <sys/syscall.h>

#include "conn.h"
#include "libl5.h"
#include "mailbox.h"
#include "map.h"

/* Unlike a ring's, the memory for l5_reserve() and l5_peek() without one. */
#define L5_BOUNCE	(64u << 10)

/* The most that one system call moves: MAX_RW_COUNT */
#define L5_IO_MAX	(INT_MAX & ~4095ul)

/* Flags that change nothing about how bytes go by rings */
#define L5_SEND_FLAGS	(MSG_DONTWAIT | MSG_NOSIGNAL | MSG_MORE)
#define L5_RECV_FLAGS	(MSG_DONTWAIT | MSG_NOSIGNAL | MSG_PEEK | MSG_WAITALL)

/**
 * struct l5_kept - between l5_reserve() and l5_commit(), and the like
 * @len: bytes the caller has, 0 if none
 * @map: of whose ring they are, NULL if of @buf
 * @buf: where they are without a ring
 * @cap: of it
 * @flags: MSG_* for l5_commit()
 * @mutex: held that long without a ring
 */
struct l5_kept {
	size_t len;
	struct l5_map *map;
	void *buf;
	size_t cap;
	int flags;
	pthread_mutex_t mutex;
};

/**
 * struct l5_conn - a connection
 * @fd: its socket
 * @nonblock: every call is
 * @life: of the process, see l5_map_life, that @map is settled for
 * @map: its rings, NULL without; read after @life
 * @later: calls until they are tried again, 0 if that is settled
 * @laters: as many as that were last time
 * @trying: a thread does
 * @why: there are none, errno
 * @byte: 1 and the number of its byte in @box, 0 if it has none there
 * @box: the mailbox, NULL without
 * @lost: a parent's, see conn_settle()
 * @spin_us: for maps to come
 * @yields: likewise
 * @tx: reserved
 * @rx: peeked at
 */
struct l5_conn {
	int fd;
	bool nonblock;
	uint32_t life;
	struct l5_map *map;
	uint32_t later;
	uint32_t laters;
	int trying;
	int why;
	uint32_t byte;
	struct l5_mailbox *box;
	struct l5_map *lost;
	int spin_us;
	int yields;
	struct l5_kept tx;
	struct l5_kept rx;
};

/* l5_conn.life while a thread of that life is at work on it */
#define L5_LIFE_BUSY	0x80000000u
/* Calls at most until rings are tried again that may yet come */
#define L5_LATER_MAX	64u
/* l5_set_wait() was not called */
#define L5_WAIT_DEFAULT	(-2)

static void kept_init(struct l5_kept *k)
{
	pthread_mutexattr_t attr;

	k->len = 0;
	k->map = NULL;
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK);
	pthread_mutex_init(&k->mutex, &attr);
	pthread_mutexattr_destroy(&attr);
}

static void conn_wait_set(struct l5_conn *c, struct l5_adapt *a)
{
	int spin_us = l5_load(&c->spin_us), yields = l5_load(&c->yields);

	if (spin_us != L5_WAIT_DEFAULT)
		l5_adapt_set(a, spin_us, yields);
}

/* Without its mailbox */
static void conn_unjoin(struct l5_conn *c)
{
	struct l5_mailbox *b = c->box;

	if (!b)
		return;
	if (c->byte)
		l5_mailbox_leave(b, c, c->byte - 1);
	c->byte = 0;
	l5_store(&c->box, NULL);
	l5_mailbox_put(b);
}

/* Has it a byte in its mailbox now? The second of attach and map finds it. */
static void conn_join(struct l5_conn *c)
{
	struct l5_mailbox *b = l5_load(&c->box);
	struct l5_map *m = l5_load(&c->map);

	if (b && m && m->mailbox && l5_mailbox_mine(b) &&
	    l5_mailbox_join(b, c, m->mailbox - 1))
		l5_store_release(&c->byte, m->mailbox);
}

/*
 * Map it if that can be. A connection that RDMA may yet take is tried again, at
 * whatever call, but ever more rarely; one that is connecting at each call.
 *
 * Not while somebody has bytes without a ring: whoever is next would have those
 * of the ring, and both the same ones.
 */
static void conn_try(struct l5_conn *c)
{
	uint32_t later = l5_load(&c->laters);
	int saved = errno, err = EAGAIN;
	struct l5_map *m = NULL;

	if (!pthread_mutex_trylock(&c->tx.mutex)) {
		if (!pthread_mutex_trylock(&c->rx.mutex)) {
			m = l5_map_new(c->fd);
			err = m ? 0 : errno;
			if (m) {
				conn_wait_set(c, &m->tx_adapt);
				conn_wait_set(c, &m->rx_adapt);
				l5_store_release(&c->map, m);
			}
			pthread_mutex_unlock(&c->rx.mutex);
		}
		pthread_mutex_unlock(&c->tx.mutex);
	}
	if (err == EAGAIN)
		later = !later ? 1 : later < L5_LATER_MAX ? 2 * later : later;
	else
		later = err == ENOTCONN;
	l5_store(&c->laters, later);
	l5_store(&c->later, later);
	l5_store(&c->why, err);
	if (m) {
		l5_mb();
		conn_join(c);
	}
	errno = saved;
}

/*
 * In this life of the process nothing was tried: it is new, or a child of
 * fork().
 *
 * A parent's map may still be looked at by another thread in this function's
 * caller, so it is kept until there is one more to be kept.
 */
static struct l5_map *conn_settle(struct l5_conn *c)
{
	struct l5_map *old;
	uint32_t now, was;
	int saved = errno;

	l5_map_live();
	now = l5_load(l5_map_life);
	for (;;) {
		was = l5_load_acquire(&c->life);
		if (was == now)
			goto out;
		if (was == (now | L5_LIFE_BUSY))
			syscall(SYS_sched_yield);
		else if (l5_cmpxchg(&c->life, was, now | L5_LIFE_BUSY))
			break;
	}
	old = l5_load(&c->map);
	if (old && !l5_map_mine(old)) {
		l5_map_put(c->lost);
		c->lost = old;
		l5_store(&c->map, NULL);
	}
	if (was) {
		kept_init(&c->tx);
		kept_init(&c->rx);
		c->trying = 0;
		c->laters = 0;
		conn_unjoin(c);
	}
	conn_try(c);
	l5_store_release(&c->life, now);
out:
	errno = saved;
	return l5_load_acquire(&c->map);
}

/* Rings that may yet come. Who finds somebody at it does without. */
static struct l5_map *conn_later(struct l5_conn *c, bool now)
{
	uint32_t later = l5_load(&c->later);

	if (later > 1 && !now) {
		l5_store(&c->later, later - 1);
	} else if (!__atomic_exchange_n(&c->trying, 1, __ATOMIC_ACQUIRE)) {
		if (!l5_load(&c->map) && l5_load(&c->later))
			conn_try(c);
		l5_store_release(&c->trying, 0);
	}
	return l5_load_acquire(&c->map);
}

static inline struct l5_map *conn_map(struct l5_conn *c)
{
	struct l5_map *m;

	if (l5_unlikely(l5_load_acquire(&c->life) != l5_load(l5_map_life)))
		return conn_settle(c);
	m = l5_load_acquire(&c->map);
	return l5_likely(m || !l5_load(&c->later)) ? m : conn_later(c, false);
}

static long conn_getfl(int fd)
{
	return syscall(SYS_fcntl, fd, F_GETFL);
}

static struct l5_conn *conn_new(int fd, bool nonblock)
{
	struct l5_conn *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->fd = fd;
	c->nonblock = nonblock;
	c->spin_us = L5_WAIT_DEFAULT;
	c->yields = L5_WAIT_DEFAULT;
	kept_init(&c->tx);
	kept_init(&c->rx);
	return c;
}

struct l5_conn *l5_map(int fd)
{
	socklen_t len = sizeof(int);
	long flags = conn_getfl(fd);
	struct l5_conn *c;
	int type;

	if (flags < 0 || syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_TYPE, &type,
				 &len) < 0)
		return NULL;
	c = conn_new(fd, flags & O_NONBLOCK);
	if (c)
		conn_settle(c);
	return c;
}

struct l5_conn *l5_conn_over(int fd, struct l5_map *m)
{
	struct l5_conn *c = conn_new(fd, false);

	if (!c)
		return NULL;
	c->map = l5_map_get(m);
	c->life = l5_load(l5_map_life);
	return c;
}

void l5_unmap(struct l5_conn *c)
{
	if (!c)
		return;
	conn_unjoin(c);
	/* those of a parent it does not touch */
	l5_map_put(c->map);
	l5_map_put(c->lost);
	free(c->tx.buf);
	free(c->rx.buf);
	free(c);
}

int l5_conn_fd(const struct l5_conn *c)
{
	return c->fd;
}

bool l5_conn_mapped(struct l5_conn *c)
{
	struct l5_map *m = conn_map(c);

	if (!m && l5_load(&c->later))
		m = conn_later(c, true);
	if (!m)
		errno = l5_load(&c->why);
	return m;
}

int l5_mailbox_attach(struct l5_mailbox *b, struct l5_conn *c)
{
	struct l5_mailbox *none = NULL;

	if (!l5_mailbox_mine(b)) {
		errno = EINVAL;
		return -1;
	}
	/* in a child of fork() this ends what a parent attached */
	conn_map(c);
	l5_mailbox_get(b);
	if (!__atomic_compare_exchange_n(&c->box, &none, b, false,
					 __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
		l5_mailbox_put(b);
		errno = EBUSY;
		return -1;
	}
	l5_mb();
	conn_join(c);
	return 0;
}

int l5_conn_mailbox(struct l5_conn *c)
{
	conn_map(c);
	return (int)l5_load_acquire(&c->byte) - 1;
}

int l5_set_nonblock(struct l5_conn *c, bool on)
{
	long flags = conn_getfl(c->fd);

	if (flags < 0)
		return -1;
	flags = on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
	if (syscall(SYS_fcntl, c->fd, F_SETFL, flags) < 0)
		return -1;
	__atomic_store_n(&c->nonblock, on, __ATOMIC_RELAXED);
	return 0;
}

void l5_set_wait(struct l5_conn *c, int spin_us, int yields)
{
	struct l5_map *m = conn_map(c);

	l5_store(&c->yields, yields < -1 ? -1 : yields);
	l5_store(&c->spin_us, spin_us < -1 ? -1 : spin_us);
	if (m) {
		conn_wait_set(c, &m->tx_adapt);
		conn_wait_set(c, &m->rx_adapt);
	}
}

static bool conn_nonblock(const struct l5_conn *c, int flags)
{
	return flags & MSG_DONTWAIT ||
	       __atomic_load_n(&c->nonblock, __ATOMIC_RELAXED);
}

static ssize_t try_failed(ssize_t n)
{
	errno = -n;
	return -1;
}

/* The system calls, for one buffer or an array */

/* Where a transfer is in its buffers. */
struct at {
	const struct iovec *v;
	int n;
	size_t off;		/* in the first of them */
	size_t left;		/* in all of them */
};

static void at_move(struct at *at, size_t n)
{
	at->left -= n;
	n += at->off;
	while (at->n && n >= at->v->iov_len) {
		n -= at->v->iov_len;
		at->v++;
		at->n--;
	}
	at->off = n;
}

/* What the caller's array is from here on, if it is one; else only its first */
static int at_iov(const struct at *at, struct iovec *first,
		  const struct iovec **v)
{
	if (!at->off) {
		*v = at->v;
		return at->n;
	}
	first->iov_base = (char *)at->v->iov_base + at->off;
	first->iov_len = at->v->iov_len - at->off;
	*v = first;
	return 1;
}

/* How many bytes that is */
static size_t at_span(const struct at *at)
{
	return at->off ? at->v->iov_len - at->off : at->left;
}

static ssize_t kernel_send(const struct l5_conn *c, const struct at *at,
			   int flags)
{
	struct iovec first;
	struct msghdr msg = { 0 };
	const struct iovec *v;

	msg.msg_iovlen = at_iov(at, &first, &v);
	msg.msg_iov = (struct iovec *)v;
	return syscall(SYS_sendmsg, c->fd, &msg, flags);
}

static ssize_t kernel_recv(const struct l5_conn *c, const struct at *at,
			   int flags)
{
	struct iovec first;
	struct msghdr msg = { 0 };
	const struct iovec *v;

	msg.msg_iovlen = at_iov(at, &first, &v);
	msg.msg_iov = (struct iovec *)v;
	return syscall(SYS_recvmsg, c->fd, &msg, flags);
}

static ssize_t map_send(struct l5_conn *c, struct l5_map *m,
			const struct at *at)
{
	struct iovec first;
	const struct iovec *v;
	int n = at_iov(at, &first, &v);

	return l5_map_trysend(m, c->fd, v, n);
}

static ssize_t map_recv(struct l5_conn *c, struct l5_map *m,
			const struct at *at, int flags)
{
	struct iovec first;
	const struct iovec *v;
	int n = at_iov(at, &first, &v);

	return l5_map_tryrecv(m, c->fd, v, n, flags);
}

/* False for what only the kernel can judge. */
static bool at_init(struct at *at, const struct iovec *v, int n)
{
	size_t sum = 0;
	int i;

	if (n < 1 || n > IOV_MAX)
		return false;
	for (i = 0; i < n; i++)
		if (__builtin_add_overflow(sum, v[i].iov_len, &sum))
			return false;
	if (!sum || sum > L5_IO_MAX)
		return false;
	at->v = v;
	at->n = n;
	at->off = 0;
	at->left = sum;
	at_move(at, 0);
	return true;
}

/*
 * What is left of a call's time-out that began at @start, ns; *@end: when it is
 * over, 0 if that was not asked yet.
 */
static uint64_t conn_left(const struct l5_conn *c, short events, uint64_t start,
			  uint64_t *end)
{
	uint64_t now = l5_map_now();
	struct timeval tv = { 0 };
	socklen_t len = sizeof(tv);

	if (!*end) {
		syscall(SYS_getsockopt, c->fd, SOL_SOCKET,
			events & POLLIN ? SO_RCVTIMEO : SO_SNDTIMEO, &tv, &len);
		*end = tv.tv_sec || tv.tv_usec ?
		       (start ?: now) + tv.tv_sec * 1000000000ull +
		       tv.tv_usec * 1000ull : UINT64_MAX;
	}
	return now < *end ? *end - now : 0;
}

static struct timespec spec_of(uint64_t ns)
{
	return (struct timespec){ ns / 1000000000, ns % 1000000000 };
}

/*
 * Sleep as a blocking call of this direction would, in a call whose time began
 * at @start and ends at *@end: 0, or -1 with errno.
 */
static int conn_sleep(const struct l5_conn *c, short events, uint64_t start,
		      uint64_t *end)
{
	struct pollfd p = { .fd = c->fd, .events = events };
	uint64_t left = conn_left(c, events, start, end);
	struct timespec t = spec_of(left);
	long n;

	n = syscall(SYS_ppoll, &p, 1, *end != UINT64_MAX ? &t : NULL, NULL, 0);
	if (!n)
		errno = EAGAIN;
	return n > 0 ? 0 : -1;
}

/*
 * Likewise for a lock word that somebody has, or says so: a while. Where no
 * ioctl() is allowed it is a nap.
 */
static int conn_lock_sleep(const struct l5_conn *c, short events, uint64_t *end)
{
	struct timespec t = spec_of(1000000);

	if (!conn_left(c, events, 0, end)) {
		errno = EAGAIN;
		return -1;
	}
	if (!l5_map_lock_nap(c->fd, events & POLLIN ? L5_LOCK_RX : L5_LOCK_TX))
		return 0;
	if (errno == EINTR)
		return -1;
	return syscall(SYS_ppoll, NULL, 0, &t, NULL, 0) < 0 ? -1 : 0;
}

/* Would poll(2) sleep on although there is something to read? */
static bool conn_low(const struct l5_conn *c)
{
	socklen_t len = sizeof(int);
	int low = 1;

	syscall(SYS_getsockopt, c->fd, SOL_SOCKET, SO_RCVLOWAT, &low, &len);
	return low > 1;
}

/* Was l5_interrupt() called since? Then there is nothing to sleep for. */
static bool interrupted(uint64_t seen)
{
	if (!l5_signal_ends(seen, l5_signals))
		return false;
	errno = EINTR;
	return true;
}

/* A handler may run on a small stack, and interrupt any of these functions. */
void l5_interrupt(void)
{
	l5_signal_came(true);
}

/*
 * As one system call: all of it, or what went before an error. That is for the
 * next call to tell, so once something went no system call is made that might
 * take it away.
 */
static ssize_t conn_send(struct l5_conn *c, struct l5_map *m, struct at *at,
			 int flags)
{
	uint64_t start = 0, end = 0, seen = l5_signals;
	size_t done = 0, span;
	int fruitless = 0;
	bool slept;
	ssize_t n;

	while (at->left) {
		n = map_send(c, m, at);
		if (n > 0) {
			at_move(at, n);
			done += n;
			fruitless = 0;
			continue;
		}
		if (n != L5_TRY_AGAIN && n != L5_TRY_ASK && n != L5_TRY_BUSY)
			return done ? (ssize_t)done : try_failed(n);
		if (done && (n == L5_TRY_ASK || conn_nonblock(c, flags)))
			break;
		slept = false;
		if (n != L5_TRY_ASK && conn_nonblock(c, flags)) {
			flags |= MSG_DONTWAIT;
		} else if (n == L5_TRY_AGAIN) {
			slept = !l5_map_wait_tx(m, &start, seen);
			if (!slept && ++fruitless < L5_FRUITLESS)
				continue;
			if (interrupted(seen))
				return done ? (ssize_t)done : -1;
		}
		if (done && n == L5_TRY_BUSY) {
			if (conn_lock_sleep(c, POLLOUT, &end))
				break;
			continue;
		}
		if (done) {
			if (conn_sleep(c, POLLOUT, start, &end))
				break;
			if (slept)
				l5_map_woke_tx(m, start);
			continue;
		}
		n = kernel_send(c, at, flags);
		if (slept && n > 0)
			l5_map_woke_tx(m, start);
		if (n < 0)
			return -1;
		span = at_span(at);
		at_move(at, n);
		done += n;
		if ((size_t)n < span)
			break;
	}
	return done;
}

static ssize_t conn_recv(struct l5_conn *c, struct l5_map *m, struct at *at,
			 int flags)
{
	uint64_t start = 0, end = 0, seen = l5_signals;
	size_t done = 0, span;
	int fruitless = 0;
	bool slept;
	ssize_t n;

	for (;;) {
		n = map_recv(c, m, at, flags & MSG_PEEK ? L5_TRY_PEEK : 0);
		if (n > 0) {
			at_move(at, n);
			done += n;
			fruitless = 0;
			if (!(flags & MSG_WAITALL) || !at->left)
				return done;
			continue;
		}
		if (n != L5_TRY_AGAIN && n != L5_TRY_ASK && n != L5_TRY_BUSY)
			return done ? (ssize_t)done : try_failed(n);
		if (done && n == L5_TRY_ASK)
			return done;
		slept = false;
		if (n == L5_TRY_AGAIN) {
			if (conn_nonblock(c, flags))
				return done ? (ssize_t)done :
					      try_failed(L5_TRY_AGAIN);
			slept = !l5_map_wait_rx(m, &start, seen);
			if (!slept && ++fruitless < L5_FRUITLESS)
				continue;
			if (interrupted(seen))
				return done ? (ssize_t)done : -1;
		}
		if (n == L5_TRY_BUSY && conn_nonblock(c, flags)) {
			if (done)
				return done;
			flags |= MSG_DONTWAIT;
		}
		if (done && n == L5_TRY_BUSY) {
			if (conn_lock_sleep(c, POLLIN, &end))
				return done;
			continue;
		}
		if (done && !conn_low(c)) {
			if (conn_sleep(c, POLLIN, start, &end))
				return done;
			if (slept)
				l5_map_woke_rx(m, start);
			continue;
		}
		n = kernel_recv(c, at, flags);
		if (slept && n > 0)
			l5_map_woke_rx(m, start);
		if (n <= 0)
			return done ? (ssize_t)done : n;
		span = at_span(at);
		at_move(at, n);
		done += n;
		if (!(flags & MSG_WAITALL) || !at->left || (size_t)n < span)
			return done;
	}
}

/* A single system call moves no more than this. */
static size_t io_max(size_t len)
{
	return len < L5_IO_MAX ? len : L5_IO_MAX;
}

ssize_t l5_sendv(struct l5_conn *c, const struct iovec *iov, int n, int flags)
{
	struct l5_map *m = conn_map(c);
	struct msghdr msg = { 0 };
	struct at at;

	if (m && !(flags & ~L5_SEND_FLAGS) && at_init(&at, iov, n))
		return conn_send(c, m, &at, flags);
	msg.msg_iov = (struct iovec *)iov;
	msg.msg_iovlen = n;
	return syscall(SYS_sendmsg, c->fd, &msg, flags);
}

ssize_t l5_recvv(struct l5_conn *c, const struct iovec *iov, int n, int flags)
{
	struct l5_map *m = conn_map(c);
	struct msghdr msg = { 0 };
	struct at at;

	if (m && !(flags & ~L5_RECV_FLAGS) &&
	    (flags & (MSG_PEEK | MSG_WAITALL)) != (MSG_PEEK | MSG_WAITALL) &&
	    at_init(&at, iov, n))
		return conn_recv(c, m, &at, flags);
	msg.msg_iov = (struct iovec *)iov;
	msg.msg_iovlen = n;
	return syscall(SYS_recvmsg, c->fd, &msg, flags);
}

ssize_t l5_send(struct l5_conn *c, const void *buf, size_t len, int flags)
{
	struct iovec v = { .iov_base = (void *)buf, .iov_len = io_max(len) };
	struct l5_map *m = conn_map(c);
	ssize_t n;

	/* so little goes in one piece or not at all */
	if (l5_likely(m && !(flags & ~L5_SEND_FLAGS) &&
		      len - 1 < L5_MAP_SMALL)) {
		n = l5_map_send1(m, c->fd, buf, len);
		if (l5_likely(n > 0))
			return n;
	}
	return l5_sendv(c, &v, 1, flags);
}

ssize_t l5_recv(struct l5_conn *c, void *buf, size_t len, int flags)
{
	struct iovec v = { .iov_base = buf, .iov_len = io_max(len) };
	uint64_t start, seen = l5_signals;
	struct l5_map *m = conn_map(c);
	int fruitless = 0;
	bool slept;
	ssize_t n;

	if (l5_unlikely(!m || !len || flags & ~(MSG_NOSIGNAL | MSG_DONTWAIT)))
		return l5_recvv(c, &v, 1, flags);
	for (;;) {
		n = l5_map_recv1(m, c->fd, buf, v.iov_len);
		if (l5_likely(n > 0))
			return n;
		if (n != L5_TRY_AGAIN)
			break;
		if (conn_nonblock(c, flags))
			return try_failed(n);
		slept = !l5_map_wait_rx(m, &start, seen);
		if (!slept && ++fruitless < L5_FRUITLESS)
			continue;
		if (interrupted(seen))
			return -1;
		n = syscall(SYS_recvfrom, c->fd, buf, len, flags, NULL, NULL);
		if (slept && n > 0)
			l5_map_woke_rx(m, start);
		return n;
	}
	return l5_recvv(c, &v, 1, flags);
}

/* Zero copy */

/* Memory of the connection's own, held as a ring's would be. */
static int kept_bounce(struct l5_kept *k, size_t len)
{
	int err = pthread_mutex_lock(&k->mutex);
	void *buf = k->buf;

	if (!err && k->cap < len) {
		buf = realloc(k->buf, len);
		err = buf ? 0 : ENOMEM;
		if (err)
			pthread_mutex_unlock(&k->mutex);
	}
	if (err) {
		errno = err;
		return -1;
	}
	if (k->cap < len) {
		k->buf = buf;
		k->cap = len;
	}
	k->map = NULL;
	return 0;
}

static void kept_end(struct l5_kept *k)
{
	k->len = 0;
	if (!k->map)
		pthread_mutex_unlock(&k->mutex);
}

ssize_t l5_reserve(struct l5_conn *c, void **p, size_t len, int flags)
{
	uint64_t start, end = 0, seen = l5_signals;
	int fruitless = 0, err;
	struct l5_map *m;
	bool slept;
	ssize_t n;

	if (!len || flags & ~(MSG_DONTWAIT | MSG_NOSIGNAL)) {
		errno = EINVAL;
		return -1;
	}
again:
	m = conn_map(c);
	while (m) {
		n = l5_map_reserve(m, c->fd, p, len);
		if (n > 0) {
			c->tx.map = m;
			c->tx.len = n;
			return n;
		}
		/* l5_commit() will hear what is wrong with it */
		if (n == L5_TRY_ASK)
			break;
		if (n != L5_TRY_AGAIN && n != L5_TRY_BUSY)
			return try_failed(n);
		if (conn_nonblock(c, flags))
			return try_failed(L5_TRY_AGAIN);
		if (n == L5_TRY_BUSY) {
			if (conn_lock_sleep(c, POLLOUT, &end))
				return -1;
			continue;
		}
		slept = !l5_map_wait_tx(m, &start, seen);
		if (!slept && ++fruitless < L5_FRUITLESS)
			continue;
		if (interrupted(seen))
			return -1;
		err = conn_sleep(c, POLLOUT, slept ? start : 0, &end);
		if (slept)
			l5_map_woke_tx(m, start);
		if (err)
			return -1;
	}
	if (len > L5_BOUNCE)
		len = L5_BOUNCE;
	if (kept_bounce(&c->tx, len))
		return -1;
	/* from here on nobody maps it */
	if (!m && l5_load(&c->map)) {
		kept_end(&c->tx);
		goto again;
	}
	c->tx.len = len;
	c->tx.flags = flags;
	*p = c->tx.buf;
	return len;
}

ssize_t l5_commit(struct l5_conn *c, size_t len)
{
	struct l5_map *m = conn_map(c);
	ssize_t n = len, done = 0;

	/* nor what a parent reserved */
	if (len > c->tx.len || !c->tx.len) {
		errno = EINVAL;
		return -1;
	}
	if (c->tx.map) {
		c->tx.len = 0;
		l5_map_commit(m, c->fd, len);
		return len;
	}
	while (len && n > 0) {
		n = syscall(SYS_sendto, c->fd, (char *)c->tx.buf + done, len,
			    c->tx.flags, NULL, 0);
		if (n > 0) {
			len -= n;
			done += n;
		}
	}
	kept_end(&c->tx);
	return done ? done : n;
}

ssize_t l5_peek(struct l5_conn *c, const void **p, int flags)
{
	uint64_t start, end = 0, seen = l5_signals;
	int fruitless = 0, err;
	struct l5_map *m;
	bool slept;
	ssize_t n;

	if (flags & ~MSG_DONTWAIT) {
		errno = EINVAL;
		return -1;
	}
again:
	m = conn_map(c);
	while (m) {
		n = l5_map_peek(m, c->fd, p);
		if (n > 0) {
			c->rx.map = m;
			c->rx.len = n;
			return n;
		}
		if (n == L5_TRY_ASK)
			break;
		if (n != L5_TRY_AGAIN && n != L5_TRY_BUSY)
			return try_failed(n);
		if (conn_nonblock(c, flags))
			return try_failed(L5_TRY_AGAIN);
		if (n == L5_TRY_BUSY) {
			if (conn_lock_sleep(c, POLLIN, &end))
				return -1;
			continue;
		}
		slept = !l5_map_wait_rx(m, &start, seen);
		if (!slept && ++fruitless < L5_FRUITLESS)
			continue;
		if (interrupted(seen))
			return -1;
		err = conn_sleep(c, POLLIN, slept ? start : 0, &end);
		if (slept)
			l5_map_woke_rx(m, start);
		if (err)
			return -1;
	}
	if (kept_bounce(&c->rx, L5_BOUNCE))
		return -1;
	if (!m && l5_load(&c->map)) {
		kept_end(&c->rx);
		goto again;
	}
	n = syscall(SYS_recvfrom, c->fd, c->rx.buf, L5_BOUNCE,
		    flags | MSG_PEEK, NULL, NULL);
	if (n > 0) {
		c->rx.len = n;
		*p = c->rx.buf;
	} else {
		kept_end(&c->rx);
	}
	return n;
}

int l5_release(struct l5_conn *c, size_t len)
{
	struct l5_map *m = conn_map(c);
	ssize_t n = 0;

	if (len > c->rx.len || !c->rx.len) {
		errno = EINVAL;
		return -1;
	}
	if (c->rx.map) {
		c->rx.len = 0;
		l5_map_release(m, c->fd, len);
		return 0;
	}
	if (len)
		n = syscall(SYS_recvfrom, c->fd, c->rx.buf, len, MSG_WAITALL,
			    NULL, NULL);
	kept_end(&c->rx);
	return n < 0 ? -1 : 0;
}

/* Waiting for several */

/* All entries are looked at every so many calls, even without a byte set */
#define L5_FULL_TURNS	64u

/**
 * struct set - what l5_wait_any() waits for
 * @e: entries
 * @n: how many
 * @box: the mailbox that speaks for some of them, NULL without
 * @others: entries it does not speak for
 * @full: look at all rings
 * @adapt: whose habits the wait follows, NULL if not all can be looked at
 */
struct set {
	struct l5_event *e;
	int n;
	struct l5_mailbox *box;
	int others;
	bool full;
	struct l5_adapt *adapt;
};

/*
 * What the rings say about an entry; *@ask if they cannot say it all. Errors
 * and the like are for poll(2), but nobody gets one without L5_MAP_RX_ASK.
 */
static short event_look(const struct l5_event *e, bool *ask)
{
	const short in = e->events & (POLLIN | POLLRDNORM);
	const short out = e->events & (POLLOUT | POLLWRNORM);
	struct l5_map *m = conn_map(e->conn);
	short got = 0;

	if (!m) {
		*ask = true;
		return 0;
	}
	if (l5_map_rx_ask(m))
		*ask = true;
	if (in && l5_map_readable(m))
		got |= in;
	if (out && l5_map_writable(m)) {
		got |= out;
		if (l5_load(&m->state->flags) & L5_MAP_TX_ASK)
			*ask = true;
	}
	return got;
}

/* The connection's mailbox if a byte there says all that is asked for. */
static struct l5_mailbox *event_box(const struct l5_event *e)
{
	struct l5_mailbox *b = l5_load(&e->conn->box);

	if (!b || !l5_load_acquire(&e->conn->byte) ||
	    e->events & (POLLOUT | POLLWRNORM) || !l5_mailbox_mine(b))
		return NULL;
	return b;
}

/*
 * A byte has but one place in the array: other entries of the same connection
 * are looked at themselves. The place is a hint, which another thread with an
 * array of its own may change; then, too.
 */
static bool event_claim(const struct set *s, int i)
{
	const struct l5_event *e = &s->e[i];
	uint32_t *at = &s->box->at[l5_load(&e->conn->byte) - 1];
	uint32_t was = l5_load(at);

	if (was == (uint32_t)i)
		return true;
	if (was < (uint32_t)s->n && s->e[was].conn == e->conn)
		return false;
	l5_store(at, i);
	return true;
}

static bool event_boxed(const struct set *s, int i)
{
	const struct l5_event *e = &s->e[i];

	return s->box && event_box(e) == s->box &&
	       l5_load(&s->box->at[l5_load(&e->conn->byte) - 1]) == (uint32_t)i;
}

/* The entry that a byte is about, or NULL */
static struct l5_event *box_event(const struct set *s, uint32_t byte)
{
	struct l5_conn *c = l5_load(&s->box->conn[byte]);
	uint32_t i = l5_load(&s->box->at[byte]);

	if (!c || i >= (uint32_t)s->n || s->e[i].conn != c ||
	    !event_boxed(s, i))
		return NULL;
	return &s->e[i];
}

static void set_init(struct set *s)
{
	struct l5_mailbox *b;
	bool all = true;
	struct l5_map *m;
	int i;

	for (i = 0; i < s->n; i++) {
		s->e[i].revents = 0;
		if (!s->e[i].conn)
			continue;
		m = conn_map(s->e[i].conn);
		if (!m)
			all = false;
		else if (!s->adapt)
			s->adapt = &m->rx_adapt;
		b = s->n > 1 ? event_box(&s->e[i]) : NULL;
		if (b && !s->box)
			s->box = b;
		if (!b || b != s->box || !event_claim(s, i))
			s->others++;
	}
	if (!all)
		s->adapt = NULL;
	if (s->box)
		s->full = !(__atomic_add_fetch(&s->box->calls, 1,
					       __ATOMIC_RELAXED) %
			    L5_FULL_TURNS);
}

/* Is any byte set of those that are asked for? */
static bool box_ready(const struct set *s)
{
	const unsigned int lines = l5_load(&s->box->lines);
	unsigned int line = 0;
	uint64_t mask;

	for (;; line++) {
		line = l5_mailbox_line(s->box, line, lines, &mask);
		if (line >= lines)
			return false;
		for (; mask; mask &= mask - 1)
			if (box_event(s, line * L5_MAILBOX_LINE +
					 __builtin_ctzll(mask)))
				return true;
	}
}

static bool set_ready(const void *arg)
{
	const struct set *s = arg;
	bool ask = false;
	int i;

	if (s->box && box_ready(s))
		return true;
	if (s->box && !s->others)
		return false;
	for (i = 0; i < s->n; i++)
		if (s->e[i].conn && !event_boxed(s, i) &&
		    (event_look(&s->e[i], &ask) || ask))
			return true;
	return false;
}

/* What was reported is looked at again next time, until nothing is left. */
static void event_again(const struct set *s, const struct l5_event *e)
{
	if (event_boxed(s, e - s->e))
		l5_mailbox_set(s->box, l5_load(&e->conn->byte) - 1);
}

/* Those of which the rings cannot say all, or all: poll(2). */
static int set_poll(struct set *s, bool all, const struct timespec *t)
{
	struct pollfd few[64], *p = few;
	struct timespec left;
	int i, n = 0;
	bool ask;

	if (s->n > 64)
		p = malloc(s->n * sizeof(*p));
	if (!p)
		return -1;
	for (i = 0; i < s->n; i++) {
		struct l5_event *e = &s->e[i];

		ask = all;
		if (e->conn && !all)
			event_look(e, &ask);
		p[i].fd = e->conn && ask ? e->conn->fd : -1;
		p[i].events = e->events;
	}
	/* the call writes to it */
	if (t)
		left = *t;
	if (syscall(SYS_ppoll, p, s->n, t ? &left : NULL, NULL, 0) < 0)
		n = -1;
	for (i = 0; i < s->n && n >= 0; i++) {
		if (p[i].fd >= 0)
			s->e[i].revents |= p[i].revents;
		if (p[i].fd >= 0 && p[i].revents)
			event_again(s, &s->e[i]);
		n += !!s->e[i].revents;
	}
	if (p != few)
		free(p);
	return n;
}

/* Entries whose byte was set; *@ask as event_look() */
static int box_look(struct set *s, bool *ask)
{
	const unsigned int lines = l5_load(&s->box->lines);
	unsigned int line = 0;
	struct l5_event *e;
	uint64_t mask, took;
	uint32_t first;
	bool one;
	int n = 0;

	for (;; line++) {
		line = l5_mailbox_line(s->box, line, lines, &mask);
		if (line >= lines)
			return n;
		first = line * L5_MAILBOX_LINE;
		for (took = 0; mask; mask &= mask - 1) {
			uint32_t i = __builtin_ctzll(mask);

			/* those of others, or of nobody, stay */
			if (box_event(s, first + i) &&
			    l5_mailbox_take(s->box, first + i))
				took |= 1ull << i;
		}
		l5_mailbox_fence();
		for (; took; took &= took - 1) {
			uint32_t i = first + __builtin_ctzll(took);

			e = box_event(s, i);
			one = !e;
			if (e)
				e->revents = event_look(e, &one);
			/* or its place has changed just now */
			if (one || (e && e->revents))
				l5_mailbox_set(s->box, i);
			n += e && e->revents;
			*ask |= one && e;
		}
	}
}

/* One look at all of them: how many are ready */
static int set_look(struct set *s)
{
	static const struct timespec now;
	bool ask = false, one;
	int i, n = 0;

	for (i = 0; i < s->n; i++)
		s->e[i].revents = 0;
	if (s->box && !s->full)
		n = box_look(s, &ask);
	for (i = 0; i < s->n; i++) {
		struct l5_event *e = &s->e[i];

		if (s->box && !s->full && !s->others)
			break;
		if (!e->conn || e->revents || (!s->full && event_boxed(s, i)))
			continue;
		one = false;
		e->revents = event_look(e, &one);
		if (e->revents || one)
			event_again(s, e);
		n += !!e->revents;
		ask |= one;
	}
	/* also if others are ready: nobody is to starve */
	return ask ? set_poll(s, false, &now) : n;
}

int l5_wait_any(struct l5_event *e, int n, int timeout)
{
	uint64_t ns = timeout < 0 ? UINT64_MAX : timeout * 1000000ull;
	struct set s = { .e = e, .n = n };
	uint64_t start = 0, gone, seen = l5_signals;
	struct l5_adapt *a;
	struct timespec t;
	int got;

	if (n < 0) {
		errno = EINVAL;
		return -1;
	}
	set_init(&s);
	got = set_look(&s);
	if (got || !timeout)
		return got;
	a = s.adapt;
	if (a && l5_adapt_wait_for(a, set_ready, &s, &start, ns, seen)) {
		got = set_look(&s);
		if (got)
			return got;
		a = NULL;
	}
	if (interrupted(seen))
		return -1;
	/* what was waited already is part of the time */
	gone = timeout > 0 && start ? l5_since(l5_map_now(), start) : 0;
	ns = gone < ns ? ns - gone : 0;
	t.tv_sec = ns / 1000000000;
	t.tv_nsec = ns % 1000000000;
	got = set_poll(&s, true, timeout < 0 ? NULL : &t);
	if (a && got > 0)
		l5_adapt_woke(a, start);
	return got;
}

int l5_wait(struct l5_conn *c, short events, int timeout)
{
	struct l5_event e = { .conn = c, .events = events };
	int n = l5_wait_any(&e, 1, timeout);

	return n > 0 ? e.revents : n;
}
