/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The claim of a meeting: the client's entry is OPEN until, under the bucket's
 * lock, exactly one takes it out: the server's child (rings), or a time-out or
 * the closing client (bootstrap). Both ends have to agree, a child that comes
 * after the client's decision must not pair, and a client that has said it
 * waits must be told.
 *
 * It stands for no lettered barrier: the bucket's lock is the only order there
 * is, and cut.pml (H, I) has what follows from a decision.
 *
 * -DNO_LOCK lets the child and the time-out look and take in separate steps;
 * -DNO_WAKE forgets to wake the client: each has to fail.
 */
mtype = { NONE, OPEN, GONE, BASE, RINGS };

mtype entry = NONE;		/* the table */
mtype client = NONE, server = NONE;
bool connected, armed, gives_up;
bit lock;

#ifdef NO_LOCK
#define LOCK	skip
#define UNLOCK	skip
#else
#define LOCK	atomic { !lock -> lock = 1 }
#define UNLOCK	lock = 0
#endif

/* What the client learns, and the wake of a thread that waits for it. */
bool wake;

#ifdef NO_WAKE
#define WAKE	skip
#else
#define WAKE	wake = true
#endif

/* A decision is taken once. */
inline decide(what)
{
	assert(client == NONE);
	client = what
}

active proctype connecting()
{
	/* sk_state_change: before the final ACK leaves, so before the child */
	LOCK;
	entry = OPEN;
	armed = true;
	UNLOCK;
	connected = true;
	/* connect() waits until it is decided, killed, or closed */
	do
	:: wake = false;
		if
		:: client != NONE -> break
		:: else ->
			if
			:: wake			/* sleeps until then */
			:: gives_up ->
				LOCK;
				if
				:: entry == OPEN -> entry = GONE; decide(BASE)
				:: else
				fi;
				UNLOCK
			fi
		fi
	od
}

active proctype fate()
{
	if
	:: gives_up = true
	:: skip
	fi
}

active proctype timeout_()
{
	armed;
	LOCK;
	if
	:: entry == OPEN ->
		entry = GONE;
		decide(BASE);
		UNLOCK;
		WAKE
	:: else -> UNLOCK
	fi
}

active proctype child()
{
	bool paired = false;

	connected;
	LOCK;
	if
	:: entry == OPEN ->
		entry = GONE;
		decide(RINGS);
		paired = true;
		UNLOCK;
		WAKE
	:: else -> UNLOCK
	fi;
	if
	:: paired -> server = RINGS
	:: else -> server = BASE
	fi
}

/* The same on both sides. */
active proctype judge()
{
	(client != NONE && server != NONE);
	assert(client == server)
}
