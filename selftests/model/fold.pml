/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A mapped ring gets pages while it is in use, and loses them while it is
 * empty: kmod/fold.c. Two processes share the writing end and a lock word, one
 * reads; each has page tables of its own, which the kernel empties. A writer
 * may die at any step. Pages have two words, a record takes one, and the word
 * after the last record is 0.
 *
 * What orders two stores is in other models: here each is seen at once.
 *
 * Taken out, each has to fail:
 *   NO_LESS     a writer uses one page less than there are
 *   NO_HEAD     the pages that stay are those from the reader's place on
 *   NO_ZAP      more pages: processes lose those that moved
 *   NO_CLEAR    fewer pages: no process has those that go
 *   NO_FAULTS   no fault while places change their pages
 *   NO_EMPTY    a ring loses pages only if it is empty
 *   NO_TAIL     the page that stays is the one of the writer's place
 *   NO_LOCK     it loses none while a writer has the lock word
 *   NO_EXTENT   the next writer knows that there are fewer
 */
#define PLACES	4
#define PAGES	6
#define NONE	255
#define GONE	99	/* what is in a page that is somebody else's by now */
#ifndef TOTAL
#define TOTAL	9
#endif
#define WORD(pos)	((pos) % 2)
#define PLACE(pos)	(((pos) / 2) % PLACES)
#define RECORD(pos)	((pos) + 1)

typedef table {
	byte at[PLACES]
};

byte cell[12];			/* PAGES * 2 */
bit used[PAGES];
byte page[PLACES];		/* the kernel's array */
byte fold = 2;
byte extent;			/* words that a writer may use */
table pt[3];			/* of writers 0 and 1, and of the reader, 2 */
byte head, tail;
byte lock;			/* 0 free, 1 and 2 a writer, 3 the kernel */
bit died;
bit maps;			/* both ends' map_lock */
bit dead;			/* writer 1 is killed */
bit kernel;			/* and ends once it is out of the kernel */
bit fault[3];			/* so it is in a fault */

inline lock_maps() {
#ifdef NO_FAULTS
	skip
#else
	atomic { !maps -> maps = 1 }
#endif
}

inline unlock_maps() {
#ifdef NO_FAULTS
	skip
#else
	maps = 0
#endif
}

/*
 * An access is one step with the look at the page table. A fault is two, the
 * look at the places and the entry, and fills in the next place, too.
 */
inline store(who, pos, value) {
	do
	:: atomic { pt[who].at[PLACE(pos)] != NONE ->
		cell[pt[who].at[PLACE(pos)] * 2 + WORD(pos)] = value;
		break }
	:: atomic { pt[who].at[PLACE(pos)] == NONE && !maps ->
		maps = 1;
		fault[who] = 1;
		y = page[PLACE(pos)];
		z = page[PLACE(pos + 2)] };
		atomic { pt[who].at[PLACE(pos)] = y;
		pt[who].at[PLACE(pos + 2)] =
			(pt[who].at[PLACE(pos + 2)] == NONE -> z :
			 pt[who].at[PLACE(pos + 2)]);
		y = 0;
		z = 0;
		maps = 0;
		fault[who] = 0 }
	od
}

inline load(who, pos, value) {
	do
	:: atomic { pt[who].at[PLACE(pos)] != NONE ->
		value = cell[pt[who].at[PLACE(pos)] * 2 + WORD(pos)];
		break }
	:: atomic { pt[who].at[PLACE(pos)] == NONE && !maps ->
		maps = 1;
		fault[who] = 1;
		y = page[PLACE(pos)];
		z = page[PLACE(pos + 2)] };
		atomic { pt[who].at[PLACE(pos)] = y;
		pt[who].at[PLACE(pos + 2)] =
			(pt[who].at[PLACE(pos + 2)] == NONE -> z :
			 pt[who].at[PLACE(pos + 2)]);
		y = 0;
		z = 0;
		maps = 0;
		fault[who] = 0 }
	od
}

inline zap(who) {
	d_step {
		z = 0;
		do
		:: z < PLACES -> pt[who].at[z] = NONE; z++
		:: else -> break
		od;
		z = 0
	}
}

inline set_extent() {
#ifdef NO_LESS
	extent = fold * 2
#else
	extent = (fold == PLACES -> PLACES * 2 : (fold - 1) * 2)
#endif
}

/* Give the places from @first on, that keep theirs, to all places. */
inline spread(first, to) {
	d_step {
		z = 0;
		do
		:: z < PLACES ->
			from[z] = page[(first + (z + 2 * PLACES - first) % to) %
				       PLACES];
			z++
		:: else -> break
		od;
		z = 0;
		do
		:: z < PLACES -> page[z] = from[z]; from[z] = 0; z++
		:: else -> break
		od;
		fold = to;
		z = 0
	}
}

