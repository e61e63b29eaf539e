// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: the mailbox of a listener (Fent et al., ICDE 2020, section V-C).
 *
 * A server with many clients would have to look at the ring of each. Instead
 * the last WRITE of a record sets a byte. There is one byte for each
 * connection, and they are close together, so that one cache line shows 64
 * clients. The device may write the one byte of its connection there and
 * nothing else, by a region of that length.
 *
 * For connections in shared memory there is no mailbox: the peer would need a
 * view of the page that it can write, and then every client could clear the
 * bytes of all others. There the ring's own header word says the same at no
 * cost to the sender.
 */
#include <linux/bitmap.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/refcount.h>
#include <linux/slab.h>

#include "far.h"

/**
 * struct l5_mailbox - a page of bytes
 * @ref: see l5_mailbox_get()
 * @page: the page itself
 * @lock: guards @used
 * @views: the files of its mappings, under @map_lock
 * @revoked: mappings are not to have the page any more, under @map_lock
 * @map_lock: see l5.h
 * @used: bytes that belong to a connection
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
 * l5_mailbox_get() - find the mailbox for a connection that is being accepted
 * @listener: the listener that accepts it
 *
 * Return: the mailbox with a reference, or NULL if no process has ever mapped
 * it.
 */
struct l5_mailbox *l5_mailbox_get(struct l5_sock *listener)
{
	/* Z, pairs with l5_mailbox_mmap() */
	struct l5_mailbox *box =
		smp_load_acquire(&l5_far_sk(listener)->mailbox);

	if (box)
		refcount_inc(&box->ref);
	return box;
}

/**
 * l5_mailbox_put() - drop a reference to a mailbox
 * @box: the mailbox
 *
 * Context: any.
 */
void l5_mailbox_put(struct l5_mailbox *box)
{
	if (!refcount_dec_and_test(&box->ref))
		return;
	put_page(box->page);
	kfree(box);
}

/**
 * l5_mailbox_get_slot() - give a connection a byte, if one is free
 * @far: the connection, whose mailbox is known; it loses the mailbox if no byte
 *	is free
 */
void l5_mailbox_get_slot(struct l5_far *far)
{
	struct l5_mailbox *box = far->mailbox;
	u8 *bytes = page_address(box->page);
	unsigned long n;

	spin_lock(&box->lock);
	n = find_first_zero_bit(box->used, L5_MAILBOX_SIZE);
	if (n < L5_MAILBOX_SIZE) {
		__set_bit(n, box->used);
		far->slot_no = n;
		/* the value that the last owner left means nothing here */
		WRITE_ONCE(bytes[n], 0);
	}
	spin_unlock(&box->lock);
	if (far->slot_no < 0) {
		far->mailbox = NULL;
		l5_mailbox_put(box);
	}
}

/* From here on the byte may be another connection's. */
static void l5_mailbox_free_slot(struct l5_far *far)
{
	struct l5_mailbox *box = xchg(&far->mailbox, NULL);

	if (!box)
		return;
	if (far->slot_no >= 0) {
		spin_lock(&box->lock);
		__clear_bit(far->slot_no, box->used);
		spin_unlock(&box->lock);
	}
	l5_mailbox_put(box);
}

/**
 * l5_mailbox_put_slot() - a connection's device does not know its byte any more
 * @far: the connection, which is over
 *
 * A program that was told the number of the byte goes by it until it closes the
 * socket. Until then the byte is no other connection's: the program would take
 * that one's records for this connection's.
 *
 * Context: may sleep.
 */
void l5_mailbox_put_slot(struct l5_far *far)
{
	struct l5_mailbox *box = far->mailbox;
	u8 *bytes;
	bool told;

	if (!box)
		return;
	bytes = page_address(box->page);
	/*
	 * The last thing that the byte tells of is the end. AR, pairs with BB:
	 * that the connection is over, and all that came before, then the byte.
	 */
	if (far->slot_no >= 0)
		smp_store_release(&bytes[far->slot_no], 1);
	spin_lock_bh(&far->lock);
	far->box_over = true;
	told = far->l5 && (l5_state(far->l5) == L5_MOVING ||
			  l5_state(far->l5) == L5_RINGS);
	spin_unlock_bh(&far->lock);
	if (!told)
		l5_mailbox_free_slot(far);
}

