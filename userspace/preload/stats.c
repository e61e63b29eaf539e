// SPDX-License-Identifier: GPL-2.0
/* Counting for l5run --stats: see stats.h, and stats_file.h for the memory. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "fdtab.h"
#include "say.h"
#include "stats.h"

bool stats_wanted;

static struct l5_stats_file *file;
/* This process's part, once it has one. */
static struct l5_stats_proc *_Atomic own;
/* Was this process counted as one without a part? */
static atomic_int lost;
/* Where sockets count if only -v was asked for, which goes by the calls. */
static struct l5_stats_sock scratch;
/* The kinds of calls that -v has named, by bit. */
static atomic_uint said;

static __thread struct l5_stats_way *polls
	__attribute__((tls_model("initial-exec")));
/* The part of the process that @polls is in. */
static __thread struct l5_stats_proc *polls_of
	__attribute__((tls_model("initial-exec")));

/* The memory */

/* A number and what comes after it, or NULL. */
static const char *number(const char *s, char end, int *n)
{
	*n = 0;
	if (*s < '0' || *s > '9')
		return NULL;
	for (; *s >= '0' && *s <= '9'; s++) {
		if (*n > 100000000)
			return NULL;
		*n = *n * 10 + (*s - '0');
	}
	return *s == end ? s + !!end : NULL;
}

static char *put_number(char *at, unsigned int n, unsigned int base)
{
	char digits[16];
	int i = 0;

	do
		digits[i++] = "0123456789abcdef"[n % base];
	while (n /= base);
	while (i)
		*at++ = digits[--i];
	return at;
}

/* Is the file what l5run makes? Else its size may change under our hands. */
static bool good(int fd)
{
	const int size = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	long seals = syscall(SYS_fcntl, fd, F_GET_SEALS);
	struct stat st;

	return seals >= 0 && (seals & size) == size &&
	       !syscall(SYS_fstat, fd, &st) &&
	       st.st_size == sizeof(struct l5_stats_file);
}

static struct l5_stats_file *find(const char *s)
{
	struct l5_stats_file *f = NULL;
	char path[48];
	int pid, n, fd;
	char *at;

