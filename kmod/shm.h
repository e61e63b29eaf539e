/* SPDX-License-Identifier: GPL-2.0 */
/* The link of two ends on one host. */
#ifndef L5_SHM_H
#define L5_SHM_H

#include "l5.h"

extern const struct l5_link_ops l5_shm_link;

void l5_shm_published(struct l5_conn *conn, int end);
void l5_shm_freed(struct l5_sock *l5);

#endif /* L5_SHM_H */
