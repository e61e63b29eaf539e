/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Plays of a victim and a forger that shares its end of a connection, as nobody
 * (65534), and writes the lock words and nothing else. Every call of the victim
 * has to be back, in the way that a socket's is, while the forger goes on.
 */
#ifndef FORGED_H
#define FORGED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "mapping.h"

/* What the forger says. */
enum forgery {
	F_NOBODY,	/* a number that nobody has, again and again */
	F_CHANGING,	/* another such number with each store */
	F_KERNEL,	/* that the kernel holds it */
	F_WAITERS,	/* its own number, with and without the waiters' bit */
	F_HOLDS,	/* its own number, by the rules, but for ever */
	FORGERIES
};

extern const char *const forgery_name[];

/* How a call of the victim is to end. */
enum patience {
	P_NONE,		/* it may not wait */
	P_TIME,		/* SO_SNDTIMEO, SO_RCVTIMEO */
	P_SIGNAL,	/* a handler without SA_RESTART */
	P_KILL,		/* SIGKILL */
	PATIENCES
};

extern const char *const patience_name[];

/**
 * struct forged - a victim
 * @fd: the socket, which the forger has as well
 * @peer: the other end, of which the victim keeps the rings from being empty,
 *	or full
 * @how: the way in which its calls are to end
 * @what: the forger's way to forge
 * @calls: how many are back
 * @wrong: errno of a call that ended in a way that it may not, or -1
 * @arg: the game's
 */
struct forged {
	int fd;
	int peer;
	enum patience how;
	enum forgery what;
	uint32_t calls;
	int wrong;
	void *arg;
};

/**
 * struct forged_game - what a victim does
 * @name: for messages
 * @begin: in the victim: map, if it is to; may be NULL
 * @step: one call that moves one byte by that end; what it returned, with errno
 */
struct forged_game {
	const char *name;
	bool (*begin)(struct forged *f);
	ssize_t (*step)(struct forged *f);
};

/*
 * Play it over @at. True if each call was back, and as it may be, before the
 * forger gave up; else says what was not.
 */
bool forged_play(const struct forged_game *g, const char *at,
		 enum forgery what, enum patience how);

static inline int dontwait(const struct forged *f)
{
	return f->how == P_NONE ? MSG_DONTWAIT : 0;
}

#endif /* FORGED_H */
