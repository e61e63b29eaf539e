// SPDX-License-Identifier: GPL-2.0
/*
 * A program's stream sockets become AF_L5 sockets. This file, with say.c, is
 * libl5socket.so, for l5run --mode=socket; with all the others, in L5_FULL, it
 * is libl5preload.so.
 *
 * Only socket() is redirected: it returns a real socket, so all the rest is the
 * kernel's work. setsockopt() is here because the kernel handles SOL_SOCKET
 * before it asks a family. So only we can bring those few options to the
 * bootstrap that the kernel would take or refuse without asking.
 *
 * In full mode the sockets' rings are mapped once they are used enough, and
 * bytes move without system calls: fdtab.h has the plan.
 *
 * socket() may be called from a signal handler, from a constructor that runs
 * before ours, in a vfork() child and by many threads. So nothing here
 * allocates or locks, or calls a function that does. System calls are made
 * bare, which spares dlsym() too. State is kept in words that may be set twice
 * without harm. Whatever goes wrong with AF_L5, the program gets the socket,
 * and the errno, that it would have got without us.
 */
#define _GNU_SOURCE
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../lib/l5_env.h"
#include "../lib/l5_family.h"
#include "say.h"
#ifdef L5_FULL
#include "epoll.h"
#include "fdtab.h"
#include "policy.h"
#include "real.h"
#include "sandbox.h"
#include "signal.h"
#include "stats.h"
#endif

/* A 32-bit libc translates times in getsockopt(), which we would bypass. */
static_assert(sizeof(long) == 8, "only for 64-bit systems");

#ifndef EXPORT
#define EXPORT __attribute__((visibility("default")))
#endif

enum {
	FAMILY_UNKNOWN,
	FAMILY_ABSENT = -1,	/* asked, and the kernel knows no AF_L5 */
};

static atomic_int family = FAMILY_UNKNOWN;
static int labels;		/* l5_family_labels() */

/* The environment, read once: what to redirect is a bit per L5PROTO_*. */
static atomic_uint wanted;
static atomic_int spin_us = L5_ENV_NONE;
static atomic_int transport_forced = L5_ENV_NONE;
static atomic_int rdma_wait = L5_ENV_NONE;
/* Why nothing is to be redirected, or NULL. */
static const char *_Atomic off;
static atomic_int env_read;

static unsigned int parse_sockets(const char *s)
{
	unsigned int set = 0;
	size_t len;
	int i;

	if (!s)
		return L5_SOCKETS_DEFAULT;
	for (; *s; s += len + (s[len] == ',')) {
		len = strcspn(s, ",");
		for (i = 0; i < L5PROTO_MAX; i++)
			if (strlen(l5_sockets[i].name) == len &&
			    !memcmp(l5_sockets[i].name, s, len))
				set |= 1u << i;
	}
	return set;
}

/* Calls that the program did not ask for: only if allowed, see sandbox.h. */
static int own_begin(void)
{
#ifdef L5_FULL
	return fd_own_begin();
#else
	return 1;
#endif
}

static void own_end(void)
{
#ifdef L5_FULL
	fd_own_end();
#endif
}

/* Say why the program gets other sockets than it could. */
static void complain(const char *what, const char *why, const char *then)
{
	say("%s (%s): %s", what, why, then);
}

/* l5run has checked it; anything else here means "leave it alone". */
static int checked(const char *name, int value)
{
	if (value == L5_ENV_BAD)
		complain(name, getenv(name), "not understood, left out");
	return value;
}

static int env_number(const char *name, int max)
{
	return l5_env_number(getenv(name), max);
}

