// SPDX-License-Identifier: GPL-2.0
/* The functions of libc behind ours: see real.h. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "real.h"

#define SIGSET_SIZE	(_NSIG / 8)

/* Arguments that are the system call's. */
#define SYSCALL(ret, name, nr, args, ...)				\
	static ret raw_##name args					\
	{								\
		return syscall(nr, __VA_ARGS__);			\
	}

SYSCALL(ssize_t, read, SYS_read, (int fd, void *buf, size_t n), fd, buf, n)
SYSCALL(ssize_t, write, SYS_write, (int fd, const void *buf, size_t n), fd,
	buf, n)
SYSCALL(ssize_t, readv, SYS_readv, (int fd, const struct iovec *iov, int n),
	fd, iov, n)
SYSCALL(ssize_t, writev, SYS_writev, (int fd, const struct iovec *iov, int n),
	fd, iov, n)
SYSCALL(ssize_t, preadv64v2, SYS_preadv2,
	(int fd, const struct iovec *iov, int n, off64_t off, int flags),
	fd, iov, n, off, 0, flags)
SYSCALL(ssize_t, pwritev64v2, SYS_pwritev2,
	(int fd, const struct iovec *iov, int n, off64_t off, int flags),
	fd, iov, n, off, 0, flags)
SYSCALL(ssize_t, send, SYS_sendto,
	(int fd, const void *buf, size_t n, int flags),
	fd, buf, n, flags, NULL, 0)
SYSCALL(ssize_t, recv, SYS_recvfrom,
	(int fd, void *buf, size_t n, int flags), fd, buf, n, flags, NULL, NULL)
SYSCALL(ssize_t, sendto, SYS_sendto,
	(int fd, const void *buf, size_t n, int flags,
	 const struct sockaddr *to,
	socklen_t len), fd, buf, n, flags, to, len)
SYSCALL(ssize_t, recvfrom, SYS_recvfrom,
	(int fd, void *buf, size_t n, int flags, struct sockaddr *from,
	socklen_t *len), fd, buf, n, flags, from, len)
SYSCALL(ssize_t, sendmsg, SYS_sendmsg,
	(int fd, const struct msghdr *msg, int flags), fd, msg, flags)
SYSCALL(ssize_t, recvmsg, SYS_recvmsg,
	(int fd, struct msghdr *msg, int flags), fd, msg, flags)
SYSCALL(int, sendmmsg, SYS_sendmmsg,
	(int fd, struct mmsghdr *msgs, unsigned int n, int flags),
	fd, msgs, n, flags)
SYSCALL(int, recvmmsg, SYS_recvmmsg,
	(int fd, struct mmsghdr *msgs, unsigned int n, int flags,
	 struct timespec *t), fd, msgs, n, flags, t)
SYSCALL(int, accept, SYS_accept4,
	(int fd, struct sockaddr *sa, socklen_t *len), fd, sa, len, 0)
SYSCALL(int, accept4, SYS_accept4,
	(int fd, struct sockaddr *sa, socklen_t *len, int flags),
	fd, sa, len, flags)
SYSCALL(int, connect, SYS_connect,
	(int fd, const struct sockaddr *sa, socklen_t len), fd, sa, len)
SYSCALL(int, close, SYS_close, (int fd), fd)
SYSCALL(int, epoll_pwait, SYS_epoll_pwait,
	(int ep, struct epoll_event *ev, int max, int ms, const sigset_t *set),
	ep, ev, max, ms, set, SIGSET_SIZE)
SYSCALL(int, epoll_wait, SYS_epoll_pwait,
	(int ep, struct epoll_event *ev, int max, int ms),
	ep, ev, max, ms, NULL, SIGSET_SIZE)
SYSCALL(int, epoll_pwait2, SYS_epoll_pwait2,
	(int ep, struct epoll_event *ev, int max, const struct timespec *t,
	const sigset_t *set), ep, ev, max, t, set, SIGSET_SIZE)

static int raw_fcntl64(int fd, int cmd, ...)
{
	va_list ap;
	long arg;

	va_start(ap, cmd);
	arg = va_arg(ap, long);
	va_end(ap);
	return syscall(SYS_fcntl, fd, cmd, arg);
}

/* The kernel writes the time that is left; libc's callers do not expect it. */
static int raw_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *t,
		     const sigset_t *set)
{
	struct timespec left;

	if (t)
		left = *t;
	return syscall(SYS_ppoll, fds, n, t ? &left : NULL, set, SIGSET_SIZE);
}

static int raw_poll(struct pollfd *fds, nfds_t n, int ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000L };

	return raw_ppoll(fds, n, ms < 0 ? NULL : &t, NULL);
}

