// SPDX-License-Identifier: GPL-2.0
/* What l5run --stats prints: preload/stats_file.h says how it is written. */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../lib/l5_counts.h"
#include "../preload/stats_file.h"
#include "stats.h"
#include "supervise.h"

/* linux/memfd.h, which older systems lack */
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL	8U
#endif

enum {
	PROCS_SHOWN = 32,
	SOCKS_SHOWN = 10,
	/* as the shells have it */
	NOT_RUN = 127,
	SIGNALLED = 128,
};

static struct l5_stats_file *file;
static int file_fd = -1;

bool stats_open(void)
{
	static const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	char name[32];
	sighandler_t old;
	int made, fd, ret;

	made = memfd_create("l5run", MFD_CLOEXEC | MFD_ALLOW_SEALING |
				   MFD_NOEXEC_SEAL);
	if (made < 0)
		made = memfd_create("l5run", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	/* whatever was closed for the program is to stay so */
	fd = fcntl(made, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (made >= 0)
		close(made);
	if (fd < 0)
		goto fail;
	/* a limit on the size of files is one on this one's, too */
	old = signal(SIGXFSZ, SIG_IGN);
	ret = ftruncate(fd, sizeof(*file));
	signal(SIGXFSZ, old);
	if (ret || fcntl(fd, F_ADD_SEALS, seals))
		goto fail;
	file = mmap(NULL, sizeof(*file), PROT_READ | PROT_WRITE, MAP_SHARED,
		    fd, 0);
	if (file == MAP_FAILED)
		goto fail;
	file->magic = L5_STATS_MAGIC;
	snprintf(name, sizeof(name), "%d %d", (int)getpid(), fd);
	if (setenv(L5_ENV_STATS, name, 1))
		goto fail;
	file_fd = fd;
	return true;

fail:
	warn("--stats: nothing can be counted");
	if (fd >= 0)
		close(fd);
	return false;
}

/* Printing: what is looked at here is a copy, and anything may be in it. */

static uint64_t in_kernel(const struct l5_stats_way *w)
{
	uint64_t n = 0;
	int i;

	for (i = 0; i < L5_STATS_CALLS_MAX; i++)
		n += w->kernel[i];
	return n;
}

static uint64_t calls(const struct l5_stats_sock *s)
{
	uint64_t n = s->early;
	int i;

	for (i = 0; i < L5_STATS_DIRS; i++)
		n += s->way[i].saved + in_kernel(&s->way[i]);
	return n;
}

/* A text that ends where its memory does, with printable characters alone. */
static const char *clean(char *text, size_t size)
{
	size_t i;

	text[size - 1] = '\0';
	for (i = 0; text[i]; i++)
		if (text[i] < ' ' || text[i] > '~')
			text[i] = '?';
	return text;
}

static const char *how_text(uint32_t how, int32_t arg)
{
	static const char *const text[L5_STATS_HOWS_MAX] = {
#define HOW_TEXT(code, meaning) [L5_STATS_HOW_##code] = meaning,
		L5_STATS_HOWS(HOW_TEXT)
#undef HOW_TEXT
	};
	static const char *const reason[L5_REASON_MAX] = {
#define REASON_TEXT(code, name, meaning) [L5_REASON_##code] = meaning,
		L5_REASONS(REASON_TEXT)
#undef REASON_TEXT
	};
	const char *name;

	if (how == L5_STATS_HOW_REASON && arg >= 0 && arg < L5_REASON_MAX)
		return reason[arg];
	if (how == L5_STATS_HOW_ERRNO) {
		name = strerrorname_np(arg);
		return name ? name : text[how];
	}
	return how < L5_STATS_HOWS_MAX ? text[how] : "?";
}

/* What went to the kernel, by reason. */
static void print_calls(const struct l5_stats_way *w, int n)
{
	static const char *const text[L5_STATS_CALLS_MAX] = {
#define CALL_TEXT(code, name, said) [L5_STATS_##code] = name,
		L5_STATS_CALLS(CALL_TEXT)
#undef CALL_TEXT
	};
	const char *before = "; to the kernel: ";
	uint64_t sum;
	int i, j;

	for (i = 0; i < L5_STATS_CALLS_MAX; i++) {
		for (sum = 0, j = 0; j < n; j++)
			sum += w[j].kernel[i];
		if (!sum)
			continue;
		fprintf(stderr, "%s%" PRIu64 " %s", before, sum, text[i]);
		before = ", ";
	}
}

#define NUMBERS	" %11" PRIu64 " %9" PRIu64 " %11" PRIu64 " %9" PRIu64	\
		" %9" PRIu64 " %9" PRIu64 " %7" PRIu64 " "

static void print_head(void)
{
	fprintf(stderr, "%8s %11s %9s %11s %9s %9s %9s %7s  %s\n", "fd",
		"in-saved", "in-kernel", "out-saved", "out-kern", "paid",
		"in-vain", "before", "connection");
}

static void print_numbers(const struct l5_stats_sock *s)
{
	const struct l5_stats_way *in = &s->way[L5_STATS_IN];
	const struct l5_stats_way *out = &s->way[L5_STATS_OUT];

	fprintf(stderr, NUMBERS, in->saved, in_kernel(in), out->saved,
		in_kernel(out), in->paid + out->paid, in->vain + out->vain,
		s->early);
}

static void print_sock(struct l5_stats_sock *s)
{
	const char *closed = s->state == L5_STATS_CLOSED ? ", closed" : "";

	fprintf(stderr, "%8d", s->fd);
	print_numbers(s);
	fprintf(stderr, "%s%s", clean(s->peer, sizeof(s->peer)), closed);
	if (s->how != L5_STATS_HOW_MAPPED) {
		fprintf(stderr, ", not mapped: %s", how_text(s->how, s->arg));
	} else {
		fprintf(stderr, ", mapped: %s",
			s->transport == L5_TRANSPORT_SHM ? "shared memory" :
			s->transport == L5_TRANSPORT_RDMA ? "RDMA" : "?");
		print_calls(s->way, L5_STATS_DIRS);
	}
	fputc('\n', stderr);
}

static void add_sock(struct l5_stats_sock *to, const struct l5_stats_sock *s)
{
	int i, j;

	to->early += s->early;
	for (i = 0; i < L5_STATS_DIRS; i++) {
		to->way[i].saved += s->way[i].saved;
		to->way[i].paid += s->way[i].paid;
		to->way[i].vain += s->way[i].vain;
		for (j = 0; j < L5_STATS_CALLS_MAX; j++)
			to->way[i].kernel[j] += s->way[i].kernel[j];
	}
}

static bool shown(const struct l5_stats_sock *s)
{
	return s->state == L5_STATS_OPEN || s->state == L5_STATS_CLOSED;
}

/* The sum of a process, and in @p->unmapped all that are not mapped. */
static void sum_up(struct l5_stats_proc *p, struct l5_stats_sock *sum)
{
	const struct l5_stats_sock *s;
	int i;

	memset(sum, 0, sizeof(*sum));
	for (i = 0; i < L5_STATS_SOCKS; i++) {
		s = &p->sock[i];
		if (i >= L5_STATS_FIRST && !shown(s))
			continue;
		add_sock(sum, s);
		if (i < L5_STATS_FIRST)
			sum->n += s->n;
		else if (s->how == L5_STATS_HOW_MAPPED)
			sum->n++;
		else
			p->unmapped[l5_stats_why(s->how, s->arg)]++;
	}
}

/* Sockets with the most calls first. */
static int by_calls(const void *a, const void *b)
{
	uint64_t x = calls(*(struct l5_stats_sock *const *)a);
	uint64_t y = calls(*(struct l5_stats_sock *const *)b);

	return x < y ? 1 : x > y ? -1 : 0;
}

static void print_socks(struct l5_stats_proc *p)
{
	struct l5_stats_sock *list[L5_STATS_SOCKS], rest;
	unsigned int others = 0;
	int i, n = 0;

	memset(&rest, 0, sizeof(rest));
	for (i = L5_STATS_FIRST; i < L5_STATS_SOCKS; i++)
		if (shown(&p->sock[i]))
			list[n++] = &p->sock[i];
	qsort(list, n, sizeof(*list), by_calls);
	for (i = 0; i < n; i++) {
		if (i < SOCKS_SHOWN) {
			print_sock(list[i]);
			continue;
		}
		add_sock(&rest, list[i]);
		others++;
	}
	for (i = 0; i < L5_STATS_FIRST; i++) {
		add_sock(&rest, &p->sock[i]);
		others += p->sock[i].n;
	}
	if (!others && !calls(&rest))
		return;
	fprintf(stderr, "%8s", "others");
	print_numbers(&rest);
	fprintf(stderr, " %u more", others);
	print_calls(rest.way, L5_STATS_DIRS);
	fputc('\n', stderr);
}

static void print_polls(const struct l5_stats_proc *p)
{
	struct l5_stats_way w;
	int i, j;

	memset(&w, 0, sizeof(w));
	for (i = 0; i < L5_STATS_POLLS; i++) {
		w.saved += p->poll[i].saved;
		w.paid += p->poll[i].paid;
		w.vain += p->poll[i].vain;
		for (j = 0; j < L5_STATS_CALLS_MAX; j++)
			w.kernel[j] += p->poll[i].kernel[j];
	}
	if (!w.saved && !in_kernel(&w))
		return;
	fprintf(stderr,
		"  poll and the like: %" PRIu64 " saved, %" PRIu64
		" in the kernel, looks %" PRIu64 " paid, %" PRIu64 " in vain",
		w.saved, in_kernel(&w), w.paid, w.vain);
	print_calls(&w, 1);
	fputc('\n', stderr);
}

static void print_unmapped(const struct l5_stats_proc *p)
{
	const char *before = "  not mapped: ";
	int i;

	for (i = 0; i < L5_STATS_WHYS; i++) {
		if (!p->unmapped[i])
			continue;
		fprintf(stderr, "%s%" PRIu64 " (%s)", before, p->unmapped[i],
			i < L5_STATS_HOWS_MAX ? how_text(i, -1) :
			how_text(L5_STATS_HOW_REASON, i - L5_STATS_HOWS_MAX));
		before = ", ";
	}
	if (*before == ',')
		fputc('\n', stderr);
}

static void print_saved(const struct l5_stats_sock *sum)
{
	uint64_t saved = sum->way[L5_STATS_IN].saved +
			 sum->way[L5_STATS_OUT].saved;

	fprintf(stderr, "%" PRIu64 " of %" PRIu64 " calls saved", saved,
		calls(sum));
}

/* Only for that: a pid that is another process's by now does no harm. */
static const char *alive(int pid)
{
	return pid > 0 && (!kill(pid, 0) || errno == EPERM) ? "" : ", ended";
}

static void print_proc(struct l5_stats_proc *p)
{
	struct l5_stats_sock sum;

	sum_up(p, &sum);
	fprintf(stderr, "l5run: pid %d %s%s: ", p->pid,
		clean(p->name, sizeof(p->name)), alive(p->pid));
	print_saved(&sum);
	fprintf(stderr, ", %u mapped\n", sum.n);
	print_head();
	print_socks(p);
	print_unmapped(p);
	print_polls(p);
}

/* A copy of a process's part, or NULL if there is none. */
static struct l5_stats_proc *copy_of(int i)
{
	const struct l5_stats_proc *part = (const void *)file->part[i];
	static struct l5_stats_proc p;

	/* BA, pairs with AZ */
	if (__atomic_load_n(&part->state, __ATOMIC_ACQUIRE) != L5_STATS_OPEN)
		return NULL;
	memcpy(&p, part, sizeof(p));
	return &p;
}

static void print_all(bool supervised)
{
	struct l5_stats_sock rest, sum;
	struct l5_stats_proc *p;
	uint64_t lost;
	int i, n = 0;

	memset(&rest, 0, sizeof(rest));
	for (i = 0; i < L5_STATS_PROCS; i++) {
		p = copy_of(i);
		if (!p)
			continue;
		if (n++ < PROCS_SHOWN) {
			print_proc(p);
			continue;
		}
		sum_up(p, &sum);
		add_sock(&rest, &sum);
	}
	if (!n && !supervised)
		fprintf(stderr,
			"l5run: no process used a stream socket of AF_L5 that the library saw\n");
	if (n > PROCS_SHOWN) {
		fprintf(stderr, "l5run: %d more processes: ", n - PROCS_SHOWN);
		print_saved(&rest);
		fputc('\n', stderr);
	}
	lost = *(volatile uint64_t *)&file->lost;
	if (lost)
		fprintf(stderr,
			"l5run: %" PRIu64 " processes more were not counted\n",
			lost);
}

static void print(bool counts)
{
	bool supervised = supervise_print();

	if (counts)
		print_all(supervised);
	else
		fprintf(stderr,
			"l5run: nothing was counted: see /proc/net/l5 for sockets, /proc/net/l5_stat for sums\n");
	fflush(stderr);
}

/* Running */

/* What is sent to us is meant for the program. */
static const int forwarded[] = {
	SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGCONT,
};

/* A terminal sends these to all of its foreground, the program included. */
static void forward(pid_t pid, const siginfo_t *info)
{
	if (info->si_code <= 0)
		kill(pid, info->si_signo);
}

static void end_by(int sig)
{
	static const struct rlimit none;
	sigset_t set;

	/* the program's core is the one to look at */
	setrlimit(RLIMIT_CORE, &none);
	signal(sig, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, sig);
	raise(sig);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
}

/* Returns the status as waitpid() has it. */
static int wait_for(pid_t pid, const sigset_t *set, int seconds, bool counts)
{
	struct timespec t = { .tv_sec = seconds };
	siginfo_t info;
	int status, sig;

	for (;;) {
		sig = sigtimedwait(set, &info, seconds ? &t : NULL);
		if (waitpid(pid, &status, WNOHANG) == pid)
			return status;
		if (sig < 0 && errno == EAGAIN)
			print(counts);
		else if (sig > 0 && sig != SIGCHLD)
			forward(pid, &info);
	}
}

/* A pipe whose end another process waits for is not to be ours, too. */
static void let_go(void)
{
	const unsigned int first = STDERR_FILENO + 1;

	close(STDIN_FILENO);
	close(STDOUT_FILENO);
	if (file_fd < 0) {
		syscall(SYS_close_range, first, ~0U, 0);
		return;
	}
	if ((unsigned int)file_fd > first)
		syscall(SYS_close_range, first, file_fd - 1, 0);
	syscall(SYS_close_range, file_fd + 1, ~0U, 0);
}

int stats_run(char **program, int seconds, bool counts)
{
	sighandler_t old = signal(SIGCHLD, SIG_DFL);
	sigset_t set, before;
	int status, error = 0;
	int told[2];
	ssize_t n;
	size_t i;
	pid_t pid;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	for (i = 0; i < sizeof(forwarded) / sizeof(*forwarded); i++)
		sigaddset(&set, forwarded[i]);
	if (pipe2(told, O_CLOEXEC) || sigprocmask(SIG_BLOCK, &set, &before))
		return -1;
	pid = fork();
	if (pid < 0)
		return -1;
	if (!pid) {
		signal(SIGCHLD, old);
		sigprocmask(SIG_SETMASK, &before, NULL);
		execvp(program[0], program);
		error = errno;
		n = write(told[1], &error, sizeof(error));
		(void)n;	/* should it not arrive, there is the status */
		_exit(NOT_RUN);
	}
	close(told[1]);
	if (read(told[0], &error, sizeof(error)) != sizeof(error))
		error = 0;
	close(told[0]);
	if (error) {
		waitpid(pid, NULL, 0);
		errno = error;
		return -1;
	}
	/* what becomes of the table is not to change how the program ended */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGTTOU, SIG_IGN);
	let_go();
	status = wait_for(pid, &set, seconds, counts);
	print(counts);
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	end_by(WTERMSIG(status));
	return SIGNALLED + WTERMSIG(status);
}
