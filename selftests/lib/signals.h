/* SPDX-License-Identifier: GPL-2.0 */
/* Signals that a test brings upon itself. */
#ifndef L5_SIGNALS_H
#define L5_SIGNALS_H

#include <setjmp.h>
#include <signal.h>

/* How many signals there were since catch_signal() */
extern volatile sig_atomic_t caught;

/* sigaction() with a handler that blocks no other signal. */
void set_handler(int sig, void (*handler)(int), int flags);

/* A handler that leaves by siglongjmp(). */
extern sigjmp_buf jump_buf;
void jump_out(int sig);

/* Let a signal be counted, and do nothing else. */
void catch_signal(int sig, int flags);

/*
 * SIGALRM, in microseconds from now: once; or again and again, so that one
 * that comes before its call has begun is not the last. Both are caught, the
 * second kind without SA_RESTART. alarm_off() ends them.
 */
void alarm_in(long us, int flags);
void alarm_every(long us);
void alarm_off(void);

#endif /* L5_SIGNALS_H */
