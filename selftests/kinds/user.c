// SPDX-License-Identifier: GPL-2.0
/*
 * A program with sockets, to be built in every way that there is: see
 * ../shim/kinds.c. It knows nothing of this project but how to tell what a
 * socket is, and says on stdout what it got: "l5" or "tcp", and how many
 * connection ends are mapped; status 42 if all went well.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#ifndef NO_DLOPEN
#include <dlfcn.h>
#endif
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "l5.h"

enum { GOOD = 42, ROUNDS = 100 };

static void need(int ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(1);
}

static int listener(void)
{
	int l = socket(AF_INET, SOCK_STREAM, 0);

	need(l >= 0 && !listen(l, 8), "listen");
	return l;
}

static void pair(int l, int *a, int *b)
{
	struct sockaddr_in sa;
	socklen_t len = sizeof(sa);
	int one = 1;

	need(!getsockname(l, (struct sockaddr *)&sa, &len), "getsockname");
	sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	*a = socket(AF_INET, SOCK_STREAM, 0);
	need(*a >= 0, "socket");
	need(!connect(*a, (struct sockaddr *)&sa, sizeof(sa)), "connect");
	*b = accept(l, NULL, NULL);
	need(*b >= 0, "accept");
	setsockopt(*a, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(*b, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

static void exchange(int from, int to)
{
	char c = 0;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		need(write(from, "x", 1) == 1, "write");
		need(read(to, &c, 1) == 1 && c == 'x', "read");
		need(write(to, "y", 1) == 1, "write");
		need(read(from, &c, 1) == 1 && c == 'y', "read");
	}
}

static int maps(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];
	int n = 0;

	while (f && fgets(line, sizeof(line), f))
		n += !!strstr(line, "[l5]");
	if (f)
		fclose(f);
	/* what it writes, and what it reads */
	return n / 2;
}

static int tell(int fd)
{
	int transport;
	socklen_t len = sizeof(transport);

	printf("%s %d\n", getsockopt(fd, SOL_L5, L5_TRANSPORT, &transport,
				     &len) ? "tcp" : "l5", maps());
	fflush(stdout);
	return GOOD;
}

/* Sleep without libc, whose sleep() may be another library's. */
static void nap(int ms)
{
	struct timespec t = { 0, ms * 1000000L };

	syscall(SYS_ppoll, NULL, 0, &t, NULL, 0);
}

/* Answers everything after a while, until the other end closes. */
static pid_t start_slow(int fd, int other)
{
	pid_t pid = fork();
	char c;

	need(pid >= 0, "fork");
	if (pid)
		return pid;
	close(other);
	while (read(fd, &c, 1) == 1) {
		nap(c);
		if (write(fd, &c, 1) != 1)
			break;
	}
	_exit(0);
}

/* Each way to wait: for what comes late, and for nothing. */
static void wait_all_ways(int fd)
{
	struct timeval tv = { 0, 20000 }, t;
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct epoll_event ev = { .events = EPOLLIN };
	int ep = epoll_create1(0), i;
	char c = 1;
	fd_set r;

	need(!epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev), "epoll_ctl");
	for (i = 0; i < 40; i++) {
		c = i % 8 ? 0 : 3;
		need(write(fd, &c, 1) == 1, "write");
		if (i % 4 == 1)
			need(poll(&p, 1, 60000) == 1, "poll");
		if (i % 4 == 2)
			need(epoll_wait(ep, &ev, 1, 60000) == 1, "epoll_wait");
		if (i % 4 == 3) {
			FD_ZERO(&r);
			FD_SET(fd, &r);
			t = (struct timeval){ 60, 0 };
			need(select(fd + 1, &r, NULL, NULL, &t) == 1, "select");
		}
		need(read(fd, &c, 1) == 1, "read");
	}
	need(!setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)),
	     "SO_RCVTIMEO");
	for (i = 0; i < 3; i++) {
		need(!poll(&p, 1, 20), "idle poll");
		need(!epoll_wait(ep, &ev, 1, 20), "idle epoll_wait");
		FD_ZERO(&r);
		FD_SET(fd, &r);
		t = tv;
		need(!select(fd + 1, &r, NULL, NULL, &t), "idle select");
		need(read(fd, &c, 1) == -1, "idle read");
	}
	close(ep);
}

static int do_slow(int l)
{
	int a, b, status, ret;
	pid_t pid;

	pair(l, &a, &b);
	pid = start_slow(b, a);
	close(b);
	wait_all_ways(a);
	ret = tell(a);
	close(a);
	need(waitpid(pid, &status, 0) == pid && !status, "server");
	return ret;
}

