/* SPDX-License-Identifier: GPL-2.0 */
/* What every test program of AF_L5 may need. */
#ifndef L5TEST_H
#define L5TEST_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <unistd.h>

#include "l5.h"
#include "l5_counts.h"

/* The family number the module says it has. */
int l5_family(void);

/* Is AF_L5 usable here? */
bool l5_present(void);

/*
 * For a fixture's set-up: without AF_L5 the test ends here, as skipped, or as
 * failed if L5_REQUIRED is set.
 */
void l5_or_skip(void);

/* An option of SOL_L5 that is an int; -errno if it cannot be read. */
int l5_getopt(int fd, int opt);

/*
 * The transport of a connection, once it is decided: waits for that, a few
 * seconds at most. -errno if @fd is no AF_L5 socket.
 */
int l5_transport(int fd);

/* A line of /proc/net/l5_stat; -1 without it. */
long long l5_stat(const char *name);

/* A line of /proc/meminfo; -1 without it. */
long long l5_memory_kb(const char *name);

/* Write to /proc/sys/net/l5/@name; the value before, or -1. */
long l5_sysctl(const char *name, long value);

/* The number that a file begins with, as those of /sys do; or -1. */
long long l5_number(const char *path);

/* References to the module, and its sockets; -1 without it. */
long long l5_references(void);
long long l5_sockets(void);

/* Let this thread's @n-th allocation from now on fail; 0: none. */
bool l5_fail_nth(int n);

/* How much longer than usual things may take here (a debug kernel: 4). */
int l5_slow(void);

/*
 * Wait until thread @tid (any process) sleeps in the kernel, be it where only a
 * signal that kills ends it; false if it has ended, or never does. The first
 * thread of a process, in which tests run, has the number of the process.
 */
bool l5_wait_asleep(pid_t tid);

/* pthread_create(), by which also the number of the thread is known; or -1. */
pid_t l5_thread_start(pthread_t *t, const pthread_attr_t *attr,
		      void *(*fn)(void *), void *arg);

/* waitpid() that ends what hangs: the status, or -1 after killing it. */
int l5_reap(pid_t pid);

/*
 * Wait, as long as @ms, until a number of the kernel's is from @least to @most;
 * says what it was if it never is.
 */
bool l5_comes_back(long long (*what)(void), long long least, long long most,
		   int64_t ms);

/* Wait for a condition, as long as @ms; its last value. */
#define L5_UNTIL(cond, ms) ({						\
	int64_t end_ = l5_now_ms() + (ms);				\
									\
	while (!(cond) && l5_now_ms() < end_)				\
		usleep(500);						\
	(cond);								\
})

/* Milliseconds of the monotonic clock. */
int64_t l5_now_ms(void);

/*
 * Say that something is wrong that no noise makes: bytes lost, doubled or
 * changed, an error that came as an orderly end, a leak, a hang. A test that
 * fails after it is not asked again, see ../judge. If it passes, it meant
 * nothing.
 */
void l5_fatal(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Bytes that depend on their position, so that loss or order shows. */
uint8_t l5_byte(uint64_t pos);
void l5_fill(void *buf, size_t len, uint64_t pos);

/*
 * Are the bytes right? The offset of the first wrong byte, which is fatal, or
 * -1.
 */
ssize_t l5_check(const void *buf, size_t len, uint64_t pos);

/* The same, and says nothing. */
ssize_t l5_wrong(const void *buf, size_t len, uint64_t pos);

/* xorshift: @s is the seed, not 0, and each thread has its own. */
unsigned int l5_rnd(uint64_t *s);
uint64_t l5_rnd64(uint64_t *s);

/* A number of the environment, or @none. */
uint64_t l5_setting(const char *name, uint64_t none);

/* A seed to begin with: L5_SEED, or one that no other run had; says which. */
uint64_t l5_seed(void);

/* Checksum; start with 0. */
uint64_t l5_hash(uint64_t h, const void *buf, size_t len);

#endif /* L5TEST_H */
