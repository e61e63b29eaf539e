// SPDX-License-Identifier: GPL-2.0
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "l5test.h"
#include "ran.h"
#include "text.h"

enum { PATIENCE = 100 };

/* Where the test programs are */
static const char *here(void)
{
	static char path[PATH_MAX], *dir;
	ssize_t n;

	if (dir)
		return dir;
	n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	path[n > 0 ? n : 0] = '\0';
	dir = dirname(path);
	return dir;
}

const char *kind(const char *name)
{
	static char path[4][PATH_MAX + 64];
	static unsigned int turn;
	char *p = path[turn++ % 4];

	snprintf(p, sizeof(*path), "%s/../kinds/%s", here(), name);
	return p;
}

const char *l5run(void)
{
	static char path[PATH_MAX + 64];

	snprintf(path, sizeof(path), "%s/../../../userspace/bin/l5run", here());
	return path;
}

void with_env(const void *arg)
{
	putenv((char *)arg);
}

struct ran run(void (*before)(const void *arg), const void *arg,
	       const char *const *argv)
{
	struct ran r = { .status = -1 };
	int out = memfd_create("out", 0), err = memfd_create("err", 0);
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (!pid) {
		/* a program that hangs ends by itself, in each process */
		alarm(PATIENCE * l5_slow());
		unsetenv("LD_PRELOAD");
		setenv("L5_MAP_AFTER", "4", 1);
		setenv("L5_CONF", "/dev/null", 1);
		dup2(open("/dev/null", O_RDONLY), 0);
		dup2(out, 1);
		dup2(err, 2);
		if (before)
			before(arg);
		execv(argv[0], (char **)argv);
		_exit(99);
	}
	if (waitpid(pid, &status, 0) == pid)
		r.status = WIFEXITED(status) ? WEXITSTATUS(status) :
					       -WTERMSIG(status);
	text_take(out, r.out, sizeof(r.out));
	text_take(err, r.err, sizeof(r.err));
	return r;
}
