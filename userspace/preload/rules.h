/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A line of the policy: conditions that must all hold, and what then applies.
 *
 *	program NAME		its name or path; * and ? as in a shell
 *	port N[-M]		of the service: that is connected to, or accepts
 *	address A[/LENGTH]	of the service
 *
 *	off			plain sockets
 *	on			as l5run was told
 *	mode socket|full
 *
 * "#" begins a comment. The first line that matches decides. The library and
 * l5run read these with the same code; the library tells of bad lines only
 * under L5_DEBUG.
 */
#ifndef L5_RULES_H
#define L5_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	L5_RULES_MAX = 64,		/* with places, about one program */
	L5_CONF_MAX = 64 << 10,		/* bytes of a file */
};

enum l5_action { L5_ACT_OFF, L5_ACT_SOCKET, L5_ACT_FULL, L5_ACT_ON };

/**
 * struct l5_rule - a line
 * @program: "" is any
 * @has_port: whether there is a condition on the port
 * @has_address: whether there is one on the address
 * @low: first port
 * @high: last port
 * @address: IPv6, or IPv4 mapped to it
 * @bits: how many bits of the address count
 * @action: what then applies
 */
struct l5_rule {
	char program[128];
	bool has_port;
	bool has_address;
	uint16_t low;
	uint16_t high;
	uint8_t address[16];
	uint8_t bits;
	enum l5_action action;
};

/**
 * l5_rule_parse() - read a line
 * @line: text without the newline
 * @len: of it
 * @rule: where to
 *
 * Calls nothing that allocates or locks.
 *
 * Return: NULL if there is a rule; "" if the line is empty; else what is wrong.
 */
const char *l5_rule_parse(const char *line, size_t len, struct l5_rule *rule);

/**
 * l5_rule_program() - is it about this program?
 * @rule: the rule
 * @path: of the program
 * @name: what it was called
 */
bool l5_rule_program(const struct l5_rule *rule, const char *path,
		     const char *name);

/**
 * l5_rule_place() - is it about this place?
 * @rule: the rule
 * @address: as in the rule, NULL if the socket has none (AF_UNIX)
 * @port: in host order
 */
bool l5_rule_place(const struct l5_rule *rule, const uint8_t *address,
		   uint16_t port);

#endif /* L5_RULES_H */
