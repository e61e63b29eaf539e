// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: processes that map the rings of a connection from its socket.
 *
 * Each page has one writer, and page tables say which: a view of pages that the
 * peer or the kernel writes is VM_SHARED without VM_WRITE and VM_MAYWRITE; no
 * call can undo that, and FOLL_FORCE respects it. Pages are there before mmap()
 * returns and stay until the last mapping is gone, so there is no SIGBUS.
 *
 * Page tables are filled by faults alone, some pages by each, and under
 * map_lock: by then the vma can be found from the file, so that
 * l5_map_revoke(), which takes pages back, finds all that was ever filled. A
 * fault that comes later gets a page that no other process has, and again no
 * SIGBUS.
 *
 * A mapping is to the socket what a pair of binoculars is to a ship: it must
 * not keep it afloat. So an anonymous file takes the socket's place in the vma:
 * close() of the last descriptor is the socket's release, whatever processes
 * map it. That file is the l5_mapper: one for all that one process (mm) has
 * mapped of one end. Its release, when the last vma is gone by munmap(), exec
 * or death, is also where a lock word that the process will never give back is
 * freed.
 *
 * fork() copies no mapping: a child that used the parent's number could not be
 * told from the parent when one of them dies. A process that undoes that by
 * MADV_DOFORK gives its child mappings without pages, which never get any: a
 * page of a ring is shown at many places, and children are not bounded.
 */
#include <linux/compat.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <net/tcp_states.h>

#include "bootstrap.h"
#include "compat.h"
#include "conn.h"
#include "end.h"
#include "fold.h"
#include "link.h"
#include "lock.h"
#include "map.h"
#include "mapper.h"
#include "netns.h"
#include "pages.h"
#include "region.h"
#include "regions.h"
#include "ring.h"
#include "transport.h"
#include "unread.h"
#include "watch.h"

static int l5_mapper_release(struct inode *inode, struct file *file)
{
	struct l5_mapper *m = file->private_data;
	struct l5_end *e;

	/* it was never in use */
	if (!m->conn)
		goto out;
	e = &m->conn->end[m->end];
	mutex_lock(&e->map_lock);
	list_del(&m->view.node);
	mutex_unlock(&e->map_lock);
	/* else the rings are gone, and no task waits for them */
	if (refcount_inc_not_zero(&m->conn->ref)) {
		l5_mapper_died(m, &e->ctrl->tx_lock);
		l5_mapper_died(m, &e->ctrl->rx_lock);
		l5_conn_unlocked(m->conn, m->end);
		/* it may have died between moving a cursor and ringing */
		l5_link_ring(m->conn, !m->end, L5_BELL_DATA | L5_BELL_ROOM);
		l5_conn_put(m->conn);
	}
	l5_conn_let_go(m->conn);
out:
	l5_view_close(&m->view);
	kfree(m);
	return 0;
}

static const struct file_operations l5_mapper_fops = {
	.owner		= THIS_MODULE,
	.release	= l5_mapper_release,
	.llseek		= noop_llseek,
};

/* Not under map_lock: it may take for as long as memory is short. */
static struct l5_mapper *l5_mapper_alloc(void)
{
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
	return m;
}

static void l5_mapper_add(struct l5_mapper *m, struct l5_sock *l5)
{
	struct l5_end *e = l5_own(l5);

	lockdep_assert_held(&e->map_lock);
	/* after a thousand million mappers numbers come again */
	do {
		if (++e->last_id >= L5_LOCK_KERNEL)
			e->last_id = 1;
	} while (l5_mapper_numbered(e, e->last_id));
	m->id = e->last_id;
	m->mm = current->mm;
	m->conn = l5->conn;
	m->end = l5->end;
	l5_conn_hold(m->conn);
	list_add(&m->view.node, &e->mappers);
	l5_count(l5, L5_STAT_MAPS, 1);
}

/* Have as many processes mapped an end as may? */
static bool l5_mappers_enough(const struct l5_end *e)
{
	const struct l5_mapper *m;
	int n = 0;

	lockdep_assert_held(&e->map_lock);
	list_for_each_entry(m, &e->mappers, view.node)
		n++;
	return n >= L5_MAPPERS_MAX;
}

