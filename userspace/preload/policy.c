// SPDX-License-Identifier: GPL-2.0
/* Which sockets may be on AF_L5, and which mapped: see policy.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../lib/l5_env.h"
#include "../lib/map.h"
#include "policy.h"
#include "rules.h"
#include "say.h"

enum {
	RULES_MAX = 64,		/* about one program */
	FILE_MAX = 64 << 10,
};

/* Those about this program, up to the first that always matches. */
static struct l5_rule rules[RULES_MAX];
static int rules_n;
/* What applies when none does. */
static enum l5_action fallback = L5_ACT_FULL;
static atomic_int have_read;

static char exe[PATH_MAX];
static bool complete;

static void take_line(const char *line, size_t len)
{
	struct l5_rule *r = &rules[rules_n];

	if (complete || rules_n == RULES_MAX || l5_rule_parse(line, len, r) ||
	    !l5_rule_program(r, exe, program_invocation_short_name))
		return;
	if (r->action == L5_ACT_ON)
		r->action = fallback;
	if (r->has_port || r->has_address) {
		rules_n++;
		return;
	}
	fallback = r->action;
	complete = true;
}

static void take_lines(const char *s, size_t len, char end)
{
	const char *next;

	while (len) {
		next = memchr(s, end, len);
		take_line(s, next ? (size_t)(next - s) : len);
		if (!next)
			break;
		len -= next + 1 - s;
		s = next + 1;
	}
}

static void take_file(const char *path)
{
	char *text;
	ssize_t n = 0, len = 0;
	long fd;

	fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	text = mmap(NULL, FILE_MAX, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (text != MAP_FAILED) {
		while (len < FILE_MAX &&
		       (n = syscall(SYS_read, fd, text + len,
				    FILE_MAX - len)) > 0)
			len += n;
		take_lines(text, len, '\n');
		munmap(text, FILE_MAX);
	}
	syscall(SYS_close, fd);
}

static void take_files(void)
{
	const char *s = getenv(L5_ENV_CONF);
	char path[PATH_MAX];

	if (s && *s) {
		take_file(s);
		return;
	}
	s = getenv("HOME");
	if (s && *s && strlen(s) + sizeof(L5_CONF_HOME) < sizeof(path)) {
		strcpy(path, s);
		strcat(path, L5_CONF_HOME);
		take_file(path);
	}
	take_file(L5_CONF_ETC);
}

void policy_read(void)
{
	int saved = errno;
	const char *s;
	ssize_t n;

	if (atomic_load(&have_read))
		return;
	rules_n = 0;
	s = getenv(L5_ENV_MODE);
	fallback = s && !strcmp(s, "socket") ? L5_ACT_SOCKET : L5_ACT_FULL;
	if (getauxval(AT_SECURE)) {
		fallback = L5_ACT_OFF;
	} else {
		n = syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", exe,
			    sizeof(exe) - 1);
		exe[n > 0 ? n : 0] = '\0';
		s = getenv(L5_ENV_POLICY);
		if (s)
			take_lines(s, strlen(s), ';');
		take_files();
	}
	atomic_store(&have_read, 1);
	errno = saved;
}

/* Some rule, or what applies without, is at least so much. */
static bool any(enum l5_action least)
{
	int i;

	for (i = 0; i < rules_n; i++)
		if (rules[i].action >= least)
			return true;
	return fallback >= least;
}

bool policy_redirects(void)
{
	return any(L5_ACT_SOCKET);
}

bool policy_maps(void)
{
	return any(L5_ACT_FULL);
}

/* An address as rules have it; NULL if it is of another kind. */
static const uint8_t *place(const struct sockaddr *sa, socklen_t len,
			    uint8_t *address, uint16_t *port)
{
	struct sockaddr_in6 in6;
	struct sockaddr_in in;

	/*
	 * AF_L5's own number is taken for the family of the bootstrap; then
	 * the length tells.
	 */
	if (len < sizeof(in) || sa->sa_family == AF_UNIX)
		return NULL;
	memset(address, 0, 16);
	if (len >= sizeof(in6) && sa->sa_family != AF_INET) {
		memcpy(&in6, sa, sizeof(in6));
		memcpy(address, &in6.sin6_addr, 16);
		*port = ntohs(in6.sin6_port);
	} else {
		memcpy(&in, sa, sizeof(in));
		address[10] = 0xff;
		address[11] = 0xff;
		memcpy(address + 12, &in.sin_addr, 4);
		*port = ntohs(in.sin_port);
	}
	return address;
}

static enum l5_action decide(const struct sockaddr *sa, socklen_t len,
			     const struct sockaddr *sb, socklen_t lenb)
{
	uint8_t a[16], b[16];
	uint16_t pa = 0, pb = 0;
	const uint8_t *ha = place(sa, len, a, &pa);
	const uint8_t *hb = sb ? place(sb, lenb, b, &pb) : NULL;
	int i;

	for (i = 0; i < rules_n; i++)
		if (l5_rule_place(&rules[i], ha, pa) ||
		    (hb && l5_rule_place(&rules[i], hb, pb)))
			return rules[i].action;
	return fallback;
}

static void force_base(int fd)
{
	int base = L5_TRANSPORT_BASE, saved = errno;

	if (!syscall(SYS_setsockopt, fd, SOL_L5, L5_FORCE, &base,
		     sizeof(base)))
		say("fd %d: off: the policy says so", fd);
	errno = saved;
}

void policy_connect(int fd, const struct sockaddr *sa, socklen_t len)
{
	if (l5_likely(!rules_n) || !sa)
		return;
	/* memory that is none is for connect() to complain about */
	if ((uintptr_t)sa < 65536)
		return;
	if (decide(sa, len, NULL, 0) == L5_ACT_OFF)
		force_base(fd);
}

void policy_listen(int fd)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	int saved = errno;

	if (l5_likely(!rules_n))
		return;
	if (!syscall(SYS_getsockname, fd, &ss, &len) &&
	    decide((struct sockaddr *)&ss, len, NULL, 0) == L5_ACT_OFF)
		force_base(fd);
	errno = saved;
}

bool policy_may_map(int fd)
{
	struct sockaddr_storage a, b;
	socklen_t alen = sizeof(a), blen = sizeof(b);

	if (l5_likely(!rules_n))
		return fallback >= L5_ACT_FULL;
	if (syscall(SYS_getpeername, fd, &a, &alen) ||
	    syscall(SYS_getsockname, fd, &b, &blen))
		return false;
	return decide((struct sockaddr *)&a, alen, (struct sockaddr *)&b,
		      blen) >= L5_ACT_FULL;
}
