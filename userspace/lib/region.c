// SPDX-License-Identifier: GPL-2.0
/*
 * libl5: memory beside the rings that both ends of a connection have: see
 * l5_region_make(3).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "conn.h"
#include "life.h"

/**
 * struct l5_region - a region as this process has it mapped
 * @conn: its connection
 * @mem: where it is mapped
 * @len: how long it is
 * @number: see l5_region_number()
 * @lost: l5_map_state.regions_lost when it was last known to be there
 * @life: of the process, see l5_map_life, that has it mapped
 * @write: this process may write to it
 */
struct l5_region {
	struct l5_stream *conn;
	void *mem;
	size_t len;
	uint32_t number;
	uint64_t lost;
	uint32_t life;
	bool write;
};

/* L5_IOC_REGION: 0, or -1 with errno; where there is none, EOPNOTSUPP. */
static int region_call(const struct l5_stream *c, struct l5_region_arg *a)
{
	a->size = sizeof(*a);
	if (syscall(SYS_ioctl, c->fd, L5_IOC_REGION, a) >= 0)
		return 0;
	/* another kind of socket, or an older module */
	if (errno == ENOTTY)
		errno = EOPNOTSUPP;
	return -1;
}

static int region_get(const struct l5_stream *c, uint32_t number,
		      struct l5_region_arg *a)
{
	*a = (struct l5_region_arg){ .op = L5_REGION_GET, .index = number };
	return region_call(c, a);
}

/* Is it mapped in this process, or was it in a parent? */
static bool region_mine(const struct l5_region *r)
{
	return r->life == l5_load(l5_map_life);
}

struct l5_region *l5_region_open(struct l5_stream *c, uint32_t number)
{
	struct l5_region_arg a;
	struct l5_region *r;
	int err;

	if (l5_map_live() < 0 || region_get(c, number, &a))
		return NULL;
	r = malloc(sizeof(*r));
	if (!r)
		return NULL;
	*r = (struct l5_region){
		.conn = c,
		.len = a.length,
		.number = number,
		.lost = a.lost,
		.life = l5_load(l5_map_life),
		.write = a.access & L5_AREA_WRITE,
	};
	r->mem = mmap(NULL, r->len, r->write ? PROT_READ | PROT_WRITE :
		      PROT_READ, MAP_SHARED, c->fd, a.offset);
	if (r->mem == MAP_FAILED) {
		err = errno;
		free(r);
		errno = err;
		return NULL;
	}
	return r;
}

struct l5_region *l5_region_make(struct l5_stream *c, size_t len, bool write)
{
	struct l5_region_arg a = {
		.op = L5_REGION_MAKE,
		.access = write ? L5_AREA_READ | L5_AREA_WRITE : L5_AREA_READ,
		.length = len,
	};
	struct l5_region *r;
	int err;

	if (region_call(c, &a))
		return NULL;
	r = l5_region_open(c, a.index);
	if (r)
		return r;
	err = errno;
	a = (struct l5_region_arg){ .op = L5_REGION_END, .index = a.index };
	region_call(c, &a);
	errno = err;
	return NULL;
}

uint32_t l5_region_number(const struct l5_region *r)
{
	return r->number;
}

void *l5_region_mem(const struct l5_region *r, size_t *len)
{
	if (len)
		*len = r->len;
	return r->mem;
}

bool l5_region_writable(const struct l5_region *r)
{
	return r->write;
}

int l5_region_check(struct l5_region *r)
{
	struct l5_region_arg a;
	struct l5_map *m;

	if (!region_mine(r)) {
		errno = ESTALE;
		return -1;
	}
	m = l5_stream_map(r->conn);
	/*
	 * BM, pairs with BL in the kernel: what was done to the region, then
	 * the word. Memory that was another by then was so after the word.
	 */
	l5_mb();
	if (m && l5_load(&m->state->regions_lost) == l5_load(&r->lost))
		return 0;
	if (region_get(r->conn, r->number, &a)) {
		/* closed, disconnected or revoked, or ended by its maker */
		if (errno == ENOENT || errno == ENOTCONN || errno == EOPNOTSUPP)
			errno = ESTALE;
		return -1;
	}
	l5_store(&r->lost, a.lost);
	return 0;
}

static int region_take(struct l5_region *r, uint32_t op)
{
	struct l5_region_arg a = { .op = op, .index = r->number };

	return region_call(r->conn, &a);
}

int l5_region_unshare(struct l5_region *r)
{
	return region_take(r, L5_REGION_UNSHARE);
}

int l5_region_end(struct l5_region *r)
{
	return region_take(r, L5_REGION_END);
}

void l5_region_close(struct l5_region *r)
{
	if (!r)
		return;
	/* a child of fork() has something else there, or nothing */
	if (region_mine(r))
		munmap(r->mem, r->len);
	free(r);
}
