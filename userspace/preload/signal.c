// SPDX-License-Identifier: GPL-2.0
/*
 * The program's signal handlers: see signal.h.
 *
 * The kernel knows handlers of ours, of which there are two: a handler that the
 * program sets is entered in the records of the one that the kernel does not
 * have for this signal at present. So the kernel changes from one to the other
 * with the mask and the flags that belong to it, and what was entered is not
 * written to while it is used. A handler that is our own is no secret from a
 * program that asks the kernel: calling it calls the program's.
 *
 * A handler for once (SA_RESETHAND) of a signal that a copy may raise is used
 * up here, in the record. The kernel would not tell a fault of the program's
 * from a fault of a copy. Of the latter the program hears nothing, and it must
 * not kill afterwards either.
 *
 * libc's functions that set handlers call each other past us, so each of them
 * is here. libc's signal() goes by what libc's siginterrupt() was told, and
 * ours is called in its place: so that is kept here instead.
 *
 * A child of vfork() has its parent's memory and handlers of its own: what it
 * sets is not entered anywhere.
 *
 * Signal handlers and children of vfork() may call all of this: no locks but
 * one, which no thread holds while signals come.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "fdtab.h"
#include "real.h"
#include "sandbox.h"
#include "signal.h"

#define SIGNALS		64
#define SIGSET_BYTES	(SIGNALS / 8)

/* In sa_flags, once libc has set them; it shows that. */
#ifndef SA_RESTORER
#define SA_RESTORER	0x04000000
#endif

/* The stack that a use of a socket has below where it began, at most. */
#define USE_STACK	(256ul << 10)
/* And above that: the function that it began in. */
#define USE_FRAME	(32ul << 10)

/* Code that may be interrupted before it has said that it runs. */
#define ENTRY	__attribute__((section("l5_signal_entry")))
extern const char __start_l5_signal_entry[], __stop_l5_signal_entry[];

/*
 * Was it a copy of ours that faulted? Then the copy ends there, and the call
 * that made it says so.
 */
bool l5_copy_fault(int sig, siginfo_t *si, void *ucontext)
	__attribute__((weak, visibility("hidden")));

__thread struct sig_thread sig_thread
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

typedef void action_fn(int sig, siginfo_t *si, void *uc);

/**
 * struct action - what the program set for a signal
 * @handler: of whatever kind
 * @flags: as the program said
 * @added: flags that the kernel has and the program did not say
 */
struct action {
	_Atomic(action_fn *) handler;
	atomic_int flags;
	atomic_int added;
};

static struct action actions[2][SIGNALS + 1];
/*
 * 1 and which of the two handlers the kernel has, or had when it called it
 * once.
 */
static atomic_int latest[SIGNALS + 1];

/* siginterrupt() said so. */
static _Atomic uint64_t interrupting;
/* The process whose handlers these are, in memory that fork() clears. */
static atomic_int *owner;
/* The process that has the lock. */
static atomic_int lock;
/* Something was mapped: SIGSEGV and SIGBUS are ours even without a handler. */
static atomic_bool mapped;

static uint64_t bit(int sig)
{
	return (uint64_t)1 << (sig - 1);
}

/* Signals that an instruction may raise. */
static uint64_t raised(void)
{
	return bit(SIGSEGV) | bit(SIGBUS) | bit(SIGFPE) | bit(SIGILL) |
	       bit(SIGTRAP) | bit(SIGSYS);
}

static bool raised_by_copy(int sig)
{
	return sig == SIGSEGV || sig == SIGBUS;
}

/* Signals of libc, which end threads and change their ids. */
static bool internal(int sig)
{
	return sig == 32 || sig == 33;
}

/* Signals that can wait for the end of a use. */
static uint64_t patient(void)
{
	return ~(raised() | bit(32) | bit(33));
}

static uint64_t set_mask(int how, const uint64_t *set)
{
	uint64_t old = 0;

	syscall(SYS_rt_sigprocmask, how, set, &old, SIGSET_BYTES);
	return old;
}

static bool put_back(int sig, siginfo_t *si)
{
	return !syscall(SYS_rt_tgsigqueueinfo, syscall(SYS_getpid),
			syscall(SYS_gettid), sig, si);
}

/* The signal comes with the others, when all are let in. */
static void put_back_kept(void)
{
	siginfo_t si = sig_thread.kept;
	uint64_t block = bit(si.si_signo);

	set_mask(SIG_BLOCK, &block);
	sig_thread.kept.si_signo = 0;
	put_back(si.si_signo, &si);
}

