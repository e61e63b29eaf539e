// SPDX-License-Identifier: GPL-2.0
/*
 * Bulk, one way: the client sends chunks for a while and shuts its side down;
 * the server reads to the end and answers how much it got. The clock runs
 * until that answer, so that buffered bytes are not counted before they are
 * read.
 *
 * Every 4 KiB of a chunk begin with the chunk's number, which the server looks
 * for at the right places of the stream. Comparing every byte would measure
 * memcmp().
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
	int listener;
	struct address where;
};

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
			errx(1, "chunk %lu: %lu at offset %zu",
			     nr, seen,
			     at);
	}
}

static void serve(void *arg)
{
	struct bulk *b = arg;
	char *buf = malloc(b->chunk);
	struct stream st;
	unsigned long total;
	unsigned long nr;
	int fd;

	fd = transport_accept(&b->setup, b->listener);
	stream_init(&st, &b->setup, fd);
	for (nr = 0; stream_recv(&st, buf, b->chunk); nr++)
		stamp_check(buf, b->chunk, nr);
	total = nr * b->chunk;
	stream_send(&st, &total, sizeof(total));
	transport_check(&b->setup, fd);
	free(buf);
}

static double measure(struct bulk *b)
{
	char *buf = calloc(1, b->chunk);
	struct stream st;
	unsigned long total;
	unsigned long nr = 0;
	double seconds;
	int fd;

	client_pin(&b->setup);
	fd = transport_connect(&b->setup, &b->where);
	stream_init(&st, &b->setup, fd);
	sample_start(b->setup.seconds);
	while (!sample_over) {
		stamp(buf, b->chunk, nr);
		stream_send(&st, buf, b->chunk);
		nr++;
	}
	if (shutdown(fd, SHUT_WR))
		err(1, "shutdown");
	if (!stream_recv(&st, &total, sizeof(total)))
		errx(1, "the server hung up");
	seconds = sample_elapsed();
	if (total != nr * b->chunk)
		errx(1, "sent %lu bytes, %lu arrived",
		     (nr * b->chunk),
		     total);
	transport_check(&b->setup, fd);
	close(fd);
	free(buf);
	return total / seconds / 1e6;
}

int main(int argc, char **argv)
{
	struct bulk b = { .setup = setup_default, .chunk = 128 << 10 };
	const struct own_option own[] = {
		{ "size", 's', "BYTES", "size of a chunk (131072)", &b.chunk },
		{ 0 }
	};
	double rate;
	pid_t server;

	options_parse(argc, argv, "Measure bytes a second in one direction.",
		      &b.setup, own);
	b.listener = transport_listen(&b.setup, &b.where);
	server = server_start(&b.setup, serve, &b);
	close(b.listener);
	rate = measure(&b);
	server_wait(server);
	printf("%.1f MB/s\n", rate);
	return 0;
}
