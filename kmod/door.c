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
 * On the server the question and accept() come in any order, see hope.c.
 */
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/tcp.h>
#include <net/addrconf.h>
#include <net/ipv6.h>
#include <net/tcp.h>

#include <rdma/ib_cm.h>

#include "rdma.h"

/* How long a closed socket's bytes may take to be acknowledged. */
#define L5_LINGER	(30 * HZ)

/* Objects with a cm id; the module stays until there are none. */
static atomic_t l5_door_ids = ATOMIC_INIT(0);
static DECLARE_WAIT_QUEUE_HEAD(l5_door_idle);
static bool l5_door_closing;

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

/**
 * l5_door_in_time() - no look later is needed
 * @rd: the object
 *
 * Context: any; one that has begun goes on.
 */
void l5_door_in_time(struct l5_rdma *rd)
{
	if (cancel_delayed_work(&rd->expire))
		l5_rdma_put(rd);
}

static void l5_door_let_go(struct l5_rdma *rd)
{
	l5_rdma_put(rd);
	if (atomic_dec_and_test(&l5_door_ids))
		wake_up(&l5_door_idle);
}

/* What was put off and not done yet is done again after this, and twice it. */
#define L5_PAUSE_MOST	(HZ / 2)

/**
 * l5_rdma_resume() - do what was put off
 * @work: l5_rdma.again
 */
void l5_rdma_resume(struct work_struct *work)
{
	struct l5_rdma *rd = container_of(work, struct l5_rdma, again.work);
	unsigned long later = xchg(&rd->later, 0);
	int what;

	for_each_set_bit(what, &later, BITS_PER_LONG)
		l5_rdma_do(rd, what);
	l5_door_let_go(rd);
}

/**
 * l5_rdma_put_off() - the work of an object cannot do something now
 * @rd: the object
 * @what: L5_DO_*
 *
 * It needs a lock of the socket's, and a task holds it that may do so for as
 * long as it likes: a fault of its own may be what it is in. All connections
 * share the workers, so none of these is to wait for it. The module does, as if
 * for an id.
 *
 * Context: @rd's work.
 */
void l5_rdma_put_off(struct l5_rdma *rd, int what)
{
	rd->pause = clamp_t(unsigned long, 2 * rd->pause, 1, L5_PAUSE_MOST);
	set_bit(what, &rd->later);
	atomic_inc(&l5_door_ids);
	refcount_inc(&rd->ref);
	if (!queue_delayed_work(l5_wq, &rd->again, rd->pause))
		l5_door_let_go(rd);
}

/* What takes such locks, and is done after the end of the object as well. */
static void l5_door_try(struct l5_rdma *rd, unsigned long todo)
{
	if (todo & BIT(L5_DO_UNREAD) && !l5_move_unread(rd))
		l5_rdma_put_off(rd, L5_DO_UNREAD);
	if (todo & BIT(L5_DO_ABORT) && !l5_move_abort(rd))
		l5_rdma_put_off(rd, L5_DO_ABORT);
	if (todo & BIT(L5_DO_FIN) && !l5_fin_work(rd))
		l5_rdma_put_off(rd, L5_DO_FIN);
	if (todo & BIT(L5_DO_UNUSED) && !l5_move_unused(rd))
		l5_rdma_put_off(rd, L5_DO_UNUSED);
}

/* Events of a connection. Only what must be done at once is done here. */

static void l5_door_fail(struct l5_rdma *rd, u8 reason)
{
	if (!rd->bye)
		WRITE_ONCE(rd->bye, reason);
	l5_rdma_dead(rd, ECONNRESET);
}

/*
 * Of a queue pair that is made, but not connected yet. A device waits for
 * 4.096 us << n at least until it sends a packet again.
 */
