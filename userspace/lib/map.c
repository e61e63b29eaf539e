// SPDX-License-Identifier: GPL-2.0
/*
 * Making and ending mapped ends: see mapped.h.
 *
 * This is linked into programs that know nothing of it, and called in signal
 * handlers and in children of vfork(). So it uses bare system calls, since
 * libc's may be interposed, no malloc(), and leaves errno as it was. That holds
 * for all that the library preloaded by l5run has of this directory.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "map.h"
#include "ops.h"

/* Places that another thread takes first, before it is left for later. */
#define L5_PLACES	8

static void l5_map_init(struct l5_map *m, const struct l5_map_mem *mem,
			const struct l5_map_ops *ops, void *priv)
{
	static uint32_t maps;

	m->own = mem->own;
	m->peer = mem->peer;
	m->state = mem->state;
	m->tx = mem->tx;
	m->rx = mem->rx;
	m->tx_size = mem->tx_size;
	m->rx_size = mem->rx_size;
	m->prod.size = mem->tx_size;
	m->cons.size = mem->rx_size;
	m->id = mem->id;
	m->messages = mem->messages;
	m->rx_stop = mem->messages ? L5_MAP_RX_STOP : L5_MAP_LEAVE;
	m->life = l5_load(l5_map_life);
	/* 2 numbers each, never 0 */
	m->key = 2ull * __atomic_add_fetch(&maps, 1, __ATOMIC_RELAXED);
	m->ops = ops;
	m->priv = priv;
	m->ref = 1;
	l5_adapt_init(&m->tx_adapt);
	l5_adapt_init(&m->rx_adapt);
}

static bool l5_map_size_ok(uint32_t size)
{
	return size >= L5_RING_MIN && size <= L5_RING_MAX &&
	       !(size & (size - 1));
}

int l5_map_ask(int fd, struct l5_map_info *info, struct l5_area *area,
	       uint32_t n, uint64_t knows)
{
	memset(info, 0, sizeof(*info));
	/* tools that watch memory do not see the kernel write behind info */
	if (n)
		memset(area, 0, n * sizeof(*area));
	info->size = sizeof(*info);
	info->version_min = L5_MAP_VERSION;
	info->version_max = L5_MAP_VERSION;
	info->features = L5_REC_FILES | knows;
	info->areas = (uintptr_t)area;
	info->nareas = n;
	if (syscall(SYS_ioctl, fd, L5_IOC_MAP_INFO, info) < 0)
		return -1;
	if (info->version != L5_MAP_VERSION) {
		errno = EPROTONOSUPPORT;
		return -1;
	}
	if (info->nareas > n)
		info->nareas = n;
	return 0;
}

int l5_map_watch(int fd, uint64_t *watch)
{
	struct l5_watch w = { .size = sizeof(w), .fd = fd };

	if (syscall(SYS_ioctl, fd, L5_IOC_WATCH, &w) < 0)
		return -1;
	*watch = w.watch;
	return 0;
}

/* More than there are areas; what does not fit is not known here, either. */
enum { L5_MAP_AREAS = 32 };

/* What we need of them */
static const struct {
	uint32_t kind;
	uint32_t access;
} l5_map_needs[] = {
	{ L5_AREA_CTRL, L5_AREA_READ | L5_AREA_WRITE },
	{ L5_AREA_PEER, L5_AREA_READ },
	{ L5_AREA_STATE, L5_AREA_READ },
	{ L5_AREA_TX, L5_AREA_READ | L5_AREA_WRITE | L5_AREA_TWICE },
	{ L5_AREA_RX, L5_AREA_READ | L5_AREA_TWICE },
};

enum { L5_MAP_NEEDS = sizeof(l5_map_needs) / sizeof(*l5_map_needs) };

/* The length that the area for need @i must have, at least or exactly. */
static bool l5_map_length_ok(const struct l5_map_info *info, int i,
			     uint64_t length)
{
	switch (l5_map_needs[i].kind) {
	case L5_AREA_TX:
		return length == info->tx_size;
	case L5_AREA_RX:
		return length == info->rx_size;
	case L5_AREA_STATE:
		return length >= sizeof(struct l5_map_state) &&
		       length <= L5_RING_MAX;
	default:
		return length >= sizeof(struct l5_ctrl) &&
		       length <= L5_RING_MAX;
	}
}

