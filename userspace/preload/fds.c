// SPDX-License-Identifier: GPL-2.0
/*
 * Descriptors that are made, copied, changed and closed.
 *
 * The table forgets a number before the kernel closes or replaces it, see
 * fdtab.h. Calls are not wrapped whose descriptors are learnt by use: open(),
 * pipe() and all the others that never make a socket of ours, and
 * pidfd_getfd(); nor is what is inherited noted. dup() inside of libc, in
 * posix_spawn() and popen(), is done in a child that soon is another program.
 *
 * O_NONBLOCK is followed here, so that EAGAIN can be answered without asking.
 * Options that only the kernel can keep, SO_RCVLOWAT and O_ASYNC, leave the
 * socket to the kernel from then on.
 *
 * A thread that gets a table of descriptors of its own, by unshare(), clone()
 * or close_range(), ends all mapping in the process: one number would be two
 * things. If the program does so by a system call of its own, that is not seen.
 * Then such a thread must not use numbers that are a mapped socket's in another
 * thread's table.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fdtab.h"
#include "learn.h"
#include "policy.h"
#include "real.h"

/* linux/close_range.h, which older systems lack */
#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC	4
#endif
#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE	2
#endif

int __close(int fd);
int __dup2(int from, int to);
int __fcntl(int fd, int cmd, ...);

EXPORT int close(int fd)
{
	fd_forget(fd);
	return real.close(fd);
}

EXPORT int __close(int fd) __attribute__((alias("close")));

/* What glibc knows: there is no other thread. */
extern char __libc_single_threaded;
#pragma weak __libc_single_threaded

static bool alone(void)
{
	const char *known = &__libc_single_threaded;

	return known && *known;
}

/* This thread is about to get a table of its own. False: it is the only one. */
static bool leaves_table(void)
{
	if (alone())
		return false;
	fd_give_up();
	return true;
}

EXPORT int close_range(unsigned int first, unsigned int last, int flags)
{
	bool leaves = flags & CLOSE_RANGE_UNSHARE, told = true;
	int ret;

	if (leaves)
		told = leaves_table();
	if (!(flags & CLOSE_RANGE_CLOEXEC))
		fd_forget_range(first, last);
	ret = syscall(SYS_close_range, first, last, flags);
	if (!told)
		fd_doubt();
	return ret;
}

EXPORT int unshare(int flags)
{
	bool told = true;
	int ret;

	if (flags & CLONE_FILES)
		told = leaves_table();
	ret = syscall(SYS_unshare, flags);
	if (!told)
		fd_doubt();
	return ret;
}

/* A child of vfork() is waited for; all others go on beside us. */
EXPORT int clone(int (*fn)(void *arg), void *stack, int flags, void *arg, ...)
{
	void *ptid, *tls, *ctid;
	va_list ap;

	/* whether or not the caller has passed them */
	va_start(ap, arg);
	ptid = va_arg(ap, void *);
	tls = va_arg(ap, void *);
	ctid = va_arg(ap, void *);
	va_end(ap);
	if (!(flags & CLONE_THREAD))
		fd_children();
	if (flags & CLONE_VM && !(flags & (CLONE_FILES | CLONE_VFORK)))
		fd_give_up();
	return real.clone(fn, stack, flags, arg, ptid, tls, ctid);
}

EXPORT int __clone(int (*fn)(void *arg), void *stack, int flags, void *arg, ...)
	__attribute__((nothrow, leaf, alias("clone")));

EXPORT void closefrom(int low)
{
	fd_forget_range(low > 0 ? low : 0, ~0U);
	real.closefrom(low);
}

EXPORT int dup(int from)
{
	struct fd_seen seen = fd_see(from);
	int to = syscall(SYS_dup, from);

	if (to >= 0)
		fd_copy(from, to, seen);
	return to;
}

EXPORT int dup3(int from, int to, int flags)
{
	struct fd_seen seen = fd_see(from);
	int ret;

	if (from != to)
		fd_new(to);
	ret = syscall(SYS_dup3, from, to, flags);
	if (ret >= 0)
		fd_copy(from, to, seen);
	return ret;
}

EXPORT int dup2(int from, int to)
{
#ifdef SYS_dup2
	struct fd_seen seen = fd_see(from);
	int ret;

	/* of equal numbers it only says whether there is such a descriptor */
	if (from != to)
		fd_new(to);
	/* a filter of system calls may know this one alone */
	ret = syscall(SYS_dup2, from, to);
	if (ret >= 0 && from != to)
		fd_copy(from, to, seen);
	return ret;
#else
	if (from == to)
		return syscall(SYS_fcntl, from, F_GETFD) < 0 ? -1 : to;
	return dup3(from, to, 0);
#endif
}

