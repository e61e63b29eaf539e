// SPDX-License-Identifier: GPL-2.0
/*
 * Under a test program, by LD_PRELOAD: each call on an AF_L5 socket is made
 * again and again, and the first, second, third... time that the kernel asks
 * for memory in it, or touches the program's, it is refused; until a call asks
 * less often. A call that fails so has done nothing: the program never sees it,
 * and goes on as if it had not been.
 *
 * Some calls are left alone, since of TCP, too, something is gone when they
 * fail: an error, a connection or bytes that were taken before the place for an
 * address or for ancillary data was found bad; or a FIN, in shutdown() and
 * close(), which say nothing of it. connect() is left alone, too: a call that
 * fails may have reached its listener. limit/memory.c has that. For the FIN's
 * sake nothing is refused to a process that ends, either, whatever ends it; nor
 * to one that a timer sends signals, see signals_come().
 *
 * L5_FAIL_CALLS is how many calls of a kind are tried so, in each process; the
 * others are made as they are. Needs the fault injection of a debug kernel.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "l5.h"

/* No call here asks more often; it ends what goes round in circles. */
enum { NTH_MAX = 400, FD_HIGH = 700 };

enum kind {
	SOCKET, BIND, LISTEN, ACCEPT, SEND, RECV, GETOPT, SETOPT,
	IOCTL, MMAP, NAME, KINDS
};

static const char *const kind_name[] = {
	"socket", "bind", "listen", "accept", "send", "recv",
	"getsockopt", "setsockopt", "ioctl", "mmap", "name"
};

static struct {
	unsigned long calls;
	unsigned long refused;
	unsigned long failed;
} count[KINDS];

static int family = -1;
static long calls_max = 20;
static pid_t counted;		/* whose counts these are */
static bool over;		/* this process is about to end */

/* A process that was forked counts for itself. */
static void begin(void)
{
	if (counted == getpid())
		return;
	counted = getpid();
	memset(count, 0, sizeof(count));
}

__attribute__((constructor)) static void look_round(void)
{
	const char *s = getenv("L5_FAIL_CALLS");
	FILE *f = fopen(L5_FAMILY_PATH, "re");

	if (s)
		calls_max = atol(s);
	if (f && fscanf(f, "%d", &family) != 1)
		family = -1;
	if (f)
		fclose(f);
}

