/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A connection in a memfd, without AF_L5: for tests and measurements of the
 * rings on a machine that has no module. The callers do with futexes what the
 * kernel would do. Not part of the library.
 */
#ifndef L5_NATIVE_H
#define L5_NATIVE_H

#include "map.h"

/**
 * struct l5_native - a process's whole view of such a connection
 * @fd: the memfd, for other processes
 * @size: of each ring
 * @ctrl: control pages
 * @state: what the "kernel" says to each end
 * @data: of the ring that each end writes, once
 * @messages: what is mapped from now on has messages for records
 * @len: of all
 */
struct l5_native {
	int fd;
	uint32_t size;
	struct l5_ctrl *ctrl[2];
	struct l5_map_state *state[2];
	uint8_t *data[2];
	bool messages;
	size_t len;
};

/* A new connection, or another process's: NULL with errno. */
struct l5_native *l5_native_new(uint32_t size);
struct l5_native *l5_native_open(int fd);
void l5_native_free(struct l5_native *k);

/* Map end 0 or 1; @id as of &struct l5_map_mem. For l5_native_unmap() only. */
struct l5_map *l5_native_map(struct l5_native *k, int end, uint32_t id);
void l5_native_unmap(struct l5_map *m);

/*
 * Sleep until there may be data, or room: as recv() and send() do in the
 * kernel. False after @ms without, -1 for ever.
 */
bool l5_native_sleep_rx(struct l5_map *m, int ms);
bool l5_native_sleep_tx(struct l5_map *m, int ms);

/* Set L5_MAP_* for an end, and wake it. */
void l5_native_flag(struct l5_native *k, int end, uint32_t flags);

/* Mapping @id of an end is no more: what the kernel does when a process dies */
void l5_native_died(struct l5_native *k, int end, uint32_t id);

/* Blocking send and receive of all of it, as a program would; false if ended */
bool l5_native_send(struct l5_map *m, const void *buf, size_t len);
bool l5_native_recv(struct l5_map *m, void *buf, size_t len);

#endif /* L5_NATIVE_H */
