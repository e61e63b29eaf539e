/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A thread that makes one call on each socket it is given, a moment after,
 * while the caller makes another on the same socket.
 */
#ifndef L5_BESIDE_H
#define L5_BESIDE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct beside {
	/* The call: what it returns is for beside_wait(). */
	long (*call)(struct beside *b, int fd);
	pthread_t thread;
	atomic_int fd;		/* BESIDE_IDLE, BESIDE_END, or the socket */
	unsigned int spins;	/* before the call */
	int64_t end;		/* of the tries, ms */
	long got;
};

enum { BESIDE_IDLE = -1, BESIDE_END = -2 };

/* Start the thread, with call set; false if it cannot be. */
bool beside_start(struct beside *b);
/*
 * Is there another try after @i of them? Of @tries, unless the machine is so
 * slow that they would take more than half a minute.
 */
bool beside_again(const struct beside *b, int i, int tries);
/* Let it call on @fd, some turns of an empty loop from now. */
void beside_call(struct beside *b, int fd, unsigned int spins);
/* What that call returned. */
long beside_wait(struct beside *b);
void beside_end(struct beside *b);

/* An empty loop of so many turns. */
void beside_spin(unsigned int turns);

#endif /* L5_BESIDE_H */
