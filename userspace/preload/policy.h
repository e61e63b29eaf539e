/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The choice of sockets that this process may have on AF_L5, and mapped.
 *
 * Rules (see rules.h) come from the environment, L5_POLICY, separated by
 * semicolons; then from the file that L5_CONF names, or else from
 * ~/.config/l5.conf and /etc/l5.conf. They are read once, and those about other
 * programs left out. A rule on a port or an address is about the service's, and
 * acts where a connection gets it: connect() and listen() turn the socket off
 * with L5_FORCE, which accepted sockets inherit; a socket that is on rings by
 * then, since its listener was not at any one address, can only be left
 * unmapped. If the rules cannot all be kept, the rest is off. For a set-user-ID
 * program all is off.
 */
#ifndef L5_POLICY_H
#define L5_POLICY_H

#include <stdbool.h>
#include <sys/socket.h>

#include "stats_file.h"

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

/* The reason why not, for people. */
const char *policy_why(void);

/* The reason why not, for the statistics. */
enum l5_stats_how policy_how(void);

/* What applies where no rule on a port or an address does, and why. */
const char *policy_mode(void);

/* Are there rules by place, so that the next three may ask the kernel? */
bool policy_places(void);

/**
 * policy_connect() - a socket is about to be connected
 * @fd: the socket
 * @sa: where to
 * @len: of it
 *
 * Return: whether it was turned off, which was said
 */
bool policy_connect(int fd, const struct sockaddr *sa, socklen_t len);

/**
 * policy_listen() - a socket is about to listen
 * @fd: the socket
 */
void policy_listen(int fd);

/**
 * enum l5_side - which end of a connection a socket is
 * @L5_SIDE_UNKNOWN: it came from elsewhere; a rule about either end counts
 * @L5_SIDE_CONNECTED: its peer is the service that rules are about
 * @L5_SIDE_ACCEPTED: it is the service's itself
 */
enum l5_side { L5_SIDE_UNKNOWN, L5_SIDE_CONNECTED, L5_SIDE_ACCEPTED };

/**
 * policy_may_map() - is this one to be mapped?
 * @fd: a connected socket
 * @side: which end it is
 */
bool policy_may_map(int fd, enum l5_side side);

/**
 * policy_no_maps() - nothing is to be mapped, whatever the rules say
 * @reason: why, for policy_why(); stays there
 */
void policy_no_maps(const char *reason);

#endif /* L5_POLICY_H */
