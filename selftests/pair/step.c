// SPDX-License-Identifier: GPL-2.0
/*
 * One end of connections, told on its command line what to do, step by step:
 *
 *	step listen=10.5.0.1:7000 say=ready accept moved=5000 get=1000 eof
 *
 * NAME=VALUE and NAME are steps; N[ ... ] does those between N times, N{ ... }
 * in N threads at once, which can wait for each other (meet). What it has to
 * say it prints as lines of JSON. A step that does not do what it should ends
 * the program with status 1, one that takes too long with status 3.
 *
 * Every byte depends on its place in its stream and each stream has bytes of
 * its own, so loss, order and confusion all show.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "step.h"

static const char *const way_names[WAYS] = {
	"block", "poll", "lt", "et", "timeo", "iov", "peek", "waitall",
	"splice", "sendfile", "more", "mix", "lib", "map",
};

static pthread_mutex_t say_lock = PTHREAD_MUTEX_INITIALIZER;
_Atomic uint64_t total_tx, total_rx;
static _Atomic unsigned int tally[L5_TRANSPORT_MAX];
static _Atomic unsigned int reasons[L5_REASON_MAX];
static _Atomic bool finish;	/* flood: send no more */
static const char *const transports[] = { "none", "base", "shm", "rdma" };

void __attribute__((format(printf, 1, 2))) say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	pthread_mutex_lock(&say_lock);
	vprintf(fmt, ap);
	putchar('\n');
	fflush(stdout);
	pthread_mutex_unlock(&say_lock);
	va_end(ap);
}

void __attribute__((format(printf, 2, 3), noreturn))
die(const struct end *e, const char *fmt, ...)
{
	char text[256];
	va_list ap;
	int t = e->fd < 0 ? 0 : l5_getopt(e->fd, L5_TRANSPORT);

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	say("{\"fail\": \"%s: %s (%s, %s, sent %" PRIu64 ", received %" PRIu64
	    ")\"}", e->step, text, e->server ? "server" : "client",
	    t >= 0 && t < L5_TRANSPORT_MAX ? transports[t] : "tcp", e->tx.at,
	    e->rx.at);
	_exit(1);
}

static void ping(struct end *e, const char *v, bool first)
{
	uint64_t rounds = number(e, v), i;
	size_t n = after(v) ? number(e, after(v)) : 64;

	for (i = 0; i < rounds; i++) {
		if (first)
			put_whole(e, n);
		get_whole(e, n);
		if (!first)
			put_whole(e, n);
	}
}

static bool is_moved(struct end *e)
{
	return l5_getopt(e->fd, L5_TRANSPORT) == L5_TRANSPORT_RDMA;
}

static void *duplex_recv(void *arg)
{
	struct end *e = arg;

	while (get_some(e, some_size(e, &e->rx)) > 0)
		;
	return NULL;
}

/*
 * Both directions at once, from before the move until e->need bytes after it,
 * then shutdown(), and until the peer's end of file.
 */
static void duplex(struct end *e)
{
	int64_t until = l5_now_ms() + LONG_MS;
	uint64_t last = 0;
	bool moved = e->any;
	pthread_t t;

	if (moved)
		last = e->tx.at + e->need;
	if (pthread_create(&t, NULL, duplex_recv, e))
		die(e, "no thread");
	while (!moved || e->tx.at < last) {
		if (!moved && is_moved(e)) {
			moved = true;
			last = e->tx.at + e->need;
		}
		if (!moved && l5_now_ms() > until)
			die(e, "not moved");
		if (!moved && e->tx.at > (8 << 20))
			usleep(2000);
		if (put_some(e, some_size(e, &e->tx)) < 0)
			die(e, "send: %s", name_of(e->tx.err));
	}
	if (shutdown(e->fd, SHUT_WR))
		die(e, "shutdown: %s", name_of(errno));
	pthread_join(t, NULL);
	if (e->rx.err)
		die(e, "recv: %s", name_of(e->rx.err));
}

