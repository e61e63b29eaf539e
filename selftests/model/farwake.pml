/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Sleeping and waking between hosts, see kmod/far/ring.c. A receiver that is
 * about to sleep has its kernel tell the peer's, by ARM(pos), where it saw the
 * chain of records end, unless an ARM is out already. The peer's kernel answers
 * by one WAKE: at once if it has sent more than that, else with the record that
 * it sends next. Each direction of the queue pair delivers in order, at any
 * time. Records land by themselves, a WAKE then waits for its handler.
 *
 * The sleeper, one of:
 *   RECV    a blocking receive
 *   POLL    poll(2), select(2)
 *   ET      epoll, edge-triggered; what it reports is read without a system
 *           call, until nothing is left
 *   LAZY    the same, but it reads nothing, and wants to be told of each record
 *   SHARED  two sleepers of one end: RECV and ET
 *
 * It stands for this letter:
 *
 *   X  the handler of WAKE notes that no ARM is out, and wakes after that
 *
 * Taken out, each has to fail, a sleeper sleeping for ever beside news, or
 * messages that nothing new is the reason for:
 *   NO_X
 *   NO_AGAIN   the sleeper does not look again after ARM
 *   NO_ANSWER  an ARM is not answered by what was sent before it came
 *   NO_LOCK    a record may be sent while an ARM is handled
 *   NO_POS     ARM's position is where the receiver reads, not where it saw the
 *              chain end
 *   NO_OUT     a process may say, in its control page, that an ARM is out
 */
/* WAKEs: each for news. Of two sleepers one may look long before it arms. */
#ifdef SHARED
#define ROUNDS	2
#define SLEEPERS 2
#define ET
#define RECV
#define LIMIT	(2 * ROUNDS)
#else
#define SLEEPERS 1
#define ROUNDS	3
#define LIMIT	ROUNDS
#endif

mtype = { RECORDS, WITH_WAKE, WAKE };

chan to_reader = [ROUNDS + 2] of { mtype, byte };
chan to_writer = [2] of { byte };

byte landed, taken;		/* at the reader */
byte sent;			/* at the writer */
bit out;			/* an ARM that no WAKE has answered */
bit armed, lock;
byte cq;			/* WAKEs that wait for their handler */
byte arms, wakes;
bit queued[SLEEPERS], woken[SLEEPERS];

#define READY	(landed > taken)
#define OVER	(taken == ROUNDS)

/* before the look that decides */
inline arm()
{
	if
	:: out
	:: else ->
#ifdef NO_POS
		pos = taken;
#else
		pos = landed;
#endif
		atomic {
			if
			:: !out ->
				out = 1;
				arms++;
				to_writer!pos
			:: else
			fi;
			pos = 0
		}
	fi
}

/* ->poll: sets ready */
inline poll()
{
#ifdef NO_AGAIN
	ready = READY;
	arm()
#else
	arm();
	ready = READY
#endif
}

inline sleep()
{
	if
	:: atomic { woken[me] -> woken[me] = 0 }
	:: OVER		/* another has read the last: nothing will come */
	fi
}

inline take()
{
	if
	:: atomic { READY -> taken++ }
	:: else
	fi
}

#ifdef RECV
active proctype recv()
{
	byte me = SLEEPERS - 1, pos;

	do
	:: OVER -> break
	:: else ->
		atomic { queued[me] = 1; woken[me] = 0 };
		do
		:: READY || OVER -> break
		:: else ->
			arm();
#ifdef NO_AGAIN
			sleep()
#else
			if
			:: READY -> break
			:: else -> sleep()
			fi
#endif
		od;
		queued[me] = 0;
		take()
	od
}
#endif

#ifdef POLL
active proctype poller()
{
	byte me = 0, pos;
	bool ready;

	do
	:: OVER -> break
	:: else ->
		atomic { queued[me] = 1; woken[me] = 0 };
		do
		:: poll();
			if
			:: ready -> break
			:: else -> sleep()
			fi
		od;
		queued[me] = 0;
		do
		:: take()
		:: break
		od
	od
}
#endif

#if defined(ET) || defined(LAZY)
active proctype epoll()
{
	byte me = 0, pos;
	bool ready;
#ifdef LAZY
	byte told;
#endif

	/* EPOLL_CTL_ADD */
	queued[me] = 1;
#ifdef NO_OUT
	out = 1;
#endif
	poll();
	if
	:: ready -> woken[me] = 1
	:: else
	fi;
#ifdef LAZY
	do
	:: told == ROUNDS -> break
	:: else ->
		sleep();
		poll();
		told = landed
	od
#else
	do
	:: OVER -> break
	:: else ->
		/* what ->poll denies leaves the ready list */
		ready = false;
		do
		:: ready || OVER -> break
		:: else -> sleep(); poll()
		od;
		do
		:: READY -> take()
		:: else -> break
		od
	od
#endif
}
#endif

/* Messages arrive; what was written before them has. */
active proctype net()
{
	byte n;

end:
	do
	:: atomic { to_reader?RECORDS,n -> landed = landed + n; n = 0 }
	:: atomic { to_reader?WITH_WAKE,n -> landed = landed + n; cq++; n = 0 }
	:: atomic { to_reader?WAKE,_ -> cq++ }
	od
}

inline wake()
{
	atomic {
		woken[0] = woken[0] || queued[0]
#if SLEEPERS > 1
		;
		woken[1] = woken[1] || queued[1]
#endif
	}
}

/* the reader's kernel */
active proctype handler()
{
end:
	do
	:: cq > 0 ->
		cq--;
#ifdef NO_X
		wake();
		out = 0
#else
		out = 0;		/* X */
		wake()
#endif
	od
}

#ifdef NO_LOCK
#define LOCK	skip
#define UNLOCK	skip
#else
#define LOCK	atomic { !lock -> lock = 1 }
#define UNLOCK	lock = 0
#endif

/* the writer's kernel */
active proctype arming()
{
	byte pos;

end:
	do
	:: to_writer?pos ->
		LOCK;
		armed = 1;
#ifndef NO_ANSWER
		if
		:: atomic { sent > pos && armed -> armed = 0 };
			wakes++;
			to_reader!WAKE,0
		:: else
		fi;
#endif
		UNLOCK;
		assert(wakes <= arms && wakes <= LIMIT)
	od
}

/* a system call, a doorbell, the poller: one batch at a time */
active proctype writer()
{
	byte n;
	bit with;

	do
	:: sent == ROUNDS -> break
	:: else ->
		if
		:: n = 1
		:: sent + 2 <= ROUNDS -> n = 2
		fi;
		LOCK;
		atomic { with = armed; armed = 0 };
		if
		:: with -> wakes++; to_reader!WITH_WAKE,n
		:: else -> to_reader!RECORDS,n
		fi;
		sent = sent + n;
		UNLOCK;
		assert(wakes <= arms && wakes <= LIMIT)
	od
}
