// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5 between hosts: how a connection asks for RDMA, and is answered.
 *
 * No byte of ours may go over a TCP connection whose peer may not know us. So
 * the question goes another way: a listener also listens with rdma_cm, on the
 * same address and port, and a client whose route leads to an RDMA device asks
 * there once TCP is connected. The 64 random bits that both ends of a fresh TCP
 * connection hold (see rendezvous.c) say which connection is meant; they are
 * taken before any byte has moved. They also seal what is said: see seal.c.
 *
 * A question to a host without RDMA goes unanswered for more than a minute, and
 * no setting of rdma_cm changes that. So the question has a timer of its own,
 * runs in the background while TCP carries the bytes, and its outcome is
 * remembered for the destination. Only a socket with the option L5_RDMA_WAIT
 * waits for it.
 *
 * At the server the question and accept() come in any order, see candidate.c.
 */
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/tcp.h>
#include <net/tcp.h>

#include <rdma/ib_cm.h>

#include "rdma.h"

static const struct l5_wire_ops l5_rdma_wire;

/* The client */

/**
 * l5_cm_ask() - TCP is connected, and not to this kernel: ask for RDMA
 * @l5: the client, which has a connection prepared
 * @t: this transport, as sockets see it
 *
 * Context: the bootstrap's lock held, no byte has moved; atomic.
 * Return: why not, L5_REASON_NONE if the question is on its way.
 */
enum l5_reason l5_cm_ask(struct l5_sock *l5, const struct l5_transport_ops *t)
{
	const struct tcp_sock *tp = tcp_sk(l5->boot->sk);
	struct sock *bsk = l5->boot->sk;
	struct sockaddr_storage dst = { };
	struct mem_cgroup *old;
	struct l5_rdma *rd;
	u8 why;

	if (!l5_rdma_wants(l5) || l5_far_sk(l5)->far ||
	    l5_rdma_sk(l5)->candidate)
		return L5_REASON_PEER;
	l5_rdma_addr(bsk, &dst, true);
	if (l5_rdma_loopback(&dst))
		return L5_REASON_PEER;
	if (!l5_far_only(l5) && !l5_rdma_reaches(bsk))
		return L5_REASON_PEER;
	if (l5_denied_rdma(l5))
		return L5_REASON_DENIED;
	/* TCP has just looked its route up */
	why = l5_guard(bsk) ?:
	      l5_cm_cache_look(sock_net(bsk), &dst, l5->sk.sk_uid);
	if (why)
		return why;
	old = set_active_memcg(l5->conn->end[L5_CLIENT].payer.memcg);
	rd = l5_rdma_alloc(l5->ln, &l5_rdma_wire, GFP_ATOMIC | __GFP_ACCOUNT);
	set_active_memcg(old);
	if (!rd)
		return L5_REASON_NOMEM;
	rd->far.key = (u64)tp->write_seq << 32 | READ_ONCE(tp->copied_seq);
	rd->token = l5_token(rd->far.key);
	l5_ends_of(bsk, L5_CLIENT, &rd->ends);
	rd->dst = dst;
	rd->uid = l5->sk.sk_uid;
	l5_rdma_addr(bsk, &rd->src, false);
	rd->far.end = L5_CLIENT;
	rd->far.conn = l5->conn;
	refcount_inc(&rd->far.conn->ref);
	l5_payer_copy(&rd->far.payer, &rd->far.conn->end[L5_CLIENT].payer);
	l5_conn_wishes(rd->far.conn, &l5->sk);
	rd->far.l5 = l5;
	l5_count(l5, L5_STAT_RDMA_ASKED, 1);
	/* Y, pairs with l5_far_of(): the object is whole */
	smp_store_release(&l5_far_sk(l5)->far, &rd->far);
	smp_store_release(&l5->remote, t);
	/* first connect() is to return, unless it waits for the answer */
	if (READ_ONCE(l5->remote_wait))
		l5_far_do(&rd->far, L5_DO_ASK);
	else
		l5_far_expire(&rd->far, 1);
	return L5_REASON_NONE;
}

static struct net *l5_cm_net(struct l5_rdma *rd)
{
	struct net *net = NULL;

	spin_lock_bh(&rd->far.lock);
	if (rd->far.l5)
		net = maybe_get_net(sock_net(&rd->far.l5->sk));
	spin_unlock_bh(&rd->far.lock);
	return net;
}

