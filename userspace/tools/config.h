/* SPDX-License-Identifier: GPL-2.0 */
/* The rules of the policy, as l5run checks them: see preload/rules.h. */
#ifndef L5_TOOLS_CONFIG_H
#define L5_TOOLS_CONFIG_H

#include <stdbool.h>

/**
 * config_read() - read all rules, and say what is wrong with them
 * @named: the file to read instead of the usual ones, or NULL
 *
 * The environment is told of @named. What the user asked for has to be right:
 * if it is not, this process ends.
 */
void config_read(const char *named);

/* Are there any rules? */
bool config_any(void);

/**
 * config_off() - may a program have no AF_L5 sockets?
 * @exe: its path
 * @name: what it was called
 *
 * A rule about a port or an address turns off whatever is not known to be
 * elsewhere.
 *
 * Return: NULL, or why not.
 */
const char *config_off(const char *exe, const char *name);

#endif /* L5_TOOLS_CONFIG_H */
