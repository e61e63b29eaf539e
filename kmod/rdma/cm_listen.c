// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5 between hosts: listening for questions with rdma_cm.
 *
 * All sockets that listen on the same address and port share an l5_cm_listener.
 * It has leaves, cm ids that listen, one for each address that a device speaks
 * for: so a listener with an address has one at most, and a listener on all
 * addresses has one for each such address of the namespace. rdma_cm can listen
 * on all addresses by itself, but does so with each device. A device for iWARP
 * then takes TCP's packets; or it fails to, and after that no program can use
 * it by rdma_cm.
 *
 * Leaves come and go with devices and addresses. Listeners that overlap share
 * leaves, since a question is matched by what it says, and not by where it is
 * heard.
 */
#include <linux/cred.h>
#include <linux/hashtable.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <net/ipv6.h>

#include "rdma.h"

/**
 * struct l5_cm_listener - an address that sockets listen on
 * @node: in the table of all
 * @net: its namespace
 * @addr: the address
 * @any: @addr is any address of its family,
 * @v6only: and of no other family
 * @users: listening sockets, and accepted sockets that may yet be asked: a
 *	client asks when it has heard that it is connected, and a program that
 *	serves one connection has closed its listener by then
 * @ln: the namespace's part
 * @payer: the payer of the socket that listened first
 * @rcu: see l5_cm_listener_get()
 */
struct l5_cm_listener {
	struct hlist_node node;
	struct net *net;
	struct sockaddr_storage addr;
	bool any;
	bool v6only;
	refcount_t users;
	struct l5_net *ln;
	struct l5_payer payer;
	struct rcu_head rcu;
};

/**
 * struct l5_leaf - a listening cm id
 * @node: in the table of all
 * @net: its namespace; its listeners have the reference
 * @ln: the namespace's part
 * @addr: where it listens; zero but for what counts
 * @id: of the connection manager, NULL where another program listens already
 * @ib: the device of @id, only to be compared
 * @payer: the payer of the first listener that wanted this leaf
 * @wanted: a listener wants it, and a device speaks for its address
 * @rcu: see l5_cm_listener_get()
 */
struct l5_leaf {
	struct hlist_node node;
	struct net *net;
	struct l5_net *ln;
	struct sockaddr_storage addr;
	struct rdma_cm_id *id;
	const struct ib_device *ib;
	struct l5_payer payer;
	bool wanted;
	struct rcu_head rcu;
};

/* Until a leaf that could not be opened is tried again, if a client came. */
#define L5_CM_LISTEN_RETRY	(10 * HZ)
/* Devices and addresses seldom come alone. */
#define L5_CM_LISTEN_SOON	(HZ / 10)
/* Addresses of a namespace that a listener may have leaves for. */
#define L5_CM_PLACES	128

/* Both tables are by port, and written under the mutex. */
static DEFINE_MUTEX(l5_cm_listen_mutex);
static DEFINE_HASHTABLE(l5_cm_listeners, 8);
static DEFINE_HASHTABLE(l5_leaves, 8);

/* Is told of a question. */
static l5_cm_asked_fn l5_cm_listen_asked;

/* The kernel's: TCP gave the listener its port, or it would be no listener. */
static const struct cred *l5_cm_cred;

/* Both families have the port in the same place. */
static __be16 *l5_port(struct sockaddr_storage *addr)
{
	return &((struct sockaddr_in *)addr)->sin_port;
}

static u16 l5_port_of(const struct sockaddr_storage *addr)
{
	return be16_to_cpu(((const struct sockaddr_in *)addr)->sin_port);
}

static bool l5_addr_same(const struct sockaddr_storage *a,
			 const struct sockaddr_storage *b)
{
	return !memcmp(a, b, sizeof(*a));
}

/* Leaves */

static int l5_cm_listener_event(struct rdma_cm_id *id,
				struct rdma_cm_event *event)
{
	struct l5_leaf *leaf = id->context;

	switch (event->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		return l5_cm_listen_asked(leaf->ln, id, &event->param.conn);
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		/* the one that takes the id out ends it */
		return cmpxchg(&leaf->id, id, NULL) == id;
	default:
		return 0;
	}
}