/**
 * l5_mailbox_leave() - no program goes by a connection's byte any more
 * @far: the connection, which no longer has a socket
 *
 * Context: process.
 */
void l5_mailbox_leave(struct l5_far *far)
{
	bool over;

	spin_lock_bh(&far->lock);
	over = far->box_over;
	spin_unlock_bh(&far->lock);
	/* else the device may still write there */
	if (over)
		l5_mailbox_free_slot(far);
}

/**
 * l5_mailbox_page() - find the page that a wire is to let the peer write
 * @box: the mailbox
 *
 * Return: the page, which is there as long as the mailbox is.
 */
struct page *l5_mailbox_page(struct l5_mailbox *box)
{
	return box->page;
}

/**
 * l5_mailbox_set() - say that something has come, in place of the peer
 * @far: the connection
 */
void l5_mailbox_set(struct l5_far *far)
{
	struct l5_mailbox *box = READ_ONCE(far->mailbox);
	u8 *byte;

	if (!box || far->slot_no < 0)
		return;
	byte = (u8 *)page_address(box->page) + far->slot_no;
	/*
	 * While the wire is alive the mailbox is there. A once more: the
	 * record, then the byte; pairs with a reader that takes the byte and
	 * then looks for B.
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
		ret = l5_view_page(vmf, box->page);
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
	struct l5_mailbox *box = smp_load_acquire(&l5_far_sk(l5)->mailbox);
	struct l5_mailbox_view *v;

	if (!box)
		return;
	mutex_lock(&box->map_lock);
	box->revoked = true;
	list_for_each_entry(v, &box->views, view.node)
		l5_view_zap(&v->view, 0, 0);
	mutex_unlock(&box->map_lock);
}

/**
 * l5_mailbox_mmap() - map the mailbox of a listener
 * @l5: the socket
 * @vma: as l5_mmap() got it
 *
 * Context: mmap_lock held for writing.
 * Return: 0, -EINVAL, -EACCES, -ENOMEM.
 */
int l5_mailbox_mmap(struct l5_sock *l5, struct vm_area_struct *vma)
{
	struct l5_mailbox *box, *mine;
	struct l5_mailbox_view *v;

	if (l5_state(l5) != L5_LISTEN)
		return -EINVAL;
	if (!(vma->vm_flags & VM_SHARED) ||
	    vma->vm_end - vma->vm_start != L5_MAILBOX_SIZE)
		return -EINVAL;
	if (vma->vm_flags & VM_EXEC)
		return -EACCES;
	/* Z, pairs with the exchange below */
	box = smp_load_acquire(&l5_far_sk(l5)->mailbox);
	if (!box) {
		mine = l5_mailbox_make();
		if (!mine)
			return -ENOMEM;
		/*
		 * Z, pairs with the looks: the mailbox is whole, then it is
		 * there
		 */
		box = cmpxchg_release(&l5_far_sk(l5)->mailbox, NULL, mine);
		if (box)
			l5_mailbox_put(mine);
		else
			box = mine;
	}
	v = l5_mailbox_view(box);
	if (IS_ERR(v))
		return PTR_ERR(v);
	l5_map_place(vma, &v->view, &l5_mailbox_vm_ops, VM_MIXEDMAP,
		     VM_MAYEXEC);
	return 0;
}

/**
 * l5_mailbox_release() - a listener is gone
 * @l5: the listener, or any other socket
 */
void l5_mailbox_release(struct l5_sock *l5)
{
	if (l5_far_sk(l5)->mailbox)
		l5_mailbox_put(l5_far_sk(l5)->mailbox);
	l5_far_sk(l5)->mailbox = NULL;
}