/* What is still to be refused to a process, by all its threads, is not. */
static void spare(pid_t pid)
{
	char path[300];
	struct dirent *d;
	DIR *dir;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	while (dir && (d = readdir(dir))) {
		snprintf(path, sizeof(path), "/proc/%d/task/%s/fail-nth", pid,
			 d->d_name);
		fd = open(path, O_WRONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		syscall(SYS_write, fd, "0", 1);
		close(fd);
	}
	if (dir)
		closedir(dir);
}

static bool stopped(pid_t pid)
{
	char path[40], state = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (!f)
		return true;
	if (fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
		state = 0;
	fclose(f);
	return strchr("TtZX", state);
}

/* Killed outside of its calls: a socket that it closes by that has its FIN. */
int kill(pid_t pid, int sig)
{
	int i, e = errno;

	if (sig == SIGKILL && pid > 0 && pid != getpid() &&
	    !syscall(SYS_kill, pid, SIGSTOP)) {
		for (i = 0; i < 1000 && !stopped(pid); i++)
			usleep(1000);
		spare(pid);
	}
	errno = e;
	return syscall(SYS_kill, pid, sig);
}

/* Tests end by exit() or _exit(): in either case what was done is told. */
__attribute__((destructor)) static void tell(void)
{
	char line[120];
	int i, n;

	__atomic_store_n(&over, true, __ATOMIC_RELAXED);
	if (counted)
		spare(getpid());
	if (counted != getpid())
		return;
	for (i = 0; i < KINDS; i++) {
		if (!count[i].refused)
			continue;
		n = snprintf(line, sizeof(line),
			     "# nth: %s: %lu calls, %lu refusals, %lu failed\n",
			     kind_name[i], count[i].calls, count[i].refused,
			     count[i].failed);
		syscall(SYS_write, 2, line, n);
	}
	memset(count, 0, sizeof(count));
}

void _exit(int status)
{
	tell();
	syscall(SYS_exit_group, status);
	__builtin_unreachable();
}

/* By an option that no other family has: SO_DOMAIN says what TCP would. */
static bool ours(int fd)
{
	socklen_t len = sizeof(int);
	int e = errno, transport;
	bool yes;

	yes = !syscall(SYS_getsockopt, fd, SOL_L5, L5_TRANSPORT, &transport,
		       &len);
	errno = e;
	return yes;
}

/*
 * Do signals come again and again? The kernel writes where a handler returns to
 * on the stack, and to a thread that is refused that it sends SIGSEGV.
 */
static bool signals_come(void)
{
	struct itimerval t;

	return !getitimer(ITIMER_REAL, &t) &&
	       (t.it_interval.tv_sec || t.it_interval.tv_usec);
}

static bool wanted(enum kind kind)
{
	begin();
	return family > 0 && !signals_come() &&
	       !__atomic_load_n(&over, __ATOMIC_RELAXED) &&
	       __atomic_add_fetch(&count[kind].calls, 1, __ATOMIC_RELAXED) <=
	       (unsigned long)calls_max;
}

/* This thread's file, out of the way of the numbers that tests expect. */
static int nth_open(void)
{
	int fd = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
	int high = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, FD_HIGH);

	if (fd >= 0)
		close(fd);
	return high;
}

static void nth_set(int fd, int n)
{
	char text[16];
	int len = snprintf(text, sizeof(text), "%d", n);

	/* what is still to be refused may be this */
	while (pwrite(fd, text, len, 0) < 0 && errno == EFAULT)
		;
}

/* Was the call refused anything? A read that is refused itself says: no. */
static bool nth_used(int fd)
{
	char c = 0;

	return pread(fd, &c, 1, 0) == 1 && c == '0';
}

/* TCP's word for no memory to note a port in is that it is in use. */
static bool told_so(enum kind kind, int err)
{
	return err == ENOMEM || err == ENOBUFS || err == EFAULT ||
	       err == ENFILE ||
	       (err == EADDRINUSE && (kind == BIND || kind == LISTEN));
}

struct call {
	long nr;
	long arg[6];
};

static long make(const struct call *c)
{
	return syscall(c->nr, c->arg[0], c->arg[1], c->arg[2], c->arg[3],
		       c->arg[4], c->arg[5]);
}

/* The peer of a socket by the name that it has. */
struct peer {
	socklen_t len;
	char name[128];
};

static void look_at_peer(long fd, struct peer *p)
{
	memset(p, 0, sizeof(*p));
	p->len = sizeof(p->name);
	if (syscall(SYS_getpeername, fd, p->name, &p->len))
		p->len = 0;
}

/*
 * A call that slept, and was refused memory once its socket had been connected
 * to another peer: made again it would be another call, to that peer.
 */
static bool peer_changed(long fd, const struct peer *before)
{
	struct peer now;

	look_at_peer(fd, &now);
	return before->len && now.len &&
	       (now.len != before->len ||
		memcmp(now.name, before->name, now.len));
}

/* Was the last call of this thread, which succeeded, refused anything in it? */
static __thread bool went_on;

static long attempt(enum kind kind, const struct call *c)
{
	int e = errno, fd = nth_open(), n, err;
	bool used = false, moves = kind == SEND || kind == RECV;
	struct peer peer = { };
	long ret;

	went_on = false;
	if (moves)
		look_at_peer(c->arg[0], &peer);
	errno = e;
	if (fd < 0)
		return make(c);
	for (n = 1; n < NTH_MAX; n++) {
		nth_set(fd, n);
		errno = e;
		ret = make(c);
		err = errno;
		used = nth_used(fd);
		nth_set(fd, 0);
		if (used)
			__atomic_add_fetch(&count[kind].refused, 1,
					   __ATOMIC_RELAXED);
		if (!used || ret >= 0 || !told_so(kind, err))
			break;
		__atomic_add_fetch(&count[kind].failed, 1, __ATOMIC_RELAXED);
		if (moves && peer_changed(c->arg[0], &peer))
			break;
	}
	if (n == NTH_MAX) {
		ret = make(c);
		err = errno;
	}
	went_on = used && n < NTH_MAX;
	close(fd);
	errno = err;
	return ret;
}

static long on_socket(enum kind kind, long nr, long fd, long a, long b, long c,
		      long d, long e)
{
	struct call call = { .nr = nr, .arg = { fd, a, b, c, d, e } };

	if (!ours(fd) || !wanted(kind))
		return make(&call);
	return attempt(kind, &call);
}

int socket(int domain, int type, int proto)
{
	struct call call = { .nr = SYS_socket, .arg = { domain, type, proto } };

	if (domain != family || !wanted(SOCKET))
		return make(&call);
	return attempt(SOCKET, &call);
}

#define L(x) ((long)(x))

int bind(int fd, __CONST_SOCKADDR_ARG sa, socklen_t len)
{
	return on_socket(BIND, SYS_bind, fd, L(sa.__sockaddr__), len, 0, 0, 0);
}

int listen(int fd, int backlog)
{
	return on_socket(LISTEN, SYS_listen, fd, backlog, 0, 0, 0, 0);
}

int setsockopt(int fd, int level, int opt, const void *v, socklen_t len)
{
	return on_socket(SETOPT, SYS_setsockopt, fd, level, opt, L(v), len, 0);
}

int getsockname(int fd, __SOCKADDR_ARG sa, socklen_t *len)
{
	return on_socket(NAME, SYS_getsockname, fd, L(sa.__sockaddr__),
			 L(len), 0, 0, 0);
}

int getpeername(int fd, __SOCKADDR_ARG sa, socklen_t *len)
{
	return on_socket(NAME, SYS_getpeername, fd, L(sa.__sockaddr__),
			 L(len), 0, 0, 0);
}

/*
 * What was refused half-way gives fewer bytes than a program may rely on (all
 * of a blocking send, all that it knows to be there): the rest goes on as is.
 */
static long go_on(long ret, int fd, char *b, size_t n, int flags, bool out)
{
	int e = errno;

	if (!went_on || ret < 0)
		return ret;
	went_on = false;
	if (!out && (flags & (MSG_PEEK | MSG_TRUNC | MSG_OOB)))
		return syscall(SYS_recvfrom, fd, b, n, flags, NULL, NULL);
	if (!out && !(flags & MSG_WAITALL))
		flags |= MSG_DONTWAIT;
	while ((size_t)ret < n) {
		long more = out ? syscall(SYS_sendto, fd, b + ret, n - ret,
					  flags | MSG_NOSIGNAL, NULL, 0) :
				  syscall(SYS_recvfrom, fd, b + ret, n - ret,
					  flags, NULL, NULL);

		if (more <= 0)
			break;
		ret += more;
	}
	errno = e;
	return ret;
}

ssize_t send(int fd, const void *b, size_t n, int flags)
{
	long ret = on_socket(SEND, SYS_sendto, fd, L(b), n, flags, 0, 0);

	return go_on(ret, fd, (char *)b, n, flags, true);
}

ssize_t write(int fd, const void *b, size_t n)
{
	long ret = on_socket(SEND, SYS_write, fd, L(b), n, 0, 0, 0);

	return go_on(ret, fd, (char *)b, n, 0, true);
}

ssize_t recv(int fd, void *b, size_t n, int flags)
{
	long ret = on_socket(RECV, SYS_recvfrom, fd, L(b), n, flags, 0, 0);

	return go_on(ret, fd, b, n, flags, false);
}

ssize_t read(int fd, void *b, size_t n)
{
	long ret = on_socket(RECV, SYS_read, fd, L(b), n, 0, 0, 0);

	return go_on(ret, fd, b, n, 0, false);
}

/* Of several pieces only those that are one, for the same reason. */
static bool one_piece(const struct msghdr *m)
{
	return m && m->msg_iov && m->msg_iovlen == 1 && !m->msg_name &&
	       !m->msg_control;
}

ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
	long ret;

	if (!one_piece(m))
		return syscall(SYS_sendmsg, fd, m, flags);
	ret = on_socket(SEND, SYS_sendmsg, fd, L(m), flags, 0, 0, 0);
	return go_on(ret, fd, m->msg_iov->iov_base, m->msg_iov->iov_len, flags,
		     true);
}

ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
	long ret;

	if (!one_piece(m))
		return syscall(SYS_recvmsg, fd, m, flags);
	ret = on_socket(RECV, SYS_recvmsg, fd, L(m), flags, 0, 0, 0);
	return go_on(ret, fd, m->msg_iov->iov_base, m->msg_iov->iov_len, flags,
		     false);
}

