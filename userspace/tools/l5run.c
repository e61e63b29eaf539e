// SPDX-License-Identifier: GPL-2.0
/*
 * l5run: run a program with its stream sockets on AF_L5. See l5run(1).
 */
#define _GNU_SOURCE
#include <argp.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <link.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../lib/l5_env.h"
#include "../lib/l5_family.h"
#include "config.h"
#include "exits.h"
#include "program.h"
#include "stats.h"
#include "supervise.h"

/* When --static applies. */
enum static_when {
	STATIC_AUTO,	/* to a program that wants it, if it costs nothing */
	STATIC_ALWAYS,
	STATIC_NEVER,
};

enum {
	OPT_UNIX = 0x100,
	OPT_MODE,
	OPT_ONLY,
	OPT_SPIN,
	OPT_REQUIRE,
	OPT_CONFIG,
	OPT_TRANSPORT,
	OPT_RDMA_WAIT,
	OPT_STATS,
	OPT_STATIC,
	OPT_CGROUP,
};

struct settings {
	unsigned int sockets;
	bool with_unix;
	bool require;
	bool debug;
	bool socket_mode;
	bool stats;
	int seconds;
	enum static_when when;
	const char *spin;
	const char *transport;
	const char *rdma_wait;
	const char *config;
	const char *cgroup;
	bool preloads;
	char **program;
};

static const struct argp_option options[] = {
	{ "unix", OPT_UNIX, NULL, 0, "AF_UNIX streams as well", 0 },
	{ "only", OPT_ONLY, "LIST", 0,
	  "only these sockets: inet, inet6, unix, separated by commas (default: inet,inet6)",
	  0 },
	{ "mode", OPT_MODE, "MODE", 0,
	  "how: full (default) moves bytes without system calls; socket changes the family, the rest is the kernel's",
	  0 },
	{ "config", OPT_CONFIG, "FILE", 0,
	  "which sockets of which programs, instead of ~/.config/l5.conf and /etc/l5.conf",
	  0 },
	{ "spin", OPT_SPIN, "US", 0,
	  "a thread that waits for a ring looks at it for US microseconds before it sleeps",
	  0 },
	{ "transport", OPT_TRANSPORT, "WHAT", 0,
	  "what may carry connections beside TCP: shm, rdma, or base for nothing (default: what the kernel chooses)",
	  0 },
	{ "rdma-wait", OPT_RDMA_WAIT, "MS", 0,
	  "a blocking connect() waits up to MS milliseconds until it is known whether RDMA carries the connection",
	  0 },
	{ "require", OPT_REQUIRE, NULL, 0,
	  "fail if the kernel has no AF_L5, instead of running the program on plain sockets",
	  0 },
	{ "static", OPT_STATIC, "WHEN", OPTION_ARG_OPTIONAL,
	  "programs into which no library can be preloaded: always (without WHEN), never, or auto (default: the program itself, if that takes nothing from it)",
	  0 },
	{ "cgroup", OPT_CGROUP, "PATH", 0,
	  "the TCP sockets that processes in a cgroup make, until PROGRAM ends, which is put into it, or without one until a signal; nothing is preloaded",
	  0 },
	{ "stats", OPT_STATS, "SECONDS", OPTION_ARG_OPTIONAL,
	  "print on stderr what was mapped, and how many system calls it saved, when the program ends, and every so many seconds",
	  0 },
	{ "verbose", 'v', NULL, 0,
	  "say on stderr what could not be redirected, and which sockets are mapped",
	  0 },
	{ "debug", 'v', NULL, OPTION_ALIAS, NULL, 0 },
	{ 0 }
};

static unsigned int parse_only(struct argp_state *state, const char *list)
{
	char *names = strdup(list), *name, *rest = names;
	unsigned int set = 0;
	int i;

	if (!names)
		err(EXIT_SELF, NULL);
	while ((name = strsep(&rest, ","))) {
		for (i = 0; i < L5PROTO_MAX; i++)
			if (!strcmp(name, l5_sockets[i].name))
				break;
		if (i == L5PROTO_MAX)
			argp_error(state, "--only: no sockets called '%s'",
				   name);
		set |= 1u << i;
	}
	free(names);
	return set;
}

static void check_number(struct argp_state *state, const char *option,
			 const char *value, int max)
{
	if (l5_env_number(value, max) < 0)
		argp_error(state, "%s: '%s' is not a number from 0 to %d",
			   option, value, max);
}