/* This process's mapper of this end, with a reference to its file, or NULL. */
static struct l5_mapper *l5_mapper_old(struct l5_end *e)
{
	struct l5_mapper *m = l5_mapper_find(e);

	/* one whose file is on its way to its release is of no use any more */
	return m && l5_file_get(m->view.file) ? m : NULL;
}

/* The same; a new one if there is none. */
static struct l5_mapper *l5_mapper_get(struct l5_sock *l5)
{
	struct l5_end *e = l5_own(l5);
	struct l5_mapper *m, *fresh;
	bool enough = false;

	/* with mmap_lock held, for which all threads of the process wait */
	if (mutex_lock_killable(&e->map_lock))
		return ERR_PTR(-EINTR);
	m = l5_mapper_old(e);
	mutex_unlock(&e->map_lock);
	if (m)
		return m;
	fresh = l5_mapper_alloc();
	if (IS_ERR(fresh))
		return fresh;
	if (mutex_lock_killable(&e->map_lock)) {
		fput(fresh->view.file);
		return ERR_PTR(-EINTR);
	}
	m = l5_mapper_old(e);
	if (!m)
		enough = l5_mappers_enough(e);
	if (!m && !enough)
		l5_mapper_add(fresh, l5);
	mutex_unlock(&e->map_lock);
	if (!m && !enough)
		return fresh;
	/* another thread was first, or too many processes were */
	fput(fresh->view.file);
	return m ?: ERR_PTR(-ENOMEM);
}

/**
 * struct l5_place - what is at a place of the pseudo file
 * @kind: of the area
 * @ring: the end that writes it, NULL if it is no ring
 * @index: of the page there
 */
struct l5_place {
	u32 kind;
	struct l5_end *ring;
	u32 index;
};

/* Rings repeat after their size. */
static struct l5_place l5_place_ring(u32 kind, struct l5_end *ring, u64 place)
{
	return (struct l5_place){
		.kind = kind,
		.ring = ring,
		.index = place & (l5_ring_places(ring) - 1),
	};
}

static struct l5_place l5_map_at(const struct l5_mapper *m, pgoff_t pgoff)
{
	struct l5_end *own = &m->conn->end[m->end];
	struct l5_end *peer = &m->conn->end[!m->end];

	if (pgoff >= L5_MMAP_RX >> PAGE_SHIFT)
		return l5_place_ring(L5_AREA_RX, peer,
				     pgoff - (L5_MMAP_RX >> PAGE_SHIFT));
	if (pgoff >= L5_MMAP_STATE >> PAGE_SHIFT)
		return (struct l5_place){ .kind = L5_AREA_STATE };
	if (pgoff >= L5_MMAP_PEER >> PAGE_SHIFT)
		return (struct l5_place){ .kind = L5_AREA_PEER };
	if (pgoff >= L5_MMAP_TX >> PAGE_SHIFT)
		return l5_place_ring(L5_AREA_TX, own,
				     pgoff - (L5_MMAP_TX >> PAGE_SHIFT));
	return (struct l5_place){ .kind = L5_AREA_CTRL };
}

/*
 * The page there, of an end that is not revoked: after that there may be no
 * rings any more. NULL if pages have been given back.
 */
static struct page *l5_map_page(const struct l5_mapper *m,
				const struct l5_place *p)
{
	const struct l5_end *own = &m->conn->end[m->end];
	const struct l5_end *peer = &m->conn->end[!m->end];

	switch (p->kind) {
	case L5_AREA_CTRL:
		return virt_to_page(own->ctrl);
	case L5_AREA_PEER:
		return virt_to_page(peer->ctrl);
	case L5_AREA_STATE:
		return virt_to_page(own->state);
	default:
		return p->ring->pages ? p->ring->pages->at[p->index] : NULL;
	}
}

/*
 * A ring that nobody writes any more, since an end is closed: its reader sees
 * the pages that are left, and what is written goes nowhere.
 */
static vm_fault_t l5_map_fill_dropped(struct vm_fault *vmf, struct l5_mapper *m,
				      const struct l5_place *p)
{
	struct page *page = l5_map_page(m, p);

	if (p->kind == L5_AREA_TX)
		return l5_view_scratch(&m->view, vmf, 2);
	/* a ring that was never written has no pages at all */
	return page ? l5_view_page(vmf, page) :
		      l5_view_scratch(&m->view, vmf, 0);
}

