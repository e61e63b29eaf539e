// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: the socket family, its operations, and all that the module is made of.
 */
#include <linux/module.h>
#include <linux/sctp.h>
#include <net/inet_sock.h>
#include <net/ipv6.h>
#include <net/sock.h>
#include <net/tcp.h>
#include <net/tcp_states.h>

#include "accept.h"
#include "acct.h"
#include "bootstrap.h"
#include "close.h"
#include "connect.h"
#include "deny.h"
#include "io.h"
#include "listen.h"
#include "map.h"
#include "netns.h"
#include "opts.h"
#include "pair.h"
#include "poll.h"
#include "proc.h"
#include "protosw.h"
#include "revoke.h"
#include "sock.h"
#include "sockopt.h"
#include "splice.h"
#include "state.h"
#include "sysctl.h"
#include "tcp.h"
#include "transport.h"
#include "unix.h"

static int l5_bind(struct socket *sock, struct l5_sockaddr *addr, int len)
{
	struct l5_sock *l5 = l5_sk(sock->sk);
	int err;

	err = l5_boot_judge(l5, SCTP_SOCKOPT_BINDX_ADD, addr, len);
	if (err)
		return err;
	l5_boot_borrow(l5);
	l5_boot_mode(l5->boot, sock);
	l5_opts_push(l5);
	err = l5->boot->ops->bind(l5->boot, addr, len);
	/* a link-local address binds to its device, too */
	if (!err)
		l5_opts_pull(l5);
	return err;
}

static int l5_getname(struct socket *sock, struct sockaddr *addr, int peer)
{
	struct l5_sock *l5 = l5_sk(sock->sk);

	return l5->boot->ops->getname(l5->boot, addr, peer);
}

static int l5_release(struct socket *sock)
{
	struct sock *sk = sock->sk;

	if (!sk)
		return 0;
	l5_protosw_release(sk);
	l5_sock_end(l5_sk(sk));
	sock_orphan(sk);
	sock->sk = NULL;
	sock_put(sk);
	return 0;
}

#ifdef CONFIG_COMPAT
#define L5_OPS_COMPAT	.compat_ioctl	= l5_compat_ioctl,
#else
#define L5_OPS_COMPAT
#endif

#define L5_OPS								\
	.owner		= THIS_MODULE,					\
	.release	= l5_release,					\
	.bind		= l5_bind,					\
	.connect	= l5_connect,					\
	.socketpair	= l5_socketpair,				\
	.accept		= l5_accept,					\
	.getname	= l5_getname,					\
	.poll		= l5_poll,					\
	.ioctl		= l5_ioctl,					\
	L5_OPS_COMPAT							\
	.gettstamp	= sock_gettstamp,				\
	.listen		= l5_listen,					\
	.shutdown	= l5_shutdown,					\
	.setsockopt	= l5_setsockopt,				\
	.getsockopt	= l5_getsockopt,				\
	.sendmsg	= l5_sendmsg,					\
	.recvmsg	= l5_recvmsg,					\
	.set_rcvlowat	= l5_set_rcvlowat,				\
	.mmap		= l5_mmap

static const struct proto_ops l5_ops = {
	L5_OPS,
#if L5_OLD_SPLICE
	.sendpage	= l5_sendpage,
#else
	.splice_eof	= l5_splice_eof,
#endif
	.splice_read	= l5_splice_read,
};

/* Messages are received into a pipe, and sent from one. */
static const struct proto_ops l5_packet_ops = {
	L5_OPS,
#if L5_OLD_SPLICE
	.sendpage	= sock_no_sendpage,
#endif
	.splice_read	= l5_packet_splice_read,
};

static const struct l5_boot_ops *const l5_families[L5PROTO_MAX] = {
	[L5PROTO_INET]	= &l5_tcp4_boot,
	[L5PROTO_INET6]	= &l5_tcp6_boot,
	[L5PROTO_UNIX]	= &l5_unix_boot,
};

/* No transport to other hosts, unless the build has one. */
const struct l5_transport_ops *const l5_transports[] __weak = { NULL };

static int l5_create(struct net *net, struct socket *sock, int protocol,
		     int kern)
{
	struct l5_sock *l5;
	int err;

	if (READ_ONCE(l5_refuse))
		return -EAFNOSUPPORT;
	if (sock->type != SOCK_STREAM && sock->type != SOCK_SEQPACKET)
		return -ESOCKTNOSUPPORT;
	if (protocol < 0)
		return -EINVAL;
	if (protocol >= L5PROTO_MAX)
		return -EPROTONOSUPPORT;
	if (sock->type == SOCK_SEQPACKET && !l5_families[protocol]->packets)
		return -ESOCKTNOSUPPORT;

	l5 = l5_sock_alloc(net, sock, kern);
	if (!l5)
		return -ENOBUFS;
	sock->ops = sock->type == SOCK_SEQPACKET ? &l5_packet_ops : &l5_ops;
	err = l5_sock_begin(l5, l5_families[protocol], kern);
	if (err) {
		sock_orphan(&l5->sk);
		sock->sk = NULL;
		sock_put(&l5->sk);
	}
	return err;
}

