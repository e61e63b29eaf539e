// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: processes that map the rings of a connection from its socket.
 *
 * Each page has one writer, and page tables say which: a view of what the peer
 * or the kernel writes is VM_SHARED without VM_WRITE and VM_MAYWRITE, which no
 * call can undo and FOLL_FORCE respects. Pages are there before mmap() returns
 * and stay until the last mapping is gone, so there is no SIGBUS.
 *
 * A mapping is to the socket what a pair of binoculars is to a ship: it must
 * not keep it afloat. So an anonymous file takes the socket's place in the vma:
 * close() of the last descriptor is the socket's release, whoever maps it. That
 * file is the l5_mapper: one for all that one process (mm) has mapped of one
 * end. Its release, when the last vma is gone by munmap(), exec or death, is
 * also where a lock word that the process will never give back is freed.
 *
 * fork() copies none of it: a child that used the parent's number could not be
 * told from it when one of them dies. Who undoes that by MADV_DOFORK has only
 * his own end to lose.
 */
#include <linux/anon_inodes.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "l5.h"

/* Positions in the pseudo file, in pages */
#define L5_REGION_SHIFT		(32 - PAGE_SHIFT)
#define L5_REGION(off)		((unsigned int)((off) >> 32))

/* So often a process that is gone tries to give back what it held. */
#define L5_DIED_TRIES		16

/**
 * struct l5_mapper - what a process has mapped of an end
 * @conn: the connection, with a reference
 * @end: index of the end
 * @id: its number for the lock words
 * @mm: the process, only ever compared
 * @file: that the vmas refer to, which owns this
 * @node: in l5_end.mappers
 */
struct l5_mapper {
	struct l5_conn *conn;
	int end;
	u32 id;
	const struct mm_struct *mm;
	struct file *file;
	struct list_head node;
};

/*
 * The process will not give back what it holds. Others may set and clear the
 * bit for waiters meanwhile, as often as they like. If they win, the number is
 * one that nobody has, and whoever waits next sees to it: l5_map_forget().
 */
static void l5_mapper_died(struct l5_mapper *m, u32 *word)
{
	u32 old = READ_ONCE(*word);
	int i;

	for (i = 0; i < L5_DIED_TRIES && (old & L5_LOCK_ID) == m->id; i++)
		if (try_cmpxchg(word, &old,
				(old & L5_LOCK_WAITERS) | L5_LOCK_DIED))
			break;
}

static int l5_mapper_release(struct inode *inode, struct file *file)
{
	struct l5_mapper *m = file->private_data;
	struct l5_end *e = &m->conn->end[m->end];

	mutex_lock(&e->map_lock);
	list_del(&m->node);
	mutex_unlock(&e->map_lock);
	l5_mapper_died(m, &e->ctrl->tx_lock);
	l5_mapper_died(m, &e->ctrl->rx_lock);
	l5_conn_unlocked(m->conn, m->end);
	/* it may have died between moving a cursor and ringing */
	l5_conn_ring(m->conn, !m->end, L5_BELL_DATA | L5_BELL_ROOM);
	l5_conn_put(m->conn);
	kfree(m);
	return 0;
}

static const struct file_operations l5_mapper_fops = {
	.owner		= THIS_MODULE,
	.release	= l5_mapper_release,
	.llseek		= noop_llseek,
};

static struct l5_mapper *l5_mapper_find(struct l5_end *e)
{
	struct l5_mapper *m;

	lockdep_assert_held(&e->map_lock);
	list_for_each_entry(m, &e->mappers, node)
		if (m->mm == current->mm)
			return m;
	return NULL;
}

static struct l5_mapper *l5_mapper_numbered(struct l5_end *e, u32 id)
{
	struct l5_mapper *m;

	lockdep_assert_held(&e->map_lock);
	list_for_each_entry(m, &e->mappers, node)
		if (m->id == id)
			return m;
	return NULL;
}

/**
 * l5_map_forget() - change a lock word if nobody has the number in it
 * @e: the end
 * @id: the number
 * @word: the lock word
 * @old: what it was
 * @to: what it becomes
 *
 * Return: whether it was changed.
 */
bool l5_map_forget(struct l5_end *e, u32 id, u32 *word, u32 old, u32 to)
{
	bool done;

	mutex_lock(&e->map_lock);
	done = !l5_mapper_numbered(e, id) && cmpxchg(word, old, to) == old;
	mutex_unlock(&e->map_lock);
	return done;
}

static struct l5_mapper *l5_mapper_new(struct l5_sock *l5)
{
	struct l5_end *e = l5_own(l5);
	struct l5_mapper *m;