void sig_let_in(void)
{
	struct sig_thread *t = &sig_thread;
	uint64_t mask = t->mask;
	int saved = errno;

	/* the handlers run within the next call, and may not come back */
	t->put_back = false;
	if (l5_unlikely(t->kept.si_signo))
		put_back_kept();
	set_mask(SIG_SETMASK, &mask);
	errno = saved;
}

/* What a signal interrupted */

static uintptr_t stack_of(const ucontext_t *uc)
{
#if defined(__x86_64__)
	return uc->uc_mcontext.gregs[REG_RSP];
#elif defined(__aarch64__)
	return uc->uc_mcontext.sp;
#else
	return 0;
#endif
}

static uintptr_t code_of(const ucontext_t *uc)
{
#if defined(__x86_64__)
	return uc->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
	return uc->uc_mcontext.pc;
#else
	return 0;
#endif
}

/* Where the kernel's half is: it would take a fault to get there. */
static void jump_nowhere(ucontext_t *uc)
{
#if defined(__x86_64__)
	uc->uc_mcontext.gregs[REG_RIP] = -4096;
#elif defined(__aarch64__)
	uc->uc_mcontext.pc = -4096ul;
#else
	(void)uc;
#endif
}

/*
 * Is the thread in what began at @frame? A thread that was taken out of its
 * middle, and has not come here since, is further up or elsewhere.
 */
static bool within(uintptr_t frame, uintptr_t sp)
{
	return frame && (!sp || sp - (frame - USE_STACK) <
			 USE_STACK + USE_FRAME);
}

/*
 * The kernel delivers signals that are there at the same time one within the
 * other, the later on whatever stack, before the first instruction.
 */
ENTRY static bool inside(const ucontext_t *uc, bool coming)
{
	uintptr_t code = code_of(uc), sp = stack_of(uc);

	/* to put a signal back takes calls, and nothing is held for long */
	if (sandbox_careful())
		return false;
	if (coming || (code >= (uintptr_t)__start_l5_signal_entry &&
		       code < (uintptr_t)__stop_l5_signal_entry))
		sp = 0;
	return within(sig_thread.held, sp) || within(fd_used_at(), sp);
}

/* The handler is called once, and was: as if it had not been yet. */
static void set_again(int sig, const struct action *a);

/*
 * Signals that a fault raises are not blocked, lest it kill, so they are put
 * back at the end. There is room for one: of two sent to a thread at once the
 * second has its handler run at once.
 */
static bool keep(int sig, const siginfo_t *si)
{
	struct sig_thread *t = &sig_thread;

	/* a signal that is pending is not sent again */
	if (t->kept.si_signo)
		return t->kept.si_signo == sig;
	t->kept = *si;
	return true;
}

/* Send a signal to this thread again, once it has ended what it is in. */
ENTRY static bool later(int sig, siginfo_t *si, ucontext_t *uc,
			const struct action *a)
{
	struct sig_thread *t = &sig_thread;
	uint64_t block = patient(), old, mask;
	int saved = errno;

	old = set_mask(SIG_BLOCK, &block);
	if (!(raised() & bit(sig) ? keep(sig, si) : put_back(sig, si))) {
		set_mask(SIG_SETMASK, &old);
		errno = saved;
		return false;
	}
	if (a->flags & SA_RESETHAND)
		set_again(sig, a);
	/* of several signals that came at once this is the outermost by now */
	memcpy(&mask, &uc->uc_sigmask, sizeof(mask));
	/* a signal that is kept may come when all are blocked already */
	if (!t->put_back || (mask & block) != block)
		t->mask = mask;
	t->put_back = true;
	mask |= block;
	memcpy(&uc->uc_sigmask, &mask, sizeof(mask));
	l5_signal_came(false);
	errno = saved;
	return true;
}

/* Would the instruction that did it do it again? */
ENTRY static bool does_again(int sig, const siginfo_t *si)
{
	return si->si_code > 0 && si->si_code != SI_KERNEL &&
	       !(sig == SIGBUS && si->si_code == BUS_MCEERR_AO);
}

