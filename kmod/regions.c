// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: what programs do with regions: L5_IOC_REGION, and mmap().
 *
 * Each mapping has a view of its own, and each end a list of its views by which
 * it can lose the region, see region.c. A fault fills in bare numbers of pages.
 * A fault after its end has lost the region gets memory that this one mapping
 * has for itself. All that a fault allocates it has before it takes a lock:
 * nobody waits for a process that is short of memory, or of time.
 */
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "compat.h"
#include "link.h"
#include "region.h"
#include "regions.h"
#include "view.h"

/* Mappings of a region that an end may have; all are looked at to empty them */
#define L5_REGION_VIEWS		256

/* Bytes that a fault fills in */
#define L5_REGION_AROUND	(16 * PAGE_SIZE)

/* Tell the caller of a region. */
static void l5_region_say(const struct l5_region *r, int end,
			  struct l5_region_arg *a)
{
	a->index = r->number;
	a->access = l5_region_access(r, end);
	a->length = l5_region_length(r);
	a->offset = l5_region_offset(r);
}

static int l5_region_make(struct l5_sock *l5, struct l5_region_arg *a)
{
	struct l5_region *r;
	u32 access = a->access;

	if (a->index || !a->length ||
	    (access != L5_AREA_READ &&
	     access != (L5_AREA_READ | L5_AREA_WRITE)))
		return -EINVAL;
	if (a->length > L5_REGION_MAX)
		return -EFBIG;
	r = l5_region_new(l5, PAGE_ALIGN(a->length) >> PAGE_SHIFT, access);
	if (IS_ERR(r))
		return PTR_ERR(r);
	l5_region_say(r, l5->end, a);
	a->access = access;
	l5_region_put(r);
	return 0;
}

static int l5_region_get(struct l5_sock *l5, struct l5_region_arg *a)
{
	struct l5_region *r = l5_region_seek(l5, a->index, ~0);

	if (!r)
		return -ENOENT;
	l5_region_say(r, l5->end, a);
	l5_region_put(r);
	return 0;
}

/**
 * l5_region_ioctl() - L5_IOC_REGION
 * @l5: a socket in state L5_RINGS
 * @arg: the address of a &struct l5_region_arg
 *
 * Return: as uapi/l5.h says.
 */
int l5_region_ioctl(struct l5_sock *l5, void __user *arg)
{
	struct l5_region_arg a;
	u64 lost;
	u32 size;
	int err;

	BUILD_BUG_ON(sizeof(a) < L5_REGION_SIZE_VER0);
	if (get_user(size, (u32 __user *)arg))
		return -EFAULT;
	if (size < L5_REGION_SIZE_VER0)
		return -EINVAL;
	if (size > PAGE_SIZE)
		return -E2BIG;
	err = copy_struct_from_user(&a, sizeof(a), arg, size);
	if (err)
		return err;
	if (a.offset || a.lost || a.flags || a.reserved ||
	    (a.op != L5_REGION_MAKE && (a.access || a.length)))
		return -EINVAL;
	if (!l5->conn->link->regions)
		return -EOPNOTSUPP;
	/* BL, pairs with itself: the word, then what the region is */
	lost = READ_ONCE(l5_own(l5)->regions_lost);
	smp_rmb();
	switch (a.op) {
	case L5_REGION_MAKE:
		err = l5_region_make(l5, &a);
		break;
	case L5_REGION_GET:
		err = l5_region_get(l5, &a);
		break;
	case L5_REGION_UNSHARE:
	case L5_REGION_END:
		return l5_region_take(l5, a.index, a.op == L5_REGION_END);
	default:
		return -EINVAL;
	}
	if (err)
		return err;
	a.size = sizeof(a);
	a.lost = lost;
	if (!copy_to_user(arg, &a, min_t(size_t, size, sizeof(a))))
		return 0;
	/* nobody was told the number */
	if (a.op == L5_REGION_MAKE)
		l5_region_take(l5, a.index, true);
	return -EFAULT;
}

static int l5_region_release(struct inode *inode, struct file *file)
{
	struct l5_region_view *v = file->private_data;
	struct l5_region *r = v->region;

	if (r) {
		spin_lock(&r->lock);
		list_del(&v->view.node);
		r->nviews[v->side]--;
		spin_unlock(&r->lock);
		l5_region_put(r);
	}
	l5_view_close(&v->view);
	kfree(v);
	return 0;
}

static const struct file_operations l5_region_fops = {
	.owner		= THIS_MODULE,
	.release	= l5_region_release,
	.llseek		= noop_llseek,
};

/**
 * struct l5_region_fault - what a fault is to fill in
 * @vma: the mapping
 * @view: of the mapping
 */
struct l5_region_fault {
	struct vm_area_struct *vma;
	const struct l5_region_view *view;
};

/* Page of the region that a place of a mapping shows */
static struct page *l5_region_page(const struct l5_region_fault *f,
				   unsigned long addr)
{
	const struct l5_region *r = f->view->region;

	return r->pages[linear_page_index(f->vma, addr) -
			(l5_region_offset(r) >> PAGE_SHIFT)];
}

