/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Learning about sockets by their use.
 */
#ifndef L5_LEARN_H
#define L5_LEARN_H

#include <stdint.h>

struct sock;

/* As fd_start() */
void learn_start(int after, int maps);

/* The rest of the start, which takes calls that a filter may refuse */
void learn_live(void);

/**
 * learn_use() - a descriptor that nothing is known of was read or written
 * @fd: the descriptor
 * @word: what its word was
 *
 * Return: not NULL if it is mapped now.
 */
struct sock *learn_use(int fd, uintptr_t word);

/**
 * learn_status() - O_NONBLOCK was changed, maybe by more threads than this one
 * @fd: the descriptor; for a mapped socket what is noted becomes what is so
 *
 * Leaves errno alone.
 */
void learn_status(int fd);

#endif /* L5_LEARN_H */