static void read_env(void)
{
	const char *s;

	if (atomic_load(&env_read))
		return;
	s = getenv(L5_ENV_DEBUG);
	say_wanted = s && *s && strcmp(s, "0");
	wanted = parse_sockets(getenv(L5_ENV_SOCKETS));
	spin_us = env_number(L5_ENV_SPIN, L5_SPIN_US_MAX);
	transport_forced = checked(L5_ENV_TRANSPORT,
				   l5_env_transport(getenv(L5_ENV_TRANSPORT)));
	rdma_wait = checked(L5_ENV_RDMA_WAIT,
			    env_number(L5_ENV_RDMA_WAIT, L5_RDMA_WAIT_MAX));
#ifdef L5_FULL
	policy_read();
	if (!policy_redirects())
		off = policy_why();
#endif
	atomic_store(&env_read, 1);
}

#ifdef L5_FULL
/* The most that any other number of the environment may be. */
#define NUMBER_MAX	1000000

static int map_after(void)
{
	int n = env_number(L5_ENV_MAP, NUMBER_MAX);

	if (real_watched())
		policy_no_maps("a sanitizer is to see what is read and written");
	if (!policy_maps())
		return -1;
	return n < 0 ? MAP_PAYS : n;
}
#endif

/*
 * Early, because later the program may have left for a place without sysfs:
 * chroot(), a namespace, a system call filter.
 */
__attribute__((constructor)) static void start(void)
{
	int loaded = l5_family_loaded();

#ifdef L5_FULL
	sandbox_start();
	sandbox_family(loaded > 0 ? loaded : 0);
	/* one more call that a filter may not know: each is asked then */
	labels = sandbox_untried();
#endif
	read_env();
	if (!labels)
		labels = l5_family_labels();
	if (loaded > 0)
		family = loaded;
#ifdef L5_FULL
	real_find();
	stats_start();
	ep_start(env_number(L5_ENV_ASK, NUMBER_MAX));
	fd_start(map_after(), env_number(L5_ENV_MAPS, NUMBER_MAX));
#endif
}

/* Tell the table, too, what socket() returned, or what setsockopt() did. */
static int made(int fd, int other)
{
#ifdef L5_FULL
	if (fd >= 0)
		fd_made(fd, other);
#else
	(void)other;
#endif
	return fd;
}

static void changed(int fd, int level, int name)
{
#ifdef L5_FULL
	if (level == SOL_SOCKET && name == SO_RCVLOWAT)
		fd_flag(fd, SOCK_PLAIN, 1);
#else
	(void)fd;
	(void)level;
	(void)name;
#endif
}

/* Say once why plain sockets are used. */
static void complain_once(const char *why)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;

	if (say_wanted && !atomic_flag_test_and_set(&said))
		complain("no AF_L5 socket", why ? why : "?",
			 "plain sockets are used");
}

/* Say of the first AF_L5 socket what becomes of all of them, and why. */
static void say_mode_once(void)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;
	const char *mode = "mode socket: as the program was started";

	if (!say_wanted || atomic_flag_test_and_set(&said))
		return;
#ifdef L5_FULL
	mode = policy_mode();
#endif
	say("sockets are of AF_L5, %s", mode);
}

/* The number to try, or 0: once the kernel did not know it, only sysfs says
 * that the module has come; asking again would start modprobe every time.
 */
static int family_to_try(void)
{
	int f = family, loaded;

	if (f > 0)
		return f;
	loaded = l5_family_loaded();
	if (loaded > 0) {
		family = loaded;
		return loaded;
	}
	return f == FAMILY_ABSENT ? 0 : L5_FAMILY_DEFAULT;
}

/* Is it of AF_L5? Another family may have a number that we only guess. */
static int is_l5(int fd)
{
	int transport;
	socklen_t len = sizeof(transport);

	return !syscall(SYS_getsockopt, fd, SOL_L5, L5_TRANSPORT, &transport,
			&len);
}

/* An older kernel may not know all of these: as if they were not set. */
static void set_option(int fd, int name, int value)
{
	if (value >= 0)
		syscall(SYS_setsockopt, fd, SOL_L5, name, &value,
			sizeof(value));
}

