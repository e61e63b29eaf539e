/* SPDX-License-Identifier: GPL-2.0 */
/* Descriptors and credentials that ride with a record. */
#ifndef L5_FILES_H
#define L5_FILES_H

#include "l5.h"

/**
 * struct l5_files - what rides with the records of a send
 * @msg: the send
 * @sent: its first record is published
 * @rest: what rides with the records after that
 * @kept: files that the numbers of descriptors stood for when it began to wait,
 *	NULL until then
 * @nkept: how many
 */
struct l5_files {
	struct msghdr *msg;
	bool sent;
	struct msghdr rest;
	struct file **kept;
	int nkept;
};

/* @rest is not used before it is made. */
static inline void l5_files_init(struct l5_files *f, struct msghdr *msg)
{
	f->msg = msg;
	f->sent = false;
	f->kept = NULL;
	f->nkept = 0;
}

struct msghdr *l5_files_now(struct l5_sock *l5, struct l5_files *f);
int l5_files_wait(struct l5_files *f);
void l5_files_drop(struct l5_files *f);
void l5_files_asked(struct l5_sock *l5, bool asks);
void l5_files_told(struct l5_sock *l5, struct msghdr *msg, size_t room);

extern const struct l5_files_ops l5_files_ops;

#endif /* L5_FILES_H */
