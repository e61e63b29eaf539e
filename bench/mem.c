// SPDX-License-Identifier: GPL-2.0
/*
 * Rings without a kernel module: libl5's code over a memfd that both processes
 * map. What it needs the kernel for is done here: the state page says when the
 * stream ends, and a doorbell clears the wait word and wakes who sleeps, here
 * by a futex. Who writes a page and who only reads it is as with the module,
 * but that each side has a second view of everything in its part as kernel.
 */
#include "bench.h"

#include <err.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "../userspace/lib/map.h"

#define PAGE		4096ul

/* Of the memfd, in pages: then the rings follow, each of whole pages. */
enum { CTRL, STATE = 2, DATA = 4 };

/* What the kernel has: everything, writable. */
struct mem {
	struct l5_map *map;
	struct l5_ctrl *own, *peer;
	struct l5_map_state *state, *peer_state;
};

static size_t ring_size(const struct setup *s)
{
	size_t size = L5_RING_MIN;

	while (size < (s->buffer ? (size_t)s->buffer : MEM_RING))
		size *= 2;
	if (size > L5_RING_MAX)
		errx(1, "a ring has at most %u bytes", L5_RING_MAX);
	return size;
}

/* Once: the memory of a connection; mem_open() in each process. */
int mem_create(const struct setup *s)
{
	int fd = memfd_create("bench", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, DATA * PAGE + 2 * ring_size(s)))
		err(1, "memfd");
	return fd;
}

static void *view(void *at, int fd, int prot, size_t from, size_t len)
{
	void *p = mmap(at, len, prot, MAP_SHARED | MAP_POPULATE |
		       (at ? MAP_FIXED : 0), fd, from);

	if (p == MAP_FAILED)
		err(1, "mmap");
	return p;
}

static void *twice(int fd, int prot, size_t from, size_t len)
{
	char *p = mmap(NULL, 2 * len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);

	if (p == MAP_FAILED)
		err(1, "mmap");
	view(p, fd, prot, from, len);
	view(p + len, fd, prot, from, len);
	return p;
}

static void wake(__u32 *word)
{
	if (!l5_load(word))
		return;
	l5_wait_clear(word);
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void bell(struct l5_map *m, int fd, unsigned int bells)
{
	struct mem *mem = m->priv;

	(void)fd;
	if (bells & L5_BELL_DATA)
		wake(&mem->peer->rx_wait);
	if (bells & L5_BELL_ROOM)
		wake(&mem->peer->tx_wait);
}

static void no_lock(struct l5_map *m, int fd, unsigned int which)
{
	(void)m;
	(void)fd;
	errx(1, "lock word %u is held, but by whom?", which);
}

static void broken(struct l5_map *m, int fd)
{
	(void)m;
	(void)fd;
	errx(1, "the ring is broken");
}

static const struct l5_map_ops mem_ops = {
	.bell		= bell,
	.lock_wait	= no_lock,
	.lock_wake	= no_lock,
	.broken		= broken,
};

/* End 0 or 1 of the connection. */
struct mem *mem_open(const struct setup *s, int fd, int end)
{
	const size_t size = ring_size(s);
	const int rw = PROT_READ | PROT_WRITE;
	struct mem *mem = calloc(1, sizeof(*mem));
	char *all = view(NULL, fd, rw, 0, DATA * PAGE);
	struct l5_map_mem m = {
		.tx_size = size,
		.rx_size = size,
		.id	 = 1,
	};

	if (!mem)
		err(1, "malloc");
	mem->own = (void *)(all + (CTRL + end) * PAGE);
	mem->peer = (void *)(all + (CTRL + !end) * PAGE);
	mem->state = (void *)(all + (STATE + end) * PAGE);
	mem->peer_state = (void *)(all + (STATE + !end) * PAGE);
	m.own = view(NULL, fd, rw, (CTRL + end) * PAGE, PAGE);
	m.peer = view(NULL, fd, PROT_READ, (CTRL + !end) * PAGE, PAGE);
	m.state = view(NULL, fd, PROT_READ, (STATE + end) * PAGE, PAGE);
	m.tx = twice(fd, rw, DATA * PAGE + end * size, size);
	m.rx = twice(fd, PROT_READ, DATA * PAGE + !end * size, size);
	mem->map = l5_map_over(&m, &mem_ops, mem);
	if (!mem->map)
		err(1, "l5_map_over");
	return mem;
}

/* As recv() and send() do in the kernel, but that the caller tries again. */
static void nap(struct l5_map *m, __u32 *word, bool (*ready)(const void *))
{
	l5_wait_arm(word);
	if (!ready(m))
		syscall(SYS_futex, word, FUTEX_WAIT, 1, NULL, NULL, 0);
}

/* Bytes, or 0 at the end of the stream. */
size_t mem_recv(struct mem *mem, void *buf, size_t len)
{
	struct l5_map *m = mem->map;
	uint64_t start;
	bool end;
	ssize_t n;

	for (;;) {
		end = l5_map_rx_ask(m);
		n = l5_map_recv1(m, -1, buf, len);
		if (l5_likely(n > 0))
			return n;
		if (n != L5_TRY_AGAIN && n != L5_TRY_ASK)
			errx(1, "l5_map_recv1: %s", strerror(-n));
		if (end)
			return 0;
		if (l5_map_wait_rx(m, &start))
			continue;
		nap(m, &mem->own->rx_wait, l5_map_rx_ready);
		l5_map_woke_rx(m, start);
	}
}

size_t mem_send(struct mem *mem, const void *buf, size_t len)
{
	struct l5_map *m = mem->map;
	uint64_t start;
	ssize_t n;

	for (;;) {
		n = l5_map_send1(m, -1, buf, len);
		if (l5_likely(n > 0))
			return n;
		if (n != L5_TRY_AGAIN)
			errx(1, "l5_map_send1: %s", strerror(-n));
		if (l5_map_wait_tx(m, &start))
			continue;
		nap(m, &mem->own->tx_wait, l5_map_tx_ready);
		l5_map_woke_tx(m, start);
	}
}

/* Says to the other end that this one sends no more. */
void mem_end(struct mem *mem)
{
	l5_store_release(&mem->peer_state->flags, L5_MAP_RX_ASK);
	l5_mb();
	wake(&mem->peer->rx_wait);
}

void mem_close(struct mem *mem)
{
	mem_end(mem);
	l5_map_put(mem->map);
	free(mem);
}
