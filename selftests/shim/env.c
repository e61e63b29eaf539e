// SPDX-License-Identifier: GPL-2.0
/*
 * L5_TRANSPORT and L5_RDMA_WAIT under the preload library and l5run. No RDMA is
 * needed: the tests ask for an option of the socket, and by the loopback
 * address there is no RDMA.
 */
#define SHIM	shim_env
#include "shim.h"

enum { WAIT_BAD = -100 };

/**
 * struct seen - what a child saw
 * @force: L5_FORCE of a new socket
 * @accepted: L5_FORCE of an accepted socket
 * @wait: L5_RDMA_WAIT of a new socket
 * @transport: of a connection, both ends
 * @listed: transport in /proc/net/l5 of each of its ends, or 0
 * @maps: ends that were mapped
 */
struct seen {
	int force;
	int accepted;
	int wait;
	int transport[2];
	int listed;
	int maps;
};

/* What /proc/net/l5 says of sockets with this port, if that is one thing. */
static int listed(int port)
{
	static const char *const name[] = { "none", "base", "shm", "rdma" };
	FILE *f = fopen("/proc/net/l5", "re");
	char line[512], end[16], *word, *rest;
	int found = 0, i, here;

	snprintf(end, sizeof(end), ":%d", port);
	while (f && fgets(line, sizeof(line), f)) {
		rest = line;
		here = 0;
		if (!strstr(line, end))
			continue;
		while ((word = strsep(&rest, " \t\n"))) {
			for (i = 1; i < 4; i++)
				if (!strcmp(word, name[i]))
					here = i;
		}
		if (!here)
			continue;
		found = found && found != here ? -1 : here;
	}
	if (f)
		fclose(f);
	return found;
}

static void look(struct seen *s)
{
	struct sockaddr_in sa;
	int l, a, b;

	if (!shim_listen(L5, &l, &sa))
		return;
	a = shim_socket(L5, 0);
	s->force = l5_getopt(a, L5_FORCE);
	s->wait = l5_getopt(a, L5_RDMA_WAIT);
	if (connect(a, (struct sockaddr *)&sa, sizeof(sa)))
		return;
	b = accept(l, NULL, NULL);
	if (b < 0 || !shim_warm(a, b))
		return;
	close(l);
	s->accepted = l5_getopt(b, L5_FORCE);
	s->transport[0] = l5_transport(a);
	s->transport[1] = l5_transport(b);
	s->listed = listed(ntohs(sa.sin_port));
	s->maps = shim_maps();
}

/* In a process of its own: the environment is read once. */
__attribute__((constructor(65535))) static void child(void)
{
	struct seen s = { .force = WAIT_BAD };

	if (!getenv("ENV_CHILD") || !getenv(SHIM_AGAIN))
		return;
	look(&s);
	_exit(write(3, &s, sizeof(s)) != sizeof(s));
}

/* Run ourselves with these variables, by l5run if there are arguments for it */
static struct seen with(const char *const *args, ...)
{
	struct seen s = { .force = WAIT_BAD };
	char self[PATH_MAX], run[PATH_MAX + 64];
	const char *argv[8] = { run };
	const char *name, *value;
	int p[2], status, i;
	va_list ap;
	pid_t pid;

	if (pipe(p))
		return s;
	pid = fork();
	if (!pid) {
		setenv("ENV_CHILD", "1", 1);
		unsetenv(SHIM_AGAIN);
		unsetenv("LD_PRELOAD");
		va_start(ap, args);
		while ((name = va_arg(ap, const char *))) {
			value = va_arg(ap, const char *);
			setenv(name, value, 1);
		}
		va_end(ap);
		if (p[1] != 3)
			dup2(p[1], 3);
		i = readlink("/proc/self/exe", self, sizeof(self) - 1);
		self[i < 0 ? 0 : i] = '\0';
		if (!args)
			execl(self, self, NULL);
		/* l5run preloads, and sets what it was told */
		setenv(SHIM_AGAIN, "1", 1);
		setenv("L5_MAP_AFTER", "4", 1);
		for (i = 0; args[i]; i++)
			argv[1 + i] = args[i];
		argv[1 + i] = strdup(self);
		snprintf(run, sizeof(run), "%s/../../../userspace/bin/l5run",
			 dirname(self));
		execv(run, (char **)argv);
		_exit(99);
	}
	close(p[1]);
	if (read(p[0], &s, sizeof(s)) != sizeof(s))
		s.force = WAIT_BAD;
	close(p[0]);
	waitpid(pid, &status, 0);
	/* how a child ended that said nothing */
	if (s.force == WAIT_BAD)
		s.maps = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	return s;
}

