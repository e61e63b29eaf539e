// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5 between hosts: the ways as an administrator names them.
 *
 * A device is named as it is called at the time of the question, and belongs to
 * the namespace whose file the rule was written to. A device that sits on it, a
 * VLAN, a bond, a bridge, leads by it as well. A network is a way if the peer's
 * address is in it.
 */
#include <linux/inet.h>
#include <linux/kernel.h>
#include <linux/netdevice.h>
#include <linux/seq_file.h>
#include <linux/string.h>
#include <net/ipv6.h>

#include "way.h"

#define L5_V4_BITS	96	/* of an IPv6 address, before one of IPv4 */

static int l5_way_net(struct l5_way *w, char *text)
{
	char *bits = strchr(text, '/');
	struct in6_addr addr;
	u8 most = 128, n;

	if (bits)
		*bits++ = 0;
	w->kind = L5_WAY_NET;
	if (in4_pton(text, -1, (u8 *)&addr.s6_addr32[3], -1, NULL)) {
		ipv6_addr_set_v4mapped(addr.s6_addr32[3], &addr);
		w->v4 = true;
		most = 32;
	} else if (!in6_pton(text, -1, addr.s6_addr, -1, NULL)) {
		return -EINVAL;
	}
	n = most;
	if (bits && (kstrtou8(bits, 10, &n) || n > most))
		return -EINVAL;
	w->bits = n + (w->v4 ? L5_V4_BITS : 0);
	ipv6_addr_prefix(&w->addr, &addr, w->bits);
	return 0;
}

/**
 * l5_way_parse() - read text that names ways
 * @w: to be filled
 * @text: "dev NAME" or "net ADDRESS/BITS"; it is changed if it is one of these
 *
 * Return: 0, -ENOENT if the text is something else, -EINVAL.
 */
int l5_way_parse(struct l5_way *w, char *text)
{
	bool dev = !strncmp(text, "dev ", 4);

	memset(w, 0, sizeof(*w));
	if (!dev && strncmp(text, "net ", 4))
		return -ENOENT;
	text = skip_spaces(text + 4);
	if (!dev)
		return l5_way_net(w, text);
	w->kind = L5_WAY_DEV;
	if (!dev_valid_name(text))
		return -EINVAL;
	strscpy(w->dev, text, sizeof(w->dev));
	return 0;
}

/**
 * l5_way_show() - print a way as it is written
 * @seq: where to print
 * @w: the way
 */
void l5_way_show(struct seq_file *seq, const struct l5_way *w)
{
	if (w->kind == L5_WAY_DEV)
		seq_printf(seq, "dev %s\n", w->dev);
	else if (w->v4)
		seq_printf(seq, "net %pI4/%u\n", &w->addr.s6_addr32[3],
			   w->bits - L5_V4_BITS);
	else
		seq_printf(seq, "net %pI6c/%u\n", &w->addr, w->bits);
}

/**
 * l5_way_same() - do two name the same way?
 * @a: the one
 * @b: the other
 */
bool l5_way_same(const struct l5_way *a, const struct l5_way *b)
{
	return a->kind == b->kind && a->v4 == b->v4 && a->bits == b->bits &&
	       ipv6_addr_equal(&a->addr, &b->addr) && !strcmp(a->dev, b->dev);
}

/* The way that a walk through devices looks for. */
struct l5_way_sought {
	const struct l5_way *way;
	const struct net *net;
};

static int l5_way_by(struct net_device *dev, struct netdev_nested_priv *priv)
{
	const struct l5_way_sought *s = priv->data;

	return net_eq(dev_net(dev), s->net) && !strcmp(dev->name, s->way->dev);
}

/**
 * l5_way_is() - does a connection go this way?
 * @w: the way
 * @net: the namespace whose devices @w means
 * @dev: the device by which the connection's packets leave
 * @peer: the peer's address (one of IPv4 is mapped); NULL: by the device alone
 *
 * Context: RCU.
 */
bool l5_way_is(const struct l5_way *w, const struct net *net,
	       struct net_device *dev, const struct in6_addr *peer)
{
	struct l5_way_sought sought = { w, net };
	struct netdev_nested_priv priv = { .data = &sought };

	if (w->kind == L5_WAY_DEV)
		return l5_way_by(dev, &priv) ||
		       netdev_walk_all_lower_dev_rcu(dev, l5_way_by, &priv);
	return peer && w->v4 == ipv6_addr_v4mapped(peer) &&
	       ipv6_prefix_equal(peer, &w->addr, w->bits);
}
