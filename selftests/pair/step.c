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
#include <fcntl.h>
#include <inttypes.h>
#include <linux/xfrm.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include "ends.h"
#include "libl5.h"
#include "mapping.h"

/* Far more than anything here needs: it only ends what hangs. */
#define LONG_MS		(60000 * l5_slow())

/* At most this much goes by splice() at once: half of a pipe. */
#define SPLICE_MAX	32768u
/* More than TCP ever has in flight, since sendfile() does not copy. */
#define FILE_SIZE	(64u * 1024 * 1024)
#define CHUNK_MAX	(1024u * 1024)
#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

/* How bytes are handed to the kernel, or not to it. */
enum way {
	WAY_BLOCK,
	WAY_POLL,	/* MSG_DONTWAIT, then poll() */
	WAY_LT,		/* O_NONBLOCK, then epoll_wait() */
	WAY_ET,		/* likewise, edge triggered */
	WAY_TIMEO,	/* SO_RCVTIMEO, SO_SNDTIMEO, which run out often */
	WAY_IOV,
	WAY_PEEK,	/* each byte is looked at, then taken */
	WAY_WAITALL,
	WAY_SPLICE,
	WAY_SENDFILE,
	WAY_MORE,
	WAY_MIX,	/* a different one each time */
	WAY_LIB,	/* libl5 */
	WAY_MAP,	/* lib/mapping.h */
	WAYS
};

static const char *const way_names[WAYS] = {
	"block", "poll", "lt", "et", "timeo", "iov", "peek", "waitall",
	"splice", "sendfile", "more", "mix", "lib", "map",
};

/* One direction of a connection, used by one thread at a time. */
struct half {
	uint64_t base;		/* tells the streams apart */
	uint64_t at;		/* bytes so far */
	uint64_t seed;
	int epoll;
	int pipe[2];
	int file;
	off_t file_at;
	uint8_t *buf;
	int err;
	bool eof;
};

struct setting {
	int level, name, value;
};

/* What has the packets of a connection signed or encrypted, see guard(). */
struct guard {
	char what[8];
	char peer[64];
};

struct end {
	bool plain;
	struct guard guard[4];
	int nguard;
	int listener;
	int fd;
	bool server;
	enum way way;
	size_t chunk;
	struct half tx, rx;
	struct setting set[16];
	int nset;
	struct l5_conn *lib;
	struct mapping map;
	bool mapped;
	int64_t connect_ms;
	uint64_t need;		/* duplex: bytes to send after the move */
	bool any;		/* duplex: moved or not */
	const char *step;
	unsigned int index;	/* of this thread, and how all meet */
	pthread_barrier_t *all;
};

static pthread_mutex_t say_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint64_t total_tx, total_rx;
static _Atomic unsigned int tally[L5_TRANSPORT_MAX];
static _Atomic unsigned int reasons[L5_REASON_MAX];
static _Atomic bool finish;	/* flood: send no more */
static const char *const transports[] = { "none", "base", "shm", "rdma" };

static void __attribute__((format(printf, 1, 2))) say(const char *fmt, ...)
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

static void __attribute__((format(printf, 2, 3), noreturn))
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

/* No noise makes that. */
#define die_fatal(e, ...) do {						\
	l5_fatal(__VA_ARGS__);						\
	die(e, __VA_ARGS__);						\
} while (0)

static const char *name_of(int err)
{
	return err ? strerrorname_np(err) : "";
}

static uint64_t number(const struct end *e, const char *v)
{
	char *end;
	uint64_t n;

	if (!v)
		die(e, "needs a number");
	n = strtoull(v, &end, 0);
	if (*end == 'k')
		n <<= 10;
	else if (*end == 'm')
		n <<= 20;
	else if (*end && *end != ',' && *end != ':')
		die(e, "'%s' is no number", v);
	return n;
}

/* What comes after the next comma. */
static const char *after(const char *v)
{
	v = strchr(v, ',');
	return v ? v + 1 : NULL;
}

