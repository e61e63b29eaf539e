/* SPDX-License-Identifier: GPL-2.0 */
/* RDMA on one machine: a software device whose own address is connected to. */
#ifndef RDMA_HERE_H
#define RDMA_HERE_H

#include <stdbool.h>

#include "l5test.h"

#define RDMA_HERE	"10.9.0.1"

/*
 * Make the device if there is none yet, and let nothing be too slow for RDMA.
 * False where that cannot be done.
 */
bool rdma_here(void);

/* Let a socket take RDMA or nothing; and a new one of AF_INET. -1: not so. */
int rdma_force(int fd);
int rdma_socket(void);

/* Far more than it takes until a connection in use has moved */
#define RDMA_MOVE_MS	(30000 * l5_slow())

/* Until RDMA has a socket's connection, by no call that is counted. */
bool rdma_moved(int fd);
bool rdma_moved_in(int fd, int ms);

#endif /* RDMA_HERE_H */
