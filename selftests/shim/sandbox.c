// SPDX-License-Identifier: GPL-2.0
/*
 * Programs under the preload library that give up system calls: what they still
 * may call is all that is called, no wake-up is lost, and every byte arrives.
 * Such a program is a server in a process of its own; the test is its client.
 */
#define SHIM	shim_sandbox_inner
#include "shim.h"

#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/prctl.h>

#include "ends.h"

/* What an inner program is to do, after exec() under a filter. */
#define INNER		"L5_TEST_SANDBOX"
#define INNER_FD	100

enum { ROUNDS = 1000 };

/* Filters: a list of calls, what becomes of them, and of all others. */
#define LOAD_NR		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,		\
				 offsetof(struct seccomp_data, nr))
#define IF(nr)		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (nr), 0, 1)
#define THEN_DO(what)	BPF_STMT(BPF_RET | BPF_K, (what))

enum { CALLS_MAX = 64 };

#define EPERM_IT	(SECCOMP_RET_ERRNO | EPERM)
#define KILL		SECCOMP_RET_KILL_PROCESS
#define ALLOW		SECCOMP_RET_ALLOW

/* The call that puts it in: only the last passes the library by. */
enum by { BY_PRCTL, BY_SYSCALL, BY_TSYNC, BY_STEALTH };

static bool filter(enum by by, const int *nr, unsigned int yes, unsigned int no)
{
	static struct sock_filter f[2 * CALLS_MAX + 2];
	struct sock_fprog prog = { .filter = f };
	long (*libc)(long n, ...);
	void *h;
	int i;

	f[prog.len++] = (struct sock_filter)LOAD_NR;
	for (i = 0; nr[i] >= 0; i++) {
		f[prog.len++] = (struct sock_filter)IF(nr[i]);
		f[prog.len++] = (struct sock_filter)THEN_DO(yes);
	}
	f[prog.len++] = (struct sock_filter)THEN_DO(no);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return false;
	switch (by) {
	case BY_PRCTL:
		return !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
	case BY_SYSCALL:
		return !syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog);
	case BY_TSYNC:
		return !syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
				SECCOMP_FILTER_FLAG_TSYNC, &prog);
	default:
		h = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
		libc = h ? (long (*)(long, ...))dlsym(h, "syscall") : NULL;
		return libc && !libc(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0,
				     &prog);
	}
}

static const int few[] = {
	SYS_read, SYS_write, SYS_exit_group, SYS_rt_sigreturn, -1
};

/* The ways to give up calls; each begins with a mapped socket. */
enum way {
	FEW_BY_PRCTL,		/* killed for anything but a few */
	FEW_BY_SYSCALL,
	NO_IOCTL,		/* EPERM */
	NO_IOCTL_STEALTH,	/* and the library was not told */
	NO_IOCTL_SEND_STEALTH,	/* nor sendto() */
	NO_MEMBARRIER,		/* killed for that, as vsftpd */
	NO_GETSOCKOPT,		/* and for that, as sshd */
	STRICT,
	STRICT_UNMAPPED,	/* before anything is mapped */
	WAYS,
};

static const char *const way_name[] = {
	"few by prctl", "few by syscall", "no ioctl", "no ioctl, unseen",
	"no ioctl nor sendto, unseen", "no membarrier", "no getsockopt",
	"strict", "strict, unmapped",
};

static bool give_up(enum way way)
{
	static const int ioctls[] = { SYS_ioctl, -1 };
	static const int rings[] = { SYS_ioctl, SYS_sendto, -1 };
	static const int membarriers[] = { SYS_membarrier, -1 };
	static const int getsockopts[] = { SYS_getsockopt, -1 };

	switch (way) {
	case FEW_BY_PRCTL:
		return filter(BY_PRCTL, few, ALLOW, KILL);
	case FEW_BY_SYSCALL:
		return filter(BY_SYSCALL, few, ALLOW, KILL);
	case NO_IOCTL:
		return filter(BY_PRCTL, ioctls, EPERM_IT, ALLOW);
	case NO_IOCTL_STEALTH:
		return filter(BY_STEALTH, ioctls, EPERM_IT, ALLOW);
	case NO_IOCTL_SEND_STEALTH:
		return filter(BY_STEALTH, rings, EPERM_IT, ALLOW);
	case NO_MEMBARRIER:
		return filter(BY_PRCTL, membarriers, KILL, ALLOW);
	case NO_GETSOCKOPT:
		return filter(BY_PRCTL, getsockopts, KILL, ALLOW);
	default:
		return !prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
	}
}

