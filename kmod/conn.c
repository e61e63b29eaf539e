// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: a connection, from its memory to who is told of what.
 *
 * Each page is charged to who writes it, see acct.c. A connection is granted,
 * when it is made and at the cost of who makes it, its control and state pages
 * and L5_GRANT pages for each ring, or there is none; with those alone bytes
 * always flow, so later shortage makes a ring small, but fails no send. Only
 * the first send of a ring allocates them, and is ENOBUFS if there is no memory
 * even for that. Pages are freed with the connection and not before.
 */
#include <linux/log2.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/wait.h>

#include "ring.h"

/* What a connection is sure of: of both ends ring, control and state page. */
#define L5_GRANT_PAIR	(2 * (L5_GRANT + 2))

/**
 * l5_conn_page() - the state page of an end
 * @conn: the connection
 * @end: whose
 *
 * Return: the page, zeroed, or NULL.
 */
struct page *l5_conn_page(struct l5_conn *conn, int end)
{
	struct l5_end *e = &conn->end[end];
	struct page *page;

	mutex_lock(&e->fill_lock);
	page = l5_page_alloc(&e->payer, false);
	mutex_unlock(&e->fill_lock);
	return page;
}

/**
 * l5_conn_make() - make a connection that has no rings yet
 * @payer: who pays for both ends
 *
 * Context: may sleep.
 * Return: the connection with one reference, -EDQUOT at a limit, -ENOMEM.
 */
struct l5_conn *l5_conn_make(const struct l5_payer *payer)
{
	struct mem_cgroup *old;
	struct l5_conn *conn;
	int i;

	if (!l5_reserve(payer, L5_GRANT_PAIR))
		return ERR_PTR(-EDQUOT);
	/* it may be a kernel thread that asks */
	old = set_active_memcg(payer->memcg);
	conn = kzalloc(sizeof(*conn), GFP_KERNEL_ACCOUNT);
	set_active_memcg(old);
	if (!conn) {
		l5_unreserve(payer, L5_GRANT_PAIR);
		return ERR_PTR(-ENOMEM);
	}
	refcount_set(&conn->ref, 1);
	l5_meet_init_conn(conn);
	l5_map_conn(conn);
	for (i = 0; i < 2; i++) {
		struct l5_end *end = &conn->end[i];

		l5_payer_copy(&end->payer, payer);
		end->granted = L5_GRANT;
		mutex_init(&end->fill_lock);
		mutex_init(&end->map_lock);
		INIT_LIST_HEAD(&end->mappers);
		init_waitqueue_head(&end->lock_wait);
	}
	for (i = 0; i < 2; i++) {
		struct page *page = l5_page_alloc(payer, true);

		if (!page) {
			l5_conn_put(conn);
			return ERR_PTR(-ENOMEM);
		}
		conn->end[i].ctrl = page_address(page);
		/* who polls already has armed nothing */
		conn->end[i].ctrl->rx_wait = 1;
	}
	return conn;
}

/**
 * l5_conn_alloc() - make what a connecting socket needs to meet its peer
 * @client: the socket; its namespace and the current task are charged
 *
 * Context: may sleep.
 * Return: as l5_conn_make().
 */
struct l5_conn *l5_conn_alloc(struct l5_sock *client)
{
	struct l5_payer payer;
	struct l5_conn *conn;

	if (l5_payer_get(&payer, client->ln))
		return ERR_PTR(-ENOMEM);
	conn = l5_conn_make(&payer);
	l5_payer_put(&payer);
	if (!IS_ERR(conn))
		conn->client = client;
	return conn;
}

static void l5_conn_free_rcu(struct rcu_head *rcu)
{
	struct l5_conn *conn = container_of(rcu, struct l5_conn, rcu);
	int i;
	u32 n;

	for (i = 0; i < 2; i++) {
		struct l5_end *end = &conn->end[i];

		/* who made the connection made both */
		if (end->ctrl)
			l5_page_free(&conn->end[0].payer,
				     virt_to_page(end->ctrl));
		if (end->state)
			l5_page_free(&end->payer, virt_to_page(end->state));
		for (n = 0; end->pages && n < end->size >> PAGE_SHIFT; n++)
			l5_page_free(n < end->lent_pages ?
				     &conn->end[!i].payer : &end->payer,
				     end->pages[n]);
		kvfree(end->pages);
	}
	for (i = 0; i < 2; i++)
		l5_payer_put(&conn->end[i].payer);
	if (conn->rdma)
		l5_rdma_put(conn->rdma);
	kfree(conn);
}

/**
 * l5_conn_put() - drop a reference
 * @conn: the connection
 *
 * Context: any.
 */
