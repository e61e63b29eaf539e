// SPDX-License-Identifier: GPL-2.0
/*
 * Runs programs. A lane makes its calls in their order; what sleeps in one is
 * interrupted by a timer of its own thread, again and again, so that no call
 * that heeds signals stays. Threads share the slots: that one closes a slot
 * while another uses it is part of the game.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <ucontext.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "exec.h"
#include "l5test.h"
#include "stats.h"

/* What processes of a program may do after its main thread has ended */
#define LINGER_MS	20

struct fz_world fz_world = { .far = -1, .home = -1, .ticks_ms = 20 };
struct fz_log *fz_log;
uint8_t fz_bytes[FZ_BYTES];
int fz_memfd = -1;
__thread sigjmp_buf fz_jump;
__thread volatile int fz_jumps;

static int slots[FZ_SLOTS];
static uint8_t *edge;		/* of a page, behind which there is nothing */
static struct fz_cover *cover;
static const struct fz_prog *prog;
static bool found;

/* State of a lane of the program that runs */
static struct lane {
	unsigned int number;
	uint32_t from;
	bool spawned;
	bool thread;
	pthread_t id;
	pid_t pid;
} lanes[FZ_LANES];

/* Threads beside the lanes, which write into what is mapped until it ends */
#define HANDS	3
/* How often it is looked whether a thread has begun */
#define BEGIN_LOOKS	200

static struct hand {
	bool on;
	bool begun;
	struct fz_call call;
	pthread_t id;
} hands[HANDS];

static bool hands_off;

int fz_own_fd(int fd)
{
	int to = fcntl(fd, F_DUPFD_CLOEXEC, FZ_OWN_FDS);

	close(fd);
	return to;
}

/* A change of a program often takes away what a later call is about. */
int fz_fd(unsigned int s)
{
	unsigned int i;
	int fd;

	for (i = 0; i < FZ_SLOTS; i++) {
		fd = __atomic_load_n(&slots[(s + i) % FZ_SLOTS],
				     __ATOMIC_RELAXED);
		if (fd >= 0)
			return fd;
	}
	return -1;
}

int fz_take(unsigned int s)
{
	return __atomic_exchange_n(&slots[s % FZ_SLOTS], -1, __ATOMIC_RELAXED);
}

void fz_put(unsigned int s, int fd)
{
	int old = __atomic_exchange_n(&slots[s % FZ_SLOTS], fd,
				      __ATOMIC_RELAXED);

	if (old >= 0)
		close(old);
}

void *fz_buf(unsigned int kind, size_t len)
{
	unsigned int m;

	switch (kind % FZ_BUFS) {
	case FZ_BUF_NULL:
		return NULL;
	case FZ_BUF_BAD:
		return (void *)0x1000;
	case FZ_BUF_RING:
		for (m = 0; m < FZ_MAPS; m++)
			if (fz_map[m].len)
				return fz_at(m);
		return fz_bytes;
	case FZ_BUF_EDGE:
		return edge - (len < 4096 ? len : 4096) / 2;
	case FZ_BUF_LATE:
		return fz_late() ?: fz_bytes;
	default:
		return fz_bytes;
	}
}

/* --- signals */

/* Is the kernel to refuse something in this thread's call? */
static __thread volatile sig_atomic_t refusing;

/*
 * Have no more refused once the call has ended, or a signal has come: else the
 * return from the handler may be refused, and that kills the thread. If it is
 * the opening of the file that was refused, that is tried again.
 */
static void refuse_no_more(void)
{
	int i, fd, saved = errno;
	bool done = false;

	for (i = 0; i < 3 && refusing && !done; i++) {
		fd = open("/proc/thread-self/fail-nth", O_WRONLY | O_CLOEXEC);
		done = fd >= 0 && write(fd, "0", 1) == 1;
		if (fd >= 0)
			close(fd);
	}
	refusing = 0;
	errno = saved;
}

/* Said before, for a signal that comes next, and after, for one that came. */
static bool refuse(int nth)
{
	refusing = 1;
	refusing = l5_fail_nth(nth);
	return refusing;
}

static void on_fault(int sig, siginfo_t *info, void *context)
{
	const ucontext_t *at = context;

	if (fz_jumps) {
		fz_jumps = 0;
		siglongjmp(fz_jump, 1);
	}
	/* there was to be another signal, and its frame was refused */
	if (refusing && sig == SIGSEGV && info->si_code == SI_KERNEL) {
		refuse_no_more();
		return;
	}
	/* a bug of ours: as if there were no handler, and told */
	fprintf(stderr, "# fuzz: signal %d, %p, by %+ld of on_fault(), stack %p\n",
		sig, info->si_addr,
		(long)at->uc_mcontext.gregs[REG_RIP] - (long)on_fault,
		(void *)at->uc_mcontext.gregs[REG_RSP]);
	signal(sig, SIG_DFL);
	syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), sig);
}

