// SPDX-License-Identifier: GPL-2.0
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox.h"
#include "say.h"

#define LINE_MAX_LEN	200

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

void say(const char *format, ...)
{
	char line[LINE_MAX_LEN];
	int saved = errno;
	size_t at = 0;
	va_list ap;
	ssize_t n;

	if (!say_wanted || sandbox_careful())
		return;
	at = put(line, at, "l5: ");
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
	n = syscall(SYS_write, STDERR_FILENO, line, at);
	(void)n;
	errno = saved;
}
