/* SPDX-License-Identifier: GPL-2.0 */
/* mmap(), and the calls of a process that has mapped a connection. */
#ifndef L5_KMOD_MAP_H
#define L5_KMOD_MAP_H

#include "l5.h"

int l5_mmap(struct file *file, struct socket *sock, struct vm_area_struct *vma);
int l5_map_ioctl(struct l5_sock *l5, unsigned int cmd, unsigned long arg);

#endif /* L5_KMOD_MAP_H */
