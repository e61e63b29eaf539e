/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Waiting for room between hosts, see kmod/far/ring.c. A writer that finds its
 * ring full sends ROOM_ARM, with its tail, unless one is out already. The
 * reader's kernel notes both in its copy of the writer's control page, where a
 * reader that is a process looks after each record, and rings if half is free.
 * ROOM answers, with the head, once for each, and only if there is room.
 *
 * It stands for these letters, on the copy of tx_wait:
 *
 *   E  full barrier between arming, by the kernel, and its look at the head
 *   F  full barrier between the reader's head and its look at tx_wait
 *
 * Taken out, each has to fail, a writer sleeping for ever beside room, or an
 * answer that is none:
 *   NO_E NO_F
 *   NO_LOOK    the handler of ROOM_ARM does not look at the head
 *   NO_RING    the reader does not look at tx_wait
 *   NO_HEAD    ROOM overtakes the head
 *   NO_TAIL    ROOM_ARM brings no tail: the copy has an old one
 *   NO_LOCK    a doorbell and ROOM_ARM's handler answer at the same time
 *   NO_OUT     the writer is woken, and then noted that no ROOM_ARM is out
 */
#define SIZE	4
#define TOTAL	10

/* Visible at the reader: its head, its copy of the writer's page. */
byte head, tail;
bit word;
/* Its buffer, and its kernel's. */
byte b_head;
bit b_word;

/* At the writer: what it published, the head it knows. */
byte sent, known;
bit out, queued, woken;

chan records = [TOTAL] of { bit };
chan room_arm = [2] of { byte };
chan room = [3] of { byte };
bit lock;			/* l5_rdma.lock of the reader's host */
byte asked;			/* ROOM_ARM's tail */

active proctype buffers()
{
end:
	do
	:: atomic { b_head > 0 -> head++; b_head-- }
	:: atomic { b_word -> word = 1; b_word = 0 }
	od
}

#define HALF(t, h)	((t) <= (h) + SIZE / 2)
#define FULL	(sent - known == SIZE)

active proctype writer()
{
	do
	:: sent == TOTAL -> break
	:: !FULL && sent < TOTAL -> atomic { sent++; records!1 }
	:: FULL && sent < TOTAL ->
		atomic { queued = 1; woken = 0 };
		do
		:: true ->
			atomic {
				if
				:: !out -> out = 1; asked = sent; room_arm!sent
				:: else
				fi
			};
			if
			:: !FULL -> break
			:: else -> woken -> woken = 0
			fi
		od;
		queued = 0
	od
}

active proctype writers_kernel()
{
	byte h;

end:
	do
	:: room?h ->
#ifndef NO_HEAD
		known = h;
#endif
		assert(out && HALF(asked, known));
#ifdef NO_OUT
		woken = woken || queued;
		out = 0
#else
		out = 0;
		woken = woken || queued
#endif
#ifdef NO_HEAD
		;
		known = h
#endif
		;
		h = 0
	od
}

#ifdef NO_LOCK
#define LOCK	skip
#define UNLOCK	skip
#else
#define LOCK	atomic { !lock -> lock = 1 }
#define UNLOCK	lock = 0
#endif

/* l5_far_room(), the lock held */
inline answer()
{
	h = head;
	if
	:: HALF(tail, h) && word ->
		word = 0;
		room!h
	:: else
	fi;
	h = 0
}

/* the reader's kernel: messages */
active proctype handler()
{
	byte t, h;

end:
	do
	:: room_arm?t ->
		LOCK;
#ifndef NO_TAIL
		tail = t;
#endif
		t = 0;
		b_word = 1;
#ifndef NO_E
		!b_word;		/* E */
#endif
#ifndef NO_LOOK
#ifdef NO_E
		/* its own store it sees */
		h = head;
		if
		:: HALF(tail, h) ->
			!b_word;
			answer()
		:: else
		fi;
#else
		answer();
#endif
#endif
		!b_word;
		UNLOCK
	od
}

/* a process that has the ring mapped */
active proctype reader()
{
	byte got, seen, h;

	do
	:: got == TOTAL -> break
	:: else ->
		atomic { records?_ -> b_head++; got++ };
		do
		:: atomic { records?_ -> b_head++; got++ }
		:: break
		od;
#ifndef NO_F
		b_head == 0;		/* F */
#endif
#ifndef NO_RING
		/* in either order, and only hints: the kernel looks again */
		seen = tail;
		if
		:: !word -> goto next
		:: else
		fi;
		if
		:: seen = tail
		:: skip
		fi;
		if
		:: HALF(seen, got) ->
			/* the doorbell */
			b_head == 0;
			LOCK;
			answer();
			UNLOCK
		:: else
		fi;
#endif
next:		seen = 0
	od
}
