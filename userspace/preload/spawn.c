// SPDX-License-Identifier: GPL-2.0
/*
 * Children that no handler of pthread_atfork() announces: those of vfork(),
 * posix_spawn() and all that is made of it, and _Fork().
 *
 * Such a child may change what it shares with its parent, as a child of fork()
 * may: O_NONBLOCK of a socket that is its standard input, or an epoll set. So
 * the table hears of each, before it is there, and again after that, for
 * sockets that another thread has made in between. Of vfork() only before, and
 * only on x86.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "fdtab.h"
#include "real.h"

EXPORT int posix_spawn(pid_t *pid, const char *path,
		       const posix_spawn_file_actions_t *acts,
		       const posix_spawnattr_t *attr, char *const argv[],
		       char *const env[])
{
	int ret;

	fd_children();
	ret = real.posix_spawn(pid, path, acts, attr, argv, env);
	fd_children();
	return ret;
}

EXPORT int posix_spawnp(pid_t *pid, const char *file,
			const posix_spawn_file_actions_t *acts,
			const posix_spawnattr_t *attr, char *const argv[],
			char *const env[])
{
	int ret;

	fd_children();
	ret = real.posix_spawnp(pid, file, acts, attr, argv, env);
	fd_children();
	return ret;
}

EXPORT FILE *popen(const char *command, const char *type)
{
	FILE *ret;

	fd_children();
	ret = real.popen(command, type);
	fd_children();
	return ret;
}

EXPORT int system(const char *command)
{
	int ret;

	fd_children();
	ret = real.system(command);
	fd_children();
	return ret;
}

/* libc's before version 2.34 has none, and then no program asks for it */
EXPORT pid_t _Fork(void);
EXPORT pid_t _Fork(void)
{
	pid_t ret;

	fd_children();
	ret = real._Fork();
	/* the child's table is another one's, and it will notice */
	if (ret > 0)
		fd_children();
	return ret;
}

#ifdef __x86_64__
static void *libc_vfork;

/* Early, since dlsym() is not for a signal handler. */
__attribute__((constructor)) static void find_vfork(void)
{
	libc_vfork = dlsym(RTLD_NEXT, "vfork");
}

void *spawn_vfork(void);

/*
 * The child returns from vfork() first, and writes to the stack that its parent
 * returns to. So there is no frame of ours below libc's function.
 */
__attribute__((used)) void *spawn_vfork(void)
{
	fd_children();
	if (!libc_vfork)
		find_vfork();
	return libc_vfork;
}

__asm__(".pushsection .text\n"
	".globl vfork\n"
	".type vfork, @function\n"
	"vfork:\n"
	"	endbr64\n"
	"	subq $8, %rsp\n"
	"	call spawn_vfork\n"
	"	addq $8, %rsp\n"
	"	jmp *%rax\n"
	".size vfork, . - vfork\n"
	".globl __vfork\n"
	".type __vfork, @function\n"
	".set __vfork, vfork\n"
	".popsection\n");
#endif
