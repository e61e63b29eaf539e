// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: how two ends of a connection find each other in the kernel.
 *
 * TCP. Both ends of a connection on which no data has moved hold the same 64
 * random bits, mirrored: {write_seq, copied_seq} of the client is
 * {copied_seq, write_seq} of the child. These bits survive address translation
 * and network namespaces, and differ if something in between terminated the
 * connection. The client enters the table in its sk_state_change, which runs
 * before its final ACK leaves; the child that this ACK creates looks it up. So
 * a child never looks too early, by packet causality.
 *
 * connect() may return before the child exists, though. Therefore the listener
 * notes the sequence number of each SYN it answers, before the SYN-ACK leaves;
 * a client that finds its own number noted knows that an AF_L5 child is to
 * come, and waits for it, bounded. A client that does not find it stays on TCP
 * without any delay. If the listener noted that it waits for bytes first, the
 * client does not wait and the meeting stays open, see defer.c.
 *
 * AF_UNIX. The kernel's peer pointer leads to the other end; the table serves
 * to let exactly one of connect() and accept() pair the two.
 *
 * The claim: an entry of the table is an open meeting. The one that takes it
 * out, under the bucket's lock, decides: the child decides that the connection
 * is paired; a time-out, a close or an error that it stays on its bootstrap.
 * The others find nothing.
 */
#include <linux/hash.h>
#include <linux/jhash.h>
#include <linux/tcp.h>
#include <net/af_unix.h>
#include <net/tcp.h>

#include "acct.h"
#include "bootstrap.h"
#include "conn.h"
#include "cover.h"
#include "netns.h"
#include "rendezvous.h"
#include "state.h"
#include "transport.h"

#define L5_RDV_BITS	8
#define L5_NOTE_BITS	10
#define L5_NOTE_WAYS	8
#define L5_RDV_SLICES	4UL

/* The kind of l5_conn.tag, of a child that waits for accept() */
static const char l5_tag_conn;

struct l5_bucket {
	spinlock_t lock;	/* outcome of the meetings in @head */
	struct hlist_head head;
};

static struct l5_bucket l5_buckets[1 << L5_RDV_BITS] = {
	[0 ... (1 << L5_RDV_BITS) - 1] = {
		.lock = __SPIN_LOCK_UNLOCKED(l5_buckets.lock)
	}
};

/*
 * Initial sequence numbers of the SYNs that AF_L5 listeners answered. The table
 * is lossy: an entry overwritten too early costs one connection its rings. So
 * numbers of one hash take turns in several places. Above the number:
 * L5_NOTE_DEFER.
 */
#define L5_NOTE_DEFER	BIT_ULL(32)

static struct l5_notes {
	u64 isn[L5_NOTE_WAYS];
	atomic_t turn;
} l5_notes[1 << L5_NOTE_BITS];

static struct l5_notes *l5_notes_of(u32 isn)
{
	return &l5_notes[hash_32(isn, L5_NOTE_BITS)];
}

/**
 * l5_rdv_note() - an AF_L5 listener is about to answer a SYN
 * @isn: the client's initial sequence number
 * @defer: the listener makes the child once it has bytes
 */
void l5_rdv_note(u32 isn, bool defer)
{
	struct l5_notes *n = l5_notes_of(isn);
	unsigned int turn = atomic_fetch_inc(&n->turn);

	/* the SYN-ACK orders this before the client's look */
	WRITE_ONCE(n->isn[turn % L5_NOTE_WAYS],
		   isn | (defer ? L5_NOTE_DEFER : 0));
}

static bool l5_rdv_noted(u32 isn, bool *defer)
{
	const struct l5_notes *n = l5_notes_of(isn);
	u64 note;
	int i;

	for (i = 0; i < L5_NOTE_WAYS; i++) {
		note = READ_ONCE(n->isn[i]);
		*defer = note & L5_NOTE_DEFER;
		if ((u32)note == isn)
			return true;
	}
	return false;
}

static struct l5_bucket *l5_bucket(u64 key)
{
	static u32 seed __read_mostly;

	net_get_random_once(&seed, sizeof(seed));
	return &l5_buckets[jhash_2words(key, key >> 32, seed) &
			   ((1 << L5_RDV_BITS) - 1)];
}

