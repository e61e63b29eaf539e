// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: a connection's memory, and bytes in and out of it.
 *
 * The protocol is l5_ring.h's. Here are the pages below it. A ring is an array
 * of pages by position, of which only those between reader and writer need to
 * be there: the writer gets one when it comes to its position, and takes the
 * oldest that the reader is through with before it allocates another. So a
 * connection holds what is unread and little more, whatever the size of its
 * ring, and one that answers at once lives in a page that stays in the cache.
 *
 * Pages are counted against the namespace's limit and charged to the memory
 * cgroup that connected. Each ring is granted L5_GRANT pages when the ends are
 * paired, or there is no pair; with those alone bytes always flow, so later
 * shortage makes a ring small, but fails no send. Only the first send of a ring
 * allocates them, and is ENOBUFS if there is no memory even for that. Pages are
 * freed with the connection and not before.
 *
 * A process that maps the rings has no use for a page that moves, so once one
 * does, both rings are whole: each place has a page, and keeps it.
 *
 * Cursors live in the control page, where processes that mapped it move them
 * too. Whoever moves them holds that direction's lock word, loads them, checks
 * them as a copy and works with the copy; what else the kernel reads from
 * memory it shares is read once and checked.
 */
#include <linux/list.h>
#include <linux/log2.h>
#include <linux/memcontrol.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uio.h>
#include <linux/wait.h>

#include "l5.h"

/*
 * A large send goes in pieces of at most this, so that the reader copies one
 * while the writer fills the next.
 */
#define L5_PIECE	(64u << 10)

/* Pages of a ring that a connection is sure of, and its two control pages. */
#define L5_GRANT	2
#define L5_GRANT_PAIR	(2 * L5_GRANT + 2)

/*
 * @hard: what the connection cannot do without. For more than that nobody in
 * the connecting task's memory cgroup is to be killed.
 */
static struct page *l5_page_alloc(struct l5_conn *conn, bool hard)
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
static bool l5_reserve(struct l5_acct *acct, long pages)
{
	unsigned long max = READ_ONCE(acct->max_kb) >> (PAGE_SHIFT - 10);

	if (atomic_long_add_return(pages, &acct->reserved) <= (long)max)
		return true;
	atomic_long_sub(pages, &acct->reserved);
	return false;
}

