/* SPDX-License-Identifier: GPL-2.0 */
/* Files behind vmas, whose pages can be taken back. */
#ifndef L5_VIEW_H
#define L5_VIEW_H

#include <linux/fs.h>
#include <linux/list.h>
#include <linux/mm_types.h>

/* Pages that a view may need once its own were taken back */
#define L5_SCRATCH_PAGES	3

/**
 * struct l5_view - a file behind vmas, whose pages can be taken out of them
 * @file: the file
 * @mapping: finds its vmas
 * @scratch: what a fault gets once they were, allocated when first needed
 * @node: in the list by which views are found to take their pages back
 */
struct l5_view {
	struct file *file;
	struct address_space mapping;
	struct page *scratch[L5_SCRATCH_PAGES];
	struct list_head node;
};

int l5_view_open(struct l5_view *view, const struct file_operations *fops,
		 void *data);
void l5_view_close(struct l5_view *view);
void l5_view_zap(struct l5_view *view, u64 from, u64 len);
bool l5_view_marked(const struct vm_fault *vmf);
vm_fault_t l5_view_page(struct vm_fault *vmf, struct page *page);
vm_fault_t l5_view_bare(struct vm_fault *vmf, struct page *page);
struct page *l5_view_own(struct l5_view *view, unsigned int which);
vm_fault_t l5_view_scratch(struct l5_view *view, struct vm_fault *vmf,
			   unsigned int which);
void l5_map_place(struct vm_area_struct *vma, struct l5_view *view,
		  const struct vm_operations_struct *ops, unsigned long set,
		  unsigned long clear);
int l5_map_split(struct vm_area_struct *vma, unsigned long addr);
int l5_map_mremap(struct vm_area_struct *vma);

#endif /* L5_VIEW_H */