static struct l5_conn *l5_rdv_find(struct l5_bucket *b, u64 key)
{
	struct l5_conn *conn;

	lockdep_assert_held(&b->lock);
	hlist_for_each_entry(conn, &b->head, hash)
		if (conn->key == key)
			return conn;
	return NULL;
}

static void l5_rdv_enter(struct l5_bucket *b, struct l5_conn *conn)
{
	lockdep_assert_held(&b->lock);
	hlist_add_head(&conn->hash, &b->head);
}

/* Take the entry out and decide on its client; the wake comes later. */
static void l5_rdv_decide(struct l5_bucket *b, struct l5_conn *conn,
			  struct l5_sock *listener)
{
	struct l5_sock *client = conn->client;

	lockdep_assert_held(&b->lock);
	hlist_del_init(&conn->hash);
	l5_timer_cancel(&conn->timer);
	/*
	 * Both may have been denied since they began. A client that is not
	 * connecting any more has no use for rings, and would not close them.
	 */
	DEBUG_NET_WARN_ON_ONCE(l5_state(client) != L5_CONNECTING);
	if (listener)
		conn->reason = l5_state(client) != L5_CONNECTING ?
			       L5_REASON_CONNECT :
			       READ_ONCE(client->why) ?: l5_why_not(client);
	if (listener && !conn->reason)
		l5_conn_pair(conn, listener);
	if (conn->paired)
		l5_set_state(client, L5_RINGS, L5_REASON_NONE);
	else
		l5_set_state(client, L5_BASE, conn->reason);
	/* AM, pairs with l5_deferred(): the state, then this */
	smp_store_release(&client->late, L5_LATE_NOT);
}

/*
 * After a pause of the whole machine timers go before packets, and the child
 * may be in one of these packets. So the wait is several short ones: a pause,
 * however long, takes only one of them.
 */
static void l5_rdv_timeout(struct timer_list *t)
{
	struct l5_conn *conn = l5_from_timer(conn, t, timer);
	struct l5_bucket *b = l5_bucket(conn->key);
	struct sock *sk = &conn->client->sk;
	bool cover = l5_cover_begin(sock_net(sk));

	spin_lock(&b->lock);
	if (!hlist_unhashed(&conn->hash)) {
		if (--conn->slices) {
			mod_timer(&conn->timer, jiffies + conn->slice);
			spin_unlock(&b->lock);
			goto out;
		}
		conn->reason = L5_REASON_TIMEOUT;
		l5_rdv_decide(b, conn, NULL);
	}
	spin_unlock(&b->lock);
	/* the client waits for this timer to end before it goes away */
	sk->sk_state_change(sk);
out:
	l5_cover_end(cover);
}

/**
 * l5_rdv_prepare() - make the connection that a client needs to meet its peer
 * @client: the socket; its namespace and the current task are charged
 *
 * Context: may sleep.
 * Return: as l5_conn_make().
 */
struct l5_conn *l5_rdv_prepare(struct l5_sock *client)
{
	struct l5_payer payer;
	struct l5_conn *conn;

	if (l5_payer_get(&payer, client->ln))
		return ERR_PTR(-ENOMEM);
	conn = l5_conn_make(&payer);
	l5_payer_put(&payer);
	if (IS_ERR(conn))
		return conn;
	conn->client = client;
	conn->tag.kind = &l5_tag_conn;
	timer_setup(&conn->timer, l5_rdv_timeout, 0);
	return conn;
}

/* From now on the child is on its way. */
static void l5_rdv_wait(struct l5_conn *conn, unsigned int ms)
{
	unsigned long wait = msecs_to_jiffies(ms) ?: 1;

	conn->slices = min(wait, L5_RDV_SLICES);
	conn->slice = wait / conn->slices;
	mod_timer(&conn->timer, jiffies + conn->slice);
}

/*
 * TCP says once more that the client is connected: shutdown() has it do so. As
 * long as the meeting is open it goes on. One that was cancelled, or whose
 * outcome the client is told just now, is open no more; the bucket's lock tells
 * these apart, since the latter leaves no client connecting.
 */
