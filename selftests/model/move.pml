/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The move of a connection from TCP to rings over RDMA, each direction at a
 * byte of its sender's choice, and its end. TCP and the queue pair are two
 * channels of any delay. What is on the queue pair's wire is lost when it
 * breaks, which it may at any time, or is taken down by an end that has closed;
 * but a part may have arrived by then, records in memory, and messages which
 * wait for their handler.
 *
 * A message or a record is a byte with a number. Each must arrive once and in
 * order, end of file means that all have arrived, and only a break is an error.
 *
 * The phases of an end are those of kmod/far/phase.h, and so are the steps: any
 * other is an error. What stands beside them comes in any order.
 *
 * Each end: threads that send; one that shuts down at any time, and closes when
 * its reader is done; a reader, which stops at the end of file, or earlier when
 * there is nothing left to read; the kernel's handler of messages. At end 1 also
 * another thread, which takes the error of TCP's reset once there is one.
 *
 * Taken out, each has to fail:
 *   NO_FLIGHT  the cut does not wait until no thread is inside TCP's send
 *   NO_FIN     TCP's FIN does not wait for CUTACK
 *   NO_END     TCP's FIN is an end although CUT has come
 *   NO_DRAIN   the reader turns to the ring before it has read TCP's bytes
 *   NO_LATE    the reader looks whether CUT has come before TCP says the end
 *   NO_P       the reader looks for the end's message after it found no record
 *   NO_ERR     after a break the reader asks TCP, whose FIN may have come
 *   NO_HEAR    a reader that TCP has woken for its error then asks TCP for it,
 *              which says it once: a sender may have been faster
 *   NO_RINGS   CUT is answered before the socket has its rings
 *   NO_DOWN    a direction is cut although it was shut down, or closed
 *   NO_KNOWN   a direction is cut although RDMA is known to be dead
 *   NO_CQ      the death is handled before the messages that came before it
 *   NO_BYE     an end that has closed takes the queue pair down without a word
 *   NO_ONCE    a closer that waits for CUTACK hears of the death before TCP is
 *              reset, and sends TCP's FIN
 *   NO_RESET   the end that learns of the death tells nobody
 *   NO_DATA    an end that sends no more tells nobody, and had sent by the ring
 * Not needed, the run shows it:
 *   EAGER      records are posted although CUTACK has not come
 */
/* threads that send, of end 0 and of end 1 */
#ifdef BOTH
#define SENDERS0	1
#define SENDERS1	1
#else
#define SENDERS0	2
#define SENDERS1	0
#endif
#define FIN	255

mtype = { READY, CUT, CUTACK, RECORD, END, BYE };

chan tcp[2] = [3] of { byte };		/* from end 0, from end 1 */
chan wire[2] = [7] of { mtype, byte };
chan mem[2] = [2] of { byte };		/* records that have arrived */
chan ring[2] = [2] of { byte };		/* not yet posted */

bit alive = 1, broken, reset;
/* what TCP says of the reset at an end, until a thread has asked */
bit error[2];

/* enum l5_far_link, from when both ends are up */
#define LINK_UP		0
#define LINK_DEAD	1
#define LINK_OVER	2
/* enum l5_far_out */
#define OUT_TCP		0
#define OUT_UNUSED	1
#define OUT_CUT		2
#define OUT_RINGS	3
#define OUT_FIN		4
#define OUT_CLOSED	5
/* enum l5_far_in */
#define IN_TCP		0
#define IN_UNUSED	1
#define IN_CUT		2
#define IN_FIN		3
#define IN_CLOSED	4

byte ph_link[2], ph_out[2], ph_goal[2], ph_in[2];

/* Of each end, as sender: */
byte sent[2], inside[2], senders[2];
bit ready_got[2], moving[2], fin[2], rung[2];
/* as receiver of the other's bytes: */
byte got[2], seq[2];
bit read_done[2];

#define YOU	(1 - me)

#define OUT_IS_CUT	(ph_out[me] >= OUT_CUT)
#define OUT_ACKED	(ph_out[me] >= OUT_RINGS)
#define IN_IS_CUT	(ph_in[me] >= IN_CUT)
#define IN_IS_FIN	(ph_in[me] >= IN_FIN)
#define IN_IS_CLOSED	(ph_in[me] == IN_CLOSED || ph_in[me] == IN_UNUSED)
#define DOWN(e)		(ph_goal[e] >= OUT_FIN)
/* this end has cut, and sends no more, and never sent by the ring */
#ifdef NO_DATA
#define ALL_BY_TCP	DOWN(me)
#else
#define ALL_BY_TCP	(DOWN(me) && !rung[me])
#endif

inline link_to(s)
{
	assert(s == ph_link[me] + 1);
	ph_link[me] = s
}

