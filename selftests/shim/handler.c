// SPDX-License-Identifier: GPL-2.0
/*
 * Handlers of signals under the preload library: one may use the very socket
 * that it interrupted, and leave by siglongjmp(). A program that asks which
 * handler there is hears of its own, and a fatal signal stays fatal.
 */
#include "look_long.h"
#define SHIM	shim_handler
#include "shim.h"

#include <setjmp.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>

#include "signals.h"

/* linux/signal.h does not go with signal.h */
#ifndef SS_AUTODISARM
#define SS_AUTODISARM	0x80000000U
#endif

static char buf[1 << 18];

/* Handlers that use the socket that they interrupted */

enum { STACK = 1 << 17, PIECE = 1 << 18, TRIES = 1000 };

enum where { SAME, ALT, AUTODISARM, CONTEXT, WHERES };

static const char *const where_name[WHERES] = {
	"the same stack", "an alternate stack",
	"an alternate stack that is disarmed", "a context's own stack",
};

/**
 * struct stream - a thread that writes, and its handler that does
 * @fd: that it writes to
 * @where: the stack of the handler, or of the thread
 * @tries: of the handler, before it gives up
 * @sent: by the thread
 * @hits: writes by the handler
 * @again: how often one of these said EINTR or EAGAIN
 * @stuck: one said so for ever
 */
static struct stream {
	int fd;
	enum where where;
	int64_t end;
	int tries;
	long sent;
	volatile long hits;
	volatile long again;
	volatile long stuck;
	ucontext_t home, there;
} st;

static void on_tick(int sig)
{
	static const char hit[8] = "HHHHHHHH";
	int saved = errno, i;

	(void)sig;
	for (i = 0; i < st.tries && write(st.fd, hit, 8) < 0; i++)
		st.again++;
	st.hits += i < st.tries;
	st.stuck += i == st.tries;
	errno = saved;
}

static void write_on(void)
{
	ssize_t n;
	int i;

	while (l5_now_ms() < st.end) {
		for (i = 0; i < PIECE; i++)
			buf[i] = (st.sent + i) % 61;
		n = write(st.fd, buf, PIECE);
		if (n > 0)
			st.sent += n;
		else if (errno != EINTR)
			break;
	}
}