static void l5_rdv_again(struct l5_sock *l5, struct l5_conn *conn)
{
	struct l5_bucket *b = l5_bucket(conn->key);

	spin_lock_bh(&b->lock);
	if (hlist_unhashed(&conn->hash))
		l5_set_state(l5, L5_BASE,
			     READ_ONCE(l5->why) ?: L5_REASON_CONNECT);
	spin_unlock_bh(&b->lock);
}

/**
 * l5_rdv_established() - a client's handshake is over on its side
 * @l5: the client
 *
 * Context: the bootstrap's lock held, the final ACK not sent yet, or
 * shutdown().
 */
void l5_rdv_established(struct l5_sock *l5)
{
	const struct tcp_sock *tp = tcp_sk(l5->boot->sk);
	unsigned int ms = READ_ONCE(l5->ln->match_ms);
	u32 isn = tp->write_seq - 1;
	struct l5_conn *conn = l5->conn;
	struct l5_bucket *b;
	bool defer;

	if (conn && conn->entered) {
		l5_rdv_again(l5, conn);
		return;
	}
	if (READ_ONCE(l5->why) || !conn) {
		l5_set_state(l5, L5_BASE,
			     READ_ONCE(l5->why) ?: L5_REASON_CONNECT);
		return;
	}
	if (l5_far_only(l5) || !l5_rdv_noted(isn, &defer)) {
		l5_set_state(l5, L5_BASE,
			     l5_transport_ask(l5) ?: L5_REASON_PEER);
		return;
	}
	if (!ms) {
		l5_set_state(l5, L5_BASE, L5_REASON_TIMEOUT);
		return;
	}
	conn->key = (u64)tp->write_seq << 32 | READ_ONCE(tp->copied_seq);
	conn->entered = true;
	b = l5_bucket(conn->key);
	spin_lock_bh(&b->lock);
	l5_rdv_enter(b, conn);
	if (!defer)
		l5_rdv_wait(conn, ms);
	/* AM, pairs with l5_deferred(): the key of the meeting, then this */
	smp_store_release(&l5->late, defer ? L5_LATE_OPEN : L5_LATE_NOT);
	spin_unlock_bh(&b->lock);
}

/**
 * l5_rdv_first() - a client is about to send the bytes that make its child
 * @l5: the client
 * @len: how many bytes, at most, go both ways
 *
 * Return: whether its meeting is open, and no other task has sent the first
 * bytes.
 */
bool l5_rdv_first(struct l5_sock *l5, u32 len)
{
	struct l5_conn *conn = l5->conn;
	struct l5_bucket *b;
	bool open;

	lockdep_assert_held(&l5->lock);
	if (!conn || !l5_deferred(l5))
		return false;
	b = l5_bucket(conn->key);
	spin_lock_bh(&b->lock);
	open = !hlist_unhashed(&conn->hash) && l5_deferred(l5);
	if (open) {
		WRITE_ONCE(l5->late, L5_LATE_SENT);
		WRITE_ONCE(conn->twice, len);
		l5_conn_begin(conn);
		l5_rdv_wait(conn, READ_ONCE(l5->ln->match_ms));
	}
	spin_unlock_bh(&b->lock);
	return open;
}

/*
 * Pair the client with a listener's child, which waits for accept(). A closing
 * listener takes no client; it resets the child.
 */
static void l5_rdv_pend(struct l5_bucket *b, struct l5_conn *conn,
			struct l5_sock *listener, struct sock *child)
{
	spin_lock_bh(&listener->pending_lock);
	if (listener->closing || child->sk_user_data || l5_why_not(listener)) {
		conn->reason = L5_REASON_PEER;
		l5_rdv_decide(b, conn, NULL);
	} else {
		l5_rdv_decide(b, conn, listener);
		refcount_inc(&conn->ref);
		sock_hold(child);
		conn->listener = listener;
		conn->child = child;
		l5_tag_set(child, &conn->tag);
		list_add_tail(&conn->pending, &listener->pending);
	}
	spin_unlock_bh(&listener->pending_lock);
}

/*
 * Has TCP brought all bytes that the client sends twice, so that it brings none
 * of them later? A listener that did not wait any longer makes the child of
 * fewer.
 */
