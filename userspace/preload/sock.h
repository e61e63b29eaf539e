/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The memory of mapped sockets. A socket that no word of the table refers to
 * any more is retired, and freed once no thread uses it.
 */
#ifndef L5_SOCK_H
#define L5_SOCK_H

#include <stdbool.h>

struct sock;

/* Memory for one, and back; NULL or false: try again later. */
struct sock *sock_new(void);
bool sock_free(struct sock *s);

/* No thread finds it any more. */
void sock_retire(struct sock *s);

/* One more word refers to it: false if it is on its way out. Or one less. */
bool sock_get(struct sock *s);
void sock_put(struct sock *s);

/**
 * sock_wait_for_others() - a descriptor of it is about to be closed
 * @s: the socket
 */
void sock_wait_for_others(struct sock *s);

/* In a child of fork() */
void sock_forget_parent(void);

#endif /* L5_SOCK_H */
