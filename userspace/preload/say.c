// SPDX-License-Identifier: GPL-2.0
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifdef L5_FULL
#include "sandbox.h"
#endif
#include "say.h"

#ifndef L5_FULL
/* Mode socket makes no calls later than the program's own. */
static bool sandbox_careful(void)
{
	return false;
}
#endif

#define LINE_MAX_LEN	320

bool say_wanted;

static size_t put(char *line, size_t at, const char *s)
{
	while (*s && at < LINE_MAX_LEN - 1)
		line[at++] = *s++;
	return at;
}

static size_t put_int(char *line, size_t at, int value)
{
	unsigned int v = value < 0 ? 0U - value : (unsigned int)value;
	char digits[16];
	int i = sizeof(digits) - 1;

	digits[i] = '\0';
	do
		digits[--i] = '0' + v % 10;
	while (v /= 10);
	if (value < 0)
		digits[--i] = '-';
	return put(line, at, &digits[i]);
}

/*
 * Standard error may be what a service speaks its protocol on: a connection
 * that inetd(8) gave it, also as its input. A socket of another kind is a log.
 */
static bool may_say(void)
{
	int domain = AF_UNSPEC;
	socklen_t len = sizeof(domain);
	struct stat in, out;

	if (syscall(SYS_fstat, STDERR_FILENO, &out))
		return false;
	if (!S_ISSOCK(out.st_mode))
		return true;
	if (syscall(SYS_getsockopt, STDERR_FILENO, SOL_SOCKET, SO_DOMAIN,
		    &domain, &len) || domain != AF_UNIX)
		return false;
	return syscall(SYS_fstat, STDIN_FILENO, &in) ||
	       in.st_dev != out.st_dev || in.st_ino != out.st_ino;
}

/* A line that the program did not write is not to end it. */
static void write_line(const char *line, size_t len)
{
	static const struct timespec now;
	const unsigned long pipe = 1ul << (SIGPIPE - 1);
	unsigned long before, pending = 0;
	long n;

	syscall(SYS_rt_sigprocmask, SIG_BLOCK, &pipe, &before, sizeof(pipe));
	syscall(SYS_rt_sigpending, &pending, sizeof(pending));
	n = syscall(SYS_write, STDERR_FILENO, line, len);
	if (n < 0 && errno == EPIPE && !(pending & pipe))
		syscall(SYS_rt_sigtimedwait, &pipe, NULL, &now, sizeof(pipe));
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(before));
}

void say(const char *format, ...)
{
	char line[LINE_MAX_LEN];
	int saved = errno;
	size_t at = 0;
	va_list ap;

	if (!say_wanted || sandbox_careful() || !may_say())
		goto out;
	at = put(line, at, "l5: pid ");
	at = put_int(line, at, syscall(SYS_getpid));
	at = put(line, at, " ");
	at = put(line, at, program_invocation_short_name);
	at = put(line, at, ": ");
	va_start(ap, format);
	for (; *format; format++) {
		if (*format != '%') {
			if (at < LINE_MAX_LEN - 1)
				line[at++] = *format;
			continue;
		}
		if (*++format == 's')
			at = put(line, at, va_arg(ap, const char *));
		else
			at = put_int(line, at, va_arg(ap, int));
	}
	va_end(ap);
	line[at++] = '\n';
	write_line(line, at);
out:
	errno = saved;
}