static void *flood_send(void *arg)
{
	struct end *e = arg;

	while (!finish)
		if (put_some(e, some_size(e, &e->tx)) < 0)
			return NULL;
	e->tx.eof = !shutdown(e->fd, SHUT_WR);
	if (!e->tx.eof)
		e->tx.err = errno;
	return NULL;
}

/* A line on standard input, or its end; in @ms: was there one? */
static bool told(int ms)
{
	struct pollfd p = { .fd = 0, .events = POLLIN };
	char c = 0;

	if (poll(&p, 1, ms) <= 0)
		return false;
	while (read(0, &c, 1) == 1 && c != '\n')
		;
	return true;
}

/* Bytes each way after which both ends are busy */
#define FLOWS	(512 << 10)

/*
 * Both directions without end, until it fails or a line comes on standard
 * input; says so once bytes flow. A failed connection is no failure of this
 * program; silence is.
 */
static void flood(struct end *e)
{
	pthread_t s, r;
	uint64_t tx = l5_load(&e->tx.at), rx = l5_load(&e->rx.at);
	bool s_up = true, r_up = true, flows = false;

	finish = false;
	if (pthread_create(&s, NULL, flood_send, e) ||
	    pthread_create(&r, NULL, duplex_recv, e))
		die(e, "no thread");
	while (s_up || r_up) {
		if (!flows && l5_load(&e->tx.at) - tx >= FLOWS &&
		    l5_load(&e->rx.at) - rx >= FLOWS) {
			flows = true;
			say("flows");
		}
		if (!finish && told(20))
			finish = true;
		else if (finish)
			usleep(10000);
		if (s_up && !pthread_tryjoin_np(s, NULL))
			s_up = false;
		if (r_up && !pthread_tryjoin_np(r, NULL))
			r_up = false;
	}
	say("{\"flood\": true, \"tx\": %" PRIu64 ", \"rx\": %" PRIu64
	    ", \"tx_end\": \"%s\", \"rx_end\": \"%s\"}", e->tx.at, e->rx.at,
	    e->tx.err ? name_of(e->tx.err) : "shut",
	    e->rx.err ? name_of(e->rx.err) : "eof");
}

static void info(struct end *e, const char *label)
{
	struct l5_info i = { .transport = L5_TRANSPORT_NONE };
	struct l5_rdma_info r = { .state = 0 };
	socklen_t len = sizeof(i);
	bool l5 = !getsockopt(e->fd, SOL_L5, L5_INFO, &i, &len);

	len = sizeof(r);
	getsockopt(e->fd, SOL_L5, L5_RDMA_INFO, &r, &len);
	say("{\"info\": \"%s\", \"transport\": \"%s\", \"reason\": \"%s\", "
	    "\"state\": %u, \"notify\": %u, \"posts\": %llu, \"bells\": %llu, "
	    "\"polled\": %llu, \"messages\": %llu, \"wakes\": %llu, "
	    "\"tx_cut\": %llu, \"rx_cut\": %llu, \"tx_size\": %u, "
	    "\"rx_size\": %u, \"tx\": %" PRIu64 ", \"rx\": %" PRIu64
	    ", \"connect_ms\": %" PRId64 ", \"mapped\": %s}",
	    label ? label : "",
	    l5 && i.transport < L5_TRANSPORT_MAX ?
	    transports[i.transport] : "tcp",
	    l5 ? end_reason_name(i.reason) : "", r.state, r.notify,
	    (unsigned long long)r.posts, (unsigned long long)r.bells,
	    (unsigned long long)r.polled, (unsigned long long)r.messages,
	    (unsigned long long)r.wakes, (unsigned long long)r.tx_cut,
	    (unsigned long long)r.rx_cut, i.tx_size, i.rx_size, e->tx.at,
	    e->rx.at, e->connect_ms,
	    e->mapped || (e->lib && l5_stream_mapped(e->lib)) ? "true" :
	    "false");
}

static void until_moved(struct end *e, const char *v)
{
	int64_t until = l5_now_ms() + (int64_t)number(e, v) * l5_slow();

	while (!is_moved(e)) {
		if (l5_now_ms() > until)
			die(e, "not moved, reason %s",
			    end_reason_name(end_reason(e->fd)));
		usleep(1000);
	}
}

