// SPDX-License-Identifier: GPL-2.0
/*
 * l5run --stats and -v: what they say agrees with what the program did, and
 * nothing that happens to the program, or to the numbers, gets in their way.
 */
#define SHIM	shim_stats
#include "shim.h"

#include <dirent.h>
#include <grp.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "ends.h"
#include "text.h"

enum {
	ROUNDS = 100,
	AFTER = 4,		/* L5_MAP_AFTER */
	MANY = 120,		/* more than a process has places for */
	OPEN = 50,		/* more than it has places for: two ends each */
	STATUS = 7,		/* of a program that went well */
};

/* The programs that are run, one a name */

/* For ends() */
static void tell(int a, int b)
{
	printf("%d %d\n", a, b);
	fflush(stdout);
}

/* Used @n times in all, by both ends in turn. */
static int echo(enum kind kind, int n)
{
	int a, b;

	if (!shim_pair(kind, &a, &b) || !shim_trips(a, b, n))
		return 99;
	tell(a, b);
	close(a);
	close(b);
	return STATUS;
}

/* To a server of plain TCP */
static int to_tcp(void)
{
	struct sockaddr_in sa;
	int l, a, b;

	if (!shim_listen(TCP, &l, &sa))
		return 99;
	a = shim_socket(L5, 0);
	if (a < 0 || connect(a, (struct sockaddr *)&sa, sizeof(sa)))
		return 98;
	b = accept(l, NULL, NULL);
	if (b < 0 || !shim_trips(a, b, ROUNDS))
		return 97;
	tell(a, b);
	return STATUS;
}

static int lowat(void)
{
	int a, b, two = 2;

	if (!shim_pair(L5, &a, &b) ||
	    setsockopt(a, SOL_SOCKET, SO_RCVLOWAT, &two, sizeof(two)) ||
	    write(b, "many bytes", 10) != 10 || !shim_trips(a, b, ROUNDS))
		return 99;
	tell(a, b);
	return STATUS;
}

/* What is not for the rings: 3 peeks, 5 messages by sendmmsg(), 7 writes. */
static int fallbacks(void)
{
	struct iovec iov = { "m", 1 };
	struct mmsghdr m = {
		.msg_hdr = { .msg_iov = &iov, .msg_iovlen = 1 },
	};
	int a, b, two = 2, i;
	char c;

	if (!shim_pair(L5, &a, &b) || !shim_trips(a, b, ROUNDS) ||
	    write(b, "p", 1) != 1)
		return 99;
	for (i = 0; i < 3; i++)
		if (recv(a, &c, 1, MSG_PEEK) != 1)
			return 98;
	for (i = 0; i < 5; i++)
		if (sendmmsg(a, &m, 1, 0) != 1)
			return 97;
	if (setsockopt(a, SOL_SOCKET, SO_RCVLOWAT, &two, sizeof(two)))
		return 96;
	for (i = 0; i < 7; i++)
		if (write(a, "o", 1) != 1)
			return 95;
	tell(a, b);
	return STATUS;
}

static int polls(void)
{
	struct pollfd p = { .events = POLLIN };
	char c;
	int a, b, i;

	if (!shim_pair(L5, &a, &b) || !shim_trips(a, b, ROUNDS))
		return 99;
	p.fd = b;
	for (i = 0; i < ROUNDS; i++)
		if (write(a, "w", 1) != 1 || poll(&p, 1, -1) != 1 ||
		    read(b, &c, 1) != 1)
			return 98;
	tell(a, b);
	return STATUS;
}

/* A ring that is full grows, and is the kernel's from then on. */
static int grows(void)
{
	struct pollfd p = { .events = POLLOUT };
	static char some[30000];
	int a, b, i;

	if (!shim_pair(L5, &a, &b) || !shim_trips(a, b, ROUNDS))
		return 99;
	p.fd = a;
	while (send(a, some, sizeof(some), MSG_DONTWAIT) > 0)
		;
	if (poll(&p, 1, -1) != 1)
		return 98;
	for (i = 0; i < 3; i++)
		if (write(a, "g", 1) != 1)
			return 97;
	tell(a, b);
	return STATUS;
}

/* Sends to a thread, the first of this program, that sleeps. */
static void *to_sleeper(void *fd)
{
	return (void *)(intptr_t)(!l5_wait_asleep(getpid()) ||
				  write(*(int *)fd, "l", 1) != 1);
}

/* Nothing shows from outside that a thread looks, so this just comes later. */
static void *to_looker(void *fd)
{
	usleep(300000);
	return (void *)(intptr_t)(write(*(int *)fd, "l", 1) != 1);
}

