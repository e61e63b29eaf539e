// SPDX-License-Identifier: GPL-2.0
/*
 * A stranger: an RDMA program that asks an AF_L5 listener for a connection that
 * it cannot have, or answers an AF_L5 client as no AF_L5 host would.
 *
 *	stranger ask ADDRESS PORT HEX...
 *	stranger answer ADDRESS PORT ignore|reject|accept|garbage|leave
 *	stranger relay ADDRESS PORT
 *
 * Asks all at once with these private data, "-" is none. Prints a line for each
 * event.
 *
 * A relay keeps the first question that comes, leaves the port to others, and
 * then does what it reads: "same PORT" sends the question on there, "own PORT"
 * does with a key of its own in it; the end of its input ends it.
 */
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MS	5000
#define MAX	256

struct asker {
	struct rdma_cm_id *id;
	uint8_t data[56];
	uint8_t len;
	bool over;
};

static void check(bool good, const char *what)
{
	if (good)
		return;
	perror(what);
	exit(1);
}

static struct sockaddr_in address(char **argv)
{
	struct sockaddr_in a = {
		.sin_family = AF_INET,
		.sin_port = htons(atoi(argv[1])),
	};

	check(inet_pton(AF_INET, argv[0], &a.sin_addr) == 1, argv[0]);
	return a;
}

static void make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.cap = {
			.max_send_wr = 4, .max_recv_wr = 4,
			.max_send_sge = 1, .max_recv_sge = 1,
		},
		.qp_type = IBV_QPT_RC,
	};

	check(!rdma_create_qp(id, NULL, &attr), "rdma_create_qp");
}

static uint8_t unhex(const char *s, uint8_t *data, uint8_t max)
{
	unsigned int byte;
	uint8_t n = 0;

	while (n < max && sscanf(s + 2 * n, "%2x", &byte) == 1)
		data[n++] = byte;
	return n;
}

static void ask(char **argv, int n)
{
	struct sockaddr_in to = address(argv);
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct asker *a = calloc(n, sizeof(*a));
	struct rdma_conn_param param;
	struct rdma_cm_event *ev;
	int i, left = n;

	check(ch && a, "event channel");
	for (i = 0; i < n; i++) {
		a[i].len = unhex(argv[2 + i], a[i].data, sizeof(a[i].data));
		check(!rdma_create_id(ch, &a[i].id, &a[i], RDMA_PS_TCP),
		      "rdma_create_id");
		check(!rdma_resolve_addr(a[i].id, NULL, (struct sockaddr *)&to,
					 MS), "rdma_resolve_addr");
	}
	while (left && !rdma_get_cm_event(ch, &ev)) {
		struct asker *me = ev->id->context;

		memset(&param, 0, sizeof(param));
		param.private_data = me->data;
		param.private_data_len = me->len;
		param.retry_count = 7;
		switch (ev->event) {
		case RDMA_CM_EVENT_ADDR_RESOLVED:
			check(!rdma_resolve_route(me->id, MS),
			      "rdma_resolve_route");
			break;
		case RDMA_CM_EVENT_ROUTE_RESOLVED:
			make_qp(me->id);
			check(!rdma_connect(me->id, &param), "rdma_connect");
			break;
		default:
			printf("%td %s %d\n", me - a,
			       rdma_event_str(ev->event), ev->status);
			fflush(stdout);
			if (!me->over)
				left--;
			me->over = true;
		}
		rdma_ack_cm_event(ev);
	}
}

static void show(const struct rdma_cm_event *ev)
{
	const uint8_t *p = ev->param.conn.private_data;
	int i;

	printf("%s ", rdma_event_str(ev->event));
	for (i = 0; i < ev->param.conn.private_data_len; i++)
		printf("%02x", p[i]);
	putchar('\n');
	fflush(stdout);
}

static void answer(char **argv)
{
	struct sockaddr_in at = address(argv);
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_conn_param param = { .retry_count = 7 };
	const char *how = argv[2];
	struct rdma_cm_event *ev;
	struct rdma_cm_id *l;
	uint8_t junk[100];

	check(ch && !rdma_create_id(ch, &l, NULL, RDMA_PS_TCP),
	      "rdma_create_id");
	check(!rdma_bind_addr(l, (struct sockaddr *)&at), "rdma_bind_addr");
	check(!rdma_listen(l, 10), "rdma_listen");
	puts("ready");
	fflush(stdout);
	memset(junk, 0x5a, sizeof(junk));
	while (!rdma_get_cm_event(ch, &ev)) {
		struct rdma_cm_id *id = ev->id;
		bool request = ev->event == RDMA_CM_EVENT_CONNECT_REQUEST;

		show(ev);
		rdma_ack_cm_event(ev);
		if (!request || !strcmp(how, "ignore"))
			continue;
		if (!strcmp(how, "reject")) {
			rdma_reject(id, junk, sizeof(junk));
			continue;
		}
		make_qp(id);
		if (!strcmp(how, "garbage")) {
			param.private_data = junk;
			param.private_data_len = sizeof(junk);
		}
		rdma_accept(id, &param);
		if (!strcmp(how, "leave")) {
			usleep(100000);
			exit(0);
		}
	}
}

/* The question of another program, kept unanswered. */
static struct rdma_cm_id *keep(const struct sockaddr_in *at, uint8_t *data,
			       size_t len)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *l, *id;
	struct rdma_cm_event *ev;

	check(ch && !rdma_create_id(ch, &l, NULL, RDMA_PS_TCP),
	      "rdma_create_id");
	check(!rdma_bind_addr(l, (struct sockaddr *)at), "rdma_bind_addr");
	check(!rdma_listen(l, 10), "rdma_listen");
	puts("ready");
	fflush(stdout);
	do {
		check(!rdma_get_cm_event(ch, &ev), "rdma_get_cm_event");
	} while (ev->event != RDMA_CM_EVENT_CONNECT_REQUEST ||
		 ev->param.conn.private_data_len < len);
	memcpy(data, ev->param.conn.private_data, len);
	id = ev->id;
	show(ev);
	rdma_ack_cm_event(ev);
	rdma_destroy_id(l);
	puts("holding");
	fflush(stdout);
	return id;
}

static void relay(char **argv)
{
	struct sockaddr_in at = address(argv);
	char own[112 + 1], same[112 + 1], port[16], how[16], line[64];
	char *args[] = { argv[0], port, NULL, NULL };
	struct rdma_cm_id *id;
	uint8_t data[56];
	size_t i;

	id = keep(&at, data, sizeof(data));
	for (i = 0; i < sizeof(data); i++)
		sprintf(same + 2 * i, "%02x", data[i]);
	/* where the key of the ring is, since the second version */
	data[28] ^= 0xff;
	for (i = 0; i < sizeof(data); i++)
		sprintf(own + 2 * i, "%02x", data[i]);
	while (fgets(line, sizeof(line), stdin) &&
	       sscanf(line, "%15s %15s", how, port) == 2) {
		args[2] = strcmp(how, "own") ? same : own;
		ask(args, 1);
		printf("asked %s %s\n", how, port);
		fflush(stdout);
	}
	rdma_reject(id, NULL, 0);
}

int main(int argc, char **argv)
{
	if (argc > 4 && argc < MAX && !strcmp(argv[1], "ask"))
		ask(argv + 2, argc - 4);
	else if (argc == 5 && !strcmp(argv[1], "answer"))
		answer(argv + 2);
	else if (argc == 4 && !strcmp(argv[1], "relay"))
		relay(argv + 2);
	else
		return 2;
	return 0;
}
