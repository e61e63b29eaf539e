// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "l5test.h"

int l5_family(void)
{
	FILE *f = fopen(L5_FAMILY_PATH, "re");
	int n = L5_FAMILY_DEFAULT;

	if (f) {
		if (fscanf(f, "%d", &n) != 1)
			n = L5_FAMILY_DEFAULT;
		fclose(f);
	}
	return n;
}

bool l5_present(void)
{
	int fd = socket(l5_family(), SOCK_STREAM, L5PROTO_INET);

	if (fd < 0)
		return false;
	close(fd);
	return true;
}

void l5_or_skip(void)
{
	if (l5_present())
		return;
	if (!getenv("L5_REQUIRED"))
		_exit(255);
	fprintf(stderr, "# no AF_L5 here\n");
	_exit(1);
}

int l5_getopt(int fd, int opt)
{
	int v = 0;
	socklen_t len = sizeof(v);

	return getsockopt(fd, SOL_L5, opt, &v, &len) ? -errno : v;
}

int l5_transport(int fd)
{
	int64_t end = l5_now_ms() + 30000 * l5_slow();
	int t;

	do {
		t = l5_getopt(fd, L5_TRANSPORT);
		if (t != L5_TRANSPORT_NONE)
			break;
		usleep(1000);
	} while (l5_now_ms() < end);
	return t;
}

long long l5_stat(const char *name)
{
	FILE *f = fopen("/proc/net/l5_stat", "re");
	long long v, r = -1;
	char key[64];

	if (!f)
		return -1;
	while (fscanf(f, "%63s %lld", key, &v) == 2)
		if (!strcmp(key, name))
			r = v;
	fclose(f);
	return r;
}

long l5_sysctl(const char *name, long value)
{
	char path[96];
	long old = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/sys/net/l5/%s", name);
	f = fopen(path, "r+e");
	if (!f)
		return -1;
	if (fscanf(f, "%ld", &old) != 1)
		old = -1;
	rewind(f);
	fprintf(f, "%ld\n", value);
	if (fclose(f))
		return -1;
	return old;
}

int l5_slow(void)
{
	const char *s = getenv("L5_SLOW");
	int n = s ? atoi(s) : 1;

	return n > 0 ? n : 1;
}

bool l5_wait_asleep(pid_t tid)
{
	int64_t end = l5_now_ms() + 60000 * l5_slow();
	int in_a_row = 0;
	char path[64], buf[512], *p;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", tid);
	while (l5_now_ms() < end) {
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return false;
		n = read(fd, buf, sizeof(buf) - 1);
		close(fd);
		if (n <= 0)
			return false;
		buf[n] = 0;
		p = strrchr(buf, ')');
		if (!p || p[2] == 'Z' || p[2] == 'X')
			return false;
		in_a_row = p[2] == 'S' || p[2] == 'D' ? in_a_row + 1 : 0;
		if (in_a_row == 5)
			return true;
		usleep(2000);
	}
	return false;
}

struct start {
	void *(*fn)(void *arg);
	void *arg;
	pid_t tid;
};

static void *started(void *arg)
{
	struct start *st = arg;
	void *(*fn)(void *arg) = st->fn;

	arg = st->arg;
	/* @st is the starter's, which goes on from here */
	__atomic_store_n(&st->tid, gettid(), __ATOMIC_RELEASE);
	return fn(arg);
}

pid_t l5_thread_start(pthread_t *t, const pthread_attr_t *attr,
		      void *(*fn)(void *), void *arg)
{
	struct start st = { fn, arg, 0 };
	pid_t tid;

	if (pthread_create(t, attr, started, &st))
		return -1;
	while (!(tid = __atomic_load_n(&st.tid, __ATOMIC_ACQUIRE)))
		usleep(100);
	return tid;
}

int64_t l5_now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

void l5_fatal(const char *fmt, ...)
{
	char text[200];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	fprintf(stderr, "# FATAL: %s\n", text);
}

uint8_t l5_byte(uint64_t pos)
{
	/* Differs between neighbours, pages and megabytes. */
	return (pos * 0x9e3779b97f4a7c15ULL + (pos >> 12) * 31) >> 56;
}