#define EXPECT_SEEN(s, want, how, mapped) do {				\
	EXPECT_EQ((want), (s).force);					\
	EXPECT_EQ((want), (s).accepted);				\
	EXPECT_EQ((how), (s).transport[0]);				\
	EXPECT_EQ((how), (s).transport[1]);				\
	EXPECT_EQ((how), (s).listed);					\
	EXPECT_EQ((mapped), (s).maps);					\
} while (0)

SHIM_TEST(transport)
{
	struct seen s;

	s = with(NULL, "L5_TRANSPORT", "base", NULL);
	EXPECT_SEEN(s, L5_TRANSPORT_BASE, L5_TRANSPORT_BASE, 0);
	s = with(NULL, "L5_TRANSPORT", "shm", NULL);
	EXPECT_SEEN(s, L5_TRANSPORT_SHM, L5_TRANSPORT_SHM, 2);
	s = with(NULL, "L5_TRANSPORT", "rdma", NULL);
	EXPECT_SEEN(s, L5_TRANSPORT_RDMA, L5_TRANSPORT_BASE, 0);
	s = with(NULL, NULL);
	EXPECT_SEEN(s, L5_TRANSPORT_NONE, L5_TRANSPORT_SHM, 2);
	EXPECT_EQ(0, s.wait);
}

/* A value that is not understood is left out. */
SHIM_TEST(bad)
{
	static const char *const bad[] = {
		"", "x", "SHM", "shm ", "shm,rdma", "none", "2", "basebase",
	};
	struct seen s;
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		s = with(NULL, "L5_TRANSPORT", bad[i], "L5_RDMA_WAIT",
			 i % 2 ? "60001" : "1s", NULL);
		EXPECT_SEEN(s, L5_TRANSPORT_NONE, L5_TRANSPORT_SHM, 2);
		EXPECT_EQ(0, s.wait);
	}
}

SHIM_TEST(wait)
{
	EXPECT_EQ(0, with(NULL, "L5_RDMA_WAIT", "0", NULL).wait);
	EXPECT_EQ(250, with(NULL, "L5_RDMA_WAIT", "250", NULL).wait);
	EXPECT_EQ(60000, with(NULL, "L5_RDMA_WAIT", "60000", NULL).wait);
	EXPECT_EQ(0, with(NULL, "L5_RDMA_WAIT", "-1", NULL).wait);
	EXPECT_EQ(0, with(NULL, "L5_RDMA_WAIT", "99999999999999", NULL).wait);
}

/* A rule that turns a place off is stronger. */
SHIM_TEST(policy)
{
	struct seen s = with(NULL, "L5_TRANSPORT", "shm", "L5_POLICY",
			     "address 127.0.0.0/8 off", NULL);

	EXPECT_EQ(L5_TRANSPORT_SHM, s.force);
	EXPECT_EQ(L5_TRANSPORT_BASE, s.accepted);
	EXPECT_EQ(L5_TRANSPORT_BASE, s.listed);
}

#define RUN(...) ((const char *const[]){ __VA_ARGS__, NULL })

SHIM_TEST(l5run)
{
	struct seen s;

	s = with(RUN("--transport=base", "--rdma-wait=7"), NULL);
	EXPECT_SEEN(s, L5_TRANSPORT_BASE, L5_TRANSPORT_BASE, 0);
	EXPECT_EQ(7, s.wait);
	/* the option, and not what was set before */
	s = with(RUN("--transport=shm"), "L5_TRANSPORT", "base",
		 "L5_RDMA_WAIT", "9", NULL);
	EXPECT_SEEN(s, L5_TRANSPORT_SHM, L5_TRANSPORT_SHM, 2);
	EXPECT_EQ(9, s.wait);
	s = with(RUN("--mode=socket", "--transport=base"), NULL);
	EXPECT_SEEN(s, L5_TRANSPORT_BASE, L5_TRANSPORT_BASE, 0);
	/* and l5run refuses what it does not understand */
	EXPECT_EQ(125, with(RUN("--transport=tcp"), NULL).maps);
	EXPECT_EQ(125, with(RUN("--transport="), NULL).maps);
	EXPECT_EQ(125, with(RUN("--rdma-wait=60001"), NULL).maps);
	EXPECT_EQ(125, with(RUN("--rdma-wait=x"), NULL).maps);
	EXPECT_EQ(125, with(RUN("-v"), "L5_TRANSPORT", "tcp", NULL).maps);
	EXPECT_EQ(125, with(RUN("-v"), "L5_RDMA_WAIT", "x", NULL).maps);
}

TEST_HARNESS_MAIN
