// SPDX-License-Identifier: GPL-2.0
/*
 * Waiting under the preload library: poll() and select() say what they say on
 * TCP, signals and time-outs end them, no descriptor starves beside mapped
 * sockets that never have a pause, and an idle thread needs no CPU.
 */
#define SHIM	shim_wait
#include "shim.h"

#include <sched.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>

#include "signals.h"

int __poll_chk(struct pollfd *fds, nfds_t n, int ms, size_t size);
int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *t,
		const sigset_t *set, size_t size);

enum how { POLL, PPOLL, POLL_CHK, PPOLL_CHK, SELECT, PSELECT, HOWS };

static const char *const how_name[HOWS] = {
	"poll", "ppoll", "__poll_chk", "__ppoll_chk", "select", "pselect",
};

/*
 * Of poll()'s events those that select() knows, too; it asks for exceptions
 * besides, which there are none of.
 */
static int wait_for(enum how how, struct pollfd *p, int n, int ms)
{
	struct timespec ts = { ms / 1000, ms % 1000 * 1000000l };
	struct timeval tv = { ms / 1000, ms % 1000 * 1000 };
	fd_set r, w, e;
	int i, top = 0, ret;

	switch (how) {
	case POLL:
		return poll(p, n, ms);
	case PPOLL:
		return ppoll(p, n, ms < 0 ? NULL : &ts, NULL);
	case POLL_CHK:
		return __poll_chk(p, n, ms, n * sizeof(*p));
	case PPOLL_CHK:
		return __ppoll_chk(p, n, ms < 0 ? NULL : &ts, NULL,
				   n * sizeof(*p));
	default:
		break;
	}
	FD_ZERO(&r);
	FD_ZERO(&w);
	FD_ZERO(&e);
	for (i = 0; i < n; i++) {
		p[i].revents = 0;
		FD_SET(p[i].fd, &e);
		if (p[i].events & POLLIN)
			FD_SET(p[i].fd, &r);
		if (p[i].events & POLLOUT)
			FD_SET(p[i].fd, &w);
		if (p[i].fd >= top)
			top = p[i].fd + 1;
	}
	if (how == SELECT)
		ret = select(top, &r, &w, &e, ms < 0 ? NULL : &tv);
	else
		ret = pselect(top, &r, &w, &e, ms < 0 ? NULL : &ts, NULL);
	if (ret < 0)
		return ret;
	for (i = 0; i < n; i++)
		p[i].revents = (FD_ISSET(p[i].fd, &r) ? POLLIN : 0) |
			       (FD_ISSET(p[i].fd, &w) ? POLLOUT : 0) |
			       (FD_ISSET(p[i].fd, &e) ? POLLPRI : 0);
	return ret;
}

static char buf[1 << 16];

/* On a busy machine TCP is slow: wait, past us, until it has come. */
static void come(int fd, int events)
{
	struct pollfd p = { .fd = fd, .events = events };

	syscall(SYS_poll, &p, 1, 10000);
}

/* The same steps on both kinds; what was seen is compared. */
static void steps(enum kind kind, enum how how, char *log, size_t size)
{
	struct pollfd p[3];
	int a, b, ev = eventfd(0, 0), i, n, k;
	size_t len = 0;
	uint64_t one = 1;

	log[0] = '\0';
	if (!shim_pair(kind, &a, &b) || !shim_warm(a, b) ||
	    shim_maps() != (kind == L5 ? 2 : 0))
		return;
	for (i = 0; i < 24; i++) {
		switch (i % 8) {
		case 1:
			if (write(a, "x", 1) != 1)
				return;
			come(b, POLLIN);
			break;
		case 3:
			if (write(ev, &one, 8) != 8)
				return;
			break;
		case 5:
			if (read(b, buf, 10) != 1)
				return;
			break;
		case 7:
			if (read(ev, &one, 8) != 8)
				return;
			break;
		}
		if (i == 20) {
			shutdown(a, SHUT_WR);
			come(b, POLLRDHUP);
		}
		usleep(i > 18 ? 20000 : 2000);
		for (k = 1; k < 8; k++) {
			n = 0;
			if (k & 1)
				p[n++] = (struct pollfd){ b, POLLIN, 9 };
			if (k & 2)
				p[n++] = (struct pollfd){ ev, POLLIN, 9 };
			if (k & 4)
				p[n++] = (struct pollfd){ a, POLLIN, 9 };
			len += snprintf(log + len, size - len, "%d.%d: %d", i,
					k, wait_for(how, p, n, k & 1));
			while (n--)
				len += snprintf(log + len, size - len, " %x",
						p[n].revents);
			len += snprintf(log + len, size - len, "\n");
		}
	}
	p[0] = (struct pollfd){ b, POLLIN | POLLOUT, 0 };
	p[1] = (struct pollfd){ a, POLLIN | POLLOUT, 0 };
	n = wait_for(how, p, 2, 1000);
	snprintf(log + len, size - len, "%d %x %x\n", n, p[0].revents,
		 p[1].revents);
	close(a);
	close(b);
	close(ev);
}