/*
 * Memory that the other thread wrote before it sent is there once the bytes
 * arrived.
 */
static int shared;

static void *reader(void *arg)
{
	int fd = *(int *)arg, i;
	char c;

	for (i = 0; i < ROUNDS; i++) {
		need(read(fd, &c, 1) == 1, "read");
		need(++shared == 2 * i + 2, "shared");
		need(write(fd, &c, 1) == 1, "write");
	}
	return NULL;
}

static int do_threads(int l)
{
	int a, b, i;
	pthread_t t;
	char c = 'c';

	pair(l, &a, &b);
	need(!pthread_create(&t, NULL, reader, &b), "thread");
	for (i = 0; i < ROUNDS; i++) {
		need(++shared == 2 * i + 1, "shared");
		need(write(a, &c, 1) == 1, "write");
		need(read(a, &c, 1) == 1, "read");
	}
	need(!pthread_join(t, NULL), "join");
	return tell(a);
}

/* More is read than there is room for: for AddressSanitizer to see. */
static int do_overflow(int l, volatile size_t n)
{
	int a, b, ret;
	char big[64] = "";
	char *p;

	pair(l, &a, &b);
	exchange(a, b);
	ret = tell(a);
	p = malloc(8);
	need(write(a, big, sizeof(big)) == sizeof(big), "write");
	need(read(b, p, n) == (ssize_t)n, "read");
	free(p);
	return ret;
}

/* Lost on the way out: for LeakSanitizer to see. */
static void leak(void)
{
	char *volatile p = malloc(77);

	need(!!p, "malloc");
	p = NULL;
}

/* Sockets that another process made and hands over from descriptor 3 on */
static int do_passed(void)
{
	int n = atoi(getenv("LISTEN_FDS") ?: "0"), a, b;

	need(n == 1, "LISTEN_FDS");
	pair(3, &a, &b);
	exchange(a, b);
	printf("passed: ");
	tell(b);
	printf("made: ");
	return tell(a);
}

#ifdef RTLD_DEEPBIND
/* What another namespace, or a library that binds deep, does with ours */
static int do_deep(void *so)
{
	ssize_t (*deep_write)(int fd, const void *buf, size_t n);
	ssize_t (*deep_read)(int fd, void *buf, size_t n);
	int (*deep_socket)(void);
	char c, want = 0;
	int l, a, b, i;

	need(!!so, "deep.so");
	*(void **)&deep_socket = dlsym(so, "deep_socket");
	*(void **)&deep_read = dlsym(so, "deep_read");
	*(void **)&deep_write = dlsym(so, "deep_write");
	l = deep_socket();
	need(l >= 0 && !listen(l, 8), "its listener");
	pair(l, &a, &b);
	exchange(a, b);
	printf("its: ");
	tell(b);
	close(l);
	close(a);
	close(b);

	l = listener();
	pair(l, &a, &b);
	exchange(a, b);
	/* by turns and in bursts, so that one reads what the other left */
	for (i = 0; i < 8 * ROUNDS; i++) {
		c = i;
		need((i % 3 ? deep_write(a, &c, 1) : write(a, &c, 1)) == 1,
		     "write");
		if (i % 4 != 3)
			continue;
		while (want != (char)(i + 1)) {
			need((want % 5 & 1 ? deep_read(b, &c, 1) :
					     read(b, &c, 1)) == 1, "read");
			need(c == want++, "order");
		}
	}
	printf("ours: ");
	return tell(b);
}
#endif

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "pair";
	int l, a, b;

#ifdef RTLD_DEEPBIND
	if (!strcmp(what, "dlmopen"))
		return do_deep(dlmopen(LM_ID_NEWLM, argv[2], RTLD_NOW));
	if (!strcmp(what, "deepbind"))
		return do_deep(dlopen(argv[2], RTLD_NOW | RTLD_DEEPBIND));
#endif
	if (!strcmp(what, "passed"))
		return do_passed();
	l = listener();
	if (!strcmp(what, "slow"))
		return do_slow(l);
	if (!strcmp(what, "threads"))
		return do_threads(l);
	if (!strcmp(what, "overflow"))
		return do_overflow(l, 64);
	if (!strcmp(what, "leak"))
		leak();
	pair(l, &a, &b);
	exchange(a, b);
	return tell(a);
}
