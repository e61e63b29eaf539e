// SPDX-License-Identifier: GPL-2.0
/*
 * What the library knows of descriptors: see fdtab.h.
 *
 * Most of this may run in a signal handler that interrupted any other part of
 * it. So there are no locks that anyone waits for: who finds one taken goes
 * without, that is to the kernel.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../lib/l5_counts.h"
#include "epoll.h"
#include "fdtab.h"
#include "say.h"
#include "signal.h"
#include "stats.h"

#define REGISTER	MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED

enum {
	WAIT_MAX = 1000,	/* yields to who is inside a closed socket */
	SETTLE_MAX = 1000,	/* ms for who is inside anything */
	DOUBT_MAX = 4,		/* questions about one descriptor at a time */
	LEARN_MAX = 64,		/* calls until a socket is looked at again */
	NEST = 4,		/* uses that interrupt each other in a thread */
	POOL_BYTES = 16384,
	MAP_BYTES = 3 << 19,	/* of addresses, for a socket's rings; about */
};

/**
 * struct user - a thread's place to publish what it uses
 * @used: by depth of interruption
 * @frame: where the stack was
 * @fd: by which descriptor
 * @depth: how many of them are in use
 * @open: how many of these a handler may come upon
 * @own: how often it is between fd_own_begin() and fd_own_end()
 * @tid: whose it is, 0 nobody's; one whose thread has ended is free too
 * @next: all of them; never changes
 */
struct user {
	struct sock *_Atomic used[NEST];
	uintptr_t frame[NEST];
	int fd[NEST];
	atomic_uint depth;
	unsigned int open;
	atomic_uint own;
	atomic_int tid;
	struct user *next;
} __attribute__((aligned(L5_LINE)));

/* Most programs need no other. */
static struct fd_entry first_chunk[FD_CHUNK];
struct fd_entry *_Atomic fd_chunks[FD_CHUNKS] = { first_chunk };
atomic_uint fd_forks;
atomic_uint fd_mapped;

static __thread struct user *me __attribute__((tls_model("initial-exec")));
static struct user *_Atomic users;
static atomic_uint users_n, users_claims, users_scanned;
/* Threads that get a place to publish, which they have no place to say in. */
static atomic_uint claiming;

static atomic_int fd_nolife = 1;
static atomic_int *life = &fd_nolife;
const atomic_int *fd_life = &fd_nolife;

static atomic_int map_after = -1;
/* If that is negative: why. */
static enum l5_stats_how never = L5_STATS_HOW_NO_TABLE;
/*
 * Sockets mapped at once. Each is six areas of memory, of which a process may
 * have 65530 in all.
 */
static unsigned int maps_max = 1000;
static bool maps_auto;

/* Sockets that nobody finds any more, and memory for new ones. */
static struct sock *_Atomic retired;
static struct sock *pool;
static atomic_flag pool_busy = ATOMIC_FLAG_INIT;
static atomic_flag reaping = ATOMIC_FLAG_INIT;
static atomic_flag forgetting = ATOMIC_FLAG_INIT;

static void entry_clear(struct fd_entry *e, int fd);

/* Without membarrier(2) each use has a full barrier. */
static bool fenced(void)
{
	return atomic_load_explicit(&sandbox_terms, memory_order_relaxed) &
	       SANDBOX_FENCED;
}