/* Has this process a filter of system calls? */
static bool filtered(void)
{
	static const char name[] = "\nSeccomp:\t";
	char text[2048];
	const char *at;
	ssize_t n;
	long fd;

	fd = syscall(SYS_openat, AT_FDCWD, "/proc/self/status",
		     O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = syscall(SYS_read, fd, text, sizeof(text) - 1);
	syscall(SYS_close, fd);
	text[n > 0 ? n : 0] = '\0';
	at = strstr(text, name);
	return at && at[sizeof(name) - 1] == '2';
}

/* A filter's refusal would pass for an answer of the kernel's. */
static void complain_refused(int error)
{
	char why[64];
	size_t len;

	if (!say_wanted)
		return;
	strcpy(why, strerrorname_np(error) ?: "?");
	len = strlen(why);
	if ((error == EAFNOSUPPORT || error == EPERM || error == EACCES ||
	     error == ENOSYS) && l5_family_loaded() > 0 && filtered())
		strcpy(why + len, ", by a filter of system calls");
	complain_once(why);
}

static int l5_socket(int type, int l5proto)
{
	int f, fd;

	if (off) {
		complain_once(off);
		return -1;
	}
#ifdef L5_FULL
	if (atomic_load(&sandbox_terms) & SANDBOX_PLAIN)
		return -1;
#endif
	f = family_to_try();
	if (!f)
		return -1;
	fd = syscall(SYS_socket, f, type, l5proto);
	if (fd >= 0 && (f != family || labels) && !is_l5(fd)) {
		syscall(SYS_close, fd);
		errno = EAFNOSUPPORT;
		fd = -1;
	}
	if (fd < 0) {
		if (errno == EAFNOSUPPORT)
			family = FAMILY_ABSENT;
		complain_refused(errno);
		return -1;
	}
	family = f;
	say_mode_once();
	set_option(fd, L5_SPIN_US, spin_us);
	set_option(fd, L5_FORCE, transport_forced);
	set_option(fd, L5_RDMA_WAIT, rdma_wait);
	return fd;
}

/* L5PROTO_* for what the program asks, or -1: not ours. */
static int l5proto_of(int af, int type, int protocol)
{
	int i;

	if ((type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC)) != SOCK_STREAM)
		return -1;
	for (i = 0; i < L5PROTO_MAX; i++)
		if (l5_sockets[i].af == af && wanted & 1u << i)
			break;
	if (i == L5PROTO_MAX)
		return -1;
	if (protocol && protocol != (af == AF_UNIX ? PF_UNIX : IPPROTO_TCP))
		return -1;
	return i;
}

EXPORT int socket(int af, int type, int protocol)
{
	int saved = errno, l5proto, fd;

	read_env();
	l5proto = l5proto_of(af, type, protocol);
	if (l5proto >= 0 && own_begin()) {
		fd = l5_socket(type, l5proto);
		own_end();
		errno = saved;
		if (fd >= 0)
			return made(fd, 0);
	}
	/* a program that knows AF_L5 may ask for it itself */
	return made(syscall(SYS_socket, af, type, protocol, L5_LEAVE),
		    af != family);
}

/* Options that would be set in vain, or refused, on any but the bootstrap. */
static int for_bootstrap(int name)
{
	switch (name) {
	case SO_PEEK_OFF:
	case SO_ATTACH_FILTER:
	case SO_ATTACH_BPF:
	case SO_DETACH_FILTER:
	case SO_LOCK_FILTER:
	case SO_ATTACH_REUSEPORT_CBPF:
	case SO_ATTACH_REUSEPORT_EBPF:
	case SO_DETACH_REUSEPORT_BPF:
		return 1;
	default:
		return 0;
	}
}

EXPORT int setsockopt(int fd, int level, int name, const void *value,
		      socklen_t len)
{
	int saved = errno, ret;

	if (level == SOL_SOCKET && for_bootstrap(name) && own_begin()) {
		if (is_l5(fd))
			level = SOL_L5_SOCKET;
		own_end();
		errno = saved;
	}
	ret = syscall(SYS_setsockopt, fd, level, name, value, len);
	if (!ret)
		changed(fd, level, name);
	return ret;
}
