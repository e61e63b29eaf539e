/* SPDX-License-Identifier: GPL-2.0 */
/* Descriptors that can be told from each other, sent and received. */
#ifndef GIVEN_H
#define GIVEN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct ucred;

/* A pipe with a number in it, and the number of one, which is closed. */
int given_make(uint32_t n);
uint32_t given_read(int fd);

/* A descriptor with a number as its text, and the same number in it. */
bool given_number(int via, uint32_t n, int flags);

/* Bytes with the credentials that their sender states. */
ssize_t creds_give(int via, const void *text, size_t len, int flags);
ssize_t creds_give_of(int via, const void *text, size_t len,
		      const struct ucred *cred, int flags);

/* The process that is said to have sent bytes, which come too; 0: nobody. */
ssize_t creds_take(int from, void *text, size_t len, pid_t *pid, int flags);

/* Bytes and at most one descriptor, -1 if none came. */
ssize_t fds_take(int from, void *text, size_t len, int *fd, int flags);

#endif /* GIVEN_H */
