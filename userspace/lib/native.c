// SPDX-License-Identifier: GPL-2.0
/*
 * A connection in a memfd: see native.h.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <limits.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "native.h"

enum { PAGE = 4096, PAGES = 4 };

/* What an end needs to know of its connection: in l5_map.priv */
struct native_end {
	struct l5_native *k;
	int end;
	uint8_t *area;		/* the end's own view, NULL if it is @k's */
	size_t len;
};

static long futex(uint32_t *word, int op, uint32_t val,
		  const struct timespec *t)
{
	int saved = errno;
	long ret = syscall(SYS_futex, word, op, val, t, NULL, 0);

	errno = saved;
	return ret;
}

static void native_wake(uint32_t *word)
{
	l5_wait_clear(word);
	futex(word, FUTEX_WAKE, INT_MAX, NULL);
}

static void native_bell(struct l5_map *m, int fd, unsigned int bells)
{
	struct native_end *e = m->priv;
	struct l5_ctrl *peer = e->k->ctrl[!e->end];

	(void)fd;
	if (bells & L5_BELL_DATA && l5_load(&peer->rx_wait))
		native_wake(&peer->rx_wait);
	if (bells & L5_BELL_ROOM && l5_load(&peer->tx_wait))
		native_wake(&peer->tx_wait);
}

static void native_lock_wait(struct l5_map *m, int fd, unsigned int which)
{
	const struct timespec nap = { .tv_nsec = 200000000 };
	uint32_t *word = l5_map_word(m, which);
	uint32_t old = l5_load(word);

	(void)fd;
	if (old & L5_LOCK_ID && old & L5_LOCK_WAITERS)
		futex(word, FUTEX_WAIT, old, &nap);
}

static void native_lock_wake(struct l5_map *m, int fd, unsigned int which)
{
	(void)fd;
	futex(l5_map_word(m, which), FUTEX_WAKE, INT_MAX, NULL);
}

static void native_broken(struct l5_map *m, int fd)
{
	struct native_end *e = m->priv;

	(void)fd;
	l5_native_flag(e->k, 0, L5_MAP_TX_ASK | L5_MAP_RX_ASK);
	l5_native_flag(e->k, 1, L5_MAP_TX_ASK | L5_MAP_RX_ASK);
}

static const struct l5_map_ops native_ops = {
	.bell = native_bell,
	.lock_wait = native_lock_wait,
	.lock_wake = native_lock_wake,
	.broken = native_broken,
};

struct l5_native *l5_native_open(int fd)
{
	struct l5_native *k = calloc(1, sizeof(*k));
	struct stat st;
	uint8_t *p;
	int i;

	if (!k || fstat(fd, &st))
		goto fail;
	k->fd = fd;
	k->len = st.st_size;
	k->size = (k->len - PAGES * PAGE) / 2;
	p = mmap(NULL, k->len, PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_POPULATE, fd, 0);
	if (p == MAP_FAILED)
		goto fail;
	for (i = 0; i < 2; i++) {
		k->ctrl[i] = (void *)(p + i * PAGE);
		k->state[i] = (void *)(p + (2 + i) * PAGE);
		k->data[i] = p + PAGES * PAGE + i * (size_t)k->size;
		l5_store(&k->state[i]->transport, L5_TRANSPORT_SHM);
		l5_store(&k->state[i]->tx_size, k->size);
		l5_store(&k->state[i]->rx_size, k->size);
		l5_store(&k->state[i]->tx_extent, k->size);
		l5_store(&k->state[i]->tx_most, k->size);
	}
	return k;
fail:
	free(k);
	return NULL;
}

struct l5_native *l5_native_new(uint32_t size)
{
	int fd = memfd_create("l5", MFD_CLOEXEC);
	struct l5_native *k;

	if (fd < 0)
		return NULL;
	if (ftruncate(fd, PAGES * PAGE + 2ul * size)) {
		close(fd);
		return NULL;
	}
	k = l5_native_open(fd);
	if (!k)
		close(fd);
	return k;
}

