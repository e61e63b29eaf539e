// SPDX-License-Identifier: GPL-2.0
/*
 * restart server|client PORT: a server of one connection, without SO_REUSEADDR,
 * that sends back what comes until its client has closed, and ends; and that
 * client.
 */
#include <arpa/inet.h>
#include <err.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TALKS	20

static void serve(int fd)
{
	char buf[1000];
	ssize_t n;
	int c;

	c = accept(fd, NULL, NULL);
	if (c < 0)
		err(1, "accept");
	while ((n = read(c, buf, sizeof(buf))) > 0)
		if (write(c, buf, n) != n)
			err(1, "write");
	if (n)
		err(1, "read");
	if (close(c) || close(fd))
		err(1, "close");
}

static void talk(int fd)
{
	char out[1000], in[1000];
	int i;

	for (i = 0; i < TALKS; i++) {
		memset(out, i + 1, sizeof(out));
		if (write(fd, out, sizeof(out)) != sizeof(out))
			err(1, "write");
		if (recv(fd, in, sizeof(in), MSG_WAITALL) != sizeof(in))
			err(1, "recv");
		if (memcmp(in, out, sizeof(in)))
			errx(1, "something else came back");
	}
	if (close(fd))
		err(1, "close");
}

int main(int argc, char **argv)
{
	struct sockaddr_in a = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (argc != 3 || fd < 0)
		err(2, "server|client PORT");
	alarm(100);
	a.sin_port = htons(atoi(argv[2]));
	if (!strcmp(argv[1], "server")) {
		if (bind(fd, (struct sockaddr *)&a, sizeof(a)))
			err(1, "bind");
		if (listen(fd, 5))
			err(1, "listen");
		serve(fd);
	} else {
		if (connect(fd, (struct sockaddr *)&a, sizeof(a)))
			err(1, "connect");
		talk(fd);
	}
	return 0;
}
