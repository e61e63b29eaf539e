// SPDX-License-Identifier: GPL-2.0
/*
 * syscall(), for us and for programs: see raw.h.
 *
 * A program's syscall() goes through here since it often puts in a filter of
 * system calls (libseccomp does), and closes descriptors. A call that is not
 * looked at is made as libc makes it, and no frame of ours is in the way of a
 * call that comes back twice.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/prctl.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "epoll.h"
#include "fdtab.h"
#include "io.h"
#include "raw.h"
#include "real.h"
#include "sandbox.h"

#if L5_RAW

#undef syscall
/* libc's declaration got the other name */
long syscall(long nr, ...);

int close_range(unsigned int first, unsigned int last, int flags);

/* More than there may be is read: it means nothing, and libc does the same. */
#define ARGS(nr, a)							\
	long a[6];							\
	va_list ap_;							\
	int i_;								\
									\
	va_start(ap_, nr);						\
	for (i_ = 0; i_ < 6; i_++)					\
		a[i_] = va_arg(ap_, long);				\
	va_end(ap_)

static inline long answer(long ret)
{
	if (l5_likely((unsigned long)ret < -4095ul))
		return ret;
	errno = -ret;
	return -1;
}

long l5_syscall(long nr, ...)
{
	ARGS(nr, a);

	return answer(l5_raw(nr, a[0], a[1], a[2], a[3], a[4], a[5]));
}

EXPORT long syscall(long nr, ...)
{
	struct ep *ep;

	ARGS(nr, a);

	switch (nr) {
	case SYS_prctl:
		sandbox_prctl(a[0], a[1], a[2]);
		break;
	case SYS_seccomp:
		sandbox_seccomp(a[0], (void *)a[2]);
		break;
	case SYS_close:
		fd_forget(a[0]);
		break;
	case SYS_dup:
		return dup(a[0]);
#ifdef SYS_dup2
	case SYS_dup2:
		return dup2(a[0], a[1]);
#endif
	case SYS_dup3:
		return dup3(a[0], a[1], a[2]);
	case SYS_close_range:
		return close_range(a[0], a[1], a[2]);
	case SYS_fcntl:
		if (a[1] == F_SETFL || a[1] == F_DUPFD ||
		    a[1] == F_DUPFD_CLOEXEC)
			return fcntl(a[0], a[1], a[2]);
		break;
	case SYS_ioctl:
		if (a[1] == FIONBIO || a[1] == FIOASYNC)
			return ioctl(a[0], a[1], a[2]);
		break;
	case SYS_setsockopt:
		if (a[1] == SOL_SOCKET)
			return setsockopt(a[0], a[1], a[2], (void *)a[3], a[4]);
		break;
	case SYS_epoll_ctl:
		return epoll_ctl(a[0], a[1], a[2], (void *)a[3]);
#ifdef SYS_epoll_wait
	case SYS_epoll_wait:
#endif
	case SYS_epoll_pwait:
	case SYS_epoll_pwait2:
		ep = fd_ep(a[0]);
		if (ep)
			ep_unseen(ep);
		break;
	case SYS_sendmsg:
		send_passes((const struct msghdr *)a[1]);
		break;
#ifdef SYS_fork
	case SYS_fork:
	case SYS_vfork:
#endif
	case SYS_clone:
	case SYS_clone3:
		fd_children();
		break;
	}
	return answer(l5_raw(nr, a[0], a[1], a[2], a[3], a[4], a[5]));
}

#endif /* L5_RAW */

static int raw_prctl(int op, unsigned long a, unsigned long b, unsigned long c,
		     unsigned long d)
{
#if L5_RAW
	return l5_syscall(SYS_prctl, op, a, b, c, d);
#else
	return syscall(SYS_prctl, op, a, b, c, d);
#endif
}

EXPORT int prctl(int op, ...)
{
	unsigned long a[4];
	va_list ap;
	int i;

	va_start(ap, op);
	for (i = 0; i < 4; i++)
		a[i] = va_arg(ap, unsigned long);
	va_end(ap);
	sandbox_prctl(op, a[0], a[1]);
	return raw_prctl(op, a[0], a[1], a[2], a[3]);
}
