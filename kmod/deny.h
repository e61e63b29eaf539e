/* SPDX-License-Identifier: GPL-2.0 */
/* Rules of an administrator that deny sockets rings, or RDMA. */
#ifndef L5_DENY_H
#define L5_DENY_H

#include "l5.h"

bool l5_denied(const struct l5_sock *l5);
bool l5_denied_rdma(const struct l5_sock *l5);
bool l5_denied_way(const struct net *net, struct net_device *dev,
		   const struct in6_addr *peer);
int l5_deny_write(struct file *file, char *buf, size_t size);
int l5_deny_show(struct seq_file *seq, void *v);
void l5_deny_init(struct l5_net *ln);
void l5_deny_exit(struct l5_net *ln);

#endif /* L5_DENY_H */
