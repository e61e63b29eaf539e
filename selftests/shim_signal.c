// SPDX-License-Identifier: GPL-2.0
/*
 * Signals under the preload library. It looks at a ring for a while before it
 * sleeps in the kernel, and here that is a second, so that a signal comes
 * within the look: it ends the call, or does not, as on TCP. A handler may use
 * the very socket that it interrupted, and leave by siglongjmp(). Whoever asks
 * which handler there is hears of the program's own.
 */
/* Before the constructor in shim.h runs the program again. */
#include <stdlib.h>
__attribute__((constructor(101))) static void look_long(void)
{
	setenv("L5_SPIN_US", "1000000", 0);
	setenv("L5_ASK_US", "1000000", 0);
}

#include "shim.h"

#include <setjmp.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/uio.h>
#include <time.h>
#include <ucontext.h>

/* linux/signal.h does not go with signal.h */
#ifndef SS_AUTODISARM
#define SS_AUTODISARM	0x80000000U
#endif

static char buf[1 << 18];

/* Calls that wait, and the signal that comes meanwhile */

enum call {
	READ, RECV, RECVFROM, READV, RECVMSG, PREADV2, WAITALL,
	WRITE, SEND, WRITEV, SENDMSG,
	POLL, PPOLL, SELECT, PSELECT, EPOLL, EPOLL_PWAIT, EPOLL_PWAIT2,
	CALLS,
};

static const char *const call_name[CALLS] = {
	"read", "recv", "recvfrom", "readv", "recvmsg", "preadv2",
	"recv of all", "write", "send", "writev", "sendmsg", "poll", "ppoll",
	"select", "pselect", "epoll_wait", "epoll_pwait", "epoll_pwait2",
};

/**
 * struct waiter - a thread in a call
 * @call: which
 * @kind: of what socket
 * @timed: SO_RCVTIMEO and SO_SNDTIMEO are set
 * @a: its end
 * @b: the other one
 * @ready: 1 it is about to call, 2 it is back
 * @ret: what the call said
 * @error: likewise
 * @th: the thread
 */
struct waiter {
	enum call call;
	enum kind kind;
	bool timed;
	int a, b;
	atomic_int ready;
	ssize_t ret;
	int error;
	pthread_t th;
};

static atomic_int handled;

static void on_signal(int sig)
{
	(void)sig;
	atomic_fetch_add(&handled, 1);
}

static bool wait_value(atomic_int *word, int value, int ms)
{
	int64_t end = l5_now_ms() + ms;

	while (atomic_load(word) < value) {
		if (l5_now_ms() > end)
			return false;
		usleep(2000);
	}
	return true;
}

/* No room, for a byte or for more. */
static void fill(int fd)
{
	while (send(fd, buf, 4096, MSG_DONTWAIT) > 0)
		;
	while (send(fd, buf, 1, MSG_DONTWAIT) > 0)
		;
}

static bool is_send(enum call call)
{
	return call >= WRITE && call <= SENDMSG;
}