static void busy(void)
{
	volatile int i;

	for (i = 0; i < 300000; i++)
		;
}

/* A server that answers late has the client asleep. */
static bool echo(int fd)
{
	char b[64];
	ssize_t n;
	int i;

	for (i = 0;; i++) {
		n = read(fd, b, sizeof(b));
		if (n <= 0)
			return !n;
		if (!(i % 16))
			busy();
		if (write(fd, b, n) != n)
			return false;
	}
}

typedef ssize_t (*mover)(int fd, void *buf, size_t n);

static ssize_t libc_write(int fd, void *buf, size_t n)
{
	return write(fd, buf, n);
}

static ssize_t raw_put(int fd, void *buf, size_t n)
{
	return raw_write(fd, buf, n);
}

/* The client: by the library, or by system calls alone. */
static bool rounds(int fd, bool mapped, int n)
{
	mover put = mapped ? libc_write : raw_put;
	mover get = mapped ? read : raw_read;
	unsigned char out[8], in[8];
	int i, len, k;
	ssize_t got;

	for (i = 0; i < n; i++) {
		len = 1 + i % sizeof(out);
		l5_fill(out, len, i);
		if (!(i % 16))
			usleep(2000);
		if (put(fd, out, len) != len)
			return false;
		for (k = 0; k < len; k += got) {
			got = get(fd, in + k, len - k);
			if (got <= 0) {
				fprintf(stderr, "# round %d: %zd %m\n", i, got);
				return false;
			}
		}
		if (l5_check(in, len, i) >= 0)
			return false;
	}
	return true;
}

/* Mapped by use, which is seen. */
static bool warm(int fd, bool first)
{
	char c = 'w';
	int i;

	for (i = 0; i < 4 * SHIM_AFTER; i++)
		if ((first && write(fd, &c, 1) != 1) || read(fd, &c, 1) != 1 ||
		    (!first && write(fd, &c, 1) != 1))
			return false;
	return shim_maps() == 1;
}

/* What hangs is ended. */
static void limit_time(void)
{
	alarm(60 * l5_slow());
}

/* By what the filter allows. */
static void leave(enum way way, int status)
{
	syscall(way < STRICT ? SYS_exit_group : SYS_exit, status);
}

/* A descriptor that is used as often as one that is mapped. */
static bool another(int fd)
{
	char c;
	int i;

	for (i = 0; i < 8 * SHIM_AFTER; i++)
		if (read(fd, &c, 1) != 1)
			return false;
	return true;
}

static void server(int l, enum way way)
{
	int fd = accept(l, NULL, NULL), zero = open("/dev/zero", O_RDONLY);
	bool ok;

	limit_time();
	if (fd < 0 || (way != STRICT_UNMAPPED && !warm(fd, false)) ||
	    !give_up(way))
		_exit(2);
	ok = another(zero) && echo(fd);
	if (way >= NO_IOCTL && way < STRICT)
		ok = !close(fd) && !close(zero) && ok;
	leave(way, ok ? 0 : 3);
}

FIXTURE(shim_sandbox) { };

FIXTURE_VARIANT(shim_sandbox)
{
	enum way way;
	bool mapped;
};

