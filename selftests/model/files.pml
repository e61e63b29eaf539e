/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Descriptors ride with records (kmod/files.c): two queues in step, the ring and
 * that of the bootstrap. Two writers share an end, two readers the other; each
 * end has a lock. What lies in the bootstrap's queue has the position of its
 * record. With SHARER a process that has the reading end mapped moves the cursor
 * past a record whenever it likes, without the lock.
 *
 * A reader gives descriptors to the record that they were sent with, or ends the
 * connection; and it does not end it unless there is such a process.
 *
 * Taken out, each has to fail:
 *   NO_FIRST         a record is published once its descriptors are queued
 *   NO_TX            both under the writer's lock
 *   NO_RX            both are taken under the reader's lock
 *   NO_POS           the positions are compared; with SHARER
 */
#define RECORDS	3

/* The ring: published records from head to tail, and which have the flag. */
byte head, tail;
bit flag[RECORDS];
chan queue = [RECORDS] of { byte };

bit tx_lock, rx_lock;
bit broken;

inline lock(word)
{
	atomic { !word -> word = 1 }
}

inline publish(n, with)
{
	atomic { flag[n] = with; tail = n + 1 }
}

proctype writer()
{
	byte n;
	bit with;

	do
	:: broken -> break
	:: else ->
		if
		:: with = 1
		:: with = 0
		fi;
#ifdef NO_TX
		/* by the number that the record is about to have */
		atomic { n = tail };
		if
		:: n < RECORDS && with -> queue ! n
		:: else
		fi;
		lock(tx_lock);
		if
		:: tail < RECORDS -> publish(tail, with)
		:: else -> tx_lock = 0; break
		fi;
#else
		lock(tx_lock);
		n = tail;
		if
		:: n == RECORDS -> tx_lock = 0; break
		:: else
		fi;
#ifdef NO_FIRST
		publish(n, with);
#endif
		if
		:: with -> queue ! n
		:: else
		fi;
#ifndef NO_FIRST
		publish(n, with);
#endif
#endif
		tx_lock = 0
	od
}

proctype reader()
{
	byte at, n;
	bit there, with;

	do
	:: broken || head == RECORDS -> break
	:: head < tail ->
		lock(rx_lock);
		atomic {
			at = head;
			there = at < tail;
			with = there && flag[at]
		};
		if
		:: !there -> rx_lock = 0
		:: there ->
#ifdef NO_RX
			head = at + 1;
			rx_lock = 0;
#endif
			if
			:: with ->
				atomic {
					if
					:: queue ? n
					:: empty(queue) -> n = 255
					fi
				};
#ifndef NO_POS
				if
				:: n != at -> broken = 1; rx_lock = 0; break
				:: else
				fi;
#endif
				/* a reader that gets nothing knows that, too */
				assert(n == at || n == 255)
			:: else
			fi;
#ifndef NO_RX
			head = at + 1;
			rx_lock = 0
#endif
		fi
	od
}

#ifdef SHARER
proctype sharer()
{
	do
	:: atomic { head < tail -> head++ }
	:: head == RECORDS || broken -> break
	:: break
	od
}
#endif

init
{
	atomic {
		run writer();
#ifndef SHARER
		run writer();
#endif
		run reader();
		run reader();
#ifdef SHARER
		run sharer()
#endif
	};
#ifndef SHARER
	timeout;
	assert(!broken)
#endif
}