static void l5_leaf_open(struct l5_leaf *leaf)
{
	const struct cred *old;
	struct rdma_cm_id *id;
	int err;

	lockdep_assert_held(&l5_cm_listen_mutex);
	id = rdma_create_id(leaf->net, l5_cm_listener_event, leaf, RDMA_PS_TCP,
			    IB_QPT_RC);
	if (IS_ERR(id))
		return;
	/* the id's device may go at any time, but not while this is held */
	rdma_lock_handler(id);
	old = override_creds(l5_cm_cred);
	err = rdma_bind_addr(id, (struct sockaddr *)&leaf->addr);
	revert_creds(old);
	if (!err && !rdma_cap_ib_cm(id->device, id->port_num))
		err = -EOPNOTSUPP;
	if (!err)
		err = rdma_listen(id, 128);
	if (!err) {
		leaf->ib = id->device;
		WRITE_ONCE(leaf->id, id);
	}
	rdma_unlock_handler(id);
	if (err)
		rdma_destroy_id(id);
}

static void l5_leaf_close(struct l5_leaf *leaf)
{
	struct rdma_cm_id *id = xchg(&leaf->id, NULL);

	lockdep_assert_held(&l5_cm_listen_mutex);
	/* this waits for the id's handler, which takes no mutex of ours */
	if (id)
		rdma_destroy_id(id);
}

static void l5_leaf_drop(struct l5_leaf *leaf)
{
	l5_leaf_close(leaf);
	hash_del_rcu(&leaf->node);
	l5_remote_listen_uncharge(&leaf->payer);
	l5_payer_put(&leaf->payer);
	kfree_rcu(leaf, rcu);
}

/* Find a leaf. Under the mutex, or RCU. */
static struct l5_leaf *l5_leaf_find(const struct l5_net *ln,
				    const struct sockaddr_storage *addr)
{
	struct l5_leaf *leaf;

	hash_for_each_possible_rcu(l5_leaves, leaf, node, l5_port_of(addr),
				   lockdep_is_held(&l5_cm_listen_mutex))
		if (leaf->ln == ln && l5_addr_same(&leaf->addr, addr))
			return leaf;
	return NULL;
}

static struct l5_leaf *l5_leaf_get(const struct l5_cm_listener *cl,
				   const struct sockaddr_storage *addr)
{
	struct l5_leaf *leaf = l5_leaf_find(cl->ln, addr);

	if (leaf)
		return leaf;
	if (!l5_remote_listen_charge(&cl->payer))
		return NULL;
	leaf = kzalloc(sizeof(*leaf), GFP_KERNEL_ACCOUNT);
	if (!leaf) {
		l5_remote_listen_uncharge(&cl->payer);
		return NULL;
	}
	l5_payer_copy(&leaf->payer, &cl->payer);
	leaf->net = cl->net;
	leaf->ln = cl->ln;
	leaf->addr = *addr;
	hash_add_rcu(l5_leaves, &leaf->node, l5_port_of(addr));
	return leaf;
}

/* Listeners */

static bool l5_cm_listener_covers(const struct l5_cm_listener *cl,
				  const struct sockaddr_storage *addr)
{
	if (!cl->any)
		return l5_addr_same(&cl->addr, addr);
	return l5_port_of(&cl->addr) == l5_port_of(addr) &&
	       (cl->addr.ss_family == addr->ss_family ||
		(cl->addr.ss_family == AF_INET6 && !cl->v6only));
}

static bool l5_leaf_covered(const struct l5_leaf *leaf)
{
	const struct l5_cm_listener *cl;

	lockdep_assert_held(&l5_cm_listen_mutex);
	hash_for_each_possible(l5_cm_listeners, cl, node,
			       l5_port_of(&leaf->addr))
		if (cl->ln == leaf->ln &&
		    l5_cm_listener_covers(cl, &leaf->addr))
			return true;
	return false;
}

/* The addresses of a namespace that devices speak for. */
struct l5_survey {
	const struct net *net;
	struct l5_place *place;
	int n;
};

static bool l5_survey(struct l5_survey *s, struct net *net)
{
	if (!s->place)
		s->place = kvmalloc_array(L5_CM_PLACES, sizeof(*s->place),
					  GFP_KERNEL_ACCOUNT);
	if (!s->place)
		return false;
	if (s->net != net)
		s->n = l5_rdma_places(net, s->place, L5_CM_PLACES);
	s->net = net;
	return true;
}

static void l5_cm_listener_open(const struct l5_cm_listener *cl,
				struct l5_survey *s)
{
	int i;

