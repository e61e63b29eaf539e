// SPDX-License-Identifier: GPL-2.0
/*
 * Signals under the preload library. It looks at a ring for a while before it
 * sleeps in the kernel, and here that is a second, so that a signal comes
 * within the look: it ends the call, or does not, as on TCP.
 */
#include "ends.h"
#include "look_long.h"
#define SHIM	shim_signal
#include "shim.h"

#include <setjmp.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/uio.h>
#include <time.h>

#include "signals.h"

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
 * @call: the call
 * @kind: of what socket
 * @timed: SO_RCVTIMEO and SO_SNDTIMEO are set
 * @a: its end
 * @b: the other one
 * @ready: 1 it is about to call, 2 it is back
 * @ret: what the call said
 * @error: errno after the call
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
	/* the thread may be back before it has said so */
	while (atomic_load(&w->ready) < 2)
		if (recv(w->b, buf + 1, sizeof(buf) - 1, MSG_DONTWAIT) < 0)
			usleep(1000);
}

/* Does a signal end the call? Writes what happened into @log. */
static bool signal_in_call(enum kind kind, enum call call, int flags,
			   bool timed, char *log, size_t size)
{
	struct waiter w = { .call = call, .kind = kind, .timed = timed };
	bool ends;
	pid_t tid;

	log[0] = '\0';
	set_handler(SIGUSR1, on_signal, flags);
	atomic_store(&handled, 0);
	if (!shim_pair(kind, &w.a, &w.b) || !shim_warm(w.a, w.b))
		return false;
	tid = l5_thread_start(&w.th, NULL, waiter_main, &w);
	if (tid < 0 || !L5_UNTIL(atomic_load(&w.ready) >= 1, 60000)) {
		snprintf(log, size, "%s: not ready", call_name[call]);
		return false;
	}
	if (!l5_wait_asleep(tid) || atomic_load(&w.ready) == 2) {
		snprintf(log, size, "%s: did not wait: %zd, %s",
			 call_name[call], w.ret, strerror(w.error));
		return false;
	}
	pthread_kill(w.th, SIGUSR1);
	if (!L5_UNTIL(atomic_load(&handled) >= 1, 30000)) {
		snprintf(log, size, "%s: no handler", call_name[call]);
		return false;
	}
	ends = L5_UNTIL(atomic_load(&w.ready) >= 2,
			flags & SA_RESTART ? 1500 : 8000);
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

	ASSERT_TRUE(net_keeps_full());
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
			ASSERT_TRUE(l5_wait_asleep(pid));
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

/* A blocked signal stays blocked, and comes when it is let in. */
SHIM_TEST(blocked)
{
	struct waiter w = { .call = READ };
	sigset_t set;
	pid_t tid;

	set_handler(SIGUSR1, on_signal, 0);
	atomic_store(&handled, 0);
	WARM_PAIR(L5, w.a, w.b);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	tid = l5_thread_start(&w.th, NULL, waiter_main, &w);
	ASSERT_LT(0, tid);
	ASSERT_TRUE(L5_UNTIL(atomic_load(&w.ready) >= 1, 30000));
	ASSERT_TRUE(l5_wait_asleep(tid));
	pthread_kill(w.th, SIGUSR1);
	EXPECT_FALSE(L5_UNTIL(atomic_load(&w.ready) >= 2, 1500));
	EXPECT_EQ(0, atomic_load(&handled));
	feed(&w);
	pthread_join(w.th, NULL);
	EXPECT_EQ(1, w.ret);
	EXPECT_EQ(0, atomic_load(&handled));
}

/* Calls with a mask: a signal that it lets in ends them, and no other does. */
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

/* A thread that makes each of these calls, and says what came of it. */
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
	pid_t tid;
	int k, i;

	set_handler(SIGUSR1, on_signal, SA_RESTART);
	for (k = 0; k < 2; k++) {
		atomic_store(&handled, 0);
		tid = l5_thread_start(&m[k].th, NULL, masked_main, &m[k]);
		ASSERT_LT(0, tid);
		for (i = 1; !pending && i <= (int)ARRAY_SIZE(masked_calls);
		     i++) {
			ASSERT_TRUE(L5_UNTIL(atomic_load(&m[k].calls) >= i,
					     60000));
			ASSERT_TRUE(l5_wait_asleep(tid));
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
