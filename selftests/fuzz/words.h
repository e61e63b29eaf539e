/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Hostile words for mapped memory: some are garbage, most are next to what is
 * right there.
 */
#ifndef FZ_WORDS_H
#define FZ_WORDS_H

#include <stddef.h>
#include <stdint.h>

#include "l5.h"
#include "l5_ring.h"

/**
 * struct fz_view - what is mapped of an end; NULL if not
 * @own: its control page
 * @peer: the other end's
 * @tx: data that it writes, perhaps twice
 * @tx_len: bytes mapped there
 */
struct fz_view {
	struct l5_ctrl *own;
	const struct l5_ctrl *peer;
	uint8_t *tx;
	size_t tx_len;
};

/*
 * One word: an &enum fz_where, an &enum fz_word, chance. Once, or the same one
 * until @stop says so. May fault.
 */
long fz_poke(struct fz_view *v, uint32_t where, uint32_t what, uint64_t chance,
	     const bool *stop);

/* @n records of @len bytes, after an empty one if @empty, and the tail */
long fz_flood(struct fz_view *v, uint32_t n, uint32_t len, bool on, bool empty);

#endif /* FZ_WORDS_H */
