/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The functions of libc behind ours.
 *
 * Calls that are cancellation points have to be libc's own when they may sleep;
 * all other calls are made bare. The pointers are good from the first
 * instruction on: until the constructor has found libc's function, they lead
 * to the system call. Several of these may be called in a signal handler or by
 * a constructor before ours, where dlsym() must not be.
 */
#ifndef L5_REAL_H
#define L5_REAL_H

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

/**
 * struct l5_real - libc's functions of these names
 */
struct l5_real {
	ssize_t (*read)(int fd, void *buf, size_t n);
	ssize_t (*write)(int fd, const void *buf, size_t n);
	ssize_t (*readv)(int fd, const struct iovec *iov, int n);
	ssize_t (*writev)(int fd, const struct iovec *iov, int n);
	ssize_t (*preadv64v2)(int fd, const struct iovec *iov, int n,
			      off64_t off, int flags);
	ssize_t (*pwritev64v2)(int fd, const struct iovec *iov, int n,
			       off64_t off, int flags);
	ssize_t (*send)(int fd, const void *buf, size_t n, int flags);
	ssize_t (*recv)(int fd, void *buf, size_t n, int flags);
	ssize_t (*sendto)(int fd, const void *buf, size_t n, int flags,
			  const struct sockaddr *to, socklen_t len);
	ssize_t (*recvfrom)(int fd, void *buf, size_t n, int flags,
			    struct sockaddr *from, socklen_t *len);
	ssize_t (*sendmsg)(int fd, const struct msghdr *msg, int flags);
	ssize_t (*recvmsg)(int fd, struct msghdr *msg, int flags);
	int (*sendmmsg)(int fd, struct mmsghdr *msgs, unsigned int n,
			int flags);
	int (*recvmmsg)(int fd, struct mmsghdr *msgs, unsigned int n,
			int flags, struct timespec *t);
	int (*poll)(struct pollfd *fds, nfds_t n, int ms);
	int (*ppoll)(struct pollfd *fds, nfds_t n, const struct timespec *t,
		     const sigset_t *set);
	int (*select)(int n, fd_set *r, fd_set *w, fd_set *e,
		      struct timeval *t);
	int (*pselect)(int n, fd_set *r, fd_set *w, fd_set *e,
		       const struct timespec *t, const sigset_t *set);
	int (*epoll_wait)(int ep, struct epoll_event *ev, int max, int ms);
	int (*epoll_pwait)(int ep, struct epoll_event *ev, int max, int ms,
			   const sigset_t *set);
	int (*epoll_pwait2)(int ep, struct epoll_event *ev, int max,
			    const struct timespec *t, const sigset_t *set);
	int (*accept)(int fd, struct sockaddr *sa, socklen_t *len);
	int (*accept4)(int fd, struct sockaddr *sa, socklen_t *len, int flags);
	int (*connect)(int fd, const struct sockaddr *sa, socklen_t len);
	int (*close)(int fd);
	int (*fcntl64)(int fd, int cmd, ...);
	void (*closefrom)(int low);
	int (*fclose)(FILE *f);
	FILE *(*freopen)(const char *path, const char *mode, FILE *f);
	FILE *(*freopen64)(const char *path, const char *mode, FILE *f);
	int (*daemon)(int nochdir, int noclose);
	int (*clone)(int (*fn)(void *arg), void *stack, int flags, void *arg,
		     ...);
	int (*sigaction)(int sig, const struct sigaction *act,
			 struct sigaction *old);
	int (*posix_spawn)(pid_t *pid, const char *path,
			   const posix_spawn_file_actions_t *acts,
			   const posix_spawnattr_t *attr, char *const argv[],
			   char *const env[]);
	int (*posix_spawnp)(pid_t *pid, const char *file,
			    const posix_spawn_file_actions_t *acts,
			    const posix_spawnattr_t *attr, char *const argv[],
			    char *const env[]);
	FILE *(*popen)(const char *command, const char *type);
	int (*system)(const char *command);
	pid_t (*_Fork)(void);
};

/* All of them. */
#define L5_REAL(X)							\
	X(read) X(write) X(readv) X(writev) X(preadv64v2)		\
	X(pwritev64v2) X(send) X(recv) X(sendto) X(recvfrom)		\
	X(sendmsg) X(recvmsg) X(sendmmsg) X(recvmmsg) X(poll) X(ppoll)	\
	X(select) X(pselect) X(epoll_wait) X(epoll_pwait)		\
	X(epoll_pwait2) X(accept) X(accept4) X(connect) X(close)	\
	X(fcntl64) X(closefrom) X(fclose) X(freopen) X(freopen64)	\
	X(daemon) X(sigaction) X(clone) X(posix_spawn) X(posix_spawnp)	\
	X(popen) X(system) X(_Fork)

extern struct l5_real real;

/**
 * real_find() - find what libc has; in a constructor
 */
void real_find(void);

/**
 * real_watched() - does a sanitizer stand between us and libc?
 *
 * It sees only what its functions are called for: it would miss what is written
 * past the end of a buffer, and report races where a message came between. In a
 * constructor.
 */
bool real_watched(void);

#endif /* L5_REAL_H */
