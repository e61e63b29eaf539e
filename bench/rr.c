// SPDX-License-Identifier: GPL-2.0
/*
 * Round trips a second: the client sends a message, the server answers with
 * another one of the same size. Both check every byte. With --median how long a
 * round trip takes; with --every one now and then: how long it takes, and how
 * much CPU both sides use while nothing happens. With --bare they do what
 * bench/limit does, and no more: a message is copied in, its number stored,
 * seen and copied out.
 */
#include "bench.h"

#include <err.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>

#include "../userspace/lib/libl5.h"
#include "../userspace/lib/native.h"

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
	unsigned long bare;
	int listener;
	struct address where;
	struct pattern ask, answer;
};

/* One call, as the program under measurement would make it. */
static __always_inline bool bare_recv(struct stream *st, void *buf, size_t len)
{
	ssize_t n;

	if (st->mem)
		return l5_native_recv(st->mem, buf, len);
	do {
		n = st->lib ? l5_recv(st->lib, buf, len, 0) :
			      read(st->fd, buf, len);
	} while (n < 0 && errno == EINTR);
	if (n && (size_t)n != len)
		err(1, "a message of %zd bytes", n);
	return n;
}

static __always_inline void bare_send(struct stream *st, const void *buf,
				      size_t len)
{
	ssize_t n;

	if (st->mem) {
		if (!l5_native_send(st->mem, buf, len))
			errx(1, "the ring is broken");
		return;
	}
	do {
		n = st->lib ? l5_send(st->lib, buf, len, MSG_NOSIGNAL) :
			      write(st->fd, buf, len);
	} while (n < 0 && errno == EINTR);
	if ((size_t)n != len)
		err(1, "%zd bytes of a message", n);
}

static void bare_serve(struct stream *st, void *buf, size_t len)
{
	while (bare_recv(st, buf, len))
		bare_send(st, buf, len);
}

static double bare_rate(struct rr *rr, struct stream *st, void *buf)
{
	size_t len = rr->size;
	unsigned long nr, back;

	sample_start(rr->setup.seconds);
	for (nr = 0; !sample_over; nr++) {
		memcpy(buf, &nr, sizeof(nr));
		bare_send(st, buf, len);
		if (!bare_recv(st, buf, len))
			errx(1, "the server hung up");
		memcpy(&back, buf, sizeof(back));
		if (back != nr)
			errx(1, "message %lu instead of %lu", back, nr);
	}
	return nr / sample_elapsed();
}

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
		if (rr->bare && nr == WARM_UP) {
			stream_send(&st, buf, rr->size);
			bare_serve(&st, buf, rr->size);
			break;
		}
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
	else if (rr->bare)
		result = bare_rate(rr, &st, buf);
	else
		result = rate(rr, &st, buf);
	cpu = cpu_seconds() - cpu;
	seconds = sample_elapsed();
	stream_close(&st);
	free(buf);
	server_wait(server);
	printf("%.2f %s\n", result, timed ? "us" : "rt/s");
	/* The CPU time of a server on another host is not known here. */
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
		{ "bare", 'B', NULL, "compare no byte but the message's number",
		  &rr.bare },
		{ 0 }
	};

	pid_t server;

	rr.setup.two_hosts = true;
	options_parse(argc, argv, "Measure round trips between two processes.",
		      &rr.setup, own);
	if (rr.bare && (rr.size < sizeof(unsigned long) || rr.median ||
			rr.every || rr.setup.wait != WAIT_BLOCK ||
			rr.setup.transport->carrier >= CARRIER_LINE))
		errx(2, "--bare takes messages of 8 bytes and more, as many as go");
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