/* One byte is waited for, by looking or asleep. */
static int waits_for(void *(*sender)(void *fd))
{
	pthread_t thread;
	void *failed;
	int a, b;
	char c;

	if (!shim_pair(L5, &a, &b) || !shim_trips(a, b, ROUNDS) ||
	    pthread_create(&thread, NULL, sender, &a) || read(b, &c, 1) != 1 ||
	    pthread_join(thread, &failed) || failed)
		return 99;
	tell(a, b);
	return STATUS;
}

static int waits(void)
{
	return waits_for(to_sleeper);
}

static int looks(void)
{
	return waits_for(to_looker);
}

static int run_self(const char *how)
{
	static char *const argv[] = { "stats", NULL };

	setenv("STATS_HOW", how, 1);
	execv("/proc/self/exe", argv);
	return 96;
}

static int reap(pid_t pid)
{
	int status = -1;

	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* A child of fork(), and a child that is another program by then. */
static int tree(void)
{
	pid_t pid;

	if (echo(L5, ROUNDS) != STATUS)
		return 99;
	pid = fork();
	if (!pid)
		_exit(echo(L5, 2 * ROUNDS));
	if (reap(pid) != STATUS)
		return 98;
	pid = fork();
	if (!pid)
		_exit(run_self("echo"));
	return reap(pid);
}

/* As daemons begin: nothing is open, another root, another user, and twice. */
static int daemonic(void)
{
	char dir[] = "/tmp/l5statsXXXXXX";
	pid_t pid;

	closefrom(3);
	if (!mkdtemp(dir) || chdir(dir) || chroot(".") || setgroups(0, NULL) ||
	    setgid(65534) || setuid(65534))
		return 99;
	pid = fork();
	if (pid)
		return reap(pid);
	setsid();
	pid = fork();
	if (pid)
		_exit(reap(pid));
	_exit(echo(L5, ROUNDS));
}

/* Another user's program cannot reach the memory, and does without. */
static int stranger(void)
{
	if (setgroups(0, NULL) || setgid(65534) || setuid(65534))
		return 99;
	return run_self("echo");
}

/*
 * Any content of the memory, which cannot be cut off: each part is in use, and
 * the rest is one of a few sorts of nonsense.
 */
static int garbage(const char *sort)
{
	const char *s = getenv("L5_STATS");
	uint32_t *p, seed = 1;
	char path[64];
	struct stat st;
	int pid, n, fd;
	off_t i;

	if (!s || sscanf(s, "%d %d", &pid, &n) != 2)
		return 99;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, n);
	fd = open(path, O_RDWR);
	if (fd < 0 || fstat(fd, &st) || !st.st_size)
		return 98;
	if (!ftruncate(fd, 0) || !ftruncate(fd, 4096) || errno != EPERM)
		return 97;
	p = mmap(NULL, st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return 96;
	for (i = 0; i < st.st_size / 4; i++) {
		seed = seed * 1664525 + 1013904223;
		p[i] = i % 8192 == 1024 % 8192 ? 2 :
		       !strcmp(sort, "random") ? seed :
		       !strcmp(sort, "two") ? 2 :
		       !strcmp(sort, "large") ? ~0U : 0;
	}
	return STATUS;
}

static int many(void)
{
	int i;

	for (i = 0; i < MANY; i++)
		if (echo(L5, 10) != STATUS)
			return 99;
	return STATUS;
}

/* More at once than there are places */
static int at_once(void)
{
	int a[OPEN], b[OPEN], i;

	for (i = 0; i < OPEN; i++)
		if (!shim_pair(L5, &a[i], &b[i]) || !shim_trips(a[i], b[i], 10))
			return 99;
	for (i = 0; i < OPEN; i++)
		if (!shim_trips(a[i], b[i], 10))
			return 98;
	return STATUS;
}

/* Until l5run has printed something: they have standard error in common. */
static int printed(void)
{
	struct stat st;
	int i;

	if (echo(L5, ROUNDS) != STATUS)
		return 99;
	for (i = 0; i < 600; i++) {
		if (!fstat(STDERR_FILENO, &st) && st.st_size)
			return STATUS;
		usleep(100000);
	}
	return 98;
}

static void terminated(int sig)
{
	(void)sig;
	_exit(STATUS);
}

/* A program that ends well by a signal, and by that alone. */
static int terminal(void)
{
	signal(SIGTERM, terminated);
	kill(getppid(), SIGTERM);
	sleep(60);
	return 99;
}

static int killed(void)
{
	if (echo(L5, ROUNDS) != STATUS)
		return 99;
	kill(getpid(), SIGKILL);
	return 98;
}

static int as_told(const char *how)
{
	static const struct {
		const char *name;
		int (*run)(void);
	} one[] = {
		{ "to_tcp", to_tcp }, { "lowat", lowat },
		{ "fallbacks", fallbacks }, { "polls", polls },
		{ "waits", waits }, { "looks", looks },
		{ "tree", tree }, { "daemonic", daemonic },
		{ "stranger", stranger }, { "many", many },
		{ "printed", printed }, { "terminal", terminal },
		{ "killed", killed }, { "at_once", at_once },
		{ "grows", grows },
	};
	size_t i;

	for (i = 0; i < sizeof(one) / sizeof(*one); i++)
		if (!strcmp(how, one[i].name))
			return one[i].run();
	if (!strcmp(how, "echo") || !strcmp(how, "unread"))
		return echo(L5, ROUNDS);
	return garbage(how);
}

__attribute__((constructor(65535))) static void child(void)
{
	const char *how = getenv("STATS_HOW");

	if (!how || !getenv(SHIM_AGAIN))
		return;
	alarm(150);
	_exit(as_told(how));
}

/* Running them */

enum { OUTPUT = 1 << 20 };

/* What the last one, and l5run, wrote */
static char out[OUTPUT], said[OUTPUT];

/*
 * Run l5run with these arguments, up to NULL. Those with a "=" that come before
 * any with a "-" are variables of its environment. Return: the status, as
 * waitpid() has it.
 */
static int l5run(const char *how, ...)
{
	int o = memfd_create("out", 0), e = memfd_create("err", 0), n = 0;
	int nobody[2];
	char self[PATH_MAX], path[PATH_MAX + 64];
	char *argv[16];
	int status = -1;
	ssize_t len;
	va_list ap;
	pid_t pid;
	char *s;

	len = readlink("/proc/self/exe", self, sizeof(self) - 1);
	self[len > 0 ? len : 0] = '\0';
	snprintf(path, sizeof(path), "%s", self);
	s = dirname(path);
	snprintf(path + strlen(s), sizeof(path) - strlen(s),
		 "/../../../userspace/bin/l5run");
	pid = fork();
	if (!pid) {
		unsetenv("LD_PRELOAD");
		setenv("STATS_HOW", how, 1);
		argv[n++] = "l5run";
		va_start(ap, how);
		while ((s = va_arg(ap, char *)) && n < 12) {
			if (*s == '-')
				argv[n++] = s;
			else
				putenv(s);
		}
		va_end(ap);
		argv[n++] = *how ? self : "/no/such/program";
		argv[n] = NULL;
		dup2(o, STDOUT_FILENO);
		dup2(e, STDERR_FILENO);
		if (!strcmp(how, "unread") && !pipe(nobody)) {
			close(nobody[0]);
			dup2(nobody[1], STDERR_FILENO);
		}
		execv(path, argv);
		_exit(95);
	}
	waitpid(pid, &status, 0);
	text_take(o, out, OUTPUT);
	text_take(e, said, OUTPUT);
	return status;
}

#define EXITED(n) W_EXITCODE(n, 0)

/* A line of the table, and what is in its last column */
struct row {
	int fd;
	uint64_t in, in_kernel, out, out_kernel, paid, vain, before;
	char what[256];
};

static uint64_t saved(const struct row *r)
{
	return r->in + r->out;
}

static uint64_t calls(const struct row *r)
{
	return saved(r) + r->in_kernel + r->out_kernel + r->before;
}

static bool parse(const char *line, struct row *r)
{
	int at = 0;

	memset(r, 0, sizeof(*r));
	if (!strncmp(line, "  others", 8)) {
		line += 8;
		r->fd = -1;
	} else if (sscanf(line, "%d%n", &r->fd, &at) != 1) {
		return false;
	}
	return sscanf(line + at, "%lu %lu %lu %lu %lu %lu %lu %255[^\n]",
		      &r->in, &r->in_kernel, &r->out, &r->out_kernel, &r->paid,
		      &r->vain, &r->before, r->what) == 8;
}

/* The @k-th row of a descriptor; -1 is the others. */
static bool row(int fd, int k, struct row *r)
{
	const char *s = said;

	for (; s; s = strchr(s, '\n'), s = s ? s + 1 : NULL)
		if (parse(s, r) && r->fd == fd && !k--)
			return true;
	return false;
}

/* All rows */
static struct row total(void)
{
	struct row sum = { 0 }, r;
	const char *s = said;

	for (; s; s = strchr(s, '\n'), s = s ? s + 1 : NULL)
		if (parse(s, &r)) {
			sum.in += r.in;
			sum.in_kernel += r.in_kernel;
			sum.out += r.out;
			sum.out_kernel += r.out_kernel;
			sum.before += r.before;
		}
	return sum;
}

/* The descriptors that the program said it had */
static bool ends(int *a, int *b)
{
	return sscanf(out, "%d %d\n", a, b) == 2;
}

#define STATS	"--stats", "L5_MAP_AFTER=4"

#define EXPECT_SAID(n, what)						\
	EXPECT_EQ((n), text_times(said, what))				\
		TH_LOG("of '%s' in: %s", (what), said)

SHIM_TEST(counts)
{
	struct row a, b, sum;
	char line[128];
	int fa, fb;

	ASSERT_EQ(EXITED(STATUS), l5run("echo", STATS, NULL))
		TH_LOG("%s", said);
	ASSERT_TRUE(ends(&fa, &fb)) TH_LOG("'%s'", out);
	ASSERT_TRUE(row(fa, 0, &a)) TH_LOG("%s", said);
	ASSERT_TRUE(row(fb, 0, &b)) TH_LOG("%s", said);
	/* each call is counted somewhere, and once */
	EXPECT_EQ(2 * ROUNDS, calls(&a)) TH_LOG("%s", said);
	EXPECT_EQ(2 * ROUNDS, calls(&b)) TH_LOG("%s", said);
	EXPECT_EQ(AFTER, a.before);
	EXPECT_EQ(AFTER, b.before);
	EXPECT_EQ(ROUNDS - AFTER / 2, a.in + a.in_kernel);
	EXPECT_EQ(ROUNDS - AFTER / 2, a.out + a.out_kernel);
	EXPECT_LE(ROUNDS, saved(&a));
	EXPECT_LE(ROUNDS, saved(&b));
	EXPECT_EQ(0, strncmp(a.what, "to 127.0.0.1:", 13));
	EXPECT_EQ(0, strncmp(b.what, "from 127.0.0.1:", 15));
	EXPECT_NE(NULL, strstr(a.what, ", closed, mapped: shared memory"));
	sum = total();
	snprintf(line, sizeof(line),
		 " stats, ended: %lu of %lu calls saved, 2 mapped\n",
		 saved(&sum), calls(&sum));
	EXPECT_SAID(1, line);
	EXPECT_SAID(1, "l5run: ");
	/* without it nothing is printed */
	EXPECT_EQ(EXITED(STATUS), l5run("echo", NULL));
	EXPECT_SAID(0, "\n");
}

SHIM_TEST(reasons)
{
	struct row r;
	int a, b;

	ASSERT_EQ(EXITED(STATUS), l5run("to_tcp", STATS, NULL));
	ASSERT_TRUE(ends(&a, &b));
	ASSERT_TRUE(row(a, 0, &r)) TH_LOG("%s", said);
	EXPECT_EQ(0, saved(&r));
	EXPECT_NE(NULL, strstr(r.what, ", not mapped: the peer is no AF_L5"))
		TH_LOG("%s", said);
	EXPECT_EQ(EXITED(STATUS), l5run("echo", STATS, "L5_TRANSPORT=base",
					NULL));
	EXPECT_SAID(2, ", not mapped: the option L5_FORCE asks for it\n");
	EXPECT_SAID(1, "  not mapped: 2 (the option L5_FORCE asks for it)\n");
	EXPECT_EQ(EXITED(STATUS), l5run("lowat", STATS, NULL));
	EXPECT_SAID(1, ", not mapped: SO_RCVLOWAT or O_ASYNC is set\n");
	EXPECT_SAID(1, ", mapped: shared memory");
	EXPECT_EQ(EXITED(STATUS), l5run("echo", STATS, "L5_MAPS=1", NULL));
	EXPECT_SAID(1, ", not mapped: as many others are as L5_MAPS says\n");
	EXPECT_EQ(EXITED(STATUS), l5run("echo", STATS,
					"L5_POLICY=mode socket", NULL));
	EXPECT_SAID(2, ", not mapped: the policy says so\n");
	EXPECT_EQ(EXITED(STATUS), l5run("echo", "--stats",
					"L5_MAP_AFTER=10000", NULL));
	EXPECT_SAID(2, ", closed, not mapped: closed before it was used");
	ASSERT_TRUE(ends(&a, &b));
	ASSERT_TRUE(row(a, 0, &r));
	EXPECT_EQ(2 * ROUNDS, r.before);
	/* there is no library that could count */
	EXPECT_EQ(EXITED(STATUS), l5run("echo", STATS, "--mode=socket", NULL));
	EXPECT_SAID(1, "l5run: nothing was counted");
	EXPECT_SAID(1, "\n");
}

SHIM_TEST(fallbacks)
{
	struct row r;
	int a, b;

	ASSERT_EQ(EXITED(STATUS), l5run("fallbacks", STATS, "-v", NULL))
		TH_LOG("%s", said);
	ASSERT_TRUE(ends(&a, &b));
	ASSERT_TRUE(row(a, 0, &r)) TH_LOG("%s", said);
	EXPECT_EQ(2 * ROUNDS + 3 + 5 + 7, calls(&r)) TH_LOG("%s", said);
	EXPECT_NE(NULL, strstr(r.what, " 3 flags")) TH_LOG("%s", said);
	EXPECT_NE(NULL, strstr(r.what, " 5 many messages at once"));
	EXPECT_NE(NULL, strstr(r.what, " 7 option SO_RCVLOWAT or O_ASYNC"));
	EXPECT_LE(3, r.in_kernel);
	EXPECT_LE(12, r.out_kernel);
	/* and each kind has one line */
	EXPECT_SAID(1, ": calls like this go to the kernel: flags\n");
	EXPECT_SAID(1, ": calls like this go to the kernel: many messages");
	EXPECT_SAID(1, ": calls like this go to the kernel: option SO_RCV");
	EXPECT_SAID(1, ": sockets are of AF_L5, mode full: as the program was");
	EXPECT_SAID(2, ": mapped, rings of ");
	EXPECT_SAID(2, " bytes in shared memory, after 4 calls\n");
	EXPECT_SAID(6, "l5: pid ");
	EXPECT_SAID(6, " stats: ");
}

/* A connection that is no longer mapped says so. */
SHIM_TEST(grown)
{
	struct row r;
	int a, b;

	ASSERT_TRUE(net_unshare());
	ASSERT_LE(0, l5_sysctl("grow_ms", 20));
	ASSERT_EQ(EXITED(STATUS), l5run("grows", STATS, "-v", NULL))
		TH_LOG("%s", said);
	ASSERT_TRUE(ends(&a, &b));
	ASSERT_TRUE(row(a, 0, &r)) TH_LOG("%s", said);
	EXPECT_NE(NULL, strstr(r.what, " 3 no longer mapped"))
		TH_LOG("%s", said);
	EXPECT_SAID(1, ": calls like this go to the kernel: no longer mapped");
}

SHIM_TEST(poll)
{
	unsigned long n, kernel;
	const char *s;

	ASSERT_EQ(EXITED(STATUS), l5run("polls", STATS, NULL));
	s = strstr(said, "  poll and the like: ");
	ASSERT_NE(NULL, s) TH_LOG("%s", said);
	ASSERT_EQ(2, sscanf(s, "  poll and the like: %lu saved, %lu in", &n,
			    &kernel));
	EXPECT_EQ(ROUNDS, n + kernel) TH_LOG("%s", said);
	EXPECT_LE(1, n);
}

SHIM_TEST(waits)
{
	struct row r;
	int a, b;

	ASSERT_EQ(EXITED(STATUS), l5run("waits", STATS, NULL));
	ASSERT_TRUE(ends(&a, &b));
	ASSERT_TRUE(row(b, 0, &r)) TH_LOG("%s", said);
	EXPECT_EQ(2 * ROUNDS + 1, calls(&r)) TH_LOG("%s", said);
	EXPECT_NE(NULL, strstr(r.what, "; to the kernel: 1 to wait"))
		TH_LOG("%s", said);
	EXPECT_EQ(0, r.paid);
	/* longer than the program takes, but on a machine that stands still */
	ASSERT_EQ(EXITED(STATUS), l5run("looks", STATS, "--spin=1000000",
					NULL));
	ASSERT_TRUE(ends(&a, &b));
	ASSERT_TRUE(row(b, 0, &r)) TH_LOG("%s", said);
	EXPECT_EQ(2 * ROUNDS + 1, calls(&r)) TH_LOG("%s", said);
	EXPECT_EQ(1, r.paid + r.vain) TH_LOG("%s", said);
	EXPECT_EQ(r.vain, r.in_kernel) TH_LOG("%s", said);
}

/* Each process has its part, and they add up. */
SHIM_TEST(tree)
{
	struct row sum;

	ASSERT_EQ(EXITED(STATUS), l5run("tree", STATS, NULL))
		TH_LOG("%s", said);
	EXPECT_SAID(3, " stats, ended: ");
	sum = total();
	EXPECT_EQ(2 * 2 * (ROUNDS + 2 * ROUNDS + ROUNDS), calls(&sum))
		TH_LOG("%s", said);
}

SHIM_TEST(daemon)
{
	struct row sum;

	if (geteuid())
		SKIP(return, "for root");
	ASSERT_EQ(EXITED(STATUS), l5run("daemonic", STATS, NULL))
		TH_LOG("%s", said);
	sum = total();
	EXPECT_EQ(2 * 2 * ROUNDS, calls(&sum)) TH_LOG("%s", said);
	/* a program that may not write there is not counted, and runs */
	EXPECT_EQ(EXITED(STATUS), l5run("stranger", STATS, NULL));
	EXPECT_SAID(1, "l5run: no process used");
}

SHIM_TEST(ends_of_the_program)
{
	struct row sum;
	int status;

	/* as if there was no l5run in between, and nothing is lost */
	status = l5run("killed", STATS, NULL);
	EXPECT_TRUE(WIFSIGNALED(status));
	EXPECT_EQ(SIGKILL, WTERMSIG(status));
	sum = total();
	EXPECT_EQ(2 * 2 * ROUNDS, calls(&sum)) TH_LOG("%s", said);
	/* what is sent to l5run is the program's */
	EXPECT_EQ(EXITED(STATUS), l5run("terminal", STATS, NULL));
	/* nor does it matter that the table is not read */
	EXPECT_EQ(EXITED(STATUS), l5run("unread", STATS, NULL));
	EXPECT_EQ(EXITED(127), l5run("", STATS, NULL));
	EXPECT_SAID(1, "/no/such/program");
	EXPECT_SAID(1, "\n");
	EXPECT_EQ(EXITED(125), l5run("echo", "--stats=x", NULL));
}

SHIM_TEST(live)
{
	/* at exit, too */
	ASSERT_EQ(EXITED(STATUS), l5run("printed", "--stats=1", NULL));
	EXPECT_LE(2, text_times(said, " calls saved, "));
}

/* However many there were, the table is short and complete. */
SHIM_TEST(many)
{
	struct row sum, others;

	ASSERT_EQ(EXITED(STATUS), l5run("many", STATS, NULL));
	sum = total();
	EXPECT_EQ(2 * 2 * 10 * MANY, calls(&sum));
	EXPECT_GE(20, text_times(said, "\n")) TH_LOG("%s", said);
	ASSERT_TRUE(row(-1, 0, &others));
	EXPECT_EQ(0, strncmp(others.what, "230 more", 8));
	ASSERT_EQ(EXITED(STATUS), l5run("at_once", STATS, NULL));
	sum = total();
	EXPECT_EQ(2 * 2 * 20 * OPEN, calls(&sum)) TH_LOG("%s", said);
	EXPECT_SAID(1, " calls saved, 100 mapped\n");
	ASSERT_TRUE(row(-1, 0, &others));
	EXPECT_EQ(0, strncmp(others.what, "90 more", 7));
}

SHIM_TEST(garbage)
{
	static const char *const sort[] = { "random", "two", "large", "none" };
	const unsigned char *s;
	size_t i;

	for (i = 0; i < sizeof(sort) / sizeof(*sort); i++) {
		ASSERT_EQ(EXITED(STATUS), l5run(sort[i], STATS, NULL))
			TH_LOG("%s", sort[i]);
		EXPECT_GT(256 << 10, strlen(said));
		EXPECT_LE(1, text_times(said, "\n"));
		for (s = (void *)said; *s; s++)
			if ((*s < ' ' && *s != '\n') || *s > '~')
				break;
		EXPECT_EQ(0, *s) TH_LOG("%s", sort[i]);
	}
	/* and a file that is not l5run's is left alone */
	EXPECT_EQ(EXITED(STATUS), l5run("echo", "L5_STATS=1 0", NULL));
	EXPECT_EQ(EXITED(STATUS), l5run("echo", "L5_STATS=gibberish", NULL));
	EXPECT_EQ(EXITED(STATUS), l5run("echo", "L5_STATS=1 99999999999",
					NULL));
}

TEST_HARNESS_MAIN
