/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which sockets this process may have on AF_L5, and which of them mapped.
 *
 * Rules (see rules.h) come from the environment, L5_POLICY, separated by
 * semicolons; then from the file that L5_CONF names, or else from
 * ~/.config/l5.conf and /etc/l5.conf. They are read once, and those about other
 * programs left out. A rule on a port or an address acts where a connection
 * gets its address: connect() and listen() turn the socket off with L5_FORCE,
 * which accepted sockets inherit. A set-user-ID program has it all off.
 */
#ifndef L5_POLICY_H
#define L5_POLICY_H

#include <stdbool.h>
#include <sys/socket.h>

/**
 * policy_read() - read the rules; again does no harm
 *
 * Calls nothing that allocates or locks.
 */
void policy_read(void);

/* Is any socket to be of AF_L5? */
bool policy_redirects(void);

/* Is any to be mapped? */
bool policy_maps(void);

/**
 * policy_connect() - a socket is about to be connected
 * @fd: the socket
 * @sa: where to
 * @len: of it
 */
void policy_connect(int fd, const struct sockaddr *sa, socklen_t len);

/**
 * policy_listen() - a socket is about to listen
 * @fd: the socket
 */
void policy_listen(int fd);

/**
 * policy_may_map() - is this one to be mapped?
 * @fd: a connected socket
 */
bool policy_may_map(int fd);

#endif /* L5_POLICY_H */