void l5_conn_put(struct l5_conn *conn)
{
	int i;

	if (!refcount_dec_and_test(&conn->ref))
		return;
	if (conn->paired)
		atomic_long_dec(&conn->end[0].payer.acct->pairs);
	l5_unreserve(&conn->end[0].payer, L5_GRANT_PAIR);
	for (i = 0; i < 2; i++) {
		struct l5_end *end = &conn->end[i];

		l5_unreserve(&end->payer, end->granted - end->lent - L5_GRANT);
		l5_unreserve(&conn->end[!i].payer, end->lent);
	}
	/* a peer may still be ringing, see l5_bell() */
	call_rcu(&conn->rcu, l5_conn_free_rcu);
}

/*
 * What the writer's SO_SNDBUF and the reader's SO_RCVBUF ask for, the larger,
 * as a power of two. But the writer pays, so the reader gets no more than it
 * would have without having asked, unless the writer asks as well. Only a size
 * that was set counts: the kernel's own default for TCP says nothing about
 * rings. Half of the value is what the caller gave to setsockopt(), the rest
 * was TCP's overhead. The reader is NULL if it is not known yet.
 */
static u32 l5_ring_size(struct l5_net *ln, const struct sock *writer,
			const struct sock *reader)
{
	u32 max = rounddown_pow_of_two(READ_ONCE(ln->ring_max_kb)) << 10;
	u32 dflt = READ_ONCE(ln->ring_kb) << 10;
	u32 size = 0;

	if (reader && reader->sk_userlocks & SOCK_RCVBUF_LOCK)
		size = min_t(u32, READ_ONCE(reader->sk_rcvbuf) / 2, dflt);
	if (writer->sk_userlocks & SOCK_SNDBUF_LOCK)
		size = max_t(u32, size, READ_ONCE(writer->sk_sndbuf) / 2);
	if (!size)
		size = dflt;
	return roundup_pow_of_two(clamp_t(u32, size, L5_RING_LEAST, max));
}

/**
 * l5_conn_fix() - fix the geometry of a connection
 * @conn: the connection
 * @client: bytes of the ring that the connecting end writes
 * @server: of the other
 *
 * Context: any.
 */
void l5_conn_fix(struct l5_conn *conn, u32 client, u32 server)
{
	u32 size[2] = { [L5_CLIENT] = client, [L5_SERVER] = server };
	int i;

	for (i = 0; i < 2; i++) {
		conn->end[i].size = size[i];
		conn->end[i].prod.size = size[i];
		conn->end[!i].cons.size = size[i];
	}
	atomic_long_inc(&conn->end[0].payer.acct->pairs);
	conn->paired = true;
}

/**
 * l5_conn_begin() - let a client write to its ring before it has met its peer
 * @conn: the connection
 *
 * Context: the meeting's bucket lock held; atomic. Nobody else uses the
 * connection yet.
 */
void l5_conn_begin(struct l5_conn *conn)
{
	struct l5_end *end = &conn->end[L5_CLIENT];

	end->size = l5_ring_size(conn->client->ln, &conn->client->sk, NULL);
	end->prod.size = end->size;
}

/**
 * l5_conn_pair() - fix the geometry of a connection that met its peer
 * @conn: the connection
 * @listener: the socket whose child it met, and who pays for the child's end
 *
 * Context: the meeting's bucket lock held; atomic. Nobody else uses the
 * connection yet.
 */
void l5_conn_pair(struct l5_conn *conn, struct l5_sock *listener)
{
	/* the owners know of options that were set a moment ago */
	struct sock *client = &conn->client->sk;
	struct sock *server = &listener->sk;
	u32 size = conn->end[L5_CLIENT].size;

	l5_payer_put(&conn->end[L5_SERVER].payer);
	l5_payer_copy(&conn->end[L5_SERVER].payer, &listener->payer);
	/* it may have bytes in it */
	if (!size)
		size = l5_ring_size(conn->client->ln, client, server);
	l5_conn_fix(conn, size,
		    l5_ring_size(listener->ln, server, client));
	rcu_assign_pointer(conn->end[L5_CLIENT].sk, &conn->client->sk);
}

/**
 * l5_conn_accepted() - from now on the current task pays for the server's end
 * @conn: the connection
 * @ln: of the accepting socket
 *
 * And for what goes beyond the default of what its client made it have before,
 * by mapping it. What the limits do not allow stays with who listens.
 *
 * Context: may sleep.
 */
