/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The threads that use mapped sockets. Each has a place where it says what it
 * uses, before it looks whether that is still in the table; a thread that takes
 * something out of the table looks there afterwards.
 */
#ifndef L5_USERS_H
#define L5_USERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>

#include "../lib/base.h"
#include "sandbox.h"

struct sock;

enum { NEST = 4 };		/* uses that interrupt each other in a thread */

/**
 * struct user - a thread's place to publish what it uses
 * @used: by depth of interruption
 * @frame: where the stack was
 * @fd: by which descriptor
 * @depth: how many of them are in use
 * @open: how many of these a handler may come upon
 * @own: how often it is between fd_own_begin() and fd_own_end()
 * @tid: whose it is, 0 nobody's; one whose thread has ended is free too
 * @next: all of them; never changes
 */
struct user {
	struct sock *_Atomic used[NEST];
	uintptr_t frame[NEST];
	int fd[NEST];
	atomic_uint depth;
	unsigned int open;
	atomic_uint own;
	atomic_int tid;
	struct user *next;
} __attribute__((aligned(L5_LINE)));

/* This thread's, or NULL: it has none yet. */
extern __thread struct user *fd_me __attribute__((tls_model("initial-exec")));

/* Memory, zeroes, never given back */
static inline void *fd_memory(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* Without membarrier(2) each use has a full barrier. */
static inline bool users_fenced(void)
{
	return atomic_load_explicit(&sandbox_terms, memory_order_relaxed) &
	       SANDBOX_FENCED;
}

/**
 * users_barrier() - a thread inside said so before, any other has yet to look
 *
 * Return: 0, or not if that cannot be had.
 */
int users_barrier(void);

/**
 * users_claim() - find a place for this thread
 *
 * Return: NULL if there is none, or no calls are to be made for it.
 */
struct user *users_claim(void);

/* Does any thread use it? After users_barrier(). */
bool users_in(const struct sock *s);

/* Does any other thread? It makes the barrier itself. */
bool users_others_in(const struct sock *s);

/* Is any other living thread in the middle of something? */
bool users_inside(void);

/* In a child of fork() */
void users_forget_parent(void);

#endif /* L5_USERS_H */
