// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5 between hosts: the RDMA devices, and the addresses that they speak for.
 *
 * A device says that by its GIDs. An adapter for RoCE has one for each address
 * of its network interface, and of the VLANs, bonds and bridges above it, each
 * with the interface that has the address. One for InfiniBand has that which
 * ends the hardware address of its IPoIB interface. rdma_cm goes by the same,
 * and has the last word: so what is found here is what it could take, and no
 * question is asked that it cannot.
 *
 * A device for iWARP speaks for nothing here. Its connection manager makes a
 * TCP connection to the port of the application, and listens there for such:
 * it would take the packets of clients that know nothing of RDMA.
 *
 * The list is read under RCU. A device that is about to go has left it, and all
 * who read it, before the callback of its removal returns.
 */
#include <linux/if_arp.h>
#include <linux/slab.h>

#include <rdma/ib_addr.h>
#include <rdma/ib_cache.h>

#include "rdma.h"

/**
 * struct l5_dev - a device that may carry connections
 * @node: in the list of all
 * @ib: the device
 */
struct l5_dev {
	struct list_head node;
	struct ib_device *ib;
};

static LIST_HEAD(l5_devs);
static DEFINE_SPINLOCK(l5_devs_lock);

static bool l5_dev_gid(struct ib_device *ib, u32 port, const union ib_gid *gid,
		       enum ib_gid_type type, struct net_device *ndev)
{
	const struct ib_gid_attr *attr;

	attr = rdma_find_gid_by_port(ib, gid, type, port, ndev);
	if (IS_ERR(attr))
		return false;
	rdma_put_gid_attr(attr);
	return true;
}

static bool l5_dev_port(struct ib_device *ib, u32 port,
			struct net_device *ndev, struct sockaddr *addr)
{
	union ib_gid gid;

	if (!rdma_cap_ib_cm(ib, port))
		return false;
	if (rdma_protocol_roce(ib, port)) {
		rdma_ip2gid(addr, &gid);
		/* the administrator chooses which of both rdma_cm takes */
		return ndev->type == ARPHRD_ETHER &&
		       (l5_dev_gid(ib, port, &gid, IB_GID_TYPE_ROCE_UDP_ENCAP,
				   ndev) ||
			l5_dev_gid(ib, port, &gid, IB_GID_TYPE_ROCE, ndev));
	}
	if (ndev->type != ARPHRD_INFINIBAND)
		return false;
	memcpy(&gid, ndev->dev_addr + 4, sizeof(gid));
	return l5_dev_gid(ib, port, &gid, IB_GID_TYPE_IB, NULL);
}

/* Does it speak for an address that an interface has? */
static bool l5_dev_speaks(const struct l5_dev *dev, struct net_device *ndev,
			  struct sockaddr *addr)
{
	u32 port;

	/* it may be another namespace's alone */
	if (!rdma_dev_access_netns(dev->ib, dev_net(ndev)))
		return false;
	rdma_for_each_port(dev->ib, port)
		if (l5_dev_port(dev->ib, port, ndev, addr))
			return true;
	return false;
}

static bool l5_rdma_speaks(struct net_device *ndev,
			   struct sockaddr_storage *addr)
{
	struct l5_dev *dev;

	list_for_each_entry_rcu(dev, &l5_devs, node)
		if (l5_dev_speaks(dev, ndev, (struct sockaddr *)addr))
			return true;
	return false;
}

/**
 * l5_rdma_reaches() - could RDMA carry a connection?
 * @sk: its bootstrap, which has a route
 *
 * It can if a device speaks for the own address on the interface that the route
 * leaves by. With no device in the host that costs one load.
 *
 * Context: any.
 */
bool l5_rdma_reaches(const struct sock *sk)
{
	struct sockaddr_storage own = { };
	const struct dst_entry *dst;
	bool reaches;

	if (list_empty(&l5_devs))
		return false;
	l5_door_addr(sk, &own, false);
	rcu_read_lock();
	dst = __sk_dst_get((struct sock *)sk);
	reaches = dst && l5_rdma_speaks(dst->dev, &own);
	rcu_read_unlock();
	return reaches;
}

static bool l5_dev_fits(struct ib_device *ib)
{
	u32 port;

	/* rings are regions of kernel memory, made by work requests */
	if (!(ib->attrs.device_cap_flags & IB_DEVICE_MEM_MGT_EXTENSIONS))
		return false;
	rdma_for_each_port(ib, port)
		if (rdma_cap_ib_cm(ib, port))
			return true;
	return false;
}

static struct ib_client l5_dev_client;

static int l5_dev_add(struct ib_device *ib)
{
	struct l5_dev *dev;

	if (!l5_dev_fits(ib))
		return -EOPNOTSUPP;
	dev = kzalloc(sizeof(*dev), GFP_KERNEL);
	if (!dev)
		return -ENOMEM;
	dev->ib = ib;
	ib_set_client_data(ib, &l5_dev_client, dev);
	spin_lock(&l5_devs_lock);
	list_add_tail_rcu(&dev->node, &l5_devs);
	spin_unlock(&l5_devs_lock);
	l5_door_kick();
	return 0;
}

static void l5_dev_remove(struct ib_device *ib, void *data)
{
	struct l5_dev *dev = data;

	spin_lock(&l5_devs_lock);
	list_del_rcu(&dev->node);
	spin_unlock(&l5_devs_lock);
	/* whoever found it there uses it no more */
	synchronize_rcu();
	kfree(dev);
}

static struct ib_client l5_dev_client = {
	.name	= "l5",
	.add	= l5_dev_add,
	.remove	= l5_dev_remove,
};

/**
 * l5_rdma_dev_init() - know the devices from now on
 *
 * Return: 0 or why not.
 */
int l5_rdma_dev_init(void)
{
	return ib_register_client(&l5_dev_client);
}

/**
 * l5_rdma_dev_exit() - and no more
 */
void l5_rdma_dev_exit(void)
{
	ib_unregister_client(&l5_dev_client);
}
