// SPDX-License-Identifier: GPL-2.0
/*
 * AF_L5: the payers of memory, and how much each may have.
 *
 * A page of the module is charged to the memory cgroup of its writer, as any
 * memory is, and counted in three accounts: of the network namespace, of the
 * user, and of the whole host. Any user who may make user namespaces gets
 * network namespaces for free, so the first account alone bounds no user; root
 * alone sets the limit of the last. Each account holds what has been granted,
 * which is never less than what has been allocated, so each page was allowed
 * before it is allocated.
 *
 * The user is the one that connects or listens: the real uid, as for the limits
 * on processes and locked memory. Inside a user namespace that an ordinary user
 * made the user that counts is its maker, whatever uids the namespace has:
 * those are free, too. A task with CAP_SYS_RESOURCE on the host is not bounded
 * as a user, just as RLIMIT_* does not bound it; the other two accounts do.
 *
 * Queue pairs are counted in the same three accounts, since a device has a
 * limited number of them.
 */
#include <linux/cred.h>
#include <linux/hashtable.h>
#include <linux/memcontrol.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/user_namespace.h>

#include "acct.h"
#include "netns.h"

/**
 * struct l5_user - what a user has been granted in all namespaces
 * @ref: one for each payer
 * @uid: of the host
 * @node: in the table
 * @reserved: pages granted, never more than net.l5.user_max_kb
 * @remotes: connections to other hosts, never more than net.l5.user_rdma_max
 * @remote_listens: addresses where questions of other hosts are heard for
 *	listeners, never more than net.l5.user_rdma_max
 */
struct l5_user {
	refcount_t ref;
	kuid_t uid;
	struct hlist_node node;
	atomic_long_t reserved;
	atomic_t remotes;
	atomic_t remote_listens;
};

#define L5_USER_BITS	6

static DEFINE_SPINLOCK(l5_users_lock);
static DEFINE_HASHTABLE(l5_users, L5_USER_BITS);

static atomic_long_t l5_host_reserved;
static atomic_t l5_host_remotes;

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
	/* a bound for memory that memory cgroups do not bound */
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

/**
 * l5_acct_put() - drop a reference to the account of a namespace
 * @acct: the account
 *
 * Context: any.
 */
void l5_acct_put(struct l5_acct *acct)
{
	if (refcount_dec_and_test(&acct->ref))
		kfree(acct);
}

/* The user that the memory of the present task counts for. */
static kuid_t l5_payer_uid(const struct cred *cred)
{
	const struct user_namespace *ns = cred->user_ns;

	if (ns == &init_user_ns)
		return cred->uid;
	while (ns->parent != &init_user_ns)
		ns = ns->parent;
	/* a namespace that root made has users of its own */
	return uid_eq(ns->owner, GLOBAL_ROOT_UID) ? cred->uid : ns->owner;
}

/**
 * l5_payer_get() - the present task is to pay
 * @p: to be filled
 * @ln: the namespace in which it counts
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
 * l5_payer_copy() - take another reference to a payer
 * @p: to be filled
 * @from: the payer
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
 * l5_payer_same() - do two payers pay alike?
 * @p: one
 * @q: the other
 */
bool l5_payer_same(const struct l5_payer *p, const struct l5_payer *q)
{
	return p->acct == q->acct && p->user == q->user && p->memcg == q->memcg;
}

/**
 * l5_payer_put() - give a payer back
 * @p: the payer, or an empty one
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
	long max = READ_ONCE(*max_kb) >> (PAGE_SHIFT - 10);
	long old = atomic_long_read(reserved);

	do {
		if (old + pages > max)
			return false;
	} while (!atomic_long_try_cmpxchg(reserved, &old, old + pages));
	return true;
}

/**
 * l5_reserve() - ask for more pages
 * @p: the payer
 * @pages: how many
 *
 * What is refused takes nothing from others, even for a moment: no account ever
 * holds more than it may, and the user's own is asked first.
 *
 * Context: any.
 * Return: false if a limit does not allow it.
 */
bool l5_reserve(const struct l5_payer *p, long pages)
{
	if (!pages)
		return true;
	if (p->user && !l5_grant(&p->user->reserved, &l5_user_max_kb, pages))
		return false;
	if (!l5_grant(&p->acct->reserved, &p->acct->max_kb, pages))
		goto err_user;
	if (l5_grant(&l5_host_reserved, &l5_host_max_kb, pages))
		return true;
	atomic_long_sub(pages, &p->acct->reserved);
err_user:
	if (p->user)
		atomic_long_sub(pages, &p->user->reserved);
	return false;
}

/**
 * l5_unreserve() - give pages back
 * @p: the payer
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
 * l5_remote_listen_charge() - ask for one more address where questions of other
 *	hosts are heard
 * @p: the listener's payer
 *
 * Memory that a connection manager of the kernel's allocates for it is charged
 * to no user.
 *
 * Context: any.
 * Return: false if a limit does not allow it.
 */
bool l5_remote_listen_charge(const struct l5_payer *p)
{
	return !p->user || l5_one_more(&p->user->remote_listens,
				       &l5_user_rdma_max);
}

/**
 * l5_remote_listen_uncharge() - give back one such address
 * @p: the payer of the socket that listened
 *
 * Context: any.
 */
void l5_remote_listen_uncharge(const struct l5_payer *p)
{
	if (p->user)
		atomic_dec(&p->user->remote_listens);
}

/**
 * l5_remote_charge() - ask for one more connection to another host
 * @p: the payer that is to have it
 * @ln: the namespace in which it counts
 *
 * Context: any.
 * Return: false if a limit does not allow it.
 */
bool l5_remote_charge(const struct l5_payer *p, struct l5_net *ln)
{
	if (!l5_one_more(&ln->rdma_now, &ln->rdma_max))
		return false;
	if (p->user && !l5_one_more(&p->user->remotes, &l5_user_rdma_max))
		goto err_net;
	if (l5_one_more(&l5_host_remotes, &l5_host_rdma_max))
		return true;
	if (p->user)
		atomic_dec(&p->user->remotes);
err_net:
	atomic_dec(&ln->rdma_now);
	return false;
}

/**
 * l5_remote_uncharge() - such a connection is gone
 * @p: the payer that had it
 * @ln: the namespace in which it counts
 *
 * Context: any.
 */
void l5_remote_uncharge(const struct l5_payer *p, struct l5_net *ln)
{
	atomic_dec(&l5_host_remotes);
	if (p->user)
		atomic_dec(&p->user->remotes);
	atomic_dec(&ln->rdma_now);
}

/**
 * l5_page_alloc() - allocate a page that was reserved
 * @p: the payer
 * @how: how hard to try: 0 if a process in the memory cgroup may be killed for
 *	it, __GFP_RETRY_MAYFAIL if not, __GFP_NORETRY if it is a gain only
 *
 * Return: the page, zeroed, or NULL.
 */
struct page *l5_page_alloc(const struct l5_payer *p, gfp_t how)
{
	struct mem_cgroup *old = set_active_memcg(p->memcg);
	struct page *page;

	page = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO | __GFP_NOWARN | how);
	set_active_memcg(old);
	if (page)
		atomic_long_inc(&p->acct->pages);
	return page;
}

/**
 * l5_page_free() - give a page back
 * @p: the payer
 * @page: the page, or NULL
 *
 * A process that has the page mapped or pinned keeps it; it is never used again
 * here.
 */
void l5_page_free(const struct l5_payer *p, struct page *page)
{
	if (!page)
		return;
	put_page(page);
	atomic_long_dec(&p->acct->pages);
}
