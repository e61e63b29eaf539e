// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5 between hosts: the side door, where a connection asks for RDMA.
 *
 * Not a byte of ours may go over a TCP connection whose peer may not know us.
 * So the question goes another way: a listener also listens with rdma_cm, on
 * the same address and port, and a client whose route leads to an RDMA device
 * asks there once TCP is connected. The 64 random bits that both ends of a
 * fresh TCP connection hold (see meet.c) say which connection is meant; they
 * are taken before any byte has moved. What is said is sealed by them: seal.c.
 *
 * A host without RDMA answers nothing for more than a minute, and no setting of
 * rdma_cm's changes that. So the question has a timer of its own, runs in the
 * background while TCP carries the bytes, and what came of it is remembered for
 * the destination. Nobody waits for it who did not ask to.
 *
 * On the server the question and accept() come in any order. Whichever is first
 * puts its l5_rdma in a table, the other finds it there and the two become one.
 */
#include <linux/if_vlan.h>
#include <linux/jhash.h>
#include <linux/slab.h>
#include <linux/tcp.h>
#include <net/ipv6.h>
#include <net/tcp.h>

#include <rdma/ib_cm.h>

#include "rdma.h"

#define L5_DOOR_BITS	8

/* A namespace's questions for sockets that are not accepted yet, their time. */
#define L5_DOOR_EARLY	1024
#define L5_DOOR_PATIENCE (10 * HZ)
/* Questions that are asked at a time; the others wait for their turn. */
#define L5_DOOR_ASKING	32
/* How long a closed socket's bytes may take to be acknowledged. */
#define L5_LINGER	(30 * HZ)

/* Objects with a cm id; the module stays until there are none. */
static atomic_t l5_door_ids = ATOMIC_INIT(0);
static DECLARE_WAIT_QUEUE_HEAD(l5_door_idle);

static atomic_t l5_door_asking = ATOMIC_INIT(0);

static DEFINE_SPINLOCK(l5_door_lock);
static struct hlist_head l5_door_table[1 << L5_DOOR_BITS];

/**
 * l5_rdma_do() - have the work of an object do something
 * @rd: the object
 * @what: L5_DO_*
 *
 * Context: any.
 */
void l5_rdma_do(struct l5_rdma *rd, int what)
{
	set_bit(what, &rd->todo);
	refcount_inc(&rd->ref);
	if (!queue_work(l5_wq, &rd->work))
		l5_rdma_put(rd);
}

/**
 * l5_door_expire() - look again later
 * @rd: the object
 * @delay: jiffies
 *
 * Context: any.
 */
void l5_door_expire(struct l5_rdma *rd, unsigned long delay)
{
	refcount_inc(&rd->ref);
	if (!queue_delayed_work(l5_wq, &rd->expire, delay))
		l5_rdma_put(rd);
}

static void l5_door_in_time(struct l5_rdma *rd)
{
	if (cancel_delayed_work(&rd->expire))
		l5_rdma_put(rd);
}

/* The table */

static struct hlist_head *l5_door_bucket(u64 key)
{
	static u32 seed __read_mostly;

	net_get_random_once(&seed, sizeof(seed));
	return &l5_door_table[jhash_2words(key, key >> 32, seed) &
			      ((1 << L5_DOOR_BITS) - 1)];
}

/* One of the other kind: a question if @asked, else a socket. */
static struct l5_rdma *l5_door_find(const struct l5_net *ln, u64 token,
				    bool asked)
{
	struct l5_rdma *rd;

	lockdep_assert_held(&l5_door_lock);
	hlist_for_each_entry(rd, l5_door_bucket(token), node)
		if (rd->token == token && rd->ln == ln && !!rd->id == asked)
			return rd;
	return NULL;
}

/* The table has a reference to what is in it. */
static void l5_door_add(struct l5_rdma *rd)
{
	lockdep_assert_held(&l5_door_lock);
	refcount_inc(&rd->ref);
	hlist_add_head(&rd->node, l5_door_bucket(rd->token));
	if (rd->id)
		rd->ln->door_early++;
}

static bool l5_door_del(struct l5_rdma *rd)
{
	lockdep_assert_held(&l5_door_lock);
	if (hlist_unhashed(&rd->node))
		return false;
	hlist_del_init(&rd->node);
	if (rd->id)
		rd->ln->door_early--;
	return true;
}

