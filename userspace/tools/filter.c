// SPDX-License-Identifier: GPL-2.0
/*
 * The filter of system calls of l5run --static. See filter.h.
 *
 * The kernel remembers of a filter which calls it lets through whatever their
 * arguments are, and does not run it for them: only socket() pays.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <seccomp.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../lib/l5_env.h"
#include "filter.h"

#ifndef IPPROTO_MPTCP
#define IPPROTO_MPTCP 262
#endif

/* The arguments are ints: the kernel does not look at the upper half. */
#define INT_BITS	0xffffffffu
#define TYPE_BITS	(INT_BITS & ~(SOCK_NONBLOCK | SOCK_CLOEXEC))

/* Far more than the rules need. */
#define PROGRAM_MAX	4096

/*
 * Go listens by MPTCP, if it can, without having been asked to. Such a listener
 * serves clients of TCP, and every client of MPTCP can do with TCP.
 */
static const int inet_protocols[] = { 0, IPPROTO_TCP, IPPROTO_MPTCP, -1 };
static const int unix_protocols[] = { 0, PF_UNIX, -1 };

static const int *protocols_of(int af)
{
	return af == AF_UNIX ? unix_protocols : inet_protocols;
}

int filter_l5proto(unsigned int sockets, int family, int type, int protocol)
{
	const int *p;
	int i;

	if ((type & TYPE_BITS) != SOCK_STREAM)
		return -1;
	for (i = 0; i < L5PROTO_MAX; i++) {
		if (!(sockets & 1u << i) || l5_sockets[i].af != family)
			continue;
		for (p = protocols_of(family); *p >= 0; p++)
			if (*p == protocol)
				return i;
	}
	return -1;
}

/* What is not marked as decided about already */
static int add_rule(scmp_filter_ctx ctx, int family, int protocol)
{
	const struct scmp_arg_cmp args[] = {
		SCMP_A0(SCMP_CMP_MASKED_EQ, INT_BITS, family),
		SCMP_A1(SCMP_CMP_MASKED_EQ, TYPE_BITS, SOCK_STREAM),
		SCMP_A2(SCMP_CMP_MASKED_EQ, INT_BITS, protocol),
		SCMP_A3(SCMP_CMP_NE, L5_LEAVE),
	};

	return seccomp_rule_add_array(ctx, SCMP_ACT_NOTIFY, SCMP_SYS(socket),
				      4, args);
}

static int add_rules(scmp_filter_ctx ctx, unsigned int sockets)
{
	const int *p;
	int i, ret;

	for (i = 0; i < L5PROTO_MAX; i++) {
		if (!(sockets & 1u << i))
			continue;
		for (p = protocols_of(l5_sockets[i].af); *p >= 0; p++) {
			ret = add_rule(ctx, l5_sockets[i].af, *p);
			if (ret)
				return ret;
		}
	}
	return 0;
}

/* The filter's program; returns its length in bytes, or -errno. */
static ssize_t make_program(unsigned int sockets, struct sock_filter *code,
			    size_t size)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
	int fd = memfd_create("filter", MFD_CLOEXEC);
	ssize_t ret = -ENOMEM;

	if (!ctx || fd < 0)
		goto out;
	/* programs of another word size are as they were */
	ret = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ALLOW);
	if (!ret)
		ret = add_rules(ctx, sockets);
	if (!ret)
		ret = seccomp_export_bpf(ctx, fd);
	if (ret)
		goto out;
	ret = pread(fd, code, size, 0);
	if (ret < 0)
		ret = -errno;
	else if (!ret || ret == (ssize_t)size || ret % sizeof(*code))
		ret = -E2BIG;
out:
	if (fd >= 0)
		close(fd);
	seccomp_release(ctx);
	return ret;
}

int filter_install(unsigned int sockets)
{
	static struct sock_filter code[PROGRAM_MAX];
	struct sock_fprog program = { .filter = code };
	ssize_t len = make_program(sockets, code, sizeof(code));
	int fd;

	if (len < 0)
		return len;
	program.len = len / sizeof(*code);
	/* by libseccomp 2.5 the last flag cannot be had */
	fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
		     SECCOMP_FILTER_FLAG_NEW_LISTENER |
		     SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, &program);
	return fd < 0 ? -errno : fd;
}