#define VARIANT(name, w)						\
FIXTURE_VARIANT_ADD(shim_sandbox, name##_mapped)			\
{									\
	.way = (w),							\
	.mapped = true,							\
};									\
FIXTURE_VARIANT_ADD(shim_sandbox, name##_kernel)			\
{									\
	.way = (w),							\
}

VARIANT(few_by_prctl, FEW_BY_PRCTL);
VARIANT(few_by_syscall, FEW_BY_SYSCALL);
VARIANT(no_ioctl, NO_IOCTL);
VARIANT(no_ioctl_stealth, NO_IOCTL_STEALTH);
VARIANT(no_ioctl_send_stealth, NO_IOCTL_SEND_STEALTH);
VARIANT(no_membarrier, NO_MEMBARRIER);
VARIANT(no_getsockopt, NO_GETSOCKOPT);
VARIANT(strict, STRICT);
VARIANT(strict_unmapped, STRICT_UNMAPPED);

FIXTURE_SETUP(shim_sandbox)
{
	(void)self;
	(void)variant;
	if (!l5_present()) {
		if (getenv("L5_REQUIRED"))
			ASSERT_TRUE(l5_present());
		SKIP(return, "no AF_L5 here");
	}
	limit_time();
	signal(SIGPIPE, SIG_IGN);
}

FIXTURE_TEARDOWN(shim_sandbox)
{
	(void)self;
	(void)_metadata;
}

/* Asked, answered, closed by the client; exit() and all. */
TEST_F_TIMEOUT(shim_sandbox, echoes, 200)
{
	struct sockaddr_in sa;
	int l, fd, st;
	pid_t pid;

	TH_LOG("%s", way_name[variant->way]);
	ASSERT_TRUE(shim_listen(L5, &l, &sa));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid)
		server(l, variant->way);
	close(l);
	fd = shim_socket(L5, 0);
	ASSERT_EQ(0, connect(fd, (struct sockaddr *)&sa, sizeof(sa)));
	if (variant->way != STRICT_UNMAPPED)
		ASSERT_TRUE(warm(fd, true));
	EXPECT_TRUE(rounds(fd, variant->mapped, ROUNDS));
	close(fd);
	st = l5_reap(pid);
	ASSERT_EQ(0, WIFSIGNALED(st) ? WTERMSIG(st) : 0);
	ASSERT_EQ(0, st);
}

/* A stream that fills the ring: a writer that waits for room is woken, too. */
enum { STREAM = 4 << 20 };

static void stream_server(int l, enum way way)
{
	static char b[65536];
	int fd = accept(l, NULL, NULL);
	uint64_t pos = 0;
	ssize_t n;

	limit_time();
	if (fd < 0 || !warm(fd, false) || !give_up(way))
		_exit(2);
	while (pos < STREAM) {
		/* late, so that the client sleeps in its send */
		busy();
		n = read(fd, b, sizeof(b));
		if (n <= 0 || l5_check(b, n, pos) >= 0)
			leave(way, 3);
		pos += n;
	}
	leave(way, write(fd, "k", 1) == 1 ? 0 : 4);
}

TEST_F_TIMEOUT(shim_sandbox, takes_a_stream, 200)
{
	static char b[STREAM];
	struct sockaddr_in sa;
	int l, fd, st;
	pid_t pid;
	char c;

	if (variant->way == STRICT_UNMAPPED)
		return;
	ASSERT_TRUE(shim_listen(L5, &l, &sa));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid)
		stream_server(l, variant->way);
	close(l);
	fd = shim_socket(L5, 0);
	ASSERT_EQ(0, connect(fd, (struct sockaddr *)&sa, sizeof(sa)));
	ASSERT_TRUE(warm(fd, true));
	l5_fill(b, sizeof(b), 0);
	EXPECT_EQ((ssize_t)sizeof(b),
		  (variant->mapped ? libc_write : raw_put)(fd, b, sizeof(b)));
	EXPECT_EQ(1, read(fd, &c, 1));
	close(fd);
	st = l5_reap(pid);
	ASSERT_EQ(0, WIFSIGNALED(st) ? WTERMSIG(st) : 0);
	ASSERT_EQ(0, st);
}

/* Other threads are in the middle of everything when the filter comes. */

enum { FLOWS = 4, FLOW_BYTES = 512 << 10, TSYNCS = 12 };

static int flow_done[2], flow_begun;

static void *flow(void *arg)
{
	int fd = (intptr_t)arg & 0xffff, sends = (intptr_t)arg >> 16, len;
	char b[5000], c;
	uint64_t pos = 0;
	bool ok = true;
	ssize_t n;

	__atomic_add_fetch(&flow_begun, 1, __ATOMIC_RELEASE);
	for (; ok && pos < FLOW_BYTES; pos += n) {
		len = FLOW_BYTES - pos < sizeof(b) ? FLOW_BYTES - pos :
						     sizeof(b);
		if (sends) {
			l5_fill(b, len, pos);
			n = write(fd, b, len);
			ok = n == len;
		} else {
			n = read(fd, b, len);
			ok = n > 0 && l5_check(b, n, pos) < 0;
		}
	}
	c = ok ? 'y' : 'n';
	if (write(flow_done[1], &c, 1) != 1)
		syscall(SYS_exit_group, 5);
	/* a thread's end takes calls that are not allowed */
	while (read(fd, &c, 1) >= 0)
		busy();
	return NULL;
}

