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
	size_t size;
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

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct rr *rr = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &rr->setup;
		break;
	case 's':
		rr->size = strtoul(arg, NULL, 0);
		if (!rr->size)
			argp_error(state, "not a size: %s", arg);
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

int main(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "size", 's', "BYTES", 0, "size of a message (64)", 0 },
		{ 0 }
	};
	static const struct argp_child children[] = {
		{ &setup_argp, 0, NULL, 0 },
		{ 0 }
	};
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.doc = "Measure round trips between two processes.",
		.children = children,
	};
	struct rr rr = { .setup = setup_default, .size = 64 };
	double rate;
	pid_t server;

	argp_parse(&argp, argc, argv, 0, NULL, &rr);
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