/**
 * l5_rdma_forget() - nobody is to find it any more
 * @rd: what may be in the table
 */
void l5_rdma_forget(struct l5_rdma *rd)
{
	bool was;

	spin_lock_bh(&l5_door_lock);
	was = l5_door_del(rd);
	spin_unlock_bh(&l5_door_lock);
	if (was)
		l5_rdma_put(rd);
}

/* Events of a connection. Only what must be done at once is done here. */

static void l5_door_fail(struct l5_rdma *rd, u8 reason)
{
	if (!rd->bye)
		WRITE_ONCE(rd->bye, reason);
	l5_rdma_dead(rd, ECONNRESET);
}

/* Of a queue pair that is made, but not connected yet. */
static void l5_door_timers(struct rdma_cm_id *id)
{
	rdma_set_ack_timeout(id, L5_ACK_TIMEOUT);
	/* its default is more than half a second */
	rdma_set_min_rnr_timer(id, L5_RNR_TIMER);
}

static void l5_door_connect(struct l5_rdma *rd)
{
	struct l5_hello hello = { };
	struct rdma_conn_param param = {
		.private_data = &hello,
		.private_data_len = sizeof(hello),
		.retry_count = 6,	/* 7 is for ever on some devices */
		.rnr_retry_count = 7,
	};
	u32 max;
	int err;

	/* see l5_door_quiet() */
	if (l5_rd(rd, L5_RD_DEAD))
		return;
	err = l5_rdma_create(rd);
	if (!err) {
		l5_rdma_hello(rd, &hello);
		max = hello.max_size;
		hello.tx_size = min(max, l5_conn_wish(rd->conn, true));
		hello.rx_size = min(max, l5_conn_wish(rd->conn, false));
		l5_seal_make(rd, &hello);
		l5_door_timers(rd->id);
		err = rdma_connect_locked(rd->id, &param);
	}
	if (err)
		l5_door_fail(rd, err == -EDQUOT ? L5_REASON_LIMIT :
						  L5_REASON_RDMA);
}

static bool l5_hello_valid(const struct l5_hello *h, size_t len)
{
	return len >= sizeof(*h) && h->magic == cpu_to_be32(L5_MAGIC) &&
	       h->version == L5_VERSION && h->endian == L5_ENDIAN &&
	       h->notify <= L5_NOTIFY_SEND &&
	       is_power_of_2(h->tx_size) && is_power_of_2(h->rx_size) &&
	       h->tx_size >= L5_RING_LEAST && h->tx_size <= L5_RING_MAX &&
	       h->rx_size >= L5_RING_LEAST && h->rx_size <= L5_RING_MAX;
}

static void l5_door_established(struct l5_rdma *rd, struct rdma_cm_event *event)
{
	const struct rdma_conn_param *p = &event->param.conn;
	const struct l5_hello *hello = p->private_data;

	if (!rd->server) {
		if (!hello || !l5_hello_valid(hello, p->private_data_len)) {
			l5_door_fail(rd, L5_REASON_REFUSED);
			return;
		}
		if (!l5_seal_good(rd, hello, p->qp_num)) {
			l5_net_count(rd->ln, L5_STAT_RDMA_FORGED, 1);
			l5_door_fail(rd, L5_REASON_REFUSED);
			return;
		}
		rd->hello = *hello;
		rd->peer_qpn = p->qp_num;
	}
	l5_rdma_do(rd, L5_DO_UP);
}

/*
 * InfiniBand's connection manager has messages of its own. That of iWARP makes
 * a TCP connection, to the application's port, and writes into it.
 */
static bool l5_door_fits(const struct rdma_cm_id *id)
{
	return rdma_cap_ib_cm(id->device, id->port_num);
}

/*
 * Did the peer say no, or does nobody listen there? Anything else, a queue pair
 * number that is still known from before or no resources, may pass.
 */
static bool l5_door_refused(int status)
{
	return status == IB_CM_REJ_CONSUMER_DEFINED ||
	       status == IB_CM_REJ_INVALID_SERVICE_ID;
}