static bool l5_rdv_brought(const struct l5_conn *conn,
			   const struct sock *child,
			    const struct sk_buff *skb)
{
	const struct tcp_skb_cb *cb = TCP_SKB_CB(skb);
	u32 begin = READ_ONCE(tcp_sk(child)->copied_seq);

	return cb->seq == begin &&
	       cb->end_seq - begin == READ_ONCE(conn->twice);
}

/**
 * l5_rdv_child() - a listener's child came into being
 * @listener: the listener
 * @child: the child's bootstrap socket, locked
 * @skb: the packet that made the child, and is its first
 */
void l5_rdv_child(struct l5_sock *listener, struct sock *child,
		  const struct sk_buff *skb)
{
	const struct tcp_sock *tp = tcp_sk(child);
	u64 key = (u64)READ_ONCE(tp->copied_seq) << 32 | tp->write_seq;
	struct l5_bucket *b = l5_bucket(key);
	struct sock *wake = NULL;
	struct l5_conn *conn;

	spin_lock_bh(&b->lock);
	conn = l5_rdv_find(b, key);
	if (conn) {
		if (l5_rdv_brought(conn, child, skb)) {
			l5_rdv_pend(b, conn, listener, child);
		} else {
			conn->reason = L5_REASON_TIMEOUT;
			l5_rdv_decide(b, conn, NULL);
		}
		wake = &conn->client->sk;
		sock_hold(wake);
	}
	spin_unlock_bh(&b->lock);
	if (wake) {
		wake->sk_state_change(wake);
		sock_put(wake);
	}
}

/**
 * l5_rdv_unix_open() - an AF_UNIX client is about to connect
 * @l5: the client
 */
void l5_rdv_unix_open(struct l5_sock *l5)
{
	struct l5_conn *conn = l5->conn;
	struct l5_bucket *b;

	conn->key = (unsigned long)l5->boot->sk;
	b = l5_bucket(conn->key);
	spin_lock_bh(&b->lock);
	l5_rdv_enter(b, conn);
	spin_unlock_bh(&b->lock);
}

/**
 * l5_rdv_unix_connected() - an AF_UNIX client has connected
 * @l5: the client
 * @listener: the listener that it has reached, which may be closing, or NULL
 * @child: the listener's child
 *
 * Context: process, RCU.
 */
void l5_rdv_unix_connected(struct l5_sock *l5, struct l5_sock *listener,
			   struct sock *child)
{
	struct l5_conn *conn = l5->conn;
	struct l5_bucket *b = l5_bucket(conn->key);

	spin_lock_bh(&b->lock);
	if (!hlist_unhashed(&conn->hash)) {
		conn->reason = L5_REASON_PEER;
		if (listener)
			l5_rdv_pend(b, conn, listener, child);
		else
			l5_rdv_decide(b, conn, NULL);
	}
	spin_unlock_bh(&b->lock);
}

/**
 * l5_rdv_unix_accept() - an AF_UNIX child is being accepted
 * @listener: the listener
 * @child: its bootstrap socket
 *
 * If the client is still connecting it is paired here, and nothing waits in the
 * listener's list.
 *
 * Return: as l5_rdv_accept().
 */
struct l5_conn *l5_rdv_unix_accept(struct l5_sock *listener,
				   struct sock *child)
{
	struct sock *peer = unix_peer_get(child);
	u64 key = (unsigned long)peer;
	struct l5_bucket *b = l5_bucket(key);
	struct l5_conn *conn;

	if (!peer)
		return NULL;
	spin_lock_bh(&b->lock);
	conn = l5_rdv_find(b, key);
	if (conn) {
		refcount_inc(&conn->ref);
		conn->reason = L5_REASON_PEER;
		l5_rdv_decide(b, conn, l5_why_not(listener) ? NULL : listener);
	}
	spin_unlock_bh(&b->lock);
	sock_put(peer);
	return conn;
}

/**
 * l5_rdv_accept() - take the meeting of a child that is being accepted
 * @listener: the listener
 * @child: the child's bootstrap socket
 *
 * Return: the meeting with its reference, paired or not, or NULL.
 */
struct l5_conn *l5_rdv_accept(struct l5_sock *listener, struct sock *child)
{
	struct l5_conn *conn = NULL;
	struct l5_tag *tag;

