// SPDX-License-Identifier: GPL-2.0
/*
 * A wait here yields: where more threads run than there are processors, one
 * that only turned would take its whole slice from the thread it waits for.
 */
#include <sched.h>

#include "beside.h"
#include "l5test.h"

void beside_spin(unsigned int turns)
{
	for (; turns; turns--)
		atomic_signal_fence(memory_order_seq_cst);
}

static void *beside_main(void *arg)
{
	struct beside *b = arg;
	int fd;

	while ((fd = atomic_load(&b->fd)) != BESIDE_END) {
		if (fd == BESIDE_IDLE) {
			sched_yield();
			continue;
		}
		beside_spin(b->spins);
		b->got = b->call(b, fd);
		atomic_store(&b->fd, BESIDE_IDLE);
	}
	return NULL;
}

bool beside_start(struct beside *b)
{
	atomic_store(&b->fd, BESIDE_IDLE);
	b->end = l5_now_ms() + 30000;
	return !pthread_create(&b->thread, NULL, beside_main, b);
}

bool beside_again(const struct beside *b, int i, int tries)
{
	return i < tries && (!i || l5_now_ms() < b->end);
}

void beside_call(struct beside *b, int fd, unsigned int spins)
{
	b->spins = spins;
	atomic_store(&b->fd, fd);
}

long beside_wait(struct beside *b)
{
	while (atomic_load(&b->fd) >= 0)
		sched_yield();
	return b->got;
}

void beside_end(struct beside *b)
{
	atomic_store(&b->fd, BESIDE_END);
	pthread_join(b->thread, NULL);
}
