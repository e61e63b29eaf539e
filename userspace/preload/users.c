// SPDX-License-Identifier: GPL-2.0
/*
 * The threads that use mapped sockets, and where each says what it uses: see
 * users.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/membarrier.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fdtab.h"
#include "users.h"

enum { POOL_BYTES = 4096 };

__thread struct user *fd_me __attribute__((tls_model("initial-exec")));

static struct user *_Atomic users;
static atomic_uint users_n, users_claims, users_scanned;
/* Threads that just get a place to publish, and have no place yet to say so. */
static atomic_uint claiming;

/* A thread inside said so before it looked; any other has yet to look. */
int users_barrier(void)
{
	int ret = 0;

	if (!users_fenced())
		ret = syscall(SYS_membarrier,
			      MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
	atomic_thread_fence(memory_order_seq_cst);
	return ret;
}

bool users_others_in(const struct sock *s)
{
	struct user *u;
	int i;

	users_barrier();
	for (u = atomic_load(&users); u; u = u->next)
		for (i = 0; u != fd_me && i < NEST; i++)
			if (atomic_load(&u->used[i]) == s)
				return true;
	return false;
}

bool users_in(const struct sock *s)
{
	struct user *u;
	int i;

	for (u = atomic_load(&users); u; u = u->next)
		for (i = 0; i < NEST; i++)
			if (atomic_load(&u->used[i]) == s)
				return true;
	return false;
}

static bool thread_ended(int tid)
{
	return syscall(SYS_tgkill, syscall(SYS_getpid), tid, 0) &&
	       errno == ESRCH;
}

/* A place for this thread; those of all threads that @ended are free then. */
static struct user *user_claim_free(int tid, bool ended)
{
	struct user *u, *mine = NULL;
	int old, i;

	for (u = atomic_load(&users); u; u = u->next) {
		old = atomic_load(&u->tid);
		if (old && (!ended || !thread_ended(old)))
			continue;
		if (!atomic_compare_exchange_strong(&u->tid, &old, tid))
			continue;
		for (i = 0; i < NEST; i++)
			atomic_store(&u->used[i], NULL);
		atomic_store(&u->depth, 0);
		atomic_store(&u->own, 0);
		u->open = 0;
		if (!ended)
			return u;
		if (mine)
			atomic_store(&u->tid, 0);
		else
			mine = u;
	}
	return mine;
}

static struct user *user_more(int tid)
{
	unsigned int n = POOL_BYTES / sizeof(struct user), i;
	struct user *u = fd_memory(POOL_BYTES), *head;

	if (!u)
		return NULL;
	atomic_init(&u[0].tid, tid);
	for (i = 0; i + 1 < n; i++)
		u[i].next = &u[i + 1];
	head = atomic_load(&users);
	do
		u[n - 1].next = head;
	while (!atomic_compare_exchange_weak(&users, &head, u));
	atomic_fetch_add(&users_n, n);
	return u;
}

/*
 * There is no moment when a thread says farewell after its last read(). So its
 * place is taken back when it is found dead; to look for the dead costs a
 * system call each, and is done so rarely that a new thread pays for two.
 */
static struct user *user_claim_now(void)
{
	int tid = syscall(SYS_gettid), saved = errno;
	struct user *u = user_claim_free(tid, false);
	unsigned int claims = atomic_fetch_add(&users_claims, 1);

	if (!u && claims - atomic_load(&users_scanned) >=
		  atomic_load(&users_n) / 2) {
		atomic_store(&users_scanned, claims);
		u = user_claim_free(tid, true);
	}
	if (!u)
		u = user_more(tid);
	errno = saved;
	fd_me = u;
	return u;
}

struct user *users_claim(void)
{
	struct user *u = NULL;

	atomic_fetch_add(&claiming, 1);
	if (!sandbox_careful())
		u = user_claim_now();
	atomic_fetch_sub(&claiming, 1);
	return u;
}

bool fd_own_begin(void)
{
	struct user *u = fd_me;
	unsigned int n;

	if (!sandbox_may())
		return false;
	if (l5_unlikely(!u)) {
		u = users_claim();
		if (!u)
			return false;
	}
	n = atomic_load_explicit(&u->own, memory_order_relaxed);
	atomic_store_explicit(&u->own, n + 1, memory_order_relaxed);
	/* AI: said, then looked; the other half is fd_settle()'s */
	if (l5_unlikely(users_fenced()))
		atomic_thread_fence(memory_order_seq_cst);
	else
		atomic_signal_fence(memory_order_seq_cst);
	if (l5_likely(!sandbox_careful()))
		return true;
	/* AZ, pairs with BA: what was done comes before it is over */
	atomic_store_explicit(&u->own, n, memory_order_release);
	return false;
}

void fd_own_end(void)
{
	struct user *u = fd_me;
	unsigned int n = atomic_load_explicit(&u->own, memory_order_relaxed);

	/* AZ, pairs with BA */
	atomic_store_explicit(&u->own, n - 1, memory_order_release);
}

static bool user_inside(const struct user *u)
{
	int i;

	/* BA, pairs with AZ; so does the next */
	if (atomic_load(&u->own))
		return true;
	for (i = 0; i < NEST; i++)
		if (atomic_load(&u->used[i]))
			return true;
	return false;
}

/* Is any other living thread in the middle of something? */
bool users_inside(void)
{
	struct user *u;
	int tid;

	if (atomic_load(&claiming))
		return true;
	for (u = atomic_load(&users); u; u = u->next) {
		tid = atomic_load(&u->tid);
		if (u != fd_me && tid && user_inside(u) && !thread_ended(tid))
			return true;
	}
	return false;
}

uintptr_t fd_used_at(void)
{
	struct user *u = fd_me;
	unsigned int d;

	d = u ? atomic_load_explicit(&u->depth, memory_order_relaxed) : 0;
	return d && d <= NEST && d > u->open ? u->frame[d - 1] : 0;
}

int fd_used_open(void)
{
	struct user *u = fd_me;
	int open = u ? u->open : 0;

	if (u)
		u->open = atomic_load_explicit(&u->depth, memory_order_relaxed);
	return open;
}

void fd_used_again(int open)
{
	if (fd_me)
		fd_me->open = open;
}

/* Any thread but this one is the parent's. */
void users_forget_parent(void)
{
	struct user *u;
	int i;

	atomic_store(&claiming, 0);
	for (u = atomic_load(&users); u; u = u->next) {
		for (i = 0; i < NEST; i++)
			atomic_store(&u->used[i], NULL);
		atomic_store(&u->depth, 0);
		u->open = 0;
		if (u != fd_me)
			atomic_store(&u->own, 0);
		atomic_store(&u->tid,
			     u == fd_me ? (int)syscall(SYS_gettid) : 0);
	}
}
