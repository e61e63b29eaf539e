// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: a connection: its memory, its geometry, and the end of each end.
 *
 * Each page is charged to its writer, see acct.c. When a connection is made it
 * is granted its control and state pages and L5_GRANT pages for each ring, at
 * the maker's cost, or there is no connection. With those pages alone bytes
 * always flow, so a later shortage makes a ring small, but fails no send. Only
 * the first send of a ring allocates its pages, and is ENOBUFS if there is no
 * memory even for them.
 *
 * An end that stays open keeps the connection, and an end that is closed does
 * not pay for that but for what is unread, the object, and the pages that were
 * granted at the start: all other pages of the rings are given back soon after
 * the first end is closed.
 */
#include <linux/log2.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/wait.h>

#include "bootstrap.h"
#include "conn.h"
#include "drop.h"
#include "end.h"
#include "fold.h"
#include "link.h"
#include "mapper.h"
#include "netns.h"
#include "pages.h"
#include "region.h"
#include "ring.h"
#include "spill.h"
#include "state.h"

/* Pages that a connection is sure of: ring, control and state, at both ends. */
#define L5_GRANT_PAIR	(2 * (L5_GRANT + 2))

/**
 * l5_conn_page() - the state page of an end
 * @conn: the connection
 * @end: the end
 *
 * Return: the page, zeroed, or NULL.
 */
struct page *l5_conn_page(struct l5_conn *conn, int end)
{
	struct l5_end *e = &conn->end[end];
	struct l5_payer payer = { };
	struct page *page;

	/* nothing is allocated under the lock, see struct l5_spare */
	mutex_lock(&e->fill_lock);
	l5_payer_copy(&payer, &e->payer);
	mutex_unlock(&e->fill_lock);
	page = l5_page_alloc(&payer, __GFP_NORETRY);
	mutex_lock(&e->fill_lock);
	if (page && !l5_payer_same(&payer, &e->payer)) {
		/* accepted meanwhile: it counts where it will be given back */
		atomic_long_inc(&e->payer.acct->pages);
		atomic_long_dec(&payer.acct->pages);
	}
	mutex_unlock(&e->fill_lock);
	l5_payer_put(&payer);
	return page;
}

/**
 * l5_conn_page_free() - give back a page that l5_conn_page() made
 * @conn: the connection
 * @end: the end
 * @page: the page, which no state page has become
 */
void l5_conn_page_free(struct l5_conn *conn, int end, struct page *page)
{
	struct l5_end *e = &conn->end[end];

	mutex_lock(&e->fill_lock);
	l5_page_free(&e->payer, page);
	mutex_unlock(&e->fill_lock);
}

static void l5_conn_revoke_work(struct work_struct *work)
{
	struct l5_conn *conn = container_of(work, struct l5_conn, revoke);

	l5_map_revoke(conn);
	l5_conn_put(conn);
}

/**
 * l5_conn_hold() - keep the object and its state pages, but not its rings
 * @conn: the connection, with a reference
 *
 * Context: any.
 */
void l5_conn_hold(struct l5_conn *conn)
{
	refcount_inc(&conn->held);
}

/**
 * l5_conn_let_go() - undo l5_conn_hold()
 * @conn: the connection
 *
 * Context: any.
 */
void l5_conn_let_go(struct l5_conn *conn)
{
	int i;

	if (!refcount_dec_and_test(&conn->held))
		return;
	for (i = 0; i < 2; i++) {
		struct l5_end *end = &conn->end[i];

		if (end->state)
			l5_page_free(&end->payer, virt_to_page(end->state));
	}
	for (i = 0; i < 2; i++)
		l5_payer_put(&conn->end[i].payer);
	if (conn->link->free)
		conn->link->free(conn);
	kfree(conn);
}

/* Give back what was reserved for the rings, before the rings are freed. */
static void l5_conn_unreserve(struct l5_conn *conn)
{
	int i;

	if (conn->paired)
		atomic_long_dec(&conn->end[0].payer.acct->pairs);
	l5_unreserve(&conn->end[0].payer, L5_GRANT_PAIR);
	for (i = 0; i < 2; i++) {
		struct l5_end *end = &conn->end[i];

		l5_unreserve(&end->payer, end->granted - end->lent - L5_GRANT);
		l5_unreserve(&conn->end[!i].payer, end->lent);
	}
}

