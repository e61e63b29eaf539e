/* SPDX-License-Identifier: GPL-2.0 */
/* What is asked of an end whose lock words are held, or are nonsense. */
#ifndef MAP_LOCK_H
#define MAP_LOCK_H

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "mapping.h"

/* Every call that looks at an end without being told to wait comes back. */
static inline bool all_come_back(int fd)
{
	int n, flags[] = { 0, MSG_PEEK, MSG_TRUNC, MSG_PEEK | MSG_TRUNC };
	struct pollfd p = { .fd = fd, .events = POLLIN | POLLOUT };
	struct l5_info info;
	socklen_t len = sizeof(info);
	unsigned int i;
	uint8_t b[16];
	int pp[2];

	for (i = 0; i < ARRAY_SIZE(flags); i++) {
		if (recv(fd, b, sizeof(b), MSG_DONTWAIT | flags[i]) > 16 &&
		    !(flags[i] & MSG_TRUNC))
			return false;
	}
	send(fd, b, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	poll(&p, 1, 0);
	ioctl(fd, FIONREAD, &n);
	ioctl(fd, SIOCOUTQ, &n);
	ioctl(fd, L5_IOC_ARM, L5_BELL_DATA | L5_BELL_ROOM);
	ioctl(fd, L5_IOC_DOORBELL, L5_BELL_DATA | L5_BELL_ROOM);
	ioctl(fd, L5_IOC_UNLOCK, L5_LOCK_TX);
	ioctl(fd, L5_IOC_UNLOCK, L5_LOCK_RX);
	if (ioctl(fd, L5_IOC_LOCK, L5_LOCK_TX) && errno != EINTR)
		return false;
	if (ioctl(fd, L5_IOC_LOCK, L5_LOCK_RX) && errno != EINTR)
		return false;
	getsockopt(fd, SOL_L5, L5_INFO, &info, &len);
	sh("cat /proc/net/l5 >/dev/null");
	if (pipe(pp))
		return false;
	/* SPLICE_F_NONBLOCK is about the pipe alone */
	fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK);
	splice(fd, NULL, pp[1], NULL, 16, SPLICE_F_NONBLOCK);
	fcntl(fd, F_SETFL, O_RDWR);
	close(pp[0]);
	close(pp[1]);
	return true;
}

#endif /* MAP_LOCK_H */
