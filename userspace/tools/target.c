// SPDX-License-Identifier: GPL-2.0
/*
 * The context of a task, read from /proc. See target.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "target.h"

/* Of /proc/PID/status, whose line of groups may be long. */
#define STATUS_MAX	16384

/* The whole of a file, as a string; false: not, or it is longer. */
static bool read_text(int fd, char *text, size_t size)
{
	size_t at = 0;
	ssize_t n;

	do {
		n = pread(fd, text + at, size - at, at);
		at += n > 0 ? n : 0;
	} while (n > 0 && at < size);
	if (at == size)
		errno = EFBIG;
	if (n < 0 || at == size)
		return false;
	text[at] = '\0';
	return true;
}

/* What comes after the name of a line, or NULL. */
static const char *line_of(const char *text, const char *name)
{
	size_t len = strlen(name);

	for (; text; text = strchr(text, '\n')) {
		text += *text == '\n';
		if (!strncmp(text, name, len))
			return text + len;
	}
	return NULL;
}

/*
 * The files of tasks that were looked at are kept open, since to look for them
 * takes longer than to read them. They are the task's for good: of one that has
 * ended, whatever has its number now, they give ESRCH.
 */
struct files {
	pid_t pid;	/* 0: this process */
	int dir;
	int status;
	int cgroup;
	int label;	/* -1: no security module has labels */
	int sockcreate;	/* the label of its sockets, if that is another */
};

static struct files own_files = { .dir = -1 };
static struct files kept[TARGET_FILES];
static unsigned int n_kept, turn;

static void close_one(int fd)
{
	if (fd >= 0)
		close(fd);
}

static void close_files(struct files *f)
{
	close_one(f->status);
	close_one(f->cgroup);
	close_one(f->label);
	close_one(f->sockcreate);
	close_one(f->dir);
	f->dir = -1;
}

static int open_at(int dir, const char *name)
{
	return openat(dir, name, O_RDONLY | O_CLOEXEC);
}

/* A file that is there only if a security module has it: -2 is an error. */
static int open_label(int dir, const char *name)
{
	int fd = open_at(dir, name);

	return fd >= 0 || errno == ENOENT || errno == EINVAL ? fd : -2;
}

/*
 * /proc, if it has the numbers of processes that we have. What is mounted there
 * may be of another PID namespace: of one around ours it shows us with two
 * numbers, of one in ours, or beside it, not at all.
 */
static int open_proc(void)
{
	int dir = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC), fd, pid = 0;
	char text[STATUS_MAX];
	const char *line = NULL;
	int end = 0;

	if (dir < 0)
		return -1;
	fd = open_at(dir, "self/status");
	if (fd >= 0 && read_text(fd, text, sizeof(text)))
		line = line_of(text, "NSpid:");
	close_one(fd);
	if (line && sscanf(line, "%d%n", &pid, &end) == 1 &&
	    line[end] == '\n' && pid == getpid())
		return dir;
	close(dir);
	return -1;
}

