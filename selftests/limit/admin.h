/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What tests of administration share: how they begin, and the files by which
 * sockets are denied rings and connections are ended. After the harness.
 */
#ifndef LIMIT_ADMIN_H
#define LIMIT_ADMIN_H

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "l5test.h"
#include "users.h"

/* A fixture that leaves limits of the host as it found them. */
#define ADMIN_FIXTURE(name)						\
	FIXTURE(name) { long host_max; long user_max; };		\
	FIXTURE_SETUP(name)						\
	{								\
		l5_or_skip();						\
		signal(SIGPIPE, SIG_IGN);				\
		self->host_max =					\
			l5_number("/proc/sys/net/l5/host_max_kb");	\
		self->user_max =					\
			l5_number("/proc/sys/net/l5/user_max_kb");	\
	}								\
	FIXTURE_TEARDOWN(name)						\
	{								\
		l5_sysctl("host_max_kb", self->host_max);		\
		l5_sysctl("user_max_kb", self->user_max);		\
	}

#define DENY	"/proc/self/net/l5_deny"
#define REVOKE	"/proc/self/net/l5_revoke"

/* The errno of writing a line, 0 if it was taken. */
static inline int say(const char *file, const char *fmt, ...)
{
	char line[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	return put_text(file, line) ? 0 : errno;
}

static inline bool rules_are(const char *want)
{
	char have[512] = "";
	int fd = open(DENY, O_RDONLY | O_CLOEXEC);
	ssize_t n = read(fd, have, sizeof(have) - 1);

	close(fd);
	if (n >= 0 && !strcmp(have, want))
		return true;
	fprintf(stderr, "# rules: '%s'\n", have);
	return false;
}

/* An address of each kind of bootstrap */
static const char *const everywhere[] = {
	"127.0.0.1:0", "[::1]:0", "abstract:l5_admin_deny",
};

#endif /* LIMIT_ADMIN_H */
