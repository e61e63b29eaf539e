// SPDX-License-Identifier: GPL-2.0
/*
 * The supervisor of l5run --static: see supervise.h.
 *
 * It is two processes. The worker answers; the keeper holds the listener of the
 * filter as well, and makes another worker if that one dies. For without a
 * listener every call that the filter hands over would fail, and a call that a
 * worker took and did not answer would hang. What the worker has taken lies in
 * memory of both, where the kernel itself writes it, so that the next worker
 * lets it go on.
 *
 * A call that has been taken is interrupted by no signal but one that kills, so
 * one socket is made for it, and its task lives until it is answered. A task
 * that is gone by then may have been another one when it was looked at, but
 * then there is nobody to answer, and the kernel says so.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../lib/l5_env.h"
#include "../lib/l5_family.h"
#include "config.h"
#include "exits.h"
#include "filter.h"
#include "supervise.h"
#include "target.h"

/* A worker that ends at once is not made again more often than so. */
#define RESTART_US	10000

/* Without a call for so long what is remembered of tasks is given up. */
#define IDLE_MS		1000

enum {
	NOTICE_MAX = 1024,	/* what the kernel may make of a notice */
	REASONS_MAX = 32,
	SAID_MAX = 64,
};

/* What keeper, worker and l5run --stats share. */
struct shared {
	/* the call that has been taken and is not answered; no id: none */
	union {
		struct seccomp_notif call;
		char room[NOTICE_MAX];
	} taken;
	uint64_t made;
	/* in words of this program, which the others have at the same place */
	struct {
		const char *why;
		uint64_t n;
	} left[REASONS_MAX];
};

static struct shared *shared;
static const struct supervise *what;
static int listener;

static const char is_made[] = "of AF_L5, by the supervisor";

/* Once for a process and what becomes of its sockets, as far as is known. */
static void say(const struct target *t, const char *how)
{
	static struct {
		pid_t pid;
		const char *how;
	} said[SAID_MAX];
	static unsigned int turn;
	char line[512];
	int i, n;

	if (!what->verbose)
		return;
	for (i = 0; i < SAID_MAX; i++)
		if (said[i].pid == t->pid && said[i].how == how)
			return;
	said[turn].pid = t->pid;
	said[turn].how = how;
	turn = (turn + 1) % SAID_MAX;
	if (how == is_made)
		n = snprintf(line, sizeof(line),
			     "l5run: pid %d %s: sockets are %s\n", t->pid,
			     t->name, how);
	else
		n = snprintf(line, sizeof(line),
			     "l5run: pid %d %s: no AF_L5 socket (%s): plain sockets are used\n",
			     t->pid, t->name, how);
	/* lost if nobody reads, or all programs would wait for that */
	if (send(STDERR_FILENO, line, n, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 &&
	    errno == ENOTSOCK)
		n = write(STDERR_FILENO, line, n);
}

static void count_left(const char *why)
{
	int i;

	for (i = 0; i < REASONS_MAX - 1; i++) {
		if (!shared->left[i].why)
			shared->left[i].why = why;
		if (shared->left[i].why == why)
			break;
	}
	shared->left[i].n++;
}

/* Answers */

/* A task that is gone by now needs no answer. */
static void answer(uint64_t id, int error, unsigned int flags)
{
	/* what a newer kernel has behind it is zero */
	static union {
		struct seccomp_notif_resp resp;
		char room[NOTICE_MAX];
	} u;

	u.resp.id = id;
	u.resp.error = error;
	u.resp.flags = flags;
	ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &u);
}

static void let_go_on(uint64_t id)
{
	answer(id, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE);
}

/*
 * In one step: a descriptor of which the task is told by another may stay there
 * unknown, since on kernels before 6.17 a signal between the two has it call
 * again. The price: if we are killed during that step, the call returns 0
 * without a socket.
 *
 * Returns NULL if the call is answered.
 */
static const char *hand_over(uint64_t id, int fd, int type)
{
	struct seccomp_notif_addfd add = {
		.id = id,
		.flags = SECCOMP_ADDFD_FLAG_SEND,
		.srcfd = fd,
		.newfd_flags = type & SOCK_CLOEXEC ? O_CLOEXEC : 0,
	};

	/* or the task is gone, be it since a moment ago */
	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_ADDFD, &add) >= 0 ||
	    errno == ENOENT || errno == ESRCH)
		return NULL;
	/* as socket() would say; all else is for the call itself to find out */
	if (errno == EMFILE) {
		answer(id, -EMFILE, 0);
		return NULL;
	}
	return "a security module refuses to hand it over";
}

/* Sockets */

static void set_option(int fd, int name, int value)
{
	if (value >= 0)
		setsockopt(fd, SOL_L5, name, &value, sizeof(value));
}

/* SELinux wants an option to be asked for first: see l5_family_labels(). */
static bool is_l5(int fd)
{
	int transport;
	socklen_t len = sizeof(transport);

	return !getsockopt(fd, SOL_L5, L5_TRANSPORT, &transport, &len);
}