static int l5_door_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct l5_rdma *rd = id->context;

	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		if (!l5_door_fits(id) ||
		    !rdma_dev_access_netns(id->device,
					   id->route.addr.dev_addr.net) ||
		    rdma_resolve_route(id, READ_ONCE(rd->ln->rdma_ms)))
			l5_door_fail(rd, L5_REASON_RDMA);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		l5_door_connect(rd);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		l5_door_established(rd, event);
		break;
	case RDMA_CM_EVENT_REJECTED:
		l5_door_fail(rd, l5_door_refused(event->status) ?
			     L5_REASON_REFUSED : L5_REASON_RDMA);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		l5_door_fail(rd, L5_REASON_PEER);
		break;
	case RDMA_CM_EVENT_UNREACHABLE:
		l5_door_fail(rd, L5_REASON_SILENT);
		break;
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		l5_door_fail(rd, L5_REASON_RDMA);
		break;
	default:
		break;
	}
	return 0;
}

/* The client */

static void l5_door_addr(const struct sock *sk, struct sockaddr_storage *to,
			 bool peer)
{
	const struct inet_sock *inet = inet_sk(sk);

	if (sk->sk_family == AF_INET6 &&
	    !ipv6_addr_v4mapped(&sk->sk_v6_daddr)) {
		struct sockaddr_in6 *sin6 = (struct sockaddr_in6 *)to;

		sin6->sin6_family = AF_INET6;
		sin6->sin6_addr = peer ? sk->sk_v6_daddr :
					 sk->sk_v6_rcv_saddr;
		sin6->sin6_port = peer ? inet->inet_dport : 0;
		if (ipv6_addr_type(&sk->sk_v6_daddr) & IPV6_ADDR_LINKLOCAL)
			sin6->sin6_scope_id = sk->sk_bound_dev_if;
	} else {
		struct sockaddr_in *sin = (struct sockaddr_in *)to;

		sin->sin_family = AF_INET;
		sin->sin_addr.s_addr = peer ? inet->inet_daddr :
					      inet->inet_rcv_saddr;
		sin->sin_port = peer ? inet->inet_dport : 0;
	}
}

/**
 * l5_door_loopback() - does an address never leave this host?
 * @a: the address
 */
bool l5_door_loopback(const struct sockaddr_storage *a)
{
	if (a->ss_family == AF_INET6)
		return ipv6_addr_loopback(&((struct sockaddr_in6 *)a)
					  ->sin6_addr);
	return ipv4_is_loopback(((struct sockaddr_in *)a)->sin_addr.s_addr);
}

/* Does the way there lead to an RDMA device? */
static bool l5_door_device(const struct sock *sk)
{
	const struct dst_entry *dst = __sk_dst_get((struct sock *)sk);
	struct net_device *dev = dst ? dst->dev : NULL;
	struct ib_device *ib;

	if (!dev)
		return false;
	if (is_vlan_dev(dev))
		dev = vlan_dev_real_dev(dev);
	ib = ib_device_get_by_netdev(dev, RDMA_DRIVER_UNKNOWN);
	if (!ib)
		return false;
	ib_device_put(ib);
	return true;
}

/**
 * l5_door_secured() - is RDMA to be left alone for the sake of IPsec?
 * @sk: a connected bootstrap
 *
 * An adapter sends what it sends in the clear. What leaves is known by the
 * route, which a policy has had its say about. What a policy wants of packets
 * that arrive is only asked for a packet: so any such policy of the namespace
 * counts.
 *
 * Context: any.
 */
bool l5_door_secured(struct sock *sk)
{
#ifdef CONFIG_XFRM
	const struct netns_xfrm *xfrm = &sock_net(sk)->xfrm;
	bool secured;

	rcu_read_lock();
	secured = READ_ONCE(xfrm->policy_count[XFRM_POLICY_IN]) ||
		  rcu_access_pointer(sk->sk_policy[XFRM_POLICY_IN]) ||
		  rcu_access_pointer(sk->sk_policy[XFRM_POLICY_OUT]);
	if (!secured) {
		const struct dst_entry *dst = __sk_dst_get(sk);

		secured = dst && dst->xfrm;
	}
	rcu_read_unlock();
	return secured;
#else
	return false;
#endif
}

/**
 * l5_door_wants() - may a socket ask for RDMA, or be asked?
 * @l5: the socket
 */
bool l5_door_wants(const struct l5_sock *l5)
{
	int want = READ_ONCE(l5->rdma_want), force = READ_ONCE(l5->force);

	if (want < 0)
		want = READ_ONCE(l5->ln->rdma);
	return want && l5->proto != L5PROTO_UNIX &&
	       force != L5_TRANSPORT_BASE && force != L5_TRANSPORT_SHM;
}