static void on_signal(int sig)
{
	(void)sig;
	refuse_no_more();
}

static void signals(void)
{
	struct sigaction fault = { .sa_sigaction = on_fault,
				   .sa_flags = SA_NODEFER | SA_SIGINFO };
	struct sigaction other = { .sa_handler = on_signal };

	sigaction(SIGSEGV, &fault, NULL);
	sigaction(SIGBUS, &fault, NULL);
	sigaction(SIGALRM, &other, NULL);
	sigaction(SIGIO, &other, NULL);
	sigaction(SIGURG, &other, NULL);
	sigaction(SIGUSR1, &other, NULL);
	signal(SIGPIPE, SIG_IGN);
}

/* Interrupt what this thread sleeps in, from now on. */
static bool ticks(timer_t *t)
{
	struct sigevent e = {
		.sigev_notify = SIGEV_THREAD_ID,
		.sigev_signo = SIGALRM,
		._sigev_un._tid = syscall(SYS_gettid),
	};
	long ns = fz_world.ticks_ms * 1000000L;
	struct itimerspec each = { { 0, ns }, { 0, ns } };

	return !timer_create(CLOCK_MONOTONIC, &e, t) &&
	       !timer_settime(*t, 0, &each, NULL);
}

/* --- calls that are about lanes */

static void run_lane(unsigned int lane, uint32_t from);

static void *thread_lane(void *arg)
{
	struct lane *l = arg;
	timer_t t;

	if (ticks(&t)) {
		run_lane(l->number, l->from);
		timer_delete(t);
	}
	return NULL;
}

static void process_lane(const struct lane *l, bool nobody)
{
	timer_t t;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	fz_map_forked();
	if (nobody && (setresgid(65534, 65534, 65534) ||
		       setresuid(65534, 65534, 65534)))
		_exit(1);
	if (ticks(&t))
		run_lane(l->number, l->from);
	_exit(0);
}

static long spawn(const struct fz_call *c, uint32_t at)
{
	struct lane *l = &lanes[c->a % FZ_LANES];

	if (!(c->a % FZ_LANES) || l->spawned || c->lane ||
	    fz_world.without == FZ_NO_LANES)
		return -EBUSY;
	*l = (struct lane){ .number = c->a % FZ_LANES, .from = at + 1 };
	if (c->b == FZ_SPAWN_THREAD) {
		l->thread = !pthread_create(&l->id, NULL, thread_lane, l);
		l->spawned = l->thread;
		return l->thread ? 0 : -EAGAIN;
	}
	l->pid = fork();
	if (!l->pid)
		process_lane(l, c->b == FZ_SPAWN_NOBODY);
	l->spawned = l->pid > 0;
	return l->spawned ? 0 : -EAGAIN;
}

static long kill_lane(const struct fz_call *c)
{
	struct lane *l = &lanes[c->a % FZ_LANES];

	/* by the main thread alone, or a number may be another's by now */
	if (c->lane || !l->spawned || l->thread)
		return -ESRCH;
	return FZ_RET(kill(l->pid, SIGKILL));
}

static bool hands_stop(void)
{
	return __atomic_load_n(&hands_off, __ATOMIC_RELAXED);
}

static void scribble(struct fz_rnd *r)
{
	while (!hands_stop()) {
		struct fz_call c = {
			.op = FZ_POKE,
			.t = fz_below(r, FZ_MAPS),
			.a = fz_below(r, FZ_WHERES),
			.b = fz_below(r, FZ_WORDS),
			.v = fz_next(r),
		};

		if (fz_do_poke(&c) == -EINVAL || fz_once_in(r, 50))
			sched_yield();
		if (fz_once_in(r, 20)) {
			c.s = fz_map[c.t].slot;
			c.a = fz_below(r, FZ_IOC_WATCH);
			c.b = fz_below(r, 4);
			fz_do_ioctl(&c);
		}
	}
}

/*
 * Without a rest: what fights for the word gets it in the first moment that
 * nothing is written. What is written is looked for again if it has gone.
 */
static void hammer(const struct fz_call *c)
{
	while (!hands_stop())
		if (fz_poke_until(c, &hands_off))
			usleep(100);
}

static void *hand(void *arg)
{
	struct hand *h = arg;
	struct fz_rnd r = { .state = h->call.v };
	timer_t t;

	__atomic_store_n(&h->begun, true, __ATOMIC_RELAXED);
	if (h->call.op == FZ_HAMMER) {
		hammer(&h->call);
	} else if (ticks(&t)) {
		scribble(&r);
		timer_delete(t);
	}
	return NULL;
}

