// SPDX-License-Identifier: GPL-2.0
/*
 * Two hundred processes that talk in pairs and are killed at random points, in
 * whatever call or copy they are. What send() said is sent arrives, or the
 * reader is told that something is missing; the one left sees an end; and
 * when all are dead nothing of the module is held.
 *
 * In even pairs one sends and the other receives, so that TCP's own rule is
 * to be met to the byte: nothing unread is at the dead end, so the stream ends
 * in order behind all that was sent. In odd ones both do both, by two threads.
 *
 * L5_SECONDS says how long, L5_SEED with which dice; L5_DIFF=self is without
 * the module, to test the test.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "ends.h"

enum { PAIRS = 100, ENDS = 2, BIGGEST = 100000, STUCK_MS = 120000 };

/*
 * One direction: what went in and came out, and how it ended for both. An error
 * of a socket is told once, to whichever of two threads comes first.
 */
struct flow {
	uint64_t sent;
	int send_err;
	uint64_t got;
	int err;
	bool ended;
};

/* What a pair shares with its parent, which no kill takes away */
struct pair {
	struct flow flow[ENDS];		/* by the end that sends */
	struct addr at;
	bool ready;			/* @at is listened on */
	bool over;			/* an end is killed: wait for none */
	bool wrong;
};

/* What only the parent knows of it */
struct fate {
	pid_t pid[ENDS];		/* 0: it is gone */
	bool killed[ENDS];
	int64_t killed_at;		/* 0: nobody is yet */
	bool running;
	int status;			/* of an end that left by itself */
};

struct count {
	uint64_t kills;
	uint64_t pairs;
	uint64_t talked;		/* pairs that had moved bytes */
	uint64_t bytes;
	uint64_t resets;
	uint64_t bad;
};

struct talk {
	struct pair *pair;
	int fd;
	int end;
	uint64_t seed;
};

static enum end_kind kind = END_L5;

static bool duplex(int slot)
{
	return slot & 1;
}

#define GET(x)		__atomic_load_n(&(x), __ATOMIC_ACQUIRE)
#define SET(x, v)	__atomic_store_n(&(x), v, __ATOMIC_RELEASE)

static void *send_all(void *arg)
{
	struct talk *t = arg;
	struct flow *f = &t->pair->flow[t->end];
	char *buf = malloc(BIGGEST);

	while (buf) {
		size_t want = 1 + l5_rnd(&t->seed) %
			      (l5_rnd(&t->seed) % 4 ? 500 : BIGGEST);
		ssize_t n;

		l5_fill(buf, want, f->sent);
		n = send(t->fd, buf, want, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			f->send_err = errno;
			break;
		}
		SET(f->sent, f->sent + n);
		if (l5_rnd(&t->seed) % 8 == 0)
			usleep(l5_rnd(&t->seed) % 5000);
	}
	free(buf);
	return NULL;
}

