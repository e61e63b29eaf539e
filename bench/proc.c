// SPDX-License-Identifier: GPL-2.0
/*
 * A server process beside the client, and the clock of a sample.
 */
#include "bench.h"

#include <err.h>
#include <errno.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>

#define MAX_TIMES	131072	/* operations whose time is kept */

/* Looked at after every operation, where reading a clock would cost more. */
atomic_int sample_over;

static struct timespec started;

static void on_alarm(int sig)
{
	(void)sig;
	sample_over = 1;
}

void sample_start(double seconds)
{
	struct sigaction sa = {
		.sa_handler = on_alarm,
		.sa_flags = SA_RESTART,
	};
	struct itimerval it = {
		.it_value.tv_sec = floor(seconds),
		.it_value.tv_usec = (seconds - floor(seconds)) * 1e6,
	};

	sample_over = 0;
	if (sigaction(SIGALRM, &sa, NULL) || setitimer(ITIMER_REAL, &it, NULL))
		err(1, "setting the timer");
	clock_gettime(CLOCK_MONOTONIC, &started);
}

double sample_elapsed(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec - started.tv_sec +
	       (now.tv_nsec - started.tv_nsec) / 1e9;
}

/* What this process has used so far. */
double cpu_seconds(void)
{
	struct timespec used;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	return used.tv_sec + used.tv_nsec / 1e9;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/*
 * Call @once, which returns seconds, one time after the other or with pauses;
 * return the median in microseconds.
 */
double sample_median(double seconds, unsigned long every_us,
		     double (*once)(void *arg, unsigned long nr), void *arg)
{
	struct timespec pause = {
		.tv_sec = every_us / 1000000,
		.tv_nsec = every_us % 1000000 * 1000,
	};
	double *took = array_alloc(MAX_TIMES * sizeof(*took));
	double median;
	unsigned long n;

	sample_start(seconds);
	for (n = 0; !n || (!sample_over && n < MAX_TIMES); n++) {
		if (every_us)
			nanosleep(&pause, NULL);
		took[n] = once(arg, n);
	}
	qsort(took, n, sizeof(*took), by_value);
	median = took[n / 2];
	free(took);
	return median * 1e6;
}

static void pin_to(int nth)
{
	cpu_set_t all, one;
	int cpu;

	if (sched_getaffinity(0, sizeof(all), &all))
		err(1, "sched_getaffinity");
	for (cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &all) && nth-- == 0)
			break;
	if (cpu == CPU_SETSIZE)
		errx(1, "not enough CPUs for this pinning");
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		err(1, "sched_setaffinity");
}

void client_pin(const struct setup *s)
{
	if (s->pinning != PIN_NONE)
		pin_to(0);
}

pid_t child_start(const struct setup *s, void (*serve)(void *), void *arg)
{
	pid_t parent = getpid();
	pid_t pid = fork();

	if (pid < 0)
		err(1, "fork");
	if (pid)
		return pid;
	/* Nothing is left behind, however the client ends. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	if (s->pinning != PIN_NONE)
		pin_to(s->pinning == PIN_SPLIT);
	serve(arg);
	exit(0);
}

/*
 * The server: a child or, if it has a host for itself, this process. Returns
 * for the client, with the address and the child, if there is one.
 */
pid_t server_start(const struct setup *s, struct address *where, int *listener,
		   void (*serve)(void *), void *arg)
{
	pid_t pid;

	*where = s->where;
	if (s->role == ROLE_CLIENT)
		return 0;
	*listener = transport_listen(s, where);
	if (s->role == ROLE_SERVER) {
		printf("%d\n", ntohs(where->in.sin_port));
		fflush(stdout);
		serve(arg);
		exit(0);
	}
	pid = child_start(s, serve, arg);
	close(*listener);
	return pid;
}

void server_wait(pid_t pid)
{
	int status;

	if (!pid)
		return;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			err(1, "waitpid");
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		errx(1, "the server failed");
}
