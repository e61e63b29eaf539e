/* SPDX-License-Identifier: GPL-2.0 */
/* A scribbler: writes whatever it likes to all that it can map of an end. */
#ifndef SCRIBBLE_H
#define SCRIBBLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "mapping.h"

/* What a scribbler writes to, from words that no end goes by to everything. */
enum mood {
	LIES,		/* wait words, counters, tail: no cursor of ours */
	RECORDS,	/* valid records, which the peer did not send */
	CURSORS,	/* heads and tails, around the right ones */
	LOCKS,		/* lock words */
	HEADERS,	/* header words of all sorts */
	ALL,
	MOODS
};

extern const char *const mood_name[];

/**
 * struct arena - what the processes of a play share
 * @ready: the scribbler may begin
 * @stop: 1: it is to end; 2: it has
 * @calls: of the victim, so far
 * @writes: of the scribbler
 * @error: what errno was when the victim found something wrong
 */
struct arena {
	uint32_t ready;
	uint32_t stop;
	uint32_t calls;
	uint32_t writes;
	int error;
};

/*
 * In a child: map the end and scribble until told to stop. Its own calls are
 * system calls even under the preload library, which would wait for the lock
 * words that it forged.
 */
void scribbler(int fd, enum mood mood, struct arena *a, uint64_t seed)
	__attribute__((noreturn));

/*
 * Let them play for @ms, or until the victim has enough; then stop the
 * scribbler, or kill it if @kills. False if it ended otherwise: its status is
 * in *@status. The victim is the caller's to reap.
 */
bool scribble_watch(struct arena *a, pid_t vic, pid_t scr, int ms, bool kills,
		    int *status);

/* Nothing of all the plays over @at is left, and a new pair works. */
bool scribble_over(const char *at);

/* The header word at a position of the ring that is written. */
void scribble_header(struct mapping *m, uint64_t pos, uint64_t hdr);

#endif /* SCRIBBLE_H */
