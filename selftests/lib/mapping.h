/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A small user of mapped rings, for tests: what uapi/l5.h says a sender and a
 * receiver do, and nothing to make it fast.
 */
#ifndef MAPPING_H
#define MAPPING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "ends.h"
#include "l5_ring.h"
#include "../../kmod/areas.h"

#define MAP_PAGE	4096u

/* Far more than anything here needs: it only ends what hangs. */
#define MAP_LONG_MS	(40000 * l5_slow())

/* Wait, generously, for a condition; its last value. */
#define UNTIL(cond)	L5_UNTIL(cond, MAP_LONG_MS)

/**
 * struct mapping - one process's view of one end
 * @fd: the socket
 * @base: of an area with all regions and a hole before and after each
 * @len: the length of that area
 * @own: control page of this end
 * @peer: control page of the other end
 * @state: state page, the kernel's
 * @tx: data this end writes, twice
 * @rx: data it reads, twice
 * @tx_size: of the ring, not of the region
 * @rx_size: of the ring, not of the region
 * @id: for the lock words
 * @prod: cursors, under own->tx_lock
 * @cons: cursors, under own->rx_lock
 * @puts: records that mapping_put() published
 * @gets: times that mapping_get() took something
 * @bells: doorbells rung
 * @patience: how often to wait for a lock word that a process may have forged,
 *	0 for ever
 */
struct mapping {
	int fd;
	uint8_t *base;
	size_t len;
	struct l5_ctrl *own;
	const struct l5_ctrl *peer;
	const struct l5_map_state *state;
	uint8_t *tx;
	const uint8_t *rx;
	uint32_t tx_size;
	uint32_t rx_size;
	uint32_t id;
	struct l5_prod prod;
	struct l5_cons cons;
	unsigned long puts;
	unsigned long gets;
	unsigned long bells;
	int patience;
};

/* As many areas as anything here asks for */
#define MAP_AREAS	16

/* L5_IOC_MAP_INFO: 0 or -errno; the second also where things are. */
int mapping_info(int fd, struct l5_map_info *info);
int mapping_areas(int fd, struct l5_map_info *info,
		  struct l5_area area[MAP_AREAS]);

/* The area of a kind: NULL if there is none. */
const struct l5_area *mapping_area(const struct l5_map_info *info,
				   const struct l5_area *area, uint32_t kind);

/* Map all of an end: 0 or -errno. */
int mapping_open(struct mapping *m, int fd);
void mapping_close(struct mapping *m);

/*
 * Rings only, no system call but those that the lock words and doorbells need:
 * bytes moved; 0 if it cannot be done just now, or not this way; -1 with errno,
 * EPROTO if what is mapped makes no sense.
 */
ssize_t mapping_put(struct mapping *m, const void *buf, size_t len);
ssize_t mapping_get(struct mapping *m, void *buf, size_t len);

/* As send() and recv(), which do what the rings alone cannot. */
ssize_t mapping_send(struct mapping *m, const void *buf, size_t len, int flags);
ssize_t mapping_recv(struct mapping *m, void *buf, size_t len, int flags);

/* Wait, generously, for a flag of the state page. */
bool mapping_flag_comes(struct mapping *m, uint32_t flag);

/* The lock words: as l5_lock_try(), but waits; -1 with errno. */
int mapping_lock(struct mapping *m, int which);
void mapping_unlock(struct mapping *m, int which);

/* Have memory behind all of the ring that is written: 0 or -errno. */
int mapping_whole(struct mapping *m);

/* Header word at a position of the ring that is written. */
__u64 *mapping_slot(struct mapping *m, uint64_t pos);

/*
 * A connected pair of rings, by a listener that is closed again; by
 * socketpair(), and of SOCK_SEQPACKET, if @at is "packets".
 */
bool map_pair(const char *at, int *c, int *s);

/*
 * How tests of mappings begin: a namespace of their own, so that its counters
 * are theirs; rings of @ring_kb, which do not grow, however slow the machine
 * is; a pair. Without the module, l5_or_skip().
 */
bool map_begin(const char *at, long ring_kb, int fd[2]);

/* Replace the pair by the next. */
bool map_again(const char *at, int fd[2]);

/* Memory that children share. */
void *map_shared(size_t len);

/* Read or write a byte: 0, or the signal that this raises. */
int map_touch(const void *p, bool write);

#endif /* MAPPING_H */