/* Until @fd is ready for @events; one of the waits that @way stands for. */
static void await(struct end *e, struct half *h, int events, enum way way)
{
	struct epoll_event ev = { .events = events | EPOLLRDHUP };
	struct pollfd p = { .fd = e->fd, .events = events };
	int n;

	if (way != WAY_LT && way != WAY_ET) {
		n = poll(&p, 1, LONG_MS);
		if (!n)
			die(e, "nothing happens, poll() for %#x", events);
		return;
	}
	if (h->epoll < 0) {
		h->epoll = epoll_create1(EPOLL_CLOEXEC);
		if (way == WAY_ET)
			ev.events |= EPOLLIN | EPOLLOUT | EPOLLET;
		if (epoll_ctl(h->epoll, EPOLL_CTL_ADD, e->fd, &ev))
			die(e, "EPOLL_CTL_ADD: %s", name_of(errno));
		/* An edge that was before is seen in the first try after. */
		if (way == WAY_ET)
			return;
	}
	n = epoll_wait(h->epoll, &ev, 1, LONG_MS);
	if (!n)
		die(e, "nothing happens, epoll_wait() for %#x", events);
}

static enum way this_time(struct end *e, struct half *h)
{
	static const enum way some[] = {
		WAY_BLOCK, WAY_POLL, WAY_IOV, WAY_PEEK, WAY_WAITALL,
		WAY_SPLICE, WAY_MORE, WAY_SENDFILE,
	};

	if (e->way != WAY_MIX)
		return e->way;
	return some[l5_rnd(&h->seed) % ARRAY_SIZE(some)];
}

static ssize_t send_pipe(struct end *e, struct half *h, const uint8_t *buf,
			 size_t n)
{
	ssize_t put, done = 0;

	if (h->pipe[0] < 0 && pipe2(h->pipe, O_CLOEXEC))
		die(e, "pipe: %s", name_of(errno));
	if (n > SPLICE_MAX)
		n = SPLICE_MAX;
	if (write(h->pipe[1], buf, n) != (ssize_t)n)
		die(e, "cannot fill a pipe");
	while (done < (ssize_t)n) {
		put = splice(h->pipe[0], NULL, e->fd, NULL, n - done, 0);
		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			return done ? done : put;
		done += put;
	}
	return done;
}

static ssize_t send_file(struct end *e, struct half *h, const uint8_t *buf,
			 size_t n)
{
	off_t at;

	if (h->file < 0) {
		h->file = memfd_create("step", MFD_CLOEXEC);
		if (h->file < 0 || ftruncate(h->file, FILE_SIZE))
			die(e, "memfd: %s", name_of(errno));
	}
	if (h->file_at + n > FILE_SIZE)
		h->file_at = 0;
	at = h->file_at;
	if (pwrite(h->file, buf, n, at) != (ssize_t)n)
		die(e, "cannot fill a file");
	h->file_at += n;
	return sendfile(e->fd, h->file, &at, n);
}

static ssize_t send_lib(struct end *e, struct half *h, const uint8_t *buf,
			size_t n)
{
	ssize_t got;
	void *p;

	if (l5_rnd(&h->seed) % 2)
		return l5_send(e->lib, buf, n, MSG_NOSIGNAL);
	got = l5_reserve(e->lib, &p, n, MSG_NOSIGNAL);
	if (got <= 0)
		return got;
	memcpy(p, buf, got);
	return l5_commit(e->lib, got);
}

static ssize_t send_once(struct end *e, const uint8_t *buf, size_t n)
{
	struct half *h = &e->tx;
	struct iovec v[3] = {
		{ (void *)buf, n / 3 },
		{ (void *)(buf + n / 3), 0 },
		{ (void *)(buf + n / 3), n - n / 3 },
	};
	enum way way = this_time(e, h);
	int flags = MSG_NOSIGNAL;
	ssize_t put;

	switch (way) {
	case WAY_IOV:
		return writev(e->fd, v, 3);
	case WAY_SPLICE:
		return send_pipe(e, h, buf, n);
	case WAY_SENDFILE:
		return send_file(e, h, buf, n);
	case WAY_LIB:
		return send_lib(e, h, buf, n);
	case WAY_MAP:
		if (e->mapped)
			return mapping_send(&e->map, buf, n, flags);
		break;
	case WAY_MORE:
		if (l5_rnd(&h->seed) % 2)
			flags |= MSG_MORE;
		break;
	case WAY_POLL:
	case WAY_LT:
	case WAY_ET:
		flags |= MSG_DONTWAIT;
		break;
	default:
		break;
	}
	put = send(e->fd, buf, n, flags);
	if (put < 0 && errno == EAGAIN && way != WAY_TIMEO) {
		await(e, h, POLLOUT, way);
		errno = EAGAIN;
	}
	return put;
}

