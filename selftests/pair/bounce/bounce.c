// SPDX-License-Identifier: GPL-2.0
/*
 * An adapter that the CPU shares no memory with: as long as this is loaded, a
 * device of rxe that is made gets its DMA addresses from the PCI device below
 * eth0, and with swiotlb=force these are of bounce buffers. rxe goes on to take
 * them for the kernel's own addresses, so it must not send or receive anything:
 * the module has to look at the addresses before.
 */
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <net/net_namespace.h>
#include <rdma/ib_verbs.h>

static struct device *bounce_dev;

/* ib_register_device(device, name, dma_device) */
static int bounce_register(struct kprobe *p, struct pt_regs *regs)
{
	const struct ib_device *ib = (void *)regs_get_kernel_argument(regs, 0);

#ifdef CONFIG_X86_64
	if (ib->ops.driver_id == RDMA_DRIVER_RXE)
		regs->dx = (unsigned long)bounce_dev;
#endif
	return 0;
}

static struct kprobe bounce_probe = {
	.symbol_name = "ib_register_device",
	.pre_handler = bounce_register,
};

static int __init bounce_init(void)
{
	struct net_device *dev = dev_get_by_name(&init_net, "eth0");
	int err;

	if (!dev)
		return -ENODEV;
	/* of virtio, whose parent is of PCI */
	if (dev->dev.parent)
		bounce_dev = get_device(dev->dev.parent->parent);
	dev_put(dev);
	if (!bounce_dev || !bounce_dev->dma_mask)
		err = -ENODEV;
	else
		err = register_kprobe(&bounce_probe);
	if (err)
		put_device(bounce_dev);
	return err;
}

static void __exit bounce_exit(void)
{
	unregister_kprobe(&bounce_probe);
	put_device(bounce_dev);
}

module_init(bounce_init);
module_exit(bounce_exit);
MODULE_DESCRIPTION("rxe with bounce buffers");
MODULE_LICENSE("GPL");