SHIM_TEST(same_answers)
{
	static char log[2][1 << 14];
	int how;

	for (how = 0; how < HOWS; how++) {
		steps(TCP, how, log[0], sizeof(log[0]));
		steps(L5, how, log[1], sizeof(log[1]));
		ASSERT_LT(100, strlen(log[0]));
		EXPECT_STREQ(log[0], log[1]) {
			TH_LOG("%s", how_name[how]);
		}
	}
}

/* A signal, and a time-out, end the wait of a mapped socket. */
SHIM_TEST(signals_and_timeouts)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int a, b, ep = epoll_create1(0), how, i;
	struct timespec ts = { 0, 100000000 };
	sigset_t set, now, none = { 0 };
	struct pollfd p;
	int64_t start;

	WARM_PAIR(L5, a, b);
	p = (struct pollfd){ b, POLLIN, 0 };
	for (how = 0; how < HOWS; how++) {
		alarm_every(50000);
		ASSERT_EQ(-1, wait_for(how, &p, 1, -1));
		ASSERT_EQ(EINTR, errno);
		alarm_off();
		start = l5_now_ms();
		ASSERT_EQ(0, wait_for(how, &p, 1, 100));
		ASSERT_GE(l5_now_ms() - start, 99);
		ASSERT_GT(10000 * l5_slow(), l5_now_ms() - start);
	}
	ASSERT_EQ(0, epoll_ctl(ep, EPOLL_CTL_ADD, b, &ev));
	for (i = 0; i < 50; i++) {
		ASSERT_EQ(1, write(a, "x", 1));
		ASSERT_EQ(1, epoll_wait(ep, &ev, 1, 1000));
		ASSERT_EQ(1, read(b, buf, 10));
	}
	alarm_every(50000);
	ASSERT_EQ(-1, epoll_wait(ep, &ev, 1, -1));
	ASSERT_EQ(EINTR, errno);
	alarm_off();
	start = l5_now_ms();
	ASSERT_EQ(0, epoll_wait(ep, &ev, 1, 100));
	ASSERT_GE(l5_now_ms() - start, 99);
	start = l5_now_ms();
	ASSERT_EQ(0, epoll_pwait2(ep, &ev, 1, &ts, NULL));
	ASSERT_GE(l5_now_ms() - start, 99);
	/* a signal that only the wait lets through */
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	alarm_every(1000);
	/* however many there were, one is pending */
	ASSERT_TRUE(L5_UNTIL(!sigpending(&now) && !sigisemptyset(&now), 10000));
	alarm_off();
	ASSERT_EQ(0, caught);
	ASSERT_EQ(-1, epoll_pwait(ep, &ev, 1, 1000, &none));
	ASSERT_EQ(EINTR, errno);
	ASSERT_EQ(1, caught);
	ASSERT_EQ(-1, epoll_wait(ep, &ev, 0, 0));
	ASSERT_EQ(EINVAL, errno);
}

/* Connections that always have something to read. */
struct flood {
	int fd[4];
	atomic_bool stop;
};

