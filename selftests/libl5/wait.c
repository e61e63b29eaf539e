// SPDX-License-Identifier: GPL-2.0
/*
 * libl5: waiting for one of many connections, and what it costs to wait.
 */
#include <poll.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "libl5_pair.h"
#include "mapping.h"

LIBL5_FIXTURE(libl5_wait)

/* A hundred connections, all of them answered, none much before the others. */
#define MANY	100

struct clients {
	struct l5_stream *c[MANY];
	int done[MANY];
	int rounds;
	bool bad;
};

static void *clients_run(void *arg)
{
	struct clients *w = arg;
	struct l5_event e[MANY];
	int i, left = MANY;
	char ch;

	for (i = 0; i < MANY; i++) {
		e[i] = (struct l5_event){ w->c[i], POLLIN, 0 };
		w->bad |= l5_send(w->c[i], "q", 1, 0) != 1;
	}
	while (left && !w->bad) {
		if (l5_wait_any(e, MANY, LONG_MS) <= 0) {
			w->bad = true;
			break;
		}
		for (i = 0; i < MANY; i++) {
			if (!e[i].revents)
				continue;
			w->bad |= l5_recv(w->c[i], &ch, 1, 0) != 1;
			if (++w->done[i] < w->rounds) {
				w->bad |= l5_send(w->c[i], "q", 1, 0) != 1;
			} else {
				e[i].conn = NULL;
				left--;
			}
		}
	}
	return NULL;
}

TEST_F_TIMEOUT(libl5_wait, wait_any, 300)
{
	struct clients w = { .rounds = 50 };
	struct l5_event e[MANY] = { 0 };
	int served[MANY] = { 0 }, i, n, sum = 0, least, most, worst = 0;
	pthread_t t;
	char ch;

	for (i = 0; i < MANY; i++) {
		w.c[i] = place_connect(&self->at, 0);
		ASSERT_NE(NULL, w.c[i]);
		e[i].conn = l5_accept(self->listener, 0);
		ASSERT_NE(NULL, e[i].conn);
		e[i].events = POLLIN;
		ASSERT_TRUE(l5_stream_mapped(w.c[i]));
		ASSERT_TRUE(l5_stream_mapped(e[i].conn));
	}
	EXPECT_EQ(0, l5_wait_any(e, MANY, 0));
	EXPECT_EQ(0, l5_wait_any(e, MANY, 30));
	ASSERT_EQ(0, pthread_create(&t, NULL, clients_run, &w));
	while (sum < MANY * w.rounds) {
		n = l5_wait_any(e, MANY, LONG_MS);
		ASSERT_LT(0, n);
		least = w.rounds;
		most = 0;
		for (i = 0; i < MANY; i++) {
			if (e[i].revents) {
				ASSERT_EQ(POLLIN, e[i].revents);
				ASSERT_EQ(1, l5_recv(e[i].conn, &ch, 1, 0));
				ASSERT_EQ(1, l5_send(e[i].conn, "a", 1, 0));
				served[i]++;
				sum++;
				n--;
			}
			least = served[i] < least ? served[i] : least;
			most = served[i] > most ? served[i] : most;
		}
		ASSERT_EQ(0, n);
		worst = most - least > worst ? most - least : worst;
	}
	ASSERT_EQ(0, pthread_join(t, NULL));
	EXPECT_FALSE(w.bad);
	/* a connection that starves is served when all others are done */
	EXPECT_GT(w.rounds * 4 / 5, worst);
	TH_LOG("at most %d rounds apart", worst);
	for (i = 0; i < MANY; i++) {
		l5_close(w.c[i]);
		l5_close(e[i].conn);
	}
}

