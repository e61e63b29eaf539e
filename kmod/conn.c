// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: a connection, from its memory to who is told of what.
 *
 * Pages are counted against the namespace's limit and charged to the memory
 * cgroup that connected. Each ring is granted L5_GRANT pages when the ends are
 * paired, or there is no pair; with those alone bytes always flow, so later
 * shortage makes a ring small, but fails no send. Only the first send of a ring
 * allocates them, and is ENOBUFS if there is no memory even for that. Pages are
 * freed with the connection and not before.
 */
#include <linux/log2.h>
#include <linux/memcontrol.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/wait.h>

#include "ring.h"

/* What a connection is sure of: pages of both rings, two control pages. */
#define L5_GRANT_PAIR	(2 * L5_GRANT + 2)

/*
 * @hard: what the connection cannot do without. For more than that nobody in
 * the connecting task's memory cgroup is to be killed.
 */
struct page *l5_page_alloc(struct l5_conn *conn, bool hard)
{
	struct mem_cgroup *old = set_active_memcg(conn->memcg);
	struct page *page;

	page = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO | __GFP_NOWARN |
			  (hard ? 0 : __GFP_NORETRY));
	set_active_memcg(old);
	if (page)
		atomic_long_inc(&conn->acct->pages);
	return page;
}

/* Ask the namespace for more pages. */
bool l5_reserve(struct l5_acct *acct, long pages)
{
	unsigned long max = READ_ONCE(acct->max_kb) >> (PAGE_SHIFT - 10);

	if (atomic_long_add_return(pages, &acct->reserved) <= (long)max)
		return true;
	atomic_long_sub(pages, &acct->reserved);
	return false;
}

/* Give back a page of l5_page_alloc(), and its place in the account. */
void l5_page_free(struct l5_conn *conn, struct page *page)
{
	if (!page)
		return;
	/* who has it mapped or pinned keeps it; it is never used again here */
	put_page(page);
	atomic_long_dec(&conn->acct->pages);
}

/**
 * l5_conn_page() - a page for what is not ring
 * @conn: the connection that is charged
 *
 * Return: the page, zeroed, or NULL.
 */
struct page *l5_conn_page(struct l5_conn *conn)
{
	return l5_page_alloc(conn, false);
}

/**
 * l5_conn_page_free() - give one back, or leave it to who has it mapped
 * @conn: the connection
 * @page: the page, or NULL
 */
void l5_conn_page_free(struct l5_conn *conn, struct page *page)
{
	l5_page_free(conn, page);
}

/**
 * l5_conn_make() - make a connection that has no rings yet
 * @ln: the namespace that is charged
 * @memcg: whose memory cgroup is, or NULL
 *
 * Context: may sleep.
 * Return: the connection with one reference, or NULL.
 */
struct l5_conn *l5_conn_make(struct l5_net *ln, struct mem_cgroup *memcg)
{
	struct l5_conn *conn;
	int i;