static void *take_all(void *arg)
{
	struct talk *t = arg;
	struct flow *f = &t->pair->flow[!t->end];
	char *buf = malloc(BIGGEST);
	ssize_t n = -1;

	while (buf) {
		size_t want = 1 + l5_rnd(&t->seed) %
			      (l5_rnd(&t->seed) % 4 ? 500 : BIGGEST);

		if (l5_rnd(&t->seed) % 16 == 0)
			usleep(l5_rnd(&t->seed) % 2000);
		n = recv(t->fd, buf, want, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		if (l5_wrong(buf, n, f->got) >= 0) {
			/* first, since the next instruction may be its last */
			SET(t->pair->wrong, true);
			l5_check(buf, n, f->got);
			break;
		}
		SET(f->got, f->got + n);
	}
	f->err = n < 0 ? errno : 0;
	SET(f->ended, true);
	free(buf);
	return NULL;
}

static void talk(struct pair *p, int slot, int fd, int end, uint64_t seed)
{
	struct talk t = { .pair = p, .fd = fd, .end = end, .seed = seed };
	struct talk back = t;
	pthread_t thread;

	back.seed ^= 0x5555;
	if (!duplex(slot)) {
		end ? take_all(&t) : send_all(&t);
		return;
	}
	if (pthread_create(&thread, NULL, take_all, &back))
		return;
	send_all(&t);
	pthread_join(thread, NULL);
}

static const char *place(int slot)
{
	static char name[40];

	switch (slot / 2 % 3) {
	case 0:
		return "127.0.0.1:0";
	case 1:
		return "[::1]:0";
	}
	snprintf(name, sizeof(name), "abstract:l5_storm%d_%d", slot, getpid());
	return name;
}

static int server(struct pair *p, int slot, uint64_t seed)
{
	int l, fd;

	p->at = addr_parse(place(slot));
	l = end_listen(kind, &p->at);
	if (l < 0)
		return 2;
	SET(p->ready, true);
	do {
		struct pollfd pf = { .fd = l, .events = POLLIN };

		if (poll(&pf, 1, 50) == 1)
			break;
	} while (!GET(p->over));
	fcntl(l, F_SETFL, O_NONBLOCK);
	fd = accept(l, NULL, NULL);
	close(l);
	if (fd >= 0)
		talk(p, slot, fd, 1, seed);
	return 0;
}

static int client(struct pair *p, int slot, uint64_t seed)
{
	int fd;

	while (!GET(p->ready)) {
		if (GET(p->over))
			return 0;
		usleep(500);
	}
	fd = end_connect(kind, &p->at);
	if (fd < 0)
		return GET(p->over) ? 0 : 3;
	talk(p, slot, fd, 0, seed);
	return 0;
}

static void start_end(struct pair *p, struct fate *f, int slot, int end,
		      uint64_t seed)
{
	pid_t parent = getpid();
	pid_t pid = fork();

	if (pid) {
		f->pid[end] = pid;
		return;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0);
	signal(SIGPIPE, SIG_IGN);
	/* so that the killer has its turn among so many */
	setpriority(PRIO_PROCESS, 0, 10);
	_exit((end ? server : client)(p, slot, seed | 1));
}

static bool start_pair(struct pair *p, struct fate *f, int slot, uint64_t *seed)
{
	memset(p, 0, sizeof(*p));
	*f = (struct fate){ .running = true };
	for (int end = ENDS - 1; end >= 0; end--) {
		l5_rnd(seed);
		start_end(p, f, slot, end, *seed);
		if (f->pid[end] < 0)
			return false;
	}
	return true;
}

static void kill_end(struct pair *p, struct fate *f, int end, struct count *n)
{
	if (!f->pid[end] || f->killed[end])
		return;
	f->killed[end] = true;
	if (!f->killed_at)
		f->killed_at = l5_now_ms();
	SET(p->over, true);
	kill(f->pid[end], SIGKILL);
	n->kills++;
}

/* One end, most times; sometimes both at once. */
static void strike(struct pair *p, struct fate *f, uint64_t *seed,
		   struct count *n)
{
	int end = l5_rnd(seed) % ENDS;

	kill_end(p, f, end, n);
	if (l5_rnd(seed) % 4 == 0)
		kill_end(p, f, !end, n);
}

/* Mapped ends may die with a lock of the ring: then the peer is told so. */
static bool may_reset(int slot)
{
	return duplex(slot) || getenv("L5_FULL");
}

/* Check @f, and what the end that receives it sends. */
static bool flow_right(const struct flow *f, const struct flow *back, int slot,
		       struct count *n)
{
	int err = f->err;

	if (!f->ended)
		return true;
	if (!err && back->send_err == ECONNRESET)
		err = ECONNRESET;
	if (err) {
		n->resets++;
		if (err == ECONNRESET && may_reset(slot))
			return true;
		fprintf(stderr, "# pair %d: %s behind %llu of %llu bytes\n",
			slot, strerror(err), (unsigned long long)f->got,
			(unsigned long long)f->sent);
		return false;
	}
	if (f->got >= f->sent)
		return true;
	l5_fatal("pair %d: %llu of %llu bytes, and an orderly end", slot,
		 (unsigned long long)f->got, (unsigned long long)f->sent);
	return false;
}

/* Both ends are gone. @status: of the one that was left, or 0. */
static bool judge(struct pair *p, int slot, int status, struct count *n)
{
	bool right = !p->wrong;

	n->pairs++;
	n->talked += p->flow[0].got || p->flow[1].got;
	for (int end = 0; end < ENDS; end++) {
		n->bytes += p->flow[end].got;
		right = flow_right(&p->flow[end], &p->flow[!end], slot, n) &&
			right;
	}
	if (WIFSIGNALED(status)) {
		l5_fatal("pair %d: killed by signal %d, not by us", slot,
			 WTERMSIG(status));
		return false;
	}
	if (WEXITSTATUS(status)) {
		fprintf(stderr, "# pair %d: status %d\n", slot,
			WEXITSTATUS(status));
		return false;
	}
	return right;
}

/* Reap the dead. No process may leave before an end of the pair is killed. */
static void reap(struct pair *p, struct fate *f, int slot, struct count *n)
{
	for (int end = 0; end < ENDS; end++) {
		int status;

		if (!f->pid[end] ||
		    waitpid(f->pid[end], &status, WNOHANG) != f->pid[end])
			continue;
		f->pid[end] = 0;
		if (f->killed[end] && WIFSIGNALED(status) &&
		    WTERMSIG(status) == SIGKILL)
			continue;
		if (status)
			f->status = status;
		/* its peer is left alone, and nothing would end it */
		if (!f->killed_at) {
			fprintf(stderr, "# pair %d: an end left, status %#x\n",
				slot, status);
			n->bad++;
			kill_end(p, f, !end, n);
		}
	}
}

static void show(const char *path)
{
	FILE *f = fopen(path, "re");
	char line[300];

	while (f && fgets(line, sizeof(line), f))
		fprintf(stderr, "# %s: %s", path, line);
	if (f)
		fclose(f);
}

/* Where its threads are, for the person who has to find out why. */
static void show_tasks(pid_t pid)
{
	static const char *const what[] = { "stat", "syscall", "stack" };
	char path[400];
	struct dirent *d;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	while (dir && (d = readdir(dir))) {
		for (size_t i = 0; d->d_name[0] != '.' && i < 3; i++) {
			snprintf(path, sizeof(path), "/proc/%d/task/%s/%s",
				 pid, d->d_name, what[i]);
			show(path);
		}
	}
	if (dir)
		closedir(dir);
}

/* Would the process go on if it had a processor? */
static bool runs(pid_t pid)
{
	char path[400], state = 0;
	struct dirent *d;
	bool any = false;
	DIR *dir;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	while (dir && (d = readdir(dir))) {
		snprintf(path, sizeof(path), "/proc/%d/task/%s/stat", pid,
			 d->d_name);
		f = d->d_name[0] == '.' ? NULL : fopen(path, "re");
		if (!f)
			continue;
		any = any || (fscanf(f, "%*d (%*[^)]) %c", &state) == 1 &&
			      state == 'R');
		fclose(f);
	}
	if (dir)
		closedir(dir);
	return any;
}

/* Two hundred share what a busy machine gives: a running one has longer. */
static bool stuck(struct pair *p, struct fate *f, int slot)
{
	int64_t since = l5_now_ms() - f->killed_at;

	if (!f->killed_at || since < STUCK_MS * l5_slow())
		return false;
	for (int end = 0; end < ENDS && since < 5 * STUCK_MS * l5_slow(); end++)
		if (f->pid[end] && runs(f->pid[end]))
			return false;
	l5_fatal("pair %d hangs: killed %d %d, sent %llu, got %llu", slot,
		 f->killed[0], f->killed[1],
		 (unsigned long long)p->flow[0].sent,
		 (unsigned long long)p->flow[0].got);
	for (int end = 0; end < ENDS; end++)
		if (f->pid[end])
			show_tasks(f->pid[end]);
	show("/proc/net/l5");
	return true;
}

struct storm {
	struct pair *pair;
	struct fate fate[PAIRS];
	struct count n;
	uint64_t seed;
};

/* One look at every pair: how many have a live process; -1 if that is over. */
static int look(struct storm *s, bool go_on)
{
	int i, alive = 0;

	for (i = 0; i < PAIRS; i++) {
		struct fate *f = &s->fate[i];
		struct pair *p = &s->pair[i];

		if (f->pid[0] || f->pid[1]) {
			if (!go_on)
				strike(p, f, &s->seed, &s->n);
			reap(p, f, i, &s->n);
			if (stuck(p, f, i))
				return -1;
		}
		if (f->pid[0] || f->pid[1]) {
			alive++;
			continue;
		}
		s->n.bad += f->running && !judge(p, i, f->status, &s->n);
		f->running = false;
		if (go_on && !start_pair(p, f, i, &s->seed))
			return -1;
		alive += go_on;
	}
	return alive;
}

FIXTURE(long_storm_kill)
{
	struct storm s;
};

FIXTURE_SETUP(long_storm_kill)
{
	const char *diff = getenv("L5_DIFF");

	if (diff && !strcmp(diff, "self"))
		kind = END_TCP;
	else
		l5_or_skip();
	signal(SIGPIPE, SIG_IGN);
	memset(&self->s, 0, sizeof(self->s));
	self->s.seed = l5_seed();
	self->s.pair = mmap(NULL, PAIRS * sizeof(struct pair),
			    PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			    -1, 0);
	ASSERT_NE(MAP_FAILED, self->s.pair);
}

FIXTURE_TEARDOWN(long_storm_kill)
{
	munmap(self->s.pair, PAIRS * sizeof(struct pair));
}

TEST_F_TIMEOUT(long_storm_kill, kill, 7200)
{
	int64_t end = l5_now_ms() + l5_setting("L5_SECONDS", 20) * 1000;
	long long violations = l5_stat("violations");
	long long shm = l5_stat("conn_shm"), base = l5_stat("conn_base");
	long long maps = l5_stat("maps");
	struct storm *s = &self->s;
	struct count *n = &s->n;
	int i, k, alive;

	do {
		bool go_on = l5_now_ms() < end;

		alive = look(s, go_on);
		ASSERT_LE(0, alive);
		usleep(l5_rnd(&s->seed) % 4000);
		for (k = l5_rnd(&s->seed) % 8; go_on && k; k--) {
			i = l5_rnd(&s->seed) % PAIRS;
			strike(&s->pair[i], &s->fate[i], &s->seed, n);
		}
	} while (alive);
	TH_LOG("%llu kills, %llu pairs, %llu of them had talked, %llu bytes, %llu resets",
	       (unsigned long long)n->kills, (unsigned long long)n->pairs,
	       (unsigned long long)n->talked, (unsigned long long)n->bytes,
	       (unsigned long long)n->resets);
	EXPECT_EQ(0, n->bad);
	EXPECT_LT(0, n->talked);
	if (kind == END_TCP)
		return;
	shm = l5_stat("conn_shm") - shm;
	base = l5_stat("conn_base") - base;
	TH_LOG("%lld ends on rings, %lld not", shm, base);
	EXPECT_LT(base, shm);
	if (getenv("L5_FULL")) {
		maps = l5_stat("maps") - maps;
		TH_LOG("%lld mappings", maps);
		EXPECT_LT(shm / 2, maps);
	}
	EXPECT_TRUE(end_stat_reaches("pairs", 0));
	EXPECT_TRUE(end_stat_reaches("rings_kb", 0));
	EXPECT_TRUE(end_stat_reaches("reserved_kb", 0));
	EXPECT_EQ(violations, l5_stat("violations"));
	for (i = 0; i < 600 * l5_slow() && l5_references(); i++)
		usleep(100000);
	EXPECT_EQ(0, l5_references());
}

TEST_HARNESS_MAIN
