// SPDX-License-Identifier: GPL-2.0
/*
 * Connections of a kernel whose module has the transport of thread.c: two hosts
 * in one kernel, and a thread for the wire between them. A seed says what the
 * wires do, how large the rings are, how records are published, and what the
 * programs at both ends of each connection do: small pieces or large ones,
 * calls that block or poll(), whether they read before they have sent all, and
 * which end shuts down or closes, and when.
 *
 * Each byte has to come once and in order; the end of a stream is where its
 * sender shut down; an error is only for a connection whose wire has died, of
 * which the transport says how many have, or whose peer closed before its end;
 * no call hangs; and no wire is left.
 *
 * From the environment: L5_SEEDS, how many, and L5_SEED, the first; L5_TIMES,
 * how often each is played, for the kernel's scheduler has its part in what
 * comes of it. L5_VERBOSE prints what each took.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "l5test.h"

#define KNOBS	"/sys/kernel/debug/af_l5/"
/* connections at a time */
#define CONNS	3
/* seconds of a program: the kernel may wait 20 for an answer */
#define PATIENCE	30
#define PIECE	65536

enum closing {
	SHUTS,		/* sends all, shuts down, and reads to the end */
	CLOSES,		/* sends all, reads all, and closes */
	LEAVES,		/* closes in between */
};

/* A program, and what came of it. */
struct end {
	uint64_t seed;
	uint64_t base;		/* position of the first byte that it sends */
	uint64_t peer_base;
	long out, in;
	long leaves_at;		/* bytes sent or got */
	enum closing closing;
	bool polls;
	bool late;		/* sends all before it reads anything */
	int piece;
	int waits;		/* ms in connect(), for what moves */
	int fd;
	/* and then */
	long sent, got;
	int err;
	long by_tcp;		/* of those got, if it moved */
	bool eof, bad, moved, done;
};

static struct end (*ends)[2];

static uint64_t number(const char *name)
{
	char path[80];

	snprintf(path, sizeof(path), KNOBS "%s", name);
	return l5_number(path);
}

static bool set(const char *name, uint64_t value)
{
	char path[80];
	FILE *f;

	snprintf(path, sizeof(path), KNOBS "%s", name);
	f = fopen(path, "we");
	if (!f)
		return false;
	fprintf(f, "%llu\n", (unsigned long long)value);
	return !fclose(f);
}

/* The programs */

static bool over(const struct end *e)
{
	return e->err || e->bad ||
	       (e->closing == LEAVES && e->sent + e->got >= e->leaves_at);
}

/* An end that has left is reset by what its peer still sends, as on TCP. */
static void failed(struct end *e)
{
	if (errno != EAGAIN && errno != EINTR && !over(e))
		e->err = errno;
}

static bool put(struct end *e, char *buf, uint64_t *rnd, int flags)
{
	long len = 1 + l5_rnd(rnd) % e->piece;
	ssize_t n;

	if (len > e->out - e->sent)
		len = e->out - e->sent;
	l5_fill(buf, len, e->base + e->sent);
	n = send(e->fd, buf, len, flags | MSG_NOSIGNAL);
	if (n < 0)
		failed(e);
	else
		e->sent += n;
	return n > 0;
}

static bool get(struct end *e, char *buf, uint64_t *rnd, int flags)
{
	long len = 1 + l5_rnd(rnd) % e->piece;
	ssize_t n = recv(e->fd, buf, len, flags);

	if (n < 0)
		failed(e);
	/* after its own shutdown() a reader is at the end, too */
	if (n == 0 && over(e))
		return false;
	if (n == 0)
		e->eof = true;
	if (n <= 0)
		return false;
	if (l5_check(buf, n, e->peer_base + e->got) >= 0)
		e->bad = true;
	e->got += n;
	return true;
}

/* A call hangs, or poll() does not say what there is: say where it is. */
static struct end *hung_end;

