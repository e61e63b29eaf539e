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
 * @users: listening sockets
 * @id: of the connection manager, NULL where there is no device
 * @ln: the namespace's part
 */
struct l5_door {
	struct list_head node;
	struct net *net;
	struct sockaddr_storage addr;
	int users;
	struct rdma_cm_id *id;
	struct l5_net *ln;
};

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
		door->net = sock_net(bsk);
		door->ln = l5->ln;
		list_add(&door->node, &l5_doors);
		l5_door_open(door);
	}
	door->users++;
	WRITE_ONCE(l5->door, door);
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
	struct rdma_cm_id *id = NULL;
	struct l5_door *door;

	mutex_lock(&l5_door_mutex);
	/* shutdown() and connect(AF_UNSPEC) may come here at once */
	door = l5->door;
	if (!door) {
		mutex_unlock(&l5_door_mutex);
		return;
	}
	WRITE_ONCE(l5->door, NULL);
	if (--door->users) {
		door = NULL;
	} else {
		list_del(&door->node);
		id = xchg(&door->id, NULL);
	}
	mutex_unlock(&l5_door_mutex);
	/* this waits for its handler */
	if (id)
		rdma_destroy_id(id);
	kfree(door);
}

/* A device came: those that could not listen before try again. */
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