	m = kzalloc(sizeof(*m), GFP_KERNEL_ACCOUNT);
	if (!m)
		return ERR_PTR(-ENOMEM);
	m->file = anon_inode_getfile("[l5]", &l5_mapper_fops, m, O_RDWR);
	if (IS_ERR(m->file)) {
		struct file *file = m->file;

		kfree(m);
		return ERR_CAST(file);
	}
	/* after a thousand million of them numbers come again */
	do {
		if (++e->last_id >= L5_LOCK_KERNEL)
			e->last_id = 1;
	} while (l5_mapper_numbered(e, e->last_id));
	m->id = e->last_id;
	m->mm = current->mm;
	m->conn = l5->conn;
	m->end = l5->end;
	refcount_inc(&m->conn->ref);
	list_add(&m->node, &e->mappers);
	l5_count(l5, L5_STAT_MAPS, 1);
	return m;
}

/*
 * This process's mapper of this end, with a reference to its file. One whose
 * file is on its way to its release is of no use any more.
 */
static struct l5_mapper *l5_mapper_get(struct l5_sock *l5)
{
	struct l5_end *e = l5_own(l5);
	struct l5_mapper *m;

	mutex_lock(&e->map_lock);
	m = l5_mapper_find(e);
	if (!m || !l5_file_get(m->file))
		m = l5_mapper_new(l5);
	mutex_unlock(&e->map_lock);
	return m;
}

/*
 * The page at a place of the pseudo file. Rings are whole by now; the data
 * repeats after its size.
 */
static struct page *l5_map_page(struct l5_conn *conn, int end, pgoff_t pgoff)
{
	struct l5_end *own = &conn->end[end], *peer = &conn->end[!end];
	u64 off = (u64)pgoff << PAGE_SHIFT;
	u32 place = (u32)off >> PAGE_SHIFT;

	switch (L5_REGION(off)) {
	case L5_REGION(L5_MMAP_OWN):
		return virt_to_page(own->ctrl);
	case L5_REGION(L5_MMAP_PEER):
		return virt_to_page(peer->ctrl);
	case L5_REGION(L5_MMAP_STATE):
		return virt_to_page(own->state);
	case L5_REGION(L5_MMAP_TX):
		return own->pages[place & ((own->size >> PAGE_SHIFT) - 1)];
	case L5_REGION(L5_MMAP_RX):
		return peer->pages[place & ((peer->size >> PAGE_SHIFT) - 1)];
	default:
		return NULL;
	}
}

/* Only after MADV_DONTNEED and the like: the pages are still there. */
static vm_fault_t l5_map_fault(struct vm_fault *vmf)
{
	struct l5_mapper *m = vmf->vma->vm_file->private_data;
	struct page *page = l5_map_page(m->conn, m->end, vmf->pgoff);

	return vmf_insert_page(vmf->vma, vmf->address, page);
}

static int l5_map_split(struct vm_area_struct *vma, unsigned long addr)
{
	return -EINVAL;
}

static int l5_map_mremap(struct vm_area_struct *vma)
{
	return -EINVAL;
}

static const struct vm_operations_struct l5_map_ops = {
	.fault		= l5_map_fault,
	.may_split	= l5_map_split,
	.mremap		= l5_map_mremap,
};

/*
 * Make a connection ready for being mapped by this end.
 * Return: 0, or -ENOMEM.
 */
static int l5_map_prepare(struct l5_sock *l5)
{
	struct l5_end *own = l5_own(l5), *peer = l5_peer(l5);
	struct l5_map_state *state;
	struct page *page;

	if (l5_ring_populate(l5->conn))
		return -ENOMEM;
	mutex_lock(&own->map_lock);
	if (!own->state) {
		page = l5_conn_page(l5->conn);
		if (!page) {
			mutex_unlock(&own->map_lock);
			return -ENOMEM;
		}
		state = page_address(page);
		state->transport = L5_TRANSPORT_SHM;
		if (l5->conn->rdma) {
			state->transport = L5_TRANSPORT_RDMA;
			/* the poller takes it back, if one runs */
			state->flags = L5_MAP_BELL;
		}
		state->tx_size = own->size;
		state->rx_size = peer->size;
		/*
		 * R, pairs with S in l5_map_flag(): who changes what the flags
		 * are made of sees the page, or we see the change
		 */
		smp_store_mb(own->state, state);
		l5_map_note(l5);
	}
	mutex_unlock(&own->map_lock);
	set_bit(L5_END_MAPPED, &own->flags);
	return 0;
}

static int l5_map_insert(struct vm_area_struct *vma, struct l5_mapper *m,
			 struct l5_end *ring)
{
	unsigned long addr = vma->vm_start, num;
	int err = 0;

