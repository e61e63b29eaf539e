// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5 between hosts: accepted sockets that may yet be asked for RDMA, and
 * questions for sockets that are not accepted yet.
 *
 * Nearly every connection that is accepted is of a plain TCP client, and
 * nothing tells it from one that will ask. So what is kept of it is small, has
 * no timer, and is kept only where a device of this host could carry a
 * question: struct l5_hope. It becomes a struct l5_rdma when that is there.
 *
 * The question and accept() come in any order. Both go to the bucket of their
 * token, under its lock: the first waits there, the second finds it.
 *
 * A hope is used by the calls of its socket without a reference, for as long as
 * the socket is there; by others under the lock of the bucket that it is in.
 */
#include <linux/jhash.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/tcp.h>
#include <net/tcp.h>

#include "rdma.h"

/* A namespace's questions for sockets that are not accepted yet. */
#define L5_EARLY_MOST	1024
/* Of these from one host, roughly; hosts are told apart by so many numbers. */
#define L5_EARLY_EACH	128
#define L5_EARLY_HOSTS	256
/* After that no question comes for an accepted socket any more, roughly. */
#define L5_HOPE_TIME	(30 * HZ)
#define L5_HOPE_SWEEP	(5 * HZ)

/* A bucket for so many bytes of memory, and at least, and at most. */
#define L5_HOPE_SHIFT	20
#define L5_HOPE_MIN	256UL
#define L5_HOPE_MAX	16384UL

/**
 * struct l5_hope - an accepted socket that may be asked
 * @node: in its bucket, in the order of @since; empty if no question finds it
 * @since: jiffies when it was put there
 * @l5: the socket
 * @key: the secret of the TCP connection
 * @token: what a question for it says of @key
 * @door: where it is asked; a reference while it may be
 * @mailbox: of its listener, likewise
 * @payer: who pays for rings, likewise
 * @lock: guards @tx_users, and that the socket gets its l5_rdma
 * @tx_users: senders inside TCP, until there is an l5_rdma that counts them
 * @open: a question may find it, or has
 */
struct l5_hope {
	struct list_head node;
	unsigned long since;
	struct l5_sock *l5;
	u64 key;
	u64 token;
	struct l5_door *door;
	struct l5_mailbox *mailbox;
	struct l5_payer payer;
	spinlock_t lock;
	int tx_users;
	bool open;
};

/**
 * struct l5_hopes - a bucket
 * @lock: guards the rest
 * @waiting: struct l5_hope, the oldest first
 * @early: struct l5_rdma of questions that came too early
 */
struct l5_hopes {
	spinlock_t lock;
	struct list_head waiting;
	struct hlist_head early;
};

static atomic_t l5_early_hosts[L5_EARLY_HOSTS];
static struct kmem_cache *l5_hope_cache;
static struct l5_hopes *l5_hopes;
static unsigned long l5_hope_buckets;
static u32 l5_hope_seed;

static struct l5_hopes *l5_hopes_of(u64 token)
{
	return &l5_hopes[jhash_2words(token, token >> 32, l5_hope_seed) &
			 (l5_hope_buckets - 1)];
}

static struct l5_hope *l5_hope_find(struct l5_hopes *b, const struct l5_net *ln,
				    u64 token)
{
	struct l5_hope *h;

	lockdep_assert_held(&b->lock);
	list_for_each_entry(h, &b->waiting, node)
		if (h->token == token && h->l5->ln == ln)
			return h;
	return NULL;
}

static struct l5_rdma *l5_early_find(struct l5_hopes *b,
				     const struct l5_net *ln, u64 token)
{
	struct l5_rdma *rd;

	lockdep_assert_held(&b->lock);
	hlist_for_each_entry(rd, &b->early, node)
		if (rd->token == token && rd->ln == ln)
			return rd;
	return NULL;
}

/* The host that a question came from, as a small number. */
static u8 l5_early_host(const struct rdma_cm_id *id)
{
	const struct sockaddr_storage *a = &id->route.addr.dst_addr;

	if (a->ss_family == AF_INET6)
		return jhash(&((struct sockaddr_in6 *)a)->sin6_addr,
			     sizeof(struct in6_addr), l5_hope_seed);
	return jhash(&((struct sockaddr_in *)a)->sin_addr,
		     sizeof(struct in_addr), l5_hope_seed);
}

static void l5_early_uncount(struct l5_net *ln, u8 from)
{
	atomic_dec(&l5_early_hosts[from]);
	atomic_dec(&ln->rdma_early);
}