void l5_native_free(struct l5_native *k)
{
	munmap(k->ctrl[0], k->len);
	close(k->fd);
	free(k);
}

static void *native_part(struct l5_native *k, uint8_t **at, size_t len,
			 int twice, int prot, void *what)
{
	off_t off = (uint8_t *)what - (uint8_t *)k->ctrl[0];
	uint8_t *p = *at;

	if (mmap(p, len, prot, MAP_SHARED | MAP_FIXED | MAP_POPULATE, k->fd,
		 off) == MAP_FAILED)
		return NULL;
	if (twice && mmap(p + len, len, prot,
			  MAP_SHARED | MAP_FIXED | MAP_POPULATE, k->fd,
			  off) == MAP_FAILED)
		return NULL;
	*at += (twice ? 2 : 1) * len + PAGE;
	return p;
}

/* As the kernel gives it: what the peer writes is read-only. */
static int native_views(struct native_end *e, struct l5_map_mem *mem)
{
	const int rw = PROT_READ | PROT_WRITE;
	struct l5_native *k = e->k;
	int i = e->end;
	uint8_t *at;

	e->len = 8 * PAGE + 4ul * k->size;
	e->area = mmap(NULL, e->len, PROT_NONE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (e->area == MAP_FAILED)
		return -1;
	at = e->area + PAGE;
	mem->own = native_part(k, &at, PAGE, 0, rw, k->ctrl[i]);
	mem->peer = native_part(k, &at, PAGE, 0, PROT_READ, k->ctrl[!i]);
	mem->state = native_part(k, &at, PAGE, 0, PROT_READ, k->state[i]);
	mem->tx = native_part(k, &at, k->size, 1, rw, k->data[i]);
	mem->rx = native_part(k, &at, k->size, 1, PROT_READ, k->data[!i]);
	/* if not, the area stays: a hole may be another thread's by now */
	return mem->own && mem->peer && mem->state && mem->tx && mem->rx ?
	       0 : -1;
}

struct l5_map *l5_native_map(struct l5_native *k, int end, uint32_t id)
{
	struct native_end *e = calloc(1, sizeof(*e));
	struct l5_map_mem mem = {
		.own = k->ctrl[end],
		.peer = k->ctrl[!end],
		.state = k->state[end],
		.tx = k->data[end],
		.rx = k->data[!end],
		.tx_size = k->size,
		.rx_size = k->size,
		.id = id,
		.messages = k->messages,
	};
	struct l5_map *m = NULL;

	if (!e)
		return NULL;
	e->k = k;
	e->end = end;
	if (L5_MAP_FLAT || !native_views(e, &mem))
		m = l5_map_over(&mem, &native_ops, e);
	if (!m)
		free(e);
	return m;
}

void l5_native_unmap(struct l5_map *m)
{
	struct native_end *e = m->priv;

	if (e->area)
		munmap(e->area, e->len);
	free(e);
	l5_map_put(m);
}

static bool native_sleep(uint32_t *word, bool (*ready)(const void *arg),
			 struct l5_map *m, int ms)
{
	const struct timespec t = {
		.tv_sec = ms / 1000,
		.tv_nsec = ms % 1000 * 1000000,
	};

	while (!ready(m)) {
		l5_wait_arm(word);
		if (ready(m))
			break;
		if (futex(word, FUTEX_WAIT, 1, ms < 0 ? NULL : &t) < 0 &&
		    ms >= 0 && l5_load(word))
			return ready(m);
	}
	return true;
}

bool l5_native_sleep_rx(struct l5_map *m, int ms)
{
	return native_sleep(&m->own->rx_wait, l5_map_rx_ready, m, ms);
}

bool l5_native_sleep_tx(struct l5_map *m, int ms)
{
	return native_sleep(&m->own->tx_wait, l5_map_tx_ready, m, ms);
}

void l5_native_flag(struct l5_native *k, int end, uint32_t flags)
{
	__atomic_or_fetch(&k->state[end]->flags, flags, __ATOMIC_SEQ_CST);
	native_wake(&k->ctrl[end]->rx_wait);
	native_wake(&k->ctrl[end]->tx_wait);
}

static void native_died(uint32_t *word, uint32_t id)
{
	uint32_t old = l5_load(word);

	while ((old & L5_LOCK_ID) == id)
		if (__atomic_compare_exchange_n(word, &old, L5_LOCK_DIED |
						(old & L5_LOCK_WAITERS), 0,
						__ATOMIC_SEQ_CST,
						__ATOMIC_SEQ_CST))
			break;
	futex(word, FUTEX_WAKE, INT_MAX, NULL);
}

void l5_native_died(struct l5_native *k, int end, uint32_t id)
{
	native_died(&k->ctrl[end]->tx_lock, id);
	native_died(&k->ctrl[end]->rx_lock, id);
	native_wake(&k->ctrl[!end]->rx_wait);
	native_wake(&k->ctrl[!end]->tx_wait);
}

/**
 * struct transfer - all of a buffer, one way
 * @wait: how it waits
 * @m: the end
 * @buf: what is left of the buffer
 * @len: bytes of that
 */
struct transfer {
	struct l5_wait wait;
	struct l5_map *m;
	uint8_t *buf;
	size_t len;
};

static ssize_t native_moved(struct transfer *t, ssize_t n)
{
	if (n <= 0)
		return n;
	t->wait.fruitless = 0;
	t->buf += n;
	t->len -= n;
	return 1;
}

static ssize_t send_attempt(struct l5_wait *w)
{
	struct transfer *t = l5_call_of(w, struct transfer);
	ssize_t n = 1;

	while (t->len && n > 0)
		n = native_moved(t, l5_map_send1(t->m, -1, t->buf, t->len));
	return n;
}

static bool send_look(struct l5_wait *w)
{
	struct transfer *t = l5_call_of(w, struct transfer);

	return l5_map_wait_tx(t->m, &w->start, w->seen);
}

static ssize_t send_rest(struct l5_wait *w, ssize_t why)
{
	struct transfer *t = l5_call_of(w, struct transfer);

	if (why != L5_TRY_AGAIN)
		return -1;
	l5_native_sleep_tx(t->m, -1);
	if (w->vain)
		l5_map_woke_tx(t->m, w->start);
	return L5_TRY_AGAIN;
}

static ssize_t recv_attempt(struct l5_wait *w)
{
	struct transfer *t = l5_call_of(w, struct transfer);
	ssize_t n = 1;

	while (t->len && n > 0)
		n = native_moved(t, l5_map_recv1(t->m, -1, t->buf, t->len));
	return n;
}

static bool recv_look(struct l5_wait *w)
{
	struct transfer *t = l5_call_of(w, struct transfer);

	return l5_map_wait_rx(t->m, &w->start, w->seen);
}

static ssize_t recv_rest(struct l5_wait *w, ssize_t why)
{
	struct transfer *t = l5_call_of(w, struct transfer);

	if (why != L5_TRY_AGAIN)
		return -1;
	l5_native_sleep_rx(t->m, -1);
	if (w->vain)
		l5_map_woke_rx(t->m, w->start);
	return L5_TRY_AGAIN;
}

bool l5_native_send(struct l5_map *m, const void *buf, size_t len)
{
	struct transfer t = { .m = m, .buf = (uint8_t *)buf, .len = len };

	l5_wait_begin(&t.wait);
	return l5_wait_loop(&t.wait, send_attempt, send_look, send_rest) > 0;
}

bool l5_native_recv(struct l5_map *m, void *buf, size_t len)
{
	struct transfer t = { .m = m, .buf = buf, .len = len };

	l5_wait_begin(&t.wait);
	return l5_wait_loop(&t.wait, recv_attempt, recv_look, recv_rest) > 0;
}
