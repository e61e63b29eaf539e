// SPDX-License-Identifier: GPL-2.0
/* Lines of the policy: see rules.h. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fnmatch.h>
#include <string.h>

#include "rules.h"

static const uint8_t v4_mapped[12] = { [10] = 0xff, [11] = 0xff };

struct words {
	const char *at;
	const char *end;
};

static bool blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* The next word, copied; false if there is none, or none that fits. */
static bool next_word(struct words *w, char *word, size_t size)
{
	size_t n = 0;

	while (w->at < w->end && blank(*w->at))
		w->at++;
	while (w->at < w->end && !blank(*w->at) && *w->at != '#') {
		if (n + 1 >= size)
			return false;
		word[n++] = *w->at++;
	}
	word[n] = '\0';
	return n;
}

/* A decimal number up to @max at the start of *@s, which moves behind it. */
static bool number(const char **s, unsigned int max, unsigned int *value)
{
	const char *p = *s;

	for (*value = 0; *p >= '0' && *p <= '9'; p++) {
		*value = *value * 10 + (*p - '0');
		if (*value > max)
			return false;
	}
	if (p == *s)
		return false;
	*s = p;
	return true;
}

static bool parse_port(const char *s, struct l5_rule *r)
{
	unsigned int low, high;

	if (!number(&s, 65535, &low))
		return false;
	high = low;
	if (*s == '-') {
		s++;
		if (!number(&s, 65535, &high))
			return false;
	}
	r->low = low;
	r->high = high;
	return !*s && low <= high;
}

static bool parse_address(char *s, struct l5_rule *r)
{
	char *slash = strchr(s, '/');
	const char *len = slash + 1;
	unsigned int bits, max = 128;

	if (slash)
		*slash = '\0';
	if (inet_pton(AF_INET6, s, r->address) != 1) {
		memcpy(r->address, v4_mapped, sizeof(v4_mapped));
		if (inet_pton(AF_INET, s, r->address + 12) != 1)
			return false;
		max = 32;
	}
	bits = max;
	if (slash && (!number(&len, max, &bits) || *len))
		return false;
	r->bits = bits + (128 - max);
	return true;
}

static const char *parse_condition(const char *word, struct words *w,
				   struct l5_rule *r)
{
	char value[sizeof(r->program)];

	if (strcmp(word, "program") && strcmp(word, "port") &&
	    strcmp(word, "address"))
		return "expected program, port, address, on, off or mode";
	if (!next_word(w, value, sizeof(value)))
		return "a value is missing or too long";
	switch (word[1]) {
	case 'r':
		strcpy(r->program, value);
		return NULL;
	case 'o':
		r->has_port = true;
		return parse_port(value, r) ? NULL : "not a port or a range";
	default:
		r->has_address = true;
		return parse_address(value, r) ? NULL : "not an address";
	}
}

static bool parse_action(const char *word, struct words *w, struct l5_rule *r,
			 const char **error)
{
	char mode[8] = "";

	*error = NULL;
	if (!strcmp(word, "off")) {
		r->action = L5_ACT_OFF;
		return true;
	}
	if (!strcmp(word, "on")) {
		r->action = L5_ACT_ON;
		return true;
	}
	if (strcmp(word, "mode"))
		return false;
	next_word(w, mode, sizeof(mode));
	if (!strcmp(mode, "full"))
		r->action = L5_ACT_FULL;
	else if (!strcmp(mode, "socket"))
		r->action = L5_ACT_SOCKET;
	else
		*error = "mode: expected full or socket";
	return true;
}

const char *l5_rule_parse(const char *line, size_t len, struct l5_rule *rule)
{
	struct words w = { line, line + len };
	const char *error = "";
	char word[16];

	memset(rule, 0, sizeof(*rule));
	while (w.at < w.end && blank(*w.at))
		w.at++;
	if (w.at == w.end || *w.at == '#')
		return "";
	for (;;) {
		if (!next_word(&w, word, sizeof(word)))
			return "what applies is missing: on, off or mode";
		if (parse_action(word, &w, rule, &error))
			break;
		error = parse_condition(word, &w, rule);
		if (error)
			return error;
	}
	if (error)
		return error;
	while (w.at < w.end && blank(*w.at))
		w.at++;
	return w.at < w.end && *w.at != '#' ? "more than one rule" : NULL;
}

bool l5_rule_program(const struct l5_rule *rule, const char *path,
		     const char *name)
{
	const char *base = strrchr(path, '/');

	if (!rule->program[0])
		return true;
	if (strchr(rule->program, '/'))
		return !fnmatch(rule->program, path, 0);
	return !fnmatch(rule->program, base ? base + 1 : path, 0) ||
	       !fnmatch(rule->program, name, 0);
}

static bool same_bits(const uint8_t *a, const uint8_t *b, unsigned int bits)
{
	unsigned int rest = bits % 8;

	if (memcmp(a, b, bits / 8))
		return false;
	return !rest || !((a[bits / 8] ^ b[bits / 8]) >> (8 - rest));
}

bool l5_rule_place(const struct l5_rule *rule, const uint8_t *address,
		   uint16_t port)
{
	if ((rule->has_port || rule->has_address) && !address)
		return false;
	if (rule->has_port && (port < rule->low || port > rule->high))
		return false;
	return !rule->has_address ||
	       same_bits(rule->address, address, rule->bits);
}
