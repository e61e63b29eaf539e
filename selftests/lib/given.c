// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "given.h"
#include "pass.h"

/* A pipe with a number in it: the end that the number can be read from. */
int given_make(uint32_t n)
{
	int p[2];

	if (pipe(p))
		return -1;
	if (write(p[1], &n, sizeof(n)) != sizeof(n))
		n = 0;
	close(p[1]);
	return p[0];
}

/* The number, and the descriptor is closed. */
uint32_t given_read(int fd)
{
	uint32_t n = ~0u;

	if (read(fd, &n, sizeof(n)) != sizeof(n))
		n = ~0u;
	close(fd);
	return n;
}

/* A descriptor with a number as its text, and the same number in it. */
bool given_number(int via, uint32_t n, int flags)
{
	int fd = given_make(n);
	bool ok = fd >= 0 && end_give(via, &n, sizeof(n), &fd, 1, flags) ==
			     sizeof(n);
	int err = errno;

	close(fd);
	errno = err;
	return ok;
}

ssize_t creds_give_of(int via, const void *text, size_t len,
		      const struct ucred *cred, int flags)
{
	union {
		char b[CMSG_SPACE(sizeof(struct ucred))];
		struct cmsghdr align;
	} u = { 0 };
	struct iovec v = { (void *)text, len };
	struct msghdr m = {
		.msg_iov = &v, .msg_iovlen = 1,
		.msg_control = u.b, .msg_controllen = sizeof(u.b),
	};
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);

	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_CREDENTIALS;
	h->cmsg_len = CMSG_LEN(sizeof(*cred));
	memcpy(CMSG_DATA(h), cred, sizeof(*cred));
	return sendmsg(via, &m, flags | MSG_NOSIGNAL);
}

ssize_t creds_give(int via, const void *text, size_t len, int flags)
{
	struct ucred cred = { getpid(), getuid(), getgid() };

	return creds_give_of(via, text, len, &cred, flags);
}

ssize_t creds_take(int from, void *text, size_t len, pid_t *pid, int flags)
{
	union {
		char b[CMSG_SPACE(sizeof(struct ucred))];
		struct cmsghdr align;
	} u = { 0 };
	struct iovec v = { text, len };
	struct msghdr m = {
		.msg_iov = &v, .msg_iovlen = 1,
		.msg_control = u.b, .msg_controllen = sizeof(u.b),
	};
	ssize_t n = recvmsg(from, &m, flags);
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);
	struct ucred cred;

	*pid = 0;
	if (n >= 0 && h && h->cmsg_type == SCM_CREDENTIALS) {
		memcpy(&cred, CMSG_DATA(h), sizeof(cred));
		*pid = cred.pid;
	}
	return n;
}

/* Bytes and at most one descriptor, -1 if none came. */
ssize_t fds_take(int from, void *text, size_t len, int *fd, int flags)
{
	union {
		char b[CMSG_SPACE(8 * sizeof(int)) +
		       CMSG_SPACE(sizeof(struct ucred))];
		struct cmsghdr align;
	} u = { 0 };
	struct iovec v = { text, len };
	struct msghdr m = {
		.msg_iov = &v, .msg_iovlen = 1,
		.msg_control = u.b, .msg_controllen = sizeof(u.b),
	};
	ssize_t n = recvmsg(from, &m, flags);
	struct cmsghdr *h;

	*fd = -1;
	if (n < 0)
		return n;
	for (h = CMSG_FIRSTHDR(&m); h; h = CMSG_NXTHDR(&m, h))
		if (h->cmsg_type == SCM_RIGHTS && h->cmsg_len == CMSG_LEN(4))
			memcpy(fd, CMSG_DATA(h), sizeof(*fd));
	return n;
}
