// SPDX-License-Identifier: GPL-2.0
/*
 * l5run --cgroup: the TCP sockets of a cgroup are of AF_L5, by a BPF program
 * that chooses their protocol. l5run starts this program, which has libbpf
 * inside. See l5run(1).
 */
#define _GNU_SOURCE
#include <argp.h>
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../lib/l5_family.h"
#include "exits.h"
#include "upgrade.skel.h"

/* What has to be there for a kernel to let a BPF program choose. */
#define CHOOSES		"update_socket_protocol"

struct settings {
	bool inet, inet6;
	bool verbose;
	const char *cgroup;
	char **program;
};

static const struct argp_option options[] = {
	{ "only", 'o', "FAMILY", 0, "inet or inet6 alone", 0 },
	{ "verbose", 'v', NULL, 0, "say when it begins, and what came of it",
	  0 },
	{ 0 }
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct settings *s = state->input;

	switch (key) {
	case 'o':
		s->inet = !strcmp(arg, "inet");
		s->inet6 = !strcmp(arg, "inet6");
		if (!s->inet && !s->inet6)
			argp_error(state, "--only: no sockets called '%s'",
				   arg);
		return 0;
	case 'v':
		s->verbose = true;
		return 0;
	case ARGP_KEY_ARG:
		if (!s->cgroup) {
			s->cgroup = arg;
			return 0;
		}
		s->program = &state->argv[state->next - 1];
		state->next = state->argc;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "which cgroup?");
		return 0;	/* not reached */
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.args_doc = "CGROUP [PROGRAM [ARGS...]]",
	.doc = "Have the TCP sockets of a cgroup be AF_L5's, until a signal or the end of PROGRAM.",
};

/* A number of the module's; -1 without it. */
static int parameter(const char *path)
{
	char text[16];
	ssize_t n;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return -1;
	text[n] = '\0';
	return *text == 'Y' ? 1 : *text == 'N' ? 0 : atoi(text);
}

/*
 * A socket as those of the cgroup will be. It stays: a module that is in use
 * cannot be removed, and without it there would be no sockets at all.
 */
static int door(const struct settings *s, int protocol)
{
	int transport, fd;
	socklen_t len = sizeof(transport);

	if (protocol <= 0)
		errx(EXIT_SELF, "%s: no number: the module is not loaded, or has no protocol",
		     L5_PROTOCOL_PATH);
	if (parameter(L5_INET_PATH) != 1)
		errx(EXIT_SELF, "%s is not set: the administrator has to write 1 to it",
		     L5_INET_PATH);
	fd = socket(s->inet ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC,
		    protocol);
	if (fd < 0)
		err(EXIT_SELF, "a socket of protocol %d", protocol);
	if (getsockopt(fd, SOL_L5, L5_TRANSPORT, &transport, &len))
		errx(EXIT_SELF, "protocol %d is not AF_L5's", protocol);
	return fd;
}

static int cgroup_open(const char *path)
{
	struct statfs fs;
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		err(EXIT_SELF, "%s", path);
	if (fstatfs(fd, &fs))
		err(EXIT_SELF, "%s", path);
	if (fs.f_type != CGROUP2_SUPER_MAGIC)
		errx(EXIT_SELF, "%s is no directory of cgroup2", path);
	return fd;
}

static void kernel_chooses(void)
{
	struct btf *btf = btf__load_vmlinux_btf();
	bool can;

	if (!btf)
		errx(EXIT_SELF, "this kernel says nothing of its types (CONFIG_DEBUG_INFO_BTF)");
	can = btf__find_by_name_kind(btf, CHOOSES, BTF_KIND_FUNC) > 0;
	btf__free(btf);
	if (!can)
		errx(EXIT_SELF, "this kernel lets nobody choose the protocol for others (Linux 6.6 and later do)");
}

/* Errors are told by us, in a line. */
static int quiet(enum libbpf_print_level level, const char *format,
		 va_list args)
{
	(void)level;
	(void)format;
	(void)args;
	return 0;
}

