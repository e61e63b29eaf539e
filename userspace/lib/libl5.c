// SPDX-License-Identifier: GPL-2.0
/*
 * libl5: bytes, and waiting for them. See libl5(7).
 *
 * What the rings do not do at once is waited for as long as that pays, and what
 * is left then is the plain system call's. It sleeps, times out, is interrupted
 * and fails as the socket does, so none of that is imitated here.
 *
 * System calls are bare ones: under l5run those of libc lead to the rings, too.
 * So no function here is a cancellation point.
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

#include "libl5.h"
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
	struct l5_map *lost;
	int spin_us;
	int yields;
	struct l5_kept tx;
	struct l5_kept rx;
};

/* l5_conn.life while a thread of that life is at work on it */
#define L5_LIFE_BUSY	0x80000000u
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

/*
 * Map it, in a child of fork() anew, unless that is known not to work. While a
 * socket is connecting it is not known; then the next call tries again.
 *
 * A parent's map may still be looked at by another thread in this function's
 * caller, so it is kept until there is one more to be kept.
 */
static struct l5_map *conn_settle(struct l5_conn *c)
{
	struct l5_map *m = NULL, *old;
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
	}
	m = l5_map_new(c->fd);
	if (m) {
		conn_wait_set(c, &m->tx_adapt);
		conn_wait_set(c, &m->rx_adapt);
		l5_store(&c->map, m);
	}
	l5_store_release(&c->life, !m && errno == ENOTCONN ? 0 : now);
out:
	errno = saved;
	return l5_load(&c->map);
}

static inline struct l5_map *conn_map(struct l5_conn *c)
{
	if (l5_likely(l5_load_acquire(&c->life) == l5_load(l5_map_life)))
		return l5_load(&c->map);
	return conn_settle(c);
}

static long conn_getfl(int fd)
{
	return syscall(SYS_fcntl, fd, F_GETFL);
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
	c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	c->fd = fd;
	c->nonblock = flags & O_NONBLOCK;
	c->spin_us = L5_WAIT_DEFAULT;
	c->yields = L5_WAIT_DEFAULT;
	kept_init(&c->tx);
	kept_init(&c->rx);
	conn_settle(c);
	return c;
}

