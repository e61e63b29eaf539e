// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5 between hosts: the doors where questions are heard.
 *
 * All sockets that listen on the same address and port share a door. It has
 * leaves, cm ids that listen, one for each address that a device speaks for: so
 * one at most for a listener with an address, and for one that listens on all
 * as many as the namespace has. rdma_cm can listen on all addresses by itself,
 * but does so with each device. One for iWARP takes TCP's packets then; or it
 * fails to, and then is of no use to anybody's rdma_cm any more.
 *
 * Leaves come and go with devices and addresses. Doors that overlap share them,
 * since a question is found by what it says, and not by where it is heard.
 */
#include <linux/cred.h>
#include <linux/hashtable.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <net/ipv6.h>

#include "rdma.h"

/**
 * struct l5_door - where sockets listen
 * @node: in the table of all
 * @net: its namespace
 * @addr: where
 * @any: that is any address of its family,
 * @v6only: and of no other
 * @users: listening sockets, and accepted ones that may yet be asked: a client
 *	asks when it has heard that it is connected, and a program that serves
 *	one connection has closed its listener by then
 * @ln: the namespace's part
 * @payer: whoever listened first
 * @rcu: see l5_door_get()
 */
struct l5_door {
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
 * @net: its namespace, which its doors hold
 * @ln: the namespace's part
 * @addr: where; zero but for what counts
 * @id: of the connection manager, NULL where somebody else listens already
 * @ib: its device, only to be compared
 * @payer: that of the first door that wanted it
 * @wanted: by a door, and a device speaks for its address
 * @rcu: see l5_door_get()
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

/* Until a leaf that could not be opened is tried again, if somebody came. */
#define L5_DOOR_RETRY	(10 * HZ)
/* Devices and addresses seldom come alone. */
#define L5_DOOR_SOON	(HZ / 10)
/* Addresses of a namespace that a door may have leaves for. */
#define L5_DOOR_PLACES	128

/* Both tables are by port, and written under the mutex. */
static DEFINE_MUTEX(l5_door_mutex);
static DEFINE_HASHTABLE(l5_doors, 8);
static DEFINE_HASHTABLE(l5_leaves, 8);

/* The kernel's: TCP gave the listener its port, or there would be none. */
static const struct cred *l5_door_cred;

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

static int l5_door_knock(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct l5_leaf *leaf = id->context;

	switch (event->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		return l5_door_asked(leaf->ln, id, &event->param.conn);
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		/* who takes it out ends it */
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

	lockdep_assert_held(&l5_door_mutex);
	id = rdma_create_id(leaf->net, l5_door_knock, leaf, RDMA_PS_TCP,
			    IB_QPT_RC);
	if (IS_ERR(id))
		return;
	/* its device may go at any time, but not in between */
	rdma_lock_handler(id);
	old = override_creds(l5_door_cred);
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

	lockdep_assert_held(&l5_door_mutex);
	/* this waits for its handler, which takes no mutex of ours */
	if (id)
		rdma_destroy_id(id);
}

static void l5_leaf_drop(struct l5_leaf *leaf)
{
	l5_leaf_close(leaf);
	hash_del_rcu(&leaf->node);
	l5_leaf_uncharge(&leaf->payer);
	l5_payer_put(&leaf->payer);
	kfree_rcu(leaf, rcu);
}

/* Under the mutex, or RCU. */
static struct l5_leaf *l5_leaf_find(const struct l5_net *ln,
				    const struct sockaddr_storage *addr)
{
	struct l5_leaf *leaf;

	hash_for_each_possible_rcu(l5_leaves, leaf, node, l5_port_of(addr),
				   lockdep_is_held(&l5_door_mutex))
		if (leaf->ln == ln && l5_addr_same(&leaf->addr, addr))
			return leaf;
	return NULL;
}

static struct l5_leaf *l5_leaf_get(const struct l5_door *door,
				   const struct sockaddr_storage *addr)
{
	struct l5_leaf *leaf = l5_leaf_find(door->ln, addr);

	if (leaf)
		return leaf;
	if (!l5_leaf_charge(&door->payer))
		return NULL;
	leaf = kzalloc(sizeof(*leaf), GFP_KERNEL_ACCOUNT);
	if (!leaf) {
		l5_leaf_uncharge(&door->payer);
		return NULL;
	}
	l5_payer_copy(&leaf->payer, &door->payer);
	leaf->net = door->net;
	leaf->ln = door->ln;
	leaf->addr = *addr;
	hash_add_rcu(l5_leaves, &leaf->node, l5_port_of(addr));
	return leaf;
}

/* Doors */

static bool l5_door_covers(const struct l5_door *door,
			   const struct sockaddr_storage *addr)
{
	if (!door->any)
		return l5_addr_same(&door->addr, addr);
	return l5_port_of(&door->addr) == l5_port_of(addr) &&
	       (door->addr.ss_family == addr->ss_family ||
		(door->addr.ss_family == AF_INET6 && !door->v6only));
}

static bool l5_leaf_covered(const struct l5_leaf *leaf)
{
	const struct l5_door *door;

	lockdep_assert_held(&l5_door_mutex);
	hash_for_each_possible(l5_doors, door, node, l5_port_of(&leaf->addr))
		if (door->ln == leaf->ln && l5_door_covers(door, &leaf->addr))
			return true;
	return false;
}

/* The addresses that it is about to listen on. */
struct l5_survey {
	const struct net *net;
	struct l5_place *place;
	int n;
};

static bool l5_survey(struct l5_survey *s, struct net *net)
{
	if (!s->place)
		s->place = kvmalloc_array(L5_DOOR_PLACES, sizeof(*s->place),
					  GFP_KERNEL_ACCOUNT);
	if (!s->place)
		return false;
	if (s->net != net)
		s->n = l5_rdma_places(net, s->place, L5_DOOR_PLACES);
	s->net = net;
	return true;
}

static void l5_door_open(const struct l5_door *door, struct l5_survey *s)
{
	int i;

	lockdep_assert_held(&l5_door_mutex);
	for (i = 0; i < s->n; i++) {
		struct l5_place *place = &s->place[i];
		struct sockaddr_storage addr = place->addr;
		struct l5_leaf *leaf;

		*l5_port(&addr) = cpu_to_be16(l5_port_of(&door->addr));
		if (!l5_door_covers(door, &addr))
			continue;
		leaf = l5_leaf_get(door, &addr);
		if (!leaf)
			return;
		leaf->wanted = true;
		/* an address may have gone to another device */
		if (READ_ONCE(leaf->id) &&
		    !l5_rdma_place_of(leaf->ib, door->net, place))
			l5_leaf_close(leaf);
		if (!READ_ONCE(leaf->id))
			l5_leaf_open(leaf);
	}
}

/* Have the leaves that there should be. */
static void l5_door_again(struct work_struct *work)
{
	struct l5_survey s = { };
	struct l5_door *door;
	struct l5_leaf *leaf;
	struct hlist_node *tmp;
	int i;

	mutex_lock(&l5_door_mutex);
	hash_for_each(l5_leaves, i, leaf, node)
		leaf->wanted = false;
	hash_for_each(l5_doors, i, door, node) {
		/* without memory all stays as it is */
		if (!l5_survey(&s, door->net))
			goto out;
		l5_door_open(door, &s);
	}
	hash_for_each_safe(l5_leaves, i, tmp, leaf, node)
		if (!leaf->wanted)
			l5_leaf_drop(leaf);
out:
	mutex_unlock(&l5_door_mutex);
	kvfree(s.place);
}

/* Soon, and not put off by what comes meanwhile; and some time later. */
static DECLARE_DELAYED_WORK(l5_door_change, l5_door_again);
static DECLARE_DELAYED_WORK(l5_door_retry, l5_door_again);

/**
 * l5_door_kick() - devices, or the addresses that they speak for, have changed
 *
 * Context: any.
 */
void l5_door_kick(void)
{
	queue_delayed_work(l5_wq, &l5_door_change, L5_DOOR_SOON);
}

static struct l5_door *l5_door_of(const struct l5_door *like)
{
	struct l5_door *door;

	lockdep_assert_held(&l5_door_mutex);
	hash_for_each_possible(l5_doors, door, node, l5_port_of(&like->addr))
		if (door->ln == like->ln && door->v6only == like->v6only &&
		    l5_addr_same(&door->addr, &like->addr))
			return door;
	return NULL;
}

/* Where a socket listens, or was accepted; an address of IPv4 as such. */
static void l5_door_place(const struct sock *bsk, struct l5_door *door)
{
	struct sockaddr_storage *addr = &door->addr;

	if (bsk->sk_family == AF_INET6 &&
	    !ipv6_addr_v4mapped(&bsk->sk_v6_rcv_saddr)) {
		struct sockaddr_in6 *sin6 = (struct sockaddr_in6 *)addr;

		sin6->sin6_family = AF_INET6;
		sin6->sin6_addr = bsk->sk_v6_rcv_saddr;
		sin6->sin6_scope_id =
			ipv6_iface_scope_id(&sin6->sin6_addr,
					    bsk->sk_bound_dev_if);
		door->any = ipv6_addr_any(&sin6->sin6_addr);
		door->v6only = door->any && ipv6_only_sock(bsk);
	} else {
		struct sockaddr_in *sin = (struct sockaddr_in *)addr;

		sin->sin_family = AF_INET;
		sin->sin_addr.s_addr = inet_sk(bsk)->inet_rcv_saddr;
		door->any = !sin->sin_addr.s_addr;
	}
	*l5_port(addr) = inet_sk(bsk)->inet_sport;
}

/**
 * l5_door_listen() - answer questions for a listener's connections
 * @l5: the listener
 *
 * Where no device speaks for its address yet, that follows once one does.
 *
 * Context: may sleep; l5_sock.lock held.
 */
void l5_door_listen(struct l5_sock *l5)
{
	const struct sock *bsk = l5->boot->sk;
	struct l5_door like = { .ln = l5->ln, .net = sock_net(bsk) };
	struct l5_survey s = { };
	struct l5_door *door;

	if (l5->door || !l5_door_wants(l5))
		return;
	l5_door_place(bsk, &like);
	if (l5_door_loopback(&like.addr))
		return;
	mutex_lock(&l5_door_mutex);
	door = l5_door_of(&like);
	if (!door) {
		door = kmemdup(&like, sizeof(like), GFP_KERNEL_ACCOUNT);
		if (!door)
			goto out;
		get_net(door->net);
		l5_payer_copy(&door->payer, &l5->payer);
		refcount_set(&door->users, 1);
		hash_add(l5_doors, &door->node, l5_port_of(&door->addr));
		if (l5_survey(&s, door->net))
			l5_door_open(door, &s);
	} else {
		refcount_inc(&door->users);
	}
	/* AN: it is whole; pairs with l5_door_get() */
	smp_store_release(&l5->door, door);
out:
	mutex_unlock(&l5_door_mutex);
	kvfree(s.place);
}

/**
 * l5_door_unlisten() - a listener stops
 * @l5: the listener, or a socket that was none
 *
 * Context: may sleep.
 */
void l5_door_unlisten(struct l5_sock *l5)
{
	/* shutdown() and connect(AF_UNSPEC) may come here at once */
	struct l5_door *door = xchg(&l5->door, NULL);

	if (door)
		l5_door_put(door);
}

/* Is there a cm id where a socket was accepted? */
static bool l5_door_is_open(const struct sock *bsk, const struct l5_net *ln)
{
	struct l5_door at = { };
	struct l5_leaf *leaf;

	l5_door_place(bsk, &at);
	leaf = l5_leaf_find(ln, &at.addr);
	if (!leaf)
		return false;
	if (READ_ONCE(leaf->id))
		return true;
	/* whoever had the port may have left it */
	queue_delayed_work(l5_wq, &l5_door_retry, L5_DOOR_RETRY);
	return false;
}

/**
 * l5_door_get() - have a door stay open for an accepted socket
 * @listener: where it was accepted
 * @bsk: its bootstrap
 *
 * Context: may sleep.
 * Return: a reference, or NULL: nobody can ask there.
 */
struct l5_door *l5_door_get(struct l5_sock *listener, const struct sock *bsk)
{
	struct l5_door *door;

	rcu_read_lock();
	/* AN */
	door = smp_load_acquire(&listener->door);
	if (door && !l5_door_is_open(bsk, door->ln))
		door = NULL;
	if (door && !refcount_inc_not_zero(&door->users))
		door = NULL;
	rcu_read_unlock();
	return door;
}

/**
 * l5_door_put() - a listener stops, or an accepted socket is not asked any more
 * @door: its door
 *
 * Context: may sleep.
 */
void l5_door_put(struct l5_door *door)
{
	struct hlist_node *tmp;
	struct l5_leaf *leaf;

	if (!refcount_dec_and_mutex_lock(&door->users, &l5_door_mutex))
		return;
	hash_del(&door->node);
	hash_for_each_possible_safe(l5_leaves, leaf, tmp, node,
				    l5_port_of(&door->addr))
		if (leaf->ln == door->ln && !l5_leaf_covered(leaf))
			l5_leaf_drop(leaf);
	mutex_unlock(&l5_door_mutex);
	put_net(door->net);
	l5_payer_put(&door->payer);
	kfree_rcu(door, rcu);
}

/**
 * l5_knock_init() - doors can be opened from now on
 *
 * Return: 0 or why not.
 */
int l5_knock_init(void)
{
	int err;

	l5_door_cred = prepare_kernel_cred(&init_task);
	if (!l5_door_cred)
		return -ENOMEM;
	err = l5_rdma_dev_init();
	if (err) {
		cancel_delayed_work_sync(&l5_door_change);
		put_cred(l5_door_cred);
	}
	return err;
}

/**
 * l5_knock_exit() - no socket listens any more
 */
void l5_knock_exit(void)
{
	l5_rdma_dev_exit();
	cancel_delayed_work_sync(&l5_door_change);
	cancel_delayed_work_sync(&l5_door_retry);
	put_cred(l5_door_cred);
}
