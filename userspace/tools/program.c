// SPDX-License-Identifier: GPL-2.0
/* What kind of a program a file is: see program.h. */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "program.h"

#if __SIZEOF_POINTER__ == 8
#define OWN_CLASS ELFCLASS64
#else
#define OWN_CLASS ELFCLASS32
#endif

/* An interpreter may be a script itself; the kernel stops at this depth too. */
#define SCRIPT_DEPTH 5

/* Where execvp() will find it, or NULL. The caller frees. */
static char *which(const char *name)
{
	const char *path = getenv("PATH"), *colon;
	char *file, *fallback = NULL;
	int len;

	if (strchr(name, '/'))
		return strdup(name);
	if (!path) {
		size_t n = confstr(_CS_PATH, NULL, 0);

		fallback = malloc(n);
		if (!fallback)
			return NULL;
		confstr(_CS_PATH, fallback, n);
		path = fallback;
	}
	for (;; path = colon + 1) {
		colon = strchrnul(path, ':');
		len = colon - path;
		if (asprintf(&file, "%.*s%s%s", len, path, len ? "/" : "",
			     name) < 0) {
			file = NULL;
			break;
		}
		if (!access(file, X_OK))
			break;
		free(file);
		file = NULL;
		if (!*colon)
			break;
	}
	free(fallback);
	return file;
}

/*
 * What preloads is glibc's loader. NULL: the program has that, or it is for
 * exec to judge; else in words, in memory that the next call writes over.
 */
static const char *not_glibc(int fd, const Elf64_Ehdr *eh)
{
	static char why[PATH_MAX + 64];
	char interp[PATH_MAX], *base;
	Elf64_Phdr ph;
	ssize_t n;
	int i;

	for (i = 0; i < eh->e_phnum; i++) {
		off_t at = eh->e_phoff + (off_t)i * eh->e_phentsize;

		if (pread(fd, &ph, sizeof(ph), at) != sizeof(ph))
			return NULL;
		if (ph.p_type != PT_INTERP)
			continue;
		n = pread(fd, interp, sizeof(interp) - 1, ph.p_offset);
		if (n <= 0)
			return NULL;
		interp[n] = '\0';
		base = basename(interp);
		if (!strncmp(base, "ld-linux", 8) ||
		    !strncmp(base, "ld64.so", 7) || !strncmp(base, "ld.so", 5))
			return NULL;
		snprintf(why, sizeof(why), "for another C library (%s)", base);
		return why;
	}
	return "statically linked";
}

/* Has it been linked by Go? That keeps some facts in a section of this name. */
static bool is_go(int fd, const Elf64_Ehdr *eh)
{
	static const char go[] = ".go.buildinfo";
	off_t at = eh->e_shoff;
	Elf64_Shdr names, sh;
	char name[sizeof(go)];
	int i;

	if (!at || eh->e_shentsize != sizeof(sh) ||
	    pread(fd, &names, sizeof(names), at + (off_t)eh->e_shstrndx *
		  sizeof(sh)) != sizeof(names))
		return false;
	for (i = 0; i < eh->e_shnum; i++, at += sizeof(sh))
		if (pread(fd, &sh, sizeof(sh), at) == sizeof(sh) &&
		    pread(fd, name, sizeof(name), names.sh_offset +
			  sh.sh_name) == sizeof(name) &&
		    !memcmp(name, go, sizeof(go)))
			return true;
	return false;
}

static void look_at_elf(struct program *p, int fd, const Elf64_Ehdr *eh)
{
	struct stat st;

	if (eh->e_ident[EI_CLASS] != OWN_CLASS) {
		p->why = "built for another word size";
		return;
	}
	if (!fstat(fd, &st) && geteuid() &&
	    ((st.st_mode & S_ISUID && st.st_uid != geteuid()) ||
	     (st.st_mode & S_ISGID && st.st_gid != getegid()))) {
		p->why = "set-user-ID or set-group-ID";
		return;
	}
	p->why = not_glibc(fd, eh);
	if (!p->why && is_go(fd, eh))
		p->why = "Go code makes its own system calls";
	p->static_helps = p->why;
}

static void look_at(struct program *p, const char *file, int depth)
{
	union {
		Elf64_Ehdr eh;
		char text[256];
	} u = { .text = "" };
	ssize_t n;
	int fd;

	fd = open(file, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	n = pread(fd, u.text, sizeof(u.text) - 1, 0);
	if (n > 2 && !memcmp(u.text, "#!", 2) && depth < SCRIPT_DEPTH) {
		char *line = u.text + 2, *interp;

		line[strcspn(line, "\n")] = '\0';
		interp = strtok(line, " \t");
		if (interp)
			look_at(p, interp, depth + 1);
	} else if (n >= (ssize_t)sizeof(u.eh) &&
		   !memcmp(u.eh.e_ident, ELFMAG, SELFMAG)) {
		look_at_elf(p, fd, &u.eh);
	}
	close(fd);
}

void program_look(struct program *p, const char *name)
{
	*p = (struct program){ .file = which(name) };
	if (p->file)
		look_at(p, p->file, 0);
}