static void l5_conn_free_rings(struct rcu_head *rcu)
{
	struct l5_conn *conn = container_of(rcu, struct l5_conn, rcu);
	u32 n, lent;
	int i;

	l5_drop_free(conn);
	for (i = 0; i < 2; i++) {
		struct l5_end *end = &conn->end[i];

		/* the maker of the connection paid for both */
		if (end->ctrl)
			l5_page_free(&conn->end[0].payer,
				     virt_to_page(end->ctrl));
		l5_spill_free(end);
		lent = end->lent_pages;
		for (n = 0; end->pages && n < l5_ring_period(end); n++) {
			if (!end->pages->at[n])
				continue;
			l5_page_free(lent ? &conn->end[!i].payer : &end->payer,
				     end->pages->at[n]);
			lent -= !!lent;
		}
		kvfree(end->pages);
		kfree(end->unread);
	}
	l5_conn_let_go(conn);
}

/* Nothing but mappings is left, and none of them is to show the rings. */
static void l5_conn_last_work(struct work_struct *work)
{
	struct l5_conn *conn = container_of(work, struct l5_conn, last);

	l5_map_revoke(conn);
	l5_conn_unreserve(conn);
	call_rcu(&conn->rcu, l5_conn_free_rings);
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
	/* without a socket there comes no other mapper */
	if (refcount_read(&conn->held) > 1) {
		queue_work(l5_wq, &conn->last);
		return;
	}
	l5_conn_unreserve(conn);
	/* a peer may still be ringing, see l5_bell() */
	call_rcu(&conn->rcu, l5_conn_free_rings);
}

/*
 * The first step comes soon, but not at once: most peers close at once, and
 * then there is nothing to do.
 */
#define L5_DROP_FIRST	(msecs_to_jiffies(4) ?: 1)
/* The longest pause between two looks at what was read */
#define L5_DROP_LAST	(8 * HZ)

static void l5_conn_drop_queue(struct l5_conn *conn, unsigned long delay)
{
	refcount_inc(&conn->ref);
	if (mod_delayed_work(l5_drop_wq, &conn->drop, delay))
		l5_conn_put(conn);
}

/*
 * Both ends are gone, so no timer is to be left, or it might outlive the
 * module. If a socket that was disconnected keeps the connection, all pages go
 * now; else they go with the connection.
 */
static void l5_conn_drop_last(struct l5_conn *conn)
{
	if (test_bit(L5_END_KEPT, &conn->end[0].flags) ||
	    test_bit(L5_END_KEPT, &conn->end[1].flags))
		l5_conn_drop_queue(conn, 0);
	else if (cancel_delayed_work(&conn->drop))
		l5_conn_put(conn);
}

static bool l5_conn_gone(const struct l5_conn *conn)
{
	return l5_end_gone(&conn->end[0]) && l5_end_gone(&conn->end[1]);
}

/*
 * Give back the pages that nobody needs any more, after @delay jiffies. It has
 * to be 0 if the other end has no socket: nothing else stops a timer before the
 * module goes.
 */
static void l5_conn_drop_later(struct l5_conn *conn, unsigned long delay)
{
	l5_conn_drop_queue(conn, delay);
	/*
	 * AU, pairs with L: an end that closes now finds the work queued, or we
	 * see the end closed.
	 */
	smp_mb();
	if (l5_conn_gone(conn))
		l5_conn_drop_last(conn);
}

static void l5_conn_drop_work(struct work_struct *work)
{
	struct l5_conn *conn = container_of(to_delayed_work(work),
					    struct l5_conn, drop);
	int closed = l5_end_gone(&conn->end[L5_CLIENT]) ? L5_CLIENT : L5_SERVER;
	const struct l5_end *open = &conn->end[!closed];

	if (l5_conn_gone(conn)) {
		l5_drop_all(conn);
	} else if (!l5_end_gone(&conn->end[closed])) {
		l5_ring_idle_later(conn, l5_drop_idle(conn), false);
	} else if (!rcu_access_pointer(open->sk)) {
		/* not accepted yet: it has no calls, and asks again then */
		l5_drop_now(conn, closed);
	} else if (l5_drop(conn, closed)) {
		l5_conn_drop_later(conn, conn->drop_delay);
		conn->drop_delay = min_t(unsigned long, 2 * conn->drop_delay,
					 L5_DROP_LAST);
	}
	l5_conn_put(conn);
}

/**
 * l5_conn_closed() - an end has closed: see to the pages that it does not need
 * @conn: the connection
 * @closed: the end, L5_END_CLOSED is set
 *
 * Context: may sleep.
 */
