// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: processes that map the rings of a connection from its socket.
 *
 * Each page has one writer, and page tables say which: a view of what the peer
 * or the kernel writes is VM_SHARED without VM_WRITE and VM_MAYWRITE, which no
 * call can undo and FOLL_FORCE respects. Pages are there before mmap() returns
 * and stay until the last mapping is gone, so there is no SIGBUS.
 *
 * Page tables are filled by faults alone, a whole region by the first of them,
 * and under map_lock: by then the vma can be found from the file, so that who
 * takes pages back (l5_map_revoke()) finds all that was ever filled. A fault
 * that comes later gets a page that nobody else has, and again no SIGBUS.
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
#include <linux/compat.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/workqueue.h>
#include <net/tcp_states.h>

#include "l5.h"

/* Positions in the pseudo file, in pages */
#define L5_REGION_SHIFT		(32 - PAGE_SHIFT)
#define L5_REGION(off)		((unsigned int)((off) >> 32))

/* So often a process that is gone tries to give back what it held. */
#define L5_DIED_TRIES		16

/**
 * struct l5_mapper - what a process has mapped of an end
 * @view: its file, which owns this; in l5_end.mappers
 * @conn: the connection, with a reference
 * @end: index of the end
 * @id: its number for the lock words
 * @mm: the process, only ever compared
 */
struct l5_mapper {
	struct l5_view view;
	struct l5_conn *conn;
	int end;
	u32 id;
	const struct mm_struct *mm;
};

/**
 * l5_view_open() - make the file that vmas are to refer to
 * @view: zeroed, in what @fops->release frees
 * @fops: of the file
 * @data: its private data
 *
 * The inode is everybody's who has an anonymous file, so what the vmas are
 * linked in, and can be found and emptied by, is the view's own.
 *
 * Return: 0 and @view->file, or an error.
 */
int l5_view_open(struct l5_view *view, const struct file_operations *fops,
		 void *data)
{
	struct file *file = anon_inode_getfile("[l5]", fops, data, O_RDWR);

	if (IS_ERR(file))
		return PTR_ERR(file);
	address_space_init_once(&view->mapping);
	view->mapping.host = file_inode(file);
	view->mapping.a_ops = file->f_mapping->a_ops;
	mapping_set_gfp_mask(&view->mapping, GFP_HIGHUSER);
	file->f_mapping = &view->mapping;
	view->file = file;
	return 0;
}

/**
 * l5_view_close() - from the release of its file: no vma is left
 * @view: the view
 */
void l5_view_close(struct l5_view *view)
{
	int i;

	for (i = 0; i < L5_SCRATCH_PAGES; i++)
		if (view->scratch[i])
			put_page(view->scratch[i]);
}

/**
 * l5_view_zap() - take all pages out of a view
 * @view: the view
 *
 * Context: may sleep; what faults look at to fill it is locked and says no.
 */
void l5_view_zap(struct l5_view *view)
{
	unmap_mapping_range(&view->mapping, 0, 0, 1);
}

/**
 * l5_view_scratch() - answer a fault with a page of no meaning
 * @view: the view
 * @vmf: the fault
 * @which: of the view's, less than L5_SCRATCH_PAGES; one that can be written
 *	is not to be what another region shows
 *
 * Context: as l5_view_zap().
 * Return: of the fault.
 */
vm_fault_t l5_view_scratch(struct l5_view *view, struct vm_fault *vmf,
			   unsigned int which)
{
	if (!view->scratch[which])
		view->scratch[which] = alloc_page(GFP_KERNEL_ACCOUNT |
						  __GFP_ZERO);
	if (!view->scratch[which])
		return VM_FAULT_OOM;
	return vmf_insert_page(vmf->vma, vmf->address, view->scratch[which]);
}

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
	list_del(&m->view.node);
	mutex_unlock(&e->map_lock);
	l5_mapper_died(m, &e->ctrl->tx_lock);
	l5_mapper_died(m, &e->ctrl->rx_lock);
	l5_conn_unlocked(m->conn, m->end);
	/* it may have died between moving a cursor and ringing */
	l5_conn_ring(m->conn, !m->end, L5_BELL_DATA | L5_BELL_ROOM);
	l5_conn_put(m->conn);
	l5_view_close(&m->view);
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
	list_for_each_entry(m, &e->mappers, view.node)
		if (m->mm == current->mm)
			return m;
	return NULL;
}

static struct l5_mapper *l5_mapper_numbered(struct l5_end *e, u32 id)
{
	struct l5_mapper *m;

	lockdep_assert_held(&e->map_lock);
	list_for_each_entry(m, &e->mappers, view.node)
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
	int err;

