// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5 between hosts: accepted sockets that may yet be asked for RDMA, and
 * questions for sockets that are not accepted yet.
 *
 * Nearly every connection that is accepted is of a plain TCP client, and
 * nothing tells it from a connection whose client will ask. So the object that
 * is kept for it, struct l5_candidate, is small, has no timer, and is kept only
 * where a device of this host could carry a question. It becomes a struct
 * l5_rdma once the question is here.
 *
 * The question and accept() come in any order. Both go to the bucket of their
 * token, under its lock: the first waits there, the second finds the first.
 *
 * A candidate is used by the calls of its socket without a reference, for as
 * long as the socket is there; other code uses it under the lock of its bucket.
 */
#include <linux/jhash.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/tcp.h>
#include <net/tcp.h>

#include "rdma.h"

/* A namespace's questions for sockets that are not accepted yet. */
#define L5_EARLY_MOST	1024
/* Most of these from one host, roughly; hosts are told apart by a number. */
#define L5_EARLY_EACH	128
#define L5_EARLY_HOSTS	256
/* After that no question comes for an accepted socket any more, roughly. */
#define L5_CAND_TIME	(30 * HZ)
#define L5_CAND_SWEEP	(5 * HZ)

/*
 * One bucket for each 1 << L5_CAND_SHIFT bytes of memory, within these bounds
 */
#define L5_CAND_SHIFT	20
#define L5_CAND_MIN	256UL
#define L5_CAND_MAX	16384UL

/**
 * struct l5_candidate - an accepted socket that may be asked
 * @node: in its bucket, in the order of @since; empty if no question finds it
 * @since: jiffies when it was put into the bucket
 * @l5: the socket
 * @key: the secret of the TCP connection
 * @token: of @key, in a question for this socket
 * @cm_listener: where the socket is asked; a reference while it may be asked
 * @mailbox: of its listener; a reference while it may be asked
 * @payer: pays for rings; a reference while it may be asked
 * @lock: guards @tx_users, and that the socket gets its l5_rdma
 * @tx_users: senders inside TCP, until there is an l5_rdma that counts them
 * @open: a question may find it, or has found it
 */
struct l5_candidate {
	struct list_head node;
	unsigned long since;
	struct l5_sock *l5;
	u64 key;
	u64 token;
	struct l5_cm_listener *cm_listener;
	struct l5_mailbox *mailbox;
	struct l5_payer payer;
	spinlock_t lock;
	int tx_users;
	bool open;
};

/**
 * struct l5_cand_bucket - candidates and questions of one hash
 * @lock: guards the rest
 * @waiting: list of struct l5_candidate, the oldest first
 * @early: list of struct l5_rdma, of questions that came too early
 */
struct l5_cand_bucket {
	spinlock_t lock;
	struct list_head waiting;
	struct hlist_head early;
};

static atomic_t l5_early_hosts[L5_EARLY_HOSTS];
static struct kmem_cache *l5_cand_slab;
static struct l5_cand_bucket *l5_cand_table;
static unsigned long l5_cand_buckets;
static u32 l5_cand_seed;

static struct l5_cand_bucket *l5_cand_bucket_of(u64 token)
{
	return &l5_cand_table[jhash_2words(token, token >> 32, l5_cand_seed) &
			 (l5_cand_buckets - 1)];
}

static struct l5_candidate *l5_cand_find(struct l5_cand_bucket *b,
					 const struct l5_net *ln, u64 token)
{
	struct l5_candidate *h;

	lockdep_assert_held(&b->lock);
	list_for_each_entry(h, &b->waiting, node)
		if (h->token == token && h->l5->ln == ln)
			return h;
	return NULL;
}

static struct l5_rdma *l5_early_find(struct l5_cand_bucket *b,
				     const struct l5_net *ln, u64 token)
{
	struct l5_rdma *rd;

	lockdep_assert_held(&b->lock);
	hlist_for_each_entry(rd, &b->early, node)
		if (rd->token == token && rd->far.ln == ln)
			return rd;
	return NULL;
}

/* The host that a question came from, as a small number. */
static u8 l5_early_host(const struct rdma_cm_id *id)
{
	const struct sockaddr_storage *a = &id->route.addr.dst_addr;

	if (a->ss_family == AF_INET6)
		return jhash(&((struct sockaddr_in6 *)a)->sin6_addr,
			     sizeof(struct in6_addr), l5_cand_seed);
	return jhash(&((struct sockaddr_in *)a)->sin_addr,
		     sizeof(struct in_addr), l5_cand_seed);
}

static void l5_early_uncount(struct l5_net *ln, u8 from)
{
	atomic_dec(&l5_early_hosts[from]);
	atomic_dec(&ln->rdma_early);
}

