// SPDX-License-Identifier: GPL-2.0
#include <arpa/inet.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/sockios.h>

#include "l5test.h"
#include "diff_core.h"
#include "settle.h"

/*
 * The family that stands in for AF_L5: "l5" itself; "inet", AF_INET and
 * AF_INET6 with AF_L5's protocol; "self", the kernel's own family once more, to
 * see that a scenario is deterministic; "unix", to see that the suite notices a
 * family that is not TCP.
 */
static const char *subject(void)
{
	const char *s = getenv("L5_DIFF");

	return s ? s : "l5";
}

static bool is_self(void)
{
	return !strcmp(subject(), "self");
}

static bool is_sabotage(void)
{
	return !strcmp(subject(), "unix");
}

bool is_full(void)
{
	return getenv("L5_FULL");
}

bool is_unix(const struct ctx *c)
{
	return c->v->dom == AF_UNIX || (is_sabotage() && !c->own);
}

static int family(struct ctx *c, bool l5, int *proto)
{
	*proto = 0;
	if (c->own || is_self())
		return c->v->dom;
	if (is_sabotage())
		return AF_UNIX;
	if (!l5)
		return c->v->dom;
	if (c->v->dom != AF_UNIX && !strcmp(subject(), "inet")) {
		*proto = l5_number(L5_PROTOCOL_PATH);
		return c->v->dom;
	}
	*proto = c->v->dom == AF_INET ? L5PROTO_INET :
		 c->v->dom == AF_INET6 ? L5PROTO_INET6 : L5PROTO_UNIX;
	return l5_family();
}

int tested_family(struct ctx *c, int *proto)
{
	return family(c, c->v->l5_client, proto);
}

static int make_socket(struct ctx *c, int flags, bool l5)
{
	int proto, fam = family(c, l5, &proto), one = L5_TRANSPORT_BASE;
	int type = c->v->type ?: SOCK_STREAM;
	int fd = socket(fam, type | flags, proto);

	if (fam != l5_family() && !proto)
		return fd;
	if (fd >= 0 && c->v->bit == V_FORCED &&
	    setsockopt(fd, SOL_L5, L5_FORCE, &one, sizeof(one)))
		log_val(c, "L5_FORCE", "%s", strerrorname_np(errno));
	return fd;
}

int cl_socket(struct ctx *c, int flags)
{
	return make_socket(c, flags, c->v->l5_client);
}

int sv_socket(struct ctx *c, int flags)
{
	return make_socket(c, flags, c->v->l5_server);
}

void addr_new(struct ctx *c, struct addr *a)
{
	struct sockaddr_un *un = (void *)&a->ss;
	struct sockaddr_in *in = (void *)&a->ss;
	struct sockaddr_in6 *in6 = (void *)&a->ss;

	memset(a, 0, sizeof(*a));
	c->names++;
	if (is_unix(c)) {
		un->sun_family = AF_UNIX;
		if (c->v->bit == V_ABSTRACT)
			a->len = offsetof(struct sockaddr_un, sun_path) + 1 +
				 sprintf(un->sun_path + 1, "%s/%d", c->dir,
					 c->names);
		else
			a->len = offsetof(struct sockaddr_un, sun_path) + 1 +
				 sprintf(un->sun_path, "%s/%d", c->dir,
					 c->names);
	} else if (c->v->dom == AF_INET6) {
		in6->sin6_family = AF_INET6;
		in6->sin6_addr = in6addr_loopback;
		a->len = sizeof(*in6);
	} else {
		in->sin_family = AF_INET;
		in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		a->len = sizeof(*in);
	}
}

void addr_of(int fd, struct addr *a)
{
	memset(a, 0, sizeof(*a));
	a->len = sizeof(a->ss);
	if (getsockname(fd, SA(a), &a->len))
		a->len = 0;
}

int listener(struct ctx *c, int backlog)
{
	int l = sv_socket(c, 0);

	addr_new(c, &c->la);
	if (l < 0 || bind(l, SA(&c->la), c->la.len) || listen(l, backlog)) {
		log_ret(c, "preparing a listener", -1);
		return l;
	}
	addr_of(l, &c->la);
	return l;
}

void check_transport(struct ctx *c, int fd, bool server)
{
	int t;

	if (c->own || is_self() || is_sabotage())
		return;
	if (!(server ? c->v->l5_server : c->v->l5_client))
		return;
	t = l5_transport(fd);
	if (t != c->v->transport)
		log_val(c, server ? "transport of the accepted end" :
			"transport of the connecting end",
			"%d reason %d, wanted %d", t,
			l5_getopt(fd, L5_REASON), c->v->transport);
}