/* Bytes that a fault fills in, as far as they are in one mapping */
#define L5_MAP_AROUND	(16 * PAGE_SIZE)

/* Fill from @addr on what lies side by side. Return: bytes, 0 if not. */
static unsigned long l5_map_fill_part(struct vm_area_struct *vma,
				      struct l5_mapper *m, unsigned long addr,
				      unsigned long end)
{
	struct l5_place p = l5_map_at(m, linear_page_index(vma, addr));
	unsigned long num, left;

	if (!p.ring)
		return vm_insert_page(vma, addr, l5_map_page(m, &p)) ?
		       0 : PAGE_SIZE;
	if (p.ring->dropped || p.ring->demoted)
		return 0;
	num = min_t(unsigned long, (end - addr) >> PAGE_SHIFT,
		    l5_ring_places(p.ring) - p.index);
	left = num;
	if (vm_insert_pages(vma, addr, p.ring->pages->at + p.index, &left))
		return 0;
	return num << PAGE_SHIFT;
}

/*
 * Fill in what is around the place of a fault, if no page is there yet. Pages
 * that are there already stop that: another thread was first, or parts were
 * dropped (MADV_DONTNEED).
 */
static vm_fault_t l5_map_fill(struct vm_fault *vmf, struct l5_mapper *m)
{
	struct l5_place p = l5_map_at(m, vmf->pgoff);
	struct vm_area_struct *vma = vmf->vma;
	unsigned long addr, end, part;

	if (p.ring && p.ring->demoted)
		return l5_view_scratch(&m->view, vmf,
				       p.kind == L5_AREA_TX ? 2 : 0);
	if (p.ring && p.ring->dropped)
		return l5_map_fill_dropped(vmf, m, &p);
	addr = max(vma->vm_start, vmf->address & ~(L5_MAP_AROUND - 1));
	end = min(vma->vm_end, (vmf->address | (L5_MAP_AROUND - 1)) + 1);
	for (; addr < end; addr += part) {
		part = l5_map_fill_part(vma, m, addr, end);
		if (!part)
			return l5_view_page(vmf, l5_map_page(m, &p));
	}
	return VM_FAULT_NOPAGE;
}

/* Stand in for what was taken back. Pages that only the kernel writes stay. */
static vm_fault_t l5_map_fill_gone(struct vm_fault *vmf, struct l5_mapper *m)
{
	struct l5_place p = l5_map_at(m, vmf->pgoff);

	switch (p.kind) {
	case L5_AREA_STATE:
		return l5_view_page(vmf, l5_map_page(m, &p));
	case L5_AREA_CTRL:
		return l5_view_scratch(&m->view, vmf, 1);
	case L5_AREA_TX:
		return l5_view_scratch(&m->view, vmf, 2);
	default:
		/* these areas cannot be written */
		return l5_view_scratch(&m->view, vmf, 0);
	}
}

static vm_fault_t l5_map_fault(struct vm_fault *vmf)
{
	struct l5_mapper *m = vmf->vma->vm_file->private_data;
	struct l5_end *e = &m->conn->end[m->end];
	vm_fault_t ret;

	/* a task that is killed sees no answer, nor tries again */
	if (vmf->vma->vm_mm != m->mm || mutex_lock_killable(&e->map_lock))
		return VM_FAULT_SIGBUS;
	ret = e->revoked ? l5_map_fill_gone(vmf, m) : l5_map_fill(vmf, m);
	mutex_unlock(&e->map_lock);
	return ret;
}

/* One area more, in a child by MADV_DOFORK: its page tables stay empty. */
static void l5_map_open(struct vm_area_struct *vma)
{
	struct l5_mapper *m = vma->vm_file->private_data;

	atomic_inc(&m->areas);
	if (vma->vm_mm != m->mm)
		l5_vm_flags(vma, VM_WIPEONFORK | VM_DONTCOPY, 0);
}

static void l5_map_close(struct vm_area_struct *vma)
{
	struct l5_mapper *m = vma->vm_file->private_data;

	atomic_dec(&m->areas);
}

static const struct vm_operations_struct l5_map_ops = {
	.open		= l5_map_open,
	.close		= l5_map_close,
	.fault		= l5_map_fault,
	.may_split	= l5_map_split,
	.mremap		= l5_map_mremap,
};

