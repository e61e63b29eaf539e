// SPDX-License-Identifier: GPL-2.0
/*
 * Mapped rings: see map.h.
 *
 * This is linked into programs that know nothing of it, and called in signal
 * handlers and in children of vfork(). So it uses bare system calls, since
 * libc's may be interposed, no malloc(), and leaves errno as it was.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "copy.h"
#include "map.h"

/* The most that waiting without sleep is ever worth, ns: KVM's figure. */
#define L5_WIN_MAX	200000u
/*
 * The first looks, before the first yield, take about this long, ns. Emulated,
 * a round trip alone is 2000.
 */
#define L5_POLLS_NS	10000u
#define L5_POLLS_MAX	4096u
/*
 * A round of looks or a yield takes longer than this, ns, on any machine: so
 * that counting ends a wait only where the clock does not.
 */
#define L5_ROUND_NS	32u
/* Try again every so often what did not pay. A power of two. */
#define L5_TURNS	16u
/* Looks at a lock word that is taken, before anything else. */
#define L5_TRIES	64
/* Places that another thread takes first, before it is left for later. */
#define L5_PLACES	8

__thread struct l5_held_all l5_held
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

__thread uint64_t l5_signals
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Before the first map nothing is anybody's. */
static const uint32_t l5_map_nolife;
const uint32_t *l5_map_life = &l5_map_nolife;

uint32_t l5_map_polls;

static struct {
	int spin_us;
	int yields;
	uint32_t life;		/* the last given */
	uint32_t maps;		/* made so far */
	int ready;
	int alone;		/* on the one CPU that we may use */
	int lock;
} l5_map_env = { .spin_us = -1, .yields = -1 };

/* What the kernel does for a mapped end */

void (*l5_map_refused)(void);
uint32_t l5_map_hush;

/* Is that an answer of the module's, or of who has the descriptor now? */
static bool l5_map_answer(int err)
{
	return err == ENOTCONN || err == EOPNOTSUPP || err == EAGAIN ||
	       err == EBADF || err == ENOTTY;
}

/*
 * A filter of system calls says EPERM, or whatever it likes, and whoever the
 * call was for would sleep on. A send of no bytes rings, too, and a filter that
 * lets a socket be used allows one. By write() only as long as it can be sent,
 * since it knows no MSG_NOSIGNAL. Should all be refused the kernel makes up for
 * it when this end next waits there. A filter stays, so ioctl() is not asked
 * again.
 */
static void l5_map_call(struct l5_map *m, int fd, unsigned long cmd,
			unsigned long arg)
{
	static int refused;
	int saved = errno;

	if (l5_likely(!l5_load(&refused))) {
		if (syscall(SYS_ioctl, fd, cmd, arg) >= 0 ||
		    l5_map_answer(errno))
			goto out;
		l5_store(&refused, 1);
		if (l5_map_refused)
			l5_map_refused();
	}
	if (syscall(SYS_sendto, fd, "", 0,
		    L5_MSG_BELL | MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0) < 0 &&
	    !l5_map_answer(errno) &&
	    !(l5_load(&m->state->flags) & L5_MAP_TX_STOP))
		syscall(SYS_write, fd, "", 0);
out:
	errno = saved;
}

static void l5_kernel_bell(struct l5_map *m, int fd, unsigned int bells)
{
	l5_map_call(m, fd, L5_IOC_DOORBELL, bells);
}

static void l5_kernel_lock_wake(struct l5_map *m, int fd, unsigned int which)
{
	l5_map_call(m, fd, L5_IOC_UNLOCK, which);
}

static void l5_kernel_broken(struct l5_map *m, int fd)
{
	int saved = errno;

	(void)m;
	syscall(SYS_shutdown, fd, SHUT_RDWR);
	errno = saved;
}

static const struct l5_map_ops l5_kernel_ops = {
	.bell = l5_kernel_bell,
	.lock_wake = l5_kernel_lock_wake,
	.broken = l5_kernel_broken,
};

int l5_map_lock_nap(int fd, unsigned int which)
{
	return syscall(SYS_ioctl, fd, L5_IOC_LOCK, which);
}

/* Making and ending them */

static int l5_env_int(const char *name)
{
	const char *s = secure_getenv(name);
	char *end;
	long v;

	if (!s || !*s)
		return -1;
	v = strtol(s, &end, 10);
	return *end || v < 0 ? -1 : v > 1000000 ? 1000000 : (int)v;
}

/*
 * How many looks are L5_POLLS_NS: a pause takes from ten cycles to thousands,
 * in a virtual machine. With a single CPU none is worth it: while we look
 * nobody else can do anything. If there are others that we may not use, the
 * peer may be on ours or not: then begin without, and find out (L5_TURNS).
 */
static void l5_map_calibrate(void)
{
	cpu_set_t cpus;
	uint64_t t;
	int i;

	l5_clock_find();
	l5_map_env.spin_us = l5_env_int("L5_SPIN_US");
	l5_map_env.yields = l5_env_int("L5_YIELDS");
	CPU_ZERO(&cpus);
	if (!sched_getaffinity(0, sizeof(cpus), &cpus))
		l5_map_env.alone = CPU_COUNT(&cpus) == 1;
	if (l5_map_env.alone && sysconf(_SC_NPROCESSORS_ONLN) == 1)
		return;
	t = l5_map_now();
	for (i = 0; i < 128; i++)
		l5_pause();
	t = l5_since(l5_map_now(), t) / 128 + 1;
	l5_map_polls = L5_POLLS_NS / t;
	if (l5_map_polls < 4)
		l5_map_polls = 4;
	if (l5_map_polls > L5_POLLS_MAX)
		l5_map_polls = L5_POLLS_MAX;
}

