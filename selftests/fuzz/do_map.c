// SPDX-License-Identifier: GPL-2.0
/*
 * Mappings of rings, and hostile words in them. Each slot has its own part of
 * the address space, which is never anything else: what is not mapped is there
 * without rights, so that a word that comes late hits nothing.
 */
#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "exec.h"
#include "words.h"
#include "../../kmod/areas.h"

struct fz_map fz_map[FZ_MAPS];
static uint8_t *arena;

#define NOTHING	(MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)

uint8_t *fz_at(unsigned int m)
{
	return arena + m % FZ_MAPS * FZ_ROOM;
}

bool fz_map_begin(void)
{
	arena = mmap(NULL, FZ_MAPS * FZ_ROOM, PROT_NONE, NOTHING, -1, 0);
	return arena != MAP_FAILED;
}

/*
 * In one step, so that nothing else gets the place: the stack of a thread would
 * go with what is mapped there next. A call that fails for want of memory, as a
 * program may have asked for, fails once.
 */
static void nothing_at(uint8_t *at, size_t len)
{
	int i;

	for (i = 0; i < 3; i++)
		if (mmap(at, len, PROT_NONE, NOTHING | MAP_FIXED, -1, 0) !=
		    MAP_FAILED)
			break;
}

static void vacate(unsigned int m)
{
	nothing_at(fz_at(m), FZ_ROOM);
	__atomic_store_n(&fz_map[m % FZ_MAPS].len, 0, __ATOMIC_RELAXED);
}

void fz_map_reset(void)
{
	unsigned int m;

	for (m = 0; m < FZ_MAPS; m++)
		if (fz_map[m].len)
			vacate(m);
}

/*
 * A child has no mapping of rings, but holes in their places, unless a call
 * asked for it (MADV_DOFORK).
 */
void fz_map_forked(void)
{
	unsigned int m;

	for (m = 0; m < FZ_MAPS; m++) {
		size_t len = fz_map[m].len;

		if (len && mmap(fz_at(m), len, PROT_NONE, NOTHING |
				MAP_FIXED_NOREPLACE, -1, 0) != MAP_FAILED)
			fz_map[m].len = 0;
	}
}

static long place(unsigned int m, unsigned int slot, uint32_t region,
		  uint64_t off, size_t len, int prot, int flags)
{
	struct fz_map *map = &fz_map[m % FZ_MAPS];
	void *p;

	if (len > FZ_ROOM)
		return -ENOMEM;
	p = mmap(fz_at(m), len, prot, flags | MAP_FIXED, fz_fd(slot), off);
	if (p == MAP_FAILED) {
		long err = -errno;

		/* it may have gone half-way, and left a hole */
		vacate(m);
		return err;
	}
	map->region = region;
	map->slot = slot;
	__atomic_store_n(&map->len, len, __ATOMIC_RELEASE);
	return 0;
}

/* What can be mapped, from 1: own, peer, state, tx, rx, mailbox, region */
enum { OWN = 1, PEER, STATE, TX, RX, MAILBOX, REGION };

static const struct {
	uint64_t offset;
	int prot;
} areas[] = {
	[OWN] = { L5_MMAP_OWN, PROT_READ | PROT_WRITE },
	[PEER] = { L5_MMAP_PEER, PROT_READ },
	[STATE] = { L5_MMAP_STATE, PROT_READ },
	[TX] = { L5_MMAP_TX, PROT_READ | PROT_WRITE },
	[RX] = { L5_MMAP_RX, PROT_READ },
	[MAILBOX] = { L5_MMAP_MAILBOX, PROT_READ | PROT_WRITE },
};

/* 0 if the socket has no rings, or none that can be mapped */
static size_t ring_size(int fd, uint32_t region)
{
	struct l5_map_info info = {
		.size = sizeof(info),
		.features = L5_REC_FILES | L5_MAP_MESSAGES,
	};

	if (ioctl(fd, L5_IOC_MAP_INFO, &info))
		return 0;
	if (region == TX)
		return info.tx_size;
	return region == RX ? info.rx_size : 4096;
}

