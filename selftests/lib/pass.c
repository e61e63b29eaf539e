// SPDX-License-Identifier: GPL-2.0
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "pass.h"

/* A message of one byte, with room for a descriptor behind it. */
struct with_fd {
	struct msghdr m;
	struct iovec v;
	char byte;
	union {
		char text[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	};
};

static struct msghdr *with_fd(struct with_fd *w)
{
	memset(w, 0, sizeof(*w));
	w->v = (struct iovec){ &w->byte, 1 };
	w->m = (struct msghdr){
		.msg_iov = &w->v, .msg_iovlen = 1,
		.msg_control = w->text, .msg_controllen = sizeof(w->text),
	};
	return &w->m;
}

ssize_t end_give(int via, const void *text, size_t len, const int *fds, int n,
		 int flags)
{
	union {
		char b[CMSG_SPACE(END_GIVE_MOST * sizeof(int))];
		struct cmsghdr align;
	} u = { 0 };
	struct iovec v = { (void *)text, len };
	struct msghdr m = {
		.msg_iov = &v, .msg_iovlen = 1, .msg_control = u.b,
		.msg_controllen = CMSG_SPACE(n * sizeof(int)),
	};
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);

	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(n * sizeof(int));
	memcpy(CMSG_DATA(h), fds, n * sizeof(int));
	return sendmsg(via, &m, flags | MSG_NOSIGNAL);
}

ssize_t end_pass_many(int via, const int *fds, int n, int flags)
{
	return end_give(via, "x", 1, fds, n, flags);
}

bool end_pass(int via, int fd)
{
	return end_pass_many(via, &fd, 1, 0) == 1;
}

int end_take(int via)
{
	struct with_fd w;
	int fd = -1;

	if (recvmsg(via, with_fd(&w), 0) == 1 && CMSG_FIRSTHDR(&w.m))
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&w.m)), sizeof(int));
	return fd;
}
