// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: the socket family, its operations, and the state of a socket.
 */
#include <linux/module.h>
#include <linux/sctp.h>
#include <net/inet_sock.h>
#include <net/ipv6.h>
#include <net/sock.h>
#include <net/tcp.h>
#include <net/tcp_states.h>

#include "l5.h"

/* What cannot be done where it is found out. Flushed before the module goes. */
struct workqueue_struct *l5_wq;

int l5_family = L5_FAMILY_DEFAULT;
module_param_named(family, l5_family, int, 0444);
MODULE_PARM_DESC(family, "address family number to register");

static bool l5_refuse;
module_param_named(refuse, l5_refuse, bool, 0644);
MODULE_PARM_DESC(refuse, "make no more sockets, as if the module were not loaded");

static struct proto l5_proto = {
	.name		= "L5",
	.owner		= THIS_MODULE,
	.obj_size	= sizeof(struct l5_sock),
	.keepalive	= l5_keepalive,
	.rehash		= l5_rehash,
};

/*
 * From which state to which. Everything not here is a bug of ours: a
 * connection changes from its bootstrap to rings at most once, at byte 0 if the
 * peer is here and by way of L5_MOVING if it is on another host.
 */
static const u8 l5_next[L5_STATE_MAX] = {
	[L5_IDLE]	= BIT(L5_LISTEN) | BIT(L5_CONNECTING) | BIT(L5_BASE) |
			  BIT(L5_SHM),
	[L5_LISTEN]	= BIT(L5_IDLE),
	[L5_CONNECTING]	= BIT(L5_IDLE) | BIT(L5_BASE) | BIT(L5_SHM),
	[L5_BASE]	= BIT(L5_IDLE) | BIT(L5_MOVING),
	[L5_MOVING]	= BIT(L5_IDLE) | BIT(L5_SHM),
	[L5_SHM]	= BIT(L5_IDLE),
};

/**
 * l5_set_state() - the one place where a socket changes its state
 * @l5: the socket
 * @to: the new state
 * @reason: why not rings, for L5_BASE; L5_REASON_NONE otherwise
 *
 * Who may call is decided by the caller's lock: l5_sock.lock for what the
 * application asks for, the meet bucket for the outcome of a meeting. Where
 * the two race, the loser finds the state changed.
 *
 * Context: any.
 * Return: false if the state does not lead there.
 */
bool l5_set_state(struct l5_sock *l5, int to, enum l5_reason reason)
{
	static const u8 tcp_state[L5_STATE_MAX] = {
		[L5_IDLE]	= TCP_CLOSE,
		[L5_LISTEN]	= TCP_LISTEN,
		[L5_CONNECTING]	= TCP_SYN_SENT,
		[L5_BASE]	= TCP_ESTABLISHED,
		[L5_MOVING]	= TCP_ESTABLISHED,
		[L5_SHM]	= TCP_ESTABLISHED,
	};
	int from = READ_ONCE(l5->state);

	do {
		if (!(l5_next[from] & BIT(to)))
			return false;
		/* I, pairs with H */
	} while (!try_cmpxchg_release(&l5->state, &from, to));
	WRITE_ONCE(l5->reason, reason);

	WRITE_ONCE(l5->sk.sk_state, tcp_state[to]);
	if (to == L5_SHM)
		l5_count(l5, from == L5_MOVING ? L5_STAT_CONN_RDMA :
						 L5_STAT_CONN_SHM, 1);
	if (to == L5_BASE) {
		l5_count(l5, L5_STAT_CONN_BASE, 1);
		l5_count(l5, L5_STAT_FALLBACK + reason, 1);
	}
	return true;
}

static int l5_bind(struct socket *sock, struct l5_sockaddr *addr, int len)
{
	struct l5_sock *l5 = l5_sk(sock->sk);
	int err;

	err = l5_boot_judge(l5, SCTP_SOCKOPT_BINDX_ADD, addr, len);
	if (err)
		return err;
	l5_boot_borrow(l5);
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
	struct l5_sock *l5 = l5_sk(sk);

	if (!sk)
		return 0;
	l5_net_del(l5);
	l5_boot_release(l5);
	sock_orphan(sk);
	sock->sk = NULL;
	sk_stop_timer_sync(sk, &sk->sk_timer);
	/* the end of a TCP socket is told by those that would look into it */
	WRITE_ONCE(sk->sk_family, l5_family);
	sock_put(sk);
	return 0;
}

