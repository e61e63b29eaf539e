/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The lock word of uapi/l5_ring.h and the cursors it guards, when holders die
 * at any instruction. Two mapped processes, either or both of which may be
 * killed, and the kernel in a system call, which is not. It stands for these
 * letters:
 *
 *   J  a process that takes the word sees what its last holder stored
 *   K  the word is free only after all that its holder stored is visible
 *
 * and for the rules: the kernel puts L5_LOCK_DIED in the place of a dead
 * holder; the holder that finds that mends; a process that dies wakes all that
 * sleep for the word, whether it held it or not, for it may have been on its
 * way to wake them; a sleeper is in the queue before L5_LOCK_WAITERS is set,
 * which is done only while a process holds the word.
 *
 * The section guarded is l5_prod_publish(), or with -DTAKE l5_cons_take() of
 * records of two bytes, one at a time. The next holder has to find exactly what
 * was done: no record overwritten or skipped, no byte taken twice or lost.
 *
 * Stores wait in a buffer and become visible in any order; a process that was
 * killed has made those before the instruction it did not reach.
 *
 * Taken out, each has to fail:
 *   NO_J NO_K   a barrier
 *   NO_MEND     the next holder does not look for what was left half done
 *   NO_DIED     the kernel does not mark the word
 *   NO_WAKE     a process that dies wakes the sleepers only if it held the word
 *   NO_QUEUE    WAITERS is set before the sleeper is in the queue
 *   NO_HELD     WAITERS is set without a look at whether the word is held
 *   NO_EACH     only one sleeper is woken, though the word forgets the others
 *   NO_POS      rx_pos is stored after rx_head
 */
#define PROCS	3
#define KERNEL	2	/* the last of them, immortal */
/* records, or bytes, that each wants to move; one moves a single one */
#define TURNS(i)	(i == 1 -> 1 : 2)
#define MOST	5
#define NONE	255
#define FREE	255
#define FIRST	1	/* pid of process 0, after the buffers */

/* The lock word. */
byte holder = FREE;
bit waiters, died;

/* What it guards, as visible, and what is still in the buffers. */
#ifdef TAKE
byte pos, head;			/* rx_pos, rx_head: three a record */
byte b_pos[PROCS] = NONE, b_head[PROCS] = NONE;
byte taken;			/* bytes that were taken, to compare with */
#define DRAINED		(b_pos[me] == NONE && b_head[me] == NONE)
/* C: what was stored before the head is visible before it */
#ifdef NO_POS
#define HEAD_MAY(i)	1
#else
#define HEAD_MAY(i)	(b_pos[i] == NONE)
#endif
#else
bit header[MOST + 1];
byte tail;
byte b_header[PROCS] = NONE, b_tail[PROCS] = NONE;
byte moved;			/* records published */
#define DRAINED		(b_header[me] == NONE && b_tail[me] == NONE)

inline publish(i)
{
	assert(!header[b_header[i]]);		/* overwritten */
	assert(b_header[i] == moved);		/* skipped */
	header[b_header[i]] = 1;
	moved++;
	b_header[i] = NONE
}
#endif

/* L5_IOC_LOCK's wait queue */
bit queued[PROCS], woken[PROCS];

bit kill[2];
byte inside;			/* living processes that think they hold it */

active proctype buffers()
{
end:
	do
#ifdef TAKE
	:: atomic { b_pos[0] != NONE -> pos = b_pos[0]; b_pos[0] = NONE }
	:: atomic { b_pos[1] != NONE -> pos = b_pos[1]; b_pos[1] = NONE }
	:: atomic { b_pos[2] != NONE -> pos = b_pos[2]; b_pos[2] = NONE }
	:: atomic { b_head[0] != NONE && HEAD_MAY(0) ->
		head = b_head[0]; b_head[0] = NONE }
	:: atomic { b_head[1] != NONE && HEAD_MAY(1) ->
		head = b_head[1]; b_head[1] = NONE }
	:: atomic { b_head[2] != NONE && HEAD_MAY(2) ->
		head = b_head[2]; b_head[2] = NONE }
#else
	:: atomic { b_header[0] != NONE -> publish(0) }
	:: atomic { b_header[1] != NONE -> publish(1) }
	:: atomic { b_header[2] != NONE -> publish(2) }
	:: atomic { b_tail[0] != NONE -> tail = b_tail[0]; b_tail[0] = NONE }
	:: atomic { b_tail[1] != NONE -> tail = b_tail[1]; b_tail[1] = NONE }
	:: atomic { b_tail[2] != NONE -> tail = b_tail[2]; b_tail[2] = NONE }
#endif
	od
}