static ssize_t recv_pipe(struct end *e, struct half *h, uint8_t *buf, size_t n)
{
	ssize_t got;

	if (h->pipe[0] < 0 && pipe2(h->pipe, O_CLOEXEC))
		die(e, "pipe: %s", name_of(errno));
	if (n > SPLICE_MAX)
		n = SPLICE_MAX;
	got = splice(e->fd, NULL, h->pipe[1], NULL, n, 0);
	if (got > 0 && read(h->pipe[0], buf, got) != got)
		die_fatal(e, "a pipe lost bytes");
	return got;
}

static ssize_t recv_lib(struct end *e, struct half *h, uint8_t *buf, size_t n)
{
	const void *p;
	ssize_t got;

	if (l5_rnd(&h->seed) % 2)
		return l5_recv(e->lib, buf, n, 0);
	got = l5_peek(e->lib, &p, 0);
	if (got <= 0)
		return got;
	if ((size_t)got > n)
		got = n;
	memcpy(buf, p, got);
	return l5_release(e->lib, got) ? -1 : got;
}

static ssize_t recv_once(struct end *e, uint8_t *buf, size_t n)
{
	struct half *h = &e->rx;
	struct iovec v[3] = {
		{ buf, n / 3 },
		{ buf + n / 3, 0 },
		{ buf + n / 3, n - n / 3 },
	};
	enum way way = this_time(e, h);
	int flags = 0;
	ssize_t got;

	switch (way) {
	case WAY_IOV:
		return readv(e->fd, v, 3);
	case WAY_SPLICE:
		return recv_pipe(e, h, buf, n);
	case WAY_LIB:
		return recv_lib(e, h, buf, n);
	case WAY_MAP:
		if (e->mapped)
			return mapping_recv(&e->map, buf, n, 0);
		break;
	case WAY_PEEK:
		got = recv(e->fd, buf, n, MSG_PEEK);
		if (got <= 0)
			return got;
		if (l5_check(buf, got, h->base + h->at) >= 0)
			die(e, "MSG_PEEK: wrong byte at %zd",
			    l5_check(buf, got, h->base + h->at));
		n = got;
		flags = MSG_WAITALL;
		break;
	case WAY_WAITALL:
		flags = MSG_WAITALL;
		break;
	case WAY_POLL:
	case WAY_LT:
	case WAY_ET:
		flags = MSG_DONTWAIT;
		break;
	default:
		break;
	}
	got = recv(e->fd, buf, n, flags);
	if (got < 0 && errno == EAGAIN && way != WAY_TIMEO) {
		await(e, h, POLLIN, way);
		errno = EAGAIN;
	}
	return got;
}

/* Send some of the next @n bytes; less than 0 with h->err at an error. */
static ssize_t put_some(struct end *e, size_t n)
{
	struct half *h = &e->tx;
	int64_t until = l5_now_ms() + LONG_MS;
	ssize_t put;

	if (n > CHUNK_MAX)
		n = CHUNK_MAX;
	l5_fill(h->buf, n, h->base + h->at);
	for (;;) {
		put = send_once(e, h->buf, n);
		if (put > 0) {
			h->at += put;
			total_tx += put;
			return put;
		}
		if (!put)
			die(e, "sending %zu gives 0", n);
		if (errno != EAGAIN && errno != EINTR) {
			h->err = errno;
			return -1;
		}
		if (l5_now_ms() > until)
			die(e, "cannot send");
	}
}

/* Receive at most @n and check them: 0 with h->eof, or less with h->err. */
static ssize_t get_some(struct end *e, size_t n)
{
	struct half *h = &e->rx;
	int64_t until = l5_now_ms() + LONG_MS;
	ssize_t got, bad;

	if (n > CHUNK_MAX)
		n = CHUNK_MAX;
	for (;;) {
		got = recv_once(e, h->buf, n);
		if (got > 0) {
			bad = l5_check(h->buf, got, h->base + h->at);
			if (bad >= 0)
				die(e, "wrong byte at %" PRIu64 ", %#x",
				    h->at + bad, h->buf[bad]);
			h->at += got;
			total_rx += got;
			return got;
		}
		if (!got) {
			h->eof = true;
			return 0;
		}
		if (errno != EAGAIN && errno != EINTR) {
			h->err = errno;
			return -1;
		}
		if (l5_now_ms() > until)
			die_fatal(e, "nothing comes");
	}
}

