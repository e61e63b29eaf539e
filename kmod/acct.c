// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: who pays for memory, and how much each may have.
 *
 * A page of the module is charged to the memory cgroup of who writes it, as
 * any memory is, and counted in three accounts: of the network namespace, of
 * the user, and of the whole host. Namespaces are free for anybody who may make
 * user namespaces, so the first alone bounds nobody; the last is root's alone
 * to set. Each account holds what has been granted, which is never less than
 * what has been allocated, so no page is allocated that was not allowed.
 *
 * The user is who connects or listens: the real uid, as for the limits on
 * processes and locked memory. Inside a user namespace that an ordinary user
 * made it is that user, whatever uids the namespace has: those are free, too.
 * A task with CAP_SYS_RESOURCE on the host is not bounded as a user, as it is
 * not by RLIMIT_*, but by the other two.
 *
 * Queue pairs, of which a device has so many, are counted for the same three.
 */
#include <linux/cred.h>
#include <linux/hashtable.h>
#include <linux/memcontrol.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/user_namespace.h>

#include "ring.h"

/**
 * struct l5_user - what a user has been granted in all namespaces
 * @ref: one for each payer
 * @uid: of the host
 * @node: in the table
 * @reserved: pages granted, never more than net.l5.user_max_kb
 * @qps: queue pairs, never more than net.l5.user_rdma_max
 * @leaves: addresses where questions are heard for listeners, likewise
 */
struct l5_user {
	refcount_t ref;
	kuid_t uid;
	struct hlist_node node;
	atomic_long_t reserved;
	atomic_t qps;
	atomic_t leaves;
};

#define L5_USER_BITS	6

static DEFINE_SPINLOCK(l5_users_lock);
static DEFINE_HASHTABLE(l5_users, L5_USER_BITS);

static atomic_long_t l5_host_reserved;
static atomic_t l5_host_qps;

unsigned long l5_host_max_kb;
unsigned long l5_user_max_kb;

/* a user has half of what a namespace has */
unsigned int l5_host_rdma_max = 4096;
unsigned int l5_user_rdma_max = 512;

/**
 * l5_acct_init() - set the bounds from the memory there is
 */
void __init l5_acct_init(void)
{
	/* a stop for what memory cgroups do not stop */
	l5_host_max_kb = totalram_pages() / 4 << (PAGE_SHIFT - 10);
	l5_user_max_kb = l5_host_max_kb / 2;
}

/**
 * l5_host_pages() - pages granted on this host
 */
unsigned long l5_host_pages(void)
{
	return atomic_long_read(&l5_host_reserved);
}

static struct l5_user *l5_user_find(kuid_t uid)
{
	struct l5_user *user;

	lockdep_assert_held(&l5_users_lock);
	hash_for_each_possible(l5_users, user, node, __kuid_val(uid))
		if (uid_eq(user->uid, uid))
			return user;
	return NULL;
}

static struct l5_user *l5_user_get(kuid_t uid)
{
	struct l5_user *fresh = NULL, *user;

	for (;;) {
		spin_lock_bh(&l5_users_lock);
		user = l5_user_find(uid);
		if (user) {
			refcount_inc(&user->ref);
		} else if (fresh) {
			hash_add(l5_users, &fresh->node, __kuid_val(uid));
			user = fresh;
			fresh = NULL;
		}
		spin_unlock_bh(&l5_users_lock);
		if (user)
			break;
		fresh = kzalloc(sizeof(*fresh), GFP_KERNEL_ACCOUNT);
		if (!fresh)
			return NULL;
		refcount_set(&fresh->ref, 1);
		fresh->uid = uid;
	}
	kfree(fresh);
	return user;
}

static void l5_user_put(struct l5_user *user)
{
	if (refcount_dec_not_one(&user->ref))
		return;
	spin_lock_bh(&l5_users_lock);
	if (refcount_dec_and_test(&user->ref))
		hash_del(&user->node);
	else
		user = NULL;
	spin_unlock_bh(&l5_users_lock);
	kfree(user);
}

/* Whom the memory of the present task counts for. */
static kuid_t l5_payer_uid(const struct cred *cred)
{
	const struct user_namespace *ns = cred->user_ns;

	if (ns == &init_user_ns)
		return cred->uid;
	while (ns->parent != &init_user_ns)
		ns = ns->parent;
	/* one that root made has users of its own */
	return uid_eq(ns->owner, GLOBAL_ROOT_UID) ? cred->uid : ns->owner;
}

/**
 * l5_payer_get() - the present task is to pay
 * @p: to be filled
 * @ln: in this namespace
 *
 * Context: process; may sleep.
 * Return: 0 or -ENOMEM, and then there is nothing to put.
 */
int l5_payer_get(struct l5_payer *p, struct l5_net *ln)
{
	struct l5_user *user = NULL;

	if (!ns_capable_noaudit(&init_user_ns, CAP_SYS_RESOURCE)) {
		user = l5_user_get(l5_payer_uid(current_cred()));
		if (!user)
			return -ENOMEM;
	}
	p->user = user;
	p->acct = ln->acct;
	refcount_inc(&p->acct->ref);
	p->memcg = get_mem_cgroup_from_mm(current->mm);
	return 0;
}