static long hand_start(const struct fz_call *c)
{
	struct hand *h = hands;
	int i;

	/* by the main thread alone, which also ends them */
	if (c->lane || fz_world.without)
		return -EPERM;
	while (h < hands + HANDS && h->on)
		h++;
	if (h == hands + HANDS)
		return -EBUSY;
	h->call = *c;
	h->on = !pthread_create(&h->id, NULL, hand, h);
	/* or the calls after this one are done before it has begun */
	for (i = 0; h->on && i < BEGIN_LOOKS &&
	     !__atomic_load_n(&h->begun, __ATOMIC_RELAXED); i++)
		usleep(50);
	return h->on ? 0 : -EAGAIN;
}

static void hands_join(void)
{
	int i;

	__atomic_store_n(&hands_off, true, __ATOMIC_RELAXED);
	for (i = 0; i < HANDS; i++)
		if (hands[i].on)
			pthread_join(hands[i].id, NULL);
	memset(hands, 0, sizeof(hands));
	__atomic_store_n(&hands_off, false, __ATOMIC_RELAXED);
}

/* --- the program */

static long (*const calls[FZ_OP_COUNT])(const struct fz_call *c) = {
	[FZ_SOCKET] = fz_do_socket,
	[FZ_PAIR] = fz_do_pair,
	[FZ_LISTENER] = fz_do_listener,
	[FZ_DIAL] = fz_do_dial,
	[FZ_BIND] = fz_do_bind,
	[FZ_LISTEN] = fz_do_listen,
	[FZ_CONNECT] = fz_do_connect,
	[FZ_ACCEPT] = fz_do_accept,
	[FZ_UNCONNECT] = fz_do_unconnect,
	[FZ_RELISTEN] = fz_do_relisten,
	[FZ_SHUTDOWN] = fz_do_shutdown,
	[FZ_CLOSE] = fz_do_close,
	[FZ_DUP] = fz_do_dup,
	[FZ_SEND] = fz_do_send,
	[FZ_RECV] = fz_do_recv,
	[FZ_PASS] = fz_do_pass,
	[FZ_GETOPT] = fz_do_getopt,
	[FZ_SETOPT] = fz_do_setopt,
	[FZ_NAME] = fz_do_name,
	[FZ_POLL] = fz_do_poll,
	[FZ_EPOLL] = fz_do_epoll,
	[FZ_EPOLL_CTL] = fz_do_epoll_ctl,
	[FZ_EPOLL_WAIT] = fz_do_epoll_wait,
	[FZ_IOCTL] = fz_do_ioctl,
	[FZ_MAP_INFO] = fz_do_map_info,
	[FZ_FCNTL] = fz_do_fcntl,
	[FZ_MAP] = fz_do_map,
	[FZ_MMAP] = fz_do_mmap,
	[FZ_MUNMAP] = fz_do_munmap,
	[FZ_MPROTECT] = fz_do_mprotect,
	[FZ_MADVISE] = fz_do_madvise,
	[FZ_MREMAP] = fz_do_mremap,
	[FZ_POKE] = fz_do_poke,
	[FZ_FLOOD] = fz_do_flood,
	[FZ_LOOK] = fz_do_look,
	[FZ_SCRIBBLE] = hand_start,
	[FZ_HAMMER] = hand_start,
	[FZ_KILL] = kill_lane,
	[FZ_NETNS] = fz_do_netns,
	[FZ_SYSCTL] = fz_do_sysctl,
	[FZ_RULE] = fz_do_rule,
	[FZ_READ_PROC] = fz_do_read_proc,
	[FZ_FILE_CALL] = fz_do_file,
	[FZ_PIPE] = fz_do_pipe,
	[FZ_UNIX] = fz_do_unix,
	[FZ_SLEEP] = fz_do_sleep,
	[FZ_DESTROY] = fz_do_destroy,
	[FZ_URING] = fz_do_uring,
};

/* The last call on each slot: as much as is known of its state. */
static uint8_t before[FZ_SLOTS];

static uint64_t now_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

/* Calls that have nothing to do for long, whatever is in the rings */
static bool is_short(const struct fz_call *c)
{
	switch (c->op) {
	case FZ_SEND:
	case FZ_RECV:
	case FZ_SHUTDOWN:
	case FZ_IOCTL:
	case FZ_POLL:
	case FZ_EPOLL_WAIT:
	case FZ_CLOSE:
		return true;
	default:
		return false;
	}
}

/*
 * A thread that pokes rings, too, and each ring wakes a task that polls. For as
 * long as it is woken it does not look at the time: see security.md.
 */
static bool rung(const struct fz_call *c)
{
	return c->op == FZ_POLL || c->op == FZ_EPOLL_WAIT;
}

/*
 * How long a call kept a CPU. One that slept for most of @took has let others
 * have it.
 */