	conn = kzalloc(sizeof(*conn), GFP_KERNEL_ACCOUNT);
	if (!conn)
		return NULL;
	refcount_set(&conn->ref, 1);
	conn->acct = ln->acct;
	refcount_inc(&conn->acct->ref);
	conn->memcg = l5_memcg_get(memcg);
	l5_meet_init_conn(conn);
	l5_map_conn(conn);
	for (i = 0; i < 2; i++) {
		struct l5_end *end = &conn->end[i];

		mutex_init(&end->fill_lock);
		mutex_init(&end->map_lock);
		INIT_LIST_HEAD(&end->mappers);
		init_waitqueue_head(&end->lock_wait);
	}
	for (i = 0; i < 2; i++) {
		struct page *page = l5_page_alloc(conn, true);

		if (!page) {
			l5_conn_put(conn);
			return NULL;
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
 * Return: the connection with one reference, or NULL.
 */
struct l5_conn *l5_conn_alloc(struct l5_sock *client)
{
	struct mem_cgroup *memcg = get_mem_cgroup_from_mm(current->mm);
	struct l5_conn *conn = l5_conn_make(client->ln, memcg);

	mem_cgroup_put(memcg);
	if (conn)
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

		if (end->ctrl)
			l5_page_free(conn, virt_to_page(end->ctrl));
		if (end->state)
			l5_page_free(conn, virt_to_page(end->state));
		for (n = 0; end->pages && n < end->size >> PAGE_SHIFT; n++)
			l5_page_free(conn, end->pages[n]);
		kvfree(end->pages);
	}
	mem_cgroup_put(conn->memcg);
	l5_acct_put(conn->acct);
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
	if (!refcount_dec_and_test(&conn->ref))
		return;
	if (conn->paired) {
		atomic_long_dec(&conn->acct->pairs);
		atomic_long_sub(L5_GRANT_PAIR - 2 * L5_GRANT +
				conn->end[0].granted + conn->end[1].granted,
				&conn->acct->reserved);
	}
	/* a peer may still be ringing, see l5_bell() */
	call_rcu(&conn->rcu, l5_conn_free_rcu);
}

/*
 * What the writer's SO_SNDBUF and the reader's SO_RCVBUF ask for, the larger,
 * as a power of two. Only a size that was set counts: the kernel's own default
 * for TCP says nothing about rings. Half of the value is what the caller gave
 * to setsockopt(), the rest was TCP's overhead.
 */
static u32 l5_ring_size(struct l5_net *ln, const struct sock *writer,
			const struct sock *reader)
{
	u32 max = rounddown_pow_of_two(READ_ONCE(ln->ring_max_kb)) << 10;
	u32 size = 0;

	if (writer->sk_userlocks & SOCK_SNDBUF_LOCK)
		size = READ_ONCE(writer->sk_sndbuf) / 2;
	if (reader->sk_userlocks & SOCK_RCVBUF_LOCK)
		size = max_t(u32, size, READ_ONCE(reader->sk_rcvbuf) / 2);
	if (!size)
		size = READ_ONCE(ln->ring_kb) << 10;
	return roundup_pow_of_two(clamp_t(u32, size, L5_RING_LEAST, max));
}

/**
 * l5_conn_fix() - fix the geometry of a connection
 * @conn: the connection
 * @client: bytes of the ring that the connecting end writes
 * @server: of the other
 *
 * Context: any.
 * Return: false if the namespace's limit does not allow it.
 */
bool l5_conn_fix(struct l5_conn *conn, u32 client, u32 server)
{
	u32 size[2] = { [L5_CLIENT] = client, [L5_SERVER] = server };
	int i;

	if (!l5_reserve(conn->acct, L5_GRANT_PAIR)) {
		conn->reason = L5_REASON_LIMIT;
		return false;
	}
	for (i = 0; i < 2; i++) {
		conn->end[i].size = size[i];
		conn->end[i].granted = L5_GRANT;
		conn->end[i].prod.size = size[i];
		conn->end[!i].cons.size = size[i];
	}
	atomic_long_inc(&conn->acct->pairs);
	conn->paired = true;
	return true;
}

/**
 * l5_conn_pair() - fix the geometry of a connection that met its peer
 * @conn: the connection
 * @listener: the socket whose child it met
 *
 * Context: the meeting's bucket lock held; atomic.
 * Return: false if the namespace's limit does not allow it.
 */
bool l5_conn_pair(struct l5_conn *conn, struct l5_sock *listener)
{
	/* the owners know of options that were set a moment ago */
	struct sock *client = &conn->client->sk;
	struct l5_net *ln = conn->client->ln;
	struct sock *server = &listener->sk;

	if (!l5_conn_fix(conn, l5_ring_size(ln, client, server),
			 l5_ring_size(ln, server, client)))
		return false;
	rcu_assign_pointer(conn->end[L5_CLIENT].sk, &conn->client->sk);
	return true;
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
	if (reset || l5_ring_readable(l5))
		return true;
	l5_conn_fin(l5);
	return false;
}

/**
 * l5_conn_fin() - this end writes no more
 * @l5: a socket in state L5_SHM, its tx_lock held or nobody else there
 */
void l5_conn_fin(struct l5_sock *l5)
{
	set_bit(L5_END_FIN, &l5_own(l5)->flags);
	if (l5->conn->rdma) {
		l5_rdma_fin(l5->conn);
		return;
	}
	/* the bootstrap tells the peer, see l5_peer_fin() */
	if (l5->proto == L5PROTO_UNIX)
		return;
	l5_map_flag(l5_peer(l5), L5_MAP_RX_ASK);
	l5_conn_changed(l5->conn, !l5->end);
}
