// SPDX-License-Identifier: GPL-2.0
/*
 * Learning about sockets, and mapping those that are used. See learn.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "entry.h"
#include "fdtab.h"
#include "learn.h"
#include "pays.h"
#include "signal.h"
#include "sock.h"
#include "stats.h"
#include "unmapped.h"

enum {
	FLAGS_MAX = 8,		/* looks at flags that others change */
	LEARN_MAX = 64,		/* calls until a socket is looked at again */
	MAP_BYTES = 3 << 19,	/* of addresses, a socket's rings, about */
	CALLS_MAX = (1 << 24) + 1,	/* that are counted; asks no more */
};

/* When it pays, or after as many calls as the user says? */
static bool by_cost;

atomic_uint fd_mapped;
/*
 * Sockets mapped at once. Each is three areas of memory, of which a process may
 * have 65530 in all.
 */
static unsigned int maps_max = 10000;
static bool maps_auto;

/* Has it an option that only system calls keep? */
static bool plain_options(int fd, int status)
{
	int lowat = 1;

	fd_option(fd, SOL_SOCKET, SO_RCVLOWAT, &lowat);
	return lowat > 1 || status & O_ASYNC;
}

/* Are the records of its rings messages? libl5 knows these, but not we. */
static bool messages(int fd)
{
	int type = SOCK_STREAM;

	fd_option(fd, SOL_SOCKET, SO_TYPE, &type);
	return type != SOCK_STREAM;
}

/* Do addresses mean something? Yes, until the kernel says that they do not. */
static unsigned int names(int fd)
{
	int domain = AF_UNIX;

	fd_option(fd, SOL_SOCKET, SO_DOMAIN, &domain);
	return domain == AF_UNIX ? SOCK_NAMES : 0;
}

/* Is it carried by TCP, and not settled that it stays there? */
static bool may_move(int fd)
{
	struct l5_map_info info;

	return l5_map_ask(fd, &info, NULL, 0, 0) && errno == EAGAIN;
}

/* One use more; the count does not grow forever, see learn_use(). */
static uintptr_t counted(uintptr_t word)
{
	word = (word + FD_ONCE) | FD_COUNTS;
	if (by_cost && FD_USES(word) > CALLS_MAX)
		word -= FD_ONCE;
	if (!by_cost &&
	    FD_USES(word) == (unsigned int)fd_map_after + 2 * LEARN_MAX)
		word -= FD_ONCE * LEARN_MAX;
	return word;
}

/* What is known of a socket's flags, or none if it is another's by now */
static bool flags_of(int fd, const struct sock *s, unsigned int *flags)
{
	struct sock *now = sock_look(fd);

	if (!now)
		return false;
	*flags = atomic_load(&now->flags);
	sock_done();
	return now == s;
}

/* Note O_NONBLOCK until it is what the kernel says; F_GETFL's answer, or -1. */
static int status_noted(int fd, const struct sock *s)
{
	int i, status = -1;
	unsigned int flags;

	for (i = 0; i < FLAGS_MAX; i++) {
		status = syscall(SYS_fcntl, fd, F_GETFL);
		if (status < 0 || !flags_of(fd, s, &flags))
			return -1;
		if (!(status & O_NONBLOCK) == !(flags & SOCK_NONBLOCKING))
			break;
		fd_flag(fd, SOCK_NONBLOCKING, status & O_NONBLOCK);
	}
	return status;
}

void learn_status(int fd)
{
	const struct sock *s = sock_look(fd);
	int saved = errno;

	if (!s)
		return;
	sock_done();
	if (fd_own_begin()) {
		status_noted(fd, s);
		fd_own_end();
	}
	errno = saved;
}

/*
 * A thread that changed flags or options before the socket's word was there had
 * nowhere to note them, so they are read once more. A thread that changes them
 * from now on notes them itself, see learn_status().
 */
static void flags_again(int fd, const struct sock *s)
{
	int status = status_noted(fd, s);

	if (status >= 0 && plain_options(fd, status))
		fd_flag(fd, SOCK_PLAIN, true);
}

/* No thread has seen it yet. */
static void sock_drop(struct sock *s)
{
	atomic_fetch_sub(&fd_mapped, 1);
	stats_cancel(s->stat);
	l5_map_put(s->map);
	s->map = NULL;
	if (!sock_free(s))
		sock_retire(s);
}

/* L5_TRANSPORT, or -1; how long it takes to ask says what a call costs. */
static int transport_of(int fd, int *transport)
{
	uint64_t before = by_cost ? l5_map_now() : 0;
	int ret = fd_option(fd, SOL_L5, L5_TRANSPORT, transport);

	if (by_cost && !ret)
		pays_asked(l5_map_now() - before);
	return ret;
}

static struct l5_map *timed_map(int fd)
{
	uint64_t before = by_cost ? l5_map_now() : 0;
	struct l5_map *m = l5_map_new(fd, 0);

	if (by_cost && m)
		pays_mapped(l5_map_now() - before);
	return m;
}

/*
 * The descriptor was used often enough to be worth a look. The word is replaced
 * only if it is still what it was, so a descriptor that was closed meanwhile is
 * not taken for the one we asked about. Nor is a descriptor that was closed
 * behind our back: it is watched first, then mapped. If the page that was
 * mapped says what the watch said, the socket mapped is the one watched, and
 * was never closed since.
 */
static struct sock *learn(struct fd_entry *e, int fd, uintptr_t word)
{
	uintptr_t other = FD_OTHER;
	uint64_t watch;
	int transport, status;
	struct sock *s;

