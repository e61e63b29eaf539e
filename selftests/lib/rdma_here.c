// SPDX-License-Identifier: GPL-2.0
#include <stdlib.h>
#include <unistd.h>

#include "ends.h"
#include "rdma_here.h"

bool rdma_here(void)
{
	static const char make[] =
		"PATH=$PATH:/sbin:/usr/sbin; exec >/dev/null 2>&1;"
		"ip addr show dev l5v0 | grep -q " RDMA_HERE " && exit;"
		"modprobe rdma_rxe && modprobe rdma_cm &&"
		"ip link add l5v0 type veth peer name l5v1 &&"
		"ip link set l5v0 up && ip link set l5v1 up &&"
		"ip addr add " RDMA_HERE "/24 dev l5v0 &&"
		"rdma link add rxe9 type rxe netdev l5v0";

	if (geteuid() || !l5_present() || l5_sysctl("rdma_ms", 20000) < 0)
		return false;
	/* a question that was too slow is not to spoil the next */
	l5_sysctl("rdma_memo_s", 0);
	return !system(make);
}

int rdma_force(int fd)
{
	int force = L5_TRANSPORT_RDMA;

	return setsockopt(fd, SOL_L5, L5_FORCE, &force, sizeof(force));
}

int rdma_socket(void)
{
	int fd = end_socket(END_L5, AF_INET);

	return fd >= 0 && !rdma_force(fd) ? fd : -1;
}

bool rdma_moved_in(int fd, int ms)
{
	int64_t end = l5_now_ms() + ms;

	while (l5_getopt(fd, L5_TRANSPORT) != L5_TRANSPORT_RDMA) {
		if (l5_now_ms() > end)
			return false;
		usleep(1000);
	}
	return true;
}

bool rdma_moved(int fd)
{
	return rdma_moved_in(fd, RDMA_MOVE_MS);
}