/* The state page of this end, from now on. */
static void l5_map_state_begin(struct l5_sock *l5, struct l5_map_state *state)
{
	struct l5_end *own = l5_own(l5), *peer = l5_peer(l5);
	static atomic_t serial = ATOMIC_INIT(0);

	lockdep_assert_held(&own->map_lock);
	state->size = sizeof(*state);
	state->version = L5_MAP_VERSION;
	state->transport = l5->conn->link->transport;
	state->flags = l5->conn->link->map_flags;
	state->tx_size = own->size;
	state->tx_most = l5_ring_extent(l5);
	state->tx_extent = min(state->tx_most, l5_fold_window(own));
	state->rx_size = peer->size;
	/* no two ends have the same, unless very many are closed */
	state->watch = (u64)(u32)atomic_inc_return(&serial) << 32;
	/*
	 * R, pairs with S in l5_map_flag(): a task that changes what the flags
	 * are made from sees the page, or we see the change
	 */
	smp_store_mb(own->state, state);
	l5_region_noted(l5->conn, l5->end);
	l5_map_note(l5);
	l5_map_extent(l5);
}

/*
 * Make a connection ready for being mapped by this end.
 * Return: 0, -ENOMEM, -EINTR if the task is killed, -ENOTCONN if it is not to
 * be mapped any more, or -EOPNOTSUPP if a ring of it is not.
 */
static int l5_map_prepare(struct l5_sock *l5)
{
	struct l5_end *own = l5_own(l5);
	struct page *page = NULL;
	int err = 0;

	if (l5_ring_populate(l5->conn, l5->end,
			     READ_ONCE(l5->ln->ring_kb) << 10, L5_FOLD_LEAST))
		return -ENOMEM;
	/* not under map_lock: that may take as long as memory is short */
	if (!READ_ONCE(own->state)) {
		page = l5_conn_page(l5->conn, l5->end);
		if (!page)
			return -ENOMEM;
	}
	if (mutex_lock_killable(&own->map_lock)) {
		err = -EINTR;
		goto out;
	}
	if (own->revoked) {
		err = -ENOTCONN;
	} else if (own->demoted || l5_peer(l5)->demoted) {
		err = -EOPNOTSUPP;
	} else {
		if (!own->state) {
			l5_map_state_begin(l5, page_address(page));
			page = NULL;
		}
		set_bit(L5_END_MAPPED, &own->flags);
	}
	mutex_unlock(&own->map_lock);
	/* system calls may have left it more than it will need */
	if (!err && (own->fold > L5_FOLD_LEAST ||
		     l5_peer(l5)->fold > L5_FOLD_LEAST))
		l5_ring_idle_later(l5->conn, l5_idle_pause(l5->ln), false);
out:
	if (page)
		l5_conn_page_free(l5->conn, l5->end, page);
	return err;
}

/* May a socket be mapped, and if not, is there hope? */
static int l5_map_able(struct l5_sock *l5)
{
	switch (l5_state(l5)) {
	case L5_RINGS:
		/* only system calls know this form of a record */
		if (l5_peer(l5)->late_key)
			return -EOPNOTSUPP;
		return 0;
	case L5_BASE:
	case L5_MOVING:
		return l5_remote_undecided(l5) ? -EAGAIN : -EOPNOTSUPP;
	default:
		return -ENOTCONN;
	}
}

/* Most areas that a socket may have */
#define L5_AREAS	5

static void l5_map_area(struct l5_area *a, u32 kind, u64 offset, u64 length,
			u32 access)
{
	a->kind = kind;
	a->offset = offset;
	a->length = length;
	a->access = access;
}

/*
 * The areas of a socket with rings, or of a listener, by their offsets. Return:
 * how many.
 */
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
	l5_map_area(a++, L5_AREA_TX, L5_MMAP_TX, READ_ONCE(l5_own(l5)->size),
		    rw | L5_AREA_TWICE);
	l5_map_area(a++, L5_AREA_PEER, L5_MMAP_PEER, PAGE_SIZE, L5_AREA_READ);
	l5_map_area(a++, L5_AREA_STATE, L5_MMAP_STATE, PAGE_SIZE,
		    L5_AREA_READ);
	l5_map_area(a++, L5_AREA_RX, L5_MMAP_RX, READ_ONCE(l5_peer(l5)->size),
		    L5_AREA_READ | L5_AREA_TWICE);
	return L5_AREAS;
}

