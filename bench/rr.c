// SPDX-License-Identifier: GPL-2.0
/*
 * Round trips a second: the client sends a message, the server answers with
 * another one of the same size. Both check every byte.
 */
#include "bench.h"

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define WARM_UP		32	/* round trips before the clock runs */

struct rr {
	struct setup setup;
	unsigned long size;
	int listener;
	struct address where;
	struct pattern ask, answer;
};

static void serve(void *arg)
{
	struct rr *rr = arg;
	void *buf = malloc(rr->size);
	struct stream st;
	unsigned long nr;
	int fd;

	fd = transport_accept(&rr->setup, rr->listener);
	stream_init(&st, &rr->setup, fd);
	for (nr = 0; stream_recv(&st, buf, rr->size); nr++) {
		pattern_check(&rr->ask, nr, buf, rr->size);
		stream_send(&st, pattern_of(&rr->answer, nr), rr->size);
	}
	transport_check(&rr->setup, fd);
	free(buf);
}

static void round_trip(struct rr *rr, struct stream *st, unsigned long nr, void *buf)
{
	stream_send(st, pattern_of(&rr->ask, nr), rr->size);
	if (!stream_recv(st, buf, rr->size))
		errx(1, "the server hung up");
	pattern_check(&rr->answer, nr, buf, rr->size);
}

static double measure(struct rr *rr)
{
	void *buf = malloc(rr->size);
	struct stream st;
	double seconds;
	unsigned long nr;
	int fd;

	client_pin(&rr->setup);
	fd = transport_connect(&rr->setup, &rr->where);
	stream_init(&st, &rr->setup, fd);
	for (nr = 0; nr < WARM_UP; nr++)
		round_trip(rr, &st, nr, buf);
	transport_check(&rr->setup, fd);

	sample_start(rr->setup.seconds);
	while (!sample_over)
		round_trip(rr, &st, nr++, buf);
	seconds = sample_elapsed();
	close(fd);
	free(buf);
	return (nr - WARM_UP) / seconds;
}

int main(int argc, char **argv)
{
	struct rr rr = { .setup = setup_default, .size = 64 };
	const struct own_option own[] = {
		{ "size", 's', "BYTES", "size of a message (64)", &rr.size },
		{ 0 }
	};
	double rate;
	pid_t server;

	options_parse(argc, argv, "Measure round trips between two processes.",
		      &rr.setup, own);
	pattern_init(&rr.ask, rr.size);
	pattern_init(&rr.answer, rr.size + 1);
	rr.answer.bytes++;	/* an echo of the question is no answer */
	rr.listener = transport_listen(&rr.setup, &rr.where);
	server = server_start(&rr.setup, serve, &rr);
	close(rr.listener);
	rate = measure(&rr);
	server_wait(server);
	printf("%.1f rt/s\n", rate);
	return 0;
}