/* Remember the outcome of a question: 0, or why its socket stays on TCP. */
static void l5_cm_remember(struct l5_rdma *rd, u8 why)
{
	struct net *net = l5_cm_net(rd);

	if (!net)
		return;
	if (why)
		l5_cm_cache_keep(rd, net, why);
	else
		l5_cm_cache_drop(rd, net);
	put_net(net);
}

/* Why not to ask. Else @turn says whether it is this question's turn. */
static u8 l5_cm_turn(struct l5_rdma *rd, const struct net *net, bool *turn)
{
	/* the outcome of questions before this one, if it had to wait */
	u8 why = l5_cm_cache_look(net, &rd->dst, rd->uid);
	int ret;

	if (why)
		return why;
	ret = l5_cm_turn_take(rd, l5_cm_cache_who(net, &rd->dst, rd->uid));
	/* else L5_DO_ASK comes again, and may have come by now */
	*turn = ret > 0;
	return ret < 0 ? L5_REASON_NOMEM : L5_REASON_NONE;
}

static void l5_cm_resolve(struct l5_rdma *rd)
{
	struct net *net = l5_cm_net(rd);
	struct rdma_cm_id *id;
	bool turn = false;
	unsigned int ms;
	u8 why;

	/* the socket is closed already, and its namespace may be gone */
	if (!net)
		return;
	ms = READ_ONCE(rd->far.ln->rdma_ms);
	why = l5_cm_turn(rd, net, &turn);
	if (why || !turn) {
		put_net(net);
		if (why)
			l5_cm_fail(rd, why);
		return;
	}
	id = rdma_create_id(net, l5_cm_event, rd, RDMA_PS_TCP, IB_QPT_RC);
	put_net(net);
	if (IS_ERR(id)) {
		l5_cm_fail(rd, L5_REASON_RDMA);
		return;
	}
	l5_cm_hold(rd, id);
	l5_far_expire(&rd->far, msecs_to_jiffies(ms));
	if (rdma_resolve_addr(id, (struct sockaddr *)&rd->src,
			      (struct sockaddr *)&rd->dst, ms))
		l5_cm_fail(rd, L5_REASON_PEER);
}

/* The server */

/* Reject, see l5_cm_refused(); the caller's return value then ends the id. */
static int l5_cm_reject(struct rdma_cm_id *id, u8 why)
{
	const __be32 no = cpu_to_be32(L5_MAGIC);

	rdma_reject(id, &no, sizeof(no), why);
	return -ECONNREFUSED;
}

/* A question came, see l5_cm_asked_fn. */
static int l5_cm_asked(struct l5_net *ln, struct rdma_cm_id *id,
		       const struct rdma_conn_param *p)
{
	struct l5_rdma *rd;
	int err;

	if (!p->private_data ||
	    !l5_hello_valid(p->private_data, p->private_data_len) ||
	    !l5_cm_fits(id) || l5_guard_way(id))
		return l5_cm_reject(id, IB_CM_REJ_CONSUMER_DEFINED);
	err = l5_candidate_asked(ln, id, p, &l5_rdma_wire, &rd);
	if (err == -EKEYREJECTED) {
		l5_net_count(ln, L5_STAT_RDMA_FORGED, 1);
		return l5_cm_reject(id, IB_CM_REJ_CONSUMER_DEFINED);
	}
	/* this passes, so the answer is not to be remembered */
	if (err)
		return l5_cm_reject(id, IB_CM_REJ_NO_RESOURCES);
	l5_far_put(&rd->far);
	return 0;
}

/**
 * l5_cm_accepted() - an accepted socket may be asked for RDMA
 * @l5: the socket
 * @listener: the socket that accepted it
 * @t: this transport, as sockets see it
 *
 * Context: may sleep; no byte has moved.
 */