/**
 * l5_door_ask() - TCP is connected, and not to this kernel: ask for RDMA
 * @l5: the client, which prepared a connection
 *
 * Context: the bootstrap's lock held, no byte has moved; atomic.
 * Return: why not, L5_REASON_NONE if the question is on its way.
 */
enum l5_reason l5_door_ask(struct l5_sock *l5)
{
	const struct tcp_sock *tp = tcp_sk(l5->boot->sk);
	struct sock *bsk = l5->boot->sk;
	struct sockaddr_storage dst = { };
	struct l5_rdma *rd;
	u8 why;

	if (!l5_door_wants(l5) || l5->rd)
		return L5_REASON_PEER;
	l5_door_addr(bsk, &dst, true);
	if (l5_door_loopback(&dst))
		return L5_REASON_PEER;
	if (READ_ONCE(l5->force) != L5_TRANSPORT_RDMA &&
	    !l5_door_device(bsk))
		return L5_REASON_PEER;
	if (l5_door_secured(bsk))
		return L5_REASON_SECURED;
	why = l5_memo_look(sock_net(bsk), &dst);
	if (why)
		return why;
	rd = l5_rdma_alloc(l5->ln, GFP_ATOMIC);
	if (!rd)
		return L5_REASON_NOMEM;
	rd->key = (u64)tp->write_seq << 32 | READ_ONCE(tp->copied_seq);
	rd->token = l5_token(rd->key);
	l5_ends_of(bsk, L5_CLIENT, &rd->ends);
	rd->dst = dst;
	l5_door_addr(bsk, &rd->src, false);
	rd->end = L5_CLIENT;
	rd->conn = l5->conn;
	refcount_inc(&rd->conn->ref);
	l5_conn_wishes(rd->conn, &l5->sk);
	rd->l5 = l5;
	l5_count(l5, L5_STAT_RDMA_ASKED, 1);
	/* Y, pairs with l5_rdma_get(): it is whole */
	smp_store_release(&l5->rd, rd);
	/* first connect() is to return, unless it waits for the answer */
	if (READ_ONCE(l5->rdma_wait))
		l5_rdma_do(rd, L5_DO_ASK);
	else
		l5_door_expire(rd, 1);
	return L5_REASON_NONE;
}

/* An object gets a cm id: one reference, and one more for the module. */
static void l5_door_hold(struct l5_rdma *rd, struct rdma_cm_id *id)
{
	atomic_inc(&l5_door_ids);
	refcount_inc(&rd->ref);
	rd->id = id;
}

static void l5_door_let_go(struct l5_rdma *rd)
{
	l5_rdma_put(rd);
	if (atomic_dec_and_test(&l5_door_ids))
		wake_up(&l5_door_idle);
}

static struct net *l5_door_net(struct l5_rdma *rd)
{
	struct net *net = NULL;

	spin_lock_bh(&rd->lock);
	if (rd->l5)
		net = maybe_get_net(sock_net(&rd->l5->sk));
	spin_unlock_bh(&rd->lock);
	return net;
}

static void l5_door_resolve(struct l5_rdma *rd)
{
	unsigned int ms = READ_ONCE(rd->ln->rdma_ms);
	struct net *net = l5_door_net(rd);
	struct rdma_cm_id *id;

	/* closed already */
	if (!net)
		return;
	/* a burst is asked one after the other, each with its own time */
	if (atomic_inc_return(&l5_door_asking) > L5_DOOR_ASKING) {
		atomic_dec(&l5_door_asking);
		put_net(net);
		l5_door_expire(rd, HZ / 20);
		return;
	}
	set_bit(L5_RD_ASKING, &rd->flags);
	id = rdma_create_id(net, l5_door_event, rd, RDMA_PS_TCP, IB_QPT_RC);
	put_net(net);
	if (IS_ERR(id)) {
		l5_door_fail(rd, L5_REASON_RDMA);
		return;
	}
	l5_door_hold(rd, id);
	l5_door_expire(rd, msecs_to_jiffies(ms));
	if (rdma_resolve_addr(id, (struct sockaddr *)&rd->src,
			      (struct sockaddr *)&rd->dst, ms))
		l5_door_fail(rd, L5_REASON_PEER);
}

/* The server */

/* Reject; the caller's return value then ends the id. */
static int l5_door_reject(struct rdma_cm_id *id, u8 why)
{
	rdma_reject(id, NULL, 0, why);
	return -ECONNREFUSED;
}

