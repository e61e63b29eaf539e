/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The doorbell of an end that is being accepted. Its wait word is armed from
 * the start, and there is no socket to wake: the peer that rings looks for one,
 * clears the word, and looks again. It stands for AA of kmod/conn.c and G of
 * kmod/end.c.
 *
 * Taken out, each has to fail, the accepted socket sleeping beside a record:
 *   NO_AA NO_G       a barrier
 *   NO_AGAIN         the peer that rings looks for the socket once, before the
 *                    clear
 */
#define TOTAL	3

/* As visible: records, the socket, the wait word. */
byte news;
bit sk, word = 1;

/* Buffers: of the writer, and of the accepting side. */
bit b_news, b_clear, b_sk, b_arm;

bit queued, woken;

active proctype buffers()
{
end:
	do
	:: atomic { b_news -> news++; b_news = 0 }
	:: atomic { b_clear -> word = 0; b_clear = 0 }
	:: atomic { b_sk -> sk = 1; b_sk = 0 }
	:: atomic { b_arm -> word = 1; b_arm = 0 }
	od
}

active proctype writer()
{
	byte n;
	bit found;

	do
	:: n == TOTAL -> break
	:: else ->
		b_news = 1;
		n++;
		!b_news;			/* A and F */
		if
		:: word && !b_clear ->
			found = sk;
			b_clear = 1;
#ifndef NO_G
			!b_clear;		/* G */
#endif
#ifndef NO_AGAIN
			if
			:: !found -> found = sk
			:: else
			fi;
#endif
			if
			:: found -> atomic { woken = woken || queued }
			:: else
			fi
		:: else
		fi
	od
}

active proctype server()
{
	byte got;

	b_sk = 1;
#ifndef NO_AA
	!b_sk;					/* AA */
#endif
	do
	:: got == TOTAL -> break
	:: news > got -> got++
	:: news == got && got < TOTAL ->
		atomic { queued = 1; woken = 0 };
		do
		:: true ->
			b_arm = 1;
			!b_arm;			/* E */
			if
			:: news > got -> break
			:: else -> atomic { woken -> woken = 0 }
			fi
		od;
		queued = 0
	od
}