void l5_fill(void *buf, size_t len, uint64_t pos)
{
	uint8_t *p = buf;
	size_t i;

	for (i = 0; i < len; i++)
		p[i] = l5_byte(pos + i);
}

ssize_t l5_wrong(const void *buf, size_t len, uint64_t pos)
{
	const uint8_t *p = buf;
	size_t i;

	for (i = 0; i < len; i++)
		if (p[i] != l5_byte(pos + i))
			return i;
	return -1;
}

ssize_t l5_check(const void *buf, size_t len, uint64_t pos)
{
	ssize_t at = l5_wrong(buf, len, pos);

	if (at >= 0)
		l5_fatal("wrong byte at %llu", (unsigned long long)pos + at);
	return at;
}

uint64_t l5_hash(uint64_t h, const void *buf, size_t len)
{
	const uint8_t *p = buf;
	size_t i;

	for (i = 0; i < len; i++)
		h = (h ^ p[i] ^ 0xcbf29ce484222325ULL) * 0x100000001b3ULL;
	return h;
}

uint64_t l5_rnd64(uint64_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 7;
	*s ^= *s << 17;
	return *s;
}

unsigned int l5_rnd(uint64_t *s)
{
	return l5_rnd64(s) >> 32;
}

uint64_t l5_setting(const char *name, uint64_t none)
{
	const char *s = getenv(name);

	return s ? strtoull(s, NULL, 0) : none;
}

uint64_t l5_seed(void)
{
	uint64_t seed;

	if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		abort();
	seed = l5_setting("L5_SEED", seed) | 1;
	printf("# L5_SEED=%#llx\n", (unsigned long long)seed);
	/* tests end by _exit() */
	fflush(stdout);
	return seed;
}

long long l5_number(const char *path)
{
	FILE *f = fopen(path, "re");
	long long v = -1;

	if (f && fscanf(f, "%lld", &v) != 1)
		v = -1;
	if (f)
		fclose(f);
	return v;
}

long long l5_memory_kb(const char *name)
{
	FILE *f = fopen("/proc/meminfo", "re");
	char key[64];
	long long v, r = -1;

	while (f && fscanf(f, "%63[^:]: %lld%*[^\n]\n", key, &v) == 2)
		if (!strcmp(key, name))
			r = v;
	if (f)
		fclose(f);
	return r;
}

long long l5_references(void)
{
	return l5_number("/sys/module/af_l5/refcnt");
}

bool l5_fail_nth(int n)
{
	int fd = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
	bool ok = fd >= 0 && dprintf(fd, "%d", n) > 0;

	if (fd >= 0)
		close(fd);
	return ok;
}

long long l5_sockets(void)
{
	FILE *f = fopen("/proc/net/protocols", "re");
	char line[256], name[32];
	long long n = -1, v;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "%31s %*d %lld", name, &v) == 2 &&
		    !strcmp(name, "L5"))
			n = v;
	if (f)
		fclose(f);
	return n;
}

bool l5_comes_back(long long (*what)(void), long long least, long long most,
		   int64_t ms)
{
	int64_t end = l5_now_ms() + ms;
	long long n;

	for (;;) {
		n = what();
		if (n >= least && n <= most)
			return true;
		if (l5_now_ms() > end) {
			fprintf(stderr, "# %lld, not %lld\n", n, most);
			return false;
		}
		usleep(50000);
	}
}

int l5_reap(pid_t pid)
{
	int64_t end = l5_now_ms() + 40000 * l5_slow();
	int status = -1;

	while (waitpid(pid, &status, WNOHANG) == 0) {
		if (l5_now_ms() > end) {
			l5_fatal("process %d hangs", pid);
			kill(pid, SIGKILL);
			/* a process that not even a kill ends is left behind */
			for (end += 3000; l5_now_ms() < end; usleep(1000))
				if (waitpid(pid, &status, WNOHANG))
					break;
			return -1;
		}
		usleep(1000);
	}
	return status;
}
