// SPDX-License-Identifier: GPL-2.0
/*
 * Linked into libraries that count which of their lines run: most processes of
 * the tests end by _exit(), which writes no counts. Each library has counters
 * of its own, and the first object of a process that has an _exit() knows them
 * all.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OBJECTS	8

typedef void (*cover_fn)(void);

void __gcov_dump(void);
void __gcov_reset(void);
void l5_cover_add(cover_fn fn);

static cover_fn fns[OBJECTS];
static int nr_fns;

/*
 * A process whose calls are filtered is left alone: what it may still do is
 * what is tested.
 */
static int filtered(void)
{
	size_t len = strlen(program_invocation_short_name);

	return len >= 7 && !strcmp(program_invocation_short_name + len - 7,
				   "sandbox");
}

/* Other users' processes write to the same files. */
static void dump(void)
{
	mode_t mask = umask(0);

	__gcov_dump();
	/* A child by vfork() has not ended its parent's counting. */
	__gcov_reset();
	umask(mask);
}

void l5_cover_add(cover_fn fn)
{
	if (nr_fns < OBJECTS)
		fns[nr_fns++] = fn;
}

__attribute__((constructor)) static void add(void)
{
	void (*to)(cover_fn fn) = dlsym(RTLD_DEFAULT, "l5_cover_add");

	if (to)
		to(dump);
}

__attribute__((noreturn)) static void end(int status)
{
	int i;

	for (i = 0; i < nr_fns && !filtered(); i++)
		fns[i]();
	for (;;)
		syscall(SYS_exit_group, status);
}

void _exit(int status)
{
	end(status);
}

void _Exit(int status)
{
	end(status);
}