/* Is a question the peer's of the socket that waits for one? */
static bool l5_door_genuine(const struct l5_rdma *rd,
			    const struct rdma_cm_id *id,
			    const struct l5_hello *hello, u32 qpn)
{
	return l5_seal_way(id, &rd->ends) && l5_seal_good(rd, hello, qpn);
}

/**
 * l5_door_asked() - a question came
 * @ln: to a listener of this namespace
 * @id: of the connection manager, not accepted yet
 * @p: what it brings
 *
 * It is for a socket that waits for it, or for one that will come. A socket
 * that waits goes on doing so if the question is not its peer's.
 *
 * Return: 0, or an error and then @id is of no more use.
 */
int l5_door_asked(struct l5_net *ln, struct rdma_cm_id *id,
		  const struct rdma_conn_param *p)
{
	const struct l5_hello *hello = p->private_data;
	struct l5_rdma *rd;
	bool forged;

	if (!hello || !l5_hello_valid(hello, p->private_data_len) ||
	    !l5_door_fits(id))
		return l5_door_reject(id, IB_CM_REJ_CONSUMER_DEFINED);
	spin_lock_bh(&l5_door_lock);
	rd = l5_door_find(ln, hello->token, false);
	forged = rd && !l5_door_genuine(rd, id, hello, p->qp_num);
	if (forged) {
		rd = NULL;
	} else if (rd) {
		/* the table's reference is the caller's now */
		hlist_del_init(&rd->node);
	} else if (ln->door_early < L5_DOOR_EARLY) {
		rd = l5_rdma_alloc(ln, GFP_ATOMIC);
	}
	if (!rd) {
		spin_unlock_bh(&l5_door_lock);
		if (forged) {
			l5_net_count(ln, L5_STAT_RDMA_FORGED, 1);
			return l5_door_reject(id, IB_CM_REJ_CONSUMER_DEFINED);
		}
		/* which passes: not an answer to be remembered */
		return l5_door_reject(id, IB_CM_REJ_NO_RESOURCES);
	}
	rd->token = hello->token;
	rd->hello = *hello;
	rd->peer_qpn = p->qp_num;
	rd->server = true;
	rd->end = L5_SERVER;
	id->context = rd;
	id->event_handler = l5_door_event;
	l5_door_hold(rd, id);
	if (READ_ONCE(rd->l5)) {
		l5_rdma_do(rd, L5_DO_ACCEPT);
	} else {
		l5_door_add(rd);
		l5_door_expire(rd, L5_DOOR_PATIENCE);
	}
	spin_unlock_bh(&l5_door_lock);
	l5_rdma_put(rd);
	return 0;
}

/**
 * l5_door_hope() - an accepted socket may be asked for RDMA
 * @l5: the socket
 * @listener: whose listener answers
 *
 * Context: may sleep; no byte has moved.
 */
void l5_door_hope(struct l5_sock *l5, struct l5_sock *listener)
{
	struct sock *bsk = l5->boot->sk;
	const struct tcp_sock *tp = tcp_sk(bsk);
	struct l5_rdma *rd, *early;
	struct sockaddr_storage dst = { };
	struct l5_door *door;
	struct l5_payer payer;
	bool forged = false;

	if (!l5_door_wants(listener))
		return;
	l5_door_addr(bsk, &dst, true);
	if (l5_door_loopback(&dst) || l5_door_secured(bsk))
		return;
	door = l5_door_get(listener);
	if (!door)
		return;
	if (l5_payer_get(&payer, l5->ln)) {
		l5_door_put(door);
		return;
	}
	rd = l5_rdma_alloc(l5->ln, GFP_KERNEL_ACCOUNT);
	if (!rd) {
		l5_payer_put(&payer);
		l5_door_put(door);
		return;
	}
	lock_sock(bsk);
	rd->key = (u64)READ_ONCE(tp->copied_seq) << 32 | tp->write_seq;
	l5_ends_of(bsk, L5_SERVER, &rd->ends);
	release_sock(bsk);
	rd->token = l5_token(rd->key);
	rd->end = L5_SERVER;

	spin_lock_bh(&l5_door_lock);
	early = l5_door_find(l5->ln, rd->token, true);
	if (early && !l5_door_genuine(rd, early->id, &early->hello,
				      early->peer_qpn)) {
		/* it goes when its time is over */
		forged = true;
		early = NULL;
	}
	if (early) {
		l5_door_del(early);
		/* not the time that the answer gets */
		l5_door_in_time(early);
		early->key = rd->key;
		early->ends = rd->ends;
		kfree(rd);
		/* the table's reference is the socket's now */
		rd = early;
	}
	/* until it was asked, or nobody asks any more */
	rd->door = door;
	rd->payer = payer;
	rd->mailbox = l5_mailbox_get(listener);
	l5_rdma_got_socket(rd, l5);
	if (early)
		l5_rdma_do(rd, L5_DO_ACCEPT);
	else
		l5_door_add(rd);
	spin_unlock_bh(&l5_door_lock);
	if (forged)
		l5_net_count(l5->ln, L5_STAT_RDMA_FORGED, 1);
	if (!early)
		l5_door_expire(rd, L5_HOPE);
}

