// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ends.h"
#include "rdma_here.h"
#include "stats.h"
#include "watch.h"

/* How long a worker lives, guards and their namespaces, and what hangs */
#define BATCH_MS	((fz_world.rdma ? 20000 : 3000) * l5_slow())
#define ROUND_MS	(20000 * l5_slow())
#define HANG_MS		((plan->brief ? 5000 : 20000) * l5_slow())
#define LEFT_MS		((plan->brief ? 5000 : 60000) * l5_slow())

/* So many programs of a worker are written down, and how large each is. */
#define WRITTEN		4
#define WRITTEN_SIZE	8192

/* How long a program of another worker is waited for */
#define ALONE_MS	(2000 * l5_slow())

/* Longer than what a call has to do that moves a megabyte, on a slow machine */
#define BUSY_US		100000
/* The same if a thread pokes meanwhile: it is compared with none that does. */
#define HELD_US		1000
/* Some of that are enough to look, when others want the processors, too. */
#define HELD_SOME_US	600
/* So often a program runs again, with others and without. */
#define BUSY_TIMES	40
/* Less often if it never is busy. */
#define BUSY_LOOKS	10
/* All that, so often */
#define BUSY_ROUNDS	3
/* So much longer than without others it has to take. */
#define BUSY_RATIO	3

/* In memory that all generations share */
struct shared {
	struct fz_log log[FZ_WORKERS];
	uint64_t next[FZ_WORKERS];
	uint32_t restarts;
	uint32_t checks;
	uint32_t busy;
	uint32_t alone;
	struct fz_sums sums[FZ_WORKERS];
	struct fz_cover cover;
};

static struct shared *shared;
static const struct fz_plan *plan;
static int64_t run_end;

static uint64_t calls_made(void)
{
	uint64_t sum = 0;
	unsigned int w;

	for (w = 0; w < plan->workers; w++)
		sum += __atomic_load_n(&shared->log[w].calls, __ATOMIC_RELAXED);
	return sum;
}

static bool enough(void)
{
	return l5_now_ms() >= run_end ||
	       (plan->most && calls_made() >= plan->most);
}

/* --- the worker */

static int written[WRITTEN];

/* Once a worker: to open a file of the host's takes longer than a program. */
static void write_begin(int dir, unsigned int w)
{
	char name[32];
	int i, fd;

	for (i = 0; i < WRITTEN; i++) {
		snprintf(name, sizeof(name), "worker.%u.%d", w, i);
		fd = dir < 0 ? -1 : openat(dir, name, O_WRONLY | O_CREAT |
					   O_CLOEXEC, 0644);
		written[i] = fd < 0 ? -1 : fz_own_fd(fd);
	}
}

/* Written before the program runs: it stays if the machine goes down. */
static void write_down(unsigned int w, const struct fz_prog *p)
{
	int fd = written[shared->log[w].programs % WRITTEN];
	static char text[WRITTEN_SIZE];
	FILE *f;

	if (fd < 0)
		return;
	memset(text, '\n', sizeof(text));
	f = fmemopen(text, sizeof(text) - 1, "w");
	if (!f)
		return;
	fz_print(f, "", p, NULL);
	fclose(f);
	if (pwrite(fd, text, sizeof(text), 0) < 0)
		perror("# fuzz: what runs cannot be written down");
}

/* The next program of worker @w; false if there is none. */
static bool make_program(unsigned int w, struct fz_prog *p)
{
	uint64_t i = shared->next[w]++, number;
	const struct fz_prog *from, *other;
	struct fz_rnd r;

	if (plan->times && i >= plan->times)
		return false;
	if (plan->one) {
		*p = *plan->one;
		return true;
	}
	number = plan->from + w + i * plan->workers;
	r = fz_rnd_of(~plan->seed, number);
	from = plan->guide && !fz_once_in(&r, 4) ?
		fz_cover_some(&shared->cover, &r) : NULL;
	other = from ? fz_cover_some(&shared->cover, &r) : NULL;
	if (other)
		fz_mutate(p, from, other, plan->seed, number, plan->lanes);
	else
		fz_gen(p, plan->seed, number, plan->lanes);
	return true;
}