/*
 * As if there were no handler. What an instruction raised it raises again when
 * we have returned, and is blocked then: the kernel kills for that. This takes
 * no system call, which a filter might refuse, and the core shows what did it.
 *
 * What was sent is sent again. Where that is not allowed the thread is sent to
 * where there is no code; so a SIGBUS ends as SIGSEGV then.
 */
ENTRY static void by_default(int sig, siginfo_t *si, ucontext_t *uc)
{
	struct sigaction sa = { .sa_handler = SIG_DFL };
	uint64_t block = bit(sig), mask;
	int saved = errno;

	if (!does_again(sig, si) && !sandbox_careful()) {
		bool sent;

		set_mask(SIG_BLOCK, &block);
		sent = !real.sigaction(sig, &sa, NULL) && put_back(sig, si);
		errno = saved;
		if (sent)
			return;
	}
	memcpy(&mask, &uc->uc_sigmask, sizeof(mask));
	mask |= bit(SIGSEGV) | bit(SIGBUS);
	memcpy(&uc->uc_sigmask, &mask, sizeof(mask));
	/* the kernel may have told of an instruction, and may not */
	if (!does_again(sig, si) && si->si_code != SI_KERNEL)
		jump_nowhere(uc);
}

static bool ours(void);

/* The handler for a fault of the program's, or for a signal sent to it. */
ENTRY static action_fn *take_handler(int sig, struct action *a)
{
	action_fn *h = atomic_load_explicit(&a->handler, memory_order_acquire);
	struct sigaction sa = { .sa_handler = SIG_DFL };
	int saved = errno;

	if (l5_likely(!raised_by_copy(sig) || !(a->flags & SA_RESETHAND)))
		return h;
	/* a child of vfork() uses up none but its own */
	if (sandbox_careful() || ours()) {
		/*
		 * of two threads that fault at once one wins: else @h is
		 * updated
		 */
		atomic_compare_exchange_strong(&a->handler, &h,
					       (action_fn *)(uintptr_t)SIG_DFL);
	} else {
		sa.sa_flags = a->flags;
		real.sigaction(sig, &sa, NULL);
	}
	errno = saved;
	return h;
}

ENTRY static void came(int sig, siginfo_t *si, void *uc, struct action *a)
{
	bool coming = sig_thread.coming;
	/* what was sent is about no instruction, and can wait */
	bool now = raised() & bit(sig) && si->si_code > 0, done;
	uintptr_t held;
	action_fn *h;
	int used;

	sig_thread.coming = true;
	l5_signal_fence();
	if (now)
		done = l5_copy_fault && l5_copy_fault(sig, si, uc);
	else
		done = inside(uc, coming) && later(sig, si, uc, a);
	if (done) {
		l5_signal_fence();
		sig_thread.coming = coming;
		return;
	}
	h = take_handler(sig, a);
	if (l5_unlikely((uintptr_t)h == (uintptr_t)SIG_DFL)) {
		by_default(sig, si, uc);
		sig_thread.coming = coming;
		return;
	}
	l5_signal_came(!(atomic_load_explicit(&a->flags,
					      memory_order_relaxed) &
			 SA_RESTART));
	/* within it there is nothing to be put back for */
	held = sig_thread.held;
	sig_thread.held = 0;
	used = fd_used_open();
	l5_signal_fence();
	sig_thread.coming = false;
	h(sig, si, uc);
	fd_used_again(used);
	sig_thread.held = held;
	l5_signal_fence();
	sig_thread.coming = coming;
}

ENTRY static void entry_0(int sig, siginfo_t *si, void *uc)
{
	came(sig, si, uc, &actions[0][sig]);
}

ENTRY static void entry_1(int sig, siginfo_t *si, void *uc)
{
	came(sig, si, uc, &actions[1][sig]);
}

static action_fn *const entries[2] = { entry_0, entry_1 };

/* Setting them */

static bool ours(void)
{
	int pid;

	if (l5_unlikely(!owner))
		return false;
	pid = syscall(SYS_getpid);
	/* a child of clone(), which was not told */
	if (l5_unlikely(!atomic_load(owner)))
		atomic_store(owner, pid);
	return atomic_load(owner) == pid;
}

/* One thread at a time, and no handlers meanwhile. Returns the mask. */
static uint64_t begin(void)
{
	static const uint64_t all = ~0ull;
	uint64_t mask = set_mask(SIG_BLOCK, &all);
	int pid = syscall(SYS_getpid), old = 0;

	/* a thread may have had it when its process forked */
	while (!atomic_compare_exchange_strong(&lock, &old, pid)) {
		if (old != pid &&
		    atomic_compare_exchange_strong(&lock, &old, pid))
			break;
		syscall(SYS_sched_yield);
		old = 0;
	}
	return mask;
}

