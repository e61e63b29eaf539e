// SPDX-License-Identifier: GPL-2.0
/*
 * l5ctl: what an administrator has to say about AF_L5. See l5ctl(8).
 */
#define _GNU_SOURCE
#include <argp.h>
#include <ctype.h>
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/kcmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "../../uapi/l5.h"

#define MODULE		"af_l5"
#define PROTOCOL	"L5"	/* as in /proc/net/protocols */
#define REFUSE_PATH	"/sys/module/" MODULE "/parameters/refuse"

/* The files of this network namespace, and the host's. */
#define LIST_PATH	"/proc/net/l5"
#define DENY_PATH	"/proc/net/l5_deny"
#define REVOKE_PATH	"/proc/net/l5_revoke"
#define HOST_REVOKE_PATH "/proc/1/net/l5_revoke"

#define TIMEOUT_S	10
#define TIMEOUT_MAX_S	3600
#define PAUSE_NS	100000000

static const struct argp_option options[] = {
	{ "kill", 'k', NULL, 0,
	  "unload: kill each process that still has a socket", 0 },
	{ "timeout", 't', "S", 0,
	  "unload: wait S seconds for the last socket (default: 10)", 0 },
	{ 0 }
};

struct settings {
	bool kill;
	long timeout;
	char *command;
	char **words;
	int nwords;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct settings *s = state->input;
	char *end;

	switch (key) {
	case 'k':
		s->kill = true;
		return 0;
	case 't':
		s->timeout = strtol(arg, &end, 10);
		if (end == arg || *end || s->timeout < 0 ||
		    s->timeout > TIMEOUT_MAX_S)
			argp_error(state, "--timeout: '%s' is not a number from 0 to %d",
				   arg, TIMEOUT_MAX_S);
		return 0;
	case ARGP_KEY_ARG:
		if (s->command)
			return ARGP_ERR_UNKNOWN;
		s->command = arg;
		return 0;
	case ARGP_KEY_ARGS:
		s->words = state->argv + state->next;
		s->nwords = state->argc - state->next;
		return 0;
	case ARGP_KEY_END:
		if (!s->command)
			argp_error(state, "which command?");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

#define INTRO_DOC "Administer AF_L5: list its sockets, deny rings, end connections, unload the module."
#define WHO_DOC "WHO is 'all', 'uid N', 'uid N-M' or 'cgroup PATH'; to deny also 'rdma' and one of these, 'rdma dev NAME' or 'rdma net ADDRESS/BITS': no RDMA for them; to revoke also 'inode N' (see list) or 'sockets': listeners, and connections without rings, too."

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.args_doc = "list\nrules\ndeny WHO\nallow WHO\nrevoke WHO\nunload",
	.doc = INTRO_DOC "\v" WHO_DOC,
};

const char *argp_program_version = "l5ctl (AF_L5) " L5_TOOLS_VERSION;

/* A line to a file of the kernel's: 0 or -1 with errno. */
static int put_line(const char *path, const char *line)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), saved;
	ssize_t n;

	if (fd < 0)
		return -1;
	n = write(fd, line, strlen(line));
	saved = errno;
	close(fd);
	errno = saved;
	return n < 0 ? -1 : 0;
}

static int command_say(const char *path, const char *before,
		       const struct settings *s)
{
	char line[PATH_MAX + 32];
	size_t len;
	int i;

	len = snprintf(line, sizeof(line), "%s", before);
	for (i = 0; i < s->nwords && len < sizeof(line); i++)
		len += snprintf(line + len, sizeof(line) - len, "%s%s",
				i ? " " : "", s->words[i]);
	if (len >= sizeof(line))
		errx(1, "too long");
	if (put_line(path, line))
		err(1, "%s: '%s'", path, line);
	return 0;
}