static void *floods(void *arg)
{
	struct flood *f = arg;
	int i;

	for (i = 0; !atomic_load(&f->stop); i++)
		if (send(f->fd[i % 4], "flood", 5, MSG_DONTWAIT) < 0)
			sched_yield();
	return NULL;
}

/* What nobody_starves() waits for. */
enum source {
	FLOOD,				/* and three more */
	TIMER = 4, EVENT, SIGNAL, PIPE, COLD, LISTENER, SOURCES,
};

static const char *const source_name[SOURCES] = {
	"flood", "flood", "flood", "flood", "timerfd", "eventfd", "signalfd",
	"pipe", "not mapped", "listener",
};

enum asker { BY_EPOLL, BY_POLL, BY_SELECT };

/* Find those of @fd that are ready; return how many, of at most SOURCES. */
static int ask(enum asker how, int ep, const int *fd, int *ready)
{
	struct timeval tv = { 1, 0 };
	struct pollfd p[SOURCES];
	struct epoll_event e[3];
	int i, n = 0, got, top = 0;
	fd_set r;

	if (how == BY_EPOLL) {
		got = epoll_wait(ep, e, 3, 1000);
		for (i = 0; i < got; i++)
			ready[n++] = e[i].data.u32;
		return n;
	}
	FD_ZERO(&r);
	for (i = 0; i < SOURCES; i++) {
		p[i] = (struct pollfd){ fd[i], POLLIN, 0 };
		FD_SET(fd[i], &r);
		if (fd[i] >= top)
			top = fd[i] + 1;
	}
	if (how == BY_POLL)
		got = poll(p, SOURCES, 1000);
	else
		got = select(top, &r, NULL, NULL, &tv);
	for (i = 0; i < SOURCES && got > 0; i++)
		if (how == BY_POLL ? p[i].revents != 0 : FD_ISSET(fd[i], &r))
			ready[n++] = i;
	return n == got ? n : -1;
}

/*
 * Sources that set each other off: timer, eventfd, signalfd, a pipe, a
 * connection that is not mapped; and a client connects.
 */
