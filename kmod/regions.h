/* SPDX-License-Identifier: GPL-2.0 */
/* What programs do with regions. */
#ifndef L5_KMOD_REGIONS_H
#define L5_KMOD_REGIONS_H

#include "l5.h"

int l5_region_ioctl(struct l5_sock *l5, void __user *arg);
int l5_region_mmap(struct l5_sock *l5, struct vm_area_struct *vma);

#endif /* L5_KMOD_REGIONS_H */
