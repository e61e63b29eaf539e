// SPDX-License-Identifier: GPL-2.0
#include <stddef.h>
#include <sys/time.h>

#include "signals.h"

volatile sig_atomic_t caught;

sigjmp_buf jump_buf;

void jump_out(int sig)
{
	(void)sig;
	siglongjmp(jump_buf, 1);
}

static void on_signal(int sig)
{
	(void)sig;
	caught++;
}

void set_handler(int sig, void (*handler)(int), int flags)
{
	struct sigaction sa = { .sa_handler = handler, .sa_flags = flags };

	sigaction(sig, &sa, NULL);
}

void catch_signal(int sig, int flags)
{
	caught = 0;
	set_handler(sig, on_signal, flags);
}

static void set_timer(long us, long then)
{
	struct itimerval it = {
		.it_value = { us / 1000000, us % 1000000 },
		.it_interval = { then / 1000000, then % 1000000 },
	};

	setitimer(ITIMER_REAL, &it, NULL);
}

void alarm_in(long us, int flags)
{
	catch_signal(SIGALRM, flags);
	set_timer(us, 0);
}

void alarm_every(long us)
{
	catch_signal(SIGALRM, 0);
	set_timer(us, us);
}

void alarm_off(void)
{
	set_timer(0, 0);
}
