// SPDX-License-Identifier: GPL-2.0
/*
 * A program of its own, linked statically: each call of socket() is one that no
 * library sees. Its arguments are what it does, one after the other, and it
 * says on stdout what became of it; see ../shim/alone.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "l5.h"

enum { GOOD = 42, THREADS = 4, STORM = 200, GROUPS = 70 };

static void need(int ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(1);
}

static int is_l5(int fd)
{
	int transport;
	socklen_t len = sizeof(transport);

	return !getsockopt(fd, SOL_L5, L5_TRANSPORT, &transport, &len);
}

static const char *what_is(int fd)
{
	return fd < 0 ? strerrorname_np(errno) : is_l5(fd) ? "l5" : "plain";
}

/* One socket: what it is, and what of it the kernel says */
static void one(int af, int type, int protocol)
{
	int fd = socket(af, type, protocol);
	const char *is = what_is(fd);

	printf("%s%s%s\n", is,
	       fd >= 0 && fcntl(fd, F_GETFD) & FD_CLOEXEC ? " cloexec" : "",
	       fd >= 0 && fcntl(fd, F_GETFL) & O_NONBLOCK ? " nonblock" : "");
	if (fd >= 0)
		close(fd);
}

/* As glibc does not see it: the upper halves say nothing. */
static void wide(void)
{
	int fd = syscall(SYS_socket, AF_INET | 1ul << 40,
			 SOCK_STREAM | 1ul << 40, 1ul << 40);

	puts(what_is(fd));
	close(fd);
}

static void all_kinds(void)
{
	one(AF_INET, SOCK_STREAM, 0);
	one(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP);
	one(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK, 0);
	one(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 262);
	wide();
	one(AF_INET, SOCK_DGRAM, 0);
	one(AF_INET, SOCK_STREAM, IPPROTO_UDP);
	one(AF_INET, SOCK_STREAM | 0x40, 0);
	one(AF_UNIX, SOCK_STREAM, 0);
	one(AF_UNIX, SOCK_SEQPACKET, 0);
	one(AF_NETLINK, SOCK_RAW, 0);
	one(-1, SOCK_STREAM, 0);
}

static void owner(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	struct stat st;

	need(fd >= 0 && !fstat(fd, &st), "fstat");
	printf("%s %d %d\n", what_is(fd), (int)st.st_uid, (int)st.st_gid);
	close(fd);
}

static void filter(void)
{
	struct sock_filter f[] = { BPF_STMT(BPF_RET, SECCOMP_RET_ALLOW) };
	struct sock_fprog prog = { 1, f };

	need(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	     !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog), "seccomp");
}

static void user(int id, int n)
{
	gid_t groups[GROUPS];
	int i;

	for (i = 0; i < n; i++)
		groups[i] = 1000 + i;
	need(!setgroups(n, groups) && !setresgid(id + 1, id + 1, id + 1) &&
	     !setresuid(id, id, id), "setresuid");
	/* that has made the process one that nobody may look at */
	need(!prctl(PR_SET_DUMPABLE, 1), "dumpable");
}

static void into_cgroup(const char *path)
{
	FILE *f = fopen(path, "w");

	need(f && fprintf(f, "%d", getpid()) > 0 && !fclose(f), path);
}

static void few_files(void)
{
	const struct rlimit few = { 3, 3 };

	need(!setrlimit(RLIMIT_NOFILE, &few), "RLIMIT_NOFILE");
}

/* What the supervisor keeps open of /proc it lets go of. */
static void unmount(void)
{
	int i;

	for (i = 0; i < 30000 && umount("/proc"); i++) {
		need(errno == EBUSY, "umount");
		usleep(1000);
	}
	need(i < 30000, "busy");
}

/* How many descriptors are open? */
static int files(void)
{
	int i, n = 0;

	for (i = 0; i < 1024; i++)
		n += fcntl(i, F_GETFD) >= 0;
	return n;
}

static volatile int calm;