/* Two more pages behind those from @first on. */
inline add(first) {
	d_step {
		n = 2;
		do
		:: n < 4 ->
			z = 0;
			do
			:: used[z] -> z++
			:: else -> break
			od;
			used[z] = 1;
			cell[z * 2] = GONE;
			cell[z * 2 + 1] = GONE;
			page[(first + n) % PLACES] = z;
			n++
		:: else -> break
		od;
		n = 0;
		z = 0
	}
}

/* Give back the pages behind the two places from @first on. */
inline free(first) {
	d_step {
		n = 2;
		do
		:: n < 4 ->
			z = page[(first + n) % PLACES];
			used[z] = 0;
			cell[z * 2] = GONE;
			cell[z * 2 + 1] = GONE;
			n++
		:: else -> break
		od;
		n = 0;
		z = 0
	}
}

/* One end after the other, each with the lock of its faults. */
inline zap_all() {
	lock_maps();
	zap(0);
	zap(1);
	unlock_maps();
	lock_maps();
	zap(2);
	unlock_maps()
}

/* Has a process one of the pages behind the two places from @first on? */
inline look_at_tables(first) {
	d_step {
		seen = 0;
		n = 0;
		do
		:: n < 3 ->
			z = 0;
			do
			:: z < PLACES ->
				seen = (pt[n].at[z] != NONE &&
				  (pt[n].at[z] == page[(first + 2) % PLACES] ||
				   pt[n].at[z] == page[(first + 3) % PLACES])
				  -> 1 : seen);
				z++
			:: else -> break
			od;
			n++
		:: else -> break
		od;
		n = 0;
		z = 0
	}
}

inline unfold() {
	kernel = 1;
	lock_maps();
#ifdef NO_HEAD
	first = 0;
#else
	first = (head / 2) % PLACES;
#endif
	add(first);
	spread(first, 4);
	unlock_maps();
#ifndef NO_ZAP
	zap_all();
#endif
	set_extent();
	first = 0;
	kernel = 0
}

proctype writer(byte me)
{
	byte y, z, n, v, first, from[PLACES];

	{
		do
		:: tail == TOTAL -> break
		:: atomic { lock == 0 -> lock = me + 1 };
			if
			:: died ->
				/* the header may be there, and the tail not */
				load(me, tail, v);
				atomic {
					if
					:: v == RECORD(tail) -> tail++
					:: else
					fi;
					died = 0;
					v = 0
				}
			:: else
			fi;
			/* the record and the word after it are to fit */
			if
			:: tail < TOTAL && tail + 2 - head > extent &&
			   fold == 2 -> unfold()
			:: else
			fi;
			if
			:: tail < TOTAL && tail + 2 - head <= extent ->
				store(me, tail + 1, 0);
				store(me, tail, RECORD(tail));
				tail++
			:: else
			fi;
			lock = 0
		od
	} unless {
		atomic {
			me == 1 && dead && !kernel && !fault[me] ->
			if
			:: lock == me + 1 -> died = 1; lock = 0
			:: else
			fi
		}
	}
}

proctype reader()
{
	byte v, y, z;

	do
	:: head == TOTAL -> break
	:: else ->
		load(2, head, v);
		if
		:: v == 0
		:: else ->
			assert(v == RECORD(head));
			head++
		fi;
		v = 0
	od
}

proctype idle()
{
	byte z, n, first, from[PLACES];
	bit seen;

	do
	:: tail == TOTAL && head == TOTAL -> break
	:: fold == 4 ->
		/* nobody waits for a process that has much mapped */
		zap_all();
#ifndef NO_LOCK
		/* a word that says anything is left for another time */
		if
		:: atomic { lock == 0 && !died -> lock = 3 }
		:: tail == TOTAL && head == TOTAL -> break
		fi;
#endif
		first = (tail / 2) % PLACES;
#ifdef NO_TAIL
		first = (first + 1) % PLACES;
#endif
		lock_maps();
#ifndef NO_CLEAR
		/* a fault may have brought them back */
		look_at_tables(first);
#endif
		if
#ifdef NO_EMPTY
		:: !seen ->
#else
		:: head == tail && !seen ->
#endif
			free(first);
			spread(first, 2);
#ifndef NO_EXTENT
			set_extent()
#endif
		:: else
		fi;
		unlock_maps();
		first = 0;
		seen = 0;
#ifndef NO_LOCK
		lock = 0
#endif
	od
}

init {
	atomic {
		byte i, j;

		used[0] = 1;
		used[1] = 1;
		i = 0;
		do
		:: i < PLACES ->
			page[i] = i % 2;
			for (j : 0 .. 2) { pt[j].at[i] = NONE }
			i++
		:: else -> break
		od;
		i = 0;
		j = 0;
		set_extent();
		run writer(0);
		run writer(1);
		run reader();
		run idle();
		run killer()
	}
}

proctype killer()
{
	dead = 1
}