static void end(uint64_t mask)
{
	atomic_store(&lock, 0);
	set_mask(SIG_SETMASK, &mask);
}

/* Which of our handlers is it? -1: none */
static int entry_of(const struct sigaction *sa)
{
	if (sa->sa_sigaction == entry_0)
		return 0;
	return sa->sa_sigaction == entry_1 ? 1 : -1;
}

/* What the program is to hear; @last was the latest of our handlers. */
static void translate(int sig, struct sigaction *sa, int last)
{
	int k = entry_of(sa);

	if (k >= 0)
		sa->sa_sigaction = actions[k][sig].handler;
	else if (sa->sa_handler == SIG_DFL && sa->sa_flags & SA_RESETHAND)
		k = last - 1;
	if (k >= 0)
		sa->sa_flags = (sa->sa_flags & ~actions[k][sig].added) |
			       (actions[k][sig].flags & SA_RESETHAND);
}

static bool bare(const struct sigaction *sa)
{
	return sa->sa_handler == SIG_DFL || sa->sa_handler == SIG_IGN;
}

/*
 * Set our handler for that action; @old is what the kernel had, and @hide what
 * it is not to tell of. The lock is ours.
 */
static int wrap(int sig, const struct sigaction *act, struct sigaction *old,
		int hide)
{
	struct sigaction sa = *act;
	int k, add = SA_SIGINFO;
	struct action *a;

	if (real.sigaction(sig, NULL, old))
		return -1;
	k = !entry_of(old);
	a = &actions[k][sig];
	/* of a program that asked the kernel for the other */
	translate(sig, &sa, 0);
	if (sa.sa_handler == SIG_DFL)
		add |= SA_ONSTACK | SA_NODEFER | SA_RESTART;
	atomic_store(&a->handler, sa.sa_sigaction);
	atomic_store(&a->flags, sa.sa_flags);
	atomic_store(&a->added, (add | hide) & ~sa.sa_flags);
	sa.sa_flags |= add;
	if (raised_by_copy(sig))
		sa.sa_flags &= ~SA_RESETHAND;
	sa.sa_sigaction = entries[k];
	atomic_store(&latest[sig], k + 1);
	return real.sigaction(sig, &sa, old);
}

static void set_again(int sig, const struct action *a)
{
	uint64_t mask = begin();
	struct sigaction sa;

	/* unless another thread has set something meanwhile */
	if (!real.sigaction(sig, NULL, &sa) && sa.sa_handler == SIG_DFL &&
	    sa.sa_flags & SA_RESETHAND) {
		sa.sa_sigaction = entries[a == &actions[1][sig]];
		real.sigaction(sig, &sa, NULL);
	}
	end(mask);
}

/* The kernel's default, but for signals that we have to hear of. */
static bool to_hear(int sig, const struct sigaction *sa)
{
	return sa->sa_handler == SIG_DFL && raised_by_copy(sig) &&
	       atomic_load(&mapped);
}

EXPORT int sigaction(int sig, const struct sigaction *act,
		     struct sigaction *old)
{
	struct sigaction sa, was;
	int ret, last;
	uint64_t mask;

	if (sig < 1 || sig > SIGNALS || internal(sig))
		return real.sigaction(sig, act, old);
	last = atomic_load(&latest[sig]);
	if (!act || (!last && bare(act) && !to_hear(sig, act)) ||
	    sandbox_careful() || !ours()) {
		ret = real.sigaction(sig, act, old);
		if (!ret && old)
			translate(sig, old, last);
		return ret;
	}
	/* both pointers may be the same */
	sa = *act;
	mask = begin();
	last = atomic_load(&latest[sig]);
	if (!bare(&sa) || to_hear(sig, &sa)) {
		ret = wrap(sig, &sa, &was, 0);
	} else {
		ret = real.sigaction(sig, &sa, &was);
		if (!ret)
			atomic_store(&latest[sig], 0);
	}
	if (!ret && old) {
		translate(sig, &was, last);
		*old = was;
	}
	end(mask);
	return ret;
}

