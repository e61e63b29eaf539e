// SPDX-License-Identifier: GPL-2.0
/*
 * Connections a second, one after the other: connect, accept, close on both
 * sides. The server closes first and the client waits to see that, so every
 * connection was whole. With --request a byte goes there and back in between.
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
	unsigned long request;
	int listener;
	struct address where;
};

static void serve(void *arg)
{
	struct crr *c = arg;
	struct stream st;
	char byte;

	/* Until the client kills it: there is no other end. */
	for (;;) {
		stream_accept(&st, &c->setup, c->listener);
		if (c->request && stream_recv(&st, &byte, 1)) {
			if (byte != ASK)
				errx(1, "wrong byte from the client");
			byte = ANSWER;
			stream_send(&st, &byte, 1);
		}
		stream_close(&st);
	}
}

static void one(struct crr *c, bool check)
{
	struct stream st;
	char byte = ASK;

	stream_connect(&st, &c->setup, &c->where);
	if (c->request) {
		stream_send(&st, &byte, 1);
		if (!stream_recv(&st, &byte, 1) || byte != ANSWER)
			errx(1, "wrong answer from the server");
	}
	if (check)
		stream_check(&st, &c->setup);
	if (stream_recv(&st, &byte, 1))
		errx(1, "a byte where the end should be");
	stream_close(&st);
}

static double measure(struct crr *c)
{
	unsigned long n;

	client_pin(&c->setup);
	for (n = 0; n < WARM_UP; n++)
		one(c, true);
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
		{ 0 }
	};
	double rate;

	options_parse(argc, argv, "Measure connections a second.",
		      &c.setup, own);
	c.listener = transport_listen(&c.setup, &c.where);
	server_start(&c.setup, serve, &c);
	close(c.listener);
	rate = measure(&c);
	printf("%.1f conn/s\n", rate);
	return 0;	/* and the server dies with its parent */
}
