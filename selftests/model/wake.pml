/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Sleeping and waking of uapi/l5_ring.h, with every kind of sleeper. It stands
 * for these letters:
 *
 *   E  full barrier between arming and looking
 *   F  full barrier between the news and the look at the wait word; a mapped
 *      producer has it from l5_unlock()
 *   G  full barrier between the kernel's clear and its wake
 *
 * and for the rules: ->poll always arms for a sleeper that asks for data; only
 * the kernel clears, and every clear is followed by a wake of all that sleep.
 *
 * A processor's stores wait in its buffer and become visible in any order; a
 * full barrier waits until they have.
 *
 * The sleeper, one of:
 *   RECV    a blocking receive (l5_sleep())
 *   POLL    poll(2), select(2)
 *   LT, ET  epoll, level- or edge-triggered; what it reports is then read
 *           without a system call, for ET until nothing is left
 *   MAPPED  arms its own word in user space, looks, and sleeps in epoll (ET)
 *   SIGIO   arms its own word, looks, and sleeps until it is told anything
 *   SHARED  two sleepers of one end: RECV and ET
 *   OTHER   ET, and beside it one that asks for something else; what wakes one
 *           wakes both, but ->poll does not arm for the second
 *   ROOM    ET waiting for room: ->poll arms only when there is none, and the
 *           program's last attempt is a system call, which arms
 * The waker decides for each record whether it is the kernel, or a mapped
 * producer whose doorbell is a system call that looks again. -DBY_KERNEL and
 * -DBY_USER leave one of them, -DWAKERS=2 has two take turns.
 *
 * Taken out, each has to fail, a sleeper sleeping for ever beside news:
 *   NO_E NO_F NO_G   a barrier
 *   NO_ALWAYS        ->poll arms only when there is nothing; LT survives that
 *                    (ARM_EMPTY is the same, for the run that shows it)
 *   NO_KEEP          user space clears its word when it wakes; LT survives
 *                    that (DISARM)
 *   NO_POLL_ARM      ->poll trusts user space to have armed
 *   NO_CALL          a writer that fills the ring makes no system call then
 *   NO_ALL           a wake reaches only one of two
 */
#ifdef WAKERS
#define ROUNDS	2
#else
#define WAKERS	1
#define ROUNDS	3
#endif
#ifdef SHARED
#define SLEEPERS 2
#define ET
#define RECV
#elif defined(OTHER)
#define SLEEPERS 2
#define ET
#else
#define SLEEPERS 1
#endif
#if defined(MAPPED) || defined(ROOM)
#define ET
#endif
#if defined(NO_ALWAYS) || defined(ROOM)
#define ARM_EMPTY
#endif
#ifdef NO_KEEP
#define DISARM
#endif
#if defined(LT) || defined(ET)
#define EPOLL
#endif

#define NONE	2
/* after drain and the sleepers */
#define FIRST_WAKER	(1 + SLEEPERS)

byte news;		/* records published, as visible */
byte taken;		/* by this end, under its lock */
bit word;		/* the wait word, as visible */

/* Store buffers: the sleepers' wait word; the wakers' news, wait word. */
byte s_word[SLEEPERS] = NONE;
bit w_news[WAKERS], w_clear[WAKERS];

/*
 * The wait queue: the sleepers that are in it, and those that were woken since,
 * which for epoll is to be on its ready list.
 */
bit queued[SLEEPERS], woken[SLEEPERS];

#define READY		(news > taken)
#define OVER		(taken == ROUNDS)

active proctype drain()
{
end:
	do
	:: atomic { s_word[0] != NONE -> word = s_word[0]; s_word[0] = NONE }
#if SLEEPERS > 1
	:: atomic { s_word[1] != NONE -> word = s_word[1]; s_word[1] = NONE }
#endif
	:: atomic { w_news[0] -> news++; w_news[0] = 0 }
	:: atomic { w_clear[0] -> word = 0; w_clear[0] = 0 }
#if WAKERS > 1
	:: atomic { w_news[1] -> news++; w_news[1] = 0 }
	:: atomic { w_clear[1] -> word = 0; w_clear[1] = 0 }
#endif
	od
}

