/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Sleeping and waking of uapi/l5_ring.h with store buffers. The sleeper arms
 * and looks, the waker makes news and looks for the flag; only the kernel, in
 * the waker's doorbell, clears the flag, and every clear is followed by a wake.
 *
 *   E  full barrier between arming and looking
 *   F  full barrier between the news and the look at the flag
 *   G  full barrier between the clear and the wake
 *
 * -DNO_E, -DNO_F, -DNO_G take one out: each then has to fail, the sleeper
 * sleeping although there is news and nobody is left to wake it.
 */
#define ROUNDS	3

byte news;		/* records published, as visible */
byte wait_word;		/* as visible */
byte consumed;
bool asleep, woken;

/* Store buffers: of the sleeper (arm), of the waker (news, then clear). */
bool s_arm;
byte w_news;		/* published, not visible yet */
bool w_clear;

active proctype drain()
{
end:
	do
	:: atomic { s_arm -> wait_word = 1; s_arm = false }
	:: atomic { w_news > 0 -> news++; w_news-- }
	:: atomic { w_clear -> wait_word = 0; w_clear = false }
	od
}

/* a processor sees its own buffered stores */
#define WAKER_SEES_FLAG		(wait_word && !w_clear)

active proctype sleeper()
{
	do
	:: consumed == ROUNDS -> break
	:: news > consumed -> consumed++
	:: news == consumed && consumed < ROUNDS ->
		/* the wait queue is entered before the arming */
		woken = false;
		s_arm = true;
#ifndef NO_E
		!s_arm;
#endif
		if
		:: news > consumed -> skip
		:: else ->
			asleep = true;
			woken;		/* sleeps for ever: an invalid end state */
			asleep = false
		fi
	od
}

active proctype waker()
{
	byte sent = 0;

	do
	:: sent == ROUNDS -> break
	:: else ->
		w_news++;
		sent++;
#ifndef NO_F
		w_news == 0;
#endif
		if
		:: WAKER_SEES_FLAG ->
			/* stores of one processor drain in order */
			w_news == 0;
			w_clear = true;
#ifndef NO_G
			!w_clear;
#endif
			woken = true
		:: else
		fi
	od
}
