// SPDX-License-Identifier: GPL-2.0
/*
 * What the machine allows: the bounds that figures of rings are set against.
 *
 * Round trips: two processes, a CPU each, and two lines of shared memory, one
 * a way. No header, no cursor, no check, no process that sleeps. (bench/rr -t
 * line is the same with every byte checked, as bench/rr checks all that it
 * measures.)
 *
 * Copy: memcpy() of one thread from one array to another, in pieces of 128 KiB
 * as a bulk transfer does it.
 */
#include "bench.h"

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>

#include "line.h"

#define WARM_UP		10000	/* round trips before the clock runs */
#define PIECE		(128ul << 10)

struct limit {
	struct setup setup;
	unsigned long size;
	unsigned long copy;
	struct line *lines;	/* ask, answer */
};

/*
 * A copy of constant length is some instructions, of variable length a call:
 * each size has its own loop.
 */
static __always_inline void serve_size(struct limit *l, size_t size)
{
	size_t len = size - sizeof(line_nr_t);
	char text[LINE_BYTES] = "";
	unsigned long nr;

	for (nr = 1;; nr++) {
		line_get(&l->lines[0], nr, text, len);
		line_put(&l->lines[1], nr, text, len);
	}
}

static __always_inline unsigned long ask_size(struct limit *l, size_t size)
{
	size_t len = size - sizeof(line_nr_t);
	char text[LINE_BYTES] = "", back[LINE_BYTES];
	unsigned long nr;

	for (nr = 1; nr <= WARM_UP || !sample_over; nr++) {
		if (nr == WARM_UP)
			sample_start(l->setup.seconds);
		line_put(&l->lines[0], nr, text, len);
		line_get(&l->lines[1], nr, back, len);
	}
	return nr - 1 - WARM_UP;
}

static void serve(void *arg)
{
	struct limit *l = arg;

	switch (l->size) {
	case 8:
		return serve_size(l, 8);
	case 16:
		return serve_size(l, 16);
	case 32:
		return serve_size(l, 32);
	case 64:
		return serve_size(l, 64);
	case 128:
		return serve_size(l, 128);
	case 256:
		return serve_size(l, 256);
	}
}

static unsigned long ask(struct limit *l)
{
	switch (l->size) {
	case 8:
		return ask_size(l, 8);
	case 16:
		return ask_size(l, 16);
	case 32:
		return ask_size(l, 32);
	case 64:
		return ask_size(l, 64);
	case 128:
		return ask_size(l, 128);
	case 256:
		return ask_size(l, 256);
	default:
		errx(1, "no such size: %lu", l->size);
	}
}

static double round_trips(struct limit *l)
{
	unsigned long n;

	l->lines = mmap(NULL, 2 * sizeof(*l->lines), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (l->lines == MAP_FAILED)
		err(1, "mmap");
	child_start(&l->setup, serve, l);
	client_pin(&l->setup);
	n = ask(l);
	return n / sample_elapsed();	/* the server dies with its parent */
}

static double copies(struct limit *l)
{
	unsigned long piece = l->copy < PIECE ? l->copy : PIECE;
	unsigned long at = 0, done = 0;
	char *from = array_alloc(l->copy);
	char *to = array_alloc(l->copy);

	client_pin(&l->setup);
	sample_start(l->setup.seconds);
	/* Whole arrays only: the end of a large one is as cold as its start. */
	while (!sample_over || at) {
		memcpy(to + at, from + at, piece);
		__asm__ __volatile__("" : : "r"(to) : "memory");
		done += piece;
		at += piece;
		if (at + piece > l->copy)
			at = 0;
	}
	return done / sample_elapsed() / 1e6;
}

int main(int argc, char **argv)
{
	struct limit l = {
		.setup = { .seconds = 1, .pinning = PIN_SPLIT },
		.size = 64,
	};
	const struct own_option own[] = {
		{ "size", 's', "BYTES",
		  "size of a message: 8, 16, 32, 64 (default), 128 or 256",
		  &l.size },
		{ "copy", 'c', "BYTES",
		  "instead: memcpy() of one thread between arrays so large",
		  &l.copy },
		{ 0 }
	};

	options_parse(argc, argv,
		      "Measure what two CPUs can do without any protocol.",
		      &l.setup, own);
	if (l.copy)
		printf("%.1f MB/s\n", copies(&l));
	else
		printf("%.1f rt/s\n", round_trips(&l));
	return 0;
}