/* Until the peer may cut, and says so when none of its threads is in TCP. */
static void until_moving(struct end *e, const char *v)
{
	int64_t until = l5_now_ms() + (int64_t)number(e, v) * l5_slow();
	struct l5_rdma_info r = { .state = 0 };
	socklen_t len;

	for (;;) {
		len = sizeof(r);
		if (!getsockopt(e->fd, SOL_L5, L5_RDMA_INFO, &r, &len) &&
		    (r.state == L5_RDMA_MOVING || r.state == L5_RDMA_DONE))
			return;
		if (l5_now_ms() > until)
			die(e, "state is still %u", r.state);
		usleep(1000);
	}
}

/* Until so many bytes are there to be read. */
static void unread(struct end *e, const char *v)
{
	int64_t until = l5_now_ms() + LONG_MS;
	int want = number(e, v), have = 0;

	while (have < want) {
		if (ioctl(e->fd, FIONREAD, &have))
			die(e, "FIONREAD: %s", name_of(errno));
		if (l5_now_ms() > until)
			die(e, "%d of %d bytes come", have, want);
		usleep(1000);
	}
}

static void stays(struct end *e, const char *v)
{
	int64_t until = l5_now_ms() + (int64_t)number(e, v);

	do {
		if (l5_getopt(e->fd, L5_TRANSPORT) > L5_TRANSPORT_BASE)
			die(e, "has moved");
		usleep(1000);
	} while (l5_now_ms() < until);
}

/* Until the outcome is known, whatever it is. */
static void settled(struct end *e, const char *v)
{
	int64_t until = l5_now_ms() + (int64_t)number(e, v) * l5_slow();
	struct l5_rdma_info r;
	socklen_t len;

	for (;;) {
		len = sizeof(r);
		if (getsockopt(e->fd, SOL_L5, L5_RDMA_INFO, &r, &len) ||
		    r.state == L5_RDMA_NONE || r.state >= L5_RDMA_DONE)
			return;
		if (l5_now_ms() > until)
			die(e, "state is still %u", r.state);
		usleep(1000);
	}
}

static void ways(struct end *e, const char *v)
{
	int i;

	for (i = 0; i < WAYS && strcmp(v, way_names[i]); i++)
		;
	if (i == WAYS)
		die(e, "no such way");
	e->way = i;
}

static void count(struct end *e)
{
	int t = l5_getopt(e->fd, L5_TRANSPORT), r = end_reason(e->fd);

	if (t >= 0 && t < L5_TRANSPORT_MAX)
		tally[t]++;
	if (r >= 0 && r < L5_REASON_MAX)
		reasons[r]++;
}

/* Take in what is there and answer each whole message: bytes that came. */
static size_t mail_serve(struct end *e, size_t size)
{
	struct half *h = &e->rx;
	size_t sum = 0;
	ssize_t got;

	while (!h->eof) {
		got = l5_recv(e->lib, h->buf, CHUNK_MAX, MSG_DONTWAIT);
		if (got < 0 && errno == EAGAIN)
			break;
		if (got < 0)
			die(e, "recv: %s", name_of(errno));
		if (l5_check(h->buf, got, h->base + h->at) >= 0)
			die(e, "wrong byte after %" PRIu64, h->at);
		h->at += got;
		sum += got;
		h->eof = !got;
		while (h->at / size > e->tx.at / size)
			put_whole(e, size);
	}
	return sum;
}

/* What the mailbox names, taken in: how many that are, each with bytes. */
static int mail_round(const struct end *l, struct l5_mailbox *b,
		      struct l5_stream **ready, struct end *e, unsigned int n,
		      size_t size, unsigned int *said)
{
	int got = l5_mailbox_poll(b, ready, n), k;
	unsigned int i;

	if (got < 0)
		die(l, "l5_mailbox_poll: %s", name_of(errno));
	for (k = 0; k < got; k++) {
		for (i = 0; i < n && e[i].lib != ready[k]; i++)
			;
		if (i == n)
			die(l, "l5_mailbox_poll: who is this?");
		if (mail_serve(&e[i], size))
			(*said)++;
	}
	return got;
}

