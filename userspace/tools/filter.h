/* SPDX-License-Identifier: GPL-2.0 */
/* The filter of system calls of l5run --static: see supervise.h. */
#ifndef L5_TOOLS_FILTER_H
#define L5_TOOLS_FILTER_H

/**
 * filter_l5proto() - is this call one of those?
 * @sockets: a set of L5PROTO_*
 * @family: as given to socket()
 * @type: likewise
 * @protocol: likewise
 *
 * Return: L5PROTO_* of the set, or -1.
 */
int filter_l5proto(unsigned int sockets, int family, int type, int protocol);

/**
 * filter_install() - have this process's calls of socket() handed over
 * @sockets: a set of L5PROTO_*
 *
 * Return: the listener, or -errno: EBUSY if there is one already.
 */
int filter_install(unsigned int sockets);

#endif /* L5_TOOLS_FILTER_H */
