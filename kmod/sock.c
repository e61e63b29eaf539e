// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: how a socket is made, and how it ends.
 */
#include <linux/module.h>
#include <net/sock.h>
#include <net/tcp_states.h>

#include "bootstrap.h"
#include "close.h"
#include "io.h"
#include "listen.h"
#include "netns.h"
#include "opts.h"
#include "revoke.h"
#include "sock.h"

int l5_family = L5_FAMILY_DEFAULT;
module_param_named(family, l5_family, int, 0444);
MODULE_PARM_DESC(family, "address family number to register");

bool l5_refuse;
module_param_named(refuse, l5_refuse, bool, 0644);
MODULE_PARM_DESC(refuse, "make no more sockets, as if the module were not loaded");

struct proto l5_proto = {
	.name		= "L5",
	.owner		= THIS_MODULE,
	.obj_size	= sizeof(struct l5_sock),
	.keepalive	= l5_keepalive,
	.rehash		= l5_rehash,
	.release_cb	= l5_opts_changed,
	L5_PINFO_OFFSET(offsetof(struct l5_sock, tcp.inet6))
#if L5_PROTO_IOCTL
	.ioctl		= l5_sock_ioctl,
#endif
};

static void l5_sock_destruct(struct sock *sk)
{
	struct l5_sock *l5 = l5_sk(sk);

	/* a socket whose bootstrap could not be made has no family */
	if (l5->bops && l5->bops->destruct)
		l5->bops->destruct(l5);
}

/**
 * l5_sock_setup() - the generic part of a socket that the kernel has begun
 * @sk: the socket, zeroed but for what sock_init_data() sets. No other task has
 *	it
 */
void l5_sock_setup(struct sock *sk)
{
	static struct lock_class_key slock_key, lock_key;
	struct l5_sock *l5 = l5_sk(sk);

	/* the number belongs to another name in the kernel's own table */
	sock_lock_init_class_and_name(sk, "slock-AF_L5", &slock_key,
				      "sk_lock-AF_L5", &lock_key);
	/* a peer wakes us under RCU alone */
	sock_set_flag(sk, SOCK_RCU_FREE);
	sk->sk_destruct = l5_sock_destruct;
	sk->sk_write_space = l5_write_space;
	/* its memory is the rings' and the bootstrap's, and charged there */
	l5_memcg_drop(sk);
	l5_user_frags_init(sk);
	l5_psp_refuse(sk);
	/* in use, so that no kernel code takes it over as a TCP socket */
	sk->sk_user_data = (void *)((unsigned long)sk | SK_USER_DATA_NOCOPY);

	l5->ln = l5_net(sock_net(sk));
	l5->owner.kind = &l5_tag_owner;
	l5->state = L5_IDLE;
	l5->spin_us = -1;
	l5->remote_want = -1;
	mutex_init(&l5->lock);
	mutex_init(&l5->tx_lock);
	mutex_init(&l5->rx_lock);
	spin_lock_init(&l5->err_lock);
	INIT_LIST_HEAD(&l5->pending);
	spin_lock_init(&l5->pending_lock);
	INIT_DELAYED_WORK(&l5->listened, l5_boot_listened);
	INIT_DELAYED_WORK(&l5->revoke_work, l5_revoke_work);
	INIT_LIST_HEAD(&l5->revoke_waits);
}

/**
 * l5_sock_alloc() - make the generic part of a socket
 * @net: its namespace
 * @sock: the socket that the application will hold, NULL if it is still to come
 * @kern: as for sk_alloc()
 *
 * Return: the socket, without a bootstrap, or NULL.
 */
struct l5_sock *l5_sock_alloc(struct net *net, struct socket *sock, int kern)
{
	struct sock *sk;

	sk = sk_alloc(net, l5_family, GFP_KERNEL, &l5_proto, kern);
	if (!sk)
		return NULL;
	sock_init_data(sock, sk);
	l5_sock_setup(sk);
	return l5_sk(sk);
}

/**
 * l5_sock_begin() - give a fresh socket its bootstrap, and list it
 * @l5: the socket; the application's struct socket has its operations
 * @bops: the family of the bootstrap
 * @kern: whether the kernel itself asks
 *
 * Context: may sleep.
 * Return: 0, or what socket() would for that family; then the socket is the
 * caller's to free.
 */
int l5_sock_begin(struct l5_sock *l5, const struct l5_boot_ops *bops, int kern)
{
	int err;

	l5->bops = bops;
	err = l5_boot_create(l5, sock_net(&l5->sk), kern);
	if (err)
		return err;
	l5_custom_sockopt(l5->sk.sk_socket);
	l5_net_add(l5);
	return 0;
}

/**
 * l5_sock_end() - undo l5_sock_begin(), and whatever came of the socket since
 * @l5: the socket, which is the caller's to free
 *
 * Context: may sleep, as close() of the bootstrap does with SO_LINGER.
 */
void l5_sock_end(struct l5_sock *l5)
{
	l5_net_del(l5);
	l5_boot_release(l5);
	/*
	 * Code that tells of the end of a socket would look into it. A socket
	 * whose end nobody tells keeps its family: by that the kernel counts
	 * sockets that want time stamps, when they begin and when they end.
	 */
	if (l5->bops->told)
		WRITE_ONCE(l5->sk.sk_family, l5_family);
}