static struct net_proto_family l5_family_ops = {
	.owner	= THIS_MODULE,
	.create	= l5_create,
};

static int __net_init l5_net_start(struct net *net)
{
	struct l5_net *ln = l5_net(net);
	int err;

	l5_deny_init(ln);
	err = l5_net_begin(ln);
	if (err)
		return err;
	err = l5_transport_net_init(ln);
	if (err)
		goto err_net;
	err = l5_sysctl_init(net, ln);
	if (err)
		goto err_transport;
	err = l5_proc_init(net);
	if (err)
		goto err_sysctl;
	return 0;

err_sysctl:
	l5_sysctl_exit(ln);
err_transport:
	l5_transport_net_exit(ln);
err_net:
	l5_net_end(ln);
	return err;
}

static void __net_exit l5_net_stop(struct net *net)
{
	struct l5_net *ln = l5_net(net);

	l5_proc_exit(net);
	l5_deny_exit(ln);
	l5_sysctl_exit(ln);
	l5_transport_net_exit(ln);
	l5_net_end(ln);
}

static struct pernet_operations l5_net_ops = {
	.id	= &l5_net_id,
	.size	= sizeof(struct l5_net),
	.init	= l5_net_start,
	.exit	= l5_net_stop,
};

static void l5_net_exit(void)
{
	unregister_pernet_subsys(&l5_net_ops);
	/* rules end by an RCU callback, too */
	rcu_barrier();
}

static int __init l5_init(void)
{
	int err;

	BUILD_BUG_ON(L5_FAMILY_DEFAULT >= AF_MAX);
	BUILD_BUG_ON(sizeof(struct l5_ctrl) > PAGE_SIZE);
	BUILD_BUG_ON(sizeof(struct l5_map_state) > PAGE_SIZE);

	/* an index of the kernel, which checks its upper bound only */
	if (l5_family <= AF_UNSPEC || l5_family >= AF_MAX)
		return -EINVAL;
	if (!l5_protosw_valid())
		return -EINVAL;

	l5_wq = alloc_workqueue("l5", WQ_UNBOUND, 0);
	if (!l5_wq)
		return -ENOMEM;
	/* apart: this work may wait for a process that lacks memory */
	err = -ENOMEM;
	l5_drop_wq = alloc_workqueue("l5_drop", WQ_UNBOUND, WQ_MAX_ACTIVE);
	if (!l5_drop_wq)
		goto err_wq;
	err = proto_register(&l5_proto, 1);
	if (err)
		goto err_drop_wq;
	err = l5_revoke_init();
	if (err)
		goto err_proto;
	l5_acct_init();
	l5_transport_list(l5_transports);
	err = register_pernet_subsys(&l5_net_ops);
	if (err)
		goto err_revoke;
	err = l5_unix_init();
	if (err)
		goto err_net;
	err = l5_transport_init();
	if (err)
		goto err_unix;
	l5_family_ops.family = l5_family;
	err = sock_register(&l5_family_ops);
	if (err) {
		pr_err("af_l5: cannot register family %d: %d\n", l5_family,
		       err);
		goto err_transport;
	}
	/* a program may have sockets by now, so nothing fails any more */
	l5_protosw_init(&l5_ops);
	pr_info("af_l5: family %d, ABI version %d, which is not stable yet\n",
		l5_family, L5_MAP_VERSION);
	return 0;

err_transport:
	l5_transport_exit();
err_unix:
	l5_unix_exit();
err_net:
	l5_net_exit();
err_revoke:
	l5_revoke_exit();
err_proto:
	proto_unregister(&l5_proto);
err_drop_wq:
	destroy_workqueue(l5_drop_wq);
err_wq:
	destroy_workqueue(l5_wq);
	/* to a loader EEXIST says that the module is there already */
	return err == -EEXIST ? -EBUSY : err;
}

static void __exit l5_exit(void)
{
	l5_protosw_exit();
	sock_unregister(l5_family);
	/* the last packet of a closed listener may still be in our callbacks */
	synchronize_net();
	l5_unix_exit();
	l5_transport_exit();
	/* the last instructions of a work item may still be to run */
	flush_workqueue(l5_drop_wq);
	flush_workqueue(l5_wq);
	/* connections and sockets end by RCU callbacks of ours */
	rcu_barrier();
	l5_net_exit();
	l5_revoke_exit();
	proto_unregister(&l5_proto);
	destroy_workqueue(l5_drop_wq);
	destroy_workqueue(l5_wq);
}

module_init(l5_init);
module_exit(l5_exit);

MODULE_DESCRIPTION("AF_L5: sockets over shared memory and RDMA");
MODULE_LICENSE("GPL");