/*
 * Are these bytes of the pseudo file whole areas, side by side? The last one
 * that is to be mapped twice may be mapped once.
 *
 * Return: L5_AREA_* that all of them have, or -EINVAL.
 */
static int l5_map_run(struct l5_sock *l5, u64 at, u64 len)
{
	struct l5_area areas[L5_AREAS];
	u32 n = l5_map_areas(l5, areas), access = ~0, i;
	u64 part;

	for (i = 0; i < n && len; i++) {
		const struct l5_area *a = &areas[i];

		if (a->offset != at)
			continue;
		part = a->length;
		if (a->access & L5_AREA_TWICE && len != part)
			part *= 2;
		if (len < part)
			break;
		access &= a->access;
		at += part;
		len -= part;
	}
	return len ? -EINVAL : access & (L5_AREA_READ | L5_AREA_WRITE);
}

/**
 * l5_mmap() - map areas of a connection that lie side by side
 * @file: the socket's
 * @sock: the socket
 * @vma: where, and at its offset what the caller wants: L5_MMAP_*
 *
 * Context: mmap_lock held for writing.
 * Return: 0, -ENOTCONN, also if the connection was revoked, -EOPNOTSUPP without
 * rings or to a 32-bit program, -EINVAL if these are no areas or not whole ones
 * or without MAP_SHARED, -EACCES if one of them cannot be written, or if they
 * are to be run, -ENOMEM.
 */
int l5_mmap(struct file *file, struct socket *sock, struct vm_area_struct *vma)
{
	unsigned long len = vma->vm_end - vma->vm_start, flags = VM_MAYEXEC;
	u64 off = (u64)vma->vm_pgoff << PAGE_SHIFT;
	struct l5_sock *l5 = l5_sk(sock->sk);
	struct l5_mapper *m;
	int err, access;

	if (in_compat_syscall())
		return -EOPNOTSUPP;
	if (off == L5_MMAP_MAILBOX)
		return l5_transport_mailbox_mmap(l5, vma);
	err = l5_map_able(l5);
	if (err)
		return err;
	if (l5->bops->gone && l5->bops->gone(l5))
		return -ENOTCONN;
	if (off >= L5_MMAP_REGION)
		return l5_region_mmap(l5, vma);
	access = l5_map_run(l5, off, len);
	if (access < 0)
		return access;
	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	if (vma->vm_flags & VM_EXEC ||
	    (vma->vm_flags & VM_WRITE && !(access & L5_AREA_WRITE)))
		return -EACCES;
	if (!(access & L5_AREA_WRITE))
		flags |= VM_MAYWRITE;

	err = l5_map_prepare(l5);
	if (err)
		return err;
	/* from here on no ring grows; one may have meanwhile, see grow.c */
	if (l5_map_run(l5, off, len) != access)
		return -EINVAL;
	m = l5_mapper_get(l5);
	if (IS_ERR(m))
		return PTR_ERR(m);
	if (atomic_inc_return(&m->areas) > L5_AREAS_MAX) {
		atomic_dec(&m->areas);
		fput(m->view.file);
		return -ENOMEM;
	}
	l5_map_place(vma, &m->view, &l5_map_ops, VM_MIXEDMAP, flags);
	return 0;
}

static void l5_map_info_fill(struct l5_sock *l5, struct l5_map_info *info)
{
	struct l5_end *own = l5_own(l5);
	struct l5_mapper *m;

	info->tx_size = READ_ONCE(own->size);
	info->rx_size = READ_ONCE(l5_peer(l5)->size);
	if (l5_peer(l5)->files)
		info->features = L5_REC_FILES;
	if (l5_packets(l5))
		info->features |= L5_MAP_MESSAGES;
	if (l5->conn->link->mailbox)
		info->mailbox = l5->conn->link->mailbox(l5);
	mutex_lock(&own->map_lock);
	m = l5_mapper_find(own);
	if (m)
		info->id = m->id;
	mutex_unlock(&own->map_lock);
}