inline out_to(s)
{
	assert((ph_out[me] == OUT_TCP && (s == OUT_CUT || s == OUT_UNUSED)) ||
	       (ph_out[me] >= OUT_CUT && s == ph_out[me] + 1));
	ph_out[me] = s
}

inline in_to(s)
{
	assert((ph_in[me] == IN_TCP && (s == IN_CUT || s == IN_UNUSED)) ||
	       (ph_in[me] >= IN_CUT && s == ph_in[me] + 1));
	ph_in[me] = s
}

inline post(m, v)
{
	if
	:: alive -> wire[me]!m,v
	:: else
	fi
}

/* with the lock, which is the atomic around it */
inline try_cut()
{
	if
	:: (moving[me] && !OUT_IS_CUT && !IN_IS_CLOSED
#ifndef NO_FLIGHT
	   && !inside[me]
#endif
#ifndef NO_DOWN
	   && !DOWN(me) && ph_out[me] != OUT_UNUSED
#endif
#ifndef NO_KNOWN
	   && ph_link[me] == LINK_UP
#endif
	   ) ->
		out_to(OUT_CUT);
		post(CUT, sent[me])
	:: else
	fi
}

/* Only a part of what is on the wire arrives. */
inline lose(d)
{
	n = len(wire[d]);
	do
	:: n > 0 -> wire[d]?m,v; wire[d]!m,v; n--
	:: n > 0 -> break
	:: n == 0 -> break
	od;
	do
	:: n > 0 -> wire[d]?_,_; n--
	:: n == 0 -> break
	od;
	m = 0; v = 0
}

proctype sender(byte me)
{
	atomic {
		if
		:: DOWN(me) || reset || IN_IS_CLOSED -> goto out
		:: else
		fi;
		if
		:: OUT_IS_CUT ->
			ring[me]!sent[me];
			rung[me] = 1;
			sent[me]++;
			goto out
		:: else -> inside[me]++
		fi
	};
	atomic {
		if
		:: fin[me] || reset
		:: else -> tcp[me]!sent[me]; sent[me]++
		fi
	};
	atomic {
		inside[me]--;
		try_cut();
out:		senders[me]--
	}
}

proctype closer(byte me)
{
	/* shutdown() at any time, or all at once by close() */
	if
	:: ph_goal[me] = OUT_FIN
	:: atomic { read_done[me] -> ph_goal[me] = OUT_FIN }
	fi;
	atomic {
#ifndef NO_FIN
		(!OUT_IS_CUT || OUT_ACKED || ph_link[me] == LINK_OVER ||
		 IN_IS_CLOSED || reset);
#endif
		if
		:: !reset -> fin[me] = 1; tcp[me]!FIN
		:: reset
		fi
	};
	atomic {
		read_done[me];
		ph_goal[me] = OUT_CLOSED
	}
}

/* the socket has the rings, and knows where they begin */
#define CUT_GOT		(moving[me] && IN_IS_CUT)

#ifdef NO_DRAIN
#define IN_RING	true
#else
#define IN_RING	(got[me] >= seq[me])
#endif
#ifdef NO_END
#define END_GOT	(IN_IS_FIN || tcp[YOU]?[FIN])
#else
/* what TCP has before its FIN is read by then */
#define END_GOT	(IN_IS_FIN && tcp[YOU]?[FIN])
#endif

