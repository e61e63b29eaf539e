// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: the second door, socket(AF_INET or AF_INET6, SOCK_STREAM, IPPROTO_L5).
 *
 * It makes the same socket as the family does. A program, or a BPF program that
 * chooses the protocol for others, needs to change the last argument of
 * socket() alone.
 *
 * The door is shut until the administrator opens it: a policy that knows
 * families (seccomp, AppArmor) and lets a task have AF_INET was not asked about
 * AF_L5. What security modules and BPF programs of cgroups make of the protocol
 * is in Documentation/security.md.
 */
#include <linux/bpf-cgroup.h>
#include <linux/module.h>
#include <net/protocol.h>
#include <net/sock.h>
#include <net/transp_v6.h>

#include "bootstrap.h"
#include "protosw.h"
#include "sock.h"
#include "tcp.h"

static int l5_protocol = IPPROTO_L5;
module_param_named(protocol, l5_protocol, int, 0444);
MODULE_PARM_DESC(protocol, "protocol number of AF_INET and AF_INET6 to register (257 to 261), 0: none");

static bool l5_inet;
module_param_named(inet, l5_inet, bool, 0644);
MODULE_PARM_DESC(inet, "make sockets for AF_INET and AF_INET6 with that protocol");

/*
 * The kernel has begun a TCP-like socket: what it set beyond struct sock is
 * what no socket of the family has.
 */
static int l5_protosw_create(struct sock *sk)
{
	struct l5_sock *l5 = l5_sk(sk);
	const struct l5_boot_ops *bops;

	bops = sk->sk_family == AF_INET ? &l5_tcp4_boot : &l5_tcp6_boot;
	memset((u8 *)sk + sizeof(*sk), 0, sizeof(*l5) - sizeof(*sk));
	sk->sk_ipv6only = 0;
	l5_sock_setup(sk);
	/* the kernel's own code would take it for what the number was before */
	if (!READ_ONCE(l5_inet) || READ_ONCE(l5_refuse) || sk->sk_kern_sock)
		return -EPROTONOSUPPORT;
	l5->cgroup_told = true;
	return l5_sock_begin(l5, bops, 0);
}

/* It could not be made, or a BPF program of its cgroup has refused it. */
static void l5_protosw_destroy(struct sock *sk)
{
	if (l5_sk(sk)->boot)
		l5_sock_end(l5_sk(sk));
}

/* The kernel calls it then, without a look whether there is one. */
static void l5_protosw_unhash(struct sock *sk)
{
}

/**
 * l5_protosw_release() - tell the cgroup's programs of the end of a socket
 * @sk: the socket, as it is before anything of it has ended
 *
 * These programs hear of the bootstrap, as of any socket of TCP. What came by
 * this door they have heard of as well, so a program that counts hears of its
 * end.
 *
 * Context: process.
 */
void l5_protosw_release(struct sock *sk)
{
	if (l5_sk(sk)->cgroup_told)
		BPF_CGROUP_RUN_PROG_INET_SOCK_RELEASE(sk);
}

static struct inet_protosw l5_protosw4 = {
	.type	= SOCK_STREAM,
	.prot	= &l5_proto,
};

/* Numbers that the kernel has for others, whose code would find our sockets. */
#define L5_PROTOCOL_SMC		256

/**
 * l5_protosw_valid() - may the number that was asked for be registered?
 *
 * Context: the module begins.
 */
bool l5_protosw_valid(void)
{
	return !l5_protocol ||
	       (l5_protocol > IPPROTO_RAW && l5_protocol < IPPROTO_MAX &&
		l5_protocol != L5_PROTOCOL_SMC && l5_protocol != IPPROTO_MPTCP);
}

#if IS_ENABLED(CONFIG_IPV6)
static struct inet_protosw l5_protosw6 = {
	.type	= SOCK_STREAM,
	.prot	= &l5_proto,
};

static bool l5_protosw6_there;

static void l5_protosw6_init(const struct proto_ops *ops)
{
	l5_protosw6.protocol = l5_protocol;
	l5_protosw6.ops = ops;
	/* fails for numbers that are the kernel's own alone */
	l5_protosw6_there = !inet6_register_protosw(&l5_protosw6);
}

static void l5_protosw6_exit(void)
{
	if (l5_protosw6_there)
		inet6_unregister_protosw(&l5_protosw6);
}
#else
static void l5_protosw6_init(const struct proto_ops *ops)
{
}

static void l5_protosw6_exit(void)
{
}
#endif

/**
 * l5_protosw_init() - register the protocol
 * @ops: what its sockets do
 *
 * Programs may have sockets as soon as it is called, so the module must not
 * fail to begin any more.
 *
 * Context: the module begins, and can make sockets; l5_proto is registered.
 */
void l5_protosw_init(const struct proto_ops *ops)
{
	if (!l5_protocol)
		return;
	l5_proto.init = l5_protosw_create;
	l5_proto.destroy = l5_protosw_destroy;
	l5_proto.unhash = l5_protosw_unhash;
	l5_protosw6_init(ops);
	l5_protosw4.protocol = l5_protocol;
	l5_protosw4.ops = ops;
	inet_register_protosw(&l5_protosw4);
}

/**
 * l5_protosw_exit() - undo l5_protosw_init()
 */
void l5_protosw_exit(void)
{
	if (!l5_protocol)
		return;
	inet_unregister_protosw(&l5_protosw4);
	l5_protosw6_exit();
}