/*
 * A worker that has to know how long something takes has the machine for
 * itself: the others rest between two programs. False if it is another's.
 */
static bool alone_begin(unsigned int w)
{
	uint32_t none = 0;
	int64_t end = l5_now_ms() + ALONE_MS;
	unsigned int i;

	if (!__atomic_compare_exchange_n(&shared->alone, &none, w + 1, false,
					 __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		return false;
	for (i = 0; i < plan->workers; i++)
		while (i != w && __atomic_load_n(&shared->log[i].running,
						 __ATOMIC_SEQ_CST) &&
		       l5_now_ms() < end)
			usleep(1000);
	return true;
}

/* Also for a worker that died of it */
static void alone_end(unsigned int w)
{
	uint32_t own = w + 1;

	__atomic_compare_exchange_n(&shared->alone, &own, 0, false,
				    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static void let_others(struct fz_log *log)
{
	while (__atomic_load_n(&shared->alone, __ATOMIC_SEQ_CST)) {
		log->rests++;
		usleep(1000);
	}
}

static int larger_first(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x < y) - (x > y);
}

/*
 * Which calls of it keep a CPU for @us or longer in each eighth run, and
 * several times as long as ever without the others? Ever: but for one run. Each
 * is compared with itself, since a program has calls that take long by
 * themselves. Those that do not keep one are taken out of @still.
 *
 * Return: whether any is left.
 */
static bool busy_by_others(const struct fz_prog *p, enum fz_without without,
			   uint32_t us, bool *still)
{
	static uint32_t whole[FZ_CALLS][BUSY_TIMES];
	static uint32_t alone[FZ_CALLS][BUSY_TIMES];
	unsigned int i, at, n = 0;
	bool any = false;

	for (i = 0; i < BUSY_TIMES; i++) {
		fz_exec(p);
		for (at = 0; at < p->n; at++) {
			whole[at][i] = fz_log->busy_us[at];
			n += still[at] && whole[at][i] >= us;
		}
		if (!n && i >= BUSY_LOOKS)
			return false;
		fz_world.without = without;
		fz_exec(p);
		fz_world.without = FZ_WHOLE;
		for (at = 0; at < p->n; at++)
			alone[at][i] = fz_log->busy_us[at];
	}
	i = BUSY_TIMES / 8 - 1;
	for (at = 0; at < p->n; at++) {
		qsort(whole[at], BUSY_TIMES, sizeof(**whole), larger_first);
		qsort(alone[at], BUSY_TIMES, sizeof(**alone), larger_first);
		still[at] = still[at] && whole[at][i] >= us &&
			    whole[at][i] >= BUSY_RATIO * alone[at][1];
		any |= still[at];
	}
	return any;
}

/*
 * A call that kept a CPU for long. A machine that stands still does that, too,
 * but to any call; a call that turns round in the kernel for as long as others
 * like does it only if there are others: threads that poke, or lanes. A call
 * that does so by itself is left to what looks for those that hang.
 */
static bool busy(unsigned int w, const struct fz_prog *p)
{
	bool hands = plan->held && fz_has_hands(p), again = false;
	uint32_t some = (hands ? HELD_SOME_US : BUSY_US) * l5_slow();
	uint32_t most = (hands ? HELD_US : BUSY_US) * l5_slow();
	bool still[FZ_CALLS];
	uint32_t us[FZ_CALLS];
	unsigned int i, at;

	memcpy(us, fz_log->busy_us, sizeof(us));
	for (at = 0; at < FZ_CALLS; at++) {
		still[at] = us[at] >= some;
		again |= still[at];
	}
	if (!again)
		return false;
	shared->busy++;
	if (!alone_begin(w))
		return false;
	for (i = 0; i < BUSY_ROUNDS && again; i++)
		again = busy_by_others(p, hands ? FZ_NO_HANDS : FZ_NO_LANES,
				       most, still);
	alone_end(w);
	if (!again)
		return false;
	for (at = 0; !still[at]; at++)
		;
	fz_log->at[p->call[at].lane] = at + 1;
	snprintf(fz_log->complaint, sizeof(fz_log->complaint),
		 "%s keeps a CPU for as long as others like, once %u us",
		 fz_op_name[p->call[at].op], us[at]);
	return true;
}

static void limits(void)
{
	static const struct {
		int what;
		rlim_t most;
	} limit[] = {
		{ RLIMIT_NOFILE, 256 }, { RLIMIT_CORE, 0 },
		{ RLIMIT_FSIZE, 64 << 20 }, { RLIMIT_CPU, 600 },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(limit); i++) {
		struct rlimit l = { limit[i].most, limit[i].most };

		setrlimit(limit[i].what, &l);
	}
}

static void worker(unsigned int w, int dir)
{
	int64_t end = l5_now_ms() + BATCH_MS;
	struct fz_prog p;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	limits();
	fz_log = &shared->log[w];
	fz_log->running = 0;
	write_begin(dir, w);
	/* what it needs of its own is above what programs may close */
	fz_world.home = fz_world.home < 0 ? -1 : fz_own_fd(fz_world.home);
	fz_world.far = fz_world.far < 0 ? -1 : fz_own_fd(fz_world.far);
	if (fz_world.rdma) {
		struct fz_rnd r = fz_rnd_of(plan->seed, fz_log->programs);

		fz_proc_notify(fz_below(&r, 5));
	}
	if (!fz_exec_begin(&shared->cover)) {
		perror("# fuzz: no worker");
		_exit(2);
	}
	fz_kmsg_begin();
	while (l5_now_ms() < end && !enough() && make_program(w, &p)) {
		let_others(fz_log);
		write_down(w, &p);
		if (fz_exec(&p) && !plan->one)
			fz_cover_keep(&shared->cover, &p);
		if (fz_kmsg_complains(fz_log->complaint,
				      sizeof(fz_log->complaint)))
			_exit(3);
		if (busy(w, &p))
			_exit(4);
	}
	_exit(0);
}

/* --- the guard */

static void tell(unsigned int w, const char *what)
{
	const struct fz_log *log = &shared->log[w];

	l5_fatal("fuzz: %s (seed %" PRIu64 ", worker %u, after %" PRIu64
		 " calls)", what, plan->seed, w, log->calls);
	fz_print(stderr, "# ", &log->prog, log->at);
	fflush(stderr);
}

/* Where all of ours are in the kernel */
static void stacks(void)
{
	sh("for t in /proc/[0-9]*/task/[0-9]*; do "
	   "[ \"$(cat $t/comm 2>/dev/null)\" = fuzz ] || continue; "
	   "echo \"# $t $(cat $t/syscall)\"; sed 's/^/#   /' $t/stack; "
	   "done 2>/dev/null");
}

/* Start a worker: its pid in this namespace; what it leaves dies with it. */
static pid_t start(void)
{
	pid_t pid = syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0);

	return pid < 0 ? fork() : pid;
}

/* Kill a worker that hangs. Its status; -1 if it did not even die. */
static int wait_worker(unsigned int w, pid_t pid, bool *hung)
{
	int64_t since = l5_now_ms();
	uint64_t last = 0, now;
	int status;

	*hung = false;
	while (!waitpid(pid, &status, WNOHANG)) {
		now = shared->log[w].calls + shared->log[w].programs +
		      shared->log[w].rests;
		if (now != last) {
			last = now;
			since = l5_now_ms();
		}
		if (!*hung && l5_now_ms() - since > HANG_MS) {
			*hung = true;
			tell(w, "it hangs");
			stacks();
			kill(pid, SIGKILL);
		} else if (l5_now_ms() - since > 2 * HANG_MS) {
			l5_fatal("fuzz: not even SIGKILL ends it");
			stacks();
			return -1;
		}
		usleep(20000);
	}
	return status;
}

/* Lines of /proc/net/l5 without the first */
static int sockets_here(void)
{
	FILE *f = fopen("/proc/net/l5", "re");
	int n = -1, ch;

	if (!f)
		return 0;
	while ((ch = fgetc(f)) != EOF)
		n += ch == '\n';
	fclose(f);
	return n;
}

static const char *const gauges[] = {
	"pairs", "rings_kb", "reserved_kb", "rdma_now", "rdma_candidates",
};

/* What is not 0, or NULL */
static const char *left_here(void)
{
	unsigned int i;

	if (sockets_here() > 0)
		return "sockets in /proc/net/l5";
	for (i = 0; i < ARRAY_SIZE(gauges); i++)
		if (l5_stat(gauges[i]) > 0)
			return gauges[i];
	return NULL;
}

/* Is nothing left of a batch, soon? */
static bool clean(unsigned int w, int net, const char *where)
{
	int64_t end = l5_now_ms() + LEFT_MS;
	const char *what;
	char text[100];

	if (net < 0 || fz_world.plain)
		return true;
	net_enter(net);
	while ((what = left_here()) && l5_now_ms() < end)
		usleep(5000);
	if (!what)
		return true;
	snprintf(text, sizeof(text), "left in the %s namespace: %s", where,
		 what);
	tell(w, text);
	sh("sed 's/^/# /' /proc/net/l5 /proc/net/l5_stat");
	return false;
}

/* Are connections as they should be, after all that? */
static bool works(unsigned int w)
{
	static const char *const at[] = { "127.0.0.1:0", "abstract:fuzzed" };
	unsigned int i;
	bool ok = true;

	net_enter(fz_world.home);
	for (i = 0; i < ARRAY_SIZE(at) && ok; i++) {
		struct addr to = addr_parse(at[i]);
		int l = end_listen(fz_world.plain ? END_TCP : END_L5, &to);
		int c = end_connect(fz_world.plain ? END_TCP : END_L5, &to);
		int s = c < 0 ? -1 : accept(l, NULL, NULL);

		ok = s >= 0 && end_exchange(c, s, 3000, 0);
		close(l);
		close(c);
		close(s);
	}
	if (!ok)
		tell(w, "a new connection does not work");
	return ok;
}

static const char *how_ended(unsigned int w, int status)
{
	static char text[250];

	if (WIFSIGNALED(status))
		snprintf(text, sizeof(text), "a worker was killed by signal %d",
			 WTERMSIG(status));
	else if (WEXITSTATUS(status) == 3)
		snprintf(text, sizeof(text), "the kernel complains: %s",
			 shared->log[w].complaint);
	else if (WEXITSTATUS(status) == 4)
		snprintf(text, sizeof(text), "%s", shared->log[w].complaint);
	else
		snprintf(text, sizeof(text), "a worker failed, status %d",
			 WEXITSTATUS(status));
	return text;
}

static bool batch(unsigned int w, int dir)
{
	pid_t pid;
	bool hung;
	int status;

	net_enter(fz_world.home);
	fflush(NULL);
	pid = start();
	if (!pid)
		worker(w, dir);
	if (pid < 0)
		return false;
	shared->restarts++;
	status = wait_worker(w, pid, &hung);
	alone_end(w);
	if (hung || status == -1)
		return false;
	if (status) {
		tell(w, how_ended(w, status));
		return false;
	}
	shared->checks++;
	return clean(w, fz_world.home, "first") &&
	       clean(w, fz_world.far, "second") && works(w);
}

static bool lo_up(void)
{
	struct ifreq r = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool ok = fd >= 0 && !ioctl(fd, SIOCSIFFLAGS, &r);

	close(fd);
	return ok;
}

static int new_net(void)
{
	return unshare(CLONE_NEWNET) || !lo_up() ? -1 : net_current();
}

/* Two namespaces, with a way from one to the other if there is veth. */
static bool networks(void)
{
	if (fz_world.rdma) {
		/* such a device is in the first one alone */
		fz_world.home = net_current();
		return fz_world.home >= 0;
	}
	fz_world.far = new_net();
	fz_world.home = new_net();
	if (fz_world.far < 0 || fz_world.home < 0)
		return false;
	if (fz_world.plain)
		return true;
	if (sh("ip link add va type veth peer name vb netns /proc/%d/fd/%d && "
	       "ip addr add 10.77.0.1/24 dev va && ip link set va up",
	       getpid(), fz_world.far))
		return true;
	net_enter(fz_world.far);
	sh("ip addr add 10.77.0.2/24 dev vb && ip link set vb up");
	return net_enter(fz_world.home);
}

/* A directory for the files that AF_UNIX makes */
static char dir_name[] = "/tmp/fuzz.XXXXXX";

static bool own_dir(void)
{
	return mkdtemp(dir_name) && !chdir(dir_name);
}

static void leave_dir(void)
{
	unlink("fuzz0");
	unlink("fuzz1");
	rmdir(dir_name);
}

static void guard(unsigned int w, int dir)
{
	int64_t end = l5_now_ms() + ROUND_MS;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGPIPE, SIG_IGN);
	if (!own_dir() || !networks()) {
		perror("# fuzz: no namespace");
		_exit(2);
	}
	do {
		if (!batch(w, dir))
			_exit(1);
	} while (l5_now_ms() < end && !enough() &&
		 (!plan->times || shared->next[w] < plan->times));
	net_enter(fz_world.home);
	fz_sums_here(&shared->sums[w]);
	leave_dir();
	_exit(0);
}

/* --- the run */

static bool gone(long long refs, long long kb)
{
	int64_t end = l5_now_ms() + LEFT_MS;

	while (l5_references() != refs || l5_stat("host_reserved_kb") != kb) {
		if (l5_now_ms() > end) {
			l5_fatal("fuzz: left: %lld references, not %lld; %lld KiB, not %lld",
				 l5_references(), refs,
				 l5_stat("host_reserved_kb"), kb);
			return false;
		}
		usleep(20000);
	}
	return true;
}

static bool run_round(int dir)
{
	pid_t pid[FZ_WORKERS];
	unsigned int w;
	bool ok = true;
	int status;

	fflush(NULL);
	for (w = 0; w < plan->workers; w++) {
		pid[w] = fork();
		if (!pid[w])
			guard(w, dir);
	}
	for (w = 0; w < plan->workers; w++) {
		while (waitpid(pid[w], &status, 0) < 0 && errno == EINTR)
			;
		ok = ok && !status;
	}
	return ok;
}

static void summary(void)
{
	const struct fz_cover *v = &shared->cover;
	uint64_t programs = 0;
	unsigned int w;

	for (w = 0; w < plan->workers; w++)
		programs += shared->log[w].programs;
	printf("# calls done: %" PRIu64 ", seed: %" PRIu64
	       ", coverage: %u places (%u first in a softirq), %u outcomes\n",
	       calls_made(), plan->seed, v->pcs, v->far_pcs, v->outcomes);
	printf("# programs: %" PRIu64 ", %u kept; %u restarts; %u times "
	       "nothing was left; %u were slow once\n", programs, v->kept,
	       shared->restarts, shared->checks, shared->busy);
	fflush(stdout);
}

static void stats(void)
{
	static struct fz_sums all;
	unsigned int w;

	for (w = 0; w < plan->workers; w++)
		fz_sums_add(&all, &shared->sums[w]);
	fz_stats_print(shared->log, plan->workers, &all);
	fflush(stdout);
}

/*
 * References to the module before anything was made. Some end later than the
 * processes that had them: those of the sockets that were tried a moment ago.
 */
static long long references(void)
{
	int64_t end = l5_now_ms() + 1000;
	long long n, least = l5_references();

	while (least > 0 && l5_now_ms() < end) {
		usleep(20000);
		n = l5_references();
		if (n < least)
			least = n;
	}
	return least;
}

int fz_run(const struct fz_plan *p)
{
	long long refs = references(), kb = l5_stat("host_reserved_kb");
	int dir = -1;
	bool ok;

	plan = p;
	if (shared)
		munmap(shared, sizeof(*shared));
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return 1;
	if (plan->dir)
		dir = open(plan->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	run_end = l5_now_ms() + plan->seconds * 1000LL;
	do {
		ok = run_round(dir) && gone(refs, kb);
		if (!plan->brief)
			summary();
	} while (ok && !enough() &&
		 (!plan->times || shared->next[0] < plan->times));
	if (ok && plan->most && calls_made() < plan->most && !plan->times) {
		fprintf(stderr, "# fuzz: %" PRIu64 " calls, not %" PRIu64
			", in %u s\n", calls_made(), plan->most,
			plan->seconds);
		ok = false;
	}
	if (plan->stats)
		stats();
	if (dir >= 0)
		close(dir);
	return !ok;
}