	if (fd_map_after < 0 || !fd_ours())
		goto not_now;
	if (transport_of(fd, &transport)) {
		if (errno == EBADF)
			goto not_now;
		goto never;
	}
	if (transport == L5_TRANSPORT_NONE) {
		/* not connected: ask again after as many calls */
		other = (word & ~(uintptr_t)UINT32_MAX) | FD_COUNTS |
			(word & (FD_MADE | FD_SIDES));
		goto never;
	}
	if (!fd_by_rings(transport)) {
		/* as long as RDMA may still take it: again in a while */
		if (may_move(fd)) {
			other = counted(word);
			goto never;
		}
		/* it may have moved between the two questions */
		if (fd_option(fd, SOL_L5, L5_TRANSPORT, &transport))
			goto not_now;
	}
	if (!fd_by_rings(transport)) {
		unmapped_told(fd, word, L5_STATS_HOW_REASON,
			      unmapped_reason(fd));
		goto never;
	}
	if (!policy_may_map(fd, FD_SIDE(word))) {
		unmapped_told(fd, word, L5_STATS_HOW_POLICY, 0);
		goto never;
	}
	if (by_cost && !pays(FD_SIDE(word), FD_USES(word))) {
		other = counted(word);
		goto never;
	}
	if (atomic_load(&fd_mapped) >= maps_max) {
		unmapped_told(fd, word, L5_STATS_HOW_LIMIT, (int)maps_max);
		goto never;
	}
	status = syscall(SYS_fcntl, fd, F_GETFL);
	if (status < 0 || plain_options(fd, status) || messages(fd)) {
		unmapped_told(fd, word, L5_STATS_HOW_OPTIONS, 0);
		goto never;
	}
	if (l5_map_watch(fd, &watch)) {
		unmapped_told(fd, word, L5_STATS_HOW_UNWATCHED, 0);
		goto never;
	}
	s = sock_new();
	if (!s)
		goto not_now;
	s->map = timed_map(fd);
	if (!s->map && errno == EAGAIN) {
		other = counted(word);
		sock_retire(s);
		goto never;
	}
	if (!s->map) {
		unmapped_told(fd, word, L5_STATS_HOW_ERRNO, errno);
		sock_retire(s);
		goto never;
	}
	atomic_fetch_add(&fd_mapped, 1);
	/* never equal if the socket came from elsewhere */
	atomic_store(&s->forks, word & FD_MADE ? FD_FORKS(word) : UINT32_MAX);
	s->side = FD_SIDE(word);
	atomic_store(&s->calls, by_cost ? FD_USES(word) : SOCK_CALLS);
	atomic_store(&s->refs, 1);
	atomic_store(&s->flags, names(fd) |
		     (status & O_NONBLOCK ? SOCK_NONBLOCKING : 0));
	s->stat = NULL;
	if (l5_map_watched(s->map) != watch) {
		/* was it closed? Ask again at the next use. */
		sock_drop(s);
		goto not_now;
	}
	mapped_told(fd, s, word, transport);
	atomic_store(&e->watch, watch);
	if (!atomic_compare_exchange_strong(&e->word, &word, (uintptr_t)s)) {
		/* another thread was first */
		sock_drop(s);
		return NULL;
	}
	/* fd_give_up() may not have seen this word */
	if (fd_map_after < 0) {
		entry_clear(e, fd);
		return NULL;
	}
	flags_again(fd, s);
	return s;

never:
	/* or not yet */
	atomic_compare_exchange_strong(&e->word, &word, other);
not_now:
	return NULL;
}

/* A descriptor that nothing is known of was read or written once more. */
struct sock *learn_use(int fd, uintptr_t word)
{
	struct fd_entry *e = fd_entry_make(fd);
	unsigned int uses;
	int saved = errno;
	uintptr_t held;
	bool due;
	struct sock *s;

	if (!e)
		return NULL;
	/* a word that has changed is not ours to change */
	if (fd_map_after < 0) {
		if (l5_likely(!stats_wanted) || sandbox_careful() ||
		    unmapped_say_never(fd, word))
			atomic_compare_exchange_strong(&e->word, &word,
						       FD_OTHER);
		return NULL;
	}
	/* once, and while it may still move each time after twice as many */
	uses = FD_USES(word) - (unsigned int)fd_map_after;
	due = (int)uses >= 0 && !(uses & (uses - 1));
	if (by_cost ? !pays_due(FD_USES(word)) : !due) {
		atomic_compare_exchange_strong(&e->word, &word, counted(word));
		return NULL;
	}
	if (!fd_own_begin())
		return NULL;
	held = sig_hold();
	s = learn(e, fd, word);
	sig_release(held);
	if (s)
		sig_mapped();
	fd_own_end();
	errno = saved;
	return s;
}

void learn_start(int after, int maps)
{
	by_cost = after == MAP_PAYS;
	fd_map_after = by_cost ? PAYS_FIRST : after;
	if (maps >= 0)
		maps_max = maps;
	maps_auto = maps < 0;
}

void learn_live(void)
{
	struct rlimit as;

	/* a quarter of a limit on addresses; the rest is the program's */
	if (maps_auto && !syscall(SYS_prlimit64, 0, RLIMIT_AS, NULL, &as) &&
	    as.rlim_cur / (4 * MAP_BYTES) < maps_max)
		maps_max = as.rlim_cur / (4 * MAP_BYTES);
}