	if (!ring)
		return vm_insert_page(vma, addr, l5_map_page(m->conn, m->end,
							     vma->vm_pgoff));
	for (; addr < vma->vm_end && !err; addr += ring->size) {
		num = ring->size >> PAGE_SHIFT;
		err = vm_insert_pages(vma, addr, ring->pages, &num);
	}
	return err;
}

/* May a socket be mapped, and if not, is there hope? */
static int l5_map_able(struct l5_sock *l5)
{
	switch (l5_state(l5)) {
	case L5_SHM:
		/* only system calls know that form of a record */
		if (l5_peer(l5)->late_key)
			return -EOPNOTSUPP;
		return 0;
	case L5_BASE:
	case L5_MOVING:
		return l5_rdma_undecided(l5) ? -EAGAIN : -EOPNOTSUPP;
	default:
		return -ENOTCONN;
	}
}

static vm_fault_t l5_lone_fault(struct vm_fault *vmf)
{
	return vmf_insert_page(vmf->vma, vmf->address,
			       vmf->vma->vm_file->private_data);
}

static int l5_lone_release(struct inode *inode, struct file *file)
{
	put_page(file->private_data);
	return 0;
}

static const struct vm_operations_struct l5_lone_ops = {
	.fault		= l5_lone_fault,
	.may_split	= l5_map_split,
	.mremap		= l5_map_mremap,
};

static const struct file_operations l5_lone_fops = {
	.owner		= THIS_MODULE,
	.release	= l5_lone_release,
	.llseek		= noop_llseek,
};

/**
 * l5_map_lone_page() - map a page without keeping the socket
 * @vma: where, of one page
 * @page: which
 *
 * Context: mmap_lock held for writing.
 * Return: 0 or -ENOMEM.
 */
int l5_map_lone_page(struct vm_area_struct *vma, struct page *page)
{
	struct file *file = anon_inode_getfile("[l5]", &l5_lone_fops, page,
					       O_RDWR);

	if (IS_ERR(file))
		return PTR_ERR(file);
	get_page(page);
	vma_set_file(vma, file);
	fput(file);
	vma->vm_ops = &l5_lone_ops;
	return vm_insert_page(vma, vma->vm_start, page);
}

/**
 * l5_mmap() - map a region of a connection
 * @file: the socket's
 * @sock: the socket
 * @vma: what the caller wants: L5_MMAP_*
 *
 * Context: mmap_lock held for writing.
 * Return: 0, -ENOTCONN, -EOPNOTSUPP without rings, -EINVAL for no such region
 * or length or without MAP_SHARED, -EACCES for what cannot be written or run,
 * -ENOMEM.
 */
int l5_mmap(struct file *file, struct socket *sock, struct vm_area_struct *vma)
{
	unsigned long len = vma->vm_end - vma->vm_start, flags = VM_MAYEXEC;
	u64 off = (u64)vma->vm_pgoff << PAGE_SHIFT;
	struct l5_sock *l5 = l5_sk(sock->sk);
	struct l5_end *ring = NULL;
	struct l5_mapper *m;
	bool writable;
	int err;

	if (off == L5_MMAP_MAILBOX)
		return l5_mailbox_mmap(l5, vma);
	err = l5_map_able(l5);
	if (err)
		return err;
	switch (off) {
	case L5_MMAP_OWN:
		writable = true;
		break;
	case L5_MMAP_PEER:
	case L5_MMAP_STATE:
		writable = false;
		break;
	case L5_MMAP_TX:
		writable = true;
		ring = l5_own(l5);
		break;
	case L5_MMAP_RX:
		writable = false;
		ring = l5_peer(l5);
		break;
	default:
		return -EINVAL;
	}
	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	if (ring ? len != ring->size && len != 2UL * ring->size :
		   len != PAGE_SIZE)
		return -EINVAL;
	if (vma->vm_flags & VM_EXEC ||
	    (vma->vm_flags & VM_WRITE && !writable))
		return -EACCES;
	if (!writable)
		flags |= VM_MAYWRITE;

	err = l5_map_prepare(l5);
	if (err)
		return err;
	m = l5_mapper_get(l5);
	if (IS_ERR(m))
		return PTR_ERR(m);
	vma_set_file(vma, m->file);
	fput(m->file);
	vma->vm_ops = &l5_map_ops;
	l5_vm_flags(vma, VM_MIXEDMAP | VM_DONTEXPAND | VM_DONTDUMP |
		    VM_DONTCOPY, flags);
	return l5_map_insert(vma, m, ring);
}

/**
 * l5_map_flag() - tell who has an end mapped to ask the kernel
 * @e: the end
 * @flags: L5_MAP_* to set
 *
 * Context: any.
 */
