// SPDX-License-Identifier: GPL-2.0
/*
 * libl5: a connection, and whether it has its rings mapped. See libl5(7).
 *
 * System calls are bare ones: under l5run those of libc lead to the rings, too.
 * So no function of the library is a cancellation point; in connect.c
 * getaddrinfo() is.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/syscall.h>

#include "conn.h"
#include "mailbox.h"

/* l5_stream.life while a thread of that life is at work on it */
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

static void conn_wait_set(struct l5_stream *c, struct l5_adapt *a)
{
	int spin_us = l5_load(&c->spin_us), yields = l5_load(&c->yields);

	if (spin_us != L5_WAIT_DEFAULT)
		l5_adapt_set(a, spin_us, yields);
}

/* Without its mailbox, which the connection no longer names */
static void conn_unjoin(struct l5_stream *c, struct l5_mailbox *b,
			uint32_t byte)
{
	if (!b)
		return;
	if (byte)
		l5_mailbox_leave(b, c, byte - 1);
	l5_mailbox_put(b);
}

/* Has it a byte in its mailbox now? The second of attach and map finds it. */
static void conn_join(struct l5_stream *c)
{
	struct l5_mailbox *b = l5_load(&c->box);
	struct l5_map *m = l5_load(&c->map);

	if (b && m && m->mailbox && l5_mailbox_mine(b) &&
	    l5_mailbox_join(b, c, m->mailbox - 1))
		/* AZ, pairs with BA: the byte is in the box first */
		l5_store_release(&c->byte, m->mailbox);
}

/*
 * Let the calls find the map, but not while a thread has bytes without a ring:
 * the next thread would have those of the ring, and both the same ones. No
 * signal handler finds its own thread with the mutexes.
 */
static bool conn_show(struct l5_stream *c, struct l5_map *m)
{
	struct l5_sigs sigs;
	bool shown = false;

	l5_sigs_block(&sigs);
	if (!pthread_mutex_trylock(&c->tx.mutex)) {
		if (!pthread_mutex_trylock(&c->rx.mutex)) {
			/* AZ, pairs with BA */
			l5_store_release(&c->map, m);
			shown = true;
			pthread_mutex_unlock(&c->rx.mutex);
		}
		pthread_mutex_unlock(&c->tx.mutex);
	}
	l5_sigs_restore(&sigs);
	return shown;
}

static struct l5_map *conn_map_new(struct l5_stream *c)
{
	struct l5_map *m = l5_map_new(c->fd, L5_MAP_MESSAGES);

	if (m && !conn_show(c, m)) {
		l5_map_put(m);
		errno = EAGAIN;
		return NULL;
	}
	return m;
}

/*
 * Map the connection if that can be. A connection that RDMA may yet take is
 * tried again, at whatever call, but ever more rarely; a connection that is
 * still connecting is tried at each call.
 */
static void conn_try(struct l5_stream *c)
{
	uint32_t later = l5_load(&c->laters);
	int saved = errno, err;
	struct l5_map *m;

	m = conn_map_new(c);
	err = m ? 0 : errno;
	if (err == EAGAIN)
		later = !later ? 1 : later < L5_LATER_MAX ? 2 * later : later;
	else
		later = err == ENOTCONN;
	l5_store(&c->laters, later);
	/* AZ, pairs with BA: the map, the reason, then that it is settled */
	l5_store_release(&c->why, err);
	l5_store_release(&c->later, later);
	if (m) {
		/*
		 * BD, pairs with itself in l5_mailbox_attach() and in
		 * l5_set_wait(): the map is shown, then it is looked what is
		 * wished. One of both finds what the other said.
		 */
		l5_mb();
		conn_wait_set(c, &m->tx_adapt);
		conn_wait_set(c, &m->rx_adapt);
		conn_join(c);
	}
	errno = saved;
}

/*
 * Rings that may yet come. A thread that finds another at it does without; so
 * does a signal handler that finds its own thread, and every thread if
 * siglongjmp() took that one away.
 */
struct l5_map *l5_stream_later(struct l5_stream *c, bool now)
{
	uint32_t later = l5_load(&c->later);

	if (later > 1 && !now) {
		l5_store(&c->later, later - 1);
	} else if (!__atomic_exchange_n(&c->trying, 1, __ATOMIC_ACQUIRE)) {
		if (!l5_load(&c->map) && l5_load(&c->later))
			conn_try(c);
		/* pairs with the exchange above */
		l5_store_release(&c->trying, 0);
	}
	/* BA, pairs with AZ */
	return l5_load_acquire(&c->map);
}

/* What a child of fork() has of its parent's, and has no use for */
struct conn_old {
	struct l5_map *map;
	struct l5_mailbox *box;
	uint32_t byte;
};

/*
 * A child of fork() begins anew, and its rings may yet come.
 *
 * A parent's map may still be looked at by another thread in the caller of
 * l5_stream_settle(), so it is kept until there is one more to be kept.
 */
