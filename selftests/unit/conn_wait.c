// SPDX-License-Identifier: GPL-2.0
/*
 * Waiting by the public functions of libl5 over mapped rings, without AF_L5:
 * how often it looks, when it sleeps, and for which of many.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "kernel.h"

CONN_FIXTURE(unit_conn_wait)

struct later {
	struct pair *p;
	bool asleep;
};

static void *send_later(void *arg)
{
	struct later *l = arg;
	uint32_t *word = &l->p->k->ctrl[1]->rx_wait;
	int i;

	usleep(20000);
	/* a thread that is to sleep does so by then */
	for (i = 0; l->asleep && i < 20000 && !l5_load(word); i++)
		usleep(1000);
	return l5_send(l->p->c[0], "!", 1, 0) == 1 ? NULL : arg;
}

/*
 * Another thread sends a byte while end 1 waits as it was told, @asleep in the
 * end; -1 if not so.
 */
static int wait_while(struct pair *p, bool any, bool asleep)
{
	struct later l = { p, asleep };
	struct l5_stream *c = p->c[1];
	pthread_t t;
	void *bad;
	char ch;

	count_from_here();
	/* a sleep that timed out leaves it set */
	l5_store(&p->k->ctrl[1]->rx_wait, 0);
	if (pthread_create(&t, NULL, send_later, &l))
		return -1;
	if (any && l5_wait(c, POLLIN, -1) != POLLIN)
		return -1;
	if (l5_recv(c, &ch, 1, 0) != 1 || ch != '!')
		return -1;
	if (pthread_join(t, &bad) || bad)
		return -1;
	return sleeps;
}

/* One receive in vain: how often it yields before it sleeps */
static int yields_of(struct l5_stream *c)
{
	char ch;

	count_from_here();
	if (l5_recv(c, &ch, 1, 0) != -1 || errno != EAGAIN || sleeps != 1)
		return -1;
	return yields;
}

static int yields_waiting(struct l5_stream *c)
{
	count_from_here();
	return l5_wait(c, POLLIN, 2000) || sleeps != 1 ? -1 : (int)yields;
}

/* Thresholds say how often it yields, and whether it sleeps at all. */
TEST_F_TIMEOUT(unit_conn_wait, set_wait, 200)
{
	static const struct { int spin_us, yields, want; } told[] = {
		{ 0, 0, 0 }, { 0, 1, 1 }, { 0, 7, 7 }, { 0, -1, 0 },
		{ 10, -1, 0 }, { 10, 3, 3 }, { 1, 0, 0 }, { -1, -1, 0 },
		{ -5, -5, 0 },
	};
	unsigned int i;

	ASSERT_TRUE(set_timeout(self->p.fd[1], SO_RCVTIMEO, 10));
	for (i = 0; i < sizeof(told) / sizeof(*told); i++) {
		l5_set_wait(self->b, told[i].spin_us, told[i].yields);
		EXPECT_EQ(told[i].want, yields_of(self->b)) TH_LOG("%u", i);
	}
	/* time enough that a crowded machine does not end it */
	l5_set_wait(self->b, 0, 7);
	EXPECT_EQ(7, yields_waiting(self->b));
	ASSERT_TRUE(set_timeout(self->p.fd[1], SO_RCVTIMEO, 0));
	l5_set_wait(self->b, 0, 0);
	EXPECT_EQ(1, wait_while(&self->p, false, true));
	EXPECT_EQ(1, wait_while(&self->p, true, true));
	l5_set_wait(self->b, 100000000, 0);
	EXPECT_EQ(0, wait_while(&self->p, false, false));
	EXPECT_EQ(0, wait_while(&self->p, true, false));
	EXPECT_EQ(0, yields);
	/* nor does a send suffer from it */
	EXPECT_EQ(1, l5_send(self->b, "x", 1, 0));
}

/*
 * The same by the environment, which is read once: in a process each. The exit
 * status is how often it yielded, or 100 if something went wrong.
 */