/* Count one question more, if there may be one; else nothing is counted. */
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
	l5_early_uncount(rd->far.ln, rd->early_from);
	return true;
}

/**
 * l5_rdma_forget() - no socket is to find an object any more
 * @rd: the object, which may be in the table
 *
 * Context: any.
 */
void l5_rdma_forget(struct l5_rdma *rd)
{
	struct l5_cand_bucket *b = l5_cand_bucket_of(rd->token);
	bool was;

	spin_lock_bh(&b->lock);
	was = l5_early_del(rd);
	spin_unlock_bh(&b->lock);
	/* the table's reference */
	if (was)
		l5_far_put(&rd->far);
}

/* The references of a candidate, to be given back without a lock. */
struct l5_cand_refs {
	struct l5_cm_listener *cm_listener;
	struct l5_mailbox *mailbox;
	struct l5_payer payer;
};

/* No question is to find a candidate any more. False if none would have. */
static bool l5_cand_take(struct l5_candidate *h, struct l5_cand_refs *refs)
{
	if (list_empty(&h->node))
		return false;
	list_del_init(&h->node);
	atomic_dec(&h->l5->ln->rdma_candidates);
	refs->cm_listener = h->cm_listener;
	refs->mailbox = h->mailbox;
	refs->payer = h->payer;
	return true;
}

static void l5_cand_refs_put(struct l5_cand_refs *refs)
{
	l5_cm_listener_put(refs->cm_listener);
	if (refs->mailbox)
		l5_mailbox_put(refs->mailbox);
	l5_payer_put(&refs->payer);
}

/* Take one candidate of a bucket that was not asked for in time. */
static bool l5_cand_expire(struct l5_cand_bucket *b, struct l5_cand_refs *refs)
{
	struct l5_candidate *h;
	bool over = false;

	spin_lock_bh(&b->lock);
	h = list_first_entry_or_null(&b->waiting, struct l5_candidate, node);
	if (h && time_after_eq(jiffies, h->since + L5_CAND_TIME)) {
		over = l5_cand_take(h, refs);
		WRITE_ONCE(h->open, false);
	}
	spin_unlock_bh(&b->lock);
	return over;
}

static void l5_cand_sweep(struct work_struct *work)
{
	struct l5_cand_refs refs;
	bool more = false;
	unsigned long i;

	for (i = 0; i < l5_cand_buckets; i++) {
		struct l5_cand_bucket *b = &l5_cand_table[i];

		while (!list_empty(&b->waiting) && l5_cand_expire(b, &refs))
			l5_cand_refs_put(&refs);
		more |= !list_empty(&b->waiting);
		cond_resched();
	}
	/* a candidate that comes after this look has asked for a sweep */
	if (more)
		queue_delayed_work(l5_wq, to_delayed_work(work), L5_CAND_SWEEP);
}

static DECLARE_DELAYED_WORK(l5_cand_sweeper, l5_cand_sweep);

/* Does a question come from the peer of the socket that waits for one? */
static bool l5_cand_genuine(const struct l5_rdma *rd,
			    const struct rdma_cm_id *id)
{
	return l5_seal_way(id, &rd->ends) &&
	       l5_seal_good(rd, &rd->hello, rd->peer_qpn);
}

/* The socket has been asked: its candidate becomes an object of RDMA. */
static void l5_cand_comes_true(struct l5_candidate *h, struct l5_rdma *rd)
{
	struct l5_cand_refs refs;

	l5_cand_take(h, &refs);
	rd->cm_listener = refs.cm_listener;
	rd->far.mailbox = refs.mailbox;
	rd->far.payer = refs.payer;
	spin_lock(&h->lock);
	rd->far.tx_users = h->tx_users;
	l5_far_got_socket(&rd->far, h->l5);
	spin_unlock(&h->lock);
}

/**
 * l5_candidate_asked() - a question came: what is it for?
 * @ln: the namespace of the listener
 * @id: the question's cm id, without an object so far
 * @p: what the question brings, with a valid hello
 * @wire: what is to carry the end's bytes
 * @found: filled in if the question is for a socket, or for one that will come:
 *	the object of the question, with a reference, and @id is its own
 *
 * A socket that waits goes on waiting if the question is not its peer's.
 *
 * Context: that of the connection manager's handlers.
 * Return: 0, -EKEYREJECTED if the question is not the peer's, -ENOMEM, also at
 * a limit.
 */
