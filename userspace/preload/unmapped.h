/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Telling which sockets are mapped, and why others are not.
 */
#ifndef L5_UNMAPPED_H
#define L5_UNMAPPED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "../../uapi/l5.h"
#include "stats.h"

struct sock;

/* Map a socket once it was read or written so often; negative: never any. */
extern atomic_int fd_map_after;

/* An option that is an int: 0, or -1 with errno */
int fd_option(int fd, int level, int name, int *value);

static inline bool fd_by_rings(int transport)
{
	return transport == L5_TRANSPORT_SHM || transport == L5_TRANSPORT_RDMA;
}

/* Option L5_REASON, or -1 */
int unmapped_reason(int fd);

/* The reason why nothing is mapped from now on */
void unmapped_never(enum l5_stats_how how);

/**
 * unmapped_told() - a socket will not be mapped
 * @fd: the descriptor
 * @word: what is known of it
 * @how: the reason
 * @arg: what the reason is about
 */
void unmapped_told(int fd, uintptr_t word, enum l5_stats_how how, int arg);

/* It is mapped; called before any thread finds it. */
void mapped_told(int fd, struct sock *s, uintptr_t word, int transport);

/**
 * unmapped_say_never() - nothing is ever mapped here
 * @fd: of a socket that could have been
 * @word: what is known of it
 *
 * Return: false if it is not connected, so that it is too early to tell.
 */
bool unmapped_say_never(int fd, uintptr_t word);

/* It was closed before it was mapped, or known not to be. */
void unmapped_closed(int fd, uintptr_t word);

#endif /* L5_UNMAPPED_H */
