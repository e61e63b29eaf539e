/* SPDX-License-Identifier: GPL-2.0 */
/* Descriptors and credentials that ride with a record. */
#ifndef L5_FILES_H
#define L5_FILES_H

#include "l5.h"

struct msghdr *l5_files(struct l5_sock *l5, struct msghdr *msg);
struct msghdr *l5_files_rest(struct l5_sock *l5);
void l5_files_asked(struct l5_sock *l5, bool asks);
void l5_files_told(struct l5_sock *l5, struct msghdr *msg, size_t room);
int l5_files_send(struct l5_sock *l5, struct msghdr *msg, u64 pos);
int l5_files_recv(struct l5_sock *l5, struct msghdr *msg, u64 pos, int flags);
bool l5_files_room(const struct l5_sock *l5);
bool l5_files_left(const struct l5_sock *l5);

#endif /* L5_FILES_H */
