/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The context of a task, as far as a socket that it makes depends on it.
 *
 * A socket that the supervisor of l5run --static makes has the supervisor's
 * network namespace, control group and security label, and what may be charged
 * or refused by these, or by a filter of system calls, goes by the
 * supervisor's. So all of them have to be those of the task that called
 * socket(). User and groups need not: a privileged supervisor takes on those of
 * the task for the time of the call.
 */
#ifndef L5_TOOLS_TARGET_H
#define L5_TOOLS_TARGET_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

enum {
	/* more supplementary groups, or a longer name, are not looked at */
	TARGET_GROUPS = 64,
	TARGET_NAME = 4096,
	/* tasks that are remembered, with five descriptors each */
	TARGET_FILES = 64,
};

/**
 * struct target - what is looked at
 * @pid: of the process, not the thread
 * @uid: by which the task makes files, and sockets
 * @gid: the group, likewise
 * @n_groups: supplementary ones
 * @groups: which
 * @filters: of system calls, how many
 * @net: inode of its network namespace
 * @cgroup: as /proc has it
 * @label: of the security modules, as /proc has it; "" if none has one
 * @sockcreate: of its sockets, if it has said another
 * @exe: path of the program, only if asked for
 * @name: what it was called by, likewise
 */
struct target {
	pid_t pid;
	uid_t uid;
	gid_t gid;
	int n_groups;
	gid_t groups[TARGET_GROUPS];
	int filters;
	ino_t net;
	char cgroup[TARGET_NAME];
	char label[TARGET_NAME];
	char sockcreate[TARGET_NAME];
	char exe[PATH_MAX];
	char name[256];
};

/**
 * target_read() - look at a task
 * @t: where to
 * @pid: process or thread, 0: this process
 * @program: whether to look at the program, too
 *
 * Return: NULL, or in words what could not be looked at.
 */
const char *target_read(struct target *t, pid_t pid, bool program);

/**
 * target_forget() - close what is kept open of tasks that were looked at
 *
 * Until then nobody can unmount /proc.
 */
void target_forget(void);

/**
 * target_differs() - would a socket that we make be another than the task's?
 * @t: the task
 * @own: this process
 *
 * Return: NULL: target_become() is all that it takes; or in words what differs.
 */
const char *target_differs(const struct target *t, const struct target *own);

/**
 * target_become() - make files, and sockets, as a user
 * @t: the task that has the user
 *
 * Return: false if that is not allowed. Then this thread may have become it in
 * part, and is to go back.
 */
bool target_become(const struct target *t);

#endif /* L5_TOOLS_TARGET_H */