static int with_env(const char *spin, const char *often, bool found)
{
	struct pair p;
	int status, n, i;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid < 0)
		return -1;
	if (!pid) {
		unsetenv("L5_SPIN_US");
		unsetenv("L5_YIELDS");
		if (spin)
			setenv("L5_SPIN_US", spin, 1);
		if (often)
			setenv("L5_YIELDS", often, 1);
		if (!pair_new(&p) ||
		    (!found && !set_timeout(p.fd[1], SO_RCVTIMEO, 10)))
			_exit(100);
		/* once more if a crowded machine kept the other thread away */
		for (n = 1, i = 0; found && n > 0 && i < 5; i++)
			n = wait_while(&p, false, false);
		if (n > 0)
			n = found ? -1 : yields_of(p.c[1]);
		/* a connection that is told otherwise does otherwise */
		l5_set_wait(p.c[1], 0, 2);
		set_timeout(p.fd[1], SO_RCVTIMEO, 10);
		if (n < 0 || yields_of(p.c[1]) != 2)
			n = 100;
		pair_free(&p);
		_exit(n);
	}
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

PLAIN_FIXTURE(unit_conn_wait_alone)

TEST_F(unit_conn_wait_alone, environment)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	EXPECT_EQ(0, with_env(NULL, NULL, false));
	EXPECT_EQ(0, with_env("0", NULL, false));
	EXPECT_EQ(0, with_env("0", "0", false));
	/* not valgrind's 9 */
	EXPECT_EQ(8, with_env("0", "8", false));
	EXPECT_EQ(8, with_env("10", "8", false));
	EXPECT_EQ(0, with_env("10", "-1", false));
	/* found by looking: nobody slept */
	EXPECT_EQ(0, with_env("1000000", NULL, true));
	EXPECT_EQ(0, with_env("99999999", NULL, true));
	/* words that say nothing */
	EXPECT_EQ(0, with_env("", "", false));
	EXPECT_EQ(0, with_env("1x", "9x", false));
	EXPECT_EQ(0, with_env("-1", "-1", false));
}

/* Whatever it was told, a wait ends with its time. */
TEST_F_TIMEOUT(unit_conn_wait, wait_ends, 200)
{
	const uint64_t second = 1000000000;
	struct l5_event e = { self->b, POLLIN, 0 };
	uint64_t start;

	l5_set_wait(self->b, 100000000, 0);
	start = l5_map_now();
	EXPECT_EQ(0, l5_wait(self->b, POLLIN, 20));
	EXPECT_EQ(0, l5_wait_any(&e, 1, 20));
	EXPECT_GT(50 * second, l5_map_now() - start);
	EXPECT_LE(second / 25, l5_map_now() - start);
	/* all of it was spent looking, and nothing is left for a sleep */
	EXPECT_EQ(0, sleeps);
	EXPECT_EQ(0, yields);
	/* not longer than told either, if that is less: then it sleeps */
	l5_set_wait(self->b, 10, 0);
	EXPECT_EQ(0, l5_wait(self->b, POLLIN, 2000));
	EXPECT_EQ(1, sleeps);

	count_from_here();
	l5_set_wait(self->b, 0, INT_MAX);
	EXPECT_EQ(0, l5_wait(self->b, POLLIN, 20));
	EXPECT_LT(0, yields);
	EXPECT_EQ(0, sleeps);
	count_from_here();
	l5_set_wait(self->b, 1000000, INT_MAX);
	EXPECT_EQ(0, l5_wait(self->b, POLLIN, 20));
	EXPECT_EQ(0, yields);
	EXPECT_EQ(0, sleeps);
	/* and no time at all is one look */
	count_from_here();
	EXPECT_EQ(0, l5_wait(self->b, POLLIN, 0));
	EXPECT_EQ(0, calls);
}

/*
 * Many connections, more than set_poll() has on its stack; with rings and
 * without.
 */
enum { MANY = 70 };

struct answer {
	struct pair *p;
	int n;
	int rounds;
};