static int raw_pselect(int n, fd_set *r, fd_set *w, fd_set *e,
		       const struct timespec *t, const sigset_t *set)
{
	struct {
		const sigset_t *set;
		size_t size;
	} mask = { set, SIGSET_SIZE };
	struct timespec left;

	if (t)
		left = *t;
	return syscall(SYS_pselect6, n, r, w, e, t ? &left : NULL, &mask);
}

static int raw_select(int n, fd_set *r, fd_set *w, fd_set *e,
		      struct timeval *t)
{
	struct timespec ts;

	if (t)
		ts = (struct timespec){ t->tv_sec, t->tv_usec * 1000 };
	return raw_pselect(n, r, w, e, t ? &ts : NULL, NULL);
}

static void raw_closefrom(int low)
{
	syscall(SYS_close_range, low, ~0U, 0);
}

/* No system calls, and in no signal handler: they may be looked for late. */
static int raw_fclose(FILE *f)
{
	real.fclose = dlsym(RTLD_NEXT, "fclose");
	return real.fclose(f);
}

static FILE *raw_freopen(const char *path, const char *mode, FILE *f)
{
	real.freopen = dlsym(RTLD_NEXT, "freopen");
	return real.freopen(path, mode, f);
}

static FILE *raw_freopen64(const char *path, const char *mode, FILE *f)
{
	real.freopen64 = dlsym(RTLD_NEXT, "freopen64");
	return real.freopen64(path, mode, f);
}

static int raw_daemon(int nochdir, int noclose)
{
	real.daemon = dlsym(RTLD_NEXT, "daemon");
	return real.daemon(nochdir, noclose);
}

/*
 * sigaction as the kernel has it, and the code that a handler returns to, which
 * is libc's own.
 */
static int raw_sigaction(int sig, const struct sigaction *act,
			 struct sigaction *old)
{
	real.sigaction = dlsym(RTLD_NEXT, "sigaction");
	return real.sigaction(sig, act, old);
}

static int raw_clone(int (*fn)(void *arg), void *stack, int flags, void *arg,
		     ...)
{
	void *ptid, *tls, *ctid;
	va_list ap;

	va_start(ap, arg);
	ptid = va_arg(ap, void *);
	tls = va_arg(ap, void *);
	ctid = va_arg(ap, void *);
	va_end(ap);
	real.clone = dlsym(RTLD_NEXT, "clone");
	return real.clone(fn, stack, flags, arg, ptid, tls, ctid);
}

static int raw_posix_spawn(pid_t *pid, const char *path,
			   const posix_spawn_file_actions_t *acts,
			   const posix_spawnattr_t *attr, char *const argv[],
			   char *const env[])
{
	real.posix_spawn = dlsym(RTLD_NEXT, "posix_spawn");
	return real.posix_spawn(pid, path, acts, attr, argv, env);
}

static int raw_posix_spawnp(pid_t *pid, const char *file,
			    const posix_spawn_file_actions_t *acts,
			    const posix_spawnattr_t *attr, char *const argv[],
			    char *const env[])
{
	real.posix_spawnp = dlsym(RTLD_NEXT, "posix_spawnp");
	return real.posix_spawnp(pid, file, acts, attr, argv, env);
}

static FILE *raw_popen(const char *command, const char *type)
{
	real.popen = dlsym(RTLD_NEXT, "popen");
	return real.popen(command, type);
}

static int raw_system(const char *command)
{
	real.system = dlsym(RTLD_NEXT, "system");
	return real.system(command);
}

static pid_t raw__Fork(void)
{
	real._Fork = dlsym(RTLD_NEXT, "_Fork");
	return real._Fork();
}

struct l5_real real = {
#define L5_REAL_RAW(name)	.name = raw_##name,
	L5_REAL(L5_REAL_RAW)
};

void real_find(void)
{
	static const struct {
		const char *name;
		void **where;
	} all[] = {
#define L5_REAL_PLACE(name)	{ #name, (void **)&real.name },
		L5_REAL(L5_REAL_PLACE)
		{ NULL, NULL }
	};
	unsigned int i;
	void *p;

	for (i = 0; all[i].name; i++) {
		p = dlsym(RTLD_NEXT, all[i].name);
		if (p)
			*all[i].where = p;
	}
}

/* A function that is in the program itself comes before ours, and calls it. */
bool real_watched(void)
{
	static const char *const names[] = {
		"__asan_init", "__tsan_init", "__msan_init", "__hwasan_init",
	};
	unsigned int i;

	for (i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (dlsym(RTLD_NEXT, names[i]))
			return true;
	return false;
}