/* The area for a need, and how long its mapping is: 0 if there is none. */
static size_t l5_map_need(const struct l5_map_info *info,
			  const struct l5_area *area, int need,
			  const struct l5_area **a)
{
	uint32_t access = l5_map_needs[need].access, i;

	for (i = 0; i < info->nareas; i++) {
		*a = &area[i];
		if ((*a)->kind != l5_map_needs[need].kind || (*a)->index)
			continue;
		if (((*a)->access & access) != access ||
		    !l5_map_length_ok(info, need, (*a)->length))
			return 0;
		return (*a)->length << !!(access & L5_AREA_TWICE);
	}
	return 0;
}

/*
 * Map one area to where nothing is. MAP_FIXED would clear the place and then
 * ask the file, and a file that refuses leaves a hole. Another thread may map
 * something there next, and nobody could tell. So nothing is ever replaced.
 */
static void *l5_map_area(uint8_t *at, size_t len, int prot, int fd,
			 uint64_t offset)
{
	void *p = mmap64(at, len, prot, MAP_SHARED | MAP_FIXED_NOREPLACE, fd,
			 offset);

	/* an emulated kernel may not know the flag, and only take a hint */
	if (p != MAP_FAILED && p != at) {
		munmap(p, len);
		errno = EEXIST;
		p = MAP_FAILED;
	}
	return p;
}

static int l5_map_prot(int need)
{
	return l5_map_needs[need].access & L5_AREA_WRITE ?
	       PROT_READ | PROT_WRITE : PROT_READ;
}

/* The needs in the order of their areas' offsets */
static void l5_map_sort(const struct l5_map_info *info,
			const struct l5_area *area, int order[L5_MAP_NEEDS])
{
	uint64_t offset[L5_MAP_NEEDS];
	const struct l5_area *a;
	int i, j;

	for (i = 0; i < L5_MAP_NEEDS; i++) {
		l5_map_need(info, area, i, &a);
		for (j = i; j && offset[j - 1] > a->offset; j--) {
			offset[j] = offset[j - 1];
			order[j] = order[j - 1];
		}
		offset[j] = a->offset;
		order[j] = i;
	}
}

/*
 * All of them from @at on, or none. Areas that lie side by side in the file,
 * and may be used alike, are one mapping.
 */
static bool l5_map_areas(int fd, const struct l5_map_info *info,
			 const struct l5_area *area, uint8_t *at,
			 void *place[L5_MAP_NEEDS])
{
	int order[L5_MAP_NEEDS], i, next, err, prot;
	const struct l5_area *a;
	uint64_t from = 0, to;
	uint8_t *start = at;
	size_t len;

	l5_map_sort(info, area, order);
	for (i = 0; i < L5_MAP_NEEDS; i = next, at += to - from) {
		prot = l5_map_prot(order[i]);
		for (next = i, to = 0; next < L5_MAP_NEEDS; next++) {
			len = l5_map_need(info, area, order[next], &a);
			if (next == i)
				from = to = a->offset;
			else if (a->offset != to ||
				 l5_map_prot(order[next]) != prot)
				break;
			place[order[next]] = at + (to - from);
			to += len;
		}
		if (l5_map_area(at, to - from, prot, fd, from) == MAP_FAILED)
			goto fail;
	}
	return true;

fail:
	err = errno;
	if (at != start)
		munmap(start, at - start);
	errno = err;
	return false;
}

/*
 * A page of our own, and behind it the areas, @len bytes in all. They lie side
 * by side, since a process has only so many mappings (vm.max_map_count), and
 * holes would be mappings, too. A free place is found, given back, and the
 * areas are put there. Another thread may be faster: then another place is
 * tried.
 */
static uint8_t *l5_map_lay(int fd, const struct l5_map_info *info,
			   const struct l5_area *area, size_t page, size_t len,
			   void *place[L5_MAP_NEEDS])
{
	uint8_t *base;
	int i, err;

	for (i = 0; i < L5_PLACES; i++) {
		base = mmap(NULL, len, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
			    0);
		if (base == MAP_FAILED)
			return NULL;
		munmap(base + page, len - page);
		if (l5_map_areas(fd, info, area, base + page, place))
			return base;
		err = errno;
		munmap(base, page);
		errno = err;
		if (err != EEXIST)
			return NULL;
	}
	errno = EAGAIN;
	return NULL;
}