static void do_call(struct waiter *w, int ep)
{
	struct epoll_event ev;
	struct iovec iov = { buf, 1 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct pollfd p = { .fd = w->a, .events = POLLIN };
	fd_set r;

	FD_ZERO(&r);
	FD_SET(w->a, &r);
	switch (w->call) {
	case READ:
		w->ret = read(w->a, buf, 1);
		break;
	case RECV:
		w->ret = recv(w->a, buf, 1, 0);
		break;
	case RECVFROM:
		w->ret = recvfrom(w->a, buf, 1, 0, NULL, NULL);
		break;
	case READV:
		w->ret = readv(w->a, &iov, 1);
		break;
	case RECVMSG:
		w->ret = recvmsg(w->a, &msg, 0);
		break;
	case PREADV2:
		w->ret = preadv2(w->a, &iov, 1, -1, 0);
		break;
	case WAITALL:
		w->ret = recv(w->a, buf, 2, MSG_WAITALL);
		break;
	case WRITE:
		w->ret = write(w->a, buf, 1);
		break;
	case SEND:
		w->ret = send(w->a, buf, 1, 0);
		break;
	case WRITEV:
		w->ret = writev(w->a, &iov, 1);
		break;
	case SENDMSG:
		w->ret = sendmsg(w->a, &msg, 0);
		break;
	case POLL:
		w->ret = poll(&p, 1, 60000);
		break;
	case PPOLL:
		w->ret = ppoll(&p, 1, NULL, NULL);
		break;
	case SELECT:
		w->ret = select(w->a + 1, &r, NULL, NULL, NULL);
		break;
	case PSELECT:
		w->ret = pselect(w->a + 1, &r, NULL, NULL, NULL, NULL);
		break;
	case EPOLL:
		w->ret = epoll_wait(ep, &ev, 1, -1);
		break;
	case EPOLL_PWAIT:
		w->ret = epoll_pwait(ep, &ev, 1, -1, NULL);
		break;
	default:
		w->ret = epoll_pwait2(ep, &ev, 1, NULL, NULL);
	}
}

static void *waiter_main(void *arg)
{
	struct timeval t = { .tv_sec = 100 };
	struct waiter *w = arg;
	struct epoll_event ev = { .events = EPOLLIN };
	int ep = epoll_create1(0), i;
	char c;

	epoll_ctl(ep, EPOLL_CTL_ADD, w->a, &ev);
	/* what lately had an event is looked at */
	for (i = 0; i < 20; i++)
		if (write(w->b, "x", 1) != 1 ||
		    epoll_wait(ep, &ev, 1, 10000) != 1 ||
		    read(w->a, &c, 1) != 1)
			break;
	if (w->timed) {
		setsockopt(w->a, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t));
		setsockopt(w->a, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t));
	}
	if (is_send(w->call))
		fill(w->a);
	if (w->call == WAITALL && write(w->b, "x", 1) != 1)
		return NULL;
	atomic_store(&w->ready, 1);
	do_call(w, ep);
	w->error = w->ret < 0 ? errno : 0;
	atomic_store(&w->ready, 2);
	close(ep);
	return NULL;
}

/* Let a call that goes on end. */
static void feed(struct waiter *w)
{
	ssize_t n;

	if (!is_send(w->call)) {
		n = raw_write(w->b, "xy", 2);
		(void)n;
		return;
	}
	/* it may be back before it has said so */
	while (atomic_load(&w->ready) < 2)
		if (recv(w->b, buf + 1, sizeof(buf) - 1, MSG_DONTWAIT) < 0)
			usleep(1000);
}

static void set_handler(int sig, void (*handler)(int), int flags)
{
	struct sigaction sa = { .sa_handler = handler, .sa_flags = flags };

	sigaction(sig, &sa, NULL);
}

/* Does a signal end the call? Says how that was in @log. */
static bool signal_in_call(enum kind kind, enum call call, int flags,
			   bool timed, char *log, size_t size)
{
	struct waiter w = { .call = call, .kind = kind, .timed = timed };
	bool ends;

	log[0] = '\0';
	set_handler(SIGUSR1, on_signal, flags);
	atomic_store(&handled, 0);
	if (!shim_pair(kind, &w.a, &w.b) || !shim_warm(w.a, w.b))
		return false;
	if (pthread_create(&w.th, NULL, waiter_main, &w) ||
	    !wait_value(&w.ready, 1, 60000)) {
		snprintf(log, size, "%s: not ready", call_name[call]);
		return false;
	}
	usleep(100000);
	if (atomic_load(&w.ready) == 2) {
		snprintf(log, size, "%s: did not wait: %zd, %s",
			 call_name[call], w.ret, strerror(w.error));
		return false;
	}
	pthread_kill(w.th, SIGUSR1);
	if (!wait_value(&handled, 1, 30000)) {
		snprintf(log, size, "%s: no handler", call_name[call]);
		return false;
	}
	ends = wait_value(&w.ready, 2, flags & SA_RESTART ? 1500 : 8000);
	if (!ends)
		feed(&w);
	pthread_join(w.th, NULL);
	snprintf(log, size, "%s: %s, %zd, %s", call_name[call],
		 ends ? "ended" : "went on", w.ret, strerror(w.error));
	close(w.a);
	close(w.b);
	return true;
}

