// SPDX-License-Identifier: GPL-2.0
/*
 * A library to be loaded past the preloaded ones: it calls libc's own
 * functions.
 */
#include <sys/socket.h>
#include <unistd.h>

int deep_socket(void);
ssize_t deep_read(int fd, void *buf, size_t n);
ssize_t deep_write(int fd, const void *buf, size_t n);

int deep_socket(void)
{
	return socket(AF_INET, SOCK_STREAM, 0);
}

ssize_t deep_read(int fd, void *buf, size_t n)
{
	return read(fd, buf, n);
}

ssize_t deep_write(int fd, const void *buf, size_t n)
{
	return write(fd, buf, n);
}