/* Rings and other sockets in one set: none keeps the other from being seen. */
TEST_F(libl5_wait, wait_mixed)
{
	struct l5_stream *plain[2];
	struct l5_event e[2];
	char buf[10];
	int sv[2];

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sv));
	plain[0] = l5_map(sv[0]);
	plain[1] = l5_map(sv[1]);
	EXPECT_FALSE(l5_stream_mapped(plain[0]));
	e[0] = (struct l5_event){ self->s, POLLIN, 0 };
	e[1] = (struct l5_event){ plain[1], POLLIN, 0 };
	EXPECT_EQ(0, l5_wait_any(e, 2, 10));
	EXPECT_EQ(1, l5_send(self->c, "r", 1, 0));
	EXPECT_EQ(1, l5_wait_any(e, 2, -1));
	EXPECT_EQ(POLLIN, e[0].revents);
	EXPECT_EQ(0, e[1].revents);
	EXPECT_EQ(1, l5_send(plain[0], "p", 1, 0));
	EXPECT_EQ(2, l5_wait_any(e, 2, -1));
	EXPECT_EQ(POLLIN, e[0].revents);
	EXPECT_EQ(POLLIN, e[1].revents);
	EXPECT_EQ(1, l5_recv(self->s, buf, 10, 0));
	EXPECT_EQ(1, l5_wait_any(e, 2, -1));
	EXPECT_EQ(0, e[0].revents);
	l5_close(plain[0]);
	l5_close(plain[1]);
}

/* An idle connection costs no CPU time, however it was used before. */
static void *pinger(void *arg)
{
	char c;
	int i;

	for (i = 0; i < 300; i++)
		if (l5_send(arg, "x", 1, 0) != 1 || l5_recv(arg, &c, 1, 0) != 1)
			return arg;
	sleep(2);
	return l5_send(arg, "y", 1, 0) == 1 ? NULL : arg;
}

TEST_F(libl5_wait, idle)
{
	struct rusage r0, r1;
	pthread_t t;
	void *bad;
	long us;
	char c;
	int i;

	ASSERT_EQ(0, pthread_create(&t, NULL, pinger, self->c));
	for (i = 0; i < 300; i++) {
		ASSERT_EQ(1, l5_recv(self->s, &c, 1, 0));
		ASSERT_EQ(1, l5_send(self->s, "z", 1, 0));
	}
	getrusage(RUSAGE_THREAD, &r0);
	ASSERT_EQ(1, l5_recv(self->s, &c, 1, 0));
	getrusage(RUSAGE_THREAD, &r1);
	us = (r1.ru_utime.tv_sec - r0.ru_utime.tv_sec +
	      r1.ru_stime.tv_sec - r0.ru_stime.tv_sec) * 1000000 +
	     r1.ru_utime.tv_usec - r0.ru_utime.tv_usec +
	     r1.ru_stime.tv_usec - r0.ru_stime.tv_usec;
	/* a busy machine may take the CPU away in the few that it spins */
	EXPECT_GT(500000, us);
	ASSERT_EQ(0, pthread_join(t, &bad));
	EXPECT_EQ(NULL, bad);
}

TEST_F(libl5_wait, told_to_spin)
{
	int64_t start = l5_now_ms();
	struct timespec t0, t1;
	long us;
	char c;
	int i;

	l5_set_wait(self->s, 1000, 2);
	ASSERT_EQ(0, setsockopt(self->sfd, SOL_SOCKET, SO_RCVTIMEO,
				&(struct timeval){ .tv_usec = 1000 },
				sizeof(struct timeval)));
	/* not getrusage(), whose ticks the naps between may all meet */
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t0);
	for (i = 0; i < 100; i++)
		EXPECT_EQ(-1, l5_recv(self->s, &c, 1, 0));
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t1);
	us = (t1.tv_sec - t0.tv_sec) * 1000000 +
	     (t1.tv_nsec - t0.tv_nsec) / 1000;
	EXPECT_LE(100, l5_now_ms() - start);
	EXPECT_LE(50000, us);
}

/*
 * A signal that comes while a call looks: the library does not hear of it, but
 * from the handler. The looks are so long that it comes within them.
 */
enum call {
	CALL_RECV, CALL_RECVV, CALL_RECV_ALL, CALL_PEEK, CALL_WAIT,
	CALL_WAIT_ANY, CALL_SEND, CALL_RESERVE, CALLS,
};

static const char *const call_name[CALLS] = {
	"l5_recv", "l5_recvv", "l5_recv of all", "l5_peek", "l5_wait",
	"l5_wait_any", "l5_send", "l5_reserve",
};