static int command_rules(void)
{
	char buf[4096];
	ssize_t n;
	int fd = open(DENY_PATH, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		err(1, DENY_PATH);
	while ((n = read(fd, buf, sizeof(buf))) > 0)
		if (fwrite(buf, 1, n, stdout) != (size_t)n)
			err(1, "standard output");
	close(fd);
	return 0;
}

/*
 * Call @visit with the directory in /proc of each thread, until it says that it
 * has seen enough of that process. A process is more than its first thread:
 * that one may have ended, and any may have a table of descriptors of its own.
 */
static void each_thread(bool (*visit)(pid_t pid, pid_t tid, const char *path,
				      void *arg), void *arg)
{
	DIR *proc = opendir("/proc"), *tasks;
	struct dirent *p, *t;
	char path[PATH_MAX];

	if (!proc) {
		warn("/proc");
		return;
	}
	while ((p = readdir(proc))) {
		if (!isdigit((unsigned char)*p->d_name))
			continue;
		snprintf(path, sizeof(path), "/proc/%s/task", p->d_name);
		tasks = opendir(path);
		while (tasks && (t = readdir(tasks))) {
			if (!isdigit((unsigned char)*t->d_name))
				continue;
			snprintf(path, sizeof(path), "/proc/%s/task/%s",
				 p->d_name, t->d_name);
			if (!visit(atoi(p->d_name), atoi(t->d_name), path, arg))
				break;
		}
		if (tasks)
			closedir(tasks);
	}
	closedir(proc);
}

/*
 * Call @visit for each socket of a thread, with its link in /proc, until it
 * says that it has seen enough: false, if it did.
 */
static bool sockets_of(pid_t pid, const char *thread,
		       bool (*visit)(pid_t pid, const char *link,
				     unsigned long inode, void *arg), void *arg)
{
	char path[PATH_MAX], link[64];
	unsigned long inode;
	struct dirent *f;
	bool more = true;
	ssize_t n;
	DIR *fds;

	snprintf(path, sizeof(path), "%s/fd", thread);
	fds = opendir(path);
	while (fds && more && (f = readdir(fds))) {
		n = readlinkat(dirfd(fds), f->d_name, link, sizeof(link) - 1);
		if (n < 0)
			continue;
		link[n] = 0;
		if (sscanf(link, "socket:[%lu]", &inode) != 1)
			continue;
		snprintf(path, sizeof(path), "%s/fd/%s", thread, f->d_name);
		more = visit(pid, path, inode, arg);
	}
	if (fds)
		closedir(fds);
	return more;
}

/* The thread that was looked at last, and its process. */
struct seen {
	pid_t pid;
	pid_t tid;
};

/* Does a thread share what was looked at last, as nearly all threads do? */
static bool shared(const struct seen *seen, pid_t pid, pid_t tid, int what)
{
	return seen->pid == pid &&
	       !syscall(SYS_kcmp, seen->tid, tid, what, 0, 0);
}

static const char *name_of(pid_t pid)
{
	static char name[64];
	char path[64], *at;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	f = fopen(path, "re");
	if (!f || !fgets(name, sizeof(name), f))
		strcpy(name, "?");
	if (f)
		fclose(f);
	name[strcspn(name, "\n")] = 0;
	/* a program names itself as it likes, and this goes to a terminal */
	for (at = name; *at; at++)
		if (*at <= ' ' || *at > '~')
			*at = '?';
	return name;
}

/* list */

struct holder {
	unsigned long inode;
	pid_t pid;
};

struct holders {
	struct holder *v;
	size_t n;
	size_t room;
	struct seen seen;
};

static bool add_holder(pid_t pid, const char *link, unsigned long inode,
		       void *arg)
{
	struct holders *h = arg;

	(void)link;
	if (h->n == h->room) {
		h->room = h->room ? 2 * h->room : 256;
		h->v = reallocarray(h->v, h->room, sizeof(*h->v));
		if (!h->v)
			err(1, NULL);
	}
	h->v[h->n++] = (struct holder){ .inode = inode, .pid = pid };
	return true;
}

static bool add_thread(pid_t pid, pid_t tid, const char *path, void *arg)
{
	struct holders *h = arg;

	if (shared(&h->seen, pid, tid, KCMP_FILES))
		return true;
	h->seen = (struct seen){ pid, tid };
	return sockets_of(pid, path, add_holder, h);
}

static int by_inode(const void *a, const void *b)
{
	const struct holder *x = a, *y = b;

	if (x->inode != y->inode)
		return x->inode < y->inode ? -1 : 1;
	return (x->pid > y->pid) - (x->pid < y->pid);
}

static void print_holders(const struct holders *h, unsigned long inode)
{
	size_t lo = 0, hi = h->n;
	pid_t last = -1;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (h->v[mid].inode < inode)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (; lo < h->n && h->v[lo].inode == inode; lo++) {
		if (h->v[lo].pid != last)
			printf(" %s(%d)", name_of(h->v[lo].pid), h->v[lo].pid);
		last = h->v[lo].pid;
	}
}

static int command_list(void)
{
	struct holders h = { 0 };
	FILE *f = fopen(LIST_PATH, "re");
	bool head = true;
	char line[512];

	if (!f)
		err(1, LIST_PATH);
	each_thread(add_thread, &h);
	if (h.n)
		qsort(h.v, h.n, sizeof(*h.v), by_inode);
	while (fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = 0;
		fputs(line, stdout);
		if (head)
			fputs(" processes", stdout);
		else
			print_holders(&h, strtoul(line, NULL, 10));
		putchar('\n');
		head = false;
	}
	fclose(f);
	free(h.v);
	return 0;
}

/* unload */

struct hunt {
	bool kill;
	bool tell;
	struct seen seen;
	int pidfd;	/* of the process that was seen last */
	int found;
};

/*
 * Sockets say of what protocol they are, whatever namespace they were made in
 * and whatever table of descriptors holds them.
 */
static bool is_other(pid_t pid, const char *link, unsigned long inode,
		     void *arg)
{
	char name[16];
	ssize_t n = getxattr(link, "system.sockprotoname", name, sizeof(name));

	(void)pid;
	(void)inode;
	(void)arg;
	return n < 0 || strncmp(name, PROTOCOL, n);
}

/* A mapping outlives the descriptors, and holds the module as well. */
static bool has_mapping(const char *thread)
{
	char path[PATH_MAX], line[PATH_MAX + 128];
	bool has = false;
	FILE *f;

	snprintf(path, sizeof(path), "%s/maps", thread);
	f = fopen(path, "re");
	while (f && !has && fgets(line, sizeof(line), f))
		has = strstr(line, " anon_inode:[l5]") ||
		      strstr(line, " /[l5]");
	if (f)
		fclose(f);
	return has;
}

static void found(struct hunt *h, pid_t pid)
{
	h->found++;
	if (h->tell)
		fprintf(stderr, "l5ctl: %s(%d) %s\n", name_of(pid), pid,
			h->kill ? "is killed" : "has a socket or a mapping");
	if (h->kill)
		syscall(SYS_pidfd_send_signal, h->pidfd, SIGKILL, NULL, 0);
}

static bool hunt_thread(pid_t pid, pid_t tid, const char *path, void *arg)
{
	struct hunt *h = arg;
	struct seen last = h->seen;

	if (pid == getpid())
		return false;
	/* before a look: what is killed must be what was looked at */
	if (pid != last.pid) {
		if (h->pidfd >= 0)
			close(h->pidfd);
		h->pidfd = syscall(SYS_pidfd_open, pid, 0);
	}
	h->seen = (struct seen){ pid, tid };
	if (h->pidfd < 0)
		return false;
	if ((shared(&last, pid, tid, KCMP_FILES) ||
	     sockets_of(pid, path, is_other, NULL)) &&
	    (shared(&last, pid, tid, KCMP_VM) || !has_mapping(path)))
		return true;
	found(h, pid);
	return false;
}

static int hunt_all(bool kill, bool tell)
{
	struct hunt h = { .kill = kill, .tell = tell, .pidfd = -1 };

	each_thread(hunt_thread, &h);
	if (h.pidfd >= 0)
		close(h.pidfd);
	return h.found;
}

static long now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

/* The signals that end a command, but for those that are ignored (nohup) */
static void enders(sigset_t *set)
{
	static const int sigs[] = {
		SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE,
	};
	struct sigaction sa;
	size_t i;

	sigemptyset(set);
	for (i = 0; i < sizeof(sigs) / sizeof(*sigs); i++)
		if (!sigaction(sigs[i], NULL, &sa) && sa.sa_handler != SIG_IGN)
			sigaddset(set, sigs[i]);
}

/*
 * No program gets a new socket, every connection and listener ends, and when
 * the last descriptor is closed the module goes. A signal that ends this waits
 * until programs may have sockets again.
 */
static int command_unload(const struct settings *s)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	long end = now_s() + s->timeout;
	bool told = false;
	sigset_t ends;
	int sig = -1;

	enders(&ends);
	sigprocmask(SIG_BLOCK, &ends, NULL);
	if (put_line(REFUSE_PATH, "1")) {
		if (errno == ENOENT)
			errx(1, MODULE " is not loaded");
		err(1, REFUSE_PATH);
	}
	for (;;) {
		if (put_line(HOST_REVOKE_PATH, "sockets")) {
			warn(HOST_REVOKE_PATH);
			break;
		}
		if (!syscall(SYS_delete_module, MODULE, O_NONBLOCK))
			return 0;
		if (errno != EAGAIN && errno != EBUSY) {
			warn("removing " MODULE);
			break;
		}
		if (s->kill)
			hunt_all(true, true);
		if (now_s() >= end) {
			told = hunt_all(false, true);
			warnx(told ? MODULE " is still in use" : MODULE
			      " is still in use, by none that can be seen");
			break;
		}
		sig = sigtimedwait(&ends, NULL, &pause);
		if (sig > 0)
			break;
	}
	put_line(REFUSE_PATH, "0");
	if (sig > 0)
		raise(sig);
	sigprocmask(SIG_UNBLOCK, &ends, NULL);
	return 1;
}

int main(int argc, char **argv)
{
	struct settings s = { .timeout = TIMEOUT_S };

	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &s);
	if (!strcmp(s.command, "deny") && s.nwords)
		return command_say(DENY_PATH, "", &s);
	if (!strcmp(s.command, "allow") && s.nwords)
		return command_say(DENY_PATH, "allow ", &s);
	if (!strcmp(s.command, "revoke") && s.nwords)
		return command_say(REVOKE_PATH, "", &s);
	if (s.nwords)
		errx(1, "'%s' as '%s' is not known", s.words[0], s.command);
	if (!strcmp(s.command, "list"))
		return command_list();
	if (!strcmp(s.command, "rules"))
		return command_rules();
	if (!strcmp(s.command, "unload"))
		return command_unload(&s);
	errx(1, "no such command, or incomplete: '%s'", s.command);
}