/* Are there bytes? They stay where they are. */
static bool mail_waits(struct end *e)
{
	const void *p;

	if (e->rx.eof || l5_peek(e->lib, &p, MSG_DONTWAIT) <= 0)
		return false;
	if (l5_release(e->lib, 0))
		die(e, "l5_release: %s", name_of(errno));
	return true;
}

/*
 * A server of many clients that looks at its mailbox and nowhere else, but at
 * connections that came before they had a byte, and for their ends. Bytes that
 * the server finds then, and that the mailbox does not report a good while
 * later either, were missed: a byte of the mailbox is set after the record that
 * it tells of.
 */
static void mailbox(struct end *l, const char *v)
{
	unsigned int n = number(l, v), i, open = n, said = 0, bytes = 0;
	size_t size = after(v) ? number(l, after(v)) : 64, missed = 0;
	struct l5_mailbox *b = l5_mailbox_open(l->listener);
	struct l5_stream **ready = calloc(n, sizeof(*ready));
	struct end *e = calloc(n, sizeof(*e));
	int64_t last, until;

	if (!b)
		die(l, "l5_mailbox_open: %s", name_of(errno));
	say("ready");
	l->way = WAY_LIB;
	for (i = 0; i < n; i++) {
		e[i] = *l;
		e[i].tx.buf = NULL;
		e[i].rx.buf = NULL;
		do_accept(&e[i]);
		if (l5_mailbox_attach(b, e[i].lib))
			die(l, "l5_mailbox_attach: %s", name_of(errno));
	}
	for (i = 0; i < n; i++) {
		until_moved(&e[i], "15000");
		mail_serve(&e[i], size);
		bytes += l5_stream_mailbox(e[i].lib) >= 0;
	}
	last = l5_now_ms();
	while (open) {
		if (mail_round(l, b, ready, e, n, size, &said))
			last = l5_now_ms();
		if (l5_now_ms() - last < 1500)
			continue;
		for (open = 0, i = 0; i < n; i++) {
			bool waits;

			until = l5_now_ms() + 5000 * l5_slow();
			while ((waits = mail_waits(&e[i])) &&
			       l5_now_ms() < until) {
				usleep(1000);
				mail_round(l, b, ready, e, n, size, &said);
			}
			if (waits)
				missed += mail_serve(&e[i], size);
			else
				mail_serve(&e[i], size);
			open += !e[i].rx.eof;
		}
		last = l5_now_ms();
	}
	for (i = 0; i < n; i++)
		do_close(&e[i]);
	l5_mailbox_close(b);
	say("{\"mailbox\": %u, \"said\": %u, \"missed\": %zu}", bytes, said,
	    missed);
}

static bool is(const char *step, const char *name, const char **v)
{
	size_t n = strlen(name);

	if (strncmp(step, name, n) || (step[n] && step[n] != '='))
		return false;
	*v = step[n] ? step + n + 1 : NULL;
	return true;
}

/* Steps that are about a socket to come. */
static bool step_before(struct end *e, const char *s)
{
	const char *v;

	if (is(s, "plain", &v))
		e->plain = true;
	else if (is(s, "l5", &v))
		e->plain = false;
	else if (is(s, "set", &v))
		set(e, v);
	else if (is(s, "guard", &v) && e->nguard < (int)ARRAY_SIZE(e->guard))
		e->guard[e->nguard++] = guard_parse(e, v);
	else if (is(s, "unset", &v))
		e->nset = 0;
	else if (is(s, "way", &v))
		ways(e, v);
	else if (is(s, "chunk", &v))
		e->chunk = number(e, v);
	else if (is(s, "listen", &v))
		do_listen(e, v);
	else if (is(s, "unlisten", &v))
		close(e->listener);
	else if (is(s, "connect", &v))
		do_connect(e, v, true);
	else if (is(s, "start", &v))
		do_connect(e, v, false);
	else if (is(s, "say", &v))
		say("%s", v);
	else if (is(s, "hold", &v))
		told(LONG_MS);
	else if (is(s, "sleep", &v))
		usleep(1000 * number(e, v));
	else if (is(s, "stagger", &v))
		usleep(1000 * number(e, v) * e->index);
	else if (is(s, "meet", &v))
		pthread_barrier_wait(e->all);
	else
		return false;
	return true;
}

