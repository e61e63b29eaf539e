// SPDX-License-Identifier: GPL-2.0
/*
 * The protocol of sockets that tasks of a cgroup make: those that would be TCP
 * are of AF_L5. For Linux 6.6 and later; see tools/l5cgroup.c.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

/* of <sys/socket.h> and <netinet/in.h>, which are not for BPF */
#define AF_INET		2
#define AF_INET6	10
#define SOCK_STREAM	1
/* SOCK_CLOEXEC, SOCK_NONBLOCK */
#define SOCK_FLAGS	(02000000 | 04000)
#define IPPROTO_TCP	6
#define IPPROTO_MPTCP	262

/* Set before it is loaded: the number, and the families that want it */
const volatile int l5_protocol;
const volatile int l5_inet;
const volatile int l5_inet6;

/* How many sockets were asked for so */
__u64 l5_upgraded;

struct {
	__uint(type, BPF_MAP_TYPE_CGROUP_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} l5_cgroup SEC(".maps");

/*
 * Not 0: that is the protocol, and the kernel's own function is not asked. With
 * MPTCP as well: newer runtimes listen by that if nobody says what they want.
 */
SEC("fmod_ret/update_socket_protocol")
int BPF_PROG(l5_upgrade, int family, int type, int protocol, int ret)
{
	if (ret)
		return ret;
	/* what has other flags is the kernel's to refuse */
	if ((type & ~SOCK_FLAGS) != SOCK_STREAM)
		return 0;
	if (!(family == AF_INET && l5_inet) &&
	    !(family == AF_INET6 && l5_inet6))
		return 0;
	if (protocol && protocol != IPPROTO_TCP && protocol != IPPROTO_MPTCP)
		return 0;
	if (bpf_current_task_under_cgroup(&l5_cgroup, 0) != 1)
		return 0;
	__sync_fetch_and_add(&l5_upgraded, 1);
	return l5_protocol;
}

char LICENSE[] SEC("license") = "GPL";