static bool open_files(struct files *f, pid_t pid)
{
	int proc = open_proc();
	char name[16] = "self";

	*f = (struct files){ pid, -1, -1, -1, -1, -1 };
	if (proc < 0)
		return false;
	if (pid)
		snprintf(name, sizeof(name), "%d", pid);
	f->dir = openat(proc, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	close(proc);
	if (f->dir < 0)
		return false;
	f->status = open_at(f->dir, "status");
	f->cgroup = open_at(f->dir, "cgroup");
	f->label = open_label(f->dir, "attr/current");
	f->sockcreate = open_label(f->dir, "attr/sockcreate");
	if (f->status >= 0 && f->cgroup >= 0 && f->label > -2 &&
	    f->sockcreate > -2)
		return true;
	close_files(f);
	return false;
}

void target_forget(void)
{
	unsigned int i;

	for (i = 0; i < n_kept; i++)
		if (kept[i].dir >= 0)
			close_files(&kept[i]);
	n_kept = 0;
	turn = 0;
	if (own_files.dir >= 0)
		close_files(&own_files);
}

static struct files *find_files(pid_t pid)
{
	unsigned int i;

	if (!pid)
		return own_files.dir >= 0 ? &own_files : NULL;
	for (i = 0; i < n_kept; i++)
		if (kept[i].pid == pid && kept[i].dir >= 0)
			return &kept[i];
	return NULL;
}

/* In place of those that were opened first. NULL: the task is not in /proc. */
static struct files *new_files(pid_t pid)
{
	struct files *f = &own_files;

	if (pid && n_kept < TARGET_FILES) {
		f = &kept[n_kept];
	} else if (pid) {
		f = &kept[turn];
		turn = (turn + 1) % TARGET_FILES;
		if (f->dir >= 0)
			close_files(f);
	}
	if (!open_files(f, pid)) {
		/* there may be no more descriptors */
		target_forget();
		f = pid ? kept : &own_files;
		if (!open_files(f, pid))
			return NULL;
	}
	if (pid && f == &kept[n_kept])
		n_kept++;
	return f;
}

/* The last of the four numbers is what files are made by. */
static bool parse_id(const char *text, const char *name, unsigned int *id)
{
	const char *line = line_of(text, name);

	return line && sscanf(line, "%*u %*u %*u %u", id) == 1;
}

static bool parse_int(const char *text, const char *name, int *n)
{
	const char *line = line_of(text, name);
	char *end;

	if (!line)
		return false;
	*n = strtol(line, &end, 10);
	return end != line && *end == '\n';
}

static bool parse_groups(struct target *t, const char *line)
{
	unsigned long id;
	char *end;

	for (t->n_groups = 0; line; line = end) {
		line += strspn(line, " \t");
		if (*line < '0' || *line > '9')
			return true;
		if (t->n_groups == TARGET_GROUPS)
			return false;
		id = strtoul(line, &end, 10);
		t->groups[t->n_groups++] = id;
	}
	return false;
}

static const char gone[] = "it has ended";

static const char *read_status(struct target *t, int fd)
{
	char text[STATUS_MAX];
	const char *name;

	if (!read_text(fd, text, sizeof(text)))
		return errno == ESRCH ? gone : "its status cannot be read";
	if (!parse_int(text, "Tgid:", &t->pid) ||
	    !parse_int(text, "Seccomp_filters:", &t->filters) ||
	    !parse_id(text, "Uid:", &t->uid) ||
	    !parse_id(text, "Gid:", &t->gid))
		return "its status is not understood";
	/* until more is known */
	name = line_of(text, "Name:\t");
	if (name)
		snprintf(t->name, sizeof(t->name), "%.*s",
			 (int)strcspn(name, "\n"), name);
	if (!parse_groups(t, line_of(text, "Groups:")))
		return "it has many groups";
	return NULL;
}

static bool read_namespace(struct target *t, int dir)
{
	struct stat st;

	if (fstatat(dir, "ns/net", &st, 0))
		return false;
	t->net = st.st_ino;
	return true;
}

/* Without a security module that has labels there is nothing to be read. */
static bool read_label(int fd, char *label)
{
	label[0] = '\0';
	if (fd < 0 || read_text(fd, label, TARGET_NAME))
		return true;
	label[0] = '\0';
	return errno == EINVAL;
}

static bool read_program(struct target *t, int dir)
{
	char line[PATH_MAX], *base;
	ssize_t n;
	int fd;

	n = readlinkat(dir, "exe", t->exe, sizeof(t->exe) - 1);
	if (n < 0)
		return false;
	t->exe[n] = '\0';
	fd = openat(dir, "cmdline", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, line, sizeof(line) - 1);
	close(fd);
	if (n < 0)
		return false;
	line[n] = '\0';
	base = strrchr(line, '/');
	snprintf(t->name, sizeof(t->name), "%.255s",
		 base ? base + 1 : line);
	return true;
}

static const char *read_all(struct target *t, const struct files *f,
			    bool program)
{
	const char *why = read_status(t, f->status);

	if (why)
		return why;
	if (!read_namespace(t, f->dir))
		return "its network namespace may not be looked at";
	if (!read_text(f->cgroup, t->cgroup, sizeof(t->cgroup)))
		return "its control group cannot be read";
	if (!read_label(f->label, t->label) ||
	    !read_label(f->sockcreate, t->sockcreate))
		return "its security label may not be read";
	if (program && !read_program(t, f->dir))
		return "its program may not be looked at";
	return NULL;
}

const char *target_read(struct target *t, pid_t pid, bool program)
{
	struct files *f = find_files(pid);
	const char *why = gone;

	if (f) {
		why = read_all(t, f, program);
		if (why != gone)
			return why;
		close_files(f);
	}
	f = new_files(pid);
	return f ? read_all(t, f, program) :
		   "it cannot be looked at in /proc";
}

const char *target_differs(const struct target *t, const struct target *own)
{
	if (t->net != own->net)
		return "in another network namespace";
	if (strcmp(t->cgroup, own->cgroup))
		return "in another control group";
	if (strcmp(t->label, own->label) ||
	    strcmp(t->sockcreate, own->sockcreate))
		return "with another security label";
	/* ours is the one more */
	if (t->filters != own->filters + 1)
		return "with a filter of system calls of its own";
	return NULL;
}

static bool is_user(const struct target *t)
{
	gid_t groups[TARGET_GROUPS];

	return (uid_t)setfsuid(-1) == t->uid && (gid_t)setfsgid(-1) == t->gid &&
	       syscall(SYS_getgroups, TARGET_GROUPS, groups) == t->n_groups &&
	       !memcmp(groups, t->groups, t->n_groups * sizeof(gid_t));
}

/*
 * The C library's setgroups() is for all threads, and the other two fail
 * without a word: so what came of them is looked at.
 */
bool target_become(const struct target *t)
{
	if (is_user(t))
		return true;
	syscall(SYS_setgroups, t->n_groups, t->groups);
	setfsgid(t->gid);
	setfsuid(t->uid);
	return is_user(t);
}