EXPORT int __dup2(int from, int to)
{
	return dup2(from, to);
}

/*
 * O_ASYNC is set: the kernel does not tell the module. A look at the socket
 * tells it, and from then on a peer that sends by a mapped ring rings its bell.
 */
static void async_on(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	const struct timespec now = { 0 };
	int saved = errno;

	if (fd_word(fd) == FD_OTHER)
		return;
	fd_flag(fd, SOCK_PLAIN, true);
	if (fd_own_begin()) {
		syscall(SYS_ppoll, &p, 1, &now, NULL, 0);
		fd_own_end();
	}
	errno = saved;
}

/*
 * O_NONBLOCK was set or cleared. Another thread may have done the opposite
 * after that, and noted it before: the kernel has the last word.
 */
static void nonblocking(int fd, bool on)
{
	fd_flag(fd, SOCK_NONBLOCKING, on);
	if (!alone())
		learn_status(fd);
}

EXPORT int fcntl64(int fd, int cmd, ...)
{
	struct fd_seen seen = fd_see(fd);
	va_list ap;
	long arg;
	int ret;

	/* whatever it is, it is at most as wide */
	va_start(ap, cmd);
	arg = va_arg(ap, long);
	va_end(ap);
	ret = real.fcntl64(fd, cmd, arg);
	if (ret < 0)
		return ret;
	switch (cmd) {
	case F_DUPFD:
	case F_DUPFD_CLOEXEC:
		fd_copy(fd, ret, seen);
		break;
	case F_SETFL:
		nonblocking(fd, arg & O_NONBLOCK);
		if (arg & O_ASYNC)
			async_on(fd);
		break;
	}
	return ret;
}

EXPORT int fcntl(int fd, int cmd, ...) __attribute__((alias("fcntl64")));
EXPORT int __fcntl(int fd, int cmd, ...) __attribute__((alias("fcntl64")));

/* FIONREAD and the like are left to the kernel, which knows the ring too. */
EXPORT int ioctl(int fd, unsigned long cmd, ...)
{
	va_list ap;
	void *arg;
	int ret;

	va_start(ap, cmd);
	arg = va_arg(ap, void *);
	va_end(ap);
	ret = syscall(SYS_ioctl, fd, cmd, arg);
	if (ret < 0)
		return ret;
	if (cmd == FIONBIO)
		nonblocking(fd, *(int *)arg);
	else if (cmd == FIOASYNC && *(int *)arg)
		async_on(fd);
	return ret;
}

EXPORT int accept4(int fd, struct sockaddr *sa, socklen_t *len, int flags)
{
	int ret = real.accept4(fd, sa, len, flags);

	if (ret >= 0)
		fd_accepted(ret);
	return ret;
}

EXPORT int accept(int fd, struct sockaddr *sa, socklen_t *len)
{
	int ret = real.accept(fd, sa, len);

	if (ret >= 0)
		fd_accepted(ret);
	return ret;
}

EXPORT int connect(int fd, const struct sockaddr *sa, socklen_t len)
{
	/* AF_UNSPEC ends a connection, and its rings are not the next one's */
	if (fd_is_sock(fd_word(fd)))
		fd_forget(fd);
	if (l5_unlikely(policy_places()) && fd_own_begin()) {
		if (policy_connect(fd, sa, len))
			fd_leave(fd);
		fd_own_end();
	}
	return real.connect(fd, sa, len);
}

EXPORT int listen(int fd, int backlog)
{
	if (l5_unlikely(policy_places()) && fd_own_begin()) {
		policy_listen(fd);
		fd_own_end();
	}
	return syscall(SYS_listen, fd, backlog);
}

/*
 * These close or replace descriptors by libc's own calls, which we do not see.
 */

EXPORT int fclose(FILE *f)
{
	int saved = errno, fd = fileno(f);

	errno = saved;
	if (fd >= 0)
		fd_forget(fd);
	return real.fclose(f);
}

EXPORT FILE *freopen(const char *path, const char *mode, FILE *f)
{
	int saved = errno, fd = fileno(f);

	errno = saved;
	if (fd >= 0)
		fd_new(fd);
	return real.freopen(path, mode, f);
}

EXPORT FILE *freopen64(const char *path, const char *mode, FILE *f)
{
	int saved = errno, fd = fileno(f);

	errno = saved;
	if (fd >= 0)
		fd_new(fd);
	return real.freopen64(path, mode, f);
}

EXPORT int daemon(int nochdir, int noclose)
{
	int fd;

	for (fd = 0; !noclose && fd <= STDERR_FILENO; fd++)
		fd_new(fd);
	return real.daemon(nochdir, noclose);
}