/*
 * Does the state page say what the kernel said before, and is it as long as all
 * that we read? What was added later is 0 where it is not known.
 */
static bool l5_map_state_ok(const struct l5_map_mem *mem)
{
	const struct l5_map_state *s = mem->state;

	return l5_load(&s->size) >= L5_MAP_STATE_SIZE_VER0 &&
	       l5_load(&s->version) == L5_MAP_VERSION &&
	       l5_load(&s->tx_size) == mem->tx_size &&
	       l5_load(&s->rx_size) == mem->rx_size &&
	       l5_load(&s->tx_extent) - 1 < mem->tx_size &&
	       l5_load(&s->tx_most) <= mem->tx_size &&
	       !l5_load(&s->tx_ring) && !l5_load(&s->rx_ring);
}

struct l5_map *l5_map_new(int fd, uint64_t knows)
{
	size_t page = sysconf(_SC_PAGESIZE), len = page, part;
	struct l5_area area[L5_MAP_AREAS];
	void *place[L5_MAP_NEEDS];
	struct l5_map_mem mem = { 0 };
	const struct l5_area *a;
	struct l5_map_info info;
	struct l5_map *m;
	uint8_t *base;
	int err, i, growths = 0;

ask:
	if (l5_map_ask(fd, &info, area, L5_MAP_AREAS, knows))
		return NULL;
	if (!l5_map_size_ok(info.tx_size) || !l5_map_size_ok(info.rx_size)) {
		errno = EPROTONOSUPPORT;
		return NULL;
	}
	/* the struct, then what is mapped; fork() copies the first */
	for (i = 0; i < L5_MAP_NEEDS; i++) {
		part = l5_map_need(&info, area, i, &a);
		if (!part || part % page) {
			errno = EPROTONOSUPPORT;
			return NULL;
		}
		len += part;
	}
	if (l5_map_live() < 0)
		return NULL;
	base = l5_map_lay(fd, &info, area, page, len, place);
	/* each ring may have grown since it was asked about */
	if (!base && errno == EINVAL && growths++ < 2) {
		len = page;
		goto ask;
	}
	if (!base)
		return NULL;
	mem.own = place[0];
	mem.peer = place[1];
	mem.state = place[2];
	mem.tx = place[3];
	mem.rx = place[4];
	/* asked again: by now there is a number for lock words */
	if (l5_map_ask(fd, &info, NULL, 0, knows))
		goto fail;
	mem.tx_size = info.tx_size;
	mem.rx_size = info.rx_size;
	mem.id = info.id;
	mem.messages = info.features & L5_MAP_MESSAGES;
	if (!mem.id || mem.id >= L5_LOCK_KERNEL || !l5_map_state_ok(&mem)) {
		errno = EPROTONOSUPPORT;
		goto fail;
	}
	m = (struct l5_map *)base;
	l5_map_init(m, &mem, &l5_kernel_ops, NULL);
	m->base = base;
	m->len = len;
	m->mailbox = info.mailbox;
	return m;

fail:
	err = errno;
	munmap(base, len);
	errno = err;
	return NULL;
}

struct l5_map *l5_map_over(const struct l5_map_mem *mem,
			   const struct l5_map_ops *ops, void *priv)
{
	size_t page = sysconf(_SC_PAGESIZE);
	struct l5_map *m;

	if (!l5_map_size_ok(mem->tx_size) || !l5_map_size_ok(mem->rx_size) ||
	    !mem->id || mem->id >= L5_LOCK_KERNEL) {
		errno = EINVAL;
		return NULL;
	}
	if (l5_map_live() < 0)
		return NULL;
	m = mmap(NULL, page, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (m == MAP_FAILED)
		return NULL;
	l5_map_init(m, mem, ops, priv);
	m->base = m;
	m->len = page;
	return m;
}

struct l5_map *l5_map_get(struct l5_map *m)
{
	__atomic_add_fetch(&m->ref, 1, __ATOMIC_RELAXED);
	return m;
}

void l5_map_put(struct l5_map *m)
{
	int saved = errno;

	if (!m || __atomic_sub_fetch(&m->ref, 1, __ATOMIC_ACQ_REL))
		return;
	/* of what a child inherited only the struct is there */
	if (l5_map_mine(m))
		munmap(m->base, m->len);
	else
		munmap(m->base, sysconf(_SC_PAGESIZE));
	errno = saved;
}
