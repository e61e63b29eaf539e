// SPDX-License-Identifier: GPL-2.0
/*
 * Connections a second, one after the other: connect, accept, close on both
 * sides. The server closes first and the client waits to see that, so every
 * connection was whole. With --request a byte goes there and back in between,
 * with --trips several one after the other.
 * With --every one connection now and then: how long connect() takes.
 */
#include "bench.h"

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define WARM_UP		16	/* connections before the clock runs */
#define ASK		'?'
#define ANSWER		'!'

struct crr {
	struct setup setup;
	unsigned long request;	/* or */
	unsigned long trips;	/* so many of them */
	unsigned long every;	/* microseconds; 0: one after the other */
	int listener;
	struct address where;
};

static void serve(void *arg)
{
	struct crr *c = arg;
	struct stream st;
	unsigned long n;
	char byte;

	/* Until the client kills it: there is no other end. */
	for (;;) {
		stream_accept(&st, &c->setup, c->listener);
		for (n = 0; n < c->trips && stream_recv(&st, &byte, 1); n++) {
			if (byte != ASK)
				errx(1, "wrong byte from the client");
			byte = ANSWER;
			stream_send(&st, &byte, 1);
		}
		stream_close(&st);
	}
}

/* How long connect() took. */
static double one(struct crr *c, bool check)
{
	struct stream st;
	unsigned long n;
	double took;
	char byte;

	stream_connect(&st, &c->setup, &c->where);
	took = transport_took;
	for (n = 0; n < c->trips; n++) {
		byte = ASK;
		stream_send(&st, &byte, 1);
		if (!stream_recv(&st, &byte, 1) || byte != ANSWER)
			errx(1, "wrong answer from the server");
	}
	if (check)
		stream_check(&st, &c->setup);
	if (stream_recv(&st, &byte, 1))
		errx(1, "a byte where the end should be");
	stream_close(&st);
	return took;
}

static double timed(void *arg, unsigned long nr)
{
	(void)nr;
	return one(arg, false);
}

static double measure(struct crr *c)
{
	unsigned long n;

	client_pin(&c->setup);
	/* What a connection leaves to be done later must not run meanwhile. */
	for (n = 0; n < (c->every ? 1 : WARM_UP); n++)
		one(c, true);
	if (c->every)
		return sample_median(c->setup.seconds, c->every, timed, c);
	sample_start(c->setup.seconds);
	for (n = 0; !sample_over; n++)
		one(c, false);
	return n / sample_elapsed();
}

int main(int argc, char **argv)
{
	struct crr c = { .setup = setup_default };
	const struct own_option own[] = {
		{ "request", 'r', NULL, "send a byte there and back",
		  &c.request },
		{ "trips", 'n', "N", "send a byte there and back N times",
		  &c.trips },
		{ "every", 'e', "US",
		  "a connection in so many microseconds; how long connect() takes",
		  &c.every },
		{ 0 }
	};
	double rate;

	c.setup.two_hosts = true;
	options_parse(argc, argv, "Measure connections a second.",
		      &c.setup, own);
	if (c.request && !c.trips)
		c.trips = 1;
	server_start(&c.setup, &c.where, &c.listener, serve, &c);
	rate = measure(&c);
	printf(c.every ? "%.2f us\n" : "%.1f conn/s\n", rate);
	return 0;	/* and the server dies with its parent */
}