proctype reader(byte me)
{
	byte b;
	bit ended, cut_seen;

	do
#ifdef NO_HEAR
	:: atomic { error[me] };
		atomic {
			if
			:: error[me] -> error[me] = 0; goto out
			:: else -> goto eof
			fi
		}
	:: atomic { reset && ph_link[me] == LINK_OVER -> assert(broken);
#else
	:: atomic { reset -> assert(broken);
#endif
#ifdef NO_ERR
		if
		:: fin[YOU] -> goto eof
		:: else
		fi;
#endif
		goto out }
#ifdef EARLY
	:: goto out
#else
	/* nothing is left to read, and nothing will come but the end */
	:: atomic { got[me] == sent[YOU] && !senders[YOU] -> goto out }
#endif
	:: atomic { (CUT_GOT && IN_RING
#ifndef NO_P
		&& (nempty(mem[YOU]) || END_GOT)
#endif
		) ->
#ifdef NO_P
			ended = empty(mem[YOU])
		};
		atomic {
			ended = ended && END_GOT
#else
			ended = END_GOT
#endif
		};
		atomic {
			if
#ifdef NO_P
			:: ended -> goto eof
#endif
			:: mem[YOU]?b -> assert(b == got[me]); got[me]++
			:: empty(mem[YOU]) && ended -> goto eof
			:: empty(mem[YOU]) && !ended
			fi;
			b = 0;
			ended = 0
		}
	:: atomic { (!(CUT_GOT && got[me] >= seq[me])
#ifndef NO_LATE
		&& nempty(tcp[YOU])
#endif
		) -> cut_seen = CUT_GOT };
		atomic {
			if
			:: tcp[YOU]?b
			:: empty(tcp[YOU]) -> cut_seen = 0; goto next
			fi;
			if
			:: b != FIN ->
				assert(b == got[me]);
				got[me]++;
				b = 0;
				cut_seen = 0;
				goto next
			:: else
			fi
		};
		atomic {
#ifndef NO_LATE
			cut_seen = CUT_GOT;
#endif
			if
			:: !cut_seen -> goto eof
			:: else -> b = 0; cut_seen = 0
			fi
		};
next:		skip
	od;
eof:
	atomic {
		assert(got[me] == sent[YOU] && DOWN(YOU));
out:		read_done[me] = 1
	}
}

/* A sender that is refused, or a thread that asks for SO_ERROR. */
proctype taker(byte me)
{
end:
	atomic { error[me] -> error[me] = 0 }
}

proctype handler(byte me)
{
	byte v, n;
	mtype m;

	do
	:: atomic { wire[YOU]?READY,_ -> ready_got[me] = 1 }
	/* the socket gets its rings, later since that sleeps */
	:: atomic { ready_got[me] && !moving[me] ->
		moving[me] = 1;
		try_cut();
#ifndef NO_RINGS
		if
		:: IN_IS_CUT -> post(CUTACK, 0)
		:: else
		fi
#endif
		}
	:: atomic { wire[YOU]?CUT,v ->
		seq[me] = v; v = 0;
		in_to(IN_CUT);
		if
#ifndef NO_RINGS
		:: !moving[me]
		:: moving[me] -> post(CUTACK, 0)
#else
		:: post(CUTACK, 0)
#endif
		fi }
	:: atomic { wire[YOU]?CUTACK,_ -> out_to(OUT_RINGS) }
	:: atomic { wire[YOU]?RECORD,v -> mem[YOU]!v; v = 0 }
	:: atomic { wire[YOU]?END,_ -> in_to(IN_FIN) }
	:: atomic { wire[YOU]?BYE,_ ->
		if
		:: IN_IS_CUT -> in_to(IN_CLOSED)
		:: else -> in_to(IN_UNUSED)
		fi }

	:: atomic { (OUT_IS_CUT && nempty(ring[me]) && alive
#ifndef EAGER
		&& OUT_ACKED
#endif
		) -> ring[me]?v; post(RECORD, v); v = 0 }
	:: atomic { (DOWN(me) && ph_out[me] == OUT_RINGS && alive &&
		empty(ring[me])) -> out_to(OUT_FIN); post(END, 0) }

	:: atomic { (ph_goal[me] == OUT_CLOSED && alive &&
		(ph_out[me] == OUT_FIN || ph_out[me] == OUT_TCP)) ->
		if
		:: ph_out[me] == OUT_FIN -> out_to(OUT_CLOSED)
		:: else -> out_to(OUT_UNUSED)
		fi;
#ifndef NO_BYE
		post(BYE, 0)
#endif
		}
	/* what this end posted has been acknowledged, so it has arrived */
	:: atomic { (alive && (ph_out[me] == OUT_CLOSED ||
		ph_out[me] == OUT_UNUSED)) -> alive = 0; lose(YOU); goto out }
	/* a peer that has closed acknowledges nothing, perhaps */
	:: atomic { (alive && ph_goal[me] == OUT_CLOSED && IN_IS_CLOSED) ->
		alive = 0; lose(YOU); lose(me); goto out }

	:: atomic { !alive && ph_link[me] == LINK_UP -> link_to(LINK_DEAD) }
	:: atomic { (ph_link[me] == LINK_DEAD
#ifndef NO_CQ
		&& empty(wire[YOU]) && (moving[me] || !ready_got[me])
#endif
		) -> link_to(LINK_OVER);
#ifdef NO_ONCE
	}; atomic {
#endif
#ifndef NO_RESET
		if
		:: (OUT_IS_CUT && !IN_IS_CLOSED && !ALL_BY_TCP) ||
		   (IN_IS_CUT && !IN_IS_FIN && ph_goal[me] != OUT_CLOSED) ->
			reset = 1;
			error[0] = 1;
			error[1] = 1
		:: else
		fi;
#endif
		goto out }
	od;
out:	skip
}

#ifndef WHOLE
active proctype breaker()
{
	byte v, n;
	mtype m;

end:
	atomic { alive -> broken = 1; alive = 0; lose(0); lose(1) }
}
#endif

init {
	atomic {
		wire[0]!READY,0;
		wire[1]!READY,0;
		senders[0] = SENDERS0;
		senders[1] = SENDERS1;
		run sender(0);
#ifdef BOTH
		run sender(1);
#else
		run sender(0);
#endif
		run closer(0); run closer(1);
		run reader(0); run reader(1);
		run taker(1);
		run handler(0); run handler(1)
	}
}