	m = kzalloc(sizeof(*m), GFP_KERNEL_ACCOUNT);
	if (!m)
		return ERR_PTR(-ENOMEM);
	err = l5_view_open(&m->view, &l5_mapper_fops, m);
	if (err) {
		kfree(m);
		return ERR_PTR(err);
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
	list_add(&m->view.node, &e->mappers);
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
	if (!m || !l5_file_get(m->view.file))
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

/* The ring that a region shows, if it is one. */
static struct l5_end *l5_map_ring(struct l5_mapper *m, unsigned int region)
{
	if (region == L5_REGION(L5_MMAP_TX))
		return &m->conn->end[m->end];
	if (region == L5_REGION(L5_MMAP_RX))
		return &m->conn->end[!m->end];
	return NULL;
}

/*
 * Fill a region, whole if nothing is there yet. What is there already stops
 * that: another thread was first, or parts were dropped (MADV_DONTNEED).
 */
static vm_fault_t l5_map_fill(struct vm_fault *vmf, struct l5_mapper *m)
{
	struct l5_end *ring = l5_map_ring(m, vmf->pgoff >> L5_REGION_SHIFT);
	struct vm_area_struct *vma = vmf->vma;
	unsigned long addr = vma->vm_start, num;
	int err = 0;

	for (; ring && addr < vma->vm_end && !err; addr += ring->size) {
		num = ring->size >> PAGE_SHIFT;
		err = vm_insert_pages(vma, addr, ring->pages, &num);
	}
	if (ring && !err)
		return VM_FAULT_NOPAGE;
	return vmf_insert_page(vma, vmf->address,
			       l5_map_page(m->conn, m->end, vmf->pgoff));
}

/* In place of what was taken back. What only the kernel writes was not. */
static vm_fault_t l5_map_fill_gone(struct vm_fault *vmf, struct l5_mapper *m)
{
	switch (vmf->pgoff >> L5_REGION_SHIFT) {
	case L5_REGION(L5_MMAP_STATE):
		return l5_map_fill(vmf, m);
	case L5_REGION(L5_MMAP_OWN):
		return l5_view_scratch(&m->view, vmf, 1);
	case L5_REGION(L5_MMAP_TX):
		return l5_view_scratch(&m->view, vmf, 2);
	default:
		/* of these none can be written */
		return l5_view_scratch(&m->view, vmf, 0);
	}
}

static vm_fault_t l5_map_fault(struct vm_fault *vmf)
{
	struct l5_mapper *m = vmf->vma->vm_file->private_data;
	struct l5_end *e = &m->conn->end[m->end];
	vm_fault_t ret;

	mutex_lock(&e->map_lock);
	ret = e->revoked ? l5_map_fill_gone(vmf, m) : l5_map_fill(vmf, m);
	mutex_unlock(&e->map_lock);
	return ret;
}

/* A view is whole or gone. */
int l5_map_split(struct vm_area_struct *vma, unsigned long addr)
{
	return -EINVAL;
}

int l5_map_mremap(struct vm_area_struct *vma)
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
 * Return: 0, -ENOMEM, or -ENOTCONN if it is not to be any more.
 */
static int l5_map_prepare(struct l5_sock *l5)
{
	struct l5_end *own = l5_own(l5), *peer = l5_peer(l5);
	static atomic_t serial = ATOMIC_INIT(0);
	struct l5_map_state *state;
	struct page *page;

	if (l5_ring_populate(l5->conn, l5->end,
			     READ_ONCE(l5->ln->ring_kb) << 10))
		return -ENOMEM;
	mutex_lock(&own->map_lock);
	if (own->revoked) {
		mutex_unlock(&own->map_lock);
		return -ENOTCONN;
	}
	if (!own->state) {
		page = l5_conn_page(l5->conn, l5->end);
		if (!page) {
			mutex_unlock(&own->map_lock);
			return -ENOMEM;
		}
		state = page_address(page);
		state->size = sizeof(*state);
		state->version = L5_MAP_VERSION;
		state->transport = L5_TRANSPORT_SHM;
		if (l5->conn->rdma) {
			state->transport = L5_TRANSPORT_RDMA;
			/* the poller takes it back, if one runs */
			state->flags = L5_MAP_BELL;
		}
		state->tx_size = own->size;
		state->rx_size = peer->size;
		/* as long as few are closed no two ends have the same */
		state->watch = (u64)(u32)atomic_inc_return(&serial) << 32;
		/*
		 * R, pairs with S in l5_map_flag(): who changes what the flags
		 * are made of sees the page, or we see the change
		 */
		smp_store_mb(own->state, state);
		l5_map_note(l5);
	}
	set_bit(L5_END_MAPPED, &own->flags);
	mutex_unlock(&own->map_lock);
	return 0;
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

/**
 * l5_map_place() - let a vma show a view
 * @vma: where; mmap() of a socket asks
 * @view: what, with a reference to its file, which goes to @vma
 * @ops: with which faults
 * @clear: flags that @vma is not to have
 *
 * Context: mmap_lock held for writing.
 */
void l5_map_place(struct vm_area_struct *vma, struct l5_view *view,
		  const struct vm_operations_struct *ops, unsigned long clear)
{
	vma_set_file(vma, view->file);
	fput(view->file);
	vma->vm_ops = ops;
	/* nothing of this keeps the socket, or goes to a child */
	l5_vm_flags(vma, VM_MIXEDMAP | VM_DONTEXPAND | VM_DONTDUMP |
		    VM_DONTCOPY, clear);
}

/**
 * l5_mmap() - map a region of a connection
 * @file: the socket's
 * @sock: the socket
 * @vma: what the caller wants: L5_MMAP_*
 *
 * Context: mmap_lock held for writing.
 * Return: 0, -ENOTCONN, also if it was revoked, -EOPNOTSUPP without rings or to
 * a 32-bit program, -EINVAL for no such region or length or without MAP_SHARED,
 * -EACCES for what cannot be written or run, -ENOMEM.
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

	if (in_compat_syscall())
		return -EOPNOTSUPP;
	if (off == L5_MMAP_MAILBOX)
		return l5_mailbox_mmap(l5, vma);
	err = l5_map_able(l5);
	if (err)
		return err;
	/* nothing to come: also what was ended before it had rings */
	if (l5->proto != L5PROTO_UNIX &&
	    READ_ONCE(l5->boot->sk->sk_state) == TCP_CLOSE)
		return -ENOTCONN;
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
	l5_map_place(vma, &m->view, &l5_map_ops, flags);
	return 0;
}

/* Of one end; what it holds of the lock words it cannot give back any more. */
static void l5_map_revoke_end(struct l5_conn *conn, int end)
{
	struct l5_end *e = &conn->end[end];
	struct l5_mapper *m;

	mutex_lock(&e->map_lock);
	list_for_each_entry(m, &e->mappers, view.node) {
		l5_view_zap(&m->view);
		l5_mapper_died(m, &e->ctrl->tx_lock);
		l5_mapper_died(m, &e->ctrl->rx_lock);
	}
	mutex_unlock(&e->map_lock);
	l5_conn_unlocked(conn, end);
	l5_conn_changed(conn, end);
}

/**
 * l5_map_revoke() - take a connection's memory out of all processes, for good
 * @conn: the connection, with a reference
 *
 * From now on none of them reads what another writes by means of a mapping,
 * and none can map it again (ENOTCONN). If one had, what is unread in the rings
 * is not to be trusted any more, for it may be half written: a receive is an
 * error, the bootstrap's if it has one. Else system calls go on as ever.
 *
 * A process may have pages that it pinned before, by io_uring or a pipe: these
 * cannot be taken back.
 *
 * Context: process; takes map_lock of each end in turn. May be called again.
 */
void l5_map_revoke(struct l5_conn *conn)
{
	bool mapped = false;
	int i;

	for (i = 0; i < 2; i++) {
		struct l5_end *e = &conn->end[i];

		mutex_lock(&e->map_lock);
		e->revoked = true;
		l5_map_flag(e, L5_MAP_TX_ASK | L5_MAP_RX_ASK | L5_MAP_GONE);
		mapped |= test_bit(L5_END_MAPPED, &e->flags);
		mutex_unlock(&e->map_lock);
	}
	for (i = 0; i < 2 && mapped; i++)
		set_bit(L5_END_REVOKED, &conn->end[i].flags);
	/*
	 * AC, pairs with AB in l5_ring_spoilt(), and in a process with its look
	 * at L5_MAP_GONE after it has copied: said first, then done. Who reads
	 * a header that was stored when the payload before it no longer went
	 * to the ring finds that out.
	 */
	smp_mb();
	for (i = 0; i < 2; i++)
		l5_map_revoke_end(conn, i);
}

static void l5_map_revoke_work(struct work_struct *work)
{
	struct l5_conn *conn = container_of(work, struct l5_conn, revoke);

	l5_map_revoke(conn);
	l5_conn_put(conn);
}

/**
 * l5_map_revoke_later() - l5_map_revoke() from where it cannot be called
 * @conn: the connection, which the caller keeps alive
 *
 * Context: any.
 */
void l5_map_revoke_later(struct l5_conn *conn)
{
	refcount_inc(&conn->ref);
	if (!queue_work(l5_wq, &conn->revoke))
		l5_conn_put(conn);
}

/**
 * l5_map_conn() - of a connection that is being made
 * @conn: the connection
 */
void l5_map_conn(struct l5_conn *conn)
{
	INIT_WORK(&conn->revoke, l5_map_revoke_work);
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

/* As many as a socket may have */
#define L5_AREAS	5

static void l5_map_area(struct l5_area *a, u32 kind, u64 offset, u64 length,
			u32 access)
{
	a->kind = kind;
	a->offset = offset;
	a->length = length;
	a->access = access;
}

/* What there is to map of a socket with rings, or a listener: how many. */
static u32 l5_map_areas(struct l5_sock *l5, struct l5_area *a)
{
	const u32 rw = L5_AREA_READ | L5_AREA_WRITE;

	memset(a, 0, L5_AREAS * sizeof(*a));
	if (l5_state(l5) == L5_LISTEN) {
		l5_map_area(a, L5_AREA_MAILBOX, L5_MMAP_MAILBOX,
			    L5_MAILBOX_SIZE, rw);
		return 1;
	}
	l5_map_area(a++, L5_AREA_CTRL, L5_MMAP_OWN, PAGE_SIZE, rw);
	l5_map_area(a++, L5_AREA_PEER, L5_MMAP_PEER, PAGE_SIZE, L5_AREA_READ);
	l5_map_area(a++, L5_AREA_STATE, L5_MMAP_STATE, PAGE_SIZE,
		    L5_AREA_READ);
	l5_map_area(a++, L5_AREA_TX, L5_MMAP_TX, l5_own(l5)->size,
		    rw | L5_AREA_TWICE);
	l5_map_area(a++, L5_AREA_RX, L5_MMAP_RX, l5_peer(l5)->size,
		    L5_AREA_READ | L5_AREA_TWICE);
	return L5_AREAS;
}

static void l5_map_info_fill(struct l5_sock *l5, struct l5_map_info *info)
{
	struct l5_end *own = l5_own(l5);
	struct l5_mapper *m;

	info->tx_size = own->size;
	info->rx_size = l5_peer(l5)->size;
	info->mailbox = l5_rdma_mailbox(l5);
	mutex_lock(&own->map_lock);
	m = l5_mapper_find(own);
	if (m)
		info->id = m->id;
	mutex_unlock(&own->map_lock);
}

static int l5_map_info(struct l5_sock *l5, void __user *arg)
{
	struct l5_area areas[L5_AREAS];
	struct l5_map_info info, said;
	u32 size, n;
	int err;

	BUILD_BUG_ON(sizeof(info) < L5_MAP_INFO_SIZE_VER0);
	if (get_user(size, (u32 __user *)arg))
		return -EFAULT;
	if (size < L5_MAP_INFO_SIZE_VER0)
		return -EINVAL;
	if (size > PAGE_SIZE)
		return -E2BIG;
	err = copy_struct_from_user(&said, sizeof(said), arg, size);
	if (err)
		return err;
	if (said.reserved)
		return -EINVAL;
	memset(&info, 0, sizeof(info));
	info.size = sizeof(info);
	info.version_min = L5_MAP_VERSION;
	info.version_max = L5_MAP_VERSION;
	info.version = L5_MAP_VERSION;
	info.areas = said.areas;
	info.nareas = l5_map_areas(l5, areas);
	if (l5_state(l5) != L5_LISTEN)
		l5_map_info_fill(l5, &info);
	n = min(said.nareas, info.nareas);
	if (copy_to_user(u64_to_user_ptr(said.areas), areas,
			 n * sizeof(*areas)) ||
	    copy_to_user(arg, &info, min_t(size_t, size, sizeof(info))))
		return -EFAULT;
	return said.version_min > L5_MAP_VERSION ||
	       said.version_max < L5_MAP_VERSION ? -EPROTONOSUPPORT : 0;
}

static int l5_map_doorbell(struct l5_sock *l5, unsigned long bells)
{
	if (bells & ~(unsigned long)(L5_BELL_DATA | L5_BELL_ROOM))
		return -EINVAL;
	l5_conn_ring(l5->conn, !l5->end, bells);
	if (bells & L5_BELL_DATA)
		l5_send_unread(l5);
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
	case L5_IOC_WATCH:
		break;
	default:
		return -ENOTTY;
	}
	/* a cursor is 64 bits, and loaded or stored at once */
	if (in_compat_syscall())
		return -EOPNOTSUPP;
	if (cmd == L5_IOC_MAP_INFO && l5_state(l5) == L5_LISTEN &&
	    !l5_mailbox_able(l5))
		return l5_map_info(l5, (void __user *)arg);
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
	case L5_IOC_WATCH:
		return l5_map_prepare(l5) ?: l5_watch(l5, (void __user *)arg);
	default:
		return l5_map_unlock(l5, arg);
	}
}