	s = number(s, ' ', &pid);
	if (!s || !number(s, '\0', &n))
		return NULL;
	at = put_number(stpcpy(path, "/proc/"), pid, 10);
	at = put_number(stpcpy(at, "/fd/"), n, 10);
	*at = '\0';
	fd = syscall(SYS_openat, AT_FDCWD, path,
		     O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		return NULL;
	if (good(fd)) {
		f = mmap(NULL, sizeof(*f), PROT_READ | PROT_WRITE, MAP_SHARED,
			 fd, 0);
		if (f == MAP_FAILED)
			f = NULL;
	}
	syscall(SYS_close, fd);
	if (f && l5_load(&f->magic) != L5_STATS_MAGIC) {
		munmap(f, sizeof(*f));
		f = NULL;
	}
	return f;
}

void stats_start(void)
{
	const char *s = getenv(L5_ENV_STATS);
	int saved = errno;

	/* another user's environment does not say where to write */
	if (s && !getauxval(AT_SECURE)) {
		file = find(s);
		if (!file)
			say("nothing is counted: --stats is out of reach");
	}
	stats_wanted = file || say_wanted;
	errno = saved;
}

void stats_forked(void)
{
	atomic_store(&own, NULL);
	atomic_store(&lost, 0);
	atomic_store(&said, 0);
}

static bool change(uint32_t *state, uint32_t from, uint32_t to)
{
	return __atomic_compare_exchange_n(state, &from, to, false,
					   __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

static void copy_text(char *to, const char *from, size_t size)
{
	size_t len = strnlen(from, size - 1);

	memcpy(to, from, len);
	to[len] = '\0';
}

/* Find this process's part, NULL if there is none. */
static struct l5_stats_proc *part(void)
{
	struct l5_stats_proc *p = atomic_load(&own), *old = NULL;
	int i;

	if (p || !file || atomic_load(&lost))
		return p;
	for (i = 0; i < L5_STATS_PROCS; i++) {
		p = (struct l5_stats_proc *)file->part[i];
		if (!l5_load(&p->state) &&
		    change(&p->state, L5_STATS_FREE, L5_STATS_BUSY))
			break;
	}
	if (i == L5_STATS_PROCS) {
		if (!atomic_exchange(&lost, 1))
			__atomic_fetch_add(&file->lost, 1, __ATOMIC_RELAXED);
		return NULL;
	}
	p->pid = syscall(SYS_getpid);
	copy_text(p->name, program_invocation_short_name, sizeof(p->name));
	if (!atomic_compare_exchange_strong(&own, &old, p)) {
		/* another thread was first */
		/* AZ, pairs with the exchange in change() */
		l5_store_release(&p->state, L5_STATS_FREE);
		return old;
	}
	/* AZ, pairs with BA in the program that shows them */
	l5_store_release(&p->state, L5_STATS_OPEN);
	return p;
}

/* Sockets */

static void add(uint64_t *to, const uint64_t *n)
{
	__atomic_fetch_add(to, l5_load(n), __ATOMIC_RELAXED);
}

static void add_way(struct l5_stats_way *to, const struct l5_stats_way *w)
{
	int i;

	add(&to->saved, &w->saved);
	add(&to->paid, &w->paid);
	add(&to->vain, &w->vain);
	for (i = 0; i < L5_STATS_CALLS_MAX; i++)
		add(&to->kernel[i], &w->kernel[i]);
}

static void count_unmapped(struct l5_stats_proc *p, uint32_t how, int32_t arg)
{
	__atomic_fetch_add(&p->unmapped[l5_stats_why(how, arg)], 1,
			   __ATOMIC_RELAXED);
}

static void wipe(struct l5_stats_sock *s)
{
	memset((char *)s + sizeof(s->state), 0, sizeof(*s) - sizeof(s->state));
}

/* The socket's place is needed for another: only the sum keeps its counts. */
static void fold(struct l5_stats_proc *p, struct l5_stats_sock *s)
{
	struct l5_stats_sock *sum = &p->sock[L5_STATS_REST_CLOSED];
	int i;

	add(&sum->early, &s->early);
	if (s->how != L5_STATS_HOW_MAPPED) {
		count_unmapped(p, s->how, s->arg);
	} else {
		__atomic_fetch_add(&sum->n, 1, __ATOMIC_RELAXED);
		for (i = 0; i < L5_STATS_DIRS; i++)
			add_way(&sum->way[i], &s->way[i]);
	}
	wipe(s);
}

/* A place for one more, in state BUSY, or NULL. */
static struct l5_stats_sock *place(struct l5_stats_proc *p)
{
	struct l5_stats_sock *s;
	uint32_t i, at;

	for (i = L5_STATS_FIRST; i < L5_STATS_SOCKS; i++) {
		s = &p->sock[i];
		if (!l5_load(&s->state) &&
		    change(&s->state, L5_STATS_FREE, L5_STATS_BUSY))
			return s;
	}
	at = l5_load(&p->turn);
	for (i = 0; i < L5_STATS_SOCKS - L5_STATS_FIRST; i++, at++) {
		s = &p->sock[L5_STATS_FIRST +
			     at % (L5_STATS_SOCKS - L5_STATS_FIRST)];
		if (change(&s->state, L5_STATS_CLOSED, L5_STATS_BUSY)) {
			l5_store(&p->turn, at + 1);
			fold(p, s);
			return s;
		}
	}
	return NULL;
}

static char *put_port(char *at, in_port_t port)
{
	*at++ = ':';
	return put_number(at, ntohs(port), 10);
}

static char *put_inet(char *at, const uint8_t *a)
{
	int i;

	for (i = 0; i < 4; i++) {
		if (i)
			*at++ = '.';
		at = put_number(at, a[i], 10);
	}
	return at;
}

static char *put_inet6(char *at, const uint8_t *a)
{
	int i, n, best = 8, most = 1;

	for (i = 0; i < 8; i++) {
		for (n = 0; i + n < 8 && !a[2 * (i + n)] &&
		     !a[2 * (i + n) + 1]; n++)
			;
		if (n > most) {
			most = n;
			best = i;
		}
	}
	*at++ = '[';
	for (i = 0; i < 8; i++) {
		if (i == best) {
			*at++ = ':';
			*at++ = ':';
			i += most - 1;
			continue;
		}
		if (i && i != best + most)
			*at++ = ':';
		at = put_number(at, a[2 * i] << 8 | a[2 * i + 1], 16);
	}
	*at++ = ']';
	return at;
}

const char *stats_peer(int fd, enum l5_side side, char *text)
{
	static const char *const word[] = {
		[L5_SIDE_UNKNOWN] = " with ",
		[L5_SIDE_CONNECTED] = " to ",
		[L5_SIDE_ACCEPTED] = " from ",
	};
	union {
		struct sockaddr sa;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
		struct sockaddr_un un;
	} a;
	socklen_t len = sizeof(a);
	int saved = errno, domain = AF_UNSPEC;
	socklen_t dlen = sizeof(domain);
	char *at = text;

	*text = '\0';
	memset(&a, 0, sizeof(a));
	if (syscall(SYS_getpeername, fd, &a, &len))
		goto out;
	syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_DOMAIN, &domain, &dlen);
	/* what is accepted at an AF_UNIX socket has a peer without a name */
	if (a.sa.sa_family == AF_UNIX && len <= sizeof(sa_family_t)) {
		copy_text(text, " by AF_UNIX", L5_STATS_PEER);
		goto out;
	}
	at = stpcpy(text, word[side]);
	if (a.sa.sa_family == AF_UNIX) {
		if (!a.un.sun_path[0])
			*at++ = '@';
		copy_text(at, &a.un.sun_path[!a.un.sun_path[0]],
			  text + L5_STATS_PEER - at);
		goto out;
	}
	/* AF_L5's own number stands for the bootstrap's: the length tells */
	if (len >= sizeof(a.in6) && a.sa.sa_family != AF_INET) {
		if (IN6_IS_ADDR_V4MAPPED(&a.in6.sin6_addr))
			at = put_inet(at, &a.in6.sin6_addr.s6_addr[12]);
		else
			at = put_inet6(at, a.in6.sin6_addr.s6_addr);
		at = put_port(at, a.in6.sin6_port);
	} else if (len >= sizeof(a.in)) {
		at = put_inet(at, (uint8_t *)&a.in.sin_addr);
		at = put_port(at, a.in.sin_port);
	} else {
		at = text;
	}
	*at = '\0';
out:
	errno = saved;
	return text;
}

static void fill(struct l5_stats_sock *s, int fd, enum l5_side side,
		 enum l5_stats_how how, int arg, unsigned int early)
{
	s->fd = fd;
	s->how = how;
	s->arg = arg;
	s->early = early;
	stats_peer(fd, side, s->peer);
}

struct l5_stats_sock *stats_mapped(int fd, enum l5_side side, int transport,
				   unsigned int early)
{
	struct l5_stats_proc *p = part();
	struct l5_stats_sock *s, *rest;

	if (!p)
		return stats_wanted ? &scratch : NULL;
	s = place(p);
	if (s) {
		fill(s, fd, side, L5_STATS_HOW_MAPPED, 0, early);
		s->transport = transport;
		/* AZ, pairs with BA in the program that shows them */
		l5_store_release(&s->state, L5_STATS_OPEN);
		return s;
	}
	rest = &p->sock[L5_STATS_REST_OPEN];
	__atomic_fetch_add(&rest->n, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&rest->early, early, __ATOMIC_RELAXED);
	return rest;
}

void stats_unmapped(int fd, enum l5_side side, enum l5_stats_how how, int arg,
		    unsigned int early)
{
	struct l5_stats_proc *p = part();
	struct l5_stats_sock *s = p ? place(p) : NULL;

	if (s) {
		fill(s, fd, side, how, arg, early);
		/* AZ, pairs with BA in the program that shows them */
		l5_store_release(&s->state, how == L5_STATS_HOW_CLOSED ?
					    L5_STATS_CLOSED : L5_STATS_OPEN);
	} else if (p) {
		count_unmapped(p, how, arg);
		__atomic_fetch_add(&p->sock[L5_STATS_REST_CLOSED].early, early,
				   __ATOMIC_RELAXED);
	}
}

void stats_closed(struct l5_stats_sock *s)
{
	/* what stands for many stays */
	if (s)
		change(&s->state, L5_STATS_OPEN, L5_STATS_CLOSED);
}

void stats_cancel(struct l5_stats_sock *s)
{
	if (!s || !change(&s->state, L5_STATS_OPEN, L5_STATS_BUSY))
		return;
	wipe(s);
	/* AZ, pairs with the exchange in change() */
	l5_store_release(&s->state, L5_STATS_FREE);
}

void stats_forget(int fd)
{
	struct l5_stats_proc *p = atomic_load(&own);
	struct l5_stats_sock *s;
	int i;

	for (i = L5_STATS_FIRST; p && i < L5_STATS_SOCKS; i++) {
		s = &p->sock[i];
		if (l5_load(&s->state) == L5_STATS_OPEN &&
		    s->how != L5_STATS_HOW_MAPPED && s->fd == fd)
			stats_closed(s);
	}
}

/* Calls */

static void once_more(uint64_t *n)
{
	l5_store(n, l5_load(n) + 1);
}

static void count_way(struct l5_stats_way *w, enum l5_stats_call call)
{
	once_more(call == L5_STATS_SAVED ? &w->saved : &w->kernel[call]);
}

static void say_call(int fd, enum l5_stats_call call)
{
	static const struct {
		const char *text;
		bool said;
	} kind[L5_STATS_CALLS_MAX] = {
#define CALL_TEXT(code, text, said)	[L5_STATS_##code] = { text, said },
		L5_STATS_CALLS(CALL_TEXT)
#undef CALL_TEXT
	};

	if (call == L5_STATS_SAVED || !kind[call].said ||
	    atomic_load_explicit(&said, memory_order_relaxed) & 1u << call ||
	    atomic_fetch_or(&said, 1u << call) & 1u << call)
		return;
	say("fd %d: calls like this go to the kernel: %s", fd,
	    kind[call].text);
}

void stats_count(struct l5_stats_sock *s, int fd, enum l5_stats_dir dir,
		 enum l5_stats_call call)
{
	if (s != &scratch)
		count_way(&s->way[dir], call);
	if (say_wanted)
		say_call(fd, call);
}

void stats_count_look(struct l5_stats_sock *s, enum l5_stats_dir dir,
		      bool paid)
{
	if (s != &scratch)
		once_more(paid ? &s->way[dir].paid : &s->way[dir].vain);
}

void stats_count_left(int fd, enum l5_stats_dir dir, enum l5_stats_call call)
{
	struct sock *s = sock_look(fd);

	if (!s)
		return;
	stats_call(s->stat, fd, dir, call);
	sock_done();
}

/* Several threads may wait at once, so each has a place. */
static struct l5_stats_way *my_polls(void)
{
	struct l5_stats_proc *p = part();

	if (!p)
		return NULL;
	if (l5_unlikely(polls_of != p)) {
		/* by where its stack is, which is a few pages more each */
		polls = &p->poll[((uintptr_t)&polls >> 12) % L5_STATS_POLLS];
		polls_of = p;
	}
	return polls;
}

void stats_count_poll(enum l5_stats_call call)
{
	struct l5_stats_way *w = my_polls();

	if (w)
		count_way(w, call);
}

void stats_count_poll_look(bool paid)
{
	struct l5_stats_way *w = my_polls();

	if (w)
		once_more(paid ? &w->paid : &w->vain);
}