static struct upgrade_bpf *attach(const struct settings *s, int protocol,
				  int cgroup)
{
	struct upgrade_bpf *bpf;
	__u32 first = 0;
	int error;

	libbpf_set_print(quiet);
	bpf = upgrade_bpf__open();
	if (!bpf)
		err(EXIT_SELF, "the BPF program");
	bpf->rodata->l5_protocol = protocol;
	bpf->rodata->l5_inet = s->inet;
	bpf->rodata->l5_inet6 = s->inet6;
	error = upgrade_bpf__load(bpf);
	if (!error)
		error = bpf_map_update_elem(bpf_map__fd(bpf->maps.l5_cgroup),
					    &first, &cgroup, BPF_ANY);
	if (!error)
		error = upgrade_bpf__attach(bpf);
	if (error == -E2BIG)
		errx(EXIT_SELF, "more of these run on this host than its kernel has room for");
	if (error) {
		errno = -error;
		err(EXIT_SELF, "the BPF program");
	}
	return bpf;
}

/*
 * Beside a program that has taken our place: a process that is no child of it,
 * so that the program has no more children than without, and that no signal to
 * it or its terminal reaches. It ends with the program.
 */
static void stay_beside(const struct settings *s, int program)
{
	struct pollfd end = { .fd = program, .events = POLLIN };
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	setsid();
	dup2(null, 0);
	dup2(null, 1);
	if (!s->verbose)
		dup2(null, 2);
	/* or what it is in could not be unmounted */
	if (chdir("/"))
		warn("/");
	while (poll(&end, 1, -1) < 0)
		;
}

/*
 * What is left of us in the process that is to be the program. Returns in the
 * other one, once the program has ended.
 */
static void become(const struct settings *s, int cgroup)
{
	int program = syscall(SYS_pidfd_open, getpid(), 0), fd;
	pid_t between = fork();
	int status = 0;

	if (program < 0 || between < 0)
		err(EXIT_SELF, "a process beside the program");
	if (!between) {
		between = fork();
		if (between)
			_exit(between < 0 ? EXIT_SELF : 0);
		stay_beside(s, program);
		return;
	}
	/* gone by itself if the end of children is ignored */
	while (waitpid(between, &status, 0) < 0 && errno == EINTR)
		;
	if (status)
		errx(EXIT_SELF, "a process beside the program cannot be made");
	fd = openat(cgroup, "cgroup.procs", O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, "0", 1) != 1)
		err(EXIT_SELF, "%s/cgroup.procs", s->cgroup);
	close(fd);
	execvp(s->program[0], s->program);
	fd = errno;
	warn("%s", s->program[0]);
	_exit(fd == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN);
}

/* Those that end us, unless they are ignored as by nohup. */
static void ends_us(sigset_t *set)
{
	static const int signals[] = { SIGINT, SIGQUIT, SIGTERM, SIGHUP };
	struct sigaction now;
	size_t i;

	sigemptyset(set);
	for (i = 0; i < sizeof(signals) / sizeof(*signals); i++)
		if (!sigaction(signals[i], NULL, &now) &&
		    now.sa_handler != SIG_IGN)
			sigaddset(set, signals[i]);
}

/*
 * Until a signal, or until nobody can make a socket in the cgroup any more: one
 * that is made anew at the same place is another.
 */
static int wait_for_end(const struct settings *s, int cgroup,
			const sigset_t *set)
{
	static const struct timespec second = { .tv_sec = 1 };

	while (sigtimedwait(set, NULL, &second) < 0)
		if (faccessat(cgroup, "cgroup.procs", F_OK, 0)) {
			warnx("%s has been removed", s->cgroup);
			return EXIT_SELF;
		}
	return 0;
}

int main(int argc, char **argv)
{
	struct settings s = { .inet = true, .inet6 = true };
	int protocol, socket, cgroup, status = 0;
	struct upgrade_bpf *bpf;
	sigset_t set;

	argp_err_exit_status = EXIT_SELF;
	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &s);
	if (l5_family_labels())
		errx(EXIT_SELF, "SELinux takes such sockets for raw ones: not here");
	cgroup = cgroup_open(s.cgroup);
	kernel_chooses();
	protocol = parameter(L5_PROTOCOL_PATH);
	socket = door(&s, protocol);
	ends_us(&set);
	if (!s.program)
		sigprocmask(SIG_BLOCK, &set, NULL);
	bpf = attach(&s, protocol, cgroup);
	if (s.verbose)
		warnx("%s: TCP sockets are of AF_L5 from now on", s.cgroup);
	if (s.program)
		become(&s, cgroup);
	else
		status = wait_for_end(&s, cgroup, &set);
	/* nobody may be there to read the last word */
	signal(SIGPIPE, SIG_IGN);
	if (s.verbose)
		warnx("%s: %llu sockets were to be of AF_L5", s.cgroup,
		      (unsigned long long)bpf->bss->l5_upgraded);
	upgrade_bpf__destroy(bpf);
	close(socket);
	return status;
}
