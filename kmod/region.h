/* SPDX-License-Identifier: GPL-2.0 */
/* Memory beside the rings that both ends of a connection can map. */
#ifndef L5_KMOD_REGION_H
#define L5_KMOD_REGION_H

#include "l5.h"
#include "view.h"

/**
 * struct l5_region - memory that an end has made
 * @ref: of the list, of each view, of calls and of @work
 * @node: in l5_end.regions of its maker
 * @number: the same for both ends; its bits of L5_REGION_PLACE say where it
 *	can be mapped
 * @maker: index of the end that made it
 * @access: L5_AREA_* that the other end has
 * @npages: how long it is
 * @pages: its pages, NULL once both ends have lost it
 * @payer: pays for them
 * @locked: the user whose RLIMIT_MEMLOCK they count for, or NULL
 * @losing: bits of the ends that are not to see it any more; changed under
 *	l5_conn.region_lock
 * @settle: see l5.h
 * @lost: bits of the ends whose mappings are emptied, under @settle
 * @lock: see l5.h; guards the next two
 * @views: what processes of each end have mapped
 * @nviews: how many there are
 * @work: takes it from the ends that are to lose it
 */
struct l5_region {
	refcount_t ref;
	struct list_head node;
	u32 number;
	int maker;
	u32 access;
	unsigned long npages;
	struct page **pages;
	struct l5_payer payer;
	struct user_struct *locked;
	u32 losing;
	struct mutex settle;
	u32 lost;
	spinlock_t lock;
	struct list_head views[2];
	unsigned int nviews[2];
	struct work_struct work;
};

/**
 * struct l5_region_view - one mapping of a region
 * @view: its file, which owns this; in l5_region.views
 * @region: the region, NULL if the mapping came to nothing
 * @side: index of the end whose process it is
 * @emptied: nothing of the region is left in it, or is about to be
 */
struct l5_region_view {
	struct l5_view view;
	struct l5_region *region;
	int side;
	bool emptied;
};

/* What an end may do with a region, L5_AREA_* */
static inline u32 l5_region_access(const struct l5_region *r, int end)
{
	return r->maker == end ? L5_AREA_READ | L5_AREA_WRITE : r->access;
}

/* Where it is in the socket's file */
static inline u64 l5_region_offset(const struct l5_region *r)
{
	return L5_MMAP_REGION +
	       ((u64)(r->number & L5_REGION_PLACE) << L5_REGION_SHIFT);
}

static inline u64 l5_region_length(const struct l5_region *r)
{
	return (u64)r->npages << PAGE_SHIFT;
}

/* Is there any region? If so, its maker may be about to end it. */
static inline bool l5_region_any(const struct l5_sock *l5)
{
	return READ_ONCE(l5_own(l5)->nregions) ||
	       READ_ONCE(l5_peer(l5)->nregions);
}

/* Regions that an end may see: its own, and those of the other end */
#define L5_REGIONS_SEEN		(2 * L5_REGIONS_MAX)

struct l5_region *l5_region_new(struct l5_sock *l5, unsigned long npages,
				u32 access);
void l5_region_put(struct l5_region *r);
struct l5_region *l5_region_seek(struct l5_sock *l5, u32 number, u32 mask);
int l5_region_take(struct l5_sock *l5, u32 number, bool both);
u32 l5_region_areas(struct l5_sock *l5, struct l5_area *areas);
void l5_region_noted(struct l5_conn *conn, int end);
void l5_region_closed(struct l5_conn *conn, int end);
void l5_region_revoke(struct l5_conn *conn);

#endif /* L5_KMOD_REGION_H */