static void l5_door_timers(struct l5_rdma *rd)
{
	u64 ns = jiffies_to_nsecs(rd->timeout);
	unsigned long units = DIV_ROUND_UP_ULL(ns, 4096 * (L5_RETRY + 1));

	rdma_set_ack_timeout(rd->id, order_base_2(units));
	/* its default is more than half a second */
	rdma_set_min_rnr_timer(rd->id, L5_RNR_TIMER);
}

/* Why it stays on TCP that something failed here. */
static u8 l5_door_why(int err)
{
	return err == -EDQUOT ? L5_REASON_LIMIT :
	       err == -ENOMEM ? L5_REASON_NOMEM : L5_REASON_RDMA;
}

static void l5_door_connect(struct l5_rdma *rd)
{
	struct l5_hello hello = { };
	struct rdma_conn_param param = {
		.private_data = &hello,
		.private_data_len = sizeof(hello),
		.retry_count = L5_RETRY,
		.rnr_retry_count = L5_RNR_RETRY,
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
		l5_door_timers(rd);
		err = rdma_connect_locked(rd->id, &param);
	}
	if (err)
		l5_door_fail(rd, l5_door_why(err));
}

static bool l5_hello_valid(const struct l5_hello *h, size_t len)
{
	return len >= sizeof(*h) && h->magic == cpu_to_be32(L5_MAGIC) &&
	       h->version == L5_VERSION && h->endian == L5_ENDIAN &&
	       l5_order_valid(h) &&
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
		l5_order_agree(rd);
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
 * number that is still known from before or no resources, may pass. So does an
 * end: the connection manager says no by itself for a server that goes while
 * its answer is on its way, but has nothing to add.
 */
static bool l5_door_refused(const struct rdma_cm_event *event)
{
	const struct rdma_conn_param *p = &event->param.conn;

	if (event->status == IB_CM_REJ_CONSUMER_DEFINED)
		return p->private_data &&
		       memchr_inv(p->private_data, 0, p->private_data_len);
	return event->status == IB_CM_REJ_INVALID_SERVICE_ID;
}

static void l5_door_heard(struct l5_rdma *rd, struct rdma_cm_id *id,
			  struct rdma_cm_event *event)
{
	u8 why;

	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		why = l5_guard_way(id);
		if (why)
			l5_door_fail(rd, why);
		else if (!l5_door_fits(id) ||
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
		l5_door_fail(rd, l5_door_refused(event) ?
			     L5_REASON_REFUSED : L5_REASON_RDMA);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		l5_door_fail(rd, L5_REASON_PEER);
		break;
	case RDMA_CM_EVENT_UNREACHABLE:
		/* all words that the answer came were lost, not what followed */
		if (!rd->server || !l5_rd(rd, L5_RD_UP))
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
}

static int l5_door_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct l5_rdma *rd = id->context;
	struct mem_cgroup *old = set_active_memcg(READ_ONCE(rd->payer.memcg));

	l5_door_heard(rd, id, event);
	set_active_memcg(old);
	return 0;
}

/* The client */

/**
 * l5_door_addr() - an address of a connection
 * @sk: its bootstrap
 * @to: filled in; zero
 * @peer: the peer's with its port, or the own one with none
 */
void l5_door_addr(const struct sock *sk, struct sockaddr_storage *to,
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
		sin6->sin6_scope_id = ipv6_iface_scope_id(&sin6->sin6_addr,
							  sk->sk_bound_dev_if);
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
	struct mem_cgroup *old;
	struct l5_rdma *rd;
	u8 why;

	if (!l5_door_wants(l5) || l5->rd || l5->hope)
		return L5_REASON_PEER;
	l5_door_addr(bsk, &dst, true);
	if (l5_door_loopback(&dst))
		return L5_REASON_PEER;
	if (READ_ONCE(l5->force) != L5_TRANSPORT_RDMA &&
	    !l5_rdma_reaches(bsk))
		return L5_REASON_PEER;
	if (l5_denied_rdma(l5))
		return L5_REASON_DENIED;
	/* TCP has just looked at its route */
	why = l5_guard(bsk) ?:
	      l5_memo_look(sock_net(bsk), &dst, l5->sk.sk_uid);
	if (why)
		return why;
	old = set_active_memcg(l5->conn->end[L5_CLIENT].payer.memcg);
	rd = l5_rdma_alloc(l5->ln, GFP_ATOMIC | __GFP_ACCOUNT);
	set_active_memcg(old);
	if (!rd)
		return L5_REASON_NOMEM;
	rd->key = (u64)tp->write_seq << 32 | READ_ONCE(tp->copied_seq);
	rd->token = l5_token(rd->key);
	l5_ends_of(bsk, L5_CLIENT, &rd->ends);
	rd->dst = dst;
	rd->uid = l5->sk.sk_uid;
	l5_door_addr(bsk, &rd->src, false);
	rd->end = L5_CLIENT;
	rd->conn = l5->conn;
	refcount_inc(&rd->conn->ref);
	l5_payer_copy(&rd->payer, &rd->conn->end[L5_CLIENT].payer);
	l5_conn_wishes(rd->conn, &l5->sk);
	rd->l5 = l5;
	l5_count(l5, L5_STAT_RDMA_ASKED, 1);
	/* Y, pairs with l5_may_move(): it is whole */
	smp_store_release(&l5->rd, rd);
	/* first connect() is to return, unless it waits for the answer */
	if (READ_ONCE(l5->rdma_wait))
		l5_rdma_do(rd, L5_DO_ASK);
	else
		l5_door_expire(rd, 1);
	return L5_REASON_NONE;
}

/**
 * l5_door_hold() - an object gets a cm id
 * @rd: the object, which the id has a reference to, and tells of events
 * @id: its id, which the module waits for when it goes
 *
 * Context: any.
 */
void l5_door_hold(struct l5_rdma *rd, struct rdma_cm_id *id)
{
	atomic_inc(&l5_door_ids);
	refcount_inc(&rd->ref);
	id->context = rd;
	id->event_handler = l5_door_event;
	rd->id = id;
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

/* What came of a question is known: none, or why its socket stays on TCP. */
static void l5_door_remember(struct l5_rdma *rd, u8 why)
{
	struct net *net = l5_door_net(rd);

	if (!net)
		return;
	if (why)
		l5_memo_keep(rd, net, why);
	else
		l5_memo_drop(rd, net);
	put_net(net);
}

/* Why not to ask; who has to wait for its turn does not ask either. */
static u8 l5_door_turn(struct l5_rdma *rd, const struct net *net)
{
	/* of those before it, if it had to wait */
	u8 why = l5_memo_look(net, &rd->dst, rd->uid);

	if (!why && l5_turn_take(rd, l5_memo_who(net, &rd->dst, rd->uid)) < 0)
		why = L5_REASON_NOMEM;
	return why;
}

static void l5_door_resolve(struct l5_rdma *rd)
{
	unsigned int ms = READ_ONCE(rd->ln->rdma_ms);
	struct net *net = l5_door_net(rd);
	struct rdma_cm_id *id;
	u8 why;

	/* closed already */
	if (!net)
		return;
	why = l5_door_turn(rd, net);
	if (why || !l5_rd(rd, L5_RD_ASKING)) {
		put_net(net);
		if (why)
			l5_door_fail(rd, why);
		return;
	}
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

/* Reject, see l5_door_refused(); the caller's return value then ends the id. */
static int l5_door_reject(struct rdma_cm_id *id, u8 why)
{
	const __be32 no = cpu_to_be32(L5_MAGIC);

	rdma_reject(id, &no, sizeof(no), why);
	return -ECONNREFUSED;
}

/**
 * l5_door_asked() - a question came
 * @ln: to a listener of this namespace
 * @id: of the connection manager, not accepted yet
 * @p: what it brings
 *
 * Return: 0, or an error and then @id is of no more use.
 */
int l5_door_asked(struct l5_net *ln, struct rdma_cm_id *id,
		  const struct rdma_conn_param *p)
{
	struct l5_rdma *rd;
	int err;

	if (!p->private_data ||
	    !l5_hello_valid(p->private_data, p->private_data_len) ||
	    !l5_door_fits(id) || l5_guard_way(id))
		return l5_door_reject(id, IB_CM_REJ_CONSUMER_DEFINED);
	err = l5_hope_asked(ln, id, p, &rd);
	if (err == -EKEYREJECTED) {
		l5_net_count(ln, L5_STAT_RDMA_FORGED, 1);
		return l5_door_reject(id, IB_CM_REJ_CONSUMER_DEFINED);
	}
	/* which passes: not an answer to be remembered */
	if (err)
		return l5_door_reject(id, IB_CM_REJ_NO_RESOURCES);
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
	struct sockaddr_storage dst = { };
	struct l5_door *door;
	u64 key;
	u8 why;

	if (!l5_door_wants(listener))
		return;
	l5_door_addr(bsk, &dst, true);
	if (l5_door_loopback(&dst))
		return;
	/* as a rule there is none, and what follows looks at routes */
	door = l5_door_get(listener, bsk);
	if (!door)
		return;
	why = l5_denied_rdma(listener) ? L5_REASON_DENIED :
					 l5_guard_again(bsk);
	if (why) {
		WRITE_ONCE(l5->reason, why);
		l5_door_put(door);
		return;
	}
	lock_sock(bsk);
	key = (u64)READ_ONCE(tp->copied_seq) << 32 | tp->write_seq;
	release_sock(bsk);
	l5_hope_begin(l5, key, listener, door);
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
		.rnr_retry_count = L5_RNR_RETRY,
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
	l5_door_timers(rd);
	/* with the memory of an answer that does not come */
	l5_door_expire(rd, L5_DOOR_PATIENCE);
	rd->answered = true;
	rdma_lock_handler(rd->id);
	err = rdma_accept(rd->id, &param);
	rdma_unlock_handler(rd->id);
	return err;
}

/* Why a socket is not to ask, or be asked, as it was when that began. */
static u8 l5_door_unwanted(const struct l5_sock *l5)
{
	if (!READ_ONCE(l5->ln->enabled) || !l5_door_wants(l5))
		return L5_REASON_DISABLED;
	return l5_denied(l5) || l5_denied_rdma(l5) ? L5_REASON_DENIED :
						     L5_REASON_NONE;
}

/* Was there something meanwhile that wants the connection on TCP? */
static bool l5_door_guarded(struct l5_rdma *rd)
{
	struct sock *bsk = NULL;
	struct l5_sock *l5;
	u8 why;

	spin_lock_bh(&rd->lock);
	l5 = rd->l5;
	if (l5) {
		bsk = l5->boot->sk;
		sock_hold(&l5->sk);
		sock_hold(bsk);
	}
	spin_unlock_bh(&rd->lock);
	if (!l5)
		return false;
	why = l5_door_unwanted(l5) ?: l5_guard_again(bsk);
	sock_put(bsk);
	sock_put(&l5->sk);
	if (why)
		l5_door_fail(rd, why);
	return why;
}

/* The client learns from the answer how long the rings are. */
static int l5_door_up(struct l5_rdma *rd)
{
	const struct l5_hello *h = &rd->hello;
	u32 max = l5_rdma_max_size(rd);
	int err = 0;

	l5_door_in_time(rd);
	l5_turn_leave(rd);
	if (l5_rd(rd, L5_RD_DEAD) || l5_door_guarded(rd))
		return 0;
	if (!rd->server) {
		l5_door_remember(rd, L5_REASON_NONE);
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

/*
 * What a closed socket was told to send is sent before its end, unless nobody
 * is there any more that reads it: then it may be that nobody acknowledges it,
 * either.
 */
static bool l5_door_lingers(struct l5_rdma *rd)
{
	unsigned long patience;

	if (!l5_rd(rd, L5_RD_UP) || !l5_rd(rd, L5_RD_CLOSE) ||
	    l5_rd(rd, L5_RD_PEER_CLOSED) || l5_rdma_flushed(rd))
		return false;
	if (!rd->close_at)
		rd->close_at = jiffies;
	/* who unloads the module does not wait for more than that */
	patience = L5_LINGER;
	if (!READ_ONCE(l5_door_closing))
		patience = max(patience, rd->timeout);
	if (time_after(jiffies, rd->close_at + patience))
		return false;
	l5_door_expire(rd, L5_TICK);
	return true;
}

static void l5_door_end(struct l5_rdma *rd)
{
	rd->ended = true;
	l5_rdma_forget(rd);
	l5_door_leave(rd);
	l5_door_in_time(rd);
	l5_door_quiet(rd);
	l5_turn_leave(rd);
	l5_poller_del(rd);
	/* which passes: who asks again may find room, or who accepts */
	if (rd->server && rd->id && !rd->answered)
		rdma_reject(rd->id, NULL, 0, IB_CM_REJ_NO_RESOURCES);
	/* one that is stuck may be so for long */
	if (rd->stuck)
		l5_move_over(rd);
	l5_rdma_drain(rd);
	/* anything else says nothing of the destination */
	if (rd->id && !rd->server && !l5_rd(rd, L5_RD_PEER) &&
	    (rd->bye == L5_REASON_REFUSED || rd->bye == L5_REASON_SILENT))
		l5_door_remember(rd, rd->bye);
	l5_move_over(rd);
	if (rd->id) {
		l5_rdma_destroy(rd);
		l5_door_let_go(rd);
	}
	/* nothing asks for another look any more */
	l5_door_in_time(rd);
	l5_mailbox_put_slot(rd);
	l5_door_try(rd, BIT(L5_DO_UNUSED));
}

/**
 * l5_door_work() - all that sleeps
 * @rd: the object
 * @todo: L5_DO_*
 */
void l5_door_work(struct l5_rdma *rd, unsigned long todo)
{
	int err = 0;

	l5_door_try(rd, todo);
	if (rd->ended) {
		/* a socket may have come to it just then */
		l5_door_leave(rd);
		return;
	}
	if (todo & BIT(L5_DO_EXPIRE) && l5_rd(rd, L5_RD_UP)) {
		l5_move_tick(rd);
	} else if (todo & BIT(L5_DO_EXPIRE) && !READ_ONCE(rd->id)) {
		todo |= BIT(L5_DO_ASK);
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
	if (todo & BIT(L5_DO_ACCEPT) && !l5_door_guarded(rd))
		err = l5_door_accept(rd);
	if (todo & BIT(L5_DO_UP) && !err && !l5_rd(rd, L5_RD_UP))
		err = l5_door_up(rd);
	/* the peer may have been up first */
	if (todo & (BIT(L5_DO_MOVE) | BIT(L5_DO_UP)) && !err &&
	    l5_rd(rd, L5_RD_UP) && l5_rd(rd, L5_RD_PEER) && !l5_move_begin(rd))
		l5_rdma_put_off(rd, L5_DO_MOVE);
	if (todo & BIT(L5_DO_POLL) && !err)
		l5_poller_list(rd);
	if (err)
		l5_door_fail(rd, l5_door_why(err));
}

/**
 * l5_door_init() - when the module comes
 *
 * Return: 0 or why not.
 */
int __init l5_door_init(void)
{
	int err = l5_hope_init();

	if (err)
		return err;
	err = l5_knock_init();
	if (err)
		l5_hope_exit();
	return err;
}

/**
 * l5_door_exit() - the module goes: wait for what closed sockets left
 */
void l5_door_exit(void)
{
	l5_knock_exit();
	WRITE_ONCE(l5_door_closing, true);
	wait_event(l5_door_idle, !atomic_read(&l5_door_ids));
	/* of those without an id */
	flush_workqueue(l5_wq);
	l5_hope_exit();
}
