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
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/refcount.h>
#include <linux/slab.h>

#include "rdma.h"

/**
 * struct l5_mailbox - a page of bytes
 * @ref: see rdma.h
 * @page: itself
 * @lock: guards @used
 * @views: the files of its mappings, under @map_lock
 * @revoked: they are not to have the page any more, likewise
 * @map_lock: see l5.h
 * @used: bytes that are some connection's
 */
struct l5_mailbox {
	refcount_t ref;
	struct page *page;
	spinlock_t lock;
	struct list_head views;
	bool revoked;
	struct mutex map_lock;
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

/* The byte may be another connection's. */
static void l5_mailbox_free_slot(struct l5_rdma *rd)
{
	struct l5_mailbox *box = xchg(&rd->mailbox, NULL);

	if (!box)
		return;
	if (rd->slot_no >= 0) {
		spin_lock(&box->lock);
		__clear_bit(rd->slot_no, box->used);
		spin_unlock(&box->lock);
	}
	l5_mailbox_put(box);
}

/**
 * l5_mailbox_put_slot() - a connection's device does not know its byte any more
 * @rd: the connection, which is over
 *
 * A program that was told the number of the byte goes by it until it closes the
 * socket: until then it is nobody else's, whose records the program would take
 * for this connection's.
 *
 * Context: may sleep.
 */
void l5_mailbox_put_slot(struct l5_rdma *rd)
{
	struct l5_mailbox *box = rd->mailbox;
	u8 *bytes;
	bool told;

	if (!box)
		return;
	bytes = page_address(box->page);
	/*
	 * The last thing to be seen there is that it ended. AR, pairs with BB:
	 * that it is over, and all that came before, then the byte.
	 */
	if (rd->slot_no >= 0)
		smp_store_release(&bytes[rd->slot_no], 1);
	spin_lock_bh(&rd->lock);
	rd->box_over = true;
	told = rd->l5 && (l5_state(rd->l5) == L5_MOVING ||
			  l5_state(rd->l5) == L5_SHM);
	spin_unlock_bh(&rd->lock);
	if (!told)
		l5_mailbox_free_slot(rd);
}

/**
 * l5_mailbox_leave() - no program goes by a connection's byte any more
 * @rd: the connection, which has no socket any more
 *
 * Context: process.
 */
void l5_mailbox_leave(struct l5_rdma *rd)
{
	bool over;

	spin_lock_bh(&rd->lock);
	over = rd->box_over;
	spin_unlock_bh(&rd->lock);
	/* else the device may write there yet */
	if (over)
		l5_mailbox_free_slot(rd);
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
	box->page = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	if (!box->page) {
		kfree(box);
		return NULL;
	}
	refcount_set(&box->ref, 1);
	spin_lock_init(&box->lock);
	INIT_LIST_HEAD(&box->views);
	mutex_init(&box->map_lock);
	return box;
}

/**
 * struct l5_mailbox_view - a mapping of a mailbox
 * @view: its file, which owns this; in l5_mailbox.views
 * @box: the mailbox, with a reference
 */
struct l5_mailbox_view {
	struct l5_view view;
	struct l5_mailbox *box;
};

static vm_fault_t l5_mailbox_fault(struct vm_fault *vmf)
{
	struct l5_mailbox_view *v = vmf->vma->vm_file->private_data;
	struct l5_mailbox *box = v->box;
	vm_fault_t ret;

	mutex_lock(&box->map_lock);
	if (box->revoked)
		ret = l5_view_scratch(&v->view, vmf, 0);
	else
		ret = vmf_insert_page(vmf->vma, vmf->address, box->page);
	mutex_unlock(&box->map_lock);
	return ret;
}

static const struct vm_operations_struct l5_mailbox_vm_ops = {
	.fault		= l5_mailbox_fault,
	.may_split	= l5_map_split,
	.mremap		= l5_map_mremap,
};

static int l5_mailbox_view_release(struct inode *inode, struct file *file)
{
	struct l5_mailbox_view *v = file->private_data;

	mutex_lock(&v->box->map_lock);
	list_del(&v->view.node);
	mutex_unlock(&v->box->map_lock);
	l5_mailbox_put(v->box);
	l5_view_close(&v->view);
	kfree(v);
	return 0;
}

static const struct file_operations l5_mailbox_fops = {
	.owner		= THIS_MODULE,
	.release	= l5_mailbox_view_release,
	.llseek		= noop_llseek,
};

static struct l5_mailbox_view *l5_mailbox_view(struct l5_mailbox *box)
{
	struct l5_mailbox_view *v = kzalloc(sizeof(*v), GFP_KERNEL_ACCOUNT);
	int err;

	if (!v)
		return ERR_PTR(-ENOMEM);
	err = l5_view_open(&v->view, &l5_mailbox_fops, v);
	if (err) {
		kfree(v);
		return ERR_PTR(err);
	}
	refcount_inc(&box->ref);
	v->box = box;
	mutex_lock(&box->map_lock);
	list_add(&v->view.node, &box->views);
	mutex_unlock(&box->map_lock);
	return v;
}

/**
 * l5_mailbox_revoke() - take a mailbox out of all processes, for good
 * @l5: a listener, or any other socket
 *
 * Context: process, while @l5 cannot be released.
 */
void l5_mailbox_revoke(struct l5_sock *l5)
{
	/* Z, as l5_mailbox_get() */
	struct l5_mailbox *box = smp_load_acquire(&l5->mailbox);
	struct l5_mailbox_view *v;

	if (!box)
		return;
	mutex_lock(&box->map_lock);
	box->revoked = true;
	list_for_each_entry(v, &box->views, view.node)
		l5_view_zap(&v->view);
	mutex_unlock(&box->map_lock);
}

/**
 * l5_mailbox_able() - may a mailbox be mapped?
 * @l5: of this listener
 *
 * Return: 0, or -EOPNOTSUPP if it does not answer for RDMA.
 */
int l5_mailbox_able(const struct l5_sock *l5)
{
	return READ_ONCE(l5->door) ? 0 : -EOPNOTSUPP;
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
	struct l5_mailbox_view *v;
	int err;

	if (l5_state(l5) != L5_LISTEN)
		return -EINVAL;
	err = l5_mailbox_able(l5);
	if (err)
		return err;
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
	v = l5_mailbox_view(box);
	if (IS_ERR(v))
		return PTR_ERR(v);
	l5_map_place(vma, &v->view, &l5_mailbox_vm_ops, VM_MAYEXEC);
	return 0;
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