void l5_unmap(struct l5_conn *c)
{
	if (!c)
		return;
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
	return conn_map(c);
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

/* Sleep as a blocking call of this direction would: 0, or -1 with errno. */
static int conn_sleep(const struct l5_conn *c, short events)
{
	struct pollfd p = { .fd = c->fd, .events = events };
	struct timeval tv = { 0 };
	socklen_t len = sizeof(tv);
	struct timespec t;
	long n;

	syscall(SYS_getsockopt, c->fd, SOL_SOCKET,
		events & POLLIN ? SO_RCVTIMEO : SO_SNDTIMEO, &tv, &len);
	t.tv_sec = tv.tv_sec;
	t.tv_nsec = tv.tv_usec * 1000;
	n = syscall(SYS_ppoll, &p, 1, tv.tv_sec || tv.tv_usec ? &t : NULL, NULL,
		    0);
	if (!n)
		errno = EAGAIN;
	return n > 0 ? 0 : -1;
}

/* Would poll(2) sleep on although there is something to read? */
static bool conn_low(const struct l5_conn *c)
{
	socklen_t len = sizeof(int);
	int low = 1;

	syscall(SYS_getsockopt, c->fd, SOL_SOCKET, SO_RCVLOWAT, &low, &len);
	return low > 1;
}

/*
 * As one system call: all of it, or what went before an error. That is for the
 * next call to tell, so once something went no system call is made that might
 * take it away.
 */
static ssize_t conn_send(struct l5_conn *c, struct l5_map *m, struct at *at,
			 int flags)
{
	size_t done = 0, span;
	uint64_t start;
	bool slept;
	ssize_t n;

	while (at->left) {
		n = map_send(c, m, at);
		if (n > 0) {
			at_move(at, n);
			done += n;
			continue;
		}
		if (n != L5_TRY_AGAIN && n != L5_TRY_ASK)
			return done ? (ssize_t)done : try_failed(n);
		if (done && (n == L5_TRY_ASK || conn_nonblock(c, flags)))
			break;
		slept = false;
		if (n == L5_TRY_AGAIN && conn_nonblock(c, flags)) {
			flags |= MSG_DONTWAIT;
		} else if (n == L5_TRY_AGAIN) {
			if (l5_map_wait_tx(m, &start))
				continue;
			slept = true;
		}
		if (done) {
			if (conn_sleep(c, POLLOUT))
				break;
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
	size_t done = 0, span;
	uint64_t start;
	bool slept;
	ssize_t n;

	for (;;) {
		n = map_recv(c, m, at, flags & MSG_PEEK ? L5_TRY_PEEK : 0);
		if (n > 0) {
			at_move(at, n);
			done += n;
			if (!(flags & MSG_WAITALL) || !at->left)
				return done;
			continue;
		}
		if (n != L5_TRY_AGAIN && n != L5_TRY_ASK)
			return done ? (ssize_t)done : try_failed(n);
		if (done && n == L5_TRY_ASK)
			return done;
		slept = false;
		if (n == L5_TRY_AGAIN) {
			if (conn_nonblock(c, flags))
				return done ? (ssize_t)done :
					      try_failed(L5_TRY_AGAIN);
			if (l5_map_wait_rx(m, &start))
				continue;
			slept = true;
		}
		if (done && !conn_low(c)) {
			if (conn_sleep(c, POLLIN))
				return done;
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
	struct l5_map *m = conn_map(c);
	uint64_t start;
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
		if (l5_map_wait_rx(m, &start))
			continue;
		n = syscall(SYS_recvfrom, c->fd, buf, len, flags, NULL, NULL);
		if (n > 0)
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
	struct l5_map *m = conn_map(c);
	uint64_t start;
	ssize_t n;
	int err;

	if (!len || flags & ~(MSG_DONTWAIT | MSG_NOSIGNAL)) {
		errno = EINVAL;
		return -1;
	}
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
		if (n != L5_TRY_AGAIN || conn_nonblock(c, flags))
			return try_failed(n);
		if (l5_map_wait_tx(m, &start))
			continue;
		err = conn_sleep(c, POLLOUT);
		l5_map_woke_tx(m, start);
		if (err)
			return -1;
	}
	if (len > L5_BOUNCE)
		len = L5_BOUNCE;
	if (kept_bounce(&c->tx, len))
		return -1;
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
	struct l5_map *m = conn_map(c);
	uint64_t start;
	ssize_t n;
	int err;

	if (flags & ~MSG_DONTWAIT) {
		errno = EINVAL;
		return -1;
	}
	while (m) {
		n = l5_map_peek(m, c->fd, p);
		if (n > 0) {
			c->rx.map = m;
			c->rx.len = n;
			return n;
		}
		if (n == L5_TRY_ASK)
			break;
		if (n != L5_TRY_AGAIN || conn_nonblock(c, flags))
			return try_failed(n);
		if (l5_map_wait_rx(m, &start))
			continue;
		err = conn_sleep(c, POLLIN);
		l5_map_woke_rx(m, start);
		if (err)
			return -1;
	}
	if (kept_bounce(&c->rx, L5_BOUNCE))
		return -1;
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

/* What l5_wait_any() waits for. */
struct set {
	struct l5_event *e;
	int n;
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

static bool set_ready(const void *arg)
{
	const struct set *s = arg;
	bool ask = false;
	int i;

	for (i = 0; i < s->n; i++)
		if (s->e[i].conn && (event_look(&s->e[i], &ask) || ask))
			return true;
	return false;
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
		n += !!s->e[i].revents;
	}
	if (p != few)
		free(p);
	return n;
}

/* One look at all of them: how many are ready */
static int set_look(struct set *s)
{
	static const struct timespec now;
	bool ask = false;
	int i, n = 0;

	for (i = 0; i < s->n; i++) {
		struct l5_event *e = &s->e[i];

		e->revents = 0;
		if (!e->conn)
			continue;
		e->revents = event_look(e, &ask);
		n += !!e->revents;
	}
	/* also if others are ready: nobody is to starve */
	return ask ? set_poll(s, false, &now) : n;
}

/* Whose habits the wait follows; NULL if not all of them can be looked at */
static struct l5_adapt *set_adapt(const struct set *s)
{
	struct l5_adapt *a = NULL;
	struct l5_map *m;
	int i;

	for (i = 0; i < s->n; i++) {
		if (!s->e[i].conn)
			continue;
		m = conn_map(s->e[i].conn);
		if (!m)
			return NULL;
		if (!a)
			a = &m->rx_adapt;
	}
	return a;
}

int l5_wait_any(struct l5_event *e, int n, int timeout)
{
	struct set s = { .e = e, .n = n };
	struct l5_adapt *a;
	struct timespec t;
	uint64_t start = 0;
	int got;

	if (n < 0) {
		errno = EINVAL;
		return -1;
	}
	got = set_look(&s);
	if (got || !timeout)
		return got;
	a = set_adapt(&s);
	if (a && l5_adapt_wait(a, set_ready, &s, &start)) {
		got = set_look(&s);
		if (got)
			return got;
		a = NULL;
	}
	t.tv_sec = timeout / 1000;
	t.tv_nsec = timeout % 1000 * 1000000;
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
