/* SPDX-License-Identifier: GPL-2.0 */
/* The sysctls of a network namespace. */
#ifndef L5_SYSCTL_H
#define L5_SYSCTL_H

#include <linux/init.h>

struct l5_net;
struct net;

int l5_sysctl_init(struct net *net, struct l5_net *ln);
void l5_sysctl_exit(struct l5_net *ln);

#endif /* L5_SYSCTL_H */