static void *answer_all(void *arg)
{
	struct answer *w = arg;
	struct l5_event e[MANY];
	int i, left = w->n * w->rounds;
	char ch;

	for (i = 0; i < w->n; i++)
		e[i] = (struct l5_event){ w->p[i].c[0], POLLIN, 0 };
	while (left) {
		if (l5_wait_any(e, w->n, -1) <= 0)
			return arg;
		for (i = 0; i < w->n; i++) {
			if (!e[i].revents)
				continue;
			if (e[i].revents != POLLIN ||
			    l5_recv(e[i].conn, &ch, 1, 0) != 1 ||
			    ch != (char)i ||
			    l5_send(e[i].conn, &ch, 1, 0) != 1)
				return arg;
			left--;
		}
	}
	return NULL;
}

TEST_F_TIMEOUT(unit_conn_wait, wait_any, 300)
{
	static struct pair p[MANY];
	struct answer w = { p, MANY, 1 + 200 / slow() };
	struct l5_event e[MANY + 2] = { 0 };
	struct l5_stream *plain[2];
	int i, k, n, sv[2];
	pthread_t t;
	void *bad;
	char ch;

	for (i = 0; i < MANY; i++) {
		ASSERT_TRUE(pair_new(&p[i]));
		e[i] = (struct l5_event){ p[i].c[1], POLLIN, 1 };
	}
	e[MANY].events = POLLIN;
	EXPECT_EQ(0, l5_wait_any(e, 0, 0));
	EXPECT_EQ(-1, l5_wait_any(e, -1, 0));
	EXPECT_EQ(EINVAL, errno);
	count_from_here();
	EXPECT_EQ(0, l5_wait_any(e, MANY + 1, 0));
	EXPECT_EQ(0, calls);
	EXPECT_EQ(0, l5_wait_any(e, MANY + 1, 500));
	EXPECT_EQ(1, sleeps);
	for (i = 0; i <= MANY; i++)
		EXPECT_EQ(0, e[i].revents);
	/* there is room everywhere, reported where it was asked for */
	e[3].events = POLLIN | POLLOUT;
	EXPECT_EQ(1, l5_wait_any(e, MANY + 1, -1));
	EXPECT_EQ(POLLOUT, e[3].revents);
	e[3].events = POLLIN;

	ASSERT_EQ(0, pthread_create(&t, NULL, answer_all, &w));
	for (k = 0; k < w.rounds; k++) {
		for (i = 0; i < MANY; i++) {
			ch = i;
			ASSERT_EQ(1, l5_send(p[i].c[1], &ch, 1, 0));
		}
		for (n = 0; n < MANY;) {
			ASSERT_LT(0, l5_wait_any(e, MANY + 1, -1));
			for (i = 0; i < MANY; i++) {
				if (!e[i].revents)
					continue;
				ASSERT_EQ(1, l5_recv(e[i].conn, &ch, 1, 0));
				ASSERT_EQ((char)i, ch);
				n++;
			}
		}
	}
	ASSERT_EQ(0, pthread_join(t, &bad));
	EXPECT_EQ(NULL, bad);

	/* a socket of another kind: no looking, but both are seen */
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sv));
	plain[0] = l5_map(sv[0]);
	plain[1] = l5_map(sv[1]);
	ASSERT_FALSE(l5_stream_mapped(plain[0]));
	EXPECT_EQ(ENOTTY, errno);
	e[MANY + 1] = (struct l5_event){ plain[0], POLLIN, 0 };
	l5_set_wait(p[0].c[1], 1000000, 5);
	count_from_here();
	EXPECT_EQ(0, l5_wait_any(e, MANY + 2, 500));
	EXPECT_EQ(0, yields);
	EXPECT_EQ(1, sleeps);
	EXPECT_EQ(1, l5_send(plain[1], "p", 1, 0));
	EXPECT_EQ(1, l5_wait_any(e, MANY + 2, -1));
	EXPECT_EQ(1, l5_send(p[69].c[0], "q", 1, 0));
	EXPECT_EQ(2, l5_wait_any(e, MANY + 2, -1));
	EXPECT_EQ(POLLIN, e[69].revents);
	EXPECT_EQ(POLLIN, e[MANY + 1].revents);
	l5_close(plain[0]);
	l5_close(plain[1]);
	for (i = 0; i < MANY; i++)
		pair_free(&p[i]);
}

TEST_HARNESS_MAIN