inline wake()
{
	atomic {
#ifdef NO_EACH
		if
		:: queued[0] -> woken[0] = 1; queued[0] = 0
		:: else ->
			if
			:: queued[1] -> woken[1] = 1; queued[1] = 0
			:: else -> woken[2] = queued[2]; queued[2] = 0
			fi
		fi
#else
		woken[0] = woken[0] || queued[0];
		woken[1] = woken[1] || queued[1];
		woken[2] = woken[2] || queued[2]
#endif
	}
}

/* L5_IOC_LOCK */
inline sleep()
{
#ifdef NO_QUEUE
	atomic {
		if
		:: holder != FREE -> waiters = 1; held = true
		:: else -> held = false
		fi
	};
	atomic { queued[me] = 1; woken[me] = 0 };
#else
	atomic { queued[me] = 1; woken[me] = 0 };
#ifdef NO_HELD
	waiters = 1;
	held = true;
#else
	atomic {
		if
		:: holder != FREE -> waiters = 1; held = true
		:: else -> held = false
		fi
	};
#endif
#endif
	if
	:: held -> woken[me]
	:: else
	fi;
	atomic { queued[me] = 0; woken[me] = 0 }
}

/* Where the next holder goes on. */
inline load()
{
#ifdef TAKE
	at = head;
	off = pos - at
#else
	at = tail
#endif
}

inline lock()
{
	do
	:: true ->
#ifdef NO_J
		load();
#endif
		atomic {
			if
			:: holder == FREE ->
				holder = me;
				mend = died;
				died = 0;
				inside++;
				assert(inside == 1);
				break
			:: else
			fi
		};
		sleep()
	od;
#ifndef NO_J
	load()		/* J */
#endif
}

inline unlock()
{
#ifndef NO_K
	DRAINED;	/* K */
#endif
	atomic {
		held = waiters;
		waiters = 0;
		holder = FREE;
		inside--
	};
	if
	:: held -> wake()	/* L5_IOC_UNLOCK */
	:: else
	fi;
	/* fewer states to search */
	atomic { held = false; mend = false; at = 0; off = 0 }
}

#ifdef TAKE

inline set_pos(v)
{
	atomic { b_pos[me] == NONE; b_pos[me] = v; taken++ }
}

inline set_head(v)
{
	atomic { b_head[me] == NONE; b_head[me] = v }
}

inline section()
{
#ifndef NO_MEND
	if
	:: mend && off == 3 -> at = at + 3; off = 0; set_head(at)
	:: else
	fi;
#endif
	/* l5_cons_peek() says -1 to anything else */
	assert(off < 2);
	assert(at / 3 * 2 + off == taken);
	if
	:: off == 0 -> set_pos(at + 1)
	:: else ->
#ifdef NO_POS
		set_head(at + 3);
		set_pos(at + 3)
#else
		set_pos(at + 3);
		set_head(at + 3)
#endif
	fi
}

#else

inline set_tail(v)
{
	atomic { b_tail[me] == NONE; b_tail[me] = v }
}

inline section()
{
#ifndef NO_MEND
	if
	:: mend && header[at] -> at++; set_tail(at)
	:: else
	fi;
#endif
	atomic { b_header[me] == NONE; b_header[me] = at };
	set_tail(at + 1)
}

#endif

inline turns()
{
	do
	:: n == TURNS(me) -> break
	:: else ->
		lock();
		section();
		unlock();
		n++
	od
}

active [2] proctype process()
{
	byte me = _pid - FIRST;
	byte n, at, off;
	bool mend, held;

	{
		turns()
	} unless {
		kill[me]
	};
	if
	:: kill[me] ->
		/* its mapping goes away */
		DRAINED;
		atomic { queued[me] = 0; woken[me] = 0 };
		atomic { held = false; mend = false; at = 0; off = 0; n = 0 };
#ifndef NO_DIED
		atomic {
			if
			:: holder == me ->
				holder = FREE;
				died = 1;
				inside--;
				held = true
			:: else
			fi
		};
#endif
#ifdef NO_WAKE
		if
		:: held -> wake()
		:: else
		fi
#else
		wake()
#endif
	:: else
	fi
}

active proctype kernel()
{
	byte me = KERNEL;
	byte n, at, off;
	bool mend, held;

	turns()
}

active proctype killer()
{
	if
	:: kill[0] = 1
	:: skip
	fi;
	if
	:: kill[1] = 1
	:: skip
	fi
}
