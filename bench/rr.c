// SPDX-License-Identifier: GPL-2.0
/*
 * Round trips a second: the client sends a message, the server answers with
 * another one of the same size. Both check every byte. With --median how long a
 * round trip takes; with --every one now and then: how long it takes, and how
 * much CPU both sides use while nothing happens.
 */
#include "bench.h"

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
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
	unsigned long median;	/* of the time they take, not how many */
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
	stream_settle(&st, &rr->setup);
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

struct trips {
	struct rr *rr;
	struct stream *st;
	void *buf;
};

static double timed_trip(void *arg, unsigned long nr)
{
	struct trips *t = arg;
	double before = sample_elapsed();

	round_trip(t->rr, t->st, WARM_UP + nr, t->buf);
	return sample_elapsed() - before;
}

static void measure(struct rr *rr, pid_t server)
{
	bool timed = rr->every || rr->median;
	double result, cpu, seconds;
	void *buf = malloc(rr->size);
	struct stream st;
	unsigned long nr;

	client_pin(&rr->setup);
	stream_connect(&st, &rr->setup, &rr->where);
	stream_settle(&st, &rr->setup);
	for (nr = 0; nr < WARM_UP; nr++)
		round_trip(rr, &st, nr, buf);
	stream_check(&st, &rr->setup);

	cpu = cpu_seconds();
	if (timed)
		result = sample_median(rr->setup.seconds, rr->every, timed_trip,
				       &(struct trips){ rr, &st, buf });
	else
		result = rate(rr, &st, buf);
	cpu = cpu_seconds() - cpu;
	seconds = sample_elapsed();
	stream_close(&st);
	free(buf);
	server_wait(server);
	printf("%.2f %s\n", result, timed ? "us" : "rt/s");
	/* What a server on another host used is not known here. */
	if (rr->every && server)
		printf("%.2f %% cpu\n",
		       100 * (cpu + rr->found->cpu) / seconds);
}

int main(int argc, char **argv)
{
	struct rr rr = { .setup = setup_default, .size = 64 };
	const struct own_option own[] = {
		{ "size", 's', "BYTES", "size of a message (64)", &rr.size },
		{ "median", 'm', NULL, "print the median of their times",
		  &rr.median },
		{ "every", 'e', "US",
		  "one round trip in so many microseconds; how long it takes",
		  &rr.every },
		{ 0 }
	};

	pid_t server;

	rr.setup.two_hosts = true;
	options_parse(argc, argv, "Measure round trips between two processes.",
		      &rr.setup, own);
	pattern_init(&rr.ask, rr.size);
	pattern_init(&rr.answer, rr.size + 1);
	rr.answer.bytes++;	/* an echo of the question is no answer */
	rr.found = mmap(NULL, sizeof(*rr.found), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (rr.found == MAP_FAILED)
		err(1, "mmap");
	server = server_start(&rr.setup, &rr.where, &rr.listener, serve, &rr);
	measure(&rr, server);
	return 0;
}