static const struct proto_ops l5_ops = {
	.owner		= THIS_MODULE,
	.release	= l5_release,
	.bind		= l5_bind,
	.connect	= l5_connect,
	.socketpair	= sock_no_socketpair,
	.accept		= l5_accept,
	.getname	= l5_getname,
	.poll		= l5_poll,
	.ioctl		= l5_ioctl,
#ifdef CONFIG_COMPAT
	.compat_ioctl	= l5_compat_ioctl,
#endif
	.gettstamp	= sock_gettstamp,
	.listen		= l5_listen,
	.shutdown	= l5_shutdown,
	.setsockopt	= l5_setsockopt,
	.getsockopt	= l5_getsockopt,
	.sendmsg	= l5_sendmsg,
	.recvmsg	= l5_recvmsg,
	.set_rcvlowat	= l5_set_rcvlowat,
	.mmap		= l5_mmap,
#if L5_OLD_SPLICE
	.sendpage	= l5_sendpage,
#else
	.splice_eof	= l5_splice_eof,
#endif
	.splice_read	= l5_splice_read,
};

/* So that no other is ever put in its place: its name is all that is read. */
static const struct tcp_congestion_ops l5_no_congestion = {
	.name	= "none",
};

/**
 * l5_sock_show() - let the kernel take a socket for what its bootstrap is
 * @l5: the socket
 *
 * Security modules judge a call by the family and the protocol of the socket
 * that the program holds, before the call comes here; SOL_SOCKET's options do
 * likewise. What they judge is to be a TCP or an AF_UNIX socket, so it has the
 * size of one. None of our own code looks at the two. No operation of TCP's
 * own, nor of sockmap or of a ULP, will take it: these ask for &struct proto.
 * BPF programs that set options of TCP by themselves do not ask (since 6.2):
 * for them is what an option of TCP's may use without having made it.
 *
 * Context: may sleep. When the socket is new, and when IPV6_ADDRFORM may have
 * changed the bootstrap.
 */
void l5_sock_show(struct l5_sock *l5)
{
	struct inet_connection_sock *icsk = inet_csk(&l5->sk);
	const struct sock *bsk = l5->boot->sk;

	if (l5->proto != L5PROTO_UNIX) {
		icsk->icsk_ca_ops = &l5_no_congestion;
		icsk->icsk_ca_dst_locked = 1;
	}
#if IS_ENABLED(CONFIG_IPV6)
	if (l5->proto != L5PROTO_UNIX)
		inet_sk(&l5->sk)->pinet6 = &l5->tcp.inet6;
#endif
	l5->sk.sk_protocol = bsk->sk_protocol;
	WRITE_ONCE(l5->sk.sk_family, READ_ONCE(bsk->sk_family));
}

/* Labels that a security module may have set where TCP has them. */
static void l5_sock_destruct(struct sock *sk)
{
	if (l5_sk(sk)->proto == L5PROTO_UNIX)
		return;
	kfree(rcu_dereference_protected(inet_sk(sk)->inet_opt, 1));
#if IS_ENABLED(CONFIG_IPV6)
	txopt_put(rcu_dereference_protected(l5_sk(sk)->tcp.inet6.opt, 1));
#endif
}

/* Nothing is due; the reference is that of sk_reset_timer(). */
static void l5_sock_timer(struct timer_list *t)
{
	struct sock *sk = l5_from_timer(sk, t, sk_timer);

	sock_put(sk);
}

/**
 * l5_sock_alloc() - make the generic part of a socket
 * @net: its namespace
 * @sock: what the application will hold, or NULL if that is still to come
 * @kern: as for sk_alloc()
 *
 * Return: the socket, without a bootstrap, or NULL.
 */
struct l5_sock *l5_sock_alloc(struct net *net, struct socket *sock, int kern)
{
	static struct lock_class_key slock_key, lock_key;
	struct l5_sock *l5;
	struct sock *sk;

	sk = sk_alloc(net, l5_family, GFP_KERNEL, &l5_proto, kern);
	if (!sk)
		return NULL;
	sock_init_data(sock, sk);
	/* the number belongs to another name in the kernel's own table */
	sock_lock_init_class_and_name(sk, "slock-AF_L5", &slock_key,
				      "sk_lock-AF_L5", &lock_key);
	/* BPF may start it as TCP's; without a function it is never put */
	timer_setup(&sk->sk_timer, l5_sock_timer, 0);
	/* a peer wakes us under RCU alone */
	sock_set_flag(sk, SOCK_RCU_FREE);
	sk->sk_destruct = l5_sock_destruct;
	sk->sk_write_space = l5_write_space;
	/* its memory is the rings' and the bootstrap's, which are charged */
	l5_memcg_drop(sk);
	l5_user_frags_init(sk);
	l5_psp_refuse(sk);
	/* taken, so that nothing in the kernel takes it over as a TCP socket */
	sk->sk_user_data = (void *)((unsigned long)sk | SK_USER_DATA_NOCOPY);