void l5_map_flag(struct l5_end *e, u32 flags)
{
	struct l5_map_state *state;

	/* S, pairs with R in l5_map_prepare() */
	smp_mb();
	state = READ_ONCE(e->state);
	if (!state || (READ_ONCE(state->flags) & flags) == flags)
		return;
	atomic_or(flags, (atomic_t *)&state->flags);
	atomic_inc((atomic_t *)&state->generation);
}

/**
 * l5_map_note() - the bootstrap's state or an error may have changed
 * @l5: a socket in state L5_SHM
 *
 * Context: any.
 */
void l5_map_note(struct l5_sock *l5)
{
	u32 flags = 0;

	/* S, pairs with R in l5_map_prepare() */
	smp_mb();
	if (!READ_ONCE(l5_own(l5)->state))
		return;
	if (l5_rx_ended(l5))
		flags |= L5_MAP_RX_ASK;
	if (l5_tx_ended(l5))
		flags |= L5_MAP_TX_ASK;
	if (flags)
		l5_map_flag(l5_own(l5), flags);
}

static int l5_map_info(struct l5_sock *l5, void __user *arg)
{
	struct l5_end *own = l5_own(l5);
	struct l5_map_info info = {
		.tx_size = own->size,
		.rx_size = l5_peer(l5)->size,
		.mailbox = l5_rdma_mailbox(l5),
	};
	struct l5_mapper *m;

	mutex_lock(&own->map_lock);
	m = l5_mapper_find(own);
	if (m)
		info.id = m->id;
	mutex_unlock(&own->map_lock);
	return copy_to_user(arg, &info, sizeof(info)) ? -EFAULT : 0;
}

static int l5_map_doorbell(struct l5_sock *l5, unsigned long bells)
{
	if (bells & ~(unsigned long)(L5_BELL_DATA | L5_BELL_ROOM))
		return -EINVAL;
	l5_conn_ring(l5->conn, !l5->end, bells);
	/* see M in l5_ring_write() */
	if (bells & L5_BELL_DATA &&
	    test_bit(L5_END_CLOSED, &l5_peer(l5)->flags))
		l5_send_to_closed(l5);
	return 0;
}

static int l5_map_arm(struct l5_sock *l5, unsigned long bells)
{
	struct l5_ctrl *ctrl = l5_own(l5)->ctrl;
	int ready = 0;

	if (bells & ~(unsigned long)(L5_BELL_DATA | L5_BELL_ROOM))
		return -EINVAL;
	if (bells & L5_BELL_DATA) {
		l5_wait_arm(&ctrl->rx_wait);
		if (l5->conn->rdma)
			l5_rdma_arm(l5);
		if (l5_rx_ended(l5) || l5_ring_readable(l5))
			ready |= L5_BELL_DATA;
	}
	if (bells & L5_BELL_ROOM) {
		l5_wait_arm(&ctrl->tx_wait);
		if (l5->conn->rdma)
			l5_rdma_arm_room(l5, l5_ring_extent(l5) / 2);
		if (l5_tx_ended(l5) || l5_ring_writable(l5))
			ready |= L5_BELL_ROOM;
	}
	return ready;
}

static int l5_map_lock(struct l5_sock *l5, unsigned long dir)
{
	if (dir != L5_LOCK_TX && dir != L5_LOCK_RX)
		return -EINVAL;
	return l5_ring_lock_wait(l5, dir);
}

static int l5_map_unlock(struct l5_sock *l5, unsigned long dir)
{
	if (dir != L5_LOCK_TX && dir != L5_LOCK_RX)
		return -EINVAL;
	l5_conn_unlocked(l5->conn, l5->end);
	return 0;
}

/**
 * l5_map_ioctl() - the calls of who has a connection mapped
 * @l5: a socket in any state
 * @cmd: L5_IOC_*
 * @arg: of it
 *
 * Return: as uapi/l5.h says; -ENOTCONN, -EOPNOTSUPP without rings, -ENOTTY if
 * there is no such call.
 */
int l5_map_ioctl(struct l5_sock *l5, unsigned int cmd, unsigned long arg)
{
	int err;

	switch (cmd) {
	case L5_IOC_MAP_INFO:
	case L5_IOC_DOORBELL:
	case L5_IOC_ARM:
	case L5_IOC_LOCK:
	case L5_IOC_UNLOCK:
		break;
	default:
		return -ENOTTY;
	}
	err = l5_map_able(l5);
	if (err)
		return err;
	switch (cmd) {
	case L5_IOC_MAP_INFO:
		return l5_map_info(l5, (void __user *)arg);
	case L5_IOC_DOORBELL:
		return l5_map_doorbell(l5, arg);
	case L5_IOC_ARM:
		return l5_map_arm(l5, arg);
	case L5_IOC_LOCK:
		return l5_map_lock(l5, arg);
	default:
		return l5_map_unlock(l5, arg);
	}
}
