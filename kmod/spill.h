/* SPDX-License-Identifier: GPL-2.0 */
/* Rings that a device writes, and what their reader keeps beside them. */
#ifndef L5_SPILL_H
#define L5_SPILL_H

#include "l5.h"

u32 l5_ring_wire(const struct l5_end *ring);
int l5_ring_spill(struct l5_sock *l5, u64 told, u32 low, u64 *to);
int l5_ring_unspill(struct l5_sock *l5);
void l5_spill_free(struct l5_end *ring);

#endif /* L5_SPILL_H */