static void flow_server(int l, int round)
{
	pthread_t t;
	int fd[FLOWS], i;
	char c;

	limit_time();
	for (i = 0; i < FLOWS; i++)
		fd[i] = accept(l, NULL, NULL);
	if (pipe(flow_done))
		_exit(2);
	for (i = 0; i < FLOWS; i++)
		if (pthread_create(&t, NULL, flow,
				   (void *)(intptr_t)(fd[i] | (i & 1) << 16)))
			_exit(2);
	/* a thread's begin takes calls, too */
	while (__atomic_load_n(&flow_begun, __ATOMIC_ACQUIRE) != FLOWS)
		usleep(100);
	usleep(1000 * round);
	if (!filter(BY_TSYNC, few, ALLOW, KILL))
		_exit(2);
	for (i = 0; i < FLOWS; i++)
		if (read(flow_done[0], &c, 1) != 1 || c != 'y')
			syscall(SYS_exit_group, 3);
	syscall(SYS_exit_group, 0);
}

SHIM_TEST(threads_are_synchronized)
{
	int l, fd[FLOWS], i, round, st;
	struct sockaddr_in sa;
	pid_t pid, client;

	signal(SIGPIPE, SIG_IGN);
	for (round = 0; round < TSYNCS; round++) {
		ASSERT_TRUE(shim_listen(L5, &l, &sa));
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid)
			flow_server(l, round);
		client = fork();
		ASSERT_LE(0, client);
		if (!client) {
			pthread_t t[FLOWS];
			char c;

			limit_time();
			if (pipe(flow_done))
				_exit(2);
			for (i = 0; i < FLOWS; i++) {
				fd[i] = shim_socket(L5, 0);
				if (connect(fd[i], (struct sockaddr *)&sa,
					    sizeof(sa)))
					_exit(2);
			}
			for (i = 0; i < FLOWS; i++)
				pthread_create(&t[i], NULL, flow,
					       (void *)(intptr_t)
					       (fd[i] | !(i & 1) << 16));
			for (i = 0; i < FLOWS; i++)
				if (read(flow_done[0], &c, 1) != 1 || c != 'y')
					_exit(3);
			_exit(0);
		}
		close(l);
		st = l5_reap(pid);
		EXPECT_EQ(0, WIFSIGNALED(st) ? WTERMSIG(st) : 0);
		EXPECT_EQ(0, st);
		st = l5_reap(client);
		ASSERT_EQ(0, st) TH_LOG("round %d", round);
	}
}

/* Filters that were there before the program */

/* An inner program: says whether it maps, and echoes. */
__attribute__((constructor(65535))) static void inner(void)
{
	const char *what = getenv(INNER);
	char c;

	if (!what || !getenv(SHIM_AGAIN))
		return;
	alarm(60);
	/* "mapped" was seen by reading a file, "quiet" cannot be */
	if (!strcmp(what, "mapped")) {
		if (!warm(INNER_FD, false))
			_exit(6);
	} else {
		int i;

		for (i = 0; i < 4 * SHIM_AFTER; i++)
			if (read(INNER_FD, &c, 1) != 1 ||
			    write(INNER_FD, &c, 1) != 1)
				_exit(7);
	}
	_exit(echo(INNER_FD) ? 0 : 3);
}

/* What the loader needs, and a child that tries a filter out. */
static const int loader[] = {
	SYS_execve, SYS_brk, SYS_mmap, SYS_munmap, SYS_mprotect, SYS_openat,
	SYS_read, SYS_pread64, SYS_close, SYS_fstat, SYS_newfstatat,
	SYS_access, SYS_arch_prctl, SYS_set_tid_address, SYS_set_robust_list,
	SYS_rseq, SYS_prlimit64, SYS_getrandom, SYS_write, SYS_exit_group,
	SYS_exit, SYS_alarm, SYS_clone, SYS_wait4, SYS_rt_sigprocmask,
	SYS_rt_sigreturn, SYS_futex, -1
};

struct inherited {
	const char *name;
	const char *what;	/* for the inner program */
	int nr[4];
	unsigned int yes;
	unsigned int no;
	bool by_loader;		/* the list is that one */
};

