// SPDX-License-Identifier: GPL-2.0
/*
 * One way: the client sends chunks for a while and ends the stream; the server
 * reads to the end and answers how much it got. The clock runs until that
 * answer, so that buffered bytes are not counted before they are read.
 *
 * Every 4 KiB of a chunk begin with the chunk's number, which the server looks
 * for at the right places of the stream. Comparing every byte would measure
 * memcmp().
 *
 * Both sides use the same chunk of memory again and again, which stays in the
 * caches, or with --array walk through arrays that do not fit there.
 */
#include "bench.h"

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STAMP_EVERY	4096

struct bulk {
	struct setup setup;
	unsigned long chunk;
	unsigned long array;
	unsigned long messages;
	int listener;
	struct address where;
};

/* How many chunks before memory is used again. */
static unsigned long turn(const struct bulk *b)
{
	return b->array > b->chunk ? b->array / b->chunk : 1;
}

static void stamp(char *buf, size_t len, unsigned long nr)
{
	size_t at;

	for (at = 0; at + sizeof(nr) <= len; at += STAMP_EVERY)
		memcpy(buf + at, &nr, sizeof(nr));
}

static void stamp_check(const char *buf, size_t len, unsigned long nr)
{
	unsigned long seen;
	size_t at;

	for (at = 0; at + sizeof(nr) <= len; at += STAMP_EVERY) {
		memcpy(&seen, buf + at, sizeof(seen));
		if (seen != nr)
			errx(1, "chunk %lu: %lu at offset %zu", nr, seen, at);
	}
}

static void serve(void *arg)
{
	struct bulk *b = arg;
	unsigned long nr, place = 0, turns = turn(b);
	char *array = array_alloc(turns * b->chunk);
	char *buf = array;
	struct stream st;
	unsigned long total = 0;

	stream_accept(&st, &b->setup, b->listener);
	stream_settle(&st, &b->setup);
	stream_send(&st, &total, sizeof(total));	/* ready */
	for (nr = 0; stream_recv(&st, buf, b->chunk); nr++) {
		/* Arrays are stamped beforehand: a chunk has its place's. */
		stamp_check(buf, b->chunk, turns > 1 ? place : nr);
		if (++place == turns)
			place = 0;
		buf = array + place * b->chunk;
	}
	total = nr * b->chunk;
	stream_send(&st, &total, sizeof(total));
	stream_check(&st, &b->setup);
	stream_close(&st);
	free(array);
}

static void measure(struct bulk *b, pid_t server)
{
	unsigned long nr, place, turns = turn(b);
	char *array = array_alloc(turns * b->chunk);
	char *buf = array;
	struct stream st;
	unsigned long total;
	double seconds;

	for (place = 0; turns > 1 && place < turns; place++)
		stamp(array + place * b->chunk, b->chunk, place);
	client_pin(&b->setup);
	stream_connect(&st, &b->setup, &b->where);
	stream_settle(&st, &b->setup);
	if (!stream_recv(&st, &total, sizeof(total)))
		errx(1, "the server hung up");
	sample_start(b->setup.seconds);
	/* Whole turns: the end of an array is as cold as its beginning. */
	for (nr = 0, place = 0; !sample_over || place; nr++) {
		if (turns == 1)
			stamp(buf, b->chunk, nr);
		stream_send(&st, buf, b->chunk);
		if (++place == turns)
			place = 0;
		buf = array + place * b->chunk;
	}
	stream_end(&st);
	if (!stream_recv(&st, &total, sizeof(total)))
		errx(1, "the server hung up");
	seconds = sample_elapsed();
	if (total != nr * b->chunk)
		errx(1, "sent %lu bytes, %lu arrived", nr * b->chunk, total);
	stream_check(&st, &b->setup);
	stream_close(&st);
	free(array);
	server_wait(server);
	if (b->messages)
		printf("%.1f msg/s\n", nr / seconds);
	else
		printf("%.1f MB/s\n", total / seconds / 1e6);
}

int main(int argc, char **argv)
{
	struct bulk b = { .setup = setup_default, .chunk = 128 << 10 };
	const struct own_option own[] = {
		{ "size", 's', "BYTES", "size of a chunk (131072)", &b.chunk },
		{ "array", 'A', "BYTES", "walk through arrays so large",
		  &b.array },
		{ "messages", 'm', NULL, "print chunks, not bytes, a second",
		  &b.messages },
		{ 0 }
	};
	pid_t server;

	b.setup.two_hosts = true;
	options_parse(argc, argv, "Measure bytes a second in one direction.",
		      &b.setup, own);
	server = server_start(&b.setup, &b.where, &b.listener, serve, &b);
	measure(&b, server);
	return 0;
}
