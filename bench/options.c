// SPDX-License-Identifier: GPL-2.0
/*
 * Options: those that every program has, and a few of its own each.
 */
#include "bench.h"

#include <err.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>

#define MAX_OWN		8	/* options of one program */

struct command {
	struct setup *setup;
	const struct own_option *own;
};

static const struct argp_option sample_options[] = {
	{ "seconds", 'd', "S", 0, "length of the sample (1)", 0 },
	{ "pin", 'p', "HOW", 0,
	  "none, split (a CPU each) or same (one CPU for both)", 0 },
	{ 0 }
};

static const struct argp_option connection_options[] = {
	{ "transport", 't', "NAME", 0,
	  "tcp, unix, l5, l5-unix, unix-packet, l5-packet (SOCK_SEQPACKET), lib or lib-packet (libl5 on an AF_L5 socket), smc, mem (its rings in a memfd), line or lines (bare shared memory, one place or one after the other, round trips only) (tcp)",
	  0 },
	{ "wait", 'w', "HOW", 0,
	  "block, poll (busy, nonblocking) or epoll (block)", 0 },
	{ "spin", 'S', "US", 0,
	  "L5_SPIN_US: look at the ring so long before sleeping", 0 },
	{ "buffer", 'b', "BYTES", 0, "SO_SNDBUF and SO_RCVBUF, or the ring",
	  0 },
	{ "any-carrier", 'a', NULL, 0,
	  "measure an AF_L5 connection that stays on its bootstrap socket, too",
	  0 },
	{ 0 }
};

static const struct argp_option host_options[] = {
	{ "listen", 'L', "ADDRESS", 0,
	  "be the server alone; print the port, serve one sample", 0 },
	{ "connect", 'C', "ADDRESS:PORT", 0, "be the client alone", 0 },
	{ 0 }
};

static int name_index(struct argp_state *state, const char *what,
		      const char *arg, const char *const *names)
{
	int i;

	for (i = 0; names[i]; i++)
		if (!strcmp(arg, names[i]))
			return i;
	argp_error(state, "no such %s: %s", what, arg);
	return 0;
}

static error_t parse_sample(int key, char *arg, struct argp_state *state)
{
	static const char *const pins[] = { "none", "split", "same", NULL };
	struct setup *s = state->input;

	switch (key) {
	case 'd':
		s->seconds = atof(arg);
		if (s->seconds <= 0)
			argp_error(state, "not a length of time: %s", arg);
		break;
	case 'p':
		s->pinning = name_index(state, "pinning", arg, pins);
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static error_t parse_connection(int key, char *arg, struct argp_state *state)
{
	static const char *const waits[] = { "block", "poll", "epoll", NULL };
	struct setup *s = state->input;

	switch (key) {
	case 't':
		s->transport = transport_named(arg);
		if (!s->transport)
			argp_error(state, "no such transport: %s", arg);
		break;
	case 'w':
		s->wait = name_index(state, "way to wait", arg, waits);
		break;
	case 'S':
		s->spin_us = atoi(arg);
		break;
	case 'b':
		s->buffer = atoi(arg);
		break;
	case 'a':
		s->any_carrier = true;
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

/* The port may be missing for a server: the kernel picks one. */
static void host_and_port(struct argp_state *state, struct setup *s, char *arg)
{
	struct sockaddr_in *in = &s->where.in;
	char *port = strchr(arg, ':');

	s->where.len = sizeof(*in);
	in->sin_family = AF_INET;
	if (port) {
		*port++ = 0;
		in->sin_port = htons(atoi(port));
	}
	if (inet_pton(AF_INET, arg, &in->sin_addr) != 1 ||
	    (s->role == ROLE_CLIENT && !in->sin_port))
		argp_error(state, "not an address and a port: %s", arg);
}

static error_t parse_host(int key, char *arg, struct argp_state *state)
{
	struct setup *s = state->input;

	switch (key) {
	case 'L':
	case 'C':
		s->role = key == 'L' ? ROLE_SERVER : ROLE_CLIENT;
		host_and_port(state, s, arg);
		break;
	case ARGP_KEY_END:
		if (s->role != ROLE_BOTH && s->transport->family != AF_INET)
			argp_error(state, "%s is for one host",
				   s->transport->name);
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static unsigned long number(struct argp_state *state, const char *arg)
{
	unsigned long value;
	char *end;

	errno = 0;
	value = strtoul(arg, &end, 0);
	if (!value || *arg == '-' || *end || errno)
		argp_error(state, "not a number above 0: %s", arg);
	return value;
}

static error_t parse_own(int key, char *arg, struct argp_state *state)
{
	const struct command *c = state->input;
	const struct own_option *o;

	if (key == ARGP_KEY_INIT) {
		state->child_inputs[0] = c->setup;
		if (c->setup->transport)
			state->child_inputs[1] = c->setup;
		if (c->setup->two_hosts)
			state->child_inputs[2] = c->setup;
		return 0;
	}
	for (o = c->own; o->name; o++) {
		if (key != o->key)
			continue;
		*o->value = arg ? number(state, arg) : 1;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

/**
 * options_parse() - read the command line, or say what is wrong and exit
 * @argc: of main()
 * @argv: of main()
 * @doc: a sentence about the program
 * @s: the defaults, and then what was asked for; without a transport there are
 *	no options about connections
 * @own: the program's own options; the last has no name
 */
void options_parse(int argc, char **argv, const char *doc, struct setup *s,
		   const struct own_option *own)
{
	static const struct argp sample = {
		.options = sample_options,
		.parser = parse_sample,
	};
	static const struct argp connection = {
		.options = connection_options,
		.parser = parse_connection,
	};
	static const struct argp host = {
		.options = host_options,
		.parser = parse_host,
	};
	const struct argp_child children[] = {
		{ &sample, 0, NULL, 0 },
		{ s->transport ? &connection : NULL, 0, NULL, 0 },
		{ s->two_hosts ? &host : NULL, 0, NULL, 0 },
		{ 0 }
	};
	struct argp_option options[MAX_OWN + 1] = { { 0 } };
	struct command c = { .setup = s, .own = own };
	const struct argp argp = {
		.options = options,
		.parser = parse_own,
		.doc = doc,
		.children = children,
	};
	int i;

	for (i = 0; own[i].name; i++) {
		if (i == MAX_OWN)
			errx(1, "more than %d options", MAX_OWN);
		options[i].name = own[i].name;
		options[i].key = own[i].key;
		options[i].arg = own[i].arg;
		options[i].doc = own[i].doc;
	}
	argp_parse(&argp, argc, argv, 0, NULL, &c);
}
