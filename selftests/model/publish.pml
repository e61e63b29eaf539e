/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Publishing and consuming of uapi/l5_ring.h under weak memory: a ring of five
 * words, records of a header and one word of payload, so that every word is at
 * some time header, payload, and the zero that ends the chain. -DEVEN: of six.
 *
 * A processor's stores become visible in any order and loads are done in any
 * order, unless a lettered barrier forbids it:
 *   A  header after the payload and the zero of the next header
 *   B  the payload is loaded after the header
 *   C  the head is stored after the payload was loaded
 *   D  the payload is stored after the head was loaded
 *
 * Heads are lazy on both sides: the producer looks at the head only when it
 * knows of no room, and the consumer may keep back heads as long as there is
 * more to read, but not while it waits.
 *
 * -DNO_A .. -DNO_D take a barrier out, -DNO_ZERO the zeroing of the next
 * header, -DNO_ROOM the room for it, -DNO_HEAD lets the consumer wait without
 * having said how far it is: each then has to fail.
 */
#if defined(NO_ROOM) || defined(EVEN)
#define WORDS	6	/* where records can fill the ring to the last word */
#else
#define WORDS	5
#endif
#define RECORDS	5
#define HDR	100
#define NONE	255

byte word[WORDS];
byte head;		/* words consumed, as visible */

/* Stores of the producer that the consumer does not see yet. */
byte sb_payload, sb_payload_at = NONE;
byte sb_zero_at = NONE;
byte sb_header_at = NONE;

#ifdef NO_A
/* to one address stores are always in order */
#define HEADER_MAY_DRAIN	(sb_zero_at != sb_header_at)
#else
#define HEADER_MAY_DRAIN	(sb_payload_at == NONE && sb_zero_at == NONE)
#endif

#ifdef NO_ROOM
#define ROOM_FOR_ZERO	0
#else
#define ROOM_FOR_ZERO	1
#endif

active proctype store_buffer()
{
end:
	do
	:: atomic { sb_payload_at != NONE ->
		word[sb_payload_at] = sb_payload; sb_payload_at = NONE }
	:: atomic { sb_zero_at != NONE ->
		word[sb_zero_at] = 0; sb_zero_at = NONE }
	:: atomic { sb_header_at != NONE && HEADER_MAY_DRAIN ->
		word[sb_header_at] = HDR; sb_header_at = NONE }
	od
}

/* A processor has one buffer a kind here: the last has to have drained. */
inline store_payload()
{
	atomic {
		sb_payload_at == NONE;
		sb_payload = n + 1;
		sb_payload_at = (tail + 1) % WORDS
	}
}

active proctype producer()
{
	byte n = 0, tail = 0, seen = 0;
	bool early = false;

	do
	:: n == RECORDS -> break
	:: else ->
#ifdef NO_D
		if
		:: store_payload(); early = true
		:: early = false
		fi;
#endif
		do
		:: tail - seen + 2 + ROOM_FOR_ZERO <= WORDS -> break
		:: else -> head != seen; seen = head	/* D */
		od;
		if
		:: early
		:: else -> store_payload()
		fi;
#ifndef NO_ZERO
		atomic { sb_zero_at == NONE; sb_zero_at = (tail + 2) % WORDS };
#endif
		atomic { sb_header_at == NONE; sb_header_at = tail % WORDS };
		tail = tail + 2;
		n++
	od
}

active proctype consumer()
{
	byte n = 0, pos = 0, h, p;

	do
	:: n == RECORDS -> break
	:: else ->
#ifdef NO_B
		if
		:: p = word[(pos + 1) % WORDS]; h = word[pos % WORDS]
		:: h = word[pos % WORDS]; p = word[(pos + 1) % WORDS]
		fi;
#else
		h = word[pos % WORDS];
#endif
		if
		:: h == 0 ->
#ifndef NO_HEAD
			head = pos;
#endif
			word[pos % WORDS] != 0
		:: else ->
			assert(h == HDR);
#ifdef NO_C
			if
			:: head = pos + 2; p = word[(pos + 1) % WORDS]
			:: p = word[(pos + 1) % WORDS]; head = pos + 2
			fi;
#else
#ifndef NO_B
			p = word[(pos + 1) % WORDS];
#endif
			if
			:: head = pos + 2
			:: skip		/* later */
			fi;
#endif
			assert(p == n + 1);
			pos = pos + 2;
			n++
		fi
	od
	/*
	 * Every record came, once, in order: a reader that looks in vain waits
	 * for a change, so a record that is lost shows as an invalid end state.
	 */
}
