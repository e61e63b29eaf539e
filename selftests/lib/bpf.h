/* SPDX-License-Identifier: GPL-2.0 */
/* bpf(2), which the C library does not have. */
#ifndef L5_BPF_H
#define L5_BPF_H

#include <linux/bpf.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline long bpf(int cmd, union bpf_attr *attr)
{
	return syscall(SYS_bpf, cmd, attr, sizeof(*attr));
}

#endif /* L5_BPF_H */