static void nobody_starves(struct __test_metadata *_metadata, enum asker how)
{
	struct itimerspec each = { { 0, 20000000 }, { 0, 20000000 } };
	int fd[SOURCES], ready[SOURCES], ep = epoll_create1(0), i, n, a[4];
	int64_t ran = 0, then, now, count[SOURCES] = { 0 }, data = 0;
	int late, p[2], cold, maps = shim_maps();
	struct epoll_event e;
	struct sockaddr_in sa;
	struct flood f = { };
	pthread_t t;
	uint64_t x;
	sigset_t set;

	fd[TIMER] = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
	fd[EVENT] = eventfd(0, EFD_NONBLOCK);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	fd[SIGNAL] = signalfd(-1, &set, SFD_NONBLOCK);
	ASSERT_EQ(0, pipe(p));
	fd[PIPE] = p[0];
	ASSERT_TRUE(shim_pair(L5, &cold, &fd[COLD]));
	ASSERT_TRUE(shim_listen(TCP, &fd[LISTENER], &sa));
	for (i = 0; i < 4; i++) {
		WARM_PAIR(L5, a[i], fd[i]);
		f.fd[i] = a[i];
	}
	for (i = 0; i < SOURCES; i++) {
		e = (struct epoll_event){ EPOLLIN, { .u32 = i } };
		ASSERT_EQ(0, epoll_ctl(ep, EPOLL_CTL_ADD, fd[i], &e));
	}
	timerfd_settime(fd[TIMER], 0, &each, NULL);
	ASSERT_EQ(0, pthread_create(&t, NULL, floods, &f));
	late = shim_socket(TCP, SOCK_NONBLOCK);
	connect(late, (struct sockaddr *)&sa, sizeof(sa));
	/* some to read, should the other thread be held up */
	for (i = 0; i < 4; i++) {
		do {
			usleep(1000);
			ASSERT_EQ(0, ioctl(fd[i], FIONREAD, &n));
		} while (n < 1000);
	}
	/* two seconds, without those in which the machine stood still */
	for (then = l5_now_ms(); ran < 2000; then = now) {
		n = ask(how, ep, fd, ready);
		ASSERT_GT(n, 0);
		while (n--) {
			i = ready[n];
			count[i]++;
			switch (i) {
			case TIMER:
				ASSERT_EQ(8, read(fd[i], &x, 8));
				x = 1;
				ASSERT_EQ(8, write(fd[EVENT], &x, 8));
				break;
			case EVENT:
				ASSERT_EQ(8, read(fd[i], &x, 8));
				kill(getpid(), SIGUSR1);
				break;
			case SIGNAL:
				ASSERT_LT(0, read(fd[i], buf, sizeof(buf)));
				ASSERT_EQ(1, write(p[1], "p", 1));
				break;
			case PIPE:
				ASSERT_EQ(1, read(fd[i], buf, 1));
				ASSERT_EQ(1, raw_write(cold, "c", 1));
				break;
			case COLD:
				ASSERT_EQ(1, raw_read(fd[i], buf, 1));
				break;
			case LISTENER:
				close(accept(fd[i], NULL, NULL));
				break;
			default:
				/*
				 * Level-triggered: it is reported again. And
				 * read slower than it comes, so that there is
				 * always some.
				 */
				ASSERT_EQ(1, recv(fd[i], buf, 1, 0));
				data++;
			}
		}
		now = l5_now_ms();
		ran += now - then < 20 ? now - then : 20;
	}
	atomic_store(&f.stop, true);
	pthread_join(t, NULL);
	for (i = 0; i < SOURCES; i++)
		TH_LOG("%s: %d", source_name[i], (int)count[i]);
	/* a hundred are due; the machine may be busy */
	EXPECT_LT(10, count[TIMER]);
	for (i = EVENT; i <= COLD; i++)
		EXPECT_LE(count[i - 1] / 2, count[i]);
	EXPECT_EQ(1, count[LISTENER]);
	EXPECT_LT(100, data);
	/* the floods are alike, so nearly the same is asked of each */
	for (i = 0; i < 4; i++) {
		EXPECT_LT(25, count[i]);
		EXPECT_LT(data / 40, count[i]);
	}
	/* the floods are mapped, the other one is not */
	EXPECT_EQ(maps + 8, shim_maps());
}

SHIM_TEST(nobody_starves)
{
	nobody_starves(_metadata, BY_EPOLL);
}

SHIM_TEST(nobody_starves_poll)
{
	nobody_starves(_metadata, BY_POLL);
}

SHIM_TEST(nobody_starves_select)
{
	nobody_starves(_metadata, BY_SELECT);
}

/* A thread waits, data comes now and then: no wake-up is lost. */
struct echo {
	int ep;
	int fd;
	bool polls;
	bool edge;
};

static void *echoes(void *arg)
{
	struct echo *e = arg;
	struct pollfd p = { e->fd, POLLIN, 0 };
	struct epoll_event ev;
	ssize_t n;

	for (;;) {
		if (e->polls)
			n = poll(&p, 1, -1);
		else
			n = epoll_wait(e->ep, &ev, 1, -1);
		if (n != 1)
			continue;
		while ((n = recv(e->fd, buf, 100, MSG_DONTWAIT)) > 0)
			if (write(e->fd, buf, n) != n)
				return NULL;
		if (!n)
			return NULL;
	}
}