/* A socket of a module that is loaded now, or -1. */
static int make_socket(int type, int l5proto)
{
	static int family;
	int fd = -1;

	if (family > 0)
		fd = socket(family, type | SOCK_CLOEXEC, l5proto);
	if (fd < 0) {
		family = l5_family_loaded();
		if (family > 0)
			fd = socket(family, type | SOCK_CLOEXEC, l5proto);
	}
	if (fd < 0)
		return -1;
	if (!is_l5(fd)) {
		close(fd);
		return -1;
	}
	set_option(fd, L5_SPIN_US, what->spin_us);
	set_option(fd, L5_FORCE, what->transport);
	set_option(fd, L5_RDMA_WAIT, what->rdma_wait);
	return fd;
}

static const char *make_as(const struct target *own, const struct target *t,
			   int type, int l5proto, int *fd)
{
	bool became = target_become(t);

	*fd = became ? make_socket(type, l5proto) : -1;
	/* a process that does not get back is no use to anybody */
	if (!target_become(own))
		_exit(1);
	if (!became)
		return "of another user";
	return *fd < 0 ? "the kernel gives none" : NULL;
}

/* Returns NULL if the call is answered, or why it is not. */
static const char *serve(const struct seccomp_notif *call, struct target *t)
{
	static struct target own;
	int type = call->data.args[1], fd;
	const char *why;
	int l5proto;

	l5proto = filter_l5proto(what->sockets, call->data.args[0], type,
				 call->data.args[2]);
	if (l5proto < 0)
		return "not for us";
	if (!call->pid)
		return "in a PID namespace that is out of sight";
	why = target_read(t, call->pid, what->verbose || config_any());
	if (!why)
		why = target_read(&own, 0, false);
	if (!why)
		why = target_differs(t, &own);
	if (!why)
		why = config_off(t->exe, t->name);
	if (!why)
		why = make_as(&own, t, type, l5proto, &fd);
	if (why)
		return why;
	why = hand_over(call->id, fd, type);
	close(fd);
	return why;
}

/* The worker. Returns when no task has the filter any more. */
static void work(void)
{
	struct seccomp_notif *call = &shared->taken.call;
	struct pollfd p = { .fd = listener, .events = POLLIN };
	static struct target t;
	const char *why;

	if (call->id)
		let_go_on(call->id);
	for (;;) {
		memset(&shared->taken, 0, sizeof(shared->taken));
		switch (poll(&p, 1, IDLE_MS)) {
		case 0:
			target_forget();
			/* fallthrough */
		case -1:
			continue;
		}
		if (!(p.revents & POLLIN)) {
			if (p.revents)
				return;
			continue;
		}
		/* the task may be gone already */
		if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, call))
			continue;
		t.pid = call->pid;
		t.name[0] = '\0';
		why = serve(call, &t);
		if (why) {
			let_go_on(call->id);
			count_left(why);
		} else {
			shared->made++;
		}
		say(&t, why ?: is_made);
	}
}

/* The keeper. */
static void keep(void)
{
	int status;
	pid_t pid;

	for (;;) {
		pid = fork();
		if (pid <= 0) {
			/* better one process than none */
			work();
			_exit(0);
		}
		while (waitpid(pid, &status, 0) < 0)
			if (errno != EINTR)
				_exit(1);
		if (WIFEXITED(status) && !WEXITSTATUS(status))
			_exit(0);
		usleep(RESTART_US);
	}
}

/* Starting */

static void send_fd(int sock, int fd)
{
	char byte = 0, room[CMSG_SPACE(sizeof(int))] = "";
	struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1,
			      .msg_control = room,
			      .msg_controllen = sizeof(room) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(int));
	sendmsg(sock, &msg, MSG_NOSIGNAL);
}

static int receive_fd(int sock)
{
	char byte, room[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1,
			      .msg_control = room,
			      .msg_controllen = sizeof(room) };
	struct cmsghdr *c;
	int fd = -1;

	if (recvmsg(sock, &msg, MSG_CMSG_CLOEXEC) != 1)
		return -1;
	c = CMSG_FIRSTHDR(&msg);
	if (c && c->cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(c), sizeof(int));
	return fd;
}

/*
 * Standard error, if it is for us as well, so that a write to it does not wait:
 * a pipe or a terminal is opened once more, since the mode of the program's is
 * not to change. A socket but AF_UNIX's may be what a service speaks to.
 */
static bool open_stderr(void)
{
	int fd, domain = AF_UNSPEC;
	socklen_t len = sizeof(domain);
	struct stat st;

	if (fstat(STDERR_FILENO, &st))
		return false;
	if (S_ISSOCK(st.st_mode))
		return !getsockopt(STDERR_FILENO, SOL_SOCKET, SO_DOMAIN,
				   &domain, &len) && domain == AF_UNIX;
	if (!S_ISFIFO(st.st_mode) && !S_ISCHR(st.st_mode))
		return true;
	fd = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY |
		  O_CLOEXEC);
	if (fd < 0)
		return false;
	dup2(fd, STDERR_FILENO);
	close(fd);
	return true;
}