/* Fill in one place, with the spinlock of its page table held. */
static int l5_region_set(pte_t *pte, unsigned long addr, void *data)
{
	const struct l5_region_fault *f = data;
	struct vm_area_struct *vma = f->vma;
	unsigned long pfn;

	/*
	 * BP, pairs with BQ: the page table is there, then whether the region
	 * is lost. If not, it has its pages for as long as we have the lock.
	 */
	smp_mb();
	if (READ_ONCE(f->view->region->losing) & BIT(f->view->side))
		return -ENOENT;
	if (!pte_none(ptep_get(pte)))
		return 0;
	pfn = page_to_pfn(l5_region_page(f, addr));
	set_pte_at(vma->vm_mm, addr, pte,
		   pte_mkspecial(pfn_pte(pfn, vma->vm_page_prot)));
	return 0;
}

/* Show what is around the place of a fault. Return: -ENOENT if it is lost. */
static int l5_region_show(struct vm_fault *vmf, struct l5_region_view *v)
{
	struct vm_area_struct *vma = vmf->vma;
	struct l5_region_fault f = { .vma = vma, .view = v };
	unsigned long addr, end;

	addr = max(vma->vm_start, vmf->address & ~(L5_REGION_AROUND - 1));
	end = min(vma->vm_end, (vmf->address | (L5_REGION_AROUND - 1)) + 1);
	return apply_to_page_range(vma->vm_mm, addr, end - addr, l5_region_set,
				   &f);
}

/* Memory of the mapping's own, the same page at all places, by its first use */
static vm_fault_t l5_region_scratch(struct vm_fault *vmf,
				    struct l5_region_view *v)
{
	struct page *page = l5_view_own(&v->view, 0);

	return page ? l5_view_bare(vmf, page) : VM_FAULT_OOM;
}

static vm_fault_t l5_region_fault(struct vm_fault *vmf)
{
	struct l5_region_view *v = vmf->vma->vm_file->private_data;

	if (l5_view_marked(vmf))
		return VM_FAULT_SIGBUS;
	switch (l5_region_show(vmf, v)) {
	case 0:
		return VM_FAULT_NOPAGE;
	case -ENOENT:
		return l5_region_scratch(vmf, v);
	default:
		return VM_FAULT_OOM;
	}
}

static const struct vm_operations_struct l5_region_vm_ops = {
	.fault		= l5_region_fault,
	.may_split	= l5_map_split,
	.mremap		= l5_map_mremap,
};

/* A view of a region, whose reference goes to it, or an error. */
static struct l5_region_view *l5_region_view(struct l5_region *r, int side)
{
	struct l5_region_view *v;
	int err;

	v = kzalloc(sizeof(*v), GFP_KERNEL_ACCOUNT);
	if (!v)
		return ERR_PTR(-ENOMEM);
	err = l5_view_open(&v->view, &l5_region_fops, v);
	if (err) {
		kfree(v);
		return ERR_PTR(err);
	}
	spin_lock(&r->lock);
	if (READ_ONCE(r->losing) & BIT(side))
		err = -ENOENT;
	else if (r->nviews[side] >= L5_REGION_VIEWS)
		err = -ENOMEM;
	if (!err) {
		v->region = r;
		v->side = side;
		list_add(&v->view.node, &r->views[side]);
		r->nviews[side]++;
	}
	spin_unlock(&r->lock);
	if (err) {
		fput(v->view.file);
		return ERR_PTR(err);
	}
	return v;
}

/* What a mapping of a region may not become, or an error. */
static long l5_region_forbid(const struct vm_area_struct *vma,
			     const struct l5_region *r, int end)
{
	u64 at = ((u64)vma->vm_pgoff << PAGE_SHIFT) - l5_region_offset(r);
	u64 length = l5_region_length(r);
	bool write = l5_region_access(r, end) & L5_AREA_WRITE;

	if (!(vma->vm_flags & VM_SHARED) || at >= length ||
	    vma->vm_end - vma->vm_start > length - at)
		return -EINVAL;
	if (vma->vm_flags & VM_EXEC || (vma->vm_flags & VM_WRITE && !write))
		return -EACCES;
	return VM_MAYEXEC | (write ? 0 : VM_MAYWRITE);
}

/**
 * l5_region_mmap() - map pages of a region
 * @l5: a socket in state L5_RINGS
 * @vma: where, its offset is L5_MMAP_REGION or more
 *
 * A child of fork() has no mapping and may map for itself, as with the rings.
 * MADV_DOFORK is refused (VM_IO), so there is never more than the one vma of a
 * view.
 *
 * Context: mmap_lock held for writing.
 * Return: 0, -ENOENT if there is no such region for this end, -EINVAL if it is
 * not as long, if no region can be there or without MAP_SHARED, -EACCES if this
 * end may not write to it or it is to be run, -ENOMEM.
 */
int l5_region_mmap(struct l5_sock *l5, struct vm_area_struct *vma)
{
	u64 off = ((u64)vma->vm_pgoff << PAGE_SHIFT) - L5_MMAP_REGION;
	struct l5_region_view *v;
	struct l5_region *r;
	long forbid;

	off >>= L5_REGION_SHIFT;
	if (off > L5_REGION_PLACE)
		return -EINVAL;
	r = l5_region_seek(l5, off, L5_REGION_PLACE);
	if (!r)
		return -ENOENT;
	forbid = l5_region_forbid(vma, r, l5->end);
	if (forbid < 0) {
		l5_region_put(r);
		return forbid;
	}
	v = l5_region_view(r, l5->end);
	if (IS_ERR(v)) {
		l5_region_put(r);
		return PTR_ERR(v);
	}
	l5_map_place(vma, &v->view, &l5_region_vm_ops, VM_PFNMAP | VM_IO,
		     forbid);
	return 0;
}