static void *stream_main(void *arg)
{
	const struct itimerspec it = { { 0, 2000000 }, { 0, 2000000 } };
	struct sigevent ev = {
		.sigev_notify = SIGEV_THREAD_ID,
		.sigev_signo = SIGUSR1,
	};
	stack_t ss = {
		.ss_size = STACK,
		.ss_flags = st.where == AUTODISARM ? SS_AUTODISARM : 0,
	};
	timer_t timer;

	(void)arg;
	ss.ss_sp = mmap(NULL, STACK, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (st.where == ALT || st.where == AUTODISARM)
		sigaltstack(&ss, NULL);
	ev._sigev_un._tid = syscall(SYS_gettid);
	timer_create(CLOCK_MONOTONIC, &ev, &timer);
	timer_settime(timer, 0, &it, NULL);
	if (st.where == CONTEXT) {
		getcontext(&st.there);
		st.there.uc_stack.ss_sp = ss.ss_sp;
		st.there.uc_stack.ss_size = STACK;
		st.there.uc_link = &st.home;
		makecontext(&st.there, write_on, 0);
		swapcontext(&st.home, &st.there);
	} else {
		write_on();
	}
	timer_delete(timer);
	shutdown(st.fd, SHUT_WR);
	ss.ss_flags = SS_DISABLE;
	sigaltstack(&ss, NULL);
	munmap(ss.ss_sp, STACK);
	return NULL;
}

/* The library does not see this handler, so has to do without it. */
static void set_handler_raw(int sig, void (*handler)(int), unsigned long flags)
{
	struct {
		void (*handler)(int);
		unsigned long flags;
		void *restorer;
		uint64_t mask;
	} sa;

	/* what a handler returns to is libc's */
	set_handler(SIGUSR2, handler, 0);
	syscall(SYS_rt_sigaction, SIGUSR2, NULL, &sa, 8);
	sa.handler = handler;
	sa.flags |= flags;
	syscall(SYS_rt_sigaction, sig, &sa, NULL, 8);
}

static void handler_streams(struct __test_metadata *_metadata, bool raw)
{
	static char in[1 << 16];
	long got, hits, wrong;
	sigset_t set, old;
	pthread_t th;
	ssize_t n, i;
	int b, flags;

	for (st.where = 0; st.where < WHERES; st.where++) {
		WARM_PAIR(L5, st.fd, b);
		/* a handler that goes on for longer is all that ever runs */
		st.tries = raw ? 20 : TRIES;
		st.sent = 0;
		st.hits = 0;
		st.again = 0;
		st.stuck = 0;
		got = 0;
		hits = 0;
		wrong = 0;
		st.end = l5_now_ms() + 4000;
		flags = SA_RESTART;
		if (st.where == ALT || st.where == AUTODISARM)
			flags |= SA_ONSTACK;
		if (raw)
			set_handler_raw(SIGUSR1, on_tick, flags);
		else
			set_handler(SIGUSR1, on_tick, flags);
		ASSERT_EQ(0, pthread_create(&th, NULL, stream_main, NULL));
		sigfillset(&set);
		pthread_sigmask(SIG_BLOCK, &set, &old);
		while ((n = read(b, in, sizeof(in))) > 0) {
			for (i = 0; i < n; i++) {
				if (in[i] == 'H')
					hits++;
				else if (in[i] == got % 61)
					got++;
				else
					wrong++;
			}
		}
		pthread_sigmask(SIG_SETMASK, &old, NULL);
		pthread_join(th, NULL);
		EXPECT_EQ(0, n);
		EXPECT_EQ(0, wrong);
		EXPECT_EQ(st.sent, got);
		EXPECT_EQ(8 * st.hits, hits);
		EXPECT_LT(0, st.hits);
		if (!raw) {
			EXPECT_EQ(0, st.again);
			EXPECT_EQ(0, st.stuck);
		}
		TH_LOG("%s: %ld writes of the handler, %ld EINTR",
		       where_name[st.where], st.hits, st.again);
		close(st.fd);
		close(b);
	}
}

SHIM_TEST(handler_writes)
{
	handler_streams(_metadata, false);
}

/* A handler that is told EINTR, now and then, but does no harm. */
SHIM_TEST(unknown_handler_writes)
{
	handler_streams(_metadata, true);
}

static void *drain(void *arg)
{
	static char in[1 << 16];
	static char last[16];
	int fd = *(int *)arg;
	size_t keep;
	ssize_t n;

	while ((n = read(fd, in, sizeof(in))) > 0) {
		keep = n < 16 ? n : 16;
		memmove(last, last + keep, 16 - keep);
		memcpy(last + 16 - keep, in + n - keep, keep);
		if (!memcmp(last, "the last of them", 16))
			return "";
	}
	return NULL;
}

/* No handler is to begin at an instruction of this function. */
static bool start_drain(pthread_t *th, int *fd)
{
	sigset_t set, old;
	int ret;

	sigfillset(&set);
	pthread_sigmask(SIG_BLOCK, &set, &old);
	ret = pthread_create(th, NULL, drain, fd);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return !ret;
}

SHIM_TEST(jumps_while_streaming)
{
	struct itimerval it = { .it_value.tv_usec = 300 };
	volatile int jumps = 0;
	sigset_t before, after;
	int a, b, i;
	void *found;
	pthread_t th;

	WARM_PAIR(L5, a, b);
	ASSERT_TRUE(start_drain(&th, &b));
	pthread_sigmask(SIG_SETMASK, NULL, &before);
	set_handler(SIGALRM, jump_out, 0);
	while (jumps < 300) {
		if (sigsetjmp(jump_buf, 1)) {
			jumps++;
			continue;
		}
		it.it_value.tv_usec = 300 + jumps * 7;
		setitimer(ITIMER_REAL, &it, NULL);
		for (;;)
			if (write(a, buf, PIECE) < 0 && errno != EINTR)
				break;
	}
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	for (i = 1; i < 65; i++)
		EXPECT_EQ(sigismember(&before, i), sigismember(&after, i));
	ASSERT_EQ(16, write(a, "the last of them", 16));
	shutdown(a, SHUT_WR);
	ASSERT_EQ(0, pthread_join(th, &found));
	EXPECT_NE(NULL, found);
}

/*
 * The same with signals that faults raise, but that were sent; and the next use
 * is further down the stack than the one that was left.
 */
static ssize_t write_deep(int fd, int depth)
{
	volatile char room[2048];
	ssize_t n;

	room[0] = depth;
	n = depth ? write_deep(fd, depth - 1) : write(fd, "x", 1);
	room[1] = room[0];
	return n;
}

static void jump_out_of_sent(struct __test_metadata *_metadata, int sig)
{
	struct sigevent ev = {
		.sigev_notify = SIGEV_THREAD_ID,
		.sigev_signo = sig,
	};
	struct itimerspec it = { 0 };
	volatile int jumps = 0;
	timer_t timer;
	pthread_t th;
	void *found;
	int a, b;

	WARM_PAIR(L5, a, b);
	ASSERT_TRUE(start_drain(&th, &b));
	set_handler(sig, jump_out, 0);
	ev._sigev_un._tid = syscall(SYS_gettid);
	ASSERT_EQ(0, timer_create(CLOCK_MONOTONIC, &ev, &timer));
	while (jumps < 200) {
		if (sigsetjmp(jump_buf, 1)) {
			jumps++;
			ASSERT_EQ(1, write_deep(a, 8));
			continue;
		}
		it.it_value.tv_nsec = 300000 + jumps * 7000;
		timer_settime(timer, 0, &it, NULL);
		for (;;)
			if (write(a, buf, PIECE) < 0 && errno != EINTR)
				break;
	}
	timer_delete(timer);
	ASSERT_EQ(16, write(a, "the last of them", 16));
	shutdown(a, SHUT_WR);
	ASSERT_EQ(0, pthread_join(th, &found));
	EXPECT_NE(NULL, found);
	close(a);
	close(b);
}

SHIM_TEST(jumps_out_of_sent)
{
	static const int sigs[] = { SIGFPE, SIGSEGV, SIGBUS, SIGTRAP };
	unsigned int i;

	/* what hangs does so for ever */
	alarm(60 * l5_slow());
	for (i = 0; i < ARRAY_SIZE(sigs); i++) {
		TH_LOG("%s", strsignal(sigs[i]));
		jump_out_of_sent(_metadata, sigs[i]);
	}
}

/* What is said of handlers */

static void h_one(int sig)
{
	(void)sig;
}

static int three_info, three_sig;

static void h_three(int sig, siginfo_t *si, void *uc)
{
	(void)uc;
	three_sig = sig;
	three_info = si->si_value.sival_int;
}

static char *say_handler(char *at, const char *what, void *h)
{
	return at + sprintf(at, "%s %s\n", what,
			    h == (void *)h_one ? "one" :
			    h == (void *)h_three ? "three" :
			    h == SIG_DFL ? "default" :
			    h == SIG_IGN ? "ignored" :
			    h == SIG_ERR ? "error" :
			    h == SIG_HOLD ? "hold" : "another");
}

static char *say_action(char *at, int sig)
{
	struct sigaction sa;
	int ret = sigaction(sig, NULL, &sa), i;

	at += sprintf(at, "%d: %d, %x,", sig, ret, sa.sa_flags);
	for (i = 1; i < 65; i++)
		if (sigismember(&sa.sa_mask, i))
			at += sprintf(at, " %d", i);
	return say_handler(at, ",", sa.sa_handler);
}

__sighandler_t __sysv_signal(int sig, __sighandler_t h);

static void vfork_child(void)
{
	signal(SIGUSR1, SIG_DFL);
	signal(SIGUSR2, h_one);
	signal(40, (void (*)(int))h_one);
	_exit(3);
}

/* Handlers that a child of vfork() sets are its own. */
static int vfork_status(void)
{
	int status;

	if (!vfork())
		vfork_child();
	wait(&status);
	return status;
}

/* All that a program may set and ask of signals; no socket takes part. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static void actions(char *at)
{
	static const int flags[] = {
		0, SA_SIGINFO, SA_RESTART, SA_NODEFER | SA_ONSTACK,
		SA_RESETHAND, SA_SIGINFO | SA_RESETHAND | SA_RESTART,
		SA_NOCLDSTOP | SA_NOCLDWAIT,
	};
	static const int sigs[] = { SIGUSR1, SIGSEGV, SIGBUS, SIGCHLD, 40 };
	const union sigval v = { .sival_int = 77 };
	unsigned int i, k;
	struct sigaction sa, old;
	int status;

	for (i = 0; i < sizeof(sigs) / sizeof(*sigs); i++) {
		at = say_action(at, sigs[i]);
		for (k = 0; k < sizeof(flags) / sizeof(*flags); k++) {
			memset(&sa, 0, sizeof(sa));
			sa.sa_flags = flags[k];
			sigaddset(&sa.sa_mask, SIGUSR2);
			sigaddset(&sa.sa_mask, 34 + k);
			if (flags[k] & SA_SIGINFO)
				sa.sa_sigaction = h_three;
			else
				sa.sa_handler = h_one;
			at += sprintf(at, "set %d",
				      sigaction(sigs[i], &sa, &old));
			at = say_handler(at, "", old.sa_handler);
			at = say_action(at, sigs[i]);
			raise(sigs[i]);
			at = say_action(at, sigs[i]);
		}
		at = say_handler(at, "signal", signal(sigs[i], h_one));
		at = say_action(at, sigs[i]);
		siginterrupt(sigs[i], 1);
		at = say_action(at, sigs[i]);
		at = say_handler(at, "signal", signal(sigs[i], h_one));
		at = say_action(at, sigs[i]);
		siginterrupt(sigs[i], 0);
		at = say_action(at, sigs[i]);
		at = say_handler(at, "sysv", __sysv_signal(sigs[i], h_one));
		at = say_action(at, sigs[i]);
		raise(sigs[i]);
		at = say_action(at, sigs[i]);
		at = say_handler(at, "sigset", sigset(sigs[i], h_one));
		at = say_handler(at, "sigset", sigset(sigs[i], SIG_HOLD));
		at = say_handler(at, "sigset", sigset(sigs[i], h_one));
		at = say_action(at, sigs[i]);
		at = say_handler(at, "signal", signal(sigs[i], SIG_IGN));
		at = say_action(at, sigs[i]);
		raise(sigs[i]);
		at = say_handler(at, "signal", signal(sigs[i], SIG_DFL));
		at = say_action(at, sigs[i]);
	}
	at = say_handler(at, "kill", signal(SIGKILL, h_one));
	at = say_handler(at, "internal", signal(32, h_one));
	at = say_handler(at, "none", signal(65, h_one));
	memset(&sa, 0, sizeof(sa));
	at += sprintf(at, "%d", sigaction(SIGSTOP, &sa, NULL));
	at += sprintf(at, " %s\n", strerror(errno));

	/* a value that comes along */
	sa.sa_flags = SA_SIGINFO;
	sa.sa_sigaction = h_three;
	sigaction(40, &sa, NULL);
	sigqueue(getpid(), 40, v);
	at += sprintf(at, "%d %d\n", three_sig, three_info);

	signal(SIGUSR1, h_one);
	status = vfork_status();
	at = say_action(at, SIGUSR1);
	at = say_action(at, SIGUSR2);
	at = say_action(at, 40);
	raise(SIGUSR1);
	three_info = 0;
	sigqueue(getpid(), 40, v);
	sprintf(at, "%x %d\n", status, three_info);
}

