// SPDX-License-Identifier: GPL-2.0
/*
 * Memory of idle connections: what the system uses more while N of them are
 * open, both ends, divided by N. With AF_L5 the rings' own memory, which is
 * the user's choice, is told apart.
 *
 * Memory that is neither free nor page cache is used. MemAvailable would hide a
 * part: it takes inodes of sockets for memory that can be reclaimed at will.
 * Pages that a CPU keeps for itself blur the figure, but the part that is slabs
 * is exact, so the larger of the two is the answer.
 */
#include "bench.h"

#include <err.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/resource.h>

#define WARM_UP		64	/* connections that fill the caches, and stay */

struct idle {
	struct setup setup;
	unsigned long count;
	int listener;
	int pipe[2];
	struct address where;
};

static long value_in(const char *path, const char *name)
{
	char line[256], *p;
	size_t len = strlen(name);
	long value = -1;
	FILE *f = fopen(path, "r");

	if (!f)
		return -1;
	while (value < 0 && fgets(line, sizeof(line), f)) {
		p = line + len;
		if (!strncmp(line, name, len) && strchr(": \t", *p))
			value = atol(p + strspn(p, ": \t"));
	}
	fclose(f);
	return value;
}

static long kb_of(const char *name)
{
	long value = value_in("/proc/meminfo", name);

	if (value < 0)
		errx(1, "no %s in /proc/meminfo", name);
	return value;
}

static long used_kb(void)
{
	return kb_of("MemTotal") - kb_of("MemFree") - kb_of("Buffers") -
	       kb_of("Cached") + kb_of("Shmem");
}

/* What was closed before, here or by others, is freed a little later. */
static long settled_kb(void)
{
	long before, now = used_kb();
	int i;

	for (i = 0; i < 50; i++) {
		before = now;
		usleep(100000);
		now = used_kb();
		if (labs(now - before) < 64)
			break;
	}
	return now;
}

static long rings_kb(void)
{
	long value = value_in("/proc/net/l5_stat", "rings_kb");

	return value < 0 ? 0 : value;
}

static void accept_some(struct idle *it, int n)
{
	char done = 1;
	int i;

	for (i = 0; i < n; i++)
		transport_accept(&it->setup, it->listener);
	if (write(it->pipe[1], &done, 1) != 1)
		err(1, "pipe");
}

static void serve(void *arg)
{
	struct idle *it = arg;

	accept_some(it, WARM_UP);
	accept_some(it, it->count);
	for (;;)
		pause();
}

static void connect_some(struct idle *it, int n)
{
	char done;
	int i;

	for (i = 0; i < n; i++)
		transport_check(&it->setup,
				transport_connect(&it->setup, &it->where));
	if (read(it->pipe[0], &done, 1) != 1)
		errx(1, "the server failed");
}

static void more_files(int n)
{
	struct rlimit lim = { .rlim_cur = n, .rlim_max = n };

	if (setrlimit(RLIMIT_NOFILE, &lim) < 0)
		err(1, "setting the number of open files to %d", n);
}

int main(int argc, char **argv)
{
	struct idle it = { .setup = setup_default, .count = 1000 };
	const struct own_option own[] = {
		{ "number", 'n', "N", "of connections (1000)", &it.count },
		{ 0 }
	};
	long used, rings, slab;
	double n;

	options_parse(argc, argv, "Measure the memory of idle connections.",
		      &it.setup, own);
	n = it.count;
	more_files(WARM_UP + it.count + 64);
	if (pipe(it.pipe))
		err(1, "pipe");
	server_start(&it.setup, &it.where, &it.listener, serve, &it);
	close(it.pipe[1]);

	connect_some(&it, WARM_UP);
	used = settled_kb();
	slab = kb_of("Slab");
	rings = rings_kb();
	connect_some(&it, it.count);
	used = settled_kb() - used;
	slab = kb_of("Slab") - slab;
	rings = rings_kb() - rings;

	used -= rings;
	printf("%.2f KiB\n", (used > slab ? used : slab) / n);
	printf("%.2f KiB rings\n", rings / n);
	printf("%.2f KiB slab\n", slab / n);
	return 0;	/* and the server dies with its parent */
}