static const struct inherited inherited[] = {
	{ "all is allowed", "mapped", { -1 }, ALLOW, ALLOW, false },
	{ "no membarrier: EPERM", "mapped", { SYS_membarrier, -1 }, EPERM_IT,
	  ALLOW, false },
	{ "only the loader's", "quiet", { -1 }, ALLOW, KILL, true },
	{ "only the loader's: EPERM", "quiet", { -1 }, ALLOW, EPERM_IT, true },
	{ "no membarrier", "quiet", { SYS_membarrier, -1 }, KILL, ALLOW,
	  false },
	{ "no getsockopt", "quiet", { SYS_getsockopt, -1 }, KILL, ALLOW,
	  false },
	{ "no ioctl", "quiet", { SYS_ioctl, -1 }, KILL, ALLOW, false },
	{ "no ioctl: EPERM", "quiet", { SYS_ioctl, -1 }, EPERM_IT, ALLOW,
	  false },
	{ "no sigaltstack, trap", "quiet", { SYS_sigaltstack, -1 },
	  SECCOMP_RET_TRAP, ALLOW, false },
	{ "no getpid, one thread", "quiet", { SYS_getpid, -1 },
	  SECCOMP_RET_KILL_THREAD, ALLOW, false },
};

static void exec_under(const struct inherited *in, int l)
{
	char *argv[] = { "inner", NULL };
	int fd = accept(l, NULL, NULL);

	if (dup2(fd, INNER_FD) != INNER_FD)
		_exit(2);
	close(fd);
	setenv(INNER, in->what, 1);
	if (!filter(BY_STEALTH, in->by_loader ? loader : in->nr, in->yes,
		    in->no))
		_exit(2);
	execv("/proc/self/exe", argv);
	_exit(8);
}

SHIM_TEST(filters_are_inherited)
{
	unsigned int i;
	struct sockaddr_in sa;
	int l, fd, st;
	pid_t pid;

	for (i = 0; i < sizeof(inherited) / sizeof(*inherited); i++) {
		TH_LOG("%s", inherited[i].name);
		ASSERT_TRUE(shim_listen(L5, &l, &sa));
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid)
			exec_under(&inherited[i], l);
		close(l);
		fd = shim_socket(L5, 0);
		ASSERT_EQ(0, connect(fd, (struct sockaddr *)&sa, sizeof(sa)));
		limit_time();
		EXPECT_TRUE(warm(fd, true));
		EXPECT_TRUE(rounds(fd, true, 200));
		close(fd);
		st = l5_reap(pid);
		EXPECT_EQ(0, WIFSIGNALED(st) ? WTERMSIG(st) : 0);
		EXPECT_EQ(0, st) TH_LOG("%s: %x", inherited[i].name, st);
	}
}

/* A fatal signal is fatal under a filter, too: no call is needed. */
struct fatal {
	const char *name;
	enum by by;
	unsigned int others;	/* what becomes of calls but a few */
	bool sent;		/* the program is kill()ed; else it faults */
};

static const struct fatal fatals[] = {
	{ "fault, EPERM", BY_PRCTL, EPERM_IT, false },
	{ "fault, killed for calls", BY_PRCTL, KILL, false },
	{ "fault, EPERM, unseen", BY_STEALTH, EPERM_IT, false },
	{ "fault, killed for calls, unseen", BY_STEALTH, KILL, false },
	{ "sent, EPERM", BY_PRCTL, EPERM_IT, true },
	{ "sent, killed for calls", BY_PRCTL, KILL, true },
	{ "sent, EPERM, unseen", BY_STEALTH, EPERM_IT, true },
};

static void die_under(const struct fatal *f, int fd)
{
	int *volatile nowhere = (int *)8;
	int a, b;
	char c;

	limit_time();
	if (!shim_pair(L5, &a, &b) || !shim_warm(a, b) || shim_maps() != 2 ||
	    !filter(f->by, few, ALLOW, f->others))
		_exit(2);
	if (write(fd, "r", 1) != 1)
		leave(FEW_BY_PRCTL, 3);
	if (!f->sent)
		*nowhere = 1;
	/* a process that outlives the signal ends with the test */
	while (read(fd, &c, 1) == 1)
		;
	leave(FEW_BY_PRCTL, 4);
}