static void no_wakeup_is_lost(struct __test_metadata *_metadata, bool polls,
			      uint32_t events, bool raw_peer)
{
	struct epoll_event ev = { .events = events };
	struct echo e = { .polls = polls };
	unsigned int seed = 1;
	struct timeval tv = { 20 * l5_slow(), 0 };
	int a, i;
	pthread_t t;
	char c;

	WARM_PAIR(L5, a, e.fd);
	setsockopt(a, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	e.ep = epoll_create1(0);
	ASSERT_EQ(0, epoll_ctl(e.ep, EPOLL_CTL_ADD, e.fd, &ev));
	ASSERT_EQ(0, pthread_create(&t, NULL, echoes, &e));
	for (i = 0; i < 1200; i++) {
		if (raw_peer && i & 1) {
			ASSERT_EQ(1, raw_write(a, "x", 1));
			ASSERT_EQ(1, raw_read(a, &c, 1));
		} else {
			ASSERT_EQ(1, write(a, "x", 1));
			ASSERT_EQ(1, read(a, &c, 1));
		}
		if (!(rand_r(&seed) % 8))
			usleep(rand_r(&seed) % 300);
	}
	close(a);
	pthread_join(t, NULL);
	close(e.fd);
	close(e.ep);
}

SHIM_TEST(wakeups_level)
{
	no_wakeup_is_lost(_metadata, false, EPOLLIN, false);
}

SHIM_TEST(wakeups_edge)
{
	no_wakeup_is_lost(_metadata, false, EPOLLIN | EPOLLET, false);
}

SHIM_TEST(wakeups_poll)
{
	no_wakeup_is_lost(_metadata, true, EPOLLIN, false);
}

SHIM_TEST(wakeups_mixed)
{
	no_wakeup_is_lost(_metadata, false, EPOLLIN, true);
	no_wakeup_is_lost(_metadata, false, EPOLLIN | EPOLLET, true);
	no_wakeup_is_lost(_metadata, true, EPOLLIN, true);
}

/* Larger than the array that is there: libc ends the program. */
SHIM_TEST(overflows)
{
	struct timespec ts = { 0, 0 };
	struct pollfd p[2];
	int a, b, i, n, status;
	pid_t pid;

	WARM_PAIR(L5, a, b);
	ASSERT_EQ(1, write(a, "x", 1));
	for (i = 0; i < 4; i++) {
		pid = fork();
		if (!pid) {
			struct rlimit none = { 0, 0 };

			setrlimit(RLIMIT_CORE, &none);
			dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
			p[0] = (struct pollfd){ b, POLLIN, 0 };
			p[1] = p[0];
			/* larger than it is, and as large */
			n = i < 2 ? 2 : 1;
			if (i & 1)
				n = __poll_chk(p, n, 0, sizeof(*p));
			else
				n = __ppoll_chk(p, n, &ts, NULL, sizeof(*p));
			_exit(n != 1 || p[0].revents != POLLIN);
		}
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		if (i >= 2) {
			ASSERT_EQ(0, status);
			continue;
		}
		ASSERT_TRUE(WIFSIGNALED(status));
		ASSERT_EQ(SIGABRT, WTERMSIG(status));
	}
}

/* Time of all threads, and how often one of them went to sleep. */
static void used(int64_t *us, long *sleeps)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	*us = u.ru_utime.tv_sec * 1000000ll + u.ru_utime.tv_usec +
	      u.ru_stime.tv_sec * 1000000ll + u.ru_stime.tv_usec;
	*sleeps = u.ru_nvcsw;
}