	if (listener->bops->accept)
		conn = listener->bops->accept(listener, child);
	if (conn)
		return conn;
	rcu_read_lock();
	tag = l5_tag_get(child, &l5_tag_conn);
	if (tag) {
		conn = container_of(tag, struct l5_conn, tag);
		/* TCP moves children to other listeners (tcp_migrate_req) */
		listener = conn->listener;
		spin_lock_bh(&listener->pending_lock);
		if (l5_tag_get(child, &l5_tag_conn)) {
			list_del_init(&conn->pending);
			rcu_assign_sk_user_data(child, NULL);
		} else {
			conn = NULL;
		}
		spin_unlock_bh(&listener->pending_lock);
	}
	rcu_read_unlock();
	if (conn)
		sock_put(child);
	return conn;
}

/**
 * l5_rdv_stay() - what connects stays on its bootstrap: an open meeting is
 *	given up, and if the handshake is still under way none begins
 * @l5: the client, or a socket without a meeting
 * @why: reason to record
 *
 * Afterwards the socket has rings, or is not going to have any.
 *
 * Context: l5_sock.lock held; may sleep.
 */
void l5_rdv_stay(struct l5_sock *l5, enum l5_reason why)
{
	struct l5_conn *conn = l5->conn;
	struct l5_bucket *b;
	bool open;

	lockdep_assert_held(&l5->lock);
	if (!conn || l5_state(l5) != L5_CONNECTING)
		return;
	/* a client that was just entering has entered then, and has its key */
	lock_sock(l5->boot->sk);
	if (!l5->why)
		WRITE_ONCE(l5->why, why);
	b = l5_bucket(conn->key);
	spin_lock_bh(&b->lock);
	open = !hlist_unhashed(&conn->hash);
	if (open) {
		conn->reason = why;
		l5_rdv_decide(b, conn, NULL);
	}
	spin_unlock_bh(&b->lock);
	release_sock(l5->boot->sk);
	/* another thread may wait in connect() */
	if (open)
		l5->sk.sk_state_change(&l5->sk);
}

/**
 * l5_rdv_cancel() - the client closes, or its connect() failed
 * @l5: the client
 *
 * Afterwards no other task changes the meeting or uses the client through it.
 *
 * Context: may sleep.
 */
void l5_rdv_cancel(struct l5_sock *l5)
{
	struct l5_conn *conn = l5->conn;
	struct l5_bucket *b;

	/* a connection that another transport made has never met anybody */
	if (!conn || !conn->client || l5->end != L5_CLIENT)
		return;
	b = l5_bucket(conn->key);
	spin_lock_bh(&b->lock);
	hlist_del_init(&conn->hash);
	WRITE_ONCE(l5->late, L5_LATE_NOT);
	spin_unlock_bh(&b->lock);
	l5_timer_stop(&conn->timer);
}

/**
 * l5_rdv_reopen() - a listener takes clients, for the first time or again
 * @listener: the listener
 */
void l5_rdv_reopen(struct l5_sock *listener)
{
	spin_lock_bh(&listener->pending_lock);
	listener->closing = false;
	spin_unlock_bh(&listener->pending_lock);
}

/**
 * l5_rdv_close() - a listener stops; its unaccepted children will be reset
 * @listener: the listener
 */
void l5_rdv_close(struct l5_sock *listener)
{
	struct l5_conn *conn, *tmp;
	LIST_HEAD(drop);

	spin_lock_bh(&listener->pending_lock);
	listener->closing = true;
	list_for_each_entry(conn, &listener->pending, pending) {
		rcu_assign_sk_user_data(conn->child, NULL);
		set_bit(L5_END_CLOSED, &conn->end[L5_SERVER].flags);
	}
	list_splice_init(&listener->pending, &drop);
	spin_unlock_bh(&listener->pending_lock);

	list_for_each_entry_safe(conn, tmp, &drop, pending) {
		list_del_init(&conn->pending);
		/* also a child accept() holds already, but will find bare */
		if (listener->bops->child_abort)
			listener->bops->child_abort(listener, conn->child,
						    ECONNABORTED);
		sock_put(conn->child);
		l5_conn_closed(conn, L5_SERVER);
		l5_conn_put(conn);
	}
}
