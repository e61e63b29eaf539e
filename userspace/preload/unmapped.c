// SPDX-License-Identifier: GPL-2.0
/*
 * Telling which sockets are mapped, and why others are not: to the statistics,
 * and to -v. See unmapped.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../lib/l5_counts.h"
#include "fdtab.h"
#include "say.h"
#include "stats.h"
#include "unmapped.h"

atomic_int fd_map_after = -1;
/* The reason why nothing is mapped, if that is so */
static enum l5_stats_how never = L5_STATS_HOW_NO_TABLE;

void unmapped_never(enum l5_stats_how how)
{
	never = how;
}

int fd_option(int fd, int level, int name, int *value)
{
	socklen_t len = sizeof(*value);

	return syscall(SYS_getsockopt, fd, level, name, value, &len);
}

int unmapped_reason(int fd)
{
	int reason;

	if (fd_option(fd, SOL_L5, L5_REASON, &reason))
		return -1;
	return reason;
}

static void say_not_mapped(int fd, enum l5_side side, enum l5_stats_how how,
			   int arg)
{
	static const char *const reason[L5_REASON_MAX] = {
#define REASON_TEXT(code, name, meaning) [L5_REASON_##code] = meaning,
		L5_REASONS(REASON_TEXT)
#undef REASON_TEXT
	};
	static const char *const text[L5_STATS_HOWS_MAX] = {
#define HOW_TEXT(code, meaning) [L5_STATS_HOW_##code] = meaning,
		L5_STATS_HOWS(HOW_TEXT)
#undef HOW_TEXT
	};
	char peer[L5_STATS_PEER];
	const char *why = text[how];

	stats_peer(fd, side, peer);
	switch (how) {
	case L5_STATS_HOW_LIMIT:
		say("fd %d%s: not mapped: %d others are", fd, peer, arg);
		return;
	case L5_STATS_HOW_CLOSED:
		say("fd %d%s: not mapped: closed after %d calls", fd, peer,
		    arg);
		return;
	case L5_STATS_HOW_ERRNO:
		why = strerrorname_np(arg);
		break;
	case L5_STATS_HOW_POLICY:
		why = policy_why();
		break;
	case L5_STATS_HOW_REASON:
		why = arg >= 0 && arg < L5_REASON_MAX ? reason[arg] : NULL;
		break;
	default:
		break;
	}
	say("fd %d%s: not mapped: %s", fd, peer, why ? why : "?");
}

/* Tell the statistics, and -v, of a socket that will not be mapped. */
void unmapped_told(int fd, uintptr_t word, enum l5_stats_how how, int arg)
{
	int saved = errno;

	if (l5_likely(!stats_wanted))
		return;
	stats_unmapped(fd, FD_SIDE(word), how, arg, FD_USES(word));
	if (say_wanted)
		say_not_mapped(fd, FD_SIDE(word), how, arg);
	errno = saved;
}

void mapped_told(int fd, struct sock *s, uintptr_t word, int transport)
{
	char peer[L5_STATS_PEER];

	s->stat = NULL;
	if (l5_likely(!stats_wanted))
		return;
	s->stat = stats_mapped(fd, s->side, transport, FD_USES(word));
	if (!say_wanted)
		return;
	say("fd %d%s: mapped, rings of %d and %d bytes %s, after %d calls", fd,
	    stats_peer(fd, s->side, peer), (int)s->map->tx_size,
	    (int)s->map->rx_size, transport == L5_TRANSPORT_SHM ?
	    "in shared memory" : "by RDMA", (int)FD_USES(word));
}

/*
 * Nothing is ever mapped here: tell so of a socket that could have been mapped.
 * False: it is not connected, so that it is too early to tell.
 */
bool unmapped_say_never(int fd, uintptr_t word)
{
	int transport, saved = errno;
	bool known = true;

	if (!fd_option(fd, SOL_L5, L5_TRANSPORT, &transport)) {
		known = transport != L5_TRANSPORT_NONE;
		if (known && fd_by_rings(transport))
			unmapped_told(fd, word, never, 0);
		else if (known)
			unmapped_told(fd, word, L5_STATS_HOW_REASON,
				      unmapped_reason(fd));
	}
	errno = saved;
	return known;
}

/* A socket that was closed before it was mapped, or known not to be. */
void unmapped_closed(int fd, uintptr_t word)
{
	int saved = errno, transport;

	/* of a copy that was never used there is nothing to tell */
	if ((!(word & FD_MADE) && !FD_USES(word)) || !fd_own_begin())
		return;
	if (fd_map_after < 0)
		unmapped_say_never(fd, word);
	else if (!fd_option(fd, SOL_L5, L5_TRANSPORT, &transport) &&
		 fd_by_rings(transport))
		unmapped_told(fd, word, L5_STATS_HOW_CLOSED, FD_USES(word));
	fd_own_end();
	errno = saved;
}