/*
 * Copy areas to an array of the caller's: those of the rings, then the regions.
 * Return: 0 and how many there are, -EFAULT, -ENOMEM.
 */
static int l5_map_areas_copy(struct l5_sock *l5, struct l5_area __user *to,
			     u32 room, u32 *n)
{
	struct l5_area areas[L5_AREAS], *regions;
	u32 more;
	int err = 0;

	*n = l5_map_areas(l5, areas);
	if (copy_to_user(to, areas, min(room, *n) * sizeof(*to)))
		return -EFAULT;
	if (l5_state(l5) == L5_LISTEN || !l5_region_any(l5))
		return 0;
	regions = kmalloc_array(L5_REGIONS_SEEN, sizeof(*regions), GFP_KERNEL);
	if (!regions)
		return -ENOMEM;
	more = l5_region_areas(l5, regions);
	if (room > *n && copy_to_user(to + *n, regions,
				      min(room - *n, more) * sizeof(*to)))
		err = -EFAULT;
	kfree(regions);
	*n += more;
	return err;
}

static int l5_map_info(struct l5_sock *l5, void __user *arg)
{
	struct l5_map_info info, said;
	u32 size;
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
	err = l5_map_areas_copy(l5, u64_to_user_ptr(said.areas), said.nareas,
				&info.nareas);
	if (err)
		return err;
	if (l5_state(l5) != L5_LISTEN)
		l5_map_info_fill(l5, &info);
	if (copy_to_user(arg, &info, min_t(size_t, size, sizeof(info))))
		return -EFAULT;
	return said.version_min > L5_MAP_VERSION ||
	       said.version_max < L5_MAP_VERSION ||
	       info.features & ~said.features ? -EPROTONOSUPPORT : 0;
}

static int l5_map_doorbell(struct l5_sock *l5, unsigned long bells)
{
	if (bells & ~(unsigned long)(L5_BELL_DATA | L5_BELL_ROOM))
		return -EINVAL;
	l5_link_ring(l5->conn, !l5->end, bells);
	if (bells & L5_BELL_DATA)
		l5_send_unread(l5);
	return 0;
}

static int l5_map_arm(struct l5_sock *l5, unsigned long bells)
{
	int ready = 0;

	if (bells & ~(unsigned long)(L5_BELL_DATA | L5_BELL_ROOM))
		return -EINVAL;
	if (bells & L5_BELL_DATA) {
		l5_link_arm_rx(l5);
		if (l5_rx_ended(l5) || l5_ring_readable(l5))
			ready |= L5_BELL_DATA;
	}
	if (bells & L5_BELL_ROOM) {
		l5_link_arm_tx(l5);
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

static int l5_map_room(struct l5_sock *l5, unsigned long len)
{
	struct l5_end *own = l5_own(l5);
	struct l5_mapper *m;
	u32 id;

	mutex_lock(&own->map_lock);
	m = l5_mapper_find(own);
	id = m ? m->id : 0;
	mutex_unlock(&own->map_lock);
	/* whoever lies about that may spoil what it writes, and no more */
	if (len > own->size || !id ||
	    (l5_load(&own->ctrl->tx_lock) & L5_LOCK_ID) != id)
		return -EINVAL;
	while (l5_fold_window(own) < len) {
		int err = l5_ring_more(l5, own, len);

		if (err)
			return err;
	}
	return 0;
}

/**
 * l5_map_ioctl() - the calls of a process that has a connection mapped
 * @l5: a socket in any state
 * @cmd: L5_IOC_*
 * @arg: the argument of @cmd
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
	case L5_IOC_ROOM:
	case L5_IOC_REGION:
		break;
	default:
		return -ENOTTY;
	}
	/* a cursor is 64 bits, and loaded or stored at once */
	if (in_compat_syscall())
		return -EOPNOTSUPP;
	if (cmd == L5_IOC_MAP_INFO && l5_state(l5) == L5_LISTEN &&
	    !l5_transport_mailbox_able(l5))
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
	case L5_IOC_ROOM:
		return l5_map_room(l5, arg);
	case L5_IOC_REGION:
		return l5_region_ioctl(l5, (void __user *)arg);
	case L5_IOC_WATCH:
		return l5_map_prepare(l5) ?: l5_watch(l5, (void __user *)arg);
	default:
		return l5_map_unlock(l5, arg);
	}
}
