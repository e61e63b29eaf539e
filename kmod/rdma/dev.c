// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5 between hosts: the RDMA devices, and the addresses that they speak for.
 *
 * A device speaks for the addresses that its GIDs stand for. An adapter for
 * RoCE has a GID for each address of its network interface, and of the VLANs,
 * bonds and bridges above it, each with the interface that has the address. An
 * adapter for InfiniBand has the GID that ends the hardware address of its
 * IPoIB interface. rdma_cm goes by the same GIDs, and has the last word: so the
 * addresses found here are those that it could take, and no question is asked
 * that it cannot.
 *
 * A device for iWARP speaks for no address here. Its connection manager makes a
 * TCP connection to the port of the application, and listens there for such
 * connections: it would take the packets of clients that know nothing of RDMA.
 *
 * The list is read under RCU. A device that is about to go has left the list,
 * and all its readers, before the callback of its removal returns.
 */
#include <linux/dma-map-ops.h>
#include <linux/if_arp.h>
#include <linux/inetdevice.h>
#include <linux/iommu.h>
#include <linux/slab.h>
#include <net/addrconf.h>
#include <net/if_inet6.h>

#include <rdma/ib_addr.h>
#include <rdma/ib_cache.h>

#include "rdma.h"

/**
 * struct l5_dev - a device that may carry connections
 * @node: in the list of all devices
 * @ib: the device
 * @handler: hears of its GIDs
 * @unfit: the device does not see this host's memory as it is
 */
struct l5_dev {
	struct list_head node;
	struct ib_device *ib;
	struct ib_event_handler handler;
	bool unfit;
};

/* Devices, or addresses that they speak for, have changed. */
static void (*l5_devs_changed)(void);

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
		/* the administrator chooses which of the two rdma_cm takes */
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

/* Does a device speak for an address that an interface has? */
static bool l5_dev_speaks(const struct l5_dev *dev, struct net_device *ndev,
			  struct sockaddr *addr)
{
	u32 port;

	/* the device may be another namespace's alone */
	if (READ_ONCE(dev->unfit) ||
	    !rdma_dev_access_netns(dev->ib, dev_net(ndev)))
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
 * It could if a device speaks for the own address on the interface that the
 * route leaves by. With no device in the host this costs one load.
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
	l5_rdma_addr(sk, &own, false);
	rcu_read_lock();
	dst = __sk_dst_get((struct sock *)sk);
	reaches = dst && l5_rdma_speaks(dst->dev, &own);
	rcu_read_unlock();
	return reaches;
}

/* Addresses of a namespace as they are found. */
struct l5_search {
	struct l5_place *to;
	int n;
	int max;
};

static void l5_place_add(struct l5_search *s, struct net_device *ndev,
			 struct sockaddr_storage *addr)
{
	if (s->n < s->max && l5_rdma_speaks(ndev, addr))
		s->to[s->n++] = (struct l5_place){ .addr = *addr,
						   .ifindex = ndev->ifindex };
}

static void l5_places_v4(struct l5_search *s, struct net_device *ndev)
{
	const struct in_device *in = __in_dev_get_rcu(ndev);
	const struct in_ifaddr *ifa;

	if (!in)
		return;
	in_dev_for_each_ifa_rcu(ifa, in) {
		struct sockaddr_storage addr = { .ss_family = AF_INET };

		((struct sockaddr_in *)&addr)->sin_addr.s_addr =
			ifa->ifa_local;
		l5_place_add(s, ndev, &addr);
	}
}

static void l5_places_v6(struct l5_search *s, struct net_device *ndev)
{
#if IS_ENABLED(CONFIG_IPV6)
	struct inet6_dev *in = __in6_dev_get(ndev);
	const struct inet6_ifaddr *ifa;

	if (!in)
		return;
	read_lock_bh(&in->lock);
	list_for_each_entry(ifa, &in->addr_list, if_list) {
		struct sockaddr_storage addr = { .ss_family = AF_INET6 };
		struct sockaddr_in6 *sin6 = (struct sockaddr_in6 *)&addr;

		sin6->sin6_addr = ifa->addr;
		sin6->sin6_scope_id = ipv6_iface_scope_id(&ifa->addr,
							  ndev->ifindex);
		l5_place_add(s, ndev, &addr);
	}
	read_unlock_bh(&in->lock);
#endif
}

/**
 * l5_rdma_places() - all addresses of a namespace that devices speak for
 * @net: the namespace
 * @to: filled in
 * @max: how many @to has room for
 *
 * Context: any.
 * Return: how many there are, or the first @max of them.
 */
int l5_rdma_places(struct net *net, struct l5_place *to, int max)
{
	struct l5_search s = { .to = to, .max = max };
	struct net_device *ndev;

	if (list_empty(&l5_devs))
		return 0;
	rcu_read_lock();
	for_each_netdev_rcu(net, ndev) {
		l5_places_v4(&s, ndev);
		l5_places_v6(&s, ndev);
	}
	rcu_read_unlock();
	return s.n;
}

/**
 * l5_rdma_place_of() - does this very device speak for an address?
 * @ib: the device, or a pointer to one that is gone: only compared
 * @net: namespace of the address
 * @place: the address
 *
 * Context: any.
 */