/* Two threads wait that lately had reason to look before they sleep. */
SHIM_TEST(idle)
{
	static const char *const name[] = { "poll", "epoll_wait", "read" };
	struct epoll_event ev = { .events = EPOLLIN };
	struct timeval tv = { 2, 0 }, far = { 20 * l5_slow(), 0 };
	struct echo e = { .polls = false };
	int64_t us, us_before, start, took;
	struct pollfd p = { .events = POLLIN };
	long sleeps, sleeps_before;
	pthread_t t;
	int a, ep, how, i, tries;
	char c;

	WARM_PAIR(L5, a, e.fd);
	e.ep = epoll_create1(0);
	ep = epoll_create1(0);
	ASSERT_EQ(0, epoll_ctl(e.ep, EPOLL_CTL_ADD, e.fd, &ev));
	ASSERT_EQ(0, epoll_ctl(ep, EPOLL_CTL_ADD, a, &ev));
	p.fd = a;
	ASSERT_EQ(0, pthread_create(&t, NULL, echoes, &e));
	for (how = 0; how < 3; how++) {
		ASSERT_EQ(0, setsockopt(a, SOL_SOCKET, SO_RCVTIMEO, &far,
					sizeof(far)));
		for (i = 0; i < 1000; i++) {
			ASSERT_EQ(1, write(a, "x", 1));
			if (how == 0)
				ASSERT_EQ(1, poll(&p, 1, 10000));
			if (how == 1)
				ASSERT_EQ(1, epoll_wait(ep, &ev, 1, 10000));
			ASSERT_EQ(1, read(a, &c, 1));
		}
		ASSERT_EQ(0, setsockopt(a, SOL_SOCKET, SO_RCVTIMEO, &tv,
					sizeof(tv)));
		/* what the host takes away counts as used, or makes it late */
		tries = 0;
		do {
			used(&us_before, &sleeps_before);
			start = l5_now_ms();
			if (how == 0)
				ASSERT_EQ(0, poll(&p, 1, 2000));
			if (how == 1)
				ASSERT_EQ(0, epoll_wait(ep, &ev, 1, 2000));
			if (how == 2)
				ASSERT_EQ(-1, read(a, &c, 1));
			took = l5_now_ms() - start;
			used(&us, &sleeps);
			us -= us_before;
		} while ((us >= 200000 || took < 1990) && ++tries < 4);
		EXPECT_LE(1990, took);
		sleeps -= sleeps_before;
		TH_LOG("%s: %d us, %d sleeps", name[how], (int)us, (int)sleeps);
		EXPECT_GT(200000, us);
		EXPECT_GT(20, sleeps);
	}
	ASSERT_EQ(2, shim_maps());
	close(a);
	pthread_join(t, NULL);
}

/* Change a registration until its changes are for later, and once more. */
static void change_often(int ep, int fd)
{
	struct epoll_event e = { 0 };
	int i;

	for (i = 0; i < 42; i++) {
		e.events = i & 1 ? EPOLLIN : 0;
		if (epoll_ctl(ep, EPOLL_CTL_MOD, fd, &e))
			abort();
	}
}

struct set_waiter {
	enum how how;
	int ep;
	int ms;
	int ret;
};

static void *waits_for_set(void *arg)
{
	struct set_waiter *w = arg;
	struct pollfd p = { w->ep, POLLIN, 0 };

	w->ret = wait_for(w->how, &p, 1, w->ms);
	return NULL;
}

/*
 * A thread waits for a set in poll() or select(), and began when nothing was
 * mapped. What is changed often in the set is told to the kernel at once.
 */
static void set_waited_for(struct __test_metadata *_metadata, enum how how)
{
	struct epoll_event e = { .events = EPOLLIN };
	struct set_waiter w = { .how = how, .ms = 20000, .ret = -1 };
	pthread_t t;
	int a, b;

	ASSERT_TRUE(shim_pair(L5, &a, &b));
	w.ep = epoll_create1(0);
	ASSERT_LE(0, w.ep);
	ASSERT_EQ(0, epoll_ctl(w.ep, EPOLL_CTL_ADD, b, &e));
	ASSERT_EQ(0, shim_maps());
	ASSERT_TRUE(l5_wait_asleep(l5_thread_start(&t, NULL, waits_for_set,
						   &w)));
	ASSERT_EQ(0, epoll_ctl(w.ep, EPOLL_CTL_DEL, b, NULL));
	ASSERT_TRUE(shim_warm(a, b));
	ASSERT_EQ(2, shim_maps());
	ASSERT_EQ(0, epoll_ctl(w.ep, EPOLL_CTL_ADD, b, &e));
	change_often(w.ep, b);
	ASSERT_EQ(1, write(a, "x", 1));
	pthread_join(t, NULL);
	EXPECT_EQ(1, w.ret);
	close(a);
	close(b);
	close(w.ep);
}

SHIM_TEST(set_polled_early)
{
	set_waited_for(_metadata, POLL);
}

SHIM_TEST(set_selected_early)
{
	set_waited_for(_metadata, SELECT);
}