void pair_on(struct ctx *c, int l)
{
	bool rev = c->v->bit == V_REV || c->v->bit == V_FROM_PLAIN;
	int cl = cl_socket(c, 0), sv;

	c->a = -1;
	c->b = -1;
	if (cl < 0 || connect(cl, SA(&c->la), c->la.len)) {
		log_ret(c, "preparing a pair: connect", -1);
		return;
	}
	sv = accept(l, NULL, NULL);
	if (sv < 0)
		log_ret(c, "preparing a pair: accept", -1);
	check_transport(c, cl, false);
	check_transport(c, sv, true);
	c->a = rev ? sv : cl;
	c->b = rev ? cl : sv;
}

void pair(struct ctx *c)
{
	int l = listener(c, 8);

	pair_on(c, l);
	close(l);
}

static void add(struct ctx *c, const char *label, const char *value)
{
	int i = __atomic_fetch_add(&c->t->n, 1, __ATOMIC_RELAXED);
	struct line *l;

	if (i >= LINES_MAX)
		abort();
	l = &c->t->line[i];
	snprintf(l->label, sizeof(l->label), "%s", label);
	snprintf(l->value, sizeof(l->value), "%s", value);
}

void log_val(struct ctx *c, const char *label, const char *fmt, ...)
{
	char buf[200];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(buf, sizeof(buf), fmt, ap);
	va_end(ap);
	add(c, label, buf);
}

void log_ret(struct ctx *c, const char *label, long ret)
{
	const char *e;

	if (ret >= 0) {
		log_val(c, label, "%ld", ret);
		return;
	}
	e = strerrorname_np(errno);
	log_val(c, label, "%ld %s", ret, e ? e : "?");
}

const char *events_name(unsigned int ev, char *buf, size_t len)
{
	static const struct {
		unsigned int bit;
		const char *name;
	} names[] = {
		{ POLLIN, "IN" }, { POLLPRI, "PRI" }, { POLLOUT, "OUT" },
		{ POLLERR, "ERR" }, { POLLHUP, "HUP" }, { POLLNVAL, "NVAL" },
		{ POLLRDNORM, "RDNORM" }, { POLLRDBAND, "RDBAND" },
		{ POLLWRNORM, "WRNORM" }, { POLLWRBAND, "WRBAND" },
		{ POLLMSG, "MSG" }, { POLLRDHUP, "RDHUP" },
	};
	size_t i, n = 0;

	buf[0] = 0;
	for (i = 0; i < ARRAY_SIZE(names); i++) {
		if (!(ev & names[i].bit))
			continue;
		ev &= ~names[i].bit;
		n += snprintf(buf + n, len - n, "%s%s", n ? "|" : "",
			      names[i].name);
	}
	if (ev)
		snprintf(buf + n, len - n, "|%#x", ev);
	return buf;
}

#define ALL_EVENTS (POLLIN | POLLPRI | POLLOUT | POLLRDHUP | POLLRDNORM | \
		    POLLRDBAND | POLLWRNORM | POLLWRBAND | POLLMSG)

void log_poll(struct ctx *c, const char *label, int fd, int want)
{
	struct pollfd p = { .fd = fd, .events = ALL_EVENTS };
	/* AF_UNIX is there at once, or never. */
	int64_t end = l5_now_ms() + (is_unix(c) ? 50 : 10000) * l5_slow();
	char buf[128];
	bool last;
	int n;

	do {
		/* one look at least after the end, however late that is */
		last = l5_now_ms() >= end;
		n = poll(&p, 1, 0);
		if ((p.revents & want) == want)
			break;
		usleep(1000);
	} while (!last);
	log_val(c, label, "%d %s", n, events_name(p.revents, buf,
						  sizeof(buf)));
}

void log_data(struct ctx *c, const char *label, const void *buf, ssize_t n)
{
	const unsigned char *p = buf;
	char hex[50] = "";
	int i;

	if (n <= 0) {
		log_val(c, label, "none");
		return;
	}
	for (i = 0; i < n && i < 16; i++)
		sprintf(hex + 2 * i, "%02x", p[i]);
	log_val(c, label, "%zd bytes %s #%llx", n, hex,
		(unsigned long long)l5_hash(0, buf, n));
}

