// SPDX-License-Identifier: GPL-2.0
/* The sockets that the preload library redirects and maps, as rules say. */
#define SHIM	shim_policy
#include "shim.h"

#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "text.h"

/* What came of a connection: the low bits its transport, then its maps. */
enum { MAPS = 16 };

static char *const again[] = { "policy", NULL };

static bool asked(const char *what)
{
	const char *s = getenv("POLICY_HOW");

	return s && !strcmp(s, what);
}

static int used(int a, int b)
{
	int ret;

	if (!shim_warm(a, b))
		return 98;
	ret = l5_transport(a);
	if (ret < 0)
		ret = 9;
	return ret + MAPS * shim_maps();
}

/* Where standard error leads to no reader */
static int unread(int a, int b)
{
	int p[2];

	if (pipe(p))
		return 94;
	close(p[0]);
	dup2(p[1], STDERR_FILENO);
	return used(a, b);
}

/* As inetd starts a service: the connection is all that it has. */
static int served(int a, int b)
{
	int ret, fd;
	char c;

	for (fd = 0; fd < 3; fd++)
		dup2(a, fd);
	ret = used(a, b);
	return recv(b, &c, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN ? ret : 95;
}

/* Used by another process than the one that made it */
static int passed_on(int a, int b)
{
	char text[32];
	int ret;
	pid_t pid;

	if (asked("unread"))
		return unread(a, b);
	if (asked("inetd"))
		return served(a, b);
	if (asked("dup"))
		return used(dup(a), dup(b));
	if (asked("exec")) {
		snprintf(text, sizeof(text), "%d %d", a, b);
		setenv("POLICY_FDS", text, 1);
		execv("/proc/self/exe", again);
		return 96;
	}
	ret = used(a, b);
	if (asked("fork")) {
		pid = fork();
		if (!pid)
			_exit(used(a, b));
		waitpid(pid, &ret, 0);
		ret = WEXITSTATUS(ret);
	}
	return ret;
}

static int connection(int port)
{
	struct sockaddr_in sa = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
		.sin_port = htons(port),
	}, any = sa, from = sa;
	const char *source = getenv("POLICY_SOURCE");
	int l, a, b, one = 1, two = 2, ret;

	if (asked("any"))
		any.sin_addr.s_addr = htonl(INADDR_ANY);
	l = shim_socket(asked("plain server") ? TCP : L5, 0);
	setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	a = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(a, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (source) {
		from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
		from.sin_port = htons(atoi(source));
		if (bind(a, (struct sockaddr *)&from, sizeof(from)))
			return 97;
	}
	if (bind(l, (struct sockaddr *)&any, sizeof(any)) || listen(l, 8))
		return 99;
	/* as a program connects that has no such rules */
	if (asked("any") ? syscall(SYS_connect, a, &sa, sizeof(sa)) :
			   connect(a, (struct sockaddr *)&sa, sizeof(sa)))
		return 99;
	b = accept(l, NULL, NULL);
	if (b < 0)
		return 98;
	if (asked("lowat"))
		setsockopt(a, SOL_SOCKET, SO_RCVLOWAT, &two, sizeof(two));
	ret = passed_on(a, b);
	close(a);
	close(b);
	return ret;
}

/* In a process of its own, since rules are read at its start. */
__attribute__((constructor(65535))) static void child(void)
{
	const char *port = getenv("POLICY_CHILD"), *fds = getenv("POLICY_FDS");
	int a, b;

	if (!port || !getenv(SHIM_AGAIN))
		return;
	if (fds && sscanf(fds, "%d %d", &a, &b) == 2)
		_exit(used(a, b));
	_exit(connection(atoi(port)));
}

/* What the last one wrote to stderr */
static char said[8192];

/* The exit status of a connection to @port with these variables. */
static int with(int port, ...)
{
	int status = -1, err = memfd_create("stderr", 0);
	char text[16];
	const char *name;
	va_list ap;
	pid_t pid;
	ssize_t n;

	pid = fork();
	if (!pid) {
		snprintf(text, sizeof(text), "%d", port);
		setenv("POLICY_CHILD", text, 1);
		unsetenv(SHIM_AGAIN);
		unsetenv("LD_PRELOAD");
		va_start(ap, port);
		while ((name = va_arg(ap, const char *)))
			setenv(name, va_arg(ap, const char *), 1);
		va_end(ap);
		dup2(err, STDERR_FILENO);
		execv("/proc/self/exe", again);
		_exit(97);
	}
	waitpid(pid, &status, 0);
	n = pread(err, said, sizeof(said) - 1, 0);
	said[n > 0 ? n : 0] = '\0';
	close(err);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

enum {
	PLAIN = 9,			/* no AF_L5 socket at all */
	BASE = L5_TRANSPORT_BASE,
	SHM = L5_TRANSPORT_SHM,
	MAPPED = L5_TRANSPORT_SHM + 2 * MAPS,
};

#define RULES(port, rules) with(port, "L5_POLICY", (rules), NULL)

SHIM_TEST(rules)
{
	ASSERT_EQ(MAPPED, RULES(7701, ""));
	ASSERT_EQ(BASE, RULES(7702, "port 7702 off"));
	ASSERT_EQ(MAPPED, RULES(7703, "port 7702 off"));
	ASSERT_EQ(BASE, RULES(7704, "port 7700-7704 off"));
	ASSERT_EQ(SHM, RULES(7705, "port 7705 mode socket"));
	ASSERT_EQ(BASE, RULES(7706, "address 127.0.0.0/8 off"));
	ASSERT_EQ(MAPPED, RULES(7707, "address 10.0.0.0/8 off"));
	ASSERT_EQ(BASE, RULES(7708, "address ::ffff:127.0.0.1 off"));
	ASSERT_EQ(MAPPED, RULES(7709, "address ::1 off"));
	ASSERT_EQ(PLAIN, RULES(7710, "program policy off"));
	ASSERT_EQ(PLAIN, RULES(7711, "program */build/shim/* off"));
	ASSERT_EQ(MAPPED, RULES(7712, "program other off"));
	ASSERT_EQ(SHM, RULES(7713, "program policy mode socket"));
	/* the first that matches */
	ASSERT_EQ(MAPPED, RULES(7714, "port 7714 on;program policy off"));
	ASSERT_EQ(BASE, RULES(7715, "port 7714 on;program policy off"));
	ASSERT_EQ(BASE, RULES(7716, "program p* port 7716 off;port 7716 on"));
	/* bad ones are none */
	ASSERT_EQ(MAPPED, RULES(7717, "port x off; address off; gibberish"));
}

/* Rules are about the service: the client is of no account. */
#define FROM(port, how, rules)						\
	with(port, "POLICY_SOURCE", "7750", "POLICY_HOW", (how),	\
	     "L5_POLICY", (rules), NULL)

SHIM_TEST(side)
{
	static const char *const how[] = { "", "dup", "fork" };
	size_t i;

	for (i = 0; i < sizeof(how) / sizeof(*how); i++) {
		EXPECT_EQ(MAPPED, FROM(7751, how[i], "port 7750 off"));
		EXPECT_EQ(MAPPED, FROM(7751, how[i], "port 7750 mode socket"));
		EXPECT_EQ(SHM, FROM(7751, how[i], "port 7751 mode socket"));
		EXPECT_EQ(MAPPED, FROM(7751, how[i],
				       "address 127.0.0.2 mode socket"));
		EXPECT_EQ(SHM, FROM(7751, how[i],
				    "address 127.0.0.1 mode socket"));
	}
	/* a process that inherited them does not know which end connected */
	EXPECT_EQ(SHM, FROM(7752, "exec", "port 7750 mode socket"));
	EXPECT_EQ(SHM, FROM(7752, "exec", "port 7752 mode socket"));
	EXPECT_EQ(MAPPED, FROM(7752, "exec", "port 7753 mode socket"));
}

#define ANY(port, rules)						\
	with(port, "POLICY_HOW", "any", "L5_POLICY", (rules), NULL)

/* A listener at all addresses, and a client that connects as it comes. */
SHIM_TEST(any_address)
{
	EXPECT_EQ(MAPPED, ANY(7755, "address 10.0.0.0/8 off"));
	/* what it accepts has an address, but is on rings by then */
	EXPECT_EQ(SHM, ANY(7756, "address 127.0.0.0/8 off"));
	EXPECT_EQ(SHM, ANY(7757, "address 127.0.0.1 mode socket"));
	/* a port it has from the start */
	EXPECT_EQ(BASE, ANY(7758, "port 7758 off"));
	EXPECT_EQ(BASE, ANY(7759, "address 0.0.0.0 off"));
}

#define DEBUG(port, ...) with(port, "L5_DEBUG", "1", __VA_ARGS__, NULL)

#define EXPECT_SAID(n, what)						\
	EXPECT_EQ((n), text_times(said, what))				\
		TH_LOG("of '%s' in: %s", (what), said)

/* Each socket has its line, and one; before them how they are used has. */
SHIM_TEST(says)
{
	EXPECT_EQ(MAPPED, with(7740, NULL));
	EXPECT_SAID(0, "\n");
	EXPECT_EQ(MAPPED, DEBUG(7740, "L5_POLICY", ""));
	EXPECT_SAID(2, ": mapped, rings of ");
	EXPECT_SAID(2, " bytes in shared memory, after 4 calls\n");
	EXPECT_SAID(1, " to 127.0.0.1:7740: mapped");
	EXPECT_SAID(1, " from 127.0.0.1:");
	EXPECT_SAID(1, ": sockets are of AF_L5, mode full: as the program was");
	EXPECT_SAID(3, "\n");
	EXPECT_SAID(3, "l5: pid ");
	EXPECT_SAID(3, " policy: ");
	EXPECT_EQ(SHM, DEBUG(7741, "L5_POLICY", "mode socket"));
	EXPECT_SAID(1, ": sockets are of AF_L5, mode socket: the policy says");
	EXPECT_SAID(2, ": not mapped: the policy says so\n");
	EXPECT_SAID(3, "\n");
	EXPECT_EQ(SHM, DEBUG(7742, "L5_POLICY", "port 7742 mode socket"));
	EXPECT_SAID(2, ": not mapped: the policy says so\n");
	EXPECT_SAID(3, "\n");
	/* all of it off: once a process */
	EXPECT_EQ(PLAIN, DEBUG(7743, "L5_POLICY", "off"));
	EXPECT_SAID(1, "no AF_L5 socket (the policy says so): plain");
	EXPECT_SAID(1, "\n");
	/* a place: the listener, the client, the accepted socket */
	EXPECT_EQ(BASE, DEBUG(7744, "L5_POLICY", "port 7744 off"));
	EXPECT_SAID(2, ": off: the policy says so\n");
	EXPECT_SAID(1, ": not mapped: the option L5_FORCE asks for it\n");
	EXPECT_SAID(4, "\n");
	EXPECT_EQ(BASE, DEBUG(7745, "POLICY_HOW", "plain server"));
	EXPECT_SAID(1, ": not mapped: the peer is no AF_L5 socket here\n");
	EXPECT_SAID(2, "\n");
	EXPECT_EQ(SHM + MAPS, DEBUG(7746, "POLICY_HOW", "lowat"));
	EXPECT_SAID(1, ": not mapped: SO_RCVLOWAT or O_ASYNC is set\n");
	EXPECT_SAID(1, ": mapped, rings of ");
	EXPECT_SAID(3, "\n");
	EXPECT_EQ(SHM + MAPS, DEBUG(7747, "L5_MAPS", "1"));
	EXPECT_SAID(1, ": not mapped: 1 others are\n");
	EXPECT_SAID(1, ": mapped, rings of ");
	EXPECT_SAID(3, "\n");
	EXPECT_EQ(SHM, DEBUG(7748, "L5_MAP_AFTER", "1000"));
	EXPECT_SAID(2, ": not mapped: closed after 32 calls\n");
	EXPECT_SAID(3, "\n");
	EXPECT_EQ(MAPPED, DEBUG(7749, "L5_POLICY",
				"port x off;port 1 on;;gibberish # off"));
	EXPECT_SAID(1, "L5_POLICY:1: left out: not a port or a range\n");
	EXPECT_SAID(1, "L5_POLICY:4: left out: expected program, port");
	EXPECT_SAID(2, "left out");
	EXPECT_EQ(MAPPED, DEBUG(7749, "L5_CONF", "/no/such/file"));
	EXPECT_SAID(1, "/no/such/file: left out: ENOENT\n");
}

/* Standard error may be the connection of a service: then it gets nothing. */
SHIM_TEST(says_nothing_to_the_peer)
{
	EXPECT_EQ(MAPPED, DEBUG(7790, "POLICY_HOW", "inetd"));
}

/* Nor is a program ended by a line that is not read. */
SHIM_TEST(says_it_to_nobody)
{
	EXPECT_EQ(MAPPED, DEBUG(7791, "POLICY_HOW", "unread"));
}

SHIM_TEST(variables)
{
	ASSERT_EQ(SHM, with(7720, "L5_POLICY", "mode socket", NULL));
	ASSERT_EQ(SHM, with(7721, "L5_MAPS", "0", NULL));
	ASSERT_EQ(SHM, with(7722, "L5_MAP_AFTER", "1000", NULL));
	ASSERT_EQ(MAPPED, with(7723, "L5_MAP_AFTER", "0", NULL));
	ASSERT_EQ(PLAIN, with(7724, "L5_POLICY", "off", NULL));
}

SHIM_TEST(file)
{
	char path[] = "/tmp/l5confXXXXXX";
	int fd = mkstemp(path);
	static const char text[] =
		"# a comment\n\n  port 7730   off # another\nport 7731 on\noff";

	ASSERT_LE(0, fd);
	ASSERT_EQ((ssize_t)sizeof(text) - 1,
		  write(fd, text, sizeof(text) - 1));
	ASSERT_EQ(BASE, with(7730, "L5_CONF", path, NULL));
	ASSERT_EQ(MAPPED, with(7731, "L5_CONF", path, NULL));
	ASSERT_EQ(BASE, with(7732, "L5_CONF", path, NULL));
	/* what the environment says comes first */
	ASSERT_EQ(MAPPED, with(7733, "L5_CONF", path, "L5_POLICY",
			       "port 7733 on", NULL));
	unlink(path);
}

/* @n times a rule, then another */
static char *many(int n, const char *rule, const char *last)
{
	static char text[8192];
	char *end = text;

	while (n--)
		end = stpcpy(end, rule);
	strcpy(end, last);
	return text;
}

/* Where there are more rules than are kept, the rest is off. */
SHIM_TEST(too_many)
{
	EXPECT_EQ(MAPPED, RULES(7760, many(63, "port 1 on;",
					   "port 7760 on;off")));
	EXPECT_EQ(BASE, RULES(7761, many(63, "port 1 on;",
					 "port 7760 on;off")));
	EXPECT_EQ(MAPPED, RULES(7762, many(64, "port 1 on;", "on")));
	EXPECT_EQ(BASE, DEBUG(7763, "L5_POLICY",
			      many(64, "port 1 on;", "port 7764 off;off")));
	EXPECT_SAID(1, "L5_POLICY:65: too many rules: the rest is off\n");
	EXPECT_EQ(BASE, RULES(7764, many(64, "port 1 on;", "port 7764 on")));
	EXPECT_EQ(MAPPED, RULES(7765, many(70, "program other port 1 off;",
					   "port 7765 on;off")));
	EXPECT_EQ(PLAIN, RULES(7766, many(65, "port 1 off;", "on")));
}

/* A file that begins and ends so and is as long as that */
static bool put_file(const char *path, const char *first, const char *last,
		     size_t size)
{
	size_t have = strlen(first) + strlen(last);
	FILE *f = fopen(path, "we");

	if (!f)
		return false;
	fputs(first, f);
	for (; have < size; have++)
		fputc(size - have == 1 || have % 60 == 59 ? '\n' : '#', f);
	fputs(last, f);
	return !fclose(f);
}

SHIM_TEST(too_long)
{
	char path[] = "/tmp/l5confXXXXXX";

	ASSERT_LE(0, mkstemp(path));
	/* all of it counts */
	ASSERT_TRUE(put_file(path, "", "port 7770 mode socket\n", 65536));
	EXPECT_EQ(SHM, with(7770, "L5_CONF", path, NULL));
	EXPECT_EQ(MAPPED, with(7771, "L5_CONF", path, NULL));
	/* the last line is cut off */
	ASSERT_TRUE(put_file(path, "port 7772 on\n", "on # and more", 65540));
	EXPECT_EQ(MAPPED, with(7772, "L5_CONF", path, NULL));
	EXPECT_EQ(BASE, DEBUG(7773, "L5_CONF", path));
	EXPECT_SAID(1, ": too long: the rest is off\n");
	ASSERT_TRUE(put_file(path, "", "off", 100000));
	EXPECT_EQ(PLAIN, with(7774, "L5_CONF", path, NULL));
	/* what comes before that decides */
	ASSERT_TRUE(put_file(path, "on\n", "off", 100000));
	EXPECT_EQ(MAPPED, with(7775, "L5_CONF", path, NULL));
	unlink(path);
	/* a directory */
	EXPECT_EQ(PLAIN, DEBUG(7776, "L5_CONF", "/tmp"));
	EXPECT_SAID(1, "/tmp:1: cannot be read: the rest is off\n");
}

#define AT_HOME(port, home) with(port, "L5_CONF", "", "HOME", (home), NULL)

SHIM_TEST(usual_files)
{
	char home[] = "/tmp/l5homeXXXXXX", dir[32], path[64];
	static const char etc[] = "/etc/l5.conf";

	ASSERT_NE(NULL, mkdtemp(home));
	snprintf(dir, sizeof(dir), "%s/.config", home);
	snprintf(path, sizeof(path), "%s/l5.conf", dir);
	ASSERT_EQ(0, mkdir(dir, 0700));
	ASSERT_TRUE(put_file(path, "port 7780 on\nport 7781 off\nmode socket\n",
			     "", 0));
	EXPECT_EQ(MAPPED, AT_HOME(7780, home));
	EXPECT_EQ(BASE, AT_HOME(7781, home));
	EXPECT_EQ(SHM, AT_HOME(7782, home));
	/* the file that is named comes instead, L5_POLICY before it */
	EXPECT_EQ(MAPPED, with(7782, "HOME", home, NULL));
	EXPECT_EQ(MAPPED, with(7781, "L5_CONF", "", "HOME", home,
			       "L5_POLICY", "port 7781 on", NULL));
	/* what is in /etc is this machine's, if that is not a throw-away */
	if (getenv("L5_KERNEL") && access(etc, F_OK)) {
		ASSERT_TRUE(put_file(etc, "port 7780-7784 off\noff\n", "", 0));
		EXPECT_EQ(MAPPED, AT_HOME(7780, home));
		EXPECT_EQ(SHM, AT_HOME(7782, home));
		ASSERT_TRUE(put_file(path, "port 7783 on\n", "", 0));
		EXPECT_EQ(MAPPED, AT_HOME(7783, home));
		EXPECT_EQ(BASE, AT_HOME(7784, home));
		EXPECT_EQ(PLAIN, AT_HOME(7784, "/no/such/home"));
		EXPECT_EQ(PLAIN, AT_HOME(7784, ""));
		EXPECT_EQ(MAPPED, with(7784, "HOME", home, NULL));
		unlink(etc);
	}
	unlink(path);
	rmdir(dir);
	rmdir(home);
}

TEST_HARNESS_MAIN
