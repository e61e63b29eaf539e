// SPDX-License-Identifier: GPL-2.0
/*
 * Waiting under the preload library: poll() and select() say what they say on
 * TCP, signals and time-outs end them, and no other descriptor starves beside
 * mapped sockets that never have a pause.
 */
#include "shim.h"

#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

int __poll_chk(struct pollfd *fds, nfds_t n, int ms, size_t size);
int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *t,
		const sigset_t *set, size_t size);

enum how { POLL, PPOLL, POLL_CHK, PPOLL_CHK, SELECT, PSELECT, HOWS };

static const char *const how_name[HOWS] = {
	"poll", "ppoll", "__poll_chk", "__ppoll_chk", "select", "pselect",
};

/* Of poll()'s events those that select() knows, too. */
static int wait_for(enum how how, struct pollfd *p, int n, int ms)
{
	struct timespec ts = { ms / 1000, ms % 1000 * 1000000l };
	struct timeval tv = { ms / 1000, ms % 1000 * 1000 };
	fd_set r, w;
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
	for (i = 0; i < n; i++) {
		p[i].revents = 0;
		if (p[i].events & POLLIN)
			FD_SET(p[i].fd, &r);
		if (p[i].events & POLLOUT)
			FD_SET(p[i].fd, &w);
		if (p[i].fd >= top)
			top = p[i].fd + 1;
	}
	if (how == SELECT)
		ret = select(top, &r, &w, NULL, ms < 0 ? NULL : &tv);
	else
		ret = pselect(top, &r, &w, NULL, ms < 0 ? NULL : &ts, NULL);
	if (ret < 0)
		return ret;
	for (i = 0; i < n; i++)
		p[i].revents = (FD_ISSET(p[i].fd, &r) ? POLLIN : 0) |
			       (FD_ISSET(p[i].fd, &w) ? POLLOUT : 0);
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
	if (!shim_pair(kind, &a, &b) || !shim_warm(a, b))
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

static volatile sig_atomic_t caught;

static void on_alarm(int sig)
{
	(void)sig;
	caught++;
}

static void alarm_in(int ms)
{
	struct sigaction sa = { .sa_handler = on_alarm };
	struct itimerval it = { .it_value.tv_usec = ms * 1000 };

	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &it, NULL);
}

/* A signal, and a time-out, end the wait of a mapped socket. */
SHIM_TEST(signals_and_timeouts)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int a, b, ep = epoll_create1(0), how, i;
	struct timespec ts = { 0, 100000000 };
	sigset_t set, none;
	struct pollfd p;
	int64_t start;

	WARM_PAIR(L5, a, b);
	p = (struct pollfd){ b, POLLIN, 0 };
	for (how = 0; how < HOWS; how++) {
		alarm_in(50);
		ASSERT_EQ(-1, wait_for(how, &p, 1, -1));
		ASSERT_EQ(EINTR, errno);
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
	alarm_in(50);
	ASSERT_EQ(-1, epoll_wait(ep, &ev, 1, -1));
	ASSERT_EQ(EINTR, errno);
	start = l5_now_ms();
	ASSERT_EQ(0, epoll_wait(ep, &ev, 1, 100));
	ASSERT_GE(l5_now_ms() - start, 99);
	start = l5_now_ms();
	ASSERT_EQ(0, epoll_pwait2(ep, &ev, 1, &ts, NULL));
	ASSERT_GE(l5_now_ms() - start, 99);
	/* a signal that only the wait lets through */
	sigemptyset(&none);
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	caught = 0;
	alarm_in(1);
	usleep(20000);
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

/* They set each other off: timer, eventfd, signalfd; and one connection. */
SHIM_TEST(nobody_starves)
{
	struct itimerspec each = { { 0, 20000000 }, { 0, 20000000 } };
	int ep = epoll_create1(0), tfd, ev, sfd, i, n, l, a[4], b[4], late;
	int64_t end, timer = 0, event = 0, signals = 0, accepted = 0, data = 0;
	struct epoll_event e[3];
	struct sockaddr_in sa;
	struct flood f = { };
	pthread_t t;
	uint64_t x;
	sigset_t set;

	tfd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
	ev = eventfd(0, EFD_NONBLOCK);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	sfd = signalfd(-1, &set, SFD_NONBLOCK);
	ASSERT_TRUE(shim_listen(TCP, &l, &sa));
	for (i = 0; i < 4; i++) {
		WARM_PAIR(L5, a[i], b[i]);
		f.fd[i] = a[i];
		e[0] = (struct epoll_event){ EPOLLIN, { .u32 = i } };
		ASSERT_EQ(0, epoll_ctl(ep, EPOLL_CTL_ADD, b[i], &e[0]));
	}
	e[0] = (struct epoll_event){ EPOLLIN, { .u32 = 10 } };
	ASSERT_EQ(0, epoll_ctl(ep, EPOLL_CTL_ADD, tfd, &e[0]));
	e[0].data.u32 = 11;
	ASSERT_EQ(0, epoll_ctl(ep, EPOLL_CTL_ADD, ev, &e[0]));
	e[0].data.u32 = 12;
	ASSERT_EQ(0, epoll_ctl(ep, EPOLL_CTL_ADD, sfd, &e[0]));
	e[0].data.u32 = 13;
	ASSERT_EQ(0, epoll_ctl(ep, EPOLL_CTL_ADD, l, &e[0]));
	timerfd_settime(tfd, 0, &each, NULL);
	ASSERT_EQ(0, pthread_create(&t, NULL, floods, &f));
	end = l5_now_ms() + 2000;
	late = shim_socket(TCP, SOCK_NONBLOCK);
	connect(late, (struct sockaddr *)&sa, sizeof(sa));
	while (l5_now_ms() < end) {
		n = epoll_wait(ep, e, 3, 1000);
		ASSERT_GT(n, 0);
		for (i = 0; i < n; i++) {
			switch (e[i].data.u32) {
			case 10:
				ASSERT_EQ(8, read(tfd, &x, 8));
				timer++;
				x = 1;
				ASSERT_EQ(8, write(ev, &x, 8));
				break;
			case 11:
				ASSERT_EQ(8, read(ev, &x, 8));
				event++;
				kill(getpid(), SIGUSR1);
				break;
			case 12:
				ASSERT_LT(0, read(sfd, buf, sizeof(buf)));
				signals++;
				break;
			case 13:
				close(accept(l, NULL, NULL));
				accepted++;
				break;
			default:
				/* level: it is said again */
				ASSERT_LT(0, recv(b[e[i].data.u32], buf, 5, 0));
				data++;
			}
		}
	}
	atomic_store(&f.stop, true);
	pthread_join(t, NULL);
	TH_LOG("timer %d, eventfd %d, signalfd %d, accepted %d, data %d",
	       (int)timer, (int)event, (int)signals, (int)accepted, (int)data);
	/* a hundred are due; the machine may be busy */
	EXPECT_LT(10, timer);
	EXPECT_LE(timer / 2, event);
	EXPECT_LE(event / 2, signals);
	EXPECT_EQ(1, accepted);
	EXPECT_LT(100, data);
}

/* Somebody waits, data comes now and then: no wake-up is lost. */
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

TEST_HARNESS_MAIN
