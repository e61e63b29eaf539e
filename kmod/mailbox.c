// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: the mailbox of a listener (Fent et al., ICDE 2020, section V-C).
 *
 * A server with many clients would have to look at each one's ring. Instead the
 * last WRITE of a record sets a byte: one for each connection, close together,
 * so that one cache line shows 64 clients. The device may write the one byte
 * of its connection there and nothing else, by a region of that length.
 *
 * For connections in shared memory there is none: the peer would need a view of
 * the page that it can write, and then every client could clear the bytes of
 * all others. The ring's own header word says the same there at no cost to who
 * sends.
 */
#include <linux/bitmap.h>
#include <linux/mm.h>
#include <linux/refcount.h>
#include <linux/slab.h>

#include "rdma.h"

#define L5_MAILBOX_PAGES	(L5_MAILBOX_SIZE >> PAGE_SHIFT)

/**
 * struct l5_mailbox - a page of bytes
 * @ref: see rdma.h
 * @page: itself; who has it mapped has it by itself
 * @lock: guards @used
 * @used: bytes that are some connection's
 */
struct l5_mailbox {
	refcount_t ref;
	struct page *page;
	spinlock_t lock;
	DECLARE_BITMAP(used, L5_MAILBOX_SIZE);
};

/**
 * l5_mailbox_get() - the mailbox for a connection that is being accepted
 * @listener: by this
 *
 * Return: with a reference, or NULL if nobody has ever mapped it.
 */
struct l5_mailbox *l5_mailbox_get(struct l5_sock *listener)
{
	/* Z, pairs with l5_mailbox_mmap() */
	struct l5_mailbox *box = smp_load_acquire(&listener->mailbox);

	if (box)
		refcount_inc(&box->ref);
	return box;
}

void l5_mailbox_put(struct l5_mailbox *box)
{
	if (!refcount_dec_and_test(&box->ref))
		return;
	put_page(box->page);
	kfree(box);
}

/**
 * l5_mailbox_get_slot() - a byte for a connection, if one is free
 * @rd: whose mailbox is known; gives it up if none is
 */
void l5_mailbox_get_slot(struct l5_rdma *rd)
{
	struct l5_mailbox *box = rd->mailbox;
	u8 *bytes = page_address(box->page);
	unsigned long n;

	spin_lock(&box->lock);
	n = find_first_zero_bit(box->used, L5_MAILBOX_SIZE);
	if (n < L5_MAILBOX_SIZE) {
		__set_bit(n, box->used);
		rd->slot_no = n;
		/* what its last owner left says nothing about this one */
		WRITE_ONCE(bytes[n], 0);
	}
	spin_unlock(&box->lock);
	if (rd->slot_no < 0) {
		rd->mailbox = NULL;
		l5_mailbox_put(box);
	}
}

/**
 * l5_mailbox_put_slot() - a connection needs its byte no more
 * @rd: whose device does not know it any more
 */
void l5_mailbox_put_slot(struct l5_rdma *rd)
{
	struct l5_mailbox *box = rd->mailbox;

	if (!box)
		return;
	if (rd->slot_no >= 0) {
		/* the last thing to be seen there is that it ended */
		WRITE_ONCE(((u8 *)page_address(box->page))[rd->slot_no], 1);
		spin_lock(&box->lock);
		__clear_bit(rd->slot_no, box->used);
		spin_unlock(&box->lock);
	}
	rd->mailbox = NULL;
	l5_mailbox_put(box);
}

struct page *l5_mailbox_page(struct l5_mailbox *box)
{
	return box->page;
}

/**
 * l5_mailbox_set() - say that something has come, in place of the peer
 * @rd: where
 */
void l5_mailbox_set(struct l5_rdma *rd)
{
	struct l5_mailbox *box = READ_ONCE(rd->mailbox);
	u8 *byte;

	if (!box || rd->slot_no < 0)
		return;
	byte = (u8 *)page_address(box->page) + rd->slot_no;
	/*
	 * Of a queue pair that is alive, so is this. A once more: the record,
	 * then the byte; pairs with who takes the byte and then looks for B.
	 */
	smp_store_release(byte, 1);
}

static struct l5_mailbox *l5_mailbox_make(void)
{
	struct l5_mailbox *box = kzalloc(sizeof(*box), GFP_KERNEL_ACCOUNT);

	if (!box)
		return NULL;
	BUILD_BUG_ON(L5_MAILBOX_SIZE > PAGE_SIZE);
	box->page = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	if (!box->page) {
		kfree(box);
		return NULL;
	}
	refcount_set(&box->ref, 1);
	spin_lock_init(&box->lock);
	return box;
}

/**
 * l5_mailbox_mmap() - map the mailbox of a listener
 * @l5: the socket
 * @vma: as l5_mmap() got it
 *
 * Context: mmap_lock held for writing.
 * Return: 0, -EOPNOTSUPP if it does not answer for RDMA, -EINVAL, -EACCES,
 * -ENOMEM.
 */
int l5_mailbox_mmap(struct l5_sock *l5, struct vm_area_struct *vma)
{
	struct l5_mailbox *box, *mine;

	if (l5_state(l5) != L5_LISTEN)
		return -EINVAL;
	if (!READ_ONCE(l5->door))
		return -EOPNOTSUPP;
	if (!(vma->vm_flags & VM_SHARED) ||
	    vma->vm_end - vma->vm_start != L5_MAILBOX_SIZE)
		return -EINVAL;
	if (vma->vm_flags & VM_EXEC)
		return -EACCES;
	box = smp_load_acquire(&l5->mailbox);
	if (!box) {
		mine = l5_mailbox_make();
		if (!mine)
			return -ENOMEM;
		/* Z: whole, then there */
		box = cmpxchg_release(&l5->mailbox, NULL, mine);
		if (box)
			l5_mailbox_put(mine);
		else
			box = mine;
	}
	/* as for rings: nothing of this keeps the socket, or goes to a child */
	l5_vm_flags(vma, VM_MIXEDMAP | VM_DONTEXPAND | VM_DONTDUMP |
		    VM_DONTCOPY, VM_MAYEXEC);
	return l5_map_lone_page(vma, box->page);
}

/**
 * l5_mailbox_release() - the listener is gone
 * @l5: it, or any other socket
 */
void l5_mailbox_release(struct l5_sock *l5)
{
	if (l5->mailbox)
		l5_mailbox_put(l5->mailbox);
	l5->mailbox = NULL;
}

/**
 * l5_rdma_mailbox() - the byte of a connection, as L5_IOC_MAP_INFO says it
 * @l5: a socket with rings
 */
u32 l5_rdma_mailbox(const struct l5_sock *l5)
{
	return l5->conn->rdma ? l5->conn->rdma->slot_no + 1 : 0;
}