static void l5_page_free(struct l5_conn *conn, struct page *page)
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
	return roundup_pow_of_two(clamp_t(u32, size, L5_RING_MIN, max));
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
	conn->wish[0] = roundup_pow_of_two(clamp(rx, L5_RING_MIN, max));
	conn->wish[1] = roundup_pow_of_two(clamp(tx, L5_RING_MIN, max));
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
static void l5_bell(struct l5_end *e, u32 *wait, bool room)
{
	struct sock *sk;

	rcu_read_lock();
	sk = rcu_dereference(e->sk);
	if (!sk || !sock_flag(sk, SOCK_FASYNC))
		l5_wait_clear(wait);
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

/* A peer that asked for SIGIO is always to be told. */
static bool l5_peer_async(struct l5_sock *l5)
{
	struct sock *sk;
	bool async;

	rcu_read_lock();
	sk = rcu_dereference(l5_peer(l5)->sk);
	async = sk && sock_flag(sk, SOCK_FASYNC);
	rcu_read_unlock();
	return async;
}

/* More than a connection moves in a year. */
#define L5_BYTES_SANE	(1ULL << 60)

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

/* The page at a position, NULL if it was never written. */
static struct page *l5_ring_page(struct l5_end *e, u64 pos)
{
	/* N, pairs with O in l5_ring_fill(); the array, then the page */
	struct page **pages = smp_load_acquire(&e->pages);

	if (!pages)
		return NULL;
	return smp_load_acquire(&pages[(pos & (e->size - 1)) >> PAGE_SHIFT]);
}

static u64 *l5_ring_slot(struct l5_end *e, u64 pos)
{
	struct page *page = l5_ring_page(e, pos);

	return page ? page_address(page) + offset_in_page(pos) : NULL;
}

static struct page **l5_ring_page_at(struct l5_end *e, u64 number)
{
	return &e->pages[number & ((e->size >> PAGE_SHIFT) - 1)];
}

/*
 * The number after the last page. T, pairs with U: who sees it sees the pages,
 * and of @first a value as old at most.
 */
static u64 l5_ring_end(const struct l5_end *e)
{
	return smp_load_acquire(&e->next);
}

/* A page more. The page is there, and @first is what it is to be. */
static void l5_ring_grew(struct l5_end *e)
{
	/* U, pairs with T */
	smp_store_release(&e->next, e->next + 1);
}

/* Does each place have its page for good? */
static bool l5_ring_whole(const struct l5_end *e)
{
	u64 next = l5_ring_end(e);

	return next - READ_ONCE(e->first) == e->size >> PAGE_SHIFT;
}

/*
 * The next page of a ring: the oldest, if the reader has left it, or a new one.
 * A look at the wrong moment through a stale cursor may find a page in a place
 * that it has left; it stays a page of this ring, and such a look decides
 * nothing.
 *
 * Return: -ENOBUFS if there is none.
 */
static int l5_ring_next_page(struct l5_sock *l5, struct l5_end *e)
{
	struct page *page;

	lockdep_assert_held(&e->fill_lock);
	if (e->first < e->prod.head >> PAGE_SHIFT) {
		page = *l5_ring_page_at(e, e->first);
		WRITE_ONCE(*l5_ring_page_at(e, e->first), NULL);
		WRITE_ONCE(e->first, e->first + 1);
	} else {
		if (e->npages >= e->granted) {
			if (!l5_reserve(l5->conn->acct, 1))
				return -ENOBUFS;
			e->granted++;
		}
		page = l5_page_alloc(l5->conn, e->npages < L5_GRANT);
		if (!page)
			return -ENOBUFS;
		e->npages++;
	}
	/* O, pairs with N */
	smp_store_release(l5_ring_page_at(e, e->next), page);
	l5_ring_grew(e);
	return 0;
}

/* The array of pages. Return: false if there is no memory for it. */
static bool l5_ring_array(struct l5_end *e)
{
	struct page **pages;

	lockdep_assert_held(&e->fill_lock);
	if (e->pages)
		return true;
	pages = kvcalloc(e->size >> PAGE_SHIFT, sizeof(*pages),
			 GFP_KERNEL_ACCOUNT);
	/* O, pairs with N */
	smp_store_release(&e->pages, pages);
	return pages;
}

/*
 * Have pages for @len bytes from the tail, or for as many as can be had.
 * Return: how many, a multiple of 8, -EAGAIN if the reader has to go on first,
 * -ENOBUFS if there is no memory at all, -EPROTO.
 */
static int l5_ring_fill(struct l5_sock *l5, struct l5_end *e, u32 len)
{
	u64 pos = e->prod.tail;
	int have;

	if (l5_ring_end(e) << PAGE_SHIFT >= pos + len || l5_ring_whole(e)) {
		WRITE_ONCE(e->starved, 0);
		return len;
	}
	if (l5_prod_look(&e->prod, l5_peer(l5)->ctrl) < 0)
		return -EPROTO;
	mutex_lock(&e->fill_lock);
	if (!l5_ring_array(e)) {
		mutex_unlock(&e->fill_lock);
		return -ENOBUFS;
	}
	while (!l5_ring_whole(e) && e->next << PAGE_SHIFT < pos + len)
		if (l5_ring_next_page(l5, e))
			break;
	if (l5_ring_whole(e))
		have = len;
	else
		have = min_t(u64, len, (e->next << PAGE_SHIFT) - pos);
	mutex_unlock(&e->fill_lock);
	if (have >= (int)min(len, 4 * L5_HDR)) {
		WRITE_ONCE(e->starved, 0);
		return have;
	}
	if (e->next < 2)
		return -ENOBUFS;
	/* two pages and the reader not in the last: it will move on */
	WRITE_ONCE(e->starved, (e->prod.head >> PAGE_SHIFT) + 1);
	return -EAGAIN;
}

/* Pages that a ring lacks to be whole. */
static u32 l5_ring_missing(const struct l5_end *e)
{
	return (e->size >> PAGE_SHIFT) - (u32)(e->next - e->first);
}

/* Pages that it would have then and was not granted. */
static u32 l5_ring_ungranted(const struct l5_end *e)
{
	u32 n = e->npages + l5_ring_missing(e);

	return n > e->granted ? n - e->granted : 0;
}

static void l5_ring_complete(struct l5_end *e, struct list_head *pages)
{
	u32 n = l5_ring_missing(e);

	e->granted += l5_ring_ungranted(e);
	e->npages += n;
	WRITE_ONCE(e->starved, 0);
	for (; n; n--) {
		struct page *page = list_first_entry(pages, struct page, lru);

		list_del(&page->lru);
		/* O, pairs with N */
		smp_store_release(l5_ring_page_at(e, e->next), page);
		l5_ring_grew(e);
	}
}

/**
 * l5_ring_populate() - make both rings whole, so that they can be mapped
 * @conn: the connection
 *
 * Context: may sleep; the caller may hold the mmap_lock.
 * Return: 0, or -ENOMEM and nothing has changed.
 */
int l5_ring_populate(struct l5_conn *conn)
{
	struct l5_end *e0 = &conn->end[0], *e1 = &conn->end[1];
	struct page *page, *tmp;
	LIST_HEAD(pages);
	u32 grant, n;
	int err = 0;

	mutex_lock(&e0->fill_lock);
	mutex_lock_nested(&e1->fill_lock, SINGLE_DEPTH_NESTING);
	grant = l5_ring_ungranted(e0) + l5_ring_ungranted(e1);
	if (!l5_ring_array(e0) || !l5_ring_array(e1) ||
	    !l5_reserve(conn->acct, grant)) {
		err = -ENOMEM;
		goto out;
	}
	for (n = l5_ring_missing(e0) + l5_ring_missing(e1); n; n--) {
		page = l5_page_alloc(conn, false);
		if (!page) {
			atomic_long_sub(grant, &conn->acct->reserved);
			err = -ENOMEM;
			goto out;
		}
		list_add(&page->lru, &pages);
	}
	l5_ring_complete(e0, &pages);
	l5_ring_complete(e1, &pages);
out:
	mutex_unlock(&e1->fill_lock);
	mutex_unlock(&e0->fill_lock);
	list_for_each_entry_safe(page, tmp, &pages, lru)
		l5_page_free(conn, page);
	return err;
}

/* Copy between a ring and an iterator page by page; short if that faults. */
static u32 l5_ring_copy(struct l5_end *e, u64 pos, u32 len,
			struct iov_iter *iter, bool in)
{
	u32 done = 0;

	while (done < len) {
		struct page *page = l5_ring_page(e, pos + done);
		u32 off = offset_in_page(pos + done);
		u32 part = min_t(u32, len - done, PAGE_SIZE - off);
		u32 n;

		/* what is published was written, unless its length is a lie */
		if (!page)
			break;
		if (in)
			n = copy_page_from_iter(page, off, part, iter);
		else
			n = copy_page_to_iter(page, off, part, iter);
		done += n;
		if (n < part)
			break;
	}
	return done;
}

/**
 * l5_ring_violation() - the peer broke the protocol
 * @l5: the victim
 *
 * The connection ends with an error on both sides.
 */
void l5_ring_violation(struct l5_sock *l5)
{
	if (!test_and_set_bit(L5_END_BROKEN, &l5_own(l5)->flags))
		l5_count(l5, L5_STAT_VIOLATIONS, 1);
	WRITE_ONCE(l5->sk.sk_err, EPROTO);
	l5_map_flag(l5_own(l5), L5_MAP_TX_ASK | L5_MAP_RX_ASK);
	sock_no_linger(l5->boot->sk);
	l5->boot->ops->shutdown(l5->boot, SHUT_RDWR);
	sk_error_report(&l5->sk);
}

/**
 * l5_ring_extent() - how much of its ring a writer may use
 * @l5: the writer, whose SO_SNDBUF may have been set late
 */
u32 l5_ring_extent(const struct l5_sock *l5)
{
	u32 size = l5_own(l5)->size, sndbuf;

	if (likely(!(l5->sk.sk_userlocks & SOCK_SNDBUF_LOCK)))
		return size;
	sndbuf = READ_ONCE(l5->sk.sk_sndbuf) / 2;
	return min(size, max(sndbuf, L5_RING_MIN));
}

/*
 * Room for a record, or 0 if it is better to wait: a large send is not to
 * dribble into a nearly full ring, one small record at a time.
 */
static int l5_ring_room(struct l5_sock *l5, u32 want)
{
	struct l5_end *own = l5_own(l5);
	u32 extent = l5_ring_extent(l5);
	u32 slack = own->size - extent;
	u32 low = min(want, extent / 8);

	if (l5_prod_room(&own->prod) < min(want, L5_PIECE) + slack) {
		if (l5_prod_look(&own->prod, l5_peer(l5)->ctrl) < 0)
			return -EPROTO;
		if (l5_prod_room(&own->prod) < low + slack)
			return 0;
	}
	return min3(want, l5_prod_room(&own->prod) - slack, L5_PIECE);
}

/**
 * l5_ring_write() - publish one record
 * @l5: a socket in state L5_SHM, its tx_lock held
 * @from: payload, advanced by what was taken
 *
 * Context: may sleep.
 * Return: bytes taken, -EAGAIN if the ring is full, -EFAULT, -ENOBUFS if there
 * is no memory, -EPROTO if the peer broke the protocol, -EPIPE if the bytes
 * were taken but the peer closed meanwhile, so they may never be read.
 */
ssize_t l5_ring_write(struct l5_sock *l5, struct iov_iter *from)
{
	struct l5_end *own = l5_own(l5), *peer = l5_peer(l5);
	u64 pos = own->prod.tail;
	int len, err;

	lockdep_assert_held(&l5->tx_lock);
	len = l5_ring_room(l5, min_t(size_t, iov_iter_count(from), L5_PIECE));
	if (len <= 0)
		return len ?: -EAGAIN;
	/* the record and the header after it */
	err = l5_ring_fill(l5, own, l5_rec_size(len) + L5_HDR);
	if (err < 0)
		return err;
	len = min_t(int, len, err - 2 * L5_HDR);
	err = l5_ring_copy(own, pos + L5_HDR, len, from, true);
	if (err < len) {
		iov_iter_revert(from, err);
		return -EFAULT;
	}
	own->tx_bytes += len;
	l5_store(&own->ctrl->tx_bytes, l5_load(&own->ctrl->tx_bytes) + len);
	l5_prod_publish(&own->prod, own->ctrl, l5_ring_slot(own, pos),
			l5_ring_slot(own, pos + l5_rec_size(len)), len);
	l5_count(l5, L5_STAT_BYTES_TX, len);

	if (l5->conn->rdma)
		l5_rdma_push(l5->conn, false);
	else if (l5_wait_armed(&peer->ctrl->rx_wait) || l5_peer_async(l5))
		l5_bell(peer, &peer->ctrl->rx_wait, false);
	/*
	 * M, pairs with L, the barrier being l5_wait_armed()'s: a closing peer
	 * sees the record unread, or we see it closed. One on another host says
	 * how far it read, see l5_got_close().
	 */
	if (test_bit(L5_END_CLOSED, &peer->flags))
		return -EPIPE;
	return len;
}

/*
 * Tell a writer that waits about room, but not about every little: it would
 * run, fill that and sleep again. Its tail is only a hint, a lie is its own
 * loss; one that lags behind what we read makes the count negative.
 */
static void l5_ring_freed(struct l5_sock *l5)
{
	struct l5_end *own = l5_own(l5), *peer = l5_peer(l5);
	s64 used;

	if (!l5_wait_armed(&peer->ctrl->tx_wait))
		return;
	if (l5->conn->rdma) {
		l5_rdma_bell(l5->conn);
		return;
	}
	used = l5_load(&peer->ctrl->tx_tail) - own->cons.head;
	if (used <= (s64)peer->size / 2)
		l5_bell(peer, &peer->ctrl->tx_wait, true);
}

/*
 * Is a header word one that came with its record, and all of it not yet? Then
 * it says so, see L5_NOTIFY_ONE. What was read is good only if it is still so
 * once the last word of it was.
 */
static bool l5_ring_late(struct l5_end *ring, u64 pos, u64 *slot)
{
	u64 hdr = READ_ONCE(*slot), bare = hdr & ~L5_REC_STAMP;
	u64 *after;

	if (!(hdr & L5_REC_LATE))
		return false;
	/* the word after a record, or nonsense that its reader complains of */
	if ((hdr & L5_REC_STAMP) != l5_late_stamp(ring->late_key, pos) || !bare)
		return !bare;
	if (!l5_rec_valid(ring->size, bare))
		return false;
	pos += l5_rec_size((u32)bare);
	after = l5_ring_slot(ring, pos);
	if ((l5_load_acquire(after) & L5_REC_STAMP) !=
	    l5_late_stamp(ring->late_key, pos) ||
	    l5_load_acquire(slot) != hdr)
		return true;
	cmpxchg(slot, hdr, bare);
	return false;
}

/*
 * The record at the consumer, checked.
 * Return: 1, 0 if there is none, -EPROTO.
 */
static int l5_ring_next(struct l5_end *ring, struct l5_cons *c)
{
	u64 *slot = l5_ring_slot(ring, c->head);
	int ret;

	if (!slot || (ring->late_key && l5_ring_late(ring, c->head, slot)))
		return 0;
	ret = l5_cons_peek(c, slot);
	return ret < 0 ? -EPROTO : ret;
}

/**
 * l5_ring_read() - take bytes out of the ring
 * @l5: a socket in state L5_SHM, its rx_lock held
 * @to: where they go
 * @len: how many at most
 * @discard: do not copy, only count
 *
 * Context: may sleep.
 * Return: bytes taken, -EAGAIN if the ring is empty, -EFAULT, -EPROTO.
 */
ssize_t l5_ring_read(struct l5_sock *l5, struct iov_iter *to, size_t len,
		     bool discard)
{
	struct l5_end *own = l5_own(l5), *ring = l5_peer(l5);
	struct l5_cons *c = &own->cons;
	size_t done = 0;
	u32 freed = 0;
	int err;

	lockdep_assert_held(&l5->rx_lock);
	while ((err = l5_ring_next(ring, c)) > 0) {
		u32 part = min_t(size_t, len - done, c->len - c->off), n = part;

		if (!part)
			break;
		if (!discard)
			n = l5_ring_copy(ring, c->head + L5_HDR + c->off, part,
					 to, false);
		if (n < part) {
			iov_iter_revert(to, n);
			err = -EFAULT;
			break;
		}
		freed += l5_cons_take(c, own->ctrl, n);
		done += n;
		/* a big read is not to keep the writer waiting */
		if (freed >= ring->size / 2) {
			l5_ring_freed(l5);
			freed = 0;
			/* records may be as small as the peer likes */
			cond_resched();
			if (fatal_signal_pending(current))
				break;
		}
		if (done == len)
			break;
	}
	if (freed)
		l5_ring_freed(l5);
	if (done) {
		own->rx_bytes += done;
		l5_store(&own->ctrl->rx_bytes,
			 l5_load(&own->ctrl->rx_bytes) + done);
		l5_count(l5, L5_STAT_BYTES_RX, done);
		return done;
	}
	if (err < 0)
		return err;
	return err ? 0 : -EAGAIN;
}

/*
 * Walk over published records without taking them: the walk is a copy of the
 * cursors and cannot pass the ring's size, whatever the headers say.
 */
static int l5_ring_walk(struct l5_end *ring, struct l5_cons *c, u64 start)
{
	c->head += l5_rec_size(c->len);
	c->off = 0;
	c->len = 0;
	if (c->head - start >= c->size)
		return 0;
	return l5_ring_next(ring, c);
}

/**
 * l5_ring_peek() - copy bytes and leave them in the ring
 * @l5: a socket in state L5_SHM, its rx_lock held
 * @to: where they go
 * @skip: bytes to leave out at the start
 * @len: how many at most
 *
 * Return: as l5_ring_read().
 */
ssize_t l5_ring_peek(struct l5_sock *l5, struct iov_iter *to, size_t skip,
		     size_t len)
{
	struct l5_end *own = l5_own(l5), *ring = l5_peer(l5);
	u64 start = own->cons.head;
	struct l5_cons *c = &own->cons;
	struct l5_cons walk;
	size_t done = 0;
	int err;

	lockdep_assert_held(&l5->rx_lock);
	/* validate in place, so that what was seen here is what is read */
	err = l5_ring_next(ring, c);
	walk = *c;
	for (; err > 0; err = l5_ring_walk(ring, &walk, start)) {
		u32 left = walk.len - walk.off, part, n;

		if (skip >= left) {
			skip -= left;
			if (!len)
				break;
			continue;
		}
		walk.off += skip;
		part = min_t(size_t, len - done, left - skip);
		skip = 0;
		n = l5_ring_copy(ring, walk.head + L5_HDR + walk.off, part, to,
				 false);
		if (n < part) {
			if (!done)
				return -EFAULT;
			iov_iter_revert(to, n);
			return done;
		}
		done += n;
		if (done == len)
			return done;
	}
	if (done)
		return done;
	return err < 0 ? err : err ? 0 : -EAGAIN;
}

/**
 * l5_ring_count() - unread payload bytes in a ring
 * @l5: a socket in state L5_SHM
 * @end: whose ring
 * @enough: stop counting there
 *
 * A snapshot: without that direction's lock it may be of a moving thing.
 */
size_t l5_ring_count(struct l5_sock *l5, int end, size_t enough)
{
	struct l5_end *ring = &l5->conn->end[end];
	struct l5_cons walk = { .size = ring->size };
	size_t sum = 0;
	u64 start;

	if (l5_cons_load(&walk, l5->conn->end[!end].ctrl) < 0)
		return 0;
	start = walk.head;
	if (l5_ring_next(ring, &walk) <= 0)
		return 0;
	do
		sum += walk.len - walk.off;
	while (sum < enough && l5_ring_walk(ring, &walk, start) > 0);
	return sum;
}

/**
 * l5_ring_seen() - where the chain of unread records ends at present
 * @l5: a socket that reads from a ring
 * @from: what this said before, 0 at first
 *
 * Context: any, no lock.
 * Return: a position from which on nothing was seen.
 */
u64 l5_ring_seen(struct l5_sock *l5, u64 from)
{
	struct l5_end *ring = l5_peer(l5);
	struct l5_cons walk = { .size = ring->size };
	u64 start;

	if (l5_cons_load(&walk, l5_own(l5)->ctrl) < 0)
		return from;
	start = walk.head;
	/* a header's place stays one until it is read */
	if (from - start <= ring->size)
		walk.head = from;
	walk.off = 0;
	if (l5_ring_next(ring, &walk) > 0)
		while (l5_ring_walk(ring, &walk, start) > 0)
			;
	return walk.head;
}

/**
 * l5_ring_readable() - is there anything to read, or to complain about?
 * @l5: a socket in state L5_SHM
 *
 * Context: any, no lock.
 */
bool l5_ring_readable(struct l5_sock *l5)
{
	u64 head = l5_load(&l5_own(l5)->ctrl->rx_head);
	struct l5_end *ring = l5_peer(l5);
	u64 *slot;

	head &= ~(u64)(L5_HDR - 1);
	slot = l5_ring_slot(ring, head);
	if (!slot || (ring->late_key && l5_ring_late(ring, head, slot)))
		return false;
	return READ_ONCE(*slot);
}

/**
 * l5_ring_writable() - is it worth while to write?
 * @l5: a socket in state L5_SHM
 *
 * Context: any, no lock.
 */
bool l5_ring_writable(struct l5_sock *l5)
{
	struct l5_end *own = l5_own(l5);
	u64 head = l5_load(&l5_peer(l5)->ctrl->rx_head);
	u64 starved = READ_ONCE(own->starved);

	if (starved && head >> PAGE_SHIFT < starved)
		return false;
	/* who took a record may be ahead of the tail of who published it */
	return (s64)(l5_load(&own->ctrl->tx_tail) - head) <=
	       (s64)l5_ring_extent(l5) / 2;
}

/**
 * l5_ring_used() - bytes in use of the ring an end writes, headers included
 * @conn: a connection that is paired
 * @end: the end
 *
 * By what the ends say, hence a hint, but never more than the ring has.
 */
u32 l5_ring_used(struct l5_conn *conn, int end)
{
	s64 used = l5_load(&conn->end[end].ctrl->tx_tail) -
		   l5_load(&conn->end[!end].ctrl->rx_head);

	return clamp_t(s64, used, 0, conn->end[end].size);
}

/* How long who may not wait waits for who only holds a lock for a moment. */
#define L5_LOCK_PATIENCE	(HZ / 20)

static u32 *l5_lock_word(struct l5_end *own, int dir)
{
	return dir == L5_LOCK_TX ? &own->ctrl->tx_lock : &own->ctrl->rx_lock;
}

static struct mutex *l5_lock_mutex(struct l5_sock *l5, int dir)
{
	return dir == L5_LOCK_TX ? &l5->tx_lock : &l5->rx_lock;
}

/*
 * A word that says that it is held by nobody there is. A process that scribbled
 * over it and went must not stop those who share its socket; so it counts as
 * one that died with it.
 *
 * Return: true if it was so; then it is worth trying.
 */
static bool l5_lock_forged(struct l5_sock *l5, int dir, u32 old)
{
	struct mutex *mutex = l5_lock_mutex(l5, dir);
	struct l5_end *own = l5_own(l5);
	u32 free = (old & L5_LOCK_WAITERS) | L5_LOCK_DIED;
	u32 *word = l5_lock_word(own, dir);
	u32 id = old & L5_LOCK_ID;

	if (id == L5_LOCK_KERNEL) {
		/* no system call does who does not have the mutex */
		if (!mutex_trylock(mutex))
			return false;
		cmpxchg(word, old, free);
		mutex_unlock(mutex);
		return true;
	}
	return l5_map_forget(own, id, word, old, free);
}

/**
 * l5_ring_lock_wait() - sleep while a process holds a lock word
 * @l5: a socket in state L5_SHM
 * @dir: L5_LOCK_TX or L5_LOCK_RX
 * @timeo: jiffies, what is left of it on return
 * @intr: whether a signal ends it that does not kill
 *
 * Wakes now and then without being asked to, since a process may forget, or
 * scribble over the word; and by a signal, since it may be stopped.
 *
 * Return: 0 if it is worth trying, -EAGAIN after *timeo, or as
 * sock_intr_errno().
 */
int l5_ring_lock_wait(struct l5_sock *l5, int dir, long *timeo, bool intr)
{
	struct l5_end *own = l5_own(l5);
	u32 *word = l5_lock_word(own, dir);
	long nap = min_t(long, *timeo, msecs_to_jiffies(20) ?: 1);
	DEFINE_WAIT(wait);
	int err = 0;
	u32 old;

	if (!*timeo)
		return -EAGAIN;
	old = l5_load(word);
	if (old & L5_LOCK_ID && l5_lock_forged(l5, dir, old))
		return 0;
	prepare_to_wait(&own->lock_wait, &wait,
			intr ? TASK_INTERRUPTIBLE : TASK_KILLABLE);
	old = l5_load(word);
	if (!(old & L5_LOCK_ID))
		goto out;
	if (intr ? signal_pending(current) : fatal_signal_pending(current)) {
		err = sock_intr_errno(*timeo);
		goto out;
	}
	/* not set: it changed, perhaps it is free */
	if (cmpxchg(word, old, old | L5_LOCK_WAITERS) == old) {
		long left = schedule_timeout(nap);

		if (*timeo != MAX_SCHEDULE_TIMEOUT)
			*timeo -= nap - left;
	}
out:
	finish_wait(&own->lock_wait, &wait);
	return err;
}

/* What was said of it is what its last holder left in the control page. */
static int l5_ring_load(struct l5_sock *l5, int dir, bool mend)
{
	struct l5_end *own = l5_own(l5), *peer = l5_peer(l5);
	u64 *slot;

	if (dir == L5_LOCK_TX) {
		if (l5_prod_load(&own->prod, own->ctrl, peer->ctrl) < 0)
			return -EPROTO;
		slot = mend ? l5_ring_slot(own, own->prod.tail) : NULL;
		if (slot && l5_prod_mend(&own->prod, own->ctrl, peer->ctrl,
					 slot) < 0)
			return -EPROTO;
	} else {
		if (l5_cons_load(&own->cons, own->ctrl) < 0)
			return -EPROTO;
		slot = mend ? l5_ring_slot(peer, own->cons.head) : NULL;
		if (slot) {
			l5_cons_mend(&own->cons, own->ctrl, slot);
			l5_ring_freed(l5);
		}
	}
	return 0;
}

/**
 * l5_ring_lock() - have one direction to ourselves, and its cursors
 * @l5: a socket in state L5_SHM
 * @dir: L5_LOCK_TX or L5_LOCK_RX
 * @timeo: jiffies to wait for a process that holds the word, or a signal; 0, of
 *	who may not wait, is still L5_LOCK_PATIENCE, as for any lock; if it is
 *	negative no signal ends it that does not kill
 *
 * Return: 0, -EAGAIN, as sock_intr_errno(), or -EPROTO if the cursors make no
 * sense, in which case it is not held.
 */
int l5_ring_lock(struct l5_sock *l5, int dir, long timeo)
{
	struct mutex *mutex = l5_lock_mutex(l5, dir);
	u32 *word = l5_lock_word(l5_own(l5), dir);
	bool intr = timeo > 0;
	int got, err;

	timeo = abs(timeo) ?: L5_LOCK_PATIENCE;
	for (;;) {
		mutex_lock(mutex);
		got = l5_lock_try(word, L5_LOCK_KERNEL);
		if (got)
			break;
		/* the mutex is not held for as long as a process likes */
		mutex_unlock(mutex);
		err = l5_ring_lock_wait(l5, dir, &timeo, intr);
		if (err)
			return err;
	}
	err = l5_ring_load(l5, dir, got == 2);
	if (err)
		l5_ring_unlock(l5, dir);
	return err;
}

/**
 * l5_ring_unlock() - let the next one have it
 * @l5: the socket
 * @dir: as for l5_ring_lock()
 */
void l5_ring_unlock(struct l5_sock *l5, int dir)
{
	struct l5_end *own = l5_own(l5);

	if (l5_unlock(l5_lock_word(own, dir)))
		l5_conn_unlocked(l5->conn, l5->end);
	mutex_unlock(l5_lock_mutex(l5, dir));
}