bool l5_rdma_place_of(const struct ib_device *ib, struct net *net,
		      struct l5_place *place)
{
	struct net_device *ndev;
	struct l5_dev *dev;
	bool speaks = false;

	rcu_read_lock();
	ndev = dev_get_by_index_rcu(net, place->ifindex);
	if (ndev)
		list_for_each_entry_rcu(dev, &l5_devs, node)
			if (dev->ib == ib)
				speaks = l5_dev_speaks(dev, ndev,
						       (struct sockaddr *)
						       &place->addr);
	rcu_read_unlock();
	return speaks;
}

/**
 * l5_rdma_coherent() - do a device and the CPU see the same memory?
 * @ib: the device
 * @dma: an address, as the device has it
 * @at: the physical address that it stands for
 *
 * A ring is used by the device and by processes at once, and neither says when
 * it is through. So there must be no bounce buffer in between, and no cache
 * that would have to be flushed. Behind an IOMMU some kernels say of any
 * mapping that it has to be flushed, so there the address is looked up.
 *
 * Context: any; @dma is mapped.
 */
bool l5_rdma_coherent(struct ib_device *ib, u64 dma, phys_addr_t at)
{
	struct device *dev = ib->dma_device;
	struct iommu_domain *domain;

	if (ib_uses_virt_dma(ib) || !dma_need_sync(dev, dma))
		return true;
	if (!dev_is_dma_coherent(dev))
		return false;
	domain = iommu_get_domain_for_dev(dev);
	return domain && iommu_is_dma_domain(domain) &&
	       iommu_iova_to_phys(domain, dma) == at;
}

/**
 * l5_rdma_unfit() - a device showed that it cannot carry connections
 * @ib: the device
 *
 * Context: any.
 */
void l5_rdma_unfit(const struct ib_device *ib)
{
	struct l5_dev *dev;

	rcu_read_lock();
	list_for_each_entry_rcu(dev, &l5_devs, node) {
		if (dev->ib != ib || READ_ONCE(dev->unfit))
			continue;
		WRITE_ONCE(dev->unfit, true);
		pr_warn("af_l5: %s does not see memory coherently: no RDMA by it\n",
			dev_name(&ib->dev));
		l5_devs_changed();
	}
	rcu_read_unlock();
}

static void l5_dev_event(struct ib_event_handler *handler,
			 struct ib_event *event)
{
	if (event->event == IB_EVENT_GID_CHANGE)
		l5_devs_changed();
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
	INIT_IB_EVENT_HANDLER(&dev->handler, ib, l5_dev_event);
	ib_set_client_data(ib, &l5_dev_client, dev);
	spin_lock(&l5_devs_lock);
	list_add_tail_rcu(&dev->node, &l5_devs);
	spin_unlock(&l5_devs_lock);
	ib_register_event_handler(&dev->handler);
	l5_devs_changed();
	return 0;
}

static void l5_dev_remove(struct ib_device *ib, void *data)
{
	struct l5_dev *dev = data;

	ib_unregister_event_handler(&dev->handler);
	spin_lock(&l5_devs_lock);
	list_del_rcu(&dev->node);
	spin_unlock(&l5_devs_lock);
	/* a reader that found the device in the list uses it no more */
	synchronize_rcu();
	kfree(dev);
	l5_devs_changed();
}

static struct ib_client l5_dev_client = {
	.name	= "l5",
	.add	= l5_dev_add,
	.remove	= l5_dev_remove,
};

/*
 * An interface has got or lost an address. For RoCE the GIDs tell of that,
 * later; of other interfaces but InfiniBand's it does not matter.
 */
static void l5_dev_addr_changed(const struct net_device *ndev)
{
	if (ndev->type == ARPHRD_INFINIBAND && !list_empty(&l5_devs))
		l5_devs_changed();
}

static int l5_dev_inet_event(struct notifier_block *nb, unsigned long event,
			     void *data)
{
	const struct in_ifaddr *ifa = data;

	l5_dev_addr_changed(ifa->ifa_dev->dev);
	return NOTIFY_DONE;
}

static int l5_dev_inet6_event(struct notifier_block *nb, unsigned long event,
			      void *data)
{
	const struct inet6_ifaddr *ifa = data;

	l5_dev_addr_changed(ifa->idev->dev);
	return NOTIFY_DONE;
}

static struct notifier_block l5_dev_inet = {
	.notifier_call = l5_dev_inet_event,
};

static struct notifier_block l5_dev_inet6 = {
	.notifier_call = l5_dev_inet6_event,
};

/**
 * l5_rdma_dev_init() - know the devices from now on
 * @changed: called when devices, or addresses that they speak for, change, in
 *	any context, until l5_rdma_dev_exit() is back
 *
 * Return: 0 or why not; @changed may have been called in either case.
 */
int l5_rdma_dev_init(void (*changed)(void))
{
	int err;

	l5_devs_changed = changed;
	err = ib_register_client(&l5_dev_client);
	if (err)
		return err;
	register_inetaddr_notifier(&l5_dev_inet);
	register_inet6addr_notifier(&l5_dev_inet6);
	return 0;
}

/**
 * l5_rdma_dev_exit() - know the devices no more
 */
void l5_rdma_dev_exit(void)
{
	unregister_inet6addr_notifier(&l5_dev_inet6);
	unregister_inetaddr_notifier(&l5_dev_inet);
	ib_unregister_client(&l5_dev_client);
}