/**
 * struct waiter - a thread in a call
 * @call: the call
 * @c: of which connection
 * @ready: 1 it is about to call, 2 it is back
 * @ret: what the call returned
 * @error: errno after it
 */
struct waiter {
	enum call call;
	struct l5_stream *c;
	int ready;
	ssize_t ret;
	int error;
};

static int handled;

static void on_signal(int sig)
{
	(void)sig;
	l5_interrupt();
	__atomic_add_fetch(&handled, 1, __ATOMIC_SEQ_CST);
}

static void *waiter_run(void *arg)
{
	struct waiter *w = arg;
	struct l5_event e[2] = { { w->c, POLLIN, 0 }, { w->c, POLLIN, 0 } };
	char buf[16];
	struct iovec v = { buf, sizeof(buf) };
	const void *p;
	void *q;

	__atomic_store_n(&w->ready, 1, __ATOMIC_SEQ_CST);
	switch (w->call) {
	case CALL_RECV:
		w->ret = l5_recv(w->c, buf, sizeof(buf), 0);
		break;
	case CALL_RECVV:
		w->ret = l5_recvv(w->c, &v, 1, 0);
		break;
	case CALL_RECV_ALL:
		w->ret = l5_recv(w->c, buf, sizeof(buf), MSG_WAITALL);
		break;
	case CALL_PEEK:
		w->ret = l5_peek(w->c, &p, 0);
		break;
	case CALL_WAIT:
		w->ret = l5_wait(w->c, POLLIN, -1);
		break;
	case CALL_WAIT_ANY:
		w->ret = l5_wait_any(e, 2, LONG_MS);
		break;
	case CALL_SEND:
		w->ret = l5_send(w->c, buf, sizeof(buf), 0);
		break;
	default:
		w->ret = l5_reserve(w->c, &q, sizeof(buf), 0);
	}
	w->error = w->ret < 0 ? errno : 0;
	__atomic_store_n(&w->ready, 2, __ATOMIC_SEQ_CST);
	return NULL;
}

static bool reaches(int *word, int value)
{
	return L5_UNTIL(__atomic_load_n(word, __ATOMIC_SEQ_CST) >= value,
			30000);
}

TEST_F_TIMEOUT(libl5_wait, interrupt, 300)
{
	const struct sigaction sa = { .sa_handler = on_signal };
	static char some[4096];
	struct waiter w;
	pthread_t t;

	sigaction(SIGUSR1, &sa, NULL);
	/* it ends only a call that is interrupted, not a later one */
	l5_interrupt();
	ASSERT_EQ(1, l5_send(self->s, "x", 1, 0));
	ASSERT_EQ(1, l5_recv(self->c, some, 1, 0));
	l5_set_wait(self->c, 5000000, 0);
	for (w.call = 0; w.call < CALLS; w.call++) {
		if (w.call == CALL_SEND) {
			while (l5_send(self->c, some, sizeof(some),
				       MSG_DONTWAIT) > 0)
				;
			while (l5_send(self->c, some, 1, MSG_DONTWAIT) > 0)
				;
		}
		w.c = self->c;
		w.ready = 0;
		handled = 0;
		ASSERT_EQ(0, pthread_create(&t, NULL, waiter_run, &w));
		ASSERT_TRUE(reaches(&w.ready, 1));
		/* within the look, which is longer by far */
		usleep(100000);
		pthread_kill(t, SIGUSR1);
		ASSERT_TRUE(reaches(&handled, 1))
			TH_LOG("%s: %zd, %d", call_name[w.call], w.ret,
			       w.error);
		EXPECT_TRUE(reaches(&w.ready, 2))
			TH_LOG("%s hung", call_name[w.call]);
		if (w.ready < 2)
			_exit(KSFT_FAIL);
		pthread_join(t, NULL);
		EXPECT_EQ(-1, w.ret);
		EXPECT_EQ(EINTR, w.error)
			TH_LOG("%s", call_name[w.call]);
	}
}

TEST_HARNESS_MAIN