static void compare_calls(struct __test_metadata *_metadata, int flags,
			  bool timed)
{
	char tcp[128], l5[128];
	int call;

	for (call = 0; call < CALLS; call++) {
		/* the kernel sleeps for the rest, and knows of no part */
		if (call == WAITALL && flags & SA_RESTART)
			continue;
		/* TCP that is full finds room again, for a byte or two */
		if (is_send(call))
			snprintf(tcp, sizeof(tcp), "%s: %s", call_name[call],
				 flags & SA_RESTART && !timed ?
				 "went on, 1, Success" :
				 "ended, -1, Interrupted system call");
		else
			EXPECT_TRUE(signal_in_call(TCP, call, flags, timed,
						   tcp, sizeof(tcp)))
				TH_LOG("TCP: %s", tcp);
		EXPECT_TRUE(signal_in_call(L5, call, flags, timed, l5,
					   sizeof(l5)))
			TH_LOG("AF_L5: %s", l5);
		EXPECT_STREQ(tcp, l5);
	}
}

SHIM_TEST(ends_calls)
{
	compare_calls(_metadata, 0, false);
}

SHIM_TEST(restarts_calls)
{
	compare_calls(_metadata, SA_RESTART, false);
}

SHIM_TEST(ends_timed_calls)
{
	compare_calls(_metadata, SA_RESTART, true);
}

/* What had moved before the signal came is what the call returns. */
SHIM_TEST(partial_write)
{
	struct waiter w = { .call = WRITE };
	ssize_t n, got = 0;

	set_handler(SIGUSR1, on_signal, SA_RESTART);
	WARM_PAIR(L5, w.a, w.b);
	/* more than a ring */
	w.ret = fcntl(w.a, F_SETFL, O_NONBLOCK);
	ASSERT_EQ(0, w.ret);
	while ((n = write(w.a, buf, sizeof(buf))) > 0)
		got += n;
	ASSERT_EQ(0, fcntl(w.a, F_SETFL, 0));
	/* room for some of it */
	while (got > 4096) {
		n = read(w.b, buf, got - 4096);
		ASSERT_GT(n, 0);
		got -= n;
	}
	{
		const struct itimerval it = { .it_value.tv_usec = 100000 };

		set_handler(SIGALRM, on_signal, SA_RESTART);
		atomic_store(&handled, 0);
		setitimer(ITIMER_REAL, &it, NULL);
		/* larger than all that may be under way */
		w.ret = 64 << 20;
		char *big = calloc(1, w.ret);

		ASSERT_NE(NULL, big);
		n = write(w.a, big, w.ret);
		free(big);
	}
	ASSERT_EQ(1, atomic_load(&handled));
	ASSERT_GT(n, 0);
	ASSERT_LT(n, w.ret);
	got += n;
	shutdown(w.a, SHUT_WR);
	while ((n = read(w.b, buf, sizeof(buf))) > 0)
		got -= n;
	ASSERT_EQ(0, n);
	ASSERT_EQ(0, got);
}

/* alarm() and the process's own kill() come within the look, too. */
static atomic_int stop;

static void on_stop(int sig)
{
	(void)sig;
	atomic_store(&stop, 1);
}

enum loop { LOOP_READ, LOOP_POLL, LOOP_EPOLL, LOOPS };

/* A server as there are many: it ends when a handler has said so. */
static int server(int fd, enum loop how)
{
	struct epoll_event ev = { .events = EPOLLIN };
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int ep = epoll_create1(0);
	ssize_t n;
	char c;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev);
	while (!atomic_load(&stop)) {
		if (how == LOOP_POLL && poll(&p, 1, -1) < 0)
			continue;
		if (how == LOOP_EPOLL && epoll_wait(ep, &ev, 1, -1) < 0)
			continue;
		n = read(fd, &c, 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0 || write(fd, &c, 1) != 1)
			return 1;
	}
	return 0;
}

SHIM_TEST(servers_stop)
{
	int a, b, how, i, k, status;
	struct sockaddr_in sa;
	pid_t pid, got;
	char c;

	for (how = 0; how < LOOPS; how++) {
		for (k = 0; k < 3; k++) {
			ASSERT_TRUE(shim_listen(L5, &b, &sa));
			pid = fork();
			if (!pid) {
				set_handler(SIGTERM, on_stop, 0);
				_exit(server(accept(b, NULL, NULL), how));
			}
			a = shim_socket(L5, 0);
			ASSERT_EQ(0, connect(a, (struct sockaddr *)&sa,
					     sizeof(sa)));
			for (i = 0; i < 50; i++) {
				ASSERT_EQ(1, write(a, "x", 1));
				ASSERT_EQ(1, read(a, &c, 1));
			}
			/* until it looks again */
			usleep(50000);
			kill(pid, SIGTERM);
			for (i = 0; i < 1000; i++) {
				got = waitpid(pid, &status, WNOHANG);
				if (got)
					break;
				usleep(10000);
			}
			EXPECT_EQ(pid, got)
				TH_LOG("server %d hung", how);
			if (!got) {
				kill(pid, SIGKILL);
				waitpid(pid, &status, 0);
			} else {
				EXPECT_EQ(0, status);
			}
			close(a);
			close(b);
		}
	}
}

