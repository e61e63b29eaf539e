// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: the transports to other hosts, in the order in which they are asked.
 * Another one is one more line here, and its files in Kbuild.
 */
#include "rdma.h"

const struct l5_transport_ops *const l5_transports[] = {
	&l5_rdma_transport,
	NULL
};