/* No question is to come any more. */
static void l5_door_leave(struct l5_rdma *rd)
{
	struct l5_door *door = xchg(&rd->door, NULL);

	if (door)
		l5_door_put(door);
}

static void l5_door_sizes(struct l5_rdma *rd, u32 *client, u32 *server)
{
	u32 max = min(l5_rdma_max_size(rd), rd->hello.max_size);

	max = rounddown_pow_of_two(max(max, L5_RING_LEAST));
	*client = min(max(rd->hello.tx_size, l5_conn_wish(rd->conn, false)),
		      max);
	*server = min(max(rd->hello.rx_size, l5_conn_wish(rd->conn, true)),
		      max);
}

static int l5_door_accept(struct l5_rdma *rd)
{
	struct l5_hello hello = { };
	struct rdma_conn_param param = {
		.private_data = &hello,
		.private_data_len = sizeof(hello),
		.rnr_retry_count = 7,
	};
	struct l5_conn *conn;
	u32 client, server;
	int err;

	l5_door_leave(rd);
	conn = l5_conn_make(&rd->payer);
	if (IS_ERR(conn))
		return PTR_ERR(conn);
	rd->conn = conn;
	spin_lock_bh(&rd->lock);
	if (rd->l5)
		l5_conn_wishes(conn, &rd->l5->sk);
	spin_unlock_bh(&rd->lock);
	if (rd->mailbox)
		l5_mailbox_get_slot(rd);
	err = l5_rdma_create(rd);
	if (err)
		return err;
	l5_door_sizes(rd, &client, &server);
	err = l5_rdma_rings(rd, client, server);
	if (err)
		return err;
	l5_rdma_hello(rd, &hello);
	hello.tx_size = server;
	hello.rx_size = client;
	l5_seal_make(rd, &hello);
	l5_door_timers(rd->id);
	/* with the memory of an answer that does not come */
	l5_door_expire(rd, L5_DOOR_PATIENCE);
	rdma_lock_handler(rd->id);
	err = rdma_accept(rd->id, &param);
	rdma_unlock_handler(rd->id);
	return err;
}

static void l5_door_asked_enough(struct l5_rdma *rd)
{
	if (test_and_clear_bit(L5_RD_ASKING, &rd->flags))
		atomic_dec(&l5_door_asking);
}

/* The client learns from the answer how long the rings are. */
static int l5_door_up(struct l5_rdma *rd)
{
	const struct l5_hello *h = &rd->hello;
	u32 max = l5_rdma_max_size(rd);
	int err = 0;

	l5_door_in_time(rd);
	l5_door_asked_enough(rd);
	if (l5_rd(rd, L5_RD_DEAD))
		return 0;
	if (!rd->server) {
		if (h->tx_size > max || h->rx_size > max)
			return -EPROTO;
		err = l5_rdma_rings(rd, h->rx_size, h->tx_size);
	}
	rd->conn->rdma = rd;
	refcount_inc(&rd->ref);
	if (!err)
		err = l5_rdma_up(rd);
	return err;
}

/* From here on no event makes anything that would have to be given back. */
static void l5_door_quiet(struct l5_rdma *rd)
{
	spin_lock_bh(&rd->lock);
	set_bit(L5_RD_DEAD, &rd->flags);
	spin_unlock_bh(&rd->lock);
	if (!rd->id)
		return;
	/* one that did not see it yet is over now */
	rdma_lock_handler(rd->id);
	rdma_unlock_handler(rd->id);
}

