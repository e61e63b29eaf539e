// SPDX-License-Identifier: GPL-2.0
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "text.h"

void text_take(int fd, char *text, size_t size)
{
	ssize_t n = pread(fd, text, size - 1, 0);

	text[n > 0 ? n : 0] = '\0';
	close(fd);
}

int text_times(const char *text, const char *what)
{
	int n = 0;

	while ((text = strstr(text, what))) {
		text += strlen(what);
		n++;
	}
	return n;
}