	lockdep_assert_held(&l5_cm_listen_mutex);
	for (i = 0; i < s->n; i++) {
		struct l5_place *place = &s->place[i];
		struct sockaddr_storage addr = place->addr;
		struct l5_leaf *leaf;

		*l5_port(&addr) = cpu_to_be16(l5_port_of(&cl->addr));
		if (!l5_cm_listener_covers(cl, &addr))
			continue;
		leaf = l5_leaf_get(cl, &addr);
		if (!leaf)
			return;
		leaf->wanted = true;
		/* an address may have gone to another device */
		if (READ_ONCE(leaf->id) &&
		    !l5_rdma_place_of(leaf->ib, cl->net, place))
			l5_leaf_close(leaf);
		if (!READ_ONCE(leaf->id))
			l5_leaf_open(leaf);
	}
}

/* Open the leaves that there should be, and close all others. */
static void l5_cm_listener_again(struct work_struct *work)
{
	struct l5_survey s = { };
	struct l5_cm_listener *cl;
	struct l5_leaf *leaf;
	struct hlist_node *tmp;
	int i;

	mutex_lock(&l5_cm_listen_mutex);
	hash_for_each(l5_leaves, i, leaf, node)
		leaf->wanted = false;
	hash_for_each(l5_cm_listeners, i, cl, node) {
		/* without memory all stays as it is */
		if (!l5_survey(&s, cl->net))
			goto out;
		l5_cm_listener_open(cl, &s);
	}
	hash_for_each_safe(l5_leaves, i, tmp, leaf, node)
		if (!leaf->wanted)
			l5_leaf_drop(leaf);
out:
	mutex_unlock(&l5_cm_listen_mutex);
	kvfree(s.place);
}

/* One runs soon, and is not put off by further changes; one some time later. */
static DECLARE_DELAYED_WORK(l5_cm_listener_change, l5_cm_listener_again);
static DECLARE_DELAYED_WORK(l5_cm_listener_retry, l5_cm_listener_again);

/* Devices, or addresses that they speak for, have changed. */
static void l5_cm_listener_kick(void)
{
	queue_delayed_work(l5_wq, &l5_cm_listener_change, L5_CM_LISTEN_SOON);
}

static struct l5_cm_listener *
l5_cm_listener_of(const struct l5_cm_listener *like)
{
	struct l5_cm_listener *cl;

	lockdep_assert_held(&l5_cm_listen_mutex);
	hash_for_each_possible(l5_cm_listeners, cl, node,
			       l5_port_of(&like->addr))
		if (cl->ln == like->ln && cl->v6only == like->v6only &&
		    l5_addr_same(&cl->addr, &like->addr))
			return cl;
	return NULL;
}

/* The address where a socket listens, or was accepted; of IPv4 as such. */
static void l5_cm_listener_place(const struct sock *bsk,
				 struct l5_cm_listener *cl)
{
	struct sockaddr_storage *addr = &cl->addr;

	if (bsk->sk_family == AF_INET6 &&
	    !ipv6_addr_v4mapped(&bsk->sk_v6_rcv_saddr)) {
		struct sockaddr_in6 *sin6 = (struct sockaddr_in6 *)addr;

		sin6->sin6_family = AF_INET6;
		sin6->sin6_addr = bsk->sk_v6_rcv_saddr;
		sin6->sin6_scope_id =
			ipv6_iface_scope_id(&sin6->sin6_addr,
					    bsk->sk_bound_dev_if);
		cl->any = ipv6_addr_any(&sin6->sin6_addr);
		cl->v6only = cl->any && ipv6_only_sock(bsk);
	} else {
		struct sockaddr_in *sin = (struct sockaddr_in *)addr;

		sin->sin_family = AF_INET;
		sin->sin_addr.s_addr = inet_sk(bsk)->inet_rcv_saddr;
		cl->any = !sin->sin_addr.s_addr;
	}
	*l5_port(addr) = inet_sk(bsk)->inet_sport;
}

/**
 * l5_cm_listen() - answer questions for a listener's connections
 * @l5: the listener
 *
 * If no device speaks for the listener's address yet, listening begins once one
 * does.
 *
 * Context: may sleep; l5_sock.lock held.
 */