/* One more, if there may be one: else nothing is counted. */
static bool l5_early_count(struct l5_net *ln, u8 from)
{
	int each = atomic_inc_return(&l5_early_hosts[from]);

	if (atomic_inc_return(&ln->rdma_early) <= L5_EARLY_MOST &&
	    each <= L5_EARLY_EACH)
		return true;
	l5_early_uncount(ln, from);
	return false;
}

static bool l5_early_del(struct l5_rdma *rd)
{
	if (hlist_unhashed(&rd->node))
		return false;
	hlist_del_init(&rd->node);
	l5_early_uncount(rd->ln, rd->early_from);
	return true;
}

/**
 * l5_rdma_forget() - nobody is to find it any more
 * @rd: what may be in the table
 *
 * Context: any.
 */
void l5_rdma_forget(struct l5_rdma *rd)
{
	struct l5_hopes *b = l5_hopes_of(rd->token);
	bool was;

	spin_lock_bh(&b->lock);
	was = l5_early_del(rd);
	spin_unlock_bh(&b->lock);
	/* the table's reference */
	if (was)
		l5_rdma_put(rd);
}

/* What a hope holds, to be given back without a lock. */
struct l5_hope_refs {
	struct l5_door *door;
	struct l5_mailbox *mailbox;
	struct l5_payer payer;
};

/* No question is to find it any more. */
static bool l5_hope_take(struct l5_hope *h, struct l5_hope_refs *refs)
{
	if (list_empty(&h->node))
		return false;
	list_del_init(&h->node);
	atomic_dec(&h->l5->ln->rdma_hopes);
	refs->door = h->door;
	refs->mailbox = h->mailbox;
	refs->payer = h->payer;
	return true;
}

static void l5_hope_refs_put(struct l5_hope_refs *refs)
{
	l5_door_put(refs->door);
	if (refs->mailbox)
		l5_mailbox_put(refs->mailbox);
	l5_payer_put(&refs->payer);
}

/* One of a bucket that nobody has asked for in time. */
static bool l5_hope_expire(struct l5_hopes *b, struct l5_hope_refs *refs)
{
	struct l5_hope *h;
	bool over = false;

	spin_lock_bh(&b->lock);
	h = list_first_entry_or_null(&b->waiting, struct l5_hope, node);
	if (h && time_after_eq(jiffies, h->since + L5_HOPE_TIME)) {
		over = l5_hope_take(h, refs);
		WRITE_ONCE(h->open, false);
	}
	spin_unlock_bh(&b->lock);
	return over;
}

static void l5_hope_sweep(struct work_struct *work)
{
	struct l5_hope_refs refs;
	bool more = false;
	unsigned long i;

	for (i = 0; i < l5_hope_buckets; i++) {
		struct l5_hopes *b = &l5_hopes[i];

		while (!list_empty(&b->waiting) && l5_hope_expire(b, &refs))
			l5_hope_refs_put(&refs);
		more |= !list_empty(&b->waiting);
		cond_resched();
	}
	/* whoever comes to a bucket after this look has asked for the next */
	if (more)
		queue_delayed_work(l5_wq, to_delayed_work(work), L5_HOPE_SWEEP);
}

static DECLARE_DELAYED_WORK(l5_hope_sweeper, l5_hope_sweep);

/* Is a question the peer's of the socket that waits for one? */
static bool l5_hope_genuine(const struct l5_rdma *rd,
			    const struct rdma_cm_id *id)
{
	return l5_seal_way(id, &rd->ends) &&
	       l5_seal_good(rd, &rd->hello, rd->peer_qpn);
}

/* The socket has been asked: what it is to have of RDMA. */
static void l5_hope_comes_true(struct l5_hope *h, struct l5_rdma *rd)
{
	struct l5_hope_refs refs;

	l5_hope_take(h, &refs);
	rd->door = refs.door;
	rd->mailbox = refs.mailbox;
	rd->payer = refs.payer;
	spin_lock(&h->lock);
	rd->tx_users = h->tx_users;
	l5_rdma_got_socket(rd, h->l5);
	spin_unlock(&h->lock);
}

/**
 * l5_hope_asked() - a question came: what is it for?
 * @ln: to a listener of this namespace
 * @id: of the connection manager, without an object so far
 * @p: what it brings, a valid hello
 * @found: filled in if it is for a socket or for one that will come: the object
 *	of the question, with a reference, and @id is its own
 *
 * A socket that waits goes on doing so if the question is not its peer's.
 *
 * Context: the connection manager's.
 * Return: 0, -EKEYREJECTED if it is not the peer's, -ENOMEM also at a limit.
 */