int l5_candidate_asked(struct l5_net *ln, struct rdma_cm_id *id,
		       const struct rdma_conn_param *p,
		       const struct l5_wire_ops *wire, struct l5_rdma **found)
{
	const struct l5_hello *hello = p->private_data;
	struct l5_cand_bucket *b = l5_cand_bucket_of(hello->token);
	struct mem_cgroup *old;
	struct l5_rdma *rd;
	u8 from = l5_early_host(id);
	struct l5_candidate *h;
	int err = -ENOMEM;

	spin_lock_bh(&b->lock);
	h = l5_cand_find(b, ln, hello->token);
	if (!h && !l5_early_count(ln, from))
		goto out_unlock;
	old = set_active_memcg(h ? h->payer.memcg : NULL);
	rd = l5_rdma_alloc(ln, wire, GFP_ATOMIC | __GFP_ACCOUNT);
	set_active_memcg(old);
	if (!rd)
		goto out;
	rd->early_from = from;
	rd->token = hello->token;
	rd->hello = *hello;
	rd->peer_qpn = p->qp_num;
	rd->far.end = L5_SERVER;
	l5_link_to(&rd->far.ph, L5_LINK_ASKED);
	if (h) {
		rd->far.key = h->key;
		l5_ends_of(h->l5->boot->sk, L5_SERVER, &rd->ends);
		if (!l5_cand_genuine(rd, id)) {
			l5_far_put(&rd->far);
			err = -EKEYREJECTED;
			goto out;
		}
	}
	l5_cm_hold(rd, id);
	refcount_inc(&rd->far.ref);
	if (h) {
		/* one reference is the socket's */
		l5_cand_comes_true(h, rd);
		l5_far_do(&rd->far, L5_DO_ACCEPT);
	} else {
		/* or one is the table's */
		hlist_add_head(&rd->node, &b->early);
		l5_far_expire(&rd->far, L5_CM_PATIENCE);
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

/* Find a question that has waited for a candidate's socket, from its peer. */
static struct l5_rdma *l5_cand_early(struct l5_cand_bucket *b,
				     const struct l5_candidate *h,
				     const struct l5_ends *ends, bool *forged)
{
	struct l5_rdma *rd = l5_early_find(b, h->l5->ln, h->token);

	if (!rd)
		return NULL;
	rd->far.key = h->key;
	rd->ends = *ends;
	*forged = !l5_cand_genuine(rd, rd->id);
	/* a forged question goes when its time is over */
	if (*forged)
		return NULL;
	l5_early_del(rd);
	/* the timer of the question: the answer gets one of its own */
	l5_far_in_time(&rd->far);
	return rd;
}

/**
 * l5_candidate_begin() - an accepted socket may be asked for RDMA
 * @l5: the socket, which no other task uses yet; no byte has moved
 * @key: the secret of its connection
 * @listener: the socket that accepted it
 * @cl: where it may be asked; the candidate takes this reference
 * @t: this transport, as sockets see it
 *
 * Context: may sleep.
 */
void l5_candidate_begin(struct l5_sock *l5, u64 key, struct l5_sock *listener,
			struct l5_cm_listener *cl,
			const struct l5_transport_ops *t)
{
	bool forged = false;
	struct l5_cand_bucket *b;
	struct l5_rdma *rd;
	struct l5_ends ends;
	struct l5_candidate *h;

	h = kmem_cache_zalloc(l5_cand_slab, GFP_KERNEL);
	if (!h || l5_payer_get(&h->payer, l5->ln)) {
		if (h)
			kmem_cache_free(l5_cand_slab, h);
		l5_cm_listener_put(cl);
		return;
	}
	INIT_LIST_HEAD(&h->node);
	spin_lock_init(&h->lock);
	h->since = jiffies;
	h->l5 = l5;
	h->key = key;
	h->token = l5_token(key);
	h->cm_listener = cl;
	h->mailbox = l5_mailbox_get(listener);
	h->open = true;
	l5_ends_of(l5->boot->sk, L5_SERVER, &ends);
	l5_rdma_sk(l5)->candidate = h;
	smp_store_release(&l5->remote, t);
	b = l5_cand_bucket_of(h->token);

	spin_lock_bh(&b->lock);
	atomic_inc(&l5->ln->rdma_candidates);
	list_add_tail(&h->node, &b->waiting);
	rd = l5_cand_early(b, h, &ends, &forged);
	if (rd) {
		/* the table's reference is the socket's now */
		l5_cand_comes_true(h, rd);
		l5_far_do(&rd->far, L5_DO_ACCEPT);
	}
	spin_unlock_bh(&b->lock);
	if (forged)
		l5_net_count(l5->ln, L5_STAT_RDMA_FORGED, 1);
	if (!rd)
		queue_delayed_work(l5_wq, &l5_cand_sweeper, L5_CAND_SWEEP);
}

/**
 * l5_candidate_end() - a socket is not to be asked any more
 * @l5: the socket
 *
 * Context: may sleep.
 * Return: true if it was waiting for a question.
 */
bool l5_candidate_end(struct l5_sock *l5)
{
	struct l5_candidate *h = l5_rdma_sk(l5)->candidate;
	struct l5_cand_refs refs;
	struct l5_cand_bucket *b;
	bool was;

	if (!h)
		return false;
	b = l5_cand_bucket_of(h->token);
	spin_lock_bh(&b->lock);
	was = l5_cand_take(h, &refs);
	if (was)
		WRITE_ONCE(h->open, false);
	spin_unlock_bh(&b->lock);
	if (was)
		l5_cand_refs_put(&refs);
	return was;
}

/**
 * l5_candidate_free() - l5_candidate_end(), and the socket ends
 * @l5: the socket, which no call uses any more
 *
 * Context: may sleep.
 */
void l5_candidate_free(struct l5_sock *l5)
{
	struct l5_candidate *h = l5_rdma_sk(l5)->candidate;

	l5_candidate_end(l5);
	l5_rdma_sk(l5)->candidate = NULL;
	if (h)
		kmem_cache_free(l5_cand_slab, h);
}

/**
 * l5_candidate_may_move() - may RDMA get what the bootstrap carries so far?
 * @l5: the socket
 *
 * Once this is false, it stays false.
 */
bool l5_candidate_may_move(const struct l5_sock *l5)
{
	const struct l5_rdma_sock *rs = l5_rdma_sk(l5);
	/* Y, pairs with l5_cm_ask() and l5_far_got_socket() */
	const struct l5_far *far = smp_load_acquire(&rs->far.far);

	if (far)
		return l5_far_is(far, L5_FAR_OPEN);
	return rs->candidate && READ_ONCE(rs->candidate->open);
}

/* Count a sender, if there is no l5_rdma that counts. Return: whether so. */
static bool l5_cand_tx(struct l5_sock *l5, int n)
{
	struct l5_candidate *h = l5_rdma_sk(l5)->candidate;
	bool none;

	spin_lock_bh(&h->lock);
	none = !l5_far_sk(l5)->far;
	if (none)
		h->tx_users += n;
	spin_unlock_bh(&h->lock);
	return none;
}

/**
 * l5_candidate_tx_begin() - a task is about to send, or to say that no more
 *	will be sent
 * @l5: a socket that TCP carried a moment ago
 *
 * Return: L5_TX_BOOT, L5_TX_RINGS, or L5_TX_COUNTED if TCP takes the bytes and
 * l5_candidate_tx_end() has to follow.
 */
enum l5_tx l5_candidate_tx_begin(struct l5_sock *l5)
{
	if (!l5_candidate_may_move(l5))
		return L5_TX_BOOT;
	if (!l5_far_of(l5) && l5_cand_tx(l5, 1))
		return L5_TX_COUNTED;
	return l5_far_tx_begin(l5_far_sk(l5)->far) ? L5_TX_COUNTED :
						      L5_TX_RINGS;
}

/**
 * l5_candidate_tx_end() - a send that was L5_TX_COUNTED is done
 * @l5: the socket
 */
void l5_candidate_tx_end(struct l5_sock *l5)
{
	if (!l5_far_of(l5) && l5_cand_tx(l5, -1))
		return;
	l5_far_tx_end(l5_far_sk(l5)->far);
}

/**
 * l5_candidate_init() - the module comes
 *
 * Return: 0 or -ENOMEM.
 */
int l5_candidate_init(void)
{
	unsigned long i, n = totalram_pages() >> (L5_CAND_SHIFT - PAGE_SHIFT);

	l5_cand_seed = get_random_u32();
	l5_cand_buckets = roundup_pow_of_two(clamp(n, L5_CAND_MIN,
						   L5_CAND_MAX));
	l5_cand_table = kvmalloc_array(l5_cand_buckets, sizeof(*l5_cand_table),
				       GFP_KERNEL);
	if (!l5_cand_table)
		return -ENOMEM;
	l5_cand_slab = KMEM_CACHE(l5_candidate, SLAB_ACCOUNT);
	if (!l5_cand_slab) {
		kvfree(l5_cand_table);
		return -ENOMEM;
	}
	for (i = 0; i < l5_cand_buckets; i++) {
		spin_lock_init(&l5_cand_table[i].lock);
		INIT_LIST_HEAD(&l5_cand_table[i].waiting);
		INIT_HLIST_HEAD(&l5_cand_table[i].early);
	}
	return 0;
}

/**
 * l5_candidate_exit() - the module goes, there are no sockets and no questions
 */
void l5_candidate_exit(void)
{
	cancel_delayed_work_sync(&l5_cand_sweeper);
	kmem_cache_destroy(l5_cand_slab);
	kvfree(l5_cand_table);
}