/* From an area on to the end of what lies side by side */
static size_t run(int fd, uint32_t region)
{
	switch (region) {
	case OWN:
		return 4096 + 2 * ring_size(fd, TX);
	case PEER:
		return 2 * 4096 + 2 * ring_size(fd, RX);
	case STATE:
		return 4096 + 2 * ring_size(fd, RX);
	default:
		return 2 * ring_size(fd, region);
	}
}

FZ_DO(map)
{
	long ret = 0;
	unsigned int i;
	size_t len;

	for (i = OWN; i <= RX && !ret; i++) {
		len = ring_size(fz_fd(c->s), i);
		if (i >= TX)
			len *= 2;
		ret = len ? place(c->t + i - OWN, c->s, i, areas[i].offset, len,
				  areas[i].prot, MAP_SHARED) : -EINVAL;
	}
	return ret;
}

/* Where a region is, and how long; a page at its place if it is not there */
static size_t region_at(int fd, uint32_t number, uint64_t *off)
{
	struct l5_region_arg a = {
		.size = sizeof(a),
		.op = L5_REGION_GET,
		.index = number,
	};

	if (ioctl(fd, L5_IOC_REGION, &a)) {
		a.length = 4096;
		a.offset = L5_MMAP_REGION + ((uint64_t)number <<
					     L5_REGION_SHIFT);
	}
	*off = a.offset;
	return a.length;
}

FZ_DO(mmap)
{
	uint64_t off = c->a - 1 < MAILBOX ? areas[c->a].offset :
					    (uint64_t)c->a << 32;
	size_t right = c->a == REGION ?
		       region_at(fz_fd(c->s), 2 + (c->v & 15), &off) :
		       ring_size(fz_fd(c->s), c->a), len;

	switch (c->b & 0xff) {
	case 1:
		len = 4096;
		break;
	case 2:
		len = 2 * right;
		break;
	case 3:
		len = right / 2;
		break;
	case 4:
		len = right + 4096;
		break;
	case 5:
		len = 1 << 20;
		break;
	case 6:
		len = run(fz_fd(c->s), c->a);
		break;
	default:
		len = right;
	}
	/* the number is in the lower bits, which are none of a page */
	off = (off ^ c->v) & ~4095ULL;
	/* without a kind there is no mapping at all, and 3 is a new kind */
	return place(c->t, c->s, c->a, off, len, c->b >> 8 & 15,
		     c->b >> 16 & 3 ?: MAP_SHARED);
}

static size_t map_len(unsigned int m)
{
	return __atomic_load_n(&fz_map[m % FZ_MAPS].len, __ATOMIC_ACQUIRE);
}

/* A mapping that is there: in that slot, or in the next one that has one */
static unsigned int some_map(unsigned int m)
{
	unsigned int i;

	for (i = 0; i < FZ_MAPS; i++)
		if (map_len(m + i))
			break;
	return m + i;
}

/* The whole or a part: false if nothing is there. */
static bool part(unsigned int m, uint32_t kind, uint8_t **at, size_t *len)
{
	*at = fz_at(m);
	*len = map_len(m);
	if (!*len)
		return false;
	switch (kind % FZ_PARTS) {
	case 1:
		*len = 4096;
		break;
	case 2:
		*at += *len - 4096;
		*len = 4096;
		break;
	case 3:
		*at += *len / 2 & ~4095UL;
		*len = 4096;
		break;
	}
	return true;
}

FZ_DO(munmap)
{
	uint8_t *at;
	size_t len;

	if (!part(c->t, c->a, &at, &len))
		return -EINVAL;
	if (!c->a) {
		vacate(c->t);
		return 0;
	}
	if (munmap(at, len))
		return -errno;
	/* a mapping that can be cut in two was none of a ring's */
	nothing_at(at, len);
	return 0;
}

FZ_DO(mprotect)
{
	uint8_t *at;
	size_t len;

	if (!part(c->t, c->b, &at, &len))
		return -EINVAL;
	return FZ_RET(mprotect(at, len, c->a & 7));
}