/* A thread that is inside said so before it looked, or has yet to look. */
static int barrier_all(void)
{
	int ret = 0;

	if (!fenced())
		ret = syscall(SYS_membarrier,
			      MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
	atomic_thread_fence(memory_order_seq_cst);
	return ret;
}

static int get_int(int fd, int level, int name, int *value)
{
	socklen_t len = sizeof(*value);

	return syscall(SYS_getsockopt, fd, level, name, value, &len);
}

static void *more(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* Entries */

struct fd_entry *fd_entry_make(int fd)
{
	struct fd_entry *c, *old = NULL;
	size_t len = FD_CHUNK * sizeof(*c);
	int saved = errno;

	if (fd < 0 || fd >= FD_CHUNK * FD_CHUNKS)
		return NULL;
	c = fd_entry(fd);
	if (c)
		return c;
	if (!fd_own_begin())
		return NULL;
	c = more(len);
	if (c && !atomic_compare_exchange_strong(&fd_chunks[fd >>
							    FD_CHUNK_BITS],
						 &old, c)) {
		munmap(c, len);
		c = old;
	}
	fd_own_end();
	errno = saved;
	return c ? &c[fd & (FD_CHUNK - 1)] : NULL;
}

/* Sockets: memory */

static struct sock *sock_new(void)
{
	struct sock *s = NULL;
	size_t i;

	if (atomic_flag_test_and_set(&pool_busy))
		return NULL;
	if (!pool) {
		s = more(POOL_BYTES);
		for (i = 0; s && i < POOL_BYTES / sizeof(*s); i++) {
			s[i].next = pool;
			pool = &s[i];
		}
	}
	s = pool;
	if (s)
		pool = s->next;
	atomic_flag_clear(&pool_busy);
	return s;
}

/* False: try again later. */
static bool sock_free(struct sock *s)
{
	if (atomic_flag_test_and_set(&pool_busy))
		return false;
	s->next = pool;
	pool = s;
	atomic_flag_clear(&pool_busy);
	return true;
}

static bool used_by_others(const struct sock *s)
{
	struct user *u;
	int i;

	barrier_all();
	for (u = atomic_load(&users); u; u = u->next)
		for (i = 0; u != me && i < NEST; i++)
			if (atomic_load(&u->used[i]) == s)
				return true;
	return false;
}

/*
 * A thread that is inside rings the peer's bell by the descriptor's number,
 * which is about to mean nothing, or something else. It is not for long: nobody
 * sleeps inside.
 */
static void wait_for_others(struct sock *s)
{
	int saved = errno, i;

	for (i = 0; i < WAIT_MAX && used_by_others(s); i++)
		syscall(SYS_sched_yield);
	errno = saved;
}

static void retire(struct sock *s)
{
	struct sock *old = atomic_load(&retired);

	do
		s->next = old;
	while (!atomic_compare_exchange_weak(&retired, &old, s));
}

static bool in_use(const struct sock *s)
{
	struct user *u;
	int i;

	for (u = atomic_load(&users); u; u = u->next)
		for (i = 0; i < NEST; i++)
			if (atomic_load(&u->used[i]) == s)
				return true;
	return false;
}

/*
 * Free what was retired and nobody uses. The barrier: a thread has published
 * what it uses, or will find that it is not in the table any more.
 */
static void reap(void)
{
	struct sock *s, *next;
	int saved = errno;

	if (!atomic_load(&retired) || atomic_flag_test_and_set(&reaping))
		return;
	s = atomic_exchange(&retired, NULL);
	/* the look at what is published is not to move up */
	if (barrier_all()) {
		/* a filter of system calls, perhaps: then nothing is freed */
		for (; s; s = next) {
			next = s->next;
			retire(s);
		}
	}
	for (; s; s = next) {
		next = s->next;
		if (in_use(s)) {
			retire(s);
			continue;
		}
		if (s->map) {
			atomic_fetch_sub(&fd_mapped, 1);
			/* or it was a parent's, and is not closed there */
			if (l5_map_mine(s->map))
				stats_closed(s->stat);
		}
		l5_map_put(s->map);
		s->map = NULL;
		if (!sock_free(s))
			retire(s);
	}
	atomic_flag_clear(&reaping);
	errno = saved;
}

static void sock_put(struct sock *s)
{
	uintptr_t held;

	if (atomic_fetch_sub(&s->refs, 1) != 1)
		return;
	held = sig_hold();
	retire(s);
	reap();
	sig_release(held);
}

/* What a word referred to is referred to no more. */
static void word_put(uintptr_t word)
{
	if (fd_is_sock(word))
		sock_put((struct sock *)word);
	else if ((word & FD_KIND) == FD_EP)
		ep_put((struct ep *)(word - FD_EP));
}

/* Threads */

static bool thread_ended(int tid)
{
	return syscall(SYS_tgkill, syscall(SYS_getpid), tid, 0) &&
	       errno == ESRCH;
}

/* One for this thread; of all that @ended, the others are free then. */
static struct user *user_claim_free(int tid, bool ended)
{
	struct user *u, *mine = NULL;
	int old, i;

	for (u = atomic_load(&users); u; u = u->next) {
		old = atomic_load(&u->tid);
		if (old && (!ended || !thread_ended(old)))
			continue;
		if (!atomic_compare_exchange_strong(&u->tid, &old, tid))
			continue;
		for (i = 0; i < NEST; i++)
			atomic_store(&u->used[i], NULL);
		atomic_store(&u->depth, 0);
		atomic_store(&u->own, 0);
		u->open = 0;
		if (!ended)
			return u;
		if (mine)
			atomic_store(&u->tid, 0);
		else
			mine = u;
	}
	return mine;
}

static struct user *user_more(int tid)
{
	unsigned int n = POOL_BYTES / 4 / sizeof(struct user), i;
	struct user *u = more(POOL_BYTES / 4), *head;

	if (!u)
		return NULL;
	atomic_init(&u[0].tid, tid);
	for (i = 0; i + 1 < n; i++)
		u[i].next = &u[i + 1];
	head = atomic_load(&users);
	do
		u[n - 1].next = head;
	while (!atomic_compare_exchange_weak(&users, &head, u));
	atomic_fetch_add(&users_n, n);
	return u;
}

/*
 * There is no moment when a thread says farewell after its last read(). So its
 * place is taken back when it is found dead; to look for the dead costs a
 * system call each, and is done so rarely that a new thread pays for two.
 */
static struct user *user_claim_now(void)
{
	int tid = syscall(SYS_gettid), saved = errno;
	struct user *u = user_claim_free(tid, false);
	unsigned int claims = atomic_fetch_add(&users_claims, 1);

	if (!u && claims - atomic_load(&users_scanned) >=
		  atomic_load(&users_n) / 2) {
		atomic_store(&users_scanned, claims);
		u = user_claim_free(tid, true);
	}
	if (!u)
		u = user_more(tid);
	errno = saved;
	me = u;
	return u;
}

static struct user *user_claim(void)
{
	struct user *u = NULL;

	atomic_fetch_add(&claiming, 1);
	if (!sandbox_careful())
		u = user_claim_now();
	atomic_fetch_sub(&claiming, 1);
	return u;
}

/* Calls that the program did not ask for */

bool fd_own_begin(void)
{
	struct user *u = me;
	unsigned int n;

	if (!sandbox_may())
		return false;
	if (l5_unlikely(!u)) {
		u = user_claim();
		if (!u)
			return false;
	}
	n = atomic_load_explicit(&u->own, memory_order_relaxed);
	atomic_store_explicit(&u->own, n + 1, memory_order_relaxed);
	/* AI: said, then looked; the other half is fd_settle()'s */
	if (l5_unlikely(fenced()))
		atomic_thread_fence(memory_order_seq_cst);
	else
		atomic_signal_fence(memory_order_seq_cst);
	if (l5_likely(!sandbox_careful()))
		return true;
	atomic_store_explicit(&u->own, n, memory_order_release);
	return false;
}

void fd_own_end(void)
{
	struct user *u = me;
	unsigned int n = atomic_load_explicit(&u->own, memory_order_relaxed);

	atomic_store_explicit(&u->own, n - 1, memory_order_release);
}

static bool user_inside(const struct user *u)
{
	int i;

	if (atomic_load(&u->own))
		return true;
	for (i = 0; i < NEST; i++)
		if (atomic_load(&u->used[i]))
			return true;
	return false;
}

/* Is any other thread that lives in the middle of something? */
static bool others_inside(void)
{
	struct user *u;
	int tid;

	if (atomic_load(&claiming))
		return true;
	for (u = atomic_load(&users); u; u = u->next) {
		tid = atomic_load(&u->tid);
		if (u != me && tid && user_inside(u) && !thread_ended(tid))
			return true;
	}
	return false;
}

/*
 * Others are out in no time but for a thread that has no CPU, or is stopped in
 * a debugger. Nothing else is waited for, so it has an end.
 */
void fd_settle(void)
{
	struct timespec ms = { .tv_nsec = 1000000 };
	int i;

	/* AI: sandbox_terms were set before */
	barrier_all();
	for (i = 0; i < SETTLE_MAX && others_inside(); i++)
		syscall(SYS_nanosleep, &ms, NULL);
	fd_left();
}

void fd_left(void)
{
	ep_before_fork();
	atomic_store(&fd_mapped, 0);
}

/*
 * A lock word that was left with it is for the next one to mend, as if this
 * process had died: it may be the kernel that wants it next. If its record says
 * that it may not have been taken yet, it was if nobody else is here.
 */
static void unlock_left(struct sock *s, int fd)
{
	struct l5_held *h = &l5_held.now;
	unsigned int i, n;
	__u32 *word, old;
	bool taken;

	if (!s || !l5_map_mine(s->map))
		return;
	for (i = L5_LOCK_TX; i <= L5_LOCK_RX; i++) {
		if (h->key != s->map->key + i)
			continue;
		word = l5_map_word(s->map, i);
		old = l5_load(word);
		/* odd: for sure */
		taken = h->frame & 1 || !used_by_others(s);
		/* others may set and clear a bit as often as they like */
		for (n = 0; taken && n < L5_LOOKS &&
		     (old & L5_LOCK_ID) == s->map->id; n++) {
			if (l5_cmpxchg(word, old, (old & L5_LOCK_WAITERS) |
						  L5_LOCK_DIED))
				break;
			old = l5_load(word);
		}
		h->key = 0;
		s->map->ops->lock_wake(s->map, fd, i);
	}
}

/*
 * This thread seems to be inside already: in a handler that we do not know, or
 * in that of a fault. End what such a one has left by siglongjmp(), as far as
 * that is certain: the kernel, too, would wait for a lock word that was left.
 * What is not stays there, and costs a place. Returns the depth.
 */
static unsigned int end_left(struct user *u, unsigned int d, uintptr_t now)
{
	unsigned int i = 0;
	int saved = errno;

	while (i < d && !l5_frame_over(u->frame[i], now))
		i++;
	/* those that interrupted it are over, too */
	while (d > i) {
		d--;
		unlock_left(u->used[d], u->fd[d]);
		atomic_store(&u->used[d], NULL);
		atomic_store(&u->depth, d);
	}
	if (u->open > d)
		u->open = d;
	errno = saved;
	return d;
}

uintptr_t fd_used_at(void)
{
	struct user *u = me;
	unsigned int d;

	d = u ? atomic_load_explicit(&u->depth, memory_order_relaxed) : 0;
	return d && d <= NEST && d > u->open ? u->frame[d - 1] : 0;
}

int fd_used_open(void)
{
	struct user *u = me;
	int open = u ? u->open : 0;

	if (u)
		u->open = atomic_load_explicit(&u->depth, memory_order_relaxed);
	return open;
}

void fd_used_again(int open)
{
	if (me)
		me->open = open;
}

/* Learning about sockets */

static int reason_of(int fd)
{
	int reason;

	if (get_int(fd, SOL_L5, L5_REASON, &reason))
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

/* Tell, those that asked, of a socket that will not be mapped. */
static void not_mapped(int fd, uintptr_t word, enum l5_stats_how how, int arg)
{
	int saved = errno;

	if (l5_likely(!stats_wanted))
		return;
	stats_unmapped(fd, FD_SIDE(word), how, arg, FD_USES(word));
	if (say_wanted)
		say_not_mapped(fd, FD_SIDE(word), how, arg);
	errno = saved;
}

static void mapped(int fd, struct sock *s, uintptr_t word, int transport)
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

/* Has it an option that only system calls keep? */
static bool plain_options(int fd, int status)
{
	int lowat = 1;

	get_int(fd, SOL_SOCKET, SO_RCVLOWAT, &lowat);
	return lowat > 1 || status & O_ASYNC;
}

/* What it is until something else is said of it: the kernel knows names. */
static unsigned int names(int fd)
{
	int domain = AF_UNIX;

	get_int(fd, SOL_SOCKET, SO_DOMAIN, &domain);
	return domain == AF_UNIX ? SOCK_NAMES : 0;
}

static bool by_rings(int transport)
{
	return transport == L5_TRANSPORT_SHM || transport == L5_TRANSPORT_RDMA;
}

/* Carried by TCP, and it is not settled that it stays there. */
static bool may_move(int fd)
{
	struct l5_map_info info;

	return l5_map_ask(fd, &info, NULL, 0) && errno == EAGAIN;
}

/* One use more; the word does not change forever, see count_use(). */
static uintptr_t counted(uintptr_t word)
{
	word = (word + FD_ONCE) | FD_COUNTS;
	if (FD_USES(word) == (unsigned int)map_after + 2 * LEARN_MAX)
		word -= FD_ONCE * LEARN_MAX;
	return word;
}

/* Nobody has seen it. */
static void sock_drop(struct sock *s)
{
	atomic_fetch_sub(&fd_mapped, 1);
	stats_cancel(s->stat);
	l5_map_put(s->map);
	s->map = NULL;
	if (!sock_free(s))
		retire(s);
}

/*
 * It was used often enough to be worth a look. The word is replaced only if it
 * is still what it was, so a descriptor that was closed meanwhile is not taken
 * for the one we asked about. One that was closed behind our back is not,
 * either: watched first, then mapped, it is the one that was watched if the
 * page that was mapped says what the watch said, and was never closed since.
 */
static struct sock *learn(struct fd_entry *e, int fd, uintptr_t word)
{
	uintptr_t other = FD_OTHER;
	uint64_t watch;
	int transport, status;
	struct sock *s;

	if (map_after < 0 || !fd_ours())
		goto not_now;
	if (get_int(fd, SOL_L5, L5_TRANSPORT, &transport)) {
		if (errno == EBADF)
			goto not_now;
		goto never;
	}
	if (transport == L5_TRANSPORT_NONE) {
		/* not connected: ask again as much later */
		other = (word & ~(uintptr_t)UINT32_MAX) | FD_COUNTS |
			(word & (FD_MADE | FD_SIDES));
		goto never;
	}
	if (!by_rings(transport)) {
		/* as long as RDMA may still take it: again in a while */
		if (may_move(fd)) {
			other = counted(word);
			goto never;
		}
		/* it may have moved between the two questions */
		if (get_int(fd, SOL_L5, L5_TRANSPORT, &transport))
			goto not_now;
	}
	if (!by_rings(transport)) {
		not_mapped(fd, word, L5_STATS_HOW_REASON, reason_of(fd));
		goto never;
	}
	if (!policy_may_map(fd, FD_SIDE(word))) {
		not_mapped(fd, word, L5_STATS_HOW_POLICY, 0);
		goto never;
	}
	if (atomic_load(&fd_mapped) >= maps_max) {
		not_mapped(fd, word, L5_STATS_HOW_LIMIT, (int)maps_max);
		goto never;
	}
	status = syscall(SYS_fcntl, fd, F_GETFL);
	if (status < 0 || plain_options(fd, status)) {
		not_mapped(fd, word, L5_STATS_HOW_OPTIONS, 0);
		goto never;
	}
	if (l5_map_watch(fd, &watch)) {
		not_mapped(fd, word, L5_STATS_HOW_UNWATCHED, 0);
		goto never;
	}
	s = sock_new();
	if (!s)
		goto not_now;
	s->map = l5_map_new(fd);
	if (!s->map && errno == EAGAIN) {
		other = counted(word);
		retire(s);
		goto never;
	}
	if (!s->map) {
		not_mapped(fd, word, L5_STATS_HOW_ERRNO, errno);
		retire(s);
		goto never;
	}
	atomic_fetch_add(&fd_mapped, 1);
	/* never equal if it came from elsewhere */
	atomic_store(&s->forks, word & FD_MADE ? FD_FORKS(word) : UINT32_MAX);
	s->side = FD_SIDE(word);
	atomic_store(&s->refs, 1);
	atomic_store(&s->error, 0);
	atomic_store(&s->flags, names(fd) |
		     (status & O_NONBLOCK ? SOCK_NONBLOCKING : 0));
	s->stat = NULL;
	if (l5_map_watched(s->map) != watch) {
		/* was it closed? Ask again at the next use. */
		sock_drop(s);
		goto not_now;
	}
	mapped(fd, s, word, transport);
	atomic_store(&e->watch, watch);
	if (!atomic_compare_exchange_strong(&e->word, &word, (uintptr_t)s)) {
		/* another thread was first */
		sock_drop(s);
		return NULL;
	}
	/* fd_give_up() may not have seen this word */
	if (map_after < 0) {
		entry_clear(e, fd);
		return NULL;
	}
	return s;

never:
	/* or not yet */
	atomic_compare_exchange_strong(&e->word, &word, other);
not_now:
	return NULL;
}

/*
 * Nothing is ever mapped here: tell it of a socket that could have been. False:
 * it is not connected, so that it is too early to tell.
 */
static bool say_never(int fd, uintptr_t word)
{
	int transport, saved = errno;
	bool known = true;

	if (!get_int(fd, SOL_L5, L5_TRANSPORT, &transport)) {
		known = transport != L5_TRANSPORT_NONE;
		if (known && by_rings(transport))
			not_mapped(fd, word, never, 0);
		else if (known)
			not_mapped(fd, word, L5_STATS_HOW_REASON,
				   reason_of(fd));
	}
	errno = saved;
	return known;
}

/* A descriptor that nothing is known of was read or written once more. */
static struct sock *count_use(int fd, uintptr_t word)
{
	struct fd_entry *e = fd_entry_make(fd);
	unsigned int uses;
	int saved = errno;
	uintptr_t held;
	struct sock *s;

	if (!e)
		return NULL;
	/* a word that has changed is not ours to change */
	if (map_after < 0) {
		if (l5_likely(!stats_wanted) || sandbox_careful() ||
		    say_never(fd, word))
			atomic_compare_exchange_strong(&e->word, &word,
						       FD_OTHER);
		return NULL;
	}
	/* once, and while it may still move each time after twice as many */
	uses = FD_USES(word) - (unsigned int)map_after;
	if ((int)uses < 0 || uses & (uses - 1)) {
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

/*
 * A descriptor of this socket was closed. Was it this one? The kernel's answer
 * is that of one moment, so it is noted with what was said just then; if the
 * page says something else, that moment is over, or it is another socket. Not
 * in a child of vfork(), whose descriptors these are not.
 */
static bool sock_sure(struct fd_entry *e, int fd, const struct sock *s)
{
	uint64_t watch = 0, now = l5_map_watched(s->map);
	int saved = errno, i;
	bool sure = false;

	if (fd_ours()) {
		for (i = 0; i < DOUBT_MAX && !sure; i++) {
			if (l5_map_watch(fd, &watch))
				break;
			now = l5_map_watched(s->map);
			sure = watch == now;
		}
	}
	if (sure)
		atomic_store(&e->watch, watch);
	errno = saved;
	return sure;
}

/* It is another file's number. */
static void sock_stale(struct fd_entry *e, int fd, struct sock *s)
{
	uintptr_t word = (uintptr_t)s;
	struct reg *r;

	if (!fd_ours() || !atomic_compare_exchange_strong(&e->word, &word, 0))
		return;
	r = atomic_exchange(&e->reg, NULL);
	if (r)
		reg_dead(r);
	say("fd %d: closed by a call that the library does not see", fd);
	word_put((uintptr_t)s);
}

/* It was said what is used: the rest of it, where there are special terms. */
static bool on_terms(void)
{
	if (fenced())
		atomic_thread_fence(memory_order_seq_cst);
	return !sandbox_careful();
}

struct sock *sock_find(int fd, uintptr_t word, bool count)
{
	uintptr_t now = (uintptr_t)__builtin_frame_address(0);
	struct user *u = me;
	struct fd_entry *e;
	struct sock *s;
	unsigned int d;

	/* read() and write() are where a thread is cancelled */
	if (count)
		pthread_testcancel();
	if (l5_unlikely(!fd_is_sock(word))) {
		if (!count || word & (FD_OTHER | FD_EP))
			return NULL;
		if (!count_use(fd, word))
			return NULL;
		word = fd_word(fd);
		if (!fd_is_sock(word))
			return NULL;
	}
	if (l5_unlikely(!u)) {
		u = user_claim();
		if (!u)
			return NULL;
	}
	d = atomic_load_explicit(&u->depth, memory_order_relaxed);
	if (l5_unlikely(d)) {
		d = end_left(u, d, now);
		if (d == NEST)
			return NULL;
	}
	u->frame[d] = now;
	u->fd[d] = fd;
	atomic_store_explicit(&u->depth, d + 1, memory_order_relaxed);
	for (;;) {
		s = (struct sock *)word;
		atomic_store_explicit(&u->used[d], s, memory_order_relaxed);
		/* pairs with reap(); and AI, with fd_settle() */
		atomic_signal_fence(memory_order_seq_cst);
		if (l5_unlikely(atomic_load_explicit(&sandbox_terms,
						     memory_order_relaxed)))
			if (!on_terms())
				goto out;
		word = fd_word(fd);
		if (l5_likely((struct sock *)word == s))
			break;
		if (!fd_is_sock(word))
			goto out;
	}
	if (l5_unlikely(!l5_map_mine(s->map))) {
		sock_done();
		fd_ours();
		return NULL;
	}
	e = fd_entry(fd);
	if (l5_unlikely(atomic_load_explicit(&e->watch, memory_order_relaxed) !=
			l5_map_watched(s->map)) &&
	    !sock_sure(e, fd, s)) {
		sock_stale(e, fd, s);
		sock_done();
		return NULL;
	}
	return s;

out:
	sock_done();
	return NULL;
}

void sock_done(void)
{
	struct user *u = me;
	unsigned int d = atomic_load_explicit(&u->depth,
					      memory_order_relaxed) - 1;

	atomic_store_explicit(&u->used[d], NULL, memory_order_release);
	atomic_signal_fence(memory_order_seq_cst);
	atomic_store_explicit(&u->depth, d, memory_order_relaxed);
	sig_open();
}

/* Descriptors that come, go, and change */

/* One whose end came before it was mapped, or found not to be. */
static void say_closed(int fd, uintptr_t word)
{
	int saved = errno, transport;

	/* of a copy that was never used there is nothing to say */
	if ((!(word & FD_MADE) && !FD_USES(word)) || !fd_own_begin())
		return;
	if (map_after < 0)
		say_never(fd, word);
	else if (!get_int(fd, SOL_L5, L5_TRANSPORT, &transport) &&
		 by_rings(transport))
		not_mapped(fd, word, L5_STATS_HOW_CLOSED, FD_USES(word));
	fd_own_end();
	errno = saved;
}

static bool entry_empty(struct fd_entry *e)
{
	return !atomic_load_explicit(&e->word, memory_order_acquire) &&
	       !atomic_load_explicit(&e->reg, memory_order_relaxed);
}

/* Is there more to it than a count? */
static bool entry_matters(struct fd_entry *e)
{
	uintptr_t word = atomic_load_explicit(&e->word, memory_order_relaxed);

	return fd_is_sock(word) || word & FD_EP ||
	       atomic_load_explicit(&e->reg, memory_order_relaxed);
}

/*
 * A count is dropped without much ado. What takes calls of ours stays where
 * they are not made, and is never looked at again.
 */
static void entry_clear(struct fd_entry *e, int fd)
{
	struct reg *r;
	uintptr_t word;
	bool own;

	do {
		word = atomic_load(&e->word);
		own = entry_matters(e);
		if (own && !fd_own_begin())
			return;
		if (atomic_compare_exchange_strong(&e->word, &word, 0))
			break;
		if (own)
			fd_own_end();
	} while (1);
	r = atomic_exchange(&e->reg, NULL);
	if (r)
		reg_dead(r);
	if (fd_is_sock(word))
		wait_for_others((struct sock *)word);
	if (l5_unlikely(stats_wanted)) {
		if ((word & FD_KIND) == FD_COUNTS)
			say_closed(fd, word);
		else if (word == FD_OTHER)
			stats_forget(fd);
	}
	word_put(word);
	if (own)
		fd_own_end();
}

void fd_forget(int fd)
{
	struct fd_entry *e = fd_entry(fd);

	if (!e || entry_empty(e) || (entry_matters(e) && !fd_ours()))
		return;
	entry_clear(e, fd);
}

/* A child of vfork() may have it too: then its parent has to learn again. */
void fd_new(int fd)
{
	struct fd_entry *e = fd_entry(fd);

	if (e && !entry_empty(e))
		entry_clear(e, fd);
}

static void made(int fd, uintptr_t word)
{
	struct fd_entry *e = fd_entry_make(fd);

	if (!e)
		return;
	entry_clear(e, fd);
	/* a sock or a set that a parent of vfork() has there was cleared */
	atomic_store(&e->word, word);
}

/* A count of 0 for a new socket */
static uintptr_t fresh(enum l5_side side)
{
	return (uintptr_t)atomic_load(&fd_forks) << 32 | FD_OF_SIDE(side) |
	       FD_MADE | FD_COUNTS;
}

void fd_made(int fd, bool other)
{
	made(fd, other ? FD_OTHER : fresh(L5_SIDE_CONNECTED));
}

void fd_accepted(int fd)
{
	made(fd, fresh(L5_SIDE_ACCEPTED));
}

void fd_leave(int fd)
{
	struct fd_entry *e = fd_entry(fd);
	uintptr_t word = e ? atomic_load(&e->word) : 0;

	if ((word & FD_KIND) == FD_COUNTS && fd_ours())
		atomic_compare_exchange_strong(&e->word, &word, FD_OTHER);
}

void fd_shared(int fd)
{
	struct fd_entry *e = fd_entry(fd);
	struct sock *s = sock_look(fd);
	uintptr_t word;

	if (s) {
		atomic_store(&s->forks, UINT32_MAX);
		sock_done();
	}
	if (fd_ep(fd))
		ep_shared(fd_ep(fd));
	word = e ? atomic_load(&e->word) : 0;
	if ((word & FD_KIND) == FD_COUNTS)
		atomic_compare_exchange_strong(&e->word, &word,
					       word & ~FD_MADE);
}

void fd_forget_range(unsigned int first, unsigned int last)
{
	bool ours = fd_ours();
	unsigned int fd;

	if (!ours)
		return;
	if (last >= FD_CHUNK * FD_CHUNKS)
		last = FD_CHUNK * FD_CHUNKS - 1;
	for (fd = first; fd <= last; fd++) {
		struct fd_entry *e = fd_entry(fd);

		if (!e)
			fd |= FD_CHUNK - 1;
		else if (!entry_empty(e))
			entry_clear(e, fd);
	}
}

/* One more word refers to it, unless it is already on its way out. */
static bool sock_get(struct sock *s)
{
	unsigned int n = atomic_load(&s->refs);

	while (n)
		if (atomic_compare_exchange_weak(&s->refs, &n, n + 1))
			return true;
	return false;
}

/* It is not known yet whether it is to be mapped, but which end it is. */
static void copy_side(int from, int to)
{
	uintptr_t word = fd_word(from), none = 0;
	struct fd_entry *e;

	if ((word & FD_KIND) != FD_COUNTS || !(word & FD_SIDES) || !fd_ours())
		return;
	e = fd_entry_make(to);
	if (e)
		atomic_compare_exchange_strong(&e->word, &none,
					       (word & FD_SIDES) | FD_COUNTS);
}

/*
 * The copy is what the other is now known to have been when it was made: if
 * nothing was closed up to now.
 */
void fd_copy(int from, int to)
{
	struct fd_entry *e = fd_entry(from);
	uint64_t watch = e ? atomic_load(&e->watch) : 0;
	struct sock *s;

	fd_new(to);
	if (fd_ep(from))
		ep_shared(fd_ep(from));
	s = sock_look(from);
	if (!s) {
		copy_side(from, to);
		return;
	}
	e = fd_ours() ? fd_entry_make(to) : NULL;
	if (e && l5_map_watched(s->map) == watch && sock_get(s)) {
		atomic_store(&e->watch, watch);
		word_put(atomic_exchange(&e->word, (uintptr_t)s));
	}
	sock_done();
}

void fd_set_ep(int fd, void *ep)
{
	struct fd_entry *e = fd_entry_make(fd);

	if (e)
		word_put(atomic_exchange(&e->word, (uintptr_t)ep + FD_EP));
}

void fd_flag(int fd, unsigned int flag, bool on)
{
	struct sock *s = sock_look(fd);

	if (!s)
		return;
	if (on)
		atomic_fetch_or(&s->flags, flag);
	else
		atomic_fetch_and(&s->flags, ~flag);
	sock_done();
}

/* Tables of descriptors */

void fd_doubt(void)
{
	struct fd_entry *e;
	int i, j;

	for (i = 0; i < FD_CHUNKS; i++) {
		e = atomic_load(&fd_chunks[i]);
		for (j = 0; e && j < FD_CHUNK; j++, e++)
			/* what no socket says */
			atomic_store(&e->watch, 0);
	}
}

void fd_give_up(void)
{
	int saved = errno, i, j;
	struct fd_entry *e;
	uintptr_t word;

	if (!fd_ours())
		return;
	never = L5_STATS_HOW_APART;
	map_after = -1;
	/* those who are about to enter a word see that, or are seen here */
	for (i = 0; i < FD_CHUNKS; i++) {
		e = atomic_load(&fd_chunks[i]);
		for (j = 0; e && j < FD_CHUNK; j++) {
			word = atomic_load(&e[j].word);
			if (fd_is_sock(word))
				entry_clear(&e[j], i * FD_CHUNK + j);
			else if ((word & FD_KIND) == FD_EP)
				ep_shared((struct ep *)(word - FD_EP));
		}
	}
	errno = saved;
}

/* Processes */

/*
 * In a child of fork(): this thread is the only one, and whatever it was in the
 * middle of in the parent is over. Words are cleared before objects are put, so
 * that a second thread, if the child was quick to make one, finds nothing.
 */
static void forget_parent(void)
{
	struct fd_entry *e;
	struct sock *s;
	struct user *u;
	uintptr_t word;
	int i, j;

	stats_forked();
	atomic_flag_clear(&pool_busy);
	atomic_flag_clear(&reaping);
	atomic_store(&claiming, 0);
	for (u = atomic_load(&users); u; u = u->next) {
		for (i = 0; i < NEST; i++)
			atomic_store(&u->used[i], NULL);
		atomic_store(&u->depth, 0);
		u->open = 0;
		if (u != me)
			atomic_store(&u->own, 0);
		atomic_store(&u->tid, u == me ? (int)syscall(SYS_gettid) : 0);
	}
	ep_forget_parent();
	for (i = 0; i < FD_CHUNKS; i++) {
		e = atomic_load(&fd_chunks[i]);
		for (j = 0; e && j < FD_CHUNK; j++, e++) {
			atomic_store(&e->reg, NULL);
			word = atomic_load(&e->word);
			/* of the sets it is known that they are shared */
			if (!fd_is_sock(word))
				continue;
			s = (struct sock *)word;
			atomic_store(&e->word, FD_OF_SIDE(s->side) | FD_COUNTS);
			sock_put(s);
		}
	}
}

static bool ours(void)
{
	int pid = syscall(SYS_getpid);

	if (l5_unlikely(fd_forked())) {
		/* a second thread of the child, or a handler, does without */
		if (atomic_flag_test_and_set(&forgetting))
			return false;
		if (fd_forked()) {
			if (!fenced() && syscall(SYS_membarrier, REGISTER, 0,
						 0))
				atomic_fetch_or(&sandbox_terms,
						SANDBOX_FENCED);
			forget_parent();
			atomic_store(life, pid);
		}
		atomic_flag_clear(&forgetting);
	}
	return atomic_load_explicit(life, memory_order_relaxed) == pid;
}

bool fd_ours(void)
{
	int saved = errno;
	bool is;

	/* until it is tried out there is nothing that could be */
	if (sandbox_untried() || !fd_own_begin())
		return false;
	is = ours();
	fd_own_end();
	errno = saved;
	return is;
}

/* From now on a child may change what the descriptors share. */
static void before_fork(void)
{
	atomic_fetch_add(&fd_forks, 1);
	ep_before_fork();
}

static void in_child(void)
{
	/* should another thread have been at it in the parent */
	atomic_flag_clear(&forgetting);
	if (sandbox_untried())
		return;
	atomic_store(life, 0);
	sig_in_child();
	fd_ours();
}

void fd_live(void)
{
	int pid = syscall(SYS_getpid), saved = errno;
	atomic_int *word = more(sysconf(_SC_PAGESIZE));
	struct rlimit as;

	sig_start();
	if (!word || madvise(word, sysconf(_SC_PAGESIZE), MADV_WIPEONFORK)) {
		map_after = -1;
		return;
	}
	atomic_store(word, pid);
	life = word;
	fd_life = word;
	/* a quarter of a limit on addresses; the rest is the program's */
	if (maps_auto && !syscall(SYS_prlimit64, 0, RLIMIT_AS, NULL, &as) &&
	    as.rlim_cur / (4 * MAP_BYTES) < maps_max)
		maps_max = as.rlim_cur / (4 * MAP_BYTES);
	if (!syscall(SYS_membarrier, REGISTER, 0, 0))
		atomic_fetch_and(&sandbox_terms, ~SANDBOX_FENCED);
	errno = saved;
}

void fd_start(int after, int maps)
{
	pthread_atfork(before_fork, NULL, in_child);
	map_after = after;
	if (after < 0)
		never = policy_how();
	if (maps >= 0)
		maps_max = maps;
	maps_auto = maps < 0;
	if (!sandbox_untried())
		fd_live();
}