/**
 * l5_payer_copy() - another reference to whoever pays
 * @p: to be filled
 * @from: who
 *
 * Context: any.
 */
void l5_payer_copy(struct l5_payer *p, const struct l5_payer *from)
{
	p->user = from->user;
	if (p->user)
		refcount_inc(&p->user->ref);
	p->acct = from->acct;
	refcount_inc(&p->acct->ref);
	p->memcg = l5_memcg_get(from->memcg);
}

/**
 * l5_payer_put() - give that back
 * @p: who pays, or an empty one
 *
 * Context: any.
 */
void l5_payer_put(struct l5_payer *p)
{
	if (!p->acct)
		return;
	mem_cgroup_put(p->memcg);
	if (p->user)
		l5_user_put(p->user);
	l5_acct_put(p->acct);
	memset(p, 0, sizeof(*p));
}

static bool l5_grant(atomic_long_t *reserved, const unsigned long *max_kb,
		     long pages)
{
	unsigned long max = READ_ONCE(*max_kb) >> (PAGE_SHIFT - 10);

	if (atomic_long_add_return(pages, reserved) <= (long)max)
		return true;
	atomic_long_sub(pages, reserved);
	return false;
}

/**
 * l5_reserve() - ask for more pages
 * @p: who pays
 * @pages: how many
 *
 * Context: any.
 * Return: false if a limit does not allow it.
 */
bool l5_reserve(const struct l5_payer *p, long pages)
{
	if (!pages)
		return true;
	if (!l5_grant(&p->acct->reserved, &p->acct->max_kb, pages))
		return false;
	if (p->user && !l5_grant(&p->user->reserved, &l5_user_max_kb, pages))
		goto err_net;
	if (l5_grant(&l5_host_reserved, &l5_host_max_kb, pages))
		return true;
	if (p->user)
		atomic_long_sub(pages, &p->user->reserved);
err_net:
	atomic_long_sub(pages, &p->acct->reserved);
	return false;
}

/**
 * l5_unreserve() - give them back
 * @p: who pays
 * @pages: how many
 *
 * Context: any.
 */
void l5_unreserve(const struct l5_payer *p, long pages)
{
	atomic_long_sub(pages, &l5_host_reserved);
	if (p->user)
		atomic_long_sub(pages, &p->user->reserved);
	atomic_long_sub(pages, &p->acct->reserved);
}

static bool l5_one_more(atomic_t *n, const unsigned int *max)
{
	if (atomic_inc_return(n) <= (int)READ_ONCE(*max))
		return true;
	atomic_dec(n);
	return false;
}

/**
 * l5_leaf_charge() - ask for one more address where questions are heard
 * @p: who listens
 *
 * What the connection manager allocates for it is charged to nobody.
 *
 * Context: any.
 * Return: false if a limit does not allow it.
 */
bool l5_leaf_charge(const struct l5_payer *p)
{
	return !p->user || l5_one_more(&p->user->leaves, &l5_user_rdma_max);
}

/**
 * l5_leaf_uncharge() - and one less
 * @p: who listened
 *
 * Context: any.
 */
void l5_leaf_uncharge(const struct l5_payer *p)
{
	if (p->user)
		atomic_dec(&p->user->leaves);
}

/**
 * l5_qp_get() - ask for one more queue pair
 * @p: who is to have it
 * @ln: in this namespace
 *
 * Context: any.
 * Return: false if a limit does not allow it.
 */
bool l5_qp_get(const struct l5_payer *p, struct l5_net *ln)
{
	if (!l5_one_more(&ln->rdma_now, &ln->rdma_max))
		return false;
	if (p->user && !l5_one_more(&p->user->qps, &l5_user_rdma_max))
		goto err_net;
	if (l5_one_more(&l5_host_qps, &l5_host_rdma_max))
		return true;
	if (p->user)
		atomic_dec(&p->user->qps);
err_net:
	atomic_dec(&ln->rdma_now);
	return false;
}

/**
 * l5_qp_put() - it is gone
 * @p: who had it
 * @ln: in this namespace
 *
 * Context: any.
 */
void l5_qp_put(const struct l5_payer *p, struct l5_net *ln)
{
	atomic_dec(&l5_host_qps);
	if (p->user)
		atomic_dec(&p->user->qps);
	atomic_dec(&ln->rdma_now);
}

/**
 * l5_page_alloc() - a page that was reserved
 * @p: who pays
 * @hard: it is what a connection cannot do without; for more than that nobody
 *	in the memory cgroup is to be killed
 *
 * Return: the page, zeroed, or NULL.
 */
struct page *l5_page_alloc(const struct l5_payer *p, bool hard)
{
	struct mem_cgroup *old = set_active_memcg(p->memcg);
	struct page *page;

	page = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO | __GFP_NOWARN |
			  (hard ? 0 : __GFP_NORETRY));
	set_active_memcg(old);
	if (page)
		atomic_long_inc(&p->acct->pages);
	return page;
}

/**
 * l5_page_free() - give one back
 * @p: who pays
 * @page: the page, or NULL
 *
 * Who has it mapped or pinned keeps it; it is never used again here.
 */
void l5_page_free(const struct l5_payer *p, struct page *page)
{
	if (!page)
		return;
	put_page(page);
	atomic_long_dec(&p->acct->pages);
}
