// SPDX-License-Identifier: GPL-2.0
/*
 * What only the kernel can do for a mapped end.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <unistd.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "map.h"
#include "ops.h"

void (*l5_map_refused)(void);

/* Is that the module's answer, or another file's at this descriptor? */
static bool l5_map_answer(int err)
{
	return err == ENOTCONN || err == EOPNOTSUPP || err == EAGAIN ||
	       err == EBADF || err == ENOTTY;
}

/* Or may it be that there is no room to be had? */
static bool l5_map_no_room(unsigned long cmd, int err)
{
	return cmd == L5_IOC_ROOM && err != EPERM && err != EACCES &&
	       err != ENOSYS;
}

/* A filter stays, so ioctl() is not asked again once it was refused. */
static int l5_ioctl_refused;

static bool l5_map_ioctl(int fd, unsigned long cmd, unsigned long arg)
{
	if (l5_unlikely(l5_load(&l5_ioctl_refused)))
		return false;
	if (syscall(SYS_ioctl, fd, cmd, arg) >= 0 || l5_map_answer(errno) ||
	    l5_map_no_room(cmd, errno))
		return true;
	l5_store(&l5_ioctl_refused, 1);
	if (l5_map_refused)
		l5_map_refused();
	return false;
}

/*
 * A filter of system calls says EPERM, or whatever it likes, and the sleeper
 * that the call was for would sleep on. A send of no bytes rings, too, and a
 * filter that lets a socket be used allows one. It is made by write() only as
 * long as this end can send, since write() knows no MSG_NOSIGNAL. Should all be
 * refused the kernel makes up for it when this end next waits there.
 */
static void l5_map_call(struct l5_map *m, int fd, unsigned long cmd,
			unsigned long arg)
{
	int saved = errno;

	if (!l5_map_ioctl(fd, cmd, arg) &&
	    syscall(SYS_sendto, fd, "", 0,
		    L5_MSG_BELL | MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0) < 0 &&
	    !l5_map_answer(errno) &&
	    !(l5_load(&m->state->flags) & L5_MAP_TX_STOP))
		syscall(SYS_write, fd, "", 0);
	errno = saved;
}

static void l5_kernel_bell(struct l5_map *m, int fd, unsigned int bells)
{
	l5_map_call(m, fd, L5_IOC_DOORBELL, bells);
}

static void l5_kernel_lock_wake(struct l5_map *m, int fd, unsigned int which)
{
	l5_map_call(m, fd, L5_IOC_UNLOCK, which);
}

/* A filter that refuses it leaves the caller with the plain send(). */
static void l5_kernel_room(struct l5_map *m, int fd, uint32_t len)
{
	int saved = errno;

	(void)m;
	l5_map_ioctl(fd, L5_IOC_ROOM, len);
	errno = saved;
}

static void l5_kernel_broken(struct l5_map *m, int fd)
{
	int saved = errno;

	(void)m;
	syscall(SYS_shutdown, fd, SHUT_RDWR);
	errno = saved;
}

const struct l5_map_ops l5_kernel_ops = {
	.bell = l5_kernel_bell,
	.lock_wake = l5_kernel_lock_wake,
	.room = l5_kernel_room,
	.broken = l5_kernel_broken,
};

int l5_map_lock_nap(int fd, unsigned int which)
{
	return syscall(SYS_ioctl, fd, L5_IOC_LOCK, which);
}