int getsockopt(int fd, int level, int opt, void *v, socklen_t *len)
{
	if (level == SOL_SOCKET && opt == SO_ERROR)
		return syscall(SYS_getsockopt, fd, level, opt, v, len);
	return on_socket(GETOPT, SYS_getsockopt, fd, level, opt, L(v), L(len),
			 0);
}

int accept4(int fd, __SOCKADDR_ARG sa, socklen_t *len, int flags)
{
	if (sa.__sockaddr__)
		return syscall(SYS_accept4, fd, sa.__sockaddr__, len, flags);
	return on_socket(ACCEPT, SYS_accept4, fd, 0, 0, flags, 0, 0);
}

int accept(int fd, __SOCKADDR_ARG sa, socklen_t *len)
{
	return accept4(fd, sa, len, 0);
}

ssize_t sendto(int fd, const void *b, size_t n, int flags,
	       __CONST_SOCKADDR_ARG sa, socklen_t len)
{
	if (sa.__sockaddr__)
		return syscall(SYS_sendto, fd, b, n, flags, sa.__sockaddr__,
			       len);
	return send(fd, b, n, flags);
}

ssize_t recvfrom(int fd, void *b, size_t n, int flags, __SOCKADDR_ARG sa,
		 socklen_t *len)
{
	if (sa.__sockaddr__)
		return syscall(SYS_recvfrom, fd, b, n, flags, sa.__sockaddr__,
			       len);
	return recv(fd, b, n, flags);
}

int ioctl(int fd, unsigned long request, ...)
{
	va_list ap;
	void *arg;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	return on_socket(IOCTL, SYS_ioctl, fd, request, L(arg), 0, 0, 0);
}

void *mmap(void *at, size_t len, int prot, int flags, int fd, off_t off)
{
	struct call call = {
		.nr = SYS_mmap, .arg = { L(at), len, prot, flags, fd, off },
	};

	if ((flags & MAP_ANONYMOUS) || !ours(fd) || !wanted(MMAP))
		return (void *)make(&call);
	return (void *)attempt(MMAP, &call);
}

void *mmap64(void *at, size_t len, int prot, int flags, int fd, off64_t off)
{
	return mmap(at, len, prot, flags, fd, off);
}
