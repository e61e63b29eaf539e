// SPDX-License-Identifier: GPL-2.0
/*
 * Makes sockets in the places where a preload library may go wrong, and says
 * for each what it got: "WHERE: l5", "WHERE: plain" or "WHERE: error NAME".
 * The sockets are asked past the library, by bare system calls.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../uapi/l5.h"

#define THREADS 8
#define ROUNDS 50

static int is_l5(int fd)
{
	int transport;
	socklen_t len = sizeof(transport);

	return !syscall(SYS_getsockopt, fd, SOL_L5, L5_TRANSPORT, &transport,
			&len);
}

static const char *kind(int fd)
{
	return is_l5(fd) ? "l5" : "plain";
}

static void say(const char *where, int fd)
{
	if (fd < 0)
		printf("%s: error %s\n", where, strerrorname_np(errno));
	else
		printf("%s: %s\n", where, kind(fd));
	if (fd >= 0)
		close(fd);
}

/* Before the constructors of libraries that come after us in the list. */
static int early_fd = -1;

__attribute__((constructor(101))) static void early(void)
{
	early_fd = socket(AF_INET, SOCK_STREAM, 0);
}

static volatile sig_atomic_t signal_fd;

static void on_signal(int sig)
{
	(void)sig;
	signal_fd = socket(AF_INET, SOCK_STREAM, 0);
}

static void *many(void *arg)
{
	long *l5 = arg;
	int i, fd;

	for (i = 0; i < ROUNDS; i++) {
		fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd >= 0) {
			*l5 += is_l5(fd);
			close(fd);
		}
	}
	return NULL;
}

static void option(const char *name, int fd, int which)
{
	int value = -1;
	socklen_t len = sizeof(value);

	if (getsockopt(fd, SOL_SOCKET, which, &value, &len))
		value = -errno;
	printf("%s: %d %u\n", name, value, len);
}

/* A buffer shorter than an int gets as much as fits and no more. */
static void short_option(int fd)
{
	unsigned char value[4] = { 0xaa, 0xaa, 0xaa, 0xaa };
	socklen_t len = 1;
	int ret = getsockopt(fd, SOL_SOCKET, SO_DOMAIN, value, &len);

	printf("short SO_DOMAIN: %d %u %x%x%x%x\n", ret, len, value[0],
	       value[1], value[2], value[3]);
}

static void flags(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
			IPPROTO_TCP);

	printf("flags: %s nonblock %d cloexec %d\n", kind(fd),
	       !!(fcntl(fd, F_GETFL) & O_NONBLOCK),
	       !!(fcntl(fd, F_GETFD) & FD_CLOEXEC));
	close(fd);
}

static void kept_errno(void)
{
	int fd;

	errno = ENOTTY;
	fd = socket(AF_INET, SOCK_STREAM, 0);
	printf("errno: %s\n", errno == ENOTTY ? "kept" : "changed");
	close(fd);
}

static void no_files(void)
{
	struct rlimit old, none = { 0, 0 };

	fflush(stdout);
	getrlimit(RLIMIT_NOFILE, &old);
	none.rlim_max = old.rlim_max;
	setrlimit(RLIMIT_NOFILE, &none);
	say("no files", socket(AF_INET, SOCK_STREAM, 0));
	setrlimit(RLIMIT_NOFILE, &old);
}

static void vforked(void)
{
	int status = 0;
	pid_t pid;

	fflush(stdout);
	pid = vfork();
	if (!pid) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		_exit(fd < 0 ? 2 : is_l5(fd));
	}
	waitpid(pid, &status, 0);
	printf("vfork: %s\n", WEXITSTATUS(status) == 1 ? "l5" : "plain");
}

static void threads(void)
{
	pthread_t t[THREADS];
	long l5[THREADS] = { 0 }, sum = 0;
	int i;

	for (i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, many, &l5[i]);
	for (i = 0; i < THREADS; i++) {
		pthread_join(t[i], NULL);
		sum += l5[i];
	}
	printf("threads: %ld of %d\n", sum, THREADS * ROUNDS);
}

/* Set and read back. */
static void set_option(const char *name, int af, int which)
{
	int fd = socket(af, SOCK_STREAM, 0), value = 1;
	socklen_t len = sizeof(value);

	if (setsockopt(fd, SOL_SOCKET, which, &value, sizeof(value))) {
		printf("%s: error %s\n", name, strerrorname_np(errno));
	} else {
		value = -1;
		getsockopt(fd, SOL_SOCKET, which, &value, &len);
		printf("%s: %d\n", name, value);
	}
	close(fd);
}

int main(void)
{
	int fd, pair[2];

	say("constructor", early_fd);
	say("inet", socket(AF_INET, SOCK_STREAM, 0));
	say("inet6", socket(AF_INET6, SOCK_STREAM, 0));
	say("unix", socket(AF_UNIX, SOCK_STREAM, 0));
	say("udp", socket(AF_INET, SOCK_DGRAM, 0));
	say("unix dgram", socket(AF_UNIX, SOCK_DGRAM, 0));
	say("seqpacket", socket(AF_UNIX, SOCK_SEQPACKET, 0));
	say("mptcp", socket(AF_INET, SOCK_STREAM, 262));
	say("bad family", socket(12345, SOCK_STREAM, 0));
	say("bad type", socket(AF_INET, SOCK_STREAM | 0x40000000, 0));
	say("bad protocol", socket(AF_INET, SOCK_STREAM, IPPROTO_UDP));
	if (!socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) {
		say("socketpair", pair[0]);
		close(pair[1]);
	}
	signal(SIGUSR1, on_signal);
	raise(SIGUSR1);
	say("signal", signal_fd);
	flags();
	kept_errno();
	no_files();
	vforked();
	threads();
	fd = socket(AF_INET, SOCK_STREAM, 0);
	option("inet SO_DOMAIN", fd, SO_DOMAIN);
	option("inet SO_PROTOCOL", fd, SO_PROTOCOL);
	option("inet SO_TYPE", fd, SO_TYPE);
	short_option(fd);
	close(fd);
	fd = socket(AF_INET6, SOCK_STREAM, 0);
	option("inet6 SO_DOMAIN", fd, SO_DOMAIN);
	option("inet6 SO_PROTOCOL", fd, SO_PROTOCOL);
	close(fd);
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	option("unix SO_DOMAIN", fd, SO_DOMAIN);
	option("unix SO_PROTOCOL", fd, SO_PROTOCOL);
	close(fd);
	set_option("inet set SO_REUSEPORT", AF_INET, SO_REUSEPORT);
	set_option("inet6 set SO_REUSEPORT", AF_INET6, SO_REUSEPORT);
	set_option("unix set SO_REUSEPORT", AF_UNIX, SO_REUSEPORT);
	set_option("inet set SO_PEEK_OFF", AF_INET, SO_PEEK_OFF);
	set_option("inet set SO_KEEPALIVE", AF_INET, SO_KEEPALIVE);
	set_option("inet set option -1", AF_INET, -1);
	errno = 0;
	printf("setsockopt(-1): %d", setsockopt(-1, SOL_SOCKET, SO_REUSEPORT,
						"\1\0\0", 4));
	printf(" %s\n", strerrorname_np(errno));
	return 0;
}