/* Mostly small ones, some large. */
static size_t some_size(struct end *e, struct half *h)
{
	size_t max = e->chunk;

	if (max > 300 && l5_rnd(&h->seed) % 4 == 0)
		max = 300;
	return 1 + l5_rnd(&h->seed) % max;
}

static void put(struct end *e, uint64_t n)
{
	uint64_t end = e->tx.at + n;
	size_t want;

	while (e->tx.at < end) {
		want = some_size(e, &e->tx);
		if (want > end - e->tx.at)
			want = end - e->tx.at;
		if (put_some(e, want) < 0)
			die(e, "send: %s", name_of(e->tx.err));
	}
}

static void get(struct end *e, uint64_t n)
{
	uint64_t end = e->rx.at + n;
	size_t want;
	ssize_t got;

	while (e->rx.at < end) {
		want = some_size(e, &e->rx);
		if (want > end - e->rx.at)
			want = end - e->rx.at;
		got = get_some(e, want);
		if (!got)
			die_fatal(e, "end of file, %" PRIu64 " bytes early",
				  end - e->rx.at);
		if (got < 0)
			die(e, "recv: %s", name_of(e->rx.err));
	}
}

/* A round trip's half in one piece: a whole message is one call. */
static void put_whole(struct end *e, size_t n)
{
	uint64_t end = e->tx.at + n;

	while (e->tx.at < end)
		if (put_some(e, end - e->tx.at) < 0)
			die(e, "send: %s", name_of(e->tx.err));
}