void l5_cm_listen(struct l5_sock *l5)
{
	const struct sock *bsk = l5->boot->sk;
	struct l5_cm_listener like = { .ln = l5->ln, .net = sock_net(bsk) };
	struct l5_survey s = { };
	struct l5_cm_listener *cl;

	if (l5_rdma_sk(l5)->cm_listener || !l5_rdma_wants(l5))
		return;
	l5_cm_listener_place(bsk, &like);
	if (l5_rdma_loopback(&like.addr))
		return;
	mutex_lock(&l5_cm_listen_mutex);
	cl = l5_cm_listener_of(&like);
	if (!cl) {
		cl = kmemdup(&like, sizeof(like), GFP_KERNEL_ACCOUNT);
		if (!cl)
			goto out;
		get_net(cl->net);
		l5_payer_copy(&cl->payer, &l5->payer);
		refcount_set(&cl->users, 1);
		hash_add(l5_cm_listeners, &cl->node, l5_port_of(&cl->addr));
		if (l5_survey(&s, cl->net))
			l5_cm_listener_open(cl, &s);
	} else {
		refcount_inc(&cl->users);
	}
	/* AN: the listener is whole; pairs with l5_cm_listener_get() */
	smp_store_release(&l5_rdma_sk(l5)->cm_listener, cl);
out:
	mutex_unlock(&l5_cm_listen_mutex);
	kvfree(s.place);
}

/**
 * l5_cm_unlisten() - a listener stops
 * @l5: the listener, or a socket that was no listener
 *
 * Context: may sleep.
 */
void l5_cm_unlisten(struct l5_sock *l5)
{
	/* shutdown() and connect(AF_UNSPEC) may come here at the same time */
	struct l5_cm_listener *cl = xchg(&l5_rdma_sk(l5)->cm_listener, NULL);

	if (cl)
		l5_cm_listener_put(cl);
}

/* Is there a cm id where a socket was accepted? */
static bool l5_cm_listener_is_open(const struct sock *bsk,
				   const struct l5_net *ln)
{
	struct l5_cm_listener at = { };
	struct l5_leaf *leaf;

	l5_cm_listener_place(bsk, &at);
	leaf = l5_leaf_find(ln, &at.addr);
	if (!leaf)
		return false;
	if (READ_ONCE(leaf->id))
		return true;
	/* the program that had the port may have left it */
	queue_delayed_work(l5_wq, &l5_cm_listener_retry, L5_CM_LISTEN_RETRY);
	return false;
}

/**
 * l5_cm_listener_get() - go on listening for an accepted socket
 * @listener: the socket that accepted it
 * @bsk: its bootstrap
 *
 * Context: may sleep.
 * Return: a reference, or NULL if no client can ask there.
 */
struct l5_cm_listener *l5_cm_listener_get(struct l5_sock *listener,
					  const struct sock *bsk)
{
	struct l5_cm_listener *cl;

	rcu_read_lock();
	/* AN, pairs with the release by which the listener is shown, above */
	cl = smp_load_acquire(&l5_rdma_sk(listener)->cm_listener);
	if (cl && !l5_cm_listener_is_open(bsk, cl->ln))
		cl = NULL;
	if (cl && !refcount_inc_not_zero(&cl->users))
		cl = NULL;
	rcu_read_unlock();
	return cl;
}

/**
 * l5_cm_listener_put() - a listener stops, or an accepted socket is not asked
 * @cl: the listener's, or the accepted socket's, reference
 *
 * Context: may sleep.
 */
void l5_cm_listener_put(struct l5_cm_listener *cl)
{
	struct hlist_node *tmp;
	struct l5_leaf *leaf;

	if (!refcount_dec_and_mutex_lock(&cl->users, &l5_cm_listen_mutex))
		return;
	hash_del(&cl->node);
	hash_for_each_possible_safe(l5_leaves, leaf, tmp, node,
				    l5_port_of(&cl->addr))
		if (leaf->ln == cl->ln && !l5_leaf_covered(leaf))
			l5_leaf_drop(leaf);
	mutex_unlock(&l5_cm_listen_mutex);
	put_net(cl->net);
	l5_payer_put(&cl->payer);
	kfree_rcu(cl, rcu);
}

/**
 * l5_cm_listen_init() - listening begins
 * @asked: is told of each question
 *
 * Return: 0 or why not.
 */
int l5_cm_listen_init(l5_cm_asked_fn asked)
{
	int err;

	l5_cm_listen_asked = asked;
	l5_cm_cred = prepare_kernel_cred(&init_task);
	if (!l5_cm_cred)
		return -ENOMEM;
	err = l5_rdma_dev_init(l5_cm_listener_kick);
	if (err) {
		cancel_delayed_work_sync(&l5_cm_listener_change);
		put_cred(l5_cm_cred);
	}
	return err;
}

/**
 * l5_cm_listen_exit() - no socket listens any more
 */
void l5_cm_listen_exit(void)
{
	l5_rdma_dev_exit();
	cancel_delayed_work_sync(&l5_cm_listener_change);
	cancel_delayed_work_sync(&l5_cm_listener_retry);
	put_cred(l5_cm_cred);
}