/* A child waits in a set that it has from its parent, which changes it. */
SHIM_TEST(set_of_parent)
{
	struct epoll_event e = { .events = EPOLLIN };
	struct pollfd p = { .events = POLLIN };
	int a, b, ep, how, status;
	pid_t pid;

	for (how = 0; how < 2; how++) {
		WARM_PAIR(L5, a, b);
		ep = epoll_create1(0);
		ASSERT_LE(0, ep);
		ASSERT_EQ(0, epoll_ctl(ep, EPOLL_CTL_ADD, b, &e));
		pid = fork();
		if (!pid) {
			p.fd = ep;
			_exit(how ? poll(&p, 1, 20000) :
				    epoll_wait(ep, &e, 1, 20000));
		}
		ASSERT_TRUE(l5_wait_asleep(pid));
		change_often(ep, b);
		ASSERT_EQ(1, write(a, "x", 1));
		status = l5_reap(pid);
		EXPECT_EQ(1, WEXITSTATUS(status));
		close(a);
		close(b);
		close(ep);
	}
}

struct leaver {
	int ep;
	int ms;
	int ret;
};

static void *waits_in(void *arg)
{
	struct leaver *l = arg;
	struct epoll_event e;

	l->ret = epoll_wait(l->ep, &e, 1, l->ms);
	return NULL;
}

/*
 * A set is closed while a thread waits in it. What is remembered of the next
 * one, perhaps in the same memory, is not touched when the thread leaves.
 */
SHIM_TEST(set_closed_below)
{
	struct leaver first = { .ms = 1000 }, second = { .ms = 20000 };
	struct epoll_event e = { .events = EPOLLIN };
	pthread_t t, u;
	int a, b;

	WARM_PAIR(L5, a, b);
	first.ep = epoll_create1(0);
	ASSERT_EQ(0, epoll_ctl(first.ep, EPOLL_CTL_ADD, b, &e));
	ASSERT_TRUE(l5_wait_asleep(l5_thread_start(&t, NULL, waits_in,
						   &first)));
	close(first.ep);
	second.ep = epoll_create1(0);
	pthread_join(t, NULL);
	EXPECT_EQ(0, first.ret);
	ASSERT_EQ(0, epoll_ctl(second.ep, EPOLL_CTL_ADD, b, &e));
	ASSERT_TRUE(l5_wait_asleep(l5_thread_start(&u, NULL, waits_in,
						   &second)));
	change_often(second.ep, b);
	ASSERT_EQ(1, write(a, "x", 1));
	pthread_join(u, NULL);
	EXPECT_EQ(1, second.ret);
	close(a);
	close(b);
	close(second.ep);
}

/* A worker that turns a registration off as soon as it has an event of it. */
struct worker {
	int ep, fd;
	atomic_int off;
};

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	struct epoll_event e;

	while (epoll_wait(w->ep, &e, 1, -1) == 1 && e.data.fd >= 0) {
		e.events = 0;
		epoll_ctl(w->ep, EPOLL_CTL_MOD, w->fd, &e);
		atomic_fetch_add(&w->off, 1);
	}
	return NULL;
}

/* An event without a descriptor ends a worker; then the set is closed. */
static bool worker_end(int ep, pthread_t t)
{
	struct epoll_event e = { .events = EPOLLIN, .data.fd = -1 };
	int stop = eventfd(1, 0);

	if (epoll_ctl(ep, EPOLL_CTL_ADD, stop, &e))
		return false;
	pthread_join(t, NULL);
	close(stop);
	close(ep);
	return true;
}

/* The thread that registered it may not have noted that yet. */
SHIM_TEST(turned_off_at_once)
{
	struct epoll_event e = { .events = EPOLLIN }, got;
	struct worker w = { 0 };
	pthread_t t;
	int a, b, i;

	WARM_PAIR(L5, a, b);
	ASSERT_EQ(1, write(a, "x", 1));
	w.ep = epoll_create1(0);
	w.fd = b;
	pthread_create(&t, NULL, worker_main, &w);
	e.data.fd = b;
	for (i = 1; i <= 3000 / l5_slow(); i++) {
		ASSERT_EQ(0, epoll_ctl(w.ep, EPOLL_CTL_ADD, b, &e)) {
			TH_LOG("round %d: %m", i);
		}
		ASSERT_TRUE(L5_UNTIL(atomic_load(&w.off) >= i,
				     10000 * l5_slow()));
		EXPECT_EQ(0, epoll_wait(w.ep, &got, 1, 0)) {
			TH_LOG("round %d", i);
			break;
		}
		ASSERT_EQ(0, epoll_ctl(w.ep, EPOLL_CTL_DEL, b, &e));
		atomic_store(&w.off, i);
	}
	ASSERT_TRUE(worker_end(w.ep, t));
	close(a);
	close(b);
}