static void conn_renew(struct l5_stream *c, struct conn_old *old)
{
	struct l5_map *m = l5_load(&c->map);

	if (m && !l5_map_mine(m)) {
		old->map = c->lost;
		c->lost = m;
		l5_store(&c->map, NULL);
	}
	kept_init(&c->tx);
	kept_init(&c->rx);
	c->trying = 0;
	c->laters = 0;
	l5_store(&c->later, 1);
	l5_store(&c->why, EAGAIN);
	old->box = c->box;
	old->byte = c->byte;
	c->byte = 0;
	l5_store(&c->box, NULL);
}

/*
 * Let the connection begin this life of the process; false if another thread is
 * at it. Nothing of this is a system call, and no signal handler finds its own
 * thread in it.
 */
static bool conn_begin(struct l5_stream *c, uint32_t was, uint32_t now)
{
	struct conn_old old = { };
	struct l5_sigs sigs;
	bool mine;

	if (!was)
		return l5_cmpxchg(&c->life, 0, now);
	if (was == (now | L5_LIFE_BUSY)) {
		syscall(SYS_sched_yield);
		return false;
	}
	l5_sigs_block(&sigs);
	mine = l5_cmpxchg(&c->life, was, now | L5_LIFE_BUSY);
	if (mine) {
		conn_renew(c, &old);
		/* AZ, pairs with BA: nothing of the parent's is left */
		l5_store_release(&c->life, now);
	}
	l5_sigs_restore(&sigs);
	l5_map_put(old.map);
	conn_unjoin(c, old.box, old.byte);
	return mine;
}

/*
 * In this life of the process nothing was tried: the connection is new, or the
 * process a child of fork().
 */
struct l5_map *l5_stream_settle(struct l5_stream *c)
{
	uint32_t now, was;
	int saved = errno;

	l5_map_live();
	now = l5_load(l5_map_life);
	for (;;) {
		/* BA, pairs with AZ */
		was = l5_load_acquire(&c->life);
		if (was == now || conn_begin(c, was, now))
			break;
	}
	errno = saved;
	return l5_stream_later(c, true);
}

static long conn_getfl(int fd)
{
	return syscall(SYS_fcntl, fd, F_GETFL);
}

static struct l5_stream *conn_new(int fd, bool nonblock)
{
	struct l5_stream *c = calloc(1, sizeof(*c));

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

struct l5_stream *l5_map(int fd)
{
	socklen_t len = sizeof(int);
	long flags = conn_getfl(fd);
	struct l5_stream *c;
	int type;

	if (flags < 0 || syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_TYPE, &type,
				 &len) < 0)
		return NULL;
	c = conn_new(fd, flags & O_NONBLOCK);
	if (c) {
		c->messages = type == SOCK_SEQPACKET;
		c->later = 1;
		l5_stream_settle(c);
	}
	return c;
}

struct l5_stream *l5_stream_over(int fd, struct l5_map *m)
{
	struct l5_stream *c = conn_new(fd, false);

	if (!c)
		return NULL;
	c->messages = m->messages;
	c->map = l5_map_get(m);
	c->life = l5_load(l5_map_life);
	return c;
}

void l5_unmap(struct l5_stream *c)
{
	if (!c)
		return;
	conn_unjoin(c, c->box, c->byte);
	/* it does not touch the maps of a parent */
	l5_map_put(c->map);
	l5_map_put(c->lost);
	free(c->tx.buf);
	free(c->rx.buf);
	free(c);
}

int l5_stream_fd(const struct l5_stream *c)
{
	return c->fd;
}

bool l5_stream_mapped(struct l5_stream *c)
{
	struct l5_map *m = l5_stream_map(c);
	int why;

	/* BA, pairs with AZ; so do the next two */
	if (!m && l5_load_acquire(&c->later))
		m = l5_stream_later(c, true);
	if (m)
		return true;
	/* no reason: another thread has it by now */
	why = l5_load_acquire(&c->why);
	m = l5_load_acquire(&c->map);
	if (!m)
		errno = why;
	return m;
}

int l5_mailbox_attach(struct l5_mailbox *b, struct l5_stream *c)
{
	struct l5_mailbox *none = NULL;

	if (!l5_mailbox_mine(b)) {
		errno = EINVAL;
		return -1;
	}
	/* in a child of fork() this ends what a parent attached */
	l5_stream_map(c);
	l5_mailbox_get(b);
	if (!__atomic_compare_exchange_n(&c->box, &none, b, false,
					 __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
		l5_mailbox_put(b);
		errno = EBUSY;
		return -1;
	}
	/* BD, pairs with itself in conn_try() */
	l5_mb();
	conn_join(c);
	return 0;
}

int l5_stream_mailbox(struct l5_stream *c)
{
	l5_stream_map(c);
	/* BA, pairs with AZ */
	return (int)l5_load_acquire(&c->byte) - 1;
}

int l5_set_nonblock(struct l5_stream *c, bool on)
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

void l5_set_wait(struct l5_stream *c, int spin_us, int yields)
{
	struct l5_map *m;

	l5_store(&c->yields, yields < -1 ? -1 : yields);
	l5_store(&c->spin_us, spin_us < -1 ? -1 : spin_us);
	/* BD, pairs with itself in conn_try() */
	l5_mb();
	m = l5_stream_map(c);
	if (m) {
		conn_wait_set(c, &m->tx_adapt);
		conn_wait_set(c, &m->rx_adapt);
	}
}
