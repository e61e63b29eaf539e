// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5 between hosts: the cm ids that listen, one for all the sockets that
 * listen on the same address and port.
 */
#include <linux/slab.h>
#include <net/ipv6.h>

#include "rdma.h"

/**
 * struct l5_door - a listening cm id
 * @node: in the list of all
 * @net: its namespace
 * @addr: where
 * @users: listening sockets, and accepted ones that may yet be asked: a client
 *	asks when it has heard that it is connected, and a program that serves
 *	one connection has closed its listener by then
 * @id: of the connection manager, NULL where there is no device, or where
 *	somebody else listens already
 * @ln: the namespace's part
 * @rcu: see l5_door_get()
 */
struct l5_door {
	struct list_head node;
	struct net *net;
	struct sockaddr_storage addr;
	refcount_t users;
	struct rdma_cm_id *id;
	struct l5_net *ln;
	struct rcu_head rcu;
};

/* Until a door that could not be opened is tried again, if somebody came. */
#define L5_DOOR_RETRY	(10 * HZ)

static DEFINE_MUTEX(l5_door_mutex);
static LIST_HEAD(l5_doors);

static int l5_door_knock(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct l5_door *door = id->context;

	switch (event->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		return l5_door_asked(door->ln, id, &event->param.conn);
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		/* of an id bound to one device; who takes it out ends it */
		return cmpxchg(&door->id, id, NULL) == id;
	default:
		return 0;
	}
}

static void l5_door_open(struct l5_door *door)
{
	struct rdma_cm_id *id;

	lockdep_assert_held(&l5_door_mutex);
	id = rdma_create_id(door->net, l5_door_knock, door, RDMA_PS_TCP,
			    IB_QPT_RC);
	if (IS_ERR(id))
		return;
	door->id = id;
	if ((rdma_bind_addr(id, (struct sockaddr *)&door->addr) ||
	     rdma_listen(id, 128)) && cmpxchg(&door->id, id, NULL) == id)
		rdma_destroy_id(id);
}

/* Those that could not listen before try again. */
static void l5_door_again(struct work_struct *work)
{
	struct l5_door *door;

	mutex_lock(&l5_door_mutex);
	list_for_each_entry(door, &l5_doors, node)
		if (!door->id)
			l5_door_open(door);
	mutex_unlock(&l5_door_mutex);
}

static DECLARE_DELAYED_WORK(l5_door_retry, l5_door_again);

static struct l5_door *l5_door_of(const struct net *net,
				  const struct sockaddr_storage *addr)
{
	struct l5_door *door;

	lockdep_assert_held(&l5_door_mutex);
	list_for_each_entry(door, &l5_doors, node)
		if (net_eq(door->net, net) &&
		    !memcmp(&door->addr, addr, sizeof(*addr)))
			return door;
	return NULL;
}

/**
 * l5_door_listen() - answer questions for a listener's connections
 * @l5: the listener
 *
 * Without a device that is possible yet the first one that comes does it.
 *
 * Context: may sleep; l5_sock.lock held.
 */
void l5_door_listen(struct l5_sock *l5)
{
	const struct sock *bsk = l5->boot->sk;
	struct sockaddr_storage addr = { };
	struct l5_door *door;

	if (l5->door || !l5_door_wants(l5))
		return;
	if (bsk->sk_family == AF_INET6) {
		struct sockaddr_in6 *sin6 = (struct sockaddr_in6 *)&addr;

		sin6->sin6_family = AF_INET6;
		sin6->sin6_addr = bsk->sk_v6_rcv_saddr;
		sin6->sin6_port = inet_sk(bsk)->inet_sport;
	} else {
		struct sockaddr_in *sin = (struct sockaddr_in *)&addr;

		sin->sin_family = AF_INET;
		sin->sin_addr.s_addr = inet_sk(bsk)->inet_rcv_saddr;
		sin->sin_port = inet_sk(bsk)->inet_sport;
	}
	if (l5_door_loopback(&addr))
		return;
	mutex_lock(&l5_door_mutex);
	door = l5_door_of(sock_net(bsk), &addr);
	if (!door) {
		door = kzalloc(sizeof(*door), GFP_KERNEL_ACCOUNT);
		if (!door)
			goto out;
		door->addr = addr;
		door->net = get_net(sock_net(bsk));
		door->ln = l5->ln;
		refcount_set(&door->users, 1);
		list_add(&door->node, &l5_doors);
		l5_door_open(door);
	} else {
		refcount_inc(&door->users);
	}
	/* AN: it is whole; pairs with l5_door_get() */
	smp_store_release(&l5->door, door);
out:
	mutex_unlock(&l5_door_mutex);
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

/**
 * l5_door_get() - have a door stay open for an accepted socket
 * @listener: where it was accepted
 *
 * Context: may sleep.
 * Return: a reference, or NULL: nobody can ask there.
 */
struct l5_door *l5_door_get(struct l5_sock *listener)
{
	struct l5_door *door;

	rcu_read_lock();
	/* AN */
	door = smp_load_acquire(&listener->door);
	if (door && !READ_ONCE(door->id)) {
		/* whoever had the port may have left it */
		queue_delayed_work(l5_wq, &l5_door_retry, L5_DOOR_RETRY);
		door = NULL;
	}
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
	struct rdma_cm_id *id;

	if (!refcount_dec_and_mutex_lock(&door->users, &l5_door_mutex))
		return;
	list_del(&door->node);
	id = xchg(&door->id, NULL);
	mutex_unlock(&l5_door_mutex);
	/* this waits for its handler */
	if (id)
		rdma_destroy_id(id);
	put_net(door->net);
	kfree_rcu(door, rcu);
}

static int l5_door_device_add(struct ib_device *dev)
{
	/* rdma_cm has to know it first */
	mod_delayed_work(l5_wq, &l5_door_retry, HZ / 10);
	return 0;
}

static struct ib_client l5_door_client = {
	.name	= "l5",
	.add	= l5_door_device_add,
};

int __init l5_knock_init(void)
{
	int err = ib_register_client(&l5_door_client);

	if (err)
		cancel_delayed_work_sync(&l5_door_retry);
	return err;
}

void l5_knock_exit(void)
{
	ib_unregister_client(&l5_door_client);
	cancel_delayed_work_sync(&l5_door_retry);
}
