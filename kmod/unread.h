/* SPDX-License-Identifier: GPL-2.0 */
/* How many bytes of a ring are not read yet. */
#ifndef L5_UNREAD_H
#define L5_UNREAD_H

#include "l5.h"

size_t l5_ring_count(struct l5_sock *l5, int end, size_t enough);
bool l5_ring_holds(struct l5_sock *l5, size_t n);
void l5_send_unread(struct l5_sock *l5);

#endif /* L5_UNREAD_H */
