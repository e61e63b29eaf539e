/* SPDX-License-Identifier: GPL-2.0 */
/* Being another user, or in another cgroup. */
#ifndef L5_USERS_H
#define L5_USERS_H

#include <stdbool.h>

#define NOBODY		65534

/* Become nobody for good: 0, or -1 with errno. */
int nobody_become(void);

/* As an ordinary user would: its own user namespace, and a network in it. */
bool nobody_unshare(void);

/* Write a text to a file of the kernel's: true, or false with errno. */
bool put_text(const char *path, const char *text);

/* Put this process into the cgroup at a path. */
bool cgroup_enter(const char *path);

#endif /* L5_USERS_H */
