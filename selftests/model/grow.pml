/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A ring that is full grows if its reader does not move: so it is watched, by a
 * worker that looks from time to time. A writer that is about to wait has it
 * watched, unless it is already; the worker stops when no writer waits. It
 * stands for E of uapi/l5_ring.h and BG of kmod/grow.c.
 *
 * Taken out, each has to fail, a writer sleeping for ever beside a reader that
 * waits for it:
 *   NO_AGAIN         the worker looks once more after it has stopped
 *   NO_BG            that look comes after the store
 */
#define READS	2	/* so often the reader makes room, at most */

/* As visible: tx_wait, l5_end.full, the work, room in the ring, a long ring. */
bit word, watched, queued, room, grown;

/* Buffers: of the writer; of the worker. */
bit b_arm, b_off;

bit woken;

active proctype buffers()
{
end:
	do
	:: atomic { b_arm -> word = 1; b_arm = 0 }
	:: atomic { b_off -> watched = 0; b_off = 0 }
	od
}

active proctype writer()
{
	do
	:: grown -> break
	:: room -> room = 0
	:: else ->
		atomic { woken = 0; b_arm = 1 };
		!b_arm;			/* E */
		if
		:: watched
		:: atomic { !watched -> watched = 1 };
			queued = 1
		fi;
		room || grown || woken
	od
}

active proctype reader()
{
	byte n;

	do
	:: n == READS -> break
	:: atomic { !room -> room = 1; n++ };
		if
		:: atomic { word -> word = 0; woken = 1 }
		:: !word
		fi
	:: break
	od
}

active proctype worker()
{
	bit waits;

end:
	do
	:: atomic { queued -> queued = 0; waits = word && !room };
		if
		:: !watched
		:: watched && !waits ->
			b_off = 1;
#ifndef NO_BG
			!b_off;		/* BG */
#endif
#ifndef NO_AGAIN
			if
			:: word && !room ->
				atomic { !b_off -> watched = 1; queued = 1 }
			:: !word || room
			fi
#endif
		/* the reader has moved: wait on */
		:: atomic { watched && waits -> queued = 1 }
		/* it has not, for long enough */
		:: atomic { watched && waits ->
			grown = 1; watched = 0; word = 0; woken = 1; break }
		fi
	od
}
