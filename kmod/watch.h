/* SPDX-License-Identifier: GPL-2.0 */
/* Processes that want to hear when they close a descriptor. */
#ifndef L5_WATCH_H
#define L5_WATCH_H

#include "l5.h"

int l5_watch(struct l5_sock *l5, void __user *arg);

#endif /* L5_WATCH_H */
