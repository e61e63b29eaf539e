// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5 between hosts: which ways to publish a record are safe for an end.
 *
 * A reader polls the header word of the next record, and takes the bytes behind
 * it for there once it is. What makes that true is the order in which the
 * reader's device writes, and only the reader's host can know that. No sender
 * can: two WRITEs leave its device in order and arrive so, and then cross the
 * reader's PCI bus, where mlx5 marks what it writes into a kernel's region of
 * the fast registration kind as relaxed: mlx5_set_umr_free_mkey() sets that in
 * 6.1 where the bus allows it and in 6.12 always, and no REG_MR takes it back.
 * Then the header can overtake its record, and a mailbox's byte both.
 *
 * A completion orders with each device: what was written before it is there
 * when it is polled. So immediate data is safe, whose completion has the kernel
 * write the header and the byte, and so is a SEND, which the kernel copies.
 * Within one WRITE nothing orders, by the specification; not even with a device
 * that is software, whose memcpy() may write from the end or by a string
 * instruction that stores in any order.
 *
 * So each end states what may be sent to it, in the hello, where the seal
 * covers it; the other sends so, whatever its administrator prefers. Both come
 * to the same result by the same rule, l5_order_way().
 */
#include "rdma.h"

#define L5_SAFE_ALWAYS	BIT(L5_NOTIFY_IMM)

/*
 * Of two WRITEs the second is seen after the first: known of a device that is
 * a CPU of this host, if such a CPU's stores are seen in their order.
 */
static u8 l5_order_known(const struct ib_device *dev)
{
	u8 safe = L5_SAFE_ALWAYS | BIT(L5_NOTIFY_SEND);

	if (IS_ENABLED(CONFIG_X86) && l5_rdma_software(dev))
		safe |= BIT(L5_NOTIFY_TWO);
	return safe;
}

/**
 * l5_order_safe() - the ways that are safe for what is sent to an end
 * @rd: of this end, whose @id has a device
 *
 * By what is known of the device, or as net.l5.rdma_safe says. Receives that
 * have room for the bytes of a SEND are posted before a client knows how its
 * server sends: so it takes them only if it sends them.
 *
 * Return: bits by L5_NOTIFY_*.
 */
u8 l5_order_safe(const struct l5_rdma *rd)
{
	u8 safe = READ_ONCE(rd->ln->rdma_safe);

	safe = safe ? safe | L5_SAFE_ALWAYS : l5_order_known(rd->id->device);
	if (!rd->server && rd->notify != L5_NOTIFY_SEND)
		safe &= ~BIT(L5_NOTIFY_SEND);
	return safe;
}

/**
 * l5_order_way() - how an end publishes
 * @wish: L5_NOTIFY_* that it would like
 * @safe: what the other end has stated
 */
u8 l5_order_way(u8 wish, u8 safe)
{
	return safe & BIT(wish) ? wish : L5_NOTIFY_IMM;
}

/**
 * l5_order_valid() - can what a peer has stated be obeyed?
 * @hello: that came, not trusted
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
	rd->notify = l5_order_way(rd->notify, rd->hello.safe);
	rd->peer_notify = l5_order_way(rd->hello.notify, rd->safe);
}
