// SPDX-License-Identifier: GPL-2.0
/* Programs that give up system calls: see sandbox.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "epoll.h"
#include "fdtab.h"
#include "raw.h"
#include "sandbox.h"
#include "say.h"

/* linux/prctl.h and sched.h, which older systems lack */
#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH	59
#endif
#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK			18
#endif

/* Without membarrier(2), until process.c finds that there is one. */
atomic_uint sandbox_terms = SANDBOX_FENCED;

static int l5_number;

/* Becoming careful */

/* A call was refused, in the middle of something: nothing can be waited for. */
static void refused(void)
{
	atomic_fetch_or(&sandbox_terms, SANDBOX_CAREFUL | SANDBOX_SETTLED);
	l5_store(&l5_map_hush, 1);
	fd_left();
}

/*
 * AI: the state is there for all to see, then the threads inside are waited
 * for. fd_own_begin() and sock_find() say that they are inside, then look at
 * it.
 */
static void enter(const char *what)
{
	int saved = errno;

	if (atomic_load(&sandbox_terms) & SANDBOX_SETTLED)
		return;
	if (!sandbox_careful())
		say("no more system calls of its own: %s", what);
	/* a child of fork() is to know that it has nothing mapped */
	if (!sandbox_untried()) {
		fd_ours();
		/* while calls of its own are still allowed */
		ep_unseen_all();
	}
	atomic_fetch_or(&sandbox_terms, SANDBOX_CAREFUL);
	l5_store(&l5_map_hush, 1);
	if (!sandbox_untried())
		fd_settle();
	atomic_fetch_or(&sandbox_terms, SANDBOX_SETTLED);
	errno = saved;
}

void sandbox_prctl(long op, unsigned long a, unsigned long b)
{
	switch (op) {
	case PR_SET_SECCOMP:
		/* without a filter this only asks whether there could be one */
		if (a == SECCOMP_MODE_STRICT || (a == SECCOMP_MODE_FILTER && b))
			enter("seccomp");
		break;
	case PR_SET_TSC:
		if (a == PR_TSC_SIGSEGV)
			enter("the clock is taken away");
		break;
	case PR_SET_SYSCALL_USER_DISPATCH:
		if (a)
			enter("system calls are the program's");
		break;
	}
}

void sandbox_seccomp(long op, const void *args)
{
	if (op == SECCOMP_SET_MODE_STRICT ||
	    (op == SECCOMP_SET_MODE_FILTER && args))
		enter("seccomp");
}

/* Filters that were there before us */

/*
 * The file is read as the loader has just read others. Without the file it is
 * not known whether there is a filter, so one is to be tried out.
 */
static bool filtered(void)
{
	static const char key[] = "\nSeccomp:\t";
	char text[4096];
	size_t len = 0;
	const char *s;
	ssize_t n;
	int fd;

	fd = syscall(SYS_openat, AT_FDCWD, "/proc/self/status",
		     O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return true;
	for (;;) {
		n = syscall(SYS_read, fd, text + len, sizeof(text) - 1 - len);
		if (n <= 0)
			break;
		len += n;
		text[len] = '\0';
		s = strstr(text, key);
		if (s && s[sizeof(key) - 1])
			break;
		s = NULL;
		/* the groups of some users are very many */
		if (len > sizeof(text) / 2) {
			memmove(text, text + len - 64, 64);
			len = 64;
		}
	}
	syscall(SYS_close, fd);
	/* a kernel without filters has no such line */
	return n < 0 || (n > 0 && s[sizeof(key) - 1] != '0');
}

void sandbox_start(void)
{
	int saved = errno;

	l5_map_refused = refused;
	if (filtered())
		atomic_fetch_or(&sandbox_terms, SANDBOX_UNTRIED);
	errno = saved;
}

void sandbox_family(int family)
{
	l5_number = family;
}

#if L5_RAW

/* What the child did, in memory that it shares. */
static struct {
	atomic_int passed;	/* the calls that the library needs */
	atomic_int waits;	/* it may wait for the child */
	atomic_int says;	/* it may print a line */
	atomic_int sockets;	/* and sockets of our family may be made */
} tried;

static char child_stack[16384] __attribute__((aligned(64)));

#define CALL(nr, a, b, c, d, e, f)					\
	l5_raw(nr, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), \
	       (long)(f))