#pragma GCC diagnostic pop

#define PLAIN_LOG	"L5_TEST_SIGNAL_LOG"

/* The same without the library, in a process of its own. */
__attribute__((constructor)) static void plain_log(void)
{
	static char log[1 << 16];
	ssize_t n;

	if (!getenv(PLAIN_LOG))
		return;
	actions(log);
	n = write(atoi(getenv(PLAIN_LOG)), log, strlen(log) + 1);
	_exit(n < 0);
}

SHIM_TEST(answers)
{
	static char with[1 << 16], without[1 << 16];
	char number[16];
	size_t len = 0;
	int p[2], a, b;
	ssize_t n;
	pid_t pid;

	ASSERT_EQ(0, pipe(p));
	pid = fork();
	if (!pid) {
		snprintf(number, sizeof(number), "%d", p[1]);
		setenv(PLAIN_LOG, number, 1);
		unsetenv("LD_PRELOAD");
		execl("/proc/self/exe", "plain", NULL);
		_exit(1);
	}
	close(p[1]);
	while ((n = read(p[0], without + len, sizeof(without) - len)) > 0)
		len += n;
	waitpid(pid, NULL, 0);
	ASSERT_LT(1000, len);
	/* when there are mappings the library wants to hear of faults */
	WARM_PAIR(L5, a, b);
	actions(with);
	EXPECT_STREQ(without, with);
}

