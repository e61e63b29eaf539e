/* SPDX-License-Identifier: GPL-2.0 */
/* Descriptors that are passed on over a socket. */
#ifndef L5_PASS_H
#define L5_PASS_H

#include <stdbool.h>
#include <sys/types.h>

/* Two more than the kernel takes */
#define END_GIVE_MOST	255

/* Bytes with some descriptors: what sendmsg() said. */
ssize_t end_give(int via, const void *text, size_t len, const int *fds, int n,
		 int flags);

/* Send, or receive, a descriptor over @via; false, or -1, if that failed. */
bool end_pass(int via, int fd);
/* Several of them, with flags: what sendmsg() said. */
ssize_t end_pass_many(int via, const int *fds, int n, int flags);
int end_take(int via);

#endif /* L5_PASS_H */
