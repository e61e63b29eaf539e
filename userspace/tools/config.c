// SPDX-License-Identifier: GPL-2.0
/* The rules of the policy: see config.h. */
#define _GNU_SOURCE
#include <err.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../lib/l5_env.h"
#include "../preload/rules.h"
#include "config.h"
#include "exits.h"

/* In the order in which they were read, those with faults left out. */
static struct l5_rule *rules;
static size_t n_rules;

static void keep(const struct l5_rule *rule)
{
	rules = reallocarray(rules, n_rules + 1, sizeof(*rules));
	if (!rules)
		err(EXIT_SELF, NULL);
	rules[n_rules++] = *rule;
}

/* Say what is wrong with a rule, if anything. Returns the number of faults. */
static int take_rule(const char *where, int number, const char *s, size_t len)
{
	struct l5_rule rule;
	const char *error = l5_rule_parse(s, len, &rule);

	if (!error)
		keep(&rule);
	if (!error || !*error)
		return 0;
	warnx("%s:%d: %s", where, number, error);
	return 1;
}

static void take_policy(const char *s)
{
	int number = 0, bad = 0;
	size_t len;

	for (; s && *s; s += len + (s[len] == ';')) {
		len = strcspn(s, ";");
		bad += take_rule(L5_ENV_POLICY, ++number, s, len);
	}
	if (bad)
		exit(EXIT_SELF);
}

/* Say what is wrong in a file of rules. Returns the number of bad lines. */
static int take_file(const char *path, FILE *f)
{
	static const struct l5_rule off = { .action = L5_ACT_OFF };
	size_t size = 0, total = 0;
	char *line = NULL;
	int number = 0, bad = 0;
	ssize_t n;

	while ((n = getline(&line, &size, f)) >= 0) {
		number++;
		total += n;
		if (total > L5_CONF_MAX) {
			warnx("%s:%d: more than %d bytes: the rest is off",
			      path, number, L5_CONF_MAX);
			keep(&off);
			bad++;
			break;
		}
		if (n && line[n - 1] == '\n')
			n--;
		bad += take_rule(path, number, line, n);
	}
	if (ferror(f)) {
		warn("%s:%d: the rest is off", path, number + 1);
		keep(&off);
		bad++;
	}
	free(line);
	return bad;
}

static void take_named(const char *named)
{
	FILE *f = fopen(named, "re");
	char *full;

	if (!f)
		err(EXIT_SELF, "%s", named);
	if (take_file(named, f))
		exit(EXIT_SELF);
	fclose(f);
	/* the program may go elsewhere */
	full = realpath(named, NULL);
	if (full && setenv(L5_ENV_CONF, full, 1))
		err(EXIT_SELF, "setenv %s", L5_ENV_CONF);
	free(full);
}

/* The file that was named has to be right, the others are only warned about. */
static void take_files(const char *named)
{
	const char *home = getenv("HOME");
	char *paths[2] = { NULL, NULL };
	FILE *f;
	int i;

	if (!named)
		named = getenv(L5_ENV_CONF);
	if (named && *named) {
		take_named(named);
		return;
	}
	if (home && *home && asprintf(&paths[0], "%s" L5_CONF_HOME, home) < 0)
		err(EXIT_SELF, NULL);
	paths[1] = strdup(L5_CONF_ETC);
	for (i = 0; i < 2; i++) {
		f = paths[i] ? fopen(paths[i], "re") : NULL;
		if (f) {
			take_file(paths[i], f);
			fclose(f);
		}
		free(paths[i]);
	}
}

void config_read(const char *named)
{
	take_policy(getenv(L5_ENV_POLICY));
	take_files(named);
}

bool config_any(void)
{
	return n_rules;
}

const char *config_off(const char *exe, const char *name)
{
	const struct l5_rule *r;

	for (r = rules; r < rules + n_rules; r++) {
		if (!l5_rule_program(r, exe, name))
			continue;
		if (r->has_port || r->has_address) {
			if (r->action == L5_ACT_OFF)
				return "the policy is off for some places";
			continue;
		}
		return r->action == L5_ACT_OFF ? "the policy says so" : NULL;
	}
	return NULL;
}
