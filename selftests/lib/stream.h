/* SPDX-License-Identifier: GPL-2.0 */
/* A thread that sends, or receives, one direction of a connection. */
#ifndef L5_STREAM_H
#define L5_STREAM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/**
 * struct stream - one direction at one end
 * @move: send, or receive, bytes once, at most @n: how many, 0 at the end, or
 *	-1 with errno; a sender may say 0 for none this time
 * @there: of a connection that moves while it is in use: has it? A sender goes
 *	on until it has, and then as far again; NULL where nothing moves
 * @conn: the end, for @move
 * @fd: its descriptor
 * @way: for @move: which of its ways, or -1
 * @most: bytes at once; most are far fewer
 * @total: bytes to send, or to receive; 0: receive until the end
 * @shuts: shut down behind the last byte
 * @again: EAGAIN is no failure, since @move has waited
 * @seed: of what happens
 * @at: bytes so far
 * @first: of them when the connection had moved
 * @bad: times that something was wrong
 * @err: errno of what ended it, 0 for the end
 */
struct stream {
	ssize_t (*move)(struct stream *s, uint8_t *buf, size_t n);
	bool (*there)(struct stream *s);
	void *conn;
	int fd;
	int way;
	size_t most;
	uint64_t total;
	bool shuts;
	bool again;
	uint64_t seed;
	uint64_t at;
	uint64_t first;
	int bad;
	int err;
};

/* For pthread_create(), with a struct stream. */
void *stream_send(void *arg);
void *stream_recv(void *arg);

#endif /* L5_STREAM_H */