/* stores to one address stay in order */
inline own_word(v)
{
	atomic { s_word[me] == NONE; s_word[me] = v }
}

inline arm()
{
	own_word(1);
#ifndef NO_E
	s_word[me] == NONE;	/* E */
#endif
}

/* ->poll: sets ready */
inline poll()
{
#ifdef ARM_EMPTY
	ready = READY;
	if
	:: !ready -> arm(); ready = READY
	:: else
	fi
#else
#ifndef NO_POLL_ARM
	arm();
#endif
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
	byte me = SLEEPERS - 1;

	do
	:: OVER -> break
	:: else ->
		atomic { queued[me] = 1; woken[me] = 0 };
		do
		:: READY || OVER -> break
		:: else ->
			arm();
			if
			:: READY -> break
			:: else -> sleep()
			fi
		od;
		queued[me] = 0;
		take()
	od
}
#endif

#ifdef POLL
active proctype poller()
{
	byte me = 0;
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

#ifdef EPOLL
active proctype epoll()
{
	byte me = 0;
	bool ready;

	/* EPOLL_CTL_ADD */
	queued[me] = 1;
	poll();
	if
	:: ready -> woken[me] = 1
	:: else
	fi;
	do
	:: OVER -> break
	:: else ->
#ifdef MAPPED
		arm();
		if
		:: READY -> take(); goto next
		:: else
		fi;
#endif
		/* epoll_wait(): what ->poll denies leaves the ready list */
		ready = false;
		do
		:: ready || OVER -> break
		:: else -> sleep(); poll()
		od;
#ifdef LT
		woken[me] = 1;
#endif
#ifdef DISARM
		own_word(0);
#endif
		/* without system calls */
		do
		:: READY -> take()
#ifdef LT
		:: break
#else
		:: else ->
#if defined(ROOM) && !defined(NO_CALL)
			/* but for the one that says EAGAIN */
			arm();
			if
			:: READY
			:: else -> break
			fi
#else
			break
#endif
#endif
		od;
next:		skip
	od
}
#endif

#ifdef SIGIO
active proctype sigio()
{
	byte me = 0;

	queued[me] = 1;
	do
	:: OVER -> break
	:: READY -> take()
	:: else ->
		arm();
		if
		:: READY
		:: else -> sleep()
		fi
	od
}
#endif

#ifdef OTHER
active proctype other()
{
	byte me = 1;

	queued[me] = 1;
	do
	:: OVER -> break
	:: else -> sleep()
	od
}
#endif

/* a processor sees what is in its own buffer */
#define ARMED		(word && !w_clear[me])

bit lock;		/* of the producer's end */
byte sent;

active [WAKERS] proctype waker()
{
	byte me = _pid - FIRST_WAKER;
	bool user, over = false;

	do
	:: over -> break
	:: else ->
#if WAKERS > 1
		atomic { !lock -> lock = 1 };
#endif
		if
		:: sent == ROUNDS -> over = true
		:: else ->
			atomic { !w_news[me] -> w_news[me] = 1; sent++ }
		fi;
		if
#ifndef BY_USER
		:: user = false
#endif
#ifndef BY_KERNEL
		:: user = true
#endif
		fi;
#ifndef NO_F
		!w_news[me];		/* F */
#endif
#if WAKERS > 1
		lock = 0;
#endif
		if
		:: over || !ARMED -> goto next
		:: else
		fi;
		/* the doorbell looks again: another may have rung */
		if
		:: user && !ARMED -> goto next
		:: else
		fi;
		/* system calls and wakes do not overtake what is published */
		!w_news[me];
		w_clear[me] = 1;
#ifndef NO_G
		!w_clear[me];		/* G */
#endif
		atomic {
			if
			:: queued[0] -> woken[0] = 1
#ifdef NO_ALL
			:: queued[1] -> woken[1] = 1
#endif
			:: else
			fi;
#if SLEEPERS > 1 && !defined(NO_ALL)
			if
			:: queued[1] -> woken[1] = 1
			:: else
			fi
#endif
		};
next:		skip
	od
}
