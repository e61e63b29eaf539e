/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Signals: between the kernel and the program's handlers stands one of ours.
 *
 * A handler may do all that the program may: use the socket that it interrupted
 * or leave by siglongjmp(). So none runs while this thread uses a socket's
 * rings, or has the lock of an epoll set. A signal that comes then is put back,
 * to this thread and as it was, with all signals blocked; the use ends, at once
 * if it is a wait; and the last thing that it does is to let the signals in
 * again. The handler runs there, before the call sleeps or returns.
 *
 * A signal that an instruction raises, a fault, cannot wait: its handler runs
 * at once, and inside it nothing is put back. The same signal can wait if it
 * was sent, but it is not blocked meanwhile, so it is kept and sent again at
 * the end.
 *
 * Nor are signals put back that we are not told of, since the program set their
 * handler by a system call of its own, after it had mapped something. That
 * handler finds its thread's rings in use, and is told EINTR, or EAGAIN if it
 * does not block; no other thread is affected.
 *
 * sigaction() and its relatives return what they would return without us.
 */
#ifndef L5_SIGNAL_H
#define L5_SIGNAL_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "../lib/map.h"

/**
 * struct sig_thread - what a thread knows of its signals
 * @held: where the stack was when it began what no handler may see; or 0
 * @put_back: signals were put back, and are to be let in
 * @coming: one of our own handlers is at it
 * @mask: what was blocked before they were put back
 * @kept: a signal to be put back, if its number is not 0
 */
struct sig_thread {
	uintptr_t held;
	bool put_back;
	bool coming;
	uint64_t mask;
	siginfo_t kept;
};

extern __thread struct sig_thread sig_thread
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* The slow half of sig_open() and sig_release(). */
void sig_let_in(void);

/**
 * sig_hold() - begin what no handler may see
 *
 * Nothing in there may sleep. Holds may be nested.
 *
 * Return: for sig_release()
 */
static inline __attribute__((always_inline)) uintptr_t sig_hold(void)
{
	struct sig_thread *t = &sig_thread;
	uintptr_t was = t->held, now = l5_frame();

	/* left in the middle, by a handler that we do not know */
	if (l5_unlikely(was && l5_frame_over(was, now)))
		was = 0;
	if (!was)
		t->held = now;
	l5_signal_fence();
	return was;
}

/**
 * sig_open() - a use is over: is there a signal to let in?
 */
static inline __attribute__((always_inline)) void sig_open(void)
{
	struct sig_thread *t = &sig_thread;

	l5_signal_fence();
	if (l5_unlikely(t->put_back) && !t->held)
		sig_let_in();
}

/**
 * sig_release() - the end of sig_hold()
 * @was: what that returned
 */
static inline __attribute__((always_inline)) void sig_release(uintptr_t was)
{
	l5_signal_fence();
	sig_thread.held = was;
	sig_open();
}

/**
 * sig_settle() - about to sleep: let in what may still be kept out
 *
 * There is none, but in a thread that was taken out of the middle by a handler
 * that we do not know.
 */
static inline void sig_settle(void)
{
	if (l5_unlikely(sig_thread.put_back)) {
		sig_thread.held = 0;
		sig_let_in();
	}
}

/**
 * sig_start() - at the start
 */
void sig_start(void);

/**
 * sig_in_child() - in a child of fork()
 */
void sig_in_child(void);

/**
 * sig_mapped() - something was mapped: now handlers matter
 *
 * Handlers that the program set past us until now get ours before them, and we
 * hear of SIGSEGV and SIGBUS even where the program has no handler. What the
 * program hears stays the same.
 */
void sig_mapped(void);

#endif /* L5_SIGNAL_H */