int l5_hope_asked(struct l5_net *ln, struct rdma_cm_id *id,
		  const struct rdma_conn_param *p, struct l5_rdma **found)
{
	const struct l5_hello *hello = p->private_data;
	struct l5_hopes *b = l5_hopes_of(hello->token);
	struct mem_cgroup *old;
	struct l5_rdma *rd;
	u8 from = l5_early_host(id);
	struct l5_hope *h;
	int err = -ENOMEM;

	spin_lock_bh(&b->lock);
	h = l5_hope_find(b, ln, hello->token);
	if (!h && !l5_early_count(ln, from))
		goto out_unlock;
	old = set_active_memcg(h ? h->payer.memcg : NULL);
	rd = l5_rdma_alloc(ln, GFP_ATOMIC | __GFP_ACCOUNT);
	set_active_memcg(old);
	if (!rd)
		goto out;
	rd->early_from = from;
	rd->token = hello->token;
	rd->hello = *hello;
	rd->peer_qpn = p->qp_num;
	rd->server = true;
	rd->end = L5_SERVER;
	if (h) {
		rd->key = h->key;
		l5_ends_of(h->l5->boot->sk, L5_SERVER, &rd->ends);
		if (!l5_hope_genuine(rd, id)) {
			l5_rdma_put(rd);
			err = -EKEYREJECTED;
			goto out;
		}
	}
	l5_door_hold(rd, id);
	refcount_inc(&rd->ref);
	if (h) {
		/* one is the socket's */
		l5_hope_comes_true(h, rd);
		l5_rdma_do(rd, L5_DO_ACCEPT);
	} else {
		/* or the table's */
		hlist_add_head(&rd->node, &b->early);
		l5_door_expire(rd, L5_DOOR_PATIENCE);
	}
	spin_unlock_bh(&b->lock);
	*found = rd;
	return 0;

out:
	if (!h)
		l5_early_uncount(ln, from);
out_unlock:
	spin_unlock_bh(&b->lock);
	return err;
}

/* A question that has waited for the socket of a hope, and is its peer's. */
static struct l5_rdma *l5_hope_early(struct l5_hopes *b,
				     const struct l5_hope *h,
				     const struct l5_ends *ends, bool *forged)
{
	struct l5_rdma *rd = l5_early_find(b, h->l5->ln, h->token);

	if (!rd)
		return NULL;
	rd->key = h->key;
	rd->ends = *ends;
	*forged = !l5_hope_genuine(rd, rd->id);
	/* else it goes when its time is over */
	if (*forged)
		return NULL;
	l5_early_del(rd);
	/* not the time that the answer gets */
	l5_door_in_time(rd);
	return rd;
}

/**
 * l5_hope_begin() - an accepted socket may be asked for RDMA
 * @l5: the socket, which nobody else uses yet; no byte has moved
 * @key: the secret of its connection
 * @listener: where it was accepted
 * @door: where it may be asked, a reference that goes to it
 *
 * Context: may sleep.
 */
void l5_hope_begin(struct l5_sock *l5, u64 key, struct l5_sock *listener,
		   struct l5_door *door)
{
	bool forged = false;
	struct l5_hopes *b;
	struct l5_rdma *rd;
	struct l5_ends ends;
	struct l5_hope *h;

	h = kmem_cache_zalloc(l5_hope_cache, GFP_KERNEL);
	if (!h || l5_payer_get(&h->payer, l5->ln)) {
		if (h)
			kmem_cache_free(l5_hope_cache, h);
		l5_door_put(door);
		return;
	}
	INIT_LIST_HEAD(&h->node);
	spin_lock_init(&h->lock);
	h->since = jiffies;
	h->l5 = l5;
	h->key = key;
	h->token = l5_token(key);
	h->door = door;
	h->mailbox = l5_mailbox_get(listener);
	h->open = true;
	l5_ends_of(l5->boot->sk, L5_SERVER, &ends);
	l5->hope = h;
	b = l5_hopes_of(h->token);

	spin_lock_bh(&b->lock);
	atomic_inc(&l5->ln->rdma_hopes);
	list_add_tail(&h->node, &b->waiting);
	rd = l5_hope_early(b, h, &ends, &forged);
	if (rd) {
		/* the table's reference is the socket's now */
		l5_hope_comes_true(h, rd);
		l5_rdma_do(rd, L5_DO_ACCEPT);
	}
	spin_unlock_bh(&b->lock);
	if (forged)
		l5_net_count(l5->ln, L5_STAT_RDMA_FORGED, 1);
	if (!rd)
		queue_delayed_work(l5_wq, &l5_hope_sweeper, L5_HOPE_SWEEP);
}

