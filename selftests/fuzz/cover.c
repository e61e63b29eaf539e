// SPDX-License-Identifier: GPL-2.0
#include <fcntl.h>
#include <linux/kcov.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "exec.h"

/* Words of a buffer; of a program that reaches more the rest is not seen. */
#define ROOM	(256UL << 10)

/* Of what this thread does in its calls */
static int kcov = -1;
static unsigned long *area;

/* Of what softirqs do in its network namespace, see kmod/cover.h */
static int far_kcov = -1;
static unsigned long *far_area;

static int open_area(unsigned long **to)
{
	int fd = open("/sys/kernel/debug/kcov", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return -1;
	if (ioctl(fd, KCOV_INIT_TRACE, ROOM))
		goto failed;
	fd = fz_own_fd(fd);
	*to = mmap(NULL, ROOM * sizeof(**to), PROT_READ | PROT_WRITE,
		   MAP_SHARED, fd, 0);
	if (*to == MAP_FAILED)
		goto failed;
	return fd;

failed:
	close(fd);
	return -1;
}

/*
 * A task has one kcov, so another task has this one, and does nothing else. Its
 * end is the end of the coverage.
 */
static void *far_thread(void *arg)
{
	struct kcov_remote_arg remote = {
		.trace_mode = KCOV_TRACE_PC,
		.area_size = ROOM,
	};
	sigset_t all;
	struct stat st;

	(void)arg;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	if (stat("/proc/self/ns/net", &st))
		return NULL;
	remote.common_handle = kcov_remote_handle(KCOV_SUBSYSTEM_COMMON,
						  st.st_ino);
	if (ioctl(far_kcov, KCOV_REMOTE_ENABLE, &remote)) {
		perror("# fuzz: no coverage of softirqs");
		return NULL;
	}
	for (;;)
		pause();
}

bool fz_cover_open(void)
{
	pthread_t id;

	kcov = open_area(&area);
	if (kcov < 0)
		return false;
	far_kcov = open_area(&far_area);
	if (far_kcov >= 0 && pthread_create(&id, NULL, far_thread, NULL)) {
		close(far_kcov);
		far_kcov = -1;
	}
	return true;
}

void fz_cover_start(void)
{
	if (kcov < 0)
		return;
	ioctl(kcov, KCOV_ENABLE, KCOV_TRACE_PC);
	__atomic_store_n(&area[0], 0, __ATOMIC_RELAXED);
}

/* Two workers may both take a place for theirs, which does no harm. */
static bool first(uint8_t *byte, uint32_t *count)
{
	if (*byte)
		return false;
	*byte = 1;
	__atomic_add_fetch(count, 1, __ATOMIC_RELAXED);
	return true;
}

static uint32_t look(struct fz_cover *v, const unsigned long *at)
{
	unsigned long i, n = __atomic_load_n(&at[0], __ATOMIC_RELAXED);
	uint32_t new = 0;

	for (i = 1; i <= n && i < ROOM; i++)
		new += first(&v->pc[fz_mix(at[i]) % sizeof(v->pc)], &v->pcs);
	return new;
}

uint32_t fz_cover_stop(struct fz_cover *v)
{
	uint32_t new, before;

	if (kcov < 0)
		return 0;
	ioctl(kcov, KCOV_DISABLE, 0);
	new = look(v, area);
	if (far_kcov < 0)
		return new;
	before = v->pcs;
	new += look(v, far_area);
	v->far_pcs += v->pcs - before;
	__atomic_store_n(&far_area[0], 0, __ATOMIC_RELAXED);
	return new;
}

/* The part of a call's words that says which kind of call this is */
static uint64_t sort(const struct fz_call *c)
{
	switch (c->op) {
	case FZ_GETOPT:
	case FZ_SETOPT:
		return c->a | c->b << 8;
	case FZ_SEND:
	case FZ_RECV:
		return c->v & 0xff;
	case FZ_IOCTL:
	case FZ_FCNTL:
	case FZ_FILE_CALL:
	case FZ_MADVISE:
	case FZ_MMAP:
	case FZ_URING:
	case FZ_SYSCTL:
		return c->a & 0xff;
	case FZ_LISTENER:
	case FZ_DIAL:
	case FZ_CONNECT:
	case FZ_BIND:
	case FZ_PAIR:
		return c->a;
	default:
		return 0;
	}
}

/* An error, none, or how a new connection is carried */
static uint64_t end(const struct fz_call *c, long ret)
{
	if (ret < 0)
		return -ret;
	if (c->op == FZ_PAIR || c->op == FZ_ACCEPT)
		return 1000 + ret;
	return ret ? 0 : 999;
}

bool fz_cover_outcome(struct fz_cover *v, const struct fz_call *c,
		      unsigned int before, long ret)
{
	uint64_t h = fz_mix(c->op | (uint64_t)before << 8 | sort(c) << 16);

	h = fz_mix(h ^ end(c, ret));
	return first(&v->outcome[h % sizeof(v->outcome)], &v->outcomes);
}

void fz_cover_keep(struct fz_cover *v, const struct fz_prog *p)
{
	uint32_t at = __atomic_fetch_add(&v->kept, 1, __ATOMIC_RELAXED);

	v->corpus[at % FZ_CORPUS] = *p;
}

const struct fz_prog *fz_cover_some(struct fz_cover *v, struct fz_rnd *r)
{
	uint32_t n = __atomic_load_n(&v->kept, __ATOMIC_RELAXED);
	const struct fz_prog *p;

	if (!n)
		return NULL;
	p = &v->corpus[fz_below(r, n < FZ_CORPUS ? n : FZ_CORPUS)];
	/* another worker may be about to write it */
	return p->n && p->n <= FZ_CALLS ? p : NULL;
}
