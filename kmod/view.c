// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: files behind vmas, whose pages can be taken back.
 *
 * A view stands in a vma for the socket that was mapped, so that the mapping
 * does not keep the socket. Its pages come by faults alone, under a lock that
 * the owner of the view takes to empty it: so all that was ever filled is
 * found.
 */
#include <linux/anon_inodes.h>
#include <linux/file.h>
#include <linux/mm.h>
#include <linux/pagemap.h>

#include "compat.h"
#include "view.h"

/**
 * l5_view_open() - make the file that vmas are to refer to
 * @view: zeroed, and part of the object that @fops->release frees
 * @fops: of the file
 * @data: its private data
 *
 * All anonymous files share one inode. So the address space in which the vmas
 * are linked, and by which they can be found and emptied, is the view's own.
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
 * l5_view_close() - end a view; no vma is left
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
 * l5_view_zap() - take pages out of a view
 * @view: the view
 * @from: the first byte
 * @len: bytes; 0: all there are
 *
 * Context: may sleep; the caller holds the lock that faults take, and has seen
 * to it that they fill the view no more.
 */
void l5_view_zap(struct l5_view *view, u64 from, u64 len)
{
	unmap_mapping_range(&view->mapping, from, len, 1);
}

/**
 * l5_view_marked() - is there a marker at the place of a fault, and no page?
 * @vmf: the fault
 *
 * A page is put only where nothing is. If there is another page, another thread
 * was quicker, and the access is simply tried again. But there may be a marker,
 * since userfaultfd's asynchronous write protection leaves markers in mappings
 * of all kinds (since 6.7, not in 7.2). The kernel comes here for a marker as
 * often as the access is tried again, and does not hear signals meanwhile.
 */
bool l5_view_marked(const struct vm_fault *vmf)
{
	return vmf->flags & FAULT_FLAG_ORIG_PTE_VALID &&
	       !pte_none(vmf->orig_pte);
}

/**
 * l5_view_page() - answer a fault with a page
 * @vmf: the fault
 * @page: the page
 *
 * Context: as l5_view_zap().
 * Return: the result of the fault.
 */
vm_fault_t l5_view_page(struct vm_fault *vmf, struct page *page)
{
	if (l5_view_marked(vmf))
		return VM_FAULT_SIGBUS;
	return vmf_insert_page(vmf->vma, vmf->address, page);
}

/**
 * l5_view_bare() - answer a fault with a page that cannot be pinned
 * @vmf: the fault, in a vma that is placed with VM_PFNMAP
 * @page: the page; no reference is taken, so the view is to be emptied before
 *	the page is freed
 *
 * Context: as l5_view_zap().
 * Return: the result of the fault.
 */
vm_fault_t l5_view_bare(struct vm_fault *vmf, struct page *page)
{
	if (l5_view_marked(vmf))
		return VM_FAULT_SIGBUS;
	return vmf_insert_pfn(vmf->vma, vmf->address, page_to_pfn(page));
}

/**
 * l5_view_own() - a page that a view has for itself
 * @view: the view
 * @which: which one, less than L5_SCRATCH_PAGES
 *
 * Context: may sleep; needs no lock.
 * Return: the page, of zeros when it was first asked for, or NULL.
 */
struct page *l5_view_own(struct l5_view *view, unsigned int which)
{
	struct page *page = READ_ONCE(view->scratch[which]), *was;

	if (page)
		return page;
	page = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	if (!page)
		return NULL;
	was = cmpxchg(&view->scratch[which], NULL, page);
	if (was)
		put_page(page);
	return was ?: page;
}

/**
 * l5_view_scratch() - answer a fault with a page of no meaning
 * @view: the view
 * @vmf: the fault
 * @which: which page of the view's, less than L5_SCRATCH_PAGES; a page that can
 *	be written is not to be one that another area shows
 *
 * Context: as l5_view_zap().
 * Return: the result of the fault.
 */
vm_fault_t l5_view_scratch(struct l5_view *view, struct vm_fault *vmf,
			   unsigned int which)
{
	struct page *page = l5_view_own(view, which);

	return page ? l5_view_page(vmf, page) : VM_FAULT_OOM;
}

/**
 * l5_map_split() - may_split of a view: it is whole or gone
 * @vma: of the view
 * @addr: where it would be split
 *
 * Return: -EINVAL.
 */
int l5_map_split(struct vm_area_struct *vma, unsigned long addr)
{
	return -EINVAL;
}

/**
 * l5_map_mremap() - mremap of a view: the same
 * @vma: of the view
 *
 * Return: -EINVAL.
 */
int l5_map_mremap(struct vm_area_struct *vma)
{
	return -EINVAL;
}

/**
 * l5_map_place() - let a vma show a view
 * @vma: the vma that mmap() of a socket asks for
 * @view: the view, with a reference to its file, which goes to @vma
 * @ops: with the function for its faults
 * @set: VM_MIXEDMAP, or VM_PFNMAP if its pages come by l5_view_bare()
 * @clear: flags that @vma is not to have
 *
 * Context: mmap_lock held for writing.
 */
void l5_map_place(struct vm_area_struct *vma, struct l5_view *view,
		  const struct vm_operations_struct *ops, unsigned long set,
		  unsigned long clear)
{
	vma_set_file(vma, view->file);
	fput(view->file);
	vma->vm_ops = ops;
	/* the mapping neither keeps the socket nor goes to a child */
	l5_vm_flags(vma, set | VM_DONTEXPAND | VM_DONTDUMP | VM_DONTCOPY,
		    clear);
}