/* A mapping, as the table and the rings need them. */
static bool try_memory(void)
{
	const long page = 4096;
	long p, err;

	p = CALL(SYS_mmap, 0, page, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if ((unsigned long)p >= -4095ul)
		return false;
	err = CALL(SYS_madvise, p, page, MADV_WIPEONFORK, 0, 0, 0);
	return !CALL(SYS_munmap, p, page, 0, 0, 0, 0) && !err &&
	       CALL(SYS_mmap, 0, page, PROT_READ | PROT_WRITE,
		    MAP_SHARED, -1, 0) == -EBADF;
}

static bool try_calls(void)
{
	static const unsigned long ioctls[] = {
		L5_IOC_MAP_INFO, L5_IOC_DOORBELL, L5_IOC_LOCK, L5_IOC_UNLOCK,
		L5_IOC_WATCH, L5_IOC_ROOM,
	};
	const struct timespec none = { 0 };
	struct rlimit as;
	struct timespec t;
	unsigned int i;
	cpu_set_t cpus;
	stack_t ss;

	for (i = 0; i < sizeof(ioctls) / sizeof(*ioctls); i++)
		if (CALL(SYS_ioctl, -1, ioctls[i], 0, 0, 0, 0) != -EBADF)
			return false;
	/* membarrier() may get any answer, but not death */
	CALL(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0,
	     0, 0, 0);
	CALL(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0, 0, 0, 0);
	return CALL(SYS_getsockopt, -1, SOL_L5, 0, 0, 0, 0) == -EBADF &&
	       CALL(SYS_getsockopt, -1, SOL_SOCKET, 0, 0, 0, 0) == -EBADF &&
	       CALL(SYS_setsockopt, -1, SOL_L5, 0, 0, 0, 0) == -EBADF &&
	       CALL(SYS_getsockname, -1, 0, 0, 0, 0, 0) == -EBADF &&
	       CALL(SYS_getpeername, -1, 0, 0, 0, 0, 0) == -EBADF &&
	       CALL(SYS_sendmsg, -1, 0, MSG_NOSIGNAL | L5_MSG_BELL, 0, 0,
		    0) == -EBADF &&
	       CALL(SYS_recvmsg, -1, 0, L5_MSG_BELL, 0, 0, 0) == -EBADF &&
	       CALL(SYS_shutdown, -1, SHUT_RDWR, 0, 0, 0, 0) == -EBADF &&
	       CALL(SYS_fcntl, -1, F_GETFL, 0, 0, 0, 0) == -EBADF &&
	       CALL(SYS_epoll_ctl, -1, 0, -1, 0, 0, 0) < 0 &&
	       CALL(SYS_ppoll, 0, 0, &none, 0, 0, 0) == 0 &&
	       CALL(SYS_rt_tgsigqueueinfo, 0, 0, 0, 0, 0, 0) < 0 &&
	       CALL(SYS_prlimit64, 0, RLIMIT_AS, 0, &as, 0, 0) == 0 &&
	       CALL(SYS_tgkill, 0, 0, 0, 0, 0, 0) == -EINVAL &&
	       CALL(SYS_getpid, 0, 0, 0, 0, 0, 0) > 0 &&
	       CALL(SYS_gettid, 0, 0, 0, 0, 0, 0) > 0 &&
	       CALL(SYS_sigaltstack, 0, &ss, 0, 0, 0, 0) == 0 &&
	       CALL(SYS_sched_yield, 0, 0, 0, 0, 0, 0) == 0 &&
	       CALL(SYS_sched_getaffinity, 0, sizeof(cpus), &cpus, 0, 0,
		    0) > 0 &&
	       CALL(SYS_clock_gettime, CLOCK_MONOTONIC, &t, 0, 0, 0, 0) == 0;
}

/* May a socket of our family be made? There is no such protocol. */
static bool try_socket(void)
{
	long ret = CALL(SYS_socket, l5_number, SOCK_STREAM | SOCK_CLOEXEC,
			0x7fff, 0, 0, 0);

	if (ret >= 0)
		CALL(SYS_close, ret, 0, 0, 0, 0, 0);
	return ret >= 0 || ret == -EPROTONOSUPPORT;
}

/*
 * The child: it shares our memory, thread-local variables included, and nothing
 * else, while we stand still. A filter that kills the process kills the child.
 */
static int child(void *arg)
{
	/* the kernel's struct sigaction, which libc's differs from */
	long dfl[8] = { 0 };
	struct rlimit none = { 0, 0 };

	(void)arg;
	if (CALL(SYS_write, -1, "", 0, 0, 0, 0) == -EBADF)
		atomic_store(&tried.says, 1);
	/* a program's handler is not to run here, nor is there to be a core */
	CALL(SYS_rt_sigaction, SIGSYS, dfl, 0, _NSIG / 8, 0, 0);
	CALL(SYS_prlimit64, 0, RLIMIT_CORE, &none, 0, 0, 0);
	if (CALL(SYS_wait4, -1, 0, WNOHANG | __WALL, 0, 0, 0) == -ECHILD)
		atomic_store(&tried.waits, 1);
	if (!try_memory() || !try_calls())
		return 0;
	atomic_store(&tried.passed, 1);
	if (!l5_number || try_socket())
		atomic_store(&tried.sockets, 1);
	return 0;
}

static void try_in_child(void)
{
	/* the kernel's signal sets; a handler is not to run in the child */
	uint64_t all = UINT64_MAX, old;
	int pid;

	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &old, sizeof(all));
	/* no signal tells of its end, and no wait() but the one here sees it */
	pid = clone(child, child_stack + sizeof(child_stack),
		    CLONE_VM | CLONE_VFORK, NULL);
	if (pid > 0 && atomic_load(&tried.waits))
		while (syscall(SYS_wait4, pid, NULL, __WCLONE, NULL) < 0 &&
		       errno == EINTR)
			;
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, sizeof(old));
}

#else

static struct {
	atomic_int passed;
	atomic_int says;
	atomic_int sockets;
} tried;

static void try_in_child(void) { }

#endif

bool sandbox_try(void)
{
	static atomic_flag busy = ATOMIC_FLAG_INIT;
	int saved = errno;

	/* another thread tries it out, or the one that this signal came to */
	if (atomic_flag_test_and_set(&busy))
		return false;
	if (!(atomic_load(&sandbox_terms) &
	      (SANDBOX_CAREFUL | SANDBOX_UNTRIED)))
		goto out;
	try_in_child();
	if (!atomic_load(&tried.passed)) {
		if (atomic_load(&tried.says))
			say("not mapped, and plain sockets: the filter of "
			    "system calls does not allow it");
		refused();
		goto out;
	}
	if (!atomic_load(&tried.sockets)) {
		say("the filter of system calls allows no AF_L5 sockets");
		atomic_fetch_or(&sandbox_terms, SANDBOX_PLAIN);
	}
	fd_live();
	atomic_fetch_and(&sandbox_terms, ~SANDBOX_UNTRIED);
out:
	atomic_flag_clear(&busy);
	errno = saved;
	return !(atomic_load(&sandbox_terms) &
		 (SANDBOX_CAREFUL | SANDBOX_UNTRIED));
}
