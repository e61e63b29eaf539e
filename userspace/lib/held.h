/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The lock words that a thread holds, and the quick way to take one.
 */
#ifndef L5_HELD_H
#define L5_HELD_H

#include "base.h"

/*
 * The lock words that this thread holds, so that a call that finds a word taken
 * can tell whether it waits for itself. It does in a signal handler that
 * interrupted its own thread, or after siglongjmp() took the thread out of the
 * middle. It is the latter if the frame that held the word lies where a present
 * one is, see l5_frame_over(). This is only looked at when a word is taken.
 */
struct l5_held {
	uint64_t key;		/* 0: nothing */
	uintptr_t frame;	/* odd: it has the word for sure */
};

enum { L5_HELD_MORE = 7 };

/* The word of the present call, and those that signal handlers came upon. */
struct l5_held_all {
	struct l5_held now;
	struct l5_held more[L5_HELD_MORE];
	int n;
};

extern __thread struct l5_held_all l5_held
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Where the stack is in this function; even. */
static inline __attribute__((always_inline)) uintptr_t l5_frame(void)
{
#if __has_builtin(__builtin_ia32_pause) && UINTPTR_MAX > UINT32_MAX
	uintptr_t sp;

	/* a frame pointer would have to be made */
	__asm__("mov %%rsp, %0" : "=r" (sp));
	return sp & ~1ul;
#else
	return (uintptr_t)__builtin_frame_address(0) & ~1ul;
#endif
}

/*
 * Is a call over that had its stack pointer at @frame, as seen by a call that
 * has its own at @now and goes on further down? It is over if its frame lies
 * within that part of the stack, for no two living frames overlap. If it does
 * not, nothing is known: a handler may run on any stack at all, and what is
 * further up may be another stack. A caller that takes a living frame for dead
 * takes its lock word away in the middle of a copy.
 */
static inline __attribute__((always_inline))
bool l5_frame_over(uintptr_t frame, uintptr_t now)
{
	return frame <= now && frame >= l5_frame();
}

/*
 * Take a word that is free, by a thread that holds no other: false if it is not
 * so simple. A handler may come between any two lines, and leaves all as it
 * was.
 */
static inline __attribute__((always_inline))
bool l5_enter(__u32 *word, __u32 id, uint64_t key, uintptr_t frame)
{
	struct l5_held *h = &l5_held.now;

	if (l5_unlikely(h->key))
		return false;
	h->frame = frame;
	l5_signal_fence();
	h->key = key;
	l5_signal_fence();
	/* again: a handler between the two left its own */
	h->frame = frame;
	l5_signal_fence();
	/* J, pairs with K */
	if (l5_unlikely(!l5_cmpxchg(word, 0, id))) {
		h->key = 0;
		return false;
	}
	l5_signal_fence();
	h->frame = frame | 1;
	l5_signal_fence();
	return true;
}

/* Give it back; not 0 if a thread waits for it */
static inline __attribute__((always_inline))
__u32 l5_leave(__u32 *word, uintptr_t frame)
{
	__u32 waiters;

	l5_signal_fence();
	l5_held.now.frame = frame;
	l5_signal_fence();
	waiters = l5_unlock(word);
	l5_signal_fence();
	l5_held.now.key = 0;
	return waiters;
}

#endif /* L5_HELD_H */
