// SPDX-License-Identifier: GPL-2.0
/* Which sockets the preload library redirects and maps, as rules say. */
#include "shim.h"

#include <spawn.h>

/* What came of a connection: the low bits its transport, then its maps. */
enum { MAPS = 16 };

static int connection(int port)
{
	struct sockaddr_in sa = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
		.sin_port = htons(port),
	};
	int l, a, b, one = 1, ret;

	l = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	a = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(l, (struct sockaddr *)&sa, sizeof(sa)) || listen(l, 8) ||
	    connect(a, (struct sockaddr *)&sa, sizeof(sa)))
		return 99;
	b = accept(l, NULL, NULL);
	if (b < 0 || !shim_warm(a, b))
		return 98;
	ret = l5_transport(a);
	if (ret < 0)
		ret = 9;
	return ret + MAPS * shim_maps();
}

/* In a process of its own, since rules are read at its start. */
__attribute__((constructor(65535))) static void child(void)
{
	const char *port = getenv("POLICY_CHILD");

	if (port && getenv(SHIM_AGAIN))
		_exit(connection(atoi(port)));
}

/* The exit status of a connection to @port with these variables. */
static int with(int port, ...)
{
	static char *const self[] = { "shim_policy", NULL };
	char text[16];
	const char *name;
	int status = -1;
	va_list ap;
	pid_t pid;

	pid = fork();
	if (!pid) {
		snprintf(text, sizeof(text), "%d", port);
		setenv("POLICY_CHILD", text, 1);
		unsetenv(SHIM_AGAIN);
		va_start(ap, port);
		while ((name = va_arg(ap, const char *)))
			setenv(name, va_arg(ap, const char *), 1);
		va_end(ap);
		execv("/proc/self/exe", self);
		_exit(97);
	}
	waitpid(pid, &status, 0);
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
	ASSERT_EQ(PLAIN, RULES(7710, "program shim_policy off"));
	ASSERT_EQ(PLAIN, RULES(7711, "program */build/shim_* off"));
	ASSERT_EQ(MAPPED, RULES(7712, "program other off"));
	ASSERT_EQ(SHM, RULES(7713, "program shim_policy mode socket"));
	/* the first that matches */
	ASSERT_EQ(MAPPED, RULES(7714, "port 7714 on;program shim_policy off"));
	ASSERT_EQ(BASE, RULES(7715, "port 7714 on;program shim_policy off"));
	ASSERT_EQ(BASE, RULES(7716, "program s* port 7716 off;port 7716 on"));
	/* bad ones are none */
	ASSERT_EQ(MAPPED, RULES(7717, "port x off; address off; gibberish"));
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

TEST_HARNESS_MAIN