static const char *port_name(struct ctx *c, int port, char *buf)
{
	struct sockaddr_in *in = (void *)&c->la.ss;

	/* sin_port and sin6_port are at the same place. */
	if (!port)
		return "0";
	if (c->la.len && port == ntohs(in->sin_port))
		return "listener";
	sprintf(buf, "some");
	return buf;
}

void log_addr(struct ctx *c, const char *label, const struct sockaddr *sa,
	      socklen_t len)
{
	const struct sockaddr_in *in = (const void *)sa;
	const struct sockaddr_in6 *in6 = (const void *)sa;
	const struct sockaddr_un *un = (const void *)sa;
	char host[64] = "", port[16], path[120];
	const char *p;
	size_t n;

	if (len < sizeof(sa_family_t)) {
		log_val(c, label, "len %u", len);
	} else if (sa->sa_family == AF_INET && len >= sizeof(*in)) {
		inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
		log_val(c, label, "len %u inet %s port %s", len, host,
			port_name(c, ntohs(in->sin_port), port));
	} else if (sa->sa_family == AF_INET6 && len >= sizeof(*in6)) {
		inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof(host));
		log_val(c, label, "len %u inet6 %s port %s flow %u scope %u",
			len, host, port_name(c, ntohs(in6->sin6_port), port),
			in6->sin6_flowinfo, in6->sin6_scope_id);
	} else if (sa->sa_family == AF_UNIX) {
		n = len - offsetof(struct sockaddr_un, sun_path);
		if (n > sizeof(path) - 1)
			n = sizeof(path) - 1;
		memcpy(path, un->sun_path, n);
		path[n] = 0;
		p = path;
		if (n && !*p)
			p++;
		/* The directory's name differs from run to run. */
		if (*c->dir && !strncmp(p, c->dir, strlen(c->dir)))
			p += strlen(c->dir);
		log_val(c, label, "len %u unix %s%s", len,
			n && !path[0] ? "@" : "", p);
	} else {
		log_val(c, label, "len %u family %d", len, sa->sa_family);
	}
}

pid_t beside(struct ctx *c, void (*fn)(struct ctx *c))
{
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		fn(c);
		_exit(0);
	}
	return pid;
}

void when_asleep(struct ctx *c, void (*fn)(struct ctx *c))
{
	pid_t me = getpid();
	pid_t pid = fork();

	if (pid)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!l5_wait_asleep(me))
		log_val(c, "the caller", "never slept");
	fn(c);
	_exit(0);
}

int drain(int fd, size_t len, uint64_t pos)
{
	static char buf[65536];
	ssize_t n;

	while (len) {
		n = recv(fd, buf, len < sizeof(buf) ? len : sizeof(buf), 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0 || l5_check(buf, n, pos) >= 0)
			return -1;
		len -= n;
		pos += n;
	}
	return 0;
}