static void do_eof(struct end *e)
{
	ssize_t got = get_some(e, e->chunk);

	if (got > 0)
		die_fatal(e, "%zd bytes too many", got);
	if (got < 0)
		die(e, "recv: %s", name_of(e->rx.err));
}

/* To the end, whichever it is. */
static void do_drain(struct end *e)
{
	while (get_some(e, some_size(e, &e->rx)) > 0)
		;
	say("{\"drain\": %" PRIu64 ", \"rx_end\": \"%s\"}", e->rx.at,
	    e->rx.err ? name_of(e->rx.err) : "eof");
}

/* Sending has to fail, in the end. */
static void do_break(struct end *e)
{
	while (put_some(e, some_size(e, &e->tx)) > 0)
		;
	say("{\"break\": %" PRIu64 ", \"tx_end\": \"%s\"}", e->tx.at,
	    name_of(e->tx.err));
}

/* Take the socket's error away, as another thread might, once there is one. */
static void do_taken(struct end *e)
{
	int64_t until = l5_now_ms() + LONG_MS;
	socklen_t len;
	int err = 0;

	while (!err) {
		len = sizeof(err);
		if (getsockopt(e->fd, SOL_SOCKET, SO_ERROR, &err, &len))
			die(e, "SO_ERROR: %s", name_of(errno));
		if (l5_now_ms() > until)
			die(e, "no error comes");
		usleep(1000);
	}
	say("{\"taken\": \"%s\"}", name_of(err));
}

/*
 * Not all that the peer has sent will come: so many readers, one after the
 * other, have to be told so, and none of them that this is the end.
 */
static void do_lost(struct end *e, const char *v)
{
	uint64_t n = number(e, v), i;
	ssize_t got;

	for (i = 0; i < n; i++) {
		do {
			got = get_some(e, some_size(e, &e->rx));
		} while (got > 0);
		if (!got)
			die(e, "reader %" PRIu64 ": end of file", i);
	}
	say("{\"lost\": %" PRIu64 ", \"rx_end\": \"%s\"}", e->rx.at,
	    name_of(e->rx.err));
}

