// SPDX-License-Identifier: GPL-2.0
/*
 * Print the frequency of this machine's time stamp counter in kHz.
 *
 * An emulated guest reads the host's counter. It would find out the frequency
 * with the emulated timers, and on a busy host be wrong by a factor; then its
 * clock runs that much too fast or too slow. Better to be told.
 */
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

/* A pair (counter, clock) that no interruption came between. */
static void look(uint64_t *tsc, double *ns)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < 1000; i++) {
		struct timespec t;
		uint64_t a = __rdtsc(), b;

		clock_gettime(CLOCK_MONOTONIC_RAW, &t);
		b = __rdtsc();
		if (b - a < best) {
			best = b - a;
			*tsc = a + (b - a) / 2;
			*ns = t.tv_sec * 1e9 + t.tv_nsec;
		}
	}
}

int main(void)
{
	struct timespec pause = { .tv_nsec = 300000000 };
	uint64_t tsc0, tsc1;
	double ns0, ns1;

	look(&tsc0, &ns0);
	nanosleep(&pause, NULL);
	look(&tsc1, &ns1);
	printf("%.0f\n", (double)(tsc1 - tsc0) / (ns1 - ns0) * 1e6);
	return 0;
}
