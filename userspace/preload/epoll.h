/* SPDX-License-Identifier: GPL-2.0 */
/* epoll: what the table of descriptors has to tell it; see epoll.c. */
#ifndef L5_EPOLL_H
#define L5_EPOLL_H

#include <stdbool.h>

struct ep;
struct reg;

/**
 * reg_dead() - a registered descriptor is closed
 * @r: taken out of the descriptor's entry, so no one else does this
 */
void reg_dead(struct reg *r);

/**
 * ep_put() - the set's descriptor is closed
 * @ep: the set
 */
void ep_put(struct ep *ep);

/**
 * ep_shared() - the set has another descriptor now, or another process has it
 * @ep: the set
 */
void ep_shared(struct ep *ep);

/**
 * ep_start() - at the start
 * @ask_us: ask the kernel every so often at least; -1: the default
 */
void ep_start(int ask_us);

/**
 * ep_unseen() - a thread may wait for the set where that is not seen here
 * @ep: the set
 *
 * It may do so in poll() or select(), or in a child of fork(), and hears of
 * nothing that is only noted here: from now on the kernel is told all.
 */
void ep_unseen(struct ep *ep);

/**
 * ep_unseen_all() - a thread may wait for any of the sets like that
 */
void ep_unseen_all(void);

/**
 * ep_any() - have there been sets?
 */
bool ep_any(void);

/**
 * ep_forget_parent() - in a child of fork(): there are no sets here
 */
void ep_forget_parent(void);

#endif /* L5_EPOLL_H */