SHIM_TEST(faults_are_fatal)
{
	int p[2], st, k;
	unsigned int i;
	pid_t pid;
	char c;

	for (i = 0; i < sizeof(fatals) / sizeof(*fatals); i++) {
		ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, p));
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			close(p[0]);
			die_under(&fatals[i], p[1]);
		}
		close(p[1]);
		ASSERT_EQ(1, read(p[0], &c, 1));
		if (fatals[i].sent)
			kill(pid, SIGSEGV);
		st = 0;
		for (k = 0; k < 1000 * l5_slow(); k++) {
			if (waitpid(pid, &st, WNOHANG))
				break;
			usleep(10000);
		}
		if (k == 1000 * l5_slow()) {
			kill(pid, SIGKILL);
			waitpid(pid, &st, 0);
		}
		close(p[0]);
		EXPECT_TRUE(WIFSIGNALED(st) && WTERMSIG(st) == SIGSEGV)
			TH_LOG("%s: status %x", fatals[i].name, st);
	}
}

/* syscall() does as libc's in all but what it is there for. */
SHIM_TEST(syscalls_pass)
{
	int a, b, p[2];
	char c;

	errno = 0;
	ASSERT_EQ(getpid(), syscall(SYS_getpid));
	ASSERT_EQ(0, errno);
	ASSERT_EQ(-1, syscall(SYS_read, -1, NULL, 0));
	ASSERT_EQ(EBADF, errno);
	ASSERT_EQ(-1, syscall(-1));
	ASSERT_NE(EBADF, errno);
	/* six arguments */
	ASSERT_EQ(-1, syscall(SYS_mmap, 0, 4096, 0, 0x22, -1, 1));
	ASSERT_EQ(EINVAL, errno);
	/* asking changes nothing: what is mapped stays in use */
	ASSERT_EQ(0, prctl(PR_GET_SECCOMP));
	ASSERT_EQ(-1, syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL));
	ASSERT_EQ(EFAULT, errno);
	ASSERT_EQ(-1, prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL));
	ASSERT_EQ(EFAULT, errno);
	c = 0;
	ASSERT_EQ(0, syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0,
			     &(unsigned int){ KILL }));
	WARM_PAIR(L5, a, b);
	/* a number that is closed, and another's */
	ASSERT_EQ(0, pipe(p));
	ASSERT_EQ(a, syscall(SYS_dup2, p[1], a));
	ASSERT_EQ(1, shim_maps());
	ASSERT_EQ(1, write(a, "p", 1));
	ASSERT_EQ(1, read(p[0], &c, 1));
	ASSERT_EQ('p', c);
	ASSERT_EQ(0, syscall(SYS_close, b));
	ASSERT_EQ(0, shim_maps());
}

/* Noted changes of a set are told before calls of its own are given up. */
SHIM_TEST(sets_are_told)
{
	struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog prog = { 1, &all };
	struct epoll_event e = { .events = EPOLLIN };
	int a[2], b[2], ep[2], i, k;

	for (i = 0; i < 2; i++) {
		WARM_PAIR(L5, a[i], b[i]);
		ep[i] = epoll_create1(0);
		ASSERT_EQ(0, epoll_ctl(ep[i], EPOLL_CTL_ADD, b[i], &e));
		for (k = 0; k < 42; k++) {
			e.events = k & 1 ? EPOLLIN : 0;
			ASSERT_EQ(0, epoll_ctl(ep[i], EPOLL_CTL_MOD, b[i], &e));
		}
		EXPECT_EQ(0, epoll_wait(ep[i], &e, 1, 0));
		e.events = EPOLLIN;
	}
	e.events = 0;
	ASSERT_EQ(0, epoll_ctl(ep[0], EPOLL_CTL_MOD, b[0], &e));
	EXPECT_EQ(0, epoll_wait(ep[0], &e, 1, 0));
	e.events = EPOLLIN;
	ASSERT_EQ(0, epoll_ctl(ep[0], EPOLL_CTL_MOD, b[0], &e));
	ASSERT_EQ(0, epoll_ctl(ep[1], EPOLL_CTL_DEL, b[1], &e));
	ASSERT_EQ(0, prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	ASSERT_EQ(0, prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog));
	for (i = 0; i < 2; i++)
		ASSERT_EQ(1, write(a[i], "x", 1));
	EXPECT_EQ(1, epoll_wait(ep[0], &e, 1, 10000));
	EXPECT_EQ(0, epoll_wait(ep[1], &e, 1, 0));
	EXPECT_EQ(0, epoll_ctl(ep[1], EPOLL_CTL_ADD, b[1], &e));
}

TEST_HARNESS_MAIN