static void kept(const struct fz_call *c, uint32_t at, uint64_t took,
		 uint64_t busy)
{
	if (!is_short(c) || busy * 4 < took || (rung(c) && fz_has_hands(prog)))
		return;
	__atomic_store_n(&fz_log->busy_us[at], busy / 1000, __ATOMIC_RELAXED);
}

static void run_call(const struct fz_call *c, uint32_t at)
{
	uint64_t since = now_ns(CLOCK_MONOTONIC);
	uint64_t busy = now_ns(CLOCK_THREAD_CPUTIME_ID);
	uint8_t *last = &before[c->s % FZ_SLOTS];
	bool fails = refusing;
	long ret;

	if (c->op == FZ_SPAWN)
		ret = spawn(c, at);
	else if (c->op == FZ_FAIL)
		ret = refuse(c->a);
	else
		ret = calls[c->op](c);
	/* of the call after it, and of none that is the fuzzer's own */
	if (fails)
		refuse_no_more();
	__atomic_add_fetch(&fz_log->calls, 1, __ATOMIC_RELAXED);
	busy = now_ns(CLOCK_THREAD_CPUTIME_ID) - busy;
	since = now_ns(CLOCK_MONOTONIC) - since;
	fz_count_call(&fz_log->count[c->op], ret, since, busy);
	kept(c, at, since, busy);
	if (fz_world.trace)
		fprintf(stderr, "# %u %u %s: %ld\n", at, c->lane,
			fz_op_name[c->op], ret);
	if (!c->lane && fz_cover_outcome(cover, c, *last, ret))
		found = true;
	if (ret >= 0)
		*last = c->op;
}

static void run_lane(unsigned int lane, uint32_t from)
{
	uint32_t i;

	for (i = from; i < prog->n; i++) {
		if (prog->call[i].lane != lane &&
		    fz_world.without != FZ_NO_LANES)
			continue;
		__atomic_store_n(&fz_log->at[lane], i + 1, __ATOMIC_RELAXED);
		run_call(&prog->call[i], i);
	}
	refuse_no_more();
	__atomic_store_n(&fz_log->at[lane], 0, __ATOMIC_RELAXED);
}

static void reap(struct lane *l)
{
	int i;

	for (i = 0; i < LINGER_MS; i++) {
		if (waitpid(l->pid, NULL, WNOHANG))
			return;
		usleep(1000);
	}
	kill(l->pid, SIGKILL);
	while (waitpid(l->pid, NULL, 0) < 0 && errno == EINTR)
		;
}

static void join(void)
{
	int i;

	for (i = 1; i < FZ_LANES; i++)
		if (lanes[i].spawned && lanes[i].thread)
			pthread_join(lanes[i].id, NULL);
	hands_join();
	for (i = 1; i < FZ_LANES; i++)
		if (lanes[i].spawned && !lanes[i].thread)
			reap(&lanes[i]);
	memset(lanes, 0, sizeof(lanes));
}

static void reset(void)
{
	int i;

	for (i = 0; i < FZ_SLOTS; i++)
		slots[i] = -1;
	/* also those that a call lost: the slots are not all there is */
	syscall(SYS_close_range, 3, FZ_OWN_FDS - 1, 0);
	fz_map_reset();
	fz_netns_reset();
	fz_proc_reset();
}

bool fz_has_hands(const struct fz_prog *p)
{
	unsigned int i;

	for (i = 0; i < p->n; i++)
		if (p->call[i].op == FZ_SCRIBBLE || p->call[i].op == FZ_HAMMER)
			return true;
	return false;
}

bool fz_exec(const struct fz_prog *p)
{
	fz_log->prog = *p;
	memset(fz_log->at, 0, sizeof(fz_log->at));
	memset(fz_log->busy_us, 0, sizeof(fz_log->busy_us));
	__atomic_store_n(&fz_log->running, 1, __ATOMIC_RELEASE);
	prog = p;
	found = false;
	memset(before, FZ_OP_COUNT, sizeof(before));
	fz_cover_start();
	run_lane(0, 0);
	join();
	reset();
	if (fz_cover_stop(cover))
		found = true;
	__atomic_store_n(&fz_log->running, 0, __ATOMIC_RELEASE);
	fz_log->programs++;
	return found;
}

bool fz_exec_begin(struct fz_cover *shared)
{
	timer_t t;

	cover = shared;
	signals();
	edge = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (edge == MAP_FAILED || mprotect(edge + 8192, 4096, PROT_NONE))
		return false;
	edge += 8192;
	fz_late_begin();
	fz_memfd = fz_own_fd(memfd_create("fuzz", MFD_CLOEXEC));
	if (fz_memfd < 0 || ftruncate(fz_memfd, FZ_BYTES) ||
	    !fz_map_begin() || !ticks(&t))
		return false;
	fz_cover_open();
	reset();
	fz_proc_begin();
	return true;
}