static void do_reset(struct end *e)
{
	struct linger l = { 1, 0 };

	setsockopt(e->fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
	do_close(e);
}

static void do_step(struct end *e, const char *s)
{
	const char *v;

	e->step = s;
	if (step_before(e, s))
		return;
	if (is(s, "accept", &v)) {
		do_accept(e);
	} else if (is(s, "put", &v)) {
		put(e, number(e, v));
	} else if (is(s, "whole", &v)) {
		put_whole(e, number(e, v));
	} else if (is(s, "get", &v)) {
		get(e, number(e, v));
	} else if (is(s, "ping", &v)) {
		ping(e, v, true);
	} else if (is(s, "pong", &v)) {
		ping(e, v, false);
	} else if (is(s, "duplex", &v)) {
		e->need = number(e, v);
		e->any = false;
		duplex(e);
	} else if (is(s, "both", &v)) {
		e->need = number(e, v);
		e->any = true;
		duplex(e);
	} else if (is(s, "flood", &v)) {
		flood(e);
	} else if (is(s, "eof", &v)) {
		do_eof(e);
	} else if (is(s, "drain", &v)) {
		do_drain(e);
	} else if (is(s, "break", &v)) {
		do_break(e);
	} else if (is(s, "shut", &v)) {
		if (shutdown(e->fd, SHUT_WR))
			die(e, "shutdown: %s", name_of(errno));
	} else if (is(s, "close", &v)) {
		do_close(e);
	} else if (is(s, "taken", &v)) {
		do_taken(e);
	} else if (is(s, "lost", &v)) {
		do_lost(e, v);
	} else if (is(s, "reset", &v)) {
		do_reset(e);
	} else if (is(s, "moved", &v)) {
		until_moved(e, v);
	} else if (is(s, "moving", &v)) {
		until_moving(e, v);
	} else if (is(s, "unread", &v)) {
		unread(e, v);
	} else if (is(s, "stays", &v)) {
		stays(e, v);
	} else if (is(s, "settled", &v)) {
		settled(e, v);
	} else if (is(s, "info", &v)) {
		info(e, v);
	} else if (is(s, "guardnow", &v)) {
		guard_now(e, v);
	} else if (is(s, "tally", &v)) {
		count(e);
	} else if (is(s, "mailbox", &v)) {
		mailbox(e, v);
	} else if (is(s, "map", &v)) {
		do_map(e, v);
	} else {
		die(e, "no such step");
	}
}

static void steps(struct end *e, char **s, char **end);

struct job {
	struct end e;
	char **s, **end;
	pthread_t t;
};

static void *job_main(void *arg)
{
	struct job *j = arg;

	steps(&j->e, j->s, j->end);
	free(j->e.tx.buf);
	free(j->e.rx.buf);
	return NULL;
}

static void in_threads(struct end *e, char **s, char **end, unsigned long n)
{
	struct job *j = calloc(n, sizeof(*j));
	pthread_barrier_t all;
	unsigned long i;

	pthread_barrier_init(&all, NULL, n);
	for (i = 0; i < n; i++) {
		j[i].e = *e;
		j[i].e.fd = -1;
		j[i].e.tx.buf = NULL;
		j[i].e.rx.buf = NULL;
		j[i].e.index = i;
		j[i].e.all = &all;
		j[i].s = s;
		j[i].end = end;
		if (pthread_create(&j[i].t, NULL, job_main, &j[i]))
			die(e, "no thread");
	}
	for (i = 0; i < n; i++)
		pthread_join(j[i].t, NULL);
	free(j);
}

static void steps(struct end *e, char **s, char **end)
{
	for (; s < end; s++) {
		size_t len = strlen(*s);
		unsigned long n = strtoul(*s, NULL, 10);
		char **body = s + 1;
		int depth = 1;
		char kind = len > 1 ? (*s)[len - 1] : 0;

		if (!n || (kind != '[' && kind != '{')) {
			do_step(e, *s);
			continue;
		}
		for (s++; s < end; s++) {
			len = strlen(*s);
			if (len && strchr("[{", (*s)[len - 1]))
				depth++;
			else if (len == 1 && strchr("]}", **s) && !--depth)
				break;
		}
		if (kind == '{')
			in_threads(e, body, s, n);
		else
			while (n--)
				steps(e, body, s);
	}
}

/* Ends what hangs, and says where. */
static void *watch(void *arg)
{
	struct end *e = arg;
	const char *s = getenv("STEP_SECONDS");

	sleep((s ? atoi(s) : 90) * l5_slow());
	say("{\"fail\": \"%s: takes too long (sent %" PRIu64 ", received %"
	    PRIu64 ")\"}", e->step ? e->step : "", e->tx.at, e->rx.at);
	_exit(3);
}

int main(int argc, char **argv)
{
	struct rlimit files = { 8192, 8192 };
	struct end e = {
		.listener = -1, .fd = -1, .chunk = 65536, .step = "",
		.tx.epoll = -1, .rx.epoll = -1, .tx.file = -1, .rx.file = -1,
		.tx.pipe = { -1, -1 }, .rx.pipe = { -1, -1 },
	};
	pthread_t t;
	int i;

	signal(SIGPIPE, SIG_IGN);
	setrlimit(RLIMIT_NOFILE, &files);
	if (pthread_create(&t, NULL, watch, &e))
		return 2;
	steps(&e, argv + 1, argv + argc);
	printf("{\"done\": true, \"tx\": %" PRIu64 ", \"rx\": %" PRIu64,
	       total_tx, total_rx);
	for (i = 0; i < L5_TRANSPORT_MAX; i++)
		printf(", \"%s\": %u", transports[i], tally[i]);
	for (i = 1; i < L5_REASON_MAX; i++)
		printf(", \"why_%s\": %u", end_reason_name(i), reasons[i]);
	puts("}");
	return 0;
}
