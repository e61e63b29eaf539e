/* SPDX-License-Identifier: GPL-2.0 */
#ifndef L5_EPOLL_H
#define L5_EPOLL_H

#include <stdint.h>
#include <sys/epoll.h>

/* epoll_ctl() with a number to tell the socket by. */
static inline int ep_ctl(int ep, int op, int fd, uint32_t events, int id)
{
	struct epoll_event ev = { .events = events, .data.u64 = id };

	return epoll_ctl(ep, op, fd, &ev);
}

#endif /* L5_EPOLL_H */