static enum static_when parse_when(struct argp_state *state, const char *arg)
{
	static const char *const names[] = {
		[STATIC_AUTO] = "auto",
		[STATIC_ALWAYS] = "always",
		[STATIC_NEVER] = "never",
	};
	size_t i;

	if (!arg)
		return STATIC_ALWAYS;
	for (i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(arg, names[i]))
			return i;
	argp_error(state, "--static: '%s' is not always, auto or never", arg);
	return STATIC_AUTO;	/* not reached */
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct settings *s = state->input;

	/* what is for a library, or for the supervisor */
	s->preloads |= key >= OPT_UNIX && key < OPT_CGROUP && key != OPT_ONLY &&
		       key != OPT_REQUIRE;
	switch (key) {
	case OPT_UNIX:
		s->with_unix = true;
		return 0;
	case OPT_MODE:
		s->socket_mode = !strcmp(arg, "socket");
		if (!s->socket_mode && strcmp(arg, "full"))
			argp_error(state, "--mode: no mode called '%s'", arg);
		return 0;
	case OPT_CONFIG:
		s->config = arg;
		return 0;
	case OPT_ONLY:
		s->sockets = parse_only(state, arg);
		return 0;
	case OPT_SPIN:
		check_number(state, "--spin", arg, L5_SPIN_US_MAX);
		s->spin = arg;
		return 0;
	case OPT_TRANSPORT:
		if (l5_env_transport(arg) < 0)
			argp_error(state, "--transport: no transport called '%s'",
				   arg);
		s->transport = arg;
		return 0;
	case OPT_RDMA_WAIT:
		check_number(state, "--rdma-wait", arg, L5_RDMA_WAIT_MAX);
		s->rdma_wait = arg;
		return 0;
	case OPT_STATS:
		s->stats = true;
		if (!arg)
			return 0;
		check_number(state, "--stats", arg, STATS_SECONDS_MAX);
		s->seconds = l5_env_number(arg, STATS_SECONDS_MAX);
		return 0;
	case OPT_STATIC:
		s->when = parse_when(state, arg);
		return 0;
	case OPT_CGROUP:
		s->cgroup = arg;
		return 0;
	case OPT_REQUIRE:
		s->require = true;
		return 0;
	case 'v':
		s->debug = true;
		return 0;
	case ARGP_KEY_ARG:
		/* The program: all the rest is its business. */
		s->program = &state->argv[state->next - 1];
		state->next = state->argc;
		return 0;
	case ARGP_KEY_NO_ARGS:
		if (!s->cgroup)
			argp_error(state, "which program?");
		return 0;
	case ARGP_KEY_END:
		if (s->cgroup && (s->preloads ||
				  s->sockets & ~L5_SOCKETS_DEFAULT))
			argp_error(state, "--cgroup goes with --only=inet, --only=inet6, --require and --verbose alone");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

#define INTRO_DOC "Run a program with its TCP sockets on AF_L5."
#define EXIT_DOC "Exit status: the program's; 125 l5run failed, 126 it cannot be run, 127 it is not found."

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.args_doc = "PROGRAM [ARGS...]\n--cgroup=PATH [PROGRAM [ARGS...]]",
	.doc = INTRO_DOC "\v" EXIT_DOC,
};

const char *argp_program_version = "l5run (AF_L5) " L5_TOOLS_VERSION;

static void set_env(const char *name, const char *value)
{
	if (setenv(name, value, 1))
		err(EXIT_SELF, "setenv %s", name);
}

/* What the loader puts for $LIB: the end of the path of our own C library. */
static int libc_place(struct dl_phdr_info *info, size_t size, void *arg)
{
	static const char name[] = "/libc.so.6";
	const char *path = info->dlpi_name;
	size_t len = strlen(path);
	char *place, *at;

	(void)size;
	if (len < sizeof(name) || strcmp(path + len - strlen(name), name))
		return 0;
	place = strndup(path, len - strlen(name));
	if (!place)
		err(EXIT_SELF, NULL);
	for (at = place + strlen(place); at > place; at--)
		if (!strncmp(at, "/lib", 4))
			break;
	*(char **)arg = strdup(at + 1);
	free(place);
	return 1;
}

/*
 * The name by which loaders other than glibc's find nothing, and leave it at
 * that: $LIB is glibc's word for a directory, and others take it as it is. A
 * program of another C library cannot have ours, and would not start. NULL:
 * not laid out like that; the caller frees.
 */
static char *glibc_only(const char *real)
{
	const char *base = strrchr(real, '/');
	char *place = NULL, *path = NULL;

	dl_iterate_phdr(libc_place, &place);
	if (!place)
		return NULL;
	if (asprintf(&path, "%.*s/l5/%s%s", (int)(base - real), real, place,
		     base) < 0)
		err(EXIT_SELF, NULL);
	free(place);
	if (!access(path, R_OK)) {
		free(path);
		if (asprintf(&path, "%.*s/l5/$LIB%s", (int)(base - real), real,
			     base) < 0)
			err(EXIT_SELF, NULL);
		return path;
	}
	free(path);
	return NULL;
}

/*
 * A file of ours: beside us in the build tree, in one of the other places when
 * installed, relative to where we really are, so that a moved installation
 * works. NULL if it is not there; the caller frees.
 */
static char *find_near(const char *name, const char *const *places)
{
	char self[PATH_MAX], *dir, *path, *real = NULL;
	ssize_t n;

	n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (n < 0)
		err(EXIT_SELF, "/proc/self/exe");
	self[n] = '\0';
	dir = dirname(self);
	for (; *places && !real; places++) {
		if (asprintf(&path, "%s/%s%s", dir, *places, name) < 0)
			err(EXIT_SELF, NULL);
		real = realpath(path, NULL);
		free(path);
	}
	return real;
}

static char *find_preload(const char *name)
{
	static const char *const places[] = { "", "../lib/", NULL };
	char *real = find_near(name, places), *path;

	if (!real)
		errx(EXIT_SELF, "cannot find %s near l5run", name);
	/* The loader takes both for the end of a name. */
	if (strpbrk(real, " :"))
		errx(EXIT_SELF,
		     "%s: the loader cannot preload from a path with a blank or a colon",
		     real);
	path = glibc_only(real);
	if (!path)
		return real;
	free(real);
	return path;
}

/*
 * Our library comes last: another library that wraps socket() then wraps ours,
 * and a library that insists on being first is first.
 */
static void set_preload(const char *name)
{
	const char *before = getenv("LD_PRELOAD");
	char *lib = find_preload(name), *value;

	if (before && *before) {
		if (asprintf(&value, "%s:%s", before, lib) < 0)
			err(EXIT_SELF, NULL);
	} else {
		value = lib;
	}
	set_env("LD_PRELOAD", value);
}

/*
 * AddressSanitizer as a library wants to be the first one that is loaded, or
 * ends the program. In front of what is there already, so that this has the
 * last word.
 */
static void set_asan(void)
{
	static const char ours[] = "verify_asan_link_order=0";
	const char *before = getenv("ASAN_OPTIONS");
	char *value;

	if (before && *before) {
		if (asprintf(&value, "%s:%s", ours, before) < 0)
			err(EXIT_SELF, NULL);
		set_env("ASAN_OPTIONS", value);
		free(value);
	} else {
		set_env("ASAN_OPTIONS", ours);
	}
}

static void set_sockets(unsigned int set)
{
	char value[64] = "";
	int i;

	for (i = 0; i < L5PROTO_MAX; i++)
		if (set & 1u << i) {
			if (*value)
				strcat(value, ",");
			strcat(value, l5_sockets[i].name);
		}
	set_env(L5_ENV_SOCKETS, value);
}

/* Check what the library would leave out without a word. */
static void check_env(void)
{
	const char *s = getenv(L5_ENV_TRANSPORT);

	if (l5_env_transport(s) == L5_ENV_BAD)
		errx(EXIT_SELF, "%s: no transport called '%s'",
		     L5_ENV_TRANSPORT, s);
	s = getenv(L5_ENV_RDMA_WAIT);
	if (l5_env_number(s, L5_RDMA_WAIT_MAX) == L5_ENV_BAD)
		errx(EXIT_SELF, "%s: '%s' is not a number from 0 to %d",
		     L5_ENV_RDMA_WAIT, s, L5_RDMA_WAIT_MAX);
}

/* Not only a number in sysfs: a socket that says that it is AF_L5's. */
static int have_l5(void)
{
	int fd = socket(l5_family(), SOCK_STREAM | SOCK_CLOEXEC, L5PROTO_INET);
	int transport, ret;
	socklen_t len = sizeof(transport);

	if (fd < 0)
		return -1;
	ret = getsockopt(fd, SOL_L5, L5_TRANSPORT, &transport, &len);
	if (ret)
		errno = EAFNOSUPPORT;
	close(fd);
	return ret;
}

static int supervised_number(const char *name, int max)
{
	return l5_env_number(getenv(name), max);
}

/* After the environment was checked. */
static const char *start_supervisor(const struct settings *s)
{
	static struct supervise what;

	what = (struct supervise){
		.sockets = s->sockets,
		.spin_us = supervised_number(L5_ENV_SPIN, L5_SPIN_US_MAX),
		.transport = l5_env_transport(getenv(L5_ENV_TRANSPORT)),
		.rdma_wait = supervised_number(L5_ENV_RDMA_WAIT,
					       L5_RDMA_WAIT_MAX),
		.verbose = s->debug,
	};
	return supervise_start(&what);
}

/*
 * Programs that make plain sockets whatever is preloaded: the supervisor, if
 * the user wants it, or if nobody can mind; or a warning.
 */
static void see_to_static(const struct settings *s)
{
	const char *failed = NULL;
	struct program p;
	bool want;

	program_look(&p, s->program[0]);
	want = s->when == STATIC_ALWAYS ||
	       (s->when == STATIC_AUTO && p.static_helps &&
		supervise_is_free() && !have_l5());
	if (want)
		failed = start_supervisor(s);
	if (failed && s->require)
		errx(EXIT_SELF, "--static: %s", failed);
	if (failed && s->when == STATIC_ALWAYS)
		warnx("--static: %s", failed);
	if (p.why && (failed || !want || !p.static_helps))
		warnx("%s: %s: runs on plain TCP%s", p.file, p.why,
		      p.static_helps && s->when == STATIC_AUTO && !failed &&
		      !supervise_is_free() ? "; see --static" : "");
	free(p.file);
}

/* Another program of ours does it, since that is of no use to most. */
static void run_cgroup(const struct settings *s)
{
	static const char *const places[] = { "", "../lib/l5/", NULL };
	char *file = find_near("l5cgroup", places);
	size_t n = 0, i = 0;
	char **argv;

	if (!file)
		errx(EXIT_SELF, "--cgroup: l5run was built without it (clang, bpftool, libbpf)");
	while (s->program && s->program[n])
		n++;
	argv = calloc(n + 7, sizeof(*argv));
	if (!argv)
		err(EXIT_SELF, NULL);
	argv[i++] = (char *)"l5run --cgroup";
	if (s->debug)
		argv[i++] = (char *)"--verbose";
	if (!(s->sockets & 1u << L5PROTO_INET))
		argv[i++] = (char *)"--only=inet6";
	if (!(s->sockets & 1u << L5PROTO_INET6))
		argv[i++] = (char *)"--only=inet";
	argv[i++] = (char *)"--";
	argv[i++] = (char *)s->cgroup;
	if (n)
		memcpy(argv + i, s->program, n * sizeof(*argv));
	execv(file, argv);
	err(EXIT_SELF, "%s", file);
}

int main(int argc, char **argv)
{
	struct settings s = { .sockets = L5_SOCKETS_DEFAULT };
	int error;

	argp_err_exit_status = EXIT_SELF;
	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &s);
	if (s.with_unix)
		s.sockets |= 1u << L5PROTO_UNIX;

	if (s.cgroup)
		run_cgroup(&s);
	if (s.require && have_l5())
		err(EXIT_SELF, "the kernel gives no AF_L5 socket");
	config_read(s.config);
	set_env(L5_ENV_MODE, s.socket_mode ? "socket" : "full");
	set_sockets(s.sockets);
	if (s.spin)
		set_env(L5_ENV_SPIN, s.spin);
	if (s.transport)
		set_env(L5_ENV_TRANSPORT, s.transport);
	if (s.rdma_wait)
		set_env(L5_ENV_RDMA_WAIT, s.rdma_wait);
	check_env();
	if (s.debug)
		set_env(L5_ENV_DEBUG, "1");
	see_to_static(&s);
	set_asan();
	set_preload(s.socket_mode ? L5_SOCKET_NAME : L5_PRELOAD_NAME);

	if (s.stats)
		error = stats_run(s.program, s.seconds,
				  !s.socket_mode && stats_open());
	else
		error = execvp(s.program[0], s.program);
	if (error >= 0)
		return error;
	error = errno;
	warn("%s", s.program[0]);
	return error == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
}