void l5_cm_accepted(struct l5_sock *l5, struct l5_sock *listener,
		    const struct l5_transport_ops *t)
{
	struct sock *bsk = l5->boot->sk;
	const struct tcp_sock *tp = tcp_sk(bsk);
	struct sockaddr_storage dst = { };
	struct l5_cm_listener *cl;
	u64 key;
	u8 why;

	if (!l5_rdma_wants(listener))
		return;
	l5_rdma_addr(bsk, &dst, true);
	if (l5_rdma_loopback(&dst))
		return;
	/* as a rule there is none; what follows looks at routes */
	cl = l5_cm_listener_get(listener, bsk);
	if (!cl)
		return;
	why = l5_denied_rdma(listener) ? L5_REASON_DENIED :
					 l5_guard_again(bsk);
	if (why) {
		WRITE_ONCE(l5->reason, why);
		l5_cm_listener_put(cl);
		return;
	}
	lock_sock(bsk);
	key = (u64)READ_ONCE(tp->copied_seq) << 32 | tp->write_seq;
	release_sock(bsk);
	l5_candidate_begin(l5, key, listener, cl, t);
}

/* Give the listener back: no question is to come any more. */
static void l5_cm_leave(struct l5_rdma *rd)
{
	struct l5_cm_listener *cl = xchg(&rd->cm_listener, NULL);

	if (cl)
		l5_cm_listener_put(cl);
}

static void l5_cm_sizes(struct l5_rdma *rd, u32 *client, u32 *server)
{
	u32 max = min(l5_rdma_max_size(rd), rd->hello.max_size);

	max = rounddown_pow_of_two(max(max, L5_RING_LEAST));
	*client = min(max(rd->hello.tx_size, l5_conn_wish(rd->far.conn, false)),
		      max);
	*server = min(max(rd->hello.rx_size, l5_conn_wish(rd->far.conn, true)),
		      max);
}

static int l5_cm_accept(struct l5_rdma *rd)
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

	l5_cm_leave(rd);
	conn = l5_conn_make(&rd->far.payer);
	if (IS_ERR(conn))
		return PTR_ERR(conn);
	rd->far.conn = conn;
	spin_lock_bh(&rd->far.lock);
	if (rd->far.l5)
		l5_conn_wishes(conn, &rd->far.l5->sk);
	spin_unlock_bh(&rd->far.lock);
	if (rd->far.mailbox)
		l5_mailbox_get_slot(&rd->far);
	err = l5_rdma_create(rd);
	if (err)
		return err;
	l5_cm_sizes(rd, &client, &server);
	err = l5_rdma_rings(rd, client, server);
	if (err)
		return err;
	l5_rdma_hello(rd, &hello);
	hello.tx_size = server;
	hello.rx_size = client;
	l5_seal_make(rd, &hello);
	l5_cm_timers(rd);
	/* then the memory of an answer that does not arrive is freed */
	l5_far_expire(&rd->far, L5_CM_PATIENCE);
	rd->answered = true;
	rdma_lock_handler(rd->id);
	err = rdma_accept(rd->id, &param);
	rdma_unlock_handler(rd->id);
	return err;
}

/* Why a socket is not to ask, or be asked, any more, though it was at first. */
static u8 l5_cm_unwanted(const struct l5_sock *l5)
{
	if (!READ_ONCE(l5->ln->enabled) || !l5_rdma_wants(l5))
		return L5_REASON_DISABLED;
	return l5_denied(l5) || l5_denied_rdma(l5) ? L5_REASON_DENIED :
						     L5_REASON_NONE;
}

/* Has something changed meanwhile that keeps the connection on TCP? */
static bool l5_cm_guarded(struct l5_rdma *rd)
{
	struct sock *bsk = NULL;
	struct l5_sock *l5;
	u8 why;

	spin_lock_bh(&rd->far.lock);
	l5 = rd->far.l5;
	if (l5) {
		bsk = l5->boot->sk;
		sock_hold(&l5->sk);
		sock_hold(bsk);
	}
	spin_unlock_bh(&rd->far.lock);
	if (!l5)
		return false;
	why = l5_cm_unwanted(l5) ?: l5_guard_again(bsk);
	sock_put(bsk);
	sock_put(&l5->sk);
	if (why)
		l5_cm_fail(rd, why);
	return why;
}

/* The queue pair is connected. A client has the rings' sizes by the answer. */
static int l5_cm_up(struct l5_rdma *rd)
{
	const struct l5_hello *h = &rd->hello;
	u32 max = l5_rdma_max_size(rd);
	int err = 0;

	l5_far_in_time(&rd->far);
	l5_cm_turn_leave(rd);
	if (l5_is_dead(&rd->far.ph) || l5_cm_guarded(rd))
		return 0;
	if (!l5_far_asked(&rd->far)) {
		l5_cm_remember(rd, L5_REASON_NONE);
		if (h->tx_size > max || h->rx_size > max)
			return -EPROTO;
		err = l5_rdma_rings(rd, h->rx_size, h->tx_size);
	}
	refcount_inc(&rd->far.ref);
	l5_far_link_set(&rd->far);
	if (!err)
		err = l5_rdma_up(rd);
	return err;
}