FZ_DO(madvise)
{
	static const int advice[FZ_ADVICES] = {
		MADV_WILLNEED, MADV_DONTNEED, MADV_FREE, MADV_REMOVE,
		MADV_DONTFORK, MADV_DOFORK, MADV_HUGEPAGE, MADV_MERGEABLE,
		MADV_WIPEONFORK, 20 /* COLD */, 21 /* PAGEOUT */,
		22 /* POPULATE_READ */, 23 /* POPULATE_WRITE */,
		25 /* COLLAPSE */,
	};
	uint8_t *at;
	size_t len;

	if (!part(c->t, c->b, &at, &len))
		return -EINVAL;
	return FZ_RET(madvise(at, len, advice[c->a % FZ_ADVICES]));
}

FZ_DO(mremap)
{
	uint8_t *at = fz_at(c->t), *to = fz_at(c->t + 1);
	size_t len = map_len(c->t), half;
	void *p;

	if (!len)
		return -EINVAL;
	switch (c->a % 4) {
	case 0:
		return FZ_RET((long)mremap(at, len, len + 4096, 0)) < 0;
	case 1:
		half = (len / 2 + 4095) & ~4095UL;
		p = mremap(at, len, half, 0);
		if (p == MAP_FAILED)
			return -errno;
		if (half < len)
			nothing_at(at + half, len - half);
		return 0;
	default:
		/* moved, or once more elsewhere */
		p = mremap(at, c->a & 1 ? 0 : len, len,
			   MREMAP_MAYMOVE | MREMAP_FIXED, to);
		if (p == MAP_FAILED) {
			long err = -errno;

			/* what was there may have gone by then */
			vacate(c->t + 1);
			return err;
		}
		fz_map[(c->t + 1) % FZ_MAPS] = fz_map[c->t % FZ_MAPS];
		if (!(c->a & 1))
			vacate(c->t);
		return 0;
	}
}

/* The part of the same end that shows @region, if that is mapped */
static void *beside(const struct fz_map *map, uint32_t region, size_t *len)
{
	unsigned int m;

	for (m = 0; m < FZ_MAPS; m++)
		if (map_len(m) && fz_map[m].region == region &&
		    fz_map[m].slot == map->slot) {
			if (len)
				*len = fz_map[m].len;
			return fz_at(m);
		}
	return NULL;
}

/* What of the end that slot @m is of is mapped */
static void view(unsigned int m, struct fz_view *v)
{
	const struct fz_map *map = &fz_map[m % FZ_MAPS];

	memset(v, 0, sizeof(*v));
	v->own = beside(map, OWN, NULL);
	v->peer = beside(map, PEER, NULL);
	v->tx = beside(map, TX, &v->tx_len);
}

long fz_poke_until(const struct fz_call *c, const bool *stop)
{
	struct fz_view v;
	volatile long ret = -EFAULT;

	unsigned int m = some_map(c->t);

	if (!map_len(m))
		return -EINVAL;
	view(m, &v);
	FZ_TRY(ret = fz_poke(&v, c->a, c->b, c->v, stop));
	return ret;
}

FZ_DO(poke)
{
	return fz_poke_until(c, NULL);
}

/* What goes to another host the kernel hears of only so. */
static void ring(const struct fz_call *c)
{
	ioctl(fz_fd(fz_map[some_map(c->t)].slot), L5_IOC_DOORBELL,
	      L5_BELL_DATA);
}

FZ_DO(flood)
{
	struct fz_view v;
	volatile long ret = -EFAULT;

	unsigned int m = some_map(c->t);

	if (!map_len(m))
		return -EINVAL;
	view(m, &v);
	FZ_TRY(ret = fz_flood(&v, c->a, c->b, c->v & FZ_FLOOD_ON,
			      c->v & FZ_FLOOD_EMPTY));
	if (c->v & FZ_FLOOD_ON)
		ring(c);
	return ret;
}

static long read_all(volatile const uint8_t *at, size_t len)
{
	size_t i;

	for (i = 0; i < len; i += 4096)
		(void)at[i];
	return 0;
}

FZ_DO(look)
{
	volatile const uint8_t *at = fz_at(c->t);
	volatile long ret = -EFAULT;
	size_t len = map_len(c->t);

	FZ_TRY(ret = read_all(at, len));
	return ret;
}
