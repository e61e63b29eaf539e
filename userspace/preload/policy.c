// SPDX-License-Identifier: GPL-2.0
/* The choice of sockets for AF_L5, and of those to map: see policy.h. */
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
#include "sandbox.h"
#include "say.h"

/* The rules about this program, up to the first that always matches. */
static struct l5_rule rules[L5_RULES_MAX];
static int rules_n;
/* What applies when no rule does. */
static enum l5_action fallback = L5_ACT_FULL;
static const char by_policy[] = "the policy says so";
static const char by_mode[] = "the mode is socket";
static const char *why = by_policy;
static atomic_int have_read;

/* Nothing is mapped, whatever the rules say. */
static bool no_maps;

static char exe[PATH_MAX];
static bool complete;
/* A rule about all of the program, not l5run, says what applies. */
static bool ruled;

/* Rules that come next cannot be kept, and may be to turn something off. */
static void give_up(const char *where, int number, const char *what)
{
	if (complete)
		return;
	say("%s:%d: %s: the rest is off", where, number, what);
	fallback = L5_ACT_OFF;
	ruled = true;
	why = by_policy;
	complete = true;
}

static void take_line(const char *line, size_t len, const char *where,
		      int number)
{
	const char *error;
	struct l5_rule r;

	if (complete)
		return;
	error = l5_rule_parse(line, len, &r);
	if (error) {
		if (*error)
			say("%s:%d: left out: %s", where, number, error);
		return;
	}
	if (!l5_rule_program(&r, exe, program_invocation_short_name))
		return;
	if (!r.has_port && !r.has_address) {
		complete = true;
		if (r.action == L5_ACT_ON)
			return;
		fallback = r.action;
		ruled = true;
		why = by_policy;
		return;
	}
	if (rules_n == L5_RULES_MAX) {
		give_up(where, number, "too many rules");
		return;
	}
	if (r.action == L5_ACT_ON)
		r.action = fallback;
	rules[rules_n++] = r;
}

/* Returns the number of the last line. */
static int take_lines(const char *s, size_t len, char end, const char *where)
{
	const char *next;
	int number = 0;

	while (len) {
		next = memchr(s, end, len);
		take_line(s, next ? (size_t)(next - s) : len, where, ++number);
		if (!next)
			break;
		len -= next + 1 - s;
		s = next + 1;
	}
	return number;
}

static void take_text(long fd, const char *path, char *text, size_t size)
{
	size_t len = 0;
	const char *fault = NULL;
	ssize_t n = 0;
	int lines;

	while (len < size &&
	       (n = syscall(SYS_read, fd, text + len, size - len)) > 0)
		len += n;
	if (n < 0)
		fault = "cannot be read";
	else if (len > L5_CONF_MAX)
		fault = "too long";
	/* a part of a line says something else */
	while (fault && len && text[len - 1] != '\n')
		len--;
	lines = take_lines(text, len, '\n', path);
	if (fault)
		give_up(path, lines + 1, fault);
}

static void take_file(const char *path, bool named)
{
	/* one byte more, to see that it is too long */
	size_t size = L5_CONF_MAX + 1;
	char *text;
	long fd;

	fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		if (named || (errno != ENOENT && errno != ENOTDIR))
			say("%s: left out: %s", path,
			    strerrorname_np(errno));
		return;
	}
	text = mmap(NULL, size, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (text != MAP_FAILED) {
		take_text(fd, path, text, size);
		munmap(text, size);
	} else {
		give_up(path, 1, "no memory");
	}
	syscall(SYS_close, fd);
}

static void take_files(void)
{
	const char *s = getenv(L5_ENV_CONF);
	char path[PATH_MAX];

	if (s && *s) {
		take_file(s, true);
		return;
	}
	s = getenv("HOME");
	if (s && *s && strlen(s) + sizeof(L5_CONF_HOME) < sizeof(path)) {
		strcpy(path, s);
		strcat(path, L5_CONF_HOME);
		take_file(path, false);
	}
	take_file(L5_CONF_ETC, false);
}

