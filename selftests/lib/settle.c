// SPDX-License-Identifier: GPL-2.0
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "settle.h"

/*
 * A CPU keeps the packets of loopback in their order: one more that is sent
 * there and has come was behind all of them. Four times, since a SYN is
 * answered, and the answer too.
 */
void l5_settle(void)
{
	struct sockaddr_in in = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t len = sizeof(in);
	cpu_set_t all, one;
	int fd, cpu, pass;
	char b = 0;

	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (void *)&in, len) ||
	    getsockname(fd, (void *)&in, &len) ||
	    connect(fd, (void *)&in, len) ||
	    sched_getaffinity(0, sizeof(all), &all))
		abort();
	for (pass = 0; pass < 4; pass++)
		for (cpu = 0; cpu < CPU_SETSIZE; cpu++) {
			if (!CPU_ISSET(cpu, &all))
				continue;
			CPU_ZERO(&one);
			CPU_SET(cpu, &one);
			if (sched_setaffinity(0, sizeof(one), &one) ||
			    send(fd, &b, 1, 0) != 1)
				abort();
			while (recv(fd, &b, 1, 0) < 0 && errno == EINTR)
				;
		}
	sched_setaffinity(0, sizeof(all), &all);
	close(fd);
}