/* Nothing that the program has open is to stay open because of us. */
static int let_go(int sock)
{
	int null;

	/* it may be where a standard stream is not */
	sock = fcntl(sock, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null >= 0) {
		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
		if (!what->verbose || !open_stderr())
			dup2(null, STDERR_FILENO);
	}
	dup2(sock, STDERR_FILENO + 1);
	syscall(SYS_close_range, STDERR_FILENO + 2, ~0U, 0);
	if (chdir("/"))
		_exit(1);
	return STDERR_FILENO + 1;
}

/*
 * Of a session of its own, and deaf: what a terminal or a manager of services
 * sends to all of a program's processes is not for us. The last task that has
 * the filter takes us with it.
 */
static void supervisor(int sock)
{
	struct rlimit files;
	sigset_t all;

	setsid();
	/* for what is kept open of tasks */
	if (!getrlimit(RLIMIT_NOFILE, &files)) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	signal(SIGCHLD, SIG_DFL);
	prctl(PR_SET_NAME, "l5run-sockets");
	sock = let_go(sock);
	listener = receive_fd(sock);
	if (listener < 0 || send(sock, "", 1, MSG_NOSIGNAL) != 1)
		_exit(1);
	close(sock);
	keep();
}

/* Returns our end of the socket that leads there, or -1. */
static int fork_supervisor(void)
{
	sighandler_t old;
	int sock[2], status = 1;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock))
		return -1;
	old = signal(SIGCHLD, SIG_DFL);
	pid = fork();
	if (!pid) {
		/* by way of a child that ends: nobody is to wait for it */
		pid = fork();
		if (pid)
			_exit(pid < 0);
		close(sock[0]);
		supervisor(sock[1]);
	}
	close(sock[1]);
	if (pid > 0)
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
	signal(SIGCHLD, old);
	if (!status)
		return sock[0];
	close(sock[0]);
	return -1;
}

static bool notices_fit(void)
{
	struct seccomp_notif_sizes s;

	return !syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &s) &&
	       s.seccomp_notif <= NOTICE_MAX &&
	       s.seccomp_notif_resp <= NOTICE_MAX;
}

static bool is_admin(void)
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct caps[2];

	return !syscall(SYS_capget, &head, caps) &&
	       caps[0].effective & 1u << CAP_SYS_ADMIN;
}

/*
 * Of a process 1, and of one that wants orphans, the supervisor would be a
 * child, and a program that waits for all of its children waits for it.
 */
static bool gets_orphans(void)
{
	int reaper = 0;

	return getpid() == 1 ||
	       (!prctl(PR_GET_CHILD_SUBREAPER, &reaper, 0, 0, 0) && reaper);
}

bool supervise_is_free(void)
{
	if (gets_orphans())
		return false;
	return is_admin() || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1;
}

static const char *why_not(int error)
{
	static char text[64];

	if (error == EBUSY)
		return "another process answers for system calls already";
	snprintf(text, sizeof(text), "no filter of system calls: %s",
		 strerror(error));
	return text;
}

const char *supervise_start(const struct supervise *s)
{
	char byte;
	int sock;

	what = s;
	if (!notices_fit())
		return "the kernel has no filters that hand calls over";
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED) {
		shared = NULL;
		return "no memory";
	}
	sock = fork_supervisor();
	if (sock < 0)
		return "no process for the supervisor";
	if (!is_admin() && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) {
		close(sock);
		return why_not(errno);
	}
	listener = filter_install(s->sockets);
	if (listener < 0) {
		close(sock);
		/* a supervisor of ours that there is serves us, too */
		return listener == -EBUSY && getenv(L5_ENV_STATIC) ? NULL :
		       why_not(-listener);
	}
	send_fd(sock, listener);
	/* the filter stays, and needs a listener: this cannot be undone */
	if (recv(sock, &byte, 1, 0) != 1)
		errx(EXIT_SELF, "the supervisor has died");
	close(listener);
	close(sock);
	if (setenv(L5_ENV_STATIC, "1", 1))
		err(EXIT_SELF, "setenv %s", L5_ENV_STATIC);
	return NULL;
}

static void print_count(const char *what_kind, const char *why, uint64_t n)
{
	fprintf(stderr, "l5run: programs without the library: %s%s: %" PRIu64
		"\n", what_kind, why, n);
}

bool supervise_print(void)
{
	int i;

	if (!shared)
		return false;
	if (shared->made)
		print_count("sockets of AF_L5", "", shared->made);
	for (i = 0; i < REASONS_MAX && shared->left[i].n; i++)
		print_count("plain sockets, ", shared->left[i].why,
			    shared->left[i].n);
	return shared->made;
}
