/* SPDX-License-Identifier: GPL-2.0 */
/* Sockets as an administrator names them. */
#ifndef L5_WHO_H
#define L5_WHO_H

#include "l5.h"

enum l5_who_kind {
	L5_WHO_ALL,
	L5_WHO_UID,
	L5_WHO_CGROUP,
	L5_WHO_INODE,
};

/**
 * struct l5_who - sockets as an administrator names them
 * @kind: &enum l5_who_kind
 * @first: lowest uid
 * @last: highest uid
 * @inode: number of the socket's inode
 * @cgrp: the cgroup, with all below it; a reference
 */
struct l5_who {
	int kind;
	uid_t first;
	uid_t last;
	unsigned long inode;
	struct cgroup *cgrp;
};

bool l5_may_administer(const struct file *file, const struct net *net);
int l5_who_parse(struct l5_who *w, char *text);
void l5_who_put(struct l5_who *w);
bool l5_who_same(const struct l5_who *a, const struct l5_who *b);
bool l5_who_is(const struct l5_who *w, struct user_namespace *ns,
	       const struct l5_sock *l5);

#endif /* L5_WHO_H */
