// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "forged.h"
#include "signals.h"

/* The forger gives up after so long; a victim has enough long before. */
#define FORGER_MS	(20000 * l5_slow())
#define VICTIM_MS	300
#define VICTIM_CALLS	60

const char *const forgery_name[] = {
	"nobody", "changing", "kernel", "waiters", "holds"
};

const char *const patience_name[] = {
	"dontwait", "time-out", "signal", "kill"
};

/* Shared by the three */
struct board {
	uint32_t ready;		/* the victim is */
	uint32_t on;		/* the forger is at it */
	uint32_t stop;
	uint32_t gave_up;	/* after FORGER_MS */
	struct forged f;
};

static void forge(__u32 *word, uint32_t id, enum forgery what, uint32_t n)
{
	switch (what) {
	case F_NOBODY:
		l5_store(word, 0x1234567);
		break;
	case F_CHANGING:
		l5_store(word, 0x1000000 + (n & 0xffff));
		break;
	case F_KERNEL:
		l5_store(word, L5_LOCK_KERNEL);
		break;
	case F_WAITERS:
		l5_store(word, n & 1 ? id : id | L5_LOCK_WAITERS);
		break;
	default:
		l5_lock_try(word, id);
	}
}

/* By bare system calls, whatever library there is. */
static void forger(int fd, enum forgery what, struct board *b)
{
	struct l5_map_info info = { .size = sizeof(info),
				    .features = L5_REC_FILES };
	struct l5_ctrl *own;
	int64_t end;
	uint32_t n;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (syscall(SYS_setresgid, 65534, 65534, 65534) ||
	    syscall(SYS_setresuid, 65534, 65534, 65534))
		_exit(2);
	own = mmap(NULL, MAP_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		   L5_MMAP_OWN);
	if (own == MAP_FAILED || syscall(SYS_ioctl, fd, L5_IOC_MAP_INFO, &info))
		_exit(3);
	UNTIL(l5_load(&b->ready) || l5_load(&b->stop));
	end = l5_now_ms() + FORGER_MS;
	for (n = 0; !l5_load(&b->stop); n++) {
		forge(&own->tx_lock, info.id, what, n);
		forge(&own->rx_lock, info.id, what, n);
		l5_store(&b->on, 1);
		if (what == F_HOLDS)
			usleep(1000);
		if (!(n & 0xfff) && l5_now_ms() > end) {
			l5_store(&b->gave_up, 1);
			break;
		}
	}
	_exit(0);
}

static bool limits(struct forged *f)
{
	struct timeval tv = { .tv_usec = f->how == P_TIME ? 100000 : 0 };

	if (f->how == P_SIGNAL)
		alarm_every(15000);
	return !setsockopt(f->fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)) &&
	       !setsockopt(f->fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
}

/*
 * May a call end so? A call that cannot have the lock says that it is for
 * later, or that there was a signal; it never has a word that is held by the
 * rules.
 */
static bool may_end(const struct forged *f, ssize_t n)
{
	if (n == 1)
		return f->what != F_HOLDS;
	if (n != -1)
		return false;
	if (f->how == P_SIGNAL)
		return errno == EINTR;
	return errno == EAGAIN;
}

static void victim(const struct forged_game *g, struct board *b)
{
	struct forged *f = &b->f;
	int64_t end;
	ssize_t n;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGPIPE, SIG_IGN);
	f->wrong = -1;
	if ((g->begin && !g->begin(f)) || !limits(f))
		_exit(2);
	l5_store(&b->ready, 1);
	UNTIL(l5_load(&b->on));
	end = l5_now_ms() + VICTIM_MS;
	/* a process that is to be killed goes on until it is */
	while (f->how == P_KILL ||
	       (f->calls < VICTIM_CALLS && l5_now_ms() < end) || !f->calls) {
		n = g->step(f);
		l5_store(&f->calls, f->calls + 1);
		if (f->how == P_KILL || may_end(f, n))
			continue;
		f->wrong = n < 0 ? errno : 0;
		_exit(3);
	}
	_exit(0);
}

/* Until it has ended, or the forger has: its status, or -1. */
static int victim_wait(pid_t pid, const struct board *b)
{
	int status;

	for (;;) {
		bool late = l5_load(&b->gave_up);

		if (waitpid(pid, &status, WNOHANG) == pid)
			return late ? -1 : status;
		if (late)
			return -1;
		usleep(2000);
	}
}

static bool verdict(const struct forged_game *g, const struct board *b,
		    int status)
{
	const struct forged *f = &b->f;
	bool ok = f->how == P_KILL ?
		  status != -1 && WIFSIGNALED(status) &&
		  WTERMSIG(status) == SIGKILL : !status;

	if (!ok)
		printf("# %s, %s, %s: %s (%x) after %u calls, errno %d\n",
		       g->name, forgery_name[f->what], patience_name[f->how],
		       status == -1 ? "not back while the forger was there" :
		       "ends", status, f->calls, f->wrong);
	return ok;
}

bool forged_play(const struct forged_game *g, const char *at,
		 enum forgery what, enum patience how)
{
	struct board *b = map_shared(MAP_PAGE);
	int fd[2], status;
	pid_t vic, bad;
	uint8_t fill[200];
	bool ok;

	if (!b || !map_pair(at, &fd[0], &fd[1])) {
		printf("# no connection: errno %d\n", errno);
		return false;
	}
	memset(fill, 1, sizeof(fill));
	/* something to receive, in as many records */
	for (status = 0; status < 100; status++)
		syscall(SYS_sendto, fd[1], fill, 1, 0, NULL, 0);
	b->f = (struct forged){
		.fd = fd[0], .peer = fd[1], .how = how, .what = what,
	};
	fflush(NULL);
	bad = fork();
	if (!bad)
		forger(fd[0], what, b);
	vic = fork();
	if (!vic)
		victim(g, b);
	if (how == P_KILL) {
		UNTIL(l5_load(&b->on));
		usleep(100000);
		kill(vic, SIGKILL);
	}
	status = victim_wait(vic, b);
	l5_store(&b->stop, 1);
	ok = verdict(g, b, status);
	kill(vic, SIGKILL);
	l5_reap(vic);
	status = l5_reap(bad);
	if (status) {
		printf("# forger: %x\n", status);
		ok = false;
	}
	close(fd[0]);
	close(fd[1]);
	munmap(b, MAP_PAGE);
	return ok;
}