/* From here on no event makes an object that would have to be given back. */
static void l5_cm_quiet(struct l5_far *far)
{
	struct l5_rdma *rd = l5_rdma_of(far);

	l5_rdma_forget(rd);
	l5_cm_leave(rd);
	if (rd->id) {
		/* an event that did not see that it is dead is over now */
		rdma_lock_handler(rd->id);
		rdma_unlock_handler(rd->id);
	}
	l5_cm_turn_leave(rd);
	/* this passes: a later question may find room, or an accept() */
	if (l5_far_asked(far) && rd->id && !rd->answered)
		rdma_reject(rd->id, NULL, 0, IB_CM_REJ_NO_RESOURCES);
}

static void l5_cm_drain(struct l5_far *far)
{
	struct l5_rdma *rd = l5_rdma_of(far);

	l5_rdma_drain(rd);
	/* any other reason says nothing of the destination */
	if (rd->id && !l5_far_asked(far) && !l5_far_is(far, L5_FAR_PEER) &&
	    (far->bye == L5_REASON_REFUSED || far->bye == L5_REASON_SILENT))
		l5_cm_remember(rd, far->bye);
}

static void l5_cm_destroy(struct l5_far *far)
{
	struct l5_rdma *rd = l5_rdma_of(far);

	if (!rd->id)
		return;
	l5_rdma_destroy(rd);
	l5_far_let_go(far);
}

/* A socket may have come to the object just then. */
static void l5_cm_late(struct l5_far *far)
{
	l5_cm_leave(l5_rdma_of(far));
}

/* A client without an id has not asked. */
static unsigned long l5_cm_expired(struct l5_far *far)
{
	struct l5_rdma *rd = l5_rdma_of(far);

	if (!READ_ONCE(rd->id))
		return BIT(L5_DO_ASK);
	l5_cm_fail(rd, l5_far_asked(far) ? L5_REASON_RDMA : L5_REASON_SILENT);
	return BIT(L5_DO_END);
}

static int l5_cm_work(struct l5_far *far, unsigned long todo)
{
	struct l5_rdma *rd = l5_rdma_of(far);
	int err = 0;

	if (todo & BIT(L5_DO_ASK))
		l5_cm_resolve(rd);
	if (todo & BIT(L5_DO_ACCEPT) && !l5_cm_guarded(rd))
		err = l5_cm_accept(rd);
	if (todo & BIT(L5_DO_UP) && !err && !l5_far_is(far, L5_FAR_READY))
		err = l5_cm_up(rd);
	return err;
}

static void l5_cm_stay(struct l5_far *far, int err)
{
	l5_cm_fail(l5_rdma_of(far), l5_cm_why(err));
}

static int l5_cm_post(struct l5_far *far, const struct l5_wr *w, int n)
{
	return l5_rdma_post_wr(l5_rdma_of(far), w, n);
}

static void l5_cm_free(struct l5_far *far)
{
	kfree(l5_rdma_of(far));
}

/* The verbs, as an end sees them. */
static const struct l5_wire_ops l5_rdma_wire = {
	.post		= l5_cm_post,
	.work		= l5_cm_work,
	.expired	= l5_cm_expired,
	.stay		= l5_cm_stay,
	.quiet		= l5_cm_quiet,
	.drain		= l5_cm_drain,
	.destroy	= l5_cm_destroy,
	.late		= l5_cm_late,
	.free		= l5_cm_free,
};

/**
 * l5_cm_init() - the module comes
 *
 * Return: 0 or why not.
 */
int l5_cm_init(void)
{
	int err = l5_candidate_init();

	if (err)
		return err;
	err = l5_cm_listen_init(l5_cm_asked);
	if (err)
		l5_candidate_exit();
	return err;
}

/**
 * l5_cm_exit() - the module goes: wait for what closed sockets left
 */
void l5_cm_exit(void)
{
	l5_cm_listen_exit();
	l5_far_exit();
	l5_candidate_exit();
}