/* An unknown filter may not allow the call: then the name it was started by. */
static void read_exe(void)
{
	const char *s;
	ssize_t n;

	if (sandbox_untried()) {
		s = (const char *)getauxval(AT_EXECFN);
		n = s ? strnlen(s, sizeof(exe) - 1) : 0;
		memcpy(exe, s, n);
	} else {
		n = syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", exe,
			    sizeof(exe) - 1);
	}
	exe[n > 0 ? n : 0] = '\0';
}

void policy_read(void)
{
	int saved = errno;
	const char *s;

	if (atomic_load(&have_read))
		return;
	rules_n = 0;
	complete = false;
	ruled = false;
	why = by_policy;
	s = getenv(L5_ENV_MODE);
	fallback = L5_ACT_FULL;
	if (s && !strcmp(s, "socket")) {
		fallback = L5_ACT_SOCKET;
		why = by_mode;
	}
	if (getauxval(AT_SECURE)) {
		fallback = L5_ACT_OFF;
		why = "the program is set-user-ID or the like";
	} else {
		read_exe();
		s = getenv(L5_ENV_POLICY);
		if (s)
			take_lines(s, strlen(s), ';', L5_ENV_POLICY);
		take_files();
	}
	atomic_store(&have_read, 1);
	errno = saved;
}

/* Does a rule, or what applies without one, allow at least so much? */
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
	return !no_maps && any(L5_ACT_FULL);
}

void policy_no_maps(const char *reason)
{
	no_maps = true;
	if (any(L5_ACT_FULL))
		why = reason;
}

const char *policy_why(void)
{
	return why;
}

enum l5_stats_how policy_how(void)
{
	return why == by_mode ? L5_STATS_HOW_MODE : L5_STATS_HOW_POLICY;
}

const char *policy_mode(void)
{
	if (fallback == L5_ACT_OFF)
		return "off: the policy says so";
	if (fallback == L5_ACT_SOCKET)
		return ruled ? "mode socket: the policy says so" :
			       "mode socket: as the program was started";
	return ruled ? "mode full: the policy says so" :
		       "mode full: as the program was started";
}

/* A socket's address as rules have it; NULL if it is of another kind. */
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

/* A decision by the one address or the other; either may be NULL. */
static enum l5_action decide(const struct sockaddr *sa, socklen_t len,
			     const struct sockaddr *sb, socklen_t lenb)
{
	uint8_t a[16], b[16];
	uint16_t pa = 0, pb = 0;
	const uint8_t *ha = sa ? place(sa, len, a, &pa) : NULL;
	const uint8_t *hb = sb ? place(sb, lenb, b, &pb) : NULL;
	int i;

	for (i = 0; i < rules_n; i++)
		if (l5_rule_place(&rules[i], ha, pa) ||
		    l5_rule_place(&rules[i], hb, pb))
			return rules[i].action;
	return fallback;
}

static bool force_base(int fd)
{
	int base = L5_TRANSPORT_BASE, saved = errno;
	bool done;

	done = !syscall(SYS_setsockopt, fd, SOL_L5, L5_FORCE, &base,
			sizeof(base));
	if (done)
		say("fd %d: off: the policy says so", fd);
	errno = saved;
	return done;
}

bool policy_places(void)
{
	return rules_n;
}

bool policy_connect(int fd, const struct sockaddr *sa, socklen_t len)
{
	if (l5_likely(!rules_n) || !sa)
		return false;
	/* connect() complains about a bad address */
	if ((uintptr_t)sa < 65536)
		return false;
	return decide(sa, len, NULL, 0) == L5_ACT_OFF && force_base(fd);
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

bool policy_may_map(int fd, enum l5_side side)
{
	struct sockaddr_storage a, b;
	struct sockaddr *peer = NULL, *local = NULL;
	socklen_t alen = sizeof(a), blen = sizeof(b);

	if (l5_likely(!rules_n))
		return fallback >= L5_ACT_FULL;
	if (side != L5_SIDE_ACCEPTED) {
		peer = (struct sockaddr *)&a;
		if (syscall(SYS_getpeername, fd, peer, &alen))
			return false;
	}
	if (side != L5_SIDE_CONNECTED) {
		local = (struct sockaddr *)&b;
		if (syscall(SYS_getsockname, fd, local, &blen))
			return false;
	}
	return decide(peer, alen, local, blen) >= L5_ACT_FULL;
}
