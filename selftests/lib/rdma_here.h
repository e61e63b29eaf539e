/* SPDX-License-Identifier: GPL-2.0 */
/* RDMA on one machine: a software device whose own address is connected to. */
#ifndef RDMA_HERE_H
#define RDMA_HERE_H

#include <stdbool.h>

#define RDMA_HERE	"10.9.0.1"

/*
 * Make the device if there is none yet, and let nothing be too slow for RDMA.
 * False where that cannot be done.
 */
bool rdma_here(void);

#endif /* RDMA_HERE_H */