void l5_conn_accepted(struct l5_conn *conn, struct l5_net *ln)
{
	struct l5_end *e = &conn->end[L5_SERVER];
	struct l5_payer payer;
	long grant;

	if (l5_payer_get(&payer, ln))
		return;
	mutex_lock(&e->fill_lock);
	grant = e->granted - e->lent - L5_GRANT;
	if (l5_reserve(&payer, grant)) {
		l5_unreserve(&e->payer, grant);
		atomic_long_add(e->npages - e->lent_pages,
				&payer.acct->pages);
		atomic_long_sub(e->npages - e->lent_pages,
				&e->payer.acct->pages);
		swap(e->payer, payer);
	}
	mutex_unlock(&e->fill_lock);
	l5_payer_put(&payer);
}

/**
 * l5_conn_wishes() - note the sizes that a socket asks for
 * @conn: its connection, of which the other end is not here
 * @sk: the socket
 */
void l5_conn_wishes(struct l5_conn *conn, const struct sock *sk)
{
	struct l5_net *ln = l5_sk(sk)->ln;
	u32 dflt = READ_ONCE(ln->ring_kb) << 10;
	u32 max = READ_ONCE(ln->ring_max_kb) << 10;
	u32 tx = dflt, rx = dflt;

	if (sk->sk_userlocks & SOCK_SNDBUF_LOCK)
		tx = READ_ONCE(sk->sk_sndbuf) / 2;
	if (sk->sk_userlocks & SOCK_RCVBUF_LOCK)
		rx = READ_ONCE(sk->sk_rcvbuf) / 2;
	max = rounddown_pow_of_two(max);
	conn->wish[0] = roundup_pow_of_two(clamp(rx, L5_RING_LEAST, max));
	conn->wish[1] = roundup_pow_of_two(clamp(tx, L5_RING_LEAST, max));
}

/**
 * l5_conn_wish() - what l5_conn_wishes() noted
 * @conn: the connection
 * @tx: for the ring that is written here
 */
u32 l5_conn_wish(const struct l5_conn *conn, bool tx)
{
	return conn->wish[tx];
}

/**
 * l5_conn_attach() - an accepted socket takes its end
 * @conn: the connection, its reference goes to @l5
 * @end: which end
 * @l5: the socket
 */
void l5_conn_attach(struct l5_conn *conn, int end, struct l5_sock *l5)
{
	l5->conn = conn;
	l5->end = end;
	rcu_assign_pointer(conn->end[end].sk, &l5->sk);
	/* AA, pairs with G in l5_bell(): the socket, then what it arms */
	smp_mb();
}

/*
 * Wake who waits for anything of a socket. Without saying what for: a waiter
 * that is told need not poll again, as a multishot one of io_uring does not,
 * but it is polling that arms the wait words. And wake all: one of several that
 * want to be woken alone might not be there for this.
 */
static void l5_wake(struct sock *sk, bool room)
{
	struct socket_wq *wq = rcu_dereference(sk->sk_wq);

	if (skwq_has_sleeper(wq))
		wake_up_interruptible_all(&wq->wait);
	sk_wake_async(sk, room ? SOCK_WAKE_SPACE : SOCK_WAKE_WAITD,
		      room ? POLL_OUT : POLL_IN);
}

/*
 * Ring an end's doorbell: it said in its control page that it may sleep. Its
 * socket is not referenced, only kept by RCU, and gone after its release. Who
 * asked for SIGIO stays armed, since it may never look again by itself.
 */
void l5_bell(struct l5_end *e, u32 *wait, bool room)
{
	struct sock *sk;

	rcu_read_lock();
	sk = rcu_dereference(e->sk);
	if (!sk || !sock_flag(sk, SOCK_FASYNC)) {
		l5_wait_clear(wait);
		/*
		 * G, pairs with AA: what was cleared may be what a socket armed
		 * that was accepted since the look above, and then it is here.
		 */
		if (!sk)
			sk = rcu_dereference(e->sk);
		if (sk && sock_flag(sk, SOCK_FASYNC))
			l5_wait_arm(wait);
	}
	if (sk)
		l5_count(l5_sk(sk), L5_STAT_DOORBELLS, 1);
	if (sk)
		l5_wake(sk, room);
	rcu_read_unlock();
}

/**
 * l5_conn_bell() - wake who waits at an end, since its peer's host says so
 * @conn: the connection
 * @end: whose
 * @room: for room, else for data
 *
 * Context: any.
 */
void l5_conn_bell(struct l5_conn *conn, int end, bool room)
{
	struct l5_ctrl *ctrl = conn->end[end].ctrl;

	l5_bell(&conn->end[end], room ? &ctrl->tx_wait : &ctrl->rx_wait, room);
}

/**
 * l5_conn_changed() - an end's state changed: wake who waits there
 * @conn: the connection
 * @end: whose
 *
 * Context: any.
 */
void l5_conn_changed(struct l5_conn *conn, int end)
{
	struct sock *sk;

	rcu_read_lock();
	sk = rcu_dereference(conn->end[end].sk);
	if (sk)
		sk->sk_state_change(sk);
	rcu_read_unlock();
}