int feed(int fd, size_t len, uint64_t pos)
{
	static char buf[65536];
	size_t want;
	ssize_t n;

	while (len) {
		want = len < sizeof(buf) ? len : sizeof(buf);
		l5_fill(buf, want, pos);
		n = send(fd, buf, want, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		len -= n;
		pos += n;
	}
	return 0;
}

void await(int fd, int n)
{
	int64_t end = l5_now_ms() + 10000 * l5_slow();
	int have = 0;

	while (!ioctl(fd, FIONREAD, &have) && have < n && l5_now_ms() < end)
		usleep(500);
}

void settle(struct ctx *c)
{
	if (!is_unix(c))
		l5_settle();
}

void *bad_pointer(void)
{
	return (void *)8;
}

char *edge(size_t good)
{
	size_t len = (good + 8191) & ~4095UL;
	char *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		abort();
	memset(p, 'e', len);
	if (mprotect(p + len - 4096, 4096, PROT_NONE))
		abort();
	return p + len - 4096 - good;
}

/*
 * Does TCP still move what it was given? It is full once nothing is under way
 * and the receiver's closed window was asked about in vain. Nothing of rings
 * or AF_UNIX is ever under way.
 */
static bool under_way(int fd)
{
	struct tcp_info ti = { 0 };
	socklen_t len = sizeof(ti);
	int all = 0, unsent = 0;

	if (l5_transport(fd) == L5_TRANSPORT_SHM ||
	    ioctl(fd, SIOCOUTQNSD, &unsent) || ioctl(fd, SIOCOUTQ, &all) ||
	    !all || getsockopt(fd, IPPROTO_TCP, TCP_INFO, &ti, &len))
		return false;
	return all > unsent || !ti.tcpi_backoff;
}

long fill_up(int fd)
{
	/* A socket that does not take many bytes may still take a few. */
	static const int sizes[] = { 65536, 4096, 256, 16, 1 };
	static char buf[65536];
	long sum = 0, n;
	unsigned int i;
	int64_t end;
	int idle;

	end = l5_now_ms() + 5000 * l5_slow();
	for (idle = 0; idle < 5 || (under_way(fd) && l5_now_ms() < end);
	     idle++) {
		for (i = 0; i < ARRAY_SIZE(sizes); i++)
			while ((n = send(fd, buf, sizes[i],
					 MSG_DONTWAIT | MSG_NOSIGNAL)) > 0) {
				sum += n;
				idle = 0;
			}
		usleep(25000);
	}
	return sum;
}

/* Run a scenario once, in a process of its own that may crash or hang. */
static void run_one(const struct variant *v, bool own,
		    void (*fn)(struct ctx *c), struct transcript *t)
{
	struct ctx c = { .v = v, .own = own, .t = t, .a = -1, .b = -1 };
	char path[300];
	int status, i, gap;
	pid_t pid;

	t->n = 0;
	strcpy(c.dir, "/tmp/l5diff.XXXXXX");
	if ((v->dom == AF_UNIX || is_sabotage()) && !mkdtemp(c.dir)) {
		log_ret(&c, "mkdtemp", -1);
		return;
	}
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		setpgid(0, 0);
		alarm(60 * l5_slow());
		fn(&c);
		_exit(0);
	}
	setpgid(pid, pid);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	kill(-pid, SIGKILL);
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		log_val(&c, "end", "HANGS");
	else if (WIFSIGNALED(status))
		log_val(&c, "end", "killed by signal %d", WTERMSIG(status));
	else
		log_val(&c, "end", "exit %d", WEXITSTATUS(status));
	if (v->dom != AF_UNIX && !is_sabotage())
		return;
	/* The names are numbers, and not all of them were used. */
	for (i = gap = 0; gap < 20; i++) {
		snprintf(path, sizeof(path), "%s/%d", c.dir, i);
		gap = unlink(path) ? gap + 1 : 0;
	}
	if (rmdir(c.dir))
		fprintf(stderr, "# could not remove %s\n", c.dir);
}

/*
 * The deviation that allows AF_L5 to say @l5 where the other family says @own.
 * If both are the same: the deviation by which AF_L5 should have said something
 * else.
 */
static const struct deviation *deviation(const char *name,
					 const struct variant *v,
					 const char *label, const char *own,
					 const char *l5)
{
	const struct deviation *d;
	bool same = !strcmp(own, l5);

	if (is_self() || is_sabotage())
		return NULL;
	for (d = deviations; d < deviations + deviations_n; d++)
		if ((d->variants & v->bit) &&
		    d->where != (is_full() ? D_KERNEL : D_FULL) &&
		    !fnmatch(d->scenario, name, 0) &&
		    !fnmatch(d->label, label, 0) &&
		    !fnmatch(d->own, own, 0) &&
		    (same ? !d->maybe : !fnmatch(d->l5, l5, 0)))
			return d;
	return NULL;
}

/* Is that what a receiving call returned, and no error? */
static bool received(const struct line *x)
{
	return (strstr(x->label, "recv") || strstr(x->label, "read") ||
		strstr(x->label, "splice")) && x->value[0] != '-';
}

/* May a difference be about the bytes that were carried? */
static void carried(const struct line *own, const struct line *l5)
{
	if (!strncmp(own->value, "-1 E", 4) && !strcmp(l5->value, "0"))
		l5_fatal("%s: no error but 0", own->label);
	else if (strstr(own->value, " bytes ") || strstr(l5->value, " bytes "))
		l5_fatal("%s: other bytes", own->label);
	else if (received(own) && received(l5))
		l5_fatal("%s: another count", own->label);
}

