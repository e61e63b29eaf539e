// SPDX-License-Identifier: GPL-2.0
/*
 * Round trips a second: the client sends a message, the server answers with
 * another one of the same size. Both check every byte. With --every one message
 * now and then: how long its round trip takes, and how much CPU both sides use
 * while nothing happens.
 */
#include "bench.h"

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <sys/mman.h>

#define WARM_UP		32	/* round trips before the clock runs */

/* What the server found out; the client prints it. */
struct found {
	double cpu;	/* seconds between the first message and the end */
};

struct rr {
	struct setup setup;
	struct found *found;
	unsigned long size;
	unsigned long every;	/* microseconds; 0: one after the other */
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
	double cpu;

	stream_accept(&st, &rr->setup, rr->listener);
	for (nr = 0; stream_recv(&st, buf, rr->size); nr++) {
		if (nr == WARM_UP)
			cpu = cpu_seconds();
		pattern_check(&rr->ask, nr, buf, rr->size);
		stream_send(&st, pattern_of(&rr->answer, nr), rr->size);
	}
	if (nr > WARM_UP)
		rr->found->cpu = cpu_seconds() - cpu;
	stream_check(&st, &rr->setup);
	stream_close(&st);
	free(buf);
}

static void round_trip(struct rr *rr, struct stream *st, unsigned long nr,
		       void *buf)
{
	stream_send(st, pattern_of(&rr->ask, nr), rr->size);
	if (!stream_recv(st, buf, rr->size))
		errx(1, "the server hung up");
	pattern_check(&rr->answer, nr, buf, rr->size);
}

static double rate(struct rr *rr, struct stream *st, void *buf)
{
	unsigned long nr;

	sample_start(rr->setup.seconds);
	for (nr = WARM_UP; !sample_over; nr++)
		round_trip(rr, st, nr, buf);
	return (nr - WARM_UP) / sample_elapsed();
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The median in microseconds. */
static double now_and_then(struct rr *rr, struct stream *st, void *buf)
{
	struct timespec pause = {
		.tv_sec = rr->every / 1000000,
		.tv_nsec = rr->every % 1000000 * 1000,
	};
	unsigned long n = rr->setup.seconds * 1e6 / rr->every + 1, i;
	double *took = calloc(n, sizeof(*took));
	double median, before;

	sample_start(rr->setup.seconds + 1);
	for (i = 0; i < n; i++) {
		nanosleep(&pause, NULL);
		before = sample_elapsed();
		round_trip(rr, st, WARM_UP + i, buf);
		took[i] = sample_elapsed() - before;
	}
	qsort(took, n, sizeof(*took), by_value);
	median = took[n / 2];
	free(took);
	return median * 1e6;
}

static void measure(struct rr *rr, pid_t server)
{
	double result, cpu, seconds;
	void *buf = malloc(rr->size);
	struct stream st;
	unsigned long nr;

	client_pin(&rr->setup);
	stream_connect(&st, &rr->setup, &rr->where);
	for (nr = 0; nr < WARM_UP; nr++)
		round_trip(rr, &st, nr, buf);
	stream_check(&st, &rr->setup);

	cpu = cpu_seconds();
	result = (rr->every ? now_and_then : rate)(rr, &st, buf);
	cpu = cpu_seconds() - cpu;
	seconds = sample_elapsed();
	stream_close(&st);
	free(buf);
	server_wait(server);
	printf("%.2f %s\n", result, rr->every ? "us" : "rt/s");
	if (rr->every)
		printf("%.2f %% cpu\n",
		       100 * (cpu + rr->found->cpu) / seconds);
}

int main(int argc, char **argv)
{
	struct rr rr = { .setup = setup_default, .size = 64 };
	const struct own_option own[] = {
		{ "size", 's', "BYTES", "size of a message (64)", &rr.size },
		{ "every", 'e', "US",
		  "one round trip in so many microseconds; how long it takes",
		  &rr.every },
		{ 0 }
	};

	pid_t server;

	options_parse(argc, argv, "Measure round trips between two processes.",
		      &rr.setup, own);
	pattern_init(&rr.ask, rr.size);
	pattern_init(&rr.answer, rr.size + 1);
	rr.answer.bytes++;	/* an echo of the question is no answer */
	rr.found = mmap(NULL, sizeof(*rr.found), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (rr.found == MAP_FAILED)
		err(1, "mmap");
	rr.listener = transport_listen(&rr.setup, &rr.where);
	server = server_start(&rr.setup, serve, &rr);
	close(rr.listener);
	measure(&rr, server);
	return 0;
}