static void hung(int sig)
{
	struct end *e = hung_end;
	struct pollfd p = { .fd = e->fd, .events = POLLIN | POLLOUT };
	struct l5_rdma_info info = { };
	socklen_t len = sizeof(info);
	char text[200];
	int n;

	poll(&p, 1, 0);
	getsockopt(e->fd, SOL_L5, L5_RDMA_INFO, &info, &len);
	n = snprintf(text, sizeof(text),
		     "# %d hangs %s: transport %d, reason %d, poll %#x, moved %d, cut %llu %llu\n",
		     getpid(), e->fd < 0 ? "in connect() or accept()" : "later",
		     l5_getopt(e->fd, L5_TRANSPORT),
		     l5_getopt(e->fd, L5_REASON),
		     p.revents, info.state, (unsigned long long)info.tx_cut,
		     (unsigned long long)info.rx_cut);
	if (write(1, text, n) != n)
		_exit(sig);
	_exit(4);
}

static void watch(struct end *e)
{
	hung_end = e;
	e->fd = -1;
	signal(SIGALRM, hung);
	alarm(PATIENCE * l5_slow());
}

static bool reads_on(const struct end *e)
{
	return !e->eof && !over(e) && (e->closing != CLOSES || e->got < e->in);
}

static void *sender(void *arg)
{
	static __thread char buf[PIECE];
	struct end *e = arg;
	uint64_t rnd = e->seed + 1;

	while (e->sent < e->out && !over(e))
		put(e, buf, &rnd, 0);
	/* the receiver may sleep for good if nothing comes any more */
	if (over(e))
		shutdown(e->fd, SHUT_RDWR);
	else if (e->closing == SHUTS)
		shutdown(e->fd, SHUT_WR);
	return NULL;
}

static void blocking(struct end *e)
{
	static char buf[PIECE];
	uint64_t rnd = e->seed + 2;
	pthread_t thread;

	if (pthread_create(&thread, NULL, sender, e))
		_exit(3);
	if (e->late)
		pthread_join(thread, NULL);
	while (reads_on(e))
		get(e, buf, &rnd, 0);
	/* the sender may sleep for good if nothing is read any more */
	if (over(e))
		shutdown(e->fd, SHUT_RDWR);
	if (!e->late)
		pthread_join(thread, NULL);
}

static void polling(struct end *e)
{
	static char buf[PIECE];
	uint64_t rnd = e->seed + 3;
	bool shut = e->out == 0 && e->closing == SHUTS;

	if (shut)
		shutdown(e->fd, SHUT_WR);
	while (!over(e) && (reads_on(e) || e->sent < e->out)) {
		struct pollfd p = { .fd = e->fd };

		if (e->sent < e->out)
			p.events |= POLLOUT;
		if (reads_on(e) && !(e->late && e->sent < e->out))
			p.events |= POLLIN;
		poll(&p, 1, -1);
		if (reads_on(e) && p.revents & (POLLIN | POLLERR | POLLHUP))
			get(e, buf, &rnd, MSG_DONTWAIT);
		if (e->sent < e->out && p.revents & ~POLLIN)
			put(e, buf, &rnd, MSG_DONTWAIT);
		if (e->sent == e->out && e->closing == SHUTS && !shut) {
			shutdown(e->fd, SHUT_WR);
			shut = true;
		}
	}
}

static void program(struct end *e, int fd)
{
	struct l5_rdma_info info = { };
	socklen_t len = sizeof(info);

	e->fd = fd;
	if (e->polls)
		polling(e);
	else
		blocking(e);
	e->moved = l5_getopt(fd, L5_TRANSPORT) == L5_TRANSPORT_RDMA;
	if (!getsockopt(fd, SOL_L5, L5_RDMA_INFO, &info, &len))
		e->by_tcp = info.rx_cut;
	close(fd);
	e->done = true;
	_exit(0);
}

/* A connection: what its programs are to do, and whether they did. */

