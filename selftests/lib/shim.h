/* SPDX-License-Identifier: GPL-2.0 */
/*
 * For tests of the preload library: the program runs itself again under it.
 * Include from a test program only: it brings the kselftest harness.
 */
#ifndef SHIM_H
#define SHIM_H

#include <kselftest_harness.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "l5test.h"

#define SHIM_AGAIN	"L5_TEST_UNDER_SHIM"
/* Mapped after so many calls. */
#define SHIM_AFTER	4

/* Before main(), since the library has to be there from the start. */
__attribute__((constructor)) static void shim_again(int argc, char **argv)
{
	char self[PATH_MAX], lib[PATH_MAX + 64];
	ssize_t n;

	(void)argc;
	if (getenv(SHIM_AGAIN))
		return;
	n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (n < 0)
		abort();
	self[n] = '\0';
	snprintf(lib, sizeof(lib),
		 "%s/../../../userspace/bin/libl5preload.so", dirname(self));
	if (access(lib, R_OK)) {
		fprintf(stderr, "%s: %m\n", lib);
		exit(1);
	}
	setenv("LD_PRELOAD", lib, 1);
	setenv("L5_MAP_AFTER", "4", 0);
	setenv("L5_SOCKETS", "inet", 1);
	setenv("L5_CONF", "/dev/null", 0);
	setenv("L5_MODE", "full", 1);
	setenv(SHIM_AGAIN, "1", 1);
	execv("/proc/self/exe", argv);
	abort();
}

enum kind { TCP, L5 };

/* The library redirects socket() and does not see system calls. */
static inline int shim_socket(enum kind kind, int flags)
{
	if (kind == TCP)
		return syscall(SYS_socket, AF_INET, SOCK_STREAM | flags, 0);
	return socket(AF_INET, SOCK_STREAM | flags, 0);
}

static inline bool shim_listen(enum kind kind, int *l, struct sockaddr_in *sa)
{
	socklen_t len = sizeof(*sa);

	*sa = (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	*l = shim_socket(kind, SOCK_CLOEXEC);
	return *l >= 0 && !bind(*l, (struct sockaddr *)sa, len) &&
	       !listen(*l, 64) && !getsockname(*l, (struct sockaddr *)sa, &len);
}

/* A connection; @a connected, @b was accepted. */
static inline bool shim_pair(enum kind kind, int *a, int *b)
{
	struct sockaddr_in sa;
	int l, one = 1;

	if (!shim_listen(kind, &l, &sa))
		return false;
	*a = shim_socket(kind, 0);
	if (*a < 0 || connect(*a, (struct sockaddr *)&sa, sizeof(sa)))
		return false;
	*b = accept(l, NULL, NULL);
	close(l);
	setsockopt(*a, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(*b, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return *b >= 0;
}

/* A byte there and one back, @n times. */
static inline bool shim_trips(int a, int b, int n)
{
	char c;

	while (n--)
		if (write(a, "w", 1) != 1 || read(b, &c, 1) != 1 ||
		    write(b, "v", 1) != 1 || read(a, &c, 1) != 1)
			return false;
	return true;
}

/* How many connection ends has this process mapped? */
static inline int shim_maps(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[512];
	int n = 0;

	while (f && fgets(line, sizeof(line), f))
		n += !!strstr(line, "[l5]");
	if (f)
		fclose(f);
	/* what it writes, and what it reads */
	return n / 2;
}

static inline ssize_t raw_read(int fd, void *buf, size_t n)
{
	return syscall(SYS_read, fd, buf, n);
}

static inline ssize_t raw_write(int fd, const void *buf, size_t n)
{
	return syscall(SYS_write, fd, buf, n);
}

/* Exchange enough for both to be mapped. */
static inline bool shim_warm(int a, int b)
{
	char c;
	int i;

	for (i = 0; i < 4 * SHIM_AFTER; i++)
		if (write(a, "w", 1) != 1 || read(b, &c, 1) != 1 ||
		    write(b, "v", 1) != 1 || read(a, &c, 1) != 1)
			return false;
	return true;
}

/*
 * SHIM_TEST(name) { ... }: a test with time enough for a busy machine. SHIM is
 * what the program calls its fixture; it is defined before this is included.
 */
#define SHIM_FIXTURE(set)						\
	FIXTURE(set) { };						\
	FIXTURE_SETUP(set)						\
	{								\
		(void)self;						\
		l5_or_skip();						\
	}								\
	FIXTURE_TEARDOWN(set) { (void)self; (void)_metadata; }

SHIM_FIXTURE(SHIM)

#define SHIM_TEST(name) TEST_F_TIMEOUT(SHIM, name, 200)

#define WARM_PAIR(kind, a, b)						\
	do {								\
		int before = shim_maps();				\
									\
		ASSERT_TRUE(shim_pair((kind), &(a), &(b)));		\
		ASSERT_TRUE(shim_warm((a), (b)));			\
		if ((kind) == L5)					\
			ASSERT_EQ(before + 2, shim_maps());		\
	} while (0)

#endif /* SHIM_H */