	l5 = l5_sk(sk);
	l5->ln = l5_net(net);
	l5->owner.kind = &l5_tag_owner;
	l5->state = L5_IDLE;
	l5->spin_us = -1;
	l5->rdma_want = -1;
	mutex_init(&l5->lock);
	mutex_init(&l5->tx_lock);
	mutex_init(&l5->rx_lock);
	spin_lock_init(&l5->err_lock);
	INIT_LIST_HEAD(&l5->pending);
	spin_lock_init(&l5->pending_lock);
	INIT_DELAYED_WORK(&l5->listened, l5_boot_listened);
	return l5;
}

static int l5_create(struct net *net, struct socket *sock, int protocol,
		     int kern)
{
	struct l5_sock *l5;
	int err;

	if (READ_ONCE(l5_refuse))
		return -EAFNOSUPPORT;
	if (sock->type != SOCK_STREAM)
		return -ESOCKTNOSUPPORT;
	if (protocol < 0)
		return -EINVAL;
	if (protocol >= L5PROTO_MAX)
		return -EPROTONOSUPPORT;

	l5 = l5_sock_alloc(net, sock, kern);
	if (!l5)
		return -ENOBUFS;
	l5->proto = protocol;
	err = l5_boot_create(l5, net, kern);
	if (err) {
		sock_orphan(&l5->sk);
		sock->sk = NULL;
		sock_put(&l5->sk);
		return err;
	}
	sock->ops = &l5_ops;
	l5_net_add(l5);
	return 0;
}

static struct net_proto_family l5_family_ops = {
	.owner	= THIS_MODULE,
	.create	= l5_create,
};

static int __init l5_init(void)
{
	int err;

	BUILD_BUG_ON(L5_FAMILY_DEFAULT >= AF_MAX);
	BUILD_BUG_ON(sizeof(struct l5_ctrl) > PAGE_SIZE);
	BUILD_BUG_ON(sizeof(struct l5_map_state) > PAGE_SIZE);

	/* an index of the kernel's, which looks at its upper bound only */
	if (l5_family <= AF_UNSPEC || l5_family >= AF_MAX)
		return -EINVAL;

	l5_wq = alloc_workqueue("l5", WQ_UNBOUND, 0);
	if (!l5_wq)
		return -ENOMEM;
	err = proto_register(&l5_proto, 1);
	if (err)
		goto err_wq;
	err = l5_revoke_init();
	if (err)
		goto err_proto;
	err = l5_net_init();
	if (err)
		goto err_revoke;
	err = l5_unix_init();
	if (err)
		goto err_net;
	err = l5_door_init();
	if (err)
		goto err_unix;
	l5_family_ops.family = l5_family;
	err = sock_register(&l5_family_ops);
	if (err) {
		pr_err("af_l5: cannot register family %d: %d\n", l5_family,
		       err);
		goto err_door;
	}
	pr_info("af_l5: family %d, ABI version %d, which is not stable yet\n",
		l5_family, L5_MAP_VERSION);
	return 0;

err_door:
	l5_door_exit();
err_unix:
	l5_unix_exit();
err_net:
	l5_net_exit();
err_revoke:
	l5_revoke_exit();
err_proto:
	proto_unregister(&l5_proto);
err_wq:
	destroy_workqueue(l5_wq);
	return err;
}

static void __exit l5_exit(void)
{
	sock_unregister(l5_family);
	/* the last packet of a closed listener may still be in our callbacks */
	synchronize_net();
	l5_unix_exit();
	l5_door_exit();
	/* the last thing of a work may still be to return */
	flush_workqueue(l5_wq);
	/* connections and sockets end by RCU callbacks of ours */
	rcu_barrier();
	l5_net_exit();
	l5_revoke_exit();
	proto_unregister(&l5_proto);
	destroy_workqueue(l5_wq);
}

module_init(l5_init);
module_exit(l5_exit);

MODULE_DESCRIPTION("AF_L5: sockets over shared memory and RDMA");
MODULE_LICENSE("GPL");