/* The number of differences; the first of them are printed, if @print. */
static int differences(const char *name, const struct variant *v,
		       const struct transcript *own,
		       const struct transcript *l5, bool print)
{
	const struct deviation *d;
	const struct line *x, *y;
	int i, bad = 0;

	for (i = 0; i < own->n || i < l5->n; i++) {
		static const struct line none = { "nothing", "" };

		x = i < own->n ? &own->line[i] : &none;
		y = i < l5->n ? &l5->line[i] : &none;
		if (strcmp(x->label, y->label)) {
			char end[330];

			snprintf(end, sizeof(end), "%s: %s", y->label,
				 y->value);
			if (!strcmp(y->label, "end") &&
			    deviation(name, v, x->label, x->value, end))
				break;
			bad++;
			if (print)
				fprintf(stderr,
					"# %s.%s line %d: AF_L5 says: %s: %s\n"
					"#   where %s says: %s: %s\n",
					v->name, name, i, y->label, y->value,
					v->dom == AF_UNIX ? "AF_UNIX" : "TCP",
					x->label, x->value);
			break;
		}
		d = deviation(name, v, x->label, x->value, y->value);
		if (!strcmp(x->value, y->value)) {
			if (!d)
				continue;
			bad++;
			if (print)
				fprintf(stderr,
					"# %s.%s line %d: %s: %s: "
					"a documented deviation that is none\n",
					v->name, name, i, x->label, x->value);
			continue;
		}
		if (d)
			continue;
		bad++;
		if (print && bad <= 12)
			fprintf(stderr,
				"# %s.%s line %d: %s\n#   %-8s %s\n#   AF_L5    %s\n",
				v->name, name, i, x->label,
				v->dom == AF_UNIX ? "AF_UNIX" : "TCP",
				x->value, y->value);
		if (print)
			carried(x, y);
	}
	return bad;
}

static void dump(const struct transcript *t)
{
	int i;

	for (i = 0; i < t->n; i++)
		fprintf(stderr, "#   %3d %s: %s\n", i, t->line[i].label,
			t->line[i].value);
}

int diff_compare(const char *name, const struct variant *v,
		 void (*fn)(struct ctx *c), char *why, size_t len)
{
	const char *only = getenv("L5_ONLY"), *var = getenv("L5_VARIANT");
	const int tries = 4;
	struct transcript *t;
	int i, bad = 0;
	bool hangs = false;

	if ((only && fnmatch(only, name, 0)) ||
	    (var && fnmatch(var, v->name, 0))) {
		snprintf(why, len, "not asked for");
		return DIFF_SKIP;
	}
	if (!is_self() && !is_sabotage() && !l5_present()) {
		snprintf(why, len, "no AF_L5 here");
		return getenv("L5_REQUIRED") ? DIFF_DIFFERENT : DIFF_SKIP;
	}
	t = mmap(NULL, 2 * sizeof(*t), PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (t == MAP_FAILED) {
		snprintf(why, len, "mmap: %m");
		return DIFF_DIFFERENT;
	}
	run_one(v, false, fn, &t[1]);
	/*
	 * TCP may have more than one answer (its acknowledgements race with
	 * what follows). AF_L5's must be one of them: it is run once, TCP
	 * as often as it takes.
	 */
	for (i = 0; i < tries; i++) {
		run_one(v, true, fn, &t[0]);
		hangs = !strcmp(t[0].line[t[0].n - 1].value, "HANGS");
		bad = differences(name, v, &t[0], &t[1],
				  hangs || i == tries - 1);
		if (!bad || hangs)
			break;
	}
	if (getenv("L5_DUMP")) {
		fprintf(stderr, "# own:\n");
		dump(&t[0]);
		fprintf(stderr, "# AF_L5:\n");
		dump(&t[1]);
	}
	/* A scenario that prepares in vain, or says nothing, tests nothing. */
	for (i = 0; i < t[0].n; i++)
		if (!strncmp(t[0].line[i].label, "preparing", 9)) {
			snprintf(why, len, "%s: %s", t[0].line[i].label,
				 t[0].line[i].value);
			return DIFF_DIFFERENT;
		}
	if (t[0].n < 2 || hangs) {
		snprintf(why, len, "the scenario does not work");
		return DIFF_DIFFERENT;
	}
	if (bad) {
		snprintf(why, len, "%d differences", bad);
		return DIFF_DIFFERENT;
	}
	return DIFF_SAME;
}

void drain_big(struct ctx *c)
{
	char b;

	close(c->a);
	if (drain(c->b, BIG, 0))
		V("draining", "failed");
	send(c->b, "!", 1, 0);
	recv(c->b, &b, 1, 0);
}

int so_error(int fd)
{
	socklen_t len = sizeof(int);
	int e = -1;

	getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &len);
	return e;
}

pid_t parent;

void usr1(struct ctx *c)
{
	(void)c;
	kill(parent, SIGUSR1);
}
