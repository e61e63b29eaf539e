/* SPDX-License-Identifier: GPL-2.0 */
/* The files of a network namespace in /proc/net. */
#ifndef L5_PROC_H
#define L5_PROC_H

#include <linux/init.h>

struct net;

int l5_proc_init(struct net *net);
void l5_proc_exit(struct net *net);

#endif /* L5_PROC_H */
