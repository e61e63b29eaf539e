/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The number that AF_L5 has on this machine.
 */
#ifndef L5_FAMILY_H
#define L5_FAMILY_H

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../uapi/l5.h"

/**
 * l5_family_loaded() - the number that the loaded module has
 *
 * Bare system calls and no stdio, since the preload library asks this inside of
 * the program's socket(). That is no cancellation point, may run in a signal
 * handler or a vfork() child, and must not allocate. Keeps errno.
 *
 * Return: the number, or -1 if the module is not loaded or sysfs not visible.
 */
static inline int l5_family_loaded(void)
{
	int saved = errno, family = 0;
	char buf[16];
	long fd, n, i;

	fd = syscall(SYS_openat, AT_FDCWD, L5_FAMILY_PATH,
		     O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		errno = saved;
		return -1;
	}
	n = syscall(SYS_read, fd, buf, sizeof(buf));
	syscall(SYS_close, fd);
	errno = saved;
	for (i = 0; i < n && buf[i] >= '0' && buf[i] <= '9'; i++) {
		family = family * 10 + (buf[i] - '0');
		if (family > 0xffff)	/* sa_family_t */
			return -1;
	}
	return family > 0 ? family : -1;
}

/**
 * l5_family() - the number to give to socket()
 *
 * Return: the loaded module's number, else the default, which no family has
 * yet.
 */
static inline int l5_family(void)
{
	int family = l5_family_loaded();

	return family > 0 ? family : L5_FAMILY_DEFAULT;
}

/**
 * l5_family_labels() - does a new socket need a question before its use?
 *
 * SELinux gives a socket its class too early for the kernel module, which sets
 * it right when it is first asked for an option of SOL_L5. Keeps errno.
 *
 * Return: 1 if there is SELinux here.
 */
static inline int l5_family_labels(void)
{
	int saved = errno, ret;

	ret = !syscall(SYS_faccessat, AT_FDCWD, "/sys/fs/selinux/status", F_OK);
	errno = saved;
	return ret;
}

#endif /* L5_FAMILY_H */
