// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hostile.h"
#include "signals.h"

/* How long a play takes, and how long a call may at most. */
#define PLAY_MS		(70 * l5_slow())
#define CALL_MS		(15000 * l5_slow())

static const char *const wrong_name[] = {
	[W_SETUP] = "cannot begin",
	[W_COUNT] = "too many bytes",
	[W_ERRNO] = "strange errno",
	[W_LONG] = "took too long",
	[W_GOOD] = "bytes of the innocent connection",
	[W_STARVED] = "innocent connection starved",
	[W_ENDLESS] = "no end",
	[W_CLOSE] = "close",
};

void hostile_wrong(struct hostile *h, enum wrong what)
{
	if (h->wrong)
		return;
	h->wrong = what;
	h->a->error = errno;
	if (what == W_COUNT || what == W_GOOD)
		l5_fatal("%s", wrong_name[what]);
}

ssize_t hostile_judge(struct hostile *h, ssize_t n, size_t want)
{
	if (n > (ssize_t)want || n < -1)
		hostile_wrong(h, W_COUNT);
	if (n != -1)
		return n;
	switch (errno) {
	case EAGAIN:
	case EINTR:
	/* it broke the protocol; and what a socket says when that is over */
	case EPROTO:
	case EPIPE:
	case ECONNRESET:
		break;
	default:
		hostile_wrong(h, W_ERRNO);
	}
	return n;
}

uint8_t *hostile_memory(size_t n)
{
	const size_t all = (HOSTILE_BUF + MAP_PAGE - 1) & ~(MAP_PAGE - 1);
	static uint8_t *base;

	if (!base) {
		base = mmap(NULL, all + MAP_PAGE, PROT_NONE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (base == MAP_FAILED ||
		    mprotect(base, all, PROT_READ | PROT_WRITE))
			abort();
	}
	return base + all - n;
}

size_t hostile_want(struct hostile *h)
{
	uint32_t r = l5_rnd(&h->seed);

	return 1 + r % (r & 0x1000 ? HOSTILE_BUF : 100);
}

static bool timeouts(struct hostile *h, int us)
{
	struct timeval tv = { .tv_usec = us };

	return !setsockopt(h->evil, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)) &&
	       !setsockopt(h->evil, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
}

bool hostile_timeouts(struct hostile *h)
{
	return timeouts(h, 5000);
}

bool hostile_alarm(struct hostile *h)
{
	alarm_every(15000);
	return timeouts(h, 0);
}

static void victim(const struct hostile_game *g, struct hostile *h)
{
	struct pollfd p = { .fd = h->evil };
	struct arena *a = h->a;
	int ended = 0;
	int64_t start;

	errno = 0;
	if (!g->begin(h, g->arg))
		hostile_wrong(h, W_SETUP);
	l5_store(&a->ready, 1);
	while (!l5_load(&a->stop) && !h->wrong) {
		start = l5_now_ms();
		g->step(h, g->arg);
		if (l5_now_ms() - start > CALL_MS)
			hostile_wrong(h, W_LONG);
		if (++a->calls % 8 == 0 &&
		    !g->good(h, g->arg, hostile_want(h)))
			hostile_wrong(h, W_GOOD);
		/* broken: it has to stay harmless, but for how long */
		p.revents = 0;
		syscall(SYS_poll, &p, 1, 0);
		if (p.revents && ++ended > 100)
			break;
	}
	UNTIL(l5_load(&a->stop) == 2);
	alarm_off();
	if (h->wrong)
		return;
	start = l5_now_ms();
	g->end(h, g->arg);
	if (l5_now_ms() - start > CALL_MS)
		hostile_wrong(h, W_LONG);
	if (!g->good(h, g->arg, 200000))
		hostile_wrong(h, W_GOOD);
}

/* Of the victim, by how it ended */
static bool verdict(int status, const struct hostile_game *g, const char *at,
		    enum mood mood, uint64_t seed, int error)
{
	int code = status != -1 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;

	if (!status)
		return true;
	printf("# %s, %s, %s, seed %llu: victim: ", g->api, mood_name[mood],
	       at, (unsigned long long)seed);
	/* l5_reap() has told of it */
	if (status == -1)
		printf("hangs\n");
	else if (code > 0 && code < W_MAX)
		printf("%s, errno %d\n", wrong_name[code], error);
	else
		printf("status %x\n", status);
	return false;
}

bool hostile_play(const struct hostile_game *g, const char *at, enum mood mood,
		  uint64_t seed, unsigned long sum[2])
{
	struct arena *a = map_shared(MAP_PAGE);
	int fd[2], e = seed & 1, status;
	struct hostile h = { .a = a };
	pid_t vic, scr = -1;
	bool ok;

	if (!a || l5_sysctl("ring_kb", seed & 2 ? 4 : 16) < 0 ||
	    !map_pair(at, &fd[0], &fd[1]) ||
	    !map_pair(at, &h.good[0], &h.good[1])) {
		printf("# no connections: errno %d\n", errno);
		return false;
	}
	fflush(NULL);
	vic = fork();
	if (!vic) {
		close(fd[!e]);
		h.evil = fd[e];
		h.seed = seed | 1ULL << 40;
		victim(g, &h);
		_exit(h.wrong);
	}
	close(h.good[0]);
	close(h.good[1]);
	if (vic > 0)
		scr = fork();
	if (!scr) {
		close(fd[e]);
		scribbler(fd[!e], mood, a, seed | 1ULL << 41);
	}
	close(fd[0]);
	close(fd[1]);
	if (vic < 0 || scr < 0) {
		printf("# fork: errno %d\n", errno);
		return false;
	}
	/* until it had its time, or the victim has enough */
	UNTIL(l5_load(&a->ready));
	ok = scribble_watch(a, vic, scr, PLAY_MS, seed & 4, &status);
	if (!ok)
		printf("# %s, %s: scribbler: %x\n", g->api, mood_name[mood],
		       status);
	ok &= verdict(l5_reap(vic), g, at, mood, seed, a->error);
	sum[0] += a->calls;
	sum[1] += a->writes;
	munmap(a, MAP_PAGE);
	return ok;
}
