// SPDX-License-Identifier: GPL-2.0
/*
 * Records through a ring of five words, which they go round: each arrives once,
 * whole, in order, and no plain access meets another. A, B, C, D.
 */
#include "rc11.h"

enum { RECORDS = 4 };

static void *produce(void *unused)
{
	struct l5_prod p = { .size = sizeof(word) };

	(void)unused;
	for (int n = 1; n <= RECORDS; n++) {
		AWAIT(room(&p));
		put(&p, n);
	}
	return NULL;
}

static void *consume(void *unused)
{
	struct l5_cons c = { .size = sizeof(word) };

	(void)unused;
	for (int n = 1; n <= RECORDS; n++)
		AWAIT(get(&c, n));
	return NULL;
}

static void end(void)
{
	assert(reader.rx_head == writer.tx_tail);
}

int main(void)
{
	run(produce, consume, empty, end);
	return 0;
}
