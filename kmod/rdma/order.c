// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5 between hosts: which ways to publish a record are safe for an end.
 *
 * A reader polls the header word of the next record, and takes it that the
 * bytes behind the word are there once the word is. That is true only if the
 * reader's device writes in such an order, and only the reader's host can know
 * that. No sender can: two WRITEs leave its device in order and arrive in
 * order, and then cross the reader's PCI bus. There mlx5 marks its writes into
 * a kernel's region of the fast registration kind as relaxed:
 * mlx5_set_umr_free_mkey() sets that in 6.1 where the bus allows it and in 6.12
 * always, and no REG_MR takes it back. Then the header can overtake its record,
 * and a mailbox's byte can overtake both.
 *
 * A completion orders with each device: bytes written before it are there when
 * it is polled. So immediate data is safe, since by its completion the kernel
 * writes the header and the byte, and so is a SEND, which the kernel copies.
 * Within one WRITE nothing orders, by the specification; not even with a device
 * that is software, whose memcpy() may write from the end or by a string
 * instruction that stores in any order.
 *
 * So each end states in the hello, where the seal covers it, in which ways
 * records may be sent to it; the other end sends in such a way, whatever its
 * administrator prefers. Both come to the same result by the same rule,
 * l5_order_way().
 */
#include "rdma.h"

#define L5_SAFE_ALWAYS	BIT(L5_NOTIFY_IMM)

/*
 * Is the second of two WRITEs seen after the first? That is known of a device
 * that is a CPU of this host, if such a CPU's stores are seen in their order.
 */
static u8 l5_order_known(const struct ib_device *dev)
{
	u8 safe = L5_SAFE_ALWAYS | BIT(L5_NOTIFY_SEND);

	if (IS_ENABLED(CONFIG_X86) && l5_rdma_software(dev))
		safe |= BIT(L5_NOTIFY_TWO);
	return safe;
}

/**
 * l5_order_safe() - find the ways that are safe for records sent to an end
 * @rd: of this end, whose @id has a device
 *
 * They follow from what is known of the device, or from net.l5.rdma_safe.
 * Receives that have room for the bytes of a SEND are posted before a client
 * knows how its server sends: so a client takes SENDs only if it sends them
 * itself.
 *
 * Return: bits by L5_NOTIFY_*.
 */
u8 l5_order_safe(const struct l5_rdma *rd)
{
	u8 safe = READ_ONCE(rd->far.ln->rdma_safe);

	safe = safe ? safe | L5_SAFE_ALWAYS : l5_order_known(rd->id->device);
	if (!l5_far_asked(&rd->far) && rd->far.notify != L5_NOTIFY_SEND)
		safe &= ~BIT(L5_NOTIFY_SEND);
	return safe;
}

/**
 * l5_order_way() - how an end publishes
 * @wish: L5_NOTIFY_* that the end would like
 * @safe: the ways that the other end has stated
 */
u8 l5_order_way(u8 wish, u8 safe)
{
	return safe & BIT(wish) ? wish : L5_NOTIFY_IMM;
}

/**
 * l5_order_valid() - can the statement of a peer be obeyed?
 * @hello: the hello that came, not trusted
 */
bool l5_order_valid(const struct l5_hello *hello)
{
	return hello->notify <= L5_NOTIFY_SEND &&
	       (hello->safe & L5_SAFE_ALWAYS) == L5_SAFE_ALWAYS;
}

/**
 * l5_order_agree() - both ends have stated what is safe for them
 * @rd: of this end, which knows the peer's hello
 */
void l5_order_agree(struct l5_rdma *rd)
{
	rd->far.notify = l5_order_way(rd->far.notify, rd->hello.safe);
	rd->far.peer_notify = l5_order_way(rd->hello.notify, rd->safe);
}