/**
 * l5_hope_end() - a socket is not to be asked any more
 * @l5: the socket
 *
 * Context: may sleep.
 * Return: true if it was waiting for a question.
 */
bool l5_hope_end(struct l5_sock *l5)
{
	struct l5_hope *h = l5->hope;
	struct l5_hope_refs refs;
	struct l5_hopes *b;
	bool was;

	if (!h)
		return false;
	b = l5_hopes_of(h->token);
	spin_lock_bh(&b->lock);
	was = l5_hope_take(h, &refs);
	if (was)
		WRITE_ONCE(h->open, false);
	spin_unlock_bh(&b->lock);
	if (was)
		l5_hope_refs_put(&refs);
	return was;
}

/**
 * l5_hope_free() - and the socket ends
 * @l5: the socket, which no call uses any more
 *
 * Context: may sleep.
 */
void l5_hope_free(struct l5_sock *l5)
{
	struct l5_hope *h = l5->hope;

	l5_hope_end(l5);
	l5->hope = NULL;
	if (h)
		kmem_cache_free(l5_hope_cache, h);
}

/**
 * l5_may_move() - may RDMA get what the bootstrap carries so far?
 * @l5: the socket
 *
 * Once it is false, no more.
 */
bool l5_may_move(const struct l5_sock *l5)
{
	/* Y, pairs with l5_door_ask() and l5_rdma_got_socket() */
	const struct l5_rdma *rd = smp_load_acquire(&l5->rd);

	if (rd)
		return l5_rd(rd, L5_RD_OPEN);
	return l5->hope && READ_ONCE(l5->hope->open);
}

/* Count a sender where there is no l5_rdma that would: is that so? */
static bool l5_hope_tx(struct l5_sock *l5, int n)
{
	struct l5_hope *h = l5->hope;
	bool none;

	spin_lock_bh(&h->lock);
	none = !l5->rd;
	if (none)
		h->tx_users += n;
	spin_unlock_bh(&h->lock);
	return none;
}

/**
 * l5_move_tx_begin() - about to send, or to say that no more will be sent
 * @l5: a socket that TCP carried a moment ago
 *
 * Return: L5_TX_TCP, L5_TX_RINGS, or L5_TX_COUNTED if it is TCP that takes it
 * and l5_move_tx_end() has to follow.
 */
enum l5_tx l5_move_tx_begin(struct l5_sock *l5)
{
	if (!l5_may_move(l5))
		return L5_TX_TCP;
	if (!smp_load_acquire(&l5->rd) && l5_hope_tx(l5, 1))
		return L5_TX_COUNTED;
	return l5_rdma_tx_begin(l5->rd) ? L5_TX_COUNTED : L5_TX_RINGS;
}

/**
 * l5_move_tx_end() - that is done
 * @l5: the socket
 */
void l5_move_tx_end(struct l5_sock *l5)
{
	if (!smp_load_acquire(&l5->rd) && l5_hope_tx(l5, -1))
		return;
	l5_rdma_tx_end(l5->rd);
}

/**
 * l5_hope_init() - when the module comes
 *
 * Return: 0 or -ENOMEM.
 */
int __init l5_hope_init(void)
{
	unsigned long i, n = totalram_pages() >> (L5_HOPE_SHIFT - PAGE_SHIFT);

	l5_hope_seed = get_random_u32();
	l5_hope_buckets = roundup_pow_of_two(clamp(n, L5_HOPE_MIN,
						   L5_HOPE_MAX));
	l5_hopes = kvmalloc_array(l5_hope_buckets, sizeof(*l5_hopes),
				  GFP_KERNEL);
	if (!l5_hopes)
		return -ENOMEM;
	l5_hope_cache = KMEM_CACHE(l5_hope, SLAB_ACCOUNT);
	if (!l5_hope_cache) {
		kvfree(l5_hopes);
		return -ENOMEM;
	}
	for (i = 0; i < l5_hope_buckets; i++) {
		spin_lock_init(&l5_hopes[i].lock);
		INIT_LIST_HEAD(&l5_hopes[i].waiting);
		INIT_HLIST_HEAD(&l5_hopes[i].early);
	}
	return 0;
}

/**
 * l5_hope_exit() - the module goes, there are no sockets and no questions
 */
void l5_hope_exit(void)
{
	cancel_delayed_work_sync(&l5_hope_sweeper);
	kmem_cache_destroy(l5_hope_cache);
	kvfree(l5_hopes);
}