/* What a closed socket was told to send is sent before its end. */
static bool l5_door_lingers(struct l5_rdma *rd)
{
	if (!l5_rd(rd, L5_RD_UP) || !l5_rd(rd, L5_RD_CLOSE) ||
	    l5_rdma_flushed(rd))
		return false;
	if (!rd->close_at)
		rd->close_at = jiffies;
	if (time_after(jiffies, rd->close_at + L5_LINGER))
		return false;
	l5_door_expire(rd, L5_TICK);
	return true;
}

static void l5_door_end(struct l5_rdma *rd)
{
	struct net *net;

	rd->ended = true;
	l5_rdma_forget(rd);
	l5_door_leave(rd);
	l5_door_in_time(rd);
	l5_door_quiet(rd);
	l5_door_asked_enough(rd);
	l5_poller_del(rd);
	/* which passes: who asks again may find room, or who accepts */
	if (rd->server && rd->id && !l5_rd(rd, L5_RD_UP) && !rd->id->qp)
		rdma_reject(rd->id, NULL, 0, IB_CM_REJ_NO_RESOURCES);
	/* one that is stuck may be so for long */
	if (rd->stuck)
		l5_move_over(rd);
	l5_rdma_drain(rd);
	net = l5_door_net(rd);
	if (net && !rd->server && !l5_rd(rd, L5_RD_PEER) &&
	    (rd->bye == L5_REASON_REFUSED || rd->bye == L5_REASON_SILENT))
		l5_memo_keep(rd, net, rd->bye);
	if (net)
		put_net(net);
	l5_move_over(rd);
	if (rd->id) {
		l5_rdma_destroy(rd);
		l5_door_let_go(rd);
	}
	/* nothing asks for another look any more */
	l5_door_in_time(rd);
	l5_mailbox_put_slot(rd);
	if (rd->conn)
		l5_conn_put(rd->conn);
}

/**
 * l5_door_work() - all that sleeps
 * @rd: the object
 * @todo: L5_DO_*
 */
void l5_door_work(struct l5_rdma *rd, unsigned long todo)
{
	int err = 0;

	/* also if that was heard while the queue pair was drained */
	if (todo & BIT(L5_DO_UNREAD))
		l5_move_unread(rd);
	if (rd->ended) {
		/* a socket may have come to it just then */
		l5_door_leave(rd);
		return;
	}
	if (todo & BIT(L5_DO_EXPIRE) && l5_rd(rd, L5_RD_UP)) {
		l5_move_tick(rd);
	} else if (todo & BIT(L5_DO_EXPIRE) && !READ_ONCE(rd->id)) {
		if (rd->end == L5_SERVER) {
			l5_move_hope_ends(rd);
			l5_door_leave(rd);
		} else {
			todo |= BIT(L5_DO_ASK);
		}
	} else if (todo & BIT(L5_DO_EXPIRE)) {
		l5_door_fail(rd, rd->server ? L5_REASON_RDMA :
					      L5_REASON_SILENT);
		todo |= BIT(L5_DO_END);
	}
	if (todo & BIT(L5_DO_END) ||
	    (todo & BIT(L5_DO_EXPIRE) && l5_rd(rd, L5_RD_CLOSE))) {
		if (!l5_door_lingers(rd))
			l5_door_end(rd);
		return;
	}
	if (l5_rd(rd, L5_RD_DEAD))
		return;
	if (todo & BIT(L5_DO_ASK))
		l5_door_resolve(rd);
	if (todo & BIT(L5_DO_ACCEPT))
		err = l5_door_accept(rd);
	if (todo & BIT(L5_DO_UP) && !err)
		err = l5_door_up(rd);
	if (todo & BIT(L5_DO_MOVE) && !err)
		l5_move_begin(rd);
	if (todo & BIT(L5_DO_POLL) && !err)
		l5_poller_list(rd);
	if (err)
		l5_door_fail(rd, err == -EDQUOT ? L5_REASON_LIMIT :
				 err == -ENOMEM ? L5_REASON_NOMEM :
						  L5_REASON_RDMA);
}

/**
 * l5_door_init() - when the module comes
 *
 * Return: 0 or why not.
 */
int __init l5_door_init(void)
{
	return l5_knock_init();
}

/**
 * l5_door_exit() - the module goes: wait for what closed sockets left
 */
void l5_door_exit(void)
{
	l5_knock_exit();
	wait_event(l5_door_idle, !atomic_read(&l5_door_ids));
}
