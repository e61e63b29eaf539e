/* SPDX-License-Identifier: GPL-2.0 */
/* bpf(2), which the C library does not have. */
#ifndef L5_BPF_H
#define L5_BPF_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline long bpf(int cmd, union bpf_attr *attr)
{
	return syscall(SYS_bpf, cmd, attr, sizeof(*attr));
}

/* A program of a type, for a place of its own or 0: its descriptor, or -1. */
static inline int bpf_load(int type, int place, const struct bpf_insn *insns,
			   unsigned int n)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.prog_type = type;
	attr.expected_attach_type = place;
	attr.insns = (unsigned long)insns;
	attr.insn_cnt = n;
	attr.license = (unsigned long)"GPL";
	return bpf(BPF_PROG_LOAD, &attr);
}

/* Put it to its place in a cgroup, or take it away. */
static inline bool bpf_attach(int cgroup, int prog, int place, bool on)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.target_fd = cgroup;
	attr.attach_bpf_fd = prog;
	attr.attach_type = place;
	return !bpf(on ? BPF_PROG_ATTACH : BPF_PROG_DETACH, &attr);
}

#endif /* L5_BPF_H */
