/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Taking a lock word of a mapped end the long way, and giving it back: for the
 * code that moves bytes.
 */
#ifndef L5_LOCK_H
#define L5_LOCK_H

#include "held.h"
#include "mapped.h"

/**
 * struct l5_guard - a lock word that a call has
 * @held: where that is noted
 * @frame: of the call
 * @prod: of L5_LOCK_TX, the call's own copy of the cursors
 * @cons: of L5_LOCK_RX, likewise
 *
 * A process that shares the end may write to the word, so that two threads have
 * it at a time. Then the bytes are anything, but each thread still has cursors
 * that it has checked, and stays within the rings.
 */
struct l5_guard {
	struct l5_held *held;
	uintptr_t frame;
	union {
		struct l5_prod prod;
		struct l5_cons cons;
	};
};

/**
 * l5_hold() - note that this thread has a lock word, or will have
 * @key: of the word
 * @frame: of the call
 *
 * Return: for l5_unhold(), or NULL if more calls interrupt each other than can
 * be noted.
 */
struct l5_held *l5_hold(uint64_t key, uintptr_t frame);
void l5_unhold(struct l5_held *h);

/**
 * l5_map_lock() - take a lock word, and load the cursors that it guards
 * @m: the end
 * @fd: its socket
 * @which: L5_LOCK_TX or L5_LOCK_RX
 * @g: with its frame; it gets the cursors, and is for l5_map_unlock()
 *
 * Return: 0; or L5_TRY_NESTED, _BUSY or _BROKEN, and the word is not taken.
 */
int l5_map_lock(struct l5_map *m, int fd, unsigned int which,
		struct l5_guard *g);

/**
 * l5_map_leave() - keep the cursors for the next call
 * @m: the end
 * @which: L5_LOCK_TX or L5_LOCK_RX
 * @g: of l5_map_lock()
 */
void l5_map_leave(struct l5_map *m, unsigned int which,
		  const struct l5_guard *g);

/**
 * l5_map_unlock() - give it back
 * @m: the end
 * @fd: its socket
 * @which: L5_LOCK_TX or L5_LOCK_RX
 * @g: of l5_map_lock()
 */
void l5_map_unlock(struct l5_map *m, int fd, unsigned int which,
		   const struct l5_guard *g);

/**
 * l5_map_broken() - the ring makes no sense
 * @m: the end
 * @fd: its socket
 *
 * Return: L5_TRY_BROKEN if that is the peer's doing, or L5_TRY_ASK if the
 * memory was taken back.
 */
int l5_map_broken(struct l5_map *m, int fd);

#endif /* L5_LOCK_H */
