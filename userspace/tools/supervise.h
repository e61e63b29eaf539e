/* SPDX-License-Identifier: GPL-2.0 */
/*
 * l5run --static: sockets of AF_L5 for programs that no library can be
 * preloaded into, since they are linked statically or make their own system
 * calls.
 *
 * A filter of system calls hands each socket() for a stream to a process
 * beside the program, the supervisor, which makes a socket of AF_L5 and puts it
 * into the program's table of descriptors. It does so for a task whose context
 * (see target.h) it shares; any other call goes on as if there were no filter.
 */
#ifndef L5_TOOLS_SUPERVISE_H
#define L5_TOOLS_SUPERVISE_H

#include <stdbool.h>

/**
 * struct supervise - what the supervisor is to do
 * @sockets: a set of L5PROTO_*: those that become sockets of AF_L5
 * @spin_us: L5_SPIN_US of each, or -1
 * @transport: L5_FORCE of each, or -1
 * @rdma_wait: L5_RDMA_WAIT of each, or -1
 * @verbose: say on stderr what becomes of a process's sockets
 */
struct supervise {
	unsigned int sockets;
	int spin_us;
	int transport;
	int rdma_wait;
	bool verbose;
};

/**
 * supervise_is_free() - can a filter be had that changes nothing else?
 *
 * A task without CAP_SYS_ADMIN gives up that programs which it executes become
 * another user, unless it has done so before; and a process that is given
 * orphans gets the supervisor for a child.
 */
bool supervise_is_free(void);

/**
 * supervise_start() - have this process and its children supervised
 * @what: what to do
 *
 * Called once, before the program is executed and by the only thread. The
 * supervisor is no child of this process. It ends with the last task that has
 * the filter.
 *
 * Return: NULL, or in words why nothing was done.
 */
const char *supervise_start(const struct supervise *what);

/**
 * supervise_print() - say on stderr what the supervisor has done
 *
 * Nothing if there is none.
 *
 * Return: whether it has made a socket.
 */
bool supervise_print(void);

#endif /* L5_TOOLS_SUPERVISE_H */
