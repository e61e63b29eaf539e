// SPDX-License-Identifier: GPL-2.0
/*
 * Fuzzer of AF_L5's calls. See Documentation/testing.md.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "ends.h"
#include "l5test.h"
#include "rdma_here.h"
#include "watch.h"

int fz_selftest(void);

static const struct option options[] = {
	{ "seed", required_argument, NULL, 's' },
	{ "seconds", required_argument, NULL, 't' },
	{ "calls", required_argument, NULL, 'c' },
	{ "workers", required_argument, NULL, 'w' },
	{ "dir", required_argument, NULL, 'd' },
	{ "replay", required_argument, NULL, 'r' },
	{ "minimise", required_argument, NULL, 'm' },
	{ "only", required_argument, NULL, 'o' },
	{ "times", required_argument, NULL, 'n' },
	{ "single", no_argument, NULL, '1' },
	{ "fresh", no_argument, NULL, 'f' },
	{ "plain", no_argument, NULL, 'p' },
	{ "trace", no_argument, NULL, 'T' },
	{ "rdma", no_argument, NULL, 'R' },
	{ "stats", no_argument, NULL, 'C' },
	{ "held", no_argument, NULL, 'H' },
	{ "print", no_argument, NULL, 'P' },
	{ "selftest", no_argument, NULL, 'S' },
	{ }
};

static void usage(void)
{
	fputs("usage: fuzz [OPTIONS]\n"
	      "  --seed N       what all chance comes from; default: fresh\n"
	      "  --seconds N    how long (120)\n"
	      "  --calls N      end when so many were made; fewer are a failure\n"
	      "  --workers N    at a time (one a CPU)\n"
	      "  --dir DIR      write the last programs of each worker there\n"
	      "  --replay FILE  this program again, as a report or --dir has it\n"
	      "  --minimise FILE  leave calls out for as long as it fails\n"
	      "  --only N       the program of that number, as made by the seed\n"
	      "  --times N      so often, or so many programs\n"
	      "  --single       programs of one thread alone\n"
	      "  --fresh        programs by the seed alone: none is changed\n"
	      "  --plain        TCP and AF_UNIX in place of AF_L5\n"
	      "  --trace        print each call and what it returned\n"
	      "  --rdma         over an RDMA device of this machine, one worker\n"
	      "  --held         look for calls that are held by threads that write\n"
	      "  --stats        say which calls were made, and what came of it\n"
	      "  --print        print programs instead of running them\n"
	      "  --selftest     of the generator\n", stderr);
	exit(2);
}

static uint64_t fresh_seed(void)
{
	uint32_t seed;

	if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		seed = l5_now_ms();
	return seed;
}

static const struct fz_prog *program(const char *path)
{
	static struct fz_prog p;
	FILE *f = fopen(path, "re");

	if (!f || !fz_parse(f, &p)) {
		fprintf(stderr, "fuzz: no program in %s\n", path);
		exit(2);
	}
	fclose(f);
	return &p;
}

static const struct fz_prog *only(const struct fz_plan *plan, uint64_t number)
{
	static struct fz_prog p;

	fz_gen(&p, plan->seed, number, plan->lanes);
	return &p;
}

static void print(const struct fz_plan *plan)
{
	struct fz_prog p;
	uint64_t i;

	if (plan->one) {
		fz_print(stdout, "", plan->one, NULL);
		return;
	}
	for (i = 0; i < plan->times; i++) {
		fz_gen(&p, plan->seed, i, plan->lanes);
		fz_print(stdout, "", &p, NULL);
	}
}

/* By default an allocation only fails where the caller may not sleep. */
static void fail_all(void)
{
	static const struct {
		const char *file;
		const char *says;
	} set[] = {
		{ "failslab/ignore-gfp-wait", "N\n" },
		{ "fail_page_alloc/ignore-gfp-wait", "N\n" },
		{ "failslab/verbose", "0\n" },
		{ "fail_page_alloc/verbose", "0\n" },
	};
	char path[64];
	unsigned int i;
	FILE *f;

	for (i = 0; i < ARRAY_SIZE(set); i++) {
		snprintf(path, sizeof(path), "/sys/kernel/debug/%s",
			 set[i].file);
		f = fopen(path, "we");
		if (!f)
			continue;
		fputs(set[i].says, f);
		fclose(f);
	}
}

/*
 * Modules that the kernel would look for are loaded before, or are not looked
 * for: each look takes longer than a thousand calls.
 */
static void no_more_modules(void)
{
	FILE *f;

	sh("modprobe -qa tls tcp_diag udp_diag unix_diag veth 2>/dev/null");
	f = fopen("/proc/sys/kernel/modprobe", "we");
	if (!f)
		return;
	fputs("\n", f);
	fclose(f);
}

int main(int argc, char **argv)
{
	struct fz_plan plan = {
		.seconds = 120, .guide = true, .lanes = true,
		.workers = sysconf(_SC_NPROCESSORS_ONLN),
	};
	const char *replay = NULL, *number = NULL;
	bool minimise = false;
	bool seeded = false, prints = false;
	int o, ret;

	while ((o = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (o) {
		case 's':
			plan.seed = strtoull(optarg, NULL, 0);
			seeded = true;
			break;
		case 't':
			plan.seconds = atoi(optarg);
			break;
		case 'c':
			plan.most = strtoull(optarg, NULL, 0);
			break;
		case 'w':
			plan.workers = atoi(optarg);
			break;
		case 'd':
			plan.dir = optarg;
			break;
		case 'm':
			minimise = true;
			replay = optarg;
			break;
		case 'r':
			replay = optarg;
			break;
		case 'o':
			number = optarg;
			break;
		case 'n':
			plan.times = strtoull(optarg, NULL, 0);
			break;
		case '1':
			plan.lanes = false;
			break;
		case 'f':
			plan.guide = false;
			break;
		case 'p':
			fz_world.plain = true;
			break;
		case 'R':
			fz_world.rdma = true;
			break;
		case 'T':
			fz_world.trace = true;
			break;
		case 'H':
			plan.held = true;
			break;
		case 'C':
			plan.stats = true;
			break;
		case 'P':
			prints = true;
			break;
		case 'S':
			return fz_selftest();
		default:
			usage();
		}
	}
	if (optind < argc || plan.workers < 1 || plan.workers > FZ_WORKERS)
		usage();
	if (!seeded)
		plan.seed = fresh_seed();
	if (replay)
		plan.one = program(replay);
	else if (number)
		plan.one = only(&plan, strtoull(number, NULL, 0));
	if (plan.one && !plan.times)
		plan.times = 100;
	if (prints) {
		print(&plan);
		return 0;
	}
	printf("TAP version 13\n1..1\n# SEED=%" PRIu64 "\n", plan.seed);
	fflush(stdout);
	fz_world.family = l5_family();
	if (!fz_world.plain)
		l5_or_skip();
	if (fz_world.rdma && !rdma_here()) {
		fputs("# no RDMA device can be made here\n", stderr);
		return 4;
	}
	/* workers would not know whose the leftovers are */
	if (fz_world.rdma)
		plan.workers = 1;
	no_more_modules();
	sh("[ ! -w " L5_INET_PATH " ] || echo 1 >" L5_INET_PATH);
	fail_all();
	ret = minimise ? fz_minimise(&plan) : fz_run(&plan);
	printf("%s 1 fuzz.%s\n", ret ? "not ok" : "ok",
	       fz_world.rdma ? "rdma" : "run");
	return ret;
}
