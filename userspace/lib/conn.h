/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A connection of libl5 without a socket that has rings: for tests.
 */
#ifndef L5_CONN_H
#define L5_CONN_H

#include "map.h"

struct l5_conn;

/**
 * l5_conn_over() - a connection of rings that are mapped already
 * @fd: for what the rings cannot say
 * @m: the rings; one reference more
 *
 * Return: for l5_unmap(), or NULL with errno.
 */
struct l5_conn *l5_conn_over(int fd, struct l5_map *m);

#endif /* L5_CONN_H */
