/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The cut: which transport carries the bytes is settled before the first of
 * them, for both ends alike, and never changed. claim.pml has the decision in
 * detail; here is what the two applications do around it. It stands for these
 * letters:
 *
 *   I  the state says RINGS only after the connection is complete
 *   H  the connection is used only after the state said RINGS
 *
 * The listener may be AF_L5 or plain. An AF_L5 one notes the SYN before it is
 * answered, so the client knows whether a child is to come. Its connect() may
 * not block, and it tries to send at once.
 *
 * Taken out, each has to fail:
 *   NO_I NO_H   a barrier
 *   NO_WAIT     the client's bytes do not wait for the decision
 *   NO_LOCK     the decision is no single step
 *   NO_OWN      the server takes what it finds in accept() for the outcome,
 *               without a look at what was decided
 */
mtype = { UNDECIDED, BASE, RINGS };

mtype client = UNDECIDED, server = UNDECIDED;
bit entry;			/* in the table: an open meeting */
bit noted, answered, acked;
bit l5_listener;

/* The connection's geometry and the state as the client's CPU will see them. */
bit conn_ready, b_conn, b_rings;

#ifdef NO_I
#define RINGS_MAY		1
#else
#define RINGS_MAY		(!b_conn)
#endif

/* What went where, in either direction. */
byte base[2], ring[2];

active proctype buffer()
{
end:
	do
	:: atomic { b_conn -> conn_ready = 1; b_conn = 0 }
	:: atomic { b_rings && RINGS_MAY -> client = RINGS; b_rings = 0 }
	od
}

/* Take the entry out and decide; false if another was first. */
inline claim(what, won)
{
#ifdef NO_LOCK
	won = entry;
	entry = 0;
#else
	atomic { won = entry; entry = 0 };
#endif
	if
	:: won && what == RINGS -> b_conn = 1; b_rings = 1
	:: won && what == BASE -> client = BASE
	:: else
	fi
}

/* the client's sk_state_change: SYN-ACK here, its last ACK not sent yet */
active proctype handshake()
{
	answered;
	if
	:: noted -> entry = 1
	:: else -> client = BASE
	fi;
	acked = 1
}

/* net.l5.match_ms is over, a signal, shutdown() */
active proctype impatience()
{
	bit won;

	if
	:: acked -> claim(BASE, won)
	:: acked	/* or not */
	fi
}

/* the listener's side, up to the child that the ACK makes */
active proctype listener()
{
	bit won;

	if
	:: l5_listener = 1; noted = 1
	:: skip
	fi;
	answered = 1;
	acked;
	if
	:: l5_listener -> claim(RINGS, won)
	:: else
	fi;
	/* accept() */
	if
#ifdef NO_OWN
	:: l5_listener -> server = RINGS
	:: !l5_listener -> server = BASE
#else
	:: won -> server = RINGS
	:: !won -> server = BASE
#endif
	fi
}

/* An application writes a byte, and reads one, where its socket says. */
inline exchange(me, state)
{
	if
	:: state == RINGS -> ring[me]++
	:: else -> base[me]++
	fi;
	/* the state does not change any more */
	if
	:: state == RINGS -> ring[1 - me]
	:: else -> base[1 - me]
	fi
}

active proctype client_app()
{
	bit ready;
	mtype state;

	/* a connect() that does not block is back before anything is settled */
#ifdef NO_H
	ready = conn_ready;
#endif
#ifdef NO_WAIT
	acked;
#else
	client != UNDECIDED;
#endif
	state = client;
#ifndef NO_H
	ready = conn_ready;	/* H */
#endif
	assert(state != RINGS || ready);
	exchange(0, state);
	assert(client == state)
}

active proctype server_app()
{
	mtype state;

	server != UNDECIDED;
	state = server;
	exchange(1, state);
	assert(server == state)
}

/* Nothing on both ways: a reader where nobody writes hangs, and is seen. */
active proctype judge()
{
	client != UNDECIDED && server != UNDECIDED;
	assert(client == server);
	assert(!base[0] || !ring[0]);
	assert(!(base[0] + base[1]) || !(ring[0] + ring[1]))
}
