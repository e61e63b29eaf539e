/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Plays of a victim and a scribbler, which has the other end of one of the
 * victim's connections. The victim has another, innocent connection, which the
 * scribbler cannot reach.
 */
#ifndef HOSTILE_H
#define HOSTILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "scribble.h"

/* Most that the victim moves at once. */
#define HOSTILE_BUF	9000

/* What may be wrong: exit codes of the victim. */
enum wrong {
	RIGHT,
	W_SETUP,	/* it cannot begin */
	W_COUNT,	/* more than was asked for */
	W_ERRNO,	/* not one that the documentation has */
	W_LONG,		/* a call took far too long */
	W_GOOD,		/* the innocent connection lost or changed bytes */
	W_STARVED,	/* or was not reported */
	W_ENDLESS,	/* no end, although the other end is gone */
	W_CLOSE,	/* it cannot be closed */
	W_MAX
};

/**
 * struct hostile - a victim
 * @evil: connected to the scribbler
 * @good: both ends of an innocent connection
 * @pos: how many bytes went over it, each way
 * @seed: for l5_rnd()
 * @a: shared with the other players
 * @wrong: the first thing that was
 */
struct hostile {
	int evil;
	int good[2];
	uint64_t pos;
	uint64_t seed;
	struct arena *a;
	enum wrong wrong;
};

/**
 * struct hostile_game - what a victim does
 * @api: what it uses, for messages
 * @arg: for these functions
 * @begin: map all three ends; false if that cannot be
 * @step: one call, or a few
 * @good: send @n bytes over the innocent connection, both ways
 * @end: of @evil, whose other end is gone: receive until there is no more, and
 *	send until that fails; then close it
 */
struct hostile_game {
	const char *api;
	void *arg;
	bool (*begin)(struct hostile *h, void *arg);
	void (*step)(struct hostile *h, void *arg);
	bool (*good)(struct hostile *h, void *arg, size_t n);
	void (*end)(struct hostile *h, void *arg);
};

/*
 * Play it, over @at, in this namespace of its own. True if all was well; else
 * says what was not. @sum: calls and writes are added.
 */
bool hostile_play(const struct hostile_game *g, const char *at, enum mood mood,
		  uint64_t seed, unsigned long sum[2]);

/* Memory of @n bytes, at most HOSTILE_BUF, with a hole right after it. */
uint8_t *hostile_memory(size_t n);

/* How much to ask for: mostly little. */
size_t hostile_want(struct hostile *h);

/*
 * Is @n, with errno, a possible answer of a call that was to move @want bytes?
 * Returns @n.
 */
ssize_t hostile_judge(struct hostile *h, ssize_t n, size_t want);

/* Something is wrong, if nothing was before. */
void hostile_wrong(struct hostile *h, enum wrong what);

/* Calls on @evil are to end: by time-outs, or by a signal every so often. */
bool hostile_timeouts(struct hostile *h);
bool hostile_alarm(struct hostile *h);

#endif /* HOSTILE_H */
