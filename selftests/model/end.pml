/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The end of a stream and of a socket. It stands for these letters:
 *
 *   L  full barrier between "closed" and the closer's look for unread records
 *   M  full barrier between publishing and the sender's look for "closed"; a
 *      mapped sender has it from l5_unlock() and looks at the state page
 *   P  the reader looks whether the stream has ended, and then at the ring
 *   R  full barrier between making the state page and the look at what it is
 *      to say                                                   (kmod/map.c)
 *   S  full barrier between an event and the look for a state page
 *
 * L pairs with M: either the closer sees the record unread, and resets, or the
 * sender hears that its bytes may never be read. P pairs with whatever puts the
 * end behind the last record. R pairs with S: the second of the two sets the
 * flag.
 *
 * One end sends records, by system call or mapped. A process that shares it
 * shuts it down, and one maps it, at any time. The other end reads some or all
 * of the records, in the kernel or mapped, and closes.
 *
 * Taken out, each has to fail:
 *   NO_L NO_M NO_P NO_R NO_S   a barrier
 *   NO_AGAIN   the mapped sender does not look at the state page after it has
 *              published
 *   NO_ASK     the closer does not tell the state page before it looks
 *   NO_LOCK    shutdown() does not take tx_lock
 *   NO_LOOK    the sender does not look at the state again once it has it
 */
#define RECORDS	2

/* As visible, and in the buffers: of the sender, of the closer, of the mapper. */
byte news;
bit closed, tx_ask, fin, page;
byte b_news;
bit b_closed, b_ask, b_fin, b_page, b_free;

byte published, got;
bit reset, told, eof;
bit sender_done, reader_done, mapped_done, shut_done;
bit down;			/* the sender's own flag, and TX_ASK */
bit lock;			/* tx_lock: mutex and lock word */

active proctype buffers()
{
end:
	do
	:: atomic { b_news > 0 -> news++; b_news-- }
	:: atomic { b_free && !b_news -> lock = 0; b_free = 0 }
	:: atomic { b_fin -> fin = 1; b_fin = 0 }
	:: atomic { b_closed -> closed = 1; b_closed = 0 }
	:: atomic { b_ask -> tx_ask = 1; b_ask = 0 }
	:: atomic { b_page -> page = 1; b_page = 0 }
	od
}

/* l5_map_prepare(), by any process that shares the sender's end */
active proctype mapper()
{
	b_page = 1;
#ifndef NO_R
	!b_page;			/* R */
#endif
	if
	:: closed -> tx_ask = 1
	:: else
	fi;
	!b_page;
	mapped_done = 1		/* mmap() returns, map_lock is free */
}

active proctype sender()
{
	bit mapped;

	do
	:: published < RECORDS ->
		/* a sender that has no mapping yet makes a system call */
		if
		:: mapped = 0
		:: mapped_done -> mapped = 1
		fi;
		if
		:: mapped && tx_ask -> told = 1; break
		:: !mapped && closed -> told = 1; break
		:: else
		fi;
		atomic { !lock -> lock = 1 };
#ifndef NO_LOOK
		if
		:: down -> lock = 0; break
		:: else
		fi;
#endif
		b_news++;
		published++;
		/* K alone: the word is free when all is visible, at any time */
		b_free = 1;
#ifndef NO_M
		!b_free;		/* M */
#endif
		if
#ifndef NO_AGAIN
		:: mapped && tx_ask -> told = 1; break
#endif
		:: !mapped && closed -> told = 1; break
		:: else
		fi
	:: break
	od;
	sender_done = 1
}

/* shutdown() */
active proctype shut()
{
	down = 1;
#ifndef NO_LOCK
	atomic { !lock -> lock = 1 };
	lock = 0;
#endif
	/* the bootstrap's FIN: nothing else tells the peer */
	b_fin = 1;
	!b_fin;
	shut_done = 1
}

active proctype reader()
{
	bit ended, any, closes;

	do
	:: true ->
#ifdef NO_P
		any = (news > got);
		ended = fin;
#else
		ended = fin;
		any = (news > got);	/* P */
#endif
		if
		:: any -> got++
		:: !any && ended -> eof = 1; break
		:: !any && !ended -> fin || news > got
		:: closes = 1; break
		fi
	od;
	assert(!eof || got == published);

	/* close(): eof or not */
	b_closed = 1;
	/* l5_map_flag() */
#ifndef NO_S
	!b_closed;			/* S */
#endif
#ifdef NO_ASK
	skip;
#else
	if
	:: page -> b_ask = 1
	:: else
	fi;
#endif
#ifndef NO_L
	!b_closed && !b_ask;		/* L */
#endif
	if
	:: news > got -> reset = 1
	:: else
	fi;
#ifdef NO_ASK
	if
	:: page -> b_ask = 1
	:: else
	fi;
#endif
	!b_closed && !b_ask;
	reader_done = 1
}

active proctype judge()
{
	sender_done && shut_done && reader_done && mapped_done;
	assert(published == got || reset || told);
	/* what is sent after all this is known to have no reader */
	assert(closed && page && tx_ask)
}