int __sigaction(int sig, const struct sigaction *act, struct sigaction *old);
EXPORT int __sigaction(int sig, const struct sigaction *act,
		       struct sigaction *old)
{
	return sigaction(sig, act, old);
}

/* Set a handler by one of the old functions; returns the one before. */
static __sighandler_t set(int sig, __sighandler_t handler, int flags,
			  bool defer)
{
	struct sigaction sa = { .sa_handler = handler, .sa_flags = flags }, old;

	if (handler == SIG_ERR || sig < 1 || sig > SIGNALS) {
		errno = EINVAL;
		return SIG_ERR;
	}
	sigemptyset(&sa.sa_mask);
	if (defer)
		sigaddset(&sa.sa_mask, sig);
	return sigaction(sig, &sa, &old) ? SIG_ERR : old.sa_handler;
}

EXPORT __sighandler_t signal(int sig, __sighandler_t handler)
{
	bool ends = sig > 0 && sig <= SIGNALS &&
		    atomic_load(&interrupting) & bit(sig);

	return set(sig, handler, ends ? 0 : SA_RESTART, true);
}

__sighandler_t bsd_signal(int sig, __sighandler_t handler);
EXPORT __sighandler_t bsd_signal(int sig, __sighandler_t handler)
{
	return signal(sig, handler);
}

EXPORT __sighandler_t ssignal(int sig, __sighandler_t handler)
{
	return signal(sig, handler);
}

EXPORT __sighandler_t __sysv_signal(int sig, __sighandler_t handler)
{
	return set(sig, handler, SA_RESETHAND | SA_NODEFER | SA_INTERRUPT,
		   false);
}

EXPORT __sighandler_t sysv_signal(int sig, __sighandler_t handler)
{
	return __sysv_signal(sig, handler);
}

EXPORT __sighandler_t sigset(int sig, __sighandler_t handler)
{
	struct sigaction old;
	__sighandler_t ret;
	uint64_t mask, was;

	if (sig < 1 || sig > SIGNALS || internal(sig)) {
		errno = EINVAL;
		return SIG_ERR;
	}
	mask = bit(sig);
	if (handler == SIG_HOLD) {
		was = set_mask(SIG_BLOCK, &mask);
		if (was & mask)
			return SIG_HOLD;
		return sigaction(sig, NULL, &old) ? SIG_ERR : old.sa_handler;
	}
	ret = set(sig, handler, 0, false);
	if (ret == SIG_ERR)
		return ret;
	was = set_mask(SIG_UNBLOCK, &mask);
	return was & mask ? SIG_HOLD : ret;
}

EXPORT int siginterrupt(int sig, int on)
{
	struct sigaction sa;

	if (sigaction(sig, NULL, &sa))
		return -1;
	if (on) {
		atomic_fetch_or(&interrupting, bit(sig));
		sa.sa_flags &= ~SA_RESTART;
	} else {
		atomic_fetch_and(&interrupting, ~bit(sig));
		sa.sa_flags |= SA_RESTART;
	}
	return sigaction(sig, &sa, NULL);
}

/* At the start, and later */

void sig_mapped(void)
{
	struct sigaction sa;
	int saved = errno, sig;
	uint64_t mask;

	if (l5_likely(atomic_load(&mapped)) || !ours())
		return;
	mask = begin();
	for (sig = 1; !atomic_load(&mapped) && sig <= SIGNALS; sig++) {
		if (internal(sig) || real.sigaction(sig, NULL, &sa) ||
		    entry_of(&sa) >= 0)
			continue;
		/* an ignored signal would be ignored after an exec(), too */
		if (!bare(&sa))
			wrap(sig, &sa, &sa, 0);
		else if (raised_by_copy(sig) && sa.sa_handler == SIG_DFL)
			wrap(sig, &sa, &sa, SA_RESTORER);
	}
	atomic_store(&mapped, true);
	end(mask);
	errno = saved;
}

void sig_in_child(void)
{
	sig_thread = (struct sig_thread){ 0 };
	if (owner)
		atomic_store(owner, (int)syscall(SYS_getpid));
}

/* What other libraries' constructors set before is found by sig_mapped(). */
void sig_start(void)
{
	long page = sysconf(_SC_PAGESIZE);
	void *word = mmap(NULL, page, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (word == MAP_FAILED)
		return;
	if (madvise(word, page, MADV_WIPEONFORK)) {
		munmap(word, page);
		return;
	}
	owner = word;
	sig_in_child();
}