static int listener(struct sockaddr_in *at)
{
	int fd = socket(l5_family(), SOCK_STREAM, L5PROTO_INET);
	int force = L5_TRANSPORT_RDMA;
	socklen_t len = sizeof(*at);

	*at = (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	if (fd < 0 ||
	    setsockopt(fd, SOL_L5, L5_FORCE, &force, sizeof(force)) ||
	    bind(fd, (struct sockaddr *)at, sizeof(*at)) || listen(fd, 5) ||
	    getsockname(fd, (struct sockaddr *)at, &len)) {
		perror("# listener");
		exit(1);
	}
	return fd;
}

static pid_t client(struct end *e, const struct sockaddr_in *at)
{
	int force = L5_TRANSPORT_RDMA, fd;
	pid_t pid = fork();

	if (pid)
		return pid;
	watch(e);
	fd = socket(l5_family(), SOCK_STREAM, L5PROTO_INET);
	if (fd < 0 ||
	    setsockopt(fd, SOL_L5, L5_FORCE, &force, sizeof(force)) ||
	    setsockopt(fd, SOL_L5, L5_RDMA_WAIT, &e->waits,
		       sizeof(e->waits)))
		_exit(2);
	/* the server may have reset the connection by now, as with TCP */
	if (connect(fd, (struct sockaddr *)at, sizeof(*at))) {
		e->err = errno;
		e->done = true;
		_exit(0);
	}
	program(e, fd);
	return 0;
}

static pid_t server(struct end *e, int l)
{
	pid_t pid = fork();
	int fd;

	if (pid)
		return pid;
	watch(e);
	fd = accept(l, NULL, NULL);
	if (fd < 0)
		_exit(2);
	close(l);
	program(e, fd);
	return 0;
}

static long some(uint64_t *rnd)
{
	static const long most[] = { 3, 5000, 30000, 200000 };

	return l5_rnd(rnd) % most[l5_rnd(rnd) % 4];
}

static void choose(struct end *pair, uint64_t seed)
{
	static const int pieces[] = { 10, 300, 5000, PIECE };
	uint64_t rnd = seed * 2654435761u + 12345;
	int i;

	for (i = 0; i < 20; i++)
		l5_rnd(&rnd);
	memset(pair, 0, 2 * sizeof(*pair));
	for (i = 0; i < 2; i++) {
		struct end *e = &pair[i];

		e->seed = l5_rnd(&rnd) + 1;
		e->base = l5_rnd(&rnd);
		e->out = some(&rnd);
		e->polls = l5_rnd(&rnd) % 2;
		e->piece = pieces[l5_rnd(&rnd) % 4];
		/* not 100,000 calls */
		if (e->out > 2000 && e->piece < 300)
			e->piece = 300;
		e->closing = l5_rnd(&rnd) % 2 ? SHUTS : CLOSES;
		e->waits = l5_rnd(&rnd) % 3 ? 300 : 0;
		e->late = seed / CONNS % 4 == 0;
	}
	for (i = 0; i < 2; i++) {
		pair[i].in = pair[!i].out;
		pair[i].peer_base = pair[!i].base;
	}
	if (l5_rnd(&rnd) % 6)
		return;
	i = l5_rnd(&rnd) % 2;
	pair[i].closing = LEAVES;
	pair[i].leaves_at = l5_rnd(&rnd) % (pair[0].out + pair[1].out + 1);
}

static bool whole(const struct end *e)
{
	return !e->err && e->sent == e->out && e->got == e->in &&
	       (e->closing != SHUTS || e->eof);
}

static void show(uint64_t seed, int n, int i, const struct end *e)
{
	printf("# seed %llu, connection %d, %s: sent %ld of %ld, got %ld of %ld (%ld by TCP), error %d%s%s%s%s, %s, %s\n",
	       (unsigned long long)seed, n, i ? "server" : "client", e->sent,
	       e->out, e->got, e->in, e->by_tcp, e->err,
	       e->eof ? ", end" : "", e->moved ? ", moved" : "",
	       e->done ? "" : ", HUNG", e->bad ? ", WRONG BYTES" : "",
	       e->polls ? "polls" : "blocks",
	       e->closing == SHUTS ? "shuts down" :
	       e->closing == CLOSES ? "closes" : "leaves");
}

/* What was seen in all */
static struct { long ends, moved, errors, broken, left; } seen;

/* Return: false if an end did what it may not. @hit: a wire has to have died */
static bool judge(uint64_t seed, int n, const struct end *pair, bool *hit)
{
	bool left = pair[0].closing == LEAVES || pair[1].closing == LEAVES;
	bool good = true;
	int i;

	*hit = false;
	for (i = 0; i < 2; i++) {
		const struct end *e = &pair[i], *peer = &pair[!i];

		seen.ends++;
		seen.moved += e->moved;
		seen.errors += !!e->err;
		if (!e->done || e->bad || e->got > peer->sent)
			good = false;
		/* an end is the end, whatever else came of the connection */
		if (e->eof && e->got != peer->sent)
			good = false;
		if (!left && !whole(e))
			*hit = true;
		/* an end that leaves is told of nothing */
		if (e->closing == LEAVES && e->err)
			*hit = true;
	}
	seen.left += left;
	seen.broken += *hit;
	if (!good)
		for (i = 0; i < 2; i++)
			show(seed, n, i, &pair[i]);
	return good;
}

static void knobs(uint64_t seed)
{
	static const long kbs[] = { 4, 16, 64, 256 };
	static const int delays[] = { 0, 50, 2000 };
	uint64_t rnd = seed * 40503 + 77;
	bool dies;
	int i;

	for (i = 0; i < 20; i++)
		l5_rnd(&rnd);
	/* one page has no room for programs that read late */
	l5_sysctl("ring_kb", kbs[seed % 4 ? l5_rnd(&rnd) % 4 :
					   1 + l5_rnd(&rnd) % 3]);
	l5_sysctl("rdma_notify", l5_rnd(&rnd) % (L5_NOTIFY_AUTO + 1));
	set("seed", seed);
	set("delay_us", delays[l5_rnd(&rnd) % 3]);
	set("stall", l5_rnd(&rnd) % 2 ? 200 : 0);
	set("late_head", l5_rnd(&rnd) % 2 ? 3 : 0);
	set("lost_wake", l5_rnd(&rnd) % 2 ? 20 : 0);
	dies = l5_rnd(&rnd) % 3 == 0;
	set("die", dies ? 300 : 0);
	set("die_at", l5_rnd(&rnd) % 6 ? 0 : 1 + l5_rnd(&rnd) % 100);
}

static bool none_alive(void)
{
	int64_t end = l5_now_ms() + PATIENCE * 1000 * l5_slow();

	while (number("alive")) {
		if (l5_now_ms() > end)
			return false;
		usleep(2000);
	}
	return true;
}

static int asked(const char *name, int dflt)
{
	const char *s = getenv(name);

	return s && *s ? atoi(s) : dflt;
}

static bool run(uint64_t seed)
{
	uint64_t deaths = number("deaths");
	int64_t start = l5_now_ms(), ran;
	int n, i, l[CONNS], hits = 0;
	struct sockaddr_in at;
	bool good = true, hit;

	knobs(seed);
	for (n = 0; n < CONNS; n++) {
		choose(ends[n], seed * CONNS + n);
		l[n] = listener(&at);
		server(&ends[n][1], l[n]);
		client(&ends[n][0], &at);
	}
	for (n = 0; n < CONNS; n++)
		close(l[n]);
	while (wait(NULL) > 0)
		;
	ran = l5_now_ms() - start;
	deaths = number("deaths") - deaths;
	for (n = 0; n < CONNS; n++) {
		good &= judge(seed, n, ends[n], &hit);
		hits += hit;
	}
	if (hits > (int)deaths) {
		printf("# seed %llu: %d connections broke, %d wires died\n",
		       (unsigned long long)seed, hits, (int)deaths);
		for (n = 0; n < CONNS; n++)
			for (i = 0; i < 2; i++)
				show(seed, n, i, &ends[n][i]);
		good = false;
	}
	if (!none_alive()) {
		printf("# seed %llu: a wire is left\n",
		       (unsigned long long)seed);
		good = false;
	}
	if (asked("L5_VERBOSE", 0))
		printf("# seed %llu: %lld ms, and %lld until all was gone, %d died\n",
		       (unsigned long long)seed, (long long)ran,
		       (long long)(l5_now_ms() - start - ran), (int)deaths);
	return good;
}

/*
 * A server sends first, by TCP as long as its wire is not up; and a client's
 * connect() waits for as long as it may. Once it is known that rings carry the
 * connection the client is to go on, and to read what TCP brought. Its clock is
 * the one that ends what hangs. Return: bytes that TCP brought, or -1.
 */
static long speaks_first(uint64_t seed)
{
	struct end *pair = ends[0];
	struct sockaddr_in at;
	bool hit;
	int l;

	choose(pair, 1);
	pair[0].in = 1000;
	pair[1].out = 1000;
	/* it shuts down at once, so that it never cuts, or hears the client */
	pair[0].out = seed & 1 ? 0 : 1000;
	pair[1].in = pair[0].out;
	pair[0].closing = SHUTS;
	pair[1].closing = seed & 1 ? SHUTS : CLOSES;
	pair[0].waits = L5_RDMA_WAIT_MAX;
	set("seed", seed);
	l = listener(&at);
	server(&pair[1], l);
	client(&pair[0], &at);
	close(l);
	while (wait(NULL) > 0)
		;
	if (!judge(seed, 0, pair, &hit) || hit || !none_alive())
		return -1;
	return pair[0].by_tcp;
}

/* The wire is slow to come up, so that TCP brings something, most times. */
static bool waits_in_vain(void)
{
	static const char *const never[] = {
		"stall", "late_head", "lost_wake", "die", "die_at"
	};
	long by_tcp = 0;
	int i;

	for (i = 0; i < 5; i++)
		set(never[i], 0);
	l5_sysctl("ring_kb", 64);
	set("delay_us", 50000);
	for (i = 1; i <= 20 && !by_tcp; i++)
		by_tcp = speaks_first(i);
	printf("# TCP brought %ld bytes\n", by_tcp);
	return by_tcp > 0;
}

static int bad;

static void say(int n, bool ok, const char *what)
{
	bad |= !ok;
	printf("%sok %d streams.%s\n", ok ? "" : "not ", n, what);
}

int main(void)
{
	static const char *const events[] = {
		"wires", "stalls", "late_heads", "lost_wakes", "deaths"
	};
	int seeds = asked("L5_SEEDS", 200), first = asked("L5_SEED", 1), i;
	long before[5];
	bool many = seeds >= 40, happened = true;
	int times = asked("L5_TIMES", 1), wrong = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("TAP version 13\n1..4\n");
	signal(SIGPIPE, SIG_IGN);
	if (!set("on", 1)) {
		for (i = 1; i <= 4; i++)
			printf("ok %d # SKIP no module with wires here\n", i);
		return 0;
	}
	ends = mmap(NULL, CONNS * sizeof(*ends), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (ends == MAP_FAILED)
		return 1;
	for (i = 0; i < 5; i++)
		before[i] = number(events[i]);
	/* what hangs takes its time, so that three of them will do */
	for (i = 0; i < seeds * times && wrong < 3; i++)
		if (!run(first + i / times)) {
			printf("# again: L5_SEED=%d L5_SEEDS=1 L5_TIMES=100\n",
			       first + i / times);
			wrong++;
		}
	say(1, !wrong, "bytes");
	printf("# %d seeds, %ld ends: %ld moved, %ld were told of an error; of the connections %ld broke, %ld were left\n",
	       seeds, seen.ends, seen.moved, seen.errors, seen.broken,
	       seen.left);
	/* a wire that dies early, or few bytes, leave an end on TCP */
	say(2, !many || seen.moved > seen.ends / 3, "moved");
	for (i = 0; i < 5; i++) {
		before[i] = number(events[i]) - before[i];
		printf("# %s: %ld\n", events[i], before[i]);
		happened &= before[i] > 0;
	}
	say(3, !many || (happened && seen.broken > 0), "events");
	say(4, waits_in_vain(), "speaks_first");
	set("on", 0);
	return bad;
}