/* Handlers that use the socket that they interrupted */

enum { STACK = 1 << 17, PIECE = 1 << 18, TRIES = 1000 };

enum where { SAME, ALT, AUTODISARM, CONTEXT, WHERES };

static const char *const where_name[WHERES] = {
	"the same stack", "an alternate stack",
	"an alternate stack that is disarmed", "a context's own stack",
};

/**
 * struct stream - a thread that writes, and its handler that does
 * @fd: to
 * @where: the stack of the handler, or of the thread
 * @tries: of the handler, before it gives up
 * @sent: by the thread
 * @hits: writes by the handler
 * @again: of them, how often one said EINTR or EAGAIN
 * @stuck: it said so for ever
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

/* The library does not see it, so has to do without it. */
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
		/* one that goes on for longer is all that ever runs */
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

/* One that is told EINTR, now and then, but harms nobody. */
SHIM_TEST(unknown_handler_writes)
{
	handler_streams(_metadata, true);
}

/* siglongjmp() out of whatever the signal came upon. */
static sigjmp_buf out;

static void on_jump(int sig)
{
	(void)sig;
	siglongjmp(out, 1);
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

/* None of whose instructions is to be where a handler begins. */
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
	set_handler(SIGALRM, on_jump, 0);
	while (jumps < 300) {
		if (sigsetjmp(out, 1)) {
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
 * The same with signals that faults raise, but that were sent; and what comes
 * next is further down the stack than what was left.
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
	set_handler(sig, on_jump, 0);
	ev._sigev_un._tid = syscall(SYS_gettid);
	ASSERT_EQ(0, timer_create(CLOCK_MONOTONIC, &ev, &timer));
	while (jumps < 200) {
		if (sigsetjmp(out, 1)) {
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

/* What a child of vfork() does is its own. */
static int vfork_status(void)
{
	int status;

	if (!vfork())
		vfork_child();
	wait(&status);
	return status;
}

/* All that a program may say and ask; no socket has part in it. */
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

/* What is fatal stays so, and dies of what it died of. */
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
	const struct itimerval it = { .it_value.tv_usec = 3000 };
	struct sigaction sa;
	pthread_t th;
	int a, b, i;

	WARM_PAIR(L5, a, b);
	ASSERT_TRUE(start_drain(&th, &b));
	for (i = 0; i < 100; i++) {
		atomic_store(&handled, 0);
		set_handler(SIGALRM, on_signal, SA_RESETHAND);
		setitimer(ITIMER_REAL, &it, NULL);
		while (!atomic_load(&handled))
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

/* What is blocked stays so, and comes when it is let in. */
SHIM_TEST(blocked)
{
	struct waiter w = { .call = READ };
	sigset_t set;

	set_handler(SIGUSR1, on_signal, 0);
	atomic_store(&handled, 0);
	WARM_PAIR(L5, w.a, w.b);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	ASSERT_EQ(0, pthread_create(&w.th, NULL, waiter_main, &w));
	ASSERT_TRUE(wait_value(&w.ready, 1, 30000));
	usleep(100000);
	pthread_kill(w.th, SIGUSR1);
	EXPECT_FALSE(wait_value(&w.ready, 2, 1500));
	EXPECT_EQ(0, atomic_load(&handled));
	feed(&w);
	pthread_join(w.th, NULL);
	EXPECT_EQ(1, w.ret);
	EXPECT_EQ(0, atomic_load(&handled));
}

/* Calls with a mask: what it lets in ends them, and nothing else does. */
static const sigset_t no_signals;

static int masked_call(enum call call, int fd, int ep, int ms,
		       const sigset_t *set)
{
	const struct timespec t = { ms / 1000, ms % 1000 * 1000000 };
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct epoll_event ev;
	fd_set r;

	FD_ZERO(&r);
	FD_SET(fd, &r);
	switch (call) {
	case PPOLL:
		return ppoll(&p, 1, &t, set);
	case PSELECT:
		return pselect(fd + 1, &r, NULL, NULL, &t, set);
	case EPOLL_PWAIT:
		return epoll_pwait(ep, &ev, 1, ms, set);
	default:
		return epoll_pwait2(ep, &ev, 1, &t, set);
	}
}

static const enum call masked_calls[] = {
	PPOLL, PSELECT, EPOLL_PWAIT, EPOLL_PWAIT2,
};

/* Such a thread: it calls each of them, and says what came of it. */
struct masked {
	enum kind kind;
	bool pending;		/* the signal is, and the mask lets it in */
	int ms;
	char log[512];
	atomic_int calls;	/* that it has begun; INT_MAX: no more */
	pthread_t th;
};

static void masked_said(struct masked *m, enum call which, int ret)
{
	size_t len = strlen(m->log);

	snprintf(m->log + len, sizeof(m->log) - len, "%s %d: %d, %s, %d\n",
		 call_name[which], m->ms, ret, ret < 0 ? strerror(errno) : "-",
		 atomic_exchange(&handled, 0));
}

static void *masked_main(void *arg)
{
	const struct timespec none = { 0 };
	struct epoll_event ev = { .events = EPOLLIN };
	struct masked *m = arg;
	int a, b, ret, ep = epoll_create1(0), i;
	sigset_t usr1;
	char c;

	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	if (!shim_pair(m->kind, &a, &b) || !shim_warm(a, b))
		goto out;
	epoll_ctl(ep, EPOLL_CTL_ADD, a, &ev);
	/* what lately had an event is looked at */
	for (i = 0; i < 20; i++)
		if (write(b, "x", 1) != 1 ||
		    epoll_wait(ep, &ev, 1, 10000) != 1 || read(a, &c, 1) != 1)
			goto out;
	if (m->pending)
		pthread_sigmask(SIG_BLOCK, &usr1, NULL);
	for (i = 0; i < (int)ARRAY_SIZE(masked_calls); i++) {
		if (m->pending)
			pthread_kill(pthread_self(), SIGUSR1);
		atomic_store(&m->calls, i + 1);
		ret = masked_call(masked_calls[i], a, ep, m->ms,
				  m->pending ? &no_signals : &usr1);
		masked_said(m, masked_calls[i], ret);
		if (m->pending)
			sigtimedwait(&usr1, NULL, &none);
	}
	/* what is there comes before the signal */
	if (m->pending && write(b, "x", 1) == 1)
		for (i = 0; i < (int)ARRAY_SIZE(masked_calls); i++) {
			pthread_kill(pthread_self(), SIGUSR1);
			ret = masked_call(masked_calls[i], a, ep, m->ms,
					  &no_signals);
			masked_said(m, masked_calls[i], ret);
		}
	close(a);
	close(b);
out:
	close(ep);
	atomic_store(&m->calls, INT_MAX);
	return NULL;
}

static void compare_masked(struct __test_metadata *_metadata, bool pending,
			   int ms)
{
	struct masked m[2] = {
		{ .kind = TCP, .pending = pending, .ms = ms },
		{ .kind = L5, .pending = pending, .ms = ms },
	};
	int k, i;

	set_handler(SIGUSR1, on_signal, SA_RESTART);
	for (k = 0; k < 2; k++) {
		atomic_store(&handled, 0);
		ASSERT_EQ(0, pthread_create(&m[k].th, NULL, masked_main,
					    &m[k]));
		for (i = 1; !pending && i <= (int)ARRAY_SIZE(masked_calls);
		     i++) {
			ASSERT_TRUE(wait_value(&m[k].calls, i, 60000));
			usleep(100000);
			pthread_kill(m[k].th, SIGUSR1);
		}
		pthread_join(m[k].th, NULL);
	}
	EXPECT_LT(0, strlen(m[TCP].log));
	EXPECT_STREQ(m[TCP].log, m[L5].log);
}

SHIM_TEST(masks_let_in)
{
	compare_masked(_metadata, true, 0);
	compare_masked(_metadata, true, 20000);
}

SHIM_TEST(masks_keep_out)
{
	compare_masked(_metadata, false, 1500);
}

TEST_HARNESS_MAIN