/* A fatal signal stays fatal, and the status names it as before. */
static void fault(void)
{
	/* where that is the compiler is not to know */
	int *volatile nowhere = (int *)8;

	*nowhere = 1;
}

enum end { FAULT, SENT, QUEUED, BUS, RETURNS, ENDS };

static volatile int faults;

static void on_fault(int sig, siginfo_t *si, void *uc)
{
	(void)uc;
	if (faults++ || sig != SIGSEGV || si->si_addr != (void *)8)
		_exit(9);
	set_handler(SIGSEGV, SIG_DFL, 0);
}

static void die(enum end how)
{
	const union sigval v = { .sival_int = 1 };
	struct sigaction sa = {
		.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO,
	};

	switch (how) {
	case FAULT:
		fault();
		break;
	case SENT:
		kill(getpid(), SIGSEGV);
		break;
	case QUEUED:
		sigqueue(getpid(), SIGBUS, v);
		break;
	case BUS:
		raise(SIGBUS);
		break;
	default:
		sigaction(SIGSEGV, &sa, NULL);
		fault();
	}
}

SHIM_TEST(faults_are_fatal)
{
	static const int dies_of[ENDS] = {
		SIGSEGV, SIGSEGV, SIGBUS, SIGBUS, SIGSEGV,
	};
	int how, status, a, b;
	pid_t pid;

	for (how = 0; how < ENDS; how++) {
		pid = fork();
		if (!pid) {
			alarm(100);
			if (!shim_pair(L5, &a, &b) || !shim_warm(a, b))
				_exit(8);
			die(how);
			_exit(7);
		}
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		EXPECT_TRUE(WIFSIGNALED(status) &&
			    WTERMSIG(status) == dies_of[how])
			TH_LOG("end %d: status %x", how, status);
	}
}

/* A handler for once, that comes while its socket is in use, runs once. */
SHIM_TEST(once)
{
	struct sigaction sa;
	pthread_t th;
	int a, b, i;

	WARM_PAIR(L5, a, b);
	ASSERT_TRUE(start_drain(&th, &b));
	for (i = 0; i < 100; i++) {
		alarm_in(3000, SA_RESETHAND);
		while (!caught)
			ASSERT_TRUE(write(a, buf, PIECE) > 0 ||
				    errno == EINTR);
		ASSERT_EQ(0, sigaction(SIGALRM, NULL, &sa));
		ASSERT_EQ(SIG_DFL, sa.sa_handler);
	}
	while (write(a, "the last of them", 16) != 16)
		;
	shutdown(a, SHUT_WR);
	ASSERT_EQ(0, pthread_join(th, NULL));
}

TEST_HARNESS_MAIN