/* A worker that counts the events, and reads nothing. */
struct counter {
	int ep;
	atomic_int seen;
};

static void *counter_main(void *arg)
{
	struct counter *w = arg;
	struct epoll_event e;

	while (epoll_wait(w->ep, &e, 1, -1) == 1 && e.data.fd >= 0)
		atomic_fetch_add(&w->seen, 1);
	return NULL;
}

/*
 * An edge that is asked for again comes again, to a thread that is told of it
 * before the one that asked has noted that it did: the worker has the same CPU,
 * and precedence.
 */
SHIM_TEST(edge_asked_for_again)
{
	struct epoll_event e = { .events = EPOLLIN | EPOLLET };
	struct sched_param first = { .sched_priority = 1 };
	struct counter w = { 0 };
	int a, b, i, seen;
	cpu_set_t one;
	pthread_t t;
	pid_t tid;

	WARM_PAIR(L5, a, b);
	ASSERT_EQ(1, write(a, "x", 1));
	w.ep = epoll_create1(0);
	tid = l5_thread_start(&t, NULL, counter_main, &w);
	CPU_ZERO(&one);
	CPU_SET(0, &one);
	ASSERT_EQ(0, sched_setaffinity(0, sizeof(one), &one));
	ASSERT_EQ(0, sched_setaffinity(tid, sizeof(one), &one));
	sched_setscheduler(tid, SCHED_FIFO, &first);
	e.data.fd = b;
	ASSERT_EQ(0, epoll_ctl(w.ep, EPOLL_CTL_ADD, b, &e));
	ASSERT_TRUE(L5_UNTIL(atomic_load(&w.seen), 10000 * l5_slow()));
	for (i = 0; i < 1000 / l5_slow(); i++) {
		ASSERT_TRUE(l5_wait_asleep(tid));
		seen = atomic_load(&w.seen);
		if (i & 1) {
			ASSERT_EQ(0, epoll_ctl(w.ep, EPOLL_CTL_MOD, b, &e));
		} else {
			ASSERT_EQ(0, epoll_ctl(w.ep, EPOLL_CTL_DEL, b, &e));
			ASSERT_EQ(0, epoll_ctl(w.ep, EPOLL_CTL_ADD, b, &e));
		}
		ASSERT_TRUE(L5_UNTIL(atomic_load(&w.seen) > seen,
				     10000 * l5_slow())) {
			TH_LOG("round %d", i);
		}
	}
	ASSERT_TRUE(worker_end(w.ep, t));
	close(a);
	close(b);
}

/* A wait by syscall() is seen, too, or what is only noted is not told of. */
SHIM_TEST(waited_for_by_number)
{
	struct epoll_event e = { .events = EPOLLIN };
	int a, b, ep;

	WARM_PAIR(L5, a, b);
	ep = epoll_create1(0);
	ASSERT_EQ(0, epoll_ctl(ep, EPOLL_CTL_ADD, b, &e));
	change_often(ep, b);
	e.events = 0;
	ASSERT_EQ(0, epoll_ctl(ep, EPOLL_CTL_MOD, b, &e));
	ASSERT_EQ(1, write(a, "x", 1));
	EXPECT_EQ(0, epoll_wait(ep, &e, 1, 0));
	e.events = EPOLLIN;
	ASSERT_EQ(0, epoll_ctl(ep, EPOLL_CTL_MOD, b, &e));
	EXPECT_EQ(1, syscall(SYS_epoll_pwait, ep, &e, 1, 10000, NULL, 8));
	close(ep);
	close(a);
	close(b);
}

TEST_HARNESS_MAIN
