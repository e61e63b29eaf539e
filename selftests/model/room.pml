/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Waiting for room: the reader rings only once half the ring is free, by what
 * the writer's tail says. That is a hint: two processes share the writing end,
 * and one may have published a record, which is read at once, and not have
 * moved the tail yet. It stands for E, F and G of uapi/l5_ring.h on tx_wait.
 *
 * Taken out, each has to fail, a writer sleeping for ever beside room:
 *   NO_E NO_F NO_G   a barrier
 *   NO_SIGN          a head ahead of the tail is taken for a full ring
 */
#define SIZE	4
#define EACH	3	/* records of each writer */
#define TOTAL	(2 * EACH)

/* As visible: records published, tx_tail, rx_head, tx_wait. */
byte news, tail, head;
bit word;

/* Buffers: of the holder of the lock; of each writer; of the reader. */
bit b_news, b_tail, b_arm[2], b_clear;
byte b_head;

bit lock, queued[2], woken[2];

active proctype buffers()
{
end:
	do
	:: atomic { b_news -> news++; b_news = 0 }
	:: atomic { b_tail -> tail++; b_tail = 0 }
	:: atomic { b_arm[0] -> word = 1; b_arm[0] = 0 }
	:: atomic { b_arm[1] -> word = 1; b_arm[1] = 0 }
	:: atomic { b_head > 0 -> head++; b_head-- }
	:: atomic { b_clear -> word = 0; b_clear = 0 }
	od
}

active [2] proctype writer()
{
	byte me = _pid - 1, n;
	bit room;

	do
	:: n == EACH -> break
	:: else ->
		atomic { !lock -> lock = 1 };
		room = (tail < head + SIZE);
		if
		:: room ->
			b_news = 1;
			b_tail = 1;
			n++
		:: else
		fi;
		atomic { !b_news && !b_tail -> lock = 0 };
		if
		:: room
		:: else ->
			atomic { queued[me] = 1; woken[me] = 0 };
			do
			:: true ->
				atomic { !b_arm[me] -> b_arm[me] = 1 };
#ifndef NO_E
				!b_arm[me];	/* E */
#endif
				if
				:: tail <= head + SIZE / 2 -> break
				:: else -> atomic { woken[me] -> woken[me] = 0 }
				fi
			od;
			queued[me] = 0
		fi
	od
}

active proctype reader()
{
	byte got, seen;

	do
	:: got == TOTAL -> break
	:: else ->
		/* one or several, then one look */
		atomic { news > got -> b_head++; got++ };
		do
		:: atomic { news > got -> b_head++; got++ }
		:: break
		od;
#ifndef NO_F
		b_head == 0;		/* F */
#endif
		/* relaxed: in either order */
		seen = tail;
		if
		:: word && !b_clear
		:: !word || b_clear -> goto next
		fi;
		if
		:: seen = tail
		:: skip
		fi;
		if
#ifdef NO_SIGN
		:: seen >= got && seen <= got + SIZE / 2
#else
		:: seen <= got + SIZE / 2
#endif
		:: else -> goto next
		fi;
		b_head == 0;
		b_clear = 1;
#ifndef NO_G
		!b_clear;		/* G */
#endif
		atomic {
			woken[0] = woken[0] || queued[0];
			woken[1] = woken[1] || queued[1]
		};
next:		skip
	od
}
