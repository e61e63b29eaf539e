// SPDX-License-Identifier: GPL-2.0
#include <fcntl.h>
#include <linux/kcov.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "exec.h"

/* Words of the buffer; of a program that reaches more the rest is not seen. */
#define ROOM	(256UL << 10)

static int kcov = -1;
static unsigned long *area;

bool fz_cover_open(void)
{
	kcov = open("/sys/kernel/debug/kcov", O_RDWR | O_CLOEXEC);
	if (kcov < 0)
		return false;
	if (ioctl(kcov, KCOV_INIT_TRACE, ROOM))
		goto failed;
	kcov = fz_own_fd(kcov);
	area = mmap(NULL, ROOM * sizeof(*area), PROT_READ | PROT_WRITE,
		    MAP_SHARED, kcov, 0);
	if (area == MAP_FAILED)
		goto failed;
	return true;

failed:
	close(kcov);
	kcov = -1;
	return false;
}

void fz_cover_start(void)
{
	if (kcov < 0)
		return;
	ioctl(kcov, KCOV_ENABLE, KCOV_TRACE_PC);
	__atomic_store_n(&area[0], 0, __ATOMIC_RELAXED);
}

/* Two workers may both take it for theirs, which does no harm. */
static bool first(uint8_t *byte, uint32_t *count)
{
	if (*byte)
		return false;
	*byte = 1;
	__atomic_add_fetch(count, 1, __ATOMIC_RELAXED);
	return true;
}

uint32_t fz_cover_stop(struct fz_cover *v)
{
	unsigned long i, n;
	uint32_t new = 0;

	if (kcov < 0)
		return 0;
	n = __atomic_load_n(&area[0], __ATOMIC_RELAXED);
	ioctl(kcov, KCOV_DISABLE, 0);
	for (i = 1; i <= n && i < ROOM; i++)
		new += first(&v->pc[fz_mix(area[i]) % sizeof(v->pc)], &v->pcs);
	return new;
}

/* What of a call's words says which kind of it this is */
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