void l5_conn_closed(struct l5_conn *conn, int closed)
{
	const struct l5_end *open = &conn->end[!closed];

	if (!conn->link->drops)
		return;
	if (l5_end_gone(open))
		l5_conn_drop_last(conn);
	else
		l5_conn_drop_later(conn, rcu_access_pointer(open->sk) ?
					 L5_DROP_FIRST : 0);
}

/**
 * l5_conn_make() - make a connection that has no rings yet
 * @payer: pays for both ends
 *
 * A socket without it stays on its bootstrap, so no task of the payer's is
 * killed for it.
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
	/* the caller may be a kernel thread */
	old = set_active_memcg(payer->memcg);
	conn = kzalloc(sizeof(*conn), GFP_KERNEL_ACCOUNT | __GFP_NOWARN |
		       __GFP_RETRY_MAYFAIL);
	set_active_memcg(old);
	if (!conn) {
		l5_unreserve(payer, L5_GRANT_PAIR);
		return ERR_PTR(-ENOMEM);
	}
	refcount_set(&conn->ref, 1);
	refcount_set(&conn->held, 1);
	INIT_HLIST_NODE(&conn->hash);
	INIT_LIST_HEAD(&conn->pending);
	INIT_WORK(&conn->revoke, l5_conn_revoke_work);
	INIT_WORK(&conn->last, l5_conn_last_work);
	INIT_DELAYED_WORK(&conn->drop, l5_conn_drop_work);
	INIT_LIST_HEAD(&conn->dropped);
	spin_lock_init(&conn->region_lock);
	conn->drop_delay = L5_DROP_FIRST;
	/* a meeting is on one host; another transport sets a link of its own */
	conn->link = &l5_shm_link;
	for (i = 0; i < 2; i++) {
		struct l5_end *end = &conn->end[i];

		l5_payer_copy(&end->payer, payer);
		end->granted = L5_GRANT;
		mutex_init(&end->fill_lock);
		mutex_init(&end->whole_lock);
		mutex_init(&end->map_lock);
		spin_lock_init(&end->extent_lock);
		INIT_LIST_HEAD(&end->mappers);
		INIT_LIST_HEAD(&end->regions);
		init_waitqueue_head(&end->lock_wait);
	}
	for (i = 0; i < 2; i++) {
		struct page *page = l5_page_alloc(payer, __GFP_RETRY_MAYFAIL);

		if (!page) {
			l5_conn_put(conn);
			return ERR_PTR(-ENOMEM);
		}
		conn->end[i].ctrl = page_address(page);
		/* a task that polls already has armed nothing */
		conn->end[i].ctrl->rx_wait = 1;
	}
	return conn;
}

/**
 * l5_conn_revoke_later() - l5_map_revoke() from where it cannot be called
 * @conn: the connection, which the caller keeps alive
 *
 * Context: any.
 */
void l5_conn_revoke_later(struct l5_conn *conn)
{
	refcount_inc(&conn->ref);
	if (!queue_work(l5_wq, &conn->revoke))
		l5_conn_put(conn);
}

/*
 * The larger of the sizes that the writer's SO_SNDBUF and the reader's
 * SO_RCVBUF ask for, as a power of two. But the writer pays, so the reader gets
 * no more than it would have without having asked, unless the writer asks as
 * well. Only a size that was set counts: the kernel's own default for TCP says
 * nothing about rings. Half of the value is what the program gave to
 * setsockopt(), the rest was TCP's overhead. @reader is NULL if the reader is
 * not known yet.
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
	/* half of it is for messages that wait, the other half for one more */
	if (writer->sk_type == SOCK_SEQPACKET)
		size = min(size, max) * 2;
	return roundup_pow_of_two(clamp_t(u32, size, L5_RING_LEAST, max));
}

/**
 * l5_conn_fix() - fix the geometry of a connection
 * @conn: the connection
 * @client: bytes of the ring that the connecting end writes
 * @server: bytes of the ring that the other end writes
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
 * Context: the meeting's bucket lock held; atomic. No other task uses the
 * connection yet.
 */
void l5_conn_begin(struct l5_conn *conn)
{
	struct l5_end *end = &conn->end[L5_CLIENT];

	end->size = l5_ring_size(conn->client->ln, &conn->client->sk, NULL);
	end->prod.size = end->size;
}

/**
 * l5_conn_meet() - fix the geometry of a connection whose ends have met
 * @conn: the connection
 * @server: the other end's socket, or the one that it will be accepted from
 *
 * Context: any. No other task uses the connection yet.
 */
