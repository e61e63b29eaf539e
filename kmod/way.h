/* SPDX-License-Identifier: GPL-2.0 */
/* Ways between hosts as an administrator names them. */
#ifndef L5_WAY_H
#define L5_WAY_H

#include <linux/if.h>
#include <linux/in6.h>
#include <linux/types.h>

struct net;
struct net_device;
struct seq_file;

enum l5_way_kind {
	L5_WAY_ANY,
	L5_WAY_DEV,
	L5_WAY_NET,
};

/**
 * struct l5_way - ways between hosts as an administrator names them
 * @kind: &enum l5_way_kind
 * @v4: a network of IPv4
 * @bits: of @addr that count
 * @addr: the network; one of IPv4 is mapped
 * @dev: the device's name
 */
struct l5_way {
	int kind;
	bool v4;
	u8 bits;
	struct in6_addr addr;
	char dev[IFNAMSIZ];
};

int l5_way_parse(struct l5_way *w, char *text);
void l5_way_show(struct seq_file *seq, const struct l5_way *w);
bool l5_way_same(const struct l5_way *a, const struct l5_way *b);
bool l5_way_is(const struct l5_way *w, const struct net *net,
	       struct net_device *dev, const struct in6_addr *peer);

#endif /* L5_WAY_H */