static void get_whole(struct end *e, size_t n)
{
	uint64_t end = e->rx.at + n;
	ssize_t got;

	while (e->rx.at < end) {
		got = get_some(e, end - e->rx.at);
		if (got <= 0)
			die(e, "recv: %s", got ? name_of(e->rx.err) : "EOF");
	}
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

/*
 * Both directions without end, until it fails or a line comes on standard
 * input. That it fails is no failure of this program; silence is.
 */
static void flood(struct end *e)
{
	pthread_t s, r;
	bool s_up = true, r_up = true;

	finish = false;
	if (pthread_create(&s, NULL, flood_send, e) ||
	    pthread_create(&r, NULL, duplex_recv, e))
		die(e, "no thread");
	while (s_up || r_up) {
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
	    e->mapped || (e->lib && l5_conn_mapped(e->lib)) ? "true" :
	    "false");
}

static void half_init(struct half *h, uint64_t base, uint64_t seed)
{
	uint8_t *buf = h->buf ? h->buf : malloc(CHUNK_MAX);

	*h = (struct half){
		.base = base, .seed = seed | 1, .epoll = -1,
		.pipe = { -1, -1 }, .file = -1, .buf = buf,
	};
}

static void half_close(struct half *h)
{
	if (h->epoll >= 0)
		close(h->epoll);
	if (h->pipe[0] >= 0) {
		close(h->pipe[0]);
		close(h->pipe[1]);
	}
	if (h->file >= 0)
		close(h->file);
	h->epoll = -1;
	h->pipe[0] = -1;
	h->pipe[1] = -1;
	h->file = -1;
}

/* A connection is there: the client's port makes its streams unlike others. */
static void begin(struct end *e, bool server)
{
	struct addr a = { .len = sizeof(a.ss) };
	struct timeval tv = { .tv_usec = 30000 };
	uint64_t base;

	if (server ? getpeername(e->fd, &a.sa, &a.len) :
		     getsockname(e->fd, &a.sa, &a.len))
		a.in.sin_port = 0;
	/* at the same place in the addresses of both families */
	base = (uint64_t)ntohs(a.in.sin_port) << 40;
	e->server = server;
	half_init(&e->tx, base + ((uint64_t)server << 58), base + server + 1);
	half_init(&e->rx, base + ((uint64_t)!server << 58), base + server + 3);
	if (e->way == WAY_TIMEO) {
		setsockopt(e->fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
		setsockopt(e->fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
	}
	if (e->way == WAY_LT || e->way == WAY_ET)
		fcntl(e->fd, F_SETFL, O_NONBLOCK);
	if (e->way == WAY_LIB) {
		e->lib = l5_map(e->fd);
		if (!e->lib)
			die(e, "l5_map: %s", name_of(errno));
	}
}

static const struct {
	const char *name;
	int level, opt;
} options[] = {
	{ "rdma", SOL_L5, L5_RDMA },
	{ "rdma_wait", SOL_L5, L5_RDMA_WAIT },
	{ "force", SOL_L5, L5_FORCE },
	{ "spin", SOL_L5, L5_SPIN_US },
	{ "sndbuf", SOL_SOCKET, SO_SNDBUF },
	{ "rcvbuf", SOL_SOCKET, SO_RCVBUF },
	{ "keepalive", SOL_SOCKET, SO_KEEPALIVE },
	{ "idle", IPPROTO_TCP, TCP_KEEPIDLE },
	{ "intvl", IPPROTO_TCP, TCP_KEEPINTVL },
	{ "cnt", IPPROTO_TCP, TCP_KEEPCNT },
	{ "nodelay", IPPROTO_TCP, TCP_NODELAY },
	{ "user_timeout", IPPROTO_TCP, TCP_USER_TIMEOUT },
	{ "v6only", IPPROTO_IPV6, IPV6_V6ONLY },
};

static void set(struct end *e, const char *v)
{
	const char *colon = v ? strchr(v, ':') : NULL;
	size_t i;

	for (i = 0; colon && i < ARRAY_SIZE(options); i++)
		if (!strncmp(options[i].name, v, colon - v) &&
		    !options[i].name[colon - v] && e->nset < 16) {
			e->set[e->nset++] = (struct setting){
				options[i].level, options[i].opt,
				number(e, colon + 1) };
			return;
		}
	die(e, "no such option");
}

static int set_key(int fd, const char *peer)
{
	struct tcp_md5sig key = { .tcpm_keylen = 6, .tcpm_key = "secret" };
	struct addr a = addr_parse(peer);

	memcpy(&key.tcpm_addr, &a.ss, sizeof(a.ss));
	return setsockopt(fd, IPPROTO_TCP, TCP_MD5SIG, &key, sizeof(key));
}

/* ESP, by whatever keys there are */
static int set_policy(int fd, const char *peer, int dir)
{
	struct addr a = addr_parse(peer);
	bool six = a.sa.sa_family == AF_INET6;
	struct {
		struct xfrm_userpolicy_info info;
		struct xfrm_user_tmpl tmpl;
	} p = {
		.info = {
			.sel.family = a.sa.sa_family,
			.lft = {
				.soft_byte_limit = XFRM_INF,
				.hard_byte_limit = XFRM_INF,
				.soft_packet_limit = XFRM_INF,
				.hard_packet_limit = XFRM_INF,
			},
			.dir = dir,
			.action = XFRM_POLICY_ALLOW,
		},
		.tmpl = {
			.id.proto = IPPROTO_ESP,
			.family = a.sa.sa_family,
			.mode = XFRM_MODE_TRANSPORT,
			.aalgos = ~0U,
			.ealgos = ~0U,
			.calgos = ~0U,
		},
	};

	return setsockopt(fd, six ? SOL_IPV6 : SOL_IP,
			  six ? IPV6_XFRM_POLICY : IP_XFRM_POLICY, &p,
			  sizeof(p));
}

/* key: TCP_MD5SIG; in, out: a policy of the socket's own. 0 or -1, errno. */
static int guard(struct end *e, int fd, const struct guard *g)
{
	if (!strcmp(g->what, "key"))
		return set_key(fd, g->peer);
	if (!strcmp(g->what, "in"))
		return set_policy(fd, g->peer, XFRM_POLICY_IN);
	if (!strcmp(g->what, "out"))
		return set_policy(fd, g->peer, XFRM_POLICY_OUT);
	die(e, "no such guard");
}

static struct guard guard_parse(const struct end *e, const char *v)
{
	struct guard g = { };

	if (!v || sscanf(v, "%7[^,],%63s", g.what, g.peer) != 2)
		die(e, "what, and for which peer?");
	return g;
}

/* Of a connection: what comes of it. */
static void guard_now(struct end *e, const char *v)
{
	struct guard g = guard_parse(e, v);
	int err = guard(e, e->fd, &g) ? errno : 0;

	say("{\"guard\": \"%s\", \"err\": \"%s\"}", g.what, name_of(err));
}

/* A socket with all that was set. */
static int make(struct end *e, const struct addr *a)
{
	int fd = end_socket(e->plain ? END_TCP : END_L5, a->sa.sa_family);
	int i;

	if (fd < 0)
		die(e, "socket: %s", name_of(-fd));
	for (i = 0; i < e->nset; i++)
		if (setsockopt(fd, e->set[i].level, e->set[i].name,
			       &e->set[i].value, sizeof(int)) && !e->plain)
			die(e, "setsockopt %#x %d: %s", e->set[i].level,
			    e->set[i].name, name_of(errno));
	for (i = 0; i < e->nguard; i++)
		if (guard(e, fd, &e->guard[i]))
			die(e, "guard %s: %s", e->guard[i].what,
			    name_of(errno));
	return fd;
}

static void do_listen(struct end *e, const char *v)
{
	struct addr a = addr_parse(v);
	int one = 1;

	e->listener = make(e, &a);
	setsockopt(e->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(e->listener, &a.sa, a.len))
		die(e, "bind: %s", name_of(errno));
	if (listen(e->listener, 4096))
		die(e, "listen: %s", name_of(errno));
}

static void do_connect(struct end *e, const char *v, bool wait)
{
	struct addr a = addr_parse(v);
	struct pollfd p = { .events = POLLOUT };
	socklen_t len = sizeof(int);
	int64_t start = l5_now_ms();
	int err = 0;

	e->fd = make(e, &a);
	p.fd = e->fd;
	if (!wait)
		fcntl(e->fd, F_SETFL, O_NONBLOCK);
	if (connect(e->fd, &a.sa, a.len) && (wait || errno != EINPROGRESS))
		die(e, "connect: %s", name_of(errno));
	if (!wait) {
		if (poll(&p, 1, LONG_MS) != 1 ||
		    getsockopt(e->fd, SOL_SOCKET, SO_ERROR, &err, &len) || err)
			die(e, "connect, then poll(): %s", name_of(err));
		fcntl(e->fd, F_SETFL, 0);
	}
	e->connect_ms = l5_now_ms() - start;
	begin(e, false);
}

static void do_accept(struct end *e)
{
	struct pollfd p = { .fd = e->listener, .events = POLLIN };

	if (poll(&p, 1, LONG_MS) != 1)
		die(e, "nobody connects");
	e->fd = accept(e->listener, NULL, NULL);
	if (e->fd < 0)
		die(e, "accept: %s", name_of(errno));
	begin(e, true);
}

static void do_close(struct end *e)
{
	int fd = e->fd;

	half_close(&e->tx);
	half_close(&e->rx);
	if (e->mapped)
		mapping_close(&e->map);
	l5_unmap(e->lib);
	e->mapped = false;
	e->lib = NULL;
	e->fd = -1;
	if (close(fd))
		die(e, "close: %s", name_of(errno));
}

static void do_map(struct end *e, const char *v)
{
	int64_t until = l5_now_ms() + (int64_t)number(e, v);
	int err;

	do {
		err = mapping_open(&e->map, e->fd);
		if (err != -EAGAIN)
			break;
		usleep(2000);
	} while (l5_now_ms() < until);
	if (err)
		die(e, "cannot map: %s", name_of(-err));
	e->mapped = true;
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
		      struct l5_conn **ready, struct end *e, unsigned int n,
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
 * connections that came before they had a byte, and for their ends. What it
 * finds then, and what the mailbox does not name a good while later either, was
 * missed: the byte of the mailbox comes after what it tells of.
 */
static void mailbox(struct end *l, const char *v)
{
	unsigned int n = number(l, v), i, open = n, said = 0, bytes = 0;
	size_t size = after(v) ? number(l, after(v)) : 64, missed = 0;
	struct l5_mailbox *b = l5_mailbox_open(l->listener);
	struct l5_conn **ready = calloc(n, sizeof(*ready));
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
		bytes += l5_conn_mailbox(e[i].lib) >= 0;
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
 * other, have to be told, and none that this is the end.
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
