/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The functions of libc behind ours.
 *
 * Those that are cancellation points have to be libc's own when they may
 * sleep; all others are made bare. The pointers are good from the first
 * instruction on: until the constructor has found libc's function, they lead
 * to the system call. Several of these may be called in a signal handler or by
 * a constructor before ours, where dlsym() must not be.
 */
#ifndef L5_REAL_H
#define L5_REAL_H

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

/* result, name, arguments */
#define L5_REAL(X)							\
	X(ssize_t, read, (int fd, void *buf, size_t n))			\
	X(ssize_t, write, (int fd, const void *buf, size_t n))		\
	X(ssize_t, readv, (int fd, const struct iovec *iov, int n))	\
	X(ssize_t, writev, (int fd, const struct iovec *iov, int n))	\
	X(ssize_t, preadv64v2, (int fd, const struct iovec *iov, int n,	\
				off64_t off, int flags))		\
	X(ssize_t, pwritev64v2, (int fd, const struct iovec *iov, int n,\
				 off64_t off, int flags))		\
	X(ssize_t, send, (int fd, const void *buf, size_t n, int flags))\
	X(ssize_t, recv, (int fd, void *buf, size_t n, int flags))	\
	X(ssize_t, sendto, (int fd, const void *buf, size_t n,		\
			    int flags, const struct sockaddr *to,	\
			    socklen_t len))				\
	X(ssize_t, recvfrom, (int fd, void *buf, size_t n, int flags,	\
			      struct sockaddr *from, socklen_t *len))	\
	X(ssize_t, sendmsg, (int fd, const struct msghdr *msg,		\
			     int flags))				\
	X(ssize_t, recvmsg, (int fd, struct msghdr *msg, int flags))	\
	X(int, poll, (struct pollfd *fds, nfds_t n, int ms))		\
	X(int, ppoll, (struct pollfd *fds, nfds_t n,			\
		       const struct timespec *t, const sigset_t *set))	\
	X(int, select, (int n, fd_set *r, fd_set *w, fd_set *e,		\
			struct timeval *t))				\
	X(int, pselect, (int n, fd_set *r, fd_set *w, fd_set *e,	\
			 const struct timespec *t, const sigset_t *set))\
	X(int, epoll_wait, (int ep, struct epoll_event *ev, int max,	\
			    int ms))					\
	X(int, epoll_pwait, (int ep, struct epoll_event *ev, int max,	\
			     int ms, const sigset_t *set))		\
	X(int, epoll_pwait2, (int ep, struct epoll_event *ev, int max,	\
			      const struct timespec *t,			\
			      const sigset_t *set))			\
	X(int, accept, (int fd, struct sockaddr *sa, socklen_t *len))	\
	X(int, accept4, (int fd, struct sockaddr *sa, socklen_t *len,	\
			 int flags))					\
	X(int, connect, (int fd, const struct sockaddr *sa,		\
			 socklen_t len))				\
	X(int, close, (int fd))						\
	X(int, fcntl64, (int fd, int cmd, ...))				\
	X(void, closefrom, (int low))					\
	X(int, fclose, (FILE *f))					\
	X(FILE *, freopen, (const char *path, const char *mode,		\
			    FILE *f))					\
	X(FILE *, freopen64, (const char *path, const char *mode,	\
			      FILE *f))					\
	X(int, daemon, (int nochdir, int noclose))

struct l5_real {
#define L5_REAL_MEMBER(ret, name, args)	ret (*name) args;
	L5_REAL(L5_REAL_MEMBER)
#undef L5_REAL_MEMBER
};

extern struct l5_real real;

/**
 * real_find() - find what libc has; in a constructor
 */
void real_find(void);

#endif /* L5_REAL_H */