static void *storm_thread(void *arg)
{
	long i;
	int fd;

	for (i = 0; i < STORM; i++) {
		fd = socket(AF_INET, SOCK_STREAM, 0);
		if (fd < 0)
			return (void *)(long)errno;
		/*
		 * A worker that is killed has the call go on; and if it was
		 * handing over the socket the kernel returns 0, without one.
		 */
		if (!arg && !fd)
			continue;
		if (arg && !is_l5(fd))
			return (void *)-1;
		close(fd);
	}
	return NULL;
}

static void nothing(int sig)
{
	(void)sig;
}

/*
 * Signals go to all threads all the time, as Go's do, and as there their
 * handler lets calls go on: one that is still to be taken would end.
 */
static void *signals_thread(void *arg)
{
	const struct timespec t = { 0, 200000 };
	pthread_t *threads = arg;
	int i;

	while (!calm) {
		for (i = 0; i < THREADS; i++)
			pthread_kill(threads[i], SIGURG);
		nanosleep(&t, NULL);
	}
	return NULL;
}

static void storm(int all_l5)
{
	struct sigaction sa = { .sa_handler = nothing,
				.sa_flags = SA_RESTART };
	pthread_t threads[THREADS], signals;
	int before = files(), i;
	void *ret;

	sigaction(SIGURG, &sa, NULL);
	for (i = 0; i < THREADS; i++)
		need(!pthread_create(&threads[i], NULL, storm_thread,
				     all_l5 ? "" : NULL), "thread");
	need(!pthread_create(&signals, NULL, signals_thread, threads),
	     "thread");
	for (i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &ret);
		if (ret)
			printf("thread: %ld\n", (long)ret);
		/* the number of a thread that has ended is not to be used */
		calm = 1;
		if (!i)
			pthread_join(signals, NULL);
	}
	printf("storm: %d left\n", files() - before);
}

static void child(char **argv);

/* Do one thing. Returns how many arguments it took beside its name. */
static int act(char **argv)
{
	const char *what = argv[0];
	int taken = 0;

	if (!strcmp(what, "kinds"))
		all_kinds();
	else if (!strcmp(what, "one"))
		one(AF_INET, SOCK_STREAM, 0);
	else if (!strcmp(what, "unix"))
		one(AF_UNIX, SOCK_STREAM, 0);
	else if (!strcmp(what, "owner"))
		owner();
	else if (!strcmp(what, "filter"))
		filter();
	else if (!strcmp(what, "user"))
		user(1000, 1);
	else if (!strcmp(what, "groups"))
		user(1000, GROUPS);
	else if (!strcmp(what, "hidden"))
		need(!prctl(PR_SET_DUMPABLE, 0), "dumpable");
	else if (!strcmp(what, "net"))
		need(!unshare(CLONE_NEWNET), "unshare");
	else if (!strcmp(what, "userns"))
		need(!unshare(CLONE_NEWUSER), "unshare");
	else if (!strcmp(what, "few"))
		few_files();
	else if (!strcmp(what, "storm"))
		storm(1);
	else if (!strcmp(what, "gale"))
		storm(0);
	else if (!strcmp(what, "umount"))
		unmount();
	else if (!strcmp(what, "nnp"))
		printf("nnp %d\n", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
	else if (!strcmp(what, "wait"))
		need(getchar() != EOF, "stdin");
	else if (!strcmp(what, "hush"))
		need(!fclose(stdout), "stdout");
	else if (!strcmp(what, "fork"))
		child(argv + 1);
	else if (!strcmp(what, "cgroup"))
		into_cgroup(argv[taken = 1]);
	else
		need(0, what);
	return taken;
}

static void act_all(char **argv)
{
	for (; *argv; argv++) {
		argv += act(argv);
		fflush(stdout);
	}
}

/* The rest is for a child. */
static void child(char **argv)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	need(pid >= 0, "fork");
	if (!pid) {
		act_all(argv);
		exit(GOOD);
	}
	need(waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
	     WEXITSTATUS(status) == GOOD, "child");
	exit(GOOD);
}

int main(int argc, char **argv)
{
	(void)argc;
	act_all(argv + 1);
	return GOOD;
}