/* One at a time; a child of fork() has it taken for ever if a thread had. */
static void l5_map_env_lock(void)
{
	int me = syscall(SYS_getpid), old;

	for (;;) {
		old = l5_load(&l5_map_env.lock);
		if (old != me && l5_cmpxchg(&l5_map_env.lock, old, me))
			return;
		syscall(SYS_sched_yield);
	}
}

int l5_map_live(void)
{
	long page = sysconf(_SC_PAGESIZE);
	uint32_t *word;

	/* a page of its own, also the parent's that is still there */
	if (l5_likely(l5_load(l5_map_life)))
		return 0;
	l5_map_env_lock();
	if (!l5_map_env.ready) {
		word = mmap(NULL, page, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (word == MAP_FAILED ||
		    madvise(word, page, MADV_WIPEONFORK)) {
			if (word != MAP_FAILED)
				munmap(word, page);
			l5_store_release(&l5_map_env.lock, 0);
			return -1;
		}
		l5_map_calibrate();
		l5_map_env.ready = 1;
		__atomic_store_n(&l5_map_life, word, __ATOMIC_RELEASE);
	}
	word = (uint32_t *)(uintptr_t)l5_map_life;
	if (!l5_load(word))
		l5_store(word, ++l5_map_env.life);
	l5_store_release(&l5_map_env.lock, 0);
	return 0;
}

void l5_adapt_init(struct l5_adapt *a)
{
	memset(a, 0, sizeof(*a));
	a->polls = l5_map_env.alone ? 0 : l5_map_polls;
	l5_adapt_set(a, l5_map_env.spin_us, l5_map_env.yields);
}

void l5_adapt_set(struct l5_adapt *a, int spin_us, int yields)
{
	l5_store(&a->spin_us, spin_us);
	l5_store(&a->yields, yields);
	/* told to wait, it does so from the start; else it learns that */
	l5_store(&a->win, spin_us > 0 || (!spin_us && yields > 0));
}

static void l5_map_init(struct l5_map *m, const struct l5_map_mem *mem,
			const struct l5_map_ops *ops, void *priv)
{
	m->own = mem->own;
	m->peer = mem->peer;
	m->state = mem->state;
	m->tx = mem->tx;
	m->rx = mem->rx;
	m->tx_size = mem->tx_size;
	m->rx_size = mem->rx_size;
	m->prod.size = mem->tx_size;
	m->cons.size = mem->rx_size;
	m->id = mem->id;
	m->life = l5_load(l5_map_life);
	/* 2 numbers each, never 0 */
	m->key = 2ull * __atomic_add_fetch(&l5_map_env.maps, 1,
					   __ATOMIC_RELAXED);
	m->ops = ops;
	m->priv = priv;
	m->ref = 1;
	l5_adapt_init(&m->tx_adapt);
	l5_adapt_init(&m->rx_adapt);
}

static bool l5_map_size_ok(uint32_t size)
{
	return size >= L5_RING_MIN && size <= L5_RING_MAX &&
	       !(size & (size - 1));
}

int l5_map_ask(int fd, struct l5_map_info *info, struct l5_area *area,
	       uint32_t n)
{
	memset(info, 0, sizeof(*info));
	/* tools that watch memory do not see the kernel write behind info */
	if (n)
		memset(area, 0, n * sizeof(*area));
	info->size = sizeof(*info);
	info->version_min = L5_MAP_VERSION;
	info->version_max = L5_MAP_VERSION;
	info->areas = (uintptr_t)area;
	info->nareas = n;
	if (syscall(SYS_ioctl, fd, L5_IOC_MAP_INFO, info) < 0)
		return -1;
	if (info->version != L5_MAP_VERSION) {
		errno = EPROTONOSUPPORT;
		return -1;
	}
	if (info->nareas > n)
		info->nareas = n;
	return 0;
}

int l5_map_watch(int fd, uint64_t *watch)
{
	struct l5_watch w = { .size = sizeof(w), .fd = fd };

	if (syscall(SYS_ioctl, fd, L5_IOC_WATCH, &w) < 0)
		return -1;
	*watch = w.watch;
	return 0;
}

/* More than there are; what does not fit is not known here, either. */
enum { L5_MAP_AREAS = 32 };

/* What we need of them, in the order of the place they are mapped to */
static const struct {
	uint32_t kind;
	uint32_t access;
} l5_map_needs[] = {
	{ L5_AREA_CTRL, L5_AREA_READ | L5_AREA_WRITE },
	{ L5_AREA_PEER, L5_AREA_READ },
	{ L5_AREA_STATE, L5_AREA_READ },
	{ L5_AREA_TX, L5_AREA_READ | L5_AREA_WRITE | L5_AREA_TWICE },
	{ L5_AREA_RX, L5_AREA_READ | L5_AREA_TWICE },
};

enum { L5_MAP_NEEDS = sizeof(l5_map_needs) / sizeof(*l5_map_needs) };

/* How long the area with our need number @i must be, at least; exactly. */
static bool l5_map_length_ok(const struct l5_map_info *info, int i,
			     uint64_t length)
{
	switch (l5_map_needs[i].kind) {
	case L5_AREA_TX:
		return length == info->tx_size;
	case L5_AREA_RX:
		return length == info->rx_size;
	case L5_AREA_STATE:
		return length >= sizeof(struct l5_map_state) &&
		       length <= L5_RING_MAX;
	default:
		return length >= sizeof(struct l5_ctrl) &&
		       length <= L5_RING_MAX;
	}
}

/* The area for a need, and how long its mapping is: 0 if there is none. */
static size_t l5_map_need(const struct l5_map_info *info,
			  const struct l5_area *area, int need,
			  const struct l5_area **a)
{
	uint32_t access = l5_map_needs[need].access, i;

	for (i = 0; i < info->nareas; i++) {
		*a = &area[i];
		if ((*a)->kind != l5_map_needs[need].kind || (*a)->index)
			continue;
		if (((*a)->access & access) != access ||
		    !l5_map_length_ok(info, need, (*a)->length))
			return 0;
		return (*a)->length << !!(access & L5_AREA_TWICE);
	}
	return 0;
}

/*
 * One area to where nothing is. MAP_FIXED would clear the place and then ask
 * the file, and a file that refuses leaves a hole: whatever is there next is
 * another thread's, and nobody can tell. So nothing is ever replaced.
 */
static void *l5_map_area(uint8_t *at, size_t len, int prot, int fd,
			 uint64_t offset)
{
	void *p = mmap64(at, len, prot, MAP_SHARED | MAP_FIXED_NOREPLACE, fd,
			 offset);

	/* an emulated kernel may not know the flag, and only take a hint */
	if (p != MAP_FAILED && p != at) {
		munmap(p, len);
		errno = EEXIST;
		p = MAP_FAILED;
	}
	return p;
}

/* All of them from @at on, or none. */
static bool l5_map_areas(int fd, const struct l5_map_info *info,
			 const struct l5_area *area, uint8_t *at,
			 void *place[L5_MAP_NEEDS])
{
	const struct l5_area *a;
	uint8_t *start = at;
	size_t len;
	int i, err, prot;

	for (i = 0; i < L5_MAP_NEEDS; i++) {
		prot = PROT_READ;
		if (l5_map_needs[i].access & L5_AREA_WRITE)
			prot |= PROT_WRITE;
		len = l5_map_need(info, area, i, &a);
		place[i] = l5_map_area(at, len, prot, fd, a->offset);
		if (place[i] == MAP_FAILED)
			goto fail;
		at += len;
	}
	return true;

fail:
	err = errno;
	if (at != start)
		munmap(start, at - start);
	errno = err;
	return false;
}

/*
 * A page of our own, and behind it the areas, @len bytes in all: side by side,
 * since a process has only so many mappings (vm.max_map_count), and holes are
 * some, too. A place that is free is given back for the areas to be put there,
 * and another thread may be faster: then another place.
 */
static uint8_t *l5_map_lay(int fd, const struct l5_map_info *info,
			   const struct l5_area *area, size_t page, size_t len,
			   void *place[L5_MAP_NEEDS])
{
	uint8_t *base;
	int i, err;

	for (i = 0; i < L5_PLACES; i++) {
		base = mmap(NULL, len, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
			    0);
		if (base == MAP_FAILED)
			return NULL;
		munmap(base + page, len - page);
		if (l5_map_areas(fd, info, area, base + page, place))
			return base;
		err = errno;
		munmap(base, page);
		errno = err;
		if (err != EEXIST)
			return NULL;
	}
	errno = EAGAIN;
	return NULL;
}

/* Is what the kernel says there what it said before, and all that we read? */
static bool l5_map_state_ok(const struct l5_map_mem *mem)
{
	const struct l5_map_state *s = mem->state;

	return l5_load(&s->size) >= sizeof(*s) &&
	       l5_load(&s->version) == L5_MAP_VERSION &&
	       l5_load(&s->tx_size) == mem->tx_size &&
	       l5_load(&s->rx_size) == mem->rx_size &&
	       !l5_load(&s->tx_ring) && !l5_load(&s->rx_ring);
}

struct l5_map *l5_map_new(int fd)
{
	size_t page = sysconf(_SC_PAGESIZE), len = page, part;
	struct l5_area area[L5_MAP_AREAS];
	void *place[L5_MAP_NEEDS];
	struct l5_map_mem mem = { 0 };
	const struct l5_area *a;
	struct l5_map_info info;
	struct l5_map *m;
	uint8_t *base;
	int err, i;

	if (l5_map_ask(fd, &info, area, L5_MAP_AREAS))
		return NULL;
	if (!l5_map_size_ok(info.tx_size) || !l5_map_size_ok(info.rx_size)) {
		errno = EPROTONOSUPPORT;
		return NULL;
	}
	/* the struct, then what is mapped; fork() copies the first */
	for (i = 0; i < L5_MAP_NEEDS; i++) {
		part = l5_map_need(&info, area, i, &a);
		if (!part || part % page) {
			errno = EPROTONOSUPPORT;
			return NULL;
		}
		len += part;
	}
	if (l5_map_live() < 0)
		return NULL;
	base = l5_map_lay(fd, &info, area, page, len, place);
	if (!base)
		return NULL;
	mem.own = place[0];
	mem.peer = place[1];
	mem.state = place[2];
	mem.tx = place[3];
	mem.rx = place[4];
	/* asked again: now there is a number */
	if (l5_map_ask(fd, &info, NULL, 0))
		goto fail;
	mem.tx_size = info.tx_size;
	mem.rx_size = info.rx_size;
	mem.id = info.id;
	if (!mem.id || mem.id >= L5_LOCK_KERNEL || !l5_map_state_ok(&mem)) {
		errno = EPROTONOSUPPORT;
		goto fail;
	}
	m = (struct l5_map *)base;
	l5_map_init(m, &mem, &l5_kernel_ops, NULL);
	m->base = base;
	m->len = len;
	m->mailbox = info.mailbox;
	return m;

fail:
	err = errno;
	munmap(base, len);
	errno = err;
	return NULL;
}

struct l5_map *l5_map_over(const struct l5_map_mem *mem,
			   const struct l5_map_ops *ops, void *priv)
{
	size_t page = sysconf(_SC_PAGESIZE);
	struct l5_map *m;

	if (!l5_map_size_ok(mem->tx_size) || !l5_map_size_ok(mem->rx_size) ||
	    !mem->id || mem->id >= L5_LOCK_KERNEL) {
		errno = EINVAL;
		return NULL;
	}
	if (l5_map_live() < 0)
		return NULL;
	m = mmap(NULL, page, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (m == MAP_FAILED)
		return NULL;
	l5_map_init(m, mem, ops, priv);
	m->base = m;
	m->len = page;
	return m;
}

struct l5_map *l5_map_get(struct l5_map *m)
{
	__atomic_add_fetch(&m->ref, 1, __ATOMIC_RELAXED);
	return m;
}

void l5_map_put(struct l5_map *m)
{
	int saved = errno;

	if (!m || __atomic_sub_fetch(&m->ref, 1, __ATOMIC_ACQ_REL))
		return;
	/* of what a child inherited only the struct is there */
	if (l5_map_mine(m))
		munmap(m->base, m->len);
	else
		munmap(m->base, sysconf(_SC_PAGESIZE));
	errno = saved;
}

/* Lock words */

/*
 * How a lock word was got, for l5_map_unlock(): where that is noted, and the
 * frame of the call.
 */
struct l5_guard {
	struct l5_held *held;
	uintptr_t frame;
};

/* Note it in the stack of what handlers came upon: NULL if that is full. */
static struct l5_held *l5_hold_more(uint64_t key, uintptr_t frame)
{
	int i = l5_held.n;
	struct l5_held *h = &l5_held.more[i];

	if (i == L5_HELD_MORE)
		return NULL;
	l5_held.n = i + 1;
	l5_signal_fence();
	h->frame = frame;
	l5_signal_fence();
	h->key = key;
	l5_signal_fence();
	return h;
}

/* Entries of calls that siglongjmp() ended and that hold nothing for sure. */
static void l5_held_purge(uintptr_t frame)
{
	int i, n = 0;

	for (i = 0; i < l5_held.n; i++) {
		struct l5_held *h = &l5_held.more[i];

		if (h->key && !(h->frame & 1) &&
		    l5_frame_over(h->frame, frame))
			h->key = 0;
		if (h->key)
			n = i + 1;
	}
	l5_held.n = n;
}

/* Where this thread notes that it has a lock word, or will have. */
static struct l5_held *l5_hold(uint64_t key, uintptr_t frame)
{
	struct l5_held *now = &l5_held.now;

	if (l5_unlikely(now->key) &&
	    l5_frame_over(now->frame & ~1ul, frame)) {
		/* its call was left, and may have left the word taken */
		if (!(now->frame & 1) || l5_hold_more(now->key, now->frame))
			now->key = 0;
	}
	if (l5_unlikely(now->key)) {
		if (l5_held.n == L5_HELD_MORE)
			l5_held_purge(frame);
		return l5_hold_more(key, frame);
	}
	now->frame = frame;
	l5_signal_fence();
	now->key = key;
	l5_signal_fence();
	/* again: a handler between the two left its own */
	now->frame = frame;
	l5_signal_fence();
	return now;
}

static void l5_unhold(struct l5_held *h)
{
	l5_signal_fence();
	h->key = 0;
	l5_signal_fence();
	if (h == &l5_held.now)
		return;
	while (l5_held.n && !l5_held.more[l5_held.n - 1].key)
		l5_held.n--;
}

/*
 * What another entry of this thread says about a word that is taken: 2 if that
 * was by a call that was left in the middle.
 */
static int l5_held_says(struct l5_held *h, const struct l5_guard *g)
{
	if (h == g->held || h->key != g->held->key)
		return 0;
	if (!l5_frame_over(h->frame & ~1ul, g->frame))
		return L5_TRY_NESTED;
	if (!(h->frame & 1))
		return 0;
	h->key = 0;
	return 2;
}

static int l5_held_check(const struct l5_guard *g)
{
	int i, got = l5_held_says(&l5_held.now, g);

	for (i = 0; i < l5_held.n && !got; i++)
		got = l5_held_says(&l5_held.more[i], g);
	return got;
}

/* Looks at a word that is taken: as l5_lock_try(), or L5_TRY_NESTED. */
static int l5_map_lock_look(struct l5_map *m, unsigned int which,
			    const struct l5_guard *g)
{
	__u32 *word = l5_map_word(m, which);
	int i, got;

	for (i = 0; i < L5_TRIES; i++) {
		got = l5_lock_try(word, m->id);
		if (got)
			return got;
		l5_pause();
	}
	if ((l5_load(word) & L5_LOCK_ID) != m->id)
		return 0;
	if (l5_load(&m->keeper[which]) == &l5_held)
		return L5_TRY_NESTED;
	return l5_held_check(g);
}

/*
 * The word is taken: 1, or 2 if what it guards has to be mended first, or
 * L5_TRY_NESTED or _BUSY. It is held for less than a switch takes, so a few
 * looks and a yield are worth it. What takes longer is for a system call, since
 * whatever the word says may have been made up by a process that shares this
 * end: here nothing would end the wait.
 */
static int l5_map_lock_wait(struct l5_map *m, int fd, unsigned int which,
			    const struct l5_guard *g)
{
	__u32 *word = l5_map_word(m, which);
	__u32 old;
	int got;

	got = l5_map_lock_look(m, which, g);
	if (got)
		return got;
	if (l5_load(&l5_map_hush))
		return L5_TRY_BUSY;
	syscall(SYS_sched_yield);
	for (;;) {
		got = l5_map_lock_look(m, which, g);
		if (got)
			return got;
		if (!m->ops->lock_wait)
			return L5_TRY_BUSY;
		old = l5_load(word);
		if (old & L5_LOCK_ID &&
		    (old & L5_LOCK_WAITERS ||
		     l5_cmpxchg(word, old, old | L5_LOCK_WAITERS)))
			m->ops->lock_wait(m, fd, which);
	}
}

/* What is there makes no sense: the peer's doing, or it is there no more. */
static int l5_map_broken(struct l5_map *m, int fd)
{
	if (l5_map_gone(m))
		return L5_TRY_ASK;
	m->ops->broken(m, fd);
	return L5_TRY_BROKEN;
}

/*
 * The cursors as the last holder left them. If it died, the peer has not heard
 * of what it did last, nor of what mending does.
 */
static int l5_map_load_tx(struct l5_map *m, int fd, bool died)
{
	if (l5_prod_load(&m->prod, m->own, m->peer))
		return -1;
	if (!died)
		return 0;
	if (l5_prod_mend(&m->prod, m->own, m->peer,
			 l5_map_tx_slot(m, m->prod.tail)))
		return -1;
	/* F, pairs with E */
	l5_mb();
	l5_map_published(m, fd);
	return 0;
}

static int l5_map_load_rx(struct l5_map *m, int fd, bool died)
{
	if (l5_cons_load(&m->cons, m->own))
		return -1;
	if (!died)
		return 0;
	l5_cons_mend(&m->cons, m->own, l5_map_rx_slot(m, m->cons.head));
	/* F, pairs with E */
	l5_mb();
	l5_map_freed(m, fd, m->cons.head);
	return 0;
}

static void l5_map_unlock(struct l5_map *m, int fd, unsigned int which,
			  const struct l5_guard *g)
{
	__u32 waiters;

	l5_signal_fence();
	g->held->frame = g->frame;
	l5_signal_fence();
	waiters = l5_unlock(l5_map_word(m, which));
	l5_unhold(g->held);
	if (l5_unlikely(waiters))
		m->ops->lock_wake(m, fd, which);
}

/*
 * Take a lock word, and the cursors it guards. 0, or L5_TRY_NESTED, _BUSY or
 * _BROKEN and it is not taken.
 */
static int l5_map_lock(struct l5_map *m, int fd, unsigned int which,
		       struct l5_guard *g)
{
	int saved = errno, got, err;

	g->held = l5_hold(m->key + which, g->frame);
	if (!g->held)
		return L5_TRY_NESTED;
	got = l5_lock_try(l5_map_word(m, which), m->id) ?:
	      l5_map_lock_wait(m, fd, which, g);
	errno = saved;
	if (got < 0) {
		l5_unhold(g->held);
		return got;
	}
	l5_signal_fence();
	g->held->frame = g->frame | 1;
	l5_signal_fence();
	if (which == L5_LOCK_TX)
		err = l5_map_load_tx(m, fd, got == 2);
	else
		err = l5_map_load_rx(m, fd, got == 2);
	if (!err)
		return 0;
	l5_map_unlock(m, fd, which, g);
	return l5_map_broken(m, fd);
}

/* Bytes in and out */

static void l5_map_bytes(void *to, const void *from, size_t n)
{
	volatile uint8_t *t = to;
	const volatile uint8_t *f = from;

	while (n--)
		*t++ = *f++;
}

/* How many of @n bytes at @at of a ring lie side by side. */
static size_t l5_map_span(size_t at, size_t n, uint32_t size)
{
	return L5_MAP_FLAT && n > size - at ? size - at : n;
}

/* Both return false for memory that is none, see copy.h. */
static bool l5_map_copy_in(struct l5_map *m, uint64_t pos, const void *from,
			   size_t n)
{
	size_t at = pos & (m->tx_size - 1);
	size_t part = l5_map_span(at, n, m->tx_size);

	if (!L5_MAP_FLAT)
		return l5_copy_in(m->tx + at, from, n);
	l5_map_bytes(m->tx + at, from, part);
	if (part < n)
		l5_map_bytes(m->tx, (const uint8_t *)from + part, n - part);
	return true;
}

static bool l5_map_copy_out(struct l5_map *m, uint64_t pos, void *to, size_t n)
{
	size_t at = pos & (m->rx_size - 1);
	size_t part = l5_map_span(at, n, m->rx_size);

	if (!L5_MAP_FLAT)
		return l5_copy_out(&m->rx_walk, to, m->rx + at, n);
	l5_map_bytes(to, m->rx + at, part);
	if (part < n)
		l5_map_bytes((uint8_t *)to + part, m->rx, n - part);
	return true;
}

/* Where in an array of buffers we are. */
struct l5_iov {
	const struct iovec *v;
	size_t n;
	size_t off;
};

static size_t l5_iov_total(const struct iovec *v, size_t n)
{
	size_t sum = 0, i;

	for (i = 0; i < n; i++)
		if (__builtin_add_overflow(sum, v[i].iov_len, &sum))
			return SIZE_MAX / 2;
	return sum > SIZE_MAX / 2 ? SIZE_MAX / 2 : sum;
}

/* The next @n bytes at most that lie side by side. */
static size_t l5_iov_part(struct l5_iov *i, uint8_t **p, size_t n)
{
	size_t part;

	while (i->off == i->v->iov_len) {
		i->v++;
		i->off = 0;
	}
	part = i->v->iov_len - i->off;
	if (part > n)
		part = n;
	*p = (uint8_t *)i->v->iov_base + i->off;
	i->off += part;
	return part;
}

/*
 * Room for a record, or 0 if it is better to wait: a large send is not to
 * dribble into a nearly full ring. -1 as l5_prod_look().
 */
static int l5_map_room(struct l5_map *m, size_t want)
{
	uint32_t low = m->tx_size / 8, room;

	if (low > want)
		low = want;
	room = l5_prod_room(&m->prod);
	if (room < want) {
		if (l5_prod_look(&m->prod, m->peer) < 0)
			return -1;
		room = l5_prod_room(&m->prod);
		if (room < low)
			return 0;
	}
	return room < want ? room : want;
}

/*
 * Payload of @len bytes at the tail; the header's line comes last. False: not
 * all of it is memory, and there is no record.
 */
static bool l5_map_fill(struct l5_map *m, struct l5_iov *i, size_t len)
{
	uint64_t pos = m->prod.tail + L5_HDR;
	size_t line = L5_LINE - (pos & (L5_LINE - 1));
	size_t part;
	uint8_t *p;

	while (len) {
		part = l5_iov_part(i, &p, len);
		if (pos == m->prod.tail + L5_HDR && part > line) {
			if (!l5_map_copy_in(m, pos + line, p + line,
					    part - line) ||
			    !l5_map_copy_in(m, pos, p, line))
				return false;
		} else if (!l5_map_copy_in(m, pos, p, part)) {
			return false;
		}
		pos += part;
		len -= part;
	}
	return true;
}

static void l5_map_put_record(struct l5_map *m, size_t len)
{
	uint64_t tail = m->prod.tail;

	l5_store(&m->own->tx_bytes, l5_load(&m->own->tx_bytes) + len);
	l5_prod_publish(&m->prod, m->own, l5_map_tx_slot(m, tail),
			l5_map_tx_slot(m, tail + l5_rec_size(len)), len);
}

static ssize_t l5_map_send_at(struct l5_map *m, int fd, const struct iovec *iov,
			      size_t n, uintptr_t frame)
{
	size_t total = l5_iov_total(iov, n), done = 0;
	struct l5_iov i = { .v = iov, .n = n };
	struct l5_guard g = { .frame = frame };
	ssize_t ret;
	int len;

	if (!total || l5_load(&m->state->flags) & L5_MAP_TX_STOP)
		return L5_TRY_ASK;
	ret = l5_map_lock(m, fd, L5_LOCK_TX, &g);
	if (ret)
		return ret;
	ret = L5_TRY_AGAIN;
	while (done < total) {
		if (l5_load(&m->state->flags) & L5_MAP_TX_STOP) {
			ret = L5_TRY_ASK;
			break;
		}
		if (done) {
			/* F, pairs with E */
			l5_mb();
			l5_map_published(m, fd);
		}
		len = l5_map_room(m, total - done < L5_PIECE ? total - done :
				     L5_PIECE);
		if (len <= 0) {
			if (len < 0)
				ret = L5_TRY_BROKEN;
			break;
		}
		if (!l5_map_fill(m, &i, len)) {
			ret = L5_TRY_ASK;
			break;
		}
		l5_map_put_record(m, len);
		done += len;
	}
	l5_map_unlock(m, fd, L5_LOCK_TX, &g);
	if (done)
		l5_map_published(m, fd);
	if (ret == L5_TRY_BROKEN)
		ret = l5_map_broken(m, fd);
	return done ? (ssize_t)done : ret;
}

ssize_t l5_map_trysend(struct l5_map *m, int fd, const struct iovec *iov,
		       size_t n)
{
	return l5_map_send_at(m, fd, iov, n, l5_frame());
}

/*
 * What is at the cursors, into the buffers. False: not all of these is memory,
 * and nothing is taken.
 */
static bool l5_map_drain(struct l5_map *m, struct l5_iov *i, uint64_t pos,
			 size_t len)
{
	size_t part;
	uint8_t *p;

	while (len) {
		part = l5_iov_part(i, &p, len);
		if (!l5_map_copy_out(m, pos, p, part))
			return false;
		pos += part;
		len -= part;
	}
	return true;
}

/* The record that a stream goes on with: as l5_cons_peek(). */
static int l5_map_payload(struct l5_map *m)
{
	int ret;

	do
		ret = l5_cons_skip(&m->cons, m->own,
				   l5_map_rx_slot(m, m->cons.head));
	while (ret == 2);
	return ret;
}

/* Over published records without taking them, at most once around. */
static size_t l5_map_look(struct l5_map *m, struct l5_iov *i, size_t total,
			  int *err)
{
	size_t done = 0, part;
	struct l5_cons c;
	uint64_t start;

	*err = l5_map_payload(m);
	if (*err <= 0)
		return 0;
	c = m->cons;
	start = c.head;
	while (done < total && c.head - start < c.size) {
		*err = l5_cons_peek(&c, l5_map_rx_slot(m, c.head));
		if (*err <= 0)
			break;
		part = c.len - c.off;
		if (part > total - done)
			part = total - done;
		if (!l5_map_drain(m, i, c.head + L5_HDR + c.off, part) ||
		    l5_map_gone(m))
			break;
		done += part;
		c.head += l5_rec_size(c.len);
		c.off = 0;
		c.len = 0;
		c.have = 0;
	}
	return done;
}

static size_t l5_map_take(struct l5_map *m, int fd, struct l5_iov *i,
			  size_t total, int *err)
{
	struct l5_cons *c = &m->cons;
	size_t done = 0, part, freed = 0;

	while (done < total) {
		*err = l5_map_payload(m);
		if (*err <= 0)
			break;
		part = c->len - c->off;
		if (part > total - done)
			part = total - done;
		if (!l5_map_drain(m, i, c->head + L5_HDR + c->off, part) ||
		    l5_map_gone(m))
			break;
		l5_store(&m->own->rx_bytes, l5_load(&m->own->rx_bytes) + part);
		freed += l5_cons_take(c, m->own, part);
		done += part;
		/* a big read is not to keep the writer waiting */
		if (freed >= m->rx_size / 2 && done < total) {
			/* F, pairs with E */
			l5_mb();
			l5_map_freed(m, fd, c->head);
			freed = 0;
		}
	}
	return done;
}

static ssize_t l5_map_recv_at(struct l5_map *m, int fd, const struct iovec *iov,
			      size_t n, int flags, uintptr_t frame)
{
	/* before the ring: what was published before the end comes first */
	ssize_t nothing = l5_map_rx_ask(m) ? L5_TRY_ASK : L5_TRY_AGAIN;
	struct l5_iov i = { .v = iov, .n = n };
	size_t total = l5_iov_total(iov, n), done;
	struct l5_guard g = { .frame = frame };
	uint64_t head;
	int err = 0;

	if (!total || l5_load(&m->state->flags) & L5_MAP_LEAVE)
		return L5_TRY_ASK;
	if (!l5_map_readable(m))
		return nothing;
	err = l5_map_lock(m, fd, L5_LOCK_RX, &g);
	if (err)
		return err;
	if (flags & L5_TRY_PEEK)
		done = l5_map_look(m, &i, total, &err);
	else
		done = l5_map_take(m, fd, &i, total, &err);
	head = m->cons.head;
	l5_map_unlock(m, fd, L5_LOCK_RX, &g);
	if (done && !(flags & L5_TRY_PEEK))
		l5_map_freed(m, fd, head);
	if (done)
		return done;
	if (err < 0)
		return l5_map_broken(m, fd);
	return err ? L5_TRY_ASK : nothing;
}

ssize_t l5_map_tryrecv(struct l5_map *m, int fd, const struct iovec *iov,
		       size_t n, int flags)
{
	return l5_map_recv_at(m, fd, iov, n, flags, l5_frame());
}

uint64_t l5_map_rx_end(const struct l5_map *m, uint64_t from)
{
	/* records that fit, and a few that were read meanwhile */
	uint32_t left = m->rx_size / (2 * L5_HDR) + L5_LOOKS;
	uint64_t head, pos, hdr;

	if (l5_load(&m->state->transport) != L5_TRANSPORT_RDMA)
		return l5_load(&m->peer->tx_tail);
	head = l5_load(&m->own->rx_head);
	pos = from - head <= m->rx_size ? from : head;
	while (pos - head <= m->rx_size && left--) {
		hdr = l5_map_glance(l5_map_rx_slot(m, pos));
		/* what others have read meanwhile may be written over */
		head = l5_load(&m->own->rx_head);
		if (pos - head > m->rx_size) {
			pos = head;
			continue;
		}
		if (!l5_rec_valid(m->rx_size, hdr))
			break;
		pos += l5_rec_size((__u32)hdr);
	}
	return pos;
}

/* What the inline paths leave to do */

ssize_t l5_map_send1_slow(struct l5_map *m, int fd, const void *buf, size_t len,
			  uintptr_t frame, bool entered)
{
	struct iovec iov = { .iov_base = (void *)buf, .iov_len = len };

	if (entered && l5_leave(&m->own->tx_lock, frame))
		m->ops->lock_wake(m, fd, L5_LOCK_TX);
	return l5_map_send_at(m, fd, &iov, 1, frame);
}

ssize_t l5_map_recv1_slow(struct l5_map *m, int fd, void *buf, size_t len,
			  uintptr_t frame, bool entered)
{
	struct iovec iov = { .iov_base = buf, .iov_len = len };

	if (entered && l5_leave(&m->own->rx_lock, frame))
		m->ops->lock_wake(m, fd, L5_LOCK_RX);
	return l5_map_recv_at(m, fd, &iov, 1, 0, frame);
}

ssize_t l5_map_sent(struct l5_map *m, int fd, size_t n, __u32 waiters)
{
	if (waiters)
		m->ops->lock_wake(m, fd, L5_LOCK_TX);
	l5_map_published(m, fd);
	return n;
}

ssize_t l5_map_received(struct l5_map *m, int fd, size_t n, __u32 waiters)
{
	if (waiters)
		m->ops->lock_wake(m, fd, L5_LOCK_RX);
	l5_map_freed(m, fd, l5_load(&m->own->rx_head));
	return n;
}

/* Zero copy */

/* From the call that took it to the next ones. */
static void l5_map_keep(struct l5_map *m, unsigned int which,
			struct l5_guard *g)
{
	l5_store(&m->keeper[which], (const void *)&l5_held);
	l5_unhold(g->held);
}

/* And back. */
static void l5_map_unkeep(struct l5_map *m, int fd, unsigned int which)
{
	struct l5_guard g = { .frame = l5_frame() };
	__u32 waiters;

	g.held = l5_hold(m->key + which, g.frame);
	if (g.held)
		g.held->frame = g.frame | 1;
	l5_signal_fence();
	l5_store(&m->keeper[which], NULL);
	if (g.held) {
		l5_map_unlock(m, fd, which, &g);
		return;
	}
	/* more nested calls than can be noted */
	waiters = l5_unlock(l5_map_word(m, which));
	if (waiters)
		m->ops->lock_wake(m, fd, which);
}

ssize_t l5_map_reserve(struct l5_map *m, int fd, void **p, size_t want)
{
	struct l5_guard g = { .frame = l5_frame() };
	uint32_t max = m->tx_size / 2;
	ssize_t ret;
	size_t at;

	if (!want)
		return L5_TRY_ASK;
	ret = l5_map_lock(m, fd, L5_LOCK_TX, &g);
	if (ret)
		return ret;
	ret = L5_TRY_ASK;
	if (!(l5_load(&m->state->flags) & L5_MAP_TX_STOP)) {
		ret = l5_map_room(m, want < max ? want : max);
		if (!ret)
			ret = L5_TRY_AGAIN;
		else if (ret < 0)
			ret = L5_TRY_BROKEN;
	}
	if (ret > 0) {
		at = (m->prod.tail + L5_HDR) & (m->tx_size - 1);
		*p = m->tx + at;
		l5_map_keep(m, L5_LOCK_TX, &g);
		return l5_map_span(at, ret, m->tx_size);
	}
	l5_map_unlock(m, fd, L5_LOCK_TX, &g);
	return ret == L5_TRY_BROKEN ? l5_map_broken(m, fd) : ret;
}

void l5_map_commit(struct l5_map *m, int fd, size_t len)
{
	if (len)
		l5_map_put_record(m, len);
	l5_map_unkeep(m, fd, L5_LOCK_TX);
	if (len)
		l5_map_published(m, fd);
}

ssize_t l5_map_peek(struct l5_map *m, int fd, const void **p)
{
	ssize_t ret = l5_map_rx_ask(m) ? L5_TRY_ASK : L5_TRY_AGAIN;
	struct l5_guard g = { .frame = l5_frame() };
	size_t at;
	int err;

	if (l5_load(&m->state->flags) & L5_MAP_LEAVE)
		return L5_TRY_ASK;
	if (!l5_map_readable(m))
		return ret;
	err = l5_map_lock(m, fd, L5_LOCK_RX, &g);
	if (err)
		return err;
	err = l5_map_payload(m);
	if (err > 0) {
		at = (m->cons.head + L5_HDR + m->cons.off) & (m->rx_size - 1);
		*p = m->rx + at;
		ret = l5_map_span(at, m->cons.len - m->cons.off, m->rx_size);
		l5_map_keep(m, L5_LOCK_RX, &g);
		return ret;
	}
	l5_map_unlock(m, fd, L5_LOCK_RX, &g);
	return err ? l5_map_broken(m, fd) : ret;
}

void l5_map_release(struct l5_map *m, int fd, size_t len)
{
	uint64_t head;

	if (len) {
		l5_store(&m->own->rx_bytes, l5_load(&m->own->rx_bytes) + len);
		l5_cons_take(&m->cons, m->own, len);
	}
	head = m->cons.head;
	l5_map_unkeep(m, fd, L5_LOCK_RX);
	if (len)
		l5_map_freed(m, fd, head);
}

/* Waiting */

/*
 * Learn from a wait that took so long. As KVM's halt polling: had it been short
 * enough to wait through, wait as long next time and half as much again; had it
 * not, half as long and soon not at all. A little more than the most that is
 * ever waited counts as short: if nobody slept it would have been.
 */
static void l5_adapt_learn(struct l5_adapt *a, uint64_t waited)
{
	uint32_t win = l5_load(&a->win), want;

	if (l5_load(&a->spin_us) >= 0)
		return;
	if (waited <= 2 * L5_WIN_MAX) {
		want = waited + waited / 2;
		if (want < 1000)
			want = 1000;
		if (want > L5_WIN_MAX)
			want = L5_WIN_MAX;
		if (want > win)
			l5_store(&a->win, want);
	} else {
		l5_store(&a->win, win < 1000 ? 0 : win / 2);
	}
}

static bool l5_spin_for(bool (*ready)(const void *arg), const void *arg,
			uint64_t start, uint64_t ns, uint64_t seen)
{
	uint64_t rounds = ns / L5_ROUND_NS;
	int i;

	do {
		for (i = 0; i < 32; i++) {
			if (ready(arg))
				return true;
			l5_pause();
		}
	} while (l5_no_signal(seen) && !l5_load(&l5_map_hush) &&
		 l5_since(l5_map_now(), start) < ns && rounds--);
	return false;
}

/*
 * A look finds what another CPU did, a yield also what a process did that
 * shares ours. Where the first looks only cost time, because it does, they
 * become few; every L5_TURNS waits they are all tried, to see whether that has
 * changed.
 */
bool l5_adapt_slow_for(struct l5_adapt *a, bool (*ready)(const void *arg),
		       const void *arg, uint32_t polls, uint64_t *start,
		       uint64_t ns, uint64_t seen)
{
	uint32_t win = l5_load(&a->win), turn = l5_load(&a->turn) + 1;
	int yields = l5_load(&a->yields);
	uint64_t n, rounds;
	int spin_us = l5_load(&a->spin_us);
	uint64_t now, from, spin;

	*start = 0;
	if (l5_unlikely(l5_load(&l5_map_hush)))
		return false;
	l5_store(&a->turn, turn);
	from = l5_map_now();
	*start = from;
	if (!win || !l5_no_signal(seen))
		return false;
	if (spin_us > 0) {
		spin = spin_us * 1000ull;
		if (l5_spin_for(ready, arg, from, spin < ns ? spin : ns, seen))
			return true;
		if (spin >= ns || !l5_no_signal(seen))
			return false;
	} else if (spin_us < 0 && polls < l5_map_polls &&
		   !(turn & (L5_TURNS - 1))) {
		for (; polls < l5_map_polls; polls++) {
			if (ready(arg)) {
				l5_store(&a->polls, l5_map_polls);
				return true;
			}
			l5_pause();
		}
	}
	/* told to spin only */
	if (spin_us >= 0 && yields < 0)
		return false;
	if (yields < 0 && ns > win)
		ns = win;
	rounds = yields < 0 ? ns / L5_ROUND_NS + 1 : (uint64_t)yields;
	for (n = 0; n < rounds; n++) {
		if (l5_load(&l5_map_hush))
			return false;
		syscall(SYS_sched_yield);
		now = l5_map_now();
		if (ready(arg)) {
			l5_adapt_learn(a, l5_since(now, from));
			/* what came this late was not worth looking for */
			if (spin_us < 0)
				l5_store(&a->polls, polls / 2);
			return true;
		}
		if (l5_since(now, from) >= ns || !l5_no_signal(seen))
			break;
	}
	return false;
}

bool l5_adapt_slow(struct l5_adapt *a, bool (*ready)(const void *arg),
		   const void *arg, uint32_t polls, uint64_t *start,
		   uint64_t seen)
{
	return l5_adapt_slow_for(a, ready, arg, polls, start, UINT64_MAX, seen);
}

void l5_adapt_woke(struct l5_adapt *a, uint64_t start)
{
	uint64_t waited = l5_since(l5_map_now(), start);

	l5_adapt_learn(a, waited);
	/* a wait that is worth anything begins with a look */
	if (waited > L5_WIN_MAX)
		l5_store(&a->polls, l5_map_polls);
}
