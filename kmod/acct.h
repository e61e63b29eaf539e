/* SPDX-License-Identifier: GPL-2.0 */
/* Payers of memory, and how much each may have. */
#ifndef L5_ACCT_H
#define L5_ACCT_H

#include <linux/atomic.h>
#include <linux/refcount.h>
#include <linux/types.h>

struct l5_net;
struct l5_user;
struct mem_cgroup;
struct page;

/**
 * struct l5_acct - memory charged to a network namespace
 * @ref: the namespace's and one for each payer, which may outlive it
 * @max_kb: net.l5.mem_max_kb
 * @reserved: pages granted to connections, never more than @max_kb
 * @pages: pages really allocated
 * @pairs: paired connections
 */
struct l5_acct {
	refcount_t ref;
	unsigned long max_kb;
	atomic_long_t reserved;
	atomic_long_t pages;
	atomic_long_t pairs;
};

/**
 * struct l5_payer - the payer of memory, see acct.c
 * @acct: the network namespace; NULL: there is no payer so far
 * @user: the user, NULL if the payer is not bounded as a user
 * @memcg: the memory cgroup, or NULL
 */
struct l5_payer {
	struct l5_acct *acct;
	struct l5_user *user;
	struct mem_cgroup *memcg;
};

extern unsigned long l5_host_max_kb;
extern unsigned long l5_user_max_kb;
extern unsigned int l5_host_rdma_max;
extern unsigned int l5_user_rdma_max;

void l5_acct_init(void);
void l5_acct_put(struct l5_acct *acct);
unsigned long l5_host_pages(void);
bool l5_payer_same(const struct l5_payer *p, const struct l5_payer *q);
int l5_payer_get(struct l5_payer *p, struct l5_net *ln);
void l5_payer_copy(struct l5_payer *p, const struct l5_payer *from);
void l5_payer_put(struct l5_payer *p);
bool l5_reserve(const struct l5_payer *p, long pages);
void l5_unreserve(const struct l5_payer *p, long pages);
struct page *l5_page_alloc(const struct l5_payer *p, gfp_t how);
void l5_page_free(const struct l5_payer *p, struct page *page);
bool l5_remote_listen_charge(const struct l5_payer *p);
void l5_remote_listen_uncharge(const struct l5_payer *p);
bool l5_remote_charge(const struct l5_payer *p, struct l5_net *ln);
void l5_remote_uncharge(const struct l5_payer *p, struct l5_net *ln);

#endif /* L5_ACCT_H */
