/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What only the kernel can do for a mapped end.
 */
#ifndef L5_OPS_H
#define L5_OPS_H

#include "mapped.h"

/* For an end whose socket is one of the kernel's. */
extern const struct l5_map_ops l5_kernel_ops
	__attribute__((visibility("hidden")));

#endif /* L5_OPS_H */