/**
 * l5_conn_unlocked() - a lock word may have come free that someone waits for
 * @conn: the connection
 * @end: whose
 *
 * Also who would not wait for it has to hear: he was told to try again.
 *
 * Context: process.
 */
void l5_conn_unlocked(struct l5_conn *conn, int end)
{
	struct l5_end *e = &conn->end[end];
	struct sock *sk;

	wake_up_all(&e->lock_wait);
	rcu_read_lock();
	sk = rcu_dereference(e->sk);
	if (sk)
		l5_wake(sk, false);
	rcu_read_unlock();
}

/**
 * l5_conn_ring() - ring an end's doorbell if it asks for it
 * @conn: the connection
 * @end: whose
 * @bells: L5_BELL_*
 *
 * Context: process.
 */
void l5_conn_ring(struct l5_conn *conn, int end, int bells)
{
	struct l5_end *e = &conn->end[end];

	if (conn->rdma) {
		if (bells & L5_BELL_DATA)
			l5_rdma_push(conn, true);
		if (bells & L5_BELL_ROOM)
			l5_rdma_bell(conn);
		return;
	}
	if (bells & L5_BELL_DATA && l5_wait_armed(&e->ctrl->rx_wait))
		l5_bell(e, &e->ctrl->rx_wait, false);
	if (bells & L5_BELL_ROOM && l5_wait_armed(&e->ctrl->tx_wait))
		l5_bell(e, &e->ctrl->tx_wait, true);
}

/**
 * l5_end_async() - does an end want SIGIO, so that it is always to be told?
 * @e: the end
 *
 * Context: any.
 */
bool l5_end_async(struct l5_end *e)
{
	struct sock *sk;
	bool async;

	rcu_read_lock();
	sk = rcu_dereference(e->sk);
	async = sk && sock_flag(sk, SOCK_FASYNC);
	rcu_read_unlock();
	return async;
}

/* More than a connection moves in a year. */
#define L5_BYTES_SANE	BIT_ULL(60)

/* Processes count what they move in the control page; the socket ends here. */
static void l5_ring_closing(struct l5_sock *l5)
{
	const struct l5_end *own = l5_own(l5);
	u64 tx = l5_load(&own->ctrl->tx_bytes) - own->tx_bytes;
	u64 rx = l5_load(&own->ctrl->rx_bytes) - own->rx_bytes;

	if (!test_bit(L5_END_MAPPED, &own->flags))
		return;
	/* they may count what they like; believe what can be */
	if (tx < L5_BYTES_SANE)
		l5_count(l5, L5_STAT_BYTES_TX, tx);
	if (rx < L5_BYTES_SANE)
		l5_count(l5, L5_STAT_BYTES_RX, rx);
}

/**
 * l5_conn_close() - this end reads and writes no more
 * @l5: a socket in state L5_SHM that is being released
 * @reset: whether it ends with a reset in any case
 *
 * Return: true if with a reset, also because bytes are left unread.
 */
bool l5_conn_close(struct l5_sock *l5, bool reset)
{
	struct l5_end *own = l5_own(l5);

	l5_ring_closing(l5);
	RCU_INIT_POINTER(own->sk, NULL);
	set_bit(L5_END_CLOSED, &own->flags);
	l5_map_flag(own, L5_MAP_TX_ASK | L5_MAP_RX_ASK | L5_MAP_GONE);
	l5_map_flag(l5_peer(l5), L5_MAP_TX_ASK);
	/*
	 * L, pairs with M in l5_ring_write(), and in a process that has the
	 * peer's end mapped with the look at the flags after it published
	 */
	smp_mb();
	/*
	 * Without a socket there is no end of it, and nobody sees it: two
	 * processes are not to go on with the memory alone.
	 */
	if (test_bit(L5_END_CLOSED, &l5_peer(l5)->flags) &&
	    (test_bit(L5_END_MAPPED, &own->flags) ||
	     test_bit(L5_END_MAPPED, &l5_peer(l5)->flags)))
		l5_map_revoke_later(l5->conn);
	if (reset || l5_ring_readable(l5))
		return true;
	l5_conn_fin(l5);
	return false;
}

/**
 * l5_conn_fin() - this end writes no more
 * @l5: a socket in state L5_SHM, its tx_lock held or nobody else there
 *
 * The bootstrap tells the peer, after this, see l5_rx_ended(). Over RDMA it is
 * told where its stream ends, too, and takes it for ended once it knows both.
 */
void l5_conn_fin(struct l5_sock *l5)
{
	set_bit(L5_END_FIN, &l5_own(l5)->flags);
	if (l5->conn->rdma)
		l5_rdma_fin(l5->conn);
}