void l5_conn_meet(struct l5_conn *conn, struct l5_sock *server)
{
	/* the owners know of options that were set a moment ago */
	const struct sock *client = &conn->client->sk;
	u32 size = conn->end[L5_CLIENT].size;
	int i;

	for (i = 0; i < 2; i++) {
		conn->end[i].packets = l5_packets(server);
		conn->end[i].files = server->bops->files;
	}
	/* the client's ring may have bytes in it */
	if (!size)
		size = l5_ring_size(conn->client->ln, client, &server->sk);
	l5_conn_fix(conn, size,
		    l5_ring_size(server->ln, &server->sk, client));
	rcu_assign_pointer(conn->end[L5_CLIENT].sk, &conn->client->sk);
}

/**
 * l5_conn_pair() - fix the geometry of a connection that met its peer
 * @conn: the connection
 * @listener: the socket whose child it met, and whose payer pays for the
 *	child's end
 *
 * Context: the meeting's bucket lock held; atomic. No other task uses the
 * connection yet.
 */
void l5_conn_pair(struct l5_conn *conn, struct l5_sock *listener)
{
	l5_payer_put(&conn->end[L5_SERVER].payer);
	l5_payer_copy(&conn->end[L5_SERVER].payer, &listener->payer);
	l5_conn_meet(conn, listener);
}

/**
 * l5_conn_accepted() - from now on the current task pays for the server's end
 * @conn: the connection
 * @ln: the namespace of the accepting socket
 *
 * The task also pays for pages beyond the default that the end has because its
 * client mapped it. If the limits do not allow that, the listener's payer stays
 * the payer.
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
 * @conn: its connection; the other end is on another host
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
 *
 * Context: may sleep.
 */
void l5_conn_attach(struct l5_conn *conn, int end, struct l5_sock *l5)
{
	l5->conn = conn;
	l5->end = end;
	rcu_assign_pointer(conn->end[end].sk, &l5->sk);
	/*
	 * AA, pairs with G in l5_bell(): the socket, then what it arms. And
	 * with L: a work that finds no socket has no second round.
	 */
	smp_mb();
	if (l5_end_gone(&conn->end[!end]))
		l5_conn_closed(conn, !end);
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
	/* processes may count what they like; believe only what can be */
	if (tx < L5_BYTES_SANE)
		l5_count(l5, L5_STAT_BYTES_TX, tx);
	if (rx < L5_BYTES_SANE)
		l5_count(l5, L5_STAT_BYTES_RX, rx);
}

/**
 * l5_conn_close() - this end reads and writes no more
 * @l5: a socket in state L5_RINGS that is being released
 * @reset: whether it ends with a reset in any case
 *
 * Return: true if with a reset, also because bytes are left unread.
 */
bool l5_conn_close(struct l5_sock *l5, bool reset)
{
	struct l5_end *own = l5_own(l5);
	bool unread;

	l5_ring_closing(l5);
	RCU_INIT_POINTER(own->sk, NULL);
	set_bit(L5_END_CLOSED, &own->flags);
	l5_map_flag(own, L5_MAP_TX_ASK | L5_MAP_RX_ASK | L5_MAP_GONE);
	l5_map_flag(l5_peer(l5), L5_MAP_TX_ASK);
	l5_region_closed(l5->conn, l5->end);
	/*
	 * L, pairs with M in l5_ring_write(); in a process that has the peer's
	 * end mapped, with its look at the flags after it has published
	 */
	smp_mb();
	/*
	 * Without a socket nothing ends the connection, and nothing shows it:
	 * two processes are not to go on with the memory alone. A socket that
	 * was shut down both ways is there, and may read what it has got.
	 */
	if (l5_end_gone(l5_peer(l5)) &&
	    (test_bit(L5_END_MAPPED, &own->flags) ||
	     test_bit(L5_END_MAPPED, &l5_peer(l5)->flags)))
		l5_conn_revoke_later(l5->conn);
	unread = l5_ring_readable(l5);
	if (!reset && !unread)
		l5_conn_fin(l5);
	/* not before it is known what is unread */
	l5_conn_closed(l5->conn, l5->end);
	return reset || unread;
}

/**
 * l5_conn_fin() - this end writes no more
 * @l5: a socket in state L5_RINGS, its tx_lock held or no other task there
 *
 * The bootstrap tells the peer, after this, see l5_rx_ended(). A peer that does
 * not have this memory is also told where its stream ends, and takes it for
 * ended once it knows both.
 */
void l5_conn_fin(struct l5_sock *l5)
{
	set_bit(L5_END_FIN, &l5_own(l5)->flags);
	if (l5->conn->link->fin)
		l5->conn->link->fin(l5->conn, l5->end);
}
